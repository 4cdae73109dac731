"""The claims of docs/training/reproducibility.md."""

import copy
import multiprocessing
import os
import random
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers import spawns

TRAINING = "seed-everything", "train"


@pytest.fixture
def one_thread_again():
    yield
    torch.set_num_threads(1)


def training(snippet, *cells):
    """Run what trains, and other cells, without the trainings between."""
    return snippet.only(*TRAINING, *cells).after((*TRAINING, *cells)[-1])


def bits(model):
    """Return all numbers of a model, as integers, which hide no bit."""
    vector = nn.utils.parameters_to_vector(model.parameters())
    return vector.detach().view(torch.int32).tolist()


# Do this


def trained(run, seed, count=0, **options):
    """Train as the page does, after draws that should not matter."""
    random.seed(count), np.random.seed(count + 3), torch.manual_seed(count)
    with no_error():
        run.seed_everything(seed)
    return run.fit(run.new_model(), run.NoisyDigits(), epochs=1, **options)


def test_the_same_seed_the_same_weights(snippet, seed=0, **options):
    run = training(snippet)

    first, again = [trained(run, seed, i, **options) for i in (8, 9)]
    other = trained(run, seed + 1, **options)
    assert bits(first) == bits(again)
    assert bits(first) != bits(other)
    assert not torch.backends.cudnn.benchmark
    assert torch.are_deterministic_algorithms_enabled()


def test_the_same_seed_the_same_weights__also_in_the_check(snippet):
    torch.backends.cudnn.benchmark = True
    run = training(snippet, "check")

    run.seed_everything(0)
    expected = run.fit(run.new_model(), run.NoisyDigits()).state_dict()
    assert [[*each] for each in run.runs] == [[*expected]] * 2
    for each in run.runs:
        changed = [n for n in each if not torch.equal(each[n], expected[n])]
        assert changed == []


def test_the_same_seed_the_same_weights__also_with_workers(snippet):
    options = {"num_workers": 2, "multiprocessing_context": "fork"}
    test_the_same_seed_the_same_weights(snippet, 3, **options)


def test_the_same_seed_the_same_weights__also_for_what_it_trains_on(snippet):
    run = training(snippet)
    assert len(run.NoisyDigits()) == len(run.digits) == 500

    random.seed(0), np.random.seed(0)
    light, noise = random.uniform(0.8, 1.2), np.random.normal(0, 0.1)
    random.seed(0), np.random.seed(0)
    image, label = run.NoisyDigits()[3]
    torch.testing.assert_close(image, run.pixels[3] * light + noise)
    assert label == run.targets[3]


@pytest.mark.usefixtures("one_thread_again")
def test_the_same_seed_the_same_weights__also_with_two_threads(snippet):
    torch.set_num_threads(2)
    test_the_same_seed_the_same_weights(snippet)


@pytest.mark.usefixtures("one_thread_again")
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seed_the_same_weights__also_of_large_sums(threads):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    rows = torch.randn(10, 100_000)

    sums = [torch.stack([row.sum() for row in rows]) for _ in range(3)]
    assert sums[0].tolist() == sums[1].tolist() == sums[2].tolist()


def test_the_same_seed_the_same_weights__also_in_another_process(snippet):
    run = training(snippet)

    def send():
        sender.send((os.getpid(), bits(trained(run, 4, 8))))

    # A copy of this one: a new one takes seconds to import torch.
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    other = context.Process(target=send)
    other.start()
    process, there = receiver.recv()
    other.join()

    assert process != os.getpid()
    assert there == bits(trained(run, 4, 9))


@edits(
    ("random", "(seed):\n    random.seed(seed)  # Python\n", "(seed):\n"),
    ("NumPy", "    np.random.seed(seed)  # NumPy\n", ""),
    ("torch", "torch.manual_seed(seed)  # PyTorch", "None  # PyTorch"),
)
def test_the_same_seed_the_same_weights__but_not_without(
    snippet, old, new, fails
):
    """Leave one of the three libraries without its seed, and two runs
    differ.
    """
    fails(test_the_same_seed_the_same_weights, snippet.edit(old, new))


def test_the_same_seed_the_same_weights__but_not_with_one_seed_for_all(
    snippet, fails
):
    """With `seed = 0` in the function, another seed gives the same weights."""
    edited = snippet.edit(
        "def seed_everything(seed):\n",
        "def seed_everything(seed):\n    seed = 0\n",
    )
    fails(test_the_same_seed_the_same_weights, edited)


def test_the_same_seed_the_same_weights__ends_with_an_unseeded_generator(
    snippet, fails
):
    """With a generator that nobody seeds, such as
    `np.random.default_rng()`, two runs differ.
    """
    edited = snippet.edit(
        "np.random.normal(0, 0.1)", "np.random.default_rng().normal(0, 0.1)"
    )
    fails(test_the_same_seed_the_same_weights, edited)


