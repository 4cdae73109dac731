"""The claims of docs/tensors/broadcasting.md."""

import operator
import warnings
from contextlib import nullcontext
from itertools import permutations, product

import pytest
import torch
from torch.autograd.profiler import profile
from torch.nn import Parameter
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error

OPERATIONS = {
    "*": operator.mul,
    "+": operator.add,
    "-": operator.sub,
    "/": operator.truediv,
    **{">": operator.gt, ">=": operator.ge, "==": operator.eq},
    **{"<": operator.lt, "<=": operator.le, "!=": operator.ne},
}
CHANGES = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
}
FLUSH_RIGHT = '("",) * (length - len(shape)) + shape'
SHAPES = [
    *((), (0,), (1,), (2,), (1, 2), (2, 1), (2, 3), (0, 1)),
    *((1, 2, 1), (2, 1, 2), (2, 2, 1), (4, 0, 1)),
]
PAIRS = list(product(SHAPES, SHAPES))
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


def swaps(old, *new):
    """Run a counter-example with each of several texts for one."""
    return edits(*((old, each) for each in new))


def error_of(call):
    """Return what a call complains of: nothing, if it runs."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


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


def by_the_rules(run, first, second):
    """Return the shape that the rules give, or None for an error."""
    result = run.on_paper(x=torch.ones(first), y=torch.ones(second))
    return None if "error" in result else result


# Do this


def test_a_column_and_a_row_make_a_table(snippet):
    run = snippet.after("do-this")

    assert run.euros[:, None].shape == (3, 1)
    assert run.prices.shape == (3, 4)
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
    fails(test_a_column_and_a_row_make_a_table, snippet.edit(old, new))


# How it works


def repeated(short, shape):
    """Return a tensor of a shape, filled by the rules, number by number."""
    long = short.new_zeros(shape)
    for place in product(*map(range, shape)):
        own = place[len(place) - short.ndim :]
        sizes = zip(own, short.shape, strict=True)
        long[place] = short[tuple(min(i, n - 1) for i, n in sizes)]
    return long


def test_stretched_as_if_repeated(snippet, dtypes=(torch.float32,) * 2):
    run = snippet.after("do-this")
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
def test_stretched_as_if_repeated__also_of_another_dtype(snippet, dtype):
    test_stretched_as_if_repeated(snippet, (dtype, dtype))


def test_stretched_as_if_repeated__but_not_of_two_dtypes(snippet, fails):
    """A tensor without any dimension gives way to the other's dtype."""
    dtypes = (torch.int8, torch.int64)
    fails(test_stretched_as_if_repeated, snippet, dtypes)


@swaps(
    "euros[:, None] * rates\n",
    "euros[:, None] * rates.flip(0)\n",
    "euros.flip(0)[:, None] * rates\n",
    "euros[:, None].expand(3, 4) @ rates.expand(4, 4)\n",
)
def test_stretched_as_if_repeated__but_not_in_another_order(
    snippet, old, new, fails
):
    fails(test_stretched_as_if_repeated, snippet.edit(old, new))


def test_results_follow_the_rules(snippet, dtype=torch.float32):
    run = snippet.after("on-paper-twice")

    assert run.fits == (run.euros[:, None] * run.rates).shape == (3, 4)
    assert run.misfits == (3, "error")
    for first, second in PAIRS:
        wanted = by_the_rules(run, first, second)
        for operation in OPERATIONS.values():
            assert shape_of(operation, first, second, dtype) == wanted


def test_results_follow_the_rules__also_of_integers(snippet):
    test_results_follow_the_rules(snippet, torch.int64)


def test_results_follow_the_rules__but_not_of_booleans(snippet, fails):
    """Two tensors of booleans cannot be subtracted, whatever their shapes."""
    fails(test_results_follow_the_rules, snippet, torch.bool)


@edits(
    # flush left
    (FLUSH_RIGHT, 'shape + ("",) * (length - len(shape))'),
    # a 1, or a missing size, does not take the other size
    ('- {"", 1} or {1}', '- {""} or {1}'),
    ('- {"", 1} or {1}', "- {1} or {1}"),
    # sizes that differ give the larger one
    ('if len(wanted) == 1 else "error"', "if wanted else 1"),
    # equal sizes are an error
    ("if len(wanted) == 1 else", "if len(sizes) == len(set(sizes)) else"),
)
def test_results_follow_the_rules__but_not_other_rules(
    snippet, old, new, fails
):
    fails(test_results_follow_the_rules, snippet.edit(old, new))


def test_shapes_are_compared_from_the_right(snippet, operation="*"):
    run = snippet.after("on-paper-twice")

    assert (run.discount.shape, run.prices.shape) == ((3,), (3, 4))
    assert by_the_rules(run, (3,), (3, 4)) is None
    call = {**OPERATIONS, "@": operator.matmul}[operation]
    assert "must match" in error_of(lambda: call(run.discount, run.prices))
    assert call(torch.ones(4), run.prices).shape == (3, 4)
    assert call(torch.ones(3, 1), run.prices).shape == (3, 4)


@pytest.mark.parametrize("operation", [*OPERATIONS][1:])
def test_shapes_are_compared_from_the_right__also_by(snippet, operation):
    test_shapes_are_compared_from_the_right(snippet, operation)


def test_shapes_are_compared_from_the_right__but_not_by_a_matrix_product(
    snippet, fails
):
    fails(test_shapes_are_compared_from_the_right, snippet, "@")


