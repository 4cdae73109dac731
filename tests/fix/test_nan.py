"""The claims of docs/fix/nan.md."""

import copy
import itertools
import math
import platform
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older
from tests.helpers.worlds import DTYPES, each

NAN, INF = math.nan, math.inf


def raised(function, *inputs):
    """Return what a FloatingPointError says, or nothing."""
    try:
        function(*inputs)
    except FloatingPointError as error:
        return str(error)
    return ""


def as_it_is(tensor):
    return tensor


def test_check_names_the_first(snippet, dtype=torch.float32, form=as_it_is):
    check = snippet.after("check").check
    good = form(torch.tensor([[1.0, -2.0]], dtype=dtype))
    bad = form(torch.tensor([NAN, INF, 3.0, -INF, NAN, INF], dtype=dtype))
    worse = form(torch.tensor([NAN, 1.0], dtype=dtype))

    for fine in ({}, {"a": good, "none": None, "whole": torch.arange(3)}):
        with no_error():
            assert raised(check, fine) == ""
    for tensors, name, nans, infs in [
        ({"a": good, "b": bad, "c": worse}, "b", 2, 3),
        ({"c": worse, "b": bad}, "c", 1, 0),
        ({"none": None, "b": bad[1]}, "b", 0, 1),
        ({"b": bad[3]}, "b", 0, 1),
        ({"b": form(torch.full((2, 3), -INF, dtype=dtype))}, "b", 0, 6),
    ]:
        with no_error():
            said = raised(check, tensors)
        assert said.startswith(f"{name}: {nans} nan, {infs} inf")


@each("dtype", DTYPES)
def test_check_names_the_first__also_for(snippet, dtype):
    test_check_names_the_first(snippet, dtype)


FORMS = {
    "requires grad": lambda tensor: tensor.requires_grad_(),
    "has gaps": lambda tensor: tensor.repeat_interleave(2, -1)[..., ::2],
    "is transposed": lambda tensor: tensor.T.contiguous().T,
    "is complex": lambda tensor: torch.complex(tensor, torch.ones(())),
}


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@each("form", FORMS)
def test_check_names_the_first__also_if_it(snippet, form):
    test_check_names_the_first(snippet, form=form)


def test_check_names_the_first__also_among_many_dimensions(snippet):
    check = snippet.after("check").check
    images = torch.zeros(2, 3, 4, 4)
    images[1, 2, 3, 3] = NAN

    assert raised(check, {"a": torch.ones(0), "b": torch.tensor(1)}) == ""
    assert raised(check, {"x": images}) == "x: 1 nan, 0 inf of 96"
    assert raised(check, {"x": images[1, 2, 3, 3]}).startswith("x: 1 nan")


def test_check_names_the_first__ends_for_a_sparse_tensor(snippet, fails):
    """For a sparse tensor: `isfinite()` itself raises an error."""
    form = torch.Tensor.to_sparse
    fails(test_check_names_the_first, snippet, torch.float32, form)


@edits(
    ("inf let through", "values.isfinite().all()", "values.isnan().any() < 1"),
    ("all must be bad", "not values.isfinite().all()", "values.isnan().all()"),
    ("the last", "in tensors.items()", "in reversed(tensors.items())"),
    ("no name", 'f"{name}: {nans}', 'f"{nans}'),
    ("inf not counted", "values.isinf().sum()", "values.isneginf().sum()"),
    ("nan not counted", "values.isnan().sum()", "values.isnan().any() * 1"),
)
def test_check_names_the_first__but_not_with(snippet, old, new, fails):
    """Each edit overlooks some of the bad numbers, names another tensor or
    none, or counts wrong.
    """
    fails(test_check_names_the_first, snippet.edit(old, new))


class Log(nn.Module):
    """The logarithm of zeros, in the container that is asked for."""

    def __init__(self, wrap):
        super().__init__()
        self.wrap = wrap

    def forward(self, values):
        """Give minus infinity."""
        return self.wrap((values * 0).log())


class First(nn.Module):
    """The tensor that lies deepest in what the layer before gave."""

    def forward(self, values):
        """Open one container after the other."""
        while not torch.is_tensor(values):
            if isinstance(values, Holder):
                return values.values
            if isinstance(values, dict):
                values = list(values.values())
            values = values[-1]
        return values.real if values.is_complex() else values


class After(nn.Module):
    """A layer in which nothing is wrong, and a fault behind it."""

    def __init__(self, fault):
        super().__init__()
        self.layer, self.fault = nn.Linear(4, 4), fault.forward

    def forward(self, values):
        """Go wrong outside of the layer."""
        return self.fault(self.layer(values))


def named(**layers):
    model = nn.Sequential()
    for name, layer in layers.items():
        model.add_module(name, layer)
    return model


def planted(wrap):
    """Return models with a fault, and the layer that is to be named."""
    fault, first = Log(wrap), First()
    chain = named(a=nn.Linear(4, 4), b=fault, c=first, d=nn.Linear(4, 4))
    start = named(a=fault, b=first, c=nn.Linear(4, 2))
    weight = named(a=nn.Linear(4, 4), b=nn.LSTM(4, 3), c=first)
    weight.b.weight_hh_l0.data[0, 0] = NAN
    outer = named(a=nn.Tanh(), b=After(fault), c=first)
    return [
        (chain, "b"),
        (start, "a"),
        (weight, "b"),
        (outer, "b"),
    ]


def as_tensor(values):
    return values


def as_tuple(values):
    return torch.ones(2), (values,)


def as_list(values):
    return [None, values]


def as_dict(values):
    return {"loss": torch.ones(()), "deep": [{"x": values}]}


def test_watch_names_the_inner_layer(snippet, wrap=as_tensor):
    run = snippet.after("faults")
    torch.manual_seed(0)
    fault = named(x=nn.Linear(4, 4), y=Log(wrap), z=First())
    for model, layer in [
        (named(a=nn.Tanh(), b=fault), "b.y"),
        (named(a=nn.Tanh(), b=named(c=named(d=fault))), "b.c.d.y"),
    ]:
        hooks = run.watch(model)
        said = raised(model, torch.rand(5, 4))
        for hook in hooks:
            hook.remove()
        assert said.startswith(f"{layer}: "), said


@edits(
    (
        "the outer layers alone",
        "model.named_modules()",
        "model.named_children()",
    ),
    (
        "the layers that hold others alone",
        "for layer in names]",
        "for layer in names if list(layer.children())]",
    ),
)
def test_watch_names_the_inner_layer__but_not_through(
    snippet, old, new, fails
):
    """If `watch` looks at outer layers alone, it names the outer one."""
    fails(test_watch_names_the_inner_layer, snippet.edit(old, new))


def test_watch_names_the_layer(snippet, wrap=as_tensor):
    run = snippet.after("faults")
    torch.manual_seed(0)

    for model, layer in planted(wrap):
        hooks = run.watch(model)
        said = raised(model, torch.rand(5, 4))
        assert said.startswith(f"{layer}: "), said
        for hook in hooks:
            hook.remove()
        assert raised(model, torch.rand(5, 4)) == ""
    for given, layer in ((run.winds, ""), (run.filled, "speed: ")):
        model = run.new_model()
        run.watch(model)
        assert raised(model, given).partition("output")[0] == layer
    removed = snippet.after("remove")
    assert raised(removed.model, removed.filled) == ""
    alone = nn.Linear(2, 1)
    run.watch(alone)
    assert raised(alone, run.missing).startswith("model: output not finite")


class Scores(NamedTuple):
    """What some layers return."""

    loss: torch.Tensor
    scores: torch.Tensor


def as_named_tuple(values):
    return Scores(torch.ones(2), values)


def as_long_list(values):
    return [*torch.ones(99, 2), values]


@dataclass
class Holder:
    """What other layers return."""

    values: torch.Tensor


@pytest.mark.parametrize(
    "wrap",
    [as_tuple, as_list, as_dict, as_named_tuple, as_long_list],
    ids=["a tuple", "a list", "a dict", "a named tuple", "a long list"],
)
def test_watch_names_the_layer__also_in(snippet, wrap):
    test_watch_names_the_layer(snippet, wrap)


@each("dtype", DTYPES)
def test_watch_names_the_layer__also_in_evaluation_of(snippet, dtype):
    run = snippet.after("watch")
    model = named(a=nn.Tanh(), b=Log(as_tensor), c=nn.Tanh()).eval()
    run.watch(model)

    with torch.no_grad():
        said = raised(model, torch.rand(2, 3, dtype=dtype))
    assert said.startswith("b: output not finite")


