"""The claims of docs/fix/data_loading.md."""

import functools
import io
import os
import re
import signal
import time
import traceback
from contextlib import ExitStack
from itertools import islice, product
from multiprocessing import forkserver
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older, true_since
from extensions.programs.snippet import after, printed
from tests.helpers import spawns
from tests.helpers.alarms import alarm

FORK = {"num_workers": 1, "multiprocessing_context": "fork"}


def error_of(call, *inputs):
    """Return the error that a call raises, or what it returns."""
    try:
        return call(*inputs)
    except Exception as error:
        traceback.clear_frames(error.__traceback__)  # so that workers end
        return error


PICTURES = ("empty", "filtered", "fromarray", "pictures", "broken", "found")


def cells(snippet, *names):
    """Run some cells of the program, without those whose workers die."""
    return snippet.only("arguments", *names).after(names[-1])


def test_next_goes_on(snippet):
    with no_error():
        found = cells(snippet, "next")

    assert found.first.tolist() == [1.0]
    assert found.second.tolist() == [2.0]
    said = str(error_of(lambda: found.batches.next()))
    assert said.endswith("object has no attribute 'next'")


def test_next_goes_on__also_with_a_worker(snippet):
    test_next_goes_on(snippet.edit("3.0])\n", f"3.0], **{FORK})\n"))


def test_next_goes_on__but_not_if_it_starts_over(snippet, fails):
    """`next(iter(loader))` starts over, and gives the first batch again."""
    old = "next(batches), next(batches)"
    edited = snippet.edit(old, "next(iter(loader)), next(iter(loader))")
    fails(test_next_goes_on, edited)


def test_next_goes_on__ends_after_the_last_batch(snippet, fails):
    """After the last batch, it raises `StopIteration`."""
    fails(test_next_goes_on, snippet.edit("[1.0, 2.0, 3.0]", "[1.0]"))


NO_SAMPLES = "num_samples should be a positive integer value"


def test_nothing_to_shuffle(snippet, dataset=None):
    files = cells(snippet, "empty").files if dataset is None else dataset

    said = str(error_of(lambda: DataLoader(files, shuffle=True)))
    assert said.startswith(NO_SAMPLES)
    assert list(DataLoader(files)) == []


EMPTY = {
    "an empty subset": Subset([1.0, 2.0], []),
    "a tensor of no rows": TensorDataset(torch.empty(0, 3)),
    "an empty dict": {},
}


@pytest.mark.parametrize("dataset", EMPTY.values(), ids=EMPTY)
def test_nothing_to_shuffle__also_for(snippet, dataset):
    test_nothing_to_shuffle(snippet, dataset)


def test_nothing_to_shuffle__but_not_with_a_file(snippet, fails):
    """With a single file, both loaders work."""
    fails(test_nothing_to_shuffle, snippet, ["one.jpg"])


def in_a_worker(samples, size=None):
    """Join samples in a worker, or return the text of its error."""
    given = error_of(lambda: list(DataLoader(samples, size, **FORK)))
    return str(given) if isinstance(given, Exception) else given


def test_a_worker_cannot_resize(snippet, sizes=(3, 2, 1, 3)):
    run = snippet.only(*FILES, "in-a-worker").after("in-a-worker")
    refusal = "RuntimeError: Trying to resize storage that is not resizable"
    other = "RuntimeError: stack expects each tensor to be equal size"
    short = [torch.zeros(size) for size in sizes]
    text = in_a_worker(short, len(sizes))
    is_short = sum(sizes) < len(sizes) * sizes[0]

    assert printed[-1]["in-a-worker"].strip() == refusal
    assert in_a_worker(run.short, 2).endswith(f"{refusal}\n")
    assert (refusal if is_short else other) in text


@pytest.mark.parametrize("sizes", [(2, 1), (1, 3), (2, 1, 3)], ids=str)
def test_a_worker_cannot_resize__also_for(snippet, sizes):
    test_a_worker_cannot_resize(snippet, sizes)


@edits(
    ("without a worker", "(short, 2, **one)", "(short, 2)"),
    (
        "behind a short one",
        "torch.zeros(3), torch.zeros(2)]",
        "*torch.ones(1, 2), torch.zeros(3)]",
    ),
)
def test_a_worker_cannot_resize__but_not(snippet, old, new, fails):
    """Without a worker, it is `stack` that raises, and so it does behind a
    sample that is shorter than the rest.
    """
    fails(test_a_worker_cannot_resize, snippet.edit(old, new))


def test_a_worker_stacks_no_gradients(snippet, sample=None, size=2):
    """No cell decides it: the worker itself stacks."""
    sample = nn.Parameter(torch.ones(3)) if sample is None else sample
    said = str(in_a_worker([sample] * 2, size))

    with no_error():
        assert next(iter(DataLoader([sample] * 2, 2))).shape == (2, 3)
    assert "arguments don't support automatic differentiation" in said
    assert "RuntimeError: stack(): functions with out=... " in said


