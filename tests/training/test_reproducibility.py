"""The claims of docs/training/reproducibility.md."""

import copy
import multiprocessing
import os
import random
import subprocess
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.worlds import DTYPES, MODELS, each

TRAINING = "imports", "seed-everything", "trips", "model", "fit", "train"


@pytest.fixture
def one_thread_again():
    yield
    torch.set_num_threads(1)


def training(snippet, *cells):
    """Run what trains, and other cells, without the trainings between."""
    return snippet.only(*TRAINING, "same", *cells)


def brief(snippet):
    """Run what trains, two epochs long: each starts its workers anew."""
    return training(snippet.edit("range(5)", "range(2)")).after("same")


def numbers(model):
    return [p.detach().clone() for p in model.parameters()]


def are_equal(one, other):
    """Compare to the last bit, in a way that is not the snippet's."""
    pairs = zip(numbers(one), numbers(other), strict=True)
    return all((a == b).all() for a, b in pairs)


# Do this


def test_the_same_seed_the_same_weights(snippet, seed=0, **options):
    run = brief(snippet) if options else training(snippet).after("same")

    first = run.train(seed, **options)
    random.seed(8), np.random.seed(8), torch.manual_seed(8), torch.rand(3)
    again = run.train(seed, **options)
    other = run.train(seed + 1, **options)

    assert are_equal(first, again)
    assert not are_equal(first, other)
    assert not torch.backends.cudnn.benchmark
    assert torch.are_deterministic_algorithms_enabled()


def trained_anew(trips):
    """Return weights after a training with a loop of the test's own."""
    random.seed(2), np.random.seed(2), torch.manual_seed(2)
    layers = nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1)
    model = nn.Sequential(*layers)
    order = torch.Generator().manual_seed(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    options = {"shuffle": True, "generator": order}
    for inputs, targets in chain(*[DataLoader(trips, 16, **options)] * 5):
        errors = (model(inputs) - targets).square()
        model.zero_grad()
        errors.mean().backward()
        optimizer.step()
    return model


def test_the_same_seed_the_same_weights__also_as_in_another_loop(snippet):
    run = training(snippet).after("same")

    trips = run.Trips()
    known = torch.randn(64, 3, generator=torch.Generator().manual_seed(7))
    assert torch.equal(trips.seen, known)
    assert torch.equal(trips.late, 5 + known.sum(1)[:, None] ** 2)
    random.seed(0), np.random.seed(0)
    scale, shift = random.uniform(0.9, 1.1), np.random.normal(0, 0.1)
    random.seed(0), np.random.seed(0)
    assert torch.equal(trips[3][0], known[3] * scale + shift)
    assert torch.equal(trips[3][1], trips.late[3])
    expected = nn.utils.parameters_to_vector(trained_anew(trips).parameters())
    found = nn.utils.parameters_to_vector(run.train(2).parameters())
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_the_same_seed_the_same_weights__also_after_another_training(snippet):
    torch.backends.cudnn.benchmark = True
    run = snippet.after("check")

    assert are_equal(run.first, run.second)
    assert not torch.backends.cudnn.benchmark
    expected = run.train(2)
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    run.fit(run.new_model(), 5)
    assert are_equal(run.train(2), expected)


@edits(
    ("random", "(seed):\n    random.seed(seed)\n", "(seed):\n"),
    ("NumPy", "    np.random.seed(seed)\n", ""),
    (
        "torch",
        "np.random.seed(seed)\n    torch.manual_seed(seed)\n",
        "np.random.seed(seed)\n",
    ),
    (
        "a generator of the loader",
        "order = torch.Generator().manual_seed(seed)",
        "order = torch.Generator().manual_seed(torch.seed())",
    ),
)
def test_the_same_seed_the_same_weights__but_not_without(
    snippet, old, new, fails
):
    """Leave one of the four generators without its seed, here that of
    `random`, and two runs differ.
    """
    fails(test_the_same_seed_the_same_weights, snippet.edit(old, new))


def test_the_same_seed_the_same_weights__ends_with_an_unseeded_generator(
    snippet, fails
):
    """With an unseeded generator, such as `np.random.default_rng()`: two runs
    differ.
    """
    edited = snippet.edit(
        "np.random.normal(0, 0.1)\n        return self.seen",
        "np.random.default_rng().normal(0, 0.1)\n        return self.seen",
    )
    fails(test_the_same_seed_the_same_weights, edited)


def test_the_same_seed_the_same_weights__but_not_with_one_seed_for_all(
    snippet, fails
):
    """With `seed = 0` inside `train`, another seed gives the same weights."""
    edited = snippet.edit(
        "def train(seed, **options):\n",
        "def train(seed, **options):\n    seed = 0\n",
    )
    fails(test_the_same_seed_the_same_weights, edited)


def changed(model, change):
    other = copy.deepcopy(model)
    with torch.no_grad():
        change(other)
    return other


def last_bit(tensor):
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    tensor.view(-1)[:1].view(integer[tensor.itemsize]).add_(1)


def normed():
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


def test_same_sees_the_last_bit(snippet, make=normed, another=None):
    run = snippet.only("imports", "same").after("same")
    model = make()

    assert run.same(model, copy.deepcopy(model)) is True
    if another:
        assert run.same(model, changed(model, another)) is False
    for name in model.state_dict():

        def change(other, name=name):
            tensor = other.state_dict()[name]
            if tensor.is_floating_point():
                last_bit(tensor)
            else:
                tensor += 1

        assert run.same(model, changed(model, change)) is False
    more = nn.Sequential(*copy.deepcopy(model), nn.Linear(1, 1))
    assert run.same(model, more) is False
    assert run.same(more, model) is False
    assert run.same(nn.Linear(1, 2), nn.Linear(2, 2)) is False


@pytest.mark.parametrize(
    ("name", "shape"),
    [("scale", (3,)), ("weight", ()), ("weight", (1,)), ("weight", (1, 3))],
    ids=["another name", "no axis", "a single number", "two axes"],
)
def test_same_sees_the_last_bit__also_with_equal_numbers(snippet, name, shape):
    run = snippet.only("imports", "same").after("same")

    def holding(name, shape):
        model = nn.Module()
        model.register_parameter(name, nn.Parameter(torch.ones(shape)))
        return model

    model, other = holding("weight", (3,)), holding(name, shape)
    with no_error():
        assert run.same(model, other) is False
        assert run.same(other, model) is False
        assert run.same(model, holding("weight", (3,))) is True


def large(dtype):
    """Return a model with weights that other types cannot tell apart."""
    model = normed().to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.finfo(dtype).max / 8)
    return model


