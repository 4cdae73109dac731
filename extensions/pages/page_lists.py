"""``{chapters}`` and ``{course}``: lists of pages with their first sentences.

A page is listed with its title and its first sentence, and in a course also
with its reading time; all of that is taken from the page itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.build.chapters import INDEX, chapters_of
from extensions.build.dependencies import builder_of, depend_on
from extensions.build.html_node import HtmlNode, add_html_node
from extensions.build.inline_code import words
from extensions.pages.course import keep_course
from extensions.pages.page_summary import show_summaries, summary_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class _PageList(HtmlNode):
    """A placeholder for a list of pages, until all of them are read."""


class _ChaptersDirective(SphinxDirective):
    """List the other chapters of the site, in their order."""

    def run(self) -> list[nodes.Node]:
        """Leave a place for the list."""
        depend_on(self.env, "pages")
        every = sorted(self.env.found_docs)
        show_summaries(
            self.env, [name for name in every if name.endswith(INDEX)]
        )
        return [_PageList(template="chapters.html")]


class _CourseDirective(SphinxDirective):
    """List the named pages, to be read one after the other."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Leave a place for the list."""
        self.assert_has_content()
        names = [line.strip() for line in self.content if line.strip()]
        for name in names:
            if name not in self.env.found_docs:
                raise self.error(f"a course of a page that is not: {name!r}")
        depend_on(self.env, "pages")
        show_summaries(self.env, names)
        keep_course(self.env, names)
        return [_PageList(template="course.html", names=names)]


def _render_lists(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the lists of a page."""
    builder = builder_of(app)

    def row(name: str) -> dict[str, Any]:
        opening = summary_of(app.env, name)
        return {
            "name": name,
            "title": app.env.titles[name].astext(),
            "uri": builder.get_relative_uri(docname, name),
            "text": opening.text,
            "minutes": opening.minutes,
        }

    for place in doctree.findall(_PageList):
        chapters = [f"{each}{INDEX}" for each in chapters_of(app.env)]
        names = place.get("names") or [n for n in chapters if n != docname]
        values = {"rows": [row(name) for name in names], "words": words}
        place["html"] = builder.templates.render(place["template"], values)


def setup_page_lists(app: Sphinx) -> None:
    """Add the directives."""
    add_html_node(app, _PageList)
    app.add_directive("chapters", _ChaptersDirective)
    app.add_directive("course", _CourseDirective)
    app.connect("doctree-resolved", _render_lists)