def test_a_worker_stacks_no_gradients__also_for_non_leaf_tensors(snippet):
    sample = torch.ones(3, requires_grad=True) * 2
    test_a_worker_stacks_no_gradients(snippet, sample)


def test_a_worker_stacks_no_gradients__ends_for_detached_tensors(
    snippet, fails
):
    """For detached tensors: they require no gradients, so the worker stacks
    them.
    """
    sample = torch.ones(3, requires_grad=True).detach()
    fails(test_a_worker_stacks_no_gradients, snippet, sample)


def test_a_worker_stacks_no_gradients__ends_without_batches(snippet, fails):
    """With `batch_size=None`: nothing is stacked, and the tensors arrive."""
    fails(test_a_worker_stacks_no_gradients, snippet, None, None)


def test_places_are_not_labels(snippet, loads=list):
    found = cells(snippet, "filtered", "by-place")
    large = found.table[found.table["size"] > 3]

    error = error_of(loads, found.large)
    assert type(error) is KeyError
    assert loads(found.ByPlace(large)) == large["size"].tolist()


def loads_with(options):
    """Return a function that loads a dataset sample by sample."""
    return lambda rows: [each.item() for each in DataLoader(rows, **options)]


WORKERS = {"a loader": {}, "a worker": FORK}


@pytest.mark.parametrize("options", WORKERS.values(), ids=WORKERS)
def test_places_are_not_labels__also_in(snippet, options):
    test_places_are_not_labels(snippet, loads_with(options))


NAMED = "2.0, 6.0]}, index=[4, 5, 6, 7])"


@edits(
    ("shuffled rows", "2.0, 6.0]})", "2.0, 6.0]}).sample(frac=1)"),
    ("other labels", "2.0, 6.0]})", NAMED),
)
def test_places_are_not_labels__also_with(snippet, old, new):
    test_places_are_not_labels(snippet.edit(old, new), loads_with({}))


def test_places_are_not_labels__but_not_in_a_whole_table(snippet, fails):
    """In a table that nobody has filtered, labels and places agree."""
    edited = snippet.edit("[1.0, 5.0, 2.0, 6.0]", "[4.0, 5.0, 7.0, 6.0]")
    fails(test_places_are_not_labels, edited, loads_with({}))


def test_places_are_not_labels__ends_with_new_labels(snippet, fails):
    """`reset_index(drop=True)` makes the labels the places again."""
    old = '[table["size"] > 3])  #'
    edited = snippet.edit(old, f"{old[:-4]}.reset_index(drop=True))  #")
    fails(test_places_are_not_labels, edited, loads_with({}))


def test_places_are_not_labels__ends_with_a_slice(snippet, fails):
    """A slice, such as `column[0:2]`, goes by place."""
    fails(
        test_places_are_not_labels,
        snippet,
        lambda rows: rows.column[0:2].tolist(),
    )


def test_pillow_wants_bytes(snippet, colors=None):
    found = cells(snippet, "filtered", "fromarray")
    colors = found.colors if colors is None else colors

    error = error_of(found.Image.fromarray, colors)
    assert str(error).startswith("Cannot handle this data type")
    pixels = (255 * found.colors).round().astype(np.uint8)
    assert np.array_equal(found.picture, pixels)


REFUSED = {
    "float64": np.zeros((6, 8, 3)),
    "int64": np.zeros((6, 8, 3), dtype=np.int64),
    "three channels first": np.zeros((3, 6, 8), dtype=np.uint8),
    "one channel first": np.zeros((1, 6, 8), dtype=np.uint8),
    "an axis for one channel": np.zeros((6, 8, 1), dtype=np.uint8),
    "a batch": np.zeros((2, 6, 8, 3), dtype=np.uint8),
}


@pytest.mark.parametrize("colors", REFUSED.values(), ids=REFUSED)
def test_pillow_wants_bytes__also_refuses(snippet, colors):
    test_pillow_wants_bytes(snippet, colors)


def test_pillow_wants_bytes__but_not_from_bytes(snippet, fails):
    """Colors in `uint8`, with their channels last, are a picture."""
    fails(test_pillow_wants_bytes, snippet, np.zeros((6, 8, 3), np.uint8))


def test_pillow_wants_bytes__ends_without_colors(snippet, fails):
    """A gray picture without an axis for its channel may be of floats."""
    fails(test_pillow_wants_bytes, snippet, np.zeros((6, 8), np.float32))


