"""The claims of docs/tensors/broadcasting.md."""

import operator
from itertools import product

import pytest
import torch
from torch import nn
from torch.autograd.profiler import profile
from torch.nn import Parameter

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import error_of
from tests.helpers.worlds import TENSORS, each

OPERATIONS = {
    "*": operator.mul,
    "+": operator.add,
    "-": operator.sub,
    "/": operator.truediv,
    **{">": operator.gt, ">=": operator.ge, "==": operator.eq},
    **{"<": operator.lt, "<=": operator.le, "!=": operator.ne},
}
CHANGES = [operator.iadd, operator.isub, operator.imul, operator.itruediv]
SHAPES = [
    *((), (0,), (1,), (2,), (1, 2), (2, 1), (2, 3), (0, 1)),
    *((1, 2, 1), (2, 1, 2), (2, 2, 1), (4, 0, 1)),
]
PAIRS = list(product(SHAPES, SHAPES))
DTYPES = [torch.float32, torch.float64, torch.bfloat16]
BOTH_FLOAT32 = (torch.float32, torch.float32)
REFUSED = "more than one element of the written-to tensor refers to a single"


def swaps(old, *new):
    """Run a counter-example with each of several texts for one."""
    return edits(*((old, each) for each in new))


def error_of_cell(snippet, name):
    """Return the text of the error that a cell prints."""
    shown = "except RuntimeError as error:\n    print(error)\n"
    code = snippet.cell(name).source + "\n"
    edited = snippet.edit(code, code.replace(shown, "finally:\n    pass\n"))
    return error_of(lambda: edited.after(name))


def counted(shape, dtype=torch.float32):
    """Return 1, 2, 3 and so on in a shape."""
    size = torch.Size(shape).numel()
    return torch.arange(1, size + 1, dtype=dtype).reshape(shape)


def shape_of(operation, first, second, dtype=torch.float32):
    """Return the shape of a result, or None for an error."""
    x, y = (torch.ones(shape, dtype=dtype) for shape in (first, second))
    try:
        return tuple(operation(x, y).shape)
    except RuntimeError:
        return None


def by_the_rule(run, first, second):
    """Return the shape that the program's rule gives, or None."""
    result = run.line_up(first, second)
    return None if "error" in result else result


def bytes_of(tensor):
    """Return how many bytes the memory of a tensor has."""
    return tensor.untyped_storage().nbytes()


def shares(one, other):
    """Return whether two tensors have the same memory."""
    return one.untyped_storage().data_ptr() == (
        other.untyped_storage().data_ptr()
    )


# Do this


def test_one_image_meets_all(snippet):
    run = snippet.after("do-this")

    assert run.images.shape == run.centered.shape == (1797, 8, 8)
    assert run.mean_image.shape == (8, 8)
    for image, centered in zip(run.images, run.centered, strict=True):
        assert torch.equal(centered, image - run.mean_image)
    below = run.images.double().sum(dim=0) / 1797
    torch.testing.assert_close(run.mean_image, below.float())


@swaps(
    "centered = images - mean_image",
    "centered = images - images.mean()",
    "centered = images - images",
    "centered = images - mean_image.T",
    "centered = images + mean_image",
)
def test_one_image_meets_all__but_not_another_difference(
    snippet, old, new, fails
):
    """If you subtract a single number, each image itself or the transposed
    mean, the differences are not the same.
    """
    fails(test_one_image_meets_all, snippet.edit(old, new))


@swaps("images.mean(dim=0)", "images[0]", "images.median(dim=0).values")
def test_one_image_meets_all__but_not_another_image(snippet, old, new, fails):
    """The first image or the median of each pixel is not the mean image."""
    fails(test_one_image_meets_all, snippet.edit(old, new))


def test_keepdim_fits(snippet, names=("sum", "mean", "amax")):
    with no_error():
        run = snippet.after("do-this")

    assert run.peaks.shape == (1797, 1, 1)
    for image, scaled in zip(run.images, run.scaled, strict=True):
        assert torch.equal(scaled, image / image.max())
    for shape in [(3,), (3, 4), (4, 4), (2, 3, 4), (1, 5)]:
        for dim, name in product(range(-len(shape), len(shape)), names):
            x = counted(shape)
            kept = getattr(x, name)(dim=dim, keepdim=True)
            wanted = list(shape)
            wanted[dim] = 1
            assert list(kept.shape) == wanted
            assert (x - kept).shape == shape


def test_keepdim_fits__also_where_another_axis_is_empty():
    x = torch.ones(0, 3)
    assert (x - x.amax(dim=1, keepdim=True)).shape == (0, 3)


@pytest.mark.parametrize("name", ["std", "logsumexp", "prod", "median"])
def test_keepdim_fits__also_of(name):
    x = counted((2, 3, 4))
    kept = getattr(x, name)(dim=1, keepdim=True)
    kept = kept.values if name == "median" else kept
    assert kept.shape == (2, 1, 4)
    assert (x - kept).shape == (2, 3, 4)


def test_keepdim_fits__but_not_without(snippet, fails):
    """With `keepdim=False`, the two axes are gone, and the division raises
    an error.
    """
    edited = snippet.edit("keepdim=True", "keepdim=False")
    fails(test_keepdim_fits, edited)


