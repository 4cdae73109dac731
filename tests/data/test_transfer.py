"""The claims of docs/data/transfer.md."""

import re
import typing
from collections import OrderedDict, UserList, defaultdict, deque, namedtuple
from dataclasses import InitVar, dataclass, field, fields
from functools import reduce
from itertools import pairwise, product
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import no_error
from extensions.evidence.versions import true_since
from tests.helpers import worlds

without_accelerator = pytest.mark.skipif(
    torch.accelerator.is_available(), reason="an accelerator is here"
)
CHOICE = """\
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
"""
# As torch 2.13, a build for CUDA without a driver, and torch 2.6 say it.
NONE_HERE = "accelerator|Found no NVIDIA driver|pin_memory allocator"
SLOW_OR_NOT = (0, 0.5, 1, 2, 3, 4.5, 7)
Point = namedtuple("Point", ["x", "y"])


@dataclass(frozen=True, slots=True)
class Pair:
    """A class of two parts, and one that it makes by itself."""

    left: object
    right: object
    made: int = field(default=3, init=False)


def edits(**each):
    """Run a counter-example with each edit, named by its keyword."""
    names = [name.replace("_", " ") for name in each]
    return pytest.mark.parametrize(("old", "new"), each.values(), ids=names)


def pretend(monkeypatch, name):
    """Let PyTorch find an accelerator of a name; no name, none."""
    accelerator = torch.accelerator
    monkeypatch.setattr(accelerator, "is_available", lambda: bool(name))
    monkeypatch.setattr(
        accelerator,
        "current_accelerator",
        lambda *_, **__: torch.device(name) if name else None,
    )


# Do this


class Moving:
    """What has a ``to``, and says how it was called."""

    def to(self, *args, **kwargs):
        """Return the arguments."""
        return "moved", args, kwargs


class Watched(torch.Tensor):
    """A tensor that says how it was moved."""

    calls: typing.ClassVar = []

    def to(self, *args, **kwargs):
        """Move, and note the arguments."""
        Watched.calls.append((args, kwargs))
        return super().to(*args, **kwargs)


def nested(kind, part):
    """Return a batch in which a part stands in containers of a kind."""
    return {
        "dict": lambda: {"b": part, "a": {"c": part, 1: part}},
        "list": lambda: [part, [], [part, "text"]],
        "tuple": lambda: (part, (), (None, part)),
        "named tuple": lambda: Point(part, Point(3, part)),
        "dataclass": lambda: Pair(part, Pair([part], "text")),
        "deque": lambda: deque([part]),
        "SimpleNamespace": lambda: SimpleNamespace(x=part),
        "mixed": lambda: {"x": [(part, Point({"y": part}, [part])), part]},
        "deep": lambda: reduce(lambda inner, _: [(inner,)], range(30), part),
        "alone": lambda: part,
    }[kind]()


def same_but_moved(batch, moved):
    """Fail unless a batch is as it was, but for tensors, which moved."""
    assert type(moved) is type(batch)
    if isinstance(batch, torch.Tensor):
        assert moved.device == torch.device("meta")
        assert (moved.shape, moved.dtype) == (batch.shape, batch.dtype)
    elif isinstance(batch, dict):
        assert list(moved) == list(batch)
        for key, part in batch.items():
            same_but_moved(part, moved[key])
    elif isinstance(batch, (list, tuple)):
        assert len(moved) == len(batch)
        for part, its in zip(batch, moved, strict=True):
            same_but_moved(part, its)
    elif isinstance(batch, (deque, SimpleNamespace)):
        parts = [*getattr(moved, "__dict__", {0: moved}).values()]
        assert "meta" in repr(parts)
    elif isinstance(batch, Pair):
        for each in fields(batch):
            same_but_moved(
                getattr(batch, each.name), getattr(moved, each.name)
            )
    else:
        assert moved is batch


KINDS = ("dict", "list", "tuple", "named tuple", "dataclass", "mixed", "deep")
KINDS += ("alone",)


def test_move_reaches_every_part(snippet, kinds=KINDS, rest=None):
    move = snippet.after("move").move
    device = torch.device("meta")

    for kind, pinned in product(kinds, (True, False)):
        asked = ((device,), {"non_blocking": pinned})
        part = torch.ones(2, dtype=torch.int64).as_subclass(Watched)
        Watched.calls.clear()
        with no_error():
            moved = move(nested(kind, part), device, pinned)
        same_but_moved(nested(kind, part), moved)
        assert all(call == asked for call in Watched.calls)
        assert part.device.type == "cpu"
        assert move([Moving()], device, pinned) == [("moved", *asked)]
    with no_error():
        packed = move({"words": pack_sequence([torch.ones(3)])}, device, True)
    assert packed["words"].data.is_meta

    for each in ("text", b"bytes", "", 3, 2.5, 1j, True, None, rest):
        same_but_moved(
            [each, {"key": each}], move([each, {"key": each}], device, True)
        )
        assert move(each, device, True) is each


@pytest.mark.parametrize("rest", [{1, 2}, range(3), slice(3), object()])
def test_move_reaches_every_part__also_beside(snippet, rest):
    test_move_reaches_every_part(snippet, ("alone",), rest)


