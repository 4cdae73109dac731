"""The claims of docs/memory/scope.md."""

import builtins
import functools
import gc
import os
import random
import subprocess
import sys
import warnings
import weakref
from importlib.util import find_spec

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import after

TRAINED = ("digits", "step")
LINES = ("digits", "by-hand", "ways", "compare")
EIGHT = ["a list", "a row", "an array", "a loss", "a closure", "a hook"]
EIGHT += ["a cache", "an error"]


@pytest.fixture(autouse=True, scope="module")
def first_step():
    """Take the first step of this process, which imports modules.

    Errors that they catch refer to the optimizer, until the collector runs.
    """
    weight = nn.Parameter(torch.ones(1))
    weight.sum().backward()
    torch.optim.Adam([weight]).step()
    gc.collect()


@pytest.fixture(autouse=True)
def own_session():
    """Leave no error and no shown value behind, and collect only if told.

    The collector looks at what the test makes alone, so that it takes little
    time.
    """
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    vars(builtins).pop("_", None)


def watch(tensor):
    """Return what sees the memory of a tensor and doesn't hold it."""
    return weakref.ref(tensor.untyped_storage())


def states(*memories):
    """Return whether the memory of each is held or free."""
    return ["free" if memory() is None else "held" for memory in memories]


# Do this


def test_a_function_lets_go(snippet, samples=5):
    run = after(snippet, *TRAINED)
    kinds = [type(loss) for loss in run.losses]
    assert kinds == [float] * len(run.loader)

    made, watched = [], []
    for layer in run.model:
        layer.register_forward_hook(lambda *a: made.append(watch(a[2])))
    images, labels = torch.rand(samples, 64), torch.arange(samples) % 10
    watched = [watch(images), watch(labels)]
    result = run.train_step(run.model, run.optimizer, images, labels)
    del images, labels
    assert len(made) == len(run.model)
    assert states(*made, *watched) == ["free"] * 5
    found = [each for each in gc.get_objects() if type(each) is torch.Tensor]
    assert [each for each in found if each.grad_fn is not None] == []
    assert type(result) is float


@pytest.mark.parametrize("samples", [0, 1])
def test_a_function_lets_go__also_with_samples(snippet, samples):
    test_a_function_lets_go(snippet, samples)


def test_a_function_lets_go__also_while_it_trains(snippet):
    """Its steps are those of the same lines written out."""
    run = after(snippet, *TRAINED)
    torch.manual_seed(0)
    model, optimizer = run.build()
    for (images, labels), loss in zip(run.loader, run.losses, strict=True):
        optimizer.zero_grad()
        expected = F.cross_entropy(model(images), labels)
        expected.backward()
        optimizer.step()
        assert loss == pytest.approx(expected.item(), rel=1e-4)
    assert run.losses[-1] < run.losses[0] / 1.5


BACK = "    loss.backward()\n    optimizer.step()\n    return"


@edits(
    ("return loss.item()  # a number", "return loss  # not"),
    (BACK, f"    model.last = labels\n{BACK}"),
    (BACK, f"    model.last = loss\n{BACK}"),
)
def test_a_function_lets_go__but_not(snippet, fails, old, new):
    """Returned, the loss stays alive; kept as `model.last`, the labels or the
    loss do.
    """
    fails(test_a_function_lets_go, snippet.edit(old, new))


def a_batch():
    """Return a batch of images."""
    return torch.rand(100, 64)


def test_del_frees_at_once(snippet, make=a_batch, beside=None):
    edited = snippet.edit(
        "= build()\n\n\n# %% step",
        "= build()\nseen = weakref.ref(model[0].weight.untyped_storage())\n"
        "# %% step",
    )
    edited = edited.edit(
        "gc.collect()  # o", "left = state(seen); gc.collect()  # o"
    )
    run = after(edited, *TRAINED, "free")
    assert run.left == "free"

    tensor = make()
    memory = watch(tensor)
    second, view, detached = tensor, tensor[..., :1], tensor.detach()
    other = beside(tensor) if beside else None
    del tensor
    found = states(memory)
    del second
    found += states(memory)
    del view
    found += states(memory)
    del detached
    assert [*found, *states(memory)] == ["held", "held", "held", "free"]
    del other


