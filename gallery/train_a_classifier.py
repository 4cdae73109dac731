"""
Train a classifier, from images to a checkpoint
===============================================

Train a network to read drawn digits, or to tell the images in a folder of
yours apart; stop and go on when you like; and see what it gets wrong.

The rule: **train on one part of the images, choose the best epoch on a second,
and judge it on a third**.

Download the script and start it with ``--help`` for all that it can do::

    python train_a_classifier.py
    python train_a_classifier.py --data photos --size 64 --color --epochs 20
    python train_a_classifier.py --checkpoint digits.pt
    python train_a_classifier.py --checkpoint digits.pt --resume

It needs ``torch``, ``matplotlib``, ``pillow``, ``tqdm``.
"""

# %% settings
#
# Settings
# --------
#
# In the notebook, change these lines. As a script, leave them and give
# arguments instead.

DATA = None  # a folder with one subfolder of images for each class
SIZE = 20  # pixels: each image becomes so wide and so high
COLOR = False  # keep the colors, or shades of gray only
EPOCHS = 5  # how often to go through all training images
BATCH_SIZE = 50
RATE = 0.01  # the highest learning rate
CHECKPOINT = None  # a file to write after each epoch
RESUME = False  # go on from that file if there is one
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
    add("--color", action="store_true", default=COLOR, help="keep the colors")
    add("--epochs", type=int, default=EPOCHS, help="times through all images")
    add("--batch-size", type=int, default=BATCH_SIZE, help="images of a step")
    add("--rate", type=float, default=RATE, help="highest learning rate")
    add("--checkpoint", metavar="FILE", default=CHECKPOINT, help="to write")
    add("--resume", action="store_true", default=RESUME, help="go on from it")
    add("--seed", type=int, default=SEED, help="of all random numbers")
    options = parser.parse_args()
    DATA, SIZE, COLOR = options.data, options.size, options.color
    EPOCHS, BATCH_SIZE = options.epochs, options.batch_size
    RATE, SEED = options.rate, options.seed
    CHECKPOINT, RESUME = options.checkpoint, options.resume

# %% setup
#
# The program uses an accelerator if there is one, and the CPU otherwise; see
# :doc:`/models/devices`.
#
# .. _a-checkpoint-is-not-overwritten:
#
# If the checkpoint exists and you did not ask to resume, the program stops
# with a line that names the file, and leaves the file as it is.
#
# .. _a-senseless-setting-is-refused:
#
# It also stops if the number of epochs or the batch size is below 1, the rate
# is not above 0, the size is below 4, or it is to resume without a checkpoint.

import copy
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont, ImageOps
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

if EPOCHS < 1 or BATCH_SIZE < 1 or RATE <= 0 or SIZE < 4:
    raise SystemExit("epochs, batch size: from 1; rate: above 0; size: from 4")
if RESUME and not CHECKPOINT:
    raise SystemExit("--resume needs the file: --checkpoint FILE")
if CHECKPOINT and not RESUME and Path(CHECKPOINT).exists():
    raise SystemExit(f"{CHECKPOINT} exists: --resume, or name another file")

torch.manual_seed(SEED)
device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)
on_cuda = device.type == "cuda"

# %% pixels
#
# From images to numbers
# ----------------------
#
# A network wants numbers, as many for each image. A byte for each is enough, 0
# for black and 255 for white, and takes a quarter of the memory of a
# ``float32``; see :doc:`/tensors/dtypes`.
#
# .. _each-image-becomes-a-square:
#
# Each image is turned upright as its EXIF data say, scaled until it fits into
# the square, and padded with black at both sides. What is transparent becomes
# white.


def pixels_of(image):
    """Return an image as bytes, (channels, SIZE, SIZE)."""
    image = ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    image = image.convert("RGB" if COLOR else "L")
    image = ImageOps.pad(image, (SIZE, SIZE))
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return pixels.view(SIZE, SIZE, -1).permute(2, 0, 1)


