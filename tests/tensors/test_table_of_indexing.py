"""The claims of docs/tensors/table_of_indexing.md."""

import itertools

import numpy
import pytest
import torch
from torch.nn import functional

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older, true_since
from tests.helpers.worlds import TENSORS, each

EACH = each(
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


def numbered(*shape):
    """Return a tensor whose elements all differ."""
    return torch.arange(torch.Size(shape).numel()).reshape(shape)


def tensors():
    """Yield tensors of four rows and three columns, and perhaps more axes."""
    yield numbered(4, 3).float()
    yield numbered(4, 3)
    yield numbered(3, 4).T
    yield numbered(6, 3)[2:]
    yield numbered(4, 3, 2).double()
    yield numbered(4, 3, 2, 5).bfloat16()
    yield numbered(2, 3, 4).transpose(0, 2)


def text_of(error, call, *inputs):
    """Return the text of the error that a call must raise."""
    with pytest.raises(error) as raised:
        call(*inputs)
    assert raised.type is error
    return str(raised.value)


SEVERAL = pytest.mark.parametrize("shape", [(4, 3), (1, 1), (3, 5, 2)])

# The tables


def test_the_table_tells_views_from_copies(snippet):
    run = snippet.after("indices")
    names = vars(run)
    assert run.row_mask.tolist() == [False, False, True, True]

    assert len(run.integers_and_slices + run.dots_and_none) == 7
    for way in run.integers_and_slices + run.dots_and_none:
        assert (way, run.view_or_copy(eval(way, names))) == (way, "view")
    assert len(run.lists_and_tensors + run.masks) == 8
    for way in run.lists_and_tensors + run.masks:
        assert (way, run.view_or_copy(eval(way, names))) == (way, "copy")


@pytest.mark.parametrize("way", ["x[1:3, ..., None, 0]", "x[0, 1]", "x[:]"])
def test_the_table_tells_views_from_copies__also_with_a_view(snippet, way):
    run = snippet.after("indices")
    assert run.view_or_copy(eval(way, vars(run))) == "view"


@pytest.mark.parametrize("way", ["x[0, [1]]", "x[[]]", "x[..., i - i]"])
def test_the_table_tells_views_from_copies__also_with_a_copy(snippet, way):
    run = snippet.after("indices")
    assert run.view_or_copy(eval(way, vars(run))) == "copy"


@edits(
    ('"x[::2]"]', '"x[[0, 2]]"]'),
    ('["x[[3, 0]]"', '["x[3:]"'),
    ('"x[row_mask, 1:]"]', '"x[2:, 1:]"]'),
)
def test_the_table_tells_views_from_copies__but_not_otherwise(
    snippet, old, new, fails
):
    """A list gives a copy even where a slice would pick the same rows."""
    fails(test_the_table_tells_views_from_copies, snippet.edit(old, new))


def test_methods_pick_what_brackets_pick(snippet, x=None, i=None):
    run = snippet.after("picking")
    names = {**vars(run), "x": run.x if x is None else x}
    names |= {} if i is None else {"i": i}

    for method, brackets in run.picking.items():
        with no_error():
            picked = eval(method, names)
        assert picked.tolist() == eval(brackets, names).tolist(), method


@pytest.mark.parametrize(
    "x",
    [numbered(4, 3), numbered(3, 4).T, numbered(4, 3).bfloat16()],
    ids=["int64", "transposed", "bfloat16"],
)
def test_methods_pick_what_brackets_pick__also_if_the_tensor_is(snippet, x):
    test_methods_pick_what_brackets_pick(snippet, x)


@edits(
    ('"x.select(0, 1)"', '"x.select(1, 1)"'),
    ('"x.narrow(0, 1, 2)"', '"x.narrow(0, 2, 2)"'),
    ('"x.unsqueeze(1)"', '"x.unsqueeze(0)"'),
    ('"x.index_select(0, i)"', '"x.index_select(1, j)"'),
    ('"x.take(columns)"', '"x.take(columns + 1)"'),
    ('"x.flip(0)"', '"x.flip(1)"'),
)
def test_methods_pick_what_brackets_pick__but_not_along_another_axis(
    snippet, old, new, fails
):
    """The first argument is the axis: `select(1, 1)` picks a column."""
    fails(test_methods_pick_what_brackets_pick, snippet.edit(old, new))


@edits(
    ('"x.masked_select(mask)"', '"x.masked_select(~mask)"'),
    ('"x[mask.nonzero(as_tuple=True)]"', '"x[mask.nonzero()]"'),
    ('"x.gather(1, columns[:, None]).squeeze(1)"', '"x.amax(1)"'),
    ("columns[:, None], 1).squeeze(1)", "columns[:, None], 1)"),
)
def test_methods_pick_what_brackets_pick__but_not_otherwise(
    snippet, old, new, fails
):
    """`~mask` is true where `mask` is false, and picks the other elements."""
    fails(test_methods_pick_what_brackets_pick, snippet.edit(old, new))


def test_methods_pick_what_brackets_pick__ends_for_negative_positions(
    snippet, fails
):
    """Brackets take -1; `index_select` and `gather` raise an error."""
    last_two = torch.tensor([-1, -2])
    fails(test_methods_pick_what_brackets_pick, snippet, None, last_two)


def test_methods_write_what_assignments_write(snippet, x=None):
    run = snippet.after("writing")
    x = run.x if x is None else x

    for method, assignment in run.writing.items():
        one, other = x.clone(), x.clone()
        result = eval(method, {**vars(run), "x": one})
        exec(assignment, {**vars(run), "x": other})
        assert result is one
        assert one.tolist() == other.tolist(), method
        assert one.tolist() != x.tolist(), method


@pytest.mark.parametrize(
    "x",
    [-numbered(4, 3).float(), -numbered(3, 4).T.float()],
    ids=["negative numbers", "a transposed tensor"],
)
def test_methods_write_what_assignments_write__also_into(snippet, x):
    test_methods_write_what_assignments_write(snippet, x)


@edits(
    ('"x.index_fill_(0, i, 7)"', '"x.index_fill_(0, i, 8)"'),
    ('"x.index_fill_(0, i, 7)"', '"x.index_fill(0, i, 7)"'),
    ('"x.index_copy_(0, i, two_rows)"', '"x.index_copy_(0, i, -two_rows)"'),
    ('"x.masked_fill_(mask, 7)"', '"x.masked_fill_(~mask, 7)"'),
    ('"x.scatter_(1, columns', '"x.scatter_(1, 0 * columns'),
)
def test_methods_write_what_assignments_write__but_not_otherwise(
    snippet, old, new, fails
):
    """Another value, or a method without `_`, leaves other numbers in `x`."""
    fails(test_methods_write_what_assignments_write, snippet.edit(old, new))


def test_methods_write_what_assignments_write__ends_for_repeated_positions(
    snippet, fails
):
    """`index_add_` adds for each repeat, and `x[i] += …` only once."""
    edited = snippet.edit("torch.tensor([0, 3]), ", "torch.tensor([3, 3]), ")
    fails(test_methods_write_what_assignments_write, edited)


# Ellipsis, None, gather


def test_an_ellipsis_fills_up(snippet):
    run = snippet.after("indices")
    names = {**vars(run), "x": numbered(4, 3, 2)}

    for way in run.dots_and_none[:1]:
        assert eval(way, vars(run)).tolist() == [0, 10, 20, 30]
        assert torch.equal(eval(way, names), names["x"].unbind(2)[0])


@pytest.mark.parametrize("axes", [1, 2, 3, 5], ids="{} axes".format)
def test_an_ellipsis_fills_up__also_with(axes):
    x = numbered(*[2] * axes)

    assert torch.equal(x[..., 0], x.unbind(-1)[0])
    assert torch.equal(x[0, ...], x.unbind(0)[0])
    if axes > 1:
        assert torch.equal(x[1, ..., 0], x.unbind(0)[1].unbind(-1)[0])


@EACH
def test_an_ellipsis_fills_up__also_if_the_tensor_is(tensor):
    x = tensor()
    assert torch.equal(x[..., 0], x.unbind(-1)[0])


@edits(
    ('["x[..., 0]"', '["x[:, 0]"'),
    ('["x[..., 0]"', '["x[0, ...]"'),
)
def test_an_ellipsis_fills_up__but_not_one_colon(snippet, old, new, fails):
    """A colon is a single axis, and the 0 then picks from the second one."""
    fails(test_an_ellipsis_fills_up, snippet.edit(old, new))


def test_none_adds_an_axis(snippet, beside="x[..., None, 0]"):
    run = snippet.after("indices")

    for x in [*tensors(), numbered(3), numbered(0, 3)]:
        with_axis = eval(run.dots_and_none[1], {"x": x})
        assert torch.equal(with_axis, x[:2].unsqueeze(1))
        assert torch.equal(x[:, None], x.unsqueeze(1))
        assert torch.equal(x[None], x.unsqueeze(0))
        assert torch.equal(x[..., None], x.unsqueeze(-1))
        assert torch.equal(x[:, None, None], x.unsqueeze(1).unsqueeze(1))
        assert torch.equal(x[1:3, None], x[1:3].unsqueeze(1))
        if x.ndim > 1:
            expected = x.select(-1, 0).unsqueeze(-1)
            assert torch.equal(eval(beside, {"x": x}), expected)


@EACH
def test_none_adds_an_axis__also_if_the_tensor_is(tensor):
    x = tensor()
    assert torch.equal(x[:, None], x.unsqueeze(1))
    assert torch.equal(x[None, ..., None], x.unsqueeze(0).unsqueeze(-1))


@edits(
    ('"x[:2, None]"]', '"x[None, :2]"]'),
    ('"x[:2, None]"]', '"x[:2, None, None]"]'),
    ('"x[:2, None]"]', '"x[:2]"]'),
)
def test_none_adds_an_axis__but_not_elsewhere(snippet, old, new, fails):
    """`x[None, :2]` adds the axis in front."""
    fails(test_none_adds_an_axis, snippet.edit(old, new))


def test_none_adds_an_axis__ends_between_lists(snippet, fails):
    """Between two lists, the axis of the lists moves to the front."""
    fails(test_none_adds_an_axis, snippet, "x[..., [0], None, [0]]")


def test_one_vector_per_row(snippet):
    run = snippet.after("vectors")

    pairs = zip(run.hidden.tolist(), run.columns.tolist(), strict=True)
    assert run.last_words.tolist() == [words[k] for words, k in pairs]


@pytest.mark.parametrize("shape", [(4, 3, 1), (4, 5, 2, 3), (7, 2, 4)])
def test_one_vector_per_row__also_with(shape):
    x, rows = numbered(*shape), torch.arange(shape[0])
    columns = (rows * 5 + 1) % shape[1]

    expected = [row[k] for row, k in zip(x, columns, strict=True)]
    assert torch.equal(x[rows, columns], torch.stack(expected))


@edits(
    ("hidden[rows, columns]", "hidden[:, columns]"),
    ("hidden[rows, columns]", "hidden[rows, columns][..., :1]"),
    ("hidden[rows, columns]", "hidden[rows, -1]"),
)
def test_one_vector_per_row__but_not_otherwise(snippet, old, new, fails):
    """With a colon, each sequence gives a vector for each of the columns."""
    fails(test_one_vector_per_row, snippet.edit(old, new))


def test_gather_reads_along_rows(snippet):
    run = snippet.after("along-each-axis")

    for i, j in itertools.product(range(2), range(2)):
        k = run.wanted[i, j].item()
        assert run.along_rows[i, j] == 10 * k + j
        assert run.along_columns[i, j] == 10 * i + k
    assert run.along_rows.shape == run.along_columns.shape == (2, 2)


@pytest.mark.parametrize("shape", [(4, 3), (5, 2), (1, 1)])
def test_gather_reads_along_rows__also_with(shape):
    x = numbered(*shape)
    for of_index in (shape, (7, 1), (1, shape[1])):
        index = numbered(*of_index) * 3 % shape[0]
        result = x.gather(0, index)
        assert result.shape == index.shape
        for i, j in itertools.product(*map(range, of_index)):
            assert result[i, j] == x[index[i, j], j]


@edits(
    ("x.gather(0, wanted)", "x.gather(1, wanted)"),
    ("x.gather(0, wanted)", "x.gather(0, wanted.T)"),
    ("x.gather(0, wanted)", "x.gather(0, wanted.flip(0))"),
)
def test_gather_reads_along_rows__but_not_otherwise(snippet, old, new, fails):
    """With `dim=1`, the index says how far to go along the columns."""
    fails(test_gather_reads_along_rows, snippet.edit(old, new))


# Values that are assigned


def test_a_mask_takes_one_value_or_all(snippet):
    run = snippet.after("fill")
    fresh = iter(run.five.tolist())

    for old, new in zip(run.x.tolist(), run.refilled.tolist(), strict=True):
        assert new == [next(fresh) if each > 20 else each for each in old]
    assert list(fresh) == []
    assert run.x[3].tolist() == [30, 31, 32]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 12], ids="{} true".format)
