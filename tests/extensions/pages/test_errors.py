"""Error texts, on the pages that people search."""

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
:also: not a number

`int` reads digits, not words.

So:

- Give it digits: [One](part/one.md).
```
"""
WRONG = {
    "other words": ("invalid", "no such", "prints no line with 'no such"),
    "no cell": ("fails", "lost", "no cell 'lost'; there are: start, count"),
    "no text": (
        " part/one fails\n:says: invalid literal\n:because: word-is-one\n"
        ":also: not a number\n",
        "\n",
        "name a topic and a cell, or say :also:",
    ),
    "no words": (":says: invalid literal\n", "", "say :says:"),
    "no cause": (":because: word-is-one\n", "", "say :because:"),
    "no claim": ("word-is-one", "word-two", "part/one has no claim 'word-two"),
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
    """A site that tells of an error, as it should and wrongly."""
    house = new_house()
    index = add_errors(house)
    index.write_text(index.read_text().replace("part/*", "part/*\nmore *"))
    for name, (old, new, _) in WRONG.items():
        page = house / f"docs/more {name}.md"
        page.write_text(f"# Errors\n{RAISED.replace(old, new)}")
    return built(house)


@pytest.fixture(scope="module")
def text(told):
    """The words of the page with the error."""
    html = unescape((told.outdir / "index.html").read_text())
    return re.sub("<.*?>", "", html)


def test_an_error_text_stands_above_its_cause_and_what_to_do(told, text):
    order = [
        "said: invalid literal for int() with base 10",
        "not a number",
        "reads digits",
        "So:",
        "Give it",
        "The test that shows it✓",
    ]
    places = [text.index(words) for words in order]

    assert places == sorted(places)
    html = (told.outdir / "index.html").read_text()
    assert re.search('href="part/one.html#word-is-one">The test', html)


def test_what_is_wrong_is_reported_at_its_line(told):
    said = told.warning.getvalue().splitlines()

    assert len(said) == len(WRONG)
    for name, (_, _, words) in WRONG.items():
        [line] = [each for each in said if f"/more {name}.md:3: " in each]
        assert words in line


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
