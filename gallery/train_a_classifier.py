"""
Train a classifier, from images to a checkpoint
===============================================

Draw images of digits, train a small network to read them, interrupt it, go
on from a checkpoint, and look at what it gets wrong.

This is the whole example: dataset, loader, module, loop, validation,
scheduler, checkpoint, evaluation.

It needs ``torch``, ``matplotlib``, ``pillow``, ``tqdm``.
"""

# %% setup
#
# The program uses a CUDA device if there is one, and runs on a CPU.

import io

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
EPOCHS = 8
FONTS = [ImageFont.load_default(size) for size in range(12, 18)]

# %% dataset
#
# The images
# ----------
#
# Each sample is a digit of some size, at some place, under some noise. A
# generator with the number of the sample as its seed draws it, so a sample is
# the same in every epoch and in every process.


class Digits(Dataset):
    """Images of shape (1, 20, 20) and their digits, made on demand."""

    def __init__(self, first, number):
        self.first = first
        self.number = number

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        if not 0 <= index < self.number:
            raise IndexError(index)
        seed = self.first + index
        generator = torch.Generator().manual_seed(seed)
        size, left, top = torch.randint(6, (3,), generator=generator).tolist()
        image = Image.new("L", (20, 20))
        ImageDraw.Draw(image).text(
            (left, top - 2), str(seed % 10), 255, FONTS[size]
        )
        pixels = torch.frombuffer(
            bytearray(image.tobytes()), dtype=torch.uint8
        )
        noise = torch.randn(1, 20, 20, generator=generator)
        return pixels.view(1, 20, 20) / 255 + 0.2 * noise, seed % 10


training, validation, test = (
    Digits(0, 2500),
    Digits(10_000, 500),
    Digits(20_000, 500),
)

# %% examples

import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 8, figsize=(8, 2.4))
for axis, (image, digit) in zip(axes.flat, training, strict=False):
    axis.imshow(image[0], cmap="gray")
    axis.set_title(str(digit), fontsize=9)
    axis.set_axis_off()
figure.suptitle("Sixteen of the images, with their digits", y=1.05)
plt.show()

# %% model
#
# The network
# -----------


class Reader(nn.Module):
    """From images (N, 1, 20, 20) to ten logits each, (N, 10)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(16 * 5 * 5, 10),
        )

    def forward(self, images):
        return self.layers(images)


# %% loaders
#
# The loaders
# -----------
#
# The samples are drawn once, and kept: that is what small data is good for.


def loaded(dataset):
    images, digits = zip(*dataset, strict=True)
    return torch.utils.data.TensorDataset(
        torch.stack(images), torch.tensor(digits)
    )


order = torch.Generator().manual_seed(0)
train_loader = DataLoader(
    loaded(training), batch_size=50, shuffle=True, generator=order
)
validation_loader = DataLoader(loaded(validation), batch_size=100)
test_loader = DataLoader(loaded(test), batch_size=100)

# %% loop
#
# The loop
# --------


def train_epoch(model, optimizer, scheduler):
    """Train on each batch once; return the mean loss over the samples."""
    model.train()
    total = 0.0
    for images, digits in train_loader:
        images, digits = images.to(device), digits.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), digits)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item() * len(digits)
    return total / len(train_loader.dataset)


@torch.inference_mode()
def evaluate(model, loader):
    """Return the mean loss, the answers and the truth of all samples."""
    model.eval()
    logits = torch.cat([model(images.to(device)) for images, _ in loader])
    truth = torch.cat([digits for _, digits in loader])
    loss = F.cross_entropy(logits.cpu(), truth).item()
    return loss, logits.argmax(dim=1).cpu(), truth


# %% start
#
# Begin, save, go on
# ------------------
#
# A checkpoint holds every state that the next epoch depends on, the orders of
# the loader and, on a CPU, the dropout included.


def start():
    torch.manual_seed(1)
    order.manual_seed(1)
    model = Reader().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.01, total_steps=EPOCHS * len(train_loader)
    )
    return model, optimizer, scheduler


def save(file, parts):
    states = [part.state_dict() for part in parts]
    torch.save([*states, torch.get_rng_state(), order.get_state()], file)


def restore(file, parts):
    *states, dropout, shuffling = torch.load(file, map_location="cpu")
    for part, state in zip(parts, states, strict=True):
        part.load_state_dict(state)
    torch.set_rng_state(dropout)
    order.set_state(shuffling)


# %% train
#
# Half of the epochs, a checkpoint, and the other half. The bar shows in a
# terminal only.

parts = start()
history = []
for epoch in tqdm(range(EPOCHS), desc="epochs", disable=None):
    if epoch == EPOCHS // 2:
        checkpoint = io.BytesIO()  # a path would do as well
        save(checkpoint, parts)
    train_loss = train_epoch(*parts)
    history.append((train_loss, evaluate(parts[0], validation_loader)[0]))

# %% resume
#
# A new process would do this: make everything anew, load, train on.

resumed = start()
checkpoint.seek(0)
restore(checkpoint, resumed)
for _ in range(EPOCHS // 2, EPOCHS):
    train_epoch(*resumed)
    evaluate(resumed[0], validation_loader)  # a loader draws a seed, too

# %% results
#
# What it has learned
# -------------------
#
# .. _the-classifier-reads-nine-of-ten:
#
# From this seed, the network reads more than 95 percent of the test images,
# none of which it was trained on.
#
# .. _resuming-changes-nothing:
#
# The resumed training ends with exactly the weights of the one that was not
# interrupted, on a CPU.
#
# .. _the-loss-falls-on-both:
#
# Both losses are lower after the last epoch than after the first.

_, answers, truth = evaluate(parts[0], test_loader)
accuracy = (answers == truth).double().mean().item()
same = all(
    torch.equal(one, other)
    for one, other in zip(
        parts[0].state_dict().values(),
        resumed[0].state_dict().values(),
        strict=True,
    )
)

print("more than 95 percent:", accuracy > 0.95, "resumed alike:", same)

# %% confusion
#
# The picture shows how the loss fell, and which digits are taken for which.

import matplotlib.pyplot as plt

confusion = torch.zeros(10, 10, dtype=torch.int64)
confusion.index_put_((truth, answers), torch.ones_like(truth), accumulate=True)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
epochs = range(1, EPOCHS + 1)
for losses, label, style, color in zip(
    zip(*history, strict=True),
    ("training", "validation"),
    ("-", "--"),
    ("#0072B2", "#D55E00"),
    strict=True,
):
    left.plot(epochs, losses, label=label, linestyle=style, color=color)
left.set_yscale("log")
left.set_xlabel("epoch")
left.set_ylabel("loss")
left.legend()
right.imshow(confusion, cmap="Blues", vmax=60)
for row, column in confusion.nonzero().tolist():
    number = str(confusion[row, column].item())
    color = "#FFFFFE" if row == column else "#333333"
    right.text(column, row, number, ha="center", va="center", color=color)
right.set_xticks(range(10))
right.set_yticks(range(10))
right.set_xlabel("digit read")
right.set_ylabel("digit drawn")
figure.suptitle("The loss of each epoch, and what is taken for what")
plt.show()
