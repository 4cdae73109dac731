"""The claims of gallery/vectorization_speedup.py."""

import math
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch

from extensions.evidence.counterexamples import edits
from extensions.evidence.versions import true_since
from tests.helpers.recipes import as_script, constants, given, told

ARGUMENTS = {
    "SIZES": (["--sizes", "3", "5"], [3, 5]),
    "DIMENSIONS": (["--dimensions", "2"], 2),
}
EXACT = ("pair by pair", "row by row", "all at once", "cdist, exact")
OPENING = ("settings", "options", "ways")


def test_each_argument_sets_its_constant(snippet):
    script, expected = as_script(snippet), constants(snippet, ARGUMENTS)
    assert told(script, [], ARGUMENTS) == expected
    for name, (words, value) in ARGUMENTS.items():
        changed = expected | {name: value}
        assert told(script, words, ARGUMENTS) == changed
        assert told(snippet, words, ARGUMENTS) == expected


@edits(
    ("SIZES, DIMENSIONS = options", "DIMENSIONS, SIZES = options"),
    ("default=DIMENSIONS", "default=1"),
    ('"--sizes", type=int', '"--sizes", type=str'),
    ('if "__file__" in globals():', "if True:"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With `DIMENSIONS, SIZES` swapped, each gets the other's value; the other
    edits change a default or a type, or parse in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_a_senseless_setting_is_refused(snippet):
    for sizes, dimensions in (([0], 1), ([8, -3], 16), ([8], 0), ([1], -1)):
        edited = given(snippet, SIZES=sizes, DIMENSIONS=dimensions)
        with pytest.raises(SystemExit, match=r"\A.+\Z"):
            edited.after("options")
    given(snippet, SIZES=[1], DIMENSIONS=1).after("options")


@edits(
    ("sizes alone", "min(*SIZES, DIMENSIONS)", "min(SIZES)"),
    ("dimensions alone", "min(*SIZES, DIMENSIONS)", "DIMENSIONS"),
    ("one size", "min(*SIZES, DIMENSIONS)", "min(SIZES[0], DIMENSIONS)"),
    ("below 0", "DIMENSIONS) < 1", "DIMENSIONS) < 0"),
)
def test_a_senseless_setting_is_refused__but_not(snippet, fails, old, new):
    """With `min(SIZES)`, the dimensions are not checked; the other edits check
    only some sizes or none, or accept 0.
    """
    fails(test_a_senseless_setting_is_refused, snippet.edit(old, new))


def drawn(number=20, dimensions=16, shift=0.0, seed=0):
    """Return points as the program draws them, shifted."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(number, dimensions, generator=generator)
    return points + shift


def test_four_ways_give_the_same_distances(
    snippet, number=27, dimensions=16, shift=0.0
):
    run = snippet.only(*OPENING, "equal").after("equal")
    points = drawn(number, dimensions, shift)
    rows = points.tolist()
    right = torch.tensor([[math.dist(a, b) for b in rows] for a in rows])

    assert set(run.ways) == {*EXACT, "torch.cdist"}
    if run.device.type == "cpu":
        assert torch.equal(run.points, drawn(64))
    for name in EXACT:
        found = run.ways[name](points)
        torch.testing.assert_close(found, right, rtol=1e-5, atol=0)
        assert found.diagonal().count_nonzero() == 0
        assert run.exact[name]
        assert run.ways[name](points[:2].to("meta")).is_meta  # it stays there


@pytest.mark.parametrize(
    "shift", [0.0, 1000.0], ids=["around zero", "far from zero"]
)
@pytest.mark.parametrize(
    ("number", "dimensions"),
    [(1, 1), (2, 3), (50, 1), (30, 40), (20, 1000)],
    ids=[
        "1 point on a line",
        "2 points in space",
        "50 points on a line",
        "30 points in 40 dimensions",
        "20 points in 1000 dimensions",
    ],
)
def test_four_ways_give_the_same_distances__also_of(
    snippet, number, dimensions, shift
):
    test_four_ways_give_the_same_distances(snippet, number, dimensions, shift)


@edits(
    ("another norm", "compute_mode=mode", "compute_mode=mode, p=1"),
    ("as it is", ", compute_mode=mode", ""),
    ("too far", "torch.stack(rows)", "torch.stack(rows) + 0.0001"),
    ("a scale", "sum(dim=2).sqrt()", "sum(dim=2).sqrt() * 1.0001"),
    ("no root", "square().sum().sqrt()", "square().sum()"),
    ("drawn otherwise", "points = torch.randn(", "points = torch.rand("),
)
def test_four_ways_give_the_same_distances__but_not(snippet, fails, old, new):
    """With `p=1`, `exact_cdist` measures other distances; the other edits
    change those of other ways, or the points.
    """
    fails(test_four_ways_give_the_same_distances, snippet.edit(old, new))


def test_cdist_as_it_is_does_not(
    snippet, sizes=(1, 25, 26, 64), seed=0, width=16
):
    way = snippet.only(*OPENING).after("ways").ways["torch.cdist"]

    for number in sizes:
        for shift, off in ((0.0, 0.0005), (1000.0, 0.1)):
            points = drawn(number, width, shift, seed)
            most = way(points).diagonal().max().item()
            if number > 25:
                assert most > off
            else:
                assert most == 0
    for dimensions in (1, 3, 1000):
        points = drawn(25, dimensions, 0.0, seed)
        assert way(points).diagonal().count_nonzero() == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cdist_as_it_is_does_not__also_with(snippet, seed):
    test_cdist_as_it_is_does_not(snippet, (2, 24, 25, 26, 27, 200), seed)


def test_cdist_as_it_is_does_not__ends_in_one_dimension(snippet, fails):
    """For points on a line: all 26 are exactly 0 away from themselves."""
    fails(test_cdist_as_it_is_does_not, snippet, (26,), 0, 1)


AS_IT_IS = "torch.cdist(points, points),"


@edits(
    (
        "always so",
        AS_IT_IS,
        'torch.cdist(points, points, compute_mode="use_mm_for_euclid_dist"),',
    ),
    ("never so", AS_IT_IS, "exact_cdist(points),"),
    ("wide numbers", AS_IT_IS, "torch.cdist(*2 * [points.double()]).float(),"),
)
def test_cdist_as_it_is_does_not__but_not(snippet, fails, old, new):
    """`use_mm_for_euclid_dist` is inexact for few points, too; exactly or with
    64 bits, no point is so far from itself.
    """
    fails(test_cdist_as_it_is_does_not, snippet.edit(old, new))


def gradient(way, points, apart):
    """Return the gradient of the sum of the distances."""
    points = points.clone().requires_grad_()
    found = way(points)
    if apart:
        found = found[~torch.eye(len(points), dtype=torch.bool)]
    found.sum().backward()
    return points.grad


def norms(differences):
    """Return the distances as the prose says it."""
    return differences.norm(dim=2)


def test_the_first_three_give_no_gradient(
    snippet, sizes=((2, 3), (5, 16), (30, 16), (3, 1)), shift=0.0
):
    ways = snippet.only(*OPENING).after("ways").ways
    first = list(ways)[:3]
    with_norm = {"norm": lambda points: norms(points[:, None] - points)}
    assert first == list(EXACT[:3])

    for number, dimensions in sizes:
        for apart in (False, True):
            for name, way in (ways | with_norm).items():
                points = drawn(number, dimensions, shift)
                found = gradient(way, points, apart)
                if name in first:
                    assert found.isnan().sum().item() == found.numel()
                else:
                    assert found.isfinite().sum().item() == found.numel()


def test_the_first_three_give_no_gradient__also_if_shifted(snippet):
    test_the_first_three_give_no_gradient(snippet, ((4, 3), (27, 2)), 1000.0)


@edits(
    ("in pairs", "square().sum().sqrt()", "norm()"),
    ("in rows", "square().sum(dim=1).sqrt()", "norm(dim=1)"),
    (
        "at once",
        "differences.square().sum(dim=2).sqrt()",
        "differences.norm(dim=2)",
    ),
    ("in cdist", AS_IT_IS, "all_at_once(points),"),
    (
        "in cdist, exact",
        "return torch.cdist(points, points, compute_mode=mode)",
        "return all_at_once(points)",
    ),
)
def test_the_first_three_give_no_gradient__but_not(snippet, fails, old, new):
    """With `norm()`, a way has a finite gradient; and `all_at_once` in place
    of `cdist` gives `nan`.
    """
    fails(test_the_first_three_give_no_gradient, snippet.edit(old, new))


def costs_of(snippet, sizes, dimensions):
    """Return the calls and the largest tensors, by way and number."""
    edited = given(snippet, SIZES=sizes, DIMENSIONS=dimensions)
    run = edited.only(*OPENING, "equal", "count").after("count")
    return {
        name: dict(zip(sizes, found, strict=True))
        for name, found in run.costs.items()
    }


@true_since("2.9", "a full slice such as [:, None] was a call, too")
def test_calls_grow_with_pairs_or_points_or_not(
    snippet, sizes=(1, 2, 5, 12), dimensions=16
):
    costs = costs_of(snippet, list(sizes), dimensions)

    for number in sizes:
        calls = {name: found[number][0] for name, found in costs.items()}
        assert calls["pair by pair"] == 9 * number**2 + 1
        assert calls["row by row"] == 4 * number + 2
        assert calls["all at once"] == 6


def test_calls_grow_with_pairs_or_points_or_not__also_in_1_and_100_dimensions(
    snippet,
):
    test_calls_grow_with_pairs_or_points_or_not(snippet, (7, 30), 1)
    test_calls_grow_with_pairs_or_points_or_not(snippet, (8,), 100)


@edits(
    ("more for pairs", "square().sum().sqrt()", "abs().square().sum().sqrt()"),
    ("more for rows", "sum(dim=1).sqrt()", "sum(dim=1).sqrt().abs()"),
    ("one for rows", "torch.stack(rows)", "torch.stack(rows).abs()"),
    ("more at once", "sum(dim=2).sqrt()", "sum(dim=2).sqrt().abs()"),
    (
        "at once by rows",
        "    differences = points[:, None]",
        "    row_by_row(points)\n    differences = points[:, None]",
    ),
)
def test_calls_grow_with_pairs_or_points_or_not__but_not(
    snippet, fails, old, new
):
    """`abs()` makes one more call for each pair; the other edits add calls to
    other ways.
    """
    fails(test_calls_grow_with_pairs_or_points_or_not, snippet.edit(old, new))


def test_all_at_once_makes_a_larger_tensor(
    snippet, sizes=(2, 5, 20), dimensions=16
):
    costs = costs_of(snippet, list(sizes), dimensions)

    for number in sizes:
        most = {name: found[number][1] for name, found in costs.items()}
        small = max(number**2, number * dimensions)
        assert most["all at once"] == number**2 * dimensions
        assert 0 < most["pair by pair"] <= small
        assert 0 < most["row by row"] <= small


def test_all_at_once_makes_a_larger_tensor__also_of_1_and_30_points_in_space(
    snippet,
):
    test_all_at_once_makes_a_larger_tensor(snippet, (1, 30), 3)


@edits(
    (
        "by rows",
        "points[:, None] - points[None, :]",
        "row_by_row(points)[:, :, None]",
    ),
    ("a large row", "torch.stack(rows)", "torch.stack(rows).repeat(2, 1)"),
    (
        "large pairs",
        "    return distances\n",
        "    return all_at_once(points)\n",
    ),
)
def test_all_at_once_makes_a_larger_tensor__but_not(snippet, fails, old, new):
    """Made by `row_by_row`, the differences are no larger than the distances;
    the other edits make large tensors in a loop.
    """
    fails(test_all_at_once_makes_a_larger_tensor, snippet.edit(old, new))


def choice(snippet, costs, exact, sizes=(4, 10), dimensions=3):
    """Return what the program takes of such counts."""
    constants = f"""
        import torch
        SIZES, size, points = {list(sizes)}, {max(sizes)}, torch.ones(
            {max(sizes)}, {dimensions})
        costs, exact = {costs!r}, {exact!r}
    """
    lines = "\n".join(line[8:] for line in constants.splitlines())
    edited = snippet.only("answer").edit(
        "\n\ngood = {}\n", f"\n{lines}\ngood = {{}}\n"
    )
    return edited.after("answer").choice


def test_the_choice_is_exact_and_small(snippet):
    few, many, some = (
        [(9, 1), (2, 100)],
        [(1, 1), (50, 100)],
        [(1, 1), (3, 100)],
    )
    large, wrong = [(9, 1), (1, 101)], [(9, 1), (1, 1)]
    costs = {
        "many": many,
        "few": few,
        "some": some,
        "large": large,
        "wrong": wrong,
    }
    costs["small"] = [(1, 1), (60, 1)]
    exact = dict.fromkeys(costs, True) | {"wrong": False}

    assert choice(snippet, costs, exact) == "few"
    for reverse in (costs, dict(reversed(costs.items()))):
        assert choice(snippet, reverse, exact, (4, 10)) == "few"
        assert choice(snippet, reverse, exact, (4, 10), 11) == "large"
    first = {"a": [(1, 1), (9, 1)], "b": [(9, 1), (1, 1)]}
    both = dict.fromkeys(first, True)
    assert choice(snippet, first, both, (10, 4)) == "a"
    assert choice(snippet, first, both, (4, 10)) == "b"
    run = given(snippet, SIZES=[5, 30]).after("answer")
    assert run.choice == "cdist, exact"
    assert run.exact == {name: name in EXACT for name in run.ways}


@edits(
    ("of all", "exact[name] and ", ""),
    ("of any size", " and largest <= max(size**2, points.numel())", ""),
    ("as distances", "max(size**2, points.numel())", "size**2"),
    ("as points", "max(size**2, points.numel())", "points.numel()"),
    ("most calls", "min(good, key=good.get)", "max(good, key=good.get)"),
    (
        "fewest points",
        "calls, largest = found[SIZES.index(size)]",
        "calls, largest = found[0]",
    ),
    ("exact by words", "not each.diagonal().any()", "True"),
)
def test_the_choice_is_exact_and_small__but_not(snippet, fails, old, new):
    """Without `exact[name]`, it takes a way that is not exact; the other edits
    move the limit, or look at other counts.
    """
    fails(test_the_choice_is_exact_and_small, snippet.edit(old, new))


def test_each_way_is_timed_three_times(snippet):
    seen = []

    def timer(statement, **options):
        def blocked_autorange(**_):
            seen.append((statement, options["globals"]))
            number = len(seen)
            times = [number + part / 2 for part in range(1 + number % 2)]
            return SimpleNamespace(times=times)

        return SimpleNamespace(blocked_autorange=blocked_autorange)

    program = given(snippet, SIZES=[2, 26, 5]).only(*OPENING, "equal", "time")
    with patch("torch.utils.benchmark.Timer", timer):
        run = program.after("time")

    assert list(run.times) == list(run.ways)
    asked = {}
    for statement, names in seen:
        assert statement == "way(points)"
        way, points = names["way"], names["points"]
        assert torch.equal(points, run.points[: len(points)])
        key = next(key for key, each in run.ways.items() if each is way)
        asked.setdefault((key, len(points)), []).append(way)
    assert set(asked) == {(key, n) for key in run.ways for n in (2, 26, 5)}
    for found in run.times.values():
        assert len(found) == 3
        assert all(len(set(seconds)) >= 3 for seconds in found)


@edits(
    ("of all points", '"points": points[:number]}', '"points": points}'),
    ("of one way", '{"way": way,', '{"way": row_by_row,'),
    ("one time", "seconds += timer", "seconds = 3 * timer"),
    ("twice", "while len(seconds) < 3:", "while len(seconds) < 2:"),
)
def test_each_way_is_timed_three_times__but_not(snippet, fails, old, new):
    """With all points each time, no smaller number is timed; the other edits
    time one way only, or too few times.
    """
    fails(test_each_way_is_timed_three_times, snippet.edit(old, new))


CLEAR = "for 9 points, b is the fastest"
UNCLEAR = "not here: for 9 points, no way is clearly the fastest"


def test_a_clear_winner_or_not_here(snippet):
    source = snippet.cell("time").code
    source = source[: source.index("\n\ntimes = ")]
    names = {"torch": torch, "size": 9}
    exec(source, names)
    verdict = SimpleNamespace(**names).verdict

    cases = {
        ((3.0,), (2.0,), (9.0,)): CLEAR,
        ((2.0,), (2.0,)): UNCLEAR,
        ((5.0, 6.0, 7.0, 8.0, 9.0), (1.0, 1.0, 2.0, 4.9, 60.0)): CLEAR,
        ((5.0, 6.0, 7.0, 8.0, 9.0), (1.0, 1.0, 2.0, 6.0, 6.1)): UNCLEAR,
        ((1.0, 6.0, 7.0, 8.0, 9.0), (1.5, 1.5, 2.0, 4.9, 5.0)): CLEAR,
        ((1.0, 4.8, 7.0, 8.0, 9.0), (1.5, 1.5, 2.0, 4.9, 5.0)): UNCLEAR,
        ((9.0,), (1.0,), (1.0,)): UNCLEAR,
    }
    for found, words in cases.items():
        times = dict(zip("abc", map(list, found), strict=False))
        assert verdict(times) == words
    timed = given(snippet, SIZES=[26, 2]).edit("run_time=0.02", "run_time=0")
    run = timed.only(*OPENING, "equal", "time").after("time")
    assert set(run.last) == set(EXACT)
    for name, found in run.last.items():
        assert found == run.times[name][0]


@edits(
    ("the slowest", "best = min(", "best = max("),
    ("always one", "if all(", "if True or all("),
    ("never one", "if all(", "if False and all("),
    ("over one", "if all(", "if any("),
    ("or equal", "spans[best][1] < spans", "spans[best][1] <= spans"),
    ("of all", "[0.25, 0.75]", "[0.0, 1.0]"),
    ("the median", "[0.25, 0.75]", "[0.5, 0.5]"),
    ("of fewest points", "name: found[SIZES.index(size)]", "name: found[-1]"),
    ("of all ways", "    if exact[name]\n}", "}"),
)
def test_a_clear_winner_or_not_here__but_not(snippet, fails, old, new):
    """With `max()`, it looks at the slowest way; the other edits move the
    limit, or compare other times.
    """
    fails(test_a_clear_winner_or_not_here, snippet.edit(old, new))
