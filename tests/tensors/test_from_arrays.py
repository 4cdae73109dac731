"""The claims of docs/tensors/from_arrays.md."""

import faulthandler
import functools
import json
import signal
import subprocess
import sys
import tempfile
import warnings
import weakref
from multiprocessing.util import register_after_fork
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import no_error
from extensions.evidence.versions import older

DTYPES = [
    *("float64", "float32", "float16", "complex64", "complex128"),
    *("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32"),
    *("uint64", "bool"),
]


def arrays():
    """Return writable arrays of many types, shapes and orders of memory."""
    found = [np.ones(4, dtype) for dtype in DTYPES]
    found += [np.ones(shape) for shape in ((), (1,), (2, 3), (2, 1, 4))]
    found += [np.ones((4, 6))[::2, 1::3], np.ones((2, 3)).T]
    found += [np.asfortranarray(np.ones((2, 3), np.float32))]
    return found


def tensors(**options):
    """Return tensors of many types, shapes and orders of memory."""
    found = [torch.ones(4, dtype=getattr(torch, name)) for name in DTYPES]
    found += [torch.ones(shape) for shape in ((), (1,), (2, 3), (2, 1, 4))]
    return [*found, torch.ones(4, 6)[::2, 1::3], torch.ones(2, 3).T]


def numbers(source):
    """Return the numbers of an array or a tensor as a list."""
    return source.tolist()


def follows(result, source):
    """Return whether a result that equals its source still does, once changed.

    The source holds ones, and then zeros.
    """
    assert numbers(result) == numbers(source)
    source[...] = 0
    return numbers(result) == numbers(source)


