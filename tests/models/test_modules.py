"""The claims of docs/models/modules.md."""

import re
from functools import partial, reduce
from math import prod
from operator import attrgetter
from unittest.mock import patch

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import no_error

FIRST = "self.first = Block(1, 8)"
CONV = "nn.Conv2d(channels_in, channels_out, kernel_size=3)"
NORM = "nn.BatchNorm2d(channels_out)"
POOL = "nn.MaxPool2d(2)"
FEATURES = "features = self.second(self.first(images))"
# The head and the forward pass of Digits, not those of the other modules.
HEAD = "nn.Linear(400, 10)\n\n    def forward(self, images):\n        features"
START = f"    def forward(self, images):\n        {FEATURES}"


def is_in(tensor, tensors):
    return any(each is tensor for each in tensors)


def overriding(start, method):
    """Return an edit that gives the module of a forward pass a method."""
    return start, f"{method}\n\n{start}"


def edits(by_name):
    """Give a counter-example several edits, each with a name."""
    return pytest.mark.parametrize("edit", by_name.values(), ids=by_name)


@pytest.fixture
def roomy(snippet):
    """A snippet whose head takes 400 numbers, also of larger features."""
    wide = "nn.functional.interpolate(features, (5, 5)).flatten(1)"
    return snippet.edit("features.flatten(start_dim=1)", wide)


# nn.Module in eighteen lines


def scaled(Module):
    """Return a module with all that an attribute can be, three levels deep."""
    outer = Module()
    outer.inner = Module()
    outer.inner.weight = nn.Parameter(torch.ones(3))
    outer.inner.core = Module()
    outer.inner.core.register_buffer("mean", torch.zeros(1))
    outer.inner.core.mean = torch.ones(1)
    outer.inner.core.bias = nn.Parameter(torch.zeros(2), requires_grad=False)
    outer.inner.plain = outer.inner.weight * 2
    outer.layers = [Module()]
    outer.layers[0].weight = nn.Parameter(torch.ones(1))
    outer.number, outer.last = 3, torch.ones(2)
    return outer


def everywhere(holder, path=""):
    """Yield each tensor that a module or a list holds, registered or not."""
    listed = isinstance(holder, list)
    inside = dict(enumerate(holder)) if listed else vars(holder)
    for kind in ("_parameters", "_buffers", "_modules"):
        inside = inside | inside.get(kind, {})
    for name, each in inside.items():
        if isinstance(each, torch.Tensor):
            yield f"{path}{name}", each
            if each.is_leaf and each.grad is not None:
                yield f"{path}{name}.grad", each.grad
        elif isinstance(each, list) or hasattr(each, "to"):
            yield from everywhere(each, f"{path}{name}.")


def compare(ours, real, dtype=torch.float64):
    """Compare two modules by names, by numbers and by what `to()` converts."""
    parameters, state = dict(ours.named(nn.Parameter)), dict(ours.named())
    assert parameters.keys() == dict(real.named_parameters()).keys()
    assert state.keys() == real.state_dict().keys()
    for name, tensor in real.state_dict().items():
        assert state[name].equal(tensor)
    before = {name: each.dtype for name, each in everywhere(real)}
    ours.to(dtype)
    real.to(dtype)
    dtypes = {name: each.dtype for name, each in everywhere(real)}
    assert dtypes != before
    assert {name: each.dtype for name, each in everywhere(ours)} == dtypes


def test_eighteen_lines_are_nn_module(snippet, make=scaled):
    run = snippet.after("compare")
    for build in (run.build, make):
        with no_error():
            real = build(nn.Module)
        compare(build(run.Module), real)


def assigned(Module, register):
    """Return a module with a parameter, and whatever a function adds."""
    module = Module()
    module.weight = nn.Parameter(torch.ones(3))
    register(module)
    return module


@pytest.mark.parametrize(
    "register",
    [
        lambda m: setattr(m, "weight", nn.Parameter(torch.zeros(5))),
        lambda m: setattr(m, "data", m.weight.data),
        lambda m: setattr(m, "empty", None),
        lambda m: [setattr(m, "x", m.weight), setattr(m, "x", None)],
    ],
    ids=[
        "a second parameter under the same name",
        "its data",
        "None",
        "a parameter replaced by None",
    ],
)
def test_eighteen_lines_are_nn_module__also_for(snippet, register):
    test_eighteen_lines_are_nn_module(
        snippet, partial(assigned, register=register)
    )


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.LSTM(3, 4, 2),
        lambda: nn.GroupNorm(2, 4),
        lambda: nn.MultiheadAttention(4, 2),
        lambda: nn.TransformerEncoderLayer(4, 2),
    ],
    ids=["LSTM", "GroupNorm", "attention", "a transformer layer"],
)
def test_eighteen_lines_are_nn_module__also_for_the_parts_of(snippet, layer):
    Module = snippet.after("by-hand").Module

    def copied(real):
        ours = Module()
        for name, each in real.named_parameters(recurse=False):
            setattr(ours, name, nn.Parameter(each.detach().clone()))
        for name, child in real.named_children():
            setattr(ours, name, copied(child))
        return ours

    real = layer()
    ours, dtype = copied(real), torch.float64
    assert list(dict(ours.named())) == list(real.state_dict())
    ours.to(dtype)
    assert {each.dtype for _, each in ours.named()} == {dtype}


