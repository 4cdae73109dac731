"""The claims of docs/models/loading_weights.md."""

import argparse
import dataclasses
import io
import json
import os
import pickle
import warnings
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import no_error
from extensions.evidence.versions import older, true_since

NEEDED = "safetensors is not installed"
SERIAL = torch.serialization


@pytest.fixture(autouse=True, scope="module")
def _compiler():
    """Let torch say of what ``torch.compile`` imports that it is old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import_module("torch.utils.mkldnn")


@pytest.fixture(autouse=True)
def _globals():
    """Leave what torch.load allows as it was."""
    if not hasattr(SERIAL, "get_safe_globals"):  # it allows nothing besides
        yield
        return
    before = SERIAL.get_safe_globals()
    yield
    SERIAL.clear_safe_globals()
    SERIAL.add_safe_globals(before)


def saved(content):
    """Return a file in memory that holds what is given."""
    file = io.BytesIO()
    torch.save(content, file)
    file.seek(0)
    return file


def equal(first, second):
    """Say whether two dictionaries hold the same tensors by name."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype
        and torch.equal(first[name], second[name])
        for name in first
    )


def copied(state):
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def convolutional(classes):
    """Return a model with buffers."""
    norm = nn.BatchNorm2d(4)
    norm.running_mean.uniform_()
    norm.num_batches_tracked.random_(1, 1000)
    layers = [nn.Conv2d(1, 4, 3), norm, nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16, classes))


def nested(classes):
    """Return a model with a dictionary of layers, a scale and a buffer."""
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    model = nn.ModuleDict({"block": layer, "head": nn.Linear(8, classes)})
    model.scale = nn.Parameter(torch.rand(()))
    model.register_buffer("steps", torch.randint(9, (2,)))
    return model


def dtypes(*names):
    """Return those dtypes that torch has: some are younger than others."""
    return [getattr(torch, each) for each in names if hasattr(torch, each)]


MODELS = [convolutional, nested]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = dtypes("uint8", "uint16", "int16", "int64")
EIGHTS = dtypes("float8_e4m3fn", "float8_e5m2", "int8")
DTYPES = [*FLOATS, *INTEGERS, *EIGHTS, torch.bool]


def tied(tie=True):
    """Return a model whose two layers share a weight."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    if tie:
        model[1].weight = model[0].weight
    return model


# Do this


def test_what_fits_is_loaded(snippet, build=None):
    with no_error():
        run = snippet.after("three-classes")
        build = build or run.classifier
        mine, theirs = build(3), build(10).state_dict()
        first = next(iter(theirs))
        theirs["of another name"] = theirs.pop(first)
        start, file = copied(mine.state_dict()), copied(theirs)
        before = dict(mine.named_parameters())
        run.load_what_fits(mine, theirs)
        run.load_what_fits(run.letters, run.weights)

    loaded = 0
    for name, tensor in mine.state_dict().items():
        fits = name in file and file[name].shape == tensor.shape
        assert not tensor.is_meta
        assert torch.equal(tensor, (file if fits else start)[name])
        loaded += fits and not torch.equal(tensor, start[name])
    assert loaded > 0
    for name, parameter in mine.named_parameters():
        assert parameter is before[name]
        assert parameter.requires_grad

    layer, flat = nn.Linear(2, 2), torch.rand(4)
    start = copied(layer.state_dict())
    with no_error():
        run.load_what_fits(layer, {"weight": flat, "bias": flat[:2]})
    assert torch.equal(layer.weight, start["weight"])
    assert torch.equal(layer.bias, flat[:2])
    start = copied(layer.state_dict())
    with no_error():
        run.load_what_fits(layer, {"weight": torch.rand(2, 3)})
        run.load_what_fits(layer, {"bias": torch.ones(2).double()})
    assert torch.equal(layer.weight, start["weight"])
    assert layer.bias.tolist() == [1, 1]
    assert torch.equal(run.letters.body.weight, run.weights["body.weight"])
    assert torch.equal(run.letters.body.bias, run.weights["body.bias"])


@pytest.mark.parametrize("build", MODELS)
def test_what_fits_is_loaded__also_for(snippet, build):
    test_what_fits_is_loaded(snippet, build)


LOADING = (
    "    model.load_state_dict("
    "{name: weights[name] for name in fits}, strict=False)\n"
)
ZEROED = "    for name in own.keys() - fits: own[name].zero_()\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LOADING, ""),
        (LOADING, LOADING + ZEROED),
        (" if own[name].shape == weights[name].shape]", "]"),
        (
            "own[name].shape == weights[name].shape",
            "own[name].numel() == weights[name].numel()",
        ),
        ("{name: weights[name] for", "{name: weights[name] + 1 for"),
        ("name in fits}, strict=False)", "name in fits})"),
    ],
    ids=[
        "without loading",
        "with zeros for the rest",
        "without a look at the shapes",
        "with a look at the number of numbers",
        "with other numbers",
        "with strict",
    ],
)
def test_what_fits_is_loaded__but_not(snippet, old, new, fails):
    """Without the call, nothing is loaded; the other edits change numbers, or
    load what does not fit, and raise.
    """
    fails(test_what_fits_is_loaded, snippet.edit(old, new))


def test_what_fits_is_loaded__but_not_buffers_left_out(snippet, fails):
    """`named_parameters()` has no buffers, so BatchNorm's running statistics
    are not loaded.
    """
    edited = snippet.edit(
        "own = model.state_dict()", "own = dict(model.named_parameters())"
    )
    fails(test_what_fits_is_loaded, edited, convolutional)


def test_what_fits_is_loaded__ends_in_another_dtype(snippet, fails):
    """In another dtype: the numbers are rounded to the dtype of the model."""

    def build(classes):
        model = convolutional(classes)
        return model.half() if classes == 3 else model

    fails(test_what_fits_is_loaded, snippet, build)


class Remembering(nn.Linear):
    """A layer with extra state."""

    def get_extra_state(self):
        """Return what is saved besides the tensors."""
        return {"calls": 3}

    def set_extra_state(self, state):
        """Take nothing back."""


def lazy(classes):
    """Return a model that waits for its first batch, or a file for it."""
    first = nn.LazyLinear(4) if classes == 3 else nn.Linear(5, 4)
    return nn.Sequential(nn.Linear(5, 5), first, nn.Linear(4, classes))


def remembering(classes):
    """Return a model with extra state."""
    return nn.Sequential(nn.Linear(2, 2), Remembering(2, classes))


def without_data(classes):
    """Return a model on ``meta``, or a file for it."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, classes))
    return model.to("meta") if classes == 3 else model


ODD = {
    "lazy layers": lazy,
    "extra state": remembering,
    "no data, on meta": without_data,
}


@pytest.mark.parametrize("build", ODD.values(), ids=ODD)
def test_what_fits_is_loaded__ends_for_a_model_with(snippet, build, fails):
    """With lazy layers or extra state it raises, and into a model on `meta` it
    loads nothing and warns.
    """
    fails(test_what_fits_is_loaded, snippet, build)


@pytest.mark.parametrize("name", ["0.weight", "1.weight"])
def test_one_of_two_tied_is_enough__also_by(snippet, name):
    test_one_of_two_tied_is_enough(snippet, name)


