"""The claims of docs/sequences/transformer.md."""

import math
import warnings
from copy import deepcopy
from unittest.mock import patch

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after as shared
from tests.helpers.programs import after, raised_in

# The model, with random weights.
BUILD = ("text", "batch", "loss-of", "block", "model", "untrained")
# One training of each kind: for tests that change nothing.
FIT = (*BUILD, "train", "held-out", "trained")
TRAIN = (*FIT, "last-only", "moved", "write")
TRAIN = (*TRAIN, "no-mask", "while-writing", "not-shifted")
ENCODER = (*BUILD, "moved", "encoder")

BY_SEED = pytest.mark.parametrize("seed", [1], ids="seed {}".format)


# Do this


def test_the_target_is_the_next_letter(snippet):
    run = shared(snippet, "text", "batch")
    inputs, targets = run.draw_batch()

    assert inputs.shape == targets.shape == (16, 32)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    whole = "".join(run.letters[code] for code in run.codes.tolist())
    for first, second in zip(inputs, targets, strict=True):
        piece = torch.cat([first[:1], second])
        assert "".join(run.letters[code] for code in piece) in whole

    def last_start(high, shape):
        return torch.full(shape, high - 1)

    with patch("torch.randint", last_start), no_error():
        _, targets = run.draw_batch(1)
    assert torch.equal(targets[0], run.train[-32:])


@pytest.mark.parametrize("size", [1, 100], ids="{} pieces".format)
def test_the_target_is_the_next_letter__also_in(snippet, size):
    inputs, targets = shared(snippet, "text", "batch").draw_batch(size)
    assert inputs.shape == targets.shape == (size, 32)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


@edits(
    (
        "targets that are the inputs",
        "-1], pieces[:, 1:]",
        "-1], pieces[:, :-1]",
    ),
    (
        "the letter after the next",
        "pieces = train[starts + torch.arange(context + 1)]",
        "pieces = train[starts + torch.arange(0, 2 * context + 2, 2)]",
    ),
)
def test_the_target_is_the_next_letter__but_not(snippet, old, new, fails):
    """The targets are the inputs, or the letters after the next."""
    fails(test_the_target_is_the_next_letter, snippet.edit(old, new))


# How it works


def test_an_untrained_model_guesses(snippet, run=None):
    run = run or shared(snippet, *BUILD)

    assert run.guessing.item() == pytest.approx(math.log(96), abs=1e-4)
    assert run.untrained.item() == pytest.approx(math.log(96), abs=0.5)
    assert len(run.letters) == len(set(run.letters)) == 96


@BY_SEED
@pytest.mark.parametrize("width", [16, 256], ids="width {}".format)
def test_an_untrained_model_guesses__also_from(snippet, width, seed):
    run = shared(snippet, *BUILD)
    torch.manual_seed(seed)
    model = run.LanguageModel(width)

    loss = run.loss_of(model, run.inputs, run.targets).item()
    assert loss == pytest.approx(math.log(96), abs=0.5)


@edits(
    ("fewer letters", "range(32, 127)", "range(32, 64)"),
    (
        "scores that are ten times as large",
        "self.score(self.norm(x))",
        "10 * self.score(self.norm(x))",
    ),
)
def test_an_untrained_model_guesses__but_not_with(snippet, old, new, fails):
    """Of fewer letters, a guess is better; with larger scores, it is worse."""
    edited = snippet.edit(old, new)
    if "64" in new:
        edited = edited.edit("context, 96)", "context, len(letters))")
    fails(test_an_untrained_model_guesses, edited)


def test_a_shared_weight_starts_too_high(
    snippet, seed=0, first=None, second=0.02
):
    run = shared(snippet, *BUILD)
    torch.manual_seed(seed)
    model = run.LanguageModel()
    ratio = model.letter.weight.std() / model.score.weight.std()
    assert ratio.item() == pytest.approx(12, abs=1.5)

    model.score.weight = model.letter.weight
    if first is not None:
        nn.init.normal_(model.letter.weight, std=first)
    assert run.loss_of(model, run.inputs, run.targets) > 20
    nn.init.normal_(model.letter.weight, std=second)
    loss = run.loss_of(model, run.inputs, run.targets).item()
    assert loss == pytest.approx(math.log(96), abs=0.5)


@BY_SEED
def test_a_shared_weight_starts_too_high__also_from(snippet, seed):
    test_a_shared_weight_starts_too_high(snippet, seed)


@pytest.mark.parametrize(
    ("first", "second"),
    [(0.02, 0.02), (None, 0.5)],
    ids=["small numbers from the start", "numbers that are half as large"],
)
def test_a_shared_weight_starts_too_high__but_not_with(
    snippet, first, second, fails
):
    """The size of the numbers decides, not that they are shared."""
    fails(test_a_shared_weight_starts_too_high, snippet, 0, first, second)


def test_training_lowers_the_loss(snippet, run=None):
    run = run or shared(snippet, *TRAIN)
    seen, unseen = (
        "".join(run.letters[code] for code in codes).split("\n\n")
        for codes in (run.train.tolist(), run.test.tolist())
    )
    both = {*seen[:-1]}.intersection(unseen[1:-1])  # two are cut in two
    assert sorted(both) == []
    assert torch.equal(torch.cat([run.train, run.test]), run.codes)
    assert run.pieces.shape == (100, 33)
    assert 0.35 < run.trained.mean().item() / math.log(96) < 2 / 3


