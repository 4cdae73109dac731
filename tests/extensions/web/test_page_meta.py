"""What search engines and shared links show of a page."""

import html
import re

import pytest
from PIL import Image

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
    assert "twitter:card" not in said


def test_a_page_with_an_address_has_a_card_and_says_where_it_is(page, build):
    app = build(confoverrides=BASE)

    said = metas(app)
    assert said["og:url"] == "https://example.org/guide/part/one.html"
    assert said["og:image"] == "https://example.org/guide/part/one.png"
    assert said["twitter:card"] == "summary_large_image"
    assert (
        html.unescape(said["og:image:alt"]) == "One: You count words & more."
    )
    with Image.open(app.outdir / "part/one.png") as card:
        size = card.size
    assert size == (1200, 630)
    assert size == (int(said["og:image:width"]), int(said["og:image:height"]))
    text = (app.outdir / "part/one.html").read_text()
    assert f'<link rel="canonical" href="{said["og:url"]}"' in text


def test_a_card_shows_what_the_program_drew(published):
    blue = (31, 119, 180)  # of Matplotlib's first line
    near = {}
    for name in ("gallery/three", "part/one"):
        with Image.open(published.outdir / f"{name}.png") as card:
            colors = card.convert("RGB").getcolors()
        near[name] = min(
            sum(abs(a - b) for a, b in zip(color, blue, strict=True))
            for _, color in colors
        )
    assert near["gallery/three"] < 60 < near["part/one"]


def test_an_unchanged_build_draws_no_card(build, monkeypatch):
    build(confoverrides=BASE)
    monkeypatch.setattr("extensions.web.page_meta.card", None)

    build(confoverrides=BASE)


def test_a_site_without_an_address_has_no_card(site):
    assert not [*site.outdir.rglob("one.png")]


@pytest.mark.parametrize("kind", ["tests/part/one", "claims/part"])
def test_a_page_of_the_evidence_is_described_by_its_own_lead(site, kind):
    said = metas(site, f"evidence/{kind}")
    page = (site.outdir / f"evidence/{kind}.html").read_text()
    assert f"<h1>{said['og:title']}" in page
    assert said["description"] in re.sub("<.*?>", "", page)
