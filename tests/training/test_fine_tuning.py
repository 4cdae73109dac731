"""The claims of docs/training/fine_tuning.md."""

import warnings
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import resumed

FIRST = ("characters", "draw", "reader", "pretrain", "replace", "fit")
FIRST += ("accuracy", "train-the-head")


@cache
def ran(snippet):
    """Return what the comparison leaves, run once for several claims."""
    later = ("unfreeze", "fine-tune", "digits-again", "ways")
    return resumed(snippet, FIRST[:4], (*FIRST[4:], *later))


def brief(snippet, *cells):
    """Run some cells on a body that has hardly been trained."""
    text = snippet.text.replace("range(100)", "range(4)")
    if not {"train-the-head", "unfreeze"} & {*cells}:
        drawn = "seed=99)\nfit(model, optimizer, letters, steps="
        text = text.replace(f"{drawn}20)", f"{drawn}1)")
    shorter = replace(snippet, text=text)
    return shorter.only(*FIRST, *cells).after(cells[-1])


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


def assert_drawn(run):
    """Check that letters are drawn anew from a seed, dark or light."""
    pictures, labels = run.draw("letters", 80, seed=5)
    again, _ = run.draw("letters", 80, seed=5)
    assert pictures.equal(again)
    assert labels.bincount().tolist() == [80] * 5
    inked = (pictures.abs() > 1).sum(dim=(1, 2, 3))
    for label, bits in enumerate([10, 9, 10, 11, 7]):
        assert inked[labels == label].median() == bits
    light = (pictures.sum(dim=(1, 2, 3)) > 0).double().mean()
    assert 0.4 < light < 0.6
    places = (pictures.abs() > 1).any(dim=0)
    assert places[0, :, :6].all()


def names(module):
    return {name for name, _ in module.named_parameters()}


def test_the_head_learns_alone(snippet):
    before = brief(snippet, "replace")
    run = brief(snippet, "train-the-head")

    loaded = body_of(run.trained)
    assert run.model.head.out_features == len(run.letters[1].unique()) == 5
    assert before.learning == 5 * 32 + 5
    assert_drawn(run)
    assert not changed(before.model.body, loaded)
    assert not changed(run.model.body, loaded)
    after = changed(run.model.head, before.model.head.state_dict())
    assert after == {"weight", "bias"}
    assert run.optimizer.state[run.model.head.weight]["step"] == 20


@edits(
    (
        "a body that learns",
        "optim.AdamW(model.head.parameters(), lr=0.03)  # then this",
        "optim.AdamW(model.requires_grad_().parameters(), lr=0.03)",
    ),
    (
        "the body in training mode",
        "            model.body.eval()  # BatchNorm and dropout hold still",
        "            pass",
    ),
    (
        "an optimizer made before",
        "model.head = nn.Linear(model.head.in_features, 5)"
        "  # then replace the head,\n"
        "optimizer = optim.AdamW(model.head.parameters(), lr=0.03)"
        "  # then this",
        "optimizer = optim.AdamW(model.head.parameters(), lr=0.03)\n"
        "model.head = nn.Linear(model.head.in_features, 5)",
    ),
    (
        "the weight alone",
        "optim.AdamW(model.head.parameters(), lr=0.03)  # then this",
        "optim.AdamW([model.head.weight], lr=0.03)",
    ),
    (
        "the bias alone",
        "optim.AdamW(model.head.parameters(), lr=0.03)  # then this",
        "optim.AdamW([model.head.bias], lr=0.03)",
    ),
    ("not loaded", "model.load_state_dict(trained)  # or", "pass  # or"),
)
def test_the_head_learns_alone__but_not_with(snippet, old, new, fails):
    """Unfrozen and in the optimizer, the body changes too; the others change
    its buffers, miss parts of the head, or do not load.
    """
    fails(test_the_head_learns_alone, snippet.edit(old, new))


