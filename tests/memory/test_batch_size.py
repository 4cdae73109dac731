"""The claims of docs/memory/batch_size.md."""

import copy
import gc
import math
import random
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

pytestmark = pytest.mark.usefixtures("frozen")

SEARCH = ("imports", "your-step", "is-full", "fits", "search")
DEVICE = ("room", "small-device", "forecast")
MODEL = (*SEARCH, *DEVICE)
RETRY = (*MODEL, "gradients", "epoch")
MOMENTUM = partial(optim.SGD, momentum=0.9)


def batch_up_to(limit):
    """Return what makes batches, and is out of memory beyond a limit."""

    def make_batch(size):
        if size > limit:
            raise torch.OutOfMemoryError
        return torch.randn(size, 128), torch.randn(size, 1)

    return make_batch


def search_up_to(run, limit, most, least):
    """Search with tries that compute nothing; return what was asked, too."""
    asked = []

    def fits(build, make_batch, size, steps):
        asked.append(size)
        return size <= limit

    with patch.dict(run.largest_batch.__globals__, fits=fits):
        return *run.largest_batch(None, None, most, least), asked


# Do this


def test_the_search_finds_the_largest(snippet, least=2):
    run = after(snippet, *MODEL)
    for most in (least, 9, 64, 100, 5000):
        for limit in (*range(min(most, 100) + 3), 999, 1000, 4999, 5000):
            found, tries, _ = search_up_to(run, limit, most, least)
            largest = min(limit, most)
            assert found == (largest if largest >= least else 0)
            assert all(fit == (size <= limit) for size, fit in tries.items())
    with no_error():
        found, _ = run.largest_batch(run.fresh, batch_up_to(11), 20)
    assert found == 11
    assert run.largest_batch(run.fresh, batch_up_to(1), 20)[0] == 0


@pytest.mark.parametrize("least", [1, 3, 5, 8])
def test_the_search_finds_the_largest__also_if_least_is(snippet, least):
    test_the_search_finds_the_largest(snippet, least)


@edits(
    ("beyond most", "min(2 * size, most)", "2 * size"),
    ("not up to most", "most + 1  #", "most  #"),
    ("stops early", "while high - low > 1:", "while high - low > 2:"),
    ("not the largest", "return max((n", "return min((n"),
    ("below least", "max((n for n in tries if tries[n]), default=0)", "low"),
    (
        "no try",
        "                raise\n            return False\n    return True",
        "                raise\n            return True\n    return True",
    ),
)
def test_the_search_finds_the_largest__but_not(snippet, fails, old, new):
    """With doubling past `most`, a larger size is returned; the other edits
    stop too early or return the wrong size.
    """
    fails(test_the_search_finds_the_largest, snippet.edit(old, new))


def test_the_search_finds_the_largest__ends_if_a_smaller_size_fails(
    snippet, fails
):
    """If a size fails though larger ones fit, the search misses those: here 4
    fails, so it returns 3.
    """
    edited = snippet.edit(
        "tries[size] = fits(build", "tries[size] = size != 4 and fits(build"
    )
    fails(test_the_search_finds_the_largest, edited)


NO_SIZES = [(5, 4), (2, 0), (0, 9), (-1, 9)]


def test_the_sizes_are_checked(snippet, sizes=NO_SIZES):
    run = after(snippet, *MODEL)
    for least, most in sizes:
        with pytest.raises(ValueError, match="no sizes from"):
            search_up_to(run, 20, most, least)
    for least, most in ((1, 1), (3, 4)):
        with no_error():
            search_up_to(run, 9, most, least)


@edits(
    ("if not 1 <= least <= most:", "if not 1 <= least:"),
    (
        "from 1 without a word",
        "    if not 1 <= least <= most:",
        "    least = max(least, 1)\n    if not least <= most:",
    ),
    ("if not 1 <= least <= most:", "if not 1 < least < most:"),
)
def test_the_sizes_are_checked__but_not(snippet, fails, old, new):
    """Without a check of `most`, or with `least` raised to 1, bad sizes pass;
    a stricter check raises for good ones.
    """
    fails(test_the_sizes_are_checked, snippet.edit(old, new))


def snapshot(model, optimizer):
    """Return all that training changes, as copies."""
    kept = [optimizer.param_groups, list(optimizer.state.values())]
    kept += [each.training for each in model.modules()]
    kept += [*model.parameters(), *model.buffers()]
    kept += [each.grad for each in model.parameters()]
    return copy.deepcopy([*kept, torch.get_rng_state()])


def same(one, other):
    """Compare bit for bit, inside of lists and dictionaries too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.equal(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and same(
            list(one.values()), list(other.values())
        )
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=True)
        return len(one) == len(other) and all(same(*pair) for pair in pairs)
    return one == other


def test_the_search_changes_nothing(snippet, kind=optim.AdamW, trained=1):
    run = after(snippet, *MODEL)
    model, optimizer = run.fresh(kind)
    for _ in range(trained):
        run.step(model, optimizer, *run.make_batch(4))
    model.eval()
    built = []

    def build():
        built.append(run.fresh(kind))
        return built[-1]

    for limit in (0, 5, 9):
        built.clear()
        model.train(limit == 5)
        kept = snapshot(model, optimizer)
        _, tries = run.largest_batch(build, batch_up_to(limit), most=9)
        assert same(kept, snapshot(model, optimizer))
        assert len(built) == len(tries)
        for (each, _), fit in zip(built, tries.values(), strict=True):
            assert (each[-1].weight.grad is not None) == fit
            assert each[1].num_batches_tracked == (2 if fit else 0)


@pytest.mark.parametrize("kind", [optim.SGD, MOMENTUM, optim.Adagrad])
def test_the_search_changes_nothing__also_with(snippet, kind):
    test_the_search_changes_nothing(snippet, kind)


@pytest.mark.parametrize("trained", [0, 3], ids="{} steps".format)
def test_the_search_changes_nothing__also_after(snippet, trained):
    test_the_search_changes_nothing(snippet, optim.Adam, trained)


BUILT = (
    "        model, optimizer = build()\n        model.train()\n        try"
)
FORK = "    with torch.random.fork_rng():\n        model, optimizer = build()"
ONCE = """        fits.kept = getattr(fits, "kept", None) or build()
        model, optimizer = fits.kept
