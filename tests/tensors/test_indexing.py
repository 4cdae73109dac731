"""The claims of docs/tensors/indexing.md."""

import itertools
import math

import pytest
import torch
from torch.nn import functional

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.worlds import TENSORS, each

EACH = each(
    "tensor",
    TENSORS,
    "of one element",
    "transposed",
    "with gaps",
    "expanded",
    "requiring grad",
    "non-leaf",
    "float16",
    "bfloat16",
    "at the ends of int64",
    "boolean",
)
MATRICES = each(
    "tensor",
    TENSORS,
    "of one element",
    "transposed",
    "with gaps",
    "expanded",
    "requiring grad",
    "bfloat16",
    "boolean",
)
WRITABLE = each(
    "tensor",
    TENSORS,
    "of one element",
    "transposed",
    "with gaps",
    "non-leaf",
    "bfloat16",
    "boolean",
)
SEVERAL_AXES = pytest.mark.parametrize(
    "shape", [(4, 3), (1, 5), (7, 2), (4, 3, 2), (5, 2, 3, 2)]
)


def numbered(*shape):
    """Return a tensor whose elements all differ."""
    return torch.arange(torch.Size(shape).numel()).reshape(shape)


def positions(size, *shape):
    """Return an index tensor: positions below a size, some of them twice."""
    return (numbered(*shape) * 7 + 1) % size


def shares(part, whole):
    """Whether two tensors lie in one memory."""
    return part.untyped_storage().data_ptr() == (
        whole.untyped_storage().data_ptr()
    )


def untrained(snippet, cell):
    """Run the program to the end of a cell, without what it trains."""
    cells = [each for each in snippet.cells() if each != "losses"]
    return snippet.only(*cells).after(cell)


# Integers and slices


def test_an_integer_takes_its_axis_away(snippet):
    run = snippet.after("by-position")
    lines = run.image.tolist()

    assert run.row.tolist() == lines[3]
    assert run.column.tolist() == [line[6] for line in lines]


@EACH
def test_an_integer_takes_its_axis_away__also_if_the_tensor_is(tensor):
    x = tensor()
    for k in range(-len(x), len(x)):
        assert torch.equal(x[k], x.unbind(0)[k])


@SEVERAL_AXES
def test_an_integer_takes_its_axis_away__also_with(shape):
    x = numbered(*shape)
    for k in range(-shape[1], shape[1]):
        assert torch.equal(x[:, k], x.unbind(1)[k])
        assert torch.equal(x[-1, k], x.unbind(0)[-1].unbind(0)[k])


@edits(("image[3]", "image[[3]]"), ("image[3]", "image[3:4]"))
def test_an_integer_takes_its_axis_away__but_not_a_list(
    snippet, old, new, fails
):
    """A list or a slice with one position keeps the axis, with size 1."""
    fails(test_an_integer_takes_its_axis_away, snippet.edit(old, new))


@edits(("image[:, -2]", "image[:, 2]"), ("image[3]", "image[2]"))
def test_an_integer_takes_its_axis_away__but_not_at_another_position(
    snippet, old, new, fails
):
    """Without the minus sign, the count starts at the first column."""
    fails(test_an_integer_takes_its_axis_away, snippet.edit(old, new))


def test_a_slice_keeps_its_axis(snippet):
    with no_error():
        run = snippet.after("by-position")

    lines = run.image.tolist()
    assert run.window.tolist() == [line[1:7] for line in lines[2:6]]
    assert run.small[0].tolist() == [line[::2] for line in lines[::2]]
    assert run.crops[0].tolist() == run.window.tolist()
    assert run.crops.shape == (len(run.images), 4, 6)
    assert run.small.shape == (len(run.images), 4, 4)


@pytest.mark.parametrize("size", [0, 1, 3, 5])
def test_a_slice_keeps_its_axis__also_of(size):
    x, places = torch.arange(size), [None, *range(-7, 8, 2), 2]
    for start, end, step in itertools.product(places, places, (None, 1, 2, 9)):
        expected = [*range(size)][start:end:step]
        assert x[start:end:step].tolist() == expected


@EACH
def test_a_slice_keeps_its_axis__also_if_the_tensor_is(tensor):
    x = tensor()
    for piece in (slice(0, 1), slice(-1, None), slice(None, 99, 2)):
        lines = x.unbind(0)[piece]
        assert torch.equal(x[piece], torch.stack(lines))


@edits(
    ("image[2:6, 1:7]", "image[2, 1:7]"),
    ("image[2:6, 1:7]", "image[2:7, 1:8]"),
    ("images[:, ::2, ::2]", "images[:, 1::2, ::2]"),
)
def test_a_slice_keeps_its_axis__but_not_otherwise(snippet, old, new, fails):
    """An integer in place of the slice removes the axis."""
    fails(test_a_slice_keeps_its_axis, snippet.edit(old, new))


