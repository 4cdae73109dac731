"""The claims of docs/models/initialization.md."""

import math
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import no_error

PLAIN, SMALL, LARGE, KAIMING = (
    "as PyTorch does it",
    "deviation 0.02",
    "deviation 0.5",
    "Kaiming",
)
# The seed of the page, and those of the variations.
OWN, OTHERS = (1,), (0, 2)


# The cells that define what later ones use.
DEFINE = {"pictures", "initialize", "deviations", "started", "differences"}
DEFINE |= {"gradients", "train", "helped"}


def up_to(snippet, *names):
    """Run some cells, and before them only those that they may need."""
    cells = [cell for cell in snippet.cells() if cell in {*DEFINE, *names}]
    return snippet.only(*cells).after(names[-1])


def nested():
    inner = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])
    return nn.Sequential(nn.Sequential(inner, nn.Conv1d(1, 1, 1)), nn.GELU())


def shared():
    layer = nn.Linear(2, 2)
    return nn.Sequential(layer, nn.Sequential(layer, nn.BatchNorm1d(2)))


def in_a_list():
    """Return a model with a layer that it does not register."""
    model = nn.Linear(2, 2)
    model.others = [nn.Linear(2, 2)]
    model.modules = lambda: [model, *model.others]
    return model


def for_children_alone():
    """Return a model whose apply leaves the model itself out."""
    model = nested()
    model.apply = lambda f: [each.apply(f) for each in model]
    return model


def test_apply_reaches_every_layer(snippet, make=None):
    run = up_to(snippet, "do-this")
    model = make() if make else run.model
    called = []

    model.apply(called.append)

    assert set(called) == set(model.modules())
    assert model in called
    if not make:
        for layer in run.model.modules():
            if isinstance(layer, nn.Linear):
                assert not layer.bias.any()
        assert run.first_loss == pytest.approx(
            F.cross_entropy(run.model(run.pictures), run.classes).item(),
            rel=1e-3,
        )


@pytest.mark.parametrize("make", [nested, shared, nn.ReLU])
def test_apply_reaches_every_layer__also_for(snippet, make):
    test_apply_reaches_every_layer(snippet, make)


@pytest.mark.parametrize(
    "new",
    [
        "model[:5].apply(initialize)",
        "initialize(model)",
        "[initialize(layer) for layer in model.children()]",
    ],
    ids=["for five layers", "without apply", "for the outer layers alone"],
)
def test_apply_reaches_every_layer__but_not(snippet, new, fails):
    """Layers that are not reached keep the weights that PyTorch drew."""
    edited = snippet.edit("model.apply(initialize)", new)
    fails(test_apply_reaches_every_layer, edited)


def test_apply_reaches_every_layer__ends_in_a_list(snippet, fails):
    """For layers in a plain list: `apply` does not find them."""
    fails(test_apply_reaches_every_layer, snippet, in_a_list)


def test_apply_reaches_every_layer__but_not_for_the_model_itself(
    snippet, fails
):
    """This function leaves out the model itself."""
    fails(test_apply_reaches_every_layer, snippet, for_children_alone)


LINEAR = {
    "100 inputs": (lambda: nn.Linear(100, 900), 100),
    "400 inputs": (lambda: nn.Linear(400, 300, bias=False), 400),
    "a 3x3 kernel": (lambda: nn.Conv2d(16, 300, 3), 16 * 9),
    "a 1x5 kernel": (lambda: nn.Conv2d(30, 400, (1, 5)), 30 * 5),
    "groups": (lambda: nn.Conv2d(40, 800, 3, groups=4), 10 * 9),
    "float64": (lambda: nn.Linear(100, 900, dtype=torch.float64), 100),
    "bfloat16": (lambda: nn.Linear(100, 900, dtype=torch.bfloat16), 100),
}


def test_kaiming_draws_with_two_over_n(snippet, name="100 inputs"):
    run = up_to(snippet, "initialize")
    make, count = LINEAR[name]
    torch.manual_seed(0)
    layer = make().requires_grad_(False)

    run.initialize(layer)

    weight = layer.weight
    expected = math.sqrt(2 / count)
    assert weight[0].numel() == count
    assert weight.mean().item() == pytest.approx(0, abs=0.03 * expected)
    assert weight.std().item() == pytest.approx(expected, rel=0.03)
    # A normal distribution has 4.55 % beyond two deviations, a uniform one 0.
    beyond = (weight.abs() > 2 * expected).double().mean().item()
    assert beyond == pytest.approx(0.0455, abs=0.01)
    bias = getattr(layer, "bias", None)
    assert bias is None or not bias.any()
    squares = []
    for _ in range(40):  # together, they tell √2 from 1 % less
        run.initialize(layer)
        squares.append(layer.weight.square().mean().item())
    mean_square = sum(squares) / len(squares)
    assert math.sqrt(mean_square) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("name", LINEAR)
def test_kaiming_draws_with_two_over_n__also_for(snippet, name):
    test_kaiming_draws_with_two_over_n(snippet, name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('weight, nonlinearity="relu")\n    ', "weight, a=1)\n    "),
        (
            'weight, nonlinearity="relu")\n    ',
            'weight, mode="fan_out")\n    ',
        ),
        (
            "        if layer.bias",
            "        layer.weight.data.abs_()\n        if layer.bias",
        ),
    ],
    ids=["for no ReLU", "of the outputs", "positive ones"],
)
def test_kaiming_draws_with_two_over_n__but_not(snippet, old, new, fails):
    """`a=1` gives √(1/n), `fan_out` counts the outputs, and the absolute
    values have another mean.
    """
    fails(test_kaiming_draws_with_two_over_n, snippet.edit(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(nn.Linear, nn.Conv2d)", "nn.Linear"),
        (
            'weight, nonlinearity="relu")\n    ',
            'weight, nonlinearity="relu")\n'
            "        if layer.weight.ndim == 4:\n"
            '            nn.init.kaiming_normal_(layer.weight, mode="fan_out")'
            "\n    ",
        ),
    ],
    ids=["left as it was", "drawn by its outputs"],
)
def test_kaiming_draws_with_two_over_n__but_not_for_a_convolution(
    snippet, old, new, fails
):
    """Left out of `isinstance`, or drawn by its outputs, a convolution gets
    another deviation.
    """
    edited = snippet.edit(old, new)
    fails(test_kaiming_draws_with_two_over_n, edited, "a 3x3 kernel")


