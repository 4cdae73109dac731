"""Names of torch lead to its API."""

import re

import pytest

LIST = """base = "https://example.org/"

[pages]
"torch.no_grad" = "no_grad.html"
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
    from torch import nn

    @torch.no_grad()
    def layer(price):
        return nn.Linear(2, 1), nn.Linear(1, 1), price.item()
"""
PROSE = """
```{cell} torch
```

A `nn.Linear(4, 2)`, once more a `Linear`, and `x = loss.item()`.

Under `no_grad()`, not [`no_grad`](https://example.org), nor `layer`.

Whose [`item()`](one.md) leads to another page is no link in a link.

## Do this

## Of `no_grad`

## Next
"""
# MyST asks this of Sphinx when it resolves a link to a page.
pytestmark = pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app")
LINK = re.compile(
    r'<a class="api reference external" href="https://example.org/(\w+).html">'
    r"(.*?)</a>"
)


@pytest.fixture
def page(house):
    """A page with names of torch, and the list that holds them."""
    (house / "docs/torch_names.toml").write_text(LIST)
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + CELL)
    page = house / "docs/part/one.md"
    opened = page.read_text().replace("# One\n", "# One\n\nWords.\n", 1)
    page.write_text(opened + PROSE)
    return page


def links(app):
    """Return where a page leads, and the words that lead there."""
    html = (app.outdir / "part/one.html").read_text()
    return [
        (page, re.sub("<.*?>", "", words))
        for page, words in LINK.findall(html)
    ]


def test_names_in_code_and_in_prose_are_links(page, build):
    app = build()

    assert links(app) == [
        ("no_grad", "torch.no_grad"),
        ("linear", "nn.Linear"),
        ("item", "item"),
        ("linear", "nn.Linear(4, 2)"),
        ("item", "x = loss.item()"),
        ("no_grad", "no_grad()"),
    ]
    assert not app.warning.getvalue()


def test_what_the_program_names_itself_is_no_name_of_torch(page, build):
    page.write_text(page.read_text().replace("`layer`", "`Linear`"))
    snippet = page.parents[2] / "snippets/part/one.py"
    snippet.write_text(snippet.read_text().replace("layer(", "Linear("))

    assert "Linear" not in [words for _, words in links(build())]


def test_a_name_that_the_list_lacks_is_reported_where_it_stands(page, build):
    page.write_text(page.read_text().replace("`layer`", "`torch.eye(2)`"))
    app = build()

    said = "part/one.md:18: WARNING: torch.eye is not in docs/torch_names.toml"
    assert said in app.warning.getvalue()


def test_a_changed_address_reads_the_page_again(page, build):
    build()
    listed = page.parents[1] / "torch_names.toml"
    listed.write_text(LIST.replace("linear.html", "dense.html"))

    assert ("dense", "nn.Linear") in links(build())
