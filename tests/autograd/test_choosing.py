"""The claims of docs/autograd/choosing.md."""

import threading
import warnings

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import error_of, raised_in

NO_GRAPH = "element 0 of tensors does not require grad"
NO_LEAF = "you can only change requires_grad flags of leaf"
MODES = pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.inference_mode], ids=lambda m: m.__name__
)


# Models of three layers, and their inputs.


def linear(dtype=torch.float32):
    """Return three layers and the inputs of a model."""
    torch.manual_seed(1)
    first = nn.Sequential(nn.Linear(5, 6), nn.Tanh())
    middle = nn.Sequential(nn.Linear(6, 3), nn.Tanh())
    layers = nn.ModuleList([first, middle, nn.Linear(3, 2)]).to(dtype)
    return [*layers], torch.randn(7, 5, dtype=dtype)


def double():
    return linear(torch.float64)


def brain_float():
    return linear(torch.bfloat16)


def convolutions():
    torch.manual_seed(1)
    middle = nn.Sequential(nn.Conv2d(2, 2, 3), nn.ReLU())
    layers = [nn.Conv2d(1, 2, 3), middle, nn.Conv2d(2, 1, 3)]
    return layers, torch.randn(2, 1, 9, 9)


def normalized():
    torch.manual_seed(1)
    layers = [nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)]
    return layers, torch.randn(8, 4)


def attentive():
    torch.manual_seed(1)
    middle = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0)
    return [nn.Linear(3, 4), middle, nn.Linear(4, 1)], torch.randn(2, 5, 3)


def recurrent():
    torch.manual_seed(1)

    class States(nn.GRU):
        def forward(self, inputs):
            return super().forward(inputs)[0]

    return [nn.Linear(3, 4), States(4, 4), nn.Linear(4, 1)], torch.randn(5, 3)


def dropping():
    torch.manual_seed(1)
    middle = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    return [nn.Embedding(9, 4), middle, nn.Linear(4, 1)], torch.arange(9)


def linear_of_one_width():
    torch.manual_seed(1)
    return [nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)], torch.randn(
        4, 3
    )


MODELS = {
    "linear layers": linear,
    "float64": double,
    "bfloat16": brain_float,
    "convolutions": convolutions,
    "BatchNorm": normalized,
    "attention": attentive,
    "a GRU": recurrent,
    "dropout": dropping,
}
models = pytest.mark.parametrize("make_model", MODELS.values(), ids=MODELS)


def shared():
    """Return layers of which the first and the middle share a weight."""
    torch.manual_seed(1)
    layers = [nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)]
    layers[0].weight = layers[1].weight
    return layers, torch.randn(4, 3)


def shared_at_the_end():
    """Return layers of which the middle and the last share a weight."""
    torch.manual_seed(1)
    layers = [nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)]
    layers[2].weight = layers[1].weight
    return layers, torch.randn(4, 3)


# Ways to stop gradients at a layer.


def go_on(layer, x):
    return layer(x)


def freeze(layer, x):
    return layer.requires_grad_(False)(x)


def detach(layer, x):
    return layer(x).detach()


def pause(layer, x):
    with torch.no_grad():
        return layer(x)


def detach_beside_a_skip(layer, x):
    """Add the input, as a residual block does, around the detached output."""
    return detach(layer, x) + x


def gradients(way, layers, inputs):
    """Return the gradients of each layer, the way put around the middle."""
    first, middle, last = layers
    torch.manual_seed(2)  # of the dropout
    last(way(middle, first(inputs))).square().mean().backward()
    return [[each.grad for each in part.parameters()] for part in layers]


def are_close(one, other):
    """Return whether two lists of gradients agree up to rounding."""
    return None not in [*one, *other] and all(
        torch.allclose(*pair, rtol=1e-4, atol=1e-7)
        for pair in zip(one, other, strict=True)
    )


def numbers(*weights):
    """Return the gradients of weights as numbers, None where there is none."""
    return [w.grad if w.grad is None else w.grad.item() for w in weights]


# Do this


