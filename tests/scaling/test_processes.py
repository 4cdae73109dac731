"""The claims of docs/scaling/processes.md."""

import re
from datetime import timedelta
from itertools import chain
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, random_split
from torch.utils.data.distributed import DistributedSampler

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import printed
from tests.helpers import worlds
from tests.helpers.forks import THREADS_MAY_BE_LEFT, skip_if_forks_cannot_train
from tests.helpers.programs import resumed

pytestmark = THREADS_MAY_BE_LEFT

START = ("digits", "start")
TOY = (*START, "toy")
DIGITS = (*START, "fit", "equal")
COMPARED = (*START, "by-hand", "fit", "compare")
TORCHRUN = ("do-this", "train-py", "torchrun", "run-train-py")


def toy(snippet, *cells):
    """Run these cells with the toy, and return their variables."""
    skip_if_forks_cannot_train()
    return resumed(snippet, *TOY, *cells)


# Do this


@pytest.mark.usefixtures("forked_python")
def test_torchrun_runs_the_file_in_each_process(snippet):
    run = resumed(snippet, *TORCHRUN)
    # In torch 2.9, gloo prints as well.
    said = re.sub(r"^\[Gloo\].*\n", "", run.said, flags=re.MULTILINE)

    assert re.fullmatch(r"\d+ of 597 are right, with 2 processes\n", said)
    assert int(said.split()[0]) > 500
    assert run.files == ["model.pt", "train.py"]


SAYS = """
import os
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
here = os.environ["MASTER_ADDR"] != "" and int(os.environ["MASTER_PORT"]) > 0
line = " ".join([*map(os.environ.get, names), str(here)])
os.write(1, (line + "\\n").encode())  # whole, as others write, too
"""


def test_torchrun_runs_the_file_in_each_process__also_in_three(snippet):
    said, _ = resumed(snippet, *TORCHRUN[:-1]).torchrun(SAYS, 3)
    expected = [f"{rank} {rank} 3 3 True" for rank in range(3)]
    assert sorted(said.splitlines()) == expected


def test_torchrun_runs_the_file_in_each_process__also_as_copied(snippet):
    """What the page shows to copy is the output, which is the program."""
    run = resumed(snippet, *TORCHRUN[:-2])
    assert printed[-1]["train-py"] == f"{run.train_py}\n"


@pytest.mark.usefixtures("forked_python")
def test_torchrun_runs_the_file_in_each_process__but_not_the_cell(
    snippet, fails
):
    """The folded cell only makes a string of the program: saved as a file, it
    runs, and trains nothing."""
    string = 'torchrun(f"train_py = {train_py!r}")'
    edited = snippet.edit("torchrun(train_py)", string)
    fails(test_torchrun_runs_the_file_in_each_process, edited)


@pytest.mark.usefixtures("forked_python")
def test_torchrun_runs_the_file_in_each_process__but_not_with_python(
    snippet, fails
):
    """Started by `python`, there is one process, and no `LOCAL_RANK`."""
    old = '[sys.executable, "-m", "torch.distributed.run", *options]'
    edited = snippet.edit(old, '[sys.executable, "train.py"]')
    fails(test_torchrun_runs_the_file_in_each_process, edited)


SPAWNED = """
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank):
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        print("597 of 597 are right, with", dist.get_world_size(), "processes")
        open("model.pt", "w").close()
    dist.barrier()
    dist.destroy_process_group()

mp.start_processes(work, nprocs=2, start_method="fork")
"""


@pytest.mark.usefixtures("forked_python")
def test_torchrun_runs_the_file_in_each_process__ends_with_spawn(
    snippet, fails
):
    """`mp.spawn` leaves the environment as it is, so `init_process_group` has
    to be given the rank.
    """
    old = '[sys.executable, "-m", "torch.distributed.run", *options]'
    edited = snippet.edit(old, '[sys.executable, "train.py"]')

    def saying(program):
        return edited.edit("torchrun(train_py)", f"torchrun({program!r})")

    fails(test_torchrun_runs_the_file_in_each_process, saying(SPAWNED))
    with TemporaryDirectory() as folder:
        method = f'init_method="file://{folder}/store"'
        given = f'"gloo", rank=rank, world_size=2, {method}'
        told = SPAWNED.replace('"gloo"', given)
        test_torchrun_runs_the_file_in_each_process(saying(told))


@pytest.mark.usefixtures("forked_python")
def test_torchrun_runs_the_file_in_each_process__also_reading_what_0_saved(
    snippet,
):
    save = "    torch.save(model.module"
    slow = f"    __import__('time').sleep(0.3)\n{save}"
    edited = snippet.edit(save, slow).edit(
        "dist.barrier()  # from here on, the file is there\n",
        "dist.barrier()\nos.write(1, f\"{len(torch.load('model.pt'))} \""
        ".encode())\ndist.barrier()\n",
    )
    run = resumed(edited, *TORCHRUN)
    assert run.said.count("4 ") == 2