def test_a_mask_takes_one_value_or_all__also_with(count):
    for x in tensors():
        mask = (torch.randperm(x.numel()) < count).reshape(x.shape)
        for one in (3, torch.tensor(3), torch.tensor([3])):
            x = x.clone()
            x[mask] = one
            assert (x[mask] == 3).all()
        expected = x.flatten().tolist()
        for value, place in enumerate(mask.flatten().nonzero().flatten()):
            expected[place] = value
        x[mask] = torch.arange(count).to(x.dtype)
        assert x.flatten().tolist() == expected


@edits(
    ("refilled[mask] = five", "refilled.T[mask.T] = five"),
    ("refilled[mask] = five", "refilled[mask] = five[0]"),
    ("refilled[mask] = five", "refilled[:] = 0; refilled[mask] = five"),
)
def test_a_mask_takes_one_value_or_all__but_not_otherwise(
    snippet, old, new, fails
):
    """A transposed mask is filled column by column."""
    fails(test_a_mask_takes_one_value_or_all, snippet.edit(old, new))


def test_a_mask_takes_no_other_number(snippet):
    run = snippet.after("values")

    said = text_of(RuntimeError, run.values["x[mask] = two"])
    assert said == (
        "shape mismatch: value tensor of shape [2] cannot be"
        " broadcast to indexing result of shape [5]"
    )


