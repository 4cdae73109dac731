"""A run of the tests, recorded for the ledger."""

import gzip
import shutil
import subprocess
import sys
from dataclasses import asdict
from unittest.mock import patch
from xml.etree import ElementTree

import pytest

from extensions.claims.ledger import read_ledger
from extensions.core.files import Problem, xml_of
from extensions.evidence import parsed_tests, record
from extensions.evidence.dependencies import CASES, classname, evidence_modules
from extensions.evidence.junit import (
    outcome_of,
    properties_of,
    read_run,
    runs,
)
from tests.helpers.evidence import FACTS, HOUSE, properties
from tests.helpers.evidence import record as record_run


@pytest.fixture(autouse=True, scope="module")
def claims(tmp_path_factory):
    """A house with few claims, since to hash all of this one takes seconds."""
    house = tmp_path_factory.mktemp("claims") / "house"
    shutil.copytree(HOUSE, house)
    with patch.object(record, "ROOT", house):
        yield house


def test_one_module_is_recorded_as_the_ledger_reads_it(whole):
    command = [sys.executable, "-m", "extensions.evidence.record", "here"]
    options = ["tests/part/test_one.py", "--numprocesses=0"]
    subprocess.run([*command, *options], cwd=whole, check=True)

    run = read_run(whole / "here/tests.xml.gz")
    words = {each.outcome for found in run.results.values() for each in found}
    assert {module for module, _ in run.results} == {"tests.part.test_one"}
    assert words == {"passed"}
    assert "hostname" not in run.facts


def case(name, inside=""):
    """Return a passed test; the first letter of its name is its module."""
    return (
        f'<testcase classname="tests.{name[0]}" name="test_{name}">{inside}'
        "</testcase>"
    )


@pytest.fixture
def runs_as(monkeypatch):
    """Let a run of pytest end in some way, with some test cases."""

    def runs_as(*cases, torch="2.6.0", passed=True, meanwhile=list):
        facts = f'<property name="torch" value="{torch}" />'

        def run(root, arguments, path):
            meanwhile()
            path.write_text(
                f"<testsuites><testsuite><properties>{facts}</properties>"
                f"{''.join(cases)}</testsuite></testsuites>"
            )
            return passed

        monkeypatch.setattr(record, "run_pytest", run)

    return runs_as


@pytest.fixture
def said(runs_as):
    """Let pytest say that some tests passed with some torch."""

    def said(torch, *names):
        runs_as(*map(case, names), torch=torch)

    return said


def names_in(folder):
    """Return the tests that a recorded run holds, with their results."""
    root = xml_of(folder / record.PACKED)
    return [
        (case.get("name"), outcome_of(case)) for case in root.iter("testcase")
    ]


def facts_in(folder):
    """Return the facts of a recorded run."""
    [suite] = xml_of(folder / record.PACKED).iter("testsuite")
    return properties_of(suite)


def test_a_choice_renews_its_claims_alone(tmp_path, said):
    said("2.6.0", "a_one", "a_one__but_not", "a_two", "b_one")
    record.record(tmp_path, [])
    said("2.6.0", "a_one", "a_one__also")
    record.record(tmp_path, ["tests/a.py::test_a_one"])

    assert [name for name, _ in names_in(tmp_path)] == [
        "test_a_one",
        "test_a_one__also",
        "test_a_two",
        "test_b_one",
    ]
    assert "claims" not in facts_in(tmp_path)

    said("2.6.0", "a_three")
    record.record(tmp_path, ["tests/a.py"])
    assert names_in(tmp_path) == [
        ("test_a_three", "passed"),
        ("test_b_one", "passed"),
    ]


def test_a_run_of_some_claims_says_so_until_all_are_recorded(tmp_path, said):
    for name in ("a_one", "b_one"):
        said("2.5.1", name)
        record.record(tmp_path, [f"tests/{name[0]}.py::test_{name}"])
        assert facts_in(tmp_path)["claims"] == "some"
    assert len(names_in(tmp_path)) == 2

    record.record(tmp_path, [])
    assert "claims" not in facts_in(tmp_path)


CLAIMS = """
from extensions.evidence.versions import true_since

@true_since("2.4", "it was not")
def test_old(): ...
def test_old__but_not_so(): ...

@true_since("2.10", "it was not")
def test_new(): ...
def test_plain(): ...
"""


@pytest.fixture
def a_module(tmp_path, monkeypatch):
    """A module of tests, the only one there is."""
    path = tmp_path / "tests/a.py"
    path.parent.mkdir()
    path.write_text(CLAIMS)
    monkeypatch.setattr(record, "evidence_modules", lambda _: [path])
    return path


@pytest.mark.parametrize(
    "named", ["test_old", "test_old__but_not_so", "test_old[3-a]"]
)
def test_a_test_stands_for_its_claim(tmp_path, a_module, named):
    options = ["-x", "tests/b", f"tests/a.py::{named}", "tests/a.py::lost"]

    assert record.with_their_claims(tmp_path, options) == [
        "-x",
        "tests/b",
        "tests/a.py::test_old",
        "tests/a.py::test_old__but_not_so",
        "tests/a.py::lost",
    ]