@pytest.mark.parametrize("name", ["Conv1d", "ConvTranspose2d", "Embedding"])
def test_kaiming_draws_with_two_over_n__ends_for_a(name, snippet, fails):
    """For `Conv1d`, `ConvTranspose2d` and `Embedding`: `initialize` leaves
    them as PyTorch drew them.
    """
    makes = {
        "Conv1d": lambda: nn.Conv1d(30, 400, 5),
        "ConvTranspose2d": lambda: nn.ConvTranspose2d(50, 50, 3),
        "Embedding": lambda: nn.Embedding(500, 100),
    }
    with patch.dict(
        LINEAR, {name: (makes[name], makes[name]().weight[0].numel())}
    ):
        fails(test_kaiming_draws_with_two_over_n, snippet, name)


def test_a_guess_has_the_logarithm(snippet, count=4, raised=0.0):
    """No cell decides it: the loss of equal scores is computed."""
    run = up_to(snippet, "pictures")
    classes = run.classes % count

    for score in (0.0, -3.5, 20.0):
        scores = torch.full((len(classes), count), score)
        scores[:, 0] += raised
        loss = F.cross_entropy(scores, classes).item()
        assert loss == pytest.approx(math.log(count), rel=1e-5)


@pytest.mark.parametrize("count", [2, 3, 10, 1000])
def test_a_guess_has_the_logarithm__also_among(snippet, count):
    test_a_guess_has_the_logarithm(snippet, count)


@pytest.mark.parametrize("raised", [0.5, -1.0])
def test_a_guess_has_the_logarithm__ends_with_a_favorite(
    snippet, raised, fails
):
    """If one of the four scores is raised or lowered: the loss is above log(4)
    = 1.39, here 1.41 and 1.46.
    """
    fails(test_a_guess_has_the_logarithm, snippet, 4, raised)


def test_twenty_factors_multiply(snippet):
    hidden = up_to(snippet, "initialize").twenty_layers()[:-1]
    torch.manual_seed(0)
    numbers = torch.rand(9, 64) + 0.1

    for factor, product in ((0.4, 1e-8), (2, 1e6)):
        with torch.no_grad():
            for linear, _ in hidden:
                linear.weight.copy_(factor * torch.eye(64))
                nn.init.zeros_(linear.bias)
            quotient = hidden(numbers) / numbers
        assert quotient.min().item() == pytest.approx(product, rel=0.1)
        assert quotient.max().item() == pytest.approx(product, rel=0.1)


@pytest.mark.parametrize("count", [19, 21])
def test_twenty_factors_multiply__but_not_other_counts(snippet, count, fails):
    """Nineteen layers multiply once less and twenty-one once more, so the
    result is off by one factor.
    """
    edited = snippet.edit("for _ in range(20)]", f"for _ in range({count})]")
    fails(test_twenty_factors_multiply, edited)


def left(run, name, seeds):
    """Return how much the pictures differ behind the last of the layers.

    For the seed of the page, the page itself has found it.
    """
    if seeds == OWN:
        return [run.forward[name][-1]]
    models = [run.started(run.deviations[name], seed) for seed in seeds]
    return [run.differences(model)[-1] for model in models]


def at_width(snippet, width):
    """Return the program with other pictures and layers."""
    return replace(snippet, text=snippet.text.replace("64", str(width)))


def are_as_measured(run, name):
    """Compare what the page has found with what the test measures."""
    found = measured_anew(run, run.started(run.deviations[name]))
    # What is left is so small that rounding is a part of it.
    assert run.forward[name][-1] == pytest.approx(found, rel=0.5)


def measured_anew(run, model):
    """Return what a loop of the test finds behind the twentieth layer."""
    numbers = run.pictures
    for layer in model[:-1]:
        numbers = F.relu(F.linear(numbers, layer[0].weight, layer[0].bias))
    centred = numbers - numbers.mean(dim=0)
    return centred.square().sum(dim=0).div(99).sqrt().mean().item()


def test_small_weights_lose_the_picture(snippet, seeds=OWN):
    run = up_to(snippet, "forward")

    for name in (PLAIN, SMALL):
        are_as_measured(run, name)
        assert max(left(run, name, seeds)) < 1e-6
    weight = run.started(run.deviations[SMALL])[3][0].weight
    assert weight.std().item() == pytest.approx(0.02, rel=0.1)
    plain = run.started(run.deviations[PLAIN])
    torch.manual_seed(1)
    expected = run.twenty_layers()
    for one, other in zip(
        plain.parameters(), expected.parameters(), strict=True
    ):
        assert one.equal(other)


def test_small_weights_lose_the_picture__also_from_seeds_0_and_2(snippet):
    test_small_weights_lose_the_picture(snippet, OTHERS)


@pytest.mark.parametrize("width", [32, 128])
def test_small_weights_lose_the_picture__also_of_width(snippet, width):
    test_small_weights_lose_the_picture(at_width(snippet, width))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('0.02": 0.02', '0.02": 0.2'),
        ('PyTorch does it": None', 'PyTorch does it": 0.2'),
        ("for _ in range(20)]", "for _ in range(4)]"),
        ("64, 64), nn.ReLU()) for _", "64, 64), nn.BatchNorm1d(64)) for _"),
    ],
    ids=[
        "with 0.2",
        "with 0.2 for the default",
        "in four layers",
        "with BatchNorm",
    ],
)
def test_small_weights_lose_the_picture__but_not(snippet, old, new, fails):
    """With a deviation of 0.2, only four layers, or BatchNorm in place of
    ReLU, the pictures still differ.
    """
    fails(test_small_weights_lose_the_picture, snippet.edit(old, new))