@pytest.mark.parametrize("count", [0, 1, 2, 7, 12], ids="{} true".format)
def test_a_mask_takes_no_other_number__also_with(count):
    for x, k in itertools.product(tensors(), {0, 2, 3, 8, 12} - {count}):
        mask = (torch.arange(x.numel()) < count).reshape(x.shape)
        with pytest.raises(RuntimeError, match="shape mismatch"):
            x[mask] = torch.ones(k).to(x.dtype)


@edits(
    ("setitem(x, mask, two)", "setitem(x, mask, five)"),
    ("setitem(x, mask, two)", "setitem(x, mask, two[:1])"),
    ("setitem(x, mask, two)", "setitem(x, mask, 0.0)"),
)
def test_a_mask_takes_no_other_number__but_not_one_or_all(
    snippet, old, new, fails
):
    """Five values fit into five places."""
    fails(test_a_mask_takes_no_other_number, snippet.edit(old, new))


@pytest.mark.parametrize("shape", ["(3,)", "(1, 3)", "(2, 1)"], ids=str)
def test_a_mask_takes_no_other_number__ends_for_a_mask_of_rows(
    snippet, shape, fails
):
    """A mask of rows also takes one row for all of them, or a column."""
    rows = "setitem(x.clone(), x[:, 0] > 15, torch.zeros(" + shape + "))"
    edited = snippet.edit("setitem(x, mask, two)", rows)
    fails(test_a_mask_takes_no_other_number, edited)


# An index out of range

FAR = [-(2**63), -(2**31), 2**31, 2**63 - 1]


def test_positions_must_exist(snippet, ways=("x[k]", "x[[k]]")):
    run = snippet.after("beyond")
    said = text_of(IndexError, run.beyond["x[5]"])
    assert said == "index 5 is out of bounds for dimension 0 with size 4"
    name, shown, *_ = run.outcomes(run.beyond)
    assert (name, shown) == ("x[5]", f"    IndexError: {said}")

    for n, k, way in itertools.product((4, 1), [*range(-6, 6), *FAR], ways):
        for x in (numbered(n), numbered(n, 2).float(), numbered(2, n).T):
            names = {"x": x, "k": k, "torch": torch}
            if -n <= k < n:
                with no_error():
                    eval(way, names)
            else:
                text_of(IndexError, eval, way, names)


