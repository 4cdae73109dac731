"""The claims of docs/autograd/choosing.md."""

import threading
import warnings

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import no_error

MODES = [torch.no_grad, torch.inference_mode]
ENDS = ("first", "middle", "last")


def error_of(call):
    """Return what a call complains of: nothing, if it runs."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def linear(dtype=torch.float32):
    """Return the layers and the inputs of a model like that of the page."""
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


MODELS = [
    linear,
    double,
    brain_float,
    convolutions,
    normalized,
    attentive,
    recurrent,
    dropping,
]


def gradients(way, layers, inputs):
    """Return the gradients of each layer, the way put around the middle."""
    first, middle, last = layers
    torch.manual_seed(2)  # of the dropout
    last(way(middle, first(inputs))).square().mean().backward()
    return [[each.grad for each in part.parameters()] for part in layers]


def are_close(one, other):
    """Return whether two lists of gradients agree up to rounding."""
    pairs = [*zip(one, other, strict=True)]
    return None not in [*one, *other] and all(
        torch.allclose(*pair, rtol=1e-4, atol=1e-7) for pair in pairs
    )


def are_equal(one, other):
    """Return whether two lists of gradients, all there, are equal."""
    pairs = [*zip(one, other, strict=True)]
    return None not in [*one, *other] and all(torch.equal(*p) for p in pairs)


def cases(run):
    """Yield functions that make a model: that of the page and others."""
    yield lambda: ([*run.three_layers()], run.days)
    yield from MODELS


# Do this


def test_only_the_last_is_recorded(snippet):
    run = snippet.after("do-this")

    assert run.goal.grad_fn is None
    assert run.validated.grad_fn is None
    assert run.predicted.grad_fn is None
    assert run.output.grad_fn is not None
    for result in (run.goal, run.validated, run.predicted):
        assert torch.equal(result, run.output)
    first, middle, last = run.model
    assert are_there(first)
    assert are_there(last)
    assert {each.grad for each in middle.parameters()} == {None}


def are_there(layer):
    """Return whether all parameters of a layer have a gradient."""
    return all(each.grad is not None for each in layer.parameters())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model(days).detach()", "model(days)"),
        ("with torch.no_grad():  # c", "with torch.enable_grad():  # c"),
        ("with torch.inference_mode():  #", "with torch.enable_grad():  #"),
        ("output = model(days)  #", "output = goal.requires_grad_()  #"),
        ("model[1].requires_grad_(False)", "model[1].eval()"),
        ("model[1].requires_grad_(False)", "model[0].requires_grad_(False)"),
        ("model[1].requires_grad_(False)", "model[2].requires_grad_(False)"),
    ],
)
def test_only_the_last_is_recorded__but_not_otherwise_switched(
    snippet, old, new, fails
):
    fails(test_only_the_last_is_recorded, snippet.edit(old, new))


# How it works


WAYS_OPEN = ["nothing", "eval()", "requires_grad_(False)"]
WAYS_CUT = ["detach()", "no_grad()"]
LEARN = [("Addmm", True), ("Tanh", False)]


def test_freezing_leaves_the_way_open(snippet):
    run = snippet.after("way-back")

    def steps(way):
        first, middle, last = run.three_layers()
        return run.way_back(last(run.ways[way](middle, first(run.days))))

    assert list(run.ways) == [*WAYS_OPEN, *WAYS_CUT, "inference_mode()"]
    for way in WAYS_OPEN:
        middle = ("Addmm", way != "requires_grad_(False)")
        assert steps(way) == [LEARN[0], LEARN[1], middle, LEARN[1], LEARN[0]]
    for way in WAYS_CUT:
        assert steps(way) == [LEARN[0]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("layer(x),\n", "layer(x).detach(),\n"),
        ("layer.eval()(x)", "layer.eval()(x).detach()"),
        ("layer.requires_grad_(False)(x)", "torch.no_grad()(layer)(x)"),
        ("layer(x).detach()", "layer(x)"),
        ("torch.no_grad()(layer)", "torch.enable_grad()(layer)"),
    ],
)
def test_freezing_leaves_the_way_open__but_not_another_way(
    snippet, old, new, fails
):
    fails(test_freezing_leaves_the_way_open, snippet.edit(old, new))


def test_a_frozen_layer_lets_gradients_through(snippet):
    run = snippet.after("ways")

    for make in cases(run):
        usual = gradients(run.ways["nothing"], *make())
        first, middle, last = gradients(
            run.ways["requires_grad_(False)"], *make()
        )

        assert set(middle) == {None}
        assert are_close(first, usual[0])
        assert are_close(last, usual[2])


FREEZE = "layer.requires_grad_(False)(x)"


@pytest.mark.parametrize(
    "way",
    [
        "layer(x)",
        "layer(x).detach()",
        "torch.no_grad()(layer)(x)",
        "layer.requires_grad_(False)(2 * x)",
    ],
)
def test_a_frozen_layer_lets_gradients_through__but_not_otherwise(
    snippet, way, fails
):
    fails(
        test_a_frozen_layer_lets_gradients_through, snippet.edit(FREEZE, way)
    )


def test_a_frozen_layer_lets_gradients_through__but_not_a_frozen_weight_alone(
    snippet, fails
):
    edited = snippet.edit(
        FREEZE,
        "([p.requires_grad_(False) for p in [*layer.parameters()][:1]],"
        " layer(x))[1]",
    )
    fails(test_a_frozen_layer_lets_gradients_through, edited)


SHARED = """    first[0].weight = middle[0].weight
    return nn.Sequential(first, middle, nn.Linear(4, 1))"""
ROW = "    return nn.Sequential(first, middle, nn.Linear(4, 1))"


def sharing(snippet):
    """Return the snippet with a weight that two of its layers share."""
    return snippet.edit(ROW, SHARED).edit(
        "model, days = three_layers(), torch.randn(8, 3)",
        "model, days = three_layers(), torch.randn(8, 4)",
    )


def test_a_frozen_layer_lets_gradients_through__but_not_with_a_shared_weight(
    snippet, fails
):
    fails(test_a_frozen_layer_lets_gradients_through, sharing(snippet))


@pytest.mark.parametrize(
    "way",
    [
        "layer.requires_grad_(False)(x.detach())",
        "layer.requires_grad_(False)((x + x.detach()) / 2)",
        "2 * layer.requires_grad_(False)(x)",
    ],
)
def test_a_frozen_layer_lets_gradients_through__but_not_the_same_if_changed(
    snippet, way, fails
):
    fails(
        test_a_frozen_layer_lets_gradients_through, snippet.edit(FREEZE, way)
    )


def test_a_frozen_layer_lets_gradients_through__also_with_an_old_one(snippet):
    run = snippet.after("ways")
    layers, inputs = linear()
    before = gradients(run.ways["nothing"], layers, inputs)
    before = [[each.clone() for each in part] for part in before]

    after = gradients(run.ways["requires_grad_(False)"], layers, inputs)

    assert are_equal(after[1], before[1])
    assert are_close(after[0], [2 * each for each in before[0]])


def test_a_cut_stops_what_lies_behind(snippet):
    run = snippet.after("ways")

    for make in cases(run):
        usual = gradients(run.ways["nothing"], *make())
        for way in ("detach()", "no_grad()"):
            first, middle, last = gradients(run.ways[way], *make())

            assert set(first) == {None}
            assert set(middle) == {None}
            assert are_close(last, usual[2])


@pytest.mark.parametrize(
    "edit",
    [
        ("layer(x).detach()", "layer(x)"),
        ("layer(x).detach()", "layer(x.detach())"),
        ("layer(x).detach()", "layer(x).detach() * 2"),
        ("layer(x).detach()", FREEZE),
        ("torch.no_grad()(layer)", FREEZE[:-3]),
        ("torch.no_grad()(layer)(x)", "torch.no_grad()(layer)(x) * 2"),
    ],
)
def test_a_cut_stops_what_lies_behind__but_not_otherwise(snippet, edit, fails):
    fails(test_a_cut_stops_what_lies_behind, snippet.edit(*edit))


def test_a_cut_stops_what_lies_behind__but_not_with_a_weight_that_last_has(
    snippet, fails
):
    edited = snippet.edit(
        ROW, f"    middle[0].last = last = nn.Linear(4, 1)\n{ROW}"
    )
    edited = edited.edit(
        "(first, middle, nn.Linear(4, 1))", "(first, middle, last)"
    )
    fails(test_a_cut_stops_what_lies_behind, edited)


def test_a_cut_stops_what_lies_behind__but_not_in_enable_grad(snippet, fails):
    edited = snippet.edit(
        "torch.no_grad()(layer)", "torch.enable_grad()(layer)"
    )
    fails(test_a_cut_stops_what_lies_behind, edited)


def test_eval_cuts_nothing(snippet):
    run = snippet.after("ways")

    for make in cases(run):
        layers, inputs = make()
        found = gradients(run.ways["eval()"], layers, inputs)

        assert not layers[1].training
        for part in found:
            assert part
            assert None not in part


@pytest.mark.parametrize(
    "way",
    [
        "layer.eval()(x).detach()",
        "layer.eval()(x.detach())",
        "layer.eval().requires_grad_(False)(x)",
    ],
)
def test_eval_cuts_nothing__but_not_with_a_cut(snippet, way, fails):
    fails(test_eval_cuts_nothing, snippet.edit("layer.eval()(x)", way))


def test_backward_runs_under_no_grad(snippet):
    run = snippet.after("epochs")
    loss, parameters = run.losses["training"], [*run.model[0].parameters()]

    assert loss.requires_grad
    compare_modes(loss, parameters)
    for make in cases(run):
        layers, inputs = make()
        model = nn.Sequential(*layers).requires_grad_()
        loss = model(inputs).square().mean()
        compare_modes(loss, [*model.parameters()])


def compare_modes(loss, parameters):
    """Check that a backward pass gives the same in both modes."""
    found = []
    for mode in (torch.enable_grad, torch.no_grad):
        for each in parameters:
            each.grad = None
        with no_error(), mode():
            loss.backward(retain_graph=True)
        found.append([each.grad for each in parameters])

    assert are_equal(*found)


@pytest.mark.parametrize("mode", ["no_grad()", "inference_mode()"])
def test_backward_runs_under_no_grad__but_not_after_an_unrecorded_pass(
    snippet, mode, fails
):
    edited = snippet.edit("set_grad_enabled(training)", mode)
    fails(test_backward_runs_under_no_grad, edited)


# What is kept in memory


def saved_by(compute):
    """Return the tensors that autograd saves meanwhile."""
    saved = []

    def keep(tensor):
        saved.append(tensor.detach())

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda nothing: None):
        compute()
    return saved


def storages(tensors):
    """Return the places in memory that tensors rest in."""
    return {each.untyped_storage().data_ptr() for each in tensors}


def test_both_tanh_are_saved(snippet):
    run = snippet.after("weigh")
    model, made = run.three_layers(), []
    tanh = [each for each in model.modules() if isinstance(each, nn.Tanh)]
    for each in tanh:
        each.register_forward_hook(lambda *those: made.append(those[2]))

    saved = saved_by(lambda: run.ways["nothing"](model, run.days))
    uncounted = storages([run.days, *model.parameters()])

    assert storages(saved) - uncounted == storages(made)
    assert [each.shape for each in made] == [(8, 4), (8, 4)]
    assert {each.element_size() for each in made} == {4}
    assert run.weigh(run.ways["nothing"], model, run.days) == 256


def test_both_tanh_are_saved__but_not_with_one_tanh(snippet, fails):
    edited = snippet.edit("nn.Linear(4, 4), nn.Tanh()", "nn.Linear(4, 4)")
    fails(test_both_tanh_are_saved, edited)


@pytest.mark.parametrize(
    "known", ["[numbers]", "[*layer.parameters()]", "[torch.ones(1)]"]
)
def test_both_tanh_are_saved__but_not_alone_if_more_is_counted(
    snippet, known, fails
):
    edited = snippet.edit("[*layer.parameters(), numbers]", known)
    fails(test_both_tanh_are_saved, edited)


def test_both_tanh_are_saved__but_not_of_double_numbers(snippet, fails):
    edited = snippet.edit(
        "model, days = three_layers(), torch.randn(8, 3)",
        "torch.set_default_dtype(torch.float64)\n"
        "model, days = three_layers(), torch.randn(8, 3)",
    )
    fails(test_both_tanh_are_saved, edited)


class InThread(nn.Module):
    """A layer that computes in a thread of its own."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, inputs):
        """Return the outputs of the layer."""
        outputs = []
        thread = threading.Thread(
            target=lambda: outputs.append(self.layer(inputs))
        )
        thread.start()
        thread.join()
        return outputs[0]


