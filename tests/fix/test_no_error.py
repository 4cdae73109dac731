"""The claims of docs/fix/no_error.md."""

import pytest
import torch
from torch import nn

from tests.helpers.worlds import each


def test_measured_alike_training_is_best(snippet):
    program = snippet.after("better-in-validation")

    assert program.in_the_loop > program.validation + 0.05
    assert program.afterwards < program.validation


@pytest.mark.parametrize("seed", range(1, 5), ids="seed {}".format)
def test_measured_alike_training_is_best__also_with(snippet, seed):
    edited = snippet.edit("seed(0)\ninputs", f"seed({seed})\ninputs")
    test_measured_alike_training_is_best(edited)


def test_measured_alike_training_is_best__but_not_untrained(snippet, fails):
    """Without a step, the model gets no better while the loop measures."""
    edited = snippet.edit("optimizer.step()\n    in_the", "in_the")
    fails(test_measured_alike_training_is_best, edited)


def test_measured_alike_training_is_best__ends_for_an_easy_part(
    snippet, fails
):
    """Where the validation part is easier, the training loss stays higher."""
    edited = snippet.edit(
        "model.eval()",
        "model.eval()\ninputs[320:] += 2 * (2 * labels[320:, None] - 1)",
    )
    fails(test_measured_alike_training_is_best, edited)


def shares(program):
    """Return how often each way names the more frequent answer."""
    return [
        (answers.bincount(minlength=2).max() / len(answers)).item()
        for answers in (program.as_they_are, program.scaled, program.warm)
    ]


def test_scaled_inputs_give_both_classes(snippet):
    program = snippet.after("same-class")
    as_they_are, scaled, right = shares(program)

    assert as_they_are == 1
    assert scaled == pytest.approx(right, abs=0.05)


@pytest.mark.parametrize("offset", [-1000, 2000, 5000], ids="around {}".format)
def test_scaled_inputs_give_both_classes__also_for_numbers(snippet, offset):
    edited = snippet.edit("1000 + torch", f"{offset} + torch")
    edited = edited.edit("rooms[:, 0] > 1000", f"rooms[:, 0] > {offset}")
    test_scaled_inputs_give_both_classes(edited)


def test_scaled_inputs_give_both_classes__but_not_divided(snippet, fails):
    """Divided by 1000 without taking off the mean, all look alike."""
    edited = snippet.edit(
        "(rooms - rooms.mean(dim=0)) / rooms.std(dim=0)", "rooms / 1000"
    )
    fails(test_scaled_inputs_give_both_classes, edited)


def test_scaled_inputs_give_both_classes__ends_near_zero(snippet, fails):
    """Numbers around 0 that differ by 1 need no scaling."""
    edited = snippet.edit("1000 + torch", "0 + torch")
    edited = edited.edit("rooms[:, 0] > 1000", "rooms[:, 0] > 0")
    fails(test_scaled_inputs_give_both_classes, edited)


def test_scaled_inputs_give_both_classes__ends_far_apart(snippet, fails):
    """Inputs around 1000 that differ by hundreds give both classes, too."""
    edited = snippet.edit("1000 + torch", "1000 + 300 * torch")
    fails(test_scaled_inputs_give_both_classes, edited)


def test_eight_layers_give_one_output(snippet):
    spreads = snippet.after("deep-lstm").spreads

    assert spreads[8] < spreads[1] / 1000


VARIED_LAYERS = {
    "another seed": ("manual_seed(0)\n    lstm", "manual_seed(1)\n    lstm"),
    "128 units": ("nn.LSTM(4, 32, num", "nn.LSTM(4, 128, num"),
    "longer series": ("randn(64, 20, 4)", "randn(64, 100, 4)"),
    "larger inputs": ("(torch.randn(64, 20", "(5 * torch.randn(64, 20"),
}


@each("edit", VARIED_LAYERS)
def test_eight_layers_give_one_output__also_with(snippet, edit):
    test_eight_layers_give_one_output(snippet.edit(*edit))


def test_eight_layers_give_one_output__but_not_one_layer(snippet, fails):
    """One layer passes on the differences."""
    edited = snippet.edit("num_layers=layers, ", "num_layers=1, ")
    fails(test_eight_layers_give_one_output, edited)


def test_eight_layers_give_one_output__ends_with_larger_weights(
    snippet, fails
):
    """With initial weights four times as large, the differences arrive."""
    old = "batch_first=True)\n    outputs, _ = lstm(torch"
    edited = snippet.edit(
        old,
        "batch_first=True)\n"
        "    with torch.no_grad():\n"
        "        for weight in lstm.parameters():\n"
        "            weight *= 4\n"
        "    outputs, _ = lstm(torch",
    )
    fails(test_eight_layers_give_one_output, edited)


def spread(program):
    """Return how far both forecasts go up and down, as shares of the sales."""
    whole = program.sales.std()
    flat, rescaled = program.unscaled.std(), program.rescaled.std()
    return (flat / whole).item(), (rescaled / whole).item()


def test_a_scaled_series_is_followed(snippet):
    flat, rescaled = spread(snippet.after("flat"))

    assert flat < 0.05
    assert rescaled == pytest.approx(1, abs=0.1)


