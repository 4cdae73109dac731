"""The claims of docs/data/batches.md."""

import math
import random
from collections import Counter, namedtuple
from functools import partial
from itertools import chain, pairwise

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Subset,
    WeightedRandomSampler,
)

from extensions.evidence.counterexamples import no_error
from tests.helpers import worlds

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


FORK = {"num_workers": 1, "multiprocessing_context": "fork"}

REVIEWS = {
    "one review": [[3, 4]],
    "equal lengths": [[1, 2], [3, 4], [5, 6]],
    "no words": [[], [7, 8, 9]],
    "a word 0": [[0, 5, 0], [7], [0]],
    "numbers at the ends of int64": [[-(2**63), 2**63 - 1], [1]],
}


def samples_of(words):
    return [
        (torch.tensor(each, dtype=torch.int64), place)
        for place, each in enumerate(words)
    ]


def test_pad_fills_up_to_the_longest(snippet, reviews=((1, 2, 3, 4), (5,))):
    run = snippet.after("do-this")

    for words in (run.words[:4], [[7]], [list(each) for each in reviews]):
        padded, lengths, labels = run.pad(samples_of(words))
        longest = max(len(each) for each in words)
        expected = [each + [0] * (longest - len(each)) for each in words]
        assert padded.tolist() == expected
        assert padded.dtype == torch.int64
        assert lengths.tolist() == [len(each) for each in words]
        assert labels.tolist() == list(range(len(words)))
    first = next(iter(run.evaluation))
    assert first[0].tolist() == [[5, 2, 0], [7, 0, 0], [4, 4, 9], [8, 1, 0]]
    assert run.labels.tolist() == run.stars[:4]
    assert run.padded.equal(first[0])
    assert [len(batch[0]) for batch in run.evaluation] == [4, 4, 2]
    assert [len(batch[0]) for batch in run.training] == [4, 4]
    assert [each[0].tolist() for each in run.reviews] == run.words


@pytest.mark.parametrize("name", REVIEWS)
def test_pad_fills_up_to_the_longest__also_for(snippet, name):
    test_pad_fills_up_to_the_longest(snippet, REVIEWS[name])


def test_pad_fills_up_to_the_longest__but_not_at_the_front(snippet, fails):
    """`padding_side="left"` puts the zeros in front of the words."""
    edited = snippet.edit(
        "pad_sequence(reviews, batch_first=True)",
        'pad_sequence(reviews, batch_first=True, padding_side="left")',
    )
    fails(test_pad_fills_up_to_the_longest, edited)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "pad_sequence(reviews, batch_first=True)",
            "pad_sequence(reviews, batch_first=True, padding_value=-1)",
        ),
        (", batch_first=True", ""),
        ("len(each) for each in reviews", "3 for each in reviews"),
        ("lengths, torch.tensor(stars)", "lengths, torch.zeros(len(stars))"),
        (
            "    return padded, lengths",
            "    padded = nn.functional.pad(padded, (0, 1))\n"
            "    return padded, lengths",
        ),
        (
            "pad_sequence(reviews, batch_first=True)",
            "pad_sequence([each[:3] for each in reviews], batch_first=True)",
        ),
        ("lengths, torch.tensor(stars)", "lengths, torch.tensor(stars[::-1])"),
        ("torch.tensor([len(each)", "torch.tensor([-len(each)"),
    ],
    ids=[
        "with another number",
        "along the first axis",
        "with one length for all",
        "without the labels",
        "beyond the longest",
        "cut short",
        "with the labels of others",
        "with lengths below zero",
    ],
)
def test_pad_fills_up_to_the_longest__but_not(snippet, old, new, fails):
    """Each edit changes one part of the batch: the padding, the words, the
    lengths or the labels.
    """
    fails(test_pad_fills_up_to_the_longest, snippet.edit(old, new))


def assert_same(one, other):
    assert type(one) is type(other)
    if torch.is_tensor(one):
        assert one.dtype == other.dtype
        assert one.equal(other)
    else:
        assert len(one) == len(other)
        for part, same in zip(one, other, strict=True):
            assert_same(part, same)


def start_again(loader):
    torch.manual_seed(3)
    if loader.generator is not None:
        loader.generator.manual_seed(3)


def test_a_loader_is_four_steps(snippet, **options):
    run = snippet.after("by-hand")
    loaders = [run.evaluation, run.training]
    loaders.append(DataLoader(run.reviews, collate_fn=run.pad, **options))
    loaders.append(DataLoader(run.words[:1] * 6, batch_size=4))

    for loader in loaders:
        start_again(loader)
        batches = list(loader)
        start_again(loader)
        # A loader draws a number for its workers, even where it has none.
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        assert_same(list(run.by_hand(loader)), batches)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 3},
        {"batch_size": 20, "shuffle": True},
        {"sampler": [3, 3, 1], "batch_size": 2},
        {"batch_sampler": [[0], [5, 4]]},
        {"batch_size": 4, "shuffle": True, "generator": torch.Generator()},
    ],
    ids=["three", "shuffled", "a sampler", "a batch sampler", "a generator"],
)
def test_a_loader_is_four_steps__also_for(snippet, options):
    test_a_loader_is_four_steps(snippet, **options)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for index in indices]", "for index in sorted(indices)]"),
        ("in loader.batch_sampler:", "in list(loader.batch_sampler)[::-1]:"),
        ("yield loader.collate_fn(samples)", "yield pad(samples[:1])"),
        ("loader.dataset[index]", "loader.dataset[-index]"),
        (
            "yield loader.collate_fn(samples)",
            "yield pad(samples) if loader.dataset is reviews else samples",
        ),
    ],
    ids=[
        "in another order",
        "from the end",
        "for the first sample alone",
        "at other indices",
        "joined by pad alone",
    ],
)
def test_a_loader_is_four_steps__but_not(snippet, old, new, fails):
    """Other samples, another order or another `collate_fn` make other
    batches.
    """
    fails(test_a_loader_is_four_steps, snippet.edit(old, new))


def test_the_order_stays_without_shuffle(snippet, count=10, size=4):
    run = snippet.after("orders")
    loader = DataLoader(range(count), batch_size=size)

    expected = [list(range(10))[at : at + 4] for at in (0, 4, 8)]
    assert run.orders["as they come"] == [expected] * 3
    came = [words for padded, *_ in run.evaluation for words in padded]
    for words, (review, _) in zip(came, run.reviews, strict=True):
        assert words[: len(review)].equal(review)
    parts = [
        list(range(count))[at : at + size] for at in range(0, count, size)
    ]
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == parts
    assert len(loader) == math.ceil(count / size)


@pytest.mark.parametrize(
    ("count", "size"), [(1, 1), (7, 7), (7, 8), (12, 5)], ids=str
)
def test_the_order_stays_without_shuffle__also_for(snippet, count, size):
    test_the_order_stays_without_shuffle(snippet, count, size)


