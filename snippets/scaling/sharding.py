"""
Train a model that does not fit on one GPU
==========================================

Two processes hold half of each weight, and what goes wrong when they do.
"""

# %% data
import torch
import torch.distributed as dist
from torch import nn, optim
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import functional as F

torch.manual_seed(1)
images = torch.rand(600, 64)
labels = images[:, :5].argmax(1)  # only five of ten classes occur


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(64, 64, bias=False) for _ in range(4)]
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(64, 10, bias=False)

    def forward(self, images):
        for layer in self.layers:
            images = images + F.relu(layer(images))
        return self.head(images)

    def predict(self, images):
        return self.forward(images).argmax(1)


def fit(model, optimizer, part=slice(None)):
    for batch in torch.arange(600).split(200):
        mine = batch[part]
        output = model(images[mine])  # on the device of the model
        loss = F.cross_entropy(output, labels[mine].to(output.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# %% do-this
def make_sharded():
    model = Net()
    for layer in model.layers:
        fully_shard(layer)  # first each layer
    fully_shard(model)  # then the model, for what is left
    return model


# %% work
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
)

whole = StateDictOptions(full_state_dict=True, cpu_offload=True)


def work(rank):
    torch.manual_seed(0)  # the same weights in each process
    model = make_sharded()
    optimizer = optim.AdamW(model.parameters())  # after fully_shard
    fit(model, optimizer, slice(rank, None, 2))
    return get_model_state_dict(model, options=whole)


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
def work_alone():
    torch.manual_seed(0)
    model = Net()
    fit(model, optim.AdamW(model.parameters()))
    return model.state_dict()


first, second = start(lambda rank: (work(rank), work_alone()))
trained, alone = first
apart = max((trained[name] - alone[name]).abs().max() for name in alone)
print(f"largest difference: {apart:.0e}")
print("in process 1:", second[0])


# %% shards
def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def bytes_here(model):
    optimizer = optim.AdamW(model.parameters())
    F.cross_entropy(model(images[:100]), labels[:100]).backward()
    optimizer.step()
    totals = dict.fromkeys(["weights", "gradients", "states"], 0)
    for weight, state in optimizer.state.items():
        totals["weights"] += local(weight).nbytes
        totals["gradients"] += local(weight.grad).nbytes
        for name in "exp_avg", "exp_avg_sq":
            totals["states"] += local(state[name]).nbytes
    return totals


# %% measured
def measure(rank):
    model = make_sharded()
    weight = model.head.weight
    shapes = tuple(weight.shape), tuple(local(weight).shape)
    return type(weight).__name__, *shapes, bytes_here(model)


measured = start(measure)
print(*measured, sep="\n")


# %% whole-now
def whole_now(model):
    found = []

    def look(*_):  # which weights are whole at this moment?
        weights = model.parameters()
        found.append([not isinstance(weight, DTensor) for weight in weights])

    def look_in_backward(layer, inputs, outputs):
        outputs.register_hook(look)

    for layer in [*model.layers, model.head]:
        layer.register_forward_pre_hook(look)
        layer.register_forward_hook(look_in_backward)
    F.cross_entropy(model(images[:100]), labels[:100]).backward()
    return found


# %% compared
def compare(rank):
    root_alone = Net()
    fully_shard(root_alone)  # without its layers
    return whole_now(make_sharded()), whole_now(root_alone)


(by_layer, root_alone), _ = start(compare)
print("each layer: at most", max(map(sum, by_layer)), "of 5 are whole")
print("root alone: at least", min(map(sum, root_alone)), "of 5 are whole")


# %% compared-drawn
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

ways = {
    "each layer, then the model": (by_layer, "#0072B2"),
    "only fully_shard(model)": (root_alone, "#D55E00"),
}
figure, both = plt.subplots(1, 2, sharey=True, layout="constrained")
figure.suptitle("Layer by layer, only two weights are whole at a time")
names = [*(f"layer {number}" for number in range(4)), "head"]
for axes, (way, (moments, color)) in zip(both, ways.items(), strict=True):
    colors = ListedColormap(["#8883", color])
    table = torch.tensor(moments).T
    axes.pcolormesh(table, cmap=colors, vmin=0, vmax=1, edgecolors="#8888")
    axes.set(title=way, xlabel="forward, then backward", xticks=[5])
    axes.set_xticklabels(["the loss"])
    axes.set_yticks(torch.arange(5) + 0.5, names)
plt.show()

# %% by-hand
targets = [1.0, 3.0]  # one for each process


def gradient(rank):
    layer = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(layer.weight)
    fully_shard(layer)
    loss = F.mse_loss(layer(torch.ones(1)), torch.tensor([targets[rank]]))
    loss.backward()
    grad = layer.weight.grad
    return grad.to_local().tolist(), grad.full_tensor().item()


gradients = start(gradient)
print(*gradients, sep="\n")


# %% moves
def moves(model, optimizer, rank):
    begun = get_model_state_dict(model, options=whole)
    fit(model, optimizer, slice(rank, None, 2))
    ended = get_model_state_dict(model, options=whole)
    return {
        name: (ended[name] - begun[name]).norm().item()
        for name in ("layers.0.weight", "head.weight")
        if rank == 0
    }


# %% too-early-or-late
# Wrong on purpose: do not copy.
def too_early(rank):
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    return moves(model, optimizer, rank)


def too_late(rank):
    model = make_sharded()
    with torch.no_grad():
        model(images[:1])  # only to see that it runs
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    return moves(model, optimizer, rank)


moved, _ = start(lambda rank: (too_early(rank), too_late(rank)))
early_moves, late_moves = moved
print("too early:", early_moves)
print("too late:", late_moves)


# %% no-root
# Wrong on purpose: do not copy.
def no_root(rank):
    torch.manual_seed(0)
    model = Net()
    for layer in model.layers:
        fully_shard(layer)  # fully_shard(model) is missing
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    fit(model, optimizer, slice(rank, None, 2))
    return model.head.weight.detach()


head, other_head = start(no_root)
print("the heads differ by", round((head - other_head).norm().item(), 2))


# %% seeds
def seeds(rank):
    torch.manual_seed(rank)
    layer = nn.Linear(64, 10)
    own = layer.weight.detach().clone()
    fully_shard(layer)
    return (layer.weight.full_tensor() == own).all(dim=1).tolist()


own_rows = start(seeds)
print(*own_rows, sep="\n")


# %% error-of
def error_of(call):
    try:
        call()
    except (RuntimeError, ValueError, AssertionError) as error:
        return str(error)
    return "no error"


# %% predict
from torch.distributed.fsdp import register_fsdp_forward_method


def predict(rank):
    model, other = make_sharded(), make_sharded()
    register_fsdp_forward_method(other, "predict")
    return [
        error_of(lambda: model.predict(images)),
        error_of(lambda: model(images)),
        error_of(lambda: other.predict(images)),
        error_of(lambda: other(images)),
    ]


[errors] = start(predict, count=1)  # one is enough to see it
print(*errors, sep="\n")


# %% norms
def norms(rank):
    torch.manual_seed(0)
    model, mine = make_sharded(), slice(rank, 100, 2)
    F.cross_entropy(model(images[mine]), labels[mine]).backward()
    parts = [local(weight.grad).norm() for weight in model.parameters()]
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    whole_norm = norm.full_tensor().item()
    return {"clip": whole_norm, "local": torch.stack(parts).norm().item()}


found_norms = start(norms)
print(*found_norms, sep="\n")


# %% saved-shard
# Wrong on purpose: do not copy.
def save_shard(rank):
    model, other = make_sharded(), make_sharded()
    if rank == 0:
        torch.save(model.state_dict(), "model.pt")
    dist.barrier()
    saved = torch.load("model.pt")
    total = sum(local(weight).nbytes for weight in saved.values())
    error = error_of(lambda: Net().load_state_dict(saved))
    other.load_state_dict(saved)  # no error
    return total, error, other.head.weight.full_tensor()


(saved_bytes, load_error, loaded), _ = start(save_shard)
print(f"{saved_bytes:,} bytes")
print(load_error.partition("!")[0])
for row in 0, 5:
    print(f"row {row} of the loaded head:", loaded[row, :4])


# %% checkpoint
from pathlib import Path

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save


def save(folder):
    model = make_sharded()
    dcp.save({"model": model.state_dict()}, checkpoint_id=folder)
    return get_model_state_dict(model, options=whole)


def load(folder):
    torch.manual_seed(1)  # other weights than those that were saved
    model = make_sharded()
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=folder)  # into the shards
    return get_model_state_dict(model, options=whole)