def test_the_same_seed_the_same_weights__ends_with_a_generator_of_your_own(
    snippet, fails
):
    """With a generator that you made before, the second run goes on where the
    first one left it: seed it as well.
    """
    made = "own = np.random.default_rng(0)\n\n\nclass NoisyDigits"
    edited = snippet.edit("class NoisyDigits", made)
    edited = edited.edit("np.random.normal(0, 0.1)", "own.normal(0, 0.1)")
    fails(test_the_same_seed_the_same_weights, edited)


@pytest.mark.parametrize("seed", [-1, 2**32 - 1])
def test_the_same_seed_the_same_weights__ends_for_seeds_of_numpy(
    snippet, seed, fails
):
    """NumPy takes seeds from 0 to 2**32 - 1, and raises a `ValueError` for
    others.
    """
    fails(test_the_same_seed_the_same_weights, snippet, seed)


# How it works


def real_training(run, seed, epochs, *, first=None, momentum=0, **options):
    """Train with PyTorch's layers, loader and optimizer."""
    torch.manual_seed(seed)
    model = run.new_model()
    if first:
        first(model[0].weight)
    dataset = options.pop("kind", TensorDataset)(*run.digits.tensors)
    options = {"batch_size": 64, "shuffle": True, **options}
    loader = DataLoader(dataset, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return [p.detach() for p in model.parameters()]


def apart(one, other):
    """Return how many numbers differ between two lists of tensors."""
    pairs = zip(one, other, strict=True)
    return [(a != b).sum().item() for a, b in pairs]


def test_nineteen_lines_are_a_training(
    snippet, seed=0, epochs=3, options=None
):
    run = snippet.only(*TRAINING, "by-hand").after("by-hand")

    real = real_training(run, seed, epochs, **(options or {}))
    with no_error():
        mine = run.by_hand(seed, epochs)
    assert [p.shape for p in mine] == [p.shape for p in real]
    assert apart(mine, real) == [0, 0, 0, 0]
    torch.manual_seed(seed)
    start = [p.detach() for p in run.new_model().parameters()]
    assert apart(run.by_hand(seed, 0), start) == [0, 0, 0, 0]
    assert all(apart(run.by_hand(seed, 1), start))


@pytest.mark.parametrize("seed", [1, 42, 2**40, -3])
def test_nineteen_lines_are_a_training__also_from_seed(snippet, seed):
    test_nineteen_lines_are_a_training(snippet, seed)


def test_nineteen_lines_are_a_training__also_over_200_steps(snippet):
    test_nineteen_lines_are_a_training(snippet, 1, 25)


@pytest.fixture
def numbers_in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("numbers_in_float64")
def test_nineteen_lines_are_a_training__ends_in_float64(snippet, fails):
    """In `float64`, some weights start a last bit apart: PyTorch computes 1/8
    as √3 · √(1/3) / √64, and rounds after each step.
    """
    edited = snippet.edit("dtype=torch.float32", "dtype=torch.float64")
    fails(test_nineteen_lines_are_a_training, edited, 0, 0)


@pytest.mark.parametrize("size", [1, 7, 500, 900])
def test_nineteen_lines_are_a_training__also_in_batches_of(snippet, size):
    edited = snippet.edit(".split(64)", f".split({size})")
    test_nineteen_lines_are_a_training(edited, 0, 2, {"batch_size": size})


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.9])
def test_nineteen_lines_are_a_training__also_with_dropout_of(snippet, rate):
    edited = snippet.edit("nn.Dropout(0.5)", f"nn.Dropout({rate})")
    edited = edited.edit("detach(), 0.5, g", f"detach(), {1 - rate}, g")
    edited = edited.edit("(mask / 0.5)", f"(mask / {1 - rate})")
    test_nineteen_lines_are_a_training(edited)


def test_nineteen_lines_are_a_training__also_by_drawing_2410(snippet):
    run = training(snippet)
    states = []
    for draw in (run.new_model, lambda: torch.rand(2410)):
        torch.manual_seed(5)
        draw()
        states.append(torch.get_rng_state().tolist())

    assert states[0] == states[1]


@pytest.mark.usefixtures("one_thread_again")
def test_nineteen_lines_are_a_training__also_on_two_threads(snippet):
    torch.set_num_threads(2)
    test_nineteen_lines_are_a_training(snippet)


def test_nineteen_lines_are_a_training__also_in_the_comparison(snippet):
    cells = *TRAINING, "by-hand", "compare"
    run = snippet.only(*cells).after("compare")

    assert run.seed == 2
    real = run.fit(run.new_model(), run.digits)
    torch.manual_seed(2)
    same = run.fit(run.new_model(), run.digits)
    assert apart(run.by_hand(2), [*same.parameters()]) == [0, 0, 0, 0]
    assert all(apart(run.by_hand(2), [*real.parameters()]))