@edits(
    {
        "2 without modules": ("nn.Parameter | Module", "nn.Parameter"),
        "2 without names": ("name in self.registered or ", ""),
        "2 with each tensor": ("nn.Parameter | Mod", "torch.Tensor | Mod"),
        "3 as an attribute": (
            "vars(self)[name] = self.registered[name] = tensor",
            "vars(self)[name] = tensor",
        ),
        "4 without the name": ('f"{path}{name}."', "path"),
        "4 with another sign": ('f"{path}{name}."', 'f"{path}{name}_"'),
        "4 without the kind": ("each.named(kind, f", "each.named(path=f"),
        "5 for all kinds": ("elif isinstance(each, kind):", "else:"),
        "6 for parameters": ("self.named():", "self.named(nn.Parameter):"),
        "6 in a copy": ("tensor.data = tensor.data.to", "tensor.data.to"),
    }
)
def test_eighteen_lines_are_nn_module__but_not_with(snippet, edit, fails):
    """Change one of the lines, and another name is registered, or another
    tensor converted.
    """
    fails(test_eighteen_lines_are_nn_module, snippet.edit(*edit))


@pytest.mark.parametrize(
    "register",
    [
        lambda m: setattr(m, "layer", nn.Linear(2, 1)),
        lambda m: setattr(m, "mean", nn.Buffer(ONES)),
        lambda m: setattr(m, "weight", torch.ones(3)),
        lambda m: m.weight.sum().backward(),
        lambda m: setattr(m, "again", m.weight),
        lambda m: m.register_buffer("count", torch.tensor(3)),
    ],
    ids=[
        "a layer is one of torch.nn",
        "a buffer is assigned as nn.Buffer",
        "a plain tensor replaces a parameter",
        "there are gradients",
        "a tensor has two names",
        "a buffer holds whole numbers",
    ],
)
def test_eighteen_lines_are_nn_module__ends_if(snippet, register, fails):
    """The real one registers `nn.Buffer` and layers of `torch.nn`, refuses a
    plain tensor in place of a parameter, names a shared parameter once, and
    converts gradients, but no whole numbers.
    """
    make = partial(assigned, register=register)
    fails(test_eighteen_lines_are_nn_module, snippet, make)


# A module inside a module


def check_the_paths(module):
    """Follow each name from the module to the parameter, dot by dot."""
    for name, parameter in module.named_parameters():
        assert reduce(getattr, name.split("."), module) is parameter


def test_names_are_paths(snippet):
    model = snippet.after("digits").digits

    children = dict(model.named_children())
    names = [name for name, _ in model.named_parameters()]
    assert list(children) == ["first", "second", "head"]
    assert all(getattr(model, name) is children[name] for name in children)
    assert names == [
        *(
            f"{block}.{part}.{kind}"
            for block in ("first", "second")
            for part in ("conv", "norm")
            for kind in ("weight", "bias")
        ),
        "head.weight",
        "head.bias",
    ]
    check_the_paths(model)


@pytest.mark.parametrize("depth", [1, 5])
@pytest.mark.parametrize("layer", [nn.Linear(2, 3), nn.LSTM(2, 3), nn.PReLU()])
def test_names_are_paths__also_deeper(depth, layer):
    module = layer
    for _ in range(depth):
        module = below(module)
        assert is_in(module.inner, module.children())

    names = ["inner." * depth + name for name, _ in layer.named_parameters()]
    assert [name for name, _ in module.named_parameters()] == names
    check_the_paths(module)


def test_names_are_paths__also_in_the_picture(snippet):
    run = snippet.after("branches")
    rows = [(depth, above, name) for depth, above, name, _ in run.tree]

    below_it = ("conv", "norm", "pool")
    first, second = (
        [(1, 0, block), *((2, above, part) for part in below_it)]
        for block, above in (("first", 1), ("second", 5))
    )
    assert rows == [(0, 0, "digits"), *first, *second, (1, 0, "head")]
    assert [layer for *_, layer in run.tree] == list(run.digits.modules())


@edits(
    {
        "in a list": (FIRST, "self.first = [Block(1, 8)]"),
        "past the module": (
            FIRST,
            "object.__setattr__(self, 'first', Block(1, 8))",
        ),
        "joined by another sign": overriding(
            START,
            "    def named_parameters(self, *_, **__):\n"
            "        for name, each in super().named_parameters():\n"
            "            yield name.replace('.', '_'), each",
        ),
    }
)
def test_names_are_paths__but_not(snippet, edit, fails):
    """A plain list or `object.__setattr__` hides the layer from the module;
    the third edit renames the parameters.
    """
    fails(test_names_are_paths, snippet.edit(*edit))


