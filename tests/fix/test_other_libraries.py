"""The claims of docs/fix/other_libraries.md."""

import math

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error

SAYS = "probability tensor contains either `inf`, `nan` or element < 0"


def drawn(shares):
    """Return what `multinomial` draws, or what its error says."""
    try:
        return torch.multinomial(shares, num_samples=1).tolist()
    except RuntimeError as error:
        return str(error)


def test_one_score_spoils_all(snippet, scores=None):
    found = snippet.after("sample")

    shares = found.shares if scores is None else scores.softmax(dim=-1)
    found = [math.isnan(each) for each in shares.flatten().tolist()]
    assert found == [True] * shares.numel()
    assert drawn(shares) == SAYS


SPOILED = {
    "inf": torch.tensor([1.0, math.inf, 2.0]),
    "nan alone": torch.tensor([math.nan] * 3),
    "bfloat16": torch.tensor([1.0, 2.0, math.nan]).bfloat16(),
    "float16": torch.tensor([1.0, 2.0, math.nan]).half(),
    "a row that is masked whole": torch.full((3,), -math.inf),
}


@pytest.mark.parametrize("scores", SPOILED.values(), ids=SPOILED)
def test_one_score_spoils_all__also_for(snippet, scores):
    test_one_score_spoils_all(snippet, scores)


def test_one_score_spoils_all__but_not_finite_ones(snippet, fails):
    """Finite scores give probabilities, and a token is drawn."""
    fails(test_one_score_spoils_all, snippet.edit("torch.nan", "3.0"))


def test_one_score_spoils_all__ends_with_a_masked_token(snippet, fails):
    """A score of `-inf` beside finite ones only gets the probability 0."""
    fails(test_one_score_spoils_all, snippet.edit("torch.nan", "-torch.inf"))


def test_one_score_spoils_all__ends_in_another_row(snippet, fails):
    """Of a batch, only the row with the `nan` is spoiled."""
    scores = torch.tensor([[1.0, 2.0, math.nan], [1.0, 2.0, 3.0]])
    fails(test_one_score_spoils_all, snippet, scores)


def test_float16_overflows(snippet):
    with no_error():
        found = snippet.after("overflow").products

    assert found[torch.float16] == math.inf
    assert 102_400 * 0.99 < found[torch.bfloat16] < 102_400 * 1.01


@edits(("negative", "(64,), 40.0", "(64,), -40.0"))
def test_float16_overflows__also_if(snippet, old, new):
    test_float16_overflows(snippet.edit(old, new))


def test_float16_overflows__but_not_by_less(snippet, fails):
    """Up to 65,504, `float16` holds a number as well."""
    fails(test_float16_overflows, snippet.edit("(64,), 40.0", "(64,), 30.0"))
