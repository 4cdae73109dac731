"""What a reader filters and looks up: symptoms and the ledger."""

import re

import pytest
from playwright.sync_api import Page, expect

ENTRIES = "section > section > section"
ROWS = "tr[data-verdict]"


# -- Symptoms ----------------------------------------------------------------


@pytest.fixture
def pasting(page: Page, site: str) -> Page:
    """Return the page of symptoms, as who pastes an error comes to it."""
    page.goto(f"{site}/index.html")
    page.get_by_role("link", name="Paste your error").click()
    expect(page.locator(".entry-filter input")).to_be_focused()
    return page


def test_a_pasted_error_finds_its_entry(pasting: Page):
    pasting.keyboard.insert_text(
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied"
        " (32x784 and 512x10)"
    )

    found = pasting.locator(".entry-group li:visible")
    expect(found).to_have_count(1)
    found.get_by_role("link").click()
    expect(pasting).to_have_url(re.compile("#shapes-cannot-be-multiplied$"))


def test_an_error_that_is_no_symptom_is_searched_everywhere(pasting: Page):
    pasting.keyboard.insert_text("CUDA error: device-side assert triggered")
    said = pasting.locator(".entry-filter output")
    expect(said).to_contain_text("none has all of these words")

    pasting.keyboard.press("Enter")

    expect(pasting).to_have_url(re.compile(r"\?q=CUDA\+error"))
    expect(pasting.locator(".search-panel:visible")).to_contain_text(
        "device-side assert triggered"
    )


def test_entries_come_and_go_with_the_list(page: Page, site: str):
    page.goto(f"{site}/symptoms.html?words=mat1%20shapes%20multiplied")
    assert page.evaluate("document.activeElement === document.body")
    entries = page.locator(ENTRIES)

    expect(entries.locator("visible=true")).to_have_count(1)
    expect(page.locator("h2:visible")).to_have_count(
        page.locator("h2:not(section:has(> section) > h2)").count() + 1
    )
    # A link to another one, such as that of the table of contents:
    page.evaluate("location.hash = '#dimension-out-of-range'")
    expect(page.locator(":target")).to_be_in_viewport()
    expect(page.locator(".row-filter input")).to_have_value("")


def test_words_that_no_entry_has_are_looked_for_elsewhere(
    page: Page, site: str
):
    page.goto(f"{site}/symptoms.html?words=qwertz%20xylophone")
    said = page.locator("output")
    expect(said).to_contain_text("0 of ")
    expect(page.locator(f"{ENTRIES}:visible")).to_have_count(0)

    said.get_by_role("link", name="the whole guide").click()

    expect(page).to_have_url(re.compile(r"\?q=qwertz\+xylophone$"))
    expect(page.locator(".search-panel:visible")).to_have_count(1)


def test_the_words_of_an_error_in_a_row_outweigh_words_anywhere(
    page: Page, site: str
):
    page.goto(f"{site}/symptoms.html")
    found = page.evaluate("""() => {
      const form = document.querySelector(".entry-filter");
      const texts = document.querySelectorAll(".raised > .highlight-none pre");
      return [...texts].map((text) => {
        form.elements.words.value = text.textContent;
        form.dispatchEvent(new Event("input"));
        const links = [...document.querySelectorAll(".entry-group li a")];
        const shown = links.filter((link) => link.checkVisibility());
        const names = shown.map((link) => link.hash.slice(1));
        return [[text.closest("section").id], names];
      });
    }""")

    assert len(found) > 50
    assert [names for _, names in found] == [own for own, _ in found]


# -- The ledger --------------------------------------------------------------


def test_a_filter_stands_in_the_address(page: Page, site: str):
    page.goto(f"{site}/evidence/claims/autograd.html")
    rows = page.locator(f"{ROWS}:visible")
    whole = rows.count()

    page.get_by_label("Words").fill("frozen")
    found = rows.count()
    page.goto(page.url)

    assert 0 < found < whole
    expect(page).to_have_url(re.compile(r"\?words=frozen$"))
    expect(page.get_by_label("Words")).to_have_value("frozen")
    expect(rows).to_have_count(found)
    expect(page.locator("output")).to_contain_text(f"{found} of {whole}")


def test_a_row_is_in_sight_by_its_address(page: Page, site: str):
    ledger = f"{site}/evidence/claims/training.html"
    page.goto(ledger)
    table = page.locator(".ledger-rows").first
    assert table.evaluate("each => each.scrollWidth <= each.clientWidth")
    rows = page.locator(ROWS).evaluate_all("all => all.map((row) => row.id)")
    for row in (rows[len(rows) * eighth // 8] for eighth in range(1, 8)):
        page.goto("about:blank")
        page.goto(f"{ledger}#{row}")

        # What is above is laid out meanwhile.
        page.wait_for_function(
            """() => {
              const row = document.querySelector("tr:target");
              const { top } = row.getBoundingClientRect();
              return 0 <= top && top < 200;
            }"""
        )


def test_a_row_leads_to_its_words_and_its_test(page: Page, site: str):
    page.goto(f"{site}/evidence/claims/autograd.html")
    row = page.locator(ROWS).first
    words = row.locator("a").first
    claim = str(words.get_attribute("href")).partition("#")[2]

    row.get_by_role("link", name="test", exact=True).click()
    expect(page.locator("[id^=line-]:target")).to_contain_text("def test_")
    page.go_back()
    words.click()

    expect(page.locator(f"#{claim}:target")).to_be_in_viewport()


def test_the_sidebar_shows_where_one_is(page: Page, site: str):
    page.set_viewport_size({"width": 1280, "height": 500})
    page.goto(f"{site}/evidence/tests/autograd/detach.html")

    current = page.locator(".sidebar-tree .current-page")
    expect(current).to_be_in_viewport()
    expect(current).to_have_text("The ledger")


# -- On paper ----------------------------------------------------------------


def test_the_cheat_sheet_prints_on_four_pages(page: Page, site: str):
    page.goto(f"{site}/cheat_sheet.html")
    paper = page.pdf(prefer_css_page_size=True)

    assert len(re.findall(rb"/Type\s*/Page\b", paper)) == 4