def test_large_weights_explode(snippet, seeds=OWN):
    run = up_to(snippet, "forward")

    are_as_measured(run, LARGE)
    assert min(left(run, LARGE, seeds)) > 1e6
    weight = run.started(run.deviations[LARGE])[7][0].weight
    assert weight.std().item() == pytest.approx(0.5, rel=0.1)


def test_large_weights_explode__also_from_seeds_0_and_2(snippet):
    test_large_weights_explode(snippet, OTHERS)


def test_large_weights_explode__also_in_wider_layers(snippet):
    test_large_weights_explode(at_width(snippet, 128))


def test_large_weights_explode__ends_in_narrow_layers(snippet, fails):
    """In narrow layers, such as of width 32: each layer multiplies by less."""
    fails(test_large_weights_explode, at_width(snippet, 32))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('0.5": 0.5', '0.5": 0.2'),
        ("for _ in range(20)]", "for _ in range(9)]"),
        ("64, 64), nn.ReLU()) for _", "64, 64), nn.Tanh()) for _"),
    ],
    ids=["with 0.2", "in nine layers", "with Tanh"],
)
def test_large_weights_explode__but_not(snippet, old, new, fails):
    """A deviation of 0.2, nine layers instead of twenty, or `Tanh`, which
    stays within ±1, prevents it.
    """
    fails(test_large_weights_explode, snippet.edit(old, new))


def test_kaiming_keeps_the_picture(snippet, seeds=OWN):
    run = up_to(snippet, "forward")
    found = left(run, KAIMING, seeds)

    for seed, each in zip(seeds, found, strict=True):
        assert 0.01 < each < 10
        model = run.started(run.deviations[KAIMING], seed)
        assert each == pytest.approx(measured_anew(run, model), rel=1e-3)
        weight = model[7][0].weight
        expected = math.sqrt(2 / weight.shape[1])
        assert weight.std().item() == pytest.approx(expected, rel=0.1)
        assert not any(layer[0].bias.any() for layer in model[:-1])


def test_kaiming_keeps_the_picture__also_from_seeds_0_and_2(snippet):
    test_kaiming_keeps_the_picture(snippet, OTHERS)


@pytest.mark.parametrize("width", [32, 128])
def test_kaiming_keeps_the_picture__also_of_width(snippet, width):
    test_kaiming_keeps_the_picture(at_width(snippet, width))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"Kaiming": math.sqrt(2 / 64)', '"Kaiming": math.sqrt(1 / 64)'),
        ('"Kaiming": math.sqrt(2 / 64)', '"Kaiming": math.sqrt(4 / 64)'),
        ("            nn.init.zeros_(layer.bias)\n    return", "    return"),
        ("64, 64), nn.ReLU()) for _", "64, 64), nn.Identity()) for _"),
    ],
    ids=["with 1 over n", "with 4 over n", "with biases", "without ReLU"],
)
def test_kaiming_keeps_the_picture__but_not(snippet, old, new, fails):
    """Twenty layers multiply it: half or twice the variance, biases that are
    not zero, or no ReLU.
    """
    fails(test_kaiming_keeps_the_picture, snippet.edit(old, new))


def test_a_number_is_a_sum_of_products(snippet):
    run = up_to(snippet, "do-this")
    hidden, numbers = run.model[:3], run.pictures

    with torch.no_grad():
        for block in hidden:
            linear = block[0]
            after = block(numbers)
            for k in (0, 7, 63):
                pairs = zip(numbers[k], linear.weight[k], strict=True)
                number = math.fsum(float(a) * float(b) for a, b in pairs)
                expected = max(number, 0)
                assert after[k, k].item() == pytest.approx(expected, abs=1e-4)
            numbers = after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("64, 64), nn.ReLU()) for _", "64, 64), nn.Identity()) for _"),
        ("64, 64), nn.ReLU()) for _", "64, 64), nn.GELU()) for _"),
        ("model.apply(initialize)", "initialize(model)"),
    ],
    ids=["without ReLU", "with GELU", "with a bias"],
)
def test_a_number_is_a_sum_of_products__but_not(snippet, old, new, fails):
    """Without ReLU, a negative sum stays; GELU lets a little of it through;
    and a bias is added to the sum.
    """
    fails(test_a_number_is_a_sum_of_products, snippet.edit(old, new))


def gain(make, count, draws=60):
    """Return by how much layers multiply the squares, as a mean of draws."""
    torch.manual_seed(0)
    numbers = torch.rand(4, count) + 0.2
    before = numbers.square().mean()
    with torch.no_grad():
        after = [make()(numbers).relu().square().mean() for _ in range(draws)]
    return (torch.stack(after).mean() / before).item()


@pytest.mark.parametrize(
    ("count", "deviation", "drawn"),
    [
        (50, 0.02, "normal"),
        (200, 0.125, "normal"),
        (50, 0.5, "uniform"),
        (200, 0.125, "uniform"),
    ],
)
def test_a_layer_multiplies_by_half_n_s_squared__also_for(
    count, deviation, drawn
):
    def make():
        layer = nn.Linear(count, 300, bias=False)
        if drawn == "normal":
            nn.init.normal_(layer.weight, std=deviation)
        else:
            bound = deviation * math.sqrt(3)
            nn.init.uniform_(layer.weight, -bound, bound)
        return layer

    expected = count * deviation**2 / 2
    assert gain(make, count) == pytest.approx(expected, rel=0.05)


