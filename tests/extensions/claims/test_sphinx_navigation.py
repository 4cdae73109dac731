"""The navigation of pages that stand in no list."""

import re

import pytest

ABOVE = {
    "changed": "claims.html",
    "claims/part": "../claims.html",
    "tests/part/one": "../../claims.html",
}
CURRENT = r'<li class="toctree-l(\d) current"><a class="[^"]*" href="(.*?)"'
# The house has no navigation of its own.
SIDEBAR = {
    "html_sidebars": {"**": ["globaltoc.html"]},
    "html_theme_options": {"globaltoc_maxdepth": -1},
}


@pytest.fixture
def listed(house):
    """The house, of which a chapter lists the ledger."""
    index = "# Evidence\n\n```{toctree}\nclaims\n```\n"
    (house / "docs/evidence/index.md").write_text(index)
    front = house / "docs/index.md"
    text = front.read_text().replace("evidence/claims", "evidence/index")
    front.write_text(text)


@pytest.mark.usefixtures("listed")
def test_the_entry_that_leads_to_a_page_is_current_in_its_chapter(build):
    folder = build(confoverrides=SIDEBAR).outdir / "evidence"

    for name, above in ABOVE.items():
        page = (folder / f"{name}.html").read_text()
        up = "../" * name.count("/")
        assert re.findall(CURRENT, page) == [
            ("1", f"{up}index.html"),
            ("2", above),
        ]
