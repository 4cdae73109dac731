"""What the search finds, how soon, and with which keys."""

import tomllib
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import HTML, PHONE

QUERIES = {
    query: pages
    for part in tomllib.loads(
        Path(__file__).with_name("queries.toml").read_text("utf-8")
    ).values()
    for query, pages in part.items()
}
SOON = 200  # milliseconds
FIRST = 2000  # the same, where the browser has to make the index before
LOADED = "() => window.siteSearch"
# Asks each query, and says which pages come first, and when.
ASK_ALL = """async (queries) => {
  await siteSearch.ready;
  return queries.map((query) => {
    const start = performance.now();
    const pages = siteSearch(query).map(({ name }) => name);
    return [pages.slice(0, 3), performance.now() - start];
  });
}"""

# Pastes a query into a box that nobody has been near; says when a result is
# there.
PASTE = """(query) => new Promise((done) => {
  const box = document.querySelector(".sidebar-search");
  const list = document.querySelector("#search-results");
  const start = performance.now();
  const seen = () => list.children.length && done(performance.now() - start);
  new MutationObserver(seen).observe(list, { childList: true });
  box.focus();
  box.value = query;
  box.dispatchEvent(new InputEvent("input"));
})"""


@pytest.fixture
def box(page: Page, site: str):
    page.goto(f"{site}/autograd/detach.html")
    return page.locator(".sidebar-search")


@pytest.fixture
def found(page: Page, box):
    box.focus()
    page.wait_for_function(LOADED)
    return dict(
        zip(QUERIES, page.evaluate(ASK_ALL, list(QUERIES)), strict=True)
    )


def test_there_are_many_queries_and_their_pages_exist():
    assert len(QUERIES) >= 100
    pages = {name for names in QUERIES.values() for name in names}
    assert not [name for name in pages if not (HTML / f"{name}.html").exists()]


def test_a_right_page_is_found_soon_first_for_most_and_in_three_for_nearly_all(
    found,
):
    tops = {query: pages for query, (pages, _) in found.items()}
    missed = {q: tops[q] for q in tops if not {*tops[q]} & {*QUERIES[q]}}
    second = {q: tops[q] for q in tops if not {*tops[q][:1]} & {*QUERIES[q]}}
    assert len(missed) <= 0.05 * len(QUERIES), missed
    assert len(second) <= 0.20 * len(QUERIES), second
    # What else the machine does may hold up a few.
    slow = {q: took for q, (_, took) in found.items() if took > SOON}
    assert len(slow) <= 0.05 * len(QUERIES), slow


def test_a_query_is_answered_soon_on_a_page_that_has_loaded_no_index(
    browser: Browser, site: str
):
    times = []
    for _ in range(10):  # what else the machine does hardly holds up all
        context = browser.new_context()  # with nothing in its cache
        page = context.new_page()
        page.goto(f"{site}/index.html")
        assert not page.evaluate(LOADED)
        times.append(page.evaluate(PASTE, "loss is nan"))
        context.close()

    assert min(times) < FIRST, times


def test_every_page_is_found_by_its_title(page: Page, box):
    box.focus()
    page.wait_for_function(LOADED)

    missed = page.evaluate("""async () => {
      await siteSearch.ready;
      return searchedTexts[0]
        .filter(([name, , title]) =>
          !siteSearch(title).find((page) => page.name === name)?.hasAll)
        .map(([name]) => name);
    }""")

    assert missed == []


def test_a_pasted_traceback_finds_the_page_that_has_its_text(page: Page, box):
    box.fill(
        'Traceback (most recent call last): File "/home/me/train.py", line 31,'
        " in <module> optimizer.step() ~~~^^ RuntimeError: mat1 and mat2"
        " shapes cannot be multiplied (128x3 and 784x10)"
    )

    quote = page.locator("#search-results .search-section").first
    expect(quote).to_contain_text("shapes cannot be multiplied")


def test_a_synonym_finds_what_no_page_says(page: Page, box):
    box.fill("VRAM")

    mark = page.locator("#search-results .search-quote mark").first
    expect(mark).to_contain_text("memory", ignore_case=True)