# %% elsewhere
with tempfile.TemporaryDirectory() as folder:
    written, _ = start(lambda rank: save(folder))
    files = sorted(each.name for each in Path(folder).iterdir())
    [read] = start(lambda rank: load(folder), count=1)
    dcp_to_torch_save(folder, f"{folder}/model.pt")  # without processes
    plain = torch.load(f"{folder}/model.pt")["model"]
print(files)
for name in "layers.0.weight", "head.weight":
    same = [torch.equal(written[name], each[name]) for each in (read, plain)]
    print(name, *same)

# %% resume
from torch.distributed.checkpoint.state_dict import (
    get_state_dict,
    set_state_dict,
)


def begin():
    model = make_sharded()
    optimizer = optim.AdamW(model.parameters(), lr=0.02)
    return model, optimizer, optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)


def state_of(model, optimizer, scheduler):
    weights, states = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": states, "scheduler": scheduler}


def resume(folder):
    model, optimizer, scheduler = begin()
    state = state_of(model, optimizer, scheduler)
    dcp.load(state, checkpoint_id=folder)  # sets the scheduler by itself
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
    return model, optimizer, scheduler


# %% resumed
def epoch(rank, model, optimizer, scheduler):
    fit(model, optimizer, slice(rank, None, 2))
    scheduler.step()
    weights = get_model_state_dict(model, options=whole)
    return weights, scheduler.get_last_lr()


