"""The claims of docs/tensors/indexing.md."""

import itertools

import numpy
import pytest
import torch
from torch.nn import functional

from extensions.evidence.counterexamples import no_error
from extensions.evidence.versions import older, true_since

SCORES = """torch.tensor(
    [[2.0, 0.5, 1.0], [0.1, 0.3, 3.0], [2.5, 1.5, 0.2], [0.4, 0.6, 1.2]]
)"""
LABELS = "torch.tensor([0, 2, 1, 2])"
OTHERS = [
    ("torch.rand(7, 5)", "torch.tensor([4, 0, 0, 3, 1, 2, 4])"),
    ("torch.rand(1, 2).double()", "torch.tensor([1])"),
    ("torch.rand(3, 4).bfloat16()", "torch.tensor([3, 3, 3])"),
    ("torch.arange(6).reshape(6, 1)", "torch.zeros(6, dtype=torch.long)"),
    ("torch.rand(3, 5).T", "torch.tensor([0, 1, 2, 0, 1])"),
]
INDICES = {
    "plain": [
        "x[1]",
        "x[1:2]",
        "x[:, -1]",
        "x[::2]",
        "x[..., 0]",
        "x[:, None]",
    ],
    "listed": [
        "x[[3, 0]]",
        "x[:, [2, 0]]",
        "x[i, j]",
        "x[i[:, None], j]",
        "x[scores > 1]",
        "x[scores[:, 0] > 1]",
    ],
}
ALL = INDICES["plain"] + INDICES["listed"]


def with_others(snippet, other):
    """Return the snippet with other scores and labels."""
    scores, labels = other
    return snippet.edit(SCORES, scores).edit(LABELS, labels)


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


def picks(snippet):
    """Return the run, and its twelve indices by name."""
    run = snippet.after("kinds")
    assert [*run.plain, *run.listed] == ALL
    return run, run.plain | run.listed


def lambda_of(name, new):
    """Return the edit that puts another index where one of the twelve is."""
    return f": lambda x: {name},", f": lambda x: {new},"


# Do this


@pytest.mark.parametrize("other", [(SCORES, LABELS), *OTHERS])
def test_one_element_per_row(snippet, other):
    with no_error():
        run = with_others(snippet, other).after("do-this")

    pairs = zip(run.scores.tolist(), run.labels.tolist(), strict=True)
    expected = [row[label] for row, label in pairs]
    assert run.picked.tolist() == expected
    assert run.gathered.tolist() == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scores[rows, labels]", "scores[:, labels]"),
        ("arange(len(scores))\np", "arange(len(scores)).flip(0)\np"),
        (
            "scores.gather(1, labels[:, None])",
            "scores.gather(0, labels[None])",
        ),
        (
            "gather(1, labels[:, None]).squeeze(1)",
            "gather(1, labels[:, None])",
        ),
        ("scores[rows, labels]\ng", "scores.amax(1)\ng"),
        ("scores.gather(1, labels[:, None]).squeeze(1)", "scores.amax(1)"),
    ],
)
def test_one_element_per_row__but_not_otherwise(snippet, old, new, fails):
    fails(test_one_element_per_row, snippet.edit(old, new), (SCORES, LABELS))


def test_one_vector_per_row(snippet, way="x[rows, labels]"):
    run = snippet.after("do-this")

    for shape in ((4, 3, 2), (4, 3, 1), (4, 5, 2, 3), (7, 2, 4)):
        x = numbered(*shape)
        names = {"x": x, "rows": run.rows, "labels": run.labels}
        if shape[0] != 4:
            names["rows"] = torch.arange(shape[0])
            names["labels"] = torch.randint(shape[1], shape[:1])
        result = eval(way, names)
        expected = [row[k] for row, k in zip(x, names["labels"], strict=True)]
        assert torch.equal(result, torch.stack(expected))


@pytest.mark.parametrize("way", ["x[:, labels]", "x[rows, labels][..., :1]"])
def test_one_vector_per_row__but_not(snippet, way, fails):
    fails(test_one_vector_per_row, snippet, way)


# How it works


def test_gather_reads_along_dim(snippet, way="x.gather(dim, index)"):
    run = snippet.after("sources")
    own = [[3 * i + k] for i, k in enumerate(run.labels.tolist())]
    assert run.sources.tolist() == own

    for rows, columns, shape in [
        (4, 3, (4, 1)),
        (4, 3, (2, 3)),
        (2, 5, (2, 4)),
    ]:
        x = numbered(rows, columns)
        index = torch.randint(columns, shape)
        index[0, 0], index[-1, 0] = 0, 1
        result = eval(way, {"x": x, "dim": 1, "index": index})
        assert result.shape == index.shape
        for i, j in itertools.product(*map(range, shape)):
            assert result[i, j] == x[i, index[i, j]]
        x, index = x.T, index.T
        result = eval(way, {"x": x, "dim": 0, "index": index})
        assert result.shape == index.shape
        for i, j in itertools.product(*map(range, index.shape)):
            assert result[i, j] == x[index[i, j], j]


@pytest.mark.parametrize(
    "way",
    [
        "x.gather(dim, index.flip(0) if dim else index)",
        "x.gather(dim, index if dim else index.flip(1))",
        "x.gather(dim, index)[:, :1]",
    ],
)
def test_gather_reads_along_dim__but_not_from_others_or_cut(
    snippet, way, fails
):
    fails(test_gather_reads_along_dim, snippet, way)


def test_gather_reads_along_dim__but_not_with_another_index(snippet, fails):
    edited = snippet.edit(
        "cells.gather(1, labels[:, None])",
        "cells.gather(1, rows[:, None] // 2)",
    )
    fails(test_gather_reads_along_dim, edited)


def test_an_integer_takes_its_axis_away(snippet, way="x[k]"):
    run = snippet.after("plain")

    for x in tensors():
        values = x.tolist()
        assert run.plain["x[1]"](x).tolist() == values[1]
        last = run.plain["x[:, -1]"](x)
        assert last.tolist() == [row[-1] for row in values]
        for k in range(-len(x), len(x)):
            one = eval(way, {"x": x, "k": k})
            assert one.tolist() == values[k]
            assert one.ndim == x.ndim - 1


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("x[1]", "x[[1]]"),
        ("x[1]", "x[2]"),
        ("x[:, -1]", "x[:, 1]"),
        ("x[:, -1]", "x[:, -1:]"),
    ],
)
def test_an_integer_takes_its_axis_away__but_not_otherwise(
    snippet, name, new, fails
):
    edited = snippet.edit(*lambda_of(name, new))
    fails(test_an_integer_takes_its_axis_away, edited)