def test_a_slice_keeps_its_axis__ends_with_a_negative_step(snippet, fails):
    """Unlike a list, a tensor takes no negative step: use `flip`."""
    edited = snippet.edit("image[2:6, 1:7]", "image[5:1:-1, 1:7]")
    fails(test_a_slice_keeps_its_axis, edited)


# Lists and index tensors


def test_a_list_picks_in_its_order(snippet):
    with no_error():
        run = snippet.after("by-list")

    lines = run.image.tolist()
    assert run.three_rows.tolist() == [lines[6], lines[1], lines[6]]


@EACH
def test_a_list_picks_in_its_order__also_if_the_tensor_is(tensor):
    x = tensor()
    for named in ([0], [-1, 0, -1], []):
        expected = torch.stack([x.unbind(0)[k] for k in [*named, 0]])[:-1]
        assert torch.equal(x[named], expected)
        for dtype in (torch.int64, torch.int32):
            assert torch.equal(x[torch.tensor(named, dtype=dtype)], expected)


@pytest.mark.parametrize("places", [[2, 2, 0], [3, 1], [-1, 0, 1, -1, 2]])
def test_a_list_picks_in_its_order__also_along_another_axis(places):
    x = numbered(2, 4, 3)
    expected = [[plane[k] for k in places] for plane in x.tolist()]

    assert x[:, places].tolist() == expected
    assert x[:, torch.tensor(places)].tolist() == expected


@edits(
    ("image[[6, 1, 6]]", "image[[1, 6, 6]]"),
    ("image[[6, 1, 6]]", "image[[6, 1]]"),
)
def test_a_list_picks_in_its_order__but_not_sorted(snippet, old, new, fails):
    """Sorted positions give the same rows in another order."""
    fails(test_a_list_picks_in_its_order, snippet.edit(old, new))


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_a_list_picks_in_its_order__ends_for_a_list_of_lists(snippet, fails):
    """`x[[[6, 1], [1, 6]]]` is read as `x[[6, 1], [1, 6]]`, with a warning."""
    edited = snippet.edit("image[[6, 1, 6]]", "image[[[6, 1], [1, 6]]]")
    fails(test_a_list_picks_in_its_order, edited)


def test_a_list_picks_in_its_order__ends_for_a_tuple(snippet, fails):
    """A tuple doesn't count as a list: `x[(6, 1)]` is the element `x[6,
    1]`.
    """
    edited = snippet.edit("image[[6, 1, 6]]", "image[(6, 1)]")
    fails(test_a_list_picks_in_its_order, edited)


@pytest.mark.parametrize("dtype", ["short", "char", "float"])
def test_a_list_picks_in_its_order__ends_for_other_dtypes(
    snippet, dtype, fails
):
    """A tensor of `int16`, `int8` or floats raises an `IndexError`."""
    new = f"image[torch.tensor([6, 1, 6]).{dtype}()]"
    edited = snippet.edit("image[[6, 1, 6]]", new)
    fails(test_a_list_picks_in_its_order, edited)


def test_two_lists_pick_points(snippet):
    run = snippet.after("by-list")
    pairs = [*zip(run.i.tolist(), run.j.tolist(), strict=True)]

    assert run.points.tolist() == [run.image[pair].item() for pair in pairs]


@MATRICES
def test_two_lists_pick_points__also_if_the_tensor_is(tensor):
    x = tensor()
    for shape in ((3,), (1,), (2, 3), (0,)):
        i, j = positions(len(x), *shape), positions(x.shape[1], *shape)
        picked = x[i, j]
        assert picked.shape == shape
        pairs = zip(i.flatten().tolist(), j.flatten().tolist(), strict=True)
        for value, pair in zip(picked.flatten(), pairs, strict=True):
            assert value == x[pair]


@pytest.mark.parametrize("shape", [(4, 5, 2), (4, 5, 2, 3)])
def test_two_lists_pick_points__also_with(shape):
    x, i, j = numbered(*shape), [3, 0, 3], [1, 4, 1]
    points = [x[pair] for pair in zip(i, j, strict=True)]

    assert torch.equal(x[i, j], torch.stack(points))


@edits(("image[i, j]", "image[i][:, j]"), ("image[i, j]", "image[j, i]"))
def test_two_lists_pick_points__but_not_one_after_the_other(
    snippet, old, new, fails
):
    """`image[i][:, j]` picks rows first and then columns: a block."""
    fails(test_two_lists_pick_points, snippet.edit(old, new))


def test_a_column_and_a_row_pick_a_block(snippet):
    run = snippet.after("by-list")
    lines = run.image.tolist()

    expected = [[lines[a][b] for b in run.j] for a in run.i]
    assert run.block.tolist() == expected


@MATRICES
def test_a_column_and_a_row_pick_a_block__also_if_the_tensor_is(tensor):
    x = tensor()
    j = torch.arange(x.shape[1]).flip(0)
    for rows in ([0], [0, 0, 0], [-1, 0]):
        i = torch.tensor(rows)
        expected = torch.stack([x[a].flip(0) for a in rows])
        assert torch.equal(x[i[:, None], j], expected)
        assert torch.equal(x[torch.broadcast_tensors(i[:, None], j)], expected)


