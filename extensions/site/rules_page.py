"""``{rules}`` and ``{answers}``: what to remember of all pages, on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from extensions.files.pages import read_page
from extensions.files.reading_order import Chapter, chapters
from extensions.files.topics import Topic, topics
from extensions.site.page_basis import KINDS, rest_on, root_of
from extensions.site.recap import address, recalled
from extensions.site.titles_shown import title_shown

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def recaps(app: Sphinx) -> dict[str, str]:
    """Return which claims each page repeats."""
    return {
        topic.name: " ".join(
            each.name for each in read_page(topic.page).recalled
        )
        for topic in topics(root_of(app.env))
    }


class ByChapter(SphinxDirective):
    """Show a section for each chapter that has something to show."""

    def run(self) -> list[nodes.Node]:
        """Return the sections, in the order in which the site is read."""
        rest_on(self.env, "pages")
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
        """Read this page again once another one has changed."""
        self.env.note_dependency(str(self.env.doc2path(name)))

    def of(self, chapter: Chapter) -> list[nodes.Node]:
        """Return what there is to show of a chapter."""
        raise NotImplementedError

    def page(self, name: str) -> nodes.reference:
        """Return the title of a page as a link to it."""
        root = root_of(self.env)
        uri = address(self.env, Topic(root, name), "").rstrip("#")
        title = title_shown(self.env, name)
        return nodes.reference("", title, internal=True, refuri=uri)


class RulesDirective(ByChapter):
    """Repeat what each page says to remember."""

    def of(self, chapter: Chapter) -> list[nodes.Node]:
        """Return a list for each page; each rule leads to its place."""
        found: list[nodes.Node] = []
        for name in chapter.pages:
            topic = Topic(root_of(self.env), name)
            rest_on(self.env, "recaps", name)
            rules = nodes.bullet_list(classes=["recap"])
            for each in read_page(topic.page).recalled:
                if link := recalled(self, topic, each.name):
                    rules += nodes.list_item("", nodes.paragraph("", "", link))
            if rules.children:
                title = nodes.paragraph("", "", self.page(name))
                found += [title, rules]
        return found


class AnswersDirective(ByChapter):
    """Repeat the answers of each chapter's index, each with its page.

    Those to pages without a program, such as the ledger, are no rules.
    """

    def of(self, chapter: Chapter) -> list[nodes.Node]:
        """Return one list."""
        answers = nodes.bullet_list()
        for name, rule in chapter.rules:
            if not Topic(root_of(self.env), name).snippet.exists():
                continue
            said = nodes.paragraph()
            source = str(self.env.doc2path(f"{chapter.name}/index"))
            lines = StringList([rule], source)
            self.state.nested_parse(lines, 0, said)
            line = nodes.paragraph("", "", *said[0].children)
            line += [nodes.Text(": "), self.page(name)]
            answers += nodes.list_item("", line)
        return [answers] if answers.children else []


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directives."""
    KINDS["recaps"] = recaps
    app.add_directive("rules", RulesDirective)
    app.add_directive("answers", AnswersDirective)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
