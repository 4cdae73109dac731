"""The claims of docs/tensors/loops.md."""

import itertools
import math
from itertools import product

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers import worlds

SHAPES = [(1, 1), (1, 9), (8, 1), (4, 7), (7, 7)]
FLOATS = [torch.float32, torch.float64, torch.bfloat16]
LAID_OUT = worlds.each(
    "table",
    worlds.TENSORS,
    "empty",
    "of one element",
    "transposed",
    "with gaps",
    "expanded",
    "requiring grad",
    "non-leaf",
    "float64",
)


def without_sums(snippet, cell):
    """Run the program to the end of a cell, without its slow sums."""
    cells = [each for each in snippet.cells() if each != "one-by-one"]
    return snippet.only(*cells).after(cell)


def pairs(dtype=torch.float32):
    """Yield two tables of one shape, for several shapes."""
    for seed, shape in enumerate(SHAPES):
        torch.manual_seed(seed)
        yield torch.randn(2, *shape).to(dtype).unbind()


def similarity(a, b):
    """Return the cosine similarity of two lists of numbers."""
    inner = math.fsum(x * y for x, y in zip(a, b, strict=True))
    lengths = math.hypot(*a) * math.hypot(*b)
    return inner / lengths if lengths else math.nan


def row_by_row(a, b):
    """Return the cosine similarity of each row of two tables."""
    rows = zip(a.tolist(), b.tolist(), strict=False)
    return torch.tensor([similarity(*pair) for pair in rows])


# Do this


def test_cosine_compares_row_with_row(snippet, others=()):
    run = snippet.after("at-once")
    expected = row_by_row(run.flat[:99], run.typical[:99])

    for c, mean in enumerate(run.means):
        assert_close(mean, run.flat[run.labels == c].mean(dim=0))
    assert_close(run.typical[5], run.means[run.labels[5]])
    assert run.alike.shape == (1797,)
    assert_close(run.alike[:99], expected)
    for way in (run.alike_at_once, run.alike_by_loop):
        for a, b in ((run.flat[:9], run.typical[:9]), *pairs(), *others):
            assert_close(way(a, b), row_by_row(a, b).to(a.dtype))


@LAID_OUT
def test_cosine_compares_row_with_row__also_for_tables(snippet, table):
    a = table().detach()
    b = a.flip(-1)
    rows = torch.cosine_similarity(a, b, dim=1)

    assert_close(rows, row_by_row(a, b).to(a.dtype))


@edits(
    ("another order", "flat, typical, dim=1)  #", "flat.flip(0), typical)  #"),
    ("columns", "(flat, typical, dim=1)  #", "(flat, typical, dim=0)  #"),
    (
        "a distance",
        "torch.cosine_similarity(flat, typical, dim=1)  # 1797",
        None,
    ),
    ("columns in the loop", "(*pair, dim=0)", "(flat[0], pair[1], dim=0)"),
)
def test_cosine_compares_row_with_row__but_not_otherwise(
    snippet, old, new, fails
):
    """With other rows, with columns or with another measure, you get other
    numbers.
    """
    distance = "torch.pairwise_distance(flat, typical)  # 1797"
    edited = snippet.edit(old, new or distance)
    fails(test_cosine_compares_row_with_row, edited)


def test_cosine_compares_row_with_row__ends_with_a_row_of_zeros(
    snippet, fails
):
    """A row of zeros has no direction: its similarity is 0, even to itself."""
    zeros = torch.zeros(1, 3)
    assert torch.cosine_similarity(zeros, zeros).tolist() == [0]
    fails(test_cosine_compares_row_with_row, snippet, [(zeros, zeros)])


def test_cosine_compares_row_with_row__ends_with_a_single_row(snippet, fails):
    """A table of one row: each row of the other is compared with it."""
    table = torch.eye(3) + 1
    fails(test_cosine_compares_row_with_row, snippet, [(table, table[:1])])


# How it works: calls


def test_three_calls_a_row(snippet, extra=2):
    run = snippet.after("calls")

    for n, d in product((1, 2, 10, 100), (1, 64)):
        tables = torch.rand(n, d), torch.rand(n, d)
        assert run.calls_of(run.alike_by_loop, *tables) == 3 * n + extra
        if d == 64:
            tables = run.flat[:n], run.typical[:n]
            assert run.calls_of(run.alike_by_loop, *tables) == 3 * n + extra


