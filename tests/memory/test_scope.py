"""The claims of docs/memory/scope.md."""

import builtins
import functools
import gc
import sys
import warnings
import weakref
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import after

# The first of these registers operators, at which torch 2.6 fails ("could not
# parse dispatch key") late in a long process: here, it is early.
with warnings.catch_warnings(action="ignore"):
    torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)

MODEL = ("imports", "device", "step", "days")
KEPT = ("imports", "functions", "error-and-cycle", "keepers")
LISTED = ("imports", "error-and-cycle", "live-tensors")
FAILED = (
    "imports",
    "forget",
    "free",
    "count-living",
    "two-at-once",
    "failing",
)
EIGHT = ["a list", "a row of it", "a graph", "a closure", "a default"]
EIGHT += ["a hook", "a cache", "a caught error"]


@pytest.fixture(autouse=True)
def own_session():
    """Leave no error and no shown value behind, and the collector on.

    It looks at what the test makes alone, so that it takes little time.
    """
    gc.freeze()
    yield
    gc.enable()
    gc.unfreeze()
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    vars(builtins).pop("_", None)


def watched_table(*shape):
    """Return a table, and what sees whether its memory is still there."""
    memory = np.ones(shape, dtype=np.float32)
    return torch.from_numpy(memory), weakref.ref(memory)


# Do this


def test_del_frees_at_once(snippet, shape=(10, 1000), beside=None):
    gc.disable()
    first = after(snippet, *MODEL[:-1], "forget", "free", "days", "do-this")
    assert not hasattr(first, "table")
    run = after(snippet, *KEPT)
    table, memory = watched_table(*shape)
    second, view = table, table.detach()
    other = beside(table) if beside else None
    kept = run.keepers["nothing else"](table)

    assert kept is None
    del table
    assert memory() is not None
    del second
    assert memory() is not None
    del view
    assert memory() is None, type(other)
    run = after(snippet, *KEPT, "watch", "stages")
    assert "nothing else" not in run.stages["del table"]


@pytest.mark.parametrize("shape", [(1,), (5, 3), (2, 3, 4)])
def test_del_frees_at_once__also_of_other_shapes(snippet, shape):
    test_del_frees_at_once(snippet, shape)


def as_array(table):
    return table.numpy()


def test_del_frees_at_once__ends_with_a_numpy_array(snippet, fails):
    """If an array that `numpy()` has made is left: it uses the same memory."""
    fails(test_del_frees_at_once, snippet, (10, 1000), as_array)


@edits(
    (
        "a holder more",
        '"nothing else": lambda table: None',
        '"nothing else": lambda table: layers.append(table)',
    ),
    (
        "not at once",
        '"nothing else": lambda table: None',
        '"nothing else": cycle',
    ),
)
def test_del_frees_at_once__but_not(snippet, fails, old, new):
    """Appended to a list, or put into a cycle, the table stays after its last
    name is gone.
    """
    edited = snippet.edit(old, new).edit(
        "keepers = {", "layers = []\nkeepers = {"
    )
    fails(test_del_frees_at_once, edited)


def test_free_forgets_the_error__also_without_one(snippet, monkeypatch):
    """It needs no error, ends circles, and empties the cache last."""
    run = after(snippet, "imports", "forget", "free")
    emptied = []
    for available in (True, False):
        table, memory = watched_table(2, 2)
        box = [table]
        box.append(box)
        gc.collect()  # it is old when it goes
        del table, box
        with monkeypatch.context() as patch, no_error():
            device = SimpleNamespace(
                empty_cache=lambda see=memory: emptied.append(see())
            )
            patch.setattr(torch, "get_device_module", lambda here=device: here)
            patch.setattr(
                torch.accelerator, "is_available", lambda a=available: a
            )
            run.free()
        assert memory() is None
    assert emptied == [None]


def test_free_forgets_the_error__also_in_the_first_lines(snippet):
    """The lines to copy leave no table behind, and no circle."""
    gc.disable()
    edited = snippet.edit(
        "# something large", "; circled = weakref.ref(table)"
    )
    edited = edited.edit("del table  #", "table.me = table; del table  #")
    run = after(edited, *MODEL[:-1], "forget", "free", "days", "do-this")

    assert run.circled() is None
    assert not hasattr(run, "table")


# How it works


def test_a_holder_keeps_the_tensor(snippet, rows=10):
    gc.disable()
    run = after(snippet, *KEPT)
    memories, kept = {}, {}
    for name in ["nothing else", *EIGHT]:
        table, memories[name] = watched_table(rows, 1000)
        kept[name] = run.keepers[name](table)
        del table

    assert memories.pop("nothing else")() is None
    assert [name for name in EIGHT if memories[name]() is None] == []
    gc.collect()
    assert [name for name in EIGHT if memories[name]() is None] == []
    kept["a hook"]._forward_hooks.clear()
    kept["a cache"].cache_clear()
    assert memories["a hook"]() is memories["a cache"]() is None
    kept.clear()
    assert [name for name in EIGHT if memories[name]() is not None] == []
    stages = after(snippet, *KEPT, "watch", "stages").stages
    assert stages["del table"] == [*EIGHT, "a cycle"]
    assert stages["gc.collect()"] == EIGHT
    assert stages["the holder goes"] == []
    assert gc.isenabled()


def test_a_holder_keeps_the_tensor__also_of_another_size(snippet):
    test_a_holder_keeps_the_tensor(snippet, rows=1)


def test_a_holder_keeps_the_tensor__but_not_a_copied_row(snippet, fails):
    """A copied row has memory of its own, so the table is freed."""
    edited = snippet.edit("table[0],", "table[0].clone(),")
    fails(test_a_holder_keeps_the_tensor, edited)


