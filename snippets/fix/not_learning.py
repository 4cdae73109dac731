"""
The loss does not fall
======================

Seven checks, on healthy programs and on fifteen with a planted fault.
"""

# %% digits
import copy
import math
from contextlib import ExitStack
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

INK = "75557262277174771717557117471774757712227575775717"  # five rows each
dots = [f"{int(row):03b}" for row in INK]
glyphs = torch.tensor([[float(dot) for dot in row] for row in dots])


# %% draw
def draw(count, seed):
    """Return images of one digit each, the digits, and their places."""
    torch.manual_seed(seed)
    images = 0.1 * torch.randn(count, 1, 8, 8)
    digits, places = torch.randint(10, (count,)), torch.randint(4, (count,))
    each = zip(images, digits.tolist(), places.tolist(), strict=True)
    for image, digit, left in each:
        image[0, 1:6, left + 1 : left + 4] += glyphs[5 * digit : 5 * digit + 5]
    return images, digits, (places[:, None] - 1.5) / 1.1


images, digits, places = draw(400, seed=0)
new_images, new_digits, new_places = draw(200, seed=1)


# %% program
def network(outputs=10):
    layers = nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs)
    return nn.Sequential(nn.Flatten(), *layers)


def take_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% begin
everything = {"learns": nn.Module.parameters, "rate": 0.01, "seed": 0}
everything |= {"make": network, "take": take_step, "loss": F.cross_entropy}


def begin(**changes):
    """Return an untrained model, its loss, and its training step."""
    use = everything | changes
    torch.manual_seed(use["seed"])
    model = use["make"]()
    optimizer = torch.optim.AdamW(use["learns"](model), lr=use["rate"])
    step = partial(use["take"], model, optimizer, use["loss"])
    return model, use["loss"], step


# %% show
def show(numbers):
    """Print a dictionary with its numbers rounded."""
    near = lambda x: round(x, 4) if isinstance(x, float) else x  # noqa: E731
    print({name: near(each) for name, each in numbers.items()})


# %% answer
def answer(model, inputs, mode=True):
    """Return the outputs of a copy, so that the model stays as it is."""
    twin = copy.deepcopy(model).train(mode)
    with torch.no_grad(), torch.random.fork_rng():
        return twin(inputs)


# %% at-start
def chance(outputs, targets):
    if targets.is_floating_point():
        return targets.var(correction=0).item()
    return math.log(outputs.shape[1])


def at_start(model, loss_function, inputs, targets):
    outputs = answer(model, inputs)
    loss = loss_function(outputs, targets).item()
    blind = chance(outputs, targets)
    found = [] if blind / 2 < loss < 2 * blind else ["far from chance"]
    return {"loss": loss, "chance": blind, "found": found}


# %% at-start-called
model, loss_function, step = begin()
batch = images[:32], digits[:32]
show(at_start(model, loss_function, *batch))


# %% one-batch
def one_batch(step, inputs, targets, steps=100):
    """Train the model: give it a new one."""
    losses = [step(inputs, targets) for _ in range(steps)]
    first, last = losses[0], torch.tensor(losses[-10:]).max().item()
    found = [] if abs(last) < 0.1 * abs(first) else ["not by heart"]
    return {"first": first, "last": last, "found": found}


# %% one-batch-called
model, loss_function, step = begin()
show(one_batch(step, *batch))


# %% look
def distinct(inputs):
    return len(inputs.flatten(1).unique(dim=0))


def look(inputs, targets):
    std, mean = (each.item() for each in torch.std_mean(inputs.float()))
    most = targets.unique(return_counts=True)[1].max().item()
    scale = not 0.01 < std < 10 or abs(mean) > 10 * std
    copies = distinct(inputs) < len(inputs) / 2
    signs = {"scale": scale, "copies": copies}
    signs["one label"] = most > 0.9 * targets.numel()
    found = [sign for sign, seen in signs.items() if seen]
    return {"mean": mean, "std": std, "most": most, "found": found}


# %% look-called
for part in batch:
    print(tuple(part.shape), part.dtype, part.unique()[[0, -1]])
show(look(images, digits))