def warned(call, *inputs, **options):
    """Return what a call returns, and the texts of its warnings."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        result = call(*inputs, **options)
    return result, [str(each.message) for each in caught]


def refusal(call, *inputs):
    """Return the text of the error that a call raises."""
    with pytest.raises((RuntimeError, TypeError)) as caught:
        call(*inputs)
    return str(caught.value)


# Do this


def test_tensor_copies(snippet):
    run = snippet.after("do-this")

    assert run.readings[0] == 99
    assert run.own.tolist() == [20.5, 21, 19.5]
    assert run.own.dtype == torch.float32
    for array in arrays():
        if array.dtype.kind != "c":  # a complex number loses a part
            tensor = torch.tensor(array, dtype=torch.float32)
            assert tensor.dtype == torch.float32
            assert not follows(tensor, array)


def test_tensor_copies__but_as_tensor_does_not(snippet, fails):
    edited = snippet.edit(
        "torch.tensor(readings, dtype=torch.float32)",
        "torch.as_tensor(readings)",
    )
    fails(test_tensor_copies, edited)


def test_tensor_copies__but_not_as_float32_without_the_dtype(snippet, fails):
    edited = snippet.edit(
        "(readings, dtype=torch.float32)  #", "(readings)  #"
    )
    fails(test_tensor_copies, edited)


def test_tensor_copies__also_without_a_dtype(snippet):
    run = snippet.after("outcomes")

    assert run.outcomes["torch.tensor"]["an array"] == "copies"
    for array in arrays():
        assert not follows(torch.tensor(array), array)


def test_from_numpy_shares(snippet):
    run = snippet.after("do-this")

    assert run.shared.tolist() == [99, 21, 19.5]
    for array in arrays():
        assert follows(torch.from_numpy(array), array)


@pytest.mark.parametrize(
    "call",
    ["torch.tensor(readings)", "torch.from_numpy(readings).clone()"],
)
def test_from_numpy_shares__but_a_copy_does_not(snippet, call, fails):
    edited = snippet.edit("torch.from_numpy(readings)  # shares", call)
    fails(test_from_numpy_shares, edited)


def test_the_way_back_takes_gradients(snippet, *others):
    """Run the first cell with a tensor that asks for gradients."""
    with no_error():
        run = snippet.edit("32)  # copies", "32).requires_grad_()").after(
            "do-this"
        )

    assert run.own.requires_grad
    assert type(run.back) is np.ndarray
    assert run.back.tolist() == run.own.tolist()
    for each in (*asking(run.own), *others):
        with no_error():
            array = each.detach().cpu().numpy()
        assert numbers(array) == numbers(each)


WAYS_BACK = {
    "for bfloat16": (
        lambda: torch.ones(2, dtype=torch.bfloat16),
        lambda x: x.detach().cpu().float().numpy(),
    ),
    "for a sparse tensor": (
        lambda: torch.eye(2).to_sparse(),
        lambda x: x.detach().cpu().to_dense().numpy(),
    ),
    "for the result of conj": (
        lambda: torch.tensor([1 + 2j]).conj(),
        lambda x: x.numpy(force=True),
    ),
    "for its imaginary part": (
        lambda: torch.tensor([1 + 2j]).conj().imag,
        lambda x: x.numpy(force=True),
    ),
}


@pytest.mark.parametrize("kind", WAYS_BACK)
def test_the_way_back_takes_gradients__ends(snippet, kind, fails):
    make, back = WAYS_BACK[kind]
    fails(test_the_way_back_takes_gradients, snippet, make())
    dense = make().to_dense() if make().is_sparse else make()
    assert back(make().requires_grad_()).tolist() == dense.tolist()


@pytest.mark.cuda
def test_the_way_back_takes_gradients__also_on_cuda():
    tensor = torch.ones(2, device="cuda", requires_grad=True)

    assert tensor.detach().cpu().numpy().tolist() == [1, 1]


def test_the_way_back_takes_gradients__but_not_without_detach(snippet, fails):
    edited = snippet.edit("own.detach().cpu()", "own.cpu()")
    fails(test_the_way_back_takes_gradients, edited)


# How it works


def test_one_memory_two_owners(snippet):
    run = snippet.after("owners")

    assert run.readings.ctypes.data == run.shared.data_ptr()
    assert run.own.data_ptr() == run.back.ctypes.data
    assert run.shared.data_ptr() != run.own.data_ptr()
    assert run.places == {
        "readings": run.readings.ctypes.data,
        "shared": run.readings.ctypes.data,
        "own": run.back.ctypes.data,
        "back": run.back.ctypes.data,
    }
    assert run.numbers == {
        run.shared.data_ptr(): run.readings.tolist(),
        run.own.data_ptr(): run.back.tolist(),
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.from_numpy(readings)  #", "torch.tensor(readings)  #"),
        ("own.detach()", "own.clone()"),
        (
            "torch.tensor(readings, dtype=torch.float32)",
            "torch.from_numpy(readings)",
        ),
    ],
)
def test_one_memory_two_owners__but_not_otherwise_copied(
    snippet, old, new, fails
):
    fails(test_one_memory_two_owners, snippet.edit(old, new))


NOT_ADDED = [bool, np.uint16, np.uint32, np.uint64]
WRITES = [
    lambda tensor: tensor.__setitem__(..., 0),
    lambda tensor: tensor.__iadd__(1),
    lambda tensor: tensor.zero_(),
    lambda tensor: tensor.copy_(torch.zeros_like(tensor)),
    lambda tensor: tensor.flatten().view(-1)[:1].fill_(0),
]


def test_writes_reach_the_array(snippet):
    run = snippet.after("both-ways")

    assert run.readings.tolist() == [99, -1, 19.5]
    for write in WRITES:
        for array in arrays():
            before, tensor = numbers(array), torch.from_numpy(array)
            if array.dtype in NOT_ADDED and write is WRITES[1]:
                continue  # torch has no addition for them
            if not tensor.is_contiguous() and write is WRITES[4]:
                continue  # flatten makes a new tensor
            write(tensor)
            assert numbers(array) == numbers(tensor) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.from_numpy(readings)  #", "torch.tensor(readings)  #"),
        ("shared[1] = -1.0", "shared = shared - 1.0"),
    ],
)
def test_writes_reach_the_array__but_not_from_a_copy_or_a_new_tensor(
    snippet, old, new, fails
):
    fails(test_writes_reach_the_array, snippet.edit(old, new))


def test_the_memory_stays(snippet):
    run = snippet.after("do-this")
    array = weakref.ref(run.readings)
    before = run.shared.tolist()

    del run.readings

    assert array() is not None
    assert run.shared.tolist() == before == array().tolist()
    del run.shared
    assert array() is None
    for made in arrays():
        tensor, array = torch.from_numpy(made), weakref.ref(made)
        before = numbers(made)
        del made
        assert array() is not None
        assert tensor.tolist() == before


def test_the_memory_stays__but_not_for_a_copy(snippet, fails):
    edited = snippet.edit(
        "torch.from_numpy(readings)  # shares", "torch.tensor(readings)"
    )
    fails(test_the_memory_stays, edited)


# Which call shares

AS_HALF = "call(source, dtype=torch.half)\n        except"
SHARING = ["as_tensor", "asarray", "from_numpy", "from_dlpack"]


SOURCES = [
    *[(name, "an array") for name in SHARING],
    *[(name, "a tensor") for name in SHARING if name != "from_numpy"],
]


@pytest.mark.parametrize(("name", "kind"), SOURCES)
def test_four_calls_share(snippet, name, kind):
    run = snippet.after("outcomes")

    assert run.outcomes[f"torch.{name}"][kind] == "shares"
    found = [each for each in arrays() if each.ndim]
    if kind == "a tensor":
        found = [*tensors(), torch.ones(3, dtype=torch.bfloat16)]
    for source in found:
        assert follows(getattr(torch, name)(source), source)


@pytest.mark.parametrize("kind", ["an array", "a tensor"])
@pytest.mark.parametrize("name", SHARING[:2])
def test_four_calls_share__but_not_as_another_dtype(
    snippet, name, kind, fails
):
    edited = snippet.edit("call(source)\n        except", AS_HALF)
    fails(test_four_calls_share, edited, name, kind)


@pytest.mark.parametrize(("name", "kind"), SOURCES)
def test_four_calls_share__but_not_a_copy_of_the_source(
    snippet, name, kind, fails
):
    edited = snippet.edit("tensor = call(source)", "tensor = call(source + 0)")
    fails(test_four_calls_share, edited, name, kind)


@pytest.mark.parametrize("kind", ["an array", "a tensor"])
def test_four_calls_share__but_not_if_asarray_is_to_copy(snippet, kind, fails):
    edited = snippet.edit(
        "tensor = call(source)", "tensor = torch.asarray(source, copy=True)"
    )
    fails(test_four_calls_share, edited, "asarray", kind)


@pytest.mark.parametrize("name", ["as_tensor", "asarray"])
def test_four_calls_share__also_with_gradients(name):
    weight = torch.ones(3, requires_grad=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # asarray is to leave gradients out
        shared = getattr(torch, name)(weight)
    assert shared.data_ptr() == weight.data_ptr()


COPYING = ["tensor", "as_tensor", "asarray"]


@pytest.mark.parametrize("name", COPYING)
def test_a_list_is_copied(snippet, name):
    run = snippet.after("outcomes")

    assert run.outcomes[f"torch.{name}"]["a list"] == "copies"
    for source in ([1.0], [1, 1, 1], [True, True], [1j, 1.0]):
        tensor = getattr(torch, name)(source)
        before = tensor.tolist()
        assert before == source
        source[0] = 0
        assert tensor.tolist() == before != source
    nested = [[1.0, 2.0], [3.0, 4.0]]
    tensor = getattr(torch, name)(nested)
    nested[0][0] = 0.0
    assert tensor.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("name", COPYING[1:])
def test_a_list_is_copied__but_not_an_array_of_it(snippet, name, fails):
    edited = snippet.edit("[1.0, 1.0, 1.0]", "np.array([1.0, 1.0, 1.0])")
    fails(test_a_list_is_copied, edited, name)


def test_a_list_is_copied__but_not_by_from_numpy(snippet, fails):
    fails(test_a_list_is_copied, snippet, "from_numpy")


NO_ARRAYS = [[1.0], (1.0,), 1.0, np.float64(1), torch.ones(2)]


def test_from_numpy_takes_arrays_only(snippet):
    run = snippet.after("outcomes")

    assert run.outcomes["torch.from_numpy"]["an array"] == "shares"
    assert run.outcomes["torch.from_numpy"]["a tensor"] == "TypeError"
    assert run.outcomes["torch.from_numpy"]["a list"] == "TypeError"
    for each in NO_ARRAYS:
        with pytest.raises(TypeError, match=r"expected np\.ndarray"):
            torch.from_numpy(each)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("outcome(call, torch.ones(3))", "outcome(call, np.ones(3))"),
        ("[1.0, 1.0, 1.0]", "np.array([1.0, 1.0, 1.0])"),
        ("outcome(call, np.ones(3))", "outcome(call, [1.0])"),
    ],
)
def test_from_numpy_takes_arrays_only__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_from_numpy_takes_arrays_only, snippet.edit(old, new))


ADVICE = "To copy construct from a tensor, it is recommended to use"


def test_a_tensor_of_a_tensor_warns(snippet):
    run = snippet.after("copy-of-a-tensor")

    assert run.outcomes["torch.tensor"]["a tensor"] == "copies, warns"
    assert [each.startswith(ADVICE) for each in run.texts] == [True]
    assert run.copied.tolist() == run.own.tolist()
    assert run.copied.data_ptr() != run.own.data_ptr()
    for source in [*tensors(), torch.ones(2, requires_grad=True)]:
        copied, texts = run.told(torch.tensor, source)
        assert [each.startswith(ADVICE) for each in texts] == [True]
        cloned, texts = run.told(lambda it: it.detach().clone(), source)
        assert not texts
        for each in (copied, cloned):
            assert each.data_ptr() != source.data_ptr()
            assert torch.equal(each, source)


@pytest.mark.parametrize(
    "new",
    [
        "told(torch.tensor, own.tolist())",
        "told(torch.as_tensor, own)",
        "told(torch.clone, own)",
    ],
)
def test_a_tensor_of_a_tensor_warns__but_not_of_a_list_or_otherwise(
    snippet, new, fails
):
    edited = snippet.edit("told(torch.tensor, own)", new)
    fails(test_a_tensor_of_a_tensor_warns, edited)


def test_another_type_copies(snippet):
    run = snippet.after("another-type")

    assert run.readings[2] == 18
    assert run.single.tolist() == [99, -1, 19.5]
    for call in (torch.as_tensor, torch.asarray):
        for source in [*arrays(), *tensors()]:
            own = torch.from_numpy(np.asarray(source)).dtype
            for dtype in (torch.float64, torch.float16, torch.int64):
                if dtype != own and not own.is_complex:
                    assert not follows(call(source, dtype=dtype), source)
                    source[...] = 1


@pytest.mark.parametrize("name", ["as_tensor", "asarray"])
@pytest.mark.parametrize("dtype", ["torch.float64", "None"])
def test_another_type_copies__but_not_the_same_type(
    snippet, name, dtype, fails
):
    edited = snippet.edit(
        "as_tensor(readings, dtype=torch.float32)",
        f"{name}(readings, dtype={dtype})",
    )
    fails(test_another_type_copies, edited)


def test_copy_false_raises(snippet):
    run = snippet.after("without-a-copy")

    assert "can't alias tensor with dtype" in str(run.not_aliased)
    for source in [run.readings, *arrays(), *tensors()]:
        with pytest.raises(ValueError, match="can't alias tensor with dtype"):
            run.without_a_copy(source, torch.bfloat16)
        with no_error():
            shared = run.without_a_copy(source)
        assert torch.equal(shared, torch.as_tensor(source))
    for source in ([1.0], [1, 2], [[1.0], [2.0]]):
        with pytest.raises(ValueError, match="can't alias arbitrary sequence"):
            run.without_a_copy(source)


@pytest.mark.parametrize("option", ["", ", copy=True", ", copy=None"])
def test_copy_false_raises__but_not_without(snippet, option, fails):
    fails(test_copy_false_raises, snippet.edit(", copy=False", option))


def test_copy_false_raises__but_not_for_the_same_dtype(snippet, fails):
    edited = snippet.edit("dtype=dtype, copy", "copy")
    fails(test_copy_false_raises, edited)


# What goes wrong


def test_a_reused_buffer_shows_its_last_content(snippet):
    run = snippet.after("buffer")

    assert [each.tolist() for each in run.hours] == [[3, 3]] * 3
    for array in arrays():
        made = []
        for number in (0, 1, 0):
            array[...] = number
            made.append(torch.from_numpy(array))
        assert [each.tolist() for each in made] == [numbers(array)] * 3
        array[...] = 1
        assert [each.tolist() for each in made] == [numbers(array)] * 3


def test_a_reused_buffer_shows_its_last_content__but_not_of_new_arrays(
    snippet, fails
):
    edited = snippet.edit(
        "    buffer[:] = hour\n    hours.append",
        "    buffer = np.full(2, float(hour))\n    hours.append",
    )
    fails(test_a_reused_buffer_shows_its_last_content, edited)


@pytest.mark.parametrize(
    "call", ["torch.tensor(buffer)", "torch.from_numpy(buffer).clone()"]
)
def test_a_reused_buffer_shows_its_last_content__but_not_in_copies(
    snippet, call, fails
):
    edited = snippet.edit("torch.from_numpy(buffer)", call)
    fails(test_a_reused_buffer_shows_its_last_content, edited)


def test_copies_keep_their_content(snippet):
    run = snippet.after("buffer-copied")

    assert [each.tolist() for each in run.copies] == [[1, 1], [2, 2], [3, 3]]
    for array in arrays():
        made, held = [], []
        for number in (0, 1, 0):
            array[...] = number
            made.append(torch.tensor(array))
            held.append(numbers(array))
        assert [each.tolist() for each in made] == held


@pytest.mark.parametrize(
    "call", ["torch.from_numpy(buffer)", "torch.as_tensor(buffer)"]
)
def test_copies_keep_their_content__but_not_if_they_share(
    snippet, call, fails
):
    edited = snippet.edit("torch.tensor(buffer)", call)
    fails(test_copies_keep_their_content, edited)


MAKERS = {
    "np.array": lambda: np.array([20.5, 21.0]),
    "np.zeros": lambda: np.zeros(3),
    "np.ones": lambda: np.ones((2, 3)),
    "np.linspace": lambda: np.linspace(0.0, 1.0, 5),
    "normal": lambda: np.random.default_rng(0).normal(size=4),
}
ASKED = {
    "np.array of integers": lambda: np.array([20, 21]),
    "np.zeros of integers": lambda: np.zeros(3, int),
    "np.ones of float32": lambda: np.ones(3, np.float32),
    "np.linspace of float32": lambda: np.linspace(0.0, 1.0, 5, dtype="f4"),
    "float32 of default_rng": lambda: np.random.default_rng(0).random(4, "f4"),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("default", [torch.float32, torch.bfloat16])
def test_numpy_makes_float64(snippet, name, default):
    run = snippet.after("outcomes")

    torch.set_default_dtype(default)
    for array in ({**MAKERS, **ASKED}[name](), run.readings):
        assert array.dtype == np.float64
        for row in run.outcomes:
            call = getattr(torch, row.removeprefix("torch."))
            assert call(array).dtype == torch.float64
    assert run.shared.dtype == torch.float64


@pytest.mark.parametrize("name", ASKED)
def test_numpy_makes_float64__but_not_if_another_is_asked_for(
    snippet, name, fails
):
    fails(test_numpy_makes_float64, snippet, name, torch.float32)


def test_numpy_makes_float64__but_not_of_integers(snippet, fails):
    edited = snippet.edit("[20.5, 21.0, 19.5])", "[20, 21, 19])")
    fails(test_numpy_makes_float64, edited, "np.array", torch.float32)


@pytest.mark.parametrize("new", ["['Tensor']", "['FloatTensor']"])
def test_numpy_makes_float64__but_other_calls_do_not_keep_it(
    snippet, new, fails
):
    edited = snippet.edit(
        '("tensor", "as_tensor", "asarray", "from_numpy", "from_dlpack")', new
    )
    fails(test_numpy_makes_float64, edited, "np.zeros", torch.float32)


BIASED = "mat1 and mat2 must have the same dtype, but got Double and Float"
UNBIASED = (
    "expected m1 and m2 to have the same dtype, but got: double != float"
)


def test_a_layer_refuses_float64(snippet):
    with no_error():
        run = snippet.after("double")

    assert run.other_dtype == BIASED
    cases = [(run.layer, run.readings)]
    cases += [
        (nn.Linear(4, out, bias=bias), np.ones(shape))
        for out in (1, 5)
        for bias in (True, False)
        for shape in ((4,), (2, 4), (2, 3, 4))
    ]
    for layer, array in cases:
        text = BIASED if layer.bias is not None else UNBIASED
        assert refusal(layer, torch.from_numpy(array)) == text
        with no_error():
            layer(torch.from_numpy(array).float())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("21.0, 19.5])  #", "21.0, 19.5], np.float32)  #"),
        ("torch.from_numpy(readings).float()", "torch.from_numpy(readings)"),
        ("nn.Linear(3, 1)", "nn.Linear(3, 1).double()"),
        ("nn.Linear(3, 1)", "nn.Linear(3, 1, bias=False)"),
    ],
)
def test_a_layer_refuses_float64__but_not_for_others_or_without_float(
    snippet, old, new, fails
):
    fails(test_a_layer_refuses_float64, snippet.edit(old, new))


# Arrays that are refused

MATRIX = np.arange(6.0).reshape(2, 3)
REFUSED = {
    "reversed": [
        MATRIX[0][::-1],
        MATRIX[:, ::-1],
        MATRIX[::-1],
        np.flip(MATRIX),
        np.arange(3)[::-1],
        np.ones((2, 1))[:, ::-1],
    ],
    "byte order": [
        MATRIX.astype(np.dtype(name).newbyteorder())
        for name in ("f8", "f4", "f2", "i8", "i4", "i2", "u2", "c16")
    ],
    "objects": [
        np.array([20.5, None]),
        np.array([1, 2], object),
        np.array(["a", "b"]),
        np.array([[1], [1, 2]], object),
        np.array(["2026-01-31"], "M8[D]"),
        np.array(None),
    ],
}
SAID = {
    "reversed": (ValueError, "At least one stride"),
    "byte order": (ValueError, "given numpy array has byte order different"),
    "objects": (TypeError, "can't convert np.ndarray of type"),
}
READERS = ["from_numpy", "as_tensor", "asarray", "tensor"]


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("name", READERS)
def test_three_arrays_are_refused(snippet, kind, name):
    run = snippet.after("refused")

    for array in (run.arrays[kind], *REFUSED[kind]):
        error, text = SAID[kind]
        with pytest.raises(error, match=text):
            getattr(torch, name)(array)
    assert SAID[kind][1] in str(run.refused[kind])


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("reversed", "readings[::-1],", "readings[::1],"),
        ("byte order", "readings.dtype.newbyteorder()", "readings.dtype"),
        ("objects", "np.array([20.5, None])", "np.array([20.5, np.nan])"),
    ],
    ids=["read forward", "in the order of the machine", "of floats"],
)
def test_three_arrays_are_refused__but_not_when(
    snippet, name, kind, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_three_arrays_are_refused, edited, kind, name)


def test_a_copy_makes_arrays_acceptable(snippet):
    with no_error():
        run = snippet.after("accepted")

    for each in (run.forwards, run.native, run.filled):
        assert torch.is_tensor(each)
    assert run.forwards.tolist() == run.readings.tolist()[::-1]
    assert run.native.tolist() == run.readings.tolist()
    assert run.filled[0] == 20.5
    assert run.filled[1].isnan()
    assert run.arrays["objects"].tolist() == [20.5, None]
    with no_error():
        for array in REFUSED["reversed"]:
            found = torch.from_numpy(array.copy())
            assert found.tolist() == array.tolist()
        for array in REFUSED["byte order"][:-1]:
            found = torch.from_numpy(array.astype(np.float64))
            assert found.tolist() == MATRIX.tolist()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('arrays["reversed"].copy()', 'arrays["reversed"]'),
        ('order"].astype(np.float64)', 'order"].copy()'),
        ('objects"].astype(np.float64)', 'objects"].copy()'),
        ('"objects"].astype(np.float64)', '"reversed"].copy()'),
        ('["reversed"].copy()', '["reversed"][::-1]'),
    ],
)
def test_a_copy_makes_arrays_acceptable__but_not_another_way(
    snippet, old, new, fails
):
    fails(test_a_copy_makes_arrays_acceptable, snippet.edit(old, new))


# A list of arrays

SLOW = "Creating a tensor from a list of numpy.ndarrays is extremely slow"


def lists(*dtypes):
    """Return lists of arrays of one shape and dtype each."""
    return [
        [np.full(shape, number, dtype) for number in range(length)]
        for shape in ((2,), (2, 3), (1, 2, 2))
        for dtype in dtypes
        for length in (1, 3)
    ]


@pytest.mark.parametrize("name", ["tensor", "as_tensor", "asarray"])
def test_a_list_of_arrays_warns(snippet, name):
    run = snippet.after("list-of-arrays")

    # The fixture of the tests asks for a warning each time: one for an array.
    assert [each.startswith(SLOW) for each in run.texts] == [True] * 2
    dtypes = ["float64", "float16", "uint8"]
    if not older(torch.__version__, "2.9"):
        dtypes.append("bool")  # before, an error came behind the warning
    for each in lists(*dtypes):
        _, texts = run.told(getattr(torch, name), each)
        assert texts
        assert all(text.startswith(SLOW) for text in texts)
    if sys.platform == "linux":
        assert ends()[LISTS] == 101


@pytest.mark.parametrize(
    "new",
    [
        "told(torch.tensor, np.stack(days))",
        "told(torch.tensor, [each.tolist() for each in days])",
        "told(torch.tensor, [each.mean() for each in days])",
    ],
)
def test_a_list_of_arrays_warns__but_not_one_array_or_a_list_of_numbers(
    snippet, new, fails
):
    edited = snippet.edit("told(torch.tensor, days)", new)
    fails(test_a_list_of_arrays_warns, edited, "tensor")


def test_stacking_gives_the_same(snippet):
    with warnings.catch_warnings(action="error"), no_error():
        run = snippet.after("stacked")

    assert torch.equal(run.fast, run.slow)
    assert run.fast.dtype == run.slow.dtype
    for each in lists("float64", "float32", "int64"):
        slow, _ = run.told(torch.tensor, each)
        fast, texts = run.told(lambda it: torch.from_numpy(np.stack(it)), each)
        assert not texts
        assert torch.equal(fast, slow)
        assert fast.dtype == slow.dtype


@pytest.mark.parametrize(
    "new",
    [
        "torch.from_numpy(np.concatenate(days))",
        "torch.from_numpy(np.stack(days, axis=1))",
        "torch.from_numpy(np.stack(days)).float()",
        "torch.as_tensor(days)",
    ],
)
def test_stacking_gives_the_same__but_not_another_way(snippet, new, fails):
    edited = snippet.edit("torch.from_numpy(np.stack(days))", new)
    fails(test_stacking_gives_the_same, edited)


# The way back

GRADIENTS = (
    "Can't call numpy() on Tensor that requires grad."
    " Use tensor.detach().numpy() instead."
)


def asking(weight):
    """Return a weight of the page, and others that require gradients."""
    found = [weight, nn.Linear(2, 3).weight, torch.ones(())]
    found += [torch.ones((2, 3), dtype=torch.float64)]
    for each in found[2:]:
        each.requires_grad_()
    found += [2 * each for each in found]
    return [*found, torch.ones(2, dtype=torch.cfloat, requires_grad=True)]


def test_numpy_refuses_gradients(snippet, freely=torch.no_grad):
    run = snippet.after("back-refused")

    assert run.kept[0] == GRADIENTS
    for each in asking(run.weight):
        assert refusal(each.numpy) == GRADIENTS
        assert refusal(np.asarray, each) == GRADIENTS
        with freely(), no_error():
            for array in (each.numpy(), np.asarray(each)):
                assert array.ctypes.data == each.data_ptr()


def unrecorded():
    """Return the switch that records no gradients."""
    return torch.set_grad_enabled(False)


@pytest.mark.parametrize("freely", [torch.inference_mode, unrecorded])
def test_numpy_refuses_gradients__also_except_where_unrecorded(
    snippet, freely
):
    test_numpy_refuses_gradients(snippet, freely)


def test_numpy_refuses_gradients__but_not_except_where_recorded(
    snippet, fails
):
    fails(test_numpy_refuses_gradients, snippet, torch.enable_grad)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[0.5, 1.5], requires_grad=True", "[0.5, 1.5]"),
        ("weight = torch", "torch.set_grad_enabled(False)\nweight = torch"),
    ],
)
def test_numpy_refuses_gradients__but_not_without_them_or_unrecorded(
    snippet, old, new, fails
):
    fails(test_numpy_refuses_gradients, snippet.edit(old, new))


def test_numpy_has_no_bfloat16(snippet):
    run = snippet.after("back-refused")

    assert run.kept[1] == "Got unsupported ScalarType BFloat16"
    for shape in ((), (1,), (2, 3), (0,)):
        tensor = torch.ones(shape, dtype=run.half.dtype)
        for options in ({}, {"force": True}):
            text = refusal(functools.partial(tensor.numpy, **options))
            assert text == "Got unsupported ScalarType BFloat16"


def test_numpy_has_no_bfloat16__but_another_error_with_gradients(
    snippet, fails
):
    edited = snippet.edit(
        "dtype=torch.bfloat16)", "dtype=torch.bfloat16, requires_grad=True)"
    )
    fails(test_numpy_has_no_bfloat16, edited)


def test_numpy_has_no_bfloat16__but_float16(snippet, fails):
    edited = snippet.edit("torch.bfloat16", "torch.float16")
    fails(test_numpy_has_no_bfloat16, edited)


ELSEWHERE = (
    "can't convert {} device type tensor to numpy."
    " Use Tensor.cpu() to copy the tensor to host memory first."
)


def test_numpy_wants_the_cpu(snippet):
    run = snippet.after("back-refused")

    others = [torch.ones(2, device="meta", requires_grad=True)]
    others += [torch.ones(2, 3, device="meta").to(torch.bfloat16)]
    assert run.kept[2] == ELSEWHERE.format("meta")
    for each in (run.elsewhere, *others):
        assert refusal(each.numpy) == ELSEWHERE.format("meta")


def test_numpy_wants_the_cpu__but_not_on_it(snippet, fails):
    edited = snippet.edit('device="meta"', 'device="cpu"')
    fails(test_numpy_wants_the_cpu, edited)


@pytest.mark.cuda
def test_numpy_wants_the_cpu__also_on_cuda():
    tensor = torch.ones(2, device="cuda")

    assert refusal(tensor.numpy) == ELSEWHERE.format("cuda:0")
    assert tensor.cpu().numpy().tolist() == [1, 1]


def test_numpy_shares_the_tensor(snippet):
    with no_error():
        run = snippet.after("back-accepted")

    assert type(run.detached) is np.ndarray
    run.detached[0] = 9
    assert run.weight.tolist() == [9, 1.5]
    weight = nn.Linear(2, 3).weight
    for tensor in [*tensors(), weight.detach()]:
        for array in (tensor.numpy(), tensor.detach().numpy()):
            tensor.fill_(1)
            assert follows(tensor, array)
            assert numbers(array) == numbers(tensor)
    assert weight.detach().numpy().ctypes.data == weight.data_ptr()


def test_numpy_shares_the_tensor__but_not_after_a_clone(snippet, fails):
    edited = snippet.edit(
        "detached = weight.detach().numpy()",
        "detached = weight.detach().clone().numpy()",
    )
    fails(test_numpy_shares_the_tensor, edited)


@pytest.mark.parametrize(
    "new",
    [
        "detached = np.array(weight.detach().numpy())",
        "detached = (2 * weight).detach().numpy() / 2",
        "detached = weight.detach().double().numpy()",
    ],
)
def test_numpy_shares_the_tensor__but_not_another_tensor_or_a_copy(
    snippet, new, fails
):
    edited = snippet.edit("detached = weight.detach().numpy()", new)
    fails(test_numpy_shares_the_tensor, edited)


def test_float_keeps_bfloat16(snippet):
    with no_error():
        run = snippet.after("back-accepted")

    assert type(run.floats) is np.ndarray
    assert run.floats.tolist() == run.half.tolist() == [20.5, 21]
    assert run.half.dtype == torch.bfloat16
    bits = torch.arange(-(2**15), 2**15).to(torch.int16)
    every = bits.view(torch.bfloat16)
    array = every.float().numpy()
    again = torch.from_numpy(array).bfloat16()
    assert np.array_equal(array, every.double().numpy(), equal_nan=True)
    fine = ~every.isnan()
    assert torch.equal(again[fine].view(torch.int16), bits[fine])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("half.float().numpy()", "half.numpy()"),
        ("half.float().numpy()", "half.float().numpy().round()"),
        ("half.float().numpy()", "half.to(torch.int32).numpy()"),
    ],
)
def test_float_keeps_bfloat16__but_not_otherwise(snippet, old, new, fails):
    fails(test_float_keeps_bfloat16, snippet.edit(old, new))


def test_force_shares(snippet):
    with no_error():
        run = snippet.after("forced")

    assert run.weight.tolist() == [-7, 1.5]
    assert run.weight.requires_grad
    for layer in (nn.Linear(2, 3), nn.Conv2d(1, 2, 3), nn.Embedding(2, 3)):
        with no_error():
            array = layer.weight.numpy(force=True)
        assert numbers(array) == numbers(layer.weight)
        array[...] = 5
        assert (layer.weight == 5).all()


@pytest.mark.parametrize(
    "new",
    [
        "weight.clone().numpy(force=True)",
        "weight.numpy(force=True).copy()",
        "weight.numpy()",
    ],
)
def test_force_shares__but_not_a_copy_and_not_without_force(
    snippet, new, fails
):
    fails(test_force_shares, snippet.edit("weight.numpy(force=True)", new))


# A read-only array

READ_ONLY = "The given NumPy array is not writable"


def locked(array):
    """Return an array that refuses to be written to."""
    array.flags.writeable = False
    return array


def test_a_read_only_array_changes(snippet):
    with no_error():
        run = snippet.after("read-only")

    assert not run.limits.flags.writeable
    assert run.limits.tolist() == [-40, 0]
    assert [each.startswith(READ_ONLY) for each in run.texts] == [True]
    for call in (torch.from_numpy, torch.as_tensor, torch.asarray):
        for array in (
            locked(np.ones(2)),
            locked(np.ones((2, 3), np.uint8)),
            np.frombuffer(bytes(range(1, 17)), np.int32),
        ):
            before = numbers(array)
            tensor, _ = run.told(call, array)
            with no_error():
                tensor[...] = 0
            assert numbers(array) == numbers(tensor) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("told(torch.from_numpy, limits)", "told(torch.tensor, limits)"),
        ("limits.flags.writeable = False", "limits.flags.writeable = True"),
        ("unlimited[1] = 0.0", "limits[1] = 0.0"),
    ],
)
def test_a_read_only_array_changes__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_a_read_only_array_changes, snippet.edit(old, new))


KINDS = ["bytes", "broadcast_to", "memmap", "load"]


@pytest.mark.parametrize("kind", [*KINDS])
def test_these_arrays_are_read_only(tmp_path, kind, mode="r"):
    """No counter-example by an edit: the snippet holds one of the four."""
    np.save(tmp_path / "saved.npy", np.ones(2))
    np.ones(2).tofile(tmp_path / "raw")
    made = {
        "bytes": lambda: np.frombuffer(bytes(16)),
        "bytearray": lambda: np.frombuffer(bytearray(16)),
        "broadcast_to": lambda: np.broadcast_to(np.ones(1), 3),
        "tile": lambda: np.tile(np.ones(1), 3),
        "memmap": lambda: np.memmap(tmp_path / "raw", mode=mode),
        "load": lambda: np.load(tmp_path / "saved.npy", mmap_mode=mode),
    }
    assert not made[kind]().flags.writeable


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("bytearray", "r"),
        ("tile", "r"),
        *[("memmap", mode) for mode in ("c", "r+")],
        *[("load", mode) for mode in ("c", "r+")],
    ],
    ids=[
        "a bytearray",
        "a tile",
        "a memmap that copies on write",
        "a memmap to write to",
        "a load that copies on write",
        "a load to write to",
    ],
)
def test_these_arrays_are_read_only__but_not(tmp_path, kind, mode, fails):
    fails(test_these_arrays_are_read_only, tmp_path, kind, mode)


# A process tries each case in a copy of itself, which may die. It tells how
# each ended: by a signal, or with 100 and the number of its warnings.
CASES = """
import json, os, sys, warnings
import numpy, torch