def test_an_integer_takes_its_axis_away__but_not_as_a_slice(snippet, fails):
    way = "x[k % len(x) : k % len(x) + 1]"
    fails(test_an_integer_takes_its_axis_away, snippet, way)


def test_a_slice_keeps_its_axis(snippet, way="x[start:end:step]"):
    run = snippet.after("plain")

    for x in tensors():
        assert run.plain["x[1:2]"](x).tolist() == x.tolist()[1:2]
        assert run.plain["x[::2]"](x).tolist() == x.tolist()[::2]
        assert x[:, 1:100:2].tolist() == [row[1:100:2] for row in x.tolist()]
    places = [None, *range(-7, 8, 2), 2]
    for n, step in itertools.product((3, 0, 1, 5), (None, 1, 2, 9)):
        x = torch.arange(n)
        for start, end in itertools.product(places, places):
            names = {"x": x, "start": start, "end": end, "step": step}
            result = eval(way, names).tolist()
            assert result == x.tolist()[start:end:step]


@pytest.mark.parametrize(
    ("name", "new"),
    [("x[1:2]", "x[1]"), ("x[1:2]", "x[1:3]"), ("x[::2]", "x[1::2]")],
)
def test_a_slice_keeps_its_axis__but_not_otherwise(snippet, name, new, fails):
    edited = snippet.edit(*lambda_of(name, new))
    fails(test_a_slice_keeps_its_axis, edited)


@pytest.mark.parametrize(
    "way",
    [
        "x[start:end]",
        "x[start::step]",
        "x[:end:step]",
        "x[start:end if (end or 0) <= len(x) else 0:step]",
    ],
)
def test_a_slice_keeps_its_axis__but_not_without_a_part(snippet, way, fails):
    fails(test_a_slice_keeps_its_axis, snippet, way)


def test_an_ellipsis_fills_up(snippet, way="x[0, ...]"):
    run = snippet.after("plain")

    for x in [*tensors(), numbered(3), numbered(2, 2, 2, 2, 2)]:
        pick = run.plain["x[..., 0]"]
        assert torch.equal(pick(x), x.select(-1, 0))
        assert torch.equal(eval(way, {"x": x}), x.select(0, 0))
        if x.ndim > 1:
            both = x.select(0, 0).select(-1, 0)
            assert torch.equal(x[0, ..., 0], both)


@pytest.mark.parametrize("new", ["x[:, 0]", "x[0, ...]"])
def test_an_ellipsis_fills_up__but_not_one_colon(snippet, new, fails):
    edited = snippet.edit(*lambda_of("x[..., 0]", new))
    if new == "x[:, 0]":
        edited = edited.edit(new, "x[:, 0] if x.ndim > 1 else x")
    fails(test_an_ellipsis_fills_up, edited)


def test_none_adds_an_axis(snippet, beside="x[..., None, 0]"):
    run = snippet.after("plain")

    for x in [*tensors(), numbered(3)]:
        assert torch.equal(run.plain["x[:, None]"](x), x.unsqueeze(1))
        assert torch.equal(x[None], x.unsqueeze(0))
        assert torch.equal(x[..., None], x.unsqueeze(-1))
        assert torch.equal(x[:, None, None], x.unsqueeze(1).unsqueeze(1))
        assert torch.equal(x[0, None], x[0].unsqueeze(0))
        assert torch.equal(x[1:3, None], x[1:3].unsqueeze(1))
        if x.ndim > 1:
            expected = x.select(-1, 0).unsqueeze(-1)
            assert torch.equal(eval(beside, {"x": x}), expected)


@pytest.mark.parametrize("new", ["x[None]", "x[:, None, None]", "x[:]"])
def test_none_adds_an_axis__but_not_elsewhere(snippet, new, fails):
    edited = snippet.edit(*lambda_of("x[:, None]", new))
    fails(test_none_adds_an_axis, edited)


def test_none_adds_an_axis__but_not_between_lists(snippet, fails):
    way = "x[..., [0], None, [0]]"
    fails(test_none_adds_an_axis, snippet, way)


def test_a_list_picks_in_its_order(snippet, way="x[named]"):
    run = snippet.after("listed")

    for x in tensors():
        values = x.tolist()
        assert run.listed["x[[3, 0]]"](x).tolist() == [values[3], values[0]]
        columns = run.listed["x[:, [2, 0]]"](x)
        assert columns.tolist() == [[row[2], row[0]] for row in values]
        for named in ([2, 2, 0], [3, 1], [0], [-1, 0, 1, -1, 2]):
            expected = [values[k] for k in named]
            for index in (named, torch.tensor(named)):
                result = eval(way, {"x": x, "named": index})
                assert result.tolist() == expected


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("x[[3, 0]]", "x[[0, 3]]"),
        ("x[[3, 0]]", "x[3:0]"),
        ("x[:, [2, 0]]", "x[:, [0, 2]]"),
        ("x[:, [2, 0]]", "x[[2, 0]]"),
    ],
)
def test_a_list_picks_in_its_order__but_not_in_another(
    snippet, name, new, fails
):
    edited = snippet.edit(*lambda_of(name, new))
    fails(test_a_list_picks_in_its_order, edited)


@pytest.mark.parametrize(
    "way", ["x[sorted(named)]", "x[list(dict.fromkeys(map(int, named)))]"]
)
def test_a_list_picks_in_its_order__but_not_sorted_or_made_unique(
    snippet, way, fails
):
    fails(test_a_list_picks_in_its_order, snippet, way)


def test_two_lists_pick_points(snippet, way="x[i, j]"):
    run = snippet.after("listed")
    pairs = [*zip(run.i.flatten(), run.j.flatten(), strict=True)]

    for x in tensors():
        points = torch.stack([x[i, j] for i, j in pairs])
        assert torch.equal(run.listed["x[i, j]"](x), points)
        for shape in ((3,), (1,), (2, 3)):
            i, j = torch.randint(4, shape), torch.randint(3, shape)
            flat = zip(i.flatten(), j.flatten(), strict=True)
            points = torch.stack([x[each] for each in flat])
            expected = points.reshape(*shape, *x.shape[2:])
            assert torch.equal(eval(way, {"x": x, "i": i, "j": j}), expected)


