"""The claims of docs/scaling/processes.md."""

import re
from datetime import timedelta
from functools import partial
from itertools import chain

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import printed
from tests.helpers.forks import THREADS_MAY_BE_LEFT, skip_if_forks_cannot_train
from tests.helpers.programs import resumed

pytestmark = THREADS_MAY_BE_LEFT

START = ("digits", "start")
TOY = (*START, "toy")
DIGITS = ("digits", "fit", "do-this", "start", "trained", "alone")
TORCHRUN = (*START, "train-py", "torchrun", "run-train-py")


def toy(snippet, *cells):
    """Run these cells with the toy, and return their variables."""
    skip_if_forks_cannot_train()
    return resumed(snippet, *TOY, *cells)


# Do this


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


OPTIMIZER = "    optimizer = optim.SGD(model.parameters(), lr=0.5)"
NETWORK = "return nn.Sequential(nn.Linear(64, 32), nn.ReLU(),"


def test_two_processes_equal_one__also_with_adamw_and_layer_norm(snippet):
    new = OPTIMIZER.replace("SGD", "AdamW")[:-4] + "0.02)"
    edited = with_layer(snippet, "nn.LayerNorm(32)").edit(OPTIMIZER, new)
    test_two_processes_equal_one(edited)


def test_two_processes_equal_one__also_with_momentum_from_other_weights(
    snippet,
):
    edited = snippet.edit(NETWORK, f"torch.manual_seed(5)\n    {NETWORK}")
    new = OPTIMIZER[:-4] + "0.1, momentum=0.9)"
    test_two_processes_equal_one(edited.edit(OPTIMIZER, new))


@edits(
    (
        "with the model inside",
        "fit(model, DistributedSampler(digits), batch_size=50",
        "fit(model.module, DistributedSampler(digits), 50",
    ),
    ("with another batch size", "batch_size=100)", "batch_size=50)"),
)
def test_two_processes_equal_one__but_not(snippet, old, new, fails):
    """Called by itself, the model inside is trained in each process apart."""
    fails(test_two_processes_equal_one, snippet.edit(old, new))


def with_layer(snippet, layer):
    """Put a layer behind the first one of the model."""
    return snippet.edit(NETWORK, f"{NETWORK} {layer},")


def test_two_processes_equal_one__ends_with_batch_norm(snippet, fails):
    """`BatchNorm` normalizes 50 digits in each process, not all 100."""
    edited = with_layer(snippet, "nn.BatchNorm1d(32)")
    fails(test_two_processes_equal_one, edited)


def test_two_processes_equal_one__ends_with_dropout(snippet, fails):
    """`Dropout` draws other numbers for two halves than for the whole."""
    edited = with_layer(snippet, "nn.Dropout()")
    fails(test_two_processes_equal_one, edited)


def test_two_processes_equal_one__ends_with_a_sum(snippet, fails):
    """With `reduction="sum"`, the gradient is half as large."""
    old = "F.cross_entropy(model(images), labels)"
    new = 'F.cross_entropy(model(images), labels, reduction="sum") / 100'
    fails(test_two_processes_equal_one, snippet.edit(old, new))


def test_two_processes_equal_one__ends_with_class_weights(snippet, fails):
    """With class weights, or with `ignore_index`, `cross_entropy` divides by
    the weights, or the number, of the labels of its own process."""
    old = "F.cross_entropy(model(images), labels)"
    new = "F.cross_entropy(model(images), labels, torch.arange(10.0))"
    fails(test_two_processes_equal_one, snippet.edit(old, new))


def test_two_processes_equal_one__ends_with_an_odd_number(snippet, fails):
    """Of 1,199 digits, one is read twice."""
    edited = snippet.edit("images[:1200]", "images[:1199]")
    edited = edited.edit("target)[:1200]", "target)[:1199]")
    fails(test_two_processes_equal_one, edited)


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


# How it works


