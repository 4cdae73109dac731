"""The claims of docs/data/streams.md."""

import traceback
from collections import Counter
from itertools import chain
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from extensions.evidence.counterexamples import edits
from extensions.programs import snippet as programs
from tests.helpers.forks import import_once

import_once("numpy.random")  # each worker seeds it

# From Python 3.12 on; a thread may be left from the tests of another module.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:This process .* is multi-threaded:DeprecationWarning",
        "ignore:This DataLoader will create:UserWarning",  # on few cores
    ),
    pytest.mark.usefixtures("uncollected", "seeded"),
]

FORK = {"multiprocessing_context": "fork"}
BASE = ("do-this", "share", "shuffled", "files", "loader")
ALL = [float(each) for each in range(24)]


def after(snippet, *names):
    """Run some cells of a snippet, and those that all need, once."""
    needed = {*BASE, *names}
    cells = [name for name in snippet.cells() if name in needed]
    return programs.after(snippet, *cells)


def load(dataset, workers=0, **options):
    """Return what a loader gives in one epoch."""
    start = {"num_workers": workers, **FORK} if workers else {}
    return list(DataLoader(dataset, **start, **options))


def flat(batches):
    return [sample for batch in batches for sample in batch.tolist()]


# Do this

SHARE = "    return files[info.id :: info.num_workers]"
REST = "        for place in torch.randperm(len(held)):\n"
SWAP = """                yield held[place]
                held[place] = sample
"""


def test_each_line_comes_once(snippet, workers=2):
    run = after(snippet, "read")
    loader, epochs = run.loader, []
    assert {type(batch) for batch in run.batches} == {list}
    assert sorted(chain(*run.batches)) == ALL
    if workers != 2:
        start = FORK if workers else {}
        loader = DataLoader(loader.dataset, 4, num_workers=workers, **start)

    assert loader.num_workers == workers
    for _ in range(2):
        batches = list(loader)
        assert {len(each) for each in batches} == {4}
        epochs.append(flat(batches))
    assert [sorted(each) for each in epochs] == [ALL] * 2
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("workers", [0, 1])
def test_each_line_comes_once__also_for(snippet, workers):
    test_each_line_comes_once(snippet, workers)


@pytest.mark.parametrize("workers", [0, 2])
def test_each_line_comes_once__also_of_long_and_empty_files(
    snippet, tmp_path, workers
):
    run = after(snippet, "read")
    paths, expected = [], []
    for number, count in enumerate((40, 0, 1, 70, 7, 9)):
        lines = [float(1000 * number + line) for line in range(count)]
        paths.append(tmp_path / f"{number}.log")
        paths[-1].write_text("".join(f"{line}\n" for line in lines))
        expected += lines
    stream = run.Shuffled(run.Logs(paths), size=4)
    epochs = [flat(load(stream, workers, batch_size=4)) for _ in range(2)]

    assert [sorted(each) for each in epochs] == [expected] * 2
    assert epochs[0] != epochs[1]


@edits(
    ("in each worker", SHARE, "    return files"),
    ("of each file", "Logs(paths), size=4", "Logs(paths[1:]), size=4"),
    ("in batches of three", "batch_size=4, **fork", "batch_size=3, **fork"),
    ("in the order of the files", "paths), size=4", "paths), size=1"),
)
def test_each_line_comes_once__but_not(snippet, old, new, fails):
    """Without `share`, each worker gives every line; the other edits leave out
    a file, or batch or order the lines otherwise.
    """
    fails(test_each_line_comes_once, snippet.edit(old, new))


def test_each_line_comes_once__but_not_from_no_file(snippet, fails):
    """Without any file in the main process, lines are missing."""
    edited = snippet.edit("\n        return files\n", "\n        return []\n")
    fails(test_each_line_comes_once, edited, 0)


def test_each_line_comes_once__but_not_in_the_next_epoch(snippet, fails):
    """`iter(stream)` is made only once, so the next epoch finds it used up."""
    edited = snippet.edit(
        "self.stream, self.size = stream",
        "self.stream, self.size = iter(stream)",
    )
    fails(test_each_line_comes_once, edited, 0)


# How it works


class Numbers(IterableDataset):
    """A stream that asks nothing."""

    def __iter__(self):
        return iter(range(5))


