"""The claims of docs/data/batches.md."""

import math
import random
from ast import literal_eval
from collections import Counter, namedtuple
from functools import partial
from itertools import chain, islice, product

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import printed
from tests.helpers import worlds

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)

FORK = {"num_workers": 1, "multiprocessing_context": "fork"}
BOTH = (False, True)


def ran(snippet, *cells):
    """Run the first two cells, and some others."""
    return snippet.only("names", "do-this", *cells).after(cells[-1])


def said(snippet, *cells):
    """Return what the last of some cells prints, line by line."""
    ran(snippet, *cells)
    return printed[-1][cells[-1]].splitlines()


def samples_of(words):
    """Return samples of some lists of numbers, labeled by their places."""
    return [
        (torch.tensor(each, dtype=torch.int64), place)
        for place, each in enumerate(words)
    ]


WORDS = {
    "one sample": [[3, 4]],
    "equal lengths": [[1, 2], [3, 4], [5, 6]],
    "an empty word": [[], [7, 8, 9]],
    "a letter 0": [[0, 5, 0], [7], [0]],
    "numbers at the ends of int64": [[-(2**63), 2**63 - 1], [1]],
}


def test_pad_fills_up_to_the_longest(snippet, others=((1, 2, 3, 4), (5,))):
    run = snippet.after("do-this")
    ours = [[ord(c) - 96 for c in name] for name in run.names]

    assert [word.tolist() for word, _ in run.train_set] == ours
    is_constant = [int(n in ("e", "pi", "tau")) for n in run.names]
    assert [label for _, label in run.train_set] == is_constant
    for words in (ours[:4], [[7]], [list(each) for each in others]):
        with no_error():
            padded, lengths, labels = run.pad(samples_of(words))
        longest = max(len(each) for each in words)
        expected = [each + [0] * (longest - len(each)) for each in words]
        assert padded.tolist() == expected
        assert padded.dtype == torch.int64
        assert lengths.tolist() == [len(each) for each in words]
        assert labels.tolist() == list(range(len(words)))
        assert labels.dtype == torch.int64
    [(words, lengths, labels)] = run.val_loader
    assert words.tolist()[0] == [9, 14, 6, 0]
    assert (lengths.tolist(), labels.tolist()) == ([3, 4, 3], [1, 0, 0])
    assert [len(batch[0]) for batch in run.train_loader] == [4, 4, 2]


@pytest.mark.parametrize("name", WORDS)
def test_pad_fills_up_to_the_longest__also_for(snippet, name):
    test_pad_fills_up_to_the_longest(snippet, WORDS[name])


@pytest.mark.parametrize("size", [2, 3, 4])
def test_pad_fills_up_to_the_longest__also_with_similar_lengths(snippet, size):
    assert said(snippet, "by-length") == [
        "zeros: [7, 6, 0]",
        "zeros: [3, 2, 0]",
    ]
    run = ran(snippet, "similar-lengths", "similar-lengths-checked")
    assert printed[-1]["similar-lengths-checked"].startswith("Right:")
    mixed = snippet.edit("mixed[self.lengths[mixed].argsort()]", "mixed")
    [told] = said(mixed, "similar-lengths", "similar-lengths-checked")
    assert told.startswith("There are still up to")
    lengths = [9, 1, 4, 4, 4, 2, 400, 4, 7, 4]
    sampler = run.SimilarLengths(lengths, size)
    epochs = [list(sampler) for _ in range(50)]
    for epoch in epochs:
        assert sorted(chain(*epoch)) == list(range(len(lengths)))
        assert len(epoch) == len(sampler)
        ordered = sorted(sorted(lengths[i] for i in batch) for batch in epoch)
        assert list(chain(*ordered)) == sorted(lengths)
    assert len({str(epoch) for epoch in epochs}) > 10
    assert len({frozenset(map(frozenset, epoch)) for epoch in epochs}) > 1


def test_pad_fills_up_to_the_longest__also_with_stacked_labels(snippet):
    edited = snippet.edit("torch.tensor(labels)", "torch.stack(labels)")
    run = edited.edit("in val_loader:", "in ():").after("do-this")
    samples = [(torch.ones(n), torch.tensor([n, 5])) for n in (1, 2)]

    assert run.pad(samples)[2].tolist() == [[1, 5], [2, 5]]
    with pytest.raises(TypeError, match="single element"):
        snippet.after("do-this").pad(samples)
    columns = [(torch.ones(n), torch.tensor([n])) for n in (1, 2)]
    assert run.pad(columns)[2].tolist() == [[1], [2]]
    assert snippet.after("do-this").pad(columns)[2].tolist() == [1, 2]


def test_pad_fills_up_to_the_longest__ends_without_samples(snippet, fails):
    """For an empty list, such as a batch whose samples are all missing: `pad`
    raises a `ValueError`.
    """
    fails(test_pad_fills_up_to_the_longest, snippet, [])


PADDED = "pad_sequence(words, batch_first=True)"


@edits(
    ("in front", PADDED, PADDED[:-1] + ', padding_side="left")'),
    ("along the first axis", PADDED, "pad_sequence(words)"),
    ("with one length", "len(word) for word in words", "3 for word in words"),
    ("with other labels", "torch.tensor(labels)", "torch.ones(len(labels))"),
)
def test_pad_fills_up_to_the_longest__but_not(snippet, old, new, fails):
    """Each edit changes one part of the batch: the padding, the lengths
    or the labels.
    """
    fails(test_pad_fills_up_to_the_longest, snippet.edit(old, new))