def test_torchrun_runs_the_file_in_each_process__also_in_one_by_the_diff(
    snippet,
):
    """The lines with `-` are the loop of a single process."""
    run = resumed(snippet, *TORCHRUN[:2], "digits")
    names = {name: getattr(run, name) for name in ("make_model", "digits")}
    names |= {"train": run.digits, "device": "cpu", "torch": torch, "F": F}
    torch.manual_seed(0)
    exec(
        run.lines_with("-"),
        names := {**names, "optim": torch.optim, "DataLoader": DataLoader},
    )
    images, labels = run.digits[:]
    right = names["model"](images).argmax(dim=1) == labels
    assert right.float().mean() > 0.95


# How it works


class Batches(list):
    """Batches as a loader with a `DistributedSampler` gives them."""

    sampler = SimpleNamespace(set_epoch=lambda epoch: None)


def trained_twice(run, make_model, steps=3):
    """Train a model by hand and with DDP, and return the tensors of both."""

    def work(rank):
        found = []
        for fit in run.fit_by_hand, lambda m, b: run.fit(DDP(m), b):
            torch.manual_seed(rank)
            model = make_model()
            dtype = next(model.parameters()).dtype
            inputs = torch.randn(8 * steps, 3).to(dtype)
            labels = torch.randint(3, (8 * steps,))
            fit(
                model,
                Batches(zip(inputs.split(8), labels.split(8), strict=True)),
            )
            gradients = [weight.grad for weight in model.parameters()]
            found.append([*model.state_dict().values(), *gradients])
        return found

    return run.start(work)


def test_these_lines_are_ddp(snippet, compared=None):
    skip_if_forks_cannot_train()
    if compared is None:
        with no_error():
            run = resumed(snippet, *COMPARED)
        compared = run.compared
        # The weights moved, and each process computed for itself.
        torch.manual_seed(0)
        new, trained = nn.Linear(64, 32).weight, compared[0][0][0]
        assert (trained - new).abs().max() > 0.1
    apart = [
        (rank, place)
        for rank, (ours, theirs) in enumerate(compared)
        for place, pair in enumerate(zip(ours, theirs, strict=True))
        if not torch.equal(*pair)
    ]
    assert apart == []


@worlds.each(
    "make",
    worlds.MODELS,
    *("with BatchNorm", "with dropout", "tied", "float64", "bfloat16"),
)
def test_these_lines_are_ddp__also_for_a_model(snippet, make):
    run = resumed(snippet, *COMPARED[:-1])
    test_these_lines_are_ddp(snippet, trained_twice(run, make))


@pytest.mark.parametrize("steps", [1, 40], ids="{} steps".format)
def test_these_lines_are_ddp__also_after(snippet, steps):
    run = resumed(snippet, *COMPARED[:-1])
    make = worlds.MODELS["with BatchNorm"]
    test_these_lines_are_ddp(snippet, trained_twice(run, make, steps))


OPTIMIZER = "    optimizer = optim.SGD(model.parameters(), lr=0.5)\n"


def test_these_lines_are_ddp__also_with_adamw(snippet):
    edited = snippet.only(*COMPARED)
    for loop in "images, labels", "epoch":
        old = f"{OPTIMIZER}    for {loop}"
        new = old.replace("SGD", "AdamW").replace("0.5", "0.02")
        edited = edited.edit(old, new)
    test_these_lines_are_ddp(edited)


@edits(
    ("line 1", "dist.broadcast(tensor, src=0)  # 1", "pass"),
    ("line 2", "dist.broadcast(buffer, src=0)  # 2", "pass"),
    ("line 3", "dist.all_reduce(weight.grad)  # 3", "pass"),
    ("line 4", "weight.grad /= dist.get_world_size()  # 4", "pass"),
)
def test_these_lines_are_ddp__but_not_without(snippet, old, new, fails):
    """Without one of the four lines, other numbers come out."""
    edited = snippet.only(*COMPARED).edit(old, new)
    fails(test_these_lines_are_ddp, edited)


def test_these_lines_are_ddp__but_not_from_rank_1(snippet, fails):
    """DDP begins with the weights of rank 0, not with those of rank 1."""
    old = "tensor, src=0"
    edited = snippet.only(*COMPARED).edit(old, "tensor, src=1")
    fails(test_these_lines_are_ddp, edited)


def test_these_lines_are_ddp__ends_with_a_frozen_layer(snippet, fails):
    """A frozen layer has no gradient, so line 3 raises an error; DDP leaves
    the layer out.
    """
    old = "layers = [nn.Linear(64, 32),"
    new = "layers = [nn.Linear(64, 32).requires_grad_(False),"
    edited = snippet.only(*COMPARED).edit(old, new)
    fails(test_these_lines_are_ddp, edited)
    run = resumed(snippet, *COMPARED[:-1])

    def work(rank):
        torch.manual_seed(rank)
        model = DDP(worlds.MODELS["frozen in part"]())
        run.fit(model, Batches([(torch.randn(8, 3), torch.arange(8) % 3)]))
        return model.module[1].weight.grad

    first, second = run.start(work)
    assert torch.equal(first, second)