@swaps(
    "images.amax(dim=(1, 2), keepdim=True)",
    "images.amax(dim=0, keepdim=True)",
    "images.amax()",
    "images.cummax(dim=1).values",
)
def test_keepdim_fits__but_not_along_another_axis(snippet, old, new, fails):
    """The maximum over the images, or over everything, has another shape and
    scales the images differently.
    """
    fails(test_keepdim_fits, snippet.edit(old, new))


# How it works


def test_a_column_and_a_row_make_a_table(snippet):
    run = snippet.after("by-hand")

    assert run.euros[:, None].shape == (3, 1)
    assert run.rates.shape == (4,)
    assert run.prices.shape == (3, 4)
    assert run.prices[1, 3] == 3 * 8 == 24
    for i, j in product(range(3), range(4)):
        assert run.prices[i, j] == run.euros[i] * run.rates[j]


@swaps(
    "prices = euros[:, None] * rates",
    "prices = rates[:, None] * euros",
    "prices = euros[:, None] + rates",
    "prices = euros[:, None] * rates.flip(0)",
    "prices = (euros[:, None] * rates)[None]",
)
def test_a_column_and_a_row_make_a_table__but_not_so(snippet, old, new, fails):
    """If the rates are the column, or are reversed or added, you get a
    different table.
    """
    fails(test_a_column_and_a_row_make_a_table, snippet.edit(old, new))


def test_a_column_and_a_row_make_a_table__also_in_the_exercise(snippet):
    run = snippet.after("distances-checked")
    for k in range(10):
        members = run.flat[run.labels == k]
        assert torch.equal(run.means[k], members.mean(dim=0))

    assert run.distances.shape == (1797, 10)
    for i, k in [(0, 0), (5, 9), (1796, 3)]:
        difference = run.flat[i] - run.means[k]
        wanted = difference.square().sum().sqrt()
        torch.testing.assert_close(run.distances[i, k], wanted)
    assert run.right == 1626

    answer = "(flat[:, None] - means).square().sum(dim=2).sqrt()"
    for wrong in (
        answer.replace(".sqrt()", ""),
        answer.replace(".square()", ""),
        answer.replace("dim=2", "dim=1"),
        answer.replace("flat[:, None] - means", "flat - means[:, None]"),
    ):
        run = snippet.edit(answer, wrong).after("distances-checked")
        assert not hasattr(run, "right")


def repeated(short, shape):
    """Return a tensor of a shape, filled by the rules, number by number."""
    long = short.new_zeros(shape)
    for place in product(*map(range, shape)):
        own = place[len(place) - short.ndim :]
        sizes = zip(own, short.shape, strict=True)
        long[place] = short[tuple(min(i, n - 1) for i, n in sizes)]
    return long


def test_stretched_as_if_repeated(snippet, dtypes=BOTH_FLOAT32):
    run = snippet.after("by-hand")
    euros, rates = run.euros.tolist(), run.rates.tolist()
    left = torch.tensor([[euro] * 4 for euro in euros])
    assert torch.equal(run.prices, left * torch.tensor([rates] * 3))

    for first, second in PAIRS:
        shape = shape_of(torch.add, first, second)
        if shape is None:
            continue
        x, y = counted(first, dtypes[0]), counted(second, dtypes[1]) + 127
        long_x, long_y = repeated(x, shape), repeated(y, shape)
        for operation in OPERATIONS.values():
            assert torch.equal(operation(x, y), operation(long_x, long_y))


@pytest.mark.parametrize("dtype", [torch.int64, *DTYPES[1:]])
def test_stretched_as_if_repeated__also_of(snippet, dtype):
    test_stretched_as_if_repeated(snippet, (dtype, dtype))


@each("tensor", TENSORS, "transposed", "with gaps", "expanded", "with nan")
def test_stretched_as_if_repeated__also_if(tensor):
    x = tensor()
    for shape in [(1,), (x.shape[0], 1), (2, 1, 1)]:
        y = counted(shape)
        full = (x + y).shape
        for operation in OPERATIONS.values():
            torch.testing.assert_close(
                operation(x, y),
                operation(repeated(x, full), repeated(y, full)),
                equal_nan=True,
                rtol=0,
                atol=0,
            )


def test_stretched_as_if_repeated__ends_at_two_dtypes_and_a_single_number(
    snippet, fails
):
    """A tensor without axes takes on the other's dtype, but not once you have
    repeated it.
    """
    dtypes = (torch.int8, torch.int64)
    fails(test_stretched_as_if_repeated, snippet, dtypes)


@swaps(
    "euros[:, None] * rates  #",
    "euros[:, None] * rates.flip(0)  #",
    "euros.flip(0)[:, None] * rates  #",
    "euros[:, None].expand(3, 4) @ rates.expand(4, 4)  #",
)
def test_stretched_as_if_repeated__but_not_in_another_order(
    snippet, old, new, fails
):
    """Reversed, or in a matrix product, the numbers are no longer those of the
    repeated tensors.
    """
    fails(test_stretched_as_if_repeated, snippet.edit(old, new))


def test_results_follow_the_rules(snippet, dtype=torch.float32):
    run = snippet.after("lined-up")

    assert run.fits == (run.images - run.mean_image).shape == (1797, 8, 8)
    assert run.stretches == run.prices.shape == (3, 4)
    assert run.misfits == (1797, 8, "error")
    for first, second in PAIRS:
        wanted = by_the_rule(run, first, second)
        for operation in OPERATIONS.values():
            assert shape_of(operation, first, second, dtype) == wanted