def test_only_the_last_is_recorded(snippet):
    run = snippet.after("do-this")

    results = [run.kept, run.validation_loss, run.predictions, run.loss]
    assert [each.grad_fn is None for each in results] == [True] * 3 + [False]
    assert run.kept == run.validation_loss == run.loss
    for each in results[:3]:
        assert NO_GRAPH in error_of(each.sum().backward)
    assert run.model[1].bias.grad is not None
    assert {p.grad for p in run.model[0].parameters()} == {None}
    assert torch.equal(run.predictions, run.model(run.apartments))


@edits(
    ("without detach", "prices).detach()", "prices)"),
    (
        "with recording on",
        "torch.no_grad():\n    val",
        "torch.enable_grad():\n    val",
    ),
    (
        "with recording on for predictions",
        "torch.inference_mode():\n    pred",
        "torch.enable_grad():\n    pred",
    ),
    (
        "with the loss detached",
        "loss = F.mse_loss(model(apartments), prices)\nloss",
        "loss = kept.requires_grad_()\nloss",
    ),
)
def test_only_the_last_is_recorded__but_not_otherwise(
    snippet, old, new, fails
):
    """A result computed while recording is on has a `grad_fn`."""
    fails(test_only_the_last_is_recorded, snippet.edit(old, new))


# How it works


def test_the_gradients_by_hand(snippet):
    run = snippet.after("by-hand")

    assert run.output == 2 * 3 * 5
    assert numbers(run.first, run.middle, run.last) == [15, 10, 6]


@edits(
    (
        "for another input",
        "output = last * (middle * (first * 1))",
        "output = last * (middle * (first * 2))",
    ),
    (
        "if weights are added",
        "output = last * (middle * (first * 1))",
        "output = last * (middle + (first * 1))",
    ),
    (
        "after a second pass",
        "output.backward()\nprint(first.grad, middle.grad, last.grad)\n",
        "output.backward(retain_graph=True)\noutput.backward()\n",
    ),
)
def test_the_gradients_by_hand__but_not(snippet, old, new, fails):
    """The input 2 doubles all three gradients."""
    fails(test_the_gradients_by_hand, snippet.edit(old, new))


def test_a_frozen_layer_lets_gradients_through(snippet, make_model=linear):
    run = snippet.after("at-a-parameter")
    assert numbers(run.first, run.middle, run.last) == [15, None, 6]

    usual = gradients(go_on, *make_model())
    first, middle, last = gradients(freeze, *make_model())
    assert set(middle) == {None}
    assert are_close(first, usual[0])
    assert are_close(last, usual[2])


@models
def test_a_frozen_layer_lets_gradients_through__also_with(snippet, make_model):
    test_a_frozen_layer_lets_gradients_through(snippet, make_model)


FROZEN = "frozen = last * (middle * (first * 1))"


@edits(
    (
        "if it still requires gradients",
        "middle.requires_grad_(False)",
        "middle.requires_grad_(True)",
    ),
    (
        "if the first layer is frozen",
        "middle.requires_grad_(False)",
        "first.requires_grad_(False)",
    ),
    (
        "if its input is detached",
        FROZEN,
        "frozen = last * (middle * (first * 1).detach())",
    ),
    (
        "if its output is doubled",
        FROZEN,
        "frozen = last * (2 * middle * (first * 1))",
    ),
    (
        "if the last weight is detached",
        FROZEN,
        "frozen = last.detach() * (middle * (first * 1))",
    ),
)
def test_a_frozen_layer_lets_gradients_through__but_not(
    snippet, old, new, fails
):
    """While the middle weight requires gradients, it gets one."""
    fails(test_a_frozen_layer_lets_gradients_through, snippet.edit(old, new))


def test_a_frozen_layer_lets_gradients_through__ends_with_a_shared_weight(
    snippet, fails
):
    """A layer that shares its weight with the frozen one is frozen as well."""
    fails(test_a_frozen_layer_lets_gradients_through, snippet, shared)


def test_a_frozen_layer_lets_gradients_through__also_with_an_old_gradient():
    layers, inputs = linear()
    before = gradients(go_on, layers, inputs)
    before = [[each.clone() for each in part] for part in before]

    after = gradients(freeze, layers, inputs)

    assert all(map(torch.equal, after[1], before[1]))
    assert are_close(after[0], [2 * each for each in before[0]])


