"""What a reader does with a page: by keyboard, by touch, and with a mouse."""

import json
import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import HTML, PHONE


@pytest.fixture
def topic(page: Page, site: str) -> Page:
    """Return a page that stands for all topics, opened."""
    page.goto(f"{site}/autograd/detach.html")
    return page


def first_claim(page: Page) -> tuple[Locator, Locator]:
    """Return the first sign of a page, and the panel that it opens."""
    sign = page.locator("a.claim-sign").first
    name = str(sign.get_attribute("aria-controls"))
    return sign, page.locator(f"#{name}")


def press(page: Page, *keys: str) -> None:
    """Press some keys, one after the other."""
    for key in keys:
        page.keyboard.press(key)


# -- By keyboard -------------------------------------------------------------


def test_the_first_key_offers_to_skip_to_the_text(topic: Page):
    press(topic, "Tab")
    expect(topic.locator(".skip-to-content")).to_be_focused()
    expect(topic.locator(".skip-to-content")).to_be_in_viewport()

    press(topic, "Enter", "Tab")

    inside = "document.querySelector('article').contains"
    assert topic.evaluate(f"{inside}(document.activeElement)")


def test_keys_reach_a_sign_its_panel_and_the_text_again(topic: Page):
    sign, panel = first_claim(topic)
    for _ in range(200):
        press(topic, "Tab")
        if sign.evaluate("each => each === document.activeElement"):
            break
    expect(sign).to_be_focused()
    expect(panel).to_be_hidden()

    press(topic, "Enter")
    expect(sign).to_have_attribute("aria-expanded", "true")
    expect(panel).to_be_focused()
    press(topic, "Tab")
    expect(panel.locator(".claim-close")).to_be_focused()
    press(topic, "Escape")

    expect(panel).to_be_hidden()
    expect(sign).to_be_focused()
    expect(sign).to_have_attribute("aria-expanded", "false")

    press(topic, "Space")
    expect(panel).to_be_focused()


def test_each_key_moves_to_what_can_be_seen(topic: Page):
    for _ in range(60):
        press(topic, "Tab")
        seen = topic.evaluate("""() => {
          const focused = document.activeElement;
          const { outlineStyle } = getComputedStyle(focused);
          const isSeen = focused.checkVisibility({ opacityProperty: true });
          return (isSeen && outlineStyle !== "none")
            || focused.outerHTML.slice(0, 100);
        }""")
        assert seen is True


def test_code_that_is_too_wide_scrolls_by_keyboard(topic: Page):
    topic.set_viewport_size(PHONE)
    wide = topic.locator("pre[tabindex='0']").first
    wide.focus()

    press(topic, "ArrowRight")

    topic.wait_for_function(
        "box => box.scrollLeft > 0", arg=wide.element_handle()
    )


def test_code_in_a_fold_is_reached_once_the_fold_is_open(
    page: Page, site: str
):
    page.set_viewport_size(PHONE)
    page.goto(f"{site}/models/predict.html")
    page.locator("details:has(pre)").evaluate_all(
        "all => all.forEach(each => (each.open = true))"
    )

    page.wait_for_function("""() => {
      const all = [...document.querySelectorAll("details pre")];
      const wide = all.filter((each) => each.scrollWidth > each.clientWidth);
      return wide.length && wide.every((each) => each.tabIndex === 0
        && each.hasAttribute("tabindex"));
    }""")


# -- By touch ----------------------------------------------------------------


