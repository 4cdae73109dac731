"""Lists of what other pages say: of pages, of recipes, of rules to remember.

``{chapters}`` and ``{course}`` list pages with their first sentences,
``{recipes}`` adds the picture of each; ``{rules}`` and ``{chapter-answers}``
repeat what to remember, chapter by chapter. All of it stands on those pages.
"""

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from extensions.claims.page import read_page
from extensions.claims.sphinx_panels import claim_link
from extensions.core.markdown import Chapter, chapters
from extensions.core.topics import Topic, topics
from extensions.pages.head import COURSE, show_summaries, summary_of
from extensions.programs.sphinx_figures import recipe_card
from extensions.site.dependencies import builder_of, depend_on, root_of
from extensions.site.layout import INDEX, address, chapters_of, title_shown
from extensions.site.nodes import HtmlNode, words


class PageList(HtmlNode):
    """A placeholder for a list of pages, until all of them are read."""


class RecipeSummary(HtmlNode):
    """A placeholder for the first sentence of a recipe."""


class PageListDirective(SphinxDirective):
    """List pages: of ``{chapters}``, the other chapters of the site; of
    ``{course}``, those of this page's table of contents, to read in order.
    """

    def run(self) -> list[nodes.Node]:
        """Leave a place for the list."""
        is_course = self.name == "course"
        if is_course:
            self.env.metadata[self.env.docname][COURSE] = True
        depend_on(self.env, "pages")
        every = sorted(self.env.found_docs)
        names = [name for name in every if is_course or name.endswith(INDEX)]
        show_summaries(self.env, names)
        return [PageList(is_course=is_course)]


def _link(env: BuildEnvironment, name: str) -> nodes.reference:
    uri = address(env, Topic(root_of(env), name), "").rstrip("#")
    title = title_shown(env, name)
    return nodes.reference("", title, internal=True, refuri=uri)


class RecipesDirective(SphinxDirective):
    """Show the picture of each named recipe above its title and its words."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a card for each recipe."""
        depend_on(self.env, "pages")
        show_summaries(self.env, self.content)
        cards = nodes.container(classes=["recipe-cards"])
        for name in self.content:
            depend_on(self.env, "programs", name)
            recipe, link = (
                Topic(root_of(self.env), name),
                _link(self.env, name),
            )
            cards += recipe_card(recipe, link, RecipeSummary(name=name))
        return [cards]


class _ByChapterDirective(SphinxDirective):
    """Show a section for each chapter that is not empty."""

    def run(self) -> list[nodes.Node]:
        """Return the sections in reading order."""
        depend_on(self.env, "pages")
        self.env.note_dependency(str(self.env.doc2path("index")))
        found: list[nodes.Node] = []
        for chapter in chapters(root_of(self.env)):
            index = str(self.env.doc2path(f"{chapter.name}/index"))
            self.env.note_dependency(index)
            if shown := self._section_of(chapter):
                section = nodes.section(ids=[f"of-{chapter.name}"])
                section += nodes.title(chapter.title, chapter.title)
                section += shown
                found.append(section)
        return found

    def _section_of(self, chapter: Chapter) -> list[nodes.Node]:
        raise NotImplementedError


class RulesDirective(_ByChapterDirective):
    """Repeat the rules to remember of each page."""

    def _section_of(self, chapter: Chapter) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for name in chapter.pages:
            topic = Topic(root_of(self.env), name)
            depend_on(self.env, "recaps", name)
            rules = nodes.bullet_list(classes=["recap"])
            for each in read_page(topic.page).recapped:
                if link := claim_link(self, topic, each.name):
                    rules += _item(link)
            if rules.children:
                found += [
                    nodes.paragraph("", "", _link(self.env, name)),
                    rules,
                ]
        return found


class ChapterAnswersDirective(_ByChapterDirective):
    """Repeat the answers of each chapter's index, each with its page.

    Those to pages without a program, such as the ledger, are no rules.
    """

    def _section_of(self, chapter: Chapter) -> list[nodes.Node]:
        answers = nodes.bullet_list()
        for name, rule in chapter.rules:
            if Topic(root_of(self.env), name).snippet.exists():
                said = nodes.paragraph()
                source = str(self.env.doc2path(f"{chapter.name}/index"))
                self.state.nested_parse(StringList([rule], source), 0, said)
                link = [nodes.Text(": "), _link(self.env, name)]
                answers += _item(*said[0].children, *link)
        return [answers] if answers.children else []


def _item(*words: nodes.Node) -> nodes.list_item:
    return nodes.list_item("", nodes.paragraph("", "", *words))


def recaps_now(app: Sphinx) -> dict[str, str]:
    """Return which claims each page repeats."""
    return {
        topic.name: f"{[each.name for each in read_page(topic.page).recapped]}"
        for topic in topics(root_of(app.env))
    }


def fill_lists(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the lists of a page, now that the others are read."""
    env, builder = app.env, builder_of(app)
    for place in doctree.findall(PageList):
        is_course = place["is_course"]
        chapters = [f"{each}{INDEX}" for each in chapters_of(env)]
        names = env.toctree_includes[docname] if is_course else chapters
        rows = [
            {
                "title": env.titles[name].astext(),
                "uri": builder.get_relative_uri(docname, name),
                "summary": summary_of(env, name),
            }
            for name in names
            if name != docname
        ]
        values = {"rows": rows, "numbered": is_course, "words": words}
        place["html"] = builder.templates.render("pages.html", values)
    for card in doctree.findall(RecipeSummary):
        card["html"] = words(summary_of(env, card["name"]).text)
