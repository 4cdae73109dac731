"""What the search finds: the words of each section, kept as pages are read.

Each word stands once in its section, and words of a grammar not at all: what
the browser loads is to be small. The prose of a page comes whole, and of its
code what is not folded, with what that printed. The panels of the claims come
later, and the pages of tests and of the ledger are no documents: none of them
is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from docutils import nodes

from extensions.files.front_matter import SEARCH
from extensions.site.fold import Fold
from extensions.site.within import is_within

if TYPE_CHECKING:
    from collections.abc import Set

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata

WORD = re.compile(r"[^\W\d]\w+")
# What stands behind a dot, before "=" in a call, or is written like a name of
# a library: what else stands in code, people call as they like.
NAME = re.compile(
    r"(?<=\.)[^\W\d]\w+|[^\W\d]\w+(?==[^=\s])|[^\W\d]\w*[A-Z_]\w+"
)
PROSE = (nodes.paragraph, nodes.title, nodes.term, nodes.rubric)
INSIDE = (nodes.section, *PROSE, nodes.literal_block, nodes.comment, nodes.raw)


class Section(NamedTuple):
    """A heading, the anchor that it has, and what stands below it."""

    anchor: str
    heading: str
    prose: str
    code: str


class Searched(NamedTuple):
    """A page: its title, what people also call it, and its sections."""

    title: str
    also: str
    sections: list[Section]


def searched(env: BuildEnvironment) -> dict[str, Searched]:
    """Return by page what the search finds."""
    if not hasattr(env, "house_searched"):
        env.house_searched = {}  # type: ignore[attr-defined]
    found: dict[str, Searched] = env.house_searched  # type: ignore[attr-defined]
    return found


def own(node: nodes.Element) -> Iterator[nodes.Element]:
    """Yield the texts of a section, without those of the sections in it."""
    for child in node.children:
        if isinstance(child, (*PROSE, nodes.literal_block)):
            yield child
        elif isinstance(child, nodes.Element) and not isinstance(
            child, INSIDE
        ):
            yield from own(child)


def once(found: Iterable[str], known: str = "") -> str:
    """Return each word once, but for those that are known."""
    seen = set(known.lower().split())
    kept = []
    for word in found:
        if word.lower() not in seen:
            seen.add(word.lower())
            kept.append(word)
    return " ".join(kept)


def section_of(section: nodes.section, anchor: str) -> Section:
    """Return what is found of a section."""
    texts = list(own(section))
    heading = texts[0].astext()
    blocks = [
        text
        for text in texts
        if isinstance(text, nodes.literal_block)
        and not is_within(text, (Fold,))
    ]
    said = [
        text
        for text in texts[1:]
        if isinstance(text, PROSE) or text.get("language") == "none"
    ]
    prose = once(WORD.findall("\n".join(each.astext() for each in said)))
    shown = "\n".join(each.astext() for each in blocks)
    code = once(NAME.findall(shown), prose)
    return Section(anchor, heading, prose, code)


def keep(app: Sphinx, doctree: nodes.document) -> None:
    """Note what is found of the page that was read."""
    first, *others = doctree.findall(nodes.section)
    sections = [section_of(first, "")]
    sections += [section_of(each, each["ids"][0]) for each in others]
    also = app.env.metadata[app.env.docname].get(SEARCH, "")
    searched(app.env)[app.env.docname] = Searched(
        sections[0].heading, f"{also}", sections
    )


def purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page that is gone, or about to be read."""
    searched(env).pop(docname, None)


def merge(
    app: Sphinx,
    env: BuildEnvironment,
    docnames: Set[str],
    other: BuildEnvironment,
) -> None:
    """Take over the pages that another process has read."""
    read = searched(other)
    searched(env).update({name: read[name] for name in docnames & read.keys()})


def setup(app: Sphinx) -> ExtensionMetadata:
    """Keep what is found of each page, once it is read."""
    app.connect("doctree-read", keep)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    return {
        "version": "1",
        "env_version": 1,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
