"""The page for addresses that do not exist: ``404.html``, as hosts expect it.

A host shows it at any address, however deep, where nothing that the page names
by a relative address is found. So its style stands in the page itself, and its
links start from the address of the site; where that is not known, a script
looks for it, folder by folder. Ours, because sphinx-notfound-page needs to
know the address.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from extensions.build.dependencies import builder_of
from extensions.build.page_context import PageContext, on_page_context

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_PAGE_NAME = "404"


def _not_found_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page."""
    builder = builder_of(app)
    links = {
        name: builder.get_relative_uri(_PAGE_NAME, name)
        for name in ("index", "symptoms")
        if name in builder.env.found_docs
    }
    values = {
        "title": "No such page",
        "links": links,
        "is_address_known": bool(app.config.html_baseurl),
    }
    yield _PAGE_NAME, values, "not_found.html"


def _add_base(page: PageContext) -> None:
    """Resolve the links of the page from the address of the site."""
    address = page.app.config.html_baseurl
    if page.name == _PAGE_NAME and address:
        base = escape(address.rstrip("/"))
        page.add_to_head(f'\n    <base href="{base}/">', first=True)


def setup_not_found(app: Sphinx) -> None:
    """Add the page."""
    app.connect("html-collect-pages", _not_found_page)
    on_page_context(app, _add_base)
