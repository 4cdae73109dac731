"""What cells that need a device printed where they ran."""

import pytest
from docutils import nodes

from extensions.core.topics import Topic
from extensions.evidence.dependencies import DEPENDS_ON, cells_up_to
from extensions.evidence.sphinx_runs import NEVER_RAN
from extensions.programs.snippet import CUDA_GUARD
from tests.helpers.evidence import properties, record


def last_cell(app):
    """Return the text of the last cell of a page."""
    doctree = app.env.get_doctree("part/one")
    found = doctree.findall(nodes.container)
    return [node.astext() for node in found if "cell" in node["classes"]][-1]


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
    assert last_cell(build()).endswith(NEVER_RAN)


def test_a_cuda_cell_shows_what_it_printed_elsewhere(
    house, snippet_with_cuda, build
):
    record_cuda(house, cells_up_to(Topic(house, "part/one"), "device"))

    assert last_cell(build()).endswith(
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
    assert last_cell(app).endswith(NEVER_RAN)


def test_a_recorded_output_says_that_its_snippet_has_changed(
    house, snippet_with_cuda, build
):
    record_cuda(house, "another hash")

    assert last_cell(build()).endswith(", before the snippet was changed.")
