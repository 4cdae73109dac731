"""
Choose a loss: cross_entropy, BCE or MSE
========================================

Which loss fits which question, and two of them in nine lines.
"""

# %% digits
import warnings

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
data = load_digits()
images = torch.tensor(data.data, dtype=torch.float32) / 16
labels = torch.tensor(data.target)  # 0 to 9
ink = images.sum(dim=1)  # a number for each picture
even = labels % 2 == 0  # yes or no
hole = torch.isin(labels, torch.tensor([0, 6, 8, 9]))
traits = torch.stack([even, labels > 4, hole], dim=1)  # any of three

ink_model, even_model = nn.Linear(64, 1), nn.Linear(64, 1)
digit_model, traits_model = nn.Linear(64, 10), nn.Linear(64, 3)

# %% four-questions
bce = F.binary_cross_entropy_with_logits

amount = ink_model(images).squeeze(1)  # (N, 1) to (N,)
ink_loss = F.mse_loss(amount, ink)
even_score = even_model(images).squeeze(1)
even_loss = bce(even_score, even.float())
digit_scores = digit_model(images)  # (N, 10)
digit_loss = F.cross_entropy(digit_scores, labels)
trait_scores = traits_model(images)  # (N, 3)
traits_loss = bce(trait_scores, traits.float())

# %% guesses
digit_guess = digit_scores.argmax(dim=1)
even_guess = even_score > 0
digit_chances = digit_scores.softmax(dim=1)  # to print or to plot
even_chance = even_score.sigmoid()
print(f"digit {digit_guess[0]}: {digit_chances[0, digit_guess[0]]:.2f}")
print(f"even, {even_guess[0]}: {even_chance[0]:.2f}")

# %% targets
names = ["mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy"]
names += ["binary_cross_entropy_with_logits", "cross_entropy", "nll_loss"]
dtypes = [torch.int64, torch.int32, torch.uint8, torch.bool]
dtypes += [torch.float32, torch.float64]
answer = torch.tensor([[9.0, -9.0, -9.0]])  # sure of the first of three
forms = {"scores": answer, "probabilities": answer.softmax(dim=1)}
forms["log-probabilities"] = answer.log_softmax(dim=1)


def tried(loss, outputs, targets):
    try:
        with warnings.catch_warnings(action="error"):
            cost = loss(outputs, targets)
        cost.backward()
    except (RuntimeError, ValueError, UserWarning):
        return None
    return f"{cost.item():.2f}"


table = {}
for name in names:
    loss, row = getattr(F, name), {}
    for shape in ((6,), (6, 3)):
        row[f"targets {shape}"] = ", ".join(
            str(dtype).removeprefix("torch.")
            for dtype in dtypes
            if tried(
                loss,
                torch.full((6, 3), 0.5, requires_grad=True),
                torch.ones(shape, dtype=dtype),
            )
        )
    by_number = name in ("cross_entropy", "nll_loss")
    first = torch.tensor([0]) if by_number else torch.eye(3)[:1]
    for form, outputs in forms.items():
        cost = tried(loss, outputs.clone().requires_grad_(), first)
        row[f"right answer as {form}"] = cost or "error"
    table[name] = row

# %% targets-shown
import pandas as pd

pd.DataFrame.from_dict(table, orient="index")


# %% by-hand
def log_p(scores):
    lowered = scores - scores.amax(dim=1, keepdim=True)  # 1
    return lowered - lowered.exp().sum(dim=1, keepdim=True).log()  # 2


def cross_entropy_by_hand(scores, labels):
    return -log_p(scores).gather(1, labels[:, None]).mean()  # 3


def bce_by_hand(scores, targets):
    two_classes = torch.stack([torch.zeros_like(scores), scores], dim=1)  # 4
    no, yes = log_p(two_classes).unbind(dim=1)
    return -(targets * yes + (1 - targets) * no).mean()  # 5


