"""The claims of docs/tensors/dtypes.md."""

import itertools
import math
import operator
from functools import partial

import numpy
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error

SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
INTEGERS = [torch.uint8, *SIGNED]
HALVES = [torch.float16, torch.bfloat16]
FLOATS = [*HALVES, torch.float32, torch.float64]
ALL = [torch.bool, *INTEGERS, *FLOATS]
ALL_AND_COMPLEX = [*ALL, torch.complex64, torch.complex128]
PHOTO = "torch.tensor([[0, 100, 200]], dtype=torch.uint8)"
EVERY = "torch.arange(256, dtype=torch.uint8)"
KINDS = "torch.tensor([0, 2, 1])"


def category(dtype):
    """Return the place of a type in the order of promotion."""
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype != torch.bool)


def error_of(call, *inputs):
    """Return what a call complains of: nothing, if it runs."""
    try:
        call(*inputs)
    except RuntimeError as error:
        return str(error)
    return ""


# Do this


def test_numpy_prices_are_float64(snippet):
    with no_error():
        run = snippet.after("inputs")
    assert run.listed.dtype == numpy.float64
    assert run.raw.dtype == torch.float64
    assert run.prices.dtype == torch.float32

    for numbers in ([0.5], [-1.0, 1e300], [[], []], [[1, 2.0]], 0.5):
        made = numpy.array(numbers)
        tensor = torch.from_numpy(made)
        assert made.dtype == numpy.float64
        assert tensor.dtype == torch.float64
        assert tensor.float().dtype == torch.float32


@edits(
    ("70_000.0]])", "70_000.0]], dtype=numpy.float32)"),
    ("[[0.1], [257.0], [70_000.0]]", "[[0], [257], [70_000]]"),
    ("raw = torch.from_numpy(listed)", "raw = torch.Tensor(listed)"),
    ("(listed).float()", "(listed)"),
)
def test_numpy_prices_are_float64__but_not_otherwise_made(
    snippet, old, new, fails
):
    fails(test_numpy_prices_are_float64, snippet.edit(old, new))


LAYERS = {
    "Linear": (lambda: nn.Linear(4, 3), (2, 4)),
    "Conv1d": (lambda: nn.Conv1d(4, 3, 2), (2, 4, 5)),
    "Conv2d": (lambda: nn.Conv2d(4, 3, 2), (2, 4, 5, 5)),
    "LSTM": (lambda: nn.LSTM(4, 3), (2, 4)),
}


def test_layers_take_float32(snippet, name="Linear"):
    make, shape = LAYERS[name]
    with no_error():
        run = snippet.after("do-this")
        layer = make()
        output = layer(torch.ones(shape))
    output = output[0] if name == "LSTM" else output

    assert run.prices.dtype == run.loss.dtype == torch.float32
    assert {each.dtype for each in layer.parameters()} == {torch.float32}
    assert output.dtype == torch.float32


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "LSTM"])
def test_layers_take_float32__also_other_layers(snippet, name):
    test_layers_take_float32(snippet, name)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_take_float32__but_not_under_another_default(
    snippet, name, fails
):
    changed = "nn\n\ntorch.set_default_dtype(torch.float64)\n"
    fails(test_layers_take_float32, snippet.edit("nn\n\n", changed), name)


@edits(
    ("(listed).float()", "(listed)"),
    ("(listed).float()", "(listed).half()"),
    ("nn.Linear(1, 3)(prices), ", "nn.Linear(1, 3).double()(prices), "),
)
def test_layers_take_float32__but_not_with_another_type(
    snippet, old, new, fails
):
    fails(test_layers_take_float32, snippet.edit(old, new))


def test_photos_become_zero_to_one(snippet):
    run = snippet.after("do-this")
    assert run.photo.dtype == torch.uint8
    every = snippet.edit(PHOTO, EVERY).after("do-this")

    expected = numpy.arange(256, dtype=numpy.float32) / numpy.float32(255)
    assert run.pixels.dtype == every.pixels.dtype == torch.float32
    assert torch.equal(every.pixels, torch.from_numpy(expected))
    assert (every.pixels.min(), every.pixels.max()) == (0, 1)


@edits(
    ("photo.float() / 255", "photo.float() / 256"),
    ("photo.float() / 255", "photo.double() / 255"),
    ("photo.float() / 255", "photo.float() // 255"),
    ("photo.float() / 255", "photo.float()"),
    ("dtype=torch.uint8)  # as", "dtype=torch.int16)  # as"),
)
def test_photos_become_zero_to_one__but_not_otherwise_converted(
    snippet, old, new, fails
):
    fails(test_photos_become_zero_to_one, snippet.edit(old, new))


# Where the bits go


PATTERNS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def pattern(number, dtype):
    """Return the bits of a number, read as one integer."""
    tensor = torch.tensor([number], dtype=torch.float64).to(dtype)
    return tensor.view(PATTERNS[dtype.itemsize]).item()


def number_of(bits, dtype):
    """Return the number that some bits, read as one integer, stand for."""
    tensor = torch.tensor([bits], dtype=PATTERNS[dtype.itemsize])
    return tensor.view(dtype).item()


SPENT = [
    (torch.float64, 11, 52),
    (torch.float32, 8, 23),
    (torch.float16, 5, 10),
    (torch.bfloat16, 8, 7),
]


