"""Write ``sitemap.xml``: all pages, if the address of the site is known.

Ours, because sphinx-sitemap collects pages while they are written: a build
that writes one page would list only that one."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from extensions.build.site_files import SITE_FILES
from extensions.core.titles import address_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_SCHEMA = "http://www.sitemaps.org/schemas/sitemap/0.9"


def _sitemap_xml(app: Sphinx) -> str | None:
    """Return the sitemap, sorted by the names of the pages."""
    base = app.config.html_baseurl
    if not base:
        return None
    pages = (address_of(name, base) for name in sorted(app.env.found_docs))
    items = "".join(
        f"<url><loc>{escape(page)}</loc></url>\n" for page in pages
    )
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return f'{head}<urlset xmlns="{_SCHEMA}">\n{items}</urlset>\n'


def setup_sitemap(app: Sphinx) -> None:
    """Add the file."""
    SITE_FILES["sitemap.xml"] = _sitemap_xml