@pytest.mark.parametrize(
    "change",
    ["shuffle=True, ", "drop_last=True, ", "sampler=list(range(10))[::-1], "],
    ids=["shuffled", "with drop_last", "with a sampler"],
)
def test_the_order_stays_without_shuffle__but_not(snippet, change, fails):
    """`shuffle=True` and a sampler change the order, and `drop_last=True`
    drops what is left.
    """
    edited = snippet.edit(
        "evaluation = DataLoader(reviews, ",
        f"evaluation = DataLoader(reviews, {change}",
    )
    fails(test_the_order_stays_without_shuffle, edited)


def test_each_epoch_has_its_order(snippet, count=10, size=4, seed=0):
    run = snippet.after("orders")
    orders = run.orders["training"]
    torch.manual_seed(seed)
    loader = DataLoader(range(count), size, shuffle=True)
    epochs = [torch.cat(list(loader)).tolist() for _ in range(3)]

    torch.manual_seed(0)
    assert orders == [list(run.training.batch_sampler) for _ in range(3)]
    flat = [list(chain(*epoch)) for epoch in orders]
    for one, other, third in (flat, epochs):
        assert one != other != third != one
    for epoch in flat:
        assert len(set(epoch)) == len(epoch) == 8
    for epoch in epochs:
        assert sorted(epoch) == list(range(count))
    firsts = {next(iter(run.training.batch_sampler))[0] for _ in range(150)}
    assert firsts == set(range(10))
    three = DataLoader(range(3), 3, shuffle=True).batch_sampler
    drawn = Counter(tuple(*three) for _ in range(300))
    assert len(drawn) == 6
    assert min(drawn.values()) > 25


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("count", [9, 100])
def test_each_epoch_has_its_order__also_for(snippet, count, seed):
    test_each_epoch_has_its_order(snippet, count, 7, seed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "list(training.batch_sampler) for _ in",
            "[torch.manual_seed(0), *training.batch_sampler][1:] for _ in",
        ),
        ("batch_size=4, shuffle=True", "batch_size=4, shuffle=False"),
        (
            "batch_size=4, shuffle=True",
            "batch_size=4, sampler=torch.utils.data.RandomSampler("
            "reviews, replacement=True)",
        ),
        (
            "batch_size=4, shuffle=True, drop_last=True",
            "batch_sampler=torch.utils.data.BatchSampler([0, *("
            "torch.randperm(9) + 1).tolist()], 4, True)",
        ),
    ],
    ids=[
        "with the seed set again",
        "without shuffle",
        "with replacement",
        "with an order drawn once",
    ],
)
def test_each_epoch_has_its_order__but_not(snippet, old, new, fails):
    """The same seed each time, no `shuffle`, or an order drawn once repeats
    it; with replacement, indices come twice.
    """
    fails(test_each_epoch_has_its_order, snippet.edit(old, new))


def filled(shape, dtype=torch.float32):
    return [torch.full(shape, at, dtype=dtype) for at in range(4)]


def in_a_worker(samples, size=2, **options):
    """Join samples in a worker, and let it go if it fails."""
    try:
        return next(iter(DataLoader(samples, size, **FORK, **options)))
    except RuntimeError as error:
        error.with_traceback(None)  # which still holds the worker
        return str(error)


def test_tensors_are_stacked(snippet, samples=None, where="here"):
    run = snippet.after("joined")
    samples = samples or filled((3,))

    with no_error():
        stacked = run.join(*samples)
    if where == "in a worker":
        stacked = in_a_worker(samples, len(samples))
        assert torch.is_tensor(stacked), stacked
    assert stacked.dtype == samples[0].dtype
    assert stacked.shape == (len(samples), *samples[0].shape)
    for at, sample in enumerate(samples):
        assert stacked[at].equal(sample)
    assert run.joined["tensors"].tolist() == [[0] * 3, [1] * 3]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bfloat16, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3, 4)], ids=str)
def test_tensors_are_stacked__also_for(snippet, shape, dtype):
    test_tensors_are_stacked(snippet, filled(shape, dtype))


@worlds.each(
    "tensor",
    worlds.TENSORS,
    "transposed",
    "with gaps",
    "expanded",
    "requiring grad",
    "non-leaf",
    "at the ends of int64",
    "with inf",
)
def test_tensors_are_stacked__also_if(snippet, tensor):
    test_tensors_are_stacked(snippet, [tensor(), tensor()])


@worlds.each(
    "tensor", worlds.TENSORS, "empty", "transposed", "expanded", "boolean"
)
def test_tensors_are_stacked__also_in_a_worker(snippet, tensor):
    samples = [tensor(), tensor()]
    test_tensors_are_stacked(snippet, samples, "in a worker")


@worlds.each("tensor", worlds.TENSORS, "requiring grad", "non-leaf")
def test_tensors_are_stacked__ends_in_a_worker_for_tensors(
    snippet, tensor, fails
):
    """In a worker, for tensors that require gradients: it raises."""
    samples = [tensor(), tensor()]
    fails(test_tensors_are_stacked, snippet, samples, "in a worker")


def test_tensors_are_stacked__ends_in_a_worker_for_conjugates(snippet, fails):
    """In a worker, for conjugated complex tensors: it raises."""
    samples = [torch.ones(3, dtype=torch.complex64).conj()] * 2
    fails(test_tensors_are_stacked, snippet, samples, "in a worker")


def test_a_worker_stacks_no_gradients(snippet, samples=None, size=2):
    """No cell decides it: the worker itself stacks."""
    run = snippet.after("joined")
    samples = samples or [torch.ones(3, requires_grad=True)] * 2

    with no_error():
        assert run.join(*samples).shape == (2, 3)
    said = str(in_a_worker(samples, size))
    assert "arguments don't support automatic differentiation" in said


@pytest.mark.parametrize(
    "sample",
    [nn.Parameter(torch.ones(3)), torch.ones(3, requires_grad=True) * 2],
    ids=["parameters", "non-leaf tensors"],
)
def test_a_worker_stacks_no_gradients__also_for(snippet, sample):
    test_a_worker_stacks_no_gradients(snippet, [sample] * 2)


def test_a_worker_stacks_no_gradients__ends_for_detached_tensors(
    snippet, fails
):
    """For detached tensors: they require no gradients, so the worker stacks
    them.
    """
    samples = [torch.ones(3, requires_grad=True).detach()] * 2
    fails(test_a_worker_stacks_no_gradients, snippet, samples)


def test_a_worker_stacks_no_gradients__ends_without_batches(snippet, fails):
    """With `batch_size=None`: nothing is stacked, and the tensors arrive."""
    fails(test_a_worker_stacks_no_gradients, snippet, None, None)


