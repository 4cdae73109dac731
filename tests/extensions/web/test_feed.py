"""The feed of changes."""

import json
from xml.etree import ElementTree

import jsonschema
import pytest

from extensions.core.topics import ROOT
from tests.helpers.builds import built
from tests.helpers.evidence import record

HOME = "https://guide.example.org/pytorch/"
MARK = '@true_since("2.9", "it was two")\n'
CORRECTION = """\
[[correction]]
source = "A text"
section = "2 Words"
said = "Word is *three*."
holds = "`word` is two."
claim = "word-is-two"
"""
TEXTS = """\
# Sources

## A text

```{csv-table}
"2 Words", "{doc}`/part/two`"
```
"""


def change(house):
    """Let a claim of a house be false once, and add a correction."""
    path = house / "tests/part/test_one.py"
    path.write_text(MARK + path.read_text())
    record(house)
    for version, outcome, date in (
        ("2.6.0", "failed", "2026-01-02"),
        ("2.7.1", "failed", "2026-01-03"),
        ("2.9.1", "passed", "2026-01-04"),
    ):
        record(
            house,
            f"evidence/{version}",
            {"torch": version},
            date=date,
            test_word_is_one=outcome,
        )
    (house / "docs/evidence/sources.md").write_text(TEXTS)
    path = house / "docs/evidence/corrections/part/two.toml"
    path.parent.mkdir(parents=True)
    path.write_text(CORRECTION)
    return house


@pytest.fixture(scope="module")
def changed(new_house):
    """The site of such a house."""
    return built(change(new_house()))


@pytest.fixture(scope="module")
def changed_at_home(new_house):
    """The site of such a house, with an address."""
    return built(change(new_house()), confoverrides={"html_baseurl": HOME})


def feed_of(app):
    """Return the feed, which has to have the shape that is promised."""
    found = json.loads((app.outdir / "feed.json").read_text())
    schema = json.loads((ROOT / "docs/_extra/feed.schema.json").read_text())
    jsonschema.validate(found, schema)
    return found


def test_the_feed_holds_changes_and_corrections(changed):
    correction, false_once = feed_of(changed)["items"]

    assert false_once == {
        "id": "part/one#word-is-one@2.9.1",
        "title": "torch 2.9.1: passed (failed with 2.7.1)",
        "content_text": "`word` is one. Before: it was two.",
        "date_published": "2026-01-04T00:00:00Z",
        "tags": ["change"],
        "_proven_pytorch": {
            "before": {"torch": "2.7.1", "word": "failed"},
            "after": {"torch": "2.9.1", "word": "passed"},
        },
    }
    assert correction["title"] == "A text, 2 Words: corrected"
    assert correction["content_text"] == (
        "It says: Word is *three*.\n\nWhat holds: `word` is two."
    )
    assert correction["date_modified"] == "2026-01-31T00:00:00Z"
    assert correction["_proven_pytorch"] == {"verdict": "passed"}


def test_with_an_address_of_its_own_the_feed_has_whole_addresses(
    changed_at_home,
):
    found = feed_of(changed_at_home)

    assert found["home_page_url"] == HOME
    assert found["feed_url"] == f"{HOME}feed.json"
    assert {each["url"] for each in found["items"]} == {
        f"{HOME}part/one.html#word-is-one",
        f"{HOME}part/two.html#word-is-two",
    }


def test_two_builds_give_one_feed(house, build):
    change(house)
    first = (build().outdir / "feed.json").read_bytes()
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\nMore words.\n")

    assert (build().outdir / "feed.json").read_bytes() == first


def test_what_had_no_device_is_no_change(house, build):
    old = {"torch": "2.6.0"}
    record(house, "evidence/old", old, test_word_is_one="skipped for cuda")

    assert feed_of(build())["items"] == []


def test_each_page_names_the_feed(site):
    head = 'type="application/feed+json" title="What changed" href="{}">'

    index = (site.outdir / "index.html").read_text()
    page = (site.outdir / "part/one.html").read_text()
    assert head.format("feed.json") in index
    assert head.format("../feed.json") in page


def test_the_schema_refuses_what_it_does_not_know(changed):
    found = feed_of(changed)
    schema = json.loads((ROOT / "docs/_extra/feed.schema.json").read_text())
    found["items"][1]["_proven_pytorch"]["after"]["word"] = "surely"

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, schema)


def test_the_same_items_come_as_an_atom_feed(changed_at_home):
    path = changed_at_home.outdir / "feed.xml"
    atom = ElementTree.parse(path).getroot()
    name = "{http://www.w3.org/2005/Atom}"
    entries = atom.findall(f"{name}entry")
    items = feed_of(changed_at_home)["items"]

    def texts(part):
        return [each.findtext(f"{name}{part}") for each in entries]

    assert texts("title") == [item["title"] for item in items]
    assert texts("content") == [item["content_text"] for item in items]
    assert len(set(texts("id"))) == len(items) > 0
    assert atom.findtext(f"{name}updated") == texts("updated")[0]
    assert [e.find(f"{name}link").get("href") for e in entries] == [
        item["url"] for item in items
    ]
    assert atom.findtext(f"{name}author/{name}name")
    own = atom.find(f"{name}link[@rel='self']")
    assert own.get("href") == f"{HOME.rstrip('/')}/feed.xml"


def test_each_page_links_to_both_feeds(changed):
    html = (changed.outdir / "part/one.html").read_text()

    assert 'type="application/feed+json"' in html
    assert (
        'type="application/atom+xml" title="What changed" href="../feed.xml"'
    ) in html
