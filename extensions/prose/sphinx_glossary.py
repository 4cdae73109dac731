"""Lead from the first use of each term on a page to the glossary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

from extensions.build.dependencies import ALL, KINDS, depend_on, root_of
from extensions.build.nodes import is_within
from extensions.prose.glossary import pattern_of, term_of, terms_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# No term stands in these: they lead elsewhere, or are no prose of the page.
_NO_LINKS = (
    nodes.reference,
    nodes.literal,
    nodes.FixedTextElement,
    nodes.Invisible,
    nodes.raw,
    addnodes.glossary,
    addnodes.pending_xref,
    addnodes.download_reference,
)


def _terms_now(app: Sphinx) -> dict[str, str]:
    """Return what says whether a term has come or gone."""
    return {ALL: f"{terms_of(root_of(app.env))}"}


class _LinkTerms(SphinxTransform):
    """Make a link of the first use of each term in the prose of a page."""

    default_priority = 870  # behind the links of all others

    def apply(self) -> None:
        """Look at each paragraph but the first, which says what one gets."""
        body = [
            paragraph
            for paragraph in self.document.findall(nodes.paragraph)
            if not isinstance(paragraph.parent, nodes.field_body)
        ]
        self.terms = terms_of(root_of(self.env))
        self.left = set(self.terms)
        self.pattern = pattern_of(self.terms)
        depend_on(self.env, "terms")
        if self.env.docname == self.env.config.root_doc:
            return  # its cards are links as a whole
        for paragraph in body[1:]:
            for text in [*paragraph.findall(nodes.Text)]:
                if not is_within(text, _NO_LINKS, "cell"):
                    self.link(text)

    def link(self, text: nodes.Text) -> None:
        """Cut some words at the terms that the page has not used before."""
        found: list[nodes.Node] = []
        place, words = 0, text.astext()
        for match in self.pattern.finditer(words):
            term = term_of(match[0], self.terms)
            if term in self.left:
                self.left.remove(term)
                found.append(nodes.Text(words[place : match.start()]))
                found.append(self.reference(term, match[0]))
                place = match.end()
        if found:
            found.append(nodes.Text(words[place:]))
            text.parent.replace(text, found)

    def reference(self, term: str, words: str) -> addnodes.pending_xref:
        """Return some words as a link to what the glossary says of a term."""
        return addnodes.pending_xref(
            "",
            nodes.inline("", words, classes=["term"]),
            refdomain="std",
            reftype="term",
            reftarget=term,
            refdoc=self.env.docname,
            refexplicit=True,
            refwarn=True,
        )


def setup_glossary(app: Sphinx) -> None:
    """Add the transform."""
    KINDS["terms"] = _terms_now
    app.add_transform(_LinkTerms)
