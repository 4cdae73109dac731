"""The claims of docs/models/evaluation.md."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import compiled, printed
from tests.helpers import worlds


def evaluated(snippet, model, loader):
    """Run the cell `evaluate` on another model, and return what it counts."""
    variables = {"torch": torch, "F": F, "model": model, "val_loader": loader}
    cell = snippet.cells()["evaluate"]
    with no_error():
        exec(compiled(cell, snippet.path), variables)
    assert variables["scores"].grad_fn is None
    assert [each for each in model.modules() if not each.training] == []
    loss, correct, count = (variables[n] for n in ("loss", "correct", "count"))
    return loss / count, correct / count


def small():
    """Return a model of four numbers, as that of the page."""
    layers = [nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)]
    return nn.Sequential(*layers, nn.Linear(8, 3))


def samples(count, dtype=torch.float32):
    """Return that many samples of four numbers, with their labels."""
    torch.manual_seed(0)
    labels = torch.arange(count) % 3
    inputs = torch.randn(count, 4) + 2 * F.one_hot(labels, 4)
    return TensorDataset(inputs.to(dtype), labels)


def mean_over_all(model, data):
    """Return loss and accuracy over some data, in one batch."""
    inputs, labels = data[:]
    with torch.no_grad():
        scores = copy.deepcopy(model).eval()(inputs)
    loss = F.cross_entropy(scores, labels).item()
    if labels.is_floating_point():
        labels = labels.argmax(dim=1)
    return loss, (scores.max(dim=1).indices == labels).double().mean().item()


def test_evaluate_weighs_each_sample(
    snippet, size=50, data=None, model=None, drop_last=False
):
    run = snippet.after("evaluate")
    assert run.count == 297
    counted = run.loss / run.count, run.correct / run.count
    expected = mean_over_all(run.model, run.val_set)
    assert counted == pytest.approx(expected, rel=1e-5)

    data, model = data or samples(150), model or small()
    loader = DataLoader(data, size, drop_last=drop_last)
    result = evaluated(snippet, model, loader)
    assert [type(each) for each in result] == [float, float]
    assert result == pytest.approx(mean_over_all(model, data), rel=1e-5)


@pytest.mark.parametrize("size", [1, 64, 149, 1000])
def test_evaluate_weighs_each_sample__also_in_batches_of(snippet, size):
    test_evaluate_weighs_each_sample(snippet, size)


def test_evaluate_weighs_each_sample__also_in_float64(snippet):
    data = samples(150, torch.float64)
    test_evaluate_weighs_each_sample(snippet, 50, data, small().double())


def test_evaluate_weighs_each_sample__also_of_many_classes(snippet):
    torch.manual_seed(1)
    data = TensorDataset(50 * torch.randn(300, 40), torch.arange(300) % 40)
    test_evaluate_weighs_each_sample(snippet, 64, data, nn.Identity())


def some_ignored(labels):
    """Ignore each seventh label."""
    labels[::7] = -100
    return labels


def one_per_pixel(labels):
    """Give each of two pixels a label."""
    return labels[:, None].expand(-1, 2)


@pytest.mark.parametrize("change", [some_ignored, one_per_pixel])
def test_evaluate_weighs_each_sample__ends_for_labels(snippet, change, fails):
    """With ignored labels, or one per pixel, `count` is wrong."""
    inputs, labels = samples(150)[:]
    data = TensorDataset(inputs, change(labels))
    layers = [nn.Linear(4, 6), nn.Unflatten(1, (3, 2))]
    model = nn.Sequential(*layers) if change is one_per_pixel else small()
    fails(test_evaluate_weighs_each_sample, snippet, 50, data, model)


def test_evaluate_weighs_each_sample__ends_with_drop_last(snippet, fails):
    """With `drop_last=True`, the samples of the last batch are left out."""
    options = (64, samples(150), small(), True)
    fails(test_evaluate_weighs_each_sample, snippet, *options)


def test_evaluate_weighs_each_sample__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`, the loss of each batch is rounded."""
    data, model = samples(150, torch.bfloat16), small().bfloat16()
    fails(test_evaluate_weighs_each_sample, snippet, 50, data, model)


class Hidden(nn.Module):
    """A model that keeps its dropout in a plain list."""

    def __init__(self):
        super().__init__()
        self.head, self.drops = nn.Linear(4, 3), [nn.Dropout(0.5)]

    def forward(self, inputs):
        """Return the scores of some inputs."""
        return self.head(self.drops[0](inputs))


