"""What a reader is shown of a failed assertion."""

import pytest
import torch

from extensions.evidence.explanations import (
    explained,
    readable,
    shows_nothing,
)


class Sampler:
    """Something whose representation has an address."""

    def has(self, number):
        """Whether it has a number."""
        return number < 0


def a_call_of_a_library(a, b):
    assert torch.equal(a, b)


def a_method(sampler):
    assert sampler.has(3)


def a_kind(value):
    assert isinstance(value, torch.Tensor)


def all_of(pairs):
    outside = 1
    assert all(a == b * outside for a, b in pairs)


def a_comparison(a, b):
    assert a == b


def truths(tensor, other):
    assert tensor.requires_grad == other


def a_distance(one, other):
    torch.testing.assert_close(one, other)


def a_name(holds):
    assert holds


def said_by(test, *values):
    with pytest.raises(AssertionError) as failure:
        test(*values)
    return explained(str(failure.value), failure.value.__traceback__)


@pytest.mark.parametrize(
    ("test", "values", "said"),
    [
        (
            a_call_of_a_library,
            (torch.tensor([1.0]), torch.tensor([2.0])),
            "torch.equal(tensor([1.]), tensor([2.])) is False",
        ),
        (a_kind, ([3],), "isinstance([3], torch.Tensor) is False"),
        (all_of, ([(1, 1), (2, 3), (4, 4)],), "False for a = 2, b = 3"),
        (a_comparison, (2, 3), "assert 2 == 3"),
        (
            truths,
            (torch.tensor(2), True),
            "assert False == True: tensor(2).requires_grad is False",
        ),
        (a_name, (False,), "assert False"),
        (
            a_distance,
            (torch.tensor([1.0, 2]), torch.tensor([1.0, 4])),
            "Tensor-likes are not close: greatest absolute difference: 2.0 at"
            " index (1,)",
        ),
        (
            a_distance,
            (1.0, 2.0),
            "Scalars are not close: expected 2.0 but got 1.0",
        ),
    ],
)
def test_an_assertion_shows_its_values(test, values, said):
    assert said_by(test, *values) == said


def test_an_address_is_not_shown_and_long_values_are_cut():
    said = said_by(a_method, Sampler())
    assert "0x" not in said
    assert "has(3) is False" in said

    said = said_by(a_call_of_a_library, torch.zeros(50), torch.ones(50))
    assert said.startswith("torch.equal(tensor([0., 0., ")
    assert "tensor([1., 1., " in said
    assert said.endswith(") is False")
    assert len(said) < 220


def test_an_assertion_without_a_value_shows_nothing():
    assert shows_nothing("assert stays\nassert False")
    assert shows_nothing("assert not stays\nassert not True")
    assert not shows_nothing("assert stays\nassert 1 == 2")
    assert not shows_nothing("assert f(2)\nf(2) is False")


HERE, THERE = "93896308748800", "140119028805248"
FOLDER = "/tmp/pytest-of-me/pytest-32/popen-gw0/test_a_file3"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"assert {HERE} in []", "assert address A in []"),
        (
            f"assert [{HERE}, {THERE}] == [{THERE}]",
            "assert [address A, address B] == [address B]",
        ),
        (
            f"assert {{946891218252...4689121827648}} == {{{HERE}}}",
            "assert {addresses} == {address A}",
        ),
        ("<Held object at 0x7f70428b3380>", "<Held object>"),
        ("[<function test_x.<locals>.length at 0x7f6ff>]", "[length]"),
        ("<built-in method sqrt of type object at 0x7f705c>", "sqrt"),
        (f"'{FOLDER}/mine.py: no'", "'…/mine.py: no'"),
        ("'/tmp/tmpg6mr2hjx/once.lmdb'", "'…/once.lmdb'"),
        ('"/home/me/it/snippets/a/b.py", line 3', '"snippets/a/b.py", line 3'),
        ('File "/home/me/.venv/li...m(x', 'File "...m(x'),
    ],
)
def test_what_differs_in_each_run_is_not_shown(text, shown):
    assert readable(text).startswith(shown)


@pytest.mark.parametrize(
    "text",
    [
        "assert 0.30000000000000004 == 0.3",
        "assert [0.9980000257...0000257492065] == [1, 1, 1]",
        "assert 94.93896308748800 == 2",
        "assert 99999999999999999 == 1",
        "a / b and 'tests/data/test_batches.py'",
    ],
)
def test_what_a_program_computes_stays(text):
    assert readable(text) == text
