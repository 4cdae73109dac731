"""The files that a page offers, and the archives of all of them."""

import json
import re
import zipfile

import nbformat
import pytest

from extensions.notebooks import sphinx_offer
from extensions.notebooks.sphinx_offer import ARCHIVES


def links(app, page):
    """Return the files that a page offers, as texts by ending."""
    html = (app.outdir / page).read_text()
    line = re.search(r'<p class="page-head">.*?</p>', html, re.S)[0]
    files = re.findall(r'href="\.\./(_downloads/.*?)"', line)
    return {name[-3:]: (app.outdir / name).read_text() for name in files}


def test_a_page_begins_with_its_script_and_its_notebook(site):
    files = links(site, "part/one.html")

    program = site.srcdir.parent / "snippets/part/one.py"
    assert files[".py"] == program.read_text()
    cells = json.loads(files["ynb"])["cells"]
    assert "".join(cells[-2]["source"]) == 'print(word, "counted")'


def test_a_page_without_a_snippet_has_no_such_line(site):
    html = (site.outdir / "index.html").read_text()

    assert 'class="page-head"' not in html


def test_a_recipe_begins_like_a_page(site):
    files = links(site, "gallery/three.html")
    program = site.srcdir.parent / "gallery/three.py"
    assert files[".py"] == program.read_text()
    assert "One line is drawn." in files["ynb"]
    html = (site.outdir / "gallery/three.html").read_text()
    assert html.count("_downloads/") == 2
    assert "Go to the end" not in html


@pytest.mark.parametrize("page", ["part/one", "gallery/three"])
def test_files_of_one_name_are_saved_apart(site, page):
    html = (site.outdir / f"{page}.html").read_text()

    saved = re.findall('<a [^>]*download="(.*?)"', html)
    name = page.replace("/", "-")
    assert saved == [f"{name}.ipynb", f"{name}.py"]


def test_the_files_are_not_searched(site):
    text = (site.outdir / "search-index.js").read_text()

    assert "notebook" not in text


PAGES = pytest.mark.parametrize("page", ["part/one", "gallery/three"])


@PAGES
def test_a_page_leads_to_its_text(site, page):
    html = (site.outdir / f"{page}.html").read_text()
    name = page.rpartition("/")[2]
    assert f'<a class="reference external" href="{name}.md">Markdown<' in html
    assert (site.outdir / f"{page}.md").exists()
    assert "Colab" not in html


@PAGES
def test_a_page_opens_in_colab_where_its_notebook_is_kept_on_github(
    published, page
):
    html = (published.outdir / f"{page}.html").read_text()
    place = f"github/owner/name/blob/kept/{page}.ipynb"
    assert f'href="https://colab.research.google.com/{place}"' in html


def test_the_notebook_of_a_recipe_holds_its_checks_and_outputs(house, build):
    recipe = house / "gallery/three.py"
    recipe.write_text(
        recipe.read_text().replace("plt\n", "plt\nimport torch\n")
    )
    build()

    path = house / "docs/gallery/three.ipynb"
    title, check, prose, code, _ = nbformat.read(path, 4)["cells"]
    assert title["source"].startswith("# Three\n\nThe notebook of the page")
    assert "is too old" in check["source"]
    assert prose["source"] == "One line is drawn."
    assert code["source"].startswith("import matplotlib")
    kinds = [kind for out in code["outputs"] for kind in out.get("data", ())]
    assert "image/svg+xml" in kinds


def test_a_build_warns_of_what_no_notebook_can_show(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\n{kbd}`Ctrl`\n")

    warning = build().warning.getvalue()

    assert "one.md:11: WARNING: a notebook cannot show {kbd}" in warning
    assert "kbd" not in (house / "docs/code/part/one.ipynb").read_text()


def test_files_are_left_alone_if_nothing_changed(house, build):
    assert not build().warning.getvalue()
    docs = house / "docs"
    paths = [docs / "code/part/one.ipynb", docs / "gallery/three.ipynb"]
    paths += [docs / "code" / name for name in ARCHIVES]
    paths.append(house / "out/html/part/one.md")
    before = [path.stat().st_mtime_ns for path in paths]

    build()

    assert [path.stat().st_mtime_ns for path in paths] == before


def test_a_program_that_runs_again_keeps_the_notebook_of_its_page(
    house, build
):
    path = house / "docs/code/part/one.ipynb"
    build()
    before = path.read_text()
    path.with_suffix(".ran").unlink()

    build()

    assert path.read_text() == before


def test_a_repeated_claim_that_changes_is_put_into_the_notebook(house, build):
    page = house / "docs/part/two.md"
    recap = "\n```{recap} part/one#word-is-one\n```\n"
    page.write_text(page.read_text() + recap)
    build()
    page = house / "docs/part/one.md"
    page.write_text(page.read_text().replace("[`word` is one]", "[It is 1]"))

    build()

    assert "It is 1" in (house / "docs/code/part/two.ipynb").read_text()


def test_a_notebook_says_how_far_its_claims_reach(site):
    notebook = json.loads((site.srcdir / "code/part/one.ipynb").read_text())

    last = "".join(notebook["cells"][-1]["source"])
    assert last.startswith("## How far the claims reach\n\n<details>")
    assert "- `word` is one\n  - Breaks: Another word is not one" in last


def archives_in(docs):
    """Return the archives of a house."""
    return [docs / "code/scripts.zip", docs / "code/notebooks.zip"]


def test_the_archives_hold_every_program_in_order(site):
    assert not site.warning.getvalue()
    files = [zipfile.ZipFile(each) for each in archives_in(site.srcdir)]
    assert [each.namelist() for each in files] == [
        ["gallery/three.py", "part/one.py", "part/two.py"],
        ["gallery/three.ipynb", "part/one.ipynb", "part/two.ipynb"],
    ]
    dates = {entry.date_time for each in files for entry in each.filelist}
    assert dates == {(1980, 1, 1, 0, 0, 0)}  # the same at every build


def test_an_archive_that_would_not_be_whole_is_reported(
    house, build, monkeypatch
):
    app = build()
    archive = house / "docs/code/scripts.zip"
    before = archive.read_bytes()
    (house / "docs/code/part/one.py").unlink()
    reported = []
    monkeypatch.setattr(sphinx_offer, "report", reported.append)

    sphinx_offer.write_files(app)

    [problem] = reported
    assert problem.path == house / "docs/code/part/one.py"
    assert archive.read_bytes() == before