def test_evaluate_weighs_each_sample__ends_for_layers_in_a_list(
    snippet, fails
):
    """`eval()` does not reach a dropout in a plain list, so the scores are
    random.
    """
    options = (50, samples(150), Hidden())
    fails(test_evaluate_weighs_each_sample, snippet, *options)


@pytest.mark.parametrize("size", [3, 50])
def test_evaluate_weighs_each_sample__ends_for_one_hot_labels(
    snippet, size, fails
):
    """One-hot labels raise an error, or give a wrong accuracy if a batch has
    as many samples as classes.
    """
    inputs, labels = samples(150)[:]
    data = TensorDataset(inputs, F.one_hot(labels).float())
    fails(test_evaluate_weighs_each_sample, snippet, size, data, small())


@edits(
    ("means", 'labels, reduction="sum")', "labels)"),
    ("the last batch alone", "loss += F", "loss = F"),
    ("the last answers alone", "correct += (", "correct = ("),
    ("training mode", "model.eval()  # the", "model.train()  # the"),
)
def test_evaluate_weighs_each_sample__but_not_with(snippet, old, new, fails):
    """Means are not sums, `=` forgets the batches before, and in training
    mode dropout changes the scores.
    """
    fails(test_evaluate_weighs_each_sample, snippet.edit(old, new))


def state_of(model):
    """Return copies of each tensor of a model, and of the gradients."""
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state = {name: each.detach().clone() for name, each in named.items()}
    for name, each in model.named_parameters():
        if each.grad is not None:
            state[f"{name}.grad"] = each.grad.clone()
    return state


def test_evaluate_changes_nothing(snippet, model=None, inputs=None):
    run = snippet.after("evaluate")
    model = model or run.model
    inputs = run.val_set[:][0] if inputs is None else inputs
    labels = torch.arange(len(inputs)) % 3
    for _ in range(2):
        before = state_of(model)
        with_labels = TensorDataset(inputs, labels)
        # No batch of 9 has a single sample, which training mode refuses.
        evaluated(snippet, model, DataLoader(with_labels, batch_size=9))
        after = state_of(model)
        assert list(after) == list(before)
        changed = [n for n in before if not after[n].equal(before[n])]
        assert changed == []
        (100 * F.cross_entropy(model(inputs), labels)).backward()


@worlds.each(
    "make",
    worlds.MODELS,
    *("with BatchNorm", "with dropout", "tied", "frozen in part", "float64"),
)
def test_evaluate_changes_nothing__also_for_a_model(snippet, make):
    model = make()
    inputs = torch.randn(20, 3, dtype=next(model.parameters()).dtype)
    test_evaluate_changes_nothing(snippet, model, inputs)


def test_evaluate_changes_nothing__also_for_images(snippet):
    layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout2d()]
    layers += [nn.InstanceNorm2d(2, track_running_stats=True), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(18, 3))
    test_evaluate_changes_nothing(snippet, model, torch.randn(20, 1, 5, 5))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_evaluate_changes_nothing__ends_with_max_norm(snippet, kind, fails):
    """With `max_norm`, an embedding rescales the rows that it looks up."""
    layers = [kind(9, 8, max_norm=0.1), nn.Flatten(), nn.LazyLinear(3)]
    model, inputs = nn.Sequential(*layers), torch.randint(9, (20, 3))
    model(inputs)
    nn.init.normal_(model[0].weight)
    fails(test_evaluate_changes_nothing, snippet, model, inputs)


@edits(
    ("in training mode", "model.eval()  # the", "model.train()  # the"),
    ("without train()", "model.train()  # before", "# before"),
    (
        "clearing gradients",
        "        count += len(labels)\n",
        "        count += len(labels)\n        model.zero_grad()\n",
    ),
)
def test_evaluate_changes_nothing__but_not(snippet, old, new, fails):
    """In training mode, the running statistics move; `zero_grad()` clears
    gradients that you collect; without `train()`, the model stays in
    evaluation mode.
    """
    fails(test_evaluate_changes_nothing, snippet.edit(old, new))


def outputs_and_gradients(layer, batches, moved):
    """Return what a layer computes in training, then in evaluation."""
    seen = []
    for index, batch in enumerate((*batches, *batches)):
        if index == len(batches):
            layer = moved(layer)
        layer.train(index < len(batches))
        torch.manual_seed(100 + index)
        inputs = batch.clone().requires_grad_()
        with no_error():
            output = layer(inputs)
        (output * torch.randn(output.shape)).sum().backward()
        seen += [output.detach(), inputs.grad]
    return seen


