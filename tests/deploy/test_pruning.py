"""The claims of docs/deploy/pruning.md."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import true_since
from extensions.programs.snippet import after
from tests.helpers.programs import resumed
from tests.helpers.small_models import close, file_size

# Torch 2.12 says so even with ``check_invariants=True``, once.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Sparse invariant checks are implicitly disabled"
)


NET = ("digits", "net")
CUT = (*NET, "cut-channels")
COMPARED = (*CUT, "measure", "compare")
# Trains the model that it cuts.
TRAINED = (*NET, ("cut-channels", "measure", "compare"))
TENSORS = (
    "conv1.weight",
    "conv1.bias",
    "norm.weight",
    "norm.bias",
    "norm.running_mean",
    "norm.running_var",
    "conv2.weight",
)


def untrained(snippet, *cells):
    """Run these cells with a model that has not been trained."""
    if "epochs=4)" in str(snippet.cell("net").source):
        snippet = snippet.edit("epochs=4)", "epochs=0)")
    return after(snippet, *cells)


def right_of(run, model):
    """Count the digits that a model names right, of the 300 held out."""
    model.eval()
    with torch.no_grad():
        answers = model(run.images[run.valid]).argmax(dim=1)
    return (answers == run.labels[run.valid]).sum().item()


# Do this


def test_training_brings_the_answers_back(snippet):
    run = resumed(snippet, *TRAINED)

    seen = set(map(tuple, run.images[run.train].flatten(1).tolist()))
    unseen = set(map(tuple, run.images[run.valid].flatten(1).tolist()))
    assert len(unseen) == 300
    assert seen & unseen == set()
    cut = run.cut_channels(run.model, run.kept)
    assert run.right["whole"] == right_of(run, run.model)
    assert run.right["cut"] == right_of(run, cut)
    assert run.right["trained on"] == right_of(run, run.small)
    sums = run.model.conv1.weight.abs().sum(dim=(1, 2, 3))
    assert sorted(run.kept.tolist()) == sorted(sums.topk(8).indices.tolist())
    for name in TENSORS[:-1]:
        whole = run.model.state_dict()[name]
        assert torch.equal(cut.state_dict()[name], whole[run.kept])
    inputs = run.model.conv2.weight[:, run.kept]
    assert torch.equal(cut.conv2.weight, inputs)
    for layer in ("conv2.bias", "linear.weight", "linear.bias"):
        whole = run.model.state_dict()[layer]
        assert torch.equal(cut.state_dict()[layer], whole)
    assert run.right["whole"] > 280
    assert run.right["cut"] < run.right["whole"] - 30
    assert run.right["trained on"] > run.right["cut"] + 20
    assert run.right["trained on"] >= run.right["whole"] - 15


def test_training_brings_the_answers_back__also_from_seed_1(snippet):
    edited = snippet.edit("manual_seed(0)\nmodel", "manual_seed(1)\nmodel")
    test_training_brings_the_answers_back(edited)


@edits(
    ("no more training", "fit(small, epochs=2)", "pass"),
    ("nothing cut", "kept = strongest(model, 8)", "kept = torch.arange(32)"),
    ("other biases", "state[name] = state[name][kept]", "pass"),
    ("no training at all", "fit(model, epochs=4)", "pass"),
)
def test_training_brings_the_answers_back__but_not_with(
    snippet, old, new, fails
):
    """Nothing was lost, or nothing was learned again."""
    if new == "pass" and "name" in old:
        new = "state[name] = state[name][: len(kept)]"
    fails(test_training_brings_the_answers_back, snippet.edit(old, new))


def test_training_brings_the_answers_back__ends_with_few_cut(snippet, fails):
    """Without 4 of the 32 channels, the model answers nearly as before."""
    edited = snippet.edit("strongest(model, 8)", "strongest(model, 28)")
    fails(test_training_brings_the_answers_back, edited)


def test_training_brings_the_answers_back__ends_with_one_channel(
    snippet, fails
):
    """One channel alone is too few, and two epochs do not mend that."""
    edited = snippet.edit("strongest(model, 8)", "strongest(model, 1)")
    run = resumed(edited, *TRAINED)
    assert run.right["trained on"] < run.right["whole"] - 40
    fails(test_training_brings_the_answers_back, edited)


# How it works


def counted(run, model):
    """Count the multiplications of each layer, by hand, for one image."""
    first, second = model.conv1.weight.numel(), model.conv2.weight.numel()
    return first * 8 * 8, second * 4 * 4, model.linear.weight.numel()


def test_fewer_channels_fewer_multiplications(snippet, quarter=0.25):
    run = untrained(snippet, *COMPARED)

    whole, small = counted(run, run.model), counted(run, run.small)
    assert run.counts == [sum(whole), sum(small)]
    assert [new / old for new, old in zip(small, whole, strict=True)] == [
        quarter,
        quarter,
        1,
    ]
    assert run.model.conv2.weight.numel() == 18_432
    assert run.small.conv2.weight.numel() == 4_608
    assert run.sizes == [file_size(run.model), file_size(run.small)]
    assert run.sizes[1] < 0.4 * run.sizes[0]


@pytest.mark.parametrize("size", [3, 5], ids="kernels of {}".format)
def test_fewer_channels_fewer_multiplications__also_with(snippet, size):
    run = untrained(snippet, *COMPARED)
    found = []
    for channels in (32, 8):
        layers = nn.Sequential(
            nn.Conv2d(3, channels, size, stride=2),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, 16, size),
        ).eval()
        with run.FlopCounterMode(display=False) as counter:
            layers(torch.rand(2, 3, 32, 32))
        found.append(counter.get_total_flops())
    assert found[1] / found[0] == 0.25


@edits(("strongest(model, 8)", "strongest(model, 16)"))
def test_fewer_channels_fewer_multiplications__but_not(
    snippet, old, new, fails
):
    """With half of the channels, half of the multiplications are left."""
    edited = snippet.edit(old, new)
    fails(test_fewer_channels_fewer_multiplications, edited)


SMALL = (*NET, ("cut-channels", "measure", "compare", "from-the-start"))


def test_a_small_network_is_as_good(snippet):
    run = resumed(snippet, *SMALL)

    assert run.fresh.conv1.weight.shape == run.small.conv1.weight.shape
    found = right_of(run, run.fresh)
    assert run.right["small from the start"] == found
    assert found > 270
    assert abs(found - right_of(run, run.small)) <= 15


def test_a_small_network_is_as_good__also_from_seed_1(snippet):
    edited = snippet.edit("manual_seed(0)\nmodel", "manual_seed(1)\nmodel")
    test_a_small_network_is_as_good(edited)


@edits(
    ("no training", "fit(fresh, epochs=6)", "pass"),
    ("one channel", "fresh = Net(first=8)", "fresh = Net(first=1)"),
)
def test_a_small_network_is_as_good__but_not_with(snippet, old, new, fails):
    """It has learned nothing, or is too small."""
    fails(test_a_small_network_is_as_good, snippet.edit(old, new))


def scaled(kind, factor, training):
    """Return two outputs of a norm, behind small and large weights."""
    torch.manual_seed(0)
    layer, norm = nn.Conv2d(3, 8, 3), kind(8)
    larger = nn.Conv2d(3, 8, 3)
    with torch.no_grad():
        for name in ("weight", "bias"):
            value = getattr(layer, name) * factor
            getattr(larger, name).copy_(value)
    x = torch.rand(4, 3, 9, 9)
    norm.train(training)
    return norm(layer(x)), norm(larger(x))


def test_a_norm_hides_the_size(snippet, kind=nn.BatchNorm2d, training=True):
    one, other = scaled(kind, 10.0, training)
    close(other, one, 1e-2)

    run = untrained(snippet, *CUT)
    x = run.images[:64]
    run.model.train()
    before = run.model(x)
    with torch.no_grad():
        run.model.conv1.weight *= 10
        run.model.conv1.bias *= 10
    close(run.model(x), before, 1e-2)


@pytest.mark.parametrize("factor", [0.5, 100.0], ids="{} times".format)
def test_a_norm_hides_the_size__also_with(factor):
    one, other = scaled(nn.BatchNorm2d, factor, True)
    close(other, one, 2e-2)


@pytest.mark.parametrize(
    "kind", [lambda channels: nn.Identity()], ids=["no norm"]
)
def test_a_norm_hides_the_size__but_not_with(snippet, kind, fails):
    """Without a BatchNorm, outputs are ten times as large, too."""
    fails(test_a_norm_hides_the_size, snippet, kind)


def test_a_norm_hides_the_size__ends_in_eval_mode(snippet, fails):
    """In `eval()` mode, BatchNorm divides by the spread that it has seen in
    training, so larger weights count there.
    """
    fails(test_a_norm_hides_the_size, snippet, nn.BatchNorm2d, False)


# What goes wrong


WRONG = (*NET, "cut-channels", "measure", "zero-channels", "wrong-channels")


def test_other_channels_raise_no_error(snippet):
    with no_error():
        run = resumed(snippet.edit('right["whole"], r', "r"), *WRONG)

    cut = run.cut_channels(run.model, run.kept)
    assert run.mixed.conv2.weight.shape == cut.conv2.weight.shape
    assert torch.equal(run.mixed.conv1.weight, cut.conv1.weight)
    assert run.wrong == right_of(run, run.mixed)
    assert run.wrong < 100 < right_of(run, cut) - 50


def test_other_channels_raise_no_error__also_from_seed_1(snippet):
    edited = snippet.edit("manual_seed(0)\nmodel", "manual_seed(1)\nmodel")
    test_other_channels_raise_no_error(edited)


KEPT = "model.conv2.weight[:, :8]  # not those kept"


def test_other_channels_raise_no_error__but_not_with_the_kept_ones(
    snippet, fails
):
    """The second convolution reads the channels that the first one makes."""
    edited = snippet.edit(KEPT, "model.conv2.weight[:, kept]")
    fails(test_other_channels_raise_no_error, edited)


def test_other_channels_raise_no_error__also_in_another_order(snippet):
    """The channels are the same, but sorted in one tensor alone."""
    edited = snippet.edit(KEPT, "model.conv2.weight[:, kept.sort().values]")
    test_other_channels_raise_no_error(edited)


def test_a_forgotten_tensor_is_named(snippet, names=TENSORS):
    run = untrained(snippet, *NET, "cut-channels", "forgotten")

    assert "size mismatch for norm.running_var" in run.forgotten
    for name in names:
        state = run.cut_channels(run.model, run.kept).state_dict()
        state[name] = run.model.state_dict()[name]
        for strict in (True, False):
            with pytest.raises(RuntimeError, match="size mismatch") as raised:
                run.Net(first=8).load_state_dict(state, strict=strict)
            assert f"size mismatch for {name}:" in str(raised.value)


def test_a_forgotten_tensor_is_named__also_several_at_once(snippet):
    run = untrained(snippet, *CUT)
    with pytest.raises(RuntimeError) as raised:
        run.Net(first=8).load_state_dict(run.model.state_dict())
    for name in TENSORS:
        assert f"size mismatch for {name}:" in str(raised.value)


def test_a_forgotten_tensor_is_named__but_not_another(snippet, fails):
    """The other tensors have one shape in both networks."""
    fails(test_a_forgotten_tensor_is_named, snippet, ("linear.weight",))


def residual(kept_twice):
    """Return a sum of two paths, before and after a cut."""
    torch.manual_seed(0)
    start, inner = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1)
    following = nn.Conv2d(8, 4, 3)
    kept = torch.tensor([0, 3, 4, 6])
    gone = torch.tensor([1, 2, 5, 7])
    x = torch.rand(2, 3, 9, 9)
    with torch.no_grad():
        for layer in (start, inner):
            layer.weight[gone] = 0
            layer.bias[gone] = 0
        hidden = start(x).relu()
        expected = following((hidden + inner(hidden)).relu())
        rows = kept if kept_twice else gone
        hidden = F.conv2d(x, start.weight[kept], start.bias[kept]).relu()
        inside = F.conv2d(
            hidden, inner.weight[rows][:, kept], inner.bias[rows], padding=1
        )
        found = F.conv2d(
            (hidden + inside).relu(), following.weight[:, kept], following.bias
        )
    return found, expected


def test_added_paths_lose_the_same_channels(snippet, kept_twice=True):
    untrained(snippet, *NET)
    found, expected = residual(kept_twice)
    assert expected.abs().max() > 0.1
    close(found, expected, 1e-5)
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.rand(2, 8, 7, 7) + torch.rand(2, 4, 7, 7)


def test_added_paths_lose_the_same_channels__but_not_others(snippet, fails):
    """The sum adds channels that don't belong together."""
    fails(test_added_paths_lose_the_same_channels, snippet, False)


