"""A run of the tests, recorded for the ledger."""

import subprocess
import sys
from pathlib import Path

import pytest

from extensions.commands import record
from extensions.files.basis import evidence_modules
from extensions.files.evidence import outcome_of, read_run
from extensions.files.problem import Problem
from extensions.files.reading import xml_of
from extensions.files.topics import ROOT

MODULE = "tests/speed/test_cudnn_benchmark.py"


def test_one_module_is_recorded_as_the_ledger_reads_it(tmp_path, monkeypatch):
    monkeypatch.setattr(
        record, "evidence_modules", lambda root: [root / MODULE]
    )
    monkeypatch.setattr(record, "IN_PARALLEL", [])

    assert record.record(tmp_path / "here", []) == 0

    run = read_run(tmp_path / "here/tests.xml.gz")
    words = {each.outcome for found in run.results.values() for each in found}
    assert {module for module, _ in run.results} == {
        MODULE.removesuffix(".py").replace("/", ".")
    }
    assert words <= {"passed", "skipped"}
    assert "hostname" not in run.facts


def a_run(torch, *names):
    """Return a run of some tests; the first letter names the module."""
    cases = "".join(
        f'<testcase classname="tests.{name[0]}" name="test_{name}" />'
        for name in names
    )
    facts = f'<property name="torch" value="{torch}" />'
    return (
        f"<testsuites><testsuite><properties>{facts}</properties>{cases}"
        "</testsuite></testsuites>"
    )


@pytest.fixture
def said(monkeypatch):
    """Let pytest say that some tests ran."""

    def said(torch, *cases):
        def run(root, arguments, path):
            path.write_text(a_run(torch, *cases))
            return 0

        monkeypatch.setattr(record, "run_pytest", run)

    return said


def names_in(folder):
    """Return the tests that a recorded run holds, with their results."""
    root = xml_of(folder / record.PACKED)
    return [
        (case.get("name"), outcome_of(case)) for case in root.iter("testcase")
    ]


def test_chosen_modules_are_renewed_among_the_others(tmp_path, said):
    said("2.6.0", "a_one", "b_one")
    record.record(tmp_path, [])
    said("2.6.0", "a_two")
    record.record(tmp_path, ["tests/a.py"])

    assert names_in(tmp_path) == [
        ("test_a_two", "passed"),
        ("test_b_one", "passed"),
    ]


def test_without_a_choice_all_is_new(tmp_path, said):
    said("2.6.0", "a_one", "b_one")
    record.record(tmp_path, [])
    said("2.9.1", "a_one")
    record.record(tmp_path, [])

    assert names_in(tmp_path) == [("test_a_one", "passed")]


def test_another_torch_renews_no_part(tmp_path, said):
    said("2.6.0", "a_one")
    record.record(tmp_path, [])
    before = (tmp_path / record.PACKED).read_bytes()
    said("2.9.1", "a_one")

    with pytest.raises(Problem, match=r"with torch 2\.6\.0, and not 2\.9\.1"):
        record.record(tmp_path, ["tests/a.py"])
    assert (tmp_path / record.PACKED).read_bytes() == before


def test_what_failed_is_named(tmp_path, monkeypatch, capsys):
    xml = (
        '<testsuites><testsuite><testcase classname="tests.a" name="test_b">'
        '<failure message="assert 1" /></testcase></testsuite></testsuites>'
    )

    def fail(root, arguments, path):
        path.write_text(xml)
        return 1

    monkeypatch.setattr(record, "run_pytest", fail)

    assert record.record(tmp_path, []) == 1
    assert capsys.readouterr().out == "failed: tests.a::test_b\n"


@pytest.mark.parametrize("chosen", ["", "tests/models", f"{MODULE}::test_a"])
def test_all_claims_are_tested_or_those_that_are_named(monkeypatch, chosen):
    called = []

    def fail(root, arguments, path):
        called.extend(arguments)
        path.write_text("<testsuites />")
        return 1

    monkeypatch.setattr(record, "run_pytest", fail)
    options = ["-x", *([chosen] if chosen else [])]
    record.run_of_claims(options, Path("report.md"))

    every = [str(each.relative_to(ROOT)) for each in evidence_modules(ROOT)]
    paths = [each for each in called if each.startswith("tests/")]
    assert paths == ([chosen] if chosen else every)
    assert "-x" in called


def test_what_did_not_run_is_a_problem_and_changes_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(record, "run_pytest", lambda *_: 4)

    with pytest.raises(Problem, match="called in a wrong way: as before"):
        record.record(tmp_path / "here", [])
    assert list(tmp_path.iterdir()) == []


def test_the_command_needs_no_sphinx(tmp_path):
    code = (
        "import sys; sys.modules['sphinx'] = None;"
        " sys.modules['markdown_it'] = None;"
        " import extensions.commands.record"
    )
    subprocess.run([sys.executable, "-c", code], cwd=Path(ROOT), check=True)
