"""Pages: what a page says of itself and of others.

The head with the minutes it takes, lists of pages, the way through the course,
rules to remember, errors with their causes, the claim that the front page
features, and two shapes to try.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.pages import (
        broadcasting,
        errors,
        featured,
        fold,
        head,
        lists,
    )
    from extensions.site.layout import add_static, add_templates
    from extensions.site.metadata import METADATA

    add_templates(app, __file__)
    add_static(app, __file__)
    head.setup_head(app)
    errors.setup_errors(app)
    featured.setup_featured(app)
    fold.setup_fold(app)
    broadcasting.setup_broadcasting(app)
    lists.setup_lists(app)
    return METADATA
