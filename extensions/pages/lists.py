"""What a page says of itself, at its head, and where other pages list it.

The line at its head says its place in the course, how long it takes, what to
read first, and what its program needs. The files of the page are in that line
from the beginning: Sphinx collects them before it knows the rest.

The first sentence and the reading time are found when a page is read, and kept
in its metadata, which Sphinx purges and merges.

``{chapters}`` and ``{course}`` list pages with their first sentences,
``{recipes}`` adds the picture of each; ``{rules}`` and ``{chapter-answers}``
repeat what to remember, chapter by chapter. All of it stands on those pages.
"""

from collections.abc import Iterable
from typing import NamedTuple

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from extensions.claims.page import read_page
from extensions.claims.sphinx_panels import claim_link
from extensions.core.markdown import Chapter, chapters
from extensions.core.syntax import READ_FIRST
from extensions.core.topics import Topic, topics
from extensions.programs.snippet import Snippet, libraries
from extensions.programs.sphinx_figures import recipe_card
from extensions.prose.sentences import END
from extensions.site.dependencies import builder_of, depend_on, root_of
from extensions.site.layout import INDEX, address, chapters_of, title_shown
from extensions.site.nodes import (
    Details,
    HtmlNode,
    head_of,
    is_within,
    put_head,
    words,
)

_WORDS_PER_MINUTE = 200  # of prose in a minute
_LINES_PER_MINUTE = 30  # of code in a minute
_SUMMARY = "page_summary"
_SHOWN = "summaries_shown"
_COURSE = "course"  # whether a page lists the pages below it as a course


class PageSummary(NamedTuple):
    """What lists say of a page."""

    text: str = ""
    """Its first sentence, as Markdown of words and code."""
    minutes: int = 1
    """How long it takes to read."""


def summary_of(env: BuildEnvironment, name: str) -> PageSummary:
    """Return the summary of a page, which is empty if it was never read."""
    return PageSummary(*env.metadata[name].get(_SUMMARY, ()))


def show_summaries(env: BuildEnvironment, names: Iterable[str]) -> None:
    """Note that the page being read shows the summaries of some pages."""
    env.metadata[env.docname].setdefault(_SHOWN, []).extend(names)


def summaries_by_page(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of the summaries that each page shows."""
    env = app.env
    return {
        name: f"{[summary_of(env, n) for n in env.metadata[name][_SHOWN]]}"
        for name in env.found_docs
        if _SHOWN in env.metadata[name]
    }


def keep_summary(app: Sphinx, doctree: nodes.document) -> None:
    """Keep the summary of a page once it is read."""
    first = next(doctree.findall(nodes.paragraph), None)
    text = "" if first is None else _first_sentence(first)
    facts = app.env.metadata[app.env.docname]
    facts[_SUMMARY] = (text, _minutes_to_read(doctree))


def _first_sentence(paragraph: nodes.paragraph) -> str:
    # As Markdown of words and code, whatever lines it spans.
    text = ""
    for node in paragraph.findall(nodes.Text):
        mark = "`" if isinstance(node.parent, nodes.literal) else ""
        text += f"{mark}{node}{mark}"
    text = " ".join(text.split())
    end = END.search(text)
    return text[: end.end()].strip() if end else text


def _minutes_to_read(doctree: nodes.document) -> int:
    # Outputs, and what is folded, are left out.
    words = lines = 0
    for node in doctree.findall(nodes.TextElement):
        if is_within(node, (Details,)):
            continue
        if isinstance(node, nodes.paragraph):
            words += len(node.astext().split())
        elif node.get("language") == "python":
            lines += len(node.astext().splitlines())
    return max(1, round(words / _WORDS_PER_MINUTE + lines / _LINES_PER_MINUTE))


def fill_head(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Say in the line at the head of a page what is known of it."""
    said: list[nodes.Node] = []
    for index, names in app.env.toctree_includes.items():
        if docname in names and _COURSE in app.env.metadata[index]:
            place = f"Page {names.index(docname) + 1} of {len(names)} of "
            course = _link_from(app, docname, index, "the course")
            said += [nodes.Text(place), course]
    line = head_of(doctree)
    if line is None:  # no program, and no files
        if said:
            put_head(doctree, said)
        return
    minutes = summary_of(app.env, docname).minutes
    # In the course, its place says what comes before.
    first = "" if said else app.env.metadata[docname].get(READ_FIRST)
    said.append(nodes.Text(f"{' · ' if said else ''}{minutes} min to read"))
    if first in app.env.titles:
        link = _link_from(app, docname, first, app.env.titles[first].astext())
        said += [nodes.Text(" · read first: "), link]
    snippet = Snippet.read(Topic(root_of(app.env), docname).snippet)
    *most, last = libraries(snippet.text) or ["Python"]
    needs = f"{', '.join(most)} and {last}" if most else last
    if any(cell.is_cuda for cell in snippet.cells().values()):
        needs += ", for a part a CUDA device"
    said.append(nodes.Text(f" · needs {needs} · "))
    line[:0] = said


def _link_from(
    app: Sphinx, docname: str, name: str, words: str
) -> nodes.reference:
    uri = app.builder.get_relative_uri(docname, name)
    return nodes.reference("", words, internal=True, refuri=uri)


# -- Lists -------------------------------------------------------------------


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
            self.env.metadata[self.env.docname][_COURSE] = True
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
            recipe = Topic(root_of(self.env), name)
            link = _link(self.env, name)
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
                title = nodes.paragraph("", "", _link(self.env, name))
                found += [title, rules]
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
                link = nodes.inline(": ", ": ", classes=["rule-page"])
                link += _link(self.env, name)
                answers += _item(*said[0].children, link)
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
