"""The claims of docs/course/network.md."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import after, error_of, raised_in, resumed

# A network that is not trained, for what holds without training.
NETWORK = ("so-far", "network")
COMPARED = (*NETWORK, "train", "compare")


def after_network(snippet, *cells):
    """Run these cells with a network that is not trained."""
    return after(snippet, *NETWORK, *cells)


def in_cell(snippet, name, old, new):
    """Return the snippet with one passage of a cell changed."""
    source = snippet.cell(name).source
    assert source.count(old) == 1
    return snippet.edit(source, source.replace(old, new))


# Do this


def trained(run, model, optimizer, epochs=10):
    """Train a model, and return the share of right answers."""
    for _ in range(epochs):
        run.train_epoch(model, run.loader, optimizer)
    _, right = run.evaluate(
        model, run.images[run.valid], run.labels[run.valid]
    )
    return right


def both(run, seed):
    """Return the share of right answers of the network and the linear one."""
    torch.manual_seed(seed)
    model = run.Net()
    adam = torch.optim.Adam(model.parameters(), lr=0.003)
    right = trained(run, model, adam)
    torch.manual_seed(seed)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    sgd = torch.optim.SGD(linear.parameters(), lr=0.1)
    return right, trained(run, linear, sgd)


def test_a_network_beats_the_linear_model(snippet):
    run = resumed(snippet, COMPARED)

    generator = torch.Generator().manual_seed(0)
    assert torch.equal(run.order, torch.randperm(1797, generator=generator))
    assert (run.images.min(), run.images.max()) == (0, 1)
    assert type(run.loader.sampler).__name__ == "RandomSampler"
    assert not run.model.training
    assert type(run.loss) is type(run.right) is float
    for model, said in (
        (run.model, run.right),
        (run.linear, run.linear_right),
    ):
        with torch.no_grad():
            guessed = model(run.images[run.valid]).argmax(dim=1)
        share = (guessed == run.labels[run.valid]).double().mean().item()
        assert said == pytest.approx(share)
    assert [type(layer) for layer in run.linear] == [nn.Flatten, nn.Linear]
    assert run.right > run.linear_right > 0.85


@pytest.mark.parametrize("seed", [1])
def test_a_network_beats_the_linear_model__also_from(snippet, seed):
    right, linear_right = both(after_network(snippet), seed)
    assert right > linear_right


@pytest.mark.parametrize("split", [1])
def test_a_network_beats_the_linear_model__also_with_other_parts(
    snippet, split
):
    edited = snippet.edit(
        "Generator().manual_seed(0)", f"Generator().manual_seed({split})"
    )
    right, linear_right = both(after_network(edited), seed=0)
    assert right > linear_right


def test_a_network_beats_the_linear_model__also_if_both_use_adam(snippet):
    run = resumed(snippet, COMPARED)
    torch.manual_seed(0)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    adam = torch.optim.Adam(linear.parameters(), lr=0.003)
    assert run.right > trained(run, linear, adam)


def test_a_network_beats_the_linear_model__but_not_untrained(snippet, fails):
    """With its first random weights, the network only guesses."""
    edited = in_cell(snippet, "train", "range(10)", "range(0)")
    fails(test_a_network_beats_the_linear_model, edited)


def test_a_network_beats_the_linear_model__ends_after_one_epoch(
    snippet, fails
):
    """After a single epoch of both, the network is still behind."""
    for cell in ("train", "compare"):
        snippet = in_cell(snippet, cell, "range(10)", "range(1)")
    fails(test_a_network_beats_the_linear_model, snippet)


# Why a class?


def test_calling_the_model_runs_forward(snippet, count=5):
    with no_error():
        run = after_network(snippet)
        calls, forward = [], run.Net.forward

        def counted(self, x):
            calls.append(x)
            return forward(self, x)

        run.Net.forward = counted
        with torch.no_grad():
            scores = run.model(run.images[:count])

    assert len(calls) == 1
    assert scores.shape == (count, 10)
    assert torch.equal(scores, forward(run.model, run.images[:count]))


@pytest.mark.parametrize("count", [1, 32, 300])
def test_calling_the_model_runs_forward__also_for(snippet, count):
    test_calling_the_model_runs_forward(snippet, count)


@edits(
    ("Linear(128, 10)", "Linear(128, 9)"),
    ("x.flatten(1)", "x.flatten(1)[:1]"),
    ("def forward", "def backward"),
)
def test_calling_the_model_runs_forward__but_not(snippet, old, new, fails):
    """With another name than `forward`, calling the model raises an error."""
    edited = in_cell(snippet, "network", old, new)
    fails(test_calling_the_model_runs_forward, edited)


# What does a convolution do?


def by_hand(picture, weights, bias=0.0):
    """Return a convolution without padding, one window at a time."""
    height, width = (size - 2 for size in picture.shape[-2:])
    return torch.stack(
        [
            torch.stack(
                [
                    (picture[..., i : i + 3, j : j + 3] * weights).sum() + bias
                    for j in range(width)
                ]
            )
            for i in range(height)
        ]
    )


def test_a_window_is_a_sum_of_products(snippet):
    run = after(snippet, "so-far", "window")

    assert run.edges.tolist() == [[3, 3, 0]] * 3
    assert torch.equal(run.edges, by_hand(run.picture, run.weights))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_window_is_a_sum_of_products__also_of_random_numbers(seed):
    torch.manual_seed(seed)
    picture, weights = torch.randn(6, 7), torch.randn(3, 3)
    found = F.conv2d(picture[None, None], weights[None, None])[0, 0]
    torch.testing.assert_close(found, by_hand(picture, weights))


@pytest.mark.parametrize("name", ["conv1", "conv2"])
def test_a_window_is_a_sum_of_products__also_in(snippet, name):
    conv = getattr(after_network(snippet).model, name)
    torch.manual_seed(0)
    picture = torch.randn(conv.in_channels, 8, 8)
    with torch.no_grad():
        found = conv(picture)
        for k in (0, -1):
            bias = conv.bias[k]
            inside = by_hand(picture, conv.weight[k], bias)
            torch.testing.assert_close(found[k, 1:-1, 1:-1], inside)
            rim = by_hand(F.pad(picture, (1, 1, 1, 1)), conv.weight[k], bias)
            torch.testing.assert_close(found[k], rim)


@edits(
    ("conv2d(picture", "conv_transpose2d(picture"),
    ("picture[None, None]", "picture.mT[None, None]"),
    ("weights[None, None]", "weights[None, None] / 9"),
    ("weights[None, None]", "weights.flip(1)[None, None]"),
)
def test_a_window_is_a_sum_of_products__but_not(snippet, old, new, fails):
    """With weights in another order, the sums are others."""
    edited = in_cell(snippet, "window", old, new)
    fails(test_a_window_is_a_sum_of_products, edited)


def test_weights_find_edges(snippet, index=0):
    run = after(snippet, "so-far", "window", "digit")

    assert torch.equal(run.zero, run.images[index])
    assert run.found.shape == (1, 8, 8)
    padded = F.pad(run.zero, (1, 1, 1, 1))[0]
    columns = padded[:-2] + padded[1:-1] + padded[2:]  # of three pixels
    more_ink_at_the_right = columns[:, 2:] - columns[:, :-2]
    assert torch.equal(run.found[0].sign(), more_ink_at_the_right.sign())
    assert set(run.found.sign().flatten().tolist()) == {-1, 0, 1}
    alike = F.conv2d(torch.ones(1, 1, 8, 8), run.weights[None, None])
    assert torch.equal(alike, torch.zeros(1, 1, 6, 6))


@pytest.mark.parametrize("index", [1, 7, 100])
def test_weights_find_edges__also_in_digit(snippet, index):
    edited = snippet.edit("zero = images[0]", f"zero = images[{index}]")
    test_weights_find_edges(edited, index)


def test_weights_find_edges__also_of_a_stripe(snippet):
    run = after(snippet, "so-far", "window", "quiz")
    assert run.stripe.tolist() == [[0, 0, 1, 0, 0]] * 3
    assert run.answer.tolist() == [[3, 0, -3]]


@edits(
    ("[[-1.0, 0.0, 1.0]] * 3", "[[1.0, 0.0, -1.0]] * 3"),
    ("[[-1.0, 0.0, 1.0]] * 3", "[[1.0, 1.0, 1.0]] * 3"),
    ("[[-1.0, 0.0, 1.0]] * 3)", "[[-1.0, 0.0, 1.0]] * 3).mT"),
)
def test_weights_find_edges__but_not_other_weights(snippet, old, new, fails):
    """Turned by a quarter, the weights look from top to bottom."""
    fails(test_weights_find_edges, in_cell(snippet, "window", old, new))


# How large are the pictures in between?


def test_padding_keeps_the_size(snippet, size=(8, 8)):
    model = after_network(snippet).model
    for conv in (model.conv1, model.conv2):
        assert conv.kernel_size == (3, 3)
        given = torch.zeros(2, conv.in_channels, *size)
        assert conv(given).shape == (2, conv.out_channels, *size)


@pytest.mark.parametrize(
    "size", [(1, 1), (4, 4), (7, 12), (28, 28)], ids="{0[0]} x {0[1]}".format
)
def test_padding_keeps_the_size__also_of(snippet, size):
    test_padding_keeps_the_size(snippet, size)


@edits(
    ("Conv2d(1, 16, 3, padding=1)", "Conv2d(1, 16, 3)"),
    ("Conv2d(1, 16, 3, padding=1)", "Conv2d(1, 16, 3, padding=2)"),
)
def test_padding_keeps_the_size__but_not(snippet, old, new, fails):
    """Without padding, 8 pixels become 6, and with 2, they become 10."""
    edited = in_cell(snippet, "network", old, new)
    fails(test_padding_keeps_the_size, edited)


def test_padding_keeps_the_size__ends_with_a_stride(snippet, fails):
    """With `stride=2`, the window moves two pixels at a time."""
    old, new = "(1, 16, 3, padding=1)", "(1, 16, 3, padding=1, stride=2)"
    edited = in_cell(snippet, "network", old, new)
    fails(test_padding_keeps_the_size, edited)


def test_pooling_halves_the_size(size=(8, 8), pool=F.max_pool2d):
    torch.manual_seed(0)
    x = torch.randn(2, 3, *size)
    pooled = pool(x, 2)
    height, width = size
    assert pooled.shape[2:] == (height / 2, width / 2)
    for i in range(height // 2):
        for j in range(width // 2):
            block = x[:, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            assert torch.equal(pooled[:, :, i, j], block.amax(dim=(2, 3)))


@pytest.mark.parametrize(
    "size", [(2, 2), (4, 4), (6, 10)], ids="{0[0]} x {0[1]}".format
)
def test_pooling_halves_the_size__also_of(size):
    test_pooling_halves_the_size(size)


def test_pooling_halves_the_size__but_not_the_mean(fails):
    """`avg_pool2d` takes the mean of each block."""
    fails(test_pooling_halves_the_size, (8, 8), F.avg_pool2d)


def test_pooling_halves_the_size__ends_with_an_odd_size(fails):
    """Of 5 pixels it makes 2, and leaves the last one out."""
    fails(test_pooling_halves_the_size, (5, 5))


def test_linear_gets_128_numbers(snippet):
    run = after_network(snippet, "shapes")

    assert run.x.shape == (5, 128)
    assert 128 == 32 * 2 * 2 == run.model.linear.in_features
    met = []
    run.model.linear.register_forward_pre_hook(
        lambda _, inputs: met.extend(inputs)
    )
    run.model(run.images[:5])
    torch.testing.assert_close(met, [run.x])


@edits(
    ("model.conv2(x).relu()", "model.conv2(x)"),
    ("x = images[:5]", "x = images[5:10]"),
    ("model.conv1(x).relu()", "model.conv1(x.mT).relu()"),
)
def test_linear_gets_128_numbers__but_not(snippet, old, new, fails):
    """Other pictures or steps give `linear` other numbers."""
    edited = in_cell(snippet, "shapes", old, new)
    fails(test_linear_gets_128_numbers, edited)


@pytest.mark.parametrize("size", [4, 28])
def test_linear_gets_128_numbers__ends_with_pictures_of_size(
    snippet, size, fails
):
    """Smaller or larger pictures leave fewer or more numbers."""
    old, new = "x = images[:5]", f"x = torch.zeros(5, 1, {size}, {size})"
    edited = in_cell(snippet, "shapes", old, new)
    fails(test_linear_gets_128_numbers, edited)


# Why relu?


def bends(function, *shape):
    """Say how far a function of a tensor is from any linear layer."""
    torch.manual_seed(0)
    a, b, zero = torch.randn(shape), torch.randn(shape), torch.zeros(shape)
    with torch.no_grad():
        gap = function(a + b) + function(zero) - function(a) - function(b)
    return gap.abs().max().item()


def test_layers_in_a_row_are_one_layer(snippet):
    run = after(snippet, "so-far", "relu")

    assert run.in_a_row.tolist() == [-11, -5, 1, 7, 13]
    assert torch.equal(run.in_a_row, 6 * run.x + 1)


@pytest.mark.parametrize("hidden", [1, 32, 100])
def test_layers_in_a_row_are_one_layer__also_with_hidden(hidden):
    torch.manual_seed(0)
    first, second = nn.Linear(64, hidden), nn.Linear(hidden, 10)
    one = nn.Linear(64, 10)
    with torch.no_grad():
        one.weight.copy_(second.weight @ first.weight)
        one.bias.copy_(second(first.bias))
        x = torch.randn(100, 64)
        torch.testing.assert_close(one(x), second(first(x)))


def test_layers_in_a_row_are_one_layer__also_convolutions(snippet):
    model = after_network(snippet).model
    assert bends(lambda x: model.conv2(model.conv1(x)), 1, 8, 8) < 1e-5


@edits(
    ("in_a_row = second(first(x))", "in_a_row = second(first(x).relu())"),
    ("return 2 * x + 1", "return 2 * x.square() + 1"),
)
def test_layers_in_a_row_are_one_layer__but_not(snippet, old, new, fails):
    """With `relu` in between, or a square, the line is no longer straight."""
    fails(test_layers_in_a_row_are_one_layer, snippet.edit(old, new))


def test_relu_makes_a_bend(snippet):
    run = after(snippet, "so-far", "relu")

    inner = run.first(run.x)
    cut = [max(number, 0) for number in inner.tolist()]
    assert run.with_relu.tolist() == [3 * number - 2 for number in cut]
    rises = run.with_relu.diff().unique()  # a linear layer has one
    assert len(rises) > 1


@pytest.mark.parametrize("seed", [0, 1])
def test_relu_makes_a_bend__also_between_layers(seed):
    torch.manual_seed(seed)
    first, second = nn.Linear(64, 32), nn.Linear(32, 10)
    assert bends(lambda x: second(first(x).relu()), 64) > 0.01
    assert bends(lambda x: second(first(x)), 64) < 1e-5


@edits(
    ("second(first(x).relu())", "second(first(x))"),
    ("second(first(x).relu())", "second(first(x)).relu()"),
)
def test_relu_makes_a_bend__but_not(snippet, old, new, fails):
    """Without `relu`, the line is straight; at the end, it bends elsewhere."""
    fails(test_relu_makes_a_bend, snippet.edit(old, new))


def test_relu_makes_a_bend__ends_where_all_numbers_are_positive(
    snippet, fails
):
    """Where the first layer gives no negative number, `relu` changes
    nothing.
    """
    old = "[-2.0, -1.0, 0.0, 1.0, 2.0]"
    fails(test_relu_makes_a_bend, snippet.edit(old, "[0.0, 1.0, 2.0, 3.0]"))


# Count parameters


def numbers_in(module):
    """Count the numbers in the parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_network_has_6090_parameters(snippet):
    run = after_network(snippet, "count")

    conv1, conv2, linear = run.model.children()
    assert numbers_in(conv1) == 16 * 9 + 16 == 160
    assert numbers_in(conv2) == 32 * 16 * 9 + 32 == 4640
    assert numbers_in(linear) == 128 * 10 + 10 == 1290
    assert run.total == 160 + 4640 + 1290 == 6090