def test_watch_names_the_layer__ends_for_an_output_in_a_dataclass(
    snippet, fails
):
    """For an output in a dataclass: `watch` does not look inside, and names a
    later layer.
    """
    fails(test_watch_names_the_layer, snippet, as_held)


def as_held(values):
    return Holder(values)


def test_watch_names_the_layer__ends_for_complex_numbers(snippet, fails):
    """For complex numbers: `watch` passes over them, and names a later
    layer.
    """
    fails(test_watch_names_the_layer, snippet, as_complex)


def as_complex(values):
    return [torch.complex(values, values)]


def test_watch_names_the_layer__also_where_two_layers_are_one(snippet):
    run = snippet.after("watch")
    torch.manual_seed(0)
    shared = nn.Linear(3, 3)
    model = named(a=shared, b=Log(as_tensor), c=shared)
    run.watch(model)

    assert raised(model, torch.rand(2, 3)).startswith("b: ")


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_watch_names_the_layer__also_for_one_number_of_shape(snippet, shape):
    run = snippet.after("watch")
    model = named(a=nn.Tanh(), b=Log(as_tensor), c=nn.Identity())
    run.watch(model)

    said = raised(model, torch.ones(shape))
    assert said == "b: output not finite, inputs ['0.762 to 0.762']"


def test_watch_names_the_layer__also_in_a_copy(snippet):
    run = snippet.after("faults")
    model = run.new_model()
    run.watch(model)

    said = raised(copy.deepcopy(model), run.filled)
    assert said.startswith("Speed(): output not finite")


class Divided(nn.Module):
    """A layer that divides by zero whatever else it is given."""

    def forward(self, values, *others):
        """Give inf, and what it was given."""
        return values / 0, *others


@pytest.mark.parametrize(
    "other", [torch.ones(0), torch.tensor([True]), torch.tensor([1 + 2j])]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_watch_names_the_layer__also_given(snippet, other, dtype):
    run = snippet.after("watch")
    model = Divided()
    run.watch(model)
    values = torch.tensor([3.0, 5.0], dtype=dtype)

    said = raised(model, values, other)
    assert said == "model: output not finite, inputs ['3 to 5']"


def test_watch_names_the_layer__but_not_nan_alone(snippet, fails):
    """If it looks for `nan` alone, it passes over inf, and names a later
    layer.
    """
    old = "all(each.isfinite().all() for"
    new = "all(not each.isnan().any() for"
    fails(test_watch_names_the_layer, snippet.edit(old, new))


@edits(
    ("no containers", "isinstance(values, tuple | list)", "False"),
    ("no lists", "tuple | list", "tuple"),
    ("no dicts", "isinstance(values, dict)", "False"),
    (
        "only one of them",
        "for value in values for",
        "for value in values[:1] for",
    ),
)
def test_watch_names_the_layer__but_not_with(snippet, old, new, fails):
    """Without tuples, lists or dicts in `flat`, or with their first value
    alone, it names a later layer.
    """
    wrap = as_list if "tuple" in old else as_dict
    fails(test_watch_names_the_layer, snippet.edit(old, new), wrap)


class Mask(nn.Module):
    """What hides from each word the words behind it."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, words):
        """Give minus infinity where a word is hidden."""
        hidden = torch.ones(words, words, dtype=torch.bool).triu(1)
        return torch.zeros(words, words, dtype=self.dtype).masked_fill(
            hidden, -INF
        )


def test_watch_stops_at_a_mask(snippet, dtype=torch.float32):
    run = snippet.after("watch")
    model = named(mask=Mask(dtype), shares=nn.Softmax(dim=1))

    for words in (2, 5):
        hooks = run.watch(model)
        assert raised(model, words).startswith("mask: output not finite")
        hooks[1].remove()
        assert raised(model, words) == ""
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_watch_stops_at_a_mask__also_in(snippet, dtype):
    test_watch_stops_at_a_mask(snippet, dtype)


def test_watch_stops_at_a_mask__but_not_if_it_looks_for_nan(snippet, fails):
    """If it looks for `nan` alone, it lets the mask pass."""
    old = "all(each.isfinite().all() for"
    new = "all(not each.isnan().any() for"
    fails(test_watch_stops_at_a_mask, snippet.edit(old, new))


def test_watch_stops_at_a_mask__also_without_the_hook_of_another(snippet):
    run = snippet.after("watch")
    model = named(mask=Mask(torch.float32), shares=nn.Softmax(dim=1))
    run.watch(model)[2].remove()

    assert raised(model, 2).startswith("mask: output not finite")


class Applied(nn.Module):
    """A layer that applies one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, values):
        """Give what it makes of the values."""
        return self.function(values)


def test_in_place_inputs_are_shown_changed(snippet, root=torch.Tensor.sqrt_):
    run = snippet.after("watch")
    model = named(a=nn.ReLU(), b=Applied(torch.neg), c=Applied(root))
    run.watch(model)

    said = raised(model, torch.tensor([1.0, 4.0]))
    assert said == "c: output not finite, inputs ['nan to nan']"


def test_in_place_inputs_are_shown_changed__but_not_if_a_clone_is_kept(
    snippet, fails
):
    """A clone of the inputs, taken before the layer runs, shows them as they
    came.
    """
    edited = snippet.edit(
        "for x in flat(inputs)]\n            where",
        "for x in before[layer]]\n            where",
    )
    edited = edited.edit(
        "    names = {layer: name or",
        "    before = {}\n"
        "\n"
        "    def keep(layer, inputs):\n"
        "        before[layer] = [x.clone() for x in flat(inputs)]\n"
        "\n"
        "    for layer in model.modules():\n"
        "        layer.register_forward_pre_hook(keep)\n"
        "    names = {layer: name or",
    )
    fails(test_in_place_inputs_are_shown_changed, edited)


def test_in_place_inputs_are_shown_changed__also_by_a_logarithm(snippet):
    test_in_place_inputs_are_shown_changed(snippet, torch.Tensor.log_)


def test_in_place_inputs_are_shown_changed__ends_for_a_copy(snippet, fails):
    """For a layer that works on a copy: `watch` shows its inputs as they
    came.
    """
    fails(test_in_place_inputs_are_shown_changed, snippet, torch.sqrt)


NO_CHILDREN = "for layer in names if not list(layer.children())]"


@edits(
    ("the inputs", "in flat(output)", "in flat(inputs)"),
    ("the inner layers alone", "for layer in names]", NO_CHILDREN),
    ("another name", "names.get(layer, layer)", "type(layer).__name__"),
)
def test_watch_names_the_layer__but_not_through(snippet, old, new, fails):
    """If it looks at inputs, or at inner layers alone, it finds a later layer;
    the last edit gives a class, not a name.
    """
    fails(test_watch_names_the_layer, snippet.edit(old, new))


def weights_of(model):
    return [p.detach().clone() for p in model.parameters()]


def spoil(model, name, bad):
    """Let one number of the gradient of one parameter be bad."""

    def set_bad(gradient):
        gradient = gradient.clone()
        gradient.view(-1)[-1] = bad
        return gradient

    model.get_parameter(name).register_hook(set_bad)


def test_careful_step_stops_in_time(snippet, kind=torch.optim.AdamW, bad=NAN):
    run = snippet.after("faults")
    targets = run.chill.clone()
    targets[5] = bad
    filled = run.winds.clone()
    filled[-1, 1] = bad
    huge = run.chill * 1e30  # so that the square overflows
    cases = [
        (filled, run.chill, "inputs"),
        (run.winds, targets, "targets"),
        (run.winds, huge, "loss"),
        (run.calm, run.chill, "gradient of turn.weight"),
    ]

    for inputs, chill, name in cases:
        model = run.new_model()
        optimizer = kind(model.parameters(), lr=0.01)
        before = weights_of(model)
        said = raised(run.careful_step, model, optimizer, inputs, chill)
        assert said.startswith(f"{name}: ")
        assert all(map(torch.equal, weights_of(model), before))
    for name, _ in run.new_model().named_parameters():
        model = run.new_model()
        spoil(model, name, bad)
        optimizer = kind(model.parameters(), lr=0.01)
        before = weights_of(model)
        said = raised(run.careful_step, model, optimizer, run.winds, run.chill)
        assert said.startswith(f"gradient of {name}: ")
        assert all(map(torch.equal, weights_of(model), before))


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_careful_step_stops_in_time__also_with(snippet, kind, bad):
    test_careful_step_stops_in_time(snippet, kind, bad)


