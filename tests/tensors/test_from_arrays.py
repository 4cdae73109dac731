"""The claims of docs/tensors/from_arrays.md."""

import functools
import subprocess
import sys
import warnings
import weakref

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

ROW = [0, 0, 5, 13, 9, 1, 0, 0]  # the first row of the first digit


def test_tensor_copies(snippet):
    run = snippet.after("a-write")

    assert run.pixels[0, 0, 2] == 99
    assert run.images[0, 0].tolist() == ROW
    assert run.images.dtype == torch.float32
    for array in arrays():
        if array.dtype.kind != "c":  # a complex number loses a part
            tensor = torch.tensor(array, dtype=torch.float32)
            assert tensor.dtype == torch.float32
            assert not follows(tensor, array)


def test_tensor_copies__but_as_tensor_does_not(snippet, fails):
    """`as_tensor` without a dtype shares the array, so it shows the 99."""
    edited = snippet.edit(
        "torch.tensor(pixels, dtype=torch.float32)",
        "torch.as_tensor(pixels)",
    )
    fails(test_tensor_copies, edited)


def test_tensor_copies__but_not_as_float32_without_the_dtype(snippet, fails):
    """Without `dtype`, the copy is `float64`, as the array is."""
    edited = snippet.edit("(pixels, dtype=torch.float32)  #", "(pixels)  #")
    fails(test_tensor_copies, edited)


def test_tensor_copies__also_without_a_dtype(snippet):
    run = snippet.after("outcomes")

    assert run.outcomes["torch.tensor"]["an array"] == "copies"
    for array in arrays():
        assert not follows(torch.tensor(array), array)


def test_from_numpy_shares(snippet):
    run = snippet.after("both-ways")

    assert run.shared[0, 0].tolist() == [0, 0, 99, -1, 9, 1, 0, 0]
    assert run.pixels[0, 0].tolist() == [0, 0, 99, -1, 9, 1, 0, 0]
    for array in arrays():
        assert follows(torch.from_numpy(array), array)


@pytest.mark.parametrize(
    "call",
    ["torch.tensor(pixels)", "torch.from_numpy(pixels).clone()"],
)
def test_from_numpy_shares__but_a_copy_does_not(snippet, call, fails):
    """A copy does not follow the array."""
    edited = snippet.edit("torch.from_numpy(pixels)  # shares", call)
    fails(test_from_numpy_shares, edited)


def test_the_way_back_takes_gradients(snippet, *others):
    """Run the first cell with a tensor that asks for gradients."""
    with no_error():
        run = snippet.edit("32)  # copies", "32).requires_grad_()").after(
            "do-this"
        )

    assert run.images.requires_grad
    assert type(run.back) is np.ndarray
    assert run.back.tolist() == run.images.tolist()
    for each in (*asking(run.images), *others):
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
    """These need one more call, such as `.float()` or `.to_dense()`."""
    make, back = WAYS_BACK[kind]
    fails(test_the_way_back_takes_gradients, snippet, make())
    dense = make().to_dense() if make().is_sparse else make()
    assert back(make().requires_grad_()).tolist() == dense.tolist()


@pytest.mark.cuda
def test_the_way_back_takes_gradients__also_on_cuda():
    tensor = torch.ones(2, device="cuda", requires_grad=True)

    assert tensor.detach().cpu().numpy().tolist() == [1, 1]


def test_the_way_back_takes_gradients__but_not_without_detach(snippet, fails):
    """Without `detach()`, a tensor that requires gradients raises an error."""
    edited = snippet.edit("images.detach().cpu()", "images.cpu()")
    fails(test_the_way_back_takes_gradients, edited)


# How it works


