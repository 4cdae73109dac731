"""What a reader sees first, and where the doors lead."""

import re

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    expect,
)

DESKTOP = {"width": 1366, "height": 900}
PHONE = {"width": 390, "height": 844}


def is_in_view(place: Locator, view: dict[str, int]) -> bool:
    """Whether all of an element lies in the first screen."""
    box = place.bounding_box()
    return (
        box is not None
        and min(box["x"], box["y"]) >= 0
        and box["x"] + box["width"] <= view["width"]
        and box["y"] + box["height"] <= view["height"]
    )


# What stands on the first screen: what this is, what to do first, the search,
# and a claim to play with, its picture whole.
FIRST = [
    "article h1",
    "article h1 + p",
    "article .button",
    ".page-search",
    ".surprise > p",
    ".surprise .hll",
    ".surprise label",
    ".surprise-before .cell-output",
    ".surprise-before .claim-sign",
]


@pytest.mark.parametrize("selector", FIRST)
def test_the_first_screen_shows_it_all(page: Page, site: str, selector: str):
    page.goto(f"{site}/index.html")
    found = page.locator(selector)

    for place in found.all():
        assert is_in_view(place, DESKTOP), place.bounding_box()
    assert found.count()


@pytest.mark.parametrize(
    ("button", "leads"),
    [("Start the course", "course/index"), ("Paste your error", "symptoms")],
)
def test_each_button_leads_somewhere(
    page: Page, site: str, button: str, leads: str
):
    page.goto(f"{site}/index.html")
    page.get_by_role("link", name=button).click()

    expect(page).to_have_url(re.compile(f"{leads}[.]html"))


def test_a_wrong_guess_shows_what_the_loss_does(page: Page, site: str):
    page.goto(f"{site}/index.html")
    after = page.locator(".surprise-after")
    expect(after).to_be_hidden()
    page.get_by_label("It falls, as before").check()

    expect(after).to_be_visible()
    expect(after.locator("img:visible")).to_have_attribute(
        "alt", "The loss with and without zero_grad"
    )
    expect(after).to_contain_text("there is no error and no warning")
    expect(page.locator(".surprise-before")).to_be_hidden()
    line = page.locator(".surprise .hll")
    expect(line).to_have_css("text-decoration-line", "line-through")


def test_the_line_can_be_put_back(page: Page, site: str):
    page.goto(f"{site}/index.html")
    page.locator(".guess-right").click()
    page.get_by_role("button", name="Put the line back").click()

    expect(page.locator(".surprise-before")).to_be_visible()
    expect(page.locator(".surprise-after")).to_be_hidden()


def test_one_guesses_by_keyboard_and_without_scripts(
    browser: Browser, site: str
):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/index.html")
    page.locator(".surprise input").first.focus()
    page.keyboard.press("Space")
    expect(page.locator(".surprise-after")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".guess-wrong input").nth(1)).to_be_checked()
    context.close()


def test_the_large_box_searches_the_site(page: Page, site: str):
    page.goto(f"{site}/index.html")
    page.keyboard.press("/")
    box = page.locator(".page-search")
    expect(box).to_be_focused()
    page.keyboard.type("shapes cannot be multiplied")
    expect(page.locator("#page-search-results a").first).to_be_visible()
    page.keyboard.press("Enter")

    expect(page).not_to_have_url(f"{site}/index.html")


@pytest.mark.parametrize("door", ["Learn it", "Fix it", "Look it up"])
def test_a_door_opens(page: Page, site: str, door: str):
    page.goto(f"{site}/index.html")
    card = page.locator(".doors .sd-card", has_text=door)
    with page.expect_navigation():
        card.click()

    assert not page.url.startswith(f"{site}/index.html")
    expect(page.locator("h1")).to_be_visible()


def test_the_statement_leads_to_its_place(page: Page, site: str):
    page.goto(f"{site}/index.html")
    page.locator(".surprise-before .surprise-words a").click()

    name = page.url.partition("#")[2]
    claim = page.locator(f'[id="{name}"]')
    expect(claim).to_be_in_viewport()
    expect(claim).to_have_class(re.compile(r"\bclaim\b"))


def test_its_test_is_one_click_away(page: Page, site: str):
    page.goto(f"{site}/index.html")
    page.locator(".guess-right").click()
    page.locator(".surprise-proof a").click()

    line = page.locator(f'[id="{page.url.partition("#")[2]}"]')
    expect(line).to_be_in_viewport()
    expect(line).to_contain_text("def test_")


def test_each_link_of_the_front_page_into_the_site_leads_somewhere(
    page: Page, site: str
):
    page.goto(f"{site}/index.html")
    links = page.locator("article a[href]").evaluate_all(
        "all => [...new Set(all.map(a => a.href))]"
    )
    inside = [link for link in links if link.startswith(site)]

    assert len(inside) > 30
    for link in inside:
        address, _, place = link.partition("#")
        answer = page.request.get(address)
        assert answer.ok, link
        assert not place or f'id="{place}"' in answer.text(), link


def test_chapters_stand_in_one_order(page: Page, site: str):
    page.goto(f"{site}/index.html")
    listed = page.locator(".page-list > li > a").all_inner_texts()
    tree = page.locator(".sidebar-tree > ul > li > a").all_inner_texts()

    assert listed[:4] == ["Start here", "The course", "Tensors", "Autograd"]
    assert listed == [each for each in tree if each in listed]


@pytest.mark.parametrize("name", ["index", "start/index", "course/index"])
def test_a_phone_shows_it_without_scrolling_sideways(
    context: BrowserContext, site: str, name: str
):
    page = context.new_page()
    page.set_viewport_size(PHONE)
    page.goto(f"{site}/{name}.html")

    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"]


def test_the_course_says_the_minutes_of_each_page(page: Page, site: str):
    page.goto(f"{site}/course/index.html")
    listed = page.locator("ol.page-list > li")
    first = listed.first
    said = first.locator("small").inner_text()
    first.locator("a").click()

    head = page.locator(".page-head")
    expect(head).to_contain_text(f"{said} to read")
    assert int(said.split()[0]) <= 10
