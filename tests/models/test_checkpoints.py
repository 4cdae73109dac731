"""The claims of docs/models/checkpoints.md."""

import contextlib
import copy
import functools
import gc
import math
import os
import random
import signal
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader, Dataset

from extensions.evidence.counterexamples import no_error
from extensions.evidence.versions import true_since
from tests.helpers import worlds
from tests.helpers.programs import resumed

IS_BEST = "errors[-1] == min(finite, default=None)"
NAN = math.nan
PARTS = {"model", "optimizer", "scheduler", "progress"}
PARTS |= {"loader", "torch", "python", "numpy"}
LOOP = """for name in ["model", *others, "progress"]:
    rows[name] = resume_without(name)
"""
BUILT = (
    *("imports", "write", "save", "resume", "random-states"),
    *("set-random-states", "days", "build", "one-epoch", "error-of", "train"),
    "seed",
)
TRAINED = (*BUILT, "go-on"), "leave-out"  # "assign" changes what that loads


@contextlib.contextmanager
def a_file():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, "checkpoint.pt")


def same(one, other):
    """Whether two states hold the same numbers, exactly."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.equal(other)
    if isinstance(one, dict):
        pairs = ((one[key], other.get(key)) for key in one)
        return one.keys() == other.keys() and all(same(*p) for p in pairs)
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(same(*p) for p in pairs)
    return one == other


def step(model, optimizer, inputs=None):
    """Make one step of training."""
    first = next(model.parameters())
    if inputs is None:
        inputs = torch.ones(5, 4, dtype=first.dtype, device=first.device)
    optimizer.zero_grad()
    model(inputs).square().sum().backward()
    optimizer.step()


MODELS = {
    "a layer": lambda: nn.Linear(4, 2),
    "two layers": lambda: nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1)),
    "BatchNorm": lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)),
}
OPTIMIZERS = {
    "Adam": lambda given, **more: torch.optim.Adam(given, **more),
    "AdamW": lambda given, **more: torch.optim.AdamW(given, **more),
    "NAdam": lambda given, **more: torch.optim.NAdam(given, **more),
    "RMSprop": lambda given, **more: torch.optim.RMSprop(given, **more),
    "Adagrad": lambda given, **more: torch.optim.Adagrad(given, **more),
    "SGD": lambda given, **more: torch.optim.SGD(given, **more),
    "SGD with momentum": lambda given, **more: torch.optim.SGD(
        given, momentum=0.9, **more
    ),
}
AVERAGING = ["Adam", "AdamW", "RMSprop", "SGD with momentum"]


def trained_state(name, make_model=MODELS["a layer"], **options):
    """Return the state of an optimizer after a step."""
    model = make_model()
    optimizer = OPTIMIZERS[name](model.parameters(), **options)
    step(model, optimizer)
    return copy.deepcopy(optimizer.state_dict())


# Do this


def drawn(generator):
    """Return numbers from each generator: some keep a second one."""
    return [
        torch.rand(3, generator=generator).tolist(),
        torch.rand(3).tolist(),
        torch.randn(1).item(),
        torch.randperm(9).tolist(),
        [random.random(), random.randrange(99), random.gauss(0, 1)],
        [np.random.rand(), np.random.normal(), *np.random.permutation(9)],
    ]


def test_generators_are_set_back(snippet, used=1):
    run = snippet.after("set-random-states")
    generator, later = torch.Generator(), torch.Generator().manual_seed(7)
    for _ in range(used):
        drawn(generator)

    with a_file() as path:
        run.save(path, {}, generator)
        expected = drawn(generator)
        drawn(later)
        run.resume(path, {}, later)

    assert drawn(later) == expected


@pytest.mark.parametrize("used", [0, 2, 5], ids="{} draws".format)
def test_generators_are_set_back__also_after(snippet, used):
    test_generators_are_set_back(snippet, used)


def test_generators_are_set_back__also_with_other_seeds(snippet):
    torch.manual_seed(3)
    random.seed("three")
    np.random.seed(3)
    test_generators_are_set_back(snippet)


@pytest.mark.parametrize(
    "line",
    [
        '    generator.set_state(states["loader"])\n',
        '    torch.set_rng_state(states["torch"])\n',
        '    random.setstate(states["python"])\n',
        '    np.random.set_state(states["numpy"])\n',
    ],
    ids=["loader", "torch", "python", "numpy"],
)
def test_generators_are_set_back__but_not_without(snippet, line, fails):
    """Leave out one of the four lines, and that generator draws other numbers
    than in a run without a stop.
    """
    fails(test_generators_are_set_back, snippet.edit(line, ""))


def test_generators_are_set_back__but_not_if_seeded(snippet, fails):
    """`torch.manual_seed()` afterwards throws away the state that was just set
    back.
    """
    edited = snippet.edit(
        '    np.random.set_state(states["numpy"])\n',
        '    np.random.set_state(states["numpy"])\n    torch.manual_seed(0)\n',
    )
    fails(test_generators_are_set_back, edited)


def test_a_numpy_generator_goes_on(snippet, used=1, number=0):
    run = snippet.after("set-random-states")
    own, later = np.random.default_rng(number), np.random.default_rng()
    own.random(used)
    own.integers(9, size=3, dtype=np.int32)  # which keeps half a draw

    with a_file() as path, no_error():
        run.save(path, {}, torch.Generator(), own=own.bit_generator.state)
        progress = run.resume(path, {}, torch.Generator())
        later.bit_generator.state = progress["own"]

    for one, other in zip(drawn_by(own), drawn_by(later), strict=True):
        assert np.array_equal(one, other)


def drawn_by(generator):
    """Return numbers of several kinds from a generator of NumPy."""
    return [
        generator.integers(9, size=3, dtype=np.int32),
        generator.normal(size=5),
        generator.permutation(9),
    ]


@pytest.mark.parametrize(
    "number", [1, 2**70], ids=["seed 1", "a seed of 70 bits"]
)
@pytest.mark.parametrize("used", [0, 2, 1000], ids="{} draws".format)
def test_a_numpy_generator_goes_on__also_after(snippet, used, number):
    test_a_numpy_generator_goes_on(snippet, used, number)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            '    return saved["progress"]',
            "    fresh = np.random.default_rng().bit_generator.state\n"
            '    return {"own": fresh}',
        ),
        (
            '"numpy": (name, words.tolist(), *rest),',
            '"numpy": (name, words, *rest),',
        ),
    ],
    ids=["from another state", "from a file with an array"],
)
def test_a_numpy_generator_goes_on__but_not(snippet, old, new, fails):
    """The generator needs its own saved state, in a file without NumPy arrays,
    which `torch.load` refuses by default.
    """
    fails(test_a_numpy_generator_goes_on, snippet.edit(old, new))


@pytest.mark.simulates("an accelerator")
def test_device_generators_are_set_back(snippet, before=2, now=2):
    run = snippet.after("set-random-states")
    kept = [torch.tensor([i, 7], dtype=torch.uint8) for i in range(before)]
    back = {}
    devices = SimpleNamespace(
        get_rng_state=lambda place: kept[place],
        set_rng_state=lambda state, place: back.update({place: state}),
    )

    with a_file() as path, patch("torch.get_device_module", lambda: devices):
        with patch("torch.accelerator.device_count", lambda: before):
            run.save(path, {}, torch.Generator())
        with patch("torch.accelerator.device_count", lambda: now):
            run.resume(path, {}, torch.Generator())

    assert same(back, dict(enumerate(kept[:now])))


@pytest.mark.parametrize(
    ("before", "now"), [(0, 0), (1, 1), (3, 1), (1, 3), (0, 2), (2, 0), (8, 8)]
)
def test_device_generators_are_set_back__also_for(snippet, before, now):
    test_device_generators_are_set_back(snippet, before, now)


@pytest.mark.cuda
def test_device_generators_are_set_back__also_on_cuda(snippet):
    run = snippet.after("set-random-states")
    places = range(torch.cuda.device_count())
    for place in places:
        torch.rand(3, device=f"cuda:{place}")

    with a_file() as path:
        run.save(path, {}, torch.Generator())
        expected = [torch.rand(9, device=f"cuda:{each}") for each in places]
        run.resume(path, {}, torch.Generator())

    again = [torch.rand(9, device=f"cuda:{each}") for each in places]
    assert same(again, expected)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for i in range(count)]", "for i in range(1)]"),
        ("module.set_rng_state(state, i)", "module.set_rng_state(state, 0)"),
        ("module.set_rng_state(state, i)", "pass"),
    ],
    ids=["the first one saved", "the first one set", "none set"],
)
def test_device_generators_are_set_back__but_not_with(
    snippet, old, new, fails
):
    """Each device needs its own state, saved and set under its own index, or
    some devices draw other numbers.
    """
    fails(test_device_generators_are_set_back, snippet.edit(old, new))


def test_device_generators_are_set_back__but_not_more_than_there_are(
    snippet, fails
):
    """Without the slice, `resume` also sets devices that this machine does not
    have.
    """
    edited = snippet.edit('states["devices"][:count]', 'states["devices"]')
    fails(test_device_generators_are_set_back, edited, 3, 1)


def test_taken_names_are_refused(snippet, name="loader"):
    run = snippet.after("set-random-states")
    parts = {"model": nn.Linear(4, 2), name: nn.Linear(4, 2)}
    with a_file() as path:
        run.save(path, {}, torch.Generator())
        before = path.read_bytes()
        with pytest.raises(TypeError, match=f"keyword argument '{name}'"):
            run.save(path, parts, torch.Generator())
        assert path.read_bytes() == before


TAKEN = ["loader", "torch", "devices", "python", "numpy", "progress"]


@pytest.mark.parametrize("name", TAKEN)
def test_taken_names_are_refused__also_for(snippet, name):
    test_taken_names_are_refused(snippet, name)


def test_taken_names_are_refused__ends_for_another(snippet, fails):
    """For a name that `save` does not use itself, such as `scaler`: the part
    is saved like any other.
    """
    fails(test_taken_names_are_refused, snippet, "scaler")


WRITE = "dict(**states, **random_states(generator), progress=progress)"


@pytest.mark.parametrize("name", ["loader", "progress"])
def test_taken_names_are_refused__but_not_if_merged(snippet, name, fails):
    """Merged with `|`, the second of two equal names silently replaces the
    first; `dict(**a, **b)` raises.
    """
    edited = snippet.edit(
        WRITE,
        'states | random_states(generator) | {"progress": progress}',
    )
    fails(test_taken_names_are_refused, edited, name)


def test_taken_names_are_refused__but_not_if_deleted_first(snippet, fails):
    """Empty the file before the error, and the old checkpoint is gone."""
    edited = snippet.edit(
        f"    write({WRITE}",
        f"    Path(path).write_bytes(b'')\n    write({WRITE}",
    )
    fails(test_taken_names_are_refused, edited)


def test_no_file_changes_nothing(snippet, name="nothing.pt", kind=Path):
    run = snippet.after("build")
    parts, generator = run.build(), torch.Generator()
    states = {key: part.state_dict() for key, part in parts.items()}
    before = copy.deepcopy(states), run.random_states(generator)
    flags = flags_of(parts["model"])

    with tempfile.TemporaryDirectory() as folder:
        progress = run.resume(kind(f"{folder}/{name}"), parts, generator)
        assert not list(Path(folder).iterdir())

    assert progress == {}
    states = {key: part.state_dict() for key, part in parts.items()}
    assert same(states, before[0])
    assert same(run.random_states(generator), before[1])
    assert flags_of(parts["model"]) == flags


def flags_of(model):
    """Return what a model holds besides numbers."""
    learns = [each.requires_grad for each in model.parameters()]
    return learns, [each.training for each in model.modules()]


def test_no_file_changes_nothing__also_for_a_string(snippet):
    test_no_file_changes_nothing(snippet, kind=str)


def test_no_file_changes_nothing__also_without_its_folder(snippet):
    test_no_file_changes_nothing(snippet, "nowhere/nothing.pt")


@pytest.mark.parametrize(
    "line",
    [
        'return {"errors": []}',
        "torch.manual_seed(0); return {}",
        "generator.seed(); return {}",
        'parts["model"][0].reset_parameters(); return {}',
    ],
    ids=["an entry", "a seed", "a seed for the loader", "new weights"],
)
def test_no_file_changes_nothing__but_not_with(snippet, line, fails):
    """With no file there is nothing to set: an entry returned, a new seed or
    new weights would change the run.
    """
    fails(
        test_no_file_changes_nothing, snippet.edit("return {}\n", f"{line}\n")
    )


def test_the_best_file_is_kept(snippet, stops=(3, 6), number=24):
    run = snippet.after("seed")

    with a_file() as path:
        run.seed(number)
        for epochs in stops:
            _, errors = run.train(path, epochs)
        assert Path(f"{path}.best").exists()
        best = torch.load(f"{path}.best")

    model = run.build()["model"]
    model.load_state_dict(best)
    assert run.error_of(model) == min(errors)
    assert len(errors) == stops[-1]
    assert {type(error) for error in errors} == {float}


@pytest.mark.parametrize(
    ("stops", "number"), [((6,), 24), ((6,), 0), ((1, 2, 5, 6), 9), ((1,), 0)]
)
def test_the_best_file_is_kept__also_for(snippet, stops, number):
    test_the_best_file_is_kept(snippet, stops, number)


def with_errors(snippet, *errors):
    """Let each epoch mark the model with its number, and err as told."""
    return snippet.edit(
        'errors.append(error_of(parts["model"]))',
        'nn.init.constant_(parts["model"][0].bias, len(errors))\n'
        f"        errors.append(float({[*map(str, errors)]}[len(errors)]))",
    )


def best_of(snippet, errors, stops):
    """Return the number of the epoch that was kept."""
    run = with_errors(snippet, *errors).after("seed")
    with a_file() as path:
        for stop in stops:
            run.train(path, stop)
        return torch.load(f"{path}.best")["0.bias"][0].item()


@pytest.mark.parametrize(
    "stops",
    [(9,), (1, 9), (2, 3, 8, 9)],
    ids=["no stop", "one stop", "three stops"],
)
def test_the_best_file_is_kept__also_from_long_ago_after(snippet, stops):
    errors = [3.0, 1.0, 4.0, 2.0, 5.0, 9.0, 2.0, 6.0, 5.0]
    assert best_of(snippet, errors, stops) == 1


@pytest.mark.parametrize("by", [1e-2, 1e-4, 1e-9])
def test_the_best_file_is_kept__also_if_it_is_better_by(snippet, by):
    assert best_of(snippet, [0.5, 0.4, 0.4 - by, 0.6], (4,)) == 2


def test_the_best_file_is_kept__ends_if_every_error_is_nan(snippet, fails):
    """If every error is `nan`: no file is written."""
    edited = snippet.edit(
        'errors.append(error_of(parts["model"]))',
        'errors.append(float("nan"))',
    )
    fails(test_the_best_file_is_kept, edited)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (IS_BEST, "True"),
        (IS_BEST, "errors[-1] == min(errors[3:] or [0])"),
        (IS_BEST, "errors[-1] == max(errors)"),
    ],
    ids=["the last one", "the best since it was resumed", "the worst"],
)
def test_the_best_file_is_kept__but_not(snippet, old, new, fails):
    """With any other condition, a worse epoch overwrites the best weights."""
    fails(test_the_best_file_is_kept, snippet.edit(old, new))


def test_a_nan_is_never_best(
    snippet, errors=(NAN, 0.5, 0.4, 0.6), kept=3, stops=(4,)
):
    run = with_errors(snippet, *errors).after("seed")
    with a_file() as path:
        for stop in stops:
            run.train(path, stop)
        best = Path(f"{path}.best")
        found = best.exists() and torch.load(best)["0.bias"][0].item() + 1

    assert found == kept


@pytest.mark.parametrize(
    ("errors", "kept"),
    [
        ((0.5, NAN, 0.4, 0.6), 3),
        ((0.4, 0.5, 0.6, NAN), 1),
        ((NAN, NAN, NAN, 0.6), 4),
        ((NAN, NAN, NAN, NAN), False),
        ((math.inf, NAN, 0.4, math.inf), 3),
    ],
    ids=[
        "in the second epoch",
        "in the last epoch",
        "in all epochs but the last",
        "in all epochs",
        "between infinite errors",
    ],
)
def test_a_nan_is_never_best__also(snippet, errors, kept):
    test_a_nan_is_never_best(snippet, errors, kept, (1, 2, 3, 4))


def test_a_nan_is_never_best__but_not_with_all_errors(snippet, fails):
    """The `min` of a list that begins with `nan` is `nan`, which equals no
    error: nothing is ever saved.
    """
    edited = snippet.edit("min(finite, default=None)", "min(errors)")
    fails(test_a_nan_is_never_best, edited)


def test_a_nan_is_never_best__but_not_if_none_has_to_be_smaller(
    snippet, fails
):
    """Asked whether an earlier error is smaller, a `nan` has none, and is
    saved.
    """
    new = "not any(error < errors[-1] for error in errors)"
    edited = snippet.edit(IS_BEST, new)
    fails(test_a_nan_is_never_best, edited, (0.4, 0.5, 0.6, NAN), 1)


def test_resuming_equals_not_stopping(snippet, stops=None, number=0):
    steps = []
    hook = register_optimizer_step_post_hook(lambda *_: steps.append(1))
    try:
        run = snippet.after("seed" if stops else "go-on")
    finally:
        hook.remove()
    if not stops:  # two steps an epoch: six at once, three, and three more
        assert len(steps) == 2 * (6 + 3 + 3)
    if stops:
        with a_file() as whole, a_file() as path:
            run.seed(number)
            run.model, run.errors = run.train(whole, 6)
            run.seed(number)
            for epochs in stops:
                run.train(path, epochs)
                run.seed(number + epochs)
            run.resumed, run.later_errors = run.train(path, 6)

    assert len(run.errors) == 6
    assert run.later_errors == run.errors
    assert same(run.resumed.state_dict(), run.model.state_dict())


@pytest.mark.parametrize(
    ("stops", "number"), [((1,), 1), ((5,), 2), ((1, 2, 4), 3)]
)
def test_resuming_equals_not_stopping__also_after(snippet, stops, number):
    test_resuming_equals_not_stopping(snippet, stops, number)


@worlds.each(
    "make",
    worlds.MODELS,
    *("with BatchNorm", "with dropout", "tied"),
    *("frozen in part", "float64", "bfloat16"),
)
def test_resuming_equals_not_stopping__also_for_a_model(snippet, make):
    run = snippet.after("set-random-states")

    def steps(path, number):
        torch.manual_seed(5)
        model, generator = make(), torch.Generator()
        learning = [each for each in model.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(learning, lr=0.1)
        parts = {"model": model, "optimizer": optimizer}
        done = run.resume(path, parts, generator).get("done", 0)
        for _ in range(done, number):
            inputs = torch.randn(8, 3, generator=generator)
            step(model, optimizer, inputs.to(learning[0].dtype))
        run.save(path, parts, generator, done=number)
        return copy.deepcopy(model.state_dict())

    with a_file() as whole, a_file() as path:
        expected = steps(whole, 6)
        steps(path, 2)
        torch.manual_seed(9)
        assert same(steps(path, 6), expected)


ADAM = "torch.optim.Adam(model.parameters(), lr=0.05)"
COSINE = "CosineAnnealingLR(optimizer, 6)"
LOADER = "shuffle=True, generator=generator)\n    errors"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ADAM, "torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)"),
        (ADAM, "torch.optim.AdamW(model.parameters(), amsgrad=True)"),
        (ADAM, "torch.optim.RMSprop(model.parameters())"),
        (COSINE, "StepLR(optimizer, 2)"),
        (COSINE, "LambdaLR(optimizer, lambda epoch: 0.7**epoch)"),
        (COSINE, "OneCycleLR(optimizer, 0.1, 9)"),
        ("nn.Dropout(0.2)", "nn.BatchNorm1d(16)"),
        (LOADER, "shuffle=True)\n    errors"),
    ],
)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_resuming_equals_not_stopping__also_with(snippet, old, new):
    test_resuming_equals_not_stopping(snippet.edit(old, new))


@pytest.mark.parametrize("name", ["model", "optimizer", "scheduler"])
def test_resuming_equals_not_stopping__but_not_without(snippet, name, fails):
    """Leave out one part, and the resumed run goes on from new weights, new
    averages or a new schedule.
    """
    edited = snippet.edit(
        "        part.load_state_dict(saved[name])\n    set",
        f"        if name != {name!r}:\n"
        "            part.load_state_dict(saved[name])\n    set",
    )
    fails(test_resuming_equals_not_stopping, edited)


def test_resuming_equals_not_stopping__but_not_without_the_generators(
    snippet, fails
):
    """The weights are right at the stop, but from then on the order, the
    dropout and the noise differ.
    """
    edited = snippet.edit("    set_random_states(saved, generator)\n", "")
    fails(test_resuming_equals_not_stopping, edited)


def test_resuming_equals_not_stopping__but_not_with_other_errors(
    snippet, fails
):
    """The file holds zeros in place of the errors so far, so the list of
    errors differs.
    """
    edited = snippet.edit(
        "generator, errors=errors)", "generator, errors=[0.0] * len(errors))"
    )
    fails(test_resuming_equals_not_stopping, edited)


def test_resuming_equals_not_stopping__ends_with_another_generator(
    snippet, fails
):
    """A random generator that `save` does not store, such as your own
    `default_rng`, is not set back.
    """
    edited = snippet.edit("np.random.normal(", "draughts.normal(").edit(
        "def one_epoch(",
        "draughts = np.random.default_rng(0)\n\n\ndef one_epoch(",
    )
    fails(test_resuming_equals_not_stopping, edited)


def test_resuming_equals_not_stopping__ends_within_an_epoch(snippet, fails):
    """After a stop within an epoch, that epoch is trained once more, on top of
    what it had learned already.
    """
    edited = snippet.edit(
        "        errors.append(error_of(",
        "        save(path, parts, generator, errors=errors)\n"
        "        if len(errors) == 2 == epochs - 1:\n"
        '            return parts["model"], errors\n'
        "        errors.append(error_of(",
    )
    fails(test_resuming_equals_not_stopping, edited)


# What is needed


def test_every_part_is_needed(snippet):
    with no_error():
        run = resumed(snippet, *TRAINED, "rows")
        distance, _ = run.resume_without("python")
    rows = run.rows

    last = torch.load(run.folder / "part.pt")["model"]
    far = [
        (last[k] - w).abs().max() for k, w in run.model.state_dict().items()
    ]
    assert type(distance) is float
    assert distance == rows["python"][0] == max(far)
    assert rows["nothing"][0] == 0
    assert rows.keys() > PARTS
    for name in PARTS:
        assert rows[name][0] > 0, name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.Dropout(0.2)", "nn.Identity()"),
        ("scale=0.1", "scale=0.0"),
        ("random.randrange(4)", "0"),
        (COSINE, "ConstantLR(optimizer, 1.0)"),
        (LOADER, LOADER.replace("True", "False")),
        (
            "build(), torch.Generator())",
            "build(), torch.Generator(), errors=[1] * 3)",
        ),
    ],
    ids=[
        "without dropout",
        "without a draught",
        "with one sensor that fails",
        "with a constant rate",
        "in one order",
        "with the number of epochs",
    ],
)
def test_every_part_is_needed__but_not(snippet, old, new, fails):
    """What the training does not depend on may be replaced: without dropout,
    that is torch's generator.
    """
    fails(test_every_part_is_needed, snippet.edit(old, new))


def test_every_part_is_needed__but_not_an_optimizer_without_state(
    snippet, fails
):
    """This program never replaces the model's weights, so that row shows no
    difference.
    """
    edited = snippet.edit(ADAM, "torch.optim.SGD(model.parameters(), 0.05)")
    edited = edited.edit(
        COSINE, "LambdaLR(optimizer, lambda epoch: 0.9**epoch)"
    )
    edited = edited.edit(
        "half | {name: new[name] for name in names}",
        'half | {name: new[name] for name in names if name != "model"}',
    )
    fails(test_every_part_is_needed, edited)


def test_every_part_is_needed__but_not_in_silence_if_empty(snippet, fails):
    """An empty state does not go unnoticed: `load_state_dict` raises, because
    all entries are missing.
    """
    edited = snippet.edit("{name: new[name] for", "{name: {} for")
    fails(test_every_part_is_needed, edited)


def test_the_model_alone_is_worse(snippet, number=11):
    edited = snippet.text.replace(LOOP, "\n\n")
    edited = edited.replace("seed(11)", f"seed({number})")
    run = resumed(replace(snippet, text=edited), *TRAINED, "rows")

    alone = run.rows["all but model and progress"][1]
    assert len(alone) == len(run.errors) == 6
    assert run.resume_without(*PARTS - {"model", "progress"})[1] == alone
    assert alone[:3] == run.errors[:3]
    assert alone[3] > run.errors[3]


def test_the_model_alone_is_worse__also_from_most_starts(snippet):
    worse = 0
    quick = snippet.edit(
        'train(folder / "rest.pt", epochs=6)', "model, errors"
    )
    quick = quick.edit('{"nothing": resume_without()}', "{}")
    for number in range(6):
        with contextlib.suppress(AssertionError):
            test_the_model_alone_is_worse(quick, number)
            worse += 1

    assert worse >= 5


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("resume_without(*others)", "resume_without()"),
        ("resume_without(*others)", 'resume_without("python")'),
        ("resume_without(*others)", 'resume_without("optimizer")'),
        ("max((a - b)", "max(its_errors.sort() or (a - b)"),
    ],
    ids=["everything", "all but python", "all but the optimizer", "sorted"],
)
def test_the_model_alone_is_worse__but_not(snippet, old, new, fails):
    """Restore more than the model and the errors, or sort the errors, and you
    compare another run.
    """
    fails(test_the_model_alone_is_worse, snippet.edit(old, new))


def scaled(scale, good):
    """Return a scaler after some good steps."""
    layer = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    for _ in range(good):
        scaler.scale(layer(torch.ones(1, 4)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return scaler


def scale_is_kept(run, scale, good):
    old, new = scaled(scale, good), torch.amp.GradScaler("cpu")
    assert new.get_scale() == 65_536
    with a_file() as path:
        run.save(path, {"scaler": old}, torch.Generator())
        run.resume(path, {"scaler": new}, torch.Generator())
    assert new.get_scale() == scale
    assert new.state_dict()["_growth_tracker"] == good


def test_a_scaler_keeps_its_scale(snippet):
    run = resumed(snippet, BUILT, ("scaler", "scaler-resumed"))

    assert run.start_scale == 65_536
    assert run.fresh.get_scale() == 1024
    scale_is_kept(run, scale=512.0, good=3)


@pytest.mark.parametrize(("scale", "good"), [(2.0, 1), (65536.0, 7), (8.0, 0)])
def test_a_scaler_keeps_its_scale__also_for(snippet, scale, good):
    scale_is_kept(snippet.after("set-random-states"), scale, good)


RESUMED = """resume(folder / "scaled.pt", {"scaler": fresh}, torch.Generator())
"""
LOADED = "part.load_state_dict(saved[name])\n    set"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (RESUMED, ""),
        (
            'fresh = torch.amp.GradScaler("cpu")',
            "fresh = torch.amp.GradScaler('cpu', 2.0)",
        ),
        (
            LOADED,
            'saved[name].update({"_growth_tracker": 0} if name == "scaler"'
            f" else {{}})\n        {LOADED}",
        ),
    ],
    ids=["if not resumed", "with another scale", "without the count"],
)
def test_a_scaler_keeps_its_scale__but_not(snippet, old, new, fails):
    """Not resumed, the scale stays 65,536; made with 2.0, it starts at 2.0;
    without its count, it counts from 0.
    """
    fails(test_a_scaler_keeps_its_scale, snippet.edit(old, new))


# How it works

BROKEN = (RuntimeError, EOFError, OSError)


def nothing_loads_of(share, size):
    with a_file() as path:
        torch.save({"model": nn.Linear(size, size).state_dict()}, path)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(BROKEN):
            torch.load(path)
        path.write_bytes(whole[:-1])
        with pytest.raises(BROKEN):
            torch.load(path)


def test_a_cut_file_does_not_load(snippet, share=0.5, size=4):
    nothing_loads_of(share, size)
    run = resumed(snippet, *TRAINED, ("refusal", "cut"))
    assert run.cut_said is not None
    assert "failed finding central directory" in run.cut_said
    with pytest.raises(BROKEN):
        torch.load(run.folder / "cut.pt")


@pytest.mark.parametrize(
    ("share", "size"), [(0, 2), (0.01, 300), (0.1, 2), (0.9, 2), (0.999, 300)]
)
def test_a_cut_file_does_not_load__also_after_a_share_of(share, size):
    nothing_loads_of(share, size)


def test_a_cut_file_does_not_load__ends_if_it_is_whole(snippet, fails):
    """If nothing is cut off: the file loads."""
    fails(test_a_cut_file_does_not_load, snippet, 1)


def test_a_cut_file_does_not_load__but_does_with_all_bytes(snippet, fails):
    """`content[:20_000_000]` is the whole file, and a whole file loads."""
    edited = snippet.edit("content[:2000]", "content[:20_000_000]")
    fails(test_a_cut_file_does_not_load, edited)


class Stop:
    """What ends a program in the middle of torch.save."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        if self.error is None:
            os.kill(os.getpid(), signal.SIGKILL)
        raise self.error


