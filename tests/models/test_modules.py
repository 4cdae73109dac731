"""The claims of docs/models/modules.md."""

import re
from functools import reduce
from math import prod
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


def test_ten_scores_for_each_picture(
    snippet, shape=(32, 1, 28, 28), dtype=torch.float32
):
    run = snippet.after("do-this")

    assert run.scores.shape == (32, 10)
    for model in (run.model, run.model.eval()):
        with no_error():
            scores = model(torch.rand(shape, dtype=dtype))
        assert scores.shape == (shape[0], 10)
    images = torch.rand(shape, dtype=dtype)
    one_by_one = [run.model(image[None]) for image in images[:5]]
    alone = torch.cat(one_by_one) if one_by_one else scores[:0]
    torch.testing.assert_close(run.model(images)[:5], alone)


@pytest.mark.parametrize("size", [0, 1, 7, 300])
def test_ten_scores_for_each_picture__also_for(snippet, size):
    test_ten_scores_for_each_picture(snippet, (size, 1, 28, 28))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        pytest.param((32, 3, 28, 28), torch.float32, id="in colour"),
        pytest.param((32, 1, 32, 32), torch.float32, id="larger"),
        pytest.param((1, 28, 28), torch.float32, id="without a batch"),
        pytest.param((32, 1, 28, 28), torch.float64, id="in float64"),
    ],
)
def test_ten_scores_for_each_picture__ends_for_pictures(
    snippet, shape, dtype, fails
):
    """With three channels, a side of 32, no batch axis or `float64`: the
    pictures do not fit these layers.
    """
    fails(test_ten_scores_for_each_picture, snippet, shape, dtype)


@edits(
    {
        "three outputs": (HEAD, HEAD.replace("10", "3")),
        "the first picture alone": (
            FEATURES,
            FEATURES.replace("images", "images[:1]"),
        ),
    }
)
def test_ten_scores_for_each_picture__but_not_with(snippet, edit, fails):
    """A head of three outputs gives three scores, and `images[:1]` passes on
    only the first picture.
    """
    fails(test_ten_scores_for_each_picture, snippet.edit(*edit))


# A model is a tree


def check_the_paths(module):
    """Follow each name from the module to the parameter, dot by dot."""
    for name, parameter in module.named_parameters():
        assert reduce(getattr, name.split("."), module) is parameter


def test_names_are_paths(snippet):
    model = snippet.after("digits").Digits()

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
    assert rows == [(0, 0, "model"), *first, *second, (1, 0, "head")]
    assert [layer for *_, layer in run.tree] == list(run.model.modules())


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
        pytest.param(
            lambda module: below(below(below(module))), id="three levels"
        ),
        pytest.param(nn.Sequential, id="Sequential"),
        pytest.param(
            lambda module: nn.ModuleDict({"inner": nn.ModuleList([module])}),
            id="ModuleDict and ModuleList",
        ),
    ],
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
    model, area = run.model, kernel * (kernel + 1)
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


def test_some_layers_have_few_parameters(
    snippet, channels=8, like_relu=nn.ReLU
):
    run = snippet.after("count")

    assert run.count(run.model) == 80 + 16 + 1168 + 32 + 4010
    assert run.count(run.model.first.norm) == 2 * 8
    assert run.count(nn.BatchNorm2d(channels)) == 2 * channels
    layers = [like_relu(), nn.MaxPool2d(3), nn.Flatten(), nn.Dropout()]
    assert not any(map(run.count, [run.model.first.pool, *layers]))


@pytest.mark.parametrize("channels", [1, 64], ids="{} channels".format)
def test_some_layers_have_few_parameters__also_with(snippet, channels):
    test_some_layers_have_few_parameters(snippet, channels)


@edits(
    {
        "in a BatchNorm2d that is not affine": (
            NORM,
            NORM.replace("out", "out, affine=False"),
        ),
        "in a pool after a PReLU": (
            POOL,
            "nn.Sequential(nn.PReLU(), nn.MaxPool2d(2))",
        ),
    }
)
def test_some_layers_have_few_parameters__but_not(snippet, edit, fails):
    """`affine=False` leaves `BatchNorm2d` with no parameters, and `PReLU`
    brings one of its own.
    """
    fails(test_some_layers_have_few_parameters, snippet.edit(*edit))


