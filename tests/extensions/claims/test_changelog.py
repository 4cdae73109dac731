"""What changed between versions of torch."""

import pytest

from extensions.claims.changelog import changes_between_versions
from extensions.claims.ledger import read_ledger
from extensions.evidence.junit import runs
from tests.helpers.evidence import record


@pytest.fixture
def changes(house):
    """Record runs on versions of torch; return what changed between them."""

    def changes(**outcomes):
        for version, outcome in outcomes.items():
            torch = version.removeprefix("on_").replace("_", ".")
            folder = f"evidence/{version}"
            record(house, folder, {"torch": torch}, test_word_is_one=outcome)
        ledger = read_ledger(house, runs([house / "evidence"]))
        return [
            (each.entry.claim.name, each.before.torch, each.after.torch)
            for each in changes_between_versions(ledger)
        ]

    return changes


def test_versions_that_agree_change_nothing(changes):
    assert changes(on_2_6_0="passed", on_2_7_0="passed") == []


def test_a_change_is_named_with_the_versions_around_it(changes):
    found = changes(on_2_9_0="passed", on_2_10_0="failed", on_2_6_0="passed")

    assert found == [("word-is-one", "2.9.0", "2.10.0")]


def test_a_version_that_decides_nothing_is_passed_over(changes):
    found = changes(on_2_6_0="failed", on_2_7_0="skipped", on_2_9_0="passed")

    assert found == [("word-is-one", "2.6.0", "2.9.0")]


def test_a_change_back_is_a_second_change(changes):
    found = changes(on_2_6_0="passed", on_2_7_0="failed", on_2_9_0="passed")

    assert [after for _, _, after in found] == ["2.7.0", "2.9.0"]
