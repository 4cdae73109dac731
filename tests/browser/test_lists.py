"""What a reader filters and looks up: errors and the ledger."""

import re
import tomllib

import pytest
from playwright.sync_api import Locator, Page, expect

from extensions.core.topics import ROOT

ROWS = "tr[data-verdict]"
# A traceback, as who copies it from a terminal pastes it.
PASTE = """([box, text]) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text", text);
  const event = { clipboardData, bubbles: true, cancelable: true };
  box.dispatchEvent(new ClipboardEvent("paste", event));
}"""
TRACEBACK = """Traceback (most recent call last):
  File "/home/me/train.py", line 12, in <module>
    scores = model(images)
  File "/usr/lib/python3/torch/nn/modules/module.py", line 1775, in _call_impl
    return forward_call(*args, **kwargs)
           ~~~~~~~~~~~~^^^^^^^^^^^^^^^^^
RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x784 and 512x10)
"""
# The errors that people report most, and where each is answered.
REPORTS = {
    each["text"]: each["answered"].replace(".md#", "#")
    for each in tomllib.loads(
        (ROOT / "docs/fix/reports.toml").read_text("utf-8")
    )["report"]
}
# The texts that entries show, each with its entry.
SHOWN = """() => Object.fromEntries(
  searchedTexts[0].flatMap(([page, , , , , sections]) =>
    sections.flatMap(([anchor, , , , , errors]) =>
      errors.map((text) => [text, `${page}#${anchor}`]))))"""
ASK = """async (texts) => {
  await siteSearch.ready;
  return texts.map((text) => {
    const [{ name, sections } = { sections: [] }] = siteSearch(text);
    return sections.map(({ anchor }) => `${name}#${anchor}`);
  });
}"""


# -- Errors ------------------------------------------------------------------


@pytest.fixture
def box(page: Page, site: str) -> Locator:
    """Return the box that waits for the error of who comes to paste one."""
    page.goto(f"{site}/index.html")
    page.get_by_role("link", name="Paste your error").click()
    box = page.locator(".page-search")
    expect(box).to_be_focused()
    return box


def paste(box: Locator, text: str) -> None:
    """Paste some text into a box."""
    box.page.evaluate(PASTE, [box.element_handle(), text])


def test_a_pasted_traceback_finds_its_error_with_what_to_do(box: Locator):
    paste(box, TRACEBACK)

    panel = box.page.locator(".search-panel:visible")
    expect(panel).to_contain_text("This looks like your problem")
    expect(panel.locator(".search-said").first).to_be_visible()
    expect(box).to_have_value(TRACEBACK.splitlines()[-1])
    panel.locator(".search-section").first.click()
    expect(box.page).to_have_url(re.compile("#mat1-and-mat2-shapes-"))


def test_who_pastes_an_error_that_is_not_here_is_told_so(box: Locator):
    paste(box, "Traceback (most recent call last):\nOperationalError: locked")

    panel = box.page.locator(".search-panel:visible")
    expect(panel).not_to_contain_text("This looks like your problem")
    expect(panel.locator(".search-said")).to_have_count(0)


def test_what_entries_show_and_people_report_most_finds_its_entry(
    box: Locator,
):
    box.page.wait_for_function("() => window.siteSearch")
    shown = box.page.evaluate(SHOWN)

    for asked, part in (shown, 0.02), (REPORTS, 0.05):
        found = box.page.evaluate(ASK, list(asked))
        told = zip(asked.items(), found, strict=True)
        missed = {text: at for (text, at), places in told if at not in places}
        assert len(missed) <= part * len(asked), missed


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
    page.goto(f"{site}/deploy/serve.html")

    current = page.locator(".sidebar-tree .current-page")
    expect(current).to_be_in_viewport()
    expect(current).to_have_text(re.compile("Serve a model"))


# -- On paper ----------------------------------------------------------------


def test_the_cheat_sheet_prints_on_three_pages(page: Page, site: str):
    page.goto(f"{site}/cheat_sheet.html")
    paper = page.pdf(prefer_css_page_size=True)

    assert len(re.findall(rb"/Type\s*/Page\b", paper)) == 3
