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
from tests.helpers.dtypes import (
    ALL,
    FLOATS,
    INTEGERS,
    both,
    category,
    conversions,
    name_of,
    number_of,
    pattern,
)
from tests.helpers.programs import error_of

ALL_AND_COMPLEX = [*ALL, torch.complex64, torch.complex128]
PHOTOS = "(images * 15).to(torch.uint8)"
EVERY = "torch.arange(1797 * 64).to(torch.uint8).reshape(1797, 8, 8)"


# Do this


def test_numpy_floats_are_float64(snippet):
    with no_error():
        run = snippet.after("inputs")
    assert run.digits.images.dtype == numpy.float64
    assert run.raw.dtype == torch.float64
    assert run.images.dtype == torch.float32

    for numbers in ([0.5], [-1.0, 1e300], [[], []], [[1, 2.0]], 0.5):
        made = numpy.array(numbers)
        tensor = torch.from_numpy(made)
        assert made.dtype == numpy.float64
        assert tensor.dtype == torch.float64
        assert tensor.float().dtype == torch.float32


@edits(
    ("raw = torch.from_numpy(digits.images)", "raw = torch.Tensor(images)"),
    ("(digits.images).float()", "(digits.images)"),
    (
        "load_digits()  #",
        'load_digits()\ndigits.images = digits.images.astype("float32")  #',
    ),
    (
        "load_digits()  #",
        "load_digits()\ndigits.images = digits.images.astype(int)  #",
    ),
)
def test_numpy_floats_are_float64__but_not_otherwise_made(
    snippet, old, new, fails
):
    """`torch.Tensor(...)` gives `float32`, whatever it gets."""
    fails(test_numpy_floats_are_float64, snippet.edit(old, new))


LAYERS = {
    "Linear": (lambda: nn.Linear(4, 3), (2, 4)),
    "Conv1d": (lambda: nn.Conv1d(4, 3, 2), (2, 4, 5)),
    "Conv2d": (lambda: nn.Conv2d(4, 3, 2), (2, 4, 5, 5)),
    "LSTM": (lambda: nn.LSTM(4, 3), (2, 4)),
    "Embedding": (lambda: nn.Embedding(4, 3), (2, 4)),
}


def test_layers_take_float32(snippet, name="Linear"):
    make, shape = LAYERS[name]
    with no_error():
        run = snippet.after("do-this")
        layer = make()
        output = layer(torch.ones(shape))
    output = output[0] if name == "LSTM" else output

    assert run.images.dtype == run.scores.dtype == torch.float32
    assert run.loss.dtype == torch.float32
    assert run.scores.shape == (1797, 10)
    assert {each.dtype for each in layer.parameters()} == {torch.float32}
    assert output.dtype == torch.float32


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "LSTM"])
def test_layers_take_float32__also_other_layers(snippet, name):
    test_layers_take_float32(snippet, name)


def test_layers_take_float32__ends_with_an_embedding(snippet, fails):
    """`Embedding` has `float32` weights too, but takes row numbers."""
    fails(test_layers_take_float32, snippet, "Embedding")


@pytest.mark.parametrize("name", [*LAYERS][:4])
def test_layers_take_float32__but_not_under_another_default(
    snippet, name, fails
):
    """If the default dtype is `float64`, a new layer has `float64` weights."""
    changed = "nn\n\ntorch.set_default_dtype(torch.float64)\n"
    fails(test_layers_take_float32, snippet.edit("nn\n\n", changed), name)


@edits(
    ("(digits.images).float()", "(digits.images)"),
    ("(digits.images).float()", "(digits.images).half()"),
    ("nn.Linear(64, 10)(images", "nn.Linear(64, 10).double()(images"),
)
def test_layers_take_float32__but_not_with_another_type(
    snippet, old, new, fails
):
    """Without `.float()`, the images stay `float64`, and the layer raises an
    error.
    """
    fails(test_layers_take_float32, snippet.edit(old, new))


def test_photos_become_zero_to_one(snippet):
    run = snippet.after("do-this")
    assert run.photos.dtype == torch.uint8
    assert run.photos.tolist() == (run.digits.images * 15).tolist()
    every = snippet.edit(PHOTOS, EVERY).after("do-this").pixels[:4].flatten()

    expected = numpy.arange(256, dtype=numpy.float32) / numpy.float32(255)
    assert run.pixels.dtype == every.dtype == torch.float32
    assert torch.equal(every, torch.from_numpy(expected))
    assert (every.min(), every.max()) == (0, 1)