def test_a_stream_repeats_in_every_worker(snippet, workers=2, numbers=False):
    run = after(snippet, "who-reads-what", "repeated", "both-ways")
    if numbers:
        found = Counter(flat(load(Numbers(), workers)))
        assert found == dict.fromkeys(range(5), workers)
    else:
        for worker in range(workers):
            read = [
                each for each, by in run.readers["Unshared"] if by == worker
            ]
            assert read == ALL
        assert len(run.readers["Unshared"]) == workers * len(ALL)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_stream_repeats_in_every_worker__also_for(snippet, workers):
    test_a_stream_repeats_in_every_worker(snippet, workers, numbers=True)


def test_a_stream_repeats_in_every_worker__but_not_shared(snippet, fails):
    """With `share`, each worker reads files of its own."""
    edited = snippet.edit(
        "for path in self.paths:  # all of them, in each worker",
        "for path in share(self.paths):",
    )
    fails(test_a_stream_repeats_in_every_worker, edited)


def shares(run, files, workers):
    """Return what each worker of some would get of files."""
    found = []
    for worker in range(workers):
        info = SimpleNamespace(id=worker, num_workers=workers)
        asked = {"get_worker_info": lambda info=info: info}
        with patch.dict(run.share.__globals__, asked):
            found.append(run.share(files))
    return found


def test_a_shared_stream_comes_once(snippet):
    run = after(snippet)
    for files in (*range(9), 40):
        paths = [*range(files)]
        assert run.share(paths) == paths
        for workers in range(1, 6):
            found = shares(run, paths, workers)
            assert sorted(path for each in found for path in each) == paths

    run = after(snippet, "who-reads-what", "repeated", "both-ways")
    read = run.readers["Logs"]
    assert sorted(each for each, _ in read) == ALL
    assert {by for _, by in read} == {0, 1}
    for first in range(0, 24, 6):
        assert len({by for each, by in read if first <= each < first + 6}) == 1


def test_a_shared_stream_comes_once__also_for_three_workers(snippet):
    run = after(snippet)

    assert sorted(flat(load(run.Logs(run.paths), 3))) == ALL


def test_a_shared_stream_comes_once__also_by_lines(snippet):
    by_line = snippet.edit(SHARE, "    return files").edit(
        "yield from map(float, lines)\n\n\n# %% share",
        "import itertools\n\n"
        "                info = get_worker_info()\n"
        "                yield from map(float, itertools.islice("
        "lines, info.id, None, info.num_workers))\n\n\n# %% share",
    )
    run = after(by_line)
    found = load(run.Logs(run.paths), 2)

    assert sorted(flat(found)) == ALL
    assert flat(found)[:4] == [0, 1, 2, 3]


@edits(
    ("in steps of 2", ":: info.num_workers]", "::2]"),
    ("without the first", "files[info.id ::", "files[info.id + 1 ::"),
)
def test_a_shared_stream_comes_once__but_not(snippet, old, new, fails):
    """Steps of 2 fit two workers only, and `info.id + 1` leaves out the
    first.
    """
    fails(test_a_shared_stream_comes_once, snippet.edit(old, new))


def test_a_shared_stream_comes_once__but_not_always_from_file_0(
    snippet, fails
):
    """Without `info.id`, every worker begins at the first file."""
    edited = snippet.edit(
        "files[info.id :: info.num_workers]", "files[:: info.num_workers]"
    )
    fails(test_a_shared_stream_comes_once, edited)


def test_a_worker_without_a_file_is_idle(snippet, files=1, workers=2):
    run = after(snippet, "who-reads-what")
    stream = run.Told(run.Logs(run.paths[:files]))
    found = Counter(by for _, by in load(stream, workers, batch_size=None))

    assert found == dict.fromkeys(range(files), 6)


def test_a_worker_without_a_file_is_idle__also_a_third_beside_two_files(
    snippet,
):
    test_a_worker_without_a_file_is_idle(snippet, 2, 3)


def test_a_worker_without_a_file_is_idle__but_not_unshared(snippet, fails):
    """Without sharing, both workers read the one file."""
    edited = snippet.edit(SHARE, "    return files")
    fails(test_a_worker_without_a_file_is_idle, edited)


# A shuffle buffer


def test_a_buffer_keeps_each_sample(snippet):
    run = after(snippet, "buffers")

    for output in run.outputs.values():
        assert sorted(output) == [*range(400)]
    for length in (0, 1, 2, 7, 1000):
        for size in (1, 2, 6, 7, 8, 30, 600):
            output = list(run.Shuffled(range(length), size))
            assert sorted(output) == [*range(length)]
    assert [*run.Shuffled([None, None], 1)] == [None] * 2