@edits(
    ("1", "Generator().manual_seed(seed)  # 1", "Generator()  # 1"),
    (
        "1 in each epoch",
        "        two = torch.empty",
        "        stream.manual_seed(seed)\n        two = torch.empty",
    ),
    ("2", "-1 / root, 1 / root", "0, 1 / root"),
    ("2 before 1", "root, generator=stream)", "root)"),
    ("3", "torch.empty(2, dtype", "torch.empty(1, dtype"),
    ("4", "two[1].item()", "two[0].item()"),
    ("4 from the stream", "generator=shuffle)", "generator=stream)"),
    ("5", "0.5, generator=stream)", "0.5)"),
    ("5, undivided", "(mask / 0.5)", "mask"),
)
def test_nineteen_lines_are_a_training__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each numbered line counts: if one draws from another generator, or one
    number less, the rest of the training changes.
    """
    fails(test_nineteen_lines_are_a_training, snippet.edit(old, new), 3)


FORK = {"num_workers": 1, "multiprocessing_context": "fork"}


@pytest.mark.parametrize("more", [{}, FORK], ids=["no worker", "a worker"])
def test_nineteen_lines_are_a_training__ends_with_a_generator_of_the_loader(
    snippet, more, fails
):
    """With a `generator` of its own, a loader draws lines 3 and 4 from it, and
    leaves the stream to the rest.
    """
    options = {"generator": torch.Generator(), **more}
    fails(test_nineteen_lines_are_a_training, snippet, 0, 1, options)


class Drawing(TensorDataset):
    """A dataset that draws from torch's stream."""

    def __getitem__(self, i):
        """Return a sample."""
        torch.rand(1)
        return super().__getitem__(i)


def test_nineteen_lines_are_a_training__ends_with_persistent_workers(
    snippet, fails
):
    """With `persistent_workers=True`, only the first epoch draws a number for
    the workers.
    """
    options = {"persistent_workers": True, **FORK}
    test_nineteen_lines_are_a_training(snippet, 0, 1, options)
    fails(test_nineteen_lines_are_a_training, snippet, 0, 2, options)


def test_nineteen_lines_are_a_training__ends_if_the_dataset_draws(
    snippet, fails
):
    """If the dataset draws from `torch` too, dropout gets other numbers."""
    options = {"kind": Drawing}
    fails(test_nineteen_lines_are_a_training, snippet, 0, 1, options)


def test_nineteen_lines_are_a_training__also_if_a_worker_draws(snippet):
    options = {"kind": Drawing, **FORK}
    test_nineteen_lines_are_a_training(snippet, 0, 1, options)


def test_nineteen_lines_are_a_training__ends_for_another_start(snippet, fails):
    """If layers start in another way, such as by `kaiming_normal_`, all
    numbers differ.
    """
    options = {"first": nn.init.kaiming_normal_}
    fails(test_nineteen_lines_are_a_training, snippet, 0, 1, options)


def test_nineteen_lines_are_a_training__ends_with_momentum(snippet, fails):
    """With momentum, the same draws lead to other steps."""
    options = {"momentum": 0.9}
    fails(test_nineteen_lines_are_a_training, snippet, 0, 1, options)


SOURCES = *TRAINING, "sources"
BY_TORCH = "initial weights", "shuffled order", "dropout"


def sources(snippet):
    """Run the cells that draw twice."""
    return snippet.only(*SOURCES).after("sources")


def test_each_library_has_its_own_seed(snippet, draw=None):
    run = sources(snippet)

    # Other draws are expected to follow torch's seed.
    by_torch = [*BY_TORCH, *(["it"] if draw else [])]
    reach = {
        "random.seed": ["random"],
        "np.random.seed": ["np.random"],
        "torch.manual_seed": by_torch,
        "seed_everything": ["random", "np.random", *by_torch],
    }
    draws = {**run.sources, "it": draw}
    for seed, reached in reach.items():
        names = "random", "np.random", *by_torch
        found = [n for n in names if repeated(run, seed, draws[n])]
        assert found == reached
    assert not run.repeats(lambda seed: None, lambda: torch.rand(1))


def repeated(run, seed, draw):
    """Return whether something draws the same twice after a seed."""
    return run.repeats(run.seeds[seed], draw)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: nn.Conv2d(1, 2, 3).weight,
        lambda: nn.Embedding(3, 2).weight,
        lambda: nn.LSTM(2, 3).weight_hh_l0,
        lambda: nn.RReLU()(-torch.ones(9)),
        lambda: F.dropout2d(torch.ones(9, 9, 1, 1)),
    ],
    ids=["Conv2d", "Embedding", "LSTM", "RReLU", "dropout2d"],
)
def test_each_library_has_its_own_seed__also_for(snippet, draw):
    test_each_library_has_its_own_seed(snippet, draw)