@edits(
    ("a longer loop body", "torch.stack(alike)", "torch.stack(alike).clone()"),
    ("rows looked up once more", "pair = flat[i],", "pair = flat[i][:],"),
    ("rows of one list", "pair = flat[i], typical[i]", "pair = flat[i], one"),
)
def test_three_calls_a_row__but_not_with_other_steps(snippet, old, new, fails):
    """One step more or less in the loop is one call more or less per row."""
    edited = snippet.edit(old, new)
    if new.endswith("one"):
        edited = edited.edit(
            "    alike = []\n", "    alike = []; one = flat[0]\n"
        )
    fails(test_three_calls_a_row, edited)


def test_one_call_for_all_rows(snippet):
    run = snippet.after("calls")

    for n, d in product((1, 2, 10, 1797), (1, 64)):
        tables = torch.rand(n, d), torch.rand(n, d)
        assert run.calls_of(run.alike_at_once, *tables) == 1


@edits(
    (
        "each step written out",
        "    return torch.cosine_similarity(flat, typical, dim=1)\n",
        "    lengths = flat.norm(dim=1) * typical.norm(dim=1)\n"
        "    return (flat * typical).sum(dim=1) / lengths\n",
    ),
    (
        "in chunks",
        "    return torch.cosine_similarity(flat, typical, dim=1)\n",
        "    chunks = zip(flat.split(9), typical.split(9))\n"
        "    similar = torch.cosine_similarity\n"
        "    return torch.cat([similar(*chunk, dim=1) for chunk in chunks])\n",
    ),
)
def test_one_call_for_all_rows__but_not_in_steps(snippet, old, new, fails):
    """If you write out the steps, or go through the rows in chunks, each step
    or chunk takes a call.
    """
    fails(test_one_call_for_all_rows, snippet.edit(old, new))


# How it works: dim

TABLE = [
    ("image.sum(dim=0)", "images.sum(dim=1)"),
    ("image.softmax(dim=-1)", "images.softmax(dim=-1)"),
    ("image.sum()", "images.sum(dim=(1, 2))"),
    (
        "image - image.mean()",
        "images - images.mean(dim=(1, 2), keepdim=True)",
    ),
    ("image[0]", "images[:, 0]"),
    ("image.T", "images.mT"),
    ("image @ weight", "images @ weight"),
]
MORE = [
    ("image.sum(dim=-2)", "images.sum(dim=-2)"),
    ("image.amax(dim=(0, 1))", "images.amax(dim=(1, 2))"),
    ("image.cumsum(dim=1)", "images.cumsum(dim=2)"),
    ("image.argmax(dim=0)", "images.argmax(dim=1)"),
    ("image.flip(0)", "images.flip(1)"),
    ("image.roll(1, dims=1)", "images.roll(1, dims=2)"),
    ("image.unsqueeze(0)", "images.unsqueeze(1)"),
    ("image.flatten(0)", "images.flatten(1)"),
    ("image.transpose(0, 1)", "images.transpose(1, 2)"),
]


def test_dims_move_up_by_one(snippet, rows=TABLE):
    run = snippet.after("dims")

    assert torch.equal(run.alone, run.of_all[0])
    assert_close(run.alone, torch.tensor(run.image.tolist()).sum(dim=0))
    for images in (run.images[:5], torch.rand(1, 2, 3), torch.rand(4, 4, 4)):
        weight = torch.rand(images.shape[2], 2)
        for one, of_all in rows:
            alone = [
                eval(one, {"image": image, "weight": weight})
                for image in images
            ]
            with no_error():
                at_once = eval(of_all, {"images": images, "weight": weight})
            assert_close(at_once, torch.stack(alone))


@pytest.mark.parametrize("row", MORE, ids=lambda row: row[0])
def test_dims_move_up_by_one__also_by(snippet, row):
    test_dims_move_up_by_one(snippet, [row])


