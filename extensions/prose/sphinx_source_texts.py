"""``{source-texts}``: the texts behind the guide, and where each part went.

The list is a TOML file beside the page. It names topics; a topic that has a
page is a link, and another is planned, so a new page edits no list.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from extensions.build.chapters import title_shown
from extensions.build.dependencies import depend_on
from extensions.core.problem import Problem
from extensions.prose.source_texts import SourceText, read_texts

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import OptionSpec


class _SourceTextsDirective(SphinxDirective):
    """Show the texts that a file lists, each with a table of its sections."""

    required_arguments = 1
    option_spec: ClassVar[OptionSpec] = {}

    def run(self) -> list[nodes.Node]:
        """Return a section for each text."""
        _, name = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(name)
        # A new page brings claims, and this page then has one more link.
        depend_on(self.env, "pages")
        try:
            texts = read_texts(Path(name))
        except Problem as problem:
            raise self.error(str(problem)) from problem
        return [self.origin(each) for each in texts]

    def origin(self, text: SourceText) -> nodes.section:
        """Return the section of one text."""
        section = nodes.section(ids=[nodes.make_id(text.title)])
        section += nodes.title(text.title, text.title)
        said = f"Author: {text.author}. Date: {text.date}."
        section += nodes.paragraph("", said)
        items = nodes.definition_list()
        for name, topics in text.sections.items():
            where = nodes.paragraph()
            for topic in topics:
                where += [self.link(topic), nodes.Text(", ")]
            where.pop()
            items += nodes.definition_list_item(
                "", nodes.term(name, name), nodes.definition("", where)
            )
        section += items
        return section

    def link(self, topic: str) -> nodes.Node:
        """Return a link to a topic's page, or say that it is planned."""
        if topic not in self.env.found_docs:
            return nodes.Text(f"{topic} (planned)")
        title = title_shown(self.env, topic)
        return addnodes.pending_xref(
            "",
            nodes.inline(title, title),
            refdomain="std",
            reftype="doc",
            reftarget=f"/{topic}",
            refdoc=self.env.docname,
            refexplicit=True,
            refwarn=True,
        )


def setup_source_texts(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("source-texts", _SourceTextsDirective)
