"""What is recorded of a counter-example."""

import pytest

from extensions.core.files import Problem
from extensions.evidence.counterexamples import (
    edits,
    failure_of,
    no_error,
    properties_of_inputs,
)
from extensions.programs.snippet import Snippet


@pytest.fixture
def snippet(house):
    return Snippet.read(house / "snippets/part/one.py")


def word_is(snippet, word="one"):
    run = snippet.after("start")
    assert run.word == word, (
        "the word is not what the claim says that it should be"
    )


def no_word(snippet):
    with pytest.raises(NameError):
        snippet.after("start")


def test_the_failing_statement_is_said_and_what_python_says_of_it(snippet):
    said = failure_of(word_is, snippet.edit('"one"', '"two"'))

    assert said.splitlines()[:3] == [
        "assert run.word == word, (",
        '    "the word is not what the claim says that it should be"',
        ")",
    ]
    assert said.splitlines()[3].startswith("the word is not what")


def test_an_error_that_did_not_come_is_a_failure(snippet):
    assert "DID NOT RAISE" in failure_of(no_word, snippet)


def test_an_edit_has_the_name_that_it_is_given():
    mark = edits(("said otherwise", '"one"', '"two"'), ("a = 1", "a = 2"))

    names, values = mark.args
    assert names == ("old", "new")
    assert values == [('"one"', '"two"'), ("a = 1", "a = 2")]
    assert mark.kwargs["ids"] == ["said otherwise", None]


def test_a_test_that_passes_is_an_error(snippet):
    with pytest.raises(AssertionError, match="word_is passes: the words are"):
        failure_of(word_is, snippet)


@pytest.mark.parametrize("error", ["AssertionError", "ValueError"])
def test_a_program_that_fails_by_itself_is_no_failure_of_its_test(
    snippet, error
):
    edited = snippet.edit('word = "one"', f"raise {error}('by itself')")

    with pytest.raises((Problem, ValueError), match="by itself"):
        failure_of(word_is, edited)


def test_a_program_may_fail_a_test_that_says_it_does_not(snippet):
    def runs(snippet):
        with no_error():
            snippet.after("start")

    said = failure_of(runs, snippet.edit('word = "one"', "1 / 0"))

    assert said.endswith("ZeroDivisionError: division by zero")


def test_an_edit_is_recorded_with_its_cell(snippet):
    edited = snippet.edit('"counted"', '"told",\n    "twice"')

    assert properties_of_inputs((edited,)) == [
        (
            "edit",
            '-print(word, "counted")\n+print(word, "told",\n+    "twice")',
        ),
        ("cell edited", "count"),
    ]


def test_cells_that_a_test_leaves_out_are_no_part_of_the_edit(snippet):
    edited = snippet.only("count").edit('"counted"', '"told"')

    [(kind, lines), *_] = properties_of_inputs((edited,))

    assert kind == "edit"
    assert lines == '-print(word, "counted")\n+print(word, "told")'


def test_another_input_is_recorded_if_it_says_something(snippet, capsys):
    inputs = (snippet, (1, 3), capsys, "fork", snippet.path)

    assert properties_of_inputs(inputs) == [
        ("input", "(1, 3)"),
        ("input", "'fork'"),
    ]
