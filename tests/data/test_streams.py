"""The claims of docs/data/streams.md."""

import time
import warnings
from collections import Counter
from itertools import chain
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

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
ALL = [float(each) for each in range(24)]


def after(snippet, *names):
    """Run some cells of a snippet, and those that all need, once."""
    needed = {"files", "do-this", "read", *names}
    cells = [name for name in snippet.cells() if name in needed]
    return programs.after(snippet, *cells)


def load(dataset, workers=0, **options):
    """Return what a loader gives in one epoch."""
    start = {"num_workers": workers, **FORK} if workers else {}
    return list(DataLoader(dataset, **start, **options))


def flat(batches):
    return [sample for batch in batches for sample in batch.tolist()]


def written(folder, counts):
    """Write files with as many lines; return the paths, and what they hold."""
    paths, expected = [], []
    for number, count in enumerate(counts):
        lines = [float(1000 * number + line) for line in range(count)]
        paths.append(folder / f"{number}.log")
        paths[-1].write_text("".join(f"{line}\n" for line in lines))
        expected += lines
    return paths, expected


# Do this

SHARE = "self.paths[first::step]"


def shares(run, paths, workers):
    """Return what each worker of some reads of the files."""
    found = []
    for worker in range(workers):
        info = SimpleNamespace(id=worker, num_workers=workers)
        asked = {"get_worker_info": lambda info=info: info}
        with patch.dict(run.Logs.__iter__.__globals__, asked):
            found.append([*run.Logs(paths)])
    return found


def test_a_shared_stream_comes_once(snippet, drop_last=False):
    run = after(snippet)
    assert sorted(chain(*run.batches)) == ALL
    assert {len(each) for each in run.batches} == {4}

    found = load(run.Logs(run.paths), 2, batch_size=5, drop_last=drop_last)
    assert sorted(flat(found)) == ALL
    for files in range(5):
        whole = sorted(run.Logs(run.paths[:files]))
        assert whole == ALL[: 6 * files]
        for workers in range(1, 6):
            found = shares(run, run.paths[:files], workers)
            assert sorted(chain(*found)) == whole


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_shared_stream_comes_once__also_of_long_and_empty_files(
    snippet, tmp_path, workers
):
    run = after(snippet)
    paths, expected = written(tmp_path, (40, 0, 1, 70, 7, 9))
    loader = run.Logs(paths)
    for _ in range(2):
        found = flat(load(loader, workers, batch_size=4))
        assert sorted(found) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_a_shared_stream_comes_once__also_by_lines(snippet, workers):
    run = after(snippet, "lines")
    found = load(run.Lines(run.paths[3]), workers, batch_size=None)
    assert sorted(found) == ALL[18:]


@edits(
    ("in steps of 2", SHARE, "self.paths[first::2]"),
    ("without the first", SHARE, "self.paths[first + 1::step]"),
    ("all from file 0", SHARE, "self.paths[::step]"),
    ("unshared", SHARE, "self.paths"),
)
def test_a_shared_stream_comes_once__but_not(snippet, old, new, fails):
    """Steps of 2 fit two workers only; the other edits leave out the first
    file, begin at it in each worker, or share nothing.
    """
    fails(test_a_shared_stream_comes_once, snippet.edit(old, new))


def test_a_shared_stream_comes_once__ends_with_drop_last(snippet, fails):
    """With `drop_last=True`: lines are lost, unless each batch is full."""
    fails(test_a_shared_stream_comes_once, snippet, True)


# How it works


class Slow(IterableDataset):
    """A stream whose worker 0 is slow."""

    def __iter__(self):
        worker = get_worker_info()
        for sample in range(worker.id, 8, worker.num_workers):
            if worker.id == 0:
                time.sleep(0.1)
            yield sample


def as_lists(batches):
    return [(batch.dtype, batch.tolist()) for batch in batches]


