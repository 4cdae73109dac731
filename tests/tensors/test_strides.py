"""The claims of docs/tensors/strides.md."""

from itertools import permutations, product
from math import prod

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.layouts import (
    LAYOUTS,
    memory,
    numbered,
    read,
    several,
    unlike,
)
from tests.helpers.programs import error_of

VIEW_REFUSED = "view size is not compatible with input tensor's size and"
DTYPES = [torch.float32, torch.int64, torch.bfloat16]
LAST = torch.channels_last


def shares(x, result):
    """Return whether a write to one of two tensors reaches the other."""
    seen = []
    for one, other, new in ((result, x, -1), (x, result, -2)):
        before = other.clone()
        one[(0,) * one.dim()] = new
        seen.append(not other.equal(before))
    assert seen[0] == seen[1] == (memory(x)[0] == memory(result)[0])
    return seen[0]


# How it works


def test_strides_lead_to_each_number(snippet):
    run = snippet.after("digit-in-memory")

    one_image, one_row, one_column = run.images.stride()
    assert run.place == 2 * one_image + 5 * one_row + 3 * one_column == 171
    assert run.memory[run.place] == run.images[2, 5, 3]
    for n, i, j in product((0, 2, 1796), range(8), range(8)):
        place = n * one_image + i * one_row + j * one_column
        assert run.memory[place] == run.images[n, i, j]


@LAYOUTS
def test_strides_lead_to_each_number__also_if_the_tensor_is(layout):
    x = layout(2, 3, 4)
    held = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    for index in product(range(2), range(3), range(4)):
        steps = zip(index, x.stride(), strict=True)
        place = x.storage_offset() + sum(i * stride for i, stride in steps)
        assert held[place] == x[index]


def test_strides_lead_to_each_number__also_in_a_slice(snippet):
    images = snippet.after("digit-in-memory").images
    later = images[1:]

    assert (images.storage_offset(), later.storage_offset()) == (0, 64)
    assert later[2, 5, 3] == images.flatten()[64 + 171]


def test_strides_lead_to_each_number__also_in_the_exercise(snippet):
    run = snippet.after("strides-of-checked")
    for shape in ((2, 3), (5,), (4, 1, 7), (2, 3, 4, 6)):
        assert run.strides_of(shape) == numbered(*shape).stride()
    assert run.missed == []

    for old, new in (
        ("in reversed(shape[1:])", "in shape[1:]"),
        ("in reversed(shape[1:])", "in reversed(shape)"),
        ("strides[0] * size", "size"),
        ("return tuple(strides)", "return None"),
    ):
        assert snippet.edit(old, new).after("strides-of-checked").missed


@edits(
    ("2 * 64 + 5 * 8 + 3 * 1", "2 * 64 + 5 * 8 * 3"),
    ("2 * 64 + 5 * 8 + 3 * 1", "2 + 5 * 1797 + 3 * 1797 * 8"),
    ("images.flatten()", "images.mT.flatten()"),
)
def test_strides_lead_to_each_number__but_not_otherwise(
    snippet, old, new, fails
):
    """With another sum, you find another number."""
    fails(test_strides_lead_to_each_number, snippet.edit(old, new))


def test_strides_lead_to_each_number__but_not_from_a_later_place(
    snippet, fails
):
    """The offset of `images[1:]` is 64, so its place 171 is 235 in memory."""
    edited = snippet.edit("images.flatten()", "images[1:].flatten()")
    fails(test_strides_lead_to_each_number, edited)


def test_strides_lead_to_each_number__ends_with_a_negative_index(
    snippet, fails
):
    """A negative index counts from the end, so add the size of its axis."""
    edited = snippet.edit("2 * 64 + 5 * 8 + 3 * 1", "2 * 64 + 5 * 8 - 5 * 1")
    fails(test_strides_lead_to_each_number, edited)


def test_a_transpose_moves_nothing(snippet):
    run = snippet.after("strides")

    assert memory(run.transposed) == memory(run.x)
    assert run.transposed.stride() == run.x.stride()[::-1] == (1, 3)
    assert run.walk(run.x) == [0, 1, 2, 3, 4, 5]
    assert run.walk(run.transposed) == [0, 3, 1, 4, 2, 5]


@LAYOUTS
def test_a_transpose_moves_nothing__also_if_the_tensor_is(layout):
    x = layout(2, 3)
    assert memory(x.mT) == memory(x)
    assert x.mT.stride() == x.stride()[::-1]


