"""The claims of docs/tensors/random_numbers.md."""

import itertools
import math
import sys
from functools import cache
from subprocess import PIPE, Popen

import pytest
import torch

from extensions.evidence.counterexamples import edits
from extensions.evidence.versions import true_since

FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGER = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


def instead_of(old, *others):
    """Try several things in the place of one passage."""
    return edits(*((old, new) for new in others))


def are_equal(one, other):
    """Return whether all tensors of two lists are equal."""
    return all(map(torch.equal, one, other))


def is_even(counts):
    """Return whether counts of a draw are equal, but for chance."""
    share = sum(counts) / len(counts)
    spread = math.sqrt(share * (1 - 1 / len(counts)))
    return all(abs(each - share) <= 6 * spread for each in counts)


# Chance


def test_rand_is_uniform(snippet, dtypes=(torch.float32, torch.float64)):
    run = snippet.after("chance")

    is_uniform(run.uniform)
    for dtype in dtypes:
        is_uniform(torch.rand(2_000_000, dtype=dtype))
        is_uniform(torch.rand(50, 1000, dtype=dtype))


def test_rand_is_uniform__also_in_float16(snippet):
    test_rand_is_uniform(snippet, [torch.float16])


def test_rand_is_uniform__ends_in_bfloat16(snippet, fails):
    """`bfloat16` has too few digits: `rand` repeats a few hundred numbers."""
    fails(test_rand_is_uniform, snippet, [torch.bfloat16])


def is_uniform(numbers):
    """Check that numbers lie evenly between 0 and 1."""
    numbers = numbers.double().flatten()
    assert 0 <= numbers.min() < 0.003
    assert 0.992 < numbers.max() < 1
    assert is_even((16 * numbers).long().bincount(minlength=16).tolist())
    assert abs(numbers.mean() - 0.5) < 6 / math.sqrt(12 * len(numbers))
    assert len(numbers.unique()) > 1000


@instead_of(
    "torch.rand(10_000)",
    "torch.randn(10_000)",
    "torch.rand(10_000) - 0.01",
    "torch.rand(10_000) * 0.99",
    "torch.rand(10_000).to(torch.bfloat16)",
    "torch.rand(10_000) ** 2",
    "1 - torch.rand(10_000) ** 0.9",
    "torch.rand(10_000, dtype=torch.complex64).abs()",
)
def test_rand_is_uniform__but_not_so(snippet, old, new, fails):
    """Another distribution, or numbers that you move, squeeze or round, are
    not uniform from 0 up to 1.
    """
    fails(test_rand_is_uniform, snippet.edit(old, new))


def test_randn_is_normal(snippet):
    run = snippet.after("chance")

    is_normal(run.normal)
    for dtype in FLOATING:
        is_normal(torch.randn(100_000, dtype=dtype))


def is_normal(numbers):
    """Check that as many numbers lie between bounds as should."""
    bounds = [-2, -1, 0, 1, 2]
    below = [0, *((1 + math.erf(b / math.sqrt(2))) / 2 for b in bounds), 1]
    counts = [0, *((numbers < b).sum().item() for b in bounds), len(numbers)]
    for (p, q), (a, b) in zip(
        itertools.pairwise(below), itertools.pairwise(counts), strict=True
    ):
        share, n = q - p, len(numbers)
        # Half types round some numbers across a bound.
        slack = 6 * math.sqrt(n * share * (1 - share)) + 0.002 * n
        assert abs(b - a - n * share) < slack


@instead_of(
    "torch.randn(10_000)",
    "torch.randn(10_000) + 1",
    "torch.randn(10_000) * 2",
    "(torch.rand(10_000) - 0.5) * 12**0.5",
    "torch.randn(10_000, dtype=torch.complex64).real",
)
def test_randn_is_normal__but_not_so(snippet, old, new, fails):
    """With another mean, another spread or another distribution, different
    shares lie between the bounds.
    """
    fails(test_randn_is_normal, snippet.edit(old, new))


