"""What search engines and shared links show of a page."""

import re
from xml.etree import ElementTree

import pytest

META = re.compile(r'<meta (?:name|property)="([\w:]+)" content="(.*?)">')
BASE = {"html_baseurl": "https://example.org/guide/"}


@pytest.fixture
def page(house):
    """A page that opens with what one gets."""
    page = house / "docs/part/one.md"
    opening = "# One\n\nYou count `words` & more.\nThen you stop.\n"
    page.write_text(page.read_text().replace("# One\n", opening))
    return page


def metas(app, name="part/one"):
    """Return what the head of a page says."""
    return dict(META.findall((app.outdir / f"{name}.html").read_text()))


def test_a_page_is_described_by_its_first_sentence(page, build):
    said = metas(build())

    words = "You count words &amp; more."
    assert said["description"] == words
    assert said["og:description"] == words
    assert said["og:title"] == "One"
    assert "og:url" not in said
    assert "og:image" not in said


def test_a_page_with_an_address_has_a_picture_and_says_where_it_is(
    page, build
):
    app = build(confoverrides=BASE)

    said = metas(app)
    assert said["og:url"] == "https://example.org/guide/part/one.html"
    assert said["og:image"] == "https://example.org/guide/_static/page.png"
    html = (app.outdir / "part/one.html").read_text()
    assert f'<link rel="canonical" href="{said["og:url"]}"' in html


@pytest.mark.parametrize("kind", ["tests/part/one", "claims/part"])
def test_a_page_of_the_evidence_is_described_by_its_own_lead(build, kind):
    app = build()

    said = metas(app, f"evidence/{kind}")
    page = (app.outdir / f"evidence/{kind}.html").read_text()
    assert f"<h1>{said['og:title']}" in page
    assert said["description"] in re.sub("<.*?>", "", page)


def test_the_sitemap_lists_the_pages_of_a_site_with_an_address(page, build):
    app = build(confoverrides=BASE)

    root = ElementTree.parse(app.outdir / "sitemap.xml").getroot()
    places = [place.text for place in root.findall(".//{*}loc")]
    assert "https://example.org/guide/part/one.html" in places
    assert places == sorted(places)


def test_a_site_without_an_address_has_no_sitemap(build):
    assert not (build().outdir / "sitemap.xml").exists()