def test_one_of_two_tied_is_enough(snippet, left="1.weight", tie=True):
    run = snippet.after("load-what-fits")
    model, file = tied(tie), tied().state_dict()
    weight = file.pop(left)
    with no_error():
        report = run.load_what_fits(model, file)
    assert report == {"missing": [left], "unexpected": [], "other shape": []}
    assert torch.equal(model[0].weight, weight)
    assert torch.equal(model[1].weight, weight)


def test_one_of_two_tied_is_enough__ends_for_two_that_are_not(snippet, fails):
    """For two weights that are not tied: they are two tensors, so the second
    stays as it was.
    """
    fails(test_one_of_two_tied_is_enough, snippet, "1.weight", False)


def test_one_of_two_tied_is_enough__but_not_without_loading(snippet, fails):
    """Without the call, neither of the two is loaded."""
    fails(test_one_of_two_tied_is_enough, snippet.edit(LOADING, ""))


def test_one_of_two_tied_is_enough__but_not_if_it_is_not_called_missing(
    snippet, fails
):
    """`named_parameters()` names tied weights only once, so the report never
    calls the other missing.
    """
    edited = snippet.edit(
        '"missing": [name for name in own if',
        '"missing": [name for name, _ in model.named_parameters() if',
    )
    fails(test_one_of_two_tied_is_enough, edited)


NO_SHAPE = {"other shape": []}


def test_the_report_names_the_rest(snippet, build=None):
    run = snippet.after("three-classes")
    head = ["head.weight", "head.bias"]
    assert run.report == {
        "missing": [],
        "unexpected": [],
        "other shape": head,
    }

    mine = (build or run.classifier)(3)
    theirs = (build or run.classifier)(10).state_dict()
    names = list(mine.state_dict())
    for name in names[:2]:
        theirs[f"old.{name}"] = theirs.pop(name)
    shapes = {n: tensor.shape for n, tensor in mine.state_dict().items()}
    other = [n for n in names[2:] if theirs[n].shape != shapes[n]]
    assert len(other) == 2
    assert run.load_what_fits(mine, theirs) == {
        "missing": names[:2],
        "unexpected": [f"old.{name}" for name in names[:2]],
        "other shape": other,
    }


def test_the_report_names_the_rest__also_for_a_layer_without_bias(snippet):
    run = snippet.after("load-what-fits")
    plain, biased = nn.Linear(3, 2, bias=False), nn.Linear(3, 2)
    one, other = nn.Sequential(plain), nn.Sequential(biased)
    found = run.load_what_fits(one, other.state_dict())
    assert found == {"missing": [], "unexpected": ["0.bias"], **NO_SHAPE}
    found = run.load_what_fits(other, one.state_dict())
    assert found == {"missing": ["0.bias"], "unexpected": [], **NO_SHAPE}


@pytest.mark.parametrize("build", MODELS)
def test_the_report_names_the_rest__also_for(snippet, build):
    test_the_report_names_the_rest(snippet, build)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            '"missing": [name for name in own if name not in weights]',
            '"missing": [name for name in own if name not in fits]',
        ),
        (
            '"unexpected": [name for name in weights if name not in own]',
            '"unexpected": [name for name in weights if name not in fits]',
        ),
        (
            '"other shape": [name for name in both if name not in fits]',
            '"other shape": [name for name in own if name not in fits]',
        ),
    ],
    ids=["missing", "unexpected", "other shape"],
)
def test_the_report_names_the_rest__but_not_all_alike(
    snippet, old, new, fails
):
    """Each name belongs in one list: compared with `fits` or `own` instead,
    some stand in two.
    """
    fails(test_the_report_names_the_rest, snippet.edit(old, new))


# How it works


def test_weights_go_by_name(snippet, build=None):
    orders, load = [], nn.Module.load_state_dict

    def noted(model, state, *args, **options):
        orders.append(list(state))
        return load(model, state, *args, **options)

    with patch.object(nn.Module, "load_state_dict", noted):
        run = snippet.after("backwards")
    assert orders[-1] == list(run.backwards)
    assert list(run.backwards) == list(run.weights)[::-1]
    run.backwards["body.weight"].copy_(run.weights["body.weight"])
    assert equal(run.reader.state_dict(), dict(run.backwards))

    for seed in range(3):
        theirs = (build or run.classifier)(4).state_dict()
        torch.manual_seed(seed)
        order = torch.randperm(len(theirs)).tolist()
        shuffled = [list(theirs.items())[i] for i in order]
        mine = (build or run.classifier)(4)
        mine.load_state_dict(dict(shuffled))
        assert equal(mine.state_dict(), theirs)


def alike(size):
    """Return a model whose layers differ in name alone."""
    return nn.Sequential(*(nn.Linear(size, size) for _ in range(4)))


@pytest.mark.parametrize("build", [*MODELS, alike])
def test_weights_go_by_name__also_for(snippet, build):
    test_weights_go_by_name(snippet, build)


def test_weights_go_by_name__but_not_by_the_order(snippet, fails):
    """Paired by position, the head's bias lands in the body's weight."""
    edited = snippet.edit(
        "reader.load_state_dict(backwards)",
        "pairs = zip(reader.parameters(), backwards.values())\n"
        "for mine, theirs in pairs: mine.data = theirs.clone()\n"
        "layer = reader.body.weight",
    ).edit("layer.data[0, :3]", "layer.data[:3]")
    fails(test_weights_go_by_name, edited)


def test_numbers_are_copied(snippet, build=None):
    run = snippet.after("backwards")
    assert run.reader.body.weight is run.layer
    assert equal(run.reader.state_dict(), run.weights)
    assert run.backwards["body.weight"].eq(0).all()
    places = {
        tensor.untyped_storage().data_ptr()
        for tensor in run.backwards.values()
    }
    for tensor in run.reader.state_dict().values():
        assert tensor.untyped_storage().data_ptr() not in places

    mine = run.reader if build is None else build(3)
    theirs = (build or run.classifier)(3 if build else 10).state_dict()
    before = dict(mine.named_parameters())
    optimizer = torch.optim.SGD(mine.parameters(), lr=1.0)
    mine.load_state_dict(theirs)
    places = {
        tensor.untyped_storage().data_ptr() for tensor in theirs.values()
    }
    for name, parameter in mine.named_parameters():
        assert parameter is before[name]
        parameter.grad = torch.ones_like(parameter)
    for tensor in mine.state_dict().values():
        assert tensor.untyped_storage().data_ptr() not in places
    optimizer.step()
    for name, parameter in mine.named_parameters():
        assert torch.equal(parameter, theirs[name] - 1)


@pytest.mark.parametrize("build", MODELS)
def test_numbers_are_copied__also_for(snippet, build):
    test_numbers_are_copied(snippet, build)


def test_numbers_are_copied__but_not_assigned(snippet, fails):
    """With `assign=True`, the file's tensors become the parameters, instead of
    filling those that are there.
    """
    edited = snippet.edit(
        "reader.load_state_dict(backwards)",
        "reader.load_state_dict(backwards, assign=True)",
    )
    fails(test_numbers_are_copied, edited)


