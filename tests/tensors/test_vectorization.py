"""The claims of docs/tensors/vectorization.md."""

import itertools
from itertools import product

import pytest
import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from extensions.evidence.counterexamples import no_error

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64]
SHAPES = [(1, 1), (1, 9), (8, 1), (4, 7), (30, 3)]
OTHERS = [  # a table, and the region of each of its rows
    ("torch.randn(7, 6)", "[0, 1, 1, 1, 0, 1, 0]"),
    ("torch.rand(2, 6) - 0.5", "[0, 0]"),
    ("torch.tensor([[5.5, 6.0, 6.5, 0.25, -0.5, 1.0]])", "[1]"),
]


def runs(snippet, cell):
    """Yield the program as it stands, and on other tables and regions."""
    yield snippet.after(cell)
    for seed, (table, region) in enumerate(OTHERS):
        torch.manual_seed(seed)
        other = snippet.edit(
            "readings = torch.tensor(", f"readings = (lambda _: {table})("
        ).edit(
            "region = torch.tensor([0, 1, 0])",
            f"region = torch.tensor({region})",
        )
        yield other.after(cell)


def tables(dtype=torch.float32):
    """Yield tables of several shapes."""
    for seed, shape in enumerate(SHAPES):
        torch.manual_seed(seed)
        yield (10 * torch.randn(shape)).to(dtype)


def edits(old, *news):
    """Parametrize a counter-example by what takes the place of a passage."""
    return pytest.mark.parametrize(("old", "new"), [(old, n) for n in news])


# Do this


def test_where_picks_by_mask(snippet, call="torch.where(mask, a, b)"):
    for run in runs(snippet, "do-this"):
        numbers = run.readings.tolist()
        expected = [[0.0 if n < 0 else n for n in row] for row in numbers]
        assert run.rain.tolist() == expected
        assert run.readings._version == 0
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
    fails(test_where_picks_by_mask, snippet, call)


def test_where_picks_by_mask__but_not_from_two_dtypes(snippet, fails):
    fails(test_where_picks_by_mask, snippet, "torch.where(mask, a, b.float())")


@edits(
    "torch.where(readings < 0, 0.0, readings)",
    "torch.where(readings < 0, -readings, readings)",
    "readings.masked_fill_(readings < 0, 0.0)",
)
def test_where_picks_by_mask__but_not_without_the_zero_or_the_copy(
    snippet, old, new, fails
):
    fails(test_where_picks_by_mask, snippet.edit(old, new))


def test_a_mask_chooses_what_is_written(snippet):
    for run in runs(snippet, "do-this"):
        rows = run.rain.tolist()
        assert run.capped.tolist() == [
            [min(n, 6) for n in row] for row in rows
        ]
        assert run.capped._version == 1
        assert run.rain._version == 0


@edits(
    "capped[capped > 6] = 6",
    "capped[capped > 4] = 6",
    "capped[(capped > 6).any(dim=1)] = 6",
    "capped[0][capped[0] > 6] = 6",
    "capped = capped.clamp(max=6)",
    "capped[capped > 6][:] = 6",
)
def test_a_mask_chooses_what_is_written__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_a_mask_chooses_what_is_written, snippet.edit(old, new))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_chooses_what_is_written__also_in_other_dtypes(dtype):
    for table in tables(dtype):
        capped = table.clone()
        capped[capped > 6] = 6
        assert capped.tolist() == [
            [min(n, 6) for n in row] for row in table.tolist()
        ]


def test_sum_adds_each_row(snippet):
    for run in runs(snippet, "do-this"):
        expected = torch.tensor([sum(row) for row in run.rain.tolist()])
        assert_close(run.total, expected)
    for dtype in (torch.float64, torch.bfloat16, torch.int64):
        for table in tables(dtype):
            expected = torch.tensor([sum(row) for row in table.tolist()])
            assert_close(table.sum(dim=1), expected.to(dtype))


@pytest.mark.parametrize("new", ["dim=0", "dim=1, keepdim=True", ""])
def test_sum_adds_each_row__but_not_otherwise(snippet, new, fails):
    edited = snippet.edit(
        "total = rain.sum(dim=1)", f"total = rain.sum({new})"
    )
    edited = edited.edit("index_add(0, region, total)", "clone()")
    edited = edited.edit(
        "gaps = total[:, None] - total[None, :]", "gaps = total"
    )
    fails(test_sum_adds_each_row, edited)


def test_cumsum_is_a_running_total(snippet, more=()):
    for run in runs(snippet, "do-this"):
        assert run.so_far.shape == run.rain.shape
        for amounts, sums in zip(run.rain, run.so_far, strict=True):
            running = 0.0
            for amount, total in zip(amounts.tolist(), sums, strict=True):
                running += amount
                assert_close(total, torch.tensor(running))
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
    fails(test_cumsum_is_a_running_total, snippet, [table])