def test_pillow_wants_bytes__ends_with_a_fourth_channel(snippet, fails):
    """A fourth channel of bytes is taken for the opacity."""
    fails(test_pillow_wants_bytes, snippet, np.zeros((6, 8, 4), np.uint8))


def test_load_finds_what_is_broken(snippet, says="image file is truncated"):
    with no_error():
        found = cells(snippet, *PICTURES).found

    assert list(found) == ["cut.jpg", "page.jpg"]
    assert found["cut.jpg"].startswith(says)
    assert found["page.jpg"].startswith("cannot identify image file")


@edits(
    ("a tenth is missing", "len(whole) // 2", "len(whole) * 9 // 10"),
    ("a PNG", '"JPEG"', '"PNG"'),
    ("a progressive JPEG", '"JPEG"', '"JPEG", progressive=True'),
    ("a pointer of Git LFS", 'b"<!DOCTYPE html>', 'b"version https://git-lfs'),
    ("an empty file", 'b"<!DOCTYPE html><title>404 Not Found</title>"', 'b""'),
)
def test_load_finds_what_is_broken__also_if(snippet, old, new):
    test_load_finds_what_is_broken(snippet.edit(old, new))


ZEROS = (
    "whole[: len(whole) // 2],",
    "whole[: len(whole) // 2].ljust(len(whole), bytes(1)),",
)


def test_load_finds_what_is_broken__also_a_png_of_zeros(snippet):
    edited = snippet.edit('"JPEG"', '"PNG"').edit(*ZEROS)
    edited = edited.edit("size=(64, 64, 3)", "size=(256, 256, 3)")
    test_load_finds_what_is_broken(edited, says="broken PNG file")


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "WEBP"])
def test_load_finds_what_is_broken__ends_with_zeros(snippet, kind, fails):
    """Some formats load with zeros in place of their end."""
    edited = snippet.edit('"JPEG"', f'"{kind}"').edit(*ZEROS)
    fails(test_load_finds_what_is_broken, edited)


def test_load_finds_what_is_broken__but_verify_does_not(snippet, fails):
    """`verify()` finds nothing wrong with a JPEG that was cut off."""
    edited = snippet.edit("picture.load()", "picture.verify()")
    fails(test_load_finds_what_is_broken, edited)


def test_load_finds_what_is_broken__but_open_does_not(snippet, fails):
    """`Image.open` alone reads only the beginning of the file."""
    edited = snippet.edit("picture.load()", "picture.size")
    fails(test_load_finds_what_is_broken, edited)


def test_load_finds_what_is_broken__ends_with_a_png(snippet, fails):
    """A PNG that lacks only its last few bytes has all of its pixels."""
    edited = snippet.edit('"JPEG"', '"PNG"').edit("len(whole) // 2", "-4")
    fails(test_load_finds_what_is_broken, edited)


def test_load_finds_what_is_broken__ends_if_told_to_fill(snippet, fails):
    """With `LOAD_TRUNCATED_IMAGES = True`, Pillow opens the cut file."""
    old = "import contextlib\n"
    told = "from PIL import ImageFile\n\nImageFile.LOAD_TRUNCATED_IMAGES = "
    program = snippet.edit(old, f"{told}True\n{old}")
    after = "    found = broken(contents)\n"
    program = program.edit(
        after, f"{after}ImageFile.LOAD_TRUNCATED_IMAGES = 0\n"
    )
    fails(test_load_finds_what_is_broken, program)


def test_what_is_missing_is_gray(snippet):
    found = cells(snippet, *PICTURES, "filled")

    rows = found.pixels.reshape(64, -1)
    whole = np.asarray(found.Image.open(io.BytesIO(found.whole)))
    assert np.unique(rows[-8:]).tolist() == [128]
    assert np.array_equal(rows[:8], whole.reshape(64, -1)[:8])


def test_what_is_missing_is_gray__but_not_in_a_whole_file(snippet, fails):
    """A whole file has all of its pixels."""
    edited = snippet.edit("whole[: len(whole) // 2]", "whole")
    fails(test_what_is_missing_is_gray, edited)


def test_what_is_missing_is_gray__ends_with_a_png(snippet, fails):
    """What is missing of a PNG is black."""
    fails(test_what_is_missing_is_gray, snippet.edit('"JPEG"', '"PNG"'))


def test_what_is_missing_is_gray__ends_with_a_progressive_one(snippet, fails):
    """What is missing of a progressive JPEG is sharpness, everywhere."""
    edited = snippet.edit('"JPEG"', '"JPEG", progressive=True')
    fails(test_what_is_missing_is_gray, edited)


# Workers that do not start


