"""The claims of docs/tensors/memory_maps.md."""

import faulthandler
import functools
import json
import signal
import subprocess
import sys
import tempfile
import warnings
from multiprocessing.util import register_after_fork
from pathlib import Path

import numpy as np
import pytest
import torch

from extensions.evidence.counterexamples import no_error
from extensions.evidence.versions import older


def numbers(source):
    """Return the numbers of an array or a tensor as a list."""
    return source.tolist()


def warned(call, *inputs):
    """Return what a call returns, and the texts of its warnings."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        result = call(*inputs)
    return result, [str(each.message) for each in caught]


READ_ONLY = "The given NumPy array is not writable"


def locked(array):
    """Return an array that refuses to be written to."""
    array.flags.writeable = False
    return array


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


def newer_than_2_13():
    """Return whether `from_dlpack` raises what ended the process before."""
    return not older(torch.__version__, "2.14")


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
IN_PLACE = f"{READS[0]}; torch.nn.ReLU(inplace=True)(tensor)"
SLICED = f"{READS[0]}; tensor[:1].zero_()"
SHARED = [
    f"{READS[0]}; tensor.{call}.zero_()"
    for call in ("float()", "to(torch.float32)", "detach()", "contiguous()")
]
SHARED += [f"{READS[0]}; tensor.{it}.zero_()" for it in ("view(2, 1)", "data")]
SHARED += [f"{READS[0]}; tensor.numpy()[0] = 99"]
COPIED = [
    f"{READS[0]}; tensor.{call}.zero_()"
    for call in ("clone()", "double()", "to('cpu', copy=True)")
]
COPIED += [f"{READS[0]}; tensor[[0]].zero_()"]
COPIED += [f"{READS[0]}; torch.stack([tensor, tensor]).zero_()"]
COPIED += ["torch.from_numpy(maps('raw')[0].copy()).zero_()"]
READING = [f"{READS[0]}; tensor.sum()"]
READING += [
    f"{READS[0]}; {code}"
    for code in (
        "tensor + 1",
        "tensor @ tensor",
        "tensor.tolist()",
        "tensor.sort()",
        "torch.save(tensor, os.devnull)",
        "torch.nn.Linear(2, 1)(tensor).sum().backward()",
        "tensor.requires_grad_().sum().backward()",
    )
]
CUT_SHORT = "maps('raw'); tensor = torch.from_numpy(maps('cut')[0]);"
CUT_SHORT += "os.truncate('cut', 0); tensor.sum()"
OTHER_MODES = [
    f"tensor = torch.from_numpy(maps('{path}', mode='{mode}')[0]); tensor += 1"
    for path in ("raw", "saved.npy")
    for mode in ("c", "r+")
]
A_COPY = "tensor = torch.tensor(maps('raw')[0]); tensor[0] = 99"
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


@functools.cache
def ends():
    """Return how each case ended, all tried from one process."""
    every = [*CRASHING, IN_PLACE, SLICED, *SHARED, *COPIED, *READING]
    every += [CUT_SHORT, *OTHER_MODES, A_COPY, *WARNING_TOGETHER]
    every += [ALWAYS, NO_WARNING, *ABORTING, *NOT_ABORTING]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("raw", "cut"):
            np.ones(2, np.float32).tofile(Path(folder, name))
        np.save(Path(folder, "saved.npy"), np.ones(2))
        done = subprocess.run(
            [sys.executable, "-c", CASES, json.dumps(every)],
            cwd=folder,
            capture_output=True,
            check=True,
        )
    return json.loads(done.stdout)


def ended_otherwise(cases):
    """Return the cases that did not end with one warning, and how."""
    return {case: ends()[case] for case in cases if ends()[case] != 101}


def test_a_read_only_array_changes(snippet, cases=()):
    with no_error():
        run = snippet.after("read-only")

    assert not run.limits.flags.writeable
    assert run.limits.tolist() == [-40, 0]
    assert [each.startswith(READ_ONLY) for each in run.texts] == [True]
    with pytest.raises(ValueError, match="read-only"):
        run.limits[1] = 0
    for call in (torch.from_numpy, torch.as_tensor, torch.asarray):
        for array in (
            locked(np.ones(2)),
            locked(np.ones((2, 3), np.uint8)),
            np.frombuffer(bytes(range(1, 17)), np.int32),
        ):
            before = numbers(array)
            tensor, _ = warned(call, array)
            with no_error():
                tensor[...] = 0
            assert numbers(array) == numbers(tensor) != before
    assert ended_otherwise(cases) == {}


def test_a_read_only_array_changes__also_where_one_number_is_shown_thrice(
    snippet,
):
    run = snippet.only("file", "maps", "read-only", "quiz").after("quiz")

    assert run.many.tolist() == [7, 7, 7]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("limits.flags.writeable = False", "limits.flags.writeable = True"),
        ("unlimited[1] = 0.0", "limits[1] = 0.0"),
    ],
)
def test_a_read_only_array_changes__but_not_otherwise(
    snippet, old, new, fails
):
    """If the array isn't locked, or you write to the array itself, this no
    longer holds.
    """
    fails(test_a_read_only_array_changes, snippet.edit(old, new))


def test_a_read_only_array_changes__but_not_in_a_copy(snippet, fails):
    """`torch.tensor` copies, so the array keeps its 85."""
    edited = snippet.edit("torch.from_numpy(limits)", "torch.tensor(limits)")
    fails(test_a_read_only_array_changes, edited)


@linux
def test_a_read_only_array_changes__ends_with_a_memory_map(snippet, fails):
    """The array of a map opened for reading doesn't change, because the write
    ends the process.
    """
    fails(test_a_read_only_array_changes, snippet, (CRASHING[0],))
    assert ends()[CRASHING[0]] == -signal.SIGSEGV


KINDS = ["np.frombuffer", "np.broadcast_to", "np.asarray", "np.memmap"]


@pytest.mark.parametrize("kind", KINDS)
def test_these_arrays_are_read_only(snippet, kind):
    run = snippet.after("flags")

    assert list(run.arrays) == KINDS
    assert not run.arrays[kind].flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        run.arrays[kind][...] = 0


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "1", "I", "F"])
def test_these_arrays_are_read_only__also_of_an_image(snippet, mode):
    image = snippet.after("flags").Image.new(mode, (2, 3))

    assert not np.asarray(image).flags.writeable


def test_these_arrays_are_read_only__also_a_map_of_np_load(tmp_path):
    np.save(tmp_path / "saved.npy", np.ones(2))

    array = np.load(tmp_path / "saved.npy", mmap_mode="r")
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (KINDS[0], '(b"\\x14\\x15",', '(bytearray(b"\\x14\\x15"),'),
        (KINDS[1], "np.broadcast_to(np.float32", "np.tile(np.float32"),
        (KINDS[2], "np.asarray(Image", "np.array(Image"),
        (KINDS[3], '"float32", mode="r"),\n}', '"float32", mode="c"),\n}'),
        (KINDS[3], '"float32", mode="r"),\n}', '"float32", mode="r+"),\n}'),
    ],
    ids=["bytearray", "tile", "array", "copy on write", "reading and writing"],
)
def test_these_arrays_are_read_only__but_not(snippet, kind, old, new, fails):
    """An array from another call or mode may be written to."""
    fails(test_these_arrays_are_read_only, snippet.edit(old, new), kind)


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
def test_the_warning_comes_once__ends_if(snippet, case, fails):
    """With other filters in Python, the warning comes each time, or never."""
    fails(test_the_warning_comes_once, snippet, (case,))


@linux
def test_the_warning_comes_once__but_not_of_an_array_that_may_change(
    snippet, fails
):
    """An array that may be written to brings no warning."""
    edited = snippet.edit("limits.flags.writeable = False\n", "")
    fails(test_the_warning_comes_once, edited)


@linux
def test_reading_is_safe(snippet, cases=(*READING, *COPIED[:-1])):
    with no_error():
        run = snippet.after("reading")

    assert run.readings.data_ptr() == run.arrays["np.memmap"].ctypes.data
    assert run.readings.tolist() == [20.5, 21]
    assert run.warmer.tolist() == [99, 22]
    assert np.fromfile(run.path, "float32").tolist() == [20.5, 21]
    assert ended_otherwise(cases) == {}


@linux
def test_reading_is_safe__but_not_writing(snippet, fails):
    """A write to the tensor itself is not reading, and it ends the process."""
    fails(test_reading_is_safe, snippet, (CRASHING[0],))


@linux
def test_reading_is_safe__but_not_a_view_of_the_map(snippet, fails):
    """`readings[:]` shares the memory, so it is no new tensor: a map that
    copies on write shows the 99 in `readings` too.
    """
    mode = '"float32", mode="r"),\n}'
    edited = snippet.edit(mode, mode.replace('"r"', '"c"'))
    edited = edited.edit("readings + 1 ", "readings[:] ")
    fails(test_reading_is_safe, edited)


@linux
def test_reading_is_safe__ends_if_the_file_is_cut_short(snippet, fails):
    """If the file is cut short while it is mapped, reading ends the process
    with `SIGBUS`.
    """
    fails(test_reading_is_safe, snippet, (CUT_SHORT,))
    assert ends()[CUT_SHORT] == -signal.SIGBUS


@linux
@pytest.mark.parametrize("case", [SLICED, *SHARED])
def test_shared_memory_crashes(case):
    assert ends()[case] == -signal.SIGSEGV


@linux
@pytest.mark.parametrize("case", COPIED)
def test_shared_memory_crashes__but_not_a_copy(case, fails):
    """A copy has memory of its own, so a write to it is harmless."""
    fails(test_shared_memory_crashes, case)


def crashed(snippet):
    """Run the snippet to where a process of its own has crashed."""
    quiet = set()  # while it lives, since pytest has each crash reported
    register_after_fork(quiet, lambda _: faulthandler.disable())
    return snippet.after("crash-run")


@linux
def test_a_read_only_map_crashes(snippet, cases=(*CRASHING, IN_PLACE)):
    run = crashed(snippet)

    assert run.process.exitcode == -signal.SIGSEGV == -11
    for case in cases:
        assert ends()[case] == -signal.SIGSEGV


@linux
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('mode="r")\n    tensor', 'mode="c")\n    tensor'),
        ('mode="r")\n    tensor', 'mode="r+")\n    tensor'),
        (
            "        tensor[0] = 99.0\n    except",
            "        tensor[0]\n    except",
        ),
        ("tensor = torch.from_numpy(array)", "tensor = torch.tensor(array)"),
        ("tensor = torch.from_numpy(array)", "tensor = array"),
    ],
)
def test_a_read_only_map_crashes__but_not_otherwise(snippet, old, new, fails):
    """In another mode, from a copy or without a write, the process
    lives on.
    """
    fails(test_a_read_only_map_crashes, snippet.edit(old, new))


@linux
@pytest.mark.parametrize("case", [READING[0], A_COPY, *OTHER_MODES])
def test_a_read_only_map_crashes__ends_if(snippet, case, fails):
    """If you only read, copy, or open the map in another mode, the process
    lives on.
    """
    fails(test_a_read_only_map_crashes, snippet, (case,))


MAPS = ["mapped", "copied", "opened"]


@pytest.mark.parametrize("name", MAPS)
def test_three_ways_leave_the_file(snippet, name):
    with no_error():
        before = getattr(snippet.after("maps"), name).clone()
        run = snippet.after("maps-tried")

    assert torch.is_tensor(before)
    assert before.tolist() == [20.5, 21]
    assert getattr(run, name).tolist() == [99, 21]
    assert run.on_disk.tolist() == [20.5, 21]
    assert np.fromfile(run.path, "float32").tolist() == [20.5, 21]


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8"])
def test_three_ways_leave_the_file__also_for_other_dtypes(tmp_path, dtype):
    path, options = tmp_path / "raw", {"dtype": getattr(torch, dtype)}
    np.ones(2, dtype).tofile(path)
    np.save(tmp_path / "saved.npy", np.ones(2, dtype))
    for tensor in (
        torch.from_numpy(np.memmap(path, dtype, "c")),
        torch.from_numpy(np.load(tmp_path / "saved.npy", mmap_mode="c")),
        torch.tensor(np.memmap(path, dtype, "r")),
        torch.from_numpy(np.memmap(path, dtype, "r").copy()),
        torch.from_file(str(path), shared=False, size=2, **options),
    ):
        tensor[0] = 99
        assert tensor.tolist() == [99, 1]
    assert np.fromfile(path, dtype).tolist() == [1, 1]
    assert np.load(tmp_path / "saved.npy").tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("mapped", '"float32", mode="c"', '"float32", mode="r+"'),
        (
            "copied",
            'torch.tensor(np.memmap(path, "float32", mode="r"))',
            'torch.from_numpy(np.memmap(path, "float32", mode="r+"))',
        ),
        ("opened", "shared=False", "shared=True"),
    ],
)
def test_three_ways_leave_the_file__but_not_otherwise_shared(
    snippet, name, old, new, fails
):
    """If the memory is shared with the file, the write reaches the file."""
    fails(test_three_ways_leave_the_file, snippet.edit(old, new), name)


@pytest.mark.parametrize("name", MAPS)
def test_three_ways_leave_the_file__but_not_without_a_write(
    snippet, name, fails
):
    """Without a write, the tensor shows no 99."""
    edited = snippet.edit("    tensor[0] = 99.0\non_disk", "    pass\non_disk")
    fails(test_three_ways_leave_the_file, edited, name)


# A crash of from_dlpack


@linux
@pytest.mark.parametrize("case", ABORTING)
def test_dlpack_aborts(case):
    """No cell shows it: it would end the process."""
    raised = 1 if newer_than_2_13() else -signal.SIGABRT
    assert ends()[case] == raised


@linux
@pytest.mark.parametrize("case", NOT_ABORTING)
def test_dlpack_aborts__ends_for_arrays_forwards_or_copied(case, fails):
    """With an array that runs forward, or a copy, the process lives on."""
    fails(test_dlpack_aborts, case)
