"""The summary of a page: its first sentence, and its reading time.

Both are found when a page is read, and kept in its metadata, which Sphinx
purges and merges. A page that lists others calls :func:`show_summaries`, and
is written again when one of their summaries changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from docutils import nodes

from extensions.build.ancestors import is_within
from extensions.build.details import Details
from extensions.build.page_fingerprints import PAGE_PARTS
from extensions.prose.sentences import END

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_WORDS_PER_MINUTE = 200  # of prose in a minute
_LINES_PER_MINUTE = 30  # of code in a minute
_SUMMARY = "page_summary"
_SHOWN = "summaries_shown"


@dataclass(frozen=True)
class PageSummary:
    """What lists say of a page."""

    text: str
    """Its first sentence, as Markdown of words and code."""
    minutes: int
    """How long it takes to read."""


def summary_of(env: BuildEnvironment, name: str) -> PageSummary:
    """Return the summary of a page, which is empty if it was never read."""
    found = env.metadata[name].get(_SUMMARY)
    return found if isinstance(found, PageSummary) else PageSummary("", 1)


def show_summaries(env: BuildEnvironment, names: Iterable[str]) -> None:
    """Note that the page being read shows the summaries of some pages."""
    env.metadata[env.docname].setdefault(_SHOWN, []).extend(names)


def _summaries_shown(env: BuildEnvironment, name: str) -> list[PageSummary]:
    """Return the summaries that a page shows."""
    return [
        summary_of(env, each) for each in env.metadata[name].get(_SHOWN, [])
    ]


def _keep_summary(app: Sphinx, doctree: nodes.document) -> None:
    """Keep the summary of a page once it is read."""
    first = next(doctree.findall(nodes.paragraph), None)
    text = "" if first is None else _first_sentence(first)
    opening = PageSummary(text, _minutes_to_read(doctree))
    app.env.metadata[app.env.docname][_SUMMARY] = opening


def _first_sentence(paragraph: nodes.paragraph) -> str:
    """Return the first sentence of a paragraph, whatever lines it spans."""
    said = "".join(
        f"`{node.astext()}`" if isinstance(node, nodes.literal) else str(node)
        for node in paragraph.findall(_is_words)
    )
    text = " ".join(said.split())
    end = END.search(text)
    return text[: end.end()].strip() if end else text


def _is_words(node: nodes.Node) -> bool:
    """Whether a node is a piece of text, or of code."""
    if isinstance(node, nodes.literal):
        return True
    return isinstance(node, nodes.Text) and not isinstance(
        node.parent, nodes.literal
    )


def _minutes_to_read(doctree: nodes.document) -> int:
    """Return the reading time of a page, without outputs and details."""
    words = sum(
        len(node.astext().split())
        for node in doctree.findall(nodes.paragraph)
        if not is_within(node, (Details,))
    )
    lines = sum(
        len(node.astext().splitlines())
        for node in doctree.findall(nodes.literal_block)
        if node.get("language") == "python" and not is_within(node, (Details,))
    )
    return max(1, round(words / _WORDS_PER_MINUTE + lines / _LINES_PER_MINUTE))


def _summaries_by_page(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of the summaries that each page shows."""
    return {
        name: f"{_summaries_shown(app.env, name)}"
        for name in app.env.found_docs
    }


def setup_page_summary(app: Sphinx) -> None:
    """Keep it after Sphinx's own collectors, which clear the metadata."""
    PAGE_PARTS["the summaries of listed pages"] = _summaries_by_page
    app.connect("doctree-read", _keep_summary)