def order_of(loader):
    """Return the samples of an epoch."""
    return torch.cat(list(loader)).tolist()


def assert_same(one, other):
    """Compare two batches: their classes, dtypes and numbers."""
    assert type(one) is type(other)
    if torch.is_tensor(one):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    elif isinstance(one, dict):
        assert_same(list(one.items()), list(other.items()))
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for part, same in zip(one, other, strict=True):
            assert_same(part, same)
    else:
        assert one == other


def epochs_of(make, *inputs, count=None, zipped=1, **options):
    """Return three epochs, or the first batches of each, and the state of
    PyTorch's generator behind them. Each runs several loops at once.
    """
    torch.manual_seed(3)
    with no_error():
        loader = make(*inputs, **options)
        is_loader = isinstance(loader, DataLoader)  # one for all epochs
        loaded = []
        for _ in range(3):
            loops = [
                loader if is_loader else make(*inputs, **options)
                for _ in range(zipped)
            ]
            loaded.append(list(islice(zip(*loops, strict=True), count)))
    return loaded, torch.get_rng_state()


def test_these_lines_are_a_loader(
    snippet, data=None, size=4, join=None, count=None, more=(), zipped=1
):
    run = ran(snippet, "by-hand")
    data = range(10) if data is None else data
    for shuffle, drop_last in product(BOTH, BOTH):
        options = {"shuffle": shuffle, "drop_last": drop_last, **dict(more)}
        seen = []
        for make, name in ((run.load, "join"), (DataLoader, "collate_fn")):
            named = options | ({name: join} if join else {})
            named |= {"count": count, "zipped": zipped}
            seen.append(epochs_of(make, data, size, **named))
        assert_same(*seen)


@pytest.mark.parametrize("size", [1, 3, 5, 10, 11, 200])
def test_these_lines_are_a_loader__also_in_batches_of(snippet, size):
    test_these_lines_are_a_loader(snippet, range(10), size)


class Noisy(Dataset):
    """A dataset whose samples are drawn at random."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return {"noise": torch.randn(2) + index, "name": str(index)}


def images():
    """Return images with labels."""
    torch.manual_seed(0)
    return TensorDataset(torch.rand(90, 1, 8, 8), torch.arange(90) % 10)


DATA = {
    "samples with noise": partial(Noisy, 30),
    "images with labels": images,
    "a part of a dataset": lambda: Subset(images(), range(50, 70)),
    "a list of strings": lambda: list("abcdefghijk"),
    "one sample": lambda: [2.5],
}


@pytest.mark.parametrize("name", DATA)
def test_these_lines_are_a_loader__also_for(snippet, name):
    test_these_lines_are_a_loader(snippet, DATA[name](), 7)


@pytest.mark.parametrize("size", [3, 4])
def test_these_lines_are_a_loader__also_with_pad(snippet, size):
    run = snippet.after("do-this")
    test_these_lines_are_a_loader(snippet, run.train_set, size, run.pad)


def test_these_lines_are_a_loader__also_if_left_early(snippet):
    test_these_lines_are_a_loader(snippet, range(10), 3, None, 1)


def test_these_lines_are_a_loader__also_as_compared(snippet):
    run = ran(snippet, "by-hand", "compare")

    assert run.equal == [True] * 20
    assert order_of(run.load(range(10), 4)) == list(range(10))
    inputs = run.load, 4, True, False
    assert run.three_epochs(*inputs) == run.three_epochs(*inputs)
    for other in (
        (run.load, 3, *inputs[2:]),
        (*inputs[:2], False, False),
        (*inputs[:3], True),
    ):
        assert run.three_epochs(*inputs) != run.three_epochs(*other)


@pytest.mark.parametrize(
    "option",
    [
        {"generator": torch.Generator()},
        {"sampler": [3, 3, 1]},
        {"batch_sampler": [[0], [5, 4]]},
    ],
    ids=["generator", "sampler", "batch_sampler"],
)
def test_these_lines_are_a_loader__ends_with(snippet, option, fails):
    """With a `generator`, `sampler` or `batch_sampler`: ours takes none."""
    inputs = None, 4, None, None, option
    fails(test_these_lines_are_a_loader, snippet, *inputs)


def test_these_lines_are_a_loader__ends_without_batches(snippet, fails):
    """With `batch_size=None`: the real one gives samples."""
    fails(test_these_lines_are_a_loader, snippet, range(10), None)


def test_these_lines_are_a_loader__ends_without_samples(snippet, fails):
    """For an empty dataset, shuffled: the real one raises `num_samples should
    be a positive integer value, but got num_samples=0`.
    """
    fails(test_these_lines_are_a_loader, snippet, [])


class Stream(IterableDataset):
    """Ten numbers without an index."""

    def __iter__(self):
        return iter(range(10))


def test_these_lines_are_a_loader__ends_for_a_stream(snippet, fails):
    """For an `IterableDataset`: it has no indices, and no length."""
    fails(test_these_lines_are_a_loader, snippet, Stream())


class Whole:
    """A dataset that reads a batch at once."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index, "alone"

    def __getitems__(self, indices):
        return [(index, f"of {len(indices)}") for index in indices]


def test_these_lines_are_a_loader__ends_with_getitems(snippet, fails):
    """With `__getitems__`: the real one calls it once for each batch, with
    the list of its indices.
    """
    fails(test_these_lines_are_a_loader, snippet, Whole())


