"""The claims of docs/tensors/table_of_dtypes.md."""

import itertools
import math
import operator
from functools import partial

import numpy
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.dtypes import (
    ALL,
    FLOATS,
    INTEGERS,
    METHODS,
    SIGNED,
    SIXTEEN_BIT,
    both,
    conversions,
    name_of,
    number_of,
    pattern,
)
from tests.helpers.programs import error_of

PHOTO = "torch.tensor([[0, 100, 200]], dtype=torch.uint8)"
EVERY = "torch.arange(256, dtype=torch.uint8)"


SPENT = [
    (torch.float64, 11, 52),
    (torch.float32, 8, 23),
    (torch.float16, 5, 10),
    (torch.bfloat16, 8, 7),
]


@pytest.mark.parametrize(("dtype", "exponent", "fraction"), SPENT, ids=name_of)
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
    """With the exponent of another type, the bits of 2 and of infinity do not
    fit.
    """
    fails(test_bits_are_spent_so, snippet, dtype, exponent, fraction)


def decimals(dtype, digits, smallest):
    """Yield numbers of so many digits, written out, up to the largest."""
    first = math.ceil(math.log10(smallest))
    last = math.floor(math.log10(torch.finfo(dtype).max))
    low, high = 10 ** (digits - 1), 10**digits
    for power in range(first, last, max(1, (last - first) // 60)):
        for number in (*range(low, high, max(1, low // 10)), high - 1):
            written = str(number)
            yield f"{written[0]}.{written[1:]}e{power:+03}"


def changed(dtype, digits, smallest):
    """Return the numbers of so many digits that a type gives back changed."""
    given = [*decimals(dtype, digits, smallest)]
    exact = torch.tensor([*map(float, given)], dtype=torch.float64)
    back = [f"{x:.{digits - 1}e}" for x in exact.to(dtype).tolist()]
    return [x for x, y in zip(given, back, strict=True) if x != y]


DIGITS = [
    (torch.float64, 15),
    (torch.float32, 6),
    (torch.float16, 3),
    (torch.bfloat16, 2),
]


@pytest.mark.parametrize(("dtype", "digits"), DIGITS, ids=name_of)
def test_so_many_digits_survive(snippet, dtype, digits, smallest=None):
    fraction = snippet.after("bits").bits[dtype][2]
    assert int(fraction * math.log10(2)) == digits

    smallest = smallest or torch.finfo(dtype).smallest_normal
    assert changed(dtype, digits, smallest) == []


@pytest.mark.parametrize(("dtype", "digits"), DIGITS, ids=name_of)
def test_so_many_digits_survive__but_not_one_more(
    snippet, dtype, digits, fails
):
    """If numbers have one digit more, some come back with a different last
    digit.
    """
    smallest = torch.finfo(dtype).smallest_normal
    assert changed(dtype, digits + 1, smallest) != []
    fails(test_so_many_digits_survive, snippet, dtype, digits + 1)


def test_so_many_digits_survive__but_not_counted_from_float32(snippet, fails):
    """With the fraction of `float32`, the table would list 6 digits for
    `float16`.
    """
    edited = snippet.edit("torch.finfo(dtype).eps", "torch.finfo().eps")
    fails(test_so_many_digits_survive, edited, torch.float16, 3)


@pytest.mark.parametrize(("dtype", "digits"), DIGITS[1:], ids=name_of)
def test_so_many_digits_survive__ends_below_the_smallest_normal(
    snippet, dtype, digits, fails
):
    """Numbers closer to zero than the smallest normal one lose digits."""
    smallest = torch.finfo(dtype).smallest_normal / 1e4
    fails(test_so_many_digits_survive, snippet, dtype, digits, smallest)


def test_integers_end_at_a_power_of_two(snippet):
    ranges = snippet.after("integers").ranges
    assert [*ranges] == INTEGERS

    for dtype, (size, smallest, largest) in ranges.items():
        n = 8 * size
        ends = -(2 ** (n - 1)), 2 ** (n - 1) - 1
        ends = (0, 255) if dtype == torch.uint8 else ends
        assert (size, smallest, largest) == (dtype.itemsize, *ends)
        # After the largest number comes the smallest.
        x = torch.tensor([smallest, largest], dtype=dtype)
        assert x.tolist() == [smallest, largest]
        assert (x + 1)[1] == smallest
        assert (x - 1)[0] == largest


@edits(
    ("info.min, info.max", "-info.max, info.max"),
    ("info.min, info.max", "info.min, -info.min"),
    ("iinfo(dtype)", "iinfo(torch.int64)"),
    ("dtype.itemsize, info.min", "info.bits, info.min"),
)
def test_integers_end_at_a_power_of_two__but_not_otherwise(
    snippet, old, new, fails
):
    """There is one more negative number: `int8` has -128, but not 128."""
    fails(test_integers_end_at_a_power_of_two, snippet.edit(old, new))


def test_float32_counts_to_sixteen_million(snippet, dtype=torch.float32):
    counted = snippet.after("counted").counted
    assert counted.dtype == torch.int64
    assert counted.tolist() == [16_777_216, 16_777_216]
    assert torch.tensor(16_777_217).to(dtype).long() == 16_777_216
    numbers = torch.arange(16_777_217, dtype=torch.int32)
    assert torch.equal(numbers.to(dtype).int(), numbers)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=name_of)
def test_float32_counts_to_sixteen_million__ends_in(snippet, dtype, fails):
    """In `bfloat16`, which skips integers from 257 on, and in `float64`, which
    holds 16,777,217 as well.
    """
    fails(test_float32_counts_to_sixteen_million, snippet, dtype)


def test_float32_counts_to_sixteen_million__but_not_as_float64(snippet, fails):
    """`float64` holds 16,777,217 too."""
    edited = snippet.edit(".float().long()", ".double().long()")
    fails(test_float32_counts_to_sixteen_million, edited)


def worst(dtype, low, high):
    """Return the largest share by which a type changes a number."""
    ends = pattern(low, torch.float32), pattern(high, torch.float32)
    bits = torch.arange(*ends, 9973, dtype=torch.int32)
    ends = torch.tensor([low, high], dtype=torch.float32)
    given = torch.cat([bits.view(torch.float32), ends]).double()
    return ((given.float().to(dtype).double() - given) / given).abs().max()


def change_of(run, dtype, which):
    """Return by which share the amounts of the page changed at most."""
    assert run.stored[dtype] == run.amounts.to(dtype).tolist()
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
def test_float16_has_more_digits__ends_in_bfloat16_or_outside(
    snippet, dtype, low, high, fails
):
    """In `bfloat16`, where numbers of the same range change by up to 0.4 %,
    and outside this range.
    """
    fails(test_float16_has_more_digits, snippet, dtype, low, high)


def test_float16_has_more_digits__but_not_after_bfloat16(snippet, fails):
    """Digits that `bfloat16` has dropped do not come back in `float16`."""
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
def test_bfloat16_keeps_the_range__ends_in_float16_or_at_the_ends(
    snippet, dtype, low, high, fails
):
    """In `float16`, where the largest of these numbers become `inf` and the
    smallest 0, and outside this range.
    """
    fails(test_bfloat16_keeps_the_range, snippet, dtype, low, high)


def test_bfloat16_keeps_the_range__but_not_after_float16(snippet, fails):
    """A number that became `inf` in `float16` is still `inf` in `bfloat16`."""
    edited = snippet.edit("amounts.to(dtype)", "amounts.half().to(dtype)")
    fails(test_bfloat16_keeps_the_range, edited)


@pytest.mark.parametrize(("name", "dtype"), [*METHODS.items()], ids=name_of)
def test_methods_name_types(snippet, name, dtype):
    named = snippet.after("methods").named
    assert named.keys() == METHODS.keys()
    assert named[name] == dtype
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
        ("short", torch.int32),
        ("char", torch.uint8),
        ("byte", torch.int8),
        ("bool", torch.uint8),
    ],
    ids=name_of,
)
def test_methods_name_types__but_not_another_type(snippet, name, dtype, fails):
    """Each method has one type: `float()` gives `float32`, never `float64`."""
    fails(test_methods_name_types, snippet, name, dtype)


def test_to_the_same_type_copies_nothing(snippet):
    run = snippet.after("same")
    assert run.same is run.amounts

    for dtype in ALL:
        for x in (torch.ones(2, dtype=dtype), torch.ones(2, 3).to(dtype).T):
            assert all(made is x for made in conversions(x, dtype))


@pytest.mark.parametrize(
    "new",
    [
        "amounts.to(torch.float64, copy=True)",
        "amounts.to(torch.float64).clone()",
        "amounts.to(torch.float32)",
    ],
)
def test_to_the_same_type_copies_nothing__but_not_with(snippet, new, fails):
    """With `copy=True`, `to` returns a copy even if the type is the same."""
    edited = snippet.edit("amounts.to(torch.float64)", new)
    fails(test_to_the_same_type_copies_nothing, edited)


def test_all_but_zero_is_true(snippet):
    assert snippet.after("truth").truth.tolist() == [
        True,
        False,
        True,
        True,
    ]

    for dtype in FLOATS:
        info = torch.finfo(dtype)
        small = info.smallest_normal * info.eps  # the smallest of all
        numbers = [math.nan, math.inf, -0.25, small, -small, info.min, 0, -0.0]
        truth = torch.tensor(numbers, dtype=dtype).bool()
        assert truth.tolist() == [True] * 6 + [False] * 2
    for dtype in INTEGERS:
        numbers = torch.arange(-3, 4).to(dtype)
        assert numbers.bool().tolist() == [n != 0 for n in range(-3, 4)]


@pytest.mark.parametrize("new", ["nan]).long().bool()", "nan]) > 0"])
def test_all_but_zero_is_true__but_not_once_cut_off_or_compared(
    snippet, new, fails
):
    """If you cut off the fraction first, -0.5 becomes 0, which is `False`."""
    fails(test_all_but_zero_is_true, snippet.edit("nan]).bool()", new))


PAIRS = [
    *((one, other, other) for one, other in itertools.combinations(SIGNED, 2)),
    *((each, torch.float32, torch.float32) for each in SIXTEEN_BIT),
    *((each, torch.float64, torch.float64) for each in FLOATS[:3]),
]


def assert_gives(run, one, other, expected):
    """Check the sums and products of a pair, and the table of the page."""
    assert {made.dtype for made in both(one, other)} == {expected}
    listed = {torch.bool, torch.uint8, torch.int64, *FLOATS}
    assert run.sums.keys() == listed
    assert run.sums.get(one, {}).get(other, expected) == expected
    assert run.sums.get(other, {}).get(one, expected) == expected


@pytest.mark.parametrize(("one", "other", "expected"), PAIRS, ids=name_of)
def test_the_wider_type_wins(snippet, one, other, expected):
    assert_gives(snippet.after("meet"), one, other, expected)


@pytest.mark.parametrize(("one", "other", "expected"), PAIRS[6:], ids=name_of)
def test_the_wider_type_wins__but_not_of_one_number(
    snippet, one, other, expected, fails
):
    """A single number of a wider type does not widen the result."""
    edited = snippet.edit("(a + b)", "(a[0] + b)")
    fails(test_the_wider_type_wins, edited, one, other, expected)


def test_the_wider_type_wins__but_not_the_narrower(snippet, fails):
    """`int8` with `int16` gives `int16`, not `int8`."""
    types = torch.int8, torch.int16, torch.int8
    fails(test_the_wider_type_wins, snippet, *types)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (torch.float16, torch.bfloat16, torch.float32),
        (torch.uint8, torch.int8, torch.int16),
    ],
    ids=name_of,
)
def test_neither_type_wins(snippet, one, other, expected):
    assert_gives(snippet.after("meet"), one, other, expected)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (torch.float16, torch.bfloat16, torch.float16),
        (torch.float16, torch.bfloat16, torch.bfloat16),
        (torch.uint8, torch.int8, torch.uint8),
        (torch.uint8, torch.int8, torch.int8),
    ],
    ids=name_of,
)
def test_neither_type_wins__but_not_one_of_the_two(
    snippet, one, other, expected, fails
):
    """Neither dtype holds all numbers of the other, so neither is the
    result.
    """
    fails(test_neither_type_wins, snippet, one, other, expected)