def test_some_layers_have_few_parameters__ends_for_a_prelu(snippet, fails):
    """For `PReLU`: it learns its slope, so it has a parameter."""
    fails(test_some_layers_have_few_parameters, snippet, 8, nn.PReLU)


# The forward pass, layer by layer


def test_a_hook_gets_each_output(
    snippet, make=lambda: nn.Linear(3, 2), compiled=False, part=""
):
    run = snippet.after("read-a-layer")

    second, features = run.model.second, run.model.first(run.images)
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
    run.model(run.images)
    assert run.read == {}

    handle = run.model.head.register_forward_hook(run.keep)
    for images in run.images.split(16):
        scores = run.model(images)
        assert run.read["second"].equal(scores)
    handle.remove()

    layer, kept = make(), []
    call = torch.compile(layer, backend="eager") if compiled else layer
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
        pytest.param(lambda: nn.LSTM(3, 2), id="an LSTM"),
        pytest.param(
            lambda: nn.Sequential(nn.Linear(3, 2), nn.ReLU(inplace=True)),
            id="a Sequential",
        ),
        pytest.param(lambda: nn.BatchNorm1d(3).eval(), id="evaluation"),
    ],
)
def test_a_hook_gets_each_output__also_of(snippet, make):
    test_a_hook_gets_each_output(snippet, make)


def test_a_hook_gets_each_output__ends_in_a_compiled_model(snippet, fails):
    """In a compiled model: a hook that you register after the first call is
    not called.
    """
    fails(test_a_hook_gets_each_output, snippet, lambda: nn.Linear(3, 2), True)


class Attention(nn.MultiheadAttention):
    """Attention of a single input to itself."""

    def forward(self, inputs):
        """Return the outputs without the weights."""
        return super().forward(inputs, inputs, inputs, need_weights=False)[0]


def test_a_hook_gets_each_output__ends_in_attention(snippet, fails):
    """At the `out_proj` of `MultiheadAttention`: it is never called, since the
    attention computes with its weight itself.
    """
    part = lambda: Attention(3, 1), False, "out_proj"
    fails(test_a_hook_gets_each_output, snippet, *part)


SECOND_HOOK = "model.second.register_forward_hook"


@edits(
    {
        "without remove": ("handle.remove()\n\nprint(read", "print(read"),
        "at another layer": (SECOND_HOOK, "model.first.register_forward_hook"),
        "if forward is called": (
            "self.second(self.first(",
            "self.second.forward(self.first(",
        ),
        "after remove": (
            "model(images)\nhandle.remove()",
            "handle.remove()\nmodel(images)",
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


def test_in_place_layers_write_into_what_was_kept(
    snippet, make=lambda: nn.Linear(3, 40), in_place=True, records=True
):
    run = snippet.after("read-a-layer")
    copying = snippet.edit("output.detach()", "output.detach().clone()")
    torch.manual_seed(0)
    layer, inputs = make(), torch.randn(5, 3, 8, 3)
    expected = layer(inputs)
    assert expected.min() < 0
    model = nn.Sequential(layer, nn.ReLU(inplace=in_place))

    for kept_by, result in (
        (run, expected.relu()),
        (copying.after("read-a-layer"), expected),
    ):
        handle = layer.register_forward_hook(kept_by.keep)
        with torch.set_grad_enabled(records):
            model(inputs)
        handle.remove()
        assert kept_by.read["second"].equal(result)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: nn.Conv2d(3, 4, 3), id="Conv2d"),
        pytest.param(lambda: nn.BatchNorm2d(3), id="BatchNorm2d"),
        pytest.param(lambda: nn.LayerNorm(3), id="LayerNorm"),
        pytest.param(
            lambda: nn.Sequential(nn.Linear(3, 9), nn.Linear(9, 2)),
            id="a Sequential",
        ),
    ],
)
@pytest.mark.parametrize("records", [True, False])
def test_in_place_layers_write_into_what_was_kept__also_of(
    snippet, make, records
):
    test_in_place_layers_write_into_what_was_kept(
        snippet, make, records=records
    )


