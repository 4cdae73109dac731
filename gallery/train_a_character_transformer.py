"""
Train a character transformer
=============================

Train a small language model on a text of yours. Stop and go on when you like,
see how much better it is than counting letter pairs (bigrams), and let it
write.

The rule: **validate on text that the training never saw, and compare with a
baseline that anybody can count**.

Download the script, and start it with ``--help`` for all options::

    python train_a_character_transformer.py --checkpoint help.pt
    python train_a_character_transformer.py --checkpoint help.pt --resume
    python train_a_character_transformer.py --checkpoint help.pt --sample "If "

It needs ``torch``, ``matplotlib``.
:doc:`/sequences/transformer` explains the parts: positions, the causal mask,
shifted targets, and the cache.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.

TEXT = None  # a file to learn from; without one, Python's own help
STEPS = 300
BATCH_SIZE = 16  # pieces of the text in a step
CONTEXT = 32  # how many letters the model reads at once
WIDTH = 64  # numbers for each letter, a multiple of 4
LAYERS = 2
DROPOUT = 0.1
RATE = 0.01  # the highest learning rate
EVERY = 50  # steps from one validation to the next
CHECKPOINT = None  # a file to write after each validation
RESUME = False  # go on from the checkpoint
SAMPLE = None  # the start of a text that the model of the checkpoint continues
LETTERS = 300  # how many letters it writes
TEMPERATURE = 0.8
TOP_K = None  # draw from so many of the likeliest letters
SEED = 0

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.

import argparse

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="Train a character transformer, and let it write.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--text", metavar="FILE", default=TEXT, help="to learn from, UTF-8")
    add("--steps", type=int, default=STEPS, help="of the training")
    add("--batch-size", type=int, default=BATCH_SIZE, help="pieces of a step")
    add("--context", type=int, default=CONTEXT, help="letters of a piece")
    add("--width", type=int, default=WIDTH, help="numbers for each letter")
    add("--layers", type=int, default=LAYERS, help="of the model")
    add("--dropout", type=float, default=DROPOUT, help="share to leave out")
    add("--rate", type=float, default=RATE, help="highest learning rate")
    add("--every", type=int, default=EVERY, help="steps, then validate")
    add("--checkpoint", metavar="FILE", default=CHECKPOINT, help="to write")
    add("--resume", action="store_true", default=RESUME, help="go on")
    add("--sample", metavar="START", default=SAMPLE, help="text to continue")
    add("--letters", type=int, default=LETTERS, help="how many to write")
    add("--temperature", type=float, default=TEMPERATURE, help="of drawing")
    add("--top-k", type=int, default=TOP_K, help="letters to draw from")
    add("--seed", type=int, default=SEED, help="of all random numbers")
    for name, value in vars(parser.parse_args()).items():
        globals()[name.upper()] = value

# %% setup

import hashlib
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

counts = STEPS, BATCH_SIZE, LAYERS, EVERY, LETTERS, TOP_K or 1
if min(counts) < 1 or CONTEXT < 2:
    raise SystemExit("counts start at 1, and the context at 2")
if not 0 <= DROPOUT < 1:
    raise SystemExit("dropout: from 0 to below 1")
if WIDTH < 4 or WIDTH % 4 or not (RATE > 0 and TEMPERATURE > 0):
    raise SystemExit("width: a multiple of 4; rate, temperature: above 0")
if (RESUME or SAMPLE is not None) and not CHECKPOINT:
    raise SystemExit("name the --checkpoint to resume or to write with")

torch.manual_seed(SEED)
available = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if available else "cpu"

# %% encode
#
# Letters and numbers
# -------------------
#
# The vocabulary is a text of all letters that the model knows; the number of a
# letter is its place there. It goes into the checkpoint.
#
# .. _an-unknown-letter-is-named:
#
# A letter that the vocabulary lacks raises an error with the letter and its
# place.


def encode(text, letters):
    """Return the number of each letter."""
    code_of = {letter: code for code, letter in enumerate(letters)}
    for place, letter in enumerate(text):
        if letter not in code_of:
            raise ValueError(f"unknown letter {letter!r} at {place}")
    return torch.tensor([code_of[letter] for letter in text])


# %% block
#
# The model
# ---------
#
# ``is_causal=True`` hides from each letter those that come later, but it
# counts from the first key. After a cache, that would hide the wrong ones. So
# once the cache holds letters, give the model one at a time: it needs no mask.


class Block(nn.Module):
    """Attention to the letters so far, then two layers for each."""

    def __init__(self, width, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.work = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, cache):
        """Return the next vectors; add keys and values to the cache."""
        query, key, value = (
            part.unflatten(-1, (4, -1)).transpose(1, 2)  # four heads
            for part in self.project(self.norm1(x)).chunk(3, dim=-1)
        )
        if cache is not None:
            if self in cache:
                key = torch.cat([cache[self][0], key], dim=2)
                value = torch.cat([cache[self][1], value], dim=2)
            cache[self] = key, value
        mixed = F.scaled_dot_product_attention(
            query, key, value, is_causal=query.shape[2] > 1
        )
        x = x + self.dropout(self.join(mixed.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.work(self.norm2(x)))


# %% model


class CharacterModel(nn.Module):
    """Scores for the letter that follows each letter."""

    def __init__(self, letters, context, width, layers, dropout):
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.position = nn.Embedding(context, width)
        blocks = [Block(width, dropout) for _ in range(layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(width, letters)

    def forward(self, codes, first=0, cache=None):
        """Return scores; ``first`` is the position of the first letter."""
        places = torch.arange(codes.shape[1], device=codes.device) + first
        x = self.letter(codes) + self.position(places)
        for block in self.blocks:
            x = block(x, cache)
        return self.score(self.norm(x))


# %% write
#
# Write
# -----
#
# .. _the-cache-gives-the-same-letters:
#
# The cache changes no letter, even if the text grows longer than the context.
#
# When the context is full, ``write`` starts a new cache from its last half.
# Each new letter gets its own position, ``first``: without it, you see no
# error, but other letters.
#
# .. _one-seed-writes-one-text:
#
# One seed writes one text, and changes no other random number.
#
# That takes a generator for the letters alone, and ``eval()``, which switches
# dropout off.
#
# .. _only-the-k-likeliest-are-drawn:
#
# With ``top_k``, only so many of the likeliest letters can be drawn.


def draw(scores, temperature, top_k, generator):
    """Return the number of a letter that is drawn by its score."""
    best, codes = scores.topk(min(top_k or len(scores), len(scores)))
    chances = (best / temperature).softmax(dim=0)
    return codes[torch.multinomial(chances, 1, generator=generator)]


@torch.no_grad()
def write(model, codes, count, cached=True, seed=SEED):
    """Return the numbers of a text and of the letters that follow."""
    training = model.training
    model.eval()
    context = model.position.num_embeddings
    generator = torch.Generator().manual_seed(seed)
    start, first, cache = max(0, len(codes) - context), 0, {}
    for _ in range(count):
        if len(codes) - start > context:
            start, first, cache = len(codes) - context // 2, 0, {}
        new = codes[start + first :].unsqueeze(0).to(device)
        scores = model(new, first, cache if cached else None)[0, -1].cpu()
        first += new.shape[1] if cached else 0
        letter = draw(scores, TEMPERATURE, TOP_K, generator)
        codes = torch.cat([codes, letter])
    model.train(training)
    return codes


# %% sample
#
# .. _the-checkpoint-alone-writes:
#
# To continue a text with ``--sample``, the script needs the checkpoint alone.
#
# The vocabulary and the shape of the model are in there.

if SAMPLE is not None:
    try:
        saved = torch.load(CHECKPOINT, map_location="cpu")
        letters, shape = saved["letters"], saved["shape"]
        model = CharacterModel(**shape).to(device)
        model.load_state_dict(saved["model"])
    except Exception:
        raise SystemExit(f"{CHECKPOINT} is no checkpoint") from None
    try:
        start = encode(SAMPLE or "\n", letters)
    except ValueError as error:
        raise SystemExit(f"{error} of --sample") from None
    written = write(model, start, LETTERS)
    print("".join(letters[code] for code in written))
    raise SystemExit(0)

# %% text
#
# Split the text without a leak
# -----------------------------
#
# The last tenth of the text is for validation. That alone is not enough,
# because many texts say things twice. In Python's help, for example, the
# chapter on compound statements repeats those on ``if``, ``for`` and
# ``while``. So keep each paragraph once.


def split(text):
    """Return the text for training, and the text for validation."""
    cut = len(text) * 9 // 10
    return text[:cut], text[cut:]


if TEXT:
    try:
        raw = Path(TEXT).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise SystemExit(f"cannot read {TEXT}: {error}") from None
else:
    from pydoc_data.topics import topics

    raw = "\n\n".join(topics[name] for name in sorted(topics))

paragraphs = [part.strip("\n") for part in raw.split("\n\n")]
text = "\n\n".join(dict.fromkeys(paragraphs))
train_text, valid_text = split(text)

# %% leak
#
# To see what leaks, take about 1,000 passages of 60 letters from the end, and
# look for them in the training text.
#
# .. _repeats-leak-into-the-end:
#
# In the help as it is, more than 5 percent of the passages leak; with each
# paragraph once, fewer than 3.


def leaked(training, validation, length=60):
    """Return the share of passages that also stand in the training text."""
    apart = max(1, len(validation) // 1000)
    places = range(0, len(validation) - length + 1, apart)
    found = [validation[at : at + length] in training for at in places]
    return sum(found) / max(1, len(found))


as_it_is, without_repeats = leaked(*split(raw)), leaked(train_text, valid_text)
print(f"passages in both, text as it is: {as_it_is:.1%}")
print(f"with each paragraph once: {without_repeats:.1%}")

# %% codes

letters = "".join(sorted(set(text)))
train = encode(train_text, letters)
valid = encode(valid_text, letters)
if len(valid) <= CONTEXT:
    raise SystemExit(f"{len(text)} letters are too few for this context")

# %% baselines
#
# Baselines, in bits
# ------------------
#
# Divide the loss by log 2, and you get bits: the yes-or-no questions that a
# letter costs. A blind guess among 64 letters costs 6, because 2 to the power
# of 6 is 64.
#
# The second baseline counts which letter follows which in the training text.

uniform = math.log2(len(letters))

size = len(letters)
pairs = (train[:-1] * size + train[1:]).bincount(minlength=size * size)
pairs = pairs.view(size, size) + 0.1  # so that no pair is impossible
chances = pairs / pairs.sum(dim=1, keepdim=True)
counted = -chances[valid[:-1], valid[1:]].log2().mean().item()
print(f"a blind guess: {uniform:.2f} bits, letter pairs: {counted:.2f}")

# %% loss
#
# Train
# -----


def draw_pieces(codes):
    """Return pieces of a text, with one letter more than the context."""
    starts = torch.randint(len(codes) - CONTEXT, (BATCH_SIZE, 1))
    return codes[starts + torch.arange(CONTEXT + 1)].to(device)


def loss_of(model, pieces):
    """Return the loss, where the target is the next letter."""
    scores = model(pieces[:, :-1])
    return F.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())


# %% evaluate
#
# Validation takes the same pieces each time, and no dropout.


@torch.no_grad()
def bits_of(model, codes):
    """Return the loss in bits over up to 200 pieces of a text."""
    training = model.training
    model.eval()
    pieces = codes.unfold(0, CONTEXT + 1, CONTEXT)
    pieces = pieces[:: -(-len(pieces) // 200)].to(device)
    loss = loss_of(model, pieces).item()
    model.train(training)
    return loss / math.log(2)


# %% step
#
# .. _the-rate-rises-and-falls:
#
# The rate rises for a tenth of the steps, then falls along a cosine.
#
# It depends on the number of the step alone, and so do the random numbers. So
# neither needs a place in the checkpoint. For other schedules, see
# :doc:`/gallery/learning_rate_schedules`.


def rate_at(step):
    """Return the learning rate of a step."""
    warm = (step + 1) / max(1, STEPS // 10)
    falling = 0.55 + 0.45 * math.cos(math.pi * step / STEPS)  # 1 to 0.1
    return RATE * min(warm, falling)


def train_step(model, optimizer, step, loss_of=loss_of, codes=train):
    """Train on one batch; return the loss in bits."""
    torch.manual_seed(1_000_000 * SEED + step)
    optimizer.param_groups[0]["lr"] = rate_at(step)
    loss = loss_of(model, draw_pieces(codes))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item() / math.log(2)


# %% begin

shape = {"letters": len(letters), "context": CONTEXT, "width": WIDTH}
shape |= {"layers": LAYERS, "dropout": DROPOUT}
settings = {"steps": STEPS, "batch size": BATCH_SIZE, "rate": RATE}
settings |= {"seed": SEED, "shape": shape}
settings["text"] = hashlib.sha256(text.encode()).hexdigest()


def begin(**changes):
    """Return a model with random weights, and its optimizer."""
    torch.manual_seed(SEED)
    model = CharacterModel(**shape | changes).to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=RATE)


# %% resume
#
# Stop, and go on
# ---------------
#
# With ``--checkpoint``, press Ctrl-C when you like: only the steps since the
# last validation are lost. What belongs in a checkpoint:
# :doc:`/models/checkpoints`.
#
# .. _resuming-changes-nothing:
#
# With ``--resume``, the weights and losses end up exactly as without the stop.
#
# .. _another-training-is-refused:
#
# The script refuses a checkpoint of another training or text, and an existing
# file without ``--resume``.

model, optimizer = begin()
history = []  # of each validation: the step, and both losses in bits

if RESUME:
    try:
        saved = torch.load(CHECKPOINT, map_location="cpu")
        before = saved["settings"]
        other = [name for name in settings if settings[name] != before[name]]
    except Exception:
        raise SystemExit(f"{CHECKPOINT} is no checkpoint") from None
    if other:
        raise SystemExit(f"{CHECKPOINT} has other {', '.join(other)}")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    history = saved["history"]
elif CHECKPOINT and Path(CHECKPOINT).exists():
    raise SystemExit(f"{CHECKPOINT} exists: go on with --resume")


def save():
    """Write the checkpoint beside the old one, then put it in its place."""
    content = {"model": model.state_dict(), "history": history}
    content |= {"optimizer": optimizer.state_dict(), "settings": settings}
    content |= {"letters": letters, "shape": shape}
    torch.save(content, f"{CHECKPOINT}.partial")
    Path(f"{CHECKPOINT}.partial").replace(CHECKPOINT)


# %% train
#
# .. _the-model-beats-letter-pairs:
#
# After 300 steps, the model beats letter pairs by at least 0.2 bits a letter.

losses = []
for step in range(history[-1][0] if history else 0, STEPS):
    losses.append(train_step(model, optimizer, step))
    if (step + 1) % EVERY == 0 or step + 1 == STEPS:
        trained, bits = sum(losses) / len(losses), bits_of(model, valid)
        losses = []
        history.append((step + 1, trained, bits))
        if CHECKPOINT:
            save()
        print(f"step {step + 1}: {trained:.2f} bits, validation {bits:.2f}")

# %% report
#
# What it writes
# --------------
#
# CPUs round differently, and hundreds of steps make that large, so your text
# may differ from ours. Read it with ``--sample``. Here, it only has to be the
# same with and without the cache.

written = write(model, valid[:CONTEXT], LETTERS)
again = write(model, valid[:CONTEXT], LETTERS, cached=False)
equal = (written == again)[CONTEXT:].sum().item()
print(f"with and without the cache: {equal} of {LETTERS} letters are equal")

# %% picture
#
# The training loss is a mean over the last ``EVERY`` steps, with dropout. If
# the validation loss rises while it falls, the text is too short, or the model
# too large; see :doc:`/fix/not_learning`.

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
steps, trained, validated = zip(*history, strict=True)
axis.axhline(uniform, color="gray", linestyle=":", label="a blind guess")
axis.axhline(counted, color="gray", linestyle="-.", label="letter pairs")
axis.plot(steps, trained, "o-", color="#0072B2", label="training")
axis.plot(steps, validated, "s--", color="#D55E00", label="validation")
axis.set(xlabel="step", ylabel="bits a letter", ylim=(0, None))
axis.set_title("Bits a letter, beside two baselines")
axis.legend()
plt.show()

# %% end
#
# What goes wrong
# ---------------
#
# A script ends here; the cells below do things wrong on purpose. The first
# error is loud, a letter that the model does not know. The others are silent.

if "__file__" in globals():
    raise SystemExit(0)

# %% unknown

try:
    encode("naïve", "aenv")
except ValueError as error:
    print(error)

# %% not-shifted
#
# .. _unshifted-targets-look-perfect:
#
# Without shifted targets, the loss falls below 0.5 bits in 60 steps, and the
# next letter costs more than a blind guess.
#
# :doc:`/sequences/transformer` shows what such a model writes.


# Wrong on purpose: do not copy.
def copying_loss(model, pieces):
    """Return the loss, where the target is the letter itself."""
    scores = model(pieces[:, :-1])
    return F.cross_entropy(scores.flatten(0, 1), pieces[:, :-1].flatten())


copier, its_optimizer = begin()
for step in range(60):
    copied = train_step(copier, its_optimizer, step, copying_loss)
missed = bits_of(copier, valid)
print(f"not shifted: {copied:.2f} bits, on the next letter {missed:.2f}")

# %% overlap
#
# .. _overlapping-pieces-hide-memorizing:
#
# If pieces for validation overlap those of the training, they cost this model
# less than half the bits of other text.
#
# It has learned 500 letters by heart. You get such pieces if you cut a text
# into pieces that overlap, shuffle them, and take some for validation.

# Wrong on purpose: do not copy.
little = train[:500]
learner, its_optimizer = begin(dropout=0.0)
for step in range(60):
    train_step(learner, its_optimizer, step, codes=little)
overlapping, honest = bits_of(learner, little[5:]), bits_of(learner, valid)
print(f"overlapping pieces: {overlapping:.2f} bits, other text: {honest:.2f}")

# %% after-softmax
#
# .. _a-temperature-after-softmax-does-nothing:
#
# A temperature after the softmax changes no letter, because
# ``torch.multinomial`` scales the chances again.

with torch.no_grad():
    scores = model.eval()(valid[None, :CONTEXT].to(device))[0, -1].cpu()


def draw_1000(chances):
    """Return 1,000 letters that are drawn with some chances."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.multinomial(chances, 1000, True, generator=generator)


before = [draw_1000((scores / t).softmax(dim=0)) for t in (0.25, 1, 4)]
after = [draw_1000(scores.softmax(dim=0) / t) for t in (0.25, 1, 4)]
print("different letters, before:", [len(each.unique()) for each in before])
print("after the softmax:", [len(each.unique()) for each in after])
