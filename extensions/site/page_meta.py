"""What search engines and shared links show of a page: words and a picture."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from docutils import nodes

from extensions.files.sentences import END

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

PICTURE = "_static/page.png"
PICTURE_SHOWS = "A page of the guide, with the panel of a claim open"


def opening_of(doctree: nodes.document) -> str:
    """Return the first sentence of a page, which says what one gets there."""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            words = " ".join(paragraph.astext().split())
            end = END.search(words)
            return words[: end.end()].strip() if end else words
    return ""


def tags(kind: str, facts: dict[str, str]) -> str:
    """Return one element for each fact that is known."""
    return "".join(
        f'\n<meta {kind}="{name}" content="{escape(said)}">'
        for name, said in facts.items()
        if said
    )


def describe(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Add a description to the head of a page, and a card for its links."""
    if doctree is not None:
        title, opening = app.env.titles[pagename].astext(), opening_of(doctree)
    elif "lead" in context:  # made from a template that begins with it
        title, opening = context["title"], context["lead"]
    else:  # an index, or what stands for a page that is not there
        return
    base = app.config.html_baseurl
    card = {
        "og:title": title,
        "og:description": opening,
        "og:type": "article",
        "og:site_name": app.config.project,
    }
    if base:
        card |= {
            "og:url": context["pageurl"],
            "og:image": urljoin(f"{base.rstrip('/')}/", PICTURE),
            "og:image:alt": PICTURE_SHOWS,
        }
    found = tags("name", {"description": opening}) + tags("property", card)
    context["metatags"] += found


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the handler."""
    app.connect("html-page-context", describe)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