def as_it_is(layer):
    """Return a layer."""
    return layer


def test_these_lines_are_dropout_and_batchnorm(
    snippet, batches=None, norm=None, moved=as_it_is
):
    run = snippet.after("by-hand")
    torch.manual_seed(0)
    if batches is None:
        batches = 2 * torch.randn(12, 20, 32) + 7
    norm = norm or nn.BatchNorm1d(32)
    pairs = [
        (1, run.BatchNorm(), copy.deepcopy(norm)),
        (0.005, run.BatchNorm(), copy.deepcopy(norm)),
        (1, run.Dropout(), nn.Dropout()),
    ]
    for scale, *pair in pairs:
        inputs = scale * batches
        seen = (outputs_and_gradients(each, inputs, moved) for each in pair)
        for mine, other in zip(*seen, strict=True):
            assert mine.shape == other.shape
            difference = (mine - other).abs().max() / other.abs().max()
            assert difference < 1e-3
    batch = batches[0].float()
    fresh = run.BatchNorm().eval()(batch), nn.BatchNorm1d(32).eval()(batch)
    torch.testing.assert_close(*fresh)


@pytest.mark.parametrize(
    ("rows", "scale", "center"),
    [(2, 1, 0), (500, 0.1, -3), (7, 100, 1000)],
    ids=["batches of two", "small numbers", "large numbers"],
)
def test_these_lines_are_dropout_and_batchnorm__also_for(
    snippet, rows, scale, center
):
    torch.manual_seed(1)
    batches = scale * torch.randn(60, rows, 32) + center
    norm = nn.BatchNorm1d(32, affine=False)
    test_these_lines_are_dropout_and_batchnorm(snippet, batches, norm)


def test_these_lines_are_dropout_and_batchnorm__also_in_float64(snippet):
    torch.manual_seed(0)
    batches = 2 * torch.randn(12, 20, 32, dtype=torch.float64) + 7
    norm = nn.BatchNorm1d(32).double()
    test_these_lines_are_dropout_and_batchnorm(snippet, batches, norm)


def test_these_lines_are_dropout_and_batchnorm__also_as_compared(snippet):
    run = snippet.after("compare")
    numbers = torch.tensor([-2.0, 5.0]).repeat(50)
    assert run.apart([nn.Identity(), nn.ReLU()], numbers) == 12
    assert run.apart([nn.Dropout(), nn.Dropout()], numbers) == 0
    assert run.worst < 1e-3


def once_more(layer):
    """Return a copy of a layer that has also seen a batch without a graph."""
    layer = copy.deepcopy(layer).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        layer(torch.ones(4, 32))
        layer.train()(3 * torch.randn(4, 32))
    return layer


def test_these_lines_are_dropout_and_batchnorm__also_in_a_deepcopy(snippet):
    options = (None, None, once_more)
    test_these_lines_are_dropout_and_batchnorm(snippet, *options)


def test_these_lines_are_dropout_and_batchnorm__ends_in_bfloat16(
    snippet, fails
):
    """In `bfloat16`, the two round differently."""
    batches = 2 * torch.randn(12, 20, 32, dtype=torch.bfloat16) + 7
    norm = nn.BatchNorm1d(32).bfloat16()
    fails(test_these_lines_are_dropout_and_batchnorm, snippet, batches, norm)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_these_lines_are_dropout_and_batchnorm__ends_with_a_trained(
    snippet, name, fails
):
    """The real layer multiplies by a weight that it learns, and adds a
    bias.
    """
    norm = nn.BatchNorm1d(32)
    nn.init.constant_(getattr(norm, name), 3.0)
    fails(test_these_lines_are_dropout_and_batchnorm, snippet, None, norm)


def test_these_lines_are_dropout_and_batchnorm__ends_for_images(
    snippet, fails
):
    """For images, the real layer takes the mean over their pixels as well."""
    images, norm = 3 * torch.randn(5, 4, 3, 6, 6) + 1, nn.BatchNorm2d(3)
    fails(test_these_lines_are_dropout_and_batchnorm, snippet, images, norm)


# By hand, the variance of one sample is nan, of which torch warns.
@pytest.mark.filterwarnings("ignore:var")
def test_these_lines_are_dropout_and_batchnorm__ends_for_one_sample(
    snippet, fails
):
    """The real layer refuses a batch of one in training."""
    fails(
        test_these_lines_are_dropout_and_batchnorm,
        snippet,
        torch.randn(3, 1, 32),
    )


