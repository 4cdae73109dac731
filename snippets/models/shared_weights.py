"""
Tie weights, and average them
=============================

Let two layers share one weight, and keep a running average of a model.
"""

# %% tie
import torch
from torch import nn


class NextWord(nn.Module):
    def __init__(self, words=1000, features=256):
        super().__init__()
        self.embedding = nn.Embedding(words, features)
        self.decoder = nn.Linear(features, words, bias=False)
        self.decoder.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, words):
        return self.decoder(self.embedding(words))


model = NextWord()
print(sum(p.numel() for p in model.parameters()))

# %% average
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def train(model, averaged, batches, optimizer):
    model.train()
    for images, labels in batches:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update_parameters(model)


# %% gradient
tied = NextWord(words=2, features=1)
with torch.no_grad():
    tied.embedding.weight.copy_(torch.tensor([[2.0], [3.0]]))

scores = tied(torch.tensor([0]))
scores.sum().backward()
print(scores.tolist(), tied.embedding.weight.grad.tolist())

# %% moved
import copy

double = copy.deepcopy(model).to(torch.float64)
print(double.decoder.weight is double.embedding.weight)

# %% saved
saved = model.state_dict()
print({name: tuple(each.shape) for name, each in saved.items()})

loaded = NextWord()
loaded.load_state_dict(saved)
print(loaded.decoder.weight is loaded.embedding.weight)

# %% by-hand
layer = nn.Linear(1, 1, bias=False)
average = AveragedModel(layer, multi_avg_fn=get_ema_multi_avg_fn(0.9))
steps = []
for number in (1.0, 2.0, 3.0):
    nn.init.constant_(layer.weight, number)
    average.update_parameters(layer)
    steps.append(average.module.weight.item())
print(steps)

# %% mean
mean = AveragedModel(layer)
for number in (1.0, 2.0, 6.0):
    nn.init.constant_(layer.weight, number)
    mean.update_parameters(layer)
print(mean.module.weight.item())

# %% digits
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
valid = order[1200:]


def batches(size=16):
    parts = order[torch.randperm(1200)].split(size)
    return [(images[part], labels[part]) for part in parts]


def network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


@torch.no_grad()
def evaluate(model):
    model.eval()
    scores = model(images[valid])
    loss = nn.functional.cross_entropy(scores, labels[valid])
    right = (scores.argmax(dim=1) == labels[valid]).double().mean()
    return loss.item(), right.item()


# %% trained
torch.manual_seed(0)
model_of_digits = network()
ema = get_ema_multi_avg_fn(0.98)
averaged = AveragedModel(model_of_digits, multi_avg_fn=ema, use_buffers=True)
optimizer = torch.optim.Adam(model_of_digits.parameters(), lr=0.03)

history = []
for _ in range(6):
    train(model_of_digits, averaged, batches(), optimizer)
    history.append((evaluate(model_of_digits)[0], evaluate(averaged)[0]))

for epoch, (plain, smooth) in enumerate(history):
    print(f"epoch {epoch}: model {plain:.3f}, average {smooth:.3f}")

# %% trained-drawn
import matplotlib.pyplot as plt

figure, panel = plt.subplots(figsize=(6, 3), layout="constrained")
panel.plot([plain for plain, _ in history], "o-", color="#D55E00")
panel.plot([smooth for _, smooth in history], "o-", color="#0072B2")
panel.text(1.1, history[1][0], "the model", color="#D55E00", va="bottom")
panel.text(0.1, history[0][1], "its average", color="#0072B2", va="center")
panel.set(xlabel="epoch", ylabel="validation loss", ylim=(0, None))
panel.set_title("The average starts worse, and soon has the lower loss")
plt.show()

# %% statistics
torch.manual_seed(0)
other = network()
copied = AveragedModel(other)
optimizer = torch.optim.Adam(other.parameters(), lr=0.03)
for _ in range(2):
    train(other, copied, batches(), optimizer)

of_model = other[1].running_mean
print(torch.equal(copied.module[1].running_mean, of_model))

# %% renewed
from torch.optim.swa_utils import update_bn

renewed = copy.deepcopy(copied)
update_bn(batches(), renewed)

print(f"copied {evaluate(copied)[0]:.3f}, renewed {evaluate(renewed)[0]:.3f}")

# %% assigned
# Wrong on purpose: do not copy.
assigned = NextWord()
held = list(assigned.parameters())  # as an optimizer holds them
assigned.load_state_dict(saved, assign=True)
print(assigned.decoder.weight is assigned.embedding.weight)
print(any(each is held[0] for each in assigned.parameters()))