@edits(
    ("photos.float() / 255", "photos.float() / 256"),
    ("photos.float() / 255", "photos.double() / 255"),
    ("photos.float() / 255", "photos.float() // 255"),
    ("photos.float() / 255", "photos.float()"),
    (PHOTOS, "(images * 15).to(torch.int16)"),
)
def test_photos_become_zero_to_one__but_not_otherwise_converted(
    snippet, old, new, fails
):
    """Divide by 256, and white is a little less than 1."""
    fails(test_photos_become_zero_to_one, snippet.edit(old, new))


# Range and precision


REACH = [
    (torch.float16, 65_504),
    (torch.bfloat16, 3.4e38),
    (torch.float32, 3.4e38),
]


@pytest.mark.parametrize(("dtype", "largest"), REACH, ids=name_of)
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
    ids=name_of,
)
def test_the_exponent_sets_the_range__but_not_that_of_another_type(
    snippet, dtype, largest, fails
):
    """Each dtype ends where its own exponent says, not where another's
    does.
    """
    fails(test_the_exponent_sets_the_range, snippet, dtype, largest)


STEPS = [
    (torch.float64, 52),
    (torch.float32, 23),
    (torch.float16, 10),
    (torch.bfloat16, 7),
]


def step_after(number, dtype):
    """Return how far the next larger number of a type is."""
    return number_of(pattern(number, dtype) + 1, dtype) - number


@pytest.mark.parametrize(("dtype", "n"), STEPS, ids=name_of)
def test_the_fraction_sets_the_step(snippet, dtype, n, smallest=None):
    assert snippet.after("bits").bits[dtype][2] == n
    assert step_after(1, dtype) == torch.finfo(dtype).eps == 2.0**-n
    power = smallest or torch.finfo(dtype).smallest_normal
    while power <= torch.finfo(dtype).max:
        for number in (power, power * 1.5, power * (2 - 2.0 ** (1 - n))):
            assert step_after(number, dtype) == power * 2.0**-n
        power *= 2


@pytest.mark.parametrize(("dtype", "n"), STEPS, ids=name_of)
def test_the_fraction_sets_the_step__but_not_one_bit_more(
    snippet, dtype, n, fails
):
    """With one bit more, the step would be half as large."""
    fails(test_the_fraction_sets_the_step, snippet, dtype, n + 1)


@pytest.mark.parametrize(("dtype", "n"), STEPS[1:], ids=name_of)
def test_the_fraction_sets_the_step__ends_close_to_zero(
    snippet, dtype, n, fails
):
    """Below the smallest normal number, the step stays the same down to 0."""
    half = torch.finfo(dtype).smallest_normal / 2
    assert step_after(half, dtype) == step_after(2 * half, dtype)
    fails(test_the_fraction_sets_the_step, snippet, dtype, n, half)


def test_bfloat16_skips_integers(snippet, dtype=torch.bfloat16):
    assert snippet.after("amounts").stored[dtype][2] == 256
    first, last = pattern(256, dtype), pattern(512, dtype)
    between = (number_of(bits, dtype) for bits in range(first, last + 1))

    for integer in range(256, 513, 2):
        assert next(between) == integer
    assert next(between, None) is None


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float32, torch.float64], ids=name_of
)
def test_bfloat16_skips_integers__ends_for_other_types(snippet, dtype, fails):
    """`float16` and wider types have more bits of fraction, and hold the odd
    integers as well.
    """
    fails(test_bfloat16_skips_integers, snippet, dtype)


def test_bfloat16_skips_integers__but_not_numbers_that_were_not_stored(
    snippet, fails
):
    """As long as 257 is not stored as `bfloat16`, it remains 257."""
    edited = snippet.edit("amounts.to(dtype)", "amounts")
    fails(test_bfloat16_skips_integers, edited)


# Choose a 16-bit float


def test_float16_overflows_and_underflows(snippet, large=65_520, small=2**-25):
    stored = snippet.after("amounts").stored[torch.float16]
    assert stored[::3] == [0, math.inf]

    for factor in (1, 1.5, 1e10, 1e30, math.inf):
        pair = [large * factor, small / factor or 1e-45]
        given = torch.tensor(pair, dtype=torch.float32)
        assert (given > 0).all()
        assert given.to(torch.float16).tolist() == [math.inf, 0]
        assert (-given).to(torch.float16).tolist() == [-math.inf, 0]