@edits(
    ("dim=0", "of_all = images.sum(dim=1)", "of_all = images.sum(dim=0)"),
    ("dim=2", "of_all = images.sum(dim=1)", "of_all = images.sum(dim=2)"),
)
def test_dims_move_up_by_one__but_not_as_in_the_loop(snippet, old, new, fails):
    """With another `dim`, the sums run along another axis."""
    fails(test_dims_move_up_by_one, snippet.edit(old, new))


@pytest.mark.parametrize(
    "row",
    [
        ("image.softmax(dim=-1)", "images.softmax(dim=-2)"),
        ("image.sum()", "images.sum()"),
        ("image - image.mean()", "images - images.mean()"),
        ("image[0]", "images[0]"),
        ("image @ weight", "images.mT @ weight"),
    ],
    ids=lambda row: row[1],
)
def test_dims_move_up_by_one__but_not_by_other_lines(snippet, row, fails):
    """Copied from the loop unchanged, these lines mix the images."""
    fails(test_dims_move_up_by_one, snippet, [row])


def test_dims_move_up_by_one__also_in_the_exercise(snippet):
    run = without_sums(snippet, "solution-checked")

    assert_close(run.expected, run.centered_by_loop(run.images))
    assert_close(run.found, run.expected)


# How it works: steps


def test_calls_grow_with_the_steps(snippet):
    run = snippet.after("carry")

    def calls(images, steps):
        return run.calls_of(run.smoothed, torch.rand(images, steps, 3))

    for steps in (1, 5, 8, 20):
        for images in (1, 7, 1797):
            assert calls(images, steps) == 3 * steps + 4
    for table in (run.images[0], 20 * torch.rand(3, 2)):
        for column, found in zip(
            table.T, run.smoothed(table[None])[0].T, strict=True
        ):
            state = 0.0
            for number, shown in zip(
                column.tolist(), found.tolist(), strict=True
            ):
                state = min(0.5 * state + number, 20)
                assert shown == pytest.approx(state)


@edits(
    (
        "image by image",
        "(0.5 * state + row).clamp(max=20)",
        "torch.stack([(0.5 * a + b).clamp(max=20)"
        " for a, b in zip(state, row)])",
    ),
    ("one step", "images.unbind(dim=1)", "images.unbind(dim=1)[:1]"),
    ("no limit", ".clamp(max=20)", ".clamp(max=99)"),
    ("columns", "images.unbind(dim=1)", "images.unbind(dim=2)"),
)
def test_calls_grow_with_the_steps__but_not_otherwise(
    snippet, old, new, fails
):
    """A loop over the images inside, or other steps, change the number of
    calls.
    """
    fails(test_calls_grow_with_the_steps, snippet.edit(old, new))


# How it works: rounding


def test_sums_differ_by_rounding(snippet):
    run = snippet.after("one-by-one")
    one_by_one = run.added_one_by_one(run.numbers)

    assert run.numbers.shape == (12_800,)
    assert run.numbers.double().sum().item() == pytest.approx(200, abs=1e-5)
    assert one_by_one != run.numbers.sum()
    assert_close(one_by_one, run.numbers.sum(), rtol=1e-3, atol=0)


def test_sum_is_nearer(snippet, numbers=None):
    run = snippet.after("one-by-one")
    if numbers is None:
        numbers = run.numbers
        assert run.numbers.double().sum().item() == pytest.approx(200)
        assert abs(numbers.sum().item() - 200) <= 2**-16  # a single step
    true = math.fsum(numbers.tolist())

    off = abs(run.added_one_by_one(numbers).item() - true)
    assert abs(numbers.sum().item() - true) < off


ROUNDING = edits(
    (
        "a total in float64",
        "total = torch.tensor(0.0)",
        "total = torch.tensor(0.0).double()",
    ),
    (
        "image by image",
        "for number in numbers",
        "for number in [numbers.sum()]",
    ),
    ("whole numbers", "shares = flat / flat.sum(dim=1, keepdim=True)", None),
)


@ROUNDING
def test_sums_differ_by_rounding__but_not_otherwise(snippet, old, new, fails):
    """With integers, `float64` or a single step there is nothing to round."""
    fails(
        test_sums_differ_by_rounding, snippet.edit(old, new or "shares = flat")
    )