@each("dtype", DTYPES)
def test_same_sees_the_last_bit__also_in(snippet, dtype):
    test_same_sees_the_last_bit(snippet, lambda: normed().to(dtype))
    test_same_sees_the_last_bit(snippet, lambda: large(dtype))


@each("make", MODELS, "tied", "frozen in part", "with BatchNorm")
def test_same_sees_the_last_bit__also_of_a_model(snippet, make):
    test_same_sees_the_last_bit(snippet, lambda: nn.Sequential(make()))


class Unsaved(nn.Module):
    """A layer whose buffer is not in its state."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.rand(2), persistent=False)


def double_it(model):
    model.double()


def turn_the_sign_of_zeros(model):
    model[0].bias.neg_()


def zeros():
    model = normed()
    nn.init.zeros_(model[0].bias)
    return model


def change_the_table(model):
    model.table += 1


def test_same_sees_the_last_bit__ends_for_another_dtype(snippet, fails):
    """For another dtype: after `double()`, all numbers are equal, and count as
    the same.
    """
    fails(test_same_sees_the_last_bit, snippet, normed, double_it)


def test_same_sees_the_last_bit__ends_for_zeros_of_two_signs(snippet, fails):
    """For zeros: `0.0` and `-0.0` are equal, and count as the same."""
    given = zeros, turn_the_sign_of_zeros
    fails(test_same_sees_the_last_bit, snippet, *given)


def test_same_sees_the_last_bit__ends_for_buffers_that_are_not_saved(
    snippet, fails
):
    """For buffers with `persistent=False`: `state_dict()` leaves them out, so
    they are not compared.
    """
    given = Unsaved, change_the_table
    fails(test_same_sees_the_last_bit, snippet, *given)


@edits(
    ("close", "torch.equal(one", "torch.allclose(one"),
    ("one for all", "and all(", "and any("),
    ("no names", "one.keys() == other.keys()", "len(one) <= len(other)"),
    (
        "no buffers",
        "one.state_dict(), other.state_dict()",
        "dict(one.named_parameters()), dict(other.named_parameters())",
    ),
)
def test_same_sees_the_last_bit__but_not_with(snippet, old, new, fails):
    """`allclose` overlooks the last bit; the other edits overlook other
    numbers, names or buffers.
    """
    fails(test_same_sees_the_last_bit, snippet.edit(old, new))


def test_nan_is_never_the_same(snippet, part=0):
    run = snippet.only("imports", "same").after("same")
    fill = torch.nn.init.constant_
    bare = changed(normed(), lambda it: fill(it[part].bias, torch.nan))

    assert run.same(bare, bare) is False
    assert run.same(bare, copy.deepcopy(bare)) is False


@pytest.mark.parametrize("layer", [1, 2])
def test_nan_is_never_the_same__also_in_layers(snippet, layer):
    test_nan_is_never_the_same(snippet, layer)


def test_nan_is_never_the_same__but_not_with_equal_nan(snippet, fails):
    """With `equal_nan=True`, NaN counts as equal to NaN."""
    edited = snippet.edit(
        "torch.equal(one[name], other[name])",
        "one[name].shape == other[name].shape\n        and torch.allclose("
        "one[name], other[name], 0, 0, equal_nan=True)",
    )
    fails(test_nan_is_never_the_same, edited)


def test_seed_everything_leaves_the_rest(snippet, own=torch.Generator):
    run = snippet.only("imports", "seed-everything").after("seed-everything")
    generator, known = own(), np.random.default_rng(3)
    twister = random.Random(3)
    states = generator.get_state(), str(known.bit_generator.state)
    state, threads = twister.getstate(), torch.get_num_threads()

    before = {**os.environ}
    for value in (None, "5", "random"):
        if value:
            os.environ["PYTHONHASHSEED"] = value
        known_now = {**os.environ}
        run.seed_everything(0)
        found = {**os.environ}
        os.environ.clear()
        os.environ.update(before)
        assert found == known_now
    assert torch.equal(generator.get_state(), states[0])
    assert str(known.bit_generator.state) == states[1]
    assert twister.getstate() == state
    assert torch.get_num_threads() == threads


@edits(
    (
        "the hash seed",
        "    random.seed(seed)\n    np",
        "    os.environ['PYTHONHASHSEED'] = '0'\n"
        "    random.seed(seed)\n    np",
    ),
    (
        "the number of threads",
        "    random.seed(seed)\n    np",
        "    torch.set_num_threads(3)\n    random.seed(seed)\n    np",
    ),
)
@pytest.mark.usefixtures("one_thread_again")
def test_seed_everything_leaves_the_rest__but_not_with(
    snippet, old, new, fails
):
    """Add a line that sets `PYTHONHASHSEED` or the number of threads, and it
    does.
    """
    fails(test_seed_everything_leaves_the_rest, snippet.edit(old, new))


def test_seed_everything_leaves_the_rest__ends_for_the_default_one(
    snippet, fails
):
    """For torch's default generator, which you did not make: it is seeded."""
    fails(
        test_seed_everything_leaves_the_rest,
        snippet,
        lambda: torch.default_generator,
    )


