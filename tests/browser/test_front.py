"""What a reader sees first, and where it leads."""

import re

from playwright.sync_api import Browser, Page, expect

# What stands on the first screen: what this is, what to do first, the search,
# and a claim to play with, its picture whole.
FIRST = [
    "article h1",
    "article h1 + p",
    "article .sd-btn",
    ".page-search",
    ".surprise > p",
    ".surprise .hll",
    ".surprise label",
    ".surprise-before .cell-output",
    ".surprise-before .claim-sign",
]


def test_the_first_screen_shows_it_all(page: Page, site: str):
    page.goto(f"{site}/index.html")
    for selector in FIRST:
        found = page.locator(selector)
        assert found.count()
        for place in found.all():
            expect(place).to_be_in_viewport(ratio=1)


def test_a_wrong_guess_shows_what_the_loss_does_and_can_be_taken_back(
    page: Page, site: str
):
    page.goto(f"{site}/index.html")
    before = page.locator(".surprise-before")
    after = page.locator(".surprise-after")
    expect(after).to_be_hidden()
    page.get_by_label("It falls, as before").check()

    expect(after.locator("img:visible")).to_have_attribute(
        "alt", "The loss with and without zero_grad"
    )
    expect(after).to_contain_text("there is no error and no warning")
    expect(before).to_be_hidden()
    line = page.locator(".surprise .hll")
    expect(line).to_have_css("text-decoration-line", "line-through")

    page.get_by_role("button", name="Put the line back").click()
    expect(before).to_be_visible()
    expect(after).to_be_hidden()


def test_one_guesses_by_keyboard_and_without_scripts(
    browser: Browser, site: str
):
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"{site}/index.html")
    page.locator(".surprise input").first.focus()
    page.keyboard.press("Space")
    expect(page.locator(".surprise-after")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".guess-wrong input").nth(1)).to_be_checked()
    page.close()


def test_the_large_box_searches_the_site(page: Page, site: str):
    page.goto(f"{site}/index.html")
    page.keyboard.press("/")
    expect(page.locator(".page-search")).to_be_focused()
    page.keyboard.type("shapes cannot be multiplied")
    expect(page.locator("#page-search-results a").first).to_be_visible()
    page.keyboard.press("Enter")

    expect(page).not_to_have_url(re.compile(r"/index\.html"))


def test_each_sign_opens_the_panel_of_its_claim(page: Page, site: str):
    page.goto(f"{site}/index.html")
    panel = page.locator("#proof-the-loss-falls")
    expect(panel).to_be_hidden()
    page.locator("h1 + p a").click()
    expect(panel).to_be_in_viewport()
    expect(panel).to_contain_text("Break it")

    page.locator(".guess-right").click()
    for sign in page.locator(".surprise-after .claim-sign").all():
        sign.click()
        panel = page.locator(".claim-panel.is-open")
        expect(panel).to_be_in_viewport()
    panel.locator(".claim-links a").first.click()
    line = page.locator("[id^='line-']:target")
    expect(line).to_be_in_viewport()
    expect(line).to_contain_text("def test_")


def test_a_correction_leads_to_the_claim_that_shows_it(page: Page, site: str):
    page.goto(f"{site}/index.html")
    page.locator(".corrected a").first.click()
    expect(page.locator(".claim-panel.is-open")).to_be_visible()


def test_the_picture_of_a_guess_is_there_before(page: Page, site: str):
    page.goto(f"{site}/index.html")
    drawn = page.locator(".surprise-after img.only-light")
    expect(drawn).to_have_js_property("complete", True)
    assert drawn.evaluate("image => image.naturalWidth") > 0


def test_next_leads_through_the_whole_course(page: Page, site: str):
    page.goto(f"{site}/course/index.html")
    names = page.locator(".page-list > li > a").all_inner_texts()
    page.locator(".page-list > li > a").first.click()
    for place, name in enumerate(names, start=1):
        expect(page.locator("h1")).to_contain_text(name)
        expect(page.locator(".page-head")).to_contain_text(
            f"Page {place} of {len(names)} of the course"
        )
        page.locator(".next-page").click()

    expect(page.locator(".page-head")).to_have_count(0)
