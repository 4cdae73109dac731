"""The claims of docs/tensors/creation.md."""

import itertools
import math
import random
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error

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


def is_linked(copy, tensor):
    """Return whether a copy passes gradients on to a tensor."""
    if not copy.requires_grad:
        return False
    [grad] = torch.autograd.grad(copy.sum(), tensor, allow_unused=True)
    return grad is not None


# Do this


def test_patterns_fill_the_shape(snippet):
    run = snippet.after("do-this")

    assert run.blank.tolist() == [[0] * 8] * 8
    assert run.gray.tolist() == [[5] * 8] * 8
    for n, m in itertools.product(range(4), repeat=2):
        assert torch.zeros(n, m).tolist() == [[0] * m] * n
        assert torch.full((n, m), -2.5).tolist() == [[-2.5] * m] * n


def test_patterns_fill_the_shape__also_inside_a_frame(snippet):
    run = snippet.after("frame-checked")

    assert run.ink == 9 * 28
    frame = run.frame.tolist()
    assert frame[0] == frame[-1] == [9] * 8
    assert frame[1:-1] == [[9, *[0] * 6, 9]] * 6


@edits(
    ("blank = torch.zeros(8, 8)", "blank = torch.ones(8, 8)"),
    ("blank = torch.zeros(8, 8)", "blank = torch.zeros(8)"),
    ("torch.full((8, 8), 5.0)", "torch.full((8, 8), 5.0).cumsum(0)"),
    ("torch.full((8, 8), 5.0)", "torch.full((8, 8), 5.0)[None]"),
)
def test_patterns_fill_the_shape__but_not_otherwise(snippet, old, new, fails):
    """Ones in place of zeros, another shape or growing numbers are not what
    you asked for.
    """
    fails(test_patterns_fill_the_shape, snippet.edit(old, new))


# How it works


def test_lists_give_the_shape(snippet):
    run = snippet.after("capital-right")

    assert run.number.shape == ()
    assert run.pixels_right.shape == (1,)
    assert run.seven.shape == (4, 3)
    for value in (5, 2**63 - 1, 2.5, True, -1e300, 2j):
        assert torch.tensor(value).shape == ()
        for n, m in itertools.product(range(5), range(1, 5)):
            assert torch.tensor([value] * n).shape == (n,)
            assert torch.tensor([[value] * n] * m).shape == (m, n)


@edits(
    ("number = torch.tensor(3)", "number = torch.Tensor(3)"),
    ("torch.tensor([16_777_217])", "torch.tensor(16_777_217)"),
    ("[0, 9, 0], [0, 9, 0]])", "[0, 9, 0], [0, 9, 0]]).T"),
)
def test_lists_give_the_shape__but_not_otherwise(snippet, old, new, fails):
    """Other brackets, a transpose or a capital letter give another shape."""
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
BOOLEANS = "tensor([True, False])"


def test_integers_give_int64(snippet, more=()):
    run = snippet.after("dtypes")

    for call in INTEGERS:
        assert found(run, call) == (torch.int64, torch.int64)
    assert found(run, BOOLEANS) == (torch.bool, torch.bool)
    for values in (True, [False], [True] * 3, [[True, False]] * 2):
        assert torch.tensor(values).dtype == torch.bool
    for dtype in FLOATING:
        with default(dtype):
            for number in more:
                with no_error():
                    assert torch.tensor([number]).dtype == torch.int64
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


def test_integers_give_int64__ends_beyond_64_bits(snippet, fails):
    """An integer of `2**63` or more raises an error."""
    fails(test_integers_give_int64, snippet, [2**63])


def test_integers_give_int64__ends_for_numpy(snippet, fails):
    """A NumPy integer keeps its own dtype, such as `int32`."""
    fails(test_integers_give_int64, snippet, [np.int32(5)])


@pytest.mark.parametrize("call", [*INTEGERS, BOOLEANS])
def test_integers_give_int64__but_not_with_a_dtype(snippet, call, fails):
    """With `dtype=torch.float16`, the call gives that dtype."""
    fails(test_integers_give_int64, typed(snippet, call))


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


