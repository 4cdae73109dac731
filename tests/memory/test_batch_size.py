"""The claims of docs/memory/batch_size.md."""

import copy
import gc
import math
from functools import partial
from unittest.mock import patch

import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

pytestmark = pytest.mark.usefixtures("frozen")

SEARCH = ("device", "search", "fits", "parts")
LINES = (*SEARCH, "by-hand")
KNOWN = ("device", "parts", "digits", "well-known")
RETRY = (*SEARCH, "retry")
MOMENTUM = partial(optim.SGD, momentum=0.9)
AMSGRAD = partial(optim.Adam, amsgrad=True)


def using(run, **parts):
    """Return a context in which a program has other parts."""
    return patch.dict(run.fits.__globals__, parts)


def trained(run, size, steps, room, kind=optim.AdamW):
    """Return whether a training of some steps fits, told without `fits`."""
    with run.SmallDevice(room):
        model, optimizer = run.build(kind)
        try:
            for _ in range(steps):
                images, labels = torch.rand(size, 64), torch.ones(size).long()
                optimizer.zero_grad()
                F.cross_entropy(model(images), labels).backward()
                del images, labels
                optimizer.step()
        except torch.OutOfMemoryError:
            return False
    return True


def searched(run, limit, most, fit):
    """Search with tries that compute nothing; return what was asked, too."""
    asked = []

    def fits(size, steps):
        assert steps == 2
        asked.append(size)
        return fit(size, limit)

    with using(run, fits=fits):
        return run.largest_batch(most), asked


# Do this


def as_said(size, limit):
    """Return whether a size fits, as most do."""
    return size <= limit


def nothing(run):
    """Put nothing on the device before the search."""


def test_the_search_finds_the_largest(
    snippet, fit=as_said, least=1, before=nothing, parts=None
):
    run = after(snippet, *SEARCH)
    for most in (2, 3, 9, 64, 100, 5000):
        for limit in (*range(least, min(most, 100) + 3), 999, 4999, 5000):
            found, asked = searched(run, limit, most, fit)
            assert (limit, found) == (limit, min(limit, most))
            assert set(asked) <= {*range(2, most + 1)}
    with run.SmallDevice(2_000_000), using(run, **(parts or {})), no_error():
        kept = before(run)
        found = run.largest_batch(500)
        del kept
    assert trained(run, found, 2, 2_000_000)
    assert not trained(run, found + 1, 2, 2_000_000)


def test_the_search_finds_the_largest__also_in_few_tries(snippet):
    run = after(snippet, *SEARCH)
    for limit in range(1, 1001):
        for most in (max(limit, 2), limit + 7, 1000):
            found, asked = searched(run, limit, most, as_said)
            assert found == limit
            assert asked[0] == 2
            assert len(asked) == len(set(asked)) <= 2 * math.log2(limit) + 1
    assert len(searched(run, 451, 4096, as_said)[1]) == 17


def test_the_search_finds_the_largest__ends_with_one_sample(snippet, fails):
    """If not even one sample fits: it returns 1, which it does not try."""
    fails(test_the_search_finds_the_largest, snippet, as_said, 0)


def test_the_search_finds_the_largest__ends_if_a_smaller_size_fails(
    snippet, fails
):
    """If 4 fails though larger sizes fit: it misses those, and returns 3."""

    def gap(size, limit):
        return size <= limit and size != 4

    fails(test_the_search_finds_the_largest, snippet, gap)


def a_model(run):
    """Build a model beside the search."""
    return run.build()


def test_the_search_finds_the_largest__ends_beside_a_model(snippet, fails):
    """Beside a second model: fewer samples fit than without it."""
    options = as_said, 1, a_model
    fails(test_the_search_finds_the_largest, snippet, *options)


def test_the_search_finds_the_largest__ends_if_the_model_is_too_large(
    snippet, fails
):
    """If not even the model fits: `build` raises the error."""
    parts = network(nn.Linear(64, 10_000))
    options = as_said, 1, nothing, parts
    fails(test_the_search_finds_the_largest, snippet, *options)


def test_the_search_finds_the_largest__ends_on_a_full_cpu(snippet, fails):
    """On a CPU: a full memory is a plain `RuntimeError`, which the search
    lets through.
    """
    parts = {"make_batch": lambda size: torch.empty(2**50)}
    options = as_said, 1, nothing, parts
    fails(test_the_search_finds_the_largest, snippet, *options)


