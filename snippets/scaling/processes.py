"""
Train on several GPUs: DistributedDataParallel
==============================================

Two processes train one model, and DDP in seven lines.
"""

# %% do-this
changes = """\
+ dist.init_process_group(backend)
+ torch.manual_seed(dist.get_rank())
- model = make_model().to(device)
+ model = DDP(make_model().to(device))
  optimizer = optim.SGD(model.parameters(), lr=0.5)
- loader = DataLoader(train, 100, shuffle=True)
+ sampler = DistributedSampler(train)
+ loader = DataLoader(train, 50, sampler=sampler)
  for epoch in range(10):
+     sampler.set_epoch(epoch)
      for images, labels in loader:
          images, labels = images.to(device), labels.to(device)
          loss = F.cross_entropy(model(images), labels)
          optimizer.zero_grad()
          loss.backward()
          optimizer.step()
"""
print(changes)


# %% train-py
before = """\
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

here = int(os.environ["LOCAL_RANK"])  # torchrun sets it
if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
    device, backend = torch.device("cuda", here), "nccl"
    torch.cuda.set_device(device)  # one GPU for each process
else:
    device, backend = torch.device("cpu"), "gloo"

found = load_digits()
pixels = torch.tensor(found.data, dtype=torch.float32) / 16
digits = TensorDataset(pixels, torch.tensor(found.target))
train, valid = Subset(digits, range(1200)), Subset(digits, range(1200, 1797))


def make_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


"""
after = """
rank, count = dist.get_rank(), dist.get_world_size()
mine = Subset(valid, range(rank, len(valid), count))
totals = torch.zeros(2, dtype=torch.int64, device=device)
model.eval()
with torch.no_grad():
    for images, labels in DataLoader(mine, 100):
        answers = model.module(images.to(device)).argmax(1).cpu()
        right = (answers == labels).sum()
        totals += torch.tensor([right, len(labels)], device=device)
dist.all_reduce(totals)  # now the sums over all processes

if rank == 0:
    torch.save(model.module.state_dict(), "model.pt")
    print(f"{totals[0]} of {totals[1]} are right, with {count} processes")
dist.barrier()  # from here on, the file is there
dist.destroy_process_group()
"""


def lines_with(sign):
    lines = changes.splitlines(keepends=True)
    return "".join(line[2:] for line in lines if line[0] in (" ", sign))


train_py = before + lines_with("+") + after
print(train_py)


# %% torchrun
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory


def torchrun(program, count=2):
    here = ["--standalone", "--local-addr=127.0.0.1"]  # asks for no name
    options = [*here, f"--nproc-per-node={count}", "train.py"]
    command = [sys.executable, "-m", "torch.distributed.run", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(program)
        with subprocess.Popen(command, cwd=folder, text=True, **pipes) as run:
            try:
                said, _ = run.communicate(timeout=300)
            finally:
                run.terminate()  # if it takes too long, with its processes
        return said, sorted(each.name for each in Path(folder).iterdir())


# %% run-train-py
said, files = torchrun(train_py)
print(said)
print(files)


# %% digits
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

found = load_digits()
pixels = torch.tensor(found.data, dtype=torch.float32) / 16
digits = TensorDataset(pixels[:1200], torch.tensor(found.target)[:1200])


def make_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


# %% start
import os
import tempfile
from datetime import timedelta

import torch._dynamo  # or each process would import it for DDP, slowly
import torch.multiprocessing as mp


def process(rank, work, count, folder, timeout):
    os.chdir(folder)
    torch.set_num_threads(1)
    store = dist.FileStore("store", count)
    common = {"store": store, "timeout": timedelta(seconds=timeout)}
    dist.init_process_group("gloo", rank=rank, world_size=count, **common)
    torch.save(work(rank), f"{rank}.pt")
    store.set(f"done {rank}", "")
    store.wait([f"done {each}" for each in range(count)])


def start(work, count=2, timeout=30):
    with tempfile.TemporaryDirectory() as folder:
        inputs, fork = (work, count, folder, timeout), {"start_method": "fork"}
        mp.start_processes(process, inputs, count, daemon=True, **fork)
        return [torch.load(f"{folder}/{rank}.pt") for rank in range(count)]


# %% by-hand
def fit_by_hand(model, loader):
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)  # 1
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    for images, labels in loader:
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)  # 2
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        for weight in model.parameters():
            dist.all_reduce(weight.grad)  # 3
            weight.grad /= dist.get_world_size()  # 4
        optimizer.step()


# %% fit
def load(batch_size):
    return DataLoader(digits, batch_size, sampler=DistributedSampler(digits))


def fit(model, loader, epochs=1):
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# %% compare
import copy