def test_floats_follow_the_default(snippet, more=()):
    run = snippet.after("dtypes")

    for call in DEFAULTS:
        assert found(run, call) == (torch.float32, torch.float64)
    assert run.layer.weight.dtype == torch.float64
    assert run.layer.bias.dtype == torch.float64
    assert run.blank.dtype == torch.float32
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
                *(torch.tensor([number, 2.0]) for number in more),
            ):
                assert tensor.dtype == dtype


def test_floats_follow_the_default__ends_for_numpy(snippet, fails):
    """A list that holds a `float64` number of NumPy, such as a mean, gives
    `float64`.
    """
    fails(test_floats_follow_the_default, snippet, [np.float64(1.5)])


@pytest.mark.parametrize("call", DEFAULTS)
def test_floats_follow_the_default__but_not_with_a_dtype(snippet, call, fails):
    """With `dtype=torch.float16`, the call gives that dtype under both
    defaults.
    """
    fails(test_floats_follow_the_default, typed(snippet, call))


LAYER = "torch.nn.Linear(1, 1)"


@edits(
    (LAYER, "torch.nn.Linear(1, 1, dtype=torch.float32)"),
    (LAYER, "torch.nn.Conv2d(1, 1, 1, dtype=torch.float32)"),
    (LAYER, f"{LAYER}\nlayer.bias = torch.nn.Parameter(layer.bias.float())"),
    ("changed, layer", "blank = blank.to(torch.float64)\nchanged, layer"),
)
def test_floats_follow_the_default__but_not_a_layer_with_another_dtype(
    snippet, old, new, fails
):
    """A tensor or layer that you make or convert with another dtype has that
    dtype.
    """
    fails(test_floats_follow_the_default, snippet.edit(old, new))


@pytest.mark.parametrize("dtype", FLOATING)
def test_floats_follow_the_default__also_in_layers(dtype):
    before = torch.zeros(2), *nn.Linear(2, 3).parameters()
    before += (*nn.Conv2d(1, 2, 3).parameters(),)
    with default(dtype):
        for layer in (nn.Linear(2, 3), nn.Conv2d(1, 2, 3)):
            assert {each.dtype for each in layer.parameters()} == {dtype}
    assert {each.dtype for each in before} == {torch.float32}


# A dtype and a device of your choice


def test_you_decide(snippet):
    run = snippet.after("ask")

    assert run.images.dtype == torch.float32
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
    (".images, dtype=torch.float32)", ".images)"),
    ("device=device)", 'device="meta")'),
)
def test_you_decide__but_not_if_you_say_something_else(
    snippet, old, new, fails
):
    """Without `dtype=`, or with another device, the tensor has another dtype
    or device.
    """
    fails(test_you_decide, snippet.edit(old, new))


def test_like_takes_all_three(snippet):
    run = snippet.after("like")

    pairs = [(run.like, run.seven)]
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
    assert run.like.tolist() == [[1] * 3] * 4


@instead_of(
    "ones_like(seven)",
    "ones_like(seven)[:1]",
    "ones(seven.shape)",
    "ones_like(seven, dtype=torch.int32)",
    'ones_like(seven, device="meta")',
)
def test_like_takes_all_three__but_not_otherwise(snippet, old, new, fails):
    """A slice of it, or a call with another dtype or device, gives a tensor
    that differs.
    """
    fails(test_like_takes_all_three, snippet.edit(old, new))


# Ranges


def test_arange_is_half_open(snippet, more=()):
    run = snippet.after("ranges")

    assert run.even.tolist() == list(range(0, 8, 2))
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
    for end in (1, 2, 8, 1000):
        assert torch.arange(end).tolist() == list(range(end))
        assert torch.arange(-end, end).tolist() == list(range(-end, end))
    for limits in more:
        with no_error():
            numbers = torch.arange(*limits).tolist()
        assert numbers == list(range(*limits))


def test_arange_is_half_open__ends_if_the_step_leads_away(snippet, fails):
    """`arange(5, 0)` raises an error, where `range(5, 0)` is empty."""
    fails(test_arange_is_half_open, snippet, [(5, 0)])


@edits(
    ("torch.arange(0, 8, 2)", "torch.linspace(0, 8, 5)"),
    ("torch.arange(0, 8, 2)", "torch.arange(0, 8, 2)[1:]"),
    ("torch.arange(5, 0, -2)", "torch.arange(5, 0, -2).sort().values"),
)
def test_arange_is_half_open__but_not_so(snippet, old, new, fails):
    """If the end is included, the start is left out or the numbers are sorted,
    it is no longer `range`.
    """
    fails(test_arange_is_half_open, snippet.edit(old, new))