VARIED = {
    "a GRU": ("nn.LSTM(1, 16", "nn.GRU(1, 16"),
    "larger numbers": ("500 + 100 * torch", "50_000 + 9_000 * torch"),
    "twice as many months": ("arange(120)", "arange(240)"),
}


@each("edit", VARIED)
def test_a_scaled_series_is_followed__also_with(snippet, edit):
    test_a_scaled_series_is_followed(snippet.edit(*edit))


def test_a_scaled_series_is_followed__but_not_unscaled(snippet, fails):
    """Numbers around 500 keep the forecast flat."""
    old = "forecast((sales - mean) / deviation) * deviation + mean"
    edited = snippet.edit(old, "forecast(sales)")
    fails(test_a_scaled_series_is_followed, edited)


def test_a_scaled_series_is_followed__ends_near_zero(snippet, fails):
    """A series that is near 0 anyway is followed as it is."""
    edited = snippet.edit("500 + 100 * torch", "torch")
    fails(test_a_scaled_series_is_followed, edited)


def test_a_detached_state_keeps_the_graph_small(snippet):
    sizes = snippet.after("graph-grows").sizes

    assert len({*sizes[True]}) == 1
    assert sizes[False] == sorted({*sizes[False]})


CELLS = {
    "a GRU cell": nn.GRUCell(3, 3),
    "an RNN cell": nn.RNNCell(3, 3),
}


@each("cell", CELLS)
def test_a_detached_state_keeps_the_graph_small__also_for(snippet, cell):
    size_of_graph = snippet.after("graph-grows").size_of_graph
    kept, state, carried = [], torch.zeros(1, 3), torch.zeros(1, 3)
    grown = []
    for _ in range(4):
        state = cell(torch.ones(1, 3), state.detach())
        carried = cell(torch.ones(1, 3), carried)
        kept.append(size_of_graph(state))
        grown.append(size_of_graph(carried))

    assert len({*kept}) == 1
    assert grown == sorted({*grown})


def test_a_detached_state_keeps_the_graph_small__but_not_cloned(
    snippet, fails
):
    """A clone keeps the graph of the steps before."""
    edited = snippet.edit("state.detach()", "state.clone()")
    fails(test_a_detached_state_keeps_the_graph_small, edited)


class Differs(nn.Module):
    """A layer that gives something else in another dtype."""

    def forward(self, x):
        """Return twice the input on the other device."""
        return x if x.dtype == torch.float32 else 2 * x


class Between(nn.Module):
    """A layer after an operation that gives something else there."""

    def __init__(self):
        """Make the layer, which does nothing."""
        super().__init__()
        self.layer = nn.Identity()

    def forward(self, x):
        """Compute before the layer, as `Differs` does."""
        return self.layer(Differs.forward(self, x))


def first_off(program, *layers):
    """Return the first layer that is off by more than a tenth."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 8), *layers, nn.Linear(8, 2))
    off = program.compare(model, program.inputs, torch.bfloat16)
    return next((name for name, share in off.items() if share > 0.1), None)


@pytest.mark.simulates("another device")
def test_the_first_large_number_is_the_layer(snippet, differs=Differs):
    program = snippet.after("compare")

    assert first_off(program) is None
    assert first_off(program, nn.Dropout(), differs(), nn.Tanh()) == "2"


@pytest.mark.simulates("another device")
@pytest.mark.parametrize("place", [1, 2, 3], ids="layer {}".format)
def test_the_first_large_number_is_the_layer__also_at(snippet, place):
    layers = [nn.Tanh(), nn.LayerNorm(8), nn.GELU()]
    layers.insert(place - 1, Differs())

    assert first_off(snippet.after("compare"), *layers) == str(place)


@pytest.mark.simulates("another device")
def test_the_first_large_number_is_the_layer__also_beside_a_shared(snippet):
    shared = nn.Tanh()

    assert (
        first_off(snippet.after("compare"), shared, Differs(), shared) == "2"
    )


class Recurrent(nn.Module):
    """A model of which a layer returns a tuple."""

    def __init__(self):
        """Make the layers."""
        super().__init__()
        self.lstm = nn.LSTM(20, 8)
        self.differs = Differs()

    def forward(self, x):
        """Hand on the first of the two."""
        return self.differs(self.lstm(x)[0])


@pytest.mark.simulates("another device")
def test_the_first_large_number_is_the_layer__also_behind_an_lstm(snippet):
    program = snippet.after("compare")
    torch.manual_seed(0)

    off = program.compare(Recurrent(), program.inputs, torch.bfloat16)
    assert [*off] == ["lstm", "differs"]
    assert off["lstm"] < 0.1 < off["differs"]


@pytest.mark.simulates("another device")
def test_the_first_large_number_is_the_layer__ends_between(snippet, fails):
    """What `forward` computes between two layers shows in the next one."""
    fails(test_the_first_large_number_is_the_layer, snippet, Between)


@pytest.mark.simulates("another device")
def test_the_first_large_number_is_the_layer__but_not_in_training(
    snippet, fails
):
    """Without `eval()`, dropout draws anew, and differs before it."""
    edited = snippet.edit("(model).eval().to(there)", "(model).to(there)")
    fails(test_the_first_large_number_is_the_layer, edited)