def test_in_place_layers_write_into_what_was_kept__but_not_into_a_clone(
    snippet, fails
):
    """A clone has memory of its own, which `ReLU(inplace=True)` does not
    touch.
    """
    edited = snippet.edit("output.detach()", "output.detach().clone()")
    fails(test_in_place_layers_write_into_what_was_kept, edited)


def test_in_place_layers_write_into_what_was_kept__ends_beside_it(
    snippet, fails
):
    """With `inplace=False`: ReLU writes into a new tensor."""
    fails(
        test_in_place_layers_write_into_what_was_kept,
        snippet,
        lambda: nn.Linear(3, 40),
        False,
    )


def test_shapes_follow_from_the_layers(snippet, side=28, start_dim=1):
    run = snippet.after("do-this")
    pictures = torch.rand(3, 1, side, side + 1)

    conv = run.model.first.conv(pictures)
    pooled = run.model.first.pool(pictures)
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


def test_the_head_gets_400(snippet):
    run = snippet.after("shapes")

    layers = [
        f"{b}.{c}" for b in ("first", "second") for c in ("conv", "pool")
    ]
    heights = [run.shapes[each][2] for each in layers]
    assert [run.images.shape[2], *heights] == [28, 26, 13, 11, 5]
    assert run.shapes["second"] == (32, 16, 5, 5)
    assert run.model.head.in_features == 16 * 5 * 5 == 400
    assert run.shapes["head"] == run.shapes[""] == (32, 10)


def test_the_head_gets_400__also_if_asked_again(snippet):
    run = snippet.after("shapes")
    model = run.Digits()
    for size in (2, 5):
        shapes = run.shapes_of(model, torch.rand(size, 1, 28, 28))
        assert shapes["second.pool"] == (size, 16, 5, 5)
        assert set(shapes) == {name for name, _ in model.named_modules()}
    model(torch.rand(9, 1, 28, 28))
    assert shapes["head"] == (5, 10)
    assert not any(layer._forward_hooks for layer in model.modules())
    with pytest.raises(RuntimeError):
        run.shapes_of(model, torch.rand(2, 1, 30, 30))
    assert not any(layer._forward_hooks for layer in model.modules())
    lstm = nn.Sequential(nn.Linear(3, 4), nn.LSTM(4, 2))
    assert run.shapes_of(lstm, torch.ones(5, 3)) == {"0": (5, 4)}


@edits(
    {
        "with padding": (CONV, CONV.replace("=3", "=3, padding=1")),
        "rounded up": (POOL, "nn.MaxPool2d(2, ceil_mode=True)"),
        "of larger pictures": ("rand(32, 1, 28, 28)", "rand(32, 1, 29, 29)"),
    }
)
def test_the_head_gets_400__but_not(roomy, edit, fails):
    """Padding, a pool that rounds up or larger pictures give other heights."""
    fails(test_the_head_gets_400, roomy.edit(*edit))


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
    assert (row["moves in a step by"] > 0) == learns
    assert row["in the state_dict"] == ("yes" if saved else "no")
    assert row['after to("meta") on'] == ("meta" if moves else "cpu")


def test_a_parameter_is_trained_saved_moved(snippet, tensor=ONES, learns=True):
    def assign(module):
        module.x = nn.Parameter(tensor, requires_grad=learns)

    check_the_kind(snippet, "gain", assign, (True, True, True))


@pytest.mark.parametrize(
    ("tensor", "learns"),
    [
        pytest.param(
            torch.tensor(1.0, dtype=torch.float64), True, id="one number"
        ),
        pytest.param(torch.zeros(2, dtype=torch.bfloat16), False, id="frozen"),
        pytest.param(torch.arange(3), False, id="integers"),
    ],
)
def test_a_parameter_is_trained_saved_moved__also_of(snippet, tensor, learns):
    test_a_parameter_is_trained_saved_moved(snippet, tensor, learns)