def test_float16_overflows_and_underflows__also_in_a_product():
    numbers = torch.tensor([60_000, -300, 1e-4], dtype=torch.float16)
    factors = torch.tensor([2, 300, 1e-4], dtype=torch.float16)
    assert (numbers * factors).tolist() == [math.inf, -math.inf, 0]
    # A sum of ones is no exception, however small they are.
    assert torch.ones(65_536, dtype=torch.float16).sum() == math.inf


@pytest.mark.parametrize(
    ("large", "small"),
    [(65_519.996, 2**-25), (65_520, 2**-24.9999)],
    ids=["just below 65,520", "just above 2 to the power of -25"],
)
def test_float16_overflows_and_underflows__ends_just_inside(
    snippet, large, small, fails
):
    """Just below 65,520, a number is rounded to 65,504 and stays finite."""
    fails(test_float16_overflows_and_underflows, snippet, large, small)


@pytest.mark.parametrize(
    "new",
    ["[1e-7, 0.1, 257, 70_", "[1e-8, 0.1, 257, 7_"],
    ids=["of 0.0000001", "of 7,000"],
)
def test_float16_overflows_and_underflows__but_not_far_inside(
    snippet, new, fails
):
    """`float16` can hold a number close to 0.0000001, and 7,000."""
    edited = snippet.edit("[1e-8, 0.1, 257, 70_", new)
    fails(test_float16_overflows_and_underflows, edited)


WEIGHT = "torch.tensor(256.0, dtype=torch.bfloat16)"


def test_small_updates_get_lost(snippet):
    assert snippet.after("small-updates").weight.item() == 256
    for dtype in ("float16", "float32"):
        new = WEIGHT.replace("bfloat16", dtype)
        run = snippet.edit(WEIGHT, new).after("small-updates")
        assert run.weight.item() == 356


def test_small_updates_get_lost__also_if_they_are_smaller(snippet):
    """One is the largest update that is lost: half the step after 256."""
    for number in ("0.001", "0.5", "0.9"):
        edited = snippet.edit("weight + 1", f"weight + {number}")
        assert edited.after("small-updates").weight.item() == 256


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("bfloat16", 2.0**9), ("float16", 2.0**11), ("float32", 2.0**24)],
    ids=str,
)
def test_small_updates_get_lost__also_from_a_larger_weight(
    snippet, dtype, number
):
    """In other types too, an update is lost where the step is 2 or more."""
    weight = f"torch.tensor({number}, dtype=torch.{dtype})"
    run = snippet.edit(WEIGHT, weight).after("small-updates")
    assert run.weight.item() == number


def test_small_updates_get_lost__but_not_in_float32(snippet, fails):
    """A `float32` weight does arrive at 356."""
    new = WEIGHT.replace("bfloat16", "float32")
    fails(test_small_updates_get_lost, snippet.edit(WEIGHT, new))


@pytest.mark.parametrize(
    "new", ["weight + 2", "weight + 0", "weight.float() + 1"]
)
def test_small_updates_get_lost__but_not_otherwise_updated(
    snippet, new, fails
):
    """An update of 2 is as large as the step after 256, so it arrives."""
    fails(test_small_updates_get_lost, snippet.edit("weight + 1", new))


def test_small_updates_get_lost__but_not_fifty_times(snippet, fails):
    """After fifty updates, the `float32` weight is only 306."""
    fails(test_small_updates_get_lost, snippet.edit("range(100)", "range(50)"))


# Convert


def test_to_changes_nothing_in_place(snippet):
    run = snippet.after("convert")
    assert run.images.dtype == torch.float32
    assert run.images.tolist() == run.digits.images.tolist()
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
        "precise = images = images.to(torch.float64)",
        "precise = images.to(torch.float64)\nimages.data = precise",
        "precise = images.to(torch.float64)\nimages.sub_(1)",
        "precise = images",
    ],
    ids=["assigned", "assigned to .data", "changed in place", "no conversion"],
)
def test_to_changes_nothing_in_place__but_not_what_else_is_done(
    snippet, new, fails
):
    """If you assign the result to the old name, that name has the new
    dtype.
    """
    edited = snippet.edit("precise = images.to(torch.float64)", new)
    fails(test_to_changes_nothing_in_place, edited)


CALLS = {
    "to(torch.float64)": (lambda model: model.to(torch.float64), "float64"),
    "double()": (lambda model: model.double(), "float64"),
    "half()": (lambda model: model.half(), "float16"),
    "bfloat16()": (lambda model: model.bfloat16(), "bfloat16"),
    "to(torch.int64)": (lambda model: model.to(torch.int64), "int64"),
}