@edits(
    ("inputs unseen", '{"inputs": inputs, "targets"', '{"targets"'),
    (
        "targets unseen",
        '"inputs": inputs, "targets": targets',
        '"inputs": inputs',
    ),
    ("loss unseen", 'check({"loss": loss})', "pass"),
    (
        "biases unseen",
        "p.grad for name, p in parameters})",
        "p.grad for name, p in parameters if p.dim() > 1})",
    ),
    (
        "one sample seen",
        'check({"inputs": inputs, ',
        'check({"inputs": inputs[:1], ',
    ),
    (
        "gradients unseen",
        'check({f"gradient of {name}": p.grad for name, p in parameters})',
        "pass",
    ),
)
def test_careful_step_stops_in_time__but_not_with(snippet, old, new, fails):
    """Leave out a check or a part of what it sees, and the fault is found
    under another name, or not at all.
    """
    fails(test_careful_step_stops_in_time, snippet.edit(old, new))


def test_careful_step_stops_in_time__but_not_after_the_step(snippet, fails):
    """With `optimizer.step()` before the last check, the weights have moved
    when the error comes.
    """
    edited = snippet.edit(
        "    optimizer.step()\n    return loss.item()",
        "    return loss.item()",
    )
    edited = edited.edit(
        "    loss.backward()\n    parameters",
        "    loss.backward()\n    optimizer.step()\n    parameters",
    )
    fails(test_careful_step_stops_in_time, edited)


def test_careful_step_is_a_step(snippet, kind=torch.optim.AdamW, size=1):
    run = snippet.after("faults")
    chill = size * run.chill
    model, plain = run.new_model(), run.new_model()
    optimizer = kind(model.parameters(), lr=0.01)
    other = kind(plain.parameters(), lr=0.01)

    for _ in range(4):
        with no_error():
            loss = run.careful_step(model, optimizer, run.winds, chill)
        other.zero_grad()
        expected = F.mse_loss(plain(run.winds), chill)
        expected.backward()
        other.step()
        assert loss == pytest.approx(expected.item())
        for p, q in zip(weights_of(model), weights_of(plain), strict=True):
            assert torch.allclose(p, q)


@pytest.mark.parametrize("size", [1e-6, 300.0])
def test_careful_step_is_a_step__also_with_targets_times(snippet, size):
    test_careful_step_is_a_step(snippet, torch.optim.SGD, size)


def test_careful_step_is_a_step__also_with_sgd(snippet):
    test_careful_step_is_a_step(snippet, torch.optim.SGD)


def test_careful_step_is_a_step__also_with_layers_that_train(snippet):
    old = "    model.head = nn.Linear(8, 1)\n"
    new = "    model.norm, model.drop = nn.BatchNorm1d(8), nn.Dropout()\n"
    run = snippet.edit(old, new + old).after("faults")
    model, plain = run.new_model(), run.new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    other = torch.optim.SGD(plain.parameters(), lr=0.01)

    for seed in range(3):
        torch.manual_seed(seed)
        loss = run.careful_step(model, optimizer, run.winds, run.chill)
        torch.manual_seed(seed)
        other.zero_grad()
        expected = F.mse_loss(plain(run.winds), run.chill)
        expected.backward()
        other.step()
        assert loss == pytest.approx(expected.item())
    for name, value in plain.state_dict().items():
        assert torch.allclose(model.state_dict()[name], value)


STEP = "    optimizer.step()\n    return loss.item()"


@edits(
    ("no step", STEP, "    return loss.item()"),
    ("another loss", "    return loss.item()", "    return loss.item() / 2"),
    ("two steps", STEP, "    optimizer.step()\n" + STEP),
)
def test_careful_step_is_a_step__but_not_with(snippet, old, new, fails):
    """No step, two steps or half of the loss is not what those five lines
    do.
    """
    fails(test_careful_step_is_a_step, snippet.edit(old, new))


def test_careful_step_is_a_step__but_not_without_zero_grad(snippet, fails):
    """Without `zero_grad()`, the gradients of earlier steps count as well."""
    old = "    optimizer.zero_grad()\n    loss.backward()\n    parameters"
    new = "    loss.backward()\n    parameters"
    fails(test_careful_step_is_a_step, snippet.edit(old, new))


def test_careful_step_is_a_step__also_with_a_frozen_layer(snippet):
    old = "    return model\n\n\n# %% check"
    new = "    model.body.requires_grad_(False)\n" + old
    test_careful_step_is_a_step(snippet.edit(old, new))


def test_careful_step_stops_in_time__also_in_a_deep_model(snippet):
    run = snippet.after("faults")
    layers = [nn.Linear(2, 2) for _ in range(5)]
    model = nn.Sequential(*layers, nn.Linear(2, 1))
    for name, _ in model.named_parameters():
        model.zero_grad()
        deep = copy.deepcopy(model)
        spoil(deep, name, NAN)
        optimizer = torch.optim.SGD(deep.parameters(), lr=0.1)
        said = raised(run.careful_step, deep, optimizer, run.winds, run.chill)
        assert said.startswith(f"gradient of {name}: ")


def test_careful_step_is_a_step__ends_for_sparse_gradients(snippet, fails):
    """For sparse gradients: `check` itself raises an error."""
    edited = snippet.edit(
        "    model.turn = nn.Linear(2, 2, bias=False)\n",
        "    class Turn(nn.Embedding):\n"
        "        def forward(self, wind):\n"
        "            rows = (wind[:, 0] > 0).long()\n"
        "            return wind * super().forward(rows)\n\n"
        "    model.turn = Turn(2, 2, sparse=True)\n",
    )
    fails(test_careful_step_is_a_step, edited, torch.optim.SGD)