@pytest.mark.parametrize(
    "new",
    [
        'reader.body.weight = nn.Parameter(weights["body.weight"].clone())',
        'reader.head.bias.data = backwards["head.bias"]',
        "reader.head.bias.data.zero_()",
    ],
    ids=["into a new parameter", "with a bias in shared memory", "a bias"],
)
def test_numbers_are_copied__but_not(snippet, new, fails):
    """A new parameter, shared memory or a bias of zeros afterwards undoes what
    loading did.
    """
    loading = "reader.load_state_dict(backwards)\n"
    edited = snippet.edit(loading, f"{loading}{new}\n")
    fails(test_numbers_are_copied, edited)


# What torch.load refuses


class OwnModel(nn.Linear):
    """A model of one's own."""


@true_since("2.6", "by default, torch.load took every object")
def test_objects_are_refused(snippet):
    run = snippet.after("refused")

    assert len(run.refused) == 5
    assert None not in run.refused.values()
    kinds = ("Sequential", "numpy", "numpy", "argparse.Namespace", "athlib")
    assert "_reconstruct" in run.refused["a NumPy array"]
    for kind, text in zip(kinds, run.refused.values(), strict=True):
        assert kind in text.replace("Posix", "")
        assert text.startswith("Weights only load failed.")
        assert "WeightsUnpickler error: Unsupported global: GLOBAL " in text
        assert "\33" not in text


@pytest.mark.parametrize(
    "content",
    [
        nn.Linear(2, 2),
        OwnModel(2, 1),
        convolutional(2),
        np.float64(0.5),
        np.float32(0.25),
        np.int64(1),
        np.bool_(True),
        np.zeros(3),
        np.zeros((2, 2), dtype=np.int32),
        argparse.Namespace(),
        argparse.Namespace(lr=0.1, name="a"),
        Path("runs/first"),
    ],
    ids=[
        "a layer",
        "a model of your own",
        "a convolutional model",
        "np.float64",
        "np.float32",
        "np.int64",
        "np.bool_",
        "an array of floats",
        "an array of integers",
        "an empty namespace",
        "a namespace with options",
        "a path",
    ],
)
def test_objects_are_refused__also_for(content):
    for packed in (content, {"deep": [1, (content,)]}):
        with pytest.raises(pickle.UnpicklingError, match="Weights only load"):
            torch.load(saved(packed))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("refusal(trained)", "refusal(trained.state_dict())"),
        ('refusal({"mean": np.zeros(64)})', "refusal(torch.zeros(64))"),
        ('refusal({"settings": settings})', "refusal(vars(settings))"),
        ('Path("runs")', '"runs"'),
        (
            "torch.load(saved(content))",
            "torch.load(saved(content), weights_only=False)",
        ),
    ],
    ids=["its state", "a tensor", "a dictionary", "a string", "in full"],
)
def test_objects_are_refused__but_not(snippet, old, new, fails):
    """Saved as plain values, each of these loads; with `weights_only=False`,
    so do the objects.
    """
    fails(test_objects_are_refused, snippet.edit(old, new))


def test_objects_are_refused__but_not_made_plain(snippet, fails):
    """`float(loss)` is a plain number, so the file loads."""
    edited = snippet.edit(
        'refusal({"loss": loss})', 'refusal({"loss": float(loss)})'
    )
    fails(test_objects_are_refused, edited)


def same_values(first, second):
    """Say whether two contents are equal, in their types as well."""
    if type(first) is not type(second):
        return False
    if isinstance(first, torch.Tensor):
        return equal({"a": first}, {"a": second})
    if isinstance(first, dict):
        pairs = zip(first.items(), second.items(), strict=True)
        return all(same_values(*pair) for pair in pairs)
    if isinstance(first, list | tuple):
        pairs = zip(first, second, strict=True)
        return all(same_values(*pair) for pair in pairs)
    return first == second


def test_plain_values_are_taken(snippet):
    with no_error():
        run = snippet.after("plain")

    assert same_values(run.loaded, run.checkpoint)
    assert same_values(run.loaded["loss"], 0.5)
    assert same_values(run.loaded["settings"], {"classes": 10})
    assert equal(run.loaded["weights"], run.trained.state_dict())


@pytest.mark.parametrize(
    "content",
    [
        [torch.ones(2).to(dtype) for dtype in DTYPES],
        [
            torch.ones(2).to(dtype)
            for dtype in dtypes(
                "uint32", "uint64", "int32", "complex64", "complex128"
            )
        ],
        nn.Parameter(torch.ones(2, 2)),
        None,
        True,
        7,
        10**599,
        -(10**599),
        -0.5,
        1 + 2j,
        "text",
        [1, [2.5, None]],
        (1, ("a", [False])),
        {"a": {1: [torch.ones(2), (3,)]}, 2.5: "b"},
    ],
    ids=repr,
)
def test_plain_values_are_taken__also_for(content):
    for packed in (content, [content], {"a": (content,)}):
        assert same_values(torch.load(saved(packed)), packed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"loss": float(loss)', '"loss": loss'),
        ("vars(settings)}", "settings}"),
        (
            'checkpoint = {"weights": trained.state_dict()}',
            'checkpoint = {"weights": trained}',
        ),
    ],
    ids=["a NumPy number", "settings", "a model"],
)
def test_plain_values_are_taken__but_not(snippet, old, new, fails):
    """With one NumPy number, `Namespace` or whole model in the dict, the file
    is refused.
    """
    fails(test_plain_values_are_taken, snippet.edit(old, new))


@pytest.mark.parametrize(
    "loss",
    ["Path()", "np.zeros(2)", "nn.UninitializedParameter()"],
)
def test_plain_values_are_taken__but_not_with(snippet, loss, fails):
    """Each of these is of a class that `torch.load` does not take by
    default.
    """
    edited = snippet.edit('"loss": float(loss)', f'"loss": {loss}')
    fails(test_plain_values_are_taken, edited)


def test_plain_values_are_taken__ends_for_an_int_of_700_digits(snippet, fails):
    """For an `int` of 700 digits: the file is refused."""
    edited = snippet.edit('"loss": float(loss)', '"loss": 10**700')
    fails(test_plain_values_are_taken, edited)


class Makes:
    """An object whose file makes a folder when it is opened."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@dataclasses.dataclass
class Settings:
    """Settings in a class of one's own."""

    rate: float


def test_a_look_calls_nothing(snippet, tmp_path):
    run = snippet.after("allowed")
    assert set(run.wants) == {
        "argparse.Namespace",
        "numpy._core.multiarray.scalar",
        "numpy.dtype",
    }

    folder = tmp_path / "made"
    names = run.look(saved({"a": Makes(folder), "b": torch.ones(2)}))
    assert not folder.exists()
    assert names == [f"{os.mkdir.__module__}.mkdir"]
    assert run.look(saved(Settings(0.1))) == [f"{__name__}.Settings"]
    assert run.look(saved({"a": torch.ones(2)})) == []


@pytest.mark.parametrize(
    "look",
    [
        "lambda file: []",
        "lambda file: [torch.load(file, weights_only=False)] and "
        "['argparse.Namespace', 'numpy._core.multiarray.scalar', "
        "'numpy.dtype']",
        "lambda file: ['collections.OrderedDict', *torch.serialization."
        "get_unsafe_globals_in_checkpoint(file)]",
    ],
    ids=["in an empty list", "in a full load", "of a class that is taken"],
)
def test_a_look_calls_nothing__but_not(snippet, tmp_path, look, fails):
    """An empty list tells you nothing, a full load runs the file, and
    `OrderedDict` is never refused.
    """
    edited = snippet.edit(
        "look = torch.serialization.get_unsafe_globals_in_checkpoint",
        f"look = {look}",
    )
    fails(test_a_look_calls_nothing, edited, tmp_path)


