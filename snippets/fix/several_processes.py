"""
Several processes or GPUs
=========================

Errors of several processes and GPUs, each with what mends it.
"""

# %% no-nccl
from datetime import timedelta

import torch.distributed as dist

started = []
for backend in ("nccl", "gloo"):
    alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    limit = timedelta(seconds=30)
    try:
        dist.init_process_group(backend, timeout=limit, **alone)
        started.append(backend)
        dist.destroy_process_group()
    except (RuntimeError, ValueError) as error:
        print(f"{error}\n")
print("started:", *started)

# %% no-rank
raised = ""
try:
    dist.init_process_group("gloo")  # without torchrun
except ValueError as error:
    raised = str(error)
print(raised)

# %% one-of-two
waited = ""
try:
    dist.TCPStore(  # what init_process_group makes in rank 0
        host_name="127.0.0.1",
        port=0,
        world_size=2,
        is_master=True,
        timeout=timedelta(seconds=1),
    )
except dist.DistStoreError as error:
    waited = str(error)
print(waited.partition(" seconds ")[2])

# %% left-out
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, inputs):
        return self.first(inputs), self.second(inputs)


def one_output(model):
    first, _ = model(torch.ones(4, 2))
    return first.sum()


def both_outputs(model):
    first, second = model(torch.ones(4, 2))
    return (first + second).sum()


def frozen_late(model):
    model.module.second.requires_grad_(False)
    return both_outputs(model)


def two_steps(loss_of, **options):
    try:
        model = DDP(TwoHeads(), **options)
        for _ in range(2):
            loss_of(model).backward()
    except RuntimeError as error:
        return str(error).partition(". ")[0]
    return "no error"


alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
dist.init_process_group("gloo", **alone)
ways = (one_output, frozen_late, both_outputs)
ends = {loss_of.__name__: two_steps(loss_of) for loss_of in ways}
dist.destroy_process_group()
for name, end in ends.items():
    print(f"{name}: {end}")


# %% on-the-cpu
outcomes = {}
for backend in ("cuda:gloo", "cpu:gloo"):
    alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group(backend, **alone)
    try:
        dist.all_reduce(torch.ones(1))  # a tensor on the CPU
        outcomes[backend] = ""
    except RuntimeError as error:
        outcomes[backend] = str(error)
    dist.destroy_process_group()
print(outcomes["cuda:gloo"])


# %% wrapped
class Encoder(nn.Linear):
    def encode(self, inputs):
        return self(inputs).relu()


model = nn.DataParallel(Encoder(2, 2))
inputs = torch.ones(1, 2, device=next(model.parameters()).device)
missing = ""
try:
    model.encode(inputs)
except AttributeError as error:
    missing = str(error)
codes = model.module.encode(inputs)
print(f"{missing}\n")

print(codes.shape)
print([*model.state_dict()], [*model.module.state_dict()])

# %% two-dtypes
import warnings

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

warnings.filterwarnings("ignore", message="FSDP is switching")


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(2, 2, dtype=torch.bfloat16)
        self.adapter = nn.Linear(2, 2, dtype=torch.float32)

    def forward(self, inputs):
        features = self.base(inputs.to(self.base.weight.dtype))
        return self.adapter(features.to(self.adapter.weight.dtype))


def with_fsdp1(model):
    return FSDP(model, device_id=torch.device("cpu"))


def with_fsdp2(model):
    return fully_shard(model, mesh=init_device_mesh("cpu", (1,)))


def step(shard, model):
    alone = {"store": FakeStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("fake", **alone)  # sends nothing
    try:
        shard(model)(torch.ones(1, 2)).sum().backward()
    except (ValueError, AssertionError) as error:
        return str(error)
    finally:
        dist.destroy_process_group()
    return "no error"


mixed = [step(way, Adapted()) for way in (with_fsdp1, with_fsdp2)]
equal = [step(way, Adapted().bfloat16()) for way in (with_fsdp1, with_fsdp2)]
for error in mixed:
    print(error.partition(" but got")[0], end="\n\n")
print("all in bfloat16:", *equal)