def from_seed_1_and_with_the_mask(snippet):
    """Return the program with the mask, and what it comes to."""
    edited = snippet.edit(
        "torch.manual_seed(0)\nmodel =", "torch.manual_seed(1)\nmodel ="
    ).edit(
        "unmasked = LanguageModel(causal=False)\nfit(unmasked)",
        "unmasked = model  # which has the mask",
    )
    edited = edited.edit("steps=120", "steps=80")
    return edited, shared(edited, *FIT, "moved", "no-mask", "while-writing")


def test_training_lowers_the_loss__also_from_seed_1(snippet):
    test_training_lowers_the_loss(*from_seed_1_and_with_the_mask(snippet))


def test_training_lowers_the_loss__but_not_with_repeats(snippet, fails):
    """With all paragraphs, some stand in the training text as well."""
    edited = snippet.edit("dict.fromkeys(text.split", "(text.split")
    run = after(edited, "text")
    run.trained = torch.tensor(2.5)
    fails(test_training_lowers_the_loss, edited, run)


def test_training_lowers_the_loss__but_not_in_three_steps(snippet, fails):
    """The loss needs more than three steps."""
    edited = snippet.edit("steps=120", "steps=3")
    fails(test_training_lowers_the_loss, edited, after(edited, *FIT))


def test_all_positions_teach_more(snippet, run=None):
    run = run or shared(snippet, *TRAIN)
    assert run.last_only.mean() > run.trained.mean() + 0.2
    assert math.log(96) - 0.5 > run.last_only[-1] > run.trained[-1]

    inputs, targets = run.pieces[:, :-1], run.pieces[:, 1:]
    last = run.last_loss(run.last_model, inputs, targets).item()
    assert last == pytest.approx(run.last_only[-1].item(), abs=1e-4)
    seen = []

    def noted(model, inputs, targets):
        seen.append(inputs)
        return run.loss_of(model, inputs, targets)

    for _ in range(2):
        run.fit(run.LanguageModel(), 2, noted)
    assert torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[0], seen[1])


def test_all_positions_teach_more__also_in_30_steps(snippet):
    edited = snippet.edit("steps=120", "steps=30")
    run = shared(edited, *FIT, "last-only")
    test_all_positions_teach_more(edited, run)


def test_all_positions_teach_more__but_not_if_both_do(snippet, fails):
    """Here the loss counts each position in both trainings."""
    short = snippet.edit("steps=120", "steps=30")
    edited = short.edit(
        "F.cross_entropy(model(inputs)[:, -1], targets[:, -1])",
        "loss_of(model, inputs, targets)",
    )
    run = after(edited.edit("\nfit(model)\n", "\n"), *FIT, "last-only")
    run.trained = shared(short, *FIT, "last-only").trained
    fails(test_all_positions_teach_more, edited, run)


def test_all_positions_teach_more__but_not_about_a_spoiled_one(snippet, fails):
    """Here all positions are trained, but the last one on a wrong target."""
    short = snippet.edit("steps=120", "steps=30")
    edited = short.edit(
        "\nfit(model)\n",
        "\n\n\ndef spoiled_loss(model, inputs, targets):\n"
        "    last = model(inputs)[:, -1]\n"
        "    spoiled = F.cross_entropy(last, 0 * targets[:, -1])\n"
        "    return loss_of(model, inputs, targets) + spoiled\n\n\n"
        "fit(model, loss_of=spoiled_loss)\n",
    )
    run = after(edited, *FIT)
    run.last_only = shared(short, *FIT, "last-only").last_only
    assert run.last_only.mean() > run.trained.mean() + 0.2
    fails(test_all_positions_teach_more, edited, run)


def test_one_layer_needs_positions(snippet, layers=1):
    run = shared(snippet, *BUILD, "order")
    model, turned = run.one_layer, run.turned
    if layers > 1:
        model = run.LanguageModel(layers=layers)
        nn.init.zeros_(model.position.weight)

    assert not torch.equal(turned, run.inputs)
    shuffled = run.inputs.clone()
    shuffled[:, :-1] = shuffled[:, torch.randperm(31)]
    with torch.no_grad():
        expected = model(run.inputs)[:, -1]
        for other in (turned, shuffled):
            found = model(other)[:, -1]
            torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_one_layer_needs_positions__also_after_training(snippet):
    edited = snippet.edit(
        "torch.manual_seed(0)\none_layer = LanguageModel(layers=1)",
        "one_layer = LanguageModel(layers=1)\nfit(one_layer, steps=5)",
    )
    run = after(edited, *BUILD, "train", "order")
    assert run.change.abs().max() < 1e-4


def test_one_layer_needs_positions__but_not_with_positions(snippet, fails):
    """With its positions, the layer tells the two orders apart."""
    old = "nn.init.zeros_(one_layer.position.weight)"
    fails(test_one_layer_needs_positions, snippet.edit(old, "pass"))


@pytest.mark.parametrize("layers", [2, 3], ids="{} layers".format)
def test_one_layer_needs_positions__ends_with(snippet, layers, fails):
    """From the second layer on, attention reads what each letter knew of
    those before it.
    """
    fails(test_one_layer_needs_positions, snippet, layers)


