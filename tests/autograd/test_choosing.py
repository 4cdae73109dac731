"""The claims of docs/autograd/choosing.md."""

import threading
import warnings

import pytest
import torch
from torch import nn

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

    found = []
    for mode in (torch.enable_grad, torch.no_grad):
        for each in parameters:
            each.grad = None
        with mode():
            said = error_of(lambda: loss.backward(retain_graph=True))
        assert said == ""
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


def test_the_modes_save_nothing(snippet):
    run = snippet.after("weigh")

    for make in cases(run):
        layers, inputs = make()
        model = nn.Sequential(*layers)
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
    "way", ["torch.no_grad()(layer)(x)", "layer.requires_grad_(False)(x)"]
)
def test_detach_saves_as_much__but_not_a_mode(snippet, way, fails):
    fails(test_detach_saves_as_much, snippet.edit("layer(x).detach()", way))


def test_eval_saves_as_much(snippet):
    run = snippet.after("weigh")

    for model, inputs in tanh_models(run):
        usual = run.weigh(run.ways["nothing"], model, inputs)

        assert run.weigh(run.ways["eval()"], model, inputs) == usual > 0
        assert not model.training


def test_eval_saves_as_much__but_not_with_a_mode(snippet, fails):
    edited = snippet.edit(
        "layer.eval()(x)", "torch.no_grad()(layer.eval())(x)"
    )
    fails(test_eval_saves_as_much, edited)


# What goes wrong


def test_the_cut_is_silent(snippet):
    for optimizer in (torch.optim.SGD, torch.optim.Adam):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = snippet.after("middle-in-no-grad")
        parts = [run.first, run.middle, run.last]
        parameters = [p for part in parts for p in part.parameters()]
        before = [each.detach().clone() for each in run.first.parameters()]
        bias = run.last.bias.detach().clone()

        optimizer(parameters, lr=0.1).step()

        assert are_equal([*run.first.parameters()], before)
        assert not torch.equal(run.last.bias, bias)


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


@pytest.mark.parametrize("name", ATTEMPTS)
@pytest.mark.parametrize("mode", ["no_grad", "enable_grad"])
def test_inference_tensors_stay_out__but_not_tensors_of_another_mode(
    snippet, name, mode, fails
):
    edited = snippet.edit(
        "torch.inference_mode():  # the", f"torch.{mode}():  # the"
    )
    fails(test_inference_tensors_stay_out, edited, name)


def test_inference_tensors_stay_out__but_not_unrecorded(snippet, fails):
    edited = snippet.edit(
        "lambda: scale * predicted",
        "torch.no_grad()(lambda: scale * predicted)",
    )
    fails(test_inference_tensors_stay_out, edited, "multiply")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_inference_tensors_stay_out__also_others(dtype, shape):
    scale = torch.ones(shape, dtype=dtype, requires_grad=True)
    with torch.inference_mode():
        made = torch.ones(shape, dtype=dtype)

    multiply, change, ask = ATTEMPTS.values()
    assert multiply in error_of(lambda: scale * made)
    assert change in error_of(lambda: made.add_(1))
    assert change in error_of(lambda: made.zero_())
    assert ask in error_of(made.requires_grad_)


def test_a_clone_may_return(snippet):
    run = snippet.after("clone")

    assert run.scale.grad == run.predicted.sum()
    assert torch.equal(run.copy, run.predicted)
    assert error_of(lambda: run.copy.mul_(2)) == ""
    assert torch.equal(run.copy, 2 * run.predicted)
    assert error_of(run.copy.requires_grad_) == ""
    (run.scale * run.copy).sum().backward()
    assert torch.equal(run.copy.grad, run.scale.expand(run.copy.shape))


@pytest.mark.parametrize(
    "copy",
    [
        "copy = predicted",
        "copy = predicted.detach()",
        "with torch.inference_mode():\n    copy = predicted.clone()",
    ],
)
def test_a_clone_may_return__but_not_another_copy(snippet, copy, fails):
    edited = snippet.edit("copy = predicted.clone()", copy).edit(
        "(scale * copy).sum().backward()", "scale.grad = copy.sum()"
    )
    fails(test_a_clone_may_return, edited)


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
        said = error_of(lambda: model(inputs.clone()))  # noqa: B023
        assert ATTEMPTS["multiply"] in said


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
    leaf = torch.ones(2, requires_grad=True)
    assert error_of(lambda: leaf.requires_grad_(False)) == ""
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
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_dropout_still_drops(snippet, mode, rate):
    run = snippet.after("layers-go-on")
    run.dropout.p = rate

    with mode():
        output = run.dropout(torch.ones(1000))

    assert 0 < (output == 0).sum() < 1000