@edits(
    ('"a list": lambda table: [table]', '"a list": lambda table: [0]'),
    ("table @ weight", "(table @ weight).detach()"),
    ("lambda table: lambda: table", "lambda table: lambda table: table"),
    ("lambda readings=table: readings", "lambda readings: readings"),
    ("(lambda *_: table)", "(lambda *_: table).remove()"),
    ("    mean(table)\n", "    mean(table)\n    mean.cache_clear()\n"),
    ("return error\n", "return error.with_traceback(None)\n"),
    (
        "only until the collector runs",
        '"a list": lambda table: [table]',
        '"a list": cycle',
    ),
    (
        "not at once",
        '"a list": lambda table: [table]',
        '"a list": lambda table: [box := [table], box.append(box)]',
    ),
)
def test_a_holder_keeps_the_tensor__but_not(snippet, fails, old, new):
    """Here one of them does not hold the table, such as the list `[0]`, or not
    for as long.
    """
    fails(test_a_holder_keeps_the_tensor, snippet.edit(old, new))


def cleared(kind):
    def holder(run, table):
        held = kind([(0, table)])
        held.clear()
        return held

    return holder


def unhooked(run, table):
    layer = torch.nn.Linear(1, 1)
    handle = layer.register_forward_hook(lambda *_: table)
    handle.remove()
    return layer


def cache_of(kind):
    def holder(run, table):
        mean = kind(torch.mean)
        mean(table)
        mean.cache_clear()
        return mean

    return holder


def own_cache(run, table):
    mean = run.keepers["a cache"](table)
    mean.cache_clear()
    return mean


def handed_over(run, table):
    def mean(readings):
        return readings.mean()

    mean(table)
    return mean


def handled(run, table):
    try:
        raise ValueError("no such station")
    except ValueError as error:
        said = str(error)
    return said


def under_no_grad(run, table):
    with torch.no_grad():
        return run.keepers["a graph"](table)


def freed(run, table):
    sys.last_value = run.keepers["a caught error"](table)
    sys.last_traceback = sys.last_value.__traceback__
    run.free()
    return run


LET_GO = {
    "a list of numbers": lambda run, table: [table.mean().item()],
    "a cleared list": cleared(list),
    "a cleared dict": cleared(dict),
    "a copied row": lambda run, t: run.keepers["a row of it"](t).clone(),
    "a copied view": lambda run, table: table.T.clone(),
    "a number": lambda run, t: run.keepers["a graph"](t).sum().item(),
    "detached": lambda run, table: run.keepers["a graph"](table).detach(),
    "no_grad": under_no_grad,
    "an argument": handed_over,
    "a removed hook": unhooked,
    "the cleared cache of the page": own_cache,
    "a cleared cache": cache_of(functools.cache),
    "a cleared lru_cache": cache_of(functools.lru_cache),
    "a handled error": handled,
    "an uncaught error": freed,
}


def test_each_way_lets_go(snippet, ways=LET_GO):
    gc.disable()
    run = after(snippet, *KEPT, "forget", "free", KEPT[-1])
    for name, way in ways.items():
        table, memory = watched_table(3, 1000)
        holder = way(run, table)
        del table
        assert memory() is None, name
        assert holder is not None


def test_each_way_lets_go__but_not_without_forget(snippet, fails):
    """Without `forget()`, the last uncaught error still holds the table."""
    edited = snippet.edit(
        "    forget()\n    gc.collect()",
        "    gc.collect()",
    )
    fails(test_each_way_lets_go, edited)


@pytest.mark.parametrize("name", EIGHT)
def test_each_way_lets_go__ends_if_held_by(snippet, fails, name):
    """If it is still held, by a list, a graph or any other of the eight: the
    table is not freed.
    """
    holds = {name: lambda run, table: run.keepers[name](table)}
    fails(test_each_way_lets_go, snippet, holds)


def rows_with(rows, *shape):
    return [row for row in rows if shape in row]


def row_with(rows, *shape):
    found = rows_with(rows, *shape)
    assert len(found) == 1
    return found[0]