@SEVERAL_AXES
def test_a_column_and_a_row_pick_a_block__also_with(shape):
    x, i, j = numbered(*shape), torch.tensor([-1, 0, 0]), torch.tensor([1, 0])

    expected = [torch.stack([x[a, b] for b in j]) for a in i]
    assert torch.equal(x[i[:, None], j], torch.stack(expected))


@edits(
    ("image[i[:, None], j]", "image[i, j]"),
    ("image[i[:, None], j]", "image[i, j[:, None]]"),
    ("image[i[:, None], j]", "image[i[:, None], j[:, None]]"),
)
def test_a_column_and_a_row_pick_a_block__but_not_otherwise(
    snippet, old, new, fails
):
    """Without the extra axis, the two are paired and pick points."""
    fails(test_a_column_and_a_row_pick_a_block, snippet.edit(old, new))


# Masks


def test_a_mask_picks_along_one_axis(snippet):
    run = snippet.after("by-mask")
    pixels = [*itertools.chain(*run.image.tolist())]

    assert run.dark.tolist() == [ink for ink in pixels if ink > 8]
    assert run.gray.tolist() == [ink for ink in pixels if 4 < ink <= 8]


@EACH
def test_a_mask_picks_along_one_axis__also_if_the_tensor_is(tensor):
    x = tensor()
    for step in (1, 2, 3, 99):
        mask = (numbered(*x.shape) % step) == step - 1
        pairs = zip(x.flatten(), mask.flatten(), strict=True)
        expected = [value for value, true in pairs if true]
        assert x[mask].shape == (len(expected),)
        assert all(map(torch.equal, x[mask], expected))


@pytest.mark.parametrize("shape", [(4, 3, 2), (3, 1, 2, 2), (0, 3)])
def test_a_mask_picks_along_one_axis__also_with(shape):
    x = numbered(*shape)

    expected = [k for k in range(x.numel()) if k % 3 == 0]
    assert x[x % 3 == 0].tolist() == expected


@edits(
    ("image[image > 8]", "image.where(image > 8, 0)"),
    ("image[image > 8]", "image[image <= 8]"),
    ("image[image > 8]", "image.T[image.T > 8]"),
)
def test_a_mask_picks_along_one_axis__but_not_otherwise(
    snippet, old, new, fails
):
    """`where` keeps the shape, and puts 0 where the mask is false."""
    fails(test_a_mask_picks_along_one_axis, snippet.edit(old, new))


def test_a_mask_of_rows_picks_rows(snippet):
    run = snippet.after("by-mask")

    lines = run.image.tolist()
    assert run.inked_rows.tolist() == [line for line in lines if line[6] > 7]
    pairs = zip(run.images, run.labels.tolist(), strict=True)
    expected = [image for image, label in pairs if label == 3]
    assert torch.equal(run.threes, torch.stack(expected))


@SEVERAL_AXES
def test_a_mask_of_rows_picks_rows__also_with(shape):
    x = numbered(*shape)
    for mask in itertools.product([True, False], repeat=shape[0]):
        expected = [*itertools.compress(x.tolist(), mask)]
        assert x[torch.tensor(mask)].tolist() == expected


@EACH
def test_a_mask_of_rows_picks_rows__also_if_the_tensor_is(tensor):
    x = tensor()
    for others in (True, False):
        mask = torch.tensor([True] + [others] * (len(x) - 1))
        expected = [*itertools.compress(x, mask)]
        assert torch.equal(x[mask], torch.stack(expected))
        assert torch.equal(x[mask.tolist()], torch.stack(expected))


@edits(
    ("image[image[:, 6] > 7]", "image[image > 7]"),
    ("image[image[:, 6] > 7]", "image[image[:, 6] < 7]"),
    ("images[labels == 3]", "images[labels < 3]"),
)
def test_a_mask_of_rows_picks_rows__but_not_otherwise(
    snippet, old, new, fails
):
    """A mask of the whole shape picks single elements instead of rows."""
    fails(test_a_mask_of_rows_picks_rows, snippet.edit(old, new))


# One element per row


def test_one_element_per_row(snippet):
    with no_error():
        run = snippet.after("per-row")

    pairs = zip(run.scores.tolist(), run.labels.tolist(), strict=True)
    assert run.picked.tolist() == [row[label] for row, label in pairs]
    assert torch.allclose(run.means[3], run.threes.sum(dim=0) / 183)
    images, means = run.images.flatten(1), run.means.flatten(1)
    distances = [(image - means).norm(dim=1) for image in images[:50]]
    assert torch.allclose(run.scores[:50], -torch.stack(distances), rtol=1e-4)


@SEVERAL_AXES
@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32], ids="labels in {}".format
)
def test_one_element_per_row__also_with(shape, dtype):
    x = numbered(*shape)
    labels = positions(shape[1], shape[0])

    expected = [row[k] for row, k in zip(x, labels, strict=True)]
    picked = x[torch.arange(shape[0]), labels.to(dtype)]
    assert torch.equal(picked, torch.stack(expected))


