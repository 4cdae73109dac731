"""What holds on every page: it is opened once, and looked at from all sides.

A page that says something on the console, or asks another host, fails by its
context.
"""

import gzip
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.axe import CONTRAST, violations
from tests.browser.conftest import DESKTOP, HTML, PHONE, ROOT
from tools.checked_pages import changed_pages

FILES = re.compile(r'<(?:script|link rel="stylesheet")[^>]*="([^"?]+\.\w+)')
# Bytes of a first view, as a server sends it, without pictures.
PACKED = 80_000
# Bytes of a page as a browser has to read it.
UNPACKED = 400_000


def pages_to_open(is_all: bool) -> list[Path]:
    """Return the pages to open, below the folder of the site.

    Of those that a template makes, three each: the first, the last, and the
    longest. Of the others, those that have changed, those at the top, and the
    first of each chapter.
    """
    pages = sorted(path.relative_to(HTML) for path in HTML.rglob("*.html"))
    if is_all:
        return pages
    changed, made = changed_pages(ROOT), dict[Path, list[Path]]()
    chosen = set()
    for page in pages:
        name = page.with_suffix("").as_posix()
        if page.parts[0] in {"evidence", "code", "gallery"}:
            made.setdefault(page.parent, []).append(page)
        elif len(page.parts) == 1 or page.stem == "index":
            chosen.add(page)
        if name in changed:
            chosen.add(page)
    for those in made.values():
        size = {page: (HTML / page).stat().st_size for page in those}
        chosen |= {those[0], those[-1], max(those, key=size.__getitem__)}
    return sorted(chosen)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for a path each page that is to be opened."""
    if "path" in metafunc.fixturenames:
        pages = pages_to_open(metafunc.config.getoption("all"))
        metafunc.parametrize("path", pages, ids=str)


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


def test_a_page_can_be_read_by_everyone(path: Path, page: Page, site: str):
    page.goto(f"{site}/{path.as_posix()}")

    faults = [*without_a_size(page), *violations(page), *too_wide(page)]
    faults += [*left_on_paper(page), *in_the_dark(page)]

    assert not faults, "\n".join(faults)


def test_a_first_view_is_light(path: Path):
    page = HTML / path
    files = [page, *(page.parent / f for f in FILES.findall(page.read_text()))]
    packed = [len(gzip.compress(each.read_bytes())) for each in files]

    assert sum(packed) <= PACKED
    assert page.stat().st_size <= UNPACKED


def test_every_link_of_the_site_reaches_a_file():
    for path in HTML.rglob("*.html"):
        for link in re.findall(r'href="([^"#?:]+)[#?"]', path.read_text()):
            assert (path.parent / link).exists(), f"{path}: {link}"


def test_the_validator_finds_no_error(request: pytest.FixtureRequest):
    validator = os.environ.get("VALIDATOR")
    if not validator:
        pytest.skip("the W3C's validator is not here: it needs Java and npm")
    pages = pages_to_open(request.config.getoption("all"))
    command = ["java", "-jar", validator, "--errors-only"]
    done = subprocess.run(
        [*command, *map(str, pages)],
        cwd=HTML,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