def test_nine_lines_are_a_loader(snippet, slow=False, in_order=True):
    run = after(snippet, "by-hand", "compare")

    assert run.ours == run.batches
    for size in (5, 16):
        for drop in ({}, {"drop_last": True}):
            options = {"batch_size": size, **drop}
            real = load(run.Logs(run.paths), 2, **options)
            assert as_lists(run.load(run.shares, **options)) == as_lists(real)
    if slow:
        real = load(Slow(), 2, batch_size=2, in_order=in_order)
        ours = run.load([range(0, 8, 2), range(1, 8, 2)], 2)
        assert as_lists(ours) == as_lists(real)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("size", [1, 5])
def test_nine_lines_are_a_loader__also_for(snippet, tmp_path, size, workers):
    run = after(snippet, "by-hand")
    paths, _ = written(tmp_path, (9, 0, 1, 30, 7))
    for drop in (False, True):
        streams = [run.Logs(paths[each::workers]) for each in range(workers)]
        ours = run.load(streams, size, drop)
        real = load(run.Logs(paths), workers, batch_size=size, drop_last=drop)
        assert as_lists(ours) == as_lists(real)


def test_nine_lines_are_a_loader__also_with_a_slow_worker(snippet):
    test_nine_lines_are_a_loader(snippet, slow=True)


@edits(
    ("1, if all read one", "[iter(stream) for", "[iter(streams[0]) for"),
    ("2, if not in turn", "in [*workers]:", "in workers[:1]:"),
    ("3, if it is smaller", "islice(worker, batch_size)", "islice(worker, 3)"),
    ("4, if short ones stay", "(batch_size if drop_last else 1)", "1"),
    ("4, if short ones go", "if drop_last else 1", "if streams else 1"),
)
def test_nine_lines_are_a_loader__but_not_without_line(
    snippet, old, new, fails
):
    """Each edit breaks one of the numbered lines, and different batches
    come.
    """
    fails(test_nine_lines_are_a_loader, snippet.edit(old, new))


def test_nine_lines_are_a_loader__ends_with_in_order_false(snippet, fails):
    """With `in_order=False`: no batch waits for that of a slower worker."""
    fails(test_nine_lines_are_a_loader, snippet, True, False)


class Numbers(IterableDataset):
    """A stream that asks nothing."""

    def __iter__(self):
        return iter(range(5))


def test_a_stream_repeats_in_every_worker(snippet, workers=2, init=None):
    run = after(snippet, "repeated")
    assert sorted(flat(run.repeated)) == sorted(ALL * 2)
    assert len(run.repeated) == 6
    found = load(run.Unshared(run.paths), workers, worker_init_fn=init)
    assert Counter(flat(found)) == dict.fromkeys(ALL, workers)
    found = Counter(flat(load(Numbers(), workers)))
    assert found == dict.fromkeys(range(5), workers)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_stream_repeats_in_every_worker__also_for(snippet, workers):
    test_a_stream_repeats_in_every_worker(snippet, workers)


def test_a_stream_repeats_in_every_worker__but_not_shared(snippet, fails):
    """With a share for each worker, each line comes once."""
    old = "for path in self.paths:  # all of them, in each worker"
    new = "for path in self.paths[get_worker_info().id :: 2]:"
    edited = snippet.edit(old, new)
    fails(test_a_stream_repeats_in_every_worker, edited)


def test_a_stream_repeats_in_every_worker__ends_in_main(snippet, fails):
    """With `num_workers=0`: there is one copy, and each sample comes once."""
    fails(test_a_stream_repeats_in_every_worker, snippet, 0)


def test_a_stream_repeats_in_every_worker__ends_with_init(snippet, fails):
    """If a `worker_init_fn` divides the files: each line comes once."""

    def divide(_):
        worker = get_worker_info()
        worker.dataset.paths = worker.dataset.paths[worker.id :: 2]

    fails(test_a_stream_repeats_in_every_worker, snippet, 2, divide)


# Shuffle a stream

REST = "        for place in torch.randperm(len(held)):\n"
SWAP = "                held[place] = sample\n"