def test_an_interrupted_save_leaves_the_old_file(
    snippet, error=KeyboardInterrupt
):
    save = torch.save
    with no_error():
        run = resumed(snippet, *TRAINED, "interrupt")

    assert same(run.kept, run.half)
    with a_file() as path:
        run.save(path, run.build(), torch.Generator(), epoch=1)
        before = path.read_bytes()
        with pytest.raises(error):
            run.save(path, run.build(), torch.Generator(), note=Stop(error))
        assert path.read_bytes() == before

        def broken(content, place, **options):
            """Break off in a file; tensors pickle through a buffer."""
            if not isinstance(place, str | Path):
                return save(content, place, **options)
            assert Path(place).parent == path.parent
            Path(place).write_bytes(b"half of it")
            raise error

        with patch("torch.save", broken), pytest.raises(error):
            run.save(path, run.build(), torch.Generator())
        assert path.read_bytes() == before
        run.save(path, run.build(), torch.Generator(), epoch=2)
        assert torch.load(path)["progress"] == {"epoch": 2}
        assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("error", [OSError, MemoryError, SystemExit])
def test_an_interrupted_save_leaves_the_old_file__also_after(snippet, error):
    test_an_interrupted_save_leaves_the_old_file(snippet, error)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("moment", ["saving", "renaming"])