def test_safe_globals_open_a_block(
    snippet, content=None, forever=None, keeps=False
):
    with no_error():
        run = snippet.after("allowed")
    assert run.allowed == {"loss": 0.5, "settings": run.settings}
    with pytest.raises(pickle.UnpicklingError, match="Weights only load"):
        torch.load(saved(run.old))
    with (
        patch.object(SERIAL, "safe_globals", lambda _: nullcontext()),
        pytest.raises(pickle.UnpicklingError, match="Weights only load"),
    ):
        snippet.after("allowed")

    content = content or run.settings
    with no_error(), SERIAL.safe_globals([type(content)]):
        assert torch.load(saved(content)) == content
    with pytest.raises(pickle.UnpicklingError, match="Weights only load"):
        torch.load(saved(content))
    (forever or SERIAL.add_safe_globals)([type(content)])
    with no_error():
        assert torch.load(saved(content)) == content
        assert torch.load(saved([content])) == [content]
    with SERIAL.safe_globals([] if keeps else [type(content)]):
        pass
    with pytest.raises(pickle.UnpicklingError, match="Weights only load"):
        torch.load(saved(content))


@pytest.mark.parametrize(
    "content",
    [argparse.Namespace(rate=0.1, layers=[1, 2]), Settings(0.1)],
    ids=repr,
)
def test_safe_globals_open_a_block__also_for(snippet, content):
    test_safe_globals_open_a_block(snippet, content)


OPENING = "with torch.serialization.safe_globals([argparse.Namespace, *number]"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            f"{OPENING}):",
            "torch.serialization.add_safe_globals("
            "[argparse.Namespace, *number])\nif True:",
        ),
        (OPENING, "with torch.serialization.safe_globals(number"),
    ],
    ids=["once added", "without the class"],
)
def test_safe_globals_open_a_block__but_not(snippet, old, new, fails):
    """With `add_safe_globals`, no block ends and the class stays allowed;
    without the class, the file is refused.
    """
    fails(test_safe_globals_open_a_block, snippet.edit(old, new))


def test_safe_globals_open_a_block__ends_without_with(snippet, fails):
    """Called without `with`: `safe_globals` opens no block, so the file is
    refused.
    """
    fails(test_safe_globals_open_a_block, snippet, None, SERIAL.safe_globals)


def test_safe_globals_open_a_block__ends_for_a_block_of_others(snippet, fails):
    """If the block lists other classes: it takes only its own back when it
    ends, so this one stays allowed.
    """
    add = SERIAL.add_safe_globals
    fails(test_safe_globals_open_a_block, snippet, None, add, True)


def test_safe_globals_open_a_block__ends_with_a_path_in_it(snippet, fails):
    """For settings that hold a `Path`: it is not on the list."""
    content = argparse.Namespace(folder=Path("runs"))
    fails(test_safe_globals_open_a_block, snippet, content)


def test_a_numpy_number_needs_three(snippet):
    run = snippet.after("allowed")

    for value in (np.float64(0.5), {"loss": np.float64(-7)}):
        with no_error(), SERIAL.safe_globals(run.number):
            assert torch.load(saved(value)) == value
        for name in run.number:
            others = [each for each in run.number if each is not name]
            with (
                SERIAL.safe_globals(others),
                pytest.raises(pickle.UnpicklingError),
            ):
                torch.load(saved(value))
    assert len(run.number) == 3
    assert set(run.look(saved(np.float64(0.5)))) == {
        "numpy._core.multiarray.scalar",
        "numpy.dtype",
    }


def test_a_numpy_number_needs_three__but_not_a_fourth(snippet, fails):
    """Here `number` has a fourth class that the file does not need: it loads
    without it.
    """
    edited = snippet.edit("[np._core", "[np.ndarray, np._core")
    fails(test_a_numpy_number_needs_three, edited)


def test_a_numpy_number_needs_three__but_not_all_are_listed(snippet, fails):
    """This edit appends the third name by hand; PyTorch's own list leaves it
    out.
    """
    look = "torch.serialization.get_unsafe_globals_in_checkpoint"
    edited = snippet.edit(
        f"look = {look}",
        f'look = lambda file: [*{look}(file), "numpy.dtypes.Float64DType"]',
    )
    fails(test_a_numpy_number_needs_three, edited)


def test_a_numpy_number_needs_three__but_not_two(snippet, fails):
    """Allow only two of the three, and the number is refused."""
    edited = snippet.edit(
        "np.dtypes.Float64DType]", "np.dtypes.Float64DType][1:]"
    ).edit("    allowed = torch.load(saved(old))", "    allowed = None")
    fails(test_a_numpy_number_needs_three, edited)


@true_since("2.6", "by default, the function was called as well")
def test_weights_only_false_runs_the_file(
    snippet, capsys, tmp_path, trusting=False, usual=None
):
    # What the file does is to print.
    with patch.object(torch, "load", wraps=torch.load) as load:
        snippet.only("trained", "saved", "runs-code").after("runs-code")
    assert load.call_args.kwargs == {"weights_only": False}
    assert capsys.readouterr().out.endswith("the file printed this line\n")

    folder = tmp_path / "made"
    file = saved({"a": Makes(folder), "b": torch.ones(2)})
    with pytest.raises(pickle.UnpicklingError, match="Weights only load"):
        torch.load(file, weights_only=usual)
    assert not folder.exists()
    file.seek(0)
    with no_error():
        torch.load(file, weights_only=trusting)
    assert folder.is_dir()


def test_weights_only_false_runs_the_file__ends_if_weights_only_is_true(
    snippet, capsys, tmp_path, fails
):
    """With `weights_only=True`: the file is refused."""
    fails(
        test_weights_only_false_runs_the_file, snippet, capsys, tmp_path, True
    )


def test_weights_only_false_runs_the_file__but_is_not_the_default(
    snippet, capsys, tmp_path, fails
):
    """With `weights_only=False` in place of the default, the file is not
    refused.
    """
    fails(
        test_weights_only_false_runs_the_file,
        snippet,
        capsys,
        tmp_path,
        False,
        False,
    )


def test_weights_only_false_runs_the_file__but_not_if_it_names_nothing(
    snippet, capsys, tmp_path, fails
):
    """A file that holds only text names no function, so nothing is called."""
    edited = snippet.edit(
        "saved(Harmless())", 'saved("the file printed this line")'
    )
    fails(test_weights_only_false_runs_the_file, edited, capsys, tmp_path)


# Missing and unexpected keys


