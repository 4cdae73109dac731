"""Only what is missing or stale is tested again."""

import re
import shutil
import subprocess
import sys

import pytest

from extensions.claims.ledger import read_ledger
from extensions.core.files import Problem
from extensions.core.topics import ROOT
from extensions.evidence import test_claims
from extensions.evidence.junit import OWN, runs
from extensions.evidence.test_claims import ENDS, IN_PARALLEL, SOME_FAILED
from tests.helpers.evidence import record

ONE, TWO, THREE = "part.test_one", "part.test_two", "gallery.test_three"


@pytest.fixture
def evidence(house):
    return house / OWN / "part/one.xml"


@pytest.fixture
def calls(house, monkeypatch, tmp_path):
    """Put a stand-in for pytest in place; return what it is called with."""

    class Calls(list):
        passed = True

    calls = Calls()

    def run_pytest(root, arguments, xml):
        calls.append(arguments)
        shutil.move(record(house, tmp_path, date="2026-02-02"), xml)
        return calls.passed

    monkeypatch.setattr(test_claims, "run_pytest", run_pytest)
    return calls


def update(house, also=(), again=False):
    return test_claims.update(house, list(also), again)


def results(house):
    """Return the results of this build."""
    return runs([house / OWN.parent])[0].results


def dates(house):
    """Return the dates of the results of each module."""
    found = {}
    for (module, _), cases in results(house).items():
        name = module.removeprefix("tests.")
        found.setdefault(name, set()).update(
            each.properties["date"] for each in cases
        )
    return found


def add_to(path, statement="print(1)"):
    """Add a statement to the first cell of a program, or to a module."""
    start, cell, rest = path.read_text().partition("# %% start\n")
    path.write_text(f"{start}{cell}{statement}\n{rest}")


OLD, NEW = {"2026-01-31"}, {"2026-02-02"}


def test_everything_runs_where_there_is_no_evidence_and_then_nothing(
    house, calls, evidence
):
    shutil.rmtree(house / OWN)

    assert update(house) == 0
    names = ("gallery/test_three.py", "part/test_one.py", "part/test_two.py")
    assert calls == [[f"tests/{name}" for name in names]]
    assert dates(house) == {ONE: NEW, TWO: NEW, THREE: NEW}

    before = evidence.stat().st_mtime_ns
    assert update(house) == 0
    assert len(calls) == 1
    assert evidence.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "name", ["snippets/part/one.py", "tests/part/test_one.py"]
)
def test_a_changed_file_runs_its_own_topic_again(house, calls, name):
    add_to(house / name)

    assert update(house) == 0
    assert calls == [["tests/part/test_one.py"]]
    assert dates(house) == {ONE: NEW, TWO: OLD, THREE: OLD}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"test_word_is_one__but_not_of_another"', '"test_other"'),  # it lacks
        ("</testsuites>", ""),  # damaged
    ],
)
def test_a_result_that_the_evidence_lacks_is_made(
    house, calls, evidence, old, new
):
    evidence.write_text(evidence.read_text().replace(old, new))

    assert update(house) == 0
    assert calls == [["tests/part/test_one.py"]]
    assert dates(house) == {ONE: NEW, TWO: OLD, THREE: OLD}
    assert ("tests.part.test_one", "test_other") not in results(house)


def test_a_failure_is_told_at_every_call_and_runs_again_if_asked(
    house, calls, evidence, capsys
):
    record(house, test_word_is_one="failed")

    assert update(house) == SOME_FAILED
    assert calls == []
    assert "failed before: tests.part.test_one::test_word_is_one" in (
        capsys.readouterr().out
    )
    assert update(house, again=True) == 0
    assert calls == [["tests/part/test_one.py"]]


def test_other_tests_join_the_same_run_but_not_the_evidence(
    house, calls, evidence
):
    before = evidence.read_bytes()
    calls.passed = False

    assert update(house, also=["tests/extensions"]) == SOME_FAILED
    assert calls == [[*IN_PARALLEL, "tests/extensions"]]
    assert evidence.read_bytes() == before