@pytest.mark.parametrize(("dtype", "exponent", "fraction"), SPENT)
def test_bits_are_spent_so(snippet, dtype, exponent, fraction):
    bits = snippet.after("bits").bits

    assert bits[dtype] == (1, exponent, fraction)
    assert sum(bits[dtype]) == 8 * dtype.itemsize
    # The fraction of 1 is empty, and that of the number before 2 is full.
    one = pattern(1, dtype)
    assert one % 2**fraction == 0
    assert number_of(one + 2**fraction, dtype) == 2
    assert number_of(one + 2**fraction - 1, dtype) == 2 - 2**-fraction
    # The exponent of infinity is full, and the sign stands before it.
    assert pattern(math.inf, dtype) == (2**exponent - 1) << fraction
    assert pattern(-1, dtype) - one == -(2 ** (exponent + fraction))


@pytest.mark.parametrize(
    ("dtype", "exponent", "fraction"),
    [
        (torch.float64, 8, 55),
        (torch.float32, 11, 20),
        (torch.float16, 8, 7),
        (torch.bfloat16, 5, 10),
    ],
)
def test_bits_are_spent_so__but_not_as_in_another_type(
    snippet, dtype, exponent, fraction, fails
):
    fails(test_bits_are_spent_so, snippet, dtype, exponent, fraction)


REACH = [
    (torch.float16, 65_504),
    (torch.bfloat16, 3.4e38),
    (torch.float32, 3.4e38),
]


@pytest.mark.parametrize(("dtype", "largest"), REACH)
def test_the_exponent_sets_the_range(snippet, dtype, largest):
    _, exponent, fraction = snippet.after("bits").bits[dtype]

    end = number_of(pattern(math.inf, dtype) - 1, dtype)
    assert end == (2 - 2**-fraction) * 2.0 ** (2 ** (exponent - 1) - 1)
    assert end == torch.finfo(dtype).max
    smallest = torch.finfo(dtype).smallest_normal
    assert smallest == 2.0 ** (2 - 2 ** (exponent - 1))
    rounded = round(end, -37) if end > 1e30 else end
    assert rounded == largest


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [
        (torch.float16, 3.4e38),
        (torch.bfloat16, 65_504),
        (torch.float32, 65_504),
    ],
)
def test_the_exponent_sets_the_range__but_not_that_of_another_type(
    snippet, dtype, largest, fails
):
    fails(test_the_exponent_sets_the_range, snippet, dtype, largest)


STEPS = [(dtype, fraction) for dtype, _, fraction in SPENT]


def step_after(number, dtype):
    """Return how far the next larger number of a type is."""
    return number_of(pattern(number, dtype) + 1, dtype) - number


@pytest.mark.parametrize(("dtype", "n"), STEPS)
def test_the_fraction_sets_the_step(snippet, dtype, n):
    assert snippet.after("bits").bits[dtype][2] == n
    assert step_after(1, dtype) == torch.finfo(dtype).eps
    power = 1.0
    while power <= torch.finfo(dtype).max:
        for number in (power, power * 1.5, power * (2 - 2.0 ** (1 - n))):
            assert step_after(number, dtype) == power * 2.0**-n
        power *= 2


@pytest.mark.parametrize(("dtype", "n"), STEPS)
def test_the_fraction_sets_the_step__but_not_one_bit_more(
    snippet, dtype, n, fails
):
    fails(test_the_fraction_sets_the_step, snippet, dtype, n + 1)


def test_bfloat16_skips_integers(snippet, dtype=torch.bfloat16):
    assert snippet.after("amounts").stored[dtype][2] == 256
    first, last = pattern(256, dtype), pattern(512, dtype)
    between = (number_of(bits, dtype) for bits in range(first, last + 1))

    for integer in range(256, 513, 2):
        assert next(between) == integer
    assert next(between, None) is None


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float32, torch.float64]
)
def test_bfloat16_skips_integers__but_others_do_not(snippet, dtype, fails):
    fails(test_bfloat16_skips_integers, snippet, dtype)


def test_bfloat16_skips_integers__but_not_numbers_that_were_not_stored(
    snippet, fails
):
    edited = snippet.edit("amounts.to(dtype)", "amounts")
    fails(test_bfloat16_skips_integers, edited)


def test_float32_counts_to_sixteen_million(dtype=torch.float32):
    assert torch.tensor(16_777_217).to(dtype).long() == 16_777_216
    numbers = torch.arange(16_777_217, dtype=torch.int32)
    assert torch.equal(numbers.to(dtype).int(), numbers)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_float32_counts_to_sixteen_million__but_not(dtype, fails):
    fails(test_float32_counts_to_sixteen_million, dtype)


# Which half


def test_float16_overflows_and_underflows(snippet, large=65_520, small=2**-25):
    stored = snippet.after("amounts").stored[torch.float16]
    assert stored[::3] == [0, math.inf]

    for factor in (1, 1.5, 1e10, 1e30, math.inf):
        pair = [large * factor, small / factor or 1e-45]
        given = torch.tensor(pair, dtype=torch.float32)
        assert (given > 0).all()
        assert given.to(torch.float16).tolist() == [math.inf, 0]


@pytest.mark.parametrize(
    ("large", "small"), [(65_519.996, 2**-25), (65_520, 2**-24.9999)]
)
def test_float16_overflows_and_underflows__but_not_just_inside(
    snippet, large, small, fails
):
    fails(test_float16_overflows_and_underflows, snippet, large, small)


@pytest.mark.parametrize(
    "new", ["[1e-7, 0.1, 257, 70_", "[1e-8, 0.1, 257, 7_"]
)
def test_float16_overflows_and_underflows__but_not_far_inside(
    snippet, new, fails
):
    edited = snippet.edit("[1e-8, 0.1, 257, 70_", new)
    fails(test_float16_overflows_and_underflows, edited)


def worst(dtype, low, high):
    """Return the largest share by which a type changes a number."""
    ends = pattern(low, torch.float32), pattern(high, torch.float32)
    bits = torch.arange(*ends, 9973, dtype=torch.int32)
    ends = torch.tensor([low, high], dtype=torch.float32)
    given = torch.cat([bits.view(torch.float32), ends]).double()
    return ((given.float().to(dtype).double() - given) / given).abs().max()


