"""The search: one script with the texts of all sections, beside the pages.

A browser makes an index of them, with MiniSearch, once somebody opens the
search. A script, because a page that was opened from a folder may load nothing
else. Panels are added to pages later, and pages of tests and of the ledger are
no documents: none of these is searched. ``{search-box}`` is the search on the
page itself, large, besides that of the sidebar.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.words import sign_of
from extensions.core.syntax import SEARCH
from extensions.pages.boxes import Box
from extensions.prose.rules import read_synonyms
from extensions.site.dependencies import root_of
from extensions.site.nodes import Details, is_within

# The key in the metadata of a page, which Sphinx purges and merges.
_SECTIONS = "searched_sections"
_PROSE = (nodes.paragraph, nodes.title, nodes.term, nodes.rubric)
_NOT_OF_SECTION = (nodes.section, nodes.comment, nodes.raw, addnodes.glossary)
# A name after a dot, before "=" in a call, or written like one of a library.
# Other names in code are those of the program's own variables.
_NAME_IN_CODE = re.compile(
    r"(?<=\.)[^\W\d]\w+|[^\W\d]\w+(?==[^=\s])|[^\W\d]\w*[A-Z_]\w+"
)


class Section(NamedTuple):
    """A heading or a term of the glossary, and what stands below it."""

    anchor: str
    heading: str
    text: str
    """Its sentences, one in each line, which results quote."""
    code: str
    labels: list[tuple[int, str]]
    """The lines with an anchor of their own, as claims have, and which."""
    errors: list[str]
    """The error texts that it explains."""


def _said_in(node: nodes.Element) -> Iterator[nodes.Element]:
    """Yield the texts of a section, without those of its subsections."""
    for child in node.children:
        if isinstance(child, nodes.literal_block):
            if not is_within(child, (Details,)):
                yield child
        elif isinstance(child, nodes.Element):
            if isinstance(child, _PROSE) or "searched" in child:
                yield child
            elif not isinstance(child, _NOT_OF_SECTION):
                yield from _said_in(child)


def _words_of(node: nodes.Element) -> str:
    return str(node.get("searched") or node.astext())


def _labels_of(said: Iterable[nodes.Element]) -> Iterator[tuple[int, str]]:
    line = 0
    for text in said:
        words, at = _words_of(text), 0
        for node in text.findall(nodes.TextElement):
            start = words.find(node.astext(), at)
            if node["ids"] and start >= 0:
                yield line + words.count("\n", 0, start), node["ids"][0]
                at = start
        line += words.count("\n") + 1


def _section(
    anchor: str, heading: str, found: Iterable[nodes.Element]
) -> Section:
    prose, names = [], []
    for each in found:
        if each.get("language", "none") == "none":
            prose.append(each)
        else:
            names += _NAME_IN_CODE.findall(each.astext())
    text = "\n".join(map(_words_of, prose))
    code = " ".join(dict.fromkeys(names))
    return Section(anchor, heading, text, code, [*_labels_of(prose)], [])


def keep_sections(app: Sphinx, doctree: nodes.document) -> None:
    """Keep the texts of the page that was read; a title has no anchor."""
    sections: list[Section] = []
    for node in doctree.findall(nodes.section):
        heading, *said = _said_in(node)
        anchor = node["ids"][0] if sections else ""
        errors: list[str] = []
        for each in node.findall(nodes.container):
            if each.parent is node:
                errors += each.get("texts", [])
        section = _section(anchor, heading.astext(), said)
        sections.append(section._replace(errors=errors))
    for glossary in doctree.findall(addnodes.glossary):
        for item in glossary.findall(nodes.definition_list_item):
            term = next(item.findall(nodes.term))
            meant = item.findall(nodes.paragraph)
            sections.append(_section(term["ids"][0], term.astext(), meant))
    app.env.metadata[app.env.docname][_SECTIONS] = sections


def _pages_of(app: Sphinx) -> Iterator[list[object]]:
    """Yield each page; lists are shorter than mappings."""
    env = app.env
    for name in sorted(env.found_docs):
        facts = env.metadata[name]
        sections = facts.get(_SECTIONS)
        if not sections:
            continue
        index = f"{name.rpartition('/')[0]}/index"
        has_chapter = index in env.titles and name != index
        chapter = env.titles[index].astext() if has_chapter else ""
        claims = {
            each.claim.name: (each.claim.name, sign_of(each.verdict).mark)
            for each in ledger_of(app).of(name)
        }
        yield [
            name,
            app.builder.get_target_uri(name),
            sections[0].heading,
            chapter,
            facts.get(SEARCH, ""),
            [
                [
                    *each[:4],
                    {n: claims[a] for n, a in each.labels if a in claims},
                    each.errors,
                ]
                for each in sections
            ],
        ]


def script(app: Sphinx) -> str:
    """Return the script with all pages, and the synonyms."""
    found = [[*_pages_of(app)], [*read_synonyms(root_of(app.env)).items()]]
    written = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return f"window.searchedTexts = {written};\n"


class SearchBoxDirective(SphinxDirective):
    """Show a box that says what to search for, until somebody types."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Leave a place for the box."""
        hint = {"hint": self.arguments[0]}
        return [Box(template="search_box.html", values=hint)]