def test_two_lists_pick_points__but_not_as_a_column(snippet, fails):
    edited = snippet.edit(
        ", torch.tensor([1, 2])", ", torch.tensor([[1], [2]])"
    )
    fails(test_two_lists_pick_points, edited)


@pytest.mark.parametrize("new", ["x[i][:, j]", "x[i.flip(0), j]"])
def test_two_lists_pick_points__but_not_one_after_the_other(
    snippet, new, fails
):
    fails(test_two_lists_pick_points, snippet.edit(*lambda_of("x[i, j]", new)))


BLOCK = "x[i[:, None], j]"


@pytest.mark.parametrize("j", ["[1, 2]", "[2, 0, 1]", "[1]"])
@pytest.mark.parametrize("i", ["[0, 3]", "[2, 1, 3, 0]", "[1]"])
def test_a_column_and_a_row_pick_a_block(snippet, i, j):
    if (i, j) != ("[0, 3]", "[1, 2]"):
        snippet = snippet.edit(
            "torch.tensor([0, 3]), torch.tensor([1, 2])",
            f"torch.tensor({i}), torch.tensor({j})",
        )
    run = snippet.after("listed")

    for x in tensors():
        rows = [torch.stack([x[a, b] for b in run.j]) for a in run.i]
        assert torch.equal(run.listed[BLOCK](x), torch.stack(rows))
        same = torch.broadcast_tensors(run.i[:, None], run.j)
        assert torch.equal(x[same], torch.stack(rows))


@pytest.mark.parametrize(
    "new", ["x[i, j]", "x[i, j[:, None]]", "x[i[:, None], j[:, None]]"]
)
def test_a_column_and_a_row_pick_a_block__but_not_otherwise(
    snippet, new, fails
):
    edited = snippet.edit(*lambda_of(BLOCK, new))
    fails(test_a_column_and_a_row_pick_a_block, edited, "[0, 3]", "[1, 2]")


def test_a_mask_picks_along_one_axis(snippet):
    run = snippet.after("listed")

    for x in tensors():
        for mask in (run.scores > 1, torch.zeros(4, 3) > 0):
            if x.ndim == 2:
                pairs = zip(x.flatten(), mask.flatten(), strict=True)
                expected = [value.item() for value, true in pairs if true]
                assert x[mask].tolist() == expected
                if mask.any():
                    name = "x[scores > 1]"
                    assert run.listed[name](x).tolist() == expected
        mask = torch.rand(x.shape) > 0.5
        pairs = zip(x.flatten(), mask.flatten(), strict=True)
        assert x[mask].tolist() == [value.item() for value, m in pairs if m]


@pytest.mark.parametrize(
    "new",
    [
        "x.where(scores > 1, 0)",
        "x[scores <= 1]",
        "x.mT[scores.mT > 1]",
        "x[scores > 1][None]",
    ],
)
def test_a_mask_picks_along_one_axis__but_not_otherwise(snippet, new, fails):
    edited = snippet.edit(*lambda_of("x[scores > 1]", new))
    fails(test_a_mask_picks_along_one_axis, edited)


def test_a_mask_of_rows_picks_rows(snippet):
    run = snippet.after("listed")

    for x in tensors():
        picked = run.listed["x[scores[:, 0] > 1]"](x)
        assert picked.tolist() == [x[0].tolist(), x[2].tolist()]
        for mask in itertools.product([True, False], repeat=4):
            expected = [*itertools.compress(x.tolist(), mask)]
            assert x[torch.tensor(mask)].tolist() == expected


@pytest.mark.parametrize("new", ["x[scores > 1]", "x[scores[:, 0] < 1]"])
def test_a_mask_of_rows_picks_rows__but_not_otherwise(snippet, new, fails):
    edited = snippet.edit(*lambda_of("x[scores[:, 0] > 1]", new))
    fails(test_a_mask_of_rows_picks_rows, edited)


# Views and copies

SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]


def test_plain_indexing_gives_a_view(snippet, zero=None, each_x=tensors):
    run, by_name = picks(snippet)
    for name in INDICES["plain"]:
        assert run.kinds[name] == "view"
    zeros = [torch.tensor(0, dtype=each) for each in SIGNED]
    items = [1, -1, slice(None), slice(1, 9, 2), ..., None, *zeros]
    if zero is not None:
        items.append(zero)
    pairs = [
        pair
        for pair in itertools.product(items, items)
        if sum(each is ... for each in pair) < 2
    ]

    for x in each_x():
        parts = [by_name[name](x) for name in INDICES["plain"]]
        for part in parts + [x[pair] for pair in pairs]:
            assert run.view_or_copy(part, x) == "view"
            before = x.clone()
            with no_error():
                part.add_(1)
            assert (x != before).sum() == part.numel()
            x.copy_(before)


@pytest.mark.parametrize("name", INDICES["plain"])
def test_plain_indexing_gives_a_view__but_not_cloned(snippet, name, fails):
    edited = snippet.edit(*lambda_of(name, f"{name}.clone()"))
    fails(test_plain_indexing_gives_a_view, edited)


@pytest.mark.parametrize(
    "zero", [torch.tensor(1, dtype=torch.uint8), torch.tensor([0]), [0]]
)
def test_plain_indexing_gives_a_view__but_not_with_another_tensor(
    snippet, zero, fails
):
    fails(test_plain_indexing_gives_a_view, snippet, zero)


def test_plain_indexing_gives_a_view__ends_for_the_index_true(snippet, fails):
    fails(test_plain_indexing_gives_a_view, snippet, True)


def test_plain_indexing_gives_a_view__ends_for_a_leaf_that_requires_gradients(
    snippet, fails
):
    def weights():
        yield torch.rand(4, 3, requires_grad=True)

    fails(test_plain_indexing_gives_a_view, snippet, None, weights)