class InWorkers(DataLoader):
    """A loader with a worker."""

    def __init__(self, *inputs, **options):
        super().__init__(*inputs, **options, **FORK)


def test_these_lines_are_a_loader__ends_with_workers(
    snippet, fails, monkeypatch
):
    """With workers, for samples that are drawn at random: a worker has a seed
    of its own.
    """
    monkeypatch.setitem(globals(), "DataLoader", InWorkers)
    fails(test_these_lines_are_a_loader, snippet, Noisy(4))


def test_these_lines_are_a_loader__ends_if_two_are_zipped(snippet, fails):
    """In a `zip` of two, shuffled: the real ones both draw the number of line
    1 first, while ours draw it with their first batch.
    """
    inputs = range(10), 4, None, None, (), 2
    fails(test_these_lines_are_a_loader, snippet, *inputs)


TAKEN = "order[: len(order) // size * size]"


@edits(
    ("line 1 left out", "    torch.tensor(0).random_()  # 1", "    # 1"),
    ("line 2 without own", "(len(order), generator=own)", "(len(order))"),
    ("line 3 at the front", TAKEN, "order[len(order) % size :]"),
    ("line 4 up to three", "[start : start + size]]", "[start:][:size][:3]]"),
)
def test_these_lines_are_a_loader__but_not_with(snippet, old, new, fails):
    """Without the number of line 1, or by another generator in line 2, the
    order is different; the others take different samples.
    """
    fails(test_these_lines_are_a_loader, snippet.edit(old, new))


def test_each_epoch_has_its_order(snippet, count=10, size=4, seed=0):
    run = ran(snippet, "by-hand", "epochs")
    lines = printed[-1]["epochs"].splitlines()
    torch.manual_seed(0)
    loader = DataLoader(range(10), 4, shuffle=True)
    shown = [[batch.tolist() for batch in loader] for _ in range(3)]
    assert lines == [str(epoch) for epoch in shown]

    torch.manual_seed(seed)
    for make in (run.load, DataLoader):
        epochs = [order_of(make(range(count), size, True)) for _ in range(3)]
        one, other, third = epochs
        assert one != other != third != one
        for epoch in epochs:
            assert sorted(epoch) == list(range(count))
    mine = ran(snippet, "do-this")
    in_order, *others = [
        str([words for words, *_ in loader])
        for loader in (
            DataLoader(mine.train_set, 4, collate_fn=mine.pad),
            mine.train_loader,
            mine.train_loader,
        )
    ]
    assert len({in_order, *others}) == 3
    drawn = Counter()
    for _ in range(300):
        [batch] = DataLoader(range(3), 3, shuffle=True)
        drawn[tuple(batch.tolist())] += 1
    assert len(drawn) == 6
    assert min(drawn.values()) > 25


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("count", [9, 100])
def test_each_epoch_has_its_order__also_for(snippet, count, seed):
    test_each_epoch_has_its_order(snippet, count, 7, seed)


RANDPERM = "torch.randperm(len(order), generator=own)"


@edits(
    ("without shuffle", "(range(10), 4, shuffle=True)", "(range(10), 4)"),
    ("with one seed", "(torch.tensor(0).random_().item())", "(0)"),
    ("repeating", RANDPERM, "torch.randint(10, (10,), generator=own)"),
)
def test_each_epoch_has_its_order__but_not(snippet, old, new, fails):
    """Without `shuffle`, or from one seed, the epochs are alike; if numbers
    repeat, indices come twice.
    """
    fails(test_each_epoch_has_its_order, snippet.edit(old, new))


def test_these_lines_are_default_collate(snippet, *lists):
    run = ran(snippet, "join", "joined")
    shown = printed[-1]["joined"]
    assert shown.count("as ours: True") == len(run.examples) == 6
    for samples in (*run.examples, *NUMBERS_AND_PARTS, *lists):
        with no_error():
            mine, its = run.join(samples), default_collate(samples)
        assert_same(mine, its)


NUMBERS_AND_PARTS = [
    [1, -(2**63), 2**63 - 1],
    [0.1, math.inf, math.nan],
    [True, False],
    [3, 2.5],
    [2.5, 3],
    ["a", "", "b"],
    [[], []],
    [{}, {}],
    [{"size": 1}, {"size": 0, "later": 5}],
    [[1, 2.0], [2, 3.0]],
    [{"a": (1, ["x", 0.5])}, {"a": (2, ["y", 1.5])}],
    [({1: torch.ones(2)}, 7)] * 3,
    [1],
]


@worlds.each(
    "tensor",
    worlds.TENSORS,
    "empty",
    "a single number",
    "transposed",
    "with gaps",
    "expanded",
    "requiring grad",
    "non-leaf",
    "bfloat16",
    "at the ends of int64",
    "boolean",
    "with nan",
)
def test_these_lines_are_default_collate__also_if(snippet, tensor):
    one = tensor()
    samples = [one, tensor(), one]
    pairs = [(each, 1) for each in samples]
    test_these_lines_are_default_collate(snippet, samples, pairs, [one])
    assert default_collate(samples).shape == (3, *one.shape)
    assert default_collate(samples)[2].dtype == one.dtype


def test_these_lines_are_default_collate__also_of_two_dtypes(snippet):
    samples = [torch.ones(2, dtype=torch.int64), torch.ones(2)]
    test_these_lines_are_default_collate(snippet, samples, samples[::-1])


