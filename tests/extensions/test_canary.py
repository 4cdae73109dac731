"""What another torch makes false is reported, and nothing else."""

from xml.etree import ElementTree

import pytest

from extensions.core.files import Problem, xml_of
from tests.helpers.evidence import record
from tools import canary

REPORT = """\
# torch 2.13.0 makes sentences false

Tests: 5 failed, 4 passed, 0 skipped.

> `word` is one

`docs/part/one.md#word-is-one`, line 6

`tests.part.test_one::test_word_is_one[b]`, and 1 more:

~~~
second
~~~

`tests.part.test_one::test_word_is_one__but_not_of_another`:

~~~
assert
~~~

> `word` is two

`docs/part/two.md#word-is-two`, line 6

`tests.part.test_two::test_word_is_two`:

~~~
assert
~~~

`tests.test_cuda::test_it`:

~~~
third
~~~
"""
CASE = '<testcase classname="{}" name="{}"><failure message="{}"/></testcase>'


@pytest.fixture
def told(house, monkeypatch):
    """Report on a run of the house in miniature that has a status."""
    report = house / "report.md"
    monkeypatch.setattr(canary, "ROOT", house)

    def told(status, *cases, **outcomes):
        report.write_text("of yesterday")
        run = xml_of(record(house, "evidence/other", **outcomes))
        more = [ElementTree.fromstring(CASE.format(*case)) for case in cases]
        run.find("testsuite").extend(more)
        monkeypatch.setattr(
            canary, "run_of_claims", lambda *_: (not status, run)
        )
        done = canary.canary(report, [])
        return done, report.read_text() if report.exists() else ""

    return told


def test_each_sentence_is_reported_and_the_report_goes_once_all_is_well(told):
    one = "tests.part.test_one"
    cases = [
        (one, "test_word_is_one[b]", "second"),
        (one, "test_word_is_one[c]", "not shown"),
        ("tests.test_cuda", "test_it", "third"),
    ]
    but = "test_word_is_one__but_not_of_another"
    outcomes = {but: "failed", "test_word_is_two": "failed"}

    assert told(1, *cases, **outcomes) == (1, REPORT)
    assert told(0) == (0, "")


@pytest.mark.parametrize(
    ("status", "outcome", "wrong"),
    [(0, "skipped", "every test was skipped"), (1, "passed", "but no test")],
)
def test_a_run_that_says_nothing_is_a_problem(
    house, told, status, outcome, wrong
):
    outcomes = {
        case.get("name"): outcome
        for case in xml_of(record(house, "evidence/other")).iter("testcase")
    }

    with pytest.raises(Problem, match=wrong):
        told(status, **outcomes)
    assert (house / "report.md").read_text() == "of yesterday"