@edits(
    ("transposed = x.mT", "transposed = x.mT.clone()"),
    ("transposed = x.mT", "transposed = x.mT.contiguous()"),
    ("transposed = x.mT", "transposed = x.reshape(3, 2)"),
    ("sum(i * stride for", "max(i * stride for"),
)
def test_a_transpose_moves_nothing__but_not_a_copy_or_a_reshape(
    snippet, old, new, fails
):
    """A clone has memory of its own."""
    fails(test_a_transpose_moves_nothing, snippet.edit(old, new))


def test_contiguous_means_in_order(snippet):
    run = snippet.after("strides")
    found = set()

    for x in (run.x, run.x.mT, run.photos[0], run.moved[0], *unlike()):
        in_order = run.walk(x) == list(range(x.numel()))
        assert x.is_contiguous() == in_order
        found.add(in_order)
    assert found == {True, False}


def test_contiguous_means_in_order__but_not_with_the_first_index_fastest(
    snippet, fails
):
    """If you read column by column, other tensors are in order."""
    edited = snippet.edit(
        "    for index in product(*map(range, x.shape)):\n",
        "    for index in product(*map(range, reversed(x.shape))):\n"
        "        index = index[::-1]\n",
    )
    fails(test_contiguous_means_in_order, edited)


def test_contiguous_means_in_order__but_not_with_gaps(snippet, fails):
    """Numbers in the right order with gaps between them aren't contiguous."""
    edited = snippet.edit(
        "    return places",
        "    return [sorted(set(places)).index(each) for each in places]",
    )
    fails(test_contiguous_means_in_order, edited)


REORDER = ["permute(0, 2, 3, 1)", "movedim(1, -1)", "transpose(-2, -1)", "mT"]
SHAPES = [(1, 3, 4, 6), (2, 3, 4, 2), (2, 1, 4, 1), (1, 1, 4, 2)]


@pytest.mark.parametrize("name", REORDER)
def test_reordering_changes_the_strides(snippet, name):
    run = snippet.after("reorder")

    call = run.calls[name]
    order = (0, 1, 3, 2) if "T" in name or "trans" in name else (0, 2, 3, 1)
    strides = [run.batch.stride(dim) for dim in order]
    assert [*call(run.batch).stride()] == strides
    pairs = [(run.batch, call(run.batch))]
    for shape, dtype in product(SHAPES, DTYPES):
        pairs += [(x, call(x)) for x in several(*shape, dtype=dtype)]
    only_reordered(pairs)


def only_reordered(pairs):
    """Check that memory stays and that sizes and strides move together."""
    for x, result in pairs:
        assert memory(result) == memory(x)
        before = sorted(zip(x.shape, x.stride(), strict=True))
        after = sorted(zip(result.shape, result.stride(), strict=True))
        assert after == before


@LAYOUTS
def test_reordering_changes_the_strides__also_if_the_tensor_is(layout):
    x = layout(2, 3, 4)
    for order in permutations(range(3)):
        only_reordered(
            [
                (x, x.permute(order)),
                (x, x.movedim((0, 1, 2), order)),
                (x, x.transpose(*order[:2])),
                (x, x.mT),
            ]
        )


@pytest.mark.parametrize("after", [".clone()", ".contiguous()", "[:, 1:]"])
@pytest.mark.parametrize("name", REORDER)
def test_reordering_changes_the_strides__but_not_with_more_behind_it(
    snippet, name, after, fails
):
    """With a copy or a slice after it, the strides or the memory are
    different.
    """
    edit = snippet.edit(f"x: x.{name},", f"x: x.{name}{after},")
    fails(test_reordering_changes_the_strides, edit, name)


VIEWS = [*REORDER, "unsqueeze(0)", "squeeze(0)", "unflatten(2, (2, -1))"]
VIEWS += ["view(1, 3, -1)"]


@pytest.mark.parametrize("name", VIEWS)
def test_most_calls_give_views(snippet, name, tensors=several):
    run = snippet.after("kinds")

    call = run.calls[name]
    assert run.kinds[name] == ("view", "view")
    written = eval(f"x.{name}", {"x": run.batch})
    assert call(run.batch).shape == written.shape
    assert call(run.batch).stride() == written.stride()
    # No call has written into the photos themselves.
    assert 0 <= run.photos.min() < run.photos.max() == 1
    for dtype in DTYPES:
        for x in tensors(1, 3, 4, 6, dtype=dtype):
            if "view" in name and error_of(lambda x=x: call(x)):
                continue
            with no_error():
                assert shares(x, call(x))