def test_shapes_are_compared_from_the_right__but_not_from_the_left(
    snippet, fails
):
    edited = snippet.edit(FLUSH_RIGHT, 'shape + ("",) * (length - len(shape))')
    fails(test_shapes_are_compared_from_the_right, edited)


def test_shapes_are_compared_from_the_right__but_not_if_turned(snippet, fails):
    edited = snippet.edit(
        "prices = euros[:, None] * rates", "prices = euros * rates[:, None]"
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
        "lambda *shapes: max(shapes)",  # no stretching
        "lambda first, *more: torch.Size(first)",  # no error
        "lambda *shapes, ask=torch.broadcast_shapes: ask(*shapes[:2])",
    ],
)
def test_broadcast_shapes_answers__but_not_another_function(
    snippet, new, fails
):
    edited = snippet.edit(
        "print(torch.broadcast_shapes((3, 1), (4,)))",
        "from types import SimpleNamespace\n"
        f"shape = {new}\n"
        "torch = SimpleNamespace(broadcast_shapes=shape, Size=torch.Size)",
    )
    fails(test_broadcast_shapes_answers, edited)


# What it costs


def bytes_of(tensor):
    """Return how many bytes the memory of a tensor has."""
    return tensor.untyped_storage().nbytes()


def shares(one, other):
    """Return whether two tensors have the same memory."""
    return one.untyped_storage().data_ptr() == (
        other.untyped_storage().data_ptr()
    )


def test_expand_copies_nothing(snippet):
    run = snippet.after("no-copy")

    assert shares(run.stretched, run.column)
    assert run.stretched.shape == (3, 4)
    assert run.stretched.stride() == (1, 0)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        for first, second in PAIRS:
            x = torch.ones(first, dtype=dtype)
            if shape_of(torch.add, first, second) != second:
                continue
            long = x.expand(second)
            assert shares(long, x)
            before = (1,) * (len(second) - len(first)) + first
            for size, was, stride in zip(
                second, before, long.stride(), strict=True
            ):
                assert size == was or stride == 0


@swaps(
    "column.expand(3, 4)\n",
    "column.repeat(1, 4)\n",
    "column.expand(3, 4).contiguous()\n",
    "column.clone().expand(3, 4)\n",
)
def test_expand_copies_nothing__but_not_by_way_of_a_copy(
    snippet, old, new, fails
):
    fails(test_expand_copies_nothing, snippet.edit(old, new))


def test_expand_copies_nothing__but_not_along_an_axis_that_stays(
    snippet, fails
):
    edited = snippet.edit("column.expand(3, 4)\n", "column.expand(3, 1)\n")
    fails(test_expand_copies_nothing, edited)


def test_repeat_copies(snippet):
    run = snippet.after("no-copy")

    assert run.copied.tolist() == [[euro] * 4 for euro in run.euros.tolist()]
    assert not shares(run.copied, run.column)
    assert run.size == bytes_of(run.copied)
    assert bytes_of(run.copied) == (4 * bytes_of(run.column))
    for dtype, size in product(DTYPES, (1, 2, 100)):
        column = counted((size, 1), dtype)
        copied = column.repeat(1, 4)
        assert torch.equal(copied, column.expand(size, 4))
        assert not shares(copied, column)
        assert bytes_of(copied) == (4 * bytes_of(column))


@swaps(
    "column.repeat(1, 4)",
    "column.expand(3, 4)",
    "column.repeat(1, 3)",
    "column.repeat(4, 1)",
    "column.repeat(1, 4) + 1",
    "column.repeat(1, 4).half()",
)
def test_repeat_copies__but_not_so(snippet, old, new, fails):
    fails(test_repeat_copies, snippet.edit(old, new))


def test_the_result_is_whole(snippet):
    run = snippet.after("whole")

    assert (run.left.shape, run.right.shape) == ((1000, 1), (1, 1000))
    given = bytes_of(run.left)
    assert given + bytes_of(run.right) == 8_000
    assert run.whole.shape == (1000, 1000)
    assert bytes_of(run.whole) == 4_000_000
    assert 0 not in run.whole.stride()
    assert run.whole[3, 4] == run.left[3, 0] + run.right[0, 4]


@edits(
    ("whole = left + right", "whole = left.expand(1000, 1000)"),
    ("whole = left + right", "whole = (left + right).half()"),
    ("torch.ones(1000, 1), torch", "torch.ones(1), torch"),
    ("torch.ones(1, 1000)\n", "torch.ones(1000, 1000)\n"),
)
def test_the_result_is_whole__but_not_so(snippet, old, new, fails):
    fails(test_the_result_is_whole, snippet.edit(old, new))


def allocated(call):
    """Return what a call asks a CPU for memory, and for how many bytes."""
    with profile(profile_memory=True, use_kineto=False) as found:
        call()
    events = [
        (each.name, each.self_cpu_memory_usage)
        for each in found.function_events
    ]
    return [(name, size) for name, size in events if size > 0]


def test_only_the_result_is_allocated(
    snippet, written="x + y", dtypes=(torch.float32,) * 2
):
    run = snippet.after("whole")

    pairs = [(run.left, run.right)]
    for first, second in [
        ((64, 1), (64, 64)),
        ((), (5, 7, 3)),
        ((9, 1), (9,)),
    ]:
        x = torch.ones(first, dtype=dtypes[0])
        pairs.append((x, torch.ones(second, dtype=dtypes[1])))
    pairs.append((pairs[-1][0].T, pairs[-1][1]))
    for x, y in pairs:
        sizes = allocated(lambda x=x, y=y: eval(written, {"x": x, "y": y}))
        assert sizes == [("aten::add", bytes_of(x + y))]