# %% first-loss
# Wrong on purpose: do not copy.
torch.manual_seed(0)
large = NextWord()
nn.init.normal_(large.embedding.weight)  # as nn.Embedding does by default

words, answers = torch.randint(1000, (2, 512))
for each in (large, NextWord()):
    print(nn.functional.cross_entropy(each(words), answers).item())

# %% twice
# Wrong on purpose: do not copy.
import warnings

layers = NextWord(words=3, features=2)
both = [*layers.embedding.parameters(), *layers.decoder.parameters()]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    optimizer = torch.optim.SGD(both, lr=0.1)
print(caught[0].message)

before = layers.decoder.weight.detach().clone()
layers.decoder.weight.grad = torch.ones(3, 2)
optimizer.step()
print((layers.decoder.weight - before)[0].tolist())

# %% two-groups
# Wrong on purpose: do not copy.
groups = [{"params": [each]} for each in both]
try:
    torch.optim.SGD(groups, lr=0.1)
except ValueError as error:
    print(error)

# %% not-in-eval
# Wrong on purpose: do not copy.
torch.manual_seed(0)
new = network()
kept = AveragedModel(new)

new.eval()
print(new[1].training, kept.module[1].training)

# %% too-slow
# Wrong on purpose: do not copy.
slow = AveragedModel(new, multi_avg_fn=get_ema_multi_avg_fn(0.999))
optimizer = torch.optim.Adam(new.parameters(), lr=0.03)
train(new, slow, batches(), optimizer)

print(f"model {evaluate(new)[1]:.0%}, average {evaluate(slow)[1]:.0%}")

# %% infinite
# Wrong on purpose: do not copy.
masked = nn.Linear(2, 2)
masked.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
ema = get_ema_multi_avg_fn(0.9)
with_mask = AveragedModel(masked, multi_avg_fn=ema, use_buffers=True)
for _ in range(2):
    with_mask.update_parameters(masked)
print(with_mask.module.mask.tolist())


# %% keeps-its-output
# Wrong on purpose: do not copy.
class Remembers(nn.Linear):
    def forward(self, x):
        self.hidden = super().forward(x)  # for a plot, say
        return self.hidden


remembering = Remembers(2, 2)
AveragedModel(remembering)  # before the first call, it works
remembering(torch.ones(1, 2))
try:
    AveragedModel(remembering)
except RuntimeError as error:
    not_copied = str(error)
    print(not_copied)

# %% taken-out
plain = network()
plain.load_state_dict(renewed.module.state_dict())
print([*renewed.state_dict()][:3])
print(evaluate(plain) == evaluate(renewed))

# %% wrapped
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
dist.init_process_group("gloo", **alone)  # one process, to show the names
ddp = DDP(network())
both_averages = [AveragedModel(each) for each in (ddp, ddp.module)]
dist.destroy_process_group()
print(*[[*each.state_dict()][1] for each in both_averages])

# %% started-again
# Wrong on purpose: do not copy.
again = AveragedModel(layer, multi_avg_fn=get_ema_multi_avg_fn(0.9))
again.module.load_state_dict(average.module.state_dict())

nn.init.constant_(layer.weight, 4.0)
again.update_parameters(layer)
print(average.module.weight.item(), again.module.weight.item())

# %% quiz
layer = nn.Linear(1, 1, bias=False)
average = AveragedModel(layer, multi_avg_fn=get_ema_multi_avg_fn(0.5))
for number in (4.0, 8.0, 2.0):
    nn.init.constant_(layer.weight, number)
    average.update_parameters(layer)
print(average.module.weight.item())


# %% solution
@torch.no_grad()
def update(average, model, decay):
    for old, new in zip(average.parameters(), model.parameters(), strict=True):
        old.lerp_(new, 1 - decay)
    for old, new in zip(average.buffers(), model.buffers(), strict=True):
        old.copy_(new)


# %% solution-checked
torch.manual_seed(0)
first, second = network(), network()
second(images[:50])  # its BatchNorm has seen images
expected = AveragedModel(first, multi_avg_fn=get_ema_multi_avg_fn(0.9))
for each in (first, second):
    expected.update_parameters(each)
mine = copy.deepcopy(first)
update(mine, second, 0.9)

found = mine.state_dict()
wrong = [
    name
    for name, each in expected.module.state_dict().items()
    if not torch.allclose(found[name].double(), each.double())
]
print(f"Not yet: {', '.join(wrong)}" if wrong else "Right: it is the same")