@edits(
    ("scores[rows, labels]\n", "scores[:, labels]\n"),
    ("torch.arange(len(scores))", "torch.arange(len(scores)).flip(0)"),
    ("scores[rows, labels]\n", "scores.amax(dim=1)\n"),
)
def test_one_element_per_row__but_not_otherwise(snippet, old, new, fails):
    """A colon picks the columns of all labels from every row."""
    fails(test_one_element_per_row, snippet.edit(old, new))


@pytest.mark.parametrize(
    "dtype", ["float()", "double()", "short()"], ids="labels.{}".format
)
def test_one_element_per_row__ends_for_labels_of_another_type(
    snippet, dtype, fails
):
    """Labels of another type raise an `IndexError`: write `labels.long()`."""
    edited = snippet.edit("(digits.target)", f"(digits.target).{dtype}")
    fails(test_one_element_per_row, edited)


def test_gather_reads_along_dim(snippet):
    run = snippet.after("gather")

    assert run.gathered.shape == run.index.shape == (len(run.labels), 1)
    assert torch.equal(run.gathered[:, 0], run.picked)


@pytest.mark.parametrize(
    ("shape", "of_index"),
    [
        pytest.param((4, 3), (4, 1), id="4 by 3 and an index of 4 by 1"),
        pytest.param((4, 3), (2, 5), id="4 by 3 and an index of 2 by 5"),
        pytest.param((1, 2), (1, 2), id="1 by 2 and an index of 1 by 2"),
        pytest.param((4, 3), (4, 0), id="4 by 3 and an empty index"),
    ],
)
def test_gather_reads_along_dim__also_of(shape, of_index):
    x, index = numbered(*shape), positions(shape[1], *of_index)
    result = x.gather(1, index)

    assert result.shape == index.shape
    for i, j in itertools.product(*map(range, of_index)):
        assert result[i, j] == x[i, index[i, j]]


@MATRICES
def test_gather_reads_along_dim__also_if_the_tensor_is(tensor):
    x = tensor()
    index = torch.arange(x.shape[1]).flip(0).expand(x.shape)

    assert torch.equal(x.gather(1, index), x.flip(1))


@edits(
    ("gather(1, index)", "gather(0, index % 2)"),
    ("gather(1, index)", "gather(1, index.flip(0))"),
    ("gather(1, index)", "gather(1, index)[:, 0]"),
)
def test_gather_reads_along_dim__but_not_otherwise(snippet, old, new, fails):
    """`gather(0, …)` walks down the columns, and reads other rows."""
    fails(test_gather_reads_along_dim, snippet.edit(old, new))


# View or copy

PLAIN = {
    "an integer": 0,
    "a negative integer": -1,
    "a slice": slice(0, 1),
    "a slice with a step": slice(None, None, 2),
    "an empty slice": slice(0, 0),
    "a colon and an integer": (slice(None), 0),
    "...": ...,
    "None": None,
    "an int64 tensor without axes": torch.tensor(0),
}
LISTED = {
    "a list": [0],
    "a list of all rows": [0, 1, 2],
    "an empty list": [],
    "an index tensor": torch.tensor([0]),
    "a mask": torch.ones(3, 4) > 0,
    "a mask of rows": [True, False, True],
    "a list beside a slice": (slice(None), [0, 1]),
    "a list beside an integer": (0, [1]),
    "two index tensors": (torch.tensor([0]), torch.tensor([1])),
}


def test_plain_indexing_gives_a_view(snippet, index=0, make=None):
    run = snippet.after("view-or-copy")
    assert shares(run.sliced, run.board)
    assert run.board[0].tolist() == [1, 1, 1, 1]

    x = make() if make else numbered(3, 4)
    part, before = x[index], x.clone()
    assert shares(part, x)
    with no_error():
        part += 1
    assert (x != before).sum() == part.numel()


@pytest.mark.parametrize("index", PLAIN)
def test_plain_indexing_gives_a_view__also_with(snippet, index):
    test_plain_indexing_gives_a_view(snippet, PLAIN[index])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_plain_indexing_gives_a_view__also_with_two_indices(dtype):
    zero = torch.tensor(0, dtype=getattr(torch, dtype))
    items = [1, -1, slice(None), slice(1, 9, 2), None, zero]
    for one, other in itertools.product([*items, ...], items):
        x = numbered(4, 3, 2)
        part, before = x[one, other], x.clone()
        assert shares(part, x)
        part += 1
        assert (x != before).sum() == part.numel()


@EACH
def test_plain_indexing_gives_a_view__also_if_the_tensor_is(tensor):
    x = tensor()
    for index in PLAIN.values():
        if x.ndim > 1 or not isinstance(index, tuple):
            assert shares(x[index], x)