def test_a_later_letter_moves_nothing_earlier(
    snippet, build=None, in_encoder=False
):
    if in_encoder:
        encoder_looks_back_only(snippet)
        return
    run = shared(snippet, *BUILD, "moved", "check")
    model = deepcopy(run.model)
    if build is not None:
        model.norm = build()
    assert run.moved(model, run.inputs) == 0

    for place in (1, 10, 31):  # from here on, other letters
        changed = run.inputs.clone()
        changed[:, place:] = (changed[:, place:] + 7) % 96
        with torch.no_grad():
            before, after_it = model(run.inputs), model(changed)
        difference = (after_it - before).abs().amax(dim=(0, 2))
        assert difference[:place].max() < 1e-5
        assert difference[place] > 1e-3


def test_a_later_letter_moves_nothing_earlier__also_after_training(snippet):
    run = shared(snippet, *TRAIN)
    assert run.moved(run.model, run.inputs) == 0


@edits(
    ("no mask", "mask = mask.tril()", "pass"),
    ("a mask of the past", "mask.tril()", "mask.triu()"),
)
def test_a_later_letter_moves_nothing_earlier__but_not_with(
    snippet, old, new, fails
):
    """Without a mask, or with one that hides the past, all of them move."""
    fails(test_a_later_letter_moves_nothing_earlier, snippet.edit(old, new))


def test_a_later_letter_moves_nothing_earlier__but_not_with_one_too_many(
    snippet, fails
):
    """With `tril(1)`, each letter sees the next one, too."""
    edited = snippet.edit("mask.tril()", "mask.tril(1)")
    fails(test_a_later_letter_moves_nothing_earlier, edited)


class Centered(nn.Module):
    """A normalization over the positions, which looks ahead by itself."""

    def forward(self, x):
        """Return the vectors without their mean over the piece."""
        return x - x.mean(dim=1, keepdim=True)


def test_a_later_letter_moves_nothing_earlier__but_not_centered(
    snippet, fails
):
    """A layer that takes a mean over the positions looks ahead, too."""
    fails(test_a_later_letter_moves_nothing_earlier, snippet, Centered)


def test_a_later_letter_moves_nothing_earlier__ends_with_weights_of_0(
    snippet, fails
):
    """If the last layer starts at 0, no letter moves any output, even without
    the mask: train a few steps first.
    """
    old = "self.score = nn.Linear(width, len(letters))\n"
    new = f"{old}        nn.init.zeros_(self.score.weight)\n"
    edited = snippet.edit(old, new)
    fails(test_a_later_letter_moves_nothing_earlier, edited)
    run = shared(edited, *BUILD, "moved", "check")
    unmasked = run.LanguageModel(causal=False)
    assert run.moved(unmasked, run.inputs) == 0


def test_a_later_letter_moves_nothing_earlier__ends_with_dropout(
    snippet, fails
):
    """In training mode, dropout moves all outputs; call `eval()` first."""
    fails(test_a_later_letter_moves_nothing_earlier, snippet, nn.Dropout)
    run = shared(snippet, *BUILD, "moved", "check")
    model = deepcopy(run.model).eval()
    model.norm = nn.Dropout().eval()
    assert run.moved(model, run.inputs) == 0


def encoder_looks_back_only(snippet):
    """Run the check of the page on its encoder, with gradients and without."""
    run = shared(snippet, *ENCODER)
    assert run.moved(run.outputs_of, run.inputs) == 0
    changed = run.inputs.clone()
    changed[:, 20:] = 0
    before, later = run.outputs_of(run.inputs), run.outputs_of(changed)
    assert (before - later)[:, :20].abs().max() < 1e-5
    alone = run.encoder(run.model.letter(run.inputs), mask=run.future)
    torch.testing.assert_close(before, alone, atol=1e-4, rtol=0)


def test_a_later_letter_moves_nothing_earlier__also_in_nn_transformer_encoder(
    snippet,
):
    encoder_looks_back_only(snippet)


FUTURE = "torch.ones(context, context, dtype=torch.bool).triu(1)"


@edits(
    (
        "a float mask",
        FUTURE,
        "nn.Transformer.generate_square_subsequent_mask(context)",
    ),
    ("no hint", "mask=future, is_causal=True", "mask=future"),
    ("norm_first=False", ", norm_first=True", ""),
)
def test_a_later_letter_moves_nothing_earlier__also_in_an_encoder_with(
    snippet, old, new
):
    encoder_looks_back_only(snippet.edit(old, new))


@edits(
    ("no mask", "mask=future, is_causal=True", ""),
    ("a mask of the past", FUTURE, FUTURE.replace("triu(1", "tril(-1")),
    ("a mask that starts too late", FUTURE, FUTURE.replace("1", "2")),
)
def test_a_later_letter_moves_nothing_earlier__but_not_in_an_encoder_with(
    snippet, old, new, fails
):
    """In an encoder: no mask, one of the past, or one that starts too late."""
    edited = snippet.edit(old, new)
    if new.endswith("triu(2)"):  # the hint would win over the mask
        edited = edited.edit("mask=future, is_causal=True", "mask=future")
    fails(test_a_later_letter_moves_nothing_earlier, edited, None, True)


# What goes wrong


def test_without_the_mask_the_loss_collapses(snippet, run=None):
    run = run or shared(snippet, *TRAIN)

    assert run.leaked.mean() < 0.5  # on text that it has not seen
    assert run.leaked[:-1].mean() < 0.4
    assert run.leaked[-1] > 1.5
    assert run.moved(run.unmasked, run.inputs) == 31


