"""The claims of docs/models/devices.md."""

import pytest
import torch


def test_none_without_an_accelerator(snippet):
    run = snippet.after("choose")

    assert (run.found is not None) == torch.accelerator.is_available()
    assert run.device.type == (run.found.type if run.found else "cpu")


def test_none_without_an_accelerator__but_not_of_another_name(snippet, fails):
    edited = snippet.edit(
        "torch.accelerator.current_accelerator(check_available=True)",
        'torch.device("meta")',
    )
    fails(test_none_without_an_accelerator, edited)


def test_built_for_is_not_there(snippet, monkeypatch):
    # What a build for CUDA says of itself, on a machine without a GPU.
    cuda = torch.device("cuda")
    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: cuda)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)

    assert torch.accelerator.current_accelerator() == cuda
    assert snippet.after("choose").device == torch.device("cpu")


def test_built_for_is_not_there__but_is_taken_unchecked(
    snippet, monkeypatch, fails
):
    edited = snippet.edit("check_available=True", "check_available=False")
    fails(test_built_for_is_not_there, edited, monkeypatch)


def test_one_device_works(snippet):
    run = snippet.after("make")

    output = run.model(run.inputs)
    assert output.device.type == run.device.type
    assert output.shape == (2, 1)


def test_one_device_works__but_is_the_one_that_was_chosen(snippet, fails):
    edited = snippet.edit(
        'found or torch.device("cpu")', 'torch.device("cpu")'
    )
    edited = edited.edit("device=device)", 'device="meta")').edit(
        ".to(device)", '.to("meta")'
    )
    fails(test_one_device_works, edited)


def test_to_moves_a_copy(snippet):
    run = snippet.after("tensor")

    assert run.tensor.device.type == "cpu"
    assert run.moved.device.type == "meta"


def test_to_moves_a_copy__but_an_assignment_keeps_one(snippet, fails):
    edited = snippet.edit("moved = tensor.to", "moved = tensor = tensor.to")
    fails(test_to_moves_a_copy, edited)


def test_to_the_same_device_copies_nothing(snippet, capsys):
    snippet.after("tensor")

    assert capsys.readouterr().out.endswith("True\n")


def test_to_the_same_device_copies_nothing__but_does_if_told(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "tensor.to(tensor.device)", "tensor.to(tensor.device, copy=True)"
    )
    fails(test_to_the_same_device_copies_nothing, edited, capsys)


def test_to_changes_a_module(snippet):
    run = snippet.after("module")

    assert run.returned is run.network
    assert run.network.linear.weight.is_meta


def test_to_changes_a_module__but_not_a_copy_of_it(snippet, fails):
    edited = snippet.edit(
        'returned = network.to("meta")',
        'import copy\n\nreturned = copy.deepcopy(network).to("meta")',
    )
    fails(test_to_changes_a_module, edited)


def test_registered_parts_move(snippet):
    rows = snippet.after("along").rows

    for name in ("a parameter", "its gradient", "a buffer"):
        assert rows[name]["is on"] == "meta"


def test_registered_parts_move__but_not_unregistered_ones(snippet, fails):
    edited = snippet.edit(
        'self.register_buffer("mean", torch.zeros(3))',
        "self.mean = torch.zeros(3)",
    )
    fails(test_registered_parts_move, edited)


def test_unregistered_parts_stay(snippet):
    rows = snippet.after("along").rows

    for name in ("a plain tensor", "a layer in a list"):
        assert rows[name]["is on"] == "cpu"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "self.plain = torch.zeros(3)",
            'self.register_buffer("plain", torch.zeros(3))',
        ),
        ("[nn.Linear(3, 1)]", "nn.ModuleList([nn.Linear(3, 1)])"),
    ],
)
def test_unregistered_parts_stay__but_not_once_registered(
    snippet, old, new, fails
):
    fails(test_unregistered_parts_stay, snippet.edit(old, new))


def test_two_devices_raise(snippet):
    said = snippet.after("mismatch").said

    for name in ("x @ w", "x + w", "cat([x, w])"):
        assert said[name] == "Expected all tensors to be on the same device"


def test_two_devices_raise__but_not_one(snippet, fails):
    edited = snippet.edit(
        "torch.ones(3, 3), torch.ones",
        'torch.ones(3, 3, device="cuda"), torch.ones',
    )
    fails(test_two_devices_raise, edited)


def test_one_number_may_stay(snippet):
    assert snippet.after("mismatch").said["w + one number"] == "cuda:0"


def test_one_number_may_stay__but_not_two(snippet, fails):
    edited = snippet.edit("w + torch.tensor(1.0)", "w + torch.ones(1, 3)")
    fails(test_one_number_may_stay, edited)


def test_one_number_may_stay__but_not_with_an_axis(snippet, fails):
    edited = snippet.edit("w + torch.tensor(1.0)", "w + torch.ones(1)")
    fails(test_one_number_may_stay, edited)


def test_whole_numbers_are_a_second_fault(snippet, capsys):
    snippet.after("two-bugs")

    said = "must have the same dtype, but got Long and Float\n"
    assert capsys.readouterr().out.endswith(said)


def test_whole_numbers_are_a_second_fault__but_not_fractions(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "torch.tensor([1, 2, 3])", "torch.tensor([1.0, 2, 3])"
    )
    fails(test_whole_numbers_are_a_second_fault, edited, capsys)


@pytest.mark.cuda
def test_cuda_refuses_the_cpu(snippet, capsys):
    snippet.after("on-cuda")

    assert capsys.readouterr().out.endswith("True\ncuda\n")


@pytest.mark.cuda
def test_cuda_refuses_the_cpu__but_not_its_own(snippet, capsys, fails):
    edited = snippet.edit(
        "layer(torch.ones(1, 3))\n", 'layer(torch.ones(1, 3, device="cuda"))\n'
    )
    fails(test_cuda_refuses_the_cpu, edited, capsys)
