"""The claims of docs/tensors/vectorization.md, by plain Python loops."""

import itertools
import math
from itertools import product

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.testing import assert_close

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after
from tests.helpers import worlds

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64]
SHAPES = [(1, 1), (1, 9), (8, 1), (4, 7), (30, 3)]
LOOP = ("load", "do-this", "loop", "at-once")
CALLS = ("load", "loop", "at-once", "watch", "calls")
CHUNKS = ("load", "at-once", "watch", "chunks")
SOLUTION = ("load", "do-this", "table", "solution", "solution-checked")
SIZES = [(200, 30), (9, 5), (40, 1), (1, 7)]
LAID_OUT = worlds.each(
    "table",
    worlds.TENSORS,
    "of one element",
    "transposed",
    "with gaps",
    "expanded",
    "requiring grad",
    "non-leaf",
    "float64",
)


def tables(dtype=torch.float32):
    """Yield tables of several shapes."""
    for seed, shape in enumerate(SHAPES):
        torch.manual_seed(seed)
        yield (10 * torch.randn(shape)).to(dtype)


# Do this


def test_every_row_meets_every_row(snippet, call=torch.cdist, others=()):
    run = after(snippet, "load", "do-this")
    pairs = [(t, t.flip(1)[:3]) for t in tables()]

    for i, j in product(range(4), range(4, 9)):
        expected = math.dist(run.flat[i].tolist(), run.flat[j].tolist())
        assert run.distances[i, j].item() == pytest.approx(expected)
    for a, b in (*pairs, *others):
        with no_error():
            apart = call(a, b)
        expected = [[math.dist(r, s) for s in b.tolist()] for r in a.tolist()]
        assert_close(apart, torch.tensor(expected, dtype=a.dtype))


@LAID_OUT
def test_every_row_meets_every_row__also_for_tables(snippet, table):
    rows = table().detach()
    others = [(rows, rows + 1)]
    test_every_row_meets_every_row(snippet, torch.cdist, others)


@edits(
    ("the city-block distance", "cdist(flat, flat)", "cdist(flat, flat, p=1)"),
    ("other rows", "cdist(flat, flat)", "cdist(flat.flip(0), flat)"),
)
def test_every_row_meets_every_row__but_not_otherwise(
    snippet, old, new, fails
):
    """Another `p` gives another distance, and reversed rows make other
    pairs.
    """
    edited = snippet.edit(f"{old}  # each", f"{new}  # each")
    fails(test_every_row_meets_every_row, edited)


def test_every_row_meets_every_row__ends_far_from_zero(snippet, fails):
    """Rows of large numbers that differ little lose their distance."""
    torch.manual_seed(0)
    far = torch.rand(30, 4) + 10_000
    fails(test_every_row_meets_every_row, snippet, torch.cdist, [(far, far)])


def test_every_row_meets_every_row__ends_with_integers(snippet, fails):
    """`cdist` needs floating-point numbers: integers raise an error."""
    others = [(torch.ones(2, 3).long(), torch.ones(2, 3).long())]
    fails(test_every_row_meets_every_row, snippet, torch.cdist, others)


def gaps_to(rows, places):
    """Return the distance of each row from the one that is its neighbor."""
    return [
        math.dist(row.tolist(), rows[place].tolist())
        for row, place in zip(rows, places, strict=True)
    ]


def smallest_gaps(rows):
    """Return the smallest distance of each row from any other row."""
    rows = rows.tolist()
    return [
        min(
            (math.dist(a, b) for j, b in enumerate(rows) if i != j),
            default=math.inf,
        )
        for i, a in enumerate(rows)
    ]


WAYS = [
    "nearest_by_loop",
    "nearest_at_once",
    "nearest_by_cdist",
]


def check_neighbors(way, *tables):
    """Compare the neighbors that a way finds with those of plain Python."""
    for rows in tables:
        places = way(rows)
        assert all(i != j for i, j in enumerate(places.tolist()))
        assert gaps_to(rows, places) == pytest.approx(
            smallest_gaps(rows), rel=1e-3, abs=1e-3
        )


@pytest.mark.parametrize("way", WAYS, ids="by {}".format)
def test_the_loop_finds_the_same_neighbors(snippet, way, others=()):
    run = after(snippet, *LOOP)
    torch.manual_seed(0)
    rows = [torch.randn(9, 5), torch.randn(2, 1), torch.ones(4, 3)]

    find = vars(run)[way]
    check_neighbors(find, run.flat[:20], run.flat[900:910], *rows, *others)
    rows, places = run.flat.tolist(), run.nearest[:20].tolist()
    others = [[*range(i), *range(i + 1, len(rows))] for i in range(20)]
    assert [math.dist(rows[i], rows[j]) for i, j in enumerate(places)] == [
        pytest.approx(min(math.dist(rows[i], rows[j]) for j in others[i]))
        for i in range(20)
    ]
    assert all(i != j for i, j in enumerate(places))