def test_one_memory_two_owners(snippet):
    run = snippet.after("owners")

    assert run.pixels.ctypes.data == run.shared.data_ptr()
    assert run.images.data_ptr() == run.back.ctypes.data
    assert run.shared.data_ptr() != run.images.data_ptr()
    assert run.places == {
        "pixels": run.pixels.ctypes.data,
        "shared": run.pixels.ctypes.data,
        "images": run.back.ctypes.data,
        "back": run.back.ctypes.data,
    }
    assert run.numbers == {
        run.shared.data_ptr(): run.pixels[0, 0, :4].tolist(),
        run.images.data_ptr(): run.back[0, 0, :4].tolist(),
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.from_numpy(pixels)  #", "torch.tensor(pixels)  #"),
        ("images.detach()", "images.clone()"),
        (
            "torch.tensor(pixels, dtype=torch.float32)",
            "torch.from_numpy(pixels)",
        ),
    ],
)
def test_one_memory_two_owners__but_not_otherwise_copied(
    snippet, old, new, fails
):
    """If the calls copy or share differently, the names no longer pair up this
    way.
    """
    fails(test_one_memory_two_owners, snippet.edit(old, new))


NOT_ADDED = [bool, np.uint16, np.uint32, np.uint64]
WRITES = [
    lambda tensor: tensor.__setitem__(..., 0),
    lambda tensor: tensor.__iadd__(1),
    lambda tensor: tensor.zero_(),
    lambda tensor: tensor.copy_(torch.zeros_like(tensor)),
    lambda tensor: tensor.flatten().view(-1)[:1].fill_(0),
]


def test_from_numpy_shares__also_when_the_tensor_is_written():
    for write in WRITES:
        for array in arrays():
            before, tensor = numbers(array), torch.from_numpy(array)
            if array.dtype in NOT_ADDED and write is WRITES[1]:
                continue  # torch has no addition for them
            if not tensor.is_contiguous() and write is WRITES[4]:
                continue  # flatten makes a new tensor
            write(tensor)
            assert numbers(array) == numbers(tensor) != before


def test_from_numpy_shares__also_in_the_exercise(snippet):
    run = snippet.after("quiz")

    assert run.counts.tolist() == run.first.tolist() == [9, 2, 3]
    assert run.second.tolist() == run.third.tolist() == [1, 2, 3]
    assert all(map(torch.is_tensor, (run.first, run.second, run.third)))


def test_from_numpy_shares__but_not_with_a_new_tensor(snippet, fails):
    """`shared - 14` makes a new tensor, so the array keeps its 13."""
    edited = snippet.edit("shared[0, 0, 3] = -1.0", "shared = shared - 14.0")
    fails(test_from_numpy_shares, edited)


LEFT = """
import numpy
import torch
from multiprocessing.shared_memory import SharedMemory

def make():
    {}
    array[:] = 7
    return torch.from_numpy(array)

print(make().tolist())
"""
OWNED = "array = numpy.empty(2)"
IN_SHARED_MEMORY = """
    shared = SharedMemory(create=True, size=16)
    shared.unlink()
    array = numpy.ndarray(2, buffer=shared.buf)
"""


def test_the_memory_stays(snippet, made=None):
    if made is not None:
        command = [sys.executable, "-c", LEFT.format(made)]
        done = subprocess.run(
            command, capture_output=True, check=False, text=True
        )
        assert (done.returncode, done.stdout) == (0, "[7.0, 7.0]\n")
        return
    run = snippet.after("do-this")
    array = weakref.ref(run.pixels)
    before = run.shared.tolist()

    del run.pixels

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
    """A copy doesn't keep the array alive."""
    edited = snippet.edit(
        "torch.from_numpy(pixels)  # shares", "torch.tensor(pixels)"
    )
    fails(test_the_memory_stays, edited)


def test_the_memory_stays__ends_in_shared_memory(snippet, fails):
    """Memory of `SharedMemory` goes with that object, and reading the tensor
    then ends the process.
    """
    test_the_memory_stays(snippet, OWNED)
    fails(test_the_memory_stays, snippet, IN_SHARED_MEMORY)


# Which call shares

AS_HALF = "call(source, dtype=torch.half)\n        except"
SHARING = ["as_tensor", "asarray", "from_numpy", "from_dlpack"]


SOURCES = [
    *[(name, "an array") for name in SHARING],
    *[(name, "a tensor") for name in SHARING if name != "from_numpy"],
]