@pytest.mark.parametrize("count", [3, 4], ids="{} processes".format)
def test_these_lines_are_ddp__ends_in_more_processes(snippet, count, fails):
    """In more than two processes, DDP's sums are rounded in another order."""
    start = f"start(both, {count})"
    edited = snippet.only(*COMPARED).edit("start(both)", start)
    fails(test_these_lines_are_ddp, edited)
    for ours, theirs in resumed(edited, *COMPARED).compared:
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_gradients_are_averaged(snippet):
    run = toy(snippet, "walked")

    # 2 * (0 - 1) and 2 * (0 - 3) in each process, their sum and their mean
    assert run.rents == [1, 3]
    assert run.walked == ([-2, -8, -4], [-6, -8, -4])
    assert run.gradients == (-4, -4)


@pytest.mark.parametrize("count", [1, 3], ids="{} processes".format)
def test_gradients_are_averaged__also_in(snippet, count):
    run = toy(snippet)

    def work(rank):
        found = []
        for option in "gradient_as_bucket_view", "static_graph":
            model = DDP(run.make_toy(), **{option: True})
            for _ in range(3):
                model.zero_grad()
                run.loss_of(model, [1.0, 3.0, 8.0][rank]).backward()
                found.append(model.module.weight.grad.item())
        return found

    mean = {1: -2.0, 3: -8.0}[count]
    assert run.start(work, count) == [[mean] * 6] * count


def test_gradients_are_averaged__also_while_backward_runs(snippet):
    """The last layer's gradient is sent before the first layer has its own."""
    run = toy(snippet)

    def work(rank):
        torch.manual_seed(0)
        layers = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)])
        model, events = DDP(layers, bucket_cap_mb=0.01), []

        def sent(state, bucket):
            events.append("sent")
            future = dist.all_reduce(bucket.buffer(), async_op=True)
            return future.get_future().then(lambda f: f.value()[0] / 2)

        model.register_comm_hook(None, sent)
        for _ in range(2):  # the buckets are sorted after the first step
            events.append("step")
            loss = model(torch.ones(1, 64) + rank).sum()
            layers[0].weight.register_hook(lambda _: events.append("first"))
            loss.backward()
        return events[events.index("step", 1) :]

    for events in run.start(work):
        assert "sent" in events[: events.index("first")]


@edits(
    ("loss = loss_of(model, ", "loss = loss_of(model.module, "),
    (
        "    loss.backward()\n    return found",
        "    (loss * 2).backward()\n    return found",
    ),
)
def test_gradients_are_averaged__but_not(snippet, old, new, fails):
    """Through `model.module`, each keeps its own; a double loss doubles it."""
    fails(test_gradients_are_averaged, snippet.edit(old, new))


def test_gradients_are_averaged__ends_with_autograd_grad(snippet, fails):
    """`torch.autograd.grad` returns the gradient of its own process."""
    edited = snippet.edit(
        "    loss.backward()\n    return found, model.module.weight.grad",
        "    return found, torch.autograd.grad(loss, model.module.weight)[0]",
    )
    fails(test_gradients_are_averaged, edited)


def test_gradients_are_averaged__ends_with_a_second_backward_pass(
    snippet, fails
):
    """If you call `backward(retain_graph=True)` and then `backward()` again,
    the second one adds the gradient of its own process."""
    edited = snippet.edit(
        "    loss.backward()\n    return found",
        "    (loss / 2).backward(retain_graph=True)\n"
        "    (loss / 2).backward()\n    return found",
    )
    fails(test_gradients_are_averaged, edited)


MADE = "    model = DDP(make_toy())\n    loss = "
UNFROZEN = """    layer = make_toy()
    layer.other = nn.Parameter(torch.zeros(1))
    layer.weight.requires_grad_(False)
    model = DDP(layer, find_unused_parameters=True)
    layer.weight.requires_grad_(True)
    loss = """
AGAIN = "    model = DDP(layer, find_unused_parameters=True)\n    loss = "


def test_gradients_are_averaged__ends_if_unfrozen_later(snippet, fails):
    """A parameter that was frozen when you wrapped the model is left out, so
    after you unfreeze a layer, wrap the model again."""
    fails(test_gradients_are_averaged, snippet.edit(MADE, UNFROZEN))


def test_gradients_are_averaged__also_if_wrapped_again(snippet):
    again = UNFROZEN.replace("    loss = ", AGAIN)
    test_gradients_are_averaged(snippet.edit(MADE, again))


def test_two_processes_equal_one(snippet):
    skip_if_forks_cannot_train()
    run = resumed(snippet, *DIGITS)
    first, second = run.trained

    for name, weight in first.items():
        assert torch.equal(weight, second[name])
        close = {"atol": 1e-4, "rtol": 0}
        torch.testing.assert_close(weight, run.alone[name], **close)
    torch.manual_seed(0)
    new = run.make_model().state_dict()["0.weight"]
    assert (new - first["0.weight"]).abs().max() > 0.1