def test_a_cut_stops_what_lies_behind(
    snippet, make_model=linear, cuts=(detach, pause)
):
    for cell in ("at-a-tensor", "for-a-block"):
        run = snippet.after(cell)
        assert numbers(run.first, run.middle, run.last) == [None, None, 6]

    usual = gradients(go_on, *make_model())
    for cut in cuts:
        first, middle, last = gradients(cut, *make_model())
        assert {*first, *middle} == {None}
        assert are_close(last, usual[2])


@models
def test_a_cut_stops_what_lies_behind__also_with(snippet, make_model):
    test_a_cut_stops_what_lies_behind(snippet, make_model)


@edits(
    (
        "without detach",
        "(middle * (first * 1)).detach()",
        "middle * (first * 1)",
    ),
    (
        "if the input is detached instead",
        "(middle * (first * 1)).detach()",
        "middle * (first * 1).detach()",
    ),
    (
        "if what is detached is doubled",
        "cut = last * hidden",
        "cut = last * hidden * 2",
    ),
    (
        "with the first layer outside the block",
        "(first * 1)\nunrecorded = last * hidden",
        "1\nunrecorded = last * hidden * first",
    ),
    (
        "if the result of the block is doubled",
        "unrecorded = last * hidden",
        "unrecorded = last * hidden * 2",
    ),
)
def test_a_cut_stops_what_lies_behind__but_not(snippet, old, new, fails):
    """Without `detach()`, all three weights get gradients."""
    fails(test_a_cut_stops_what_lies_behind, snippet.edit(old, new))


def test_a_cut_stops_what_lies_behind__but_not_in_enable_grad(snippet, fails):
    """Under `enable_grad()`, the block is recorded like any other code."""
    edited = snippet.edit(
        "with torch.no_grad():\n    hidden = middle * (first * 1)\nun",
        "with torch.enable_grad():\n    hidden = middle * (first * 1)\nun",
    )
    fails(test_a_cut_stops_what_lies_behind, edited)


def test_a_cut_stops_what_lies_behind__ends_beside_a_skip_connection(
    snippet, fails
):
    """Through a skip connection, the first layer still gets a gradient."""
    fails(
        test_a_cut_stops_what_lies_behind,
        snippet,
        linear_of_one_width,
        [detach_beside_a_skip],
    )


def test_a_cut_stops_what_lies_behind__ends_with_a_shared_weight(
    snippet, fails
):
    """A weight that the last layer shares gets its gradient there."""
    fails(test_a_cut_stops_what_lies_behind, snippet, shared_at_the_end)


def handing_through():
    """Return layers whose middle one returns its input itself."""
    layers, inputs = linear_of_one_width()
    return [layers[0], nn.Dropout().eval(), layers[2]], inputs


def test_a_cut_stops_what_lies_behind__ends_for_an_input_handed_through(
    snippet, fails
):
    """Under `no_grad()`, a layer that returns its input hands its graph on."""
    fails(test_a_cut_stops_what_lies_behind, snippet, handing_through)


def test_a_cut_stops_what_lies_behind__also_on_one_of_two_paths(snippet):
    run = snippet.after("skip")

    assert run.output == 5 * (2 + 3 * 2)
    assert numbers(run.first, run.middle) == [5, None]


def test_a_cut_stops_what_lies_behind__also_for_features(snippet):
    run = snippet.after("features-checked")

    assert torch.equal(run.features, run.model[0](run.apartments))
    assert not run.features.requires_grad
    assert not run.features.is_inference()
    assert run.head.bias.grad is not None
    assert {p.grad for p in run.model[0].parameters()} == {None}


def test_freezing_leaves_the_way_open(snippet):
    run = snippet.after("walk")

    walks = [
        run.walk(each)
        for each in (run.output, run.frozen, run.cut, run.unrecorded)
    ]
    assert [len(each) for each in walks] == [3, 3, 1, 1]
    assert [len(step) for step in walks[0]] == [1, 1, 1]
    assert [len(step) for step in walks[1]] == [1, 0, 1]