"""


@edits(
    ("one model for all", BUILT, ONCE + "        model.train()\n        try"),
    (
        "of the generator",
        f"{FORK}\n        model.train()\n        try",
        f"    if True:\n{BUILT}",
    ),
)
def test_the_search_changes_nothing__but_not(snippet, fails, old, new):
    """With one model kept for all tries, none is new; without `fork_rng`, the
    random generator moves on.
    """
    fails(test_the_search_changes_nothing, snippet.edit(old, new))


def test_the_search_is_short(snippet, least=2, extra=1):
    run = after(snippet, *MODEL)
    for largest in range(least, 1001):
        for most in (largest, largest + 7, 1000):
            found, _, asked = search_up_to(run, largest, most, least)
            assert found == largest
            assert len(asked) == len(set(asked))
            assert len(asked) <= 2 * math.log2(largest) + extra
    assert len(search_up_to(run, least - 1, 1000, least)[-1]) == 1
    if least == 2:
        for largest in range(128, 256):
            assert len(search_up_to(run, largest, 1000, least)[-1]) == 15


@pytest.mark.parametrize("least", [1, 3, 6])
def test_the_search_is_short__also_if_least_is(snippet, least):
    test_the_search_is_short(snippet, least, extra=2)


@edits(
    ("one by one", "min(2 * size, most)", "size + 1"),
    ("beyond the gap", "min(2 * size, most)", "min(4 * size, most)"),
    ("by thirds", "(low + high) // 2", "max(low + 1, (2 * low + high) // 3)"),
)
def test_the_search_is_short__but_not(snippet, fails, old, new):
    """Growing the size by one, or fourfold, or splitting the gap into thirds
    takes more tries than that.
    """
    fails(test_the_search_is_short, snippet.edit(old, new))


def test_other_errors_pass(snippet, error=ValueError):
    run = after(snippet, *MODEL)

    def make_batch(size):
        if size > 8:
            raise error
        return run.make_batch(size)

    with pytest.raises(error):
        run.largest_batch(run.fresh, make_batch, most=100)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        run.largest_batch(run.fresh, lambda n: (torch.ones(n, 7), 0), 9)


OTHERS = [RuntimeError, KeyError, IndexError, TypeError, MemoryError]
OTHERS += [AssertionError, OSError, KeyboardInterrupt]


@pytest.mark.parametrize("error", OTHERS)
def test_other_errors_pass__also_for(snippet, error):
    test_other_errors_pass(snippet, error)


@pytest.mark.parametrize(
    "said",
    [
        "CUDA error: device-side assert triggered",
        "CUDA error: an illegal memory access was encountered",
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling"
        " `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if"
        " you passed in a non-contiguous input.",
    ],
    ids=[
        "a failed assertion",
        "an illegal access",
        "EXECUTION_FAILED",
        "NOT_INITIALIZED",
        "NOT_SUPPORTED",
    ],
)
def test_other_errors_pass__also_after(snippet, said):
    class Broken(RuntimeError):
        def __init__(self):
            super().__init__(said)

    test_other_errors_pass(snippet, Broken)


@edits(
    (
        "as RuntimeError",
        "            if not is_full(error):\n                raise\n"
        "            return False",
        "            return False",
    ),
    (
        "all",
        "        except RuntimeError as error:\n            if not is_full"
        "(error):\n                raise\n            return False",
        "        except Exception:\n            return False",
    ),
)
def test_other_errors_pass__but_not_caught(snippet, fails, old, new):
    """Without the check by `is_full`, wrong shapes count as a full device;
    with `except Exception`, so does a `ValueError`.
    """
    fails(test_other_errors_pass, snippet.edit(old, new))


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


@pytest.mark.simulates("an accelerator")
def test_a_full_device_has_many_words(snippet, texts=FULL):
    """Raises errors with the texts of devices; none was full."""
    run = after(snippet, *RETRY)
    assert run.is_full(torch.OutOfMemoryError())
    for said in texts:

        def make_batch(size, said=said):
            if size > 11:
                raise RuntimeError(said)
            return run.make_batch(size)

        with no_error():
            found, _ = run.largest_batch(run.fresh, make_batch, 40)
        assert found == 11, said

        class Full(nn.Linear):
            def forward(self, inputs, said=said):
                if len(inputs) > 3:
                    raise RuntimeError(said)
                return super().forward(inputs)

        model = Full(128, 1)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        with no_error():
            size = run.train_epoch(model, optimizer, [run.make_batch(8)], 8)
        assert size == 2, said


@edits(
    ('FULL = "out of memory", ', 'FULL = "CUDA out of memory", '),
    ('"ALLOC_FAILED", ', ""),
    (
        "in the retry",
        "    except RuntimeError as error:\n        if not is_full(error):\n"
        "            raise\n        return False",
        "    except torch.OutOfMemoryError:\n        return False",
    ),
    (
        "in the search",
        "        except RuntimeError as error:\n            if not is_full"
        "(error):\n                raise\n            return False",
        "        except torch.OutOfMemoryError:\n            return False",
    ),
)
def test_a_full_device_has_many_words__but_not(snippet, fails, old, new):
    """A narrower `FULL`, or `except torch.OutOfMemoryError` alone, misses some
    of these errors.
    """
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


# How it works


def holds(run, size, steps, kind, room=3_000_000):
    """Return whether a training of some steps fits, with no copy beside."""
    with run.SmallDevice(room):
        model, optimizer = run.fresh(kind)
        try:
            for _ in range(steps):
                run.step(model, optimizer, *run.make_batch(size))
        except torch.OutOfMemoryError:
            return False
    return True


def ended(run, room, size):
    """Return in which part of a step memory ends."""
    with run.SmallDevice(room):
        model, optimizer = run.fresh()
        try:
            run.step(model, optimizer, *run.make_batch(size))
        except torch.OutOfMemoryError:
            grads = [each.grad is not None for each in model.parameters()]
            if not any(grads):
                return "forward"
            return "optimizer" if all(grads) else "backward"
    return "nowhere"


def test_the_stand_in_counts_bytes(snippet):
    run = after(snippet, *MODEL)
    with run.SmallDevice(4000) as device:
        kept = torch.ones(500)
        with no_error():
            view = kept.view(5, 100).T
        assert device.held == 2000
        with pytest.raises(torch.OutOfMemoryError):
            torch.ones(501)
        assert device.held == 2000
        del kept
        assert device.held == 2000
        del view
        assert device.held == 0
        with no_error():
            torch.ones(1000)
        transposed = torch.ones(5, 100).T
        doubled = transposed * 2  # is transposed as well
        assert not doubled.is_contiguous()
        assert device.held == 4000
    with run.SmallDevice(10_000) as device:
        errors = torch.zeros(500)
        loss = F.mse_loss(errors, errors)  # one number of 500
        assert device.held == loss.untyped_storage().nbytes() + 2000
        del loss
        highest, days = errors.view(5, 100).max(1)
        assert device.held == 2000 + highest.nbytes + days.nbytes == 2060
    assert ended(run, 3_000_000, 800) == "forward"
    assert ended(run, 3_000_000, 360) == "backward"
    assert ended(run, 1_200_000, 16) == "optimizer"
    assert ended(run, 3_000_000, 16) == "nowhere"


@edits(
    ("as often as shared", "if storage not in self.known:", "if True:"),
    ("for ever", "self.hold, -storage", "self.hold, 0 * storage"),
    ("without end", "if self.held + more > self.size:", "if False:"),
    ("a byte early", "self.held + more > self", "self.held + more >= self"),
)
def test_the_stand_in_counts_bytes__but_not(snippet, fails, old, new):
    """Counted again for each view, or never subtracted, the bytes are wrong;
    the other edits drop or shift the limit.
    """
    fails(test_the_stand_in_counts_bytes, snippet.edit(old, new))


def sizes_of_tries(limit, most, least):
    """Return the sizes in the order of the words."""
    sizes = [least]
    while sizes[-1] <= limit and sizes[-1] < most:
        sizes.append(min(2 * sizes[-1], most))
    fits, fails = max((n for n in sizes if n <= limit), default=0), sizes[-1]
    while fits and fails > limit and fails - fits > 1:
        sizes.append((fits + fails) // 2)
        fits, fails = [
            (fits, sizes[-1]),
            (sizes[-1], fails),
        ][sizes[-1] <= limit]
    return sizes


def test_the_search_doubles_then_halves(snippet, least=2, most=1000):
    run = after(snippet, *MODEL)
    for limit in [*range(least - 1, 70), *range(70, most + 9, 23)]:
        tries, asked = search_up_to(run, limit, most, least)[1:]
        assert asked == sizes_of_tries(limit, most, least)
        assert tries == {size: size <= limit for size in asked}


@pytest.mark.parametrize(
    ("least", "most"),
    [(1, 1), (1, 64), (3, 65), (40, 63)],
    ids=["1 to 1", "1 to 64", "3 to 65", "40 to 63"],
)
def test_the_search_doubles_then_halves__also_from(snippet, least, most):
    test_the_search_doubles_then_halves(snippet, least, most)


@edits(
    ("in threes", "min(2 * size, most)", "min(3 * size, most)"),
    ("beyond most", "min(2 * size, most)", "2 * size"),
    ("one by one", "else (low + high) // 2", "else low + 1"),
    ("doubled again", "if all(tries.values())", "if tries[size]"),
)
def test_the_search_doubles_then_halves__but_not(snippet, fails, old, new):
    """Tripled, or not held at `most`, the first sizes differ; one by one, or
    with more doubling, the gap is not halved.
    """
    fails(test_the_search_doubles_then_halves, snippet.edit(old, new))


def test_a_try_takes_two_steps(snippet):
    run = after(snippet, *MODEL)
    made, stepped = [], []

    def make_batch(size):
        made.append(size)
        return run.make_batch(size)

    with patch.dict(run.fits.__globals__, step=lambda *a: stepped.append(a)):
        for steps in (1, 3):
            run.largest_batch(run.fresh, make_batch, 2, steps=steps)
            assert len(made) == len(stepped) == steps
            made.clear()
            stepped.clear()
        run.fits(run.fresh, make_batch, 2)
        assert len(made) == len(stepped) == 2
        made.clear()
        stepped.clear()
        _, tries = run.largest_batch(run.fresh, make_batch, most=9)
    assert made == [size for size in tries for _ in range(2)]
    first, second = stepped[::2], stepped[1::2]
    pairs = [(a[:2], b[:2]) for a, b in zip(first, second, strict=True)]
    assert all(one == other for one, other in pairs)
    models = [model for (model, _), _ in pairs]
    assert len(set(models)) == len(tries)


@edits(
    ("least=2, steps=2):", "least=2, steps=1):"),
    ("            for _ in range(steps):\n", "            if True:\n"),
    (
        "each with a new model",
        "            for _ in range(steps):\n",
        "            for _ in range(steps):\n"
        "                model, optimizer = build()\n",
    ),
)
def test_a_try_takes_two_steps__but_not(snippet, fails, old, new):
    """With `steps=1` or no loop, a try takes one step; with `build()` inside
    the loop, each step gets a new model.
    """
    fails(test_a_try_takes_two_steps, snippet.edit(old, new))


@pytest.mark.simulates("an accelerator")
def test_two_steps_reach_the_peak(snippet):
    searches = "def largest_batch(build, make_batch, most, "
    run = after(
        snippet.edit(
            f"{searches}least=2, steps=2):\n",
            f"searched = []\n\n\n{searches}least=2, steps=2):\n"
            "    searched.append(steps)\n",
        ),
        *MODEL,
        "your-search",
        "one-step",
        "two-tries",
    )

    assert run.searched == [2, 1, 3]
    assert run.once > run.best == run.thrice
    assert (run.once, run.best) == (337, 230)
    both = run.curves[230], run.curves[337]
    assert all(2_500_000 < max(each) <= 3_000_000 for each in both)
    assert len(run.curve(4)) == len(run.curve(4))
    for size, steps, fit in ((230, 5, 1), (337, 1, 1), (337, 2, 0)):
        assert holds(run, size, steps, optim.AdamW) == fit


@pytest.mark.parametrize(
    "kind", [optim.RMSprop, MOMENTUM, partial(optim.Adam, amsgrad=True)]
)
def test_two_steps_reach_the_peak__also_with(snippet, kind):
    run = after(snippet, *MODEL)
    with run.SmallDevice(3_000_000):
        parts = partial(run.fresh, kind), run.make_batch, 500
        found = [run.largest_batch(*parts, steps=n)[0] for n in (2, 3)]
    assert found[0] == found[1] > 2


def test_two_steps_reach_the_peak__but_not_without_a_state(snippet, fails):
    """Plain SGD keeps no state, so the same 337 days fit one step and two."""
    edited = snippet.edit("kind=torch.optim.AdamW", "kind=torch.optim.SGD")
    fails(test_two_steps_reach_the_peak, edited)


def test_each_try_is_in_training_mode(snippet):
    run = after(snippet, *MODEL)
    for mode in (True, False):
        modes = []

        def build(mode=mode):
            model, optimizer = run.fresh()
            return model.train(mode), optimizer

        def step(model, *_, modes=modes):
            modes.extend(each.training for each in model.modules())

        with patch.dict(run.fits.__globals__, step=step):
            _, tries = run.largest_batch(build, run.make_batch, most=99)
        assert len(modes) >= len(tries) > 5
        assert all(modes)


def test_each_try_is_in_training_mode__but_not_unasked(snippet, fails):
    """Without `model.train()`, a model that `build` returns in evaluation mode
    stays in it.
    """
    edited = snippet.edit("    model.train()\n        try:", "    try:")
    fails(test_each_try_is_in_training_mode, edited)


def largest(run, room):
    """Return what fits on a device of so many bytes."""
    with run.SmallDevice(room):
        return run.largest_batch(run.fresh, run.make_batch, 2000)[0]


def beside(run, steps, room):
    """Return what fits beside a model that has been trained, or not."""
    with run.SmallDevice(room):
        model, optimizer = run.fresh()
        for _ in range(steps):
            run.step(model, optimizer, *run.make_batch(4))
        return run.largest_batch(run.fresh, run.make_batch, 2000)[0]


@pytest.mark.simulates("an accelerator")
def test_a_model_beside_takes_room(snippet, room=3_000_000, beside=beside):
    run = after(snippet, *MODEL, "your-search")

    alone = largest(run, room)
    assert alone > beside(run, 0, room) > beside(run, 1, room) >= 0
    assert room != 3_000_000 or run.best == alone == 230


def test_a_model_beside_takes_room__but_not_up_to_64(snippet, fails):
    """If the search stops at 64 days, that many fit in each case."""
    edited = snippet.edit(
        "    tries, size = {}, least\n",
        "    tries, size, most = {}, least, 64\n",
    )
    fails(test_a_model_beside_takes_room, edited)


@pytest.mark.parametrize("room", [4_000_000], ids=["4 MB"])
def test_a_model_beside_takes_room__also_on_a_device_of(snippet, room):
    test_a_model_beside_takes_room(snippet, room)


def deleted(run, steps, room):
    """Return what fits once such a model is deleted."""
    beside(run, steps, room)
    gc.collect()
    return largest(run, room)


def test_a_model_beside_takes_room__ends_once_it_is_deleted(snippet, fails):
    """Once the second model is deleted: as many days fit as without it."""
    fails(test_a_model_beside_takes_room, snippet, 4_000_000, deleted)


@pytest.mark.simulates("an accelerator")
def test_a_model_too_large_raises(snippet, room=300_000):
    run = after(snippet, *MODEL)
    with run.SmallDevice(room), pytest.raises(torch.OutOfMemoryError):
        run.largest_batch(run.fresh, run.make_batch, 1000)


def test_a_model_too_large_raises__but_not_if_built_inside(snippet, fails):
    """With `build()` inside a `try` as well, its error counts as a batch that
    does not fit.
    """
    edited = snippet.edit(
        BUILT,
        "        try:\n            model, optimizer = build()\n"
        "        except torch.OutOfMemoryError:\n            return False\n"
        "        model.train()\n        try",
    )
    fails(test_a_model_too_large_raises, edited)


@pytest.mark.simulates("an accelerator")
def test_a_failed_try_leaves_nothing(
    snippet, circle=True, room=3_000_000, old=False
):
    run = after(snippet, *MODEL)

    def build():
        model, optimizer = run.fresh()
        model.me = [model] if circle else []
        if old:  # the collector looks at old objects less often
            gc.collect(1)
        return model, optimizer

    gc.disable()  # so that nothing is collected by chance
    try:
        with run.SmallDevice(room) as device, no_error():
            largest, tries = run.largest_batch(build, run.make_batch, 1000)
            gc.collect()
            assert device.held == 0
    finally:
        gc.enable()
    assert not all(tries.values())
    assert holds(run, largest, 2, optim.AdamW, room)
    assert not holds(run, largest + 1, 2, optim.AdamW, room)


def test_a_failed_try_leaves_nothing__also_without_a_circle(snippet):
    test_a_failed_try_leaves_nothing(snippet, circle=False, room=2_500_000)


def test_a_failed_try_leaves_nothing__also_of_old_models(snippet):
    test_a_failed_try_leaves_nothing(snippet, old=True)


def test_a_failed_try_leaves_nothing__but_not_uncollected(snippet, fails):
    """Without `gc.collect()`, models of earlier tries stay in memory, until
    there is no room to build the next.
    """
    edited = snippet.edit("    gc.collect()  # ref", "    # ref")
    fails(test_a_failed_try_leaves_nothing, edited)


def test_recover_outside_the_handler(snippet, size=800):
    run = after(snippet, *MODEL, "recover")
    with run.SmallDevice(3_000_000) as device:
        run.around.__globals__["device"] = device
        held = run.around(size)

    assert held["inside except"] > held["before"] + 1_000_000
    assert held["after it"] == held["before"]


@pytest.mark.parametrize("size", [500, 1000])
def test_recover_outside_the_handler__also_for(snippet, size):
    test_recover_outside_the_handler(snippet, size)


def test_recover_outside_the_handler__but_not_if_the_error_is_kept(
    snippet, fails
):
    """As long as `kept` holds the error, the tensors stay alive, even after
    the handler.
    """
    edited = snippet.edit(
        'MemoryError:\n        held["inside',
        'MemoryError as error:\n        kept = error\n        held["inside',
    )
    fails(test_recover_outside_the_handler, edited)


def test_recover_outside_the_handler__but_not_without_tensors(snippet, fails):
    """Here the error is raised before the step makes any tensors, so there are
    none to keep alive.
    """
    edited = snippet.edit(
        "    try:\n        step(model, optimizer, *make_batch(size))\n"
        "    except",
        "    try:\n        raise torch.OutOfMemoryError\n    except",
    )
    fails(test_recover_outside_the_handler, edited)


# What goes wrong

KNOWN = (*MODEL, "well-known", "skipped")


def test_the_running_loop_keeps_its_loader(snippet):
    run = after(snippet, *KNOWN)

    assert run.loader.batch_size == 398
    assert run.trained == [200]  # what 400 and 400 leave of 1,000


def test_the_running_loop_keeps_its_loader__but_a_new_loop_does_not(
    snippet, fails
):
    """Here the loop starts again, nine times, with the newest loader, so its
    batches do get smaller.
    """
    edited = snippet.edit(
        "    for batch in loader:\n        try:",
        "    for batch in (x for _ in range(9) for x in loader):\n"
        "        try:",
    )
    fails(test_the_running_loop_keeps_its_loader, edited)


def test_failed_batches_are_skipped(snippet):
    run = after(snippet, *KNOWN)

    assert (len(run.days), sum(run.trained)) == (1000, 200)


def test_failed_batches_are_skipped__also_without_a_word(snippet, capsys):
    with no_error():  # which a warning would be
        snippet.only(*KNOWN).after(KNOWN[-1])

    said = capsys.readouterr().out.splitlines()
    assert [each.partition(" ")[0] for each in said] == ["trained:"]


def test_failed_batches_are_skipped__but_not_if_they_fit(snippet, fails):
    """With room for 9 MB, every batch fits, and all 1,000 days are
    trained on.
    """
    edited = snippet.edit(
        "with SmallDevice(3_000_000):\n    loader",
        "with SmallDevice(9_000_000):\n    loader",
    )
    fails(test_failed_batches_are_skipped, edited)


def test_bugs_are_swallowed(snippet, capsys):
    with no_error():
        run = after(snippet, *MODEL, "well-known", "skipped", "swallowed")

    assert run.trained_on_7 == []
    assert "batch_size=0" in capsys.readouterr().out


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


SHORT = "Expected more than 1 value per channel when training"


def test_one_sample_raises(snippet):
    run = after(snippet, *MODEL)

    with pytest.raises(ValueError, match=SHORT):
        run.largest_batch(run.fresh, run.make_batch, 4, least=1)
    with no_error():
        found, _ = run.largest_batch(run.fresh, run.make_batch, 4)
    assert found == 4


def test_one_sample_raises__also_in_what_the_page_prints(snippet, capsys):
    after(snippet, *MODEL, "bug", "one-sample", "the-cpu")

    said = capsys.readouterr().out.splitlines()
    assert "cannot be multiplied" in said[0]
    assert SHORT in said[1]
    assert said[2].startswith("RuntimeError")


@edits(
    ("without it", "nn.BatchNorm1d(256), ", ""),
    ("of layers", "nn.BatchNorm1d(256), ", "nn.LayerNorm(256), "),
    ("from one by default", "most, least=2,", "most, least=1,"),
)
def test_one_sample_raises__but_not(snippet, fails, old, new):
    """Without BatchNorm, or with `LayerNorm`, one sample is enough; with
    `least=1` by default, each search starts there.
    """
    fails(test_one_sample_raises, snippet.edit(old, new))


def test_a_retry_adds_its_gradients(snippet):
    run = after(snippet, *MODEL, "retry-wrong")
    assert run.model[-1].bias.grad == 2 * 360
    assert run.size == 360 // 2

    model, _ = run.fresh()
    model(run.inputs).sum().backward()
    assert model[-1].bias.grad == 360
    assert run.model[0].bias.grad is not None


def test_a_retry_adds_its_gradients__also_in_what_the_page_prints(
    snippet, capsys
):
    after(snippet, *MODEL, "retry-wrong", "half-made")

    said = capsys.readouterr().out
    assert "CUDA out of memory. Again, in halves:" in said
    assert "CUDA out of memory. Again, with more room:" in said
    assert "KeyError: 'exp_avg'" in said


@edits(
    (
        "emptied",
        "        try:\n            for some",
        "        model.zero_grad()\n        try:\n            for some",
    ),
    (
        "failed in the forward pass",
        "inputs, _ = make_batch(360)\nwith SmallDevice(3_000_000)",
        "inputs, _ = make_batch(360)\nwith SmallDevice(2_500_000)",
    ),
)
def test_a_retry_adds_its_gradients__but_not(snippet, fails, old, new):
    """After `zero_grad()`, or if the forward pass fails first, there is
    nothing to add to: the gradient is 360.
    """
    fails(test_a_retry_adds_its_gradients, snippet.edit(old, new))


def test_the_state_stays_half_made(snippet, kind=optim.AdamW, least=1_100_000):
    run = after(snippet, *MODEL)
    for room in (least, least + 100_000):
        with run.SmallDevice(room):
            model, optimizer = run.fresh(kind)
            batch = run.make_batch(16)
            with pytest.raises(torch.OutOfMemoryError):
                run.step(model, optimizer, *batch)
        with pytest.raises(KeyError, match="exp_avg"):
            run.step(model, optimizer, *batch)


def test_the_state_stays_half_made__but_not_of_plain_sgd(snippet, fails):
    """Plain SGD makes no state, so memory does not run out there."""
    edited = snippet.edit(
        "kind(model.parameters(), lr=0.001)",
        "torch.optim.SGD(model.parameters(), lr=0.001)",
    )
    fails(test_the_state_stays_half_made, edited)


def test_the_state_stays_half_made__also_in_the_example(snippet):
    run = after(snippet, *MODEL, "half-made")
    states = [
        run.optimizer.state.get(each, {}) for each in run.model.parameters()
    ]
    assert [*states[0]] == ["step", "exp_avg", "exp_avg_sq"]
    assert any(0 < len(each) < 3 for each in states)
    for _ in range(3):
        with pytest.raises(KeyError, match="exp_avg"):
            run.step(run.model, run.optimizer, *run.batch)


@pytest.mark.parametrize(
    "kind",
    [
        optim.Adam,
        partial(optim.AdamW, foreach=True),
        partial(optim.AdamW, fused=True),
        partial(optim.Adam, amsgrad=True),
    ],
)
def test_the_state_stays_half_made__also_with(snippet, kind):
    test_the_state_stays_half_made(snippet, kind)


def test_the_state_stays_half_made__ends_in_backward(snippet, fails):
    """With room for 0.6 MB: memory runs out in `backward`, before the
    optimizer makes any state.
    """
    fails(test_the_state_stays_half_made, snippet, optim.AdamW, 600_000)


def test_the_state_stays_half_made__ends_for_momentum(snippet, fails):
    """For SGD with momentum: it keeps one tensor for each weight, so later
    steps raise no `KeyError`.
    """
    fails(test_the_state_stays_half_made, snippet, MOMENTUM)


def plain(run, seed):
    """Return a model whose gradients do not depend on the parts."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 1))
    model.double()
    return model, optim.SGD(model.parameters(), lr=0.1)