def test_these_lines_are_default_collate__also_on_another_device(snippet):
    run = ran(snippet, "join")
    samples = [(torch.ones(2, device="meta"), 1.0)] * 3
    mine, its = run.join(samples), default_collate(samples)
    assert mine[0].shape == its[0].shape == (3, 2)
    assert mine[0].device == its[0].device == torch.device("meta")
    assert mine[1].device == its[1].device == torch.device("cpu")


def test_these_lines_are_default_collate__also_their_gradients(snippet):
    run = ran(snippet, "join")
    gradients = []
    for join in (run.join, default_collate):
        weights = [torch.arange(3.0, requires_grad=True) for _ in range(4)]
        images, _ = join([(weight * 2, 1) for weight in weights])
        (images.pow(2) * torch.arange(12.0).reshape(4, 3)).sum().backward()
        gradients.append([weight.grad for weight in weights])
    assert_same(*gradients)


Pair = namedtuple("Pair", "number word")

OTHERS = {
    "NumPy arrays": [numpy.ones(2), numpy.ones(2)],
    "NumPy numbers": [numpy.float32(2.5), numpy.float32(3)],
    "NumPy integers": [numpy.int64(7), numpy.int64(8)],
    "bytes": [b"a", b"b"],
    "named tuples": [Pair(1, "x"), Pair(2, "y")],
    "other dicts": [Counter("a"), Counter("aa")],
    "sparse tensors": [torch.eye(2).to_sparse()] * 2,
    "lists of different lengths": [[1], [2, 3]],
}


@pytest.mark.parametrize("name", OTHERS)
def test_these_lines_are_default_collate__ends_for(snippet, name, fails):
    """For NumPy's arrays and numbers, or bytes, ours raises a `TypeError`; for
    named tuples or other kinds of dicts, the real one keeps the class; and it
    raises a `RuntimeError` for sparse tensors, and for lists of different
    lengths, where ours raises a `ValueError`.
    """
    fails(test_these_lines_are_default_collate, snippet, OTHERS[name])


PARTS = "[join(part) for part in zip(*samples, strict=True)]"


@edits(
    ("line 5 by cat", "torch.stack(samples)", "torch.cat(samples)"),
    ("line 6 in float32", "torch.float64 if isinst", "None if isinst"),
    ("line 7 by the last", "for k in first}", "for k in samples[-1]}"),
    ("line 8 as a tuple", PARTS, f"tuple({PARTS})"),
)
def test_these_lines_are_default_collate__but_not_with(
    snippet, old, new, fails
):
    """`cat` lengthens the first axis instead of adding one; `torch.tensor`
    makes floats `float32`; the last dict may have another key; and a list of
    parts is no tuple.
    """
    fails(test_these_lines_are_default_collate, snippet.edit(old, new))


def test_floats_become_float64(snippet, largest=2**63 - 1, options=()):
    run = ran(snippet, "join", "joined")
    floats, integers, strings = run.joined[1:4]

    def join(*samples):
        with no_error():
            [batch] = DataLoader(samples, len(samples), **dict(options))
        return batch

    assert (floats.dtype, floats.tolist()) == (torch.float64, [0.5, 1.5])
    assert (integers.dtype, integers.tolist()) == (torch.int64, [7, 8])
    assert strings == ["pi", "e"]
    assert join("a", "", "b") == ["a", "", "b"]
    assert join((1, "a"), (2, "b"))[1] == ("a", "b")
    assert join(0.1, math.inf).dtype == torch.float64
    assert join(-1, largest).tolist() == [-1, largest]
    with pytest.raises(RuntimeError, match="same dtype"):
        nn.Linear(1, 1)(join(0.5, 1.5)[:, None])


def test_floats_become_float64__also_in_a_worker(snippet):
    test_floats_become_float64(snippet, options=FORK)


@edits(
    ("of tensors", "[0.5, 1.5]", "[torch.tensor(0.5), torch.tensor(1.5)]"),
    ("of whole floats", "[7, 8]", "[7.0, 8.0]"),
    ("of strings in a tuple", '["pi", "e"]', '[("pi",), ("e",)]'),
)
def test_floats_become_float64__but_not(snippet, old, new, fails):
    """Tensors keep their own dtype, 7.0 and 8.0 are floats, and strings in a
    tuple come back in one.
    """
    fails(test_floats_become_float64, snippet.edit(old, new))


def test_floats_become_float64__ends_beyond_64_bits(snippet, fails):
    """For integers of `2**63` and more: they raise a `ValueError`."""
    fails(test_floats_become_float64, snippet, 2**63)


def test_weights_balance_the_classes(
    snippet, classes=None, shuffle=None, count=100
):
    edited = snippet
    if classes is not None:
        edited = snippet.edit("int(name in CONSTANTS)", classes)
    run = ran(edited, "rare")
    labels = [label for _, label in run.train_set]
    counts = Counter(labels)

    torch.manual_seed(1)
    with no_error():
        loader = DataLoader(labels, 50, shuffle, run.sampler)
    for draws in (run.drawn, torch.cat(list(loader))):
        shares = draws.bincount() / len(draws)
        expected = [1 / len(counts)] * len(counts)
        assert shares.tolist() == pytest.approx(expected, abs=0.06)
    weights = [1 / counts[label] for label in labels]
    assert run.weights.tolist() == pytest.approx(weights)
    with no_error():
        epoch = list(WeightedRandomSampler(torch.ones(count), 100))
    assert len(set(epoch)) < len(epoch) == 100