def whole(samples):
    """Return a batch of one sample as it is."""
    return samples[0]


def next_said(batches):
    """Return the next batch, or what is said when none comes."""
    try:
        return next(batches)
    except RuntimeError as error:
        return str(error.with_traceback(None))  # which still holds the worker


def test_a_worker_sends_no_non_leaf(snippet, capfd, review=None, join=None):
    run = snippet.after("do-this")
    review = torch.ones(3, requires_grad=True) if review is None else review
    samples = [review, review] if join else [(review, 1), (review, 0)]
    options = FORK | {"collate_fn": join or run.pad, "timeout": 0.2}

    batches = iter(DataLoader(samples, 2, **options))

    refused = "Cowardly refusing to serialize non-leaf tensor"
    errors = ""
    silence = "DataLoader timed out after 0.2 seconds"
    for _ in range(300):  # a slow machine may take a minute
        assert next_said(batches) == silence
        errors += capfd.readouterr().err
        if refused in errors:
            break
    assert refused in errors
    assert next_said(batches) == silence


def test_a_worker_sends_no_non_leaf__but_not_if_pad_detaches(
    snippet, capfd, fails
):
    """Detached, the padded batch has no graph, and can be sent."""
    edited = snippet.edit(
        "pad_sequence(reviews, batch_first=True)",
        "pad_sequence(reviews, batch_first=True).detach()",
    )
    fails(test_a_worker_sends_no_non_leaf, edited, capfd)


def test_a_worker_sends_no_non_leaf__also_from_the_dataset(snippet, capfd):
    review = torch.ones(3, requires_grad=True) * 2
    test_a_worker_sends_no_non_leaf(snippet, capfd, review, whole)


def test_a_worker_sends_no_non_leaf__ends_for_leaves(snippet, capfd, fails):
    """For a leaf: it can be sent, even if it requires gradients."""
    review = torch.ones(3, requires_grad=True)
    fails(test_a_worker_sends_no_non_leaf, snippet, capfd, review, whole)


def test_a_worker_sends_no_non_leaf__ends_for_detached_samples(
    snippet, capfd, fails
):
    """For detached samples: `pad` makes a batch without a graph, which can be
    sent.
    """
    review = torch.ones(3, requires_grad=True).detach()
    fails(test_a_worker_sends_no_non_leaf, snippet, capfd, review)


@pytest.mark.parametrize(
    "samples",
    [
        [torch.eye(2).to_sparse()] * 2,
        [torch.ones(2), torch.ones(3)],
        [torch.ones(2, dtype=torch.int64), torch.ones(2)],
        [torch.ones(2), torch.ones(2, device="meta")],
    ],
    ids=["if sparse", "of two shapes", "of two dtypes", "of two devices"],
)
def test_tensors_are_stacked__ends_for_tensors(snippet, samples, fails):
    """For sparse tensors, or for two shapes, dtypes or devices in one batch:
    they do not come back as they were given.
    """
    fails(test_tensors_are_stacked, snippet, samples)


def test_tensors_are_stacked__but_not_by_cat(snippet, fails):
    """`torch.cat` lengthens the first axis instead of adding a new one."""
    edited = snippet.edit(
        "DataLoader(samples, batch_size=len(samples))",
        "DataLoader(samples, batch_size=len(samples), "
        "collate_fn=lambda all: torch.cat(all) "
        "if torch.is_tensor(all[0]) else all)",
    )
    fails(test_tensors_are_stacked, edited)


def test_floats_become_float64(snippet, largest=2**63 - 1):
    run = snippet.after("joined")
    floats, integers = run.joined["floats"], run.joined["integers"]

    assert floats.dtype == torch.float64
    assert floats.tolist() == [0.5, 1.5]
    assert integers.dtype == torch.int64
    assert integers.tolist() == [7, 8]
    assert run.joined["strings"] == ["good", "bad"]
    assert run.join("a", "", "b") == ["a", "", "b"]
    assert run.join(0.1, math.inf).dtype == torch.float64
    with no_error():
        assert run.join(-1, largest).tolist() == [-1, largest]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("join(0.5, 1.5)", "join(torch.tensor(0.5), torch.tensor(1.5))"),
        ("join(7, 8)", "join(7.0, 8.0)"),
        ('join("good", "bad")', 'join(("good",), ("bad",))'),
    ],
    ids=["of tensors", "of floats", "of strings in a tuple"],
)
def test_floats_become_float64__but_not(snippet, old, new, fails):
    """Tensors keep their own dtype, 7.0 and 8.0 are floats, and strings in a
    tuple come back in one.
    """
    fails(test_floats_become_float64, snippet.edit(old, new))


def test_floats_become_float64__ends_beyond_64_bits(snippet, fails):
    """Beyond 64 bits: integers of `2**63` and more raise a `ValueError`."""
    fails(test_floats_become_float64, snippet, 2**63)


def test_containers_are_joined_by_part(snippet, make=tuple, tail=()):
    run = snippet.after("joined")
    tensors, numbers = run.joined["tuples"]

    assert type(run.joined["tuples"]) is list
    assert tensors.tolist() == [[0] * 3, [1] * 3]
    assert numbers.tolist() == [7, 8]
    assert list(run.joined["dicts"]) == ["stars"]
    assert run.joined["dicts"]["stars"].tolist() == [1, 0]
    with no_error():
        parts = run.join(make([1, "x"]), make([2, "y", *tail]))
    assert type(parts) is list
    assert parts[0].tolist() == [1, 2]
    assert list(parts[1]) == ["x", "y"]
    nested = run.join({"a": make([1, "x"])}, {"a": make([2, "y"])})
    assert type(nested) is dict
    assert nested["a"][0].tolist() == [1, 2]


def test_containers_are_joined_by_part__also_for_lists(snippet):
    test_containers_are_joined_by_part(snippet, list)


def test_containers_are_joined_by_part__ends_for_other_lengths(snippet, fails):
    """For lists of different lengths: they raise `each element in list of
    batch should be of equal size`.
    """
    fails(test_containers_are_joined_by_part, snippet, list, ["z"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "join((torch.zeros(3), 7), (torch.ones(3), 8))",
            "join(torch.zeros(3), torch.ones(3))",
        ),
        ('join({"stars": 1}, {"stars": 0})', "join([1], [0])"),
        (
            "join((torch.zeros(3), 7), (torch.ones(3), 8))",
            "[torch.zeros(3), torch.tensor(7)]",
        ),
    ],
    ids=["one part", "a dict as a list", "from the first sample alone"],
)
def test_containers_are_joined_by_part__but_not(snippet, old, new, fails):
    """Samples without parts are stacked, lists have no keys, and a single
    sample is not joined at all.
    """
    fails(test_containers_are_joined_by_part, snippet.edit(old, new))


