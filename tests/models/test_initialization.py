"""The claims of docs/models/initialization.md."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after, printed

PLAIN, SMALL, LARGE, KAIMING = "PyTorch's", "0.02", "0.5", "Kaiming's"
HIDDEN = "(nn.Linear(64, 64), norm(64), nn.ReLU())"
ADAM = "torch.optim.Adam(model.parameters(), lr=0.001)"


def run_of(snippet, *names):
    """Run some cells and, before them, those that define what they use."""
    define = ("digits", "initialize", "by-hand", "measures")
    return after(snippet, *(n for n in define if n not in names), *names)


def nested():
    """Return layers at several depths, one of them used twice."""
    inner = nn.ModuleList([nn.Linear(8, 8), nn.ReLU()])
    shared = nn.Conv2d(3, 2, 3)
    return nn.Sequential(nn.Sequential(inner, shared), shared, nn.Linear(8, 2))


def in_a_list():
    """Return a model with a layer that it does not register."""
    model = nn.Linear(8, 8)
    model.others = [nn.Linear(8, 8)]
    model.modules = lambda: [model, *model.others]
    return model


LINEAR = {
    "100 inputs": (lambda: nn.Linear(100, 900), 100),
    "400 inputs": (lambda: nn.Linear(400, 300, bias=False), 400),
    "a 3x3 kernel": (lambda: nn.Conv2d(16, 300, 3), 16 * 9),
    "groups": (lambda: nn.Conv2d(40, 800, 3, groups=4), 10 * 9),
    "float64": (lambda: nn.Linear(100, 900, dtype=torch.float64), 100),
    "bfloat16": (lambda: nn.Linear(100, 900, dtype=torch.bfloat16), 100),
}
ENDS = {
    "Conv1d": (lambda: nn.Conv1d(30, 400, 5), 150),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(50, 50, 3), 450),
    "Embedding": (lambda: nn.Embedding(500, 100), 100),
}
NORMED = {"weight_norm": (lambda: weight_norm(nn.Linear(100, 900)), 100)}


def test_kaiming_draws_with_two_over_n(
    snippet, name="100 inputs", make_model=None
):
    run = run_of(snippet, "initialize")
    make, count = {**LINEAR, **ENDS, **NORMED}[name]
    torch.manual_seed(0)
    layer = make().requires_grad_(False)
    squares = []
    for _ in range(40):  # together, they tell √2 from 1 % less
        run.initialize(layer)
        squares.append(layer.weight.double().square().mean().item())

    weight, expected = layer.weight.double(), math.sqrt(2 / count)
    assert weight[0].numel() == count
    assert weight.mean().item() == pytest.approx(0, abs=0.03 * expected)
    assert weight.std().item() == pytest.approx(expected, rel=0.03)
    # A normal distribution has 4.55 % beyond two deviations, a uniform one 0.
    beyond = (weight.abs() > 2 * expected).double().mean().item()
    assert beyond == pytest.approx(0.0455, abs=0.01)
    assert getattr(layer, "bias", None) is None or not layer.bias.any()
    mean_square = sum(squares) / len(squares)
    assert math.sqrt(mean_square) == pytest.approx(expected, rel=0.01)
    models = [run.model, (make_model or nested)().apply(run.initialize)]
    for model in models:
        for each in model.modules():
            if isinstance(each, nn.Linear | nn.Conv2d):
                assert not each.bias.any()


@pytest.mark.parametrize("name", LINEAR)
def test_kaiming_draws_with_two_over_n__also_for(snippet, name):
    test_kaiming_draws_with_two_over_n(snippet, name)


@pytest.mark.parametrize("name", ENDS)
def test_kaiming_draws_with_two_over_n__ends_for_a(snippet, name, fails):
    """`initialize` leaves `Conv1d`, `ConvTranspose2d` and `Embedding` as
    PyTorch drew them.
    """
    fails(test_kaiming_draws_with_two_over_n, snippet, name)


def test_kaiming_draws_with_two_over_n__ends_with_weight_norm(snippet, fails):
    """With `weight_norm`, `weight` is computed anew at each use, so the drawn
    numbers are lost.
    """
    fails(test_kaiming_draws_with_two_over_n, snippet, "weight_norm")


def test_kaiming_draws_with_two_over_n__ends_in_a_list(snippet, fails):
    """`apply` does not find layers in a plain list."""
    options = ("100 inputs", in_a_list)
    fails(test_kaiming_draws_with_two_over_n, snippet, *options)


RELU = 'layer.weight, nonlinearity="relu")'


@edits(
    ("for no ReLU", RELU, "layer.weight, a=1)"),
    ("of the outputs", RELU, 'layer.weight, mode="fan_out")'),
    ("uniform", f"kaiming_normal_({RELU}", f"kaiming_uniform_({RELU}"),
    ("without apply", "model.apply(initialize)", "initialize(model)"),
)
def test_kaiming_draws_with_two_over_n__but_not(snippet, old, new, fails):
    """`a=1` gives √(1/n), `fan_out` counts the outputs, `kaiming_uniform_`
    draws from another distribution, and a model is no `Linear`.
    """
    fails(test_kaiming_draws_with_two_over_n, snippet.edit(old, new))


def test_only_kaiming_learns_here(snippet, seed=None):
    run = run_of(snippet, *(["losses"] if seed is None else []))
    if seed is None:
        losses = run.losses
    else:
        model = run.deep(seed=seed).apply(run.initialize)
        losses = {PLAIN: run.train(run.deep(seed=seed))}
        losses[KAIMING] = run.train(model)

    assert [len(each) for each in losses.values()] == [30, 30]
    assert losses[KAIMING][-1] < 1
    assert min(losses[PLAIN]) > 2.30
    assert max(losses[PLAIN]) < 2.31
    assert math.log(10) == pytest.approx(2.30, abs=0.005)


@pytest.mark.parametrize("seed", [2, 3])
def test_only_kaiming_learns_here__also_with_seed(snippet, seed):
    test_only_kaiming_learns_here(snippet, seed)


def test_only_kaiming_learns_here__also_for_long(snippet):
    run = run_of(snippet)
    losses = run.train(run.deep(), 100)
    counts = run.labels.bincount() / 300
    frequencies = -(counts * counts.log()).sum().item()
    assert losses[-1] == pytest.approx(frequencies, abs=1e-3)


@edits(
    ("with 1 over n", 'nonlinearity="relu")', "a=1)"),
    ("with smaller steps", "lr=0.001", "lr=0.00001"),
    ("in three steps", "steps=30", "steps=3"),
)
def test_only_kaiming_learns_here__but_not(snippet, old, new, fails):
    """With half the variance, smaller steps or three steps, the loss stays
    above 1.
    """
    fails(test_only_kaiming_learns_here, snippet.edit(old, new))


def test_only_kaiming_learns_here__but_not_with_a_norm(snippet, fails):
    """With `BatchNorm1d`, the model learns from PyTorch's own weights."""
    edited = snippet.edit("norm=nn.Identity", "norm=nn.BatchNorm1d")
    run = run_of(edited)
    assert run.train(run.deep())[-1] < 1
    fails(test_only_kaiming_learns_here, edited)