def test_without_the_mask_the_loss_collapses__also_from_seed_1(snippet):
    edited = snippet.edit(
        "torch.manual_seed(0)\nunmasked", "torch.manual_seed(1)\nunmasked"
    )
    run = after(edited, *BUILD, "train", "held-out", "moved", "no-mask")
    test_without_the_mask_the_loss_collapses(edited, run)


def test_without_the_mask_the_loss_collapses__but_not_with_it(snippet, fails):
    """With the mask, no position sees its target."""
    fails(
        test_without_the_mask_the_loss_collapses,
        *from_seed_1_and_with_the_mask(snippet),
    )


def test_without_the_mask_writing_fails(snippet, run=None, drop_mask=False):
    run = run or shared(snippet, *TRAIN)
    honest, at_once = run.honest, run.trained.mean().item()
    if drop_mask:
        model = deepcopy(run.model)
        for block in model.blocks:
            block.causal = False
        honest = run.loss_while_writing(model)
        at_once = run.losses_by_position(model).mean().item()

    assert honest == pytest.approx(at_once, abs=1e-3)
    assert run.cheating > math.log(96)
    assert run.cheating > honest + 2


def test_without_the_mask_writing_fails__but_not_with_it(snippet, fails):
    """With the mask, the model has learned to continue a text."""
    fails(
        test_without_the_mask_writing_fails,
        *from_seed_1_and_with_the_mask(snippet),
    )


def test_without_the_mask_writing_fails__but_not_if_it_is_dropped(
    snippet, fails
):
    """If the mask is dropped after training, the two losses differ."""
    run = shared(snippet, *TRAIN)
    fails(test_without_the_mask_writing_fails, snippet, run, True)


def test_unshifted_targets_teach_copying(snippet, run=None, start="The"):
    run = run or shared(snippet, *TRAIN)
    copies = run.copies
    if start != "The":
        copies = run.write(run.copier, start, 40, temperature=0.01)

    assert run.copied < 0.3
    assert run.losses_by_position(run.copier).mean() > math.log(96)
    assert copies == start + 40 * start[-1]


COPY = (*BUILD, "train", "held-out", "write", "not-shifted")


def test_unshifted_targets_teach_copying__but_not_shifted(snippet, fails):
    """With the next letter as the target, there is something to learn."""
    edited = snippet.edit("model, inputs, inputs)", "model, inputs, targets)")
    fails(test_unshifted_targets_teach_copying, edited, after(edited, *COPY))


@pytest.mark.parametrize("start", ["x", "in", "def "], ids=repr)
def test_unshifted_targets_teach_copying__also_after(snippet, start):
    test_unshifted_targets_teach_copying(snippet, None, start)


def test_unshifted_targets_teach_copying__ends_after_a_rare_letter(
    snippet, fails
):
    """In 50 steps, the model doesn't learn to copy a letter that the text
    hardly contains.
    """
    run = shared(snippet, *TRAIN)
    counts = run.train.bincount(minlength=96)
    rare = run.letters[counts.argmin()]
    assert counts.min() < 10
    fails(test_unshifted_targets_teach_copying, snippet, None, f"The{rare}")


def test_a_longer_text_raises(snippet, length=33, prepare=None):
    run = shared(snippet, *BUILD)
    text = torch.zeros(1, length, dtype=torch.long)
    if prepare is not None:
        text = prepare(text)
    elif length == 33:
        cells = snippet.only(*BUILD, "too-long")
        assert "index out of range" in str(raised_in(cells, "too-long"))
    with pytest.raises(IndexError, match="index out of range in self"):
        run.model(text)


def test_a_longer_text_raises__also_of_100_letters(snippet):
    test_a_longer_text_raises(snippet, 100)


def test_a_longer_text_raises__but_not_of_32_letters(snippet, fails):
    """There are positions for 32 letters."""
    fails(test_a_longer_text_raises, snippet, 32)


def test_a_longer_text_raises__but_not_cut_as_in_write(snippet, fails):
    """Cut to its last 32 letters, the text goes through."""
    fails(test_a_longer_text_raises, snippet, 33, lambda text: text[:, -32:])
    run = shared(snippet, *BUILD, "write")
    assert len(run.write(run.model, 33 * "a", 2)) == 35


def test_a_number_without_a_letter_raises(snippet, number=96):
    run = shared(snippet, *BUILD)
    inputs = run.inputs.clone()
    inputs[2, 3] = number
    with pytest.raises(IndexError, match="index out of range in self"):
        run.model(inputs)


@pytest.mark.parametrize("number", [-1, -100, 50_000])
def test_a_number_without_a_letter_raises__also_for(snippet, number):
    test_a_number_without_a_letter_raises(snippet, number)


def test_a_number_without_a_letter_raises__but_not_for_95(snippet, fails):
    """The 96 letters have the numbers from 0 to 95."""
    fails(test_a_number_without_a_letter_raises, snippet, 95)


# nn.TransformerEncoder


HINT = (*ENCODER, "only-a-hint")