# What each seed reaches

SOURCES = "imports", "seed-everything", "sources", "seeds"
BY_TORCH = "initial weights", "shuffled order", "dropout"


def test_each_library_has_its_own_seed(snippet):
    run = snippet.only(*SOURCES).after("seeds")

    reach = {
        "random.seed": ["random"],
        "np.random.seed": ["np.random"],
        "torch.manual_seed": BY_TORCH,
        "seed_everything": ["random", "np.random", *BY_TORCH],
    }
    for seed, reached in reach.items():
        for name in ("random", "np.random", *BY_TORCH):
            repeated = run.repeats(run.seeds[seed], run.sources[name])
            assert repeated == (name in reached), (seed, name)
    assert not run.repeats(lambda seed: None, lambda: torch.rand(1))


@edits(
    ("random", "np.random.seed(seed)\n    torch", "torch"),
    ("a fixed drop", "F.dropout(torch.ones(30))", "torch.ones(30)"),
    ("no shuffle", "range(20), shuffle=True", "range(20)"),
    ("fixed weights", "nn.Linear(2, 4).weight", "torch.ones(2)"),
    (
        "torch for random",
        '"random": random.random',
        '"random": lambda: torch.rand(1)',
    ),
    (
        "torch for NumPy",
        '"np.random": np.random.rand',
        '"np.random": lambda: torch.rand(1)',
    ),
)
def test_each_library_has_its_own_seed__but_not_with(snippet, old, new, fails):
    """Without `np.random.seed`, NumPy is not seeded; the other edits draw
    nothing at random, or draw from torch.
    """
    fails(test_each_library_has_its_own_seed, snippet.edit(old, new))


def draws_with_both(run):
    """Expect the dataset to draw one number of `random`, one of NumPy."""
    random.seed(3), np.random.seed(3)
    expected = torch.tensor([random.random(), np.random.rand()])
    random.seed(3), np.random.seed(3)
    assert run.Noise()[0].tolist() == expected.tolist()


def test_a_worker_follows_torch(snippet):
    run = snippet.only(*SOURCES).after("seeds")
    drawn = run.sources["both in a worker"]

    draws_with_both(run)
    for seed in (torch.manual_seed, run.seed_everything):
        seed(3)
        first = drawn().tolist()
        seed(3)
        assert drawn().tolist() == first
    assert not run.repeats(random.seed, drawn)
    assert not run.repeats(np.random.seed, drawn)
    torch.manual_seed(1)
    first = drawn()
    assert first.shape == (4, 2)
    assert len(first.unique()) == 8


@edits(
    ("in the main process", "Noise(), 4, **worker", "Noise(), 4"),
    (
        "a fresh generator",
        "np.random.rand()]",
        "np.random.default_rng().random()]",
    ),
    (
        "no seed of torch",
        "np.random.seed(seed)\n    torch.manual_seed(seed)\n",
        "np.random.seed(seed)\n",
    ),
)
def test_a_worker_follows_torch__but_not_with(snippet, old, new, fails):
    """Without a worker, each library follows its own seed; in one, a fresh
    generator follows none, and nothing repeats without torch's seed.
    """
    fails(test_a_worker_follows_torch, snippet.edit(old, new))


def test_a_worker_follows_the_generator(snippet):
    run = snippet.only(*SOURCES).after("seeds")
    generator = torch.Generator()
    options = {**run.worker, "generator": generator}

    def drawn():
        (found,) = DataLoader(run.Noise(), 4, **options)
        return found

    draws_with_both(run)
    assert run.repeats(generator.manual_seed, drawn)
    assert not run.repeats(run.seed_everything, drawn)


@edits(
    (
        "in the main process",
        '{"num_workers": 1, "multiprocessing_context": "fork"}',
        '{"num_workers": 0}',
    ),
    ("a fresh generator", "random.rand()]", "random.default_rng().random()]"),
)
def test_a_worker_follows_the_generator__but_not_with(
    snippet, old, new, fails
):
    """Without a worker, each library follows its own seed; and a fresh NumPy
    generator follows none.
    """
    fails(test_a_worker_follows_the_generator, snippet.edit(old, new))


def test_a_fresh_generator_escapes(snippet):
    run = snippet.only(*SOURCES).after("seeds")
    drawn = run.sources["np.random.default_rng()"]

    assert len(run.seeds) == 4
    for seed in run.seeds.values():
        assert not run.repeats(seed, drawn)


def test_a_fresh_generator_escapes__but_not_with_a_seed(snippet, fails):
    """With a seed as its argument, it draws the same number each time."""
    edited = snippet.edit("default_rng().random", "default_rng(1).random")
    fails(test_a_fresh_generator_escapes, edited)


# One number more


def test_own_generators_stay(snippet):
    run = snippet.only("imports", "takers").after("takers")

    generator = torch.Generator().manual_seed(0)
    shared = torch.cat([*run.taken(1, apart=False).values()])
    assert torch.equal(shared, torch.rand(9, generator=generator))
    own = run.taken(1, apart=True)
    for i, (name, count) in enumerate(run.takers.items()):
        generator.manual_seed(i)
        assert torch.equal(own[name], torch.rand(count, generator=generator))
    for apart in (False, True):
        before, after = run.taken(0, apart), run.taken(1, apart)
        assert len(before.pop("extra")) == 0
        assert len(after.pop("extra")) == 1
        assert [*before] == [*after] == [*run.takers]
        for name, count in run.takers.items():
            assert len(before[name]) == count
            if apart:
                assert torch.equal(before[name], after[name])
            else:
                assert (before[name] != after[name]).all()