@pytest.mark.parametrize("dtype", [*DTYPES[1:], torch.int64, torch.bool])
def test_only_the_result_is_allocated__also_of_another_dtype(snippet, dtype):
    test_only_the_result_is_allocated(snippet, dtypes=(dtype, dtype))


@pytest.mark.parametrize(
    "written",
    ["x.expand(1000, 1000).contiguous() + y", "x.repeat(1, 1000) + y"],
)
def test_only_the_result_is_allocated__but_not_with_copies(
    snippet, written, fails
):
    fails(test_only_the_result_is_allocated, snippet, written)


def test_only_the_result_is_allocated__but_not_of_two_dtypes(snippet, fails):
    """One of the two tensors is first copied to the dtype of the other."""
    dtypes = (torch.float32, torch.float64)
    fails(test_only_the_result_is_allocated, snippet, "x + y", dtypes)


# What the gradient does


def test_the_gradient_is_summed(snippet):
    run = snippet.after("gradient")

    assert run.learned.grad.shape == run.learned.shape == (4,)
    assert run.learned.grad.tolist() == [2 + 3 + 5] * 4
    for first, second in PAIRS:
        shape = shape_of(torch.add, first, second)
        if shape is None:
            continue
        for operation in (torch.sub, torch.div):
            x, y = (
                counted(each, torch.float64).requires_grad_()
                for each in (first, second)
            )
            slopes = counted(shape, torch.float64)
            operation(x, y).backward(slopes)
            long = [
                each.detach().expand(shape).clone().requires_grad_()
                for each in (x, y)
            ]
            operation(*long).backward(slopes)
            for short, stretched in zip((x, y), long, strict=True):
                assert short.grad.shape == short.shape
                wanted = stretched.grad.sum_to_size(short.shape)
                torch.testing.assert_close(short.grad, wanted)
        expanded = counted(first).requires_grad_()
        if shape == second:
            expanded.expand(shape).sum().backward()
            places = torch.Size(shape).numel()
            assert expanded.grad.shape == first
            assert expanded.grad.sum() == places


@edits(
    (  # of what was stretched beforehand
        "torch.tensor([1.0, 1.5, 0.5, 8.0], requires_grad=True)",
        "rates.repeat(3, 1).requires_grad_()",
    ),
    # averaged, not added
    ("(euros[:, None] * learned)", "(euros[:, None] * learned).mean(dim=0)"),
    # in one place only
    ("(euros[:, None] * learned)", "(euros[:, None] * learned)[0]"),
)
def test_the_gradient_is_summed__but_not_so(snippet, old, new, fails):
    fails(test_the_gradient_is_summed, snippet.edit(old, new))


# Read the error

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


def text_of(operation, first, second):
    """Return a text of the error for two shapes."""
    return error_of(lambda: operation(torch.ones(first), torch.ones(second)))


def misfits_of(first, second):
    """Return the positions from the right at which two shapes misfit."""
    pairs = list(zip(reversed(first), reversed(second), strict=False))
    return [n for n, (a, b) in enumerate(pairs) if a != b and 1 not in (a, b)]


def text_of_the_cell(snippet, name):
    """Return the text of the error that a cell shows."""
    shown = "except RuntimeError as error:\n    print(error)\n"
    code = snippet.cell(name).source + "\n"
    edited = snippet.edit(code, code.replace(shown, "finally:\n    pass\n"))
    return error_of(lambda: edited.after(name))


def test_a_is_the_left_one(snippet, symbols="*+-/", right=torch.Tensor):
    assert "tensor a (3)" in text_of_the_cell(snippet, "misfit")
    assert "tensor b (4)" in text_of_the_cell(snippet, "misfit")
    for first, second in MISFITS:
        place = misfits_of(first, second)[0]
        for operation in map(OPERATIONS.get, symbols):
            x, y = torch.ones(first), right(torch.ones(second))
            text = error_of(lambda o=operation, x=x, y=y: o(x, y))
            assert f"tensor a ({first[-1 - place]})" in text
            assert f"tensor b ({second[-1 - place]})" in text


def test_a_is_the_left_one__also_of_a_parameter(snippet):
    test_a_is_the_left_one(snippet, right=Parameter)


@pytest.mark.parametrize("symbol", "<>")
def test_a_is_the_left_one__but_not_of_a_comparison_with_a_parameter(
    snippet, symbol, fails
):
    """Python turns the comparison over, because parameters are tensors."""
    fails(test_a_is_the_left_one, snippet, symbol, Parameter)


def test_a_is_the_left_one__but_not_in_masked_fill(snippet, fails):
    edited = snippet.edit(
        "    discount * prices\n", "    discount.masked_fill(prices > 9, 0)\n"
    )
    fails(test_a_is_the_left_one, edited)


def test_the_text_names_two_sizes(snippet):
    wanted = "tensor a (3) must match the size of tensor b (4) at non-"
    assert wanted in text_of_the_cell(snippet, "misfit")
    for first, second in MISFITS:
        place = misfits_of(first, second)[0]
        a, b = first[-1 - place], second[-1 - place]
        assert 1 not in (a, b)
        for operation in OPERATIONS.values():
            assert text_of(operation, first, second).startswith(
                f"The size of tensor a ({a}) must match"
                f" the size of tensor b ({b}) at non-singleton dimension "
            )


@swaps(
    "    discount * prices\n",
    "    prices @ discount\n",
    "    discount[:, None] @ prices\n",
)
def test_the_text_names_two_sizes__but_not_in_a_matrix_product(
    snippet, old, new, fails
):
    fails(test_the_text_names_two_sizes, snippet.edit(old, new))


