"""
Train a classifier, from images to a checkpoint
===============================================

Train a network to read drawn digits, or to tell your own images apart. Stop
and go on when you like, see what it gets wrong, and let it predict the class
of a new image.

The rule: **train on one part of the images, choose the best epoch on a second,
the validation set, and judge it on a third, the test set**.

Download the script, and start it with ``--help`` for all options::

    python train_a_classifier.py
    python train_a_classifier.py --data photos --size 64 --checkpoint cats.pt
    python train_a_classifier.py --checkpoint cats.pt --predict new.jpg

It needs ``torch``, ``matplotlib``, ``pillow``, ``tqdm``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.

DATA = None  # a folder of images, such as photos/cat and photos/dog
SIZE = 20  # pixels: each image becomes so wide and so high
EPOCHS = 5  # how often to go through all training images
BATCH_SIZE = 50
RATE = 0.01  # the learning rate
CHECKPOINT = None  # a file to write after each epoch, and to go on from
PREDICT = None  # new images, whose class the network of the checkpoint tells
SEED = 0

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.
#
# .. _ctrl-c-ends-the-script-with-a-line:
#
# Ctrl-C ends the script with one line.

import argparse
import signal


def stop(*_):
    """End the program."""
    raise SystemExit("stopped: with a checkpoint, start again to go on")


if "__file__" in globals():  # a script, and no notebook
    signal.signal(signal.SIGINT, stop)
    parser = argparse.ArgumentParser(
        description="Train a classifier of images, and keep the best.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--data", metavar="FOLDER", default=DATA, help="images, by class")
    add("--size", type=int, default=SIZE, help="pixels of width and height")
    add("--epochs", type=int, default=EPOCHS, help="times through all images")
    add("--batch-size", type=int, default=BATCH_SIZE, help="images of a step")
    add("--rate", type=float, default=RATE, help="learning rate")
    add("--checkpoint", default=CHECKPOINT, help="file to write and resume")
    add("--predict", nargs="+", default=PREDICT, help="images to classify")
    add("--seed", type=int, default=SEED, help="of all random numbers")
    options = parser.parse_args()
    DATA, SIZE, EPOCHS = options.data, options.size, options.epochs
    BATCH_SIZE, RATE = options.batch_size, options.rate
    CHECKPOINT, SEED = options.checkpoint, options.seed
    PREDICT = options.predict

# %% setup
#
# .. _an-accelerator-is-used-if-there-is-one:
#
# If there is an accelerator, the network and each batch go to it.
#
# :doc:`/models/devices` shows how to choose one.
#
# .. _a-senseless-setting-is-refused:
#
# Epochs, a batch size or a rate that are not above 0, and a size below 4, are
# refused.
#
# .. _a-checkpoint-that-cannot-be-written-is-refused:
#
# So is a checkpoint that cannot be written, before any image is read.

import copy
import random
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont, ImageOps
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

if EPOCHS < 1 or BATCH_SIZE < 1 or not RATE > 0 or SIZE < 4:
    raise SystemExit("epochs, batch size: from 1; rate: above 0; size: from 4")
if PREDICT and not CHECKPOINT:
    raise SystemExit("to predict, name the checkpoint of a trained network")
if CHECKPOINT and not PREDICT:
    partial = Path(f"{CHECKPOINT}.partial")
    try:
        if Path(CHECKPOINT).is_dir():
            raise IsADirectoryError("it is a folder")
        partial.write_bytes(b"tried")
        partial.unlink()
    except OSError as error:
        raise SystemExit(f"cannot write {CHECKPOINT}: {error}") from None

torch.manual_seed(SEED)
available = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if available else "cpu"

# %% pixels
#
# From images to numbers
# ----------------------
#
# Store the images as bytes, equally many for each; see :doc:`/tensors/dtypes`.
#
# .. _each-image-becomes-a-square:
#
# Each image is turned upright as its EXIF data say, and scaled until it fits
# into the square.
#
# .. _the-square-is-padded-with-black:
#
# The rest of the square is black, and what is transparent becomes white.


def pixels_of(image, size=SIZE):
    """Return an image as bytes, (3, size, size)."""
    image = ImageOps.exif_transpose(image).convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    image = Image.alpha_composite(white, image).convert("RGB")
    image = ImageOps.pad(image, (size, size))
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return pixels.view(size, size, 3).permute(2, 0, 1)


# %% opened
#
# .. _a-bad-file-is-named:
#
# A file that cannot be read as an image of 8 bits a channel ends the program,
# with a line that names it.


def opened(path, size=SIZE):
    """Return the pixels of an image file."""
    try:
        with Image.open(path) as image:
            if image.mode[0] in "IF":
                raise ValueError("it has more than 8 bits for each pixel")
            return pixels_of(image, size)
    except Exception as error:
        raise SystemExit(f"cannot read {path}: {error}") from None


# %% network
#
# The network
# -----------
#
# The last layer computes one number for each class, and the largest is the
# answer. See :doc:`/models/evaluation` for what ``momentum`` does, and
# :doc:`/training/fine_tuning` for better networks.


def network(count, size):
    """Return an untrained network for so many classes."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8, momentum=0.5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16, momentum=0.5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * (size // 4) ** 2, count),
    )