@edits(
    ("one for all", "own if apart else shared", "shared"),
    ("one for each", "own if apart else shared", "own"),
)
def test_own_generators_stay__but_not_with(snippet, old, new, fails):
    """With the shared generator in both cases, every part gets other numbers;
    with own ones in both, none does.
    """
    fails(test_own_generators_stay, snippet.edit(old, new))


def test_one_number_more_changes_the_weights(snippet):
    run = training(snippet, "one-more").after("one-more")

    expected = run.train(0)
    for one, other in zip(
        numbers(run.shifted), numbers(expected), strict=True
    ):
        assert (one != other).any()
    run.seed_everything(0)
    torch.rand(1)
    assert are_equal(run.shifted, run.fit(run.new_model(), 0))


def test_one_number_more_changes_the_weights__but_not_of_another_generator(
    snippet, fails
):
    """Drawn from a generator of its own, the number leaves torch's default one
    as it was.
    """
    edited = snippet.edit(
        "torch.rand(1).item())\nshifted",
        "torch.rand(1, generator=torch.Generator()).item())\nshifted",
    )
    fails(test_one_number_more_changes_the_weights, edited)


def test_fork_rng_gives_the_numbers_back(snippet):
    run = training(snippet, "fork").after("fork")

    assert are_equal(run.kept, run.train(0))


@edits(
    ("many", "(1).item())\nkept", "(1, 999).sum())\nkept"),
    ("normal", "torch.rand(1).item())\nkept", "torch.randn(1).item())\nkept"),
    ("a seed", "torch.rand(1).item())\nkept", "torch.manual_seed(5))\nkept"),
    ("a model", "torch.rand(1).item())\nkept", "new_model())\nkept"),
)
def test_fork_rng_gives_the_numbers_back__also_after(snippet, old, new):
    test_fork_rng_gives_the_numbers_back(snippet.edit(old, new))


@edits(
    ("without the block", "with torch.random.fork_rng():", "if True:"),
    (
        "switched off",
        "torch.random.fork_rng()",
        "torch.random.fork_rng(enabled=False)",
    ),
    (
        "NumPy",
        "torch.rand(1).item())\nkept",
        "np.random.rand())\nkept",
    ),
    ("random", "torch.rand(1).item())\nkept", "random.random())\nkept"),
)
def test_fork_rng_gives_the_numbers_back__but_not_with(
    snippet, old, new, fails
):
    """Without the block, or with `enabled=False`, the draw counts; one from
    NumPy or `random` counts even within it.
    """
    fails(test_fork_rng_gives_the_numbers_back, snippet.edit(old, new))


def test_fork_rng_leaves_numpy_alone(
    snippet, draws=("random.random()", "np.random.rand()")
):
    for draw in draws:
        edited = snippet.edit("torch.rand(1).item())\nkept", f"{draw})\nkept")
        run = training(edited, "fork").after("fork")
        assert not are_equal(run.kept, run.train(0))


def test_fork_rng_leaves_numpy_alone__but_not_if_seeded_again(snippet, fails):
    """Seeded once more afterwards, all generators are where they were."""
    edited = snippet.edit(
        "kept = fit(new_model(), 0)",
        "kept = seed_everything(0)\nkept = fit(new_model(), 0)",
    )
    fails(test_fork_rng_leaves_numpy_alone, edited)


@pytest.mark.parametrize("draw", ["torch.rand(1)", "torch.randperm(9)"])
def test_fork_rng_leaves_numpy_alone__ends_for_torch(snippet, fails, draw):
    """For a draw from torch: `fork_rng` undoes it."""
    fails(test_fork_rng_leaves_numpy_alone, snippet, (draw,))


# The order of a sum


def test_a_sum_depends_on_its_order(snippet):
    run = snippet.only("imports", "order").after("order")

    assert run.left == 0.6000000000000001
    assert run.right == 0.6
    a, b, c = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    assert ((a + b) + c).item() == run.left
    assert (a + (b + c)).item() == run.right


@edits(
    ("the same order", "0.1 + (0.2 + 0.3)", "(0.1 + 0.2) + 0.3"),
    ("the other order", "(0.1 + 0.2) + 0.3,", "0.1 + (0.2 + 0.3),"),
)
def test_a_sum_depends_on_its_order__but_not_in(snippet, old, new, fails):
    """Add up in the same order twice, and both results are the same."""
    fails(test_a_sum_depends_on_its_order, snippet.edit(old, new))


@pytest.mark.usefixtures("one_thread_again")
def test_the_same_threads_the_same_sum(snippet, laid_out=torch.clone):
    torch.use_deterministic_algorithms(False)
    run = snippet.only("imports", "threads", "summed").after("summed")

    assert torch.get_num_threads() == 1
    generator = torch.Generator().manual_seed(0)
    known = laid_out(torch.randn(10, 100_000, generator=generator))
    assert torch.equal(run.delays, known)
    for mode in (False, True):
        torch.use_deterministic_algorithms(mode)
        one, two = run.sums(1), run.sums(2)
        assert torch.equal(one, run.one)
        assert torch.equal(two, run.two)
        assert torch.equal(one, torch.stack([row.sum() for row in known]))
        torch.set_num_threads(2)
        assert torch.equal(two, torch.stack([row.sum() for row in known]))
        torch.set_num_threads(1)