def test_freezing_leaves_the_way_open__also_in_the_labels(snippet):
    run = snippet.after("walk")

    labels = [
        [run.label(run.walk(each), i) for i in range(3)]
        for each in (run.output, run.frozen, run.cut, run.unrecorded)
    ]
    ends = ["gets 6", "not in graph", "not in graph"]
    assert [[said for said, _ in each] for each in labels] == [
        ["gets 6", "gets 10", "gets 15"],
        ["gets 6", "no gradient", "gets 15"],
        ends,
        ends,
    ]
    colors = {
        (said.split()[0], color) for each in labels for said, color in each
    }
    assert len(colors) == len({color for _, color in colors}) == 3


@edits(
    (
        "if the frozen layer is detached",
        FROZEN,
        "frozen = last * (middle * (first * 1)).detach()",
    ),
    ("if nothing is frozen", "middle.requires_grad_(False)\n", ""),
    (
        "without detach",
        "(middle * (first * 1)).detach()",
        "middle * (first * 1)",
    ),
    (
        "with recording on",
        "with torch.no_grad():\n    hidden = middle * (first * 1)\nun",
        "with torch.enable_grad():\n    hidden = middle * (first * 1)\nun",
    ),
)
def test_freezing_leaves_the_way_open__but_not(snippet, old, new, fails):
    """A layer whose output is detached leaves the graph, frozen or not."""
    fails(test_freezing_leaves_the_way_open, snippet.edit(old, new))


# What stays in memory


def saved_by(compute):
    """Return the tensors that autograd saves meanwhile."""
    saved = []
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: saved.append(t.detach()), lambda nothing: nothing):
        compute()
    return saved


def storages(tensors):
    """Return the places in memory that tensors rest in."""
    return {each.untyped_storage().data_ptr() for each in tensors}


def test_the_tanh_output_is_saved(snippet):
    run = snippet.after("saved-bytes")
    model, made = run.new_model(), []
    for each in model.modules():
        if isinstance(each, nn.Tanh):
            each.register_forward_hook(lambda *those: made.append(those[2]))

    saved = saved_by(lambda: run.ways["as it is"](model, run.apartments))
    uncounted = storages([run.apartments, *model.parameters()])

    assert storages(saved) - uncounted == storages(made)
    assert [(each.shape, each.element_size()) for each in made] == [
        ((64, 6), 4)
    ]
    assert run.saved_bytes(run.ways["as it is"], model, run.apartments) == 1536


@edits(
    (
        "with a second layer",
        "nn.Linear(2, 6), nn.Tanh()",
        "nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh()",
    ),
    (
        "with eight features",
        "nn.Linear(2, 6), nn.Tanh())",
        "nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6))",
    ),
    ("if the parameters are counted", "[*model.parameters(), x]", "[x]"),
    (
        "if the inputs are counted",
        "[*model.parameters(), x]",
        "[*model.parameters()]",
    ),
    (
        "in float64",
        "import torch\n",
        "import torch\n\ntorch.set_default_dtype(torch.float64)\n",
    ),
    ("if Tanh is a Sigmoid", "nn.Tanh()", "nn.Sigmoid()"),
    (
        "with a softmax besides",
        "return nn.Sequential(encoder, nn.Linear(6, 1))",
        "return nn.Sequential(encoder, nn.Softmax(1), nn.Linear(6, 1))",
    ),
)
def test_the_tanh_output_is_saved__but_not(snippet, old, new, fails):
    """A second `Tanh` saves its output as well."""
    fails(test_the_tanh_output_is_saved, snippet.edit(old, new))


class InThread(nn.Sequential):
    """Layers that compute in a thread of their own."""

    def forward(self, inputs):
        """Return the outputs of the layers."""
        outputs, run = [], super().forward
        thread = threading.Thread(target=lambda: outputs.append(run(inputs)))
        thread.start()
        thread.join()
        return outputs[0]


class Recording(nn.Sequential):
    """Layers that are recorded in any case."""

    def forward(self, inputs):
        """Return the outputs of the layers."""
        with torch.enable_grad():
            return super().forward(inputs)


def test_the_modes_save_nothing(
    snippet, make_model=linear, wrap=nn.Sequential
):
    run = snippet.after("saved-bytes")

    layers, inputs = make_model()
    for model, x in (
        (run.new_model(), run.apartments),
        (wrap(*layers), inputs),
    ):
        assert run.saved_bytes(run.ways["as it is"], model, x) > 0
        for name in ("no_grad()", "inference_mode()"):
            assert saved_by(lambda: run.ways[name](model, x)) == []  # noqa: B023