# %% compare
def with_gradient(loss, scores, targets):
    learning = scores.clone().requires_grad_()
    cost = loss(learning, targets)
    cost.backward()
    return cost.detach(), learning.grad


def apart(by_hand, real, scores, targets):
    ours = with_gradient(by_hand, scores, targets)
    theirs = with_gradient(real, scores, targets)
    return [
        ((one - other).abs().max() / other.abs().max()).item()
        for one, other in zip(ours, theirs, strict=True)
    ]


yes_or_no = torch.randint(2, (1797, 3)).float()
for by_hand, real, classes, targets in (
    (cross_entropy_by_hand, F.cross_entropy, 10, labels),
    (bce_by_hand, bce, 3, yes_or_no),
):
    print(by_hand.__name__)
    for scale in (1, 10, 100):
        scores = scale * torch.randn(1797, classes)
        cost, gradient = apart(by_hand, real, scores, targets)
        print(f"  scores of about {scale:3}: loss {cost:.5f} apart,", end=" ")
        print(f"gradients {gradient:.5f}")

# %% from-scores
three = torch.tensor([[2.0, 1.0, -1.0]], requires_grad=True)
loss = F.cross_entropy(three, torch.tensor([1]))
loss.backward()
print(f"loss {loss:.4f}")
print("p        ", three.detach().softmax(dim=1))
print("gradients", three.grad)

# %% gradients
score = torch.linspace(-8, 8, 161, requires_grad=True)
curves = {
    "cross-entropy": bce(score, torch.ones(161), reduction="none"),
    "squared error": (score.sigmoid() - 1) ** 2,
}
gradients = {
    name: torch.autograd.grad(curve.sum(), score)[0]
    for name, curve in curves.items()
}
for name in curves:
    print(f"{name} at a score of -8: gradient {gradients[name][0]:.4f}")

# %% gradients-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
figure.suptitle("The score of a yes, where yes is right")
for lines, axis, label in zip(
    (curves, gradients), axes, ("loss", "gradient"), strict=True
):
    for (name, line), color in zip(
        lines.items(), ("#0072B2", "#D55E00"), strict=True
    ):
        axis.plot(score.detach(), line.detach(), color=color, label=name)
    axis.set_xlabel("score: surely no … surely yes")
    axis.set_ylabel(label)
axes[0].legend()
plt.show()

# %% first-loss
for classes in (2, 3, 10):
    equal = F.cross_entropy(torch.zeros(1, classes), torch.tensor([0]))
    print(f"{classes:2} equal scores: {equal:.2f}")
print(
    f"before training: digit {digit_loss:.2f}, even {even_loss:.2f},", end=" "
)
print(f"traits {traits_loss:.2f}")

# %% options
each = F.cross_entropy(digit_scores, labels, reduction="none")
weight = torch.ones(10)
weight[8] = 4.0  # an 8 counts four times
weights = weight[labels]
partly = torch.where(labels == 8, -100, labels)  # leave the 8s out
rows = 0.9 * F.one_hot(labels, 10) + 0.1 / 10
plain = bce(even_score, even.float(), reduction="none")
three_times = torch.tensor(3.0)
pairs = {
    "weight": (
        F.cross_entropy(digit_scores, labels, weight=weight),
        (weights * each).sum() / weights.sum(),
    ),
    "pos_weight": (
        bce(even_score, even.float(), pos_weight=three_times),
        torch.where(even, 3 * plain, plain).mean(),
    ),
    "ignore_index": (
        F.cross_entropy(digit_scores, partly),
        each[partly != -100].mean(),
    ),
    "label_smoothing": (
        F.cross_entropy(digit_scores, labels, label_smoothing=0.1),
        F.cross_entropy(digit_scores, rows),
    ),
}
for name, (real, by_hand) in pairs.items():
    print(f"{name:15} {real:.4f} {by_hand:.4f}")

nothing_left = torch.full_like(labels, -100)
print("no label left: ", F.cross_entropy(digit_scores, nothing_left).item())

