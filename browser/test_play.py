"""The pieces to play with: what they answer, and how one uses them."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from browser.axe import violations
from browser.conftest import HTML

# What PyTorch answers, as tests/helpers/pieces.py has asked it.
ANSWERS = json.loads(Path(__file__).with_name("pieces.json").read_text())
PAGES = {
    "broadcasting": "tensors/broadcasting",
    "reshape": "tensors/shapes",
    "gradient": "autograd/gradients",
}
MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
NARROW = {"width": 360, "height": 800}
# What a piece answers to its inputs, in the form of the answers.
ANSWERED = {
    "broadcasting": "([a, b]) => play.broadcast(a, b)",
    "reshape": """([sizes, text]) => {
      const { calls, problem } = play.callsIn(text);
      return problem ? { problem } : play.reshaped(sizes, calls);
    }""",
    "gradient": """([numbers]) => {
      const { w, b } = play.step(numbers);
      return { ...play.gradient(numbers), step: { w, b } };
    }""",
}
# What stands in the fields of a piece, each of which says something else.
TYPED: dict[str, list[dict[str, str]]] = {
    "broadcasting": [
        {"a": "3", "b": "3, 4"},
        {"a": "5, 3, 1", "b": "3, 4, 0"},
        {"a": "2, 3, 4, 5, 6, 7", "b": ""},
        {"a": "no", "b": "-1"},
    ],
    "reshape": [
        {"sizes": "2, 3, 4", "call": "permute(1, 0, 2).view(3, 8)"},
        {"sizes": "2, 3, 4", "call": "permute(1, 0, 2).reshape(3, 8)"},
        {"sizes": "64", "call": "view(2, 2, 2, 2, 2, 2)"},
        {"sizes": "0, 3", "call": "permute(1, 0)"},
        {"sizes": "", "call": "transpose(0, 1)"},
    ],
    "gradient": [
        {"w": "-9.8765", "x": "8.7654", "b": "-1.2345", "y": "10"},
        {"w": "999.9999", "x": "-999.9999", "b": "0", "y": "0.00001"},
        {"w": "", "x": "0", "b": "0", "y": "0"},
    ],
}


def opened(page: Page, site: str, name: str) -> Locator:
    """Open the page of a piece; return the piece."""
    page.goto(f"{site}/{PAGES[name]}.html")
    return page.locator(f'[data-play="{name}"]')


def said(piece: Locator) -> Locator:
    """Return where a piece says what comes of its fields."""
    return piece.get_by_role("status")


def typed(piece: Locator, fields: dict[str, str]) -> None:
    """Type into some fields of a piece."""
    for name, text in fields.items():
        piece.locator(f"[name={name}]").fill(text)


# -- What they answer ---------------------------------------------------------


def same(one: Any, other: Any) -> bool:
    """Whether two answers are the same, numbers to the last bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same(one[key], other[key]) for key in one
        )
    if isinstance(one, float):
        return one.hex() == float(other).hex()
    return one == other


@pytest.mark.parametrize("name", PAGES)
def test_a_piece_answers_as_pytorch_does(page: Page, site: str, name: str):
    opened(page, site, name)
    rows = ANSWERS[name]
    found = page.evaluate(f"rows => rows.map({ANSWERED[name]})", rows)

    assert len(rows) >= 300
    assert [
        (*given, expected, answer)
        for (*given, expected), answer in zip(rows, found, strict=True)
        if not same(expected, answer)
    ] == []


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
    opened(page, site, "broadcasting")

    assert page.evaluate("play.shapeIn", text) == {"shape": [2, 3]}