class Recording(nn.Sequential):
    """Layers that are recorded in any case."""

    def forward(self, inputs):
        """Return the outputs of the layers."""
        with torch.enable_grad():
            return super().forward(inputs)


def test_the_modes_save_nothing__ends_if_the_model_computes_in_a_thread(
    snippet, fails
):
    def wrap(*layers):
        return InThread(nn.Sequential(*layers))

    fails(test_the_modes_save_nothing, snippet, wrap)


def test_the_modes_save_nothing__ends_if_the_model_calls_enable_grad(
    snippet, fails
):
    fails(test_the_modes_save_nothing, snippet, Recording)


def test_the_modes_save_nothing(snippet, wrap=nn.Sequential):
    run = snippet.after("weigh")

    for make in cases(run):
        layers, inputs = make()
        model = wrap(*layers)
        assert run.weigh(run.ways["nothing"], model, inputs) > 0
        for way in ("no_grad()", "inference_mode()"):
            assert run.weigh(run.ways[way], model, inputs) == 0
            assert not saved_by(lambda: run.ways[way](model, inputs))  # noqa: B023


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_the_modes_save_nothing__but_not_in_enable_grad(snippet, mode, fails):
    edited = snippet.edit(
        f"torch.{mode}()(layer)", "torch.enable_grad()(layer)"
    )
    fails(test_the_modes_save_nothing, edited)