def test_these_lines_are_dropout_and_batchnorm__ends_after_loading(
    snippet, fails
):
    """The real layer saves its statistics in the state dict; ours doesn't."""

    def loaded(layer):
        fresh = copy.deepcopy(layer)
        fresh.__init__(*([32] if isinstance(layer, nn.BatchNorm1d) else []))
        fresh.__dict__.pop("mean", None)
        fresh.__dict__.pop("var", None)
        fresh.load_state_dict(layer.state_dict())
        return fresh

    options = (None, None, loaded)
    fails(test_these_lines_are_dropout_and_batchnorm, snippet, *options)


@pytest.mark.parametrize("momentum", [0.2, None])
def test_these_lines_are_dropout_and_batchnorm__ends_with_momentum(
    snippet, momentum, fails
):
    """With `momentum=0.2` the real layer goes a fifth of the way, and with
    `None` it takes the mean over all batches.
    """
    norm = nn.BatchNorm1d(32, momentum=momentum)
    fails(test_these_lines_are_dropout_and_batchnorm, snippet, None, norm)


@edits(
    ("1", "if not self.training:", "if False:"),
    ("2", ".bernoulli_(0.5) / 0.5", ".bernoulli_(0.5)"),
    ("3", "mean, var = self.mean, self.var", "mean, var = 0.0, 1.0"),
    ("4", "var(dim=0, correction=0)", "var(dim=0)"),
    ("4 in evaluation", "        if self.training:\n", "        if True:\n"),
    ("4 without gradients", "x.mean(dim=0), x", "x.detach().mean(dim=0), x"),
    ("5", "self.mean += 0.1", "self.mean += 0.2"),
    ("5 twice", "self.var += 0.1", "self.var += 0.2"),
    ("5 corrected", "x.var(dim=0).detach()", "var.detach()"),
    ("the last, without 1e-5", "(var + 1e-5)", "var"),
)
def test_these_lines_are_dropout_and_batchnorm__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each of the numbered lines counts; the running variance, for example,
    divides by one less than the number of samples.
    """
    edited = snippet.edit(old, new)
    fails(test_these_lines_are_dropout_and_batchnorm, edited)


def said(snippet, name):
    """Return the lines that a cell prints."""
    snippet.after(name)
    return printed[-1][name].splitlines()


def shown(snippet):
    """Return what the cell `switches` prints of each combination."""
    happens = {}
    for line in said(snippet, "switches"):
        words = line.split()
        values = tuple(word == "True" for word in words if word in TRUTHS)
        happens[words[0], words[1]] = values
    return happens


TRUTHS = ("True", "False")
LAYERS = {
    "little dropout": (nn.BatchNorm1d(9), nn.Dropout(0.1), (50, 9)),
    "images": (nn.BatchNorm2d(9), nn.Dropout2d(), (20, 9, 3, 3)),
    "volumes": (nn.BatchNorm3d(9), nn.Dropout3d(), (20, 9, 2, 2, 2)),
}


def happens(name, *, training, recording):
    """Return what happens in a pass of other layers, in float64."""
    norm, dropout, shape = copy.deepcopy(LAYERS[name])
    model = nn.Sequential(norm, dropout).double().train(training)
    inputs = 3 + 2 * torch.randn(shape, dtype=torch.float64)
    before = norm.running_mean.clone(), norm.running_var.clone()
    with torch.set_grad_enabled(recording):
        first, second = model(inputs), model(inputs)
    mean, var = norm.running_mean, norm.running_var
    assert mean.equal(before[0]) == var.equal(before[1])
    drops = not first.equal(second)
    return drops, not mean.equal(before[0]), first.requires_grad


def test_eval_does_not_stop_the_graph(snippet):
    combinations = shown(snippet)
    assert combinations["eval", "enable_grad"] == (False, False, True)
    assert combinations["train", "enable_grad"] == (True, True, True)


@pytest.mark.parametrize("name", LAYERS)
def test_eval_does_not_stop_the_graph__also_for(name):
    seen = happens(name, training=False, recording=True)
    assert seen == (False, False, True)


PASSES = "first, second = trial(images), trial(images)"


@edits(
    ("F.dropout", PASSES, f"{PASSES[:-7]}F.dropout(images))"),
    ("train", "getattr(copy.deepcopy(model), switch)()", "model.train()"),
    ("no_grad", "with recording():", "with torch.no_grad():"),
)
def test_eval_does_not_stop_the_graph__but_not_with(snippet, old, new, fails):
    """`F.dropout` drops in evaluation mode too; under `no_grad()`, there is no
    graph.
    """
    fails(test_eval_does_not_stop_the_graph, snippet.edit(old, new))


def test_eval_does_not_stop_the_graph__ends_for_a_frozen_model(snippet, fails):
    """If no parameter requires a gradient, there is no graph."""
    loop = 'for switch in ("train'
    frozen = snippet.edit(loop, f"model.requires_grad_(False)\n{loop}")
    fails(test_eval_does_not_stop_the_graph, frozen)


def test_no_grad_does_not_stop_the_layers(snippet):
    combinations = shown(snippet)
    assert combinations["train", "no_grad"] == (True, True, False)
    assert combinations["eval", "no_grad"] == (False, False, False)


@pytest.mark.parametrize("name", LAYERS)
def test_no_grad_does_not_stop_the_layers__also_for(name):
    seen = happens(name, training=True, recording=False)
    assert seen == (True, True, False)


@edits(
    ("without dropout", "nn.Dropout(0.5)\nm", "nn.Identity()\nm"),
    (
        "with a norm that is frozen",
        f"            {PASSES}",
        f"            trial[1].eval()\n            {PASSES}",
    ),
    ("with a graph", "with recording():", "with torch.enable_grad():"),
)
def test_no_grad_does_not_stop_the_layers__but_not(snippet, old, new, fails):
    """Without dropout nothing is dropped, and a frozen BatchNorm stays;
    `enable_grad()` records a graph.
    """
    fails(test_no_grad_does_not_stop_the_layers, snippet.edit(old, new))


class Decoder(nn.Module):
    """A decoder layer that looks at its own input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16)

    def forward(self, inputs):
        """Return what the layer makes of the inputs."""
        return self.layer(inputs, inputs)