@pytest.mark.parametrize("kind", ["deque", "SimpleNamespace"])
def test_move_reaches_every_part__ends_in_a(snippet, kind, fails):
    """In a `deque` or a `SimpleNamespace`: `move` does not look into them."""
    fails(test_move_reaches_every_part, snippet, (kind,))


@worlds.each("tensor", worlds.TENSORS)
def test_move_reaches_every_part__also_for_a_tensor(snippet, tensor):
    move = snippet.after("move").move
    given = tensor()
    expected = given.to("meta")
    for moved in (move(given, "meta", True), *move([given], "meta", False)):
        assert moved.is_meta
        assert (moved.shape, moved.dtype) == (expected.shape, expected.dtype)
        assert moved.stride() == expected.stride()
        assert moved.requires_grad == expected.requires_grad


class Rows(list):
    """A list of another name."""


@dataclass
class Hidden:
    """A part that neither `repr` nor `==` looks at."""

    part: object = field(repr=False, compare=False)


@pytest.mark.parametrize(
    ("hold", "held"),
    [
        (lambda part: OrderedDict(x=part), lambda batch: batch["x"]),
        (lambda part: Rows([part]), lambda batch: batch[0]),
        (lambda part: ["day", part], lambda batch: batch[1]),
        (Hidden, lambda batch: batch.part),
    ],
    ids=[
        "an OrderedDict",
        "a subclass of list",
        "a list after a string",
        "a field without repr",
    ],
)
def test_move_reaches_every_part__also_in(snippet, hold, held):
    move = snippet.after("move").move

    assert held(move(hold(torch.ones(2)), "meta", True)).is_meta


def test_move_reaches_every_part__also_in_channels_last(snippet):
    move = snippet.after("move").move
    images = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)

    assert move([images], "meta", True)[0].stride() == images.stride()


def nests(snippet, batch):
    """Fail unless a batch is moved, and stays of its kind."""
    with no_error():
        moved = snippet.after("move").move(batch, "meta", False)
    same_but_moved(batch, moved)


def test_move_keeps_the_rest(snippet, batch=None):
    rest = ["text", b"bytes", "", 3, 2.5, True, None, {1, 2}, range(3)]
    for kind, part in product(KINDS, rest):
        nests(snippet, nested(kind, part))
    nests(snippet, {1: torch.ones(2), None: "x", ("a", 2): [3], "b": ()})
    if batch is not None:
        nests(snippet, batch)


@edits(
    the_rest=("    return batch\n", "    return str(batch)\n"),
    the_keys=("{key: move(part", "{str(key): move(part"),
    the_order=("in batch.items()}", "in reversed(batch.items())}"),
    the_kind_of_a_tuple=(
        "type(batch)(move(part, device, pinned) for part in batch)",
        "[move(part, device, pinned) for part in batch]",
    ),
)
def test_move_keeps_the_rest__but_not(snippet, old, new, fails):
    """Here, what is no tensor becomes text; the other edits change the keys,
    the order, or a tuple into a list.
    """
    fails(test_move_keeps_the_rest, snippet.edit(old, new))


@pytest.mark.parametrize("kind", [OrderedDict, defaultdict])
def test_move_keeps_the_rest__ends_for_other_dicts(snippet, kind, fails):
    """For other dicts, such as an `OrderedDict`: a plain `dict` comes back."""
    batch = kind()
    batch["a"] = 1
    fails(test_move_keeps_the_rest, snippet, batch)


class Moved(deque):
    """A ``deque`` that knows how to move."""

    def to(self, device, **options):
        """Move all parts."""
        return Moved(part.to(device, **options) for part in self)


@dataclass
class Photo:
    """A photo that scales its own pixels."""

    pixels: torch.Tensor

    def __post_init__(self):
        """Scale the pixels."""
        self.pixels = self.pixels / 255


@dataclass(frozen=True)
class FrozenPhoto:
    """A photo that nobody can change, once it is made."""

    pixels: torch.Tensor

    def __post_init__(self):
        """Scale the pixels."""
        object.__setattr__(self, "pixels", self.pixels / 255)


@dataclass(frozen=True, slots=True)
class SlottedPhoto(FrozenPhoto):
    """A frozen photo with another field, in a slot."""

    mask: torch.Tensor = field(
        default_factory=lambda: torch.ones(2), init=False
    )


@dataclass
class CountedPhoto(Photo):
    """A photo with a field that it makes by itself, and keeps."""

    seen: torch.Tensor = field(init=False)

    def __post_init__(self):
        """Nobody has seen it yet."""
        super().__post_init__()
        self.seen = torch.zeros(())


@dataclass
class NotedPhoto(Photo):
    """A photo that keeps a tensor that is no field."""

    def __post_init__(self):
        """Note the mean, as it is now."""
        self.mean = self.pixels.mean()


@dataclass
class DividedPhoto:
    """A photo whose divisor is known only while it is made."""

    pixels: torch.Tensor
    by: InitVar[float]

    def __post_init__(self, by):
        """Scale the pixels."""
        self.pixels = self.pixels / by


