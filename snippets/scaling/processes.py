"""
Train with several processes
============================

Two processes train one model, and what goes wrong silently when they do.
"""

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
images = torch.tensor(found.data, dtype=torch.float32) / 16
digits = TensorDataset(images[:1200], torch.tensor(found.target)[:1200])


def make_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


# %% fit
def fit(model, sampler, batch_size):
    loader = DataLoader(digits, batch_size, sampler=sampler)
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(3):
        sampler.set_epoch(epoch)  # a new order in each epoch
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# %% do-this
def work(rank):
    torch.manual_seed(rank)
    model = DDP(make_model())
    fit(model, DistributedSampler(digits), batch_size=50)
    return model.module.state_dict()


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


# %% trained
trained = start(work)
for name, weight in trained[0].items():
    print(name, "is the same:", torch.equal(weight, trained[1][name]))


# %% alone
def work_alone(rank):
    torch.manual_seed(rank)
    model = make_model()
    fit(model, DistributedSampler(digits), batch_size=100)
    return model.state_dict()


[alone] = start(work_alone, count=1)
apart = max((trained[0][name] - alone[name]).abs().max() for name in alone)
print(f"largest difference: {apart:.0e}")

# %% train-py
train_py = """import os

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

here = int(os.environ["LOCAL_RANK"])  # the number on this machine
if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
    device = torch.device("cuda", here)  # one GPU for each process
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
else:
    device = torch.device("cpu")
    dist.init_process_group("gloo")
rank, count = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)  # the same points in each process
points = 2 * torch.rand(1797, 2) - 1
data = TensorDataset(points, (points.norm(dim=1) < 0.8).long())
train, valid = Subset(data, range(1200)), Subset(data, range(1200, 1797))

torch.manual_seed(rank)
layers = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
model = DDP(layers.to(device))
optimizer = optim.SGD(model.parameters(), lr=0.5)
sampler = DistributedSampler(train)
loader = DataLoader(train, 100 // count, sampler=sampler)
for epoch in range(10):
    sampler.set_epoch(epoch)
    for points, labels in loader:
        loss = F.cross_entropy(model(points.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

mine = Subset(valid, range(rank, len(valid), count))
totals = torch.zeros(2, dtype=torch.int64, device=device)
model.eval()
with torch.inference_mode():
    for points, labels in DataLoader(mine, 100):
        right = model.module(points.to(device)).argmax(1).cpu() == labels
        totals += torch.tensor([right.sum(), len(labels)]).to(device)
dist.all_reduce(totals)  # now the same in each process

if rank == 0:
    torch.save(model.module.state_dict(), "model.pt")
    print(f"{totals[0]} of {totals[1]} are right, with {count} processes")
dist.barrier()  # from here on, the file is there
dist.destroy_process_group()
"""
print(train_py)

# %% torchrun
import subprocess
import sys
from pathlib import Path


def torchrun(program, count=2):
    here = ["--standalone", "--local-addr=127.0.0.1"]  # asks for no name
    options = [*here, f"--nproc-per-node={count}", "train.py"]
    command = [sys.executable, "-m", "torch.distributed.run", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as folder:
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


# %% toy
targets = [1.0, 3.0]  # one for each process


def make_toy():
    layer = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


def loss_of(call, *targets):
    inputs = torch.ones(len(targets), 1)
    return F.mse_loss(call(inputs), torch.tensor(targets)[:, None])


# %% by-hand
def gradient(rank):
    model = DDP(make_toy())
    loss = loss_of(model, targets[rank])
    loss.backward()
    return model.module.weight.grad.item()


gradients = start(gradient)
print(gradients)


# %% walk
def walk(rank, call_of):
    model = DDP(make_toy())
    weight, path = model.module.weight, []
    for _ in range(12):
        path.append(weight.item())
        model.zero_grad()
        loss_of(call_of(model), targets[rank]).backward()
        with torch.no_grad():
            weight -= 0.15 * weight.grad
    return path


# %% walks
def both_ways(rank):
    together = walk(rank, lambda model: model)
    return together, walk(rank, lambda model: model.module)


together, apart = zip(*start(both_ways), strict=True)

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
def orders(rank):
    sampler = DistributedSampler(range(8))
    found = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        found.append(list(sampler))
    return found


shuffled = start(orders)
for rank, (first, second) in enumerate(shuffled):
    print(f"rank {rank} reads {first}, then {second}")


# %% forgotten-set-epoch
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
def exact(rank):
    mine = range(rank, len(right), dist.get_world_size())
    totals = torch.tensor([right[mine].sum(), len(mine)])
    dist.all_reduce(totals)  # now the sums over all processes
    return totals.tolist()


exact_totals = start(exact)
print("{} of {} are right".format(*exact_totals[0]))


# %% gathered
scores = [[0.9, 0.1, 0.4], [0.7, 0.2]]  # of the samples in each process


def gathered(rank):
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, scores[rank])
    return [score for part in parts for score in part]


complete = start(gathered)
print(complete[0])


# %% unequal
parts = [[1.0, 1.0, 1.0], [3.0]]  # the targets of each process


def unequal(rank):
    model = DDP(make_toy())
    loss_of(model, *parts[rank]).backward()
    return model.module.weight.grad.item()


unequal_gradients = start(unequal)
print("two processes:", unequal_gradients)


def whole(rank):
    layer = make_toy()
    loss_of(layer, *parts[0], *parts[1]).backward()
    return layer.weight.grad.item()