@pytest.fixture
def one_process():
    """Pretend that this process is the only one of a distributed training."""
    distributed = torch.distributed
    if not distributed.is_available():
        pytest.skip("torch was built without distributed")
    fake = import_module("torch.testing._internal.distributed.fake_pg")
    distributed.init_process_group(
        "fake", store=fake.FakeStore(), rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


def test_wrappers_add_a_prefix(snippet, wrap=None):
    run = snippet.after("prefixes")
    names = list(run.classifier(10).state_dict())
    parallel, compiled, in_place = (
        list(model.state_dict())
        for model in (run.parallel, run.compiled, run.in_place)
    )
    assert parallel == [f"module.{name}" for name in names]
    assert compiled == [f"_orig_mod.{name}" for name in names]
    assert in_place == names
    assert in_place_is_compiled(run)

    for build in MODELS:
        model = build(3)
        names = list(model.state_dict())
        wrapped = list((wrap or nn.DataParallel)(model).state_dict())
        assert wrapped == [f"module.{name}" for name in names]
        wrapped = list(torch.compile(model).state_dict())
        assert wrapped == [f"_orig_mod.{name}" for name in names]
        model.compile()
        assert list(model.state_dict()) == names


def in_place_is_compiled(run):
    """Say whether calls of the model go through the compiler."""
    return run.in_place._compiled_call_impl is not None


def test_wrappers_add_a_prefix__also_if_distributed(snippet, one_process):
    wrapper = nn.parallel.DistributedDataParallel
    test_wrappers_add_a_prefix(snippet, wrapper)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "parallel = nn.DataParallel(classifier(classes=10))",
            "parallel = classifier(classes=10)",
        ),
        ("compiled = torch.compile(original)", "compiled = original"),
        (
            "in_place = classifier(classes=10)\nin_place.compile()",
            "in_place = torch.compile(classifier(classes=10))",
        ),
        ("in_place.compile()", "in_place.eval()"),
    ],
    ids=["parallel", "compiled", "a compiled copy", "compiled in place"],
)
def test_wrappers_add_a_prefix__but_not_unless(snippet, old, new, fails):
    """It is the wrapper that adds the prefix; two edits swap `model.compile()`
    for a wrapper, or leave it out.
    """
    fails(test_wrappers_add_a_prefix, snippet.edit(old, new))


def test_wrappers_add_a_prefix__ends_for_a_sequence(snippet, fails):
    """For `nn.Sequential`: it puts an index before each name, not
    `module.`.
    """
    fails(test_wrappers_add_a_prefix, snippet, nn.Sequential)


def test_wrappers_add_a_prefix__ends_around_another_wrapper(snippet, fails):
    """Around another wrapper: the prefixes add up."""
    edited = snippet.edit(
        "compiled = torch.compile(original)",
        "compiled = torch.compile(nn.DataParallel(original))",
    )
    fails(test_wrappers_add_a_prefix, edited)


def test_strict_false_returns_the_rest(snippet, strict=False):
    run = snippet.after("silent")
    names = list(run.original.state_dict())
    assert all(f'"{name}"' in run.told for name in [*names, *run.prefixed])
    assert run.skipped.missing_keys == names
    assert run.skipped.unexpected_keys == list(run.prefixed)

    for model, build in [
        (run.fresh, run.classifier),
        *((build(10), build) for build in MODELS),
    ]:
        names = list(model.state_dict())
        file = build(10).state_dict()
        start = copied(model.state_dict())
        file["renamed"] = file.pop(names[0])
        wanted = copied(file)
        with no_error():
            skipped = model.load_state_dict(file, strict=strict)
        assert skipped.missing_keys == [names[0]]
        assert skipped.unexpected_keys == ["renamed"]
        own = model.state_dict()
        assert torch.equal(own.pop(names[0]), start[names[0]])
        assert all(torch.equal(own[name], wanted[name]) for name in own)


def test_strict_false_returns_the_rest__ends_with_strict(snippet, fails):
    """With `strict=True`: it raises instead of returning names."""
    fails(test_strict_false_returns_the_rest, snippet, True)


HOOKS = {
    "what is missing": "post_hook(lambda _, keys: keys.missing_keys.clear())",
    "what is unexpected": (
        "post_hook(lambda _, keys: keys.unexpected_keys.clear())"
    ),
    "what is there": (
        "pre_hook(lambda _, state, *rest: [state[name].zero_() "
        "for name in state if name[0] == 'h'])"
    ),
}


@pytest.mark.parametrize("hides", HOOKS)
def test_strict_false_returns_the_rest__but_not_if_a_hook_hides(
    snippet, hides, fails
):
    """A hook of the model can clear these lists, or change the tensors,
    without a word.
    """
    edited = snippet.edit(
        "fresh = classifier(classes=10)\n",
        "fresh = classifier(classes=10)\n"
        f"fresh.register_load_state_dict_{HOOKS[hides]}\n",
    )
    fails(test_strict_false_returns_the_rest, edited)


def test_a_prefix_loads_nothing(snippet, build=None, prefix="_orig_mod."):
    start = snippet.after("prefixed").fresh.state_dict()
    with no_error():
        run = snippet.after("silent")
    assert equal(run.fresh.state_dict(), start)
    assert not equal(start, run.original.state_dict())

    build = build or run.classifier
    model, file = build(3), build(3).state_dict()
    start = copied(model.state_dict())
    prefixed = {f"{prefix}{name}": file[name] for name in file}
    model.load_state_dict(prefixed, strict=False)
    assert equal(model.state_dict(), start)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model."])
@pytest.mark.parametrize("build", MODELS)
def test_a_prefix_loads_nothing__also_for(snippet, build, prefix):
    test_a_prefix_loads_nothing(snippet, build, prefix)


@pytest.mark.parametrize(
    "new",
    [
        "original.state_dict(), strict",
        'prefixed | {"head.bias": torch.ones(10)}, strict',
    ],
    ids=["without a prefix", "without one at the head"],
)
def test_a_prefix_loads_nothing__but_not(snippet, new, fails):
    """Names without the prefix are the model's own, so their weights are
    loaded.
    """
    edited = snippet.edit("prefixed, strict", new)
    fails(test_a_prefix_loads_nothing, edited)


def test_a_prefix_loads_nothing__ends_if_a_layer_is_called_like_it(
    snippet, fails
):
    """If a layer is called like the prefix: then prefixed names match the
    names of that layer.
    """

    def build(classes):
        model = nn.Linear(2, classes)
        model.module = nn.Linear(2, classes)
        return model

    fails(test_a_prefix_loads_nothing, snippet, build, "module.")


WRAPPED = {
    "parallel": "nn.DataParallel(original)",
    "parallel, compiled": "torch.compile(nn.DataParallel(original))",
    "compiled, parallel": "nn.DataParallel(compiled)",
    "a compiled layer": (
        "nn.Sequential(OrderedDict(body=original.body, "
        "head=torch.compile(original.head)))"
    ),
    "a compiled layer, parallel": (
        "nn.DataParallel(nn.Sequential(OrderedDict(body=original.body, "
        "head=torch.compile(original.head))))"
    ),
}


def test_a_replacement_cleans_the_names(snippet, wrapped="compiled"):
    with no_error():
        run = snippet.edit(
            "prefixed = compiled.state_dict()",
            f"prefixed = {wrapped}.state_dict()",
        ).after("without-prefix")

    names = list(run.original.state_dict())
    assert list(run.prefixed) != names
    assert list(run.plain) == names
    assert equal(run.fresh.state_dict(), run.original.state_dict())


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_a_replacement_cleans_the_names__also_for(snippet, wrapped):
    test_a_replacement_cleans_the_names(snippet, WRAPPED[wrapped])


@pytest.mark.parametrize("name", ["submodule", "embedding"])
@pytest.mark.parametrize("wrapped", ["compiled, parallel", "parallel"])
def test_a_replacement_cleans_the_names__also_with_a_layer_called(
    snippet, wrapped, name
):
    old = '    layers["head"] = nn.Linear(32, classes)\n'
    layer = f'    layers["{name}"] = nn.Linear(classes, classes)\n'
    edited = snippet.edit(old, old + layer)
    test_a_replacement_cleans_the_names(edited, WRAPPED[wrapped])


