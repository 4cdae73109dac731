"""What the search finds, and with which keys."""

import re
import tomllib
from pathlib import Path
from statistics import median

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.axe import violations
from tests.browser.conftest import HTML, PHONE

QUERIES = {
    query: pages
    for part in tomllib.loads(
        Path(__file__).with_name("queries.toml").read_text("utf-8")
    ).values()
    for query, pages in part.items()
}
SOON = 200  # milliseconds
# Asks each query, and says which pages come first, and when.
ASK_ALL = """async (queries) => {
  await siteSearch.ready;
  return queries.map((query) => {
    const start = performance.now();
    const pages = siteSearch(query).map(({ name }) => name);
    return [pages.slice(0, 3), performance.now() - start];
  });
}"""
OPTION = "#search-results [role=option]"
CHOSEN = "#search-results [aria-selected=true]"
PANEL = ".sidebar-search-container .search-panel"
NOTE = f"{PANEL} .search-note"


def result(page: Page, name: str) -> Locator:
    """Return what stands in the list for a page."""
    return page.locator(f"#search-results [data-page='{name}']")


@pytest.fixture
def box(detach: Page) -> Locator:
    """Return the box of a page that nobody has been near."""
    return detach.locator(".sidebar-search")


@pytest.fixture
def loaded(detach: Page, box: Locator) -> Page:
    """Return a page that has loaded what finds."""
    box.focus()
    detach.wait_for_function("() => window.siteSearch")
    return detach


# -- What is found -----------------------------------------------------------


def test_a_right_page_is_first_for_most_and_in_three_for_nearly_all(
    loaded: Page,
):
    pages = {name for names in QUERIES.values() for name in names}
    assert not [name for name in pages if not (HTML / f"{name}.html").exists()]

    found = loaded.evaluate(ASK_ALL, list(QUERIES))

    tops = {q: top for q, (top, _) in zip(QUERIES, found, strict=True)}
    missed = {q: tops[q] for q in tops if not {*tops[q]} & {*QUERIES[q]}}
    second = {q: tops[q] for q in tops if not {*tops[q][:1]} & {*QUERIES[q]}}
    assert len(missed) <= 0.05 * len(QUERIES), missed
    assert len(second) <= 0.20 * len(QUERIES), second
    assert median(took for _, took in found) < SOON


def test_every_page_is_found_by_its_title(loaded: Page):
    missed = loaded.evaluate("""async () => {
      await siteSearch.ready;
      return searchedTexts[0]
        .filter(([name, , title]) =>
          !siteSearch(title).find((page) => page.name === name)?.hasAll)
        .map(([name]) => name);
    }""")

    assert missed == []


def test_a_pasted_traceback_finds_the_page_that_has_its_text(
    detach: Page, box: Locator
):
    box.fill(
        'Traceback (most recent call last): File "/home/me/train.py", line 31,'
        " in <module> optimizer.step() ~~~^^ RuntimeError: mat1 and mat2"
        " shapes cannot be multiplied (128x3 and 784x10)"
    )

    quote = detach.locator("#search-results .search-section").first
    expect(quote).to_contain_text("shapes cannot be multiplied")


def test_an_error_text_leads_to_the_entry_or_section_that_has_it(
    detach: Page, box: Locator
):
    for text, place in (
        ("view size is not compatible", "fix/shapes.html#view-size-is-not-"),
        ("enable_nested_tensor is True, but", "sequences/transformer.html#"),
    ):
        box.fill(text)
        expect(detach.locator(CHOSEN)).to_have_class("search-section")
        detach.keyboard.press("Enter")
        detach.wait_for_url(f"**/{place}*")


def test_a_synonym_finds_what_no_page_says(detach: Page, box: Locator):
    box.fill("VRAM")

    mark = detach.locator("#search-results .search-quote mark").first
    expect(mark).to_contain_text("memory", ignore_case=True)


def test_words_in_other_forms_and_those_that_no_page_shows_find_a_page(
    detach: Page, box: Locator
):
    for typed, name in (
        ("brodcasting rules", "tensors/broadcasting"),  # codespell:ignore
        ("grad accumlation", "training/accumulation"),  # codespell:ignore
        ("initialise weights", "models/initialization"),
        ("nn.init.xavier_normal_", "models/initialization"),
        ("TerminateOnNaN", "fix/nan"),  # in its front matter
    ):
        box.fill(typed)
        first = detach.locator("#search-results > div").first
        expect(first).to_have_attribute("data-page", name)