def test_the_network_has_6090_parameters__also_a_smaller_one_1898(snippet):
    run = after(snippet, "so-far", "small", "small-checked")

    small, x = run.small, run.images[:5]
    assert run.numbers == numbers_in(small) == 80 + 1168 + 650 == 1898
    for conv in (small.conv1, small.conv2):
        x = F.max_pool2d(conv(x).relu(), 2)
    assert x.shape == (5, 16, 2, 2)
    torch.testing.assert_close(run.scores, small.linear(x.flatten(1)))


@edits(
    ("Conv2d(1, 16, 3, padding=1)", "Conv2d(1, 16, 3, padding=1, bias=False)"),
    ("Conv2d(16, 32, 3, padding=1)", "Conv2d(16, 32, 5, padding=2)"),
)
def test_the_network_has_6090_parameters__but_not(snippet, old, new, fails):
    """A window of 5 x 5 has 25 weights for each channel."""
    edited = in_cell(snippet, "network", old, new)
    fails(test_the_network_has_6090_parameters, edited)


def test_the_network_has_6090_parameters__but_not_by_their_length(
    snippet, fails
):
    """`len` of a parameter is only the size of its first axis."""
    edited = snippet.edit("total = sum(p.numel()", "total = sum(len(p)")
    fails(test_the_network_has_6090_parameters, edited)


