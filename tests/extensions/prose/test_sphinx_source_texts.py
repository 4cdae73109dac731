"""The texts behind the guide."""

import re

import pytest

from tests.helpers.builds import built

TEXT = """
[[source]]
title = "Tips"
author = "Someone"
date = "2019-02-06"

[source.sections]
"1 First" = ["part/one", "part/nine"]
"""
BROKEN = {
    "not_toml": (TEXT + "[[source", ":9: not TOML: Expected ']]' at the end"),
    "no_list": ("x = 1", ":1: no list of tables: [[source]]"),
    "no_table": (
        'source = ["a"]',
        ":1: no table in the list of [[source]]: 'a'",
    ),
    "no_text": (
        TEXT.replace('"Tips"', "3"),
        ":2: a source needs text as its title",
    ),
    "no_sections": (
        TEXT.replace("[source.sections]", ""),
        ":2: a source needs a table",
    ),
    "no_pages": (
        TEXT.replace('"part/one", "part/nine"', ""),
        ":2: section '1 First'",
    ),
    "a_number": (
        TEXT.replace('["part/one", "part/nine"]', "1"),
        ":2: section '1 F",
    ),
}


@pytest.fixture(scope="module")
def listed(new_house):
    """A site that lists texts: whole ones, broken ones, and lost ones."""
    house = new_house()
    index = house / "docs/index.md"
    index.write_text(index.read_text().replace("part/*", "part/*\nof_*"))
    texts = {name: content for name, (content, _) in BROKEN.items()}
    for name, content in ({"whole": TEXT} | texts).items():
        (house / f"docs/{name}.toml").write_text(content)
    for name in ("whole", "lost", *texts):
        listing = f"# Texts\n\n```{{source-texts}} {name}.toml\n```\n"
        (house / f"docs/of_{name}.md").write_text(listing)
    return built(house)


def warnings(app, name):
    """Return what a build said of a page."""
    lines = app.warning.getvalue().splitlines()
    return [line for line in lines if f"/of_{name}.md:" in line]


def test_a_section_links_to_its_page_or_says_that_it_is_planned(listed):
    html = (listed.outdir / "of_whole.html").read_text()

    assert not warnings(listed, "whole")
    assert re.search(r'href="part/one\.html">.*One<', html)
    assert ", part/nine (planned)" in html


@pytest.mark.parametrize("name", BROKEN)
def test_a_list_that_is_broken_is_reported_at_its_line(listed, name):
    [line] = warnings(listed, name)

    place = listed.srcdir / f"{name}.toml"
    assert f".md:3: ERROR: {place}{BROKEN[name][1]}" in line


def test_a_list_that_is_lost_is_reported_at_its_line(listed):
    [line] = warnings(listed, "lost")

    place = listed.srcdir / "lost.toml"
    assert f".md:3: ERROR: {place}:1: cannot be read: No" in line
