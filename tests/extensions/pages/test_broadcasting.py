"""Two shapes to try: what a page holds, and what downloads say instead."""

import json

import pytest
import torch

from extensions.core.files import text_of
from extensions.core.markdown import BROADCASTING
from tests.helpers.broadcasting import PRINTED, as_text
from tests.helpers.builds import built

ASSETS = ("broadcasting.css", "broadcasting.js")


@pytest.fixture(scope="module")
def tried(new_house):
    """A site with shapes to try on a page that has downloads."""
    house = new_house()
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\n```{broadcasting}\n```\n")
    home = {"html_baseurl": "https://example.org/"}
    return built(house, confoverrides=home)


def test_a_page_holds_a_form_and_loads_its_script(tried):
    html = (tried.outdir / "part/one.html").read_text()

    assert not tried.warning.getvalue()
    assert '<div class="broadcasting">' in html
    assert 'data-a="(3,)" data-b="(3, 4)">(3,) and (3, 4)</button>' in html
    assert all(f"_static/{name}" in html for name in ASSETS)


def test_other_pages_load_nothing_of_it(tried):
    html = (tried.outdir / "part/two.html").read_text()

    assert not any(name in html for name in ASSETS)


def test_downloads_give_an_example_and_lead_to_the_page(tried):
    end = (
        f"{BROADCASTING}\n\n"
        "[The page](https://example.org/part/one.html) lets you try others."
    )

    assert end in (tried.outdir / "part/one.md").read_text()
    notebook = (tried.srcdir / "code/part/one.ipynb").read_text()
    cells = json.loads(notebook)["cells"]
    assert any(end in "".join(cell["source"]) for cell in cells)


def test_the_two_shapes_of_the_example_fit():
    given = torch.zeros(8, 8) + torch.zeros(1797, 1, 8)

    assert "`(8, 8)` and `(1797, 1, 8)` give `(1797, 8, 8)`" in BROADCASTING
    assert given.shape == (1797, 8, 8)


def test_the_browser_compares_with_what_this_torch_prints():
    # If not: python -m tests.helpers.broadcasting
    assert as_text() == text_of(PRINTED)