def below(module):
    """Hold a module as an attribute."""
    outer = nn.Module()
    outer.inner = module
    return outer


def in_a_list(module):
    """Hold a module where the outer one does not see it."""
    outer = nn.Module()
    outer.inner = [module]
    return outer


def tensors_of(module):
    return [*module.parameters(), *module.buffers()]


def reaches(call, outer, inner):
    """Return of each module or tensor whether a call on the outer reaches."""
    layers, parameters = list(inner.modules()), list(inner.parameters())
    if call == "parameters":
        return [is_in(each, outer.parameters()) for each in parameters]
    if call == "state_dict":
        held = {each.data_ptr() for each in outer.state_dict().values()}
        return [each.data_ptr() in held for each in tensors_of(inner)]
    if call == "to":
        outer.to("meta")
        return [each.is_meta for each in tensors_of(inner)]
    if call in ("train", "eval"):
        for layer in layers:
            layer.training = call == "eval"
        getattr(outer, call)()
        return [layer.training == (call == "train") for layer in layers]
    if call == "requires_grad_":
        outer.requires_grad_(False)
        return [not each.requires_grad for each in parameters]
    for each in parameters:
        each.grad = torch.ones_like(each)
    outer.zero_grad()
    return [each.grad is None for each in parameters]


CALLS = ["parameters", "state_dict", "to", "train", "eval", "requires_grad_"]
CALLS += ["zero_grad"]


def test_a_call_reaches_all_below(snippet, hold=below, calls=CALLS):
    Digits = snippet.after("digits").Digits

    for call in calls:
        model, other = Digits(), Digits()
        assert len(list(model.parameters())) == 10
        assert len(list(model.modules())) == 10
        assert all(reaches(call, model, model))
        assert all(reaches(call, hold(other), other))


@pytest.mark.parametrize(
    "hold",
    [
        lambda module: below(below(below(module))),
        nn.Sequential,
        lambda module: nn.ModuleDict({"inner": nn.ModuleList([module])}),
    ],
    ids=["three levels", "Sequential", "ModuleDict and ModuleList"],
)
def test_a_call_reaches_all_below__also_in(snippet, hold):
    test_a_call_reaches_all_below(snippet, hold)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_reaches_all_below__ends_in_a_list(snippet, call, fails):
    """For layers in a plain list: they are no children of the module, so no
    call reaches them.
    """
    fails(test_a_call_reaches_all_below, snippet, in_a_list, [call])


def test_a_call_reaches_all_below__but_not_past_a_train_of_ones_own(
    snippet, fails
):
    """This `train()` does not pass the call on to the layers below."""
    own = "    def train(self, mode=True):\n        return self"
    edited = snippet.edit(*overriding(START, own))
    fails(test_a_call_reaches_all_below, edited)


def test_sizes_tell_the_count(snippet, sizes=(1, 8, 3)):
    run = snippet.after("count")
    ins, outs, kernel = sizes
    model, area = run.digits, kernel * (kernel + 1)
    conv = nn.Conv2d(ins, outs, (kernel, kernel + 1))

    assert run.count(model.head) == 400 * 10 + 10
    assert run.count(model.first.conv) == 8 * 3 * 3 + 8
    assert run.count(model.second.conv) == 8 * 16 * 3 * 3 + 16
    assert run.count(nn.Linear(ins, outs)) == ins * outs + outs
    assert run.count(conv) == ins * outs * area + outs


@pytest.mark.parametrize("sizes", [(1, 1, 1), (64, 3, 2)])
def test_sizes_tell_the_count__also_for(snippet, sizes):
    test_sizes_tell_the_count(snippet, sizes)


@edits(
    {
        "a Linear without bias": (
            HEAD,
            HEAD.replace("10)", "10, bias=False)"),
        ),
        "a Conv2d without bias": (CONV, CONV.replace("=3", "=3, bias=False")),
        "a Conv2d with groups": (
            CONV,
            CONV.replace("=3", "=3, groups=channels_in"),
        ),
    }
)
def test_sizes_tell_the_count__but_not_of(snippet, edit, fails):
    """`bias=False` takes the biases away, and with `groups=channels_in` each
    filter sees a single channel.
    """
    fails(test_sizes_tell_the_count, snippet.edit(*edit))


# The forward pass, layer by layer


