"""Pages: what a page says of itself and of others.

The head with the minutes it takes, lists of chapters and the way through the
course, rules to remember, error texts, the claim that the front page features,
two shapes to try, links to report a mistake, and what a page says on paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.build.feature_files import add_static, add_templates
    from extensions.build.metadata import METADATA
    from extensions.pages import (
        broadcasting,
        course,
        entries,
        error_text,
        error_texts,
        featured_claim,
        fold,
        page_head,
        page_links,
        page_lists,
        page_summary,
        paper,
        recipe_list,
        rules_page,
    )

    add_templates(app, __file__)
    add_static(app, __file__)
    page_summary.setup_page_summary(app)
    page_head.setup_page_head(app)
    entries.setup_entries(app)
    error_text.setup_error_text(app)
    error_texts.setup_error_texts(app)
    rules_page.setup_rules_page(app)
    featured_claim.setup_featured_claim(app)
    fold.setup_fold(app)
    broadcasting.setup_broadcasting(app)
    page_lists.setup_page_lists(app)
    recipe_list.setup_recipe_list(app)
    course.setup_course(app)
    page_links.setup_page_links(app)
    paper.setup_paper(app)
    return METADATA