class Attention(nn.Module):
    """Attention between the rows of its input."""

    def __init__(self, dropout):
        super().__init__()
        self.layer = nn.MultiheadAttention(8, 2, dropout)

    def forward(self, inputs):
        """Return what the rows make of each other."""
        return self.layer(inputs, inputs, inputs)[0]


TRACKS = {"track_running_stats": True}
SEQUENCE = (6, 4, 8)
LISTENING = {
    "Dropout": (nn.Dropout, SEQUENCE),
    "Dropout1d": (nn.Dropout1d, SEQUENCE),
    "Dropout2d": (nn.Dropout2d, (6, 4, 5, 5)),
    "Dropout3d": (nn.Dropout3d, (6, 4, 5, 5, 5)),
    "AlphaDropout": (nn.AlphaDropout, SEQUENCE),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout, SEQUENCE),
    "RReLU": (nn.RReLU, SEQUENCE),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), SEQUENCE),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), (6, 4, 5, 5)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(4), (6, 4, 5, 5, 5)),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16),
        SEQUENCE,
    ),
    "TransformerDecoderLayer": (Decoder, SEQUENCE),
}
TOLD = {
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4, **TRACKS), SEQUENCE),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, **TRACKS), (6, 4, 5, 5)),
    "MultiheadAttention": (lambda: Attention(0.1), SEQUENCE),
    "RNN": (lambda: nn.RNN(8, 5, 2, dropout=0.5), SEQUENCE),
    "LSTM": (lambda: nn.LSTM(8, 5, 2, dropout=0.1), SEQUENCE),
    "GRU": (lambda: nn.GRU(8, 5, 3, dropout=0.5), SEQUENCE),
}
DEAF = {
    "LayerNorm": (lambda: nn.LayerNorm(8), SEQUENCE),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), SEQUENCE),
    "RMSNorm": (lambda: nn.RMSNorm(8), SEQUENCE),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4), SEQUENCE),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4), (6, 4, 5, 5)),
    "Linear": (lambda: nn.Linear(8, 3), SEQUENCE),
    "Conv1d": (lambda: nn.Conv1d(4, 2, 3), SEQUENCE),
    "Conv2d": (lambda: nn.Conv2d(4, 2, 3), (6, 4, 5, 5)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 2, 3), (6, 4, 5, 5)),
    "Conv3d": (lambda: nn.Conv3d(4, 2, 3), (6, 4, 5, 5, 5)),
    "ReLU": (nn.ReLU, SEQUENCE),
    "GELU": (nn.GELU, SEQUENCE),
    "attention": (lambda: Attention(0.0), SEQUENCE),
    "LSTM": (lambda: nn.LSTM(8, 5, 2), SEQUENCE),
    "GRU": (lambda: nn.GRU(8, 5, 2), SEQUENCE),
    "RNN": (lambda: nn.RNN(8, 5, 2), SEQUENCE),
    "bidirectional LSTM": (
        lambda: nn.LSTM(8, 5, bidirectional=True),
        SEQUENCE,
    ),
}