@pytest.mark.parametrize(
    ("way", "old", "new"),
    [
        (WAYS[0], "distance < best", "distance > best"),
        (WAYS[0], "best, place = distance, j", "place = j"),
        (WAYS[0], "if i != j and distance < best", "if distance < best"),
        (WAYS[1], "distances.fill_diagonal_(torch.inf).argmin", None),
        (WAYS[1], "flat[:, None] - flat\n", "flat[:, None] + flat\n"),
        (WAYS[2], "distances = torch.cdist(flat, flat)\n    ", None),
    ],
    ids=[
        "the farthest",
        "the last place",
        "each itself",
        "each itself at once",
        "sums for differences",
        "the city-block distance",
    ],
)
def test_the_loop_finds_the_same_neighbors__but_not_otherwise(
    snippet, way, old, new, fails
):
    """If you change one step, you find other neighbors."""
    if old.startswith("distances.fill"):
        old = (
            "sum(dim=2).sqrt()\n    return distances.fill_diagonal_(torch.inf)"
        )
        new = "sum(dim=2).sqrt()\n    return distances"
    elif new is None:
        new = "distances = torch.cdist(flat, flat, p=1)\n    "
    fails(test_the_loop_finds_the_same_neighbors, snippet.edit(old, new), way)


def test_the_loop_finds_the_same_neighbors__ends_for_one_image(snippet, fails):
    """A single image has no neighbor: the loop gives -1."""
    one = [torch.ones(1, 3)]
    fails(test_the_loop_finds_the_same_neighbors, snippet, WAYS[0], one)


def test_the_loop_finds_the_same_neighbors__ends_far_from_zero(snippet, fails):
    """For large numbers that differ only a little, `cdist` finds the wrong
    neighbors.
    """
    torch.manual_seed(0)
    far = [torch.rand(30, 4) + 10_000]
    fails(test_the_loop_finds_the_same_neighbors, snippet, WAYS[2], far)


def test_the_loop_finds_the_same_neighbors__also_far_from_zero_at_once(
    snippet,
):
    torch.manual_seed(0)
    far = [torch.rand(30, 4) + 10_000]
    test_the_loop_finds_the_same_neighbors(snippet, WAYS[1], far)


def test_the_loop_finds_the_same_neighbors__also_with_a_nan_filled_in(snippet):
    run = after(snippet, *CHUNKS, "torn", "mended")
    kept = [i for i in range(200) if i != 7]
    known = run.torn[kept]

    places = [kept.index(i) for i in run.mended[kept].tolist()]
    found = gaps_to(known, places)
    assert found == pytest.approx(smallest_gaps(known), rel=1e-3, abs=1e-3)


# How it works: calls


def test_new_axes_make_all_pairs(snippet, others=()):
    run = after(snippet, "load", "by-hand")
    points = run.points

    for table in others:
        with no_error():
            apart = table[:, None] - table
        rows = table.tolist()
        assert apart.tolist() == [
            [[x - y for x, y in zip(a, b, strict=True)] for b in rows]
            for a in rows
        ]

    assert run.differences.shape == (3, 3, 2)
    for i, j in product(range(3), repeat=2):
        assert torch.equal(run.differences[i, j], points[i] - points[j])
        assert run.apart[i, j].item() == pytest.approx(
            math.dist(points[i].tolist(), points[j].tolist())
        )
    assert run.apart[0].tolist() == [0, 5, 1]


@edits(
    ("reversed", "points[:, None] - points", "points - points[:, None]"),
    ("no new axis", "points[:, None] - points", "(points - points)[None]"),
    ("sums", "points[:, None] - points", "points[:, None] + points"),
)
def test_new_axes_make_all_pairs__but_not_otherwise(snippet, old, new, fails):
    """Without the new axis, or in another order, you get other pairs."""
    fails(test_new_axes_make_all_pairs, snippet.edit(old, new))


@LAID_OUT
def test_new_axes_make_all_pairs__also_for_tables(snippet, table):
    test_new_axes_make_all_pairs(snippet, [table()])


def test_new_axes_make_all_pairs__ends_in_uint8(snippet, fails):
    """Pixels stored as `uint8` wrap around: 1 minus 3 is 254."""
    pixels = torch.tensor([[1], [3]], dtype=torch.uint8)
    fails(test_new_axes_make_all_pairs, snippet, [pixels])


def test_eight_calls_a_pair(snippet):
    run = after(snippet, *CALLS)

    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for n, d in ((1, 3), (2, 1), (9, 64), (20, 5)):
            rows = torch.rand(n, d).to(dtype)
            calls = run.watched(run.nearest_by_loop, rows).calls
            assert len(calls) == 8 * n * (n - 1) + 6 * n + 2
            assert calls.count("__bool__") == n * (n - 1)


def test_eight_calls_a_pair__but_seven_with_a_row_looked_up_once(
    snippet, fails
):
    """If you look up `flat[i]` before the inner loop, seven are left."""
    edited = snippet.edit(
        "        for j in range(n):\n            distance = (flat[i] -",
        "        row = flat[i]\n"
        "        for j in range(n):\n"
        "            distance = (row -",
    )
    fails(test_eight_calls_a_pair, edited)