def test_an_interrupted_save_leaves_the_old_file__also_if_killed(
    snippet, moment
):
    run = snippet.after("build")
    with a_file() as path:
        run.save(path, run.build(), torch.Generator(), epoch=1)
        before = path.read_bytes()
        child = os.fork()
        if not child:
            with patch(
                "pathlib.Path.replace", lambda *_: Stop(None).__reduce__()
            ):
                note = Stop(None) if moment == "saving" else ""
                run.save(path, run.build(), torch.Generator(), note=note)
            os._exit(0)
        _, status = os.waitpid(child, 0)

        assert os.WTERMSIG(status) == signal.SIGKILL
        assert path.read_bytes() == before


def test_an_interrupted_save_leaves_the_old_file__but_not_if_only_tried(
    snippet, fails
):
    """A trial run does not help: the real `torch.save` into the old file can
    still be cut short.
    """
    edited = snippet.edit(
        "    torch.save(content, partial)\n",
        "    torch.save(content, partial)\n"
        "    torch.save(content, path)\n    return\n",
    )
    edited = edited.edit(
        "    torch.save(content, partial)\n",
        "    import pickle; pickle.dumps(content)\n",
    )
    fails(test_an_interrupted_save_leaves_the_old_file, edited)


def test_an_interrupted_save_leaves_the_old_file__but_not_in_place(
    snippet, fails
):
    """Written straight to its path, the interrupted checkpoint has already
    overwritten the old one.
    """
    edited = snippet.edit('Path(f"{path}.partial")', "Path(path)")
    fails(test_an_interrupted_save_leaves_the_old_file, edited)


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "OSError"])
def test_an_interrupted_save_leaves_the_old_file__but_not_if_caught(
    snippet, error, fails
):
    """Here the `except` branch itself empties the old file."""
    edited = snippet.edit(
        "    torch.save(content, partial)\n",
        "    try:\n        torch.save(content, partial)\n"
        f"    except {error}:\n        Path(path).write_bytes(b'')\n"
        "        raise\n",
    )
    end = {"OSError": OSError, "KeyboardInterrupt": KeyboardInterrupt}[error]
    fails(test_an_interrupted_save_leaves_the_old_file, edited, end)


