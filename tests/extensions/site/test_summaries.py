"""The ledger as a table, as numbers, and as a file."""

import json
import re

import jsonschema
import pytest

from extensions.files.topics import ROOT
from tests.extensions.conftest import record


@pytest.fixture
def ledger(house, build):
    """Build a house with one failure, and return the page of its ledger."""
    record(
        house, "evidence/other", {"torch": "2.6.0"}, test_word_is_two="failed"
    )
    return (build().outdir / "evidence/claims.html").read_text()


def test_a_row_links_the_claim_its_test_and_its_counter_examples(ledger):
    row = re.search(r'<tr id="part-one-word-is-one".*?</tr>', ledger, re.S)[0]

    assert '<a href="../part/one.html#word-is-one"><code>word</code>' in row
    assert '<a href="tests/part/one.html#line-4">test</a>' in row
    assert '<a href="tests/part/one.html#line-8">but not of another' in row


def test_each_run_has_a_column(ledger):
    row = re.search(r'<tr id="part-two-word-is-two".*?</tr>', ledger, re.S)[0]

    assert '<th scope="col">torch 2.6.0 (x86_64)<br>' in ledger
    assert 'data-verdict="failed"' in row
    assert re.findall(r'"outcome outcome-(\w+)"', row) == ["passed", "failed"]


def test_a_cell_names_a_device_that_is_not_the_cpu(house, build):
    record(house, "evidence/other", device="GPU <9>")
    html = (build().outdir / "evidence/claims.html").read_text()
    row = re.search(r'<tr id="part-one-word-is-one".*?</tr>', html, re.S)[0]

    assert '"outcome outcome-passed">passed</td>' in row
    assert "passed<br><small>GPU &lt;9&gt;</small></td>" in row


def test_the_tally_counts_claims_and_counter_examples(build):
    index = (build().outdir / "index.html").read_text()

    assert "<strong>3 claims</strong>, 3 counter-examples: 3 passed." in index


def test_claims_json_follows_its_schema(house, build):
    record(house, test_word_is_one="skipped for cuda")
    found = json.loads((build().outdir / "claims.json").read_text())
    schema = (ROOT / "docs/_extra/claims.schema.json").read_text()

    jsonschema.validate(found, json.loads(schema))
    assert [each["id"] for each in found["claims"]] == [
        "one-line-is-drawn",
        "word-is-one",
        "word-is-two",
    ]
    assert found["claims"][1]["verdict"] == "not run"
    assert found["claims"][2]["outcomes"] == [
        {"word": "passed", "devices": ["CPU"], "date": "2026-01-31"}
    ]


def test_the_schema_refuses_a_verdict_that_it_does_not_know(build):
    found = json.loads((build().outdir / "claims.json").read_text())
    schema = (ROOT / "docs/_extra/claims.schema.json").read_text()
    found["claims"][0]["verdict"] = "surely"

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, json.loads(schema))