# %% predict
#
# Predict a new image
# -------------------
#
# .. _a-new-image-is-predicted-from-the-checkpoint-alone:
#
# With ``--predict``, the script says the class of new images. It needs the
# checkpoint, but neither the data nor the settings of the training.


def predicted(path, saved):
    """Return the class of an image file, and its probability."""
    names, size = saved["settings"]["classes"], saved["settings"]["size"]
    model = network(len(names), size)
    model.load_state_dict(saved["best"]["model"])
    model.eval()
    with torch.no_grad():
        logits = model(opened(path, size).unsqueeze(0) / 255)
    probability, label = logits.softmax(dim=1).max(dim=1)
    return names[label], probability.item()


if PREDICT:
    try:
        saved = torch.load(CHECKPOINT, map_location="cpu")
        saved["best"]["model"], saved["settings"]["classes"]
    except Exception:
        raise SystemExit(f"{CHECKPOINT} is no checkpoint") from None
    for path in PREDICT:
        name, probability = predicted(path, saved)
        print(f"{path}: {name} ({probability:.0%})")
    raise SystemExit(0)

# %% digits
#
# The images
# ----------
#
# .. _each-digit-is-drawn-from-its-number:
#
# Without a folder, the images are digits under noise. Each is drawn with its
# number as the seed, so it is the same in every process.

FONTS = [ImageFont.load_default(size) for size in range(12, 18)]


def drawn(number):
    """Return the pixels of the last digit of a number."""
    generator = torch.Generator().manual_seed(number)
    size, left, top = torch.randint(6, (3,), generator=generator).tolist()
    image = Image.new("L", (20, 20))
    place, digit = (left, top - 2), str(number % 10)
    ImageDraw.Draw(image).text(place, digit, 255, FONTS[size])
    noise = 25 * torch.randn(3, SIZE, SIZE, generator=generator)
    return (pixels_of(image) + noise).clamp(0, 255).byte()


# %% folder
#
# Or give a folder with one subfolder for each class, such as ``photos/cat``
# and ``photos/dog``.
#
# .. _each-image-is-in-one-part:
#
# Of each class, 15 percent of the images, and at least one, are for
# validation, as many for the test, and the others for training. The same seed
# splits the same files in the same way.
#
# .. _a-given-split-is-kept:
#
# If the folder has ``train/`` and ``val/`` or ``test/``, with classes inside,
# the program keeps that split, and takes only a missing part from ``train/``.
#
# .. _what-is-left-out-is-counted:
#
# Files with other endings than ``ENDINGS``, and files deeper inside, are left
# out, and the program says how many. What begins with a dot is ignored.
#
# .. _what-is-missing-is-named:
#
# A folder without two classes, a class with too few images, and parts whose
# classes differ, are refused by name.

ENDINGS = {".avif", ".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png"}
ENDINGS |= {".tif", ".tiff", ".webp"}
PARTS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}


def folders_in(folder):
    """Return the names of the folders in a folder."""
    return sorted(path.name for path in Path(folder).glob("[!.]*/"))


def images_in(folder, least=1):
    """Return the images in a folder, and say what else it has."""
    images, others = [], []
    for path in sorted(folder.rglob("*")):
        names = path.relative_to(folder).parts
        if path.is_file() and not any(name[0] == "." for name in names):
            used = len(names) == 1 and path.suffix.lower() in ENDINGS
            (images if used else others).append(path)
    if others:
        print(f"left out: {len(others)} files such as {others[0]}")
    if len(images) < least:
        raise SystemExit(f"{folder} has {len(images)} images, not {least}")
    return images