def test_a_list_or_a_mask_copies(snippet, index=None):
    run, by_name = picks(snippet)
    for name in INDICES["listed"]:
        assert run.kinds[name] == "copy"
    lists = [[0], [0, 1, 2, 3], [1, 3], torch.arange(4), torch.arange(4).int()]
    lists += [torch.tensor([1]), torch.tensor([[0]]), torch.ones(4) > 0]
    lists += [torch.ones(4, 3) > 0, (slice(None), [0, 1, 2]), (0, [1])]
    lists += [([0, 1], slice(1, 3)), (..., [0]), (None, [0, 1])]
    lists += [] if index is None else [index]

    for x in tensors():
        parts = [by_name[name](x) for name in INDICES["listed"]]
        for part in parts + [x[each] for each in lists]:
            assert run.view_or_copy(part, x) == "copy"
            before = x.clone()
            part.add_(1)
            assert torch.equal(x, before)


@pytest.mark.parametrize("name", INDICES["listed"])
def test_a_list_or_a_mask_copies__but_not_a_slice(snippet, name, fails):
    edited = snippet.edit(*lambda_of(name, "x[1:3]"))
    fails(test_a_list_or_a_mask_copies, edited)


def test_a_list_or_a_mask_copies__but_not_a_tensor_without_axes(
    snippet, fails
):
    fails(test_a_list_or_a_mask_copies, snippet, torch.tensor(1))


# Assign


def test_assignment_reaches_x(snippet, change="{} = 77", more="{} += 77"):
    run = snippet.after("assign")
    _, by_name = picks(snippet)
    own = torch.tensor(
        [[k == label for k in range(3)] for label in run.labels]
    )
    assert (run.others[own] == -torch.inf).all()
    assert torch.equal(run.others[~own], run.scores[~own])
    assert torch.equal(run.clipped, run.scores.clamp(max=1))

    named_twice = torch.tensor([[1], [3], [1]])
    by_name |= {
        "x[0, 1]": lambda x: x[0, 1],
        "x[...]": lambda x: x[...],
        "x[twice]": lambda x: x[named_twice],
    }
    for name, pick in by_name.items():
        for x in tensors():
            picked = pick(numbered(*x.shape)).flatten()
            names = {"x": x.clone(), "scores": run.scores}
            names |= {"i": run.i, "j": run.j, "twice": named_twice}
            exec(change.format(name), names)
            expected = x.flatten()
            expected[picked] = 77
            assert torch.equal(names["x"].flatten(), expected)
            names["x"] = x.clone()
            exec(more.format(name), names)
            expected = x.flatten()
            expected[picked] = expected[picked] + 77
            assert torch.equal(names["x"].flatten(), expected)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("others[rows, labels] = -", "others[rows][:, 0] = -"),
        ("others[rows, labels] = -", "others[:, labels] = -"),
        ("clipped[clipped > 1] = 1", "clipped[clipped > 1].fill_(1)"),
    ],
)
def test_assignment_reaches_x__but_not_through_a_copy(
    snippet, old, new, fails
):
    fails(test_assignment_reaches_x, snippet.edit(old, new))


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ("{}.fill_(77)", "{} += 77"),
        ("{}[:] = 77", "{} += 77"),
        ("x[:] = 77", "{} += 77"),
        ("{} = 77", "{}.add_(77)"),
        ("{} = 77", "y = {}; y += 77"),
        ("{} = 77", "x += 77"),
    ],
    ids=[
        "x[index].fill_(77)",
        "x[index][:] = 77",
        "x[:] = 77",
        "x[index].add_(77)",
        "y = x[index]; y += 77",
        "x += 77",
    ],
)
def test_assignment_reaches_x__but_not_with(snippet, change, more, fails):
    fails(test_assignment_reaches_x, snippet, change, more)


def test_a_mask_takes_one_value_or_all(snippet):
    run = snippet.after("values")
    large = run.scores > 1

    assert run.clipped[large].tolist() == [1] * 5
    assert torch.equal(run.clipped[~large], run.scores[~large])
    fresh = iter([10, 20, 30, 40, 50])
    for i, row in enumerate(run.scores.tolist()):
        filled = [next(fresh) if value > 1 else value for value in row]
        assert torch.equal(run.refilled[i], torch.tensor(filled))
    said = text_of(RuntimeError, run.values["two values for five"])
    assert said == (
        "shape mismatch: value tensor of shape [2] cannot be"
        " broadcast to indexing result of shape [5]"
    )
    for x, n in itertools.product(tensors(), (0, 1, 2, 7, 12)):
        mask = (torch.randperm(x.numel()) < n).reshape(x.shape)
        for one in (3, torch.tensor(3), torch.tensor([3])):
            x = x.clone()
            x[mask] = one
            assert (x[mask] == 3).all()
        expected = x.flatten().tolist()
        for value, place in enumerate(mask.flatten().nonzero().flatten()):
            expected[place] = value
        x[mask] = torch.arange(n).to(x.dtype)
        assert x.flatten().tolist() == expected
        for k in {0, 2, 3, 8, 12} - {1, n}:
            with pytest.raises(RuntimeError, match="shape mismatch"):
                x[mask] = torch.ones(k).to(x.dtype)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("refilled[refilled > 1] =", "refilled.T[refilled.T > 1] ="),
        ("refilled[refilled > 1] = torch", "refilled[:] = 0; torch"),
        ("[10.0, 20, 30, 40, 50]", "[10.0]"),
        ("clipped[clipped > 1] = 1", "clipped[clipped > 1] = 2"),
        ("clipped[clipped > 1] = 1", "clipped[clipped > 1.5] = 1"),
        ("clipped[clipped > 1] = 1", "clipped[:] = 1"),
        ("torch.ones(2)", "torch.ones(5)"),
        ("torch.ones(2)", "torch.ones(1)"),
        ("torch.ones(2)", "0.0"),
    ],
)
def test_a_mask_takes_one_value_or_all__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_a_mask_takes_one_value_or_all, snippet.edit(old, new))


# A colon in place of rows


def test_a_colon_picks_for_every_row(snippet):
    run = snippet.after("colon")
    tables = [(-run.log_probabilities, run.labels, run.wrong)]
    for shape in ((4, 3), (1, 5), (7, 2)):
        x, labels = torch.rand(shape), torch.randint(shape[1], shape[:1])
        tables.append((x, labels, x[:, labels]))
    for x, labels, table in tables:
        n = len(x)
        assert table.shape == (n, n)
        for i, j in itertools.product(range(n), range(n)):
            assert table[i, j] == x[i, labels[j]]
        picked = x[torch.arange(n), labels]
        assert torch.equal(table.diagonal(), picked)
    assert torch.equal(run.right, run.wrong.diagonal())


