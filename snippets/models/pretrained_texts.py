"""
Fine-tune BERT, GPT and other models of Transformers
====================================================

A BERT that others trained tells good reviews from bad ones.
"""

# %% quiet
import logging
import warnings

logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", "`is_gradient_checkpointing`")

# %% imports
import atexit
import shutil
import tempfile
from copy import deepcopy
from pathlib import Path

import peft
import torch
import transformers
from torch import nn, optim
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

print("torch", torch.__version__)
print("transformers", transformers.__version__, "and peft", peft.__version__)

# %% no-download
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)

marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
words = "a bad dull film fine good is it not the very was"
numbers = {each: n for n, each in enumerate([*marks, *words.split()])}
sizes = {"vocab_size": len(numbers), "initializer_range": 0.5}


def save_tokenizer(place, **special):
    tokenizer = Tokenizer(WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if "cls_token" in special:
        ends = [("[CLS]", numbers["[CLS]"]), ("[SEP]", numbers["[SEP]"])]
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=ends
        )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", **special
    ).save_pretrained(place)


torch.manual_seed(0)
like_bert = transformers.BertConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    **sizes,
)
transformers.BertForMaskedLM(like_bert).save_pretrained(folder / "bert")
save_tokenizer(
    folder / "bert",
    pad_token="[PAD]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    mask_token="[MASK]",
    model_max_length=512,
)
like_gpt = transformers.GPT2Config(
    n_embd=32,
    n_layer=2,
    n_head=4,
    bos_token_id=3,
    eos_token_id=3,
    **sizes,
)
torch.manual_seed(73)
transformers.GPT2LMHeadModel(like_gpt).save_pretrained(folder / "gpt")
save_tokenizer(folder / "gpt", eos_token="[SEP]")

# %% do-this
name = folder / "bert"  # in your program, "bert-base-uncased"
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=2)
optimizer = optim.AdamW(model.parameters(), lr=0.00003)


# %% step
def train_on(texts, labels):
    batch = tokenizer(
        texts, padding=True, truncation=True, return_tensors="pt"
    )
    model.train()
    optimizer.zero_grad()
    loss = model(**batch, labels=torch.tensor(labels)).loss
    loss.backward()
    optimizer.step()
    return loss.item()


# %% texts
texts = ["the film was very good", "dull"]
print("loss:", round(train_on(texts, [1, 0]), 2))

# %% tokens
batch = tokenizer(texts, padding=True, return_tensors="pt")

print(tokenizer.convert_ids_to_tokens(batch["input_ids"][1]))
print(batch["input_ids"])
print(batch["attention_mask"])

# %% alone
model.eval()
alone = tokenizer("dull", return_tensors="pt")
with torch.no_grad():
    together = model(**batch).logits[1]
    by_itself = model(**alone).logits[0]
    unmasked = model(input_ids=batch["input_ids"]).logits[1]

print("in the batch:", together)
print("alone:       ", by_itself)
print("no mask:     ", unmasked)

# %% head
model, found = AutoModelForSequenceClassification.from_pretrained(
    name, num_labels=2, output_loading_info=True
)

print("training mode:", model.training)
print("missing:", sorted(found["missing_keys"]))
print("unexpected:", sorted(found["unexpected_keys"]))


# %% lora
class LoRA(nn.Module):
    def __init__(self, linear, rank=4, alpha=8):
        super().__init__()
        self.linear, self.scale = linear, alpha / rank
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, hidden):
        return self.linear(hidden) + self.scale * self.up(self.down(hidden))


# %% add-lora
with torch.no_grad():
    before = model(**batch).logits
plain = deepcopy(model)
model.requires_grad_(False)
for layer in model.bert.encoder.layer:
    attention = layer.attention.self
    attention.query = LoRA(attention.query)
    attention.value = LoRA(attention.value)
model.classifier.requires_grad_(True)  # the head is new
with torch.no_grad():
    after = model(**batch).logits

learning = [p.numel() for p in model.parameters() if p.requires_grad]
print(sum(learning), "of", sum(p.numel() for p in model.parameters()))
print("changed by", (after - before).abs().max().item())

# %% merge
torch.manual_seed(1)
trained = attention.query
nn.init.normal_(trained.up.weight)  # as if it were trained
hidden = torch.rand(3, 32)
with torch.no_grad():
    of_both = trained(hidden)
    product = trained.scale * trained.up.weight @ trained.down.weight
    trained.linear.weight += product
    merged = trained.linear(hidden)

print((merged - of_both).abs().max().item(), "of", merged.std().item())

# %% peft
config = peft.LoraConfig(
    r=4,
    lora_alpha=8,
    target_modules=["query", "value"],
    modules_to_save=["classifier"],
)
wrapped = peft.get_peft_model(plain, config)

wrapped.print_trainable_parameters()
print(next(n for n, p in wrapped.named_parameters() if p.requires_grad))