def listens(make, shape):
    """Return whether a layer computes something else in evaluation."""
    torch.manual_seed(0)
    layer, inputs = make(), torch.randn(shape)
    outputs = [layer.train(mode)(inputs) for mode in (True, False)]
    if isinstance(layer, nn.RNNBase):
        outputs = [output for output, _ in outputs]
    return not outputs[0].equal(outputs[1])


def test_some_layers_listen(snippet, batch=None):
    run = snippet.after("layers")
    run.changes.__globals__["batch"] = run.batch if batch is None else batch

    same = [layer for layer in run.layers[:4] if not run.changes(layer)]
    assert same == []


@pytest.mark.parametrize("name", LISTENING)
def test_some_layers_listen__also_for(name):
    assert listens(*LISTENING[name])


def test_some_layers_listen__ends_for_rrelu_of_positive_numbers(
    snippet, fails
):
    """`RReLU` returns positive inputs as they are, in both modes."""
    fails(test_some_layers_listen, snippet, torch.rand(6, 4, 8) + 1)


@edits(
    ("with dropout of 0", "[nn.Dropout(),", "[nn.Dropout(0.0),"),
    ("with LeakyReLU", "nn.RReLU()", "nn.LeakyReLU()"),
    (
        "without running statistics",
        "nn.BatchNorm1d(4)]",
        "nn.BatchNorm1d(4, track_running_stats=False)]",
    ),
    ("in evaluation mode", "layer.train()(batch)", "layer.eval()(batch)"),
)
def test_some_layers_listen__but_not(snippet, old, new, fails):
    """A layer that draws nothing and tracks nothing, or that is in evaluation
    mode already, does not change.
    """
    fails(test_some_layers_listen, snippet.edit(old, new))


def test_some_layers_listen_if_told(snippet):
    run = snippet.after("layers")

    same = [layer for layer in run.layers[4:6] if not run.changes(layer)]
    assert same == []


@pytest.mark.parametrize("name", TOLD)
def test_some_layers_listen_if_told__also_for(name):
    assert listens(*TOLD[name])


@edits(
    ("InstanceNorm by default", ", track_running_stats=True)]", ")]"),
    ("an LSTM by default", "nn.LSTM(8, 5, 2, dropout=0.5)", "nn.LSTM(8, 5)"),
)
def test_some_layers_listen_if_told__but_not(snippet, old, new, fails):
    """By default, `InstanceNorm` tracks nothing and an `LSTM` drops
    nothing.
    """
    fails(test_some_layers_listen_if_told, snippet.edit(old, new))


@pytest.mark.filterwarnings("ignore:dropout option adds dropout")
def test_some_layers_listen_if_told__but_not_in_a_single_layer(snippet, fails):
    """With a single layer there is no dropout, because it acts between
    layers.
    """
    edited = snippet.edit("nn.LSTM(8, 5, 2, dropout", "nn.LSTM(8, 5, dropout")
    fails(test_some_layers_listen_if_told, edited)


def test_other_layers_do_not_listen(snippet):
    run = snippet.after("layers")

    changed = [layer for layer in run.layers[6:] if run.changes(layer)]
    assert changed == []
    kinds = {type(layer) for layer in run.layers[6:]}
    assert kinds >= {nn.Linear, nn.Conv1d, nn.LayerNorm, nn.GroupNorm}


@pytest.mark.parametrize("name", DEAF)
def test_other_layers_do_not_listen__also_for(name):
    assert not listens(*DEAF[name])


@edits(
    ("Dropout", "[nn.LayerNorm(8),", "[nn.Dropout(), nn.LayerNorm(8),"),
    ("BatchNorm", "nn.GroupNorm(2, 4),", "nn.BatchNorm1d(4),"),
    ("RReLU", "nn.GELU()]", "nn.RReLU()]"),
)
def test_other_layers_do_not_listen__but_not(snippet, old, new, fails):
    """Layers with running statistics or random numbers do change."""
    fails(test_other_layers_do_not_listen, snippet.edit(old, new))