def test_a_depthwise_convolution_loses_rows(snippet, groups=4):
    untrained(snippet, *NET)
    torch.manual_seed(0)
    start, depthwise = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8)
    following = nn.Conv2d(8, 5, 1)
    assert depthwise.weight.shape == (8, 1, 3, 3)
    kept, gone = torch.tensor([0, 3, 4, 6]), torch.tensor([1, 2, 5, 7])
    x = torch.rand(2, 3, 9, 9)
    with torch.no_grad():
        for layer in (start, depthwise):
            layer.weight[gone] = 0
            layer.bias[gone] = 0
        expected = following(depthwise(start(x).relu()).relu())
        hidden = F.conv2d(x, start.weight[kept], start.bias[kept]).relu()
        with no_error():
            hidden = F.conv2d(
                hidden,
                depthwise.weight[kept],
                depthwise.bias[kept],
                groups=groups,
            )
        found = F.conv2d(
            hidden.relu(), following.weight[:, kept], following.bias
        )
    close(found, expected, 1e-5)


@pytest.mark.parametrize("groups", [8, 1], ids="{} groups".format)
def test_a_depthwise_convolution_loses_rows__but_not_in(
    snippet, groups, fails
):
    """Each of the 4 channels needs a group of its own."""
    fails(test_a_depthwise_convolution_loses_rows, snippet, groups)