WRONG = "-log_probabilities[:, labels]"


@pytest.mark.parametrize(
    "new",
    [
        "-log_probabilities[rows, labels]",
        "-log_probabilities[:, labels].T",
        "-log_probabilities[rows][rows, labels].expand(4, 4)",
        "-log_probabilities[:, labels.flip(0)]",
    ],
)
def test_a_colon_picks_for_every_row__but_not_otherwise(snippet, new, fails):
    edited = snippet.edit(WRONG, new)
    fails(test_a_colon_picks_for_every_row, edited)


def test_the_wrong_loss_is_silent(snippet):
    with no_error():
        run = snippet.after("colon")

    tables = [(run.scores, run.labels, run.right)]
    for n, classes in ((4, 3), (1, 5), (7, 2)):
        scores, labels = torch.randn(n, classes), torch.randint(classes, (n,))
        logs = scores.log_softmax(1)
        tables.append((scores, labels, -logs[torch.arange(n), labels]))
    for scores, labels, right in tables:
        loss = functional.cross_entropy(scores, labels)
        assert torch.allclose(right.mean(), loss)
    loss = functional.cross_entropy(run.scores, run.labels)
    assert not torch.allclose(run.wrong.mean(), loss, rtol=0.5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (WRONG, "-log_probabilities[rows, labels]"),
        (WRONG, "-log_probabilities[rows[:3], labels]"),
        ("-log_probabilities[rows, labels]", "-scores[rows, labels]"),
        ("-log_probabilities[rows, labels]", "-log_probabilities.amax(1)"),
        ("log_softmax(dim=1)", "log_softmax(dim=0)"),
    ],
)
def test_the_wrong_loss_is_silent__but_not_otherwise(snippet, old, new, fails):
    fails(test_the_wrong_loss_is_silent, snippet.edit(old, new))


# Repeated positions

NAMED = [LABELS, "torch.tensor([2, 2, 2, 2])", "torch.tensor([0, 0, 1, 1])"]


@pytest.mark.parametrize("labels", NAMED)
def test_repeated_places_count_once(snippet, labels):
    snippet = snippet.edit(LABELS, labels) if labels != LABELS else snippet
    edited = snippet.edit("once = torch.zeros(3)", "once = 2 * torch.ones(3)")
    for run, start in ((snippet, 0), (edited, 2)):
        run = run.after("count-once")
        named = set(run.labels.tolist())
        assert run.once.tolist() == [start + (k in named) for k in range(3)]
        same = torch.full((3,), float(start))
        same[run.labels] = same[run.labels] + 1
        assert torch.equal(run.once, same)


@pytest.mark.parametrize(
    "new",
    [
        "once.index_add_(0, labels, torch.ones(4))",
        "for label in labels: once[label] += 1",
        "once[labels[:2]] += 1",
        "once[labels] = 1",
        "once += 1",
    ],
)
def test_repeated_places_count_once__but_not_otherwise(snippet, new, fails):
    edited = snippet.edit("once[labels] += 1", new)
    labels = NAMED[2] if new == "once += 1" else LABELS
    fails(test_repeated_places_count_once, edited, labels)


@pytest.mark.parametrize("labels", NAMED)
def test_accumulation_counts_all(snippet, labels):
    snippet = snippet.edit(LABELS, labels) if labels != LABELS else snippet
    run = snippet.after("count-all")

    named = run.labels.tolist()
    assert run.added.tolist() == [named.count(k) for k in range(3)]
    for dtype in (torch.float32, torch.float64, torch.int64):
        start, values = numbered(3, 2).to(dtype), 7 + numbered(4, 2).to(dtype)
        expected = start.clone()
        for k, value in zip(named, values, strict=True):
            expected[k] += value
        assert torch.equal(start.index_add_(0, run.labels, values), expected)


def test_accumulation_counts_all__but_not_by_a_copy(snippet, fails):
    edited = snippet.edit("index_add_(0", "index_copy_(0")
    fails(test_accumulation_counts_all, edited, LABELS)


# Two pairs of brackets


def test_two_brackets_write_into_a_copy(snippet):
    with no_error():
        run = snippet.after("two-brackets")

    assert torch.equal(run.lost, run.scores)
    expected = run.scores.tolist()
    expected[0][1] = expected[3][1] = 9
    assert torch.equal(run.kept, torch.tensor(expected))
    for x in tensors():
        before, x = x, x.clone()
        x[[0, 3]][:, 1] = 9
        assert torch.equal(x, before)
        x[[0, 3], 1] = 9
        assert (x[::3, 1] == 9).all()
        assert torch.equal(x[1:3], before[1:3])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lost[[0, 3]][:, 1] = 9", "lost[[0, 3]].fill(9)"),
        ("kept[[0, 3], 1]", "kept[[0, 3]][:, 1]"),
    ],
)
def test_two_brackets_write_into_a_copy__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_two_brackets_write_into_a_copy, snippet.edit(old, new))


def test_two_brackets_write_into_a_copy__but_not_with_a_slice(snippet, fails):
    edited = snippet.edit("lost[[0, 3]]", "lost[::3]")
    fails(test_two_brackets_write_into_a_copy, edited)


# An index out of range


def test_positions_must_exist(snippet, ways=("x[k]", "x[[k]]")):
    run = snippet.after("beyond")
    said = text_of(IndexError, run.beyond["scores[5]"])
    assert said == "index 5 is out of bounds for dimension 0 with size 4"
    name, shown, *_ = run.outcomes(run.beyond)
    assert (name, shown) == ("scores[5]", f"    IndexError: {said}")

    far = [-(2**63), -(2**31), 2**31, 2**63 - 1]
    for n, k, way in itertools.product((4, 1), [*range(-6, 6), *far], ways):
        for x in (numbered(n), numbered(n, 2).float(), numbered(2, n).T):
            names = {"x": x, "k": k, "torch": torch}
            if -n <= k < n:
                with no_error():
                    eval(way, names)
            else:
                text_of(IndexError, eval, way, names)