@edits(
    ("board[0:1]", "board[[0]]"),
    ("board[0:1]", "board[0:1].clone()"),
    ("sliced += 1", "sliced = sliced + 1"),
)
def test_plain_indexing_gives_a_view__but_not_otherwise(
    snippet, old, new, fails
):
    """A list copies the row, so the board stays as it was."""
    fails(test_plain_indexing_gives_a_view, snippet.edit(old, new))


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("index", [True, torch.tensor(1, dtype=torch.uint8)])
def test_plain_indexing_gives_a_view__ends_for_the_index_true(
    snippet, index, fails
):
    """`x[True]` is a mask to torch: it copies, and adds an axis."""
    fails(test_plain_indexing_gives_a_view, snippet, index)


def test_plain_indexing_gives_a_view__ends_for_a_parameter(snippet, fails):
    """Writing into a view of a leaf with `requires_grad` raises an error."""

    def weight():
        return torch.rand(3, 4, requires_grad=True)

    fails(test_plain_indexing_gives_a_view, snippet, 0, weight)


def test_plain_indexing_gives_a_view__ends_for_an_expanded_tensor(
    snippet, fails
):
    """The rows of an expanded tensor share numbers: one write changes all."""

    def expanded():
        return torch.arange(4).expand(3, 4)

    fails(test_plain_indexing_gives_a_view, snippet, 0, expanded)


def test_a_list_or_a_mask_copies(snippet, index=(0,)):
    run = snippet.after("view-or-copy")
    assert not shares(run.listed, run.board)
    assert run.board[2].tolist() == [0, 0, 0, 0]
    assert run.listed.tolist() == [[5, 5, 5, 5]]

    x = numbered(3, 4)
    part, before = x[[*index] if index == (0,) else index], x.clone()
    part += 1
    assert (shares(part, x), x.tolist()) == (False, before.tolist())


@pytest.mark.parametrize("index", LISTED)
def test_a_list_or_a_mask_copies__also_with(snippet, index):
    test_a_list_or_a_mask_copies(snippet, LISTED[index])


@EACH
def test_a_list_or_a_mask_copies__also_if_the_tensor_is(tensor):
    x = tensor()
    for index in ([0], torch.arange(len(x)), torch.ones(x.shape) > 0):
        assert not shares(x[index], x)


@edits(("board[[2]]", "board[2:]"), ("board[[2]]", "board[2][None]"))
def test_a_list_or_a_mask_copies__but_not_a_slice(snippet, old, new, fails):
    """A slice is a view, so the 5 appears on the board."""
    fails(test_a_list_or_a_mask_copies, snippet.edit(old, new))


def test_a_list_or_a_mask_copies__ends_for_a_tensor_without_axes(
    snippet, fails
):
    """An index tensor without axes acts as an integer, and gives a view."""
    fails(test_a_list_or_a_mask_copies, snippet, torch.tensor(1))


# Assign


def test_assignment_reaches_x(snippet, make=None, write="x[[0], [1]] = 7"):
    run = snippet.after("assign")
    expected = run.image.tolist()
    for line in expected:
        line[:] = [ink if ink >= 8 else 0 for ink in line]
        line[0] = line[7] = 1
    for a, b in zip(run.i.tolist(), run.j.tolist(), strict=True):
        expected[a][b] += 50
    assert run.cleaned.tolist() == expected

    x = make() if make else numbered(3, 4)
    array = x.detach().numpy().copy()
    exec(write, {"x": array})
    with no_error():
        exec(write, {"x": x})
    assert x.tolist() == array.tolist()


WRITTEN = {**PLAIN, **LISTED}


@pytest.mark.parametrize("index", WRITTEN)
def test_assignment_reaches_x__also_with(index):
    index, x = WRITTEN[index], numbered(3, 4)
    picked = x[index].flatten().clone()

    x[index] = 77
    assert (x == 77).sum() == len(picked.unique())
    x[index] += 3
    expected = numbered(12)
    expected[picked] = 80
    assert torch.equal(x.flatten(), expected)


def test_assignment_reaches_x__also_for_one_element_per_row(snippet):
    run = untrained(snippet, "margins-checked")
    assert torch.allclose(run.margins, run.expected)
    assert run.right
    old = "others.amax(dim=1)"
    edited = snippet.edit(old, "0")
    assert not untrained(edited, "margins-checked").right
    assert run.scores.isfinite().all()
    rest = zip(run.scores.tolist(), run.labels.tolist(), strict=True)
    best = [max(row[:k] + row[k + 1 :]) for row, k in rest]
    assert torch.equal(run.margins, run.picked - torch.tensor(best))


@WRITABLE
def test_assignment_reaches_x__also_if_the_tensor_is(tensor):
    for index in (0, slice(0, 1), [0], x_mask(tensor())):
        x = tensor()
        x[index] = 0
        assert (x[index] == 0).all()
        assert x.shape == tensor().shape


def x_mask(x):
    """Return a mask that is true at the first element."""
    mask = torch.zeros(x.shape) > 0
    mask.view(-1)[0] = True
    return mask