@edits(
    ("no root", "flat[j]).square().sum().sqrt()", "flat[j]).square().sum()"),
    (
        "a Python number",
        "flat[j]).square().sum().sqrt()",
        "flat[j]).square().sum().sqrt().item()",
    ),
)
def test_eight_calls_a_pair__but_not_with_other_steps(
    snippet, old, new, fails
):
    """One step less in the loop is one call less for each pair."""
    fails(test_eight_calls_a_pair, snippet.edit(old, new))


def test_calls_stay_the_same(snippet, sizes=(1, 2, 9, 200)):
    run = after(snippet, *CALLS)
    few = run.watched(run.nearest_at_once, run.flat[:10]).calls

    assert len(few) == 7
    for n in sizes:
        for d in (1, 30):
            rows = torch.rand(n, d)
            assert run.watched(run.nearest_at_once, rows).calls == few


def test_calls_stay_the_same__also_with_cdist_from_26_rows(snippet):
    run = after(snippet, *CALLS)
    few = run.watched(run.nearest_by_cdist, run.flat[:26]).calls

    for n in (30, 100, 400):
        rows = run.flat[:n]
        assert run.watched(run.nearest_by_cdist, rows).calls == few


@edits(
    (
        "row by row",
        "differences = flat[:, None] - flat",
        "differences = torch.stack([row - flat for row in flat])",
    ),
)
def test_calls_stay_the_same__but_not_row_by_row(snippet, old, new, fails):
    """A loop over the images makes a call for each of them again."""
    fails(test_calls_stay_the_same, snippet.edit(old, new))


# How it works: memory


def bytes_of_differences(run, way, table, made_by="sub"):
    """Return the bytes of each tensor of differences that a way makes."""
    watch = run.watched(way, table)
    seen = zip(watch.calls, watch.bytes, strict=True)
    return [size for call, size in seen if call == made_by]


def test_all_pairs_take_n_n_d(snippet, dtype="float32"):
    run = after(snippet, *CHUNKS)

    for n, d in SIZES:
        table = torch.rand(n, d, dtype=getattr(torch, dtype))
        for call in ("sub", "square"):
            sizes = bytes_of_differences(run, run.nearest_at_once, table, call)
            assert sizes == [n * n * d * 4]
    twice = 2 * 10_240_000
    assert twice < peak(run.nearest_at_once, run.few) < 1.1 * twice
    assert run.watched(run.nearest_at_once, run.few).bytes[1] == 10_240_000


def test_all_pairs_take_n_n_d__also_in_the_text_of_the_error(snippet):
    numbers = 100_000_000 * 100_000_000 * 64
    assert 4 * numbers > 2**57  # as many bytes as a processor has addresses
    run = after(snippet, "load", "at-once", "too-many-pairs")
    with pytest.raises(RuntimeError, match=f"{4 * numbers} bytes"):
        run.nearest_at_once(run.many)


def test_all_pairs_take_n_n_d__but_not_by_cdist(snippet, fails):
    """`cdist` in place of the differences makes no such tensor."""
    edited = snippet.edit(
        "    differences = flat[:, None] - flat\n"
        "    distances = differences.square().sum(dim=2).sqrt()\n",
        "    distances = torch.cdist(flat, flat)\n",
    )
    fails(test_all_pairs_take_n_n_d, edited)


def test_all_pairs_take_n_n_d__but_not_twice_by_norm(snippet, fails):
    """`norm` makes no tensor of squares."""
    edited = snippet.edit(
        "    distances = differences.square().sum(dim=2).sqrt()\n",
        "    distances = differences.norm(dim=2)\n",
    )
    fails(test_all_pairs_take_n_n_d, edited)


def test_all_pairs_take_n_n_d__ends_in_float64(snippet, fails):
    """In `float64`, each number takes 8 bytes rather than 4."""
    fails(test_all_pairs_take_n_n_d, snippet, "float64")


@pytest.mark.parametrize("size", [20, 1, 7, 300])
def test_chunks_take_k_n_d(snippet, size):
    run = after(snippet, *CHUNKS)

    def way(rows):
        return run.nearest_in_chunks(rows, size)

    for n, d in SIZES:
        table = torch.rand(n, d)
        sizes = bytes_of_differences(run, way, table)
        assert max(sizes) == min(size, n) * n * d * 4
        assert sum(sizes) == n * n * d * 4
    table = torch.rand(23, 5)
    check_neighbors(way, run.flat[:30], table)
    assert torch.equal(way(table), run.nearest_at_once(table))


@edits(
    ("larger steps", "start : start + size]", "start : start + 2 * size]"),
    ("other columns", "distances[i, start + i]", "distances[i, i]"),
    (
        "the farthest",
        "places.append(distances.argmin",
        "places.append(distances.argmax",
    ),
)
def test_chunks_take_k_n_d__but_not_otherwise(snippet, old, new, fails):
    """Larger chunks take more memory, and a wrong index finds wrong
    neighbors.
    """
    fails(test_chunks_take_k_n_d, snippet.edit(old, new), 7)


