"""Pages: what a page says of itself and of others.

The head with the minutes it takes, lists of pages, the way through the course,
rules to remember, errors with their causes, and what readers open, try and
guess.
"""

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from extensions.pages import boxes, errors, lists
from extensions.site.dependencies import KINDS, PAGE_PARTS
from extensions.site.layout import add_static, add_templates, on_page_context
from extensions.site.metadata import METADATA


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directives, and what fills them in once all pages are read."""
    add_templates(app, __file__)
    add_static(app, __file__)
    KINDS["programs"] = errors.outputs_now
    KINDS["recaps"] = lists.recaps_now
    PAGE_PARTS["the summaries of listed pages"] = lists.summaries_by_page
    for name, directive in {
        "broadcasting": boxes.BroadcastingDirective,
        "chapter-answers": lists.ChapterAnswersDirective,
        "chapters": lists.PageListDirective,
        "course": lists.PageListDirective,
        "error-text": errors.ErrorTextDirective,
        "featured-claim": boxes.FeaturedClaimDirective,
        "fold": boxes.FoldDirective,
        "recipes": lists.RecipesDirective,
        "rules": lists.RulesDirective,
    }.items():
        app.add_directive(name, directive)
    # Behind Sphinx's own collectors, which clear the metadata of a page.
    app.connect("doctree-read", lists.keep_summary)
    app.connect("doctree-resolved", lists.fill_head)
    app.connect("doctree-resolved", boxes.fill_boxes)
    app.connect("doctree-resolved", lists.fill_lists)
    on_page_context(app, boxes.load_files)
    return METADATA