@edits(("lambda: x[5]", "lambda: x[3]"), ("lambda: x[5]", "lambda: x[-4]"))
def test_positions_must_exist__but_not_if_they_do(snippet, old, new, fails):
    """For four rows, 3 is the last one and -4 is the first."""
    fails(test_positions_must_exist, snippet.edit(old, new))


@pytest.mark.parametrize("way", ["x[k:]", "x[k : k + 1]"])
def test_positions_must_exist__ends_for_slices(snippet, way, fails):
    """A slice beyond the end is empty, and raises no error."""
    fails(test_positions_must_exist, snippet, [way])


def test_positions_must_exist__ends_for_index_select(snippet, fails):
    """`index_select` takes no negative position."""
    way = "x.index_select(0, torch.tensor([k]))"
    fails(test_positions_must_exist, snippet, [way])


def test_positions_must_exist__ends_for_an_empty_tensor(snippet, fails):
    """For a tensor without elements, a list may name any position."""
    fails(test_positions_must_exist, snippet, ["x[None][:0][:, [k]]"])


COUNTED = {  # by the index, what the text says of dimension and size
    "x[[9]]": (0, 4),
    "x[:, [0, 9]]": (0, 3),
    "x[..., [9]]": (0, 2),
    "x[:, 0, torch.tensor([9])]": (0, 2),
    "x[[0], [9]]": (1, 3),
    "x[:, torch.tensor([0]), [-9]]": (1, 2),
    "x[[0], :, [[1], [9]]]": (1, 2),
    "x[torch.tensor([9]), :, [0]]": (0, 4),
}


def test_the_text_counts_lists(snippet, others=()):
    run = snippet.after("beyond")
    said = text_of(IndexError, run.beyond["x[:, [0, 5]]"])
    assert said == "index 5 is out of bounds for dimension 0 with size 3"

    for way, (dim, size) in {**COUNTED, **dict(others)}.items():
        x = torch.zeros(4, 3, 2)
        said = text_of(IndexError, eval, way, {"x": x, "torch": torch})
        assert said.endswith(f"for dimension {dim} with size {size}")


@edits(
    ("lambda: x[:, [0, 5]]", "lambda: x[:, 5]"),
    ("lambda: x[:, [0, 5]]", "lambda: x[[0], [5]]"),
)
def test_the_text_counts_lists__but_not_of_another_index(
    snippet, old, new, fails
):
    """For an integer, the text counts axes, and says dimension 1."""
    fails(test_the_text_counts_lists, snippet.edit(old, new))


@pytest.mark.parametrize("way", ["x[:, 9]", "x[[0], :, 9]"])
def test_the_text_counts_lists__ends_for_integers(snippet, way, fails):
    """An integer counts axes: `x[:, 9]` says dimension 1."""
    fails(test_the_text_counts_lists, snippet, [(way, (0, 3))])


def test_the_text_counts_lists__ends_beside_a_mask(snippet, fails):
    """A mask counts as one list for each of its axes."""
    way = "x[torch.ones(4, 3) > 0, [9] * 12]"
    fails(test_the_text_counts_lists, snippet, [(way, (1, 2))])


def test_embedding_names_no_index(
    snippet, way="functional.embedding(index, x)", wrong=4
):
    run = snippet.after("beyond")
    said = "index out of range in self"
    assert text_of(IndexError, run.beyond["embedding"]) == said

    tables = [
        numbered(4, 3).float(),
        numbered(4, 1).double(),
        numbered(2, 4).T,
    ]
    for x, k in itertools.product(tables, (wrong, -1, -4, 100)):
        for index in ([k], [0, k, 1], [[1, 2], [k, 0]]):
            names = {"x": x, "index": torch.tensor(index)}
            names["functional"] = functional
            assert text_of(IndexError, eval, way, names) == said


@edits(("embedding(columns + 4,", "embedding(columns + 1,"))
def test_embedding_names_no_index__but_not_those_that_fit(
    snippet, old, new, fails
):
    """Indices from 1 to 3 fit into four rows."""
    fails(test_embedding_names_no_index, snippet.edit(old, new))


@pytest.mark.parametrize("way", ["x[index]", "x.take(index)"])
def test_embedding_names_no_index__ends_for_others(snippet, way, fails):
    """With brackets and `take`, the error names the index and the size."""
    fails(test_embedding_names_no_index, snippet, way)


def test_embedding_names_no_index__ends_for_the_last_row(snippet, fails):
    """Index 3 names the last of four rows, and raises no error."""
    way = "functional.embedding(index, x)"
    fails(test_embedding_names_no_index, snippet, way, 3)


def test_cross_entropy_names_the_label(snippet, ignored=-100):
    run = snippet.after("beyond")
    said = text_of(IndexError, run.beyond["cross_entropy"])
    assert said == "Target 3 is out of bounds."

    for classes, label in ((1, 1), (1, 12), (3, 3), (3, 12), (10, -1)):
        labels = torch.tensor([0, label])
        inputs = (torch.rand(2, classes), labels)
        images = (torch.rand(2, classes, 2, 2), labels.expand(2, 2, 2))
        for scores, targets in (inputs, images):
            with pytest.raises(IndexError) as raised:
                functional.cross_entropy(scores, targets, ignore_index=ignored)
            assert str(raised.value) == f"Target {label} is out of bounds."