def test_some_arguments_need_workers(snippet):
    run = after(snippet, "arguments")

    for name in ("prefetch_factor", "persistent_workers"):
        assert run.texts.get(name, "").startswith("ValueError: ")
        assert f"{name} option" in run.texts[name]
    text = run.texts.get("multiprocessing_context", "")
    assert text.startswith("ValueError: multiprocessing_context can only be")
    text = run.texts.get("timeout", "")
    assert text.startswith("AssertionError: ")
    said = "" if older(torch.__version__, "2.10") else "requires timeout == 0"
    assert text.endswith(said)

    DataLoader(range(4), timeout=60)
    for name in set(run.needs) - {"timeout"}:
        with pytest.raises(ValueError, match=name):
            DataLoader(range(4), num_workers=0, **{name: run.needs[name]})


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_some_arguments_need_workers__also_for(snippet, start):
    old = 'needs["multiprocessing_context"] = "fork"'
    edited = snippet.edit(old, old.replace("fork", start))
    test_some_arguments_need_workers(edited)


@edits(
    ("**{name: value})", "num_workers=1, **{name: value})"),
    (
        '"persistent_workers": True, "timeout"',
        '"persistent_workers": False, "timeout"',
    ),
    ('{"prefetch_factor": 2', '{"prefetch_factor": None'),
    ('"timeout": 60', '"timeout": 0'),
    (
        '["multiprocessing_context"] = "fork"',
        '["multiprocessing_context"] = None',
    ),
)
def test_some_arguments_need_workers__but_not(snippet, old, new, fails):
    """With a worker, or with the value that stands for "not set", nothing
    raises.
    """
    fails(test_some_arguments_need_workers, snippet.edit(old, new))


CORES = ("arguments", "too-many-workers")


def test_more_workers_than_cores_warn(snippet):
    run = after(snippet, *CORES)

    texts = [str(each.message) for each in run.caught]
    assert len(texts) == 1
    assert texts[0].startswith("This DataLoader will create ")
    assert " Our suggested max number of worker in current" in texts[0]


def test_more_workers_than_cores_warn__also_if_few_are_allowed():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, [min(allowed)])
        DataLoader(range(3), num_workers=1)
        with pytest.warns(UserWarning, match="suggested max number"):
            DataLoader(range(3), num_workers=2)
    finally:
        os.sched_setaffinity(0, allowed)


def test_more_workers_than_cores_warn__but_not_with_one_worker(snippet, fails):
    """One worker is not more than the cores, so nothing warns."""
    edited = snippet.edit("os.cpu_count() + 1", "1")
    fails(test_more_workers_than_cores_warn, edited)


def test_more_workers_than_cores_warn__but_not_as_many(snippet, fails):
    """As many workers as cores are not too many."""
    edited = snippet.edit("os.cpu_count() + 1", "len(os.sched_getaffinity(0))")
    fails(test_more_workers_than_cores_warn, edited)


# Workers that die

# Ask whether the worker lives each moment, not after five seconds.
POLLED = patch.object(
    _MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.1,)
)
KILL = ("arguments", "killed")
KILLED = {"SIGKILL": "Killed", "SIGBUS": "Bus error"}


def mute(worker_id):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def raised(dataset, **options):
    """Return the error that comes from workers, which must come."""
    options = {**FORK, **options}
    return error_of(lambda: list(DataLoader(dataset, **options)))


def test_a_killed_worker_raises(snippet, name="SIGKILL", start="fork"):
    run = after(snippet, *KILL)
    data = run.Killed(name) if start == "fork" else Dies(name)
    options = {"multiprocessing_context": start, "worker_init_fn": mute}
    error = raised(data, **options)
    said = f"{error} {error.__cause__}"

    assert type(error) is RuntimeError
    assert f"is killed by signal: {KILLED[name]}" in said
    assert ("raise your shared memory" in said) == (name == "SIGBUS")


class Dies(Dataset):
    """Four samples that kill the worker that reads them."""

    def __init__(self, name):
        self.name = name

    def __len__(self):
        return 4

    def __getitem__(self, index):
        os.kill(os.getpid(), getattr(signal, self.name))


@pytest.mark.parametrize("name", ["SIGBUS"])
def test_a_killed_worker_raises__also_by(snippet, name):
    test_a_killed_worker_raises(snippet, name)


def test_a_killed_worker_raises__ends_with_forkserver(snippet, fails):
    """With `forkserver`, the error says only `exited unexpectedly`."""
    with spawns.with_torch(), POLLED:
        fails(test_a_killed_worker_raises, snippet, "SIGKILL", "forkserver")
    forkserver._forkserver._stop()


@edits(
    ("os.kill(os.getpid(), self.signal)", "os._exit(1)"),
    ("getattr(signal, name)", "signal.SIGCHLD"),
)
def test_a_killed_worker_raises__but_not_otherwise(snippet, old, new, fails):
    """`os._exit(1)` is no signal, and `SIGCHLD` does not kill."""
    fails(test_a_killed_worker_raises, snippet.edit(old, new))


