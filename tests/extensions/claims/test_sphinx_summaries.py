"""The ledger as a table, as numbers, and as a file."""

import json
import re
from xml.etree import ElementTree

import jsonschema
import pytest

from extensions.core.files import xml_of
from extensions.core.topics import ROOT
from tests.helpers.builds import built
from tests.helpers.evidence import record


@pytest.fixture(scope="module")
def compared(new_house):
    """The site of a house with other runs: two older ones, and on a GPU."""
    house = new_house()
    old, new = {"torch": "2.6.0"}, {"torch": "2.9.1"}
    record(house, "evidence/old", old, test_word_is_two="failed")
    record(house, "evidence/newer", new)
    waits = "skipped for cuda"
    record(house, "evidence/gpu", device="GPU <9>", test_word_is_one=waits)
    return built(house).outdir


@pytest.fixture(scope="module")
def ledger(compared):
    """The rows of its ledger."""
    return (compared / "evidence/claims/part.html").read_text()


def test_a_row_links_the_claim_and_its_test_and_counts_the_rest(ledger):
    row = re.search(r'<tr id="part-one-word-is-one".*?</tr>', ledger, re.S)[0]

    assert '<a href="../../part/one.html#word-is-one"><code>word</code>' in row
    assert '<a href="../tests/part/one.html#line-1">test</a>' in row
    assert "<br>1 counter-example</td>" in row


def test_a_chapter_of_the_ledger_lists_its_pages(ledger):
    assert '<a href="#page-part-one">One</a> <small>1 claim</small>' in ledger
    assert 'id="page-part-one"' in ledger


def test_each_run_has_a_column(ledger):
    row = re.search(r'<tr id="part-two-word-is-two".*?</tr>', ledger, re.S)[0]

    assert '<th scope="col">torch 2.6.0<br><small>old</small>' in ledger
    assert 'data-verdict="passed"' in row
    results = re.findall(r'<td class="(\w+)" data-run="(.*?)"', row)
    assert results == [
        ("passed", "2.13.0"),
        ("failed", "2.6.0"),
        ("passed", "2.9.1"),
        ("passed", "2.13.0"),
    ]


def test_the_chapters_and_the_runs_are_listed(compared):
    html = (compared / "evidence/claims.html").read_text()

    assert '<a href="claims/part.html">Part</a></td><td>2</td>' in html
    assert "<td>gpu</td>" in html
    assert "<td>2 passed, 1 not run</td>" in html


def test_what_changed_between_versions_has_a_page(compared):
    html = (compared / "evidence/changed.html").read_text()

    assert re.findall(r'<tr id="([\w-]+)"', html) == ["part-two-word-is-two"]


def test_a_page_without_changes_says_so_and_has_no_filter(site):
    html = (site.outdir / "evidence/changed.html").read_text()

    assert "every claim has one result" in html
    assert "0 of 0" not in html


def test_a_run_of_some_claims_stands_where_it_says_something(house, build):
    path = record(house, "evidence/old", {"torch": "2.5.1", "claims": "some"})
    record(house, "evidence/other", {"torch": "2.6.0"})
    root = xml_of(path)
    for suite in root.iter("testsuite"):
        for case in suite.findall("testcase"):
            if not case.get("classname").endswith("test_one"):
                suite.remove(case)
    path.write_bytes(ElementTree.tostring(root))
    out = build().outdir
    rows = (out / "evidence/claims/part.html").read_text()
    one, two = re.findall(
        r'<section class="ledger-topic".*?</table>', rows, re.S
    )
    claims = json.loads((out / "claims.json").read_text())["claims"]

    column = re.compile(r'scope="col">torch ([\d.]+)<br>')
    assert column.findall(one) == ["2.13.0", "2.6.0", "2.5.1"]
    assert column.findall(two) == ["2.13.0", "2.6.0"]
    assert "2.5.1" not in (out / "evidence/claims/gallery.html").read_text()
    assert "2.5.1" not in (out / "part/two.html").read_text()
    assert "<li>✓ torch 2.5.1</li>" in (out / "part/one.html").read_text()
    assert (
        "All claims were tested on torch 2.6.0 to 2.13.0; those that became"
        " true with an older one, also on torch 2.5.1."
    ) in (out / "evidence/claims.html").read_text()
    assert [each["outcomes"][1]["word"] for each in claims] == [
        "not asked",
        "passed",
        "not asked",
    ]


def test_a_panel_names_the_other_runs_by_what_they_say(compared):
    html = (compared / "part/two.html").read_text()
    [runs] = re.findall(r'<ul class="claim-runs">(.*?)</ul>', html, re.S)

    assert re.findall(r"<li>(.*?)</li>", runs) == [
        "<strong>✓ Passed</strong> on CPU: torch 2.13.0 (x86_64), 2026-01-31",
        "✗ failed torch 2.6.0",
        "✓ torch 2.9.1",
        "✓ torch 2.13.0 on GPU &lt;9&gt;",
    ]


def test_a_claim_says_since_which_torch_it_is_true(house, build):
    path = house / "tests/part/test_one.py"
    marks = 'new = api_since("2.7", "torch.x")\n\n@new\n'
    marks += '@true_since("2.9", "it was two")\n'
    path.write_text(f"{marks}{path.read_text()}")
    record(house)
    app = build()
    panel = (app.outdir / "part/one.html").read_text()
    rows = (app.outdir / "evidence/claims/part.html").read_text()
    [claim] = [
        each
        for each in json.loads((app.outdir / "claims.json").read_text())[
            "claims"
        ]
        if each["id"] == "word-is-one"
    ]

    assert "True since torch 2.9; before, the test fails: it was two." in panel
    assert "Needs <code>torch.x</code>, which is there since torch" in panel
    assert "<small>true since torch 2.9, needs torch 2.7</small>" in rows
    assert (claim["true_since"], claim["api_since"]) == ("2.9", "2.7")