# %% one-column
# Wrong on purpose: do not copy.
column = even_model(images)  # (N, 1)
constant = F.cross_entropy(column, even.float()[:, None])
(no_slope,) = torch.autograd.grad(constant, even_model.weight)
print(f"loss {constant.abs():.4f}, largest gradient {no_slope.abs().max()}")

# %% two-columns
two_columns = torch.cat([torch.zeros_like(column), column], dim=1)
print(f"{F.cross_entropy(two_columns, even.long()):.4f} {even_loss:.4f}")

# %% twice
# Wrong on purpose: do not copy.
floors = {}
for classes in (2, 3, 10):
    certain = 100 * torch.eye(classes)[:1]  # surely the first, and right
    chances = certain.softmax(dim=1)
    floors[classes] = F.cross_entropy(chances, torch.tensor([0])).item()
surely, answers = torch.tensor([100.0, -100.0]), torch.tensor([1.0, 0.0])
both = bce(surely.sigmoid(), answers, reduction="none")
print({classes: round(floor, 3) for classes, floor in floors.items()})
print(f"a yes {both[0]:.3f}, a no {both[1]:.3f}")

# %% once
ten = F.cross_entropy(100 * torch.eye(10)[:1], torch.tensor([0]))
print(f"{ten:.3f} {bce(surely, answers):.3f}")


# %% two-steps
# Wrong on purpose: do not copy.
def log_of_softmax(scores, labels):
    return -scores.softmax(dim=1).log()[0, labels[0]]


def bce_of_sigmoid(scores, targets):
    return F.binary_cross_entropy(scores.sigmoid(), targets)


far, first = torch.tensor([[-60.0, 60.0]]), torch.tensor([0])
high, no = torch.tensor([20.0]), torch.tensor([0.0])
lost = [with_gradient(log_of_softmax, far, first)]
lost += [with_gradient(bce_of_sigmoid, high, no)]
print(*lost, sep="\n")

# %% one-step
kept = [with_gradient(F.cross_entropy, far, first)]
kept += [with_gradient(bce, high, no)]
print(*kept, sep="\n")

# %% wrong-axis
# Wrong on purpose: do not copy.
phone_scores = digit_scores[:14].reshape(2, 7, 10)  # of two numbers
phone_labels = labels[:14].reshape(2, 7)
try:
    F.cross_entropy(phone_scores, phone_labels)
except RuntimeError as error:
    print(error)

# %% as-many-places
# Wrong on purpose: do not copy.
long_scores = digit_scores[:20].reshape(2, 10, 10)  # of ten digits each
long_labels = labels[:20].reshape(2, 10)
mixed_up = F.cross_entropy(long_scores, long_labels)
print(f"{mixed_up:.4f}")

# %% right-axis
right = F.cross_entropy(phone_scores.transpose(1, 2), phone_labels)
flat = F.cross_entropy(phone_scores.flatten(0, 1), phone_labels.flatten())
long_right = F.cross_entropy(long_scores.transpose(1, 2), long_labels)
print(f"{right:.4f} {flat:.4f} {long_right:.4f}")

# %% all-equal
print(F.cross_entropy(torch.full((1, 4), 7.0), torch.tensor([2])))


# %% focal
def focal_loss(scores, labels):
    each = F.cross_entropy(scores, labels, reduction="none")
    return ((1 - (-each).exp()) ** 2 * each).mean()


# %% focal-checked
unsure = focal_loss(torch.zeros(3, 2), torch.tensor([0, 1, 1])).item()
sure = focal_loss(torch.tensor([[5.0, 0.0]]), torch.tensor([0])).item()
if round(unsure, 3) == 0.693:
    print("This is cross_entropy: where does (1 - p) squared come in?")
elif round(unsure, 3) != 0.173 or sure > 1e-6:
    print(f"Three samples of p = 0.5 cost {unsure:.3f}: it should be 0.173,")
    print("the mean of 0.25 · 0.693.")
else:
    print("Right: a sure sample counts almost nothing now.")