# %% neighbors
def neighbors(inputs, targets, most=2000):
    inputs, targets = inputs[:most], targets[:most]
    points = inputs.flatten(1).float()
    nearest = torch.cdist(points, points).fill_diagonal_(math.inf).argmin(1)
    answers = targets.reshape(len(targets), -1).float()
    if not targets.is_floating_point():
        classes = targets.long() - targets.min().long()  # -100: ignored
        answers = F.one_hot(classes).flatten(1).float()
    apart = (answers - answers[nearest]).square().sum(1).mean()
    ratio = (apart / (2 * answers.var(0, correction=0).sum())).item()
    found = ["neighbors differ"] if ratio > 0.8 else []
    return {"ratio": ratio, "found": found}


# %% neighbors-called
show(neighbors(images, digits))


# %% right-answers
def right_answers(model, loss_function, inputs, targets):
    outputs = answer(model, inputs)
    if targets.is_floating_point():
        right = targets.reshape(outputs.shape)
    else:
        classes = targets.long().clamp(0, outputs.shape[1] - 1)
        right = F.one_hot(classes, outputs.shape[1]).movedim(-1, 1)
        right = 100 * right.to(outputs.dtype)
    loss = loss_function(right, targets).item()
    found = [] if abs(loss) < 0.01 else ["right answers cost"]
    return {"loss": loss, "found": found}


# %% right-answers-called
model, loss_function, step = begin()
show(right_answers(model, loss_function, *batch))


# %% note
def note(row, parameter, gradient):
    old = parameter.grad  # what was there before this gradient came
    row["old"] = old is not None and old.float().norm().item() > 0
    row["gradient"] = gradient.float().norm().item()


# %% moved
def moved(before, now):
    """Return the way as a share of the size, or the way if that is 0."""
    size = before.float().norm().item()
    return (now.float() - before.float()).norm().item() / (size or 1.0)


# %% gradients
def gradients(model, step, inputs, targets):
    """Train the model for two steps: give it a new one."""
    learn = {k: p for k, p in model.named_parameters() if p.requires_grad}
    before = {name: p.detach().clone() for name, p in learn.items()}
    rows = {name: {"gradient": None, "old": False} for name in learn}
    with ExitStack() as hooks:  # removes them at the end
        for name, p in learn.items():
            hooks.enter_context(p.register_hook(partial(note, rows[name], p)))
        _ = [step(inputs, targets) for _ in range(2)]
    for name, p in learn.items():
        rows[name]["moved"] = moved(before[name], p.detach())
    return rows


# %% judged
def judged(row):
    if row["gradient"] is None:
        return "no gradient"
    if row["gradient"] == 0:
        return "zero gradient"
    if row["moved"] == 0:
        return "does not move"
    return "old gradient" if row["old"] else None


# %% judge
def judge(rows):
    """Say what is found on the weights: on all parameters but biases."""
    names = [name for name in rows if "bias" not in name.split(".")[-1]]
    found = {judged(rows[name]) for name in names} - {None}
    moves = torch.tensor([rows[name]["moved"] for name in names])
    if not found and not 1e-4 < moves.quantile(0.5) < 1:
        found = {"step size"}
    return {"found": sorted(found)}


# %% gradients-called
model, loss_function, step = begin()
rows = gradients(model, step, *batch)
for row in rows.values():
    show(row)
show(judge(rows))


# %% train
def train(step, inputs, targets, epochs=12, size=80):
    losses = []
    for _ in range(epochs):
        batches = zip(inputs.split(size), targets.split(size), strict=True)
        seen = [step(*batch) for batch in batches]
        losses.append(sum(seen) / len(seen))
    return losses


training, validation = (images, digits), (new_images, new_digits)


# %% rates
ends = {}
for rate in (0.0001, 0.001, 0.01, 0.1, 1.0):
    model, loss_function, step = begin(rate=rate)
    ends[rate] = train(step, *training)[-1]
show(ends)


# %% measure
def measure(model, loss_function, batch, mode):
    outputs = answer(model, batch[0], mode)
    return loss_function(outputs, batch[1]).item(), chance(outputs, batch[1])


# %% after
def after(model, loss_function, old, new):
    trained, blind = measure(model, loss_function, old, mode=False)
    unseen, _ = measure(model, loss_function, new, mode=False)
    by_batch, _ = measure(model, loss_function, old, mode=True)
    both = distinct(torch.cat([old[0], new[0]]))
    signs = {"worse on new data": unseen - trained > blind / 5}
    signs["worse in evaluation"] = trained - by_batch > blind / 5
    signs["shared"] = both < distinct(old[0]) + distinct(new[0])
    found = [sign for sign, seen in signs.items() if seen]
    losses = {"old": trained, "old, by batch": by_batch, "new": unseen}
    return {**losses, "found": found}