@pytest.mark.parametrize("shape", [(0,), (1,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bool])
def test_del_frees_at_once__also_of(snippet, shape, dtype):
    make = functools.partial(torch.zeros, shape, dtype=dtype)
    test_del_frees_at_once(snippet, make)


def on_meta():
    """Return a tensor of a device that is only simulated."""
    return torch.zeros(100, 64, device="meta")


def weight_with_gradient():
    """Return a parameter after `backward()`."""
    weight = nn.Parameter(torch.ones(9, 9))
    weight.sum().backward()
    return weight


@pytest.mark.parametrize("make", [on_meta, weight_with_gradient])
def test_del_frees_at_once__also_for(snippet, make):
    test_del_frees_at_once(snippet, make)


def as_array(tensor):
    """Return an array with the memory of a tensor."""
    return tensor.numpy()


def in_a_graph(tensor):
    """Return a result whose graph keeps a tensor."""
    return tensor * torch.ones(64, requires_grad=True)


@pytest.mark.parametrize("beside", [as_array, in_a_graph])
def test_del_frees_at_once__ends_with(snippet, fails, beside):
    """An array that `numpy()` made uses the same memory, and a graph refers to
    the tensors that `backward()` will need.
    """
    fails(test_del_frees_at_once, snippet, a_batch, beside)


@pytest.mark.cuda
def test_del_frees_at_once__also_on_cuda(snippet):
    run = after(snippet, "digits", "on-cuda")

    assert run.freed_at_once >= 2**30
    assert run.still_busy


@edits(
    ("the optimizer stays", "del model, optimizer  #", "del model  #"),
    (
        "a second name",
        "del model, optimizer  #",
        "old = model; del model, optimizer  #",
    ),
    (
        "a cycle",
        "del model, optimizer  #",
        "optimizer.me = optimizer; del model, optimizer  #",
    ),
)
def test_del_frees_at_once__but_not(snippet, fails, old, new):
    """The optimizer or a second name still refers to the weights; in a cycle,
    they wait for the collector.
    """
    fails(test_del_frees_at_once, snippet.edit(old, new))


# How it works


class Both:
    """A program in Python and in the lines of the page, side by side."""

    def __init__(self, run, seed):
        self.run, self.draw, self.made = run, random.Random(seed), 0
        run.holds.clear()
        run.holds["names"] = []
        self.things, self.ids, self.memories = {}, {}, {}
        self.saved = {}  # what each node keeps for backward
        self.node_of, self.memory_of, self.before = {}, {}, {}
        self.weight = torch.tensor(2.0, requires_grad=True)

    def new(self, kind):
        """Return a string for an object."""
        self.made += 1
        return f"{kind} {self.made}"

    def bind(self, name, thing, key, *pairs):
        """Give a name to an object, behind which are pairs that refer."""
        old, self.things[name] = self.things.get(name), thing
        del thing
        forgotten = self.ids.get(name)
        self.ids[name] = key
        self.run.hold("names", key)
        for pair in pairs:
            self.run.hold(*pair)
        del old
        if forgotten:
            self.run.drop("names", forgotten)

    def tensor(self, name):
        """Write `name = torch.rand(4)`."""
        thing, key, memory = (
            torch.rand(4),
            self.new("tensor"),
            self.new("memory"),
        )
        self.memories[memory] = watch(thing)
        self.memory_of[key] = memory
        self.bind(name, thing, key, (key, memory))

    def same(self, name, other):
        """Write `name = other`."""
        self.bind(name, self.things[other], self.ids[other])

    def listed(self, name, other):
        """Write `name = [other]`."""
        thing, key = [self.things[other]], self.new("list")
        self.bind(name, thing, key, (key, self.ids[other]))

    def append(self, name, other):
        """Write `name.append(other)`, if it is a list."""
        if isinstance(self.things[name], list):
            self.things[name].append(self.things[other])
            self.run.hold(self.ids[name], self.ids[other])

    def clear(self, name):
        """Write `name.clear()`, if it is a list."""
        if isinstance(self.things[name], list):
            self.things[name].clear()
            for each in [*self.run.holds[self.ids[name]]]:
                self.run.drop(self.ids[name], each)

    def derive(self, name, other):
        """Write such as `name = other[:2]`, if it is a tensor."""
        if isinstance(self.things[other], list):
            return
        functions = {
            (lambda tensor: tensor[:2]): True,
            torch.Tensor.detach: True,
            torch.clone: False,
            (lambda tensor: self.weight * tensor): False,
            (lambda tensor: tensor * self.weight): False,
        }
        function, shares = self.draw.choice([*functions.items()])
        thing, old = function(self.things[other]), self.ids[other]
        key, node = self.new("tensor"), self.new("node")
        memory = self.memory_of[old] if shares else self.new("memory")
        if not shares:
            self.memories[memory] = watch(thing)
        self.memory_of[key], pairs = memory, [(key, memory)]
        if thing.requires_grad:
            multiplies = thing.grad_fn.name() == "MulBackward0"
            saved = [self.memory_of[old]] if multiplies else []
            before = [self.node_of[old]] if old in self.node_of else []
            self.node_of[key] = node
            self.saved[node], self.before[node] = saved, before
            pairs += [(key, node), *((node, each) for each in saved + before)]
        self.bind(name, thing, key, *pairs)

    def backward(self, name):
        """Write `name.sum().backward()`, where that can be done."""
        reached = [self.node_of.get(self.ids[name])]
        if reached == [None]:
            return
        for node in reached:
            reached += [n for n in self.before[node] if n not in reached]
        if any(self.saved[node] is None for node in reached):
            return  # a second time is an error
        self.things[name].sum().backward()
        for node in reached:
            for each in self.saved[node]:
                self.run.drop(node, each)
            self.saved[node] = None

    def delete(self, name):
        """Write `del name`."""
        del self.things[name]
        self.run.drop("names", self.ids.pop(name))

    def collect(self, name):
        """Write `gc.collect()`."""
        gc.collect()
        self.run.collect()

    def step(self):
        """Run one statement, drawn at random."""
        names = [*self.things]
        if len(names) < 3 or self.draw.random() < 0.15:
            return self.tensor(self.draw.choice("abcdef"))
        name, other = self.draw.choice(names), self.draw.choice(names)
        if self.draw.random() < 0.3:
            one = [self.clear, self.backward, self.delete, self.collect]
            return self.draw.choice(one)(name)
        two = [self.same, self.listed, self.append, *[self.derive] * 4]
        return self.draw.choice(two)(name, other)

    def alive(self):
        """Return whose memory is there, in Python and in the lines."""
        python = [m for m, memory in self.memories.items() if memory()]
        return python, [m for m in self.memories if m in self.run.holds]


def test_these_lines_free_what_python_frees(snippet, seeds=range(12), ways=()):
    with no_error():
        run = after(snippet, *LINES)
    for keep, path in [*run.ways.values(), *ways]:
        assert run.in_our_lines(path) == run.in_python(keep)
    for seed in seeds:
        both = Both(run, seed)
        for _ in range(60):
            both.step()
            python, lines = both.alive()
            assert lines == python


def test_these_lines_free_what_python_frees__also_in_long_programs(snippet):
    test_these_lines_free_what_python_frees(snippet, range(100, 150))


def test_these_lines_free_what_python_frees__also_as_walked(snippet):
    run = after(snippet, "digits", "by-hand", "walk")
    assert run.holds == {"names": []}
    images = torch.rand(100, 64)
    memory, row = watch(images), images[0]
    del images
    assert memory().nbytes() == 25_600
    assert row.nbytes == 256
    del row
    assert memory() is None


@edits(
    ("1, once alone", "].append(thing)  # 1", "][:] = [thing]  # 1"),
    ("2, all of them", "].remove(thing)  # 2", "].clear()  # 2"),
    ("3, by names alone", "in holds.values()):", 'in [holds["names"]]):'),
    ("3, never", "    if not any(", "    if False and any("),
    ("4", "            drop(thing, each)  # 4", "            pass  # 4"),
    ("5", "if thing not in found]  # 5", "if False]  # 5"),
    ("no arrow to an array's memory", '"array memory"', '"array"'),
)
def test_these_lines_free_what_python_frees__but_not(snippet, fails, old, new):
    """Each numbered line counts; and if you forget an arrow, they free too
    early.
    """
    fails(test_these_lines_free_what_python_frees, snippet.edit(old, new))


class Busy:
    """What makes many objects when it goes."""

    def __del__(self):
        """Let the collector start by itself."""
        gc.enable()
        made = [[] for _ in range(10_000)]
        gc.disable()
        made.clear()


def test_these_lines_free_what_python_frees__ends_for_the_collector(
    snippet, fails
):
    """Python's collector also starts by itself, when a program makes many
    objects; ours only if you call it.
    """
    cycle = after(snippet, *LINES).cycle
    way = (
        lambda images: [Busy(), cycle(images)],
        "list model trainer model images",
    )
    fails(test_these_lines_free_what_python_frees, snippet, (), [way])


def leaking(images):
    """Return a weight whose gradient has a graph that leads to it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = images.requires_grad_().square().sum()
        loss.backward(create_graph=True)
    return images


def test_these_lines_free_what_python_frees__ends_for_graphs(snippet, fails):
    """Python's collector doesn't see a cycle that leads through a graph."""
    way = leaking, "images gradient node images"
    fails(test_these_lines_free_what_python_frees, snippet, (), [way])


def test_a_holder_keeps_the_tensor(snippet):
    run = after(snippet, *LINES)
    states = {n: run.in_python(keep) for n, (keep, _) in run.ways.items()}
    free, held = "free", "held"

    assert states.pop("a number") == [free, free, free]
    assert states.pop("a cycle") == [held, held, free]
    assert states == {name: [held, free, free] for name in EIGHT}
    kept = {name: run.ways[name][0](torch.rand(3, 64)) for name in EIGHT}
    gc.collect()
    assert kept["a list"][0].shape == (3, 64)
    assert kept["a closure"]().shape == (3, 64)


@edits(
    ('[images], "list', '[0], "list'),
    (
        '"a loss": (lambda images: (images @ weight).sum()',
        '"a loss": (lambda images: (images @ weight).sum().detach()',
    ),
    ("lambda images: lambda: images", "lambda images: lambda images: images"),
    ("(lambda *_: images)", "(lambda *_: images).remove()"),
    ("    mean(images)\n", "    mean(images)\n    mean.cache_clear()\n"),
    ("return error\n", "return error.with_traceback(None)\n"),
    ("model.trainer, trainer.model = trainer, model", "model.me = trainer"),
)
def test_a_holder_keeps_the_tensor__but_not(snippet, fails, old, new):
    """Here one of them does not hold the images, such as the list `[0]`, or
    is no cycle.
    """
    fails(test_a_holder_keeps_the_tensor, snippet.edit(old, new))


def test_a_holder_keeps_the_tensor__but_not_a_copied_row(snippet, fails):
    """A copied row has memory of its own, so the images are freed."""
    edited = snippet.edit("images[0], ", "images[0].clone(), ")
    fails(test_a_holder_keeps_the_tensor, edited)


def unhooked(run, images):
    """Remove a hook that uses the images."""
    layer = nn.Linear(1, 1)
    layer.register_forward_hook(lambda *_: images).remove()
    return layer


def cache_of(kind):
    """Return a way that clears a cache."""

    def holder(run, images):
        mean = kind(torch.mean)
        mean(images)
        mean.cache_clear()
        return mean

    return holder


def cleared(run, images):
    """Clear a list and a dict."""
    both = [images], {"last": images}
    for each in both:
        each.clear()
    return both


def handed_over(run, images):
    """Pass the images as an argument."""

    def mean(images):
        return images.mean()

    mean(images)
    return mean


def handled(run, images):
    """Leave an `except` block, with the text of the error."""
    try:
        raise ValueError("no labels")
    except ValueError as error:
        return str(error)


def under_no_grad(run, images):
    """Compute the loss without a graph."""
    with torch.no_grad():
        return run.ways["a loss"][0](images)


LET_GO = {
    "a list of numbers": lambda run, images: [images.mean().item()],
    "a cleared list and dict": cleared,
    "a copied row": lambda run, images: images[0].detach().clone(),
    "a copied row of an output": lambda run, images: (
        (images * run.weight)[0].detach().clone()
    ),
    "a copied array": lambda run, images: images.numpy().copy(),
    "item()": lambda run, images: run.ways["a loss"][0](images).item(),
    "detach()": lambda run, images: run.ways["a loss"][0](images).detach(),
    "no_grad()": under_no_grad,
    "an argument": handed_over,
    "a removed hook": unhooked,
    "a cleared cache": cache_of(functools.cache),
    "a cleared lru_cache": cache_of(functools.lru_cache),
    "a handled error": handled,
}


def test_each_way_lets_go(snippet, ways=LET_GO):
    run = after(snippet, *LINES)
    states = {}
    for name, way in ways.items():
        images = torch.rand(3, 64)
        memory = watch(images)
        holder = way(run, images)
        del images
        states[name] = run.state(memory)
        assert holder is not None
    assert states == dict.fromkeys(ways, "free")


def test_each_way_lets_go__but_not_of_the_images_themselves(snippet, fails):
    """If the result is the images themselves, `detach()` shares their
    memory.
    """
    old = '"a loss": (lambda images: (images @ weight).sum()'
    edited = snippet.edit(old, '"a loss": (lambda images: images')
    ways = {"detach()": LET_GO["detach()"]}
    fails(test_each_way_lets_go, edited, ways)


def test_each_way_lets_go__ends_for_a_row_with_a_graph(snippet, fails):
    """A row of an output that is copied without `detach()` has a graph, which
    refers to the images.
    """
    way = {"a row": lambda run, images: (images * run.weight)[0].clone()}
    fails(test_each_way_lets_go, snippet, way)


@pytest.mark.parametrize("name", EIGHT)
def test_each_way_lets_go__ends_if_held_by(snippet, fails, name):
    """If it is still held, by a list, a graph or any other of the eight: the
    images are not freed.
    """
    holds = {name: lambda run, images: run.ways[name][0](images)}
    fails(test_each_way_lets_go, snippet, holds)


# Find who holds it


def rows_with(rows, *shape):
    """Return the rows that list a tensor of some shape."""
    return [row for row in rows if shape in row]


def test_a_mask_is_not_listed(snippet, shape=(37, 41), operation=F.dropout):
    """No cell decides who refers to a tensor: Python's collector, which `gc`
    shows, does not look into graphs.
    """
    run = after(snippet, "digits", "live", "mask")
    assert [len(row) for row in run.listed] == [4, 3]
    assert run.dropped.grad_fn._saved_other.nbytes == run.images.nbytes

    images = torch.ones(shape, requires_grad=True)
    dropped = operation(images)
    assert len(rows_with(run.live_tensors(), *shape)) == 2
    assert dropped.grad_fn._saved_other.nbytes == images.nbytes
    names = {"images": torch.ones(shape)}
    memory = watch(names["images"])
    weight = torch.ones(shape, requires_grad=True)
    result = names["images"] * weight
    assert gc.get_referrers(names["images"]) == [names]
    names.clear()
    found = states(memory)
    del result
    assert [*found, *states(memory)] == ["held", "free"]


@pytest.mark.parametrize("shape", [(1,), (7, 11, 13), (1, 2, 3, 5)])
def test_a_mask_is_not_listed__also_of(snippet, shape):
    test_a_mask_is_not_listed(snippet, shape)


def test_a_mask_is_not_listed__also_where_the_rest_is(snippet):
    """Views share a row; sparse tensors and those of `meta` raise nothing."""
    run = after(snippet, "digits", "live")
    images = torch.zeros(37, 41, dtype=torch.float16)
    views = [images[5], images.T, images.detach()]
    weight = nn.Parameter(torch.zeros(43, 47))
    with warnings.catch_warnings(action="ignore"):
        others = [torch.eye(83).to_sparse(), torch.eye(81).to_sparse_csr()]
        others += [torch.nested.nested_tensor([torch.ones(2)])]
    others += [torch.empty(53, 53, device="meta"), torch.zeros(0, 9)]
    others += [torch.empty(51, 51, device="meta")]
    others += [Mine(79, 79)]
    with no_error():
        rows = run.live_tensors()
    (row,) = rows_with(rows, 37, 41)
    assert row[:2] == [images.nbytes, "cpu"]
    shapes = [tuple(each.shape) for each in (images, *views)]
    assert sorted(row[2:]) == sorted(shapes)
    assert rows_with(rows, 43, 47) == [[weight.nbytes, "cpu", (43, 47)]]
    sizes = [row[0] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    missing = [rows_with(rows, n, n) for n in (83, 81, 79)]
    assert missing == [[], [], []]
    assert rows_with(rows, 53, 53) == rows_with(rows, 51, 51) != []
    assert len(others) == 7


class Mine(torch.Tensor):
    """A class of tensors of your own."""


def by_hand(weight):
    """Read a gradient."""
    weight.data -= 0.1 * weight.grad


def by(optimizer, **options):
    """Return a step of an optimizer."""
    return lambda weight: optimizer([weight], lr=0.1, **options).step()


def test_an_unread_gradient_is_not_listed(snippet, step=by_hand):
    run = after(snippet, "digits", "live")
    weight = nn.Parameter(torch.ones(43, 47))
    weight.square().sum().backward()

    row = [weight.nbytes, "cpu", (43, 47)]
    assert rows_with(run.live_tensors(), 43, 47) == [row]
    step(weight)
    gc.collect()  # an optimizer has memory, too
    assert rows_with(run.live_tensors(), 43, 47) == [row, row]
    assert weight.grad.data_ptr() != weight.data_ptr()


OPTIMIZERS = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["foreach", "fused"])
def test_an_unread_gradient_is_not_listed__also_by(snippet, optimizer, kind):
    test_an_unread_gradient_is_not_listed(
        snippet, by(optimizer, **{kind: True})
    )


def test_an_unread_gradient_is_not_listed__but_not_if_the_list_reads_it(
    snippet, fails
):
    """Here the list reads the gradient of each parameter that it finds."""
    edited = snippet.edit(
        "    for each in gc.get_objects():\n",
        "    weights = [p for p in gc.get_objects() if isinstance(p, "
        "nn.Parameter)]\n    grads = [p.grad for p in weights]\n"
        "    for each in gc.get_objects():\n",
    )
    fails(test_an_unread_gradient_is_not_listed, edited)


def test_a_mask_is_not_listed__also_where_holders_are_printed(snippet, capsys):
    run = after(snippet, "digits", "live", "holders")
    lines = capsys.readouterr().out.splitlines()
    assert "list" in lines
    assert "dict images" in lines
    assert run.first.data_ptr() == run.images.data_ptr()
    found = gc.get_referrers(run.images)
    assert any(each is run.history for each in found)
    assert not any(each is run.first for each in found)
    box = Box()
    box.images = run.images
    found = gc.get_referrers(run.images)
    assert {id(box), id(vars(box))} & {*map(id, found)}


class Box:
    """An object with an attribute."""


class Own(torch.autograd.Function):
    """An operation in Python, which keeps its input in an attribute."""

    @staticmethod
    def forward(ctx, x):
        """Keep a mask."""
        ctx.mask = torch.ones_like(x)
        return x * ctx.mask

    @staticmethod
    def backward(ctx, gradient):
        """Multiply by what was kept."""
        return gradient * ctx.mask


def test_a_mask_is_not_listed__ends_for_an_own_function(snippet, fails):
    """A `Function` of your own that writes `ctx.mask = ...` keeps it in
    Python, so it is listed.
    """
    fails(test_a_mask_is_not_listed, snippet, (37, 41), Own.apply)


@edits(
    (
        "a mask with a name",
        "dropped = F.dropout(images)",
        "kept = torch.rand(35940, 64)\ndropped = images * kept",
    ),
    (
        "a number for a mask",
        "dropped = F.dropout(images)",
        "dropped = images * torch.tensor(2.0)",
    ),
)
def test_a_mask_is_not_listed__but_not(snippet, fails, old, new):
    """A mask with a name is in the list, and a product with a number keeps 4
    bytes, not a mask.
    """
    fails(test_a_mask_is_not_listed, snippet.edit(old, new))


# What goes wrong


def test_the_last_batch_outlives_the_loop(snippet):
    run = after(snippet, "digits", "after-the-loop")
    *_, (images, labels) = run.loader

    assert run.images.equal(images)
    assert run.labels.equal(labels)
    assert run.scores.shape == (97, 10)
    assert run.loss.grad_fn is not None
    nodes = [run.loss.grad_fn]
    for node in nodes:
        nodes += [each for each, _ in node.next_functions if each]
    assert run.scores.grad_fn in nodes


SHOWN = "print(images.shape, labels.shape, scores.shape, loss.grad_fn.name())"


@edits(
    (SHOWN, "scores = torch.zeros(1)"),
    (SHOWN, "images = torch.zeros(1)"),
    (SHOWN, "loss = loss.detach()"),
)
def test_the_last_batch_outlives_the_loop__but_not(snippet, fails, old, new):
    """Here a name gets another value after the loop."""
    fails(test_the_last_batch_outlives_the_loop, snippet.edit(old, new))


TWICE = ("digits", "after-the-loop", "count", "two-at-once")


def test_two_outputs_live_at_once(snippet, turns=3):
    edited = snippet.edit("range(3):  # a", f"range({turns}):  # a")
    run = after(edited, *TWICE)
    assert run.counts == [1] + [2] * (turns - 1)

    made, counts = [], []

    def output():
        made.append(watch(result := torch.rand(100, 10)))
        counts.append(sum(each() is not None for each in made))
        return result

    names = {"output": output}
    for _ in range(turns):
        exec("scores = output()", names)
    assert counts == run.counts


@pytest.mark.parametrize("turns", [1, 2, 7], ids="{} turns".format)
def test_two_outputs_live_at_once__also_in(snippet, turns):
    test_two_outputs_live_at_once(snippet, turns)


def test_two_outputs_live_at_once__also_unless_given_up(snippet):
    """With `None` first, or `del` at the end, there is only one at a time."""
    assert after(snippet, *TWICE, "one-at-a-time").counts == [1, 1, 1]
    name = (
        "    model = optimizer = None\n    model, optimizer = build_again()\n"
    )
    scored = snippet.edit(name, f"{name}    scores = model(pixels)\n")
    assert after(scored, *TWICE, "one-at-a-time").counts == [1, 2, 2]
    also = scored.edit("= optimizer = None", "= optimizer = scores = None")
    assert after(also, *TWICE, "one-at-a-time").counts == [1, 1, 1]
    deleted = snippet.edit(AGAIN, f"{AGAIN}    del model, optimizer\n")
    deleted = deleted.edit('print("models at once:", *counts)\n\n# %%', "# %%")
    assert after(deleted, *TWICE).counts == [1, 1, 1]


AGAIN = (
    "# a cell that you run three times\n    model, optimizer = build_again()\n"
)
FORGOTTEN = "    model = optimizer = None\n"


@edits(
    ("None first", AGAIN, f"# a\n{FORGOTTEN}{AGAIN.partition(chr(10))[2]}"),
    ("without a name", AGAIN, "# a\n    build_again()\n"),
)
def test_two_outputs_live_at_once__but_not(snippet, fails, old, new):
    """The old model is given up first, or none gets a name."""
    fails(test_two_outputs_live_at_once, snippet.edit(old, new))


FAILED = ("digits", "failing")


def test_a_traceback_keeps_tensors(snippet, keep=None):
    run = after(snippet, *FAILED, "traceback")
    assert run.in_handler == "held"
    assert run.after_handler == "free"

    try:
        run.load()
    except ValueError as error:
        kept = keep(error) if keep else error
    assert run.load.__globals__["memory"]() is not None
    del kept
    assert run.load.__globals__["memory"]() is None


def test_a_traceback_keeps_tensors__also_of_an_error_within_another(snippet):
    old = '    raise ValueError("no labels")\n\n\n# %% traceback'
    new = "    try:\n        images.shap\n    except AttributeError:\n"
    edited = snippet.edit(old, f"{new}    {old}")
    test_a_traceback_keeps_tensors(edited)


@pytest.mark.parametrize(
    "keep",
    [str, lambda e: e.with_traceback(None)],
    ids=["its text", "the error without its traceback"],
)
def test_a_traceback_keeps_tensors__ends_if_you_keep(snippet, fails, keep):
    """The text of the error, or the error without its traceback, does not
    hold them.
    """
    fails(test_a_traceback_keeps_tensors, snippet, keep)


@edits(
    (
        '    raise ValueError("no labels")\n\n\n# %% traceback',
        "    del images\n    raise ValueError\n\n\n# %% traceback",
    ),
    (
        "except ValueError:\n    print",
        "except ValueError as error:\n    kept = error\n    print",
    ),
)
def test_a_traceback_keeps_tensors__but_not(snippet, fails, old, new):
    """Deleted before the error, they are gone in the handler; with the error
    kept, they stay after it.
    """
    fails(test_a_traceback_keeps_tensors, snippet.edit(old, new))


def test_a_traceback_keeps_tensors__ends_if_the_function_keeps(snippet, fails):
    """If the failed function itself keeps the error, as in `last = error`, it
    is in a reference cycle, and the tensors wait for the collector.
    """
    old = '    raise ValueError("no labels")\n\n\n# %% traceback'
    new = old.replace("raise ", "last = ").replace(
        "\n", "\n    raise last\n", 1
    )
    fails(test_a_traceback_keeps_tensors, snippet.edit(old, new))


def test_the_next_error_takes_its_place(snippet, statement="1 / 0"):
    edited = snippet.edit('runsource("1 / 0")', f"runsource({statement!r})")
    run = after(edited, *FAILED, "session")

    assert run.collected == "held"
    assert run.replaced == "free"


@pytest.mark.parametrize("statement", ["None.shape", "missing", "load(1)"])
def test_the_next_error_takes_its_place__also_by(snippet, statement):
    test_the_next_error_takes_its_place(snippet, statement)


NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
no_history = Config({"HistoryManager": {"enabled": False}})
shell = InteractiveShell.instance(config=no_history)
shell.run_cell('''
import gc, weakref
def load():
    images = {1, 2}
    global memory
    memory = weakref.ref(images)
    raise ValueError("no labels")
load()
''')
asked = "gc.collect(); print('state:', memory() is not None)"
for cell in (asked, "1 / 0", asked):
    shell.run_cell(cell)
"""


def test_the_next_error_takes_its_place__also_in_a_notebook(tmp_path):
    if not find_spec("IPython"):
        pytest.skip("no IPython")
    run = subprocess.run(
        [sys.executable, "-c", NOTEBOOK],
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = run.stdout.splitlines()
    found = [each for each in lines if each.startswith("state:")]
    assert found == ["state: True", "state: False"]


@pytest.mark.parametrize("statement", ["2 / 1", "images = None"])
def test_the_next_error_takes_its_place__ends_without_an_error(
    snippet, fails, statement
):
    """Statements without an error leave the last error in place."""
    fails(test_the_next_error_takes_its_place, snippet, statement)


@edits(
    (
        "if more holds them",
        "    images = torch.rand(100, 64)\n    memory = weakref.ref("
        "images.untyped_storage())\n    raise",
        "    images = torch.rand(100, 64)\n    memory = weakref.ref("
        "images.untyped_storage())\n    load.kept = images\n    raise",
    ),
    (
        "if it is caught",
        'session.runsource("load()")',
        'session.runsource("try: load()\\nexcept ValueError: 0", "", "exec")',
    ),
)
def test_the_next_error_takes_its_place__but_not(snippet, fails, old, new):
    """If the function holds them as well, the next error frees nothing; if it
    is caught, the session keeps nothing.
    """
    fails(test_the_next_error_takes_its_place, snippet.edit(old, new))


def test_a_shown_tensor_is_kept(snippet):
    run = after(snippet, *FAILED, "session", "shown")

    assert run.still_shown == "held"
    assert run.shown_over == "free"


@edits(
    ('runsource("shown")', 'runsource("shown.shape")'),
    ("runsource(\"'something else'\")", "runsource(\"x = 'nothing shown'\")"),
)
def test_a_shown_tensor_is_kept__but_not(snippet, fails, old, new):
    """Here only its shape is shown; or nothing is shown after it, so the
    tensor stays.
    """
    fails(test_a_shown_tensor_is_kept, snippet.edit(old, new))


def test_circles_wait_for_the_collector(snippet):
    run = after(snippet, *LINES, "circle")

    assert run.deleted == "held"
    assert run.collected == "free"


def test_circles_wait_for_the_collector__also_if_old():
    inside = torch.rand(3)
    memory = watch(inside)
    inside.me = inside
    gc.collect()
    gc.collect()  # it has grown old now
    del inside
    gc.collect(0)  # looks at young objects only
    assert states(memory) == ["held"]
    gc.collect()
    assert states(memory) == ["free"]


@pytest.mark.parametrize("length", [1, 2, 5])
def test_circles_wait_for_the_collector__also_of_length(length):
    """A tensor in a cycle, and one that a cycle holds."""
    inside, held = torch.rand(3), torch.rand(3)
    memories = [watch(inside), watch(held)]
    boxes = [[] for _ in range(length)]
    for one, other in zip(boxes, boxes[1:] + boxes[:1], strict=True):
        one.append(other)
    boxes[0].append(held)
    inside.me = inside
    del boxes, one, other, inside, held
    assert states(*memories) == ["held", "held"]
    gc.collect()
    assert states(*memories) == ["free", "free"]


@edits(
    ("no circle", "model.trainer, trainer.model = trainer, model", "pass"),
    ("held elsewhere", "del trained\n", "other = trained\ndel trained\n"),
    (
        "not collected",
        'gc.collect()\nprint("after gc.collect():", collected := state(memory)'
        ")\n\n# %% create",
        "collected = state(memory)\n\n# %% create",
    ),
)
def test_circles_wait_for_the_collector__but_not(snippet, fails, old, new):
    """Without a way back there is no cycle; held elsewhere, or without
    `gc.collect()`, the tensor stays.
    """
    fails(test_circles_wait_for_the_collector, snippet.edit(old, new))


def test_create_graph_keeps_the_model(snippet):
    run = after(snippet, "digits", "create-graph")

    assert run.after_training(run.backward) == "held"
    assert run.after_training(lambda model: None) == "free"
    for train in (run.backward_and_reset, run.grad):
        assert run.after_training(train) == "free"


MEAN = "model(pixels).square().mean()"
PENALTY = "sum(each.square().sum() for each in model.parameters())"
LAYER = "model = nn.Linear(64, 10)"
NETWORK = """model = nn.Sequential(
        nn.Linear(64, 10), nn.Tanh(), nn.Linear(10, 2)
    )
    model.weight = model[0].weight"""


@edits(
    ("a penalty on the weights", MEAN, PENALTY),
    ("two layers", LAYER, NETWORK),
)
def test_create_graph_keeps_the_model__also_with(snippet, old, new):
    test_create_graph_keeps_the_model(snippet.edit(old, new))


@edits(
    (
        "create_graph=False",
        "backward(create_graph=True)\n\n\ndef backward_and",
        "backward()\n\n\ndef backward_and",
    ),
    (
        "a reset",
        "backward(create_graph=True)\n\n\ndef backward_and",
        "backward(create_graph=True)\n    model.zero_grad()\n\n\n"
        "def backward_and",
    ),
)
def test_create_graph_keeps_the_model__but_not(snippet, fails, old, new):
    """Without `create_graph=True`, or with `zero_grad()` before the name
    goes, the model goes with its name.
    """
    fails(test_create_graph_keeps_the_model, snippet.edit(old, new))


def test_create_graph_keeps_the_model__ends_where_gradients_are_constant(
    snippet, fails
):
    """Where the gradients are constant, as for the mean output of a linear
    layer, the model is freed.
    """
    edited = snippet.edit(MEAN, "model(pixels).mean()")
    fails(test_create_graph_keeps_the_model, edited)


# On CUDA

GAUGED = ("digits", "ways", "on-cuda", "gauges", "synchronize")


@pytest.mark.cuda
def test_synchronize_frees_nothing(snippet):
    run = after(snippet, *GAUGED)

    assert run.after_synchronize == run.before_synchronize
    assert run.after_emptying[0] == run.after_synchronize[0]
    assert run.after_emptying[1] <= run.after_synchronize[1] - 2**30


@pytest.mark.cuda
@edits(
    (
        "    torch.cuda.synchronize()\n    after_synchronize",
        "    torch.cuda.empty_cache()\n    after_synchronize",
    ),
    (
        "    torch.cuda.empty_cache()\n    after_emptying",
        "    after_emptying",
    ),
)
def test_synchronize_frees_nothing__but_not(snippet, fails, old, new):
    """Here `empty_cache` takes the place of `synchronize`, or is left out."""
    fails(test_synchronize_frees_nothing, snippet.edit(old, new))


@pytest.mark.cuda
def test_empty_cache_comes_last(snippet):
    run = after(snippet, *GAUGED, "order")

    assert run.emptied_first[1] >= run.after_emptying[1] + 2**30
    assert run.collected_then[0] == run.emptied_first[0] - 2**30
    assert run.collected_then[1] == run.emptied_first[1]
    assert run.emptied_last[1] <= run.emptied_first[1] - 2**30


@pytest.mark.cuda
@edits(
    ("model.trainer, trainer.model = trainer, model", "pass"),
    ("    gc.collect()\n    collected_then", "    collected_then"),
    ("    torch.cuda.empty_cache()\n    emptied_last", "    emptied_last"),
)
def test_empty_cache_comes_last__but_not(snippet, fails, old, new):
    """Here there is no cycle, or `gc.collect()` or the last `empty_cache` is
    left out.
    """
    fails(test_empty_cache_comes_last, snippet.edit(old, new))


# Try it


def test_a_function_lets_go__also_as_predicted(snippet):
    run = after(snippet, *LINES, "let-go")
    assert (run.before_backward, run.after_backward) == ("held", "free")


def test_a_function_lets_go__also_as_built(snippet, capsys):
    run = after(snippet, *LINES, "keeps", "keeps-checked")
    assert run.wrong == []
    found = {name: run.keeps(keep) for name, (keep, _) in run.ways.items()}
    assert found.pop("a number") is False
    assert set(found.values()) == {True}
