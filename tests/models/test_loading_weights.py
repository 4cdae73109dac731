"""The claims of docs/models/loading_weights.md."""

import copy
import io
import os
import pickle
import re
import warnings
from collections import OrderedDict
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import true_since
from extensions.programs.snippet import printed
from tests.helpers import worlds
from tests.helpers.programs import after

NEEDED = "safetensors is not installed"
SERIAL = torch.serialization
FILE = ("digits", "same-classes")


@pytest.fixture(autouse=True, scope="module")
def _compiler():
    """Let torch say of what ``torch.compile`` imports that it is old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import_module("torch.utils.mkldnn")


def saved(content):
    """Return a file in memory that holds what is given."""
    file = io.BytesIO()
    torch.save(content, file)
    file.seek(0)
    return file


def copied(state):
    """Return a plain dictionary of copies."""
    return {name: copy.deepcopy(each) for name, each in state.items()}


def unequal(first, second):
    """Return the names under which two dictionaries differ."""
    names = {*first, *second}
    return sorted(
        name
        for name in names
        if name not in first
        or name not in second
        or first[name].dtype != second[name].dtype
        or not torch.equal(first[name], second[name])
    )


def places(tensors):
    """Return where tensors have their numbers."""
    return {each.untyped_storage().data_ptr() for each in tensors}


def convolutional(classes):
    """Return a model with buffers."""
    norm = nn.BatchNorm2d(4)
    norm.running_mean.uniform_()
    norm.num_batches_tracked.random_(1, 1000)
    layers = [nn.Conv2d(1, 4, 3), norm, nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16, classes))


def nested(classes):
    """Return a model with a dictionary of layers, a scale and buffers."""
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    model = nn.ModuleDict({"block": layer, "head": nn.Linear(8, classes)})
    model.scale = nn.Parameter(torch.rand(()))
    model.register_buffer("steps", torch.randint(9, (2,)))
    model.register_buffer("mask", torch.rand(2), persistent=False)
    return model


MODELS = [convolutional, nested]


def tied():
    """Return a model whose two layers share a weight."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model


def fitted(run, snippet, model, weights):
    """Run the cell `what-fits` on another model, and return what it says."""
    text = snippet.cell("what-fits").code
    text = text.replace("build(classes=2)", "given")
    variables = {"torch": torch, "weights": weights, "given": model}
    with no_error():
        exec(text.replace("print(", "told = ("), variables)
    return variables["told"]


def test_what_fits_is_loaded(snippet, build=None):
    with no_error():
        run = after(snippet, *FILE, "what-fits")
    assert list(run.fits) == ["body.weight", "body.bias"]
    trained = run.trained.state_dict()
    differ = unequal(run.parity.state_dict(), trained)
    assert differ == ["head.bias", "head.weight"]

    build = build or run.build
    model, file = build(3), build(10).state_dict()
    file["of another name"] = file.pop(next(iter(file)))
    start, file = copied(model.state_dict()), copied(file)
    before = dict(model.named_parameters())
    told = fitted(run, snippet, model, file)
    after_it, expected = model.state_dict(), []
    assert [name for name, each in after_it.items() if each.is_meta] == []
    for name, tensor in after_it.items():
        fits = name in file and file[name].shape == tensor.shape
        assert torch.equal(tensor, (file if fits else start)[name]), name
        expected += [] if fits else [name]
    assert told.missing_keys == expected
    assert 0 < len(expected) < len(after_it)
    for name, parameter in model.named_parameters():
        assert parameter is before[name]


@pytest.mark.parametrize("build", MODELS)
def test_what_fits_is_loaded__also_for(snippet, build):
    test_what_fits_is_loaded(snippet, build)


def test_what_fits_is_loaded__also_for_lazy_layers_after_a_batch(snippet):
    def build(classes):
        model = not_sent_a_batch(classes)
        model(torch.ones(1, 4))
        return model

    test_what_fits_is_loaded(snippet, build)


def test_what_fits_is_loaded__also_by_one_of_two_tied(snippet):
    run = after(snippet, *FILE, "what-fits")
    for left in ("0.weight", "1.weight"):
        model, file = tied(), tied().state_dict()
        weight = file.pop(left)
        told = fitted(run, snippet, model, file)
        assert told.missing_keys == [left]
        assert model[0].weight.equal(weight)
        assert model[1].weight is model[0].weight