def types_of(model):
    """Return the types of the floating-point numbers and of the others."""
    tensors = [*model.parameters(), *model.buffers()]
    dtypes = {each.dtype for each in tensors}
    floats = {each for each in dtypes if each.is_floating_point}
    return floats, dtypes - floats


def test_a_model_is_converted_itself(snippet, name="to(torch.float64)"):
    run = snippet.after("convert")
    call, dtype = CALLS[name]
    assert types_of(run.model) == ({torch.float64}, set())
    assert run.model.weight.dtype == torch.float64

    for model in (
        nn.Linear(2, 3),
        nn.Sequential(nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2)),
        nn.LSTM(2, 3),
    ):
        integers = types_of(model)[1]
        with no_error():
            assert call(model) is model
        assert types_of(model) == ({getattr(torch, dtype)}, integers)


@pytest.mark.parametrize("name", [*CALLS][1:4])
def test_a_model_is_converted_itself__also_by(snippet, name):
    test_a_model_is_converted_itself(snippet, name)


def test_a_model_is_converted_itself__ends_with_integer_types(snippet, fails):
    """`model.to(torch.int64)` raises a `TypeError`."""
    with pytest.raises(TypeError, match="only accepts floating point"):
        nn.Linear(2, 3).to(torch.int64)
    fails(test_a_model_is_converted_itself, snippet, "to(torch.int64)")


def test_a_model_is_converted_itself__ends_at_plain_tensors(snippet, fails):
    """A tensor that is neither parameter nor buffer stays as it was."""
    model = nn.Linear(2, 3)
    model.scale = torch.ones(2)
    assert model.double().scale.dtype == torch.float32
    edited = snippet.edit(
        "nn.Linear(64, 10)\nmodel.to",
        "nn.Linear(64, 10)\n"
        "del model.weight\n"
        "model.weight = torch.ones(10, 64)\n"
        "model.to",
    )
    fails(test_a_model_is_converted_itself, edited)


def test_a_model_is_converted_itself__ends_at_integer_buffers(snippet, fails):
    """The batches that BatchNorm counts stay `int64`."""
    old = "model = nn.Linear(64, 10)"
    edited = snippet.edit(old, "model = nn.BatchNorm1d(10)")
    fails(test_a_model_is_converted_itself, edited)


@pytest.mark.parametrize(
    "new",
    [
        "model = nn.Linear(1, 3)\nnn.Linear(1, 3).to(torch.float64)",
        "model = nn.Linear(1, 3)\nmodel.weight.to(torch.float64)",
        "model = nn.Linear(1, 3)\nmodel.bias.data = model.bias.data.double()",
        "model = nn.BatchNorm1d(3)\n"
        "for each in model.parameters():\n    each.data = each.data.double()",
    ],
    ids=[
        "another model",
        "one weight",
        "the bias only",
        "parameters only",
    ],
)
def test_a_model_is_converted_itself__but_not_otherwise(snippet, new, fails):
    """`to` of another model leaves this one as it was."""
    old = "model = nn.Linear(64, 10)\nmodel.to(torch.float64)"
    fails(test_a_model_is_converted_itself, snippet.edit(old, new))


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


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_fractions_are_cut_off__ends_at_types_without_minus(
    snippet, dtype, fails
):
    """`uint8` has no negative numbers, so -1.7 does not become -1."""
    edited = snippet.edit("1.7]).long()", f"1.7]).to(torch.{dtype})")
    fails(test_fractions_are_cut_off, edited)


@pytest.mark.parametrize(
    "new",
    ["1.7]).round().long()", "1.7]).floor().long()", "1.7]).trunc()"],
    ids=["rounded", "rounded down", "not converted"],
)
def test_fractions_are_cut_off__but_not_once_rounded(snippet, new, fails):
    """If you round first, 1.7 becomes 2."""
    fails(test_fractions_are_cut_off, snippet.edit("1.7]).long()", new))


# When two types meet


def test_the_higher_category_wins(snippet):
    run = snippet.after("meet")
    assert torch.equal(run.ink, run.images > 8)
    assert run.sharpened.dtype == torch.float32
    assert torch.equal(run.sharpened, run.images * 16)
    assert run.masked.dtype == torch.uint8
    assert run.masked.tolist() == (run.images * 15 * run.ink).tolist()

    for one, other in itertools.product(ALL, ALL):
        if category(one) > category(other):
            assert {made.dtype for made in both(one, other)} == {one}


