"""The texts behind the guide."""

import re

import pytest


@pytest.fixture
def page(house, build):
    """Build a house that lists a text, and return the page and warnings."""

    def page(content):
        (house / "docs/evidence/texts.toml").write_text(content)
        ledger = house / "docs/evidence/claims.md"
        ledger.write_text("# Texts\n\n```{origins} texts.toml\n```\n")
        app = build()
        html = (app.outdir / "evidence/claims.html").read_text()
        return html, app.warning.getvalue()

    return page


TEXT = """
[[source]]
title = "Tips"
author = "Someone"
date = "2019-02-06"

[source.sections]
"1 First" = ["part/one", "part/nine"]
"""


def test_a_section_links_to_its_page_or_says_that_it_is_planned(page):
    html, warning = page(TEXT)

    assert not warning
    assert re.search(r'href="\.\./part/one\.html">.*part/one', html)
    assert ", part/nine (planned)" in html


def test_a_list_that_is_broken_is_reported_at_its_line(page):
    _, warning = page(TEXT + "[[source")

    assert "claims.md:3: ERROR: no list of sources in" in warning