def test_a_parameter_is_trained_saved_moved__also_in_the_table(snippet):
    run = snippet.after("kinds")
    step = run.kinds["gain"]["moves in a step by"]

    squares = (run.images - 0.5).square().mean(dim=(0, 1, 2))
    far = pytest.approx((0.1 * 2 * squares / 28).max().item(), rel=1e-4)
    assert type(step) is float
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
        "a sum": (GAIN, "self.gain = [nn.Parameter(torch.ones(28))][0] + 0"),
    }
)
def test_a_parameter_is_trained_saved_moved__but_not(snippet, edit, fails):
    """A module can override how it moves and saves; and a plain tensor, a
    buffer or a sum is no parameter.
    """
    fails(test_a_parameter_is_trained_saved_moved, snippet.edit(*edit))


def test_a_buffer_is_saved_and_moved(snippet, tensor=COUNTED):
    def assign(module):
        module.register_buffer("x", tensor)

    check_the_kind(snippet, "mean", assign, (False, True, True))


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
        "as a plain tensor": (MEAN, "self.mean = torch.tensor([0.5])"),
        "as a Parameter": (
            MEAN,
            "self.mean = nn.Parameter(torch.tensor([0.5]))",
        ),
        "with persistent=False": (
            MEAN,
            MEAN.replace("]))", "]), persistent=False)"),
        ),
    }
)
def test_a_buffer_is_saved_and_moved__but_not(snippet, edit, fails):
    """A module can override how it moves and saves; a plain tensor does
    neither, and other kinds differ as well.
    """
    fails(test_a_buffer_is_saved_and_moved, snippet.edit(*edit))


def test_a_passing_buffer_only_moves(snippet, dtype=torch.float32):
    def assign(module):
        ones = torch.ones(2, 3, dtype=dtype)
        module.register_buffer("x", ones, persistent=False)

    check_the_kind(snippet, "frame", assign, (False, False, True))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_a_passing_buffer_only_moves__also_of(snippet, dtype):
    test_a_passing_buffer_only_moves(snippet, dtype)


@edits(
    in_modules_that("stay", "save all", "count in others")
    | {
        "as a plain tensor": (FRAME, "self.frame = torch.ones(28)"),
        "as a Parameter": (FRAME, "self.frame = nn.Parameter(torch.ones(28))"),
    }
)
def test_a_passing_buffer_only_moves__but_not(snippet, edit, fails):
    """A module can override how it moves and saves; a plain tensor stays, and
    a parameter is saved.
    """
    fails(test_a_passing_buffer_only_moves, snippet.edit(*edit))


def test_a_passing_buffer_only_moves__but_not_if_persistent(snippet, fails):
    """By default, a buffer is persistent, and the `state_dict` has it."""
    edited = snippet.edit(", persistent=False", "")
    fails(test_a_passing_buffer_only_moves, edited)


def test_a_plain_tensor_is_overlooked(snippet, tensor=COUNTED):
    def assign(module):
        module.x = tensor

    check_the_kind(snippet, "offset", assign, (False, False, False))


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(
            torch.ones(2, requires_grad=True), id="that requires gradients"
        ),
        pytest.param(nn.Parameter(torch.ones(2)) * 2, id="computed"),
        pytest.param(nn.Parameter(torch.ones(2)).data, id="data"),
    ],
)
def test_a_plain_tensor_is_overlooked__also_one(snippet, tensor):
    test_a_plain_tensor_is_overlooked(snippet, tensor)


@edits(
    in_modules_that("move all", "save all", "count in others")
    | {
        "a Parameter": (PLAIN, "self.offset = nn.Parameter(torch.zeros(1))"),
        "a buffer": (PLAIN, FRAME.replace("frame", "offset")),
    }
)
def test_a_plain_tensor_is_overlooked__but_not(snippet, edit, fails):
    """A module can move and save it by methods of its own; and a parameter or
    a buffer is not overlooked.
    """
    fails(test_a_plain_tensor_is_overlooked, snippet.edit(*edit))


def test_a_plain_tensor_is_overlooked__ends_under_the_name_of_a_buffer(
    snippet, fails
):
    """Under the name of a buffer: the tensor becomes that buffer."""
    named = f'self.register_buffer("offset", None)\n        {PLAIN}'
    fails(test_a_plain_tensor_is_overlooked, snippet.edit(PLAIN, named))