@edits(
    ("NumPy", "np.random.seed(seed)  # NumPy", "None"),
    ("a fixed drop", "F.dropout(torch.ones(30))", "torch.ones(30)"),
    (
        "torch for random",
        '"random": random.random',
        '"random": lambda: torch.rand(1)',
    ),
)
def test_each_library_has_its_own_seed__but_not_with(snippet, old, new, fails):
    """Without `np.random.seed`, NumPy is not seeded; the other edits draw
    nothing at random, or draw from torch.
    """
    fails(test_each_library_has_its_own_seed, snippet.edit(old, new))


OWN = torch.Generator()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: np.random.default_rng().random(),
        random.SystemRandom().random,
        lambda: shuffled(OWN),
    ],
    ids=["default_rng()", "SystemRandom", "a loader's generator"],
)
def test_each_library_has_its_own_seed__ends_for_what_no_seed_controls(
    snippet, draw, fails
):
    """No seed controls `np.random.default_rng()` without an argument, numbers
    of the operating system, or a loader that has a generator of its own.
    """

    fails(test_each_library_has_its_own_seed, snippet, draw)


def shuffled(generator):
    """Return the order in which a loader shuffles."""
    loader = DataLoader(range(30), 30, shuffle=True, generator=generator)
    return next(iter(loader))


def test_a_worker_follows_the_generator(snippet, options=None):
    run = sources(snippet)
    drawn = run.sources["both in a worker"]
    if options:
        loader = DataLoader(run.Noise(), 4, **run.worker, **options)

        def drawn():
            return [*loader].pop()

    # The dataset draws a number of `random`, and one of NumPy.
    random.seed(3), np.random.seed(3)
    expected = torch.tensor([random.random(), np.random.rand()])
    random.seed(3), np.random.seed(3)
    assert run.Noise()[0].tolist() == expected.tolist()
    assert len(drawn().unique()) == 8

    found = [each for each in run.seeds if repeated(run, each, drawn)]
    assert found == ["torch.manual_seed", "seed_everything"]
    generator = torch.Generator()

    def with_a_generator():
        options = {**run.worker, "generator": generator}
        return [*DataLoader(run.Noise(), 4, **options)].pop()

    assert run.repeats(generator.manual_seed, with_a_generator)
    assert not run.repeats(run.seed_everything, with_a_generator)


class Drawn(Dataset):
    """A dataset that another Python finds, and which draws as the page's."""

    def __len__(self):
        """Return the number of samples."""
        return 4

    def __getitem__(self, i):
        """Draw a number of `random`, and one of NumPy."""
        return torch.tensor([random.random(), np.random.rand()])


def test_a_worker_follows_the_generator__also_spawned(snippet):
    run = sources(snippet)
    spawn = {"num_workers": 1, "multiprocessing_context": "spawn"}

    def drawn():
        return [*DataLoader(Drawn(), 4, **spawn)].pop()

    with spawns.with_torch():
        found = [each for each in run.seeds if repeated(run, each, drawn)]
    assert found == ["torch.manual_seed", "seed_everything"]


def test_a_worker_follows_the_generator__ends_with_persistent_workers(
    snippet, fails
):
    """With `persistent_workers=True`, a worker follows the seed set before the
    first epoch; what you seed later doesn't reach it.
    """
    options = {"persistent_workers": True}
    fails(test_a_worker_follows_the_generator, snippet, options)


@edits(
    ("in the main process", "Noise(), 4, **worker", "Noise(), 4"),
    (
        "a fresh generator",
        "np.random.rand()]",
        "np.random.default_rng().random()]",
    ),
    ("no seed of torch", "torch.manual_seed(seed)  # PyTorch", "None  # "),
)
def test_a_worker_follows_the_generator__but_not_with(
    snippet, old, new, fails
):
    """Without a worker, each library follows its own seed; in one, a fresh
    generator follows none, and nothing repeats without torch's seed.
    """
    fails(test_a_worker_follows_the_generator, snippet.edit(old, new))


def test_a_sum_depends_on_its_order(snippet):
    run = snippet.only(*TRAINING, "order").after("order")
    large, one = run.large, run.one

    first, second = (large + one) + one, large + (one + one)
    assert first.item() != second.item()
    assert (first.item(), second.item()) == (16_777_216, 16_777_218)
    assert first.dtype == second.dtype == torch.float32


@pytest.mark.parametrize(
    ("dtype", "digits"),
    [(torch.bfloat16, 8), (torch.float16, 11), (torch.float64, 53)],
    ids=str,
)
def test_a_sum_depends_on_its_order__also_in(dtype, digits):
    large, one = torch.tensor([2.0**digits, 1.0], dtype=dtype)

    assert (large + one) + one == large
    assert large + (one + one) == large + 2 != large


def test_a_sum_depends_on_its_order__also_in_plain_python():
    assert (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3)


@edits(
    ("a smaller sum", "tensor(16_777_216.0)", "tensor(8_388_608.0)"),
    ("float64", "torch.tensor(1.0)\n", "torch.tensor(1.0).double()\n"),
)
def test_a_sum_depends_on_its_order__but_not_with(snippet, old, new, fails):
    """Sums of whole numbers up to 2²⁴ are exact in `float32`, and those of
    larger ones in `float64`.
    """
    fails(test_a_sum_depends_on_its_order, snippet.edit(old, new))