# %% after-called
model, loss_function, step = begin()
train(step, *training)
show(after(model, loss_function, training, validation))


# %% healthy
def convolution(momentum=0.1):
    norm = nn.BatchNorm2d(8, momentum=momentum)
    layers = nn.Conv2d(1, 8, 3), norm, nn.ReLU(), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(288, 10))


def squared(outputs, targets):
    return (outputs - targets).square().mean()


number = {"make": partial(network, 1), "loss": squared}
healthy = {"network": {}, "convolution": {"make": convolution}}
healthy["a number"] = {**number, "training": (images, places)}
healthy["a number"]["validation"] = new_images, new_places


# %% faulty-losses
# Wrong on purpose: do not copy.
def softmax_first(outputs, targets):
    return F.cross_entropy(outputs.softmax(1), targets)


of_places = {**number, "training": (images, places[:, 0])}
of_places["validation"] = new_images, new_places[:, 0]
faults = {
    "softmax first": ("right_answers", {"loss": softmax_first}),
    "(N, 1) and (N,)": ("right_answers", of_places),
}


# %% faulty-steps
# Wrong on purpose: do not copy.
def faulty_step(reset, model, optimizer, loss_function, inputs, targets):
    loss = loss_function(model(inputs), targets)
    loss.backward()
    if reset == "late":
        optimizer.zero_grad()
    optimizer.step()
    return loss.item()


# %% more-faulty-steps
# Wrong on purpose: do not copy.
changes = {
    "zero_grad before step": {"take": partial(faulty_step, "late")},
    "no zero_grad": {"take": partial(faulty_step, "never")},
    "optimizer of the head": {"learns": lambda model: model[3].parameters()},
    "rate too large": {"rate": 1.0},
    "rate too small": {"rate": 1e-6},
}
faults |= {name: ("gradients", change) for name, change in changes.items()}


# %% faulty-models
# Wrong on purpose: do not copy.
class Then(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, inputs):
        return self.function(inputs)


def with_cut(function=torch.detach):
    return network().insert(3, Then(function))


# %% dead
# Wrong on purpose: do not copy.
def dead():
    model = network()
    nn.init.constant_(model[1].bias, -20.0)  # its ReLU gives zeros alone
    return model


faults["graph cut"] = "gradients", {"make": with_cut}
faults["dead ReLU"] = "gradients", {"make": dead}

# %% faulty-data
# Wrong on purpose: do not copy.
torch.manual_seed(2)
mixed = digits[torch.randperm(400)]
one_image = images[:1].expand_as(images)
trainings = {
    "pixels up to 255": ("look", (255 * images, digits)),
    "one image": ("look", (one_image, digits)),
    "labels shuffled": ("neighbors", (images, mixed)),
    "30 images": ("after", (images[:30], digits[:30])),
}
for name, (check, data) in trainings.items():
    faults[name] = check, {"training": data}

# %% faulty-validation
# Wrong on purpose: do not copy.
lagging = partial(convolution, momentum=0.001)
faults["BatchNorm lags"] = "after", {"make": lagging}
leak = {"validation": (images[200:], digits[200:])}
faults["old images as new"] = "after", leak


# %% curve
def curve(training=training, validation=validation, **changes):
    """Return the losses of twelve epochs, and what chance gives."""
    model, loss_function, step = begin(**changes)
    old, new = [], []
    for _ in range(12):
        old += train(step, *training, epochs=1)
        loss, blind = measure(model, loss_function, validation, mode=False)
        new.append(loss)
    return old, new, blind


# %% curves
shapes = {"healthy": {}, "rate 0.001": {"rate": 0.001}}
shapes |= {name: changes for name, (_, changes) in faults.items()}
seen = ["healthy", "zero_grad before step", "(N, 1) and (N,)"]
seen += ["softmax first", "rate 0.001", "rate too large"]
seen += ["no zero_grad", "labels shuffled"]

