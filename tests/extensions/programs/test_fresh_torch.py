"""What every snippet finds before it runs."""

import subprocess
import sys

import pytest
import torch

from extensions.core.topics import ROOT
from extensions.programs.snippet import reset_torch


def test_a_snippet_finds_the_torch_of_a_fresh_prompt():
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_printoptions(precision=1)

    reset_torch({}, "")

    assert torch.tensor(1.0).dtype == torch.float32
    assert torch.is_grad_enabled()
    assert repr(torch.tensor(0.1234)) == "tensor(0.1234)"


def test_a_snippet_that_forgets_its_seed_differs_from_run_to_run():
    reset_torch({}, "")
    first = torch.rand(10)
    reset_torch({}, "")

    assert not torch.equal(first, torch.rand(10))


def test_a_snippet_finds_algorithms_that_may_vary():
    torch.use_deterministic_algorithms(True)

    reset_torch({}, "")

    assert not torch.are_deterministic_algorithms_enabled()


def test_a_snippet_finds_the_switches_of_cudnn_as_they_come():
    cudnn = torch.backends.cudnn
    cudnn.enabled, cudnn.benchmark = False, True
    cudnn.deterministic, cudnn.allow_tf32 = True, False

    reset_torch({}, "")

    assert (cudnn.enabled, cudnn.benchmark) == (True, False)
    assert (cudnn.deterministic, cudnn.allow_tf32) == (False, True)


def test_a_snippet_finds_products_of_all_digits():
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.fp32_precision = "ieee"

    reset_torch({}, "")

    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.backends.fp32_precision == "none"


def test_a_snippet_finds_how_python_shows_errors():
    sys.excepthook = print

    reset_torch({}, "")

    assert sys.excepthook is sys.__excepthook__


@pytest.mark.parametrize("loaded", [True, False])
def test_a_snippet_finds_nothing_compiled(monkeypatch, loaded):
    calls = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: calls.append(1))
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    if loaded:
        monkeypatch.setitem(sys.modules, "torch._dynamo", torch)

    reset_torch({}, "")

    assert len(calls) == loaded


def test_a_fresh_torch_comes_without_the_compiler():
    code = (
        "import sys; from extensions.programs.snippet import reset_torch;"
        " reset_torch({}, ''); sys.exit('torch._inductor' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)

    assert done.returncode == 0