def test_containers_are_joined_by_part__ends_for_named_tuples(snippet, fails):
    """For named tuples: the result is a named tuple, too."""
    pair = namedtuple("pair", "number word")
    fails(test_containers_are_joined_by_part, snippet, pair._make)


def test_the_first_number_decides(snippet, rest=(1, 2)):
    run = snippet.after("quiet-surprises")

    assert [each.dtype for each in run.mixed] == [torch.float32, torch.float64]
    assert [each.tolist() for each in run.mixed] == [[3, 2.5], [2.5, 3]]
    assert run.join(0.5, *rest).dtype == torch.float64
    assert run.join(3, 2.5, *rest).dtype == torch.float32
    torch.set_default_dtype(torch.float16)
    try:
        assert run.join(0.5, *rest).dtype == torch.float64
        assert run.join(3, 2.5, *rest).dtype == torch.float16
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_first_number_decides__also_for_more_floats(snippet):
    test_the_first_number_decides(snippet, (0.1, -3, 0.25))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("join(2.5, 3)", "join(2.5, 3).float()"),
        ("join(3, 2.5),", "join(3.0, 2.5),"),
    ],
    ids=["converted", "of floats alone"],
)
def test_the_first_number_decides__but_not(snippet, old, new, fails):
    """`.float()` converts the result afterwards, and 3.0 beside 2.5 is no
    mix.
    """
    fails(test_the_first_number_decides, snippet.edit(old, new))


def test_later_keys_are_left_out(snippet, later=("author",)):
    run = snippet.after("quiet-surprises")

    assert list(run.fewer) == ["stars"]
    assert run.fewer["stars"].tolist() == [1, 0]
    more = {"stars": 2} | dict.fromkeys(later, 5)
    with no_error():
        joined = run.join({"stars": 1}, {"stars": 0}, more)
    assert list(joined) == ["stars"]
    assert joined["stars"].tolist() == [1, 0, 2]


def test_later_keys_are_left_out__also_for_two(snippet):
    test_later_keys_are_left_out(snippet, ("author", "date"))


def test_later_keys_are_left_out__but_not_by_a_collate_fn_that_keeps_them(
    snippet, fails
):
    """This `collate_fn` merges the dicts, so the later key is there."""
    edited = snippet.edit(
        'join({"stars": 1}, {"stars": 0, "author": "Ada"})',
        'next(iter(DataLoader([{"stars": 1}, {"stars": 0, "author": "Ada"}], '
        "batch_size=2, collate_fn=lambda both: both[0] | both[1])))",
    )
    fails(test_later_keys_are_left_out, edited)


def tensors_of(sizes):
    return [torch.zeros(size) for size in sizes]


def test_unequal_lengths_raise(snippet, sizes=(2, 1)):
    run = snippet.after("unequal")
    words = "stack expects each tensor to be equal size, but got"
    samples = tensors_of(sizes)
    odd = [size != sizes[0] for size in sizes].index(True)

    assert run.unequal == f"{words} [2] at entry 0 and [1] at entry 1"
    with pytest.raises(RuntimeError) as caught:
        run.join(*samples)
    first, other = sizes[0], sizes[odd]
    text = f"{words} [{first}] at entry 0 and [{other}] at entry {odd}"
    assert str(caught.value) == text


@pytest.mark.parametrize("sizes", [(3, 3, 5, 4), (1, 0, 2)], ids=str)
def test_unequal_lengths_raise__also_for(snippet, sizes):
    test_unequal_lengths_raise(snippet, sizes)


def test_unequal_lengths_raise__but_not_in_other_places(snippet, fails):
    """Other reviews differ in other places, and the error names those."""
    edited = snippet.edit(
        "DataLoader(reviews, batch_size=4)))",
        "DataLoader(reviews[2:], batch_size=4)))",
    )
    fails(test_unequal_lengths_raise, edited)


def test_unequal_lengths_raise__but_not_in_a_worker(snippet, fails):
    """From a worker, the error comes with more text: it begins with where it
    was caught.
    """
    edited = snippet.edit(
        "DataLoader(reviews, batch_size=4)))",
        "DataLoader(reviews, batch_size=4, num_workers=1, "
        'multiprocessing_context="fork")))',
    ).edit("unequal = str(error)", "unequal = str(error.with_traceback(None))")
    fails(test_unequal_lengths_raise, edited)


def test_unequal_lengths_raise__but_not_padded(snippet, fails):
    """`pad` brings all to one length, so nothing raises."""
    edited = snippet.edit(
        "next(iter(DataLoader(reviews, batch_size=4)))\nexcept",
        "unequal = ''\n"
        "    next(iter(DataLoader(reviews, batch_size=4, collate_fn=pad)))\n"
        "except",
    )
    fails(test_unequal_lengths_raise, edited)


def test_boxes_stay_in_a_list(snippet, counts=(2, 0, 5)):
    samples = [
        (torch.full((3, 4, 4), float(at)), torch.rand(count, 4))
        for at, count in enumerate(counts)
    ]

    with no_error():
        join = snippet.after("boxes").keep_boxes_apart
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


def test_boxes_stay_in_a_list__ends_with_images_of_different_sizes(
    snippet, fails
):
    """`torch.stack` raises the same error for images of different sizes."""
    old = "torch.stack(images), list(boxes)"
    new = "torch.stack([images[0][:, 1:], *images[1:]]), list(boxes)"
    fails(test_boxes_stay_in_a_list, snippet.edit(old, new))


@pytest.mark.parametrize(
    "new",
    ["images, list(boxes)", "torch.stack(images), torch.cat(boxes)"],
    ids=["with images in a tuple", "with boxes joined"],
)
def test_boxes_stay_in_a_list__but_not(snippet, new, fails):
    """Joined, nobody knows which box belongs to which image."""
    old = "torch.stack(images), list(boxes)"
    fails(test_boxes_stay_in_a_list, snippet.edit(old, new))


def test_none_is_not_joined(snippet, places=(2,), make=None, options=()):
    run = snippet.after("missing")
    named = "found <class 'NoneType'>"
    text = "expected Tensor as element {} in argument 0, but got NoneType"

    assert len(run.missing) == 2
    assert named in run.missing[0]
    assert run.missing[1] == text.format(1)
    make = make or torch.ones
    samples = [None if at in places else make(2) for at in range(4)]
    with pytest.raises((TypeError, AttributeError)) as caught:
        next(iter(DataLoader(samples, 4, **dict(options))))
    caught.value.with_traceback(None)  # which still holds a worker
    expected = named if 0 in places else text.format(places[0])
    assert expected in str(caught.value)
    assert caught.type is TypeError