BACKWARDS = *TRAINING, "backwards"


def test_a_bit_grows(snippet):
    run = snippet.only(*BACKWARDS).after("backwards")

    low, high = run.differences[0.1], run.differences[0.5]
    assert len(low) == len(high) == 200
    assert high.max() > 1000 * high[0]
    assert 0 < low.max() < 0.00001
    assert high[0] > 0
    # Both orders have the same gradient on paper: float64 keeps more of it.
    rows = torch.arange(3, 500, 8)
    torch.manual_seed(0)
    layers = nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
    model = nn.Sequential(*layers).double()
    grads = []
    for order in (rows, rows.flip(0)):
        loss = F.cross_entropy(
            model(run.pixels[order].double()), run.targets[order]
        )
        grads.append(torch.autograd.grad(loss, model[0].weight)[0])
    torch.testing.assert_close(*grads, rtol=0, atol=1e-14)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_bit_grows__also_from_seed(snippet, seed):
    old = "    torch.manual_seed(0)\n    model = nn.Sequential(nn.Linear"
    new = old.replace("(0)", f"({seed})", 1)
    test_a_bit_grows(snippet.edit(old, new))


@edits(
    ("one order", "path(rate, backwards=True)", "path(rate, backwards=False)"),
    ("lower rates", "lr=rate, momentum", "lr=rate / 5, momentum"),
    ("higher rates", "lr=rate, momentum", "lr=5 * rate, momentum"),
)
def test_a_bit_grows__but_not_with(snippet, old, new, fails):
    """Read in one order twice, nothing differs; and at other rates, the
    differences grow as these rates make them.
    """
    fails(test_a_bit_grows, snippet.edit(old, new))


# What goes wrong


def test_a_late_seed_misses_the_weights(snippet):
    run = training(snippet, "late")

    first, second = run.late
    assert all(apart(first.parameters(), second.parameters()))
    # All else is the same: a model that was made before ends where it did.
    model = run.new_model()
    ends = []
    for _ in range(2):
        run.seed_everything(0)
        each = run.fit(copy.deepcopy(model), run.NoisyDigits())
        ends.append(bits(each))
    assert ends[0] == ends[1]


LATE = (
    "    model = new_model()\n    seed_everything(0)\n",
    "    seed_everything(0)\n    model = new_model()\n",
)


def test_a_late_seed_misses_the_weights__but_not_before_the_model(
    snippet, fails
):
    """Seeded before the model is made, both runs end with the same weights."""
    fails(test_a_late_seed_misses_the_weights, snippet.edit(*LATE))


def test_a_late_seed_misses_the_weights__ends_for_lazy_layers(snippet, fails):
    """A layer such as `nn.LazyLinear` draws its weights at its first call, so
    a late seed reaches them.
    """
    edited = snippet.edit("nn.Linear(64, width)", "nn.LazyLinear(width)")
    edited = edited.edit("nn.Linear(width, 10)", "nn.LazyLinear(10)")
    fails(test_a_late_seed_misses_the_weights, edited)


def ends_after(run, before):
    """Return the weights of a seeded model, at the start and at the end."""
    run.seed_everything(0)
    before()
    model = run.new_model()
    start = [p.detach().clone() for p in model.parameters()]
    run.fit(model, run.digits, epochs=1)
    return start, [p.detach() for p in model.parameters()]


def nothing():
    """Draw nothing."""


DRAWS = {
    "torch.randn": lambda: torch.randn(1),
    "a new layer": lambda: nn.Linear(1, 1),
    "a shuffled order": lambda: torch.randperm(9),
    "a loop over a loader": lambda: next(iter(DataLoader([0.0]))),
    "one number of line 3": lambda: torch.empty((), dtype=int).random_(),
    "dropout": lambda: F.dropout(torch.ones(1)),
}


def test_one_number_more_changes_the_weights(snippet, draw=None):
    run = training(snippet, "one-more")

    plain = ends_after(run, nothing)
    ends = ends_after(run, draw or (lambda: torch.rand(1)))
    changed = [apart(*pair) for pair in zip(plain, ends, strict=True)]
    assert all(changed[0]), changed
    assert all(changed[1]), changed
    shifted = run.shifted[0].weight.flatten()
    assert shifted[:-1].tolist() == plain[0][0].flatten()[1:].tolist()


@pytest.mark.parametrize("name", DRAWS)
def test_one_number_more_changes_the_weights__also_after(snippet, name):
    test_one_number_more_changes_the_weights(snippet, DRAWS[name])


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(1, generator=torch.Generator()),
        lambda: torch.rand(1, device="meta"),
        lambda: [nn.ReLU(), nn.LayerNorm(9), nn.BatchNorm1d(9)],
        np.random.rand,
    ],
    ids=["a generator of its own", "another device", "norms", "NumPy"],
)
def test_one_number_more_changes_the_weights__ends_for_a_draw_from(
    snippet, draw, fails
):
    """A draw from another generator, on another device or from NumPy leaves
    the stream as it was, and so does a layer that draws nothing.
    """
    fails(test_one_number_more_changes_the_weights, snippet, draw)