@pytest.mark.parametrize("text", ["", " ", "()", "[]", "torch.Size([])"])
def test_a_number_has_an_empty_shape(page: Page, site: str, text: str):
    opened(page, site, "broadcasting")

    assert page.evaluate("play.shapeIn", text) == {"shape": []}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2, -1", "A size is never negative, but here is -1."),
        ("2, 1.5", "Type whole numbers with commas between them."),
        ("two", "Type whole numbers with commas between them."),
        ("2,, 3", "Type whole numbers with commas between them."),
        ("(2, 3", "Type whole numbers with commas between them."),
        ("100001", "Type sizes of at most 100,000."),
        ("1, 1, 1, 1, 1, 1, 1", "Type at most 6 sizes."),
    ],
)
def test_what_is_no_shape_is_named(
    page: Page, site: str, text: str, problem: str
):
    piece = opened(page, site, "broadcasting")
    typed(piece, {"b": text})

    expect(said(piece)).to_have_text(f"Shape of b: {problem}")
    expect(piece.get_by_label("Shape of b")).to_have_attribute(
        "aria-invalid", "true"
    )
    typed(piece, {"b": "8"})
    expect(piece.locator("[aria-invalid]")).to_have_count(0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Type a call such as permute(2, 0, 1)."),
        ("permute(2, 0, 1", "Type a call such as permute(2, 0, 1)."),
        ("reshape((2, 12)).", "Type a call such as permute(2, 0, 1)."),
        ("view(24) view(24)", "Type a call such as permute(2, 0, 1)."),
        ("transpose(0, 1)", "Type reshape, view or permute, not transpose."),
        ("reshape(2 12)", "Type whole numbers with commas between them."),
        ("toString()", "Type reshape, view or permute, not toString."),
    ],
)
def test_what_is_no_call_is_named(
    page: Page, site: str, text: str, problem: str
):
    piece = opened(page, site, "reshape")
    typed(piece, {"call": text})

    expect(said(piece)).to_have_text(f"Call on x: {problem}")


def test_a_tensor_that_is_too_large_to_draw_is_named(page: Page, site: str):
    piece = opened(page, site, "reshape")
    typed(piece, {"sizes": "13, 5"})

    expect(said(piece)).to_contain_text("These make 65 numbers.")


def test_a_result_that_no_memory_holds_is_named(page: Page, site: str):
    piece = opened(page, site, "broadcasting")
    typed(piece, {"a": "99999, 1, 1", "b": "99999, 99999"})
    expect(said(piece)).to_have_text(
        "They fit, but the result (99999, 99999, 99999) is more than 1 TB"
        " in float32. Type smaller sizes."
    )

    typed(piece, {"a": "0", "b": "99999, 99999, 99999, 1"})
    expect(said(piece)).to_contain_text("Shape of b: (99999,")


# -- What they say ------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (
            "8, 8",
            "1797, 1, 8",
            "They fit. The result has 115,008 numbers, 460 kB in float32."
            " a is stretched along dimension 0."
            " b is stretched along dimension 1.",
        ),
        ("", "", "1 number, 4 bytes in float32. Neither is stretched."),
        ("1, 2, 1", "3, 2, 4", "a is stretched along dimensions 0 and 2."),
        ("3", "4", "In dimension 0, 3 meets 4, and neither is 1."),
        ("3", "3, 4", "In dimension 1 of the longer shape, 3 meets 4"),
        ("5, 3", "3, 4", "The error names the last such dimension."),
    ],
)
def test_two_shapes_are_said_to_fit_or_not(
    page: Page, site: str, a: str, b: str, words: str
):
    piece = opened(page, site, "broadcasting")
    typed(piece, {"a": a, "b": b})

    expect(said(piece)).to_contain_text(words)


