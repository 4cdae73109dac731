"""``{chapters}`` and ``{course}``: pages with what each says of itself.

A page is listed with its title and its first sentence, and in a course also
with the minutes that it takes; nothing of it is typed a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.site.builder import SiteBuilder
from extensions.site.chapters import INDEX, chapters_of
from extensions.site.openings import opening_of, show
from extensions.site.page_basis import rest_on
from extensions.site.words import words

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata
    from sphinx.writers.html5 import HTML5Translator


class PageList(nodes.General, nodes.Element):
    """Stands where a list of pages will, once all of them are read."""


class ChaptersDirective(SphinxDirective):
    """List the other chapters of the site, in their order."""

    def run(self) -> list[nodes.Node]:
        """Leave a place for the list."""
        rest_on(self.env, "pages")
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
        rest_on(self.env, "pages")
        show(self.env, names)
        return [PageList(template="course.html", names=names)]


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the lists of a page."""
    builder = app.builder
    if not isinstance(builder, SiteBuilder):
        return

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


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directives."""
    app.add_node(PageList, html=(visit, None))
    app.add_directive("chapters", ChaptersDirective)
    app.add_directive("course", CourseDirective)
    app.connect("doctree-resolved", fill)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