@pytest.mark.parametrize("new", ["scores[3]", "scores[-4]"])
def test_positions_must_exist__but_not_if_they_do(snippet, new, fails):
    edited = snippet.edit("lambda: scores[5]", f"lambda: {new}")
    fails(test_positions_must_exist, edited)


@pytest.mark.parametrize(
    "way",
    ["x.index_select(0, torch.tensor([k]))", "x[k:]", "x[None][:0][:, [k]]"],
)
def test_positions_must_exist__but_not_by_another_way(snippet, way, fails):
    fails(test_positions_must_exist, snippet, [way])


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
    said = text_of(IndexError, run.beyond["scores[:, [0, 5]]"])
    assert said == "index 5 is out of bounds for dimension 0 with size 3"

    for way, (dim, size) in {**COUNTED, **dict(others)}.items():
        x = torch.zeros(4, 3, 2)
        said = text_of(IndexError, eval, way, {"x": x, "torch": torch})
        assert said.endswith(f"for dimension {dim} with size {size}")


@pytest.mark.parametrize("new", ["scores[:, 5]", "scores[[0], [5]]"])
def test_the_text_counts_lists__but_not_of_another_index(snippet, new, fails):
    edited = snippet.edit("lambda: scores[:, [0, 5]]", f"lambda: {new}")
    fails(test_the_text_counts_lists, edited)


@pytest.mark.parametrize("way", ["x[:, 9]", "x[[0], :, 9]"])
def test_the_text_counts_lists__but_not_integers(snippet, way, fails):
    fails(test_the_text_counts_lists, snippet, [(way, (0, 3))])


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


@pytest.mark.parametrize(
    "new", ["late - 1", "late.clamp(max=2)", "late.fmod(3)"]
)
def test_gather_refuses_what_is_outside__but_not_those_that_fit(
    snippet, new, fails
):
    edited = snippet.edit("scores.gather(1, late)", f"scores.gather(1, {new})")
    fails(test_gather_refuses_what_is_outside, edited)


OTHER_WAYS = [
    "x.gather(1, index.where(index >= 0, 0))",
    "x.gather(1, index.where(index < 3, 0))",
]
if not older(torch.__version__, "2.12"):
    OTHER_WAYS.append("x.take_along_dim(index, dim=1)")


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_gather_refuses_what_is_outside__but_not_by_another_way(
    snippet, way, fails
):
    fails(test_gather_refuses_what_is_outside, snippet, way)


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


@pytest.mark.parametrize("new", ["labels", "labels + 1"])
def test_embedding_names_no_index__but_not_those_that_fit(snippet, new, fails):
    edited = snippet.edit("embedding(labels + 4,", f"embedding({new},")
    fails(test_embedding_names_no_index, edited)


@pytest.mark.parametrize("way", ["x[index]", "x.take(index)"])
def test_embedding_names_no_index__but_others_name_it(snippet, way, fails):
    fails(test_embedding_names_no_index, snippet, way)


def test_embedding_names_no_index__but_not_for_the_last_row(snippet, fails):
    way = "functional.embedding(index, x)"
    fails(test_embedding_names_no_index, snippet, way, 3)


def test_cross_entropy_names_the_label(snippet):
    run = snippet.after("beyond")
    said = text_of(IndexError, run.beyond["cross_entropy"])
    assert said == "Target 3 is out of bounds."

    for classes, label in itertools.product((1, 3, 10), (0, 1, 3, 12)):
        if label >= classes:
            labels = torch.tensor([0, label])
            scores = torch.rand(2, classes)
            call = functional.cross_entropy
            said = text_of(IndexError, call, scores, labels)
            assert said == f"Target {label} is out of bounds."
            with no_error():
                call(scores, labels, ignore_index=label)
            images = torch.rand(2, classes, 2, 2)
            labels = labels.expand(2, 2, 2)
            said = text_of(IndexError, call, images, labels)
            assert said == f"Target {label} is out of bounds."


@pytest.mark.parametrize(
    "new",
    [
        "cross_entropy(scores, labels)",
        "cross_entropy(torch.ones(4, 4), labels + 1)",
    ],
)
def test_cross_entropy_names_the_label__but_not_otherwise(snippet, new, fails):
    edited = snippet.edit("cross_entropy(scores, labels + 1)", new)
    fails(test_cross_entropy_names_the_label, edited)


@true_since("2.12", "it refused the index, as `gather` does")
def test_take_along_dim_wraps_around(snippet):
    run = snippet.after("wraps")
    with no_error():
        wrapped = run.wraps["take_along_dim"]()

    columns = (run.labels + 1) % 3
    assert torch.equal(wrapped, run.scores[run.rows, columns][:, None])
    for n in (1, 2, 5):
        x = torch.rand(4, n)
        for k in range(n, 3 * n + 2):
            taken = x.take_along_dim(torch.full((4, 1), k), dim=1)
            assert torch.equal(taken, x[:, [k % n]])
            taken = x.T.take_along_dim(torch.full((1, 4), k), dim=0)
            assert torch.equal(taken, x.T[[k % n]])


@pytest.mark.parametrize(
    "new",
    [
        "gather(1, late)",
        "gather(1, late.clamp(max=2))",
        "take_along_dim(late - 1, dim=1)",
    ],
)
def test_take_along_dim_wraps_around__but_not_gather(snippet, new, fails):
    edited = snippet.edit("take_along_dim(late, dim=1)", new)
    fails(test_take_along_dim_wraps_around, edited)


# Shapes and types


TOO_MANY = ["x[0, 0, 0]", "x[:, :, :]", "x[[0], [0], [0]]", "x[..., 0, 0, :]"]
TOO_MANY += ["x[None, 0, [0], 0]", "x[torch.tensor([0]), 0, :]"]


def test_at_most_one_index_per_axis(snippet, others=()):
    run = snippet.after("unfit")
    said = text_of(IndexError, run.unfit["scores[:, :, 0]"])
    assert said == "too many indices for tensor of dimension 2"

    for way in [*TOO_MANY, *others]:
        for x in (numbered(4, 3), numbered(5)):
            names = {"x": x, "torch": torch}
            said = text_of(IndexError, eval, way, names)
            assert said == f"too many indices for tensor of dimension {x.ndim}"


