"""``{chapters}`` and ``{course}``: pages with what each says of itself.

A page is listed with its title and its first sentence, and in a course also
with the minutes that it takes; nothing of it is typed a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.build.builder import builder_of
from extensions.build.chapters import INDEX, chapters_of
from extensions.build.dependencies import depend_on
from extensions.build.inline_code import words
from extensions.pages.page_summary import opening_of, show

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


class PageList(nodes.General, nodes.Element):
    """Stands where a list of pages will, once all of them are read."""


class ChaptersDirective(SphinxDirective):
    """List the other chapters of the site, in their order."""

    def run(self) -> list[nodes.Node]:
        """Leave a place for the list."""
        depend_on(self.env, "pages")
        every = sorted(self.env.found_docs)
        show(self.env, [name for name in every if name.endswith(INDEX)])
        return [PageList(template="chapters.html")]


class CourseDirective(SphinxDirective):
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
        show(self.env, names)
        return [PageList(template="course.html", names=names)]


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the lists of a page."""
    builder = builder_of(app)

    def row(name: str) -> dict[str, Any]:
        opening = opening_of(app.env, name)
        return {
            "title": app.env.titles[name].astext(),
            "uri": builder.get_relative_uri(docname, name),
            "text": opening.text,
            "minutes": opening.minutes,
        }

    for place in doctree.findall(PageList):
        chapters = [f"{each}{INDEX}" for each in chapters_of(app.env)]
        names = place.get("names") or [n for n in chapters if n != docname]
        values = {"rows": [row(name) for name in names], "words": words}
        place["html"] = builder.templates.render(place["template"], values)


def visit(translator: HTML5Translator, node: PageList) -> None:
    """Write the list."""
    translator.body.append(node["html"])
    raise nodes.SkipNode


def setup_page_lists(app: Sphinx) -> None:
    """Add the directives."""
    app.add_node(PageList, html=(visit, None))
    app.add_directive("chapters", ChaptersDirective)
    app.add_directive("course", CourseDirective)
    app.connect("doctree-resolved", fill)