def test_linspace_has_both_ends(
    snippet, counts=(2, 3, 7, 1000), dtypes=(torch.float32, torch.float64)
):
    run = snippet.after("ranges")

    is_spaced(run.points, 0, 1, 5)
    is_spaced(run.levels, 0, 16, 5)
    draw = random.Random(0)
    ends = [(0, 1), (3, 3), (7, -2), (0.1, 0.3), (-1000, 1000), (0, 1e-9)]
    ends += [(draw.uniform(-1e3, 1e3), draw.gauss(0, 9)) for _ in range(50)]
    for (start, end), n in itertools.product(ends, counts):
        for dtype in dtypes:
            points = torch.linspace(start, end, n, dtype=dtype)
            is_spaced(points, start, end, n)
            with default(dtype):
                assert torch.equal(torch.linspace(start, end, n), points)


def test_linspace_has_both_ends__ends_for_one_number(snippet, fails):
    """With `n=1` you get only the start."""
    fails(test_linspace_has_both_ends, snippet, (1,))


def test_linspace_has_both_ends__ends_for_integers(snippet, fails):
    """`linspace(0, 10, 4, dtype=torch.int64)` gives 0, 3, 6, 10: each number
    is cut off, so the gaps differ.
    """
    fails(test_linspace_has_both_ends, snippet, (4,), [torch.int64])


def is_spaced(points, start, end, n):
    """Check that points run from one end to the other."""
    assert points.shape == (n,)
    assert points[0] == torch.tensor(start, dtype=points.dtype)
    assert points[-1] == torch.tensor(end, dtype=points.dtype)
    steps = torch.tensor(
        [start + (end - start) * i / (n - 1) for i in range(n)],
        dtype=torch.float64,
    )
    eps = torch.finfo(torch.float64).eps
    if points.is_floating_point():
        eps = torch.finfo(points.dtype).eps
    rounding = 4 * eps * max(abs(start), abs(end))
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
    """If you cut off an end, space the numbers unequally or round them, they
    no longer fit.
    """
    fails(test_linspace_has_both_ends, snippet.edit(old, new))


# Copies


def test_clone_has_its_own_numbers(snippet):
    run = snippet.after("copies")

    assert run.same.tolist() == run.row.tolist() == [9, 16]
    assert run.copied.tolist() == [3, 16]
    run.images.zero_()
    assert run.copy.sum() == 294
    run.copied.zero_()
    assert run.same.tolist() == run.row.tolist() == [9, 16]
    run.same.zero_()
    assert run.row.tolist() == [0, 0]
    for tensor in tensors():
        copy = tensor.clone()
        tensor.zero_()
        assert torch.equal(copy, torch.ones_like(tensor))
        copy = tensor.clone()
        copy.fill_(1)
        assert not tensor.any()


@edits(
    ("row.clone()", "row.detach()"),
    ("row.clone()", "row.view(2)"),
    ("copy = images[0].clone()", "copy = images[0]"),
    ("same, copied = row,", "same, copied = row.clone(),"),
)
def test_clone_has_its_own_numbers__but_not_otherwise(
    snippet, old, new, fails
):
    """A view or a second name shares its numbers, and a clone doesn't follow
    later changes.
    """
    fails(test_clone_has_its_own_numbers, snippet.edit(old, new))


def test_clone_has_its_own_numbers__but_not_a_second_name(snippet, fails):
    """A second name is not a copy: it shows the change."""
    edited = snippet.edit("row, row.clone()", "row, row")
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
    """`detach()` or `no_grad()` cuts the link; a plain `clone()` keeps it."""
    fails(test_clone_stays_linked, snippet.edit(old, new))


# What goes wrong


def test_unequal_rows_raise(snippet, more=()):
    run = snippet.after("unequal-rows")

    assert not hasattr(run, "uneven")
    for rows in (
        [[1, 2], [1]],
        [(1,), (1, 2)],
        [[1.5, 2], [1, 2], [1, 2, 3]],
        [[True], []],
        [[1, 2, 3]] * 9 + [[1, 2]],
        *more,
    ):
        with (
            no_error(),
            pytest.raises(ValueError, match="expected sequence of length"),
        ):
            torch.tensor(rows)
    for rows in ([[], [1]], [[], [1, 2], [1.5]]):
        with no_error():
            torch.tensor(rows)