@pytest.mark.parametrize(
    "places",
    [(0,), (0, 1, 2, 3), (1, 3)],
    ids=["the first sample", "all samples", "two samples"],
)
def test_none_is_not_joined__also_in_place_of(snippet, places):
    test_none_is_not_joined(snippet, places)


def labeled(size):
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
    fails(test_none_is_not_joined, snippet, (2,), None, FORK)


@pytest.mark.parametrize(
    ("make", "options"),
    [(labeled, ()), (None, FORK)],
    ids=["before pairs", "in a worker"],
)
def test_none_is_not_joined__also_first(snippet, make, options):
    test_none_is_not_joined(snippet, (0,), make, options)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "        join(*samples)\n",
            "        there = [each for each in samples if each is not None]\n"
            "        missing.append(str(join(*there)))\n",
        ),
        ("(torch.zeros(3), None)):", '("good", None)):'),
        ("((None, torch.zeros(3)),", "(({}, torch.zeros(3)),"),
    ],
    ids=["left out", "behind a string", "an empty dict"],
)
def test_none_is_not_joined__but_not(snippet, old, new, fails):
    """Left out, or behind a string, a `None` raises nothing; nor does an empty
    dict in its place.
    """
    fails(test_none_is_not_joined, snippet.edit(old, new))


def test_missing_samples_are_left_out(snippet, there=(1, 1, 0, 1)):
    run = snippet.after("without-missing")
    given = [
        run.reviews[i] if is_in else None for i, is_in in enumerate(there)
    ]

    given += [(torch.tensor([], dtype=torch.int64), 3)]
    kept = [each for each in given if each is not None]
    assert_same(run.join_those_there(given), run.pad(kept))
    [batch] = run.some
    assert batch[0].tolist() == [[5, 2, 0], [4, 4, 9]]
    assert len(batch[0]) < run.some.batch_size
    with pytest.raises(ValueError, match="unpack"):
        run.join_those_there([None, None])


@pytest.mark.parametrize(
    "there", [(True, True), (False, False, True)], ids=["none", "two"]
)
def test_missing_samples_are_left_out__also_for(snippet, there):
    test_missing_samples_are_left_out(snippet, there)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "each for each in samples if each is not None",
            "each or samples[0] for each in samples",
        ),
        (
            "each for each in samples if each is not None",
            "each for each in samples[:1]",
        ),
        ("if each is not None]", "if each and len(each[0]) > 1]"),
        ("if each is not None]", "if each is not None] or reviews[:1]"),
    ],
    ids=[
        "with another in their place",
        "all but the first",
        "with short ones",
        "with another if all are missing",
    ],
)
def test_missing_samples_are_left_out__but_not(snippet, old, new, fails):
    """Each edit joins other samples: one of them twice, only the first, only
    long ones, or one where all are missing.
    """
    fails(test_missing_samples_are_left_out, snippet.edit(old, new))


# Another batch, beside which the same review is padded otherwise.
OTHERS = {
    "the second": "list(evaluation)[1]",
    "the last": "list(evaluation)[2]",
    "all": "pad(reviews)",
}


def in_another_batch(snippet, name):
    return snippet.edit("next(iter(evaluation))", OTHERS[name])


def reviews_of(run):
    for padded, length in zip(run.padded, run.lengths, strict=True):
        yield padded[:length].tolist()


def test_padding_counts_in_a_mean(snippet, other=None):
    run = snippet.after("padded-mean")

    assert run.table[:, 0].tolist() == [100 + word for word in range(10)]
    assert run.padded[0].tolist() == [5, 2, 0]
    assert round(run.wrong_mean[0].item(), 2) == 102.33
    assert (105 + 102) / 2 == 103.5
    if other is not None:
        run = in_another_batch(snippet, other).after("padded-mean")
    for words, mean in zip(reviews_of(run), run.wrong_mean, strict=True):
        all_words = words + [0] * (run.padded.shape[1] - len(words))
        expected = sum(100 + word for word in all_words) / len(all_words)
        assert mean.item() == pytest.approx(expected)


@pytest.mark.parametrize("other", OTHERS)
def test_padding_counts_in_a_mean__also_for(snippet, other):
    test_padding_counts_in_a_mean(snippet, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("vectors.mean(dim=1)", "vectors[:, :2].mean(dim=1)"),
        ("vectors.mean(dim=1)", "vectors.median(dim=1).values"),
    ],
    ids=["over two words", "a median"],
)
def test_padding_counts_in_a_mean__but_not(snippet, old, new, fails):
    """The mean over two places leaves out the padding of the first review, and
    a median is no mean.
    """
    fails(test_padding_counts_in_a_mean, snippet.edit(old, new))


def test_a_mask_takes_padding_out(snippet, other="the second"):
    for each in (snippet, in_another_batch(snippet, other)):
        run = each.after("masked-mean")
        reviews = list(reviews_of(run))

        for words, mean in zip(reviews, run.right_mean, strict=True):
            assert not mean.isnan()
            alone = sum(100 + word for word in words) / len(words)
            assert mean.item() == pytest.approx(alone)
        assert run.mask.tolist() == [
            [place < len(words) for place in range(run.padded.shape[1])]
            for words in reviews
        ]


@pytest.mark.parametrize("other", ["the last", "all"])
def test_a_mask_takes_padding_out__also_for(snippet, other):
    test_a_mask_takes_padding_out(snippet, other)


def test_a_mask_takes_padding_out__also_for_a_word_0(snippet):
    edited = snippet.edit("words = [[5, 2], [7]", "words = [[5, 0], [0, 7]")
    test_a_mask_takes_padding_out(edited)


def test_a_mask_takes_padding_out__ends_for_a_review_of_no_words(
    snippet, fails
):
    """For a review of no words: 0 divided by 0 is `nan`."""
    edited = snippet.edit("words = [[5, 2], [7]", "words = [[5, 2], []")
    fails(test_a_mask_takes_padding_out, edited)


def test_a_mask_takes_padding_out__also_for_nan_in_the_padding(snippet):
    edited = snippet.edit(
        "vectors = table[padded]",
        "vectors = table[padded]\nvectors[padded == 0] = torch.nan",
    )
    test_a_mask_takes_padding_out(edited)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.where(mask[..., None], vectors, 0)", "vectors"),
        ("< lengths[:, None]", "<= lengths[:, None]"),
        ("< lengths[:, None]", "< torch.tensor([2, 1, 3, 2])[:, None]"),
        ("torch.arange(padded.shape[1]) < lengths[:, None]", "padded > 2"),
    ],
    ids=[
        "without the mask",
        "with one number of padding",
        "with the lengths of another batch",
        "if the mask is made of the words",
    ],
)
def test_a_mask_takes_padding_out__but_not(snippet, old, new, fails):
    """Without the mask, the padding is summed too; the other masks keep one
    place too many, or the wrong ones.
    """
    fails(test_a_mask_takes_padding_out, snippet.edit(old, new))


