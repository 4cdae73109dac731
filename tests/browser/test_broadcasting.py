"""Two shapes to try: what comes of them, and how one types them."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import violations

# What PyTorch prints, as tests/helpers/broadcasting.py has asked it.
PRINTED = json.loads(Path(__file__).with_name("broadcasting.json").read_text())
NONE = "\N{EN DASH}"
NARROW = {"width": 360, "height": 800}


@pytest.fixture
def piece(page: Page, site: str) -> Locator:
    """Open the page with the two shapes; return what stands around them."""
    page.goto(f"{site}/tensors/broadcasting.html")
    return page.locator(".broadcasting")


def typed(piece: Locator, a: str, b: str) -> Locator:
    """Type two shapes; return where it says what comes of them."""
    piece.get_by_label("Shape of a").fill(a)
    piece.get_by_label("Shape of b").fill(b)
    return piece.get_by_role("status")


def test_it_prints_what_pytorch_does(piece: Locator):
    found = piece.evaluate(
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


def test_a_shape_is_read_as_people_write_it(piece: Locator):
    for text in (
        "2, 3",
        " [2,3] ",
        "2 3",
        "2x3",
        "2, 3,",
        "torch.Size([2,3])",
    ):
        expect(typed(piece, text, "()")).to_contain_text("torch.Size([2, 3])")


def test_what_is_no_shape_is_named(piece: Locator):
    field = piece.get_by_label("Shape of b")
    for text in ("2, -1", "2, 1.5", "two", "10000", "1, 1, 1, 1, 1, 1"):
        expect(typed(piece, "8", text)).to_have_text(
            "Type at most five whole numbers below 10,000, as in 8, 8."
        )
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(piece.locator("table")).to_be_hidden()
        typed(piece, "8", "8")
        expect(field).to_have_attribute("aria-invalid", "false")


def test_two_shapes_are_said_to_fit_or_not(piece: Locator):
    for a, b, words in (
        ("8, 8", "1797, 1, 8", "They fit. The result has 115,008 numbers:"),
        ("", "", "The result has 1 number: 4 bytes in float32"),
        ("3", "3, 4", "in dimension 1, 3 meets 4, and neither is 1."),
        ("9999, 1, 1", "9999, 9999", "the result takes more than 1 TB"),
    ):
        expect(typed(piece, a, b)).to_contain_text(words)


def test_the_table_lines_shapes_up_on_the_right(piece: Locator):
    typed(piece, "3", "3, 4")
    rows = piece.locator("tbody tr")

    assert [row.split("\t") for row in rows.all_inner_texts()] == [
        ["a", f"{NONE} → 3", "3 ✗"],
        ["b", "3", "4 ✗"],
        ["a + b", "3", f"{NONE} ✗"],
    ]


def test_shapes_are_typed_by_keyboard(page: Page, piece: Locator):
    address = page.url
    piece.get_by_label("Shape of a").focus()
    for shape in ("3", "3, 4"):
        page.keyboard.press("Control+A")
        page.keyboard.type(shape)
        page.keyboard.press("Tab")
    expect(piece.get_by_role("status")).to_contain_text("(3) must match")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(piece.get_by_role("status")).to_contain_text("torch.Size([64, 64])")
    assert page.url == address


def test_whatever_one_types_a_phone_and_everyone_can_read_it(
    page: Page, piece: Locator
):
    page.set_viewport_size(NARROW)
    faults = []
    for a, b in (
        ("5, 3, 1", "3, 4, 0"),
        ("1111, 1111, 1111, 1, 1", "1, 1, 1, 1111, 1111"),
        ("no", "-1"),
    ):
        typed(piece, a, b)
        width = page.evaluate("document.scrollingElement.scrollWidth")
        assert width <= NARROW["width"], (a, b)
        page.emulate_media(color_scheme="light")
        faults += violations(page)
        page.emulate_media(color_scheme="dark")
        faults += violations(page)

    assert not faults, "\n".join(faults)