@pytest.mark.parametrize(
    ("limit", "names"),
    [
        ("2.3", []),
        ("2.4", ["old", "old__but_not_so"]),
        ("2.6", ["old", "old__but_not_so"]),
        ("2.10", ["old", "old__but_not_so", "new"]),
    ],
)
def test_the_claims_that_a_torch_made_true_are_chosen(
    tmp_path, a_module, limit, names
):
    assert record.changed_by(tmp_path, limit) == [
        f"tests/a.py::test_{name}" for name in names
    ]


def test_another_torch_renews_no_part_but_all(tmp_path, said):
    said("2.6.0", "a_one", "b_one")
    record.record(tmp_path, [])
    before = (tmp_path / record.PACKED).read_bytes()
    said("2.9.1", "a_one")

    with pytest.raises(Problem, match=r"with torch 2\.6\.0, and not 2\.9\.1"):
        record.record(tmp_path, ["tests/a.py"])
    assert (tmp_path / record.PACKED).read_bytes() == before

    record.record(tmp_path, [])
    assert names_in(tmp_path) == [("test_a_one", "passed")]


def test_what_failed_is_named(tmp_path, runs_as, capsys):
    runs_as(case("a", '<failure message="assert 1" />'), passed=False)

    assert record.record(tmp_path, []) == record.SOME_FAILED
    assert capsys.readouterr().out == "failed: tests.a::test_a\n"


@pytest.mark.parametrize(
    "chosen", ["", "tests/part", "tests/part/test_one.py::test_a"]
)
def test_all_claims_are_tested_or_those_that_are_named(
    monkeypatch, claims, chosen
):
    called = []

    def fail(root, arguments, path):
        called.extend(arguments)
        path.write_text("<testsuites />")
        return False

    monkeypatch.setattr(record, "run_pytest", fail)
    record.run_of_claims(["-x", *chosen.split()])

    every = [
        str(each.relative_to(claims)) for each in evidence_modules(claims)
    ]
    paths = [each for each in called if each.startswith("tests/")]
    assert paths == (chosen.split() or every)
    assert len(every) == 3
    assert "-x" in called


def test_a_run_from_which_a_case_was_deselected_changes_nothing(
    tmp_path, runs_as
):
    runs_as(case("a[1]", properties({CASES: "2"})))

    with pytest.raises(Problem, match=r"cases of .*test_a.* were deselected"):
        record.record(tmp_path / "here", [])
    assert list(tmp_path.iterdir()) == []


def test_a_module_that_changes_while_it_is_tested_has_no_result(
    tmp_path, runs_as, claims, capsys
):
    [changed, held, *_] = evidence_modules(claims)
    before = changed.read_text()
    names = [classname(claims, each) for each in (changed, held)]
    [test, *_] = parsed_tests.tests_in(held)
    runs_as(
        *(f'<testcase classname="{name}" name="{test}" />' for name in names),
        meanwhile=lambda: changed.write_text(before.replace("def ", "def  ")),
    )
    record.record(tmp_path, [])
    changed.write_text(before)

    found = xml_of(tmp_path / record.PACKED).iter("testcase")
    assert {case.get("classname") for case in found} == {names[1]}
    assert f"changed while it was tested: {names[0]}" in (
        capsys.readouterr().out
    )


RUN = """
<testsuites><testsuite name="pytest" hostname="here" time="1.0">
<properties><property name="torch" value="2.6.0" /></properties>
<testcase classname="tests.a" name="test_b[2]" time="0.5"><properties>
<property name="depends on" value="1" /><property name="said" value="x" />
</properties></testcase>
<testcase classname="tests.a" name="test_b[1]"><properties>
<property name="depends on" value="1" /></properties></testcase>
<testcase classname="tests.a" name="test_c[1]">
<failure message="assert 1&#10;more">long</failure></testcase>
<testcase classname="tests.a" name="test_c[2]" />
<testcase classname="tests.a" name="test_a"><skipped message="why" />
</testcase></testsuite></testsuites>
"""


def pack(run):
    root = ElementTree.fromstring(run)
    return record.packed(root, list(root.iter("testcase")))


def test_a_packed_run_holds_what_pages_show():
    root = ElementTree.fromstring(gzip.decompress(pack(RUN)))

    assert [" ".join([e.tag, *e.attrib.values()]) for e in root.iter()] == [
        "testsuites",
        "testsuite pytest",
        "properties",
        "property torch 2.6.0",
        "testcase tests.a test_a",
        "skipped why",
        "testcase tests.a test_b[1]",
        "properties",
        "property depends on 1",
        "testcase tests.a test_c[1]",
        "failure assert 1",
        "testcase tests.a test_c[2]",
    ]


@pytest.mark.parametrize("word", ["failed", "skipped for cuda"])
def test_the_ledger_reads_it_as_it_reads_the_run(house, word):
    path = record_run(house, "evidence/other", test_word_is_one=word)
    folders = [house / "build/evidence", house / "evidence"]
    before = read_ledger(house, runs(folders))
    data = pack(path.read_text())
    path.unlink()
    path.with_name("tests.xml.gz").write_bytes(data)
    after = read_ledger(house, runs(folders))

    assert [run.facts for run in after.runs] == [FACTS, FACTS]
    assert [asdict(a) for b in before.entries for a in b.outcomes] == [
        asdict(a) for b in after.entries for a in b.outcomes
    ]
