"""The claims of docs/models/evaluation.md."""

import contextlib
import copy
from functools import partial
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parameter import is_lazy
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers import worlds


def in_training():
    """Return a model of flowers, as that of the page."""
    norm, dropout = nn.BatchNorm1d(8), nn.Dropout(0.5)
    return nn.Sequential(nn.Linear(4, 8), norm, dropout, nn.Linear(8, 3))


def frozen_norm():
    model = in_training()
    model[1].eval()
    return model


def in_evaluation():
    return in_training().eval()


def nested():
    """Return another model, nested, with one part in evaluation mode."""
    block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.2))
    model = nn.Sequential(block, nn.Linear(4, 3)).train()
    block[2].eval()
    return model


def of_all_layers():
    """Return a model of every layer of the tables below, some of them off."""
    tables = (*LISTENING.values(), *TOLD.values(), *DEAF.values())
    model = nn.ModuleList(make() for make, _ in tables)
    model[::3].eval()
    return model


MODES = [frozen_norm, in_training, in_evaluation, nested]


def attention():
    """Return a layer that holds others, with one in evaluation mode."""
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    layer.self_attn.eval()
    return layer


def test_evaluating_switches_both(snippet, prepare=frozen_norm):
    run, model = snippet.after("evaluating"), prepare()
    learns = torch.ones(2, requires_grad=True)

    for recording in (True, False):
        with torch.set_grad_enabled(recording), run.evaluating(model):
            assert not any(each.training for each in model.modules())
            assert not (learns * 2).requires_grad


@pytest.mark.parametrize("prepare", [*MODES, attention, of_all_layers])
def test_evaluating_switches_both__also_for(snippet, prepare):
    test_evaluating_switches_both(snippet, prepare)


class Stubborn(nn.Linear):
    """A layer with a ``train`` of its own, such as of a frozen backbone."""

    def train(self, mode=True):
        """Stay in training mode."""
        self.training = True
        return self


def test_evaluating_switches_both__ends_for_layers_that_override_train(
    snippet, fails
):
    """A layer with a `train()` of its own may ignore the call, and stay in
    training mode.
    """

    def prepare():
        return nn.Sequential(Stubborn(3, 3))

    fails(test_evaluating_switches_both, snippet, prepare)


def test_evaluating_restores_the_mode(snippet, prepare=frozen_norm):
    run, model = snippet.after("evaluating"), prepare()
    before = [layer.training for layer in model.modules()]
    learns = torch.ones(2, requires_grad=True)

    for error in (None, KeyError, KeyboardInterrupt):
        for recording in (True, False):
            with torch.set_grad_enabled(recording):
                passed = contextlib.suppress(KeyError, KeyboardInterrupt)
                with passed, run.evaluating(model):
                    model.eval()
                    if error:
                        raise error
                assert (learns * 2).requires_grad == recording
            assert [each.training for each in model.modules()] == before


@pytest.mark.parametrize("prepare", [*MODES, attention, of_all_layers])
def test_evaluating_restores_the_mode__also_for(snippet, prepare):
    test_evaluating_restores_the_mode(snippet, prepare)


@worlds.each("make", worlds.MODELS)
def test_evaluating_restores_the_mode__also_for_a_model(snippet, make):
    test_evaluating_restores_the_mode(snippet, make)


class Merging(nn.Linear):
    """A layer that does more in ``train``, such as one of LoRA."""

    def train(self, mode=True):
        """Change the mode, and the weight with it."""
        self.merged = not mode
        return super().train(mode)

    @property
    def training(self):
        """Say which mode the weight is in."""
        return not self.merged

    @training.setter
    def training(self, mode):
        """Leave the weight as it is."""


def test_evaluating_restores_the_mode__ends_for_layers_that_override_train(
    snippet, fails
):
    """A layer that does more in `train()` than set `training` is not brought
    back by setting `training`.
    """

    def prepare():
        return nn.Sequential(Merging(3, 3)).train()

    fails(test_evaluating_restores_the_mode, snippet, prepare)


@edits(
    ("eval", "    model.eval()\n    try", "    try"),
    (
        "eval of the layers",
        "    model.eval()\n    try",
        "    model.training = False\n    try",
    ),
    (
        "no_grad",
        "torch.no_grad():\n            y",
        "torch.enable_grad():\n            y",
    ),
)
def test_evaluating_switches_both__but_not_without(snippet, old, new, fails):
    """You need `model.eval()`, because `training = False` reaches the model
    alone, and `no_grad()` for autograd.
    """
    fails(test_evaluating_switches_both, snippet.edit(old, new))


def test_evaluating_restores_the_mode__but_not_with_a_plain_train(
    snippet, fails
):
    """`training = True` for all also switches on what was off before, such as
    a frozen BatchNorm.
    """
    edited = snippet.edit("layer.training = mode", "layer.training = True")
    fails(test_evaluating_restores_the_mode, edited)


LAST = """    finally:
        for layer, mode in modes.items():
            layer.training = mode
"""
BACK = LAST.removeprefix("    finally:\n")


@pytest.mark.parametrize(
    "new",
    [
        f"    except ValueError:\n        pass\n    else:\n{BACK}",
        f"    except Exception:\n{BACK}        raise\n    else:\n{BACK}",
        f"    except BaseException:\n{BACK}        raise\n",
        "    finally:\n        model.train(modes[model])\n",
    ],
    ids=["an error", "an interrupt", "no error", "a frozen layer"],
)
def test_evaluating_restores_the_mode__but_not_after(snippet, new, fails):
    """Only `finally` runs whatever happens, and only a mode kept for each
    layer brings each one back.
    """
    fails(test_evaluating_restores_the_mode, snippet.edit(LAST, new))


def test_evaluating_restores_the_mode__but_not_the_recording(snippet, fails):
    """`set_grad_enabled(True)` switches recording on afterwards, even if it
    was off before.
    """
    edited = snippet.edit(
        "        with torch.no_grad():\n            yield\n    finally:\n",
        "        torch.set_grad_enabled(False)\n"
        "        yield\n"
        "    finally:\n"
        "        torch.set_grad_enabled(True)\n",
    )
    fails(test_evaluating_restores_the_mode, edited)


def mean_over_all(model, loader):
    """Return loss and accuracy of what a loader gives, in one batch."""
    inputs, labels = (torch.cat(each) for each in zip(*loader, strict=True))
    with torch.no_grad():
        scores = copy.deepcopy(model).eval()(inputs)
    loss = F.cross_entropy(scores, labels).item()
    return loss, (scores.max(dim=1).indices == labels).double().mean().item()


def test_evaluate_weighs_each_sample(
    snippet, size=64, count=150, dtype=torch.float32, change=None
):
    run = snippet.after("evaluate")
    torch.manual_seed(0)
    model = in_training().to(dtype)
    labels = run.kinds[:count].clone()
    if change:
        labels, model = change(labels, model)
    data = TensorDataset(run.petals[:count].to(dtype), labels)

    for drop_last in (False, size < count):
        loader = DataLoader(data, size, drop_last=drop_last)
        with no_error():
            result = run.evaluate(model, loader)
        assert [type(each) for each in result] == [float, float]
        assert result == pytest.approx(mean_over_all(model, loader), rel=1e-5)


