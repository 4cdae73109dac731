"""``{origins}``: the texts behind the guide, and where their sections went.

The list is a TOML file beside the page. It names topics; a topic that has a
page is a link, and another is planned, so a new page edits no list.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from extensions.files.problem import Problem
from extensions.files.reading import tables_of
from extensions.site.page_basis import rest_on

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata, OptionSpec


def read_sources(path: Path) -> list[dict[str, Any]]:
    """Return the texts that a file lists."""
    sources = tables_of(path, "source")
    for line, each in sources:
        for key in ("title", "author", "date"):
            if not isinstance(each.get(key), str):
                raise Problem(path, line, f"a source needs text as its {key}")
        if not isinstance(each.get("sections"), dict):
            raise Problem(path, line, "a source needs a table of its sections")
        for name, topics in each["sections"].items():
            if not is_list_of_text(topics):
                message = f"section {name!r} needs a list of topics"
                raise Problem(path, line, message)
    return [each for _, each in sources]


def is_list_of_text(value: object) -> bool:
    """Whether a value is a list of texts, with one at least."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, str) for each in value)
    )


class OriginsDirective(SphinxDirective):
    """Show the texts that a file lists, each with a table of its sections."""

    required_arguments = 1
    option_spec: ClassVar[OptionSpec] = {}

    def run(self) -> list[nodes.Node]:
        """Return a section for each text."""
        _, name = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(name)
        # A new page brings claims, and this page then has one more link.
        rest_on(self.env, "pages")
        try:
            sources = read_sources(Path(name))
        except Problem as problem:
            raise self.error(str(problem)) from problem
        return [self.origin(each) for each in sources]

    def origin(self, source: dict[str, Any]) -> nodes.section:
        """Return the section of one text."""
        title = source["title"]
        section = nodes.section(ids=[nodes.make_id(title)])
        section += nodes.title(title, title)
        said = f"Author: {source['author']}. Date: {source['date']}."
        section += nodes.paragraph("", said)
        items = nodes.definition_list()
        for name, topics in source["sections"].items():
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
        return addnodes.pending_xref(
            "",
            nodes.inline(topic, topic),
            refdomain="std",
            reftype="doc",
            reftarget=f"/{topic}",
            refdoc=self.env.docname,
            refexplicit=True,
            refwarn=True,
        )


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directive."""
    app.add_directive("origins", OriginsDirective)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
