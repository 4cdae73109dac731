"""The pages of the ledger, and their columns."""

from types import SimpleNamespace

from extensions.claims.ledger import (
    CHANGED_PAGE,
    columns_of,
    ledger_page,
    rows_by_page,
)


def entry(name, *words):
    """Return a claim with its outcomes."""
    topic = SimpleNamespace(chapter=name.partition("/")[0])
    outcomes = [SimpleNamespace(word=word) for word in words]
    return SimpleNamespace(topic=topic, outcomes=outcomes)


def ledger(*entries, parts=(False, False)):
    """Return a ledger of claims, with runs of which some are partial."""
    runs = [SimpleNamespace(is_part=part) for part in parts]
    return SimpleNamespace(entries=entries, runs=runs)


def test_each_chapter_has_a_page():
    one, two = entry("a/one", "passed"), entry("b/two", "passed")

    rows = rows_by_page(ledger(one, two))

    assert ledger_page(one) == "evidence/claims/a"
    assert rows["evidence/claims/a"] == [one]
    assert rows["evidence/claims/b"] == [two]


def test_a_claim_whose_outcome_differs_is_listed_as_changed():
    same = entry("a/one", "passed", "passed")
    changed = entry("a/one", "passed", "failed")
    undecided = entry("a/one", "passed", "not run")

    rows = rows_by_page(ledger(same, changed, undecided))

    assert rows[CHANGED_PAGE] == [changed]


def test_a_run_that_was_asked_of_no_claim_has_no_column():
    entries = [entry("a/one", "not asked", "passed")]

    assert columns_of(ledger(*entries), entries) == [1]


def test_the_columns_of_partial_runs_come_last():
    entries = [entry("a/one", "passed", "passed", "passed")]
    found = ledger(*entries, parts=(True, False, True))

    assert columns_of(found, entries) == [1, 0, 2]