# %% digits
#
# Images that are drawn
# ~~~~~~~~~~~~~~~~~~~~~
#
# Without a folder of yours, the images are digits of some size, at some place,
# under some noise. A generator with the number of the image as its seed draws
# it, so that it is the same in every process.

FONTS = [ImageFont.load_default(size) for size in range(12, 18)]


def drawn(number):
    """Return the pixels of the last digit of a number."""
    generator = torch.Generator().manual_seed(number)
    size, left, top = torch.randint(6, (3,), generator=generator).tolist()
    image = Image.new("L", (20, 20))
    ImageDraw.Draw(image).text(
        (left, top - 2), str(number % 10), 255, FONTS[size]
    )
    ink = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    noisy = ink + 25 * torch.randn(400, generator=generator)
    noisy = noisy.clamp(0, 255).byte()
    return pixels_of(Image.frombytes("L", (20, 20), bytes(noisy.tolist())))


# %% folder
#
# Images of yours
# ~~~~~~~~~~~~~~~
#
# Give a folder with one subfolder for each class, such as ``photos/cat`` and
# ``photos/dog``. The program splits their images at random. If you have split
# them already, give a folder with the subfolders ``train`` and ``val``, and
# perhaps ``test``, each with one subfolder for each class.
#
# .. _each-image-is-in-one-part:
#
# Of a folder without ``train`` and ``val``, each file with an ending of an
# image comes into exactly one of three parts, unless its name, or that of a
# folder below yours, begins with a dot. Of each class, 15 percent of the
# images, rounded down and at least one, are for validation, as many for the
# test, and the others for training.
#
# .. _the-seed-decides-the-split:
#
# The same seed splits the same files in the same way, and of two classes of 20
# images, ten other seeds each make another split.
#
# .. _a-split-of-yours-is-kept:
#
# With ``train`` and ``val``, the program keeps these parts. Without ``test``,
# it tests on ``val``.
#
# .. _what-is-missing-is-named:
#
# No folder, one with fewer than two subfolders, a class with fewer than three
# images, and, in a split of yours, a part with other classes or without an
# image of one of them are refused, with a line that names the folder or the
# class. So is a folder with nothing but ``test`` and either ``train`` or
# ``val``: these would pass for classes.

ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}


def classes_in(folder):
    """Return the names of the subfolders, in order."""
    if not Path(folder).is_dir():
        raise SystemExit(f"{folder} is no folder")
    names = [each.name for each in Path(folder).iterdir() if each.is_dir()]
    names = sorted(name for name in names if not name.startswith("."))
    if len(names) < 2:
        raise SystemExit(f"{folder} needs a subfolder for each of two classes")
    return names


def images_in(folder, classes):
    """Return each image below a folder, with the number of its class."""
    if (own := classes_in(folder)) != classes:
        raise SystemExit(f"{folder} has the classes {own}, not {classes}")
    found = []
    for label, name in enumerate(classes):
        for path in sorted(Path(folder, name).rglob("*")):
            names = path.relative_to(folder).parts
            hidden = any(name.startswith(".") for name in names)
            if path.suffix.lower() in ENDINGS and not hidden:
                found.append((path, label))
    return found