def test_the_head_learns_alone__also_with_dropout_in_the_body(snippet):
    old = "ends = nn.AdaptiveMaxPool2d(1), nn.Flatten()"
    edited = snippet.edit(old, f"{old}, nn.Dropout(0.5)")
    test_the_head_learns_alone(edited)
    run, features = brief(edited, "train-the-head"), []
    run.model.body.register_forward_hook(lambda *it: features.append(it[-1]))

    run.fit(run.model, run.optimizer, run.letters, steps=3)
    assert len(features) == 3
    assert all(features[0].equal(each) for each in features)


def test_the_body_learns_later(snippet):
    run = brief(snippet, "unfreeze")

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
    (
        "training mode",
        "            model.body.eval()  # BatchNorm and dropout hold still",
        "            pass",
    ),
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


def test_a_frozen_body_saves_nothing(snippet, mode=False, size=150):
    run = brief(snippet, "saved-bytes", "what-learns", "new-reader")
    model, _ = run.new_reader()
    model.train(mode)
    pictures = run.unseen[0][:size]

    saved, outputs = run.saved_bytes(model, pictures)
    assert saved == of_the_head(model, pictures) > 0
    assert outputs.equal(model(pictures))
    assert outputs.shape == (size, 5)
    assert model.body[:7](pictures).shape == (size, 32, 4, 4)
    outputs.sum().backward()
    assert model.head.bias.grad.tolist() == [size] * 5
    assert model.body[0].weight.grad is None
    if size == 150:
        assert run.saved_if("head") == saved


def test_a_frozen_body_saves_nothing__also_as_counted_by_hand(snippet):
    run = brief(snippet, "saved-bytes")
    layers = nn.Linear(3, 5), nn.Linear(5, 7), nn.Linear(7, 2)
    inputs = torch.rand(11, 3)

    saved, _ = run.saved_bytes(nn.Sequential(*layers), inputs)
    assert saved == 4 * 11 * (3 + 5 + 7)
    layers[0].requires_grad_(False)
    assert run.saved_bytes(nn.Sequential(*layers), inputs)[0] == 4 * 11 * 12


def test_a_frozen_body_saves_nothing__also_in_training_mode(snippet):
    test_a_frozen_body_saves_nothing(snippet, mode=True)


def test_a_frozen_body_saves_nothing__also_of_three_pictures(snippet):
    test_a_frozen_body_saves_nothing(snippet, size=3)


def test_a_frozen_body_saves_nothing__but_not_unfrozen(snippet, fails):
    """If the body is not frozen, the forward pass saves 3,245,248 bytes
    instead of 19,200.
    """
    old = "model.body.requires_grad_(False)\n    model.head"
    edited = snippet.edit(old, "model.head")
    fails(test_a_frozen_body_saves_nothing, edited)


def test_the_first_learning_layer_counts(snippet, part="body.0"):
    run = brief(snippet, "saved-bytes", "what-learns")

    assert run.saved_if("") > run.saved_if(part) > 0.9 * run.saved_if("")
    run.model.requires_grad_(True).eval()
    assert run.saved_bytes(run.model, run.unseen[0])[0] == run.saved_if("")


def test_the_first_learning_layer_counts__but_not_if_the_head_learns(
    snippet, fails
):
    """If the head learns in its place, nothing is saved for the layers before
    it.
    """
    edited = snippet.edit(
        "model.get_submodule(part).requires_grad_(True)",
        "model.head.requires_grad_(True)",
    )
    fails(test_the_first_learning_layer_counts, edited)


@pytest.mark.parametrize("part", ["body.4", "head"])
def test_the_first_learning_layer_counts__ends_for(snippet, part, fails):
    """If only the second convolution learns, or only the head: it saves far
    less.
    """
    fails(test_the_first_learning_layer_counts, snippet, part)


def test_the_frozen_body_drifts(snippet):
    run = brief(snippet, "new-reader", "moving-body")

    loaded = body_of(run.trained)
    assert run.weights is not run.model.body[0].weight
    drifted = changed(run.model.body, loaded)
    assert drifted
    assert not drifted & names(run.model.body)
    assert all("running" in name or "batches" in name for name in drifted)
    distances = (run.moved - run.before).abs().amax(dim=1)
    assert distances.min() > 0.01
    assert run.features_of(run.model).equal(run.moved)