def test_dropout_still_drops__but_not_in_eval(snippet, fails):
    edited = snippet.edit("nn.Dropout(0.5)", "nn.Dropout(0.5).eval()")
    fails(test_dropout_still_drops, edited, torch.no_grad, 0.5)


@pytest.mark.parametrize("mode", MODES)
def test_running_numbers_still_move(snippet, mode):
    run = snippet.after("layers-go-on")
    assert (run.norm.running_mean > 1).all()
    assert (run.norm.running_var != 1).all()
    assert run.shifted.grad_fn is None

    for norm, inputs in (
        (run.norm, torch.randn(4, 3) * 9 - 7),
        (nn.BatchNorm2d(2), torch.randn(2, 2, 3, 3) * 9 + 5),
    ):
        mean, variance = norm.running_mean.clone(), norm.running_var.clone()
        with mode():
            norm(inputs)

        assert (norm.running_mean != mean).all()
        assert (norm.running_var != variance).all()


@pytest.mark.parametrize("mode", MODES)
def test_running_numbers_still_move__but_not_in_eval(snippet, mode, fails):
    edited = snippet.edit("nn.BatchNorm1d(3)", "nn.BatchNorm1d(3).eval()")
    fails(test_running_numbers_still_move, edited, mode)


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
    fails(test_running_numbers_still_move, edited, torch.no_grad)


# Where it ends


def test_new_leaves_still_ask(snippet):
    run = snippet.after("nested")
    with torch.no_grad():
        layer = nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2))
        made = [
            torch.zeros(2, requires_grad=True),
            torch.randn(2, requires_grad=True),
            torch.tensor([1.0], requires_grad=True),
        ]

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
    run.recorded.sum().backward()
    assert run.offset.grad == 1


@pytest.mark.parametrize("mode", ["no_grad()", "set_grad_enabled(False)"])
def test_enable_grad_records_again__but_not_another_mode(snippet, mode, fails):
    edited = snippet.edit(
        "    with torch.enable_grad():", f"    with torch.{mode}:"
    )
    fails(test_enable_grad_records_again, edited)


def test_inference_mode_is_stronger(snippet):
    run = snippet.after("nested")

    assert run.forgotten.grad_fn is None
    assert not run.forgotten.requires_grad
    assert run.forgotten.is_inference()


def test_inference_mode_is_stronger__but_not_no_grad(snippet, fails):
    edited = snippet.edit(
        "with torch.inference_mode(), torch.enable",
        "with torch.no_grad(), torch.enable",
    )
    fails(test_inference_mode_is_stronger, edited)


def test_inference_mode_is_stronger__but_not_after_a_copy_outside(
    snippet, fails
):
    edited = snippet.edit(
        "forgotten = offset + factor\n",
        "forgotten = offset + factor\nforgotten = forgotten.clone()\n",
    )
    fails(test_inference_mode_is_stronger, edited)


def test_inference_mode_can_be_left(snippet):
    run = snippet.after("nested")

    assert run.normal.grad_fn is not None
    assert not run.normal.is_inference()


@pytest.mark.parametrize("mode", ["inference_mode(True)", "enable_grad()"])
def test_inference_mode_can_be_left__but_not_by_another_mode(
    snippet, mode, fails
):
    edited = snippet.edit("inference_mode(False)", mode)
    fails(test_inference_mode_can_be_left, edited)


def test_a_block_leaks_through_yield(snippet):
    run = snippet.after("generators")

    assert len(run.warmer["leaking"]) == len(run.days)
    for each in run.warmer["leaking"]:
        assert each.grad_fn is None
    assert torch.is_grad_enabled()


def test_a_block_leaks_through_yield__but_not_out_of_a_list(snippet, fails):
    edited = snippet.edit(
        "        yield from map(model, days)",
        "        made = [*map(model, days)]\n    yield from made",
    )
    fails(test_a_block_leaks_through_yield, edited)


def test_a_decorated_generator_is_tight(snippet):
    run = snippet.after("generators")

    assert len(run.warmer["tight"]) == len(run.days)
    for each in run.warmer["tight"]:
        assert each.grad_fn is not None
    for each in run.tight():
        assert each.grad_fn is None
        assert torch.is_grad_enabled()


def test_a_decorated_generator_is_tight__but_not_undecorated(snippet, fails):
    edited = snippet.edit("@torch.no_grad()\n", "")
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


def test_a_new_thread_records__but_not_without_one(snippet, fails):
    edited = snippet.edit(
        "thread.start()\n    thread.join()", "doubled.append(scale * 2)"
    )
    fails(test_a_new_thread_records, edited)