def test_most_calls_give_views__also_on_other_axes():
    for x in several(2, 1, 4, 6):
        for dim in range(4):
            assert shares(x, x.unsqueeze(dim))
            assert shares(x, x.squeeze(dim))
            assert shares(x, x.unflatten(dim, (1, -1)))
            assert shares(x, x.transpose(0, dim))
            assert shares(x, x.movedim(0, dim))
        assert shares(x, x.squeeze())
        assert shares(x, x.view(2, 4, 6))
        assert shares(x, x.view(1, 2, 1, 2, 2, 3, 2))


def test_most_calls_give_views__also_in_the_exercise(snippet):
    run = snippet.after("predict")

    assert run.a.tolist() == [[1, 0, 0], [1, 0, 0]]
    edited = snippet.edit("a.mT.reshape(-1)[1]", "a.reshape(-1)[1]")
    assert edited.after("predict").a.tolist() == [[1, 5, 0], [1, 0, 0]]


@pytest.mark.parametrize("call", ["{}.clone()", "contiguous().{}"])
@pytest.mark.parametrize("name", VIEWS)
def test_most_calls_give_views__but_not_with_a_copy_before_or_behind(
    snippet, name, call, fails
):
    """If you copy before or after the call, the result has memory of
    its own.
    """
    edit = snippet.edit(f"x: x.{name},", f"x: x.{call.format(name)},")
    fails(test_most_calls_give_views, edit, name)


@pytest.mark.parametrize("name", ["permute(0, 2, 3, 1)", "unsqueeze(0)"])
def test_most_calls_give_views__ends_for_a_parameter(snippet, name, fails):
    """PyTorch raises an error if you write into a view of a parameter."""

    def tensors(*shape, dtype):
        return [torch.ones(shape).requires_grad_()]

    fails(test_most_calls_give_views, snippet, name, tensors)


def test_reshape_copies_only_if_it_must(snippet):
    run = snippet.after("kinds")

    assert run.kinds["reshape(1, 3, -1)"] == ("view", "view")
    assert run.kinds["flatten(1)"] == ("copy", "view")
    for name in ("reshape(1, 3, -1)", "flatten(1)"):
        call = run.calls[name]
        for dtype in DTYPES:
            for x in (run.batch, *several(1, 3, 4, 6, dtype=dtype)):
                copied_if_refused(x, call(x))
    assert run.rows.shape == (1797, 192)
    assert copied_if_refused(run.moved, run.rows)
    samples = numbered(4, 3, 4, 6)[::2]  # each of them in one piece
    assert not copied_if_refused(samples, run.calls["flatten(1)"](samples))


def copied_if_refused(x, result):
    """Check that a result is a copy just where `view` raises an error."""
    refusal = error_of(lambda: x.view(result.shape))
    assert refusal.startswith(VIEW_REFUSED) or not refusal
    assert shares(x, result) == (not refusal)
    return bool(refusal)


def test_reshape_copies_only_if_it_must__also_if_the_tensor_lies_otherwise():
    found = set()
    for x in unlike():
        if 0 in x.stride():
            continue
        a, b, c = x.shape
        for to in ((-1,), (a, b * c), (a * b, c), (a, 1, b, c), (b, a, c)):
            found.add(copied_if_refused(x, x.reshape(to)))
        for start, end in ((0, 1), (1, 2), (0, 2), (1, 1)):
            found.add(copied_if_refused(x, x.flatten(start, end)))
    assert found == {True, False}


@edits(
    ("x.reshape(1, 3, -1)", "x.reshape(1, 3, -1).clone()"),
    ("x.reshape(1, 3, -1)", "x.contiguous().reshape(1, 3, -1)"),
    ("x.reshape(1, 3, -1)", "x.as_strided((1, 3, 24), (72, 24, 1))"),
    ("x.flatten(1)", "x.flatten(1).clone()"),
    ("x.flatten(1)", "x.contiguous().flatten(1)"),
    ("x.flatten(1)", "x.as_strided((1, 72), (72, 1))"),
)
def test_reshape_copies_only_if_it_must__but_not_with_another_call(
    snippet, old, new, fails
):
    """`clone()` copies in any case."""
    edit = snippet.edit(f"lambda x: {old}", f"lambda x: {new}")
    fails(test_reshape_copies_only_if_it_must, edit)


