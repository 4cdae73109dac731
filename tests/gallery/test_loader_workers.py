"""The claims of gallery/loader_workers.py."""

import os
import sys
from functools import cache
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from torch.overrides import TorchFunctionMode

from extensions.evidence.counterexamples import edits
from tests.helpers.forks import ForkedPython, import_once
from tests.helpers.recipes import (
    BROKEN,
    check_arguments,
    check_named,
    check_refused,
    given,
    no_line,
    written,
)

import_once("numpy.random")  # each worker seeds it
pytest.importorskip("tqdm", reason="tqdm is not installed")
pytestmark = pytest.mark.usefixtures("nothing_stays")

ARGUMENTS = {
    "DATASET": (["--dataset", "my_data.py"], "my_data.py"),
    "BATCH_SIZE": (["--batch-size", "7"], 7),
    "BATCHES": (["--batches", "9"], 9),
    "WORKERS": (["--workers", "3", "5"], [3, 5]),
    "ROUNDS": (["--rounds", "4"], 4),
}


@cache
def checked(snippet):
    """Return the variables of a program that has loaded its samples."""
    return snippet.after("check")


@cache
def ready(snippet):
    """Return the variables of a program that has loaded and timed nothing."""
    return snippet.only(
        "settings", "options", "setup", "samples", "loader", "time"
    ).after("time")


@cache
def concluding(snippet):
    """Return what concludes."""
    part = snippet.edit(
        "        speeds = measure()\n", "        speeds = {}\n"
    )
    part = part.edit(
        "    with one_line(DATASET):\n        speeds",
        "    if 1:\n        speeds",
    )
    return part.only("conclude").after("conclude").conclude


# -- Settings ----------------------------------------------------------------


def test_each_argument_sets_its_constant(snippet):
    check_arguments(snippet, ARGUMENTS)


