"""Lead from names of torch to the API, and from terms to the glossary.

A name leads there once in each paragraph and block, and one that is not listed
is reported; a term leads there where a page first uses it.
"""

from pathlib import Path

from docutils import nodes
from docutils.utils import get_source_line
from sphinx import addnodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform
from sphinx.writers.html5 import HTML5Translator

from extensions.core.files import Problem, text_of
from extensions.core.topics import Topic
from extensions.prose.names import (
    TORCH_NAMES,
    USUAL,
    Link,
    Use,
    bound_in,
    forms_of,
    imports_of,
    linked,
    pattern_of,
    read_names,
    terms_of,
    uses_in,
)
from extensions.site.dependencies import depend_on, root_of
from extensions.site.errors import report
from extensions.site.nodes import is_within, paragraph_of

# What stands in these leads elsewhere, or is read out of its place.
_LINKS = (nodes.reference, pending_xref, nodes.Invisible)
_NO_LINKS = (*_LINKS, nodes.title, nodes.term)
# No term stands in these, or they are no prose of the page.
_NO_TERMS = (
    *_LINKS,
    nodes.literal,
    nodes.FixedTextElement,
    nodes.raw,
    addnodes.glossary,
    addnodes.download_reference,
)


class LinkNames(SphinxTransform):
    """Add the links to a page that was read."""

    default_priority = 860  # behind all that makes links

    def apply(self) -> None:
        """Look at the code of the page, in its prose and between it."""
        program = self._program(self.env.docname)
        self.names = read_names(root_of(self.env))
        self.imports = imports_of(program)
        self.bound = bound_in(program)
        self.seen: set[tuple[nodes.Node, str]] = set()
        depend_on(self.env, "torch names")
        for block in self.document.findall(nodes.literal_block):
            if block.get("language", "").lower() == "python":
                block["api"] = self._links_in(block)
        for words in [*self.document.findall(nodes.literal)]:
            if not is_within(words, _NO_LINKS):
                self._link(words)

    def _program(self, name: str) -> str:
        path = Topic(root_of(self.env), name).snippet
        return text_of(path) if path.exists() else ""

    def _links_in(self, block: nodes.literal_block) -> list[Link]:
        found, imports = [], self.imports
        if "topic" in block:  # a cell of another page
            imports = imports_of(self._program(block["topic"]))
        for use in uses_in(block.astext(), imports):
            name = self._known(use, block)
            if name and self._is_first(name, block):
                uri = self._address(name)
                found.append((use.start, use.end_of(name), uri))
        return found

    def _link(self, words: nodes.literal) -> None:
        # Only code that has one name of torch becomes a link.
        said = words.astext().strip()
        if (word := said.removesuffix("()")).isidentifier():
            name = self._named(word)
        else:
            code = f"x{said}" if said.startswith(".") else said
            uses = uses_in(code, USUAL | self.imports)
            names = {self._known(use, words) for use in uses} - {None}
            name = names.pop() if len(names) == 1 else None
        if name and self._is_first(name, paragraph_of(words)):
            uri = self._address(name)
            link = nodes.reference("", "", refuri=uri, classes=["api"])
            words.replace_self(link)
            link += words

    def _address(self, name: str) -> str:
        return f"{self.names.base}{self.names.pages[name]}"

    def _named(self, word: str) -> str | None:
        # What a word alone stands for, unless the page gives it a meaning.
        whole = (USUAL | self.imports).get(word, "")
        if whole.partition(".")[0] == "torch":
            name = self.names.known(whole)
            return None if name in self.names.unlinked else name
        return None if word in self.bound else self.names.short.get(word)

    def _known(self, use: Use, node: nodes.Element) -> str | None:
        if use.is_member:
            return self.names.member(use.name)
        known = self.names.known(use.name)
        if known is None and self.names.pages and use.name != "torch":
            source, line = get_source_line(node)
            place = Path(source or self.document["source"])
            message = f"{use.name} is not in {TORCH_NAMES}: add its address"
            report(Problem(place, line or 1, message))
        return None if known in self.names.unlinked else known

    def _is_first(self, name: str, node: nodes.Node) -> bool:
        found = (node, name) in self.seen
        self.seen.add((node, name))
        return not found


def visit_code(translator: HTML5Translator, node: nodes.literal_block) -> None:
    """Write a block as Sphinx does, and the links into it."""
    try:
        HTML5Translator.visit_literal_block(translator, node)
    except nodes.SkipNode:
        if links := node.get("api"):
            translator.body[-1] = linked(translator.body[-1], links)
        raise


class LinkTerms(SphinxTransform):
    """Make a link of the first use of each term in the prose of a page."""

    default_priority = 870  # behind the links of all others

    def apply(self) -> None:
        """Look at each paragraph but the first, which says what one gets."""
        depend_on(self.env, "terms")
        if self.env.docname == self.env.config.root_doc:
            return  # its cards are links as a whole
        body = [
            paragraph
            for paragraph in self.document.findall(nodes.paragraph)
            if not isinstance(paragraph.parent, nodes.field_body)
        ]
        self.forms = forms_of(terms_of(root_of(self.env)))
        self.pattern = pattern_of(self.forms)
        self.used: set[str] = set()
        for paragraph in body[1:]:
            for text in [*paragraph.findall(nodes.Text)]:
                if not is_within(text, _NO_TERMS, "cell"):
                    self._link(text)

    def _link(self, text: nodes.Text) -> None:
        found: list[nodes.Node] = []
        place, words = 0, text.astext()
        for match in self.pattern.finditer(words):
            term = self.forms[match[0].lower()]
            if term not in self.used:
                self.used.add(term)
                found.append(nodes.Text(words[place : match.start()]))
                found.append(self._reference(term, match[0]))
                place = match.end()
        if found:
            text.parent.replace(text, [*found, nodes.Text(words[place:])])

    def _reference(self, term: str, words: str) -> pending_xref:
        return pending_xref(
            "",
            nodes.inline("", words, classes=["term"]),
            refdomain="std",
            reftype="term",
            reftarget=term,
            refdoc=self.env.docname,
            refexplicit=True,
            refwarn=True,
        )