def test_the_hint_alone_raises_with_gradients(
    snippet, grad=True, fast=True, frozen=False
):
    run = after(snippet, *HINT)
    if frozen:
        run.encoder.requires_grad_(False)
        run.model.requires_grad_(False)
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        for training in (True, False):
            run.encoder.train(training)
            with (
                torch.set_grad_enabled(grad),
                pytest.raises(RuntimeError, match="Need attn_mask"),
            ):
                run.hinted(run.inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_the_hint_alone_raises_with_gradients__ends_with_a_frozen_model(
    snippet, fails
):
    """If no weight requires gradients, the hint is ignored in eval mode."""
    options = (True, True, True)  # gradients, the fast path, frozen
    fails(test_the_hint_alone_raises_with_gradients, snippet, *options)


def test_the_hint_alone_raises_with_gradients__also_without_the_fast_path(
    snippet,
):
    test_the_hint_alone_raises_with_gradients(snippet, False, False)


def test_the_hint_alone_raises_with_gradients__but_not_with_a_mask(
    snippet, fails
):
    """With the mask, the hint is right."""
    old = "is_causal=True)  # no mask"
    edited = snippet.edit(old, "mask=future, is_causal=True)")
    fails(test_the_hint_alone_raises_with_gradients, edited)


def test_the_hint_alone_is_ignored_in_eval(snippet, fast=True, options=None):
    run = shared(snippet, *HINT)
    encoder, hinted = run.encoder, run.hinted
    if options is not None:
        options = {"nhead": 4, "batch_first": True} | options
        layer = nn.TransformerEncoderLayer(48, **options)
        encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        encoder.eval()

        def hinted(inputs):
            return encoder(run.model.letter(inputs), is_causal=True)

    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with no_error(), torch.no_grad():
            found = hinted(run.inputs)
            expected = encoder(run.model.letter(run.inputs))
        assert torch.equal(found, expected)  # as with no mask at all
        assert run.moved(hinted, run.inputs) == 31
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_the_hint_alone_is_ignored_in_eval__also_after_the_norm(snippet):
    edited = snippet.edit(", norm_first=True", "")
    test_the_hint_alone_is_ignored_in_eval(edited)


@pytest.mark.parametrize("activation", ["gelu", nn.SiLU()], ids=str)
def test_the_hint_alone_is_ignored_in_eval__also_with(snippet, activation):
    options = {"activation": activation}
    test_the_hint_alone_is_ignored_in_eval(snippet, True, options)


def test_the_hint_alone_is_ignored_in_eval__also_in_inference_mode(snippet):
    run = shared(snippet, *HINT)
    with torch.inference_mode():
        found = run.hinted(run.inputs)
        assert torch.equal(found, run.encoder(run.model.letter(run.inputs)))


@edits(
    ("a mask", "is_causal=True)  # no mask", "mask=future, is_causal=True)"),
    ("training mode", "encoder.eval()\n", "encoder.train()\n"),
)
def test_the_hint_alone_is_ignored_in_eval__but_not_with(
    snippet, old, new, fails
):
    """With a mask it works, and in training mode it raises the error."""
    edited = snippet.edit(old, new)
    if new.startswith("encoder"):  # the program itself would fail
        edited = edited.edit(
            'print("earlier outputs that move:", moved(hinted, inputs))', ""
        )
    fails(test_the_hint_alone_is_ignored_in_eval, edited)


def test_the_hint_alone_is_ignored_in_eval__ends_without_the_fast_path(
    snippet, fails
):
    """Where the fast path is switched off, the error comes again."""
    fails(test_the_hint_alone_is_ignored_in_eval, snippet, False)


def test_the_hint_alone_is_ignored_in_eval__ends_for_one_text(snippet, fails):
    """For one text without an axis for the batch, the error comes again."""
    edited = snippet.edit("is_causal=True)  # no mask", "is_causal=True)")
    old = "encoder(model.letter(inputs), is_causal"
    edited = edited.edit(old, "encoder(model.letter(inputs[0]), is_causal")
    edited = edited.edit(
        'print("earlier outputs that move:", moved(hinted, inputs))', ""
    )
    fails(test_the_hint_alone_is_ignored_in_eval, edited)


@pytest.mark.parametrize(
    "options",
    [{"nhead": 1}, {"bias": False}, {"batch_first": False}],
    ids=["one head", "no bias", "`batch_first=False`, the default"],
)
def test_the_hint_alone_is_ignored_in_eval__ends_with(snippet, options, fails):
    """With an odd number of heads, with `bias=False` or the default
    `batch_first=False`, there is no fast path, so the error comes again.
    """
    fails(test_the_hint_alone_is_ignored_in_eval, snippet, True, options)


WINDOW = (*HINT, "window")


def test_the_hint_replaces_your_mask(
    snippet, grad=True, training=False, padding=None, shift=-4
):
    run = after(snippet, *WINDOW)
    torch.testing.assert_close(
        run.with_hint, run.causal_only, atol=1e-5, rtol=0
    )
    assert (run.with_hint - run.windowed).abs().max() > 0.01

    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    encoder.train(training)
    vectors, masks = torch.rand(2, 9, 16), {"src_key_padding_mask": padding}
    future = torch.ones(9, 9, dtype=torch.bool).triu(1)
    window = future | torch.ones(9, 9, dtype=torch.bool).tril(shift)
    with torch.set_grad_enabled(grad):
        found = encoder(vectors, window, is_causal=True, **masks)
        expected = encoder(vectors, future, **masks)
        other = encoder(vectors, window, **masks)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    assert (found - other).abs().max() > 1e-3


@pytest.mark.parametrize("grad", [True, False])
def test_the_hint_replaces_your_mask__also_in_training_mode(snippet, grad):
    test_the_hint_replaces_your_mask(snippet, grad, True)


def test_the_hint_replaces_your_mask__also_in_a_decoder():
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(16, 2, 32, 0.0, batch_first=True)
    vectors, ones = torch.rand(2, 9, 16), torch.ones(9, 9, dtype=torch.bool)
    future, window = ones.triu(1), ones.triu(1) | ones.tril(-4)
    options = {"tgt_mask": window, "tgt_is_causal": True}
    found = layer(vectors, vectors, **options)
    expected = layer(vectors, vectors, tgt_mask=future)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@edits(
    ("the hint", "mask=window, is_causal=True)", "mask=window)"),
    ("gradients", "with_hint = encoder(", "with torch.no_grad():\n"
     "    with_hint = encoder("),
    ("a narrower mask", "future | torch.ones_like(future).tril(-4)", "future"),
)  # fmt: skip
def test_the_hint_replaces_your_mask__but_not_without(
    snippet, old, new, fails
):
    """Without the hint, or in evaluation without gradients, the window holds;
    and the causal mask is what the hint means.
    """
    fails(test_the_hint_replaces_your_mask, snippet.edit(old, new))


def test_the_hint_replaces_your_mask__ends_with_padding(snippet, fails):
    """With `src_key_padding_mask` beside it, your mask counts."""
    padding = torch.zeros(2, 9, dtype=torch.bool)
    fails(test_the_hint_replaces_your_mask, snippet, True, False, padding)


def test_the_warning_changes_no_output(snippet):
    run = shared(snippet, *ENCODER, "warning")
    assert "norm_first was True" in str(run.met[0].message)

    quiet = nn.TransformerEncoder(run.layer, 2, enable_nested_tensor=False)
    quiet.load_state_dict(run.warned.state_dict())
    vectors = torch.rand(2, 5, 48)
    padding = torch.tensor([5 * [False], [False, False, True, True, True]])
    for options in ({}, {"src_key_padding_mask": padding}):
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            found = run.warned.eval()(vectors, **options)
            expected = quiet.eval()(vectors, **options)
        torch.testing.assert_close(found, expected)


def test_the_warning_changes_no_output__also_for_batch_first(snippet):
    with pytest.warns(UserWarning, match="batch_first was not True"):
        loud = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2)
    quiet = nn.TransformerEncoder(
        loud.layers[0], 2, enable_nested_tensor=False
    )
    quiet.load_state_dict(loud.state_dict())
    vectors = torch.rand(5, 2, 8)
    found, expected = loud.eval()(vectors), quiet.eval()(vectors)
    torch.testing.assert_close(found, expected)