def test_neither_type_wins__but_not_of_one_number(snippet, fails):
    """If one of them is a single number, the other wins."""
    edited = snippet.edit("(a + b)", "(a[0] + b)")
    types = torch.float16, torch.bfloat16, torch.float32
    fails(test_neither_type_wins, edited, *types)


@pytest.mark.parametrize("other", SIGNED[1:], ids=name_of)
def test_neither_type_wins__ends_at_wider_integers(snippet, other, fails):
    """`int16`, `int32` and `int64` hold all numbers of `uint8`, and win."""
    assert_gives(snippet.after("meet"), torch.uint8, other, other)
    wider = torch.int32 if other == torch.int16 else torch.int16
    fails(test_neither_type_wins, snippet, torch.uint8, other, wider)


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
    """Added to `float32` zeros, both counts stay exact."""
    fails(test_promotion_may_lose, snippet.edit(old, new))


def test_the_default_dtype_decides(snippet):
    run = snippet.after("default")
    assert run.debts.dtype == torch.int64
    assert run.shares[0].dtype == torch.get_default_dtype() == torch.float32
    for made in run.wide:
        assert (made.dtype, made.tolist()) == (torch.float64, [-3.5, 3.5])

    for dtype, integer in itertools.product(FLOATS, INTEGERS):
        torch.set_default_dtype(dtype)
        x = torch.tensor([3, 6], dtype=integer)
        for made in (x / 3, x / x, x / x.long(), 3 / x, x * 1.5, 0.5 * x):
            assert made.dtype == dtype
        assert (x / 3.0).dtype == (x / torch.tensor(3)).dtype == dtype


