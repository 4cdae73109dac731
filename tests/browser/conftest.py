"""The built site in a browser: served from a sub-path, and from nowhere else.

What a page says on the console, what it fails to load and what it asks of
another host fails the test that opened it.
"""

import os
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Error,
    Page,
    expect,
    sync_playwright,
)

ROOT = Path(__file__).parents[2]
HTML = ROOT / "build/html"
SUBPATH = "/guide"
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1366, "height": 900}
NAMES = ["chromium", "chromium-browser", "google-chrome", "chrome"]
HOW_TO_GET_ONE = """there is no browser to test with: install one with
    python -m playwright install chromium
or, on Debian and Ubuntu, with
    apt-get install chromium
or say in CHROMIUM where one is"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let all pages be opened, and all that can be downloaded run."""
    parser.addoption("--all", action="store_true", help="leave out no page")


def pytest_report_header(config: pytest.Config) -> str:
    """Say what a run leaves out."""
    if config.getoption("all"):
        return "every page, every script, every notebook"
    return "a part of the pages, notebooks that have changed: --all has all"


expect.set_options(timeout=30_000)  # a machine may be busy with other things


class Quiet(SimpleHTTPRequestHandler):
    """Serve the site below its sub-path, without a log."""

    def translate_path(self, path: str) -> str:
        """Return the file of an address; outside of the sub-path is none."""
        if not path.startswith(f"{SUBPATH}/"):
            return str(HTML / "nothing")
        return super().translate_path(path.removeprefix(SUBPATH))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """Serve the built site; return its address, without a slash behind."""
    if not (HTML / "index.html").exists():
        pytest.exit(f"{HTML} holds no site: run nox -s docs first", 1)
    handler = partial(Quiet, directory=str(HTML))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}{SUBPATH}"
        server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Playwright's own Chromium, or the one of this machine."""
    with sync_playwright() as playwright:
        found = os.environ.get("CHROMIUM")
        if (
            not found
            and not Path(playwright.chromium.executable_path).exists()
        ):
            found = next(filter(None, map(shutil.which, NAMES)), None)
        try:
            browser = playwright.chromium.launch(executable_path=found)
        except Error as error:
            pytest.exit(f"{HOW_TO_GET_ONE}\n\n{error}", 1)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser, site: str) -> Iterator[BrowserContext]:
    """Return a context whose pages must be silent and stay on their host."""
    context = browser.new_context(viewport=DESKTOP, reduced_motion="reduce")
    faults: list[str] = []
    context.on(
        "console",
        lambda said: (
            said.type == "log"  # Furo notes each change of theme
            or faults.append(f"{said.type}: {said.text}")
        ),
    )
    context.on("weberror", lambda error: faults.append(str(error.error)))
    context.on(
        "request",
        lambda request: (
            request.url.startswith((site, "data:", "blob:"))
            or faults.append(f"asks for {request.url}")
        ),
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context
    context.close()
    assert not faults, "\n".join(faults)


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """Return a page as wide as a laptop's, in light."""
    return context.new_page()


@pytest.fixture
def detach(page: Page, site: str) -> Page:
    """Return a page that stands for those with a program, opened."""
    page.goto(f"{site}/autograd/detach.html")
    return page