# nn.ReLU or F.relu


def test_relu_is_relu(snippet, shape=(7,), dtype=torch.float32):
    run = snippet.after("layer-or-function")
    expected = torch.tensor([0, 0, 0, 1, 2.0])
    for each in run.rectified:
        assert torch.equal(each, expected)

    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(shape, generator=generator).to(dtype)
    made = [numbers.clone().requires_grad_() for _ in range(3)]
    outputs = [nn.ReLU()(made[0]), run.F.relu(made[1]), made[2].relu()]
    for each, output in zip(made, outputs, strict=True):
        output.sum().backward()
        assert torch.equal(output, numbers.clamp(min=0))
        assert torch.equal(each.grad, (numbers > 0).to(dtype))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        pytest.param((2, 3, 4, 4), torch.float64, id="pictures in float64"),
        pytest.param((5, 8), torch.bfloat16, id="rows in bfloat16"),
        pytest.param((0, 3), torch.float16, id="no rows, in float16"),
    ],
)
def test_relu_is_relu__also_for(snippet, shape, dtype):
    test_relu_is_relu(snippet, shape, dtype)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.ReLU()(numbers)", "nn.LeakyReLU()(numbers)"),
        ("F.relu(numbers)", "F.gelu(numbers)"),
        ("numbers.relu()", "numbers.abs()"),
    ],
)
def test_relu_is_relu__but_not(snippet, fails, old, new):
    """`LeakyReLU`, `gelu` and `abs` give other numbers."""
    fails(test_relu_is_relu, snippet.edit(old, new))


def test_sequential_takes_layers(snippet):
    run = snippet.after("function-in-sequential")
    assert "is not a Module subclass" in str(run.no_layer)

    for each in (nn.functional.relu, torch.tanh, lambda numbers: numbers):
        with pytest.raises(TypeError, match="is not a Module subclass"):
            nn.Sequential(nn.Linear(4, 8), each)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    assert model(torch.rand(2, 4)).shape == (2, 8)


def test_sequential_takes_layers__but_not_the_function(snippet, fails):
    """With the layer, nothing is raised."""
    fails(
        test_sequential_takes_layers,
        snippet.edit("nn.Linear(4, 8), F.relu", "nn.Linear(4, 8), nn.ReLU()"),
    )


# Freeze layers


OPTIMIZERS = {
    "AdamW": torch.optim.AdamW,
    "Adam": lambda each: torch.optim.Adam(each, weight_decay=0.1),
    "SGD": lambda each: torch.optim.SGD(each, lr=0.1),
    "SGD with momentum and decay": lambda each: torch.optim.SGD(
        each, lr=0.1, momentum=0.9, weight_decay=0.1
    ),
    "RMSprop": lambda each: torch.optim.RMSprop(
        each, momentum=0.9, weight_decay=0.1
    ),
    "Adagrad": lambda each: torch.optim.Adagrad(each, weight_decay=0.1),
}


def moved_in(model, moves):
    """Return the names of the parameters that moved."""
    return {name for name, _ in model.named_parameters() if moves[name] > 0}


def test_a_frozen_layer_stays(
    snippet, name="AdamW", layer="second", held=False
):
    run = snippet.after("frozen")
    names = {name for name, _ in run.frozen.named_parameters()}

    first = {each for each in names if each.startswith("first.")}
    assert len(first) == 4
    assert len(run.moves) == 2
    for moves in run.moves.values():
        assert moved_in(run.frozen, moves) == names - first

    model = run.Digits()
    run.distances(model, OPTIMIZERS[name](model.parameters()))
    frozen = set(getattr(model, layer).requires_grad_(False).parameters())
    others = [each for each in model.parameters() if each not in frozen]
    before = {each: old.clone() for each, old in model.state_dict().items()}
    given = model.parameters() if held else others
    moves = run.distances(model, OPTIMIZERS[name](given))
    for each, new in model.state_dict().items():
        distance = (new - before[each]).abs().max().item()
        assert type(moves[each]) is type(distance)
        assert moves[each] == distance
    ours = {each for each in names if each.startswith(f"{layer}.")}
    moved = moved_in(model, moves)
    assert moved
    assert moved <= names - ours
    assert name != "AdamW" or moved == names - ours


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_frozen_layer_stays__also_with(snippet, name):
    test_a_frozen_layer_stays(snippet, name, "head")