def test_a_frozen_model_saves_nothing(snippet):
    run = snippet.after("weigh")

    for make in cases(run):
        layers, inputs = make()
        model = nn.Sequential(*layers)
        way = run.ways["requires_grad_(False)"]

        assert run.weigh(run.ways["nothing"], model, inputs) > 0
        assert not saved_by(lambda: way(model, inputs))  # noqa: B023


def test_a_frozen_model_saves_nothing__but_not_with_one_learning_bias(
    snippet, fails
):
    edited = snippet.edit(
        FREEZE,
        "([p.requires_grad_(False) for p in [*layer.parameters()][:-1]],"
        " layer(x).tanh())[1]",
    )
    fails(test_a_frozen_model_saves_nothing, edited)


def test_a_frozen_model_saves_nothing__but_not_with_asking_inputs(
    snippet, fails
):
    edited = snippet.edit(FREEZE, f"{FREEZE[:-3]}(x.float().requires_grad_())")
    fails(test_a_frozen_model_saves_nothing, edited)


def test_a_frozen_model_saves_nothing__but_not_if_another_tensor_asks(
    snippet, fails
):
    edited = snippet.edit(
        FREEZE, f"{FREEZE} * torch.ones(1, requires_grad=True)"
    )
    fails(test_a_frozen_model_saves_nothing, edited)


def tanh_models(run):
    yield run.three_layers(), run.days
    for make in (linear, double, brain_float):
        layers, inputs = make()
        yield nn.Sequential(*layers), inputs


