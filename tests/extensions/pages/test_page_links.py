"""The links to report a mistake and to edit a page."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

REPOSITORY = {"repository": "https://example.org/us/guide/"}


def links(app, name):
    """Return the addresses below a page, by their words."""
    html = (app.outdir / f"{name}.html").read_text()
    _, _, rest = html.partition('<p class="page-links">')
    found = re.findall(r'href="([^"]+)">([^<]+)', rest.partition("</p>")[0])
    return {words: unescape(address) for address, words in found}


def test_without_the_address_of_the_repository_there_are_none(site):
    assert links(site, "part/one") == {}


def test_a_page_leads_to_its_source(published):
    edit = "https://example.org/us/guide/edit/main"

    said = "Edit this page"
    found = links(published, "part/one")
    assert found[said] == f"{edit}/docs/part/one.md"
    found = links(published, "gallery/three")
    assert found[said] == f"{edit}/gallery/three.py"
    assert said not in links(published, "evidence/claims/part")


def test_a_report_begins_with_the_page_and_what_it_was_tested_on(published):
    address = urlsplit(links(published, "part/one")["Report a mistake"])
    asked = parse_qs(address.query)

    assert address.path == "/us/guide/issues/new"
    assert asked["title"] == ["One: "]
    [body] = asked["body"]
    assert "Page: https://guide.example.org/part/one.html" in body
    assert "Tested on: torch 2.13.0, Python 3." in body


def test_generated_pages_can_be_reported_too(published):
    assert "Report a mistake" in links(published, "evidence/claims/part")


def test_the_address_may_come_later(build):
    build()

    assert links(build(confoverrides=REPOSITORY), "part/one")