@edits(
    (
        "another generator",
        '{torch.rand(1).item():.4f}")\nshifted',
        '{torch.rand(1, generator=torch.Generator()).item()}")\nshifted',
    ),
    ("no draw", '{torch.rand(1).item():.4f}")\nshifted', '")\nshifted'),
)
def test_one_number_more_changes_the_weights__but_not_with(
    snippet, old, new, fails
):
    """Drawn from a generator of its own, the example leaves torch's default
    one as it was.
    """
    fails(test_one_number_more_changes_the_weights, snippet.edit(old, new))


def test_fork_rng_gives_the_numbers_back__also_in_the_exercise(snippet):
    run = training(snippet, "all-kept", "all-kept-checked")
    assert (run.inside, run.moved) == (run.expected, [])

    # It finds what goes on after the block.
    old = "        random.setstate(states[0])\n"
    run = training(snippet.edit(old, ""), "all-kept", "all-kept-checked")
    assert run.moved == ["random"]


FORKED = '{torch.rand(1).item():.4f}")\nkept'


def test_fork_rng_gives_the_numbers_back(snippet):
    run = training(snippet, "fork")

    start, end = bits(run.kept), bits(run.fit(run.kept, run.NoisyDigits()))
    run.seed_everything(0)
    expected = run.new_model()
    assert start == bits(expected)
    assert end == bits(run.fit(expected, run.NoisyDigits()))


@edits(
    ("many draws", FORKED, '{torch.rand(9, 99).sum()}")\nkept'),
    ("a seed", FORKED, '{torch.manual_seed(5)}")\nkept'),
    ("a model", FORKED, '{new_model()}")\nkept'),
)
def test_fork_rng_gives_the_numbers_back__also_after(snippet, old, new):
    test_fork_rng_gives_the_numbers_back(snippet.edit(old, new))


@edits(
    ("random", FORKED, '{random.random()}")\nkept'),
    ("NumPy", FORKED, '{np.random.rand()}")\nkept'),
)
def test_fork_rng_gives_the_numbers_back__ends_for(snippet, old, new, fails):
    """It doesn't give the numbers of `random` and NumPy back."""
    fails(test_fork_rng_gives_the_numbers_back, snippet.edit(old, new))


def test_fork_rng_gives_the_numbers_back__ends_for_your_own_generator(
    snippet, fails
):
    """It doesn't give the numbers of your own generators back, such as that
    of a loader.
    """
    edited = snippet.edit(
        "data = load_digits()", "own = torch.Generator()\ndata = load_digits()"
    )
    edited = edited.edit("shuffle=True, **", "shuffle=True, generator=own, **")
    edited = edited.edit(
        "np.random.seed(seed)  #",
        "own.manual_seed(seed), np.random.seed(seed)  #",
    )
    test_fork_rng_gives_the_numbers_back(edited)
    drawn = edited.edit(FORKED, '{torch.rand(1, generator=own)}")\nkept')
    fails(test_fork_rng_gives_the_numbers_back, drawn)


@edits(
    (
        "without the block",
        "with torch.random.fork_rng():\n    p",
        "if 1:\n    p",
    ),
    ("switched off", "fork_rng():\n    p", "fork_rng(enabled=False):\n    p"),
)
def test_fork_rng_gives_the_numbers_back__but_not(snippet, old, new, fails):
    """Without the block, or with `enabled=False`, the draw counts."""
    fails(test_fork_rng_gives_the_numbers_back, snippet.edit(old, new))


EPOCHS = *TRAINING, "epoch", "each-epoch", "once"


def test_a_seed_in_the_loop_repeats_dropout(snippet):
    run = snippet.only(*EPOCHS).after("once")

    assert len(run.repeated) == len(run.fresh) == 3
    assert run.repeated == [run.fresh[0]] * 3
    orders, drops = zip(*run.fresh, strict=True)
    assert [sorted(order) for order in orders] == [[*range(7)]] * 3
    assert len({*map(tuple, orders)}) == 3
    assert len({*map(tuple, drops)}) == 3


def test_a_seed_in_the_loop_repeats_dropout__also_with_seed_everything(
    snippet,
):
    edited = snippet.edit(
        "torch.manual_seed(0)\n    repeated",
        "seed_everything(0)\n    repeated",
    )
    test_a_seed_in_the_loop_repeats_dropout(edited)


def test_a_seed_in_the_loop_repeats_dropout__also_with_one_loader(snippet):
    edited = snippet.edit(
        "    order = [*DataLoader(range(7), batch_size=None, shuffle=True)]\n",
        "    order = [*loader]\n",
    ).edit(
        "def epoch():",
        "loader = DataLoader(range(7), batch_size=None, shuffle=True)\n\n\n"
        "def epoch():",
    )
    test_a_seed_in_the_loop_repeats_dropout(edited)