@pytest.mark.parametrize("name", ["AdamW", "SGD with momentum and decay"])
def test_a_frozen_layer_stays__ends_with_zeros(snippet, name, fails):
    """With an optimizer that holds them and `zero_grad(set_to_none=False)`:
    weight decay and momentum move parameters whose gradient is 0.
    """
    edited = snippet.edit(
        "model.zero_grad()", "model.zero_grad(set_to_none=False)"
    )
    fails(test_a_frozen_layer_stays, edited, name, "head", True)


@edits(
    {
        "without requires_grad_": ("frozen.first.requires_grad_(False)\n", ""),
        "of another layer": (
            "frozen.first.requires_grad_",
            "frozen.second.requires_grad_",
        ),
        "of a part": (
            "frozen.first.requires_grad_",
            "frozen.first.conv.requires_grad_",
        ),
        "the others without an optimizer": (
            "AdamW(learning)",
            "AdamW(learning[2:])",
        ),
        "the others at a rate of 0": (
            "AdamW(learning)",
            "AdamW(learning, lr=0.0)",
        ),
    }
)
def test_a_frozen_layer_stays__but_not(snippet, edit, fails):
    """Freeze nothing, another layer or only a part, and `first` moves; without
    an optimizer or a rate, the others do not.
    """
    fails(test_a_frozen_layer_stays, snippet.edit(*edit))


NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def averages(norm):
    return norm.running_mean.clone(), norm.running_var.clone()


def test_frozen_batchnorm_still_moves(snippet, dim=1, records=True):
    run = snippet.after("frozen")
    training, evaluated = run.moves.values()

    for each in ("first.norm.running_mean", "first.norm.running_var"):
        assert training[each] > 0
        assert evaluated[each] == 0
    assert not run.frozen.first.norm.weight.requires_grad

    norm = NORMS[dim](8).requires_grad_(False)
    ours = run.frozen.train().first.norm
    for layer, dims in ((norm, dim), (norm, dim), (ours, 2)):
        batch = 3 + 5 * torch.randn(9, 8, *[3] * (dims if dims > 1 else 0))
        over = [each for each in range(batch.dim()) if each != 1]
        mean, variance = averages(layer)
        with torch.set_grad_enabled(records):
            layer(batch)
        mean.lerp_(batch.mean(over), 0.1)
        variance.lerp_(batch.var(over), 0.1)
        torch.testing.assert_close(averages(layer), (mean, variance))
        before = averages(layer)
        layer.eval()(batch + 9)
        assert all(map(torch.equal, averages(layer), before))
        layer.train()


@pytest.mark.parametrize(
    ("dim", "records"), [(2, True), (3, True), (1, False)]
)
def test_frozen_batchnorm_still_moves__also_for(snippet, dim, records):
    test_frozen_batchnorm_still_moves(snippet, dim, records)


@edits(
    {
        "without eval": ("frozen.first.eval()\n", ""),
        "with eval on another layer": (
            "frozen.first.eval()",
            "frozen.first.conv.eval()",
        ),
        "with eval before": (
            "frozen.first.requires_grad_(False)",
            "frozen.first.eval()",
        ),
        "with a momentum of 0": (
            NORM,
            NORM.replace("out", "out, momentum=0.0"),
        ),
    }
)
def test_frozen_batchnorm_still_moves__but_not(snippet, edit, fails):
    """Only `eval()` on the BatchNorm itself stops it; with `eval()` from the
    start or `momentum=0.0`, nothing moves.
    """
    fails(test_frozen_batchnorm_still_moves, snippet.edit(*edit))