def test_only_kaiming_learns_here__but_not_in_four_layers(snippet, fails):
    """In four layers, the loss falls from PyTorch's own weights, too."""
    edited = snippet.edit("deep(count=20", "deep(count=4")
    run = run_of(edited)
    losses = run.train(run.deep(), 75)
    assert losses[29] < 2.1
    assert losses[-1] < 1
    fails(test_only_kaiming_learns_here, edited)


def drawn(draw, layer, seed):
    """Return what a function draws into a copy of a layer."""
    layer = copy.deepcopy(layer)
    torch.manual_seed(seed)
    with no_error():
        draw(layer)
    return {n: p.detach().clone() for n, p in layer.named_parameters()}


LAYERS = {
    "Linear": lambda: nn.Linear(64, 10),
    "one input": lambda: nn.Linear(1, 5),
    "one output": lambda: nn.Linear(784, 1),
    "bfloat16": lambda: nn.Linear(100, 7, dtype=torch.bfloat16),
    "float16": lambda: nn.Linear(100, 7, dtype=torch.float16),
    "Conv2d": lambda: nn.Conv2d(3, 8, 5),
    "groups": lambda: nn.Conv2d(4, 8, (3, 1), groups=2),
    "Conv1d": lambda: nn.Conv1d(3, 8, 5),
    "Conv3d": lambda: nn.Conv3d(3, 8, 2),
    "every third size": lambda: [nn.Linear(n, 3) for n in range(2, 200, 3)],
}


