"""The files that a page offers, and the archives of all of them."""

import json
import re
import zipfile

import pytest

from extensions.notebooks.sphinx_offer import ARCHIVES
from tests.helpers.builds import built
from tests.helpers.evidence import record

PAGES = pytest.mark.parametrize("page", ["part/one", "gallery/three"])
TABLE = """

# %% table
class Table:
    def _repr_html_(self):
        return "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>"


Table()
"""
SAY = "\n# %% print\n#\n# Say::\n#\n#     three\n\nprint(len(lines))\n"


@pytest.fixture(scope="module")
def offered(new_house):
    """Build a house with tables and failures."""
    house = new_house()
    added = {
        "snippets/part/one.py": TABLE,
        "docs/part/one.md": "\n```{cell} table\n```\n",
        "gallery/three.py": SAY,
    }
    for name, more in added.items():
        with (house / name).open("a") as file:
            file.write(more)
    record(house, test_word_is_one="failed")
    return built(house)


def test_a_page_as_markdown_stands_with_what_its_cells_gave(offered):
    text = (offered.outdir / "part/one.md").read_text()
    recipe = (offered.outdir / "gallery/three.md").read_text()

    assert text.startswith("# One\n")
    assert '```python\nprint(word, "counted")\n```' in text
    assert "```text\none counted\n```" in text
    assert "| a |\n| --- |\n| 1 |" in text
    assert "`word` is one ✗" in text
    assert ".claim" not in text
    assert "One line is drawn. ✓\n\n```python\nimport " in recipe
    assert recipe.count("(A picture: Three points.)") == 1
    said = "Say:\n\n    three\n\n```python\nprint(len(lines))\n```\n\n"
    assert f"{said}```text\n1\n```\n" in recipe


@PAGES
def test_a_page_begins_with_its_files(site, page):
    html = (site.outdir / f"{page}.html").read_text()
    line = re.search(r'<p class="page-head">.*?</p>', html, re.S)[0]
    files = re.findall(r'href="\.\./(_downloads/.*?)"', line)
    notebook, script = ((site.outdir / name).read_text() for name in files)

    program = f"{page}.py" if "gallery" in page else f"snippets/{page}.py"
    assert script == (site.srcdir.parent / program).read_text()
    assert json.loads(notebook)["nbformat"] == 4
    name = page.rpartition("/")[2]
    assert f'<a class="reference external" href="{name}.md">Markdown<' in line
    assert "Colab" not in html
    assert html.count("_downloads/") == 2
    assert "Go to the end" not in html  # of sphinx-gallery
    index = (site.outdir / "index.html").read_text()
    assert 'class="page-head"' not in index  # which has no program


@PAGES
def test_a_page_opens_in_colab_where_its_notebook_is_kept_on_github(
    published, page
):
    html = (published.outdir / f"{page}.html").read_text()
    place = f"github/owner/name/blob/kept/{page}.ipynb"
    assert f'href="https://colab.research.google.com/{place}"' in html


def test_a_notebook_holds_what_its_cells_gave(site):
    text = (site.srcdir / "gallery/three.ipynb").read_text()
    opening, code, *_ = json.loads(text)["cells"]

    assert opening["source"].startswith("# Three\n\nFrom the page")
    assert opening["source"].endswith("\n\nOne line is drawn. ✓")
    assert code["source"].startswith("import matplotlib")
    kinds = [kind for out in code["outputs"] for kind in out.get("data", ())]
    assert "image/svg+xml" in kinds


def test_a_build_warns_of_what_no_notebook_can_show(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\n{kbd}`Ctrl`\n")

    warning = build().warning.getvalue()

    assert "one.md:11: WARNING: a notebook cannot show {kbd}" in warning
    assert "kbd" not in (house / "docs/code/part/one.ipynb").read_text()


def test_files_are_left_alone_and_a_program_that_runs_again_keeps_them(
    house, build
):
    docs = house / "docs"
    notebook = docs / "code/part/one.ipynb"
    paths = [notebook, docs / "gallery/three.ipynb"]
    paths += [docs / "code" / name for name in ARCHIVES]
    paths.append(house / "out/html/part/one.md")
    before, text = (
        [path.stat().st_mtime_ns for path in paths],
        notebook.read_text(),
    )
    build()
    assert [path.stat().st_mtime_ns for path in paths] == before

    notebook.with_suffix(".ran").unlink()
    build()
    assert notebook.read_text() == text


def test_the_archives_hold_every_program_in_order(site):
    files = [zipfile.ZipFile(site.srcdir / "code" / name) for name in ARCHIVES]
    assert [each.namelist() for each in files] == [
        ["gallery/three.py", "part/one.py", "part/two.py"],
        ["gallery/three.ipynb", "part/one.ipynb", "part/two.ipynb"],
    ]
    dates = {entry.date_time for each in files for entry in each.filelist}
    assert dates == {(1980, 1, 1, 0, 0, 0)}  # the same at every build
