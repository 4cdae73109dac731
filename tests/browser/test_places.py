"""Where an address leads: what it names is in sight, and stays there."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import DESKTOP, PHONE


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


def test_the_ledger_is_as_wide_as_its_place(page: Page, site: str):
    page.set_viewport_size(DESKTOP)
    page.goto(f"{site}/evidence/claims/autograd.html")

    table = page.locator(".ledger-rows").first
    assert table.evaluate("e => e.scrollWidth <= e.clientWidth")


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


@pytest.mark.parametrize("view", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", ["autograd/detach", "data/loading"])
def test_what_is_clicked_stays_and_its_panel_shows(
    page: Page, site: str, name: str, view: dict[str, int]
):
    page.set_viewport_size({"width": view["width"], "height": view["height"]})
    page.goto(f"{site}/{name}.html")
    top = "each => each.getBoundingClientRect().top"
    signs = page.locator("a.claim-sign:visible")
    for place in range(0, signs.count(), 3):
        sign = signs.nth(place)
        # Near the lower edge of the window:
        sign.evaluate("each => each.scrollIntoView({block: 'end'})")
        page.evaluate("scrollBy(0, 60)")
        before = sign.evaluate(top)
        sign.click()

        assert abs(sign.evaluate(top) - before) < 2
        panel = page.locator(".claim-panel.is-open")
        assert panel.evaluate(top) < view["height"] - 24
        box = panel.bounding_box()
        assert box is not None
        assert 0 <= box["x"] < box["x"] + box["width"] <= view["width"]


def test_a_panel_of_a_table_moves_no_column(page: Page, site: str):
    page.goto(f"{site}/data/loading.html")
    sign = page.locator("td a.claim-sign").last
    cells = sign.locator("xpath=ancestor::table[1]").locator("th, td:visible")
    boxes = "all => all.map((each) => each.getBoundingClientRect().width)"
    whole = cells.count()
    before = cells.evaluate_all(boxes)
    sign.click()

    assert cells.count() == whole + 1
    after = cells.evaluate_all(boxes)
    [panel] = page.locator(".claim-row td:visible").evaluate_all(boxes)
    after.remove(panel)
    assert after == before


def test_whoever_comes_back_finds_the_panel_open(page: Page, site: str):
    page.goto(f"{site}/autograd/detach.html")
    page.locator("a.claim-sign").nth(8).click()
    panel = page.locator(".claim-panel.is-open")
    words = panel.locator(".claim-words").inner_text()

    for name in ("In the ledger", "The test"):
        link = panel.get_by_role("link", name=name, exact=True)
        link.scroll_into_view_if_needed()
        place = page.evaluate("scrollY")
        link.click()
        page.wait_for_url(re.compile("/evidence/"))
        page.go_back()

        expect(panel.locator(".claim-words")).to_have_text(words)
        assert page.evaluate("scrollY") == place


def test_a_panel_that_is_closed_stays_closed(page: Page, site: str):
    page.goto(f"{site}/autograd/detach.html")
    page.locator("a.claim-sign").first.click()
    expect(page).to_have_url(re.compile(r"\.html#[\w-]+$"))
    page.keyboard.press("Escape")
    expect(page).to_have_url(f"{site}/autograd/detach.html")
    page.reload()

    expect(page.locator(".claim-panel.is-open")).to_have_count(0)


@pytest.mark.parametrize("width", [1200, 1280, 1312])
@pytest.mark.parametrize("name", ["autograd/detach", "symptoms", "index"])
def test_a_laptop_shows_the_contents_beside_the_text(
    page: Page, site: str, name: str, width: int
):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{site}/{name}.html")

    box = "document.scrollingElement"
    assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")
    article = page.locator("article").bounding_box()
    assert article is not None
    assert 640 < article["width"] <= 736
    if name == "autograd/detach":
        contents = page.locator(".toc-tree").bounding_box()
        assert contents is not None
        assert article["x"] + article["width"] < contents["x"] < width - 160


def test_the_address_of_a_panel_shows_the_words(page: Page, site: str):
    page.goto(f"{site}/autograd/detach.html")
    signs = page.locator("a.claim-sign").evaluate_all(
        "all => all.map((sign) => sign.hash)"
    )
    for place in signs[3:30:6]:
        page.goto("about:blank")
        page.goto(f"{site}/autograd/detach.html{place}")

        name = place.removeprefix("#proof-")
        expect(page.locator(place)).to_be_in_viewport()
        expect(page.locator(f"#{name}:target")).to_be_in_viewport(ratio=1)


def test_space_at_the_cross_closes_a_panel(page: Page, site: str):
    page.goto(f"{site}/autograd/detach.html")
    sign = page.locator("a.claim-sign").first
    sign.click()
    panel = page.locator(".claim-panel.is-open")
    panel.locator(".claim-close").focus()

    page.keyboard.press("Space")

    expect(panel).to_have_count(0)
    expect(sign).to_be_focused()


@pytest.mark.parametrize("place", ["h1", "#in-short h2"])
def test_a_click_on_the_text_closes_a_panel_and_moves_nothing(
    page: Page, site: str, place: str
):
    page.goto(f"{site}/autograd/detach.html")
    page.locator("a.claim-sign").nth(8).click()
    panel = page.locator(".claim-panel.is-open")
    text = page.locator(place)
    text.evaluate("each => each.scrollIntoView({block: 'center'})")
    top = "each => each.getBoundingClientRect().top"
    before = text.evaluate(top)

    text.click(position={"x": 2, "y": 2})

    expect(panel).to_have_count(0)
    assert abs(text.evaluate(top) - before) < 2


def test_a_click_that_would_move_the_text_leaves_a_panel(
    page: Page, site: str
):
    page.goto(f"{site}/autograd/detach.html")
    sign = page.locator("a.claim-sign").first
    sign.click()
    page.evaluate("scrollTo(0, 0)")
    panel = page.locator(".claim-panel.is-open")

    page.locator(".claim-panel.is-open ~ p").first.dispatch_event("click")

    expect(panel).to_have_count(1)