@pytest.mark.parametrize(
    ("status", "end"), [*ENDS.items(), (9, "ended with 9"), (-11, "SIGSEGV")]
)
def test_only_what_is_stale_goes_where_pytest_did_not_run(
    house, monkeypatch, status, end
):
    add_to(house / "snippets/part/one.py")
    done = subprocess.CompletedProcess([], status)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)

    with pytest.raises(Problem, match=end):
        update(house)

    assert dates(house) == {TWO: OLD, THREE: OLD}


@pytest.fixture
def meanwhile(monkeypatch, calls):
    """Let something happen before pytest runs, and something after it."""
    stand_in = test_claims.run_pytest

    def meanwhile(before=lambda: None, after=lambda xml: None):
        def run_pytest(root, arguments, xml):
            before()
            passed = stand_in(root, arguments, xml)
            after(xml)
            return passed

        monkeypatch.setattr(test_claims, "run_pytest", run_pytest)

    return meanwhile


def test_a_case_that_crashed_takes_its_test_along(house, meanwhile):
    """pytest-xdist reports the crash of a worker without any property."""
    old = '<testcase classname="tests.part.test_one" name="test_word_is_one">'
    crashed = old.replace('one">', 'one[b]"><failure /></testcase>')
    add_to(house / "snippets/part/one.py")

    meanwhile(
        after=lambda xml: xml.write_text(
            xml.read_text().replace(old, crashed + old)
        )
    )

    assert update(house) == SOME_FAILED
    assert ("tests.part.test_one", "test_word_is_one") not in results(house)


def test_a_file_saved_during_the_run_is_tested_again(house, calls, meanwhile):
    snippet = house / "snippets/part/one.py"
    add_to(snippet)
    meanwhile(before=lambda: add_to(snippet))
    assert update(house) == SOME_FAILED
    assert dates(house) == {TWO: OLD, THREE: OLD}

    meanwhile()
    assert update(house) == 0
    assert calls[1:] == [["tests/part/test_one.py"]]


def test_a_module_that_is_not_python_is_never_done(house, calls):
    (house / "tests/part/test_one.py").write_text("def\n")

    assert update(house) == SOME_FAILED
    assert calls == [["tests/part/test_one.py"]]


def run(whole):
    """Call the command as nox does."""
    command = [sys.executable, "-m", "extensions.evidence.test_claims"]
    done = subprocess.run(
        command, cwd=whole, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_real_run_stands_and_a_broken_module_fails_alone(whole):
    evidence = whole / OWN / "part/one.xml"

    assert run(whole)[0] == 0
    ledger = read_ledger(whole, runs([whole / "build/evidence"]))
    assert [each.verdict for each in ledger.entries] == ["passed"] * 3
    first = evidence.read_bytes()
    status, said = run(whole)
    assert (status, said) == (0, "0 of 3 modules to test\n")
    assert evidence.read_bytes() == first

    one = whole / "tests/part/test_one.py"
    one.write_text("import lost\n" + one.read_text())
    add_to(whole / "snippets/part/two.py", "boom")
    status, said = run(whole)
    assert status == SOME_FAILED
    assert "No module named 'lost'" in said
    assert said.endswith("tests without a result: tests.part.test_one\n")
    found = results(whole)
    assert {module for module, _ in found} == {
        "tests.gallery.test_three",
        "tests.part.test_two",
    }
    [two] = found["tests.part.test_two", "test_word_is_two"]
    assert two.outcome == "failed"


def test_what_goes_on_where_some_failed_stops_at_a_crash():
    text = (ROOT / "noxfile.py").read_text("utf-8")
    [borne] = re.findall(r"SOME_FAILED = (\d)", text)

    assert int(borne) == SOME_FAILED
    assert SOME_FAILED != 1  # as which Python ends at an error


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        ("test_claims", ["torch", "pytest"]),
        ("record, pytest_plugin, pytest_fixtures", ["sphinx", "markdown_it"]),
    ],
)
def test_a_command_does_without_what_takes_long_to_load(modules, without):
    code = (
        f"import sys; sys.modules |= dict.fromkeys({without});"
        f" from extensions.evidence import {modules}"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