whole_gradients = start(whole, count=1)
print("one process:  ", whole_gradients)


# %% summed
def summed(rank):
    model = DDP(make_toy())
    (2 * loss_of(model, *[targets[rank]] * 2)).backward()  # a sum, not a mean
    return model.module.weight.grad.item()


summed_gradients = start(summed)
print(summed_gradients)


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


# %% noise
def noise(rank, seed):
    torch.manual_seed(seed)
    model = DDP(nn.Linear(1, 1))
    return model.module.weight.item(), F.dropout(torch.ones(8)).tolist()


def two_seeds(rank):
    return noise(rank, seed=0), noise(rank, seed=rank)


same, different = zip(*start(two_seeds), strict=True)
for title, found in ("seed 0", same), ("seed rank", different):
    print(title, *found, sep="\n")


# %% error-of
import re


def error_of(call):
    try:
        call()
    except RuntimeError as error:
        return re.sub(r"\[\S+:\d+\] ", "", str(error))  # without paths
    return "no error"


# %% two-heads
class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.spare = make_toy(), nn.Linear(1, 1)

    def forward(self, inputs):
        return self.head(inputs)


# %% unused
# Wrong on purpose: do not copy.
def two_steps(rank, **options):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "INFO"  # names parameters
    dist.set_debug_level_from_env()
    model = DDP(TwoHeads(), **options)
    loss_of(model, targets[rank]).backward()
    gradient = model.module.head.weight.grad.item()
    return gradient, error_of(lambda: loss_of(model, targets[rank]))


unused = start(two_steps)
print("gradients of the first step:", *[first for first, _ in unused])
print(unused[0][1])

# %% found
found_unused = start(lambda rank: two_steps(rank, find_unused_parameters=True))
print(found_unused)


# %% recompute
from torch.utils.checkpoint import checkpoint


class Recomputed(nn.Module):
    def __init__(self, times, **options):
        super().__init__()
        self.first, self.layer = nn.Linear(1, 1), nn.Linear(1, 1)
        self.times, self.options = times, options

    def forward(self, inputs):
        hidden = self.first(inputs)
        for _ in range(self.times):
            hidden = checkpoint(self.layer, hidden, **self.options)
        return hidden


# %% recomputed
def recomputed(reentrant):
    once = Recomputed(1, use_reentrant=reentrant)
    twice = Recomputed(2, use_reentrant=reentrant)
    first, second = DDP(once, find_unused_parameters=True), DDP(twice)
    return [
        error_of(lambda: loss_of(first, 1.0).backward()),
        error_of(lambda: loss_of(second, 1.0).backward()),
    ]


def both_kinds(rank):
    return recomputed(reentrant=True), recomputed(reentrant=False)


[(reentrant, others)] = start(both_kinds, count=1)  # one is enough
for error in reentrant + others:
    print(error.partition(".")[0])


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


# %% missing
def missing(rank):
    second = timedelta(seconds=1)
    if rank != 1:  # process 1 never comes to the barrier
        return error_of(lambda: dist.monitored_barrier(timeout=second))


who = start(missing)
print(who[0].partition(" in ")[0])


# %% mismatch
# Wrong on purpose: do not copy.
def mismatch(rank):
    table = torch.tensor([[1, 2, 3], [4, 5, 6]])
    if rank == 1:
        table = table.T.contiguous()  # 3 rows, by mistake
    total = table.clone()
    dist.all_reduce(total)
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    group = dist.new_group()  # groups that are made from now on are checked
    return total, error_of(lambda: dist.all_reduce(table, group=group))


(mixed, error), (_, other_error) = start(mismatch)
print(mixed.tolist())
print(error.partition(".")[0], error.rpartition(".")[2], sep="\n")

# %% taken
import socket

with socket.create_server(("127.0.0.1", 0)) as other:  # another program
    port = other.getsockname()[1]
    at = {"init_method": f"tcp://127.0.0.1:{port}", "rank": 0, "world_size": 1}
    taken = error_of(lambda: dist.init_process_group("gloo", **at))
print(taken.replace(str(port), "29500"))


# %% accumulate
def accumulate(rank):
    model = DDP(make_toy())
    with model.no_sync():
        loss_of(model, targets[rank]).backward()
    first = model.module.weight.grad.item()
    loss_of(model, targets[rank]).backward()
    return first, model.module.weight.grad.item()


accumulated = start(accumulate)
print(accumulated)


# %% save
def save(rank):
    if rank == 0:
        torch.save(make_model().state_dict(), "digits.pt")
    dist.barrier()  # no process goes on before all are here
    return Path("digits.pt").exists()


there = start(save)
print(there)


# %% start-apart
def start_apart(rank):
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 5.0 if rank == 0 else 9.0)
    return DDP(layer).module.weight.item()


begun = start(start_apart)
print(begun)


# %% mean-of-all
def mean_of_all(values):
    totals = torch.tensor([values.sum(), len(values)])
    dist.all_reduce(totals)
    return (totals[0] / totals[1]).item()


# %% mean-of-all-checked
values = [torch.ones(3), torch.full((1,), 3.0)]
answers = start(lambda rank: mean_of_all(values[rank]))
if answers == [1.5, 1.5]:
    print("Right: both processes know the mean of all four,", answers[0])
else:
    print("Not yet: both should be 1.5, and they are", answers)