def test_a_layer_multiplies_by_half_n_s_squared(snippet):
    run = up_to(snippet, "started")
    gains = []
    for seed in range(12):
        model = run.started(run.deviations[KAIMING], seed)
        with torch.no_grad():
            after = [
                layer(run.pictures).square().mean() for layer in model[:4]
            ]
        gains += [(each / run.pictures.square().mean()) for each in after]

    mean = torch.stack(gains).mean().item()
    assert mean == pytest.approx(64 * math.sqrt(2 / 64) ** 2 / 2, rel=0.05)
    assert mean == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("64, 64), nn.ReLU()) for _", "64, 64), nn.Identity()) for _"),
        ("std=deviation)", "std=2 * deviation)"),
        ("std=deviation)", "mean=0.1, std=deviation)"),
        (
            "            nn.init.zeros_(layer.bias)\n    return",
            "            nn.init.ones_(layer.bias)\n    return",
        ),
        ("math.sqrt(2 / 64)", "math.sqrt(1 / 64)"),
    ],
    ids=[
        "without ReLU",
        "with another deviation",
        "around another mean",
        "with a bias",
        "one with 1 over n",
    ],
)
def test_a_layer_multiplies_by_half_n_s_squared__but_not(
    snippet, old, new, fails
):
    """Without ReLU, nothing is set to 0, and the factor is twice as large; the
    other edits change weights or biases.
    """
    fails(test_a_layer_multiplies_by_half_n_s_squared, snippet.edit(old, new))


def test_layers_as_drawn_multiply_by_a_sixth(snippet, count=None):
    run = up_to(snippet, "initialize")

    def layers():
        while True:
            if count:
                yield nn.Linear(count, 64, bias=False)
                continue
            for linear, _ in run.twenty_layers()[:-1]:
                linear.bias = None
                yield linear

    found = gain(layers().__next__, count or 64, draws=600)

    assert found == pytest.approx(1 / 6, rel=0.05)


@pytest.mark.parametrize("count", [16, 200])
def test_layers_as_drawn_multiply_by_a_sixth__also_for(snippet, count):
    test_layers_as_drawn_multiply_by_a_sixth(snippet, count)


@pytest.mark.parametrize("drawn", ["kaiming_normal_", "xavier_uniform_"])
def test_layers_as_drawn_multiply_by_a_sixth__but_not(snippet, drawn, fails):
    """Other weights have another gain: 1 with `kaiming_normal_`, a half with
    `xavier_uniform_`.
    """
    last = "    return nn.Sequential(*hidden, nn.Linear(64, 4))"
    anew = f"    [nn.init.{drawn}(linear.weight) for linear, _ in hidden]\n"
    edited = snippet.edit(last, anew + last)
    fails(test_layers_as_drawn_multiply_by_a_sixth, edited)


def test_gradients_come_back_through_the_weights(snippet, bias=True):
    run = up_to(snippet, "do-this")
    linears = [run.model[0][0], run.model[-1], nn.Linear(5, 30, bias=bias)]
    torch.manual_seed(0)

    for linear in linears:
        numbers = torch.randn(9, linear.in_features, requires_grad=True)
        output = linear(numbers)
        arrived = torch.randn_like(output)
        [back] = torch.autograd.grad(output, numbers, arrived)
        expected = arrived @ linear.weight
        assert torch.allclose(back, expected, rtol=1e-4, atol=1e-5)


def test_gradients_come_back_through_the_weights__also_without_bias(snippet):
    test_gradients_come_back_through_the_weights(snippet, False)


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
    hook = "register_full_backward_hook"
    edited = snippet.edit(
        "model.apply(initialize)\n",
        "model.apply(initialize)\n"
        f"model[0][0].{hook}(lambda layer, back, _: ({change},))\n",
    )
    fails(test_gradients_come_back_through_the_weights, edited)


def shares(run, name, seeds):
    """Return the gradient of the first layer over that of the last."""
    found = [run.backward[name]]
    if seeds != OWN:
        models = [run.started(run.deviations[name], seed) for seed in seeds]
        found = [run.gradients(model) for model in models]
    assert all(len(each) == 20 for each in found)
    return [each[0] / each[-1] for each in found]


def test_the_first_layer_hears_nothing(snippet, seeds=OWN):
    run = up_to(snippet, "backward")

    assert max(shares(run, PLAIN, seeds)) < 1e-3
    assert min(shares(run, KAIMING, seeds)) > 1 / 20
    model = run.started(run.deviations[KAIMING])
    loss = F.cross_entropy(model(run.pictures), run.classes)
    first, last = (model[at][0].weight for at in (0, 19))
    first, last = torch.autograd.grad(loss, (first, last))
    expected = first.norm().item(), last.norm().item()
    found = run.backward[KAIMING][0], run.backward[KAIMING][-1]
    assert type(found[0]) is float
    assert found == pytest.approx(expected, rel=1e-3)


def test_the_first_layer_hears_nothing__also_from_seeds_0_and_2(snippet):
    test_the_first_layer_hears_nothing(snippet, OTHERS)


def test_the_first_layer_hears_nothing__also_in_wider_layers(snippet):
    test_the_first_layer_hears_nothing(at_width(snippet, 128))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"as PyTorch does it": None', '"as PyTorch does it": 0.17'),
        ("64, 64), nn.ReLU()) for _", "64, 64), nn.BatchNorm1d(64)) for _"),
        ('"Kaiming": math.sqrt(2 / 64)', '"Kaiming": None'),
        ("for _ in range(20)]", "for _ in range(4)]"),
    ],
    ids=[
        "with Kaiming",
        "with BatchNorm",
        "without Kaiming",
        "in four layers",
    ],
)
def test_the_first_layer_hears_nothing__but_not(snippet, old, new, fails):
    """With Kaiming's deviation, BatchNorm or only four layers the gradient
    arrives; as PyTorch draws them, it does not.
    """
    fails(test_the_first_layer_hears_nothing, snippet.edit(old, new))


