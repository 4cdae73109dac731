"""Only what is missing or stale is tested again."""

import re
import shutil
import subprocess
import sys

import pytest

from extensions.claims.ledger import read_ledger
from extensions.core.files import Problem
from extensions.core.topics import ROOT
from extensions.evidence import pytest_process, test_claims
from extensions.evidence.junit import read_run, runs
from extensions.evidence.pytest_process import (
    ENDS,
    IN_PARALLEL,
    SOME_FAILED,
)
from tests.helpers.evidence import record

ONE, TWO, THREE = "part.test_one", "part.test_two", "gallery.test_three"


@pytest.fixture
def evidence(house):
    return house / test_claims.EVIDENCE


@pytest.fixture
def calls(house, monkeypatch):
    """Put a stand-in for pytest in place; return what it is called with."""

    class Calls(list):
        status = 0

    calls = Calls()

    def run_pytest(root, arguments, xml):
        calls.append(arguments)
        shutil.move(record(house, "new", date="2026-02-02"), xml)
        return calls.status

    monkeypatch.setattr(test_claims, "run_pytest", run_pytest)
    return calls


def update(house, also=(), again=False):
    return test_claims.update(house, list(also), again)


def dates(path):
    """Return the dates of the results of each module."""
    found = {}
    for (module, _), results in read_run(path).results.items():
        name = module.removeprefix("tests.")
        found.setdefault(name, set()).update(
            each.properties["date"] for each in results
        )
    return found


OLD, NEW = {"2026-01-31"}, {"2026-02-02"}


def test_nothing_runs_where_nothing_has_changed(house, calls, evidence):
    before = evidence.stat().st_mtime_ns

    assert update(house) == 0
    assert calls == []
    assert evidence.stat().st_mtime_ns == before


def test_everything_runs_where_there_is_no_evidence(house, calls, evidence):
    evidence.unlink()

    assert update(house) == 0
    [arguments] = calls
    assert arguments == [
        "tests/gallery/test_three.py",
        "tests/part/test_one.py",
        "tests/part/test_two.py",
    ]
    assert dates(evidence) == {ONE: NEW, TWO: NEW, THREE: NEW}


@pytest.mark.parametrize(
    "name", ["snippets/part/one.py", "tests/part/test_one.py"]
)
def test_a_changed_file_runs_its_own_topic_again(house, calls, evidence, name):
    with (house / name).open("a") as file:
        file.write("# more\n")

    assert update(house) == 0
    assert calls == [["tests/part/test_one.py"]]
    assert dates(evidence) == {ONE: NEW, TWO: OLD, THREE: OLD}


def test_a_result_that_the_evidence_lacks_is_made(house, calls, evidence):
    name = '"test_word_is_one__but_not_of_another"'
    evidence.write_text(evidence.read_text().replace(name, '"test_other"'))

    assert update(house) == 0
    assert calls == [["tests/part/test_one.py"]]
    run = read_run(evidence)
    assert ("tests.part.test_one", "test_other") not in run.results


def test_the_results_of_a_topic_that_is_gone_vanish(house, calls, evidence):
    for name in ("tests/part/test_two.py", "snippets/part/two.py"):
        (house / name).unlink()
    (house / "tests/conftest.py").write_text("")

    update(house)

    assert dates(evidence) == {ONE: NEW, THREE: NEW}


def test_damaged_evidence_is_made_anew(house, calls, evidence):
    evidence.write_text(evidence.read_text()[:500])

    assert update(house) == 0
    assert dates(evidence) == {ONE: NEW, TWO: NEW, THREE: NEW}


def test_a_failure_is_told_at_every_call(house, calls, evidence, capsys):
    record(house, test_word_is_one="failed")

    assert update(house) == SOME_FAILED
    assert calls == []
    assert "failed before: tests.part.test_one::test_word_is_one" in (
        capsys.readouterr().out
    )


def test_a_failure_runs_again_where_that_is_asked_for(house, calls, evidence):
    record(house, test_word_is_one="failed")

    assert update(house, again=True) == 0
    assert calls == [["tests/part/test_one.py"]]


def test_other_tests_join_the_same_run_but_not_the_evidence(
    house, calls, evidence
):
    before = evidence.read_bytes()
    calls.status = 1

    assert update(house, also=["tests/extensions"]) == SOME_FAILED
    assert calls == [[*IN_PARALLEL, "tests/extensions"]]
    assert evidence.read_bytes() == before


@pytest.mark.parametrize("status", [2, 3, 4, 5])
def test_only_what_is_stale_goes_where_pytest_did_not_run(
    house, calls, evidence, status
):
    with (house / "snippets/part/one.py").open("a") as file:
        file.write("# more\n")
    calls.status = status

    with pytest.raises(Problem, match=ENDS[status]):
        update(house)

    assert dates(evidence) == {TWO: OLD, THREE: OLD}