@edits(
    ("noise", "row.sum() for", "(row + torch.rand(1)).sum() for"),
    ("a share for each thread", "row.sum() for", "row.sum() / threads for"),
    (
        "halves as if by two threads",
        "row.sum() for",
        "row[:: torch.get_num_threads()].sum() for",
    ),
)
def test_the_same_threads_the_same_sum__but_not_with(snippet, old, new, fails):
    """With random noise added, no sum comes out the same; the other edits make
    two threads add up something else.
    """
    fails(test_the_same_threads_the_same_sum, snippet.edit(old, new))


def in_columns(rows):
    """Return the same numbers, of which each row is a column in memory."""
    return rows.T.contiguous().T


@pytest.mark.usefixtures("one_thread_again")
def test_the_same_threads_the_same_sum__ends_in_a_column(snippet, fails):
    """If the same numbers lie in columns in memory: some sums have other
    bits.
    """
    fails(test_the_same_threads_the_same_sum, snippet, in_columns)


@pytest.mark.usefixtures("one_thread_again")
def test_other_threads_stay_close(snippet):
    set_to = []
    with patch("torch.set_num_threads", set_to.append):
        run = snippet.only("imports", "threads", "summed").after("summed")
    before = torch.get_num_threads()
    assert set_to == [1, before, 2, before]

    run = snippet.only("imports", "threads", "summed").after("summed")
    assert run.delays.shape == (10, 100_000)
    assert run.one.shape == (10,)
    torch.testing.assert_close(run.one, run.two, rtol=0, atol=0.01)
    exact = run.delays.double().sum(dim=1).float()
    torch.testing.assert_close(run.one, exact, rtol=0, atol=0.01)


@edits(
    ("a share for each thread", "row.sum() for", "row.sum() / threads for"),
    ("16 bits", "row.sum() for", "row.half().sum().float() * threads for"),
)
def test_other_threads_stay_close__but_not_with(snippet, old, new, fails):
    """Divided or multiplied by the number of threads, the sums differ by far
    more.
    """
    fails(test_other_threads_stay_close, snippet.edit(old, new))


def test_a_row_alone_stays_close(snippet):
    run = snippet.only("imports", "alone").after("alone")

    assert run.together.shape == run.alone.shape == (64, 16)
    assert not run.alone.requires_grad
    torch.manual_seed(0)
    assert torch.equal(run.layer.weight, nn.Linear(512, 16).weight)
    assert torch.equal(run.days, torch.randn(64, 512))
    assert (run.together - run.alone).abs().max() < 0.00001
    expected = F.linear(run.days.double(), run.layer.weight.double())
    expected += run.layer.bias.double()
    torch.testing.assert_close(run.alone.double(), expected, rtol=0, atol=1e-5)
    alone = torch.cat([run.layer(row[None]) for row in run.days])
    assert torch.equal(run.alone, alone)


@edits(
    ("twice", "layer(day[None]) for", "2 * layer(day[None]) for"),
    ("fewer digits", "layer(day[None]) for", "layer(day[None]).half() for"),
)
def test_a_row_alone_stays_close__but_not_with(snippet, old, new, fails):
    """Doubled, or rounded to 16-bit floats, the outputs for a row alone differ
    by more.
    """
    fails(test_a_row_alone_stays_close, snippet.edit(old, new))


# What goes wrong


TEXT = (
    "does not have a deterministic implementation, but you set"
    " 'torch.use_deterministic_algorithms(True)'"
)


