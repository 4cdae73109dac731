"""The claims of docs/models/pretrained_texts.md."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import after

BEGIN = ("quiet", "imports", "no-download", "do-this")
TEXTS = (*BEGIN, "step", "texts", "tokens")
LORA = (*TEXTS, "head", "lora", "add-lora")
LONG = (*BEGIN, "error-of", "too-long", "truncated")
GPT = (*BEGIN, "step", "texts", "error-of", "no-padding", "padding")


def distance(one, other):
    """Return how far two tensors are apart at most."""
    return (one - other).abs().max().item()


def scores(model, batch):
    """Return what a model gives in evaluation mode."""
    with torch.no_grad():
        return model.eval()(**batch).logits


# Do this


def test_the_model_comes_in_evaluation_mode(snippet):
    run = after(snippet, *BEGIN, "step", "texts")

    fresh = run.AutoModelForSequenceClassification.from_pretrained(run.name)
    loaded = fresh.bert.state_dict()
    learned = run.model.bert.state_dict()
    assert any(not learned[name].equal(loaded[name]) for name in loaded)
    modes = {part.training for part in fresh.modules()}
    assert modes == {False}
    assert {part.training for part in run.model.modules()} == {True}


def test_the_model_comes_in_evaluation_mode__but_not_without_train(
    snippet, fails
):
    """Without `train()`, dropout stays off in the training too."""
    edited = snippet.edit("    model.train()\n", "")
    fails(test_the_model_comes_in_evaluation_mode, edited)


# How it works


def test_a_padded_text_gets_the_same_scores(snippet, gpt_padded_on=None):
    run = after(snippet, *TEXTS, "alone")

    if gpt_padded_on:
        place, side = run.folder / "gpt", gpt_padded_on
        tokenizer = run.AutoTokenizer.from_pretrained(place, padding_side=side)
        tokenizer.pad_token = tokenizer.eos_token
        model = run.AutoModelForCausalLM.from_pretrained(place)
        texts = ["dull film", "the film was very good"]
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        alone = tokenizer(texts[0], return_tensors="pt")
        real = batch["attention_mask"][0].bool()
        together = scores(model, batch)[0][real]
        assert distance(together, scores(model, alone)[0]) < 1e-4
        return
    assert run.batch["input_ids"].shape == (2, 7)
    assert run.batch["attention_mask"].sum(dim=1).tolist() == [7, 3]
    assert distance(run.together, run.by_itself) < 1e-4
    ids = {"input_ids": run.batch["input_ids"]}
    assert distance(run.unmasked, scores(run.model, ids)[1]) < 1e-4
    assert distance(run.unmasked, run.by_itself) > 0.1


@pytest.mark.parametrize(
    "text", ["the film was not good", "a very very very dull film", "bad"]
)
def test_a_padded_text_gets_the_same_scores__also(snippet, text):
    run = after(snippet, *TEXTS)
    texts = [text, "the film is fine " * 5]
    batch = run.tokenizer(texts, padding=True, return_tensors="pt")
    alone = run.tokenizer(text, return_tensors="pt")

    together = scores(run.model, batch)[:1]
    assert distance(together, scores(run.model, alone)) < 1e-4


def test_a_padded_text_gets_the_same_scores__also_gpt_2(snippet):
    test_a_padded_text_gets_the_same_scores(snippet, "right")


def test_a_padded_text_gets_the_same_scores__ends_on_the_left(snippet, fails):
    """GPT-2 counts positions from the start, so padding on the left moves the
    text, unless you pass `position_ids`; `generate` does.
    """
    fails(test_a_padded_text_gets_the_same_scores, snippet, "left")


def test_a_padded_text_gets_the_same_scores__but_not_without_a_mask(
    snippet, fails
):
    """Without the mask, the text attends to its padding."""
    old = "together = model(**batch)"
    edited = snippet.edit(old, 'together = model(batch["input_ids"])')
    fails(test_a_padded_text_gets_the_same_scores, edited)


def test_the_head_is_new(snippet):
    run = after(snippet, *BEGIN, "head")

    missing, unexpected = (
        {name.rpartition(".")[0] for name in run.found[f"{kind}_keys"]}
        for kind in ("missing", "unexpected")
    )
    assert missing == {"bert.pooler.dense", "classifier"}
    assert {name.partition(".")[0] for name in unexpected} == {"cls"}
    torch.manual_seed(5)
    again = run.AutoModelForSequenceClassification.from_pretrained(run.name)
    one, other = run.model.state_dict(), again.state_dict()
    drawn = {name for name in one if not one[name].equal(other[name])}
    assert drawn == {"bert.pooler.dense.weight", "classifier.weight"}


def test_the_head_is_new__but_not_of_a_saved_classifier(snippet, fails):
    """A file that holds the head already leaves nothing to draw."""
    old = "model, found = AutoModelForSequenceClassification"
    edited = snippet.edit(
        old, f'model.save_pretrained(folder / "bert")\n{old}'
    )
    fails(test_the_head_is_new, edited)


def test_lora_begins_without_effect(snippet):
    run = after(snippet, *LORA)

    assert distance(run.after, run.before) == 0
    learning = [n for n, p in run.model.named_parameters() if p.requires_grad]
    parts = {name.split(".")[-2] for name in learning}
    assert parts == {"down", "up", "classifier"}
    assert sum(run.learning) == 4 * 4 * (32 + 32) + 2 * 32 + 2


@edits(
    ("nn.init.zeros_(self.up.weight)", "self.up.requires_grad_(True)"),
    ("model.requires_grad_(False)", "model.train()"),
)
def test_lora_begins_without_effect__but_not_with(snippet, old, new, fails):
    """Two random matrices have a product from the start; without freezing,
    all of the model learns.
    """
    fails(test_lora_begins_without_effect, snippet.edit(old, new))


def test_lora_merges_into_one_layer(snippet):
    run = after(snippet, *LORA, "merge")

    assert run.trained.up.weight.abs().max().item() > 0
    assert run.merged.std().item() > 0.1
    assert distance(run.merged, run.of_both) < 1e-4


@edits(
    ("trained.scale * trained.up", "trained.up"),
    ("trained.linear.weight += product", "product"),
)
def test_lora_merges_into_one_layer__but_not_with(snippet, old, new, fails):
    """Without its scale, or not added at all, the product is another one."""
    fails(test_lora_merges_into_one_layer, snippet.edit(old, new))


def test_peft_adds_the_same_matrices(snippet):
    run = after(snippet, *LORA, "merge", "peft")

    layer = run.wrapped.base_model.model.bert.encoder.layer[0]
    theirs = layer.attention.self.query
    own = run.LoRA(deepcopy(theirs.base_layer), rank=4, alpha=8)
    down, up = theirs.lora_A["default"], theirs.lora_B["default"]
    assert up.weight.abs().max().item() == 0
    nn.init.normal_(up.weight)
    own.down.weight, own.up.weight = down.weight, up.weight
    hidden = torch.rand(3, 32)
    assert distance(theirs(hidden), own(hidden)) < 1e-5
    learning = [p for p in run.wrapped.parameters() if p.requires_grad]
    assert sum(p.numel() for p in learning) == sum(run.learning)


@edits(
    ("lora_alpha=8", "lora_alpha=16"),
    ('    modules_to_save=["classifier"],\n', ""),
)
def test_peft_adds_the_same_matrices__but_not_with(snippet, old, new, fails):
    """Another `lora_alpha` is another scale; without `modules_to_save`, the
    new head is frozen, and stays random.
    """
    fails(test_peft_adds_the_same_matrices, snippet.edit(old, new))


# What goes wrong


def test_long_texts_raise_unless_cut(snippet):
    run = after(snippet, *LONG)

    long = run.tokenizer(run.long_text, return_tensors="pt")
    assert long["input_ids"].shape == (1, 1024)
    assert "must match the existing size (512)" in run.error_of(
        run.model, **long
    )
    assert run.tokens["input_ids"].shape == (1, 512)
    with no_error():
        run.model(**run.tokens)


def test_long_texts_raise_unless_cut__but_not_without_truncation(
    snippet, fails
):
    """Without `truncation=True`, the tokenizer only warns."""
    old = "tokens = tokenizer(long_text, truncation=True"
    edited = snippet.edit(old, "tokens = tokenizer(long_text")
    edited = edited.edit(
        "print(list(model(**tokens).logits.shape))", "print()"
    )
    fails(test_long_texts_raise_unless_cut, edited)


def test_long_texts_raise_unless_cut__ends_without_a_length(snippet, fails):
    """A tokenizer whose file has no `model_max_length` cuts nothing: pass
    `max_length=512`.
    """
    edited = snippet.edit("    model_max_length=512,\n", "")
    edited = edited.edit(
        "print(list(model(**tokens).logits.shape))", "print()"
    )
    fails(test_long_texts_raise_unless_cut, edited)


def test_windows_share_tokens(snippet):
    run = after(snippet, *LONG, "windows")

    rows = [
        ids[mask.bool()][1:-1]  # without [CLS] and [SEP]
        for ids, mask in zip(
            run.windows["input_ids"],
            run.windows["attention_mask"],
            strict=True,
        )
    ]
    assert [len(row) for row in rows] == [510, 510, 130]
    assert sum(len(row) - 64 for row in rows) + 64 == 1022
    words = " ".join(run.words.split() * 50)
    windows = run.tokenizer(
        words, truncation=True, return_overflowing_tokens=True, stride=64
    )["input_ids"]
    assert windows[0][-65:-1] == windows[1][1:65]


@edits(
    ("    stride=64,  # what neighbors share\n", ""),
    ("    return_overflowing_tokens=True,\n", ""),
)
def test_windows_share_tokens__but_not_without(snippet, old, new, fails):
    """Without a stride, they share nothing; without the windows, the rest of
    the text is lost.
    """
    fails(test_windows_share_tokens, snippet.edit(old, new))


def test_gpt_has_no_padding_token(snippet):
    run = after(snippet, *GPT)

    fresh = run.AutoTokenizer.from_pretrained(run.folder / "gpt")
    said = run.error_of(fresh, run.texts, padding=True)
    assert "does not have a padding token" in said
    load = run.AutoModelForSequenceClassification.from_pretrained
    said = run.error_of(load(run.folder / "gpt"), input_ids=run.ids)
    assert "Cannot handle batch sizes > 1" in said
    assert "no error" in run.error_of(run.model, **run.batch)
    alone = run.tokenizer(run.texts[1], return_tensors="pt")
    together = scores(run.model, run.batch)[1:]
    assert distance(together, scores(run.model, alone)) < 1e-4


def test_gpt_has_no_padding_token__but_not_in_one_place(snippet, fails):
    """The model has to know the padding token as well."""
    first = "tokenizer.pad_token = tokenizer.eos_token\n"
    second = "model.config.pad_token_id = tokenizer.pad_token_id\n"
    edited = snippet.edit(first + second, first)
    edited = edited.edit("print(list(model(**batch).logits.shape))", "print()")
    fails(test_gpt_has_no_padding_token, edited)


def test_padding_has_no_loss(snippet):
    own = after(snippet, *GPT, "collator", "own-padding")
    assert own.collate([own.the_end])["labels"].tolist() == [[10, 3]]
    run = after(snippet, *GPT, "collator")

    tokenizer = run.AutoTokenizer.from_pretrained(run.folder / "gpt")
    tokenizer.pad_token = run.tokenizer.pad_token
    collate = run.DataCollatorForLanguageModeling(tokenizer, mlm=False)
    texts = [run.the_end, {"input_ids": [5, 6, 7, 8]}]
    labels = collate(texts)["labels"].tolist()
    assert labels == [[10, -100, -100, -100], [5, 6, 7, 8]]


def test_padding_has_no_loss__but_not_with_a_token_of_its_own(snippet, fails):
    """If padding has a token of its own, the end stays in the loss."""
    old = "tokenizer.pad_token = tokenizer.eos_token"
    edited = snippet.edit(old, 'tokenizer.pad_token = "[PAD]"')
    fails(test_padding_has_no_loss, edited)


def test_left_padding_continues_each_text(snippet):
    run = after(snippet, *GPT, "continue-texts", "generate")

    together = run.continue_texts(run.texts, run.side_to_use)
    alone = [run.continue_texts([text], "left")[0] for text in run.texts]
    assert together == alone


def test_left_padding_continues_each_text__but_not_on_the_right(
    snippet, fails
):
    """On the right, the first new word follows padding, not the text."""
    old = 'side_to_use = "left"'
    edited = snippet.edit(old, 'side_to_use = "right"')
    fails(test_left_padding_continues_each_text, edited)


def test_a_text_has_one_label(snippet):
    run = after(snippet, *TEXTS, "error-of", "labels", "token-labels")

    of_tokens = run.error_of(run.model, **run.batch, labels=run.for_tokens)
    assert "batch_size (2) to match target batch_size (14)" in of_tokens
    said = run.error_of(run.model, **run.batch, labels=torch.tensor([1, 0]))
    assert said == "no error"
    said = run.error_of(run.tagger, **run.batch, labels=run.for_tokens)
    assert said == "no error"
    assert run.tagger(**run.batch).logits.shape == (2, 7, 2)
    padding = run.batch["attention_mask"] == 0
    assert run.for_tokens[padding].tolist() == [-100] * 4


def test_a_text_has_one_label__but_not_in_a_model_for_tokens(snippet, fails):
    """A model for tokens takes a label for each of them."""
    kind, rest = "AutoModelForSequenceClassification", "(name, num_labels=2)"
    old = f"{kind}.from_pretrained{rest}\nbatch"
    edited = snippet.edit(old, old.replace("Sequence", "Token"))
    fails(test_a_text_has_one_label, edited)


def test_another_number_of_labels_needs_a_new_head(snippet):
    run = after(snippet, *TEXTS, "error-of", "labels", "mismatched", "ignored")

    place = run.folder / "tuned"
    said = run.error_of(run.load, place, num_labels=5)
    assert "ignore_mismatched_sizes" in said
    assert run.error_of(run.load, place, num_labels=2) == "no error"
    assert run.model.classifier.weight.shape == (5, 32)
    body = run.load(place).bert.state_dict()
    for name, tensor in run.model.bert.state_dict().items():
        assert tensor.equal(body[name])


def test_another_number_of_labels_needs_a_new_head__but_not_the_same(
    snippet, fails
):
    """The number of labels that was saved fits."""
    edited = snippet.edit("num_labels=5, ignore", "num_labels=2, ignore")
    fails(test_another_number_of_labels_needs_a_new_head, edited)


KEEPS = (*GPT, "continue-texts", "generate", "keeps-logits", "fewer-logits")


def test_predict_keeps_every_score(snippet):
    run = after(snippet, *KEEPS)

    vocabulary = len(run.numbers)
    assert run.kept.shape == (10, 4, vocabulary)
    assert run.fewer.shape == (10, 4)
    assert (run.kept.argmax(-1) == run.fewer).all()


def test_predict_keeps_every_score__but_not_the_best_alone(snippet, fails):
    """What the function returns is kept instead, here the best token."""
    edited = snippet.edit("logits.argmax(-1)", "logits")
    fails(test_predict_keeps_every_score, edited)
