"""The claims of gallery/train_in_several_processes.py."""

import io
import os
import sys
from contextlib import redirect_stdout
from datetime import timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing import start_processes
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.forks import (
    THREADS_MAY_BE_LEFT,
    ForkedPython,
    import_once,
    skip_if_forks_cannot_train,
)
from tests.helpers.recipes import check_arguments, given, same

# Imported here, once for all processes that the tests fork.
pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")

pytestmark = [
    THREADS_MAY_BE_LEFT,
    pytest.mark.usefixtures("no_process_is_left", "frozen"),
]


def place(rank, count):
    """Return what torchrun tells a process on one machine."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank}
    counts = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    return {name: str(each) for name, each in (numbers | counts).items()}


def process(rank, program, count, folder, cell, take):
    """Run a program in one of several processes, and keep what is taken."""
    store = dist.FileStore(str(folder / "store"), count)
    common = {"store": store, "timeout": timedelta(seconds=60)}
    join = partial(
        dist.init_process_group, rank=rank, world_size=count, **common
    )
    torch.set_num_threads(1)
    said = io.StringIO()
    with (
        patch.dict(os.environ, place(rank, count)),
        patch("torch.cuda.device_count", lambda: 0),
        patch("torch.distributed.init_process_group", join),
        redirect_stdout(said),
    ):
        taken = take(program.after(cell))
        torch.save([taken, said.getvalue()], folder / f"{rank}.pt")
        store.set(f"done {rank}", "")
        store.wait([f"done {each}" for each in range(count)])


def weights(run):
    """Return the weights that a program has trained."""
    return run.model.state_dict()


def shared(program, count, folder, cell="train", take=weights):
    """Run a program in several processes; return what each took, and said."""
    skip_if_forks_cannot_train()
    import_once("torch._dynamo")  # for DDP
    folder.mkdir()
    inputs = (program, count, folder, cell, take)
    # If one process fails, the others wait for it in vain, and are ended.
    start_processes(process, inputs, count, daemon=True, start_method="fork")
    return [torch.load(folder / f"{rank}.pt") for rank in range(count)]


def alone(program, cell="train"):
    """Run a program in this process alone."""
    with redirect_stdout(io.StringIO()):
        return program.after(cell)


def assert_close(found, expected):
    """Compare weights, up to rounding."""
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, atol=1e-4, rtol=0)


# -- Settings ----------------------------------------------------------------

ARGUMENTS = {
    "EPOCHS": (["--epochs", "3"], 3),
    "BATCH_SIZE": (["--batch-size", "8"], 8),
    "RATE": (["--rate", "0.5"], 0.5),
    "CHECKPOINT": (["--checkpoint", "my.pt"], "my.pt"),
    "SEED": (["--seed", "7"], 7),
}


def test_each_argument_sets_its_constant(snippet):
    check_arguments(snippet, ARGUMENTS)


@edits(
    ("RATE, SEED = options.rate, options.seed", "SEED, RATE = 0.1, 0.5"),
    ("CHECKPOINT = options.checkpoint", ""),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With fixed values, or without its line, an argument sets nothing."""
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


# -- Processes ---------------------------------------------------------------


def test_without_torchrun_there_is_one_process(snippet):
    with no_error():
        run = alone(given(snippet, EPOCHS=1))

    assert (run.rank, run.count) == (0, 1)
    assert not dist.is_initialized()
    assert not hasattr(run.together, "module")


@edits(
    (
        "with a group of its own",
        'if "RANK" in os.environ:\n    backend',
        "if True:\n    backend",
    ),
    (
        "with DDP all the same",
        '(model) if "RANK" in os.environ else model',
        "(model)",
    ),
)
def test_without_torchrun_there_is_one_process__but_not(
    snippet, old, new, fails
):
    """Without `torchrun`, joining a group raises an error, and so does DDP."""
    edited = snippet.edit(old, new)
    fails(test_without_torchrun_there_is_one_process, edited)


@pytest.mark.simulates("several GPUs")
def test_each_process_has_a_gpu_of_its_own(snippet, gpus=2, count=2):
    chosen, join = Mock(), Mock()
    for rank in range(count):
        with (
            patch.dict(os.environ, place(rank, count)),
            patch("torch.cuda.device_count", lambda: gpus),
            patch("torch.cuda.set_device", chosen),
            patch("torch.distributed.init_process_group", join),
        ):
            run = snippet.after("process")

        own = "cpu" if gpus < count else f"cuda:{rank}"
        assert run.device == torch.device(own)
        join.assert_called_with("gloo" if gpus < count else "nccl")
        if own != "cpu":
            chosen.assert_called_with(run.device)