def test_results_follow_the_rules__also_of_integers(snippet):
    test_results_follow_the_rules(snippet, torch.int64)


@pytest.mark.parametrize(
    "call",
    [torch.maximum, torch.pow, torch.atan2, torch.logaddexp],
    ids=lambda call: call.__name__,
)
def test_results_follow_the_rules__also_of(snippet, call):
    run = snippet.after("lined-up")
    for first, second in PAIRS:
        wanted = by_the_rule(run, first, second)
        assert shape_of(call, first, second) == wanted


def test_results_follow_the_rules__ends_at_differences_of_booleans(
    snippet, fails
):
    """Two tensors of booleans cannot be subtracted, whatever their shapes."""
    fails(test_results_follow_the_rules, snippet, torch.bool)


@edits(
    ("in range(-length, 0)", "in range(length)"),
    ("b if a == 1 else a", "max(a, b)"),
    ("b if a == 1 else a", "a"),
    ("a == b or 1 in (a, b)", "a == b"),
    ("a == b or 1 in (a, b)", "1 in (a, b)"),
    ("a == b or 1 in (a, b)", "a != 0"),
    ("if place >= -len(s) else 1 for", "if place >= -len(s) else 2 for"),
)
def test_results_follow_the_rules__but_not_other_rules(
    snippet, old, new, fails
):
    """A rule that compares from the left, takes the larger size or doesn't
    stretch a 1 gives shapes that PyTorch doesn't.
    """
    if old.startswith("in range"):
        snippet = snippet.edit(
            "s[place] if place >= -len(s) else 1",
            "s[place] if place < len(s) else 1",
        )
    fails(test_results_follow_the_rules, snippet.edit(old, new))


def test_shapes_are_compared_from_the_right(snippet, operation="/"):
    run = snippet.after("misfit")

    assert run.peaks.shape == (1797,)
    assert by_the_rule(run, (1797, 8, 8), (1797,)) is None
    call = {**OPERATIONS, "@": operator.matmul}[operation]
    assert "must match" in error_of(lambda: call(run.images, run.peaks))
    assert call(run.images, torch.ones(8)).shape == (1797, 8, 8)
    assert call(run.images, torch.ones(1797, 1, 1)).shape == (1797, 8, 8)


@pytest.mark.parametrize("operation", [x for x in OPERATIONS if x != "/"])
def test_shapes_are_compared_from_the_right__also_by(snippet, operation):
    test_shapes_are_compared_from_the_right(snippet, operation)


def test_shapes_are_compared_from_the_right__ends_at_a_matrix_product(
    snippet, fails
):
    """`@` matches the last axis of the left with the only one of the right."""
    fails(test_shapes_are_compared_from_the_right, snippet, "@")


def test_shapes_are_compared_from_the_right__but_not_from_the_left(
    snippet, fails
):
    """A rule that compares from the left says that the two shapes fit."""
    snippet = snippet.edit("in range(-length, 0)", "in range(length)")
    edited = snippet.edit(
        "s[place] if place >= -len(s) else 1",
        "s[place] if place < len(s) else 1",
    )
    fails(test_shapes_are_compared_from_the_right, edited)


def test_shapes_are_compared_from_the_right__but_not_with_the_images_last(
    snippet, fails
):
    """Move the axis of the images to the end, and the two shapes fit."""
    edited = snippet.edit(
        "peaks = images.amax(dim=(1, 2))  #",
        "images = images.permute(1, 2, 0)\npeaks = images.amax(dim=(0, 1))  #",
    )
    fails(test_shapes_are_compared_from_the_right, edited)


def test_broadcast_shapes_answers(snippet):
    run = snippet.after("ask")

    answer = run.torch.broadcast_shapes
    mixed = [(7, 1, 1), (3, 1), (4,), (), (0,)]
    for shapes in [*product(mixed, repeat=2), *product(mixed, repeat=3)]:
        ones = [torch.ones(shape) for shape in shapes]
        try:
            wanted = sum(ones[1:], ones[0]).shape
        except RuntimeError:
            with pytest.raises(RuntimeError):
                answer(*shapes)
        else:
            assert answer(*shapes) == wanted


@pytest.mark.parametrize(
    "new",
    [
        "lambda *shapes: max(shapes)",
        "lambda first, *more: torch.Size(first)",
        "lambda *shapes, ask=torch.broadcast_shapes: ask(*shapes[:2])",
    ],
    ids=["the longest shape", "the first shape", "two shapes alone"],
)
def test_broadcast_shapes_answers__but_not_another_function(
    snippet, new, fails
):
    """A function that returns the largest or the first shape, or looks at only
    two shapes, gives other answers.
    """
    edited = snippet.edit(
        "print(torch.broadcast_shapes((1797, 8, 8), (8, 8)))",
        "from types import SimpleNamespace\n"
        f"shape = {new}\n"
        "torch = SimpleNamespace(broadcast_shapes=shape, Size=torch.Size)",
    )
    fails(test_broadcast_shapes_answers, edited)


# What it costs


def test_expand_copies_nothing(snippet):
    run = snippet.after("no-copy")

    assert shares(run.stretched, run.column)
    assert run.stretched.shape == (3, 4)
    assert run.stretched.stride() == (1, 0)
    assert run.copied.tolist() == [[euro] * 4 for euro in run.euros.tolist()]
    assert not shares(run.copied, run.column)
    assert run.copied.dtype == run.column.dtype
    assert run.size == bytes_of(run.copied) == 4 * bytes_of(run.column)


