"""The links to a page's program."""

import json
import re


def links(app, page):
    """Return the files that a page offers, as texts by ending."""
    html = (app.outdir / page).read_text()
    line = re.search(r'<p class="program">.*?</p>', html)[0]
    files = re.findall(r'href="\.\./(_downloads/.*?)"', line)
    return {name[-3:]: (app.outdir / name).read_text() for name in files}


def test_a_page_ends_with_its_script_and_its_notebook(house, build):
    files = links(build(), "part/one.html")

    assert files[".py"] == (house / "snippets/part/one.py").read_text()
    cells = json.loads(files["ynb"])["cells"]
    assert "".join(cells[-1]["source"]) == 'print(word, "counted")'


def test_a_page_without_a_snippet_has_no_such_line(build):
    html = (build().outdir / "index.html").read_text()

    assert 'class="program"' not in html


def test_a_page_leads_to_its_text(build):
    app = build()

    html = (app.outdir / "part/one.html").read_text()
    assert '<a class="reference external" href="one.md">text' in html
    assert (app.outdir / "part/one.md").exists()
    assert "Colab" not in html


def test_a_page_opens_in_colab_where_its_notebook_is_kept_on_github(build):
    app = build(confoverrides={"house_notebooks": "owner/name/blob/kept/"})

    html = (app.outdir / "part/one.html").read_text()
    place = "github/owner/name/blob/kept/part/one.ipynb"
    assert f'href="https://colab.research.google.com/{place}"' in html
