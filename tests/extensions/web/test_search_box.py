"""The search on the page itself, besides that of the sidebar."""

WRITTEN = """
```{search-box} Search "all" of it
```
"""


def test_a_page_has_a_box_of_its_own(house, build):
    page = house / "docs/index.md"
    page.write_text(page.read_text() + WRITTEN)
    html = (build().outdir / "index.html").read_text()

    [_, box] = html.split('<form class="site-search page-search-container"')
    assert 'placeholder="Search &#34;all&#34; of it"' in box
    assert 'aria-controls="page-search-results"' in box
    assert 'id="page-search-results" role="listbox"' in box