@pytest.mark.parametrize(
    "dtype", [*DTYPES, torch.int64, torch.bool], ids=lambda x: str(x)[6:]
)
def test_expand_copies_nothing__also_of(dtype):
    for first, second in PAIRS:
        if shape_of(torch.add, first, second) != second:
            continue
        x = torch.ones(first, dtype=dtype)
        long = x.expand(second)
        assert shares(long, x)
        before = (1,) * (len(second) - len(first)) + first
        for size, was, stride in zip(
            second, before, long.stride(), strict=True
        ):
            assert size == was or stride == 0


@pytest.mark.parametrize("size", [1, 2, 100], ids="{} rows".format)
def test_expand_copies_nothing__also_repeated_from(size):
    for dtype in DTYPES:
        column = counted((size, 1), dtype)
        copied = column.repeat(1, 4)
        assert torch.equal(copied, column.expand(size, 4))
        assert not shares(copied, column)
        assert bytes_of(copied) == 4 * bytes_of(column)


@swaps(
    "column.expand(3, 4)\n",
    "column.repeat(1, 4)\n",
    "column.expand(3, 4).contiguous()\n",
    "column.clone().expand(3, 4)\n",
)
def test_expand_copies_nothing__but_not_by_way_of_a_copy(
    snippet, old, new, fails
):
    """`repeat`, `contiguous` or `clone` makes new memory."""
    fails(test_expand_copies_nothing, snippet.edit(old, new))


def test_expand_copies_nothing__but_not_along_an_axis_that_stays(
    snippet, fails
):
    """An axis that keeps its size is not stretched, and keeps its stride."""
    edited = snippet.edit("column.expand(3, 4)\n", "column.expand(3, 1)\n")
    fails(test_expand_copies_nothing, edited)


@swaps(
    "column.repeat(1, 4)",
    "column.expand(3, 4)",
    "column.repeat(1, 3)",
    "column.repeat(4, 1)",
    "column.repeat(1, 4) + 1",
    "column.repeat(1, 4).half()",
)
def test_expand_copies_nothing__but_not_with_another_copy(
    snippet, old, new, fails
):
    """`expand` makes no copy, and other calls of `repeat` make a different
    one.
    """
    fails(test_expand_copies_nothing, snippet.edit(old, new))


def allocated(call):
    """Return how many bytes a call asks for, each time that it asks."""
    with profile(profile_memory=True, use_kineto=False) as found:
        call()
    sizes = [each.self_cpu_memory_usage for each in found.function_events]
    return [size for size in sizes if size > 0]


def test_only_the_result_is_allocated(
    snippet, written="x + y", dtypes=BOTH_FLOAT32
):
    run = snippet.after("all-pairs")

    assert run.pairs == (1797, 1797, 64)
    assert run.shape == run.pairs
    assert round(run.megabytes, 1) == 826.7
    few = run.flat[:100].to(dtypes[0])
    pairs = [(few[:, None], run.flat[:100].to(dtypes[1]))]
    for first, second in [
        ((1000, 1), (1, 1000)),
        ((64, 1), (64, 64)),
        ((), (5, 7, 3)),
        ((9, 1), (9,)),
    ]:
        x = torch.ones(first, dtype=dtypes[0])
        pairs.append((x, torch.ones(second, dtype=dtypes[1])))
    pairs.append((pairs[-1][0].T, pairs[-1][1]))
    for x, y in pairs:
        code = compile(written, "test", "eval")
        sizes = allocated(lambda c=code, x=x, y=y: eval(c, {"x": x, "y": y}))
        full = torch.broadcast_shapes(x.shape, y.shape).numel()
        assert sizes == [full * eval(code, {"x": x, "y": y}).element_size()]


@pytest.mark.parametrize("dtype", [*DTYPES[1:], torch.int64, torch.bool])
def test_only_the_result_is_allocated__also_of(snippet, dtype):
    test_only_the_result_is_allocated(snippet, dtypes=(dtype, dtype))


@pytest.mark.parametrize("written", ["x - y", "x * y", "x / y", "x > y"])
def test_only_the_result_is_allocated__also_by(snippet, written):
    test_only_the_result_is_allocated(snippet, written)


@swaps(
    "flat[:, None].shape, flat.shape",
    "flat.shape, flat.shape",
    "flat[:, None].shape, flat[:100].shape",
    "flat[:, None, :1].shape, flat[:, :1].shape",
)
def test_only_the_result_is_allocated__but_not_of_other_pairs(
    snippet, old, new, fails
):
    """If you subtract the images from themselves or from fewer images, or
    subtract a single pixel, the result is smaller.
    """
    fails(test_only_the_result_is_allocated, snippet.edit(old, new))


def test_only_the_result_is_allocated__but_not_of_16_bit_images(
    snippet, fails
):
    """In 16 bits, the result takes half of the memory."""
    edited = snippet.edit("dtype=torch.float32", "dtype=torch.bfloat16")
    fails(test_only_the_result_is_allocated, edited)


@pytest.mark.parametrize(
    "written",
    ["x.expand(9, *x.shape).contiguous() + y", "x + y.repeat(1, 1)"],
    ids=["the left one", "the right one"],
)
def test_only_the_result_is_allocated__ends_with_a_copy_of(
    snippet, written, fails
):
    """If you copy one of the two by hand first, that takes memory too."""
    fails(test_only_the_result_is_allocated, snippet, written)


