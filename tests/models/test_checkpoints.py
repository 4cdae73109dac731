"""The claims of docs/models/checkpoints.md."""

import copy
import os
import random
import signal
import tempfile
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import compiled
from tests.helpers import worlds
from tests.helpers.programs import after, resumed

SAVED = ("digits", "save")
TO_THE_END = ("resume", "go-on", "whole")


@contextmanager
def a_file():
    """Give the path of a file that is not there, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, "checkpoint.pt")


def run_cell(snippet, name, variables):
    """Run one cell on these variables."""
    exec(compiled(snippet.cell(name), snippet.path), variables)


def same(one, other):
    """Return whether two states hold the same numbers, exactly."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.equal(other)
    if isinstance(one, dict):
        pairs = ((one[key], other.get(key)) for key in one)
        return one.keys() == other.keys() and all(same(*p) for p in pairs)
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(same(*p) for p in pairs)
    return one == other


def step(model, optimizer, inputs=None, scaler=None):
    """Make one step of training."""
    scaler = scaler or torch.amp.GradScaler(enabled=False)
    first = next(model.parameters())
    if inputs is None:
        inputs = torch.ones(5, 4)
    optimizer.zero_grad()
    scaler.scale(model(inputs.to(first)).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()


OPTIM = torch.optim
OPTIMIZERS = {
    "Adam": OPTIM.Adam,
    "AdamW": OPTIM.AdamW,
    "NAdam": OPTIM.NAdam,
    "RMSprop": OPTIM.RMSprop,
    "Adagrad": OPTIM.Adagrad,
    "AdamW with amsgrad": lambda p, **o: OPTIM.AdamW(p, amsgrad=True, **o),
    "SGD": OPTIM.SGD,
    "SGD with momentum": lambda p, **o: OPTIM.SGD(p, momentum=0.9, **o),
}


# Do this


def drops():
    """Return a small model that draws random numbers."""
    return nn.Sequential(nn.Linear(3, 9), nn.Dropout(0.3), nn.Linear(9, 3))


def cosine(optimizer):
    """Return the schedule of the page."""
    return OPTIM.lr_scheduler.CosineAnnealingLR(optimizer, 6)


class Run:
    """A small training run, which saves and resumes with the page's cells."""

    def __init__(self, snippet, make=drops, kind="AdamW", **more):
        self.snippet, self.make, self.kind = snippet, make, kind
        self.schedule = more.pop("schedule", cosine)
        self.extra = more.pop("extra", dict)
        self.options = more

    def build(self):
        """Return what a program builds when it starts."""
        model = self.make()
        learning = [each for each in model.parameters() if each.requires_grad]
        optimizer = OPTIMIZERS[self.kind](learning, lr=0.05)
        return model, optimizer, self.schedule(optimizer)

    def until(self, last, path, seed):
        """Start the program, and train to the end of an epoch."""
        torch.manual_seed(seed)
        variables = {"torch": torch, "path": path, "build": self.build}
        variables |= self.extra()
        run_cell(self.snippet, "resume", variables)
        names = "model", "optimizer", "scheduler"
        parts = [variables[name] for name in names]
        first = next(parts[0].parameters()).detach()
        inputs = torch.linspace(-2, 2, 36, dtype=first.dtype).reshape(12, 3)
        own, scaler = variables.get("own"), variables.get("scaler")
        options = {"shuffle": True, "generator": own, **self.options}
        loader = DataLoader(inputs, 4, **options)
        for epoch in range(variables["start"], last):
            for batch in loader:
                step(*parts[:2], batch, scaler)
            parts[2].step()
            variables["epoch"] = epoch
            run_cell(self.snippet, "save", variables)
        return [part.state_dict() for part in parts]

    def goes_on(self, *stops):
        """Compare a run that is stopped with one that is not."""
        with a_file() as whole, a_file() as path, no_error():
            expected = self.until(6, whole, seed=5)
            for seed, stop in enumerate(stops, start=5):
                self.until(stop, path, seed)
            ended = self.until(6, path, seed=99)
        assert same(ended, expected)


def saved_too(snippet, part, *, get="state_dict", set_="load_state_dict"):
    """Add a part to the cells that save and load."""
    first = snippet.edit(
        '    "cuda": torch',
        f'    "{part}": {part}.{get}(),\n    "cuda": torch',
    )
    return first.edit(
        "    torch.cuda.set",
        f'    {part}.{set_}(saved["{part}"])\n    torch.cuda.set',
    )


def test_resuming_equals_not_stopping(snippet, run=None, stops=(4,)):
    if run:
        run.goes_on(*stops)
        return
    with no_error():
        page = resumed(snippet, SAVED, TO_THE_END)
    assert [page.start, page.epoch, len(page.losses)] == [4, 5, 6]
    assert page.distance(page.model, page.whole) == 0
    assert same(page.model.state_dict(), page.whole.state_dict())
    assert page.val_loss(page.model) == page.losses[5] < page.losses[0]


@pytest.mark.parametrize("stops", [(1,), (5,), (6,), (1, 2, 4)])
def test_resuming_equals_not_stopping__also_after(snippet, stops):
    test_resuming_equals_not_stopping(snippet, Run(snippet), stops)


@worlds.each(
    "make",
    worlds.MODELS,
    *("with BatchNorm", "with dropout", "tied"),
    *("frozen in part", "float64", "bfloat16"),
)
def test_resuming_equals_not_stopping__also_for_a_model(snippet, make):
    test_resuming_equals_not_stopping(snippet, Run(snippet, make))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_resuming_equals_not_stopping__also_with(snippet, kind):
    test_resuming_equals_not_stopping(snippet, Run(snippet, kind=kind))


def warmed_up(optimizer):
    """Return a schedule of two: a warm-up, and then the cosine."""
    kinds = OPTIM.lr_scheduler
    parts = [kinds.LinearLR(optimizer, 0.1, total_iters=3), cosine(optimizer)]
    return kinds.SequentialLR(optimizer, parts, milestones=[3])


SCHEDULES = {
    "SequentialLR": warmed_up,
    "StepLR": lambda o: OPTIM.lr_scheduler.StepLR(o, 2),
    "LambdaLR": lambda o: OPTIM.lr_scheduler.LambdaLR(o, lambda e: 0.7**e),
    "OneCycleLR": lambda o: OPTIM.lr_scheduler.OneCycleLR(o, 0.1, 9),
}


# In older versions, SequentialLR called its parts with an epoch.
@pytest.mark.filterwarnings("ignore:The epoch parameter:UserWarning")
@pytest.mark.parametrize("name", SCHEDULES)
def test_resuming_equals_not_stopping__also_with_the_schedule(snippet, name):
    run = Run(snippet, schedule=SCHEDULES[name])
    test_resuming_equals_not_stopping(snippet, run)


def scaler():
    """Return what scales a loss, and grows after four steps."""
    return {"scaler": torch.amp.GradScaler("cpu", growth_interval=4)}


def own_generator():
    """Return the generator of a loader, which a new program seeds anew."""
    return {"own": torch.Generator().manual_seed(torch.initial_seed())}


def test_resuming_equals_not_stopping__also_with_a_scaler(snippet):
    run = Run(saved_too(snippet, "scaler"), extra=scaler)
    test_resuming_equals_not_stopping(snippet, run, (1, 4))


def test_resuming_equals_not_stopping__also_with_a_loaders_generator(snippet):
    edited = saved_too(snippet, "own", get="get_state", set_="set_state")
    run = Run(edited, extra=own_generator)
    test_resuming_equals_not_stopping(snippet, run, (1, 4))


def test_resuming_equals_not_stopping__ends_with_a_loaders_generator_not_saved(
    snippet, fails
):
    """A loader with a generator of its own shuffles differently if that isn't
    saved as well.
    """
    run = Run(snippet, extra=own_generator)
    fails(test_resuming_equals_not_stopping, snippet, run)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_resuming_equals_not_stopping__also_with_workers(snippet):
    run = Run(snippet, num_workers=1)
    test_resuming_equals_not_stopping(snippet, run, (2,))


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


@pytest.mark.parametrize("device", [b"cuda:3", b"mps:0"], ids=repr)
def test_resuming_equals_not_stopping__also_from_a_file_of(snippet, device):
    run = Run(snippet)
    with a_file() as whole, a_file() as path, no_error():
        expected = run.until(6, whole, seed=5)
        run.until(4, path, seed=5)
        look_as_if_from(device, path)
        assert same(run.until(6, path, seed=99), expected)


def test_resuming_equals_not_stopping__also_with_the_states_of_gpus(snippet):
    states = [torch.tensor([number], dtype=torch.uint8) for number in (3, 7)]
    back = []
    with (
        patch("torch.cuda.get_rng_state_all", lambda: states),
        patch("torch.cuda.set_rng_state_all", back.append),
    ):
        test_resuming_equals_not_stopping(snippet, Run(snippet))
    assert same(back, [states])


@pytest.mark.cuda
def test_resuming_equals_not_stopping__also_on_cuda(snippet):
    run = Run(snippet, lambda: drops().cuda())
    test_resuming_equals_not_stopping(snippet, run)


def test_resuming_equals_not_stopping__ends_with_a_generator_not_saved(
    snippet, fails
):
    """Noise from NumPy, whose generator is not saved, differs after the
    stop.
    """
    noisy = snippet.edit(
        "    for images, labels in loader:\n        optimizer.zero_grad()\n",
        "    for images, labels in loader:\n        optimizer.zero_grad()\n"
        "        images = images + np.random.normal(scale=0.1)\n",
    )
    fails(test_resuming_equals_not_stopping, noisy)


def test_resuming_equals_not_stopping__ends_within_an_epoch(snippet, fails):
    """Stopped within an epoch, the run trains that epoch once more, on top of
    what it has learned already.
    """
    edited = snippet.edit(
        "# %% save\n",
        "# %% save\n"
        "F.cross_entropy(model(images), labels).backward()\n"
        "optimizer.step()\n",
    ).edit(
        "for epoch in range(4)",
        "images, labels = digits[:100]\nfor epoch in range(4)",
    )
    fails(test_resuming_equals_not_stopping, edited)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_resuming_equals_not_stopping__ends_with_persistent_workers(
    snippet, fails
):
    """With `persistent_workers=True`, a resumed run shuffles in another
    order.
    """

    run = Run(snippet, num_workers=1, persistent_workers=True)
    fails(test_resuming_equals_not_stopping, snippet, run)


@edits(
    ("the weights", 'model.load_state_dict(saved["model"])', "pass"),
    ("Adam", 'optimizer.load_state_dict(saved["optimizer"])', "pass"),
    ("the schedule", 'scheduler.load_state_dict(saved["sch', '(saved["sch'),
    ("the random numbers", 'torch.set_rng_state(saved["random"])', "pass"),
)
def test_resuming_equals_not_stopping__but_not_without(
    snippet, old, new, fails
):
    """Leave one part out, and the resumed run goes on from new weights,
    averages, rates or random numbers.
    """
    fails(test_resuming_equals_not_stopping, snippet.edit(old, new))


@edits(
    ("the same epoch again", 'saved["epoch"] + 1', 'saved["epoch"]'),
    ("a seed after loading", "torch.cuda.set", "torch.seed(), torch.cuda.set"),
)
def test_resuming_equals_not_stopping__but_not_with(snippet, old, new, fails):
    """Train the saved epoch once more, or seed after loading, and the run
    takes another way.
    """
    fails(test_resuming_equals_not_stopping, snippet.edit(old, new))


class Stop:
    """What ends a program in the middle of torch.save."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        if self.error is None:
            os.kill(os.getpid(), signal.SIGKILL)
        raise self.error


def to_save(path, **more):
    """Return what the cell `save` needs, with more in the model's state."""
    part = SimpleNamespace(state_dict=lambda: {"w": torch.ones(2000)})
    model = SimpleNamespace(state_dict=lambda: {"w": torch.ones(99), **more})
    parts = {"model": model, "optimizer": part, "scheduler": part}
    return {"torch": torch, "path": path, "epoch": 1, **parts}


def test_an_interrupted_save_leaves_the_old_file(
    snippet, error=KeyboardInterrupt
):
    save = torch.save
    with a_file() as path:
        run_cell(snippet, "save", to_save(path))
        before = path.read_bytes()
        with pytest.raises(error):
            run_cell(snippet, "save", to_save(path, note=Stop(error)))
        assert path.exists()
        assert path.read_bytes() == before

        def broken(content, place, **options):
            """Break off in a file; tensors pickle through a buffer."""
            if not isinstance(place, str | Path):
                return save(content, place, **options)
            Path(place).write_bytes(b"half of it")
            raise error

        with patch("torch.save", broken), pytest.raises(error):
            run_cell(snippet, "save", to_save(path))
        assert path.read_bytes() == before
        run_cell(snippet, "save", {**to_save(path), "epoch": 2})
        assert torch.load(path)["epoch"] == 2
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
    with a_file() as path:
        run_cell(snippet, "save", to_save(path))
        before = path.read_bytes()
        child = os.fork()
        if not child:
            kill = Stop(None)
            with patch("pathlib.Path.replace", lambda *_: kill.__reduce__()):
                more = {"note": kill} if moment == "saving" else {}
                run_cell(snippet, "save", to_save(path, **more))
            os._exit(0)
        _, status = os.waitpid(child, 0)

        assert os.WTERMSIG(status) == signal.SIGKILL
        assert path.read_bytes() == before


@edits(
    ("in place", 'path.with_suffix(".partial")', "path"),
    ("deleted first", "partial = p", "path.unlink(True)\npartial = p"),
    ("late", "partial = p", "torch.save(checkpoint, path)\npartial = p"),
)
def test_an_interrupted_save_leaves_the_old_file__but_not(
    snippet, old, new, fails
):
    """Written straight to its path, or deleted first, the old checkpoint is
    gone before the new one is whole.
    """
    fails(test_an_interrupted_save_leaves_the_old_file, snippet.edit(old, new))


def drawn(own):
    """Return numbers from each generator: some keep half a draw."""
    return [
        [random.random(), random.randrange(99), random.gauss(0, 1)],
        [np.random.rand(), np.random.normal(), *np.random.permutation(9)],
        own.integers(9, size=3, dtype=np.int32).tolist(),
        [own.normal(), *own.permutation(9)],
    ]


def test_generators_are_set_back(snippet):
    with tempfile.TemporaryDirectory() as folder, no_error():
        variables = {"torch": torch, "np": np, "random": random}
        variables |= {"folder": Path(folder)}
        run_cell(snippet, "generators", variables)
        expected = drawn(variables["own"])
        variables["own"] = np.random.default_rng()
        random.seed()
        np.random.seed()
        run_cell(snippet, "set-generators", variables)
    assert drawn(variables["own"]) == expected


@pytest.mark.parametrize("used", [0, 1, 5], ids="{} draws".format)
@pytest.mark.parametrize("number", [1, 2**70], ids=["seed 1", "a long seed"])
def test_generators_are_set_back__also_after(snippet, used, number):
    random.seed(number)
    np.random.seed(number % 2**32)
    own = np.random.default_rng(number)
    for _ in range(used):
        drawn(own)
    # As in a program that has drawn from a generator of its own.
    used_up = snippet.edit("np.random.default_rng(0)", "np.used")
    with patch("numpy.used", own, create=True):
        test_generators_are_set_back(used_up)


def test_generators_are_set_back__ends_with_another_bit_generator(
    snippet, fails
):
    """The state of NumPy's `MT19937` holds an array, which `torch.load`
    refuses.
    """
    old = "np.random.default_rng(0)"
    edited = snippet.edit(old, "np.random.Generator(np.random.MT19937(0))")
    fails(test_generators_are_set_back, edited)


@edits(
    ("Python", 'random.setstate(more["python"])\n', ""),
    ("NumPy", 'np.random.set_state(more["numpy"])\n', ""),
    ("your own", 'own.bit_generator.state = more["own"]\n', ""),
    ("a list", "words.tolist()", "words"),
)
def test_generators_are_set_back__but_not_without(snippet, old, new, fails):
    """Leave a line out, and that generator draws other numbers; `torch.load`
    refuses an array.
    """
    fails(test_generators_are_set_back, snippet.edit(old, new))


# How it works


def tree():
    """Return a model of several levels, with buffers."""
    block = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh())
    return nn.Sequential(block, nn.ModuleList([nn.Linear(6, 2)])[0])