def test_the_position_counts_in_the_longer_shape(snippet):
    assert text_of_the_cell(snippet, "misfit").endswith("dimension 1")
    for first, second in MISFITS:
        longer = max(len(first), len(second))
        place = longer - 1 - misfits_of(first, second)[0]
        for operation in OPERATIONS.values():
            text = text_of(operation, first, second)
            assert text.endswith(f"at non-singleton dimension {place}")


def test_the_position_counts_in_the_longer_shape__but_not_of_broadcast_shapes(
    snippet, fails
):
    edited = snippet.edit(
        "    discount * prices\n", "    torch.broadcast_shapes((3,), (3, 4))\n"
    )
    fails(test_the_position_counts_in_the_longer_shape, edited)


def test_a_new_axis_fixes_it(snippet):
    with no_error():
        run = snippet.after("cures")

    assert run.reduced.shape == run.prices.shape == (3, 4)
    for i in range(3):
        assert torch.equal(run.reduced[i], run.prices[i] * run.discount[i])


@swaps(
    "reduced = discount[:, None]",
    "reduced = discount",
    "reduced = discount[None, :]",
    "reduced = discount[:, None, None]",
)
def test_a_new_axis_fixes_it__but_not_elsewhere(snippet, old, new, fails):
    fails(test_a_new_axis_fixes_it, snippet.edit(old, new))


def test_keepdim_fits(snippet, names=("sum", "mean")):
    with no_error():
        run = snippet.after("cures")

    assert run.shares.shape == run.prices.shape
    for i in range(3):
        wanted = run.prices[i] / run.prices[i].sum()
        assert torch.equal(run.shares[i], wanted)
    for shape in [(3,), (3, 4), (4, 4), (2, 3, 4), (1, 5), (2, 0)]:
        for dim in range(-len(shape), len(shape)):
            for name in names:
                x = counted(shape)
                kept = getattr(x, name)(dim=dim, keepdim=True)
                wanted = list(shape)
                wanted[dim] = 1
                assert list(kept.shape) == wanted
                assert (x - kept).shape == shape


@swaps("keepdim=True", "keepdim=False")
def test_keepdim_fits__but_not_without(snippet, old, new, fails):
    fails(test_keepdim_fits, snippet.edit(old, new))


@swaps(
    "prices.sum(dim=1, keepdim=True)",
    "prices.sum(dim=0, keepdim=True)",
    "prices.sum()",
    "prices.cumsum(dim=1)",
)
def test_keepdim_fits__but_not_along_another_axis(snippet, old, new, fails):
    fails(test_keepdim_fits, snippet.edit(old, new))


def test_two_new_axes_reach_the_channels(snippet):
    with no_error():
        run = snippet.after("channels")

    assert run.pictures.shape == (8, 3, 4, 6)
    assert run.centred.shape == run.pictures.shape
    for c in range(3):
        wanted = run.pictures[:, c] - run.means[c]
        assert torch.equal(run.centred[:, c], wanted)
    for shape in [(1, 1, 5, 5), (2, 3, 3, 3), (0, 4, 2, 1)]:
        pictures, means = counted(shape), counted(shape[1:2]) ** 2
        centred = pictures - means[:, None, None]
        for c in range(shape[1]):
            assert torch.equal(centred[:, c], pictures[:, c] - means[c])


@swaps(
    "means[:, None, None]",
    "means[:, None]",
    "means[:, None, None, None]",
    "means.flip(0)[:, None, None]",
    "means.repeat(2)",
)
def test_two_new_axes_reach_the_channels__but_not_so(snippet, old, new, fails):
    fails(test_two_new_axes_reach_the_channels, snippet.edit(old, new))


# The same mistake without an error


def test_a_square_hides_it(snippet):
    with no_error():
        run = snippet.after("square")

    assert run.three.shape == (3, 3)
    for j in range(3):
        wanted = run.three[:, j] * run.discount[j]
        assert torch.equal(run.mixed_up[:, j], wanted)
        assert not torch.equal(run.mixed_up[j], run.three[j] * run.discount[j])


def test_a_square_hides_it__but_not_with_a_column(snippet, fails):
    edited = snippet.edit(
        "mixed_up = discount * three", "mixed_up = discount[:, None] * three"
    )
    fails(test_a_square_hides_it, edited)


def test_a_square_hides_it__but_not_with_four_columns(snippet, fails):
    edited = snippet.edit("prices[:, :3]", "prices[:, :4]")
    fails(test_a_square_hides_it, edited)


# Writing in place


def test_in_place_does_not_stretch(snippet):
    run = snippet.after("in-place")
    assert run.column.tolist() == [[2], [3], [5]]
    assert text_of_the_cell(snippet, "in-place") == (
        "output with shape [3, 1] doesn't match the broadcast shape [3, 4]"
    )

    for first, second in PAIRS:
        result = shape_of(torch.add, first, second)
        if result is None:
            continue
        for change in CHANGES.values():
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
            for kind in (torch.Tensor.long, torch.Tensor.bool, Parameter):
                left = kind(before)
                kept = left.clone()
                assert error_of(lambda c=change, x=left, y=right: c(x, y))
                assert torch.equal(left, kept)


@swaps(
    "    column *= rates\n",
    "    column = column * rates\n",
    "    column *= 2\n",
    "    column += 1\n    column *= rates\n",
)
def test_in_place_does_not_stretch__but_not_so(snippet, old, new, fails):
    fails(test_in_place_does_not_stretch, snippet.edit(old, new))