def test_a_hook_gets_each_output(
    snippet, make=lambda: nn.Linear(3, 2), part="", caller=lambda layer: layer
):
    run = snippet.after("read-a-layer")

    second, features = run.digits.second, run.digits.first(run.images)
    expected = second.pool(second.norm(second.conv(features)).clamp(min=0))
    digits = run.Digits()
    shapes = run.shapes_of(digits, run.images)
    assert shapes["first.conv"] == (32, 8, 26, 26)
    assert shapes["first"] == (32, 8, 13, 13)
    assert shapes[""] == (32, 10)
    assert not any(each._forward_hooks for each in digits.modules())
    assert "second" in run.read
    got = run.read.pop("second")
    assert got.equal(expected)
    assert got.grad_fn is None
    run.digits(run.images)
    assert run.read == {}

    handle = run.digits.head.register_forward_hook(run.keep)
    for images in run.images.split(16):
        scores = run.digits(images)
        assert run.read["second"].equal(scores)
    handle.remove()

    layer, kept = make(), []
    call = caller(layer)
    call(torch.ones(4, 3))
    hooked = layer.get_submodule(part)
    handle = hooked.register_forward_hook(lambda *each: kept.append(each[2]))
    outputs = [call(torch.ones(4, 3)) for _ in range(3)]
    handle.remove()
    call(torch.ones(4, 3))
    assert len(kept) == 3
    assert all(map(lambda one, two: one is two, kept, outputs))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(3, 2),
        lambda: nn.Sequential(nn.Linear(3, 2), nn.ReLU(inplace=True)),
        lambda: nn.BatchNorm1d(3).eval(),
    ],
    ids=["an LSTM", "a Sequential", "evaluation"],
)
def test_a_hook_gets_each_output__also_of(snippet, make):
    test_a_hook_gets_each_output(snippet, make)


def test_a_hook_gets_each_output__ends_with_forward(snippet, fails):
    """If you call `forward` instead of the module: it skips its hooks."""
    make = partial(nn.Linear, 3, 2)
    forward = attrgetter("forward")
    fails(test_a_hook_gets_each_output, snippet, make, "", forward)


def test_a_hook_gets_each_output__ends_in_a_compiled_model(snippet, fails):
    """In a compiled model: a hook that you register after the first call is
    not called.
    """
    make = partial(nn.Linear, 3, 2)
    compiled = partial(torch.compile, backend="eager")
    fails(test_a_hook_gets_each_output, snippet, make, "", compiled)


def test_a_hook_gets_each_output__ends_before_a_layer_in_place(snippet, fails):
    """Before a layer that works in place, here a `Threshold`: it overwrites
    what the hook has only detached.
    """
    in_place = "nn.Threshold(0.5, 0, inplace=True)(features).flatten"
    edited = snippet.edit("features.flatten", in_place)
    cloned = edited.edit("output.detach()", "output.detach().clone()")
    test_a_hook_gets_each_output(cloned)
    fails(test_a_hook_gets_each_output, edited)


class Attention(nn.MultiheadAttention):
    """Attention of a single input to itself."""

    def forward(self, inputs):
        """Return the outputs without the weights."""
        return super().forward(inputs, inputs, inputs, need_weights=False)[0]


def test_a_hook_gets_each_output__ends_in_attention(snippet, fails):
    """At the `out_proj` of `MultiheadAttention`: it is never called, since the
    attention computes with its weight itself.
    """
    make = partial(Attention, 3, 1)
    fails(test_a_hook_gets_each_output, snippet, make, "out_proj")


SECOND_HOOK = "digits.second.register_forward_hook"


@edits(
    {
        "without remove": ("handle.remove()\n\nprint(read", "print(read"),
        "at another layer": (
            SECOND_HOOK,
            "digits.first.register_forward_hook",
        ),
        "if forward is called": (
            "self.second(self.first(",
            "self.second.forward(self.first(",
        ),
        "after remove": (
            "digits(images)\nhandle.remove()",
            "handle.remove()\ndigits(images)",
        ),
        "in place of the inputs": ("output.detach()", "inputs[0].detach()"),
    }
)
def test_a_hook_gets_each_output__but_not(snippet, edit, fails):
    """A hook gets the output of its own layer alone, only if that layer is
    called, and only until `remove()`.
    """
    edited = snippet.edit("read = {}", 'read = {"second": torch.zeros(1)}')
    fails(test_a_hook_gets_each_output, edited.edit(*edit))