def test_storages_are_listed_once(snippet):
    run = after(snippet, *LISTED, "ask-live")
    row = row_with(run.live_tensors(), 1000, 1000)
    assert run.first.data_ptr() == run.station.data_ptr()
    assert row[:2] == [run.station.nbytes, "cpu"]
    assert (1000,) in row

    half = torch.zeros(37, 41, dtype=torch.float16)
    same = [half[5], half.T, half.detach(), half.view(-1)]
    weight = torch.nn.Parameter(torch.zeros(43, 47))
    other = torch.zeros(43, 47)
    wide = torch.zeros(1).expand(53, 59)
    empty = torch.zeros(0, 61)
    alone = torch.zeros(67, 71)[0].detach()
    tiny = torch.zeros(1, 1, 1, 1, 2, dtype=torch.uint8)
    waves = torch.zeros(73, 79, dtype=torch.complex64)
    conjugated = waves.conj()
    with no_error():
        rows = run.live_tensors()
    row = row_with(rows, 37, 41)
    assert row[:2] == [half.nbytes, "cpu"]
    assert sorted(row[2:]) == sorted(
        tuple(each.shape) for each in (half, *same)
    )
    assert [row[0] for row in rows_with(rows, 43, 47)] == [weight.nbytes] * 2
    assert [row[0] for row in rows_with(rows, 53, 59)] == [4]
    assert rows_with(rows, *empty.shape) == []
    assert [row[0] for row in rows_with(rows, 71)] == [67 * 71 * 4]
    assert row_with(rows, 73, 79)[2:] == [waves.shape, conjugated.shape]
    assert row_with(rows, *tiny.shape) == [2, "cpu", (1, 1, 1, 1, 2)]
    sizes = [row[0] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    del other, wide, alone


class Elsewhere:
    """What answers like a tensor on another device."""

    is_leaf, retains_grad, is_meta, grad = True, False, False, None
    shape = torch.Size([83, 97])

    def __init__(self, device):
        self.device = torch.device(device)

    def untyped_storage(self):
        """Return a storage at one address, whatever the device."""
        return SimpleNamespace(data_ptr=lambda: 512, nbytes=lambda: 83 * 97)


def test_storages_are_listed_once__also_with_their_devices(snippet):
    run = after(snippet, *LISTED)
    tensors = [Elsewhere(device) for device in ("cuda", "cpu", "mps")]
    names = {"nn": SimpleNamespace(Parameter=Elsewhere)}
    with (
        patch.dict(run.live_tensors.__globals__, names),
        patch.object(gc, "get_objects", return_value=tensors),
    ):
        rows = run.live_tensors()

    expected = [[83 * 97, name, (83, 97)] for name in ("mps", "cuda", "cpu")]
    assert rows == expected


@edits(
    ("each name", "storage.data_ptr()", "id(each)"),
    ("bytes of a view", "[storage.nbytes(),", "[each.nbytes,"),
    ("no parameters", "= torch.Tensor, nn.Parameter", "= (torch.Tensor,)"),
    ("parameters alone", "= torch.Tensor, nn.Parameter", "= (nn.Parameter,)"),
    (
        "one shape of many",
        "found.setdefault(key, new).append(shape)",
        "found[key] = [*new, shape]",
    ),
    ("empty ones too", " if row[0])", ")"),
    ("the smallest first", ", reverse=True)", ")"),
    ("without its device", "each.device.type]", "0]"),
)
def test_storages_are_listed_once__but_not(snippet, fails, old, new):
    """Keyed by `id`, each view gets a row of its own; the other edits change
    rows, columns or their order.
    """
    fails(test_storages_are_listed_once, snippet.edit(old, new))


def test_gradients_are_listed_too(snippet, used=True):
    run = after(snippet, *LISTED)
    model = torch.nn.Sequential(torch.nn.Linear(83, 89), torch.nn.ReLU())
    model[0].bias.requires_grad_(False)
    spare = torch.nn.Parameter(torch.zeros(97, 101))  # without a gradient
    if used:
        model(torch.ones(2, 83)).sum().backward()
    for _ in range(2):  # the list itself touches them
        rows = run.live_tensors()
        found = [row for row in rows if (89, 83) in row]
        assert found == [[4 * 83 * 89, "cpu", (89, 83)]] * 2
        assert len(rows_with(rows, *spare.shape)) == 1
    weight = weakref.ref(model[0].weight)
    model.zero_grad()
    assert len(rows_with(run.live_tensors(), 89, 83)) == 1
    del model
    assert weight() is None


@pytest.mark.parametrize("touched", ["weight.grad", "retain_grad()"])
def test_gradients_are_listed_too__also_with(snippet, touched):
    run = after(snippet, *LISTED)
    weight = torch.ones(103, 107, requires_grad=True)
    output = weight * 2
    if touched == "retain_grad()":
        output.retain_grad()
    output.sum().backward()
    gradient = weight.grad if touched == "weight.grad" else None

    rows = rows_with(run.live_tensors(), 103, 107)
    assert len(rows) == 3 + (touched == "retain_grad()")
    assert gradient is None or gradient.shape == (103, 107)


@edits(
    ("seen += [each.grad for", "seen += [each for"),
    ("{id(each): each for each in seen}.values()", "seen"),
)
def test_gradients_are_listed_too__but_not(snippet, fails, old, new):
    """Without `each.grad`, gradients are missing; without the dictionary of
    ids, their shape is listed twice.
    """
    fails(test_gradients_are_listed_too, snippet.edit(old, new))


def test_gradients_are_listed_too__ends_before_backward(snippet, fails):
    """Before `backward`: there is no gradient to list."""
    fails(test_gradients_are_listed_too, snippet, False)


def test_the_list_holds_nothing(snippet):
    gc.disable()
    run = after(snippet, *LISTED)
    table, memory = watched_table(37, 41)
    table.requires_grad_()
    lost, circled = watched_table(43, 47)
    run.cycle(lost)
    del lost
    before = sys.getrefcount(table), table._version, table.grad
    hooks = table._backward_hooks
    kinds = torch.Tensor, torch.nn.Parameter
    everything = [each for each in gc.get_objects() if type(each) in kinds]
    held = [sys.getrefcount(each) for each in everything]

    rows = run.live_tensors()
    assert [sys.getrefcount(each) for each in everything] == held
    del everything
    assert len(rows_with(rows, 37, 41)) == len(rows_with(rows, 43, 47)) == 1
    assert (sys.getrefcount(table), table._version, table.grad) == before
    assert table._backward_hooks is hooks is None
    del table
    assert memory() is None
    assert circled() is not None


@edits(
    ("append(shape)", "extend([shape, each])"),
    ("in gc.get_objects() if", "in (gc.collect(), gc.get_objects())[1] if"),
)
def test_the_list_holds_nothing__but_not(snippet, fails, old, new):
    """With the tensors themselves in its rows, the list holds them; and
    `gc.collect()` frees those in a cycle.
    """
    fails(test_the_list_holds_nothing, snippet.edit(old, new))


class Lazy:
    """What answers no question about itself."""

    @property
    def __class__(self):
        """Raise an error, as a proxy does before it knows its thing."""
        raise ReferenceError

    def __getattr__(self, name):
        """Raise an error that is no AttributeError."""
        raise ReferenceError


class Table(dict):
    """A dict with methods of its own."""

    def raises(self, *_):
        """Raise an error."""
        raise KeyError

    __iter__ = get = items = keys = raises


class Station:
    """What has a tensor under a name of its own."""

    __slots__ = ("__weakref__", "readings")


def error_of(thing):
    """Return an error, in whose traceback a function has a name for it."""

    def fails_to_load(readings):
        raise ValueError("no such station")

    try:
        fails_to_load(thing)
    except ValueError as error:
        return error.with_traceback(error.__traceback__.tb_next)


def test_holders_are_named__also_by_odd_ones(snippet):
    run = after(snippet, *LISTED, "role", "holders")
    thing, lazy, table = torch.zeros(3), Lazy(), Table()
    lazy.thing = thing
    dict.__setitem__(table, "e", thing)
    with no_error():
        found = run.holders(thing)
        run.live_tensors()

    assert "a dict: ['e']" in found
    assert "Lazy" in found or "a dict: ['thing']" in found


def test_holders_are_named(snippet):
    run = after(snippet, "imports", "role", "holders")
    make = [lambda: torch.zeros(3), Station, set]
    for thing in (each() for each in make):
        station = Station()
        station.readings = thing
        names = {"a": thing, "b": 0, "c": thing}
        marks = {} if isinstance(thing, set) else {"b": 0, thing: 1}
        module = {"__name__": "weather", "d": thing}
        error = error_of(thing)
        found = run.holders(thing)
        for each in (
            "a dict: ['a', 'c']",
            "weather: ['d']",
            "the names of fails_to_load()",
        ):
            assert each in found
        assert "Station" in {each.partition(":")[0] for each in found}
        assert ("a dict: ['a key']" in found) == (len(marks) > 0)
        del station, names, module, error
    run = after(snippet, *LISTED, "ask-live", "role", "holders", "ask-holders")
    found = run.holders(run.station)
    assert "__main__: ['station']" in found
    assert sum(each.startswith("list") for each in found) == 1
    assert sum(each.startswith("tuple") for each in found) == 1
    assert "function forecast" in run.holders(run.forecast.__defaults__)
    assert run.forecast(torch.tensor([1.0, 3.0])) == 2

    def a_function_of_a_long_name(readings=thing):
        return readings

    defaults = a_function_of_a_long_name.__defaults__
    name = a_function_of_a_long_name.__qualname__
    assert f"function {name}" in run.holders(defaults)


@edits(
    ("value is thing", "value is not thing"),
    ("key is thing", "key is not thing"),
    ("types.FrameType", "types.CodeType"),
    ("f_code.co_name", "f_code.co_firstlineno"),
    ("return kind.__name__", "return type(thing).__name__"),
    ("gc.get_referrers(thing)", "gc.get_referents(thing)"),
    ("issubclass(kind, dict)", "issubclass(kind, list)"),
)
def test_holders_are_named__but_not(snippet, fails, old, new):
    """With `is not`, it names the keys of all other values; the other edits
    name other holders, types or numbers.
    """
    if "list" in new:
        snippet = snippet.edit("dict.items(holder)", "enumerate(holder)")
        snippet = snippet.edit("dict.keys(holder)", "holder")
        snippet = snippet.edit(
            "dict.get(holder, '__name__', 'a dict')", "'a list'"
        )
    fails(test_holders_are_named, snippet.edit(old, new))


def test_a_mask_is_not_listed(snippet, shape=(37, 41), dtype=torch.float32):
    run = after(snippet, *LISTED, "mask")
    assert len(run.listed) == 2
    assert run.dropped.grad_fn._saved_other.nbytes == run.readings.nbytes

    readings = torch.ones(shape, dtype=dtype, requires_grad=True)
    dropped = F.dropout(readings)
    assert len(rows_with(run.live_tensors(), *shape)) == 2
    assert dropped.grad_fn._saved_other.nbytes == readings.nbytes


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((7, 11, 13), torch.float64), ((1, 2, 3, 5), torch.bfloat16)],
    ids=["three dimensions, in float64", "four, in bfloat16"],
)
def test_a_mask_is_not_listed__also_of(snippet, shape, dtype):
    test_a_mask_is_not_listed(snippet, shape, dtype)