def test_the_search_finds_the_largest__also_with_a_schedule(snippet):
    run = after(snippet, *SEARCH)
    _, optimizer = run.build()
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()  # without gradients; the schedule waits for it
    sizes, seen = [], torch.get_rng_state()

    def train_step(*parts):
        sizes.append(len(parts[2]))
        run.train_step(*parts)
        schedule.step()

    with using(run, train_step=train_step):
        assert run.largest_batch(5) == 5
    assert sizes == [2, 2, 4, 4, 5, 5]
    # Both stay changed, of which the page warns.
    assert optimizer.param_groups[0]["lr"] == 0.001 / 2**6
    assert not seen.equal(torch.get_rng_state())


@edits(
    ("beyond most", "low, high = 1, most + 1", "low, high = 1, 2 * most + 1"),
    ("not up to most", "low, high = 1, most + 1", "low, high = 1, most"),
    ("stops early", "while high - low > 1:", "while high - low > 2:"),
    ("the size that fails", "    return low", "    return high"),
    (
        "no error is a failure",
        "        return False\n    return True\n\n\n# %% parts",
        "        pass\n    return True\n\n\n# %% parts",
    ),
    (
        "a step is enough",
        "        for _ in range(steps):  # 3",
        "        for _ in range(1):  # 3",
    ),
)
def test_the_search_finds_the_largest__but_not(snippet, fails, old, new):
    """Another end of the loop, a try that always fits, or only one step: a
    different size is returned.
    """
    fails(test_the_search_finds_the_largest, snippet.edit(old, new))


def test_a_failed_try_leaves_nothing(snippet, room=2_000_000, train_step=None):
    run = after(snippet, *SEARCH)
    train_step = train_step or run.train_step

    def build():
        model, optimizer = run.build()
        model.me = [model]
        return model, optimizer

    gc.disable()  # so that nothing is collected by chance
    try:
        with (
            using(run, build=build, train_step=train_step),
            run.SmallDevice(room) as device,
            no_error(),
        ):
            assert not run.fits(1000, 2)
            largest = run.largest_batch(500)
            gc.collect()
            assert device.held == 0
    finally:
        gc.enable()
    assert trained(run, largest, 2, room)
    assert not trained(run, largest + 1, 2, room)


def test_a_failed_try_leaves_nothing__but_not_uncollected(snippet, fails):
    """Without `gc.collect()`, models of earlier tries stay in memory, and
    leave no room for even 2 samples.
    """
    edited = snippet.edit("    gc.collect()\n", "")
    fails(test_a_failed_try_leaves_nothing, edited)


def test_a_failed_try_leaves_nothing__but_not_if_the_error_is_kept(
    snippet, fails
):
    """An error that somebody keeps leads to the tensors of the failed step."""
    edited = snippet.edit(
        "OutOfMemoryError:  # 4\n",
        "OutOfMemoryError as error:  # 4\n        fits.kept = error\n",
    )
    fails(test_a_failed_try_leaves_nothing, edited)


def keeping(number):
    """Return a step that keeps each loss in a list."""
    losses = []

    def train_step(model, optimizer, images, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item() if number else loss)

    return train_step


def test_a_failed_try_leaves_nothing__also_if_numbers_are_kept(snippet):
    step = keeping(number=True)
    test_a_failed_try_leaves_nothing(snippet, train_step=step)


def test_a_failed_try_leaves_nothing__ends_if_losses_are_kept(snippet, fails):
    """If `train_step` appends each loss to a list: a loss holds its model, so
    later tries have less room.
    """
    step = keeping(number=False)
    fails(test_a_failed_try_leaves_nothing, snippet, 2_000_000, step)

    run, found = after(snippet, *SEARCH), []
    for number in (False, True):
        step = keeping(number)
        with using(run, train_step=step), run.SmallDevice(2_000_000):
            found.append(run.largest_batch(500))
    assert found[0] < found[1]


# How it works


def network(*layers, kind=optim.AdamW):
    """Return the part that builds a network of some layers."""

    def build():
        model = nn.Sequential(*copy.deepcopy(layers))
        return model, kind(model.parameters(), lr=0.001)

    return {"build": build}