@pytest.mark.parametrize(("name", "kind"), SOURCES)
def test_four_calls_share(snippet, name, kind, more=(), device="cpu"):
    run = snippet.after("outcomes")

    assert run.outcomes[f"torch.{name}"][kind] == "shares"
    found = [each for each in arrays() if each.ndim]
    if kind == "a tensor":
        found = [*tensors(), torch.ones(3, dtype=torch.bfloat16)]
    for source in [*found, *more]:
        with torch.device(device):
            tensor = getattr(torch, name)(source)
        assert tensor.device.type == "cpu"
        assert follows(tensor, source)


@pytest.mark.parametrize("kind", ["an array", "a tensor"])
@pytest.mark.parametrize("name", SHARING[:2])
def test_four_calls_share__but_not_as_another_dtype(
    snippet, name, kind, fails
):
    """If you ask for another dtype, the call copies."""
    edited = snippet.edit("call(source)\n        except", AS_HALF)
    fails(test_four_calls_share, edited, name, kind)


@pytest.mark.parametrize(("name", "kind"), SOURCES)
def test_four_calls_share__but_not_a_copy_of_the_source(
    snippet, name, kind, fails
):
    """`source + 0` is new memory, so the result does not follow the source."""
    edited = snippet.edit("tensor = call(source)", "tensor = call(source + 0)")
    fails(test_four_calls_share, edited, name, kind)


@pytest.mark.parametrize("kind", ["an array", "a tensor"])
def test_four_calls_share__but_not_if_asarray_is_to_copy(snippet, kind, fails):
    """With `copy=True`, `asarray` copies."""
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
    """An array of the same numbers is shared."""
    edited = snippet.edit("[1.0, 1.0, 1.0]", "np.array([1.0, 1.0, 1.0])")
    fails(test_a_list_is_copied, edited, name)


def test_a_list_is_copied__but_not_by_from_numpy(snippet, fails):
    """`from_numpy` doesn't take a list at all."""
    fails(test_a_list_is_copied, snippet, "from_numpy")


NO_ARRAYS = {
    "a list": [1.0],
    "a tuple": (1.0,),
    "a number": 1.0,
    "a number of NumPy": np.float64(1),
    "a tensor": torch.ones(2),
}


@pytest.mark.parametrize("kind", NO_ARRAYS)
def test_a_list_is_copied__ends_with_from_numpy_for(snippet, kind, fails):
    """`from_numpy` raises a `TypeError` for anything but an array."""
    fails(test_a_list_is_copied, snippet, "from_numpy")
    with pytest.raises(TypeError, match=r"expected np\.ndarray"):
        torch.from_numpy(NO_ARRAYS[kind])


def test_a_list_is_copied__also_except_where_it_is_refused(snippet):
    run = snippet.after("outcomes")

    assert run.outcomes["torch.from_numpy"]["a tensor"] == "TypeError"
    assert run.outcomes["torch.from_numpy"]["a list"] == "TypeError"
    assert run.outcomes["torch.from_dlpack"]["a list"].endswith("Error")


ADVICE = "To copy construct from a tensor, it is recommended to use"


def test_tensor_copies__also_a_tensor_with_a_warning(snippet):
    run = snippet.after("outcomes")

    assert run.outcomes["torch.tensor"]["a tensor"] == "copies, warns"
    for source in [*tensors(), torch.ones(2, requires_grad=True)]:
        copied, texts = warned(torch.tensor, source)
        assert [each.startswith(ADVICE) for each in texts] == [True]
        cloned, texts = warned(lambda it: it.detach().clone(), source)
        assert not texts
        for each in (copied, cloned):
            assert each.data_ptr() != source.data_ptr()
            assert torch.equal(each, source)


def test_another_type_copies(snippet):
    run = snippet.after("another-type")

    assert run.pixels[0, 0, 4] == 77
    assert run.converted[0, 0].tolist() == [0, 0, 99, -1, 9, 1, 0, 0]
    for call in (torch.as_tensor, torch.asarray):
        for source in [*arrays(), *tensors()]:
            own = torch.from_numpy(np.asarray(source)).dtype
            for dtype in (torch.float64, torch.float16, torch.int64):
                if dtype != own and not own.is_complex:
                    copied, texts = warned(call, source, dtype=dtype)
                    assert texts == []
                    assert not follows(copied, source)
                    source[...] = 1