def test_batches_come_in_shared_memory(data=(), **options):
    """No counter-example can edit the page, which has no cell of this."""
    loader = DataLoader(torch.ones(4, 2) if data == () else data, 2, **FORK)
    given = list(loader)

    assert len(given) == 2
    assert all(batch.is_shared() for batch in given)


ROWS = {
    "bool": torch.ones(4, dtype=torch.bool),
    "float64": torch.ones(4, 3, dtype=torch.float64),
    "numbers": [1.0, 2.0, 3.0, 4.0],
}


@pytest.mark.parametrize("data", ROWS.values(), ids=ROWS)
def test_batches_come_in_shared_memory__also_of(data):
    test_batches_come_in_shared_memory(data)


def test_batches_come_in_shared_memory__ends_for_empty_tensors(fails):
    """An empty tensor has no memory to share."""
    fails(test_batches_come_in_shared_memory, torch.ones(4, 0))


HANG = ("arguments", "killed", "unpicklable")


class FirstOf(Dataset):
    """Four samples, the first of which is of another dataset."""

    def __init__(self, other):
        self.other = other

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index or self.other[index]


def local_or(batch):
    """Return a batch, but for the first one, which cannot be pickled."""
    return batch if batch[0] else lambda: batch


def graph_or(batch):
    """Return a batch, but for the first one a tensor with a graph."""
    return batch if batch[0] else torch.ones(2, requires_grad=True) * 2


def test_what_cannot_be_pickled_hangs(
    snippet,
    data=None,
    collate_fn=None,
    start=60,
    seconds=0.2,
    says="pickle local object",
):
    run = snippet.only(*HANG).after(HANG[-1])
    given, began = [], []
    loader = DataLoader(
        FirstOf(data or run.Unpicklable()),
        timeout=start,
        in_order=False,
        collate_fn=collate_fn,
        worker_init_fn=run.quiet,
        **FORK,
    )
    batches = iter(loader)

    def take():
        given.extend(islice(batches, 3))  # the worker goes on
        batches._timeout = seconds
        began.append(time.monotonic())
        next(batches)

    error = error_of(take)
    waited = time.monotonic() - began[0] if began else 0
    batches._shutdown_workers()
    text = os.pread(run.said, 9999, 0).decode()
    os.close(run.said)

    assert type(error) is RuntimeError
    assert str(error) == f"DataLoader timed out after {seconds} seconds"
    assert waited >= seconds
    assert "Traceback (most recent call last):" in text
    assert says in text
    assert len(given) == 3


def test_what_cannot_be_pickled_hangs__also_batches(snippet):
    test_what_cannot_be_pickled_hangs(snippet, [0], local_or)


def test_what_cannot_be_pickled_hangs__also_tensors_with_a_graph(snippet):
    refused = "Cowardly refusing to serialize non-leaf tensor"
    inputs = [0], graph_or, 60, 0.2, refused
    test_what_cannot_be_pickled_hangs(snippet, *inputs)


def test_what_cannot_be_pickled_hangs__also_without_a_timeout(snippet):
    run = after(snippet, *HANG)
    loader = DataLoader(run.Unpicklable(), worker_init_fn=mute, **FORK)
    batches = iter(loader)  # its worker is there before it rings
    with alarm(0.3):
        error = error_of(lambda: list(batches))

    assert type(error) is TimeoutError


def test_what_cannot_be_pickled_hangs__but_not_with_a_class_of_python(
    snippet, fails
):
    """`LookupError` can be pickled, so it arrives."""
    edited = snippet.edit(
        "raise MissingSample(index)", "raise LookupError(index)"
    )
    fails(test_what_cannot_be_pickled_hangs, edited)


def test_what_cannot_be_pickled_hangs__but_not_if_the_worker_ends(
    snippet, fails
):
    """If the worker ends, the main process notices, and says so."""
    edited = snippet.edit("raise MissingSample(index)", "raise SystemExit")
    fails(test_what_cannot_be_pickled_hangs, edited, None, None, 0.3)


FILES = ("arguments", "killed", "few-files")
# Still more batches than there is room for files.
FEWER = ("torch.arange(200.0)", "torch.arange(50.0)")


def open_tensors():
    found = Path("/proc/self/fd").iterdir()
    files = [str(each.readlink()) for each in found if each.is_symlink()]
    return sum(each.startswith("/dev/shm/torch") for each in files)


def kept_by(run, what):
    """Return how many tensors are kept, or the error."""
    kept = []
    error = error_of(lambda: kept.extend(run.keep(what)))
    return error or len(kept)