class Last(nn.Module):
    """A recurrent network that reads eight rows of eight pixels."""

    def __init__(self):
        super().__init__()
        self.reader, self.head = nn.LSTM(8, 16, 2), nn.Linear(16, 10)

    def forward(self, images):
        """Return the scores after the last row."""
        rows = images.reshape(-1, 8, 8).transpose(0, 1)
        return self.head(self.reader(rows)[0][-1])


class Cheaper(nn.Module):
    """A block that is computed again in the backward pass."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(64, 64), nn.GELU())

    def forward(self, images):
        """Return the block's output, without keeping what is inside."""
        return checkpoint(self.block, images, use_reentrant=False)


MLP = nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 30), nn.GELU()
NETWORKS = {
    "one layer": [nn.Linear(64, 10)],
    "three layers": [*MLP, nn.Linear(30, 10)],
    "BatchNorm and dropout": [
        *MLP,
        nn.BatchNorm1d(30),
        nn.Dropout(0.3),
        nn.Linear(30, 10),
    ],
    "convolutions": [
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 10),
    ],
    "an LSTM": [Last()],
    "attention": [
        nn.Unflatten(1, (8, 8)),
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        nn.Flatten(),
        nn.Linear(64, 10),
    ],
    "a checkpoint": [Cheaper(), nn.Linear(64, 10)],
}


def test_two_small_batches_predict_the_largest(
    snippet, parts=None, steps=2, sizes=(10, 20), rooms=None
):
    run = after(snippet, *LINES)
    with using(run, **(parts or {})):
        base = max(run.trace(8, steps))
        for room in rooms or (base, base + 1000, 2 * base, 5 * base):
            with no_error():
                found, fixed, per_sample = run.predict(room, *sizes, steps)
            assert fixed + found * per_sample <= room
            assert fixed + (found + 1) * per_sample > room
            with run.SmallDevice(room), no_error():
                fit = [run.fits(n, steps) for n in (found, found + 1)]
            assert (room, found, fit) == (room, found, [True, False])
    if not parts:
        run = after(snippet, *LINES, "your-search", "predicted")
        assert run.best == run.size == 451
        assert (run.fixed, run.per_sample) == (1_030_336, 4_360)
        weights = 65 * 256 + 257 * 256 + 257 * 10
        assert run.fixed == 4 * (3 * weights + 6 + 257 * 10) + 8
        assert run.per_sample == 64 * 4 + 8 + 4 * 256 * 4


@pytest.mark.parametrize("name", NETWORKS)
def test_two_small_batches_predict_the_largest__also_for(snippet, name):
    parts = network(*NETWORKS[name])
    test_two_small_batches_predict_the_largest(snippet, parts)


@pytest.mark.parametrize("kind", [optim.SGD, MOMENTUM, optim.Adam, AMSGRAD])
def test_two_small_batches_predict_the_largest__also_with(snippet, kind):
    parts = network(*NETWORKS["BatchNorm and dropout"], kind=kind)
    test_two_small_batches_predict_the_largest(snippet, parts)


@pytest.mark.parametrize("steps", [1, 3], ids="{} steps".format)
def test_two_small_batches_predict_the_largest__also_of(snippet, steps):
    parts = network(*NETWORKS["three layers"])
    test_two_small_batches_predict_the_largest(snippet, parts, steps)


