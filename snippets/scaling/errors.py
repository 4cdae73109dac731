"""
Fix errors of torchrun and DDP
==============================

What several processes raise, what they print, and what they hide.
"""

# %% local-rank
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", "--local_rank", type=int, default=0)
ranks = [
    parser.parse_args([argument]).local_rank
    for argument in ("--local-rank=1", "--local_rank=1")
]
print(ranks)

# %% no-group
import re

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data.distributed import DistributedSampler


def error_of(call):
    try:
        call()
    except (AttributeError, RuntimeError, ValueError) as error:
        return re.sub(r"\[\S+:\d+\] ", "", str(error))  # without paths
    return "no error"


# Wrong on purpose: before init_process_group.
too_early = [
    error_of(lambda: DDP(nn.Linear(1, 1))),
    error_of(lambda: DistributedSampler(range(8))),
    error_of(lambda: dist.all_reduce(torch.ones(1))),
]
print(*too_early, sep="\n")

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


# %% encoder
class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(1, 1, bias=False)
        self.decoder = nn.Linear(1, 1, bias=False)

    def encode(self, inputs):
        return self.encoder(inputs)

    def forward(self, inputs):
        return self.decoder(self.encode(inputs))


# %% attribute
# Wrong on purpose: do not copy.
def encode_apart(rank):
    model, inputs = DDP(Autoencoder()), torch.tensor([[1.0 + 2 * rank]])
    error = error_of(lambda: model.encode(inputs))
    model.module.encode(inputs).sum().backward()
    return error, model.module.encoder.weight.grad.item()


(attribute_error, first), (_, second) = start(encode_apart)
print(attribute_error)
print("gradients:", first, second)

# %% weighted
from torch.utils.data import WeightedRandomSampler

weights = [1.0] * 9 + [3.0] * 3  # samples 9, 10 and 11 are rare


def draws(epoch, rank, count):
    generator = torch.Generator().manual_seed(epoch)
    number = len(weights) // count * count  # as many for each process
    sampler = WeightedRandomSampler(weights, number, generator=generator)
    return list(sampler)[rank::count]


parts = [draws(epoch=0, rank=rank, count=2) for rank in range(2)]
for rank, part in enumerate(parts):
    print(f"rank {rank} reads {part}")

# %% weighted-drawn
import matplotlib.pyplot as plt

for rank, color in enumerate(("#0072B2", "#D55E00")):
    places = range(rank, 12, 2)
    plt.scatter(places, parts[rank], c=color, label=f"rank {rank}")
plt.axhspan(8.5, 11.5, alpha=0.15, label="the rare samples")
plt.title("Both processes draw one list, and read every second draw of it")
plt.xlabel("place in the list")
plt.ylabel("sample")
plt.legend()
plt.show()


# %% losses
def losses(rank):
    loss = torch.tensor([1.0, 3.0][rank])  # of this process's samples
    mean = loss.clone()
    dist.all_reduce(mean)
    stop = torch.tensor(int(loss < 2))  # only rank 0 wants to stop
    dist.all_reduce(stop, op=dist.ReduceOp.MAX)
    return loss.item(), mean.item() / dist.get_world_size(), stop.item()


printed = start(losses)
for rank, (loss, mean, stop) in enumerate(printed):
    print(f"rank {rank}: loss {loss}, mean {mean}, stop {bool(stop)}")


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
        error_of(lambda: first(torch.ones(1, 1)).sum().backward()),
        error_of(lambda: second(torch.ones(1, 1)).sum().backward()),
    ]


def both_kinds(rank):
    return recomputed(reentrant=True), recomputed(reentrant=False)


[(reentrant, others)] = start(both_kinds, count=1)  # one is enough
for error in reentrant + others:
    print(error.partition(".")[0])


# %% taken
import socket

with socket.create_server(("127.0.0.1", 0)) as other:  # another program
    port = other.getsockname()[1]
    at = {"init_method": f"tcp://127.0.0.1:{port}", "rank": 0, "world_size": 1}
    taken = error_of(lambda: dist.init_process_group("gloo", **at))
print(taken.replace(str(port), "29500"))


# %% missing-key
import warnings

import torch.distributed.checkpoint as dcp

# All of this runs in one process, without a process group.
warnings.filterwarnings("ignore", message="torch.distributed is")
warnings.filterwarnings("ignore", message="TypedStorage is deprecated")


def caught_by(kind, call):
    try:
        call()
    except kind as error:
        return str(error).strip().rpartition("\n")[2]


saved, larger = nn.Linear(2, 2, bias=False), nn.Linear(2, 2)
with tempfile.TemporaryDirectory() as folder:
    dcp.save({"model": saved.state_dict()}, checkpoint_id=folder)
    state, empty = {"model": larger.state_dict()}, {}
    error = caught_by(
        BaseException, lambda: dcp.load(state, checkpoint_id=folder)
    )
    loaded_then = torch.equal(larger.weight, saved.weight)

    dcp.load(empty, checkpoint_id=folder)

    planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    old_bias = larger.bias.detach().clone()
    dcp.load(state, checkpoint_id=folder, planner=planner)
print(error)
print("an empty dict becomes", empty)
print("weight loaded:", loaded_then, torch.equal(larger.weight, saved.weight))
print("bias as it was:", torch.equal(larger.bias, old_bias))

# %% predict-parts
print([draws(epoch=0, rank=rank, count=3) for rank in range(3)])
