"""The claims of docs/training/fine_tuning.md."""

import warnings
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import after, resumed


@cache
def ran(snippet):
    """Return what the comparison leaves, run once for several claims."""
    return resumed(snippet, "pretrained", ("fit", "ways"))


def brief(snippet, *cells):
    """Run some cells on a body that has hardly been trained."""
    shorter = snippet.text.replace("range(100)", "range(4)")
    return after(replace(snippet, text=shorter), "pretrained", *cells)


def changed(module, state):
    """Return the names of what differs from an earlier state."""
    now = module.state_dict()
    assert list(now) == list(state)
    return {name for name in now if not now[name].equal(state[name])}


def body_of(state):
    """Return the part of a state that belongs to the body."""
    return {
        name.removeprefix("body."): tensor
        for name, tensor in state.items()
        if name.startswith("body.")
    }


def names(module):
    return {name for name, _ in module.named_parameters()}


DO_THIS = ("replace", "train-the-head", "fit", "unfreeze")


def test_the_head_learns_alone(snippet):
    before = brief(snippet, "replace")
    run = brief(snippet, "replace", "train-the-head")

    loaded = body_of(run.trained)
    assert run.model.head.out_features == len(run.labels.unique()) == 5
    assert not changed(before.model.body, loaded)
    assert not changed(run.model.body, loaded)
    learned = changed(run.model.head, before.model.head.state_dict())
    assert learned == {"weight", "bias"}
    assert run.optimizer.state[run.model.head.weight]["step"] == 20
    again = brief(snippet, "replace", "fit")
    again.fit(again.model, again.optimizer, (run.letters, run.labels), 20)
    assert not changed(run.model, again.model.state_dict())
    learning = [p.requires_grad for p in run.model.parameters()]
    assert learning == [False] * 8 + [True] * 2


LEARNS = "  # this layer learns\noptimizer = optim.AdamW("
HEAD = f"{LEARNS}model.head.parameters()"
STILL = "    model.body.eval()  # BatchNorm and dropout hold still\n"


@edits(
    (
        "a body that learns",
        HEAD,
        f"{LEARNS}model.requires_grad_().parameters()",
    ),
    ("the body in training mode", STILL, ""),
    (
        "an optimizer made before",
        f"model.head = nn.Linear(model.head.in_features, 5){HEAD}, lr=0.03)",
        "optimizer = optim.AdamW(model.head.parameters(), lr=0.03)\n"
        "model.head = nn.Linear(32, 5)",
    ),
    ("the weight alone", HEAD, f"{LEARNS}[model.head.weight]"),
    ("the bias alone", HEAD, f"{LEARNS}[model.head.bias]"),
    ("nothing frozen", "model.requires_grad_(False)  # freeze all", "# all"),
    ("not loaded", "model.load_state_dict(trained)  # or", "pass  # or"),
)
def test_the_head_learns_alone__but_not_with(snippet, old, new, fails):
    """Unfrozen and in the optimizer, the body changes too; the others change
    its buffers, miss parts of the head, do not freeze, or do not load.
    """
    fails(test_the_head_learns_alone, snippet.edit(old, new))


def test_the_head_learns_alone__also_with_dropout_in_the_body(snippet):
    old = "ends = nn.AdaptiveMaxPool2d(1), nn.Flatten()"
    edited = snippet.edit(old, f"{old}, nn.Dropout(0.5)")
    test_the_head_learns_alone(edited)
    run, features = brief(edited, *DO_THIS[:3]), []
    run.model.body.register_forward_hook(lambda *it: features.append(it[-1]))

    run.fit(run.model, run.optimizer, (run.letters, run.labels), steps=3)
    assert len(features) == 3
    assert all(features[0].equal(each) for each in features)


def test_the_body_learns_later(snippet):
    run = brief(snippet, *DO_THIS)

    learned = changed(run.model.body, body_of(run.trained))
    assert learned == names(run.model.body)
    head, body = run.optimizer.param_groups
    assert 10 <= head["lr"] / body["lr"] <= 100
    state = run.optimizer.state
    assert state[run.model.head.weight]["step"] == 40
    assert state[run.model.body[0].weight]["step"] == 20