@pytest.mark.parametrize("classes", ["len(name) % 3", "int(name == 'pi')"])
def test_weights_balance_the_classes__also_for(snippet, classes):
    test_weights_balance_the_classes(snippet, classes)


def test_weights_balance_the_classes__ends_with_shuffle(snippet, fails):
    """With `shuffle=True`, too: `sampler option is mutually exclusive with
    shuffle`.
    """
    fails(test_weights_balance_the_classes, snippet, None, True)


def test_weights_balance_the_classes__ends_beyond_16_million(snippet, fails):
    """For more than `2**24` samples: `number of categories cannot exceed
    2^24`.
    """
    inputs = snippet, None, None, 2**24 + 1
    fails(test_weights_balance_the_classes, *inputs)


WEIGHTED = "(weights, num_samples=1000)"


@edits(
    ("with equal weights", "1 / kinds.bincount()[kinds]", "torch.ones(10)"),
    ("with roots", "1 / kinds.bincount()", "1 / kinds.bincount().sqrt()"),
    ("without repeats", WEIGHTED, "(weights, 10, replacement=False)"),
)
def test_weights_balance_the_classes__but_not(snippet, old, new, fails):
    """Equal weights or square roots leave the rare class rare; without
    replacement, each sample comes once.
    """
    fails(test_weights_balance_the_classes, snippet.edit(old, new))


def test_unequal_lengths_raise(snippet, sizes=(2, 1), options=()):
    words = "stack expects each tensor to be equal size, but got"
    with no_error():
        shown = said(snippet, "unequal")
    assert shown == [f"{words} [4] at entry 0 and [1] at entry 1"]

    join = ran(snippet, "join").join
    odd = [size != sizes[0] for size in sizes].index(True)
    first, other = ([*torch.zeros(sizes[at]).shape] for at in (0, odd))
    text = f"{words} {first} at entry 0 and {other} at entry {odd}"

    def loaded(samples):
        batches = iter(DataLoader(samples, len(samples), **dict(options)))
        try:
            next(batches)
        finally:
            getattr(batches, "_shutdown_workers", int)()

    for call in (default_collate, join, loaded):
        with pytest.raises(RuntimeError) as caught:
            call([torch.zeros(size) for size in sizes])
        assert text in str(caught.value)
        assert options or str(caught.value) == text


@pytest.mark.parametrize(
    "sizes", [(3, 3, 5, 4), (1, 0, 2), ((3, 8, 8), (3, 8, 9))], ids=str
)
def test_unequal_lengths_raise__also_for(snippet, sizes):
    test_unequal_lengths_raise(snippet, sizes)


def test_unequal_lengths_raise__ends_in_a_worker(snippet, fails):
    """In a worker, if the first tensor is larger than the average: `Trying to
    resize storage that is not resizable`.
    """
    fails(test_unequal_lengths_raise, snippet, (2, 1), FORK)


SHORT = "DataLoader(train_set, 4)"


@edits(
    ("in other places", SHORT, "DataLoader(train_set[1:], 4)"),
    ("padded", SHORT, "DataLoader(train_set, 4, collate_fn=pad)"),
    ("one by one", SHORT, "DataLoader(train_set)"),
)
def test_unequal_lengths_raise__but_not(snippet, old, new, fails):
    """Other names differ in other places, and the error names those; padded,
    or in batches of one, none differ.
    """
    fails(test_unequal_lengths_raise, snippet.edit(old, new))


def test_boxes_stay_in_a_list(snippet, counts=(2, 0, 5)):
    samples = [
        (torch.full((3, 4, 4), float(at)), torch.rand(count, 4))
        for at, count in enumerate(counts)
    ]

    with no_error():
        join = ran(snippet, "boxes").keep_boxes_apart
        [(images, boxes)] = DataLoader(samples, len(counts), collate_fn=join)
        images = images.clone()  # a tensor, and no list of images

    assert images.shape == (len(counts), 3, 4, 4)
    assert images[:, 0, 0, 0].tolist() == [*range(len(counts))]
    assert isinstance(boxes, list)
    for found, (_, given) in zip(boxes, samples, strict=True):
        assert torch.equal(found, given)


@pytest.mark.parametrize("counts", [(0,), (1, 1), (3, 0, 0, 7)], ids=str)
def test_boxes_stay_in_a_list__also_for(snippet, counts):
    test_boxes_stay_in_a_list(snippet, counts)


STACKED = "torch.stack(images), list(boxes)"


def test_boxes_stay_in_a_list__ends_with_images_of_different_sizes(
    snippet, fails
):
    """`torch.stack` raises the same error for images of different sizes."""
    new = "torch.stack([images[0][:, 1:], *images[1:]]), list(boxes)"
    fails(test_boxes_stay_in_a_list, snippet.edit(STACKED, new))


@edits(
    ("with images in a tuple", STACKED, "images, list(boxes)"),
    ("with boxes joined", STACKED, "torch.stack(images), torch.cat(boxes)"),
)
def test_boxes_stay_in_a_list__but_not(snippet, old, new, fails):
    """A tuple of images is no tensor; joined, nobody knows which box belongs
    to which image.
    """
    fails(test_boxes_stay_in_a_list, snippet.edit(old, new))


