"""Lists of what other pages say: of pages, of recipes, of rules to remember.

``{chapters}`` and ``{course}`` list pages with their first sentences,
``{recipes}`` adds the picture of each; ``{rules}`` and ``{chapter-answers}``
repeat what to remember, chapter by chapter. All of it stands on those pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from extensions.claims.page import read_page
from extensions.claims.sphinx_panels import claim_link
from extensions.core.markdown import Chapter, chapters
from extensions.core.topics import Topic, topics
from extensions.pages.head import COURSE, show_summaries, summary_of
from extensions.programs.sphinx_figures import recipe_card
from extensions.site.dependencies import KINDS, builder_of, depend_on, root_of
from extensions.site.layout import INDEX, address, chapters_of, title_shown
from extensions.site.nodes import HtmlNode, add_html_node, words

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class _PageList(HtmlNode):
    """A placeholder for a list of pages, until all of them are read."""


class _Summary(HtmlNode):
    """A placeholder for the first sentence of a recipe."""


class _ChaptersDirective(SphinxDirective):
    """List the other chapters of the site, in their order."""

    def run(self) -> list[nodes.Node]:
        """Leave a place for the list."""
        depend_on(self.env, "pages")
        every = sorted(self.env.found_docs)
        show_summaries(self.env, [n for n in every if n.endswith(INDEX)])
        return [_PageList(is_course=False)]


class _CourseDirective(SphinxDirective):
    """List the pages of this page's table of contents, to read in order."""

    def run(self) -> list[nodes.Node]:
        """Leave a place for the list."""
        depend_on(self.env, "pages")
        show_summaries(self.env, sorted(self.env.found_docs))
        self.env.metadata[self.env.docname][COURSE] = True
        return [_PageList(is_course=True)]


class _LinkingDirective(SphinxDirective):
    """A directive that links to pages."""

    def page(self, name: str) -> nodes.reference:
        """Return the title of a page as a link to it."""
        uri = address(self.env, Topic(root_of(self.env), name), "").rstrip("#")
        title = title_shown(self.env, name)
        return nodes.reference("", title, internal=True, refuri=uri)


class _RecipesDirective(_LinkingDirective):
    """Show the named recipes, in their order."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a card for each recipe."""
        self.assert_has_content()
        names = [line.strip() for line in self.content if line.strip()]
        for name in names:
            if not Topic(root_of(self.env), name).is_recipe:
                raise self.error(f"no recipe: {name!r}")
        depend_on(self.env, "pages")
        show_summaries(self.env, names)
        cards = [self.card(Topic(root_of(self.env), name)) for name in names]
        return [nodes.container("", *cards, classes=["recipe-cards"])]

    def card(self, recipe: Topic) -> nodes.container:
        """Return the title of a recipe, its words and its picture."""
        depend_on(self.env, "programs", recipe.name)
        summary = _Summary(name=recipe.name)
        return recipe_card(recipe, self.page(recipe.name), summary)


class ByChapterDirective(_LinkingDirective):
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


def _recaps_now(app: Sphinx) -> dict[str, str]:
    """Return which claims each page repeats."""
    return {
        topic.name: " ".join(
            each.name for each in read_page(topic.page).recapped
        )
        for topic in topics(root_of(app.env))
    }


def _render(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the lists of a page, now that the others are read."""
    env, builder = app.env, builder_of(app)

    def row(name: str) -> dict[str, Any]:
        opening = summary_of(env, name)
        return {
            "title": env.titles[name].astext(),
            "uri": builder.get_relative_uri(docname, name),
            "text": opening.text,
            "minutes": opening.minutes,
        }

    for place in doctree.findall(_PageList):
        names = [f"{each}{INDEX}" for each in chapters_of(env)]
        if place["is_course"]:
            names = env.toctree_includes[docname]
        values = {
            "rows": [row(name) for name in names if name != docname],
            "numbered": place["is_course"],
            "words": words,
        }
        place["html"] = builder.templates.render("pages.html", values)
    for card in doctree.findall(_Summary):
        card["html"] = words(summary_of(env, card["name"]).text)


def setup_lists(app: Sphinx) -> None:
    """Add the directives."""
    KINDS["recaps"] = _recaps_now
    for kind in (_PageList, _Summary):
        add_html_node(app, kind)
    app.add_directive("chapters", _ChaptersDirective)
    app.add_directive("course", _CourseDirective)
    app.add_directive("recipes", _RecipesDirective)
    app.add_directive("rules", _RulesDirective)
    app.add_directive("chapter-answers", _ChapterAnswersDirective)
    app.connect("doctree-resolved", _render)