def seen_photo(pixels):
    """Return a photo that was seen since it was made."""
    photo = CountedPhoto(pixels)
    photo.seen += 1
    return photo


def noted_photo(pixels):
    """Return a photo that was changed since it was made."""
    photo = NotedPhoto(pixels)
    photo.pixels = photo.pixels / 255
    return photo


def tensors_of(photo):
    """Return all tensors of a photo, by name."""
    names = {each.name for each in fields(photo)}
    names |= getattr(photo, "__dict__", {}).keys()
    return {name: getattr(photo, name) for name in sorted(names)}


def test_a_dataclass_is_not_built_again(snippet, make=Photo):
    move = snippet.after("move").move
    photo = make(torch.tensor([255.0, 51.0]))
    before = tensors_of(photo)
    assert before["pixels"].tolist() == pytest.approx([1, 0.2])

    with no_error():
        (here,) = move([photo], "cpu", False)
        (there,) = move([photo], "meta", False)

    for moved in (here, there):
        assert type(moved) is type(photo)
        assert moved is not photo
        assert tensors_of(moved).keys() == before.keys()
    numbers = {name: part.tolist() for name, part in before.items()}
    for each in (here, photo):
        found = {
            name: part.tolist() for name, part in tensors_of(each).items()
        }
        assert found == numbers
    assert all(part.is_meta for part in tensors_of(there).values())


@pytest.mark.parametrize(
    "make",
    [
        FrozenPhoto,
        SlottedPhoto,
        seen_photo,
        noted_photo,
        lambda pixels: DividedPhoto(pixels, 255),
    ],
    ids=[
        "if it is frozen",
        "with slots",
        "with a field that init leaves out",
        "with a tensor that is no field",
        "with an InitVar",
    ],
)
def test_a_dataclass_is_not_built_again__also(snippet, make):
    test_a_dataclass_is_not_built_again(snippet, make)


SET = "object.__setattr__(moved, name, part)"


@edits(
    by_replace=(SET, "moved = dataclasses.replace(moved, **{name: part})"),
    without_a_copy=("moved = copy.copy(batch)", "moved = batch"),
)
def test_a_dataclass_is_not_built_again__but_not(snippet, old, new, fails):
    """`dataclasses.replace` runs `__post_init__` again; without a copy, your
    own object moves.
    """
    fails(test_a_dataclass_is_not_built_again, snippet.edit(old, new))


def test_a_dataclass_is_not_built_again__but_not_with_setattr(snippet, fails):
    """A plain `setattr` raises an error if the dataclass is frozen."""
    edited = snippet.edit(SET, "setattr(moved, name, part)")
    fails(test_a_dataclass_is_not_built_again, edited, FrozenPhoto)


def test_a_dataclass_is_not_built_again__but_not_of_fields_alone(
    snippet, fails
):
    """If `move` looks at fields alone, a tensor that `__post_init__` keeps
    elsewhere stays behind.
    """
    old = 'names.union(getattr(batch, "__dict__", ()))'
    edited = snippet.edit(old, "names")
    fails(test_a_dataclass_is_not_built_again, edited, noted_photo)


def test_other_containers_stay(snippet, kind=deque):
    part = torch.ones(2)
    batch = (
        SimpleNamespace(a=part) if kind is SimpleNamespace else kind([part])
    )
    with no_error():
        moved = snippet.after("move").move({"x": batch}, "meta", False)["x"]

    assert moved is batch
    assert part.device.type == "cpu"


def test_other_containers_stay__but_not_if_move_knows_it(snippet, fails):
    """If `move` takes whatever has a length for a list, it moves the
    `deque`.
    """
    edited = snippet.edit(
        "    if isinstance(batch, (list, tuple)):",
        '    if hasattr(batch, "__len__"):',
    )
    fails(test_other_containers_stay, edited)


@pytest.mark.parametrize("kind", [SimpleNamespace, UserList])
def test_other_containers_stay__also_a(snippet, kind):
    test_other_containers_stay(snippet, kind)


def test_other_containers_stay__ends_with_a_method_to(snippet, fails):
    """For a container with a method `to` of its own: it is moved."""
    fails(test_other_containers_stay, snippet, Moved)