def test_these_lines_draw_the_same_numbers(snippet, layer=None):
    run = run_of(snippet)
    layers = [LAYERS["Linear"](), LAYERS["Conv2d"]()]
    if layer is not None:
        layers = layer if isinstance(layer, list) else [layer]
    for each in layers:
        pairs = [(type(each).reset_parameters, run.default)]
        if isinstance(each, nn.Linear | nn.Conv2d):
            pairs.append((run.initialize, run.kaiming))
        for theirs, ours in pairs:
            for seed in (0, 1):
                expected, found = (
                    drawn(draw, each, seed) for draw in (theirs, ours)
                )
                assert found.keys() == expected.keys()
                for name, values in found.items():
                    assert values.tolist() == expected[name].tolist()
    torch.manual_seed(3)
    new = nn.Linear(64, 10)
    mine = drawn(run.default, new, 3)
    assert mine["weight"].equal(new.weight)


@pytest.mark.parametrize("name", LAYERS)
def test_these_lines_draw_the_same_numbers__also_for(snippet, name):
    test_these_lines_draw_the_same_numbers(snippet, LAYERS[name]())


def test_these_lines_draw_the_same_numbers__also_as_compared(snippet):
    run = run_of(snippet, "compare")
    layer = nn.Linear(64, 10)
    assert run.same(layer, nn.Linear.reset_parameters, run.default)
    assert not run.same(layer, run.initialize, run.default)


def test_these_lines_draw_the_same_numbers__also_with_root_five(snippet):
    layer = nn.Linear(64, 10)
    mine = drawn(run_of(snippet).default, layer, 3)["weight"]
    torch.manual_seed(3)
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5))
    assert layer.weight.equal(mine)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("size", [4, 25])
def test_these_lines_draw_the_same_numbers__also_in_an(kind, size):
    torch.manual_seed(0)
    layer = kind(9, size, 2)
    bound = 1 / size**0.5
    torch.manual_seed(0)
    for each in layer.parameters():
        assert torch.empty_like(each).uniform_(-bound, bound).equal(each)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("options", [{"bias": False}, {"in_features": 0}])
def test_these_lines_draw_the_same_numbers__ends_for(snippet, options, fails):
    """Our lines raise an error without a bias, and without inputs."""
    layer = nn.Linear(**{"in_features": 64, "out_features": 9, **options})
    fails(test_these_lines_draw_the_same_numbers, snippet, layer)


def test_these_lines_draw_the_same_numbers__ends_in_float64(snippet, fails):
    """In `float64`, the last digit may differ."""
    layer, run = nn.Linear(75, 9, dtype=torch.float64), run_of(snippet)
    found, expected = (
        drawn(draw, layer, 0) for draw in (run.kaiming, run.initialize)
    )
    torch.testing.assert_close(found, expected, rtol=1e-15, atol=1e-15)
    fails(test_these_lines_draw_the_same_numbers, snippet, layer)


@edits(
    ("1: the outputs", "layer.weight[0].numel()  # 1", "len(layer.weight)"),
    ("2: Xavier's bound", "1 / n**0.5  # 2", "(6 / 128) ** 0.5"),
    ("3: a normal one", "uniform_(-bound, bound)  # 3", "normal_(0, bound)"),
    ("4: without the 2", "(2 / n) ** 0.5)  # 4", "(1 / n) ** 0.5)"),
)
def test_these_lines_draw_the_same_numbers__but_not(snippet, old, new, fails):
    """Count the outputs, take Xavier's bound, draw from a normal distribution
    or leave out the 2, and the numbers differ.
    """
    fails(test_these_lines_draw_the_same_numbers, snippet.edit(old, new))


def mean_factor(make, count, inputs=None, draws=150):
    """Return how often as large layers with ReLU make a mean square."""
    torch.manual_seed(0)
    inputs = torch.rand(4, count) + 0.2 if inputs is None else inputs
    with torch.no_grad():
        found = [make()(inputs).relu().square().mean() for _ in range(draws)]
    return (torch.stack(found).mean() / inputs.square().mean()).item()


