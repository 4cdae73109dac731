"""The cell directive."""

import pytest
from docutils import nodes

from extensions.programs.snippet import WRONG
from tests.helpers.evidence import record


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


def test_an_unknown_cell_is_reported_at_its_line(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text().replace("{cell} count", "{cell} lost"))

    warning = build().warning.getvalue()

    assert "one.md:8: ERROR:" in warning
    assert "no cell 'lost'; there are: start, count" in warning


def test_a_cell_that_begins_with_prose_is_reported(house, build):
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text().replace("print", "# Words.\nprint"))

    warning = build().warning.getvalue()

    assert "one.md:8: ERROR: cell 'count' begins with a comment" in warning


def classes(app, name):
    """Return the classes of a cell, and of what stands in it, in order."""
    doctree = app.env.get_doctree("part/one")
    [cell] = [
        node
        for node in doctree.findall(nodes.container)
        if f"cell-{name}" in node["ids"]
    ]
    inside = [type(node).__name__ for node in cell.children]
    return cell["classes"], inside


def test_a_folded_cell_shows_its_output_first(house, build):
    page = house / "docs/part/one.md"
    options = "{cell} count\n:folded: What made it"
    page.write_text(page.read_text().replace("{cell} count", options))

    app = build()

    found, inside = classes(app, "count")
    assert "cell-folded" in found
    assert inside == ["container", "Details"]
    html = (app.outdir / "part/one.html").read_text()
    assert "<summary>What made it</summary>" in html
    assert not app.warning.getvalue()


SHOWS = "import pandas as pd\n\npd.DataFrame([[1]])"


@pytest.mark.parametrize("option", ["", ":open:\n"])
def test_a_cell_that_shows_is_folded_unless_it_is_to_be_open(
    house, build, option
):
    snippet = house / "snippets/part/one.py"
    text = snippet.read_text()
    snippet.write_text(text.replace('print(word, "counted")', SHOWS))
    page = house / "docs/part/one.md"
    cell = "{cell} count\n" + option
    page.write_text(page.read_text().replace("{cell} count\n", cell))
    record(house)

    app = build()

    assert ("cell-folded" in classes(app, "count")[0]) == (not option)
    html = (app.outdir / "part/one.html").read_text()
    assert ("<summary>How this was made</summary>" in html) == (not option)


def test_a_cell_is_not_folded_and_open(house, build):
    page = house / "docs/part/one.md"
    options = "{cell} count\n:folded:\n:open:"
    page.write_text(page.read_text().replace("{cell} count", options))

    warning = build().warning.getvalue()

    assert "one.md:8: ERROR: a cell is folded or open, not both" in warning


def test_a_cell_that_is_wrong_on_purpose_says_so_first(house, build):
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text().replace("print", f"{WRONG}print"))
    record(house)

    app = build()

    found, _ = classes(app, "count")
    assert "cell-wrong" in found
    assert cells(app)[1] == (
        "Wrong on purpose: do not copy\n\n"
        'print(word, "counted")\n\none counted'
    )
    notebook = (house / "docs/code/part/one.ipynb").read_text()
    assert "# Wrong on purpose: do not copy." in notebook