@edits(
    a_dataclass=("dataclasses.is_dataclass(batch)", "False"),
    a_tensor=("    if hasattr(batch, ", "    if not hasattr(batch, "),
    without_waiting=("device, non_blocking=pinned)", "device)"),
    with_waiting=("non_blocking=pinned", "non_blocking=True"),
    without_waiting_for_a_dict=(
        "{key: move(part, device, pinned) for",
        "{key: move(part, device, False) for",
    ),
    without_waiting_for_a_list=(
        "type(batch)(move(part, device, pinned) for",
        "type(batch)(move(part, device, False) for",
    ),
    without_waiting_for_a_named_tuple=(
        "(*(move(part, device, pinned) for",
        "(*(move(part, device, False) for",
    ),
    a_dict=("isinstance(batch, dict)", "False"),
    a_list=(
        "isinstance(batch, (list, tuple))",
        "isinstance(batch, tuple)",
    ),
    the_kind_of_a_tuple=(
        "type(batch)(move(part, device, pinned) for part in batch)",
        "[move(part, device, pinned) for part in batch]",
    ),
    a_named_tuple=("isinstance(batch, tuple) and", "False and"),
    the_kind_of_a_named_tuple=(
        "type(batch)(*(move(part, device, pinned) for part in batch))",
        "tuple(move(part, device, pinned) for part in batch)",
    ),
    the_keys=("{key: move(part", "{str(key): move(part"),
    the_order=("in batch.items()}", "in reversed(batch.items())}"),
    what_is_deep=(
        "{key: move(part, device, pinned) for",
        "{key: part.to(device) if hasattr(part, 'to') else part for",
    ),
    other_classes=('hasattr(batch, "to")', "isinstance(batch, torch.Tensor)"),
    the_rest=("    return batch\n", "    return str(batch)\n"),
)
def test_move_reaches_every_part__but_not(snippet, old, new, fails):
    """Without this branch, a dataclass stays where it is; the others drop
    another kind, or change what is kept or waited for.
    """
    fails(test_move_reaches_every_part, snippet.edit(old, new))


def test_move_reaches_every_part__but_not_a_tuple(snippet, fails):
    """Without `tuple` in this line, what is in a tuple stays."""
    edited = snippet.edit(
        "isinstance(batch, (list, tuple))", "isinstance(batch, list)"
    )
    fails(test_move_reaches_every_part, edited)


@pytest.mark.simulates("an accelerator")
def test_pins_where_it_helps(snippet, monkeypatch):
    for found in ("cuda", "cuda:1", "cuda:7", "xpu", "mtia", "hpu", "mps", ""):
        pins = found not in ("mps", "")
        pretend(monkeypatch, found)
        run = snippet.after("choose")
        assert run.device == torch.device(found or "cpu")
        assert run.pin is pins
        assert run.loader.pin_memory is pins


@edits(
    on_the_cpu=('not in ("cpu", "mps")', 'not in ("mps",)'),
    on_mps=('not in ("cpu", "mps")', '!= "cpu"'),
    on_cuda=('not in ("cpu", "mps")', 'in ("xpu",)'),
    on_others=('not in ("cpu", "mps")', 'in ("cuda",)'),
    always=('pin = device.type not in ("cpu", "mps")', "pin = True"),
    unless_the_loader_is_told=("shuffle=True, pin_memory=pin", "shuffle=True"),
)
def test_pins_where_it_helps__but_not(snippet, monkeypatch, old, new, fails):
    """Without `"cpu"` in this list, it pins on the CPU, too; the others pin
    elsewhere, too seldom, or not in the loader.
    """
    fails(test_pins_where_it_helps, snippet.edit(old, new), monkeypatch)