@pytest.mark.parametrize(
    ("old", "new", "wrapped"),
    [
        ('name.replace("_orig_mod.", "")', "name", "compiled, parallel"),
        ('.removeprefix("module.")', "", "parallel"),
        (
            'name.replace("_orig_mod.", "")',
            'name.removeprefix("_orig_mod.")',
            "a compiled layer",
        ),
        (
            'name.replace("_orig_mod.", "")',
            'name.removeprefix("_orig_mod.")',
            "compiled, parallel",
        ),
    ],
    ids=["compiled", "parallel", "inside", "behind another prefix"],
)
def test_a_replacement_cleans_the_names__but_not_if_it_replaces_less(
    snippet, old, new, wrapped, fails
):
    """Each wrapper puts its prefix in another place: replace less, and some
    names keep theirs.
    """
    fails(
        test_a_replacement_cleans_the_names,
        snippet.edit(old, new),
        WRAPPED[wrapped],
    )


@pytest.mark.parametrize("name", ["module", "_orig_mod", "my_orig_mod"])
def test_a_replacement_cleans_the_names__ends_with_a_layer_called(
    snippet, name, fails
):
    """With a layer called `module`, or whose name ends in `_orig_mod`: its own
    name is cut as well.
    """
    edited = snippet.edit(
        "original = classifier(classes=10)\n",
        "original = classifier(classes=10)\n"
        f'original.add_module("{name}", nn.Linear(10, 10))\n',
    ).edit(
        "fresh.load_state_dict(plain)",
        "fresh.load_state_dict(plain, strict=False)",
    )
    fails(test_a_replacement_cleans_the_names, edited, "original")


def test_the_inside_has_plain_names(snippet):
    run = snippet.after("inside")
    names = list(run.classifier(10).state_dict())
    wrapped = run.parallel.state_dict(), run.compiled.state_dict()
    prefixes = "module.", "_orig_mod."
    for inner, outer, prefix in zip(
        run.inside, wrapped, prefixes, strict=True
    ):
        assert list(inner) == names
        for name in names:
            place = outer[f"{prefix}{name}"].data_ptr()
            assert inner[name].data_ptr() == place
    run.inside[0]["head.weight"].zero_()
    run.inside[0]["head.bias"].fill_(2)
    assert run.parallel(torch.rand(5, 64)).eq(2).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("parallel.module.state_dict(),", "parallel.state_dict(),"),
        ("inside = parallel.module", "inside = classifier(10)"),
        (", original.state_dict()", ", compiled.state_dict()"),
        (", original.state_dict()", ", classifier(10).state_dict()"),
    ],
    ids=["parallel", "another model", "compiled", "another than compiled"],
)
def test_the_inside_has_plain_names__but_not(snippet, old, new, fails):
    """The wrapper's own names have the prefix, and another model has other
    tensors.
    """
    fails(test_the_inside_has_plain_names, snippet.edit(old, new))


# Size mismatch


def test_a_mismatch_raises_after_loading(
    snippet, build=None, mine=(2,), theirs=(3,)
):
    run = snippet.after("size-mismatch")
    mismatch = getattr(run, "mismatch", "nothing was raised")
    assert "size mismatch for head" in mismatch
    assert "key(s)" not in mismatch
    assert torch.equal(run.other.body.weight, run.weights["body.weight"])
    assert torch.equal(run.other.body.bias, run.weights["body.bias"])

    own = run.other if build is None else build(3)
    file = (build or run.classifier)(10).state_dict()
    for strict in (False, True):
        with pytest.raises(RuntimeError, match="size mismatch for "):
            own.load_state_dict(file, strict=strict)
        for name, tensor in own.state_dict().items():
            fits = tensor.shape == file[name].shape
            assert torch.equal(tensor, file[name]) == fits

    model = nn.Module()
    model.scale = nn.Parameter(torch.zeros(mine))
    with pytest.raises(RuntimeError, match="size mismatch for "):
        model.load_state_dict({"scale": torch.ones(theirs)}, strict=False)
    assert not model.scale.any()


@pytest.mark.parametrize("build", MODELS)
def test_a_mismatch_raises_after_loading__also_for(snippet, build):
    test_a_mismatch_raises_after_loading(snippet, build)


SHAPES = [((1,), ()), ((), (1, 1)), ((2, 3), (3, 2)), ((6,), (2, 3))]
# Before torch 2.10, a model of shape () took the first of two numbers.
SHAPES += [] if older(torch.__version__, "2.10") else [((), (2,))]


@pytest.mark.parametrize(("mine", "theirs"), SHAPES, ids=str)
def test_a_mismatch_raises_after_loading__also_of_shapes(
    snippet, mine, theirs
):
    test_a_mismatch_raises_after_loading(snippet, None, mine, theirs)


def test_a_mismatch_raises_after_loading__ends_for_one_number_in_the_file(
    snippet, fails
):
    """For a tensor of shape `(1,)` in the file and a parameter without axes:
    it is loaded.
    """
    fails(test_a_mismatch_raises_after_loading, snippet, None, (), (1,))


DROPS = (
    "other.register_load_state_dict_pre_hook(lambda _, state, *rest: "
    "[state.pop(name) for name in list(state) if name[0] == 'h'])\n"
)


def test_a_mismatch_raises_after_loading__but_not_if_a_hook_drops_the_head(
    snippet, fails
):
    """The hook removes the head from what is loaded, so no shapes differ."""
    other = "other = classifier(classes=3)\n"
    edited = snippet.edit(other, other + DROPS)
    fails(test_a_mismatch_raises_after_loading, edited)


def test_a_mismatch_raises_after_loading__but_not_into_a_copy(snippet, fails):
    """Loaded into a deep copy, nothing reaches `other`."""
    edited = snippet.edit(
        "    other.load_state_dict(weights, strict=False)",
        "    import copy\n"
        "    copy.deepcopy(other).load_state_dict(weights, strict=False)",
    )
    fails(test_a_mismatch_raises_after_loading, edited)


# Attempting to deserialize object on a CUDA device


@pytest.mark.simulates("a file from a GPU")
def test_map_location_brings_them_here(snippet, monkeypatch, without=None):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = snippet.after("no-gpu")

    file = io.BytesIO(run.moved.getvalue())
    with pytest.raises(RuntimeError) as raised:
        torch.load(file, map_location=without)
    assert str(raised.value) == run.asked_for
    assert "deserialize object on a CUDA device but torch" in run.asked_for
    assert {tensor.device.type for tensor in run.here.values()} == {"cpu"}
    assert equal(run.here, run.weights)
    file.seek(0)
    assert equal(torch.load(file, map_location="cpu"), run.weights)
    assert b"cuda:0" in run.moved.getvalue()


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_map_location_brings_them_here__ends_with(
    snippet, monkeypatch, device, fails
):
    """With another `map_location`: the tensors go elsewhere, so loading needs
    no CUDA device.
    """
    fails(test_map_location_brings_them_here, snippet, monkeypatch, device)