@models
def test_the_modes_save_nothing__also_with(snippet, make_model):
    test_the_modes_save_nothing(snippet, make_model)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_the_modes_save_nothing__but_not_in_enable_grad(snippet, mode, fails):
    """Under `enable_grad()`, autograd saves what it always saves."""
    old, new = f"torch.{mode}()(model)", "torch.enable_grad()(model)"
    fails(test_the_modes_save_nothing, snippet.edit(old, new))


def test_the_modes_save_nothing__ends_if_the_model_computes_in_a_thread(
    snippet, fails
):
    """A thread that the model starts begins with recording on."""
    fails(test_the_modes_save_nothing, snippet, linear, InThread)


def test_the_modes_save_nothing__ends_if_the_model_calls_enable_grad(
    snippet, fails
):
    """A model that calls `enable_grad()` is recorded under `no_grad()`."""
    fails(test_the_modes_save_nothing, snippet, linear, Recording)


def test_a_frozen_model_saves_nothing(snippet, make_model=linear):
    run = snippet.after("saved-bytes")

    layers, inputs = make_model()
    for model, x in (
        (run.new_model(), run.apartments),
        (nn.Sequential(*layers), inputs),
    ):
        assert run.saved_bytes(run.ways["as it is"], model, x) > 0
        way = run.ways["requires_grad_(False)"]
        assert saved_by(lambda: way(model, x)) == []  # noqa: B023


@models
def test_a_frozen_model_saves_nothing__also_with(snippet, make_model):
    test_a_frozen_model_saves_nothing(snippet, make_model)


FREEZE = "model.requires_grad_(False)(x)"
ALL_BUT_ONE = "[p.requires_grad_(False) for p in [*model.parameters()][:-1]]"


@edits(
    (
        "with one bias that learns",
        FREEZE,
        f"({ALL_BUT_ONE}, model(x).tanh())[1]",
    ),
    (
        "with one factor that learns",
        FREEZE,
        f"{FREEZE} * torch.ones(1, requires_grad=True)",
    ),
)
def test_a_frozen_model_saves_nothing__but_not(snippet, old, new, fails):
    """One bias that still learns makes autograd save what it needs."""
    fails(test_a_frozen_model_saves_nothing, snippet.edit(old, new))


def asking():
    """Return layers, and an input whose gradient somebody wants."""
    layers, inputs = linear()
    return layers, inputs.requires_grad_()


def test_a_frozen_model_saves_nothing__ends_for_an_input_that_requires_grad(
    snippet, fails
):
    """For the gradient at an input, a frozen model saves tensors, too."""
    fails(test_a_frozen_model_saves_nothing, snippet, asking)


def test_detach_saves_as_much(snippet, make_model=linear):
    run = snippet.after("saved-bytes")

    layers, inputs = make_model()
    for model, x in (
        (run.new_model(), run.apartments),
        (nn.Sequential(*layers), inputs),
    ):
        usual = run.saved_bytes(run.ways["as it is"], model, x)
        assert run.saved_bytes(run.ways["detach()"], model, x) == usual > 0


@models
def test_detach_saves_as_much__also_with(snippet, make_model):
    test_detach_saves_as_much(snippet, make_model)


@edits(
    ("under no_grad", "model(x).detach()", "torch.no_grad()(model)(x)"),
    ("if frozen", "model(x).detach()", FREEZE),
    ("with another operation", "model(x).detach()", "model(x).exp().detach()"),
)
def test_detach_saves_as_much__but_not(snippet, old, new, fails):
    """Under `no_grad()`, nothing is saved in the first place."""
    fails(test_detach_saves_as_much, snippet.edit(old, new))


def test_eval_saves_as_much(snippet, make_model=linear):
    run = snippet.after("saved-bytes")

    layers, inputs = make_model()
    for model, x in (
        (run.new_model(), run.apartments),
        (nn.Sequential(*layers), inputs),
    ):
        usual = run.saved_bytes(run.ways["as it is"], model, x)
        assert run.saved_bytes(run.ways["model.eval()"], model, x) == usual > 0
        assert not model.training