def test_shapes_follow_from_the_layers(snippet, side=28, start_dim=1):
    run = snippet.after("digits")
    pictures = torch.rand(3, 1, side, side + 1)

    conv = run.digits.first.conv(pictures)
    pooled = run.digits.first.pool(pictures)
    assert conv.shape == (3, 8, side - 2, side + 1 - 2)
    assert pooled.shape == (3, 1, side // 2, (side + 1) // 2)
    flat = conv.flatten(start_dim=start_dim)
    assert flat.shape == (3, 8 * (side - 2) * (side - 1))
    assert flat[2].equal(conv[2].reshape(-1))


@pytest.mark.parametrize("side", [3, 11, 30])
def test_shapes_follow_from_the_layers__also_for_pictures_with_a_side_of(
    snippet, side
):
    test_shapes_follow_from_the_layers(snippet, side)


@edits(
    {
        "with padding": (CONV, CONV.replace("=3", "=3, padding=1")),
        "with a stride": (CONV, CONV.replace("=3", "=3, stride=2")),
        "with dilation": (CONV, CONV.replace("=3", "=3, dilation=2")),
        "rounded up": (POOL, "nn.MaxPool2d(2, ceil_mode=True)"),
        "by pooling each place": (POOL, "nn.MaxPool2d(2, stride=1)"),
        "with a narrow pool": (POOL, "nn.MaxPool2d((2, 1))"),
    }
)
def test_shapes_follow_from_the_layers__but_not(roomy, edit, fails):
    """Padding, stride, dilation and the pool's arguments all change the size
    that comes out.
    """
    fails(test_shapes_follow_from_the_layers, roomy.edit(*edit))


def test_shapes_follow_from_the_layers__ends_from_dimension_2(snippet, fails):
    """With `flatten(start_dim=2)`: the channels are kept apart instead of in
    one row per picture.
    """
    fails(test_shapes_follow_from_the_layers, snippet, 28, 2)


# Parameter, buffer or plain attribute


GAIN = "self.gain = nn.Parameter(torch.ones(28))"
MEAN = 'self.register_buffer("mean", torch.tensor([0.5]))'
FRAME = 'self.register_buffer("frame", torch.ones(28), persistent=False)'
ONES, COUNTED = torch.ones(3, 4), torch.arange(3)
PLAIN = "self.offset = torch.zeros(1)"
NORMALIZE = "    def forward(self, images):\n        centered"
METHODS = {
    "stay": "_apply(self, fn):\n        return self",
    "save nothing": "state_dict(self):\n        return {}",
    "save all": "state_dict(self):\n        return vars(self) | self._buffers",
    "count in others": "parameters(self):\n"
    "        return [self.mean, self.frame, self.offset]",
    "move all": "_apply(self, fn):\n"
    "        self.offset = fn(self.offset)\n        return self",
}


def in_modules_that(*names):
    """Return edits that give the module a method of its own."""
    return {
        f"in modules that {name}": overriding(
            NORMALIZE, f"    def {METHODS[name]}"
        )
        for name in names
    }


def held(module, name):
    """Return where a tensor is: in parameters, in the state, on meta."""
    learns = is_in(getattr(module, name), module.parameters())
    saved = name in module.state_dict()
    return learns, saved, getattr(module.to("meta"), name).is_meta


def check_the_kind(snippet, name, assign, expected):
    """Ask Normalize, another module and the table about a kind of tensor."""
    module, (learns, saved, moves) = nn.Module(), expected
    assign(module)
    normalize = snippet.after("normalize").Normalize()
    assert held(normalize, name) == expected
    assert held(module, "x") == expected

    row = snippet.after("kinds").kinds[name]
    assert (row["a step changes it by"] > 0) == learns
    assert row["in the state_dict"] == ("yes" if saved else "no")
    assert row['after to("meta") on'] == ("meta" if moves else "cpu")


def test_a_parameter_is_trained_saved_moved(snippet, tensor=ONES, learns=True):
    def assign(module):
        module.x = nn.Parameter(tensor, requires_grad=learns)

    check_the_kind(snippet, "gain", assign, (True, True, True))


@pytest.mark.parametrize(
    ("tensor", "learns"),
    [
        (torch.tensor(1.0, dtype=torch.float64), True),
        (torch.zeros(2, dtype=torch.bfloat16), False),
        (torch.arange(3), False),
    ],
    ids=["one number", "frozen", "integers"],
)
def test_a_parameter_is_trained_saved_moved__also_of(snippet, tensor, learns):
    test_a_parameter_is_trained_saved_moved(snippet, tensor, learns)


def test_a_parameter_is_trained_saved_moved__also_in_the_table(snippet):
    run = snippet.after("kinds")
    step = run.kinds["gain"]["a step changes it by"]

    squares = (run.images - 0.5).square().mean(dim=(0, 1, 2))
    far = pytest.approx((0.1 * 2 * squares / 28).max().item(), rel=1e-4)
    assert step == far
    normalize = run.Normalize()
    with torch.no_grad():
        normalize.gain.fill_(3)
    normalize.frame[:5] = 0
    normalize.offset += 2
    expected = 3 * (run.images - 0.5) * normalize.frame + 2
    torch.testing.assert_close(normalize(run.images), expected)


@edits(
    in_modules_that("stay", "save nothing", "count in others")
    | {
        "a plain tensor": (
            GAIN,
            "self.gain = torch.ones(28, requires_grad=True)",
        ),
        "a buffer": (GAIN, 'self.register_buffer("gain", torch.ones(28))'),
        "moved by itself": (GAIN, f'{GAIN}.to("meta")'),
        "of the class": (GAIN, GAIN.replace("self", "Normalize")),
        "a sum": (GAIN, "self.gain = [nn.Parameter(torch.ones(28))][0] + 0"),
    }
)
def test_a_parameter_is_trained_saved_moved__but_not(snippet, edit, fails):
    """A module can override how it moves and saves; a plain tensor, a buffer,
    a sum or a copy on another device is no parameter; and a class registers
    none.
    """
    fails(test_a_parameter_is_trained_saved_moved, snippet.edit(*edit))


def test_a_buffer_is_saved_and_moved(snippet, tensor=COUNTED):
    def assign(module):
        module.register_buffer("x", tensor)

    def leave_out(module):
        module.register_buffer("x", tensor, persistent=False)

    check_the_kind(snippet, "mean", assign, (False, True, True))
    check_the_kind(snippet, "frame", leave_out, (False, False, True))


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(2, 3), nn.Parameter(torch.ones(2))],
    ids=["a matrix", "a parameter"],
)
def test_a_buffer_is_saved_and_moved__also_for(snippet, tensor):
    test_a_buffer_is_saved_and_moved(snippet, tensor)


