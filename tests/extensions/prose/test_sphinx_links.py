"""Names of torch lead to its API, and terms to the glossary."""

import re

import pytest

from tests.helpers.builds import built

# MyST asks this of Sphinx when it resolves a link to a page.
pytestmark = pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app")

LIST = """base = "https://example.org/"

[pages]
"torch.no_grad" = "no_grad.html"
"torch.float32" = "types.html"
"torch.nn.Linear" = "linear.html"
"torch.Tensor.item" = "item.html"

[short]
no_grad = "torch.no_grad"
Linear = "torch.nn.Linear"
item = "torch.Tensor.item"
"""
CELL = """
# %% torch
if False:
    import torch
    import numpy as np
    from torch import nn as layers

    @torch.no_grad()
    def item(price):
        "Grüße."; one = layers.Linear(2, 1)
        print(f"{layers.Tanh}", torch.float32.itemsize)
        return one, layers.Linear(1, 1), np.ones(2).sum(), price.item()
"""
PROSE = """
```{cell} torch
```

A `nn.Linear(4, 2)`, once more a `Linear`, and `x = loss.item()`.

Under `no_grad()`, not [`no_grad`](https://example.org), nor `torch.eye(2)`.

Whose [`Linear`](one.md) leads to some page has one link, and `item` has none.

## Do this

## Of `no_grad` and a leaf

`leaf` and [leaf](https://example.org), then Leafs of a graph, one leaf.

Another leaf, [with the graph]{#word-has-a-graph}.

## Read on
"""
GLOSSARY = """# Glossary

You look up a leaf.

```{glossary}
leaf
  A tensor that nothing made, as a leaf is.

graph
  What leads there.
```
"""
API = re.compile(
    r'<a class="api reference external" href="https://example.org/(\w+).html">'
    r"(.*?)</a>"
)
TERM = re.compile(
    r'<a class="reference internal" href="\.\./glossary.html#term-(\w+)">'
    r'<span class="term">(.*?)</span></a>'
)


def write(house):
    """Write a page with names and terms into a house, and their lists."""
    (house / "docs/torch_names.toml").write_text(LIST)
    (house / "docs/glossary.md").write_text(GLOSSARY)
    index = house / "docs/index.md"
    index.write_text(index.read_text().replace("part/*", "part/*\nglossary"))
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + CELL)
    page = house / "docs/part/one.md"
    opened = page.read_text().replace("# One\n", "# One\n\nA leaf.\n", 1)
    page.write_text(opened + PROSE)


@pytest.fixture(scope="module")
def linked(new_house):
    """A site with such a page."""
    house = new_house()
    write(house)
    return built(house)


def links(app, pattern):
    """Return where a page leads, and the words that lead there."""
    html = (app.outdir / "part/one.html").read_text()
    return [
        (place, re.sub("<.*?>", "", words))
        for place, words in pattern.findall(html)
    ]


def test_names_in_code_and_in_prose_are_links_once_in_each_place(linked):
    assert links(linked, API) == [
        ("no_grad", "torch.no_grad"),
        ("linear", "layers.Linear"),
        ("types", "torch.float32"),
        ("item", "item"),
        ("linear", "nn.Linear(4, 2)"),
        ("item", "x = loss.item()"),
        ("no_grad", "no_grad()"),
    ]


def test_a_name_that_the_list_lacks_is_the_one_thing_reported(linked):
    [said] = linked.warning.getvalue().splitlines()

    assert "part/one.md:18: WARNING: torch.eye is not in docs/torch_" in said


def test_the_first_use_of_a_term_below_the_opening_is_a_link(linked):
    assert links(linked, TERM) == [("leaf", "Leafs"), ("graph", "graph")]
    glossary = (linked.outdir / "glossary.html").read_text()
    assert '<span class="term">' not in glossary


def test_a_changed_address_or_term_reads_the_page_again(house, build):
    write(house)
    build()
    listed = house / "docs/torch_names.toml"
    listed.write_text(LIST.replace("linear.html", "dense.html"))
    glossary = house / "docs/glossary.md"
    glossary.write_text(GLOSSARY.replace("graph\n", "another\n"))

    app = build()

    assert ("dense", "layers.Linear") in links(app, API)
    assert links(app, TERM) == [("leaf", "Leafs"), ("another", "Another")]