@edits(
    ("default=BATCHES", "default=9"),
    ("BATCH_SIZE, BATCHES = options", "BATCHES, BATCH_SIZE = options"),
    ("WORKERS, ROUNDS = options", "ROUNDS, WORKERS = options"),
    ('if "__file__" in globals():  # a script', "if True:  # a script"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With `default=9`, `BATCHES` changes without its argument; the other
    edits swap values, or read arguments in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_a_number_out_of_bounds_is_refused(snippet):
    check_refused(
        snippet,
        [
            ["--batch-size", "0"],
            ["--batches", "-1"],
            ["--workers", "1", "0"],
            ["--rounds", "1"],
        ],
    )


@edits(
    ("options.batches, *options.workers", "options.batches, 9"),
    ("options.batch_size, options.batches, *", "9, options.batches, *"),
    ("options.rounds // 2", "options.rounds"),
    ("and --rounds is at least 2", "and the rounds are at least 2"),
)
def test_a_number_out_of_bounds_is_refused__but_not_with(
    snippet, old, new, fails
):
    """With `9` in their place, the workers are not checked; other edits accept
    other bad numbers, or do not name the argument.
    """
    fails(test_a_number_out_of_bounds_is_refused, snippet.edit(old, new))


# -- A reader's dataset ------------------------------------------------------

FILE = """
from torch.utils.data import Dataset


class Temperatures(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return 20.0 + index


def build():
    return Temperatures()
"""
COLLATE = """

def collate_fn(samples):
    return "a batch of mine", samples
"""


def test_a_file_with_the_name_of_a_module_is_refused(snippet, tmp_path):
    for name in ("random", "torch", "sys", "wave", "tqdm"):
        path = written(tmp_path, FILE, f"{name}.py")
        with pytest.raises(ValueError, match=name) as caught:
            given(snippet, DATASET=path, WORKERS=[1]).after("yours")
        vars(sys).pop("tracebacklimit", None)
        assert "rename it: " in str(caught.value)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
        sys.path.remove(str(tmp_path.resolve()))
        Path(path).unlink()


@edits(
    ("if path.stem in sys.stdlib_module_names:", "if False:"),
    ('if getattr(module, "__file__", "") != str(path):', "if False:"),
)
def test_a_file_with_the_name_of_a_module_is_refused__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without the first check, a file called `wave.py` is accepted; without
    the second, `torch.py` fails for another reason.
    """
    edited = snippet.edit(old, new)
    fails(test_a_file_with_the_name_of_a_module_is_refused, edited, tmp_path)


def test_a_file_of_yours_is_read(snippet, tmp_path, extra=""):
    path = written(tmp_path, FILE + extra, "my_data.py")
    with no_line():
        run = given(snippet, DATASET=path).after("time")
        batches = list(run.loader_of(run.builders["my_data"], 0))
        with patch.dict(run.measure.__globals__, {"counts": [0]}):
            speeds = run.measure()

    assert Path(sys.modules["my_data"].__file__) == Path(path).resolve()
    assert list(speeds) == ["my_data"]
    assert len(speeds["my_data"][0]) == 4
    if extra:
        assert {str(each[0]) for each in batches} == {"a batch of mine"}
        batches = [torch.tensor(samples) for _, samples in batches]
    samples = torch.cat(batches).tolist()
    assert sorted(samples) == [20.0 + index for index in range(12)]


def test_a_file_of_yours_is_read__also_with_collate_fn(snippet, tmp_path):
    test_a_file_of_yours_is_read(snippet, tmp_path, COLLATE)


@edits(
    ("builders = {path.stem: module.build}", "0"),
    ('getattr(module, "collate_fn", None)', "None"),
    ("        collate_fn=collate_fn,\n", ""),
)
def test_a_file_of_yours_is_read__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without the first line, your dataset is not timed; the other edits
    ignore your `collate_fn`.
    """
    edited = snippet.edit(old, new)
    fails(test_a_file_of_yours_is_read, edited, tmp_path, COLLATE)


def test_a_file_of_yours_is_read__also_by_spawned_workers(snippet, tmp_path):
    path = written(tmp_path, FILE, "my_data.py")
    script = tmp_path / "loader_workers.py"
    cells = [each for each in snippet.cells().values() if not each.is_display]
    text = "\n".join(each.source for each in cells)
    # One worker alone, because each imports torch for seconds.
    text = text.replace('"fork" if', '"spawn" if')
    text = text.replace("counts + counts[::-1]", "[1, 0]")
    script.write_text(text)
    arguments = [str(script), "--dataset", path, "--workers", "1"]
    with ForkedPython([sys.executable, *arguments], cwd=tmp_path) as done:
        said, _ = done.communicate(60)

    assert said.startswith("my_data samples: ")
    assert done.returncode == 0


STREAM = """
from torch.utils.data import IterableDataset

class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))

    def __len__(self):
        return 3

build = Stream
"""
UNTIMED = BROKEN | {
    "my_iterator.py": "def build(): return iter([1])",
    "my_stream.py": STREAM,
    "my_empty.py": FILE.replace("12", "0"),
    "my_sample.py": FILE.replace("20.0 + index", "missing"),
    "my_late.py": FILE.replace("12", "99").replace("20.0", "1 / (index - 9)"),
}


def test_what_cannot_be_timed_is_named(snippet, tmp_path):
    def start(path):
        given(snippet, DATASET=path, WORKERS=[1]).after("conclude")

    check_named(start, tmp_path, UNTIMED)


@edits(
    ('(f"{path}: {type', '(f"{type'),
    ('.rpartition("\\n")[2]', ""),
    ("sys.tracebacklimit = 0", "sys.tracebacklimit = 9"),
    ("        if not len(module.build()):", "        if False:"),
    (
        "with one_line(DATASET):\n        speeds",
        "if 1:\n        speeds",
    ),
)
def test_what_cannot_be_timed_is_named__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without `{path}`, the line does not name the file; the other edits show
    more lines, or accept an empty dataset.
    """
    fails(test_what_cannot_be_timed_is_named, snippet.edit(old, new), tmp_path)


# -- The loader --------------------------------------------------------------


class Operators(TorchFunctionMode):
    """Notes how many numbers each operator gives."""

    def __init__(self):
        super().__init__()
        self.numbers = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **kwargs or {})
        first = found[0] if isinstance(found, tuple) else found
        self.numbers[func.__name__] = first.numel()
        return found


def done_for(run, kind):
    """Return what is done for a sample: the operators, and the waiting."""
    waits = []
    with patch.object(run.time, "sleep", waits.append), Operators() as done:
        dataset = run.builders[kind]()
        assert dataset[5] == (5, os.getpid())
    return done.numbers, waits


def test_samples_of_three_kinds(snippet):
    run = ready(snippet)
    assert [*run.builders] == ["free", "computing", "waiting"]
    assert done_for(run, "free") == ({}, [])
    done, waits = done_for(run, "computing")
    assert done.get("sort") == 5_000
    assert waits == []
    assert done_for(run, "waiting") == ({}, [0.001])


@edits(
    ("        self.work()\n", ""),
    ("Samples(int)", "Samples(compute)"),
    ("Samples(compute)", "Samples(int)"),
    ("Samples(partial(time.sleep, 0.001))", "Samples(int)"),
    ("torch.rand(5_000)", "torch.rand(3)"),
    (".sort()", ""),
)
def test_samples_of_three_kinds__but_not_with(snippet, old, new, fails):
    """Without `self.work()`, no sample does any work; the other edits give a
    kind the wrong work, or too little.
    """
    fails(test_samples_of_three_kinds, snippet.edit(old, new))


def asked(run, batches, size, workers=0):
    """Return which of 40 samples each of two epochs has, batch by batch."""
    own = {"BATCHES": batches, "BATCH_SIZE": size}
    with patch.dict(run.loader_of.__globals__, own):
        loader = run.loader_of(lambda: list(range(40)), workers)
        return [[batch.tolist() for batch in loader] for _ in range(2)]


@pytest.mark.filterwarnings("ignore:This DataLoader will:UserWarning")
def test_an_epoch_has_a_limit(snippet):
    run = ready(snippet)

    assert run.BATCHES == 50
    for batches, size in [(1, 1), (3, 5), (7, 5), (8, 5), (9, 5)]:
        first, second = asked(run, batches, size)
        assert first == second == asked(run, batches, size)[0]
        assert [len(each) for each in first] == [size] * min(batches, 8)
        samples = [*chain(*first)]
        assert len({*samples} & {*range(40)}) == len(samples)
    assert [len(each) for each in asked(run, 9, 9)[0]] == [9, 9, 9, 9, 4]
    assert max(chain(*asked(run, 3, 5)[0])) > 15
    build = run.builders["free"]
    for workers in (1, 2):
        chosen = run.loader_of(build, workers).dataset.indices
        assert chosen == run.loader_of(build, 0).dataset.indices


@edits(
    ("chosen[: BATCHES * BATCH_SIZE]", "chosen"),
    ("chosen[: BATCHES *", "chosen[: 1 *"),
    ("torch.Generator().manual_seed(0)", "None"),
    ("torch.randperm(len(dataset), generator=order)", "torch.arange(40)"),
    (
        "torch.randperm(len(dataset), generator=order)",
        "torch.randint(len(dataset), (99,), generator=order)",
    ),
    ("BATCHES = 50", "BATCHES = 5"),
    ("        batch_size=BATCH_SIZE,\n", ""),
)
def test_an_epoch_has_a_limit__but_not_with(snippet, old, new, fails):
    """Without the slice, an epoch reads the whole dataset; the other edits
    change the limit, the batch size or the choice.
    """
    fails(test_an_epoch_has_a_limit, snippet.edit(old, new))


def test_the_number_of_workers_changes_no_sample(snippet, **settings):
    loaded = checked(given(snippet, **settings)).loaded

    assert next(iter(loaded)) == 0
    assert sorted(loaded[0].tolist()) == list(range(64))
    for indices in loaded.values():
        assert torch.equal(indices, loaded[0])


@pytest.mark.parametrize("size", [9, 64])
def test_the_number_of_workers_changes_no_sample__also_in_batches_of(
    snippet, size
):
    test_the_number_of_workers_changes_no_sample(snippet, BATCH_SIZE=size)


def test_the_number_of_workers_changes_no_sample__also_with_three(snippet):
    test_the_number_of_workers_changes_no_sample(snippet, WORKERS=[3])


@edits(
    ("        batch_size=BATCH_SIZE,\n", "        8, shuffle=True,\n"),
    (
        "        batch_size=BATCH_SIZE,\n",
        "        9, drop_last=True,\n",
    ),
)
def test_the_number_of_workers_changes_no_sample__but_not_with(
    snippet, old, new, fails
):
    """With `shuffle=True`, each loader has an order of its own; with
    `drop_last=True`, a sample is missing.
    """
    fails(test_the_number_of_workers_changes_no_sample, snippet.edit(old, new))


def test_as_many_processes_as_workers(snippet, **settings):
    origins = checked(given(snippet, **settings)).origins

    assert list(origins) == [0, 1, 2, 4]
    assert set(origins[0]) == {os.getpid()}
    for workers in (1, 2, 4):
        assert len(set(origins[workers])) == workers
        assert os.getpid() not in origins[workers]


def test_as_many_processes_as_workers__also_in_batches_of_9(snippet):
    test_as_many_processes_as_workers(snippet, BATCH_SIZE=9)


def test_as_many_processes_as_workers__ends_with_fewer_batches(snippet, fails):
    """With fewer batches than workers: some of the workers make none."""
    all_in_one = given(snippet, BATCH_SIZE=64)
    fails(test_as_many_processes_as_workers, all_in_one)


@edits(
    ("num_workers=workers,", "num_workers=min(workers, 3),"),
    ("pids[0].item() for", "os.getppid() for"),
)
def test_as_many_processes_as_workers__but_not_with(snippet, old, new, fails):
    """With `min(workers, 3)`, four workers are only three; the second edit
    notes the wrong process.
    """
    fails(test_as_many_processes_as_workers, snippet.edit(old, new))


# -- The time ----------------------------------------------------------------


def makers(run, workers):
    """Return which processes made each of two epochs."""
    loader = run.loader_of(run.builders["free"], workers)
    return [{*chain(*(pids.tolist() for _, pids in loader))} for _ in range(2)]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_epoch_is_not_counted__also_by(snippet, workers):
    """Only the first one starts workers, in the way of its system."""
    run = checked(snippet)
    first, second = makers(run, workers)
    assert first == second
    assert len(first) == workers
    loader = run.loader_of(run.builders["free"], workers)
    assert loader.multiprocessing_context.get_start_method() == run.start


def test_the_first_epoch_is_not_counted(snippet, rounds=2):
    run = ready(snippet)
    assert run.ROUNDS == 2
    events = []

    def clock():
        # A loader's first epoch takes a second, the next two, and so on.
        return sum(1 + place % (1 + rounds) for place in range(len(events)))

    class Loader:
        def __iter__(self):
            events.append(self)
            return iter([])

    own = {
        "ROUNDS": rounds,
        "counts": [0, 3],
        "builders": {"mine": None},
        "loader_of": lambda build, workers: Loader(),
        "time": SimpleNamespace(perf_counter=clock),
    }
    with patch.dict(run.measure.__globals__, own):
        found = run.measure()

    expected = 2 * [1 / (2 + each) for each in range(rounds)]
    assert found == {"mine": {0: expected, 3: expected}}
    assert len(events) == 4 * (1 + rounds)
    assert len(set(events)) == 4


def test_the_first_epoch_is_not_counted__also_with_five_rounds(snippet):
    test_the_first_epoch_is_not_counted(snippet, rounds=5)


@edits(
    ("[speed] if each else []", "[speed]"),
    ("range(1 + ROUNDS)", "range(ROUNDS)"),
    ("ROUNDS = 2", "ROUNDS = 3"),
)
def test_the_first_epoch_is_not_counted__but_not_with(
    snippet, old, new, fails
):
    """`[speed]` alone counts the first epoch, too; the other edits time too
    few epochs, or too many.
    """
    fails(test_the_first_epoch_is_not_counted, snippet.edit(old, new))


# -- The conclusion ----------------------------------------------------------

SLOWER, SLOW, FAST, FASTER = [5.0, 5.2], [10.0, 10.5], [20.0, 21.0], [40, 41]
NOISY = [4.0, 44.0]
NONE = "take 0: workers do not help here"


def said(snippet, *speeds):
    """Return what is said of speeds with 0, 1, 2, 4 workers and so on."""
    numbers = [0, *(2**each for each in range(len(speeds) - 1))]
    found = dict(zip(numbers, speeds, strict=True))
    # In any unit, and in any order of the rounds.
    turned = {key: [x / 64 for x in found[key][::-1]] for key in numbers}
    assert concluding(snippet)(turned) == concluding(snippet)(found)
    return concluding(snippet)(found)


def test_the_fewest_that_no_other_beats(snippet):
    for few, speeds in [
        (1, [SLOW, FAST, SLOW]),
        (1, [[10.0], [10.6]]),
        (2, [SLOW, FAST, FASTER, FASTER]),
        (4, [SLOW, SLOWER, FAST, FASTER, FASTER, FAST]),
        (2, [SLOW, NOISY, FAST]),
        (1, [SLOW, FAST, NOISY]),
        (1, [SLOW, FAST, [19.0, 60.0]]),
        (2, [SLOW, [20.0, 21.0], [22.2, 22.3], [23.0, 23.3]]),
    ]:
        assert said(snippet, *speeds) == f"take {few}, which helps"
    assert said(snippet, [10.0], [10.4]) == NONE
    assert said(snippet, [10.0, 12.0], [11.0, 12.2]) == NONE


@edits(
    ("base) and not better", "base)"),
    ("if beats(speeds[few], base) and not", "if not"),
    ("min(speeds) > 1.05 *", "max(speeds) > 1.05 *"),
    ("1.05 * max(others)", "1.05 * min(others)"),
    ("1.05 * max(others)", "max(others)"),
    ("1.05 * max(others)", "1.08 * max(others)"),
    ("counts", "for few in speeds:", "for few in reversed(speeds):"),
)
def test_the_fewest_that_no_other_beats__but_not_with(
    snippet, old, new, fails
):
    """Without `and not better`, it takes the first number that beats 0; the
    other edits move a limit, or change the order.
    """
    fails(test_the_fewest_that_no_other_beats, snippet.edit(old, new))


def test_noise_is_said(snippet):
    noisy = "too noisy to say: try more rounds, close other programs"

    for speeds in [
        [SLOW, NOISY],
        [SLOW, SLOWER, NOISY, SLOW],
        [NOISY, SLOW, FAST, FASTER],
        [[10.0, 12.5], [11.0, 12.0]],
        [[11.0, 12.0], [10.0, 12.5]],
    ]:
        assert said(snippet, *speeds) == noisy
    for speeds in [
        [SLOW, SLOWER],
        [SLOW, SLOWER, [1.0, 3.0]],
        [SLOW, SLOW, SLOWER],
        [NOISY, [1.0, 1.5]],
        [[10.0, 12.4], [11.0, 12.0]],
        [[1.0, 1.0], [1.0, 1.0]],
    ]:
        assert said(snippet, *speeds) == NONE


@edits(
    ("1.25 * min(both)", "1.2 * min(both)"),
    ("1.25 * min(both)", "1.3 * min(both)"),
    (" and not beats(base, found)", ""),
    ("list(speeds.values())[1:]", "list(speeds.values())"),
    ("[*found, *base]", "found"),
    ("[*found, *base]", "base"),
)
def test_noise_is_said__but_not_with(snippet, old, new, fails):
    """With 1.2, rounds that differ by less than 25 percent count as noisy; the
    other edits move the limit, or compare other rounds.
    """
    fails(test_noise_is_said, snippet.edit(old, new))