@edits(
    ("cross_entropy(x, columns + 1)", "cross_entropy(x, columns)"),
    (
        "cross_entropy(x, columns + 1)",
        "cross_entropy(torch.ones(4, 4), columns + 1)",
    ),
)
def test_cross_entropy_names_the_label__but_not_those_that_fit(
    snippet, old, new, fails
):
    """Counted from 0, the labels are below the number of classes."""
    fails(test_cross_entropy_names_the_label, snippet.edit(old, new))


def test_cross_entropy_names_the_label__ends_for_the_ignored_one(
    snippet, fails
):
    """The label that `ignore_index` names may be any number."""
    fails(test_cross_entropy_names_the_label, snippet, 12)


def test_minus_one_picks_the_last_column(snippet):
    run = snippet.after("wraps")
    with no_error():
        picked = run.wraps["x[rows, unknown]"]()

    pairs = zip(run.x.tolist(), run.unknown.tolist(), strict=True)
    expected = [row[2] if k == -1 else row[k] for row, k in pairs]
    assert picked.tolist() == expected


@SEVERAL
def test_minus_one_picks_the_last_column__also_with(shape):
    x, labels = numbered(*shape), torch.full(shape[:1], -1)
    assert torch.equal(x[torch.arange(len(x)), labels], x.unbind(1)[-1])


@edits(
    ("lambda: x[rows, unknown]", "lambda: x.gather(1, unknown[:, None])"),
    ("lambda: x[rows, unknown]", "lambda: x[rows, unknown.clamp(min=0)]"),
)
def test_minus_one_picks_the_last_column__but_not_gather(
    snippet, old, new, fails
):
    """`gather` raises an error for a label of -1."""
    fails(test_minus_one_picks_the_last_column, snippet.edit(old, new))


def test_minus_one_picks_the_last_column__ends_for_other_numbers(
    snippet, fails
):
    """A label of -100 is out of range, and raises an `IndexError`."""
    edited = snippet.edit("[0, -1, 1, -1]", "[0, -100, 1, -1]")
    fails(test_minus_one_picks_the_last_column, edited)


def test_gather_refuses_what_is_outside(snippet, way="x.gather(1, index)"):
    run = snippet.after("wraps")
    said = text_of(RuntimeError, run.wraps["gather"])
    assert said == "index 3 is out of bounds for dimension 1 with size 3"

    for x in tensors():
        shape = [4, 2] + [1] * (x.ndim - 2)
        for k in (-1, -3, -9, 3, 7):
            index = torch.zeros(shape, dtype=torch.long)
            index[-1, 1] = k
            text_of(RuntimeError, eval, way, {"x": x, "index": index})
        index[-1, 1] = 2
        with no_error():
            eval(way, {"x": x, "index": index})


@edits(
    ("x.gather(1, late)", "x.gather(1, late - 1)"),
    ("x.gather(1, late)", "x.gather(1, late.clamp(max=2))"),
    ("x.gather(1, late)", "x.gather(1, late.fmod(3))"),
)
def test_gather_refuses_what_is_outside__but_not_those_that_fit(
    snippet, old, new, fails
):
    """Counted from 0, each label is below 3, and there is no error."""
    fails(test_gather_refuses_what_is_outside, snippet.edit(old, new))


OTHER_WAYS = [
    "x.gather(1, index.where(index >= 0, 0))",
    "x.gather(1, index.where(index < 3, 0))",
]
if not older(torch.__version__, "2.12"):
    OTHER_WAYS.append("x.take_along_dim(index, dim=1)")


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_gather_refuses_what_is_outside__ends_by_another_way(
    snippet, way, fails
):
    """If you replace each negative index by 0, you get no error for them."""
    fails(test_gather_refuses_what_is_outside, snippet, way)


@true_since("2.12", "it refused the index, as `gather` does")
def test_take_along_dim_wraps_around(snippet):
    run = snippet.after("wraps")
    with no_error():
        wrapped = run.wraps["take_along_dim"]()

    columns = (run.columns + 1) % 3
    assert torch.equal(wrapped, run.x[run.rows, columns][:, None])
    for n in (1, 2, 5):
        x = torch.rand(4, n)
        for k in range(n, 3 * n + 2):
            taken = x.take_along_dim(torch.full((4, 1), k), dim=1)
            assert torch.equal(taken, x[:, [k % n]])
            taken = x.T.take_along_dim(torch.full((1, 4), k), dim=0)
            assert torch.equal(taken, x.T[[k % n]])


@edits(
    ("take_along_dim(late, dim=1)", "gather(1, late)"),
    ("take_along_dim(late, dim=1)", "gather(1, late.clamp(max=2))"),
    ("take_along_dim(late, dim=1)", "take_along_dim(late - 1, dim=1)"),
)
def test_take_along_dim_wraps_around__but_not_gather(snippet, old, new, fails):
    """`gather` raises an error for the same index."""
    fails(test_take_along_dim_wraps_around, snippet.edit(old, new))


# Shapes

TOO_MANY = ["x[0, 0, 0]", "x[:, :, :]", "x[[0], [0], [0]]", "x[..., 0, 0, :]"]
TOO_MANY += ["x[None, 0, [0], 0]", "x[torch.tensor([0]), 0, :]"]


def test_at_most_one_index_per_axis(snippet, others=()):
    run = snippet.after("unfit")
    said = text_of(IndexError, run.unfit["x[:, :, 0]"])
    assert said == "too many indices for tensor of dimension 2"

    for way in [*TOO_MANY, *others]:
        for x in (numbered(4, 3), numbered(5)):
            names = {"x": x, "torch": torch}
            said = text_of(IndexError, eval, way, names)
            assert said == f"too many indices for tensor of dimension {x.ndim}"