def change_of(run, dtype, which):
    """Return by which share the amounts of the page changed at most."""
    given, stored = run.amounts.double(), torch.tensor(run.stored[dtype])
    return ((stored - given) / given)[which].abs().max()


def test_float16_has_more_digits(
    snippet, dtype=torch.float16, low=1e-4, high=65_000
):
    assert change_of(snippet.after("amounts"), dtype, slice(1, 3)) < 0.0005
    assert worst(dtype, low, high) < 0.0005


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (torch.bfloat16, 1e-4, 65_000),
        (torch.float16, 1e-5, 65_000),
        (torch.float16, 1e-4, 66_000),
    ],
)
def test_float16_has_more_digits__but_not_in_bfloat16_or_outside(
    snippet, dtype, low, high, fails
):
    fails(test_float16_has_more_digits, snippet, dtype, low, high)


def test_float16_has_more_digits__but_not_after_bfloat16(snippet, fails):
    edited = snippet.edit("amounts.to(dtype)", "amounts.bfloat16().to(dtype)")
    fails(test_float16_has_more_digits, edited)


def test_bfloat16_keeps_the_range(
    snippet, dtype=torch.bfloat16, low=1e-37, high=1e38
):
    assert change_of(snippet.after("amounts"), dtype, slice(4)) < 0.004
    assert worst(dtype, low, high) < 0.004


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (torch.float16, 1e-37, 1e38),
        (torch.float16, 1e-37, 1),
        (torch.float16, 1, 1e38),
        (torch.bfloat16, 1e-40, 1e38),
        (torch.bfloat16, 1e-37, 3.4e38),
    ],
)
def test_bfloat16_keeps_the_range__but_not_in_float16_or_at_the_ends(
    snippet, dtype, low, high, fails
):
    fails(test_bfloat16_keeps_the_range, snippet, dtype, low, high)


def test_bfloat16_keeps_the_range__but_not_after_float16(snippet, fails):
    edited = snippet.edit("amounts.to(dtype)", "amounts.half().to(dtype)")
    fails(test_bfloat16_keeps_the_range, edited)


RAISED = "torch.tensor([256.0], dtype=torch.bfloat16)"


def test_small_raises_get_lost(snippet):
    assert snippet.after("small-raises").price.item() == 256
    for dtype in ("float16", "float32"):
        new = RAISED.replace("bfloat16", dtype)
        run = snippet.edit(RAISED, new).after("small-raises")
        assert run.price.item() == 356


def test_small_raises_get_lost__but_not_in_float32(snippet, fails):
    new = RAISED.replace("bfloat16", "float32")
    fails(test_small_raises_get_lost, snippet.edit(RAISED, new))


@pytest.mark.parametrize(
    "new", ["price + 2", "price + 0", "price.float() + 1"]
)
def test_small_raises_get_lost__but_not_otherwise_raised(snippet, new, fails):
    fails(test_small_raises_get_lost, snippet.edit("price + 1", new))


def test_small_raises_get_lost__but_not_fifty_times(snippet, fails):
    fails(test_small_raises_get_lost, snippet.edit("range(100)", "range(50)"))


# Convert


METHODS = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "long": torch.int64,
    "int": torch.int32,
    "bool": torch.bool,
}


@pytest.mark.parametrize(("name", "dtype"), [*METHODS.items()])
def test_methods_name_types(name, dtype):
    for source in ALL:
        made = getattr(torch.ones(2, 3, dtype=source), name)()
        assert made.dtype == dtype
        assert torch.equal(made, torch.ones(2, 3, dtype=dtype))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float", torch.float64),
        ("double", torch.float32),
        ("half", torch.bfloat16),
        ("bfloat16", torch.float16),
        ("long", torch.int32),
        ("int", torch.int64),
        ("bool", torch.uint8),
    ],
)
def test_methods_name_types__but_not_another_type(name, dtype, fails):
    fails(test_methods_name_types, name, dtype)


def conversions(x, dtype):
    """Yield what each way to convert to a type returns."""
    yield x.to(dtype)
    yield x.type(dtype)
    for name, named in METHODS.items():
        if named == dtype:
            yield getattr(x, name)()


def test_to_changes_nothing_in_place(snippet):
    run = snippet.after("convert")
    assert run.prices.dtype == torch.float32
    assert run.prices.tolist() == run.listed.astype(numpy.float32).tolist()
    assert run.precise.dtype == torch.float64

    for source, dtype in itertools.permutations(ALL, 2):
        x = torch.tensor([0.0, 1.5, 3.0]).to(source)
        before, address = x.tolist(), x.data_ptr()
        for made in conversions(x, dtype):
            assert (made.dtype, made.shape) == (dtype, x.shape)
            assert (x.dtype, x.tolist()) == (source, before)
            assert x.data_ptr() == address


@pytest.mark.parametrize(
    "new",
    [
        "precise = prices = prices.to(torch.float64)",
        "precise = prices.to(torch.float64)\nprices.data = precise",
        "precise = prices.to(torch.float64)\nprices.floor_()",
        "precise = prices",
    ],
)
def test_to_changes_nothing_in_place__but_not_what_else_is_done(
    snippet, new, fails
):
    edited = snippet.edit("precise = prices.to(torch.float64)", new)
    fails(test_to_changes_nothing_in_place, edited)


def test_to_the_same_type_copies_nothing(snippet):
    run = snippet.after("convert")
    assert run.same is run.prices
    assert run.precise is not run.prices

    for dtype in ALL:
        x = torch.ones(2, dtype=dtype)
        assert all(made is x for made in conversions(x, dtype))