@edits(
    ("torch.set_default_dtype(torch.float64)\n", ""),
    ("[debts / 2, debts * 0.5]", "[debts // 2, debts * 0.5]"),
    ("[debts / 2, debts * 0.5]", "[debts / 2, debts * 5]"),
    ("[debts / 2, debts // 2", "[debts // 2, debts // 2"),
)
def test_the_default_dtype_decides__but_not_for_integers(
    snippet, old, new, fails
):
    """If the default dtype is still `float32`, the quotients are `float32`."""
    fails(test_the_default_dtype_decides, snippet.edit(old, new))


def test_the_default_dtype_decides__ends_at_a_float64_tensor(snippet, fails):
    """Divided by a `float64` tensor, integers become `float64`, whatever the
    default is.
    """
    divisor = "torch.tensor([2.0], dtype=torch.float64)"
    edited = snippet.edit(
        "shares = [debts / 2", f"shares = [debts / {divisor}"
    )
    fails(test_the_default_dtype_decides, edited)


def test_double_slash_rounds_down(snippet, divisors=(1, 2, 3, 2**62)):
    run = snippet.after("divide")
    _, down, cut = run.shares
    assert down.dtype == cut.dtype == run.debts.dtype == torch.int64
    assert (down.tolist(), cut.tolist()) == ([-4, 3], [-3, 3])

    numbers = [*range(-9, 10), 2**62 + 1, -(2**62) - 1]
    for x, n in itertools.product((torch.tensor(numbers),), divisors):
        with no_error():
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
    """`/` does not round, and its result is floating point."""
    fails(test_double_slash_rounds_down, snippet.edit(old, new))


