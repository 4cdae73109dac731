"""
Choose a loss
=============

Which loss fits which question, what it takes, and how a wrong pairing shows.
"""

# %% days
import math
import warnings

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
days = torch.randn(6, 5)  # five readings of each of six days
degrees = torch.tensor([21.5, 14.0, 16.5, -2.0, 24.0, 12.5])
rained = torch.tensor([False, True, True, False, False, True])
skies = torch.tensor([0, 1, 1, 2, 0, 1])  # 0 sun, 1 rain, 2 snow
alarms = torch.tensor([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0], [1, 0]])

# %% four-questions
yes_or_no = F.binary_cross_entropy_with_logits
how_warm, will_it_rain = nn.Linear(5, 1), nn.Linear(5, 1)
which_sky, which_alarms = nn.Linear(5, 3), nn.Linear(5, 2)

losses = {
    "how warm": F.mse_loss(how_warm(days).squeeze(1), degrees),
    "will it rain": yes_or_no(will_it_rain(days).squeeze(1), rained.float()),
    "which sky": F.cross_entropy(which_sky(days), skies),
    "which alarms": yes_or_no(which_alarms(days), alarms.float()),
}

print(*losses.values(), sep="\n")

# %% guesses
with torch.no_grad():
    chance = will_it_rain(days).squeeze(1).sigmoid()
    chances = which_sky(days).softmax(dim=1)
    guesses = which_sky(days).argmax(dim=1)

print(chance[0], chances[0], guesses[0], sep="\n")

# %% from-scores
scores = torch.tensor([[2.0, 1.0, -1.0]], requires_grad=True)
loss = F.cross_entropy(scores, torch.tensor([1]))  # it rained
loss.backward()

print(scores.softmax(dim=1))
print(loss, scores.grad, sep="\n")

# %% gradients
score = torch.linspace(-8, 8, 161, requires_grad=True)
yes = torch.ones(161)
curves = {
    "cross-entropy": yes_or_no(score, yes, reduction="none"),
    "squared error": (score.sigmoid() - yes) ** 2,
}
gradients = {
    name: torch.autograd.grad(curve.sum(), score)[0]
    for name, curve in curves.items()
}

# %% gradients-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
figure.suptitle("The score of rain, on a day on which it rained")
for lines, axis, label in zip(
    (curves, gradients), axes, ("loss", "gradient"), strict=True
):
    for (name, line), color in zip(
        lines.items(), ("#0072B2", "#D55E00"), strict=True
    ):
        axis.plot(score.detach(), line.detach(), color=color, label=name)
    axis.set_xlabel("score: surely not … surely")
    axis.set_ylabel(label)
axes[0].legend()
plt.show()


# %% with-gradient
def with_gradient(loss, score):
    return loss.item(), torch.autograd.grad(loss, score)[0]


# %% two-steps
# Wrong on purpose: do not copy.
score = torch.tensor([20.0], requires_grad=True)  # surely rain
far = torch.tensor([[-60.0, 60.0]], requires_grad=True)
clamped = F.binary_cross_entropy(score.sigmoid(), torch.zeros(1))
by_hand = -far.softmax(dim=1)[0, 0].log()

lost = with_gradient(clamped, score), with_gradient(by_hand, far)

print(*lost, sep="\n")

# %% one-step
dry = yes_or_no(score, torch.zeros(1))
first = F.cross_entropy(far, torch.tensor([0]))

kept = with_gradient(dry, score), with_gradient(first, far)

print(*kept, sep="\n")

# %% asked
names = ["mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy"]
names += ["binary_cross_entropy_with_logits", "cross_entropy", "nll_loss"]
dtypes = [torch.int64, torch.int32, torch.uint8, torch.bool]
dtypes += [torch.float32, torch.float64]


# %% accepted
def accepted(name, shape):
    taken = []
    for dtype in dtypes:
        outputs = torch.full((6, 3), 0.5, requires_grad=True)
        try:
            with warnings.catch_warnings(action="error"):
                targets = torch.ones(shape, dtype=dtype)
                getattr(F, name)(outputs, targets).backward()
        except (RuntimeError, ValueError, UserWarning):
            continue
        taken.append(str(dtype).removeprefix("torch."))
    return ", ".join(taken) or "none"


# %% targets
shapes = (6, 3), (6,), (6, 1)
targets = {
    name: {f"targets {shape}": accepted(name, shape) for shape in shapes}
    for name in names
}

# %% targets-shown
import pandas as pd

pd.DataFrame.from_dict(targets, orient="index")


# %% tried
def tried(loss, outputs, targets):
    try:
        return f"{loss(outputs, targets).item():.2f}"
    except (RuntimeError, ValueError, IndexError) as error:
        return str(error)


# %% sure-and-right
sure, sun = torch.tensor([[9.0, -9.0, -9.0]]), torch.tensor([0])
forms = {
    "scores": sure,
    "probabilities": sure.softmax(dim=1),
    "log-probabilities": sure.log_softmax(dim=1),
}
costs = {}
for name in names:
    by_number = name in ("cross_entropy", "nll_loss")
    right = sun if by_number else F.one_hot(sun, 3).float()
    loss = getattr(F, name)
    costs[name] = {form: tried(loss, forms[form], right) for form in forms}