def test_structured_pruning_keeps_the_shapes(snippet, amount=0.5):
    run = untrained(snippet, *NET, "measure", "prune")

    layer = nn.Conv2d(16, 32, 3)
    before = file_size(layer)
    strengths = layer.weight.detach().abs().sum(dim=(1, 2, 3))
    run.prune.ln_structured(layer, "weight", amount=amount, n=1, dim=0)
    run.prune.remove(layer, "weight")
    assert layer.weight.shape == (32, 16, 3, 3)
    assert file_size(layer) == pytest.approx(before, abs=99)
    zeros = (layer.weight == 0).flatten(1)
    assert zeros.all(dim=1).sum() == 16
    assert torch.equal(zeros.all(dim=1), zeros.any(dim=1))
    gone = zeros.all(dim=1)
    assert strengths[gone].max() <= strengths[~gone].min()


def test_structured_pruning_keeps_the_shapes__but_not_with_none(
    snippet, fails
):
    """With an amount of 0, no channel becomes zero."""
    fails(test_structured_pruning_keeps_the_shapes, snippet, 0)


PRUNED = (*NET, "measure", "prune")


def test_pruning_stores_zeros(snippet):
    run = untrained(snippet, *PRUNED)

    whole, masked, removed = run.pruned_sizes.values()
    assert whole == file_size(run.model)
    pruned = [
        getattr(run.model, name) for name in ("conv1", "conv2", "linear")
    ]
    masks = 4 * sum(layer.weight.numel() for layer in pruned)
    assert 0 < masked - whole - masks < 2000  # longer names, and their places
    assert masked / whole == pytest.approx(2, abs=0.05)
    assert removed / whole == pytest.approx(1, abs=0.01)
    assert removed == file_size(run.pruned)
    for name in ("conv1", "conv2", "linear"):
        weight = getattr(run.pruned, name).weight
        old = getattr(run.model, name).weight.abs()
        assert (old == 0).float().mean() < 0.01
        assert old[weight == 0].max() <= old[weight != 0].min()
        assert (weight == 0).float().mean() == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("amount", [0.5, 0.99], ids="{} zeros".format)
