"""The policy of the pages: only the scripts of the site run."""

from playwright.sync_api import Browser, Page

from browser.conftest import HTML

INJECTED = """() => {
  window.addEventListener(
    "securitypolicyviolation", (event) => { window.refused = event; });
  const script = document.createElement("script");
  script.textContent = "window.ran = true";
  document.body.append(script);
  const image = document.createElement("img");
  image.setAttribute("onerror", "window.ran = true");
  image.src = "data:,";
  document.body.append(image);
}"""


def refuses(page: Page) -> bool:
    """Whether a script that the site has not written stays without effect."""
    page.evaluate(INJECTED)
    page.wait_for_function("window.refused")
    return not page.evaluate("window.ran")


def runs_its_own(page: Page) -> bool:
    """Whether the scripts of the site run, the one in the page included."""
    return page.evaluate(
        "document.body.dataset.theme === 'auto'"
        " && document.documentElement.className !== 'no-js'"
    )


def test_a_page_runs_its_own_scripts_and_no_other(browser: Browser, site: str):
    page = browser.new_page()
    page.goto(f"{site}/autograd/detach.html")

    assert runs_its_own(page)
    assert refuses(page)


def test_so_it_does_from_a_folder(browser: Browser):
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto((HTML / "autograd/detach.html").as_uri())

    assert runs_its_own(page)
    assert not said
    assert refuses(page)