def test_unequal_rows_raise__ends_for_a_number(snippet, fails):
    """A number in place of a row raises a different error: `not a
    sequence`.
    """
    fails(test_unequal_rows_raise, snippet, [[[1, 2], 3]])


@instead_of(
    "[[0.0, 9.0], [9.0]]",
    "[[0.0, 9.0], [9.0, 9.0]]",
    "[[0.0], [9.0]]",
    "[[], [9.0]]",
)
def test_unequal_rows_raise__but_not_equal_ones_or_behind_an_empty_one(
    snippet, old, new, fails
):
    """Rows of the same length raise no error, and neither does an empty first
    row.
    """
    fails(test_unequal_rows_raise, snippet.edit(old, new))


MESSAGES = {
    ValueError: "only one element tensors can be converted to Python scal",
    TypeError: "only integer tensors of a single element can be converted",
}
SHAPES = [(2,), (3,), (1, 2), (2, 2)]


def test_a_list_of_tensors_raises(snippet):
    run = snippet.after("list-of-tensors")

    assert [type(each) for each in run.refusals] == [ValueError, TypeError]
    for each in run.refusals:
        assert MESSAGES[type(each)] in str(each)
    for dtype in (*FLOATING, *INTEGER):
        expected = ValueError if dtype.is_floating_point else TypeError
        for shape, n in itertools.product(SHAPES, (1, 5)):
            days = [torch.ones(shape, dtype=dtype) for _ in range(n)]
            with pytest.raises(expected, match=MESSAGES[expected]):
                torch.tensor(days)
    with no_error():
        stacked = snippet.after("stacked").stacked
    assert stacked.tolist() == [[0, 9], [9, 9]]
    for dtype in EVERY:
        for n, m in itertools.product(range(4), (1, 2, 5)):
            rows = [torch.randint(9, (n,)).to(dtype) for _ in range(m)]
            made = torch.stack(rows)
            assert made.shape == (m, n)
            assert made.dtype == dtype
            assert all(map(torch.equal, made, rows))


@pytest.mark.parametrize("dtype", [*FLOATING, *INTEGER, torch.bool])
def test_a_list_of_tensors_raises__also_with_a_dtype(dtype):
    for shape in SHAPES:
        for rows in (torch.zeros(2, *shape), torch.zeros(2, *shape).long()):
            with pytest.raises((ValueError, TypeError), match="only "):
                torch.tensor([*rows], dtype=dtype)


ROWS = "torch.tensor([0.0, 9.0]), torch.tensor([9.0, 9.0])"


@edits(
    (ROWS, "torch.tensor([0.0]), torch.tensor([9.0])"),
    (ROWS, "[0.0, 9.0], [9.0, 9.0]"),
    ("[*seven]", "[*seven[:, :1]]"),
    ("[*seven]", "seven.tolist()"),
    ("torch.tensor(each)", "torch.stack(each)"),
)
def test_a_list_of_tensors_raises__but_not_otherwise(snippet, old, new, fails):
    """A list of single numbers, plain lists and `torch.stack` raise no
    error.
    """
    fails(test_a_list_of_tensors_raises, snippet.edit(old, new))


@instead_of(
    "stacked = torch.stack(rows)",
    "stacked = torch.cat(rows)",
    "stacked = torch.stack(rows[::-1])",
    "stacked = torch.stack(rows)[None]",
)
def test_a_list_of_tensors_raises__but_not_joined_otherwise(
    snippet, old, new, fails
):
    """`torch.cat` makes one long row, and the order of the list matters."""
    fails(test_a_list_of_tensors_raises, snippet.edit(old, new))


def test_a_list_of_tensors_raises__ends_for_unequal_lengths(snippet, fails):
    """`torch.stack` raises an error for tensors of different lengths."""
    edited = snippet.edit(
        "torch.stack(rows)", "torch.stack([*rows, torch.ones(3)])"
    )
    fails(test_a_list_of_tensors_raises, edited)


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
    """`offset.detach().clone()` gives no warning, `offset.detach()` shares its
    numbers, and adding `offset` passes gradients on.
    """
    fails(test_tensor_of_a_tensor_warns, snippet.edit(old, new))