@edits(
    ("cleaned[cleaned < 8] = 0", "cleaned[cleaned < 8].fill_(0)"),
    ("cleaned[:, [0, -1]] = 1", "cleaned[:, [0, -1]].fill_(1)"),
    ("cleaned[i, j] += 50", "cleaned[i, j].add_(50)"),
    ("cleaned[i, j] += 50", "points = cleaned[i, j]; points += 50"),
)
def test_assignment_reaches_x__but_not_through_a_method(
    snippet, old, new, fails
):
    """A method called on `x[...]` writes into the copy that the
    brackets made.
    """
    fails(test_assignment_reaches_x, snippet.edit(old, new))


@edits(
    ("cleaned[cleaned < 8] = 0", "cleaned[:] = 0"),
    ("cleaned[:, [0, -1]] = 1", "cleaned[:, 0] = 1"),
    ("cleaned[i, j] += 50", "cleaned += 50"),
)
def test_assignment_reaches_x__but_not_elsewhere(snippet, old, new, fails):
    """With a colon in place of the mask, the whole image turns 0."""
    fails(test_assignment_reaches_x, snippet.edit(old, new))


@pytest.mark.parametrize("write", ["x[1:] = x[:-1]", "x[1:] += x[:-1]"])
def test_assignment_reaches_x__ends_if_both_sides_overlap(
    snippet, write, fails
):
    """`x[1:] = x[:-1]` reads what it overwrites, and raises an error."""
    fails(test_assignment_reaches_x, snippet, None, write)


def test_assignment_reaches_x__ends_for_a_parameter(snippet, fails):
    """A leaf that requires gradients raises an error: use `no_grad`."""

    def weight():
        return torch.ones(3, 4, requires_grad=True)

    fails(test_assignment_reaches_x, snippet, weight)


@pytest.mark.filterwarnings("ignore:Use of index_put_ on expanded")
def test_assignment_reaches_x__ends_for_an_expanded_tensor(snippet, fails):
    """The rows of an expanded tensor share numbers: one write changes all."""

    def expanded():
        return torch.arange(4).expand(3, 4)

    fails(test_assignment_reaches_x, snippet, expanded)


# A colon in place of the row numbers


def test_a_colon_picks_for_every_row(snippet):
    with no_error():
        run = snippet.after("colon")

    n = len(run.scores)
    assert run.wrong.shape == (n, n)
    assert torch.equal(run.wrong.diagonal(), run.picked)
    for i, j in ((0, 5), (5, 0), (30, 33), (n - 1, 7)):
        assert run.wrong[i, j] == run.scores[i, run.labels[j]]


@pytest.mark.parametrize("shape", [(4, 3), (1, 5), (7, 2)])
def test_a_colon_picks_for_every_row__also_with(shape):
    x, labels = torch.rand(shape), positions(shape[1], shape[0])

    expected = [[row[k] for k in labels] for row in x.tolist()]
    assert x[:, labels].tolist() == expected


@edits(
    ("scores[:, labels]", "scores[rows, labels]"),
    ("scores[:, labels]", "scores[:, labels].T"),
    ("scores[:, labels]", "scores[:, labels.flip(0)]"),
)
def test_a_colon_picks_for_every_row__but_not_otherwise(
    snippet, old, new, fails
):
    """With the row numbers, there is one score per row."""
    fails(test_a_colon_picks_for_every_row, snippet.edit(old, new))


def test_the_picked_ones_give_the_cross_entropy(snippet):
    run = snippet.after("losses")

    def cross_entropy(logs):
        return functional.cross_entropy(logs, run.own)

    loss, right = run.train(cross_entropy)
    assert math.isclose(run.with_rows[0], loss, rel_tol=1e-3)
    assert math.isclose(run.with_rows[1], right, abs_tol=0.01)


@pytest.mark.parametrize(("count", "classes"), [(4, 3), (1, 5), (64, 1000)])
def test_the_picked_ones_give_the_cross_entropy__also_with(count, classes):
    torch.manual_seed(0)
    scores, labels = torch.randn(count, classes), positions(classes, count)

    log_probs = scores.log_softmax(dim=1)
    loss = -log_probs[torch.arange(count), labels].mean()
    assert torch.allclose(loss, functional.cross_entropy(scores, labels))


@edits(
    ("-log_probs[rows[:200], own].mean()", "-log_probs[:, own].mean()"),
    (
        "-log_probs[rows[:200], own].mean()",
        "-log_probs[rows[:200], own].sum()",
    ),
    ("log_softmax(dim=1)", "log_softmax(dim=0)"),
)
def test_the_picked_ones_give_the_cross_entropy__but_not_otherwise(
    snippet, old, new, fails
):
    """With a colon, the loss averages over the labels of all images."""
    fails(test_the_picked_ones_give_the_cross_entropy, snippet.edit(old, new))


def test_the_wrong_loss_is_silent(snippet):
    with no_error():
        run = snippet.after("losses")

    assert 0.7 < run.with_rows[1] < 0.9
    assert 0.05 < run.with_colon[1] < 0.2
    assert abs(run.with_colon[0] - math.log(10)) < 0.05


