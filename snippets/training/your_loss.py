"""
Write your own loss, and combine several
========================================

A network finds the ink of a digit in a noisy picture.
"""

# %% scenes
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

bce = F.binary_cross_entropy_with_logits


def make_scenes(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.rand(count, 1, 20, 20, generator=generator) * 0.8
    masks = torch.zeros(count, 1, 20, 20)
    digits = torch.tensor(load_digits().images[:count]).float() / 16
    for picture, mask, digit in zip(pictures, masks, digits, strict=True):
        top, left = torch.randint(13, (2,), generator=generator).tolist()
        where = (0, slice(top, top + 8), slice(left, left + 8))
        picture[where] = torch.maximum(picture[where], digit)
        mask[where] = (digit > 0.5).float()
    return (pictures - 0.4) / 0.25, masks


pictures, masks = make_scenes(400)
amounts = masks.sum(dim=(1, 2, 3))  # the ink pixels of each picture


class Finder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(),
        )
        self.ink = nn.Conv2d(8, 1, 1)  # a score for each pixel
        self.amount = nn.Linear(8, 1)

    def forward(self, pictures):
        hidden = self.body(pictures)
        amount = self.amount(hidden.mean(dim=(2, 3)))
        return self.ink(hidden), amount.squeeze(1)


# %% dice
def dice_loss(scores, masks):
    chances = scores.sigmoid().flatten(1)  # one row for each picture
    masks = masks.flatten(1)
    overlap = (chances * masks).sum(dim=1)
    total = chances.sum(dim=1) + masks.sum(dim=1)
    return (1 - (2 * overlap + 1) / (total + 1)).mean()


def ink_loss(scores, masks):
    return bce(scores, masks) + dice_loss(scores, masks)


