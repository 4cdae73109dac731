"""The claims of docs/start/install.md."""

from unittest.mock import Mock

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error


def pretend(monkeypatch, finds):
    """Let PyTorch find an accelerator, or none; without numbers, it adds 0."""
    accelerator, item = torch.accelerator, torch.Tensor.item
    device = torch.device("meta")
    monkeypatch.setattr(accelerator, "is_available", lambda: finds)
    found = Mock(return_value=device)
    monkeypatch.setattr(accelerator, "current_accelerator", found)
    monkeypatch.setattr(
        torch.Tensor, "item", lambda x: 0 if x.is_meta else item(x)
    )


@pytest.mark.simulates("an accelerator")
def test_the_check_computes_on_the_device(snippet, monkeypatch):
    there = torch.accelerator.is_available()
    named = torch.accelerator.current_accelerator() if there else "cpu"
    with no_error():
        run = snippet.after("check")

    assert run.device == torch.device(named)
    assert run.numbers.device.type == run.device.type
    assert run.numbers.shape == (3,)
    assert (run.numbers**2).sum().item() == 14
    for finds, named in ((True, "meta"), (False, "cpu")):
        pretend(monkeypatch, finds)
        run = snippet.after("check")
        assert run.device == run.numbers.device == torch.device(named)


@edits(
    ("of other numbers", "3.0]", "4.0]"),
    ("on a device without data", "device=device)", 'device="meta")'),
    ("on the CPU in any case", ", device=device", ""),
    (
        "without a look",
        "    if torch.accelerator.is_available()\n",
        "    if True\n",
    ),
)
def test_the_check_computes_on_the_device__but_not(
    snippet, monkeypatch, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_the_check_computes_on_the_device, edited, monkeypatch)


def test_the_check_says_version_and_device(snippet, capsys):
    run = snippet.after("check")

    first, _ = capsys.readouterr().out.splitlines()
    assert first == f"torch {torch.__version__} on {run.device}"
    assert run.numbers.device.type == run.device.type


@pytest.mark.parametrize("finds", [True, False])
def test_the_check_says_version_and_device__also_of_another(
    snippet, capsys, monkeypatch, finds
):
    pretend(monkeypatch, finds)
    test_the_check_says_version_and_device(snippet, capsys)


@edits(
    ("without its number", "torch.__version__", "torch"),
    ("with another name", '"on", device', '"on", "cpu0"'),
)
def test_the_check_says_version_and_device__but_not(
    snippet, old, new, capsys, fails
):
    fails(
        test_the_check_says_version_and_device, snippet.edit(old, new), capsys
    )


def test_the_check_says_version_and_device__but_not_if_it_computes_elsewhere(
    snippet, capsys, monkeypatch, fails
):
    pretend(monkeypatch, True)
    edited = snippet.edit(", device=device", "")
    fails(test_the_check_says_version_and_device, edited, capsys)