@pytest.mark.simulates("several GPUs")
@pytest.mark.parametrize(("gpus", "count"), [(4, 2), (1, 2), (0, 4), (1, 1)])
def test_each_process_has_a_gpu_of_its_own__also(snippet, gpus, count):
    test_each_process_has_a_gpu_of_its_own(snippet, gpus, count)


@edits(
    ('int(os.environ.get("LOCAL_RANK", 0))', "0"),
    ("    torch.cuda.set_device(device)", "    pass"),
    ('"nccl" if device.type == "cuda" else "gloo"', '"gloo"'),
)
@pytest.mark.simulates("several GPUs")
def test_each_process_has_a_gpu_of_its_own__but_not_with(
    snippet, old, new, fails
):
    """It takes `LOCAL_RANK`, `set_device`, and the backend of GPUs."""
    fails(test_each_process_has_a_gpu_of_its_own, snippet.edit(old, new))


def test_a_batch_that_cannot_be_shared_is_refused(snippet, size=100, count=3):
    with (
        patch.dict(os.environ, place(0, count)),
        patch("torch.distributed.init_process_group"),
        pytest.raises(SystemExit, match=f"{count} .*{size}"),
    ):
        given(snippet, BATCH_SIZE=size).after("process")


@pytest.mark.parametrize(("size", "count"), [(1, 2), (6, 4), (64, 5)])
def test_a_batch_that_cannot_be_shared_is_refused__also(snippet, size, count):
    test_a_batch_that_cannot_be_shared_is_refused(snippet, size, count)


def test_a_batch_that_cannot_be_shared_is_refused__but_not(snippet, fails):
    """If only a batch smaller than the count is refused, this one passes."""
    edited = snippet.edit("if BATCH_SIZE % count:", "if BATCH_SIZE < count:")
    fails(test_a_batch_that_cannot_be_shared_is_refused, edited)


# -- Samples -----------------------------------------------------------------


def test_a_batch_that_is_too_large_is_refused(snippet, size=1501):
    with no_error():
        alone(given(snippet, BATCH_SIZE=1500), "digits")
    with pytest.raises(SystemExit, match=f"1500 .*{size}"):
        alone(given(snippet, BATCH_SIZE=size), "digits")


def test_a_batch_that_is_too_large_is_refused__also_for_more(snippet):
    test_a_batch_that_is_too_large_is_refused(snippet, 20000)


def test_a_batch_that_is_too_large_is_refused__but_not(snippet, fails):
    """Compared with all 1,797 digits, a batch of 1,501 passes."""
    edited = snippet.edit("len(train) < BATCH_SIZE", "1797 < BATCH_SIZE")
    fails(test_a_batch_that_is_too_large_is_refused, edited)


def steps(run, count, epoch):
    """Return the sorted digits of each step that some processes share."""
    parts = []
    for rank in range(count):
        loader, sampler = run.loader_for(rank, count)
        sampler.set_epoch(epoch)
        parts.append([[*map(tuple, images.tolist())] for images, _ in loader])
    return [sorted(chain(*step)) for step in zip(*parts, strict=True)]


@pytest.mark.parametrize(("size", "count"), [(140, 7), (376, 8), (1400, 8)])
def test_a_step_takes_the_same_digits__also(snippet, size, count):
    test_a_step_takes_the_same_digits(snippet, size, count)


def test_a_step_takes_the_same_digits(snippet, size=100, count=2):
    run = alone(given(snippet, BATCH_SIZE=size), "digits")
    for epoch in (0, 3):
        together = steps(run, count, epoch)
        assert len(together) == len(run.train) // size
        assert together == steps(run, 1, epoch)


@edits(
    (
        "with whole batches in each process",
        "BATCH_SIZE // count",
        "BATCH_SIZE",
    ),
    ("with a seed of its own", "seed=SEED, drop_last", "seed=rank, drop_last"),
    (
        "with the same part in each process",
        "num_replicas=count, rank=rank",
        "num_replicas=count, rank=0",
    ),
)
def test_a_step_takes_the_same_digits__but_not(snippet, old, new, fails):
    """Each process needs its own part of a batch, in an order of them all."""
    fails(test_a_step_takes_the_same_digits, snippet.edit(old, new))


