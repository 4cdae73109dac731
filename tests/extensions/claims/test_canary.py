"""What another torch makes false is reported, and nothing else."""

import ast
import os
import subprocess
import sys

import pytest

from extensions.claims import canary
from extensions.core.problem import Problem
from extensions.core.reading import python_of, xml_of
from extensions.core.topics import ROOT
from tests.helpers.evidence import record

[COMMAND] = [
    ast.literal_eval(node.value)
    for node in python_of(ROOT / "noxfile.py").body
    if isinstance(node, ast.Assign)
    and ast.unparse(node.targets[0]) == "CANARY"
]
MODULE = "tests/speed/test_cudnn_benchmark.py"
PAGE = "docs/speed/cudnn_benchmark.md"
# Each is another torch, loaded by pytest before any test.
PADS_WITH_ONES = """
from functools import partial
from torch.nn import functional
functional.pad = partial(functional.pad, value=1)
"""
WITHOUT_LOADERS = """
import torch.utils.data
del torch.utils.data.DataLoader
"""

REPORT = """\
# torch 2.13.0 makes 2 sentences false

Python 3.11.7, unknown x86_64, 2026-01-31.

Claims: 2 false, 1 true, 0 skipped, 0 in 0 modules that cannot be loaded.
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
def fly(tmp_path):
    """Call the command as nox does; return its status and its report."""
    report = tmp_path / "report.md"

    def fly(torch, *options):
        report.write_text("of yesterday")
        (tmp_path / "other_torch.py").write_text(torch)
        done = subprocess.run(
            [
                sys.executable,
                *COMMAND[1:],
                report,
                MODULE,
                "--numprocesses=0",
                "-pno:cacheprovider",
                "-pother_torch",
                *options,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            check=False,
        )
        return done.returncode, report.read_text() if report.exists() else ""

    return fly


def quotes(report):
    lines = report.splitlines()
    return [line for line in lines if line[:2] == "> " and line[2] != " "]


def test_a_sentence_that_becomes_false_is_reported_and_no_other(fly):
    status, report = fly(PADS_WITH_ONES)

    assert status == 1
    assert report.partition("\n")[0].endswith(" makes 1 sentence false")
    assert [line for line in report.splitlines() if line[:3] == "## "] == [
        f"## {PAGE}"
    ]
    assert quotes(report) == [
        "> `pad_to` puts zeros behind a recording up to the next multiple, and"
        " leaves the recording itself as it is"
    ]
    assert f"`{PAGE}#pad-to-adds-zeros-behind`, line " in report
    assert f"Test `{MODULE}:" in report
    assert "`test_pad_to_adds_zeros_behind`" in report
    assert "\n>       assert not padded[length:].any()\nE  " in report


def test_an_unbroken_torch_gives_no_report_and_takes_the_old_one_away(fly):
    assert fly("") == (0, "")


def test_tests_that_cannot_be_loaded_are_reported_with_all_they_keep(fly):
    status, report = fly(WITHOUT_LOADERS)

    assert status == 1
    assert "makes 0 sentences false" in report
    assert f"`{MODULE}` cannot be loaded" in report
    assert "cannot import name 'DataLoader'" in report
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert len(quotes(report)) == text.count(".claim}") > 1


def test_where_nothing_is_tested_the_report_stays(fly):
    status, report = fly("", "-knothing_has_this_name")

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