@edits(
    (
        "a mask with a name",
        "dropped = F.dropout(readings)",
        "mask = torch.rand(1000, 500)\ndropped = readings * mask",
    ),
    (
        "a number for a mask",
        "dropped = F.dropout(readings)",
        "dropped = readings * torch.tensor(2.0)",
    ),
)
def test_a_mask_is_not_listed__but_not(snippet, fails, old, new):
    """A mask with a name is in the list; and a product with a number keeps 4
    bytes, not a mask.
    """
    fails(test_a_mask_is_not_listed, snippet.edit(old, new))


OPERATIONS = {
    "times": lambda x, weight: x * weight,
    "matrix product": lambda x, weight: x @ weight,
    "linear": F.linear,
    "loss": F.mse_loss,
}


def test_a_graph_is_not_among_the_holders(
    snippet, operation=torch.mul, learned=False
):
    """No cell decides it: Python's garbage collector does not look into
    graphs.
    """
    run = after(snippet, "imports", "role", "holders")
    weight = torch.ones(3, 3, requires_grad=True)
    table, memory = watched_table(3, 3)
    table.requires_grad_(learned)
    names = {"table": table}
    result = operation(table, weight)

    assert run.holders(table) == ["a dict: ['table']"]
    del names["table"], table
    assert memory() is not None
    del result
    assert memory() is None


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_graph_is_not_among_the_holders__also_of(snippet, operation):
    test_a_graph_is_not_among_the_holders(snippet, operation)


def test_a_graph_is_not_among_the_holders__also_of_a_weight(snippet):
    test_a_graph_is_not_among_the_holders(snippet, learned=True)


class Own(torch.autograd.Function):
    """An operation in Python, which keeps its input in an attribute."""

    @staticmethod
    def forward(ctx, x, weight):
        """Keep the input."""
        ctx.x = x
        return x * weight

    @staticmethod
    def backward(ctx, gradient):
        """Multiply by what was kept."""
        return None, gradient * ctx.x


def test_a_graph_is_not_among_the_holders__ends_for_an_own_function(
    snippet, fails
):
    """For a `Function` of your own that keeps the tensor as `ctx.x`: it is
    among them, as a dict with the key `x`.
    """
    fails(test_a_graph_is_not_among_the_holders, snippet, Own.apply)


# What goes wrong