def test_the_warning_changes_no_output__but_not_without_one(snippet, fails):
    """Without `norm_first=True`, padded outputs become 0, and none warns."""
    edited = snippet.edit(", norm_first=True", "").edit(
        "print(met[0].message)",
        'met = [warnings.WarningMessage("norm_first was True", None, "", 0)]',
    )
    fails(test_the_warning_changes_no_output, edited)


MIX = (*ENCODER, "warning", "batch-second")


def test_without_batch_first_texts_mix(snippet, mask=None):
    with warnings.catch_warnings(), no_error():
        warnings.simplefilter("error")
        run = after(snippet.edit("met[0].message", "met"), *MIX)
        outputs = run.second(run.vectors, src_mask=mask)
    assert outputs.shape == run.vectors.shape
    assert run.mixing > 0.01


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_without_batch_first_texts_mix__also_in_an_encoder(seed):
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(16, 2)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    vectors = torch.rand(3, 7, 16)
    other = vectors.clone()
    other[1:] = torch.rand(2, 7, 16)
    first, second = model.eval()(vectors)[0], model(other)[0]
    assert (first - second).abs().max() > 0.01


def test_without_batch_first_texts_mix__but_not_with_it(snippet, fails):
    """With `batch_first=True`, each text is read by itself."""
    old = "(64, nhead=4, dropout=0.0)"
    edited = snippet.edit(old, "(64, nhead=4, dropout=0.0, batch_first=True)")
    fails(test_without_batch_first_texts_mix, edited)


def test_without_batch_first_texts_mix__ends_with_a_mask(snippet, fails):
    """A mask for five letters raises, unless there happen to be five texts."""
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
    fails(test_without_batch_first_texts_mix, snippet, mask)
    run = shared(snippet, *MIX)
    message = r"shape of the 2D attn_mask is .*5, 5.*, but should be \(2, 2\)"
    with pytest.raises(RuntimeError, match=message):
        run.second(run.vectors, src_mask=mask)
    run.second(torch.rand(5, 5, 64), src_mask=mask)


PADDED = (*MIX, "padded")


def padded_under_autocast(run):
    """Return the outputs of a padded batch under autocast."""
    with (
        warnings.catch_warnings(action="ignore"),
        torch.no_grad(),
        torch.autocast("cpu", torch.bfloat16),
    ):
        return run.reader(run.vectors, src_key_padding_mask=run.padding)


def test_padded_outputs_become_zero_in_eval(snippet, autocast=False):
    run = shared(snippet, *PADDED)
    if autocast:
        with no_error():
            found = padded_under_autocast(run)
        assert (found[run.padding] == 0).all()
        return

    with_grad, without = run.with_grad, run.without_grad
    assert with_grad.shape == without.shape == (2, 5, 64)
    assert run.padding.sum(dim=1).tolist() == [0, 3]
    real = ~run.padding
    torch.testing.assert_close(
        with_grad[real], without[real], atol=1e-4, rtol=0
    )
    assert (without[run.padding] == 0).all()
    assert (with_grad[run.padding] != 0).any()