@pytest.mark.parametrize("seed", [1])
def test_the_wrong_loss_is_silent__also_from(snippet, seed):
    old = "torch.manual_seed(0)"
    test_the_wrong_loss_is_silent(
        snippet.edit(old, old.replace("0", f"{seed}"))
    )


@edits(
    ("-log_probs[:, own]", "-log_probs[rows[:200], own]"),
    ("-log_probs[:, own]", "-log_probs[rows[:100], own]"),
)
def test_the_wrong_loss_is_silent__but_not_with_row_numbers(
    snippet, old, new, fails
):
    """With the row numbers here too, both models learn."""
    fails(test_the_wrong_loss_is_silent, snippet.edit(old, new))


# Repeated positions

ONCE = "once[labels] += 1"


def test_repeated_places_count_once(snippet):
    run = untrained(snippet, "count-once")

    assert run.once.tolist() == [1.0] * 10
    assert len(run.labels) > 10


@pytest.mark.parametrize(
    "labels", [[0, 2, 1, 2], [2, 2, 2], [0, 1], []], ids=str
)
def test_repeated_places_count_once__also_for(labels):
    once, index = torch.full((3,), 2.0), torch.tensor(labels).long()
    once[index] += 1

    assert once.tolist() == [2 + (k in labels) for k in range(3)]
    same = torch.full((3,), 2.0)
    same[index] = same[index] + 1
    assert torch.equal(once, same)


@edits(
    (ONCE, "once.index_add_(0, labels, torch.ones(len(labels)))"),
    (ONCE, "for label in labels: once[label] += 1"),
    (ONCE, "once[labels[:5]] += 1"),
)
def test_repeated_places_count_once__but_not_otherwise(
    snippet, old, new, fails
):
    """`index_add_` adds 1 for each label, which makes 178 zeros."""
    fails(test_repeated_places_count_once, snippet.edit(old, new))


def test_accumulation_counts_all(
    snippet, dtype=torch.float32, times=1, start=0
):
    run = untrained(snippet, "count-all")
    labels = run.labels.tolist()
    counted = [labels.count(k) for k in range(10)]
    assert run.counts.tolist() == counted

    index = run.labels.repeat(times)
    ones = torch.ones(len(index), dtype=dtype)
    counts = torch.full((10,), start, dtype=dtype).index_add_(0, index, ones)
    assert counts.tolist() == [start + times * count for count in counted]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("labels", [[0, 2, 1, 2], [2, 2, 2, 2], [0, 1, 0, 1]])
def test_accumulation_counts_all__also_for(labels, dtype):
    start, values = numbered(3, 2).to(dtype), 7 + numbered(4, 2).to(dtype)
    expected = start.clone()
    for k, value in zip(labels, values, strict=True):
        expected[k] += value

    index = torch.tensor(labels)
    assert torch.equal(start.index_add_(0, index, values), expected)


@edits(
    ("counts.index_add_(0", "counts.index_copy_(0"),
    ("torch.ones(len(labels))", "torch.ones(len(labels)) / 2"),
)
def test_accumulation_counts_all__but_not_by_a_copy(snippet, old, new, fails):
    """`index_copy_` overwrites, so each class ends at 1."""
    fails(test_accumulation_counts_all, snippet.edit(old, new))


def test_accumulation_counts_all__ends_in_16_bits(snippet, fails):
    """In `float16`, a count stops at 2,048, because 2,049 is rounded down."""
    fails(test_accumulation_counts_all, snippet, torch.float16, 20)


def test_accumulation_counts_all__ends_at_16777216(snippet, fails):
    """In `float32`, a count stops at 16,777,216, for the same reason."""
    many = 16_777_216
    fails(test_accumulation_counts_all, snippet, torch.float32, 1, many)


# Two pairs of brackets


def test_two_brackets_write_into_a_copy(snippet):
    with no_error():
        run = untrained(snippet, "two-brackets")

    assert (run.lost != run.images).sum() == 0
    is_three = run.labels == 3
    expected = run.images.clone()
    for image in expected[is_three].split(1):
        image[:, 0] = 16
    assert (run.kept[is_three, 0] == 16).all()
    assert (run.kept[is_three, 1:] == run.images[is_three, 1:]).all()
    assert (run.kept[~is_three] == run.images[~is_three]).all()


@WRITABLE
def test_two_brackets_write_into_a_copy__also_if_the_tensor_is(tensor):
    for index in ([0], torch.tensor([0])):
        x = tensor()
        x[index][:, 0] = 0
        assert torch.equal(x, tensor())
        x[index, 0] = 0
        assert (x[0, 0] == 0).all()


@edits(
    ("lost[labels == 3][:, 0]", "lost[3:4][:, 0]"),
    ("lost[labels == 3][:, 0]", "lost[3][0]"),
)
def test_two_brackets_write_into_a_copy__but_not_with_a_slice(
    snippet, old, new, fails
):
    """If the first brackets hold a slice, they give a view, so the write gets
    through.
    """
    fails(test_two_brackets_write_into_a_copy, snippet.edit(old, new))