def test_a_word_of_the_front_matter_that_no_page_shows_is_found(
    page: Page, box
):
    assert "finetune" not in (HTML / "training/fine_tuning.html").read_text(
        "utf-8"
    )
    box.fill("finetune")
    first = page.locator("#search-results a").first
    expect(first).to_contain_text("Fine-tune a trained model")


def test_nothing_is_loaded_before_somebody_comes_to_the_box(page: Page, box):
    scripts = "() => [...document.scripts].map((each) => each.src).join()"
    assert "search-index" not in page.evaluate(scripts)

    page.keyboard.press("/")

    expect(box).to_be_focused()
    page.wait_for_function(LOADED)
    assert "search-index" in page.evaluate(scripts)


def test_the_keyboard_alone_goes_from_page_to_section(page: Page, box):
    page.keyboard.press("Control+k")
    page.keyboard.type("out of memory")
    chosen = page.locator("#search-results [aria-selected=true]")
    expect(chosen).to_contain_text("Out of memory")
    expect(box).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(chosen).to_have_class("search-section")
    label = chosen.get_attribute("id")
    expect(box).to_have_attribute("aria-activedescendant", label)
    target = chosen.get_attribute("href")

    page.keyboard.press("Enter")

    page.wait_for_url(target)
    assert target.partition("#")[2]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "view size is not compatible with input tensor's size and stride",
            "symptoms.html#view-size-is-not-compatible",
        ),
        (
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu",
            "symptoms.html#can-t-convert-device-type-tensor-to-numpy",
        ),
        (
            "batch must contain tensors, numpy arrays, numbers, dicts",
            "data/batches.html#batch-must-contain-tensors",
        ),
    ],
)
def test_an_error_text_leads_to_the_entry_or_section_that_has_it(
    page: Page, box, text, place
):
    box.fill(text)
    chosen = page.locator("#search-results [aria-selected=true]")
    expect(chosen).to_have_class("search-section")

    page.keyboard.press("Enter")

    page.wait_for_url(f"**/{place}*")


def test_escape_shuts_the_list_and_then_leaves_the_box(page: Page, box):
    box.press_sequentially("detach")
    panel = page.locator(".search-panel")
    expect(panel).to_be_visible()

    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(box).to_be_focused()
    page.keyboard.press("Escape")
    expect(box).not_to_be_focused()


def test_a_slash_that_somebody_writes_stays_a_slash(page: Page, box):
    box.press_sequentially("a/b")
    expect(box).to_have_value("a/b")


def test_the_number_of_pages_is_said(page: Page, box):
    status = page.get_by_role("search").get_by_role("status")
    box.fill("Muon")
    expect(status).to_contain_text("page")
    box.fill("qqqqqq")
    expect(status).to_contain_text("Nothing found")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("query", ["leak", "qqqqqq"])
def test_the_open_list_has_no_fault(page: Page, box, theme, query):
    page.emulate_media(color_scheme=theme)
    box.fill(query)
    expect(page.locator(".search-panel")).to_be_visible()

    found = Axe().run(page, ".sidebar-search-container").response

    assert [(each["id"], each["nodes"]) for each in found["violations"]] == []


def test_the_chosen_one_is_told_with_the_colors_of_a_reader(page: Page, box):
    page.emulate_media(forced_colors="active")
    box.fill("detach")
    options = page.locator("#search-results [role=option]")
    expect(options.first).to_be_visible()
    page.keyboard.press("ArrowDown")
    look = """all => all.map((each) => [getComputedStyle(each).backgroundColor,
      getComputedStyle(each).borderLeftColor])"""

    chosen = options.and_(page.locator("[aria-selected=true]"))
    [own] = chosen.evaluate_all(look)
    others = options.and_(page.locator("[aria-selected=false]"))
    for other in others.evaluate_all(look):
        assert own[0] != other[0]
        assert own[1] != other[1]


def test_an_index_that_does_not_come_is_said(browser: Browser, site: str):
    page = browser.new_page()
    page.route("**/search-index.js", lambda route: route.abort())
    page.goto(f"{site}/index.html")
    page.locator(".sidebar-search").fill("leak")
    status = page.locator(".sidebar-search-container .search-status")
    expect(status).to_contain_text("could not be loaded")
    page.close()


