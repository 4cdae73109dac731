"""The claims of docs/tensors/operations.md, by NumPy and by hand."""

import itertools
import math
import operator
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers import worlds

FLOATS = [torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
INTEGERS += [torch.uint16, torch.uint32, torch.uint64]
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
MORE = {
    "prod": torch.prod,
    "var": torch.var,
    "min": torch.min,
    "amin": torch.amin,
    "argmin": torch.argmin,
    "nansum": torch.nansum,
    "nanmean": torch.nanmean,
    "logsumexp": torch.logsumexp,
    "norm": torch.linalg.vector_norm,
    "quantile": lambda x, dim, keepdim=False: x.quantile(
        0.3, dim=dim, keepdim=keepdim
    ),
}
LAID_OUT = worlds.each(
    "tensor",
    worlds.TENSORS,
    "of one element",
    "transposed",
    "with gaps",
    "expanded",
    "requiring grad",
    "non-leaf",
    "bfloat16",
)


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


def reduced(reduce, x, **options):
    """Return what a reduction gives, without a warning of one number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return first(reduce(x, **options))


def along(reduce, x, d):
    """Return what a reduction gives for each line along an axis."""
    return torch.stack([reduced(reduce, each, dim=0) for each in lines(x, d)])


def error_of(call, *inputs):
    """Return what a call complains of: nothing, if it runs."""
    try:
        call(*inputs)
    except (RuntimeError, TypeError, IndexError) as error:
        return unnamed(str(error))
    return ""


def unnamed(said):
    """Return a complaint without the name of what torch 2.15 has called."""
    return f"{said}".removeprefix("mm: ")


def same(one, other):
    """Return whether two tensors agree up to rounding, nan included."""
    return one.shape == other.shape and torch.allclose(
        one.double(), other.double(), rtol=1e-4, equal_nan=True
    )


# Do this


def test_dim_is_the_axis_averaged_over(snippet):
    run = snippet.after("do-this")

    images = run.images.double()
    assert run.mean_image.shape == (8, 8)
    assert same(run.mean_image, sum(images) / len(images))
    assert same(run.ink, torch.stack([each.sum() / 64 for each in images]))


@edits(
    ("mean_image = images.mean(dim=0)", "mean_image = images.mean(dim=1)"),
    ("images.mean(dim=(1, 2))", "images.mean(dim=(0, 1))"),
    ("images.mean(dim=(1, 2))", "images.mean(dim=1)"),
    ("images.mean(dim=(1, 2))", "images.mean()"),
)
def test_dim_is_the_axis_averaged_over__but_not_over_another_axis(
    snippet, old, new, fails
):
    """With another `dim`, you average over other axes, such as the rows."""
    fails(test_dim_is_the_axis_averaged_over, snippet.edit(old, new))


@edits(
    ("images.mean(dim=(1, 2))", "images.sum(dim=(1, 2))"),
    ("mean_image = images.mean(dim=0)", "mean_image = images.amax(dim=0)"),
    ("images.mean(dim=0)", "images.median(dim=0).values"),
)
def test_dim_is_the_axis_averaged_over__but_not_by_another_call(
    snippet, old, new, fails
):
    """A sum, a maximum or a median gives other numbers than the mean."""
    fails(test_dim_is_the_axis_averaged_over, snippet.edit(old, new))


# dim, the axis that you reduce over


STRANGE = {
    "a running total": lambda x, dim=0: x.cumsum(dim),
    "the mean of all": lambda x, dim=0: x.amax(dim) * 0 + x.mean(),
    "keepdim": lambda x, dim=0: x.mean(dim, keepdim=True),
}


def test_dim_takes_the_axis_away(
    snippet, names=tuple(REDUCTIONS), shapes=tuple(SHAPES)
):
    run = snippet.after("by-hand")

    assert run.of_columns.tolist() == [2, 3, 5.5]
    assert run.of_rows.tolist() == [3, 4]
    for (x, d), name in itertools.product(tensors(shapes), names):
        reduce = (REDUCTIONS | MORE | STRANGE)[name]
        with no_error():
            found = reduced(reduce, x, dim=d)
        rest = [*x.shape]
        del rest[d]
        assert [*found.shape] == rest
        assert same(found.flatten(), along(reduce, x, d))


@pytest.mark.parametrize("reduction", MORE)
def test_dim_takes_the_axis_away__also_with(snippet, reduction):
    test_dim_takes_the_axis_away(snippet, (reduction,))


@LAID_OUT
def test_dim_takes_the_axis_away__also_if_the_tensor_is(tensor):
    x = tensor().detach()
    for reduce, d in itertools.product((torch.sum, torch.amax), (0, 1)):
        found = reduce(x, dim=d)
        assert found.shape == x.shape[1 - d : 2 - d]
        assert same(found, along(reduce, x, d))


@pytest.mark.parametrize("name", STRANGE)
def test_dim_takes_the_axis_away__but_not_with(snippet, name, fails):
    """A running total doesn't reduce, and `keepdim=True` keeps the axis."""
    fails(test_dim_takes_the_axis_away, snippet, (name,))


@edits(
    ("of_rows = x.mean(dim=1)", "of_rows = x.mean(dim=0)"),
    ("of_columns = x.mean(dim=0)", "of_columns = x.mean(dim=1)"),
    ("of_rows = x.mean(dim=1)", "of_rows = x.mean(dim=1, keepdim=True)"),
)
def test_dim_takes_the_axis_away__but_not_another_one(
    snippet, old, new, fails
):
    """With another `dim`, another axis disappears."""
    edited = snippet.edit(old, new)
    fails(test_dim_takes_the_axis_away, edited, ("mean",))


@pytest.mark.parametrize("name", ["max", "amax", "argmax", "median"])
def test_dim_takes_the_axis_away__ends_without_numbers_for(
    snippet, name, fails
):
    """An axis of size 0 has no largest number, so this raises an error."""
    fails(test_dim_takes_the_axis_away, snippet, (name,), [(0,)])


def test_keepdim_leaves_size_one(snippet, reductions=None):
    run = snippet.after("keepdim")

    assert run.row_means.tolist() == [[3], [4]]
    for x, d in tensors():
        for reduce in (reductions or REDUCTIONS).values():
            with no_error():
                kept = reduced(reduce, x, dim=d, keepdim=True)
            one = [*x.shape]
            one[d] = 1
            assert [*kept.shape] == one
            assert same(kept.flatten(), along(reduce, x, d))


def test_keepdim_leaves_size_one__also_with_other_reductions(snippet):
    test_keepdim_leaves_size_one(snippet, MORE)


def test_keepdim_leaves_size_one__ends_for_count_nonzero(snippet, fails):
    """`count_nonzero` has no `keepdim`, so this raises an error."""
    with_error = {"count_nonzero": torch.count_nonzero}
    fails(test_keepdim_leaves_size_one, snippet, with_error)


@edits(
    ("dim=1, keepdim=True)", "dim=1)[None]"),
    ("dim=1, keepdim=True)", "dim=1)"),
    ("dim=1, keepdim=True)", "dim=0, keepdim=True)"),
)
def test_keepdim_leaves_size_one__but_not_elsewhere(snippet, old, new, fails):
    """The axis of size 1 has to be the one that was reduced."""
    lost = ("row_means = x.mean(", "centered = x - row_means")
    edited = snippet.edit(f"{lost[0]}dim=1, keepdim=True)", lost[0] + new)
    fails(test_keepdim_leaves_size_one, edited.edit(lost[1], "centered = x"))


def test_a_negative_dim_counts_from_the_end(snippet):
    run = snippet.after("by-hand")

    assert torch.equal(run.x.mean(dim=-1), run.of_rows)
    assert torch.equal(run.x.mean(dim=-2), run.of_columns)
    for x, d in tensors():
        for reduce in (REDUCTIONS | MORE).values():
            from_end = d - x.ndim if d >= 0 else d + x.ndim
            found = reduced(reduce, x, dim=from_end)
            assert same(found, reduced(reduce, x, dim=d))


@edits(
    ("of_rows = x.mean(dim=1)", "of_rows = x.mean(dim=0)"),
    ("of_columns = x.mean(dim=0)", "of_columns = x.mean(dim=-1)"),
)
def test_a_negative_dim_counts_from_the_end__but_not_from_the_start(
    snippet, old, new, fails
):
    """Each mean belongs to one `dim`, and these are the means over the other
    axis.
    """
    edited = snippet.edit(old, new)
    fails(test_a_negative_dim_counts_from_the_end, edited)


def test_keepdim_fits_the_tensor(snippet):
    run = snippet.after("keepdim")

    assert run.centered.tolist() == [[-2, -1, 3], [-1, 0, 1]]
    for x, d in tensors():
        less = x - x.mean(dim=d, keepdim=True)
        assert less.shape == x.shape
        for line, of_line in zip(lines(x, d), lines(less, d), strict=True):
            assert same(of_line, line - line.mean())


@edits(
    ("dim=1, keepdim=True)", "dim=0, keepdim=True)"),
    ("dim=1, keepdim=True)", "dim=(0, 1), keepdim=True)"),
    ("centered = x - row_means", "centered = row_means - x"),
)
def test_keepdim_fits_the_tensor__but_not_another_mean(
    snippet, old, new, fails
):
    """If you subtract the mean of each column or of all numbers, you get other
    numbers.
    """
    if old.startswith("dim"):
        old, new = (f"row_means = x.mean({each}" for each in (old, new))
    fails(test_keepdim_fits_the_tensor, snippet.edit(old, new))


# Stack tensors, or concatenate them


def test_stack_makes_an_axis(snippet, more=()):
    run = snippet.after("stack")

    assert run.mean_images.shape == (10, 8, 8)
    for digit, found in enumerate(run.mean_images):
        of_digit = run.images[run.labels == digit].double()
        assert same(found, of_digit.mean(dim=0))
    for shape in [(), *SHAPES]:
        pieces = [random(shape, seed=seed) for seed in range(5)]
        pieces += [each.expand(shape) for each in more]
        for d in range(len(shape) + 1):
            stacked = torch.stack(pieces, dim=d)
            assert stacked.shape == (*shape[:d], len(pieces), *shape[d:])
            for i, piece in enumerate(pieces):
                assert stacked.select(d, i).tolist() == piece.tolist()
        assert torch.equal(torch.stack(pieces)[3], pieces[3])
        other = torch.ones(*shape, 2)
        assert "equal size" in error_of(torch.stack, [*pieces, other])


def test_stack_makes_an_axis__also_of_integers_that_the_dtype_holds(snippet):
    test_stack_makes_an_axis(snippet, [torch.tensor(2**53)])


@LAID_OUT
def test_stack_makes_an_axis__also_if_the_tensor_is(tensor):
    x = tensor()
    stacked = torch.stack([x, x * 2], dim=1)
    assert torch.equal(stacked[:, 0], x)
    assert torch.equal(stacked[:, 1], x * 2)


@edits(
    ("torch.stack(means)", "torch.stack(means, dim=1)"),
    ("torch.stack(means)", "torch.cat(means)"),
    ("torch.stack(means)", "torch.stack(means[::-1])"),
)
def test_stack_makes_an_axis__but_not_another(snippet, old, new, fails):
    """With `dim=1` the new axis is the second one, and `cat` makes none."""
    fails(test_stack_makes_an_axis, snippet.edit(old, new))


def test_stack_makes_an_axis__ends_for_mixed_dtypes(snippet, fails):
    """Stacked with floats, an integer becomes a float, and a large one is
    rounded.
    """
    fails(test_stack_makes_an_axis, snippet, [torch.tensor(2**53 + 1)])


def test_cat_lengthens_an_axis(snippet, more=()):
    run = snippet.after("cat")

    assert run.more.shape == (1807, 8, 8)
    assert torch.equal(run.more[:1797], run.images)
    assert torch.equal(run.more[1797:], run.mean_images)
    for shape in SHAPES:
        for d in range(-len(shape), len(shape)):
            pieces, sizes = [], [1, 3, 0, 2]
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
            for other in (torch.ones(*shape, 1), *more, torch.ones(())):
                assert error_of(torch.cat, [*pieces, other], d)


@pytest.mark.parametrize("d", [0, 1])
def test_cat_lengthens_an_axis__also_by_sizes_that_differ_elsewhere(d):
    for n, m in itertools.permutations((0, 1, 2, 3), 2):
        one, other = torch.ones(n, n + 1), torch.ones(m, m + 1)
        assert "must match" in error_of(torch.cat, [one, other], d)


@edits(
    ("torch.cat([images, mean_images])", "torch.stack([images, images])"),
    (
        "torch.cat([images, mean_images])",
        "torch.cat([images, mean_images[:8]], dim=0)",
    ),
    ("torch.cat([images, mean_images])", "torch.cat([mean_images, images])"),
)
def test_cat_lengthens_an_axis__but_not_another(snippet, old, new, fails):
    """`stack` makes a new axis, and fewer images or another order give
    another batch.
    """
    fails(test_cat_lengthens_an_axis, snippet.edit(old, new))


def test_cat_lengthens_an_axis__ends_for_an_empty_vector(snippet, fails):
    """`torch.cat` skips an empty vector, such as `torch.tensor([])`, beside
    tensors of any shape.
    """
    fails(test_cat_lengthens_an_axis, snippet, [torch.tensor([])])


# Multiply matrices


def test_a_product_pairs_rows_with_columns(snippet, more=()):
    run = snippet.after("product")

    cases = [(run.x, run.w, run.product), *[(x, w, x @ w) for x, w in more]]
    sizes = itertools.product((1, 2, 5), repeat=3)
    for (n, k, m), dtype in itertools.product(sizes, [*FLOATS, torch.int64]):
        x, w = random((n, k)).to(dtype), random((k, m), seed=1).to(dtype)
        cases += [(x, w, x @ w), (x, w.mT.contiguous().mT, x @ w)]
    for x, w, product in cases:
        assert product.tolist() == [
            [
                sum(a * b for a, b in zip(row, column, strict=True))
                for column in zip(*w.tolist(), strict=True)
            ]
            for row in x.tolist()
        ]


@edits(
    ("x @ w  #", "x[:, :2] * w[:2]  #"),
    ("x @ w  #", "w @ x  #"),
    ("x @ w  #", "(x @ w).T  #"),
    ("x @ w  #", "(x[:, :, None] * w).amax(dim=1)  #"),
)
def test_a_product_pairs_rows_with_columns__but_not_in_another_product(
    snippet, old, new, fails
):
    """`*` multiplies number by number, and the other order swaps rows and
    columns.
    """
    fails(test_a_product_pairs_rows_with_columns, snippet.edit(old, new))


def test_a_product_pairs_rows_with_columns__ends_in_uint8(snippet, fails):
    """In `uint8`, a sum above 255 wraps around."""
    pixels = torch.full((1, 3), 100, dtype=torch.uint8)
    pair = (pixels, torch.ones_like(pixels).T)
    fails(test_a_product_pairs_rows_with_columns, snippet, [pair])


def linear(weight, bias, inputs):
    """Return what a layer computes that has these parameters."""
    layer = nn.Linear(*weight.T.shape, dtype=weight.dtype)
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer(inputs).detach()


def test_a_linear_layer_is_a_product(snippet):
    run = snippet.after("scores")

    assert run.scores.shape == (1797, 10)
    assert same(run.scores, linear(run.weight, run.bias, run.flat))
    for (n, k, m), dtype in itertools.product([(5, 3, 2), (1, 1, 4)], FLOATS):
        inputs, weight = random((n, k), dtype), random((m, k), dtype, 1)
        bias = random((m,), dtype, 2)
        expected = linear(weight, bias, inputs)
        assert same(inputs @ weight.T + bias, expected)


@edits(
    ("flat @ weight.T + bias", "flat @ weight.T"),
    ("flat @ weight.T + bias", "flat @ weight.T - bias"),
    ("flat @ weight.T + bias", "flat @ weight.flip(0).T + bias"),
)
def test_a_linear_layer_is_a_product__but_not_another(
    snippet, old, new, fails
):
    """Without the bias, or with another weight, the scores are different."""
    fails(test_a_linear_layer_is_a_product, snippet.edit(old, new))


def test_the_highest_score_is_the_nearest(snippet):
    run = snippet.after("scores")

    for image, scores in zip(run.images[:500], run.scores, strict=False):
        gaps = (run.mean_images.double() - image).square().sum(dim=(1, 2))
        assert scores.argmax() == gaps.argmin()


@edits(
    ("weight.square().sum(dim=1) / 2", "weight.square().sum(dim=1)"),
    ("bias = -weight", "bias = 0 * weight"),
    ("bias = -weight", "bias = weight"),
    ("weight.square().sum(dim=1) / 2", "weight.sum(dim=1) / 2"),
)
def test_the_highest_score_is_the_nearest__but_not_with_another_bias(
    snippet, old, new, fails
):
    """With another bias, or none, some images get a different guess."""
    fails(test_the_highest_score_is_the_nearest, snippet.edit(old, new))


# The largest number, and where it is


def test_max_gives_values_and_indices(snippet, more=()):
    run = snippet.after("largest")

    assert torch.equal(run.highest.indices, run.guesses)
    cases = [(run.scores, 1, run.highest), *more]
    cases += [(x, d, x.max(dim=d)) for x, d in tensors()]
    for x, d, found in cases:
        values, indices = found
        assert values is found.values
        assert indices is found.indices
        largest = [max(line) for line in lines(x, d).tolist()]
        assert values.flatten().tolist() == largest
        found_there = x.gather(d, indices.unsqueeze(d)).squeeze(d)
        assert torch.equal(found_there, values)


@edits(
    ("scores.max(dim=1)", "scores.min(dim=1)"),
    ("scores.max(dim=1)", "scores.max(dim=0)"),
    (
        "scores.max(dim=1)",
        "torch.return_types.max((scores.amax(1), scores.argmin(1)))",
    ),
    ("scores.argmax(dim=1)", "scores.argmin(dim=1)"),
)
def test_max_gives_values_and_indices__but_not_of_others(
    snippet, old, new, fails
):
    """The smallest numbers, the columns or other positions don't match the
    rows.
    """
    fails(test_max_gives_values_and_indices, snippet.edit(old, new))


def test_max_gives_values_and_indices__ends_at_nan(snippet, fails):
    """If there is a nan in the row, `max` returns that nan."""
    x = torch.tensor([[1.0, math.nan, 3.0]])
    case = (x, 1, x.max(dim=1))
    fails(test_max_gives_values_and_indices, snippet, [case])


def test_sort_takes_the_last_axis(snippet):
    run = snippet.after("largest")

    for scores, two in zip(run.scores, run.best_two.indices, strict=True):
        ranked = sorted(range(10), key=scores.tolist().__getitem__)
        assert two.tolist() == ranked[:-3:-1]
    for shape, dtype in itertools.product(SHAPES, FLOATS):
        x = random(shape, dtype)
        expected = np.sort(x.numpy(), axis=-1)
        ordered, places = x.sort()
        assert (ordered.numpy() == expected).all()
        assert torch.equal(x.gather(-1, places), ordered)
        assert torch.equal(x.gather(-1, x.argsort()), ordered)
        assert (x.topk(1).values.numpy() == expected[..., -1:]).all()
        for d in range(len(shape)):
            expected = np.sort(x.numpy(), axis=d)
            assert (x.sort(dim=d).values.numpy() == expected).all()
            places = x.argsort(dim=d)
            assert (x.gather(d, places).numpy() == expected).all()
            highest = x.topk(1, dim=d).values.numpy()
            assert (highest == expected.max(axis=d, keepdims=True)).all()


@edits(
    ("scores.topk(2)", "scores.topk(2, dim=0)"),
    ("scores.topk(2)", "scores.flatten().topk(2)"),
    ("scores.topk(2)", "scores.topk(2, largest=False)"),
    ("scores.topk(2)", "scores.sort()"),
)
def test_sort_takes_the_last_axis__but_not_another(snippet, old, new, fails):
    """With `dim=0`, `topk` finds the best images of each digit."""
    fails(test_sort_takes_the_last_axis, snippet.edit(old, new))


# Compare and count


COMPARED = {
    operator.eq: torch.eq,
    operator.gt: torch.gt,
    operator.lt: torch.lt,
}


def test_a_sum_counts_what_is_true(snippet, more=()):
    run = snippet.after("count")
    for x, y in more:
        assert torch.as_tensor(x == y).shape == x.shape

    pairs = zip(run.guesses.tolist(), run.labels.tolist(), strict=True)
    right = [guess == label for guess, label in pairs]
    assert run.right.dtype == torch.bool
    assert run.right.tolist() == right
    assert run.number_right == right.count(True)
    assert run.share_right.item() == pytest.approx(sum(right) / len(right))
    kinds = [*FLOATS, torch.int64]
    for shape, dtype in itertools.product(SHAPES, kinds):
        x, y = random(shape).to(dtype), random(shape, seed=1).to(dtype)
        y = torch.where(random(shape, seed=2) > 6, x, y)
        for compare in (operator.eq, operator.gt, operator.lt):
            found = compare(x, y)
            numbers = zip(x.flatten(), y.flatten(), strict=True)
            wanted = [compare(a.item(), b.item()) for a, b in numbers]
            assert found.dtype == torch.bool
            assert found.shape == x.shape
            assert found.flatten().tolist() == wanted
            assert found.sum() == sum(wanted)
            above = [number > 3 for number in x.flatten().tolist()]
            assert (x > 3).sum() == sum(above)


@edits(
    ("= guesses == labels", "= guesses != labels"),
    ("= guesses == labels", "= (guesses == labels).int()"),
    ("= guesses == labels", "= guesses == labels[0]"),
    ("right.sum()", "(~right).sum()"),
    ("right.sum()", "right.any()"),
    ("right.float().mean()", "right.float().sum()"),
)
def test_a_sum_counts_what_is_true__but_not_another(snippet, old, new, fails):
    """If you count the wrong guesses instead, you get another number."""
    fails(test_a_sum_counts_what_is_true, snippet.edit(old, new))


def test_a_sum_counts_what_is_true__ends_for_a_column(snippet, fails):
    """A column and a vector are broadcast, so each guess is compared with
    each label.
    """
    pair = (torch.ones(3, 1), torch.ones(3))
    fails(test_a_sum_counts_what_is_true, snippet, [pair])


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_sum_counts_what_is_true__ends_for_a(snippet, kind, fails):
    """Compared with a list or a tuple, `==` gives a single `False`."""
    pair = (torch.ones(3), kind([1.0, 1.0, 1.0]))
    fails(test_a_sum_counts_what_is_true, snippet, [pair])


def test_nine_in_ten_are_read(snippet):
    run = snippet.after("count")

    assert len(run.right) == len(run.images) == 1797
    assert run.share_right.item() == pytest.approx(run.number_right / 1797)
    assert round(run.share_right.item(), 2) == 0.9
    nearest = torch.cdist(run.flat, run.weight).argmin(dim=1)
    assert (nearest == run.labels).sum() == run.number_right


def test_nine_in_ten_are_read__also_digit_by_digit(snippet):
    run = snippet.after("shares-checked")

    right, labels = run.right.tolist(), run.labels.tolist()
    for digit, (share, expected) in enumerate(
        zip(run.shares, run.expected, strict=True)
    ):
        read = [a for a, b in zip(right, labels, strict=True) if b == digit]
        assert share.item() == pytest.approx(sum(read) / len(read))
        assert expected.item() == pytest.approx(sum(read) / len(read))
        assert share > 0.75


@edits(
    ("flat @ weight.T + bias", "flat @ weight.T"),
    ("means = [images[labels == digit]", "means = [images[labels >= digit]"),
    ("scores.argmax(dim=1)", "scores.argmin(dim=1)"),
    ("= guesses == labels", "= guesses != labels"),
)
def test_nine_in_ten_are_read__but_not_with_another_rule(
    snippet, old, new, fails
):
    """Without the bias, or with other means, the classifier gets fewer images
    right.
    """
    fails(test_nine_in_ten_are_read, snippet.edit(old, new))


# What goes wrong


def test_inner_sizes_must_agree(snippet, more=()):
    run = snippet.after("wrong-inner")
    said = "mat1 and mat2 shapes cannot be multiplied"
    for left, right in more:
        assert said in error_of(torch.matmul, left, right)

    assert (
        unnamed(getattr(run, "cannot_multiply", ""))
        == f"{said} (1797x64 and 10x64)"
    )
    for n, m, k, p in itertools.product((0, 1, 2, 5), repeat=4):
        x, y = torch.ones(n, m), torch.ones(k, p)
        wanted = "" if m == k else f"{said} ({n}x{m} and {k}x{p})"
        assert error_of(torch.matmul, x, y) == wanted
        assert error_of(torch.mm, x, y) == wanted


@pytest.mark.parametrize(
    "shape", [(3,), (5, 3, 4)], ids=["a vector", "a batch"]
)
def test_inner_sizes_must_agree__ends_on_the_right_for(snippet, shape, fails):
    """If the right one is a vector or a batch, the error has another text."""
    pair = (torch.ones(5, 4, 2), torch.ones(shape))
    fails(test_inner_sizes_must_agree, snippet, [pair])


@pytest.mark.parametrize("bias", [True, False], ids=["a bias", "no bias"])
def test_inner_sizes_must_agree__also_in_a_linear_layer_with(bias):
    said = "mat1 and mat2 shapes cannot be multiplied"
    for n, m, k, p in itertools.product((1, 2, 5), repeat=4):
        layer = nn.Linear(k, p, bias)
        wanted = "" if m == k else f"{said} ({n}x{m} and {k}x{p})"
        text = error_of(layer, torch.ones(n, m))
        assert text.removeprefix("addmm: ") == wanted  # as torch 2.15 says


@edits(
    ("    flat @ weight\n", "    flat @ weight.T\n"),
    ("    flat @ weight\n", "    flat[:10] * weight\n"),
    ("    flat @ weight\n", "    flat[:, :10] @ weight\n"),
)
def test_inner_sizes_must_agree__but_not_if_they_fit(snippet, old, new, fails):
    """With 64 rows on the right there is no error, as in `flat @ weight.T`."""
    fails(test_inner_sizes_must_agree, snippet.edit(old, new))


@pytest.mark.filterwarnings("ignore:std:UserWarning")
def test_dim_must_name_an_axis(snippet, reduce=None, shapes=tuple(SHAPES)):
    run = snippet.after("wrong-dim")

    text = "Dimension out of range (expected to be in range of [{}, {}], but"
    found = getattr(run, "out_of_range", "")
    assert found == text.format(-1, 0) + " got 1)"
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
def test_dim_must_name_an_axis__also_for_softmax_in(snippet, dtype):
    def softmax(x, dim):
        return x.to(dtype).softmax(dim)

    test_dim_must_name_an_axis(snippet, softmax)


@edits(
    ("scores[0]  #", "scores[:1]  #"),
    ("one_image.argmax(dim=1)", "one_image.argmax(dim=-1)"),
    ("one_image.argmax(dim=1)", "one_image[None].argmax(dim=2)"),
)
def test_dim_must_name_an_axis__but_not_if_it_does(snippet, old, new, fails):
    """The axis exists if you add a batch axis or count from the end."""
    edited = snippet.edit(old, new).edit(
        "try:\n    one", 'out_of_range = ""\ntry:\n    one'
    )
    fails(test_dim_must_name_an_axis, edited)


def test_dim_must_name_an_axis__ends_for_unsqueeze(snippet, fails):
    """`unsqueeze` makes an axis, so it takes one `dim` more at either end."""
    fails(test_dim_must_name_an_axis, snippet, torch.unsqueeze)


def test_dim_must_name_an_axis__ends_for_a_single_number(snippet, fails):
    """A single number has no axis, but takes 0 and -1 all the same."""
    fails(test_dim_must_name_an_axis, snippet, None, [()])


def test_argmax_counts_through_all_numbers(snippet, more=()):
    run = snippet.after("argmax-of-all")

    cases = [(run.scores, run.position)]
    with no_error():
        cases += [(x, x.argmax()) for x in more]
    for shape in [(), *SHAPES]:
        transposed = random(shape[::-1]).permute([*range(len(shape))][::-1])
        cases += [(x, x.argmax()) for x in (random(shape), transposed)]
    for x, position in cases:
        assert position.shape == ()
        numbers = x.tolist() if x.ndim else [x.item()]
        for _ in range(x.ndim - 1):
            numbers = [*itertools.chain(*numbers)]
        assert numbers[position] == max(numbers)
        place = torch.unravel_index(position, x.shape)
        assert len(place) == x.ndim
        assert x[place] == max(numbers)


def test_argmax_counts_through_all_numbers__ends_for_booleans(snippet, fails):
    """`argmax` of booleans raises an error: convert them with `.int()`."""
    is_true = torch.tensor([False, True])
    fails(test_argmax_counts_through_all_numbers, snippet, [is_true])


@edits(
    ("scores.argmax()", "scores.argmin()"),
    ("scores.argmax()", "scores.T.argmax()"),
)
def test_argmax_counts_through_all_numbers__but_not_another_way(
    snippet, old, new, fails
):
    """`argmin` finds the smallest number, and with `.T` you count down the
    columns.
    """
    fails(test_argmax_counts_through_all_numbers, snippet.edit(old, new))


def test_argmax_counts_through_all_numbers__but_not_with_a_dim(snippet, fails):
    """With `dim=1`, there is one position for each row."""
    edited = snippet.edit("scores.argmax()", "scores.argmax(dim=1)")
    fails(test_argmax_counts_through_all_numbers, edited)


def test_a_square_hides_a_lost_keepdim(snippet):
    with no_error():
        run = snippet.after("lost-keepdim")
        cases = [(run.image, run.wrong)]
        for n, dtype in itertools.product((1, 2, 5), FLOATS):
            x = random((n, n), dtype, seed=n)
            cases.append((x, x - x.mean(dim=1)))

    for less, row in zip(run.centered_image, run.image, strict=True):
        assert same(less, row - row.mean())
    assert not torch.equal(run.wrong, run.centered_image)
    for x, less in cases:
        assert less.shape == x.shape
        for j, row in enumerate(x):
            assert same(less[:, j], x[:, j] - row.mean())


@edits(
    ("image - image.mean(dim=1)\n", "image - image.mean(dim=1)[:, None]\n"),
    ("image - image.mean(dim=1)\n", "image - image.mean()\n"),
    ("image - image.mean(dim=1)\n", "image.T - image.mean(dim=1)\n"),
)
def test_a_square_hides_a_lost_keepdim__but_not_if_the_means_fit(
    snippet, old, new, fails
):
    """As a column, each mean meets its own row."""
    fails(test_a_square_hides_a_lost_keepdim, snippet.edit(old, new))


def test_a_square_hides_a_lost_keepdim__but_not_down_the_columns(
    snippet, fails
):
    """The means of the columns line up with the columns without `keepdim`."""
    edited = snippet.edit(
        "wrong = image - image.mean(dim=1)",
        "wrong = image - image.mean(dim=0)",
    )
    fails(test_a_square_hides_a_lost_keepdim, edited)


def test_a_square_hides_a_lost_keepdim__but_not_if_it_is_not_square(
    snippet, fails
):
    """Without its last row the image isn't square, and the line raises an
    error.
    """
    edited = snippet.edit("image = images[0]\n", "image = images[0, :7]\n")
    fails(test_a_square_hides_a_lost_keepdim, edited)


def test_integers_have_no_mean(snippet, mean=torch.mean):
    run = snippet.after("wrong-mean")

    assert run.right.dtype == torch.bool
    assert run.labels.dtype == torch.int64
    assert "floating point" in getattr(run, "no_mean", "")
    for dtype, shape in itertools.product([*INTEGERS, torch.bool], SHAPES):
        x = torch.ones(shape).to(dtype)
        for call in (mean, torch.std):
            assert "floating point" in error_of(call, x)
            assert error_of(call, x.float()) == ""


@edits(
    ("tensor.mean()", "tensor.float().mean()"),
    ("tensor.mean()", "tensor.sum()"),
    ("(right, labels):", "(right.float(), labels.double()):"),
)
def test_integers_have_no_mean__but_floats_do(snippet, old, new, fails):
    """Floats have a mean, and `sum()` takes integers as well."""
    fails(test_integers_have_no_mean, snippet.edit(old, new))


def test_integers_have_no_mean__ends_with_a_dtype(snippet, fails):
    """`mean(dtype=torch.float32)` converts the numbers first."""

    def mean(x):
        return x.mean(dtype=torch.float32)

    fails(test_integers_have_no_mean, snippet, mean)


TRUTHS = {
    "if": lambda x: 0 if x else 1,
    "and": lambda x: x and 1,
    "or": lambda x: x or 1,
    "not": lambda x: not x,
}


def test_truth_wants_one_number(snippet):
    run = snippet.after("wrong-if")
    said = "Boolean value of Tensor with more than one value is ambiguous"

    assert getattr(run, "ambiguous", "") == said
    for dtype, truth in itertools.product(
        [torch.bool, torch.int64, *FLOATS], TRUTHS.values()
    ):
        for shape in [(2,), *SHAPES]:
            assert error_of(truth, torch.ones(shape).to(dtype)) == said
        for shape in ((), (1, 1)):
            assert not error_of(truth, torch.ones(shape).to(dtype))


@pytest.mark.parametrize(
    "loss", [nn.CrossEntropyLoss, nn.MSELoss, nn.BCEWithLogitsLoss]
)
def test_truth_wants_one_number__also_in_the_class_of_a_loss(loss):
    said = error_of(loss, torch.ones(3, 2), torch.ones(3, 2))
    assert said.endswith("with more than one value is ambiguous")


@edits(
    ("if guesses == labels:", "if (guesses == labels).any():"),
    ("if guesses == labels:", "if (guesses == labels).all():"),
    ("if guesses == labels:", "if guesses[:1] == labels[:1]:"),
    ("if guesses == labels:", "if torch.equal(guesses, labels):"),
)
def test_truth_wants_one_number__but_not_of_one(snippet, old, new, fails):
    """`any()`, `all()` and `torch.equal` turn many answers into one."""
    edited = snippet.edit(
        f"try:\n    {old}", f'ambiguous = ""\ntry:\n    {new}'
    )
    fails(test_truth_wants_one_number, edited)