@pytest.mark.parametrize(
    "new",
    [
        "prices.to(torch.float32, copy=True)",
        "prices.to(torch.float32).clone()",
        "prices.to(torch.float64)",
    ],
)
def test_to_the_same_type_copies_nothing__but_not_with(snippet, new, fails):
    edited = snippet.edit("prices.to(torch.float32)", new)
    fails(test_to_the_same_type_copies_nothing, edited)


CALLS = [
    lambda model: model.to(torch.float64),
    lambda model: model.double(),
    lambda model: model.half(),
    lambda model: model.bfloat16(),
]


def types_of(model):
    """Return the types of the floating-point numbers and of the others."""
    tensors = [*model.parameters(), *model.buffers()]
    dtypes = {each.dtype for each in tensors}
    floats = {each for each in dtypes if each.is_floating_point}
    return floats, dtypes - floats


@pytest.mark.parametrize(
    ("call", "dtype"),
    [*zip(CALLS, [torch.float64, torch.float64, *HALVES], strict=True)],
)
def test_a_model_is_converted_itself(snippet, call, dtype):
    run = snippet.after("convert")
    assert types_of(run.model)[0] == {torch.float64}
    for name, buffer in run.model.named_buffers():
        assert ("tracked" in name) == (buffer.dtype == torch.int64)

    for model in (
        nn.Linear(2, 3),
        nn.Sequential(nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2)),
        nn.LSTM(2, 3),
    ):
        integers = types_of(model)[1]
        assert call(model) is model
        assert types_of(model) == ({dtype}, integers)


@pytest.mark.parametrize(
    "new",
    [
        "model = nn.Linear(1, 3)\nnn.Linear(1, 3).to(torch.float64)",
        "model = nn.Linear(1, 3)\nmodel.weight.to(torch.float64)",
        "model = nn.Linear(1, 3)\nmodel.bias.data = model.bias.data.double()",
        "model = nn.BatchNorm1d(3)\nmodel._apply(torch.Tensor.double)",
        "model = nn.BatchNorm1d(3)\n"
        "for each in model.parameters():\n    each.data = each.data.double()",
    ],
)
def test_a_model_is_converted_itself__but_not_otherwise(snippet, new, fails):
    old = "model = nn.Linear(1, 3)\nmodel.to(torch.float64)"
    edited = snippet.edit(old, new)
    fails(test_a_model_is_converted_itself, edited, CALLS[0], torch.float64)


def test_fractions_are_cut_off(snippet):
    cut_off = snippet.after("to-integers").cut_off
    assert (cut_off.dtype, cut_off.tolist()) == (torch.int64, [-1, 1])

    for source, dtype in itertools.product(FLOATS, INTEGERS):
        info = torch.iinfo(dtype)
        numbers = [0, 0.25, 0.75, 1.5, 99.5, info.max * 0.49, info.max - 0.5]
        numbers += [-each for each in numbers]
        given = torch.tensor(numbers * 9, dtype=source).tolist()
        fit = [n for n in given if info.min <= n < info.max + 1]
        made = torch.tensor(fit, dtype=source).to(dtype)
        assert made.dtype == dtype
        assert made.tolist() == [math.trunc(number) for number in fit]


@pytest.mark.parametrize(
    "new", ["1.7]).round().long()", "1.7]).floor().long()", "1.7]).trunc()"]
)
def test_fractions_are_cut_off__but_not_once_rounded(snippet, new, fails):
    fails(test_fractions_are_cut_off, snippet.edit("1.7]).long()", new))


def test_all_but_zero_is_true(snippet):
    assert snippet.after("to-integers").truth.tolist() == [True, False, True]

    for dtype in FLOATS:
        info = torch.finfo(dtype)
        small = info.smallest_normal * info.eps  # the smallest of all
        numbers = [math.nan, math.inf, -0.25, small, -small, info.min, 0, -0.0]
        truth = torch.tensor(numbers, dtype=dtype).bool()
        assert truth.tolist() == [True] * 6 + [False] * 2
    for dtype in INTEGERS:
        numbers = torch.arange(-3, 4).to(dtype)
        assert numbers.bool().tolist() == [n != 0 for n in range(-3, 4)]


@pytest.mark.parametrize("new", ["2.0]).long().bool()", "2.0]) > 0"])
def test_all_but_zero_is_true__but_not_once_cut_off_or_compared(
    snippet, new, fails
):
    fails(test_all_but_zero_is_true, snippet.edit("2.0]).bool()", new))


# When two types meet


def both(one, other):
    """Yield the sum and the product of ones of two types."""
    x, y = torch.ones(3, dtype=one), torch.ones(3, dtype=other)
    yield from (x + y, y + x, x * y, y * x)


def test_the_higher_category_wins(snippet):
    sums = snippet.after("meet").sums
    assert {torch.bool, torch.int64, *HALVES} < sums.keys()

    for one, other in itertools.product(ALL, ALL):
        if category(one) > category(other):
            assert {made.dtype for made in both(one, other)} == {one}
            assert sums.get(one, {}).get(other, one) == one
            assert sums.get(other, {}).get(one, one) == one


@pytest.mark.parametrize(
    "new", ["(a == b)", "(a / b)", "(a + b.double())", "(a.int() + b)"]
)
def test_the_higher_category_wins__but_not_in_another_operation(
    snippet, new, fails
):
    edited = snippet.edit("(a + b)", new)
    fails(test_the_higher_category_wins, edited)


PAIRS = [
    *((one, other, other) for one, other in itertools.combinations(SIGNED, 2)),
    *((half, torch.float32, torch.float32) for half in HALVES),
    *((each, torch.float64, torch.float64) for each in FLOATS[:3]),
    (*HALVES, torch.float32),
    (torch.uint8, torch.int8, torch.int16),
]