@edits(
    ("seed=SEED, drop_last=True", "seed=SEED"),
    ("sampler=sampler, drop_last=True", "sampler=sampler"),
)
def test_a_step_takes_the_same_digits__but_not_with_a_rest(
    snippet, old, new, fails
):
    """Digits that do not fill a batch are shared in another way."""
    edited = snippet.edit(old, new)
    fails(test_a_step_takes_the_same_digits, edited, 376, 8)


def test_each_epoch_has_an_order_of_its_own(snippet):
    run = alone(snippet, "epoch")
    orders = []
    for epoch in range(3):
        run.train_epoch(epoch)
        orders.append([*run.sampler])

    for order in orders:
        assert orders.count(order) == 1
        assert len(set(order)) == len(order) == len(run.train)


@edits(
    ("    sampler.set_epoch(epoch)\n", ""),
    ("rank=rank, seed=SEED", "rank=rank, shuffle=False, seed=SEED"),
)
def test_each_epoch_has_an_order_of_its_own__but_not_with(
    snippet, old, new, fails
):
    """Without `set_epoch`, or without shuffling, the order stays the same."""
    fails(test_each_epoch_has_an_order_of_its_own, snippet.edit(old, new))


# -- Resume ------------------------------------------------------------------


def state(run):
    """Return what a program goes on with."""
    return weights(run), run.optimizer.state_dict(), run.history


def test_all_processes_read_the_checkpoint(snippet, tmp_path):
    saved = given(snippet, EPOCHS=1, CHECKPOINT=str(tmp_path / "saved.pt"))
    run = alone(saved)

    found = shared(saved, 2, tmp_path / "two", "resume", state)

    for each, _ in found:
        assert same(each, state(run))


@edits(
    ("if CHECKPOINT and", "if rank == 0 and CHECKPOINT and"),
    ('    optimizer.load_state_dict(saved["optimizer"])\n', ""),
    ('history, best = saved["history"], saved["best"]', "pass"),
)
def test_all_processes_read_the_checkpoint__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """One process alone reads it, or a part of it is not read."""
    edited = snippet.edit(old, new)
    fails(test_all_processes_read_the_checkpoint, edited, tmp_path)


OTHERS = [("BATCH_SIZE", 50), ("RATE", 0.01), ("SEED", 1)]


@pytest.mark.parametrize(("name", "value"), OTHERS[1:])
def test_other_settings_are_refused__also(snippet, tmp_path, name, value):
    test_other_settings_are_refused(snippet, tmp_path, name, value)


def test_other_settings_are_refused(
    snippet, tmp_path, name=OTHERS[0][0], value=OTHERS[0][1]
):
    path = str(tmp_path / "saved.pt")
    alone(given(snippet, EPOCHS=1, CHECKPOINT=path))

    with no_error():
        alone(given(snippet, EPOCHS=2, CHECKPOINT=path), "resume")
    other = given(snippet, EPOCHS=1, CHECKPOINT=path, **{name: value})
    with pytest.raises(SystemExit, match="was made with"):
        alone(other, "resume")


def test_other_settings_are_refused__but_not(snippet, tmp_path, fails):
    """Without the comparison, any checkpoint is read."""
    edited = snippet.edit('saved["settings"] != settings', "False")
    fails(test_other_settings_are_refused, edited, tmp_path)


# -- Training ----------------------------------------------------------------


def shares_of(run):
    """Return the share of right answers as counted, and if all are right."""
    counted = run.right_share()
    images, labels = run.valid.tensors
    labels.copy_(run.model(images).argmax(dim=1))
    return counted, run.right_share()


def test_each_digit_counts_once(snippet, tmp_path, count=2):
    run = alone(snippet, "epoch")
    images, labels = run.valid.tensors
    right = (run.model(images).argmax(dim=1) == labels).sum().item()
    expected = right / len(labels), 1.0

    found = shared(snippet, count, tmp_path / "all", "epoch", shares_of)

    assert [shares for shares, _ in found] == [expected] * count
    assert shares_of(run) == expected


def test_each_digit_counts_once__also_in_four(snippet, tmp_path):
    test_each_digit_counts_once(snippet, tmp_path, 4)


PART = "Subset(valid, range(rank, len(valid), count))"


