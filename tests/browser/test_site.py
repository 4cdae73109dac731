"""What a reader does with the site."""

from playwright.sync_api import Page, expect


def test_the_front_page_opens(page: Page, site: str):
    page.goto(f"{site}/index.html")

    expect(page.locator("h1")).to_contain_text("Proven PyTorch")