@edits(
    ("photos + images", "photos == images"),
    ("photos + images", "photos + images.byte()"),
    ("photos + images", "photos + images.double()"),
    ("photos * ink", "photos / ink"),
    ("photos * ink", "photos.bool() & ink"),
)
def test_the_higher_category_wins__but_not_in_another_operation(
    snippet, old, new, fails
):
    """A comparison gives `bool`, whatever it compares."""
    fails(test_the_higher_category_wins, snippet.edit(old, new))


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
    assert (run.largest.dtype, run.largest.shape) == (torch.float64, ())
    assert torch.equal(run.scaled, run.images / 16)
    assert run.scaled.dtype == torch.float32
    assert run.doubled.dtype == torch.uint8
    assert run.doubled.tolist() == (run.digits.images * 30 % 256).tolist()
    assert torch.equal(run.faded, run.images * 7.5)

    # Torch 2.15 has this type, but adds and multiplies nothing of it.
    bare = getattr(torch, "bcomplex32", None)
    for x, number, other in meetings():
        if torch.result_type(x, number) == bare:
            continue
        changes = category(other) > category(x.dtype)
        for made in (x + number, number + x, x * number, number * x):
            assert (made.dtype != x.dtype) == changes


def test_single_numbers_count_less__also_if_numpy_made_them():
    for number in (numpy.float64(2), numpy.int64(2)):
        single, images = torch.ones(3), torch.ones(3, dtype=torch.float16)
        assert (single * number).dtype == torch.float32
        assert (images + number).dtype == torch.float16
    photos = torch.ones(3, dtype=torch.uint8)
    assert (photos * numpy.int64(2)).dtype == torch.uint8
    assert (photos * numpy.float64(2)).dtype == torch.float32


def test_single_numbers_count_less__also_with_a_tensor_without_dimensions():
    for dtype in ALL:
        x = torch.ones((), dtype=dtype)
        for number, other in PLAIN.items():
            changes = category(other) > category(dtype)
            assert ((x * number).dtype != dtype) == changes


def test_single_numbers_count_less__ends_between_two_of_them(snippet, fails):
    """For two tensors without dimensions, the wider type wins."""
    edited = snippet.edit("images / largest", "images[0, 0, 0] / largest")
    fails(test_single_numbers_count_less, edited)


@edits(
    ("images / largest", "images / largest.reshape(1)"),
    ("photos * 2", "photos * torch.tensor([2])"),
    ("photos * 2", "photos * 2.0"),
    ("photos * 2", "photos / 2"),
    ("photos * 0.5", "photos * 5"),
)
def test_single_numbers_count_less__but_not_otherwise(
    snippet, old, new, fails
):
    """As a vector of one element, a `float64` number counts in full."""
    fails(test_single_numbers_count_less, snippet.edit(old, new))


# What goes wrong


NAMES = {torch.float64: "double", torch.float32: "float", torch.int64: "long"}


def test_errors_use_other_names(snippet):
    run = snippet.after("yes-or-no")

    for call in run.calls.values():
        said = error_of(call, run.raw).lower()
        assert "double" in said
        assert "float" in said
    assert ["Long" in (said or "") for said in run.no_target] == [True, True]
    for dtype, name in NAMES.items():
        layer = nn.Linear(1, 3).bfloat16()
        said = error_of(layer, torch.ones(2, 1, dtype=dtype)).lower()
        assert f"got {name} and bfloat16" in said


@edits(
    ("raw = torch.from_numpy(digits.images)", "raw = images.half()"),
    ("nn.Linear(64, 10),\n", "nn.Linear(64, 10).half(),\n"),
    ("torch.where(labels == 0, 1, 0)", "torch.where(labels == 0, 1, 0).int()"),
)
def test_errors_use_other_names__but_not_for_other_types(
    snippet, old, new, fails
):
    """`Half` means `float16`, and an error about it doesn't say `Double`."""
    fails(test_errors_use_other_names, snippet.edit(old, new))


TEXTS = {
    "Linear": "mat1 and mat2 must have the same dtype",
    "Linear without bias": "expected m1 and m2 to have the same dtype",
    "batch @ batch": "expected scalar type",
    "Conv2d": "Input type (double) and bias type (float) should be the same",
    "BCELoss": "Found dtype Double but expected Float",
}


