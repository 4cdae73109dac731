"""Whoever follows an old address comes to the new one."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

TEMPLATES = Path(__file__).parent.parent / "extensions/claims/templates"
CLAIM = "the-graph-ends-at-the-cut"
OLD = "autograd/gradients.html"
NEW = "autograd/detach.html"


def moved(address: str) -> str:
    """Return the list of one claim that moved, as the build writes it."""
    text = (TEMPLATES / "moved_claims.html").read_text()
    item = text.partition("{%- for each in moved %}")[2]
    item = re.sub(r"{% else %}.*?{% endif %}", "", item)
    values = {"name": "old", "address": address, "words": "It moved"}
    for name, value in values.items():
        item = re.sub(rf"{{{{ each.{name}(\|e)? }}}}", value, item)
    return '<ul class="moved">' + re.sub(r"{[%{].*?[%}]}", "", item)


def serve(page: Page, path: str, address: str) -> None:
    """Let a claim have moved from a page of the site."""

    def answer(route: Route) -> None:
        response = route.fetch()
        html = response.text().replace(
            "</article>", f"{moved(address)}</article>"
        )
        route.fulfill(response=response, body=html)

    page.route(f"**/{path}", answer)


@pytest.mark.parametrize("old", ["old", "proof-old", "sign-old"])
@pytest.mark.parametrize("path", [OLD, NEW])
def test_a_claim_that_moved_opens_where_it_is_now(
    page: Page, site: str, path: str, old: str
):
    address = f"detach.html#{CLAIM}" if path == OLD else f"#{CLAIM}"
    serve(page, path, address)

    page.goto(f"{site}/index.html")
    page.goto(f"{site}/{path}#{old}")

    expect(page).to_have_url(f"{site}/{NEW}#{CLAIM}")
    expect(page.locator(f"#proof-{CLAIM}")).to_be_visible()
    page.go_back()
    expect(page).to_have_url(f"{site}/index.html")


def test_without_scripts_a_link_leads_on(browser: Browser, site: str):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        serve(page, OLD, f"detach.html#{CLAIM}")

        page.goto(f"{site}/{OLD}#old")
        expect(page.locator("#old")).to_be_in_viewport()
        page.locator("#old a").dispatch_event("click")

        expect(page).to_have_url(f"{site}/{NEW}#{CLAIM}")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", "gradients.html"),
        (f"#{CLAIM}", f"detach.html#{CLAIM}"),
        ("#proof-old", f"detach.html#{CLAIM}"),
    ],
)
def test_a_page_that_moved_leads_on(
    page: Page, site: str, asked: str, found: str
):
    to = "gradients" if not asked else "detach"
    text = (TEMPLATES / "moved_page.html").read_text()
    script = text[text.index("<script>") : text.index("</script>")]
    body = (
        f'<!doctype html><link rel="icon" href="data:,"><a id="page"'
        f' href="{to}.html">…</a>'
        f"{moved(f'detach.html#{CLAIM}')}</ul>{script}</script>"
    )
    page.route(
        "**/autograd/old.html",
        lambda route: route.fulfill(body=body, content_type="text/html"),
    )

    page.goto(f"{site}/index.html")
    page.goto(f"{site}/autograd/old.html{asked}")

    expect(page).to_have_url(f"{site}/autograd/{found}")