@edits(("lambda: x[:, :, 0]", "lambda: x[:, 0]"))
def test_at_most_one_index_per_axis__but_not_two(snippet, old, new, fails):
    """Two indices fit two axes."""
    fails(test_at_most_one_index_per_axis, snippet.edit(old, new))


@pytest.mark.parametrize("way", ["x[None, None, 0]", "x[..., None, 0]"])
def test_at_most_one_index_per_axis__ends_for_none_and_dots(
    snippet, way, fails
):
    """`None` and `...` do not count."""
    fails(test_at_most_one_index_per_axis, snippet, [way])


def test_a_mask_must_fit(snippet, ways=()):
    run = snippet.after("unfit")
    said = text_of(IndexError, run.unfit["x[mask[:3]]"])
    assert said.startswith("The shape of the mask [3, 3] at index 0 does not")

    ways = ["x[m(3)]", "x[m(5)]", "x[m(4, 1)]", "x[m(1, 3)]", *ways]
    ways += ["x[m(3, 4)]", "x[m(1)]", "x[:, m(2)]", "x[:, m(1)]", "x[:, m(4)]"]
    assign = [f"{way} = {value}" for way in ways for value in "0v"]
    for way in ways + assign:
        names = {"x": run.x, "m": lambda *shape: torch.ones(shape) > 0}
        names["v"] = torch.ones(4, 1)
        said = text_of(IndexError, exec, way, names)
        assert said.startswith("The shape of the mask [")


@edits(("lambda: x[mask[:3]]", "lambda: x[mask]"))
def test_a_mask_must_fit__but_not_a_whole_one(snippet, old, new, fails):
    """The whole mask has the shape of `x`."""
    fails(test_a_mask_must_fit, snippet.edit(old, new))


@pytest.mark.parametrize(
    "way", ["x.masked_select(m(4, 1))", "x.masked_fill(m(3), 0)"]
)
def test_a_mask_must_fit__ends_for_methods(snippet, way, fails):
    """`masked_select` and `masked_fill` broadcast the mask."""
    fails(test_a_mask_must_fit, snippet, [way])


def test_index_tensors_must_broadcast(snippet):
    run = snippet.after("unfit")
    said = text_of(IndexError, run.unfit["x[rows, columns[:3]]"])
    assert said == (
        "shape mismatch: indexing tensors could not be"
        " broadcast together with shapes [4], [3]"
    )
    for one, other in itertools.product(
        [(4,), (3,), (2, 3), (4, 1), (1,)], repeat=2
    ):
        i = torch.zeros(one, dtype=torch.long)
        j = torch.zeros(other, dtype=torch.long)
        try:
            shape = numpy.broadcast_shapes(one, other)
        except ValueError:
            text_of(IndexError, run.x.__getitem__, (i, j))
        else:
            assert run.x[i, j].shape == shape


@edits(
    ("lambda: x[rows, columns[:3]]", "lambda: x[rows, columns]"),
    ("lambda: x[rows, columns[:3]]", "lambda: x[rows, columns[:1]]"),
    ("lambda: x[rows, columns[:3]]", "lambda: x[rows, columns[:3, None]]"),
)
def test_index_tensors_must_broadcast__but_not_if_they_do(
    snippet, old, new, fails
):
    """Four rows and four columns are read in pairs."""
    fails(test_index_tensors_must_broadcast, snippet.edit(old, new))


def test_gather_needs_as_many_axes(
    snippet, way="x.gather(1, index)", made=tensors
):
    run = snippet.after("unfit")
    said = text_of(RuntimeError, run.unfit["x.gather(1, columns)"])
    assert said == (
        "Index tensor must have the same number of dimensions as input tensor"
    )
    for x in made():
        for axes in range(x.ndim):
            names = {"x": x, "index": torch.zeros([4] * axes).long()}
            text_of(RuntimeError, eval, way, names)


@edits(
    ("lambda: x.gather(1, columns)", "lambda: x.gather(1, columns[:, None])"),
    ("lambda: x.gather(1, columns)", "lambda: x.index_select(1, columns)"),
)
def test_gather_needs_as_many_axes__but_not_otherwise(
    snippet, old, new, fails
):
    """As a column, the index has two axes, as many as `x`."""
    fails(test_gather_needs_as_many_axes, snippet.edit(old, new))


def test_gather_needs_as_many_axes__ends_for_an_empty_index(snippet, fails):
    """An index without elements may have any number of axes."""
    way = "x.gather(1, index.flatten()[:0])"
    fails(test_gather_needs_as_many_axes, snippet, way)


def test_gather_needs_as_many_axes__ends_for_a_vector(snippet, fails):
    """A vector takes an index without axes, and gives a single number."""

    def vectors():
        yield numbered(4)

    fails(
        test_gather_needs_as_many_axes, snippet, "x.gather(0, index)", vectors
    )


def test_gather_needs_as_many_axes__ends_for_index_select(snippet, fails):
    """`index_select` takes an index with one axis, whatever `x` has."""
    fails(test_gather_needs_as_many_axes, snippet, "x.index_select(1, index)")


# Values that do not fit