def peak(way, *tables):
    """Return the most bytes that a way holds at a time on the CPU."""
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True
    ) as prof:
        way(*tables)
    events = prof.profiler.kineto_results.events()
    held = top = 0
    for event in events:
        if event.name() == "[memory]":
            held += event.nbytes()
            top = max(top, held)
    return top


def test_cdist_makes_no_differences(snippet):
    run = after(snippet, *CHUNKS)
    rows = torch.rand(100, 64)

    assert 0 < peak(run.nearest_by_cdist, run.few) < 10_240_000 / 10
    assert 0 < peak(run.nearest_by_cdist, rows) < 100 * 100 * 64 * 4 / 10


def test_cdist_makes_no_differences__but_not_all_at_once(snippet, fails):
    """The differences of all pairs take more than ten times as much."""
    edited = snippet.edit(
        "    distances = torch.cdist(flat, flat)\n",
        "    distances = (flat[:, None] - flat).norm(dim=2)\n",
    )
    fails(test_cdist_makes_no_differences, edited)


# How it works: which call replaces your loop


def test_where_picks_by_mask(snippet, call="torch.where(mask, a, b)"):
    run = after(snippet, "load", "choose")
    assert run.clean[:20].tolist() == [
        [[16.0 if n > 8 else 0.0 for n in row] for row in image]
        for image in run.images[:20].tolist()
    ]
    assert run.images._version == 0
    large = torch.tensor([[16777217, 3]])  # too many digits for float32
    for a in (large, *(t for dtype in DTYPES for t in tables(dtype))):
        b, mask = a + 1, torch.arange(a.numel()).reshape(a.shape) % 2 == 0
        picked = eval(call, {"torch": torch, "mask": mask, "a": a, "b": b})
        for place in product(*map(range, a.shape)):
            source = a if mask[place] else b
            assert picked[place].item() == source[place].item()
        assert a._version == b._version == 0


@pytest.mark.parametrize(
    "call",
    [
        "torch.where(mask, b, a)",
        "torch.where(mask[:1], a, b)",
        "a.copy_(torch.where(mask, a, b))",
        "torch.where(mask, a, b, out=b)",
    ],
)
def test_where_picks_by_mask__but_not_other_calls(snippet, call, fails):
    """If you swap the inputs, use part of the mask or write into an input, the
    result is wrong.
    """
    fails(test_where_picks_by_mask, snippet, call)


def test_where_picks_by_mask__ends_with_two_dtypes(snippet, fails):
    """With two dtypes, the result takes one of them and may lose digits."""
    fails(test_where_picks_by_mask, snippet, "torch.where(mask, a, b.float())")


@edits(
    ("swapped", "images > 8, 16.0, 0.0", "images > 8, 0.0, 16.0"),
    ("another mask", "images > 8, 16.0, 0.0", "images >= 8, 16.0, 0.0"),
)
def test_where_picks_by_mask__but_not_otherwise(snippet, old, new, fails):
    """Swapped numbers, or another mask, make another image."""
    fails(test_where_picks_by_mask, snippet.edit(old, new))


def test_cumsum_is_a_running_total(snippet, more=()):
    run = after(snippet, "load", "running")
    assert_close(
        run.rows[:50],
        torch.tensor(
            [[sum(row) for row in image] for image in run.images[:50].tolist()]
        ),
    )
    assert run.so_far.shape == run.rows.shape
    for amounts, sums in zip(run.rows[:50], run.so_far[:50], strict=True):
        assert sums.tolist() == [*itertools.accumulate(amounts.tolist())]
    for table in (*tables(torch.float64), *tables(torch.int64), *more):
        for row, sums in zip(table, table.cumsum(dim=1), strict=True):
            _, *running = itertools.accumulate(row.tolist(), initial=0)
            assert sums.tolist() == pytest.approx(running)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(torch.full((2, 3), 100, dtype=torch.uint8), id="uint8"),
        pytest.param(torch.full((1, 9), True), id="boolean"),
        pytest.param(torch.empty(0, 3), id="no rows"),
    ],
)
def test_cumsum_is_a_running_total__also_of(snippet, table):
    test_cumsum_is_a_running_total(snippet, [table])


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(torch.full((1, 2), 2**62), id="int64 wraps around"),
        pytest.param(
            torch.full((1, 3), 60000.0, dtype=torch.float16),
            id="float16 overflows",
        ),
    ],
)
def test_cumsum_is_a_running_total__ends_where(snippet, table, fails):
    """A total too large for its dtype wraps around or becomes `inf`."""
    fails(test_cumsum_is_a_running_total, snippet, [table])