def both(rank):
    torch.manual_seed(rank)  # other weights and dropout in each process
    layers = [nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU()]
    ours = nn.Sequential(*layers, nn.Dropout(), nn.Linear(32, 10))
    theirs = copy.deepcopy(ours)
    torch.manual_seed(rank)
    fit_by_hand(ours, load(batch_size=50))
    torch.manual_seed(rank)
    fit(DDP(theirs), load(batch_size=50))
    found = []
    for model in ours, theirs:
        gradients = [weight.grad for weight in model.parameters()]
        found.append([*model.state_dict().values(), *gradients])
    return found


compared = start(both)
for rank, (ours, theirs) in enumerate(compared):
    equal = [a.equal(b) for a, b in zip(ours, theirs, strict=True)]
    print(f"rank {rank}: {sum(equal)} of {len(equal)} tensors are equal")


# %% toy
rents = [1.0, 3.0]  # one for each process, in thousands


def make_toy():
    layer = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


def loss_of(call, *rents):
    inputs = torch.ones(len(rents), 1)
    return F.mse_loss(call(inputs), torch.tensor(rents)[:, None])


# %% walked
def gradients_of(rank):
    layer = make_toy()
    loss_of(layer, rents[rank]).backward()
    gradient, found = layer.weight.grad, [layer.weight.grad.item()]
    dist.all_reduce(gradient)  # 3
    found.append(gradient.item())
    gradient /= dist.get_world_size()  # 4
    found.append(gradient.item())
    model = DDP(make_toy())
    loss = loss_of(model, rents[rank])
    loss.backward()
    return found, model.module.weight.grad.item()


walked, gradients = zip(*start(gradients_of), strict=True)
for rank, (own, summed, mean) in enumerate(walked):
    print(f"rank {rank}: own {own}, line 3 {summed}, line 4 {mean}", end="")
    print(f", DDP {gradients[rank]}")


# %% equal
def work(rank):
    torch.manual_seed(rank)
    model = DDP(make_model())
    fit(model, load(batch_size=50), epochs=3)
    return model.module.state_dict()


def work_alone(rank):
    torch.manual_seed(rank)
    model = make_model()
    fit(model, load(batch_size=100), epochs=3)
    return model.state_dict()


trained, [alone] = start(work), start(work_alone, count=1)
for rank, weights in enumerate(trained):
    apart = max((weights[name] - alone[name]).abs().max() for name in alone)
    print(f"rank {rank} is less than 1e-4 apart from one: {apart < 1e-4}")


# %% noise
def noise(rank, seed):
    torch.manual_seed(seed)
    model = DDP(nn.Linear(1, 1))
    weight = round(model.module.weight.item(), 3)
    return weight, F.dropout(torch.ones(8)).tolist()


def two_seeds(rank):
    return noise(rank, seed=0), noise(rank, seed=rank)


same, different = zip(*start(two_seeds), strict=True)
for seed, drawn in ("0", same), ("rank", different):
    for rank, (weight, dropped) in enumerate(drawn):
        print(f"seed {seed}, rank {rank}: weight {weight}, dropout {dropped}")


# %% statistics
def statistics(rank):
    model = DDP(nn.BatchNorm1d(1))
    batch = torch.tensor([[1.0], [3.0]]) + 10 * rank
    outputs = model(batch).flatten()
    mean = model.module.running_mean.clone()
    model.eval()(batch)
    return outputs.detach(), mean, model.module.running_mean


normalized, means, later = zip(*start(statistics), strict=True)
print("outputs:", *[each.round(decimals=2).tolist() for each in normalized])
print("running means:", *[round(each.item(), 2) for each in means])
print("at the next call:", *[round(each.item(), 2) for each in later])


# %% walks
# Wrong on purpose: do not copy.
def walk(rank, call_of):
    model = DDP(make_toy())
    weight, path = model.module.weight, [0.0]
    for _ in range(12):
        model.zero_grad()
        loss_of(call_of(model), rents[rank]).backward()
        with torch.no_grad():
            weight -= 0.15 * weight.grad
        path.append(weight.item())
    return path


def both_ways(rank):
    together = walk(rank, lambda model: model)
    return together, walk(rank, lambda model: model.module)


together, apart = zip(*start(both_ways), strict=True)
for title, paths in ("model(...)", together), ("model.module(...)", apart):
    print(
        f"{title}: the weights end at", *[f"{path[-1]:.2f}" for path in paths]
    )


# %% walks-drawn
import matplotlib.pyplot as plt

ways = {"model(...)": (together, "-"), "model.module(...)": (apart, "--")}
for way, (paths, style) in ways.items():
    for rank, color in enumerate(("#0072B2", "#D55E00")):
        label = f"{way}, rank {rank}"
        width = 6 if (rank, style) == (0, "-") else 2
        plt.plot(paths[rank], style, c=color, lw=width, label=label)