@pytest.mark.parametrize(
    "location",
    ['"meta"', "lambda storage, location: storage.fill_(0)"],
    ids=["on meta", "zeroed on the way"],
)
def test_map_location_brings_them_here__but_not(
    snippet, monkeypatch, location, fails
):
    """On `meta`, the tensors have no numbers; the function sets them to zero
    on the way.
    """
    edited = snippet.edit(
        'map_location="cpu")\nprint(here',
        f"map_location={location})\nprint(here",
    )
    fails(test_map_location_brings_them_here, edited, monkeypatch)


# Where it ends


def test_meta_needs_assign(snippet, assign=True, device="meta"):
    run = snippet.after("same-classes")
    for build in (run.classifier, *MODELS):
        file = build(10).state_dict()
        with torch.device(device):
            model = build(10)
        with pytest.warns(UserWarning, match="to a meta parameter"):
            model.load_state_dict(file)
        assert all(tensor.is_meta for tensor in model.state_dict().values())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.load_state_dict(file, assign=assign)
        assert not any(each.is_meta for each in model.state_dict().values())
        assert equal(model.state_dict(), file)


def test_meta_needs_assign__but_not_without(snippet, fails):
    """Without `assign=True`, the model stays on `meta`."""
    fails(test_meta_needs_assign, snippet, False)


def test_meta_needs_assign__ends_on_the_cpu(snippet, fails):
    """For a model on the CPU: it has numbers to overwrite, so there is no
    warning.
    """
    fails(test_meta_needs_assign, snippet, True, "cpu")


def test_loading_casts_silently(snippet):
    with no_error():
        run = snippet.after("casts")
    third = torch.tensor(1 / 3, dtype=torch.float16).item()
    assert run.scores.weight.dtype == torch.float16
    assert run.scores.weight.tolist() == [[torch.inf, third]]


@pytest.mark.parametrize("own", [*FLOATS, *INTEGERS, *EIGHTS])
def test_loading_casts_silently__also_to(own):
    for dtype in [*FLOATS, *INTEGERS, *EIGHTS]:
        model = nn.Module()
        model.register_buffer("steps", torch.zeros(2, 3, dtype=own))
        file = {"steps": (torch.rand(2, 3) * 120).to(dtype)}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.load_state_dict(file)
        assert model.steps.dtype == own
        assert torch.equal(model.steps, file["steps"].to(own))


def test_loading_casts_silently__but_not_assigned(snippet, fails):
    """With `assign=True`, the model takes the dtype of the file, and 70,000
    stays 70,000.
    """
    edited = snippet.edit(
        "scores.load_state_dict(wide)\n",
        "scores.load_state_dict(wide, assign=True)\n",
    )
    fails(test_loading_casts_silently, edited)


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
def test_loading_casts_silently__but_70000_fits_into(snippet, dtype, fails):
    """`bfloat16` and `float32` reach far beyond 70,000, so it does not become
    `inf`.
    """
    edited = snippet.edit("bias=False).half()", f"bias=False).{dtype}()")
    fails(test_loading_casts_silently, edited)


def test_loading_casts_silently__ends_for_complex_numbers(snippet, fails):
    """From complex to real: it warns that the imaginary part is discarded."""
    edited = snippet.edit("1 / 3]], dtype=torch.float64", "1j / 3]]")
    fails(test_loading_casts_silently, edited)


def test_assign_leaves_the_optimizer_behind(snippet):
    with no_error():
        run = snippet.after("assign")
    weight = run.scores.weight
    assert weight.dtype == torch.float64
    assert weight.data_ptr() == run.wide["weight"].data_ptr()
    assert weight.grad.ne(0).all()
    third = torch.tensor(1 / 3, dtype=torch.float64).item()
    assert weight.tolist() == [[70_000.0, third]]
    [old] = run.optimizer.param_groups[0]["params"]
    assert old is not weight
    assert old.dtype == torch.float16


@pytest.mark.parametrize("build", [convolutional, nested])
@pytest.mark.parametrize("kind", ["SGD", "AdamW", "RMSprop"])
def test_assign_leaves_the_optimizer_behind__also_for(build, kind):
    model, file = build(3), build(3).double().state_dict()
    start = copied(file)
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1)
    model.load_state_dict(file, assign=True)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert equal(dict(model.state_dict()), start)
    for name, tensor in model.state_dict().items():
        assert tensor.data_ptr() == file[name].data_ptr()


MADE = "optimizer = torch.optim.SGD(scores.parameters(), lr=0.1)\n"
ASSIGNED = "scores.load_state_dict(wide, assign=True)\n"


def test_assign_leaves_the_optimizer_behind__but_not_one_made_afterwards(
    snippet, fails
):
    """An optimizer made after loading holds the new parameter, and changes
    it.
    """
    edited = snippet.edit(MADE + ASSIGNED, ASSIGNED + MADE)
    fails(test_assign_leaves_the_optimizer_behind, edited)


def test_assign_leaves_the_optimizer_behind__but_not_without(snippet, fails):
    """Without `assign`, the numbers are copied into the parameter that the
    optimizer holds.
    """
    edited = snippet.edit(ASSIGNED, "scores.double().load_state_dict(wide)\n")
    fails(test_assign_leaves_the_optimizer_behind, edited)


def test_assign_leaves_the_optimizer_behind__but_not_of_another_dtype(
    snippet, fails
):
    """The parameter has the dtype of the file, which is `float32` here."""
    edited = snippet.edit(
        ASSIGNED,
        'narrow = {"weight": wide["weight"].float()}\n'
        "scores.load_state_dict(narrow, assign=True)\n",
    ).edit(
        "scores(torch.ones(2, dtype=torch.float64))",
        "scores(torch.ones(2))",
    )
    fails(test_assign_leaves_the_optimizer_behind, edited)


def test_views_save_their_storage(snippet):
    run = snippet.after("sizes")
    assert run.sizes["table"] > run.table.nbytes
    assert abs(run.sizes["row"] - run.sizes["table"]) < 100
    assert run.sizes["own row"] < run.table[0].nbytes + 4000
    assert run.parts["row"].shape == run.parts["own row"].shape
    for name, part in run.parts.items():
        assert run.sizes[name] == len(saved(part).getvalue())


@pytest.mark.parametrize("dtype", [torch.float64, torch.uint8, torch.bool])
@pytest.mark.parametrize(
    "view",
    [
        lambda table: table[3],
        lambda table: table[:, :1],
        lambda table: table.T[2:4],
        lambda table: table.view(-1)[5],
        lambda table: table.detach()[-1:],
    ],
    ids=["row", "column", "transposed", "number", "detached"],
)
def test_views_save_their_storage__also_for(view, dtype):
    table = torch.ones(300, 200, dtype=dtype)
    part = view(table)
    size, own, whole = (
        len(saved(each).getvalue()) for each in (part, part.clone(), table)
    )
    assert abs(size - whole) < 100
    assert own < part.nbytes + 4000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"row": table[0],', '"row": table[0].clone(),'),
        ("table[0].clone()", "table[0]"),
    ],
    ids=["clone", "view"],
)
def test_views_save_their_storage__but_not_the(snippet, old, new, fails):
    """A clone saves only its own numbers, and a view always takes the whole
    table along.
    """
    fails(test_views_save_their_storage, snippet.edit(old, new))