def test_the_table_lines_shapes_up_on_the_right(page: Page, site: str):
    piece = opened(page, site, "broadcasting")
    typed(piece, {"a": "3", "b": "3, 4"})
    rows = piece.locator("tbody tr")

    assert [row.split("\t") for row in rows.all_inner_texts()] == [
        ["a", f"{NONE} → 3", "3 ✗"],
        ["b", "3", "4 ✗"],
        ["a + b", "3", f"{NONE} ✗"],
    ]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            "permute(2, 0, 1)",
            "y is a view. No number moves in memory: the new",
        ),
        ("reshape(4, -1)", "y is a view. No number moves in memory: row by"),
        ("permute(1, 0, 2).reshape(3, 8)", "y does not share the memory of x"),
        ("permute(1, 0, 2).view(3, 8)", "RuntimeError: view size is not"),
    ],
)
def test_a_call_is_said_to_share_memory_or_to_copy(
    page: Page, site: str, call: str, words: str
):
    piece = opened(page, site, "reshape")
    typed(piece, {"call": call})

    expect(said(piece)).to_contain_text(words)


def test_each_number_keeps_its_color(page: Page, site: str):
    piece = opened(page, site, "reshape")
    colors = """all => all.map(each =>
      [each.textContent, getComputedStyle(each).backgroundColor])"""
    found = piece.locator(".play-number").evaluate_all(colors)
    x, y = found[:24], found[24:]

    assert [number for number, _ in y[:4]] == ["0", "4", "8", "12"]
    assert sorted(x) == sorted(y)
    assert len({color for _, color in x}) == 24


def test_a_slider_and_its_number_move_together(page: Page, site: str):
    piece = opened(page, site, "gradient")
    slider = piece.get_by_label("w, by a slider")
    slider.fill("4.5")
    expect(piece.locator("[name=w]")).to_have_value("4.5")
    expect(said(piece)).to_have_text(
        "The loss is 0. Gradients: w\u00a00, x\u00a00, b\u00a00, y\u00a00."
    )

    typed(piece, {"w": "-1.5"})
    expect(slider).to_have_value("-1.5")
    graph = str(piece.get_by_role("img").get_attribute("aria-label"))
    assert graph.replace(MINUS, "-").split("; ") == [
        "w is -1.5, gradient -48",
        "x is 2, gradient 36",
        "w · x is -3, gradient -24",
        "b is 1, gradient -24",
        "w · x + b is -2, gradient -24",
        "y is 10, gradient 24",
        "w · x + b - y is -12, gradient -24",
        "loss is 144, gradient 1.",
    ]


def test_steps_lead_down_and_back_to_the_start(page: Page, site: str):
    piece = opened(page, site, "gradient")
    step = piece.get_by_role("button", name="Move w and b")
    step.click()
    expect(piece.locator("[name=w]")).to_have_value("3.12")
    expect(piece.locator("[name=b]")).to_have_value("1.06")
    expect(said(piece)).to_contain_text("The loss is 7.29.")
    for _ in range(4):
        step.click()
    expect(said(piece)).to_contain_text("The loss is 3.1381.")

    piece.get_by_role("button", name="Start again").click()
    expect(said(piece)).to_contain_text("The loss is 9.")
    expect(piece.get_by_label("w, by a slider")).to_have_value("3")


@pytest.mark.parametrize("text", ["", "1000.1", "-2000"])
def test_what_is_no_number_is_named(page: Page, site: str, text: str):
    piece = opened(page, site, "gradient")
    typed(piece, {"x": text})

    expect(said(piece)).to_have_text(
        f"Type a number from {MINUS}1000 to 1000 for x."
    )


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (-0.0, "0"),
        (-18, f"{MINUS}18"),
        (0.1 + 0.2, "0.3"),
        (3.14159, "3.1416"),
        (0.00004, "0"),
        (9999.99999, "10000"),
        (1234567, "1.235e6"),
    ],
)
def test_numbers_have_four_digits(
    page: Page, site: str, number: float, shown: str
):
    opened(page, site, "gradient")

    assert page.evaluate("play.fourDigits", number) == shown


# -- How one uses them --------------------------------------------------------


