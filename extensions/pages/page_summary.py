"""What others show of a page: how it begins, and how long it takes to read.

Both are counted when a page is read and kept with its metadata, which Sphinx
purges and merges. A page that shows them names those pages with ``show``, and
is then written again when one of them begins in another way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from docutils import nodes

from extensions.build.ancestors import is_within
from extensions.build.details import Fold
from extensions.build.page_fingerprints import PAGE_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

WORDS = 200  # of prose in a minute
LINES = 30  # of code in a minute
OPENING = "house_opening"
SHOWN = "house_shown"


@dataclass(frozen=True)
class Opening:
    """How a page begins."""

    text: str
    """Its first sentence, as Markdown of words and code."""
    minutes: int
    """How long it takes to read."""


def opening_of(env: BuildEnvironment, name: str) -> Opening:
    """Return how a page begins; one that nobody has read says nothing."""
    found = env.metadata[name].get(OPENING)
    return found if isinstance(found, Opening) else Opening("", 1)


def show(env: BuildEnvironment, names: Iterable[str]) -> None:
    """Note that the page being read shows how some pages begin."""
    env.metadata[env.docname].setdefault(SHOWN, []).extend(names)


def shown_by(env: BuildEnvironment, name: str) -> list[Opening]:
    """Return what a page shows of others."""
    return [
        opening_of(env, each) for each in env.metadata[name].get(SHOWN, [])
    ]


def keep(app: Sphinx, doctree: nodes.document) -> None:
    """Keep how a page begins, once it is read."""
    first = next(doctree.findall(nodes.paragraph), None)
    text = "" if first is None else first_sentence(first)
    opening = Opening(text, minutes(doctree))
    app.env.metadata[app.env.docname][OPENING] = opening


def first_sentence(paragraph: nodes.paragraph) -> str:
    """Return the first sentence of a paragraph: a line of its source."""
    said = "".join(
        f"`{node.astext()}`" if isinstance(node, nodes.literal) else str(node)
        for node in paragraph.findall(is_words)
    )
    return said.partition("\n")[0]


def is_words(node: nodes.Node) -> bool:
    """Whether a node is a piece of text, or of code."""
    if isinstance(node, nodes.literal):
        return True
    return isinstance(node, nodes.Text) and not isinstance(
        node.parent, nodes.literal
    )


def minutes(doctree: nodes.document) -> int:
    """Return how long a page takes to read, but for outputs and folds."""
    words = sum(
        len(node.astext().split())
        for node in doctree.findall(nodes.paragraph)
        if not is_within(node, (Fold,))
    )
    lines = sum(
        len(node.astext().splitlines())
        for node in doctree.findall(nodes.literal_block)
        if node.get("language") == "python" and not is_within(node, (Fold,))
    )
    return max(1, round(words / WORDS + lines / LINES))


def all_shown(app: Sphinx) -> dict[str, str]:
    """Return what each page shows of how others begin."""
    return {name: f"{shown_by(app.env, name)}" for name in app.env.found_docs}


def setup_page_summary(app: Sphinx) -> None:
    """Keep it behind Sphinx's own collectors, which begin the metadata."""
    PAGE_PARTS["how listed pages begin"] = all_shown
    app.connect("doctree-read", keep)
