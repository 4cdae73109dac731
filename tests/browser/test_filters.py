"""What a reader filters: symptoms and tables."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

PASTED = (
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied"
    " (32x784 and 512x10)"
)


def test_a_pasted_error_finds_its_entry(page: Page, site: str):
    page.goto(f"{site}/index.html")
    page.get_by_role("link", name="Paste your error").click()
    box = page.locator(".entry-filter input")
    expect(box).to_be_focused()
    page.keyboard.insert_text(PASTED)

    found = page.locator(".entry-group li:visible")
    expect(found).to_have_count(1)
    found.get_by_role("link").click()
    expect(page).to_have_url(re.compile("#shapes-cannot-be-multiplied$"))


@pytest.mark.parametrize("name", ["symptoms", "evidence/claims/autograd"])
def test_words_that_stand_nowhere_leave_nothing(
    page: Page, site: str, name: str
):
    page.goto(f"{site}/{name}.html?words=qwertz")

    expect(page.locator("output")).to_contain_text("0 of ")
    expect(page.locator(".row-filter input")).to_have_value("qwertz")


def test_entries_come_and_go_with_the_list(page: Page, site: str):
    page.goto(f"{site}/symptoms.html?words=mat1%20shapes%20multiplied")
    entries = page.locator("section > section > section")

    expect(entries.locator("visible=true")).to_have_count(1)
    expect(page.locator("h2:visible")).to_have_count(
        page.locator("h2:not(section:has(> section) > h2)").count() + 1
    )
    # A link to another one, such as that of the table of contents:
    page.evaluate("location.hash = '#dimension-out-of-range'")
    expect(page.locator(":target")).to_be_in_viewport()
    expect(page.locator(".row-filter input")).to_have_value("")


def test_words_that_no_entry_has_can_be_searched_everywhere(
    page: Page, site: str
):
    page.goto(f"{site}/symptoms.html?words=qwertz%20xylophone")
    expect(page.locator("section > section > section:visible")).to_have_count(
        0
    )

    page.locator("output").get_by_role("link", name="the whole guide").click()

    expect(page).to_have_url(re.compile(r"\?q=qwertz\+xylophone$"))
    expect(page.locator(".search-panel:visible")).to_have_count(1)


def test_a_pasted_error_that_is_no_symptom_is_searched_everywhere(
    page: Page, site: str
):
    page.goto(f"{site}/index.html")
    page.get_by_role("link", name="Paste your error").click()
    expect(page.locator(".entry-filter input")).to_be_focused()
    page.keyboard.insert_text("CUDA error: device-side assert triggered")
    said = page.locator(".entry-filter output")
    expect(said).to_contain_text("none has all of these words")

    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"\?q=CUDA\+error"))
    expect(page.locator(".search-panel:visible")).to_contain_text(
        "device-side assert triggered"
    )


def test_the_words_of_an_error_in_a_row_outweigh_words_anywhere(
    page: Page, site: str
):
    page.goto(f"{site}/symptoms.html")
    texts = page.locator(".raised > .highlight-none pre").all()
    for text in texts:
        place = text.evaluate("each => each.closest('section').id")
        page.locator(".entry-filter input").fill(str(text.text_content()))

        found = page.locator(".entry-group li:visible a")
        names = [each.get_attribute("href") for each in found.all()]
        assert names == [f"#{place}"]


def test_a_filter_without_scripts_is_not_shown(browser: Browser, site: str):
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"{site}/evidence/claims/autograd.html")

    expect(page.locator(".row-filter")).to_be_hidden()


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("measurements", "Measurements"),
        ("claims/autograd", "The ledger"),
        ("tests/autograd/detach", "The ledger"),
    ],
)
def test_the_sidebar_shows_where_one_is(
    page: Page, site: str, name: str, entry: str
):
    page.set_viewport_size({"width": 1280, "height": 500})
    page.goto(f"{site}/evidence/{name}.html")

    current = page.locator(".sidebar-tree .current-page")
    expect(current).to_be_in_viewport()
    expect(current).to_have_text(entry)
