"""The ledger as pages, with the tests behind it, and as files."""

import json
import re

import jsonschema
import pytest

from extensions.core.topics import ROOT

COLUMN = re.compile(r'scope="col">torch ([\d.]+)<br><small>(.*?)</small>')


def row_of(html, claim):
    """Return the row of a claim on a page of the ledger."""
    [row] = re.findall(rf'<tr id="{claim}".*?</tr>', html, re.S)
    return row


def test_a_row_links_the_claim_and_its_test_and_counts_the_rest(varied):
    row = row_of(varied.html("evidence/claims/part"), "part-one-word-is-one")

    assert '<a href="../../part/one.html#word-is-one"><code>word</code>' in row
    assert '<a href="../tests/part/one.html#line-5">test</a>' in row
    assert "<br>1 counter-example, 1 variation, 1 limit</td>" in row
    assert "<small>true since torch 2.9, needs torch 2.7</small>" in row


def test_each_run_has_a_column_where_it_says_something(varied):
    html = varied.html("evidence/claims/part")
    one, two = re.findall(
        r'<section class="ledger-topic".*?</table>', html, re.S
    )
    row = row_of(html, "part-two-word-is-two")

    runs = [
        ("2.13.0", "this build"),
        ("1.13.1", "before"),
        ("2.6.0", "old"),
        ("2.9.1", "newer"),
        ("2.13.0", "gpu"),
    ]
    assert COLUMN.findall(two) == runs
    assert COLUMN.findall(one) == [*runs, ("2.5.1", "x")]
    assert 'data-verdict="simulated"' in row
    assert re.findall(r'<td class="(\w+)">(.*?)</td>', row) == [
        ("passed", "✓ passed<br><small>GPU 9</small>"),
        ("passed", "✓"),
        ("failed", "✗ failed"),
        ("passed", "✓"),
        ("passed", "✓<br><small>GPU &lt;9&gt;</small>"),
    ]
    [claim] = [c for c in varied.claims if c["id"] == "word-is-two"]
    words = [each["word"] for each in claim["outcomes"]]
    assert sorted(words)[1] == "not asked"


def test_a_row_says_what_a_claim_needs(waiting):
    html = waiting.html("evidence/claims/gallery")

    said = "○ not run<br><small>needs lmdb and scikit-learn</small>"
    assert said in html


def test_what_changed_between_versions_has_a_page(varied, site):
    html = varied.html("evidence/changed")

    assert re.findall(r'<tr id="([\w-]+)"', html) == ["part-two-word-is-two"]
    html = (site.outdir / "evidence/changed.html").read_text()
    assert "every claim has one result" in html
    assert "0 of 0" not in html


# -- Pages of tests ----------------------------------------------------------


def test_a_page_of_tests_shows_them_behind_the_words_of_their_claim(varied):
    html = varied.html("evidence/tests/part/one")

    before, proof = html.split(
        '<p class="proof-claim"><a href="../../../part/one.html#word-is-one">'
        "<code>word</code> is one</a></p>"
    )
    assert "<code>tests/part/test_one.py</code>" in before
    assert 'href="../../../part/one.html">One</a>' in before
    proof, shared = proof.split("<h2>What these tests share</h2>")
    tests = dict(re.findall(r'id="line-(\d+)">(.*?)</pre>', proof, re.S))
    code = [re.sub("<.*?>", "", each).strip() for each in tests.values()]
    assert code[0].startswith("@new\n@true_since(")
    assert [re.findall(r"def (\w+)", each) for each in code] == [
        ["test_word_is_one"],
        ["test_word_is_one__but_not_of_another"],
        ["test_word_is_one__also_twice"],
        ["test_word_is_one__ends_at_night"],
    ]
    assert list(tests) == ["5", "9", "14", "17"]
    assert "api_since" in shared
    assert "def " not in re.sub("<.*?>", "", shared.partition("</pre>")[0])


# -- Files -------------------------------------------------------------------


def test_claims_json_follows_its_schema(varied):
    found = json.loads((varied.app.outdir / "claims.json").read_text())
    schema = json.loads((ROOT / "docs/_extra/claims.schema.json").read_text())

    jsonschema.validate(found, schema)
    assert [each["id"] for each in found["claims"]] == [
        "one-line-is-drawn",
        "word-is-one",
        "word-is-two",
    ]
    _, one, two = found["claims"]
    assert (one["true_since"], one["api_since"]) == ("2.9", "2.7")
    assert two["verdict"] == "simulated"
    assert two["outcomes"][0] == {
        "word": "passed",
        "devices": ["GPU 9"],
        "date": "2026-01-02",
    }
    two["verdict"] = "surely"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, schema)


def test_what_is_not_proven_is_listed(varied):
    listed = (varied.app.outdir / "unproven.txt").read_text().splitlines()

    assert "part/one: Do this." in listed
    assert not [each for each in listed if "promised" in each]