@edits(
    ("without the rest", REST, "        for place in ():\n"),
    ("with the rest twice", REST, f"{REST}            yield held[place]\n"),
    ("without its next", SWAP, SWAP.partition("\n")[0] + "\n"),
)
def test_a_buffer_keeps_each_sample__but_not(snippet, old, new, fails):
    """Leave out the loop at the end, or the swap, and samples are lost; yield
    twice there, and they repeat.
    """
    fails(test_a_buffer_keeps_each_sample, snippet.edit(old, new))


def test_a_buffer_swaps(snippet, size=4, seed=0):
    run = after(snippet)
    taken, places, count = [], Counter(), 100 * size + 200

    class Noted(IterableDataset):
        def __iter__(self):
            for sample in range(count):
                taken.append(sample)
                yield sample

    torch.manual_seed(seed)
    held, shuffled = [*range(size)], iter(run.Shuffled(Noted(), size))
    for following in range(size, count):
        given = next(shuffled)
        assert taken == [*range(following + 1)]
        assert given in held
        place = held.index(given)
        held[place] = following
        places[place] += 1
    each = (count - size) / size
    assert {*places} == {*range(size)}
    assert each / 2 < min(places.values())
    assert max(places.values()) < 1.6 * each
    assert sorted(shuffled) == sorted(held)
    with patch.object(torch, "randint", return_value=torch.tensor(0)):
        first, *others = [*run.Shuffled(range(count), size)][: count - size]
    assert (first, others) == (0, [*range(size, count - 1)])  # at one place


@pytest.mark.parametrize(
    ("size", "seed"), [(1, 0), (4, 1), (9, 2), (30, 3)], ids=str
)
def test_a_buffer_swaps__also_for(snippet, size, seed):
    test_a_buffer_swaps(snippet, size, seed)


@edits(
    ("not by chance", "torch.randint(self.size, ())", "0"),
    ("without the next one", SWAP, SWAP.partition("\n")[0] + "\n"),
    (
        "with more samples",
        "len(held) == self.size:",
        "len(held) == 2 * self.size:",
    ),
)
def test_a_buffer_swaps__but_not(snippet, old, new, fails):
    """`place = 0` is not random; without the swap, the next sample is lost;
    and the third edit holds twice as many.
    """
    fails(test_a_buffer_swaps, snippet.edit(old, new))


def test_a_buffer_moves_little_ahead(snippet):
    run = after(snippet, "buffers")

    for size, output in run.outputs.items():
        ahead = [sample - place for place, sample in enumerate(output)]
        assert max(ahead) <= size - 1
    for _ in range(5):
        output = [*run.Shuffled(range(500), 100)]
        ahead = [sample - place for place, sample in enumerate(output)]
        assert max(ahead) <= 99
    for size in (2, 4):
        outputs = [list(run.Shuffled(range(9), size)) for _ in range(900)]
        ahead = [each.index(8) for each in outputs]
        assert min(ahead) == 8 - (size - 1)
        assert {each[-1] for each in outputs} == {*range(9)}


def test_a_buffer_moves_little_ahead__but_not_only_ahead(snippet, fails):
    """With `place = 0`, each new sample leaves as soon as the next one comes,
    so few can come at the end.
    """
    edited = snippet.edit("torch.randint(self.size, ())", "0")
    fails(test_a_buffer_moves_little_ahead, edited)


def test_a_buffer_moves_little_ahead__but_not_if_filled_twice(snippet, fails):
    """With twice as many held, a sample can come further ahead."""
    edited = snippet.edit(
        "len(held) == self.size:", "len(held) == 2 * self.size:"
    )
    fails(test_a_buffer_moves_little_ahead, edited)


def test_a_full_buffer_shuffles_all(snippet, size=4):
    run = after(snippet, "buffers")
    assert run.outputs[1] == [*range(400)]
    for length in range(4):
        assert list(run.Shuffled(range(length), 1)) == [*range(length)]

    torch.manual_seed(0)
    orders = [run.outputs[400], [*run.Shuffled(range(400), 100 * size)]]
    assert orders[0] != orders[1]
    for order in orders:
        both = torch.tensor([[*range(400)], order], dtype=torch.float64)
        assert abs(both.corrcoef()[0, 1]) < 0.2
        assert sorted(order) == [*range(400)]
    stream = run.Shuffled(range(4), size)
    found = Counter(tuple(map(int, stream)) for _ in range(4800))
    assert len(found) == 24
    assert sum((each - 200) ** 2 / 200 for each in found.values()) < 60