def test_a_mask_takes_padding_out__but_not_divided_by_the_longest(
    snippet, fails
):
    """Divided by the longest length, shorter reviews get too small a mean."""
    edited = snippet.edit("sums / lengths[:, None]", "sums / padded.shape[1]")
    fails(test_a_mask_takes_padding_out, edited)


def order(batches):
    return torch.cat(batches).tolist()


def test_the_order_hangs_on_what_came_before(snippet, draw=torch.rand):
    run = snippet.after("same-order")
    nothing, number, loop = run.shared.values()

    torch.manual_seed(0)
    assert nothing == order(list(DataLoader(range(10), 10, shuffle=True)))
    assert nothing != number != loop != nothing
    assert run.shuffled_after(random.random) == nothing
    assert run.shuffled_after(numpy.random.random) == nothing
    assert run.shuffled_after(lambda: draw(2)) != nothing
    for loader in (run.training, DataLoader(range(3))):
        assert run.shuffled_after(partial(list, loader)) != nothing


def test_each_loop_draws_a_number(snippet, generator=None, workers=()):
    run = snippet.after("do-this")
    loaders = [run.evaluation, run.training]
    options = {"generator": generator, **dict(workers)}
    loaders.append(DataLoader(range(3), **options))

    torch.manual_seed(0)
    first = torch.rand(())
    for loader in loaders:
        for _ in range(2):
            torch.manual_seed(0)
            list(loader)
            assert torch.rand(()) != first
    torch.manual_seed(0)
    DataLoader(range(3))  # without a loop over it
    assert torch.rand(()) == first


def test_each_loop_draws_a_number__but_not_with_a_generator(snippet, fails):
    """A loader with a generator of its own draws from that one."""
    edited = snippet.edit(
        "drop_last=True, collate_fn=pad\n)",
        "drop_last=True, collate_fn=pad,\n    generator=torch.Generator(),\n)",
    )
    fails(test_each_loop_draws_a_number, edited)


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


def dropped_out(count):
    return nn.functional.dropout(torch.ones(count))


@pytest.mark.parametrize(
    "draw",
    [lambda count: nn.Linear(count, count), torch.randperm, dropped_out],
    ids=["a layer", "an order", "dropout"],
)
def test_the_order_hangs_on_what_came_before__also_for(snippet, draw):
    test_the_order_hangs_on_what_came_before(snippet, draw)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.rand(1)", "torch.rand(1, generator=torch.Generator())"),
        (
            "lambda: list(evaluation)",
            "lambda: list(DataLoader([1], generator=torch.Generator()))",
        ),
        ("shuffle=True, generator", "shuffle=False, generator"),
        ("    draw()\n", "    draw()\n    torch.manual_seed(0)\n"),
    ],
    ids=[
        "on a number of another generator",
        "on a loop with another generator",
        "without shuffle",
        "if the seed is set again",
    ],
)
def test_the_order_hangs_on_what_came_before__but_not(
    snippet, old, new, fails
):
    """Numbers from another generator, no `shuffle`, or the seed set again
    leave the order as it was.
    """
    fails(test_the_order_hangs_on_what_came_before, snippet.edit(old, new))


def test_an_own_generator_keeps_the_order(snippet, seed=2):
    run = snippet.after("same-order")
    nothing, number, loop = run.own.values()

    assert nothing == number == loop
    assert sorted(nothing) == list(range(10)) != nothing
    assert nothing != run.shared["nothing"]
    states = []
    own = torch.Generator().manual_seed(1)
    run.shuffled_after(lambda: states.append(torch.get_rng_state()), own)
    assert torch.equal(torch.get_rng_state(), *states)
    epochs = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(seed)
        loader = DataLoader(range(20), 6, shuffle=True, generator=generator)
        for _ in range(2):
            torch.rand(1)
            epochs.append(order(list(loader)))
    assert epochs[:2] == epochs[2:]
    assert epochs[0] != epochs[1]


def test_an_own_generator_keeps_the_order__also_for_another_seed(snippet):
    test_an_own_generator_keeps_the_order(snippet, 30)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", generator=generator)", ")"),
        ("torch.Generator().manual_seed(1)", "torch.default_generator"),
        ("shuffle=True, generator", "shuffle=False, generator"),
        (
            "print(*shared.items()",
            "own['nothing'] = shuffled_after(list, torch.Generator())\n"
            "print(*shared.items()",
        ),
    ],
    ids=[
        "without a generator",
        "with the one of the CPU",
        "without shuffle",
        "with another seed",
    ],
)
def test_an_own_generator_keeps_the_order__but_not(snippet, old, new, fails):
    """Without a generator, or with torch's own, earlier draws count; the
    others do not shuffle, or use another seed.
    """
    fails(test_an_own_generator_keeps_the_order, snippet.edit(old, new))


def epochs_of(count, size, seed, **options):
    torch.manual_seed(seed)
    loader = DataLoader(range(count), size, shuffle=True, **options)
    return [list(chain(*loader.batch_sampler)) for _ in range(30)]


def test_shuffled_epochs_drop_others(snippet, count=10, size=4, seed=0):
    run = snippet.after("dropped")
    whole = epochs_of(count, size, seed)
    kept = epochs_of(count, size, seed, drop_last=True)

    for each, epoch in zip(run.dropped, run.orders["training"], strict=True):
        assert len(each) == 2
        assert set(each) == set(range(10)) - {*chain(*epoch)}
    assert not set.intersection(*map(set, run.dropped))
    for some, all_indices in zip(kept, whole, strict=True):
        assert some == all_indices[: count // size * size]
    assert set(chain(*kept)) == set(range(count))


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("size", [3, 7, 19, 20])
def test_shuffled_epochs_drop_others__also_for(snippet, size, seed):
    test_shuffled_epochs_drop_others(snippet, 20, size, seed)


def test_shuffled_epochs_drop_others__ends_for_less_than_a_batch(
    snippet, fails
):
    """With fewer samples than a batch: every epoch drops all of them."""
    fails(test_shuffled_epochs_drop_others, snippet, 3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shuffle=True, drop_last=True", "shuffle=False, drop_last=True"),
        ("shuffle=True, drop_last=True", "shuffle=True, drop_last=False"),
        (
            "list(training.batch_sampler) for _ in",
            "[torch.manual_seed(0), *training.batch_sampler][1:] for _ in",
        ),
    ],
    ids=["without shuffle", "without drop_last", "with the seed set again"],
)
def test_shuffled_epochs_drop_others__but_not(snippet, old, new, fails):
    """Without `shuffle`, or from one seed, the same samples are dropped each
    time; without `drop_last`, none.
    """
    fails(test_shuffled_epochs_drop_others, snippet.edit(old, new))


