"""The search of the site, and what a page loads.

What else a site on the web has, such as a sitemap, libraries add, where
``conf.py`` knows the address of the site.
"""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from extensions.site.layout import (
    SITE_FILES,
    PageContext,
    add_static,
    add_templates,
    on_page_context,
)
from extensions.site.metadata import METADATA
from extensions.web import search

# Libraries load these on every page, a sixth of its weight. They serve only a
# page with what stands in front; the site has keys and a search of its own.
_SERVE = {
    "highlight-": {"clipboard.min.js", "copybutton.css", "copybutton.js"},
    'class="sd-': {"sphinx-design.min.css"},
    'class="sd-tab': {"design-tabs.js"},
    "sg-tag": {"sg-tags.js"},
    "?highlight=": {"doctools.js", "sphinx_highlight.js"},
}


def _leave_out(page: PageContext) -> None:
    body = page.values.get("body", "")
    unused = set().union(
        *(_SERVE[what] for what in _SERVE if what not in body)
    )
    for kind in ("css_files", "script_files"):
        page.values[kind] = [
            each
            for each in page.values[kind]
            if Path(str(each.filename)).name not in unused
        ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the search, and leave out what pages do not need."""
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