class Shared(nn.Module):
    """Two layers that are one."""

    def __init__(self):
        super().__init__()
        self.first = self.second = nn.Linear(4, 4)

    def forward(self, inputs):
        """Return what the two layers make of inputs."""
        return self.second(self.first(inputs))


class Masked(nn.Linear):
    """A layer with a buffer that is not saved."""

    def __init__(self):
        super().__init__(4, 2)
        self.register_buffer("mask", torch.ones(2), persistent=False)


def frozen():
    """Return a model whose first layer is frozen."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    return model


def adam(model):
    """Return Adam, with all weights in one group."""
    return OPTIM.Adam(model.parameters(), lr=0.05)


def test_sixteen_lines_are_state_dicts(
    snippet, make=tree, optimizer_of=adam, change=dict, into=None, kept=None
):
    with no_error():
        page = resumed(snippet, SAVED, "by-hand", "compare")
    assert [page.models, page.adams] == [True, True]
    assert same(page.model_state(page.ours), page.theirs.state_dict())

    torch.manual_seed(0)
    model = make()
    optimizer = optimizer_of(model)
    batches = torch.randn(20, 5, 4)
    with no_error():
        for batch in batches[:10]:
            step(model, optimizer, batch)
            states = model.state_dict(), optimizer.state_dict()
            assert same(page.model_state(model), states[0])
            assert same(page.optimizer_state(optimizer), states[1])

    files = [copy.deepcopy(states) for _ in range(2)]
    fresh = [(into or make)() for _ in range(2)]
    by_hand, real = ((each, optimizer_of(each)) for each in fresh)
    if kept is not None:  # of the state, for an optimizer that has one
        for each in (by_hand, real):
            step(*each, batches[0])
        for _, saved in files:
            state = saved["state"]
            saved["state"] = {number: state[number] for number in kept}
    with no_error():
        page.load_model(by_hand[0], change(files[0][0]))
        page.load_optimizer(by_hand[1], files[0][1])
        real[0].load_state_dict(change(files[1][0]))
        real[1].load_state_dict(files[1][1])
        for batch in (None, *batches[10:]):
            if batch is not None:
                step(*by_hand, batch)
                step(*real, batch)
            for one, other in zip(by_hand, real, strict=True):
                assert same(one.state_dict(), other.state_dict())
    assert same(files[0], files[1])


def of_one_layer():
    """Return a single layer without a bias."""
    return nn.Linear(4, 1, bias=False)


@pytest.mark.parametrize("make", [tree, frozen, of_one_layer])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sixteen_lines_are_state_dicts__also_for(snippet, make, name):
    def optimizer_of(model):
        return OPTIMIZERS[name](model.parameters(), lr=0.05)

    test_sixteen_lines_are_state_dicts(snippet, make, optimizer_of)


def test_sixteen_lines_are_state_dicts__also_in_float64(snippet):
    test_sixteen_lines_are_state_dicts(snippet, lambda: tree().double())


def test_sixteen_lines_are_state_dicts__also_for_a_model_in_use(snippet):
    test_sixteen_lines_are_state_dicts(snippet, kept=range(6))


@pytest.mark.parametrize("kept", [(), (0, 1, 2)], ids=["none", "some"])
def test_sixteen_lines_are_state_dicts__ends_for_averages_in_use(
    snippet, kept, fails
):
    """PyTorch drops the averages of weights for which the file has none."""
    options = tree, adam, dict, None, kept
    fails(test_sixteen_lines_are_state_dicts, snippet, *options)


@pytest.mark.parametrize("make", [Shared, Masked])
def test_sixteen_lines_are_state_dicts__ends_for_a_model(snippet, make, fails):
    """PyTorch names a shared weight twice, and leaves out a buffer that is
    not persistent.
    """
    fails(test_sixteen_lines_are_state_dicts, snippet, make)


def test_sixteen_lines_are_state_dicts__ends_with_two_groups(snippet, fails):
    """Our lines take an optimizer with one parameter group only."""

    def optimizer_of(model):
        groups = [{"params": [each]} for each in model.parameters()]
        return OPTIM.Adam(groups, lr=0.05)

    fails(test_sixteen_lines_are_state_dicts, snippet, tree, optimizer_of)


def with_one_more(state):
    """Return a state with an entry that the model has not."""
    return state | {"more": torch.ones(3)}


def with_one_number(state):
    """Return a state whose first tensor is a single number."""
    return state | {next(iter(state)): torch.ones(1)}


@pytest.mark.parametrize("change", [with_one_more, with_one_number])
def test_sixteen_lines_are_state_dicts__ends_if_names_or_shapes_differ(
    snippet, change, fails
):
    """PyTorch raises an error for an extra name, and for a tensor of another
    shape, even if it could be broadcast.
    """
    options = (tree, adam, change)
    fails(test_sixteen_lines_are_state_dicts, snippet, *options)


def test_sixteen_lines_are_state_dicts__ends_with_another_dtype(
    snippet, fails
):
    """PyTorch converts Adam's averages to the dtype of their weight."""
    options = (tree, adam, dict, lambda: tree().double())
    fails(test_sixteen_lines_are_state_dicts, snippet, *options)