def in_half(classes):
    """Return a model of 16 bits, or a file of 32."""
    model = convolutional(classes)
    return model.half() if classes == 3 else model


def with_a_new_norm(classes):
    """Return a model with BatchNorm, or a file without."""
    model = convolutional(classes)
    return model if classes == 3 else nn.Sequential(model[0], *model[2:])


def not_sent_a_batch(classes):
    """Return a model with a lazy layer, or a file of a plain one."""
    kind = nn.LazyLinear if classes == 3 else partial(nn.Linear, 4)
    return nn.Sequential(kind(8), nn.Linear(8, classes))


@pytest.mark.parametrize("build", [in_half, with_a_new_norm, not_sent_a_batch])
def test_what_fits_is_loaded__ends_for(snippet, build, fails):
    """Numbers are rounded to the dtype of the model, a missing counter of
    BatchNorm is not listed, and a lazy layer without shapes raises an error.
    """
    fails(test_what_fits_is_loaded, snippet, build)


@edits(
    ("by the name alone", "and tensor.shape == own[name].shape", ""),
    (
        "without buffers",
        "own = parity.state_dict()",
        "own = dict(parity.named_parameters())",
    ),
    ("strictly", "(fits, strict=False)", "(fits)"),
)
def test_what_fits_is_loaded__but_not(snippet, old, new, fails):
    """A tensor of another shape raises an error, `named_parameters()` leaves
    out BatchNorm's statistics, and by default missing names raise.
    """
    fails(test_what_fits_is_loaded, snippet.edit(old, new), convolutional)


def called(load, model, file, strict):
    """Return the names that a function returns, or those in its error."""
    try:
        return [list(names) for names in load(model, file, strict=strict)]
    except RuntimeError as error:
        pattern = r"""['"]([\w.]+)['"]|size mismatch for ([\w.]+):"""
        found = re.findall(pattern, str(error))
        return sorted({one or other for one, other in found})


def trained_on(model):
    """Take three steps with an optimizer, and return what the model has."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for step in range(3):
        for number, parameter in enumerate(model.parameters()):
            if parameter.requires_grad:
                parameter.grad = torch.full_like(parameter, number - step)
        optimizer.step()
    return model.state_dict()


def shorter(state):
    """Return a file without its first tensor."""
    return {name: state[name] for name in list(state)[1:]}


def of_other_shapes(state):
    """Return a file whose tensors have one axis more, of size 1."""
    return {n: each[None] if each.dim() else each for n, each in state.items()}


def broadcastable(state):
    """Return a file in which each tensor would have to be stretched."""
    return {n: each.new_ones((1,) * each.dim()) for n, each in state.items()}


def with_more(state):
    """Return a file with two more names."""
    return state | {"a.b": torch.ones(2), "c": None}


BY_DEFAULT = (dict, shorter, with_more, broadcastable, of_other_shapes)
FILES = {
    "the whole file": dict,
    "in another order": lambda state: dict(reversed(state.items())),
    "one name fewer": shorter,
    "two names more": with_more,
    "with a prefix": lambda state: {f"old.{n}": state[n] for n in state},
    "of other shapes": of_other_shapes,
    "that would be stretched": broadcastable,
    "in float64": lambda state: {n: state[n].double() for n in state},
    "of parameters": lambda state: {
        n: nn.Parameter(each) if each.is_floating_point() else each
        for n, each in state.items()
    },
}


def test_thirteen_lines_are_load_state_dict(
    snippet, build=nested, changes=BY_DEFAULT, theirs=nn.Module.load_state_dict
):
    with no_error():
        run = after(snippet, *FILE, "by-hand", "compare")
    rows = printed[-1]["compare"].splitlines()
    told = [row.partition("same ")[2] for row in rows]
    assert told == ["names: True, same numbers: True"] * 8
    assert run.outcome(lambda *_: ([], []), {}, False)[0] == [[], []]

    torch.manual_seed(0)
    for change, strict in product(changes, (True, False)):
        state = build(3).state_dict()
        file = OrderedDict(change(state))
        file._metadata = state._metadata
        model = build(3)
        pair = [model, copy.deepcopy(model)]
        before = [dict(each.named_parameters()) for each in pair]
        loads = zip((run.load_state_dict, theirs), pair, strict=True)
        with no_error(), warnings.catch_warnings():
            warnings.simplefilter("error")
            results = [
                called(load, each, file, strict) for load, each in loads
            ]
        assert results[0] == results[1]
        assert unequal(*(each.state_dict() for each in pair)) == []
        for each, those in zip(pair, before, strict=True):
            for name, parameter in each.named_parameters():
                assert parameter is those[name]
        assert unequal(*(trained_on(each) for each in pair)) == []


@pytest.mark.parametrize("name", FILES)
def test_thirteen_lines_are_load_state_dict__also_for(snippet, name):
    for build in MODELS:
        options = (build, [FILES[name]])
        test_thirteen_lines_are_load_state_dict(snippet, *options)


@worlds.each("make", worlds.MODELS, "tied", "frozen in part", "float64")
def test_thirteen_lines_are_load_state_dict__also_for_a_model(snippet, make):
    test_thirteen_lines_are_load_state_dict(snippet, lambda _: make())


class Counting(nn.Linear):
    """A layer with extra state."""

    def get_extra_state(self):
        """Return what is saved besides the tensors."""
        return {"calls": 3}

    def set_extra_state(self, state):
        """Take it back."""


def without_counters(state):
    """Return a file without versions and BatchNorm's counters."""
    state._metadata.clear()
    return {n: state[n] for n in state if "num_batches" not in n}


