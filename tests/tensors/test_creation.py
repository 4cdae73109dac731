"""The claims of docs/tensors/creation.md."""

import itertools
import math
import random
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import true_since

FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
INTEGER = [*SIGNED, torch.uint8]
EVERY = [*FLOATING, *INTEGER, torch.bool]
DEVICES = ["cpu", "meta"]  # the second has shapes and dtypes, and no numbers
if torch.accelerator.is_available():
    DEVICES.append(torch.accelerator.current_accelerator().type)


def instead_of(old, *others):
    """Try several things in the place of one passage."""
    return edits(*((old, new) for new in others))


@contextmanager
def default(dtype):
    """Set the default dtype for a while."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def marked():
    """Let memory that nobody writes hold nan for a while."""
    torch.set_deterministic_debug_mode("error")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode("default")


def tensors():
    """Yield tensors of several dtypes, shapes and places in memory."""
    for dtype in EVERY:
        yield torch.ones(2, 3, dtype=dtype)
        yield torch.ones(2, 3, dtype=dtype).T
        yield torch.ones(6, dtype=dtype)[::2]
        yield torch.ones((), dtype=dtype)


def are_equal(one, other):
    """Return whether all tensors of two lists are equal."""
    return all(map(torch.equal, one, other))


def is_even(counts):
    """Return whether counts of a draw are equal, but for chance."""
    share = sum(counts) / len(counts)
    spread = math.sqrt(share * (1 - 1 / len(counts)))
    return all(abs(each - share) <= 6 * spread for each in counts)


def is_linked(copy, tensor):
    """Return whether a copy passes gradients on to a tensor."""
    if not copy.requires_grad:
        return False
    [grad] = torch.autograd.grad(copy.sum(), tensor, allow_unused=True)
    return grad is not None


# Do this


def test_patterns_fill_the_shape(snippet):
    run = snippet.after("do-this")

    assert run.rain.tolist() == [[0] * 7] * 2
    assert run.guess.tolist() == [20] * 7


@edits(
    ("torch.zeros(2, 7)", "torch.ones(2, 7)"),
    ("torch.zeros(2, 7)", "torch.zeros(2, 7).T"),
    ("torch.full((7,), 20.0)", "torch.full((7,), 20.0).cumsum(0)"),
    ("torch.full((7,), 20.0)", "torch.full((7,), 20.0)[None]"),
)
def test_patterns_fill_the_shape__but_not_otherwise(snippet, old, new, fails):
    fails(test_patterns_fill_the_shape, snippet.edit(old, new))


# How it works


def test_lists_give_the_shape(snippet):
    run = snippet.after("capital-right")

    assert run.number.shape == ()
    assert run.week.shape == (7,)
    assert run.places.shape == (2, 3)
    for value in (5, 2**63 - 1, 2.5, True, -1e300, 2j):
        assert torch.tensor(value).shape == ()
        for n, m in itertools.product(range(5), range(1, 5)):
            assert torch.tensor([value] * n).shape == (n,)
            assert torch.tensor([[value] * n] * m).shape == (m, n)


@edits(
    ("number = torch.tensor(3)", "number = torch.Tensor(3)"),
    ("18.5, 16.0, 15.5])", "18.5, 16.0, 15.5])[None]"),
    ("14.5, 13.0]])", "14.5, 13.0]]).T"),
)
def test_lists_give_the_shape__but_not_otherwise(snippet, old, new, fails):
    fails(test_lists_give_the_shape, snippet.edit(old, new))


# The dtype


def found(run, call):
    """Return the dtypes of a call of the table, whatever else it is given."""
    [row] = [
        (run.at_first[each], run.changed[each])
        for each in run.calls
        if each == call or each.startswith(f"{call[:-1]}, dtype")
    ]
    return row


def typed(snippet, call):
    """Return the snippet with a dtype for a call of the table."""
    return snippet.edit(f'"{call}"', f'"{call[:-1]}, dtype=torch.float16)"')


INTEGERS = [
    "tensor([17, 19])",
    "tensor([17, True])",
    "full((7,), 20)",
    "arange(7)",
    "randint(6, (7,))",
    "randperm(7)",
]


def test_integers_give_int64(snippet):
    run = snippet.after("dtypes")

    for call in INTEGERS:
        assert found(run, call) == (torch.int64, torch.int64)
    for dtype in FLOATING:
        with default(dtype):
            for number in (0, 5, -5, 2**63 - 1, -(2**63)):
                for values in (number, [number], [number, True], [[number]]):
                    tensor = torch.tensor(values)
                    assert tensor.dtype == torch.int64
                    assert tensor.flatten()[0] == number
                full = torch.full((2, 3), number)
                assert full.dtype == torch.int64
            for tensor in (
                torch.arange(0),
                torch.arange(8, 2, -2),
                torch.arange(2**63 - 3, 2**63 - 1),
                torch.randint(1, 7, (3,)),
                torch.randint(2, ()),
                torch.randperm(0),
            ):
                assert tensor.dtype == torch.int64


@pytest.mark.parametrize("call", INTEGERS)
def test_integers_give_int64__but_not_with_a_dtype(snippet, call, fails):
    fails(test_integers_give_int64, typed(snippet, call))


def test_booleans_give_bool(snippet):
    run = snippet.after("dtypes")

    assert found(run, "tensor([True, False])") == (torch.bool, torch.bool)
    for values in (True, [False], [True] * 3, [[True, False]] * 2):
        assert torch.tensor(values).dtype == torch.bool


def test_booleans_give_bool__but_not_with_a_dtype(snippet, fails):
    fails(test_booleans_give_bool, typed(snippet, "tensor([True, False])"))


DEFAULTS = [
    "zeros(7)",
    "ones(7)",
    "eye(7)",
    "empty(7)",
    "linspace(0, 1, 7)",
    "rand(7)",
    "randn(7)",
    "tensor([])",
    "tensor([17, 19.0])",
    "full((7,), 20.0)",
    "arange(7.0)",
]


def test_floats_follow_the_default(snippet):
    run = snippet.after("dtypes")

    for call in DEFAULTS:
        assert found(run, call) == (torch.float32, torch.float64)
    makers = (torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn)
    for dtype in FLOATING:
        with default(dtype):
            for tensor in (
                *(make(()) for make in makers),
                *(make(2, 3) for make in makers),
                *(make((0,)) for make in makers),
                *(torch.eye(1), torch.eye(2, 3), torch.eye(0)),
                *(torch.linspace(0, 1, n) for n in range(5)),
                *(torch.full((), 2.0), torch.full((2, 3), -0.5)),
                *(torch.arange(True, 8.0), torch.arange(2, 8, 0.5)),
                *(torch.tensor(0.0), torch.tensor([True, -0.5])),
                torch.tensor([[1, 2], [19.0, True]]),
            ):
                assert tensor.dtype == dtype


@pytest.mark.parametrize("call", DEFAULTS)
def test_floats_follow_the_default__but_not_with_a_dtype(snippet, call, fails):
    fails(test_floats_follow_the_default, typed(snippet, call))


LAYER = "torch.nn.Linear(1, 1)"


def test_layers_follow_the_default(snippet):
    run = snippet.after("dtypes")

    assert run.layer.weight.dtype == torch.float64
    assert run.layer.bias.dtype == torch.float64
    assert run.week.dtype == torch.float32
    for dtype in FLOATING:
        before = torch.zeros(2), *nn.Linear(2, 3).parameters()
        before += (*nn.Conv2d(1, 2, 3).parameters(),)
        with default(dtype):
            for layer in (nn.Linear(2, 3), nn.Conv2d(1, 2, 3)):
                assert {each.dtype for each in layer.parameters()} == {dtype}
            assert {each.dtype for each in before} == {torch.float32}


@edits(
    (LAYER, "torch.nn.Linear(1, 1, dtype=torch.float32)"),
    (LAYER, "torch.nn.Conv2d(1, 1, 1, dtype=torch.float32)"),
    (LAYER, f"{LAYER}\nlayer.bias = torch.nn.Parameter(layer.bias.float())"),
    ("changed, layer", "week = week.to(torch.float64)\nchanged, layer"),
)
def test_layers_follow_the_default__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_layers_follow_the_default, snippet.edit(old, new))


# A dtype and a device of your choice


def test_you_decide(snippet):
    run = snippet.after("ask")

    assert run.small.dtype == torch.float16
    assert run.small.device.type == run.device.type
    elsewhere = "torch.set_default_device('meta')\nsmall ="
    made = snippet.edit("small =", elsewhere).after("ask").small
    torch.set_default_device(None)
    assert made.device.type == run.device.type
    for device in DEVICES:
        for dtype in (*FLOATING, *INTEGER):
            to = {"dtype": dtype, "device": device}
            made = [
                *(torch.tensor(5, **to), torch.tensor([1.5, 2], **to)),
                *(torch.zeros(2, 3, **to), torch.ones(2, 3, **to)),
                *(torch.full((2,), 1.5, **to), torch.empty(4, **to)),
            ]
            if device != "meta":  # where these import a compiler: seconds
                made += [torch.arange(5, **to), torch.linspace(0, 9, 4, **to)]
            for tensor in made:
                assert tensor.dtype == dtype
                assert tensor.device.type == device


@edits(
    (", dtype=torch.float16, device", ", device"),
    ("device=device)", 'device="meta")'),
)
def test_you_decide__but_not_if_you_say_something_else(
    snippet, old, new, fails
):
    fails(test_you_decide, snippet.edit(old, new))


def test_like_takes_all_three(snippet):
    run = snippet.after("like")

    pairs = [(run.like, run.sunny)]
    for device, dtype in itertools.product(DEVICES, EVERY):
        for shape in ((), (0,), (2, 3)):
            tensor = torch.zeros(shape, dtype=dtype, device=device)
            pairs += [
                (torch.zeros_like(tensor), tensor),
                (torch.ones_like(tensor), tensor),
                (torch.empty_like(tensor), tensor),
                (torch.full_like(tensor, 1), tensor),
            ]
    for made, tensor in pairs:
        assert made.shape == tensor.shape
        assert made.dtype == tensor.dtype
        assert made.device == tensor.device
    assert run.like.tolist() == [[1] * 3] * 2


@instead_of(
    "ones_like(sunny)",
    "ones_like(sunny)[:1]",
    "ones(sunny.shape)",
    "ones_like(sunny, dtype=torch.int32)",
    'ones_like(sunny, device="meta")',
)
def test_like_takes_all_three__but_not_otherwise(snippet, old, new, fails):
    fails(test_like_takes_all_three, snippet.edit(old, new))


# Ranges


def test_arange_is_half_open(snippet):
    run = snippet.after("ranges")

    assert run.hours.tolist() == list(range(0, 24, 6))
    assert run.down.tolist() == list(range(5, 0, -2))
    draw = random.Random(0)
    most = 10**9 - 1
    ranges = list(itertools.product(range(-5, 6), range(-5, 6), range(-4, 5)))
    ranges += [(-most, most, most // 3), (most, -most, -most)]
    for _ in range(200):
        start, end = draw.randint(-most, most), draw.randint(-most, most)
        ranges.append((start, end, (end - start) // draw.randint(1, 99)))
    for start, end, step in ranges:
        if step * (end - start) > 0:
            numbers = torch.arange(start, end, step).tolist()
            assert numbers == list(range(start, end, step))


@edits(
    ("torch.arange(0, 24, 6)", "torch.linspace(0, 24, 5)"),
    ("torch.arange(0, 24, 6)", "torch.arange(0, 24, 6)[1:]"),
    ("torch.arange(5, 0, -2)", "torch.arange(5, 0, -2).sort().values"),
)
def test_arange_is_half_open__but_not_so(snippet, old, new, fails):
    fails(test_arange_is_half_open, snippet.edit(old, new))


def test_linspace_has_both_ends(snippet):
    run = snippet.after("ranges")

    is_spaced(run.points, 0, 1, 5)
    is_spaced(run.marks, -10, 40, 6)
    draw = random.Random(0)
    ends = [(0, 1), (3, 3), (7, -2), (0.1, 0.3), (-1000, 1000), (0, 1e-9)]
    ends += [(draw.uniform(-1e3, 1e3), draw.gauss(0, 9)) for _ in range(50)]
    for (start, end), n in itertools.product(ends, (2, 3, 7, 1000)):
        for dtype in (torch.float32, torch.float64):
            points = torch.linspace(start, end, n, dtype=dtype)
            is_spaced(points, start, end, n)
            with default(dtype):
                assert torch.equal(torch.linspace(start, end, n), points)


def is_spaced(points, start, end, n):
    """Check that points run from one end to the other."""
    assert points.is_floating_point()
    assert points.shape == (n,)
    assert points[0] == torch.tensor(start, dtype=points.dtype)
    assert points[-1] == torch.tensor(end, dtype=points.dtype)
    steps = torch.tensor(
        [start + (end - start) * i / (n - 1) for i in range(n)],
        dtype=torch.float64,
    )
    rounding = 4 * torch.finfo(points.dtype).eps * max(abs(start), abs(end))
    assert ((points.double() - steps).abs() < rounding).all()


@instead_of(
    "torch.linspace(0, 1, 5)",
    "torch.linspace(0, 1, 6)[:-1]",
    "torch.linspace(0, 1, 6)[1:]",
    "torch.linspace(0, 1, 5) ** 2",
    "torch.linspace(0, 1, 5)[::4]",
    "torch.linspace(0, 1, 5, dtype=torch.int64)",
)
def test_linspace_has_both_ends__but_not_otherwise(snippet, old, new, fails):
    fails(test_linspace_has_both_ends, snippet.edit(old, new))


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
    fails(test_rand_is_uniform, snippet, [torch.bfloat16])


def is_uniform(numbers):
    """Check that numbers lie evenly between 0 and 1."""
    numbers = numbers.double().flatten()
    assert 0 <= numbers.min() < 0.003
    assert 0.992 < numbers.max() < 1
    assert is_even((16 * numbers).long().bincount(minlength=16).tolist())
    assert len(numbers.unique()) > 1000


@instead_of(
    "torch.rand(10_000)",
    "torch.randn(10_000)",
    "torch.rand(10_000) - 0.01",
    "torch.rand(10_000) * 0.99",
    "torch.rand(10_000).to(torch.bfloat16)",
    "torch.rand(10_000) ** 2",
    "torch.rand(10_000, dtype=torch.complex64).abs()",
)
def test_rand_is_uniform__but_not_so(snippet, old, new, fails):
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
    fails(test_randperm_shuffles, snippet.edit(old, new))


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


def test_a_seed_repeats(snippet):
    run = snippet.after("seed")

    assert torch.equal(run.first, run.again)
    assert not torch.equal(run.first, run.after)
    for seed in (0, 1, 42, 2**40, -3):
        numbers = calls_in_order(seed)
        assert are_equal(calls_in_order(seed), numbers)
        torch.manual_seed(seed)
        torch.rand(3)
        assert not torch.equal(torch.rand(3), numbers[0])


@edits(
    ("torch.manual_seed(1)\nagain", "again"),
    ("torch.manual_seed(1)\nagain", "torch.manual_seed(3)\nagain"),
    ("again, after =", "after, again ="),
    ("first = torch.rand(3)", "first = torch.randn(3)"),
    ("again, after = torch.rand(3),", "again = after ="),
    ("again, after = torch.rand(3), torch.rand(3)", TWICE),
)
def test_a_seed_repeats__but_not_otherwise(snippet, old, new, fails):
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
    (OWN, "own = torch.manual_seed(1)"),
    (f"{OWN}\ntorch.manual_seed(2)", "own = torch.manual_seed(2)"),
    ("mine = torch.rand(3, generator=own)", "mine = torch.rand(3)"),
    ("then = torch.rand(3, generator=own)", "then = torch.rand(3)"),
)
def test_generators_stand_apart__but_not_the_shared_one(
    snippet, old, new, fails
):
    fails(test_generators_stand_apart, snippet.edit(old, new))


# Copies


def test_clone_has_its_own_numbers(snippet):
    run = snippet.after("copies")

    assert run.same.tolist() == run.monday.tolist() == [99, 19.5]
    assert run.copied.tolist() == [17, 19.5]
    run.week.zero_()
    assert run.copy.tolist() == [17.0, 19.5, 21.0, 20.0, 18.5, 16.0, 15.5]
    run.copied.zero_()
    assert run.same.tolist() == run.monday.tolist() == [99, 19.5]
    run.same.zero_()
    assert run.monday.tolist() == [0, 0]
    for tensor in tensors():
        copy = tensor.clone()
        tensor.zero_()
        assert torch.equal(copy, torch.ones_like(tensor))
        copy = tensor.clone()
        copy.fill_(1)
        assert not tensor.any()


@edits(
    ("monday.clone()", "monday.detach()"),
    ("monday.clone()", "monday.view(2)"),
    ("copy = week.clone()", "copy = week"),
    ("same, copied = monday,", "same, copied = monday.clone(),"),
)
def test_clone_has_its_own_numbers__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_clone_has_its_own_numbers, snippet.edit(old, new))


def test_clone_has_its_own_numbers__but_not_a_second_name(snippet, fails):
    edited = snippet.edit("monday, monday.clone()", "monday, monday")
    fails(test_clone_has_its_own_numbers, edited)


def test_clone_stays_linked(snippet):
    run = snippet.after("graph")

    assert run.linked.tolist() == run.apart.tolist() == [0.5]
    assert is_linked(run.linked, run.offset)
    assert not is_linked(run.apart, run.offset)
    for copy in (run.linked, run.apart):
        assert copy.data_ptr() != run.offset.data_ptr()
    for dtype in FLOATING:
        for shape in ((), (3,), (2, 3)):
            leaf = torch.ones(shape, dtype=dtype, requires_grad=True)
            for tensor in (leaf, 2 * leaf):
                assert is_linked(tensor.clone(), tensor)
                assert not is_linked(tensor.detach().clone(), tensor)


@edits(
    ("= offset.clone(),", "= offset.detach(),"),
    ("offset.detach().clone()", "offset.clone()"),
    ("linked, apart =", "with torch.no_grad(): linked, apart ="),
)
def test_clone_stays_linked__but_not_otherwise(snippet, old, new, fails):
    fails(test_clone_stays_linked, snippet.edit(old, new))


# What goes wrong


def test_unequal_rows_raise(snippet):
    run = snippet.after("unequal-rows")

    assert not hasattr(run, "uneven")
    for rows in (
        [[1, 2], [1]],
        [(1,), (1, 2)],
        [[1.5, 2], [1, 2], [1, 2, 3]],
        [[True], []],
        [[1, 2, 3]] * 9 + [[1, 2]],
    ):
        with pytest.raises(ValueError, match="expected sequence of length"):
            torch.tensor(rows)
    for rows in ([[], [1]], [[], [1, 2], [1.5]]):
        with no_error():
            torch.tensor(rows)


@instead_of(
    "[[17.0, 19.5], [12.0]]",
    "[[17.0, 19.5], [12.0, 14.5]]",
    "[[17.0], [12.0]]",
    "[[], [12.0]]",
)
def test_unequal_rows_raise__but_not_equal_ones_or_behind_an_empty_one(
    snippet, old, new, fails
):
    fails(test_unequal_rows_raise, snippet.edit(old, new))


MESSAGES = {
    ValueError: "only one element tensors can be converted to Python scal",
    TypeError: "only integer tensors of a single element can be converted",
}


def test_a_list_of_tensors_raises(snippet):
    run = snippet.after("list-of-tensors")

    assert [type(each) for each in run.refusals] == [ValueError, TypeError]
    for each in run.refusals:
        assert MESSAGES[type(each)] in str(each)
    for dtype in (*FLOATING, *INTEGER):
        expected = ValueError if dtype.is_floating_point else TypeError
        for shape, n in itertools.product(
            [(2,), (3,), (1, 2), (2, 2)], (1, 5)
        ):
            days = [torch.ones(shape, dtype=dtype) for _ in range(n)]
            with pytest.raises(expected, match=MESSAGES[expected]):
                torch.tensor(days)


DAYS = "torch.tensor([17.0, 12.0]), torch.tensor([19.5, 14.5])"


@edits(
    (DAYS, "torch.tensor([17.0]), torch.tensor([19.5])"),
    (DAYS, "[17.0, 12.0], [19.5, 14.5]"),
    ("[*sunny]", "[*sunny[:, :1]]"),
    ("[*sunny]", "sunny.tolist()"),
    ("torch.tensor(each)", "torch.stack(each)"),
    ("torch.tensor(each)", "torch.tensor(each, dtype=torch.float32)"),
    ("torch.tensor(each)", "torch.tensor(each, dtype=torch.int64)"),
)
def test_a_list_of_tensors_raises__but_not_otherwise(snippet, old, new, fails):
    fails(test_a_list_of_tensors_raises, snippet.edit(old, new))


def test_stack_makes_rows(snippet):
    run = snippet.after("stacked")

    assert run.stacked.tolist() == [[17.0, 12.0], [19.5, 14.5]]
    for dtype in EVERY:
        for n, m in itertools.product(range(4), (1, 2, 5)):
            rows = [torch.randint(9, (n,)).to(dtype) for _ in range(m)]
            stacked = torch.stack(rows)
            assert stacked.shape == (m, n)
            assert are_equal(stacked, rows)


@instead_of(
    "stacked = torch.stack(days)",
    "stacked = torch.stack(days, dim=1)",
    "stacked = torch.cat(days)",
    "stacked = torch.stack(days[::-1])",
)
def test_stack_makes_rows__but_not_otherwise(snippet, old, new, fails):
    fails(test_stack_makes_rows, snippet.edit(old, new))


def test_tensor_of_a_tensor_warns(snippet):
    run = snippet.after("tensor-of-a-tensor")

    assert [each.category for each in run.caught] == [UserWarning]
    assert "To copy construct from a tensor" in str(run.caught[0].message)
    is_apart(run.cut, run.offset)
    for tensor in tensors():
        if tensor.is_floating_point():
            tensor.requires_grad_()
        with pytest.warns(UserWarning, match="To copy construct"):
            made = torch.tensor(tensor)
        is_apart(made, tensor)


def is_apart(made, tensor):
    """Check that a tensor is a copy of another, and outside its graph."""
    assert torch.equal(made, tensor)
    assert made.data_ptr() != tensor.data_ptr()
    assert not is_linked(made, tensor)


@instead_of(
    "torch.tensor(offset)",
    "offset.detach().clone()",
    "torch.tensor(offset) + offset - offset.detach()",
    "(torch.tensor(offset), offset.detach())[1]",
)
def test_tensor_of_a_tensor_warns__but_not_otherwise(snippet, old, new, fails):
    fails(test_tensor_of_a_tensor_warns, snippet.edit(old, new))


VISITORS = "visitors = torch.Tensor("


def test_capital_tensor_loses_digits(snippet):
    run = snippet.after("capital")

    assert run.visitors.dtype == torch.float32
    assert run.visitors.item() == 16_777_216
    for dtype in FLOATING:
        with default(dtype):
            for values in ([1], [0, 5], [[1, 2], [3, 4]], [-5]):
                made = torch.Tensor(values)
                assert made.dtype == dtype
                assert made.tolist() == values


@instead_of(
    VISITORS,
    "visitors = torch.tensor(",
    "visitors = torch.DoubleTensor(",
    f"torch.set_default_dtype(torch.float64)\n{VISITORS}",
)
def test_capital_tensor_loses_digits__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_capital_tensor_loses_digits, snippet.edit(old, new))


def test_capital_tensor_takes_a_size(snippet):
    with marked():
        run = snippet.after("capital-right")

        for made in (run.three, torch.empty(3)):
            assert made.shape == (3,)
            assert made.dtype == torch.float32
            assert made.isnan().all()
    assert run.number.shape == ()
    assert run.number.item() == 3


@edits(
    ("three = torch.Tensor(3)", "three = torch.tensor(3)"),
    ("three = torch.Tensor(3)", "three = torch.Tensor([3])"),
    ("three = torch.Tensor(3)", "three = torch.Tensor(3).zero_()"),
    ("number = torch.tensor(3)", "number = torch.Tensor(3)"),
    ("number = torch.tensor(3)", "number = torch.tensor([3])"),
)
def test_capital_tensor_takes_a_size__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_capital_tensor_takes_a_size, snippet.edit(old, new))


def test_capital_tensor_takes_no_dtype(snippet):
    run = snippet.after("capital")

    assert not hasattr(run, "typed")
    for values in ([1], [1.5, 2], [[1, 2]], []):
        for dtype in (torch.float32, torch.int64, torch.bool):
            with pytest.raises(TypeError):
                torch.Tensor(values, dtype=dtype)
        for switch in (True, False):
            with pytest.raises(TypeError):
                torch.Tensor(values, requires_grad=switch)


@instead_of(
    "torch.Tensor([17, 19], dtype=torch.int64)",
    "torch.tensor([17, 19], dtype=torch.int64)",
    "torch.tensor([17.0, 19.0], requires_grad=True)",
    "torch.Tensor([17, 19])",
)
def test_capital_tensor_takes_no_dtype__but_the_function_does(
    snippet, old, new, fails
):
    fails(test_capital_tensor_takes_no_dtype, snippet.edit(old, new))


STEPS = "arange(1, 1.3, 0.1)"


def test_a_fractional_step_may_reach_the_end(snippet):
    run = snippet.after("fractional-step")

    assert run.steps.shape == (4,)
    assert run.steps[-1] == torch.tensor(1.3)


@pytest.mark.parametrize("dtype", FLOATING)
def test_a_fractional_step_may_reach_the_end__also_by_default(snippet, dtype):
    with default(dtype):
        test_a_fractional_step_may_reach_the_end(snippet)


def test_a_fractional_step_may_reach_the_end__but_not_half_a_step_early(
    snippet, fails
):
    edited = snippet.edit(STEPS, "arange(1, 1.25, 0.1)")
    fails(test_a_fractional_step_may_reach_the_end, edited)


def test_a_fractional_step_may_reach_the_end__but_not_linspace(snippet, fails):
    edited = snippet.edit(STEPS, "linspace(1, 1.2, 4)")
    fails(test_a_fractional_step_may_reach_the_end, edited)


def test_arange_rounds_up(snippet):
    run = snippet.after("fractional-step")

    assert 3 < run.needed < 3.001
    assert len(run.steps) == math.ceil(run.needed)
    draw = random.Random(0)
    ranges = [(0.0, 1.0, 0.1), (1, 1.3, 0.1), (0.0, 0.3, 0.1), (1.0, 0, -0.1)]
    for _ in range(100):
        start, step = draw.gauss(0, 9), draw.gauss(0, 1)
        ranges.append((start, start + step * draw.randrange(1, 90), step))
        ranges.append((start, start + step * draw.uniform(0, 90), step))
    for dtype in FLOATING:
        with default(dtype):
            for start, end, step in ranges:
                numbers = torch.arange(start, end, step)
                assert len(numbers) == math.ceil((end - start) / step)


@edits(
    (STEPS, f"{STEPS}[:-1]"),
    (STEPS, f"{STEPS}.repeat(2)"),
    ("(1.3 - 1) / 0.1", "0.3 / 0.1"),
)
def test_arange_rounds_up__but_not_otherwise(snippet, old, new, fails):
    fails(test_arange_rounds_up, snippet.edit(old, new))


def test_counting_first_gives_three(snippet):
    run = snippet.after("count-first")

    assert run.counted.shape == (3,)
    rounding = 2 * torch.finfo(run.counted.dtype).eps
    expected = torch.tensor([1, 1.1, 1.2], dtype=torch.float64)
    assert ((run.counted - expected).abs() <= rounding).all()


@pytest.mark.parametrize("dtype", FLOATING)
def test_counting_first_gives_three__also_by_default(snippet, dtype):
    with default(dtype):
        test_counting_first_gives_three(snippet)


@instead_of(
    "1 + 0.1 * torch.arange(3)",
    f"torch.{STEPS}",
    "torch.arange(3.0)",
)
def test_counting_first_gives_three__but_not_another_way(
    snippet, old, new, fails
):
    fails(test_counting_first_gives_three, snippet.edit(old, new))


TRACKED = "torch.tensor([17, 19], requires_grad=True)"


def test_integers_refuse_gradients(snippet):
    run = snippet.after("integer-gradients")

    assert not hasattr(run, "weights")
    for values in (5, [5], [[1, 2], [3, 4]], True, [True, False], [3, True]):
        with pytest.raises(RuntimeError, match="Only Tensors of floating"):
            torch.tensor(values, requires_grad=True)


@instead_of(
    TRACKED,
    "torch.tensor([17, 19])",
    "torch.tensor([17, 19.0], requires_grad=True)",
    "torch.tensor([17, 19], dtype=torch.float32, requires_grad=True)",
)
def test_integers_refuse_gradients__but_not_so(snippet, old, new, fails):
    fails(test_integers_refuse_gradients, snippet.edit(old, new))


HALF = "half = torch.full_like(sunny, 0.5"


def test_full_like_cuts_fractions(snippet):
    with no_error():
        run = snippet.after("like-integers")

    assert run.half.tolist() == [[0] * 3] * 2
    assert run.half.dtype == torch.int64
    for dtype in SIGNED:
        for number in (0.5, -0.5, 5.5, -5.7, 99.99, 126.5, -127.5):
            with no_error():
                made = torch.full_like(torch.ones(2, dtype=dtype), number)
            assert made.dtype == dtype
            assert made.tolist() == [int(number)] * 2


@edits(
    (HALF, f"{HALF}, dtype=torch.half"),
    (HALF, "half = torch.full_like(sunny.float(), 0.5"),
    (HALF, "half = torch.full_like(sunny, 0.5 + 0.5"),
)
def test_full_like_cuts_fractions__but_not_so(snippet, old, new, fails):
    fails(test_full_like_cuts_fractions, snippet.edit(old, new))


@true_since("2.8", "it was a RuntimeError and no NotImplementedError")
def test_rand_like_refuses_integers(snippet):
    passage = (
        "except RuntimeError as error:\n    print(error)\n\n# %% floating"
    )
    uncaught = snippet.edit(passage, passage.replace("Runtime", "Key"))

    with pytest.raises(RuntimeError, match="'Long'") as caught:
        uncaught.after("like-integers")
    assert caught.type is NotImplementedError
    for dtype in INTEGER:
        for draw in (torch.rand_like, torch.randn_like):
            with pytest.raises(RuntimeError) as caught:
                draw(torch.ones(2, 3, dtype=dtype))
            assert caught.type is NotImplementedError
            assert ("'Long'" in str(caught.value)) == (dtype == torch.int64)


@instead_of(
    "rand_like(sunny)",
    "rand_like(sunny, dtype=torch.float32)",
    "randn_like(sunny.float())",
    "randint_like(sunny, 9)",
    "rand_like(sunny.int())",
    'rand_like(sunny.to("meta"))',
)
def test_rand_like_refuses_integers__but_not_so(snippet, old, new, fails):
    fails(test_rand_like_refuses_integers, snippet.edit(old, new))


def test_floating_point_does_all_three(snippet):
    run = snippet.after("floating")

    assert run.weights.requires_grad
    assert run.floating.tolist() == [[0.5] * 3] * 2
    assert run.drawn.shape == (2, 3)
    assert run.drawn.dtype == torch.float32
    assert run.drawn.unique().numel() == 6
    assert 0 <= run.drawn.min() <= run.drawn.max() < 1
    assert not torch.equal(run.drawn.sort().values, run.drawn)
    for values in (5.0, [5.0], [[1.5, 2], [3, 4]]):
        assert torch.tensor(values, requires_grad=True).requires_grad
    for dtype in INTEGER:
        counts = torch.ones(100, dtype=dtype)
        for number in (0.5, -5.75):
            made = torch.full_like(counts, number, dtype=torch.float32)
            assert made.tolist() == [number] * 100
        drawn = torch.rand_like(counts, dtype=torch.float32)
        assert drawn.dtype == torch.float32
        assert drawn.unique().numel() > 90
        assert ((drawn >= 0) & (drawn < 1)).all()


@edits(
    ("[17.0, 19.0], requires_grad=True", "[17.0, 19.0]"),
    ("sunny, 0.5, dtype=torch.float32", "sunny, 0.5"),
    ("drawn = torch.rand_like(", "drawn = torch.zeros_like("),
    ("drawn = torch.rand_like(", "drawn = torch.randn_like("),
)
def test_floating_point_does_all_three__but_not_so(snippet, old, new, fails):
    fails(test_floating_point_does_all_three, snippet.edit(old, new))


# Where it ends


def test_an_empty_first_row_drops_numbers(snippet):
    with no_error():
        run = snippet.after("empty-first-row")

    assert run.dropped.shape == (2, 0)
    for rows in ([[], [1]], [[], [], [2.5]], [[], [1, 2], [3]]):
        with no_error():
            tensor = torch.tensor(rows)
        assert tensor.shape == (len(rows), 0)


@instead_of(
    "dropped = torch.tensor([[], [12.0, 14.5]])",
    "dropped = torch.tensor([[12.0, 14.5]])",
    "dropped = torch.tensor([[12.0], [14.5]])",
)
def test_an_empty_first_row_drops_numbers__but_not_a_full_one(
    snippet, old, new, fails
):
    fails(test_an_empty_first_row_drops_numbers, snippet.edit(old, new))