def test_eval_stays_on(snippet, added=None):
    run = snippet.edit("model.train()  # b", "#").after("evaluate")
    model = run.model
    if added:
        model.append(added)

    for images, labels in run.train_loader:
        F.cross_entropy(model(images), labels).backward()
        run.optimizer.step()
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    for each in (model, copy.deepcopy(model), model.double()):
        training = [layer for layer in each.modules() if layer.training]
        assert training == []
    assert all(layer.training for layer in model.train().modules())


def test_eval_stays_on__ends_for_a_layer_added_later(snippet, fails):
    """A layer that joins the model later is in training mode."""
    fails(test_eval_stays_on, snippet, nn.Dropout(0.1))


@edits(
    ("without eval", "model.eval()  # the", "# the"),
    ("in one layer", "model.eval()  # the", "model[1].eval()  # the"),
)
def test_eval_stays_on__but_not(snippet, old, new, fails):
    """Without a call for the whole model, other layers stay in training
    mode.
    """
    fails(test_eval_stays_on, snippet.edit(old, new))


def centers_of(norm, batches):
    """Return where evaluations center each batch that a layer has learned."""
    centers = []
    for batch in batches:
        norm.train()(batch).sum().backward()
        centers.append(norm.eval()(batch).mean().item())
    return centers


def test_running_numbers_catch_up(snippet, norm=None):
    run = snippet.after("lag")
    centers = centers_of(norm, run.batches) if norm else run.centers

    assert run.batches.shape == (60, 5_000, 1)
    for batch in run.batches:
        assert batch.mean().item() == pytest.approx(7, abs=0.15)
        assert batch.std().item() == pytest.approx(2, abs=0.15)
    assert centers[0] == pytest.approx(5.5, abs=0.1)
    assert centers[59] == pytest.approx(0, abs=0.1)
    in_training = nn.BatchNorm1d(1)(run.batches[0])
    assert in_training.mean().item() == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.BatchNorm1d, (-1, 1)), (nn.BatchNorm2d, (-1, 1, 3, 3))],
)
def test_running_numbers_catch_up__also_exactly(layer, shape):
    norm, batch = layer(1), torch.tensor([5.0, 9.0]).repeat(99)
    batch = batch.reshape(shape)
    means = []
    for _ in range(60):
        assert abs(norm.train()(batch).mean()) < 1e-4
        means.append(norm.eval()(batch).mean().item())

    assert means[0] == pytest.approx(5.5, abs=0.1)
    assert abs(means[-1]) < 0.1


@edits(
    ("a fast average", "Norm1d(1), 2", "Norm1d(1, momentum=0.9), 2"),
    ("a slow average", "Norm1d(1), 2", "Norm1d(1, momentum=0.01), 2"),
    ("in evaluation", "lagging.train()(batch)", "lagging.eval()(batch)"),
)
def test_running_numbers_catch_up__but_not(snippet, old, new, fails):
    """`momentum` sets the pace: with 0.9, one batch is enough; with 0.01,
    sixty are not.
    """
    fails(test_running_numbers_catch_up, snippet.edit(old, new))


class Checkpointed(nn.BatchNorm1d):
    """A layer that is computed again for its backward pass."""

    def forward(self, inputs):
        """Return what a layer makes of the inputs."""
        return checkpoint(super().forward, inputs, use_reentrant=False)


def test_running_numbers_catch_up__ends_in_a_checkpoint(snippet, fails):
    """In a block that `torch.utils.checkpoint` runs again, each batch moves
    the statistics twice.
    """
    fails(test_running_numbers_catch_up, snippet, Checkpointed(1))


def test_a_mean_of_means_weighs_wrongly(snippet):
    run = snippet.after("mean-of-means")
    images, labels = run.val_set[:]
    with torch.no_grad():
        scores = run.model.eval()(images)
    losses = F.cross_entropy(scores, labels, reduction="none")

    mean_of_means = sum(run.means) / len(run.means)
    assert mean_of_means != pytest.approx(losses.mean().item(), abs=0.01)
    assert len(run.means) == 2
    assert losses[:296].mean().item() == pytest.approx(run.means[0], rel=1e-4)
    assert losses[296].item() == pytest.approx(run.means[1], rel=1e-4)
    weighed = losses[:296].sum() / 592 + losses[296] / 2
    assert mean_of_means == pytest.approx(weighed.item(), rel=1e-4)