def assert_uniform(values, bound):
    """Compare numbers with a uniform distribution between two bounds."""
    values = values.detach().flatten()
    assert values.abs().max() <= bound
    assert values.unique().numel() > 0.9 * len(values)
    if len(values) > 200:
        outer = (values.abs() > bound / 2).double().mean().item()
        assert outer == pytest.approx(0.5, abs=0.12)
    if len(values) > 500:
        assert values.min().item() == pytest.approx(-bound, rel=0.1)
        assert values.max().item() == pytest.approx(bound, rel=0.1)
        expected = bound / math.sqrt(3)
        assert values.std().item() == pytest.approx(expected, rel=0.1)
        assert values.mean().item() == pytest.approx(0, abs=0.1 * bound)


LOOP = "for layer in layers:\n    for name"
DRAWN = {
    "Linear": (lambda: nn.Linear(25, 900), 25),
    "Linear of one input": (lambda: nn.Linear(1, 2000), 1),
    "Conv2d": (lambda: nn.Conv2d(4, 700, (3, 5)), 60),
    "groups": (lambda: nn.Conv2d(40, 800, 3, groups=4), 90),
}


def test_linear_draws_within_one_over_root_n(snippet, name=None):
    if name is None:
        linear, convolution = up_to(snippet, "defaults").layers[:2]
        for each in linear.parameters():
            assert_uniform(each, 1 / math.sqrt(64))
        for each in convolution.parameters():
            assert_uniform(each, 1 / math.sqrt(75))
        return
    make, count = DRAWN[name]
    torch.manual_seed(0)

    for each in make().parameters():
        assert_uniform(each, 1 / math.sqrt(count))
        deviation = 1 / math.sqrt(3 * count)
        assert each.std().item() == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize("name", DRAWN)
def test_linear_draws_within_one_over_root_n__also_for(snippet, name):
    test_linear_draws_within_one_over_root_n(snippet, name)


@pytest.mark.parametrize(
    "change",
    [
        "initialize(layers[0])",
        "nn.init.kaiming_normal_(layers[1].weight)",
        "nn.init.zeros_(layers[0].bias)",
        "nn.init.zeros_(layers[1].bias)",
        "nn.init.normal_(layers[1].weight, std=1 / math.sqrt(3 * 75))",
    ],
    ids=[
        "a Linear once initialized",
        "a Conv2d once initialized",
        "a bias of zeros in a Linear",
        "a bias of zeros in a Conv2d",
        "a normal distribution",
    ],
)
def test_linear_draws_within_one_over_root_n__but_not(snippet, change, fails):
    """What you initialize again no longer holds the numbers that PyTorch
    drew.
    """
    edited = snippet.edit(LOOP, f"{change}\n{LOOP}")
    fails(test_linear_draws_within_one_over_root_n, edited)


def test_lstm_draws_within_one_over_root_h(snippet, size=None):
    if size is None:
        for each in up_to(snippet, "defaults").layers[2].parameters():
            assert_uniform(each, 1 / math.sqrt(25))
        return
    torch.manual_seed(0)

    for layer in nn.LSTM(9, size, 2), nn.GRU(30, size, bidirectional=True):
        for each in layer.parameters():
            assert_uniform(each, 1 / math.sqrt(size))


@pytest.mark.parametrize("size", [4, 100])
def test_lstm_draws_within_one_over_root_h__also_for(snippet, size):
    test_lstm_draws_within_one_over_root_h(snippet, size)


@pytest.mark.parametrize(
    "change",
    [
        "nn.init.orthogonal_(layers[2].weight_hh_l0)",
        "nn.init.zeros_(layers[2].bias_ih_l0)",
    ],
    ids=["an orthogonal matrix", "biases of zeros"],
)
def test_lstm_draws_within_one_over_root_h__but_not(snippet, change, fails):
    """An orthogonal matrix, or biases of zeros, replace what PyTorch drew."""
    edited = snippet.edit(LOOP, f"{change}\n{LOOP}")
    fails(test_lstm_draws_within_one_over_root_h, edited)


def test_embedding_draws_with_deviation_one(snippet, shape=(900, 30)):
    embedding = up_to(snippet, "defaults").layers[3]
    torch.manual_seed(0)
    padded = nn.Embedding(*shape, padding_idx=3)

    assert not padded.weight[3].any()
    for weight in (embedding.weight, nn.Embedding(*shape).weight):
        assert weight.mean().item() == pytest.approx(0, abs=0.05)
        assert weight.std().item() == pytest.approx(1, rel=0.05)
        assert weight.any(dim=1).all()
        beyond = (weight.abs() > 2).double().mean().item()
        assert beyond == pytest.approx(0.0455, abs=0.01)
    drawn = padded.weight[torch.arange(shape[0]) != 3]
    assert drawn.std().item() == pytest.approx(1, rel=0.05)
    assert drawn.any(dim=1).all()


def test_embedding_draws_with_deviation_one__also_with_few_long_rows(snippet):
    test_embedding_draws_with_deviation_one(snippet, (20, 3000))


@pytest.mark.parametrize(
    "change",
    [
        "nn.init.normal_(layers[3].weight, std=0.02)",
        "nn.init.normal_(layers[3].weight, mean=1)",
        "nn.init.zeros_(layers[3].weight.data[0])",
    ],
    ids=["with a smaller deviation", "around one", "with a row of zeros"],
)
def test_embedding_draws_with_deviation_one__but_not(snippet, change, fails):
    """Drawn with a smaller deviation or around 1, or with a row of zeros, it
    is no longer as `Embedding` draws it.
    """
    edited = snippet.edit(LOOP, f"{change}\n{LOOP}")
    fails(test_embedding_draws_with_deviation_one, edited)


def test_norms_start_as_one_and_zero(snippet):
    layers = up_to(snippet, "defaults").layers[4:]
    others = nn.BatchNorm2d(3), nn.LayerNorm((2, 5)), nn.GroupNorm(2, 4)

    assert [type(each) for each in layers] == [nn.BatchNorm1d, nn.LayerNorm]
    for layer in (*layers, *others):
        assert layer.weight.equal(torch.ones_like(layer.weight))
        assert layer.bias.equal(torch.zeros_like(layer.bias))