def test_a_full_buffer_shuffles_all__also_if_larger(snippet):
    test_a_full_buffer_shuffles_all(snippet, 9)


@edits(
    ("without chance", "torch.randperm(len(held))", "range(len(held))"),
    ("of size 2", "self.size = stream, size", "self.size = stream, size + 1"),
)
def test_a_full_buffer_shuffles_all__but_not(snippet, old, new, fails):
    """`range` keeps the order of what is held, and with `size + 1`, a buffer
    of 1 holds two.
    """
    fails(test_a_full_buffer_shuffles_all, snippet.edit(old, new))


def test_a_sorted_stream_begins_with_one_class(snippet):
    run = after(snippet)

    for n, size in ((200, 50), (30, 1), (30, 30), (300, 100), (900, 300)):
        classes = [0] * n + [1] * 200
        output = list(run.Shuffled(classes, size))
        assert not any(output[: n - size + 1])
        assert sum(output) == 200


def test_a_sorted_stream_begins_with_one_class__but_not_if_full(
    snippet, fails
):
    """Filled with all 400 samples, the buffer mixes both classes from the
    start.
    """
    edited = snippet.edit("len(held) == self.size:", "len(held) == 400:")
    fails(test_a_sorted_stream_begins_with_one_class, edited)


# What goes wrong


def map_style(snippet):
    """Make the logs a dataset with an index."""
    edited = snippet.edit(
        "DataLoader, IterableDataset, get", "DataLoader, Dataset, get"
    )
    return edited.edit(
        "class Logs(IterableDataset):\n",
        "IterableDataset = Dataset\n\n\n"
        "class Logs(Dataset):\n    def __len__(self):\n        return 4\n\n",
    )


STREAMS = {
    "Logs": lambda run: run.Logs(run.paths),
    "Shuffled": lambda run: run.Shuffled(run.Logs(run.paths), 4),
    "Numbers": lambda run: Numbers(),
}


def test_a_loader_shuffles_no_stream(snippet, stream="Logs", workers=0):
    run = after(snippet, "refused")
    if workers == 0:
        assert [type(each) for each in run.errors][:1] == [ValueError]
    with pytest.raises(ValueError, match="expected unspecified shuffle"):
        DataLoader(STREAMS[stream](run), shuffle=True, num_workers=workers)


@pytest.mark.parametrize("stream", STREAMS)
def test_a_loader_shuffles_no_stream__also_for(snippet, stream):
    test_a_loader_shuffles_no_stream(snippet, stream, workers=2)


def test_a_loader_shuffles_no_stream__also_with_a_length(snippet):
    run = after(snippet, "with-a-length")
    with pytest.raises(ValueError, match="expected unspecified shuffle"):
        DataLoader(run.Counted(run.paths), shuffle=True)


def test_a_loader_shuffles_no_stream__but_an_index(snippet, fails):
    """A `Dataset` with a length is read by index, and can be shuffled."""
    fails(test_a_loader_shuffles_no_stream, map_style(snippet), "Logs", 2)


def test_a_stream_has_no_length(snippet, stream="Logs", **options):
    run = after(snippet, "refused")
    assert type(run.errors[-1]) is TypeError
    frames = traceback.extract_tb(run.errors[-1].__traceback__)
    assert frames[-1].filename == torch.utils.data.dataloader.__file__
    with pytest.raises(TypeError, match="has no len"):
        len(DataLoader(STREAMS[stream](run), **options))


@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_has_no_length__also_for(snippet, stream):
    for batch_size in (None, 4):
        test_a_stream_has_no_length(
            snippet, stream, num_workers=2, batch_size=batch_size
        )


def test_a_stream_has_no_length__but_may_be_given_one(snippet, fails):
    """With a `__len__` of the dataset, the loader has a length, too."""
    edited = snippet.edit(
        "class Logs(IterableDataset):\n",
        "class Logs(IterableDataset):\n"
        "    def __len__(self):\n        return 24\n\n",
    )
    fails(test_a_stream_has_no_length, edited)