def test_a_buffer_swaps(snippet, size=4, seed=0):
    run = after(snippet, "shuffled")
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


@pytest.mark.parametrize("size", [1, 9, 30])
def test_a_buffer_swaps__also_for(snippet, size):
    test_a_buffer_swaps(snippet, size, size)


def test_a_buffer_swaps__also_in_what_the_page_shows(snippet):
    run = after(snippet, "shuffled", "shuffled-read", "buffers")
    assert sorted(chain(*run.mixed)) == ALL
    assert [len(each) for each in run.mixed] == [4] * 6
    assert run.mixed != run.batches
    assert run.outputs[1] == [*range(400)]
    both = torch.tensor([[*range(400)], run.outputs[400]], dtype=torch.float64)
    assert abs(both.corrcoef()[0, 1]) < 0.2
    for output in run.outputs.values():
        assert sorted(output) == [*range(400)]
    for length in (0, 1, 2, 7, 1000):
        for size in (1, 2, 7, 8, 600):
            output = list(run.Shuffled(range(length), size))
            assert sorted(output) == [*range(length)]


@edits(
    ("not by chance", "torch.randint(self.size, ())", "0"),
    ("without the next one", SWAP, ""),
    ("with one more", "len(held) < self.size:", "len(held) <= self.size:"),
    ("without the rest", REST, "        for place in ():\n"),
)
def test_a_buffer_swaps__but_not(snippet, old, new, fails):
    """`place = 0` is not random; the other edits lose a sample, hold one more,
    or forget what is held at the end.
    """
    fails(test_a_buffer_swaps, snippet.edit(old, new))


def test_a_buffer_moves_little_ahead(snippet):
    run = after(snippet, "shuffled", "buffers")

    for size, output in run.outputs.items():
        ahead = [sample - place for place, sample in enumerate(output)]
        assert max(ahead) <= size - 1
    for size in (2, 4):
        outputs = [list(run.Shuffled(range(9), size)) for _ in range(900)]
        ahead = [each.index(8) for each in outputs]
        assert min(ahead) == 8 - (size - 1)
        assert {each[-1] for each in outputs} == {*range(9)}


@edits(
    ("with place 0", "torch.randint(self.size, ())", "0"),
    ("filled twice", "len(held) < self.size:", "len(held) < 2 * self.size:"),
)
def test_a_buffer_moves_little_ahead__but_not(snippet, old, new, fails):
    """With `place = 0`, few samples can come at the end; with twice as many
    held, one can come further ahead.
    """
    fails(test_a_buffer_moves_little_ahead, snippet.edit(old, new))


def test_a_sorted_stream_begins_with_one_class(snippet):
    run = after(snippet, "shuffled")

    for n, size in ((200, 50), (30, 1), (30, 30), (300, 100), (900, 300)):
        classes = [0] * n + [1] * 200
        output = list(run.Shuffled(classes, size))
        assert not any(output[: n - size + 1])
        assert sum(output) == 200


def test_a_sorted_stream_begins_with_one_class__but_not(snippet, fails):
    """Filled with all 400 samples, the buffer mixes both classes from the
    start.
    """
    edited = snippet.edit("len(held) < self.size:", "len(held) < 400:")
    fails(test_a_sorted_stream_begins_with_one_class, edited)


# What goes wrong


def test_a_length_counts_one_process(snippet):
    run = after(snippet, "counted")

    assert run.length == len(load(run.counted.dataset, batch_size=8)) == 3
    assert run.counted.num_workers == 2
    assert run.given == [8, 8, 4, 4]


EIGHT = "Counted(paths), batch_size=8, **two)"


@edits(
    ("a length for all workers", "return 24\n", "return 32\n"),
    ("batches of 6", EIGHT, "Counted(paths), batch_size=6, **two)"),
    ("one process", EIGHT, "Counted(paths), batch_size=8)"),
)
def test_a_length_counts_one_process__but_not(snippet, old, new, fails):
    """A length of 32, batches of 6, or a single process: then as many batches
    come as `len` says.
    """
    fails(test_a_length_counts_one_process, snippet.edit(old, new))