def test_two_brackets_write_into_a_copy__but_not_with_one_pair(snippet, fails):
    """One pair of brackets writes into the images themselves."""
    edited = snippet.edit("lost[labels == 3][:, 0]", "lost[labels == 3, 0]")
    fails(test_two_brackets_write_into_a_copy, edited)


def test_two_brackets_write_into_a_copy__but_not_kept_in_two_pairs(
    snippet, fails
):
    """With two pairs of brackets, the line is missing from `kept` too."""
    edited = snippet.edit("kept[labels == 3, 0]", "kept[labels == 3][:, 0]")
    fails(test_two_brackets_write_into_a_copy, edited)


# A mask of numbers


def test_numbers_are_no_mask(snippet, dtype="long", masked="byte"):
    if dtype != "long":
        snippet = snippet.edit(".long()", f".{dtype}()")
    with no_error():
        run = untrained(snippet, "integer-mask")

    assert len(run.by_numbers) == len(run.images)
    for picked, label in zip(run.by_numbers, run.labels.tolist(), strict=True):
        assert torch.equal(picked, run.images[1 if label == 3 else 0])
    assert torch.equal(run.by_mask, run.threes)
    with pytest.warns(UserWarning, match="dtype torch.uint8 is now depr"):
        by_bytes = run.images[getattr(run.is_three, masked)()]
    assert torch.equal(by_bytes, run.threes)


def test_numbers_are_no_mask__also_in_int32(snippet):
    test_numbers_are_no_mask(snippet, "int")


@pytest.mark.parametrize("numbers", [[1, 0, 1, 1], [0, 0], [1]], ids=str)
def test_numbers_are_no_mask__also_as_a_list(numbers):
    x = numbered(4, 3)

    expected = [x.tolist()[k] for k in numbers]
    assert x[numbers].tolist() == x[torch.tensor(numbers)].tolist() == expected


def test_numbers_are_no_mask__but_not_as_bool(snippet, fails):
    """A mask of `bool` picks the images where it is true."""
    edited = snippet.edit("(labels == 3).long()", "labels == 3")
    fails(test_numbers_are_no_mask, edited)


def test_numbers_are_no_mask__but_not_with_a_mask_of_int32(snippet, fails):
    """`int32` is read as positions too, without a warning."""
    fails(test_numbers_are_no_mask, snippet, "long", "int")


@pytest.mark.parametrize(
    "dtype", ["char", "short", "float"], ids=["int8", "int16", "float32"]
)
def test_numbers_are_no_mask__ends_for(snippet, dtype, fails):
    """A mask of `int8`, `int16` or floating-point numbers raises an
    `IndexError`.
    """
    fails(test_numbers_are_no_mask, snippet, dtype)


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
def test_numbers_are_no_mask__ends_if_a_number_is_assigned(snippet, fails):
    """`x[mask] = 0` with a `uint8` mask raises a `RuntimeError`."""
    old = "by_numbers = images[is_three]"
    new = f"images[is_three.byte()] = 0\n{old}"
    fails(test_numbers_are_no_mask, snippet.edit(old, new))


# Negative steps


def test_no_negative_steps(snippet, way="x[::step]", method="x.flip(0)"):
    run = untrained(snippet, "backwards")
    assert run.said == "step must be greater than zero"
    lines = run.image.tolist()
    assert run.mirrored.tolist() == [line[::-1] for line in lines]
    assert not shares(run.mirrored, run.image)

    for x in (numbered(4, 3), numbered(3, 4).T, numbered(1, 3), numbered(5)):
        flipped = eval(method, {"x": x})
        assert flipped.tolist() == x.tolist()[::-1]
        assert not shares(flipped, x)
        for step in (-1, -2, -7):
            with pytest.raises(ValueError, match="step must be greater"):
                eval(way, {"x": x, "step": step})


@EACH
def test_no_negative_steps__also_if_the_tensor_is(tensor):
    x = tensor()
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[::-1]
    assert torch.equal(x.flip(0), torch.stack(x.unbind(0)[::-1]))


@edits(
    ("image.flip(1)", "image.flip(0)"),
    ("image.flip(1)", "image.roll(1, 1)"),
    ("image.flip(1)", "image"),
)
def test_no_negative_steps__but_not_another_flip(snippet, old, new, fails):
    """`flip(0)` turns the image upside down instead of mirroring it."""
    fails(test_no_negative_steps, snippet.edit(old, new))


@pytest.mark.parametrize("way", ["x[::-step]", "x[step:]"])
def test_no_negative_steps__ends_with_a_positive_step(snippet, way, fails):
    """A positive step raises no error."""
    fails(test_no_negative_steps, snippet, way)


def test_no_negative_steps__but_not_a_view(snippet, fails):
    """`x[:]` in place of `flip` is a view in the old order."""
    fails(test_no_negative_steps, snippet, "x[::step]", "x[:]")
