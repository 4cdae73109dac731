"""The links to a page's program."""

import json
import re

import pytest


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