def test_only_the_result_is_allocated__ends_at_two_dtypes(snippet, fails):
    """One of the two tensors is first copied to the dtype of the other."""
    dtypes = (torch.float32, torch.float64)
    fails(test_only_the_result_is_allocated, snippet, "x + y", dtypes)


def test_only_the_result_is_allocated__ends_at_a_quotient_of_integers(
    snippet, fails
):
    """Both tensors are first copied to floating point."""
    dtypes = (torch.int64, torch.int64)
    fails(test_only_the_result_is_allocated, snippet, "x / y", dtypes)


# What the gradient does


def test_the_gradient_is_summed(snippet):
    run = snippet.after("gradient")

    assert run.rates.grad.shape == run.rates.shape
    assert run.rates.grad.tolist() == [2 + 3 + 5] * 4
    for first, second in PAIRS:
        shape = shape_of(torch.add, first, second)
        if shape is None:
            continue
        for operation in (torch.sub, torch.div):
            x, y = (
                counted(each, torch.float64).requires_grad_()
                for each in (first, second)
            )
            gradient = counted(shape, torch.float64)
            operation(x, y).backward(gradient)
            long = [
                each.detach().expand(shape).clone().requires_grad_()
                for each in (x, y)
            ]
            operation(*long).backward(gradient)
            for short, stretched in zip((x, y), long, strict=True):
                assert short.grad.shape == short.shape
                wanted = stretched.grad.sum_to_size(short.shape)
                torch.testing.assert_close(short.grad, wanted)


def test_the_gradient_is_summed__also_through_expand():
    for first, second in PAIRS:
        if shape_of(torch.add, first, second) == second:
            expanded = counted(first).requires_grad_()
            expanded.expand(second).sum().backward()
            assert expanded.grad.shape == first
            assert expanded.grad.sum() == torch.Size(second).numel()


def test_the_gradient_is_summed__also_for_the_bias_of_a_layer():
    layer, inputs = nn.Linear(3, 2), torch.ones(64, 3)
    layer(inputs).sum().backward()
    assert layer.bias.grad.tolist() == [64, 64]


@edits(
    ("rates.requires_grad_()", "rates = rates.repeat(3, 1).requires_grad_()"),
    ("rates).sum().backward()", "rates).mean(dim=0).sum().backward()"),
    ("rates).sum().backward()", "rates)[0].sum().backward()"),
)
def test_the_gradient_is_summed__but_not_so(snippet, old, new, fails):
    """If you repeat the rates by hand, take a mean or use a single product,
    the gradients don't add up to 10.
    """
    fails(test_the_gradient_is_summed, snippet.edit(old, new))


# What goes wrong

MISFITS = [
    ((3,), (3, 4)),
    ((3, 4), (3,)),
    ((2,), (5,)),
    ((2, 4, 3), (2, 3)),
    ((2, 5, 1), (6, 3)),
    ((2, 3), (4, 5)),
    ((7, 2, 1, 3), (2, 2, 5)),
    ((0,), (2,)),
]


def misfits_of(first, second):
    """Return the positions from the right at which two shapes misfit."""
    pairs = list(zip(reversed(first), reversed(second), strict=False))
    return [n for n, (a, b) in enumerate(pairs) if a != b and 1 not in (a, b)]


def test_the_text_names_two_sizes(
    snippet, symbols=tuple("*+-/"), right=torch.Tensor
):
    wanted = "tensor a (8) must match the size of tensor b (1797) at non-"
    assert wanted in error_of_cell(snippet, "misfit")
    for first, second in MISFITS:
        place = misfits_of(first, second)[0]
        a, b = first[-1 - place], second[-1 - place]
        assert 1 not in (a, b)
        for operation in map(OPERATIONS.get, symbols):
            x, y = torch.ones(first), right(torch.ones(second))
            text = error_of(lambda o=operation, x=x, y=y: o(x, y))
            assert text.startswith(
                f"The size of tensor a ({a}) must match"
                f" the size of tensor b ({b}) at non-singleton dimension "
            )


def test_the_text_names_two_sizes__also_of_a_parameter(snippet):
    test_the_text_names_two_sizes(snippet, right=Parameter)


def test_the_text_names_two_sizes__also_of_comparisons(snippet):
    test_the_text_names_two_sizes(snippet, ("==", "!=", "<", ">", "<=", ">="))


@pytest.mark.parametrize("symbol", "<>")
def test_the_text_names_two_sizes__ends_at_a_comparison_with_a_parameter(
    snippet, symbol, fails
):
    """Python swaps the two sides, because a parameter is a kind of tensor."""
    fails(test_the_text_names_two_sizes, snippet, (symbol,), Parameter)


@swaps(
    "    images / peaks\n",
    "    peaks / images\n",
    "    images.masked_fill(peaks > 9, 0)\n",
    "    images.flatten(1) @ peaks\n",
)
def test_the_text_names_two_sizes__but_not_so(snippet, old, new, fails):
    """If you swap the two sides, the two sizes swap too; `masked_fill` names
    its mask first, and `@` names two shapes.
    """
    fails(test_the_text_names_two_sizes, snippet.edit(old, new))