@edits(
    "rain.cumsum(dim=1)",
    "rain.cumsum(dim=0)",
    "rain.flatten().cumsum(0).reshape(rain.shape)",
    "rain.cumsum(dim=1) - rain",
    "rain.cumprod(dim=1)",
)
def test_cumsum_is_a_running_total__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_cumsum_is_a_running_total, snippet.edit(old, new))


def test_unfold_shows_windows(snippet, call="table.unfold(1, 3, 1)"):
    for run in runs(snippet, "do-this"):
        table = run.rain
        windows = eval(call)
        rows, days = table.shape
        assert windows.shape == (rows, days - 2, 3)
        for s, d in product(range(rows), range(days - 2)):
            assert torch.equal(windows[s, d], table[s, d : d + 3])
            assert_close(run.three_days[s, d], table[s, d : d + 3].sum())
        assert windows.data_ptr() == table.data_ptr()
    for dtype in DTYPES:
        table = torch.arange(20).reshape(2, 10).to(dtype)
        assert eval(call).shape == (2, 8, 3)
        assert eval(call)[1, 7].tolist() == [17, 18, 19]


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
    fails(test_unfold_shows_windows, snippet, call)


def test_index_add_sums_per_group(snippet):
    for run in runs(snippet, "do-this"):
        sums = [0.0, 0.0]
        for place, amount in zip(run.region, run.total, strict=True):
            sums[place] += amount.item()
        assert_close(run.by_region, torch.tensor(sums))


@edits(
    "index_add(0, region, total)",
    "index_copy(0, region, total)",
    "index_put((region,), total)",
    "index_add(0, region, total).flip(0)",
    "index_add(0, region, total, alpha=2)",
)
def test_index_add_sums_per_group__but_not_otherwise(snippet, old, new, fails):
    fails(test_index_add_sums_per_group, snippet.edit(old, new))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_index_add_sums_per_group__also_other_dtypes(snippet, dtype):
    places, numbers = torch.tensor([3, 0, 3, 3]), torch.arange(1, 5)
    sums = torch.zeros(5, dtype=dtype).index_add(0, places, numbers.to(dtype))

    assert sums.tolist() == [2, 0, 0, 8, 0]


def test_bincount_counts_each_group(snippet):
    for run in runs(snippet, "do-this"):
        places = run.region.tolist()
        assert run.stations.tolist() == [places.count(0), places.count(1)]
    for groups in (1, 5, 9):
        for largest in (0, 4, 8):
            places = torch.randint(largest + 1, (20,))
            counts = places.bincount(minlength=groups)[:groups].tolist()
            assert counts == [places.tolist().count(g) for g in range(groups)]


@edits(
    "region.bincount(minlength=2)",
    "region.bincount()",
    "region.unique(return_counts=True)[1]",
    "region.bincount(minlength=2).clamp(max=1)",
    "region.bincount(minlength=2).clamp(min=1)",
)
def test_bincount_counts_each_group__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_bincount_counts_each_group, snippet.edit(old, new))


def test_new_axes_make_all_pairs(snippet):
    for run in runs(snippet, "do-this"):
        n = len(run.total)
        assert run.gaps.shape == (n, n)
        for i, j in product(range(n), repeat=2):
            assert run.gaps[i, j] == run.total[i] - run.total[j]


@edits(
    "total[:, None] - total[None, :]",
    "total[None, :] - total[:, None]",
    "total[:, None] + total[None, :]",
    "(total[:, None] - total[None, :]).abs()",
    "total - total",
)
def test_new_axes_make_all_pairs__but_not_otherwise(snippet, old, new, fails):
    fails(test_new_axes_make_all_pairs, snippet.edit(old, new))


# How it works: calls


def test_amax_equals_the_loop(snippet, others=None):
    run = snippet.after("watch-use")
    edges = [[torch.inf, 1.0], [-torch.inf, -torch.inf]]
    edges = torch.tensor(others or edges)

    assert run.most.tolist() == [max(row) for row in run.rain.tolist()]
    for table in (run.rain, -run.rain, edges, *tables()):
        expected = [max(row) for row in table.tolist()]
        for way in run.ways.values():
            assert way(table).tolist() == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("amount > best[s]", "amount < best[s]"),
        ("torch.full([len(rain)], -torch.inf)", "torch.zeros(len(rain))"),
        ("in range(len(rain))", "in range(2)"),
        ("amount in rain[s]", "amount in rain[s][1:]"),
        ("most = rain.amax(dim=1)", "most = rain.amax(dim=0)"),
        ("lambda rain: rain.amax(dim=1)", "lambda rain: rain.amin(dim=1)"),
    ],
)
def test_amax_equals_the_loop__but_not_otherwise(snippet, old, new, fails):
    fails(test_amax_equals_the_loop, snippet.edit(old, new))