def test_kept_tensors_keep_files_open(snippet, copy=torch.Tensor.clone):
    run = after(snippet, *FILES)
    error = kept_by(run, torch.Tensor.detach)

    assert isinstance(error, RuntimeError)
    assert str(error).startswith("Too many open files.")
    assert kept_by(run, copy) == 200


@pytest.mark.parametrize(
    ("row", "files"),
    [
        (lambda _: (torch.ones(2), torch.ones(3)), 10),
        (lambda _: [*torch.ones(2, 2)], 5),
    ],
    ids=["two", "of one memory"],
)
def test_kept_tensors_keep_files_open__also_each_of(row, files):
    before = open_tensors()
    loader = DataLoader(range(5), collate_fn=row, **FORK)
    kept = list(loader)
    assert (len(kept), open_tensors()) == (5, before + files)


def test_kept_tensors_keep_files_open__also_with_room_for_40_files(snippet):
    run = after(snippet.edit(*FEWER), *FILES)
    with ExitStack() as stack:
        null = Path(os.devnull)
        files = [stack.enter_context(null.open()) for _ in range(40)]
        last = max(file.fileno() for file in files)

    few = functools.partial(run.resource.getrlimit, run.resource.RLIMIT_NOFILE)
    assert {room for room, _ in run.keep(lambda _: few())} == {last + 1}


def test_kept_tensors_keep_files_open__ends_in_the_file_system(snippet, fails):
    """With the sharing strategy `file_system`: no file stays open."""
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        fails(test_kept_tensors_keep_files_open, snippet.edit(*FEWER))
    finally:
        torch.multiprocessing.set_sharing_strategy("file_descriptor")


def test_kept_tensors_keep_files_open__but_not_without_workers(snippet, fails):
    """Without workers, no tensor comes through a file."""
    edited = snippet.edit("torch.arange(200.0), **one", "torch.arange(200.0)")
    fails(test_kept_tensors_keep_files_open, edited)


def test_kept_tensors_keep_files_open__ends_for_empty_tensors(snippet, fails):
    """For empty tensors: they take no memory, and so no file."""
    edited = snippet.edit("torch.arange(200.0)", "torch.empty(50, 0)")
    fails(test_kept_tensors_keep_files_open, edited)


def test_kept_tensors_keep_files_open__but_not_free_by_detach(snippet, fails):
    """`detach()` shares the memory with the tensor, so the file stays open."""
    fewer = snippet.edit(*FEWER)
    fails(test_kept_tensors_keep_files_open, fewer, torch.Tensor.detach)


class Stopped(Exception):
    """All is pickled, and nothing is to start."""


def handed_over(dataset, start):
    """Return how many open files would be handed to a worker."""
    counts = []

    def stop(*args):
        counts.append(max(len(each) for each in args if type(each) is list))
        raise Stopped

    def stop_spawn(path, args, files):
        counts.append(len(files))
        raise Stopped

    where = {
        "spawn": ("multiprocessing.util.spawnv_passfds", stop_spawn),
        "forkserver": (
            "multiprocessing.forkserver.connect_to_new_process",
            stop,
        ),
    }[start]
    loader = DataLoader(dataset, num_workers=1, multiprocessing_context=start)
    with patch(*where), pytest.raises(Stopped):
        iter(loader)
    return counts[0]


def of_their_own(count):
    return [torch.zeros(3, 4) for _ in range(count)]


def of_one(count):
    return [torch.zeros(3, 4)] * count


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_a_list_of_tensors_opens_files(start, make=of_their_own):
    """No counter-example can edit the page, which has no cell of this."""
    assert torch.multiprocessing.get_sharing_strategy() == "file_descriptor"
    none = handed_over([1, 2], start)

    assert handed_over(make(30), start) == none + 30
    assert handed_over(torch.stack(make(30)), start) == none + 1


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_a_list_of_tensors_opens_files__ends_if_all_share_one_memory(
    start, fails
):
    """If all tensors of the list share one memory: one open file is enough."""
    fails(test_a_list_of_tensors_opens_files, start, of_one)


def test_a_list_of_tensors_opens_files__also_too_many_for_forkserver():
    for count, raises in ((300, True), (200, False)):
        loader = DataLoader(
            of_their_own(count),
            batch_size=count,
            num_workers=1,
            multiprocessing_context="forkserver",
        )
        with spawns.with_torch():
            error = error_of(list, loader)
        assert ("too many fds" in str(error)) == raises
    forkserver._forkserver._stop()


# Errors from workers


class OfText(Exception):
    """An error whose class takes a text."""


class OfTwo(Exception):
    """An error whose class takes two numbers."""

    def __init__(self, day, hour):
        super().__init__(f"day {day}, hour {hour}")


class WithMessage(Exception):
    """An error whose class has a message."""

    message = "no such day"