NETWORK = "return nn.Sequential(nn.Linear(64, 32), nn.ReLU(),"
LOSS = "F.cross_entropy(model(images), labels)"


def with_layer(snippet, layer):
    """Put a layer behind the first one of the model."""
    network = f"{NETWORK} nn.Linear(32, 10))"
    new = network.replace("nn.ReLU(),", f"nn.ReLU(), {layer},")
    return snippet.only(*DIGITS).edit(network, new)


def test_two_processes_equal_one__also_with_adamw_and_layer_norm(snippet):
    new = OPTIMIZER.replace("SGD", "AdamW").replace("0.5", "0.02")
    edited = with_layer(snippet, "nn.LayerNorm(32)").edit(OPTIMIZER, new)
    test_two_processes_equal_one(edited)


def test_two_processes_equal_one__also_with_momentum(snippet):
    new = OPTIMIZER.replace("lr=0.5", "lr=0.1, momentum=0.9")
    edited = snippet.only(*DIGITS).edit(OPTIMIZER, new)
    test_two_processes_equal_one(edited)


@edits(
    (
        "with the model inside",
        "fit(model, load(batch_size=50",
        "fit(model.module, load(batch_size=50",
    ),
    ("with another batch size", "batch_size=100)", "batch_size=50)"),
)
def test_two_processes_equal_one__but_not(snippet, old, new, fails):
    """Called by itself, the model inside is trained in each process apart."""
    fails(test_two_processes_equal_one, snippet.only(*DIGITS).edit(old, new))


@pytest.mark.parametrize("layer", ["nn.BatchNorm1d(32)", "nn.Dropout()"])
def test_two_processes_equal_one__ends_with(snippet, layer, fails):
    """`BatchNorm` normalizes 50 digits in each process, not all 100, and
    `Dropout` draws other numbers for two halves than for the whole.
    """
    edited = with_layer(snippet, layer)
    fails(test_two_processes_equal_one, edited)


def test_two_processes_equal_one__ends_with_a_sum(snippet, fails):
    """With `reduction="sum"`, the gradient is half as large."""
    new = LOSS.replace("labels)", 'labels, reduction="sum") / 100')
    fails(test_two_processes_equal_one, snippet.only(*DIGITS).edit(LOSS, new))


@pytest.mark.parametrize(
    "option", ["weight=torch.arange(10.0)", "ignore_index=0"]
)
def test_two_processes_equal_one__ends_with_labels(snippet, option, fails):
    """With class weights, or with `ignore_index`, `cross_entropy` divides by
    the weights, or the number, of the labels of its own process.
    """
    new = LOSS.replace("labels)", f"labels, {option})")
    fails(test_two_processes_equal_one, snippet.only(*DIGITS).edit(LOSS, new))


def test_two_processes_equal_one__ends_with_an_odd_number(snippet, fails):
    """Of 1,199 digits, one is read twice."""
    edited = snippet.only(*DIGITS).edit("pixels[:1200]", "pixels[:1199]")
    edited = edited.edit("target)[:1200]", "target)[:1199]")
    fails(test_two_processes_equal_one, edited)


def test_ddp_copies_rank_0(snippet):
    run = resumed(snippet, *START, "noise")

    (weight, dropped), (other_weight, other_dropped) = run.same
    assert weight == other_weight
    assert dropped == other_dropped
    (weight, dropped), (other_weight, other_dropped) = run.different
    assert weight == other_weight
    assert dropped != other_dropped


def test_ddp_copies_rank_0__also_with_buffers(snippet):
    run = resumed(snippet, *START)

    def work(rank):
        torch.manual_seed(1 + rank)
        layers = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        layers[1].running_mean += rank
        model = DDP(layers)
        noise = torch.rand(8)
        return model.module.state_dict(), noise

    (first, noise), (second, other_noise) = run.start(work)
    for name, weight in first.items():
        assert torch.equal(weight, second[name])
    assert not torch.equal(noise, other_noise)


def test_ddp_copies_rank_0__also_draws_other_splits(snippet):
    run = resumed(snippet, *START)

    def work(rank):
        parts = []
        for seed in (0, rank):
            torch.manual_seed(seed)
            part, _ = random_split(range(100), [80, 20])
            parts.append(list(part.indices))
        return parts

    (same, first), (also_same, second) = run.start(work)
    assert same == also_same
    assert set(first) != set(second)


def test_ddp_copies_rank_0__also_if_others_began_elsewhere(snippet):
    assert resumed(snippet, *START, "start-apart").begun == [5, 5]