@edits(
    ("down the images", "rows.cumsum(dim=1)", "rows.cumsum(dim=0)"),
    (
        "on to the next row",
        "rows.cumsum(dim=1)",
        "rows.flatten().cumsum(0).reshape(rows.shape)",
    ),
    (
        "up to, not including",
        "rows.cumsum(dim=1)",
        "rows.cumsum(dim=1) - rows",
    ),
    ("products", "rows.cumsum(dim=1)", "rows.cumprod(dim=1)"),
)
def test_cumsum_is_a_running_total__but_not_otherwise(
    snippet, old, new, fails
):
    """Along another axis, or without the number itself, the totals are
    different.
    """
    fails(test_cumsum_is_a_running_total, snippet.edit(old, new))


def test_cummax_is_a_running_maximum(snippet, more=()):
    run = after(snippet, "load", "running")
    for table, values, places in (
        (run.rows[:50], run.most_so_far[:50], run.at_row[:50]),
        *((t, *t.cummax(dim=1)) for t in (*tables(), *more)),
        *((t, *t.cummax(dim=1)) for t in tables(torch.int64)),
    ):
        for row, largest in zip(table, values, strict=True):
            expected = [*itertools.accumulate(row.tolist(), max)]
            assert largest.tolist() == expected
        assert torch.equal(table.gather(1, places), values)
        assert (places <= torch.arange(table.shape[1])).all()


@edits(
    ("the smallest", "rows.cummax(dim=1)", "rows.cummin(dim=1)"),
    ("down the images", "rows.cummax(dim=1)", "rows.cummax(dim=0)"),
    ("sorted", "rows.cummax(dim=1)", "rows.sort(dim=1)"),
)
def test_cummax_is_a_running_maximum__but_not_otherwise(
    snippet, old, new, fails
):
    """`cummin`, another axis or sorting gives other numbers."""
    fails(test_cummax_is_a_running_maximum, snippet.edit(old, new))


@LAID_OUT
def test_cummax_is_a_running_maximum__also_for_tables(snippet, table):
    test_cummax_is_a_running_maximum(snippet, [table().detach()])


def test_cummax_is_a_running_maximum__ends_with_nan(snippet, fails):
    """From the first `nan` on, the largest number is `nan`."""
    table = torch.tensor([[1.0, torch.nan, 2.0]])
    fails(test_cummax_is_a_running_maximum, snippet, [table])


def test_unfold_shows_windows(
    snippet, call="table.unfold(1, 3, 1)", columns=10
):
    run = after(snippet, "load", "running")
    assert run.of_three.shape == (len(run.rows), 6)
    for d in range(6):
        assert_close(run.of_three[:, d], run.rows[:, d : d + 3].sum(dim=1))
    for dtype in DTYPES:
        table = torch.arange(20).reshape(2, 10)[:, :columns].to(dtype)
        if columns < 10:
            with no_error():
                eval(call)
        windows = eval(call)
        assert windows.shape == (2, 8, 3)
        for s, d in product(range(2), range(8)):
            assert torch.equal(windows[s, d], table[s, d : d + 3])
        assert windows.data_ptr() == table.data_ptr()


@pytest.mark.parametrize(
    "call",
    [
        "table.unfold(0, 1, 1)",
        "table.unfold(1, 3, 2)",
        "table.unfold(1, 2, 1)",
        "table.unfold(1, 3, 1).clone()",
        "table.unfold(1, 3, 1).flip(2)",
    ],
)
def test_unfold_shows_windows__but_not_other_calls(snippet, call, fails):
    """Another axis, size or step gives other windows, and `clone` copies."""
    fails(test_unfold_shows_windows, snippet, call)


def test_unfold_shows_windows__ends_with_two_columns(snippet, fails):
    """A row shorter than the window raises an error."""
    call = "table.unfold(1, 3, 1)"
    fails(test_unfold_shows_windows, snippet, call, 2)


def test_index_add_sums_per_group(
    snippet, labels=(3, 0, 3, 3), numbers=(), dtype=torch.float32
):
    run = after(snippet, "load", "groups")
    same, ones = torch.zeros(300, dtype=torch.long), torch.ones(300).to(dtype)
    assert torch.zeros(1, dtype=dtype).index_add(0, same, ones) == 300
    numbers = torch.tensor(numbers or [1.0, 2.0, 3.0, 4.0])
    with no_error():
        few = torch.zeros(5).index_add(0, torch.tensor(labels), numbers)
    assert few.tolist() == [2, 0, 0, 8, 0]
    sums = [0.0] * 10
    assert run.ink[:9].tolist() == [sum(row) for row in run.flat[:9].tolist()]
    for label, amount in zip(run.labels, run.ink.tolist(), strict=True):
        sums[label] += amount
    assert_close(run.ink_of_class, torch.tensor(sums))


