"""What search engines and shared links show of a page: words, and a card.

Ours, because sphinxext-opengraph leaves out pages without a source, such as
those of the ledger, ends a description after a number of characters instead of
a sentence, and draws no figure of the page on its card."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from docutils import nodes

from extensions.build.page_context import PageContext, on_page_context
from extensions.core.writing import write
from extensions.programs.figures import on_card
from extensions.prose.sentences import END
from extensions.web.cards import SIZE, card

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _first_sentence(doctree: nodes.document) -> str:
    """Return the first sentence of a page, which says what it is for."""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            words = " ".join(paragraph.astext().split())
            end = END.search(words)
            return words[: end.end()].strip() if end else words
    return ""


def _first_figure(app: Sphinx, doctree: nodes.document) -> Path | None:
    """Return the first figure of a page that a program drew, in pixels."""
    for image in doctree.findall(nodes.image):
        # ``uri`` may already be that of the copy beside the pages.
        sources: dict[str, str] = image.get("candidates", {})
        for source in sources.values():
            path = on_card(Path(app.srcdir, source))
            if "only-light" in image["classes"] and path.exists():
                return path
    return None


def _meta_tags(kind: str, facts: dict[str, str]) -> str:
    """Return a ``meta`` element for each fact that is not empty."""
    return "".join(
        f'\n<meta {kind}="{name}" content="{escape(said)}">'
        for name, said in facts.items()
        if said
    )


def _add_meta(page: PageContext) -> None:
    """Add a description to the head of a page, and a card for its links."""
    app, values = page.app, page.values
    if page.doctree is not None:
        title = app.env.titles[page.name].astext()
        opening = _first_sentence(page.doctree)
        figure = _first_figure(app, page.doctree)
    elif "lead" in values:  # generated from a template that begins with it
        title, opening, figure = values["title"], values["lead"], None
    else:  # an index, or what stands for a page that is not there
        return
    site, base = app.config.project, app.config.html_baseurl
    named = {"description": opening}
    facts = {
        "og:title": title,
        "og:description": opening,
        "og:type": "article",
        "og:site_name": site,
    }
    if base:
        drawn = card(site, title, opening, figure)
        write(Path(app.outdir, f"{page.name}.png"), drawn)
        width, height = map(str, SIZE)
        facts |= {
            "og:url": values["pageurl"],
            "og:image": urljoin(f"{base.rstrip('/')}/", f"{page.name}.png"),
            "og:image:width": width,
            "og:image:height": height,
            "og:image:alt": f"{title}: {opening}" if opening else title,
        }
        named["twitter:card"] = "summary_large_image"
    page.add_to_head(_meta_tags("name", named))
    page.add_to_head(_meta_tags("property", facts))


def setup_page_meta(app: Sphinx) -> None:
    """Add the handler."""
    on_page_context(app, _add_meta)
