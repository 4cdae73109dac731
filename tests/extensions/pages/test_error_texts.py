"""All error texts, in the order in which the site is read."""

import re

import pytest

from tests.helpers.evidence import record
from tests.helpers.programs import PROGRAM

HANDLES = """
# %% handles
try:
    {}["x"]
except KeyError as error:
    print(type(error).__name__, error)
"""
PART = "# Part\n\n```{toctree}\ntwo\nbare\none\n```\n"


def add(house, name, program):
    """Add cells to a program, and show them on its page."""
    snippet = house / f"snippets/part/{name}.py"
    snippet.write_text(snippet.read_text() + program)
    page = house / f"docs/part/{name}.md"
    cells = re.findall("# %% (.*)", program)
    shown = "".join(f"\n```{{cell}} {cell}\n```\n" for cell in cells)
    page.write_text(page.read_text() + shown)


@pytest.fixture
def html(house, build):
    """What a page shows of a chapter with two programs that meet errors."""
    add(house, "one", PROGRAM)
    add(house, "two", HANDLES)
    docs = house / "docs"
    (docs / "part/index.md").write_text(PART)
    (docs / "part/bare.md").write_text("# Bare\n")
    (docs / "errors.md").write_text("# Errors\n\n```{error-texts}\n```\n")
    index = docs / "index.md"
    text = index.read_text().replace("part/*", "part/index\nerrors")
    index.write_text(text)
    record(house)
    app = build()
    assert not app.warning.getvalue()
    return (app.outdir / "errors.html").read_text()


def test_all_texts_are_listed_as_links_to_their_cells(html):
    found = re.findall(r'<li><a .*?href="(.*?)"><code.*?>(.*?)</a>', html)
    texts = [(link, re.sub("<.*?>", "", text)) for link, text in found]

    assert texts == [
        ("part/two.html#cell-handles", "KeyError 'x'"),
        (
            "part/one.html#cell-fails",
            "said: invalid literal for int() with base 10: 'x'",
        ),
        ("part/one.html#cell-handles", "IndexError list index out of range"),
    ]
    assert "no error" not in html
    assert "3 of 3 error texts" in html


def test_they_stand_below_their_chapter_and_their_page(html):
    titles = re.findall(
        r'<h2>(.*?)<a |entry-group">\s*<p><a.*?>(.*?)</a>', html
    )
    said = ["".join(each) for each in titles]

    assert said == ["Part", "Two", "One"]