def test_eval_holds_the_body(snippet):
    still = brief(snippet, "new-reader", "moving-body", "still-body")

    assert still.features_of(still.model).equal(still.stayed)
    assert still.stayed.equal(still.before)
    assert not changed(still.model.body, body_of(still.trained))
    assert still.model.head.weight.grad.count_nonzero() > 0
    assert still.model.body.training is False


@edits(
    (
        "no eval",
        "fit(model, optimizer, letters, steps=20)\nstayed",
        "fit(model, optimizer, letters, steps=20, still=False)\nstayed",
    ),
    (
        "weights that move",
        "    return model, optim.AdamW(model.head.parameters(), lr=0.03)",
        "    model.requires_grad_()\n"
        "    return model, optim.AdamW(model.parameters(), lr=0.03)",
    ),
)
def test_eval_holds_the_body__but_not_with(snippet, old, new, fails):
    """Without `eval()`, BatchNorm changes the features; the other edit trains
    the weights of the body.
    """
    fails(test_eval_holds_the_body, snippet.edit(old, new))


def test_the_frozen_body_drifts__ends_with_layernorm(snippet, fails):
    """With `GroupNorm` in place of BatchNorm: it has no running statistics, so
    the features stay.
    """
    edited = snippet.edit(
        "nn.BatchNorm2d(24), nn.ReLU()", "nn.GroupNorm(1, 24), nn.ReLU()"
    ).edit("nn.BatchNorm2d(32), nn.ReLU()", "nn.GroupNorm(1, 32), nn.ReLU()")
    fails(test_the_frozen_body_drifts, edited)


@edits(
    ("eval in the first", "steps=20, still=False)", "steps=20)"),
    (
        "weights that move",
        "    return model, optim.AdamW(model.head.parameters(), lr=0.03)",
        "    model.requires_grad_()\n"
        "    return model, optim.AdamW(model.parameters(), lr=0.03)",
    ),
)
def test_the_frozen_body_drifts__but_not_with(snippet, old, new, fails):
    """With `eval()` on the body, the features stay; the other edit trains the
    weights of the body as well.
    """
    fails(test_the_frozen_body_drifts, snippet.edit(old, new))


def test_an_attribute_freezes_nothing(snippet):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with no_error():
            wrong = snippet.only("characters", "reader", "attribute")
            wrong = wrong.after("attribute")
    right = snippet.only("characters", "reader", "attribute", "method")
    right = right.after("method")

    assert wrong.model.body.requires_grad is False
    assert all(p.requires_grad for p in wrong.model.parameters())
    assert not any(p.requires_grad for p in right.model.body.parameters())
    assert all(p.requires_grad for p in right.model.head.parameters())
    for module in MODULES:
        module.requires_grad = False
        assert all(p.requires_grad for p in module.parameters())
        module.requires_grad_(False)
        assert not any(p.requires_grad for p in module.parameters())


MODULES = [nn.Linear(2, 3), nn.LSTM(2, 3), nn.TransformerEncoderLayer(4, 2)]


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

    assert not any(p.requires_grad for p in run.model.head.parameters())
    assert run.model.head.out_features == 5
    assert run.message.startswith("element 0 of tensors does not require grad")
    loss = nn.functional.cross_entropy(
        run.model(run.letters[0]), run.letters[1]
    )
    text = "element 0 of tensors does not require grad"
    with pytest.raises(RuntimeError, match=text):
        loss.backward()


def test_freezing_last_freezes_the_head__also_not_the_other_way(snippet):
    run = brief(snippet, "frozen-head")
    model = run.Reader(10)
    model.requires_grad_(False)
    model.head = nn.Linear(32, 5)
    nn.functional.cross_entropy(
        model(run.letters[0]), run.letters[1]
    ).backward()
    assert model.head.weight.grad.abs().sum() > 0
    assert model.head.bias.grad.abs().sum() > 0
    assert model.body[0].weight.grad is None


