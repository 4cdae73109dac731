"""Old addresses lead on: those of claims from the end of their old page.

A list there has an item for each claim that moved, with its old id, which
leads on without a script; ``claims.js`` follows it at once. A page that moved
leaves a small page behind. Both are added after the pages are read, so neither
the search nor a link between pages knows an old address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from docutils import nodes

from extensions.build.dependencies import (
    PAGE_PARTS,
    builder_of,
    is_to_be_written,
    root_of,
)
from extensions.build.html_node import HtmlNode
from extensions.build.inline_code import words
from extensions.build.warnings import report
from extensions.claims.moved import Moved, exists, read_moved
from extensions.claims.page import read_page
from extensions.core.problem import Problem
from extensions.core.titles import address_of
from extensions.core.topics import Topic

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from extensions.claims.claim import Claim

_LIST = "moved_claims.html"


def _claims_of(
    app: Sphinx, moved: Moved, page: str
) -> Iterator[tuple[str, str, Claim]]:
    """Yield the old id of each claim that moved, its new page, and it."""
    for old, new in moved.claims.items():
        was_on, _, name = old.partition("#")
        if was_on != page:
            continue
        topic = Topic(root_of(app.env), new.partition("#")[0])
        for claim in read_page(topic.page).claims:
            if new == f"{topic.name}#{claim.name}":
                yield name, topic.name, claim


def _list_of(app: Sphinx, moved: Moved, page: str) -> list[dict[str, str]]:
    """Return what the list of a page says of each claim that moved."""
    titles = app.env.titles
    return [
        {
            "name": old,
            "words": words(claim.sentence),
            "title": "" if new == page else titles[new].astext(),
            "address": ("" if new == page else _link(app, page, new))
            + f"#{claim.name}",
        }
        for old, new, claim in _claims_of(app, moved, page)
        if new in titles
    ]


def _link(app: Sphinx, page: str, to: str) -> str:
    return builder_of(app).get_relative_uri(page, to)


def _add_list(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Add the list to a page that claims have left."""
    moved = read_moved(root_of(app.env))
    rows = _list_of(app, moved, docname)
    for row in rows:
        if row["name"] in doctree.ids:
            old = f"{docname}#{row['name']}"
            message = f"{old} still exists: a heading has this address"
            report(Problem(moved.path, moved.line_of(old), message))
    if rows:
        html = builder_of(app).templates.render(_LIST, {"moved": rows})
        next(doctree.findall(nodes.section)).append(HtmlNode(html=html))


def _left(app: Sphinx, moved: Moved) -> dict[str, tuple[str, str]]:
    """Return where each page left behind leads, and the title there.

    With a page, that of its tests has moved.
    """
    left = {}
    for old, new in moved.pages.items():
        topic = Topic(root_of(app.env), new)
        if new in app.env.titles and not exists(topic.root, old):
            title = app.env.titles[new].astext()
            left[old] = new, title
            if topic.tests.exists():
                tests_page = Topic(topic.root, old).tests_page
                left[tests_page] = topic.tests_page, f"Tests: {title}"
    return left


def _shown(app: Sphinx) -> dict[str, str]:
    """Return what each page shows of what moved."""
    moved = read_moved(root_of(app.env))
    pages = {each.partition("#")[0] for each in moved.claims}
    left = _left(app, moved)
    return {
        page: repr((left.get(page), _list_of(app, moved, page)))
        for page in sorted(left.keys() | (pages & app.env.found_docs))
    }


def _pages_left(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the small page that each page that moved leaves behind."""
    moved = read_moved(root_of(app.env))
    for old, (new, title) in _left(app, moved).items():
        if not is_to_be_written(app, old):
            continue
        link = _link(app, old, new)
        values = {
            "title": title,
            "address": link,
            "canonical": address_of(new, app.config.html_baseurl) or link,
            "moved": _list_of(app, moved, old),
        }
        yield old, values, "moved_page.html"


def setup_moved(app: Sphinx) -> None:
    """Let old addresses lead on."""
    PAGE_PARTS["what moved from it"] = _shown
    app.connect("doctree-resolved", _add_list)
    app.connect("html-collect-pages", _pages_left)
