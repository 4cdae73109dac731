"""Whether the test of a claim fails, as a counter-example expects."""

import pytest

from extensions.core.files import Problem
from extensions.evidence.counterexamples import edits, failure_of, no_error
from extensions.programs.snippet import Snippet


@pytest.fixture
def snippet(house):
    return Snippet.read(house / "snippets/part/one.py")


def word_is(snippet, word="one"):
    run = snippet.after("start")
    assert run.word == word


def no_word(snippet):
    with pytest.raises(NameError):
        snippet.after("start")


def test_an_error_that_did_not_come_is_a_failure(snippet):
    assert "DID NOT RAISE" in str(failure_of(no_word, snippet))


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

    assert str(said).endswith("ZeroDivisionError: division by zero")