REFUSED = "more than one element of the written-to tensor refers to a single"


def test_stretched_tensors_refuse(snippet):
    run = snippet.after("write")
    assert REFUSED in text_of_the_cell(snippet, "write")
    assert run.stretched.stride() == (1, 0)
    for first, second in PAIRS:
        x = torch.ones(first)
        fits = shape_of(torch.add, first, second) == second
        if fits and torch.Size(second).numel() > x.numel():
            for write in (*CHANGES.values(), torch.Tensor.copy_):
                for y in (torch.ones(second), torch.ones(1), torch.ones(7)):
                    long = x.expand(second)
                    text = error_of(lambda w=write, x=long, y=y: w(x, y))
                    assert REFUSED in text
                for kind in (torch.Tensor.long, torch.Tensor.bool, Parameter):
                    long = kind(x).expand(second)
                    text = error_of(lambda w=write, x=long: w(x, x + x))
                    assert text != ""


@swaps(
    "stretched = own[:, None].expand(3, 4)\n",
    "stretched = own[:, None].repeat(1, 4)\n",
    "stretched = own[:, None].expand(3, 4).clone()\n",
    "stretched = own.repeat(4, 1).T.expand(3, 4)\n",
)
def test_stretched_tensors_refuse__but_not_copies(snippet, old, new, fails):
    fails(test_stretched_tensors_refuse, snippet.edit(old, new))


@swaps(
    "    stretched += 1\n",
    "    stretched.fill_(1)\n",
    "    stretched.copy_(stretched)\n",
)
def test_stretched_tensors_refuse__but_not_other_writes(
    snippet, old, new, fails
):
    fails(test_stretched_tensors_refuse, snippet.edit(old, new))


def test_one_write_shows_everywhere(snippet):
    with no_error():
        run = snippet.after("write")

    assert run.stretched.tolist() == [[9] * 4, [3] * 4, [5] * 4]
    assert run.own.tolist() == [9, 3, 5]
    for i, j in product(range(3), range(4)):
        own = torch.tensor([[2.0], [3.0], [5.0]])
        wanted = own.clone()
        stretched = own.expand(3, 4)
        wanted[i] = 9
        stretched[i, j] = 9
        assert torch.equal(own, wanted)
        assert torch.equal(stretched, wanted.repeat(1, 4))
    row = torch.zeros(4, dtype=torch.int64)
    long = row.expand(2, 3, 4)
    long[1, 2, 3] = 9
    assert torch.equal(row, torch.tensor([0, 0, 0, 9]))
    assert torch.equal(long, row.repeat(2, 3, 1))


@swaps(
    "stretched = own[:, None].expand(3, 4)\n",
    "stretched = own[:, None].repeat(1, 4)\n",
    "stretched = own[:, None].expand(3, 4).clone()\n",
    "stretched = own[:, None].clone().expand(3, 4)\n",
)
def test_one_write_shows_everywhere__but_not_in_a_copy(
    snippet, old, new, fails
):
    fails(test_one_write_shows_everywhere, snippet.edit(old, new))


# A loss of (N, 1) against (N,)


def test_the_difference_is_square(snippet):
    run = snippet.after("silent")

    for guesses, targets, gaps in [
        (run.guesses, run.targets, run.gaps),
        *((counted((n, 1)), counted((n,)), None) for n in (1, 2, 7)),
    ]:
        count = len(targets)
        gaps = guesses - targets if gaps is None else gaps
        assert gaps.shape == (count, count)
        for i, j in product(range(count), range(count)):
            assert gaps[i, j] == guesses[i, 0] - targets[j]


@swaps(
    "gaps = guesses - targets\n",
    "gaps = guesses - targets[:, None]\n",
    "gaps = guesses[:, 0] - targets\n",
    "gaps = (guesses - targets).T\n",
)
def test_the_difference_is_square__but_not_so(snippet, old, new, fails):
    fails(test_the_difference_is_square, snippet.edit(old, new))


def test_any_order_has_the_same_loss(snippet):
    run = snippet.after("silent")

    loss = run.gaps.square().mean()
    assert loss > 1
    assert torch.equal(run.turned, run.guesses - run.targets.flip(0))
    torch.testing.assert_close(run.turned.square().mean(), loss)
    for order in permutations(range(3)):
        gaps = run.guesses - run.targets[list(order)]
        torch.testing.assert_close(gaps.square().mean(), loss)
    for count, seed in product((2, 5, 64), range(3)):
        torch.manual_seed(seed)
        guesses, targets = torch.randn(count, 1), torch.randn(count)
        first = (guesses - targets).square().mean()
        shuffled = targets[torch.randperm(count)]
        again = (guesses - shuffled).square().mean()
        torch.testing.assert_close(again, first)


@edits(
    ("gaps = guesses - targets\n", "gaps = guesses - targets[:, None]\n"),
    ("turned = guesses", "turned = guesses[:, 0]"),
)
def test_any_order_has_the_same_loss__but_not_in_pairs(
    snippet, old, new, fails
):
    fails(test_any_order_has_the_same_loss, snippet.edit(old, new))


def test_reshape_pairs_them(snippet, shape=(3,)):
    given = snippet.edit(
        "gaps_in_pairs = guesses",
        f"targets = targets.reshape({shape})\ngaps_in_pairs = guesses",
    )
    with no_error():
        run = given.after("reshaped")

    assert run.targets.shape == shape
    assert run.gaps_in_pairs.tolist() == [[0], [0], [0]]
    for count in (1, 2, 7):
        guesses, targets = counted((count, 1)), 3 * counted((count,))
        for form in ((count,), (count, 1)):
            paired = targets.reshape(form).reshape(guesses.shape)
            assert torch.equal(guesses - paired, (-2 * guesses))