def parts_of(folder):
    """Return the folders to train, validate and test; None for a missing."""
    names = folders_in(folder)
    named = [name for name in names if name.lower() in PARTS]
    if len(named) < 2:
        return [Path(folder), None, None]
    split = {PARTS[name.lower()]: Path(folder, name) for name in named}
    if 0 not in split or not len(split) == len(named) == len(names):
        raise SystemExit(f"{folder} needs train, val and test, not {names}")
    return [split.get(part) for part in range(3)]


def found(folder):
    """Return the classes, and the samples to train, validate and test."""
    roots = parts_of(folder)
    classes = folders_in(roots[0])
    for root in filter(None, roots):
        names = folders_in(root)
        if names != classes or len(names) < 2:
            raise SystemExit(f"{root} needs folders of classes, not {names}")
    parts = [], [], []
    for label, name in enumerate(classes):
        own = images_in(roots[0] / name, least=1 + roots.count(None))
        random.Random(SEED).shuffle(own)
        held = max(1, len(own) * 15 // 100)
        for part, root in list(enumerate(roots))[1:]:
            taken = images_in(root / name) if root else own[:held]
            parts[part].extend((path, label) for path in taken)
            own = own if root else own[held:]
        parts[0].extend((path, label) for path in own)
    return classes, parts


# %% data
#
# Each image is read once and kept in memory. For images that do not fit, see
# :doc:`/data/datasets` and :doc:`/data/loading`.


def loaded(samples):
    """Return the images and the classes of samples as a dataset."""
    sources, labels = zip(*samples, strict=True)
    bar = tqdm(sources, desc="reading", leave=False, disable=None)
    images = torch.stack([opened(s) if DATA else drawn(s) for s in bar])
    return TensorDataset(images, torch.tensor(labels))


if DATA:
    classes, parts = found(DATA)
else:
    classes = [str(digit) for digit in range(10)]
    ranges = range(1500), range(10_000, 10_300), range(20_000, 20_300)
    parts = [[(number, number % 10) for number in each] for each in ranges]

training, validation, test = (loaded(part) for part in parts)

print(f"{len(classes)} classes: {', '.join(classes)}")
print(*map(len, parts), "images to train on, to validate and to test")

# %% model
#
# Train
# -----
#
# Here the network begins, with random weights.

model = network(len(classes), SIZE).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

# %% loop
#
# Each batch takes the five lines of :doc:`/training/loop`.


def train_epoch(epoch):
    """Train on each image once; return the mean loss over the images."""
    model.train()
    total, loader = 0.0, DataLoader(training, BATCH_SIZE, shuffle=True)
    bar = tqdm(loader, desc=f"epoch {epoch}", leave=False, disable=None)
    for images, labels in bar:
        optimizer.zero_grad()
        logits = model(images.to(device) / 255)
        loss = F.cross_entropy(logits, labels.to(device))
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(labels)
    return total.item() / len(training)  # waits for the device, once


# %% evaluate
#
# .. _each-image-counts-the-same:
#
# In each epoch, the training takes each of its images once, in another order.
# Both losses are means over the images, even if the last batch is smaller.
#
# .. _evaluating-changes-nothing:
#
# Evaluating changes neither the weights nor the running statistics.


def evaluate(dataset):
    """Return the mean loss over the images, and the logits of each."""
    model.eval()
    loader = DataLoader(dataset, BATCH_SIZE)
    with torch.no_grad():
        batches = [model(images.to(device) / 255) for images, _ in loader]
    logits = torch.cat(batches).cpu()
    return F.cross_entropy(logits, dataset.tensors[1]).item(), logits


# %% save
#
# Stop, and go on
# ---------------
#
# For what belongs into a checkpoint, see :doc:`/models/checkpoints`; to use
# the best model elsewhere, :doc:`/models/loading_weights`.
#
# .. _the-checkpoint-is-replaced-whole:
#
# A program that is interrupted while it writes leaves the old checkpoint as it
# was.

settings = {"size": SIZE, "batch size": BATCH_SIZE, "rate": RATE}
settings |= {"seed": SEED, "classes": classes}
settings["images"] = [Path(str(s)).name for part in parts for s, _ in part]


def save():
    """Write the checkpoint beside the old one, then put it in its place."""
    content = {"model": model.state_dict(), "best": best, "history": history}
    content |= {"optimizer": optimizer.state_dict(), "settings": settings}
    content["random"] = torch.get_rng_state()
    partial = Path(f"{CHECKPOINT}.partial")
    torch.save(content, partial)
    partial.replace(CHECKPOINT)


# %% resume
#
# .. _another-training-is-refused:
#
# A file that is no checkpoint is refused and left as it is. So is one with
# another size, batch size, rate or seed, or other names of classes or images.

weights = copy.deepcopy(model.state_dict())
history, best = [], {"epoch": 0, "loss": float("inf"), "model": weights}

if CHECKPOINT and Path(CHECKPOINT).exists():
    try:
        saved = torch.load(CHECKPOINT, map_location="cpu")
        before = saved["settings"]
        other = [name for name in settings if settings[name] != before[name]]
    except Exception:
        raise SystemExit(f"{CHECKPOINT} is no checkpoint to go on") from None
    if other:
        raise SystemExit(f"{CHECKPOINT} has other {', '.join(other)}")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["random"])
    history, best = saved["history"], saved["best"]
    print(f"goes on after epoch {len(history)}")

