"""Load a style or a script only on pages that hold what it is for.

Sphinx and its extensions put theirs on every page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.build.page_context import PageContext, on_page_context

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders.html._assets import _CascadingStyleSheet, _JavaScript

# By file: the HTML that every page that needs the file contains.
NEEDED_BY = {
    "claims.js": 'class="claim-panel',
    "clipboard.min.js": 'class="highlight',
    "copybutton.css": 'class="highlight',
    "copybutton.js": 'class="highlight',
    "design-tabs.js": "sd-tab-",
    "documentation_options.js": 'class="highlight',  # of copybutton.js
    "sphinx-design.min.css": 'class="sd-',
}
# Sphinx's own search is not on the site, and what sphinx-gallery writes has
# the styles of the house.
_UNUSED = {
    "doctools.js",
    "sg-tags.js",
    "sg_gallery-binder.css",
    "sg_gallery-dataframe.css",
    "sg_gallery-rendered-html.css",
    "sg_gallery.css",
    "sphinx_highlight.js",
}


def is_needed(
    asset: _CascadingStyleSheet | _JavaScript | str, body: str
) -> bool:
    """Whether a page with such a body needs a file."""
    name = str(getattr(asset, "filename", asset)).rpartition("/")[2]
    return name not in _UNUSED and NEEDED_BY.get(name, "") in body


def _prune(page: PageContext) -> None:
    """Remove the files that a page does not need."""
    body = page.values.get("body", "")
    for kind in ("css_files", "script_files"):
        files = page.values.get(kind, ())
        page.values[kind] = [each for each in files if is_needed(each, body)]


def setup_asset_pruning(app: Sphinx) -> None:
    """Remove files after all extensions have added theirs."""
    on_page_context(app, _prune)