def test_a_cell_names_a_device_that_is_not_the_cpu(ledger):
    row = re.search(r'<tr id="part-two-word-is-two".*?</tr>', ledger, re.S)[0]

    results = re.findall(
        r'<td class="passed" data-run="2.13.0">(.*?)</td>', row
    )
    assert results == ["✓ passed", "✓<br><small>GPU &lt;9&gt;</small>"]


def test_the_tally_counts_claims_and_counter_examples(site):
    index = (site.outdir / "index.html").read_text()

    assert "<strong>3 claims</strong>, 3 counter-examples: 3 passed." in index


@pytest.fixture(scope="module")
def counted(new_house):
    """The front page of a house in which each claim ran somewhere."""
    house = new_house()
    old = {"torch": "2.6.0", "date": "2026-01-02"}
    record(house, "evidence/old", old, device="GPU 9")
    record(house, "evidence/again", {"torch": "2.6.0"})
    record(house, test_word_is_one="skipped for cuda", device="CPU")
    page = house / "docs/index.md"
    page.write_text(page.read_text() + "\n```{numbers}\n```\n")
    return (built(house).outdir / "index.html").read_text()


def test_the_tally_names_each_run_with_its_devices_and_its_day(counted):
    assert (
        "This build: torch 2.13.0 (x86_64), Python 3.11.7, on CPU," in counted
    )
    assert "<li>torch 2.6.0, on GPU 9, 2026-01-02</li>" in counted
    assert "Not run anywhere yet" not in counted


@pytest.fixture(scope="module")
def waiting(new_house):
    """The site of a house in which one claim waits for a GPU."""
    house = new_house()
    record(house, test_word_is_one="skipped for cuda")
    return built(house).outdir


def test_the_tally_counts_what_no_run_could_try(waiting):
    index = (waiting / "index.html").read_text()

    assert "Not run anywhere yet: 1 claim that needs a GPU.</li>" in index


def test_the_tally_and_the_ledger_say_what_each_claim_needs(house, build):
    record(
        house,
        test_word_is_one="skipped for cuda",
        test_word_is_two="skipped for scikit-learn",
        test_one_line_is_drawn="skipped for scikit-learn",
    )
    out = build().outdir
    index = (out / "index.html").read_text()
    rows = (out / "evidence/claims/part.html").read_text()

    assert (
        "<li>Not run anywhere yet: 2 claims that need scikit-learn;"
        " 1 claim that needs a GPU.</li>"
    ) in index
    assert "○ not run<br><small>needs scikit-learn</small>" in rows


def test_claims_json_follows_its_schema(waiting):
    found = json.loads((waiting / "claims.json").read_text())
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


def test_the_schema_refuses_a_verdict_that_it_does_not_know(site):
    found = json.loads((site.outdir / "claims.json").read_text())
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


def write_prose(house):
    """Write a page with each kind of sentence, and those that list them."""
    folder = house / "docs/evidence"
    (folder / "primary_sources.toml").write_text(SOURCES)
    for name in ("unproven", "cited"):
        text = f"# List\n\n```{{{name}}}\n```\n"
        (folder / f"{name}.md").write_text(text)
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + PROSE)
    return page


@pytest.fixture(scope="module")
def prose(new_house):
    """The site with that page."""
    house = new_house()
    write_prose(house)
    return built(house).outdir


def test_what_is_not_proven_is_counted_by_page_and_listed(prose):
    html = (prose / "evidence/unproven.html").read_text()
    row = html[html.index('href="../part/one.html">One</a></th>') :]
    assert row.partition("</tr>")[0].endswith("<td>2</td><td>1</td><td>1</td>")
    listed = (prose / "unproven.txt").read_text().splitlines()
    assert "part/one: Do this." in listed
    assert not [each for each in listed if "promised" in each]


def test_what_is_cited_is_listed_with_its_source(prose):
    html = (prose / "evidence/cited.html").read_text()

    link = '<small><a href="../part/one.html">One</a></small>'
    assert f"<td>It is promised.<br>{link}" in html
    assert "A documentation<br>" in html
    assert 'href="https://docs.example.org/1.0/guide.html#part"' in html


def test_a_cited_link_has_a_class_of_its_own(prose):
    html = (prose / "part/one.html").read_text()

    assert '<a class="cited reference external" href="https://docs.ex' in html


def test_sentences_are_counted(prose):
    found = json.loads((prose / "claims.json").read_text())
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
    index = (prose / "index.html").read_text()
    assert "sentences, 4 hold a claim, 1 rest on a primary source" in index


def test_an_edited_sentence_renews_the_list(house, build):
    page = write_prose(house)
    build()
    page.write_text(page.read_text().replace("Do this", "Do that"))

    assert "Do that." in (build().outdir / "unproven.txt").read_text()


def test_the_guide_in_numbers_leads_to_what_it_counts(counted):
    found = re.findall(r'href="([\w/.]+)"><strong>(\d+)</strong>', counted)

    assert found == [
        ("evidence/claims.html", "3"),
        ("evidence/claims.html", "3"),
        ("evidence/changed.html", "2"),
        ("evidence/corrections.html", "0"),
    ]