def test_detach_saves_as_much(snippet):
    run = snippet.after("weigh")

    for make in cases(run):
        layers, inputs = make()
        model = nn.Sequential(*layers)
        usual = run.weigh(run.ways["nothing"], model, inputs)

        assert run.weigh(run.ways["detach()"], model, inputs) == usual > 0


@pytest.mark.parametrize(
    "way",
    [
        "torch.no_grad()(layer)(x)",
        "layer.requires_grad_(False)(x)",
        "layer(x).exp().detach()",
    ],
)
def test_detach_saves_as_much__but_not_otherwise(snippet, way, fails):
    fails(test_detach_saves_as_much, snippet.edit("layer(x).detach()", way))


def test_eval_saves_as_much(snippet):
    run = snippet.after("weigh")

    for model, inputs in tanh_models(run):
        usual = run.weigh(run.ways["nothing"], model, inputs)

        assert run.weigh(run.ways["eval()"], model, inputs) == usual > 0
        assert not model.training


@pytest.mark.parametrize(
    "way", ["torch.no_grad()(layer.eval())(x)", "layer.eval()(x).exp()"]
)
def test_eval_saves_as_much__but_not_otherwise(snippet, way, fails):
    fails(test_eval_saves_as_much, snippet.edit("layer.eval()(x)", way))


# What goes wrong


def test_the_cut_is_silent(snippet):
    for optimizer, options in STEPS:
        with no_error(), warnings.catch_warnings():
            warnings.simplefilter("error")
            run = snippet.after("middle-in-no-grad")
        parts = nn.ModuleList([run.first, run.middle, run.last])
        assert torch.equal(run.hidden, run.middle(run.first(run.days)))
        cut = [*run.first.parameters(), *run.middle.parameters()]
        before = [each.detach().clone() for each in cut]
        bias = run.last.bias.detach().clone()

        with no_error():
            optimizer(parts.parameters(), lr=0.1, **options).step()

        assert are_equal(cut, before)
        assert not torch.equal(run.last.bias, bias)


STEPS = [
    (torch.optim.SGD, {}),
    (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
    (torch.optim.Adam, {}),
    (torch.optim.Adam, {"weight_decay": 0.1, "foreach": True}),
    (torch.optim.Adam, {"amsgrad": True, "fused": True}),
]
NO_GRAD_BLOCK = "with torch.no_grad():\n    hidden"


@pytest.mark.parametrize(
    "before",
    [
        "first(days).sum().backward()",
        "import warnings\nwarnings.warn('no gradients')",
        "raise RuntimeError('no gradients')",
    ],
)
def test_the_cut_is_silent__but_not_with_old_gradients_or_a_word(
    snippet, before, fails
):
    edited = snippet.edit(NO_GRAD_BLOCK, f"{before}\n{NO_GRAD_BLOCK}")
    fails(test_the_cut_is_silent, edited)


def test_the_cut_is_silent__but_not_for_a_middle_outside(snippet, fails):
    edited = snippet.edit(
        "    hidden = middle(first(days))",
        "    hidden = first(days)\nhidden = middle(hidden)",
    )
    fails(test_the_cut_is_silent, edited)


def test_the_cut_is_silent__but_not_in_enable_grad(snippet, fails):
    edited = snippet.edit(
        "with torch.no_grad():\n    hidden", "if True:\n    hidden"
    )
    fails(test_the_cut_is_silent, edited)


def test_the_cut_is_silent__but_not_if_frozen_by_its_parameters(
    snippet, fails
):
    edited = snippet.edit(
        "with torch.no_grad():\n    hidden",
        "if middle.requires_grad_(False):\n    hidden",
    )
    fails(test_the_cut_is_silent, edited)


ATTEMPTS = {
    "multiply": "Inference tensors cannot be saved for backward",
    "change": "Inplace update to inference tensor outside InferenceMode",
    "ask": "Setting requires_grad=True on inference tensor outside",
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_inference_tensors_stay_out(snippet, name):
    run = snippet.after("later")

    assert run.predicted.is_inference()
    assert ATTEMPTS[name] in str(run.refusal(run.attempts[name]))
    with torch.no_grad():
        product = run.attempts["multiply"]()
    assert torch.equal(product, run.scale.detach() * run.predicted)


@pytest.mark.parametrize("name", ATTEMPTS)
@pytest.mark.parametrize("mode", ["no_grad", "enable_grad"])
def test_inference_tensors_stay_out__but_not_tensors_of_another_mode(
    snippet, name, mode, fails
):
    edited = snippet.edit(
        "torch.inference_mode():  # the", f"torch.{mode}():  # the"
    )
    fails(test_inference_tensors_stay_out, edited, name)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (
            "multiply",
            "lambda: scale * predicted",
            "torch.no_grad()(lambda: scale * predicted)",
        ),
        ("multiply", "tensor(2.0, requires_grad=True)", "tensor(2.0)"),
        ("change", "predicted.mul_(2)", "predicted.data.mul_(2)"),
        ("change", "predicted.mul_(2)", "predicted.detach().mul_(2)"),
        ("change", "predicted.mul_(2)", "predicted.clone().mul_(2)"),
        (
            "ask",
            "predicted.requires_grad_()",
            "predicted.clone().requires_grad_()",
        ),
    ],
)
def test_inference_tensors_stay_out__but_not_otherwise(
    snippet, name, old, new, fails
):
    fails(test_inference_tensors_stay_out, snippet.edit(old, new), name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_inference_tensors_stay_out__also_of(dtype, shape):
    scale = torch.ones(shape, dtype=dtype, requires_grad=True)
    with torch.inference_mode():
        made = torch.ones(shape, dtype=dtype)

    multiply, change, ask = ATTEMPTS.values()
    assert multiply in error_of(lambda: scale * made)
    assert change in error_of(lambda: made.add_(1))
    assert change in error_of(lambda: made.zero_())
    assert ask in error_of(made.requires_grad_)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_clone_may_return(snippet, name):
    with no_error():
        run = snippet.after("clone")

    assert run.predicted.is_inference()
    assert run.scale.grad == run.predicted.sum()
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        with torch.inference_mode():
            made = torch.ones(2, 3, dtype=dtype)
        for copy in (run.copy, made.clone()):
            usable(copy, name)


def usable(copy, name):
    """Check that a tensor can be used in one of three ways."""
    scale, before = torch.tensor(2.0, requires_grad=True), copy.tolist()
    with no_error():
        if name == "multiply":
            (scale * copy).sum().backward()
            assert scale.grad == copy.sum()
        elif name == "change":
            assert (copy.mul_(2) == 2 * torch.tensor(before)).all()
        else:
            assert copy.requires_grad_().requires_grad


@pytest.mark.parametrize("name", ATTEMPTS)
@pytest.mark.parametrize(
    "copy",
    [
        "copy = predicted",
        "copy = predicted.view(-1, 1)",
        "with torch.inference_mode():\n    copy = predicted.clone()",
    ],
)
def test_a_clone_may_return__but_not_another_copy(snippet, copy, name, fails):
    edited = snippet.edit("copy = predicted.clone()", copy).edit(
        "(scale * copy).sum().backward()",
        "scale.grad = predicted.sum().clone()",
    )
    fails(test_a_clone_may_return, edited, name)


def test_a_clone_may_return__but_not_of_integers(snippet, fails):
    edited = snippet.edit(
        "    predicted = model(days)", "    predicted = model(days).long()"
    )
    fails(test_a_clone_may_return, edited, "ask")


def test_build_models_outside(snippet):
    run = snippet.after("forecast")
    with torch.inference_mode():
        models = [
            (run.three_layers(), run.days),
            (
                nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)),
                torch.ones(1, 2),
            ),
            (nn.Sequential(*linear()[0]), torch.ones(1, 5)),
        ]

    for model, inputs in models:
        for dtype in (torch.float32, torch.float64):
            with torch.inference_mode():
                model.to(dtype)
            said = error_of(lambda: model(inputs.clone().to(dtype)))  # noqa: B023
            assert ATTEMPTS["multiply"] in said