def test_unshuffled_epochs_drop_the_same(snippet, count=10, size=4):
    run = snippet.after("dropped")
    loader = DataLoader(range(count), size, drop_last=True)

    assert run.always_dropped == [[8, 9]] * 3
    kept = list(range(count // size * size))
    for _ in range(3):
        assert order(list(loader)) == kept


@pytest.mark.parametrize(("count", "size"), [(7, 3), (9, 8)], ids=str)
def test_unshuffled_epochs_drop_the_same__also_for(snippet, count, size):
    test_unshuffled_epochs_drop_the_same(snippet, count, size)


@pytest.mark.parametrize(
    "change",
    [", shuffle=True", ", sampler=torch.randperm(10).tolist()"],
    ids=["shuffled", "with a sampler"],
)
def test_unshuffled_epochs_drop_the_same__but_not(snippet, change, fails):
    """`shuffle=True` drops others in each epoch, and a sampler drops those at
    its own end.
    """
    edited = snippet.edit(
        "DataLoader(range(10), 4, drop_last=True",
        f"DataLoader(range(10), 4, drop_last=True{change}",
    )
    fails(test_unshuffled_epochs_drop_the_same, edited)


def test_batch_norm_needs_two_rows(snippet, width=3, **options):
    run = snippet.after("batch-of-one")
    norm = nn.BatchNorm1d(width, **options)

    assert type(run.norm) is nn.BatchNorm1d
    assert isinstance(run.refusal, ValueError)
    assert "more than 1 value per channel" in str(run.refusal)
    assert run.sizes == [4, 4]
    with no_error():
        norm(torch.randn(2, width))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        norm(torch.randn(1, width))


@pytest.mark.parametrize(
    "options",
    [
        {"width": 1},
        {"momentum": None},
        {"affine": False},
        {"track_running_stats": False},
    ],
    ids=["one number", "no momentum", "no weights", "no running numbers"],
)
def test_batch_norm_needs_two_rows__also_for(snippet, options):
    test_batch_norm_needs_two_rows(snippet, **options)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.randn(9, 3)", "torch.randn(10, 3)"),
        ("nn.BatchNorm1d(3), [],", "nn.BatchNorm1d(3).eval(), [],"),
        ("nn.BatchNorm1d(3), [],", "nn.LayerNorm(3), [],"),
    ],
    ids=["of two rows", "in evaluation", "of a LayerNorm"],
)
def test_batch_norm_needs_two_rows__but_not(snippet, old, new, fails):
    """Of ten rows, the last batch has two; in evaluation mode, or for a
    `LayerNorm`, one row is enough.
    """
    fails(test_batch_norm_needs_two_rows, snippet.edit(old, new))


def test_a_small_dataset_vanishes(snippet, count=3, size=4):
    run = snippet.after("vanishing")
    loader = DataLoader(range(count), size, drop_last=True, shuffle=True)

    assert len(run.few) == 3
    assert run.vanished == []
    with no_error():
        assert list(loader) == []
    assert len(loader) == 0


@pytest.mark.parametrize(("count", "size"), [(1, 2), (31, 32)], ids=str)
def test_a_small_dataset_vanishes__also_for(snippet, count, size):
    test_a_small_dataset_vanishes(snippet, count, size)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "few, batch_size=4",
            "few, collate_fn=pad, batch_size=3",
        ),
        (
            "few, batch_size=4, drop_last=True",
            "range(3), batch_size=4",
        ),
    ],
    ids=["of as many as a batch", "without drop_last"],
)
def test_a_small_dataset_vanishes__but_not(snippet, old, new, fails):
    """Three samples fill a batch of three; and without `drop_last`, they come
    as a smaller batch.
    """
    fails(test_a_small_dataset_vanishes, snippet.edit(old, new))


def test_weights_balance_the_classes(snippet, stars=None):
    edited = snippet
    if stars is not None:
        edited = snippet.edit("stars = [1, 0, 1, 0, 0,", f"stars = [{stars},")
    run = edited.after("rare")
    counts = Counter(run.stars)

    torch.manual_seed(1)
    for draws in (run.drawn, run.classes[list(run.balanced)]):
        shares = draws.bincount() / len(draws)
        expected = [1 / len(counts)] * len(counts)
        assert shares.tolist() == pytest.approx(expected, abs=0.06)
    assert run.weights.tolist() == pytest.approx(
        [1 / counts[star] for star in run.stars]
    )


@pytest.mark.parametrize("stars", ["2, 1, 1, 2, 2", "0, 0, 0, 1, 0"], ids=str)
def test_weights_balance_the_classes__also_for(snippet, stars):
    test_weights_balance_the_classes(snippet, stars)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1 / classes.bincount()[classes]", "torch.ones(10)"),
        ("1 / classes.bincount()", "1 / classes.bincount().sqrt()"),
        ("weights, num_samples=1000", "weights, 10, replacement=False"),
        (
            "WeightedRandomSampler(weights, num_samples=1000)",
            "RandomSampler(reviews, replacement=True, num_samples=1000)",
        ),
    ],
    ids=[
        "with equal weights",
        "with the square root",
        "without replacement",
        "without weights",
    ],
)
def test_weights_balance_the_classes__but_not(snippet, old, new, fails):
    """Equal weights, square roots or no weights leave the rare class rare;
    without replacement, each comes once.
    """
    fails(test_weights_balance_the_classes, snippet.edit(old, new))


def test_weighted_draws_repeat(snippet, count=10):
    balanced = snippet.after("rare").balanced
    torch.manual_seed(0)
    epoch = list(WeightedRandomSampler(torch.ones(count), count))

    assert len(list(balanced)) > len(set(balanced))
    assert balanced.replacement
    assert len(epoch) == count
    assert len(set(epoch)) < count


@pytest.mark.parametrize("count", [20, 1000])
def test_weighted_draws_repeat__also_for(snippet, count):
    test_weighted_draws_repeat(snippet, count)


def test_weighted_draws_repeat__but_not_when_told(snippet, fails):
    """`replacement=False` draws each sample at most once."""
    edited = snippet.edit(
        "weights, num_samples=1000", "weights, 10, replacement=False"
    )
    fails(test_weighted_draws_repeat, edited)


def test_a_sampler_excludes_shuffle(snippet, sampler=(2, 1)):
    run = snippet.after("sampler-and-shuffle")

    assert isinstance(run.exclusive, ValueError)
    excluded = "sampler option is mutually exclusive with shuffle"
    assert str(run.exclusive) == excluded
    with pytest.raises(ValueError, match=f"^{excluded}$"):
        DataLoader(run.reviews, sampler=sampler, shuffle=True)
    with no_error():
        DataLoader(run.reviews, sampler=sampler)