def test_an_interrupted_save_leaves_the_old_file__but_not_if_deleted_first(
    snippet, fails
):
    """Delete the old file first, and an interrupt leaves you with none."""
    edited = snippet.edit(
        "    torch.save(content, partial)\n",
        "    Path(path).unlink(missing_ok=True)\n"
        "    torch.save(content, partial)\n",
    )
    fails(test_an_interrupted_save_leaves_the_old_file, edited)


def copies(name, assign=False):
    model, loaded = MODELS[name](), MODELS[name]().state_dict()
    before = [each.data_ptr() for each in model.state_dict().values()]
    kept = copy.deepcopy(loaded)

    model.load_state_dict(loaded, assign=assign)
    assert same(model.state_dict(), kept)
    after = [each.data_ptr() for each in model.state_dict().values()]
    step(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(5, 4))

    assert same(loaded, kept)
    assert after == before
    assert not same(model.state_dict(), kept)


def test_a_model_copies(snippet, name="two layers", assign=False):
    copies(name, assign)
    run = resumed(snippet, *TRAINED, "shares")
    assert same(run.saved["model"], run.half["model"])
    assert not same(run.parts["model"].state_dict(), run.half["model"])


def test_a_model_copies__but_not_if_told_to_assign(snippet, fails):
    """Here the model takes the loaded tensors themselves, and training writes
    into them.
    """
    edited = snippet.edit(
        "    part.load_state_dict(saved[name])\nweight",
        '    assign = {"assign": True} if name == "model" else {}\n'
        "    part.load_state_dict(saved[name], **assign)\n"
        "weight",
    )
    fails(test_a_model_copies, edited)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_copies__also_for(name):
    copies(name)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_copies__ends_with_assign(snippet, name, fails):
    """With `assign=True`: the model takes the loaded tensors themselves, and
    training writes into them.
    """
    fails(test_a_model_copies, snippet, name, True)