def calls_of(name):
    """Yield other calls with a number type for each of two tensors."""

    def layer(make, shape):
        return lambda one, other: make(dtype=one)(torch.ones(shape).to(other))

    def batches(n):
        x = torch.ones(2, n, n)
        return lambda one, other: x.to(one) @ x.to(other)

    def product(left, right):
        x, y = torch.ones(left), torch.ones(right)
        return lambda one, other: x.to(one) @ y.to(other)

    def loss(x):
        return lambda one, other: nn.BCELoss()(x.to(one), x.to(other))

    linear, conv = partial(nn.Linear, 4, 3), partial(nn.Conv1d, 4, 3, 2)
    image = partial(nn.Conv2d, 4, 3, 2)
    return {
        "Linear": [layer(linear, shape) for shape in ((4,), (2, 5, 4))],
        "Linear without bias": [layer(partial(linear, bias=False), (2, 4))],
        "batch @ batch": [
            *(batches(3), batches(8), batches(40)),
            *(product(4, 4), product((3, 4), 4), product(4, (4, 3))),
            *(product((3, 4), (4, 2)), product((2, 3, 4), (4, 2))),
        ],
        "Conv2d": [
            layer(conv, (4, 9)),
            layer(partial(conv, bias=False), (4, 9)),
            layer(image, (2, 4, 9, 9)),
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
        ("Linear", "Linear(64, 10),\n", "Linear(64, 10).double(),\n"),
        ("Linear without bias", "bias=False),", "bias=False).double(),"),
        ("batch @ batch", "chances.T[None] @", "chances.T[None].double() @"),
        ("Conv2d", "nn.Conv2d(1, 4, 3)(", "nn.Conv2d(1, 4, 3).double()("),
        ("BCELoss", "BCELoss()(chances,", "BCELoss()(chances.double(),"),
        ("Linear", "raw = torch.from_numpy(digits.images)", "raw = images"),
    ],
)
def test_layers_do_not_promote__but_not_if_both_are_the_same(
    snippet, name, old, new, fails
):
    """If you convert the layer with `.double()`, it takes the `float64`
    input.
    """
    fails(test_layers_do_not_promote, snippet.edit(old, new), name)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("BCELoss", "nn.BCELoss()(chances,", "nn.MSELoss()(chances,"),
        ("BCELoss", "nn.BCELoss()(chances", "nn.BCEWithLogitsLoss()(chances"),
        ("batch @ batch", "chances.T[None] @ x", "chances[None] * x"),
    ],
    ids=["MSELoss", "BCEWithLogitsLoss", "an elementwise product"],
)
def test_layers_do_not_promote__ends_with_elementwise_operations(
    snippet, name, old, new, fails
):
    """`MSELoss`, `BCEWithLogitsLoss` and `*` promote `float32` to
    `float64`.
    """
    fails(test_layers_do_not_promote, snippet.edit(old, new), name)


def test_class_labels_are_int64(snippet, dtype=torch.int32):
    run = snippet.after("labels")
    assert run.scores.dtype == torch.float32
    assert ["Long" in (said or "") for said in run.no_loss] == [True, True]

    for scores, labels in (
        (run.scores, run.labels),
        (torch.rand(4, 7), torch.tensor([6, 0, 5, 1])),
        (torch.rand(1, 2).double(), torch.tensor([1])),
    ):
        assert labels.dtype == torch.int64
        assert error_of(run.loss_function, scores, labels) == ""
        said = error_of(run.loss_function, scores, labels.to(dtype))
        assert "Long" in said


@pytest.mark.parametrize(
    "dtype", [torch.int16, torch.int8, torch.bool, *FLOATS], ids=name_of
)
def test_class_labels_are_int64__also_instead_of(snippet, dtype):
    test_class_labels_are_int64(snippet, dtype)


def test_class_labels_are_int64__ends_with_bytes(snippet, fails):
    """`uint8` labels raise no error."""
    fails(test_class_labels_are_int64, snippet, torch.uint8)


def test_class_labels_are_int64__ends_with_probabilities(snippet, fails):
    """Labels of the shape of the scores are probabilities, in `float32`."""
    edited = snippet.edit("labels.float()\n", "torch.ones(1797, 10) / 10\n")
    fails(test_class_labels_are_int64, edited)


def test_class_labels_are_int64__but_not_refused_as_such(snippet, fails):
    """`int64` labels are what the loss takes."""
    fails(test_class_labels_are_int64, snippet, torch.int64)