@pytest.mark.parametrize(("one", "other", "expected"), PAIRS)
def test_the_wider_type_wins(snippet, one, other, expected):
    sums = snippet.after("meet").sums

    assert {made.dtype for made in both(one, other)} == {expected}
    assert sums.get(one, {}).get(other, expected) == expected
    assert sums.get(other, {}).get(one, expected) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [pair for pair in PAIRS if pair[0].is_floating_point],
)
def test_the_wider_type_wins__but_not_of_one_number(
    snippet, one, other, expected, fails
):
    edited = snippet.edit("(a + b)", "(a[0] + b)")
    fails(test_the_wider_type_wins, edited, one, other, expected)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (*HALVES, torch.float16),
        (*HALVES, torch.bfloat16),
        (torch.uint8, torch.int8, torch.uint8),
        (torch.uint8, torch.int8, torch.int8),
        (torch.int8, torch.int16, torch.int8),
    ],
    ids=[
        "float16 for float16 with bfloat16",
        "bfloat16 for float16 with bfloat16",
        "uint8 for uint8 with int8",
        "int8 for uint8 with int8",
        "int8 for int8 with int16",
    ],
)
def test_the_wider_type_wins__but_not(snippet, one, other, expected, fails):
    fails(test_the_wider_type_wins, snippet, one, other, expected)


def test_promotion_may_lose(snippet):
    run = snippet.after("lost")
    assert run.counts.tolist() == [257, 70_000]
    for made, dtype, numbers in (
        (run.in_float16, torch.float16, [257, math.inf]),
        (run.in_bfloat16, torch.bfloat16, [256, 70_144]),
    ):
        assert made.dtype == dtype
        assert made.tolist() == numbers
        for fitting in ([1, 2], [0, -8], [2**40, 2**50]):
            same = torch.tensor(fitting) + torch.zeros(2, dtype=dtype)
            assert same.dtype == dtype


@edits(
    ("zeros(2, dtype=torch.float16)", "zeros(2)"),
    ("zeros(2, dtype=torch.bfloat16)", "zeros(2)"),
    ("torch.tensor([257, 70_000])", "torch.tensor([257.0, 70_000.0])"),
    ("torch.tensor([257, 70_000])", "torch.tensor([256, 7_000])"),
)
def test_promotion_may_lose__but_not_in_float32_or_smaller_numbers(
    snippet, old, new, fails
):
    fails(test_promotion_may_lose, snippet.edit(old, new))


PLAIN = {True: torch.bool, 3: torch.int64, 0.5: torch.float32}


def meetings():
    """Yield tensors with dimensions, a number each, and its type."""
    for dtype in ALL_AND_COMPLEX:
        for shape in ((3,), (2, 1), (0,)):
            x = torch.ones(shape, dtype=dtype)
            for other in ALL_AND_COMPLEX:
                yield x, torch.ones((), dtype=other), other
            for number, other in PLAIN.items():
                yield x, number, other


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_single_numbers_count_less(snippet):
    run = snippet.after("single")
    assert run.rebate.dtype == torch.float64
    types = [torch.float32, torch.uint8, torch.float32]
    assert [each.dtype for each in run.mixed] == types
    assert torch.equal(run.mixed[0], run.prices * 0.9)
    assert run.mixed[1].tolist() == [[44, 144, 244]]
    assert torch.equal(run.mixed[2], run.photo.float() * 0.9)

    # Torch 2.15 has this type, but adds and multiplies nothing of it.
    bare = getattr(torch, "bcomplex32", None)
    for x, number, other in meetings():
        if torch.result_type(x, number) == bare:
            continue
        changes = category(other) > category(x.dtype)
        for made in (x + number, number + x, x * number, number * x):
            assert (made.dtype != x.dtype) == changes


@edits(
    ("[prices * rebate", "[prices * rebate.reshape(1)"),
    ("[prices * rebate", "[prices[0, 0] * rebate"),
    ("photo + 300", "photo + torch.tensor([300])"),
    ("photo + 300", "photo + 300.0"),
    ("photo + 300", "photo / 300"),
    ("photo * 0.9", "photo * 9"),
)
def test_single_numbers_count_less__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_single_numbers_count_less, snippet.edit(old, new))


# The default dtype, and division


def test_the_default_dtype_decides(snippet):
    run = snippet.after("divide")
    assert run.debts.dtype == torch.int64
    assert run.shares[0].dtype == torch.get_default_dtype() == torch.float32
    for made in run.wide:
        assert (made.dtype, made.tolist()) == (torch.float64, [-3.5, 3.5])

    for dtype, integer in itertools.product(FLOATS, INTEGERS):
        torch.set_default_dtype(dtype)
        x = torch.tensor([3, 6], dtype=integer)
        for made in (x / 3, x / x, x / x.long(), 3 / x, x * 1.5, 0.5 * x):
            assert made.dtype == dtype


@edits(
    ("torch.set_default_dtype(torch.float64)\n", ""),
    ("[debts / 2, debts * 0.5]", "[debts // 2, debts * 0.5]"),
    ("[debts / 2, debts * 0.5]", "[debts / 2, debts * 5]"),
    ("debts / 2, debts // 2", "debts // 2, debts // 2"),
)
def test_the_default_dtype_decides__but_not_for_integers(
    snippet, old, new, fails
):
    fails(test_the_default_dtype_decides, snippet.edit(old, new))