@edits(
    (
        "a total in float64",
        "total = torch.tensor(0.0)",
        "total = torch.tensor(0.0).double()",
    ),
    ("one step", "for number in numbers", "for number in [numbers.sum()]"),
    ("other images", "shares[:200].flatten()", "shares[:201].flatten()"),
)
def test_sum_is_nearer__but_not_otherwise(snippet, old, new, fails):
    """A total in `float64` comes nearer, and a single step comes just
    as near.
    """
    fails(test_sum_is_nearer, snippet.edit(old, new))


@pytest.mark.parametrize(
    "seed", range(1, 5), ids="random numbers, seed {}".format
)
def test_sum_is_nearer__also_for(snippet, seed):
    torch.manual_seed(seed)
    test_sum_is_nearer(snippet, torch.rand(10_000))


def test_sum_is_nearer__ends_for_two_numbers(snippet, fails):
    """Two numbers can be added in only one way, so both totals are equal."""
    fails(test_sum_is_nearer, snippet, torch.tensor([0.1, 0.2]))


# What goes wrong: dim


def column_by_column(a, b):
    """Return the cosine similarity of each column of two tables."""
    return row_by_row(a.T, b.T)


def test_the_wrong_dim_compares_columns(snippet, shape=lambda a: a.shape[1:]):
    run = without_sums(snippet, "wrong-dim")

    inked = run.flat.sum(dim=0) > 0
    by_columns = column_by_column(run.flat[:, inked], run.typical[:, inked])
    assert run.wrong.shape == (64,)
    assert_close(run.wrong[inked], by_columns)
    for dtype in FLOATS:
        for a, b in pairs(dtype):
            with no_error():
                found = torch.cosine_similarity(a, b, dim=0)
            assert found.shape == shape(a)
            if dtype != torch.bfloat16:
                assert_close(found, column_by_column(a, b).to(dtype))


def test_the_wrong_dim_compares_columns__but_not_with_dim_1(snippet, fails):
    """With `dim=1`, there is one answer for each image."""
    edited = snippet.edit("typical, dim=0)\n", "typical, dim=1)\n")
    fails(test_the_wrong_dim_compares_columns, edited)


@edits(
    ("other rows", "typical, dim=0)\n", "typical.flip(0), dim=0)\n"),
    ("transposed", "(flat, typical, dim=0)\n", "(flat.T, typical.T, dim=0)\n"),
)
def test_the_wrong_dim_compares_columns__but_not_otherwise(
    snippet, old, new, fails
):
    """Reversed rows or transposed tables give other results."""
    fails(test_the_wrong_dim_compares_columns, snippet.edit(old, new))


def test_the_default_compares_within_images(snippet):
    run = without_sums(snippet, "default-dim")

    assert run.by_default.shape == (1797, 8)
    for place, column in product((0, 900, 1796), range(8)):
        a = run.images[place, :, column].tolist()
        b = run.blocks[place, :, column].tolist()
        if any(a) and any(b):
            found = run.by_default[place, column].item()
            assert found == pytest.approx(similarity(a, b), abs=1e-5)
    flattened = run.images.flatten(1), run.blocks.flatten(1)
    assert_close(torch.cosine_similarity(*flattened), run.alike)


@edits(
    ("dim=2", "(images, blocks)", "(images, blocks, dim=2)"),
    ("dim=0", "(images, blocks)", "(images, blocks, dim=0)"),
    (
        "flattened",
        "(images, blocks)",
        "(images.flatten(1), blocks.flatten(1))",
    ),
)
def test_the_default_compares_within_images__but_not_otherwise(
    snippet, old, new, fails
):
    """Another `dim` compares along another axis, and flattened images get a
    single answer.
    """
    fails(test_the_default_compares_within_images, snippet.edit(old, new))


# What goes wrong: old values


def test_a_call_reads_the_old_values(snippet):
    run = without_sums(snippet, "old-values")
    x = run.x.tolist()

    assert run.looped.tolist() == [*itertools.accumulate(x)]
    sums = [a + b for a, b in itertools.pairwise(x)]
    assert run.called.tolist() == [x[0], *sums]
    assert run.called.tolist() != run.looped.tolist()