@edits(
    ("labels.int(), l", "labels, l"),
    ("labels.float()\n", "nn.functional.one_hot(labels).float()\n"),
    ("nn.CrossEntropyLoss()", "nn.MultiLabelSoftMarginLoss()"),
)
def test_class_labels_are_int64__but_not_otherwise(snippet, old, new, fails):
    """Without `.int()`, the labels are `int64`, as they should be."""
    fails(test_class_labels_are_int64, snippet.edit(old, new))


def test_binary_targets_are_floating_point(snippet, dtype=torch.float32):
    run = snippet.after("yes-or-no")
    assert run.is_zero.dtype == torch.int64
    assert run.is_zero.sum() == (run.digits.target == 0).sum()
    for said, name in zip(run.no_target, ("desired", "Found"), strict=True):
        assert name in (said or "")
        assert "Long" in said

    for loss, shape in itertools.product(run.losses, ((3,), (4, 7))):
        predictions = torch.rand(shape).to(dtype)
        targets = torch.ones(shape)
        for integer in (torch.bool, *INTEGERS):
            assert error_of(loss, predictions, targets.to(integer)) != ""
        assert error_of(loss, predictions, targets) == ""


def test_binary_targets_are_floating_point__also_if_the_error_names_bool(
    snippet,
):
    run = snippet.after("yes-or-no")
    targets = run.is_zero.bool()

    with_logits, plain = (
        error_of(loss, run.chances[:, 0], targets) for loss in run.losses
    )
    text = "Subtraction, the `-` operator, with two bool tensors is not"
    assert with_logits.startswith(text)
    assert plain == "Found dtype Bool but expected Float"


@edits(
    ("labels == 0, 1, 0)", "labels == 0, 1.0, 0.0)"),
    ("nn.BCEWithLogitsLoss(), n", "nn.MSELoss(), n"),
    (", nn.BCELoss()\n", ", nn.MSELoss()\n"),
    ("is_zero) for loss in losses]", "is_zero.float()) for loss in losses]"),
)
def test_binary_targets_are_floating_point__but_not_otherwise(
    snippet, old, new, fails
):
    """Targets of 0.0 and 1.0 are `float32`, and raise no error."""
    fails(test_binary_targets_are_floating_point, snippet.edit(old, new))


@edits(
    ("losses]", "losses]\nlosses[0].weight = torch.ones(2)"),
    ("losses]", "losses]\nlosses[1].weight = torch.ones(2)"),
)
def test_binary_targets_are_floating_point__but_not_with_wrong_weights(
    snippet, old, new, fails
):
    """With weights of the wrong shape, `float32` targets raise an error
    too.
    """
    fails(test_binary_targets_are_floating_point, snippet.edit(old, new))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str
)
def test_binary_targets_are_floating_point__ends_for_other_predictions(
    snippet, dtype, fails
):
    """`BCELoss` takes targets of the dtype of its predictions only, such as
    `bfloat16`.
    """
    fails(test_binary_targets_are_floating_point, snippet, dtype)


MEAN, STD = "could not infer output dtype", "only support floating point"