def test_none_is_not_joined(snippet, places=(2,), make=torch.ones, options=()):
    named = "found <class 'NoneType'>"
    text = "expected Tensor as element {} in argument 0, but got NoneType"
    with no_error():
        first, second = said(snippet, "missing")
    assert first.startswith("default_collate: batch must contain tensors")
    assert first.endswith(named)
    assert second == text.format(1)

    join = ran(snippet, "join").join
    samples = [None if at in places else make(2) for at in range(4)]
    with pytest.raises((TypeError, AttributeError)) as caught:
        next(iter(DataLoader(samples, 4, **dict(options))))
    caught.value.with_traceback(None)  # which still holds a worker
    expected = named if 0 in places else text.format(places[0])
    assert expected in str(caught.value)
    assert caught.type is TypeError
    with pytest.raises(TypeError, match="NoneType"):
        join(samples)


@pytest.mark.parametrize(
    "places",
    [(0,), (0, 1, 2, 3), (1, 3)],
    ids=["the first sample", "all samples", "two samples"],
)
def test_none_is_not_joined__also_in_place_of(snippet, places):
    test_none_is_not_joined(snippet, places)


def labeled(size):
    """Return a sample of a tensor and a label."""
    return torch.ones(size), 1


def test_none_is_not_joined__ends_among_pairs(snippet, fails):
    """Among pairs of an image and a label: `object of type 'NoneType' has no
    len()`, unless the batch begins with the `None`.
    """
    fails(test_none_is_not_joined, snippet, (2,), labeled)


def test_none_is_not_joined__ends_in_a_worker(snippet, fails):
    """In a worker: `'NoneType' object has no attribute 'numel'`, unless the
    batch begins with the `None`.
    """
    fails(test_none_is_not_joined, snippet, (2,), torch.ones, FORK)


@pytest.mark.parametrize(
    ("make", "options"),
    [(labeled, ()), (torch.ones, FORK)],
    ids=["before pairs", "in a worker"],
)
def test_none_is_not_joined__also_first(snippet, make, options):
    test_none_is_not_joined(snippet, (0,), make, options)


def test_none_is_not_joined__also_unless_left_out(snippet):
    run = ran(snippet, "without-missing")

    assert printed[-1]["without-missing"] == "2 rows\n"
    given = [None, run.train_set[3], None, run.train_set[1]]
    kept = [run.train_set[3], run.train_set[1]]
    assert_same(run.pad_those_there(given), run.pad(kept))
    with pytest.raises(ValueError, match="unpack"):
        run.pad_those_there([None, None])


@edits(
    ("behind a string", "[torch.zeros(2), None]", '["good", None]'),
    ("an empty dict", "[None, torch.zeros(2)]", "[{}, torch.zeros(2)]"),
    ("left out", "DataLoader(samples, 2)", "filter(torch.is_tensor, samples)"),
)
def test_none_is_not_joined__but_not(snippet, old, new, fails):
    """Behind a string, a `None` raises nothing, nor does an empty dict in its
    place, nor a batch without it.
    """
    fails(test_none_is_not_joined, snippet.edit(old, new))


BATCHES = ["train_set[:4]", "train_set[4:]", "train_set", "train_set[1:2]"]


def test_a_mask_takes_padding_out(snippet, others="train_set[:4]"):
    edited = snippet.edit("pad(train_set[7:])", f"pad({others})")
    for run in (
        ran(snippet, "padded-mean", "masked-mean"),
        ran(edited, "padded-mean", "masked-mean"),
    ):
        lengths, width = run.lengths.tolist(), run.words.shape[1]
        rows = zip(run.words.tolist(), lengths, strict=True)
        alone = [100 + sum(row[:n]) / (n or 1) for row, n in rows]
        assert run.means[:, 0].tolist() == pytest.approx(alone)
        expected = [[n < length for n in range(width)] for length in lengths]
        assert run.mask.tolist() == expected
    run = ran(snippet, "padded-mean")
    assert run.words[0].tolist() == [16, 9, 0]
    wrong = run.vectors.mean(dim=1)[:, 0].tolist()
    assert wrong == pytest.approx([325 / 3, 114, 114])


@pytest.mark.parametrize("others", BATCHES)
def test_a_mask_takes_padding_out__also_for(snippet, others):
    test_a_mask_takes_padding_out(snippet, others)


def test_a_mask_takes_padding_out__also_for_a_letter_0(snippet):
    letters = "[(torch.tensor([0, 5, 0]), 1), *train_set]"
    test_a_mask_takes_padding_out(snippet, letters)


def test_a_mask_takes_padding_out__also_for_nan_in_the_padding(snippet):
    old = "vectors = 100.0 + words[..., None]"
    new = f"{old}.where(words[..., None] > 0, torch.nan)"
    run = snippet.edit(old, new).after("masked-mean")
    assert run.vectors.isnan().any()
    assert run.means[:, 0].tolist() == [112.5, 114, 114]


@pytest.mark.simulates("a GPU")
def test_a_mask_takes_padding_out__also_on_a_device(snippet):
    old = "words, lengths, _ = pad(train_set[7:])  # pi, sin and tau"
    there = "torch.arange(words.shape[1], device=lengths.device)"
    moved = snippet.edit(
        "torch.arange(words.shape[1]) < lengths",
        f"{there} < lengths",
    )
    moved = moved.edit(old, f"{old}\nwords = words.to('meta')")
    with pytest.raises(RuntimeError, match="device"):
        moved.after("masked-mean")
    both = moved.edit("mask = to", "lengths = lengths.to('meta')\nmask = to")
    assert both.after("masked-mean").means.device == torch.device("meta")