def with_bias(std):
    """Return what makes a layer with weights and biases of a deviation."""

    def make():
        layer = nn.Linear(100, 300)
        nn.init.normal_(layer.weight, std=std)
        nn.init.normal_(layer.bias, std=std)
        return layer

    return make


def uniform():
    """Return a layer of 100 inputs with weights between -0.5 and 0.5."""
    layer = nn.Linear(100, 300, bias=False)
    nn.init.uniform_(layer.weight, -0.5, 0.5)
    return layer


DRAWS = {
    "with biases": (with_bias(0.1), 100, 0.1, 0.1),
    "with large weights": (with_bias(0.5), 100, 0.5, 0.5),
    "uniform": (uniform, 100, 0.5 / 3**0.5, 0.0),
    "of one input": (lambda: nn.Linear(1, 99), 1, 3**-0.5, 3**-0.5),
}


def test_a_layer_multiplies_by_half_n_s_squared(
    snippet, block=None, inputs=None
):
    run = run_of(snippet)
    images = run.images if inputs is None else inputs
    square = images.square().mean().item()
    count = images.shape[1]

    def ours():
        layer = nn.Linear(count, 64)
        run.kaiming(layer)
        return nn.Sequential(layer, block) if block else layer

    found = mean_factor(ours, count, images)
    assert found == pytest.approx(1, rel=0.05)
    expected = run.after(square, count, math.sqrt(2 / count)) / square
    assert expected == pytest.approx(1)
    assert run.after(square, 64, 0.5) == pytest.approx(8 * square)
    found = mean_factor(lambda: nn.Linear(count, 64), count, images)
    std = 1 / math.sqrt(3 * count)
    expected = run.after(square, count, std, std) / square
    assert found == pytest.approx(expected, rel=0.05)
    assert run.after(square, 64, std) == pytest.approx(square * 32 * std**2)


@pytest.mark.parametrize("name", DRAWS)
def test_a_layer_multiplies_by_half_n_s_squared__also_for(snippet, name):
    make, count, std, bias_std = DRAWS[name]
    torch.manual_seed(0)
    inputs = torch.rand(4, count) + 0.2
    square = inputs.square().mean().item()
    predicted = run_of(snippet).after(square, count, std, bias_std) / square
    found = mean_factor(make, count, inputs, 600)
    assert found == pytest.approx(predicted, rel=0.05)


@pytest.mark.parametrize(
    "block", [nn.Tanh(), nn.Dropout()], ids=["Tanh", "Dropout"]
)
def test_a_layer_multiplies_by_half_n_s_squared__ends_with(
    snippet, block, fails
):
    """`Tanh` makes large numbers small, and `Dropout` makes the mean square
    twice as large.
    """
    fails(test_a_layer_multiplies_by_half_n_s_squared, snippet, block)


@edits(
    ("without ReLU's half", "bias_std**2) / 2", "bias_std**2)"),
    ("one s", "(n * std**2 * square", "(n * std * square"),
    ("around 0.1", "normal_(0, (2", "normal_(0.1, (2"),
    ("without the biases", "square + bias_std**2)", "square)"),
)
def test_a_layer_multiplies_by_half_n_s_squared__but_not(
    snippet, old, new, fails
):
    """Without a part of line 5, or around another mean, the two differ."""
    fails(test_a_layer_multiplies_by_half_n_s_squared, snippet.edit(old, new))


def measured_anew(run, model):
    """Return size and spread after each hidden layer, by a loop of ours."""
    numbers, sizes, spreads = run.images, [], []
    for layer in model[:-1]:
        linear = layer[0]
        numbers = F.relu(F.linear(numbers, linear.weight, linear.bias))
        numbers = layer[1](numbers).detach()
        sizes.append(numbers.double().norm().item() / math.sqrt(300 * 64))
        centered = numbers.double() - numbers.double().mean(dim=0)
        variances = centered.square().sum(dim=0).div(299)
        spreads.append(variances.sqrt().mean().item())
    return sizes, spreads