def test_a_crash_leaves_its_topics_without_a_result(house, calls, evidence):
    with (house / "snippets/part/one.py").open("a") as file:
        file.write("# more\n")
    calls.status = -11

    with pytest.raises(Problem, match="ended by SIGSEGV"):
        update(house)

    assert dates(evidence) == {TWO: OLD, THREE: OLD}


def test_a_case_that_crashed_takes_its_test_along(house, calls, monkeypatch):
    """pytest-xdist reports the crash of a worker without any property."""
    old = '<testcase classname="tests.part.test_one" name="test_word_is_one">'
    crashed = (
        '<testcase classname="tests.part.test_one" name="test_word_is_one[b]">'
        "<failure /></testcase>"
    )
    (house / "tests/conftest.py").write_text("")
    stand_in = test_claims.run_pytest

    def run_pytest(root, arguments, xml):
        status = stand_in(root, arguments, xml)
        xml.write_text(xml.read_text().replace(old, crashed + old))
        return status

    monkeypatch.setattr(test_claims, "run_pytest", run_pytest)

    assert update(house) == SOME_FAILED
    run = read_run(house / test_claims.EVIDENCE)
    assert ("tests.part.test_one", "test_word_is_one") not in run.results


def test_a_file_saved_during_the_run_is_tested_again(
    house, calls, evidence, monkeypatch
):
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + "# more\n")
    stand_in = test_claims.run_pytest

    def run_pytest(root, arguments, xml):
        snippet.write_text(snippet.read_text() + "# still more\n")
        return stand_in(root, arguments, xml)

    monkeypatch.setattr(test_claims, "run_pytest", run_pytest)
    assert update(house) == SOME_FAILED
    assert dates(evidence) == {TWO: OLD, THREE: OLD}

    monkeypatch.setattr(test_claims, "run_pytest", stand_in)
    assert update(house) == 0
    assert calls[1:] == [["tests/part/test_one.py"]]


def test_a_module_that_is_not_python_is_never_done(house, calls, evidence):
    (house / "tests/part/test_one.py").write_text("def\n")

    assert update(house) == SOME_FAILED
    assert calls == [["tests/part/test_one.py"]]


def test_without_pytest_one_line_says_so(house, monkeypatch):
    monkeypatch.setattr(pytest_process, "find_spec", lambda name: None)
    (house / "tests/conftest.py").write_text("")

    with pytest.raises(Problem, match="pytest is not installed"):
        update(house)


def run(whole):
    """Call the command as nox does."""
    command = [sys.executable, "-m", "extensions.evidence.test_claims"]
    done = subprocess.run(
        command, cwd=whole, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_real_run_stands_and_a_broken_module_fails_alone(whole):
    evidence = whole / test_claims.EVIDENCE

    assert run(whole)[0] == 0
    ledger = read_ledger(whole, runs([whole / "build/evidence"]))
    assert ledger.tally() == {"passed": 3}
    first = evidence.read_bytes()
    status, said = run(whole)
    assert (status, said) == (0, "0 of 3 modules to test\n")
    assert evidence.read_bytes() == first

    one = whole / "tests/part/test_one.py"
    one.write_text("import lost\n" + one.read_text())
    (whole / "snippets/part/two.py").write_text("boom\n")
    status, said = run(whole)
    assert status == SOME_FAILED
    assert "No module named 'lost'" in said
    assert said.endswith("tests without a result: tests.part.test_one\n")
    results = read_run(evidence).results
    assert {module for module, _ in results} == {
        "tests.gallery.test_three",
        "tests.part.test_two",
    }
    [two] = results["tests.part.test_two", "test_word_is_two"]
    assert two.outcome == "failed"


def test_two_commands_at_once_test_everything_once(whole):
    command = [sys.executable, "-m", "extensions.evidence.test_claims"]
    both = [
        subprocess.Popen(command, cwd=whole, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = sorted(each.communicate()[0].splitlines()[0] for each in both)

    assert said == ["0 of 3 modules to test", "3 of 3 modules to test"]


def test_what_goes_on_where_some_failed_stops_at_a_crash():
    text = (ROOT / "noxfile.py").read_text("utf-8")
    [borne] = re.findall(r"SOME_FAILED = (\d)", text)

    assert int(borne) == SOME_FAILED
    assert SOME_FAILED != 1  # as which Python ends at an error


def test_the_command_imports_no_torch():
    code = (
        "import sys; import extensions.evidence.test_claims;"
        " sys.exit('torch' in sys.modules or 'pytest' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)

    assert done.returncode == 0
