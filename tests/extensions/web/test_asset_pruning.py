"""The styles and scripts of a page."""

import pytest

from extensions.web.asset_pruning import NEEDED_BY, is_needed

BODY = '<div class="highlight"><pre>one</pre></div>'


def test_a_page_without_what_a_file_is_for_does_not_load_it(site):
    html = (site.outdir / "index.html").read_text()

    assert "claims.js" not in html
    assert "documentation_options.js" not in html
    assert "pygments.css" in html


def test_no_page_loads_what_nothing_of_the_site_needs(site):
    html = (site.outdir / "part/one.html").read_text()

    assert "doctools.js" not in html
    assert "sphinx_highlight.js" not in html
    assert "sg_gallery" not in html


def test_a_page_with_it_loads_it(site):
    html = (site.outdir / "part/one.html").read_text()

    assert "claims.js" in html


@pytest.mark.parametrize("name", NEEDED_BY)
def test_what_a_page_shows_decides(name):
    assert is_needed(f"_static/{name}", f"<p>{NEEDED_BY[name]}</p>")
    assert not is_needed(f"_static/{name}", "<p>words</p>")
    assert is_needed(f"_static/other-{name}", "<p>words</p>")


def test_code_needs_its_copy_button():
    assert is_needed("copybutton.js", BODY)
    assert not is_needed("sphinx-design.min.css", BODY)
