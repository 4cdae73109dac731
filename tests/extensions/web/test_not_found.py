"""The page for an address that has none."""


def test_there_is_a_page_for_addresses_without_one(site):
    html = (site.outdir / "404.html").read_text()

    assert "<h1>No such page</h1>" in html
    assert 'href="index.html"' in html
    assert "<base" not in html


def test_its_links_begin_at_the_address_of_the_site(build):
    address = "https://example.org/guide"
    app = build(confoverrides={"html_baseurl": address})

    html = (app.outdir / "404.html").read_text()
    other = (app.outdir / "index.html").read_text()

    assert f'<base href="{address}/">' in html
    assert html.index("<base") < html.index("<a href")
    assert "<base" not in other
    assert "<script" not in html


def test_it_loads_nothing_that_another_address_would_not_find(site):
    html = (site.outdir / "404.html").read_text()

    assert "<style>" in html
    assert "stylesheet" not in html
    assert "src=" not in html
