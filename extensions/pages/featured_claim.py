"""``{featured-claim}``: a claim, its output, and the edit that makes it false.

All of it comes from the claim's own page: the sentence, the output of a cell,
a counter-example, and the outcome of each run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from extensions.build.builder import builder_of
from extensions.build.dependencies import root_of
from extensions.build.page_context import PageContext, on_page_context
from extensions.claims.sphinx_claim_links import claim_link
from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.sphinx_panels import render_for_claim
from extensions.claims.sphinx_test_pages import link_to_test
from extensions.core.topics import Topic
from extensions.programs.sphinx_output import cell_and_output, output_shown

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import OptionSpec

logger = logging.getLogger(__name__)


class _CounterexamplePlace(nodes.General, nodes.Element):
    """A placeholder for a counter-example and the outcome of each run."""


class _FeaturedClaimDirective(SphinxDirective):
    """Show a claim, named as ``page#claim``, with its evidence.

    The body is a question that makes the reader guess first.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[OptionSpec] = {
        "cell": directives.unchanged_required,
        "edit": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Return the claim, the output, and a placeholder for the edit."""
        name, _, claim = self.arguments[0].partition("#")
        topic = Topic(root_of(self.env), name)
        if missing := sorted(self.option_spec.keys() - self.options.keys()):
            raise self.error(f"say :{missing[0]}: of {claim}")
        words = claim_link(self, topic, claim)
        if words is None:
            raise self.error(f"{name} has no claim {claim!r}")
        _, output = cell_and_output(self, topic, self.options["cell"])
        box = nodes.container(classes=["surprise"])
        self.state.nested_parse(self.content, self.content_offset, box)
        box += nodes.paragraph("", "", words, classes=["surprise-words"])
        both = nodes.container(classes=["surprise-evidence"])
        both += output_shown(self, topic, output)
        place = _CounterexamplePlace(
            topic=name, claim=claim, edit=self.options["edit"]
        )
        self.set_source_info(place)
        both += place
        box += both
        return [box]


def _put_counterexamples(
    app: Sphinx, doctree: nodes.document, docname: str
) -> None:
    """Replace each placeholder by an edit and what the test then says."""
    for place in list(doctree.findall(_CounterexamplePlace)):
        place.replace_self(_counterexample(app, place, docname))


def _counterexample(
    app: Sphinx, place: _CounterexamplePlace, docname: str
) -> list[nodes.Node]:
    """Return the first counter-example whose edit contains some text."""
    builder, ledger = builder_of(app), ledger_of(app)
    for entry in ledger.of(place["topic"]):
        if entry.claim.name != place["claim"]:
            continue
        for failure in entry.failures:
            if place["edit"] in failure.edit:
                runs = zip(ledger.runs, entry.outcomes, strict=True)
                test = next(
                    each
                    for each in entry.counter_examples
                    if each.name == failure.test
                )
                return [
                    render_for_claim(
                        builder,
                        "featured_claim",
                        failure=failure,
                        runs=list(runs),
                        link=link_to_test(builder, docname, entry, test),
                    )
                ]
    message = "no run of the tests has recorded an edit of %s with %r"
    said = (place["claim"], place["edit"])
    logger.warning(message, *said, location=place)
    return []


def _add_style(page: PageContext) -> None:
    """Load the style on the front page alone."""
    if page.name == page.app.config.root_doc:
        page.app.add_css_file("front.css")


def setup_featured_claim(app: Sphinx) -> None:
    """Add the directive."""
    app.add_node(_CounterexamplePlace)
    app.add_directive("featured-claim", _FeaturedClaimDirective)
    app.connect("doctree-resolved", _put_counterexamples)
    on_page_context(app, _add_style)
