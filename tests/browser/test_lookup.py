"""What a reader looks up: names, terms, rules, the cheat sheet, an address."""

import re

import pytest
from playwright.sync_api import Page, expect

DETACH = "autograd/detach.html"


@pytest.fixture
def leading(page: Page, site: str) -> Page:
    """A page with code, terms and claims."""
    page.goto(f"{site}/{DETACH}")
    return page


def test_a_name_in_code_leads_to_its_api_without_a_color_of_its_own(
    leading: Page,
):
    link = leading.locator(".highlight a.api").filter(visible=True)
    style = "element => getComputedStyle(element)"
    plain = leading.locator(".highlight pre").first

    expect(link.first).to_have_attribute(
        "href", re.compile(r"^https://docs\.pytorch\.org/docs/[\d.]+/")
    )
    assert link.first.evaluate(f"{style}.color") == (
        plain.evaluate(f"{style}.color")
    )
    line = f"{style}.textDecorationLine"
    assert link.first.evaluate(line) == "none"
    link.first.hover()
    assert link.first.evaluate(line) == "underline"


def test_code_is_copied_as_it_is_with_links_in_it(leading: Page):
    block = (
        leading.locator("div.highlight-python")
        .filter(has=leading.locator("a.api"), visible=True)
        .first
    )
    block.hover()
    block.locator("button.copybtn").click()

    copied = leading.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == block.locator("pre").inner_text().strip()


def test_a_term_leads_to_what_it_means(leading: Page):
    leading.locator("a:has(> .term)", has_text="graph").first.click()

    expect(leading).to_have_url(re.compile(r"/glossary\.html#term-graph$"))
    expect(leading.locator("#term-graph")).to_be_in_viewport()


def test_a_rule_leads_to_its_place(page: Page, site: str):
    page.goto(f"{site}/rules.html")
    page.locator('.recap a[href*="detach.html#"]').first.click()

    place = page.url.partition("#")[2]
    expect(page.locator(f"[id='{place}']")).to_be_in_viewport()


def test_the_cheat_sheet_prints_on_four_pages(page: Page, site: str):
    page.goto(f"{site}/cheat_sheet.html")
    paper = page.pdf(prefer_css_page_size=True)

    assert len(re.findall(rb"/Type\s*/Page\b", paper)) == 4


def test_the_address_of_a_claim_is_copied_by_keyboard(leading: Page):
    sign = leading.locator("a.claim-sign").first
    leading.keyboard.press("Tab")
    sign.focus()
    leading.keyboard.press("Enter")
    link = leading.locator(".claim-panel.is-open .claim-link")
    while not link.evaluate("element => element === document.activeElement"):
        leading.keyboard.press("Tab")
    leading.keyboard.press("Enter")

    expect(link).to_have_text("Copied")
    copied = leading.evaluate("navigator.clipboard.readText()")
    leading.goto(copied)
    place = leading.locator(f"[id='{copied.partition('#')[2]}']")
    expect(place).to_be_in_viewport()
    expect(place).to_have_class(re.compile("claim"))


def test_a_page_has_its_text_beside_it(leading: Page, site: str):
    expect(leading.locator(".page-head a[href='detach.md']")).to_be_visible()

    text = leading.request.get(f"{site}/autograd/detach.md").text()
    assert text.startswith("# Detach")