@pytest.mark.parametrize("name", ["as_tensor", "asarray"])
@pytest.mark.parametrize("dtype", ["torch.float64", "None"])
def test_another_type_copies__but_not_the_same_type(
    snippet, name, dtype, fails
):
    """If the dtype stays `float64`, the memory is shared."""
    edited = snippet.edit(
        "as_tensor(pixels, dtype=torch.float32)",
        f"{name}(pixels, dtype={dtype})",
    )
    fails(test_another_type_copies, edited)


def test_copy_false_raises(snippet):
    run = snippet.after("without-a-copy")

    assert "can't alias tensor with dtype" in str(run.not_aliased)
    for source in [run.pixels, *arrays(), *tensors()]:
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
    """Without `copy=False`, it copies and raises no error."""
    fails(test_copy_false_raises, snippet.edit(", copy=False", option))


def test_copy_false_raises__but_not_for_the_same_dtype(snippet, fails):
    """If you leave the dtype as it is, sharing works."""
    edited = snippet.edit("dtype=dtype, copy", "copy")
    fails(test_copy_false_raises, edited)


# What goes wrong


def test_a_reused_buffer_shows_its_last_content(snippet):
    run = snippet.after("buffer")

    third = run.pixels[3].tolist()
    assert all(torch.is_tensor(each) for each in run.frames)
    assert [each.tolist() for each in run.frames] == [third] * 3
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
    """With a new array for each image, each tensor keeps its own."""
    edited = snippet.edit(
        "    buffer[:] = image\n    frames.append",
        "    buffer = image.copy()\n    frames.append",
    )
    fails(test_a_reused_buffer_shows_its_last_content, edited)


@pytest.mark.parametrize(
    "call", ["torch.tensor(buffer)", "torch.from_numpy(buffer).clone()"]
)
def test_a_reused_buffer_shows_its_last_content__but_not_in_copies(
    snippet, call, fails
):
    """Copies keep the image that the array held at the time."""
    edited = snippet.edit("torch.from_numpy(buffer)", call)
    fails(test_a_reused_buffer_shows_its_last_content, edited)


def test_a_reused_buffer_shows_its_last_content__ends_with_tensor(
    snippet, fails
):
    """Tensors from `torch.tensor` each keep what the array held at the
    time.
    """
    edited = snippet.edit("torch.from_numpy(buffer)", "torch.tensor(buffer)")
    fails(test_a_reused_buffer_shows_its_last_content, edited)
    run = snippet.after("buffer-copied")
    wanted = [run.pixels[i].tolist() for i in (1, 2, 3)]
    assert [each.tolist() for each in run.copies] == wanted
    for array in arrays():
        made, held = [], []
        for number in (0, 1, 0):
            array[...] = number
            made.append(torch.tensor(array))
            held.append(numbers(array))
        assert [each.tolist() for each in made] == held


def test_a_reused_buffer_shows_its_last_content__also_beside_copies(snippet):
    run = snippet.after("buffer-copied")

    assert all(torch.is_tensor(each) for each in run.copies)
    assert [each.sum() for each in run.copies] == [313, 344, 267]
    wanted = [run.pixels[i].tolist() for i in (1, 2, 3)]
    assert [each.tolist() for each in run.copies] == wanted
    assert [each.tolist() for each in run.frames] == wanted[-1:] * 3


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
    for array in ({**MAKERS, **ASKED}[name](), run.pixels):
        assert array.dtype == np.float64
        for row in run.outcomes:
            call = getattr(torch, row.removeprefix("torch."))
            assert call(array).dtype == torch.float64
        for call in (torch.tensor, torch.as_tensor, torch.asarray):
            for dtype in (torch.float32, torch.int64):
                assert call(array, dtype=dtype).dtype == dtype
    assert run.shared.dtype == torch.float64


@pytest.mark.parametrize("name", ASKED)
def test_numpy_makes_float64__ends_for_other_arrays(snippet, name, fails):
    """An array of another dtype does not become `float64`."""
    fails(test_numpy_makes_float64, snippet, name, torch.float32)


