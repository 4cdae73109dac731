"""Pictures and labels of one name on two pages."""

import pytest
from sphinx.util.inventory import InventoryFile

PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="9"/>'


@pytest.fixture
def shown(house):
    """Two pages that show another picture each, with one name."""
    for width, name in ((1, "one"), (2, "two")):
        folder = house / "docs" / name
        folder.mkdir()
        (folder / "drawn.svg").write_text(PICTURE.format(width))
        page = house / f"docs/part/{name}.md"
        text = f"\n![drawn](/{name}/drawn.svg)\n\n[Same]{{#same .claim}}.\n"
        page.write_text(page.read_text() + text)
    return house


@pytest.fixture
def read(shown, make_app):
    """Build in some order of reading, and return what other pages find."""

    def read(*, backwards=False):
        app = make_app("html", srcdir=shown / "docs", builddir=shown / "out")
        if backwards:
            app.connect(
                "env-before-read-docs", lambda *args: args[2].reverse()
            )
        app.build()
        html = (app.outdir / "part/two.html").read_text()
        pictures = {
            path.name: path.read_text()
            for path in sorted((app.outdir / "_images").glob("drawn*"))
        }
        inventory = InventoryFile.loads(
            (app.outdir / "objects.inv").read_bytes(), uri=""
        )
        labels = inventory.data["std:label"]
        return html.count("drawn1.svg"), pictures, labels["same"].uri

    return read


def test_the_order_of_reading_names_no_picture_and_no_label(shown, read):
    name, pictures, label = read()
    (shown / "out").rename(shown / "before")

    assert read(backwards=True) == (name, pictures, label)
    assert (name, len(pictures), label) == (1, 2, "part/one.html#same")


def test_a_page_is_written_again_when_its_picture_has_another_name(
    shown, read
):
    read()
    page = shown / "docs/part/one.md"
    page.write_text(page.read_text().replace("![drawn](/one/drawn.svg)", ""))

    name, pictures, _ = read()

    assert name == 0
    assert pictures["drawn.svg"] == PICTURE.format(2)
