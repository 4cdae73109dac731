"""What another torch makes false is reported, and nothing else."""

import ast
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from extensions.claims import canary
from extensions.core.files import Problem, python_of, xml_of
from extensions.core.topics import ROOT
from tests.helpers.evidence import record

[COMMAND] = [
    ast.literal_eval(node.value)
    for node in python_of(ROOT / "noxfile.py").body
    if isinstance(node, ast.Assign)
    and ast.unparse(node.targets[0]) == "CANARY"
]
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
    """Call the command as nox does; return its status and its report."""
    report = whole / "report.md"
    program = whole / "snippets/part/one.py"
    title, _, _ = program.read_text().partition("\n# %% ")
    program.write_text(title + PROGRAM)
    (whole / MODULE).write_text(TESTS)
    with (whole / PAGE).open("a") as page:
        page.write(SECOND)
    command = [sys.executable, *COMMAND[1:], report, MODULE]

    def fly(words, *options):
        """Run it with a torch that says some words, or has none."""
        report.write_text("of yesterday")
        if words:
            (whole / "torch/words.py").write_text(words)
        done = subprocess.run(
            [*command, "--numprocesses=0", *options], cwd=whole, check=False
        )
        return done.returncode, report.read_text() if report.exists() else ""

    return fly


def quotes(report):
    lines = report.splitlines()
    return [line for line in lines if line[:2] == "> " and line[2] != " "]


def test_a_sentence_that_becomes_false_is_reported_and_no_other(fly):
    status, report = fly("first = 'two'")

    assert status == 1
    assert report.partition("\n")[0].endswith(" makes sentences false")
    assert [line for line in report.splitlines() if line[:3] == "## "] == [
        f"## {PAGE}"
    ]
    assert quotes(report) == ["> `word` is one"]
    assert f"`{PAGE}#word-is-one`, line " in report
    assert f"Test `{MODULE}:" in report
    assert "`test_word_is_one`" in report
    assert '\n>       assert snippet.after("start").word == "one"\nE' in report


def test_an_unbroken_torch_gives_no_report_and_takes_the_old_one_away(fly):
    assert fly("first = 'one'") == (0, "")


def test_tests_that_cannot_be_loaded_are_reported_with_all_they_keep(fly):
    status, report = fly("")

    assert status == 1
    assert f"`{MODULE}` cannot be loaded" in report
    assert "No module named 'torch.words'" in report
    assert quotes(report) == [
        "> `word` is one",
        "> `length` counts its letters",
    ]


def test_where_nothing_is_tested_the_report_stays(fly):
    status, report = fly("first = 'one'", "-knothing_has_this_name")

    assert (status, report) == (2, "of yesterday")


@pytest.fixture
def told(house, monkeypatch):
    """Report on a run of the house in miniature that has a status."""
    report = house / "report.md"
    monkeypatch.setattr(canary, "ROOT", house)

    def told(status, **outcomes):
        run = xml_of(record(house, **outcomes))
        monkeypatch.setattr(canary, "run_of_claims", lambda *_: (status, run))
        return canary.canary(report, []), report.read_text()

    return told


def test_each_page_has_its_part_of_the_report(told):
    name = "test_word_is_one__but_not_of_another"
    status, report = told(1, **{name: "failed", "test_word_is_two": "failed"})

    assert status == 1
    assert report == REPORT


CASE = '<testcase classname="{}" name="{}">{}</testcase>'
FAILED = '<failure message="{}">{}</failure>'


def said_of(house, *cases):
    """Return what is reported of a run that has some cases besides."""
    run = xml_of(record(house))
    more = ElementTree.fromstring(f"<all>{''.join(cases)}</all>")
    run.find("testsuite").extend(more)
    return canary._report_in_markdown(house, run)


def test_the_cases_of_one_test_are_told_as_one(house):
    one = "tests.part.test_one"
    report = said_of(
        house,
        CASE.format(one, "test_word_is_one[a]", ""),
        CASE.format(one, "test_word_is_one[b]", FAILED.format("second", "")),
        CASE.format(one, "test_word_is_one[c]", FAILED.format("third", "")),
    )

    assert "`test_word_is_one[b]`, and 1 more:\n\n~~~\nsecond\n~~~" in report
    assert "third" not in report


def test_a_failure_behind_which_no_claim_stands_is_not_lost(house):
    case = CASE.format("tests.test_cuda", "test_it[a]", FAILED.format("b", ""))

    report = said_of(house, case)

    assert quotes(report) == []
    assert "no sentence stands\n\n`tests.test_cuda`, `test_it[a]`:" in report


def test_of_several_errors_the_last_is_told_with_its_statement(house):
    text = """
    def test_it():
&gt;       first()
E       TypeError: first

test_it.py:3: TypeError

&gt;       assert x == [
            1,
        ]
E       assert [] == [1]

test_it.py:9: AssertionError"""
    case = CASE.format("tests.a", "test_it", FAILED.format("", text))

    report = said_of(house, case)

    said = ">       assert x == [\nE       assert [] == [1]"
    assert f"~~~\n{said}\n~~~" in report


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