class Raising(Dataset):
    """Five samples, of which one is never there."""

    def __init__(self, make, missing=0):
        self.make = make
        self.missing = missing

    def __len__(self):
        return 5

    def __getitem__(self, index):
        if index == self.missing:
            raise self.make()
        return index


def test_errors_keep_their_class(make=ZeroDivisionError, timeout=60):
    """No counter-example can edit the page, which has no cell of this."""
    kind = type(make())
    options = {"timeout": timeout, "worker_init_fn": mute}
    error = raised(Raising(make), **options)

    assert type(error) is kind
    check_text(error, kind)


def check_text(error, kind):
    text = str(error)
    assert text.startswith(f"Caught {kind.__name__} in DataLoader worker")
    assert "\nOriginal Traceback (most recent call last):\n" in text
    assert "in __getitem__\n" in text
    last = text.splitlines()[-1]
    assert last.partition(":")[0].endswith(kind.__name__)


def undecodable():
    """Return an error of Python whose class takes five arguments."""
    return UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no start byte")


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(OfText, "no such day"),
        functools.partial(KeyError, "no such day"),
        functools.partial(OSError, 2, "no such file"),
    ],
    ids=["a class of your own", "a KeyError", "an OSError"],
)
def test_errors_keep_their_class__also_for(make):
    test_errors_keep_their_class(make)


MORE = {
    "UnicodeDecodeError": undecodable,
    "one of two numbers": functools.partial(OfTwo, 5, 7),
}


@pytest.mark.parametrize("name", MORE)
def test_errors_keep_their_class__ends_for(name, fails):
    """For a class that cannot be made from one text: a `RuntimeError` arrives
    instead.
    """
    fails(test_errors_keep_their_class, MORE[name])


@pytest.mark.parametrize("name", MORE)
def test_other_errors_become_runtime_errors(name, make=None):
    """No cell decides it: the loader itself wraps the error."""
    make = make or MORE[name]
    error = raised(Raising(make), timeout=60)

    assert type(error) is RuntimeError
    check_text(error, type(make()))


def test_other_errors_become_runtime_errors__ends_for_one_of_a_text(fails):
    """For a class that can be made from one text: the error arrives as it
    is.
    """
    make = functools.partial(OfText, "no such day")
    fails(test_other_errors_become_runtime_errors, "one of a text", make)


def made_on_the_spot():
    """Return an error of a class that cannot be pickled."""
    return type("Made", (Exception,), {})()


@pytest.mark.parametrize("make", [SystemExit, made_on_the_spot])
def test_errors_keep_their_class__ends_with(make, fails):
    """`SystemExit` ends the worker, and a class that is made on the spot
    cannot be pickled.
    """
    fails(test_errors_keep_their_class, make, 0.3)


def test_errors_keep_their_class__ends_for_those_with_a_message(fails):
    """For a class with an attribute `message`: the text is passed by that
    name, and this class raises a `TypeError`.
    """
    fails(test_errors_keep_their_class, WithMessage)


def test_stop_iteration_ends_the_epoch(workers=1, error=StopIteration):
    """No counter-example can edit the page, which has no cell of this."""
    options = {**FORK, "num_workers": workers} if workers else {}
    batches = iter(DataLoader(Raising(error, 3), batch_size=None, **options))
    given = []
    raised = error_of(lambda: given.extend(batches))
    if workers:
        batches._shutdown_workers()

    assert raised is None
    assert given == [0, 1, 2]


@pytest.mark.parametrize("workers", [0, 2])
def test_stop_iteration_ends_the_epoch__also_with(workers):
    test_stop_iteration_ends_the_epoch(workers)


def test_stop_iteration_ends_the_epoch__ends_for_another_error(fails):
    """For another error, such as a `LookupError`: it is raised in the main
    process.
    """
    fails(test_stop_iteration_ends_the_epoch, 1, LookupError)


NO_ACCELERATOR = pytest.mark.skipif(
    torch.accelerator.is_available(), reason="an accelerator is here"
)
# As torch 2.13, a build for CUDA without a driver, and torch 2.6 say it.
NONE_HERE = "accelerator|Found no NVIDIA driver|pin_memory allocator"


@true_since("2.7", "the loader warned of nothing")
@NO_ACCELERATOR
def test_a_pinning_loader_only_warns(snippet):
    run = cells(snippet, "pinning-loader")
    assert len(run.caught) == 1
    assert "no accelerator is found" in str(run.caught[0].message)
    assert run.pinned.tolist() == [1, 2]
    assert not run.pinned.is_pinned()

    for workers, data in product((0, 1), (torch.arange(4.0), [(1, "a")] * 4)):
        loader = DataLoader(data, 2, pin_memory=True, num_workers=workers)
        plain = list(DataLoader(data, 2))
        with pytest.warns(UserWarning, match="no accelerator is found"):
            read = list(loader)
        assert str(read) == str(plain)
        parts = [part for batch in read for part in batch]
        assert not any(
            part.is_pinned() for part in parts if isinstance(part, Tensor)
        )