def test_a_mean_of_means_weighs_wrongly__but_not_with_a_loss_per_digit(
    snippet, fails
):
    """With one loss per digit, each digit counts once."""
    edited = snippet.edit(
        "[F.cross_entropy(*each).item() for each in batches]",
        "torch.cat([F.cross_entropy(*each, reduction='none')"
        " for each in batches])",
    )
    fails(test_a_mean_of_means_weighs_wrongly, edited)


def test_a_mean_of_means_weighs_wrongly__but_not_in_one_batch(snippet, fails):
    """In one batch, the mean of the means is the mean."""
    sizes = snippet.edit("(297, 99, 50, 296)", "(296, 99, 50, 297)")
    fails(test_a_mean_of_means_weighs_wrongly, sizes)


NORMS = {
    "a sequence of one step": (nn.BatchNorm1d, (1, 4, 1)),
    "BatchNorm2d": (nn.BatchNorm2d, (1, 4, 1, 1)),
    "BatchNorm3d": (nn.BatchNorm3d, (1, 4, 1, 1, 1)),
}


def test_batchnorm_refuses_one_value(
    snippet, layer=nn.BatchNorm1d, shape=(1, 4)
):
    lines = said(snippet, "one-sample")
    assert lines[0].startswith("Expected more than 1 value per channel")
    assert lines[1].startswith("tensor([[1.0000")

    with pytest.raises(ValueError, match="more than 1 value per channel"):
        layer(4)(torch.ones(shape))
    with no_error():
        assert layer(4).eval()(torch.ones(shape)).shape == shape


@pytest.mark.parametrize("name", NORMS)
def test_batchnorm_refuses_one_value__also_for(snippet, name):
    test_batchnorm_refuses_one_value(snippet, *NORMS[name])


def test_batchnorm_refuses_one_value__ends_if_no_statistics_are_tracked(
    snippet, fails
):
    """With `track_running_stats=False`, it raises in evaluation mode too."""

    def untracked(count):
        return nn.BatchNorm1d(count, track_running_stats=False)

    fails(test_batchnorm_refuses_one_value, snippet, untracked)


def test_batchnorm_refuses_one_value__ends_for_an_image(snippet, fails):
    """One image has many values per channel, one for each pixel."""
    shape = (1, 4, 5, 5)
    fails(test_batchnorm_refuses_one_value, snippet, nn.BatchNorm2d, shape)


@edits(
    ("in a LayerNorm", "one = nn.BatchNorm1d(4)", "one = nn.LayerNorm(4)"),
    ("of two samples", "one.train()(torch.ones(1,", "one(torch.ones(2,"),
)
def test_batchnorm_refuses_one_value__but_not(snippet, old, new, fails):
    """`LayerNorm` needs no other samples, and two are enough for
    `BatchNorm`.
    """
    fails(test_batchnorm_refuses_one_value, snippet.edit(old, new))


def test_functional_dropout_ignores_eval(snippet):
    run = snippet.after("functions")
    assert 0 in run.loose
    assert run.tied.equal(torch.ones(8, 1))
    # Each row is a mean of ones, unless some of them are dropped.
    assert not torch.allclose(run.attention, torch.ones(8, 1))
    loose, tied, _ = run.Functions().train()(torch.ones(99, 1))
    assert 0 in loose
    assert 0 in tied


@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_functional_dropout_ignores_eval__also_for_attention(rate):
    class Net(nn.Module):
        def forward(self, x):
            attend, p = F.scaled_dot_product_attention, rate
            told = p if self.training else 0.0
            return (attend(x, x, x, dropout_p=each) for each in (p, told))

    # Each row is a mean of ones, unless some of them are dropped.
    ones = torch.ones(2, 3, 50, 4)
    loose, tied = nn.Sequential(Net()).eval()(ones)
    assert not torch.allclose(loose, ones)
    torch.testing.assert_close(tied, ones)
    loose, tied = Net().train()(ones)
    assert not torch.allclose(loose, ones)
    assert not torch.allclose(tied, ones)


@edits(
    ("when told", "F.dropout(x), t", "F.dropout(x, training=False), t"),
    ("when not told", "(x, training=self.training)", "(x)"),
    ("with a p of 0", "(x, training=self.training)", "(x, 0.0)"),
    ("when attention is", "dropout_p=0.5", "dropout_p=0.5 * self.training"),
)
def test_functional_dropout_ignores_eval__but_not(snippet, old, new, fails):
    """Only the arguments decide: with `training=False` or a rate of 0 nothing
    is dropped, without them it is.
    """
    fails(test_functional_dropout_ignores_eval, snippet.edit(old, new))