def test_pruning_stores_zeros__also_with(snippet, amount):
    run = untrained(snippet, *PRUNED)
    for method in (run.prune.random_unstructured, run.prune.l1_unstructured):
        layer = nn.Conv2d(32, 32, 3)
        whole = file_size(layer)
        method(layer, "weight", amount=amount)
        assert file_size(layer) / whole == pytest.approx(2, abs=0.05)
        run.prune.remove(layer, "weight")
        assert file_size(layer) / whole == pytest.approx(1, abs=0.05)


@edits(
    (
        '    prune.l1_unstructured(layer, "weight", amount=0.9)',
        "    layer.weight.data = layer.weight.data[:1].clone()",
    ),
    ('    prune.remove(layer, "weight")', "    pass"),
)
def test_pruning_stores_zeros__but_not(snippet, old, new, fails):
    """Rows that are cut off make the file smaller, and a mask that stays
    keeps it twice as large.
    """
    edited = snippet.edit(old, new)
    if "[:1]" in new:
        edited = edited.edit('    prune.remove(layer, "weight")', "    pass")
    fails(test_pruning_stores_zeros, edited)


ZERO = (*NET, "measure", "zero-channels")


def zero_channels(snippet):
    """Cut the channels of zeros out of a model that is not trained."""
    edited = snippet.edit('right["whole"], right_answers', "right_answers")
    with no_error():
        return untrained(edited, *ZERO)


