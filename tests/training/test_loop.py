"""The claims of docs/training/loop.md."""

import copy
import math
import warnings
from itertools import accumulate, islice, pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import compiled
from tests.helpers import worlds

SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
OPTIMIZERS = {
    "momentum": (SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    "Adam": (ADAM, {"weight_decay": 0.1, "amsgrad": True, "foreach": True}),
    "fused AdamW": (ADAMW, {"fused": True, "maximize": True}),
    "RMSprop": (torch.optim.RMSprop, {"momentum": 0.9, "weight_decay": 0.1}),
}
WORLDS = "tied", "with BatchNorm", "with dropout", "float64"


def small():
    """Return a model of four numbers, with a kink."""
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def images():
    """Return a model of images, images and labels."""
    layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout2d()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(18, 3))
    return model, torch.randn(6, 1, 5, 5), torch.arange(6) % 3


def words():
    """Return a model of words, words and labels."""
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    layers = [nn.Embedding(9, 8), attention, nn.Flatten(), nn.Linear(24, 3)]
    return (
        nn.Sequential(*layers),
        torch.randint(9, (6, 3)),
        torch.arange(6) % 3,
    )


def of_the_world(make):
    """Return a model, inputs and labels that fit it."""
    model = make()
    dtype = next(model.parameters()).dtype
    return model, torch.randn(6, 3, dtype=dtype), torch.arange(6) % 3


PREPARED = {"images": images, "words": words}


def same(first, second):
    """Compare lists of tensors, or of None."""
    return len(first) == len(second) and all(
        a is b if a is None or b is None else a.equal(b)
        for a, b in zip(first, second, strict=True)
    )


def weights_of(model):
    """Return copies of the parameters of a model."""
    return [each.detach().clone() for each in model.parameters()]


def gradients_of(model):
    """Return the gradients of a model, or None."""
    return [each.grad for each in model.parameters()]


def accuracy(model, data):
    """Return the share of right answers."""
    inputs, labels = data[:]
    with torch.no_grad():
        return (model(inputs).argmax(dim=1) == labels).double().mean().item()


def test_the_loop_learns(snippet):
    run = snippet.after("do-this")

    seen = {*run.train_set.indices}
    assert seen.isdisjoint(run.val_set.indices)
    assert len(run.val_set) == 297
    assert accuracy(run.model, run.val_set) > 0.85


@pytest.mark.parametrize("seed", [3])
def test_the_loop_learns__also_from_seed(snippet, seed):
    edited = snippet.edit("torch.manual_seed(0)", f"torch.manual_seed({seed})")
    test_the_loop_learns(edited)


@edits(
    (
        "without a step",
        "        optimizer.step()  # move the weights\n",
        "",
    ),
    ("uphill", "lr=0.25)\n\nfor", "lr=0.25, maximize=True)\n\nfor"),
    ("in one epoch", "for epoch in range(5)", "for epoch in range(1)"),
    (
        "from wrong labels",
        "torch.tensor(data.target)",
        "torch.arange(1797)%10",
    ),
)
def test_the_loop_learns__but_not(snippet, old, new, fails):
    """Without `step()`, nothing is learned; the others go uphill, stop after
    one epoch, or learn from labels that are wrong.
    """
    fails(test_the_loop_learns, snippet.edit(old, new))


ORDERS = {
    "all": ["reset", "forward", "back", "move"],
    "no reset": ["forward", "back", "move"],
    "the reset last": ["forward", "back", "move", "reset"],
    "an early step": ["reset", "move", "forward", "back"],
    "a late reset": ["forward", "back", "reset", "move"],
    "two backward": ["reset", "forward", "back", "forward", "back", "move"],
    "no step": ["reset", "forward", "back"],
}


def compare(run, order, prepared=None, lr=0.25, optimizer=None, exact=True):
    """Train a model with PyTorch's calls and by hand, and compare."""
    torch.manual_seed(0)
    model, inputs, labels = prepared or (
        small(),
        torch.randn(12, 4),
        torch.arange(12) % 3,
    )
    twin = copy.deepcopy(model)
    parameters = list(twin.parameters())
    kind, options = optimizer or (SGD, {})
    usual = kind(model.parameters(), lr=lr, **options)
    for index in range(25):
        losses = None
        for name in order:
            if name == "reset":
                usual.zero_grad()
                run.zero_grad(parameters)
            elif name == "forward":
                losses = []
                for each in (model, twin):
                    torch.manual_seed(index)
                    losses.append(F.cross_entropy(each(inputs), labels))
            elif name == "back":
                losses[0].backward()
                run.backward(losses[1], parameters)
            else:
                usual.step()
                run.step(parameters, lr=lr)
            for mine, its in (
                (weights_of(twin), weights_of(model)),
                (gradients_of(twin), gradients_of(model)),
            ):
                if exact:
                    assert same(mine, its), (mine, its)
                else:
                    torch.testing.assert_close(mine, its)
        inputs = inputs.roll(1, 0)
    return model