def shares(name, dtype=torch.float32):
    loaded = trained_state(name)
    kept = copy.deepcopy(loaded)
    model = nn.Linear(4, 2, dtype=dtype)
    optimizer = OPTIMIZERS[name](model.parameters())

    optimizer.load_state_dict(loaded)
    step(model, optimizer)

    assert not same(loaded["state"], kept["state"])
    for number, weight in enumerate(model.parameters()):
        for key, each in loaded["state"][number].items():
            assert optimizer.state[weight][key] is each


def test_an_optimizer_shares(snippet, name="Adam", dtype=torch.float32):
    shares(name, dtype)
    run = resumed(snippet, *TRAINED, "shares")
    states = run.parts["optimizer"].state_dict()["state"]
    assert states[0]["exp_avg"] is run.average
    for number, state in states.items():
        for key, each in state.items():
            assert each is run.saved["optimizer"]["state"][number][key]
    assert not same(run.saved["optimizer"], run.half["optimizer"])


SHARING = ["Adam", "AdamW", "RMSprop", "Adagrad", "SGD with momentum"]


@pytest.mark.parametrize("name", SHARING)
def test_an_optimizer_shares__also_for(name):
    shares(name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_an_optimizer_shares__ends_with_another_dtype(snippet, dtype, fails):
    """For parameters of another dtype: the averages are converted, which makes
    copies.
    """
    fails(test_an_optimizer_shares, snippet, "Adam", dtype)


def test_an_optimizer_shares__ends_for_sgd_without_momentum(snippet, fails):
    """For SGD without momentum: it has no state to share."""
    fails(test_an_optimizer_shares, snippet, "SGD")


def test_an_optimizer_shares__but_not_with_a_count_of_its_own(snippet, fails):
    """Cloned, the count `step` belongs to the optimizer alone, and the one in
    the checkpoint stays at 6.
    """
    edited = snippet.edit(
        "\n    part.load_state_dict(saved[name])",
        "\n    part.load_state_dict(saved[name])\n"
        '    if name == "optimizer":\n'
        "        for each in part.state.values():\n"
        '            each["step"] = each["step"].clone()',
    )
    fails(test_an_optimizer_shares, edited)


def test_an_optimizer_shares__but_not_what_was_copied(snippet, fails):
    """Load a deep copy, and the steps write into the copy: `saved` stays as it
    was.
    """
    edited = snippet.edit(
        "\n    part.load_state_dict(saved[name])",
        "\n    part.load_state_dict(copy.deepcopy(saved[name]))",
    )
    fails(test_an_optimizer_shares, edited)


def are_kept(name):
    loaded = trained_state(name)
    model = nn.Linear(4, 2)
    optimizer = OPTIMIZERS[name](model.parameters())
    optimizer.load_state_dict(loaded)
    states = [
        weakref.ref(each)
        for state in loaded["state"].values()
        for each in state.values()
    ]
    del loaded
    gc.collect()
    assert states
    assert all(each() is not None for each in states)


@pytest.mark.usefixtures("frozen")
def test_deleting_keeps_the_optimizer_state(snippet):
    are_kept("Adam")
    run = snippet.only(*BUILT, "go-on", "shares").after("shares")
    average, weight = weakref.ref(run.average), weakref.ref(run.weight)
    stored = [
        StorageWeakRef(each.untyped_storage())
        for each in run.saved["model"].values()
    ]
    for names in (vars(run), run.train.__globals__):
        for each in ("saved", "average", "weight", "part"):
            names.pop(each, None)
    gc.collect()
    assert weight() is None
    assert len(stored) == 4
    assert all(each.expired() for each in stored)
    assert average() is not None


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("name", SHARING[1:])
def test_deleting_keeps_the_optimizer_state__also_for(name):
    are_kept(name)


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(saved[name])\nweight", "(copy.deepcopy(saved[name]))\nweight"),
        (
            "(saved[name])\nweight",
            "(saved[name])\nkept = [*saved.values()]\nweight",
        ),
    ],
    ids=["if it is copied", "if another name holds the weights"],
)
def test_deleting_keeps_the_optimizer_state__but_not(snippet, old, new, fails):
    """Only what something still refers to stays: load copies, and the state
    goes too; keep a list, and the weights stay.
    """
    fails(test_deleting_keeps_the_optimizer_state, snippet.edit(old, new))


# What goes wrong