def test_zero_units_can_be_cut_out(snippet):
    run = zero_channels(snippet)

    assert run.alike is True
    x = run.images[run.valid]
    for found, model in (
        (run.scores, run.without),
        (run.expected, run.zeroed),
    ):
        close(found, model(x), 1e-5)
    assert run.alive.sum() == 32
    assert run.without.conv2.weight.shape == (32, 32, 3, 3)
    assert run.without.linear.weight.shape == (10, 128)
    x = torch.rand(100, 1, 8, 8)
    close(run.without(x), run.zeroed(x), 1e-4)
    assert (run.zeroed(x) - run.model.eval()(x)).abs().max() > 1e-3
    assert run.zero_sizes == [file_size(run.zeroed), file_size(run.without)]
    assert run.zero_sizes[0] == pytest.approx(file_size(run.model), abs=99)
    ratio = run.zero_sizes[1] / run.zero_sizes[0]
    assert ratio == pytest.approx(0.53, abs=0.01)
    sums = run.model.conv2.weight.abs().flatten(1).sum(dim=1)
    assert sums[~run.alive].max() <= sums[run.alive].min()


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_zero_units_can_be_cut_out__also_in_linear_layers_from(seed):
    torch.manual_seed(seed)
    first, second = nn.Linear(64, 512), nn.Linear(512, 10)
    weak = first.weight.abs().sum(dim=1).argsort()[:256]
    x = torch.rand(100, 64)
    with torch.no_grad():
        first.weight[weak] = 0
        first.bias[weak] = 0
        kept = (first.weight != 0).any(dim=1)
        hidden = F.linear(x, first.weight[kept], first.bias[kept]).relu()
        found = F.linear(hidden, second.weight[:, kept], second.bias)
        close(found, second(first(x).relu()), 1e-4)
    assert hidden.shape == (100, 256)


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_zero_units_can_be_cut_out__also_as_channels_from(seed):
    torch.manual_seed(seed)
    first, second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)
    with torch.no_grad():
        first.weight[::2] = 0
        first.bias[::2] = 0
    kept = (first.weight != 0).flatten(1).any(dim=1)
    x = torch.rand(2, 3, 9, 9)
    hidden = F.conv2d(x, first.weight[kept], first.bias[kept]).relu()
    found = F.conv2d(hidden, second.weight[:, kept], second.bias)
    assert hidden.shape[1] == 4
    close(found, second(first(x).relu()), 1e-5)


def test_zero_units_can_be_cut_out__also_beside_single_zeros(snippet):
    """A channel goes only if all its weights are zero."""
    where = "with torch.no_grad():\n    zeroed.conv2.weight[weak] = 0\n"
    edited = snippet.edit(where, where + "    zeroed.conv2.weight[:, 5] = 0\n")
    run = zero_channels(edited)
    assert run.alike is True
    assert run.alive.sum() == 32


@edits(
    ("a bias", "    zeroed.conv2.bias[weak] = 0\n", ""),
    ("Sigmoid", "self.conv2(x).relu(), 2)", "self.conv2(x).sigmoid(), 2)"),
    (
        "the first columns",
        'state["linear.weight"][:, columns]',
        'state["linear.weight"][:, :128]',
    ),
    (
        "other rows",
        'state["conv2.weight"][alive]',
        'state["conv2.weight"][alive].flip(0)',
    ),
)
def test_zero_units_can_be_cut_out__but_not_with(snippet, old, new, fails):
    """A channel that passes something on is missed, or the wrong ones go."""
    fails(test_zero_units_can_be_cut_out, snippet.edit(old, new))


def test_zero_units_can_be_cut_out__ends_with_batchnorm(snippet, fails):
    """Behind a BatchNorm, a channel of zeros gives other numbers than zero."""
    edited = (
        snippet.edit(
            "self.conv2(x).relu(), 2)",
            "(self.after(self.conv2(x))).relu(), 2)",
        )
        .edit(
            "        self.linear = nn.Linear",
            "        self.after = nn.BatchNorm2d(second)\n"
            "        nn.init.ones_(self.after.bias)\n"
            "        self.linear = nn.Linear",
        )
        .edit(
            "without.load_state_dict(state)",
            "without.load_state_dict(\n"
            "    {k: v for k, v in state.items() if k[:5] != 'after'},\n"
            "    strict=False,\n"
            ")",
        )
    )
    run = zero_channels(edited)
    assert not run.alike
    fails(test_zero_units_can_be_cut_out, edited)