def by_hand(snippet):
    """Return what the cell with the three functions defines."""
    return snippet.only("digits", "by-hand").after("by-hand")


def test_three_functions_train_like_pytorch(
    snippet, make=None, lr=0.25, optimizer=None
):
    run = by_hand(snippet)
    with no_error():
        if make is None and optimizer is None and lr == 0.25:  # the page's
            page = snippet.only("digits", "by-hand", "compare")
            page = page.after("compare")
            mine, its = weights_of(page.by_hand), weights_of(page.usual)
            assert same(mine, its)
            assert len(page.train_loader) * 5 == 150
            torch.manual_seed(1)
            assert accuracy(page.usual, page.val_set) > 0.85
        for order in ORDERS.values():
            prepared = make and make()
            compare(run, order, prepared, lr, optimizer)


@worlds.each("make", worlds.MODELS, *WORLDS)
def test_three_functions_train_like_pytorch__also_if_the_model_is(
    snippet, make
):
    test_three_functions_train_like_pytorch(
        snippet, lambda: of_the_world(make)
    )


@pytest.mark.parametrize("name", PREPARED)
def test_three_functions_train_like_pytorch__also_for(snippet, name):
    test_three_functions_train_like_pytorch(snippet, PREPARED[name])


def in_bfloat16():
    """Return a model in bfloat16, inputs and labels."""
    model, inputs = small().bfloat16(), torch.randn(12, 4).bfloat16()
    return model, inputs, torch.arange(12) % 3


def test_three_functions_train_like_pytorch__also_in_bfloat16(snippet):
    test_three_functions_train_like_pytorch(snippet, in_bfloat16)


@pytest.mark.parametrize("lr", [0.001, 0.1, 0.7])
def test_three_functions_train_like_pytorch__also_up_to_rounding_at(
    snippet, lr
):
    for order in ORDERS.values():
        compare(by_hand(snippet), order, None, lr, exact=False)


def test_three_functions_train_like_pytorch__also_in_errors(snippet):
    run = by_hand(snippet)
    model = small()
    said = []
    for backward in (
        torch.Tensor.backward,
        lambda loss: run.backward(loss, list(model.parameters())),
    ):
        loss = F.cross_entropy(model(torch.ones(2, 4)), torch.arange(2))
        backward(loss)
        with pytest.raises(RuntimeError) as caught:
            backward(loss)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert said[0].startswith("Trying to backward through the graph a second")


def test_three_functions_train_like_pytorch__ends_at_a_rate_of(snippet, fails):
    """At a rate of 0.1, the last digit can differ: line 5 rounds the product
    before it subtracts.
    """
    fails(test_three_functions_train_like_pytorch, snippet, None, 0.1)


def frozen():
    """Return a model with a frozen layer."""
    model = small()
    model[0].requires_grad_(False)
    return model, torch.randn(12, 4), torch.arange(12) % 3


def unused():
    """Return a model with a layer that the loss does not use."""
    model = small()
    model[1].unused = nn.Linear(2, 2)
    return model, torch.randn(12, 4), torch.arange(12) % 3


@pytest.mark.parametrize("make", [frozen, unused], ids=["frozen", "unused"])
def test_three_functions_train_like_pytorch__ends_with_a_layer_that_is(
    snippet, make, fails
):
    """If a parameter is frozen or the loss does not use it, `autograd.grad`
    raises an error; `loss.backward()` leaves it out.
    """
    fails(test_three_functions_train_like_pytorch, snippet, make)


ADDED = {
    "momentum": (SGD, {"momentum": 0.9}),
    "weight decay": (SGD, {"weight_decay": 0.1}),
    "Adam": (ADAM, {}),
    "AdamW": (ADAMW, {}),
}


@pytest.mark.parametrize("name", ADDED)
def test_three_functions_train_like_pytorch__ends_with(snippet, name, fails):
    """Momentum, weight decay and Adam do not subtract the gradient alone."""
    options = None, 0.25, ADDED[name]
    fails(test_three_functions_train_like_pytorch, snippet, *options)