def test_one_line_foresees_twenty_layers(snippet, seed=None):
    run = run_of(snippet, "predicted")
    assert list(run.sizes) == [PLAIN, SMALL, LARGE, KAIMING]
    for name, predicted in run.predicted.items():
        sizes = run.sizes[name]
        if seed:
            sizes, _ = run.measured(run.started(name, seed))
        anew, _ = measured_anew(run, run.started(name, seed or 1))
        assert len(sizes) == 20
        assert sizes == pytest.approx(anew, rel=1e-3)
        assert 0.1 < sizes[-1] / predicted < 10
    found = [run.predicted[each] for each in (PLAIN, LARGE, KAIMING)]
    assert found[0] == pytest.approx(math.sqrt(1 / 320), rel=0.01)
    assert found[1] == pytest.approx(0.49 * 8**10, rel=0.01)
    assert found[2] == pytest.approx(0.49, rel=0.01)


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_one_line_foresees_twenty_layers__also_with_seed(snippet, seed):
    test_one_line_foresees_twenty_layers(snippet, seed)


@edits(
    ("without ReLU", HIDDEN, HIDDEN.replace("ReLU", "Identity")),
    ("with Tanh", HIDDEN, HIDDEN.replace("ReLU", "Tanh")),
    ("with BatchNorm", "norm=nn.Identity", "norm=nn.BatchNorm1d"),
    ("without line 5's half", "bias_std**2) / 2", "bias_std**2)"),
)
def test_one_line_foresees_twenty_layers__but_not(snippet, old, new, fails):
    """Line 5 is about a `Linear` and a ReLU, and halves once per layer."""
    fails(test_one_line_foresees_twenty_layers, snippet.edit(old, new))


def test_small_weights_lose_the_picture(snippet, seed=None):
    run = run_of(snippet, "predicted")
    for name in (PLAIN, SMALL):
        model = run.started(name, seed or 1)
        spreads = run.measured(model)[1] if seed else run.spreads[name]
        _, anew = measured_anew(run, model)
        assert spreads[:5] == pytest.approx(anew[:5], rel=1e-3)
        assert spreads[-1] < 1e-6
        assert anew[-1] < 1e-6
    first = model[3][0].weight.std().item()
    assert first == pytest.approx(0.02, rel=0.1)
    assert run.sizes[PLAIN][-1] > 0.01
    if not seed:
        assert run.spreads[KAIMING][-1] > 0.01
        assert run.spreads[LARGE][-1] > 1e6


@pytest.mark.parametrize("seed", [2, 3])
def test_small_weights_lose_the_picture__also_with_seed(snippet, seed):
    test_small_weights_lose_the_picture(snippet, seed)


@edits(
    ("in four layers", "deep(count=20", "deep(count=4"),
    ("with BatchNorm", "norm=nn.Identity", "norm=nn.BatchNorm1d"),
    ("with 0.2", '"0.02": (0.02,', '"0.02": (0.2,'),
)
def test_small_weights_lose_the_picture__but_not(snippet, old, new, fails):
    """In four layers, with a norm, or with a deviation of 0.2, the pictures
    still differ.
    """
    fails(test_small_weights_lose_the_picture, snippet.edit(old, new))


def test_gradients_come_back_through_the_weights(snippet, more=None):
    run = run_of(snippet, "initialize")
    linears = [run.model[0][0], run.model[-1], more or nn.Linear(5, 30)]
    torch.manual_seed(0)
    for linear in linears:
        weight = linear.weight.detach()
        numbers = torch.randn(9, linear.in_features, requires_grad=True)
        output = linear(numbers.to(weight.dtype))
        arrived = torch.randn_like(output)
        [back] = torch.autograd.grad(output, numbers, arrived)
        expected = (arrived @ weight).float()
        torch.testing.assert_close(back, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "more",
    [nn.Linear(5, 3, bias=False), nn.Linear(1, 1), nn.Linear(5, 3).double()],
    ids=["without bias", "of one number", "in float64"],
)
def test_gradients_come_back_through_the_weights__also(snippet, more):
    test_gradients_come_back_through_the_weights(snippet, more)