def test_contiguous_copies_the_rest(snippet):
    run = snippet.after("kinds")
    contiguous = run.calls["contiguous()"]

    assert run.kinds["contiguous()"] == ("copy", "itself")
    assert memory(run.own)[0] != memory(run.moved)[0]
    assert run.own.equal(run.moved)
    for x in (run.batch, run.photos, *unlike()):
        result = contiguous(x)
        assert result.equal(x)
        assert result.is_contiguous()
        assert (result is x) == x.is_contiguous()
        assert (memory(result)[0] == memory(x)[0]) == x.is_contiguous()


@edits(
    ("x.contiguous(),", "x.clone(),"),
    ("x.contiguous(),", "x.view_as(x),"),
    ("x.contiguous(),", "x.contiguous()[:],"),
    ("x.contiguous(),", "x.mT.contiguous().mT,"),
)
def test_contiguous_copies_the_rest__but_not_otherwise(
    snippet, old, new, fails
):
    """`clone()` copies a contiguous tensor as well."""
    fails(test_contiguous_copies_the_rest, snippet.edit(old, new))


def test_a_clone_keeps_the_strides(snippet, shown=lambda x: x):
    run = snippet.after("do-this")

    assert run.own.stride() == run.moved.stride()
    x = shown(run.moved)
    assert x.clone().stride() == x.stride()
    with pytest.raises(RuntimeError, match=VIEW_REFUSED):
        x.clone().view(len(x), -1)
    packed = x.clone(memory_format=torch.contiguous_format)
    assert packed.equal(x)
    assert packed.view(len(x), -1).equal(x.reshape(len(x), -1))


@pytest.mark.parametrize("dims", [*permutations(range(3))], ids=str)
def test_a_clone_keeps_the_strides__also_permuted_by(dims):
    for dtype in DTYPES:
        x = numbered(2, 3, 4, dtype=dtype).permute(dims)
        assert x.clone().stride() == x.stride()
        assert memory(x.clone())[0] != memory(x)[0]


@edits(
    ("moved.clone()", "moved.contiguous()"),
    ("moved.clone()", "moved.clone(memory_format=torch.contiguous_format)"),
)
def test_a_clone_keeps_the_strides__but_not_if_you_ask(
    snippet, old, new, fails
):
    """`contiguous()` changes the strides of a permuted tensor."""
    fails(test_a_clone_keeps_the_strides, snippet.edit(old, new))


def test_a_clone_keeps_the_strides__ends_with_gaps(snippet, fails):
    """A slice of the columns has gaps in memory, and its clone has none."""
    fails(test_a_clone_keeps_the_strides, snippet, lambda x: x[..., :4])


# What goes wrong


def joined(shape, dim):
    """Return a shape with an axis and the next one joined."""
    return (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :])


def test_view_needs_fitting_strides(snippet, another=None):
    run = snippet.after("needed")
    found = set()

    assert VIEW_REFUSED in (run.refused["permuted"] or "")
    tensors = [run.moved[0], run.photos[0], run.batch[0], *unlike()]
    for x in tensors if another is None else [another]:
        for dim in (0, 1):
            if another is None and min(x.shape[dim : dim + 2]) < 2:
                continue
            fits = x.stride(dim) == run.needed(x, dim)
            to = joined(x.shape, dim)
            said = error_of(lambda x=x, to=to: x.view(to))
            assert said.startswith("" if fits else VIEW_REFUSED)
            assert bool(said) != fits
            found.add(fits)
    assert another is not None or found == {True, False}


@edits(
    ("x.size(dim + 1) *", "x.size(dim) *"),
    ("* x.stride(dim + 1)", "* x.stride(dim)"),
    ("x.size(dim + 1) *", "1 *"),
)
def test_view_needs_fitting_strides__but_not_of_other_sizes_or_strides(
    snippet, old, new, fails
):
    """With the size of the first axis, the rule is wrong."""
    fails(test_view_needs_fitting_strides, snippet.edit(old, new))


def test_view_needs_fitting_strides__but_not_of_a_contiguous_copy(
    snippet, fails
):
    """A contiguous copy has strides that fit, so `view` raises no error."""
    old = "lambda: batch.view(1, -1)"
    edit = snippet.edit(old, "lambda: batch.contiguous().view(1, -1)")
    fails(test_view_needs_fitting_strides, edit)