plt.title("Called as model, both processes go to the mean of 1 and 3")
plt.xlabel("step")
plt.ylabel("weight")
plt.legend()
plt.show()


# %% orders
# Wrong on purpose: do not copy.
def forgetful(rank):
    sampler = DistributedSampler(range(8))
    return [list(sampler) for epoch in range(2)]


repeated = start(forgetful)
for rank, (first, second) in enumerate(repeated):
    print(f"rank {rank} reads {first}, then {second}")


# %% padded
# Wrong on purpose: do not copy.
right = torch.tensor([0, 1, 1, 1, 1])  # the first answer is wrong


def padded(rank):
    mine = list(DistributedSampler(right, shuffle=False))
    totals = torch.tensor([right[mine].sum(), len(mine)])
    dist.all_reduce(totals)
    return mine, totals.tolist()


halves, [wrong_totals, _] = zip(*start(padded), strict=True)
print("the processes read", *halves)
print("{} of {} are right".format(*wrong_totals))


# %% exact
scores = [[0.9, 0.1, 0.4], [0.7, 0.2]]  # of the samples in each process


def exact(rank):
    mine = range(rank, len(right), dist.get_world_size())
    totals = torch.tensor([right[mine].sum(), len(mine)])
    dist.all_reduce(totals)  # now the sums over all processes
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, scores[rank])  # now the lists of all
    return totals.tolist(), [score for part in parts for score in part]


exact_totals, complete = zip(*start(exact), strict=True)
print("{} of {} are right".format(*exact_totals[0]))
print("all scores:", complete[0])


# %% unequal
parts = [[1.0, 1.0, 1.0], [3.0]]  # the rents in each process


def unequal(rank):
    model, summed = DDP(make_toy()), DDP(make_toy())
    loss_of(model, *parts[rank]).backward()
    loss = len(parts[rank]) * loss_of(summed, *parts[rank])  # a sum
    loss.backward()
    return [each.module.weight.grad.item() for each in (model, summed)]


def whole(rank):
    layer, summed = make_toy(), make_toy()
    loss_of(layer, *parts[0], *parts[1]).backward()
    (4 * loss_of(summed, *parts[0], *parts[1])).backward()
    return [each.weight.grad.item() for each in (layer, summed)]


unequal_gradients, whole_gradients = start(unequal), start(whole, count=1)
print("two processes: mean {}, sum {}".format(*unequal_gradients[0]))
print("one process:   mean {}, sum {}".format(*whole_gradients[0]))


# %% error-of
import re


def error_of(call):
    try:
        call()
    except RuntimeError as error:
        return re.sub(r"\[\S+:\d+\] ", "", str(error))  # without paths
    return "no error"


# %% unused
# Wrong on purpose: do not copy.
class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.spare = make_toy(), nn.Linear(1, 1)

    def forward(self, inputs):
        return self.head(inputs)


def two_steps(rank, **options):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "INFO"  # names parameters
    dist.set_debug_level_from_env()
    model = DDP(TwoHeads(), **options)
    loss_of(model, rents[rank]).backward()
    gradient = model.module.head.weight.grad.item()
    return gradient, error_of(lambda: loss_of(model, rents[rank]))


unused = start(two_steps)
print("gradients of the first step:", *[first for first, _ in unused])
print(unused[0][1])


# %% found
found_unused = start(lambda rank: two_steps(rank, find_unused_parameters=True))
print(found_unused)


# %% uneven
# Wrong on purpose: do not copy.
def uneven(rank):
    model = DDP(make_toy())

    def train():
        for _ in range(3 - rank):  # three batches on rank 0, two on rank 1
            loss_of(model, 1.0).backward()

    return error_of(train)


hang = start(uneven, timeout=3)
print(hang[0].replace("3000ms", "...ms"), hang[1], sep="\n")


# %% accumulate
def accumulate(rank):
    model = DDP(make_toy())
    with model.no_sync():
        loss_of(model, rents[rank]).backward()
    first = model.module.weight.grad.item()
    loss_of(model, rents[rank]).backward()
    return first, model.module.weight.grad.item()


accumulated = start(accumulate)
print(accumulated)


# %% start-apart
def start_apart(rank):
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 5.0 if rank == 0 else 9.0)
    return DDP(layer).module.weight.item()


begun = start(start_apart)
print(begun)


# %% mean-of-all
def mean_of_all(values):
    sums = [values.sum(), len(values)]
    totals = torch.tensor(sums, device=values.device)
    dist.all_reduce(totals)
    return (totals[0] / totals[1]).item()


# %% mean-of-all-checked
values = [torch.ones(3), torch.full((1,), 3.0)]
answers = start(lambda rank: mean_of_all(values[rank]))
if answers == [1.5, 1.5]:
    print("Right: both processes know the mean of all four,", answers[0])
else:
    print("Not yet: both should be 1.5, and they are", answers)