@edits(
    ("1 copied", "tensor.detach() for", "tensor.detach().clone() for"),
    ("1 without buffers", ", *model.named_buffers()]", "]"),
    ("2", "tensor.copy_(state[name])", "tensor.add_(state[name])"),
    ("3", "state = {i: kept", "state = {i + 1: kept"),
    ("4 copied", "= state  # 4", "= copy.deepcopy(state)"),
    ("4 by another position", '["params"][number]', '["params"][-1 - number]'),
    ("5", "    group.update(its", "    copy.copy(its"),
)
def test_sixteen_lines_are_state_dicts__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each of the numbered lines counts: PyTorch's state dicts share their
    memory, with the model and with the checkpoint.
    """
    fails(test_sixteen_lines_are_state_dicts, snippet.edit(old, new))


# What goes wrong

PARTS = ["model", "optimizer", "scheduler", "random", "epoch"]


def test_every_part_is_needed(snippet):
    with no_error():
        run = resumed(snippet, SAVED, TO_THE_END, "leave-out")
    far = {name: distance for name, (_, distance) in run.rows.items()}
    assert far.pop("") == 0
    assert [*far] == [*PARTS, "optimizer, scheduler, random"]
    assert [name for name in PARTS if not far[name]] == []
    other, _ = run.go_on(torch.load(run.path))
    assert same(other.state_dict(), run.whole.state_dict())
    saved = torch.load(run.path)
    assert saved.keys() - {"cuda"} == set(PARTS)


CALM = (
    ("nn.Dropout(0.2)", "nn.Identity()"),
    ("batch_size=100, shuffle=True", "batch_size=100"),
)


def test_every_part_is_needed__but_not_random_numbers_that_are_not_drawn(
    snippet, fails
):
    """Without dropout and shuffling, training draws no random numbers."""
    for old, new in CALM:
        snippet = snippet.edit(old, new)
    fails(test_every_part_is_needed, snippet)


@edits(
    (
        "a constant rate",
        "CosineAnnealingLR(optimizer, T_max=6",
        "ConstantLR(optimizer, 1",
    ),
    ("the number of epochs", '"epoch": -1}', '"epoch": 3}'),
    (
        "an empty state",
        "new[name] for name in names}",
        "{} for name in names}",
    ),
)
def test_every_part_is_needed__but_not_with(snippet, old, new, fails):
    """What the training does not depend on may be replaced; an empty state
    raises an error.
    """
    fails(test_every_part_is_needed, snippet.edit(old, new))


BEST = (SAVED, TO_THE_END, "best")
MODELS = {
    "a layer": lambda: nn.Linear(4, 2),
    "BatchNorm": tree,
    "float64": lambda: tree().double(),
    "one that is frozen in part": frozen,
}


def as_it_is(model):
    """Return a model."""
    return model


def states_after_a_step(make, move=as_it_is):
    """Return a state dict and its deep copy, before and after a step."""
    torch.manual_seed(0)
    model = make()
    kept = model.state_dict(), copy.deepcopy(model.state_dict())
    before = copy.deepcopy(kept[0])
    optimizer = OPTIM.SGD(move(model).parameters(), lr=0.1)
    step(model, optimizer, torch.randn(5, 4))
    return model, before, *kept


def test_a_state_dict_is_no_copy(snippet, make=tree, move=as_it_is):
    kept = resumed(snippet, *BEST).kept
    assert kept["state_dict()"] == kept["last"] > kept["best"]

    model, before, state, _ = states_after_a_step(make, move)
    assert same(state, model.state_dict())
    assert not same(state, before)


@pytest.mark.parametrize("name", MODELS)
def test_a_state_dict_is_no_copy__also_for(snippet, name):
    test_a_state_dict_is_no_copy(snippet, MODELS[name])


def test_a_state_dict_is_no_copy__ends_if_the_model_moves(snippet, fails):
    """Moved to another dtype or device, the model gets new memory, and the
    state dict keeps the old one.
    """
    fails(test_a_state_dict_is_no_copy, snippet, tree, nn.Module.double)


@pytest.mark.parametrize(
    "copied",
    [
        "copy.deepcopy(best_model.state_dict())",
        "{n: t.clone() for n, t in best_model.state_dict().items()}",
    ],
)
def test_a_state_dict_is_no_copy__but_not(snippet, copied, fails):
    """A deep copy, or clones, have memory of their own, which no step
    changes.
    """
    shared = "best, copied = best_model.state_dict()"
    edited = snippet.edit(shared, f"best, copied = {copied}")
    fails(test_a_state_dict_is_no_copy, edited)


def test_a_deep_copy_keeps_the_best(snippet, make=tree):
    run = resumed(snippet, *BEST)
    assert run.kept["deepcopy"] == run.kept["best"] < run.kept["last"]
    assert same(run.copied, run.whole.state_dict())

    model, before, _, copied = states_after_a_step(make)
    assert same(copied, before)
    model.load_state_dict(copied)
    assert same(model.state_dict(), before)


@pytest.mark.parametrize("name", MODELS)
def test_a_deep_copy_keeps_the_best__also_for(snippet, name):
    test_a_deep_copy_keeps_the_best(snippet, MODELS[name])


@edits(
    ("a shallow copy", "copy.deepcopy(best_model", "copy.copy(best_model"),
    ("dict()", "copy.deepcopy(best_model", "dict(best_model"),
)
def test_a_deep_copy_keeps_the_best__but_not(snippet, old, new, fails):
    """A new dictionary around the same tensors changes with them."""
    fails(test_a_deep_copy_keeps_the_best, snippet.edit(old, new))


def trained_state(name, **options):
    """Return the state of an optimizer after a step."""
    model = nn.Linear(4, 2)
    optimizer = OPTIMIZERS[name](model.parameters(), **options)
    step(model, optimizer)
    return copy.deepcopy(optimizer.state_dict())


def test_the_file_decides_the_rate(snippet, name="Adam"):
    run = resumed(snippet, SAVED, "rate")
    assert run.loaded_rate == pytest.approx(0.05 / 4)
    assert [group["lr"] for group in run.adam.param_groups] == [0.001]

    for rate in (1e-5, 2.0):
        optimizer = OPTIMIZERS[name](nn.Linear(4, 2).parameters(), lr=rate)
        optimizer.load_state_dict(trained_state(name, lr=0.02))
        assert [group["lr"] for group in optimizer.param_groups] == [0.02]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_file_decides_the_rate__also_for(snippet, name):
    test_the_file_decides_the_rate(snippet, name)


@edits(
    (
        "not loaded",
        'adam.load_state_dict(torch.load(path)["opt',
        '(torch.load(path)["opt',
    ),
    (
        "set in the file",
        'adam.load_state_dict(torch.load(path)["optimizer"])',
        "adam.load_state_dict(build()[1].state_dict())",
    ),
    ("not set", '    group["lr"] = 0.001', "    pass"),
)
def test_the_file_decides_the_rate__but_not_if(snippet, old, new, fails):
    """If the state isn't loaded, your rate counts; without the loop, that of
    the file.
    """
    fails(test_the_file_decides_the_rate, snippet.edit(old, new))


def test_an_optimizer_shares(snippet, name="Adam", dtype=torch.float32):
    run = resumed(snippet, SAVED, TO_THE_END, ("leave-out", "two-runs"))
    count = run.once["optimizer"]["state"][0]["step"]
    assert [count.item(), run.count] == [60 + 2 * 30, 60 + 30]
    assert run.apart > 0

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


@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n != "SGD"])
def test_an_optimizer_shares__also_for(snippet, name):
    test_an_optimizer_shares(snippet, name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_an_optimizer_shares__ends_with_another_dtype(snippet, dtype, fails):
    """For weights of another dtype or device, the averages are converted,
    which makes copies.
    """
    fails(test_an_optimizer_shares, snippet, "Adam", dtype)


def test_an_optimizer_shares__also_what_is_on_one_device():
    loaded = trained_state("Adam")
    for state in loaded["state"].values():
        state |= {key: each.to("meta") for key, each in state.items()}
    model = nn.Linear(4, 2, device="meta")
    optimizer = OPTIM.Adam(model.parameters())
    optimizer.load_state_dict(loaded)
    for number, weight in enumerate(model.parameters()):
        for key, each in loaded["state"][number].items():
            assert optimizer.state[weight][key] is each


@pytest.mark.parametrize("to", [torch.float64, "meta"], ids=str)
def test_an_optimizer_shares__also_the_count_if_averages_are_copied(to):
    loaded = trained_state("Adam")
    model = nn.Linear(4, 2).to(to)
    optimizer = OPTIM.Adam(model.parameters())
    optimizer.load_state_dict(loaded)
    shared = {
        key: optimizer.state[model.weight][key] is each
        for key, each in loaded["state"][0].items()
    }
    assert shared == {"step": True, "exp_avg": False, "exp_avg_sq": False}


def test_an_optimizer_shares__ends_for_sgd_without_momentum(snippet, fails):
    """SGD without momentum has no state to share."""
    fails(test_an_optimizer_shares, snippet, "SGD")


def test_an_optimizer_shares__but_not_what_was_copied(snippet, fails):
    """Load a deep copy, and the steps write into the copy."""
    edited = snippet.edit("go_on(once)", "go_on(copy.deepcopy(once))")
    fails(test_an_optimizer_shares, edited)


def test_an_optimizer_shares__but_not_what_is_loaded_again(snippet, fails):
    """Loaded from the file again, each run starts from the same numbers."""
    edited = snippet.edit("go_on(once)", "go_on(torch.load(path))")
    fails(test_an_optimizer_shares, edited)


GIVEN = {
    "more": lambda: [*nn.Linear(4, 2).parameters(), torch.ones(1)],
    "fewer": lambda: [nn.Linear(4, 2).weight],
    "as many": lambda: [*nn.Linear(4, 2).parameters()],
    "two groups": lambda: [{"params": each} for each in torch.ones(2, 3)],
}


def test_other_parameters_are_refused(snippet, name="Adam", given="fewer"):
    run = resumed(snippet, SAVED, ("groups",))
    said = "doesn't match the size of optimizer's group"
    with pytest.raises(ValueError, match=said):
        run.head.load_state_dict(torch.load(run.path)["optimizer"])
    with pytest.raises(ValueError, match="loaded state dict"):
        OPTIMIZERS[name](GIVEN[given]()).load_state_dict(trained_state(name))

    # The cure: load what was saved, and freeze afterwards.
    model, optimizer, _ = run.build()
    before = copy.deepcopy(model.state_dict())
    with no_error():
        optimizer.load_state_dict(torch.load(run.path)["optimizer"])
        model[0].requires_grad_(False)
        step(model, optimizer, torch.ones(5, 64))
    assert model[0].weight.equal(before["0.weight"])
    assert not model[3].weight.equal(before["3.weight"])


@pytest.mark.parametrize("name", ["Adam", "SGD", "SGD with momentum"])
@pytest.mark.parametrize("given", ["more", "fewer", "two groups"])
def test_other_parameters_are_refused__also_for(snippet, name, given):
    test_other_parameters_are_refused(snippet, name, given)


def test_other_parameters_are_refused__ends_for_as_many(snippet, fails):
    """With the same number of parameters in one group, the state loads."""
    fails(test_other_parameters_are_refused, snippet, "Adam", "as many")


@edits(
    ("the same", "build()[0][3].parameters", "build()[0].parameters"),
    (
        "the same number",
        "build()[0][3].parameters()",
        "torch.ones(4, 2).unbind()",
    ),
)
def test_other_parameters_are_refused__but_not(snippet, old, new, fails):
    """With as many parameters as the saved one, the optimizer loads."""
    fails(test_other_parameters_are_refused, snippet.edit(old, new))


def by_name(optimizer, state):
    """Load only what belongs to a parameter of the same shape."""
    shapes = [each.shape for each in optimizer.param_groups[0]["params"]]
    for shape, entry in zip(shapes, state["state"].values(), strict=True):
        if entry["exp_avg"].shape != shape:
            message = "the shapes differ"
            raise ValueError(message)
    optimizer.load_state_dict(state)


def test_state_goes_by_position(
    snippet, load=OPTIM.Adam.load_state_dict, named=False
):
    """No cell decides it: the optimizer itself hands out the state."""
    run = resumed(snippet, SAVED)
    saved = torch.load(run.path)["optimizer"]
    weights = list(run.build()[0].named_parameters())[::-1]
    optimizer = OPTIM.Adam(weights if named else [w for _, w in weights])
    with no_error():
        load(optimizer, saved)
    for number, (_, weight) in enumerate(weights):
        average = optimizer.state[weight]["exp_avg"]
        assert average is saved["state"][number]["exp_avg"]
    assert average.shape != weight.shape


def test_state_goes_by_position__also_with_named_parameters(snippet):
    test_state_goes_by_position(snippet, named=True)


def test_state_goes_by_position__ends_if_shapes_are_compared(snippet, fails):
    """A loading function of your own can compare the shapes, and raise."""
    fails(test_state_goes_by_position, snippet, by_name)


REFUSED = "RNG state must be a torch.ByteTensor"


def test_a_moved_state_is_refused(snippet):
    run = resumed(snippet, SAVED, "map")
    for refuses in (torch.set_rng_state, torch.Generator().set_state):
        with pytest.raises(TypeError, match=REFUSED):
            refuses(run.elsewhere["random"])
    with no_error():
        torch.set_rng_state(torch.load(run.path, map_location="cpu")["random"])


@pytest.mark.cuda
def test_a_moved_state_is_refused__also_on_cuda():
    state = torch.get_rng_state().cuda()
    for refuses in (torch.set_rng_state, torch.Generator().set_state):
        with pytest.raises(TypeError, match=REFUSED):
            refuses(state)


@edits(
    ("on the CPU", 'map_location="meta"', 'map_location="cpu"'),
    ("where it was", ', map_location="meta")', ")"),
)
def test_a_moved_state_is_refused__but_not(snippet, old, new, fails):
    """A state on the CPU is taken."""
    fails(test_a_moved_state_is_refused, snippet.edit(old, new))


class Noisy:
    """A dataset of eight samples that draws random numbers."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index + torch.rand(()).item()