@edits(
    (
        "the last one only",
        "index_add(0, labels, ink)",
        "index_copy(0, labels, ink)",
    ),
    (
        "one of each class",
        "index_add(0, labels, ink)",
        "index_put((labels,), ink)",
    ),
    (
        "reversed",
        "index_add(0, labels, ink)",
        "index_add(0, labels, ink).flip(0)",
    ),
    (
        "twice",
        "index_add(0, labels, ink)",
        "index_add(0, labels, ink, alpha=2)",
    ),
    ("from 1", "torch.zeros(10).index_add", "torch.ones(10).index_add"),
)
def test_index_add_sums_per_group__but_not_otherwise(snippet, old, new, fails):
    """Calls that overwrite keep one number of each group and lose the rest."""
    fails(test_index_add_sums_per_group, snippet.edit(old, new))


def test_index_add_sums_per_group__ends_with_ignored_labels(snippet, fails):
    """A label of -100, which a loss would ignore, raises an error."""
    fails(test_index_add_sums_per_group, snippet, [3, 0, 3, -100])


def test_index_add_sums_per_group__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`, a sum of ones stops at 256, because 257 is rounded
    down.
    """
    usual = [3, 0, 3, 3], ()
    fails(test_index_add_sums_per_group, snippet, *usual, torch.bfloat16)


def test_index_add_sums_per_group__ends_with_two_dtypes(snippet, fails):
    """Integers can't be added to `float32` zeros: both need one dtype."""
    fails(test_index_add_sums_per_group, snippet, [3, 0, 3, 3], [1, 2, 3, 4])


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_index_add_sums_per_group__also_other_dtypes(dtype):
    places, numbers = torch.tensor([3, 0, 3, 3]), torch.arange(1, 5)
    sums = torch.zeros(5, dtype=dtype).index_add(0, places, numbers.to(dtype))

    assert sums.tolist() == [2, 0, 0, 8, 0]


def test_bincount_counts_each_group(snippet, others=()):
    run = after(snippet, "load", "groups")
    for labels in others:
        with no_error():
            counts = torch.tensor(labels).bincount(minlength=10).tolist()
        assert counts == [labels.count(c) for c in range(10)]
    places = run.labels.tolist()
    assert run.count_of_class.tolist() == [places.count(c) for c in range(10)]
    for groups in (1, 5, 9):
        for largest in (0, 4, 8):
            places = torch.randint(largest + 1, (20,))
            counts = places.bincount(minlength=groups)[:groups].tolist()
            assert counts == [places.tolist().count(g) for g in range(groups)]


def test_bincount_counts_each_group__ends_with_ignored_labels(snippet, fails):
    """A label of -100, which a loss would ignore, raises an error."""
    fails(test_bincount_counts_each_group, snippet, [[3, -100]])


def test_bincount_counts_each_group__ends_above_nine(snippet, fails):
    """A label of 12 makes the counts longer than `minlength=10`."""
    fails(test_bincount_counts_each_group, snippet, [[3, 12]])


def test_bincount_counts_each_group__but_not_of_a_part(snippet, fails):
    """Among the first ten labels, each digit occurs once."""
    old = "labels.bincount(minlength=10)"
    fails(
        test_bincount_counts_each_group,
        snippet.edit(old, "labels[:10].bincount(minlength=10)"),
    )


@edits(
    (
        "clamped",
        "labels.bincount(minlength=10)",
        "labels.bincount(minlength=10).clamp(max=180)",
    ),
    (
        "summed up",
        "labels.bincount(minlength=10)",
        "labels.bincount(minlength=10).cumsum(0)",
    ),
)
def test_bincount_counts_each_group__but_not_otherwise(
    snippet, old, new, fails
):
    """Clamped or added up, they are no longer counts."""
    fails(test_bincount_counts_each_group, snippet.edit(old, new))


def test_bincount_counts_each_group__also_for_pairs_of_digits(snippet):
    run = after(snippet, *SOLUTION)

    assert run.confusion.tolist() == run.table.tolist()
    assert run.confusion.sum() == len(run.labels)


# How it works: einsum and vmap


def sums_of_products(equation, *inputs):
    """Return what an equation says, by loops over all letters."""
    given, left = equation.split("->")
    sizes = {}
    for letters, each in zip(given.split(","), inputs, strict=True):
        for letter, size in zip(letters, each.shape, strict=True):
            sizes.setdefault(letter, size)
    result = torch.zeros([sizes[letter] for letter in left])
    for places in product(*map(range, sizes.values())):
        at = dict(zip(sizes, places, strict=True))
        number = 1.0
        for letters, each in zip(given.split(","), inputs, strict=True):
            number *= each[tuple(at[letter] for letter in letters)].item()
        result[tuple(at[letter] for letter in left)] += number
    return result


EQUATIONS = [
    ("ip,jp->ij", [(2, 3), (4, 3)]),
    ("ip,ip->i", [(2, 3), (2, 3)]),
    ("sd,dh->sh", [(2, 3), (3, 4)]),
    ("ysd,ydh->ysh", [(2, 2, 3), (2, 3, 2)]),
    ("i,i->", [(5,), (5,)]),
    ("i,j->ij", [(2,), (3,)]),
    ("ij->ji", [(2, 3)]),
    ("ii->i", [(3, 3)]),
    ("ijk->j", [(2, 3, 2)]),
    ("ab,bc,cd->da", [(2, 3), (3, 2), (2, 2)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum_adds_over_other_letters(snippet, equation, shapes):
    run = after(snippet, "load", "einsum")
    flat = run.flat
    assert_close(run.products, flat @ flat.T)
    assert_close(run.squares, flat.square().sum(dim=1))
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in shapes]
    result = torch.einsum(equation, *inputs)
    assert_close(result, sums_of_products(equation, *inputs))


def test_einsum_adds_over_other_letters__also_as_matrix_products():
    torch.manual_seed(0)
    a, b = torch.randn(2, 5, 3), torch.randn(2, 3, 4)

    assert_close(torch.einsum("sd,dh->sh", a[0], b[0]), a[0] @ b[0])
    assert_close(torch.einsum("ysd,ydh->ysh", a, b), torch.bmm(a, b))
    assert_close(torch.einsum("sd,td->st", a[0], a[1]), a[0] @ a[1].T)


def test_einsum_adds_over_other_letters__ends_where_a_letter_has_two_sizes(
    snippet, fails
):
    """An axis of size 1 is broadcast where its letter has another size too."""
    shapes = [(2, 1), (3, 4)]
    fails(test_einsum_adds_over_other_letters, snippet, "sd,dh->sh", shapes)


@edits(
    ("other letters left", "ip,jp->ij", "ip,jp->ji"),
    (
        "one image",
        '"ip,jp->ij", flat, flat',
        '"ip,jp->ij", flat, flat.flip(0)',
    ),
    ("nothing added up", '"ip,ip->i"', '"ip,ip->ip"'),
    ("all added up", '"ip,ip->i"', '"ip,ip->"'),
)
def test_einsum_adds_over_other_letters__but_not_otherwise(
    snippet, old, new, fails
):
    """With other letters after the arrow, or with other inputs, you get other
    numbers.
    """
    if new == "ip,jp->ji":  # a symmetric product would hide it
        old, new = f'"{old}", flat, flat', f'"{new}", flat, 2 * flat'
    edited = snippet.edit(old, new)
    fails(test_einsum_adds_over_other_letters, edited, *EQUATIONS[0])


def test_vmap_runs_each_row(snippet, more=()):
    run = after(snippet, "load", "vmap")
    looped = [image[:4].sum() / image.sum() for image in run.images]
    assert_close(run.shares, torch.stack(looped))
    for table in tables():
        mapped = torch.vmap(run.top_share)(table.abs())
        looped = torch.stack([run.top_share(row) for row in table.abs()])
        assert_close(mapped, looped)
    for function in more:
        with no_error():
            mapped = torch.vmap(function)(torch.rand(3, 4))
        assert mapped.shape == (3, 4)


@pytest.mark.parametrize(
    "new",
    ["torch.vmap(top_share, in_dims=1)", "(lambda x: top_share(x)[None])"],
)
def test_vmap_runs_each_row__but_not_columns_or_alone(snippet, new, fails):
    """With `in_dims=1` it maps over another axis, and without `vmap` it maps
    over none.
    """
    edited = snippet.edit("torch.vmap(top_share)(", f"{new}(")
    fails(test_vmap_runs_each_row, edited)


@pytest.mark.parametrize(
    "function",
    [
        lambda row: row if row.sum() > 0 else -row,
        lambda row: row * row.sum().item(),
        lambda row: row[row > 0],
    ],
    ids=["an if", "item()", "a boolean mask"],
)
def test_vmap_runs_each_row__ends_where_python_needs_a_number(
    snippet, function, fails
):
    """With an `if` on a number, `item()` or a mask, `vmap` raises an error."""
    fails(test_vmap_runs_each_row, snippet, [function])


def test_vmap_runs_each_row__ends_with_random_numbers(snippet, fails):
    """Dropout raises an error, unless you pass `randomness="different"`."""
    dropout = torch.nn.functional.dropout
    fails(test_vmap_runs_each_row, snippet, [dropout])
    assert torch.vmap(dropout, randomness="different")(torch.ones(2, 50)).any()


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_vmap_runs_each_row__ends_with_recurrent_layers(snippet, layer, fails):
    """For an LSTM, a GRU or an RNN, `vmap` raises an error."""
    recurrent = getattr(torch.nn, layer)(1, 1)
    assert recurrent(torch.rand(4, 1))[0].shape == (4, 1)
    function = lambda row: recurrent(row[:, None])[0][:, 0]  # noqa: E731
    fails(test_vmap_runs_each_row, snippet, [function])


# What goes wrong


def test_cdist_is_off_from_26_rows(snippet):
    run = after(snippet, "load", "from-itself")

    assert_close(run.centered.mean(dim=0), torch.zeros(64), atol=1e-3, rtol=0)
    assert_close(run.centered[0], run.flat[0] - run.flat.mean(dim=0))
    assert len(run.from_25) == 25
    assert run.from_25.max() == 0
    assert run.from_26.shape == (26,)
    assert run.from_26.max() > 0.001


@edits(
    ("fewer rows", "torch.cdist(c26, c26).", "torch.cdist(c25, c25)."),
    (
        "the exact mode",
        "torch.cdist(c26, c26).",
        "torch.cdist(c26, c26, 2.0, exact).",
    ),
    ("whole numbers", "centered = flat - flat.mean(dim=0)", "centered = flat"),
)
def test_cdist_is_off_from_26_rows__but_not_otherwise(
    snippet, old, new, fails
):
    """With 25 rows, the exact mode or integers, all distances are 0."""
    fails(test_cdist_is_off_from_26_rows, snippet.edit(old, new))


@pytest.mark.parametrize("start", [100, 500, 1500], ids="from image {}".format)
def test_cdist_is_off_from_26_rows__also_with_other_images(snippet, start):
    edited = snippet.edit(
        "c25, c26, exact = centered[:25], centered[:26]",
        f"c25, c26, exact = centered[{start}:][:25], centered[{start}:][:26]",
    )
    test_cdist_is_off_from_26_rows(edited)


def test_the_exact_mode_gives_zero(snippet, others=tables):
    run = after(snippet, "load", "from-itself")

    assert run.from_exact.tolist() == [0.0] * 26
    for dtype in (torch.float32, torch.float64):
        for table in (run.centered[:99].to(dtype), *others(dtype)):
            apart = torch.cdist(table, table, compute_mode=run.exact)
            assert apart.diagonal().tolist() == [0.0] * len(table)


def test_the_exact_mode_gives_zero__ends_with_inf(snippet, fails):
    """A row with `inf` is at distance `nan` from itself."""

    def others(dtype):
        return [torch.tensor([[torch.inf, 1.0]], dtype=dtype)]

    fails(test_the_exact_mode_gives_zero, snippet, others)


@pytest.mark.parametrize(
    "mode", ["use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary"]
)
def test_the_exact_mode_gives_zero__but_not_the_others(snippet, mode, fails):
    """The other two modes use a matrix product, which rounds."""
    edited = snippet.edit("donot_use_mm_for_euclid_dist", mode)
    fails(test_the_exact_mode_gives_zero, edited)


@pytest.mark.parametrize("place", [0, 7, 15], ids="in image {}".format)
def test_a_nan_is_everyones_neighbor(
    snippet, place, ways=WAYS[1:], sizes=(20, 200)
):
    if place != 7:
        snippet = snippet.edit("torn[7, 3]", f"torn[{place}, 3]")
    run = after(snippet, "load", "loop", *CHUNKS[1:], "torn")
    assert not run.few.isnan().any()

    for way, n in product(ways, sizes):
        found = vars(run)[way](run.torn[:n]).tolist()
        assert found[:place] + found[place + 1 :] == [place] * (n - 1)


@edits(
    ("inf", "torn[7, 3] = torch.nan", "torn[7, 3] = torch.inf"),
    ("no nan", "torn[7, 3] = torch.nan", "torn[7, 3] = 0"),
)
def test_a_nan_is_everyones_neighbor__but_not_of_other_numbers(
    snippet, old, new, fails
):
    """With `inf` or 0 in its place, the images keep their own neighbors."""
    fails(test_a_nan_is_everyones_neighbor, snippet.edit(old, new), 7)


def test_a_nan_is_everyones_neighbor__but_not_when_filled(snippet, fails):
    """With infinity in place of `nan`, the images find their neighbors."""
    edited = snippet.edit(
        "    distances = torch.cdist(flat, flat)\n",
        "    distances = torch.cdist(flat, flat)\n"
        "    distances[distances.isnan()] = torch.inf\n",
    )
    fails(test_a_nan_is_everyones_neighbor, edited, 7)


def test_a_nan_is_everyones_neighbor__ends_in_the_loop(snippet, fails):
    """The loop passes over a `nan`, because no comparison with it is true."""
    fails(test_a_nan_is_everyones_neighbor, snippet, 7, WAYS[:1], (20,))


# Where it ends


def added_up(rows):
    """Add up all numbers by a loop."""
    total = 0
    for row in rows:
        for number in row:
            total += number
    return total


def test_tolist_leaves_torch(snippet, taken="table.tolist()"):
    run = after(snippet, *CALLS)

    for dtype in DTYPES:
        for table in (run.flat[:9].to(dtype), *tables(dtype)):
            rows = eval(taken, {"table": table})
            watch = run.watched(added_up, rows)
            assert watch.calls == []
            assert all(type(n) in {int, float} for row in rows for n in row)


@pytest.mark.parametrize(
    "taken", ["table", "[list(row) for row in table]", "table.numpy()"]
)
def test_tolist_leaves_torch__but_not_without(snippet, taken, fails):
    """Without `tolist()`, each number is a tensor or a NumPy number."""
    fails(test_tolist_leaves_torch, snippet, taken)