@edits(
    (
        "another seed",
        "torch.manual_seed(0)\n    repeated",
        "torch.seed()\n    repeated",
    ),
    ("the number of the epoch", "(0)\n    repeated", "(_)\n    repeated"),
    (
        "always the same",
        "    fresh.append",
        "    torch.manual_seed(0)\n    fresh.append",
    ),
)
def test_a_seed_in_the_loop_repeats_dropout__but_not_with(
    snippet, old, new, fails
):
    """With a different seed in each epoch, it draws different numbers; with
    the same in both loops, both repeat.
    """
    fails(test_a_seed_in_the_loop_repeats_dropout, snippet.edit(old, new))


def test_a_seed_in_the_loop_repeats_dropout__ends_with_a_generator(
    snippet, fails
):
    """A loader with a `generator` of its own goes on with that, and shuffles
    differently in each epoch.
    """
    edited = snippet.edit(
        "batch_size=None, shuffle=True",
        "batch_size=None, shuffle=True, generator=own",
    ).edit("def epoch():", "own = torch.Generator()\n\n\ndef epoch():")
    fails(test_a_seed_in_the_loop_repeats_dropout, edited)


def test_another_number_of_workers_is_another_run(snippet):
    run = training(snippet, "workers")

    assert [*run.ends] == [0, 1, 2]
    first, *others = [bits(run.ends[count]) for count in range(3)]
    assert others[0] != others[1]
    assert first not in others


def test_another_number_of_workers_is_another_run__but_not_without_noise(
    snippet, fails
):
    """If the dataset draws nothing, the number of workers changes nothing."""
    edited = snippet.edit("light * digits[i][0] + noise", "digits[i][0]")
    fails(test_another_number_of_workers_is_another_run, edited)


def test_another_number_of_workers_is_another_run__but_not_of_kept_noise(
    snippet, fails
):
    """If the dataset draws in `__init__`, and `__getitem__` only looks its
    noise up, the number of workers changes nothing.
    """
    edited = snippet.edit(
        "class NoisyDigits(Dataset):\n",
        "class NoisyDigits(Dataset):\n    def __init__(self):\n"
        "        self.kept = np.random.normal(0, 0.1, 500)\n\n",
    ).edit(
        "random.uniform(0.8, 1.2), np.random.normal(0, 0.1)",
        "1, self.kept[i]",
    )
    fails(test_another_number_of_workers_is_another_run, edited)


def test_another_number_of_workers_is_another_run__ends_with_an_index(
    snippet, fails
):
    """If the noise comes from a generator seeded with the index of the sample,
    all numbers of workers give the same weights.
    """
    edited = snippet.edit(
        "random.uniform(0.8, 1.2), np.random.normal(0, 0.1)",
        "1, np.random.default_rng(i).normal(0, 0.1)",
    )
    fails(test_another_number_of_workers_is_another_run, edited)


@edits(
    ("torch", "np.random.normal(0, 0.1)", "0.1 * torch.randn(1)"),
    ("random", "np.random.normal(0, 0.1)", "random.gauss(0, 0.1)"),
)
def test_another_number_of_workers_is_another_run__also_drawn_from(
    snippet, old, new
):
    test_another_number_of_workers_is_another_run(snippet.edit(old, new))


WORDS = ["Arabic", "Chinese", "Czech", "Dutch", "Irish", "Thai"]


def test_a_set_has_another_order(snippet):
    cells = *TRAINING, "words", "orders"
    run = snippet.only(*cells).after("orders")

    orders = [run.in_a_process(seed) for seed in "123"]
    assert [run.in_a_process(seed) for seed in "123"] == orders
    assert [sorted(order) for order in orders] == [WORDS] * 3
    first, second, third = orders
    assert first != second != third != first
    # Set while the program runs, it changes nothing.
    told = f"{run.too_late}\nprint(os.environ['PYTHONHASHSEED'])"
    assert run.in_a_process("1", told) == [*first, "2"]
    by_default = [run.in_a_process("random") for _ in range(4)]
    assert any(order != by_default[0] for order in by_default)
    assert run.in_a_process("3", "print(*sorted(classes))") == WORDS


@edits(
    ("a tuple", f"{{{str(WORDS)[1:-1]}}}", f"({str(WORDS)[1:-1]})"),
    ("sorted", 'end="print(*classes)"', 'end="print(*sorted(classes))"'),
    (
        "a new start",
        "= '2'\\nprint(*classes)",
        "= '2'\\nimport sys\\nif sys.argv[-1] != 'again':"
        "\\n    os.execv(sys.executable, [*sys.orig_argv, 'again'])"
        "\\nprint(*classes)",
    ),
)
def test_a_set_has_another_order__but_not_with(snippet, old, new, fails):
    """A tuple and `sorted` have one order everywhere; and a program that
    starts itself again reads the variable anew.
    """
    fails(test_a_set_has_another_order, snippet.edit(old, new))