def with_channels(snippet, kind):
    """Return channels of zeros, and the next two layers, after some use."""
    run = snippet.only("digits", "norm").after("norm")
    torch.manual_seed(0)
    channels, norm = nn.Conv2d(3, 8, 3), kind(8)
    following = nn.Conv2d(8, 4, 3)
    with torch.no_grad():
        norm.running_mean.uniform_(-2, 2)
        norm.running_var.uniform_(0.5, 2)
        for each in (channels.weight, channels.bias, norm.bias):
            each.uniform_(-1, 1)
    assert run.norm(torch.zeros(1, 1)).item() == 3
    return channels, norm.eval(), following


def test_a_channel_is_many_columns(
    snippet, indexed=lambda kept, size: kept.repeat_interleave(size)
):
    channels, _, _ = with_channels(snippet, nn.BatchNorm2d)
    kept = torch.tensor([True, False, False, True, True, False, True, False])
    following = nn.Linear(8 * 7 * 5, 10)
    with torch.no_grad():
        channels.weight[~kept] = 0
        channels.bias[~kept] = 0
        x = torch.rand(2, 3, 9, 7)
        expected = following(channels(x).relu().flatten(1))
        hidden = F.conv2d(x, channels.weight[kept], channels.bias[kept])
        with no_error():
            columns = following.weight[:, indexed(kept, 7 * 5)]
        found = F.linear(hidden.relu().flatten(1), columns, following.bias)
    assert columns.shape == (10, 4 * 7 * 5)
    close(found, expected, 1e-5)


@pytest.mark.parametrize(
    "indexed",
    [lambda kept, size: kept.repeat(size), lambda kept, size: kept],
    ids=["repeat", "kept alone"],
)
def test_a_channel_is_many_columns__but_not_with(snippet, indexed, fails):
    """`repeat` picks columns of other channels, without an error; `kept` has
    too few places, which raises one.
    """
    fails(test_a_channel_is_many_columns, snippet, indexed)


def test_a_norm_needs_zeros_too(snippet, names=("weight", "bias")):
    channels, norm, following = with_channels(snippet, nn.BatchNorm2d)
    kept = torch.arange(8) % 2 == 1
    with torch.no_grad():
        channels.weight[~kept] = 0
        channels.bias[~kept] = 0
        x = torch.rand(2, 3, 9, 9)
        assert norm(channels(x))[:, ~kept].abs().max() > 0.1
        for name in names:
            getattr(norm, name)[~kept] = 0
        expected = following(norm(channels(x)).relu())
        hidden = F.conv2d(x, channels.weight[kept], channels.bias[kept])
        four = norm.running_mean, norm.running_var, norm.weight, norm.bias
        hidden = F.batch_norm(hidden, *(each[kept] for each in four))
        found = F.conv2d(
            hidden.relu(), following.weight[:, kept], following.bias
        )
    close(found, expected, 1e-5)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_a_norm_needs_zeros_too__but_not_with_one(snippet, name, fails):
    """One of the two alone leaves a value where the zeros were."""
    fails(test_a_norm_needs_zeros_too, snippet, (name,))


SPARSE = ("digits", "sparse")


def of_parts(matrix):
    """Return the bytes of a matrix in CSR and in COO."""
    coo = matrix.to_sparse()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        csr = matrix.to_sparse_csr()
    of_csr = csr.crow_indices(), csr.col_indices(), csr.values()
    of_coo = coo.indices(), coo.values()
    return [sum(each.nbytes for each in parts) for parts in (of_csr, of_coo)]


def test_sparse_needs_many_zeros(snippet, dtype=torch.float32):
    run = after(snippet, *SPARSE)

    matrix = run.matrix
    assert matrix.shape == (1000, 1000)
    assert [*run.sparse_bytes] == [50, 60, 70, 80, 90]
    for zeros, found in run.sparse_bytes.items():
        count = 1_000_000 - zeros * 10_000
        assert found == [12 * count + 8 * 1001, 20 * count]
    for zeros, smaller in {
        0.64: [False, False],
        0.69: [True, False],
        0.78: [True, False],
        0.82: [True, True],
    }.items():
        matrix = torch.ones(1000, 1000, dtype=dtype)
        matrix.flatten()[: int(zeros * 1e6)] = 0
        assert [each < matrix.nbytes for each in of_parts(matrix)] == smaller


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_sparse_needs_many_zeros__also_at_random_places_from(snippet, seed):
    torch.manual_seed(seed)
    for share, smaller in ((0.6, False), (0.72, True)):
        matrix = torch.rand(400, 800)
        matrix[torch.rand(400, 800) < share] = 0
        assert (of_parts(matrix)[0] < matrix.nbytes) == smaller