def test_freezing_last_freezes_the_head__but_not_the_body_alone(
    snippet, fails
):
    """If you freeze the body alone, the new head learns, without an error."""
    old = "model.requires_grad_(False)\nmessage"
    edited = snippet.edit(old, "model.body.requires_grad_(False)\nmessage")
    fails(test_freezing_last_freezes_the_head, edited)


def test_freezing_last_freezes_the_head__but_not_before(snippet, fails):
    """If you freeze the model before you replace the head, the new head
    learns.
    """
    head = "model.head = nn.Linear(32, 5)\n"
    freeze = "model.requires_grad_(False)\nmessage"
    edited = snippet.edit(
        f"{head}{freeze}", f"model.requires_grad_(False)\n{head}message"
    )
    fails(test_freezing_last_freezes_the_head, edited)


def test_unfrozen_is_not_enough(snippet):
    run = brief(snippet, "new-reader", "not-added")

    assert all(p.requires_grad for p in run.model.body.parameters())
    learned = {
        name.removeprefix("body."): t for name, t in run.trained.items()
    }
    for name, parameter in run.model.body.named_parameters():
        assert parameter.equal(learned[name])
    first, _, third = run.sizes
    assert third > first > 0
    assert third == run.model.body[0].weight.grad.abs().sum().item()
    assert type(third) is float
    assert run.weights is not run.model.body[0].weight
    now = {n: p.grad.clone() for n, p in run.model.body.named_parameters()}
    run.model.zero_grad()
    pictures, labels = run.letters
    nn.functional.cross_entropy(run.model(pictures), labels).backward()
    own = {n: p.grad.clone() for n, p in run.model.body.named_parameters()}
    for name, grad in now.items():
        run.model.body.get_parameter(name).grad = grad.clone()
    run.fit(run.model, run.optimizer, run.letters, steps=1)
    for name, parameter in run.model.body.named_parameters():
        torch.testing.assert_close(parameter.grad, now[name] + own[name])


@edits(
    (
        "gradients cleared",
        "    optimizer.step()\n\n\n# %% accuracy",
        "    optimizer.step()\n        model.zero_grad()\n\n\n# %% accuracy",
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
    edited = edited.edit(size, "0.0")
    fails(test_unfrozen_is_not_enough, edited)


def test_unfrozen_is_not_enough__but_not_with_a_group(snippet, fails):
    """In a group of the optimizer, the body moves."""
    old = "model.body.requires_grad_(True)\nweights"
    group = 'optimizer.add_param_group({"params": model.body.parameters()})'
    new = f"model.body.requires_grad_(True)\n{group}\nweights"
    fails(test_unfrozen_is_not_enough, snippet.edit(old, new))


def test_other_classes_do_not_fit(snippet, strict=False):
    run = brief(snippet, "other-classes")

    with pytest.raises(RuntimeError, match="size mismatch") as caught:
        run.model.load_state_dict(run.trained, strict=strict)
    assert str(caught.value) == run.message
    mismatches = run.message.splitlines()[1:]
    assert len(mismatches) == 2
    assert all("size mismatch for head." in line for line in mismatches)
    assert "head.weight" in mismatches[0]
    assert "head.bias" in mismatches[1]


def test_other_classes_do_not_fit__also_if_strict(snippet):
    test_other_classes_do_not_fit(snippet, strict=True)


def test_other_classes_do_not_fit__but_not_as_trained(snippet, fails):
    """A model made for ten classes loads the state."""
    edited = snippet.edit("Reader(classes=5)", "Reader(classes=10)")
    fails(test_other_classes_do_not_fit, edited)


def test_features_once_train_the_same_head(snippet, still=True):
    run = brief(snippet, "new-reader", "features-once")
    model, optimizer = run.new_reader()
    fresh, _ = run.new_reader()
    run.fit(model, optimizer, run.letters, 20, still)

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
        "model.body.eval()(letters",
        "model.body.train()(letters",
    ),
    (
        "other pictures",
        "model.body.eval()(letters[0])",
        "model.body.eval()(letters[0] + torch.randn(15, 1, 8, 8))",
    ),
    (
        "pictures of 16 bits",
        "model.body.eval()(letters[0])",
        "model.body.eval()(letters[0].half().float())",
    ),
    ("fewer steps", "for _ in range(20):", "for _ in range(19):"),
)
def test_features_once_train_the_same_head__but_not(snippet, old, new, fails):
    """In training mode, the body gives other features; the others change the
    pictures, or the number of steps.
    """
    fails(test_features_once_train_the_same_head, snippet.edit(old, new))