@pytest.mark.parametrize(
    "numbers", ["0.5, 1.5, 2.5, -4", "-1, 1, 1, -1"], ids="of {}".format
)
def test_a_call_reads_the_old_values__also(snippet, numbers):
    edited = snippet.edit("tensor([1, 2, 3, 4])", f"tensor([{numbers}])")
    test_a_call_reads_the_old_values(edited)


@edits(
    ("the old values in the loop", "+ looped[i - 1]", "+ x[i - 1]"),
    ("a running total", "called[1:] + called[:-1]", "called.cumsum(0)[1:]"),
    ("from the end", "range(1, 4)", "range(3, 0, -1)"),
)
def test_a_call_reads_the_old_values__but_not_otherwise(
    snippet, old, new, fails
):
    """If the loop reads the old values, or the call is `cumsum`, both give the
    same.
    """
    fails(test_a_call_reads_the_old_values, snippet.edit(old, new))


OVERLAP = "unsupported operation: some elements of the input tensor and the"


def test_an_overlap_raises(snippet, lines=("x[1:] += x[:-1]",)):
    uncaught = snippet.edit("except RuntimeError", "except KeyError")
    with pytest.raises(RuntimeError, match=OVERLAP):
        without_sums(uncaught, "overlap")
    for dtype, line in product((*FLOATS, torch.int64), lines):
        x = torch.arange(12).reshape(6, 2).to(dtype)
        with pytest.raises(RuntimeError, match=OVERLAP):
            exec(line, {"x": x, "torch": torch})


@pytest.mark.parametrize(
    "line",
    [
        "x[:-1] += x[1:]",
        "x[1:].mul_(x[:-1])",
        "x[1:].copy_(x[:-1]).add_(x[:-1])",
        "torch.add(x[:-1], 1, out=x[1:])",
        "s = x.reshape(-1)[:9].reshape(3, 3); s += s.T",
    ],
)
def test_an_overlap_raises__also_for(snippet, line):
    test_an_overlap_raises(snippet, [line])


@pytest.mark.parametrize(
    "line", ["x[1:] += x[:-1].clone()", "x[1:] = x[1:] + x[:-1]", "x += x"]
)
def test_an_overlap_raises__but_not_for(snippet, line, fails):
    """If you read from a copy, or read and write the very same numbers, there
    is no error.
    """
    fails(test_an_overlap_raises, snippet, [line])


def test_an_overlap_raises__ends_with_gaps(snippet, fails):
    """Views of columns have gaps, and raise no error."""
    line = "t = x.reshape(3, 4); t[:, 1:] += t[:, :-1]"
    fails(test_an_overlap_raises, snippet, [line])


def test_an_overlap_raises__ends_with_masked_scatter(snippet, fails):
    """`masked_scatter_` mixes old and new values, and raises no error."""
    line = "x[1:].masked_scatter_(x[1:] > -1, x[:-1])"
    fails(test_an_overlap_raises, snippet, [line])


@edits(("    x[1:] += x[:-1]\n", "    x[1:] += x[:-1].clone()\n"))
def test_an_overlap_raises__but_not_with_a_clone(snippet, old, new, fails):
    """With `clone()`, the line adds the old values."""
    fails(test_an_overlap_raises, snippet.edit(old, new))


def test_gaps_hide_an_overlap(snippet, rows=3, columns=40):
    with no_error():
        table = without_sums(snippet, "gaps").table
    assert table.shape == (3, 40)
    line = "t[:, 1:] += t[:, :-1]"
    for n in (columns, 5 * columns):
        other = torch.ones(rows, n)
        with no_error():
            exec(line, {"t": other})
        for each in (other, *([table] if columns == 40 else [])):
            found = each[0].tolist()
            assert max(found) > 2  # 1 plus a new value
            assert found[2:].count(2) > 0  # 1 plus an old value