# What goes wrong


def test_the_error_counts_rows_and_features(snippet, count=5):
    run = after_network(snippet, "unpooled")

    shown = raised_in(snippet.only(*NETWORK, "unpooled"), "unpooled")
    assert "(5x512 and 128x10)" in str(shown)
    text = error_of(run.Unpooled(), run.images[:count])
    assert "mat1 and mat2 shapes cannot be multiplied" in text
    assert f"({count}x{32 * 4 * 4} and 128x10)" in text


@pytest.mark.parametrize("count", [1, 32], ids="{} pictures".format)
def test_the_error_counts_rows_and_features__also_for(snippet, count):
    test_the_error_counts_rows_and_features(snippet, count)


def test_the_error_counts_rows_and_features__but_not_with_pooling(
    snippet, fails
):
    """With its pooling, `linear` gets its 128 numbers, and no error comes."""
    old, new = "self.conv2(x).relu()", "F.max_pool2d(self.conv2(x).relu(), 2)"
    edited = in_cell(snippet, "unpooled", old, new)
    fails(test_the_error_counts_rows_and_features, edited)


def test_the_error_counts_rows_and_features__but_not_with_512_inputs(
    snippet, fails
):
    """A `Linear(512, 10)` takes all the numbers of the larger pictures."""
    edited = in_cell(snippet, "network", "Linear(128, 10)", "Linear(512, 10)")
    fails(test_the_error_counts_rows_and_features, edited)