def test_integers_have_no_mean(snippet, dtype=torch.int64):
    run = snippet.after("share")
    for said, text in zip(run.no_mean, (MEAN, STD), strict=True):
        assert text in (said or "")
    assert run.share == numpy.float32((run.digits.target == 0).mean())

    for x in (run.is_zero.to(dtype), torch.ones(2, 3).to(dtype)):
        assert MEAN in error_of(x.mean)
        assert STD in error_of(x.std)
        exact = torch.tensor(sum(x.flatten().tolist()) / x.numel())
        for mean in (x.mean(dtype=torch.float32), x.float().mean()):
            assert torch.equal(mean, exact)


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS[:-1]], ids=name_of)
def test_integers_have_no_mean__also_other_types(snippet, dtype):
    test_integers_have_no_mean(snippet, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_integers_have_no_mean__ends_for_floats(snippet, dtype, fails):
    """A floating-point tensor has a mean, of its own dtype."""
    fails(test_integers_have_no_mean, snippet, dtype)


@edits(
    ("torch.mean", "torch.sum"),
    ("torch.std", "torch.max"),
    ("is_zero.float().mean()", "is_zero.sum() // len(is_zero)"),
)
def test_integers_have_no_mean__but_a_sum_and_a_largest(
    snippet, old, new, fails
):
    """The sum of integers is an integer, and raises no error."""
    fails(test_integers_have_no_mean, snippet.edit(old, new))


ELEMENTWISE = [operator.add, operator.sub, operator.mul]


def test_uint8_wraps_around(snippet, dtype=torch.uint8):
    run = snippet.after("wrap")
    brighter = run.brighter
    assert brighter.dtype == dtype
    exact = (run.digits.images[0] * 15 + 100) % 256
    assert brighter.tolist() == exact.tolist()
    assert (run.photos[0, 0, 3], brighter[0, 3]) == (195, 39)

    column = torch.arange(256).to(dtype)
    for operation in ELEMENTWISE:
        made = operation(column[:, None], column)
        assert made.dtype == dtype
        exact = operation(torch.arange(256)[:, None], torch.arange(256))
        assert torch.equal(made.long(), exact % 256)
        assert torch.equal(operation(column, 77).long(), exact[:, 77] % 256)


@pytest.mark.parametrize("number", [256, 300, -1, -300, 2**40 + 7])
def test_uint8_wraps_around__also_with_a_number_outside(number):
    column, exact = torch.arange(256).to(torch.uint8), torch.arange(256)
    for operation in (*ELEMENTWISE, operator.iadd, operator.imul):
        made = operation(column.clone(), number)
        assert made.dtype == torch.uint8
        assert torch.equal(made.long(), operation(exact.clone(), number) % 256)


@pytest.mark.parametrize("number", ["100.0", "images[0]", "labels[:8]"])
def test_uint8_wraps_around__ends_with_another_type(snippet, number, fails):
    """If you add 100.0, the sum is `float32`, which has room for 295."""
    edited = snippet.edit("photos[0] + 100", f"photos[0] + {number}")
    fails(test_uint8_wraps_around, edited)


@pytest.mark.parametrize(
    "new",
    ["(photos[0].int() + 100) % 256", "photos[0] + 101", "photos[0] // 2"],
)
def test_uint8_wraps_around__but_not_with_these(snippet, new, fails):
    """In `int32` you can get the same remainders, but only by asking
    for them.
    """
    edited = snippet.edit("brighter = photos[0] + 100", f"brighter = {new}")
    fails(test_uint8_wraps_around, edited)


def test_uint8_wraps_around__but_not_once_converted(snippet, fails):
    """If you convert with `int()` first, there is room for numbers
    above 255.
    """
    edited = snippet.edit(
        "brighter = photos[0] + 100", "brighter = photos[0].int() + 100"
    )
    fails(test_uint8_wraps_around, edited)


def test_clamp_before_going_back(snippet):
    run = snippet.after("clamp")
    bright = numpy.minimum(run.digits.images[0] * 15 + 100, 255)
    assert run.right.tolist() == bright.tolist()

    every = snippet.edit(PHOTOS, EVERY)
    for k, change in itertools.product(range(4), (100, -100)):
        edited = every.edit("1797 * 64)", f"{k * 64}, {k * 64} + 1797 * 64)")
        edited = edited.edit(" + 100)", f" + {change})")
        right = edited.after("clamp").right.flatten()
        assert right.dtype == torch.uint8
        given = range(k * 64, k * 64 + 64)
        exact = [min(max(n + change, 0), 255) for n in given]
        assert right.tolist() == exact


@edits(
    (".clamp(0, 255).to", ".to"),
    (".clamp(0, 255).to", ".clamp(0, 256).to"),
    (".clamp(0, 255).to", ".clamp(0, 254).to"),
    (".clamp(0, 255).to", ".clamp(max=255).to"),
    (".clamp(0, 255).to", ".clamp(1, 255).to"),
)
def test_clamp_before_going_back__but_not_otherwise(snippet, old, new, fails):
    """Without `clamp`, the conversion to `uint8` wraps around."""
    fails(test_clamp_before_going_back, snippet.edit(old, new))


def test_clamp_before_going_back__but_not_without_int(snippet, fails):
    """Without `int()`, the sum has wrapped around before `clamp` sees it."""
    edited = snippet.edit("(photos[0].int() + 100)", "(photos[0] + 100)")
    fails(test_clamp_before_going_back, edited)


def test_clamp_before_going_back__also_for_a_difference(snippet):
    run = snippet.after("difference-checked")
    first, second = run.digits.images[:2] * 15
    assert run.difference.tolist() == abs(first - second).tolist()
    assert run.correct
    old = "(photos[0].int() - photos[1].int()).abs().to(torch.uint8)"
    for wrong in ("photos[0] - photos[1]", old[:-16]):
        edited = snippet.edit(old, wrong)
        assert not edited.after("difference-checked").correct