def test_a_length_counts_one_process(snippet):
    run = after(snippet, "with-a-length", "more-batches")

    assert run.length == len(load(run.counted.dataset, batch_size=8)) == 3
    assert run.counted.num_workers == 2
    assert run.given == [8, 8, 4, 4]


@edits(
    ("a length for all workers", "return 24\n", "return 32\n"),
    ("batches of 6", "batch_size=8, **fork", "batch_size=6, **fork"),
    ("one worker", "paths), batch_size=8, **fork", "paths), batch_size=8"),
)
def test_a_length_counts_one_process__but_not(snippet, old, new, fails):
    """A length of 32, batches of 6, or a single process: then as many batches
    come as `len` says.
    """
    fails(test_a_length_counts_one_process, snippet.edit(old, new))


LOADER = "DataLoader(Logs(paths), batch_size, drop_last=drop_last, **start)"
JOINED = LOADER.replace(
    "Logs(paths)", "[*DataLoader(Logs(paths), None, **start)]"
)
JOINED = JOINED.replace("drop_last, **start", "drop_last")


def test_each_worker_drops_its_last_batch(snippet):
    run = after(snippet, "who-reads-what", "last-batches", "dropped")

    assert run.dropped == {(8, 0): 0, (8, 2): 8, (16, 0): 8, (16, 2): 24}
    for size in (5, 13):
        kept = run.sizes(2, size, True)
        assert kept == [size] * (12 // size * 2)
        assert 24 - sum(kept) == 2 * (12 % size) <= 2 * (size - 1)
    assert 24 - sum(kept) == 2 * (13 - 1)
    told = run.Told(run.Logs(run.paths))
    for lines, ids in load(told, 2, batch_size=5):
        assert len({*ids.tolist()}) == 1
        assert len(lines) in {5, 2}


def test_each_worker_drops_its_last_batch__also_of_three(snippet):
    run = after(snippet)
    found = load(run.Logs(run.paths), 3, batch_size=5, drop_last=True)

    assert [len(each) for each in found] == [5] * 4  # of 12, 6 and 6 lines


@edits(
    ("of all together", LOADER, JOINED),
    ("of the main process", "start = fork if workers else {}", "start = {}"),
)
def test_each_worker_drops_its_last_batch__but_not(snippet, old, new, fails):
    """Batched in the main process, only one last batch can be dropped."""
    fails(test_each_worker_drops_its_last_batch, snippet.edit(old, new))


def test_nothing_may_be_left(snippet):
    run = after(snippet, "who-reads-what", "last-batches", "dropped")

    assert sum(run.sizes(2, 16, False)) == run.dropped[16, 2] == 24
    assert run.sizes(2, 13, True) == []
    assert len(run.sizes(2, 12, True)) == 2


@edits(
    ("of all together", LOADER, JOINED),
    ("without workers", "start = fork if workers else {}", "start = {}"),
)
def test_nothing_may_be_left__but_not(snippet, old, new, fails):
    """Put together in one process, 24 lines fill a batch of 16."""
    fails(test_nothing_may_be_left, snippet.edit(old, new))


def test_a_process_takes_its_files_first(snippet):
    run = after(snippet, "ranks")
    assert len(run.by_process) == 3
    assert sorted(flat(chain(*run.by_process))) == ALL
    assert [len(each) for each in run.by_process[1]] == [4, 2]
    assert sorted(run.Logs(run.paths)) == ALL  # without: in each process
    assert sorted(flat(run.read_by(0, 2) + run.read_by(1, 2))) == ALL
    for files in (0, 1, 4, 9):
        paths = [*range(files)]
        for count in range(1, 5):
            for workers in range(1, 4):
                found = [
                    shares(run, paths[rank::count], workers)
                    for rank in range(count)
                ]
                assert sorted(chain(*chain(*found))) == paths
                found = shares(run, paths, workers) * count
                expected = dict.fromkeys(paths, count)
                assert Counter(chain(*found)) == expected


@edits(
    ("without it", "Logs(paths[rank::count])", "Logs(paths)"),
    ("in steps of 2", "paths[rank::count]", "paths[rank::2]"),
)
def test_a_process_takes_its_files_first__but_not(snippet, old, new, fails):
    """Then lines come twice, or are lost."""
    fails(test_a_process_takes_its_files_first, snippet.edit(old, new))


def test_processes_get_unequal_numbers_of_batches(snippet, count=3):
    run = after(snippet, "ranks", "as-many")
    sizes = [len(each) for each in run.by_process]
    if count != 3:
        sizes = [len(run.read_by(rank, count)) for rank in range(count)]
    most, *others = sorted(sizes, reverse=True)
    assert len(others) == count - 1
    assert most > others[0] == others[-1]
    assert run.as_many == [run.steps] * 3
    assert run.steps == min(map(len, run.by_process))


def test_processes_get_unequal_numbers_of_batches__ends_for_two(
    snippet, fails
):
    """Four files of the same length give two processes as many batches."""
    fails(test_processes_get_unequal_numbers_of_batches, snippet, 2)


def test_processes_get_unequal_numbers_of_batches__but_not_of_all_files(
    snippet, fails
):
    """If each process reads all files, all get as many batches."""
    edited = snippet.edit("paths[rank::count]", "paths")
    fails(test_processes_get_unequal_numbers_of_batches, edited)


def test_an_iterator_is_used_up(snippet):
    run = after(snippet, "once")
    assert run.twice == [[[0, 1, 2], [3, 4, 5]], []]
    dataset = run.loader.dataset
    assert iter(dataset) is iter(dataset)


def test_an_iterator_is_used_up__also_a_generator(snippet):
    edited = snippet.edit("iter(samples)", "(each for each in samples)")
    test_an_iterator_is_used_up(edited)


def test_an_iterator_is_used_up__but_not_a_new_one(snippet, fails):
    """`iter(range(6))` makes a new iterator in each epoch."""
    edited = snippet.edit("return self.samples", "return iter(range(6))")
    fails(test_an_iterator_is_used_up, edited)


def test_orders_of_their_own_lose_files(snippet):
    run = after(snippet, "own-order", "same-order", "orders")
    for _ in range(3):
        found = Counter(load(run.own, 2, batch_size=None))
        files = [
            {found[each] for each in ALL[k : k + 6]} for k in (0, 6, 12, 18)
        ]
        assert found.total() == 24
        if files.count({2}):
            break
    assert files.count({0}) == files.count({2}) > 0
    assert run.lost(run.Logs(run.paths[:3])) == 6
    assert any(run.lost(run.own) for _ in range(5))


def test_orders_of_their_own_lose_files__but_not_one_order(snippet, fails):
    """With one order for all workers, each file goes to one of them."""
    edited = snippet.edit("torch.randperm(len(self.paths))", "[2, 0, 3, 1]")
    fails(test_orders_of_their_own_lose_files, edited)


def test_a_common_seed_loses_nothing(snippet, workers=2, persistent=True):
    run = after(snippet, "own-order", "same-order", "orders")
    start = {"num_workers": workers, **FORK} if workers else {}
    loader = DataLoader(run.same, None, **start, persistent_workers=persistent)

    assert len({*map(tuple, run.firsts)}) == 3
    found = set()
    for number in range(100):
        run.same.epoch.fill_(number)
        found.add(tuple(run.same)[::6])
    assert len(found) == 24  # orders of four files
    for epoch, firsts in enumerate(run.firsts[:2], 1):
        run.same.epoch.fill_(epoch)
        found = list(loader)
        assert sorted(found) == ALL
        alone = [firsts[k :: workers or 1] for k in range(workers or 1)]
        # Workers take turns, and each reads its files one after the other.
        assert found[:: 6 * max(workers, 1)] == alone[0]
        if workers == 2:
            assert found[1::12] == alone[1]


@pytest.mark.parametrize(
    ("workers", "persistent"), [(0, False), (1, True), (2, False)]
)
def test_a_common_seed_loses_nothing__also_for(snippet, workers, persistent):
    test_a_common_seed_loses_nothing(snippet, workers, persistent)


@edits(
    ("by a seed of each worker", ", generator=seed)\n", ")\n"),
    ("in one order", "self.epoch.item()", "0"),
)
def test_a_common_seed_loses_nothing__but_not(snippet, old, new, fails):
    """Without the seed, each worker draws its own order; with a seed of 0, the
    order is always the same.
    """
    fails(test_a_common_seed_loses_nothing, snippet.edit(old, new))


def test_a_common_seed_loses_nothing__but_not_unseen(snippet, fails):
    """Outside shared memory, workers that stay do not see the new number."""
    edited = snippet.edit("torch.tensor(0).share_memory_()", "torch.tensor(0)")
    fails(test_a_common_seed_loses_nothing, edited)