@pytest.mark.simulates("an accelerator")
def test_the_loop_stays_on_the_device(snippet):
    start = snippet.after("choose")
    assert [photo["kind"] for photo in start.photos] == [0, 1] * 6
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2)).to(start.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, files = [], []
    for batch in start.loader:
        pixels, kind = (
            batch[key].to(start.device) for key in batch if key != "file"
        )
        loss = F.cross_entropy(model(pixels), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        files += batch["file"]
    assert len(losses) == 3
    names = [photo["file"] for photo in start.photos]
    assert sorted(files) == sorted(names)
    assert files != names
    again = [name for batch in start.loader for name in batch["file"]]
    assert again not in (files, names)

    on_meta = snippet.edit(CHOICE, '    torch.device("meta")\n')
    on_meta = on_meta.edit(", pin_memory=pin", "")
    for program in (snippet, on_meta):
        # `print` of a tensor reads numbers without an error on `meta`.
        with no_error(), patch.object(torch.Tensor, "__repr__", None):
            run = program.after("train")
        found = [run.batch["pixels"], run.batch["kind"], run.loss, run.total]
        found += run.model.parameters()
        assert {each.device.type for each in found} == {run.device.type}
        assert not run.total.requires_grad
    assert run.device.type == "meta"

    run = snippet.after("read-once")
    assert run.total.item() == pytest.approx(sum(losses), rel=1e-5)
    for each, mine in zip(
        run.model.parameters(), model.parameters(), strict=True
    ):
        torch.testing.assert_close(each, mine)


@pytest.mark.simulates("an accelerator")
def moved_by(program):
    """Run the loop; return it, and `non_blocking` of each move of a tensor."""
    asked, to = [], torch.Tensor.to

    def noting(tensor, *args, **options):
        if len(args) == 1 and isinstance(args[0], torch.device):
            asked.append(options.get("non_blocking", False))
        return to(tensor, *args, **options)

    with patch.object(torch.Tensor, "to", noting):
        return program.after("train"), asked


def test_the_loop_waits_unless_pinned(snippet):
    on_meta = snippet.edit(CHOICE, '    torch.device("meta")\n')
    on_meta = on_meta.edit(", pin_memory=pin", "")
    unpinned = on_meta.edit('("cpu", "mps")', '("cpu", "meta")')
    for program, pinned in (
        (snippet, None),
        (on_meta, True),
        (unpinned, False),
    ):
        run, asked = moved_by(program)
        assert asked == [run.pin] * 2 * len(run.loader)
        assert run.pin is pinned or pinned is None


@edits(
    if_it_never_waits=(
        "move(batch, device, pin)",
        "move(batch, device, True)",
    ),
    if_it_always_waits=(
        "move(batch, device, pin)",
        "move(batch, device, False)",
    ),
    if_move_never_waits=("non_blocking=pinned)", "non_blocking=True)"),
    if_move_always_waits=(", non_blocking=pinned)", ")"),
)
def test_the_loop_waits_unless_pinned__but_not(snippet, old, new, fails):
    """With `True` it never waits, pinned or not; the other edits wait always,
    or never.
    """
    fails(test_the_loop_waits_unless_pinned, snippet.edit(old, new))


@edits(
    the_model=("nn.Linear(192, 2)).to(device)", "nn.Linear(192, 2))"),
    the_batch=("move(batch, device, pin)", "move(batch, 'cpu', pin)"),
    the_kinds=(
        "batch = move(batch, device, pin)",
        'batch = {**move(batch, device, pin), "kind": batch["kind"]}',
    ),
    the_total=("torch.zeros((), device=device)", "torch.zeros(())"),
    the_loss=(
        "    total += loss.detach()",
        "    total += loss.detach()\n    loss = torch.empty(0)",
    ),
    without_the_graphs=("total += loss.detach()", "total = total + loss"),
    if_only_the_last_counts=(
        "total += loss.detach()",
        "total = loss.detach()",
    ),
    without_a_step=("    optimizer.step()\n", ""),
    in_a_random_order=("batch_size=4, shuffle=True", "batch_size=4"),
    with_old_gradients=("    optimizer.zero_grad()\n", ""),
    for_some_batches=("for batch in loader:", "for batch in [*loader][:2]:"),
)
def test_the_loop_stays_on_the_device__but_not(snippet, old, new, fails):
    """Here, only the last loss counts; the other edits change the training,
    too, or leave a part on the CPU.
    """
    fails(test_the_loop_stays_on_the_device, snippet.edit(old, new))


# How it works


def lanes(rows):
    """Return the rows of a schedule by what they are, checked by its rules."""
    found = {what: [] for what in ("host", "copy", "step")}
    for what, batch, start, end in rows:
        assert batch == len(found[what])
        found[what].append((start, end))
    return found["host"], found["copy"], found["step"]


def follows(rows, host, copy, step, waits, batches):
    """Fail unless a schedule follows the rules of the page."""
    hosts, copies, steps = lanes(rows)
    for each, length in ((hosts, host), (copies, copy), (steps, step)):
        assert len(each) == batches
        assert all(end - start == length for start, end in each)
    for batch in range(batches):
        free = steps[batch - 1][1] if batch else 0
        assert copies[batch][0] == max(hosts[batch][1], free)
        assert steps[batch][0] == copies[batch][1]
    goes_on = copies if waits else hosts
    assert hosts[0][0] == 0
    for (start, _), (_, before) in zip(hosts[1:], goes_on[:-1], strict=True):
        assert start == before
    return [end for _, end in steps]


def test_a_wait_adds_the_copy(snippet):
    run = snippet.after("schedules")

    assert len(run.schedules) == 2
    for name, rows in run.schedules.items():
        waits = name.startswith("to(device)")
        assert waits is ("non_blocking=True" not in name)
        ends = follows(rows, 5, 2, 3, waits, 4)
        takes = {later - end for end, later in pairwise(ends)}
        assert takes == {7 if waits else 5}
    for host, copy, step in product(SLOW_OR_NOT, repeat=3):
        for waits, batches in product((True, False), (2, 5, 12)):
            rows = run.schedule(host, copy, step, waits, batches)
            ends = follows(rows, host, copy, step, waits, batches)
            waiting, going_on = max(host, step) + copy, max(host, copy + step)
            for end, later in pairwise(ends):
                assert later - end == (waiting if waits else going_on)


def test_a_wait_adds_the_copy__but_not_if_the_host_never_waits(snippet, fails):
    """A host that never waits prepares the next batch during copy and step: 5
    units a batch instead of 7.
    """
    edited = snippet.edit(
        "host_free = arrived if waits else asked", "host_free = asked"
    )
    fails(test_a_wait_adds_the_copy, edited)


@edits(
    if_the_host_always_waits=("arrived if waits else asked", "arrived"),
    if_the_host_waits_for_the_step=(
        "arrived if waits",
        "device_free if waits",
    ),
    if_the_copy_runs_beside_the_step=("max(asked, device_free)", "asked"),
    if_the_step_waits_for_nothing=(
        "start + copy, start + copy + step",
        "start + copy, start + step",
    ),
    with_a_slower_host=(
        "schedule(5, 2, 3, waits=True)",
        "schedule(6, 2, 3, waits=True)",
    ),
    if_the_other_waits=(
        "schedule(5, 2, 3, waits=True)",
        "schedule(5, 2, 3, waits=False)",
    ),
    with_a_longer_copy=(
        "schedule(5, 2, 3, waits=False)",
        "schedule(5, 4, 3, waits=False)",
    ),
)
def test_a_wait_adds_the_copy__but_not(snippet, old, new, fails):
    """Under other rules, or with a slower host or a longer copy, a batch takes
    another time.
    """
    fails(test_a_wait_adds_the_copy, snippet.edit(old, new))


def test_a_waiting_host_loads_nothing(snippet):
    run = snippet.after("schedules")
    shown = [run.schedule(5, 2, 3, waits) for waits in (True, False)]

    assert [*run.schedules.values()] == shown
    for host, copy, step in product(SLOW_OR_NOT, repeat=3):
        for waits in (True, False):
            rows = run.schedule(host, copy, step, waits)
            hosts, copies, _ = lanes(rows)
            assert len(hosts) == 4
            for batch, (start, end) in enumerate(hosts[1:]):
                goes_on = copies[batch][1] if waits else hosts[batch][1]
                assert start == goes_on
                assert end - start == host


@edits(
    if_it_never_waits=("arrived if waits else asked", "asked"),
    if_it_always_waits=("arrived if waits else asked", "arrived"),
    if_it_waits_for_its_turn_alone=("arrived if waits", "start if waits"),
)
def test_a_waiting_host_loads_nothing__but_not(snippet, old, new, fails):
    """The host waits until its batch has arrived: not less, not always, and
    not only for its turn.
    """
    fails(test_a_waiting_host_loads_nothing, snippet.edit(old, new))


def test_a_fast_host_saves_nothing(snippet):
    schedule = snippet.after("schedule").schedule

    for host, copy, step in product(SLOW_OR_NOT, repeat=3):
        for batches in (1, 2, 5):
            waiting, going_on = (
                max(
                    end
                    for *_, end in schedule(host, copy, step, waits, batches)
                )
                for waits in (True, False)
            )
            assert 0 <= waiting - going_on <= copy * batches
            if host <= step:
                assert waiting == going_on
    saved = [
        max(end for *_, end in schedule(9, 2, 3, waits))
        for waits in (True, False)
    ]
    assert saved[0] - saved[1] == 2 * 3  # of four batches, all but the first


@edits(
    if_the_host_waits_for_the_step=(
        "arrived if waits",
        "device_free if waits",
    ),
    if_the_copy_is_free_of_the_step=("max(asked, device_free)", "asked"),
)
def test_a_fast_host_saves_nothing__but_not(snippet, old, new, fails):
    """If the host waited for the step, or copies ran beside it, not waiting
    would save another time.
    """
    fails(test_a_fast_host_saves_nothing, snippet.edit(old, new))


# Without an accelerator


@true_since("2.7", "the loader warned of nothing")
@without_accelerator
def test_a_pinning_loader_only_warns(snippet):
    run = snippet.after("pinning-loader")
    assert len(run.caught) == 1
    assert "no accelerator is found" in str(run.caught[0].message)
    pixels = torch.stack([photo["pixels"] for photo in run.photos[:4]])
    assert run.first["pixels"].equal(pixels)
    assert not run.first["pixels"].is_pinned()
    assert run.first["kind"].equal(torch.tensor([0, 1, 0, 1]))
    assert run.first["kind"].dtype == torch.int64
    assert run.first["file"] == [photo["file"] for photo in run.photos[:4]]

    for workers, data in product((0, 1), (torch.arange(4.0), [(1, "a")] * 4)):
        loader = DataLoader(data, 2, pin_memory=True, num_workers=workers)
        plain = list(DataLoader(data, 2))
        with pytest.warns(UserWarning, match="no accelerator is found"):
            read = list(loader)
        assert str(read) == str(plain)
        assert not any(
            part.is_pinned()
            for batch in read
            for part in batch
            if isinstance(part, torch.Tensor)
        )


@without_accelerator
def test_a_pinning_loader_only_warns__but_not_unasked(snippet, fails):
    """Without `pin_memory=True`, nothing warns."""
    edited = snippet.edit("batch_size=4, pin_memory=True", "batch_size=4")
    fails(test_a_pinning_loader_only_warns, edited)


@without_accelerator
def test_a_pinning_loader_only_warns__but_not_before_it_is_read(
    snippet, fails
):
    """A loader that is made but not read does not warn."""
    edited = snippet.edit(
        "batch_size=4, pin_memory=True)))",
        "batch_size=4)))\n    DataLoader(photos, pin_memory=True)",
    )
    fails(test_a_pinning_loader_only_warns, edited)


@pytest.mark.simulates("an Apple GPU")
@true_since("2.7", "the loader warned of nothing")
def test_mps_pins_nothing(snippet, monkeypatch):
    pretend(monkeypatch, "mps")
    loader = snippet.edit(CHOICE, '    torch.device("cpu")\n')
    run = loader.after("pinning-loader")

    assert len(run.caught) == 1
    assert "not supported on MPS now" in str(run.caught[0].message)
    assert not run.first["pixels"].is_pinned()


def test_mps_pins_nothing__but_not_unasked(snippet, monkeypatch, fails):
    """Without `pin_memory=True`, nothing warns."""
    edited = snippet.edit("batch_size=4, pin_memory=True", "batch_size=4")
    fails(test_mps_pins_nothing, edited, monkeypatch)


@without_accelerator
def test_pinning_needs_an_accelerator(snippet):
    run = snippet.after("no-accelerator")
    for said in (run.method, run.argument):
        assert re.search(NONE_HERE, str(said))

    tensors = [run.photos[0]["pixels"], nn.Parameter(torch.ones(2))]
    tensors += [torch.ones(0), torch.eye(2).to_sparse(), torch.ones(4)[::2]]
    for dtype in (torch.float32, torch.int64, torch.bool):
        tensors.append(torch.ones(2, dtype=dtype))
        for shape in ((), (0,), (2, 3)):
            for make in (torch.ones, torch.empty):
                with pytest.raises(RuntimeError):
                    make(shape, dtype=dtype, pin_memory=True)
            with pytest.raises(RuntimeError):
                torch.tensor(1, dtype=dtype).expand(shape).pin_memory()
    for data in (1.0, [], [1, 2], [[True]]):
        with pytest.raises(RuntimeError):
            torch.tensor(data, pin_memory=True)
    for tensor in tensors:
        with pytest.raises(RuntimeError):
            tensor.pin_memory()


@without_accelerator
def test_pinning_needs_an_accelerator__but_not_on_meta(snippet, fails):
    """On `meta` there is no memory to pin, and nothing raises."""
    edited = snippet.edit(
        "torch.ones(3, pin_memory=True)",
        "torch.ones(3, pin_memory=True, device='meta')",
    )
    fails(test_pinning_needs_an_accelerator, edited)


@pytest.mark.cuda
def test_pinning_needs_an_accelerator__ends_with_one(snippet, fails):
    """With an accelerator: memory can be pinned."""
    fails(test_pinning_needs_an_accelerator, snippet)


def test_only_dense_cpu_tensors_are_pinned(snippet, device="meta"):
    run = snippet.after("pinned-elsewhere")
    said = "only dense CPU tensors can be pinned"
    assert said in str(run.elsewhere)

    dtypes = (torch.bfloat16, torch.float32, torch.int64, torch.complex64)
    dtypes += (torch.bool, torch.uint16, torch.float8_e4m3fn)
    for dtype, shape in product(dtypes, ((), (3,), (2, 0, 4))):
        tensor = torch.empty(shape, dtype=dtype, device=device)
        with pytest.raises(RuntimeError, match=f"cannot pin '.*' {said}"):
            tensor.pin_memory()


@pytest.mark.cuda
def test_only_dense_cpu_tensors_are_pinned__also_on_cuda(snippet):
    test_only_dense_cpu_tensors_are_pinned(snippet, "cuda")


def test_only_dense_cpu_tensors_are_pinned__but_not_on_the_cpu(snippet, fails):
    """On the CPU it is the accelerator that is missing, and the error says
    so.
    """
    edited = snippet.edit('torch.ones(3, device="meta")', "torch.ones(3)")
    fails(test_only_dense_cpu_tensors_are_pinned, edited)


# Where it ends


def test_nothing_to_do_copies_nothing(
    snippet, dtype=torch.int16, layout=torch.channels_last
):
    run = snippet.after("nothing-to-do")
    found = {name: each is run.pixels for name, each in run.given.items()}
    assert found == {
        "no device": True,
        "the same device": True,
        "copy=True": False,
    }
    for device, own in product(
        ("cpu", "meta"), (torch.float32, torch.int64, torch.bool)
    ):
        tensor = torch.ones(2, 3, 4, 4, dtype=own, device=device)
        for arguments in ((), (device,), (tensor.device,), (own,), (tensor,)):
            assert tensor.to(*arguments, non_blocking=True) is tensor
        for options in (
            {"copy": True},
            {"dtype": dtype},
            {"memory_format": layout},
        ):
            for arguments in ({}, {"device": device}):
                asked = arguments | options
                if asked == {"copy": True}:
                    asked |= {"dtype": own}
                new = tensor.to(**asked, non_blocking=True)
                assert new is not tensor
                assert new.device == tensor.device


@pytest.mark.cuda
def test_nothing_to_do_copies_nothing__also_on_cuda():
    tensor = torch.ones(3, device="cuda")

    for arguments in ((), ("cuda",), (tensor.device,), (torch.float32,)):
        assert tensor.to(*arguments, non_blocking=True) is tensor


@edits(
    with_another_device=('{"device": "cpu"}', '{"device": "meta"}'),
    if_a_device_is_given=(
        '"no device": {}',
        '"no device": {"device": "meta"}',
    ),
    if_no_copy_is_asked_for=('"copy": True', '"copy": False'),
)
def test_nothing_to_do_copies_nothing__but_not(snippet, old, new, fails):
    """Another device makes a new tensor; and without `copy=True`, you get the
    same one.
    """
    fails(test_nothing_to_do_copies_nothing, snippet.edit(old, new))


def test_nothing_to_do_copies_nothing__ends_with_its_own_dtype(snippet, fails):
    """If you ask for the dtype that it has: the tensor needs no copy."""
    fails(test_nothing_to_do_copies_nothing, snippet, torch.float32)


def test_nothing_to_do_copies_nothing__ends_with_its_own_format(
    snippet, fails
):
    """If you ask for the memory format that it has: the tensor needs no
    copy.
    """
    inputs = (torch.int16, torch.contiguous_format)
    fails(test_nothing_to_do_copies_nothing, snippet, *inputs)


# On CUDA


@pytest.mark.cuda
def test_pinned_copies_return_early(snippet):
    run = snippet.after("returns-early")

    expected = {"non_blocking": False, "blocking": True, "item": True}
    assert run.waited == expected


@pytest.mark.cuda
@edits(
    if_non_blocking_is_left_out=(
        'lambda: pinned.to("cuda", non_blocking=True)',
        'lambda: pinned.to("cuda")',
    ),
    if_the_others_do_not_wait=(
        'lambda: pinned.to("cuda"),',
        'lambda: pinned.to("cuda", non_blocking=True),',
    ),
    if_no_number_is_read=("there[0].item()", "there[0]"),
)
def test_pinned_copies_return_early__but_not(snippet, old, new, fails):
    """Only `non_blocking=True` returns early; a blocking copy waits, and
    without `item()` no number is read.
    """
    fails(test_pinned_copies_return_early, snippet.edit(old, new))


@pytest.mark.cuda
def test_a_changed_source_arrives_changed(snippet):
    assert snippet.after("changed-source").changed == 1


SENT = '    arrived = buffer.to("cuda", non_blocking=True)\n'


@pytest.mark.cuda
@edits(
    if_the_copy_blocks=(
        SENT + "    buffer.fill_(1)\n",
        "    arrived = buffer.to('cuda')\n    buffer.fill_(1)\n",
    ),
    once_the_copy_is_done=(
        "    buffer.fill_(1)\n",
        "    torch.cuda.synchronize()\n    buffer.fill_(1)\n",
    ),
)
def test_a_changed_source_arrives_changed__but_not(snippet, old, new, fails):
    """A copy that blocks, or is done already, has taken the old numbers."""
    fails(test_a_changed_source_arrives_changed, snippet.edit(old, new))


@pytest.mark.cuda
def test_a_new_source_is_safe(snippet):
    assert snippet.after("new-source").kept == 0


@pytest.mark.cuda
def test_a_new_source_is_safe__but_not_the_old_one(snippet, fails):
    """Written into the old tensor, the change does arrive."""
    edited = snippet.edit(
        "    del buffer\n    buffer = torch.ones(2**20, pin_memory=True)\n",
        "    buffer.fill_(1)\n",
    )
    fails(test_a_new_source_is_safe, edited)


@pytest.mark.cuda
def test_reading_early_reads_old_numbers(snippet):
    run = snippet.after("read-late")

    assert run.early == 0
    assert run.late == 1


@pytest.mark.cuda
@edits(
    if_the_copy_blocks=(
        "host.copy_(there, non_blocking=True)",
        "host.copy_(there)",
    ),
    if_nothing_is_copied=("    host.copy_(there, non_blocking=True)\n", ""),
    without_synchronize=("    torch.accelerator.synchronize()\n", ""),
)
def test_reading_early_reads_old_numbers__but_not(snippet, old, new, fails):
    """A copy that blocks has arrived at once; one that is not made, or not
    waited for, has not.
    """
    fails(test_reading_early_reads_old_numbers, snippet.edit(old, new))


@pytest.mark.cuda
def test_a_way_back_is_pinned(snippet):
    run = snippet.after("read-late")
    assert run.back.is_pinned()
    for dtype in (torch.int64, torch.bool, torch.float16):
        assert run.there.to(dtype).to("cpu", non_blocking=True).is_pinned()


@pytest.mark.cuda
def test_a_way_back_is_pinned__but_not_if_it_blocks(snippet, fails):
    """`cpu()` blocks, and gives ordinary memory."""
    edited = snippet.edit('there.to("cpu", non_blocking=True)', "there.cpu()")
    fails(test_a_way_back_is_pinned, edited)


@pytest.mark.cuda
def test_an_own_stream_overtakes(snippet):
    run = snippet.after("own-stream")

    assert run.overtook
    assert run.ahead.mean().item() == 1


@pytest.mark.cuda
@edits(
    if_nothing_is_copied=(
        "        ahead.copy_(pinned, non_blocking=True)\n",
        "",
    ),
    in_the_current_stream=(
        "    with torch.cuda.stream(side):\n",
        "    with torch.cuda.stream(torch.cuda.current_stream()):\n",
    ),
    if_it_is_told_to_wait=(
        "    with torch.cuda.stream(side):\n",
        "    side.wait_stream(torch.cuda.current_stream())\n"
        "    with torch.cuda.stream(side):\n",
    ),
)
def test_an_own_stream_overtakes__but_not(snippet, old, new, fails):
    """In the current stream, or told to wait for it, the copy comes later;
    without `copy_`, nothing arrives.
    """
    fails(test_an_own_stream_overtakes, snippet.edit(old, new))
