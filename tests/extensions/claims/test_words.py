"""What a panel says of tests: docstrings, names, and names of cases."""

import functools

import pytest

from extensions.claims.words import (
    case_in_words,
    cases_in_words,
    change_in_words,
    scope,
)
from extensions.evidence import parsed_tests
from extensions.evidence.pytest_plugin import name_of_value


class Model:
    """Something with a name that is an expression."""

    def __repr__(self):
        return "Model(size=3)"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ((2, 3), "(2, 3)"),
        ({"lr": 0.1, "fused": True}, "lr=0.1, fused=True"),
        ({1: "a"}, "{1: 'a'}"),
        (Model(), "Model(size=3)"),
        (lambda: Model().size + 3, "Model().size + 3"),
        (lambda x: x, "x"),
    ],
)
def test_a_value_that_pytest_would_count_has_a_name(value, name):
    assert name_of_value(value) == name


@pytest.mark.parametrize(
    "value",
    [
        *("words", b"bytes", 3, 0.5, 2j, True, None, Model, len),
        *({}, object(), functools.partial(len), [*range(99)], {"a", "b"}),
        (lambda: 1, lambda: 2)[0],
    ],
)
def test_pytest_names_the_others(value):
    assert name_of_value(value) is None


def a_test(behind, docstring=""):
    """Return a test behind that of a claim."""
    return parsed_tests.Test(f"test_a__{behind}", 1, docstring)


@pytest.mark.parametrize(
    ("behind", "cases", "said"),
    [
        ("also_on_cuda_with_a_gru", [], "also on CUDA with a GRU"),
        ("also_for", ["name=GRU", "name=LSTM"], "also for: GRU, LSTM"),
        ("also_from", ["seed=1", "seed=2"], "also from: seed 1, 2"),
        ("also_with_a_rate_of", ["rate=0.1"], "also with a rate of: 0.1"),
        ("also", ["gpus,count=4-2"], "also: gpus-count 4-2"),
        (
            "also_for",
            ["dtype=int8\nn=1 row", "dtype=bool\nn=1 row"],
            "also for: int8, bool; 1 row",
        ),
        ("also_with", ["call=mul_", "call=f(2)"], "also with: `mul_`, `f(2)`"),
        ("also_for", ["layer=layer0", "layer=GRU"], "also for: GRU"),
        ("also_for", ["layer,n=layer0-n0"], "also for"),
    ],
)
def test_a_variation_is_told_by_its_name_and_its_cases(behind, cases, said):
    assert scope(a_test(behind), cases) == said


def test_the_cases_of_a_claim_are_told_if_there_are_some():
    assert cases_in_words(["size=1"]) == ""
    assert cases_in_words(["size=1", "size=2"]) == "size 1, 2"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("old,new=in chunks", "in chunks"),
        ("old,new=a-b", ""),
        ("name=no reset\nold,new=a-b", "no reset"),
    ],
)
def test_a_case_has_a_name_if_its_edit_does_not_say_it(parameters, said):
    failure = parsed_tests.Failure("", "-a\n+b", "", "", "", "", parameters)

    assert case_in_words(failure) == said


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("-a", "Without this line"),
        ("+a\n+b", "With these lines added"),
        ("-a\n+b", "With this change"),
        ("", ""),
    ],
)
def test_a_change_adds_lines_leaves_some_out_or_both(edit, said):
    assert change_in_words(parsed_tests.Failure("", edit, "", "")) == said