@pytest.mark.parametrize(
    "layers",
    [
        "nn.Sequential(first, middle, nn.Linear(4, 1)).requires_grad_(False)",
        "nn.Sequential(nn.Linear(3, 1))",
    ],
)
def test_build_models_outside__but_not_frozen_or_with_one_layer(
    snippet, layers, fails
):
    edited = snippet.edit(
        "return nn.Sequential(first, middle, nn.Linear(4, 1))",
        f"return {layers}",
    )
    fails(test_build_models_outside, edited)


def test_build_models_outside__but_not_unrecorded(snippet, fails):
    edited = snippet.edit(
        ROW,
        "    model = nn.Sequential(first, middle, nn.Linear(4, 1))\n"
        "    model.forward = torch.no_grad()(model.forward)\n"
        "    return model",
    )
    fails(test_build_models_outside, edited)


def test_build_models_outside__but_not_those_that_leave_it(snippet, fails):
    edited = snippet.edit(
        "def three_layers", "@torch.inference_mode(False)\ndef three_layers"
    )
    fails(test_build_models_outside, edited)


CUTS = ["no_grad()", "inference_mode()", "detach()", "requires_grad_(False)"]
NO_GRAPH = "element 0 of tensors does not require grad"


def test_no_graph_no_backward(snippet):
    run = snippet.after("no-way-back")

    assert NO_GRAPH in str(run.refusal(run.loss.backward))
    assert run.loss == run.output.square().mean()
    for way in CUTS:
        for make in cases(run):
            layers, inputs = make()
            model = nn.Sequential(*layers)
            loss = run.ways[way](model, inputs).square().mean()
            assert NO_GRAPH in error_of(loss.backward)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_no_graph_no_backward__but_not_in_enable_grad(snippet, mode, fails):
    edited = snippet.edit(
        f"torch.{mode}()(layer)", "torch.enable_grad()(layer)"
    )
    fails(test_no_graph_no_backward, edited)


def test_no_graph_no_backward__but_not_of_a_recorded_loss(snippet, fails):
    edited = snippet.edit(
        "with torch.no_grad():\n    loss",
        "with torch.enable_grad():\n    loss",
    )
    fails(test_no_graph_no_backward, edited)


@pytest.mark.parametrize("way", [FREEZE, "layer(x).detach()"])
def test_no_graph_no_backward__but_not_if_nothing_is_done(snippet, way, fails):
    fails(test_no_graph_no_backward, snippet.edit(way, "layer(x)"))