@pytest.mark.parametrize(
    ("size", "count", "dtype"),
    [
        (1, 9, torch.float32),
        (149, 150, torch.float64),
        (1000, 1, torch.float32),
    ],
)
def test_evaluate_weighs_each_sample__also_for(snippet, size, count, dtype):
    test_evaluate_weighs_each_sample(snippet, size, count, dtype)


def test_evaluate_weighs_each_sample__also_of_another_model(snippet):
    run = snippet.after("evaluate")
    torch.manual_seed(3)
    # The last norm mixes the samples of a batch, also in evaluation.
    norm = nn.BatchNorm1d(5, track_running_stats=False)
    for last in (nn.Identity(), norm):
        model = nn.Sequential(nn.Linear(2, 5), nn.Dropout(0.9), last)
        data = TensorDataset(torch.randn(77, 2), torch.randint(5, (77,)))
        single = [model.eval()(x) for x, _ in DataLoader(data, 10)]
        losses = F.cross_entropy(torch.cat(single), data.tensors[1])

        result = run.evaluate(model.train(), DataLoader(data, 10))

        assert result[0] == pytest.approx(losses.item(), rel=1e-5)


@pytest.mark.parametrize(("scale", "size"), [(1, 64), (50, 64), (1, 3000)])
def test_evaluate_weighs_each_sample__also_of_many_classes(
    snippet, scale, size
):
    run = snippet.after("evaluate")
    scores = scale * torch.randn(3000, 40)
    labels = scores.argmax(dim=1)
    labels[::3] = torch.arange(1000) % 40
    loader = DataLoader(TensorDataset(scores, labels), size)

    loss, accuracy = run.evaluate(nn.Identity(), loader)

    expected = F.cross_entropy(scores, labels).item()
    assert loss == pytest.approx(expected, rel=1e-4)
    right = (scores.argmax(dim=1) == labels).sum().item()
    assert accuracy == pytest.approx(right / 3000)


def some_ignored(labels, model):
    """Ignore each seventh label."""
    labels[::7] = -100
    return labels, model


def one_per_pixel(labels, model):
    """Give each of two pixels a label."""
    layers = [nn.BatchNorm1d(4), nn.Linear(4, 6), nn.Unflatten(1, (3, 2))]
    return labels[:, None].expand(-1, 2), nn.Sequential(*layers)


def as_probabilities(labels, model):
    """Give each class a probability."""
    return F.one_hot(labels, 3).float(), model


@pytest.mark.parametrize(
    "change", [some_ignored, one_per_pixel, as_probabilities]
)
def test_evaluate_weighs_each_sample__ends_for_labels(snippet, change, fails):
    """With ignored labels, or one per pixel, the count is wrong; labels given
    as probabilities raise an error.
    """
    options = (64, 150, torch.float32, change)
    fails(test_evaluate_weighs_each_sample, snippet, *options)


def test_evaluate_weighs_each_sample__ends_for_a_tuple_of_outputs(
    snippet, fails
):
    """For a model that returns a tuple: `cross_entropy` raises a
    `TypeError`.
    """

    class Both(nn.Linear):
        """A model of scores, and of what they come from."""

        def forward(self, inputs):
            """Return both."""
            return super().forward(inputs), inputs

    def change(labels, model):
        return labels, Both(4, 3)

    options = (64, 150, torch.float32, change)
    fails(test_evaluate_weighs_each_sample, snippet, *options)