def test_a_step_needs_a_gradient(snippet, name="AdamW", extra=()):
    run = snippet.after("distances")

    assert run.kinds["mean"]["moves in a step by"] == 0
    assert run.kinds["frame"]["moves in a step by"] == 0
    model = run.Digits()
    given = [*model.parameters(), *(model.get_buffer(each) for each in extra)]
    optimizer = OPTIMIZERS[name](given)
    run.distances(model, optimizer)
    model.first.requires_grad_(False)
    moves = run.distances(model, optimizer)
    assert moves["head.weight"] > 0
    for each, parameter in model.first.named_parameters():
        assert parameter.grad is None or moves[f"first.{each}"] > 0
        assert moves[f"first.{each}"] == 0
    before = [each.clone() for each in model.buffers()]
    for each in extra:
        buffer = model.get_buffer(each)
        buffer.grad = torch.ones_like(buffer)
    optimizer.step()
    assert len(before) == 6
    assert all(map(torch.equal, before, model.buffers()))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_needs_a_gradient__also_with(snippet, name):
    test_a_step_needs_a_gradient(snippet, name)


@edits(
    {
        "one of zeros": (
            "model.zero_grad()",
            "model.zero_grad(set_to_none=False)",
        ),
        "an old one": ("    model.zero_grad()\n", ""),
        "of the mean": (MEAN, "self.mean = nn.Parameter(torch.tensor([0.5]))"),
        "of the frame": (FRAME, "self.frame = nn.Parameter(torch.ones(28))"),
    }
)
def test_a_step_needs_a_gradient__but_not(snippet, edit, fails):
    """Zeros, or an old gradient, are not `None`, so the step moves; and the
    mean or the frame moves as a parameter.
    """
    fails(test_a_step_needs_a_gradient, snippet.edit(*edit))


def test_a_step_needs_a_gradient__ends_if_the_optimizer_has_the_buffer(
    snippet, fails
):
    """If you give the buffer to the optimizer, and a gradient to the buffer:
    the step moves it.
    """
    fails(
        test_a_step_needs_a_gradient,
        snippet,
        "SGD",
        ["first.norm.running_var"],
    )


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


@pytest.mark.parametrize(
    "bias", [pytest.param(True, id="bias"), pytest.param(False, id="no bias")]
)
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
    run = snippet.after("do-this")

    features = run.model.second(run.model.first(run.images))
    with pytest.raises(RuntimeError) as caught:
        run.model.head(features)
    assert refused(caught.value) == (32 * 16 * 5, 5, 400, 10)


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


def test_layers_in_a_list_are_overlooked__but_not_in_a_modulelist(
    snippet, fails
):
    """`nn.ModuleList` registers its layers, so the model finds them."""
    modules = BLOCKS.replace("[", "nn.ModuleList([").replace("]", "])")
    fails(test_layers_in_a_list_are_overlooked, snippet.edit(BLOCKS, modules))


