"""Boxes: what readers open, try and guess.

``{fold}`` holds what only some readers need, behind its title.
``{broadcasting}`` shows two shapes to try; ``broadcasting.js`` computes what
comes of them, which a test compares with PyTorch.
``{featured-claim}`` shows a claim of another page: the reader takes a line out
of its program, guesses, and sees. The guess is a form of the browser's own,
which a style reads: it works without a script.
"""

from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import OptionSpec

from extensions.claims.sphinx_panels import claim_link
from extensions.core.markdown import BROADCASTING
from extensions.core.topics import Topic
from extensions.programs.sphinx_cell import cell_and_output, output_shown
from extensions.site.dependencies import builder_of, root_of
from extensions.site.layout import PageContext
from extensions.site.nodes import (
    Details,
    HtmlElement,
    HtmlNode,
    html_element,
    words,
)


class FoldDirective(SphinxDirective):
    """Show a title, Markdown of words and code, which opens the rest."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the details."""
        self.assert_has_content()
        fold = Details("", summary=self.arguments[0], classes=["fold"])
        self.state.nested_parse(self.content, self.content_offset, fold)
        return [fold]


class Box(HtmlNode):
    """A place for a template with some values."""


def fill_boxes(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the templates of a page."""
    render = builder_of(app).templates.render
    for box in doctree.findall(Box):
        box["html"] = render(box["template"], box["values"])


class BroadcastingDirective(SphinxDirective):
    """Let the reader try two shapes."""

    def run(self) -> list[nodes.Node]:
        """Leave a place for them, with an example where no script answers."""
        example = {"example": words(BROADCASTING)}
        return [Box(template="broadcasting.html", values=example)]


def load_files(page: PageContext) -> None:
    """Load what the box of a page needs on that page alone."""
    boxes = page.doctree.findall(Box) if page.doctree else []
    if any(box["template"] == "broadcasting.html" for box in boxes):
        page.app.add_css_file("broadcasting.css")
        page.app.add_js_file("broadcasting.js", loading_method="defer")
    if page.name == page.app.config.root_doc:
        page.app.add_css_file("front.css")


class FeaturedClaimDirective(SphinxDirective):
    """Let the reader delete a line that a claim, ``page#claim``, rests on.

    ``:cell:`` is the program, ``:edit:`` stands in the line to delete; what
    two cells drew, ``:before:`` and ``:after:``, is what comes of it, as the
    claims behind ``:then:`` say. The body is a question and a list of guesses;
    the one with the number ``:answer:`` is right.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[OptionSpec] = dict.fromkeys(
        ("cell", "edit", "before", "after", "then", "answer"),
        directives.unchanged_required,
    )

    def run(self) -> list[nodes.Node]:
        """Return the question, the program, and what comes of the edit."""
        name, _, claim = self.arguments[0].partition("#")
        self.topic = Topic(root_of(self.env), name)
        box = nodes.container(classes=["surprise"])
        self.state.nested_parse(self.content, self.content_offset, box)
        guesses = next(box.findall(nodes.bullet_list))
        guesses.parent.remove(guesses)
        then = self._words(self.options["then"].split())
        after = _part("after", self._drawn("after"), then)
        cell, _ = cell_and_output(self, self.topic, self.options["cell"])
        code = nodes.literal_block(cell.code, cell.code, language="python")
        lines = enumerate(cell.code.splitlines(), start=1)
        marked = [at for at, line in lines if self.options["edit"] in line]
        if not marked:
            raise self.error(f"no line of it has {self.options['edit']!r}")
        code["highlight_args"] = {"hl_lines": marked}
        box += _part("program", code, self._form(guesses))
        box += _part("before", self._drawn("before"), self._words([claim]))
        box += html_element("div", after, role="status")
        return [box]

    def _form(self, guesses: nodes.bullet_list) -> HtmlElement:
        legend = html_element("legend", nodes.Text("Your guess"))
        asked = html_element("fieldset", legend)
        for number, guess in enumerate(guesses.children, start=1):
            is_right = f"{number}" == self.options["answer"]
            [said] = guess.children
            asked += html_element(
                "label",
                html_element("input", type="radio", name="guess"),
                html_element("span", *said.children),
                class_="guess-right" if is_right else "guess-wrong",
            )
        back = nodes.Text("Put the line back")
        button = html_element("button", back, type="reset")
        return html_element("form", asked, button, autocomplete="off")

    def _drawn(self, option: str) -> nodes.container:
        _, output = cell_and_output(self, self.topic, self.options[option])
        return output_shown(self, self.topic, output)

    def _words(self, claims: list[str]) -> nodes.paragraph:
        said = nodes.paragraph(classes=["surprise-words"])
        for name in claims:
            link = claim_link(self, self.topic, name)
            if link is None:
                raise self.error(f"{self.topic.name} has no claim {name!r}")
            shown = nodes.inline("", "", *link.children, ids=[name])
            shown["names_claim"] = link["names_claim"]
            said += [shown, nodes.Text(". ")]
        return said


def _part(name: str, *shown: nodes.Node) -> nodes.container:
    return nodes.container("", *shown, classes=[f"surprise-{name}"])