def test_view_needs_fitting_strides__but_not_where_they_fit(snippet, fails):
    """The rows and columns of a photo can be joined after the permute too."""
    old = "lambda: batch.view(1, -1)"
    edit = snippet.edit(old, "lambda: batch.view(1, 3, -1)")
    fails(test_view_needs_fitting_strides, edit)


@pytest.mark.parametrize(
    "another",
    [
        torch.zeros(3, 2, 0).permute(1, 0, 2),
        torch.zeros(3, 1, 2).permute(1, 0, 2),
    ],
    ids=["an empty tensor", "an axis of size 1"],
)
def test_view_needs_fitting_strides__ends_with(snippet, another, fails):
    """Without numbers, or with an axis of size 1, any strides will do."""
    fails(test_view_needs_fitting_strides, snippet, another)


def test_transposes_and_columns_refuse(snippet):
    run = snippet.after("view-refused")

    assert VIEW_REFUSED in (run.refused["transposed"] or "")
    assert VIEW_REFUSED in (run.refused["columns"] or "")


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool])
@pytest.mark.parametrize(
    "shape",
    [(2, 3), (5, 4), (2, 9), (7, 3)],
    ids="a matrix of shape {}".format,
)
def test_transposes_and_columns_refuse__also_with(shape, dtype):
    x = numbered(*shape, dtype=dtype)
    for call in (x.mT.view, x[:, :2].view):
        assert error_of(lambda call=call: call(-1)).startswith(VIEW_REFUSED)


@edits(
    ("x.mT.view(-1)", "x.view(-1)"),
    ("x[:, :2].view(-1)", "x[:1].view(-1)"),
)
def test_transposes_and_columns_refuse__but_not_otherwise(
    snippet, old, new, fails
):
    """The matrix itself, and its first rows, are in one piece."""
    fails(test_transposes_and_columns_refuse, snippet.edit(old, new))


@edits(
    ("a single row", "x.mT.view(-1)", "x[:1].mT.view(-1)"),
    ("all columns", "x[:, :2].view(-1)", "x[:, :3].view(-1)"),
    ("columns of one row", "x[:, :2].view(-1)", "x[:1, :2].view(-1)"),
)
def test_transposes_and_columns_refuse__ends_with(snippet, old, new, fails):
    """A single row, or all columns, are in one piece."""
    fails(test_transposes_and_columns_refuse, snippet.edit(old, new))


FIXES = {
    "reshape": lambda x, *sizes: x.reshape(*sizes),
    "contiguous().view": lambda x, *sizes: x.contiguous().view(*sizes),
}


def test_both_fixes_copy(snippet):
    run = snippet.after("view-fixed")

    for fixed in (run.reshaped, run.viewed):
        assert memory(fixed)[0] != memory(run.batch)[0]
        assert fixed.shape == (1, 192)
        assert read(fixed) == read(run.batch)


@pytest.mark.parametrize("name", FIXES)
def test_both_fixes_copy__also_elsewhere_with(name):
    count = 0
    for x in unlike():
        a, b, c = x.shape
        for to in ((-1,), (a, b * c), (a * b, c), (b, a, c)):
            if not error_of(lambda x=x, to=to: x.view(to)):
                continue
            fixed = FIXES[name](x, *to)
            assert memory(fixed)[0] != memory(x)[0]
            assert read(fixed) == read(x)
            assert fixed.dim() == len(to)
            count += 1
    assert count > 20


@edits(
    ("batch.reshape(1, -1)", "batch.mT.reshape(1, -1)"),
    ("batch.contiguous().view(1, -1)", "batch.mT.contiguous().view(1, -1)"),
    ("batch.reshape(1, -1)", "batch.as_strided((1, 192), (192, 1))"),
)
def test_both_fixes_copy__but_not_in_another_order_or_memory(
    snippet, old, new, fails
):
    """If you transpose first, the numbers come in another order."""
    fails(test_both_fixes_copy, snippet.edit(old, new))


# Where it ends


BATCHES = [
    (2, 3, 4, 6),
    (1, 3, 4, 6),
    (2, 1, 4, 6),
    (2, 3, 1, 1),
    (1, 1, 1, 1),
    (1, 3, 1, 1),
    (3, 2, 1, 5),
    (3, 2, 5, 1),
    (2, 1, 1, 1),
]
EMPTY = [(0, 3, 4, 6), (2, 0, 4, 6), (2, 3, 0, 6)]
SHAPED = "of shape {}".format