@pytest.mark.parametrize(("n", "outputs"), [(64, 64), (30, 200)])
def test_gradients_come_back_through_the_weights__also_by_line_5(
    snippet, n, outputs
):
    torch.manual_seed(0)
    squares = []
    for _ in range(400):
        layer = nn.Linear(n, outputs)
        inputs = torch.randn(20, n, requires_grad=True)
        output = layer(inputs).relu()
        output.backward(torch.randn_like(output))
        squares.append(inputs.grad.square().mean())
    expected = run_of(snippet).after(1.0, outputs, 1 / math.sqrt(3 * n))
    found = torch.stack(squares).mean().item()
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    "change",
    ["2 * back[0]", "back[0].clamp(-0.1, 0.1)", "torch.zeros_like(back[0])"],
    ids=["if doubled", "if clipped", "if stopped"],
)
def test_gradients_come_back_through_the_weights__but_not(
    snippet, change, fails
):
    """A hook that doubles, clips or stops the gradient changes what comes
    back.
    """
    hook = "model[0][0].register_full_backward_hook"
    old = "model.apply(initialize)\n"
    new = f"{old}{hook}(lambda layer, back, _: ({change},))\n"
    fails(test_gradients_come_back_through_the_weights, snippet.edit(old, new))


def test_the_first_layer_hears_nothing(snippet, seed=None):
    run = run_of(snippet, "backward")
    shares = {}
    for name in (PLAIN, KAIMING):
        model = run.started(name, seed or 1)
        found = run.gradients(model) if seed else run.backward[name]
        assert len(found) == 20
        shares[name] = found[0] / found[-1]
    assert shares[PLAIN] < 1e-3
    assert shares[KAIMING] > 1 / 20
    model.zero_grad()
    F.cross_entropy(model(run.images), run.labels).backward()
    expected = [model[at][0].weight.grad.norm().item() for at in (0, 19)]
    assert [found[0], found[-1]] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("seed", [2, 3])
def test_the_first_layer_hears_nothing__also_with_seed(snippet, seed):
    test_the_first_layer_hears_nothing(snippet, seed)


@edits(
    ("with BatchNorm", "norm=nn.Identity", "norm=nn.BatchNorm1d"),
    ("in four layers", "deep(count=20", "deep(count=4"),
    ("without Kaiming", 'name != "PyTorch\'s"', "not name"),
)
def test_the_first_layer_hears_nothing__but_not(snippet, old, new, fails):
    """A norm or four layers help; without Kaiming, the share is as small."""
    fails(test_the_first_layer_hears_nothing, snippet.edit(old, new))


def test_embedding_draws_with_deviation_one(snippet, shape=(900, 30)):
    page = run_of(snippet, "defaults").layers[3]
    torch.manual_seed(0)
    padded = nn.Embedding(*shape, padding_idx=3)
    for table, row in ((page.weight, 0), (padded.weight, 3)):
        assert not table[row].any()
        weight = table[torch.arange(len(table)) != row]
        assert weight.mean().item() == pytest.approx(0, abs=0.05)
        assert weight.std().item() == pytest.approx(1, rel=0.05)
        assert weight.any(dim=1).all()
        beyond = (weight.abs() > 2).double().mean().item()
        assert beyond == pytest.approx(0.0455, abs=0.01)
    assert nn.Embedding(*shape).weight.any(dim=1).all()


def test_embedding_draws_with_deviation_one__also_with_few_long_rows(snippet):
    test_embedding_draws_with_deviation_one(snippet, (20, 3000))


LOOP = "for layer in layers:\n    print"


@pytest.mark.parametrize(
    "change",
    [
        "nn.init.normal_(layers[3].weight, std=0.02)",
        "nn.init.normal_(layers[3].weight)",
        "nn.init.uniform_(layers[3].weight.data[1:], -1.7, 1.7)",
    ],
    ids=["with 0.02", "without padding", "uniform"],
)
def test_embedding_draws_with_deviation_one__but_not(snippet, change, fails):
    """Drawn with a smaller deviation, over the padding, or from a uniform
    distribution, it is no longer as `Embedding` draws it.
    """
    edited = snippet.edit(LOOP, f"{change}\n{LOOP}")
    fails(test_embedding_draws_with_deviation_one, edited)


def test_embedding_draws_with_deviation_one__also_with_norms():
    norms = nn.BatchNorm1d(9), nn.BatchNorm2d(3), nn.LayerNorm((2, 5))
    for layer in (*norms, nn.GroupNorm(2, 4)):
        assert layer.weight.equal(torch.ones_like(layer.weight))
        assert layer.bias.equal(torch.zeros_like(layer.bias))