def maps(path, number=1, mode="r"):
    if path.endswith("npy"):
        return [numpy.load(path, mmap_mode=mode) for _ in range(number)]
    return [numpy.memmap(path, "f4", mode) for _ in range(number)]

def locked():
    array = numpy.ones(2)
    array.flags.writeable = False
    return array

def ended(case):
    if not (child := os.fork()):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with warnings.catch_warnings(record=True, action="always") as caught:
            exec(case, globals())
        os._exit(100 + len(caught))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

print(json.dumps({case: ended(case) for case in json.loads(sys.argv[1])}))
"""
SHARING = ["from_numpy", "as_tensor", "asarray"]
if not older(torch.__version__, "2.9"):
    SHARING.append("from_dlpack")  # before, it refused what is read-only
READS = [
    f"tensor = torch.{name}(maps('{path}')[0])"
    for name in SHARING
    for path in ("raw", "saved.npy")
]
WRITTEN = ["tensor[0] = 99", "tensor += 1", "tensor.zero_()"]
CRASHING = [f"{READS[0]}; {write}" for write in WRITTEN]
CRASHING += [f"{read}; {WRITTEN[0]}" for read in READS[1:]]
CRASHING += [f"try:\n    {CRASHING[0]}\nexcept BaseException:\n    pass"]
READING = f"{READS[0]}; tensor.sum()"
OTHER_MODES = [
    f"tensor = torch.from_numpy(maps('{path}', mode='{mode}')[0]); tensor += 1"
    for path in ("raw", "saved.npy")
    for mode in ("c", "r+")
]
A_COPY = "tensor = torch.tensor(maps('raw')[0]); tensor[0] = 99"
LISTS = "[torch.tensor([locked()] * 3) for _ in range(2)]"
LISTS += "; torch.as_tensor([locked()]); torch.asarray([locked()] * 3)"
WARNING = "[torch.from_numpy(locked()) for _ in range(3)]"
WARNING_TOGETHER = [
    WARNING,
    "torch.asarray(locked()); torch.from_numpy(locked())",
    "torch.as_tensor(locked()); torch.asarray(locked()); " + WARNING,
    "[torch.as_tensor(each) for each in maps('raw', 2)]",
    "torch.as_tensor(locked(), dtype=torch.half); " + WARNING,
]
ALWAYS = "torch.set_warn_always(True); " + WARNING
NO_WARNING = "[torch.tensor(locked()) for _ in range(3)]"
ABORTING = [
    f"torch.from_dlpack({array})"
    for array in (
        "numpy.ones(3)[::-1]",
        "numpy.ones((2, 3))[:, ::-1]",
        "numpy.ones((2, 3), 'f4')[::-1]",
    )
]
NOT_ABORTING = [
    "torch.from_dlpack(numpy.ones(3)[::2])",
    "torch.from_dlpack(numpy.ones(3)[::-1].copy())",
    "torch.from_dlpack(numpy.ones(1)[::-1])",
    "torch.from_dlpack(numpy.ones((0, 3))[:, ::-1])",
]
linux = pytest.mark.skipif(sys.platform != "linux", reason="not on Linux")
torch_2_13 = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="not torch 2.13"
)


@functools.cache
def ends():
    """Return how each case ended, all tried from one process."""
    every = [*CRASHING, READING, *OTHER_MODES, A_COPY, *WARNING_TOGETHER]
    every += [ALWAYS, NO_WARNING, LISTS, *ABORTING, *NOT_ABORTING]
    with tempfile.TemporaryDirectory() as folder:
        np.ones(2, np.float32).tofile(Path(folder, "raw"))
        np.save(Path(folder, "saved.npy"), np.ones(2))
        done = subprocess.run(
            [sys.executable, "-c", CASES, json.dumps(every)],
            cwd=folder,
            capture_output=True,
            check=True,
        )
    return json.loads(done.stdout)


@linux
def test_the_warning_comes_once(snippet, together=tuple(WARNING_TOGETHER)):
    run = snippet.after("read-only")

    assert [each.startswith(READ_ONLY) for each in run.texts] == [True]
    for case in together:
        assert ends()[case] == 101
    for call in (torch.from_numpy, torch.as_tensor, torch.asarray):
        for _ in range(3):  # the fixture of the tests asks for each warning
            _, texts = warned(call, locked(np.ones(2)))
            assert [each.startswith(READ_ONLY) for each in texts] == [True]
    assert ends()[ALWAYS] == 103


@linux
@pytest.mark.parametrize("case", [ALWAYS, NO_WARNING])
def test_the_warning_comes_once__but_not_if(snippet, case, fails):
    fails(test_the_warning_comes_once, snippet, (case,))


@linux
def test_the_warning_comes_once__but_not_of_an_array_that_may_change(
    snippet, fails
):
    edited = snippet.edit("limits.flags.writeable = False\n", "")
    fails(test_the_warning_comes_once, edited)


def crashed(snippet):
    """Run the snippet to where a process of its own has crashed."""
    quiet = set()  # while it lives, since pytest has each crash reported
    register_after_fork(quiet, lambda _: faulthandler.disable())
    return snippet.after("crash-run")


@linux
def test_a_read_only_map_crashes(snippet, cases=tuple(CRASHING)):
    run = crashed(snippet)

    assert run.process.exitcode == -signal.SIGSEGV == -11
    for case in cases:
        assert ends()[case] == -signal.SIGSEGV


@linux
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"float32", mode="r"', '"float32", mode="c"'),
        ('"float32", mode="r"', '"float32", mode="r+"'),
        (
            "        tensor[0] = 99.0\n    except",
            "        tensor[0]\n    except",
        ),
        ("tensor = torch.from_numpy(mapped)", "tensor = torch.tensor(mapped)"),
        ("tensor = torch.from_numpy(mapped)", "tensor = mapped"),
    ],
)
def test_a_read_only_map_crashes__but_not_otherwise(snippet, old, new, fails):
    fails(test_a_read_only_map_crashes, snippet.edit(old, new))


@linux
@pytest.mark.parametrize("case", [READING, A_COPY, *OTHER_MODES])
def test_a_read_only_map_crashes__but_not_if(snippet, case, fails):
    fails(test_a_read_only_map_crashes, snippet, (case,))


MAPS = ["mode='c'", "a copy", "from_file"]


@pytest.mark.parametrize("name", MAPS)
def test_three_ways_leave_the_file(snippet, name, tmp_path):
    with no_error():
        run = snippet_with_maps(snippet)
        np.ones(2, np.float32).tofile(tmp_path / "raw")
        assert torch.is_tensor(run.maps[name](str(tmp_path / "raw")))

    assert list(run.maps) == MAPS
    assert run.results[name] == ([99, 21], [20.5, 21])


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8"])
def test_three_ways_leave_the_file__also_for_other_dtypes(tmp_path, dtype):
    path, options = tmp_path / "raw", {"dtype": getattr(torch, dtype)}
    np.ones(2, dtype).tofile(path)
    np.save(tmp_path / "saved.npy", np.ones(2, dtype))
    for tensor in (
        torch.from_numpy(np.memmap(path, dtype, "c")),
        torch.from_numpy(np.load(tmp_path / "saved.npy", mmap_mode="c")),
        torch.tensor(np.memmap(path, dtype, "r")),
        torch.from_file(str(path), shared=False, size=2, **options),
    ):
        tensor[0] = 99
        assert tensor.tolist() == [99, 1]
    assert np.fromfile(path, dtype).tolist() == [1, 1]
    assert np.load(tmp_path / "saved.npy").tolist() == [1, 1]


def snippet_with_maps(snippet):
    """Run the snippet without the crash, which needs a fork."""
    start = snippet.text.index("    fork = multiprocessing")
    end = snippet.text.index("# %% maps\n")
    without = snippet.text[:start] + "\n" + snippet.text[end:]
    return type(snippet)(snippet.path, without).after("maps-tried")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("mode='c'", '"f4", "c"', '"f4", "r+"'),
        (
            "a copy",
            'torch.tensor(np.memmap(path, "f4", "r"))',
            'torch.from_numpy(np.memmap(path, "f4", "r+"))',
        ),
        ("from_file", "shared=False", "shared=True"),
    ],
)
def test_three_ways_leave_the_file__but_not_otherwise_shared(
    snippet, tmp_path, name, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_three_ways_leave_the_file, edited, name, tmp_path)


@pytest.mark.parametrize("name", MAPS)
def test_three_ways_leave_the_file__but_not_without_a_write(
    snippet, tmp_path, name, fails
):
    edited = snippet.edit(
        "tensor[0] = 99.0\n        results", "tensor[0]\n        results"
    )
    fails(test_three_ways_leave_the_file, edited, name, tmp_path)


# Where it ends

SCALARS = [np.array(20.5), np.array(1), np.array(1, np.uint8), np.array(True)]


@pytest.mark.parametrize("options", [{}, {"copy": False}])
def test_asarray_copies_a_single_number(options, call=torch.asarray):
    for array in SCALARS:
        array[...] = 1
        tensor = call(array, **options)
        assert tensor.shape == ()
        assert not follows(tensor, array)


@pytest.mark.parametrize("call", [torch.as_tensor, torch.from_numpy])
def test_asarray_copies_a_single_number__but_other_calls_share(call, fails):
    fails(test_asarray_copies_a_single_number, {}, call)


@linux
@torch_2_13
@pytest.mark.parametrize("case", ABORTING)
def test_dlpack_aborts(case):
    assert ends()[case] == -signal.SIGABRT


@linux
@torch_2_13
@pytest.mark.parametrize("case", NOT_ABORTING)
def test_dlpack_aborts__but_not_forwards_or_copied(case, fails):
    fails(test_dlpack_aborts, case)