# %% error-of
def error_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


# %% too-long
# Wrong on purpose: do not copy.
model = AutoModelForSequenceClassification.from_pretrained(name)
long_text = "good " * 1022
tokens = tokenizer(long_text, return_tensors="pt")

print(list(tokens["input_ids"].shape))
print(error_of(model, **tokens))

# %% truncated
tokens = tokenizer(long_text, truncation=True, return_tensors="pt")

print(list(tokens["input_ids"].shape))
print(list(model(**tokens).logits.shape))

# %% windows
windows = tokenizer(
    long_text,
    truncation=True,
    return_overflowing_tokens=True,
    stride=64,  # what neighbors share
    padding=True,
    return_tensors="pt",
)

print(list(windows["input_ids"].shape))

# %% no-padding
# Wrong on purpose: do not copy.
tokenizer = AutoTokenizer.from_pretrained(folder / "gpt")
model = AutoModelForSequenceClassification.from_pretrained(folder / "gpt")
ids = torch.tensor([[7, 8, 9], [10, 11, 12]])

print(error_of(tokenizer, texts, padding=True))
print(error_of(model, input_ids=ids))

# %% padding
tokenizer.pad_token = tokenizer.eos_token
model.config.pad_token_id = tokenizer.pad_token_id
batch = tokenizer(texts, padding=True, return_tensors="pt")

print(list(model(**batch).logits.shape))

# %% collator
# Wrong on purpose: do not copy.
collate = DataCollatorForLanguageModeling(tokenizer, mlm=False)
the_end = {"input_ids": [10, tokenizer.eos_token_id]}  # "good", and the end

print(collate([the_end])["labels"])

# %% own-padding
tokenizer.add_special_tokens({"pad_token": "[PAD]"})
model.config.pad_token_id = tokenizer.pad_token_id
model.resize_token_embeddings(len(tokenizer))

print(collate([the_end])["labels"])


# %% continue-texts
def continue_texts(texts, side):
    tokenizer.padding_side = side
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    tokens = writer.generate(
        **batch,
        max_new_tokens=4,
        do_sample=False,
        pad_token_id=tokenizer.pad_token_id,
    )
    new = tokens[:, batch["input_ids"].shape[1] :]
    return tokenizer.batch_decode(new, skip_special_tokens=True)


# %% generate
writer = AutoModelForCausalLM.from_pretrained(folder / "gpt")
side_to_use = "left"
for side in (side_to_use, "right"):
    print(f"{side:6}", continue_texts(texts, side))
print("alone ", [continue_texts([text], side)[0] for text in texts])

# %% labels
# Wrong on purpose: do not copy.
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=2)
batch = tokenizer(texts, padding=True, return_tensors="pt")
for_tokens = torch.zeros_like(batch["input_ids"])  # a label for each token

print(error_of(model, **batch, labels=for_tokens))
print(error_of(model, **batch, labels=torch.tensor([1, 2])))

# %% token-labels
tagger = AutoModelForTokenClassification.from_pretrained(name, num_labels=2)
for_tokens[batch["attention_mask"] == 0] = -100  # padding has no label

print(tagger(**batch, labels=for_tokens).loss.item())

# %% mismatched
# Wrong on purpose: do not copy.
model.save_pretrained(folder / "tuned")
load = AutoModelForSequenceClassification.from_pretrained

print(error_of(load, folder / "tuned", num_labels=5))

# %% ignored
model = load(folder / "tuned", num_labels=5, ignore_mismatched_sizes=True)

print(model.classifier)

# %% keeps-logits
rows = [{"input_ids": [5, 6, 7, 8]}] * 10
arguments = TrainingArguments(
    folder / "out",
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
    eval_accumulation_steps=4,  # then to the CPU, after 4 batches
)
kept = Trainer(writer, arguments).predict(rows).predictions

print(kept.shape, kept.nbytes, "bytes")

# %% fewer-logits
trainer = Trainer(
    writer,
    arguments,
    preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1),
)
fewer = trainer.predict(rows).predictions

print(fewer.shape, fewer.nbytes, "bytes")

# %% meta
# Wrong on purpose: do not copy.
with torch.device("meta"):  # shapes alone, no numbers
    empty = transformers.GPT2LMHeadModel(like_gpt)

print(error_of(empty.to, "cpu"))

# %% lora-numbers
rank, size = 8, 768
whole, added = size * size, rank * size + size * rank
print(f"{added:,} of {whole:,}")


# %% head-solution
def head_of(model):
    return [name for name, _ in model.named_children()][-1]


# %% head-check
found = {place: load(folder / place) for place in ("bert", "gpt")}
named = {place: head_of(each) for place, each in found.items()}

if named != {"bert": "classifier", "gpt": "score"}:
    print("Not yet: these are the heads that you found:", named)
else:
    print("Right: BERT's head is classifier, and GPT-2's is score")
