"""The styles and scripts that a page loads."""


def test_a_page_without_a_claim_loads_no_script_for_panels(site):
    assert "claims.js" in (site.outdir / "part/one.html").read_text()
    assert "claims.js" not in (site.outdir / "index.html").read_text()


def test_no_page_loads_what_nothing_on_it_needs(site):
    page = (site.outdir / "part/one.html").read_text()

    assert "documentation_options.js" in page
    assert "doctools.js" not in page
    assert "sphinx_highlight.js" not in page