@pytest.mark.parametrize(
    "make_model",
    [double, brain_float, convolutions],
    ids=["float64", "bfloat16", "convolutions"],
)
def test_eval_saves_as_much__also_with(snippet, make_model):
    test_eval_saves_as_much(snippet, make_model)


@edits(
    ("under no_grad", "model.eval()(x)", "torch.no_grad()(model.eval())(x)"),
    ("with another operation", "model.eval()(x)", "model.eval()(x).exp()"),
)
def test_eval_saves_as_much__but_not(snippet, old, new, fails):
    """With `no_grad()` besides, nothing is saved."""
    fails(test_eval_saves_as_much, snippet.edit(old, new))


def test_eval_saves_as_much__ends_for_dropout(snippet, fails):
    """In evaluation mode, dropout passes its input on and saves no mask."""
    fails(test_eval_saves_as_much, snippet, dropping)


# Train and validate in one loop


def test_one_loop_does_both(snippet):
    run = snippet.after("one-loop")

    assert run.losses["training"].grad_fn is not None
    assert run.losses["validation"].grad_fn is None
    assert not run.model.training
    assert run.losses["training"] == run.losses["validation"]
    run.losses["training"].backward()
    assert run.model[0][0].weight.grad is not None
    assert torch.is_grad_enabled()


@edits(
    (
        "with recording always on",
        "set_grad_enabled(training)",
        "set_grad_enabled(True)",
    ),
    (
        "with recording always off",
        "set_grad_enabled(training)",
        "set_grad_enabled(False)",
    ),
    (
        "the other way round",
        "set_grad_enabled(training)",
        "set_grad_enabled(not training)",
    ),
    ("in training mode throughout", "model.train(training)", "model.train()"),
)
def test_one_loop_does_both__but_not(snippet, old, new, fails):
    """With `set_grad_enabled(True)`, validation records a graph as well."""
    fails(test_one_loop_does_both, snippet.edit(old, new))


# What goes wrong