@pytest.mark.parametrize(
    "change",
    ["nn.init.zeros_(layers[4].weight)", "nn.init.ones_(layers[5].bias)"],
    ids=["with a weight of 0", "with a bias of 1"],
)
def test_norms_start_as_one_and_zero__but_not(snippet, change, fails):
    """Weights of 0, or biases of 1, are there only if you set them."""
    edited = snippet.edit(LOOP, f"{change}\n{LOOP}")
    fails(test_norms_start_as_one_and_zero, edited)


SAME = {
    "a Linear": lambda: nn.Linear(25, 900),
    "a Conv2d": lambda: nn.Conv2d(4, 700, (3, 5)),
    "groups": lambda: nn.Conv2d(40, 800, 3, groups=4),
}


def test_root_five_means_one_over_root_n(snippet, name=None):
    if name is None:
        run = up_to(snippet, "root-five")
        assert run.root_five.equal(run.linear.weight)
        assert_uniform(run.root_five, 1 / math.sqrt(64))
        return
    torch.manual_seed(0)
    layer = SAME[name]()
    torch.manual_seed(0)
    other = torch.empty(layer.weight.shape)

    nn.init.kaiming_uniform_(other, a=math.sqrt(5))

    assert other.equal(layer.weight)
    assert_uniform(other, 1 / math.sqrt(other[0].numel()))


@pytest.mark.parametrize("name", SAME)
def test_root_five_means_one_over_root_n__also_for(snippet, name):
    test_root_five_means_one_over_root_n(snippet, name)


@pytest.mark.parametrize(
    ("old", "new"),
    [("a=math.sqrt(5)", "a=0"), ("kaiming_uniform_", "kaiming_normal_")],
    ids=["with another a", "drawn from a bell"],
)
def test_root_five_means_one_over_root_n__but_not(snippet, old, new, fails):
    """`a=0` gives wider bounds, and `kaiming_normal_` draws from a normal
    distribution.
    """
    fails(test_root_five_means_one_over_root_n, snippet.edit(old, new))


def test_a_norm_cancels_the_scale(snippet):
    run = up_to(snippet, "normalized")

    base, *expected = run.normalized(1)
    for one, other in zip(
        expected,
        (
            F.batch_norm(base, None, None, training=True),
            F.layer_norm(base, (64,)),
        ),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    for factor in (10, 100):
        scaled, *found = run.normalized(factor)
        torch.testing.assert_close(scaled, factor * base, rtol=1e-3, atol=1e-3)
        for one, other in zip(found, expected, strict=True):
            assert (one - other).abs().max() < 0.01


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.BatchNorm1d(64)(numbers)", "nn.Identity()(numbers)"),
        ("nn.LayerNorm(64)(numbers)", "nn.Identity()(numbers)"),
        (
            "nn.Linear(64, 64, bias=False)\n    with",
            "nn.Linear(64, 64)\n    with",
        ),
    ],
    ids=[
        "without BatchNorm",
        "without LayerNorm",
        "with a bias",
    ],
)
def test_a_norm_cancels_the_scale__but_not(snippet, old, new, fails):
    """Without the norm, the numbers grow with the weights; and a bias does not
    grow with them.
    """
    fails(test_a_norm_cancels_the_scale, snippet.edit(old, new))


def test_a_norm_cancels_the_scale__ends_in_evaluation_mode(snippet, fails):
    """In evaluation mode: `BatchNorm` uses its running statistics instead of
    the batch's.
    """
    old = "nn.BatchNorm1d(64)(numbers)"
    edited = snippet.edit(old, "nn.BatchNorm1d(64).eval()(numbers)")
    fails(test_a_norm_cancels_the_scale, edited)


def test_a_norm_cancels_the_scale__ends_for_inputs_near_zero(snippet, fails):
    """For inputs near zero: `eps`, which is added to the variance, is then no
    longer small beside it.
    """
    edited = snippet.edit("linear(pictures)", "linear(pictures / 1000)")
    fails(test_a_norm_cancels_the_scale, edited)


def test_initialize_spoils_residuals(snippet, seed=1):
    run = up_to(snippet, "residual")
    anew = run.helped("residual", seed=seed)
    drawn = measured_by_hand(run, anew)
    spoiled = measured_by_hand(run, anew.apply(run.initialize))

    for losses in (run.drawn, run.spoiled), (drawn, spoiled):
        assert losses[1] > 100 * losses[0] > 0
        assert type(losses[0]) is type(losses[1]) is float
    assert sum(type(each) is run.Residual for each in run.residual) == 20
    expected = measured_by_hand(run, run.residual)
    assert run.spoiled == pytest.approx(expected, rel=1e-3)
    if seed == 1:
        assert run.drawn == pytest.approx(drawn, rel=1e-3)


def measured_by_hand(run, model):
    """Return the loss of a model with residual connections."""
    numbers = run.pictures
    for block in model[:-1]:
        layer = block[0]
        numbers = numbers + layer(numbers).relu()
    return F.cross_entropy(model[-1](numbers), run.classes).item()


@pytest.mark.parametrize("seed", [2], ids="seed {}".format)
def test_initialize_spoils_residuals__also_with(snippet, seed):
    test_initialize_spoils_residuals(snippet, seed)


@pytest.mark.parametrize("width", [32, 128])
def test_initialize_spoils_residuals__also_of_width(snippet, width):
    test_initialize_spoils_residuals(at_width(snippet, width))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return numbers + super()", "return super()"),
        ("residual.apply(initialize)", "initialize(residual)"),
        ('residual = helped("residual")', 'residual = helped("residual", 4)'),
        (
            'helped("residual")\ndrawn',
            'helped("residual").apply(initialize)\ndrawn',
        ),
    ],
    ids=[
        "without the connection",
        "without apply",
        "in four layers",
        "initialized at once",
    ],
)
def test_initialize_spoils_residuals__but_not(snippet, old, new, fails):
    """Without the connection, in four layers, or with `initialize` on no layer
    or twice, the loss grows far less.
    """
    fails(test_initialize_spoils_residuals, snippet.edit(old, new))


