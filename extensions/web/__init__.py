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
    """Leave out the files that a page does not need."""
    has_grid = 'class="sd-' in page.values.get("body", "")
    unneeded = _UNUSED if has_grid else _UNUSED | _OF_A_GRID
    for kind in ("css_files", "script_files"):
        page.values[kind] = [
            each
            for each in page.values[kind]
            if Path(str(each.filename)).name not in unneeded
        ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.site.layout import (
        add_static,
        add_templates,
        on_page_context,
    )
    from extensions.site.metadata import METADATA
    from extensions.web import search, search_box

    add_templates(app, __file__)
    add_static(app, __file__)
    search.setup_search(app)
    search_box.setup_search_box(app)
    on_page_context(app, _leave_out)
    return METADATA
