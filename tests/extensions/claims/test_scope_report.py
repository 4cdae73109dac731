"""What is measured of the scopes of claims."""

import pytest

from extensions.claims.ledger import read_ledger
from extensions.claims.scope_report import scope_report
from extensions.evidence.junit import runs
from tests.helpers.evidence import record


@pytest.fixture
def report(house):
    """Return what is reported of the house, once its tests have run."""
    return lambda: [
        *scope_report(read_ledger(house, runs([house / "build/evidence"])))
    ]


def test_lines_are_counted_and_measured(report):
    assert report() == [
        "scopes of claims: 3 lines of 18 letters in the middle; 0 are"
        " folded, 0 name no case"
    ]


def test_a_line_whose_cases_have_no_name_is_listed(house, report):
    module = house / "tests/part/test_one.py"
    name = "test_word_is_one__also_for"
    module.write_text(f"{module.read_text()}\n\ndef {name}(old): ...\n")
    path = record(house)
    path.write_text(path.read_text().replace(f'{name}"', f'{name}[old1]"'))

    assert report()[1:] == [
        "names no case: part/one#word-is-one: also in another case"
    ]


def test_a_line_that_is_folded_is_listed(house, report):
    module = house / "tests/part/test_one.py"
    name = "test_word_is_one__also_among_many_words_like"
    module.write_text(f"{module.read_text()}\n\ndef {name}(): ...\n")
    path = record(house)
    words = ", ".join(["eleven"] * 9)
    path.write_text(path.read_text().replace(f'{name}"', f'{name}[{words}]"'))

    summary, line = report()
    assert "; 1 are folded" in summary
    assert line == (
        f"is folded: part/one#word-is-one: also among many words like {words}"
    )


def test_a_site_without_tests_has_nothing_to_measure(house):
    for path in house.glob("tests/**/test_*.py"):
        path.unlink()

    assert not [*scope_report(read_ledger(house, []))]