STEPS = [
    (torch.optim.SGD, {}),
    (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
    (torch.optim.Adam, {}),
    (torch.optim.Adam, {"weight_decay": 0.1, "foreach": True}),
    (torch.optim.Adam, {"amsgrad": True, "fused": True}),
    (torch.optim.AdamW, {}),
]
STEP_NAMES = [
    "SGD",
    "SGD with momentum and weight decay",
    "Adam",
    "Adam with weight decay",
    "fused Adam with amsgrad",
    "AdamW",
]


def test_the_cut_is_silent(snippet, optimizer=torch.optim.SGD, options=()):
    with no_error(), warnings.catch_warnings():
        warnings.simplefilter("error")
        run = snippet.after("frozen-by-no-grad")
        parts = nn.ModuleList([run.first, run.middle, run.last])
        stopped = [*run.first.parameters(), *run.middle.parameters()]
        before = [each.detach().clone() for each in stopped]
        bias = run.last.bias.detach().clone()
        optimizer(parts.parameters(), lr=0.1, **dict(options)).step()

    assert torch.equal(run.hidden, run.middle(run.first(run.apartments)))
    assert all(map(torch.equal, stopped, before))
    assert not torch.equal(run.last.bias, bias)


@pytest.mark.parametrize(("optimizer", "options"), STEPS, ids=STEP_NAMES)
def test_the_cut_is_silent__also_under(snippet, optimizer, options):
    test_the_cut_is_silent(snippet, optimizer, options)


BLOCK = "with torch.no_grad():  # to freeze the middle layer\n    hidden"


def test_the_cut_is_silent__but_not_if_frozen_by_its_parameters(
    snippet, fails
):
    """With `middle.requires_grad_(False)` instead, the first layer learns."""
    edited = snippet.edit(BLOCK, "middle.requires_grad_(False)\nhidden")
    fails(test_the_cut_is_silent, edited)


@edits(
    (
        "with recording on",
        "torch.no_grad():  # to",
        "torch.enable_grad():  # to",
    ),
    (
        "with the middle layer outside",
        "    hidden = middle(first(apartments))",
        "    hidden = first(apartments)\nhidden = middle(hidden)",
    ),
    (
        "with an old gradient",
        BLOCK,
        f"first(apartments).sum().backward()\n{BLOCK}",
    ),
    (
        "with a warning",
        BLOCK,
        f"import warnings\nwarnings.warn('no gradients')\n{BLOCK}",
    ),
    ("with an error", BLOCK, f"raise RuntimeError('no gradients')\n{BLOCK}"),
    (
        "if the last layer is frozen as well",
        BLOCK,
        f"last.bias.requires_grad_(False)\n{BLOCK}",
    ),
)
def test_the_cut_is_silent__but_not(snippet, old, new, fails):
    """Under `enable_grad()`, both layers get gradients and move."""
    fails(test_the_cut_is_silent, snippet.edit(old, new))


def test_no_graph_no_backward(snippet, make_model=linear):
    assert NO_GRAPH in str(raised_in(snippet, "no-graph"))

    run = snippet.after("ways")
    for name in (
        "no_grad()",
        "inference_mode()",
        "detach()",
        "requires_grad_(False)",
    ):
        layers, inputs = make_model()
        loss = run.ways[name](nn.Sequential(*layers), inputs).square().mean()
        assert NO_GRAPH in error_of(loss.backward)


@models
def test_no_graph_no_backward__also_with(snippet, make_model):
    test_no_graph_no_backward(snippet, make_model)


@edits(
    (
        "with recording on",
        "torch.no_grad():\n    loss",
        "torch.enable_grad():\n    loss",
    ),
    (
        "with recording on in the table",
        "torch.no_grad()(model)",
        "torch.enable_grad()(model)",
    ),
    (
        "with recording on instead of inference mode",
        "torch.inference_mode()(model)",
        "torch.enable_grad()(model)",
    ),
    ("without detach", "model(x).detach()", "model(x)"),
    ("if nothing is frozen", FREEZE, "model(x)"),
    (
        "if a factor requires gradients",
        FREEZE,
        f"{FREEZE} * torch.ones(1, requires_grad=True)",
    ),
)
def test_no_graph_no_backward__but_not(snippet, old, new, fails):
    """A loss that was recorded has a graph."""
    fails(test_no_graph_no_backward, snippet.edit(old, new))


def test_no_graph_no_backward__ends_for_an_input_that_requires_grad(
    snippet, fails
):
    """A frozen model still has a graph if its input requires gradients."""
    fails(test_no_graph_no_backward, snippet, asking)


def test_only_leaves_are_switched_off(snippet):
    assert NO_LEAF in str(raised_in(snippet, "not-a-leaf"))

    run, leaf = snippet.after("not-a-leaf"), torch.ones(2, requires_grad=True)
    for each in (run.hidden, leaf * 2, leaf.exp(), leaf.view(2, 1)):
        assert NO_LEAF in error_of(lambda: each.requires_grad_(False))  # noqa: B023
    for each in (leaf, *run.model.parameters()):
        each.requires_grad_(False)
        assert not each.requires_grad


@edits(
    (
        "if it is detached",
        "hidden.requires_grad_(False)",
        "hidden.detach().requires_grad_(False)",
    ),
    (
        "if it is a leaf",
        "hidden = model[0](apartments)",
        "hidden = model[0](apartments).detach()",
    ),
)
def test_only_leaves_are_switched_off__but_not(snippet, old, new, fails):
    """`detach()` returns a tensor that requires no gradients already."""
    fails(test_only_leaves_are_switched_off, snippet.edit(old, new))


@MODES
def test_dropout_still_drops(snippet, mode):
    run = snippet.after("dropout")

    with mode():
        dropped = run.dropout(torch.ones(1000)) == 0

    assert 400 < dropped.sum() < 600


@edits(
    ("in evaluation mode", "nn.Dropout(0.5)", "nn.Dropout(0.5).eval()"),
    ("at rate 0", "nn.Dropout(0.5)", "nn.Dropout(0.0)"),
)
@MODES
def test_dropout_still_drops__but_not(snippet, mode, old, new, fails):
    """In evaluation mode, dropout lets every number through."""
    fails(test_dropout_still_drops, snippet.edit(old, new), mode)


NORMS = {
    "BatchNorm1d": (nn.BatchNorm1d, (4, 3)),
    "BatchNorm2d": (nn.BatchNorm2d, (2, 3, 4, 4)),
    "BatchNorm3d": (nn.BatchNorm3d, (2, 3, 2, 2, 2)),
}
STOPS = ["no_grad()", "inference_mode()", "requires_grad_(False)"]


def test_running_numbers_still_move(
    snippet, new=nn.BatchNorm1d, shape=(4, 3), stops=STOPS, **options
):
    run = snippet.after("dropout")
    assert (run.norm.running_mean > 1).all()
    assert (run.norm.running_var != 1).all()

    for stop in stops:
        norm = new(3, **options)
        output = run.ways[stop](norm, torch.randn(shape) * 9 + 5)
        assert output.grad_fn is None
        assert (norm.running_mean != 0).all()
        assert (norm.running_var != 1).all()


@pytest.mark.parametrize(("new", "shape"), NORMS.values(), ids=NORMS)
def test_running_numbers_still_move__also_of(snippet, new, shape):
    test_running_numbers_still_move(snippet, new, shape)


def test_running_numbers_still_move__also_in_the_program(snippet):
    calls = []
    with nn.modules.module.register_module_forward_hook(
        lambda module, _, output: calls.append((module, output))
    ):
        run = snippet.after("dropout")

    assert (run.norm.running_mean > 1).all()
    assert {p.requires_grad for p in run.norm.parameters()} == {True}
    [output] = [output for module, output in calls if module is run.norm]
    assert output.grad_fn is None  # although its parameters would record


@edits(
    ("in evaluation mode", "nn.BatchNorm1d(2)", "nn.BatchNorm1d(2).eval()"),
    (
        "with a mean that is put back",
        "    norm(apartments + 20)\n",
        "    norm(apartments + 20)\n    norm.running_mean.zero_()\n",
    ),
    (
        "with a variance that is put back",
        "    norm(apartments + 20)\n",
        "    norm(apartments + 20)\n    norm.running_var.fill_(1)\n",
    ),
    ("if nothing is frozen", FREEZE, "model(x)"),
    (
        "in evaluation mode under no_grad",
        "torch.no_grad()(model)",
        "torch.no_grad()(model.eval())",
    ),
    (
        "in evaluation mode under inference_mode",
        "torch.inference_mode()(model)",
        "torch.inference_mode()(model.eval())",
    ),
)
def test_running_numbers_still_move__but_not(snippet, old, new, fails):
    """After `eval()`, BatchNorm leaves its running statistics alone."""
    fails(test_running_numbers_still_move, snippet.edit(old, new))


def without_statistics(size):
    """Return a BatchNorm that moves no statistics."""
    return nn.BatchNorm1d(size, momentum=0.0)


def test_running_numbers_still_move__ends_with_a_momentum_of_0(snippet, fails):
    """With `momentum=0.0`, no batch moves the running statistics."""
    fails(test_running_numbers_still_move, snippet, without_statistics)


def test_eval_cuts_nothing(snippet, make_model=linear):
    run = snippet.after("ways")

    layers, inputs = make_model()
    for model, x in (
        (run.new_model(), run.apartments),
        (nn.Sequential(*layers), inputs),
    ):
        run.ways["model.eval()"](model, x).square().mean().backward()
        assert not model.training
        assert [n for n, p in model.named_parameters() if p.grad is None] == []


@models
def test_eval_cuts_nothing__also_with(snippet, make_model):
    test_eval_cuts_nothing(snippet, make_model)


@edits(
    (
        "if a part is frozen as well",
        "model.eval()(x)",
        "(model[0].requires_grad_(False), model.eval()(x))[1]",
    ),
    (
        "if features are detached as well",
        "model.eval()(x)",
        "model[-1].eval()(model.eval()[:-1](x).detach())",
    ),
    ("if the mode is switched back", "model.eval()(x)", "model.train()(x)"),
)
def test_eval_cuts_nothing__but_not(snippet, old, new, fails):
    """A layer that is frozen besides gets no gradient."""
    fails(test_eval_cuts_nothing, snippet.edit(old, new))