def test_padded_outputs_become_zero_in_eval__also_if_all_are_padded(snippet):
    edited = snippet.edit("padding[1, 2:] = True", "padding[:, 3:] = True")
    run = after(edited, *PADDED)
    assert run.without_grad.shape == (2, 5, 64)  # not cut to three
    assert (run.without_grad[:, 3:] == 0).all()
    assert (run.with_grad[:, 3:] != 0).any()


@edits(
    (
        "nested tensors off",
        "(layer, 2).eval()",
        "(layer, 2, None, False).eval()",
    ),
    ("training mode", "(layer, 2).eval()", "(layer, 2)"),
)
def test_padded_outputs_become_zero_in_eval__but_not_with(
    snippet, old, new, fails
):
    """In training mode, or with `enable_nested_tensor=False`, the outputs at
    the padding are numbers like the others.
    """
    fails(test_padded_outputs_become_zero_in_eval, snippet.edit(old, new))


def test_padded_outputs_become_zero_in_eval__but_not_without_batch_first(
    snippet, fails
):
    """With the default `batch_first=False`, they are numbers, too."""
    edited = snippet.edit(
        "64, nhead=4, batch_first=True)\nreader", "64, nhead=4)\nreader"
    ).edit(
        "reader = nn.TransformerEncoder(layer, 2).eval()",
        "with warnings.catch_warnings(action='ignore'):\n"
        "    inner = nn.TransformerEncoder(layer, 2).eval()\n"
        "def reader(vectors, **masks):\n"
        "    return inner(vectors.transpose(0, 1), **masks).transpose(0, 1)",
    )
    fails(test_padded_outputs_become_zero_in_eval, edited)
    run = shared(edited, *PADDED)
    torch.testing.assert_close(run.without_grad, run.with_grad)


@edits(
    (
        "`norm_first=True`",
        "batch_first=True)\nreader",
        "batch_first=True, norm_first=True)\nreader",
    ),
    ("padding on the left", "padding[1, 2:] = True", "padding[1, :3] = True"),
    ("padding within", "padding[1, 2:] = True", "padding[1, 1:4] = True"),
    (
        "one head",
        "layer = nn.TransformerEncoderLayer(64, nhead=4, batch",
        "layer = nn.TransformerEncoderLayer(64, nhead=1, batch",
    ),
    (
        "no bias",
        "batch_first=True)\nreader",
        "batch_first=True, bias=False)\nreader",
    ),
    (
        "an activation other than ReLU and GELU",
        "batch_first=True)\nreader",
        "batch_first=True, activation=F.silu)\nreader",
    ),
)
def test_padded_outputs_become_zero_in_eval__ends_with(
    snippet, old, new, fails
):
    """With `norm_first=True`, padding on the left or within, an odd number of
    heads, `bias=False`, or an activation other than ReLU and GELU, the encoder
    doesn't skip the padding.
    """
    edited = snippet.edit(old, new)
    if "padding" not in old:  # it says so in a warning, which is silenced
        edited = edited.edit(
            "reader =",
            'with warnings.catch_warnings(action="ignore"):\n    reader =',
        )
    fails(test_padded_outputs_become_zero_in_eval, edited)


@pytest.mark.parametrize("mode", ["inference_mode", "float_mask"])
def test_padded_outputs_become_zero_in_eval__also_in(snippet, mode):
    old, new = (
        "torch.no_grad():\n    warn",
        "torch.inference_mode():\n    warn",
    )
    if mode == "float_mask":
        old = "without_grad = reader(vectors, src_key_padding_mask=padding)"
        floats = "torch.zeros(2, 5).masked_fill(padding, -torch.inf)"
        new = old.replace("=padding", f"={floats}")
    test_padded_outputs_become_zero_in_eval(snippet.edit(old, new))


def test_padded_outputs_become_zero_in_eval__also_in_a_text_of_padding_alone(
    snippet,
):
    run = shared(snippet, *PADDED)
    padding = run.padding.clone()
    padding[1] = True
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        found = run.reader(run.vectors, src_key_padding_mask=padding)
    assert (found[1] == 0).all()


def test_padded_outputs_become_zero_in_eval__ends_in_a_single_layer(
    snippet, fails
):
    """An `nn.TransformerEncoderLayer` by itself doesn't skip the padding."""
    old = "nn.TransformerEncoder(layer, 2).eval()"
    fails(
        test_padded_outputs_become_zero_in_eval,
        snippet.edit(old, "layer.eval()"),
    )


def test_padded_outputs_become_zero_in_eval__ends_under_autocast(
    snippet, fails
):
    """Under `autocast`, this raises `expected scalar type Float but found
    BFloat16`: pass `enable_nested_tensor=False`.
    """
    fails(test_padded_outputs_become_zero_in_eval, snippet, True)
    with pytest.raises(RuntimeError, match="expected scalar type Float"):
        padded_under_autocast(shared(snippet, *PADDED))
    edited = snippet.edit(
        "(layer, 2).eval()", "(layer, 2, None, False).eval()"
    )
    found = padded_under_autocast(shared(edited, *PADDED))
    assert found.isfinite().all()