@pytest.mark.parametrize("kind", ["Logs", "Shuffled"])
def test_a_length_counts_one_process__also_where_the_page_shows_errors(
    snippet, kind
):
    run = after(snippet, "shuffled", "refused", "counted")
    assert [type(each) for each in run.errors] == [ValueError, TypeError]
    stream = run.Logs(run.paths)
    stream = run.Shuffled(stream, 4) if kind == "Shuffled" else stream
    with pytest.raises(ValueError, match="expected unspecified shuffle"):
        DataLoader(stream, shuffle=True, num_workers=2)
    with pytest.raises(TypeError, match="has no len"):
        len(DataLoader(stream, batch_size=None))


def test_a_warning_counts_samples(snippet, size=1, asked=True):
    run = after(snippet, "repeated")
    kind = type("Counted", (run.Unshared,), {"__len__": lambda _: 24})
    start = {"num_workers": 2, **FORK}
    loader = DataLoader(kind(run.paths), batch_size=size, **start)
    if asked:
        len(loader)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        count = sum(len(loader) > 0 for _ in loader)
    text = "was reported to be 24"
    found = sum(text in str(each.message) for each in told)
    assert found == count - 24 > 0


def test_a_warning_counts_samples__also_for_single_samples(snippet):
    test_a_warning_counts_samples(snippet, None)


def test_a_warning_counts_samples__but_not_if_shared(snippet, fails):
    """Shared among the workers, the stream gives 24 samples."""
    old = "for path in self.paths:  # all of them, in each worker"
    new = "for path in self.paths[get_worker_info().id :: 2]:"
    fails(test_a_warning_counts_samples, snippet.edit(old, new))


@pytest.mark.parametrize(("size", "asked"), [(8, True), (1, False)])
def test_a_warning_counts_samples__ends_with(snippet, size, asked, fails):
    """In batches of 8, or if the loop itself calls `len(loader)`: none."""
    fails(test_a_warning_counts_samples, snippet, size, asked)


def test_each_worker_drops_its_last_batch(snippet):
    run = after(snippet, "dropped")

    assert run.dropped == {
        (8, "no workers"): [8, 8, 8],
        (8, "two workers"): [8, 8],
        (16, "no workers"): [16],
        (16, "two workers"): [],
    }


@pytest.mark.parametrize("size", [1, 5, 12, 13])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_worker_drops_its_last_batch__also_for(snippet, workers, size):
    run = after(snippet)
    options = {"batch_size": size, "drop_last": True}
    found = load(run.Logs(run.paths), workers, **options)
    read = [len(run.paths[worker::workers]) * 6 for worker in range(workers)]
    left = sum(lines % size for lines in read)
    assert 24 - len(flat(found)) == left <= workers * (size - 1)


LOADER = "loader = DataLoader(Logs(paths), **options)"


@edits(
    ("kept", '"drop_last": True', '"drop_last": False'),
    (
        "batched in the main process",
        LOADER,
        "loader = DataLoader([*DataLoader(Logs(paths), None, **workers)],"
        " batch_size, drop_last=True)",
    ),
)
def test_each_worker_drops_its_last_batch__but_not(snippet, old, new, fails):
    """Without `drop_last`, nothing is lost; batched in the main process, only
    one last batch is.
    """
    fails(test_each_worker_drops_its_last_batch, snippet.edit(old, new))


def test_a_process_takes_its_files_first(snippet):
    run = after(snippet, "ranks", "as-many")
    assert [len(each) for each in run.by_process] == [4, 2, 2]
    assert sorted(flat(chain(*run.by_process))) == ALL
    assert run.as_many == [run.steps] * 3
    for count in range(1, 5):
        for workers in range(1, 4):
            parts = [
                chain(*shares(run, run.paths[rank::count], workers))
                for rank in range(count)
            ]
            assert sorted(chain(*parts)) == ALL
            assert sorted(chain(*shares(run, run.paths, workers))) == ALL