def test_features_once_train_the_same_head__ends_if_the_body_moves(
    snippet, fails
):
    """If the body stays in training mode while the other head is trained: that
    head sees other features.
    """
    fails(test_features_once_train_the_same_head, snippet, False)


def end(run, way):
    """Return where the three runs of a way end on average."""
    results = run.runs[way] if isinstance(way, str) else way
    assert len(results) == 3
    assert all(len(curve) == 4 for _, curve in results)
    return sum(curve[-1] for _, curve in results) / 3


FROZEN, SCRATCH = "frozen body", "from scratch"
GENTLE, LARGE = "then the body at 0.001", "then the body at 0.03"


def test_the_loaded_bodies_hold_still(snippet, ways=(FROZEN, GENTLE, LARGE)):
    run = ran(snippet)

    loaded = body_of(run.trained)
    for way in ways:
        for model, _ in run.runs[way]:
            buffers = dict(model.body.named_buffers())
            assert len(buffers) == 6
            assert not changed(model.body, loaded) & {*buffers}


def test_the_loaded_bodies_hold_still__ends_from_scratch(snippet, fails):
    """For a body trained from scratch, without `eval()`: it changes its
    running statistics.
    """
    fails(test_the_loaded_bodies_hold_still, snippet, (SCRATCH,))


def test_the_loaded_bodies_hold_still__but_not_without_eval(snippet, fails):
    """Without `model.body.eval()`, each step changes the running
    statistics.
    """
    edited = snippet.edit("in (0, 1, 2)", "in (0,)").edit(
        "model.body.eval()  # BatchNorm", "pass  # BatchNorm"
    )
    fails(test_the_loaded_bodies_hold_still, edited)


def test_the_frozen_body_beats_scratch(snippet, way=SCRATCH):
    run = ran(snippet)

    assert end(run, FROZEN) >= end(run, way) + 0.1
    for model, _ in run.runs[FROZEN]:
        assert not changed(
            model.body, run.runs[FROZEN][0][0].body.state_dict()
        )
        assert model.body[0].weight.grad is None
    assert run.ways[FROZEN] == {"rates": [0.0] * 4}
    assert run.ways[SCRATCH] == {"rates": [0.01] * 4, **run.scratch}
    assert run.scratch == {"rate": 0.01, "loaded": False, "still": False}
    model, (*_, last) = run.runs[FROZEN][0]
    pictures, labels = run.draw("letters", 30, seed=99)
    guesses = model.eval()(pictures).argmax(dim=1)
    assert last == (guesses == labels).double().mean().item()
    assert type(last) is float
    assert model.head.out_features == 5
    assert run.fine_tune(0, [0.0])[1] == run.runs[FROZEN][0][1][:1]
    for model, _ in run.runs[SCRATCH]:
        assert model.body[1].num_batches_tracked == 20
    seen, _ = run.draw("letters", 3, seed=0)
    assert len(seen) == 15
    assert len(pictures) == 150
    distances = torch.cdist(seen.flatten(1), pictures.flatten(1))
    assert distances.min() > 0.5


@pytest.mark.parametrize("rate", [0.003, 0.03])
def test_the_frozen_body_beats_scratch__also_at_other_rates(snippet, rate):
    run = ran(snippet)

    given = {**run.scratch, "rate": rate}
    runs = [run.fine_tune(seed, [rate] * 4, **given) for seed in range(3)]
    test_the_frozen_body_beats_scratch(snippet, runs)