def moves_on(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    state = model.state_dict()
    before = copy.deepcopy(state)
    step(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(5, 4))
    for key, each in model.state_dict().items():
        assert state[key].equal(each)
        assert not state[key].equal(before[key]), key


def test_a_state_dict_is_no_copy(snippet):
    best, kept, last = resumed(
        snippet, BUILT, ("keep-best", "best-wrong")
    ).wrong
    assert kept == last > best
    moves_on("BatchNorm")


@pytest.mark.parametrize("name", MODELS)
def test_a_state_dict_is_no_copy__also_for(name):
    moves_on(name)


@pytest.mark.parametrize(
    "copied",
    [
        "copy.deepcopy",
        "lambda state: {n: t.clone() for n, t in state.items()}",
    ],
    ids=["a deep copy", "clones"],
)
def test_a_state_dict_is_no_copy__but_not(snippet, copied, fails):
    """A deep copy, or clones, have memory of their own that the next step does
    not reach.
    """
    edited = snippet.edit("lambda state: state", copied)
    fails(test_a_state_dict_is_no_copy, edited)


def stays(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    kept, before = (copy.deepcopy(model.state_dict()) for _ in range(2))
    step(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(5, 4))
    assert same(kept, before)
    assert not same(model.state_dict(), before)
    model.load_state_dict(kept)
    assert same(model.state_dict(), before)


def test_a_deep_copy_keeps_the_best(snippet):
    run = resumed(snippet, BUILT, ("keep-best", "best"))
    best, kept, last = run.right
    assert kept == best < last
    assert run.keep_best(copy.deepcopy) == run.right
    stays("BatchNorm")


@pytest.mark.parametrize("name", MODELS)
def test_a_deep_copy_keeps_the_best__also_for(name):
    stays(name)


def test_a_deep_copy_keeps_the_best__but_not_a_shallow_one(snippet, fails):
    """`copy.copy` makes a new dict around the same tensors, so training
    changes them.
    """
    edited = snippet.edit("keep_best(copy.deepcopy)", "keep_best(copy.copy)")
    fails(test_a_deep_copy_keeps_the_best, edited)


def test_a_deep_copy_keeps_the_best__but_not_of_each_epoch(snippet, fails):
    """Copied after every epoch, what you keep is the last state, not the
    best.
    """
    edited = snippet.edit("if error < best:", "if True:")
    fails(test_a_deep_copy_keeps_the_best, edited)


def is_left_behind(name, assign=True):
    loaded = nn.Linear(4, 2).state_dict()
    for late in (False, True):
        model = nn.Linear(4, 2)
        optimizer = OPTIMIZERS[name](model.parameters(), lr=0.1)
        model.load_state_dict(copy.deepcopy(loaded), assign=assign)
        if late:
            optimizer = OPTIMIZERS[name](model.parameters(), lr=0.1)
        with no_error():
            step(model, optimizer)
        assert same(model.state_dict(), loaded) != late


def test_assign_leaves_the_optimizer_behind(snippet, name="Adam", assign=True):
    is_left_behind(name, assign)
    with no_error():
        run = resumed(snippet, TRAINED[0], ("leave-out", "assign"))
    weights = run.parts["model"].parameters()
    assert all(weight.grad is not None for weight in weights)
    assert run.parts["scheduler"].last_epoch == 1
    loaded = torch.load(run.folder / "half.pt")["model"]
    assert same(run.parts["model"].state_dict(), loaded)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_assign_leaves_the_optimizer_behind__also_for(name):
    is_left_behind(name)


def test_assign_leaves_the_optimizer_behind__also_if_only_some_are_loaded(
    snippet,
):
    assert snippet.text.count("assign=True") == 1
    model = MODELS["two layers"]()
    optimizer = torch.optim.Adam(model.parameters())
    loaded = {"0.weight": torch.ones(3, 4), "0.bias": torch.ones(3)}
    model.load_state_dict(loaded, strict=False, assign=True)
    before = copy.deepcopy(model.state_dict())
    step(model, optimizer)
    changed = [
        k for k, v in model.state_dict().items() if not same(v, before[k])
    ]
    assert changed == ["1.weight", "1.bias"]


def test_assign_leaves_the_optimizer_behind__but_not_without_assign(
    snippet, fails
):
    """Without `assign`, the numbers are copied into the old parameters, which
    the optimizer still holds.
    """
    edited = snippet.edit(", assign=True)", ")")
    fails(test_assign_leaves_the_optimizer_behind, edited)


def test_assign_leaves_the_optimizer_behind__but_not_one_made_late(
    snippet, fails
):
    """A new optimizer gets the new parameters, but the scheduler still watches
    the old one, and warns.
    """
    edited = snippet.edit(
        "assign=True)\n",
        "assign=True)\n"
        'given = parts["model"].parameters()\n'
        'parts["optimizer"] = torch.optim.Adam(given)\n',
    )
    fails(test_assign_leaves_the_optimizer_behind, edited)


def test_assign_leaves_the_optimizer_behind__but_not_if_one_was_added(
    snippet, fails
):
    """Parameters that you hand over with `add_param_group` are trained."""
    edited = snippet.edit(
        "assign=True)\n",
        "assign=True)\n"
        'given = list(parts["model"][2].parameters())\n'
        'parts["optimizer"].add_param_group({"params": given})\n',
    )
    fails(test_assign_leaves_the_optimizer_behind, edited)


def test_assign_leaves_the_optimizer_behind__ends_if_it_copies(snippet, fails):
    """Without `assign=True`: the optimizer's own parameters get the loaded
    numbers.
    """
    fails(test_assign_leaves_the_optimizer_behind, snippet, "Adam", False)


LATE = ["Adam", "AdamW", "NAdam"]


def stays_behind(name, dtype=torch.float64, made=torch.float32, **options):
    model = nn.Linear(4, 2, dtype=made)
    optimizer = OPTIMIZERS[name](model.parameters(), **options)
    optimizer.load_state_dict(trained_state(name, **options))
    model.to(dtype)
    for state in optimizer.state.values():
        assert state["exp_avg"].dtype == torch.float32
        assert state["exp_avg_sq"].dtype == torch.float32
    with pytest.raises(RuntimeError, match="expected"):
        step(model, optimizer)


def test_a_late_move_leaves_the_state_behind(
    snippet, name="Adam", dtype=torch.float64, made=torch.float32
):
    stays_behind(name, dtype, made)
    run = resumed(snippet, *TRAINED, ("refusal", "moved", "moved-too-late"))
    assert run.late_said is not None
    assert run.late_said.startswith("RuntimeError: expected dtype float")


@pytest.mark.parametrize("name", LATE)
def test_a_late_move_leaves_the_state_behind__also_for(name):
    stays_behind(name)
    stays_behind(name, foreach=True)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize("option", ["fused", "amsgrad"])
def test_a_late_move_leaves_the_state_behind__also_with(name, option):
    stays_behind(name, **{option: True})


def test_a_late_move_leaves_the_state_behind__ends_for_a_double_model(
    snippet, fails
):
    """For a model that was `float64` all along: its averages are `float64`
    too, so the move changes nothing.
    """
    fails(
        test_a_late_move_leaves_the_state_behind,
        snippet,
        "Adam",
        torch.float64,
        torch.float64,
    )


def test_a_late_move_leaves_the_state_behind__but_not_an_early_one(
    snippet, fails
):
    """Move the model first and load then, and the averages arrive in the dtype
    of the parameters.
    """
    edited = snippet.edit("    if load_first:\n", "    if False:\n")
    fails(test_a_late_move_leaves_the_state_behind, edited)


def test_a_late_move_leaves_the_state_behind__ends_without_a_move(
    snippet, fails
):
    """If nothing moves: parameters and averages still match."""
    fails(
        test_a_late_move_leaves_the_state_behind,
        snippet,
        "Adam",
        torch.float32,
    )


TWO_DEVICES = (
    "Expected all tensors to be on the same device,"
    " but found at least two devices"
)


def optimizer_on(device, name, shape, options):
    """Return an optimizer of one weight with a gradient."""
    weight = nn.Parameter(torch.ones(shape, device=device))
    weight.grad = torch.ones(shape, device=device)
    return weight, OPTIMIZERS[name]([weight], **options)


@pytest.mark.simulates("a GPU")
@true_since("2.13", "fake tensors had a text of their own")
def test_two_devices_raise(
    snippet, name="Adam", device="cuda:0", shape=(2, 4)
):
    """No cell shows it: the GPU is simulated in the test."""
    options = {"foreach": False}
    assert "FakeTensor" not in snippet.text
    with FakeTensorMode():
        weight, optimizer = optimizer_on("cpu", name, shape, options)
        optimizer.step()
        state = optimizer.state[weight]
        weight, optimizer = optimizer_on(device, name, shape, options)
        optimizer.state[weight] = state
        with pytest.raises(RuntimeError) as raised:
            optimizer.step()

    assert str(raised.value).startswith(TWO_DEVICES)
    assert {device, "cpu"} == {
        each for each in ("cuda:0", "cpu") if each in str(raised.value)
    }


@pytest.mark.parametrize(
    ("name", "shape"),
    [("Adam", (1,)), ("Adam", (2, 1, 3)), ("SGD with momentum", (5,))],
)
def test_two_devices_raise__also_for(snippet, name, shape):
    test_two_devices_raise(snippet, name, shape=shape)


def test_two_devices_raise__ends_for_a_parameter_without_axes(snippet, fails):
    """For a parameter without axes: the simulated GPU raises another error."""
    fails(test_two_devices_raise, snippet, "Adam", "cuda:0", ())


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["Adam", "SGD with momentum"])
def test_two_devices_raise__also_on_cuda(name):
    model = nn.Linear(4, 2)
    optimizer = OPTIMIZERS[name](model.parameters())
    optimizer.load_state_dict(trained_state(name))
    model.to("cuda:0")
    with pytest.raises(RuntimeError) as raised:
        step(model, optimizer)
    assert TWO_DEVICES in str(raised.value)


def test_two_devices_raise__ends_on_one(snippet, fails):
    """With the parameters on the CPU as well: there is only one device, and
    the step works.
    """
    fails(test_two_devices_raise, snippet, "Adam", "cpu")


def test_two_devices_raise__ends_for_sgd_without_momentum(snippet, fails):
    """For SGD without momentum: it has no averages, so the step works."""
    fails(test_two_devices_raise, snippet, "SGD")


def converts(name, dtype, device, capturable=False, count=None):
    options = {"capturable": True} if capturable else {}
    state = trained_state(name)
    model = nn.Linear(4, 2, dtype=dtype, device=device)
    optimizer = OPTIMIZERS[name](model.parameters(), **options)
    state["param_groups"] = optimizer.state_dict()["param_groups"]
    if count is not None:
        for each in state["state"].values():
            each["step"] = each["step"].to(count)

    optimizer.load_state_dict(state)

    assert len(optimizer.state) == 2
    pairs = zip(optimizer.state.values(), state["state"].values(), strict=True)
    for each, loaded in pairs:
        assert each.keys() == loaded.keys() != set()
        for key, tensor in each.items():
            if key == "step":
                assert tensor.device == loaded[key].device
                assert tensor.dtype == loaded[key].dtype
            else:
                assert tensor.device.type == device
                assert tensor.dtype == dtype


def test_an_optimizer_converts(
    snippet, name="Adam", dtype=torch.float64, device="cpu", capturable=False
):
    converts(name, dtype, device, capturable)
    run = resumed(snippet, *TRAINED, ("moved", "moved-first"))
    types = {key: each.dtype for key, each in run.state.items()}
    saved = run.half["optimizer"]["state"][0]
    assert run.state["step"] == saved["step"] + 1
    assert types.pop("step") == torch.float32
    assert set(types.values()) == {torch.float64}


@pytest.mark.parametrize("name", AVERAGING)
@pytest.mark.parametrize(
    ("dtype", "device"),
    [
        (torch.bfloat16, "cpu"),
        (torch.float32, "meta"),
        (torch.float16, "meta"),
    ],
)
def test_an_optimizer_converts__also_for(name, dtype, device):
    converts(name, dtype, device)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop"])
@pytest.mark.parametrize("count", ["meta", torch.float64])
def test_an_optimizer_converts__also_for_a_count_on(name, count):
    converts(name, torch.float64, "cpu", count=count)


def test_an_optimizer_converts__ends_for_complex_parameters(snippet, fails):
    """For complex parameters: the averages keep the dtype in which they were
    saved.
    """
    fails(test_an_optimizer_converts, snippet, "Adam", torch.complex128)


def test_an_optimizer_converts__but_not_before_the_move(snippet, fails):
    """Loaded before the move, the averages keep the dtype that the parameters
    had then.
    """
    edited = snippet.edit(
        "    model.double()  # leaves the optimizer behind, as .to("
        '"cuda") does\n    if not load_first:\n'
        '        optimizer.load_state_dict(saved["optimizer"])\n',
        "    if not load_first:\n"
        '        optimizer.load_state_dict(saved["optimizer"])\n'
        '        return optimizer.state_dict()["state"][0]\n'
        "    model.double()\n",
    )
    fails(test_an_optimizer_converts, edited)


def test_an_optimizer_converts__ends_with_capturable(snippet, fails):
    """With `capturable=True`: the count `step` moves to the device of its
    parameter, too.
    """
    fails(
        test_an_optimizer_converts,
        snippet,
        "Adam",
        torch.float32,
        "meta",
        True,
    )


REFUSED = "RNG state must be a torch.ByteTensor"


def test_a_moved_state_is_refused(snippet):
    run = resumed(snippet, *TRAINED, ("refusal", "map"))

    assert run.elsewhere["torch"].is_meta
    assert run.elsewhere["loader"].is_meta
    with pytest.raises(TypeError, match=REFUSED):
        torch.set_rng_state(run.elsewhere["torch"])
    with pytest.raises(TypeError, match=REFUSED):
        torch.Generator().set_state(run.elsewhere["loader"])
    assert run.states_said == f"TypeError: {REFUSED}"


@pytest.mark.cuda
def test_a_moved_state_is_refused__also_on_cuda():
    state = torch.get_rng_state().cuda()
    with pytest.raises(TypeError, match=REFUSED):
        torch.set_rng_state(state)
    with pytest.raises(TypeError, match=REFUSED):
        torch.Generator().set_state(state)


def test_a_moved_state_is_refused__but_not_on_the_cpu(snippet, fails):
    """With `map_location="cpu"`, the states are on the CPU, where their
    generators can take them.
    """
    edited = snippet.edit('map_location="meta"', 'map_location="cpu"')
    fails(test_a_moved_state_is_refused, edited)


@pytest.mark.parametrize("name", ["torch", "loader"])
def test_a_moved_state_is_refused__but_not_one_that_stays(
    snippet, name, fails
):
    """This state was loaded on the CPU, so nothing has moved it."""
    edited = snippet.edit(
        'map_location="meta")\n',
        f'map_location="meta")\nelsewhere[{name!r}] = half[{name!r}]\n',
    )
    fails(test_a_moved_state_is_refused, edited)


@pytest.mark.simulates("a GPU")
def test_resume_loads_to_the_cpu(snippet):
    run = snippet.after("build")
    parts, load = run.build(), torch.load
    kept = copy.deepcopy(parts["model"].state_dict())

    def load_back(path, map_location="meta"):
        """Load to where the tensors were, such as a GPU, unless told so."""
        return load(path, map_location=map_location)

    with a_file() as path:
        run.save(path, parts, torch.Generator(), epoch=1)
        nn.init.zeros_(parts["model"][0].weight)
        with patch("torch.load", load_back), no_error():
            progress = run.resume(path, parts, torch.Generator())

    assert progress == {"epoch": 1}
    assert same(parts["model"].state_dict(), kept)


def look_as_if_from(device, path):
    """Rewrite a file so that it says of each tensor where it was."""
    size = len(device).to_bytes(4, "little")
    with ZipFile(path) as ours:
        parts = {name: ours.read(name) for name in ours.namelist()}
    with ZipFile(path, "w") as theirs:
        for name, content in parts.items():
            moved = content.replace(b"\3\0\0\0cpu", size + device)
            theirs.writestr(name, moved)
    assert device in Path(path).read_bytes()


@pytest.mark.parametrize("device", [b"cuda:0", b"cuda:3", b"mps:0"], ids=repr)
def test_resume_loads_to_the_cpu__also_without_cuda(
    snippet, device, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = snippet.after("build")
    parts = run.build()
    kept = copy.deepcopy(parts["model"].state_dict())

    with a_file() as path:
        run.save(path, parts, torch.Generator(), epoch=1)
        look_as_if_from(device, path)
        nn.init.zeros_(parts["model"][0].weight)
        with no_error():
            progress = run.resume(path, parts, torch.Generator())

    assert progress == {"epoch": 1}
    assert same(parts["model"].state_dict(), kept)


@pytest.mark.cuda
def test_resume_loads_to_the_cpu__also_from_cuda(snippet):
    run = snippet.after("build")
    model = nn.Linear(4, 2, device="cuda")
    with a_file() as path:
        run.save(path, {"model": model}, torch.Generator())
        other = nn.Linear(4, 2)
        run.resume(path, {"model": other}, torch.Generator())
    assert same(other.state_dict(), model.cpu().state_dict())


@pytest.mark.parametrize("there", ["", ', map_location="meta"'])
def test_resume_loads_to_the_cpu__but_not(snippet, there, fails):
    """Only `map_location="cpu"` puts the tensors on a device that every
    machine has.
    """
    edited = snippet.edit(', map_location="cpu"', there)
    fails(test_resume_loads_to_the_cpu, edited)


# Where it ends


def flat(batches):
    return [sample for batch in batches for sample in batch]


def epochs_of(samples, size, used):
    """Return the order of an epoch, and those resumed from two states."""
    generator = torch.Generator().manual_seed(samples)
    loader = DataLoader(
        range(samples), size, shuffle=True, generator=generator
    )
    start = generator.get_state()
    batches = iter(loader)
    order = [next(batches).tolist() for _ in range(used)]
    middle = generator.get_state()
    order += [batch.tolist() for batch in batches]
    again = []
    for state in (start, middle):
        generator.set_state(state)
        again.append([batch.tolist() for batch in loader])
    return order, again


def is_new(order, again, used):
    assert sorted(flat(again)) == sorted(flat(order))
    assert again != order
    assert again[: len(order) - used] != order[used:]


def test_the_middle_begins_a_new_order(snippet):
    run = resumed(snippet, "imports", ("middle", "order"))
    assert sorted(flat(run.order)) == list(range(8))
    is_new(run.order, run.again[1], used=1)


@pytest.mark.parametrize(
    ("samples", "size", "used"), [(30, 7, 2), (30, 7, 4), (100, 10, 5)]
)
def test_the_middle_begins_a_new_order__also_for(samples, size, used):
    order, (_, again) = epochs_of(samples, size, used)
    is_new(order, again, used)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(8), 4, shuffle=True", "range(8), 4, shuffle=False"),
        ("for state in states[:2]", "for state in [states[0]] * 2"),
    ],
    ids=["without shuffling", "from the start"],
)
def test_the_middle_begins_a_new_order__but_not(snippet, old, new, fails):
    """Without shuffling there is only one order; from the state at the start,
    the loader repeats its own.
    """
    fails(test_the_middle_begins_a_new_order, snippet.edit(old, new))


