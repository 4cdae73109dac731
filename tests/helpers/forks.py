"""What tests need whose programs train in forked processes."""

import multiprocessing

import pytest
import torch

# From Python 3.12 on; a thread may be left from the tests of another module.
THREADS_MAY_BE_LEFT = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def _backward():
    torch.ones(1, requires_grad=True).backward()


def skip_if_forks_cannot_train():
    """Try it where there is a GPU: its threads for autograd don't survive."""
    if torch.accelerator.is_available():
        fork = multiprocessing.get_context("fork").Process(target=_backward)
        fork.start()
        fork.join()
        if fork.exitcode:
            pytest.skip(
                "where there is a GPU, a process that has run backward()"
                " cannot fork others that train; run this module by itself"
            )