def test_at_most_one_index_per_axis__but_not_two(snippet, fails):
    edited = snippet.edit("lambda: scores[:, :, 0]", "lambda: scores[:, 0]")
    fails(test_at_most_one_index_per_axis, edited)


@pytest.mark.parametrize("way", ["x[None, None, 0]", "x[..., None, 0]"])
def test_at_most_one_index_per_axis__but_none_is_not_counted(
    snippet, way, fails
):
    fails(test_at_most_one_index_per_axis, snippet, [way])


def test_a_mask_must_fit(snippet, ways=()):
    run = snippet.after("unfit")
    said = text_of(IndexError, run.unfit["scores[large[:3]]"])
    assert said.startswith("The shape of the mask [3, 3] at index 0 does not")

    x = run.scores
    ways = ["x[m(3)]", "x[m(5)]", "x[m(4, 1)]", "x[m(1, 3)]", *ways]
    ways += ["x[m(3, 4)]", "x[m(1)]", "x[:, m(2)]", "x[:, m(1)]", "x[:, m(4)]"]
    assign = [f"{way} = {value}" for way in ways for value in "0v"]
    for way in ways + assign:
        names = {"x": x, "m": lambda *shape: torch.ones(shape) > 0}
        names["v"] = torch.ones(4, 1)
        said = text_of(IndexError, exec, way, names)
        assert said.startswith("The shape of the mask [")


def test_a_mask_must_fit__but_not_a_whole_one(snippet, fails):
    edited = snippet.edit("lambda: scores[large[:3]]", "lambda: scores[large]")
    fails(test_a_mask_must_fit, edited)


@pytest.mark.parametrize(
    "way", ["x.masked_select(m(4, 1))", "x.masked_fill(m(3), 0)"]
)
def test_a_mask_must_fit__but_is_broadcast_by_a_method(snippet, way, fails):
    fails(test_a_mask_must_fit, snippet, [way])


def test_index_tensors_must_broadcast(snippet):
    run = snippet.after("unfit")
    said = text_of(IndexError, run.unfit["scores[rows, labels[:3]]"])
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
            text_of(IndexError, run.scores.__getitem__, (i, j))
        else:
            assert run.scores[i, j].shape == shape


@pytest.mark.parametrize("new", ["labels", "labels[:1]", "labels[:3, None]"])
def test_index_tensors_must_broadcast__but_not_if_they_do(snippet, new, fails):
    edited = snippet.edit(
        "lambda: scores[rows, labels[:3]]", f"lambda: scores[rows, {new}]"
    )
    fails(test_index_tensors_must_broadcast, edited)


def test_gather_needs_as_many_axes(snippet, way="x.gather(1, index)"):
    run = snippet.after("unfit")
    said = text_of(RuntimeError, run.unfit["scores.gather(1, labels)"])
    assert said == (
        "Index tensor must have the same number of dimensions as input tensor"
    )
    for x in tensors():
        for axes in range(x.ndim):
            names = {"x": x, "index": torch.zeros([4] * axes).long()}
            text_of(RuntimeError, eval, way, names)


@pytest.mark.parametrize(
    "new", ["gather(1, labels[:, None]),", "index_select(1, labels),"]
)
def test_gather_needs_as_many_axes__but_not_otherwise(snippet, new, fails):
    edited = snippet.edit("gather(1, labels),", new)
    fails(test_gather_needs_as_many_axes, edited)


@pytest.mark.parametrize(
    "way", ["x.index_select(1, index)", "x.gather(1, index.flatten()[:0])"]
)
def test_gather_needs_as_many_axes__but_not(snippet, way, fails):
    fails(test_gather_needs_as_many_axes, snippet, way)


# Values


def test_a_list_cannot_be_assigned(snippet, values="[1, 2]"):
    run = snippet.after("values")
    said = text_of(TypeError, run.values["a list"])
    assert said == "can't assign a list to a torch.FloatTensor"

    for name in ["x[0]", "x[0, 0]", "x[...]", *ALL]:
        for text in ("[1, 2, 3]", "[5.0]", values):
            names = {"x": run.scores.clone(), "torch": torch}
            names |= {"scores": run.scores, "i": run.i, "j": run.j}
            assign = f"{name} = {text}"
            text_of(TypeError, exec, assign, names)


def test_a_list_cannot_be_assigned__but_a_tensor_can(snippet, fails):
    edited = snippet.edit("[1, 2, 3, 4, 5])", "torch.ones(5))")
    fails(test_a_list_cannot_be_assigned, edited)


def test_a_list_cannot_be_assigned__but_a_number_can(snippet, fails):
    fails(test_a_list_cannot_be_assigned, snippet, "1")


DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.bool]


def test_values_need_the_dtype(snippet, refuse="x[[0, 2]]", take="x[0:2]"):
    run = snippet.after("values")
    said = text_of(RuntimeError, run.values["integers"])
    assert said == (
        "Index put requires the source and destination dtypes match,"
        " got Float for the destination and Long for the source."
    )
    masks, lists = (
        ["x[scores > 1]", "x[large]"],
        ["x[[3, 0]]", "x[i, i]", refuse],
    )
    for mine, dtype in itertools.permutations(DTYPES, 2):
        names = {"x": run.scores.to(mine), "scores": run.scores}
        names |= {"large": run.scores[:, 0] > 1, "i": torch.tensor([0, 2])}
        cases = [(left, eval(left, names)) for left in masks + lists]
        cases += [(left, torch.ones(n)) for left in lists for n in ((), 1)]
        for left, values in cases:
            names["values"] = values.to(dtype)
            said = text_of(RuntimeError, exec, f"{left} = values", names)
            assert said.startswith("Index put requires")
        for left in ("x[1:]", "x[:, ::1]", take):
            names["values"] = torch.ones(3).to(dtype)
            with no_error():
                exec(f"{left} = values", names)
            assert names["x"].dtype == mine
            assert (eval(left, names) == 1).all()


def test_values_need_the_dtype__but_not_if_they_have_it(snippet, fails):
    edited = snippet.edit("torch.arange(5)),", "torch.arange(5.0)),")
    fails(test_values_need_the_dtype, edited)


def test_values_need_the_dtype__but_not_a_single_one_through_a_mask(
    snippet, fails
):
    edited = snippet.edit("torch.arange(5)),", "torch.arange(1)),")
    fails(test_values_need_the_dtype, edited)


