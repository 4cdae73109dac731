"""What holds on every page: it is opened once, and looked at from all sides.

A page that says something on the console, its policy's complaints included,
or asks another host, fails by its context.
"""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from browser.axe import CONTRAST, violations
from browser.conftest import DESKTOP, HTML, PHONE

PAGES = sorted(path.relative_to(HTML) for path in HTML.rglob("*.html"))
FILES = re.compile(r'<(?:script|link rel="stylesheet")[^>]*="([^"?]+\.\w+)')
# Bytes of a first view, as a server sends it.
WORDS = 80_000
WITH_PICTURES = 150_000
# Bytes of a page as a browser has to read it.
UNPACKED = 300_000


def too_wide(page: Page) -> Iterator[str]:
    """Say if a phone has to be pushed sideways."""
    page.set_viewport_size(PHONE)
    box = "document.scrollingElement"
    if page.evaluate(f"{box}.scrollWidth > {box}.clientWidth"):
        yield "is wider than a phone"
    page.set_viewport_size(DESKTOP)


def left_on_paper(page: Page) -> Iterator[str]:
    """Say what paper would show, or hide."""
    page.emulate_media(media="print")
    for what in ("button", ".sidebar-drawer", ".toc-drawer", ".related-pages"):
        if page.locator(f"{what}:visible").count():
            yield f"prints {what}"
    folds = "details:not(.claim-panel *) > :not(summary, .claim-panel)"
    if page.locator(folds).evaluate_all(
        "all => all.some(each => !each.checkVisibility())"
    ):
        yield "prints a fold that is closed"
    page.emulate_media(media="screen")


def in_the_dark(page: Page) -> list[str]:
    """Return what is too pale on dark ground, and pictures left bright."""
    page.emulate_media(color_scheme="dark")
    return violations(page, CONTRAST, "link-in-text-block")


def without_a_size(page: Page) -> list[str]:
    """Return the pictures that would move the text once they are there."""
    found = "img:not([width][height])"
    return page.locator(found).evaluate_all("all => all.map(i => i.src)")


def packed(path: Path) -> int:
    """Return how many bytes a server sends for a file."""
    return len(gzip.compress(path.read_bytes(), mtime=0))


def weight(path: Path) -> int:
    """Return how many bytes a page weighs, without its pictures."""
    page = HTML / path
    files = [page.parent / name for name in FILES.findall(page.read_text())]
    return packed(page) + sum(map(packed, files))


def too_heavy(path: Path, page: Page, site: str) -> Iterator[str]:
    """Say if a first view weighs too much with the pictures in sight."""
    shown = page.evaluate("""
      [...document.images]
        .filter((image) => image.checkVisibility())
        .filter((image) => image.getBoundingClientRect().top < innerHeight)
        .map((image) => decodeURI(image.src))""")
    pictures = [HTML / name.removeprefix(f"{site}/") for name in shown]
    total = weight(path) + sum(map(packed, pictures))
    if total > WITH_PICTURES:
        yield f"weighs {total} bytes with its pictures"


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_a_page_can_be_read_by_everyone(path: Path, page: Page, site: str):
    page.goto(f"{site}/{path.as_posix()}")

    faults = [*too_heavy(path, page, site), *without_a_size(page)]
    faults += [*violations(page), *too_wide(page)]
    faults += [*left_on_paper(page), *in_the_dark(page)]

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_a_first_view_is_light(path: Path):
    assert weight(path) <= WORDS
    assert (HTML / path).stat().st_size <= UNPACKED