def test_numpy_makes_float64__but_not_of_integers(snippet, fails):
    """An array of integers becomes a tensor of integers."""
    edited = snippet.edit(
        "load_digits().images", "load_digits().images.astype(int)"
    )
    fails(test_numpy_makes_float64, edited, "np.array", torch.float32)


@pytest.mark.parametrize("new", ["['Tensor']", "['FloatTensor']"])
def test_numpy_makes_float64__but_other_calls_do_not_keep_it(
    snippet, new, fails
):
    """`torch.Tensor` and `torch.FloatTensor` do not keep the dtype of the
    array.
    """
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
    assert run.without_bias == UNBIASED
    assert run.scores.dtype == torch.float32
    assert torch.equal(run.scores, run.layer(run.flat.float()))
    cases = [(run.layer, run.flat.numpy())]
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
        ("shared.flatten(1)  #", "images.flatten(1)  #"),
        ("flat.float()", "flat"),
        ("nn.Linear(64, 10)", "nn.Linear(64, 10).double()"),
        ("nn.Linear(64, 10)", "nn.Linear(64, 10, bias=False)"),
        ("bias=False)", "bias=False).double()"),
    ],
)
def test_a_layer_refuses_float64__but_not_for_others_or_without_float(
    snippet, old, new, fails
):
    """If the dtypes of the layer and its input agree, there is no error."""
    fails(test_a_layer_refuses_float64, snippet.edit(old, new))


@pytest.mark.parametrize("bias", [True, False], ids="bias {}".format)
def test_a_layer_refuses_float64__also_under_autocast(snippet, bias):
    run = snippet.after("double")
    layer = nn.Linear(64, 10, bias=bias)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert "same dtype, but got" in refusal(layer, run.flat)
        with no_error():
            assert layer(run.flat.float()).shape == (1797, 10)


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
        ("reversed", "pixels[1, :, ::-1],", "pixels[1, :, ::1],"),
        ("byte order", "pixels.dtype.newbyteorder()", "pixels.dtype"),
        ("objects", "np.array([20.5, None])", "np.array([20.5, np.nan])"),
    ],
    ids=["read forward", "in the order of the machine", "of floats"],
)
def test_three_arrays_are_refused__but_not_when(
    snippet, name, kind, old, new, fails
):
    """Arrays of plain numbers that run forward, in the machine's byte order,
    become tensors.
    """
    edited = snippet.edit(old, new)
    fails(test_three_arrays_are_refused, edited, kind, name)


LARGE = [np.array([2**60 + 1], ">i8"), np.array([1 + 2j], ">c8")]
NUMBERS = [
    np.array([None, None]),
    np.array([1, 2.5, True, None, np.float32(0.5)], object),
]


def test_a_copy_makes_arrays_acceptable(snippet, *others):
    with no_error():
        run = snippet.after("accepted")

    for each in (run.mirrored, run.native, run.filled):
        assert torch.is_tensor(each)
    assert run.mirrored.tolist() == run.pixels[1, :, ::-1].tolist()
    assert run.native.tolist() == run.pixels[1].tolist()
    assert run.filled.tolist()[0] == 20.5
    assert run.filled[1].isnan()
    assert run.arrays["objects"].tolist() == [20.5, None]
    for objects in others:
        with no_error():
            objects.astype(np.float64)
    with no_error():
        for array in REFUSED["reversed"]:
            found = torch.from_numpy(array.copy())
            assert found.tolist() == array.tolist()
        for array in (*REFUSED["byte order"], *LARGE):
            native = array.astype(array.dtype.newbyteorder("="))
            assert native.dtype == array.dtype.newbyteorder("=")
            assert torch.from_numpy(native).tolist() == array.tolist()
        for objects in NUMBERS:
            found = torch.from_numpy(objects.astype(np.float64))
            for number, wanted in zip(found, objects, strict=True):
                assert number.isnan() if wanted is None else number == wanted


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('arrays["reversed"].copy()', 'arrays["reversed"]'),
        ('foreign.astype(foreign.dtype.newbyteorder("="))', "foreign.copy()"),
        ('objects"].astype(np.float64)', 'objects"].copy()'),
        ('"objects"].astype(np.float64)', '"reversed"].copy()'),
        ('["reversed"].copy()', '["reversed"][:, ::-1]'),
    ],
)
def test_a_copy_makes_arrays_acceptable__but_not_another_way(
    snippet, old, new, fails
):
    """Without the right call, the array still raises an error."""
    fails(test_a_copy_makes_arrays_acceptable, snippet.edit(old, new))