def test_padded_outputs_become_zero_in_eval__ends_with_a_causal_mask(
    snippet, fails
):
    """Given a mask as well, the encoder doesn't skip the padding."""
    old = "without_grad = reader(vectors, "
    mask = "torch.ones(5, 5, dtype=torch.bool).triu(1)"
    edited = snippet.edit(old, f"{old}mask={mask}, ").edit(
        "with_grad = reader(vectors, ",
        f"with_grad = reader(vectors, mask={mask}, ",
    )
    fails(test_padded_outputs_become_zero_in_eval, edited)


def test_padded_outputs_become_zero_in_eval__ends_with_a_last_norm(
    snippet, fails
):
    """A `norm` after the layers makes its own numbers of the zeros."""
    edited = snippet.edit("(layer, 2).eval()", "(layer, 2, norm).eval()")
    edited = edited.edit(
        "padding = torch.zeros",
        "nn.init.ones_(norm.bias)\npadding = torch.zeros",
    ).edit(
        "reader = nn.Trans",
        "norm = nn.LayerNorm(64)\nreader = nn.Trans",
    )
    fails(test_padded_outputs_become_zero_in_eval, edited)


def test_the_decoder_needs_the_mask_too(snippet, training=False, size=64):
    run = (shared if torch.is_grad_enabled() else after)(
        snippet, "text", "translate"
    )
    assert (run.one_mask - run.alone).abs().max() > 0.1
    torch.testing.assert_close(run.two_masks, run.alone, atol=1e-4, rtol=0)

    both = nn.Transformer(size, 2, 2, 2, 32, dropout=0.0, batch_first=True)
    source, target = torch.rand(2, 6, size), torch.rand(2, 4, size)
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    later = torch.ones(4, 4, dtype=torch.bool).triu(1)
    both.train(training)
    alone = both(source[1:, :4], target[1:], tgt_mask=later)
    masks = {"tgt_mask": later, "src_key_padding_mask": padding}
    one = both(source, target, **masks)[1:]
    two = both(source, target, **masks, memory_key_padding_mask=padding)[1:]
    assert (one - alone).abs().max() > 1e-3
    torch.testing.assert_close(two, alone, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("training", "size"),
    [(True, 64), (False, 8), (True, 8)],
    ids=["in training mode", "with 8 numbers", "with 8 in training mode"],
)
def test_the_decoder_needs_the_mask_too__also(snippet, training, size):
    test_the_decoder_needs_the_mask_too(snippet, training, size)


def test_the_decoder_needs_the_mask_too__also_without_gradients(snippet):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype
        test_the_decoder_needs_the_mask_too(snippet)


@edits(
    (
        "no padding",
        "padding = torch.tensor([[False, False, False, True, True]])",
        "padding = torch.zeros(1, 5, dtype=torch.bool)",
    ),
    (
        "the decoder's alone",
        "source, src_key_padding_mask=padding, memory",
        "source, memory",
    ),
    (
        "both at once",
        "one_mask = decoded(source, ",
        "one_mask = decoded(source, memory_key_padding_mask=padding, ",
    ),
)
def test_the_decoder_needs_the_mask_too__but_not_with(
    snippet, old, new, fails
):
    """A mask of nothing, the decoder's alone, or both masks at once."""
    fails(test_the_decoder_needs_the_mask_too, snippet.edit(old, new))


REVERSE = ("text", "reverser", "teacher-forcing", "write-digits")


def test_teacher_forcing_teaches_to_write(snippet):
    with no_error():
        run = after(snippet, *REVERSE)
    source, target = run.draw_digits(7)
    assert (target[:, 0] == 10).all()
    assert torch.equal(target[:, 1:], source.flip(1))
    assert run.source.shape == run.answers.shape == (300, 4)
    right = (run.answers == run.source.flip(1)).all(dim=1).float().mean()
    assert run.reversed_right == pytest.approx(right.item())
    assert right > 0.9
    assert run.loss < 0.1
    # At most 3840 of the 10,000 sources were in training.
    some = torch.cartesian_prod(*[torch.arange(10)] * 4)[::7]
    written = run.write_digits(run.reverser, some)
    right = (written == some.flip(1)).all(dim=1).float().mean().item()
    assert (right - 0.384) / (1 - 0.384) > 0.9
    # Alone, a source is written as in the batch, digit by digit.
    for source in run.source[:3]:
        written = [10]
        for _ in range(4):
            scores = run.reverser(source[None], torch.tensor([written]))
            written.append(scores[0, -1].argmax().item())
        assert written[1:] == source.tolist()[::-1]


def test_teacher_forcing_teaches_to_write__also_with_dropout(snippet):
    edited = snippet.edit('"dropout": 0.0', '"dropout": 0.1')
    edited = edited.edit("range(60)", "range(100)")
    edited = edited.edit(
        "write_digits(reverser,", "write_digits(reverser.eval(),"
    )
    test_teacher_forcing_teaches_to_write(edited)


@edits(
    ("a target that is not shifted", "target[:, :-1])", "target[:, 1:])"),
    ("no tgt_mask", ", tgt_mask=later)", ")"),
    (
        "a target of starts alone",
        "target[:, :-1])",
        "torch.full((64, 1), 10).expand(64, 4))",
    ),
    ("another start", "(len(source), 1), 10)", "(len(source), 1), 0)"),
)
def test_teacher_forcing_teaches_to_write__but_not_with(
    snippet, old, new, fails
):
    """If the model reads the digit that it should predict, or none at all, or
    begins with something else, it writes other digits.
    """
    fails(test_teacher_forcing_teaches_to_write, snippet.edit(old, new))