# %% fit
def fit(loss_of, steps=60, seed=0, optimizer=torch.optim.Adam, rate=0.03):
    torch.manual_seed(seed)
    model = Finder()
    optimizer = optimizer(model.parameters(), lr=rate)
    for _ in range(steps):
        batch = torch.randint(300, (16,))
        scores, amount = model(pictures[batch])
        loss = loss_of(scores, masks[batch], amount, amounts[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def scores_of(model):
    with torch.no_grad():
        return model(pictures[300:])[0]  # not seen in training


def dice(found):
    masked = masks[300:].bool()
    return 2 * (found & masked).sum() / (found.sum() + masked.sum())


# %% learned
finder = fit(lambda scores, masks, *_: ink_loss(scores, masks))
scores = scores_of(finder)
print("Dice:", dice(scores > 0))

# %% learned-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(7, 2.6), layout="constrained")
figure.suptitle("A digit in noise, and what the network finds")
panels = {
    "picture": pictures[317, 0],
    "mask": masks[317, 0],
    "probability of ink": scores[17, 0].sigmoid(),
}
for axis, (title, panel) in zip(axes, panels.items(), strict=True):
    axis.imshow(panel, cmap="gray")
    axis.set(title=title, xticks=[], yticks=[])
plt.show()

# %% by-hand
chances = torch.tensor([[0.8, 0.6, 0.2, 0.0]])  # four pixels of a picture
ink = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
by_hand = dice_loss(chances.logit(), ink)
print(by_hand)

# %% background
nothing = torch.full_like(scores, -20.0)  # surely no ink, anywhere
right = ((nothing > 0) == masks[300:]).float().mean()
print(f"pixels: {right:.0%}", "Dice loss:", dice_loss(nothing, masks[300:]))

# %% gradients
guess = torch.tensor(3.0, requires_grad=True)
square, size = (guess - 1) ** 2, guess.abs()
apart = [torch.autograd.grad(each, guess)[0] for each in (square, size)]

loss = (guess - 1) ** 2 + 10 * guess.abs()
loss.backward()
print(apart, guess.grad)


# %% learned-weights
class LearnedSum(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.log_variances = nn.Parameter(torch.zeros(count))

    def forward(self, losses):
        s = self.log_variances
        return (torch.exp(-s) * torch.stack(losses) + s).sum()


combine = LearnedSum(2)
model = Finder()
optimizer = torch.optim.Adam([*model.parameters(), *combine.parameters()])

# %% learned-weights-tried
stays = [torch.tensor(0.1), torch.tensor(20.0)]  # as if nothing were learned
combine = LearnedSum(2)
optimizer = torch.optim.Adam(combine.parameters(), lr=0.1)
for _ in range(200):
    optimizer.zero_grad()
    combine(stays).backward()
    optimizer.step()

learned = combine.log_variances.detach()
shares = [
    torch.exp(-s) * loss + s for s, loss in zip(learned, stays, strict=True)
]
print(learned.exp(), shares)

# %% forgotten
# Wrong on purpose: do not copy.
combine = LearnedSum(1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
combine(stays[1:]).backward()
optimizer.step()
print(combine.log_variances)


# %% error-of
def error_of(call, *arguments):
    try:
        call(*arguments)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "no error"


# %% accuracy
# Wrong on purpose: do not copy.
raw = scores.clone().requires_grad_()
agree = ((raw > 0) == masks[300:]).float().mean()
said = error_of((1 - agree).backward)

rounded = (raw.sigmoid().round() - masks[300:]).abs().mean()
rounded.backward()
print(said, raw.grad.abs().max(), sep="\n")

# %% item
# Wrong on purpose: do not copy.
raw = scores.clone().requires_grad_()
with_number = bce(raw, masks[300:]) + dice_loss(raw, masks[300:]).item()
with_number.backward()
number_grad = raw.grad

both = ink_loss(raw, masks[300:])
(both_grad,) = torch.autograd.grad(both, raw)
print("losses:   ", with_number.item(), both.item())
print("gradients:", number_grad.norm(), both_grad.norm())

# %% pairs
# Wrong on purpose: do not copy.
flat = masks[300:].squeeze(1)  # 100 x 20 x 20, the scores 100 x 1 x 20 x 20
each = -flat * F.logsigmoid(scores) - (1 - flat) * F.logsigmoid(-scores)
print(each.shape, each.mean(), bce(scores, masks[300:]))

# %% bytes
# Wrong on purpose: do not copy.
as_read = (masks[300:] * 255).to(torch.uint8)  # as in many PNG files
negative = bce(torch.ones_like(scores), as_read.float())

background = torch.tensor([9.0, -9.0]).view(1, 2, 1, 1)  # surely no ink
background = background.expand(100, 2, 20, 20)
labels = as_read.squeeze(1).long()
ignoring = F.cross_entropy(background, labels, ignore_index=255)
print(negative, ignoring)

# %% bytes-mended
mended = as_read > 127
positive = bce(torch.ones_like(scores), mended.float())
counting = F.cross_entropy(background, mended.squeeze(1).long())
print(positive, counting)


# %% distill
def distill(student, teacher, T=4.0):
    soft = (teacher / T).softmax(dim=1)
    soft_log = (student / T).log_softmax(dim=1)
    return F.kl_div(soft_log, soft, reduction="batchmean") * T * T


teacher = torch.tensor([[2.0, 1.0, -1.0], [0.0, 3.0, 1.0]])
agreeing = distill(teacher, teacher)

chances = teacher.softmax(dim=1)
sure = F.one_hot(teacher.argmax(dim=1), 3).float()
no_log = F.kl_div(chances, chances, reduction="batchmean")  # wrong: no log
no_log_sure = F.kl_div(sure, chances, reduction="batchmean")
print(agreeing, no_log, no_log_sure)

# %% known
known = torch.zeros_like(scores)
known[..., :5] = 1.0  # only five columns were labeled
each = bce(scores, masks[300:], reduction="none")
too_small = (each * known).mean()
over_known = (each * known).sum() / known.sum()
print(too_small, over_known)


# %% classes
def dice_of_classes(scores, classes, ignored=255):
    known = (classes != ignored)[:, None]  # N x 1 x H x W
    filled = classes.where(classes != ignored, 0)  # or any other class
    truth = F.one_hot(filled, scores.shape[1]).movedim(-1, 1) * known
    chances = scores.softmax(dim=1) * known
    overlap = (chances * truth).sum(dim=(2, 3))
    total = (chances + truth).sum(dim=(2, 3))
    return (1 - (2 * overlap + 1) / (total + 1)).mean()


# %% classes-tried
torch.manual_seed(0)
raw = torch.randn(2, 3, 4, 4, requires_grad=True)  # scores of three classes
classes = torch.randint(3, (2, 4, 4))
classes[:, 2:] = 255  # the lower half has no labels

said = error_of(F.one_hot, classes, 3)
whole = dice_of_classes(raw, classes)
whole.backward()
cut_off = dice_of_classes(raw[:, :, :2], classes[:, :2])
print(said, whole, cut_off, raw.grad[:, :, 2:].abs().max(), sep="\n")


# %% two-tasks
def plain_sum(scores, masks, amount, amounts):
    return ink_loss(scores, masks) + F.mse_loss(amount, amounts)


def weighted_sum(scores, masks, amount, amounts):
    return ink_loss(scores, masks) + 0.002 * F.mse_loss(amount, amounts)


# %% parts
torch.manual_seed(0)
untrained = Finder()
score, amount = untrained(pictures[:32])
parts = {
    "ink": ink_loss(score, masks[:32]),
    "amount": F.mse_loss(amount, amounts[:32]),
}
shared = untrained.body[0].weight
pulls = {
    name: torch.autograd.grad(part, shared, retain_graph=True)[0].norm()
    for name, part in parts.items()
}
print({name: part.item() for name, part in parts.items()}, pulls, sep="\n")

# %% drowned
drowned = fit(plain_sum, steps=40)
balanced = fit(weighted_sum, steps=40)
print("plain:   ", dice(scores_of(drowned) > 0))
print("weighted:", dice(scores_of(balanced) > 0))

# %% factor
once = fit(weighted_sum, steps=5)
whole = fit(lambda *given: 100 * weighted_sum(*given), steps=5)
part = fit(plain_sum, steps=5)  # 500 times the weight of one part

for other in (whole, part):
    print((scores_of(once) - scores_of(other)).abs().max())

# %% odds
labels = torch.zeros(100)
labels[:5] = 1.0  # five in a hundred: odds of 5 to 95, or 1 to 19
weight = (labels == 0).sum() / (labels == 1).sum()  # 95 / 5 = 19

score = torch.zeros(1, requires_grad=True)  # one score for all of them
bce(score.expand(100), labels, pos_weight=weight).backward()
shifted = score.detach() - weight.log()
print(score.grad, score.sigmoid(), shifted.sigmoid())

# %% weighted
pos_weight = (masks[:300] == 0).sum() / (masks[:300] == 1).sum()
eager = fit(
    lambda scores, masks, *_: bce(scores, masks, pos_weight=pos_weight),
    steps=100,
)
eager_scores = scores_of(eager)
corrected = eager_scores - pos_weight.log()

print("ink:        ", masks[300:].mean())
print("probability:", eager_scores.sigmoid().mean())
print("corrected:  ", corrected.sigmoid().mean())

# %% weighted-drawn
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
figure.suptitle("Of the pixels with this probability, how many are ink?")
lines = {"with pos_weight": eager_scores, "corrected": corrected}
for (name, line), color in zip(
    lines.items(), ("#D55E00", "#0072B2"), strict=True
):
    chance = line.sigmoid().flatten()
    bins = (chance * 5).long().clamp(max=4)
    counts = bins.bincount(minlength=5)
    mean = bins.bincount(chance, minlength=5) / counts
    share = bins.bincount(masks[300:].flatten(), minlength=5) / counts
    axis.plot(mean, share, color=color, marker="o", label=name)
axis.plot([0, 1], [0, 1], color="#888888", linestyle=":")
axis.set(xlabel="probability", ylabel="share of ink")
axis.legend()
plt.show()

# %% many-labels
kinds = torch.zeros(2, 3, 4, 4)  # two pictures, three kinds of ink
weights = torch.tensor([1.0, 5.0, 20.0])
flat_weights = error_of(lambda: bce(kinds, kinds, pos_weight=weights))
square = torch.zeros(2, 3, 3, 3)  # as wide as there are kinds: no error
wrong = bce(square, square + 1, pos_weight=weights, reduction="none")
right = bce(
    square, square + 1, pos_weight=weights[:, None, None], reduction="none"
)
print(flat_weights, wrong[0, :, 0, 0], right[0, :, 0, 0], sep="\n")

# %% shrink
penalized = torch.tensor([0.25], requires_grad=True)
shrunk = torch.tensor([0.25])
optimizer = torch.optim.SGD([penalized], lr=0.1)
path = []
for _ in range(5):
    optimizer.zero_grad()
    penalized.abs().sum().backward()  # the penalty, at a strength of 1
    optimizer.step()
    shrunk = F.softshrink(shrunk, 0.1)  # the rate times the strength
    path.append((round(penalized.item(), 2), round(shrunk.item(), 2)))
print(path)

# %% small-sum
w = torch.tensor(2.0, requires_grad=True)
loss = w**2 + 3 * w.item() ** 2
loss.backward()
print(w.grad)


# %% masked-mae
def masked_mae(predictions, targets, known):
    if predictions.shape != targets.shape:
        raise ValueError(f"{predictions.shape} against {targets.shape}")
    return ((predictions - targets).abs() * known).sum() / known.sum()


# %% masked-mae-checked
ages = torch.tensor([30.0, 40.0, 0.0, 0.0])
known = torch.tensor([1.0, 1.0, 0.0, 0.0])
guess = torch.tensor([31.0, 43.0, 9.0, 9.0], requires_grad=True)
missing = []
if error_of(masked_mae, guess[:, None], ages, known) == "no error":
    missing.append("a column of guesses should raise a ValueError")
if masked_mae(guess, ages, known).item() != 2:
    missing.append("the mean of 1 and 3 is 2")
if not masked_mae(guess, ages, known).requires_grad:
    missing.append("the loss has no graph")
print("Not yet: " + ", ".join(missing) if missing else "All right")