@pytest.mark.parametrize("way", [GENTLE, FROZEN])
def test_the_frozen_body_beats_scratch__but_not(snippet, way, fails):
    """The frozen body is not 10 points above one that then learns at 0.001,
    nor above itself.
    """
    fails(test_the_frozen_body_beats_scratch, snippet, way)


def test_unfreezing_changes_little_here(snippet, way=GENTLE):
    run = ran(snippet)

    assert abs(end(run, way) - end(run, FROZEN)) < 0.1
    assert run.ways[GENTLE] == {"rates": [0.0, 0.0, 0.001, 0.001]}
    frozen = run.runs[FROZEN][0][0].body
    for model, _ in run.runs[way]:
        assert changed(model.body, frozen.state_dict()) == names(frozen)
    halfway = [curve[:2] for _, curve in run.runs[FROZEN]]
    assert [curve[:2] for _, curve in run.runs[way]] == halfway


def test_unfreezing_changes_little_here__also_if_it_learns_from_the_start(
    snippet,
):
    run = ran(snippet)

    runs = [run.fine_tune(seed, [0.001] * 4) for seed in range(3)]
    assert abs(end(run, runs) - end(run, FROZEN)) < 0.1


@pytest.mark.parametrize("way", [SCRATCH, LARGE, FROZEN])
def test_unfreezing_changes_little_here__but_not(snippet, way, fails):
    """From scratch, it ends more than 10 points away; so does a body at 0.03,
    and a frozen one does not learn.
    """
    fails(test_unfreezing_changes_little_here, snippet, way)


def test_the_rate_of_the_head_is_too_large(snippet, way=LARGE):
    run = ran(snippet)

    assert run.ways[LARGE] == {"rates": [0.0, 0.0, 0.03, 0.03]}
    assert end(run, way) < end(run, FROZEN)
    frozen = run.runs[FROZEN][0][0].body
    for model, _ in run.runs[way]:
        assert changed(model.body, frozen.state_dict()) == names(frozen)


def test_the_rate_of_the_head_is_too_large__also_if_it_learns_from_the_start(
    snippet,
):
    run = ran(snippet)

    runs = [run.fine_tune(seed, [0.03] * 4) for seed in range(3)]
    assert end(run, runs) < end(run, FROZEN)


@pytest.mark.parametrize("way", [GENTLE, FROZEN])
def test_the_rate_of_the_head_is_too_large__but_not(snippet, way, fails):
    """A body that then learns at 0.001 does not end below the frozen one; nor
    does the frozen one itself.
    """
    fails(test_the_rate_of_the_head_is_too_large, snippet, way)


@cache
def digits_after(snippet, way):
    """Return what is left of the digits after each run of a way."""
    run = ran(snippet)
    return [run.digits_again(model) for model, _ in run.runs[way]]


def known_digits(run):
    """Return how many digits the trained model reads right."""
    reader = run.Reader(10)
    reader.load_state_dict(run.trained)
    pictures, labels = run.draw("digits", 30, seed=1)
    right = reader.eval()(pictures).argmax(dim=1) == labels
    return right.double().mean().item()


def test_a_frozen_body_forgets_nothing(snippet, way=FROZEN):
    run = ran(snippet)

    assert digits_after(snippet, way) == [known_digits(run)] * 3


def test_a_frozen_body_forgets_nothing__but_not_in_training_mode(
    snippet, fails
):
    """In training mode, the body's running statistics change, and it reads
    another share of the digits.
    """
    edited = snippet.edit(
        "fit(model, optimizer, few, 5, still)",
        "fit(model, optimizer, few, 5, False)",
    )
    fails(test_a_frozen_body_forgets_nothing, edited)


@pytest.mark.parametrize("way", [GENTLE, LARGE])
def test_a_frozen_body_forgets_nothing__ends_for(snippet, way, fails):
    """For a body that learned, at 0.001 or at 0.03: it no longer reads the
    same share of the digits.
    """
    fails(test_a_frozen_body_forgets_nothing, snippet, way)