def refusal(call):
    """Return the text of the error, or "" if there is none."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def unpooled(dimensions):
    pools = nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d
    unpools = nn.MaxUnpool1d, nn.MaxUnpool2d, nn.MaxUnpool3d
    pool = pools[dimensions - 1](2, return_indices=True)
    return unpools[dimensions - 1](2)(
        *pool(torch.rand(1, 1, *[4] * dimensions))
    )


def test_unpooling_is_refused(snippet, dimensions=(1, 2, 3)):
    run = snippet.only("imports", "refused").after("refused")

    assert run.pooled[0].tolist() == [[[[5, 7], [13, 15]]]]
    assert TEXT in "".join(map(str, run.refused))
    assert TEXT in refusal(lambda: run.unpool(*run.pooled))
    for count in dimensions:
        assert TEXT in refusal(lambda count=count: unpooled(count))


@edits(
    ("the mode off", "(True)\nimage", "(False)\nimage"),
    (
        "a layer of another kind",
        "nn.MaxUnpool2d(2), []",
        "(lambda x, at: x), []",
    ),
)
def test_unpooling_is_refused__but_not_with(snippet, old, new, fails):
    """With the mode off, or with a function that does nothing in its place,
    there is no error.
    """
    fails(test_unpooling_is_refused, snippet.edit(old, new))


def test_warn_only_lets_through(snippet):
    with no_error(), warnings.catch_warnings():
        warnings.simplefilter("error")
        run = snippet.only("imports", "refused", "warned").after("warned")

    (warning,) = run.caught
    text = str(warning.message)
    assert text.startswith(TEXT.partition(", ")[0], text.index(" ") + 1)
    assert run.restored[0, 0].tolist() == [
        [0, 0, 0, 0],
        [0, 5, 0, 7],
        [0, 0, 0, 0],
        [0, 13, 0, 15],
    ]
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()


def test_warn_only_lets_through__but_not_with_the_mode_off(snippet, fails):
    """With the mode off, it does not even warn."""
    edited = snippet.edit("(True, warn_only=True)", "(False)")
    fails(test_warn_only_lets_through, edited)


def test_warn_only_lets_through__but_not_without_it(snippet, fails):
    """Without `warn_only=True`, the call raises its error."""
    edited = snippet.edit("(True, warn_only=True)", "(True)")
    fails(test_warn_only_lets_through, edited)


FLOATS = torch.float16, torch.bfloat16, torch.float32, torch.float64
FLOATS += torch.float8_e4m3fn, torch.float8_e5m2
if hasattr(torch, "float8_e8m0fnu"):
    FLOATS += (torch.float8_e8m0fnu,)
INTEGERS = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64
INTEGERS += torch.uint16, torch.uint32, torch.uint64


def test_empty_is_filled(snippet, floats=FLOATS, integers=INTEGERS):
    cells = "imports", "refused", "never-written"
    run = snippet.only(*cells).after("never-written")

    assert run.empty.shape == (3,)
    assert [str(each) for each in run.empty.tolist()] == ["nan"] * 3
    for dtype in floats:
        found = torch.empty(2, 50, dtype=dtype).double().flatten().tolist()
        assert {str(each) for each in found} == {"nan"}
    for dtype in integers:
        found = torch.empty(2, 50, dtype=dtype).flatten().tolist()
        assert {*found} == {torch.iinfo(dtype).max}


def test_empty_is_filled__but_not_without_the_mode(snippet, fails):
    """With the mode off, `torch.empty` leaves what happens to be in memory."""
    edited = snippet.edit("(True)\nimage", "(False)\nimage")
    fails(test_empty_is_filled, edited)


def test_empty_is_filled__ends_for_booleans(snippet, fails):
    """For `bool`: it is filled with `True`."""
    fails(test_empty_is_filled, snippet, [torch.bool], [])


@pytest.fixture
def filling_again():
    yield
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.mark.usefixtures("filling_again")
def test_empty_is_filled__ends_if_fill_uninitialized_memory_is_off(
    snippet, fails
):
    """If `torch.utils.deterministic.fill_uninitialized_memory` is off: nothing
    is filled.
    """
    edited = snippet.edit(
        "empty = torch.empty(3)",
        "torch.utils.deterministic.fill_uninitialized_memory = False\n"
        "torch.ones(3)\nempty = torch.empty(3)",
    )
    fails(test_empty_is_filled, edited)


def test_a_late_seed_misses_the_weights(snippet):
    run = training(snippet, "late").after("late")

    ended, model = torch.get_rng_state(), run.new_model()
    run.seed_everything(0)
    run.fit(model, 0)
    assert torch.equal(torch.get_rng_state(), ended)
    first, second = run.late
    for one, other in zip(numbers(first), numbers(second), strict=True):
        assert (one != other).any()
    expected = run.train(0)
    assert not are_equal(first, expected)
    assert are_equal(run.train(0), expected)


def test_a_late_seed_misses_the_weights__also_if_all_else_is_equal(snippet):
    edited = snippet.edit(
        "    model = new_model()\n    seed_everything(0)\n",
        "    seed_everything(0)\n    model = new_model()\n",
    )
    assert are_equal(*training(edited, "late").after("late").late)


def test_a_late_seed_misses_the_weights__but_not_before_the_model(
    snippet, fails
):
    """Seeded before the model is made, both runs end with the same weights."""
    edited = snippet.edit(
        "    model = new_model()\n    seed_everything(0)\n",
        "    seed_everything(0)\n    model = new_model()\n",
    )
    fails(test_a_late_seed_misses_the_weights, edited)


def test_a_seed_in_the_loop_repeats_dropout(snippet):
    cells = "imports", "dropped", "each-epoch", "once"
    run = snippet.only(*cells).after("once")

    first, *rest = run.repeated
    assert len(rest) == 2
    assert 0 < first.sum() < 24
    assert all(torch.equal(first, each) for each in rest)
    torch.manual_seed(0)
    assert torch.equal(first, F.dropout(torch.ones(24)) > 0)
    one, two, three = run.fresh
    assert torch.equal(one, first)
    assert not torch.equal(one, two)
    assert not torch.equal(two, three)
    assert not torch.equal(one, three)


@edits(
    (
        "another seed",
        "    torch.manual_seed(0)\n        kept",
        "    torch.seed()\n        kept",
    ),
    ("never once", "        if in_each_epoch:\n    ", ""),
    ("no dropout", "F.dropout(torch.ones(24))", "torch.ones(24)"),
)
def test_a_seed_in_the_loop_repeats_dropout__but_not_with(
    snippet, old, new, fails
):
    """With `torch.seed()`, each epoch drops others; with the seed set in both
    loops, both repeat; without dropout, nothing is dropped.
    """
    fails(test_a_seed_in_the_loop_repeats_dropout, snippet.edit(old, new))


WORDS = ["fog", "hail", "rain", "snow", "sun", "wind"]


def test_a_set_has_another_order(snippet):
    run = snippet.only("imports", "words").after("words")

    with pytest.raises(subprocess.CalledProcessError):
        run.in_a_process("1", "1 / 0")
    os.environ["TOWN"] = "x"
    town = run.in_a_process("1", "import os; print(os.environ['TOWN'])")
    del os.environ["TOWN"]
    assert town == ["x"]
    orders = [run.in_a_process(seed) for seed in "123"]
    assert [run.in_a_process(seed) for seed in "123"] == orders
    assert all(sorted(order) == WORDS for order in orders)
    first, second, third = orders
    assert first != second != third != first


def test_a_set_has_another_order__also_where_it_is_set(snippet, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    test_a_set_has_another_order(snippet)


@edits(
    (
        "a list",
        "{'fog', 'hail', 'rain', 'snow', 'sun', 'wind'}",
        "['fog', 'hail', 'rain', 'snow', 'sun', 'wind']",
    ),
    (
        "a dict",
        "{'fog', 'hail', 'rain', 'snow', 'sun', 'wind'}",
        "dict.fromkeys(['fog', 'hail', 'rain', 'snow', 'sun', 'wind'])",
    ),
    ("no seed", '"PYTHONHASHSEED": hash_seed', '"PYTHONHASHSEED": "random"'),
)
def test_a_set_has_another_order__but_not_with(snippet, old, new, fails):
    """A list or a dict keeps the order that you write; and with `"random"`,
    each process has an order of its own.
    """
    fails(test_a_set_has_another_order, snippet.edit(old, new))


def test_the_hash_seed_is_read_at_the_start(snippet):
    run = snippet.only("imports", "words", "orders").after("orders")

    late = run.in_a_process("1", run.too_late)
    assert late == run.in_a_process("1")
    assert late != run.in_a_process("2")
    told = f"{run.too_late}\nprint(os.environ['PYTHONHASHSEED'])"
    assert run.in_a_process("1", told) == [*late, "2"]


def test_the_hash_seed_is_read_at_the_start__but_not_by_another_process(
    snippet, fails
):
    """If the program starts itself again, the new process reads the new
    value.
    """
    edited = snippet.edit(
        r"= '2'\nprint(*words)",
        r"= '2'\nimport sys\nif sys.argv[-1] != 'again':"
        r"\n    os.execv(sys.executable, [*sys.orig_argv, 'again'])"
        r"\nprint(*words)",
    )
    fails(test_the_hash_seed_is_read_at_the_start, edited)


def test_sorted_words_stay(snippet):
    run = snippet.only("imports", "words", "sorted").after("sorted")

    assert run.always == [WORDS, WORDS]
    assert run.in_a_process("3", "print(*sorted(words))") == WORDS
    assert run.in_a_process("1") != WORDS


def test_sorted_words_stay__but_not_by_their_hash(snippet, fails):
    """With a `sorted` that returns its input unchanged, the words come in the
    order of the set.
    """
    edited = snippet.edit(
        r"{program}\n{end}", r"sorted = lambda x: x\n{program}\n{end}"
    )
    fails(test_sorted_words_stay, edited)


# Where it ends


@pytest.mark.cuda
def test_cuda_draws_other_numbers(snippet):
    run = snippet.only("imports", "on-cuda").after("on-cuda")

    here, there = run.draws
    assert len(here) == len(there) == 3
    assert not {*here} & {*there}
    torch.manual_seed(0)
    assert torch.rand(3, device="cuda").tolist() == there


@pytest.mark.cuda
def test_cuda_draws_other_numbers__but_not_if_moved(snippet, fails):
    """Drawn on the CPU and then moved, the numbers are the same."""
    edited = snippet.edit(
        "torch.rand(3, device=device)", "torch.rand(3).to(device)"
    )
    fails(test_cuda_draws_other_numbers, edited)


def test_the_mode_stays_on(snippet):
    run = training(snippet, "refused").after("fit")
    run.seed_everything(0)
    run.fit(run.new_model(), 0)

    enabled = torch.are_deterministic_algorithms_enabled
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(enabled).result()
    assert enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()


@edits(
    (
        "never on",
        "use_deterministic_algorithms(True)\n    torch",
        "rand(1)\n    torch",
    ),
    (
        "switched off by the training",
        "optimizer.step()\n    return model",
        "optimizer.step()\n    torch.use_deterministic_algorithms(False)\n"
        "    return model",
    ),
)
def test_the_mode_stays_on__but_not_if(snippet, old, new, fails):
    """If nobody turns it on, or if the training turns it off, it is off."""
    fails(test_the_mode_stays_on, snippet.edit(old, new))


def test_the_mode_can_be_left(snippet):
    cells = "imports", "refused", "off-again"
    run = snippet.only(*cells).after("off-again")

    assert not refusal(lambda: run.unpool(*run.pooled))
    assert run.unpool(*run.pooled)[0, 0, 1].tolist() == [0, 5, 0, 7]


def test_the_mode_can_be_left__but_not_if_it_stays(snippet, fails):
    """With `True` in place of `False`, the call still raises its error."""
    edited = snippet.edit("s(False)", "s(True)")
    fails(test_the_mode_can_be_left, edited)


# Last, since they take longest: a mutant is then noticed early


def test_the_same_seed_the_same_weights__also_with_workers(snippet):
    test_the_same_seed_the_same_weights(snippet, 3, workers=1)


def test_another_number_of_workers_is_another_run(snippet, counts=(0, 1, 2)):
    run = brief(snippet)

    ends = [run.train(0, workers=count) for count in counts]
    for i, one in enumerate(ends):
        for other in ends[:i]:
            assert not are_equal(one, other)


def test_another_number_of_workers_is_another_run__but_not_without_noise(
    snippet, fails
):
    """Without the noise that the dataset draws from `random` and NumPy, 0 and
    1 workers give the same weights.
    """
    edited = snippet.edit("* noise[0] + noise[1]", "")
    fails(test_another_number_of_workers_is_another_run, edited, (0, 1))


WALKS = "imports", "trips", "model", "nudge", "walk", "apart"


def walked_anew(run, steps, seed):
    """Return a path with momentum and steps of the test's own."""
    torch.manual_seed(seed)
    model, trips, path = run.new_model(32), run.Trips(), []
    parameters = [*model.parameters()]
    speeds = [torch.zeros_like(p) for p in parameters]
    for step in range(steps):
        path.append(nn.utils.parameters_to_vector(parameters).detach())
        days = range(step % 4, 64, 4)
        errors = model(trips.seen[days]) - trips.late[days]
        slopes = torch.autograd.grad(errors.square().mean(), parameters)
        for p, speed, slope in zip(parameters, speeds, slopes, strict=True):
            speed.mul_(0.9).add_(slope)
            p.data.sub_(0.03 * speed)
    return torch.stack(path)