def test_gradients_are_averaged(snippet):
    run = toy(snippet, "by-hand")

    # 2 * (0 - 1) and 2 * (0 - 3) in each process, and their mean
    assert run.targets == [1, 3]
    assert run.gradients == [-4, -4]


@pytest.mark.parametrize("count", [1, 3], ids="{} processes".format)
def test_gradients_are_averaged__also_in(snippet, count):
    run = toy(snippet)

    def work(rank):
        model = DDP(run.make_toy())
        run.loss_of(model, [1.0, 3.0, 8.0][rank]).backward()
        return model.module.weight.grad.item()

    assert run.start(work, count) == [{1: -2.0, 3: -8.0}[count]] * count


def test_gradients_are_averaged__also_in_bucket_views_and_a_static_graph(
    snippet,
):
    run = toy(snippet)

    def work(rank):
        found = []
        for option in "gradient_as_bucket_view", "static_graph":
            model = DDP(run.make_toy(), **{option: True})
            for _ in range(3):
                model.zero_grad()
                run.loss_of(model, run.targets[rank]).backward()
                found.append(model.module.weight.grad.item())
        return found

    assert run.start(work) == [[-4.0] * 6] * 2


@edits(
    ("loss = loss_of(model, ", "loss = loss_of(model.module, "),
    ("loss.backward()\n    return", "(loss * 2).backward()\n    return"),
)
def test_gradients_are_averaged__but_not(snippet, old, new, fails):
    """Through `model.module`, each keeps its own; a double loss doubles it."""
    fails(test_gradients_are_averaged, snippet.edit(old, new))


def test_gradients_are_averaged__ends_with_autograd_grad(snippet, fails):
    """`torch.autograd.grad` returns the gradient of its own process."""
    edited = snippet.edit(
        "loss.backward()\n    return model.module.weight.grad.item()",
        "return torch.autograd.grad(loss, model.module.weight)[0].item()",
    )
    fails(test_gradients_are_averaged, edited)