def split(samples, classes):
    """Return 70, 15 and 15 percent of each class, at random."""
    generator = torch.Generator().manual_seed(SEED)
    parts = [], [], []
    for label, name in enumerate(classes):
        own = [each for each in samples if each[1] == label]
        if len(own) < 3:
            raise SystemExit(f"{name!r} has {len(own)} images: it needs 3")
        order = torch.randperm(len(own), generator=generator).tolist()
        held = max(1, len(own) * 15 // 100)
        for place, chosen in enumerate(order):
            part = parts[1 + place // held] if place < 2 * held else parts[0]
            part.append(own[chosen])
    return parts


def find(folder):
    """Return the classes, and the samples to train, validate and test."""
    names = classes_in(folder)
    if names in (["test", "train"], ["test", "val"]):
        raise SystemExit(f"{folder} has {names}: it needs train and val")
    if not {"train", "val"} <= set(names):
        return names, split(images_in(folder, names), names)
    classes = classes_in(Path(folder, "train"))
    last = "test" if "test" in names else "val"
    parts = [
        images_in(Path(folder, part), classes)
        for part in ("train", "val", last)
    ]
    for part, samples in zip(("train", "val", last), parts, strict=True):
        for label, name in enumerate(classes):
            if label not in {each[1] for each in samples}:
                raise SystemExit(f"{Path(folder, part, name)} has no image")
    return classes, parts


# %% opened
#
# .. _a-bad-file-is-named:
#
# If an image is cut off, is no image, or is a gray one with 16 or 32 bits for
# each pixel, the program stops before the training, with a line that names the
# file.


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
# Small images fit into memory, so each is read once, by several threads, and
# kept. For images that do not fit, see :doc:`/data/datasets` and
# :doc:`/data/loading`.


def loaded(samples):
    """Return the images and the classes of samples as a dataset."""
    sources, labels = zip(*samples, strict=True)
    read = opened if DATA else drawn
    with ThreadPoolExecutor(4) as pool:
        images = tqdm(
            pool.map(read, sources),
            desc="reading",
            total=len(sources),
            leave=False,
            disable=None,  # no bar where it would fill a file
        )
        images = torch.stack(list(images))
    return TensorDataset(images, torch.tensor(labels))


if DATA:
    classes, parts = find(DATA)
else:
    classes = [str(digit) for digit in range(10)]
    ranges = range(1500), range(10_000, 10_300), range(20_000, 20_300)
    parts = [[(number, number % 10) for number in each] for each in ranges]

training, validation, test = (loaded(part) for part in parts)

print(f"{len(classes)} classes: {', '.join(classes)}")
print(f"{len(training)} images to train on, {len(validation)} to validate")
print(f"{len(test)} images to test")

# %% examples

import matplotlib.pyplot as plt

shown = min(16, len(training))
figure, axes = plt.subplots(2, 8, figsize=(8, 2.8), layout="constrained")
for axis in axes.flat:
    axis.set_axis_off()
chosen = torch.randperm(len(training), generator=torch.Generator())
for place, axis in zip(chosen[:shown].tolist(), axes.flat, strict=False):
    image, label = training[place]
    axis.imshow(image.permute(1, 2, 0), cmap="gray", vmin=0, vmax=255)
    axis.set_title(classes[label], fontsize=9)
figure.suptitle("Some of the images, with their classes")
plt.show(block=False)  # a window does not stop the program

# %% model
#
# The network
# -----------
#
# Two convolutions look for strokes and corners, wherever they are. Each
# pooling halves width and height. The last layer turns what was found into
# one number for each class, and the largest one is the answer. To use another
# network, replace this class; see :doc:`/models/modules` and
# :doc:`/training/fine_tuning`.
#
# The ``momentum`` of ``BatchNorm2d`` says how much its averages follow the
# latest batch. An epoch of a small folder is a few batches only, and with the
# default of 0.1 the averages would come too late; see
# :doc:`/models/evaluation`.
#
# .. _slow-averages-come-too-late:
#
# Trained for four epochs on 40 dark and 40 light images, the network has more
# than three times the validation loss with the default.


class Reader(nn.Module):
    """From bytes (N, channels, SIZE, SIZE) to logits (N, classes)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3 if COLOR else 1, 8, 3, padding=1),
            nn.BatchNorm2d(8, momentum=0.5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16, momentum=0.5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(16 * (SIZE // 4) ** 2, len(classes)),
        )

    def forward(self, images):
        return self.layers(images / 255)


# %% loaders
#
# The loaders
# -----------
#
# A loader gives the images batch by batch; see :doc:`/data/batches`. Only the
# training is shuffled, by a generator of its own.

order = torch.Generator().manual_seed(SEED)
train_loader = DataLoader(
    training, BATCH_SIZE, shuffle=True, generator=order, pin_memory=on_cuda
)
validation_loader = DataLoader(validation, BATCH_SIZE, pin_memory=on_cuda)
test_loader = DataLoader(test, BATCH_SIZE, pin_memory=on_cuda)

# %% start
#
# What learns
# -----------
#
# The optimizer changes the weights, and the scheduler its rate; see
# :doc:`/training/optimizers` and :doc:`/training/schedulers`.

model = Reader().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=RATE, total_steps=EPOCHS * len(train_loader)
)
states = {"model": model, "optimizer": optimizer, "scheduler": scheduler}

# %% loop
#
# The loop
# --------
#
# Each batch takes the five lines of :doc:`/training/loop`. The last batch may
# be smaller, so each loss counts as often as its batch has images. Beside the
# bar stands the loss of the batch.


def train_epoch(epoch):
    """Train on each image once; return the mean loss over the images."""
    model.train()
    total = 0.0
    bar = tqdm(train_loader, desc=f"epoch {epoch}", leave=False, disable=None)
    for images, labels in bar:
        images = images.to(device, non_blocking=on_cuda)
        labels = labels.to(device, non_blocking=on_cuda)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item() * len(labels)
        bar.set_postfix(loss=f"{loss.item():.3f}")
    return total / len(training)


# %% evaluate
#
# An evaluation needs neither gradients nor dropout; see
# :doc:`/models/evaluation`.
#
# .. _each-image-counts-the-same:
#
# The loss of an evaluation is the mean over its images, whatever the size of a
# batch, and evaluating changes neither the weights nor the running averages of
# the network.


def evaluate(loader):
    """Return the mean loss, the logits and the classes of all images."""
    model.eval()
    total, logits, truth = 0.0, [], []
    with torch.no_grad():
        for images, labels in loader:
            logits.append(model(images.to(device)).cpu())
            truth.append(labels)
            total += F.cross_entropy(logits[-1], labels).item() * len(labels)
    return total / len(loader.dataset), torch.cat(logits), torch.cat(truth)


# %% save
#
# Stop, and go on
# ---------------
#
# A checkpoint holds all that the next epoch depends on: the weights, the
# optimizer, the scheduler, what has been reached, and the generators of the
# CPU, for the order of the images and for dropout; :doc:`/models/checkpoints`
# shows what happens if one is missing, and how to save that of an accelerator.
#
# .. _the-checkpoint-is-replaced-whole:
#
# A program that is interrupted while it writes leaves the old checkpoint as it
# was, because the new one is written beside it and then takes its place.


def write(content, path):
    """Write a file beside the old one, then put it in its place."""
    partial = Path(f"{path}.partial")
    torch.save(content, partial)
    partial.replace(path)


def settings():
    """Return what must be the same for a training to go on."""
    names = "size", "color", "epochs", "batch size", "rate", "seed"
    values = SIZE, COLOR, EPOCHS, BATCH_SIZE, RATE, SEED
    found = dict(zip(names, values, strict=True))
    return found | {"classes": classes, "training images": len(training)}


def save(history, best):
    """Write the checkpoint, and the best model into a file of its own."""
    content = {name: each.state_dict() for name, each in states.items()}
    content |= {"order": order.get_state(), "random": torch.get_rng_state()}
    content |= {"settings": settings(), "history": history, "best": best}
    write(best, f"{CHECKPOINT}.best")
    write(content, CHECKPOINT)


# %% resume
#
# .. _another-training-is-refused:
#
# A checkpoint with another size, color, number of epochs, batch size, rate or
# seed, other classes or another number of training images is refused, with a
# line that names what differs; and so is a file that is no checkpoint.


def resume():
    """Bring back what was saved; return the history and the best."""
    try:
        saved = torch.load(CHECKPOINT, map_location="cpu")
        history, before = saved["history"], saved["settings"]
    except Exception:
        raise SystemExit(f"{CHECKPOINT} is no checkpoint to resume") from None
    for name, now in settings().items():
        if before[name] != now:
            was = f"{name} {before[name]}, not {now}"
            raise SystemExit(f"{CHECKPOINT} is of a training with {was}")
    for name, each in states.items():
        each.load_state_dict(saved[name])
    order.set_state(saved["order"])
    torch.set_rng_state(saved["random"])
    return history, saved["best"]


# %% train
#
# Train, and keep the best
# ------------------------
#
# .. _resuming-changes-nothing:
#
# A training that is stopped, be it in the middle of an epoch, and goes on in a
# new process, ends with exactly the weights, the losses and the best model of
# the one that was not stopped, on a CPU and with as many threads.
#
# .. _the-best-epoch-is-kept:
#
# The file beside the checkpoint, and the report below, have the weights of the
# epoch with the lowest validation loss, though later ones may follow.
#
# .. _nothing-is-left-behind:
#
# Without ``CHECKPOINT``, the program leaves no file in its folder; with it,
# only the checkpoint and the best model.

history, best = [], None
if CHECKPOINT:
    Path(CHECKPOINT).parent.mkdir(parents=True, exist_ok=True)
    if Path(CHECKPOINT).exists():
        history, best = resume()
        print(f"goes on after epoch {len(history)} of {EPOCHS}")

try:
    for epoch in range(len(history) + 1, EPOCHS + 1):
        train_loss = train_epoch(epoch)
        loss, logits, truth = evaluate(validation_loader)
        accuracy = (logits.argmax(dim=1) == truth).double().mean().item()
        history.append((train_loss, loss))
        lowest = best["loss"] if best else math.inf
        if best is None or loss < lowest or math.isnan(lowest):
            weights = copy.deepcopy(model.state_dict())
            best = {"epoch": epoch, "loss": loss, "accuracy": accuracy}
            best |= {"model": weights, "settings": settings()}
        if CHECKPOINT:
            save(history, best)
        losses = f"loss {train_loss:.4f}, validation {loss:.4f}"
        print(f"epoch {epoch} of {EPOCHS}: {losses}, {accuracy:.1%} right")
except KeyboardInterrupt:
    message = "stopped: --resume goes on after the last epoch saved"
    raise SystemExit(message) from None

# %% report
#
# What it has learned
# -------------------
#
# The best epoch was chosen by the validation images, so it fits them a little
# too well. That is why other images, for the test, say how well the network
# does. (If you gave ``train`` and ``val`` only, expect less on new images.)
#
# .. _the-classifier-reads-nine-of-ten:
#
# With the settings above, the network reads more than 95 percent of the test
# images, none of which it was trained on.
#
# .. _the-loss-falls-on-both:
#
# With the settings above, both losses are lower after the last epoch than
# after the first.

model.load_state_dict(best["model"])
_, logits, truth = evaluate(test_loader)
answers = logits.argmax(dim=1)
right = answers == truth
size = len(classes)
confusion = torch.bincount(truth * size + answers, minlength=size**2)
confusion = confusion.view(size, size)  # a row for each class

for label, name in enumerate(classes):
    of_class = confusion[label].sum().item()
    share = confusion[label, label].item() / of_class
    print(f"{name}: {share:.0%} of {of_class} right")

# %% conclusion
#
# .. _the-conclusion-may-be-bad:
#
# If the network gets no more test images right than always answering with the
# most frequent class of the training, the conclusion says that it has not
# learned. If it gets so few more that this is within two standard deviations
# of guessing, it says that this may be chance.
#
# .. _a-folder-trains:
#
# From a folder of 40 dark and 40 light images in several formats, sizes and
# modes, in gray or in color, the network learns in four epochs to tell nine of
# ten test images apart, and the conclusion says that it has learned.


def conclusion(answers, truth):
    """Return in words whether the network does better than guessing."""
    count, hits = len(truth), (answers == truth).sum().item()
    frequent = training.tensors[1].bincount().argmax()
    guessed = (truth == frequent).sum().item()
    spread = math.sqrt(guessed * (1 - guessed / count))
    said = f"{hits} of {count} test images are right; answering always"
    said += f" {classes[frequent]!r} gets {guessed} right. The network "
    if hits <= guessed:
        return said + "has not learned: it is no better than that."
    if hits <= guessed + 2 * spread:
        return said + "is hardly better: that may be chance."
    return said + "has learned to tell the classes apart."


def best_epoch():
    """Return in words whether more epochs may help."""
    said = f"The validation loss was lowest after epoch {best['epoch']}"
    if best["epoch"] == EPOCHS:
        return f"{said}, the last one: more epochs may help."
    return f"{said} of {EPOCHS}, and never again as low."


print(conclusion(answers, truth))
print(best_epoch())

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
if not mistakes:
    print("no mistake")

# %% losses
#
# The picture shows how both losses fell. If the one on the validation images
# rises while the other still falls, the network learns its images by heart.

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
epochs = range(1, len(history) + 1)
trained, validated = zip(*history, strict=True)
axis.plot(epochs, trained, color="#0072B2", label="training")
axis.plot(epochs, validated, "--", color="#D55E00", label="validation")
axis.axvline(best["epoch"], color="#009E73", linestyle=":", label="best")
axis.set_yscale("log")
axis.set_xlabel("epoch")
axis.set_ylabel("loss")
axis.legend()
axis.set_title("The loss of each epoch")
plt.show(block=False)

# %% confusion
#
# Each row is a class, and each column an answer: what is off the diagonal is
# wrong.

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(4.8, 4.8), layout="constrained")
shares = confusion / confusion.sum(dim=1, keepdim=True)
axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
if len(classes) <= 20:
    for row, column in confusion.nonzero().tolist():
        number = str(confusion[row, column].item())
        color = "#FFFFFE" if shares[row, column] > 0.5 else "#333333"
        axis.text(column, row, number, ha="center", va="center", color=color)
    axis.set_xticks(range(len(classes)), classes, rotation=90)
    axis.set_yticks(range(len(classes)), classes)
axis.set_xlabel("answer")
axis.set_ylabel("class")
axis.set_title("What is taken for what")
plt.show(block=False)

# %% wrong
#
# The worst mistakes, with what each is and what it was taken for. Look at
# them: perhaps it is the image that is wrong.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 8, figsize=(9, 1.8), layout="constrained")
for axis in axes:
    axis.set_axis_off()
for axis, i in zip(axes, worst, strict=False):
    image, label = test[i]
    axis.imshow(image.permute(1, 2, 0), cmap="gray", vmin=0, vmax=255)
    axis.set_title(f"{classes[label]}\nread as {classes[answers[i]]}")
figure.suptitle("The worst mistakes")
plt.show()

# %% use
#
# Use what was kept
# -----------------
#
# The file beside the checkpoint, such as ``digits.pt.best``, holds the weights
# under ``model``, and the size and the classes under ``settings``. For another
# program, take the class ``Reader`` along; see :doc:`/models/loading_weights`.
# Here, ``answer_to(opened("photo.jpg"))`` reads an image of yours.
#
# .. _one-image-is-read-alike:
#
# With the settings above, each test image gets alone the answer that it gets
# among the others.


def answer_to(pixels):
    """Return the class of one image."""
    model.eval()
    with torch.no_grad():
        logits = model(pixels[None].to(device))
    return classes[logits.argmax()]


pixels, label = test[1]
print(f"{classes[label]!r} is read as {answer_to(pixels)!r}")