def test_a_mask_takes_padding_out__ends_for_an_empty_word(snippet, fails):
    """For a sequence of length 0: 0 divided by 0 is `nan`."""
    empty = "[(torch.tensor([], dtype=torch.int64), 1), *train_set]"
    fails(test_a_mask_takes_padding_out, snippet, empty)


KEPT = "torch.where(mask[..., None], vectors, 0)"
PLACES = "torch.arange(words.shape[1]) < lengths[:, None]"


@edits(
    ("without the mask", KEPT, "vectors"),
    ("one too long", "< lengths[:, None]", "<= lengths[:, None]"),
    ("by the longest", "sums / lengths[:, None]", "sums / words.shape[1]"),
    ("by the letters", PLACES, "words > 9"),
)
def test_a_mask_takes_padding_out__but_not(snippet, old, new, fails):
    """Without the mask, the padding is summed too; the other masks keep one
    place too many, or the wrong ones; the longest length is too long for
    shorter names.
    """
    fails(test_a_mask_takes_padding_out, snippet.edit(old, new))


def test_each_loop_draws_a_number(snippet, generator=None, workers=()):
    run = snippet.after("do-this")
    options = {"generator": generator, **dict(workers)}
    loaders = [run.val_loader, run.train_loader]
    loaders.append(DataLoader(range(3), **options))
    loaders.append(DataLoader(range(3), batch_sampler=[[1, 2]], **options))

    torch.manual_seed(0)
    first = torch.rand(()).item()
    for loader in loaders:
        for _ in range(2):
            torch.manual_seed(0)
            list(loader)
            assert torch.rand(()).item() != first
    torch.manual_seed(0)
    DataLoader(range(3))  # without a loop over it
    assert torch.rand(()).item() == first


WITHOUT_OWN = "val_loader = DataLoader(val_set, 4, collate_fn=pad)"


def test_each_loop_draws_a_number__but_not_with_a_generator(snippet, fails):
    """A loader with a generator of its own draws from that one."""
    own = WITHOUT_OWN[:-1] + ", generator=torch.Generator())"
    fails(test_each_loop_draws_a_number, snippet.edit(WITHOUT_OWN, own))


def test_each_loop_draws_a_number__ends_with_its_own_generator(snippet, fails):
    """With a generator of its own: the loader draws from that one."""
    fails(test_each_loop_draws_a_number, snippet, torch.Generator())


def test_each_loop_draws_a_number__also_with_workers(snippet):
    test_each_loop_draws_a_number(snippet, None, FORK)


def test_each_loop_draws_a_number__ends_with_persistent_workers(
    snippet, fails
):
    """With `persistent_workers=True`: only the first loop draws one."""
    stay = FORK | {"persistent_workers": True}
    fails(test_each_loop_draws_a_number, snippet, None, stay)


def nothing():
    """Draw nothing."""


def one_number():
    """Draw one number."""
    torch.rand(1)


def shuffled(data, size, generator=None, make=None):
    """Return a loader that shuffles, or whose sampler does."""
    sampler = make and make(data, generator)
    options = {"generator": generator, "sampler": sampler}
    return DataLoader(data, size, shuffle=not make, **options)


def shuffled_after(draw, generator=None, make=None):
    """Return the order of a loader after something was drawn."""
    torch.manual_seed(0)
    draw()
    return order_of(shuffled(range(10), 10, generator, make))


def own(seed=0):
    """Return a generator."""
    return torch.Generator().manual_seed(seed)


def test_an_own_generator_keeps_the_order(
    snippet,
    draw=one_number,
    seed=2,
    left_after=None,
    make=None,
    generator_of=own,
):
    lines = said(snippet, "same-seed")
    before, one, told, after, other = lines
    assert told == "after an evaluation:"
    assert one == other != before != after
    assert before == str(shuffled_after(nothing))
    assert one == str(shuffled_after(nothing, own()))

    assert shuffled_after(draw) != shuffled_after(nothing)
    kept = [
        shuffled_after(each, generator_of(seed), make)
        for each in (nothing, draw)
    ]
    assert kept[0] == kept[1]
    epochs = []
    for count in (None, left_after):
        generator = own(seed)
        loader = shuffled(range(20), 6, generator, make)
        torch.rand(1)
        first = torch.cat(list(islice(loader, count))).tolist()
        torch.rand(1)
        epochs.append((first[:6], order_of(loader)))
    assert epochs[0] == epochs[1]
    assert epochs[0][0] != epochs[0][1][:6]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: nn.Linear(2, 2),
        lambda: nn.functional.dropout(torch.ones(2)),
        lambda: list(DataLoader(range(3), shuffle=True)),
    ],
    ids=["a layer", "dropout", "another loop"],
)
def test_an_own_generator_keeps_the_order__also_for(snippet, draw):
    test_an_own_generator_keeps_the_order(snippet, draw, 30)


@pytest.mark.parametrize(
    "draw", [random.random, numpy.random.random], ids=["random", "NumPy"]
)
def test_an_own_generator_keeps_the_order__also_beside(draw):
    assert shuffled_after(draw) == shuffled_after(nothing)
    assert shuffled_after(draw, own()) == shuffled_after(nothing, own())