@pytest.mark.parametrize("way", [FREEZE, "layer(x).detach()"])
def test_no_graph_no_backward__but_not_if_another_tensor_asks(
    snippet, way, fails
):
    edited = snippet.edit(way, f"{way} + torch.ones(1, requires_grad=True)")
    fails(test_no_graph_no_backward, edited)


def test_no_graph_no_backward__but_not_with_an_asking_input(snippet, fails):
    edited = snippet.edit(FREEZE, f"{FREEZE[:-3]}(x.float().requires_grad_())")
    fails(test_no_graph_no_backward, edited)


def test_only_leaves_are_switched_off(snippet):
    run = snippet.after("no-way-back")
    assert "you can only change requires_grad flags of leaf" in str(run.frozen)
    computed = [run.output, run.scale * 2, run.scale.exp(), run.scale.view(1)]

    for each in computed:
        assert each.requires_grad
        said = error_of(lambda: each.requires_grad_(False))  # noqa: B023
        assert "you can only change requires_grad flags of leaf" in said
    leaves = [torch.ones(2, requires_grad=True), run.scale]
    for leaf in [*leaves, *run.model.parameters()]:
        assert error_of(lambda: leaf.requires_grad_(False)) == ""  # noqa: B023
        assert not leaf.requires_grad


def test_only_leaves_are_switched_off__but_a_detached_one_may_be(
    snippet, fails
):
    edited = snippet.edit(
        "lambda: output.requires_grad_(False)",
        "lambda: output.detach().requires_grad_(False)",
    )
    fails(test_only_leaves_are_switched_off, edited)


@pytest.mark.parametrize("mode", MODES)
def test_dropout_still_drops(snippet, mode):
    run = snippet.after("layers-go-on")

    with mode():
        output = run.dropout(torch.ones(1000))

    assert 400 < (output == 0).sum() < 600


def test_dropout_still_drops__but_not_in_eval(snippet, fails):
    edited = snippet.edit("nn.Dropout(0.5)", "nn.Dropout(0.5).eval()")
    fails(test_dropout_still_drops, edited, torch.no_grad)


def test_dropout_still_drops__but_not_in_eval_and_inference_mode(
    snippet, fails
):
    edited = snippet.edit("nn.Dropout(0.5)", "nn.Dropout(0.5).eval()")
    fails(test_dropout_still_drops, edited, torch.inference_mode)


def test_dropout_still_drops__but_not_at_rate_0(snippet, fails):
    edited = snippet.edit("nn.Dropout(0.5)", "nn.Dropout(0.0)")
    fails(test_dropout_still_drops, edited, torch.no_grad)


STOPS = ["no_grad()", "inference_mode()", "requires_grad_(False)"]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("other", ["BatchNorm1d(3)", "BatchNorm2d(3)"])
def test_running_numbers_still_move(snippet, stop, other):
    run = snippet.after("layers-go-on")
    assert (run.norm.running_mean > 1).all()
    assert (run.norm.running_var != 1).all()
    assert run.shifted.grad_fn is None

    shape = (2, 3, 4, 4) if "2d" in other else (4, 3)
    inputs = torch.randn(shape) * 9 + 5
    for norm in (run.norm, eval(f"nn.{other}", {"nn": nn})):
        given = inputs if norm is not run.norm else torch.randn(4, 3) * 9 - 7
        mean, variance = norm.running_mean.clone(), norm.running_var.clone()
        output = run.ways[stop](norm, given)

        assert output.grad_fn is None
        assert (norm.running_mean != mean).all()
        assert (norm.running_var != variance).all()


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(
    "norm", ["BatchNorm1d(3).eval()", "BatchNorm1d(3, momentum=0.0)"]
)
def test_running_numbers_still_move__but_not_in_eval_or_without_momentum(
    snippet, stop, norm, fails
):
    edited = snippet.edit("nn.BatchNorm1d(3)", f"nn.{norm}")
    fails(test_running_numbers_still_move, edited, stop, "BatchNorm1d(3)")


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(
    "other", ["BatchNorm2d(3).eval()", "BatchNorm2d(3, momentum=0.0)"]
)
def test_running_numbers_still_move__but_not_so_in_2d(
    snippet, stop, other, fails
):
    fails(test_running_numbers_still_move, snippet, stop, other)


def test_running_numbers_still_move__but_not_if_nothing_stops(snippet, fails):
    edited = snippet.edit(FREEZE, "layer(x)")
    fails(test_running_numbers_still_move, edited, STOPS[2], "BatchNorm1d(3)")


@pytest.mark.parametrize("held", ["running_mean", "running_var"])
def test_running_numbers_still_move__but_not_one_put_back(
    snippet, held, fails
):
    before = {"running_mean": "zeros", "running_var": "ones"}[held]
    edited = snippet.edit(
        "    shifted = norm(days + 20)\n",
        "    shifted = norm(days + 20)\n"
        f"    norm.{held} = torch.{before}(3)\n",
    )
    fails(test_running_numbers_still_move, edited, STOPS[0], "BatchNorm1d(3)")


# Where it ends