def test_reshape_pairs_them__also_of_one_column(snippet):
    test_reshape_pairs_them(snippet, (3, 1))


@swaps(
    "targets.reshape(guesses.shape)",
    "targets",
    "targets.unsqueeze(0)",
    "targets.reshape(guesses.shape).flip(0)",
)
def test_reshape_pairs_them__but_not_in_another_form_or_order(
    snippet, old, new, fails
):
    fails(test_reshape_pairs_them, snippet.edit(old, new))


def test_reshape_pairs_them__but_not_unsqueezed_twice(snippet, fails):
    edited = snippet.edit(
        "targets.reshape(guesses.shape)", "targets.unsqueeze(1)"
    )
    fails(test_reshape_pairs_them, edited, (3, 1))


def test_matching_shapes_find_the_price(snippet):
    with no_error():
        run = snippet.after("fit-both")

    model = run.models["(64, 1)"]
    assert model.weight.item() == pytest.approx(4, abs=0.01)
    assert model.bias.item() == pytest.approx(1, abs=0.01)
    torch.testing.assert_close(run.costs, 4 * run.kilos[:, 0] + 1)


@pytest.mark.parametrize("seed", [1, 2])
def test_matching_shapes_find_the_price__also_from_other_starts(snippet, seed):
    edited = snippet.edit("torch.manual_seed(0)", f"torch.manual_seed({seed})")
    test_matching_shapes_find_the_price(edited)


@swaps(
    "fit(kilos, costs.reshape(64, 1))",
    "fit(kilos, costs)",
    "fit(kilos, 1 + costs.reshape(64, 1))",
    "fit(2 * kilos, costs.reshape(64, 1))",
)
def test_matching_shapes_find_the_price__but_not_with_other_pairs(
    snippet, old, new, fails
):
    fails(test_matching_shapes_find_the_price, snippet.edit(old, new))


def test_flat_targets_learn_the_mean(snippet):
    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        no_error(),
    ):
        run = snippet.after("fit-both")

    assert caught == []
    assert run.costs.shape == (64,)
    guesses = run.models["(64,)"](run.kilos)
    assert guesses.shape == (64, 1)
    assert (
        guesses.tolist()
        == [[pytest.approx(run.costs.mean().item(), abs=0.01)]] * 64
    )
    assert run.costs.std() > 1


@pytest.mark.parametrize("seed", [1, 2])
def test_flat_targets_learn_the_mean__also_from_other_starts(snippet, seed):
    edited = snippet.edit("torch.manual_seed(0)", f"torch.manual_seed({seed})")
    test_flat_targets_learn_the_mean(edited)


def test_flat_targets_learn_the_mean__but_not_reshaped(snippet, fails):
    edited = snippet.edit(
        "fit(kilos, costs),\n", "fit(kilos, costs.reshape(64, 1)),\n"
    )
    fails(test_flat_targets_learn_the_mean, edited)


def test_flat_targets_learn_the_mean__but_not_with_absolute_values(
    snippet, fails
):
    """They learn the median."""
    edited = snippet.edit(
        "(model(kilos) - targets).square()", "(model(kilos) - targets).abs()"
    )
    fails(test_flat_targets_learn_the_mean, edited)


def test_flat_targets_learn_the_mean__but_not_without_a_warning_of_mse_loss(
    snippet, fails
):
    edited = snippet.edit(
        "(model(kilos) - targets).square().mean().backward()",
        "torch.nn.functional.mse_loss(model(kilos), targets).backward()",
    )
    fails(test_flat_targets_learn_the_mean, edited)


# Which losses notice


WARNING = ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]
RAISING = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "soft_margin_loss",
    "cross_entropy",
    "nll_loss",
]
SILENT = [
    "poisson_nll_loss",
    "kl_div",
    "gaussian_nll_loss",
    "((g - t) ** 2).mean()",
]
BY_NAME = {name: getattr(F, name) for name in WARNING + SILENT[:1]} | {
    "kl_div": lambda g, t: F.kl_div(g.log(), t, reduction="batchmean"),
    "gaussian_nll_loss": lambda g, t: F.gaussian_nll_loss(
        g, t, torch.ones_like(g)
    ),
    "((g - t) ** 2).mean()": lambda g, t: (g - t).square().mean(),
}


def pairs():
    """Return guesses of (N, 1) and targets of (N,), all between 0 and 1."""
    for count, dtype in product((2, 3, 8), (torch.float32, torch.float64)):
        torch.manual_seed(count)
        yield tuple(
            torch.rand(shape, dtype=dtype) * 0.8 + 0.1
            for shape in ((count, 1), (count,))
        )


def check_answers(run, names, wanted):
    for name in names:
        it, loss, _ = run.answer(
            run.losses[name], run.right[:, None], run.right
        )
        assert it == run.answers[name]["it"] == wanted
        assert loss == run.answers[name]["loss"]
        for guesses, targets in pairs():
            it, loss, text = run.answer(run.losses[name], guesses, targets)
            assert it == wanted
            assert bool(text) == (wanted != "is silent")
            if wanted == "raises":
                assert loss == run.answers[name]["should be"] == ""
                with pytest.raises((RuntimeError, ValueError)):
                    run.losses[name](guesses, targets)
                continue
            count = len(targets)
            every = guesses.expand(count, count), targets.expand(count, count)
            over_pairs = BY_NAME[name](*every).item()
            assert float(loss) == pytest.approx(over_pairs, abs=0.001)
            with warnings.catch_warnings(action="ignore"):
                value = run.losses[name](guesses, targets).item()
            assert value == pytest.approx(over_pairs, rel=1e-5)