def test_double_slash_rounds_down(snippet, divisors=(1, 2, 3, 2**62)):
    run = snippet.after("divide")
    _, down, cut = run.shares
    assert down.dtype == cut.dtype == run.debts.dtype == torch.int64
    assert (down.tolist(), cut.tolist()) == ([-4, 3], [-3, 3])

    numbers = [*range(-9, 10), 2**62 + 1, -(2**62) - 1]
    for x, n in itertools.product((torch.tensor(numbers),), divisors):
        down, cut = x // n, x.div(n, rounding_mode="trunc")
        assert down.dtype == cut.dtype == torch.int64
        assert down.tolist() == [each // n for each in numbers]
        signs = [1 if each > 0 else -1 for each in numbers]
        exact = [
            s * (abs(m) // n) for s, m in zip(signs, numbers, strict=True)
        ]
        assert cut.tolist() == exact


@edits(
    ("debts // 2,", "debts / 2,"),
    ("debts // 2,", 'debts.div(2, rounding_mode="trunc"),'),
    ("debts // 2,", "debts // 2.0,"),
    ('mode="trunc"', 'mode="floor"'),
    ('div(2, rounding_mode="trunc")', "div(2).trunc()"),
)
def test_double_slash_rounds_down__but_not_the_others(
    snippet, old, new, fails
):
    fails(test_double_slash_rounds_down, snippet.edit(old, new))


def test_double_slash_rounds_down__but_not_by_a_float(snippet, fails):
    fails(test_double_slash_rounds_down, snippet, (2.0,))


# What goes wrong


NAMES = {torch.float64: "double", torch.float32: "float", torch.int64: "long"}


def test_errors_use_other_names(snippet):
    run = snippet.after("yes-or-no")

    for call in run.calls.values():
        said = error_of(call, run.raw).lower()
        assert "double" in said
        assert "float" in said
    assert all("Long" in said for said in run.no_target)
    for dtype, name in NAMES.items():
        layer = nn.Linear(1, 3).bfloat16()
        said = error_of(layer, torch.ones(2, 1, dtype=dtype)).lower()
        assert f"got {name} and bfloat16" in said


@edits(
    ("raw = torch.from_numpy(listed)", "raw = prices.half()"),
    (' nn.Linear(1, 3),\n    "', ' nn.Linear(1, 3).half(),\n    "'),
    ("torch.tensor([0, 1, 1])", "torch.tensor([0, 1, 1]).int()"),
)
def test_errors_use_other_names__but_not_for_other_types(
    snippet, old, new, fails
):
    fails(test_errors_use_other_names, snippet.edit(old, new))


TEXTS = {
    "Linear": "mat1 and mat2 must have the same dtype",
    "Linear without bias": "expected m1 and m2 to have the same dtype",
    "batch @ batch": "expected scalar type",
    "Conv1d": "Input type (double) and bias type (float) should be the same",
    "BCELoss": "Found dtype Double but expected Float",
}


def calls_of(name):
    """Yield other calls with a number type for each of two tensors."""

    def layer(make, shape):
        return lambda one, other: make(dtype=one)(torch.ones(shape).to(other))

    def batches(n):
        x = torch.ones(2, n, n)
        return lambda one, other: x.to(one) @ x.to(other)

    def loss(x):
        return lambda one, other: nn.BCELoss()(x.to(one), x.to(other))

    linear, conv = partial(nn.Linear, 4, 3), partial(nn.Conv1d, 4, 3, 2)
    return {
        "Linear": [layer(linear, shape) for shape in ((4,), (2, 5, 4))],
        "Linear without bias": [layer(partial(linear, bias=False), (2, 4))],
        "batch @ batch": [batches(3), batches(8), batches(40)],
        "Conv1d": [
            layer(conv, (4, 9)),
            layer(partial(conv, bias=False), (4, 9)),
        ],
        "BCELoss": [loss(torch.full((4,), 0.3)), loss(torch.ones(2, 3))],
    }[name]


def test_layers_do_not_promote(snippet, name="Linear"):
    run = snippet.after("inputs")
    types = torch.float32, torch.float64

    assert run.calls.keys() == TEXTS.keys()
    assert run.raw.dtype == torch.float64
    assert TEXTS[name] in error_of(run.calls[name], run.raw)
    assert error_of(run.calls[name], run.raw.float()) == ""
    for call in calls_of(name):
        for one, other in itertools.product(types, types):
            assert (error_of(call, one, other) == "") == (one == other)


@pytest.mark.parametrize("name", [*TEXTS][1:])
def test_layers_do_not_promote__also_other_calls(snippet, name):
    test_layers_do_not_promote(snippet, name)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("Linear", '3),\n    "', '3).double(),\n    "'),
        ("Linear without bias", "bias=False),", "bias=False).double(),"),
        ("batch @ batch", "half.T[None] @", "half.T[None].double() @"),
        ("Conv1d", "nn.Conv1d(1, 1, 1)(", "nn.Conv1d(1, 1, 1).double()("),
        ("BCELoss", "nn.BCELoss()(half,", "nn.BCELoss()(half.double(),"),
        ("BCELoss", "nn.BCELoss()(half,", "nn.MSELoss()(half,"),
        ("batch @ batch", "half.T[None] @", "half.T[None] *"),
        ("Linear", "raw = torch.from_numpy(listed)", "raw = prices"),
    ],
)
def test_layers_do_not_promote__but_not_otherwise(
    snippet, name, old, new, fails
):
    fails(test_layers_do_not_promote, snippet.edit(old, new), name)


def test_linear_refuses_integers(snippet, dtype=torch.int64):
    run = snippet.after("inputs")
    layers = [run.calls["Linear"], run.calls["Linear without bias"]]

    for layer in (*layers, nn.Linear(1, 8)):
        assert {each.dtype for each in layer.parameters()} == {torch.float32}
        for numbers in (run.prices.to(dtype), torch.ones(1, dtype=dtype)):
            assert "same dtype" in error_of(layer, numbers)


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS[:-1]])
def test_linear_refuses_integers__also_of_other_types(snippet, dtype):
    test_linear_refuses_integers(snippet, dtype)


