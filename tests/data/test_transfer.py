"""The claims of docs/data/transfer.md."""

import pytest
import torch

from extensions.files.failures import no_error

without_accelerator = pytest.mark.skipif(
    torch.accelerator.is_available(), reason="an accelerator is here"
)
# The second is what a build for CUDA says.
NOTHING_THERE = "accelerator|NVIDIA driver"


def test_without_a_device_nothing_moves(snippet, capsys):
    snippet.after("no-device")

    assert capsys.readouterr().out == "True\n"


def test_without_a_device_nothing_moves__but_with_one(snippet, capsys, fails):
    edited = snippet.edit(
        "x.to(non_blocking=True)", 'x.to("meta", non_blocking=True)'
    )
    fails(test_without_a_device_nothing_moves, edited, capsys)


def test_the_same_device_copies_nothing(snippet, capsys):
    snippet.after("same-device")

    assert capsys.readouterr().out.splitlines()[-2:] == ["True", "False"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", copy=True) is x", ") is x"),
        (
            '("cpu", non_blocking=True) is x',
            '("meta", non_blocking=True) is x',
        ),
    ],
)
def test_the_same_device_copies_nothing__but_not(
    snippet, capsys, old, new, fails
):
    fails(test_the_same_device_copies_nothing, snippet.edit(old, new), capsys)


def test_on_the_cpu_copies_are_complete(snippet):
    assert snippet.after("on-the-cpu").arrived == 1_000_000


def test_on_the_cpu_copies_are_complete__but_not_before(snippet, fails):
    call = "target.copy_(torch.ones(1_000_000), non_blocking=True)\n"
    ask = "arrived = int(target.sum())\n"
    fails(
        test_on_the_cpu_copies_are_complete,
        snippet.edit(call + ask, ask + call),
    )


def test_tensors_are_not_pinned(snippet):
    with no_error():
        run = snippet.after("pinned")

    assert not run.x.is_pinned()


@pytest.mark.cuda
def test_tensors_are_not_pinned__but_if_asked_for(snippet, fails):
    edited = snippet.edit(
        "torch.ones(3)\n\nprint", "torch.ones(3, pin_memory=True)\n\nprint"
    )
    fails(test_tensors_are_not_pinned, edited)


@without_accelerator
def test_tensors_are_not_pinned__but_cannot_be_here(snippet, fails):
    edited = snippet.edit(
        "torch.ones(3)\n\nprint", "torch.ones(3, pin_memory=True)\n\nprint"
    )
    fails(test_tensors_are_not_pinned, edited)


@without_accelerator
def test_pinning_needs_an_accelerator(snippet):
    """No edit makes it false: where there is a device, there is one."""
    run = snippet.after("pinned")

    with pytest.raises(RuntimeError, match=NOTHING_THERE):
        run.x.pin_memory()


def test_pinning_needs_an_accelerator__also_where_one_only_asks(
    snippet, capsys
):
    snippet.edit("x.pin_memory().is_pinned()", "x.is_pinned()").after("pinned")

    assert capsys.readouterr().out.endswith("False\nFalse\n")


@without_accelerator
def test_a_pinning_loader_only_warns(snippet):
    run = snippet.after("pinning-loader")

    assert len(run.caught) == 1
    assert run.batch.tolist() == [0, 1]
    assert not run.batch.is_pinned()
    assert "no accelerator is found" in str(run.caught[0].message)


@without_accelerator
def test_a_pinning_loader_only_warns__but_not_unasked(snippet, fails):
    edited = snippet.edit("batch_size=2, pin_memory=True", "batch_size=2")
    fails(test_a_pinning_loader_only_warns, edited)


def test_move_reaches_nested_tensors(snippet):
    moved = snippet.after("moved").moved

    assert moved["image"].is_meta
    assert moved["boxes"][0].is_meta
    assert moved["name"] == "cat"


@pytest.mark.parametrize("kind", ["dict", "(list, tuple)"])
def test_move_reaches_nested_tensors__but_not_other_kinds(
    snippet, kind, fails
):
    edited = snippet.edit(f"isinstance(batch, {kind})", "False")
    fails(test_move_reaches_nested_tensors, edited)


def test_to_leaves_the_tensor_in_place(snippet):
    assert snippet.after("discarded").kept.type == "cpu"


def test_to_leaves_the_tensor_in_place__but_not_its_result(snippet, fails):
    edited = snippet.edit('weight.to("meta")', 'weight = weight.to("meta")')
    fails(test_to_leaves_the_tensor_in_place, edited)


@pytest.mark.cuda
def test_pinned_copies_return_early(snippet):
    run = snippet.after("returns-early")

    assert not run.done_on_return
    assert run.done_when_waited_for


@pytest.mark.cuda
def test_pinned_copies_return_early__but_not_if_blocking(snippet, fails):
    edited = snippet.edit(
        'large.to("cuda", non_blocking=True)', 'large.to("cuda")'
    )
    fails(test_pinned_copies_return_early, edited)


@pytest.mark.cuda
def test_a_changed_source_arrives_changed(snippet):
    assert snippet.after("changed-source").copied == 1


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('source.to("cuda", non_blocking=True)', 'source.to("cuda")'),
        (
            "    source.fill_(1)\n",
            "    torch.cuda.synchronize()\n    source.fill_(1)\n",
        ),
    ],
)
def test_a_changed_source_arrives_changed__but_not_later(
    snippet, old, new, fails
):
    fails(test_a_changed_source_arrives_changed, snippet.edit(old, new))


@pytest.mark.cuda
def test_reading_early_reads_old_numbers(snippet):
    assert snippet.after("read-too-early").read_early == 0


@pytest.mark.cuda
def test_reading_early_reads_old_numbers__but_not_if_blocking(snippet, fails):
    edited = snippet.edit(
        "host.copy_(result, non_blocking=True)", "host.copy_(result)"
    )
    fails(test_reading_early_reads_old_numbers, edited)


@pytest.mark.cuda
def test_reading_late_reads_new_numbers(snippet):
    assert snippet.after("read-too-early").read_late == 1


@pytest.mark.cuda
def test_reading_late_reads_new_numbers__but_not_without_a_copy(
    snippet, fails
):
    edited = snippet.edit("    host.copy_(result, non_blocking=True)\n", "")
    fails(test_reading_late_reads_new_numbers, edited)