@edits(
    (
        "without DDP",
        "model = DDP(nn.Linear(1, 1))\n    weight = round(model.module",
        "model = nn.Linear(1, 1)\n    weight = round(model",
    ),
    ("with one seed", "noise(rank, seed=rank)", "noise(rank, seed=1)"),
    ("with other seeds", "noise(rank, seed=0)", "noise(rank, seed=5 + rank)"),
)
def test_ddp_copies_rank_0__but_not(snippet, old, new, fails):
    """Without DDP, weights differ; with one seed in all, dropout does not."""
    fails(test_ddp_copies_rank_0, snippet.edit(old, new))


def test_ddp_copies_rank_0__ends_after_wrapping(snippet, fails):
    """Weights that one process changes later stay different."""
    old = "model = DDP(nn.Linear(1, 1))\n"
    edited = snippet.edit(
        old, f"{old}    nn.init.constant_(model.module.weight, rank)\n"
    )
    fails(test_ddp_copies_rank_0, edited)


def test_batch_norm_sees_its_own_process(snippet):
    run = resumed(snippet, *START, "statistics")

    for outputs in run.normalized:  # not near -1 or 1 in all four
        assert outputs.tolist() == pytest.approx([-1, 1], abs=1e-4)
    assert [each.item() for each in run.means] == pytest.approx([0.2, 1.2])
    assert [each.item() for each in run.later] == pytest.approx([0.2, 0.2])


VALIDATED = "model.eval()(batch)"
BROADCAST = """for buffer in model.buffers():
        dist.broadcast(buffer, src=0)
    model.eval().module(batch)"""


def test_batch_norm_sees_its_own_process__also_broadcast_by_hand(snippet):
    edited = snippet.edit(VALIDATED, BROADCAST)
    test_batch_norm_sees_its_own_process(edited)


def test_batch_norm_sees_its_own_process__also_in_training(snippet):
    run = resumed(snippet, *START)

    def work(rank):
        model = DDP(nn.BatchNorm1d(1))
        inputs = torch.tensor([[1.0], [3.0]]) + 10 * rank
        for _ in range(3):
            model(inputs)
        mean = model.module.running_mean.item()
        model(inputs)
        return mean, model.module.running_mean.item()

    (first, _), (second, last) = run.start(work)
    begun = 0.2 + 0.9 * 0.2  # two updates of rank 0
    assert first == pytest.approx(0.9 * begun + 0.1 * 2)
    assert second == pytest.approx(0.9 * begun + 0.1 * 12)
    assert last == pytest.approx(0.9 * first + 0.1 * 12)


@edits(
    ("one batch in both", "[3.0]]) + 10 * rank", "[3.0]])"),
    ("the module itself", VALIDATED, "model.eval().module(batch)"),
    ("LayerNorm", "model(batch).flatten()", "nn.LayerNorm(1)(model(batch))"),
)
def test_batch_norm_sees_its_own_process__but_not_with(
    snippet, old, new, fails
):
    """Only a call of the wrapped model copies the numbers of rank 0."""
    fails(test_batch_norm_sees_its_own_process, snippet.edit(old, new))


def test_batch_norm_sees_its_own_process__ends_under_no_sync(snippet, fails):
    """The pass after one under `no_sync()` goes on from its own numbers."""
    old = "    outputs = model(batch).flatten()"
    new = f"    with model.no_sync():\n    {old}"
    fails(test_batch_norm_sees_its_own_process, snippet.edit(old, new))


@pytest.mark.filterwarnings("ignore:.broadcast_buffers. is deprecated")
def test_batch_norm_sees_its_own_process__ends_without_broadcast_buffers(
    snippet, fails
):
    """With `broadcast_buffers=False`, each process keeps its own."""
    old = "model = DDP(nn.BatchNorm1d(1)"
    edited = snippet.edit(old, f"{old}, broadcast_buffers=False")
    fails(test_batch_norm_sees_its_own_process, edited)


# What goes wrong


def test_module_trains_apart(snippet):
    with no_error():
        run = toy(snippet, "walks")

    assert run.together[0] == run.together[1]
    # 0.15 times the gradient, 2 * (w - rent), takes off 30 % of the error
    left = [0.7**step for step in range(13)]
    for rent, path in zip(
        (2, 1, 3), run.together[:1] + run.apart, strict=True
    ):
        assert path == pytest.approx([rent * (1 - each) for each in left])


def test_module_trains_apart__also_with_batch_norm(snippet):
    run = toy(snippet)

    def work(rank):
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        model = DDP(layers)
        inputs = torch.randn(4, 3) * (1 + rank)
        (model.module(inputs) ** 3).sum().backward()
        return layers[0].weight.grad

    first, second = run.start(work)
    assert not torch.allclose(first, second)


@edits(
    ("lambda model: model.module)", "lambda model: model)"),
    ("lambda model: model)\n", "lambda model: model.module)\n"),
)
def test_module_trains_apart__but_not(snippet, old, new, fails):
    """Through the wrapped model, they train together; else apart."""
    fails(test_module_trains_apart, snippet.edit(old, new))