def test_linear_refuses_integers__but_not_float32(snippet, fails):
    fails(test_linear_refuses_integers, snippet, torch.float32)


def test_linear_refuses_integers__but_not_with_a_conversion(snippet, fails):
    edited = snippet.edit(
        "for name, call",
        'calls["Linear"].register_forward_pre_hook(\n'
        "    lambda _, inputs: inputs[0].float()\n)\nfor name, call",
    )
    fails(test_linear_refuses_integers, edited)


def test_class_labels_are_int64(snippet, dtype=torch.int32):
    run = snippet.after("labels")
    assert run.scores.dtype == torch.float32
    assert all("Long" in (said or "") for said in run.no_label)

    for scores, labels in (
        (run.scores, run.kinds),
        (torch.rand(4, 7), torch.tensor([6, 0, 5, 1])),
        (torch.rand(1, 2).double(), torch.tensor([1])),
    ):
        assert labels.dtype == torch.int64
        assert error_of(run.entropy, scores, labels) == ""
        assert "Long" in error_of(run.entropy, scores, labels.to(dtype))


@pytest.mark.parametrize(
    "dtype", [torch.int16, torch.int8, torch.bool, *FLOATS]
)
def test_class_labels_are_int64__also_not_these(snippet, dtype):
    test_class_labels_are_int64(snippet, dtype)


def test_class_labels_are_int64__but_not_refused_as_such(snippet, fails):
    fails(test_class_labels_are_int64, snippet, torch.int64)


@edits(
    ("kinds.int(), k", "kinds, k"),
    ("kinds.float()\n", "torch.eye(3)\n"),
    ("nn.CrossEntropyLoss()", "nn.MultiLabelSoftMarginLoss()"),
)
def test_class_labels_are_int64__but_not_otherwise(snippet, old, new, fails):
    fails(test_class_labels_are_int64, snippet.edit(old, new), torch.float32)


def test_binary_targets_are_floating_point(snippet):
    run = snippet.after("yes-or-no")
    assert run.bought.dtype == torch.int64
    for said, name in zip(run.no_target, ("desired", "Found"), strict=True):
        assert name in (said or "")
        assert "Long" in said

    for loss, shape in itertools.product(run.losses, ((3,), (4, 7))):
        predictions, targets = torch.rand(shape), torch.ones(shape)
        for dtype in (torch.bool, *INTEGERS):
            assert error_of(loss, predictions, targets.to(dtype)) != ""
        assert error_of(loss, predictions, targets) == ""


@edits(
    ("torch.tensor([0, 1, 1])", "torch.tensor([0.0, 1.0, 1.0])"),
    ("nn.BCEWithLogitsLoss(), n", "nn.MSELoss(), n"),
    (", nn.BCELoss()\n", ", nn.MSELoss()\n"),
    ("losses]", "losses]\nlosses[0].weight = torch.ones(2)"),
    ("losses]", "losses]\nlosses[1].weight = torch.ones(2)"),
)
def test_binary_targets_are_floating_point__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_binary_targets_are_floating_point, snippet.edit(old, new))


MEAN, STD = "could not infer output dtype", "only support floating point"


def test_integers_have_no_mean(snippet, dtype=torch.int64):
    run = snippet.after("no-mean")
    for said, text in zip(run.no_mean, (MEAN, STD), strict=True):
        assert text in (said or "")

    for x in (run.kinds.to(dtype), torch.ones(2, 3).to(dtype)):
        assert MEAN in error_of(x.mean)
        assert STD in error_of(x.std)
        exact = torch.tensor(sum(x.flatten().tolist()) / x.numel())
        for mean in (x.mean(dtype=torch.float32), x.float().mean()):
            assert torch.equal(mean, exact)


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS[:-1]])
def test_integers_have_no_mean__also_other_types(snippet, dtype):
    test_integers_have_no_mean(snippet, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_integers_have_no_mean__but_floats_have(snippet, dtype, fails):
    fails(test_integers_have_no_mean, snippet, dtype)


@edits(("torch.mean", "torch.sum"), ("torch.std", "torch.max"))
def test_integers_have_no_mean__but_a_sum_and_a_largest(
    snippet, old, new, fails
):
    fails(test_integers_have_no_mean, snippet.edit(old, new))


ELEMENTWISE = [operator.add, operator.sub, operator.mul]


def test_uint8_wraps_around(snippet, dtype=torch.uint8):
    brighter = snippet.after("wrap").brighter
    assert (brighter.dtype, brighter.tolist()) == (dtype, [[100, 200, 44]])

    column = torch.arange(256).to(dtype)
    for operation in ELEMENTWISE:
        made = operation(column[:, None], column)
        assert made.dtype == dtype
        exact = operation(torch.arange(256)[:, None], torch.arange(256))
        assert torch.equal(made.long(), exact % 256)
        assert torch.equal(operation(column, 77).long(), exact[:, 77] % 256)


@pytest.mark.parametrize(
    "new", ["(photo.int() + 100) % 256", "photo + 101", "photo // 2"]
)
def test_uint8_wraps_around__but_not_with_these(snippet, new, fails):
    edited = snippet.edit("brighter = photo + 100", f"brighter = {new}")
    fails(test_uint8_wraps_around, edited)


def test_uint8_wraps_around__but_not_once_converted(snippet, fails):
    edited = snippet.edit(
        "brighter = photo + 100", "brighter = photo.int() + 100"
    )
    fails(test_uint8_wraps_around, edited)


def test_sums_do_not_wrap(snippet):
    total = snippet.after("wrap").total
    every = snippet.edit(PHOTO, f"{EVERY}.repeat(99)").after("wrap").total

    assert (total.dtype, total.item()) == (torch.int64, 300)
    assert (every.dtype, every.item()) == (torch.int64, 99 * 128 * 255)


@pytest.mark.parametrize(
    "new", ["photo.sum(dtype=torch.uint8)", "photo.float().sum()"]
)
def test_sums_do_not_wrap__but_not_of_another_type(snippet, new, fails):
    fails(test_sums_do_not_wrap, snippet.edit("photo.sum()", new))


def test_conversion_wraps_and_creation_refuses(snippet):
    run = snippet.after("wrap")
    assert (run.converted.dtype, run.converted.item()) == (torch.uint8, 44)
    assert "without overflow" in (run.too_large or "")

    numbers = torch.tensor([*range(-999, 999), 2**40 + 7, -(2**40)])
    for made in (numbers.to(torch.uint8), numbers.type(torch.uint8)):
        assert torch.equal(made.long(), numbers % 256)


@edits(
    ("([300]).to(torch.uint8)", "([300]).to(torch.int16)"),
    ("([300]).to(torch.uint8)", "([300]).clamp(max=255).to(torch.uint8)"),
    ("([300], dtype=torch.uint8)", "([300], dtype=torch.int16)"),
    ("([300], dtype=torch.uint8)", "([200], dtype=torch.uint8)"),
)
def test_conversion_wraps_and_creation_refuses__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_conversion_wraps_and_creation_refuses, snippet.edit(old, new))


