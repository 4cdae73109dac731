"""What the names of tests say with those of their parameters."""

import functools

import pytest

from extensions.claims.wording import (
    change_in_words,
    name_with_all_cases,
    name_with_cases,
    summary_of_cases,
)
from extensions.evidence.case_names import name_of_value
from extensions.evidence.parsed_tests import Failure


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


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("if left out", True),
        ("no_grad", True),
        ("float16", True),
        ("SGD-float32-3", True),
        ("old0-new0", False),
        ("float32-shape1", False),
        ("= hidden.detach()\\n-= hidden", False),
    ],
)
def test_a_case_that_pytest_has_counted_says_nothing(case, says):
    assert (name_with_cases("of", [case]) != "of") == says


@pytest.mark.parametrize(
    ("words", "cases", "said"),
    [
        ("also for", ["old0", "old1"], "also for 2 others"),
        ("also with", ["new0"], "also with another"),
        ("also for", ["Adam", "old1"], "also for Adam"),
        ("also twice", ["old0", "old1"], "also twice"),
        ("also of the proof", [""], "also of the proof"),
    ],
)
def test_cases_that_say_nothing_are_counted(words, cases, said):
    assert name_with_all_cases(words, cases) == said


@pytest.mark.parametrize(
    ("words", "case", "edit", "number", "said"),
    [
        ("but not one", "old0", "-a\n+b", 3, ("but not one", "", 2)),
        ("but not", "old0", "-a\n+b", 3, ("but not 3 others", "", 0)),
        ("but if not", "old0", "", 2, ("but if not", "", 1)),
        ("but not switched on", "old0", "", 1, ("but not switched on", "", 0)),
        ("but not for", "new1", "", 1, ("but not for another", "", 0)),
        ("but not for", "SGD", "", 2, ("but not for SGD", "", 1)),
        ("but not in", "no_grad", "", 1, ("but not in", "no_grad", 0)),
        ("but not so", "f(1)-f(2)", "-f(1)\n+f(2)", 2, ("but not so", "", 1)),
        (
            "but not of",
            "f(1)-f(2)",
            "-f(1)\n+f(2)",
            1,
            ("but not of", "f(2)", 0),
        ),
        (
            "but not of",
            "1)-2)",
            "-f(1)\n+f(2)",
            1,
            ("but not of another", "", 0),
        ),
    ],
)
def test_a_counter_example_says_what_its_edit_does_not(
    words, case, edit, number, said
):
    failure = Failure("", words, case, edit, cell="", given="", said="")
    assert summary_of_cases([failure] * number) == said


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("-a", "Without this line"),
        ("-a\n-b", "Without these lines"),
        ("+a", "With this line added"),
        ("+a\n+b", "With these lines added"),
        ("-a\n+b", "With this change"),
        ("", ""),
    ],
)
def test_a_change_adds_lines_leaves_some_out_or_both(edit, said):
    failure = Failure("", "", "", edit, cell="", given="", said="")
    assert change_in_words(failure) == said