def test_a_list_cannot_be_assigned(snippet, values="[1, 2]"):
    run = snippet.after("values")
    said = text_of(TypeError, run.values["x[mask] = [1, 2, 3, 4, 5]"])
    assert said == "can't assign a list to a torch.FloatTensor"

    ways = run.integers_and_slices + run.dots_and_none + run.masks
    for name in ["x[0, 0]", "x[...]", *ways, *run.lists_and_tensors]:
        for text in ("[1, 2, 3]", "[5.0]", values):
            names = {**vars(run), "x": run.x.clone()}
            text_of(TypeError, exec, f"{name} = {text}", names)


@edits(("[1, 2, 3, 4, 5])", "torch.ones(5))"))
def test_a_list_cannot_be_assigned__but_a_tensor_can(snippet, old, new, fails):
    """The same five numbers in a tensor are assigned."""
    fails(test_a_list_cannot_be_assigned, snippet.edit(old, new))


def test_a_list_cannot_be_assigned__ends_for_a_number(snippet, fails):
    """You can assign a single number: all places get it."""
    fails(test_a_list_cannot_be_assigned, snippet, "1")


DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.bool]


def test_values_need_the_dtype(snippet, extra=()):
    run = snippet.after("values")
    said = text_of(RuntimeError, run.values["x[mask] = torch.arange(5)"])
    assert said == (
        "Index put requires the source and destination dtypes match,"
        " got Float for the destination and Long for the source."
    )
    masks, lists = ["x[mask]", "x[row_mask]"], ["x[[3, 0]]", "x[i, i % 2]"]
    for mine, dtype in itertools.permutations(DTYPES, 2):
        names = {**vars(run), "x": run.x.to(mine)}
        cases = [(left, eval(left, names)) for left in masks + lists]
        cases += [(left, torch.ones(n)) for left in lists for n in ((), 1)]
        cases += [(left, torch.ones(3)) for left in extra]
        for left, given in cases:
            names["given"] = given.to(dtype)
            said = text_of(RuntimeError, exec, f"{left} = given", names)
            assert said.startswith("Index put requires")


@edits(("torch.arange(5))", "torch.arange(5.0))"))
def test_values_need_the_dtype__but_not_if_they_have_it(
    snippet, old, new, fails
):
    """`arange(5.0)` has the `float32` of `x`."""
    fails(test_values_need_the_dtype, snippet.edit(old, new))


@edits(("torch.arange(5))", "torch.arange(1))"))
def test_values_need_the_dtype__ends_for_a_single_value_through_a_mask(
    snippet, old, new, fails
):
    """Through a mask, a single value is converted."""
    fails(test_values_need_the_dtype, snippet.edit(old, new))


def test_values_need_the_dtype__ends_for_slices(snippet, fails):
    """Through a slice, values are converted."""
    fails(test_values_need_the_dtype, snippet, ["x[1:3]"])


def test_a_slice_converts_values(snippet, take="x[0:2]"):
    """No cell decides it: assignment itself converts."""
    run = snippet.after("x")

    for mine, dtype in itertools.permutations(DTYPES, 2):
        for left in ("x[1:]", "x[:, ::1]", "x[0]", "x[..., 0:3]", take):
            names = {"x": run.x.to(mine), "given": torch.ones(3).to(dtype)}
            with no_error():
                exec(f"{left} = given", names)
            assert names["x"].dtype == mine
            assert (eval(left, names) == 1).all()


@pytest.mark.parametrize(
    "numbers", [[0.9, -1.9, 3.5], [2.0**24 + 1] * 3], ids=str
)
def test_a_slice_converts_values__also_if_they_are_rounded(numbers):
    x, given = torch.zeros(2, 3), torch.tensor(numbers).double()
    x[0:1] = given
    whole = torch.zeros(2, 3, dtype=torch.int64)
    whole[0:1] = given

    assert torch.equal(x[0], given.float())
    assert torch.equal(whole[0], given.long())


@pytest.mark.parametrize("take", ["x[[0, 1]]", "x[x > -1]"])
def test_a_slice_converts_values__ends_for_a_list(snippet, take, fails):
    """Through a list or a mask, you can assign only values of the dtype of
    `x`.
    """
    fails(test_a_slice_converts_values, snippet, take)


# Types

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def test_floats_are_no_index(snippet, fit=()):
    run = snippet.after("types")
    fit_in = "int64" if older(torch.__version__, "2.8") else "int32/int64"
    texts = [text_of(IndexError, run.types["x[1.0]"])]
    texts.append(text_of(IndexError, run.types["x[columns.float()]"]))
    texts.append(text_of(RuntimeError, run.types["gather"]))
    assert texts == [
        "only integers, slices (`:`), ellipsis (`...`), None"
        " and long or byte Variables are valid indices (got float)",
        "tensors used as indices must be long, int, byte or bool tensors",
        f"gather(): Expected dtype {fit_in} for index",
    ]
    shapes = [(), (1,), (4,), (4, 1)]
    indices = [torch.zeros(s, dtype=d) for s in shapes for d in FLOATS]
    for index in (1.0, 0.5, -1.0, *indices, *fit):
        text_of(IndexError, run.x.__getitem__, index)
    for index in indices:
        text_of(RuntimeError, run.x.gather, 1, index.reshape(-1, 1))


@edits(
    ("lambda: x[columns.float()]", "lambda: x[columns]"),
    ("lambda: x[1.0]", "lambda: x[1]"),
    ("columns.float()[:, None]", "columns[:, None]"),
)
def test_floats_are_no_index__but_not_integers(snippet, old, new, fails):
    """Integers are valid positions."""
    fails(test_floats_are_no_index, snippet.edit(old, new))