def test_the_last_batch_outlives_the_loop(snippet):
    run = after(snippet, *MODEL, "after-the-loop")

    assert run.readings is run.days[-1][0]
    assert run.goals is run.days[-1][1]
    assert run.output.equal(run.model(run.readings.to(run.device)))
    assert run.loss.grad_fn is not None
    nodes = [node for node, _ in run.loss.grad_fn.next_functions]
    assert run.output.grad_fn in nodes
    run.loss.backward()
    gradients = [each.grad for each in run.model.parameters()]
    assert all(each.abs().sum() > 0 for each in gradients)


SHOWN = "print(readings.shape, output.shape, loss.grad_fn.name())"


@edits(
    (SHOWN, "output = torch.zeros(1)"),
    (SHOWN, "readings = torch.zeros(1)"),
    (SHOWN, "goals = torch.zeros(1)"),
    (SHOWN, "loss = loss.detach()"),
    (
        "    loss = F.mse_loss(output, goals.to(device))\n",
        "    loss = F.mse_loss(output, goals.to(device))\n    break\n",
    ),
)
def test_the_last_batch_outlives_the_loop__but_not(snippet, fails, old, new):
    """Here a name gets another value after the loop, or the loop ends with the
    first batch.
    """
    fails(test_the_last_batch_outlives_the_loop, snippet.edit(old, new))


def test_a_function_lets_go(snippet, samples=5):
    gc.disable()
    run = after(snippet, *MODEL, "in-a-function")
    assert [watch() for watch in run.outputs] == [None] * len(run.days)
    assert [type(loss) for loss in run.losses] == [float] * len(run.days)

    made = []
    for layer in run.model:
        layer.register_forward_hook(lambda *a: made.append(weakref.ref(a[2])))
    readings, memory = watched_table(samples, 24)
    goals, goal_memory = watched_table(samples, 1)
    run.step(run.model, run.optimizer, readings, goals)
    del readings, goals
    graphs = [each for each in gc.get_objects() if type(each) is torch.Tensor]
    assert [each for each in graphs if each.grad_fn is not None] == []
    assert len(made) == len(run.model)
    assert [each() for each in made] == [None] * len(made)
    assert memory() is None
    assert goal_memory() is None


@pytest.mark.parametrize("samples", [1, 100])
def test_a_function_lets_go__also_with_samples(snippet, samples):
    test_a_function_lets_go(snippet, samples)


def test_a_function_lets_go__also_while_it_trains(snippet):
    """Two calls of `step` do what the same lines outside of it do."""
    run, same = (after(snippet, *MODEL, "in-a-function") for _ in range(2))
    lone = "cpu"
    if torch.accelerator.is_available():
        lone = torch.accelerator.current_accelerator().type
    assert run.device.type == lone
    assert len(run.outputs) == len(run.days)

    for readings, goals in same.days[:2]:
        loss = run.step(run.model, run.optimizer, readings, goals)
        same.optimizer.zero_grad()
        expected = F.mse_loss(
            same.model(readings.to(same.device)), goals.to(same.device)
        )
        expected.backward()
        same.optimizer.step()
        assert loss == pytest.approx(expected.item())
    assert len(run.outputs) == len(run.days)
    pairs = zip(run.model.parameters(), same.model.parameters(), strict=True)
    assert all(one.allclose(other) for one, other in pairs)


BACK = "    loss.backward()\n    optimizer.step()\n    return"


@edits(
    ("return loss.item()  # a number", "return model(readings)  # not"),
    (BACK, f"    model.last = goals\n{BACK}"),
    (BACK, f"    model.last = loss\n{BACK}"),
    (BACK, f"    model.last = loss\n{BACK.replace('ward()', 'ward', 1)}"),
)
def test_a_function_lets_go__but_not(snippet, fails, old, new):
    """Returned, or kept as `model.last`, an output, the goals or the loss stay
    alive.
    """
    fails(test_a_function_lets_go, snippet.edit(old, new))


COUNTED = (*MODEL, "count-living", "two-at-once")


def test_two_outputs_live_at_once(snippet, turns=3):
    run = after(snippet.edit("range(3)]", f"range({turns})]"), *COUNTED)
    assert run.counts == [1] + [2] * (turns - 1)

    made, counts = [], []

    def build():
        model = torch.nn.Linear(2, 2)
        made.append(weakref.ref(model))
        counts.append(sum(each() is not None for each in made))
        return model

    names = {"build": build}
    for _ in range(turns):
        exec("model = build()", names)
    assert counts == run.counts


@pytest.mark.parametrize("turns", [2, 7], ids="{} turns".format)
def test_two_outputs_live_at_once__also_in(snippet, turns):
    test_two_outputs_live_at_once(snippet, turns)


def test_two_outputs_live_at_once__but_not_if_deleted(snippet, fails):
    """With `del output` in each turn, only one output is alive at a time."""
    edited = snippet.edit(
        "    output = predict(readings)\n\nprint",
        "    output = predict(readings)\n    del output\n\nprint",
    )
    fails(test_two_outputs_live_at_once, edited)


def test_two_outputs_live_at_once__but_not_without_a_name(snippet, fails):
    """Without a name, each output is freed before the next one is made."""
    edited = snippet.edit(
        "    output = predict(readings)\n\nprint",
        "    predict(readings)\n\nprint",
    )
    fails(test_two_outputs_live_at_once, edited)


def test_del_leaves_one_alive(snippet, turns=3):
    edited = snippet.edit("range(3)]", f"range({turns})]")
    run = after(edited, *COUNTED, "one-at-a-time")

    assert run.counts == [1] * turns


@pytest.mark.parametrize("turns", [2, 7], ids="{} turns".format)
def test_del_leaves_one_alive__also_in(snippet, turns):
    test_del_leaves_one_alive(snippet, turns)