def test_values_need_the_dtype__but_not_through_a_slice(snippet, fails):
    fails(test_values_need_the_dtype, snippet, "x[1:3]")


def test_values_need_the_dtype__but_a_list_refuses_a_single_one(
    snippet, fails
):
    fails(test_values_need_the_dtype, snippet, "x[large]")


def test_values_need_the_dtype__but_not_converted_by_a_list(snippet, fails):
    fails(test_values_need_the_dtype, snippet, "x[[0, 2]]", "x[[0, 1]]")


FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def test_float_lists_are_cut(snippet, fit=()):
    run = snippet.after("types")
    fit_in = "int64" if older(torch.__version__, "2.8") else "int32/int64"
    texts = [text_of(IndexError, run.types["scores[1.0]"])]
    texts.append(text_of(IndexError, run.types["scores[labels.float()]"]))
    texts.append(text_of(RuntimeError, run.types["gather"]))
    assert texts == [
        "only integers, slices (`:`), ellipsis (`...`), None"
        " and long or byte Variables are valid indices (got float)",
        "tensors used as indices must be long, int, byte or bool tensors",
        f"gather(): Expected dtype {fit_in} for index",
    ]
    with no_error():
        cut = run.types["scores[[0.9, 1.9]]"]()
    assert torch.equal(cut, run.scores[:2])

    shapes = [(), (1,), (4,), (4, 1)]
    indices = [torch.zeros(s, dtype=d) for s in shapes for d in FLOATS]
    for index in (1.0, 0.5, -1.0, *indices, *fit):
        text_of(IndexError, run.scores.__getitem__, index)
    for index in indices:
        index = index.reshape(-1, 1)
        text_of(RuntimeError, run.scores.gather, 1, index)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lambda: scores[labels.float()]", "lambda: scores[labels]"),
        ("lambda: scores[1.0]", "lambda: scores[1]"),
        ("labels.float()[:, None]", "labels[:, None]"),
        ("lambda: scores[[0.9, 1.9]]", "lambda: scores[[1, 2]]"),
        (
            "lambda: scores[[0.9, 1.9]]",
            "lambda: scores[torch.tensor([0.9, 1.9])]",
        ),
    ],
)
def test_float_lists_are_cut__but_not_otherwise(snippet, old, new, fails):
    fails(test_float_lists_are_cut, snippet.edit(old, new))


@pytest.mark.parametrize("fit", [[1], [torch.tensor(1)], [[1.0]]])
def test_float_lists_are_cut__but_not_indices_that_fit(snippet, fit, fails):
    fails(test_float_lists_are_cut, snippet, fit)


# Where it ends


def test_no_negative_steps(snippet, way="x[::step]", method="x.flip(0)"):
    run = snippet.after("backwards")
    said = text_of(ValueError, run.backwards["scores[::-1]"])
    assert said == "step must be greater than zero"
    flipped = run.backwards["scores.flip(0)"]()
    assert flipped.tolist() == run.scores.tolist()[::-1]
    assert run.view_or_copy(flipped, run.scores) == "copy"

    for x in [*tensors(), numbered(1, 3)]:
        for step in (-1, -2, -7):
            names = {"x": x, "step": step}
            text_of(ValueError, eval, way, names)
        if x.dtype != torch.bfloat16:
            array = x.numpy()[::-1]
            assert numpy.array_equal(eval(method, {"x": x}).numpy(), array)
        assert run.view_or_copy(eval(method, {"x": x}), x) == "copy"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lambda: scores[::-1]", "lambda: scores[::1]"),
        ("lambda: scores.flip(0)", "lambda: scores.flip(1)"),
        ("lambda: scores.flip(0)", "lambda: scores.roll(1, 0)"),
        ("lambda: scores.flip(0)", "lambda: scores"),
    ],
)
def test_no_negative_steps__but_not_otherwise(snippet, old, new, fails):
    fails(test_no_negative_steps, snippet.edit(old, new))


@pytest.mark.parametrize(
    ("way", "method"),
    [
        ("x[::-step]", "x.flip(0)"),
        ("x[::step]", "x.flip(1)"),
        ("x[::step]", "x[:]"),
    ],
)
def test_no_negative_steps__but_not_with_others(snippet, way, method, fails):
    fails(test_no_negative_steps, snippet, way, method)


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
    for each in index:
        full += [slice(None)] * (4 - used) if each is ... else [each]
    where = next(k for k, e in enumerate(full) if type(e) is int)
    axis = sum(e is not None for e in full[:where])
    rest = full[:where] + full[where + 1 :]
    place = next(k for k, e in enumerate(rest) if type(e) is list)
    in_place = x.select(axis, full[where])[tuple(rest)]
    return in_place, in_place.movedim(place, 0)


def test_an_integer_and_a_list_apart_differ_from_numpy(snippet, extra=()):
    run = snippet.after("apart")
    assert torch.equal(run.in_torch, run.scores[:, [1, 2]])
    assert numpy.array_equal(run.in_numpy, run.scores[:, [1, 2]].T)

    x, seen = numbered(2, 3, 4, 5), 0
    for index, apart in [*orders(), *extra]:
        if apart:
            in_place, in_front = torch_and_numpy(index)
            assert torch.equal(x[tuple(index)], in_place)
            assert numpy.array_equal(x.numpy()[tuple(index)], in_front)
            seen += not torch.equal(in_place, in_front)
    assert seen > 20


def test_an_integer_and_a_list_apart_differ_from_numpy__but_not_if_adjacent(
    snippet, fails
):
    other = ([slice(None), 1, [0, 1]], True)
    fails(test_an_integer_and_a_list_apart_differ_from_numpy, snippet, [other])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("both[0, :, [1, 2]]", "both[[0], :, [1, 2]]"),
        ("both[0, :, [1, 2]]", "both[0][:, [1, 2]].T"),
        ("numpy()[0, :, [1, 2]]", "numpy()[0][:, [1, 2]]"),
        ("numpy()[0, :, [1, 2]]", "numpy()[1, :, [1, 2]]"),
    ],
)
def test_an_integer_and_a_list_apart_differ_from_numpy__but_not_otherwise(
    snippet, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_an_integer_and_a_list_apart_differ_from_numpy, edited)