def test_double_slash_rounds_down__ends_for_a_float(snippet, fails):
    """Divided by the float 2.0: the result is floating point too."""
    fails(test_double_slash_rounds_down, snippet, (2.0,))


def test_double_slash_rounds_down__ends_at_zero(snippet, fails):
    """Integers divided by 0 raise an error that says `ZeroDivisionError`."""
    for rounding_mode in ("floor", "trunc"):
        divide = partial(torch.div, rounding_mode=rounding_mode)
        said = error_of(divide, torch.tensor([-7, 7]), 0)
        assert said == "ZeroDivisionError"
    fails(test_double_slash_rounds_down, snippet, (0,))


def test_linear_refuses_integers(snippet, dtype=torch.uint8):
    run = snippet.after("linear")
    assert ["same dtype" in (said or "") for said in run.no_output] == [
        True,
        True,
    ]

    assert [layer.bias is None for layer in run.layers] == [False, True]
    for layer in (*run.layers, nn.Linear(3, 8)):
        assert {each.dtype for each in layer.parameters()} == {torch.float32}
        for shape in ((1, 3), (3,), (2, 5, 3)):
            numbers = torch.ones(shape, dtype=dtype)
            assert "same dtype" in error_of(layer, numbers)


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS[1:]], ids=name_of)
def test_linear_refuses_integers__also_of_other_types(snippet, dtype):
    test_linear_refuses_integers(snippet, dtype)


def test_linear_refuses_integers__ends_for_float32(snippet, fails):
    """A `float32` input has the dtype of the weights, so you get no error."""
    fails(test_linear_refuses_integers, snippet, torch.float32)


