"""The links to a page's program."""

import json
import re


def links(app, page):
    """Return the files that a page offers, as texts by ending."""
    html = (app.outdir / page).read_text()
    line = re.search(r'<p class="program">.*?</p>', html)[0]
    files = re.findall(r'href="\.\./(.*?)"', line)
    return {name[-3:]: (app.outdir / name).read_text() for name in files}


def test_a_page_ends_with_its_script_and_its_notebook(house, build):
    files = links(build(), "part/one.html")

    assert files[".py"] == (house / "snippets/part/one.py").read_text()
    cells = json.loads(files["ynb"])["cells"]
    assert "".join(cells[-1]["source"]) == 'print(word, "counted")'


def test_a_page_without_a_snippet_has_no_such_line(build):
    html = (build().outdir / "index.html").read_text()

    assert 'class="program"' not in html