@edits(
    in_modules_that("stay", "save nothing", "count in others")
    | {
        "with persistent=False": (
            MEAN,
            MEAN.replace("]))", "]), persistent=False)"),
        ),
        "without it": (FRAME, FRAME.replace(", persistent=False", "")),
        "as a plain tensor": (MEAN, "self.mean = torch.tensor([0.5])"),
        "as a Parameter": (
            MEAN,
            "self.mean = nn.Parameter(torch.tensor([0.5]))",
        ),
    }
)
def test_a_buffer_is_saved_and_moved__but_not(snippet, edit, fails):
    """With `persistent=False`, it isn't saved; a module can override how it
    moves and saves; and a plain tensor or a parameter is no buffer.
    """
    fails(test_a_buffer_is_saved_and_moved, snippet.edit(*edit))


def test_a_plain_tensor_is_overlooked(snippet, tensor=COUNTED):
    def assign(module):
        module.x = tensor

    check_the_kind(snippet, "offset", assign, (False, False, False))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, requires_grad=True),
        nn.Parameter(torch.ones(2)) * 2,
        nn.Parameter(torch.ones(2)).data,
        nn.Parameter(torch.ones(2)).to(torch.float64),
    ],
    ids=["that requires gradients", "computed", "data", "converted"],
)
def test_a_plain_tensor_is_overlooked__also_one(snippet, tensor):
    test_a_plain_tensor_is_overlooked(snippet, tensor)


@edits(
    in_modules_that("move all", "save all", "count in others")
    | {
        "a Parameter": (PLAIN, "self.offset = nn.Parameter(torch.zeros(1))"),
    }
)
def test_a_plain_tensor_is_overlooked__but_not(snippet, edit, fails):
    """A module can move and save it by methods of its own; and a parameter is
    not overlooked.
    """
    fails(test_a_plain_tensor_is_overlooked, snippet.edit(*edit))


def test_a_plain_tensor_is_overlooked__but_not_as_a_buffer(snippet, fails):
    """`register_buffer` registers it, so it is saved and moved."""
    registered = 'self.register_buffer("offset", torch.zeros(1))'
    fails(test_a_plain_tensor_is_overlooked, snippet.edit(PLAIN, registered))


def test_a_plain_tensor_is_overlooked__ends_under_the_name_of_a_buffer(
    snippet, fails
):
    """Under the name of a buffer: the tensor becomes that buffer."""
    named = f'self.register_buffer("offset", None)\n        {PLAIN}'
    fails(test_a_plain_tensor_is_overlooked, snippet.edit(PLAIN, named))


# What goes wrong


SIZES = re.compile(
    r"(?:(?:add)?mm: )?"  # torch 2.15 says first what multiplies
    r"mat1 and mat2 shapes cannot be multiplied \((.*)\)"
)


def refused(error):
    """Return the sizes that the error names, as A, B, C, D."""
    found = SIZES.fullmatch(str(error))
    assert found
    return tuple(map(int, re.findall(r"\d+", found[1])))