def test_evaluate_weighs_each_sample__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`: the loss of each batch is rounded, so the mean comes out
    a little off.
    """
    options = (64, 150, torch.bfloat16)
    fails(test_evaluate_weighs_each_sample, snippet, *options)


def test_evaluate_weighs_each_sample__but_not_with_means(snippet, fails):
    """With `reduction="mean"`, each loss is divided by its batch, and their
    sum by the count once more.
    """
    edited = snippet.edit('reduction="sum"', 'reduction="mean"')
    fails(test_evaluate_weighs_each_sample, edited)


@edits(
    ("loss by batches", "loss / count,", "loss / len(loader),"),
    (
        "loss by dropped samples too",
        "loss / count,",
        "loss / len(loader.dataset),",
    ),
    (
        "answers by dropped samples too",
        ", right / count",
        ", right / len(loader.dataset)",
    ),
    ("a loss as a tensor", 'reduction="sum").item()', 'reduction="sum")'),
    ("answers as a tensor", "== labels).sum().item()", "== labels).sum()"),
    (
        "answers by batches",
        ", right / count",
        ", right / len(loader) / loader.batch_size",
    ),
    (
        "shares of right answers",
        "== labels).sum()",
        "== labels).double().mean()",
    ),
    ("the loss of one batch", "loss += F", "loss = F"),
    ("the answers of one batch", "right += (", "right = ("),
)
def test_evaluate_weighs_each_sample__but_not_by(snippet, old, new, fails):
    """Each of these divides by another number, adds up something else or
    returns a tensor.
    """
    fails(test_evaluate_weighs_each_sample, snippet.edit(old, new))


def words(kind=nn.Embedding, **options):
    """Return a model of three words, and the words."""
    embedding = kind(9, 8, **options)
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    bag = isinstance(embedding, nn.EmbeddingBag)
    tail = nn.Linear(8, 3) if bag else nn.Linear(24, 3)
    layers = [embedding, nn.Identity() if bag else attention, nn.Flatten()]
    return nn.Sequential(*layers, tail), torch.randint(9, (20, 3))


def images():
    """Return a model of images, and the images."""
    layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout2d()]
    layers += [nn.InstanceNorm2d(2, track_running_stats=True), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(18, 3)), torch.randn(20, 1, 5, 5)


def unsaved():
    """Return a model with a buffer that is not saved, and its inputs."""
    model = in_training()
    mask = torch.tensor([1.0, 0, 2])
    model[-1].register_buffer("mask", mask, persistent=False)
    return model, torch.randn(20, 4)


def wide():
    """Return a model of many channels, and its inputs."""
    layers = [nn.Linear(4, 200), nn.BatchNorm1d(200), nn.Linear(200, 3)]
    return nn.Sequential(*layers), torch.randn(20, 4)


def half_frozen():
    """Return a model with a frozen layer, and its inputs."""
    model = in_training()
    model[0].requires_grad_(requires_grad=False)
    return model, torch.randn(20, 4)


def tied():
    """Return a model with a shared weight, and its inputs."""
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(2)], in_training())
    model[1].weight = model[0].weight
    return model, torch.randn(20, 4)


def state_of(model):
    """Return each tensor of a model, with copies of it and its gradient."""
    tensors = (*model.named_parameters(), *model.named_buffers())
    return {
        name: (
            each,
            None if is_lazy(each) else each.detach().clone(),
            each.requires_grad,
            None if each.grad is None else each.grad.clone(),
        )
        for name, each in tensors
    }


def is_as_before(model, before):
    """Compare each tensor of a model with its copy."""
    after = state_of(model)
    assert list(after) == list(before)
    for name, (each, numbers, learns, gradient) in before.items():
        same, now, learns_now, gradient_now = after[name]
        if same is not each or learns_now != learns:
            return False
        if numbers is None or not now.equal(numbers):
            return False
        if (gradient is None) != (gradient_now is None):
            return False
        if gradient is not None and not gradient.equal(gradient_now):
            return False
    return True


def test_evaluate_changes_nothing(snippet, prepare=None):
    run = snippet.after("evaluate")
    torch.manual_seed(0)
    model, inputs = prepare() if prepare else (in_training(), run.petals)
    labels = torch.randint(3, (len(inputs),))
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=8)

    for _ in range(2):
        before = state_of(model)
        run.evaluate(model, loader)
        assert is_as_before(model, before)
        (100 * F.cross_entropy(model(inputs), labels)).backward()


@pytest.mark.parametrize(
    "prepare", [words, images, unsaved, half_frozen, tied, wide]
)
def test_evaluate_changes_nothing__also_for(snippet, prepare):
    test_evaluate_changes_nothing(snippet, prepare)


@worlds.each(
    "make",
    worlds.MODELS,
    *("with BatchNorm", "with dropout", "tied"),
    *("frozen in part", "float64", "bfloat16"),
)
def test_evaluate_changes_nothing__also_for_a_model(snippet, make):
    def prepare():
        model = make()
        first = next(model.parameters())
        return model, torch.randn(20, 3, dtype=first.dtype)

    test_evaluate_changes_nothing(snippet, prepare)


@pytest.mark.parametrize("prepare", MODES)
def test_evaluate_changes_nothing__also_where(snippet, prepare):
    run, model = snippet.after("evaluate"), prepare()
    before = state_of(model)

    run.evaluate(model, DataLoader(run.val_set, batch_size=64))

    assert is_as_before(model, before)


@pytest.mark.parametrize(
    "kind", [nn.Embedding, nn.EmbeddingBag], ids=lambda kind: kind.__name__
)
def test_evaluate_changes_nothing__ends_with_max_norm(snippet, kind, fails):
    """With `max_norm`: an embedding rescales the rows that it looks up."""

    def prepare():
        return words(kind, max_norm=0.1)

    fails(test_evaluate_changes_nothing, snippet, prepare)


def test_evaluate_changes_nothing__ends_for_lazy_layers(snippet, fails):
    """For lazy layers: the first batch creates their parameters."""

    def prepare():
        model = nn.Sequential(nn.LazyBatchNorm1d(), nn.Linear(4, 3))
        return model, torch.randn(20, 4)

    fails(test_evaluate_changes_nothing, snippet, prepare)


def test_max_norm_rescales_in_evaluation(snippet, kind=nn.Embedding, norm=0.1):
    run = snippet.after("evaluate")
    torch.manual_seed(0)
    model, inputs = words(kind, max_norm=norm)
    inputs = inputs % 4
    data = TensorDataset(inputs, torch.zeros(20, dtype=torch.long))
    before = model[0].weight.detach().clone()

    run.evaluate(model, DataLoader(data))

    weight = model[0].weight.detach()
    lengths = weight.norm(dim=1)
    torch.testing.assert_close(lengths[:4], torch.full((4,), norm))
    assert weight[4:].equal(before[4:])
    along = F.cosine_similarity(weight, before)
    torch.testing.assert_close(along, torch.ones(9))


def test_max_norm_rescales_in_evaluation__also_in_an_embedding_bag(snippet):
    test_max_norm_rescales_in_evaluation(snippet, nn.EmbeddingBag)


def test_max_norm_rescales_in_evaluation__but_not_on_a_copy(snippet, fails):
    """Evaluate a deep copy, and only the rows of the copy are rescaled."""
    start = "    loss, right, count = 0.0, 0, 0\n"
    copied = "    import copy\n\n    model = copy.deepcopy(model)\n"
    edited = snippet.edit(start, start + copied)
    fails(test_max_norm_rescales_in_evaluation, edited)


def test_max_norm_rescales_in_evaluation__ends_for_shorter_rows(
    snippet, fails
):
    """For rows that are shorter than `max_norm`: they stay as they are."""
    fails(test_max_norm_rescales_in_evaluation, snippet, nn.Embedding, 99.0)


@edits(
    ("running numbers in training", "    model.eval()\n    try", "    try"),
    (
        "a changed bias",
        "            count += len(labels)\n",
        (
            "            count += len(labels)\n"
            "            with torch.no_grad():\n"
            "                model[0].bias.add_(1)\n"
        ),
    ),
    (
        "cleared gradients",
        "            count += len(labels)\n",
        ("            count += len(labels)\n            model.zero_grad()\n"),
    ),
    (
        "gradients of zeros",
        "            count += len(labels)\n",
        (
            "            count += len(labels)\n"
            "            for each in model.parameters():\n"
            "                if each.grad is None:\n"
            "                    each.grad = torch.zeros_like(each)\n"
        ),
    ),
)
def test_evaluate_changes_nothing__but_not_with(snippet, old, new, fails):
    """In training mode, BatchNorm's running statistics move; the other edits
    touch a bias or the gradients.
    """
    fails(test_evaluate_changes_nothing, snippet.edit(old, new))


def test_evaluation_moves_the_random_numbers(snippet):
    run, model = snippet.after("evaluate"), in_training()

    def dropped(loader=None):
        torch.manual_seed(1)
        if loader:
            run.evaluate(model, loader)
        return F.dropout(torch.ones(500))

    for shuffle in (False, True):
        loader = partial(DataLoader, run.val_set, 64, shuffle=shuffle)
        assert not dropped(loader()).equal(dropped())
        assert dropped(loader(generator=torch.Generator())).equal(dropped())


@edits(
    (
        "with a generator put in",
        "    loss, right, count = 0.0, 0, 0\n",
        (
            "    loss, right, count = 0.0, 0, 0\n"
            "    loader.generator = loader.generator or torch.Generator()\n"
        ),
    ),
    (
        "with one more number",
        "    loss, right, count = 0.0, 0, 0\n",
        "    loss, right, count = 0.0, 0, 0\n    torch.rand(1)\n",
    ),
)
def test_evaluation_moves_the_random_numbers__but_not(
    snippet, old, new, fails
):
    """With a generator of its own, the loader leaves torch's alone; another
    draw in `evaluate` moves it anyway.
    """
    fails(test_evaluation_moves_the_random_numbers, snippet.edit(old, new))


WHAT = (
    "dropout drops",
    "running mean moves",
    "running variance moves",
    "a graph is recorded",
)
FORWARD = "first, second = model(petals), model(petals)\n"


def seen(snippet):
    """Return what happens in a forward pass, by combination."""
    switches = snippet.after("switches").switches
    return {
        name: tuple(happens[key] for key in WHAT)
        for name, happens in switches.items()
    }


OTHERS = {
    "little dropout": (nn.BatchNorm1d(9), nn.Dropout(0.1), (50, 9)),
    "images": (nn.BatchNorm2d(9), nn.Dropout2d(), (20, 9, 3, 3)),
    "volumes": (nn.BatchNorm3d(9), nn.Dropout3d(), (20, 9, 2, 2, 2)),
}


def happens(name, training, recording):
    """Return what happens in a forward pass of a model of the test."""
    norm, dropout, shape = copy.deepcopy(OTHERS[name])
    model = nn.Sequential(norm, dropout).double().train(training)
    inputs = 3 + 2 * torch.randn(shape, dtype=torch.float64)
    with recording():
        first, second = model(inputs), model(inputs)
    zeros, ones = torch.zeros(9).double(), torch.ones(9).double()
    return (
        not first.equal(second),
        not norm.running_mean.equal(zeros),
        not norm.running_var.equal(ones),
        first.requires_grad,
    )


def test_eval_does_not_stop_the_graph(snippet):
    happens = seen(snippet)
    assert happens["eval()"] == (False, False, False, True)
    assert happens["train()"] == (True, True, True, True)
    assert happens["eval(), no_grad()"] == (False, False, False, False)


@pytest.mark.parametrize("name", OTHERS)
def test_eval_does_not_stop_the_graph__also_for(name):
    expected = (False, False, False, True)
    assert happens(name, False, torch.enable_grad) == expected


@edits(
    (
        "F.dropout",
        FORWARD,
        "first, second = model(petals), F.dropout(model(petals))\n",
    ),
    (
        "a mean that moves",
        FORWARD,
        f"{FORWARD}        norm.running_mean += 1\n",
    ),
    (
        "a variance that moves",
        FORWARD,
        f"{FORWARD}        norm.running_var += 1\n",
    ),
    ("no_grad", "False, torch.enable", "False, torch.no"),
)
def test_eval_does_not_stop_the_graph__but_not_with(snippet, old, new, fails):
    """`F.dropout` drops in evaluation mode too; the other edits move BatchNorm
    by hand, or stop the graph.
    """
    fails(test_eval_does_not_stop_the_graph, snippet.edit(old, new))


def test_no_grad_does_not_stop_the_layers(snippet):
    happens = seen(snippet)
    assert happens["train(), no_grad()"] == (True, True, True, False)
    assert happens["eval(), no_grad()"] == (False, False, False, False)


@pytest.mark.parametrize("name", OTHERS)
def test_no_grad_does_not_stop_the_layers__also_for(name):
    assert happens(name, True, torch.no_grad) == (True, True, True, False)


@edits(
    ("without dropout", "nn.Dropout(0.5)\n", "nn.Identity()\n"),
    (
        "with a mean that stands",
        FORWARD,
        f"{FORWARD}        norm.running_mean.copy_(mean)\n",
    ),
    (
        "with a variance that stands",
        FORWARD,
        f"{FORWARD}        norm.running_var.copy_(variance)\n",
    ),
    ("with a graph", "recording():", "torch.enable_grad():"),
)
def test_no_grad_does_not_stop_the_layers__but_not(snippet, old, new, fails):
    """Without a dropout layer, nothing is dropped; the other edits put
    statistics back, or record a graph.
    """
    fails(test_no_grad_does_not_stop_the_layers, snippet.edit(old, new))


def test_both_together_stop_all(snippet):
    combinations = seen(snippet)

    assert not any(combinations.pop("eval(), no_grad()"))
    assert list(combinations) == ["train()", "train(), no_grad()", "eval()"]
    assert all(map(any, combinations.values()))
    assert all(combinations["train()"])


@pytest.mark.parametrize("name", OTHERS)
def test_both_together_stop_all__also_for(name):
    assert not any(happens(name, False, torch.no_grad))
    assert any(happens(name, False, torch.enable_grad))
    assert any(happens(name, True, torch.no_grad))
    assert all(happens(name, True, torch.enable_grad))


@edits(
    ("without eval", ".train(training)\n    n", ".train()\n    n"),
    ("without no_grad", "recording():", "torch.enable_grad():"),
    ("not only both", "True, torch.n", "False, torch.n"),
    ("no_grad thrice", "False, torch.enable", "False, torch.no"),
)
def test_both_together_stop_all__but_not(snippet, old, new, fails):
    """Without `eval()` dropout drops, without `no_grad()` a graph is recorded;
    two edits give both to another row.
    """
    fails(test_both_together_stop_all, snippet.edit(old, new))


class Decoder(nn.Module):
    """A decoder layer that looks at its own input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16)

    def forward(self, inputs):
        """Return what the layer makes of the inputs."""
        return self.layer(inputs, inputs)


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


def test_some_layers_listen(snippet, inputs=None):
    run = snippet.after("changed-by-eval")
    inputs = run.inputs if inputs is None else inputs

    for layer in run.layers[:4]:
        assert run.changed_by_eval(layer, inputs)


def test_some_layers_listen__ends_for_rrelu_of_positive_numbers(
    snippet, fails
):
    """For `RReLU` of positive inputs: it returns them as they are, in both
    modes.
    """
    fails(test_some_layers_listen, snippet, torch.rand(6, 4, 8) + 1)


@pytest.mark.parametrize("name", LISTENING)
def test_some_layers_listen__also_for(name):
    assert listens(*LISTENING[name])


@edits(
    ("dropout of 0", "[nn.Dropout(),", "[nn.Dropout(0.0),"),
    ("alpha dropout of 0", "nn.AlphaDropout()", "nn.AlphaDropout(0.0)"),
    ("LeakyReLU", "nn.RReLU()", "nn.LeakyReLU()"),
    (
        "BatchNorm without running numbers",
        "nn.BatchNorm1d(4), {",
        "nn.BatchNorm1d(4, track_running_stats=False), {",
    ),
    (
        "a layer already in evaluation mode",
        "layer.train()(inputs), layer.eval()(inputs)",
        "layer.eval()(inputs), layer.eval()(inputs)",
    ),
)
def test_some_layers_listen__but_not(snippet, old, new, fails):
    """A layer that draws nothing and tracks nothing, or that is in evaluation
    mode already, does not change.
    """
    fails(test_some_layers_listen, snippet.edit(old, new))


def test_some_layers_listen_if_told(snippet):
    run = snippet.after("changed-by-eval")

    for layer in run.layers[4:6]:
        assert run.changed_by_eval(layer, run.inputs)


@pytest.mark.parametrize("name", TOLD)
def test_some_layers_listen_if_told__also_for(name):
    assert listens(*TOLD[name])


@edits(
    ("InstanceNorm by default", 'stats": True}', 'stats": False}'),
    ("an LSTM by default", ", dropout=0.5)", ")"),
)
def test_some_layers_listen_if_told__but_not(snippet, old, new, fails):
    """By default, `InstanceNorm` tracks nothing and an `LSTM` drops nothing,
    so the output stays the same.
    """
    fails(test_some_layers_listen_if_told, snippet.edit(old, new))


@pytest.mark.filterwarnings("ignore:dropout option adds dropout")
def test_some_layers_listen_if_told__ends_with_a_single_layer(snippet, fails):
    """With a single layer: `dropout` acts only between layers, so there is
    none.
    """
    edited = snippet.edit("nn.LSTM(8, 5, 2, dropout", "nn.LSTM(8, 5, dropout")
    fails(test_some_layers_listen_if_told, edited)


def test_other_layers_do_not_listen(snippet):
    run = snippet.after("changed-by-eval")

    assert len(run.layers[6:]) == 7
    for layer in run.layers[6:]:
        assert not run.changed_by_eval(layer, run.inputs)


@pytest.mark.parametrize("name", DEAF)
def test_other_layers_do_not_listen__also_for(name):
    assert not listens(*DEAF[name])


@edits(
    (
        "InstanceNorm with statistics",
        "nn.InstanceNorm1d(4), nn",
        "nn.InstanceNorm1d(4, **tracks), nn",
    ),
    ("Dropout", "nn.LayerNorm(8)", "nn.Dropout()"),
    ("BatchNorm", "nn.GroupNorm(2, 4)]", "nn.BatchNorm1d(4)]"),
    (
        "an LSTM with dropout",
        "nn.LSTM(8, 5, 2), ",
        "nn.LSTM(8, 5, 2, dropout=0.5), ",
    ),
    ("RReLU", "nn.Linear(8, 3), nn.C", "nn.RReLU(), nn.C"),
)
def test_other_layers_do_not_listen__but_not(snippet, old, new, fails):
    """Layers with running statistics or random numbers do change: `BatchNorm`,
    `Dropout`, `RReLU`.
    """
    fails(test_other_layers_do_not_listen, snippet.edit(old, new))


def assert_standardized(output):
    """Compare mean and variance of each channel with 0 and 1."""
    dims = [dim for dim in range(output.dim()) if dim != 1]
    mean, variance = output.mean(dims), output.var(dims, correction=0)
    torch.testing.assert_close(mean, mean * 0, rtol=0, atol=1e-3)
    torch.testing.assert_close(variance, variance * 0 + 1, rtol=0, atol=1e-3)


def test_training_uses_the_batch(snippet):
    run = snippet.after("lag")

    assert_standardized(run.standardized)
    constant = run.norm.train()(torch.full((9, 1), 3.0))
    assert constant.abs().max() < 0.1


@pytest.mark.parametrize(
    "running",
    [0.0, -100.0],
    ids=["running statistics of zero", "ones far off"],
)
@pytest.mark.parametrize("dims", [1, 2, 3], ids="BatchNorm{}d".format)
def test_training_uses_the_batch__also_for(dims, running):
    torch.manual_seed(0)
    layers = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
    norm = layers[dims](3)
    norm.running_mean.fill_(running)
    norm.running_var.fill_(running**2)
    nn.init.constant_(norm.weight, 3)
    nn.init.constant_(norm.bias, -2)

    output = norm(4 * torch.randn(40, 3, *[4] * dims) - 20)
    assert_standardized((output + 2) / 3)


@pytest.mark.parametrize(
    "new",
    [
        "norm.eval()(batch)",
        "F.batch_norm(batch, batch.mean(0) + 0.1, batch.var(0))",
        "F.batch_norm(batch, batch.mean(0), batch.var(0) + 1)",
    ],
    ids=["in evaluation", "with another mean", "with another variance"],
)
def test_training_uses_the_batch__but_not(snippet, new, fails):
    """In evaluation mode it uses the running statistics; the other edits
    change the mean or the variance.
    """
    edited = snippet.edit("norm.train()(batch)", new)
    fails(test_training_uses_the_batch, edited)


def test_evaluation_uses_the_running_numbers(
    snippet, layer=nn.BatchNorm1d, dims=0
):
    run = snippet.after("lag")
    assert run.norm.track_running_stats
    seen = [0, 1.0]
    for batch, mean in zip(run.batches, run.evaluated, strict=True):
        seen[0] += 0.1 * (batch.mean().item() - seen[0])
        seen[1] += 0.1 * (batch.var().item() - seen[1])
        expected = (batch.mean().item() - seen[0]) / (seen[1] + 1e-5) ** 0.5
        assert mean == pytest.approx(expected, abs=1e-3)

    torch.manual_seed(0)
    norm = layer(3)
    norm(4 * torch.randn(8, 3, *[5] * dims) + 1)
    inputs = torch.randn(4, 3, *[5] * dims)
    output = norm.eval()(inputs)
    size = (3, *[1] * dims)
    scale = (norm.running_var + norm.eps).sqrt().reshape(size)
    centered = inputs - norm.running_mean.reshape(size)
    torch.testing.assert_close(output, centered / scale)
    assert norm(inputs[:1]).equal(output[:1])
    inputs[1:] *= 50
    assert norm(inputs)[:1].equal(output[:1])


@pytest.mark.parametrize(
    ("layer", "dims"),
    [(nn.BatchNorm1d, 1), (nn.BatchNorm2d, 2)],
    ids=["BatchNorm1d", "BatchNorm2d"],
)
def test_evaluation_uses_the_running_numbers__also_for(snippet, layer, dims):
    test_evaluation_uses_the_running_numbers(snippet, layer, dims)


@edits(
    ("in training", "norm.eval()(batch)", "norm.train()(batch)"),
    (
        "around the mean of the batch",
        "norm.eval()(batch)",
        "norm.eval()(batch - batch.mean())",
    ),
    (
        "without the running variance",
        "norm.eval()(batch)",
        "(batch - norm.eval().running_mean)",
    ),
)
def test_evaluation_uses_the_running_numbers__but_not(
    snippet, old, new, fails
):
    """With the batch's own mean in it, a result depends on the other samples;
    without the variance, its scale is off.
    """
    fails(test_evaluation_uses_the_running_numbers, snippet.edit(old, new))


def test_evaluation_uses_the_running_numbers__ends_if_none_are_tracked(
    snippet, fails
):
    """With `track_running_stats=False`: there are none, so it uses the batch
    in evaluation mode too.
    """
    edited = snippet.edit("Norm1d(1)", "Norm1d(1, track_running_stats=False)")
    edited = edited.edit("norm.running_mean.item()", "batch.mean().item()")
    fails(test_evaluation_uses_the_running_numbers, edited)


def once(norm, batch):
    """Send a batch through a layer."""
    return norm(batch)


def recomputed(norm, batch):
    """Send a batch through a layer, and again in the backward pass."""
    batch = batch.clone().requires_grad_()
    checkpoint(norm, batch, use_reentrant=False).sum().backward()


def test_each_batch_moves_a_tenth(
    snippet, layer=nn.BatchNorm1d, dims=0, forward=once
):
    run = snippet.after("lag")
    torch.manual_seed(0)
    other, inputs = layer(3), 2 * torch.randn(7, 9, 3, *[4] * dims) + 5
    for batch in inputs:
        forward(other.train(), batch)
        other.eval()(batch)
    for norm, batches in ((run.norm, run.batches), (other, inputs)):
        mean, variance = torch.zeros(1), torch.ones(1)
        for batch in batches.transpose(1, 2):
            numbers = batch.flatten(1)
            mean = mean + 0.1 * (numbers.mean(1) - mean)
            variance = variance + 0.1 * (numbers.var(1) - variance)
        torch.testing.assert_close(norm.running_mean, mean)
        torch.testing.assert_close(norm.running_var, variance)


@pytest.mark.parametrize(
    ("layer", "dims"),
    [(nn.BatchNorm1d, 1), (nn.BatchNorm2d, 2)],
    ids=["BatchNorm1d", "BatchNorm2d"],
)
def test_each_batch_moves_a_tenth__also_for(snippet, layer, dims):
    test_each_batch_moves_a_tenth(snippet, layer, dims)


def test_each_batch_moves_a_tenth__ends_in_a_checkpoint(snippet, fails):
    """In a block that `torch.utils.checkpoint` runs again for its backward
    pass: each batch moves them twice.
    """
    norm = nn.BatchNorm1d
    fails(test_each_batch_moves_a_tenth, snippet, norm, 0, recomputed)


APPEND = "    running.append(norm.running_mean.item())\n"


@edits(
    ("with another momentum", "Norm1d(1)", "Norm1d(1, momentum=0.2)"),
    ("with a mean over all batches", "Norm1d(1)", "Norm1d(1, momentum=None)"),
    ("in evaluation", "norm.train()(batch)", "norm.eval()(batch)"),
    (
        "from another mean",
        "for batch in b",
        "norm.running_mean.fill_(99)\nfor batch in b",
    ),
    (
        "from another variance",
        "for batch in b",
        "norm.running_var.fill_(9999)\nfor batch in b",
    ),
    (
        "with a variance that stands",
        APPEND,
        f"{APPEND}    norm.running_var.fill_(1)\n",
    ),
)
def test_each_batch_moves_a_tenth__but_not(snippet, old, new, fails):
    """`momentum=0.2` makes it a fifth of the way; the other edits change where
    the numbers start, or how they move.
    """
    fails(test_each_batch_moves_a_tenth, snippet.edit(old, new))


def test_batchnorm_counts_batches(snippet, forward=once):
    run = snippet.after("lag")
    assert run.norm.num_batches_tracked == len(run.batches) == 60

    for norm, shape in ((nn.BatchNorm1d(3), (2,)), (nn.BatchNorm2d(3), (1,))):
        shape = (*shape, 3, *[4] * (norm.__class__ is nn.BatchNorm2d) * 2)
        for count in range(1, 5):
            forward(norm.train(), torch.randn(shape))
            forward(norm.eval(), torch.randn(shape))
            assert norm.num_batches_tracked == count


def test_batchnorm_counts_batches__ends_in_a_checkpoint(snippet, fails):
    """In a block that `torch.utils.checkpoint` runs again: each batch counts
    twice, and moves the running statistics twice.
    """
    fails(test_batchnorm_counts_batches, snippet, recomputed)


@edits(
    ("in evaluation", "norm.train()(batch)", "norm.eval()(batch)"),
    (
        "with another count",
        APPEND,
        f"{APPEND}    norm.num_batches_tracked.fill_(1)\n",
    ),
)
def test_batchnorm_counts_batches__but_not(snippet, old, new, fails):
    """In evaluation mode, batches are not counted; the other edit keeps
    setting the count to 1.
    """
    fails(test_batchnorm_counts_batches, snippet.edit(old, new))


def test_running_numbers_catch_up(snippet):
    run = snippet.after("lag")

    assert run.batches.shape == (60, 5_000, 1)
    for batch in run.batches:
        assert batch.mean().item() == pytest.approx(7, abs=0.15)
        assert batch.std().item() == pytest.approx(2, abs=0.15)
    assert len(run.evaluated) == 60
    assert run.evaluated[0] > 5
    assert abs(run.evaluated[-1]) < 0.1
    assert run.standardized.mean().item() == pytest.approx(0, abs=1e-4)
    first = nn.BatchNorm1d(1)(run.batches[0])
    assert first.mean().item() == pytest.approx(0, abs=1e-4)


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
        means.append(norm.eval()(batch).mean())

    assert means[0] > 5
    assert abs(means[-1]) < 0.1


@edits(
    ("a fast average", "Norm1d(1)", "Norm1d(1, momentum=0.9)"),
    ("a slow average", "Norm1d(1)", "Norm1d(1, momentum=0.01)"),
    ("in evaluation", "norm.train()(batch)", "norm.eval()(batch)"),
    ("off in training", "norm.train()(batch)", "norm.train()(batch) + 0.1"),
)
def test_running_numbers_catch_up__but_not(snippet, old, new, fails):
    """`momentum` sets the pace: with 0.9, one batch is enough; with 0.01,
    sixty are not.
    """
    fails(test_running_numbers_catch_up, snippet.edit(old, new))


def test_training_mode_gives_other_scores(snippet):
    run = snippet.after("forgotten-eval")

    assert run.first.shape == run.second.shape == (9, 3)
    assert not run.first[0].equal(run.second[0])
    assert run.first.grad_fn is None
    assert all(layer.training for layer in run.model.modules())
    # Both passes saw the same flowers: without dropout, they agree.
    with patch.object(F, "dropout", lambda x, *_: x):
        same = snippet.after("forgotten-eval")
    assert same.first.equal(same.second)
    assert not run.model(run.flowers).equal(run.model(run.flowers))


@pytest.mark.parametrize("recording", [True, False])
def test_training_mode_gives_other_scores__also_with(snippet, recording):
    run = snippet.after("train")

    with torch.set_grad_enabled(recording):
        for flowers in run.petals.split(9)[:33]:
            assert not run.model(flowers).equal(run.model(flowers))


@edits(
    ("in evaluation", "flowers, _ =", "model.eval()\nflowers, _ ="),
    ("without dropout", "nn.Dropout(0.5)", "nn.Dropout(0.0)"),
    ("with a graph", "no_grad():\n    f", "enable_grad():\n    f"),
)
def test_training_mode_gives_other_scores__but_not(snippet, old, new, fails):
    """In evaluation mode or without dropout, both passes agree; under
    `enable_grad()`, the scores carry a graph.
    """
    fails(test_training_mode_gives_other_scores, snippet.edit(old, new))


def test_validation_leaks_into_the_statistics(snippet):
    kept = "kept = copy.deepcopy(model)"
    marked = snippet.edit("flowers, _ =", f"import copy\n{kept}\nflowers, _ =")
    run = marked.after("forgotten-eval")

    assert run.flowers.equal(run.val_set[:9][0])
    old, new, data = run.kept[1], run.model[1], run.kept[0](run.flowers)
    assert run.first.grad_fn is None
    # Two passes, and each goes a tenth of the way.
    mean = data.mean(0) + 0.81 * (old.running_mean - data.mean(0))
    variance = data.var(0) + 0.81 * (old.running_var - data.var(0))
    torch.testing.assert_close(new.running_mean, mean)
    torch.testing.assert_close(new.running_var, variance)


@pytest.mark.parametrize(
    "recording", [True, False], ids=["with gradients", "without gradients"]
)
@pytest.mark.parametrize(
    "mean", [-5.0, 100.0], ids=["a negative mean", "a large mean"]
)
def test_validation_leaks_into_the_statistics__also_for_batches_with(
    recording, mean
):
    norm = nn.BatchNorm2d(1)
    batch = torch.tensor([mean - 1, mean + 1]).reshape(2, 1, 1, 1)
    with torch.set_grad_enabled(recording):
        norm(batch)

    assert norm.running_mean == pytest.approx(mean / 10)
    assert norm.running_var == pytest.approx(0.9 + 0.1 * 2)


@edits(
    ("in evaluation", "flowers, _ =", "model.eval()\nflowers, _ ="),
    ("but away from the data", "Norm1d(8),", "Norm1d(8, momentum=-0.1),"),
    (
        "with a mean put back",
        "print(first[0], s",
        "model[1].running_mean.zero_()\nprint(first[0], s",
    ),
    (
        "with a variance put back",
        "print(first[0], s",
        "model[1].running_var.fill_(1)\nprint(first[0], s",
    ),
    ("with a graph", "no_grad():\n    f", "enable_grad():\n    f"),
)
def test_validation_leaks_into_the_statistics__but_not(
    snippet, old, new, fails
):
    """In evaluation mode, the statistics stay; other edits push them away, put
    them back or record a graph.
    """
    fails(test_validation_leaks_into_the_statistics, snippet.edit(old, new))


def test_evaluation_repeats_itself(snippet, number=9):
    run = snippet.after("with-eval")

    assert run.once.shape == (9, 3)
    assert run.once.equal(run.again)
    assert run.once.data_ptr() != run.again.data_ptr()
    with run.evaluating(run.model):
        assert run.model(run.petals[:number]).equal(
            run.model(run.petals[:number])
        )


@pytest.mark.parametrize("number", [1, 300])
def test_evaluation_repeats_itself__also_for(snippet, number):
    test_evaluation_repeats_itself(snippet, number)


@edits(
    ("without eval", "    model.eval()\n    try", "    try"),
    ("with train", "    once, again", "    model.train()\n    once, again"),
)
def test_evaluation_repeats_itself__but_not(snippet, old, new, fails):
    """Without `eval()`, or after `train()`, dropout draws anew in each
    pass.
    """
    fails(test_evaluation_repeats_itself, snippet.edit(old, new))


def test_eval_stays_on(snippet, added=None):
    run = snippet.after("forgotten-train")
    if added:
        run.fresh.append(added)

    assert run.modes == [{True}] * 2 + [{False}] * 4
    assert [layer for layer in run.fresh.modules() if layer.training] == []
    assert all(each.grad is not None for each in run.fresh.parameters())
    torch.optim.SGD(run.fresh.parameters(), lr=0.1).step()
    run.fresh.load_state_dict(run.model.state_dict())
    copied = copy.deepcopy(run.fresh).double()
    assert not any(layer.training for layer in copied.modules())
    assert all(layer.training for layer in run.fresh.train().modules())


def test_eval_stays_on__ends_for_a_layer_added_later(snippet, fails):
    """For a layer that joins the model later: it is in training mode."""
    fails(test_eval_stays_on, snippet, nn.Dropout())


@edits(
    (
        "with train",
        "        F.cross_entropy(fresh",
        "        fresh.train()\n        F.cross_entropy(fresh",
    ),
    ("without eval", "    fresh.eval()  # to validate, and never back\n", ""),
    ("in another layer", "fresh.eval()  #", "fresh[0].eval()  #"),
    ("in one layer", "fresh.eval()  #", "fresh.eval()[1].training = True  #"),
)
def test_eval_stays_on__but_not(snippet, old, new, fails):
    """`train()` before each step switches back; the other edits never put the
    whole model into evaluation mode.
    """
    fails(test_eval_stays_on, snippet.edit(old, new))


def test_a_mean_of_means_weighs_wrongly(snippet, size=149):
    run = snippet.after("batch-sizes")
    inputs, labels = run.val_set.tensors
    with run.evaluating(run.model):
        losses = F.cross_entropy(run.model(inputs), labels, reduction="none")

    parts = losses.split(size)
    weighed = sum((part / len(part)).sum() for part in parts) / len(parts)
    mean = run.mean_of_means(run.model, DataLoader(run.val_set, size))
    assert type(mean) is float
    assert mean == pytest.approx(weighed.item(), rel=1e-5)
    assert run.losses[149][1] != pytest.approx(losses.mean().item(), rel=1e-3)
    assert abs(mean - losses.mean().item()) > 1e-4


@pytest.mark.parametrize("size", [64, 7])
def test_a_mean_of_means_weighs_wrongly__also_for(snippet, size):
    test_a_mean_of_means_weighs_wrongly(snippet, size)


@edits(
    (
        "with a loss per sample",
        "means.append(F.cross_entropy(model(inputs), labels).item())",
        (
            "means += F.cross_entropy("
            'model(inputs), labels, reduction="none").tolist()'
        ),
    ),
    ("with the worst batch", "sum(means) / len(means)", "max(means)"),
)
def test_a_mean_of_means_weighs_wrongly__but_not(snippet, old, new, fails):
    """With one loss per sample, each sample counts once; `max` takes the worst
    batch and is no mean at all.
    """
    fails(test_a_mean_of_means_weighs_wrongly, snippet.edit(old, new))


def test_equal_batches_weigh_rightly(snippet, size=50):
    run = snippet.after("batch-sizes")

    loader = DataLoader(run.val_set, size)
    expected = mean_over_all(run.model, loader)[0]
    mean = run.mean_of_means(run.model, loader)
    assert mean == pytest.approx(expected, rel=1e-5)
    assert run.losses[150] == pytest.approx((expected, expected), rel=1e-5)


@pytest.mark.parametrize("size", [10, 150])
def test_equal_batches_weigh_rightly__also_for(snippet, size):
    test_equal_batches_weigh_rightly(snippet, size)


def test_equal_batches_weigh_rightly__also_for_many_classes(snippet):
    run = snippet.after("mean-of-means")
    scores, labels = torch.randn(300, 40), torch.arange(300) % 40
    loader = DataLoader(TensorDataset(scores, labels), 25)

    mean = run.mean_of_means(nn.Identity(), loader)

    assert mean == pytest.approx(F.cross_entropy(scores, labels).item())


@edits(
    (
        "sums",
        "cross_entropy(model(inputs), labels).item()",
        'cross_entropy(model(inputs), labels, reduction="sum").item()',
    ),
    ("the worst batch", "sum(means) / len(means)", "max(means)"),
)
def test_equal_batches_weigh_rightly__but_not_for(snippet, old, new, fails):
    """Sums grow with the size of the batch, and the worst batch is no mean."""
    fails(test_equal_batches_weigh_rightly, snippet.edit(old, new))


NORMS = {
    "a sequence of one step": (nn.BatchNorm1d, (1, 4, 1)),
    "BatchNorm2d": (nn.BatchNorm2d, (1, 4, 1, 1)),
    "BatchNorm3d": (nn.BatchNorm3d, (1, 4, 1, 1, 1)),
}


def test_batchnorm_refuses_one_value(snippet):
    run = snippet.after("one-sample")
    training, evaluation, _ = run.alone

    assert isinstance(training, ValueError)
    assert "Expected more than 1 value per channel" in str(training)
    assert torch.is_tensor(evaluation)
    assert evaluation.shape == (1, 4)


@pytest.mark.parametrize("name", NORMS)
def test_batchnorm_refuses_one_value__also_for(name):
    layer, shape = NORMS[name]
    batch = torch.ones(shape)

    with pytest.raises(ValueError, match="more than 1 value per channel"):
        layer(4)(batch)
    assert layer(4).eval()(batch).shape == shape


def test_batchnorm_refuses_one_value__ends_if_no_statistics_are_tracked(
    snippet, fails
):
    """With `track_running_stats=False`: it raises in evaluation mode too."""
    edited = snippet.edit("(nn.BatchNorm1d(4).eval())", "(forgets.eval())")
    assert not edited.after("one-sample").forgets.training
    fails(test_batchnorm_refuses_one_value, edited)


@edits(
    ("in a LayerNorm", "(nn.BatchNorm1d(4)),", "(nn.LayerNorm(4)),"),
    ("without eval", "(4).eval())]", "(4))]"),
)
def test_batchnorm_refuses_one_value__but_not(snippet, old, new, fails):
    """`LayerNorm` takes one sample, because it needs no others; `BatchNorm`
    without `eval()` does not.
    """
    fails(test_batchnorm_refuses_one_value, snippet.edit(old, new))


class First(nn.Module):
    """The first output of a layer that returns several."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.weight = layer, layer.weight_ih_l0

    def forward(self, inputs):
        """Return the first output."""
        return self.layer(inputs)[0]


HEADS = {
    "Linear": (partial(nn.Linear, 4, 4), (3, 4)),
    "Conv1d": (partial(nn.Conv1d, 4, 4, 1), (3, 4, 5)),
    "Conv2d": (partial(nn.Conv2d, 4, 4, 1), (3, 4, 5, 5)),
    "LayerNorm": (partial(nn.LayerNorm, 4), (3, 4)),
    "BatchNorm1d": (partial(nn.BatchNorm1d, 4), (3, 4)),
    "GRU": (lambda: First(nn.GRU(4, 4)), (3, 5, 4)),
}


def test_inference_tensors_do_not_come_back(snippet):
    learned = snippet.after("comes-back").learned

    assert learned["no_grad"] is not None
    assert learned["inference_mode"] is None
    run = snippet.after("comes-back")
    assert run.features.is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be save"):
        run.head(run.features)


@pytest.mark.parametrize("name", HEADS)
def test_inference_tensors_do_not_come_back__also_for(name):
    make, shape = HEADS[name]
    layer, head = make(), make()
    with torch.no_grad():
        allowed = layer(torch.ones(shape))
    with torch.inference_mode():
        refused = layer(torch.ones(shape))

    head(allowed).sum().backward()
    assert head.weight.grad is not None
    with pytest.raises(RuntimeError, match="Inference tensors cannot be save"):
        head(refused)


@pytest.mark.parametrize("first", [nn.ReLU, nn.Dropout])
def test_inference_tensors_do_not_come_back__ends_behind(
    snippet, first, fails
):
    """Behind a `ReLU` or a `Dropout` in training mode: what these return
    outside the block is an ordinary tensor, and the next layer learns.
    """
    new = f"head = nn.Sequential(nn.{first.__name__}(), nn.Linear(8, 3))"
    edited = snippet.edit("head = nn.Linear(8, 3)", new).edit(
        "head.weight.grad", "head[1].weight.grad"
    )
    fails(test_inference_tensors_do_not_come_back, edited)


@edits(
    ("once cloned", "head(features).sum()", "head(features.clone()).sum()"),
    (
        "inference_mode twice",
        "    with mode():\n",
        "    with torch.inference_mode():\n",
    ),
    ("no_grad twice", "    with mode():\n", "    with torch.no_grad():\n"),
)
def test_inference_tensors_do_not_come_back__but_not(snippet, old, new, fails):
    """A clone made outside the block is an ordinary tensor; the other edits
    use one mode for both.
    """
    fails(test_inference_tensors_do_not_come_back, snippet.edit(old, new))


def test_functional_dropout_ignores_eval(snippet):
    run = snippet.after("functions")

    assert 0 < run.loose.count_nonzero() < 8
    assert run.loose[run.loose != 0].equal(
        2 * torch.ones(run.loose.count_nonzero())
    )
    assert run.tied.equal(torch.ones(8, 1))
    # Each row is a mean of ones, unless some of them are dropped.
    assert not torch.allclose(run.attention, torch.ones(8, 1))
    loose, tied, attention = run.Functions().train()(torch.ones(99, 1))
    assert 0 in loose
    assert 0 in tied
    assert not torch.allclose(attention, torch.ones(99, 1))


@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_functional_dropout_ignores_eval__also_in_a_module(rate):
    class Net(nn.Module):
        def forward(self, x):
            tied = F.dropout(x, rate, training=self.training)
            attention = F.scaled_dot_product_attention
            return F.dropout(x, rate), tied, attention(x, x, x, dropout_p=rate)

    x = torch.ones(2, 3, 50, 4)
    net = nn.Sequential(Net()).train()
    loose, tied, attention = net(x)
    assert 0 in loose
    assert 0 in tied
    assert not torch.allclose(attention, x)
    loose, tied, attention = net.eval()(x)
    assert 0 in loose
    assert tied.equal(x)
    assert not torch.allclose(attention, x)


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


def test_dropout_scales_what_it_keeps(snippet):
    scaled = snippet.after("functions").scaled

    kept = scaled[scaled != 0]
    assert 0 < len(kept) < len(scaled) == 8
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - 0.4)))
    assert abs(scaled.mean() - 1) < 0.6


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_scales_what_it_keeps__also_with(rate):
    torch.manual_seed(0)
    inputs = 3 + torch.rand(100_000)
    dropped = nn.Dropout(rate)(inputs)

    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], inputs[kept] / (1 - rate))
    assert dropped.mean() == pytest.approx(inputs.mean().item(), rel=0.05)


@edits(
    ("in evaluation", "nn.Dropout(0.4)", "nn.Dropout(0.4).eval()"),
    ("with another p", "nn.Dropout(0.4)", "nn.Dropout(0.5)"),
    ("as AlphaDropout", "nn.Dropout(0.4)", "nn.AlphaDropout(0.4)"),
    (
        "all dropped",
        "nn.Dropout(0.4)(torch.ones(8, 1))",
        "torch.zeros(8, 1)",
    ),
    ("without dropping", "nn.Dropout(0.4)", "nn.Identity()"),
)
def test_dropout_scales_what_it_keeps__but_not(snippet, old, new, fails):
    """In evaluation mode, nothing is dropped or scaled; the other edits drop
    or scale in another way.
    """
    fails(test_dropout_scales_what_it_keeps, snippet.edit(old, new))


def test_precision_is_no_mean(snippet):
    run = snippet.after("collect")

    inputs, labels = run.val_set.tensors
    with run.evaluating(run.model):
        guesses = run.model(inputs).argmax(dim=1)
    shares = []
    for size in (150, 64):
        pairs = zip(guesses.split(size), labels.split(size), strict=True)
        shares.append([share_of_ones(*pair) for pair in pairs])
    assert run.whole.item() == pytest.approx(*shares[0])
    assert abs(run.whole - sum(run.parts) / len(run.parts)) > 1e-3
    assert torch.tensor(run.parts) == pytest.approx(shares[1])


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_precision_is_no_mean__also_for_other_guesses(snippet, seed):
    run = snippet.after("collect")
    torch.manual_seed(seed)
    guesses, labels = torch.randint(3, (2, 200))

    whole = run.precision(guesses, labels).item()
    assert whole == pytest.approx(share_of_ones(guesses, labels))
    pairs = zip(guesses.split(64), labels.split(64), strict=True)
    parts = [share_of_ones(*pair) for pair in pairs]
    assert whole != pytest.approx(sum(parts) / len(parts), abs=1e-5)


def share_of_ones(guesses, labels):
    """Return how many of the guesses of kind 1 are right."""
    hits = ((guesses == 1) & (labels == 1)).sum()
    return (hits / (guesses == 1).sum()).item()


@edits(
    (
        "in one batch",
        "y in DataLoader(val_set, 64)]",
        "y in DataLoader(val_set, 150)]",
    ),
    ("as a mean", "pairs]\n\n", "pairs]\nwhole = sum(parts) / 3\n\n"),
    ("as another metric", "[guesses == 1] == 1", "[labels == 1] == 1"),
)
def test_precision_is_no_mean__but_not(snippet, old, new, fails):
    """In a single batch, the two agree; the other edits compute something else
    than the precision of the whole.
    """
    fails(test_precision_is_no_mean, snippet.edit(old, new))