PIXELS = "pixels = torch.Tensor("


def test_capital_tensor_loses_digits(snippet):
    run = snippet.after("capital")

    assert run.pixels.dtype == torch.float32
    assert run.pixels.item() == 16_777_216
    for dtype in FLOATING:
        with default(dtype):
            for values in ([1], [0, 5], [[1, 2], [3, 4]], [-5]):
                made = torch.Tensor(values)
                assert made.dtype == dtype
                assert made.tolist() == values
    assert not hasattr(run, "typed")
    for values in ([1], [1.5, 2], [[1, 2]], []):
        for dtype in (torch.float32, torch.int64, torch.bool):
            with pytest.raises(TypeError):
                torch.Tensor(values, dtype=dtype)
        for switch in (True, False):
            with pytest.raises(TypeError):
                torch.Tensor(values, requires_grad=switch)


@instead_of(
    PIXELS,
    "pixels = torch.tensor(",
    "pixels = torch.DoubleTensor(",
    f"torch.set_default_dtype(torch.float64)\n{PIXELS}",
)
def test_capital_tensor_loses_digits__but_not_otherwise(
    snippet, old, new, fails
):
    """`torch.tensor` keeps integers, and `float64` has room for all digits."""
    fails(test_capital_tensor_loses_digits, snippet.edit(old, new))


def test_capital_tensor_takes_a_size(snippet):
    with marked():
        run = snippet.after("capital-right")

        for made in (run.three, torch.empty(3)):
            assert made.shape == (3,)
            assert made.dtype == torch.float32
            assert made.isnan().all()
        for size in ((0,), (1,), (5,), (2, 3)):
            assert torch.Tensor(*size).shape == size
            assert torch.Tensor(*size).isnan().all()
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
    """With a lowercase `t`, a list, or zeros written into it, the two no
    longer differ in this way.
    """
    fails(test_capital_tensor_takes_a_size, snippet.edit(old, new))


@instead_of(
    "torch.Tensor([17, 19], dtype=torch.int64)",
    "torch.tensor([17, 19], dtype=torch.int64)",
    "torch.tensor([17.0, 19.0], requires_grad=True)",
    "torch.Tensor([17, 19])",
)
def test_capital_tensor_loses_digits__but_the_function_takes_a_dtype(
    snippet, old, new, fails
):
    """`torch.tensor` takes both options, and `torch.Tensor` without them
    raises no error.
    """
    fails(test_capital_tensor_loses_digits, snippet.edit(old, new))


STEPS = "arange(1, 1.3, 0.1)"


def test_a_fractional_step_may_reach_the_end(snippet):
    run = snippet.after("fractional-step")

    assert run.steps.shape == (4,)
    assert run.steps[-1] == torch.tensor(1.3)
    assert 3 < run.needed < 3.001
    counted = snippet.after("count-first").counted
    rounding = 2 * torch.finfo(counted.dtype).eps
    expected = torch.tensor([1, 1.1, 1.2], dtype=torch.float64)
    assert counted.shape == (3,)
    assert ((counted - expected).abs() <= rounding).all()


@pytest.mark.parametrize("dtype", FLOATING)
def test_a_fractional_step_may_reach_the_end__also_by_default(snippet, dtype):
    with default(dtype):
        test_a_fractional_step_may_reach_the_end(snippet)


def test_a_fractional_step_may_reach_the_end__but_not_half_a_step_early(
    snippet, fails
):
    """If the end is half a step earlier, you get three numbers."""
    edited = snippet.edit(STEPS, "arange(1, 1.25, 0.1)")
    fails(test_a_fractional_step_may_reach_the_end, edited)


@instead_of(
    "1 + 0.1 * torch.arange(3)",
    f"torch.{STEPS}",
    "torch.arange(3.0)",
)
def test_a_fractional_step_may_reach_the_end__but_not_counted_otherwise(
    snippet, old, new, fails
):
    """With the step inside `arange`, or without the step, the numbers are not
    1, 1.1 and 1.2.
    """
    fails(test_a_fractional_step_may_reach_the_end, snippet.edit(old, new))


