"""What another torch makes false is reported, and nothing else."""

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from extensions.claims import canary
from extensions.core.problem import Problem
from extensions.core.reading import xml_of
from tests.helpers.evidence import record

MODULE = "tests/part/test_one.py"
PAGE = "docs/part/one.md"
# The words of a page with two claims, which rest on what torch says.
SECOND = """
[`length` counts its letters]{#length-counts-letters .claim}.
"""
PROGRAM = """
# %% start
import torch.words

word = torch.words.first
length = len(word)

# %% count
print(word, "counted")
"""
TESTS = """
import torch.words

def test_word_is_one(snippet):
    assert snippet.after("start").word == "one"

def test_length_counts_letters(snippet):
    assert snippet.after("start").length == 3
"""

REPORT = """\
# torch 2.13.0 makes sentences false

Tests: 2 failed, 4 passed, 0 skipped.

## docs/part/one.md

> `word` is one

`docs/part/one.md#word-is-one`, line 6

Counter-example `tests/part/test_one.py:5`, \
`test_word_is_one__but_not_of_another`:

~~~
assert
~~~

## docs/part/two.md

> `word` is two

`docs/part/two.md#word-is-two`, line 6

Test `tests/part/test_two.py:1`, `test_word_is_two`:

~~~
assert
~~~
"""


@pytest.fixture
def fly(whole):
    """Call the command; return its status and its report."""
    report = whole / "report.md"
    program = whole / "snippets/part/one.py"
    title, _, _ = program.read_text().partition("\n# %% ")
    program.write_text(title + PROGRAM)
    (whole / MODULE).write_text(TESTS)
    with (whole / PAGE).open("a") as page:
        page.write(SECOND)
    command = [sys.executable, "-m", canary.__name__, report, MODULE]

    def fly(words):
        """Run it with a torch that says some words, or has none."""
        if words:
            (whole / "torch/words.py").write_text(words)
        done = subprocess.run(
            [*command, "--numprocesses=0"], cwd=whole, check=False
        )
        return done.returncode, report.read_text()

    return fly


def quotes(report):
    lines = report.splitlines()
    return [line for line in lines if line[:2] == "> " and line[2] != " "]


def test_a_sentence_that_becomes_false_is_reported_and_no_other(fly):
    status, report = fly("first = 'two'")

    assert status == 1
    assert [line for line in report.splitlines() if line[:3] == "## "] == [
        f"## {PAGE}"
    ]
    assert quotes(report) == ["> `word` is one"]
    assert '\n>       assert snippet.after("start").word == "one"\nE' in report


def test_tests_that_cannot_be_loaded_are_reported_with_all_they_keep(fly):
    status, report = fly("")

    assert status == 1
    assert f"`{MODULE}` cannot be loaded" in report
    assert "No module named 'torch.words'" in report
    assert quotes(report) == [
        "> `word` is one",
        "> `length` counts its letters",
    ]


@pytest.fixture
def told(house, monkeypatch):
    """Report on a run of the house in miniature that has a status."""
    report = house / "report.md"
    monkeypatch.setattr(canary, "ROOT", house)

    def told(status, **outcomes):
        report.write_text("of yesterday")
        run = xml_of(record(house, **outcomes))
        monkeypatch.setattr(canary, "run_of_claims", lambda *_: (status, run))
        done = canary.canary(report, [])
        return done, report.read_text() if report.exists() else ""

    return told


def test_each_page_has_its_part_of_the_report(told):
    name = "test_word_is_one__but_not_of_another"
    status, report = told(1, **{name: "failed", "test_word_is_two": "failed"})

    assert status == 1
    assert report == REPORT


def test_an_unbroken_torch_gives_no_report_and_takes_the_old_one_away(told):
    assert told(0) == (0, "")


CASE = '<testcase classname="{}" name="{}">{}</testcase>'
FAILED = '<failure message="{}">{}</failure>'


def test_cases_of_one_test_are_told_as_one_and_no_failure_is_lost(house):
    run = xml_of(record(house))
    one = "tests.part.test_one"
    for case in (
        CASE.format(one, "test_word_is_one[a]", ""),
        CASE.format(one, "test_word_is_one[b]", FAILED.format("second", "")),
        CASE.format(one, "test_word_is_one[c]", FAILED.format("third", "")),
        CASE.format("tests.test_cuda", "test_it", FAILED.format("", "said")),
    ):
        run.find("testsuite").append(ElementTree.fromstring(case))

    report = canary._report_in_markdown(house, run)

    assert "`test_word_is_one[b]`, and 1 more:\n\n~~~\nsecond\n~~~" in report
    assert "third" not in report
    assert quotes(report) == ["> `word` is one"]
    lost = "stands\n\n`tests.test_cuda`, `test_it`:\n\n~~~\nsaid\n~~~\n"
    assert report.endswith(lost)


@pytest.mark.parametrize(
    ("status", "outcome", "wrong"),
    [(0, "skipped", "every test was skipped"), (1, "passed", "but no test")],
)
def test_a_run_that_says_nothing_is_a_problem(
    house, told, status, outcome, wrong
):
    outcomes = {
        case.get("name"): outcome
        for case in xml_of(record(house)).iter("testcase")
    }

    with pytest.raises(Problem, match=wrong):
        told(status, **outcomes)