def test_running_statistics_are_spoiled(snippet, before=torch.square):
    run = snippet.after("faults")
    model = named(a=Applied(before), b=nn.BatchNorm1d(2), c=nn.Linear(2, 1))
    weights = weights_of(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    said = raised(run.careful_step, model, optimizer, run.filled, run.chill)
    assert said.startswith("loss: ")
    assert all(map(torch.equal, weights_of(model), weights))
    statistics = model.b.running_mean, model.b.running_var
    assert not any(each[0].isfinite() for each in statistics)


def test_running_statistics_are_spoiled__but_not_by_nan_among_the_inputs(
    snippet, fails
):
    """If `nan` is among the inputs, the first check stops before BatchNorm
    sees it.
    """
    old = "filled[3, 0] = 9.97e36"
    edited = snippet.edit(old, "filled[3, 0] = torch.nan")
    fails(test_running_statistics_are_spoiled, edited)


def rooted():
    """Return a chain with a root at 0 between its layers."""
    root = Root()
    return named(
        a=nn.Linear(2, 3), b=nn.Linear(3, 2, False), c=root, d=nn.Linear(2, 1)
    )


class Root(nn.Module):
    """A root at zero."""

    def forward(self, values):
        """Give zeros, with slopes of nan."""
        return (values * 0).square().sqrt()


class Scaled(nn.Module):
    """A root at 0, and a scale that is registered behind a layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, values):
        """Let the gradients of the layer and of the scale be bad."""
        return (self.layer(values) * self.scale * 0).square().sqrt()


def test_the_last_parameter_is_named(snippet, make=rooted):
    run = snippet.after("faults")
    endless = run.new_model()
    spoil(endless, "head.weight", INF)
    deep = named(**{str(i): nn.Linear(2, 2) for i in range(12)})
    deep.add_module("head", nn.Linear(2, 1))
    spoil(deep, "2.bias", NAN)
    spoil(deep, "11.weight", INF)
    spoil(deep, "10.bias", INF)
    for model in (run.new_model(), endless, make(), Scaled(), deep):
        optimizer = torch.optim.SGD(model.parameters())
        said = raised(run.careful_step, model, optimizer, run.calm, run.chill)
        bad = [
            name
            for name, p in model.named_parameters()
            if not p.grad.isfinite().all()
        ]
        assert said.startswith(f"gradient of {bad[-1]}: ")


def test_the_last_parameter_is_named__but_not_of_nan_alone(snippet, fails):
    """If `check` looks for `nan` alone, it passes over a gradient of inf, and
    names another parameter.
    """
    old = "if values is not None and not values.isfinite().all():"
    new = "if values is not None and values.isnan().any():"
    fails(test_the_last_parameter_is_named, snippet.edit(old, new))


def test_the_last_parameter_is_named__but_not_in_order(snippet, fails):
    """Without `reversed`, it names the first."""
    old = "reversed(list(model.named_parameters()))\n    check"
    edited = snippet.edit(old, "list(model.named_parameters())\n    check")
    fails(test_the_last_parameter_is_named, edited)


@contextmanager
def anomaly():
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            yield


def test_anomaly_names_the_square(snippet):
    cells = ("winds", "model", "faults")
    run = snippet.only(*cells).after("faults")

    with anomaly(), pytest.raises(RuntimeError) as failure:
        F.mse_loss(run.new_model()(run.calm), run.chill).backward()
    said = "Function 'PowBackward0' returned nan values in its 0th output."
    assert str(failure.value) == said
    run = snippet.only(*cells, "anomaly", "trace").after("trace")
    assert run.trace.startswith("Error detected in PowBackward0.")
    assert run.place.startswith("forward")
    line = int(run.trace.rpartition(", line ")[2].partition(",")[0])
    assert "wind.square()" in snippet.text.splitlines()[line - 1]
    assert not torch.is_anomaly_enabled()


@edits(
    ("a norm", "squares.sum(dim=1, keepdim=True).sqrt()", "wind.norm()"),
    ("a breath of wind", "calm[3] = 0.0", "calm[3] = 1e-3"),
    ("a product", "wind.square()", "wind * wind"),
    (
        "in another line",
        "squares = wind.square()",
        "squares = wind\n        squares = squares.square()",
    ),
)
def test_anomaly_names_the_square__but_not_with(snippet, old, new, fails):
    """If `square()` stands in another line, that one is named; a product or a
    norm gives another error, a breath of wind none.
    """
    fails(test_anomaly_names_the_square, snippet.edit(old, new))


def under_anomaly(function):
    with anomaly(), no_error():
        return function()


def cube_root(values):
    return values ** (1 / 3)


ROOTS = (torch.sqrt, cube_root, torch.log, torch.log2, torch.log10)


def test_anomaly_looks_for_nan_in_backward(
    snippet, functions=ROOTS, then=torch.sum
):
    cells = ("winds", "model", "faults")
    run = snippet.only(*cells).after("faults")
    model = run.new_model()

    assert model(run.missing).isnan().any()
    under_anomaly(lambda: then(model(run.missing)))
    for function in functions:
        at = torch.zeros(3, requires_grad=True)
        under_anomaly(lambda f=function, x=at: f(x).sum().backward())
        assert at.grad.isinf().all()


def test_anomaly_looks_for_nan_in_backward__but_not_without_nan(
    snippet, fails
):
    """If 0 fills the empty field, there is no `nan` that it could overlook."""
    edited = snippet.edit(
        "missing[3, 0] = torch.nan",
        "missing[3, 0] = 0.0",
    )
    fails(test_anomaly_looks_for_nan_in_backward, edited)


def test_anomaly_looks_for_nan_in_backward__ends_for_inf_times_zero(
    snippet, fails
):
    """If the inf is multiplied by 0 further back: that is `nan`, and
    `detect_anomaly` raises an error.
    """

    def length(values):
        return values.square().sqrt()

    fails(test_anomaly_looks_for_nan_in_backward, snippet, [length])


def test_anomaly_looks_for_nan_in_backward__ends_in_the_backward_of_it(
    snippet, fails
):
    """If you call `backward()` on the `nan` of the forward pass:
    `detect_anomaly` raises an error.
    """

    def then(outputs):
        outputs.sum().backward()

    fails(test_anomaly_looks_for_nan_in_backward, snippet, ROOTS, then)


def test_a_norm_learns_from_a_calm_day(snippet):
    run = snippet.after("fixed")
    before = weights_of(run.model)

    assert type(run.model.speed) is run.Length
    assert run.calm[3].tolist() == [0, 0]
    fresh = run.new_model()
    fresh.speed = run.Length()
    F.mse_loss(fresh(run.calm), run.chill).backward()
    for p, q in zip(run.model.parameters(), fresh.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)  # as shown
    assert torch.allclose(run.Length()(run.winds), run.Speed()(run.winds))
    with no_error():
        losses = [
            run.careful_step(run.model, run.optimizer, run.calm, run.chill)
            for _ in range(20)
        ]
    assert losses[-1] < losses[0]
    for p, old in zip(run.model.parameters(), before, strict=True):
        assert p.grad is not None
        assert p.grad.isfinite().all()
        assert not torch.equal(p, old) or not p.grad.any()


def test_a_norm_learns_from_a_calm_day__but_not_by_hand(snippet, fails):
    """With the root of the sum of squares in `Length`, a gradient is `nan` on
    the calm day.
    """
    old = "        return wind.norm(dim=1, keepdim=True)\n"
    new = "        return wind.square().sum(dim=1, keepdim=True).sqrt()\n"
    edited = snippet.edit(old, new)
    # The program would stop by itself where it tries this layer.
    edited = edited.edit(
        "print(careful_step(model, optimizer, calm, chill))", "pass"
    )
    fails(test_a_norm_learns_from_a_calm_day, edited)


SPREAD = ("winds", "model", "faults", "spread", "spreads")


def parameters_of(shares):
    names = ("turn.weight", "body.weight", "body.bias")
    return [shares[name] for name in (*names, "head.weight", "head.bias")]


def test_one_nan_reaches_every_weight(snippet, place=(3, 0)):
    run = snippet.only(*SPREAD).after("spreads")
    given = run.missing.nan_to_num(1.0)
    given[place] = run.missing[3, 0]

    assert run.missing.isnan().sum() == 1
    shares = run.spread(given, steps=1)
    assert shares["inputs"][0] == pytest.approx(1 / 128)
    assert shares["loss"] == (1, 0)
    assert parameters_of(shares) == [(1, 0)] * 5
    shown = run.spreads["an empty field"]
    assert parameters_of(shown) == [(1, 0)] * 5
    assert shown["output of turn"][0] < 0.1  # one step: the others are left


@pytest.mark.parametrize(
    "place", [(0, 1), (63, 0)], ids=["the first row", "the last row"]
)
def test_one_nan_reaches_every_weight__also_from(snippet, place):
    test_one_nan_reaches_every_weight(snippet, place)


@edits(
    ("no step", "        optimizer.step()\n    for name", "    for name"),
    ("a number", "missing[3, 0] = torch.nan", "missing[3, 0] = 2.0"),
    (
        "a mean without nan",
        'loss = held["loss"] = F.mse_loss(values, chill)',
        'loss = held["loss"] = (values - chill).square().nanmean()',
    ),
)
def test_one_nan_reaches_every_weight__but_not_with(snippet, old, new, fails):
    """Without a step, or without the `nan`, no weight is `nan`; and `nanmean`
    leaves the day out of the loss.
    """
    fails(test_one_nan_reaches_every_weight, snippet.edit(old, new))


KINDS = edits(
    (
        "Adam",
        "SGD(model.parameters(), lr=0.01)\n    for _ in range(steps)",
        "Adam(model.parameters(), lr=0.01)\n    for _ in range(steps)",
    ),
    (
        "momentum",
        "lr=0.01)\n    for _ in range(steps)",
        "lr=0.01, momentum=0.9)\n    for _ in range(steps)",
    ),
)


@KINDS
def test_one_nan_reaches_every_weight__also_by(snippet, old, new):
    test_one_nan_reaches_every_weight(snippet.edit(old, new))


@KINDS
def test_the_second_step_is_lost__also_by(snippet, old, new):
    test_the_second_step_is_lost(snippet.edit(old, new))


def test_the_second_step_is_lost(snippet):
    run = snippet.only(*SPREAD).after("spreads")
    first = run.spreads["no wind"]
    second = run.spreads["no wind, second step"]

    assert run.calm[3].tolist() == [0, 0]
    assert first.pop("turn.weight") == (1, 0)
    assert first.pop("gradient of turn.weight") == (1, 0)
    assert len(first) == 17 - 2
    assert set(first.values()) == {(0, 0)}
    backward = ["head.bias", "head.weight", "body.bias", "body.weight"]
    names = [name for name in first if "gradient" in name]
    assert names == [f"gradient of {name}" for name in backward]
    assert second["loss"] == (1, 0)
    assert parameters_of(second) == [(1, 0)] * 5


@edits(
    ("a breath of wind", "calm[3] = 0.0", "calm[3] = 1e-3"),
    ("one step", "spread(calm, steps=2)", "spread(calm, steps=1)"),
    ("an empty field", '"no wind": spread(calm', '"no wind": spread(missing'),
)
def test_the_second_step_is_lost__but_not_with(snippet, old, new, fails):
    """A breath of wind spoils nothing; after one step, the loss is still
    finite; an empty field spoils all in the first step.
    """
    fails(test_the_second_step_is_lost, snippet.edit(old, new))


def test_inf_comes_first(snippet):
    run = snippet.only(*SPREAD).after("spreads")
    shares = run.spreads["9.97e36 for no value"]

    assert (run.filled > 9.9e36).sum() == 1
    assert run.filled.isfinite().all()
    finite = [name for name, bad in shares.items() if bad == (0, 0)]
    assert finite[:2] == ["inputs", "output of turn"]
    assert shares["output of speed"] == (0, pytest.approx(1 / 64))
    before = list(shares).index("output of speed")
    nans = [place for place, bad in enumerate(shares.values()) if bad[0]]
    assert nans
    assert min(nans) > before


FROM = pytest.mark.parametrize("seed", [2, 3, 4])


def started(snippet, seed):
    old, new = "torch.manual_seed(1)", f"torch.manual_seed({seed})"
    return snippet.edit(old, new)


@FROM
def test_inf_comes_first__also_from(snippet, seed):
    test_inf_comes_first(started(snippet, seed))


@FROM
def test_one_nan_reaches_every_weight__also_started_from(snippet, seed):
    test_one_nan_reaches_every_weight(started(snippet, seed))


@FROM
def test_the_second_step_is_lost__also_from(snippet, seed):
    test_the_second_step_is_lost(started(snippet, seed))


@edits(
    ("a smaller number", "filled[3, 0] = 9.97e36", "filled[3, 0] = 9.97e9"),
    ("inf itself", "filled[3, 0] = 9.97e36", "filled[3, 0] = torch.inf"),
    ("no square", "wind.square()", "wind.abs()"),
    ("nan at once", "wind.square()", "wind.square() - wind.square()"),
    (
        "never nan",
        "= layer(values)",
        "= layer(values.nan_to_num(posinf=0.0))",
    ),
)
def test_inf_comes_first__but_not_with(snippet, old, new, fails):
    """A smaller number, or no square, gives no inf; the other edits put inf or
    `nan` in before, or take inf out again.
    """
    fails(test_inf_comes_first, snippet.edit(old, new))


def born(snippet):
    return snippet.only("winds", "born").after("born")


def test_nan_is_born_of_inf(snippet):
    run = born(snippet)

    assert run.inf == INF
    assert run.questions[:3] == ["inf - inf", "inf / inf", "0 * inf"]
    assert all(math.isnan(each) for each in run.answers[:3])


def test_nan_stays_nan(snippet):
    run = born(snippet)

    assert run.nan.isnan()
    kept = ["nan + 1", "nan - 1", "nan * 0", "nan / 2"]
    assert run.questions[3:7] == kept
    assert all(math.isnan(each) for each in run.answers[3:7])


def test_no_comparison_sees_nan(snippet):
    run = born(snippet)

    assert run.nan.isnan()
    signs = [question.split()[1] for question in run.questions[7:]]
    assert signs == ["<", ">", "<=", ">=", "=="]
    assert run.answers[7:] == [False] * 5


TYPES = [torch.float16, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", TYPES)
def test_nan_is_born_of_inf__also_as(snippet, dtype):
    test_nan_is_born_of_inf(in_type(snippet, dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_nan_stays_nan__also_as(snippet, dtype):
    test_nan_stays_nan(in_type(snippet, dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_no_comparison_sees_nan__also_as(snippet, dtype):
    test_no_comparison_sees_nan(in_type(snippet, dtype))


def in_type(snippet, dtype):
    old = "torch.tensor([torch.inf, torch.nan])"
    new = f"torch.tensor([torch.inf, torch.nan], dtype={dtype})"
    return snippet.edit(old, new)


@edits(
    ("inf - inf", "inf + inf"),
    ("inf / inf", "2 / inf"),
    ("0 * inf", "2 * inf"),
)
def test_nan_is_born_of_inf__but_not(snippet, old, new, fails):
    """`inf + inf` and `2 * inf` are inf, and `2 / inf` is 0."""
    fails(test_nan_is_born_of_inf, snippet.edit(old, new))


@edits(
    ("nan + 1", "nan.nan_to_num() + 1"),
    ("nan - 1", "nan**0 - 1"),
    ("nan * 0", "nan.nansum() * 0"),
    ("nan / 2", "nan.nan_to_num() / 2"),
)
def test_nan_stays_nan__but_not(snippet, old, new, fails):
    """`nan_to_num()` and `nansum()` put 0 in its place, and `nan**0` is 1."""
    fails(test_nan_stays_nan, snippet.edit(old, new))


@edits(
    ("nan < 1", "nan != 1"),
    ("nan > 1", "2 > 1 + 0 * nan**0"),
    ("nan <= 1", "~(nan > 1)"),
    ("nan >= 1", "~(nan < 1)"),
    ("nan == nan", "nan != nan"),
)
def test_no_comparison_sees_nan__but_not(snippet, old, new, fails):
    """`nan != 1` and `nan != nan` are true; and the opposite of a comparison
    that is false is true.
    """
    fails(test_no_comparison_sees_nan, snippet.edit(old, new))


def test_an_empty_field_is_nan(snippet):
    run = snippet.only("winds", "csv").after("csv")

    assert run.days.isnan().tolist() == [
        [False, False],
        [False, True],
        [False, False],
    ]
    assert run.whole.tolist() == [[3.1, -2.0], [0.2, 1.4]]


@edits(
    ("the first field", '"4.5,"', '",4.5"'),
    ("both fields", '"4.5,"', '","'),
)
def test_an_empty_field_is_nan__also_for(snippet, old, new):
    run = snippet.edit(old, new).only("winds", "csv").after("csv")

    assert run.days[1].isnan().any()
    assert run.whole.tolist() == [[3.1, -2.0], [0.2, 1.4]]


def test_an_empty_field_is_nan__ends_for_whole_numbers(snippet, fails):
    """With `dtype=int`: an empty field is `-1`, without an error."""
    edited = snippet.edit('delimiter=",")', 'delimiter=",", dtype=int)')
    fails(test_an_empty_field_is_nan, edited)


@edits(
    ("no field", '"4.5,"', '"4.5,1.0"'),
    ("filled", 'delimiter=","', 'delimiter=",", filling_values=0'),
    ("any field", "isfinite().all(dim=1)", "isfinite().any(dim=1)"),
)
def test_an_empty_field_is_nan__but_not_with(snippet, old, new, fails):
    """A field that is filled in is a number; and with `any` in place of `all`,
    half of a row is enough.
    """
    fails(test_an_empty_field_is_nan, snippet.edit(old, new))


def test_batchnorm_keeps_the_nan(snippet):
    cells = ("winds", "model", "faults", "batchnorm")
    run = snippet.only(*cells).after("batchnorm")

    assert run.norm.num_batches_tracked == 2
    assert str(run.norm) == str(nn.BatchNorm1d(2))
    for _ in range(3):
        for running in (run.norm.running_mean, run.norm.running_var):
            assert running.isnan().tolist() == [True, False]
        run.norm(run.winds)


@pytest.mark.parametrize("shape", [(2, 2), (5, 2, 7), (64, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batchnorm_keeps_the_nan__also_in_other_batches(snippet, shape, dtype):
    cells = ("winds", "model", "faults", "batchnorm")
    run = snippet.only(*cells).after("batchnorm")
    torch.manual_seed(0)
    batch = torch.randn(shape, dtype=dtype)
    batch[-1, 1] = torch.nan
    winds = run.winds.to(dtype)
    norm = type(run.norm)(2, dtype=dtype)

    for given in (batch, winds, winds):
        norm(given)
    for running in (norm.running_mean, norm.running_var):
        assert running.isnan().tolist() == [False, True]


@edits(
    ("in evaluation", "nn.BatchNorm1d(2)", "nn.BatchNorm1d(2).eval()"),
    ("good data", "norm(missing)", "norm(winds)"),
)
def test_batchnorm_keeps_the_nan__but_not_with(snippet, old, new, fails):
    """In evaluation mode, nothing is updated; and without the `nan`, nothing
    is spoiled.
    """
    fails(test_batchnorm_keeps_the_nan, snippet.edit(old, new))


def pair(snippet, index, at=None, dtype=torch.float32):
    """Return value and gradient of both lines of a pair."""
    run = snippet.only("winds", "lines").after("lines")
    first, wrong, right = run.lines[index]
    at = first if at is None else at
    return (*run.tried(wrong, at, dtype), *run.tried(right, at, dtype))


def test_a_norm_at_zero_is_safe(snippet, at=None, dtype=torch.float32):
    value, slope, other, others = pair(snippet, 0, at, dtype)

    assert value == other == 0
    assert slope.isnan().all()
    assert others.tolist() == [0] * len(others)
    assert len(others) >= 2
    value, _, other, _ = pair(snippet, 0, [3, 4], dtype)
    assert value == other == 5
    rows = torch.zeros(3, 2, dtype=dtype, requires_grad=True)
    rows.norm(dim=1).sum().backward()
    assert rows.grad.eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_a_norm_at_zero_is_safe__also_for(snippet, dtype):
    test_a_norm_at_zero_is_safe(snippet, [0] * 5, dtype)


@edits(
    ("no zeros", "([0, 0],", "([0, 1],"),
    ("a norm", '"x.square().sum().sqrt()", "x', '"x.norm()", "x'),
    ("no norm", '"x.norm()"', '"x.square().sum() ** 0.5"'),
    ("a sum", '"x.norm()"', '"x.abs().sum()"'),
)
def test_a_norm_at_zero_is_safe__but_not_with(snippet, old, new, fails):
    """At (0, 1), both are finite; the other edits put another formula on one
    of the two sides.
    """
    fails(test_a_norm_at_zero_is_safe, snippet.edit(old, new))


def test_logits_keep_the_loss_finite(snippet, dtype=torch.float32):
    value, slope, other, others = pair(snippet, 1, None, dtype)

    assert value.tolist() == [INF]
    assert slope.isnan().all()
    assert other.tolist() == pytest.approx([20])
    assert others.tolist() == pytest.approx([1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_logits_keep_the_loss_finite__also_for(snippet, dtype):
    test_logits_keep_the_loss_finite(snippet, dtype)


def test_logits_keep_the_loss_finite__ends_in_float64(snippet, fails):
    """In `float64`: at 20, the first is still finite, and so is its
    gradient.
    """
    fails(test_logits_keep_the_loss_finite, snippet, torch.float64)


def test_logsigmoid_is_the_loss_for_0(snippet, target=0.0):
    run = snippet.only("winds", "lines").after("lines")
    (_, _, line) = run.lines[1]
    scores = torch.tensor([20, -3.0, 0.5, 90.0, 0.0, -100.0])

    losses = F.binary_cross_entropy_with_logits(
        scores, torch.full_like(scores, target), reduction="none"
    )
    assert torch.allclose(run.tried(line, scores.tolist())[0], losses)


def test_logsigmoid_is_the_loss_for_0__but_not_with_another_sign(
    snippet, fails
):
    """`-F.logsigmoid(x)` is the loss for the target 1."""
    edited = snippet.edit(
        '"-F.logsigmoid(-x)"',
        '"-F.logsigmoid(x)"',
    )
    fails(test_logsigmoid_is_the_loss_for_0, edited)


def test_logsigmoid_is_the_loss_for_0__ends_for_1(snippet, fails):
    """For the target 1: the two losses differ."""
    fails(test_logsigmoid_is_the_loss_for_0, snippet, 1.0)


@edits(
    ("a lower score", "([20],", "([10],"),
    ("from logits", '"-(1 - x.sigmoid()).log()"', '"-F.logsigmoid(-x)"'),
    ("by hand", '"-F.logsigmoid(-x)"', '"-(1 - x.sigmoid()).log()"'),
    ("the other sign", '"-F.logsigmoid(-x)"', '"-F.logsigmoid(x)"'),
)
def test_logits_keep_the_loss_finite__but_not_with(snippet, old, new, fails):
    """At a score of 10, the first is still finite; the other edits put another
    formula on one of the two sides.
    """
    fails(test_logits_keep_the_loss_finite, snippet.edit(old, new))


def test_logsumexp_does_not_overflow(snippet, at=(100, 0), value=INF):
    found, slope, other, others = pair(snippet, 2, at)
    assert snippet.only("winds", "lines").after("lines").lines[2][0] == [
        100,
        0,
    ]

    assert found == value
    assert slope.isnan().any()
    assert other == max(at)
    assert others.isfinite().all(), others
    assert others.sum() == pytest.approx(1)
    value, _, other, _ = pair(snippet, 2, [2, 3])
    assert other.item() == pytest.approx(value.item())


def test_logsumexp_does_not_overflow__ends_if_all_are_masked(snippet, fails):
    """If all of them are `-inf`, as in a row that is all masked: the gradient
    is `nan` here, too.
    """
    masked = [-INF, -INF]
    fails(test_logsumexp_does_not_overflow, snippet, masked, -INF)


@edits(
    ("lower", "([100, 0],", "([80, 0],"),
    ("by logsumexp", '"x.exp().sum().log()"', '"x.logsumexp(0)"'),
    ("by exp", '"x.logsumexp(0)"', '"x.exp().sum().log()"'),
    ("a maximum", '"x.logsumexp(0)"', '"x.max()"'),
)
def test_logsumexp_does_not_overflow__but_not_with(snippet, old, new, fails):
    """At 80 and 0, `exp` is still finite; the other edits put another formula
    on one of the two sides.
    """
    fails(test_logsumexp_does_not_overflow, snippet.edit(old, new))


def test_a_constant_column_is_zero_by_zero(
    snippet, at=None, dtype=torch.float32
):
    value, _, other, _ = pair(snippet, 3, at, dtype)

    assert value.isnan().tolist() == [True] * len(value)
    assert other.tolist() == [0] * len(value)
    _, _, other, _ = pair(snippet, 3, [1, 2, 3], torch.float64)
    assert other.tolist() == pytest.approx([-1, 0, 1], abs=1e-5)
    _, _, other, _ = pair(snippet, 3, [0, 1e-6], torch.float64)
    assert other[1].item() == pytest.approx(5e-7 / (0.5**0.5 * 1e-6 + 1e-6))


@pytest.mark.parametrize("count", [2, 3, 7, 64, 1000])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_constant_column_is_zero_by_zero__also_for(snippet, count, dtype):
    test_a_constant_column_is_zero_by_zero(snippet, [7] * count, dtype)


@edits(
    ("two numbers", "([7, 7],", "([7, 8],"),
    (
        "with 1e-6",
        '(x - x.mean()) / x.std()"',
        '(x - x.mean()) / (x.std() + 1)"',
    ),
    ("without 1e-6", "(x.std() + 1e-6)", "x.std()"),
    ("with the mean", '"(x - x.mean()) / (x.std()', '"x / (x.std()'),
)
def test_a_constant_column_is_zero_by_zero__but_not(snippet, old, new, fails):
    """A column of 7 and 8 has a deviation; the other edits put another formula
    on one of the two sides.
    """
    fails(test_a_constant_column_is_zero_by_zero, snippet.edit(old, new))


def test_a_constant_column_is_zero_by_zero__ends_for_a_single_number(
    snippet, fails
):
    """For a single number: its deviation is `nan`, so adding 1e-6 does not
    help.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the missing degree of freedom
        fails(test_a_constant_column_is_zero_by_zero, snippet, [7])


@pytest.mark.parametrize("number", [0.1, 10000.1])
def test_a_constant_column_is_zero_by_zero__ends_for_ten_of(
    snippet, number, fails
):
    """For a mean that is rounded, such as that of ten times 0.1: both columns
    are finite, and neither is 0.
    """
    fails(test_a_constant_column_is_zero_by_zero, snippet, [number] * 10)


def test_a_zero_mask_does_not_hide_inf(snippet, dtype=torch.float32):
    value, _, other, others = pair(snippet, 4, None, dtype)

    assert value.isnan().tolist() == [True] * len(value)
    assert other.tolist() == [0]
    assert others.tolist() == [0]
    value, _, other, others = pair(snippet, 4, [2, 0, 4], dtype)
    assert value.isnan().tolist() == [False, True, False]
    assert other.tolist() == [0.5, 0, 0.25]
    assert others.tolist() == [-0.25, 0, -0.0625]


@pytest.mark.parametrize("dtype", TYPES)
def test_a_zero_mask_does_not_hide_inf__also_for(snippet, dtype):
    test_a_zero_mask_does_not_hide_inf(snippet, dtype)


@edits(
    ("at 1", "([0],", "([1],"),
    ("1 first", '"(1 / x) * (x > 0)"', '"(1 / x.where(x > 0, 1)) * (x > 0)"'),
    (
        "where after",
        '"(1 / x.where(x > 0, 1)) * (x > 0)"',
        '"(1 / x).where(x > 0, 0)"',
    ),
)
def test_a_zero_mask_does_not_hide_inf__but_not(snippet, old, new, fails):
    """At 1, nothing is `nan`; the other edits put the 1 in on both sides, or
    `where` after the division.
    """
    fails(test_a_zero_mask_does_not_hide_inf, snippet.edit(old, new))


def test_nan_to_num_hides_the_value_only(snippet, dtype=torch.float32):
    value, slope, other, others = pair(snippet, 5, None, dtype)

    assert value.tolist() == [0]
    assert slope.isnan().all()
    assert other.tolist() == pytest.approx([1e-3], rel=0.02)
    assert others.isfinite().all()


@pytest.mark.parametrize("dtype", TYPES)
def test_nan_to_num_hides_the_value_only__also_for(snippet, dtype):
    test_nan_to_num_hides_the_value_only(snippet, dtype)


@edits(
    ("at 4", "([-1],", "([4],"),
    (
        "clamped",
        '"x.sqrt().nan_to_num()"',
        '"x.clamp(min=0.0).detach().sqrt() + 0 * x"',
    ),
    ("not hidden", '"x.sqrt().nan_to_num()"', '"x.sqrt()"'),
    (
        "clamped late",
        '"x.clamp(min=1e-6).sqrt()"',
        '"x.sqrt().clamp(min=1e-6)"',
    ),
)
def test_nan_to_num_hides_the_value_only__but_not(snippet, old, new, fails):
    """At 4, nothing is `nan`; the other edits put another formula on one of
    the two sides.
    """
    fails(test_nan_to_num_hides_the_value_only, snippet.edit(old, new))


def test_a_large_rate_grows_to_nan(snippet, seed=0):
    run = snippet.only("winds", "rates").after("rates")

    large = run.losses(30.0, seed)
    finite = [loss for loss in large if math.isfinite(loss)]
    infinite = large.count(INF)
    assert len(finite) >= 4
    assert all(b > 1000 * a for a, b in itertools.pairwise(finite))
    assert infinite >= 1
    assert large[: len(finite)] == finite
    assert large[len(finite) : len(finite) + infinite] == [INF] * infinite
    rest = large[len(finite) + infinite :]
    assert rest
    assert all(math.isnan(loss) for loss in rest)
    small = run.losses(0.01, seed)
    assert all(b < a for a, b in itertools.pairwise(small))
    assert run.losses(0.01, seed) == small


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_large_rate_grows_to_nan__also_from(snippet, seed):
    test_a_large_rate_grows_to_nan(snippet, seed)


@edits(
    ("hardly any wind", "winds = 3 *", "winds = 0.1 *"),
    ("fewer steps", "range(18)", "range(9)"),
    (
        "Adam",
        "torch.optim.SGD(model.parameters(), lr=rate)",
        "torch.optim.Adam(model.parameters(), lr=rate)",
    ),
)
def test_a_large_rate_grows_to_nan__but_not(snippet, old, new, fails):
    """With hardly any wind, or in nine steps, the loss stays finite; with
    Adam, it does not grow with each step.
    """
    fails(test_a_large_rate_grows_to_nan, snippet.edit(old, new))


ATTENTION = (
    "winds",
    "masked",
    "need-weights",
    "without-weights",
    "fast-path",
)


def test_a_masked_text_is_nan(snippet, training=True):
    run = snippet.only(*ATTENTION).after("masked")
    run.layer.train(training)

    outputs, count = run.attend()
    assert run.mask.tolist() == [[False] * 3, [True] * 3]
    assert outputs.isnan().all()
    assert outputs.shape == (3, 4)
    assert count == run.layer.in_proj_weight.numel()
    # Each of the three words of the first text alone gives it a slope of 1.
    assert run.layer.out_proj.bias.grad.tolist() == [3] * 4


def test_a_masked_text_is_nan__also_in_evaluation(snippet):
    test_a_masked_text_is_nan(snippet, training=False)


@pytest.mark.parametrize("heads", [1, 4])
def test_a_masked_text_is_nan__also_with_heads(snippet, heads):
    edited = snippet.edit("num_heads=2", f"num_heads={heads}")
    test_a_masked_text_is_nan(edited)


@edits(
    (
        "one word left",
        "[True] * 3]",
        "[True] * 3]\nmask[1, 2] = False\nmask = mask[:].clone(",
    ),
    ("without weights", "**options}", '"need_weights": False}'),
    ("both texts in the loss", "outputs[0].sum()", "outputs.sum()"),
)
def test_a_masked_text_is_nan__but_not(snippet, old, new, fails):
    """With one word left, or with `need_weights=False`, the output is not
    `nan`; the last edit leaves no text out of the loss.
    """
    if "clone" in new:
        old = "torch.tensor([[False] * 3, [True] * 3])"
        new = "torch.tensor([[False] * 3, [True, True, False]])"
    fails(test_a_masked_text_is_nan, snippet.edit(old, new))


def test_a_masked_text_is_nan__ends_with_a_zero_to_attend_to(snippet, fails):
    """With `add_zero_attn=True`: a text that is all masked attends to the
    zero, and nothing is `nan`.
    """
    edited = snippet.edit(
        "batch_first=True)", "batch_first=True, add_zero_attn=True)"
    )
    fails(test_a_masked_text_is_nan, edited)


def test_a_masked_text_is_nan__ends_with_a_finite_mask(snippet, fails):
    """With a mask of large negative numbers instead of `True`: the words get
    equal shares, and nothing is `nan`.
    """
    edited = snippet.edit(
        'given = {"key_padding_mask": mask, **options}',
        'given = {"key_padding_mask": -1e9 * mask, **options}',
    )
    fails(test_a_masked_text_is_nan, edited)


x86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="no x86 CPU"
)