OTHERS = {
    "a word": np.array([20.5, "n/a"], object),
    "a complex number": np.array([20.5, 1j], object),
    "a list": np.array([20.5, [1.0]], object),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_copy_makes_arrays_acceptable__ends_for(snippet, kind, fails):
    """`.astype(np.float64)` raises an error if one of the objects is not a
    real number.
    """
    fails(test_a_copy_makes_arrays_acceptable, snippet, OTHERS[kind])


def test_three_arrays_are_refused__ends_for_an_empty_array(snippet, fails):
    """A reversed array without numbers becomes an empty tensor."""
    edited = snippet.edit("pixels[1, :, ::-1],", "np.ones(0)[::-1],")
    fails(test_three_arrays_are_refused, edited, "reversed", "from_numpy")
    assert torch.from_numpy(np.ones(0)[::-1]).shape == (0,)


# A list of arrays

LISTS = """
import warnings, numpy, torch
for always in (False, True):
    torch.set_warn_always(always)
    with warnings.catch_warnings(record=True, action="always") as caught:
        arrays = [numpy.ones(2)] * 3
        for call in ("tensor", "tensor", "as_tensor", "asarray"):
            getattr(torch, call)(arrays)
    print(len(caught))
"""
SLOW = "Creating a tensor from a list of numpy.ndarrays is extremely slow"


@functools.cache
def counted_warnings():
    """Count the warnings of a new process, as it starts and with all."""
    done = subprocess.run(
        [sys.executable, "-c", LISTS], capture_output=True, check=True
    )
    return [int(count) for count in done.stdout.split()]


def lists(*dtypes):
    """Return lists of arrays of one shape and dtype each."""
    return [
        [np.full(shape, number, dtype) for number in range(length)]
        for shape in ((2,), (2, 3), (1, 2, 2))
        for dtype in dtypes
        for length in (1, 3)
    ]


@pytest.mark.parametrize("name", ["tensor", "as_tensor", "asarray"])
def test_a_list_of_arrays_warns(snippet, name, always=False, more=()):
    run = snippet.after("list-of-arrays")

    # The fixture of the tests asks for a warning each time: one for an array.
    assert [each.startswith(SLOW) for each in run.texts] == [True] * 2
    dtypes = ["float64", "float16", "uint8"]
    if not older(torch.__version__, "2.9"):
        dtypes.append("bool")  # before, an error came behind the warning
    for each in (*lists(*dtypes), *more):
        with no_error():
            _, texts = run.told(getattr(torch, name), each)
        assert texts
        assert all(text.startswith(SLOW) for text in texts)
    assert counted_warnings()[always] == 1


def test_a_list_of_arrays_warns__ends_with_set_warn_always(snippet, fails):
    """`torch.set_warn_always(True)` brings the warning for each array."""
    fails(test_a_list_of_arrays_warns, snippet, "tensor", True)
    assert counted_warnings() == [1, 12]


def test_a_list_of_arrays_warns__ends_for_arrays_of_one_number(snippet, fails):
    """Arrays without axes, such as `np.array(0.5)`, raise a `TypeError`."""
    more = [[np.array(0.5), np.array(1.5)]]
    fails(test_a_list_of_arrays_warns, snippet, "tensor", False, more)
    with pytest.raises(TypeError, match="len"):
        torch.tensor(more[0])
    assert torch.from_numpy(np.stack(more[0])).tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    "new",
    [
        "told(torch.tensor, np.stack(rows))",
        "told(torch.tensor, [each.tolist() for each in rows])",
        "told(torch.tensor, [each.mean() for each in rows])",
    ],
)
def test_a_list_of_arrays_warns__but_not_one_array_or_a_list_of_numbers(
    snippet, new, fails
):
    """A single array, or lists of numbers, bring no warning."""
    edited = snippet.edit("told(torch.tensor, rows)", new)
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
        "torch.from_numpy(np.concatenate(rows))",
        "torch.from_numpy(np.stack(rows, axis=1))",
        "torch.from_numpy(np.stack(rows)).float()",
        "torch.as_tensor(rows)",
    ],
)
def test_stacking_gives_the_same__but_not_another_way(snippet, new, fails):
    """Other calls give another shape, another dtype or the warning."""
    edited = snippet.edit("torch.from_numpy(np.stack(rows))", new)
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