def test_four_losses_warn(snippet):
    run = snippet.after("answers")
    check_answers(run, WARNING, "warns")
    [text] = [text for text, names in run.texts.items() if "l1_loss" in names]
    assert run.texts[text] == WARNING
    assert "will likely lead to incorrect results due to broadcasting" in text
    for name in WARNING:
        assert run.answers[name]["should be"] == "0.000"
        assert run.answers[name]["loss"] != "0.000"


def with_loss(snippet, name, targets="t.reshape(g.shape)"):
    """Return the snippet with other targets for one of its losses."""
    loss = f"F.{name}(g, {targets})"
    if name == "kl_div":
        loss = f'F.kl_div(g.log(), {targets}, reduction="batchmean")'
    elif name == "gaussian_nll_loss":
        loss = f"F.gaussian_nll_loss(g, {targets}, g * 0 + 1)"
    elif name == SILENT[-1]:
        loss = f"((g - {targets}) ** 2).mean()"
    return snippet.edit(
        "** 2).mean(),\n}\n",
        f'** 2).mean(),\n}} | {{"{name}": lambda g, t: {loss}}}\n',
    )


@pytest.mark.parametrize("name", WARNING)
def test_four_losses_warn__but_not_of_reshaped_targets(snippet, name, fails):
    fails(test_four_losses_warn, with_loss(snippet, name))


def test_five_losses_raise(snippet):
    check_answers(snippet.after("answers"), RAISING, "raises")


@pytest.mark.parametrize("name", RAISING[:4])
def test_five_losses_raise__but_not_of_reshaped_targets(snippet, name, fails):
    fails(test_five_losses_raise, with_loss(snippet, name))


@pytest.mark.parametrize("name", RAISING[3:])
def test_five_losses_raise__but_not_of_class_numbers(snippet, name, fails):
    fails(test_five_losses_raise, with_loss(snippet, name, "t.long()"))


def test_four_losses_are_silent(snippet):
    run = snippet.after("answers")
    check_answers(run, SILENT, "is silent")
    for name in SILENT:
        row = run.answers[name]
        assert row["loss"] != row["should be"] != ""
        paired = BY_NAME[name](run.right, run.right).item()
        assert float(row["should be"]) == pytest.approx(paired, abs=0.001)
        assert name in run.texts[""]
    for guesses, targets in pairs():
        variances, count = guesses + 1, len(targets)
        every = [x.expand(count, count) for x in (guesses, targets, variances)]
        wanted = F.gaussian_nll_loss(*every)
        for given in (variances, variances[:, 0]):
            found = F.gaussian_nll_loss(guesses, targets, given)
            torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", SILENT)
def test_four_losses_are_silent__but_not_of_reshaped_targets(
    snippet, name, fails
):
    fails(test_four_losses_are_silent, with_loss(snippet, name))


def test_four_losses_are_silent__but_not_without_batchmean(snippet, fails):
    edited = snippet.edit(', reduction="batchmean"', "")
    fails(test_four_losses_are_silent, edited)


def test_a_loop_warns_once_per_shape(
    snippet, action="default", counts=(3, 3, 3), inside=None
):
    """No edit of the program changes Python's filters."""
    assert snippet.cell("error-from-warning")
    for name in WARNING:
        loss = getattr(F, name)
        with warnings.catch_warnings(record=True, action=action) as caught:
            for n in counts:
                with inside() if inside else nullcontext():
                    loss(torch.ones(n, 1), torch.ones(n))
        assert len(caught) == len(set(counts))


def test_a_loop_warns_once_per_shape__also_in_passes_of_several_shapes(
    snippet,
):
    counts = (3, 3, 2, 3, 2, 5)
    test_a_loop_warns_once_per_shape(snippet, counts=counts)


@pytest.mark.parametrize("action", ["always", "ignore"])
def test_a_loop_warns_once_per_shape__but_not_with_another_filter(
    snippet, action, fails
):
    fails(test_a_loop_warns_once_per_shape, snippet, action, (3, 3, 2))


def test_a_loop_warns_once_per_shape__but_not_if_filters_change(
    snippet, fails
):
    inside = warnings.catch_warnings
    fails(
        test_a_loop_warns_once_per_shape, snippet, "default", (3,) * 3, inside
    )


def test_the_warning_becomes_an_error(snippet):
    run = snippet.after("texts")
    source = snippet.cell("error-from-warning").source
    source = source.replace("except UserWarning as", "except KeyError as")

    def raised(line):
        """Return the text that a line raises, and what it warns of."""
        code = source.replace("F.mse_loss(guesses, targets)", line)
        with warnings.catch_warnings(record=True, action="always") as caught:
            before = warnings.filters[:]
            try:
                exec(code, dict(vars(run)))
            except Warning as error:
                return str(error), []
            finally:
                assert warnings.filters == before
        return "", [str(each.message) for each in caught]

    for name in WARNING:
        text, caught = raised(f"F.{name}(guesses, targets)")
        assert text.startswith("Using a target size")
        assert caught == []
    for kind in ("UserWarning", "DeprecationWarning", "RuntimeWarning"):
        line = f'warnings.warn("Another one", {kind})'
        assert raised(line) == ("", ["Another one"])