@x86
def test_without_weights_it_is_zero(snippet, training=True, seed=0):
    edited = snippet.edit(
        "torch.manual_seed(0)\ntexts", f"torch.manual_seed({seed})\ntexts"
    )
    run = edited.only(*ATTENTION).after("masked")
    run.layer.train(training)
    run.layer.out_proj.bias.data.uniform_()

    run.attend()  # leaves gradients of nan
    outputs, count = run.attend(need_weights=False)
    assert run.mask[1].all()
    assert torch.equal(outputs, run.layer.out_proj.bias.expand(3, 4))
    assert count == 0
    assert all(p.grad.isfinite().all() for p in run.layer.parameters())
    assert run.layer.in_proj_weight.grad.any()


@x86
@pytest.mark.parametrize(
    "training", [True, False], ids=["training mode", "evaluation mode"]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_without_weights_it_is_zero__also_from(snippet, training, seed):
    test_without_weights_it_is_zero(snippet, training, seed)


@x86
@edits(
    ("with weights", "**options}", '"need_weights": True}'),
    ("one word left", "[True] * 3])", "[True, True, False]])"),
)
def test_without_weights_it_is_zero__but_not(snippet, old, new, fails):
    """With `need_weights=True`, the output is `nan`; with one word left, it
    depends on that word.
    """
    fails(test_without_weights_it_is_zero, snippet.edit(old, new))


@x86
def test_the_fast_path_gives_nan(snippet):
    run = snippet.only(*ATTENTION).after("fast-path")

    assert run.mask[1].all()
    assert not run.layer.training
    assert run.evaluated(fast=True).isnan().all()
    run.layer.out_proj.bias.data.uniform_()
    slow = run.evaluated(fast=False)
    assert torch.equal(slow, run.layer.out_proj.bias.expand(3, 4))
    assert torch.backends.mha.get_fastpath_enabled()


@x86
@pytest.mark.parametrize("seed", [1, 2])
def test_the_fast_path_gives_nan__also_from(snippet, seed):
    old = "torch.manual_seed(0)\ntexts"
    edited = snippet.edit(old, f"torch.manual_seed({seed})\ntexts")
    test_the_fast_path_gives_nan(edited)


@x86
@edits(
    ("one word left", "[True] * 3])", "[True, True, False]])"),
    ("in training", "layer.eval()", "layer.train()"),
    ("with gradients", "torch.no_grad()", "torch.enable_grad()"),
    (
        "fast all the same",
        "set_fastpath_enabled(fast)",
        "set_fastpath_enabled(True)",
    ),
)
def test_the_fast_path_gives_nan__but_not(snippet, old, new, fails):
    """With one word left, in training mode or with gradients, it is not `nan`;
    with the fast path left on, it is.
    """
    fails(test_the_fast_path_gives_nan, snippet.edit(old, new))


@x86
def test_sdpa_gives_zeros(snippet, dtype=torch.float32, hidden=-INF):
    run = snippet.only(*ATTENTION).after("without-weights")

    assert run.mask[1].all()
    assert not run.shares[1].any()
    assert run.shares[0].all()
    torch.manual_seed(0)
    for length in (1, 2, 17):
        texts = torch.randn(2, 3, length, 8, dtype=dtype, requires_grad=True)
        keep = torch.ones(length, length, dtype=torch.bool)
        keep[0] = run.mask[0, 0]
        for mask in (
            keep,
            torch.zeros_like(keep, dtype=dtype).masked_fill(~keep, hidden),
        ):
            found = F.scaled_dot_product_attention(texts, texts, texts, mask)
            assert not found[:, :, 0].any()
            assert found[:, :, 1:].isfinite().all()
            (slopes,) = torch.autograd.grad(found.sum(), texts)
            assert slopes.isfinite().all()


@x86
def test_sdpa_gives_zeros__ends_with_a_finite_mask(snippet, fails):
    """With a mask of large negative numbers, such as `torch.finfo(dtype).min`:
    the row is the mean of all values.
    """
    least = torch.finfo(torch.float32).min
    fails(test_sdpa_gives_zeros, snippet, torch.float32, least)


@x86
@pytest.mark.parametrize("dtype", TYPES)
def test_sdpa_gives_zeros__also_for(snippet, dtype):
    test_sdpa_gives_zeros(snippet, dtype)


@x86
@edits(
    ("one word left", "[True] * 3])", "[True, True, False]])"),
    (
        "the softmax by hand",
        "F.scaled_dot_product_attention(texts, texts, texts, ~mask[:, None])",
        "F.softmax(0 / ~mask[:, None].expand(2, 3, 3), -1) @ texts",
    ),
)
def test_sdpa_gives_zeros__but_not(snippet, old, new, fails):
    """With one word left, it returns that word; and a softmax by hand returns
    `nan`.
    """
    fails(test_sdpa_gives_zeros, snippet.edit(old, new))


def half(snippet):
    return snippet.only("winds", "half").after("half").half


def test_float16_ends_at_65504(snippet):
    numbers = half(snippet)

    assert numbers[1] == 256
    assert numbers.square().isinf().tolist() == [False, True]
    fits = torch.tensor([65504.0, 65520.0]).to(numbers.dtype)
    assert fits.tolist() == [65504, INF]


@edits(
    (
        "bfloat16",
        "[255.0, 256.0], dtype=torch.float16",
        "[255.0, 256.0], dtype=torch.bfloat16",
    ),
    (
        "float32",
        "[255.0, 256.0], dtype=torch.float16",
        "[255.0, 256.0], dtype=torch.float32",
    ),
)
def test_float16_ends_at_65504__but_not_as(snippet, old, new, fails):
    """`bfloat16` and `float32` go far beyond that."""
    fails(test_float16_ends_at_65504, snippet.edit(old, new))


def test_a_billion_does_not_fit(snippet):
    numbers = half(snippet)
    first = torch.tensor([True, False])

    with pytest.raises(RuntimeError) as failure:
        numbers.masked_fill(first, -1e9)
    half_in_c = "at" if older(torch.__version__, "2.10") else "c10"
    said = f"value cannot be converted to type {half_in_c}::Half"
    assert str(failure.value) == f"{said} without overflow"
    assert (numbers - 1e9).tolist() == [-INF, -INF]
    assert snippet.only("winds", "half").after("half").lowered.isinf().all()
    with no_error():
        least = torch.finfo(numbers.dtype).min
        assert numbers.masked_fill(first, least).isfinite().all()


@edits(
    (
        "bfloat16",
        "[255.0, 256.0], dtype=torch.float16",
        "[255.0, 256.0], dtype=torch.bfloat16",
    ),
    (
        "float32",
        "[255.0, 256.0], dtype=torch.float16",
        "[255.0, 256.0], dtype=torch.float32",
    ),
)
def test_a_billion_does_not_fit__but_not_in(snippet, old, new, fails):
    """`bfloat16` and `float32` hold numbers of that size."""
    fails(test_a_billion_does_not_fit, snippet.edit(old, new))


def test_eps_is_zero_in_float16(snippet):
    run = snippet.only("winds", "adam").after("adam")

    assert torch.tensor(1e-8, dtype=torch.float16) == 0
    assert run.stepped(torch.float32, 0.0) < 1  # since AdamW decays
    for gradient in (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3):
        for sign in (1, -1):
            end = run.stepped(torch.float16, sign * gradient)
            assert not math.isfinite(end)
            assert math.isfinite(run.stepped(torch.float32, sign * gradient))
            with_eps = run.stepped(torch.float16, sign * gradient, eps=1e-4)
            assert math.isfinite(with_eps)


@edits(
    ("fused", "AdamW([weight], **options)", "AdamW([weight], fused=True)"),
    ("Adam", "AdamW([weight], **options)", "Adam([weight], **options)"),
    (
        "an eps that float16 holds",
        "AdamW([weight], **options)",
        "AdamW([weight], eps=1e-4)",
    ),
    (
        "both in float16",
        "torch.ones(1, dtype=dtype)",
        "torch.ones(1, dtype=torch.float16)",
    ),
)
def test_eps_is_zero_in_float16__but_not(snippet, old, new, fails):
    """With `fused=True`, or an `eps` of 1e-4, the weight stays finite; the
    other edits change the comparison with `float32`.
    """
    fails(test_eps_is_zero_in_float16, snippet.edit(old, new))


CLIP = ("winds", "clipped")


def test_clipping_makes_inf_nan(snippet):
    run = snippet.only(*CLIP).after("clipped")

    for gradients in ([3.0, INF], [-INF, 0.5, 2.0], [INF, 1e-9, -INF], [INF]):
        found = run.clipped(gradients)
        for before, after in zip(gradients, found, strict=True):
            if math.isinf(before):
                assert math.isnan(after)
            else:
                assert after == 0
    assert run.clipped([3.0, 4.0]) == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("norm", [0.0, 1e-3, 1e30])
def test_clipping_makes_inf_nan__also_to_a_norm_of(snippet, norm):
    edited = snippet.edit("max_norm=1.0, **options", f"max_norm={norm}")
    run = edited.only(*CLIP).after("clipped")

    first, second = run.clipped([3.0, INF])
    assert first == 0
    assert math.isnan(second)


@pytest.mark.parametrize("options", [{"norm_type": INF}, {"foreach": False}])
def test_clipping_makes_inf_nan__also_with(snippet, options):
    given = ", ".join(f"{key}={value}" for key, value in options.items())
    given = given.replace("inf", "torch.inf")
    edited = snippet.edit("max_norm=1.0, **options", f"max_norm=1.0, {given}")
    run = edited.only(*CLIP).after("clipped")

    first, second = run.clipped([3.0, INF])
    assert first == 0
    assert math.isnan(second)


@edits(
    (
        "clipped by value",
        "nn.utils.clip_grad_norm_(weights, max_norm=1.0, **options)",
        "nn.utils.clip_grad_value_(weights, 1.0)",
    ),
    (
        "not clipped",
        "nn.utils.clip_grad_norm_(weights, max_norm=1.0, **options)",
        "pass",
    ),
    ("no end", "max_norm=1.0, **options", "max_norm=torch.inf, **options"),
)
def test_clipping_makes_inf_nan__but_not(snippet, old, new, fails):
    """Clipped by value, or not at all, the others are not 0; with
    `max_norm=torch.inf`, they are `nan`.
    """
    fails(test_clipping_makes_inf_nan, snippet.edit(old, new))


def test_clipping_spreads_nan(snippet):
    run = snippet.only(*CLIP).after("clipped")

    for gradients in ([3.0, NAN], [NAN, 0.0, 2.0], [INF, NAN, 1e-9]):
        assert all(map(math.isnan, run.clipped(gradients)))


@edits(
    (
        "clipped by value",
        "nn.utils.clip_grad_norm_(weights, max_norm=1.0, **options)",
        "nn.utils.clip_grad_value_(weights, 1.0)",
    ),
)
def test_clipping_spreads_nan__but_not(snippet, old, new, fails):
    """Clipped by value, the others stay numbers."""
    fails(test_clipping_spreads_nan, snippet.edit(old, new))


def test_strict_clipping_raises(snippet, strict=True):
    run = snippet.only(*CLIP).after("clipped")

    for bad in (INF, -INF, NAN):
        with pytest.raises(RuntimeError) as failure:
            run.clipped([3.0, bad], error_if_nonfinite=strict)
        said = str(failure.value)
        assert said.startswith("The total norm of order 2.0 for gradients")
        assert said.endswith("set `error_if_nonfinite=False`")
        trace = failure.traceback
        (frame,) = [each for each in trace if each.name == "clipped"]
        grads = [each.grad.item() for each in frame.frame.f_locals["weights"]]
        assert grads == pytest.approx([3.0, bad], nan_ok=True)
    with no_error():
        run.clipped([3.0, 4.0], error_if_nonfinite=strict)


def test_strict_clipping_raises__but_not_if_it_is_not_handed_on(
    snippet, fails
):
    """If `clipped` does not hand the option on, no error is raised."""
    edited = snippet.edit(
        "max_norm=1.0, **options)\n    return [weight",
        "max_norm=1.0)\n    return [weight",
    )
    fails(test_strict_clipping_raises, edited)


def test_strict_clipping_raises__ends_by_default(snippet, fails):
    """By default, with `error_if_nonfinite=False`: no error is raised."""
    fails(test_strict_clipping_raises, snippet, False)
