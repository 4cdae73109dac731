"""Error texts, on the page that people search."""

import re
from html import unescape

import pytest

from tests.helpers.builds import built
from tests.helpers.evidence import record
from tests.helpers.programs import PROGRAM

# MyST resolves a link to a page with what Sphinx 11 will have dropped.
pytestmark = pytest.mark.filterwarnings(
    "ignore:'myst_parser.*MystReferenceResolver.app' is deprecated"
)

CELLS = "".join(
    f"\n```{{cell}} {name}\n```\n"
    for name in ("ask", "fails", "works", "handles")
)
RAISED = """
```{error-text} part/one fails
:says: invalid literal
:because: word-is-one

`int` reads digits, not words.

So:

- Give it digits: [One](part/one.md).
```
"""


WRONG = {
    "other words": (
        "invalid literal",
        "no such words",
        "prints no line with 'no such",
    ),
    "no cell": (
        "fails",
        "lost",
        "no cell 'lost'; there are: start, count, ask",
    ),
    "another page": (
        "part/one.md",
        "part/two.md",
        "the text has no link to part/one.md",
    ),
    "no words": (
        ":says: invalid literal\n",
        "",
        "write with :says: what people see",
    ),
    "no cause": (
        ":because: word-is-one\n",
        "",
        "name with :because: a claim of part",
    ),
    "no such claim": (
        "word-is-one",
        "word-is-two",
        "part/one has no claim 'word-is-two'",
    ),
}


def add_errors(house):
    """Let a program of a house meet errors, and return its first page."""
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + PROGRAM)
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + CELLS)
    record(house)
    index = house / "docs/index.md"
    index.write_text(index.read_text() + RAISED)
    return index


@pytest.fixture(scope="module")
def told(new_house):
    """A site that tells of an error: as it should, and wrongly."""
    house = new_house()
    index = add_errors(house)
    index.write_text(index.read_text().replace("part/*", "part/*\nmore *"))
    wrong = {
        name: RAISED.replace(old, new) for name, (old, new, _) in WRONG.items()
    }
    for name, text in wrong.items():
        (house / f"docs/more {name}.md").write_text(f"# Errors\n{text}")
    return built(house)


def warnings(app, name):
    """Return what a build said of a page."""
    lines = app.warning.getvalue().splitlines()
    return [line for line in lines if f"{name}.md:" in line]


def blocks(html):
    """Return the texts of the blocks that are no Python."""
    found = re.findall(r"highlight-none.*?<pre>(.*?)</pre>", html, re.S)
    return [re.sub("<.*?>", "", each).strip() for each in found]


def test_an_error_text_stands_above_what_to_do(told):
    html = (told.outdir / "index.html").read_text()
    [text] = blocks(html)
    assert text.startswith("said: invalid literal for int() with base 10")
    assert html.index("invalid literal") < html.index("Give it digits")
    assert not warnings(told, "index")


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_reported_at_its_line(told, name):
    said = "\n".join(warnings(told, name))

    assert re.search(r"\.md:\d+: ERROR: ", said)
    assert WRONG[name][2] in said


def test_the_cause_stands_in_plain_words_and_its_claim_at_the_end(told):
    html = unescape((told.outdir / "index.html").read_text())
    said = re.sub("<.*?>", "", html)
    shown = "The test that shows it✓"
    order = ["invalid literal", "reads digits", "So:", "Give it", shown]
    places = [said.index(words) for words in order]
    assert places == sorted(places)
    assert re.search('href="part/one.html#word-is-one">The test', html)


def test_the_page_is_read_again_when_a_program_prints_something_else(
    house, build
):
    add_errors(house)
    build()
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text().replace('"said:"', '"now:"'))

    app = build()

    html = (app.outdir / "index.html").read_text()
    assert "now: invalid literal" in re.sub("<.*?>", "", html)
