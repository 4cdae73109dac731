"""Where an address leads: what it names is in sight, and stays there."""

import pytest
from playwright.sync_api import Browser, Page

from browser.conftest import DESKTOP


def rows_of(page: Page, ledger: str) -> list[str]:
    """Return the names of some rows of a ledger, from its start to its end."""
    page.goto(ledger)
    rows: list[str] = page.locator("tr[data-verdict]").evaluate_all(
        "all => all.map((row) => row.id)"
    )
    return [rows[len(rows) * at // 8] for at in range(1, 8)]


@pytest.mark.parametrize("chapter", ["models", "training"])
def test_a_row_is_in_sight_by_its_address(page: Page, site: str, chapter: str):
    ledger = f"{site}/evidence/claims/{chapter}.html"
    for row in rows_of(page, ledger):
        page.goto("about:blank")
        page.goto(f"{ledger}#{row}")
        page.wait_for_timeout(300)

        place = page.locator(f"#{row}").bounding_box()
        assert place is not None
        assert 0 <= place["y"] < 200, row


def test_a_deep_address_is_there_at_once(browser: Browser, site: str):
    page = browser.new_page(viewport=DESKTOP, reduced_motion="no-preference")
    page.goto(f"{site}/autograd/detach.html#try-it")
    page.wait_for_load_state()

    y = page.evaluate("scrollY")
    page.wait_for_timeout(300)
    assert y == page.evaluate("scrollY") > 1000
    page.close()


@pytest.mark.parametrize(
    "name", ["evidence/claims/autograd", "evidence/changed", "symptoms"]
)
def test_a_filter_leaves_the_focus_where_it_is(
    page: Page, site: str, name: str
):
    page.goto(f"{site}/{name}.html")
    page.wait_for_load_state()

    assert page.evaluate("document.activeElement === document.body")