@edits(
    ("a clone", "table[:, :-1]\n", "table[:, :-1].clone()\n"),
    (
        "cumsum",
        "table[:, 1:] += table[:, :-1]",
        "table = table.cumsum(dim=1)",
    ),
    ("a new table", "table[:, 1:] +=", "table[:, 1:] = table[:, 1:] +"),
    ("rows", "table[:, 1:] += table[:, :-1]", "table[1:] += table[:-1]"),
    ("no overlap", "1:] += table[:, :-1]", "20:] += table[:, :-20]"),
)
def test_gaps_hide_an_overlap__but_not_otherwise(snippet, old, new, fails):
    """With a copy or `cumsum` nothing is mixed, and along the rows the line
    raises an error.
    """
    fails(test_gaps_hide_an_overlap, snippet.edit(old, new))


def test_gaps_hide_an_overlap__ends_for_a_single_row(snippet, fails):
    """A single row has no gaps, so you get the error."""
    fails(test_gaps_hide_an_overlap, snippet, 1)


def test_gaps_hide_an_overlap__ends_for_three_columns(snippet, fails):
    """So few numbers are added one by one, which makes a running total."""
    fails(test_gaps_hide_an_overlap, snippet, 3, 3)


# What goes wrong: digits


def latest_of(ids, labels):
    """Return the largest id of each class, by plain Python."""
    known = [0] * 10
    for number, label in zip(ids.tolist(), labels.tolist(), strict=True):
        known[label] = max(known[label], number)
    return known


def test_the_loop_loses_digits(snippet):
    run = without_sums(snippet, "ids-kept")
    known = latest_of(run.ids, run.labels)

    assert run.ids.dtype == run.latest.dtype == torch.int64
    assert run.latest.tolist() == known
    assert run.looped_ids.dtype == torch.float32
    found = run.looped_ids.long().tolist()
    assert [n % 2 for n in found] == [0] * 10
    assert [
        a - b for a, b in zip(found, known, strict=True) if b % 2 == 0
    ] == [0 for n in known if n % 2 == 0]
    assert any(n % 2 for n in known)


@edits(
    (
        "int64",
        "latest = torch.zeros(10)",
        "latest = torch.zeros(10, dtype=ids.dtype)",
    ),
    (
        "float64",
        "latest = torch.zeros(10)",
        "latest = torch.zeros(10, dtype=torch.float64)",
    ),
    ("a call in float32", "dtype=ids.dtype)\n", "dtype=torch.float32)\n"),
    ("smaller numbers", "20_000_001 +", "10_000_001 +"),
    ("the smallest", '"amax")', '"amin")'),
)
def test_the_loop_loses_digits__but_not_otherwise(snippet, old, new, fails):
    """In `int64` or `float64`, or below 16,777,216, no digit is lost."""
    edited = snippet.edit(old, new)
    if "float32" in new:
        edited = edited.edit("labels, ids,", "labels, ids.float(),")
    fails(test_the_loop_loses_digits, edited)


class Answers(TorchFunctionMode):
    """Keep the answers of all comparisons."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def __torch_function__(self, call, types, args=(), kwargs=None):
        answer = call(*args, **(kwargs or {}))
        if call.__name__ in {"gt", "__gt__", "lt", "__lt__"}:
            self.kept.append(answer)
        return answer


def test_each_comparison_makes_a_tensor(snippet):
    run = without_sums(snippet, "ids")

    for n in (1, 9, 99):
        with Answers() as answers:
            run.latest_by_loop(run.ids[:n], run.labels[:n])
        assert all(type(answer) is torch.Tensor for answer in answers.kept)
        places = {answer.data_ptr() for answer in answers.kept}
        assert len(places) == n


def test_each_comparison_makes_a_tensor__but_not_into_one_answer(
    snippet, fails
):
    """With `out=`, all comparisons write into a single tensor."""
    edited = snippet.edit(
        "        if number > latest[label]:",
        "        if torch.gt(number, latest[label], out=answer):",
    ).edit(
        "    latest = torch.zeros(10)\n",
        "    latest, answer = torch.zeros(10), torch.tensor(False)\n",
    )
    fails(test_each_comparison_makes_a_tensor, edited)


def test_each_comparison_makes_a_tensor__but_not_of_python_numbers(
    snippet, fails
):
    """Python compares Python numbers by itself."""
    edited = snippet.edit(
        "number > latest[label]", "number.item() > latest[label].item()"
    )
    fails(test_each_comparison_makes_a_tensor, edited)
