"""The claims of docs/tensors/operations.md, by NumPy and by hand."""

import ast
import itertools
import math
import operator
import re
import statistics
import warnings

import numpy as np
import pytest
import torch

from extensions.evidence.counterexamples import no_error

FLOATS = [torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
SHAPES = [(4,), (3, 2), (2, 1, 3), (2, 3, 1, 4)]
REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "std": torch.std,
    "median": torch.median,
    "max": torch.max,
    "amax": torch.amax,
    "argmax": torch.argmax,
}
LENGTHS = [*itertools.product((1, 2, 5, 12), (1, 2, 3, 5, 20))]


def edits(*pairs):
    """Parametrize a counter-example by what it edits."""
    return pytest.mark.parametrize("edit", pairs)


def instead_of(old, *others):
    """Parametrize a counter-example by what stands in place of a call."""
    name, equals, _ = old.rpartition(" = ")
    return edits(*((old, name + equals + other) for other in others))


def random(shape, dtype=torch.float64, seed=0):
    """Return numbers around zero, some of them zero, some equal."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-9, 30, shape, generator=generator).to(dtype) / 2


def tensors(shapes=tuple(SHAPES), dtypes=tuple(FLOATS)):
    """Yield tensors, each with one of its axes, also counted from the end."""
    for shape, dtype in itertools.product(shapes, dtypes):
        for d in range(-len(shape), len(shape)):
            yield random(shape, dtype), d


def lines(x, d):
    """Return the lines of a tensor along an axis."""
    return x.movedim(d, -1).reshape(-1, x.shape[d])


def first(result):
    """Return what a reduction gives: the values alone, if it gives a pair."""
    return result if isinstance(result, torch.Tensor) else result[0]


def error_of(call, *inputs):
    """Return what a call complains of: nothing, if it runs."""
    try:
        call(*inputs)
    except (RuntimeError, TypeError, IndexError) as error:
        return unnamed(str(error))
    return ""


def unnamed(said):
    """Return a complaint without the name of what torch 2.15 has called."""
    return f"{said}".removeprefix("add").removeprefix("mm: ")


def same(one, other):
    """Return whether two tensors agree up to rounding, nan included."""
    return one.shape == other.shape and torch.allclose(
        one.double(), other.double(), rtol=1e-4, equal_nan=True
    )


def lengths(cut):
    """Return how long parts are."""
    return [len(part) for part in cut]


# Do this


def test_dim_is_the_axis_averaged_over(snippet):
    run = snippet.after("do-this")

    days, cities = run.temps.tolist(), [*zip(*run.temps.tolist(), strict=True)]
    assert run.of_cities.tolist() == [sum(city) / 3 for city in cities]
    assert run.of_days.tolist() == [sum(day) / 2 for day in days]


def test_dim_is_the_axis_averaged_over__but_not_with_the_axes_swapped(
    snippet, fails
):
    edited = snippet.edit("temps.mean(dim=0)", "temps.mean(dim=1)")
    fails(test_dim_is_the_axis_averaged_over, edited)


@edits(
    ("of_days = temps.mean(dim=1)", "of_days = temps.mean(dim=0)"),
    ("of_days = temps.mean(dim=1)", "of_days = temps.sum(dim=1)"),
    ("temps.mean(dim=0)", "temps.median(dim=0).values"),
)
def test_dim_is_the_axis_averaged_over__but_not_so(snippet, edit, fails):
    fails(test_dim_is_the_axis_averaged_over, snippet.edit(*edit))


NUMPY = {"sum": np.sum, "mean": np.mean, "amax": np.max, "argmax": np.argmax}


def test_numpy_calls_it_axis(snippet):
    run = snippet.after("do-this")
    given = run.temps.numpy()

    assert run.of_cities.tolist() == pytest.approx(given.mean(axis=0))
    assert run.of_days.tolist() == pytest.approx(given.mean(axis=1))
    for (x, d), name in itertools.product(tensors(), NUMPY):
        expected = torch.as_tensor(NUMPY[name](x.numpy(), axis=d))
        assert same(REDUCTIONS[name](x, dim=d), expected)


@edits(
    ("of_cities = temps.mean(dim=0)", "of_cities = temps.mean(dim=1)"),
    ("of_days = temps.mean(dim=1)", "of_days = temps.mean(dim=0)"),
)
def test_numpy_calls_it_axis__but_not_another_one(snippet, edit, fails):
    fails(test_numpy_calls_it_axis, snippet.edit(*edit))


# The axis that disappears


STRANGE = {
    "a sum so far": lambda x, dim=0, keepdim=False: x.cumsum(dim),
    "a mean that forgets keepdim": lambda x, dim=0, keepdim=False: x.mean(dim),
    "a mean of all": lambda x, dim=0, keepdim=False: (
        x.amax(dim, keepdim=keepdim) * 0 + x.mean()
    ),
}


def test_dim_takes_the_axis_away(snippet, names=tuple(REDUCTIONS)):
    run = snippet.after("do-this")

    assert run.of_cities.shape == run.temps.shape[1:]
    assert run.of_days.shape == run.temps.shape[:1]
    for (x, d), name in itertools.product(tensors(), names):
        reduce = (REDUCTIONS | STRANGE)[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # std of lines of one number
            gone = reduce(x, dim=d)
            kept = reduce(x, dim=d, keepdim=True)
            wanted = [first(reduce(line)) for line in lines(x, d)]
        wanted = torch.stack(wanted)
        rest, one = [*x.shape], [*x.shape]
        del rest[d]
        one[d] = 1
        assert [*first(gone).shape] == rest
        assert [*first(kept).shape] == one
        assert same(first(gone).flatten(), wanted)
        assert same(first(kept).flatten(), wanted)


@pytest.mark.parametrize("name", STRANGE)
def test_dim_takes_the_axis_away__but_not_by(snippet, name, fails):
    fails(test_dim_takes_the_axis_away, snippet, (name,))


@edits(
    ("temps.mean(dim=0)", "temps.mean(dim=0, keepdim=True)"),
    ("of_days = temps.mean(dim=1)", "of_days = temps.mean(dim=0)"),
)
def test_dim_takes_the_axis_away__but_not_so(snippet, edit, fails):
    edited = snippet.edit(*edit)
    fails(test_dim_takes_the_axis_away, edited, ("mean",))


TAKEN = "= temps - temps.mean(dim=1, keepdim=True)"


def test_keepdim_fits_the_tensor(snippet):
    run = snippet.after("do-this")

    found = [(run.temps, 1, run.in_the_day)]
    found += [(x, d, x - x.mean(dim=d, keepdim=True)) for x, d in tensors()]
    for x, d, less in found:
        assert less.shape == x.shape
        for line, of_line in zip(lines(x, d), lines(less, d), strict=True):
            assert same(of_line, line - line.mean())


@edits(
    (TAKEN, TAKEN.replace("1", "0")),
    (TAKEN, "= temps - temps.mean()"),
    (TAKEN, "= (temps - temps.mean(dim=1, keepdim=True)).T"),
)
def test_keepdim_fits_the_tensor__but_not_so(snippet, edit, fails):
    fails(test_keepdim_fits_the_tensor, snippet.edit(*edit))


# The largest, and where


def test_max_gives_values_and_indices(snippet):
    run = snippet.after("largest")

    cases = [(run.temps, 0, run.warmest)]
    cases += [(x, d, x.max(dim=d)) for x, d in tensors()]
    for x, d, found in cases:
        values, indices = found
        assert values is found.values
        assert indices is found.indices
        largest = [max(line) for line in lines(x, d).tolist()]
        assert values.flatten().tolist() == largest
        found_there = x.gather(d, indices.unsqueeze(d)).squeeze(d)
        assert torch.equal(found_there, values)


@instead_of(
    "warmest = temps.max(dim=0)",
    "temps.min(dim=0)",
    "temps.max(dim=1)",
    "torch.return_types.max((temps.amax(0), temps.argmin(0)))",
)
def test_max_gives_values_and_indices__but_not_another(snippet, edit, fails):
    fails(test_max_gives_values_and_indices, snippet.edit(*edit))


def test_argmax_counts_through_all_numbers(snippet):
    run = snippet.after("largest")

    cases = [(run.temps, run.position)]
    for shape in [(), *SHAPES]:
        turned = random(shape[::-1]).permute([*range(len(shape))][::-1])
        cases += [(x, x.argmax()) for x in (random(shape), turned)]
    for x, position in cases:
        assert position.shape == ()
        row_by_row = [x[place].item() for place in np.ndindex(*x.shape)]
        assert row_by_row[position] == max(row_by_row)
        place = torch.unravel_index(position, x.shape)
        assert len(place) == x.ndim
        assert x[place] == max(row_by_row)


@instead_of(
    "position = temps.argmax()",
    "temps.argmin()",
    "temps.T.argmax()",
    "temps.argmax(dim=0)",
)
def test_argmax_counts_through_all_numbers__but_not_another(
    snippet, edit, fails
):
    fails(test_argmax_counts_through_all_numbers, snippet.edit(*edit))


# Spread and middle


def test_std_divides_by_n_less_one(snippet):
    run = snippet.after("spread")

    cases = [(run.temps, run.spreads)]
    for n, dtype in itertools.product((2, 3, 10), FLOATS):
        x = random((n, 4), dtype, seed=n)
        cases.append((x, (x.std(dim=0), x.std(dim=0, correction=0))))
        x = x[:, 0]
        cases.append((x, (x.std(), x.std(correction=0))))
    for x, (less_one, by_count) in cases:
        n, x = len(x), x.double().numpy()
        squares = ((x - x.mean(0)) ** 2).sum(0)
        near = {"rtol": 1e-5}
        np.testing.assert_allclose(
            less_one, np.sqrt(squares / (n - 1)), **near
        )
        np.testing.assert_allclose(by_count, np.sqrt(squares / n), **near)
        np.testing.assert_allclose(by_count, x.std(0), **near)


@edits(
    ("(temps.std(dim=0), ", "(temps.std(dim=0, correction=0), "),
    ("(temps.std(dim=0), ", "(temps.var(dim=0), "),
    ("temps.std(dim=0, correction=0)", "temps.std(dim=0, correction=1)"),
    ("temps.std(dim=0, correction=0)", "temps.var(dim=0, correction=0)"),
)
def test_std_divides_by_n_less_one__but_not_so(snippet, edit, fails):
    fails(test_std_divides_by_n_less_one, snippet.edit(*edit))


def test_the_median_is_the_lower_one(snippet):
    run = snippet.after("spread")

    cases = [(run.temps, run.middles)]
    for n, dtype in itertools.product((2, 4, 10, 1000), FLOATS):
        for x in (random((n,), dtype, n), random((2, n // 2), dtype) ** 3):
            cases.append((x, (x.median(), x.quantile(0.5))))
    for x, (median, quantile) in cases:
        ordered = sorted(x.flatten().tolist())
        low, high = ordered[len(ordered) // 2 - 1 : len(ordered) // 2 + 1]
        assert median == low
        assert quantile.item() == pytest.approx((low + high) / 2)


@edits(
    ("(temps.median(), ", "(temps.quantile(0.5), "),
    ("(temps.median(), ", "(temps.mean(), "),
    ("temps.quantile(0.5))", "temps.nanmedian())"),
    ("temps.quantile(0.5))", "temps.quantile(0.6))"),
)
def test_the_median_is_the_lower_one__but_not_another(snippet, edit, fails):
    fails(test_the_median_is_the_lower_one, snippet.edit(*edit))


# Comparisons


def test_a_sum_counts_what_is_true(snippet):
    run = snippet.after("compare")

    rows = [[number > 3 for number in day] for day in run.temps.tolist()]
    found = [(run.warm, rows, run.some, run.every, run.count)]
    for shape, dtype in itertools.product([(3, 2), (5, 1), (1, 9)], FLOATS):
        for x in (
            random(shape, dtype),
            torch.full(shape, 3.0),
            -random(shape),
        ):
            rows = [[number > 3 for number in row] for row in x.tolist()]
            x = x > 3
            found.append((x, rows, x.any(1), x.all(1), x.sum(1)))
    for x, rows, some, every, count in found:
        assert x.dtype == some.dtype == every.dtype == torch.bool
        assert x.tolist() == rows
        assert some.tolist() == [any(row) for row in rows]
        assert every.tolist() == [all(row) for row in rows]
        assert count.tolist() == [row.count(True) for row in rows]
        assert x.any() == any(map(any, rows))
        assert x.all() == all(map(all, rows))
        assert x.sum() == sum(map(sum, rows))


@edits(
    ("warm = temps > 3", "warm = temps >= 3"),
    ("warm = temps > 3", "warm = (temps > 3).int()"),
    ("warm.any(dim=1), ", "warm.all(dim=1), "),
    (" warm.all(dim=1)", " warm.any(dim=1)"),
    ("warm.sum(dim=1)", "(~warm).sum(dim=1)"),
)
def test_a_sum_counts_what_is_true__but_not_another(snippet, edit, fails):
    fails(test_a_sum_counts_what_is_true, snippet.edit(*edit))


def test_rounding_breaks_equality(snippet):
    run = snippet.after("compare")

    assert (run.back != run.temps).sum() == 1
    assert torch.equal(run.back, run.temps * 1.8 / 1.8)
    assert run.near.all()


@edits(
    ("back = temps * 1.8 / 1.8", "back = temps * 2 / 2"),
    ("back = temps * 1.8 / 1.8", "back = temps * 1.8"),
    ("isclose(back, temps)", "isclose(back, temps, rtol=0, atol=0)"),
)
def test_rounding_breaks_equality__but_not_so(snippet, edit, fails):
    fails(test_rounding_breaks_equality, snippet.edit(*edit))


def pairs_of_numbers():
    """Yield pairs of numbers around the tolerances, not at their edge."""
    for b in (0.0, 1e-6, 1e-3, 1.0, -1.0, 300.0, -7e8):
        for factor in (0.0, 0.5, 0.8, 1.2, 2.0, 30.0):
            for sign in (1, -1):
                yield b + sign * factor * (1e-8 + 1e-5 * abs(b)), b, factor < 1


def test_isclose_has_two_tolerances(snippet, options=None):
    run = snippet.after("compare")

    assert run.near.tolist() == [[True] * 2] * 3
    assert run.all_near is True
    for (a, b, close), dtype in itertools.product(pairs_of_numbers(), FLOATS):
        one = torch.tensor([a, b], dtype=dtype)
        other = torch.tensor([b, b], dtype=dtype)
        near = torch.isclose(one, other, **(options or {}))
        assert near.tolist() == [close, True]
        assert torch.allclose(one, other, **(options or {})) is close


@pytest.mark.parametrize(
    "options", [{"rtol": 1e-4}, {"atol": 1e-6}, {"rtol": 0}, {"atol": 0}]
)
def test_isclose_has_two_tolerances__but_not_other_ones(
    snippet, options, fails
):
    fails(test_isclose_has_two_tolerances, snippet, options)


@edits(
    ("temps * 1.8 / 1.8", "temps * 1.8"),
    ("torch.allclose(back, temps)", "torch.equal(back, temps)"),
)
def test_isclose_has_two_tolerances__but_not_so(snippet, edit, fails):
    fails(test_isclose_has_two_tolerances, snippet.edit(*edit))


def test_equal_wants_equal_shapes(snippet):
    run = snippet.after("compare")

    assert run.equal is bool((run.back == run.temps).all()) is False
    for dtype in [torch.bool, torch.bfloat16, *FLOATS, *INTEGERS, *UNSIGNED]:
        x = torch.arange(6).to(dtype).view(3, 2)
        other = x.clone()
        other[0, 0] = 9
        ones = torch.ones(3, 2).to(dtype)
        for one, two, wanted in [
            (x, x.clone(), True),
            (x, x.T.contiguous().T, True),
            (x, other, False),
            (ones, ones[0], False),
            (ones, ones[:, :1], False),
            (ones, ones[None], False),
            (ones, ones.T, False),
            (ones, ones[:2], False),
        ]:
            assert torch.equal(one, two) is wanted


@instead_of(
    "torch.equal(back, temps)",
    "torch.allclose(back, temps)",
    "(back == temps).all()",
)
def test_equal_wants_equal_shapes__but_not_another(snippet, edit, fails):
    fails(test_equal_wants_equal_shapes, snippet.edit(*edit))


# Products


TAKES = {
    "mm": ("(3, 2) and (2, 4)", "(3, 4)", [((3, 3), (3, 3))]),
    "mv": ("(3, 2) and (2,)", "(3,)", [((3, 3), (3,))]),
    "dot": ("(2,) and (2,)", "()", [((3,), (3,))]),
    "bmm": (
        "(5, 3, 2) and (5, 2, 4)",
        "(5, 3, 4)",
        [((5, 3, 3), (5, 3, 3)), ((1, 3, 3), (1, 3, 3))],
    ),
}
KINDS = [(3,), (3, 3), (5, 3, 3), (1, 3, 3)]
MISFITS = [
    ((3, 2), (3, 2)),
    ((3, 2), (3,)),
    ((2,), (3,)),
    ((5, 3, 2), (5, 3, 2)),
]


def test_each_product_wants_its_axes(snippet, names=tuple(TAKES)):
    run = snippet.after("products")
    products = {each.__name__: each for each in run.products}

    for name in names:
        pair, shape, taken = TAKES[name]
        shapes = {pair: of[name] for pair, of in run.accepted.items()}
        assert shapes.pop(pair) == shape
        assert {*shapes.values()} == {"raises"}
        for left, right in [*itertools.product(KINDS, repeat=2), *MISFITS]:
            found = run.shape_of(products[name], left, right)
            assert (found == "raises") is ((left, right) not in taken)


@pytest.mark.parametrize("name", TAKES)
@edits(
    ("product(torch.ones(left), ", "torch.matmul(torch.ones(left), "),
    ("product(torch.ones(left), ", "torch.mul(torch.ones(left), "),
)
def test_each_product_wants_its_axes__but_not_matmul_or_mul(
    snippet, name, edit, fails
):
    fails(test_each_product_wants_its_axes, snippet.edit(*edit), (name,))


def test_matmul_takes_all(snippet):
    run = snippet.after("products")

    made = [shapes["matmul"] for shapes in run.accepted.values()]
    assert made == ["(3, 4)", "(3,)", "()", *["(5, 3, 4)"] * 3]
    assert run.products[0] is torch.matmul
    for n, m, p, b in [(3, 2, 4, 5), (1, 6, 2, 3)]:
        left, right = random((n, m)).float(), random((m, p)).float()
        lefts, rights = random((b, n, m)).float(), random((b, m, p)).float()
        each_left = torch.stack([a @ right for a in lefts])
        each_right = torch.stack([left @ a for a in rights])
        for one, other, wanted in [
            (left, right, left.mm(right)),
            (left, right[:, 0], left.mv(right[:, 0])),
            (left[0], right[:, 0], left[0].dot(right[:, 0])),
            (lefts, rights, lefts.bmm(rights)),
            (lefts, right[None], each_left),
            (lefts, right, each_left),
            (left[None], rights, each_right),
            (left, rights, each_right),
        ]:
            assert same(one @ other, wanted)
            assert torch.equal(one @ other, torch.matmul(one, other))


@pytest.mark.parametrize("other", ["mm", "bmm", "inner"])
def test_matmul_takes_all__but_not_another(snippet, other, fails):
    """The table then calls matmul what another function gives."""
    edited = snippet.edit("[torch.matmul, ", f"[torch.{other}, ").edit(
        "each.__name__: shape_of",
        f"each.__name__.replace('{other}', 'matmul'): shape_of",
    )
    fails(test_matmul_takes_all, edited)


# Join and split


def test_cat_lengthens_an_axis(snippet):
    run = snippet.after("join")

    assert run.longer.tolist() == run.temps.tolist() + run.forecast.tolist()
    for shape in SHAPES:
        for d in range(-len(shape), len(shape)):
            pieces, sizes = [], (1, 3, 0, 2)
            for n in sizes:
                of_piece = [*shape]
                of_piece[d] = n
                pieces.append(random(of_piece, seed=n))
            joined = torch.cat(pieces, dim=d)
            assert joined.ndim == len(shape)
            cut = joined.split(sizes, dim=d)
            for one, other in zip(cut, pieces, strict=True):
                assert torch.equal(one, other)
            if d == 0:
                assert torch.equal(torch.cat(pieces), joined)


@pytest.mark.parametrize(
    "other",
    [
        "torch.cat([temps, forecast], dim=1)",
        "torch.cat([forecast, temps])",
        "torch.stack([temps, forecast])",
    ],
)
def test_cat_lengthens_an_axis__but_not_another(snippet, other, fails):
    edited = snippet.edit(
        "longer = torch.cat([temps, forecast])", f"longer = {other}"
    )
    fails(test_cat_lengthens_an_axis, edited)


def test_stack_makes_an_axis(snippet, more=()):
    run = snippet.after("join")

    assert run.both.tolist() == [run.temps.tolist(), run.forecast.tolist()]
    for shape in [(), *SHAPES]:
        pieces = [random(shape, seed=seed) for seed in range(5)]
        pieces += [each.expand(shape) for each in more]
        for d in range(len(shape) + 1):
            stacked = torch.stack(pieces, dim=d)
            assert stacked.shape == (*shape[:d], len(pieces), *shape[d:])
            for i, each in enumerate(pieces):
                assert stacked.select(d, i).tolist() == each.tolist()
        assert torch.equal(torch.stack(pieces)[3], pieces[3])


def test_stack_makes_an_axis__also_of_integers_that_the_dtype_holds(snippet):
    test_stack_makes_an_axis(snippet, [torch.tensor(2**53)])


def test_stack_makes_an_axis__ends_for_mixed_dtypes(snippet, fails):
    fails(test_stack_makes_an_axis, snippet, [torch.tensor(2**53 + 1)])


@instead_of(
    "both = torch.stack([temps, forecast])",
    "torch.stack([temps, forecast], dim=1)",
    "torch.cat([temps, forecast])",
    "torch.stack([forecast, temps])",
)
def test_stack_makes_an_axis__but_not_another(snippet, edit, fails):
    fails(test_stack_makes_an_axis, snippet.edit(*edit))


def test_split_takes_a_size(snippet):
    run = snippet.after("cut")

    cases = [(run.days, 4, run.by_size)]
    for length, n in LENGTHS:
        x = random((length, 2))
        cases.append((x, n, x.split(n)))
    for x, n, cut in cases:
        *most, last = lengths(cut)
        assert most == [n] * len(most)
        assert 1 <= last <= n
        assert torch.equal(torch.cat(cut), x)


@instead_of(
    "days.split(4)", "days.chunk(4)", "days.split(3)", "days.tensor_split(4)"
)
def test_split_takes_a_size__but_not_another(snippet, edit, fails):
    fails(test_split_takes_a_size, snippet.edit(*edit))


def test_chunk_may_give_fewer(snippet):
    run = snippet.after("cut")

    assert run.days.tolist() == [*range(10)]
    assert len(run.at_most) == 5
    cases = [(run.days, 6, run.at_most, run.exactly)]
    for length, n in LENGTHS:
        x = random((length, 2))
        cases.append((x, n, x.chunk(n), x.tensor_split(n)))
    for x, n, at_most, exactly in cases:
        assert len(at_most) <= n
        assert len(exactly) == n
        assert max(lengths(exactly)) - min(lengths(exactly)) <= 1
        for cut in (at_most, exactly):
            assert torch.equal(torch.cat(cut), x)


@edits(
    ("days.chunk(6)", "days.tensor_split(6)"),
    ("days.chunk(6)", "days.split(1)"),
    ("days.tensor_split(6)", "days.chunk(6)"),
    ("days.tensor_split(6)", "days.split([5, 1, 1, 1, 1, 1])"),
)
def test_chunk_may_give_fewer__but_not_another(snippet, edit, fails):
    fails(test_chunk_may_give_fewer, snippet.edit(*edit))


# In place


IN_PLACE = {
    "clamp": (lambda x: max(x, 0), {"min": 0}),
    "add": (lambda x: x + 3, {"other": 3}),
    "sub": (lambda x: x - 3, {"other": 3}),
    "mul": (lambda x: x * 3, {"other": 3}),
    "div": (lambda x: x / 4, {"other": 4}),
}


def test_an_underscore_writes_into_the_tensor(snippet):
    run = snippet.after("in-place")

    assert run.returned is run.warmed
    assert run.warmed.tolist() == [[0, 16], [3, 19], [14, 13]]
    assert run.temps.tolist() == [[-5, 16], [3, 19], [14, 13]]
    for (x, _), name in itertools.product(tensors(), IN_PLACE):
        one, options = IN_PLACE[name]
        wanted = [one(number) for number in x.flatten().tolist()]
        leaf = x[:1].clone().requires_grad_()
        for start in (x, x[:1].expand(x.shape), leaf):
            clone = start.clone()
            before, place = clone.tolist(), clone.data_ptr()
            new = getattr(clone, name)(**options)
            assert new is not clone
            assert clone.tolist() == before
            assert getattr(clone, f"{name}_")(**options) is clone
            assert clone.data_ptr() == place
            assert torch.equal(clone, new)
        assert getattr(x, name)(**options).flatten().tolist() == wanted


@edits(
    ("warmed.clamp_(min=0)", "warmed.clamp(min=0)"),
    ("warmed.clamp_(min=0)", "warmed.add_(0)"),
    ("warmed = temps.clone()", "warmed = temps"),
    ("warmed.clamp_(min=0)", "warmed.clamp_(min=0).view_as(warmed)"),
)
def test_an_underscore_writes_into_the_tensor__but_not_so(
    snippet, edit, fails
):
    edited = snippet.edit(*edit)
    fails(test_an_underscore_writes_into_the_tensor, edited)


# Look up an operation


def plain(result):
    """Return a result as numbers and truths, in lists."""
    if isinstance(result, tuple):
        return [plain(each) for each in result]
    return result.tolist() if isinstance(result, torch.Tensor) else result


def agrees(found, wanted, rounding=1e-5):
    """Return whether numbers and truths, in lists, are as they should be."""
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(
            agrees(*pair, rounding) for pair in zip(found, wanted, strict=True)
        )
    return (
        not isinstance(found, list)
        and not isinstance(wanted, list)
        and isinstance(found, bool) is isinstance(wanted, bool)
        and math.isclose(found, wanted, rel_tol=rounding, abs_tol=rounding)
    )


def each(f, *matrices):
    return [[*map(f, *rows)] for rows in zip(*matrices, strict=True)]


def turned(rows):
    return [[*column] for column in zip(*rows, strict=True)]


def dot(one, other):
    return sum(map(operator.mul, one, other))


def times(left, right):
    return [[dot(row, column) for column in turned(right)] for row in left]


def ordered(x, **order):
    return turned(sorted(column, **order) for column in turned(x))


def places(x, **order):
    """Return from where to take each column in order."""
    return turned(
        sorted(range(len(column)), key=column.__getitem__, **order)
        for column in turned(x)
    )


# What a row's words say of matrices x, y and m; flat are the numbers of x.
MEANS = """
the product of each pair of numbers | each(mul, x, y)
the square of each number | each(lambda a: a * a, x)
each number without its sign | each(abs, x)
e to the power of each number | each(exp, m)
the natural logarithm of each number | each(log, m)
the square root of each number | each(sqrt, m)
each number, but 0 if lower and 15 if higher | each(clamped, x)
the lower number of each pair | each(min, x, y)
the higher number of each pair | each(max, x, y)
whether each number is above 10 | each(lambda a: a > 10, x)
whether the numbers of each pair are equal | each(eq, x, y)
whether shape and numbers are equal | x == y
whether any number is above 10 | max(flat) > 10
whether all numbers of each row are above 10 | [min(r) > 10 for r in x]
numbers above 10, else 0 | each(lambda a: a if a > 10 else 0, x)
the rows of both, one after the other | x + y
both, on a new first axis | [x, y]
parts of two rows, the last maybe shorter | in_twos(x)
the sum of all numbers | sum(flat)
the mean of all numbers | mean(flat)
the standard deviation, over the count less one | stdev(flat)
the lowest number | min(flat)
the highest number of each row | [max(r) for r in x]
where the highest number of each row stands | [r.index(max(r)) for r in x]
the middle number, the lower one of two | median_low(flat)
each column, added up so far | turned(map(accumulate, turned(x)))
the root of the sum of all squares | hypot(*flat)
the different numbers, in ascending order | sorted({*flat})
each column ascending, and from where | [ordered(x), places(x)]
from where to take each column ascending | places(x)
the two highest of each column, and from where | two_highest(x)
the product of two matrices | times(x, m)
products added up over j | times(x, m)
the matrix with zeros below the diagonal | without_lower(m)
the diagonal of the matrix | [m[i][i] for i in range(len(m))]
"""
MEANS = dict(line.split(" | ") for line in MEANS.strip().splitlines())
CALLS = vars(operator) | vars(math) | vars(statistics) | vars(itertools)


def clamped(number):
    return min(max(number, 0), 15)


def in_twos(x):
    return [x[i : i + 2] for i in range(0, len(x), 2)]


def two_highest(x):
    order = {"reverse": True}
    return [ordered(x, **order)[:2], places(x, **order)[:2]]


def without_lower(m):
    return [[0] * i + row[i:] for i, row in enumerate(m)]


def operands(run, words):
    """Yield matrices to operate on: those of the page, and others.

    Some of their numbers are equal, nearly equal, 10, or nearly 10.
    """
    yield run.temps, run.forecast, run.shares
    for seed, (n, m) in enumerate([(3, 2), (2, 3), (5, 4)]):
        generator = torch.Generator().manual_seed(seed)
        shares = torch.rand(m, m, generator=generator) + 0.1
        x = torch.rand(n, m, generator=generator) * 30 - 9 - 10 * (seed == 2)
        if "where" in words:  # which says nothing of equal numbers
            yield x, x, shares
            continue
        x.view(-1)[:4] = torch.tensor([10.0, 9.99, x[-1, -1], 12])
        other = random((n, m), torch.float32, seed + 9) + 0.25
        is_equal = torch.rand(n, m, generator=generator) < 0.4
        after = x.nextafter(torch.tensor(100.0))
        yield x, torch.where(is_equal, x, other), shares
        yield x, x.clone(), shares
        yield x.clamp(max=10), after.clamp(max=10), shares
        yield x.clamp(min=10), after, shares
    if "shape" in words:
        yield shares / shares, torch.ones(1, m), shares


def reads(words, call, x, y, m):
    """Return whether a call gives what words say."""
    names = {"torch": torch, "temps": x, "forecast": y, "shares": m}
    found = plain(eval(call, names))
    x, y, m = map(plain, (x, y, m))
    lists = {"x": x, "y": y, "m": m, "flat": [*itertools.chain(*x)]}
    return agrees(found, eval(MEANS[words], CALLS | globals() | lists))


def test_calls_do_what_their_rows_say(snippet, only=None):
    run = snippet.after("shown")

    assert {call: row["what"] for call, row in run.rows.items()} == run.does
    assert {*run.does.values()} == {*MEANS}, "words that nothing reads"
    for call, words in run.does.items():
        if only in (None, words):
            for matrices in operands(run, words):
                assert reads(words, call, *matrices), call
            gives = run.rows[call]["gives"]
            result = plain(eval(call, vars(run)))
            assert agrees(ast.literal_eval(gives), result, 5e-4)
            for number in re.findall(r"[\d.]+", gives):
                assert len(number.replace(".", "").lstrip("0")) <= 4


SWAPPED = """
the sum of all numbers | the mean of all numbers
the lower number of each pair | the higher number of each pair
the lowest number | the middle number, the lower one of two
the square of each number | each number without its sign
whether any number is above 10 | whether each number is above 10
each column ascending, and from where | both, on a new first axis
the product of two matrices | the product of each pair of numbers
"""


def halves(table):
    return [line.split(" | ") for line in table.strip().splitlines()]


@pytest.mark.parametrize("swap", halves(SWAPPED))
def test_calls_do_what_their_rows_say__but_not_with_words_swapped(
    snippet, swap, fails
):
    one, other = (f'": "{words}"' for words in swap)
    edited = snippet.edit(one, "...").edit(other, one).edit("...", other)
    fails(test_calls_do_what_their_rows_say, edited, swap[0])


OTHERS = """
temps * forecast | temps @ forecast.mT
temps.pow(2) | temps.pow(3)
temps.abs() | -temps
shares.exp() | shares.exp2()
shares.log() | shares.log2()
shares.sqrt() | shares.rsqrt()
temps.clamp(0, 15) | temps.clamp(0, 16)
torch.minimum(temps, forecast) | torch.fmax(temps, forecast)
torch.maximum(temps, forecast) | temps.amax().expand(temps.shape)
temps > 10 | temps >= 10
temps == forecast | temps.isclose(forecast)
torch.equal(temps, forecast) | torch.allclose(temps, forecast)
(temps > 10).any() | (temps >= 10).any()
(temps > 10).all(dim=1) | (temps > 10).all(dim=0)
torch.where(temps > 10, temps, 0) | torch.where(temps >= 10, temps, 0)
torch.cat([temps, forecast]) | torch.cat([forecast, temps])
torch.stack([temps, forecast]) | torch.stack([temps, forecast], dim=1)
temps.split(2) | temps.chunk(2)
temps.sum() | temps.nansum(dim=0)
temps.mean() | temps.median()
temps.std() | temps.std(correction=0)
temps.amin() | temps.abs().amin()
temps.amax(dim=1) | temps.amax(dim=0)
temps.argmax(dim=1) | temps.abs().argmax(dim=1)
temps.median() | temps.quantile(0.5)
temps.cumsum(dim=0) | temps.cumsum(dim=1)
torch.linalg.vector_norm(temps) | torch.linalg.matrix_norm(temps, ord=2)
temps.unique() | temps.flatten().sort().values
temps.sort(dim=0) | temps.sort(dim=1)
temps.argsort(dim=0) | temps.argsort(dim=0).argsort(dim=0)
temps.topk(2, dim=0) | temps.topk(2, dim=0, largest=False)
temps @ shares | temps @ shares.mT
torch.einsum('ij,jk->ik', temps, shares) | (temps @ shares).sum()
shares.triu() | shares.triu(1)
shares.diag() | shares.fliplr().diag()
"""


@pytest.mark.parametrize(("call", "other"), halves(OTHERS))
def test_calls_do_what_their_rows_say__but_not_another_call(
    snippet, call, other, fails
):
    [words] = re.findall(rf'    "{re.escape(call)}": "(.+)",\n', snippet.text)
    edited = snippet.edit(f'    "{call}":', f'    "{other}":')
    fails(test_calls_do_what_their_rows_say, edited, words)


@edits(
    (":.4g}", ":.2g}"),
    (":.4g}", ":.6g}"),
    ("shown(eval(c))", "shown(eval(c.replace('temps', 'forecast')))"),
    ("result.tolist()\n", "result.flatten().tolist()\n"),
    ('"what": w', '"what": c'),
)
def test_calls_do_what_their_rows_say__but_not_shown_otherwise(
    snippet, edit, fails
):
    fails(test_calls_do_what_their_rows_say, snippet.edit(*edit))


# Shapes that do not fit


SIGNS = [operator.add, operator.sub, operator.mul, operator.truediv]
FEW = [(), (0,), (1,), (2,), (3,), (2, 1), (3, 2), (2, 3, 2), (4, 1, 2)]


def test_sizes_must_be_equal_or_one(snippet):
    run = snippet.after("wrong-shapes")
    said = "size of tensor a (2) must match the size of tensor b (3)"

    assert said in (run.refusal(run.misfits[0]) or "")
    for one, other in itertools.product(FEW, repeat=2):
        misfits = any(
            1 not in pair and pair[0] != pair[1]
            for pair in zip(one[::-1], other[::-1], strict=False)
        )
        for sign in SIGNS:
            text = error_of(sign, torch.ones(one), torch.ones(other))
            assert ("at non-singleton dimension" in text) is misfits
            assert misfits or not text


@edits(
    ('"temps - of_days"', '"temps - of_cities"'),
    ('"temps - of_days"', '"temps - of_days[:, None]"'),
)
def test_sizes_must_be_equal_or_one__but_not_if_they_fit(snippet, edit, fails):
    fails(test_sizes_must_be_equal_or_one, snippet.edit(*edit))


def test_inner_sizes_must_agree(snippet):
    run = snippet.after("wrong-shapes")
    said = "mat1 and mat2 shapes cannot be multiplied"

    refusals = [unnamed(run.refusal(each)) for each in run.misfits[1:3]]
    assert refusals == [f"{said} (3x2 and 3x2)", f"{said} (3x2 and 4x2)"]
    for n, m, k, p in itertools.product((0, 1, 2, 5), repeat=4):
        x, y = torch.ones(n, m), torch.ones(k, p)
        wanted = "" if m == k else f"{said} ({n}x{m} and {k}x{p})"
        assert error_of(torch.matmul, x, y) == wanted
        assert error_of(torch.mm, x, y) == wanted
        if k and p:
            for bias in (True, False):
                layer = torch.nn.Linear(k, p, bias)
                assert error_of(layer, x) == wanted


@edits(
    ('"temps @ forecast"', '"temps @ forecast.T"'),
    ('"temps @ forecast"', '"temps * forecast"'),
    ("torch.nn.Linear(4, 2)", "torch.nn.Linear(2, 4)"),
)
def test_inner_sizes_must_agree__but_not_if_they_fit(snippet, edit, fails):
    fails(test_inner_sizes_must_agree, snippet.edit(*edit))


# Shapes that fit by accident


@pytest.mark.filterwarnings("ignore:std:UserWarning")
def test_dim_must_name_an_axis(snippet, reduce=None, shapes=SHAPES):
    run = snippet.after("wrong-dim")

    text = "Dimension out of range (expected to be in range of [{}, {}], but"
    assert run.out_of_range.startswith(text.format(-1, 0))
    for call in [reduce] if reduce else REDUCTIONS.values():
        for shape in shapes:
            n = len(shape)
            x = torch.arange(float(math.prod(shape))).reshape(shape)
            for dim in range(-n - 3, n + 3):
                try:
                    call(x, dim=dim)
                    said = ""
                except IndexError as error:
                    said = str(error)
                if -n <= dim < n:
                    assert said == ""
                else:
                    assert said == text.format(-n, n - 1) + f" got {dim})"


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_dim_must_name_an_axis__also_for_softmax(snippet, dtype):
    def softmax(x, dim):
        return x.to(dtype).softmax(dim)

    test_dim_must_name_an_axis(snippet, softmax)


def test_dim_must_name_an_axis__but_not_with_a_batch(snippet, fails):
    edited = snippet.edit("scores.argmax(dim=1)", "scores[None].argmax(dim=2)")
    fails(test_dim_must_name_an_axis, edited)


def test_dim_must_name_an_axis__ends_for_unsqueeze(snippet, fails):
    fails(test_dim_must_name_an_axis, snippet, torch.unsqueeze)


def test_dim_must_name_an_axis__ends_for_a_single_number(snippet, fails):
    fails(test_dim_must_name_an_axis, snippet, None, [()])


def test_a_square_hides_a_lost_keepdim(snippet):
    with no_error():
        run = snippet.after("silent-shapes")
        cases = [(run.square, run.wrong)]
        for n, dtype in itertools.product((1, 2, 5), FLOATS):
            x = random((n, n), dtype, seed=n)
            cases.append((x, x - x.mean(dim=1)))

    assert run.square.shape == (2, 2)
    assert not torch.equal(run.wrong, run.right)
    for less, row in zip(run.right, run.square, strict=True):
        assert torch.equal(less, row - row.mean())
    for x, less in cases:
        assert less.shape == x.shape
        for j, row in enumerate(x):
            assert same(less[:, j], x[:, j] - row.mean())


@instead_of(
    "wrong = square - square.mean(dim=1)",
    "square - square.mean(dim=1, keepdim=True)",
    "square - square.mean(dim=0)",
    "square - temps.mean()",
)
def test_a_square_hides_a_lost_keepdim__but_not_another_mean(
    snippet, edit, fails
):
    fails(test_a_square_hides_a_lost_keepdim, snippet.edit(*edit))


# Types and truth


def test_integers_have_no_mean(snippet):
    run = snippet.after("wrong-types")

    assert not run.counts.is_floating_point()
    assert all(run.refusal(code) for code in run.refused[:2])
    for dtype, shape in itertools.product([*INTEGERS, *UNSIGNED], SHAPES):
        x = torch.ones(shape).to(dtype)
        for reduce in (torch.mean, torch.std):
            assert "floating point" in error_of(reduce, x)
            assert error_of(reduce, x.float()) == ""


@edits(
    ("counts.mean()", "counts.float().mean()"),
    ("counts.std()", "counts.float().std()"),
    ("counts.mean()", "counts.sum()"),
)
def test_integers_have_no_mean__but_floats_do(snippet, edit, fails):
    fails(test_integers_have_no_mean, snippet.edit(*edit))


def test_in_place_keeps_the_type(snippet):
    run = snippet.after("wrong-types")
    said = "can't be cast to the desired output type"

    for code in run.refused[2:4]:
        assert said in (run.refusal(code) or "")
    for start in [*INTEGERS, *UNSIGNED]:
        x = torch.tensor([6, 4]).to(start)
        assert said in error_of(x.div_, 2)
        assert said in error_of(x.add_, 0.5)
        assert x.tolist() == [6, 4]
    for start, other in itertools.product([*INTEGERS, *FLOATS], repeat=2):
        x, y = torch.tensor([6, 4]).to(start), torch.tensor([2, 2]).to(other)
        fits = start.is_floating_point or not other.is_floating_point
        for name in ("add_", "sub_", "mul_", "div_"):
            is_division = name == "div_" and not start.is_floating_point
            text = error_of(getattr(x, name), y)
            assert (said in text) is (not fits or is_division)
            assert x.dtype == start


@edits(
    ("counts.div_(2)", "counts.div(2)"),
    ("counts.add_(0.5)", "counts.add(0.5)"),
    ("counts.div_(2)", "counts.div_(2, rounding_mode='floor')"),
    ("counts.add_(0.5)", "counts.add_(1)"),
    ("torch.tensor([3, 4])", "torch.tensor([3.0, 4.0])"),
)
def test_in_place_keeps_the_type__but_not_so(snippet, edit, fails):
    fails(test_in_place_keeps_the_type, snippet.edit(*edit))


TRUTHS = {
    "if": lambda x: 0 if x else 1,
    "and": lambda x: x and 1,
    "or": lambda x: x or 1,
    "not": lambda x: not x,
}


def test_truth_wants_one_number(snippet):
    run = snippet.after("wrong-types")
    said = "Boolean value of Tensor with more than one value is ambiguous"

    assert run.refusal(run.refused[4]) == said
    for dtype, truth in itertools.product(
        [torch.bool, torch.int64, *FLOATS], TRUTHS.values()
    ):
        for shape in [(2,), *SHAPES]:
            assert error_of(truth, torch.ones(shape).to(dtype)) == said
        for shape in ((), (1, 1)):
            assert not error_of(truth, torch.ones(shape).to(dtype))


@instead_of(
    "if warm else",
    "if warm.any() else",
    "if warm.all() else",
    "if warm[:1, :1] else",
)
def test_truth_wants_one_number__but_not_of_one(snippet, edit, fails):
    fails(test_truth_wants_one_number, snippet.edit(*edit))


# A where that gives nan gradients


def below_and_above():
    """Yield numbers of which some are 0, some less, and some more."""
    for shape, dtype in itertools.product([(3,), (2, 3, 4)], FLOATS):
        x = random(shape, dtype) * 2 - 9
        x.view(-1)[:3] = torch.tensor([0, -2, 9])
        yield x.requires_grad_()


def test_where_lets_nan_through(snippet):
    run = snippet.after("where")

    cases = [(run.degrees, run.roots)]
    for x in below_and_above():
        root = torch.where(x > 0, x.sqrt(), 0)
        root.sum().backward()
        cases.append((x, root))
    for x, root in cases:
        out = x.detach() <= 0
        assert 0 < out.sum() < x.numel()
        assert (root[out] == 0).all()
        assert torch.equal(root[~out], x[~out].sqrt())
        assert x.grad[out].isnan().all()


@edits(
    ("(degrees > 0, degrees.sqrt(), 0)", "(degrees > 0, degrees * 2, 0)"),
    ("degrees.sqrt(), 0)", "degrees.sqrt(), 1)"),
    ("degrees.sqrt(), 0)", "degrees.clamp(min=1).sqrt(), 0)"),
)
def test_where_lets_nan_through__but_not_so(snippet, edit, fails):
    fails(test_where_lets_nan_through, snippet.edit(*edit))


def test_zero_times_infinity_is_nan(snippet):
    run = snippet.after("where")

    assert torch.equal(run.degrees.grad.isnan(), run.degrees <= 0)
    for x in [run.degrees.detach().requires_grad_(), *below_and_above()]:
        root, other = x.sqrt(), x.detach().clone().requires_grad_()
        root.retain_grad()
        torch.where(x > 0, root, other).sum().backward()
        out = x.detach() <= 0
        assert torch.equal(root.grad, (~out).to(root.dtype))
        assert torch.equal(other.grad, out.to(root.dtype))
        [slope] = torch.autograd.grad(x.sqrt().sum(), x)
        assert slope[x == 0].isposinf().all()
        assert slope[x < 0].isnan().all()
        assert torch.equal((root.grad * slope).isnan(), out)


@edits(
    ("degrees.sqrt(), 0)", "degrees.clamp(min=1).sqrt(), 0)"),
    ("degrees.sqrt(), 0)", "degrees.square(), 0)"),
)
def test_zero_times_infinity_is_nan__but_not_for_another_slope(
    snippet, edit, fails
):
    fails(test_zero_times_infinity_is_nan, snippet.edit(*edit))


def test_choosing_the_input_first_is_safe(snippet):
    run = snippet.after("where-first")

    cases = [(run.learned, run.safe)]
    for x in below_and_above():
        inside = torch.where(x > 0, x, 1)
        root = torch.where(x > 0, inside.sqrt(), 0)
        root.sum().backward()
        cases.append((x, root))
    for x, root in cases:
        out = x.detach() <= 0
        above = x.detach()[~out].requires_grad_()
        above.sqrt().sum().backward()
        assert 0 < out.sum() < x.numel()
        assert (root[out] == 0).all()
        assert (x.grad[out] == 0).all()
        assert torch.equal(root[~out], above.sqrt())
        assert torch.equal(x.grad[~out], above.grad)


@edits(
    ("torch.where(learned > 0, learned, 1)", "learned * (learned > 0)"),
    ("learned, 1)", "2 * learned, 1)"),
    ("inside.sqrt(), 0)", "inside.sqrt(), learned)"),
)
def test_choosing_the_input_first_is_safe__but_not_so(snippet, edit, fails):
    fails(test_choosing_the_input_first_is_safe, snippet.edit(*edit))


def test_choosing_the_input_first_is_safe__but_not_chosen_afterwards(
    snippet, fails
):
    edited = snippet.edit("inside.sqrt()", "learned.sqrt()")
    fails(test_choosing_the_input_first_is_safe, edited)


# Where it ends


def test_floats_raise_nothing(snippet):
    with no_error():
        run = snippet.after("beyond")
        cases = [(run.logs, run.ratios)]
        for dtype in FLOATS:
            x = torch.tensor([1, 0], dtype=dtype)
            for low in (-1, -1e9, -1e-3):
                logs = torch.tensor([low, 0], dtype=dtype).log()
                cases += [(logs, x / 0), (logs, x / torch.zeros_like(x))]

    for logs, ratios in cases:
        assert logs[0].isnan()
        assert logs[1] == -math.inf
        assert ratios[0] == math.inf
        assert ratios[1].isnan()


@edits(
    ("[-1.0, 0.0]).log()", "[1.0, 0.0]).log()"),
    ("[-1.0, 0.0]).log()", "[-1.0, 2.0]).log()"),
    ("[1.0, 0.0]) / 0", "[1.0, 0.0]) / 1"),
    ("[1.0, 0.0]) / 0", "[1.0, 1.0]) / 0"),
    ("[1.0, 0.0]) / 0", "[1, 0]) // 0"),
)
def test_floats_raise_nothing__but_not_so(snippet, edit, fails):
    fails(test_floats_raise_nothing, snippet.edit(*edit))


SPOILED = ("sum", "mean", "std", "max", "amax", "median")
LEAVES_OUT = {"nansum": "sum", "nanmean": "mean", "nanmedian": "median"}


def test_one_nan_spoils_a_reduction(snippet, spoiled=SPOILED):
    run = snippet.after("beyond")

    assert run.means[0].isnan()
    assert run.means[1] == 13.5
    for shape, dtype in itertools.product([(2,), (3, 2), (2, 1, 3)], FLOATS):
        for place in range(math.prod(shape)):
            x = random(shape, dtype)
            x.view(-1)[place] = math.nan
            for name in spoiled:
                assert getattr(x, name)().isnan()
            rest = x[~x.isnan()]
            for name, plain in LEAVES_OUT.items():
                assert same(getattr(x, name)(), getattr(rest, plain)())


@edits(
    ("gap.mean(), gap", "gap.nanmean(), gap"),
    ("gap.nanmean())", "gap.mean())"),
    ("gap.nanmean())", "gap.nan_to_num().mean())"),
    ("12.0, torch.nan, 15.0", "12.0, 13.5, 15.0"),
)
def test_one_nan_spoils_a_reduction__but_not_so(snippet, edit, fails):
    fails(test_one_nan_spoils_a_reduction, snippet.edit(*edit))


@pytest.mark.parametrize("name", ["any", "argmax"])
def test_one_nan_spoils_a_reduction__but_not(snippet, name, fails):
    fails(test_one_nan_spoils_a_reduction, snippet, (name,))


def test_nan_equals_nothing(snippet):
    run = snippet.after("beyond")

    assert run.itself.tolist() == [True, False, True]
    for dtype in FLOATS:
        nan = torch.full((2, 3), math.nan, dtype=dtype)
        for other in (nan, nan.clone()):
            assert not (nan == other).any()
            assert not torch.isclose(nan, other).any()
            assert not torch.allclose(nan, other)
            assert not torch.equal(nan, other)
            assert torch.isclose(nan, other, equal_nan=True).all()
            assert torch.allclose(nan, other, equal_nan=True)


@instead_of(
    "itself = gap == gap",
    "gap.isclose(gap, equal_nan=True)",
    "gap.isnan()",
    "gap != gap",
)
def test_nan_equals_nothing__but_not_another(snippet, edit, fails):
    fails(test_nan_equals_nothing, snippet.edit(*edit))


def test_one_number_has_no_spread(shapes=((), (1,), (1, 1))):
    """The function itself warns: no cell shows it."""
    for shape, dtype in itertools.product(shapes, FLOATS):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            found = torch.ones(shape, dtype=dtype).std()
        assert found.isnan()


def test_one_number_has_no_spread__but_two_have(fails):
    fails(test_one_number_has_no_spread, ((2,),))


SEVERAL = ("sum", "mean", "std", "amax")
ONE = ("max", "argmax", "median")


def test_some_take_several_axes(taking=SEVERAL, refusing=ONE):
    """No cell shows it: the functions themselves refuse."""
    for shape, dtype in itertools.product([(3, 2), (4, 2, 3)], FLOATS):
        x = random(shape, dtype)
        for dim in itertools.combinations(range(len(shape)), 2):
            for name in refusing:
                with pytest.raises(TypeError):
                    REDUCTIONS[name](x, dim=dim)
            rest = [d for d in range(len(shape)) if d not in dim]
            flatter = x.permute(*rest, *dim).flatten(len(rest))
            for name in taking:
                with no_error():
                    found = REDUCTIONS[name](x, dim=dim)
                assert same(found, REDUCTIONS[name](flatter, dim=-1))


@pytest.mark.parametrize("name", ONE)
def test_some_take_several_axes__but_not_all(name, fails):
    fails(test_some_take_several_axes, (name,))


@pytest.mark.parametrize("name", SEVERAL)
def test_some_take_several_axes__but_these_raise_nothing(name, fails):
    fails(test_some_take_several_axes, SEVERAL, (name,))


# What the sources say


def test_pow_needs_an_exponent(exponent=()):
    """No cell shows it: the function itself refuses."""
    for dtype in [*FLOATS, *INTEGERS]:
        with pytest.raises(TypeError, match=r"pow\(\)"):
            torch.ones(2).to(dtype).pow(*exponent)


def test_pow_needs_an_exponent__but_raises_nothing_with_one(fails):
    fails(test_pow_needs_an_exponent, (2,))


def test_norm_is_not_spectral(rank=2):
    """No cell shows it: the functions themselves differ."""
    for shape, dtype in itertools.product([(2, 2), (3, 2), (4, 5)], FLOATS):
        x = random(shape, dtype, seed=3)
        if rank == 1:
            x = x[:, :1] * x[:1]
        assert torch.linalg.matrix_rank(x) >= min(rank, 2)
        found = torch.norm(x)
        assert same(found, x.square().sum().sqrt())
        assert found > torch.linalg.matrix_norm(x, ord=2) * (1 + 1e-4)


def test_norm_is_not_spectral__but_of_rank_one_it_is(fails):
    fails(test_norm_is_not_spectral, 1)


def test_baddbmm_adds_to_the_products(options=None, batch=1):
    """No cell shows it: the function itself adds, and refuses."""
    for shape in [(5, 3, 4), (4,), (3, 4), (1, 3, 4), (5, 1, 1), ()]:
        a, b = random((5, 3, 2)).float(), random((5, 2, 4)).float()
        c = random(shape, torch.float32, seed=2)
        added = torch.baddbmm(c, a, b, **(options or {}))
        assert same(added, c + a @ b)
        assert error_of(torch.baddbmm, c, a[:batch], b)
        assert error_of(torch.baddbmm, c, a, b[:batch])


@pytest.mark.parametrize("options", [{"beta": 0}, {"alpha": 2}])
def test_baddbmm_adds_to_the_products__but_not_scaled(options, fails):
    fails(test_baddbmm_adds_to_the_products, options)


def test_baddbmm_adds_to_the_products__but_takes_equally_many(fails):
    fails(test_baddbmm_adds_to_the_products, {}, 5)
