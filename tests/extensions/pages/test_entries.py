"""The entries of a page at its head, with a filter."""

import re

import pytest

WRITTEN = """# Faults

```{entries} Your error
:more: part/one
```

## Shapes

### `view` fails

Words.

### They differ

Words.

## Rest

No entry.
"""


@pytest.fixture
def html(house, build):
    """A page with two entries in one of its sections."""
    page = house / "docs/faults.md"
    page.write_text(WRITTEN)
    index = house / "docs/index.md"
    index.write_text(index.read_text().replace("part/*", "part/*\nfaults"))
    app = build()
    assert not app.warning.getvalue()
    return (app.outdir / "faults.html").read_text()


def test_each_entry_is_listed_below_its_section(html):
    [group] = re.findall(r'<div class="entry-group">(.*?)</div>', html, re.S)

    assert "<p>Shapes</p>" in group
    assert re.findall(r'<li><a .*?href="#([\w-]+)"', group) == [
        "view-fails",
        "they-differ",
    ]
    assert "<code" in group


def test_a_box_filters_them(html):
    form = re.search(r"<form .*?</form>", html, re.S)[0]

    assert 'data-rows=".entry-group li"' in form
    assert 'data-noun="entries"' in form
    assert "<label>Your error<input" in form
    assert "2 of 2 entries" in form


def test_it_knows_where_there_are_more(html):
    assert 'data-more="part/one.html"' in html
    assert 'data-title="One"' in html