def test_the_error_names_the_number(
    snippet, lead=(4,), layer=None, dtype=torch.float32
):
    """No Linear gives the four numbers in another order."""
    run = snippet.after("wrong-features")
    head = run.wrong.head
    features = run.wrong.second(run.wrong.first(run.images)).flatten(1)
    layer = nn.Linear(7, 3) if layer is None else layer

    expected = (*features.shape, head.in_features, head.out_features)
    assert refused(run.refusal) == expected == (32, 400, 784, 10)
    with pytest.raises(RuntimeError) as caught:
        layer.to(dtype)(torch.ones(*lead, 5, dtype=dtype))
    assert refused(caught.value) == (prod(lead), 5, 7, 3)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(
    "lead",
    [(), (1,), (2, 3), (4, 16, 5)],
    ids=["one", "two", "three", "four axes"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_error_names_the_number__also_for_inputs_with(
    snippet, lead, bias, dtype
):
    layer = nn.Linear(7, 3, bias=bias)
    test_the_error_names_the_number(snippet, lead, layer, dtype)


def test_the_error_names_the_number__also_without_flatten(snippet):
    run = snippet.after("digits")

    features = run.digits.second(run.digits.first(run.images))
    with pytest.raises(RuntimeError) as caught:
        run.digits.head(features)
    assert refused(caught.value) == (32 * 16 * 5, 5, 400, 10)


def test_the_error_names_the_number__ends_in_a_frozen_layer(snippet, fails):
    """A frozen layer that gets a transposed batch of three axes: the error
    says `Expected size for first two dimensions of batch2 tensor`.
    """
    layer = nn.Linear(7, 3)
    layer.register_forward_pre_hook(lambda _, each: each[0].transpose(0, 1))
    test_the_error_names_the_number(snippet, (4, 2), layer)
    layer.requires_grad_(requires_grad=False)
    fails(test_the_error_names_the_number, snippet, (4, 2), layer)


def test_the_error_names_the_number__ends_when_compiled(snippet, fails):
    """In a compiled model: the error names the shapes in another way."""
    layer = torch.compile(nn.Linear(7, 3), backend="eager")
    fails(test_the_error_names_the_number, snippet, (4,), layer)


def test_the_error_names_the_number__but_not_of_weights_times_inputs(
    snippet, fails
):
    """In `weight @ inputs` the weight comes first, and so do its sizes."""
    old = "    wrong(images)\nexcept"
    new = "    wrong.head.weight @ torch.rand(400, 32)\nexcept"
    fails(test_the_error_names_the_number, snippet.edit(old, new))


def test_lazy_linear_takes_the_number(
    snippet, shape=(2, 5), make=nn.LazyLinear
):
    made = torch.rand

    def larger(*size):
        return made(*size[:2], 40, 40) if size[2:3] == (32,) else made(*size)

    with patch.object(torch, "rand", larger):
        run = snippet.after("lazy")
    assert run.lazy.head.in_features == 16 * 8 * 8
    run = snippet.after("lazy")

    assert type(run.lazy.head) is nn.Linear
    assert run.lazy.head.in_features == 16 * 6 * 6
    assert run.lazy.head.weight.shape == (10, 16 * 6 * 6)
    layer = make(3)
    layer(torch.ones(shape))
    assert type(layer) is nn.Linear
    assert layer.in_features == layer.weight.shape[1] == shape[-1]


@pytest.mark.parametrize("shape", [(7,), (1, 1), (2, 3, 7)])
def test_lazy_linear_takes_the_number__also_for(snippet, shape):
    test_lazy_linear_takes_the_number(snippet, shape)


@edits(
    {
        "before a batch": ("lazy(torch.rand(32, 1, 32, 32))\n", ""),
        "of a later batch": (
            "lazy.head = nn.LazyLinear(10)",
            "lazy.head = nn.LazyLinear(10)\nlazy.head(torch.rand(1, 7))\n"
            "lazy.forward = lambda images: None",
        ),
    }
)
def test_lazy_linear_takes_the_number__but_not(snippet, edit, fails):
    """Before its first batch it has no size yet, and a first batch of another
    size sets another.
    """
    fails(test_lazy_linear_takes_the_number, snippet.edit(*edit))


CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "dict": lambda layers: dict(enumerate(layers)),
    "ModuleList": nn.ModuleList,
    "ModuleDict": lambda layers: nn.ModuleDict(
        {str(i): layer for i, layer in enumerate(layers)}
    ),
    "ParameterList": nn.ParameterList,
    "ParameterDict": lambda each: nn.ParameterDict(
        {str(i): parameter for i, parameter in enumerate(each)}
    ),
}


class Chain(nn.Module):
    """Layers in a container, one after the other."""

    def __init__(self, layers, container):
        super().__init__()
        self.layers = CONTAINERS[container](layers)

    def forward(self, inputs):
        """Send the inputs through the layers."""
        for layer in members(self.layers):
            inputs = layer(inputs)
        return inputs


def members(container):
    return list(getattr(container, "values", lambda: container)())


def seen(module, held):
    """Return for each parameter where it is: learns, is saved, moves."""
    before = [tensor for each in members(held()) for tensor in tensors(each)]
    state = {each.data_ptr() for each in module.state_dict().values()}
    learns = [is_in(each, module.parameters()) for each in before]
    saved = [each.data_ptr() in state for each in before]
    module.to("meta")
    after = [tensor for each in members(held()) for tensor in tensors(each)]
    moved = [each.is_meta for each in after]
    return set(zip(learns, saved, moved, strict=True))


def tensors(each):
    return each.parameters() if isinstance(each, nn.Module) else [each]


def check_container(run, container, expected):
    """Ask the blocks of the page and a chain of layers in a container."""
    chain = Chain([nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)], container)
    with no_error():
        assert run.listed(run.images).shape == (32, 10)
        assert chain(torch.ones(4, 3)).shape == (4, 2)
    assert seen(run.listed, lambda: run.listed.blocks) == {expected}
    assert seen(chain, lambda: chain.layers) == {expected}
    return chain