@pytest.mark.parametrize("fit", [[1], [torch.tensor(1)]])
def test_floats_are_no_index__ends_for_those_that_fit(snippet, fit, fails):
    """The integer 1 is a valid index."""
    fails(test_floats_are_no_index, snippet, fit)


def test_floats_are_no_index__ends_for_a_list_of_floats(snippet, fails):
    """In a list, each number is cut to an integer, without an error."""
    fails(test_floats_are_no_index, snippet, [[1.0]])


def test_float_lists_are_cut(snippet):
    run = snippet.after("types")
    with no_error():
        cut = run.types["x[[0.9, 1.9]]"]()
    assert torch.equal(cut, run.x[:2])


@pytest.mark.parametrize("numbers", [[0.5], [2.999, 1.0], [-0.9, -1.5]])
def test_float_lists_are_cut__also_with(numbers):
    x = numbered(4, 3)
    expected = [x.tolist()[int(each)] for each in numbers]
    assert x[numbers].tolist() == expected


@edits(
    ("lambda: x[[0.9, 1.9]]", "lambda: x[[1, 2]]"),
    ("lambda: x[[0.9, 1.9]]", "lambda: x[torch.tensor([0.9, 1.9])]"),
)
def test_float_lists_are_cut__but_not_rounded(snippet, old, new, fails):
    """If they were rounded, 0.9 and 1.9 would pick rows 1 and 2."""
    fails(test_float_lists_are_cut, snippet.edit(old, new))


def test_conditions_are_no_single_truth(snippet):
    run = snippet.after("types")
    said = text_of(RuntimeError, run.types["x[not mask]"])
    assert said == (
        "Boolean value of Tensor with more than one value is ambiguous"
    )


@pytest.mark.parametrize("code", ["m and m", "m or m", "not m", "0 < m < 3"])
def test_conditions_are_no_single_truth__also_in(code):
    for m in (torch.ones(2) > 0, numbered(4, 3) > 5):
        text_of(RuntimeError, eval, code, {"m": m})


@edits(
    ("lambda: x[not mask]", "lambda: x[~mask]"),
    ("lambda: x[not mask]", "lambda: x[mask.logical_not()]"),
)
def test_conditions_are_no_single_truth__but_not_with_signs(
    snippet, old, new, fails
):
    """`~` negates the mask element by element."""
    fails(test_conditions_are_no_single_truth, snippet.edit(old, new))


def test_conditions_are_no_single_truth__ends_for_one_element(snippet, fails):
    """A tensor with one element is true or false by itself."""
    edited = snippet.edit("lambda: x[not mask]", "lambda: x[not mask[:1, :1]]")
    fails(test_conditions_are_no_single_truth, edited)


# NumPy


def orders():
    """Yield indices for four axes with an integer and a list apart."""
    fill = [slice(None), slice(1, 3), None, ...]
    for two in itertools.product(fill, fill):
        if two == (..., ...):
            continue
        for order in set(itertools.permutations([0, 1, 2, 3])):
            index = [([1, 0], 1, *two)[k] for k in order]
            gap = abs(order.index(0) - order.index(1))
            yield index, gap > 1
        yield [1, *two, [0, 1]], True


def torch_and_numpy(index):
    """Return what torch is said to give, and NumPy, for four axes."""
    x = numbered(2, 3, 4, 5)
    used = sum(
        each not in (None, ...)
        for each in index
        if not isinstance(each, (list, slice))
    )
    used += sum(isinstance(each, (list, slice)) for each in index)
    full = []
    for part in index:
        full += [slice(None)] * (4 - used) if part is ... else [part]
    where = next(k for k, e in enumerate(full) if type(e) is int)
    axis = sum(e is not None for e in full[:where])
    rest = full[:where] + full[where + 1 :]
    place = next(k for k, e in enumerate(rest) if type(e) is list)
    in_place = x.select(axis, full[where])[tuple(rest)]
    return in_place, in_place.movedim(place, 0)


def test_an_integer_and_a_list_apart_differ_from_numpy(snippet, extra=()):
    run = snippet.after("apart")
    assert torch.equal(run.in_torch, run.x[:, [1, 2]])
    assert numpy.array_equal(run.in_numpy, run.x[:, [1, 2]].T)

    x, seen = numbered(2, 3, 4, 5), 0
    for index, apart in [*orders(), *extra]:
        if apart:
            in_place, in_front = torch_and_numpy(index)
            assert torch.equal(x[tuple(index)], in_place)
            assert numpy.array_equal(x.numpy()[tuple(index)], in_front)
            seen += not torch.equal(in_place, in_front)
    assert seen > 20


def test_an_integer_and_a_list_apart_differ_from_numpy__ends_if_adjacent(
    snippet, fails
):
    """If the two are side by side, NumPy leaves the axis of the list in its
    place too.
    """
    other = ([slice(None), 1, [0, 1]], True)
    fails(test_an_integer_and_a_list_apart_differ_from_numpy, snippet, [other])


@edits(
    ("both[0, :, [1, 2]]", "both[[0], :, [1, 2]]"),
    ("both[0, :, [1, 2]]", "both[0][:, [1, 2]].T"),
    ("numpy()[0, :, [1, 2]]", "numpy()[0][:, [1, 2]]"),
    ("numpy()[0, :, [1, 2]]", "numpy()[1, :, [1, 2]]"),
)
def test_an_integer_and_a_list_apart_differ_from_numpy__but_not_otherwise(
    snippet, old, new, fails
):
    """With `[0]`, a list, in place of 0, torch moves the axis to the front."""
    edited = snippet.edit(old, new)
    fails(test_an_integer_and_a_list_apart_differ_from_numpy, edited)