def test_what_no_page_has_is_said_and_where_else_to_look(
    detach: Page, box: Locator
):
    note, elsewhere = detach.locator(NOTE), result(detach, "not_covered")
    for typed, said in (
        ("gradient of a xylophone tensor", "No page has “xylophone”."),
        ("LMDB Glorot", "No page has all of these words."),
        ("qqqqqq", "Nothing found"),
    ):
        box.fill(typed)
        expect(note).to_contain_text(said)
        expect(elsewhere).to_have_count(1)

    box.fill("Muon")
    expect(note).to_contain_text("page")
    expect(elsewhere).to_have_count(0)


def test_a_result_quotes_a_claim_and_opens_its_panel(
    detach: Page, box: Locator
):
    box.fill("frozen layer moves")

    found = result(detach, "models/modules")
    expect(found.locator(".search-chapter")).to_have_text("Models")
    claim = found.locator("a", has=detach.locator(".search-sign")).first
    expect(claim.locator(".search-sign")).to_have_text("✓")
    expect(claim.locator("mark").first).to_be_visible()
    name = claim.evaluate("link => link.hash.slice(1)")
    claim.click()

    expect(detach.locator(f"#proof-{name}")).to_be_visible()


# -- How one searches --------------------------------------------------------


def test_nothing_is_loaded_before_somebody_comes_to_the_box(
    detach: Page, box: Locator
):
    scripts = detach.locator("script[src*='search-index']")
    expect(scripts).to_have_count(0)

    detach.keyboard.press("/")

    expect(box).to_be_focused()
    expect(scripts).to_have_count(1)


def test_the_keyboard_alone_goes_from_page_to_section(
    detach: Page, box: Locator
):
    detach.keyboard.press("Control+k")
    detach.keyboard.type("out of memory")
    chosen = detach.locator(CHOSEN)
    expect(chosen).to_contain_text("out of memory")
    expect(chosen).to_have_css("outline-style", "solid")
    expect(box).to_have_attribute("aria-expanded", "true")
    detach.keyboard.press("ArrowDown")
    expect(chosen).to_have_class("search-section")
    expect(box).to_have_attribute(
        "aria-activedescendant", str(chosen.get_attribute("id"))
    )
    target = str(chosen.get_attribute("href"))

    detach.keyboard.press("Enter")

    detach.wait_for_url(target)
    assert target.partition("#")[2]


def test_escape_shuts_the_list_and_then_leaves_the_box(
    detach: Page, box: Locator
):
    box.press_sequentially("a/b")
    expect(box).to_have_value("a/b")
    panel = detach.locator(PANEL)
    expect(panel).to_be_visible()

    detach.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(box).to_be_focused()
    detach.keyboard.press("Escape")
    expect(box).not_to_be_focused()


def test_a_search_has_an_address_and_survives_the_way_back(
    detach: Page, box: Locator
):
    box.fill("gradient accumulation")
    detach.locator("#search-results .search-page").first.click()
    detach.wait_for_url("**/training/accumulation.html*")

    detach.go_back()

    expect(detach).to_have_url(re.compile(r"\?q=gradient\+accumulation"))
    expect(box).to_have_value("gradient accumulation")
    expect(detach.locator(OPTION).first).to_be_visible()


@pytest.mark.parametrize("query", ["leak", "qqqqqq"])
def test_the_open_list_has_no_fault(detach: Page, box: Locator, query: str):
    box.fill(query)
    expect(detach.locator(PANEL)).to_be_visible()

    faults = violations(detach)
    detach.emulate_media(color_scheme="dark")
    faults += violations(detach)

    assert not faults, "\n".join(faults)


def test_an_index_that_does_not_come_is_said(browser: Browser, site: str):
    page = browser.new_page()
    page.route("**/search-index.js", lambda route: route.abort())
    page.goto(f"{site}/index.html")
    page.locator(".sidebar-search").fill("leak")
    expect(page.locator(NOTE)).to_contain_text("could not be loaded")
    page.close()


def test_the_box_is_found_on_a_phone(detach: Page, box: Locator):
    detach.set_viewport_size(PHONE)
    detach.locator(".search-glass").click()
    expect(box).to_be_focused()
    box.press_sequentially("warmup")
    first = detach.locator(OPTION).first
    expect(first).to_contain_text("Change the learning rate")
    panel = detach.locator(PANEL).bounding_box()
    assert panel is not None
    assert 0 <= panel["x"] < panel["x"] + panel["width"] <= PHONE["width"]


def test_a_page_that_was_opened_from_a_folder_searches_as_well(
    browser: Browser,
):
    page = browser.new_page()
    page.goto((HTML / "index.html").as_uri())
    page.locator(".sidebar-search").fill("leak")
    first = page.locator(OPTION).first
    expect(first).to_contain_text("Memory grows with every step")
    first.click()
    expect(page).to_have_url((HTML / "memory/running_loss.html").as_uri())
    page.close()