def test_channels_last_changes_strides_only(snippet):
    with no_error():
        run = snippet.after("channels-last")

    strided_as_last(run.two, run.last)


def strided_as_last(x, last):
    """Check the numbers, the shape and the strides of channels_last."""
    _, channels, height, width = x.shape
    area = width * channels
    assert x.is_contiguous()
    assert last.equal(x)
    assert last.stride() == (height * area, 1, area, channels)
    assert last.is_contiguous(memory_format=LAST)


@pytest.mark.parametrize("shape", BATCHES + EMPTY, ids=SHAPED)
def test_channels_last_changes_strides_only__also_if(shape):
    for dtype in DTYPES:
        x = numbered(*shape, dtype=dtype)
        strided_as_last(x, x.to(memory_format=LAST))


@edits(
    ("two.to(memory_format=torch.channels_last)", "two"),
    ("two.to(memory", "two.add(1).to(memory"),
    ("two.to(memory", "two.permute(0, 2, 3, 1).to(memory"),
    ("moved[:2].contiguous()", "moved[:2]"),
)
def test_channels_last_changes_strides_only__but_not_otherwise(
    snippet, old, new, fails
):
    """Without `.to(...)`, each color is in one piece, as before."""
    edit = snippet.edit(old, new).edit("maps = conv(last)", "maps = last")
    fails(test_channels_last_changes_strides_only, edit)


def test_channels_last_changes_strides_only__ends_for_a_single_image(
    snippet, fails
):
    """An image without a batch axis raises `required rank 4 tensor`."""
    edit = snippet.edit("two = moved[:2].", "two = moved[0].")
    fails(test_channels_last_changes_strides_only, edit)


def test_permuted_pictures_are_channels_last(snippet):
    run = snippet.after("do-this")

    permuted_as_last(run.photos, run.moved)


def permuted_as_last(x, permuted):
    """Check that a permuted batch is channels_last without a copy."""
    _, c, h, w = permuted.shape
    assert permuted.stride() == (h * w * c, 1, w * c, c)
    assert permuted[:, 0].equal(x[..., 0].reshape(-1, h, w))
    assert permuted.is_contiguous(memory_format=LAST)
    assert memory(permuted) == memory(x)


@pytest.mark.parametrize("shape", BATCHES, ids=SHAPED)
def test_permuted_pictures_are_channels_last__also_if(shape):
    n, c, h, w = shape
    for dtype in DTYPES:
        x = numbered(n, h, w, c, dtype=dtype)
        permuted_as_last(x, x.permute(0, 3, 1, 2))


@edits(
    ("photos.permute(0, 3, 1, 2)", "photos.reshape(1797, 3, 8, 8)"),
    ("photos.permute(0, 3, 1, 2)", "photos.permute(0, 3, 1, 2).contiguous()"),
    ("photos.permute(0, 3, 1, 2)", "photos.permute(0, 3, 1, 2).clone()"),
    ("photos.permute(0, 3, 1, 2)", "photos.permute(0, 3, 2, 1)"),
)
def test_permuted_pictures_are_channels_last__but_not_otherwise(
    snippet, old, new, fails
):
    """A `reshape` to that shape gives the strides of a contiguous tensor."""
    fails(test_permuted_pictures_are_channels_last, snippet.edit(old, new))


def test_permuted_pictures_are_channels_last__ends_without_images(
    snippet, fails
):
    """PyTorch gives a batch with no rows other strides."""
    old = "photos.permute(0, 3, 1, 2)"
    edited = snippet.edit(old, "photos[:, :0].permute(0, 3, 1, 2)")
    edited = edited.edit("rows = moved.reshape(1797, -1)", "rows = moved")
    fails(test_permuted_pictures_are_channels_last, edited)


