"""Recorded results count as this build's own, as long as nothing is other."""

import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from extensions.claims.ledger import read_ledger
from extensions.core.files import Problem
from extensions.evidence import test_claims
from extensions.evidence.junit import OWN, RECORDED, runs
from extensions.evidence.kept_results import LOCKED
from extensions.evidence.record import renew

ONE = "tests/part/test_one.py"
PROGRAM = "snippets/part/one.py"
FILE = Path("part/one.xml")


@pytest.fixture
def clone(recorded, tmp_path, monkeypatch):
    house = tmp_path / "house"
    shutil.copytree(recorded, house)
    monkeypatch.setenv("PYTHONPATH", str(house))
    return house


@pytest.fixture
def tested(monkeypatch):
    """Note which modules pytest is to test."""
    tested = []
    run_pytest = test_claims.run_pytest

    def noted(root, arguments, xml):
        tested.extend(each for each in arguments if each.startswith("tests/"))
        return run_pytest(root, arguments, xml)

    monkeypatch.setattr(test_claims, "run_pytest", noted)
    return tested


def update(house, anew=False):
    return test_claims.update(house, [], again=False, anew=anew)


def entry(house):
    """Return what the site would say of the claim that a word is one."""
    found = runs([house / "build/evidence", house / "evidence"])
    return read_ledger(house, found).of("part/one")[0]


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_clone_has_nothing_to_test_and_pages_lose_nothing(clone, tested):
    assert update(clone) == 0

    found = entry(clone)
    assert tested == []
    assert (found.verdict, found.cases) == ("passed", 1)
    assert len(found.failures) == 2
    assert found.own.recorded.startswith("torch ")
    assert renew(clone, check=True) == 0
    [before], [after, *_] = (
        runs([clone / each]) for each in ("before", "build/evidence")
    )

    for results in after.results.values():
        for each in results:
            assert each.properties.pop(RECORDED)
    assert after.results == before.results


@pytest.fixture
def not_counted(clone, monkeypatch):
    """Say which modules are to be tested, and test none."""

    class Asked(Exception):
        pass

    def asked(root, arguments, xml):
        raise Asked([each for each in arguments if each.startswith("tests/")])

    def not_counted():
        monkeypatch.setattr(test_claims, "run_pytest", asked)
        try:
            update(clone)
        except Asked as error:
            return error.args[0]
        return []

    return not_counted


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (PROGRAM, 'word = "one"', 'word = "two"'),
        (ONE, '.word == "one"', '.word == "two"'),
        (
            "extensions/programs/snippet.py",
            "import torch\n",
            "raise OSError\n",
        ),
    ],
)
def test_what_was_recorded_before_a_change_does_not_count(
    clone, not_counted, name, old, new
):
    edit(clone / name, old, new)

    assert ONE in not_counted()
    assert entry(clone).verdict == "missing"


def test_all_is_tested_where_that_is_asked_for(clone, tested):
    update(clone)
    assert update(clone, anew=True) == 0
    assert ONE in tested
    assert not entry(clone).own.recorded

    tested.clear()
    assert update(clone, anew=True) == 0
    assert update(clone) == 0
    assert tested == []


def test_a_failure_here_is_not_made_good_by_what_was_recorded(
    clone, not_counted
):
    update(clone)
    run = ElementTree.parse(clone / OWN / FILE)
    first, second = run.findall("testsuite/testsuite")
    ElementTree.SubElement(first.find("testcase"), "failure", message="no")
    run.find("testsuite").remove(second)
    run.write(clone / OWN / FILE)

    assert not_counted() == [ONE]


def test_only_the_test_that_changed_is_recorded_again(clone, capsys):
    before = (clone / LOCKED / FILE).read_text()
    edit(clone / ONE, '"Other"', '"Another"')
    assert renew(clone, check=True) == 1
    assert "but_not_of_another changed" in capsys.readouterr().out
    update(clone)
    assert renew(clone, check=False) == 0

    after = (clone / LOCKED / FILE).read_text()
    changed = {*before.splitlines()} ^ {*after.splitlines()}
    assert changed
    assert all(
        "depends on" in each or "OTHER" in each.upper() for each in changed
    )
    assert renew(clone, check=True) == 0


def test_a_case_that_says_itself_what_it_depends_on_keeps_that(clone):
    says = 'request.node.user_properties += [("depends on", "a cell")]'
    old = "def test_word_is_one(snippet):\n"
    edit(clone / ONE, old, old.replace("):", ", request):") + f"    {says}\n")
    update(clone)

    [run, *_] = runs([clone / "build/evidence"])
    [case] = run.results["tests.part.test_one", "test_word_is_one"]
    assert case.properties["depends on"] == "a cell"


def test_an_edit_is_tested_and_its_failure_is_not_recorded(
    clone, tested, capsys
):
    update(clone)
    before = (clone / LOCKED / FILE).read_bytes()
    edit(clone / PROGRAM, 'word = "one"', 'word = "two"')

    assert update(clone) == test_claims.SOME_FAILED
    assert tested == [ONE]
    assert entry(clone).verdict == "failed"
    assert renew(clone, check=False) == 1
    assert "no result: tests.part.test_one" in capsys.readouterr().out
    assert (clone / LOCKED / FILE).read_bytes() == before


def test_the_results_of_a_topic_that_is_gone_go_as_well(clone):
    for name in (ONE, PROGRAM):
        (clone / name).unlink()

    assert renew(clone, check=True) == 1
    update(clone)
    renew(clone, check=False)
    assert not (clone / LOCKED / FILE).exists()


@pytest.mark.parametrize("old", ["</testsuites>", "tests.part.test_one"])
def test_a_damaged_file_is_named(clone, old):
    edit(clone / LOCKED / FILE, old, "")

    with pytest.raises(Problem, match=r"one\.xml:"):
        update(clone)
