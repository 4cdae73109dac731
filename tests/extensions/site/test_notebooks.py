"""The notebooks and the archives that a site offers."""

import zipfile

import nbformat
import pytest

from extensions.commands.run_downloads import run
from extensions.files.topics import Topic
from extensions.site.notebooks import libraries, plain, weave


@pytest.mark.parametrize(
    ("prose", "expected"),
    [
        ("[It holds]{#it-holds .claim}.", "It holds."),
        ("[`x[0]` is 1]{#x-is-1 .claim}.", "`x[0]` is 1."),
        ("{doc}`A recipe </gallery/three>` shows it.", "A recipe shows it."),
        ("See [the page](../a/b.md#c).", "See the page."),
        ("[A site](https://example.org).", "[A site](https://example.org)."),
        ("```{measured}\n```\n", "The page shows what was measured."),
    ],
)
def test_prose_is_plain_markdown(prose, expected):
    assert plain(prose, "") == expected


def test_links_lead_to_the_site_if_its_address_is_known():
    words = plain("See [the page](two.md#c).", "https://example.org/part")

    assert words == "See [the page](https://example.org/part/two.html#c)."


def test_the_libraries_of_a_program_are_named_for_the_installer():
    text = (
        "import os\nimport numpy as np\nfrom PIL import Image\nimport torch.nn"
    )

    assert libraries(text) == ["torch", "numpy", "pillow"]


def test_a_notebook_holds_the_prose_between_the_cells(house):
    notebook = weave(Topic(house, "part/one"), "https://example.org")

    nbformat.validate(notebook)
    kinds = [cell["cell_type"] for cell in notebook["cells"]]
    assert kinds.count("code") == 2
    first = notebook["cells"][0]["source"]
    assert first.startswith("# One")
    assert "(https://example.org/part/one.html)" in first
    assert ".claim" not in nbformat.writes(notebook)


def test_a_build_offers_woven_notebooks_and_both_archives(house, build):
    app = build()

    assert not app.warning.getvalue()
    code = house / "docs/code"
    assert "# One" in (code / "part/one.ipynb").read_text()
    with zipfile.ZipFile(code / "notebooks.zip") as archive:
        assert "part/one.ipynb" in archive.namelist()
        assert "gallery/three.ipynb" in archive.namelist()
    before = (code / "scripts.zip").read_bytes()
    build()
    assert (code / "scripts.zip").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("print(1)", ""),
        ("1 / 0", "ZeroDivisionError"),
        ("open('left.txt', 'w').close()", "leaves behind: left.txt"),
    ],
)
def test_a_program_runs_alone_and_leaves_nothing(tmp_path, text, expected):
    program = tmp_path / "program.py"
    program.write_text(text)

    wrong = run(program)

    assert expected in wrong
    assert bool(expected) == bool(wrong)


def test_a_notebook_runs_like_a_script(tmp_path):
    cells = [nbformat.v4.new_code_cell("1 / 0")]
    program = tmp_path / "program.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), program)

    assert "ZeroDivisionError" in run(program)
