"""The texts behind the guide."""

import re

import pytest


@pytest.fixture
def page(house, build):
    """Build a house that lists a text, and return the page and warnings."""

    def page(content, name="texts.toml"):
        (house / "docs/evidence/texts.toml").write_text(content)
        ledger = house / "docs/evidence/claims.md"
        ledger.write_text(f"# Texts\n\n```{{source-texts}} {name}\n```\n")
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
    assert re.search(r'href="\.\./part/one\.html">.*One<', html)
    assert ", part/nine (planned)" in html


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (TEXT + "[[source", ":9: not TOML: Expected ']]' at the end"),
        ("x = 1", ":1: no list of tables: [[source]]"),
        ('source = ["a"]', ":1: no table in the list of [[source]]: 'a'"),
        (TEXT.replace('"Tips"', "3"), ":2: a source needs text as its title"),
        (TEXT.replace("[source.sections]", ""), ":2: a source needs a table"),
        (TEXT.replace('"part/one", "part/nine"', ""), ":2: section '1 First'"),
        (TEXT.replace('["part/one", "part/nine"]', "1"), ":2: section '1 F"),
    ],
)
def test_a_list_that_is_broken_is_reported_at_its_line(
    house, page, content, expected
):
    _, warning = page(content)

    [line] = warning.splitlines()
    place = house / "docs/evidence/texts.toml"
    assert f"claims.md:3: ERROR: {place}{expected}" in line


def test_a_list_that_is_lost_is_reported_at_its_line(house, page):
    _, warning = page(TEXT, "lost.toml")

    place = house / "docs/evidence/lost.toml"
    assert f"claims.md:3: ERROR: {place}:1: cannot be read: No" in warning
