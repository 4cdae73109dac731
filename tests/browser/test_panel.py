"""The panel of a claim, its address, and the page of its tests."""

import re
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import DESKTOP, PHONE

SIGN = "a.claim-sign"
OPEN = ".claim-panel.is-open"
TOP = "each => each.getBoundingClientRect().top"


def first_claim(page: Page) -> tuple[Locator, Locator]:
    """Return the first sign of a page, and the panel that it opens."""
    sign = page.locator(SIGN).first
    return sign, page.locator(f"#{sign.get_attribute('aria-controls')}")


def test_keys_reach_a_sign_its_panel_and_the_text_again(detach: Page):
    sign, panel = first_claim(detach)
    for _ in range(200):
        detach.keyboard.press("Tab")
        if sign.evaluate("each => each === document.activeElement"):
            break
    expect(panel).to_be_hidden()

    # Enter and Space open it, Escape and Enter at its cross close it.
    for opens, closes in (("Enter", "Escape"), ("Space", "Enter")):
        detach.keyboard.press(opens)
        expect(sign).to_have_attribute("aria-expanded", "true")
        expect(panel).to_be_focused()
        detach.keyboard.press("Tab")
        expect(panel.locator(".claim-close")).to_be_focused()
        detach.keyboard.press(closes)
        expect(panel).to_be_hidden()
        expect(sign).to_be_focused()
        expect(sign).to_have_attribute("aria-expanded", "false")


