"""The list of pages for language models."""

import pytest


@pytest.fixture
def front(house):
    """A front page that names a chapter, and a page to look things up."""
    docs = house / "docs"
    index = "# Guide\n\nWords are counted.\n\n"
    index += "```{toctree}\npart/index\nevidence/claims\n```\n"
    (docs / "index.md").write_text(index)
    chapter = "# First steps\n\n```{toctree}\none\ntwo\n```\n"
    (docs / "part/index.md").write_text(chapter)
    one = docs / "part/one.md"
    one.write_text(
        one.read_text().replace("# One\n", "# One\n\nYou count `words`.\n")
    )


def test_pages_stand_below_their_chapters_with_their_first_sentences(
    front, build
):
    said = (build().outdir / "llms.txt").read_text()

    assert said.startswith("# Guide\n\n> Words are counted.\n\n")
    assert "## First steps\n\n- [One](part/one.md): You count `words`." in said
    assert said.index("part/one.md") < said.index("part/two.md")
    assert said.index("## To look up") < said.index("evidence/claims.html")


def test_links_are_absolute_where_the_site_knows_its_address(front, build):
    app = build(confoverrides={"html_baseurl": "https://example.org/guide/"})

    said = (app.outdir / "llms.txt").read_text()

    assert "(https://example.org/guide/part/one.md)" in said