def test_zero_weights_stay_zero(snippet, depth=None, bias=0.0):
    run = run_of(snippet, "zeros")
    model, losses = run.zeros, run.stuck
    if depth is not None:
        model = run.deep(depth)
        for parameter in model.parameters():
            nn.init.constant_(parameter, bias if parameter.ndim == 1 else 0)
        losses = run.train(model)

    weights = [each for each in model.parameters() if each.ndim == 2]
    assert [each.any().item() for each in weights] == [False] * len(weights)
    assert len(losses) == 30
    assert all(each.grad is not None for each in weights)
    assert model[-1].bias.any()


@pytest.mark.parametrize("depth", [1, 3])
def test_zero_weights_stay_zero__also_for(snippet, depth):
    test_zero_weights_stay_zero(snippet, depth)


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_zero_weights_stay_zero__also_with(snippet, optimizer):
    new = f"torch.optim.{optimizer}(model.parameters(), lr=0.1)"
    test_zero_weights_stay_zero(snippet.edit(ADAM, new))


@edits(
    ("from ones", "nn.init.zeros_(parameter)", "nn.init.ones_(parameter)"),
    ("in the last layer alone", "zeros.parameters()", "zeros[2].parameters()"),
)
def test_zero_weights_stay_zero__but_not(snippet, old, new, fails):
    """From ones, or with zeros in the last layer alone, the weights move."""
    fails(test_zero_weights_stay_zero, snippet.edit(old, new))


@pytest.mark.parametrize(
    ("depth", "bias"),
    [(1, 0.1), (0, 0.0)],
    ids=["with other biases", "of a single layer"],
)
def test_zero_weights_stay_zero__ends_in_a_model(snippet, depth, bias, fails):
    """With biases that are not zero, or in a model of a single layer, the
    weights move.
    """
    fails(test_zero_weights_stay_zero, snippet, depth, bias)


def test_equal_units_stay_equal(snippet, count=None):
    model = run_of(snippet, "equal-units").equal
    if count:
        run = run_of(snippet)
        model = run.deep(1)
        with torch.no_grad():
            model[0][0].weight[:count] = torch.rand(64) / 10
            model[0][0].bias[:count] = 0.1
            model[1].weight[:, :count] = torch.rand(10, 1)
        run.train(model)

    count = count or 64
    rows = model[0][0].weight[:count], model[0][0].bias[:count]
    for units in (*rows, model[1].weight.T[:count]):
        torch.testing.assert_close(units, units[:1].expand_as(units))
    assert model[0][0].weight[0].std() > 0
    assert model[0][0].weight.grad.any()


@pytest.mark.parametrize("count", [2, 64])
def test_equal_units_stay_equal__also_among(snippet, count):
    test_equal_units_stay_equal(snippet, count)


@edits(
    ("weights in", "nn.init.constant_(equal[0][0].weight, 0.01)\n", ""),
    ("biases", "nn.init.zeros_(equal[0][0].bias)\n", ""),
    ("weights out", "nn.init.constant_(equal[1].weight, 0.1)\n", ""),
)
def test_equal_units_stay_equal__but_not_with_other(snippet, old, new, fails):
    """Different weights in, biases or weights out tell the units apart."""
    fails(test_equal_units_stay_equal, snippet.edit(old, new))


def test_equal_units_stay_equal__ends_with_dropout(snippet, fails):
    """With `Dropout`, units are dropped at random, so they get different
    gradients.
    """
    edited = snippet.edit(
        "equal = deep(1)", "equal = deep(1, norm=nn.Dropout)"
    )
    edited = edited.edit("norm(64)", "norm(0.5)")
    fails(test_equal_units_stay_equal, edited)


def first_loss(run, model):
    """Return the loss of a model with residual connections."""
    numbers = run.images
    for block in model[:-1]:
        numbers = numbers + block[0](numbers).relu()
    return F.cross_entropy(model[-1](numbers), run.labels).item()