@pytest.mark.parametrize("view", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", ["autograd/detach", "data/loading"])
def test_what_is_clicked_stays_and_its_panel_alone_shows(
    page: Page, site: str, name: str, view: dict[str, int]
):
    page.set_viewport_size({"width": view["width"], "height": view["height"]})
    page.goto(f"{site}/{name}.html")
    signs = page.locator(f"{SIGN}:visible")
    for place in range(0, signs.count(), 4):
        sign = signs.nth(place)
        # Near the lower edge of the window:
        sign.evaluate("each => each.scrollIntoView({block: 'end'})")
        page.evaluate("scrollBy(0, 60)")
        before = sign.evaluate(TOP)
        sign.click()

        assert abs(sign.evaluate(TOP) - before) < 2
        panel = page.locator(OPEN)
        assert panel.evaluate(TOP) < view["height"] - 24
        box = panel.bounding_box()
        assert box is not None
        assert 0 <= box["x"] < box["x"] + box["width"] <= view["width"]


def test_a_panel_of_a_table_has_room_and_moves_no_column(
    page: Page, site: str
):
    page.goto(f"{site}/data/loading.html")
    sign = page.locator(f"td {SIGN}").last
    cells = sign.locator("xpath=ancestor::table[1]").locator("th, td:visible")
    boxes = "all => all.map((each) => each.getBoundingClientRect().width)"
    before = cells.evaluate_all(boxes)
    sign.click()

    after = cells.evaluate_all(boxes)
    [row] = page.locator(".claim-row td:visible").evaluate_all(boxes)
    after.remove(row)
    assert after == before
    [panel] = page.locator(OPEN).evaluate_all(boxes)
    [text] = page.locator("article").evaluate_all(boxes)
    assert panel > 0.9 * text


def test_the_words_of_a_claim_open_and_close_its_panel(detach: Page):
    sign, panel = first_claim(detach)
    words = detach.locator(".claim").first

    words.hover()
    expect(words).to_have_css("text-decoration-line", "underline")
    words.click()
    expect(panel).to_be_visible()
    words.click()

    expect(panel).to_be_hidden()
    expect(sign).to_have_attribute("aria-expanded", "false")


def test_the_address_of_a_claim_or_a_panel_shows_both(detach: Page):
    hashes = "all => all.map((each) => each.hash)"
    signs = detach.locator(SIGN).evaluate_all(hashes)
    address = detach.url
    for panel in signs[3:30:9]:
        words = panel.replace("#proof-", "#")
        for place in (panel, words):
            detach.goto("about:blank")
            detach.goto(f"{address}{place}")

            expect(detach.locator(panel)).to_be_in_viewport()
            expect(detach.locator(f"{words}:target")).to_be_in_viewport(
                ratio=1
            )


def test_whoever_comes_back_finds_the_panel_open(detach: Page):
    detach.locator(SIGN).nth(8).click()
    panel = detach.locator(OPEN)
    words = panel.locator(".claim-words").inner_text()

    for name in ("In the ledger", "The test"):
        link = panel.get_by_role("link", name=name, exact=True)
        link.scroll_into_view_if_needed()
        place = detach.evaluate("scrollY")
        link.click()
        detach.wait_for_url(re.compile("/evidence/"))
        detach.go_back()

        expect(panel.locator(".claim-words")).to_have_text(words)
        assert detach.evaluate("scrollY") == place


def test_a_panel_that_is_closed_stays_closed(detach: Page):
    address = detach.url
    detach.locator(SIGN).first.click()
    expect(detach).to_have_url(re.compile(r"\.html#[\w-]+$"))
    detach.keyboard.press("Escape")
    expect(detach).to_have_url(address)
    detach.reload()

    expect(detach.locator(OPEN)).to_have_count(0)


@pytest.mark.parametrize("place", ["h1", "#in-short h2"])
def test_a_click_on_the_text_closes_a_panel_and_moves_nothing(
    detach: Page, place: str
):
    detach.locator(SIGN).nth(8).click()
    text = detach.locator(place)
    text.evaluate("each => each.scrollIntoView({block: 'center'})")
    before = text.evaluate(TOP)

    text.click(position={"x": 2, "y": 2})

    expect(detach.locator(OPEN)).to_have_count(0)
    assert abs(text.evaluate(TOP) - before) < 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_claim_has_the_color_of_its_verdict(
    page: Page, site: str, theme: Literal["light", "dark"]
):
    page.emulate_media(color_scheme=theme)
    claims = page.request.get(f"{site}/claims.json").json()["claims"]
    urls = {each["verdict"]: each["url"].split("#")[0] for each in claims}
    colors = set()
    for kind in ("passed", "not run"):
        page.goto(f"{site}/{urls[kind]}")
        sign = page.locator(f"a.claim-{kind.replace(' ', '-')}").first
        color = sign.evaluate("each => getComputedStyle(each).color")
        sign.click()
        expect(page.locator(OPEN)).to_have_css("border-left-color", color)
        words = expect(page.locator(".claim.is-open"))
        words.to_have_css("text-decoration-color", color)
        colors.add(color)

    assert len(colors) == 2


def test_outputs_stand_side_by_side_and_on_a_phone_below(detach: Page):
    panel = detach.locator(".claim-panel:has(.claim-outputs)").first
    detach.goto(f"{detach.url}#{panel.get_attribute('id')}")
    shown = panel.locator("details[open] > .claim-outputs").first
    tops = f"all => all.map({TOP})"

    before, after = shown.locator("> div").evaluate_all(tops)
    assert before == after

    detach.set_viewport_size(PHONE)
    before, after = shown.locator("> div").evaluate_all(tops)
    assert before < after


# -- The page of its tests ----------------------------------------------------

CUT = "the-graph-ends-at-the-cut"


def test_the_tests_of_a_claim_show_alone_and_lead_back(detach: Page):
    detach.goto(f"{detach.url}#{CUT}")
    panel = detach.locator(f"#proof-{CUT}")
    words = panel.locator(".claim-words").inner_text()
    panel.get_by_role("link", name="The test", exact=True).click()

    claims = detach.locator(".proof-claim:visible")
    expect(claims).to_have_count(1)
    expect(claims.first).to_have_text(words)
    expect(claims.first).to_be_in_viewport()
    tests = detach.locator(".proof [id^='line-']:visible")
    expect(tests.first).to_contain_text("def test_the_graph_ends_at_the_cut(")

    detach.get_by_role("link", name="Show all tests").click()
    expect(claims).not_to_have_count(1)
    expect(detach.locator(".proof-chosen")).to_be_hidden()

    detach.go_back()
    expect(claims).to_have_count(1)
    claims.get_by_role("link").click()
    expect(panel).to_be_visible()


def test_a_counter_example_is_shown_at_its_test(detach: Page):
    detach.goto(f"{detach.url}#{CUT}")
    detach.locator(f"#proof-{CUT} details[open] a").first.click()

    target = detach.locator("[id^='line-']:target")
    expect(target).to_be_in_viewport()
    expect(target).to_contain_text("def test_the_graph_ends_at_the_cut__but")