def test_the_epoch_skips_nothing(snippet, seed=0, room=1_500_000, batch=151):
    run = after(snippet, *RETRY)
    torch.manual_seed(seed)
    days = TensorDataset(*[x.double() for x in run.make_batch(330)])
    model, optimizer = plain(run, seed)
    for inputs, targets in DataLoader(days, batch):
        run.step(model, optimizer, inputs, targets)

    with run.SmallDevice(room):
        other, optimizer = plain(run, seed)
        loader = DataLoader(days, batch)
        with no_error():
            size = run.train_epoch(other, optimizer, loader, 10 * batch)
    halves = {batch // 2, batch // 4, batch // 8}
    assert size in (halves if batch > 100 else {10 * batch})
    lengths = []
    other.register_forward_hook(lambda *of: lengths.append(len(of[-1])))
    assert run.gradients_fit(other, optimizer, *days[:7], 3)
    assert lengths == [3, 2, 2]
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    for one, two in pairs:
        assert torch.allclose(one, two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize(
    "room", [1_400_000, 1_600_000], ids=["1400 kB", "1600 kB"]
)
def test_the_epoch_skips_nothing__also_on_a_device_of(snippet, seed, room):
    test_the_epoch_skips_nothing(snippet, seed, room, 150)


def test_the_epoch_skips_nothing__also_with_a_last_batch_of_one(snippet):
    test_the_epoch_skips_nothing(snippet, batch=47)


@edits(
    (
        "skipped",
        "        while not gradients_fit(",
        "        if not gradients_fit(",
    ),
    ("by their number", "len(some) / len(inputs)).b", "1 / parts).b"),
    ("not divided", "(loss * len(some) / len(inputs)).b", "loss.b"),
)
def test_the_epoch_skips_nothing__but_not(snippet, fails, old, new):
    """With `if` instead of `while`, a failed batch is not tried again; with
    other factors, the gradients add up differently.
    """
    fails(test_the_epoch_skips_nothing, snippet.edit(old, new))


def test_the_epoch_skips_nothing__but_not_in_larger_parts(snippet, fails):
    """Rounded down, the number of parts is 0 for a batch smaller than `size`,
    which raises an error.
    """
    edited = snippet.edit("math.ceil(len", "math.floor(len")
    fails(test_the_epoch_skips_nothing, edited)


class Moves(TorchDispatchMode):
    """Note the samples that operations move to another device."""

    def __init__(self):
        super().__init__()
        self.samples = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default:
            self.samples.append(len(args[0]))
        return made


@pytest.mark.simulates("an accelerator")
def test_each_part_moves(snippet, on="meta"):
    run = after(snippet, *RETRY)
    for size in (1, 3, 7):
        model, optimizer = plain(run, 0)
        batch = [each.double() for each in run.make_batch(7)]
        model.to(on)
        with no_error(), Moves() as moves:
            fit = run.gradients_fit(model, optimizer, *batch, size)
        assert fit
        assert all(samples <= size for samples in moves.samples)
        assert on == "cpu" or sum(moves.samples) == 2 * 7
        assert all(each.grad.device.type == on for each in model.parameters())
        assert all(each.device.type == "cpu" for each in batch)


def test_each_part_moves__also_to_the_cpu(snippet):
    test_each_part_moves(snippet, "cpu")


@edits(
    ("inputs", "model(some.to(device))", "model(some)"),
    ("targets", "goal.to(device)", "goal"),
)
def test_each_part_moves__but_not_unmoved(snippet, fails, old, new):
    """Without `.to(device)`, the inputs or the targets stay on the CPU, which
    raises an error.
    """
    fails(test_each_part_moves, snippet.edit(old, new))


def test_the_epoch_skips_nothing__but_not_without_a_reset(snippet, fails):
    """Without `zero_grad()`, the gradients that a failed try has left are
    added to those of the next.
    """
    edited = snippet.edit(
        "    optimizer.zero_grad()  # what a", "    # what a"
    )
    fails(test_the_epoch_skips_nothing, edited)


def test_the_epoch_skips_nothing__ends_with_batchnorm(snippet, fails):
    """With BatchNorm: it normalizes each part by that part's own mean and
    variance, so the weights come out different.
    """
    with patch.object(nn, "ReLU", partial(nn.BatchNorm1d, 256)):
        fails(test_the_epoch_skips_nothing, snippet)


def test_the_optimizer_is_not_tried_again(snippet):
    run = after(snippet, *RETRY)
    days = TensorDataset(*run.make_batch(16))
    with run.SmallDevice(1_200_000):
        model, optimizer = run.fresh()
        with pytest.raises(torch.OutOfMemoryError):
            run.train_epoch(model, optimizer, DataLoader(days, 16), 16)
    batch = [each.double() for each in run.make_batch(64)]
    with run.SmallDevice(500_000):
        model, optimizer = plain(run, 0)
        with pytest.raises(MemoryError, match="not even one sample fits"):
            run.train_epoch(model, optimizer, [batch], 64)
    fits = [False, False, True]
    with patch.dict(
        run.train_epoch.__globals__, gradients_fit=lambda *_: fits.pop(0)
    ):
        assert run.train_epoch(model, optimizer, [batch], 4) == 1


def test_the_optimizer_is_not_tried_again__but_if_it_is_tried(snippet, fails):
    """With a `try` around `optimizer.step()`, its error no longer ends
    `train_epoch`.
    """
    edited = snippet.edit(
        "        optimizer.step()\n    return size",
        "        try:\n            optimizer.step()\n"
        "        except torch.OutOfMemoryError:\n            pass\n"
        "    return size",
    )
    fails(test_the_optimizer_is_not_tried_again, edited)


def test_failed_tries_count_for_batchnorm(snippet):
    run = after(snippet, *RETRY)
    days = TensorDataset(*run.make_batch(500))
    with run.SmallDevice(4_000_000):
        model, optimizer = run.fresh()
        size = run.train_epoch(model, optimizer, DataLoader(days, 500), 500)
    shown = after(snippet, *RETRY, "well-known", "skipped", "retry-right")
    assert shown.size < 500
    parts = math.ceil(500 / size)
    assert parts > 1
    assert model[1].num_batches_tracked > parts


def test_failed_tries_count_for_batchnorm__but_not_if_none_fails(
    snippet, fails
):
    """Split into eight parts from the start, the batch fits at once: there is
    no failed try to count.
    """
    edited = snippet.edit(
        "    parts = math.ceil(len(inputs) / size)", "    parts = 8"
    )
    fails(test_failed_tries_count_for_batchnorm, edited)


def test_the_cpu_has_another_error(snippet, size="2**50"):
    raised = []
    try:
        torch.empty(eval(size))
    except RuntimeError as error:
        raised.append(error)
    run = after(snippet, "imports", "your-step", "is-full", "fits", "forecast")

    assert issubclass(torch.OutOfMemoryError, RuntimeError)
    assert len(raised) == 1
    assert not isinstance(raised[0], torch.OutOfMemoryError)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        run.fits(run.fresh, lambda n: torch.empty(2**n), 50)


def test_the_cpu_has_another_error__but_not_if_its_text_is_known(
    snippet, fails
):
    """With its text in `FULL`, the search takes it for a full device."""
    edited = snippet.edit(
        '"ALLOC_FAILED", "ALLOCATION_FAILED"',
        '"ALLOC_FAILED", "can\'t allocate memory"',
    )
    fails(test_the_cpu_has_another_error, edited)


def test_the_cpu_has_another_error__ends_for_little(snippet, fails):
    """For 32 numbers: they fit into memory, so nothing is raised."""
    fails(test_the_cpu_has_another_error, snippet, "2**5")


# Where it ends


def test_what_is_elsewhere_changes(snippet, to=10**9):
    run = after(snippet, *MODEL)
    kept = random.getstate(), np.random.get_state()[2]
    _, optimizer = run.fresh()
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()  # without gradients; the schedule waits for it
    drawn = iter(range(100))

    def make_batch(size):
        next(drawn)
        np.random.rand(random.randrange(1, 5))
        return run.make_batch(size)

    def step(*parts):
        run.step(*parts)
        schedule.step()

    with patch.dict(run.fits.__globals__, step=step):
        run.largest_batch(run.fresh, make_batch, most=4)
    assert next(drawn) == 4  # two steps with 2 samples, two with 4
    assert random.getstate() != kept[0]
    assert np.random.get_state()[2] != kept[1]
    assert optimizer.param_groups[0]["lr"] == 0.001 / 16


def test_what_is_elsewhere_changes__but_not_if_nothing_runs(snippet, fails):
    """With no steps, neither `step` nor `make_batch` is ever called, so
    nothing changes.
    """
    edited = snippet.edit("for _ in range(steps):", "for _ in range(0):")
    fails(test_what_is_elsewhere_changes, edited)


class Clock:
    """A timer whose steps all take a quarter of a second."""

    threads = []  # noqa: RUF012

    def __init__(self, statement, num_threads, **names):
        self.median = 0.25
        self.threads.append(num_threads)
        exec(statement, names["globals"])  # as the timer of PyTorch

    def blocked_autorange(self, min_run_time):
        """Return the clock, which has run already."""
        assert min_run_time > 0
        return self


def test_the_speed_is_samples_per_second(snippet, kind=optim.AdamW):
    run = after(snippet, *MODEL, "speed")
    speed, sizes, kept = run.samples_per_second, [], torch.get_rng_state()

    def build():
        model, optimizer = run.fresh(kind)
        return model.eval(), optimizer

    def step(model, optimizer, *batch):
        sizes.append((len(batch[0]), model.training))
        run.step(model, optimizer, *batch)

    with (
        patch.dict(speed.__globals__, Timer=Clock, step=step),
        patch.object(torch, "get_num_threads", return_value=3),
    ):
        found = [speed(build, run.make_batch, n) for n in (2, 8)]
    assert found == [2 / 0.25, 8 / 0.25]
    assert Clock.threads[-2:] == [3, 3]
    assert set(sizes) == {(2, True), (8, True)}
    with no_error():
        assert speed(build, run.make_batch, 2, seconds=1e-4) > 0
    assert kept.equal(torch.get_rng_state())


@edits(
    ("steps a second", "return size / run.median", "return 1 / run.median"),
    (
        "evaluating",
        "        model.train()\n        names",
        "        model.eval()\n        names",
    ),
    (
        "with the generator of the program",
        f"{FORK}\n        model.train()\n        names",
        "    if True:\n        model, optimizer = build()\n"
        "        model.train()\n        names",
    ),
    ("of one thread", "= torch.get_num_threads()", "= 99"),
    (
        "of another size",
        '"batch"] = make_batch(size)',
        '"batch"] = make_batch(9)',
    ),
)
def test_the_speed_is_samples_per_second__but_not(snippet, fails, old, new):
    """Steps per second are another number; the other edits change the mode,
    the generator, the threads or the batch size.
    """
    fails(test_the_speed_is_samples_per_second, snippet.edit(old, new))


@pytest.mark.cuda
def test_the_search_works_on_cuda(snippet):
    run = after(snippet, *MODEL, "on-cuda")
    torch.cuda.set_per_process_memory_fraction(2**30 / run.total)
    parts = run.fresh, run.make_batch
    try:
        with torch.device("cuda"):
            assert 2 <= run.cuda_best < 2**21
            assert run.fits(*parts, run.cuda_best, steps=3)
            assert not run.fits(*parts, 2 * run.cuda_best)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.cuda
def test_the_search_works_on_cuda__but_not_beyond_most(snippet, fails):
    """With `most` at 64, the search goes no further, even if twice as many
    fit.
    """
    edited = snippet.edit("make_batch, 2**21)", "make_batch, 64)")
    fails(test_the_search_works_on_cuda, edited)