@pytest.mark.parametrize("table", [[[1.0, torch.nan]], [[16777217]]])
def test_amax_equals_the_loop__but_not_with_nan_or_an_integer(
    snippet, table, fails
):
    fails(test_amax_equals_the_loop, snippet, table)


INTEGERS = "table[0, 0]"


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_number_is_a_tensor(snippet, dtype, taken=INTEGERS):
    readings = snippet.after("rain").readings.to(dtype)

    for table in (readings, *tables(dtype)):
        for number in (eval(taken, {"table": table}), *table[0]):
            assert isinstance(number, torch.Tensor)
            assert number.shape == ()


@pytest.mark.parametrize(
    "taken", ["table[0, 0].item()", "table.tolist()[0][0]", "table[:1, 0]"]
)
def test_one_number_is_a_tensor__but_not_taken_otherwise(
    snippet, taken, fails
):
    fails(test_one_number_is_a_tensor, snippet, torch.float32, taken)


LOOKUP, COMPARE, FETCH = (
    "select.int",
    "gt.Tensor",
    "_local_scalar_dense.default",
)


def test_three_calls_a_number(snippet):
    run = snippet.after("watch-use")

    for dtype in DTYPES:
        for table in (run.rain.to(dtype), *tables(dtype)):
            calls = run.watched(run.wettest, table).calls
            for call in (LOOKUP, COMPARE, FETCH):
                assert calls.count(call) >= table.numel()


def test_three_calls_a_number__but_not_with_python_numbers(snippet, fails):
    edited = snippet.edit(
        "torch.full([len(rain)], -torch.inf)", "[-torch.inf] * len(rain)"
    )
    fails(test_three_calls_a_number, edited)


@pytest.mark.parametrize(
    "new",
    [
        "            if amount.item() > best[s].item():\n"
        "                best[s] = amount\n",
        "            larger = amount > best[s]\n"
        "            best[s] = torch.where(larger, amount, best[s])\n",
    ],
)
def test_three_calls_a_number__but_not_with_one_of_them_less(
    snippet, new, fails
):
    edited = snippet.edit(
        "            if amount > best[s]:\n                best[s] = amount\n",
        new,
    )
    fails(test_three_calls_a_number, edited)


