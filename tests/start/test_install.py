"""The claims of docs/start/install.md."""

import pytest
import torch

from extensions.files.failures import edits, no_error


def test_the_check_computes_on_the_device(snippet):
    with no_error():
        run = snippet.after("check")

    assert (run.numbers**2).sum().item() == 14
    assert run.numbers.device.type == run.device.type
    if torch.accelerator.is_available():
        assert run.device == torch.accelerator.current_accelerator()
    else:
        assert run.device.type == "cpu"


@edits(
    ("of other numbers", "3.0]", "4.0]"),
    ("on a device without data", "device=device)", 'device="meta")'),
)
def test_the_check_computes_on_the_device__but_not(snippet, old, new, fails):
    fails(test_the_check_computes_on_the_device, snippet.edit(old, new))


def test_the_check_says_version_and_device(snippet, capsys):
    run = snippet.after("check")

    first, _ = capsys.readouterr().out.splitlines()
    assert first == f"torch {torch.__version__} on {run.device}"


@pytest.mark.parametrize(
    ("old", "new"),
    [("torch.__version__", "torch"), ('"on", device', '"on", "cpu0"')],
    ids=["without its number", "with another name"],
)
def test_the_check_says_version_and_device__but_not(
    snippet, old, new, capsys, fails
):
    fails(
        test_the_check_says_version_and_device, snippet.edit(old, new), capsys
    )
