"""The words that the search knows of each section, kept when a page is read.

All words of the prose are indexed, and the names in code that is not hidden in
details, each word once per section, so that the index stays small. Panels are
added later, and pages of tests and of the ledger are no documents: none of
these is indexed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from docutils import nodes
from sphinx import addnodes

from extensions.build.ancestors import is_within
from extensions.build.details import Details
from extensions.core.front_matter import HEADINGS, NAMED_BY, SEARCH
from extensions.web.search_terms import Field, field_of
from extensions.web.stop_words import STOP_WORDS

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_WORD = re.compile(r"[^\W\d]\w+")
# A name after a dot, before "=" in a call, or written like one of a library.
# Other names in code are those of the program's own variables.
_NAME_IN_CODE = re.compile(
    r"(?<=\.)[^\W\d]\w+|[^\W\d]\w+(?==[^=\s])|[^\W\d]\w*[A-Z_]\w+"
)
_PROSE = (nodes.paragraph, nodes.title, nodes.term, nodes.rubric)
# The key in the metadata of a page, which Sphinx purges and merges.
_SEARCH_TEXTS = "search_texts"
_NOT_OF_SECTION = (nodes.section, nodes.comment, nodes.raw, addnodes.glossary)


class Section(NamedTuple):
    """A heading, the anchor that it has, and what stands below it.

    A term of the glossary, with what it means, is one as well.
    """

    anchor: str
    heading: str
    prose: str
    code: str
    fields: tuple[Field, Field, Field, Field]
    """What is looked up: its prose, its code, its heading, and its name."""
    text: str
    """Its sentences, one in each line, which results quote."""
    labels: list[tuple[int, str]]
    """The lines with an anchor of their own, as claims have, and which."""


def _section(
    anchor: str,
    heading: str,
    said: Sequence[nodes.Element],
    names: str = "",
    *,
    is_name: bool = False,
) -> Section:
    """Return a section with its terms, which are found here, once.

    A heading that is a name weighs as much as one of the front matter.
    """
    text = _text_of(said)
    prose = _unique_words(_WORD.findall(text))
    code = _unique_words(_NAME_IN_CODE.findall(names), prose)
    none, name = field_of(""), field_of(heading)
    named = (none, name) if is_name else (name, none)
    fields = field_of(prose), field_of(code), *named
    labels = list(_labels_of(said))
    return Section(anchor, heading, prose, code, fields, text, labels)


class SearchedPage(NamedTuple):
    """A page: its title, what people also call it, and its sections."""

    title: str
    also: str
    sections: list[Section]


def searched_pages(env: BuildEnvironment) -> dict[str, SearchedPage]:
    """Return what the search knows of each page."""
    return {
        name: env.metadata[name][_SEARCH_TEXTS]
        for name in env.found_docs
        if _SEARCH_TEXTS in env.metadata[name]
    }


def _texts_of_section(node: nodes.Element) -> Iterator[nodes.Element]:
    """Yield the texts of a section, without those of its subsections."""
    for child in node.children:
        if not isinstance(child, nodes.Element):
            continue
        if isinstance(child, nodes.literal_block):
            if not is_within(child, (Details,)):
                yield child
        elif isinstance(child, _PROSE) or "searched" in child:
            yield child
        elif not isinstance(child, _NOT_OF_SECTION):
            yield from _texts_of_section(child)


def _text_of(found: Iterable[nodes.Element]) -> str:
    """Return the text of some nodes, or what they say is to be searched."""
    return "\n".join(each.get("searched") or each.astext() for each in found)


def _labels_of(found: Iterable[nodes.Element]) -> Iterator[tuple[int, str]]:
    """Yield the line of each part with an anchor, and the anchor."""
    line = 0
    for text in found:
        words, at = text.get("searched") or text.astext(), 0
        for node in text.findall(nodes.TextElement):
            start = words.find(node.astext(), at)
            if node["ids"] and start >= 0:
                yield line + words.count("\n", 0, start), node["ids"][0]
                at = start
        line += words.count("\n") + 1


def _unique_words(found: Iterable[str], known: str = "") -> str:
    """Return each word once, without stop words and known ones."""
    seen = {*STOP_WORDS, *known.lower().split()}
    kept = []
    for word in found:
        if word.lower() not in seen:
            seen.add(word.lower())
            kept.append(word)
    return " ".join(kept)


def _section_of(
    node: nodes.section, anchor: str, *, is_named: bool
) -> Section:
    """Return a section of a page, which may be named by its headings.

    A heading above others only gathers them, and is no name.
    """
    heading, *texts = _texts_of_section(node)
    code = [text for text in texts if text.get("language", "none") != "none"]
    said = [text for text in texts if text not in code]
    is_name = is_named and not any(
        isinstance(child, nodes.section) for child in node.children
    )
    return _section(
        anchor, heading.astext(), said, _text_of(code), is_name=is_name
    )


def _section_of_term(item: nodes.definition_list_item) -> Section:
    """Return a term of the glossary as a section."""
    term = next(item.findall(nodes.term))
    said = list(item.findall(nodes.paragraph))
    return _section(term["ids"][0], term.astext(), said)


def _keep_texts(app: Sphinx, doctree: nodes.document) -> None:
    """Keep the texts of the page that was read."""
    name = app.env.docname
    is_named = app.env.metadata[name].get(NAMED_BY) == HEADINGS
    sections = [
        _section_of(node, node["ids"][0] if place else "", is_named=is_named)
        for place, node in enumerate(doctree.findall(nodes.section))
    ]
    sections += [
        _section_of_term(item)
        for glossary in doctree.findall(addnodes.glossary)
        for item in glossary.findall(nodes.definition_list_item)
    ]
    if sections:
        also = f"{app.env.metadata[name].get(SEARCH, '')}"
        title = sections[0].heading
        found = SearchedPage(title, also, sections)
        app.env.metadata[name][_SEARCH_TEXTS] = found


def setup_search_texts(app: Sphinx) -> None:
    """Keep the texts of each page, once it is read."""
    app.connect("doctree-read", _keep_texts)
