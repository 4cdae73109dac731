"""Claims of two pages with one name."""

import pytest

# MyST uses an attribute that Sphinx calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app")


@pytest.fixture
def twins(house):
    """Two pages with a claim of one name, and a third with links to both."""
    for name in ("one", "two"):
        page = house / f"docs/part/{name}.md"
        page.write_text(f"{page.read_text()}\n[Same]{{#same .claim}}.\n")
    index = house / "docs/index.md"
    index.write_text(
        f"{index.read_text()}\n[a](part/one.md#same) [b](part/two.md#same)\n"
    )
    return house


def test_a_link_finds_the_claim_of_the_page_that_it_names(twins, build):
    app = build()

    html = (app.outdir / "index.html").read_text()
    assert 'href="part/one.html#same"' in html
    assert 'href="part/two.html#same"' in html
    assert "local id" not in app.warning.getvalue()


def test_it_still_does_when_one_of_them_is_read_again(twins, build):
    build()
    page = twins / "docs/part/one.md"
    page.write_text(f"{page.read_text()}\nMore.\n")
    index = twins / "docs/index.md"
    index.write_text(f"{index.read_text()}\nMore.\n")

    assert "local id" not in build().warning.getvalue()