def test_layers_in_a_list_are_overlooked(
    snippet, container="list", device="cpu"
):
    with no_error():
        run = snippet.after("listed")

    overlooked = (False, False, False)
    first, second = run.listed.blocks
    features = second(first(run.images)).flatten(start_dim=1)
    assert run.listed(run.images).equal(run.listed.head(features))
    assert list(run.listed.state_dict()) == ["head.weight", "head.bias"]
    chain = check_container(run, container, overlooked)
    with no_error():
        chain = Chain([nn.Linear(3, 5)], container).to(device)
        chain(torch.ones(4, 3, device=device))


@pytest.mark.parametrize("container", ["tuple", "dict"])
def test_layers_in_a_list_are_overlooked__also_in_a(snippet, container):
    test_layers_in_a_list_are_overlooked(snippet, container)


BLOCKS = "self.blocks = [Block(1, 8), Block(8, 16)]"


@edits(
    {
        "in a ModuleList": (
            BLOCKS,
            BLOCKS.replace("[", "nn.ModuleList([").replace("]", "])"),
        ),
        "if an attribute too": (
            BLOCKS,
            f"{BLOCKS}\n        self.second = self.blocks[1]",
        ),
        "if forward wants children": (
            "images = block(images)",
            "images = {each: each for each in self.children()}[block](images)",
        ),
    }
)
def test_layers_in_a_list_are_overlooked__but_not(snippet, edit, fails):
    """A layer in a `ModuleList`, or one that is an attribute as well, is
    registered; a `forward` that looks among the children raises.
    """
    fails(test_layers_in_a_list_are_overlooked, snippet.edit(*edit))


def test_layers_in_a_list_are_overlooked__ends_after_a_move(snippet, fails):
    """After a move to another device: the layers in the list stay behind, and
    `forward` raises.
    """
    fails(test_layers_in_a_list_are_overlooked, snippet, "list", "meta")


def test_containers_are_seen(
    snippet, container="ModuleDict", parameters="ParameterDict"
):
    run = snippet.after("module-list")

    everywhere = (True, True, True)
    assert run.count(run.listed) == run.count(run.digits)
    assert len(run.listed.state_dict()) == len(run.digits.state_dict())
    check_container(run, container, everywhere)
    ready = [nn.Parameter(torch.ones(size)) for size in (1, 4)]
    bare = nn.Module()
    bare.x = CONTAINERS[parameters](ready)
    assert seen(bare, lambda: bare.x) == {everywhere}


def test_containers_are_seen__also_lists(snippet):
    test_containers_are_seen(snippet, "ModuleList", "ParameterList")


@pytest.mark.parametrize(
    ("container", "parameters"),
    [("list", "ParameterDict"), ("ModuleDict", "dict")],
)
def test_containers_are_seen__ends_in_a(snippet, container, parameters, fails):
    """In a plain `list` or `dict`: what is in it is overlooked."""
    fails(test_containers_are_seen, snippet, container, parameters)


def test_containers_are_seen__but_not_a_tuple(snippet, fails):
    """A tuple is a plain container, so its layers are overlooked."""
    edited = snippet.edit(
        "nn.ModuleList(listed.blocks)", "tuple(listed.blocks)"
    )
    fails(test_containers_are_seen, edited)


EARLY = {
    "layer": lambda module: setattr(module, "x", nn.ReLU()),
    "Parameter": lambda m: setattr(m, "x", nn.Parameter(torch.ones(2))),
    "buffer": lambda m: m.register_buffer("x", torch.ones(2)),
    "Buffer": lambda m: setattr(m, "x", nn.Buffer(torch.ones(2))),
    "number": lambda m: setattr(m, "x", 3),
    "plain tensor": lambda m: setattr(m, "x", torch.ones(2)),
}


def test_super_comes_first(snippet, assign="buffer"):
    class Early(nn.Module):
        def __init__(self):
            EARLY[assign](self)
            super().__init__()

    run = snippet.after("no-super")
    said = r"cannot assign \w+ before Module.__init__\(\) call"
    assert re.search(said, str(getattr(run, "hasty", "")))
    with pytest.raises(AttributeError, match=said):
        Early()


@pytest.mark.parametrize("assign", ["layer", "Parameter", "Buffer"])
def test_super_comes_first__also_for_a(snippet, assign):
    test_super_comes_first(snippet, assign)


HASTY = "self.head = nn.Linear(400, 10)\n        super().__init__()"


@pytest.mark.parametrize(
    "new",
    [
        "super().__init__()\n        self.head = nn.Linear(400, 10)",
        "self.head = [nn.Linear(400, 10)]\n        super().__init__()",
    ],
    ids=["after it", "in a list"],
)
def test_super_comes_first__but_not(snippet, new, fails):
    """After `super().__init__()` it works; and a layer in a list is not
    registered, so it raises nothing.
    """
    fails(test_super_comes_first, snippet.edit(HASTY, new))


@pytest.mark.parametrize("assign", ["number", "plain tensor"])
def test_super_comes_first__ends_for_a(snippet, assign, fails):
    """For numbers and plain tensors: they are not registered, so they may come
    first.
    """
    fails(test_super_comes_first, snippet, assign)