def test_the_position_counts_in_the_longer_shape(snippet):
    assert error_of_cell(snippet, "misfit").endswith("dimension 2")
    for first, second in MISFITS:
        longer = max(len(first), len(second))
        place = longer - 1 - misfits_of(first, second)[0]
        for operation in OPERATIONS.values():
            x, y = torch.ones(first), torch.ones(second)
            text = error_of(lambda o=operation, x=x, y=y: o(x, y))
            assert text.endswith(f"at non-singleton dimension {place}")


@swaps(
    "    images / peaks\n",
    "    torch.broadcast_shapes((1797, 8, 8), (1797,))\n",
    "    images[:, 0] / peaks\n",
)
def test_the_position_counts_in_the_longer_shape__but_not_so(
    snippet, old, new, fails
):
    """`broadcast_shapes` counts differently in its error; with one axis less,
    the position is 1.
    """
    fails(test_the_position_counts_in_the_longer_shape, snippet.edit(old, new))


def test_a_new_axis_fixes_it(snippet):
    with no_error():
        run = snippet.after("cures")

    assert run.peaks.shape == (1797,)
    for image, scaled in zip(run.images, run.scaled, strict=True):
        assert torch.equal(scaled, image / image.max())
    for shape in [(8, 8, 8), (2, 5, 1), (1, 4, 3)]:
        x, own = counted(shape), counted(shape[:1]) ** 2
        for i in range(shape[0]):
            assert torch.equal((x / own[:, None, None])[i], x[i] / own[i])


@pytest.mark.parametrize("shape", [(3, 4), (4, 4)], ids="of shape {}".format)
def test_a_new_axis_fixes_it__also_one_for_a_matrix(shape):
    prices, discount = counted(shape), counted(shape[:1]) ** 2
    reduced = discount[:, None] * prices
    for i in range(shape[0]):
        assert torch.equal(reduced[i], prices[i] * discount[i])


@swaps(
    "scaled = images / peaks[:, None, None]",
    "scaled = images / peaks",
    "scaled = images / peaks[:, None]",
    "scaled = images / peaks[None, None, :]",
    "scaled = images / peaks.flip(0)[:, None, None]",
)
def test_a_new_axis_fixes_it__but_not_elsewhere(snippet, old, new, fails):
    """With fewer new axes, or with new axes on the left, the shapes still
    don't fit; reversed, each image gets the maximum of another.
    """
    fails(test_a_new_axis_fixes_it, snippet.edit(old, new))


def test_two_new_axes_reach_the_channels(snippet):
    with no_error():
        run = snippet.after("cures")

    assert run.photos.shape == run.normalized.shape == (16, 3, 32, 32)
    assert run.means.shape == (3,)
    for c in range(3):
        wanted = run.photos[:, c] - run.means[c]
        assert torch.equal(run.normalized[:, c], wanted)
        torch.testing.assert_close(run.means[c], run.photos[:, c].mean())


@pytest.mark.parametrize(
    "shape",
    [(1, 1, 5, 5), (2, 3, 3, 3), (0, 4, 2, 1)],
    ids=["one gray photo", "as high as it has channels", "no photo"],
)
def test_two_new_axes_reach_the_channels__also_for(shape):
    photos, means = counted(shape), counted(shape[1:2]) ** 2
    normalized = photos - means[:, None, None]
    for c in range(shape[1]):
        assert torch.equal(normalized[:, c], photos[:, c] - means[c])


@swaps(
    "means[:, None, None]",
    "means[:, None]",
    "means[:, None, None, None]",
    "means.flip(0)[:, None, None]",
    "means",
)
def test_two_new_axes_reach_the_channels__but_not_so(snippet, old, new, fails):
    """With one new axis, three or none, the shapes don't fit; reversed, each
    channel gets the mean of another.
    """
    fails(test_two_new_axes_reach_the_channels, snippet.edit(old, new))


def test_a_square_hides_it(snippet):
    with no_error():
        run = snippet.after("square")

    assert run.batch.shape == (8, 8, 8)
    assert torch.equal(run.batch, run.images[:8])
    for j in range(8):
        wanted = run.batch[:, :, j] / run.batch[j].max()
        assert torch.equal(run.mixed_up[:, :, j], wanted)
    assert run.mixed_up.max() > 1


@swaps("mixed_up = batch / peaks", "mixed_up = batch / peaks[:, None, None]")
def test_a_square_hides_it__but_not_with_new_axes(snippet, old, new, fails):
    """With two new axes, each image is divided by its own maximum."""
    fails(test_a_square_hides_it, snippet.edit(old, new))


def test_a_square_hides_it__but_not_in_a_batch_of_nine(snippet, fails):
    """In a batch of nine images, the division raises an error."""
    edited = snippet.edit(
        "batch, peaks = images[:8], images[:8]",
        "batch, peaks = images[:9], images[:9]",
    )
    fails(test_a_square_hides_it, edited)


# Writing in place


def test_in_place_does_not_stretch(snippet):
    run = snippet.after("in-place")
    assert torch.equal(run.total, torch.zeros(8, 8))
    assert error_of_cell(snippet, "in-place") == (
        "output with shape [8, 8] doesn't match"
        " the broadcast shape [1797, 8, 8]"
    )

    for (first, second), change in product(PAIRS, CHANGES):
        result = shape_of(torch.add, first, second)
        if result is None:
            continue
        left, right = counted(first), counted(second)
        before = left.clone()
        text = error_of(lambda c=change, x=left, y=right: c(x, y))
        if result == first:
            assert text == ""
            continue
        assert text == (
            f"output with shape {list(first)} doesn't match"
            f" the broadcast shape {list(result)}"
        )
        assert torch.equal(left, before)