def test_a_tap_opens_a_panel_that_fits_a_phone(browser: Browser, site: str):
    context = browser.new_context(
        viewport=PHONE, has_touch=True, is_mobile=True, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(f"{site}/autograd/detach.html")
    sign, panel = first_claim(page)

    sign.tap()
    expect(panel).to_be_visible()
    box = panel.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    panel.locator(".claim-close").tap()

    expect(panel).to_be_hidden()
    context.close()


# -- With a mouse ------------------------------------------------------------


def test_one_panel_is_open_at_a_time_and_the_sign_stays(topic: Page):
    first, panel = first_claim(topic)
    first.click()
    second = topic.locator("a.claim-sign").nth(1)
    second.scroll_into_view_if_needed()
    before = second.bounding_box()

    second.click()

    expect(panel).to_be_hidden()
    expect(topic.locator(".claim-panel.is-open")).to_have_count(1)
    after = second.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 2


def test_the_words_of_a_claim_open_its_panel(topic: Page):
    sign, panel = first_claim(topic)
    words = topic.locator(".claim").first
    line = "text-decoration-line"

    words.hover()
    expect(words).to_have_css(line, "underline")
    words.click()
    expect(panel).to_be_visible()
    words.click()

    expect(panel).to_be_hidden()
    expect(sign).to_have_attribute("aria-expanded", "false")


def test_the_address_of_a_claim_opens_its_panel(topic: Page):
    sign, panel = first_claim(topic)
    address = f"{topic.url}{sign.get_attribute('href')}"

    for each in (address, address.replace("#proof-", "#")):
        topic.goto("about:blank")
        topic.goto(each)
        expect(panel).to_be_visible()
        press(topic, "Escape")
        expect(panel).to_be_hidden()


def test_a_panel_of_a_table_is_as_wide_as_the_page(page: Page, site: str):
    page.goto(f"{site}/data/loading.html")
    sign = page.locator("td a.claim-sign").first
    sign.click()

    panel = page.locator(".claim-panel.is-open").bounding_box()
    text = page.locator("article").bounding_box()

    assert panel is not None
    assert text is not None
    assert panel["width"] > 0.9 * text["width"]


def test_each_panel_has_the_name_of_its_claim(topic: Page):
    names = topic.locator("a.claim-sign").evaluate_all(
        "all => all.map((each) => each.getAttribute('aria-label'))"
    )

    assert len({*names}) == len(names)


def test_a_panel_gives_the_address_of_its_words(topic: Page):
    sign, panel = first_claim(topic)
    sign.click()

    panel.locator(".claim-link").click()
    expect(panel.locator(".claim-link")).to_have_text("Copied")
    expect(panel.locator(".claim-link")).to_have_text("Link to these words")

    address = topic.evaluate("navigator.clipboard.readText()")
    topic.goto(address)
    expect(topic.locator(".claim:target")).to_be_in_viewport()


def test_a_fold_opens_by_click_and_by_key(topic: Page):
    fold = topic.locator(".cell-folded > details").first

    fold.locator("summary").click()
    expect(fold.locator("pre")).to_be_visible()
    press(topic, "Enter")

    expect(fold.locator("pre")).to_be_hidden()


def test_an_exercise_answers_when_asked(topic: Page):
    answer = topic.locator(".exercise details").last
    expect(answer.locator("pre").first).to_be_hidden()

    answer.locator("summary").click()

    expect(answer.locator("pre").first).to_be_visible()


def test_a_button_copies_a_cell_as_it_stands(topic: Page):
    cell = topic.locator(".cell:not(.cell-wrong) > .highlight-python").first
    cell.hover()

    cell.locator(".copybtn").click()

    copied = topic.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == cell.locator("pre").inner_text().strip()


def test_that_code_is_copied_is_said(topic: Page):
    said = topic.locator("body > [role=status]")
    expect(said).to_have_text("")

    topic.locator(".cell .highlight").filter(visible=True).first.hover()
    topic.locator("button.copybtn").filter(visible=True).first.click()

    expect(said).to_have_text("Copied!")
    expect(said).to_have_text("")


def test_a_finger_sees_the_button_that_copies(browser: Browser, site: str):
    context = browser.new_context(
        viewport=PHONE, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(f"{site}/autograd/detach.html")

    expect(page.locator("button.copybtn").first).to_have_css("opacity", "1")
    context.close()


def test_an_answer_shows_what_goes_and_what_comes(topic: Page):
    colors = [
        topic.locator(f".exercise {kind}").first.evaluate(
            "line => getComputedStyle(line).boxShadow"
        )
        for kind in (".gd", ".gi")
    ]

    assert "none" not in colors
    assert colors[0] != colors[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_claim_has_the_color_of_its_verdict(
    page: Page, site: str, theme: Literal["light", "dark"]
):
    page.emulate_media(color_scheme=theme)
    page.goto(f"{site}/models/devices.html")
    colors = set()
    for kind in ("passed", "not-run"):
        sign = page.locator(f"a.claim-{kind}").first
        color = sign.evaluate("each => getComputedStyle(each).color")
        sign.hover()
        expect(sign).to_have_css("color", color)
        sign.click()
        panel = page.locator(".claim-panel.is-open")
        expect(panel).to_have_css("border-left-color", color)
        words = page.locator(".claim.is-shown")
        expect(words).to_have_css("text-decoration-color", color)
        colors.add(color)

    assert len(colors) == 2


def test_what_is_wrong_on_purpose_has_no_button(topic: Page):
    expect(topic.locator(".cell-wrong").first).to_be_visible()
    expect(topic.locator(".cell-wrong .copybtn")).to_have_count(0)


def test_the_theme_is_chosen_and_kept(topic: Page):
    body = topic.locator("body")
    expect(body).to_have_attribute("data-theme", "auto")
    button = topic.locator(".theme-toggle-content button")

    chosen = set()
    for _ in range(2):
        button.click()
        chosen.add(body.get_attribute("data-theme"))
    last = body.get_attribute("data-theme")
    topic.reload()

    assert chosen == {"light", "dark"}
    expect(body).to_have_attribute("data-theme", str(last))


def test_pictures_are_those_of_the_theme(topic: Page):
    picture = "article img.only-{}"
    for theme, other in (("light", "dark"), ("dark", "light")):
        topic.emulate_media(color_scheme=theme)
        expect(topic.locator(picture.format(theme)).first).to_be_visible()
        expect(topic.locator(picture.format(other)).first).to_be_hidden()


# -- The ledger --------------------------------------------------------------


def test_a_filter_stands_in_the_address(page: Page, site: str):
    page.goto(f"{site}/evidence/claims/autograd.html")
    rows = page.locator("tr[data-verdict]:visible")
    whole = rows.count()

    page.get_by_label("Words").fill("frozen")
    found = rows.count()
    page.goto(page.url)

    assert 0 < found < whole
    expect(page).to_have_url(re.compile(r"\?words=frozen$"))
    expect(page.get_by_label("Words")).to_have_value("frozen")
    expect(rows).to_have_count(found)
    expect(page.locator("output")).to_contain_text(f"{found} of {whole}")


@pytest.mark.parametrize("at", [0, 50, -1])
def test_the_address_of_a_row_leads_to_it(page: Page, site: str, at: int):
    ledger = f"{site}/evidence/claims/training.html"
    page.goto(ledger)
    rows = page.locator("tr[data-verdict]")
    row = rows.nth(at).get_attribute("id")

    page.goto("about:blank")
    page.goto(f"{ledger}#{row}")

    expect(page.locator(f"#{row}:target")).to_be_in_viewport()


def test_a_topic_without_a_row_that_fits_is_not_shown(page: Page, site: str):
    page.goto(f"{site}/evidence/claims/training.html")
    topics = page.locator(".ledger-topic:visible")
    whole = topics.count()

    page.locator("select[name=topic]").select_option("training/zero_grad")

    assert whole > 1
    expect(topics).to_have_count(1)
    expect(topics).to_contain_text("zero_grad")


def test_a_row_leads_to_its_words_and_its_test(page: Page, site: str):
    page.goto(f"{site}/evidence/claims/autograd.html")
    row = page.locator("tr[data-verdict]").first
    words = row.locator("a").first
    claim = str(words.get_attribute("href")).partition("#")[2]

    row.get_by_role("link", name="test", exact=True).click()
    expect(page.locator("[id^=line-]:target")).to_contain_text("def test_")
    page.go_back()
    words.click()

    expect(page.locator(f"#{claim}:target")).to_be_in_viewport()


# -- Files -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["autograd/detach", "gallery/leaking_loss"])
def test_a_page_offers_its_program_and_its_notebook(
    browser: Browser, site: str, name: str
):
    page = browser.new_page()
    page.goto(f"{site}/{name}.html")
    links = page.locator(".page-head a[download]")
    kinds = {}
    for place in range(links.count()):
        with page.expect_download() as download:
            links.nth(place).click()
        path = Path(download.value.path())
        kinds[download.value.suggested_filename] = path.read_text()

    stem = name.replace("/", "-")
    assert set(kinds) == {f"{stem}.py", f"{stem}.ipynb"}
    compile(kinds[f"{stem}.py"], f"{stem}.py", "exec")
    assert json.loads(kinds[f"{stem}.ipynb"])["nbformat"] == 4


def test_every_link_of_the_site_reaches_a_file():
    for path in HTML.rglob("*.html"):
        for link in re.findall(r'href="([^"#?:]+)[#?"]', path.read_text()):
            assert (path.parent / link).exists(), f"{path}: {link}"


# -- The way a page comes ----------------------------------------------------


@pytest.mark.parametrize("name", ["index", "gallery/index", "autograd/detach"])
def test_nothing_moves_while_a_page_comes(page: Page, site: str, name: str):
    page.add_init_script("""
      window.moved = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.moved += entry.value;
      }).observe({ type: "layout-shift", buffered: true });
    """)
    page.goto(f"{site}/{name}.html", wait_until="networkidle")

    assert page.evaluate("window.moved") < 0.01


def test_nothing_moves_on_a_phone(page: Page, site: str):
    page.set_viewport_size(PHONE)
    for name in ("index", "symptoms"):
        test_nothing_moves_while_a_page_comes(page, site, name)


def test_nothing_moves_by_itself_for_those_who_ask_for_rest(topic: Page):
    assert topic.evaluate("""() => [...document.querySelectorAll("*")].every(
      (each) => {
        const { animationName, scrollBehavior } = getComputedStyle(each);
        return animationName === "none" && scrollBehavior === "auto";
      })""")
