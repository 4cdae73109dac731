"""Claims, joined with their tests and with what runs say of them."""

import pytest

from extensions.files.evidence import runs
from extensions.files.ledger import read_ledger
from tests.extensions.conftest import record


@pytest.fixture
def entry(house):
    """Return what the ledger says of one claim, after the runs are read."""

    def entry():
        found = runs([house / "build/evidence", house / "evidence"])
        return read_ledger(house, found).of("part/one")[0]

    return entry


def words(entry):
    """Return what each run says of a claim."""
    return [outcome.word for outcome in entry.outcomes]


def test_an_entry_joins_claim_test_and_counter_examples(entry):
    found = entry()

    assert found.claim.text == "`word` is one"
    assert (found.test.name, found.test.line) == ("test_word_is_one", 1)
    assert [each.name for each in found.counters] == [
        "test_word_is_one__but_not_of_another"
    ]
    assert found.anchor == "part-one-word-is-one"
    [outcome] = found.outcomes
    assert (outcome.word, found.verdict) == ("passed", "passed")


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        ("failed", "failed"),
        ("skipped", "skipped"),
        ("skipped for cuda", "not run"),
    ],
)
def test_a_claim_is_what_its_test_says(house, entry, outcome, verdict):
    record(house, test_word_is_one=outcome)

    assert entry().verdict == verdict


def test_a_counter_example_that_fails_fails_the_claim(house, entry):
    record(house, test_word_is_one__but_not_of_another="failed")

    assert entry().verdict == "failed"


def test_a_claim_whose_counter_example_never_ran_is_missing(house, entry):
    path = record(house)
    name = 'name="test_word_is_one__but_not_of_another"'
    path.write_text(path.read_text().replace(name, 'name="test_other"'))

    assert entry().verdict == "missing"


def test_a_failure_outweighs_a_counter_example_that_never_ran(house, entry):
    path = record(house, test_word_is_one="failed")
    name = 'name="test_word_is_one__but_not_of_another"'
    path.write_text(path.read_text().replace(name, 'name="test_other"'))

    assert entry().verdict == "failed"


def test_an_outcome_says_where_its_tests_ran_and_when_the_last_did(
    house, entry
):
    path = record(house, device="GPU 9", date="2026-01-02")
    # The counter-example, which stands second, ran elsewhere and later.
    first, second = path.read_text().split('name="test_word_is_one__')
    second = second.replace("GPU 9", "CPU", 1)
    second = second.replace("2026-01-02", "2026-01-05", 1)
    path.write_text(first + 'name="test_word_is_one__' + second)

    [outcome] = entry().outcomes

    assert outcome.devices == ("CPU", "GPU 9")
    assert outcome.date == "2026-01-05"


@pytest.mark.parametrize(
    "name", ["snippets/part/one.py", "tests/part/test_one.py"]
)
def test_a_result_is_stale_once_its_files_change(house, entry, name):
    with (house / name).open("a") as file:
        file.write("# more\n")

    assert entry().verdict == "stale"


def test_a_claim_without_a_run_is_missing(house, entry):
    (house / "build/evidence/this-build/tests.xml").unlink()

    assert (entry().outcomes, entry().verdict) == ((), "missing")


def test_a_recorded_run_decides_what_this_build_could_not_run(house, entry):
    record(house, test_word_is_one="skipped for cuda")
    record(house, "evidence/gpu-torch-2.13.0", device="GPU")

    assert words(entry()) == ["not run", "passed"]
    assert entry().verdict == "passed"


def test_one_failure_outweighs_what_passed_elsewhere(house, entry):
    record(house, "evidence/other", test_word_is_one="failed")

    assert words(entry()) == ["passed", "failed"]
    assert entry().verdict == "failed"