# %% train
#
# .. _resuming-changes-nothing:
#
# If the checkpoint exists, the program goes on after its last epoch, and ends
# with the weights and losses of a run never stopped.
#
# .. _the-best-epoch-is-kept:
#
# The report below, and ``best`` in the checkpoint, have the weights of the
# epoch with the lowest validation loss.

for epoch in range(len(history) + 1, EPOCHS + 1):
    train_loss = train_epoch(epoch)
    loss = evaluate(validation)[0]
    history.append((train_loss, loss))
    if loss < best["loss"]:
        weights = copy.deepcopy(model.state_dict())
        best = {"epoch": epoch, "loss": loss, "model": weights}
    if CHECKPOINT:
        save()
    print(f"epoch {epoch}: loss {train_loss:.4f}, validation {loss:.4f}")

# %% report
#
# What it has learned
# -------------------
#
# The best epoch was chosen on the validation set, so judge it on the test set.
#
# .. _the-classifier-reads-nine-of-ten:
#
# The network reads more than 95 percent of the test images, none of which it
# was trained on.

model.load_state_dict(best["model"])
logits = evaluate(test)[1]
truth, answers = test.tensors[1], logits.argmax(dim=1)
right = answers == truth

for label, name in enumerate(classes):
    of_class = right[truth == label]
    print(f"{name}: {of_class.sum()} of {len(of_class)} right")

# %% conclusion
#
# .. _the-conclusion-may-be-bad:
#
# The network has learned if it gets more test images right than always
# answering with the most frequent class of the training, by more than two
# standard deviations.
#
# .. _a-folder-trains:
#
# From 40 dark and 40 light images in several formats, sizes and modes, it
# learns in four epochs to tell nine of ten test images apart.

count, hits = len(truth), right.sum().item()
frequent = training.tensors[1].bincount().argmax()
guessed = (truth == frequent).sum().item()
spread = (guessed * (1 - guessed / count)) ** 0.5
learned = hits > guessed + 2 * spread
conclusion = "has learned" if learned else "has not learned: it may be chance"

print(f"{hits} of {count} test images are right; always answering")
print(f"{classes[frequent]!r} gets {guessed}: the network {conclusion}.")

# %% mistakes
#
# .. _the-worst-mistakes-come-first:
#
# The list of mistakes begins with the one of the highest loss.

losses = F.cross_entropy(logits, truth, reduction="none")
worst = [i for i in losses.argsort(descending=True).tolist() if not right[i]]
mistakes = [
    (parts[2][i][0], classes[truth[i]], classes[answers[i]]) for i in worst
]
for source, name, answer in mistakes[:8]:
    print(f"image {source}: {name!r}, taken for {answer!r}")

# %% picture
#
# If the validation loss rises while the training loss falls, see
# :doc:`/fix/not_learning`. Look at the mistakes, too: perhaps a label is
# wrong.

import matplotlib.pyplot as plt

figure, axes = plt.subplot_mosaic("LLLLLL;012345", layout="constrained")
axis, epochs = axes.pop("L"), range(1, len(history) + 1)
trained, validated = zip(*history, strict=True)
axis.plot(epochs, trained, "o-", color="#0072B2", label="training")
axis.plot(epochs, validated, "s--", color="#D55E00", label="validation")
axis.axvline(best["epoch"], color="#009E73", linestyle=":", label="best")
axis.set(yscale="log", xlabel="epoch", ylabel="loss")
axis.legend()
for axis in axes.values():
    axis.set_axis_off()
for axis, i, mistake in zip(axes.values(), worst, mistakes, strict=False):
    axis.imshow(test[i][0].permute(1, 2, 0))
    axis.set_title(f"{mistake[1]}\nread as {mistake[2]}")
figure.suptitle("The loss of each epoch, and the worst mistakes")
plt.show()
