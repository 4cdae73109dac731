"""Two shapes to try: what comes of them, and how one types them."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.axe import violations
from tests.browser.conftest import HTML

# What PyTorch prints, as tests/helpers/broadcasting.py has asked it.
PRINTED = json.loads(Path(__file__).with_name("broadcasting.json").read_text())
ADDRESS = "tensors/broadcasting.html"
NONE = "\N{EN DASH}"
NARROW = {"width": 360, "height": 800}


def opened(page: Page, site: str) -> Locator:
    """Open the page with the two shapes; return what stands around them."""
    page.goto(f"{site}/{ADDRESS}")
    return page.locator(".broadcasting")


def said(piece: Locator) -> Locator:
    """Return where it says what comes of the shapes."""
    return piece.get_by_role("status")


def typed(piece: Locator, a: str, b: str) -> None:
    """Type two shapes."""
    piece.get_by_label("Shape of a").fill(a)
    piece.get_by_label("Shape of b").fill(b)


def test_it_prints_what_pytorch_does(page: Page, site: str):
    found = opened(page, site).evaluate(
        """(piece, rows) => rows.map(([a, b]) => {
          const form = piece.querySelector("form");
          [form.a.value, form.b.value] = [a, b];
          form.dispatchEvent(new Event("input"));
          const printed = piece.querySelector("pre").textContent;
          return [a, b, printed.split("\\n", 2)[1]];
        })""",
        PRINTED,
    )

    assert len(PRINTED) > 500
    assert found == PRINTED


@pytest.mark.parametrize(
    "text",
    [
        "2, 3",
        "(2, 3)",
        " [2,3] ",
        "2 3",
        "2x3",
        "2, 3,",
        "torch.Size([2, 3])",
        "((2, 3))",
    ],
)
def test_a_shape_is_read_as_people_write_it(page: Page, site: str, text: str):
    piece = opened(page, site)
    typed(piece, text, "[]")

    expect(said(piece)).to_contain_text("torch.Size([2, 3])")


@pytest.mark.parametrize(
    "text", ["2, -1", "2, 1.5", "two", "10000", "1, 1, 1, 1, 1, 1"]
)
def test_what_is_no_shape_is_named(page: Page, site: str, text: str):
    piece = opened(page, site)
    typed(piece, "8", text)

    expect(said(piece)).to_have_text(
        "Type at most five whole numbers below 10,000, as in 8, 8."
    )
    field = piece.get_by_label("Shape of b")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(piece.locator("table")).to_be_hidden()
    typed(piece, "8", "8")
    expect(piece.locator("[aria-invalid=true]")).to_have_count(0)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (
            "8, 8",
            "1797, 1, 8",
            "They fit. The result has 115,008 numbers: 460,032"
            " bytes in float32.",
        ),
        ("", "", "The result has 1 number: 4 bytes"),
        ("3", "3, 4", "in dimension 1, 3 meets 4, and neither is 1."),
        ("5, 3", "3, 4", "in dimension 1, 3 meets 4, and neither is 1."),
        ("9999, 1, 1", "9999, 9999", "the result takes more than 1 TB"),
    ],
)
def test_two_shapes_are_said_to_fit_or_not(
    page: Page, site: str, a: str, b: str, words: str
):
    piece = opened(page, site)
    typed(piece, a, b)

    expect(said(piece)).to_contain_text(words)


def test_the_table_lines_shapes_up_on_the_right(page: Page, site: str):
    piece = opened(page, site)
    typed(piece, "3", "3, 4")
    rows = piece.locator("tbody tr")

    assert [row.split("\t") for row in rows.all_inner_texts()] == [
        ["a", f"{NONE} → 3", "3 ✗"],
        ["b", "3", "4 ✗"],
        ["a + b", "3", f"{NONE} ✗"],
    ]


def test_shapes_are_typed_by_keyboard(page: Page, site: str):
    piece = opened(page, site)
    piece.get_by_label("Shape of a").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    page.keyboard.press("Tab")
    expect(piece.get_by_label("Shape of b")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("3, 4")
    page.keyboard.press("Enter")

    assert page.url == f"{site}/{ADDRESS}"
    expect(said(piece)).to_contain_text("(3) must match")

    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(said(piece)).to_contain_text("torch.Size([64, 64])")


def test_without_scripts_there_is_an_example(browser: Browser, site: str):
    context = browser.new_context(java_script_enabled=False)
    piece = opened(context.new_page(), site)

    expect(piece.get_by_text("For example, (8, 8) and")).to_be_visible()
    expect(piece.locator("form")).to_be_hidden()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_whatever_one_types_a_phone_and_everyone_can_read_it(
    page: Page, site: str, scheme: Any
):
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme=scheme)
    piece = opened(page, site)
    faults = []
    for a, b in [
        ("8, 8", "1797, 1, 8"),
        ("5, 3, 1", "3, 4, 0"),
        ("1111, 1111, 1111, 1, 1", "1, 1, 1, 1111, 1111"),
        ("no", "-1"),
    ]:
        typed(piece, a, b)
        faults += violations(page)
        width = page.evaluate("document.scrollingElement.scrollWidth")
        assert width <= NARROW["width"], (a, b)
        for field in piece.locator("input, button").all():
            box = field.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= 24

    assert not faults, "\n".join(faults)


def test_it_works_in_a_page_that_was_opened_from_a_folder(browser: Browser):
    page = browser.new_page()
    page.goto((HTML / ADDRESS).as_uri())
    piece = page.locator(".broadcasting")
    typed(piece, "2", "8")

    expect(said(piece)).to_contain_text("(2) must match")
    page.close()