@edits(
    ("without it", "Logs(paths[rank::count])", "Logs(paths)"),
    ("in steps of 2", "paths[rank::count]", "paths[rank::2]"),
    ("without workers' shares", SHARE, "self.paths"),
)
def test_a_process_takes_its_files_first__but_not(snippet, old, new, fails):
    """Then lines come twice, or are lost."""
    fails(test_a_process_takes_its_files_first, snippet.edit(old, new))


def test_an_iterator_is_used_up(snippet, workers=0):
    run = after(snippet, "once")
    dataset = run.Once([20, 21, 22, 23])
    epochs = [flat(load(dataset, workers, batch_size=2)) for _ in range(2)]
    assert epochs == [[20, 21, 22, 23], []]
    assert as_lists(run.loader) == []


def test_an_iterator_is_used_up__also_a_generator(snippet):
    edited = snippet.edit("= iter(samples)", "= (each for each in samples)")
    test_an_iterator_is_used_up(edited)


def test_an_iterator_is_used_up__but_not_the_samples(snippet, fails):
    """If `self` keeps the samples, `iter` begins anew in each epoch."""
    edited = snippet.edit("= iter(samples)", "= samples")
    fails(test_an_iterator_is_used_up, edited)


def test_an_iterator_is_used_up__ends_with_a_worker(snippet, fails):
    """In new forked workers: each epoch gets a copy of what is left."""
    fails(test_an_iterator_is_used_up, snippet, 1)


def test_orders_of_their_own_lose_files(snippet):
    run = after(snippet, "own-order", "same-order", "orders")
    found = [Counter(load(run.own, 2, batch_size=None)) for _ in range(5)]
    for each in found:
        files = [each[first] for first in (0, 6, 12, 18)]
        assert sum(files) == 4
        assert each.total() == 24
    assert any(2 in each.values() and len(each) < 24 for each in found)
    assert any(run.lost(run.own) for _ in range(5))


def test_orders_of_their_own_lose_files__but_not_one_order(snippet, fails):
    """With one order for all workers, each file goes to one of them."""
    edited = snippet.edit("torch.randperm(len(self.paths))\n", "range(4)\n")
    fails(test_orders_of_their_own_lose_files, edited)


def test_a_common_seed_loses_nothing(snippet, workers=2, persistent=True):
    run = after(snippet, "own-order", "same-order", "orders")
    start = {"num_workers": workers, **FORK} if workers else {}
    loader = DataLoader(run.same, None, **start, persistent_workers=persistent)

    assert run.lost(run.same) == 0
    orders = {}
    for number in range(100):
        run.same.epoch.fill_(number)
        orders[number] = [*run.same][::6]
    assert len({*map(tuple, orders.values())}) == 24  # of four files
    epochs = {}
    for epoch in (1, 2):
        run.same.epoch.fill_(epoch)
        epochs[epoch] = list(loader)
    del loader  # ends its workers, before a test fails
    for epoch, found in epochs.items():
        assert sorted(found) == ALL
        # Workers take turns, and each reads its files one after the other.
        count = max(workers, 1)
        for worker in range(count):
            mine = found[worker :: 6 * count]
            assert mine == orders[epoch][worker::count]


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False)])
def test_a_common_seed_loses_nothing__also_for(snippet, workers, persistent):
    test_a_common_seed_loses_nothing(snippet, workers, persistent)


@edits(
    ("by a seed of each worker", ", generator=seed)", ")"),
    ("in one order", "self.epoch.item()", "0"),
    ("unseen", "torch.tensor(0).share_memory_()", "torch.tensor(0)"),
)
def test_a_common_seed_loses_nothing__but_not(snippet, old, new, fails):
    """Without the seed, each worker draws its own order; with a seed of 0, all
    epochs have one; and outside of shared memory, workers that stay don't see
    the new number.
    """
    fails(test_a_common_seed_loses_nothing, snippet.edit(old, new))
