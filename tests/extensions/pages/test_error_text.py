"""Error texts, on the page that people search."""

import re
from html import unescape

import pytest

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

Give it digits: [One](part/one.md).
```
"""


@pytest.fixture
def index(house):
    """The first page of a house, one of whose programs meets errors."""
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + PROGRAM)
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + CELLS)
    record(house)
    return house / "docs/index.md"


def add(page, text):
    page.write_text(page.read_text() + text)


def blocks(html):
    """Return the texts of the blocks that are no Python."""
    found = re.findall(r"highlight-none.*?<pre>(.*?)</pre>", html, re.S)
    return [re.sub("<.*?>", "", each).strip() for each in found]


def test_an_error_text_stands_above_what_to_do(index, build):
    add(index, RAISED)

    app = build()

    html = (app.outdir / "index.html").read_text()
    [text] = blocks(html)
    assert text.startswith("said: invalid literal for int() with base 10")
    assert html.index("invalid literal") < html.index("Give it digits")
    fold = html.split("<summary>The cell that met it</summary>")[1]
    assert 'print("first")' in unescape(re.sub("<.*?>", "", fold))
    assert not app.warning.getvalue()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("invalid literal", "no such words", "prints no line with 'no such"),
        ("fails", "lost", "no cell 'lost'; there are: start, count, ask"),
        ("part/one.md", "part/two.md", "the text has no link to part/one.md"),
        (":says: invalid literal\n", "", "write with :says: what people see"),
        (":because: word-is-one\n", "", "name with :because: a claim of part"),
        ("word-is-one", "word-is-two", "part/one has no claim 'word-is-two'"),
    ],
    ids=[
        "other words",
        "no cell",
        "another page",
        "no words",
        "no cause",
        "no such claim",
    ],
)
def test_what_is_wrong_is_reported_at_its_line(index, build, old, new, said):
    add(index, RAISED.replace(old, new))

    warning = build().warning.getvalue()

    assert re.search(r"index\.md:\d+: ERROR: ", warning)
    assert said in warning


def test_the_cause_is_a_claim_of_the_page_with_its_result(index, build):
    add(index, RAISED)

    app = build()

    html = (app.outdir / "index.html").read_text()
    [cause] = re.findall('<p class="cause">.*?</p>', html, re.S)
    assert 'href="part/one.html#word-is-one"' in cause
    assert re.sub("<.*?>", "", cause).split() == [
        "Why:",
        "word",
        "is",
        "one✓",
    ]
    assert html.index("invalid literal") < html.index("Why:")
    assert html.index("Why:") < html.index("Give it digits")


def test_a_cause_in_plain_words_stands_before_its_claim(index, build):
    plain = "\n`int` reads digits, not words.\n\nSo:\n\n- Give"
    add(index, RAISED.replace("\nGive", plain))

    app = build()

    html = unescape((app.outdir / "index.html").read_text())
    assert "Why:" not in html
    said = re.sub("<.*?>", "", html)
    order = ["invalid literal", "reads digits", "Shown by:", "So:", "Give it"]
    places = [said.index(words) for words in order]
    assert places == sorted(places)


def test_the_page_is_read_again_when_a_program_prints_something_else(
    house, index, build
):
    add(index, RAISED)
    build()
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text().replace('"said:"', '"now:"'))

    app = build()

    html = (app.outdir / "index.html").read_text()
    assert "now: invalid literal" in re.sub("<.*?>", "", html)