def test_without_set_epoch_the_order_repeats(snippet):
    run = resumed(snippet, *START, "orders")

    for first, second in run.repeated:
        assert first == second
    # The parts are equally large, and together they are the whole.
    (first, _), (second, _) = run.repeated
    assert len(first) == len(second) == 4
    assert sorted(first + second) == list(range(8))


@pytest.mark.parametrize("count", [2, 3, 4], ids="{} processes".format)
def test_without_set_epoch_the_order_repeats__also_in(count):
    for seed in range(3):
        parts = []
        for rank in range(count):
            sampler = DistributedSampler(range(24), count, rank, seed=seed)
            parts.append(list(sampler))
            assert list(sampler) == parts[-1]
            sampler.set_epoch(1)
            assert list(sampler) != parts[-1]
        assert {len(part) for part in parts} == {24 // count}
        assert sorted(chain(*parts)) == list(range(24))


def test_without_set_epoch_the_order_repeats__also_in_a_loader():
    for seed in range(3):
        sampler = DistributedSampler(range(50), 2, 1, seed=seed)
        loader = DataLoader(range(50), 5, sampler=sampler)
        epochs = [[b.tolist() for b in loader] for _ in range(3)]
        assert epochs[0] == epochs[1] == epochs[2]
        sampler.set_epoch(1)
        assert [b.tolist() for b in loader] != epochs[0]


def test_without_set_epoch_the_order_repeats__but_not_told(snippet, fails):
    """A sampler that is told the epoch takes another order."""
    old = "return [list(sampler) for epoch in range(2)]"
    new = """orders = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        orders.append(list(sampler))
    return orders"""
    fails(test_without_set_epoch_the_order_repeats, snippet.edit(old, new))


def test_padding_counts_twice(snippet):
    run = resumed(snippet, *START, "padded")

    assert run.halves == ([0, 2, 4], [1, 3, 0])
    assert run.right.tolist() == [0, 1, 1, 1, 1]
    assert run.wrong_totals == [4, 6]


@pytest.mark.parametrize("size", [3, 597], ids="{} samples".format)
def test_padding_counts_twice__also_with(size):
    for shuffle in (False, True):
        parts = [
            list(DistributedSampler(range(size), 2, rank, shuffle=shuffle))
            for rank in range(2)
        ]
        read = [*chain(*parts)]
        assert len(read) == size + 1
        assert set(read) == set(range(size))


@edits(
    ("drop_last", "shuffle=False)", "shuffle=False, drop_last=True)"),
    ("an even number", "[0, 1, 1, 1, 1]", "[0, 1, 1, 1]"),
)
def test_padding_counts_twice__but_not_with(snippet, old, new, fails):
    """`drop_last=True` leaves a sample out in its place."""
    fails(test_padding_counts_twice, snippet.edit(old, new))


def test_summed_counts_are_exact(snippet):
    run = resumed(snippet, *START, "padded", "exact")

    whole = [int(run.right.sum()), len(run.right)]
    assert run.exact_totals == (whole, whole)
    assert run.complete == ([0.9, 0.1, 0.4, 0.7, 0.2],) * 2


@pytest.mark.parametrize("size", [1, 6], ids="{} samples".format)
def test_summed_counts_are_exact__also_with(snippet, size):
    source = f"right = torch.arange({size}) % 3 % 2"
    old = "right = torch.tensor([0, 1, 1, 1, 1])"
    test_summed_counts_are_exact(snippet.edit(old, source))


def test_summed_counts_are_exact__also_with_a_list_that_is_empty(snippet):
    old, new = "0.4], [0.7, 0.2]", "0.4, 0.7, 0.2], []"
    test_summed_counts_are_exact(snippet.edit(old, new))


def test_summed_counts_are_exact__also_for_a_mean(snippet):
    run = resumed(snippet, *START, "mean-of-all", "mean-of-all-checked")
    assert run.answers == [1.5, 1.5]


@edits(
    (
        "padding",
        "mine = range(rank, len(right), dist.get_world_size())",
        "mine = list(DistributedSampler(right))",
    ),
    (
        "without all_reduce",
        "dist.all_reduce(totals)  # now the sums over all processes\n"
        "    parts",
        "parts",
    ),
    (
        "each reads all",
        "range(rank, len(right), dist.get_world_size())",
        "range(len(right))",
    ),
)
def test_summed_counts_are_exact__but_not(snippet, old, new, fails):
    """Padding, no `all_reduce`, or all samples in each give other counts."""
    fails(test_summed_counts_are_exact, snippet.edit(old, new))


def test_processes_count_alike(snippet):
    run = toy(snippet, "unequal")

    means = [-2, -6]  # the gradient in each process
    (first, summed), second = run.unequal_gradients
    assert first == sum(means) / 2
    assert second == [first, summed]
    numbers = [len(part) for part in run.parts]
    sums = [n * mean for n, mean in zip(numbers, means, strict=True)]
    [(found, whole)] = run.whole_gradients
    assert found == pytest.approx(sum(sums) / sum(numbers))
    assert first != found
    # With a summed loss, the gradient of the sum, divided by the processes
    assert summed == pytest.approx(sum(sums) / 2)
    assert whole == pytest.approx(sum(sums))


def test_processes_count_alike__also_with_two_to_one(snippet):
    old, new = "[[1.0, 1.0, 1.0], ", "[[1.0, 1.0], "
    edited = snippet.edit(old, new).edit("(4 * loss_of(", "(3 * loss_of(")
    test_processes_count_alike(edited)


@edits(
    ("of one size", "[[1.0, 1.0, 1.0], [3.0]]", "[[1.0, 1.0], [3.0, 3.0]]"),
    (
        "with weights",
        "    loss_of(model, *parts[rank]).backward()",
        "    loss = loss_of(model, *parts[rank]) * len(parts[rank]) / 2\n"
        "    loss.backward()",
    ),
    ("summed times the processes", "loss = len(", "loss = 2 * len("),
)
def test_processes_count_alike__but_not(snippet, old, new, fails):
    """Times the samples of the process, and divided by the mean of these
    numbers, 2, the losses give the gradient of one process; a summed loss
    does so if it is multiplied by the number of processes.
    """
    fails(test_processes_count_alike, snippet.edit(old, new))


def test_unused_parameters_raise_later(snippet):
    with no_error():
        run = toy(snippet, "error-of", "unused", "found")

    assert [first for first, _ in run.unused] == [-2, -6]
    for rank, (_, error) in enumerate(run.unused):
        assert error.startswith("Expected to have finished reduction in the ")
        assert f"did not receive grad for rank {rank}: spare." in error


def test_unused_parameters_raise_later__also_in_small_buckets(snippet):
    run = toy(snippet, "error-of")

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.body, self.spare = nn.Linear(50, 50), nn.Linear(50, 50)

        def forward(self, inputs):
            return self.body(inputs)

    def work(rank):
        model = DDP(Wide(), bucket_cap_mb=0.001, gradient_as_bucket_view=True)
        inputs = torch.ones(1, 50) * (1 + rank)
        model(inputs).sum().backward()
        gradient = model.module.body.weight.grad.clone()
        return gradient, run.error_of(lambda: model(inputs))

    (first, error), (second, other_error) = run.start(work)
    assert not torch.allclose(first, second)
    assert "Expected to have finished reduction" in error
    assert "Expected to have finished reduction" in other_error


@edits(
    (
        "used",
        "return self.head(inputs)",
        "return self.head(inputs) + 0 * self.spare(inputs)",
    ),
    (
        "frozen before",
        "= make_toy(), nn.Linear(1, 1)",
        "= make_toy(), nn.Linear(1, 1).requires_grad_(False)",
    ),
    (
        "searched for",
        "start(two_steps)",
        "start(lambda rank: two_steps(rank, find_unused_parameters=True))",
    ),
    (
        "in a static graph",
        "start(two_steps)",
        "start(lambda rank: two_steps(rank, static_graph=True))",
    ),
)
def test_unused_parameters_raise_later__but_not_if(snippet, old, new, fails):
    """A layer that was frozen before it was wrapped is not waited for."""
    fails(test_unused_parameters_raise_later, snippet.edit(old, new))


def test_unused_parameters_raise_later__also_with_numbers_alone(snippet):
    old = "    dist.set_debug_level_from_env()\n    model = "
    edited = snippet.edit(old, "    model = ")
    run = toy(edited, "error-of", "unused")
    for rank, (_, error) in enumerate(run.unused):
        numbers = f"did not receive grad for rank {rank}: 1 2"
        assert error.startswith("Expected to have finished reduction in the ")
        assert numbers in error
        assert "spare" not in error


def test_unused_parameters_raise_later__but_not_averaged(snippet, fails):
    """With an `all_reduce` by hand, the first step has their sum."""
    old = "gradient = model.module.head.weight.grad.item()"
    new = "dist.all_reduce(model.module.head.weight.grad)\n    " + old
    fails(test_unused_parameters_raise_later, snippet.edit(old, new))


def test_unused_parameters_raise_later__also_if_frozen_after_wrapping(
    snippet,
):
    edited = snippet.edit(
        "(TwoHeads(), **options)\n",
        "(TwoHeads(), **options)\n"
        "    model.module.spare.requires_grad_(False)\n",
    )
    test_unused_parameters_raise_later(edited)


def test_unused_parameters_raise_later__ends_under_no_grad(snippet, fails):
    """Under `no_grad()`, as in a validation, the forward pass succeeds."""
    old = "error_of(lambda: loss_of(model, rents[rank]))"
    new = "error_of(torch.no_grad()(lambda: loss_of(model, rents[rank])))"
    fails(test_unused_parameters_raise_later, snippet.edit(old, new))


def test_unused_parameters_raise_later__ends_if_another_process_uses_it(
    snippet, fails
):
    """A process that does use the parameter waits in `backward()` for those
    that don't, until the timeout."""
    edited = snippet.edit(
        "return self.head(inputs)",
        "if dist.get_rank() == 0:\n"
        "            return self.head(inputs) + self.spare(inputs)\n"
        "        return self.head(inputs)",
    ).edit("start(two_steps)", "start(two_steps, timeout=1)")
    fails(test_unused_parameters_raise_later, edited)


def test_unused_parameters_raise_later__also_mended(snippet):
    run = toy(snippet, "error-of", "unused", "found")
    assert run.found_unused == [(-4, "no error")] * 2


def test_unused_parameters_raise_later__also_mended_if_a_rank_uses_them(
    snippet,
):
    run = toy(snippet, "error-of")

    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList([run.make_toy(), run.make_toy()])

        def forward(self, inputs):
            return self.heads[dist.get_rank()](inputs)

    def work(rank):
        model = DDP(Either(), find_unused_parameters=True)
        for _ in range(2):
            model.zero_grad()
            run.loss_of(model, run.rents[rank]).backward()
        return [head.weight.grad.item() for head in model.module.heads]

    assert run.start(work) == [[-1, -3], [-1, -3]]


def test_waiting_times_out(snippet):
    sooner = snippet.edit(
        "start(uneven, timeout=3)", "start(uneven, timeout=2)"
    )
    run = toy(sooner, "error-of", "uneven")
    waited, done = run.hang
    assert waited.startswith("Timed out waiting 2000ms for ")
    assert done == "no error"


def test_waiting_times_out__also_in_all_reduce(snippet):
    run = toy(snippet, "error-of")

    def work(rank):
        group = dist.new_group(timeout=timedelta(seconds=1))
        if rank == 0:
            total = torch.ones(1)
            return run.error_of(lambda: dist.all_reduce(total, group=group))

    waited, done = run.start(work)
    assert waited.startswith("Timed out waiting 1000ms for ")
    assert done is None


@edits(
    ("as many batches", "range(3 - rank)", "range(3)"),
    (
        "join",
        "return error_of(train)",
        "with model.join():\n        return error_of(train)",
    ),
    ("the module inside", "loss_of(model, 1.0)", "loss_of(model.module, 1.0)"),
)
def test_waiting_times_out__but_not_with(snippet, old, new, fails):
    """`with model.join():` allows processes that have fewer batches."""
    fails(test_waiting_times_out, snippet.edit(old, new))


def test_waiting_times_out__ends_if_the_other_process_ends(snippet, fails):
    """Once process 1 has ended, process 0 gets another error at once, such as
    `Connection reset by peer`."""
    edited = snippet.edit(
        "    return error_of(train)\n",
        "    error = error_of(train)\n"
        "    if rank == 1:\n"
        '        torch.save(error, "1.pt")\n'
        '        dist.FileStore("store", 2).set("done 1", "")\n'
        "        os._exit(0)\n"
        "    return error\n",
    )
    fails(test_waiting_times_out, edited)


def test_no_sync_adds_up_first(snippet):
    with no_error():
        run = toy(snippet, "accumulate")
    # -2 and -6 stay apart; -4 and -12 are the sums, and -8 their mean
    assert run.accumulated == [(-2, -8), (-6, -8)]


def test_no_sync_adds_up_first__also_with_four_parts(snippet):
    run = toy(snippet)

    def work(rank, sync):
        model = DDP(run.make_toy())
        targets = [float(part + rank) for part in range(4)]
        *first, last = targets
        for target in first:
            if sync:
                run.loss_of(model, target).backward()
            else:
                with model.no_sync():
                    run.loss_of(model, target).backward()
        run.loss_of(model, last).backward()
        return model.module.weight.grad.item()

    found = run.start(lambda rank: [work(rank, sync) for sync in (0, 1)])
    for waiting, in_step in found:
        assert waiting == in_step


LINE = "    loss_of(model, rents[rank]).backward()"
SYNC = f"    with model.no_sync():\n    {LINE}"
OUTSIDE = """    loss = loss_of(model, rents[rank])
    with model.no_sync():
        loss.backward()"""


@edits(
    ("in it", "with model.no_sync():", "if True:"),
    ("the forward in it", SYNC, OUTSIDE),
    ("an end", f"{LINE}\n    return first", f"{SYNC}\n    return first"),
)
def test_no_sync_adds_up_first__but_not_without(snippet, old, new, fails):
    """Put forward and backward of all parts but the last in `no_sync()`."""
    fails(test_no_sync_adds_up_first, snippet.edit(old, new))


def test_no_sync_adds_up_first__ends_with_a_static_graph(snippet, fails):
    """With `static_graph=True`, the first `backward()` of all has to stand
    outside `no_sync()`, or the next one raises an error."""
    cell = "def accumulate(rank):\n    model = DDP(make_toy()"
    fails(
        test_no_sync_adds_up_first,
        snippet.edit(cell, f"{cell}, static_graph=True"),
    )