BLOCKS = {
    "four layers": ("Sequential", nn.Identity, 4),
    "BatchNorm": ("Sequential", nn.BatchNorm1d, 20),
    "LayerNorm": ("Sequential", nn.LayerNorm, 20),
    "residual": ("Residual", nn.Identity, 20),
}


def test_gradients_arrive_as_drawn(snippet, seeds=OWN):
    run = up_to(snippet, "kept")

    assert run.kept.keys() == BLOCKS.keys()
    for name, (kind, norm, count) in BLOCKS.items():
        found = [run.kept[name]]
        for seed in seeds:
            model = run.helped(name, count, seed)
            found.append(run.gradients(model))
        assert found[1] == pytest.approx(found[0]) or seeds != OWN
        for each in found:
            assert len(each) == count
            assert each[0] > each[-1] / 100
        for block in model[:-1]:
            assert type(block).__name__ == kind
            assert list(map(type, block)) == [nn.Linear, norm, nn.ReLU]
            assert_uniform(block[0].weight, 1 / 8)


def test_gradients_arrive_as_drawn__also_from_seeds_0_and_2(snippet):
    test_gradients_arrive_as_drawn(snippet, OTHERS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"BatchNorm": nn.BatchNorm1d,', '"BatchNorm": nn.Identity,'),
        ('"LayerNorm": nn.LayerNorm}', '"LayerNorm": nn.Identity}'),
        ("return numbers + super()", "return super()"),
        ('"nothing", count=4', '"nothing", count=20'),
    ],
    ids=[
        "without BatchNorm",
        "without LayerNorm",
        "without a residual connection",
        "in twenty layers",
    ],
)
def test_gradients_arrive_as_drawn__but_not(snippet, old, new, fails):
    """Twenty layers need a norm or a residual connection; without it, the
    gradient is lost on the way.
    """
    fails(test_gradients_arrive_as_drawn, snippet.edit(old, new))


FEWER = (
    "Fan in and fan out can not be computed for tensor with fewer than"
    " 2 dimensions"
)


def test_a_bias_has_no_fan_in(snippet, function=None):
    if function is None:
        run = up_to(snippet, "fan-in")
        assert len(run.refused) == 21
        assert set(run.refused.values()) == {FEWER}
        assert all(name.endswith("bias") for name in run.refused)
        return

    for each in nn.Conv2d(3, 2, 3).bias, nn.BatchNorm2d(3).weight:
        with pytest.raises(ValueError, match=FEWER):
            getattr(nn.init, function)(each)


@pytest.mark.parametrize(
    "function",
    [
        "kaiming_normal_",
        "kaiming_uniform_",
        "xavier_normal_",
        "xavier_uniform_",
    ],
)
def test_a_bias_has_no_fan_in__also_for(snippet, function):
    test_a_bias_has_no_fan_in(snippet, function)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kaiming_normal_(parameter)", "normal_(parameter)"),
        ("kaiming_normal_(parameter)", "kaiming_normal_(parameter[None])"),
    ],
    ids=["with normal", "for a row"],
)
def test_a_bias_has_no_fan_in__but_not(snippet, old, new, fails):
    """`normal_` needs no fan-in, and `parameter[None]` has two axes, so
    neither raises.
    """
    fails(test_a_bias_has_no_fan_in, snippet.edit(old, new))


def test_three_mistakes_raise_nothing(snippet):
    with no_error():
        run = up_to(snippet, "zeros", "equal-units", "losses")

    assert len(run.stuck) == 20
    assert run.equal[0].weight.grad is not None
    assert len(run.losses[PLAIN]) == 20


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "    nn.init.zeros_(parameter)",
            "    nn.init.xavier_normal_(parameter)",
        ),
        (
            "nn.init.constant_(equal[0].weight, 0.01)",
            "nn.init.kaiming_normal_(equal[0].bias)",
        ),
        (
            "train(started(deviations[name]))",
            "train(started(deviations[name]).double())",
        ),
    ],
    ids=[
        "like a bias without fan in",
        "like a bias drawn by its inputs",
        "like weights of another dtype",
    ],
)
def test_three_mistakes_raise_nothing__but_other_mistakes_do(
    snippet, old, new, fails
):
    """Wrong shapes and dtypes do raise: a bias has no fan-in, and `float64`
    weights do not take `float32` pictures.
    """
    fails(test_three_mistakes_raise_nothing, snippet.edit(old, new))


def test_zero_weights_stay_zero(snippet, depth=None, bias=0.0):
    run = up_to(snippet, "zeros")
    model, losses = run.zeros, run.stuck
    if depth is not None:
        layers = [(nn.Linear(64, 64), nn.ReLU()) for _ in range(depth)]
        hidden = [each for pair in layers for each in pair]
        model = nn.Sequential(*hidden, nn.Linear(64, 4))
        for parameter in model.parameters():
            nn.init.constant_(parameter, bias if parameter.ndim == 1 else 0)
        run.train.__globals__["classes"] = torch.arange(100) % 3  # unbalanced
        losses = run.train(model)
        assert depth == 0 or model[-1].bias.any()

    linear = [each for each in model.modules() if isinstance(each, nn.Linear)]
    assert len(linear) > 1
    for layer in linear:
        assert not layer.weight.any()
        assert layer.weight.grad is not None
    assert len(losses) == 20


@pytest.mark.parametrize("depth", [1, 3])
def test_zero_weights_stay_zero__also_for(snippet, depth):
    test_zero_weights_stay_zero(snippet, depth)


ADAM = "torch.optim.Adam(model.parameters(), lr=0.001, fused=True)"


