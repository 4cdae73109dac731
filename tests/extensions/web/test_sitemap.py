"""The sitemap of a site whose address is known."""

from xml.etree import ElementTree


def test_it_lists_all_pages_even_if_one_alone_is_written(house, build):
    page = house / "docs/part/one.md"
    own = {"html_baseurl": "https://example.org/guide/"}
    build(confoverrides=own)
    page.write_text(page.read_text() + "\nMore.\n")

    app = build(confoverrides=own)

    root = ElementTree.parse(app.outdir / "sitemap.xml").getroot()
    places = [place.text for place in root.findall(".//{*}loc")]
    assert "https://example.org/guide/part/one.html" in places
    assert "https://example.org/guide/part/two.html" in places
    assert places == sorted(places)


def test_a_site_without_an_address_has_none(site):
    assert not (site.outdir / "sitemap.xml").exists()
