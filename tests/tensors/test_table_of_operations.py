"""The claims of docs/tensors/table_of_operations.md, by NumPy and by hand."""

import ast
import itertools
import math
import operator
import re
import statistics

import numpy as np
import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older

FLOATS = [torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
SHAPES = [(4,), (3, 2), (2, 1, 3), (2, 3, 1, 4)]
REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "std": torch.std,
    "median": torch.median,
    "max": torch.max,
    "amax": torch.amax,
    "argmax": torch.argmax,
}
LENGTHS = [*itertools.product((1, 2, 5, 12), (1, 2, 3, 5, 20))]


def instead_of(old, *others):
    """Parametrize a counter-example by what stands in place of a call."""
    name, equals, _ = old.rpartition(" = ")
    return edits(*((old, name + equals + other) for other in others))


def random(shape, dtype=torch.float64, seed=0):
    """Return numbers around zero, some of them zero, some equal."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-9, 30, shape, generator=generator).to(dtype) / 2


def tensors(shapes=tuple(SHAPES), dtypes=tuple(FLOATS)):
    """Yield tensors, each with one of its axes, also counted from the end."""
    for shape, dtype in itertools.product(shapes, dtypes):
        for d in range(-len(shape), len(shape)):
            yield random(shape, dtype), d


def error_of(call, *inputs):
    """Return what a call complains of: nothing, if it runs."""
    try:
        call(*inputs)
    except (RuntimeError, TypeError, IndexError) as error:
        return str(error)
    return ""


def same(one, other):
    """Return whether two tensors agree up to rounding, nan included."""
    return one.shape == other.shape and torch.allclose(
        one.double(), other.double(), rtol=1e-4, equal_nan=True
    )


def lengths(cut):
    """Return how long parts are."""
    return [len(part) for part in cut]


# Look up an operation


def plain(result):
    """Return a result as numbers and truths, in lists."""
    if isinstance(result, tuple):
        return [plain(each) for each in result]
    return result.tolist() if isinstance(result, torch.Tensor) else result


def agrees(found, wanted, rounding=1e-5):
    """Return whether numbers and truths, in lists, are as they should be."""
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(
            agrees(*pair, rounding) for pair in zip(found, wanted, strict=True)
        )
    return (
        not isinstance(found, list)
        and not isinstance(wanted, list)
        and isinstance(found, bool) is isinstance(wanted, bool)
        and math.isclose(found, wanted, rel_tol=rounding, abs_tol=rounding)
    )


def each(f, *matrices):
    return [[*map(f, *rows)] for rows in zip(*matrices, strict=True)]


def turned(rows):
    return [[*column] for column in zip(*rows, strict=True)]


def dot(one, other):
    return sum(map(operator.mul, one, other))


def times(left, right):
    return [[dot(row, column) for column in turned(right)] for row in left]


def ordered(x, **order):
    return turned(sorted(column, **order) for column in turned(x))


def places(x, **order):
    """Return from where to take each column in order."""
    return turned(
        sorted(range(len(column)), key=column.__getitem__, **order)
        for column in turned(x)
    )


# What a row's words say of matrices x, y and m; flat are the numbers of x.
MEANS = """
the product of each pair of numbers | each(mul, x, y)
the square of each number | each(lambda a: a * a, x)
each number without its sign | each(abs, x)
e to the power of each number | each(exp, m)
the natural logarithm of each number | each(log, m)
the square root of each number | each(sqrt, m)
each number, but 0 if lower and 15 if higher | each(clamped, x)
the lower number of each pair | each(min, x, y)
the higher number of each pair | each(max, x, y)
whether each number is above 10 | each(lambda a: a > 10, x)
whether the numbers of each pair are equal | each(eq, x, y)
whether shape and numbers are equal | x == y
whether any number is above 10 | max(flat) > 10
whether all numbers of each row are above 10 | [min(r) > 10 for r in x]
numbers above 10, else 0 | each(lambda a: a if a > 10 else 0, x)
the rows of both, one after the other | x + y
both, on a new first axis | [x, y]
parts of two rows, the last may be shorter | in_twos(x)
the sum of all numbers | sum(flat)
the mean of all numbers | mean(flat)
the standard deviation, over the count less one | stdev(flat)
the lowest number | min(flat)
the highest number of each row | [max(r) for r in x]
where the highest number of each row is | [r.index(max(r)) for r in x]
the middle number, the lower one of two | median_low(flat)
each column, added up so far | turned(map(accumulate, turned(x)))
the root of the sum of all squares | hypot(*flat)
the different numbers, in ascending order | sorted({*flat})
each column ascending, and from where | [ordered(x), places(x)]
from where to take each column ascending | places(x)
the two highest of each column, and from where | two_highest(x)
the product of two matrices | times(x, m)
products added up over j | times(x, m)
the matrix with zeros below the diagonal | without_lower(m)
the diagonal of a matrix | [m[i][i] for i in range(len(m))]
the remainder of a division by 4, 0 or more | each(remainder, x)
-1 below 0, 0 at 0 and 1 above 0 | each(sign_of, x)
a quarter of each number, rounded, halves to even | each(quarter, x)
each number, but 0 if lower | each(lambda a: max(a, 0), x)
1 / (1 + e to the power of minus each number) | each(sigmoid, m)
whether both numbers of each pair are above 10 | each(both, x, y)
how many numbers are above 10 | len([a for a in flat if a > 10])
the product of each row | [*map(prod, x)]
the variance, over the count less one | variance(flat)
the highest number of each row, and where it is | highest(x)
the middle number, halfway between two | median(flat)
the log of the sum of e to each number of a row | [*map(logsumexp, x)]
the rows, one by one | x
each row ascending, and from where | [*map(turned, by_row(x))]
the rows in reverse order | x[::-1]
e to each number, over the sum of these per row | [*map(softmax, x)]
the product of a matrix and a vector | [dot(r, m[0]) for r in x]
each number of a vector times each of another | outer(m[0], m[1])
the matrix with zeros above the diagonal | turned(without_lower(turned(m)))
a matrix of zeros with the vector on its diagonal | diagonal(m[0])
the sum of the diagonal | sum(m[i][i] for i in range(len(m)))
"""
MEANS = dict(line.split(" | ") for line in MEANS.strip().splitlines())
CALLS = vars(operator) | vars(math) | vars(statistics) | vars(itertools)


def clamped(number):
    return min(max(number, 0), 15)


def remainder(number):
    return number % 4


def sign_of(number):
    return (number > 0) - (number < 0)


def quarter(number):
    return round(number / 4)


def sigmoid(number):
    return 1 / (1 + math.exp(-number))


def both(one, other):
    return one > 10 and other > 10


def logsumexp(row):
    return math.log(sum(map(math.exp, row)))


def outer(one, other):
    return [[a * b for b in other] for a in one]


def in_twos(x):
    return [x[i : i + 2] for i in range(0, len(x), 2)]


def two_highest(x):
    order = {"reverse": True}
    return [ordered(x, **order)[:2], places(x, **order)[:2]]


def by_row(x):
    return ordered(turned(x)), places(turned(x))


def highest(x):
    return [[*map(max, x)], [row.index(max(row)) for row in x]]


def softmax(row):
    powers = [math.exp(number) for number in row]
    return [power / sum(powers) for power in powers]


def diagonal(row):
    places = range(len(row))
    return [[row[i] * (i == j) for j in places] for i in places]


def without_lower(m):
    return [[0] * i + row[i:] for i, row in enumerate(m)]


def operands(run, words):
    """Yield matrices to operate on: those of the page, and others.

    Some of their numbers are equal, nearly equal, 10, or nearly 10.
    """
    yield run.x, run.y, run.m
    for seed, (n, m) in enumerate([(3, 2), (2, 3), (5, 4)]):
        generator = torch.Generator().manual_seed(seed)
        square = torch.rand(m, m, generator=generator) + 0.1
        x = torch.rand(n, m, generator=generator) * 30 - 9 - 10 * (seed == 2)
        if "where" in words:  # which says nothing of equal numbers
            yield x, x, square
            continue
        x.view(-1)[:4] = torch.tensor([10.0, 9.99, x[-1, -1], 12])
        other = random((n, m), torch.float32, seed + 9) + 0.25
        is_equal = torch.rand(n, m, generator=generator) < 0.4
        after = x.nextafter(torch.tensor(100.0))
        yield x, torch.where(is_equal, x, other), square
        yield x, x.clone(), square
        yield x.clamp(max=10), after.clamp(max=10), square
        yield x.clamp(min=10), after, square
    if "shape" in words:
        yield square / square, torch.ones(1, m), square


def reads(words, call, x, y, m):
    """Return whether a call gives what words say."""
    names = {"torch": torch, "x": x, "y": y, "m": m}
    found = plain(eval(call, names))
    x, y, m = map(plain, (x, y, m))
    lists = {"x": x, "y": y, "m": m, "flat": [*itertools.chain(*x)]}
    return agrees(found, eval(MEANS[words], CALLS | globals() | lists))


def calls_of(run):
    """Return the calls of all tables, and what the page says of each."""
    tables = run.number_by_number, run.comparisons, run.reductions
    tables += run.joins, run.orders, run.matrices
    calls = {call: words for each in tables for call, words in each.items()}
    assert len(calls) == sum(map(len, tables)), "a call stands twice"
    return calls


def test_calls_do_what_their_rows_say(snippet, only=None):
    run = snippet.after("matrices")
    calls = calls_of(run)

    rows = run.table(calls)
    assert {call: row["what"] for call, row in rows.items()} == calls
    assert {*calls.values()} == {*MEANS}, "words that nothing reads"
    for call, words in calls.items():
        if only in (None, words):
            for matrices in operands(run, words):
                assert reads(words, call, *matrices), call
            gives = rows[call]["gives"]
            result = plain(eval(call, vars(run)))
            assert agrees(ast.literal_eval(gives), result, 5e-4)
            for number in re.findall(r"[\d.]+", gives):
                assert len(number.replace(".", "").lstrip("0")) <= 4


SWAPPED = """
the sum of all numbers | the mean of all numbers
the lower number of each pair | the higher number of each pair
the lowest number | the middle number, the lower one of two
the square of each number | each number without its sign
whether any number is above 10 | whether each number is above 10
each column ascending, and from where | both, on a new first axis
the product of two matrices | the product of each pair of numbers
"""


def halves(table):
    return [line.split(" | ") for line in table.strip().splitlines()]


@pytest.mark.parametrize("swap", halves(SWAPPED))
def test_calls_do_what_their_rows_say__but_not_with_words_swapped(
    snippet, swap, fails
):
    """If you swap what two rows say, neither says what its call gives."""
    one, other = (f'": "{words}"' for words in swap)
    edited = snippet.edit(one, "...").edit(other, one).edit("...", other)
    fails(test_calls_do_what_their_rows_say, edited, swap[0])


OTHERS = """
x * y | x @ y.mT
x.pow(2) | x.pow(3)
x.abs() | -x
m.exp() | m.exp2()
m.log() | m.log2()
m.sqrt() | m.rsqrt()
x.clamp(0, 15) | x.clamp(0, 16)
torch.minimum(x, y) | torch.fmax(x, y)
torch.maximum(x, y) | x.amax().expand(x.shape)
x > 10 | x >= 10
x == y | x.isclose(y)
torch.equal(x, y) | torch.allclose(x, y)
(x > 10).any() | (x >= 10).any()
(x > 10).all(dim=1) | (x > 10).all(dim=0)
torch.where(x > 10, x, 0) | torch.where(x >= 10, x, 0)
torch.cat([x, y]) | torch.cat([y, x])
torch.stack([x, y]) | torch.stack([x, y], dim=1)
x.split(2) | x.chunk(2)
x.sum() | x.nansum(dim=0)
x.mean() | x.median()
x.std() | x.std(correction=0)
x.amin() | x.abs().amin()
x.amax(dim=1) | x.amax(dim=0)
x.argmax(dim=1) | x.abs().argmax(dim=1)
x.median() | x.quantile(0.5)
x.cumsum(dim=0) | x.cumsum(dim=1)
torch.linalg.vector_norm(x) | torch.linalg.matrix_norm(x, ord=2)
x.unique() | x.flatten().sort().values
x.sort(dim=0) | x.sort(dim=1)
x.argsort(dim=0) | x.argsort(dim=0).argsort(dim=0)
x.topk(2, dim=0) | x.topk(2, dim=0, largest=False)
x @ m | x @ m.mT
torch.einsum('ij,jk->ik', x, m) | (x @ m).sum()
m.triu() | m.triu(1)
m.diag() | m.fliplr().diag()
x % 4 | x.fmod(4)
x.sign() | x.sign().relu()
(x / 4).round() | (x / 4).add(0.5).floor()
x.relu() | x.abs()
m.sigmoid() | m.tanh()
(x > 10) & (y > 10) | torch.logical_or(x > 10, y > 10)
(x > 10).sum() | (x >= 10).sum()
x.prod(dim=1) | x.sum(dim=1)
x.var() | x.var(correction=0)
x.max(dim=1) | x.min(dim=1)
x.quantile(0.5) | x.median()
x.logsumexp(dim=1) | x.exp().sum(dim=1)
x.unbind() | x.unbind(1)
x.sort() | x.sort(descending=True)
x.flip(0) | x.flip(1)
x.softmax(dim=1) | x.softmax(dim=0)
x @ m[0] | x @ m[:, 0]
torch.outer(m[0], m[1]) | torch.outer(m[1], m[0])
m.tril() | m.tril(-1)
m[0].diag() | m.diag()
m.trace() | m.fliplr().trace()
"""


@pytest.mark.parametrize(("call", "other"), halves(OTHERS))
def test_calls_do_what_their_rows_say__but_not_another_call(
    snippet, call, other, fails
):
    """With another call in its place, you get something else."""
    [words] = re.findall(rf'    "{re.escape(call)}": "(.+)",\n', snippet.text)
    edited = snippet.edit(f'    "{call}":', f'    "{other}":')
    fails(test_calls_do_what_their_rows_say, edited, words)


@edits(
    (":.4g}", ":.2g}"),
    (":.4g}", ":.6g}"),
    ("shown(eval(c))", "shown(eval('x.sum()'))"),
    ("result.tolist()\n", "result.flatten().tolist()\n"),
    ('"what": w', '"what": c'),
)
def test_calls_do_what_their_rows_say__but_not_shown_otherwise(
    snippet, old, new, fails
):
    """If you round to other digits, or show the numbers of another call,
    `gives` is wrong.
    """
    fails(test_calls_do_what_their_rows_say, snippet.edit(old, new))


NUMPY = {"sum": np.sum, "mean": np.mean, "amax": np.max, "argmax": np.argmax}


def test_numpy_calls_it_axis(snippet):
    run = snippet.after("axis")

    assert run.by_torch.tolist() == [4, 16]
    assert run.by_numpy.tolist() == [4, 16]
    assert isinstance(run.by_numpy, np.ndarray)
    for (x, d), name in itertools.product(tensors(), NUMPY):
        expected = torch.as_tensor(NUMPY[name](x.numpy(), axis=d))
        assert same(REDUCTIONS[name](x, dim=d), expected)


@edits(
    ("x.mean(dim=0)\nby", "x.mean(dim=1)\nby"),
    ("x.numpy().mean(axis=0)", "x.numpy().mean(axis=1)"),
    ("x.numpy().mean(axis=0)", "x.numpy().mean()"),
)
def test_numpy_calls_it_axis__but_not_another_one(snippet, old, new, fails):
    """With another axis, or none, you get other means."""
    fails(test_numpy_calls_it_axis, snippet.edit(old, new))


SEVERAL = ("sum", "mean", "std", "amax")
ONE = ("max", "argmax", "median")


def test_some_take_several_axes(snippet, taking=SEVERAL, refusing=ONE):
    run = snippet.after("several")

    assert run.of_all.tolist() == 19
    assert "invalid combination" in getattr(run, "one_only", "")
    for shape, dtype in itertools.product([(3, 2), (4, 2, 3)], FLOATS):
        x = random(shape, dtype)
        for dim in itertools.combinations(range(len(shape)), 2):
            for name in refusing:
                with pytest.raises(TypeError):
                    REDUCTIONS[name](x, dim=dim)
            rest = [d for d in range(len(shape)) if d not in dim]
            flatter = x.permute(*rest, *dim).flatten(len(rest))
            for name in taking:
                with no_error():
                    found = REDUCTIONS[name](x, dim=dim)
                assert same(found, REDUCTIONS[name](flatter, dim=-1))


@edits(
    ("x.max(dim=(0, 1))", "x.amax(dim=(0, 1))"),
    ("x.max(dim=(0, 1))", "x.max(dim=0)"),
    ("x.amax(dim=(0, 1))", "x.amax(dim=0)"),
)
def test_some_take_several_axes__but_not_so(snippet, old, new, fails):
    """`amax` takes both axes, and `max` takes one."""
    edited = snippet.edit(old, new).edit("one_only.splitlines()[0]", "")
    fails(test_some_take_several_axes, edited)


@pytest.mark.parametrize("name", ONE)
def test_some_take_several_axes__but_not_all(snippet, name, fails):
    """These take a single axis."""
    fails(test_some_take_several_axes, snippet, (name,))


@pytest.mark.parametrize("name", SEVERAL)
def test_some_take_several_axes__but_these_raise_nothing(snippet, name, fails):
    """These take both axes, and raise no error."""
    fails(test_some_take_several_axes, snippet, SEVERAL, (name,))


# Spread and middle


def test_std_divides_by_n_less_one(snippet):
    run = snippet.after("spread")

    cases = [(run.x, run.spreads)]
    for n, dtype in itertools.product((2, 3, 10), FLOATS):
        x = random((n, 4), dtype, seed=n)
        cases.append((x, (x.std(dim=0), x.std(dim=0, correction=0))))
        x = x[:, 0]
        cases.append((x, (x.std(), x.std(correction=0))))
    for x, (less_one, by_count) in cases:
        n, x = len(x), x.double().numpy()
        squares = ((x - x.mean(0)) ** 2).sum(0)
        near = {"rtol": 1e-5}
        np.testing.assert_allclose(
            less_one, np.sqrt(squares / (n - 1)), **near
        )
        np.testing.assert_allclose(by_count, np.sqrt(squares / n), **near)
        np.testing.assert_allclose(by_count, x.std(0), **near)


@edits(
    ("(x.std(dim=0), ", "(x.std(dim=0, correction=0), "),
    ("(x.std(dim=0), ", "(x.var(dim=0), "),
    ("x.std(dim=0, correction=0)", "x.std(dim=0, correction=1)"),
    ("x.std(dim=0, correction=0)", "x.var(dim=0, correction=0)"),
)
def test_std_divides_by_n_less_one__but_not_so(snippet, old, new, fails):
    """`correction=0` in the first, or the variance, gives other numbers."""
    fails(test_std_divides_by_n_less_one, snippet.edit(old, new))


def test_the_median_is_the_lower_one(snippet, more=()):
    run = snippet.after("spread")

    cases = [(run.x, run.middles)]
    for n, dtype in itertools.product((2, 4, 10, 1000), FLOATS):
        more = [*more, random((n,), dtype, n), random((2, n // 2), dtype) ** 3]
    with no_error():
        cases += [(x, (x.median(), x.quantile(0.5))) for x in more]
    for x, (median, quantile) in cases:
        ordered = sorted(x.flatten().tolist())
        low, high = ordered[len(ordered) // 2 - 1 : len(ordered) // 2 + 1]
        assert median == low
        assert quantile.item() == pytest.approx((low + high) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_median_is_the_lower_one__also_of_a_thousand_from(snippet, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1000, generator=generator)
    test_the_median_is_the_lower_one(snippet, [x])


def test_the_median_is_the_lower_one__ends_at_infinity(snippet, fails):
    """Halfway between 1 and infinity is infinity, but `quantile` gives nan."""
    x = torch.tensor([1.0, math.inf])
    fails(test_the_median_is_the_lower_one, snippet, [x])


@pytest.mark.skipif(
    not older(torch.__version__, "2.14"), reason="torch 2.15 takes more"
)
def test_the_median_is_the_lower_one__ends_beyond_sixteen_million(
    snippet, fails
):
    """`quantile` raises an error for more than 16,777,216 numbers; torch 2.15
    takes more.
    """
    x = torch.zeros(1).expand(2**24 + 2)
    fails(test_the_median_is_the_lower_one, snippet, [x])


@edits(
    ("(x.median(), ", "(x.quantile(0.5), "),
    ("(x.median(), ", "(x.mean(), "),
    ("x.quantile(0.5))", "x.nanmedian())"),
    ("x.quantile(0.5))", "x.quantile(0.6))"),
)
def test_the_median_is_the_lower_one__but_not_another(
    snippet, old, new, fails
):
    """`quantile(0.5)` in place of `median()`, for example, gives a number
    between the two.
    """
    fails(test_the_median_is_the_lower_one, snippet.edit(old, new))


def test_one_number_has_no_spread(shapes=((), (1,), (1, 1))):
    """The function itself warns: no cell shows it."""
    for shape, dtype in itertools.product(shapes, FLOATS):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            found = torch.ones(shape, dtype=dtype).std()
        assert found.isnan()


def test_one_number_has_no_spread__ends_for_two(fails):
    """Two numbers have a standard deviation, and you get no warning."""
    fails(test_one_number_has_no_spread, ((2,),))


# Products


TAKES = {
    "mm": ("(3, 2) and (2, 4)", "(3, 4)", [((3, 3), (3, 3))]),
    "mv": ("(3, 2) and (2,)", "(3,)", [((3, 3), (3,))]),
    "dot": ("(2,) and (2,)", "()", [((3,), (3,))]),
    "bmm": (
        "(5, 3, 2) and (5, 2, 4)",
        "(5, 3, 4)",
        [((5, 3, 3), (5, 3, 3)), ((1, 3, 3), (1, 3, 3))],
    ),
}
KINDS = [(3,), (3, 3), (5, 3, 3), (1, 3, 3)]
MISFITS = [
    ((3, 2), (3, 2)),
    ((3, 2), (3,)),
    ((2,), (3,)),
    ((5, 3, 2), (5, 3, 2)),
]


def test_each_product_wants_its_axes(snippet, names=tuple(TAKES)):
    run = snippet.after("products")
    products = {each.__name__: each for each in run.products}

    for name in names:
        pair, shape, taken = TAKES[name]
        shapes = {pair: of[name] for pair, of in run.accepted.items()}
        assert shapes.pop(pair) == shape
        assert {*shapes.values()} == {"raises"}
        for left, right in [*itertools.product(KINDS, repeat=2), *MISFITS]:
            found = run.shape_of(products[name], left, right)
            assert (found == "raises") is ((left, right) not in taken)


@pytest.mark.parametrize("name", TAKES)
@edits(
    ("product(torch.ones(left), ", "torch.matmul(torch.ones(left), "),
    ("product(torch.ones(left), ", "torch.mul(torch.ones(left), "),
)
def test_each_product_wants_its_axes__but_not_matmul_or_mul(
    snippet, name, old, new, fails
):
    """`matmul` and `mul` take more pairs of shapes."""
    fails(test_each_product_wants_its_axes, snippet.edit(old, new), (name,))


def test_matmul_takes_all(snippet):
    run = snippet.after("products")

    made = [shapes["matmul"] for shapes in run.accepted.values()]
    assert made == ["(3, 4)", "(3,)", "()", *["(5, 3, 4)"] * 3]
    assert run.products[0] is torch.matmul
    for n, m, p, b in [(3, 2, 4, 5), (1, 6, 2, 3)]:
        left, right = random((n, m)).float(), random((m, p)).float()
        lefts, rights = random((b, n, m)).float(), random((b, m, p)).float()
        each_left = torch.stack([a @ right for a in lefts])
        each_right = torch.stack([left @ a for a in rights])
        for one, other, wanted in [
            (left, right, left.mm(right)),
            (left, right[:, 0], left.mv(right[:, 0])),
            (left[0], right[:, 0], left[0].dot(right[:, 0])),
            (lefts, rights, lefts.bmm(rights)),
            (lefts, right[None], each_left),
            (lefts, right, each_left),
            (left[None], rights, each_right),
            (left, rights, each_right),
        ]:
            assert same(one @ other, wanted)
            assert torch.equal(one @ other, torch.matmul(one, other))


@pytest.mark.parametrize("other", ["mm", "bmm", "inner"])
def test_matmul_takes_all__but_not_another(snippet, other, fails):
    """With `mm` in its place, for example, the table shows fewer shapes."""
    edited = snippet.edit("[torch.matmul, ", f"[torch.{other}, ").edit(
        "each.__name__: shape_of",
        f"each.__name__.replace('{other}', 'matmul'): shape_of",
    )
    fails(test_matmul_takes_all, edited)


def test_split_takes_a_size(snippet):
    run = snippet.after("cut")

    cases = [(run.days, 4, run.by_size)]
    for length, n in LENGTHS:
        x = random((length, 2))
        cases.append((x, n, x.split(n)))
    for x, n, cut in cases:
        *most, last = lengths(cut)
        assert most == [n] * len(most)
        assert 1 <= last <= n
        assert torch.equal(torch.cat(cut), x)


@instead_of(
    "days.split(4)", "days.chunk(4)", "days.split(3)", "days.tensor_split(4)"
)
def test_split_takes_a_size__but_not_another(snippet, old, new, fails):
    """`chunk(4)` makes four parts, not parts of four."""
    fails(test_split_takes_a_size, snippet.edit(old, new))


def test_chunk_may_give_fewer(snippet):
    run = snippet.after("cut")

    assert run.days.tolist() == [*range(10)]
    assert len(run.at_most) == 5
    cases = [(run.days, 6, run.at_most, run.exactly)]
    for length, n in LENGTHS:
        x = random((length, 2))
        cases.append((x, n, x.chunk(n), x.tensor_split(n)))
    for x, n, at_most, exactly in cases:
        assert len(at_most) <= n
        assert len(exactly) == n
        assert max(lengths(exactly)) - min(lengths(exactly)) <= 1
        for cut in (at_most, exactly):
            assert torch.equal(torch.cat(cut), x)


@edits(
    ("days.chunk(6)", "days.tensor_split(6)"),
    ("days.chunk(6)", "days.split(1)"),
    ("days.tensor_split(6)", "days.chunk(6)"),
    ("days.tensor_split(6)", "days.split([5, 1, 1, 1, 1, 1])"),
)
def test_chunk_may_give_fewer__but_not_another(snippet, old, new, fails):
    """For ten numbers, `tensor_split(6)` makes six parts, and `chunk(6)` makes
    five.
    """
    fails(test_chunk_may_give_fewer, snippet.edit(old, new))


def test_rounding_breaks_equality(snippet):
    run = snippet.after("compare")

    assert (run.back != run.x).sum() == 1
    assert torch.equal(run.back, run.x * 1.8 / 1.8)
    assert run.near.all()


@edits(
    ("back = x * 1.8 / 1.8", "back = x * 2 / 2"),
    ("back = x * 1.8 / 1.8", "back = x * 1.8"),
    ("isclose(back, x)", "isclose(back, x, rtol=0, atol=0)"),
)
def test_rounding_breaks_equality__but_not_so(snippet, old, new, fails):
    """Multiplying by 2 and dividing by 2 doesn't round, and without tolerances
    no rounded number is close.
    """
    fails(test_rounding_breaks_equality, snippet.edit(old, new))


def pairs_of_numbers():
    """Yield pairs of numbers around the tolerances, not at their edge."""
    for b in (0.0, 1e-6, 1e-3, 1.0, -1.0, 300.0, -7e8):
        for factor in (0.0, 0.5, 0.8, 1.2, 2.0, 30.0):
            for sign in (1, -1):
                yield b + sign * factor * (1e-8 + 1e-5 * abs(b)), b, factor < 1


def test_isclose_has_two_tolerances(snippet, options=None):
    run = snippet.after("compare")

    assert run.near.tolist() == [[True] * 2] * 3
    assert run.all_near is True
    for (a, b, close), dtype in itertools.product(pairs_of_numbers(), FLOATS):
        one = torch.tensor([a, b], dtype=dtype)
        other = torch.tensor([b, b], dtype=dtype)
        near = torch.isclose(one, other, **(options or {}))
        assert near.tolist() == [close, True]
        assert torch.allclose(one, other, **(options or {})) is close


@pytest.mark.parametrize(
    "options", [{"rtol": 1e-4}, {"atol": 1e-6}, {"rtol": 0}, {"atol": 0}]
)
def test_isclose_has_two_tolerances__ends_with(snippet, options, fails):
    """With `rtol=` or `atol=`, you choose other tolerances."""
    fails(test_isclose_has_two_tolerances, snippet, options)


@edits(
    ("x * 1.8 / 1.8", "x * 1.8"),
    ("torch.allclose(back, x)", "torch.equal(back, x)"),
)
def test_isclose_has_two_tolerances__but_not_so(snippet, old, new, fails):
    """Numbers that are 1.8 times as large are not close, and `torch.equal` has
    no tolerance.
    """
    fails(test_isclose_has_two_tolerances, snippet.edit(old, new))


def test_equal_wants_equal_shapes(snippet):
    run = snippet.after("compare")

    assert run.equal is bool((run.back == run.x).all()) is False
    for dtype in [torch.bool, torch.bfloat16, *FLOATS, *INTEGERS, *UNSIGNED]:
        x = torch.arange(6).to(dtype).view(3, 2)
        other = x.clone()
        other[0, 0] = 9
        ones = torch.ones(3, 2).to(dtype)
        for one, two, wanted in [
            (x, x.clone(), True),
            (x, x.T.contiguous().T, True),
            (x, other, False),
            (ones, ones[0], False),
            (ones, ones[:, :1], False),
            (ones, ones[None], False),
            (ones, ones.T, False),
            (ones, ones[:2], False),
        ]:
            assert torch.equal(one, two) is wanted


@instead_of(
    "torch.equal(back, x)",
    "torch.allclose(back, x)",
    "(back == x).all()",
)
def test_equal_wants_equal_shapes__but_not_another(snippet, old, new, fails):
    """`allclose` has a tolerance, and `==` with `all()` gives a tensor."""
    fails(test_equal_wants_equal_shapes, snippet.edit(old, new))


def test_equal_wants_equal_shapes__also_with_nothing_in_it():
    assert torch.equal(torch.empty(0, 3), torch.empty(0, 3))
    assert not torch.equal(torch.empty(0, 3), torch.empty(3, 0))


# In place


IN_PLACE = {
    "clamp": (lambda x: max(x, 0), {"min": 0}),
    "add": (lambda x: x + 3, {"other": 3}),
    "sub": (lambda x: x - 3, {"other": 3}),
    "mul": (lambda x: x * 3, {"other": 3}),
    "div": (lambda x: x / 4, {"other": 4}),
}


def test_an_underscore_writes_into_the_tensor(snippet, more=()):
    run = snippet.after("in-place")

    for tensor in more:
        with no_error():
            assert tensor.add_(1) is tensor
    assert run.returned is run.clipped
    assert run.clipped.tolist() == [[0, 16], [3, 19], [14, 13]]
    assert run.x.tolist() == [[-5, 16], [3, 19], [14, 13]]
    for (x, _), name in itertools.product(tensors(), IN_PLACE):
        one, options = IN_PLACE[name]
        wanted = [one(number) for number in x.flatten().tolist()]
        leaf = x[:1].clone().requires_grad_()
        for start in (x, x[:1].expand(x.shape), leaf):
            clone = start.clone()
            before, place = clone.tolist(), clone.data_ptr()
            new = getattr(clone, name)(**options)
            assert new is not clone
            assert clone.tolist() == before
            assert getattr(clone, f"{name}_")(**options) is clone
            assert clone.data_ptr() == place
            assert torch.equal(clone, new)
        assert getattr(x, name)(**options).flatten().tolist() == wanted


@edits(
    ("clipped.clamp_(min=0)", "clipped.clamp(min=0)"),
    ("clipped.clamp_(min=0)", "clipped.add_(0)"),
    ("clipped = x.clone()", "clipped = x"),
    ("clipped.clamp_(min=0)", "clipped.clamp_(min=0).view_as(clipped)"),
)
def test_an_underscore_writes_into_the_tensor__but_not_so(
    snippet, old, new, fails
):
    """Without the underscore, `clamp` leaves the tensor as it was."""
    edited = snippet.edit(old, new)
    fails(test_an_underscore_writes_into_the_tensor, edited)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, requires_grad=True),
        lambda: torch.ones(1).expand(2),
    ],
    ids=["a parameter", "an expanded tensor"],
)
def test_an_underscore_writes_into_the_tensor__ends_for(snippet, make, fails):
    """This raises an error: autograd forbids it for a leaf, and expanded
    numbers lie in one place.
    """
    fails(test_an_underscore_writes_into_the_tensor, snippet, [make()])


# Shapes that do not fit


SIGNS = [operator.add, operator.sub, operator.mul, operator.truediv]
FEW = [(), (0,), (1,), (2,), (3,), (2, 1), (3, 2), (2, 3, 2), (4, 1, 2)]


def test_sizes_must_be_equal_or_one(snippet):
    run = snippet.after("wrong-shapes")
    said = "size of tensor a (2) must match the size of tensor b (3)"

    assert said in (run.refusal(run.misfits[0]) or "")
    for one, other in itertools.product(FEW, repeat=2):
        misfits = any(
            1 not in pair and pair[0] != pair[1]
            for pair in zip(one[::-1], other[::-1], strict=False)
        )
        for sign in SIGNS:
            text = error_of(sign, torch.ones(one), torch.ones(other))
            assert ("at non-singleton dimension" in text) is misfits
            assert misfits or not text


@edits(
    ('"x - x.mean(dim=1)"', '"x - x.mean(dim=0)"'),
    ('"x - x.mean(dim=1)"', '"x - x.mean(dim=1, keepdim=True)"'),
)
def test_sizes_must_be_equal_or_one__but_not_if_they_fit(
    snippet, old, new, fails
):
    """The means of the columns fit, and so do those of the rows with
    `keepdim=True`.
    """
    fails(test_sizes_must_be_equal_or_one, snippet.edit(old, new))


def test_in_place_keeps_the_type(snippet):
    run = snippet.after("wrong-types")
    said = "can't be cast to the desired output type"

    for code in run.refused:
        assert said in (run.refusal(code) or "")
    for start in [*INTEGERS, *UNSIGNED]:
        x = torch.tensor([6, 4]).to(start)
        assert said in error_of(x.div_, 2)
        assert said in error_of(x.add_, 0.5)
        assert x.tolist() == [6, 4]
    for start, other in itertools.product([*INTEGERS, *FLOATS], repeat=2):
        x, y = torch.tensor([6, 4]).to(start), torch.tensor([2, 2]).to(other)
        fits = start.is_floating_point or not other.is_floating_point
        for name in ("add_", "sub_", "mul_", "div_"):
            is_division = name == "div_" and not start.is_floating_point
            text = error_of(getattr(x, name), y)
            assert (said in text) is (not fits or is_division)
            assert x.dtype == start


@edits(
    ("counts.div_(2)", "counts.div(2)"),
    ("counts.add_(0.5)", "counts.add(0.5)"),
    ("counts.div_(2)", "counts.div_(2, rounding_mode='floor')"),
    ("counts.add_(0.5)", "counts.add_(1)"),
    ("torch.tensor([3, 4])", "torch.tensor([3.0, 4.0])"),
)
def test_in_place_keeps_the_type__but_not_so(snippet, old, new, fails):
    """Without the underscore, a new tensor may have another dtype."""
    fails(test_in_place_keeps_the_type, snippet.edit(old, new))


# A where that gives nan gradients


def below_and_above():
    """Yield numbers of which some are 0, some less, and some more."""
    for shape, dtype in itertools.product([(3,), (2, 3, 4)], FLOATS):
        x = random(shape, dtype) * 2 - 9
        x.view(-1)[:3] = torch.tensor([0, -2, 9])
        yield x.requires_grad_()


def test_where_lets_nan_through(snippet):
    run = snippet.after("where")

    cases = [(run.numbers, run.roots)]
    for x in below_and_above():
        root = torch.where(x > 0, x.sqrt(), 0)
        root.sum().backward()
        cases.append((x, root))
    for x, root in cases:
        out = x.detach() <= 0
        assert 0 < out.sum() < x.numel()
        assert (root[out] == 0).all()
        assert torch.equal(root[~out], x[~out].sqrt())
        assert x.grad[out].isnan().all()


@edits(
    ("(numbers > 0, numbers.sqrt(), 0)", "(numbers > 0, numbers * 2, 0)"),
    ("numbers.sqrt(), 0)", "numbers.sqrt(), 1)"),
    ("numbers.sqrt(), 0)", "numbers.clamp(min=1).sqrt(), 0)"),
)
def test_where_lets_nan_through__but_not_so(snippet, old, new, fails):
    """Where the function has a finite gradient everywhere, no nan arises."""
    fails(test_where_lets_nan_through, snippet.edit(old, new))


def test_zero_times_infinity_is_nan(snippet):
    run = snippet.after("where")

    assert torch.equal(run.numbers.grad.isnan(), run.numbers <= 0)
    for x in [run.numbers.detach().requires_grad_(), *below_and_above()]:
        root, other = x.sqrt(), x.detach().clone().requires_grad_()
        root.retain_grad()
        torch.where(x > 0, root, other).sum().backward()
        out = x.detach() <= 0
        assert torch.equal(root.grad, (~out).to(root.dtype))
        assert torch.equal(other.grad, out.to(root.dtype))
        [factor] = torch.autograd.grad(x.sqrt().sum(), x)
        assert factor[x == 0].isposinf().all()
        assert factor[x < 0].isnan().all()
        assert torch.equal((root.grad * factor).isnan(), out)


@edits(
    ("numbers.sqrt(), 0)", "numbers.clamp(min=1).sqrt(), 0)"),
    ("numbers.sqrt(), 0)", "numbers.square(), 0)"),
)
def test_zero_times_infinity_is_nan__but_not_for_another_factor(
    snippet, old, new, fails
):
    """Where the gradient is finite, 0 times it is 0."""
    fails(test_zero_times_infinity_is_nan, snippet.edit(old, new))


def test_choosing_the_input_first_is_safe(snippet):
    run = snippet.after("where-first")

    cases = [(run.numbers, run.safe)]
    for x in below_and_above():
        inside = torch.where(x > 0, x, 1)
        root = torch.where(x > 0, inside.sqrt(), 0)
        root.sum().backward()
        cases.append((x, root))
    for x, root in cases:
        out = x.detach() <= 0
        above = x.detach()[~out].requires_grad_()
        above.sqrt().sum().backward()
        assert 0 < out.sum() < x.numel()
        assert (root[out] == 0).all()
        assert (x.grad[out] == 0).all()
        assert torch.equal(root[~out], above.sqrt())
        assert torch.equal(x.grad[~out], above.grad)


@edits(
    ("torch.where(numbers > 0, numbers, 1)", "numbers * (numbers > 0)"),
    ("numbers, 1)", "2 * numbers, 1)"),
    ("inside.sqrt(), 0)", "inside.sqrt(), numbers)"),
)
def test_choosing_the_input_first_is_safe__but_not_so(
    snippet, old, new, fails
):
    """With 0 in place of 1, the gradient of `sqrt` is infinite there."""
    fails(test_choosing_the_input_first_is_safe, snippet.edit(old, new))


def test_choosing_the_input_first_is_safe__but_not_chosen_afterwards(
    snippet, fails
):
    """If `sqrt` gets the numbers themselves, the gradient is nan again."""
    edited = snippet.edit("inside.sqrt()", "numbers.sqrt()")
    fails(test_choosing_the_input_first_is_safe, edited)


# Where it ends


def test_floats_raise_nothing(snippet):
    with no_error():
        run = snippet.after("beyond")
        cases = [(run.logs, run.ratios)]
        for dtype in FLOATS:
            x = torch.tensor([1, 0], dtype=dtype)
            for low in (-1, -1e9, -1e-3):
                logs = torch.tensor([low, 0], dtype=dtype).log()
                cases += [(logs, x / 0), (logs, x / torch.zeros_like(x))]

    for logs, ratios in cases:
        assert logs[0].isnan()
        assert logs[1] == -math.inf
        assert ratios[0] == math.inf
        assert ratios[1].isnan()


@edits(
    ("[-1.0, 0.0]).log()", "[1.0, 0.0]).log()"),
    ("[-1.0, 0.0]).log()", "[-1.0, 2.0]).log()"),
    ("[1.0, 0.0]) / 0", "[1.0, 0.0]) / 1"),
    ("[1.0, 0.0]) / 0", "[1.0, 1.0]) / 0"),
    ("[1.0, 0.0]) / 0", "[1, 0]) // 0"),
)
def test_floats_raise_nothing__but_not_so(snippet, old, new, fails):
    """Other numbers give finite results, and `// 0` raises an error for
    integers.
    """
    fails(test_floats_raise_nothing, snippet.edit(old, new))


SPOILED = ("sum", "mean", "std", "max", "amax", "median")
LEAVES_OUT = {"nansum": "sum", "nanmean": "mean", "nanmedian": "median"}


def test_one_nan_spoils_a_reduction(snippet, spoiled=SPOILED):
    run = snippet.after("beyond")

    assert run.means[0].isnan()
    assert run.means[1] == 13.5
    for shape, dtype in itertools.product([(2,), (3, 2), (2, 1, 3)], FLOATS):
        for place in range(math.prod(shape)):
            x = random(shape, dtype)
            x.view(-1)[place] = math.nan
            for name in spoiled:
                assert getattr(x, name)().isnan()
            rest = x[~x.isnan()]
            for name, plain in LEAVES_OUT.items():
                assert same(getattr(x, name)(), getattr(rest, plain)())


@edits(
    ("gap.mean(), gap", "gap.nanmean(), gap"),
    ("gap.nanmean())", "gap.mean())"),
    ("gap.nanmean())", "gap.nan_to_num().mean())"),
    ("12.0, torch.nan, 15.0", "12.0, 13.5, 15.0"),
)
def test_one_nan_spoils_a_reduction__but_not_so(snippet, old, new, fails):
    """`nanmean` skips the `nan` and `mean` doesn't, and an ordinary number in
    its place does no harm.
    """
    fails(test_one_nan_spoils_a_reduction, snippet.edit(old, new))


@pytest.mark.parametrize("name", ["any", "argmax"])
def test_one_nan_spoils_a_reduction__ends_for(snippet, name, fails):
    """For `any`, which takes nan for true, and `argmax`, which gives its
    position.
    """
    fails(test_one_nan_spoils_a_reduction, snippet, (name,))


def test_nan_equals_nothing(snippet):
    run = snippet.after("beyond")

    assert run.itself.tolist() == [True, False, True]
    for dtype in FLOATS:
        nan = torch.full((2, 3), math.nan, dtype=dtype)
        for other in (nan, nan.clone()):
            assert not (nan == other).any()
            assert not torch.isclose(nan, other).any()
            assert not torch.allclose(nan, other)
            assert not torch.equal(nan, other)
            assert torch.isclose(nan, other, equal_nan=True).all()
            assert torch.allclose(nan, other, equal_nan=True)


@instead_of(
    "itself = gap == gap",
    "gap.isclose(gap, equal_nan=True)",
    "gap.isnan()",
    "gap != gap",
)
def test_nan_equals_nothing__but_not_another(snippet, old, new, fails):
    """With `equal_nan=True`, a nan is close to itself."""
    fails(test_nan_equals_nothing, snippet.edit(old, new))


# What the sources say


def test_pow_needs_an_exponent(exponent=()):
    """No cell shows it: the function itself refuses."""
    for dtype in [*FLOATS, *INTEGERS]:
        with pytest.raises(TypeError, match=r"pow\(\)"):
            torch.ones(2).to(dtype).pow(*exponent)


def test_pow_needs_an_exponent__ends_with_one(fails):
    """With an exponent, you get no error."""
    fails(test_pow_needs_an_exponent, (2,))


def test_norm_is_not_spectral(rank=2):
    """No cell shows it: the functions themselves differ."""
    for shape, dtype in itertools.product([(2, 2), (3, 2), (4, 5)], FLOATS):
        x = random(shape, dtype, seed=3)
        if rank == 1:
            x = x[:, :1] * x[:1]
        assert torch.linalg.matrix_rank(x) >= min(rank, 2)
        found = torch.norm(x)
        assert same(found, x.square().sum().sqrt())
        assert found > torch.linalg.matrix_norm(x, ord=2) * (1 + 1e-4)


def test_norm_is_not_spectral__ends_at_rank_one(fails):
    """If all rows are multiples of one row, both norms are equal."""
    fails(test_norm_is_not_spectral, 1)


def test_baddbmm_adds_to_the_products(options=None, batch=1):
    """No cell shows it: the function itself adds, and refuses."""
    for shape in [(5, 3, 4), (4,), (3, 4), (1, 3, 4), (5, 1, 1), ()]:
        a, b = random((5, 3, 2)).float(), random((5, 2, 4)).float()
        c = random(shape, torch.float32, seed=2)
        added = torch.baddbmm(c, a, b, **(options or {}))
        assert same(added, c + a @ b)
        assert error_of(torch.baddbmm, c, a[:batch], b)
        assert error_of(torch.baddbmm, c, a, b[:batch])


@pytest.mark.parametrize("options", [{"beta": 0}, {"alpha": 2}])
def test_baddbmm_adds_to_the_products__ends_with(options, fails):
    """`beta` scales what is added, and `alpha` scales the product."""
    fails(test_baddbmm_adds_to_the_products, options)


def test_baddbmm_adds_to_the_products__ends_for_equally_many(fails):
    """Two batches of equally many matrices raise no error."""
    fails(test_baddbmm_adds_to_the_products, {}, 5)