def test_the_box_is_found_on_a_phone(page: Page, box):
    page.set_viewport_size(PHONE)
    page.keyboard.press("/")
    expect(box).to_be_focused()
    box.press_sequentially("warmup")
    first = page.locator("#search-results a").first
    expect(first).to_contain_text("Change the learning rate")
    width = page.locator(".search-panel").bounding_box()["width"]
    assert width <= PHONE["width"]


def test_a_page_that_was_opened_from_a_folder_searches_as_well(
    browser: Browser,
):
    page = browser.new_page()
    page.goto((HTML / "index.html").as_uri())
    page.locator(".sidebar-search").fill("leak")
    first = page.locator("#search-results a").first
    expect(first).to_contain_text("Add up the loss")
    first.click()
    expect(page).to_have_url((HTML / "memory/running_loss.html").as_uri())
    page.close()


def test_without_a_script_there_is_no_box(browser: Browser, site: str):
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"{site}/index.html")
    expect(page.locator(".sidebar-search")).to_be_hidden()
    page.close()


def test_a_result_shows_its_chapter_and_the_words_around_the_hit(
    page: Page, box
):
    box.fill("frozen layer moves")

    result = page.locator(
        "#search-results [data-page='autograd/frozen_layers']"
    )
    expect(result.locator(".search-chapter")).to_have_text("Autograd")
    expect(result.locator(".search-quote mark").first).to_be_visible()


def test_a_result_that_quotes_a_claim_shows_its_scope_and_opens_its_panel(
    page: Page, box
):
    box.fill("frozen layer moves")

    result = page.locator("#search-results [data-page='models/modules']")
    found = result.locator("a", has=page.locator(".search-scope")).first
    expect(found.locator(".search-sign")).to_have_text("✓")
    expect(found.locator(".search-scope")).to_contain_text("Tried on")
    name = found.evaluate("link => link.hash.slice(1)")

    found.click()

    expect(page.locator(f"#proof-{name}")).to_be_visible()


def test_a_word_that_stands_on_no_page_is_named(page: Page, box):
    box.fill("gradient of a xylophone tensor")

    note = page.locator(".sidebar-search-container .search-note")
    expect(note).to_have_text(
        "No page has “xylophone”. These are the nearest:"
    )
    elsewhere = page.locator("#search-results [data-page=not_covered]")
    expect(elsewhere).to_have_count(1)


def test_known_words_that_no_page_has_together_are_said(page: Page, box):
    box.fill("LMDB Glorot Muon")

    note = page.locator(".sidebar-search-container .search-note")
    expect(note).to_have_text(
        "No page has all of these words. These are the nearest:"
    )
    last = page.locator("#search-results > div").last
    expect(last).to_have_attribute("data-page", "not_covered")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("brodcasting rules", "tensors/broadcasting"),  # codespell:ignore
        ("grad accumlation", "training/accumulation"),  # codespell:ignore
        ("tesnor dtype convert", "tensors/dtypes"),  # codespell:ignore
        ("learnign rate shedule", "training/schedulers"),  # codespell:ignore
        ("initialise weights", "models/initialization"),
        ("nn.init.xavier_normal_", "models/initialization"),
    ],
)
def test_a_word_that_no_page_has_leads_to_those_like_it(
    page: Page, box, typed, name
):
    box.fill(typed)

    first = page.locator("#search-results > div").first
    expect(first).to_have_attribute("data-page", name)
    mark = page.locator("#search-results .search-quote mark").first
    expect(mark).to_be_visible()


def test_nothing_found_leads_to_what_the_guide_does_not_cover(page: Page, box):
    box.fill("qqqqqq")

    result = page.locator("#search-results a")
    expect(result).to_have_text("What this guide does not cover")
    page.keyboard.press("ArrowDown")
    expect(result).to_have_attribute("aria-selected", "true")


def test_a_search_has_an_address_and_survives_the_way_back(page: Page, box):
    box.fill("gradient accumulation")
    page.locator("#search-results .search-page").first.click()
    page.wait_for_url("**/training/accumulation.html*")

    page.go_back()

    assert "?q=gradient+accumulation" in page.url
    expect(page.locator(".sidebar-search")).to_have_value(
        "gradient accumulation"
    )


def test_a_link_to_a_search_shows_what_it_finds(page: Page, site: str):
    page.goto(f"{site}/autograd/detach.html?q=frozen layer moves")

    expect(page.locator("#search-results .search-page").first).to_be_visible()
