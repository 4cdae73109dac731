"""Terms lead to the glossary where a page first uses them."""

import re

import pytest

GLOSSARY = """# Glossary

You look up a leaf.

```{glossary}
leaf
  A tensor that nothing made, as a leaf is.

graph
  What leads there.
```
"""
PROSE = """
## Do this

## A leaf

`leaf` and [leaf](https://example.org), then Leafs of a graph, one leaf.

Another leaf, [with the graph]{#word-has-a-graph}.

## Next
"""
LINK = re.compile(
    r'<a class="reference internal" href="\.\./glossary.html#term-(\w+)">'
    r'<span class="term">(.*?)</span></a>'
)


@pytest.fixture
def page(house):
    """A page with terms, and the glossary."""
    (house / "docs/glossary.md").write_text(GLOSSARY)
    index = house / "docs/index.md"
    index.write_text(index.read_text().replace("part/*", "part/*\nglossary"))
    page = house / "docs/part/one.md"
    opened = page.read_text().replace("# One\n", "# One\n\nWords.\n", 1)
    page.write_text(opened + PROSE)
    return page


def test_the_first_use_of_a_term_is_a_link(page, build):
    app = build()

    html = (app.outdir / "part/one.html").read_text()
    assert LINK.findall(html) == [("leaf", "Leafs"), ("graph", "graph")]
    assert not app.warning.getvalue()
    glossary = (app.outdir / "glossary.html").read_text()
    assert '<span class="term">' not in glossary


def test_a_new_term_reads_the_pages_again(page, build):
    build()
    glossary = page.parents[1] / "glossary.md"
    glossary.write_text(GLOSSARY.replace("graph\n", "another\n"))

    html = (build().outdir / "part/one.html").read_text()
    assert LINK.findall(html) == [("leaf", "Leafs"), ("another", "Another")]
