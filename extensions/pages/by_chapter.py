"""A directive that shows one section for each chapter, in reading order."""

from __future__ import annotations

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.build.addresses import address
from extensions.build.chapters import title_shown
from extensions.build.dependencies import depend_on, root_of
from extensions.core.reading_order import Chapter, chapters
from extensions.core.topics import Topic


class ByChapterDirective(SphinxDirective):
    """Show a section for each chapter that is not empty."""

    def run(self) -> list[nodes.Node]:
        """Return the sections in reading order."""
        depend_on(self.env, "pages")
        found: list[nodes.Node] = []
        for chapter in chapters(root_of(self.env)):
            self.note(f"{chapter.name}/index")
            if shown := self.of(chapter):
                section = nodes.section(ids=[f"of-{chapter.name}"])
                section += nodes.title(chapter.title, chapter.title)
                section += shown
                found.append(section)
        self.note("index")
        return found

    def note(self, name: str) -> None:
        """Note that this page depends on another one."""
        self.env.note_dependency(str(self.env.doc2path(name)))

    def of(self, chapter: Chapter) -> list[nodes.Node]:
        """Return the contents of the section of a chapter."""
        raise NotImplementedError

    def page(self, name: str) -> nodes.reference:
        """Return the title of a page as a link to it."""
        root = root_of(self.env)
        uri = address(self.env, Topic(root, name), "").rstrip("#")
        title = title_shown(self.env, name)
        return nodes.reference("", title, internal=True, refuri=uri)
