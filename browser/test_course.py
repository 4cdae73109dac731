"""The course: where next leads, and what a reader has read."""

from playwright.sync_api import Page, expect


def test_next_leads_through_the_whole_course(page: Page, site: str):
    page.goto(f"{site}/course/index.html")
    names = page.locator(".course > li > a").all_inner_texts()
    page.locator(".course > li > a").first.click()
    for place, name in enumerate(names, start=1):
        expect(page.locator("h1")).to_contain_text(name)
        expect(page.locator(".course-place")).to_contain_text(
            f"Page {place} of {len(names)}"
        )
        page.locator(".next-page").click()

    expect(page).to_have_url(f"{site}/course/index.html")


def read_to_the_end(page: Page) -> None:
    """Scroll to what stands below the text, until it is kept as read."""
    page.locator(".course-place").scroll_into_view_if_needed()
    page.wait_for_function("() => localStorage.getItem('course-read')")


def test_who_has_seen_the_end_of_a_page_has_read_it(page: Page, site: str):
    page.goto(f"{site}/course/index.html")
    expect(page.locator(".course-progress")).to_be_hidden()
    page.goto(f"{site}/course/data.html")
    read_to_the_end(page)
    page.go_back()

    said = page.locator(".course-progress")
    expect(said).to_contain_text("You have read 1 of")
    expect(page.locator(".course > .is-read")).to_have_count(1)
    said.get_by_role("link").click()
    expect(page.locator(".course-place")).to_contain_text("Page 2 of")


def test_what_is_read_can_be_forgotten(page: Page, site: str):
    page.goto(f"{site}/course/data.html")
    read_to_the_end(page)
    page.goto(f"{site}/course/index.html")
    page.get_by_role("button", name="Forget what I have read").focus()
    page.keyboard.press("Enter")

    expect(page.locator(".course-progress")).to_have_text("Forgotten.")
    expect(page.locator(".course > .is-read")).to_have_count(0)
    assert page.evaluate("localStorage.getItem('course-read')") is None
    page.reload()
    expect(page.locator(".course-progress")).to_be_hidden()