def test_initialize_spoils_residuals(snippet, seed=1):
    run = run_of(snippet, "residual")
    model = run.deep(seed=seed, block=run.Residual)
    drawn = first_loss(run, model)
    spoiled = first_loss(run, model.apply(run.initialize))

    assert spoiled > 100 * drawn > 0
    if seed == 1:
        assert run.spoiled[0] > 100 * run.kept[0]
        assert run.kept[0] == pytest.approx(drawn, rel=1e-3)
        assert run.kept[-1] < 2.3 < run.spoiled[-1]


@pytest.mark.parametrize("seed", [2, 3])
def test_initialize_spoils_residuals__also_with(snippet, seed):
    test_initialize_spoils_residuals(snippet, seed)


@edits(
    ("without the connection", "return x + super()", "return super()"),
    ("without apply", ".apply(initialize))  # wrong", ")  # wrong"),
    ("in four layers", "deep(count=20", "deep(count=4"),
)
def test_initialize_spoils_residuals__but_not(snippet, old, new, fails):
    """Without the connection, in four layers, or without `initialize`, the
    loss starts far lower.
    """
    fails(test_initialize_spoils_residuals, snippet.edit(old, new))


FEWER = (
    "Fan in and fan out can not be computed for tensor with fewer than"
    " 2 dimensions"
)


def test_a_bias_has_no_fan_in(snippet, function="kaiming_normal_"):
    snippet.only("digits", "fan-in").after("fan-in")
    assert printed[-1]["fan-in"].splitlines() == [FEWER]
    for each in nn.Conv2d(3, 2, 3).bias, nn.BatchNorm2d(3).weight:
        with pytest.raises(ValueError, match=FEWER):
            getattr(nn.init, function)(each)


@pytest.mark.parametrize(
    "function", ["kaiming_uniform_", "xavier_normal_", "xavier_uniform_"]
)
def test_a_bias_has_no_fan_in__also_for(snippet, function):
    test_a_bias_has_no_fan_in(snippet, function)


@edits(
    ("with normal", "kaiming_normal_(model", "normal_(model"),
    ("for the weight", "[0][0].bias)\nex", "[0][0].weight)\nex"),
)
def test_a_bias_has_no_fan_in__but_not(snippet, old, new, fails):
    """`normal_` needs no fan in, and a weight has one, so neither raises."""
    fails(test_a_bias_has_no_fan_in, snippet.edit(old, new))


def test_gradients_arrive_as_drawn(snippet, seed=None):
    run = run_of(snippet, "residual", "arrived")
    arrived = dict(run.arrived)
    if seed:
        norms = {"BatchNorm": nn.BatchNorm1d, "LayerNorm": nn.LayerNorm}
        models = {n: run.deep(20, seed, norm=norms[n]) for n in norms}
        models["four layers"] = run.deep(4, seed)
        models["residual"] = run.deep(20, seed, run.Residual)
        arrived = {name: run.gradients(models[name]) for name in run.arrived}

    counts = {name: len(each) for name, each in arrived.items()}
    twenty = {"BatchNorm": 20, "LayerNorm": 20, "residual": 20}
    assert counts == {"four layers": 4, **twenty}
    shares = {name: each[0] / each[-1] for name, each in arrived.items()}
    assert min(shares.values()) > 1 / 100


@pytest.mark.parametrize("seed", [2, 3])
def test_gradients_arrive_as_drawn__also_with_seed(snippet, seed):
    test_gradients_arrive_as_drawn(snippet, seed)


def test_gradients_arrive_as_drawn__also_where_the_loss_falls(snippet):
    run = run_of(snippet, "residual")
    for block, norm in (
        (nn.Sequential, nn.BatchNorm1d),
        (nn.Sequential, nn.LayerNorm),
        (run.Residual, nn.Identity),
    ):
        losses = run.train(run.deep(20, 2, block, norm))
        assert losses[-1] < 1.9


@edits(
    ("without a norm", "norm=nn.BatchNorm1d)),", "norm=nn.Identity)),"),
    ("without a connection", "return x + super()", "return super()"),
    ("in twenty layers", "gradients(deep(4))", "gradients(deep(20))"),
)
def test_gradients_arrive_as_drawn__but_not(snippet, old, new, fails):
    """Twenty layers need a norm or a residual connection."""
    fails(test_gradients_arrive_as_drawn, snippet.edit(old, new))