def test_a_bit_grows(snippet, seed=0):
    run = snippet.only(*WALKS).after("apart")

    torch.manual_seed(seed)
    path = run.walk(run.new_model(32))
    # Only the first steps, since a bit grows.
    expected = walked_anew(run, 8, seed)
    torch.testing.assert_close(path[:8], expected, rtol=1e-3, atol=1e-3)

    assert len(path) == len(run.distances) == 200
    assert not run.distances.requires_grad
    assert run.distances.max() > 10 * run.distances[0] > 0
    torch.manual_seed(seed)
    model = run.new_model(32)
    before = copy.deepcopy(model)
    run.nudge(model)
    pairs = zip(numbers(before), numbers(model), strict=True)
    moved = [(a, b) for a, b in pairs if not torch.equal(a, b)]
    ((one, other),) = moved
    assert (one != other).sum() == 1
    (at,) = (one != other).view(-1).nonzero()
    assert at == one.argmax()
    first, second = one.view(-1)[at], other.view(-1)[at]
    assert second == first.nextafter(torch.tensor(torch.inf))
    assert run.distances[0] == (second - first).abs()


def test_a_bit_grows__also_from_seed_1(snippet):
    test_a_bit_grows(snippet.edit("apart(seed=0)", "apart(seed=1)"), 1)


