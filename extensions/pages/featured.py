"""``{featured-claim}``: a claim to play with: take a line out, guess, and see.

All of it comes from the claim's own page: the program, the line whose deletion
makes the claim false, what a cell drew before and after, the claims that say
so, and the outcome of each run. The reader's guess is a form of the browser's
own, which a style reads: it works without a script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.sphinx_panels import claim_link, render_for_claim
from extensions.claims.sphinx_test_pages import link_to_test
from extensions.core.topics import Topic
from extensions.programs.sphinx_cell import cell_and_output, output_shown
from extensions.site.dependencies import builder_of, root_of
from extensions.site.layout import PageContext, on_page_context
from extensions.site.nodes import HtmlElement, html_element

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import OptionSpec

logger = logging.getLogger(__name__)


class _Proof(nodes.General, nodes.Element):
    """A placeholder for a counter-example and the outcome of each run."""


class _FeaturedClaimDirective(SphinxDirective):
    """Let the reader delete a line that a claim, ``page#claim``, rests on.

    The body is a question and a list of guesses, of which one is right.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[OptionSpec] = {
        "cell": directives.unchanged_required,
        "edit": directives.unchanged_required,
        "before": directives.unchanged_required,
        "after": directives.unchanged_required,
        "then": directives.unchanged_required,
        "answer": directives.positive_int,
    }

    def run(self) -> list[nodes.Node]:
        """Return the question, the program, and what comes of the edit."""
        name, _, claim = self.arguments[0].partition("#")
        self.topic = Topic(root_of(self.env), name)
        if missing := sorted(self.option_spec.keys() - self.options.keys()):
            raise self.error(f"say :{missing[0]}: of {claim}")
        box = nodes.container(classes=["surprise"])
        self.state.nested_parse(self.content, self.content_offset, box)
        guesses = box.children[-1] if box.children else None
        if not isinstance(guesses, nodes.bullet_list):
            raise self.error("end with a list of guesses")
        box.remove(guesses)
        proof = _Proof(topic=name, claim=claim, edit=self.options["edit"])
        self.set_source_info(proof)
        then = self.words(self.options["then"].split())
        after = _part("after", self.drawn("after"), then, proof)
        box += _part("program", self.program(), self.form(guesses))
        box += _part("before", self.drawn("before"), self.words([claim]))
        box += html_element("div", after, role="status")
        return [box]

    def program(self) -> nodes.literal_block:
        """Return the code of the cell, with the line to delete marked."""
        cell, _ = cell_and_output(self, self.topic, self.options["cell"])
        edit, lines = self.options["edit"], cell.code.splitlines()
        marked = [at for at, line in enumerate(lines, start=1) if edit in line]
        if not marked:
            raise self.error(f"no line of {cell.name!r} holds {edit!r}")
        code = nodes.literal_block(cell.code, cell.code, language="python")
        code["highlight_args"] = {"hl_lines": marked}
        return code

    def form(self, guesses: nodes.bullet_list) -> HtmlElement:
        """Return a choice for each guess, and a button that takes it back."""
        if self.options["answer"] > len(guesses.children):
            raise self.error("the answer is none of the guesses")
        asked = html_element(
            "fieldset", html_element("legend", nodes.Text("Your guess"))
        )
        for number, guess in enumerate(guesses.children, start=1):
            is_right = number == self.options["answer"]
            [words] = guess.children
            asked += html_element(
                "label",
                html_element("input", type="radio", name="guess"),
                html_element("span", *words.children),
                class_="guess-right" if is_right else "guess-wrong",
            )
        back = nodes.Text("Put the line back")
        button = html_element("button", back, type="reset")
        return html_element("form", asked, button, autocomplete="off")

    def drawn(self, option: str) -> nodes.container:
        """Return what the cell that an option names has drawn."""
        _, output = cell_and_output(self, self.topic, self.options[option])
        return output_shown(self, self.topic, output)

    def words(self, claims: list[str]) -> nodes.paragraph:
        """Return the sentences of some claims, each a link to its place."""
        said = nodes.paragraph(classes=["surprise-words"])
        for name in claims:
            link = claim_link(self, self.topic, name)
            if link is None:
                raise self.error(f"{self.topic.name} has no claim {name!r}")
            said += [link, nodes.Text(". ")]
        return said


def _part(name: str, *shown: nodes.Node) -> nodes.container:
    """Return a part of the box."""
    return nodes.container("", *shown, classes=[f"surprise-{name}"])


def _put_proofs(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Show the first counter-example whose edit holds the line to delete."""
    builder, ledger = builder_of(app), ledger_of(app)
    for place in list(doctree.findall(_Proof)):
        found = (
            (entry, failure)
            for entry in ledger.of(place["topic"])
            if entry.claim.name == place["claim"]
            for failure in entry.failures
            if place["edit"] in failure.edit
        )
        entry, failure = next(found, (None, None))
        if entry is None or failure is None:
            message = "no run of the tests has recorded an edit of %s with %r"
            said = (place["claim"], place["edit"])
            logger.warning(message, *said, location=place)
            place.replace_self([])
            continue
        tests = {test.name: test for test in entry.counter_examples}
        test = tests[failure.test]
        proof = render_for_claim(
            builder,
            "featured_claim",
            failure=failure,
            runs=list(zip(ledger.runs, entry.outcomes, strict=True)),
            link=link_to_test(builder, docname, entry, test),
        )
        place.replace_self(proof)


def _add_style(page: PageContext) -> None:
    """Load the style on the front page alone."""
    if page.name == page.app.config.root_doc:
        page.app.add_css_file("front.css")


def setup_featured(app: Sphinx) -> None:
    """Add the directive."""
    app.add_node(_Proof)
    app.add_directive("featured-claim", _FeaturedClaimDirective)
    app.connect("doctree-resolved", _put_proofs)
    on_page_context(app, _add_style)