def test_new_leaves_still_ask(snippet):
    run = snippet.after("nested")
    with torch.no_grad():
        layer = nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2))
        made = [
            torch.zeros(2, requires_grad=True),
            torch.randn(2, requires_grad=True),
            torch.tensor([1.0], requires_grad=True),
            torch.full((2,), 1.0, requires_grad=True),
            torch.arange(3.0, requires_grad=True),
            torch.zeros_like(run.days, requires_grad=True),
            run.days.new_ones(2, requires_grad=True),
            nn.Parameter(run.days),
            nn.Parameter(run.days * run.factor),
        ]

    assert run.unrecorded.grad_fn is None
    assert run.offset.requires_grad
    assert run.factor.requires_grad
    for each in [*layer.parameters(), *made]:
        assert each.requires_grad
        each.sum().backward()


def test_new_leaves_still_ask__but_not_results(snippet, fails):
    edited = snippet.edit(
        "nn.Parameter(torch.zeros(1))", "nn.Parameter(torch.zeros(1)) * 1"
    )
    fails(test_new_leaves_still_ask, edited)


def test_new_leaves_still_ask__but_not_if_told_otherwise(snippet, fails):
    edited = snippet.edit(
        "nn.Parameter(torch.zeros(1))",
        "nn.Parameter(torch.zeros(1), requires_grad=False)",
    )
    fails(test_new_leaves_still_ask, edited)


def test_new_leaves_still_ask__but_not_unasked(snippet, fails):
    edited = snippet.edit("torch.ones(1, requires_grad=True)", "torch.ones(1)")
    fails(test_new_leaves_still_ask, edited)


def test_enable_grad_records_again(snippet):
    run = snippet.after("nested")

    assert run.unrecorded.grad_fn is None
    assert run.recorded.grad_fn is not None
    assert run.unrecorded == run.recorded
    run.recorded.backward()
    assert run.offset.grad == run.factor.grad == 1


@pytest.mark.parametrize("mode", ["no_grad()", "set_grad_enabled(False)"])
def test_enable_grad_records_again__but_not_another_mode(snippet, mode, fails):
    edited = snippet.edit(
        "with torch.enable_grad():\n        recorded",
        f"with torch.{mode}:\n        recorded",
    )
    fails(test_enable_grad_records_again, edited)