@NO_ACCELERATOR
@edits(
    ("unasked", "2.0], 2, pin_memory=True)))", "2.0], 2)))"),
    (
        "before it is read",
        "2.0], 2, pin_memory=True)))",
        "2.0], 2)))\n    DataLoader([1.0], pin_memory=True)",
    ),
)
def test_a_pinning_loader_only_warns__but_not(snippet, old, new, fails):
    """Without `pin_memory=True`, nothing warns, and a loader that is made but
    not read doesn't either.
    """
    fails(test_a_pinning_loader_only_warns, snippet.edit(old, new))


@pytest.mark.simulates("an Apple GPU")
@true_since("2.7", "the loader warned of nothing")
def test_mps_pins_nothing(snippet, monkeypatch):
    mps = torch.device("mps")
    names = {"is_available": True, "current_accelerator": mps}
    for name, value in names.items():
        answer = functools.partial(lambda value, *_, **__: value, value)
        monkeypatch.setattr(torch.accelerator, name, answer)
    run = cells(snippet, "pinning-loader")

    assert len(run.caught) == 1
    assert "not supported on MPS now" in str(run.caught[0].message)
    assert not run.pinned.is_pinned()


def test_mps_pins_nothing__but_not_unasked(snippet, monkeypatch, fails):
    """Without `pin_memory=True`, nothing warns."""
    edited = snippet.edit("2.0], 2, pin_memory=True)))", "2.0], 2)))")
    fails(test_mps_pins_nothing, edited, monkeypatch)


@NO_ACCELERATOR
def test_pinning_needs_an_accelerator(snippet):
    run = cells(snippet, "cannot-pin")
    assert len(run.refusals) == 2
    assert re.search(NONE_HERE, run.refusals[0])

    tensors = [torch.rand(3, 8, 8), nn.Parameter(torch.ones(2))]
    tensors += [torch.ones(0), torch.eye(2).to_sparse(), torch.ones(4)[::2]]
    for dtype in (torch.float32, torch.int64, torch.bool):
        tensors.append(torch.ones(2, dtype=dtype))
        for shape in ((), (0,), (2, 3)):
            for make in (torch.ones, torch.empty):
                with pytest.raises(RuntimeError):
                    make(shape, dtype=dtype, pin_memory=True)
            with pytest.raises(RuntimeError):
                torch.tensor(1, dtype=dtype).expand(shape).pin_memory()
    for data in (1.0, [], [1, 2], [[True]]):
        with pytest.raises(RuntimeError):
            torch.tensor(data, pin_memory=True)
    for tensor in tensors:
        with pytest.raises(RuntimeError):
            tensor.pin_memory()


@NO_ACCELERATOR
def test_pinning_needs_an_accelerator__but_not_on_meta(snippet, fails):
    """On `meta` there is no memory to pin, and nothing raises."""
    edited = snippet.edit(
        "torch.ones(3, device=place).pin_memory()",
        "torch.ones(3, device='meta', pin_memory=True)",
    )
    fails(test_pinning_needs_an_accelerator, edited)


@pytest.mark.cuda
def test_pinning_needs_an_accelerator__ends_with_one(snippet, fails):
    """With an accelerator: memory can be pinned."""
    fails(test_pinning_needs_an_accelerator, snippet)


def test_only_dense_cpu_tensors_are_pinned(snippet, device="meta"):
    run = cells(snippet, "cannot-pin")
    said = "only dense CPU tensors can be pinned"
    assert said in run.refusals[-1]

    dtypes = (torch.bfloat16, torch.float32, torch.int64, torch.complex64)
    dtypes += (torch.bool, torch.uint16, torch.float8_e4m3fn)
    for dtype, shape in product(dtypes, ((), (3,), (2, 0, 4))):
        tensor = torch.empty(shape, dtype=dtype, device=device)
        with pytest.raises(RuntimeError, match=f"cannot pin '.*' {said}"):
            tensor.pin_memory()


@pytest.mark.cuda
def test_only_dense_cpu_tensors_are_pinned__also_on_cuda(snippet):
    test_only_dense_cpu_tensors_are_pinned(snippet, "cuda")


def test_only_dense_cpu_tensors_are_pinned__but_not_on_the_cpu(snippet, fails):
    """On the CPU it is the accelerator that is missing, and the error says
    so.
    """
    edited = snippet.edit('("cpu", "meta")', '("cpu",)')
    fails(test_only_dense_cpu_tensors_are_pinned, edited)