@edits(
    ("1", "p.grad = None  # 1", "p.grad = p.grad  # 1"),
    ("2", "grad(loss, parameters)  # 2", "grad(2 * loss, parameters)"),
    (
        "3 kept",
        "p.grad = new if p.grad is None else p.grad + new",
        "p.grad = new",
    ),
    ("3 doubled", "else p.grad + new", "else 2 * p.grad + new"),
    ("4", "if p.grad is not None:  # 4", "if True:  # 4"),
    ("5", "p -= lr * p.grad", "p -= 2 * lr * p.grad"),
    ("5 uphill", "p -= lr * p.grad", "p += lr * p.grad"),
    ("5 and a reset", "p -= lr * p.grad", "p -= lr * p.grad; p.grad = None"),
)
def test_three_functions_train_like_pytorch__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each of the numbered lines counts: without line 4, for example, a step
    before `backward()` raises an error.
    """
    fails(test_three_functions_train_like_pytorch, snippet.edit(old, new))


def lines_of(snippet, *more):
    """Return what the cells with the lines as text define."""
    last = more[-1] if more else "lines"
    return snippet.only("digits", "train", "lines", *more).after(last)


def prepared(make=None, optimizer=None):
    """Return the names that the five lines use."""
    torch.manual_seed(5)
    model, inputs, labels = (make or images)()
    kind, options = optimizer or (SGD, {"lr": 0.1})
    optimizer = kind(model.parameters(), **options)
    names = {"model": model, "optimizer": optimizer, "F": F, "nn": nn}
    return names | {"images": inputs, "labels": labels}


def test_slopes_add_up(snippet, make=None, optimizer=None):
    run = lines_of(snippet)
    names = prepared(make, optimizer)
    model, added = names["model"].eval(), 0

    for _ in range(4):
        loss = F.cross_entropy(model(names["images"]), names["labels"])
        new = torch.autograd.grad(loss, list(model.parameters()))
        before = [0 if g is None else g.clone() for g in gradients_of(model)]
        for line in run.orders["no zero_grad"][:-1]:
            exec(line, names)
        sums = [a + b for a, b in zip(before, new, strict=True)]
        torch.testing.assert_close(gradients_of(model), sums)
        kept = [gradient.clone() for gradient in gradients_of(model)]
        exec(run.move, names)
        added += same(kept, gradients_of(model))
        names["labels"] = names["labels"].roll(1)
    assert added == 4


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_slopes_add_up__also_with(snippet, name):
    test_slopes_add_up(snippet, words, OPTIMIZERS[name])


@worlds.each("make", worlds.MODELS, *WORLDS)
def test_slopes_add_up__also_if_the_model_is(snippet, make):
    test_slopes_add_up(snippet, lambda: of_the_world(make))


def test_slopes_add_up__also_in_the_numbers_of_the_page(snippet):
    run = snippet.only("digits", "by-hand", "walk").after("walk")
    assert run.weights == [1, 2, 3.5, 4.75, 5.125]
    gradients = [4 * (a - b) for a, b in pairwise(run.weights)]
    new = [2 * (weight - 3) for weight in run.weights[:-1]]
    assert gradients == [*accumulate(new)]


def test_slopes_add_up__also_in_a_closure_of_lbfgs(snippet):
    run = lines_of(snippet)
    names = prepared(lambda: of_the_world(lambda: nn.Linear(3, 3)))
    model, sums = names["model"], []

    def closure():
        before = model.weight.grad
        before = 0 if before is None else before.clone()
        for line in run.orders["no zero_grad"][:-1]:
            exec(line, names)
        new = torch.autograd.grad(
            F.cross_entropy(model(names["images"]), names["labels"]),
            model.weight,
        )
        sums.append((model.weight.grad.clone(), before + new[0]))
        return names["loss"]

    torch.optim.LBFGS(model.parameters()).step(closure)

    assert len(sums) > 1
    for found, expected in sums:
        torch.testing.assert_close(found, expected)


def test_slopes_add_up__ends_with_nesterov(snippet, fails):
    """With SGD's `nesterov=True` and `foreach=True`, `step()` adds the
    momentum to `.grad` itself.
    """
    options = {"lr": 0.1, "momentum": 0.9, "nesterov": True, "foreach": True}
    fails(test_slopes_add_up, snippet, None, (SGD, options))


BACK = '    "loss.backward()",\n'


@edits(
    ("if it resets", BACK, BACK.replace("loss.", "model.zero_grad(); loss.")),
    ("of a doubled loss", BACK, BACK.replace("loss", "(2 * loss)")),
    (
        "if only the first batch counts",
        BACK,
        '    "if model[-1].bias.grad is None: loss.backward()",\n',
    ),
)
def test_slopes_add_up__but_not(snippet, old, new, fails):
    """After a reset, only the last gradient is left; the others store twice
    the gradient, or only the first one.
    """
    fails(test_slopes_add_up, snippet.edit(old, new))


def test_only_step_moves_weights(snippet, make=None, optimizer=None):
    run = lines_of(snippet)
    names = prepared(make, optimizer)

    for _ in range(3):
        moved = []
        for line in run.five:
            before = weights_of(names["model"])
            exec(line, names)
            if not same(before, weights_of(names["model"])):
                moved.append(line)
        assert moved == ["optimizer.step()"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_only_step_moves_weights__also_with(snippet, name):
    test_only_step_moves_weights(snippet, words, OPTIMIZERS[name])


@worlds.each("make", worlds.MODELS, *WORLDS, "frozen in part")
def test_only_step_moves_weights__also_if_the_model_is(snippet, make):
    test_only_step_moves_weights(snippet, lambda: of_the_world(make))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_only_step_moves_weights__ends_with_max_norm(snippet, kind, fails):
    """With `max_norm`, `Embedding` and `EmbeddingBag` shrink rows of their
    weight in the forward pass.
    """

    def make():
        layers = [kind(9, 8, max_norm=0.1), nn.Flatten(), nn.LazyLinear(3)]
        model, inputs = nn.Sequential(*layers), torch.randint(9, (6, 3))
        model(inputs.clone())
        model[0].reset_parameters()
        return model, inputs, torch.arange(6) % 3

    fails(test_only_step_moves_weights, snippet, make)


MOVES = "; [p.data.add_(1) for p in model.parameters()]"


@edits(
    (
        "zero_grad",
        '"optimizer.zero_grad()"',
        f'"optimizer.zero_grad(){MOVES}"',
    ),
    (
        "forward",
        '"scores = model(images)"',
        f'"scores = model(images){MOVES}"',
    ),
    ("backward", BACK, f'    "loss.backward(){MOVES}",\n'),
    ("no line", '    "optimizer.step()",\n', '    "pass",\n'),
)
def test_only_step_moves_weights__but_not_if_it_is(snippet, old, new, fails):
    """These edits add 1 to each parameter in another line, or leave out
    `step()`.
    """
    fails(test_only_step_moves_weights, snippet.edit(old, new))


def whole(snippet, epochs, **names):
    """Run the whole loop on another model; return what it leaves behind."""
    edited = snippet.edit("range(10)", f"range({epochs})")
    cell = edited.cells()["whole"]
    names = {"torch": torch, "nn": nn, "F": F, "copy": copy} | names
    with no_error():
        exec(compiled(cell, snippet.path), names)
    return SimpleNamespace(**names)


def samples(count, scale=1.0):
    """Return samples of four numbers, with their labels."""
    torch.manual_seed(0)
    return TensorDataset(
        scale * torch.randn(count, 4), torch.arange(count) % 3
    )


def mean_loss(model, data, loss=F.cross_entropy):
    """Return the mean loss over some data, in one batch."""
    inputs, labels = data[:]
    with torch.no_grad():
        return loss(model(inputs), labels).item()


def test_each_sample_counts_alike(snippet, sizes=(64, 50), loss=None):
    training, validation = samples(130), samples(90)
    validation.tensors[0].add_(1)
    model, loss = small(), loss or F.cross_entropy
    run = whole(
        snippet,
        1,
        F=SimpleNamespace(cross_entropy=loss),
        model=model,
        optimizer=SGD(model.parameters(), lr=0.0),
        train_loader=DataLoader(training, sizes[0]),
        val_loader=DataLoader(validation, sizes[1]),
        device="cpu",
    )
    expected = [
        mean_loss(model, each, loss) for each in (training, validation)
    ]
    assert [run.train_loss, run.val_loss] == pytest.approx(expected)


@pytest.mark.parametrize(
    "sizes", [(7, 1), (500, 500), (129, 89)], ids="batches of {0[0]}".format
)
def test_each_sample_counts_alike__also_in(snippet, sizes):
    test_each_sample_counts_alike(snippet, sizes)


def test_each_sample_counts_alike__ends_for_ignored_labels(snippet, fails):
    """If the loss ignores some labels, the batches are still weighed by all
    of theirs.
    """

    def loss(scores, labels):
        ignored = scores[:, 0] > scores[:, 1]
        return F.cross_entropy(scores, labels.masked_fill(ignored, -100))

    fails(test_each_sample_counts_alike, snippet, (7, 7), loss)


def test_each_sample_counts_alike__ends_with_class_weights(snippet, fails):
    """With class weights, `cross_entropy` divides by the weights of a batch,
    not by its size.
    """

    def loss(scores, labels):
        return F.cross_entropy(scores, labels, torch.tensor([9.0, 1, 1]))

    fails(test_each_sample_counts_alike, snippet, (7, 7), loss)


@edits(
    (
        "if each training batch counts alike",
        "loss.item() * len(labels)\n        count += len(labels)\n    train",
        "loss.item()\n        count += 1\n    train",
    ),
    (
        "if each validation batch counts alike",
        "loss.item() * len(labels)\n            count += len(labels)\n    val",
        "loss.item()\n            count += 1\n    val",
    ),
    (
        "if validation goes on counting",
        "    model.eval()\n    total, count = 0.0, 0\n",
        "    model.eval()\n",
    ),
    (
        "if a loss is the last batch's",
        "    val_loss = total / count",
        "    val_loss = loss.item()",
    ),
)
def test_each_sample_counts_alike__but_not(snippet, old, new, fails):
    """The mean of the batches' means weighs the samples of a small last batch
    more; the others mix both data sets, or take one batch.
    """
    fails(test_each_sample_counts_alike, snippet.edit(old, new))


def test_the_best_is_kept(snippet, scripted=(3.0, 1.0, 2.5, 2.0)):
    model = nn.Sequential(nn.BatchNorm1d(4), small(), nn.Dropout(0.1))
    data, states, losses = samples(30), [], iter(scripted)

    def loss(scores, labels):
        if torch.is_grad_enabled():
            assert all(layer.training for layer in model.modules())
            return F.cross_entropy(scores, labels)
        assert not any(layer.training for layer in model.modules())
        states.append(copy.deepcopy(model.state_dict()))
        return torch.tensor(next(losses))

    whole(
        snippet,
        len(scripted),
        F=SimpleNamespace(cross_entropy=loss),
        model=model,
        optimizer=ADAMW(model.parameters(), lr=0.01),
        train_loader=DataLoader(data, 10, shuffle=True),
        val_loader=[data[:]],
        device="cpu",
    )
    best = min(each for each in scripted if not math.isnan(each))
    expected = states[scripted.index(best)]
    assert len(states) == len(scripted)
    found = model.state_dict()
    different = [
        name for name in found if not found[name].equal(expected[name])
    ]
    assert different == []
    assert not states[0]["1.0.weight"].equal(states[-1]["1.0.weight"])


SCRIPTS = {
    "rising losses": (1.0, 2.0),
    "falling losses": (2.0, 1.0),
    "equal losses": (1.0, 1.0),
    "a first loss of 0": (0.0, 1.0),
    "a first nan": (math.nan, 2.0, 1.0, 3.0),
    "a last nan": (2.0, 1.0, math.nan),
    "negative losses": (-1.0, 0.0, -2.0, 0.0),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_best_is_kept__also_for(snippet, name):
    test_the_best_is_kept(snippet, SCRIPTS[name])


def test_the_best_is_kept__also_in_the_run_of_the_page(snippet):
    run = snippet.only("digits", "set-up", "whole").after("whole")

    loss = mean_loss(run.model.cpu(), run.val_set)
    assert loss == pytest.approx(run.best_loss, rel=1e-4)
    assert run.best_loss <= run.val_loss


class Cargo:
    """A batch that has to be sent to a device before it can be used."""

    def __init__(self, tensor, sent):
        """Hold a tensor."""
        self.tensor, self.sent = tensor, sent

    def to(self, device):
        """Return the tensor, and note the device."""
        self.sent.append(device)
        return self.tensor


@pytest.mark.simulates("a device")
def test_the_best_is_kept__also_on_a_device(snippet):
    sent, model = [], small()
    batch = tuple(Cargo(each, sent) for each in samples(12)[:])
    run = whole(
        snippet,
        2,
        model=model,
        optimizer=SGD(model.parameters(), lr=0.1),
        train_loader=[batch, batch],
        val_loader=[batch],
        device="a device",
    )
    assert sent == ["a device"] * 2 * (2 + 1) * 2
    loss = mean_loss(model, samples(12))
    assert loss == pytest.approx(run.best_loss)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_the_best_is_kept__ends_if_every_loss_is(snippet, number, fails):
    """If every validation loss is `nan` or `inf`, nothing is kept, and
    `load_state_dict(None)` raises an error.
    """
    fails(test_the_best_is_kept, snippet, (number, number))


@edits(
    (
        "without a copy",
        "copy.deepcopy(model.state_dict())",
        "model.state_dict()",
    ),
    ("the worst", "val_loss < best_loss", "best_loss > -val_loss"),
    ("unless it is loaded", "model.load_state_dict(best_state)\n", ""),
    (
        "the parameters alone",
        "copy.deepcopy(model.state_dict())",
        "copy.deepcopy(dict(model.named_parameters()))",
    ),
    ("in training mode", "    model.eval()\n", ""),
    ("in evaluation mode", "    model.train()\n    total", "    total"),
)
def test_the_best_is_kept__but_not(snippet, old, new, fails):
    """Without the copy, the last weights are kept; the others keep every
    epoch, or do not load, or leave out buffers or a mode.
    """
    fails(test_the_best_is_kept, snippet.edit(old, new))


def test_clipping_bounds_the_norm(snippet, scales=(0.001, 1.0, 100.0)):
    torch.manual_seed(0)
    model = nn.Sequential(small(), nn.Linear(3, 3))
    model[1].unused = nn.Linear(2, 2)
    optimizer = SGD(
        [{"params": model[0].parameters()}, {"params": model[1].parameters()}],
        lr=0.01,
    )
    inputs, labels = samples(12)[:]
    batches, norms = [(scale * inputs, labels) for scale in scales], []

    def check(*_):
        inputs, labels = batches[len(norms)]
        used = [p for p in model.parameters() if p.grad is not None]
        loss = F.cross_entropy(model(inputs), labels)
        raw = torch.autograd.grad(loss, used)
        norm = torch.cat([each.double().flatten() for each in raw]).norm()
        norms.append(norm.item())
        factor = 1 if norm <= 1 else 1 / norm
        clipped = [(factor * each.double()).float() for each in raw]
        found = [each.grad for each in used]
        torch.testing.assert_close(found, clipped, rtol=1e-4, atol=1e-7)

    optimizer.register_step_pre_hook(check)
    whole(
        snippet,
        1,
        model=model,
        optimizer=optimizer,
        train_loader=batches,
        val_loader=batches,
        device="cpu",
    )
    assert len(norms) == len(scales)
    assert min(norms) < 1 < max(norms)


@pytest.mark.parametrize("scale", [30.0, 1e6])
def test_clipping_bounds_the_norm__also_for_inputs_times(snippet, scale):
    test_clipping_bounds_the_norm(snippet, (0.001, scale))


@pytest.mark.parametrize("scale", [math.nan, math.inf, 1e25])
def test_clipping_bounds_the_norm__ends_if_the_norm_is_not_finite(
    snippet, scale, fails
):
    """If a gradient is `inf` or `nan`, or its square overflows, gradients
    become 0 or `nan`.
    """
    fails(test_clipping_bounds_the_norm, snippet, (0.001, 2.0, scale))


CLIP = "nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n"


@pytest.mark.parametrize(
    "clip",
    [
        "",
        CLIP.replace("1.0", "2.0"),
        CLIP.replace("1.0", "1.0, norm_type=1.0"),
        CLIP.replace("model.p", "model[0].p"),
        "for p in model.parameters():\n"
        "            nn.utils.clip_grad_norm_(p, max_norm=1.0)\n",
        "nn.utils.clip_grad_value_(model.parameters(), 1.0)\n",
    ],
    ids=[
        "without it",
        "up to 2",
        "in another norm",
        "of one layer",
        "one by one",
        "value by value",
    ],
)
def test_clipping_bounds_the_norm__but_not(snippet, clip, fails):
    """Without the line, nothing is clipped; the others change the limit, the
    norm, the layers or the factors.
    """
    edited = snippet.edit(
        f"        {CLIP}        opt", f"        {clip}        opt"
    )
    fails(test_clipping_bounds_the_norm, edited)


FOUR = (
    "no backward",
    "no step",
    "step before backward",
    "zero_grad after backward",
)
MODEL = (
    "    model = nn.Sequential("
    "nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))\n    opt"
)
PLAIN = "torch.optim.SGD(model.parameters(), lr=0.25)\n    names"


def others(snippet):
    """Return the program with another model and another optimizer."""
    adamw = "torch.optim.AdamW(model.parameters(), lr=0.05)\n    names"
    model = MODEL.replace("nn.ReLU()", "nn.BatchNorm1d(32), nn.Dropout()")
    return snippet.edit(PLAIN, adamw).edit(MODEL, model)


def check_the_order(run, name):
    """Check that an order is that of its name, made from the five lines."""
    orders = {
        "no zero_grad": [1, 2, 3, 4],
        "no backward": [0, 1, 2, 4],
        "no step": [0, 1, 2, 3],
        "step before backward": [0, 1, 2, 4, 3],
        "zero_grad after backward": [1, 2, 3, 0, 4],
    }
    assert run.orders[name] == [run.five[i] for i in orders[name]]


def some(run, count=3):
    """Return some batches."""
    return list(islice(run.train_loader, count))


def test_none_of_them_raises(snippet):
    run = lines_of(snippet)

    assert [*run.orders][1:] == [*FOUR, "no zero_grad"]
    for name, order in run.orders.items():
        with no_error(), warnings.catch_warnings():
            warnings.simplefilter("error")
            run.train(order, some(run), epochs=2)
        if name in FOUR:
            check_the_order(run, name)
    check_the_order(run, "no zero_grad")


def test_none_of_them_raises__also_with_adamw_and_dropout(snippet):
    test_none_of_them_raises(others(snippet))


def test_none_of_them_raises__ends_with_a_scheduler(snippet, fails):
    """Without `optimizer.step()`, a scheduler warns when it steps."""
    made = "names['s'] = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
    old = '"nn": nn, "F": F}\n'
    edited = snippet.edit(old, f"{old}    {made}\n")
    old = '            exec("\\n".join(lines), names)\n'
    edited = edited.edit(old, f"{old}            names['s'].step()\n")
    fails(test_none_of_them_raises, edited)


def test_none_of_them_raises__ends_with_a_scaler(snippet, fails):
    """Without `backward()`, the `step` of a `GradScaler` raises an error."""
    scaler = "torch.amp.GradScaler('cpu')"
    old = '"nn": nn, "F": F}\n'
    edited = snippet.edit(old, f'"nn": nn, "F": F, "s": {scaler}}}\n')
    edited = edited.edit(BACK, '    "s.scale(loss).backward()",\n')
    old = '    "optimizer.step()",\n'
    edited = edited.edit(old, '    "s.step(optimizer); s.update()",\n')
    fails(test_none_of_them_raises, edited)


@edits(
    (
        "without the forward pass",
        '"no backward": [reset, forward, measure, move]',
        '"no backward": [reset, measure, move]',
    ),
    (
        "with a step before backward and no reset",
        '"step before backward": [reset, forward',
        '"step before backward": [forward',
    ),
)
def test_none_of_them_raises__but_not(snippet, old, new, fails):
    """Without the forward pass, `scores` is missing; and without a reset, an
    early step overwrites weights that `backward()` needs.
    """
    fails(test_none_of_them_raises, snippet.edit(old, new))


def test_four_orders_move_nothing(snippet, names=FOUR):
    run = lines_of(snippet)
    _, untrained = run.train(run.five, [])
    before = weights_of(untrained)
    for name in names:
        check_the_order(run, name)
        _, model = run.train(run.orders[name], some(run), epochs=2)
        assert same(weights_of(model), before), name
    for name in ("all five lines", "no zero_grad"):
        _, model = run.train(run.orders[name], some(run))
        assert not same(weights_of(model), before), name


def test_four_orders_move_nothing__also_with_adamw_and_dropout(snippet):
    test_four_orders_move_nothing(others(snippet))


@pytest.mark.parametrize(
    "option", ["momentum=0.9", "weight_decay=0.1"], ids=str
)
def test_four_orders_move_nothing__also_with(snippet, option):
    edited = snippet.edit(PLAIN, PLAIN.replace("0.25", f"0.25, {option}"))
    test_four_orders_move_nothing(edited)


def test_four_orders_move_nothing__also_with_zeros_and_momentum(snippet):
    edited = snippet.edit(PLAIN, PLAIN.replace("0.25", "0.25, momentum=0.9"))
    zeros = '    "optimizer.zero_grad(set_to_none=False)",\n'
    edited = edited.edit('    "optimizer.zero_grad()",\n', zeros)
    test_four_orders_move_nothing(edited, ("zero_grad after backward",))


def test_four_orders_move_nothing__ends_with_zeros(snippet, fails):
    """With `zero_grad(set_to_none=False)`, `.grad` holds zeros, and weight
    decay moves the weights.
    """
    decayed = PLAIN.replace("0.25", "0.25, weight_decay=0.1")
    zeros = '    "optimizer.zero_grad(set_to_none=False)",\n'
    edited = snippet.edit(PLAIN, decayed)
    edited = edited.edit('    "optimizer.zero_grad()",\n', zeros)
    order = ("zero_grad after backward",)
    fails(test_four_orders_move_nothing, edited, order)


def test_four_orders_move_nothing__but_not_with_reset_last(snippet, fails):
    """With `zero_grad()` after `step()`, the gradients are still there when
    `step()` needs them.
    """
    edited = snippet.edit(
        '"zero_grad after backward": [forward, measure, back, reset, move]',
        '"zero_grad after backward": [forward, measure, back, move, reset]',
    )
    fails(test_four_orders_move_nothing, edited)


@edits(
    (
        "with backward",
        '"no backward": [reset, forward, measure, move]',
        '"no backward": [reset, forward, measure, back, move]',
    ),
    (
        "with a step by hand",
        '"no step": [reset, forward, measure, back]',
        '"no step": [reset, forward, measure, back,'
        ' "model[0].bias.data -= model[0].bias.grad"]',
    ),
    (
        "with the early step before the reset",
        "[reset, forward, measure, move, back]",
        "[move, reset, forward, measure, back]",
    ),
)
def test_four_orders_move_nothing__but_not(snippet, old, new, fails):
    """With what is missing put back, weights move; a step before `zero_grad()`
    uses the gradients of the batch before.
    """
    fails(test_four_orders_move_nothing, snippet.edit(old, new))


def test_without_zero_grad_it_is_worse(snippet):
    run = lines_of(snippet, "left-out")
    wrong, right = run.losses["no zero_grad"], run.losses["all five lines"]

    assert len(wrong) == len(right) == 10
    assert wrong[-1] > 5 * right[-1]
    assert right[-1] < right[0]
    assert wrong[0] < right[0]
    again, model = run.train(run.five, run.train_loader, epochs=1)
    assert again[0] == right[0]
    assert mean_loss(model, run.val_set) == again[0]
    check_the_order(run, "no zero_grad")


@pytest.mark.parametrize("seed", [2])
def test_without_zero_grad_it_is_worse__also_from_start(snippet, seed):
    old = "(lines, batches, epochs=1):\n    torch.manual_seed(1)"
    edited = snippet.edit(old, old.replace("seed(1)", f"seed({seed})"))
    test_without_zero_grad_it_is_worse(edited)


@edits(
    (
        "with it at the end",
        '"no zero_grad": [forward, measure, back, move]',
        '"no zero_grad": [forward, measure, back, move, reset]',
    ),
    ("at a low rate", PLAIN, PLAIN.replace("0.25", "0.0025")),
)
def test_without_zero_grad_it_is_worse__but_not(snippet, old, new, fails):
    """With `zero_grad()` at the end of each step, the loss is as low; at a low
    rate, it is lower without.
    """
    fails(test_without_zero_grad_it_is_worse, snippet.edit(old, new))


def test_clip_in_between(snippet):
    run = lines_of(snippet, "clip-places")

    assert run.five[3] == "loss.backward()"
    [bad], _ = run.train(run.five, run.bad_batches)
    assert [i for i, loss in run.clipped.items() if loss != bad] == [4]
    batches = run.bad_batches + some(run, 2)
    expected = weights_of(run.train(run.five, batches)[1])
    effective = []
    for place in range(6):
        lines = [*run.five[:place], run.clip, *run.five[place:]]
        if not same(weights_of(run.train(lines, batches)[1]), expected):
            effective.append(place)
    assert effective == [4]


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_clip_in_between__also_with(snippet, kind):
    plain = PLAIN.replace("SGD", kind).replace("0.25", "0.02")
    edited = snippet.edit(PLAIN, plain)
    test_clip_in_between(edited)
    run = lines_of(edited, "clip-places")
    assert run.clipped[4] == pytest.approx(run.clipped[3], rel=0.001)
    lines = [*run.five[:4], run.clip, *run.five[4:]]
    batches = run.bad_batches + some(run, 10)
    [clipped], [bad] = (run.train(x, batches)[0] for x in (lines, run.five))
    assert clipped < bad - 0.1


def test_clip_in_between__also_with_momentum_and_dropout(snippet):
    edited = snippet.edit(PLAIN, PLAIN.replace("0.25", "0.25, momentum=0.9"))
    dropout = MODEL.replace("nn.ReLU()", "nn.ReLU(), nn.Dropout()")
    test_clip_in_between(edited.edit(MODEL, dropout))


@edits(
    (
        "without a reset",
        '    "optimizer.zero_grad()",\n',
        '    "None",\n',
    ),
    (
        "if the weights are clipped",
        'clip = "nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"',
        'clip = "[p.data.clamp_(-0.01, 0.01) for p in model.parameters()]"',
    ),
    ("far above the norm", 'max_norm=1.0)"', 'max_norm=1e9)"'),
)
def test_clip_in_between__but_not(snippet, old, new, fails):
    """Without `zero_grad()`, clipped gradients count in the next step;
    `clamp_` changes the weights in every place, and a high limit in none.
    """
    fails(test_clip_in_between, snippet.edit(old, new))


def test_four_losses_change(snippet):
    with no_error():
        run = snippet.only("digits", "swapped").after("swapped")
    names = [*run.both_ways]

    assert len(names) == 7
    for name, (right, swapped) in run.both_ways.items():
        loss = getattr(F, name)
        assert right == loss(run.chance, run.is_one).item()
        assert swapped == loss(run.is_one, run.chance).item()
        learning = run.chance.clone().requires_grad_()
        with no_error():
            loss(run.is_one, learning).backward()
    differences = [abs(a - b) for a, b in run.both_ways.values()]
    assert [each > 0.01 for each in differences] == 3 * [False] + 4 * [True]
    assert differences[:3] == [0, 0, 0]


@edits(
    ("for certain outputs", "[0.9, 0.2, 0.8]", "[1.0, 0.0, 1.0]"),
    ("for a margin", "F.poisson_nll_loss", "F.soft_margin_loss"),
    ("for mse_loss", "F.cross_entropy]", "F.mse_loss]"),
)
def test_four_losses_change__but_not(snippet, old, new, fails):
    """If the outputs equal the targets, swapping changes nothing; nor does it
    in `soft_margin_loss` or `mse_loss`.
    """
    fails(test_four_losses_change, snippet.edit(old, new))