def test_linear_refuses_integers__but_not_with_a_conversion(snippet, fails):
    """Convert the bytes with `.float()`, and the layer takes them."""
    edited = snippet.edit("(layer, photo)", "(layer, photo.float())")
    fails(test_linear_refuses_integers, edited)


def test_sums_do_not_wrap(snippet):
    run = snippet.after("total")
    total = run.total
    assert run.photo.dtype == torch.uint8
    every = snippet.edit(PHOTO, f"{EVERY}.repeat(99)").after("total").total

    assert (total.dtype, total.item()) == (torch.int64, 300)
    assert (every.dtype, every.item()) == (torch.int64, 99 * 128 * 255)


@pytest.mark.parametrize(
    "new", ["photo.sum(dtype=torch.uint8)", "photo.float().sum()"]
)
def test_sums_do_not_wrap__but_not_of_another_type(snippet, new, fails):
    """If you ask for `dtype=torch.uint8`, the sum wraps around."""
    fails(test_sums_do_not_wrap, snippet.edit("photo.sum()", new))


def test_conversion_wraps(snippet):
    converted = snippet.after("conversion").converted
    assert converted.dtype == torch.uint8
    assert converted.tolist() == [44, 255]

    numbers = torch.tensor([*range(-999, 999), 2**40 + 7, -(2**40)])
    for made in (numbers.to(torch.uint8), numbers.type(torch.uint8)):
        assert torch.equal(made.long(), numbers % 256)


@edits(
    ("([300, -1]).to(torch.uint8)", "([300, -1]).to(torch.int16)"),
    (
        "([300, -1]).to(torch.uint8)",
        "([300, -1]).clamp(max=255).to(torch.uint8)",
    ),
)
def test_conversion_wraps__but_not_otherwise(snippet, old, new, fails):
    """`int16` has room for 300, so nothing wraps around."""
    fails(test_conversion_wraps, snippet.edit(old, new))


def test_creation_refuses_large_integers(snippet, number=256):
    no_tensor = snippet.after("too-large").no_tensor
    assert "without overflow" in (no_tensor or "")
    made = error_of(lambda: torch.tensor([number], dtype=torch.uint8))
    assert "without overflow" in made


@pytest.mark.parametrize("number", [300, 2**40, -256])
def test_creation_refuses_large_integers__also(snippet, number):
    test_creation_refuses_large_integers(snippet, number)


@pytest.mark.parametrize("number", [-1, -255])
def test_creation_refuses_large_integers__ends_below_zero(
    snippet, number, fails
):
    """From -1 to -255, a negative number wraps around without an error."""
    made = torch.tensor([number], dtype=torch.uint8)
    assert made.item() == number + 256
    fails(test_creation_refuses_large_integers, snippet, number)


def test_creation_refuses_large_integers__ends_with_an_array(snippet, fails):
    """From a NumPy array, 300 becomes 44, without an error."""
    array = numpy.array([300])
    assert torch.tensor(array, dtype=torch.uint8).tolist() == [44]
    edited = snippet.edit("tensor([300],", "tensor(digits,")
    edited = edited.edit(
        "no_tensor =", "digits = __import__('numpy').array([300])\nno_tensor ="
    )
    fails(test_creation_refuses_large_integers, edited)


@edits(
    ("([300], dtype=torch.uint8)", "([300], dtype=torch.int16)"),
    ("([300], dtype=torch.uint8)", "([200], dtype=torch.uint8)"),
    ("([300], dtype=torch.uint8)", "([300]).to(torch.uint8)"),
)
def test_creation_refuses_large_integers__but_not_otherwise(
    snippet, old, new, fails
):
    """`int16` has room for 300."""
    fails(test_creation_refuses_large_integers, snippet.edit(old, new))


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
        "counts.copy_(torch.tensor([2, 70_000]))",
    ],
)
def test_an_assigned_number_is_cut__but_not_otherwise(snippet, new, fails):
    """In a `float32` tensor, 1.7 stays 1.7."""
    edited = snippet.edit("counts[0] = 1.7", new)
    fails(test_an_assigned_number_is_cut, edited)


def test_an_assigned_number_is_cut__ends_with_an_index_tensor(snippet, fails):
    """If a mask or a tensor picks the elements, a `float32` tensor of values
    raises an error.
    """
    mask, numbers = torch.tensor([True, True]), torch.tensor([1.7, 2.7])
    for picked in (mask, torch.tensor([0, 1])):
        said = error_of(
            operator.setitem, torch.tensor([5, 6]), picked, numbers
        )
        assert "destination dtypes match" in said
    new = "counts[counts > 0] = torch.tensor([1.7, 70_000.0])"
    edited = snippet.edit("counts[0] = 1.7", new)
    fails(test_an_assigned_number_is_cut, edited)


