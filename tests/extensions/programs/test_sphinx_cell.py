"""Cells on pages, those of other pages among them."""

import re
from pathlib import Path

import pytest
from docutils import nodes

from extensions.programs.snippet import WRONG
from tests.helpers.builds import built
from tests.helpers.evidence import record

TITLE = ":folded: What made it"
SHOWS = """
# %% table
import pandas as pd

pd.DataFrame([[1]])

# %% opened
import pandas as pd

pd.DataFrame([[2]])
"""
SHOWN = """
```{cell} table
```

```{cell} opened
:open:
```
"""
FOLDS = {"count": "What made it", "table": "How this was made", "opened": None}
# Cells on pages beside those of topics.
ELSEWHERE = {
    "code": "count\n:from: part/one",
    "output": "count\n:from: part/one\n:output:",
    "no cell": "nothing\n:from: part/one\n:output:",
    "no output": "start\n:from: part/one\n:output:",
}


def cells(app):
    """Return the text of each cell of a page."""
    doctree = app.env.get_doctree("part/one")
    found = doctree.findall(nodes.container)
    return [node.astext() for node in found if "cell" in node["classes"]]


def test_a_cell_shows_its_code_then_its_output_and_no_more(site):
    assert cells(site) == [
        'word = "one"',
        'print(word, "counted")\n\none counted',
    ]
    assert not site.warning.getvalue()
    # No doctree takes the whole environment along.
    for path in Path(site.doctreedir).rglob("*.doctree"):
        assert b"BuildEnvironment" not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("path", "old", "new", "said"),
    [
        (
            "docs/part/one.md",
            "{cell} count",
            "{cell} lost",
            "no cell 'lost'; there are: start, count",
        ),
        (
            "snippets/part/one.py",
            "print",
            "# Words.\nprint",
            "cell 'count' begins with a comment",
        ),
    ],
)
def test_a_cell_that_cannot_be_shown_is_reported_at_its_line(
    house, build, path, old, new, said
):
    (house / path).write_text((house / path).read_text().replace(old, new))

    warning = build().warning.getvalue()

    assert "one.md:8: ERROR:" in warning
    assert said in warning


def test_what_a_folded_cell_gave_stands_above_its_code(house, build):
    page, snippet = house / "docs/part/one.md", house / "snippets/part/one.py"
    text = page.read_text().replace("{cell} count", f"{{cell}} count\n{TITLE}")
    page.write_text(text + SHOWN)
    snippet.write_text(snippet.read_text() + SHOWS)

    app = build()

    html = (app.outdir / "part/one.html").read_text()
    for name, fold in FOLDS.items():
        cell = html[html.index(f'id="cell-{name}"') :]
        summary = f"<summary>{fold}</summary>"
        output, code = cell.find("cell-output"), cell.find("highlight-python")
        assert (output < code) == (fold is not None)
        assert (cell.find(summary, output, code) > 0) == (fold is not None)
    assert not app.warning.getvalue()


def test_a_cell_that_is_wrong_on_purpose_says_so_first(house, build):
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text().replace("print", f"{WRONG}print"))
    record(house)

    app = build()

    assert cells(app)[1] == (
        "Wrong on purpose: do not copy\n\n"
        'print(word, "counted")\n\none counted'
    )
    assert "cell-wrong" in (app.outdir / "part/one.html").read_text()
    notebook = (house / "docs/code/part/one.ipynb").read_text()
    assert "# Wrong on purpose: do not copy." in notebook


@pytest.fixture(scope="module")
def others(new_house):
    """The site with pages that show cells of another one."""
    house = new_house()
    index = house / "docs/index.md"
    index.write_text(index.read_text().replace("part/*", "part/*\nother *"))
    for name, cell in ELSEWHERE.items():
        page = house / f"docs/other {name}.md"
        page.write_text(f"# Other\n\n```{{cell}} {cell}\n```\n")
    return built(house)


def shown(app, name):
    """Return what a page shows of another one, with and without markup."""
    html = (app.outdir / f"other {name}.html").read_text()
    start = html.index('<div class="cell again')
    html = html[start : html.index('class="clearer"')]
    return html, re.sub("<.*?>", "", html).replace("&quot;", '"')


def test_a_cell_of_another_page_shows_its_code_or_its_output(others):
    html, text = shown(others, "code")
    assert 'href="part/one.html#cell-count">One</a>' in html
    assert 'print(word, "counted")' in text
    assert "cell-output" not in html

    _, text = shown(others, "output")
    assert "one counted" in text
    assert "print" not in text


@pytest.mark.parametrize(
    ("name", "said"),
    [("no cell", "no cell 'nothing'"), ("no output", "'start' gave nothing")],
)
def test_what_is_not_there_is_reported(others, name, said):
    lines = others.warning.getvalue().splitlines()

    assert said in "".join(
        line for line in lines if f"/other {name}.md:3:" in line
    )