@edits(
    ("a matrix without zeros", "= 0  # of a million", "= 1"),
    (
        "without the places",
        "coo.indices(), coo.values()\n    sparse",
        "(coo.values(),)\n    sparse",
    ),
    ("csr.crow_indices(), csr.col_indices(), csr.values()", "csr.values(),"),
)
def test_sparse_needs_many_zeros__but_not(snippet, old, new, fails):
    """Nothing is left out, or the places are not counted."""
    fails(test_sparse_needs_many_zeros, snippet.edit(old, new))


def test_sparse_needs_many_zeros__ends_in_float64(snippet, fails):
    """Where a number takes eight bytes, half of them as zeros is enough for
    CSR.
    """
    fails(test_sparse_needs_many_zeros, snippet, torch.float64)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"]
)
def test_sparse_needs_many_zeros__ends_in(snippet, dtype, fails):
    """Where a number takes two bytes, CSR needs more than four fifths of
    zeros.
    """
    fails(test_sparse_needs_many_zeros, snippet, dtype)


def test_sparse_needs_many_zeros__ends_with_int32(snippet, fails):
    """Where columns are stored in four bytes, half of the numbers as zeros is
    enough for CSR.
    """
    fails(
        test_sparse_needs_many_zeros,
        snippet.edit("csr.col_indices()", "csr.col_indices().int()"),
    )


PRODUCT = ("digits", "sparse-product")


def test_equal_places_are_added(snippet):
    with no_error():
        run = after(snippet, *PRODUCT)

    assert run.sparse.is_sparse
    assert run.sparse.to_dense().tolist() == [[0, 0, 1], [5, 0, 0]]
    assert run.sparse.coalesce().values().tolist() == [1, 5]
    assert run.product.tolist() == [[100], [5]]
    assert run.values.tolist() == [1, 2, 3]


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_equal_places_are_added__also_from(seed):
    torch.manual_seed(seed)
    places, values = torch.randint(0, 5, (2, 40)), torch.rand(40)
    sparse = torch.sparse_coo_tensor(
        places, values, (5, 5), check_invariants=True
    )
    dense = torch.zeros(5, 5)
    for (row, column), value in zip(places.T.tolist(), values, strict=True):
        dense[row, column] += value
    close(sparse.to_dense(), dense, 1e-5)


@edits(("other places", "[2, 0, 0]", "[2, 0, 1]"))
def test_equal_places_are_added__but_not_at(snippet, old, new, fails):
    """Each value has a place of its own."""
    fails(test_equal_places_are_added, snippet.edit(old, new))


def test_equal_places_are_added__ends_in_csr(snippet, fails):
    """In CSR, each place may stand only once: `check_invariants=True` raises
    an error.
    """
    edited = snippet.edit(
        "torch.sparse_coo_tensor(\n    places,",
        "torch.sparse_csr_tensor(\n    torch.tensor([0, 1, 3]), places[1],",
    )
    fails(test_equal_places_are_added, edited)


def test_a_sparse_product_has_gradients(snippet):
    run = after(snippet, *PRODUCT)

    dense = torch.tensor([[0.0, 0, 1], [5, 0, 0]], requires_grad=True)
    x = run.x.detach().clone().requires_grad_()
    expected = dense @ x
    assert run.product.layout is torch.strided
    assert torch.equal(run.product, expected)
    expected.sum().backward()
    assert torch.equal(run.x.grad, x.grad)
    assert torch.equal(run.values.grad, dense.grad[*run.places])


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_a_sparse_product_has_gradients__also_in_csr_from(seed):
    torch.manual_seed(seed)
    dense = torch.rand(6, 5) * (torch.rand(6, 5) < 0.4)
    x = torch.rand(5, 3, requires_grad=True)
    twin = x.detach().clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        product = dense.to_sparse_csr() @ x
        weight = torch.rand(6, 3)
        (product * weight).sum().backward()
    close(product, dense @ twin, 1e-5)
    (dense @ twin * weight).sum().backward()
    close(x.grad, twin.grad, 1e-5)


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_a_sparse_product_has_gradients__also_from_the_right(seed):
    torch.manual_seed(seed)
    places = torch.randint(0, 5, (2, 9))  # some of them equal
    values = torch.rand(9, requires_grad=True)
    sparse = torch.sparse_coo_tensor(
        places, values, (5, 5), check_invariants=True
    )
    x, weight = torch.rand(2, 5, requires_grad=True), torch.rand(2, 5)
    (x @ sparse * weight).sum().backward()
    matrix = sparse.detach().to_dense()
    close(x.grad, weight @ matrix.T, 1e-5)
    close(values.grad, (x.detach().T @ weight)[*places], 1e-5)