def test_an_assigned_number_is_cut__ends_at_numbers_that_do_not_fit(
    snippet, fails
):
    """`nan` and 1e30 have no equal in `int64`, and raise an error."""
    for number in (math.nan, math.inf, 1e30):
        said = error_of(operator.setitem, torch.tensor([5, 6]), 0, number)
        assert "without overflow" in said
    edited = snippet.edit("counts[0] = 1.7", "counts[0] = float('nan')")
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


def test_in_place_cannot_promote__ends_for_an_integer(snippet, fails):
    """Times the integer 9, the product stays an integer, without an error."""
    fails(test_in_place_cannot_promote, snippet, 9)


@edits(
    ("counts[0] = 1.7", "counts = counts.float()"),
    ("counts.mul_, 0.9", "counts.mul, 0.9"),
    ("counts.mul_, 0.9", "counts.mul_, 9"),
    ("no_product = ", "counts.add_(1)\nno_product = "),
)
def test_in_place_cannot_promote__but_not_otherwise(snippet, old, new, fails):
    """A `float32` tensor can be multiplied in place by 0.9."""
    fails(test_in_place_cannot_promote, snippet.edit(old, new))


def test_comparison_promotes(snippet, number=0.1, dtype=torch.float64):
    run = snippet.after("compare")
    assert (run.tenths.dtype, run.exact.dtype) == (
        torch.float32,
        torch.float64,
    )
    assert (run.tenths == run.exact).tolist() == [False]
    assert run.exact.tolist() == [0.1]
    assert run.tenths.tolist() == torch.tensor([0.1]).tolist()

    ours, exact = torch.tensor([number]), torch.tensor([number], dtype=dtype)
    assert (ours == exact).tolist() == (exact == ours).tolist() == [False]
    assert (ours == number).tolist() == [True]
    assert (ours == exact.float()).tolist() == [True]


@pytest.mark.parametrize("number", [0.3, 1 / 3, -1e-3, 2.7e30])
def test_comparison_promotes__also_of(snippet, number):
    test_comparison_promotes(snippet, number)


@pytest.mark.parametrize("number", [0.5, 3.0, -1.25])
def test_comparison_promotes__ends_at_numbers_that_float32_holds(
    snippet, number, fails
):
    """`float32` holds 0.5 exactly, so both tensors are equal."""
    fails(test_comparison_promotes, snippet, number)


def test_comparison_promotes__ends_without_dimensions(snippet, fails):
    """A `float64` tensor without dimensions is rounded like a Python
    number.
    """
    edited = snippet.edit(
        "torch.tensor([0.1], dtype", "torch.tensor(0.1, dtype"
    )
    fails(test_comparison_promotes, edited)


@pytest.mark.parametrize("dtype", SIXTEEN_BIT, ids=name_of)
def test_comparison_promotes__but_not_once_16_bits_are_lost(
    snippet, dtype, fails
):
    """Digits that 16 bits have dropped do not come back with `float()`."""
    fails(test_comparison_promotes, snippet, 0.1, dtype)


@edits(
    ("tensor([0.1], dtype=torch.float64)", "tensor([0.1])"),
    (
        "tenths, exact = torch.tensor([0.1])",
        "tenths, exact = torch.tensor([0.1]).double()",
    ),
    ("tensor([0.1], dtype=torch.float64)", "tensor([0.1]).double()"),
)
def test_comparison_promotes__but_not_otherwise_made(snippet, old, new, fails):
    """If both are `float32`, both are rounded in the same way."""
    fails(test_comparison_promotes, snippet.edit(old, new))


def test_closeness_wants_one_dtype(snippet, dtype=torch.float64):
    run = snippet.after("close")
    assert run.no_answer == ["Float did not match Double"] * 2
    assert run.comparisons == (torch.isclose, torch.allclose)

    for compare, number in itertools.product(run.comparisons, (0.1, 0.5, 3)):
        ours = torch.tensor([number]).float()
        for other in (ours.to(dtype), ours[:0].to(dtype)):
            assert "did not match" in error_of(compare, ours, other)
        assert bool(compare(ours, ours.double().float()))