# %% costs-shown
import pandas as pd

pd.DataFrame.from_dict(costs, orient="index")

# %% first-loss
for classes in (2, 3, 10):
    equal, labels = torch.zeros(5, classes), torch.arange(5) % classes
    cost = F.cross_entropy(equal, labels)
    print(cost.item(), math.log(classes))

# %% wrong-targets
# Wrong on purpose: do not copy.
column, one_hot = skies.unsqueeze(1), F.one_hot(skies)
wrong = skies.float(), column, one_hot, skies[:5], skies + 1
texts = [tried(F.cross_entropy, which_sky(days), each) for each in wrong]

print(*texts, sep="\n")

# %% right-targets
numbers = F.cross_entropy(which_sky(days), skies.float().long())
squeezed = F.cross_entropy(which_sky(days), column.squeeze(1))
rows = F.cross_entropy(which_sky(days), one_hot.float())

print(numbers, squeezed, rows, sep="\n")

# %% wrong-axis
# Wrong on purpose: do not copy.
week_scores = torch.randn(2, 7, 3)  # two weeks, seven days, three skies
week_skies = torch.randint(3, (2, 7))
text = tried(F.cross_entropy, week_scores, week_skies)

print(text)

# %% right-axis
transposed = F.cross_entropy(week_scores.transpose(1, 2), week_skies)
flat = F.cross_entropy(week_scores.flatten(0, 1), week_skies.flatten())

print(transposed, flat)

# %% wrong-masks
# Wrong on purpose: do not copy.
pixel_scores = torch.randn(2, 3, 8, 8)  # two pictures, three skies
masks = torch.randint(3, (2, 1, 8, 8))  # a class for each pixel
text = tried(F.cross_entropy, pixel_scores, masks)

print(text)

# %% right-masks
print(F.cross_entropy(pixel_scores, masks.squeeze(1)))

# %% colors
palette = torch.tensor([[255, 255, 0], [0, 0, 255], [255, 255, 255]])
colored = palette[masks.squeeze(1)]  # 2 x 8 x 8 x 3, as a PNG is read
same = (colored[..., None, :] == palette).all(dim=-1)  # 2 x 8 x 8 x 3 classes
numbers = same.int().argmax(dim=-1)

print(numbers.shape, numbers.equal(masks.squeeze(1)))

# %% wrong-answers
# Wrong on purpose: do not copy.
rain_score = will_it_rain(days)  # of shape (6, 1)
wrong = rained.long()[:, None], rained[:, None], rained.float()
refusals = [tried(yes_or_no, rain_score, each) for each in wrong]

print(*refusals, sep="\n")

# %% one-column
# Wrong on purpose: do not copy.
nothing = F.cross_entropy(rain_score, rained.float()[:, None])
learned = with_gradient(nothing, will_it_rain.weight)

print(learned)

# %% twice
# Wrong on purpose: do not copy.
floors = {}
for classes in (2, 3, 4):
    certain = 100 * torch.eye(classes)[:1]  # surely sun
    floors[classes] = F.cross_entropy(certain.softmax(dim=1), sun).item()

surely, rain = torch.tensor([100.0, -100.0]), torch.tensor([1.0, 0.0])
both = yes_or_no(surely.sigmoid(), rain, reduction="none")

print(floors, both, sep="\n")

# %% once
print(F.cross_entropy(certain, sun))
print(yes_or_no(surely, rain, reduction="none"))

# %% class-weights
weight = torch.tensor([1.0, 1.0, 4.0])  # snow is rare
each = F.cross_entropy(which_sky(days), skies, reduction="none")
weighted = F.cross_entropy(which_sky(days), skies, weight=weight)
divided = (weight[skies] * each).sum() / weight[skies].sum()

print(weighted, divided)

# %% pos-weight
three = torch.tensor(3.0)
plain = yes_or_no(rain_score, rained.float()[:, None], reduction="none")
heavy = yes_or_no(rain_score, rained.float()[:, None], pos_weight=three)
tripled = torch.where(rained[:, None], 3 * plain, plain)

print(heavy, tripled.mean())

# %% smoothing
smooth = F.cross_entropy(which_sky(days), skies, label_smoothing=0.1)
spread = -which_sky(days).log_softmax(dim=1).mean()

print(smooth, 0.9 * losses["which sky"] + 0.1 * spread)

# %% ignored
partly = torch.tensor([0, 1, -100, -100, 0, -100])
known = partly != -100
ignoring = F.cross_entropy(which_sky(days), partly)
without = F.cross_entropy(which_sky(days)[known], partly[known])

print(ignoring, without)

# %% all-ignored
sky_scores = which_sky(days)
unknown = torch.full((6,), -100)
empty = with_gradient(F.cross_entropy(sky_scores, unknown), sky_scores)
total = F.cross_entropy(sky_scores, unknown, reduction="sum")

print(empty, total, sep="\n")