@edits(
    {
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
    """A layer that is an attribute as well is registered; a `forward` that
    looks among the children raises.
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
    assert run.count(run.listed) == run.count(run.model)
    assert len(run.listed.state_dict()) == len(run.model.state_dict())
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
        pytest.param(
            "super().__init__()\n        self.head = nn.Linear(400, 10)",
            id="after it",
        ),
        pytest.param(
            "self.head = [nn.Linear(400, 10)]\n        super().__init__()",
            id="in a list",
        ),
    ],
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


def test_forward_skips_hooks(snippet):
    run = snippet.after("forward")

    assert run.calls == ["head", "head", "model"]
    calls, model = [], run.Digits()
    for name, module in (("model", model), ("head", model.head)):
        for kind in ("forward_pre", "forward"):
            register = getattr(module, f"register_{kind}_hook")
            register(lambda *_, said=f"{kind} {name}": calls.append(said))
    inner = ["forward_pre head", "forward head"]
    model.forward(run.images)
    assert calls == inner
    model(run.images)
    assert calls[2:] == ["forward_pre model", *inner, "forward model"]


@pytest.mark.parametrize(
    "layer",
    [nn.Linear(3, 2), nn.Sequential(nn.ReLU())],
    ids=["a linear layer", "a Sequential"],
)
def test_forward_skips_hooks__also_of(layer):
    calls = []
    layer.register_forward_hook(lambda *_: calls.append("after"))
    layer.register_forward_pre_hook(lambda *_: calls.append("before"))
    layer.forward(torch.ones(4, 3))
    assert calls == []
    layer(torch.ones(4, 3))
    assert calls == ["before", "after"]


@edits(
    {
        "if called": ("noted.forward(images)", "noted(images)"),
        "if forward is called": ("noted(images)", "noted.forward(images)"),
        "of a layer called by forward": (
            "noted.forward(images)",
            "inner = noted.head\ndel noted.head\nnoted.head = inner.forward\n"
            "noted.forward(images)",
        ),
    }
)
def test_forward_skips_hooks__but_not(snippet, edit, fails):
    """`noted(images)` runs the model's hook and `noted.forward(images)` does
    not; nor does a layer's `forward` its own.
    """
    fails(test_forward_skips_hooks, snippet.edit(*edit))


def test_a_late_layer_stays(snippet, name="SGD"):
    with no_error():
        run = snippet.after("replaced")

    for each in ("head.weight", "head.bias"):
        assert run.late[each] == 0
        gradient = run.renewed.get_parameter(each).grad
        assert gradient is not None
        assert gradient.abs().max() > 0
    assert run.late["second.conv.weight"] > 0

    model = run.Digits()
    optimizer = OPTIMIZERS[name](model.parameters())
    model.second = run.Block(8, 16)
    for _ in range(2):
        with no_error():
            moves = run.distances(model, optimizer)
        assert moves["second.conv.weight"] == moves["second.norm.bias"] == 0
        assert moves["head.weight"] > 0
        assert model.second.conv.weight.grad.abs().max() > 0


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_late_layer_stays__also_with(snippet, name):
    test_a_late_layer_stays(snippet, name)


RENEWED = "renewed.head = nn.Linear(400, 10)"


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(
            f"{RENEWED}\noptimizer = torch.optim.AdamW(renewed.parameters())",
            id="with a later optimizer",
        ),
        pytest.param(
            f"{RENEWED}\n"
            "added = {'params': renewed.head.parameters()}\n"
            "optimizer.add_param_group(added)",
            id="with a group of its own",
        ),
        pytest.param(
            f"{RENEWED}\nrenewed.head.requires_grad_(False)", id="if frozen"
        ),
        pytest.param(
            f"bias = renewed.head.bias\n{RENEWED}\nrenewed.head.bias = bias",
            id="with the old bias",
        ),
        pytest.param(
            "renewed.head = nn.Linear(400, 3)", id="with too few outputs"
        ),
    ],
)
def test_a_late_layer_stays__but_not(snippet, new, fails):
    """A later optimizer or a group of its own moves the new layer; the others
    freeze it, keep a bias, or raise.
    """
    fails(test_a_late_layer_stays, snippet.edit(RENEWED, new))


# Where it ends


def test_shared_layers_count_once(snippet):
    run = snippet.after("tied")

    assert len(list(run.tied.parameters())) == 8
    assert run.count(run.tied) == run.count(run.tied[0]) + run.count(run.twice)
    for each in run.twice.state_dict():
        assert {f"1.{each}", f"2.{each}"} <= set(run.tied.state_dict())
    assert len(run.tied.state_dict()) == 3 * len(run.twice.state_dict())


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm1d(2), nn.Sequential(nn.PReLU())]
)
def test_shared_layers_count_once__also_for_three_names(layer):
    outer = nn.Module()
    outer.a = outer.b = outer.c = layer

    assert len(list(outer.parameters())) == len(list(layer.parameters()))
    state = {f"{name}.{each}" for name in "abc" for each in layer.state_dict()}
    assert set(outer.state_dict()) == state


@pytest.mark.parametrize(
    "new",
    [
        pytest.param("twice, Block(8, 8))", id="two layers"),
        pytest.param("twice)", id="under one name"),
    ],
)
def test_shared_layers_count_once__but_not(snippet, new, fails):
    """Two layers are counted twice; and under a single name, a layer is listed
    once.
    """
    edited = snippet.edit("twice, twice)", new)
    fails(test_shared_layers_count_once, edited)
