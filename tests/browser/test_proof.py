"""What a reader sees of the proof of a claim: outputs, and its tests."""

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PHONE


def outputs(page: Page, site: str) -> list[Locator]:
    """Return what a program prints before a change, and after it."""
    page.goto(f"{site}/autograd/detach.html")
    panel = page.locator(".claim-panel:has(.claim-outputs)").first
    page.goto(f"{page.url}#{panel.get_attribute('id')}")
    shown = panel.locator("details[open] > .claim-outputs").first
    expect(shown).to_be_visible()
    return shown.locator("> div").all()


def tops(boxes: list[Locator]) -> list[float]:
    """Return where some boxes begin, from the top."""
    found = [each.bounding_box() for each in boxes]
    return [box["y"] for box in found if box]


def test_outputs_stand_side_by_side(page: Page, site: str):
    before, after = tops(outputs(page, site))

    assert before == after


def test_on_a_phone_the_output_after_stands_below(page: Page, site: str):
    page.set_viewport_size(PHONE)

    before, after = tops(outputs(page, site))

    assert before < after


def test_the_tests_of_a_claim_show_alone_and_lead_back(page: Page, site: str):
    page.goto(f"{site}/autograd/detach.html#the-graph-ends-at-the-cut")
    panel = page.locator("#proof-the-graph-ends-at-the-cut")
    words = panel.locator(".claim-words").inner_text()
    panel.get_by_role("link", name="The test", exact=True).click()

    claims = page.locator(".proof-claim:visible")
    expect(claims).to_have_count(1)
    expect(claims.first).to_have_text(words)
    expect(claims.first).to_be_in_viewport()
    tests = page.locator(".proof-part[id]:visible")
    expect(tests.first).to_contain_text("def test_the_graph_ends_at_the_cut(")

    page.get_by_role("link", name="Show the whole file").click()
    expect(claims).not_to_have_count(1)
    expect(page.locator(".proof-chosen")).to_be_hidden()

    page.go_back()
    expect(claims).to_have_count(1)
    claims.get_by_role("link").click()
    expect(panel).to_be_visible()


def test_a_counter_example_is_shown_at_its_test(page: Page, site: str):
    page.goto(f"{site}/autograd/detach.html#the-graph-ends-at-the-cut")
    panel = page.locator("#proof-the-graph-ends-at-the-cut")
    panel.locator("details[open] a").first.click()

    target = page.locator("[id^='line-']:target")
    expect(target).to_be_in_viewport()
    expect(target).to_contain_text("def test_the_graph_ends_at_the_cut__but")