@edits(
    ("a far lower rate", "lr=0.03, momentum", "lr=1e-6, momentum"),
    ("the same start", "(lambda model: model, nudge)", "(nudge, nudge)"),
)
def test_a_bit_grows__but_not_with(snippet, old, new, fails):
    """At a rate of `1e-6`, the difference does not grow; from the same start,
    there is none.
    """
    fails(test_a_bit_grows, snippet.edit(old, new))


def test_four_digits_hide_a_difference(snippet):
    cells = "imports", "trips", "model", "same", "nudge", "four-digits"
    run = snippet.only(*cells).after("four-digits")

    trips, shown = run.Trips(), []
    for model in (run.model, run.other):
        assert not model.training
        loss = (model(trips.seen) - trips.late).square().mean()
        shown.append(f"{loss:.2f}")
    assert run.shown == shown
    assert shown[0] == shown[1]
    assert len(shown[0]) == len("12.34")
    assert not run.same(run.model, run.other)
    apart = [
        (one != other).sum()
        for one, other in zip(
            numbers(run.model), numbers(run.other), strict=True
        )
    ]
    assert sum(apart) == 1
    one, other = run.model[0].weight, run.other[0].weight
    up = one.nextafter(torch.tensor(torch.inf))
    assert ((one == other) | (up == other)).all()


@edits(
    (
        "the same weights",
        "nudge(copy.deepcopy(model))",
        "copy.deepcopy(model)",
    ),
    (
        "a larger step",
        "weights[largest].nextafter(torch.tensor(torch.inf))",
        "weights[largest] + 0.1",
    ),
    ("all digits", "{loss:.2f}", "{loss:.9f}"),
    (
        "a comparison that is not exact",
        "torch.equal(one",
        "torch.allclose(one",
    ),
)
def test_four_digits_hide_a_difference__but_not_with(snippet, old, new, fails):
    """Without `nudge`, or with `allclose` in `same`, the two count as the
    same; a change of 0.1 shows in the loss.
    """
    fails(test_four_digits_hide_a_difference, snippet.edit(old, new))


SEEDS = "imports", "seed-everything", "trips", "model", "fit", "many-seeds"


def test_one_seed_is_one_sample(snippet):
    run = snippet.only(*SEEDS).after("many-seeds")

    small, large = run.errors[16], run.errors[32]
    assert len(small) == len(large) == 10
    assert (small < large).sum() >= 3
    assert (large < small).sum() >= 3
    spread = min(small.std(), large.std())
    assert (small.mean() - large.mean()).abs() < spread
    run.seed_everything(4)
    model = run.fit(run.new_model(32, drop=0), 4).eval()
    trips = run.Trips()
    expected = (model(trips.seen) - trips.late).square().mean()
    assert large[4].item() == pytest.approx(expected.item())


@edits(
    (
        "a model that is worse",
        "new_model(width, drop=0), seed",
        "new_model(width // 8, drop=0), seed",
    ),
    ("one seed ten times", "error(seed, width) for", "error(0, width) for"),
)
def test_one_seed_is_one_sample__but_not_with(snippet, old, new, fails):
    """With an eighth of the units, fewer than three seeds prefer the smaller
    model; one seed ten times cannot disagree with itself.
    """
    fails(test_one_seed_is_one_sample, snippet.edit(old, new))


def test_the_same_seed_the_same_weights__also_in_another_process(snippet):
    run = training(snippet).after("same")

    def weights():
        vector = nn.utils.parameters_to_vector(run.train(4).parameters())
        return vector.tolist()

    def send():
        sender.send((os.getpid(), weights()))

    # A copy of this one: a new one takes seconds to import torch.
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    other = context.Process(target=send)
    random.seed(8), np.random.seed(8), torch.manual_seed(8)
    other.start()
    process, there = receiver.recv()
    other.join()

    assert process != os.getpid()
    random.seed(9), np.random.seed(9), torch.manual_seed(9)
    assert there == weights()