def test_shapes_are_typed_by_keyboard(page: Page, site: str):
    piece = opened(page, site, "broadcasting")
    piece.get_by_label("Shape of a").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    page.keyboard.press("Tab")
    expect(piece.get_by_label("Shape of b")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("3, 4")
    page.keyboard.press("Enter")

    assert page.url == f"{site}/tensors/broadcasting.html"
    expect(said(piece)).to_contain_text("(3) must match")

    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(said(piece)).to_contain_text("torch.Size([64, 64])")


def test_an_example_is_taken_by_keyboard(page: Page, site: str):
    piece = opened(page, site, "reshape")
    typed(piece, {"sizes": "5"})
    piece.get_by_label("Call on x").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")

    expect(piece.get_by_label("Sizes of x")).to_have_value("2, 3, 4")
    expect(said(piece)).to_contain_text("torch.Size([4, 2, 3])")


def test_numbers_are_moved_by_keyboard(page: Page, site: str):
    piece = opened(page, site, "gradient")
    piece.locator("[name=w]").focus()
    page.keyboard.press("ArrowUp")
    expect(said(piece)).to_contain_text("The loss is 1.")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")

    expect(said(piece)).to_contain_text("The loss is 1.44.")
    for _ in range(7):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(piece.locator("[name=w]")).to_have_value("3.9480002")


def test_what_is_too_wide_is_scrolled_by_keyboard(page: Page, site: str):
    piece = opened(page, site, "reshape")
    wide = piece.locator(".play-wide")
    expect(wide).not_to_have_attribute("tabindex", "0")
    typed(piece, {"sizes": "64", "call": "view(8, 8)"})

    expect(wide).to_have_attribute("tabindex", "0")
    typed(piece, {"sizes": "8", "call": "view(2, 4)"})
    expect(wide).not_to_have_attribute("tabindex", "0")


@pytest.mark.parametrize("name", PAGES)
def test_each_field_and_button_has_a_name_of_its_own(
    page: Page, site: str, name: str
):
    piece = opened(page, site, name)
    names = [
        *piece.get_by_role("textbox").all(),
        *piece.get_by_role("spinbutton").all(),
        *piece.get_by_role("slider").all(),
        *piece.get_by_role("button").all(),
    ]
    said_of_all = [each.aria_snapshot() for each in names]

    assert len(said_of_all) > 4
    assert len(set(said_of_all)) == len(said_of_all)
    assert all('"' in each for each in said_of_all)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_holds_what_the_script_shows_at_first(
    browser: Browser, site: str, name: str
):
    found = []
    for has_scripts in (False, True):
        context = browser.new_context(java_script_enabled=has_scripts)
        piece = opened(context.new_page(), site, name)
        expect(said(piece)).to_be_visible()
        found.append(piece.locator(".play-result").inner_html())
        expect(piece.locator("form")).to_be_visible(visible=has_scripts)
        context.close()

    assert found[0] == found[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_whatever_one_types_a_phone_and_everyone_can_read_it(
    page: Page, site: str, name: str, scheme: Any
):
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme=scheme)
    piece = opened(page, site, name)
    faults = []
    for fields in [{}, *TYPED[name]]:
        typed(piece, fields)
        faults += violations(page)
        width = page.evaluate("document.scrollingElement.scrollWidth")
        assert width <= NARROW["width"], fields
        for field in piece.locator("input, button").all():
            box = field.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= 24

    assert not faults, "\n".join(faults)


def test_only_pages_with_a_piece_load_its_script(page: Page, site: str):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site}/autograd/detach.html")
    assert not [url for url in asked if "/play" in url]

    opened(page, site, "gradient")
    scripts = [url.partition("?")[0].rpartition("/")[2] for url in asked]
    assert [each for each in scripts if each.startswith("play")] == [
        "play.css",
        "play.js",
        "play-gradient.js",
    ]


def test_a_piece_works_in_a_page_that_was_opened_from_a_folder(
    browser: Browser,
):
    page = browser.new_page()
    page.goto((HTML / "tensors/broadcasting.html").as_uri())
    piece = page.locator('[data-play="broadcasting"]')
    typed(piece, {"a": "2"})

    expect(said(piece)).to_contain_text("(2) must match")
    page.close()