def test_randint_stops_before_high(snippet):
    run = snippet.after("chance")

    is_drawn(run.dice, 1, 7)
    for low, high in ((0, 2), (-3, 4), (5, 6), (100, 120), (-9, 0)):
        is_drawn(torch.randint(low, high, (50, 200)), low, high)
    for low in (0, -(10**12)):
        wide = torch.randint(low, low + 10**6, (100_000,)) - low
        is_drawn(wide // 50_000, 0, 20)


def is_drawn(numbers, low, high):
    """Check that integers are drawn evenly."""
    assert numbers.dtype == torch.int64
    assert numbers.min() >= low
    assert numbers.max() < high
    counts = (numbers - low).flatten().bincount(minlength=high - low)
    assert is_even(counts.tolist())


@instead_of(
    "torch.randint(1, 7, (10_000,))",
    "torch.randint(1, 7, (10_000,)) + 1",
    "torch.randint(1, 7, (10_000,)) - 1",
    "torch.randint(1, 7, (10_000,)).clamp(max=5)",
    "(torch.rand(10_000) * 5 + 1).round().long()",
    "1 + 5 * torch.rand(10_000)",
)
def test_randint_stops_before_high__but_not_so(snippet, old, new, fails):
    """If you shift, clamp or round the numbers, they leave the range or are
    not equally likely.
    """
    fails(test_randint_stops_before_high, snippet.edit(old, new))


def test_randperm_shuffles(snippet):
    order = snippet.after("chance").order.tolist()

    assert sorted(order) == list(range(7))
    assert len({b - a for a, b in itertools.pairwise(order)}) > 2
    for n in (0, 1, 2, 50):
        assert sorted(torch.randperm(n).tolist()) == list(range(n))
    draws = [tuple(torch.randperm(3).tolist()) for _ in range(1200)]
    assert is_even(
        [draws.count(each) for each in itertools.permutations(range(3))]
    )


@instead_of(
    "torch.randperm(7)",
    "torch.arange(7)",
    "torch.randint(7, (7,))",
    "torch.randperm(7) + 1",
    "torch.randperm(6)",
    "(torch.arange(7) + torch.randint(3, ())) % 7",
)
def test_randperm_shuffles__but_not_so(snippet, old, new, fails):
    """If the numbers are in order, repeated, missing or rotated, it is not a
    random order.
    """
    fails(test_randperm_shuffles, snippet.edit(old, new))


def test_rand_stretches_to_a_range(snippet, more=()):
    run = snippet.after("stretch")

    assert torch.equal(run.temperatures, 15 + 10 * run.uniform)
    fills(run.temperatures, 15, 25)
    for low, high in (
        (0, 2),
        (-3, 4),
        (-1e-3, 1e-3),
        (1e6, 2e6),
        (-9, -8),
        *more,
    ):
        for dtype in (torch.float32, torch.float64):
            numbers = low + (high - low) * torch.rand(200_000, dtype=dtype)
            fills(numbers, low, high)


def test_rand_stretches_to_a_range__also_for_shifts(snippet):
    fills(snippet.after("shifts").shifts, -2, 2)


def test_rand_stretches_to_a_range__ends_without_digits(snippet, fails):
    """Between 1,000,000 and 1,000,001, `float32` has only 15 numbers."""
    fails(test_rand_stretches_to_a_range, snippet, [(1e6, 1e6 + 1)])


def fills(numbers, low, high):
    """Check that numbers lie evenly between two ends."""
    numbers = numbers.double()
    assert low <= numbers.min()
    assert numbers.max() <= high
    places = (16 * (numbers - low) / (high - low)).long().clamp(max=15)
    assert is_even(places.bincount(minlength=16).tolist())
    share = (numbers.mean() - low) / (high - low)
    assert abs(share - 0.5) < 6 / math.sqrt(12 * len(numbers))
    assert len(numbers.unique()) > min(1000, 0.9 * len(numbers))


STRETCHED = "15 + 10 * uniform"


@instead_of(
    STRETCHED,
    "15 + 25 * uniform",
    "10 * uniform + 10",
    "10 * (uniform + 15)",
    "15 + 10 * normal",
    "15 + 10 * uniform.round()",
)
def test_rand_stretches_to_a_range__but_not_so(snippet, old, new, fails):
    """With another width, another start or other numbers, the range is not 15
    to 25, or it is not filled evenly.
    """
    fails(test_rand_stretches_to_a_range, snippet.edit(old, new))


def test_randn_takes_a_mean(snippet):
    run = snippet.after("stretch")

    assert torch.equal(run.heights, 170 + 8 * run.normal)
    is_normal((run.heights - 170) / 8)
    for mean, std in ((0, 1), (5, 0.1), (-3, 20), (1e4, 1)):
        for dtype in (torch.float32, torch.float64):
            numbers = mean + std * torch.randn(100_000, dtype=dtype)
            is_normal((numbers - mean) / std)
            assert abs(numbers.double().mean() - mean) < 0.02 * std
            assert abs(numbers.double().std() / std - 1) < 0.02


@instead_of(
    "170 + 8 * normal",
    "170 + normal",
    "8 * (170 + normal)",
    "170 + 8**0.5 * normal",
    "170 + 8 * uniform",
    "8 * normal",
)
def test_randn_takes_a_mean__but_not_so(snippet, old, new, fails):
    """With another mean, the root of 8 or a flat distribution, different
    shares lie between the bounds.
    """
    fails(test_randn_takes_a_mean, snippet.edit(old, new))


# Seeds


def calls_in_order(seed, generator=None):
    """Return what some calls give, after a seed if there is one."""
    if seed is not None:
        torch.manual_seed(seed)
    return [
        torch.rand(3, generator=generator),
        torch.randn(5, generator=generator),
        torch.randn(100, generator=generator),
        torch.randint(1, 7, (9,), generator=generator),
        torch.randperm(40, generator=generator),
        torch.rand((), generator=generator),
    ]


TWICE = """\
again = torch.rand(3)
torch.manual_seed(1)
after = torch.rand(3)"""


def test_a_seed_repeats(snippet, size=5):
    run = snippet.after("seed")

    assert torch.equal(run.first, run.again)
    assert not torch.equal(run.first, run.after)
    for seed in (0, 1, 42, 2**40, -3):
        numbers = calls_in_order(seed)
        assert are_equal(calls_in_order(seed), numbers)
        torch.manual_seed(seed)
        torch.rand(3)
        assert not torch.equal(torch.rand(3), numbers[0])
        torch.manual_seed(seed)
        torch.rand(3)
        assert torch.equal(torch.randn(size)[:5], numbers[1])


def test_a_seed_repeats__ends_for_another_size(snippet, fails):
    """`randn(32)` begins with other numbers than `randn(5)`, even with the
    same seed.
    """
    fails(test_a_seed_repeats, snippet, 32)


@edits(
    ("torch.manual_seed(1)\nagain", "again"),
    ("torch.manual_seed(1)\nagain", "torch.manual_seed(3)\nagain"),
    ("again, after =", "after, again ="),
    ("first = torch.rand(3)", "first = torch.randn(3)"),
    ("again, after = torch.rand(3),", "again = after ="),
    ("again, after = torch.rand(3), torch.rand(3)", TWICE),
)
def test_a_seed_repeats__but_not_otherwise(snippet, old, new, fails):
    """Without the same seed, the same call and the same position, the numbers
    are different.
    """
    fails(test_a_seed_repeats, snippet.edit(old, new))


def test_generators_stand_apart(snippet):
    run = snippet.after("generator")
    same = torch.Generator().manual_seed(1)

    assert torch.equal(run.mine, torch.rand(3, generator=same))
    assert torch.equal(run.then, torch.rand(3, generator=same))
    assert torch.equal(run.between, calls_in_order(2)[0])
    for seed in (0, 7, 2**40):
        one, other = (torch.Generator().manual_seed(seed) for _ in range(2))
        usual = calls_in_order(5)
        torch.manual_seed(5)
        drawn = calls_in_order(None, one)
        assert are_equal(calls_in_order(None), usual)
        assert are_equal(calls_in_order(None, other), drawn)


OWN = "own = torch.Generator().manual_seed(1)"


@edits(
    (f"{OWN}\ntorch.manual_seed(2)", "own = torch.manual_seed(2)"),
    ("mine = torch.rand(3, generator=own)", "mine = torch.rand(3)"),
    ("then = torch.rand(3, generator=own)", "then = torch.rand(3)"),
)
def test_generators_stand_apart__but_not_the_shared_one(
    snippet, old, new, fails
):
    """If you draw from the shared generator, one draw moves the other."""
    fails(test_generators_stand_apart, snippet.edit(old, new))


def test_generators_stand_apart__but_not_under_two_names(snippet, fails):
    """`torch.manual_seed` returns the shared generator, not a new one."""
    edited = snippet.edit(OWN, "own = torch.manual_seed(1)")
    fails(test_generators_stand_apart, edited)


# What goes wrong


# What stands in the place of a seed, and what is drawn at the end. The seed
# comes last, since these programs follow each other in one process.
STARTS = [
    ("", "torch.rand(3)"),
    ("", "torch.rand(3, generator=torch.Generator())"),
    ("torch.manual_seed(0)", "torch.rand(3)"),
]


@cache
def outputs(snippet):
    """Return what the program prints, by start, in each of two processes."""
    code = ""
    for first, draw in STARTS:
        edited = snippet.edit("torch.manual_seed(0)\nnoise", f"{first}\nnoise")
        program = edited.cell("do-this").source
        code += f"{program}\nprint({draw})\nprint('over')\n"
    runs = [
        Popen([sys.executable, "-c", code], stdout=PIPE, text=True)
        for _ in range(2)
    ]
    said = [run.communicate()[0].split("over\n")[:-1] for run in runs]
    pairs = zip(*said, strict=True)
    return dict(zip(STARTS, pairs, strict=True))


def test_no_seed_no_repeat(snippet, first="", draw="torch.rand(3)"):
    one, other = map(str.splitlines, outputs(snippet)[first, draw])

    assert len(one) == len(other) > 2
    assert one[:2] != other[:2]
    assert one[-1] != other[-1]


def test_no_seed_no_repeat__but_not_with_a_seed(snippet, fails):
    """With `torch.manual_seed(0)`, both runs draw the same numbers."""
    fails(test_no_seed_no_repeat, snippet, "torch.manual_seed(0)")


def test_no_seed_no_repeat__ends_for_a_generator_of_your_own(snippet, fails):
    """A new `torch.Generator()` starts alike in every run, whether you set a
    seed or not.
    """
    draw = "torch.rand(3, generator=torch.Generator())"
    fails(test_no_seed_no_repeat, snippet, "", draw)


def test_an_extra_draw_moves_the_rest(snippet, size=1):
    run = snippet.after("extra-draw")

    assert run.moved[:2].tolist() == run.first[1:].tolist()
    assert run.moved[2] == run.after[0]
    for seed in (0, 1, 42):
        numbers = calls_in_order(seed)
        torch.manual_seed(seed)
        torch.rand(size)
        pairs = zip(numbers, calls_in_order(None), strict=True)
        assert not any(torch.equal(*each) for each in pairs)


@edits(
    ("torch.rand(1)  #", "torch.rand(0)  #"),
    ("torch.rand(1)  #", "torch.rand(1, generator=own)  #"),
    ("torch.rand(1)  #", "torch.manual_seed(1)  #"),
    ("moved = torch.rand(3)", "moved = torch.rand(3, generator=own)"),
)
def test_an_extra_draw_moves_the_rest__but_not_otherwise(
    snippet, old, new, fails
):
    """If the extra draw takes no number, uses another generator or comes
    before the seed, the later numbers stay; from another generator, they
    differ.
    """
    fails(test_an_extra_draw_moves_the_rest, snippet.edit(old, new))


def test_an_extra_draw_moves_the_rest__ends_for_no_numbers(snippet, fails):
    """`torch.rand(0)` draws no number, so nothing moves."""
    fails(test_an_extra_draw_moves_the_rest, snippet, 0)


def test_a_seed_in_a_loop_repeats(snippet):
    run = snippet.after("seed-once")

    assert len(run.repeated) == len(run.varied) == 3
    assert are_equal(run.repeated[:1] * 2, run.repeated[1:])
    assert len({tuple(order.tolist()) for order in run.varied}) == 3
    for draw in (torch.rand, torch.randn, torch.randperm):
        seeds = [torch.manual_seed(3) and draw(20) for _ in range(4)]
        assert are_equal(seeds[:1] * 3, seeds[1:])


IN_LOOP = """\
    torch.manual_seed(0)
    repeated.append(torch.randperm(5))"""


@edits(
    (IN_LOOP, IN_LOOP.replace("(0)", "(epoch)")),
    (IN_LOOP, "    repeated.append(torch.randperm(5))"),
    ("    varied.append(", "    torch.manual_seed(0)\n    varied.append("),
)
def test_a_seed_in_a_loop_repeats__but_not_otherwise(snippet, old, new, fails):
    """With a seed for each epoch, or one seed before the loop, the orders
    differ; in the loop, one seed repeats them.
    """
    fails(test_a_seed_in_a_loop_repeats, snippet.edit(old, new))


def test_new_generators_are_alike(snippet):
    run = snippet.after("new-generators")

    assert torch.equal(*run.alike)
    assert not torch.equal(run.alike[0], run.own.manual_seed(1) and run.mine)
    for moved in (0, 5):
        torch.manual_seed(moved)
        drawn = calls_in_order(None, torch.Generator())
        assert are_equal(calls_in_order(None, torch.Generator()), drawn)
        seeded = torch.Generator().manual_seed(moved)
        assert not are_equal(calls_in_order(None, seeded), drawn)


@edits(
    ("torch.Generator(), torch.Generator()", "torch.Generator(), own"),
    (
        "torch.Generator(), torch.Generator()",
        "torch.Generator(), torch.Generator().manual_seed(1)",
    ),
    ("generator=other)", "generator=one)"),
)
def test_new_generators_are_alike__but_not_seeded(snippet, old, new, fails):
    """A generator that you have seeded, or already drawn from, gives other
    numbers.
    """
    fails(test_new_generators_are_alike, snippet.edit(old, new))


@true_since("2.8", "it was a RuntimeError and no NotImplementedError")
def test_rand_like_refuses_integers(snippet):
    passage = (
        "except RuntimeError as error:\n    print(error)\n\n# %% floating"
    )
    uncaught = snippet.edit(passage, passage.replace("Runtime", "Key"))

    with pytest.raises(RuntimeError, match="'Long'") as caught:
        uncaught.after("like-integers")
    assert caught.type is NotImplementedError
    drawn = snippet.after("floating").drawn
    assert (drawn.shape, drawn.dtype) == ((2, 3), torch.float32)
    assert drawn.unique().numel() == 6
    assert 0 <= drawn.min() <= drawn.max() < 1
    for dtype in INTEGER:
        for draw in (torch.rand_like, torch.randn_like):
            with pytest.raises(RuntimeError) as caught:
                draw(torch.ones(2, 3, dtype=dtype))
            assert caught.type is NotImplementedError
            assert ("'Long'" in str(caught.value)) == (dtype == torch.int64)
            made = draw(torch.ones(100, dtype=dtype), dtype=torch.float32)
            assert made.dtype == torch.float32
            assert made.unique().numel() > 90
            low = made.min() < 0
            assert low == (draw == torch.randn_like)
            assert (made.max() < 1) == (draw == torch.rand_like)


@instead_of(
    "rand_like(counts)",
    "rand_like(counts, dtype=torch.float32)",
    "randn_like(counts.float())",
    "randint_like(counts, 9)",
    "rand_like(counts.int())",
    'rand_like(counts.to("meta"))',
)
def test_rand_like_refuses_integers__but_not_so(snippet, old, new, fails):
    """With another dtype or another call, there is no error, or a different
    one.
    """
    fails(test_rand_like_refuses_integers, snippet.edit(old, new))


@instead_of(
    "drawn = torch.rand_like(counts, ",
    "drawn = torch.zeros_like(counts, ",
    "drawn = torch.randn_like(counts, ",
    "drawn = torch.rand_like(counts[0], ",
)
def test_rand_like_refuses_integers__but_not_drawn_otherwise(
    snippet, old, new, fails
):
    """`zeros_like` draws nothing, `randn_like` goes beyond 0 to 1, and a row
    has another shape.
    """
    fails(test_rand_like_refuses_integers, snippet.edit(old, new))
