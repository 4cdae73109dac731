"""A checklist of nasty worlds: inputs that break what holds for toys.

Each table has a name, which a reader sees in the panel of a claim, and a
function that makes the thing anew::

    @each("tensor", TENSORS, "empty", "transposed")
    def test_x__also_for_a_tensor(snippet, tensor): ...

Before a claim is kept, go through the whole list: a table that its words are
about is tried in a test, or stands in the words or in a limit.

- models: TENSORS, MODELS, DTYPES below
- streams that are longer than the buffer, of one sample, and of none
- batches of one; a last batch that is smaller
- labels of 0, ignored labels (-100), padding that is also a value
- file names with and without hyphens, several data sets in one folder
- a second process, with ``fork`` and with ``spawn``
- dicts whose keys are no strings; several groups of parameters
"""

import pytest
import torch
from torch import nn

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

# Each is made anew: a test may write into it.
TENSORS = {
    "empty": lambda: torch.empty(0, 3),
    "a single number": lambda: torch.tensor(3.0),
    "of one element": lambda: torch.ones(1, 1),
    "transposed": lambda: torch.arange(6.0).reshape(2, 3).T,
    "with gaps": lambda: torch.arange(12.0).reshape(2, 6)[:, ::2],
    "expanded": lambda: torch.arange(3.0).expand(2, 3),
    "requiring grad": lambda: torch.ones(2, 3, requires_grad=True),
    "non-leaf": lambda: torch.ones(2, 3, requires_grad=True) * 2,
    "float16": lambda: torch.ones(2, 3, dtype=torch.float16),
    "bfloat16": lambda: torch.ones(2, 3, dtype=torch.bfloat16),
    "float64": lambda: torch.ones(2, 3, dtype=torch.float64),
    "at the ends of int64": lambda: torch.tensor([-(2**63), 2**63 - 1]),
    "at the ends of uint8": lambda: torch.tensor([0, 255], dtype=torch.uint8),
    "boolean": lambda: torch.tensor([[True, False]]),
    "with nan": lambda: torch.tensor([[1.0, float("nan")]]),
    "with inf": lambda: torch.tensor([[1.0, float("inf")]]),
}


class _Tied(nn.Module):
    """Two layers that share one weight."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(3, 3, bias=False)
        self.decoder = nn.Linear(3, 3)
        self.decoder.weight = self.encoder.weight

    def forward(self, inputs):
        """Return the decoded code."""
        return self.decoder(self.encoder(inputs))


class _ReturnsTuple(nn.Module):
    """A model with two outputs."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, inputs):
        """Return the outputs, and what they come from."""
        return self.head(inputs), inputs


def _frozen_in_part():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[0].requires_grad_(False)
    return model


# Each takes inputs of shape (N, 3), N of 2 or more, and gives (N, 3).
MODELS = {
    "with BatchNorm": lambda: nn.Sequential(
        nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3)
    ),
    "with dropout": lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout()),
    "tied": _Tied,
    "frozen in part": _frozen_in_part,
    "lazy": lambda: nn.LazyLinear(3),
    "with a tuple of outputs": _ReturnsTuple,
    "float64": lambda: nn.Linear(3, 3).double(),
    "bfloat16": lambda: nn.Linear(3, 3).bfloat16(),
}


def each(name, worlds, *names):
    """Run a test in each of some worlds, or in all of a table.

    Parameters
    ----------
    name
        The parameter of the test.
    worlds
        One of the tables above.
    names
        Those that are meant; all if none is named.
    """
    chosen = names or tuple(worlds)
    values = [worlds[each] for each in chosen]
    return pytest.mark.parametrize(name, values, ids=chosen)