class Square(torch.autograd.Function):
    """An operation with a gradient of its own."""

    @staticmethod
    def forward(ctx, x):
        """Return the square."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        """Return the gradient."""
        [x] = ctx.saved_tensors
        return 2 * x * grad


def test_inference_mode_is_stronger(snippet, compute=torch.square):
    run = snippet.after("nested")

    assert run.says is True
    assert run.forgotten.grad_fn is None
    assert not run.forgotten.requires_grad
    assert run.forgotten.is_inference()
    assert run.forgotten == run.offset + run.factor
    with torch.inference_mode():
        for again in (torch.enable_grad(), torch.set_grad_enabled(True)):
            with again:
                for made in (
                    run.days.sum(),
                    run.model(run.days) + run.factor,
                    compute(run.factor),
                ):
                    assert made.grad_fn is None


def test_inference_mode_is_stronger__ends_for_a_custom_function(
    snippet, fails
):
    fails(test_inference_mode_is_stronger, snippet, Square.apply)


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param(lambda x: x.matmul(x), id="a product"),
        pytest.param(lambda x: x.unsqueeze(0), id="a view"),
        pytest.param(nn.LSTM(1, 2), id="an LSTM"),
    ],
)
def test_inference_mode_is_stronger__also_for(snippet, compute):
    if isinstance(compute, nn.LSTM):
        test_inference_mode_is_stronger(
            snippet, lambda x: compute(x.view(1, 1, 1))[0]
        )
    else:
        test_inference_mode_is_stronger(snippet, compute)


def test_inference_mode_is_stronger__but_says_false_under_no_grad(
    snippet, fails
):
    edited = snippet.edit(
        "    with torch.enable_grad():\n        forgotten",
        "    with torch.no_grad():\n        forgotten",
    )
    fails(test_inference_mode_is_stronger, edited)


def test_inference_mode_is_stronger__but_not_no_grad(snippet, fails):
    edited = snippet.edit(
        "with torch.inference_mode():\n    with torch.enable",
        "with torch.no_grad():\n    with torch.enable",
    )
    fails(test_inference_mode_is_stronger, edited)


def test_inference_mode_is_stronger__but_not_after_a_copy_outside(
    snippet, fails
):
    edited = snippet.edit(
        "print(offset, unrecorded",
        "forgotten = forgotten.clone()\nprint(offset, unrecorded",
    )
    fails(test_inference_mode_is_stronger, edited)


def test_inference_mode_can_be_left(snippet):
    run = snippet.after("nested")

    assert run.forgotten.is_inference()
    assert run.normal.grad_fn is not None
    assert not run.normal.is_inference()
    run.normal.backward()
    assert run.offset.grad == run.factor.grad == 1


@pytest.mark.parametrize("mode", ["inference_mode(True)", "enable_grad()"])
def test_inference_mode_can_be_left__but_not_by_another_mode(
    snippet, mode, fails
):
    edited = snippet.edit("inference_mode(False)", mode)
    fails(test_inference_mode_can_be_left, edited)


def decorated(mode, function):
    return mode(function)


def undecorated(mode, function):
    return function


def switched(mode, function):
    """Put a function that switches the mode on, and not off, in its place."""

    def switching(*inputs):
        torch.set_grad_enabled(type(mode) is torch.enable_grad)
        return function(*inputs)

    return switching


def test_a_mode_stands_above_a_function(snippet, put=decorated):
    run = snippet.after("forecast")
    functions = [(put(each(), run.model), False) for each in MODES]
    functions += [(put(torch.set_grad_enabled(False), run.model), False)]
    functions += [(put(torch.enable_grad(), run.model), True)]
    for function, records in functions:
        for outside in (torch.enable_grad, torch.no_grad):
            with outside():
                before = torch.is_grad_enabled()
                for _ in range(2):
                    assert function(run.days).requires_grad == records
                    assert torch.is_grad_enabled() == before
                    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("put", [undecorated, switched])
def test_a_mode_stands_above_a_function__but_not_if(snippet, fails, put):
    with torch.enable_grad():
        fails(test_a_mode_stands_above_a_function, snippet, put)


def test_a_block_leaks_through_yield(snippet):
    run = snippet.after("generators")

    assert len(run.warmer["leaking"]) == len(run.days)
    for each in run.warmer["leaking"]:
        assert each.grad_fn is None
    assert torch.is_grad_enabled()


def test_a_block_leaks_through_yield__but_not_into_enable_grad(snippet, fails):
    edited = snippet.edit(
        "[scale * degrees for",
        "[torch.enable_grad()(lambda: scale * degrees)() for",
    )
    fails(test_a_block_leaks_through_yield, edited)


def test_a_block_leaks_through_yield__but_not_out_of_a_list(snippet, fails):
    edited = snippet.edit(
        "        yield from map(model, days)",
        "        made = [*map(model, days)]\n    yield from made",
    )
    fails(test_a_block_leaks_through_yield, edited)


def test_a_decorated_generator_is_tight(snippet):
    run = snippet.after("generators")

    assert len(run.warmer["tight"]) == len(run.days)
    for each, degrees in zip(run.warmer["tight"], run.tight(), strict=True):
        assert each.grad_fn is not None
        [slope] = torch.autograd.grad(each, run.scale)
        assert slope == degrees
    for each in run.tight():
        assert each.grad_fn is None
        assert torch.is_grad_enabled()


def test_a_decorated_generator_is_tight__but_not_undecorated(snippet, fails):
    edited = snippet.edit("@torch.no_grad()\n", "")
    fails(test_a_decorated_generator_is_tight, edited)


def test_a_decorated_generator_is_tight__but_not_under_enable_grad(
    snippet, fails
):
    edited = snippet.edit("@torch.no_grad()\n", "@torch.enable_grad()\n")
    fails(test_a_decorated_generator_is_tight, edited)


def test_a_decorated_generator_is_tight__but_not_a_block(snippet, fails):
    edited = snippet.edit(
        "def tight():\n", "def tight():\n    torch.set_grad_enabled(False)\n"
    ).edit("@torch.no_grad()\n", "")
    with torch.enable_grad():
        fails(test_a_decorated_generator_is_tight, edited)


def test_one_loop_does_both(snippet):
    run = snippet.after("epochs")

    assert run.losses["training"].grad_fn is not None
    assert run.losses["validation"].grad_fn is None
    assert not run.model.training
    for loss in run.losses.values():
        assert loss == run.output.square().mean()
    run.losses["training"].backward()
    assert run.model[0][0].weight.grad is not None
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("always", ["True", "False", "not training"])
def test_one_loop_does_both__but_not_with_another_mode(snippet, always, fails):
    edited = snippet.edit(
        "set_grad_enabled(training)", f"set_grad_enabled({always})"
    )
    fails(test_one_loop_does_both, edited)


def test_a_new_thread_records(snippet):
    run = snippet.after("threads")
    assert run.doubled[0].grad_fn is None
    assert run.doubled[1].grad_fn is not None
    assert run.doubled == [2 * run.scale, 2 * run.scale]

    for mode in MODES:
        made = []
        with mode():
            thread = threading.Thread(
                target=lambda: made.append(run.scale * 2)  # noqa: B023
            )
            thread.start()
            thread.join()
        assert made[0].grad_fn is not None
        assert not made[0].is_inference()


def test_one_loop_does_both__but_not_in_training_mode(snippet, fails):
    edited = snippet.edit("model.train(training)", "model.train()")
    fails(test_one_loop_does_both, edited)


def test_a_new_thread_records__also_if_another_thread_does_not(snippet):
    run = snippet.after("threads")
    thread = threading.Thread(target=lambda: torch.set_grad_enabled(False))
    thread.start()
    thread.join()

    assert (run.scale * 2).grad_fn is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pool.submit(lambda: scale * 2).result()", "(lambda: scale * 2)()"),
        ("submit(lambda:", "submit(torch.no_grad()(lambda:"),
        ("with torch.no_grad(), Thread", "with Thread"),
    ],
)
def test_a_new_thread_records__but_not_otherwise(snippet, old, new, fails):
    if "submit" in new:
        new, old = f"{new} scale * 2))", f"{old} scale * 2)"
    fails(test_a_new_thread_records, snippet.edit(old, new))