# %% curves-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(2, 4, figsize=(8, 4.2), layout="constrained")
for axes, name in zip(panels.flat, seen, strict=True):
    old, new, blind = curve(**shapes[name])
    axes.plot(old, "-", color="#0072B2", label="training")
    axes.plot(new, "--", color="#D55E00", label="validation")
    axes.axhline(blind, color="k", linestyle=":", zorder=0, label="chance")
    axes.set(ylim=(0, 1.6 * blind), xticks=[])
    axes.set_title(name, fontsize="medium")
labels = panels[0, 0].get_legend_handles_labels()
figure.legend(*labels, loc="outside lower center", ncols=3)
figure.suptitle("The loss over twelve epochs: one healthy program, seven not")
plt.show()


# %% examine
checks = {each.__name__: each for each in (at_start, one_batch, look)}
checks |= {"neighbors": neighbors, "right_answers": right_answers}
checks |= {"gradients": lambda *given: judge(gradients(*given))}
checks["after"] = after


def examine(check, training=training, validation=validation, **changes):
    """Return what one check finds in a program that begins anew."""
    model, loss_function, step = begin(**changes)
    few = [part[:32] for part in training]
    if check == "after":
        train(step, *training)
    given = {"one_batch": (step, *few, 60), "gradients": (model, step, *few)}
    given |= {"look": training, "neighbors": training}
    given["after"] = model, loss_function, training, validation
    usual = model, loss_function, *few
    return checks[check](*given.get(check, usual))["found"]


# %% matrix
import pandas as pd

programs = healthy | {name: fault[1] for name, fault in faults.items()}
rows = {
    program: {name: "●" * bool(examine(name, **changes)) for name in checks}
    for program, changes in programs.items()
}

pd.DataFrame.from_dict(rows, orient="index")


# %% first-weight
def first_weight(training=training, validation=None, **changes):
    model, _, step = begin(**changes)
    few = (part[:32] for part in training)
    row = gradients(model, step, *few)["1.weight"]
    return {**row, **judge({"1.weight": row})}


# %% first-weights
import pandas as pd

rows = {"healthy": first_weight()}
for name, (check, changes) in faults.items():
    if check == "gradients":
        rows[name] = first_weight(**changes)
for row in rows.values():
    row["moved"] = round(row["moved"], 6)
    row["gradient"] = str(row["gradient"])[:6]
    row["found"] = ", ".join(row["found"])

pd.DataFrame.from_dict(rows, orient="index")

# %% cuts
# Wrong on purpose: do not copy.
cuts = {
    "x.detach()": torch.detach,
    "torch.tensor(x.tolist())": lambda x: torch.tensor(x.tolist()),
    "one_hot(x.argmax(1))": lambda x: F.one_hot(x.argmax(1), 64).float(),
    "(x > 0).float()": lambda x: (x > 0).float(),
    "x.round()": torch.round,
    "x.sign()": torch.sign,
}
behind = {}
for name, function in cuts.items():
    row = first_weight(make=partial(with_cut, function))
    behind[name] = row["gradient"]
    print(f"{name:25}", row["gradient"])

# %% broadcast
# Wrong on purpose: do not copy.
model, loss_function, step = begin(**number)
few, row = images[:32], places[:32, 0]
print("outputs", tuple(model(few).shape), "targets", tuple(row.shape))
crossed = right_answers(model, loss_function, few, row)
show(crossed)

# %% column
column = row[:, None]
fixed = right_answers(model, loss_function, few, column)
show(fixed)


# %% trained
def trained(training=training, validation=validation, **changes):
    model, loss_function, step = begin(**changes)
    train(step, *training)
    return after(model, loss_function, training, validation)


# %% generalize
import pandas as pd

rows = {"healthy": trained()}
for name, (check, changes) in faults.items():
    if check in ("after", "neighbors"):
        rows[name] = trained(**changes)
for row in rows.values():
    row["found"] = ", ".join(row["found"])

pd.DataFrame.from_dict(rows, orient="index").round(3)

# %% limits
few_wrong = digits.clone()
few_wrong[:40] = (few_wrong[:40] + 1) % 10
unnoticed = {name: examine(name, (images, few_wrong)) for name in checks}
print(unnoticed)

smoothed = partial(F.cross_entropy, label_smoothing=0.1)
alarm = examine("right_answers", loss=smoothed)
print(alarm)