class Answers(TorchDispatchMode):
    """Keep the answers of all comparisons."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        answer = call(*args, **(kwargs or {}))
        if call.__name__.startswith("gt."):
            self.kept.append(answer)
        return answer


def test_each_comparison_makes_a_tensor(snippet):
    run = snippet.after("watch-use")

    for table in (run.rain, *tables()):
        with Answers() as answers:
            run.wettest(table)
        places = {answer.data_ptr() for answer in answers.kept}
        assert len(places) == table.numel()


ONE_ANSWER = "answer=torch.tensor(False)"


def test_each_comparison_makes_a_tensor__but_not_into_one_answer(
    snippet, fails
):
    edited = snippet.edit(
        "def wettest(rain):", f"def wettest(rain, {ONE_ANSWER}):"
    )
    edited = edited.edit(
        "if amount > best[s]:", "if torch.gt(amount, best[s], out=answer):"
    )
    fails(test_each_comparison_makes_a_tensor, edited)


def test_each_comparison_makes_a_tensor__but_not_of_python_numbers(
    snippet, fails
):
    edited = snippet.edit("amount > best[s]", "amount.item() > best[s].item()")
    fails(test_each_comparison_makes_a_tensor, edited)


def test_amax_is_one_call(snippet):
    run = snippet.after("watch-use")
    way = run.ways["amax(dim=1)"]

    for dtype in DTYPES:
        for table in (run.rain, *tables(dtype)):
            assert run.watched(way, table).calls == ["amax.default"]


@edits(
    "lambda rain: rain.amax(dim=1)",
    "lambda rain: rain.abs().amax(dim=1)",
    "lambda rain: torch.cat([c.amax(dim=1) for c in rain.split(9)])",
)
def test_amax_is_one_call__but_not_other_ways(snippet, old, new, fails):
    fails(test_amax_is_one_call, snippet.edit(old, new))


def test_a_call_per_row(snippet):
    run = snippet.after("watch-use")
    way = run.ways["a loop over stations"]

    for table in (run.rain, *tables()):
        assert len(run.watched(way, table).calls) == len(table) + 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("r.amax()", "r.abs().amax()"),
        ("torch.stack([r.amax()", "torch.hstack([r.amax()"),
    ],
)
def test_a_call_per_row__but_not_with_other_steps(snippet, old, new, fails):
    fails(test_a_call_per_row, snippet.edit(old, new))


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
    ("sd,dh->sh", [(2, 3), (3, 4)]),
    ("ysd,ydh->ysh", [(2, 2, 3), (2, 3, 2)]),
    ("sd,td->st", [(2, 3), (4, 3)]),
    ("i,i->", [(5,), (5,)]),
    ("i,j->ij", [(2,), (3,)]),
    ("ij->ji", [(2, 3)]),
    ("ii->i", [(3, 3)]),
    ("ijk->j", [(2, 3, 2)]),
    ("ab,bc,cd->da", [(2, 3), (3, 2), (2, 2)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum_adds_over_other_letters(snippet, equation, shapes):
    run = snippet.after("einsum")
    pairs = {
        "sd,dh->sh": (run.per_half, run.rain, run.half),
        "ysd,ydh->ysh": (run.per_year, run.years, run.halves),
        "sd,td->st": (run.alike, run.rain, run.rain),
    }
    if equation in pairs:
        result, *inputs = pairs[equation]
        assert_close(result, sums_of_products(equation, *inputs))
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in shapes]
    result = torch.einsum(equation, *inputs)
    assert_close(result, sums_of_products(equation, *inputs))


def test_einsum_adds_over_other_letters__but_not_where_a_letter_has_two_sizes(
    snippet, fails
):
    fails(
        test_einsum_adds_over_other_letters,
        snippet,
        "sd,dh->sh",
        [(2, 1), (3, 4)],
    )


@edits(
    'torch.einsum("sd,dh->sh", rain, half)',
    "(rain[:, :, None] * half).mean(dim=1)",
    "(rain[:, :, None] + half).sum(dim=1)",
    'torch.einsum("sd,dh->h", rain, half).expand(3, 2)',
)
def test_einsum_adds_over_other_letters__but_not_otherwise(
    snippet, old, new, fails
):
    fails(
        test_einsum_adds_over_other_letters,
        snippet.edit(old, new),
        *EQUATIONS[0],
    )


def test_einsum_is_a_product(snippet):
    for run in runs(snippet, "einsum"):
        assert_close(run.per_half, run.rain @ run.half)
        assert_close(run.per_half[:, 0], run.rain[:, :3].sum(dim=1))
        assert_close(run.per_half[:, 1], run.rain[:, 3:].sum(dim=1))


@pytest.mark.parametrize("new", ["sd,dh->hs", "sd,dh->s", "sd,dh->sdh"])
def test_einsum_is_a_product__but_not_with_other_letters(snippet, new, fails):
    fails(test_einsum_is_a_product, snippet.edit("sd,dh->sh", new))


def test_einsum_is_a_batch_product(snippet):
    for run in runs(snippet, "einsum"):
        assert_close(run.per_year, torch.bmm(run.years, run.halves))
        for year, table in zip(run.per_year, run.years, strict=True):
            assert_close(year, table @ run.half)
        assert_close(run.per_year[1], 2 * run.per_half)


@pytest.mark.parametrize("new", ["ysd,zdh->ysh", "ysd,ydh->sh"])
def test_einsum_is_a_batch_product__but_not_with_other_letters(
    snippet, new, fails
):
    fails(test_einsum_is_a_batch_product, snippet.edit("ysd,ydh->ysh", new))


def test_einsum_compares_all_rows(snippet):
    for run in runs(snippet, "einsum"):
        assert_close(run.alike, run.rain @ run.rain.T)
        for i, j in product(range(len(run.rain)), repeat=2):
            assert_close(run.alike[i, j], (run.rain[i] * run.rain[j]).sum())


@pytest.mark.parametrize("new", ["sd,sd->s", "sd,se->de", "sd,te->st"])
def test_einsum_compares_all_rows__but_not_with_other_letters(
    snippet, new, fails
):
    fails(test_einsum_compares_all_rows, snippet.edit("sd,td->st", new))


def test_vmap_runs_each_row(snippet):
    for run in runs(snippet, "vmap"):
        looped = torch.stack([days.max() / days.sum() for days in run.rain])
        assert_close(run.shares, looped, equal_nan=True)
        for table in tables():
            mapped = torch.vmap(run.share)(table.abs())
            looped = torch.stack([run.share(days) for days in table.abs()])
            assert_close(mapped, looped)


@pytest.mark.parametrize("new", ["torch.vmap(share, in_dims=1)", "share"])
def test_vmap_runs_each_row__but_not_columns_or_alone(snippet, new, fails):
    fails(
        test_vmap_runs_each_row, snippet.edit("torch.vmap(share)(", f"{new}(")
    )


# What goes wrong


AMBIGUOUS = "Boolean value of Tensor with more than one value is ambiguous"


def test_an_if_takes_one_number(snippet):
    uncaught = snippet.edit(
        'reading")\nexcept RuntimeError as error:',
        'reading")\nexcept ZeroDivisionError as error:',
    )
    with pytest.raises(RuntimeError, match=AMBIGUOUS):
        uncaught.after("if-of-many")
    for dtype in (torch.bool, *DTYPES):
        for shape in ((2,), (2, 1), (3, 4), (1, 2, 2)):
            with pytest.raises(RuntimeError, match=AMBIGUOUS):
                1 if torch.ones(shape, dtype=dtype) else 0


@pytest.mark.parametrize(
    "new",
    ["(readings < 0).any()", "(readings < 0).all()", "readings[0, 0] < 0"],
)
def test_an_if_takes_one_number__but_not_of_one_answer(snippet, new, fails):
    edited = snippet.edit("    if readings < 0:", f"    if {new}:")
    fails(test_an_if_takes_one_number, edited)


def test_repeated_places_lose(snippet):
    filled = snippet.edit("lost = torch.zeros(2)", "lost = torch.ones(2)")

    for start, program in enumerate((snippet, filled)):
        for run in runs(program, "lost"):
            for place in (0, 1):
                totals = run.total[run.region == place]
                if len(totals) == 0:
                    totals = torch.zeros(1)
                assert run.lost[place] in start + totals
                if len(totals) > 1:
                    assert run.lost[place] != start + run.by_region[place]


def test_repeated_places_lose__but_not_with_index_add(snippet, fails):
    edited = snippet.edit(
        "lost[region] += total", "lost.index_add_(0, region, total)"
    )
    fails(test_repeated_places_lose, edited)


@edits(
    "lost[region] += total",
    "lost.index_put_((region,), total, accumulate=True)",
    "lost[region] = total",
    "lost[region] += total.mean()",
    "lost[region[:1]] += total[:1]",
)
def test_repeated_places_lose__but_not_by_other_lines(
    snippet, old, new, fails
):
    fails(test_repeated_places_lose, snippet.edit(old, new))


def test_the_wrong_dim_compares_columns(snippet, columns=9):
    for run in runs(snippet, "wrong-axis"):
        assert torch.equal(run.shifted[:, 1:], run.rain[:, :-1])
        assert torch.equal(run.shifted[:, 0], run.rain[:, -1])
        assert run.wrong.shape == (run.rain.shape[1],)
        pairs = zip(run.rain.T, run.shifted.T, strict=True)
        for result, (a, b) in zip(run.wrong, pairs, strict=True):
            alone = F.cosine_similarity(a[None], b[None])[0]
            assert_close(result, alone)
            lengths = a.norm() * b.norm()
            if lengths > 1e-4:
                assert_close(result, a.dot(b) / lengths)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for table in tables(dtype):
            with no_error():
                similar = torch.cosine_similarity(
                    table, (table + 1)[:, :columns], dim=0
                )
            assert similar.shape == (table.shape[1],)


@edits("shifted, dim=0)", "shifted, dim=1)", "shifted.flip(1), dim=0)")
def test_the_wrong_dim_compares_columns__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_the_wrong_dim_compares_columns, snippet.edit(old, new))


def test_the_wrong_dim_compares_columns__but_not_of_two_shapes(snippet, fails):
    fails(test_the_wrong_dim_compares_columns, snippet, 2)


def with_nan():
    """Yield tables with nan at the start, at the end, and all over a row."""
    for place in ((0, 0), (0, -1), (1, 2), (2, slice(None))):
        table = torch.randn(3, 5)
        table[0, 3], table[1, 0] = torch.inf, -torch.inf
        table[place] = torch.nan
        yield table


def largest_known(table):
    """Return the largest number of each row, but for nan, by Python."""
    rows = [[n for n in row if n == n] for row in table.tolist()]
    return torch.tensor([max(row, default=-torch.inf) for row in rows])


def test_amax_keeps_nan(snippet, call="amax(dim=1)"):
    run = snippet.after("missing")

    assert run.broken[0].isnan().any()
    for table in (run.broken, *with_nan()):
        assert torch.equal(run.wettest(table), largest_known(table))
        holds = table.isnan().any(dim=1)
        assert torch.equal(eval(f"table.{call}").isnan(), holds)
    assert not run.rain.isnan().any()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if amount > best[s]", "if not amount <= best[s]"),
        ("torch.full([len(rain)], -torch.inf)", "rain[:, 0].clone()"),
    ],
)
def test_amax_keeps_nan__but_not_with_another_loop(snippet, old, new, fails):
    fails(test_amax_keeps_nan, snippet.edit(old, new), "amax(dim=1)")


@pytest.mark.parametrize(
    "call", ["nan_to_num().amax(dim=1)", "nanmedian(dim=1).values"]
)
def test_amax_keeps_nan__but_other_calls_do_not(snippet, call, fails):
    fails(test_amax_keeps_nan, snippet, call)


@pytest.mark.parametrize("call", ["max(dim=1).values", "double().amax(dim=1)"])
def test_amax_keeps_nan__also_by_max_and_in_float64(snippet, call):
    test_amax_keeps_nan(snippet, call)


def test_a_filled_table_passes_over_nan(snippet):
    run = snippet.after("missing")

    assert torch.equal(run.known.amax(dim=1), largest_known(run.broken))
    for table in with_nan():
        numbers = f"{table.tolist()}".replace("nan", "torch.nan")
        other = snippet.edit(
            "broken[0, 1] = torch.nan\n",
            f"broken = torch.tensor({numbers.replace('inf', 'torch.inf')})\n",
        ).after("missing")
        assert torch.equal(other.known.amax(dim=1), largest_known(table))


@edits(
    "broken.masked_fill(broken.isnan(), -torch.inf)",
    "broken",
    "broken.nan_to_num()",
    "broken.nan_to_num(nan=-torch.inf)",
)
def test_a_filled_table_passes_over_nan__but_not_filled_otherwise(
    snippet, old, new, fails
):
    fails(test_a_filled_table_passes_over_nan, snippet.edit(old, new))


AMOUNTS = ["[0.0, 4.0]", "[0.0, 0.0, 2.0]", "[0.5, 0.0]", "[0.0]"]


def with_amounts(snippet, amounts):
    """Return the program with other amounts."""
    return snippet.edit(
        "amount = torch.tensor([0.0, 4.0],",
        f"amount = torch.tensor({amounts},",
    )


def slope_at_zero(function):
    """Return the derivative of a function at 0."""
    zero = torch.zeros((), requires_grad=True)
    return torch.autograd.grad(function(zero), zero)[0].item()


@pytest.mark.parametrize("amounts", AMOUNTS)
def test_an_unused_side_spoils_the_gradient(snippet, amounts):
    run = with_amounts(snippet, amounts).after("both-sides")
    zeros = run.amount == 0

    assert run.logs[zeros].tolist() == [0.0] * int(zeros.sum())
    assert run.amount.grad[zeros].isnan().all()
    assert torch.equal(run.amount.grad[~zeros], 1 / run.amount[~zeros])
    assert slope_at_zero(torch.log) == torch.inf


@edits(
    "torch.where(amount > 0, amount.log(), 0.0)",
    "torch.where(amount > 0, amount.log1p(), 0.0)",
    "torch.where(amount > 0, amount.clamp(min=1e-9).log(), 0.0)",
    "torch.cat([torch.zeros(1), amount[amount > 0].log()])",
    "torch.where(amount >= 0, amount.log(), 0.0)",
)
def test_an_unused_side_spoils_the_gradient__but_not_otherwise(
    snippet, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_an_unused_side_spoils_the_gradient, edited, AMOUNTS[0])


@pytest.mark.parametrize("function", [torch.sqrt, torch.reciprocal])
def test_an_unused_side_spoils_the_gradient__also_with_other_steep_functions(
    function,
):
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    torch.where(x > 0, function(x), 0.0).sum().backward()

    assert abs(slope_at_zero(function)) == torch.inf
    assert x.grad.isnan().tolist() == [True, False]


@pytest.mark.parametrize("amounts", AMOUNTS)
def test_a_safe_input_keeps_the_gradient(snippet, amounts):
    run = with_amounts(snippet, amounts).after("both-sides-safe")
    numbers = run.amount.tolist()

    expected = torch.tensor([1 / n if n else 0.0 for n in numbers])
    assert torch.equal(run.amount.grad, expected)
    logs = [torch.tensor(n).log().item() if n else 0.0 for n in numbers]
    assert run.logs.tolist() == logs
    assert run.safe.tolist() == [n or 1.0 for n in numbers]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.where(amount > 0, amount, 1.0)", "amount"),
        ("torch.where(amount > 0, amount, 1.0)", "amount + 1.0"),
        ("torch.where(amount > 0, safe.log(), 0.0)", "2 * safe.log()"),
    ],
)
def test_a_safe_input_keeps_the_gradient__but_not_otherwise(
    snippet, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_a_safe_input_keeps_the_gradient, edited, AMOUNTS[0])


def test_a_safe_input_keeps_the_gradient__but_not_below_zero(snippet, fails):
    fails(test_a_safe_input_keeps_the_gradient, snippet, "[-2.0, 0.0]")


# What goes wrong: pairs

SIZES = [(200, 30), (9, 5), (40, 1), (1, 7)]


def bytes_of_differences(run, way, table):
    """Return the bytes of each tensor of differences that a way makes."""
    watch = run.watched(way, table, table)
    seen = zip(watch.calls, watch.bytes, strict=True)
    return [size for call, size in seen if call == "sub.Tensor"]


def test_all_pairs_take_n_n_d(snippet, dtype="float32"):
    run = snippet.after("all-pairs-bytes")

    assert run.largest["all at once"] == 200 * 200 * 30 * 4
    for n, d in SIZES:
        table = torch.rand(n, d, dtype=getattr(torch, dtype))
        sizes = bytes_of_differences(run, run.pairs["all at once"], table)
        assert sizes == [n * n * d * 4]
        result = run.distances(table, table + 1)
        for i, j in product(range(min(n, 5)), repeat=2):
            apart = sum((table[i] - table[j] - 1).square()).sqrt()
            assert_close(result[i, j], apart)


@pytest.mark.parametrize(
    "new",
    ["torch.cdist(a, b)", "torch.stack([(row - b).norm(dim=1) for row in a])"],
)
def test_all_pairs_take_n_n_d__but_not_otherwise(snippet, new, fails):
    edited = snippet.edit(
        "return (a[:, None] - b[None, :]).square().sum(dim=2).sqrt()",
        f"return {new}",
    )
    fails(test_all_pairs_take_n_n_d, edited)


def test_all_pairs_take_n_n_d__but_more_in_float64(snippet, fails):
    fails(test_all_pairs_take_n_n_d, snippet, "float64")


@pytest.mark.parametrize("k", [20, 1, 7, 300])
def test_chunks_take_k_n_d(snippet, k):
    if k != 20:
        snippet = snippet.edit("a.split(20)", f"a.split({k})")
    run = snippet.after("all-pairs-bytes")

    if k == 20:
        assert run.largest["in chunks"] == 20 * 200 * 30 * 4
    for n, d in SIZES:
        table = torch.rand(n, d)
        sizes = bytes_of_differences(run, run.pairs["in chunks"], table)
        assert max(sizes) == min(k, n) * n * d * 4
        assert sum(sizes) == n * n * d * 4
        chunked, whole = (
            way(table, table) for way in (run.in_chunks, run.distances)
        )
        assert_close(chunked, whole)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a.split(20)", "a.split(40)"),
        ("distances(rows, b)", "distances(rows, b.flip(0))"),
        ("distances(rows, b)", "distances(rows, b)[:1]"),
    ],
)
def test_chunks_take_k_n_d__but_not_otherwise(snippet, old, new, fails):
    fails(test_chunks_take_k_n_d, snippet.edit(old, new), 20)


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
    run = snippet.after("all-pairs-bytes")
    way = run.pairs["cdist"]

    assert run.largest["cdist"] == 200 * 200 * 4
    assert_close(
        way(run.month, run.month + 1),
        run.distances(run.month, run.month + 1),
        rtol=1e-4,
        atol=0,
    )
    assert 0 < peak(way, run.month, run.month) < 200 * 200 * 30 * 4 / 10


def test_cdist_makes_no_differences__but_not_all_at_once(snippet, fails):
    edited = snippet.edit(
        'pairs["cdist"] = torch.cdist', 'pairs["cdist"] = distances'
    )
    fails(test_cdist_makes_no_differences, edited)


def test_too_many_pairs_raise(snippet):
    numbers = 100_000_000 * 100_000_000 * 30
    assert 4 * numbers > 2**57  # as many bytes as a processor has addresses
    uncaught = snippet.edit(
        "except RuntimeError as error:\n    print(error)\n\n# %% from-itself",
        "except KeyError as error:\n    print(error)\n\n# %% from-itself",
    )
    with pytest.raises(RuntimeError, match=f"{4 * numbers} bytes"):
        uncaught.after("too-many-pairs")


@edits(
    "    distances(many, many)",
    "    distances(many[:9], many[:100])",
    "    distances(many[:, :20], many)",
)
def test_too_many_pairs_raise__but_not_for_few_or_without_the_bytes(
    snippet, old, new, fails
):
    fails(test_too_many_pairs_raise, snippet.edit(old, new))


def test_cdist_is_off_from_26_rows(snippet):
    run = snippet.after("from-itself")

    assert len(run.from_few) == 25
    assert run.from_few.max() == 0
    assert run.from_more.shape == (26,)
    assert run.from_more.max() > 0.001


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.cdist(few, few)", "torch.cdist(few, more[:, :30])"),
        ("torch.cdist(more, more).", "torch.cdist(more, more, 2.0, exact)."),
        ("month = 10 * torch.rand", "month = 0.1 * torch.rand"),
    ],
)
def test_cdist_is_off_from_26_rows__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_cdist_is_off_from_26_rows, snippet.edit(old, new))


@pytest.mark.parametrize("seed", range(1, 5))
def test_cdist_is_off_from_26_rows__also_from_other_seeds(snippet, seed):
    edited = snippet.edit("torch.manual_seed(0)", f"torch.manual_seed({seed})")
    test_cdist_is_off_from_26_rows(edited)


def test_the_exact_mode_gives_zero(snippet, others=tables):
    run = snippet.after("from-itself")

    assert run.from_exact.tolist() == [0.0] * 26
    for dtype in (torch.float32, torch.float64):
        for table in (run.month.to(dtype), *others(dtype)):
            apart = torch.cdist(table, table, compute_mode=run.exact)
            assert apart.diagonal().tolist() == [0.0] * len(table)


def test_the_exact_mode_gives_zero__but_not_with_inf(snippet, fails):
    def others(dtype):
        return [torch.tensor([[torch.inf, 1.0]], dtype=dtype)]

    fails(test_the_exact_mode_gives_zero, snippet, others)


@pytest.mark.parametrize(
    "mode", ["use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary"]
)
def test_the_exact_mode_gives_zero__but_not_the_others(snippet, mode, fails):
    edited = snippet.edit("donot_use_mm_for_euclid_dist", mode)
    fails(test_the_exact_mode_gives_zero, edited)


# Where it ends


def test_sums_differ_by_rounding(snippet):
    run = snippet.after("rounding")
    exact = run.month.double().sum()

    assert run.month.numel() == 6000
    assert run.running != run.at_once
    assert (run.at_once - exact).abs() < (run.running - exact).abs()
    assert_close(run.running, run.at_once, rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "running = torch.tensor(0.0)",
            "running = torch.tensor(0.0).double()",
        ),
        ("for amount in month.flatten()", "for amount in [month.sum()]"),
        (
            "month = 10 * torch.rand(200, 30)",
            "month = (10 * torch.rand(200, 30)).round()",
        ),
    ],
)
def test_sums_differ_by_rounding__but_not_otherwise(snippet, old, new, fails):
    fails(test_sums_differ_by_rounding, snippet.edit(old, new))


@pytest.mark.parametrize("seed", range(1, 4))
def test_sums_differ_by_rounding__also_from_other_seeds(snippet, seed):
    edited = snippet.edit("torch.manual_seed(0)", f"torch.manual_seed({seed})")
    test_sums_differ_by_rounding(edited)


def test_the_loop_loses_digits(snippet):
    run = snippet.after("digits")

    assert run.looped.dtype == torch.float32
    assert run.looped.tolist() == [16777216, 3]
    assert run.called.dtype == run.counts.dtype == torch.int64
    assert run.called.tolist() == [16777217, 3]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[len(rain)], -torch.inf)", "[len(rain)], -torch.inf).double()"),
        ("[len(rain)], -torch.inf)", "[len(rain)], -1)"),
        ("counts.amax(dim=1)\n", "counts.float().amax(dim=1)\n"),
        ("counts.amax(dim=1)\n", "counts.double().amax(dim=1)\n"),
    ],
)
def test_the_loop_loses_digits__but_not_in_other_dtypes(
    snippet, old, new, fails
):
    fails(test_the_loop_loses_digits, snippet.edit(old, new))


def test_the_loop_loses_digits__also_of_int32(snippet):
    edited = snippet.edit("[3, 2]])\n", "[3, 2]], dtype=torch.int32)\n")
    run = edited.after("digits")

    assert run.called.dtype == torch.int32
    assert run.looped.tolist() == [16777216, 3]
    assert run.called.tolist() == [16777217, 3]


def test_calls_grow_with_days(snippet):
    run = snippet.after("soil")

    def calls(stations, days):
        return len(run.watched(run.soil, torch.rand(stations, days)).calls)

    for days in (1, 5, 20):
        assert calls(1, days) == calls(7, days) == calls(50, days)
        assert calls(3, days) < calls(3, days + 1)
    for table in (run.rain, *(table.abs() for table in tables())):
        for amounts, levels in zip(table, run.soil(table), strict=True):
            level = 0.0
            for amount, shown in zip(amounts.tolist(), levels, strict=True):
                level = min(0.5 * level + amount, 10)
                assert_close(shown, torch.tensor(float(level)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "(0.5 * level + day).clamp(max=10)",
            "torch.stack([(0.5 * a + b).clamp(max=10)"
            " for a, b in zip(level, day)])",
        ),
        ("rain.unbind(dim=1)", "rain.unbind(dim=1)[:1]"),
    ],
)
def test_calls_grow_with_days__but_not_otherwise(snippet, old, new, fails):
    fails(test_calls_grow_with_days, snippet.edit(old, new))


def added_up(rows):
    """Add up all numbers by a loop."""
    total = 0
    for row in rows:
        for number in row:
            total += number
    return total


def test_tolist_leaves_torch(snippet, taken="table.tolist()"):
    run = snippet.after("watch-use")

    for dtype in DTYPES:
        for table in (run.rain.to(dtype), *tables(dtype)):
            rows = eval(taken, {"table": table})
            watch = run.watched(added_up, rows)
            assert watch.calls == []
            assert all(type(n) in {int, float} for row in rows for n in row)


@pytest.mark.parametrize(
    "taken", ["table", "[list(row) for row in table]", "table.numpy()"]
)
def test_tolist_leaves_torch__but_not_without(snippet, taken, fails):
    fails(test_tolist_leaves_torch, snippet, taken)