def test_a_large_rate_forgets(snippet, ways=(LARGE, GENTLE)):
    run = ran(snippet)

    large, gentle = (digits_after(snippet, way) for way in ways)
    assert digits_after(snippet, FROZEN) == [known_digits(run)] * 3
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


def test_the_drift_costs_digits(snippet, still=False):
    run = ran(snippet)
    runs = [run.fine_tune(seed, [0.0] * 4, still=still) for seed in range(3)]

    assert abs(end(run, runs) - end(run, FROZEN)) < 0.1
    rest = run.runs[FROZEN][0][0].body
    for model, _ in runs:
        assert not changed(model.body, rest.state_dict()) & names(rest)
        seen = model.body[1].num_batches_tracked
        assert still or seen == rest[1].num_batches_tracked + 20
    after = sum(run.digits_again(model) for model, _ in runs)
    assert after < sum(digits_after(snippet, FROZEN))


def test_the_drift_costs_digits__but_not_held_still(snippet, fails):
    """With `eval()` on the body, the old head reads as many digits as
    before.
    """
    edited = snippet.edit(
        "fit(model, optimizer, few, 5, still)",
        "fit(model, optimizer, few, 5, True)",
    )
    fails(test_the_drift_costs_digits, edited)


class Shared(nn.Module):
    """A model whose head shares its weight with the first layer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5, 3)
        self.fc2 = nn.Linear(3, 3)
        self.again = self.fc2
        self.fc = nn.Sequential(nn.Linear(3, 5))
        self.fc[0].weight = self.words.weight


class WithAToken(nn.Module):
    """A model with a parameter in no layer, and a weight in two layers."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 3))
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.fc = nn.Linear(3, 2)


def test_all_but_leaves_out_the_head(snippet):
    run = brief(snippet, "all-but")
    flat = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    cases = (run.model, "head"), (flat, "2"), (Shared(), "fc")
    cases += ((WithAToken(), "fc"),)

    for model, head in cases:
        own = list(model.get_submodule(head).parameters())
        rest = run.all_but(model, head)
        assert not {*rest} & {*own}
        assert {*rest} | {*own} == {*model.parameters()}
        assert len(rest) == len({*rest}) > 0
        with no_error():
            optimizer = torch.optim.AdamW(own)
            optimizer.add_param_group({"params": rest})
    assert {*run.body} == {*run.model.body.parameters()}


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_all_but_leaves_out_the_head__also_of_a_frozen_model(snippet, device):
    run = brief(snippet, "all-but")
    layers = nn.Linear(2, 3), nn.Linear(3, 4), nn.Linear(4, 2)
    model = nn.Sequential(*layers).to(device).requires_grad_(False)

    rest = run.all_but(model, "1")
    assert len(rest) == 4
    assert {*rest} == {*model[0].parameters(), *model[2].parameters()}


REST = "[p for p in model.parameters() if id(p) not in own]"


@edits(
    ("the head too", REST, "[*model.parameters()]"),
    (
        "names",
        REST,
        "[p for n, p in model.named_parameters() if not n.startswith(head)]",
    ),
    ("one left out", REST, f"{REST}[1:]"),
    (
        "those that belong to no layer",
        REST,
        REST.replace(
            "p for p in model", "p for c in model.children() for p in c"
        ),
    ),
    (
        "one twice",
        "p for p in model.parameters() if id(p) not in own]",
        "p for _, p in model.named_parameters(remove_duplicate=False)"
        " if id(p) not in own]",
    ),
    (
        "a head without parts",
        "model.get_submodule(head).parameters()}",
        "model.get_submodule(head).parameters(recurse=False)}",
    ),
)
def test_all_but_leaves_out_the_head__but_not_with(snippet, old, new, fails):
    """Without the `if`, the head is returned as well; the others return too
    many parameters, or too few.
    """
    fails(test_all_but_leaves_out_the_head, snippet.edit(old, new))
