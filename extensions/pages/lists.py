"""``{rules}`` and ``{chapter-answers}``: what to remember of all pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList

from extensions.build.dependencies import KINDS, depend_on, root_of
from extensions.claims.page import read_page
from extensions.claims.sphinx_claim_links import claim_link
from extensions.core.topics import Topic, topics
from extensions.pages.by_chapter import ByChapterDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from extensions.core.reading_order import Chapter


def _recaps_now(app: Sphinx) -> dict[str, str]:
    """Return which claims each page repeats."""
    return {
        topic.name: " ".join(
            each.name for each in read_page(topic.page).recapped
        )
        for topic in topics(root_of(app.env))
    }


class _RulesDirective(ByChapterDirective):
    """Repeat the rules to remember of each page."""

    def of(self, chapter: Chapter) -> list[nodes.Node]:
        """Return a list for each page; each rule leads to its place."""
        found: list[nodes.Node] = []
        for name in chapter.pages:
            topic = Topic(root_of(self.env), name)
            depend_on(self.env, "recaps", name)
            rules = nodes.bullet_list(classes=["recap"])
            for each in read_page(topic.page).recapped:
                if link := claim_link(self, topic, each.name):
                    rules += nodes.list_item("", nodes.paragraph("", "", link))
            if rules.children:
                title = nodes.paragraph("", "", self.page(name))
                found += [title, rules]
        return found


class _ChapterAnswersDirective(ByChapterDirective):
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


def setup_rules_page(app: Sphinx) -> None:
    """Add the directives."""
    KINDS["recaps"] = _recaps_now
    app.add_directive("rules", _RulesDirective)
    app.add_directive("chapter-answers", _ChapterAnswersDirective)