@pytest.mark.parametrize("sizes", [(1, 2), (7, 100), (20, 10)])
def test_two_small_batches_predict_the_largest__also_from(snippet, sizes):
    parts = network(*NETWORKS["three layers"])
    test_two_small_batches_predict_the_largest(snippet, parts, 2, sizes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_two_small_batches_predict_the_largest__also_in(snippet, dtype):
    def build():
        model = nn.Sequential(*copy.deepcopy(NETWORKS["three layers"]))
        model.to(dtype)
        return model, optim.AdamW(model.parameters())

    def make_batch(size):
        return torch.rand(size, 64, dtype=dtype), torch.ones(size).long()

    parts = {"build": build, "make_batch": make_batch}
    test_two_small_batches_predict_the_largest(snippet, parts)


@pytest.mark.simulates("an accelerator")
def test_two_small_batches_predict_the_largest__also_on_meta(snippet):
    parts = {"build": after(snippet, *LINES).build}
    with torch.device("meta"):
        test_two_small_batches_predict_the_largest(snippet, parts)


def test_two_small_batches_predict_the_largest__also_if_none_fits(snippet):
    run = after(snippet, *LINES)
    assert run.predict(340_000, 10, 20)[0] < 1
    with run.SmallDevice(340_000), pytest.raises(torch.OutOfMemoryError):
        run.fits(1, 2)
    assert run.predict(1_000_000, 10, 20)[0] < 1
    with run.SmallDevice(1_000_000):
        assert not run.fits(1, 2)


def pairs(model, optimizer, images, labels):
    """Train on the similarities of all pairs of samples."""
    optimizer.zero_grad()
    hidden = model(images)
    (hidden @ hidden.T).logsumexp(1).sum().backward()
    optimizer.step()


def test_two_small_batches_predict_the_largest__ends_with_all_pairs(
    snippet, fails
):
    """If a loss compares all pairs of samples: the table grows with the
    square of the batch.
    """
    parts = {**network(*NETWORKS["one layer"]), "train_step": pairs}
    options = parts, 2, (10, 20), [200_000]
    fails(test_two_small_batches_predict_the_largest, snippet, *options)


def in_parts(model, optimizer, images, labels):
    """Train on parts of at most 16 samples."""
    optimizer.zero_grad()
    for some, goal in zip(images.split(16), labels.split(16), strict=True):
        F.cross_entropy(model(some), goal, reduction="sum").backward()
    optimizer.step()


@pytest.mark.parametrize("sizes", [(10, 20), (10, 14)])
def test_two_small_batches_predict_the_largest__ends_in_parts(
    snippet, sizes, fails
):
    """If the step cuts its batch into parts: a larger batch has more moments,
    which line 5 cannot pair.
    """
    parts = {**network(*NETWORKS["one layer"]), "train_step": in_parts}
    options = parts, 2, sizes, [40_000]
    fails(test_two_small_batches_predict_the_largest, snippet, *options)


def test_two_small_batches_predict_the_largest__ends_with_rounding(
    snippet, fails
):
    """If the device rounds each tensor up to 512 bytes, as CUDA's allocator
    does: the lines become stairs.
    """
    edited = snippet.edit(
        "self.hold(storage.nbytes())",
        "self.hold(-storage.nbytes() // 512 * -512)",
    ).edit(
        "self.hold, -storage.nbytes())",
        "self.hold, -storage.nbytes() // 512 * 512)",
    )
    fails(test_two_small_batches_predict_the_largest, edited)


@edits(
    ("5", "zip(*traces, strict=True):  # 5", "zip(*map(sorted, traces)):"),
    ("6", "(more - less) // (large - small)  # 6", "more // large"),
    ("7", "less - small * per_sample  # 7", "less - per_sample"),
    ("8", "(free - fixed) // per_sample  # 8", "free // per_sample"),
    ("9", "return min(found)", "return max(found)"),
    ("9, the peak", "return min(found)", "return min(found[-9:])"),
)
def test_two_small_batches_predict_the_largest__but_not_with_another_line(
    snippet, fails, old, new
):
    """Each line is needed: other moments, a line through 0, other fixed
    bytes, or another moment's room give a different size.
    """
    edited = snippet.edit(old, new)
    fails(test_two_small_batches_predict_the_largest, edited)


# What goes wrong


@pytest.mark.simulates("an accelerator")
def test_two_steps_reach_the_peak(snippet):
    run = after(snippet, *LINES, "your-search", "one-step")

    assert (run.once, run.best) == (607, 451)
    seen = [
        trained(run, size, steps, 3_000_000)
        for size, steps in ((607, 1), (608, 1), (607, 2), (451, 2), (451, 5))
    ]
    assert seen == [True, False, False, True, True]


@pytest.mark.parametrize("kind", [optim.RMSprop, MOMENTUM, AMSGRAD])
def test_two_steps_reach_the_peak__also_with(snippet, kind):
    run = after(snippet, *LINES)
    with using(run, build=partial(run.build, kind)):
        sizes = [run.predict(3_000_000, 10, 20, n)[0] for n in (1, 2, 3)]
    assert sizes[0] > sizes[1] == sizes[2] > 2
    assert trained(run, sizes[1], 3, 3_000_000, kind)
    assert not trained(run, sizes[0], 2, 3_000_000, kind)


def test_two_steps_reach_the_peak__ends_if_steps_are_skipped(snippet, fails):
    """If a `GradScaler` skips the first steps, since its scale is too high:
    these make no state.
    """
    edited = snippet.edit(
        "labels).backward()\n    optimizer.step()\n\n\n# %% your",
        "labels) * 100\n"
        "    scaler = torch.amp.GradScaler('cpu', init_scale=2.0**127)\n"
        "    scaler.scale(loss).backward()\n"
        "    scaler.step(optimizer)\n\n\n# %% your",
    ).edit(
        "zero_grad()\n    F.cross_entropy(model(images)",
        "zero_grad()\n    loss = F.cross_entropy(model(images)",
    )
    run = after(edited, *LINES)
    sizes = [run.predict(3_000_000, 10, 20, n)[0] for n in (1, 2)]
    assert sizes[0] == sizes[1] > 600
    fails(test_two_steps_reach_the_peak, edited)


def test_two_steps_reach_the_peak__but_not_without_a_state(snippet, fails):
    """Plain SGD keeps no state, so the same 607 images fit one step and
    two.
    """
    edited = snippet.edit("kind=torch.optim.AdamW", "kind=torch.optim.SGD")
    fails(test_two_steps_reach_the_peak, edited)


def test_failed_batches_are_skipped(snippet):
    with no_error():
        run = after(snippet, *KNOWN)

    assert (len(run.digits), run.trained) == (1797, 197)


def test_failed_batches_are_skipped__also_without_a_word(snippet, capsys):
    with no_error():  # which a warning would be
        snippet.only(*KNOWN).after(KNOWN[-1])

    assert capsys.readouterr().out == "trained on 197 of 1797\n"


@edits(
    (
        "if they fit",
        "SmallDevice(3_000_000):\n    tr",
        "SmallDevice(9e6):\n tr",
    ),
    (
        "if a new loop begins",
        "    for images, labels in loader:\n        try:",
        "    for images, labels in (x for _ in 'abc' for x in loader):\n"
        "        try:",
    ),
)
def test_failed_batches_are_skipped__but_not(snippet, fails, old, new):
    """With room for every batch nothing is skipped; a new loop takes the
    newest loader.
    """
    fails(test_failed_batches_are_skipped, snippet.edit(old, new))


def test_bugs_are_swallowed(snippet, capsys):
    with no_error():
        snippet.only(*KNOWN, "swallowed").after("swallowed")
    assert "batch_size=0" in capsys.readouterr().out


def wrong_shapes(size):
    """Return images that are not 64 numbers in a row."""
    return torch.rand(size, 8, 8), torch.ones(size).long()


def failing(error):
    """Return a step that raises an error."""

    def train_step(*parts):
        raise error

    return train_step


OTHERS = [KeyError("a"), MemoryError(), KeyboardInterrupt()]
OTHERS += [
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
]


def test_bugs_are_swallowed__also_but_not_by_the_search(snippet):
    run = after(snippet, *SEARCH)
    with (
        using(run, make_batch=wrong_shapes),
        pytest.raises(RuntimeError, match="cannot be multiplied"),
    ):
        run.largest_batch(9)
    for error in OTHERS:
        with (
            using(run, train_step=failing(error)),
            pytest.raises(type(error)),
        ):
            run.largest_batch(9)


def test_bugs_are_swallowed__but_not_by_the_right_error(
    snippet, capsys, fails
):
    """With `except torch.OutOfMemoryError`, the error about the shapes is
    raised.
    """
    edited = snippet.edit(
        "        except RuntimeError:\n            batch",
        "        except torch.OutOfMemoryError:\n            batch",
    )
    fails(test_bugs_are_swallowed, edited, capsys)


def test_recover_outside_the_handler(snippet, size=1000):
    run = after(snippet, "device", "parts", "recover")
    with run.SmallDevice(3_000_000) as device:
        run.inside_and_after.__globals__["device"] = device
        inside, later = run.inside_and_after(size)

    assert inside > 1_000_000
    assert later == 340_008


def test_recover_outside_the_handler__ends_in_backward(snippet, fails):
    """The layers behind the one that failed in `backward()` have their
    gradients, which stay until somebody clears them.
    """
    fails(test_recover_outside_the_handler, snippet, 700)


@edits(
    (
        "if the error is kept",
        "MemoryError:\n        inside",
        "MemoryError as error:\n        kept = error\n        inside",
    ),
    (
        "without tensors",
        "    try:\n        train_step(model, optimizer, *make_batch(size))\n"
        "    except",
        "    try:\n        raise torch.OutOfMemoryError\n    except",
    ),
)
def test_recover_outside_the_handler__but_not(snippet, fails, old, new):
    """As long as a name holds the error, the tensors stay; an error before
    the step has no tensors.
    """
    fails(test_recover_outside_the_handler, snippet.edit(old, new))


def test_a_retry_adds_its_gradients(snippet):
    run = after(snippet, "device", "parts", "retry-wrong")
    assert run.size == 350
    assert run.model[-1].bias.grad.tolist() == [1400] * 10

    model, _ = run.build()
    model(run.images).sum().backward()
    assert model[-1].bias.grad.tolist() == [700] * 10
    assert run.model[0].bias.grad is not None


@edits(
    (
        "emptied",
        "        try:\n            for part",
        "        model.zero_grad()\n        try:\n            for part",
    ),
    (
        "failed in the forward pass",
        "SmallDevice(3_000_000):\n    model, _ = build()",
        "SmallDevice(2_500_000):\n    model, _ = build()",
    ),
)
def test_a_retry_adds_its_gradients__but_not(snippet, fails, old, new):
    """After `zero_grad()`, or if the forward pass fails first, there is
    nothing to add to: the gradient is 700.
    """
    fails(test_a_retry_adds_its_gradients, snippet.edit(old, new))


def plain(seed=0, layer=nn.ReLU, kind=optim.SGD):
    """Return a model whose gradients do not depend on the parts."""
    torch.manual_seed(seed)
    layers = nn.Linear(64, 128), layer(), nn.Linear(128, 10)
    model = nn.Sequential(*layers).double()
    return model, kind(model.parameters(), lr=0.01)


def test_the_epoch_skips_nothing(
    snippet, room=700_000, batch=151, seed=0, layer=nn.ReLU, kind=optim.SGD
):
    run = after(snippet, *RETRY)
    torch.manual_seed(seed)
    images = torch.rand(330, 64, dtype=torch.float64)
    data = TensorDataset(images, torch.arange(330) % 10)
    model, optimizer = plain(seed, layer, kind)
    for some, labels in DataLoader(data, batch):
        run.train_step(model, optimizer, some, labels)

    with run.SmallDevice(room):
        other, optimizer = plain(seed, layer, kind)
        loader = DataLoader(data, batch)
        with no_error():
            size = run.train_epoch(other, optimizer, loader, 10 * batch)
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    apart = max((one - two).abs().max().item() for one, two in pairs)
    assert apart < 1e-12
    assert size < batch
    lengths = []
    other.register_forward_hook(lambda *of: lengths.append(len(of[-1])))
    assert run.gradients_fit(other, optimizer, *data[:7], 3)
    assert lengths == [3, 3, 1]


@pytest.mark.parametrize(
    ("room", "batch"), [(600_000, 150), (700_000, 330), (420_000, 47)]
)
def test_the_epoch_skips_nothing__also_with(snippet, room, batch):
    test_the_epoch_skips_nothing(snippet, room, batch, seed=1)


@pytest.mark.parametrize("kind", [MOMENTUM, optim.AdamW])
def test_the_epoch_skips_nothing__also_trained_by(snippet, kind):
    options = 750_000, 150, 0, nn.Tanh, kind
    test_the_epoch_skips_nothing(snippet, *options)


def test_the_epoch_skips_nothing__also_of_the_page(snippet):
    run = snippet.only(*RETRY, "digits", "retried").after("retried")
    assert run.size == 200
    counted = run.optimizer.state[run.model[0].weight]["step"]
    assert counted == len(run.digits) // 800 + 1


@pytest.mark.simulates("an accelerator")
def test_the_epoch_skips_nothing__also_with_moved_parts(snippet):
    moved = snippet.edit("model(part), goal", 'model(part.to("meta")), goal')
    moved = moved.edit("goal, reduction", 'goal.to("meta"), reduction')
    run = after(moved, *RETRY)
    model, optimizer = run.build()
    model.to("meta")
    with no_error():
        assert run.gradients_fit(model, optimizer, *run.make_batch(7), 3)
    devices = {each.grad.device.type for each in model.parameters()}
    assert devices == {"meta"}


@edits(
    (
        "skipped",
        "        while not gradients_fit(",
        "        if not gradients_fit(",
    ),
    ("with a mean", ', reduction="sum")', ")"),
    ("divided by the part", "(loss / len(images)).b", "(loss / len(part)).b"),
    ("not divided", "(loss / len(images)).b", "loss.b"),
)
def test_the_epoch_skips_nothing__but_not(snippet, fails, old, new):
    """With `if` instead of `while`, a failed batch is not tried again; with
    other factors, the gradients add up differently.
    """
    fails(test_the_epoch_skips_nothing, snippet.edit(old, new))


def test_the_epoch_skips_nothing__but_not_without_a_reset(snippet, fails):
    """Without `zero_grad()`, the gradients that a failed try has left are
    added to those of the next.
    """
    edited = snippet.edit(
        "    optimizer.zero_grad()  # what a", "    # what a"
    )
    fails(test_the_epoch_skips_nothing, edited)


def test_the_epoch_skips_nothing__ends_with_batchnorm(snippet, fails):
    """With BatchNorm: it normalizes each part by itself and counts failed
    tries, so the weights differ.
    """
    layer = partial(nn.BatchNorm1d, 128)
    fails(test_the_epoch_skips_nothing, snippet, 600_000, 150, 0, layer)

    run = after(snippet, *RETRY)
    images = torch.rand(150, 64, dtype=torch.float64)
    with run.SmallDevice(500_000):
        model, optimizer = plain(0, layer)
        batch = images, torch.arange(150) % 10
        size = run.train_epoch(model, optimizer, [batch], 150)
    parts = math.ceil(150 / size)
    assert 1 < parts < model[1].num_batches_tracked


def test_the_epoch_skips_nothing__ends_with_dropout(snippet, fails):
    """With dropout: each part draws its own zeros."""
    layer = partial(nn.Dropout, 0.5)
    fails(test_the_epoch_skips_nothing, snippet, 600_000, 150, 0, layer)


def test_the_epoch_skips_nothing__ends_if_nothing_fits(snippet, fails):
    """If not one sample fits: `split` raises an error for size 0."""
    fails(test_the_epoch_skips_nothing, snippet, 400_000)
    with pytest.raises(pytest.fail.Exception, match="split_size can only"):
        test_the_epoch_skips_nothing(snippet, 400_000)


def test_the_state_stays_half_made(snippet, kind=None, least=1_000_000):
    run = after(snippet, *SEARCH)
    kind = kind or run.build.__defaults__[0]
    for room in (least, least + 100_000):
        with run.SmallDevice(room):
            model, optimizer = run.build(kind)
            batch = run.make_batch(16)
            with pytest.raises(torch.OutOfMemoryError):
                run.train_step(model, optimizer, *batch)
        for _ in range(2):
            with pytest.raises(KeyError, match="exp_avg"):
                run.train_step(model, optimizer, *batch)


def test_the_state_stays_half_made__but_not_of_plain_sgd(snippet, fails):
    """Plain SGD makes no state, so memory does not run out there."""
    edited = snippet.edit("kind=torch.optim.AdamW", "kind=torch.optim.SGD")
    fails(test_the_state_stays_half_made, edited)


def test_the_state_stays_half_made__also_as_printed(snippet, capsys):
    cells = "device", "parts", "half-made"
    run = snippet.only(*cells).after("half-made")
    assert "KeyError: 'exp_avg'\n" in capsys.readouterr().out
    states = [run.optimizer.state.get(p, {}) for p in run.model.parameters()]
    assert [*states[0]] == ["step", "exp_avg", "exp_avg_sq"]
    assert any(0 < len(each) < 3 for each in states)


@pytest.mark.parametrize(
    "kind",
    [
        optim.Adam,
        partial(optim.AdamW, foreach=True),
        partial(optim.AdamW, fused=True),
        AMSGRAD,
    ],
)
def test_the_state_stays_half_made__also_with(snippet, kind):
    test_the_state_stays_half_made(snippet, kind)


def test_the_state_stays_half_made__also_in_an_epoch(snippet):
    run = after(snippet, *RETRY)
    with run.SmallDevice(1_000_000):
        model, optimizer = run.build()
        batch = run.make_batch(16)
        with pytest.raises(torch.OutOfMemoryError):
            run.train_epoch(model, optimizer, [batch], 16)
    with pytest.raises(KeyError, match="exp_avg"):
        run.train_epoch(model, optimizer, [batch], 16)


def test_the_state_stays_half_made__ends_in_backward(snippet, fails):
    """If memory runs out in `backward`: the optimizer has made no state."""
    fails(test_the_state_stays_half_made, snippet, optim.AdamW, 500_000)


def test_the_state_stays_half_made__ends_for_momentum(snippet, fails):
    """For SGD with momentum: it keeps one tensor for each weight, so later
    steps raise no `KeyError`.
    """
    fails(test_the_state_stays_half_made, snippet, MOMENTUM)


FULL = [
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronously"
    " reported at some other API call",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"
    " `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "MPS backend out of memory (MPS allocated: 5.50 GB, other allocations:"
    " 14.76 GB, max allowed: 20.40 GB). Tried to allocate 147.24 MB on"
    " private pool.",
    "CUDA out of memory. Tried to allocate 256.00 MiB.",
]
HANDLER = (
    "    except RuntimeError as error:\n"
    "{0}        if not is_full(error):\n{0}            raise\n"
)


def told_by_is_full(snippet):
    """Return the program with the lines of the page in both functions."""
    one = "    except torch.OutOfMemoryError:  # 4\n"
    snippet = snippet.edit(one, HANDLER.format(""))
    two = "    except torch.OutOfMemoryError:\n        return False\n"
    return snippet.edit(two, HANDLER.format("") + "        return False\n")


@pytest.mark.simulates("an accelerator")
def test_a_full_device_has_many_words(snippet, texts=FULL):
    """Raises errors with the texts of devices; none was full."""
    run = after(told_by_is_full(snippet), *RETRY, "is-full")
    assert run.is_full(torch.OutOfMemoryError("CUDA out of memory."))
    for said in texts:

        def train_step(model, optimizer, images, labels, said=said):
            if len(images) > 11:
                raise RuntimeError(said)

        with using(run, train_step=train_step), no_error():
            found = run.largest_batch(40)
        assert (said, found) == (said, 11)

        class Full(nn.Linear):
            def forward(self, inputs, said=said):
                if len(inputs) > 3:
                    raise RuntimeError(said)
                return super().forward(inputs)

        model = Full(64, 10)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        with no_error():
            size = run.train_epoch(model, optimizer, [run.make_batch(8)], 8)
        assert (said, size) == (said, 2)


def test_a_full_device_has_many_words__also_but_no_others(snippet):
    run = after(told_by_is_full(snippet), *RETRY, "is-full")
    with (
        using(run, make_batch=wrong_shapes),
        pytest.raises(RuntimeError, match="cannot be multiplied"),
    ):
        run.largest_batch(9)


@edits(
    ('FULL = "out of memory", ', 'FULL = "CUDA out of memory", '),
    ('"ALLOC_FAILED", ', ""),
    ('"ALLOC_FAILED", "ALLOCATION_FAILED"', '"ALLOC_FAILED"'),
)
def test_a_full_device_has_many_words__but_not(snippet, fails, old, new):
    """A narrower `FULL` misses some of these errors."""
    fails(test_a_full_device_has_many_words, snippet.edit(old, new))


@pytest.mark.parametrize(
    "said",
    [
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling"
        " `cublasCreate(handle)`",
    ],
)
def test_a_full_device_has_many_words__ends_for(snippet, fails, said):
    """For errors that do not mention memory, such as
    `CUDNN_STATUS_EXECUTION_FAILED`: the search raises them.
    """
    fails(test_a_full_device_has_many_words, snippet, [said])


# Where it ends


@pytest.mark.cuda
def test_the_search_works_on_cuda(snippet):
    run = after(snippet, *SEARCH, "on-cuda")
    torch.cuda.set_per_process_memory_fraction(2**30 / run.total)
    try:
        with torch.device("cuda"):
            assert 2 <= run.cuda_best < 2**21
            assert run.fits(run.cuda_best, 3)
            assert not run.fits(2 * run.cuda_best, 2)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.cuda
def test_the_search_works_on_cuda__but_not_beyond_most(snippet, fails):
    """With `most` at 64, the search goes no further, even if twice as many
    fit.
    """
    edited = snippet.edit("most=2**21)", "most=64)")
    fails(test_the_search_works_on_cuda, edited)