TEXT = (
    "does not have a deterministic implementation, but you set"
    " 'torch.use_deterministic_algorithms(True)'"
)
REFUSED = *TRAINING, "refused", "warned"
UNPOOLED = [[0, 0, 0, 0], [0, 5, 0, 7], [0, 0, 0, 0], [0, 13, 0, 15]]


def refusal(call):
    """Return the text of the error, or "" if there is none."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def test_unpooling_is_refused(snippet):
    with no_error():
        run = snippet.only(*REFUSED).after("warned")

    assert TEXT in "".join(map(str, run.refused))
    assert TEXT in refusal(lambda: run.unpool(*run.pooled))
    texts = [str(each.message) for each in run.caught]
    assert [TEXT.partition(",")[0] in text for text in texts] == [True]
    assert run.restored[0, 0].tolist() == UNPOOLED
    torch.use_deterministic_algorithms(False)
    with no_error(), warnings.catch_warnings(action="error"):
        assert run.unpool(*run.pooled)[0, 0].tolist() == UNPOOLED


@pytest.mark.parametrize("dimensions", [1, 3])
def test_unpooling_is_refused__also_in_dimensions(dimensions):
    pool = {1: nn.MaxPool1d, 3: nn.MaxPool3d}[dimensions]
    unpool = {1: nn.MaxUnpool1d, 3: nn.MaxUnpool3d}[dimensions](2)
    images = torch.rand(1, 1, *[4] * dimensions)
    pooled = pool(2, return_indices=True)(images)

    torch.use_deterministic_algorithms(True)
    assert TEXT in refusal(lambda: unpool(*pooled))
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="deterministic implementation"):
        restored = unpool(*pooled)
    assert restored.count_nonzero() == pooled[0].numel()


@edits(
    ("the mode off", "(True)\nimage", "(False)\nimage"),
    ("no warn_only", "(True, warn_only=True)", "(True)"),
    ("the mode off later", "(True, warn_only=True)", "(False)"),
)
def test_unpooling_is_refused__but_not_with(snippet, old, new, fails):
    """With the mode off, there is neither an error nor a warning; without
    `warn_only=True`, the call raises.
    """
    fails(test_unpooling_is_refused, snippet.edit(old, new))


FLOATS = torch.float16, torch.bfloat16, torch.float32, torch.float64
INTEGERS = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64


def test_empty_is_filled(snippet, floats=FLOATS, integers=INTEGERS):
    training(snippet).seed_everything(0)

    for dtype in floats:
        found = torch.empty(2, 50, dtype=dtype).flatten().tolist()
        assert {str(each) for each in found} == {"nan"}
    for dtype in integers:
        found = torch.empty(2, 50, dtype=dtype).flatten().tolist()
        assert {*found} == {torch.iinfo(dtype).max}


def test_empty_is_filled__but_not_without_the_mode(snippet, fails):
    """With the mode off, `torch.empty` leaves what happens to be in memory."""
    edited = snippet.edit(
        "(seed)  # PyTorch, on the CPU and on GPUs\n"
        "    torch.use_deterministic_algorithms(True)",
        "(seed)\n    torch.use_deterministic_algorithms(False)",
    )
    # What was freed last is what is there.
    torch.ones(100)
    fails(test_empty_is_filled, edited)


def test_empty_is_filled__ends_for_booleans(snippet, fails):
    """For `bool`: it is filled with `True`."""
    fails(test_empty_is_filled, snippet, [torch.bool], [])


SEEDS = *TRAINING, "many-seeds"


def test_one_seed_is_one_sample(snippet):
    run = snippet.only(*SEEDS).after("many-seeds")

    small, large = run.accuracies[32], run.accuracies[40]
    assert len(small) == len(large) == 10
    assert (small > large).sum().item() >= 3
    assert (large > small).sum().item() >= 3
    spread = min(small.std(), large.std())
    assert (small.mean() - large.mean()).abs() < spread
    # One of them, counted anew.
    run.seed_everything(4)
    model = run.fit(run.new_model(40), run.digits, epochs=5).eval()
    right = model(run.pixels[500:]).argmax(1).eq(run.targets[500:])
    expected = 100 * right.double().mean().item()
    assert large[4].item() == pytest.approx(expected, abs=1e-3)


@edits(
    (
        "a worse model",
        "fit(new_model(width), d",
        "fit(new_model(width % 36), d",
    ),
    (
        "one seed ten times",
        "accuracy(seed, width) for",
        "accuracy(0, width) for",
    ),
)
def test_one_seed_is_one_sample__but_not_with(snippet, old, new, fails):
    """With 4 units, the smaller model is better with no seed; one seed ten
    times cannot disagree with itself.
    """
    fails(test_one_seed_is_one_sample, snippet.edit(old, new))
