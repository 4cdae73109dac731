"""What every snippet finds before it runs."""

import torch

from extensions.site.fresh_torch import reset_torch


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