def test_the_start_gives_the_same_order(snippet):
    run = resumed(snippet, "imports", ("middle", "order"))
    assert sorted(flat(run.order)) == list(range(8))
    assert run.again[0] == run.order


@pytest.mark.parametrize(
    ("samples", "size", "used"), [(30, 7, 2), (100, 10, 10)]
)
def test_the_start_gives_the_same_order__also_for(samples, size, used):
    order, (again, _) = epochs_of(samples, size, used)
    assert again == order


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "range(8), 4, shuffle=True, generator=generator",
            "range(8), 4, shuffle=True",
        ),
        ("for state in states[:2]", "for state in states[1:]"),
    ],
    ids=["from another generator", "from the middle"],
)
def test_the_start_gives_the_same_order__but_not(snippet, old, new, fails):
    """The state must belong to the loader's generator and come from before the
    epoch, or the order is a new one.
    """
    fails(test_the_start_gives_the_same_order, snippet.edit(old, new))


class Noisy(Dataset):
    """Samples with a random number that a worker draws."""

    def __init__(self, scale):
        self.scale = scale

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index, self.scale * torch.rand(()).item()


@functools.cache
def second_epoch(persistent, stop, shuffle, scale, restore):
    """Return order and noise of an epoch, perhaps resumed before it."""
    torch.manual_seed(0)
    generator = torch.Generator()
    for epoch in range(2):
        if epoch == 0 or stop:
            loader = DataLoader(
                Noisy(scale),
                shuffle=shuffle,
                generator=generator,
                num_workers=1,
                persistent_workers=persistent,
            )
        samples = [[each.item() for each in sample] for sample in loader]
        if stop:
            state, generator = generator.get_state(), torch.Generator()
            if restore:
                generator.set_state(state)
    return list(zip(*samples, strict=True))