def test_numpy_refuses_gradients__ends_where_recorded(snippet, fails):
    """Under `enable_grad()`, gradients are recorded, so you get the error."""
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
    """A tensor without gradients becomes an array."""
    fails(test_numpy_refuses_gradients, snippet.edit(old, new))


def test_numpy_has_no_bfloat16(snippet):
    with no_error():
        run = snippet.after("back-accepted")

    assert run.kept[1] == "Got unsupported ScalarType BFloat16"
    for shape in ((), (1,), (2, 3), (0,)):
        tensor = torch.ones(shape, dtype=run.half.dtype)
        for options in ({}, {"force": True}):
            text = refusal(functools.partial(tensor.numpy, **options))
            assert text == "Got unsupported ScalarType BFloat16"
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


def test_numpy_has_no_bfloat16__but_another_error_with_gradients(
    snippet, fails
):
    """If the tensor also requires gradients, the error complains about those
    first.
    """
    edited = snippet.edit(
        "dtype=torch.bfloat16)", "dtype=torch.bfloat16, requires_grad=True)"
    )
    fails(test_numpy_has_no_bfloat16, edited)


def test_numpy_has_no_bfloat16__but_float16(snippet, fails):
    """NumPy has `float16`, so there is no error."""
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
    """On the CPU there is no error."""
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
    """After `clone()`, the array has memory of its own."""
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
    """A copy, or a tensor that you computed from the weight, has memory of its
    own.
    """
    edited = snippet.edit("detached = weight.detach().numpy()", new)
    fails(test_numpy_shares_the_tensor, edited)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("half.float().numpy()", "half.numpy()"),
        ("half.float().numpy()", "half.float().numpy().round()"),
        ("half.float().numpy()", "half.to(torch.int32).numpy()"),
    ],
)
def test_numpy_has_no_bfloat16__but_not_in_another_way(
    snippet, old, new, fails
):
    """Without `.float()`, or rounded, the numbers don't arrive unchanged."""
    fails(test_numpy_has_no_bfloat16, snippet.edit(old, new))


def test_numpy_shares_the_tensor__also_with_force(snippet):
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


# Where it ends

SCALARS = [np.array(20.5), np.array(1), np.array(1, np.uint8), np.array(True)]


@pytest.mark.parametrize("options", [{}, {"copy": False}], ids=str)
def test_four_calls_share__ends_for_asarray_of_a_single_number(
    snippet, options, fails
):
    """`asarray` copies an array without axes, even with `copy=False`."""
    for array in SCALARS:
        array[...] = 1
        tensor = torch.asarray(array, **options)
        assert tensor.shape == ()
        assert not follows(tensor, array)
    more = [np.array(1.0)]
    fails(test_four_calls_share, snippet, "asarray", "an array", more)


@pytest.mark.parametrize("name", ["as_tensor", "asarray"])
def test_four_calls_share__ends_if_the_default_device_is_another(
    snippet, name, fails
):
    """With another default device, as in `with torch.device("cuda"):`, the
    call copies the array to it.
    """
    fails(test_four_calls_share, snippet, name, "an array", (), "meta")
    with torch.device("meta"):
        assert getattr(torch, name)(np.ones(2)).device.type == "meta"
        for shared in (torch.from_numpy, torch.from_dlpack):
            assert shared(np.ones(2)).device.type == "cpu"