@pytest.mark.parametrize(
    "kind",
    [torch.Tensor.long, torch.Tensor.bool, Parameter],
    ids=["of integers", "of booleans", "that is a parameter"],
)
def test_in_place_does_not_stretch__also_a_tensor(kind):
    for (first, second), change in product(PAIRS, CHANGES):
        if shape_of(torch.add, first, second) in {None, first}:
            continue
        left = kind(counted(first))
        kept = left.clone()
        text = error_of(lambda c=change, x=left, s=second: c(x, counted(s)))
        assert text != ""
        assert torch.equal(left, kept)


@swaps(
    "    total += images\n",
    "    total = total + images\n",
    "    total += images[0]\n",
    "    total += images.sum(dim=0)\n",
    "    total += 1\n    total += images\n",
)
def test_in_place_does_not_stretch__but_not_so(snippet, old, new, fails):
    """`total + images` makes a new tensor, and a tensor of the shape of
    `total` can be added to it.
    """
    fails(test_in_place_does_not_stretch, snippet.edit(old, new))


def test_in_place_does_not_stretch__ends_at_a_parameter(snippet, fails):
    """A parameter raises another error: it can't be changed in place while
    gradients are recorded.
    """
    old = "total = torch.zeros(8, 8)"
    edited = snippet.edit(old, "total = torch.nn.Parameter(torch.zeros(8, 8))")
    fails(test_in_place_does_not_stretch, edited)


def test_stretched_tensors_refuse(snippet):
    run = snippet.after("write")
    assert REFUSED in error_of_cell(snippet, "write")
    assert run.table.stride() == (0, 1)
    for first, second in PAIRS:
        x = torch.ones(first)
        fits = shape_of(torch.add, first, second) == second
        if fits and torch.Size(second).numel() > x.numel():
            for write in (*CHANGES, torch.Tensor.copy_):
                for y in (torch.ones(second), torch.ones(1), torch.ones(7)):
                    long = x.expand(second)
                    text = error_of(lambda w=write, x=long, y=y: w(x, y))
                    assert REFUSED in text


@pytest.mark.parametrize(
    "kind",
    [torch.Tensor.long, torch.Tensor.bool],
    ids=["of integers", "of booleans"],
)
def test_stretched_tensors_refuse__also_a_tensor(kind):
    long = kind(torch.ones(3)).expand(2, 3)
    for write in (operator.iadd, operator.imul, torch.Tensor.copy_):
        other = kind(torch.zeros(2, 3))
        assert REFUSED in error_of(lambda w=write, y=other: w(long, y))


def test_stretched_tensors_refuse__ends_at_a_parameter(snippet, fails):
    """A parameter raises another error: it can't be changed in place while
    gradients are recorded.
    """
    old = "row = torch.tensor([2.0, 3.0, 5.0])"
    new = "row = torch.nn.Parameter(torch.tensor([2.0, 3.0, 5.0]))"
    snippet = snippet.edit("table[0, 0] = 9\n", "")
    fails(test_stretched_tensors_refuse, snippet.edit(old, new))


@swaps(
    "table = row.expand(2, 3)\n",
    "table = row.repeat(2, 1)\n",
    "table = row.expand(2, 3).clone()\n",
    "table = row.expand(1, 3)\n",
)
def test_stretched_tensors_refuse__but_not_copies(snippet, old, new, fails):
    """A copy has memory for each element, and so does an axis that was not
    stretched.
    """
    fails(test_stretched_tensors_refuse, snippet.edit(old, new))


@pytest.mark.parametrize("write", ["table.fill_(1)", "table.copy_(table)"])
def test_stretched_tensors_refuse__ends_at(snippet, write, fails):
    """You can write a single value into all elements, and the tensor
    itself.
    """
    fails(test_stretched_tensors_refuse, snippet.edit("table += 1", write))


def test_stretched_tensors_refuse__ends_if_empty(snippet, fails):
    """A tensor without elements has nothing to share."""
    old = "torch.tensor([2.0, 3.0, 5.0])\ntable = row.expand(2, 3)"
    snippet = snippet.edit(old, "torch.ones(1, 0)\ntable = row.expand(3, 0)")
    edited = snippet.edit("table[0, 0] = 9", "table[:, :] = 9")
    fails(test_stretched_tensors_refuse, edited)


def test_one_write_shows_everywhere(snippet):
    with no_error():
        run = snippet.after("write")

    assert run.table.tolist() == [[9, 3, 5]] * 2
    assert run.row.tolist() == [9, 3, 5]
    for i, j in product(range(3), range(4)):
        own = torch.tensor([[2.0], [3.0], [5.0]])
        wanted = own.clone()
        stretched = own.expand(3, 4)
        wanted[i] = 9
        stretched[i, j] = 9
        assert torch.equal(own, wanted)
        assert torch.equal(stretched, wanted.repeat(1, 4))


def test_one_write_shows_everywhere__also_along_two_new_axes():
    row = torch.zeros(4, dtype=torch.int64)
    long = row.expand(2, 3, 4)
    long[1, 2, 3] = 9
    assert row.tolist() == [0, 0, 0, 9]
    assert torch.equal(long, row.repeat(2, 3, 1))