@pytest.mark.parametrize(
    "new",
    [
        "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
        "torch.optim.AdamW(model.parameters())",
        "torch.optim.RMSprop(model.parameters())",
    ],
    ids=["SGD", "AdamW", "RMSprop"],
)
def test_zero_weights_stay_zero__also_with(snippet, new):
    test_zero_weights_stay_zero(snippet.edit(ADAM, new), 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    nn.init.zeros_(parameter)", "    nn.init.ones_(parameter)"),
        ("in zeros.parameters()", "in zeros[2].parameters()"),
    ],
    ids=["from ones", "with zeros in the last layer alone"],
)
def test_zero_weights_stay_zero__but_not(snippet, old, new, fails):
    """Start from ones, or with zeros in the last layer alone, and the weights
    move.
    """
    fails(test_zero_weights_stay_zero, snippet.edit(old, new))


@pytest.mark.parametrize(
    ("depth", "bias"),
    [(1, 0.1), (0, 0.0)],
    ids=["with other biases", "of a single layer"],
)
def test_zero_weights_stay_zero__ends_in_a_model(snippet, depth, bias, fails):
    """With biases that are not zero, or in a model of a single layer: the
    weights move.
    """
    fails(test_zero_weights_stay_zero, snippet, depth, bias)


def test_equal_units_stay_equal(snippet, width=None):
    run = up_to(snippet, "equal-units")
    model = run.equal
    if width is not None:
        torch.manual_seed(width)
        model = nn.Sequential(
            nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 4)
        )
        with torch.no_grad():
            model[0].weight[:] = model[0].weight[:1].clone()
            model[0].bias[:] = 0.1
            model[2].weight[:] = model[2].weight[:, :1].clone()
        run.train(model)

    first, bias, last = model[0].weight, model[0].bias, model[2].weight
    assert not first.std(dim=1).equal(torch.zeros(len(first)))
    torch.testing.assert_close(first, first[:1].expand_as(first))
    torch.testing.assert_close(bias, bias[:1].expand_as(bias))
    torch.testing.assert_close(last, last[:, :1].expand_as(last))


@pytest.mark.parametrize("width", [7, 100])
def test_equal_units_stay_equal__also_for(snippet, width):
    test_equal_units_stay_equal(snippet, width)


@pytest.mark.parametrize(
    "new",
    [
        "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
        "torch.optim.AdamW(model.parameters())",
    ],
    ids=["SGD", "AdamW"],
)
def test_equal_units_stay_equal__also_with(snippet, new):
    test_equal_units_stay_equal(snippet.edit(ADAM, new), 8)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.init.constant_(equal[0].weight, 0.01)\n", ""),
        ("nn.init.zeros_(equal[0].bias)\n", ""),
        ("nn.init.constant_(equal[2].weight, 0.1)\n", ""),
    ],
    ids=[
        "with other weights in",
        "with other biases",
        "with other weights out",
    ],
)
def test_equal_units_stay_equal__but_not(snippet, old, new, fails):
    """Different weights in, weights out or biases tell the units apart, and
    each learns something else.
    """
    fails(test_equal_units_stay_equal, snippet.edit(old, new))


def test_equal_units_stay_equal__ends_with_dropout(snippet, fails):
    """With `Dropout`: the units are dropped at random, so they get different
    gradients.
    """
    old = "equal = nn.Sequential(nn.Linear(64, 8), nn.ReLU()"
    fails(
        test_equal_units_stay_equal,
        snippet.edit(old, old[:-9] + "nn.Dropout()"),
    )


def trained_anew(run, model):
    """Return the first losses of a loop of the test."""
    adam = torch.optim.Adam(model.parameters(), lr=0.001)
    found = []
    for _ in range(20):
        adam.zero_grad()
        loss = F.cross_entropy(model(run.pictures), run.classes)
        loss.backward()
        adam.step()
        found.append(loss.item())
    return found


def test_only_kaiming_learns_here(snippet, seed=1):
    run = up_to(snippet, "losses" if seed == 1 else "train")
    if seed == 1:
        losses = run.losses
    else:
        losses = {
            name: run.train(run.started(run.deviations[name], seed))
            for name in (PLAIN, KAIMING)
        }

    assert all(len(each) == 20 for each in losses.values())
    assert losses[KAIMING][-1] < 0.5
    assert all(1.38 < loss < 1.40 for loss in losses[PLAIN])
    assert math.log(4) == pytest.approx(1.39, abs=0.005)
    anew = trained_anew(run, run.started(run.deviations[KAIMING], seed))
    assert losses[KAIMING][:4] == pytest.approx(anew[:4], rel=1e-2)
    assert losses[KAIMING] == pytest.approx(anew, rel=0.05, abs=1e-4)


@pytest.mark.parametrize("seed", [2], ids="seed {}".format)
def test_only_kaiming_learns_here__also_with(snippet, seed):
    test_only_kaiming_learns_here(snippet, seed)


def test_only_kaiming_learns_here__also_in_wider_layers(snippet):
    test_only_kaiming_learns_here(at_width(snippet, 128))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"Kaiming": math.sqrt(2 / 64)', '"Kaiming": math.sqrt(0.5 / 64)'),
        ("64, 64), nn.ReLU()) for _", "64, 64), nn.BatchNorm1d(64)) for _"),
        ("lr=0.001", "lr=0.0001"),
        (
            "for _ in range(20):\n        loss",
            "for _ in range(3):\n        loss",
        ),
    ],
    ids=[
        "half of Kaiming",
        "with BatchNorm",
        "with smaller steps",
        "in three steps",
    ],
)
def test_only_kaiming_learns_here__but_not(snippet, old, new, fails):
    """With half the deviation, smaller steps or three steps, the loss stays
    above 0.5; BatchNorm changes the other model.
    """
    fails(test_only_kaiming_learns_here, snippet.edit(old, new))


def test_only_kaiming_learns_here__but_not_in_four_layers(snippet, fails):
    """In four layers, the loss moves from PyTorch's own weights, too."""
    edited = snippet.edit("for _ in range(20)]", "for _ in range(4)]")
    fails(test_only_kaiming_learns_here, edited)