@edits(
    ('filterwarnings("error"', 'filterwarnings("ignore"'),
    ('("error", message="Using a target size")', '("error")'),
    ('message="Using a target size"', 'message="The target size"'),
    (
        "    warnings.filterwarnings(",
        '    warnings.simplefilter("ignore")\n    warnings.filterwarnings(',
    ),
)
def test_the_warning_becomes_an_error__but_not_with_another_filter(
    snippet, old, new, fails
):
    fails(test_the_warning_becomes_an_error, snippet.edit(old, new))


def test_the_warning_becomes_an_error__but_not_of_one_shape(snippet, fails):
    edited = snippet.edit(
        "targets = torch.tensor([2.0, 3.0, 5.0])\n",
        "targets = torch.tensor([[2.0], [3.0], [5.0]])\n",
    )
    fails(test_the_warning_becomes_an_error, edited)


def test_one_class_costs_nothing(snippet):
    run = snippet.after("one-class")

    assert [each.shape for each in run.asked] == [(3, 1), (3, 1)]
    assert not torch.equal(*run.asked)
    assert run.free == [0, 0]
    for n, scale in product((1, 2, 64), (1, 1000)):
        outputs = torch.randn(n, 1) * scale
        labels = torch.zeros(n, dtype=torch.long)
        assert F.cross_entropy(outputs, labels) == 0
        with pytest.raises(IndexError):  # there is no second class
            F.cross_entropy(outputs, labels + 1)


@edits(
    ("[guesses, -guesses]", "[guesses, guesses * torch.ones(1, 3)]"),
    ("(outputs, labels)", "(outputs.T, labels[:1])"),
    ("(outputs, labels)", "(1e39 * outputs, labels)"),
    ("(outputs, labels)", "(outputs, labels, weight=torch.zeros(1))"),
    ("(outputs, labels)", "(outputs[:0], labels[:0])"),
)
def test_one_class_costs_nothing__but_not_so(snippet, old, new, fails):
    fails(test_one_class_costs_nothing, snippet.edit(old, new))


# Where it ends


def product_shape(call, first, second):
    """Return the shape of a product, or None for an error."""
    try:
        return tuple(call(torch.ones(first), torch.ones(second)).shape)
    except RuntimeError:
        return None


def test_matmul_keeps_the_last_two(snippet):
    run = snippet.after("products")
    assert "cannot be multiplied" in run.said.get("@", "")

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


@swaps(
    "torch.ones(3, 1) @ torch.ones(3, 4)",
    "torch.ones(3, 3) @ torch.ones(3, 4)",
    "torch.ones(3, 1) * torch.ones(3, 4)",
)
def test_matmul_keeps_the_last_two__but_not_so(snippet, old, new, fails):
    fails(test_matmul_keeps_the_last_two, snippet.edit(old, new))


def test_bmm_and_joins_stretch_nothing(snippet):
    run = snippet.after("products")
    assert "[2, 4] but got: [1, 4]" in run.said.get("bmm", "")
    assert "Sizes of tensors must match" in run.said.get("cat", "")
    assert "to be equal size" in run.said.get("stack", "")

    for b, c, n, k, other, m in product((1, 2), repeat=6):
        found = product_shape(torch.bmm, (b, n, k), (c, other, m))
        assert found == ((b, n, m) if (b, k) == (c, other) else None)
    assert product_shape(torch.bmm, (2, 3, 4), (4, 5)) is None

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
    ("torch.ones(1, 4, 5)", "torch.ones(2, 4, 5)"),
    ("torch.bmm(", "torch.matmul("),
    ("torch.ones(3, 1), torch.ones(1, 4)]", "torch.ones(3, 4)]"),
    ("torch.ones(3, 1), torch.ones(3, 4)]", "torch.ones(3, 4)]"),
)
def test_bmm_and_joins_stretch_nothing__but_not_where_all_fits(
    snippet, old, new, fails
):
    fails(test_bmm_and_joins_stretch_nothing, snippet.edit(old, new))


def test_no_dimension_fits_all(snippet):
    run = snippet.after("edges")

    assert torch.equal(run.one_number, run.prices + run.prices)
    for shape in [*SHAPES, (2, 3, 4, 5)]:
        for operation in OPERATIONS.values():
            assert shape_of(operation, shape, ()) == shape
            assert shape_of(operation, (), shape) == shape
        assert by_the_rules(run, shape, ()) == shape


@swaps("torch.tensor(2.0)\n", "torch.ones(1, 1, 1)\n")
def test_no_dimension_fits_all__but_not_with_more(snippet, old, new, fails):
    fails(test_no_dimension_fits_all, snippet.edit(old, new))


def test_zero_fits_zero_and_one(snippet):
    run = snippet.after("edges")

    assert run.nothing.shape == (3, 0)
    assert run.nothing.numel() == 0
    for operation in OPERATIONS.values():
        assert shape_of(operation, (3, 0), (3, 1)) == (3, 0)
        assert shape_of(operation, (0,), (0,)) == (0,)
        assert shape_of(operation, (0,), (1,)) == (0,)
        assert shape_of(operation, (1,), (0,)) == (0,)
        for size in range(2, 9):
            assert shape_of(operation, (0,), (size,)) is None
            assert shape_of(operation, (size,), (0,)) is None


def test_zero_fits_zero_and_one__but_one_is_not_empty(snippet, fails):
    edited = snippet.edit("torch.zeros(3, 0)", "torch.zeros(3, 1)")
    fails(test_zero_fits_zero_and_one, edited)
