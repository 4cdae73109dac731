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
    assert '<a href="tests/part/one.html#line-1">test</a>' in row
    assert '<a href="tests/part/one.html#line-5">but not of another' in row


def test_each_run_has_a_column(ledger):
    row = re.search(r'<tr id="part-two-word-is-two".*?</tr>', ledger, re.S)[0]

    assert '<th scope="col">torch 2.6.0 (x86_64)<br>' in ledger
    assert 'data-verdict="passed"' in row
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


SOURCES = """
[[source]]
name = "A documentation"
prefix = "https://docs.example.org/1.0/"
pages = ["guide.html#part"]
"""
PROSE = """
Do this.
[It is promised](https://docs.example.org/1.0/guide.html#part){.cited}.
[`word` has letters]{#word-has-letters .claim}, of course.
"""


@pytest.fixture
def prose(house):
    """Write a page with each kind of sentence, and those that list them."""
    folder = house / "docs/evidence"
    (folder / "primary_sources.toml").write_text(SOURCES)
    for name in ("unproven", "cited"):
        text = f"# List\n\n```{{{name}}}\n```\n"
        (folder / f"{name}.md").write_text(text)
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + PROSE)
    return page


def test_what_is_not_proven_is_listed_by_page(prose, build):
    html = (build().outdir / "evidence/unproven.html").read_text()

    section = html[html.index('id="of-part-one"') :]
    section = section[: section.index("</section>")]
    assert "<li>Do this.</li>" in section
    assert "promised" not in section
    assert (
        '<li><span class="covered"><code>word</code> has letters</span>,'
        " of course.</li>"
    ) in section
    row = html[html.index('href="#of-part-one"') :]
    assert row.startswith(
        'href="#of-part-one">part/one</a></th>'
        "<td>2</td><td>1</td><td>1</td></tr>"
    )


def test_what_is_cited_is_listed_with_its_source(prose, build):
    html = (build().outdir / "evidence/cited.html").read_text()

    assert "<td>It is promised.<br>" in html
    assert "A documentation<br>" in html
    assert 'href="https://docs.example.org/1.0/guide.html#part"' in html


def test_a_cited_link_has_a_class_of_its_own(prose, build):
    html = (build().outdir / "part/one.html").read_text()

    assert '<a class="cited reference external" href="https://docs.ex' in html


def test_sentences_are_counted(prose, build):
    app = build()

    found = json.loads((app.outdir / "claims.json").read_text())
    assert found["sentences"]["part/one"] == {
        "proven": 2,
        "cited": 1,
        "neither": 1,
    }
    assert found["cited"] == [
        {
            "page": "part/one",
            "sentence": "It is promised.",
            "source": "https://docs.example.org/1.0/guide.html#part",
        }
    ]
    index = (app.outdir / "index.html").read_text()
    assert "sentences, 4 hold a claim, 1 rest on a primary source" in index


def test_an_edited_sentence_renews_the_list(prose, build):
    build()
    prose.write_text(prose.read_text().replace("Do this", "Do that"))

    html = (build().outdir / "evidence/unproven.html").read_text()
    assert "Do that." in html
