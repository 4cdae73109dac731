"""Each listed name of torch stands on a page."""

import zlib

import pytest

LIST = """base = "https://example.org/"
unlinked = ["torch.inf"]

[pages]
"torch.no_grad" = "no_grad.html"
"torch.nn.Linear" = "linear.html"
"""
PROSE = "\nA `nn.Linear(4, 2)` of `torch.inf`, under `torch.no_grad()`.\n"


@pytest.fixture
def listed(house):
    """A list of names, each of which stands on a page."""
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + PROSE)
    listed = house / "docs/torch_names.toml"
    listed.write_text(LIST)
    return listed


def test_names_that_stand_on_a_page_are_not_reported(listed, build):
    assert "torch_names.toml" not in build().warning.getvalue()


@pytest.mark.parametrize(
    ("name", "line"), [("torch.inf", 2), ("torch.no_grad", 5)]
)
def test_a_name_is_reported_once_no_page_has_it(listed, build, name, line):
    build()
    page = listed.parent / "part/one.md"
    page.write_text(page.read_text().replace(name, "torch.nn.Linear"))

    said = f"torch_names.toml:{line}: WARNING: {name} stands on no page"
    assert said in build().warning.getvalue()


def test_a_name_that_the_inventory_has_needs_no_entry(listed, build):
    head = (
        b"# Sphinx inventory version 2\n# Project: p\n# Version: 1\n# zlib\n"
    )
    entry = zlib.compress(b"torch.no_grad py:class 1 no_grad.html -\n")
    (listed.parent / "torch.inv").write_bytes(head + entry)

    said = "torch_names.toml:5: WARNING: docs/torch.inv has torch.no_grad as"
    assert said in build().warning.getvalue()