def test_del_leaves_one_alive__also_of_their_memory(snippet):
    edited = snippet.edit(
        "    outputs.append(weakref.ref(output))\n",
        """    memory = output.numpy(force=True).copy()
    output = torch.from_numpy(memory)
    outputs.append(weakref.ref(memory))
""",
    )
    test_del_leaves_one_alive(edited)


@edits(
    ("without", "    del output\n", ""),
    (
        "a second name",
        "    del output\n",
        "    last = output\n    del output\n",
    ),
)
def test_del_leaves_one_alive__but_not(snippet, fails, old, new):
    """Without `del`, or with `last` as a second name, two are alive at
    once.
    """
    fails(test_del_leaves_one_alive, snippet.edit(old, new))


ERRORS = (*MODEL, *FAILED[1:])


def test_a_traceback_keeps_tensors(snippet):
    gc.disable()
    run = after(snippet, *ERRORS, "traceback")

    assert run.in_handler == (1000, 1000)
    assert run.after_handler is None


def test_a_traceback_keeps_tensors__also_if_it_fails_in_a_comprehension(
    snippet,
):
    edited = snippet.edit(
        "    load()\nexcept", "    [load() for _ in range(1)]\nexcept"
    )
    test_a_traceback_keeps_tensors(edited)


def test_a_traceback_keeps_tensors__also_their_memory(snippet):
    edited = snippet.edit(
        """    readings = torch.zeros(1000, 1000)
    outputs.append(weakref.ref(readings))
""",
        """    memory = torch.zeros(1000, 1000).numpy().copy()
    readings = torch.from_numpy(memory)
    outputs.append(weakref.ref(memory))
    del memory
""",
    )
    test_a_traceback_keeps_tensors(edited)