@edits(
    ("with all digits in each process", PART, "valid"),
    (
        "with as many for each process",
        PART,
        "Subset(valid, [*DistributedSampler(valid, count, rank)])",
    ),
    ("without a sum", "    [right] = total(right)\n", ""),
)
def test_each_digit_counts_once__but_not(snippet, tmp_path, old, new, fails):
    """Each process takes all digits, or equally many, or nobody adds up."""
    edited = snippet.edit(old, new)
    fails(test_each_digit_counts_once, edited, tmp_path)


def loss_of(run):
    """Return the loss of an epoch, as a program prints it."""
    return run.train_epoch(0)


def test_the_loss_is_that_of_all_processes(snippet, tmp_path):
    expected = loss_of(alone(snippet, "epoch"))

    found = shared(snippet, 2, tmp_path / "two", "epoch", loss_of)

    assert [loss for loss, _ in found] == [pytest.approx(expected, 1e-4)] * 2


@edits(
    ("losses, taken = total(losses, taken)", "pass"),
    ("loss.item() * len(labels)", "loss.item()"),
)
def test_the_loss_is_that_of_all_processes__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without the sum over processes, or without the sizes of batches."""
    edited = snippet.edit(old, new)
    fails(test_the_loss_is_that_of_all_processes, edited, tmp_path)


def test_the_loss_is_that_of_all_processes__also_as_a_mean(snippet):
    run = alone(snippet.edit("lr=RATE", "lr=0.0"), "epoch")
    loss = run.train_epoch(0)

    images, labels = run.train.tensors
    mean = F.cross_entropy(run.model(images), labels).item()
    assert loss == pytest.approx(mean, 1e-4)


@pytest.mark.parametrize("count", [4])
def test_the_same_model_with_any_number_of_processes__also_of(
    snippet, tmp_path, count
):
    test_the_same_model_with_any_number_of_processes(snippet, tmp_path, count)


def test_the_same_model_with_any_number_of_processes(
    snippet, tmp_path, count=2
):
    few = given(snippet, EPOCHS=2)
    expected = alone(few)
    new = alone(few, "model")

    found = shared(few, count, tmp_path / "all")

    assert (weights(new)["0.weight"] - weights(expected)["0.weight"]).any()
    for each, _ in found:
        assert same(each, found[0][0])
        assert_close(each, weights(expected))


@edits(
    ("with the model inside", "together(images)", "model(images)"),
    (
        "with whole batches in each process",
        "BATCH_SIZE // count",
        "BATCH_SIZE",
    ),
)
def test_the_same_model_with_any_number_of_processes__but_not(
    snippet, tmp_path, old, new, fails
):
    """Without DDP, or with whole batches in each process, weights differ."""
    edited = snippet.edit(old, new)
    fails(test_the_same_model_with_any_number_of_processes, edited, tmp_path)


def test_the_same_model_with_any_number_of_processes__ends_with_batch_norm(
    snippet, tmp_path, fails
):
    """`BatchNorm` normalizes the digits of its own process."""
    edited = snippet.edit("nn.LayerNorm(64)", "nn.BatchNorm1d(64)")
    fails(test_the_same_model_with_any_number_of_processes, edited, tmp_path)


def test_the_same_model_with_any_number_of_processes__also_by_torchrun(
    snippet, tmp_path
):
    skip_if_forks_cannot_train()
    import_once("torch._dynamo")
    (tmp_path / "train.py").write_text(snippet.text, encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    here = ["--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]
    settings = ["--epochs=2", "--checkpoint=two.pt"]
    command = [*torchrun, *here, "train.py", *settings]
    with (
        patch.dict(os.environ, CUDA_VISIBLE_DEVICES=""),
        ForkedPython(command, cwd=tmp_path) as run,
    ):
        try:
            run.communicate(timeout=120)
        finally:
            run.terminate()

    assert run.returncode == 0
    saved = torch.load(tmp_path / "two.pt")
    assert_close(saved["model"], weights(alone(given(snippet, EPOCHS=2))))


def test_it_goes_on_with_another_number(snippet, tmp_path, first=2, then=1):
    path = str(tmp_path / "saved.pt")
    expected = weights(alone(given(snippet, EPOCHS=2)))

    shared(
        given(snippet, EPOCHS=1, CHECKPOINT=path), first, tmp_path / "first"
    )
    found = shared(
        given(snippet, EPOCHS=2, CHECKPOINT=path), then, tmp_path / "then"
    )

    for each, _ in found:
        assert_close(each, expected)


def test_it_goes_on_with_another_number__also_from_one_to_two(
    snippet, tmp_path
):
    test_it_goes_on_with_another_number(snippet, tmp_path, 1, 2)


def test_it_goes_on_with_another_number__but_not_without_the_weights(
    snippet, tmp_path, fails
):
    """If the weights are not read, it goes on with untrained ones."""
    old = '    model.load_state_dict(saved["model"])\n'
    edited = snippet.edit(old, "")
    fails(test_it_goes_on_with_another_number, edited, tmp_path)


def test_the_checkpoint_holds_the_best_epoch__also_in_a_new_folder(
    snippet, tmp_path
):
    test_the_checkpoint_holds_the_best_epoch(snippet, tmp_path / "my" / "runs")


def test_the_checkpoint_holds_the_best_epoch(snippet, tmp_path):
    path = tmp_path / "saved.pt"
    run = alone(given(snippet, EPOCHS=6, CHECKPOINT=str(path), RATE=0.2))

    best = torch.load(path)["best"]

    assert best["share"] == max(share for _, share in run.history)
    run.model.load_state_dict(best["model"])
    assert run.right_share() == best["share"]


@edits(
    ('if share > best["share"]', "if True"),
    ("copy.deepcopy(model.state_dict())", "model.state_dict()"),
)
def test_the_checkpoint_holds_the_best_epoch__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without a copy, the best weights are those of the last epoch."""
    edited = snippet.edit(old, new)
    fails(test_the_checkpoint_holds_the_best_epoch, edited, tmp_path)