def test_clamp_before_going_back(snippet):
    assert snippet.after("clamp").right.tolist() == [[100, 200, 255]]

    every = snippet.edit(PHOTO, EVERY).after("clamp").right
    assert every.dtype == torch.uint8
    exact = (torch.arange(256) + 100).clamp(max=255)
    assert torch.equal(every.long(), exact)


@edits(
    ("(photo.int() + 100)", "(photo + 100)"),
    (".clamp(max=255).to", ".to"),
    (".clamp(max=255).to", ".clamp(max=256).to"),
    (".clamp(max=255).to", ".clamp(max=254).to"),
)
def test_clamp_before_going_back__but_not_otherwise(snippet, old, new, fails):
    fails(test_clamp_before_going_back, snippet.edit(old, new))


def test_an_assigned_number_is_cut(snippet):
    with no_error():
        run = snippet.after("in-place")
    assert run.counts.dtype == torch.int64
    assert run.counts.tolist() == [1, 70_000]

    for dtype in INTEGERS:
        x = torch.tensor([[5, 6], [7, 8]], dtype=dtype)
        with no_error():
            x[0, 1] = 1.7
        assert x.tolist() == [[5, 1], [7, 8]]


@pytest.mark.parametrize(
    "new",
    [
        "counts = counts.float()\ncounts[0] = 1.7",
        "counts[0] = round(1.7)",
        "counts.set_(counts.floor_divide(1.0))",
    ],
)
def test_an_assigned_number_is_cut__but_not_otherwise(snippet, new, fails):
    edited = snippet.edit("counts[0] = 1.7", new)
    fails(test_an_assigned_number_is_cut, edited)


IN_PLACE = [operator.imul, operator.iadd, torch.Tensor.mul_, torch.Tensor.add_]


def test_in_place_cannot_promote(snippet, number=0.9):
    run = snippet.after("in-place")
    assert "can't be cast" in (run.no_product or "")
    assert run.counts.tolist() == [1, 70_000]

    for dtype, change in itertools.product(INTEGERS, IN_PLACE):
        for shape in ((3,), (), (0, 2)):
            x = torch.ones(shape, dtype=dtype)
            assert "can't be cast" in error_of(change, x, number)
            assert x.dtype == dtype
            assert torch.equal(x, torch.ones(shape, dtype=dtype))


def test_in_place_cannot_promote__but_takes_an_integer(snippet, fails):
    fails(test_in_place_cannot_promote, snippet, 9)


@edits(
    ("counts[0] = 1.7", "counts = counts.float()"),
    ("counts.mul_, 0.9", "counts.mul, 0.9"),
    ("counts.mul_, 0.9", "counts.mul_, 9"),
    ("no_product = ", "counts.add_(1)\nno_product = "),
)
def test_in_place_cannot_promote__but_not_otherwise(snippet, old, new, fails):
    fails(test_in_place_cannot_promote, snippet.edit(old, new))


# Where it ends


def test_float8_is_for_storage(snippet, dtype=torch.float8_e5m2):
    run = snippet.after("float8")
    assert run.tiny.dtype == torch.float8_e5m2
    assert (run.tiny.dtype.itemsize, run.tiny.nbytes) == (1, 3)
    assert "not implemented for" in (run.no_sum or "")

    numbers = torch.tensor([0.5, -2.0, 12.0]).to(dtype)
    assert numbers.nbytes == numbers.numel()
    again = numbers.float()
    assert (again.dtype, again.tolist()) == (torch.float32, [0.5, -2, 12])
    for other in (numbers, numbers[0], again, 1):
        assert error_of(torch.add, numbers, other) != ""


def test_float8_is_for_storage__also_with_more_digits(snippet):
    test_float8_is_for_storage(snippet, torch.float8_e4m3fn)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int8])
def test_float8_is_for_storage__but_not_wider_types(snippet, dtype, fails):
    fails(test_float8_is_for_storage, snippet, dtype)


@edits(
    ("prices.to(torch.float8_e5m2)", "prices.half()"),
    ("prices.to(torch.float8_e5m2)", "prices.to(torch.uint8)"),
    ("tiny + tiny", "tiny.float() + tiny.float()"),
)
def test_float8_is_for_storage__but_not_otherwise(snippet, old, new, fails):
    fails(test_float8_is_for_storage, snippet.edit(old, new))
