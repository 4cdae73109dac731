"""The course: where next leads."""

from playwright.sync_api import Page, expect


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