def test_a_fractional_step_may_reach_the_end__but_not_linspace(snippet, fails):
    """Four numbers from `linspace(1, 1.2, 4)` end at 1.2."""
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
    """If you drop a number, repeat the numbers or divide others, the count no
    longer fits.
    """
    fails(test_arange_rounds_up, snippet.edit(old, new))


TRACKED = "torch.tensor([17, 19], requires_grad=True)"


def test_integers_refuse_gradients(snippet):
    run = snippet.after("integer-gradients")

    assert not hasattr(run, "weights")
    for values in (5, [5], [[1, 2], [3, 4]], True, [True, False], [3, True]):
        with pytest.raises(RuntimeError, match="Only Tensors of floating"):
            torch.tensor(values, requires_grad=True)
    assert snippet.after("floating").weights.requires_grad
    for values in (5.0, [5.0], [[1.5, 2], [3, 4]]):
        assert torch.tensor(values, requires_grad=True).requires_grad


@edits(
    (TRACKED, "torch.tensor([17, 19])"),
    (TRACKED, "torch.tensor([17, 19.0], requires_grad=True)"),
    (TRACKED, TRACKED.replace("req", "dtype=torch.float32, req")),
    ("[17.0, 19.0], requires_grad=True", "[17.0, 19.0]"),
)
def test_integers_refuse_gradients__but_not_so(snippet, old, new, fails):
    """Without `requires_grad=True` there is no error, and floats may require
    gradients.
    """
    fails(test_integers_refuse_gradients, snippet.edit(old, new))


HALF = "half = torch.full_like(seven, 0.5"


def test_full_like_cuts_fractions(snippet, more=(), dtypes=SIGNED):
    with no_error():
        run = snippet.after("like-integers")

    assert run.half.tolist() == [[0] * 3] * 4
    assert run.half.dtype == torch.int64
    for number in (0.5, 5.7, 99.99, 254.5):
        counts = torch.ones(2, dtype=torch.uint8)
        assert torch.full_like(counts, number).tolist() == [int(number)] * 2
    for dtype in dtypes:
        for number in (0.5, -0.5, 5.5, -5.7, 99.99, 126.5, -127.5, *more):
            with no_error():
                made = torch.full_like(torch.ones(2, dtype=dtype), number)
            assert made.dtype == dtype
            assert made.tolist() == [int(number)] * 2
    assert snippet.after("floating").floating.tolist() == [[0.5] * 3] * 4
    for dtype in INTEGER:
        counts = torch.ones(100, dtype=dtype)
        for number in (0.5, -5.75):
            made = torch.full_like(counts, number, dtype=torch.float32)
            assert made.tolist() == [number] * 100


def test_full_like_cuts_fractions__ends_out_of_range(snippet, fails):
    """A number that the dtype cannot hold, such as 300.7 in `int8`, raises an
    error.
    """
    fails(test_full_like_cuts_fractions, snippet, [300.7])


def test_full_like_cuts_fractions__ends_below_zero_in_uint8(snippet, fails):
    """In `uint8`, a number below 0 raises an error, even -0.5."""
    fails(test_full_like_cuts_fractions, snippet, (), [torch.uint8])


def test_full_like_cuts_fractions__ends_for_booleans(snippet, fails):
    """A boolean tensor gets `True` for every number but 0."""
    fails(test_full_like_cuts_fractions, snippet, (), [torch.bool])


@edits(
    (HALF, f"{HALF}, dtype=torch.half"),
    (HALF, "half = torch.full_like(seven.float(), 0.5"),
    (HALF, "half = torch.full_like(seven, 0.5 + 0.5"),
    ("seven, 0.5, dtype=torch.float32", "seven, 0.5"),
)
def test_full_like_cuts_fractions__but_not_so(snippet, old, new, fails):
    """A floating-point dtype keeps the fraction, and 1 has no fraction to
    lose.
    """
    fails(test_full_like_cuts_fractions, snippet.edit(old, new))


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
    "dropped = torch.tensor([[], [9.0, 9.0]])",
    "dropped = torch.tensor([[9.0, 9.0]])",
    "dropped = torch.tensor([[9.0], [9.0]])",
)
def test_an_empty_first_row_drops_numbers__but_not_a_full_one(
    snippet, old, new, fails
):
    """Without the empty row, all numbers stay."""
    fails(test_an_empty_first_row_drops_numbers, snippet.edit(old, new))
