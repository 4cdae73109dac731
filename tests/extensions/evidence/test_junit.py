"""Runs of the tests, read from JUnit XML."""

import pytest

from extensions.core.files import Problem
from extensions.core.topics import Topic
from extensions.evidence.dependencies import DEPENDS_ON, Dependencies
from extensions.evidence.junit import read_run, runs, unreadable_runs
from tests.helpers.evidence import FACTS, record


def problem(path):
    """Return what is wrong with a run, in one line."""
    with pytest.raises(Problem) as caught:
        read_run(path)
    return str(caught.value)


def test_a_run_knows_its_facts_and_results(house):
    run = read_run(record(house, "evidence/other", test_word_is_one="failed"))

    assert run.facts == FACTS
    assert run.title == "torch 2.13.0 (x86_64)"
    [result] = run.results["tests.part.test_one", "test_word_is_one"]
    assert result.outcome == "failed"
    found = Dependencies(Topic(house, "part/one"))
    assert result.properties[DEPENDS_ON] == found.of("test_word_is_one")


def test_a_damaged_run_is_told_and_the_others_are_read(house):
    damaged = house / "evidence/damaged/tests.xml"
    damaged.mkdir(parents=True)
    folders = [house / "build/evidence", house / "evidence"]

    assert [run.facts for run in runs(folders)] == [FACTS]
    [problem] = unreadable_runs(folders)
    assert problem.path == damaged


def test_a_run_without_facts_is_a_problem_that_names_them(house):
    path = record(house, "evidence/other")
    text = path.read_text()
    path.write_text(text.replace('name="torch"', 'name="other"'))

    assert problem(path).startswith(
        f"{path}:1: the run does not say its torch:"
    )


def test_a_changed_file_is_read_again(house):
    folders = [house / "build/evidence"]
    record(house)
    before = runs(folders)
    record(house, suite={"torch": "9.9"})

    assert [run.facts["torch"] for run in before] == ["2.13.0"]
    assert [run.facts["torch"] for run in runs(folders)] == ["9.9"]


def test_the_own_run_comes_first_and_then_the_oldest_torch(house):
    for torch in ("2.12.1", "2.6.0+cu124", "2.9.1", "2.16.0.dev2026"):
        record(house, f"evidence/cpu-{torch}", suite={"torch": torch})
    record(house, suite={"torch": "2.13.0"})

    found = runs([house / "build/evidence", house / "evidence"])

    versions = "2.13.0 2.6.0+cu124 2.9.1 2.12.1 2.16.0.dev2026"
    assert [run.facts["torch"] for run in found] == versions.split()
