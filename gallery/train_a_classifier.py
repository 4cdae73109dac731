"""
Train a classifier, from images to a checkpoint
===============================================

Train a network to read drawn digits, or to tell the images in a folder of
yours apart; stop and go on when you like; and see what it gets wrong.

The rule: **train on one part of the images, choose the best epoch on a second,
and judge it on a third**.

Download the script and start it with ``--help`` for all that it can do::

    python train_a_classifier.py
    python train_a_classifier.py --data photos --size 64 --epochs 20
    python train_a_classifier.py --checkpoint digits.pt

It needs ``torch``, ``matplotlib``, ``pillow``, ``tqdm``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.

DATA = None  # a folder with one subfolder of images for each class
SIZE = 20  # pixels: each image becomes so wide and so high
EPOCHS = 5  # how often to go through all training images
BATCH_SIZE = 50
RATE = 0.01  # the learning rate
CHECKPOINT = None  # a file to write after each epoch, and to go on from
SEED = 0

# %% options
#
# .. _each-argument-sets-its-constant:
#
# As a script, each argument sets the constant of its name, and what is not
# given stays as it is above.

import argparse

if "__file__" in globals():  # a script, and no notebook
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
    add("--seed", type=int, default=SEED, help="of all random numbers")
    options = parser.parse_args()
    DATA, SIZE, EPOCHS = options.data, options.size, options.epochs
    BATCH_SIZE, RATE = options.batch_size, options.rate
    CHECKPOINT, SEED = options.checkpoint, options.seed

# %% setup
#
# .. _an-accelerator-is-used-if-there-is-one:
#
# If there is an accelerator, the network and the images of each batch go to
# it, and in the training their labels.
#
# :doc:`/models/devices` shows how to choose one.
#
# .. _a-senseless-setting-is-refused:
#
# The program stops with a line if the number of epochs, the batch size or the
# rate is not above 0, the size is below 4, or there is no folder for the
# checkpoint.

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
if CHECKPOINT and not Path(CHECKPOINT).parent.is_dir():
    raise SystemExit(f"there is no folder for {CHECKPOINT}")

torch.manual_seed(SEED)
available = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if available else "cpu"

# %% pixels
#
# From images to numbers
# ----------------------
#
# A network wants as many numbers for each image. They are kept as bytes, which
# take a quarter of the memory of a ``float32``; see :doc:`/tensors/dtypes`.
#
# .. _each-image-becomes-a-square:
#
# Each image is turned upright as its EXIF data say, scaled until it fits into
# the square, and padded with black at both sides. Transparent becomes white.


def pixels_of(image):
    """Return an image as bytes, (3, SIZE, SIZE)."""
    image = ImageOps.exif_transpose(image).convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    image = Image.alpha_composite(white, image).convert("RGB")
    image = ImageOps.pad(image, (SIZE, SIZE))
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return pixels.view(SIZE, SIZE, 3).permute(2, 0, 1)


# %% digits
#
# .. _each-digit-is-drawn-from-its-number:
#
# Without a folder of yours, the images are digits under noise. Each is drawn
# with its number as the seed, and so, in one environment and one size, the
# same in every process.

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
# and ``photos/dog``. What begins with a dot is left out.
#
# .. _each-image-is-in-one-part:
#
# Each file right in a subfolder, with an ending of ``ENDINGS``, comes into one
# of three parts. Of each class, 15 percent of the images, rounded down and at
# least one, are for validation, as many for the test, the others for training.
# The same seed splits the same files in the same way.
#
# .. _what-is-missing-is-named:
#
# A folder that is not there or has fewer than two subfolders, and a class with
# fewer than three images, are refused by name. So is a folder with two of
# ``PARTS``, which would pass for classes: put their images together first.

ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}
PARTS = {"train", "val", "valid", "validation", "test"}


def found(folder):
    """Return the classes, and the samples to train, validate and test."""
    roots = sorted(Path(folder).glob("[!.]*/"))
    classes = [root.name for root in roots]
    if len(classes) < 2 or len(PARTS & {name.lower() for name in classes}) > 1:
        raise SystemExit(f"{folder} needs folders of classes, not {classes}")
    parts = [], [], []
    for label, root in enumerate(roots):
        own = sorted(root.glob("[!.]*"))
        own = [path for path in own if path.suffix.lower() in ENDINGS]
        if len(own) < 3:
            raise SystemExit(f"{root} has {len(own)} images: it needs 3")
        random.Random(SEED).shuffle(own)
        held = max(1, len(own) * 15 // 100)
        cuts = own[2 * held :], own[:held], own[held : 2 * held]
        for part, paths in zip(parts, cuts, strict=True):
            part.extend((path, label) for path in paths)
    return classes, parts


# %% opened
#
# .. _a-bad-file-is-named:
#
# If a file lacks some of its pixels, is no image, or is a gray one with 16 or
# 32 bits for each pixel, the program stops with a line that names the file.


def opened(path):
    """Return the pixels of an image file."""
    try:
        with Image.open(path) as image:
            if image.mode[0] in "IF":
                raise ValueError("it has more than 8 bits for each pixel")
            return pixels_of(image)
    except Exception as error:
        raise SystemExit(f"cannot read {path}: {error}") from None


# %% data
#
# Small images fit into memory, so each is read once and kept. For images that
# do not fit, see :doc:`/data/datasets` and :doc:`/data/loading`.


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
# The network
# -----------
#
# Two convolutions look for strokes and corners, wherever they are. Each
# pooling halves width and height. The last layer gives one number for each
# class, and the largest is the answer. A small folder has few batches, so a
# high ``momentum`` lets the averages of ``BatchNorm2d`` follow each; see
# :doc:`/models/evaluation`. For better networks: :doc:`/training/fine_tuning`.

model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.BatchNorm2d(8, momentum=0.5),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1),
    nn.BatchNorm2d(16, momentum=0.5),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(16 * (SIZE // 4) ** 2, len(classes)),
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

# %% loop
#
# The loop
# --------
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
        total += loss.item() * len(labels)
    return total / len(training)


# %% evaluate
#
# .. _each-image-counts-the-same:
#
# In each epoch, the training takes each of its images once, in another order.
# Both losses are means over the images, though the last batch may be smaller,
# and evaluating changes neither the weights nor the averages of the network.


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
# A checkpoint holds all that the next epoch depends on;
# :doc:`/models/checkpoints` shows what happens if a part is missing. The best
# model is in it, too; to use it elsewhere, see :doc:`/models/loading_weights`.
#
# .. _the-checkpoint-is-replaced-whole:
#
# A program that is interrupted while it writes leaves the old checkpoint as it
# was, because the new one is written beside it and then takes its place.

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
# If the checkpoint exists, the program goes on after its last epoch.
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
# Train, and keep the best
# ------------------------
#
# .. _resuming-changes-nothing:
#
# A training that is stopped, be it in the middle of an epoch, and goes on in a
# new process, ends with exactly the weights, the losses and the best model of
# the one that was not stopped, on a CPU and with as many threads. So does one
# that has ended and goes on to more epochs.
#
# .. _the-best-epoch-is-kept:
#
# The report below, and ``best`` in the checkpoint, have the weights of the
# epoch with the lowest validation loss, though later ones may follow.

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
# The best epoch was chosen by the validation images, so it fits them a little
# too well. That is why other images, for the test, judge the network.
#
# .. _the-classifier-reads-nine-of-ten:
#
# With the settings above, the network reads more than 95 percent of the test
# images, none of which it was trained on.

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
# The conclusion says that the network has learned if it gets more test images
# right than always answering with the most frequent class of the training, by
# more than two standard deviations of that guess. If not, it says so.
#
# .. _a-folder-trains:
#
# From a folder of 40 dark and 40 light images in several formats, sizes and
# modes, the network learns in four epochs to tell nine of ten test images
# apart, and the conclusion says that it has learned.

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
# The list of mistakes holds the wrong answers only, that of the highest loss
# first, each with its image, its class and what it was taken for.

losses = F.cross_entropy(logits, truth, reduction="none")
worst = [i for i in losses.argsort(descending=True).tolist() if not right[i]]
mistakes = [
    (parts[2][i][0], classes[truth[i]], classes[answers[i]]) for i in worst
]
for source, name, answer in mistakes[:8]:
    print(f"image {source}: {name!r}, taken for {answer!r}")

# %% picture
#
# If the loss on the validation images rises while the other falls, the network
# learns by heart. Look at the mistakes: perhaps it is the image that is wrong.

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