@pytest.mark.parametrize(
    "sampler",
    [[0], torch.utils.data.SequentialSampler([1, 2])],
    ids=["a list", "a SequentialSampler"],
)
def test_a_sampler_excludes_shuffle__also_for(snippet, sampler):
    test_a_sampler_excludes_shuffle(snippet, sampler)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sampler=balanced, shuffle=True", "sampler=balanced, shuffle=False"),
        ("sampler=balanced, shuffle=True", "shuffle=True"),
    ],
    ids=["without shuffle", "without a sampler"],
)
def test_a_sampler_excludes_shuffle__but_not(snippet, old, new, fails):
    """Either is fine alone: a sampler, or `shuffle=True`."""
    edited = snippet.edit(old, new).edit(
        "    exclusive = error\n\nprint",
        "    exclusive = error\nelse:\n    exclusive = None\n\nprint",
    )
    fails(test_a_sampler_excludes_shuffle, edited)


def test_similar_lengths_pad_less(snippet, lengths=(3, 1, 2, 2, 5), size=2):
    run = snippet.after("less-padding")
    sampler = run.ByLength(list(lengths), size)

    assert run.padding == {"as they come": 9, "by length": 1}
    orders, companies = set(), set()
    for _ in range(100):
        batches = list(sampler)
        assert all(type(index) is int for index in chain(*batches))
        assert sorted(chain(*batches)) == list(range(len(lengths)))
        assert len(batches) == len(sampler)
        ranges = sorted(
            (min(lengths[i] for i in each), max(lengths[i] for i in each))
            for each in batches
        )
        for (_, before), (after, _) in pairwise(ranges):
            assert before <= after
        orders.add(tuple(max(lengths[i] for i in each) for each in batches))
        companies.add(frozenset(map(frozenset, batches)))
    longest = {max(lengths[i] for i in each) for each in batches}
    if len(longest) == len(batches) <= 3:  # each order is known by these
        assert len(orders) == math.factorial(len(batches))
    assert len(orders) > 1
    assert len(companies) > 1
    seen = [index for batch in run.by_length.batch_sampler for index in batch]
    assert sorted(seen) == list(range(10))


@pytest.mark.parametrize("size", [3, 7])
@pytest.mark.parametrize(
    "longer", [1, 1000], ids="lengths up to 9 * {}".format
)
def test_similar_lengths_pad_less__also_for(snippet, size, longer):
    lengths = [each * longer for each in (9, 1, 4, 4, 4, 2, 4, 4, 7, 4)]
    test_similar_lengths_pad_less(snippet, lengths, size)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".argsort()]", ".argsort().argsort()]"),
        ("torch.randperm(len(batches))", "range(len(batches))"),
        ("batches[i].tolist()", "batches[0].tolist()"),
        (
            "torch.randperm(len(self.lengths))",
            "torch.arange(len(self.lengths))",
        ),
    ],
    ids=[
        "unsorted",
        "in order",
        "once for each review",
        "with the same company",
    ],
)
def test_similar_lengths_pad_less__but_not(snippet, old, new, fails):
    """Unsorted, the padding is back; the other edits repeat a batch, or keep
    the same order or neighbors.
    """
    fails(test_similar_lengths_pad_less, snippet.edit(old, new))


def test_a_whole_batch_is_one_call(snippet, size=4, shuffle=False, wrap=None):
    run = snippet.after("whole-batches-read")

    class Watched(run.Table):
        def __getitem__(self, index):
            pytest.fail("asked for one sample")

    table = Watched(torch.arange(20.0).reshape(10, 2))
    dataset = wrap(table) if wrap else table
    batches = list(DataLoader(dataset, size, shuffle=shuffle))

    assert len(table.asked) == len(batches) == math.ceil(10 / size)
    for indices, batch in zip(table.asked, batches, strict=True):
        assert isinstance(indices, list)
        assert batch.equal(table.rows[indices])
    assert run.table.asked == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert torch.cat(run.wholes).equal(run.table.rows)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("size", [1, 10])
def test_a_whole_batch_is_one_call__also_for(snippet, size, shuffle):
    test_a_whole_batch_is_one_call(snippet, size, shuffle)


def test_a_whole_batch_is_one_call__ends_without_batch_size(snippet, fails):
    """With `batch_size=None`: single samples are asked for."""
    fails(test_a_whole_batch_is_one_call, snippet, None)


def test_a_whole_batch_is_one_call__also_in_a_subset(snippet):
    def whole(table):
        return Subset(table, range(10))

    test_a_whole_batch_is_one_call(snippet, wrap=whole)


def test_a_whole_batch_is_one_call__ends_in_a_concat_dataset(snippet, fails):
    """In a `ConcatDataset`: single samples are asked for."""

    def alone(table):
        return ConcatDataset([table])

    fails(test_a_whole_batch_is_one_call, snippet, 4, False, alone)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "self.asked.append(indices)",
            "self.asked += [[index] for index in indices]",
        ),
        (
            "def __getitems__(self, indices):\n"
            "        self.asked.append(indices)\n"
            "        return list(self.rows[indices])",
            "def __getitem__(self, index):\n"
            "        self.asked.append([index])\n"
            "        return self.rows[index]",
        ),
    ],
    ids=["one by one all the same", "without it"],
)
def test_a_whole_batch_is_one_call__but_not(snippet, old, new, fails):
    """With one index at a time, or without `__getitems__`, ten single samples
    are asked for.
    """
    fails(test_a_whole_batch_is_one_call, snippet.edit(old, new))


def test_a_worker_cannot_resize(snippet, sizes=(3, 2, 1, 3)):
    run = snippet.after("in-a-worker")
    refusal = "RuntimeError: Trying to resize storage that is not resizable"
    other = "RuntimeError: stack expects each tensor to be equal size"
    loader = DataLoader(tensors_of(sizes), len(sizes), **run.in_worker)

    assert run.not_resizable == refusal
    try:
        text = str(next(iter(loader)))
    except RuntimeError as error:
        error.with_traceback(None)  # which still holds the worker
        text = str(error)
    is_short = sum(sizes) < len(sizes) * sizes[0]
    assert (refusal if is_short else other) in text


@pytest.mark.parametrize("sizes", [(2, 1), (1, 3), (2, 1, 3)], ids=str)
def test_a_worker_cannot_resize__also_for(snippet, sizes):
    test_a_worker_cannot_resize(snippet, sizes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"num_workers": 1, "multiprocessing_context": "fork"}', "{}"),
        ("DataLoader(reviews[2:]", "DataLoader(reviews[4:]"),
    ],
    ids=["without a worker", "behind a short one"],
)
def test_a_worker_cannot_resize__but_not(snippet, old, new, fails):
    """Without a worker, it is `stack` that raises, and so it does behind a
    review that is shorter than the rest.
    """
    fails(test_a_worker_cannot_resize, snippet.edit(old, new))