@edits(
    (
        "values that need none",
        "3.0], requires_grad=True)",
        "3.0])\nvalues.grad = torch.zeros(3)",
    ),
    (
        "a detached matrix",
        "product = sparse @ x",
        "product = sparse.detach() @ x\nvalues.grad = torch.zeros(3)",
    ),
    ("a detached x", "sparse @ x", "sparse @ x.detach(); x.grad = 0 * x"),
)
def test_a_sparse_product_has_gradients__but_not_with(
    snippet, old, new, fails
):
    """No gradient reaches what takes no part in the graph."""
    fails(test_a_sparse_product_has_gradients, snippet.edit(old, new))


OUTSIDE = ("digits", "sparse", "outside")


def test_places_are_not_checked(snippet):
    run = after(snippet, *OUTSIDE)

    assert "size is inconsistent with indices" in run.refused
    assert run.unchecked.shape == (2, 3)
    assert run.unchecked._indices().tolist() == [[0], [7]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_coo_tensor([[5], [0]], [1.0], (2, 3))
        torch.sparse_coo_tensor([[0], [-1]], [1.0], (2, 3))


def test_places_are_not_checked__also_in_csr(snippet):
    run = after(snippet, *OUTSIDE)
    parts = torch.tensor([0, 1, 1]), torch.tensor([7]), torch.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run.torch.sparse_csr_tensor(*parts, size=(2, 3))
        with pytest.raises(RuntimeError, match="col_indices"):
            run.torch.sparse_csr_tensor(
                *parts, size=(2, 3), check_invariants=True
            )


def test_places_are_not_checked__ends_without_a_size(snippet, fails):
    """Without a size, the places decide it, and none of them is outside; a
    negative one raises an error.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grown = torch.sparse_coo_tensor([[0], [7]], [1.0])
        assert grown.shape == (1, 8)
        with pytest.raises(RuntimeError, match="negative index -1"):
            torch.sparse_coo_tensor([[-1], [0]], [1.0])
    edited = snippet.edit(
        "torch.sparse_coo_tensor(outside, torch.ones(1), size=(2, 3))",
        "torch.sparse_coo_tensor(outside, torch.ones(1))",
    )
    fails(test_places_are_not_checked, edited)


@edits(
    (
        "a place inside",
        "torch.tensor([[0], [7]])",
        "torch.tensor([[0], [2]]); refused = ''",
    ),
    (
        "the check",
        "unchecked = torch.sparse_coo_tensor(outside, torch.ones(1), size=",
        "unchecked = matrix.to_sparse(); torch.sparse_coo_tensor("
        "outside % 3, torch.ones(1), size=",
    ),
)
def test_places_are_not_checked__but_not_with(snippet, old, new, fails):
    """The places are inside of the matrix."""
    fails(test_places_are_not_checked, snippet.edit(old, new))


@true_since("2.11", "it warned nobody")
def test_an_unchecked_tensor_warns(snippet, check=None):
    run = after(snippet, *OUTSIDE)

    warned = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # not only the first time
    try:
        for places in (torch.tensor([[0], [1]]), run.outside):
            with pytest.warns(UserWarning, match="SEGFAULT"):
                torch.sparse_coo_tensor(
                    places, torch.ones(1), (2, 3), check_invariants=check
                )
    finally:
        torch.set_warn_always(warned)


@true_since("2.13", "it warned even if this was given")
@pytest.mark.parametrize("check", [True, False], ids=str)
def test_an_unchecked_tensor_warns__but_not_with_check_invariants(
    snippet, check, fails
):
    """If you say whether to check, nothing warns."""
    fails(test_an_unchecked_tensor_warns, snippet, check)


# Try it


def test_sparse_needs_many_zeros__also_on_a_diagonal(snippet):
    run = after(snippet, "digits", "diagonal")
    assert of_parts(run.matrix)[1] == 20_000