def test_persistent_workers_forget(
    snippet, shuffle=True, scale=1.0, restore=True
):
    """No cell shows it: the loader of the test keeps its workers."""
    assert "persistent" not in snippet.text
    for persistent in (True, False):
        whole = second_epoch(persistent, False, shuffle, scale, True)
        again = second_epoch(persistent, True, shuffle, scale, restore)
        for one, other in zip(whole, again, strict=True):
            assert (one != other) == persistent


@pytest.mark.parametrize(
    ("shuffle", "scale", "restore"),
    [(False, 1.0, True), (True, 0.0, True), (True, 1.0, False)],
    ids=["in one order", "without noise", "without the state"],
)
def test_persistent_workers_forget__ends_if(
    snippet, shuffle, scale, restore, fails
):
    """In a fixed order, or with noise of 0: nothing can differ; without the
    state, every resumed run differs.
    """
    fails(test_persistent_workers_forget, snippet, shuffle, scale, restore)


def is_decided(name, rate):
    optimizer = OPTIMIZERS[name](nn.Linear(4, 2).parameters(), lr=rate)
    optimizer.load_state_dict(trained_state(name, lr=0.02))
    assert [group["lr"] for group in optimizer.param_groups] == [0.02]


def test_the_file_decides_the_rate(snippet):
    run = resumed(snippet, *TRAINED, "rate")
    [group] = run.optimizer.param_groups
    [saved] = run.half["optimizer"]["param_groups"]
    assert run.optimizer.defaults["lr"] == 0.3
    assert group["lr"] == saved["lr"] == pytest.approx(0.025)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_file_decides_the_rate__also_for(name):
    for rate in (1e-5, 2.0):
        is_decided(name, rate)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('optimizer.load_state_dict(half["optimizer"])\nprint(op', "print(op"),
        (
            'optimizer.load_state_dict(half["optimizer"])\nprint(op',
            'optimizer.load_state_dict(half["optimizer"])\n'
            'optimizer.param_groups[0]["lr"] = 0.3\nprint(op',
        ),
    ],
    ids=["if not loaded", "if set afterwards"],
)
def test_the_file_decides_the_rate__but_not(snippet, old, new, fails):
    """Do not load the state, or set `lr` after loading it: then the rate is
    your 0.3.
    """
    fails(test_the_file_decides_the_rate, snippet.edit(old, new))


GIVEN = {
    "more": lambda: [*nn.Linear(4, 2).parameters(), torch.ones(1)],
    "fewer": lambda: [nn.Linear(4, 2).weight],
    "as many": lambda: [*nn.Linear(4, 2).parameters()],
    "two groups": lambda: [{"params": each} for each in torch.ones(2, 3)],
}


def are_refused(name, given):
    optimizer = OPTIMIZERS[name](GIVEN[given]())
    with pytest.raises(ValueError, match="loaded state dict"):
        optimizer.load_state_dict(trained_state(name))


def test_other_parameters_are_refused(snippet, name="Adam", given="fewer"):
    are_refused(name, given)
    run = resumed(snippet, *TRAINED, ("refusal", "groups"))
    assert run.frozen_said is not None
    assert "doesn't match the size of optimizer's group" in run.frozen_said


@pytest.mark.parametrize("name", ["Adam", "SGD with momentum"])
@pytest.mark.parametrize("given", ["more", "fewer", "two groups"])
def test_other_parameters_are_refused__also_for(name, given):
    are_refused(name, given)


def test_other_parameters_are_refused__ends_for_as_many(snippet, fails):
    """With the same number of parameters in one group: the state loads."""
    fails(test_other_parameters_are_refused, snippet, "Adam", "as many")


def test_other_parameters_are_refused__but_not_the_same(snippet, fails):
    """This optimizer holds all parameters of the model, as the saved one did,
    so the state loads.
    """
    edited = snippet.edit('build()["model"][2].p', 'build()["model"].p')
    fails(test_other_parameters_are_refused, edited)


def by_name(optimizer, state):
    """Load only what belongs to a parameter of the same shape."""
    shapes = [each.shape for each in optimizer.param_groups[0]["params"]]
    entries = state["state"].values()
    for shape, entry in zip(shapes, entries, strict=True):
        if entry["exp_avg"].shape != shape:
            message = "the shapes differ"
            raise ValueError(message)
    optimizer.load_state_dict(state)


def test_state_goes_by_position(
    snippet, load=torch.optim.Adam.load_state_dict
):
    """No cell decides it: the optimizer itself hands out the state."""
    half = resumed(snippet, *TRAINED).folder / "half.pt"
    saved = torch.load(half)["optimizer"]
    model = snippet.after("build").build()["model"]
    weights = list(model.parameters())[::-1]
    optimizer = torch.optim.Adam(weights)

    with no_error():
        load(optimizer, saved)

    for number, weight in enumerate(weights):
        average = optimizer.state[weight]["exp_avg"]
        assert average is saved["state"][number]["exp_avg"]
    assert average.shape != weight.shape


def test_state_goes_by_position__ends_if_shapes_are_compared(snippet, fails):
    """With a loading function of your own that compares the shapes: it
    notices, and raises.
    """
    fails(test_state_goes_by_position, snippet, by_name)