def test_one_process_writes_and_prints(snippet, tmp_path):
    path = tmp_path / "saved.pt"
    few = given(snippet, EPOCHS=1, CHECKPOINT=str(path))
    # If both wrote, only one would find the file that it renames.
    kept = patch.object(Path, "replace")
    with kept, patch("torch.save", Mock(wraps=torch.save)):

        def files(run):
            """Return the files that a process wrote."""
            return [str(call.args[1]) for call in torch.save.mock_calls]

        (first, said), (second, silence) = shared(
            few, 2, tmp_path / "two", take=files
        )

    assert first == [f"{path}.partial"]
    assert second == []
    assert said.startswith("epoch 1: loss ")
    assert silence == ""


def test_one_process_writes_and_prints__also_as_it_goes_on(snippet, tmp_path):
    path = str(tmp_path / "saved.pt")
    alone(given(snippet, EPOCHS=1, CHECKPOINT=path))

    more = given(snippet, EPOCHS=2, CHECKPOINT=path)
    (_, said), (_, silence) = shared(more, 2, tmp_path / "two")

    begins = f"{path}: going on after epoch 1\nepoch 2: loss "
    assert said[: len(begins)] == begins
    assert silence == ""


@edits(
    ("if rank or not CHECKPOINT", "if not CHECKPOINT"),
    (
        'if rank == 0:\n        print(f"epoch',
        'if True:\n        print(f"epoch',
    ),
)
def test_one_process_writes_and_prints__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without the checks of `rank`, others write or print as well."""
    edited = snippet.edit(old, new)
    fails(test_one_process_writes_and_prints, edited, tmp_path)


def test_a_failed_write_keeps_the_last_checkpoint(snippet, tmp_path):
    path = tmp_path / "saved.pt"
    saved = {"CHECKPOINT": str(path)}
    alone(given(snippet, EPOCHS=1, **saved))

    def half(parts, name):
        """Write the beginning of a file, as onto a full disk."""
        Path(name).write_bytes(b"half")
        raise OSError("no space left")

    with patch("torch.save", half), pytest.raises(OSError, match="no space"):
        alone(given(snippet, EPOCHS=2, **saved))

    assert path.read_bytes() != b"half"
    assert len(torch.load(path)["history"]) == 1


def test_a_failed_write_keeps_the_last_checkpoint__but_not(
    snippet, tmp_path, fails
):
    """Written in place, half a file is left of the checkpoint."""
    name = 'f"{CHECKPOINT}.partial"'
    old = f"{name})\n    Path({name}).replace(CHECKPOINT)"
    edited = snippet.edit(old, "CHECKPOINT)")
    fails(test_a_failed_write_keeps_the_last_checkpoint, edited, tmp_path)