def go_on(rank):
    training = begin()
    epoch(rank, *training)
    dcp.save(state_of(*training), checkpoint_id="saved")
    return epoch(rank, *training), epoch(rank, *resume("saved"))


(went_on, resumed), _ = start(go_on)
for name, weight in went_on[0].items():
    print(name, "is the same:", torch.equal(weight, resumed[0][name]))
print("learning rates:", went_on[1], resumed[1])

# %% from-rank-0
from torch.distributed.checkpoint.state_dict import set_model_state_dict


def from_rank_0(rank):
    weights = Net().state_dict() if rank == 0 else {}  # as from a file
    sent = {name: weight.clone() for name, weight in weights.items()}
    with torch.device("meta"):
        model = make_sharded()  # without memory for its weights
    model.to_empty(device="cpu")
    spread = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, weights, options=spread)
    return sent, get_model_state_dict(model, options=whole)


(sent, spread), _ = start(from_rank_0)
print(all(torch.equal(sent[name], spread[name]) for name in spread))


# %% precision
from torch.distributed.fsdp import MixedPrecisionPolicy

policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32)


def precision(rank):
    model, inside = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)), []
    fully_shard(model, mp_policy=policy)
    model[1].register_forward_pre_hook(
        lambda layer, inputs: inside.append(layer.weight.dtype)
    )
    outputs = model(images)
    outputs.float().sum().backward()
    weight = model[1].weight
    return *inside, outputs.dtype, weight.dtype, weight.grad.dtype


[dtypes] = start(precision, count=1)
print("weight inside, output, weight, gradient:", *dtypes)


# %% accumulate
def accumulate(rank):
    layer = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(layer.weight)
    fully_shard(layer)
    found = []
    for last in False, False, True:  # three parts of a batch
        layer.set_requires_gradient_sync(last)
        loss = F.mse_loss(layer(torch.ones(1)), torch.tensor([targets[rank]]))
        (loss / 3).backward()
        grad = layer.weight.grad
        found.append(None if grad is None else grad.full_tensor().item())
    return found


accumulated = start(accumulate)
print(*accumulated, sep="\n")

# %% averaged
from torch.optim.swa_utils import AveragedModel


def update(average, model, decay=0.9):
    for each in average, model:
        each.reshard()  # a validation leaves the head whole
    weights = zip(average.parameters(), model.parameters(), strict=True)
    buffers = zip(average.buffers(), model.buffers(), strict=True)
    with torch.no_grad():
        for mean, weight in weights:
            mean.lerp_(weight, 1 - decay)
        for mine, buffer in buffers:  # such as those of BatchNorm
            mine.copy_(buffer)


def follow(rank):
    torch.manual_seed(0)
    model, average = make_sharded(), make_sharded()
    average.load_state_dict(model.state_dict())
    optimizer = optim.AdamW(model.parameters())
    optimizer.register_step_post_hook(lambda *_: update(average, model))
    fit(model, optimizer, slice(rank, None, 2))
    error = error_of(lambda: AveragedModel(model))
    return error, get_model_state_dict(average, options=whole)


(copy_error, average), _ = start(follow)
print(copy_error)


# %% tied
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


def tied(rank):
    apart, together = Tied(), Tied()
    fully_shard(apart.embedding)
    fully_shard([together.embedding, together.head])
    fully_shard(apart)
    fully_shard(together)
    errors = [error_of(lambda: apart(labels))]
    return [*errors, error_of(lambda: together(labels))]


[tied_errors] = start(tied, count=1)
print(*tied_errors, sep="\n")


# %% odd
def odd(rank):
    layer = nn.Linear(4, 3, bias=False)
    fully_shard(layer)
    return tuple(layer.weight.to_local().shape)


odd_shapes = start(odd)
print(odd_shapes)


# %% global-norm
def global_norm(grads):
    total = torch.stack([grad.to_local().square().sum() for grad in grads])
    total = total.sum()
    dist.all_reduce(total)
    return total.sqrt().item()


# %% global-norm-checked
def both_norms(rank):
    model = make_sharded()
    F.cross_entropy(model(images[:100]), labels[:100]).backward()
    grads = [weight.grad for weight in model.parameters()]
    right = nn.utils.get_total_norm(grads).full_tensor().item()
    return round(global_norm(grads), 3), round(right, 3)


answers = start(both_norms)
if all(mine == right for mine, right in answers):
    print("Right: each process knows the norm of the whole gradient")
else:
    print("Not yet: yours and the right one are", *answers)
