"""The search of the site, and what a page loads.

What else a site on the web has, such as a sitemap, libraries add, where
``conf.py`` knows the address of the site.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

    from extensions.site.layout import PageContext

# Libraries load these on every page, a sixth of its weight. The site has keys
# and a search of its own, no tabs and no tags, and a grid on its front page.
_UNUSED = {
    "design-tabs.js",
    "doctools.js",
    "sg-tags.js",
    "sphinx_highlight.js",
}
_OF_A_GRID = {"sphinx-design.min.css"}


def _leave_out(page: PageContext) -> None:
    has_grid = 'class="sd-' in page.values.get("body", "")
    unneeded = _UNUSED if has_grid else _UNUSED | _OF_A_GRID
    for kind in ("css_files", "script_files"):
        page.values[kind] = [
            each
            for each in page.values[kind]
            if Path(str(each.filename)).name not in unneeded
        ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the search, and leave out what pages do not need."""
    from extensions.site.layout import (
        SITE_FILES,
        add_static,
        add_templates,
        on_page_context,
    )
    from extensions.site.metadata import METADATA
    from extensions.web import search

    add_templates(app, __file__)
    add_static(app, __file__)
    SITE_FILES["search-index.js"] = search.script
    # After those of the whole site, which Sphinx adds with 800.
    app.add_css_file("search.css", priority=801)
    app.add_js_file("search.js", priority=801, defer="defer")
    app.add_directive("search-box", search.SearchBoxDirective)
    app.connect("doctree-read", search.keep_sections)
    on_page_context(app, _leave_out)
    return METADATA
