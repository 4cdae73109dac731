"""Claims, joined with their tests and with what runs say of them."""

import shutil
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from extensions.claims.ledger import Entry, Ledger, read_ledger
from extensions.claims.rules import evidence_stands, failures_show_values
from extensions.core.topics import Topic
from extensions.evidence.junit import runs
from extensions.evidence.outcomes import Outcome
from tests.helpers.evidence import record


@pytest.fixture
def entry(house):
    """Return what the ledger says of one claim, after the runs are read."""

    def entry():
        found = runs([house / "build/evidence", house / "evidence"])
        return read_ledger(house, found).of("part/one")[0]

    return entry


def test_an_entry_joins_claim_test_and_counter_examples(entry):
    found = entry()

    assert found.claim.text == "`word` is one"
    assert (found.test.name, found.test.line) == ("test_word_is_one", 1)
    assert [each.name for each in found.counter_examples] == [BUT]
    assert found.anchor == "part-one-word-is-one"
    assert [each.word for each in found.outcomes] == [found.verdict]


BUT = "test_word_is_one__but_not_of_another"


@pytest.mark.parametrize(
    ("name", "outcome", "verdict"),
    [
        ("test_word_is_one", "failed", "failed"),
        ("test_word_is_one", "skipped", "skipped"),
        ("test_word_is_one", "skipped for cuda", "not run"),
        ("test_word_is_one", "skipped for scikit-learn", "not run"),
        (BUT, "failed", "failed"),
    ],
)
def test_a_claim_is_what_its_tests_say(house, entry, name, outcome, verdict):
    record(house, **{name: outcome})

    assert entry().verdict == verdict


@pytest.mark.parametrize(
    ("outcome", "verdict"), [("passed", "missing"), ("failed", "failed")]
)
def test_a_claim_of_which_a_result_lacks_is_missing_unless_it_failed(
    house, entry, outcome, verdict
):
    path = record(house, test_word_is_one=outcome) / "part/one.xml"
    text = path.read_text().replace(f'name="{BUT}"', 'name="test_other"')
    path.write_text(text)

    assert entry().verdict == verdict


def test_an_outcome_says_where_its_tests_ran_and_when_the_last_did(
    house, entry
):
    path = record(house, device="GPU 9", date="2026-01-02") / "part/one.xml"
    # The counter-example, which stands second, ran elsewhere and later.
    first, second = path.read_text().split('name="test_word_is_one__', 1)
    second = second.replace("GPU 9", "CPU", 1)
    second = second.replace("2026-01-02", "2026-01-05", 1)
    path.write_text(first + 'name="test_word_is_one__' + second)

    [outcome] = entry().outcomes

    assert outcome.devices == ("CPU", "GPU 9")
    assert outcome.date == "2026-01-05"


@pytest.mark.parametrize(
    ("name", "old", "new", "verdict"),
    [
        ("snippets/part/one.py", '"one"', '"1"', "stale"),
        ("snippets/part/one.py", '"counted"', '"told"', "passed"),
        ("tests/part/test_one.py", '"other"', '"two"', "stale"),
    ],
)
def test_a_result_is_stale_once_what_it_rests_on_changes(
    house, entry, name, old, new, verdict
):
    path = house / name
    path.write_text(path.read_text().replace(old, new))

    assert entry().verdict == verdict


@pytest.mark.parametrize(
    ("own", "recorded", "verdict"),
    [
        # Recorded runs decide what this build could not run, and only that,
        ("skipped for cuda", {"2.13.0": "passed"}, "passed"),
        (
            "skipped for cuda",
            {"2.13.0": "passed", "2.15.0": "failed"},
            "failed",
        ),
        ("passed", {"2.13.0": "failed"}, "passed"),
        ("failed", {"2.13.0": "passed"}, "failed"),
        ("skipped", {"2.13.0": "failed"}, "skipped"),
        ("", {"2.13.0": "passed"}, "missing"),
        # if they ran on a torch of the guide.
        ("skipped for cuda", {"1.13.1": "passed"}, "not run"),
        ("skipped for cuda", {"2.5.1": "passed"}, "not run"),
        ("skipped for cuda", {"2.6.0": "passed"}, "passed"),
    ],
)
def test_the_run_of_this_build_decides_where_it_could_run(
    house, entry, own, recorded, verdict
):
    if own:
        record(house, test_word_is_one=own)
    else:
        shutil.rmtree(house / "build/evidence/this-build")
    for torch, said in recorded.items():
        folder, facts = f"evidence/{torch}", {"torch": torch}
        record(house, folder, facts, "GPU", test_word_is_one=said)

    found = entry()

    first = [own.replace("skipped for cuda", "not run")] if own else []
    words = [outcome.word for outcome in found.outcomes]
    assert words == [*first, *recorded.values()]
    assert found.verdict == verdict