def test_gradients_are_averaged__ends_with_a_second_backward_pass(
    snippet, fails
):
    """If you call `backward(retain_graph=True)` and then `backward()` again,
    the second one adds the gradient of its own process."""
    edited = snippet.edit(
        "    loss.backward()\n    return",
        "    (loss / 2).backward(retain_graph=True)\n"
        "    (loss / 2).backward()\n    return",
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


def test_module_trains_apart(snippet):
    with no_error():
        run = toy(snippet, "walk", "walks")

    assert run.together[0] == run.together[1]
    assert run.together[0][-1] == pytest.approx(2, abs=0.05)
    assert run.apart[0][-1] == pytest.approx(1, abs=0.02)
    assert run.apart[1][-1] == pytest.approx(3, abs=0.1)


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


def test_ddp_copies_rank_0__also_if_others_began_elsewhere(snippet):
    assert resumed(snippet, *START, "start-apart").begun == [5, 5]


@edits(
    (
        "without DDP",
        "model = DDP(nn.Linear(1, 1))\n    return model.module",
        "model = nn.Linear(1, 1)\n    return model",
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


# The data


def test_each_process_reads_its_part(snippet):
    run = resumed(snippet, *START, "orders")

    for epoch in range(2):
        first, second = (found[epoch] for found in run.shuffled)
        assert len(first) == len(second) == 4
        assert sorted(first + second) == list(range(8))


@pytest.mark.parametrize("count", [2, 3, 4], ids="{} processes".format)
def test_each_process_reads_its_part__also_with(count):
    for seed in range(3):
        parts = [
            list(
                DistributedSampler(
                    range(24), count, rank, seed=seed, shuffle=bool(seed)
                )
            )
            for rank in range(count)
        ]
        assert {len(part) for part in parts} == {24 // count}
        assert sorted(chain(*parts)) == list(range(24))


@edits(
    ("a loader that shuffles", "list(sampler)", "[*range(8)]"),
    (
        "one seed per rank",
        "DistributedSampler(range(8))\n    found",
        "DistributedSampler(range(8), seed=rank)\n    found",
    ),
)
def test_each_process_reads_its_part__but_not_with(snippet, old, new, fails):
    """All processes need one order, of which each takes its part."""
    if new == "[*range(8)]":
        old, new = f"found.append({old})", f"found.append({new})"
    fails(test_each_process_reads_its_part, snippet.edit(old, new))


def test_each_process_reads_its_part__ends_if_not_divisible(snippet, fails):
    """Of nine samples, one is read twice."""
    old = "DistributedSampler(range(8))\n    found"
    edited = snippet.edit(old, old.replace("8", "9"))
    fails(test_each_process_reads_its_part, edited)


def test_without_set_epoch_the_order_repeats(snippet):
    run = resumed(snippet, *START, "orders", "forgotten-set-epoch")

    for first, second in run.shuffled:
        assert first != second
    for first, second in run.repeated:
        assert first == second


def test_without_set_epoch_the_order_repeats__also_in_fit(snippet):
    skip_if_forks_cannot_train()
    run = resumed(snippet, "digits", "fit", "start")

    class Recorder(DistributedSampler):
        def __iter__(self):
            orders.append([*super().__iter__()])
            return iter(orders[-1])

    class Deaf(Recorder):
        def set_epoch(self, epoch):
            pass

    orders = []

    def work(rank):
        for kind in Recorder, Deaf:
            run.fit(run.make_model(), kind(run.digits), 600)
        return orders

    [[first, second, third, *repeated]] = run.start(work, 1)
    assert first != second
    assert second != third
    assert first != third
    assert repeated == [repeated[0]] * 3


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


def test_without_set_epoch_the_order_repeats__but_not_with_it(snippet, fails):
    """The other way round: a sampler that is not told repeats its order."""
    old = "        sampler.set_epoch(epoch)\n        found"
    edited = snippet.edit(old, "        found")
    fails(test_without_set_epoch_the_order_repeats, edited)


# Validation


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
    assert run.exact_totals == [whole, whole]


@pytest.mark.parametrize("size", [1, 6], ids="{} samples".format)
def test_summed_counts_are_exact__also_with(snippet, size):
    source = f"right = torch.arange({size}) % 3 % 2"
    old = "right = torch.tensor([0, 1, 1, 1, 1])"
    test_summed_counts_are_exact(snippet.edit(old, source))


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
        "dist.all_reduce(totals)  # now the sums over all processes",
        "pass",
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


def test_gathered_lists_are_complete(snippet):
    run = resumed(snippet, *START, "gathered")
    assert run.complete == [[0.9, 0.1, 0.4, 0.7, 0.2]] * 2


@edits(
    (
        "an empty one",
        "[0.9, 0.1, 0.4], [0.7, 0.2]",
        "[0.9, 0.1, 0.4, 0.7, 0.2], []",
    ),
    ("three processes", "start(gathered)", "start(gathered, 3)[:2]"),
)
def test_gathered_lists_are_complete__also_with(snippet, old, new):
    if "3" in new:
        snippet = snippet.edit("[0.7, 0.2]]", "[0.7], [0.2]]")
    test_gathered_lists_are_complete(snippet.edit(old, new))


@edits(
    (
        "gather_object",
        "dist.all_gather_object(parts, scores[rank])",
        "to = parts if rank == 0 else None\n"
        "    dist.gather_object(scores[rank], to)\n"
        "    parts = [part or [] for part in parts]",
    ),
    (
        "no call",
        "dist.all_gather_object(parts, scores[rank])",
        "parts = [scores[rank]]",
    ),
)
def test_gathered_lists_are_complete__but_not_with(snippet, old, new, fails):
    """`gather_object` gives them to rank 0 alone."""
    fails(test_gathered_lists_are_complete, snippet.edit(old, new))


# What goes wrong


def test_processes_count_alike(snippet):
    run = toy(snippet, "unequal")

    means = [-2, -6]  # the gradient in each process
    assert run.unequal_gradients == [sum(means) / 2] * 2
    numbers = [len(part) for part in run.parts]
    weighted = sum(n * mean for n, mean in zip(numbers, means, strict=True))
    [found] = run.whole_gradients
    assert found == pytest.approx(weighted / sum(numbers))
    assert run.unequal_gradients[0] != run.whole_gradients[0]


def test_processes_count_alike__also_with_nine_to_one(snippet):
    old, new = "[[1.0, 1.0, 1.0], ", "[[1.0] * 9, "
    test_processes_count_alike(snippet.edit(old, new))


@edits(
    ("of one size", "[[1.0, 1.0, 1.0], [3.0]]", "[[1.0], [3.0]]"),
    (
        "with weights",
        "    loss_of(model, *parts[rank]).backward()",
        "    loss = loss_of(model, *parts[rank]) * len(parts[rank]) / 2\n"
        "    loss.backward()",
    ),
)
def test_processes_count_alike__but_not(snippet, old, new, fails):
    """Times the samples of the process, and divided by the mean of these
    numbers, 2, the losses give the gradient of one process."""
    fails(test_processes_count_alike, snippet.edit(old, new))


def test_a_sum_is_divided(snippet):
    run = toy(snippet, "summed")

    def whole(rank):
        layer = run.make_toy()
        (4 * run.loss_of(layer, 1.0, 1.0, 3.0, 3.0)).backward()
        return layer.weight.grad.item()

    assert run.start(whole, 1) == [-16]
    assert run.summed_gradients == [-8, -8]


def test_a_sum_is_divided__but_not_a_mean(snippet, fails):
    """A mean gives -4, as for all four."""
    fails(test_a_sum_is_divided, snippet.edit("(2 * loss_of(", "(loss_of("))


def test_a_sum_is_divided__but_not_times_the_processes(snippet, fails):
    """Multiplied by the number of processes, the sum is that of the whole."""
    fails(
        test_a_sum_is_divided, snippet.edit("(2 * loss_of(", "(4 * loss_of(")
    )


def test_batch_norm_sees_its_own_process(snippet):
    run = resumed(snippet, *START, "statistics")

    for outputs in run.normalized:  # not near -1 or 1 in all four
        assert outputs.tolist() == pytest.approx([-1, 1], abs=1e-4)
    assert [each.item() for each in run.means] == pytest.approx([0.2, 1.2])
    assert [each.item() for each in run.later] == pytest.approx([0.2, 0.2])


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
    ("the module itself", "model.eval()(batch)", "model.eval().module(batch)"),
    ("LayerNorm", "model(batch).flatten()", "nn.LayerNorm(1)(model(batch))"),
)
def test_batch_norm_sees_its_own_process__but_not_with(
    snippet, old, new, fails
):
    """Only a call of the wrapped model copies the numbers of rank 0."""
    fails(test_batch_norm_sees_its_own_process, snippet.edit(old, new))


@pytest.mark.filterwarnings("ignore:.broadcast_buffers. is deprecated")
def test_batch_norm_sees_its_own_process__ends_without_broadcast_buffers(
    snippet, fails
):
    """With `broadcast_buffers=False`, each process keeps its own."""
    old = "model = DDP(nn.BatchNorm1d(1)"
    edited = snippet.edit(old, f"{old}, broadcast_buffers=False")
    fails(test_batch_norm_sees_its_own_process, edited)


def test_unused_parameters_raise_later(snippet):
    with no_error():
        run = toy(snippet, "error-of", "two-heads", "unused")

    assert [first for first, _ in run.unused] == [-2, -6]
    for rank, (_, error) in enumerate(run.unused):
        assert error.startswith("Expected to have finished reduction in the ")
        assert f"did not receive grad for rank {rank}: spare." in error


def test_unused_parameters_raise_later__also_in_small_buckets(snippet):
    run = toy(snippet, "error-of", "two-heads")

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
    run = toy(edited, "error-of", "two-heads", "unused")
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
    old = "error_of(lambda: loss_of(model, targets[rank]))"
    new = "error_of(torch.no_grad()(lambda: loss_of(model, targets[rank])))"
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


def test_find_unused_parameters_averages(snippet):
    run = toy(snippet, "error-of", "two-heads", "unused", "found")
    assert run.found_unused == [(-4, "no error")] * 2


def test_find_unused_parameters_averages__also_if_a_rank_uses_them(snippet):
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
            run.loss_of(model, run.targets[rank]).backward()
        return [head.weight.grad.item() for head in model.module.heads]

    assert run.start(work) == [[-1, -3], [-1, -3]]


@edits(
    (
        "with False",
        "(rank, find_unused_parameters=True)",
        "(rank, find_unused_parameters=False)",
    ),
    (
        "by the module",
        "(TwoHeads(), **options)\n    loss_of(model,",
        "(TwoHeads(), **options)\n    loss_of(model.module,",
    ),
)
def test_find_unused_parameters_averages__but_not(snippet, old, new, fails):
    """With `False`, it raises an error; `model.module` averages nothing."""
    fails(test_find_unused_parameters_averages, snippet.edit(old, new))


RECOMPUTED = (*TOY, "error-of", "recompute", "recomputed")
READY_TWICE = "Expected to mark a variable ready only once"


def first_words(errors):
    return [each.partition(".")[0] for each in errors]


def test_reentrant_checkpoints_fail(snippet):
    skip_if_forks_cannot_train()
    run = resumed(snippet, *RECOMPUTED)
    assert first_words(run.reentrant) == [READY_TWICE] * 2
    assert run.others == ["no error"] * 2


class Again(nn.Module):
    """Two checkpointed parts that share a layer."""

    def __init__(self, checkpoint, **options):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(3))
        self.checkpoint = partial(checkpoint, **options)

    def forward(self, inputs):
        """Call the first layer, and then the parts."""
        first, second, shared = self.layers
        hidden = first(inputs)
        hidden = self.checkpoint(nn.Sequential(second, shared), hidden)
        return self.checkpoint(nn.Sequential(shared, nn.Tanh()), hidden)


def test_reentrant_checkpoints_fail__also_with_a_shared_layer(snippet):
    skip_if_forks_cannot_train()
    run = resumed(snippet, *RECOMPUTED)

    def work(rank):
        errors, gradients = [], []
        for reentrant, wrap in (True, DDP), (False, DDP), (False, nn.Identity):
            torch.manual_seed(0)
            model = Again(run.checkpoint, use_reentrant=reentrant)
            wrapped = DDP(model) if wrap is DDP else model
            errors.append(
                run.error_of(lambda w=wrapped: run.loss_of(w, 1.0).backward())
            )
            gradients.append([each.grad for each in model.parameters()])
        return errors, gradients

    [(errors, (_, averaged, alone))] = run.start(work, 1)
    assert first_words(errors) == [READY_TWICE, "no error", "no error"]
    for found, expected in zip(averaged, alone, strict=True):
        torch.testing.assert_close(found, expected)


@edits(
    ("that search for none", ", find_unused_parameters=True)", ")"),
    ("called once", "Recomputed(2,", "Recomputed(1,"),
    ("with True in both", "reentrant=False)\n\n", "reentrant=True)\n\n"),
)
def test_reentrant_checkpoints_fail__but_not(snippet, old, new, fails):
    """Without the search, or called once, it works; with `True`, it fails."""
    edited = snippet.only(*RECOMPUTED).edit(old, new)
    fails(test_reentrant_checkpoints_fail, edited)


def test_reentrant_checkpoints_fail__ends_with_a_static_graph(snippet, fails):
    """`DDP(model, static_graph=True)` allows both, if each step of the
    training uses the same layers."""
    old = "DDP(once, find_unused_parameters=True), DDP(twice)"
    new = "DDP(once, static_graph=True), DDP(twice, static_graph=True)"
    edited = snippet.only(*RECOMPUTED).edit(old, new)
    fails(test_reentrant_checkpoints_fail, edited)


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


def test_monitored_barrier_names_the_rank(snippet):
    run = resumed(snippet, *START, "error-of", "missing")
    named, _ = run.who
    assert "Rank 1 failed to pass monitoredBarrier in 1000 ms" in named


SOON = "second = timedelta(seconds=0.2)"


def test_monitored_barrier_names_the_rank__also_of_three(snippet):
    edited = snippet.edit("start(missing)", "start(missing, 3)")
    edited = edited.edit("second = timedelta(seconds=1)", SOON)
    named, _, _ = resumed(edited, *START, "error-of", "missing").who
    assert "Rank 1 failed to pass monitoredBarrier" in named


def test_monitored_barrier_names_the_rank__also_if_it_is_rank_0(snippet):
    run = resumed(snippet, *START, "error-of")

    def work(rank):
        group = dist.new_group(timeout=timedelta(seconds=0.2))
        if rank != 0:
            return run.error_of(lambda: dist.monitored_barrier(group))

    _, named = run.start(work)
    assert "waiting for send/recv from rank 0" in named


def test_monitored_barrier_names_the_rank__also_of_two_that_miss(snippet):
    edited = snippet.edit("if rank != 1:", "if rank not in (1, 2):")
    edited = edited.edit("second = timedelta(seconds=1)", SOON)
    edited = edited.edit("start(missing)", "start(missing, 3)")
    edited = edited.edit("timeout=second)", "second, wait_all_ranks=True)")
    run = resumed(
        edited.edit(
            "monitored_barrier(second", "monitored_barrier(None, second"
        ),
        *START,
        "error-of",
        "missing",
    )
    assert "Ranks 1, 2 failed to pass monitoredBarrier" in run.who[0]


def test_monitored_barrier_names_the_rank__but_not_if_all_come(snippet, fails):
    """If all processes come to the barrier, it raises nothing."""
    edited = snippet.edit("if rank != 1:", "if True:")
    patient = edited.edit("timedelta(seconds=1)", "timedelta(seconds=30)")
    fails(test_monitored_barrier_names_the_rank, patient)


def test_monitored_barrier_names_the_rank__but_not_a_barrier(snippet, fails):
    """A plain `barrier()` only says that it has waited too long."""
    group = "    few = dist.new_group(timeout=second)\n"
    old = "    if rank != 1:  # process 1 never comes"
    edited = snippet.edit(old, group + old)
    old = "dist.monitored_barrier(timeout=second)"
    edited = edited.edit(old, "dist.barrier(few)")
    fails(test_monitored_barrier_names_the_rank, edited)


MISMATCH = (*START, "error-of", "mismatch")
MISMATCHED = "Detected mismatch between collectives on ranks"


def test_other_shapes_add_up(snippet):
    with no_error():
        run = resumed(snippet, *MISMATCH)

    # 1, 2, 3, 4, 5, 6 and 1, 4, 2, 5, 3, 6
    assert run.mixed.tolist() == [[2, 6, 5], [9, 8, 12]]


def test_other_shapes_add_up__but_not_alike(snippet, fails):
    """With the same rows in both, each number is twice as large."""
    edited = snippet.only(*MISMATCH).edit("table.T.contiguous()", "table")
    fails(test_other_shapes_add_up, edited)


def test_detail_names_the_mismatch(snippet):
    run = resumed(snippet, *MISMATCH)
    for error in run.error, run.other_error:
        assert error.startswith(MISMATCHED)
        assert "OpType=ALLREDUCE, TensorShape=[2, 3]" in error
        assert "OpType=ALLREDUCE, TensorShape=[3, 2]" in error


def test_detail_names_the_mismatch__also_from_the_environment(
    snippet, monkeypatch
):
    run = resumed(snippet, *MISMATCH)

    def work(rank):
        def call():
            if rank == 0:
                dist.all_reduce(torch.ones(1))
            else:
                dist.broadcast(torch.ones(1), src=0)

        errors = [run.error_of(call)]
        table = torch.ones(2 + rank)
        errors.append(run.error_of(lambda: dist.all_reduce(table)))
        table = table[:1].to([torch.float32, torch.float64][rank])
        errors.append(run.error_of(lambda: dist.all_reduce(table)))
        return errors

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    dist.set_debug_level_from_env()
    try:
        found = run.start(work)
    finally:
        monkeypatch.undo()
        dist.set_debug_level_from_env()
    for errors in found:
        assert all(error.startswith(MISMATCHED) for error in errors)
        calls, shapes, dtypes = errors
        assert "OpType=ALLREDUCE" in calls
        assert "OpType=BROADCAST" in calls
        assert "TensorShape=[2]" in shapes
        assert "TensorShape=[3]" in shapes
        assert "TensorDtypes=Float" in dtypes
        assert "TensorDtypes=Double" in dtypes


@edits(
    ("with INFO", '"DETAIL"', '"INFO"'),
    ("in a group that was there before", "group=group", "group=None"),
    ("alike", "table.T.contiguous()", "table"),
)
def test_detail_names_the_mismatch__but_not(snippet, old, new, fails):
    """A group is checked only if `DETAIL` was set before it was made."""
    fails(
        test_detail_names_the_mismatch,
        snippet.only(*MISMATCH).edit(old, new),
    )


TAKEN = (*START, "error-of", "taken")


@pytest.fixture
def no_group_is_left():
    """End the group of a call that went through."""
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.usefixtures("no_group_is_left")
def test_a_taken_port_raises(snippet):
    run = resumed(snippet, *TAKEN)
    assert f"port: {run.port}" in run.taken
    assert "EADDRINUSE, message: address already in use" in run.taken
    assert not dist.is_initialized()


@pytest.mark.usefixtures("no_group_is_left")
@edits(
    ("localhost", "tcp://127.0.0.1", "tcp://localhost"),
    ("two processes", '"world_size": 1', '"world_size": 2'),
    ("the environment", '"gloo", **at', '"gloo", rank=0, world_size=1'),
)
def test_a_taken_port_raises__also_with(snippet, old, new, monkeypatch):
    edited = snippet.edit(old, new)
    if "**at" in old:
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", "")  # put back at the end
        name = 'os.environ["MASTER_PORT"]'
        edited = edited.edit(
            "    at = {", f"    {name} = str(port)\n    at = {{"
        )
    test_a_taken_port_raises(edited)


@pytest.mark.usefixtures("no_group_is_left")
def test_a_taken_port_raises__but_not_a_free_one(snippet, fails):
    """If the other program has closed it, nobody listens."""
    edited = snippet.edit("    at = {", "    other.close()\n    at = {")
    fails(test_a_taken_port_raises, edited)


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


LINE = "    loss_of(model, targets[rank]).backward()"
SYNC = f"    with model.no_sync():\n    {LINE}"
OUTSIDE = """    loss = loss_of(model, targets[rank])
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


def test_a_barrier_waits_for_rank_0(snippet):
    run = resumed(snippet, "digits", "start", "torchrun", "save")
    assert run.there == [True, True]


SAVE = """    if rank == 0:
        torch.save(make_model().state_dict(), "digits.pt")
    dist.barrier()  # no process goes on before all are here
    return Path("digits.pt").exists()
"""


def test_a_barrier_waits_for_rank_0__also_if_it_is_slow(snippet):
    slow = SAVE.replace(
        "torch.save", "__import__('time').sleep(0.2)\n        torch.save"
    )
    test_a_barrier_waits_for_rank_0(snippet.edit(SAVE, slow))


def test_a_barrier_waits_for_rank_0__but_not_before_it(snippet, fails):
    """Who looks before the barrier may look too early."""
    early = """    there = Path("digits.pt").exists()
    dist.barrier()
    if rank == 0:
        torch.save(make_model().state_dict(), "digits.pt")
    return there
"""
    fails(test_a_barrier_waits_for_rank_0, snippet.edit(SAVE, early))