def orders(samples, size, used, data=None, **options):
    """Return the order of an epoch, and those from two states of it."""
    generator = torch.Generator().manual_seed(samples)
    options |= {"shuffle": True, "generator": generator}
    loader = DataLoader(data or range(samples), size, **options)
    states = [generator.get_state()]
    batches = iter(loader)
    order = [next(batches).tolist() for _ in range(used)]
    states.append(generator.get_state())
    order += [batch.tolist() for batch in batches]
    again = []
    for state in states:
        generator.set_state(state)
        again.append([batch.tolist() for batch in loader])
    return order, again


def begun_anew(order, again, used):
    """Compare an epoch with those from before it and from its middle."""
    assert again[0] == order
    assert sorted(chain(*again[1])) == sorted(chain(*order))
    assert again[1] != order
    assert again[1][: len(order) - used] != order[used:]


def test_the_middle_begins_a_new_order(
    snippet, samples=8, size=2, used=3, data=None
):
    run = after(snippet, "digits", "middle")
    begun_anew(run.order, run.again, used=2)
    begun_anew(*orders(samples, size, used, data), used)


@pytest.mark.parametrize(
    ("samples", "size", "used"), [(30, 7, 2), (30, 7, 4), (100, 10, 1)]
)
def test_the_middle_begins_a_new_order__also_for(snippet, samples, size, used):
    test_the_middle_begins_a_new_order(snippet, samples, size, used)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_middle_begins_a_new_order__also_for_the_noise_of_workers():
    order, again = orders(8, 2, 3, Noisy(), num_workers=1)
    assert again[0] == order


def test_the_middle_begins_a_new_order__ends_with_noise(snippet, fails):
    """Without workers, a dataset that draws random numbers draws others the
    second time.
    """
    fails(test_the_middle_begins_a_new_order, snippet, 8, 2, 3, Noisy())


def test_the_middle_begins_a_new_order__ends_for_one_sample(snippet, fails):
    """A single sample has only one order."""
    fails(test_the_middle_begins_a_new_order, snippet, 1, 1, 1)


@edits(
    ("without shuffling", "range(8), 2, shuffle=True", "range(8), 2"),
    ("from another generator", "True, generator=generator)\nb", "True)\nb"),
    ("from before", "in (before, middle)", "in (before, before)"),
)
def test_the_middle_begins_a_new_order__but_not(snippet, old, new, fails):
    """Without shuffling there is one order; only the loader's own generator,
    from before the epoch, repeats it.
    """
    fails(test_the_middle_begins_a_new_order, snippet.edit(old, new))
