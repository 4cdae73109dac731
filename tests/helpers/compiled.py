"""What tests of compiled models share: a model, and what the tracer logs."""

import contextlib
import logging
from unittest.mock import patch

from torch import nn


class Normed(nn.Module):
    """A model with BatchNorm, which a training changes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)
        )

    def forward(self, x):
        """Return the outputs of the layers."""
        return self.layers(x)


class Warned(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        """Keep the text of a record."""
        self.said.append(record.getMessage())


@contextlib.contextmanager
def logged():
    """Give what the tracer logs."""
    handler, logger = Warned(), logging.getLogger("torch._dynamo")
    logger.addHandler(handler)
    try:
        yield handler.said
    finally:
        logger.removeHandler(handler)


@contextlib.contextmanager
def unobserved():
    """Let the tracer not measure itself, which takes half of its time.

    For each graph it times the guards, with the CPU's cache emptied before,
    lists its settings, and writes a structured trace, which pytest's handlers
    of logs switch on.
    """
    from torch._dynamo import guards, utils
    from torch._logging import _internal

    with (
        patch.object(
            guards, "profile_guard_manager", lambda *_: 0.0, create=True
        ),
        patch.object(
            utils,
            "_scrubbed_inductor_config_for_logging",
            lambda: None,
            create=True,
        ),
        patch.object(_internal, "trace_log", logging.Logger("unheard")),
    ):
        yield