@swaps(
    "table = row.expand(2, 3)\n",
    "table = row.repeat(2, 1)\n",
    "table = row.expand(2, 3).clone()\n",
    "table = row.clone().expand(2, 3)\n",
)
def test_one_write_shows_everywhere__but_not_in_a_copy(
    snippet, old, new, fails
):
    """If there is a copy in between, the original or the other row keeps its
    number.
    """
    fails(test_one_write_shows_everywhere, snippet.edit(old, new))


def test_one_write_shows_everywhere__ends_where_a_gradient_is_needed(
    snippet, fails
):
    """If the original requires gradients, the assignment raises an error."""
    edited = snippet.edit(
        "row = torch.tensor([2.0, 3.0, 5.0])",
        "row = torch.tensor([2.0, 3.0, 5.0], requires_grad=True)",
    )
    fails(test_one_write_shows_everywhere, edited)


# Where it ends


def product_shape(call, first, second):
    """Return the shape of a product, or None for an error."""
    try:
        return tuple(call(torch.ones(first), torch.ones(second)).shape)
    except RuntimeError:
        return None


def test_matmul_keeps_the_last_two(snippet):
    messages = snippet.after("products-tried").messages
    assert "cannot be multiplied" in messages.get("@", "")
    assert "[2, 4] but got: [1, 4]" in messages.get("bmm", "")
    assert "Sizes of tensors must match" in messages.get("cat", "")
    assert "to be equal size" in messages.get("stack", "")


def test_matmul_keeps_the_last_two__also_with_axes_in_front():
    fronts = [(), (1,), (2,), (3,), (1, 2), (2, 1)]
    sizes = [(1, 2), (3, 1), (2, 2)]
    for first, second in product(fronts, fronts):
        front = shape_of(torch.add, first, second)
        for (n, m), k, other in product(sizes, (1, 2, 3), (1, 2, 3)):
            wanted = None if front is None else (*front, n, m)
            found = product_shape(
                torch.matmul, (*first, n, k), (*second, other, m)
            )
            assert found == (wanted if k == other else None)


def test_matmul_keeps_the_last_two__also_in_batches():
    for b, c, n, k, other, m in product((1, 2), repeat=6):
        found = product_shape(torch.bmm, (b, n, k), (c, other, m))
        assert found == ((b, n, m) if (b, k) == (c, other) else None)
    assert product_shape(torch.bmm, (2, 3, 4), (4, 5)) is None


def test_matmul_keeps_the_last_two__also_where_tensors_are_joined():
    shapes = [(1,), (2,), *product((1, 2), repeat=2), (1, 2, 1), (2, 2, 1)]
    for first, second in product(shapes, shapes):
        both = torch.ones(first), torch.ones(second)
        text = error_of(lambda both=both: torch.stack(both))
        assert bool(text) == (first != second)
        for dim in range(len(first)):
            text = error_of(lambda both=both, d=dim: torch.cat(both, d))
            rest = [
                (*each[:dim], *each[dim + 1 :]) for each in (first, second)
            ]
            fit = len(first) == len(second) and rest[0] == rest[1]
            assert bool(text) == (not fit)


@edits(
    ("torch.ones(3, 1) @ ", "torch.ones(3, 3) @ "),
    ("torch.ones(3, 1) @ ", "torch.ones(3, 1) * "),
    ("torch.ones(1, 4, 5)", "torch.ones(2, 4, 5)"),
    ("torch.bmm(", "torch.matmul("),
    ("torch.ones(3, 1), torch.ones(1, 4)]", "torch.ones(3, 4)]"),
    ("torch.ones(3, 1), torch.ones(3, 4)]", "torch.ones(3, 4)]"),
)
def test_matmul_keeps_the_last_two__but_not_where_all_fits(
    snippet, old, new, fails
):
    """If the sizes agree, or with `*` or `matmul` in place of the call, there
    is no error.
    """
    fails(test_matmul_keeps_the_last_two, snippet.edit(old, new))


def test_no_dimension_fits_all(snippet):
    run = snippet.after("edges")

    assert torch.equal(run.one_number, run.prices + run.prices)
    assert run.nothing.shape == (3, 0)
    for operation in OPERATIONS.values():
        for shape in [*SHAPES, (2, 3, 4, 5)]:
            assert shape_of(operation, shape, ()) == shape
            assert shape_of(operation, (), shape) == shape
        assert shape_of(operation, (3, 0), (3, 1)) == (3, 0)
        assert shape_of(operation, (0, 3), (3,)) == (0, 3)
        for size in range(9):
            wanted = (0,) if size in {0, 1} else None
            assert shape_of(operation, (0,), (size,)) == wanted
            assert shape_of(operation, (size,), (0,)) == wanted


@swaps("torch.tensor(2.0)\n", "torch.ones(1, 1, 1)\n")
def test_no_dimension_fits_all__but_not_with_more(snippet, old, new, fails):
    """A tensor of one element with three axes makes a result with three
    axes.
    """
    fails(test_no_dimension_fits_all, snippet.edit(old, new))


def test_no_dimension_fits_all__but_one_is_not_empty(snippet, fails):
    """With a size of 1 in place of 0, the result is not empty."""
    edited = snippet.edit("torch.zeros(3, 0)", "torch.zeros(3, 1)")
    fails(test_no_dimension_fits_all, edited)