def test_thirteen_lines_are_load_state_dict__ends_with_assign(snippet, fails):
    """With `assign=True`, the file's tensors become the parameters."""

    def assigning(model, file, strict):
        return model.load_state_dict(file, strict, assign=True)

    options = (snippet, convolutional, [dict], assigning)
    fails(test_thirteen_lines_are_load_state_dict, *options)


def with_old_statistics(state):
    """Return a file without versions in which there are statistics."""
    state._metadata.clear()
    return state | {"running_mean": torch.ones(2)}


ODD = {
    "a name in a layer before another": (
        nested,
        lambda state: state | {"head.x": torch.ones(1), "x": torch.ones(1)},
    ),
    "shape (1,) for ()": (nested, lambda s: s | {"scale": torch.ones(1)}),
    "a number that is no tensor": (nested, lambda s: {**s, "scale": 0.5}),
    "an array": (nested, lambda s: {**s, "scale": np.ones(())}),
    "a file without versions": (convolutional, without_counters),
    "old statistics": (
        lambda _: nn.InstanceNorm2d(2, affine=True),
        with_old_statistics,
    ),
    "a lazy layer": (lambda _: nn.LazyLinear(3), dict),
    "extra state": (lambda _: Counting(2, 3), dict),
    "a model on meta": (
        lambda _: nn.Linear(2, 3, device="meta"),
        lambda _: nn.Linear(2, 3).state_dict(),
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_thirteen_lines_are_load_state_dict__ends_for(snippet, name, fails):
    """PyTorch lists unexpected names layer by layer, loads shape (1,) into
    (), raises a `RuntimeError` for a value that isn't a tensor, forgives a
    file without versions that BatchNorm's counters are missing, refuses one
    with statistics that an InstanceNorm doesn't track, runs the hooks of lazy
    layers, hands extra state back, and warns of a model on `meta`.
    """
    build, change = ODD[name]
    fails(test_thirteen_lines_are_load_state_dict, snippet, build, [change])


OF_PARAMETERS = "{n: p.data for n, p in model.named_parameters()}"


@edits(
    ("1", "missing.append(name)  # 1", "pass"),
    ("2", "elif own[name].shape != state[name].shape:", "elif False:"),
    ("3", ".copy_(state[name])  # 3", ".add_(state[name])"),
    ("3 assigned", "own[name].copy_(state[name])", "own[name] = state[name]"),
    ("4", "for name in state if name not in own]  # 4", "for name in []]"),
    ("5", "if mismatched or (strict and", "if strict and (mismatched or"),
    ("buffers", "model.state_dict(), [", f"{OF_PARAMETERS}, ["),
)
def test_thirteen_lines_are_load_state_dict__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each of the numbered lines counts, and so do buffers."""
    fails(test_thirteen_lines_are_load_state_dict, snippet.edit(old, new))


def test_numbers_are_copied(snippet):
    run = after(snippet, *FILE)
    assert unequal(run.model.state_dict(), run.trained.state_dict()) == []
    own = places(run.model.state_dict().values())
    assert own & places(run.weights.values()) == set()

    for build in (run.build, *MODELS):
        model, file = build(3), build(3).state_dict()
        before, start = dict(model.named_parameters()), copied(file)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        model.load_state_dict(file)
        own = places(model.state_dict().values())
        assert own & places(file.values()) == set()
        for name, parameter in model.named_parameters():
            assert parameter is before[name]
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, start[name] - 1)
        assert unequal(file, start) == []


@edits(
    ("assigned", "dict(weights))\n\n", "dict(weights, assign=True))\n\n"),
    ("not loaded", "print(model.load_state_dict(weights))", ""),
)
def test_numbers_are_copied__but_not(snippet, old, new, fails):
    """With `assign=True` the model has the file's own tensors."""
    fails(test_numbers_are_copied, snippet.edit(old, new))


@pytest.fixture
def one_process():
    """Pretend that this process is the only one of a distributed training."""
    distributed = torch.distributed
    fake = import_module("torch.testing._internal.distributed.fake_pg")
    store = fake.FakeStore()
    distributed.init_process_group("fake", store=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_wrappers_add_a_prefix(snippet, wrap=nn.DataParallel):
    run = after(snippet, *FILE, "prefixes")
    name, rows = "body.weight", printed[-1]["prefixes"].split()
    assert rows == [f"module.{name}", name, f"_orig_mod.{name}", name, name]
    assert run.in_place._compiled_call_impl is not None

    for build in MODELS:
        model = build(3)
        names = list(model.state_dict())
        wrapped, compiled = wrap(model), torch.compile(model)
        assert list(wrapped.state_dict()) == [f"module.{n}" for n in names]
        assert list(compiled.state_dict()) == [f"_orig_mod.{n}" for n in names]
        inside = places(wrapped.module.state_dict().values())
        assert inside == places(compiled.state_dict().values())
        model.compile()
        assert list(model.state_dict()) == names


def test_wrappers_add_a_prefix__also_if_distributed(snippet, one_process):
    wrapper = nn.parallel.DistributedDataParallel
    test_wrappers_add_a_prefix(snippet, wrapper)


@edits(
    ("the model inside", "(parallel, inside, co", "(inside, inside, co"),
    ("compiled", "compiled = torch.compile(trained)", "compiled = trained"),
    ("in place", "in_place.compile()", "in_place = torch.compile(in_place)"),
)
def test_wrappers_add_a_prefix__but_not(snippet, old, new, fails):
    """It is the wrapper that adds the prefix."""
    fails(test_wrappers_add_a_prefix, snippet.edit(old, new))


WRONG = ("prefixes", "prefixed", "silent")


def test_a_prefix_loads_nothing(snippet, build=None, prefix="_orig_mod."):
    with no_error():
        run = after(snippet, *FILE, *WRONG)
    names = list(run.weights)
    assert run.skipped.missing_keys == names
    assert run.skipped.unexpected_keys == list(run.prefixed)
    assert printed[-1]["silent"].splitlines()[-1] < "accuracy 0.3"
    assert unequal(run.fresh.state_dict(), run.weights) == sorted(names)

    build = build or run.build
    model, file = build(3), build(3).state_dict()
    start = copied(model.state_dict())
    file = {f"{prefix}{name}": file[name] for name in file}
    model.load_state_dict(file, strict=False)
    assert unequal(model.state_dict(), start) == []


@pytest.mark.parametrize("prefix", ["module.", "model."])
def test_a_prefix_loads_nothing__also_for(snippet, prefix):
    for build in MODELS:
        test_a_prefix_loads_nothing(snippet, build, prefix)


@edits(
    ("without a prefix", "prefixed, strict", "trained.state_dict(), strict"),
    ("strictly", "(prefixed, strict=False)", "(prefixed)"),
)
def test_a_prefix_loads_nothing__but_not(snippet, old, new, fails):
    """Plain names are loaded, and by default other names raise."""
    fails(test_a_prefix_loads_nothing, snippet.edit(old, new))


LAYER = "nn.Sequential(OrderedDict(body=trained.body, head=torch.compile("
WRAPPED = {
    "parallel": "nn.DataParallel(trained)",
    "parallel, compiled": "torch.compile(nn.DataParallel(trained))",
    "compiled, parallel": "nn.DataParallel(compiled)",
    "a compiled layer": f"{LAYER}trained.head)))",
}


def test_a_replacement_cleans_the_names(snippet, wrapped="compiled"):
    with no_error():
        run = after(
            snippet.edit("compiled.state_dict()", f"{wrapped}.state_dict()"),
            *(*FILE, "prefixes", "prefixed", "without-prefix"),
        )
    names = list(run.trained.state_dict())
    assert list(run.prefixed) != names
    assert list(run.plain) == names
    differ = unequal(run.cured.state_dict(), run.trained.state_dict())
    assert differ == []


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_a_replacement_cleans_the_names__also_for(snippet, wrapped):
    test_a_replacement_cleans_the_names(snippet, WRAPPED[wrapped])


@edits(
    ("_orig_mod alone", '.removeprefix("module.")', ""),
    ("module alone", '.replace("_orig_mod.", "")', ""),
)
def test_a_replacement_cleans_the_names__but_not_one(snippet, old, new, fails):
    """For a model in both wrappers, both have to go."""
    both = WRAPPED["compiled, parallel"]
    fails(test_a_replacement_cleans_the_names, snippet.edit(old, new), both)


@pytest.mark.parametrize(
    "wrapped",
    [
        "torch.optim.swa_utils.AveragedModel(trained)",
        f"{LAYER.replace('torch.compile', 'nn.DataParallel')}trained.head)))",
    ],
    ids=["AveragedModel", "a layer in DataParallel"],
)
def test_a_replacement_cleans_the_names__ends_for(snippet, wrapped, fails):
    """`AveragedModel` adds a counter, and a layer in `DataParallel` has its
    `module.` in the middle of the name.
    """
    fails(test_a_replacement_cleans_the_names, snippet, wrapped)


def test_a_replacement_cleans_the_names__ends_for_a_layer(snippet, fails):
    """The name of a layer of your own, called `module`, is cut as well."""
    edited = snippet.edit('{"body": nn', '{"module": nn')
    fails(test_a_replacement_cleans_the_names, edited)


def test_a_mismatch_raises_after_loading(
    snippet, mine=(1,), theirs=(), builds=MODELS
):
    with no_error():
        run = after(snippet, *FILE, "size-mismatch")
    told = printed[-1]["size-mismatch"]
    assert "size mismatch for head" in told
    assert "key(s)" not in told
    body = {"body.weight": run.other.body.weight}
    assert unequal(body, {"body.weight": run.weights["body.weight"]}) == []

    for build, strict in product((run.build, *builds), (False, True)):
        model, file = build(3), build(10).state_dict()
        with pytest.raises(RuntimeError, match="size mismatch for "):
            model.load_state_dict(file, strict=strict)
        for name, tensor in model.state_dict().items():
            fits = tensor.shape == file[name].shape
            assert torch.equal(tensor, file[name]) == fits
    model = nn.Module()
    model.scale = nn.Parameter(torch.zeros(mine))
    with pytest.raises(RuntimeError, match="size mismatch for "):
        model.load_state_dict({"scale": torch.ones(theirs)}, strict=False)
    assert not model.scale.any()


def test_a_mismatch_raises_after_loading__ends_for_one_number(snippet, fails):
    """Shape (1,) in the file is loaded into shape () in the model."""
    fails(test_a_mismatch_raises_after_loading, snippet, (), (1,))


def test_a_mismatch_raises_after_loading__ends_for_a_lazy_layer(
    snippet, fails
):
    """A lazy layer that has seen no batch takes the shapes of the file."""

    def build(classes):
        return nn.LazyLinear(3) if classes == 3 else nn.Linear(4, classes)

    fails(test_a_mismatch_raises_after_loading, snippet, (1,), (), [build])


def test_a_mismatch_raises_after_loading__but_not_without_the_head(
    snippet, fails
):
    """Without the head in the file, no shapes differ."""
    edited = snippet.edit(
        "other.load_state_dict(weights",
        "other.load_state_dict({n: weights[n] for n in list(weights)[:2]}",
    )
    fails(test_a_mismatch_raises_after_loading, edited)


def test_assign_leaves_the_optimizer_behind(snippet, later=False, only=""):
    with no_error():
        run = after(snippet, *FILE, "casts", "assign")
    told = printed[-1]
    assert told["casts"] == "tensor([inf, inf, inf], dtype=torch.float16)\n"
    shown = ["tensor([70000., 70000., 70000.])"]
    shown += ["has a gradient: True", "changed by the step: False"]
    assert told["assign"].splitlines() == shown
    assert run.half.body.weight.equal(run.weights["body.weight"])
    [old, *_] = run.optimizer.param_groups[0]["params"]
    assert old is not run.half.body.weight

    kinds = (torch.optim.SGD, torch.optim.AdamW)
    for build, make in product(MODELS, kinds):
        model, file = build(3), build(3).double().state_dict()
        start, optimizer = copied(file), None
        part = {n: file[n] for n in file if n.startswith(only)}
        if not later:
            optimizer = make(model.parameters(), lr=0.1)
        model.load_state_dict(part, assign=True, strict=not only)
        if only:
            start = copied(model.state_dict())
        optimizer = optimizer or make(model.parameters(), lr=0.1)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        assert unequal(model.state_dict(), start) == []
        shared = places(model.state_dict().values())
        assert shared == places(file.values())

        elsewhere = {n: each.to("meta") for n, each in file.items()}
        model.load_state_dict(elsewhere, assign=True)
        devices = {str(each.device) for each in model.state_dict().values()}
        assert devices == {"meta"}


def test_assign_leaves_the_optimizer_behind__also_on_meta(snippet):
    run = after(snippet, *FILE, "meta")
    assert run.empty.body.weight.data_ptr() in places(run.weights.values())
    for build in MODELS:
        file = build(10).state_dict()
        with torch.device("meta"):
            model = build(10)
        with pytest.warns(UserWarning, match="which is a no-op"):
            model.load_state_dict(file)
        assert {each.is_meta for each in model.state_dict().values()} == {True}
        model.load_state_dict(file, assign=True)
        assert unequal(model.state_dict(), file) == []
    names = [name for name, each in model.named_buffers() if each.is_meta]
    assert names == ["mask"]  # the one that is not in the state dict


def test_assign_leaves_the_optimizer_behind__ends_if_made_later(
    snippet, fails
):
    """An optimizer made after loading changes the new parameters."""
    fails(test_assign_leaves_the_optimizer_behind, snippet, True)


def test_assign_leaves_the_optimizer_behind__ends_for_what_is_missing(
    snippet, fails
):
    """With `strict=False`, what the file lacks still follows the optimizer."""
    options = False, "0."
    fails(test_assign_leaves_the_optimizer_behind, snippet, *options)


def test_assign_leaves_the_optimizer_behind__also_for_tied_weights():
    for left_out in ("", "1.weight"):
        model, file = tied(), tied().state_dict()
        file = {n: file[n] for n in file if n != left_out}
        model.load_state_dict(file, assign=True, strict=False)
        assert model[0].weight is not model[1].weight
        model[1].weight = model[0].weight
        assert model[1].weight.equal(file["0.weight"])


def test_assign_leaves_the_optimizer_behind__but_not_without(snippet, fails):
    """Without `assign`, the numbers are converted to `float16`."""
    edited = snippet.edit("(large, assign=True)", "(large)")
    edited = edited.edit("half(pixels)", "half(pixels.half())")
    fails(test_assign_leaves_the_optimizer_behind, edited)


REFUSED = ("digits", "refused", "refused-globals")


@true_since("2.6", "by default, torch.load took every object")
def test_objects_are_refused(snippet):
    after(snippet, *REFUSED)
    told = printed[-1]["refused"]
    assert told.startswith("Weights only load failed.")
    assert "GLOBAL torch.nn.modules.container.Sequential was not" in told
    assert "\33" not in told
    rows = printed[-1]["refused-globals"].splitlines()
    kinds = ("Sequential", "scalar", "_reconstruct", "argparse.Name", "Path")
    for row, kind in zip(rows, kinds, strict=True):
        assert ": Unsupported global: GLOBAL " in row
        assert kind in row

    numbers = [np.float32(0.25), np.int64(1), np.bool_(True), np.ones((2, 2))]
    for content in (*numbers, nn.Linear(2, 2), convolutional(2), Path("runs")):
        for packed in (content, {"deep": [1, (content,)]}):
            with pytest.raises(pickle.UnpicklingError, match="Weights only"):
                torch.load(saved(packed))


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_objects_are_refused__also_in_a_later_protocol(protocol):
    state, file = nn.Linear(2, 2).state_dict(), io.BytesIO()
    torch.save(state, file, pickle_protocol=protocol)
    for content in (file.getvalue(), pickle.dumps(state, protocol)):
        with pytest.raises(pickle.UnpicklingError) as refused:
            torch.load(io.BytesIO(content))
        assert "Unsupported operand 149" in str(refused.value)
    assert unequal(pickle.loads(pickle.dumps(state, protocol)), state) == []
    with pytest.raises(RuntimeError, match="Invalid magic number"):
        torch.load(io.BytesIO(content), weights_only=False)


@edits(
    ("a state dict", 's = {"model": trained,', 's = {"model": None,'),
    ("a float", '"loss": loss, "mean": mean}', '"loss": 0.5, "mean": mean}'),
    ("a dictionary", '{"settings": settings, "f', '{"settings": {}, "f'),
    ("a string", '"folder": Path("runs")}', '"folder": "runs"}'),
)
def test_objects_are_refused__but_not(snippet, old, new, fails):
    """Plain values load."""
    fails(test_objects_are_refused, snippet.edit(old, new))


def test_plain_values_are_taken(snippet):
    with no_error():
        run = after(snippet, *REFUSED, "plain")
    assert unequal(run.loaded["model"], run.checkpoint["model"]) == []
    assert repr(run.loaded) == repr(run.checkpoint)
    assert printed[-1]["plain"] == "0.5 {'classes': 10} runs\n"

    kinds = ("float16", "float64", "uint8", "int64", "bool", "complex64")
    tensors = [torch.ones(2).to(getattr(torch, name)) for name in kinds]
    values = (None, True, 7, 10**599, -0.5, 1 + 2j, "text")
    deep = {"a": {1: [nn.Parameter(torch.ones(2, 2)), (3,)]}, 2.5: "b"}
    for content in (tensors, values, deep):
        assert repr(torch.load(saved([content]))) == repr([content])


@edits(
    ("a NumPy number", "float(loss),", "loss,"),
    ("settings", "vars(settings),", "settings,"),
    ("an array", "torch.from_numpy(mean),", "mean,"),
)
def test_plain_values_are_taken__but_not(snippet, old, new, fails):
    """With one such object in it, the whole file is refused."""
    fails(test_plain_values_are_taken, snippet.edit(old, new))


class Makes:
    """An object whose file makes a folder when it is opened."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_objects_are_refused__also_unless_allowed(snippet, tmp_path):
    with no_error():
        run = after(snippet, *REFUSED, "allowed")
    assert run.allowed == {"loss": 0.5, "settings": run.settings}
    scalar = "numpy._core.multiarray.scalar"
    assert run.wants == ["argparse.Namespace", scalar, "numpy.dtype"]
    with pytest.raises(pickle.UnpicklingError):  # after the block
        torch.load(run.old)
    # A NumPy number needs each of the three classes.
    for each in run.number:
        rest = [other for other in run.number if other is not each]
        refused = pytest.raises(pickle.UnpicklingError)
        with refused, SERIAL.safe_globals(rest):
            torch.load(saved(run.loss))
    *rest, _ = run.number
    with SERIAL.safe_globals([*rest, np.dtypes.Float32DType]):
        assert torch.load(saved(np.float32(0.5))) == 0.5
    # To list what a file names runs nothing in it.
    folder = tmp_path / "made"
    names = SERIAL.get_unsafe_globals_in_checkpoint(saved(Makes(folder)))
    assert names == [f"{os.mkdir.__module__}.mkdir"]
    assert not folder.exists()


@true_since("2.6", "by default, the function was called as well")
def test_weights_only_false_runs_the_file(snippet, tmp_path):
    with no_error():
        after(snippet, "digits", "runs-code")
    assert printed[-1]["runs-code"] == "the file printed this line\n"

    folder = tmp_path / "made"
    file = saved({"a": Makes(folder), "b": torch.ones(2)})
    with pytest.raises(pickle.UnpicklingError, match="Weights only load"):
        torch.load(file)
    assert not folder.exists()
    file.seek(0)
    with no_error():
        torch.load(file, weights_only=False)
    assert folder.is_dir()


@edits(
    ("by default", 'harmless.pt", weights_only=False', 'harmless.pt"'),
    ("a file with text", "torch.save(Harmless()", 'torch.save("text"'),
)
def test_weights_only_false_runs_the_file__but_not(
    snippet, tmp_path, old, new, fails
):
    """By default the file is refused, and text names no function."""
    edited = snippet.edit(old, new)
    fails(test_weights_only_false_runs_the_file, edited, tmp_path)


@pytest.mark.simulates("a file from a GPU")
def test_map_location_brings_them_here(snippet, monkeypatch, without=None):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = after(snippet, *FILE, "from-a-gpu", "no-gpu")
    with pytest.raises(RuntimeError) as raised:
        torch.load(run.moved, map_location=without)
    assert str(raised.value) == run.asked_for
    assert "deserialize object on a CUDA device but torch" in run.asked_for
    assert {each.device.type for each in run.here.values()} == {"cpu"}
    assert unequal(run.here, run.weights) == []


@edits(
    ("on meta", 'moved, map_location="cpu"', 'moved, map_location="meta"'),
    ("a file from a CPU", r'b"\6\0\0\0cuda:0"', r'b"\3\0\0\0cpu"'),
)
def test_map_location_brings_them_here__but_not(
    snippet, monkeypatch, old, new, fails
):
    """On `meta` there are no numbers, and a file from a CPU just loads."""
    edited = snippet.edit(old, new)
    fails(test_map_location_brings_them_here, edited, monkeypatch)


def test_views_save_their_storage(snippet):
    run = after(snippet, "digits", "sizes")
    assert run.sizes["table"] > run.table.nbytes
    assert abs(run.sizes["row"] - run.sizes["table"]) < 100
    assert run.sizes["own row"] < run.table[0].nbytes + 4000
    table = torch.ones(300, 200)
    for view in (table[:, :1], table.T[2:4], table.view(-1)[5]):
        parts = view, view.clone(), table
        size, own, whole = (len(saved(part).getvalue()) for part in parts)
        assert abs(size - whole) < 100
        assert own < view.nbytes + 4000


@edits(
    ("a clone", '"row": table[0],', '"row": table[0].clone(),'),
    ("a view", "table[0].clone()", "table[0]"),
)
def test_views_save_their_storage__but_not(snippet, old, new, fails):
    """A clone saves its own numbers, and a view the whole table."""
    fails(test_views_save_their_storage, snippet.edit(old, new))


def test_safetensors_refuse_the_rest(snippet, tmp_path, laid_out=torch.t):
    safe = pytest.importorskip("safetensors.torch", reason=NEEDED)
    run = after(snippet, *FILE, "safetensors")
    assert unequal(run.again, run.trained.state_dict()) == []
    told = printed[-1]["safetensors"].splitlines()
    assert told[1].startswith("Some tensors share memory")
    path = tmp_path / "weights"
    for value in (0.5, "text", None, [1.0], np.ones(2), {"a": torch.ones(2)}):
        with pytest.raises(ValueError, match="expected torch"):
            safe.save_file({"a": torch.ones(2), "b": value}, path)
    with pytest.raises(ValueError, match="save a non contiguous tensor"):
        safe.save_file({"a": laid_out(torch.ones(2, 3))}, path)

    last = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    for model, fresh in ((tied(), tied()), (last, nn.Conv2d(3, 4, 3))):
        with pytest.raises((RuntimeError, ValueError)):
            safe.save_file(model.state_dict(), path)
        with no_error():
            safe.save_model(model, path)
        safe.load_model(fresh, path)
        assert unequal(fresh.state_dict(), model.state_dict()) == []


def test_safetensors_refuse_the_rest__but_not_if_contiguous(
    snippet, tmp_path, fails
):
    """A contiguous tensor is taken."""
    pytest.importorskip("safetensors", reason=NEEDED)
    fails(test_safetensors_refuse_the_rest, snippet, tmp_path, torch.clone)


def test_safetensors_refuse_the_rest__but_not_two_layers(
    snippet, tmp_path, fails
):
    """Two layers with memories of their own are taken."""
    pytest.importorskip("safetensors", reason=NEEDED)
    edited = snippet.edit("[trained.body, trained.body]", "[trained.body]")
    fails(test_safetensors_refuse_the_rest, edited, tmp_path)