def assert_numbers_only(content, header, state):
    """Check that nothing but a header and the numbers is in a file."""
    start = 8 + int.from_bytes(content[:8], "little")
    header, place = dict(header), 0
    assert header == json.loads(content[8:start])
    notes = header.pop("__metadata__", {})
    assert all(isinstance(note, str) for note in notes.values())
    assert header.keys() == state.keys()
    by_place = sorted(header.items(), key=lambda row: row[1]["data_offsets"])
    for name, row in by_place:
        assert row.keys() == {"dtype", "shape", "data_offsets"}
        assert isinstance(row["dtype"], str)
        assert row["shape"] == list(state[name].shape)
        begin, end = row["data_offsets"]
        assert begin == place
        place = end
        numbers = state[name].reshape(-1).view(torch.uint8).numpy().tobytes()
        assert content[start + begin : start + end] == numbers
    assert len(content) == start + place


def test_safetensors_hold_numbers_only(snippet):
    pytest.importorskip("safetensors", reason=NEEDED)
    run = snippet.after("safetensors")
    state = dict(run.trained.state_dict())
    assert equal(run.again, state)
    assert_numbers_only(run.content, run.header, state)


@pytest.mark.parametrize("notes", [None, {"format": "pt"}], ids=repr)
@pytest.mark.parametrize("build", [*MODELS, None])
def test_safetensors_hold_numbers_only__also_for(build, notes):
    safe = pytest.importorskip("safetensors.torch", reason=NEEDED)
    state = {f"{d}": torch.tensor([[0, 1, 2]]).to(d) for d in DTYPES}
    if build is not None:
        state = dict(build(3).state_dict())
    content = safe.save(state, notes)
    start = 8 + int.from_bytes(content[:8], "little")
    assert equal(safe.load(content), state)
    assert_numbers_only(content, json.loads(content[8:start]), state)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "again = load(content)",
            "again = load(save(classifier(10).state_dict()))",
        ),
        (
            "again = load(content)",
            'again = {f"{name}.": w for name, w in load(content).items()}',
        ),
        (
            "again = load(content)",
            "again = {n: w.double() for n, w in load(content).items()}",
        ),
        (
            "again = load(content)",
            "again = {n: w.flatten() for n, w in load(content).items()}",
        ),
        (
            "again = load(content)",
            'again = load(content)\ncontent += b"print"',
        ),
    ],
    ids=[
        "of another model",
        "under other names",
        "in another dtype",
        "in another shape",
        "with more at its end",
    ],
)
def test_safetensors_hold_numbers_only__but_not(snippet, old, new, fails):
    """Here each name gets a dot; the other edits change the tensors, or add
    bytes to the file.
    """
    pytest.importorskip("safetensors", reason=NEEDED)
    fails(test_safetensors_hold_numbers_only, snippet.edit(old, new))


def test_safetensors_refuse_the_rest(snippet, laid_out=torch.t):
    pytest.importorskip("safetensors", reason=NEEDED)
    run = snippet.after("safetensors-refuses")
    number, tied = run.states
    with pytest.raises(ValueError, match="expected torch"):
        run.save(number)
    with pytest.raises(RuntimeError, match="Some tensors share memory"):
        run.save(tied)
    with pytest.raises(ValueError, match="save a non contiguous tensor"):
        run.save({"a": laid_out(torch.ones(2, 3))})
    assert tied["0.weight"].data_ptr() == tied["1.weight"].data_ptr()
    first, second = run.told
    assert first.startswith("Key `loss` is invalid")
    assert second.startswith("Some tensors share memory")


@pytest.mark.parametrize(
    "value",
    [7, "text", None, [1.0], np.ones(2), {"a": torch.ones(2)}],
    ids=repr,
)
def test_safetensors_refuse_the_rest__also_if(value):
    safe = pytest.importorskip("safetensors.torch", reason=NEEDED)
    with pytest.raises(ValueError, match="expected torch"):
        safe.save({"a": torch.ones(2), "b": value})


def test_safetensors_refuse_the_rest__also_in_channels_last():
    safe = pytest.importorskip("safetensors.torch", reason=NEEDED)
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    with pytest.raises(ValueError, match="save a non contiguous tensor"):
        safe.save(model.state_dict())


def test_safetensors_refuse_the_rest__but_not_contiguous(snippet, fails):
    """After `contiguous()`, a transposed tensor is taken."""
    pytest.importorskip("safetensors", reason=NEEDED)
    fails(
        test_safetensors_refuse_the_rest,
        snippet,
        lambda matrix: matrix.t().contiguous(),
    )


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1,)])
def test_safetensors_refuse_the_rest__also_twice(shape):
    safe = pytest.importorskip("safetensors.torch", reason=NEEDED)
    for second in (lambda x: x, lambda x: x.detach(), lambda x: x.view(-1)):
        one = torch.rand(shape)
        with pytest.raises(RuntimeError, match="Some tensors share memory"):
            safe.save({"a": one, "b": torch.ones(2), "c": second(one)})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"loss": 0.5},', '{"loss": torch.tensor(0.5)},'),
        ("tied[1].weight = tied[0].weight\n", ""),
    ],
    ids=["a tensor", "a weight of its own"],
)
def test_safetensors_refuse_the_rest__but_not(snippet, old, new, fails):
    """A tensor is taken, and so are two weights that are not tied."""
    pytest.importorskip("safetensors", reason=NEEDED)
    fails(test_safetensors_refuse_the_rest, snippet.edit(old, new))


def test_save_model_takes_tied_weights(
    snippet, tmp_path, reader=None, strict=True, contiguous=True
):
    safe = pytest.importorskip("safetensors.torch", reason=NEEDED)
    run = snippet.after("safetensors-refuses")
    assert run.tied[1].weight is run.tied[0].weight
    with no_error():
        safe.save_model(run.tied, tmp_path / "tied")
    model = reader or tied()
    with no_error():
        safe.load_model(model, tmp_path / "tied", strict=strict)
    assert equal(model.state_dict(), run.tied.state_dict())
    assert model[1].weight is model[0].weight

    one, other = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)
    with no_error():
        safe.save_model(
            one.to(memory_format=torch.channels_last),
            tmp_path / "last",
            force_contiguous=contiguous,
        )
    safe.load_model(other, tmp_path / "last")
    assert equal(other.state_dict(), one.state_dict())


def test_save_model_takes_tied_weights__ends_for_an_untied_model(
    snippet, tmp_path, fails
):
    """Into a model that does not tie them: it gets only one of the two,
    because the file holds tied weights once.
    """
    pytest.importorskip("safetensors", reason=NEEDED)
    reader = tied(tie=False)
    fails(test_save_model_takes_tied_weights, snippet, tmp_path, reader, False)


def test_save_model_takes_tied_weights__but_not_as_they_are(
    snippet, tmp_path, fails
):
    """With `force_contiguous=False`, weights of `channels_last` raise an
    error.
    """
    pytest.importorskip("safetensors", reason=NEEDED)
    given = snippet, tmp_path, None, True, False
    fails(test_save_model_takes_tied_weights, *given)


def test_save_model_takes_tied_weights__but_not_if_they_are_not_tied(
    snippet, tmp_path, fails
):
    """Without the tie, these are two weights."""
    pytest.importorskip("safetensors", reason=NEEDED)
    edited = snippet.edit("tied[1].weight = tied[0].weight\n", "")
    fails(test_save_model_takes_tied_weights, edited, tmp_path)
