"""Two sites for all tests of claims that only look at what a site shows."""

import json
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from extensions.core.files import xml_of
from tests.helpers.builds import built
from tests.helpers.evidence import record

MARKS = (
    'new = api_since("2.7", "torch.x")\n\n'
    '@new\n@true_since("2.9", "it was two")\n'
)
BEHIND = '''

def test_word_is_one__also_twice(): ...


def test_word_is_one__ends_at_night(snippet, fails):
    """At night, it is two."""
    fails(test_word_is_one, snippet, 2)
'''
PROSE = """
Do this.
[It is promised](https://docs.example.org/1.0/guide.html#part){.cited}.

```{recap} word-is-one part/two#word-is-two
```
"""
TABLE = (
    "| what | why |\n|---|---|\n| [`word` is two]{#word-is-two .claim}. | so |"
)
SOURCES = """
[[source]]
name = "The manual"
prefix = "https://docs.example.org/1.0/"
pages = ["guide.html#part"]
"""
CORRECTION = """
[[correction]]
source = "A text"
section = "2 Words"
said = "Word is *three*."
holds = "`word` is one."
claim = "word-is-one"
"""
OF_MANUAL = CORRECTION.replace("A text", "The manual").replace(
    "2 Words", "guide.html#part"
)


def add_pages(house):
    """Add corrections, and a page for each summary of the ledger."""
    folder = house / "docs/evidence"
    (folder / "primary_sources.toml").write_text(SOURCES)
    corrections = folder / "corrections/part/one.toml"
    corrections.parent.mkdir(parents=True)
    corrections.write_text(CORRECTION + OF_MANUAL)
    for name in ("unproven", "corrections"):
        text = f"# List\n\n```{{{name}}}\n```\n"
        (folder / f"{name}.md").write_text(text)
    index = house / "docs/index.md"
    text = index.read_text().replace("evidence/claims", "evidence/*")
    chosen = "```{corrected} part/one#word-is-one\n```\n"
    index.write_text(f"{text}\n```{{numbers}}\n```\n\n{chosen}")


def site_of(house):
    """Build a house; return its application, and how to read its files."""
    app = built(house)

    def html(name):
        return (app.outdir / f"{name}.html").read_text()

    return SimpleNamespace(
        app=app,
        html=html,
        warnings=app.warning.getvalue(),
        claims=json.loads((app.outdir / "claims.json").read_text())["claims"],
    )


@pytest.fixture(scope="session")
def varied(new_house):
    """A site with all that a claim can have, which passed in many runs."""
    house = new_house()
    add_pages(house)
    one, two = house / "docs/part/one.md", house / "docs/part/two.md"
    text = one.read_text().replace("# One\n", "# One\n\nWhat.\n")
    one.write_text(text + PROSE)
    claim = "[`word` is two]{#word-is-two .claim}."
    two.write_text(two.read_text().replace(claim, TABLE))
    tests = house / "tests/part/test_one.py"
    tests.write_text(MARKS + tests.read_text() + BEHIND)
    tests = house / "tests/part/test_two.py"
    mark = 'import pytest\n\n@pytest.mark.simulates("a GPU")\n'
    tests.write_text(mark + tests.read_text())

    record(house, date="2026-01-02", device="GPU 9")
    old = {"torch": "2.6.0"}
    record(house, "evidence/old", old, test_word_is_two="failed")
    record(house, "evidence/newer", {"torch": "2.9.1"})
    record(house, "evidence/before", {"torch": "1.13.1"})
    waits = "skipped for cuda"
    record(house, "evidence/gpu", device="GPU <9>", test_word_is_one=waits)
    part = record(house, "evidence/x", {"torch": "2.5.1", "claims": "some"})
    root = xml_of(part)
    [suite] = root.iter("testsuite")
    for case in suite.findall("testcase"):
        if not case.get("classname").endswith("test_one"):
            suite.remove(case)
    part.write_bytes(ElementTree.tostring(root))
    return site_of(house)


@pytest.fixture(scope="session")
def waiting(new_house):
    """A site whose claims did not pass, each for another reason."""
    house = new_house()
    add_pages(house)
    for name in ("One", "Two"):
        page = house / f"docs/part/{name.lower()}.md"
        text = page.read_text().replace(f"# {name}\n", f"# {name}\n\nSo.\n")
        page.write_text(text)
    skipped = {
        "test_word_is_one": "skipped for cuda",
        "test_one_line_is_drawn": "skipped for scikit-learn, lmdb",
    }
    record(house, test_word_is_two="failed", **skipped)
    record(house, "evidence/other", {"torch": "2.6.0"}, **skipped)
    return site_of(house)