@edits(
    (
        "still frozen",
        "model.body.requires_grad_(True)\noptimizer.add",
        "optimizer.add",
    ),
    (
        "not in the optimizer",
        'optimizer.add_param_group({"params": model.body.parameters(),'
        ' "lr": 0.001})\n',
        "",
    ),
    (
        "the first layer alone",
        '{"params": model.body.parameters(), "lr": 0.001}',
        '{"params": model.body[0].parameters(), "lr": 0.001}',
    ),
    ("training mode", "            model.body.eval()\n", "            pass\n"),
)
def test_the_body_learns_later__but_not_with(snippet, old, new, fails):
    """Still frozen, the body does not move; the others leave some of it out of
    the optimizer, or let its buffers change.
    """
    fails(test_the_body_learns_later, snippet.edit(old, new))


def of_the_head(model, pictures):
    """Return what the head alone saves: the features, in one storage."""
    features = model.body(pictures).detach()
    kept = {}

    def keep(tensor):
        if not isinstance(tensor, nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        outputs = model.head(features)
    assert outputs.requires_grad
    return sum(kept.values())


def test_a_frozen_body_saves_nothing(snippet, mode=False, size=150, part=None):
    run = brief(snippet, "saved", "new-reader")
    model, _ = run.new_reader()
    model.train(mode)
    if part:
        model.get_submodule(part).requires_grad_(True)
    pictures = run.unseen[0][:size]

    saved, outputs = run.saved_bytes(model, pictures)
    assert saved == of_the_head(model, pictures) == size * 32 * 4
    outputs.sum().backward()
    assert model.head.bias.grad.tolist() == [size] * 5
    assert model.body[0].weight.grad is None
    if size == 150:
        assert run.saved_if("head") == saved


@pytest.mark.parametrize(
    ("mode", "size"),
    [(True, 150), (False, 3), (False, 1)],
    ids=["in training mode", "of three pictures", "of one picture"],
)
def test_a_frozen_body_saves_nothing__also(snippet, mode, size):
    test_a_frozen_body_saves_nothing(snippet, mode, size)


def test_a_frozen_body_saves_nothing__also_as_counted_by_hand(snippet):
    run = brief(snippet, "saved")
    layers = nn.Linear(3, 5), nn.Linear(5, 7), nn.Linear(7, 2)
    inputs = torch.rand(11, 3)

    saved, _ = run.saved_bytes(nn.Sequential(*layers), inputs)
    assert saved == 4 * 11 * (3 + 5 + 7)
    layers[0].requires_grad_(False)
    assert run.saved_bytes(nn.Sequential(*layers), inputs)[0] == 4 * 11 * 12


def test_a_frozen_body_saves_nothing__but_not_unfrozen(snippet, fails):
    """If the body is not frozen, the forward pass saves 3,245,248 bytes
    instead of 19,200.
    """
    old = "model.body.requires_grad_(False)\n    model.head"
    fails(test_a_frozen_body_saves_nothing, snippet.edit(old, "model.head"))


@pytest.mark.parametrize("part", ["body.0", "body.4"])
def test_a_frozen_body_saves_nothing__ends_if_it_learns(snippet, fails, part):
    """If one convolution of the body learns, it and the layers after it save
    their inputs.
    """
    fails(test_a_frozen_body_saves_nothing, snippet, False, 150, part)


def test_the_frozen_body_drifts(snippet):
    run = brief(snippet, "fit", "new-reader", "moving-body")
    loaded = body_of(run.trained)
    drifted = changed(run.model.body, loaded)
    still = brief(snippet, "fit", "new-reader", "moving-body", "still-body")

    assert {name.split(".")[1] for name in drifted} == {
        "running_mean",
        "running_var",
        "num_batches_tracked",
    }
    assert (run.moved - run.before).abs().amax(dim=1).min() > 0.01
    assert run.features_of(run.model).equal(run.moved)
    assert run.weights.data_ptr() != run.model.body[0].weight.data_ptr()
    assert still.stayed.equal(still.before)
    assert not changed(still.model.body, loaded)
    assert still.model.head.weight.grad.count_nonzero() > 0


def test_the_frozen_body_drifts__ends_with_group_norm(snippet, fails):
    """With `GroupNorm` in place of BatchNorm, the features stay: it has no
    running statistics.
    """
    edited = snippet.edit("nn.BatchNorm2d(24)", "nn.GroupNorm(1, 24)")
    edited = edited.edit("nn.BatchNorm2d(32)", "nn.GroupNorm(1, 32)")
    fails(test_the_frozen_body_drifts, edited)


@edits(
    ("eval in the first", "steps=20, still=False)", "steps=20)"),
    (
        "no eval in the second",
        "steps=20)\nstayed",
        "steps=20, still=False)\nstayed",
    ),
    (
        "weights that move",
        "    return model, optim.AdamW(model.head.parameters(), lr=0.03)",
        "    model.requires_grad_()\n"
        "    return model, optim.AdamW(model.parameters(), lr=0.03)",
    ),
)
def test_the_frozen_body_drifts__but_not_with(snippet, old, new, fails):
    """With `eval()` on the body, the features stay, and without it they don't;
    the last edit trains the weights of the body as well.
    """
    fails(test_the_frozen_body_drifts, snippet.edit(old, new))


MODULES = [nn.Linear(2, 3), nn.LSTM(2, 3), nn.TransformerEncoderLayer(4, 2)]


def test_an_attribute_freezes_nothing(snippet):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with no_error():
            wrong = brief(snippet, "attribute")
    right = brief(snippet, "attribute", "method")

    assert wrong.model.body.requires_grad is False
    assert all(p.requires_grad for p in wrong.model.parameters())
    assert not any(p.requires_grad for p in right.model.body.parameters())
    assert all(p.requires_grad for p in right.model.head.parameters())
    for module in MODULES:
        module.requires_grad = False
        assert all(p.requires_grad for p in module.parameters())
        module.requires_grad_(False)
        assert not any(p.requires_grad for p in module.parameters())
        module.requires_grad_(True)


@edits(
    (
        "the method",
        "model.body.requires_grad = False",
        "model.body.requires_grad = model.requires_grad_(False) and False",
    ),
    (
        "an attribute twice",
        "model.body.requires_grad_(False)\n\nprint",
        "model.body.requires_grad = False\n\nprint",
    ),
    (
        "a warning",
        "model.body.requires_grad = False",
        'model.body.requires_grad = __import__("warnings").warn("no")',
    ),
)
def test_an_attribute_freezes_nothing__but_not_with(snippet, old, new, fails):
    """Here the line calls the method as well, which freezes all; the others
    never call it, or give a warning.
    """
    fails(test_an_attribute_freezes_nothing, snippet.edit(old, new))


def test_freezing_last_freezes_the_head(snippet):
    run = brief(snippet, "frozen-head")

    assert run.model.head.out_features == 5
    assert not any(p.requires_grad for p in run.model.head.parameters())
    assert run.message.startswith("element 0 of tensors does not require grad")


FREEZE = "model.requires_grad_(False)\nmessage"


def test_freezing_last_freezes_the_head__but_not_the_body_alone(
    snippet, fails
):
    """If you freeze only the body, the new head learns, without an error."""
    edited = snippet.edit(FREEZE, f"model.body.{FREEZE[6:]}")
    fails(test_freezing_last_freezes_the_head, edited)


def test_freezing_last_freezes_the_head__but_not_before(snippet, fails):
    """If you freeze the model before you replace the head, the new head
    learns.
    """
    head = "model.head = nn.Linear(32, 5)\n"
    new = f"model.requires_grad_(False)\n{head}message"
    edited = snippet.edit(f"{head}{FREEZE}", new)
    fails(test_freezing_last_freezes_the_head, edited)


def test_unfrozen_is_not_enough(snippet):
    run = brief(snippet, "fit", "new-reader", "not-added")
    body = run.model.body

    assert all(p.requires_grad for p in body.parameters())
    assert not changed(body, body_of(run.trained))
    assert run.weights.data_ptr() != body[0].weight.data_ptr()
    assert 0 < run.sizes[0] < run.sizes[2]
    assert run.sizes[2] == body[0].weight.grad.abs().sum().item()
    before = {n: p.grad.clone() for n, p in body.named_parameters()}
    run.model.zero_grad()
    F.cross_entropy(run.model(run.letters), run.labels).backward()
    own = {n: p.grad.clone() for n, p in body.named_parameters()}
    for name, grad in before.items():
        body.get_parameter(name).grad = grad.clone()
    run.fit(run.model, run.optimizer, (run.letters, run.labels), steps=1)
    for name, parameter in body.named_parameters():
        torch.testing.assert_close(parameter.grad, before[name] + own[name])


@edits(
    (
        "gradients cleared",
        "optimizer.step()\n\n\ndef accuracy",
        "model.zero_grad(optimizer.step())\n\n\ndef accuracy",
    ),
    (
        "the body not unfrozen",
        "model.body.requires_grad_(True)\nweights",
        "weights",
    ),
)
def test_unfrozen_is_not_enough__but_not_with(snippet, old, new, fails):
    """`model.zero_grad()` resets the gradients of the body; and a body that
    stays frozen has none.
    """
    edited = snippet.edit(old, new)
    size = "model.body[0].weight.grad.abs().sum().item()"
    fails(test_unfrozen_is_not_enough, edited.edit(size, "0.0"))


def test_unfrozen_is_not_enough__but_not_with_a_group(snippet, fails):
    """In a group of the optimizer, the body moves."""
    old = "model.body.requires_grad_(True)\nweights"
    group = 'optimizer.add_param_group({"params": model.body.parameters()})'
    new = f"model.body.requires_grad_(True)\n{group}\nweights"
    fails(test_unfrozen_is_not_enough, snippet.edit(old, new))


def test_features_once_train_the_same_head(snippet, still=True):
    run = brief(snippet, "fit", "new-reader", "features-once")
    model, optimizer = run.new_reader()
    fresh, _ = run.new_reader()
    run.fit(model, optimizer, (run.letters, run.labels), 20, still)

    assert not run.features.requires_grad
    for ours, theirs in zip(
        run.model.head.parameters(), model.head.parameters(), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert not changed(fresh.body, run.model.body.state_dict())
    assert changed(fresh.head, run.model.head.state_dict())


@edits(
    (
        "training mode",
        "model.body.eval()(letters)",
        "model.body.train()(letters)",
    ),
    (
        "other pictures",
        "model.body.eval()(letters)",
        "model.body.eval()(letters + torch.randn(15, 1, 8, 8))",
    ),
    (
        "fewer steps",
        "for _ in range(20):\n    optimizer",
        "for _ in range(19):\n    optimizer",
    ),
)
def test_features_once_train_the_same_head__but_not(snippet, old, new, fails):
    """In training mode, the body gives other features; the others change the
    pictures, or the number of steps.
    """
    fails(test_features_once_train_the_same_head, snippet.edit(old, new))


def test_features_once_train_the_same_head__ends_if_the_body_moves(
    snippet, fails
):
    """If the body stays in training mode while the other head is trained, that
    head sees other features.
    """
    fails(test_features_once_train_the_same_head, snippet, False)


FROZEN, SCRATCH = "frozen body", "from scratch"
MOVING = "frozen, but without eval()"
GENTLE, LARGE = "then the body at 0.001", "then the body at 0.03"


def end(run, way):
    """Return where the three runs of a way end on average."""
    results = run.runs[way] if isinstance(way, str) else way
    assert len(results) == 3
    return sum(curve[-1] for _, curve in results) / 3


def test_the_frozen_body_beats_scratch(snippet, way=SCRATCH):
    run = ran(snippet)

    assert end(run, FROZEN) > end(run, way) + 0.1
    assert end(run, MOVING) > end(run, SCRATCH) + 0.1
    assert run.ways[FROZEN] == {"rates": [0.0] * 4}
    assert run.ways[MOVING] == {"rates": [0.0] * 4, "still": False}
    assert run.ways[SCRATCH] == {"rates": [0.01] * 4, **run.scratch}
    for model, _ in run.runs[FROZEN]:
        assert not changed(model.body, body_of(run.trained))
        assert model.body[0].weight.grad is None
        assert model.head.out_features == 5
    assert run.fine_tune(0, [0.0])[1] == run.runs[FROZEN][0][1][:1]
    for model, _ in run.runs[SCRATCH]:
        assert model.body[1].num_batches_tracked == 20
    model, curve = run.runs[FROZEN][0]
    pictures, labels = run.unseen
    guesses = model.eval()(pictures).argmax(dim=1)
    assert curve[-1] == (guesses == labels).double().mean().item()
    distances = torch.cdist(run.letters.flatten(1), pictures.flatten(1))
    assert distances.shape == (15, 150)
    assert distances.min() > 0.5


@pytest.mark.parametrize(
    ("rate", "steps"),
    [(0.003, 20), (0.03, 20), (0.003, 100)],
    ids=["at 0.003", "at 0.03", "in 100 steps"],
)
def test_the_frozen_body_beats_scratch__also(snippet, rate, steps):
    run = ran(snippet)

    given = [rate] * (steps // 5), rate, *(False, False)
    runs = [run.fine_tune(seed, *given) for seed in range(3)]
    test_the_frozen_body_beats_scratch(snippet, runs)


def test_the_frozen_body_beats_scratch__but_not_a_gentle_one(snippet, fails):
    """It is not 10 points above a body that then learns at 0.001."""
    fails(test_the_frozen_body_beats_scratch, snippet, GENTLE)


def test_the_rate_of_the_head_is_too_large(snippet, way=LARGE):
    run = ran(snippet)

    assert run.ways[LARGE] == {"rates": [0.0, 0.0, 0.03, 0.03]}
    assert run.ways[GENTLE] == {"rates": [0.0, 0.0, 0.001, 0.001]}
    assert end(run, way) < end(run, FROZEN)
    for model, _ in run.runs[LARGE] + run.runs[GENTLE]:
        learned = changed(model.body, body_of(run.trained))
        assert learned == names(model.body)


def test_the_rate_of_the_head_is_too_large__also_if_it_learns_from_the_start(
    snippet,
):
    run = ran(snippet)

    runs = [run.fine_tune(seed, [0.03] * 4) for seed in range(3)]
    test_the_rate_of_the_head_is_too_large(snippet, runs)


def test_the_rate_of_the_head_is_too_large__but_not_at_0_001(snippet, fails):
    """A body that then learns at 0.001 does not end below the frozen one."""
    fails(test_the_rate_of_the_head_is_too_large, snippet, GENTLE)


@cache
def digits_after(snippet, way):
    """Return what is left of the digits after each run of a way."""
    run = ran(snippet)
    return [run.digits_again(model) for model, _ in run.runs[way]]


def test_a_large_rate_forgets(snippet, ways=(LARGE, GENTLE)):
    run = ran(snippet)
    known = run.Reader(10)
    known.load_state_dict(run.trained)
    right = run.accuracy(known, run.draw("digits", 30, seed=1))

    large, gentle = (digits_after(snippet, way) for way in ways)
    assert digits_after(snippet, FROZEN) == [right] * 3
    assert max(digits_after(snippet, MOVING)) < right
    assert max(large) < 0.7
    assert min(gentle) > 0.75


@pytest.mark.parametrize(
    "ways",
    [(GENTLE, GENTLE), (LARGE, LARGE)],
    ids=["a gentle rate", "a large rate"],
)
def test_a_large_rate_forgets__but_not_with(snippet, ways, fails):
    """If both bodies learn at 0.001, neither falls below 70 percent; at 0.03,
    neither stays above 75.
    """
    fails(test_a_large_rate_forgets, snippet, ways)