@edits(
    (
        "    outputs.append(weakref.ref(readings))\n",
        "    outputs.append(weakref.ref(readings))\n    del readings\n",
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


def test_a_kept_error_keeps_them(snippet, keep=lambda error: error):
    gc.disable()
    run = after(snippet, *ERRORS)
    try:
        run.load()
    except ValueError as error:
        kept = keep(error)

    assert run.shape() == (1000, 1000)
    del kept
    assert run.shape() is None


def test_a_kept_error_keeps_them__but_not_what_is_deleted_first(
    snippet, fails
):
    """If `load` deletes `readings` before it raises, no error holds them."""
    edited = snippet.edit(
        "    outputs.append(weakref.ref(readings))\n",
        "    outputs.append(weakref.ref(readings))\n    del readings\n",
    )
    fails(test_a_kept_error_keeps_them, edited)


@pytest.mark.parametrize(
    "keep",
    [str, lambda e: e.with_traceback(None)],
    ids=["its text", "the error without its traceback"],
)
def test_a_kept_error_keeps_them__ends_for(snippet, fails, keep):
    """If you keep only the text of the error, or the error without its
    traceback: that does not hold them.
    """
    fails(test_a_kept_error_keeps_them, snippet, keep)


FROM = """    try:
        raise OSError("no such station")
    except OSError as error:
        raise ValueError from error
load()
"""
WITHIN = """    try:
        deeper(readings)
    except OSError:
        raise ValueError("no such station")
def deeper(readings):
    raise OSError("no such file")
load()
"""
LAST = '    raise ValueError("no such station")\nload()\n'


ABOUT = "    readings.shap\nload()\n"


def test_free_forgets_the_error(snippet):
    gc.disable()
    for error in (LAST, FROM, WITHIN, ABOUT):
        edited = snippet.edit(LAST, error)
        run = after(edited, *ERRORS, "session", "after-the-error")
        assert run.collected == (1000, 1000)
        assert run.freed is None
        run = after(edited, *ERRORS, "session")
        sys.last_exc = sys.last_value  # as Python 3.12 does
        kept = sys.last_value, sys.last_traceback  # as a notebook does
        run.free()
        assert run.shape() is None
        assert [each for each in vars(sys) if each.startswith("last_")] == []
        del kept


@edits(
    ("trace.tb_next = None", "trace.tb_next"),
    ("error.__cause__ = error.__context__ = None", "error.__cause__ = None"),
    ("error.__cause__ = error.__context__ = None", "error.__context__ = None"),
    ("error.obj = None", "error.obj"),
    ('"last_exc"', '"last_word"'),
    ('"last_value"', '"last_word"'),
    ('"last_traceback"', '"last_trace"'),
    ("    forget()\n", ""),
    ("not even kept", LAST, f"    del readings\n{LAST}"),
)
def test_free_forgets_the_error__but_not(snippet, fails, old, new):
    """Without `last_traceback`, or without `forget()`, the tensors stay; the
    other edits forget too little of other errors.
    """
    fails(test_free_forgets_the_error, snippet.edit(old, new))


CARRIED = """    try:
        1 / 0
    except ZeroDivisionError as error:
        raise ExceptionGroup("two", [error])
load()
"""
CIRCLED = f"    box = [readings]\n    box.append(box)\n{LAST}"


@pytest.mark.parametrize(
    "error",
    ["    raise ValueError(readings)\nload()\n", CARRIED, CIRCLED],
    ids=["the tensor itself", "other errors", "a cycle"],
)
def test_free_forgets_the_error__also_if_it_carries(snippet, error):
    gc.disable()
    edited = snippet.edit(LAST, error)
    run = after(edited, *ERRORS, "session", "after-the-error")

    assert run.collected == (1000, 1000)
    assert run.freed is None


def test_free_forgets_the_error__also_where_it_is_shown(snippet, capsys):
    after(snippet, *ERRORS, "session")

    assert "ValueError: no such station" in capsys.readouterr().out


def test_the_next_error_takes_its_place(snippet, statement="1 / 0"):
    run = after(snippet, *ERRORS, "session")
    assert run.shape() == (1000, 1000)
    run.session.runsource(statement)

    gc.collect()
    assert run.shape() is None


def test_the_next_error_takes_its_place__but_not_if_more_holds_them(
    snippet, fails
):
    """If the function holds them as well, the next error frees nothing."""
    edited = snippet.edit(
        "    seen.append(weakref.ref(readings))\n",
        "    seen.append(weakref.ref(readings))\n    load.kept = readings\n",
    )
    fails(test_the_next_error_takes_its_place, edited)


@pytest.mark.parametrize(
    "statement", ["None.shape", "missing", "load(1)", "1 +* 2"]
)
def test_the_next_error_takes_its_place__also_by(snippet, statement):
    test_the_next_error_takes_its_place(snippet, statement)


@pytest.mark.parametrize("statement", ["2 / 1", "readings = None"])
def test_the_next_error_takes_its_place__ends_without_an_error(
    snippet, fails, statement
):
    """For statements without an error: they leave the last error in place."""
    fails(test_the_next_error_takes_its_place, snippet, statement)


def test_a_shown_tensor_is_kept(snippet):
    gc.disable()
    run = after(snippet, *ERRORS, "session", "after-the-error", "shown")

    assert run.still_shown == (2, 2)
    assert run.shown_over is None


@edits(
    ('runsource("table")', 'runsource("table.shape")'),
    ("runsource(\"'something else'\")", "runsource(\"x = 'nothing shown'\")"),
)
def test_a_shown_tensor_is_kept__but_not(snippet, fails, old, new):
    """Here only its shape is shown; or nothing is shown after it, so the
    tensor stays.
    """
    fails(test_a_shown_tensor_is_kept, snippet.edit(old, new))


def test_circles_wait_for_the_collector(snippet):
    gc.disable()
    run = after(snippet, *KEPT)
    table, memory = watched_table(2, 2)
    run.keepers["a cycle"](table)
    del table
    assert memory() is not None
    gc.collect()
    assert memory() is None

    stages = after(snippet, *KEPT, "watch", "stages").stages
    assert "a cycle" in stages["del table"]
    assert "a cycle" not in stages["gc.collect()"]


@edits(
    ("box.append(box)", "box.append(0)"),
    ("box.append(box)", "box.append(box)\n    kept_boxes.append(box)"),
    ('gc.collect()\nstages["gc', 'stages["gc'),
)
def test_circles_wait_for_the_collector__but_not(snippet, fails, old, new):
    """Without itself in it, the list is no cycle; held elsewhere, or without
    `gc.collect()`, the tensor stays.
    """
    if "kept_boxes" in new:
        snippet = snippet.edit("def cycle", "kept_boxes = []\n\n\ndef cycle")
    fails(test_circles_wait_for_the_collector, snippet.edit(old, new))


def square(model, outputs):
    return outputs.square().mean()


def penalty(model, outputs):
    return sum(each.square().sum() for each in model.parameters())


def linear(model, outputs):
    return outputs.mean()


def outlives(train, loss_of, layers=torch.nn.Linear):
    """Return which of a model's parameters are alive without a name."""

    def loss(model):
        return loss_of(model, model(torch.ones(2, 10)))

    model = layers(10, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with patch.dict(train.__globals__, square_error=loss):
            train(model)
    alive = [weakref.ref(each) for each in model.parameters()]
    del model
    gc.collect()
    return [each() is not None for each in alive]


def two_layers(*sizes):
    return torch.nn.Sequential(
        torch.nn.Linear(*sizes), torch.nn.Tanh(), torch.nn.Linear(*sizes)
    )


def test_create_graph_keeps_the_model(
    snippet, loss_of=square, layers=torch.nn.Linear
):
    run = after(snippet, "imports", "create-graph")

    assert run.outlives(run.backward) is True
    assert not run.outlives(lambda model: None)
    assert all(outlives(run.backward, loss_of, layers))


@pytest.mark.parametrize(
    ("loss_of", "layers"),
    [(penalty, torch.nn.Linear), (square, two_layers)],
    ids=["a penalty on the weights", "two layers"],
)
def test_create_graph_keeps_the_model__also_with(snippet, loss_of, layers):
    test_create_graph_keeps_the_model(snippet, loss_of, layers)


def test_create_graph_keeps_the_model__but_not_without(snippet, fails):
    """Without `create_graph=True`, the model is freed with its last name."""
    old = "backward(create_graph=True)\n\n\ndef backward_and"
    edited = snippet.edit(old, "backward()\n\n\ndef backward_and")
    fails(test_create_graph_keeps_the_model, edited)


def test_create_graph_keeps_the_model__ends_where_gradients_are_constant(
    snippet, fails
):
    """Where the gradients are constant, as for the mean output of a linear
    layer: the model is freed.
    """
    fails(test_create_graph_keeps_the_model, snippet, linear)


def test_a_reset_lets_the_model_go(snippet):
    run = after(snippet, "imports", "create-graph")

    assert run.outlives(run.backward)
    for train in (run.backward_and_reset, run.grad):
        assert not run.outlives(train)
        for loss_of in (square, penalty, linear):
            assert not any(outlives(train, loss_of))
        assert not any(outlives(train, square, two_layers))


@edits(
    ("    model.zero_grad()\n", ""),
    (
        "torch.autograd.grad(square_error(model), weights, ",
        "torch.autograd.backward(square_error(model), ",
    ),
)
def test_a_reset_lets_the_model_go__but_not(snippet, fails, old, new):
    """Without `zero_grad()`, or with `torch.autograd.backward`, the model
    stays.
    """
    fails(test_a_reset_lets_the_model_go, snippet.edit(old, new))


# On CUDA


@pytest.mark.cuda
def test_cuda_frees_at_once(snippet):
    run = after(snippet, "imports", "on-cuda")

    assert run.freed_at_once >= 2**30
    assert run.still_busy


@pytest.mark.cuda
def test_cuda_frees_at_once__but_not_what_has_a_second_name(snippet, fails):
    """Here a second name still refers to the tensor."""
    edited = snippet.edit(
        "    del large\n", "    second = large\n    del large\n"
    )
    fails(test_cuda_frees_at_once, edited)


GAUGED = ("imports", "error-and-cycle", "on-cuda", "gauges", "synchronize")


@pytest.mark.cuda
def test_synchronize_frees_nothing(snippet):
    run = after(snippet, *GAUGED)

    assert run.after_synchronize == run.before_synchronize


@pytest.mark.cuda
def test_synchronize_frees_nothing__but_emptying_does(snippet, fails):
    """Here `empty_cache` takes the place of `synchronize`."""
    edited = snippet.edit(
        "    torch.cuda.synchronize()\n    after_synchronize",
        "    torch.cuda.empty_cache()\n    after_synchronize",
    )
    fails(test_synchronize_frees_nothing, edited)


@pytest.mark.cuda
def test_empty_cache_gives_back(snippet):
    run = after(snippet, *GAUGED)

    assert run.after_emptying[0] == run.after_synchronize[0]
    assert run.after_emptying[1] <= run.after_synchronize[1] - 2**30


@pytest.mark.cuda
def test_empty_cache_gives_back__but_not_left_out(snippet, fails):
    """Here `empty_cache` is left out."""
    edited = snippet.edit(
        "    torch.cuda.empty_cache()\n    after_emptying",
        "    after_emptying",
    )
    fails(test_empty_cache_gives_back, edited)


@pytest.mark.cuda
def test_empty_cache_comes_last(snippet):
    run = after(snippet, *GAUGED, "order")

    assert run.emptied_first[1] >= run.after_emptying[1] + 2**30
    assert run.collected_then[0] == run.emptied_first[0] - 2**30
    assert run.collected_then[1] == run.emptied_first[1]
    assert run.emptied_last[1] <= run.emptied_first[1] - 2**30


@pytest.mark.cuda
@edits(
    ("box.append(box)", "box.append(0)"),
    ("    gc.collect()\n    collected_then", "    collected_then"),
    ("    torch.cuda.empty_cache()\n    emptied_last", "    emptied_last"),
)
def test_empty_cache_comes_last__but_not(snippet, fails, old, new):
    """Here there is no cycle, or `gc.collect()` or the last `empty_cache` is
    left out.
    """
    fails(test_empty_cache_comes_last, snippet.edit(old, new))


# Where it ends


class Humid(torch.Tensor):
    """A tensor of another class."""


class HumidWeight(torch.nn.Parameter):
    """A parameter of another class."""


def test_the_list_leaves_out(snippet, layout=torch.strided):
    run = after(snippet, *LISTED)
    dense = torch.eye(37)
    sparse = torch.eye(83), torch.eye(41)
    rows = len(run.live_tensors())
    with warnings.catch_warnings(action="ignore"):
        sparse = sparse[0].to_sparse_csr(), sparse[1].to_sparse()
    with no_error():
        assert len(run.live_tensors()) == rows - 2
    others = [
        *sparse,
        Humid(47, 47),
        HumidWeight(torch.ones(43, 43)),
        torch.empty(53, 53, device="meta"),
    ]
    with warnings.catch_warnings(action="ignore"):
        ragged = torch.nested.nested_tensor(
            [dense[0], dense[1, :29]], layout=layout
        )
    seen = []

    def inside(reading):
        seen.append(run.live_tensors())
        return reading * 2

    with no_error():
        rows = run.live_tensors()
        torch.func.vmap(inside)(torch.ones(67, 71))

    assert ragged.is_nested
    assert (37 + 29) * 4 not in [row[0] for row in rows]
    assert len(seen) == 1
    assert len(rows_with(rows, *dense.shape)) == 1
    for other in others:
        assert rows_with(rows, *other.shape) == []


@edits(
    ("contextlib.suppress(RuntimeError)", "contextlib.nullcontext()"),
    (" or each.is_meta", ""),
    ("if type(each) in kinds]", "if issubclass(type(each), kinds)]"),
)
def test_the_list_leaves_out__but_not(snippet, fails, old, new):
    """Without `suppress`, a sparse tensor raises an error; the other edits
    list those on `meta`, or of your own classes.
    """
    fails(test_the_list_leaves_out, snippet.edit(old, new))


def test_the_list_leaves_out__ends_for_nested_tensors_with_layout_jagged(
    snippet, fails
):
    """For nested tensors with `layout=torch.jagged`: their values are
    listed.
    """
    fails(test_the_list_leaves_out, snippet, torch.jagged)


# What the sources say


def test_without_a_reset_the_fit_fails(snippet):
    fit = after(snippet, "imports", "fit").fit

    with patch.object(F, "mse_loss", wraps=F.mse_loss) as losses:
        assert type(fit(with_reset=True)) is float
        assert losses.call_count == 30
        assert fit(with_reset=True) < 1e-4
        assert losses.call_count == 2 * 30
        assert fit(with_reset=False) > 1
        assert losses.call_count == 3 * 30


@edits(
    ("        if with_reset:\n", "        if True:\n"),
    ("        if with_reset:\n", "        if False:\n"),
)
def test_without_a_reset_the_fit_fails__but_not(snippet, fails, old, new):
    """With a reset in both fits, both end below 0.0001; with none in either,
    both end above 5.
    """
    fails(test_without_a_reset_the_fit_fails, snippet.edit(old, new))


def test_the_misspelt_name_is_an_error(snippet, capsys):
    after(snippet, *MODEL, "misspelt")

    assert "name 'output' is not defined" in capsys.readouterr().out


@edits(
    ('output.to("cpu")', 'target.to("cpu")'),
    ('{"pairs": days}', '{"pairs": days, "output": days[0][0]}'),
)
def test_the_misspelt_name_is_an_error__but_not(
    snippet, fails, capsys, old, new
):
    """With `target` in both places, or an `output` from before, there is no
    error.
    """
    fails(test_the_misspelt_name_is_an_error, snippet.edit(old, new), capsys)