def test_an_own_generator_keeps_the_order__ends_with_a_sampler(snippet, fails):
    """If you pass a sampler: that draws the order, by a `generator` which you
    give to the sampler.
    """
    inputs = snippet, one_number, 2, None, lambda data, _: RandomSampler(data)
    fails(test_an_own_generator_keeps_the_order, *inputs)


def test_an_own_generator_keeps_the_order__also_given_to_a_sampler(snippet):
    def seeded(data, generator):
        return RandomSampler(data, generator=generator)

    inputs = snippet, one_number, 2, None, seeded
    test_an_own_generator_keeps_the_order(*inputs)


def test_an_own_generator_keeps_the_order__ends_if_left_early(snippet, fails):
    """If you leave an epoch early: the next one has a different order than
    after a whole one, because a loader draws once more at its end.
    """
    inputs = snippet, one_number, 2, 1
    fails(test_an_own_generator_keeps_the_order, *inputs)


def test_an_own_generator_keeps_the_order__ends_if_loaders_share_it(
    snippet, fails
):
    """If another loader has the same generator: each loop over that one draws
    from it, too.
    """
    shared = torch.Generator()

    def other_loop():
        torch.rand(1)
        list(DataLoader(range(3), generator=shared))

    inputs = snippet, other_loop, 2, None, None, shared.manual_seed
    fails(test_an_own_generator_keeps_the_order, *inputs)


SEEDED = "torch.Generator().manual_seed(0)"


SHUFFLED = "10, shuffle=True, generator"


@edits(
    ("if it is shared", SEEDED, "torch.default_generator"),
    ("without a seed", SEEDED, "(a := torch.Generator())\n    a.seed()"),
    ("without shuffle", SHUFFLED, SHUFFLED.replace("True", "False")),
)
def test_an_own_generator_keeps_the_order__but_not(snippet, old, new, fails):
    """PyTorch's own generator is moved by what else draws from it; another
    seed gives another order; and without `shuffle`, there is none to keep.
    """
    fails(test_an_own_generator_keeps_the_order, snippet.edit(old, new))


def test_unshuffled_epochs_drop_the_same(snippet, count=10, size=4):
    same, shuffled = said(snippet, "dropped")
    assert same.endswith(f"{[[8, 9]] * 3}")
    left = literal_eval(shuffled.split("leave out ")[1])
    assert [len(each) for each in left] == [2, 2, 2]
    assert left != [left[0]] * 3

    kept = count // size * size
    loader = DataLoader(range(count), size, drop_last=True)
    for _ in range(3):
        assert order_of(loader) == list(range(kept))
    epochs = []
    for drop_last in BOTH:
        torch.manual_seed(1)
        loader = DataLoader(range(count), size, True, drop_last=drop_last)
        epochs.append([order_of(loader) for _ in range(40)])
    assert epochs[1] == [epoch[:kept] for epoch in epochs[0]]
    assert set(chain(*epochs[1])) == set(range(count))


@pytest.mark.parametrize(
    ("count", "size"), [(7, 3), (9, 8), (20, 19)], ids=str
)
def test_unshuffled_epochs_drop_the_same__also_for(snippet, count, size):
    test_unshuffled_epochs_drop_the_same(snippet, count, size)


DROPPING = "(range(10), 4, shuffle, drop_last=True)"
SAMPLED = "(range(10), 4, sampler=torch.randperm(10).tolist(), drop_last=True)"


@edits(
    ("shuffled", "in (False, True):\n    loader", "in (True, 1):\n    loader"),
    ("without drop_last", DROPPING, "(range(10), 4, shuffle)"),
    ("in an order of its own", DROPPING, SAMPLED),
)
def test_unshuffled_epochs_drop_the_same__but_not(snippet, old, new, fails):
    """`shuffle=True` leaves out different samples in each epoch, a sampler
    those at its own end, and without `drop_last`, none are left out.
    """
    fails(test_unshuffled_epochs_drop_the_same, snippet.edit(old, new))


def test_a_small_dataset_vanishes(snippet, count=3, size=4):
    with no_error():
        assert said(snippet, "vanishing") == ["3 samples, 0 batches"]
    load = ran(snippet, "by-hand").load

    for shuffle in BOTH:
        options = {"shuffle": shuffle, "drop_last": True}
        with no_error():
            loader = DataLoader(range(count), size, **options)
            assert list(loader) == []
            assert list(load(range(count), size, **options)) == []
        assert len(loader) == 0


@pytest.mark.parametrize(("count", "size"), [(1, 2), (31, 32)], ids=str)
def test_a_small_dataset_vanishes__also_for(snippet, count, size):
    test_a_small_dataset_vanishes(snippet, count, size)


def test_a_small_dataset_vanishes__ends_without_samples(snippet, fails):
    """For an empty dataset, shuffled: `num_samples should be a positive
    integer value, but got num_samples=0`.
    """
    fails(test_a_small_dataset_vanishes, snippet, 0)


DROPPED = "(val_set, 4, drop_last=True, collate_fn=pad)"


@edits(
    ("of a whole batch", DROPPED, DROPPED.replace("4", "3")),
    ("without drop_last", DROPPED, "(val_set, 4, collate_fn=pad) "),
)
def test_a_small_dataset_vanishes__but_not(snippet, old, new, fails):
    """Three samples fill a batch of three; and without `drop_last`, they come
    as a smaller batch.
    """
    fails(test_a_small_dataset_vanishes, snippet.edit(old, new))