def test_convolutions_keep_channels_last(snippet):
    run = snippet.after("channels-last")

    assert run.last.is_contiguous(memory_format=LAST)
    assert run.maps.is_contiguous(memory_format=LAST)
    assert run.maps.shape == (2, 8, 6, 6)
    assert run.conv.weight.is_contiguous(memory_format=LAST)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16]
)
@pytest.mark.parametrize(
    "kernel",
    [1, 2, 3, (1, 3)],
    ids=["1 pixel", "2 by 2", "3 by 3", "1 by 3"],
)
def test_convolutions_keep_channels_last__also_with(kernel, dtype):
    for size in (1, 2, 3):
        layer = nn.Conv2d(size, 6, kernel, dtype=dtype)
        shapes = ((1, size, 7, 9), (2, size, 7, 9))
        inputs = [x for each in shapes for x in several(*each, dtype=dtype)]
        picture = numbered(7, 9, size, dtype=dtype)
        inputs.append(picture.permute(2, 0, 1).unsqueeze(0))
        for x in inputs:
            last = x.to(memory_format=LAST)
            assert layer(last).is_contiguous(memory_format=LAST)
        layer.to(memory_format=LAST)
        for x in inputs:
            last = x.to(memory_format=LAST)
            assert layer(last).is_contiguous(memory_format=LAST)


@pytest.mark.parametrize(
    "padding", ["zeros", "circular", "reflect", "replicate"], ids=str
)
def test_convolutions_keep_channels_last__also_if_padded_with(padding):
    for groups, stride in product((1, 3), (1, 2)):
        layer = nn.Conv2d(
            3, 6, 3, stride, 1, groups=groups, padding_mode=padding
        ).to(memory_format=LAST)
        for x in several(2, 3, 7, 9):
            last = x.to(memory_format=LAST)
            assert layer(last).is_contiguous(memory_format=LAST)


CONV = "3).to(memory_format=torch.channels_last)"


@edits(
    ("maps = conv(last)", "maps = conv(two)"),
    ("maps = conv(last)", "maps = conv(last).contiguous()"),
)
def test_convolutions_keep_channels_last__but_not_otherwise(
    snippet, old, new, fails
):
    """A contiguous batch, and a layer left as it was, give contiguous maps."""
    edit = snippet.edit(CONV, "3)").edit(old, new)
    fails(test_convolutions_keep_channels_last, edit)


def test_convolutions_keep_channels_last__but_not_unconverted(snippet, fails):
    """A layer with circular padding that isn't converted loses the format."""
    edit = snippet.edit(CONV, "3, padding=1, padding_mode='circular')")
    fails(test_convolutions_keep_channels_last, edit)


def test_convolutions_keep_channels_last__ends_for_an_empty_batch(
    snippet, fails
):
    """An empty batch comes out of the layer contiguous."""
    edit = snippet.edit("two = moved[:2].", "two = moved[:0].")
    fails(test_convolutions_keep_channels_last, edit)


def test_channels_last_refuses_view(snippet):
    run = snippet.after("channels-last")

    refuses_but_flattens(run.two, run.last)


def refuses_but_flattens(x, last):
    """Check that view raises for channels_last, and flatten does not."""
    said = error_of(lambda: last.view(len(last), -1))
    assert said.startswith(VIEW_REFUSED)
    assert last.flatten(1).equal(x.view(len(x), -1))


@pytest.mark.parametrize(
    "shape",
    [each for each in BATCHES if each[1] > 1 and prod(each[2:]) > 1],
    ids=SHAPED,
)
def test_channels_last_refuses_view__also_if(shape):
    for dtype in DTYPES:
        x = numbered(*shape, dtype=dtype)
        refuses_but_flattens(x, x.to(memory_format=LAST))


@edits(
    ("= two.to(memory_format=torch.channels_last)", "= two"),
    ("two.to(memory", "two.flip(1).to(memory"),
)
def test_channels_last_refuses_view__but_not_otherwise(
    snippet, old, new, fails
):
    """If it stays contiguous, `view` works for the batch."""
    edit = snippet.edit(old, new).edit("maps = conv(last)", "maps = last")
    fails(test_channels_last_refuses_view, edit)


@edits(
    ("one channel", "= moved[:2].contiguous()", "= moved[:2, :1].clone()"),
    (
        "one pixel",
        "= moved[:2].contiguous()",
        "= moved[:2, :, :1, :1].clone()",
    ),
    ("no image", "= moved[:2].contiguous()", "= moved[:0].contiguous()"),
)
def test_channels_last_refuses_view__ends_with(snippet, old, new, fails):
    """With one channel or one pixel, there is only one order in memory."""
    edit = snippet.edit(old, new).edit("maps = conv(last)", "maps = last")
    fails(test_channels_last_refuses_view, edit)