@pytest.mark.parametrize(
    "dtype", [*SIXTEEN_BIT, *INTEGERS, torch.bool], ids=name_of
)
def test_closeness_wants_one_dtype__also_with(snippet, dtype):
    test_closeness_wants_one_dtype(snippet, dtype)


def test_closeness_wants_one_dtype__but_not_of_one_dtype(snippet, fails):
    """Two `float32` tensors can be compared."""
    fails(test_closeness_wants_one_dtype, snippet, torch.float32)


@edits(
    ("(each, tenths, exact)", "(each, tenths.double(), exact)"),
    ("torch.isclose, torch.allclose", "torch.isclose, torch.equal"),
    ("torch.isclose, torch.allclose", "torch.eq, torch.allclose"),
)
def test_closeness_wants_one_dtype__but_not_otherwise(
    snippet, old, new, fails
):
    """If you convert one of them with `.double()`, both have the same
    dtype.
    """
    fails(test_closeness_wants_one_dtype, snippet.edit(old, new))


UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]


def test_wide_unsigned_types_do_not_promote(snippet, dtype=torch.uint16):
    run = snippet.after("unsigned")
    assert (run.depths.dtype, run.counts.dtype) == (torch.uint16, torch.int64)
    assert run.depths.tolist() == [40_000, 65_535]
    assert "Promotion for uint16, uint32, uint64" in (run.no_depths or "")

    x = torch.ones(2).to(dtype)
    others = {torch.bool, *INTEGERS, *UNSIGNED} - {dtype}
    for operation, other in itertools.product((torch.add, torch.mul), others):
        y = torch.ones(2).to(other)
        assert "is not supported" in error_of(operation, x, y)
        assert "is not supported" in error_of(operation, y, x)
        assert error_of(operation, x.long(), y.long()) == ""


@pytest.mark.parametrize("dtype", UNSIGNED[1:], ids=name_of)
def test_wide_unsigned_types_do_not_promote__also(snippet, dtype):
    test_wide_unsigned_types_do_not_promote(snippet, dtype)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=name_of)
def test_wide_unsigned_types_do_not_promote__but_others_do(
    snippet, dtype, fails
):
    """`uint8` has a rule for each other type but these three."""
    fails(test_wide_unsigned_types_do_not_promote, snippet, dtype)


@edits(
    ("depths + counts", "depths.long() + counts"),
    ("depths + counts", "depths + counts.float()"),
    ("dtype=torch.uint16", "dtype=torch.int32"),
)
def test_wide_unsigned_types_do_not_promote__but_not_otherwise(
    snippet, old, new, fails
):
    """If you convert with `long()`, the sum is `int64`."""
    fails(test_wide_unsigned_types_do_not_promote, snippet.edit(old, new))


def test_float8_is_for_storage(snippet, dtype=torch.float8_e5m2):
    run = snippet.after("float8")
    assert run.tiny.dtype == torch.float8_e5m2
    assert (run.tiny.dtype.itemsize, run.tiny.nbytes) == (1, 4)
    assert "not implemented for" in (run.no_sum or "")

    numbers = torch.tensor([0.5, -2.0, 12.0]).to(dtype)
    assert numbers.nbytes == numbers.numel()
    again = numbers.float()
    assert (again.dtype, again.tolist()) == (torch.float32, [0.5, -2, 12])
    for other in (numbers, numbers[0], again, 1):
        assert error_of(torch.add, numbers, other) != ""


def test_float8_is_for_storage__also_with_more_digits(snippet):
    test_float8_is_for_storage(snippet, torch.float8_e4m3fn)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float32, torch.int8], ids=name_of
)
def test_float8_is_for_storage__ends_for_wider_types(snippet, dtype, fails):
    """`float16` takes two bytes per number, and can be added."""
    fails(test_float8_is_for_storage, snippet, dtype)


@edits(
    ("amounts.to(torch.float8_e5m2)", "amounts.half()"),
    ("amounts.to(torch.float8_e5m2)", "amounts.to(torch.uint8)"),
    ("tiny + tiny", "tiny.float() + tiny.float()"),
)
def test_float8_is_for_storage__but_not_otherwise(snippet, old, new, fails):
    """`half()` makes `float16`, which takes two bytes per number."""
    fails(test_float8_is_for_storage, snippet.edit(old, new))
