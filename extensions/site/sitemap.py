"""Write ``sitemap.xml``, the pages of a site whose address is known."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.titles import address_of
from extensions.files.writing import write
from extensions.site.builder import SiteBuilder

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

SCHEMA = "http://www.sitemaps.org/schemas/sitemap/0.9"


def write_sitemap(app: Sphinx, error: Exception | None) -> None:
    """Write the addresses in the order of their names."""
    base = app.config.html_baseurl
    if error or not base or not isinstance(app.builder, SiteBuilder):
        return
    pages = (address_of(name, base) for name in sorted(app.env.found_docs))
    items = "".join(
        f"<url><loc>{escape(page)}</loc></url>\n" for page in pages
    )
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    text = f'{head}<urlset xmlns="{SCHEMA}">\n{items}</urlset>\n'
    write(Path(app.outdir, "sitemap.xml"), text)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write once all pages are known."""
    app.connect("build-finished", write_sitemap)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
