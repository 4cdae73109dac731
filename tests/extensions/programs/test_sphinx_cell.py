"""The cell directive."""

import pytest
from docutils import nodes

from extensions.core.topics import Topic
from extensions.evidence.dependencies import DEPENDS_ON, cells_up_to
from extensions.programs.snippet import CUDA_GUARD, WRONG
from extensions.programs.sphinx_cell import NEVER_RAN
from tests.helpers.evidence import properties, record


def cells(app):
    """Return the text of each cell of a page."""
    doctree = app.env.get_doctree("part/one")
    found = doctree.findall(nodes.container)
    return [node.astext() for node in found if "cell" in node["classes"]]


def test_a_cell_shows_its_code_then_its_output_and_no_more(build):
    app = build()

    assert cells(app) == [
        'word = "one"',
        'print(word, "counted")\n\none counted',
    ]
    assert not app.warning.getvalue()


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


@pytest.fixture
def snippet_with_cuda(house, monkeypatch):
    """Page one with a cell that needs a device, where there is none."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    snippet = house / "snippets/part/one.py"
    snippet.write_text(
        snippet.read_text()
        + "\n# %% import\nimport torch\n"
        + f"\n# %% device\n{CUDA_GUARD}\n    print('on a device')\n"
    )
    page = house / "docs/part/one.md"
    cells = "\n```{cell} import\n```\n\n```{cell} device\n```\n"
    page.write_text(page.read_text() + cells)
    record(house)
    return snippet


def record_cuda(house, rests):
    """Record what the CUDA cell printed elsewhere."""
    path = record(house, "evidence/gpu")
    values = {
        "cell": "part/one:device",
        DEPENDS_ON: rests,
        "output": "it ran",
        "device": "GPU 9",
        "date": "2026-01-30",
    }
    case = (
        '<testcase classname="tests.test_cuda_cells"'
        f' name="test_a_cuda_cell_runs[x]">{properties(values)}</testcase>'
    )
    text = path.read_text()
    path.write_text(text.replace("</testsuite>", f"{case}</testsuite>"))


def test_a_cuda_cell_that_never_ran_says_so(snippet_with_cuda, build):
    assert cells(build())[-1].endswith(NEVER_RAN)


def test_a_cuda_cell_shows_what_it_printed_elsewhere(
    house, snippet_with_cuda, build
):
    record_cuda(house, cells_up_to(Topic(house, "part/one"), "device"))

    assert cells(build())[-1].endswith(
        "it ran\n\nRecorded on 2026-01-30 on GPU 9 with torch 2.13.0 (x86_64)."
    )


def test_damaged_evidence_beside_a_cuda_cell_is_one_warning(
    house, snippet_with_cuda, build
):
    path = house / "evidence/gpu/tests.xml"
    path.mkdir(parents=True)

    app = build()

    [warning] = app.warning.getvalue().splitlines()
    assert f"{path}:1: WARNING: cannot be read: Is a directory" in warning
    assert cells(app)[-1].endswith(NEVER_RAN)


def test_a_recorded_output_says_that_its_snippet_has_changed(
    house, snippet_with_cuda, build
):
    record_cuda(house, "another hash")

    assert cells(build())[-1].endswith(", before the snippet was changed.")