def test_another_folder_beside_that_of_this_build_is_not_its_own(house, entry):
    record(house, test_word_is_one="failed")
    for folder in ("aaa", "zzz"):
        record(house, f"build/evidence/{folder}", suite={"torch": "2.6.0"})

    assert entry().verdict == "failed"


def test_a_counter_example_that_saw_no_test_fail_fails_the_claim(house, entry):
    path = record(house) / "part/one.xml"
    path.write_text(path.read_text().replace('name="said"', 'name="other"'))

    found = entry()
    assert found.verdict == "failed"
    assert found.own.empty == (BUT,)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("test_word_is_one", "test failed: tests/part/test_one.py:1"),
        (BUT, "counter-example failed: tests/part/test_one.py:5"),
    ],
)
def test_a_failure_is_reported_by_the_test_that_failed(house, name, place):
    record(house, **{name: "failed"})
    ledger = read_ledger(house, runs([house / "build/evidence"]))

    [problem] = evidence_stands(ledger)

    assert problem.path == house / "docs/part/one.md"
    assert problem.message == f"claim 'word-is-one': its {place} ({name})"


def test_a_result_that_is_missing_says_the_command_that_makes_it(house):
    shutil.rmtree(house / "build/evidence/this-build")

    ledger = read_ledger(house, [])
    first, *others = evidence_stands(ledger)

    assert len(others) == 2
    assert first.message.endswith(": run: nox -s docs")
    assert {(e.outcomes, e.verdict) for e in ledger.entries} == {
        ((), "missing")
    }


def test_what_was_recorded_for_others_of_a_topic_is_missed(house, entry):
    record(house, test_word_is_one="skipped for cuda")
    record(house, "evidence/gpu", {"torch": "2.13.0"}, "GPU")
    kept = entry()
    lost = replace(kept, elsewhere=())

    assert not [*evidence_stands(Ledger((), (lost,), {}))]
    [problem] = evidence_stands(Ledger((), (kept, lost), {}))
    assert problem.message.endswith("where others of its topic were")


@pytest.mark.parametrize(
    ("noted", "is_refused"),
    [
        ({"said": "assert kept\nassert False"}, True),
        ({"said": "assert a == b\nassert 1 == 2"}, False),
        ({"said": "assert kept", "output after": "2"}, False),
    ],
)
def test_a_failure_shows_more_than_true_or_false(house, noted, is_refused):
    record(house, failures={"edit": "+new"} | noted)
    ledger = read_ledger(house, runs([house / "build/evidence"]))

    found = {(e.path.name, e.line) for e in failures_show_values(ledger)}

    assert (("test_one.py", 5) in found) == is_refused


def test_what_a_program_prints_otherwise_stands_first(house, entry):
    module = house / "tests/part/test_one.py"
    text = module.read_text()
    again = text[text.index(f"def {BUT}") :].replace("another", "any")
    again = again.replace("Another word is", "No word\n    is")
    module.write_text(f"{text}\n\n{again}")
    printed = {"edit": "+new", "said": "assert", "output after": "two"}
    record(house, failures_of={"test_word_is_one__but_not_of_any": printed})

    found = entry()

    first, second = "No word is not one", "Another word is not one"
    assert [said for _, said in found.surprises] == [f"{first}.", f"{second}."]
    assert found.breaks == (f"{second}.", f"{first}.")


# -- Rows --------------------------------------------------------------------


def claim(chapter, *words):
    """Return an entry of a chapter, with the outcome of each run in a word."""
    topic = Topic(Path(), f"{chapter}/topic")
    outcomes = tuple(Outcome(word) for word in words)
    behind = {each.name: () for each in fields(Entry)}
    return Entry(**behind | {"topic": topic, "outcomes": outcomes})


def test_rows_stand_by_chapter_and_those_that_changed_again():
    same = claim("a", "passed", "passed")
    changed = claim("b", "passed", "failed")
    undecided = claim("b", "passed", "not run")

    assert Ledger((), (same, changed, undecided), {}).by_page == {
        "evidence/claims/a": [same],
        "evidence/claims/b": [changed, undecided],
        "evidence/changed": [changed],
    }


def test_a_run_has_a_column_if_it_was_asked_and_a_partial_one_the_last():
    words = ["passed", "not asked", "passed", "passed"]
    runs = [
        SimpleNamespace(is_part=part) for part in (True, False, False, True)
    ]
    row = claim("a", *words)

    assert Ledger(runs, (row,), {}).columns_of([row]) == [2, 0, 3]
