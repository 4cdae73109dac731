"""What a reader does with a page: by keyboard, by touch, and with a mouse."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PHONE

# -- By keyboard -------------------------------------------------------------


def test_each_key_moves_to_what_can_be_seen(detach: Page):
    for _ in range(60):
        detach.keyboard.press("Tab")
        seen = detach.evaluate("""() => {
          const focused = document.activeElement;
          const { outlineStyle } = getComputedStyle(focused);
          const isSeen = focused.checkVisibility({ opacityProperty: true });
          return (isSeen && outlineStyle !== "none")
            || focused.outerHTML.slice(0, 100);
        }""")
        assert seen is True


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


# -- Code --------------------------------------------------------------------


def test_code_is_copied_as_it_is_with_its_links_and_that_is_said(
    detach: Page,
):
    said = detach.locator("body > [role=status]")
    expect(said).to_have_text("")
    block = (
        detach.locator("div.highlight-python")
        .filter(has=detach.locator("a.api"), visible=True)
        .first
    )
    block.hover()
    block.locator("button.copybtn").click()

    expect(said).to_have_text("Copied!")
    copied = detach.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == block.locator("pre").inner_text().strip()
    expect(said).to_have_text("")


def test_what_is_wrong_on_purpose_has_no_button(detach: Page):
    expect(detach.locator(".cell-wrong").first).to_be_visible()
    expect(detach.locator(".cell-wrong .copybtn")).to_have_count(0)


def test_a_name_in_code_leads_to_its_api_without_a_color_of_its_own(
    detach: Page,
):
    link = detach.locator(".highlight a.api").filter(visible=True).first
    color = "element => getComputedStyle(element).color"
    plain = detach.locator(".highlight pre").first

    expect(link).to_have_attribute(
        "href", re.compile(r"^https://docs\.pytorch\.org/docs/[\d.]+/")
    )
    assert link.evaluate(color) == plain.evaluate(color)
    expect(link).to_have_css("text-decoration-line", "none")


def test_an_exercise_answers_when_asked_with_what_goes_and_what_comes(
    detach: Page,
):
    answer = detach.locator(".exercise details:has(.gd)").last
    expect(answer.locator("pre").first).to_be_hidden()

    answer.locator("summary").click()

    expect(answer.locator("pre").first).to_be_visible()
    gone, come = (
        answer.locator(kind).first.evaluate(
            "line => getComputedStyle(line).boxShadow"
        )
        for kind in (".gd", ".gi")
    )
    assert "none" != gone != come != "none"


# -- The look ----------------------------------------------------------------


def test_pictures_are_those_of_the_theme(detach: Page):
    picture = "article img.only-{}"
    for theme, other in (("light", "dark"), ("dark", "light")):
        detach.emulate_media(color_scheme=theme)
        expect(detach.locator(picture.format(theme)).first).to_be_visible()
        expect(detach.locator(picture.format(other)).first).to_be_hidden()


@pytest.mark.parametrize(
    ("name", "needs_a_script"),
    [
        ("index", ".sidebar-search, .page-search"),
        ("evidence/claims/autograd", ".row-filter"),
        ("tensors/broadcasting", ".broadcasting form"),
    ],
)
def test_without_scripts_nothing_shows_that_needs_one(
    browser: Browser, site: str, name: str, needs_a_script: str
):
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"{site}/{name}.html")

    expect(page.locator(needs_a_script).first).to_be_attached()
    expect(page.locator(needs_a_script).locator("visible=true")).to_have_count(
        0
    )
    page.close()


# -- The way a page comes ----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("index", None),
        ("gallery/index", None),
        ("autograd/detach", None),
        ("index", PHONE),
        ("fix/shapes", PHONE),
    ],
)
def test_nothing_moves_while_a_page_comes(
    page: Page, site: str, name: str, view: dict[str, int] | None
):
    if view:
        page.set_viewport_size(view)
    page.add_init_script("""
      window.moved = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.moved += entry.value;
      }).observe({ type: "layout-shift", buffered: true });
    """)
    page.goto(f"{site}/{name}.html", wait_until="networkidle")

    assert page.evaluate("window.moved") < 0.01


def test_nothing_moves_by_itself_for_those_who_ask_for_rest(detach: Page):
    assert detach.evaluate("""() => [...document.querySelectorAll("*")].every(
      (each) => {
        const { animationName, scrollBehavior } = getComputedStyle(each);
        return animationName === "none" && scrollBehavior === "auto";
      })""")
