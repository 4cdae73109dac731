"""``{exercise}``: a question whose answer is a counter-example.

The answer is the edit, and what the test of the claim then said, as the run of
the tests has recorded both.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.build.details import Details
from extensions.claims.sphinx_ledger import ledger_of
from extensions.evidence.parsed_tests import test_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from extensions.evidence.parsed_tests import Failure

NO_ANSWER = "No run of the tests has recorded the answer."


class _Answer(nodes.General, nodes.Element):
    """A placeholder for the hint and the answer."""


class _ExerciseDirective(SphinxDirective):
    """Ask for the edit of a counter-example, named as a claim is."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the question, and a placeholder for hint and answer."""
        self.assert_has_content()
        box = nodes.container(classes=["exercise"])
        self.state.nested_parse(self.content, self.content_offset, box)
        box += _Answer(test=test_of(self.arguments[0]))
        return [box]


def _put_answers(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace each placeholder on a page by its hint and answer."""
    entries = ledger_of(app).of(docname)
    for place in list(doctree.findall(_Answer)):
        found = chain(*(each.failures_of(place["test"]) for each in entries))
        failure = next(found, None)
        place.replace_self(
            _hint_and_answer(failure) if failure else _no_answer()
        )


def _no_answer() -> list[nodes.Element]:
    """Return what to show if no run has recorded the answer."""
    return [nodes.paragraph("", NO_ANSWER)]


def _hint_and_answer(failure: Failure) -> list[nodes.Element]:
    """Return a hint and an answer, each hidden until it is opened."""
    folds: list[nodes.Element] = []
    if failure.cell:
        link = nodes.reference(
            "", failure.cell, internal=True, refid=f"cell-{failure.cell}"
        )
        said = nodes.paragraph("", "Change the cell ", link, nodes.Text("."))
        folds.append(Details("", said, summary="Hint"))
    change = failure.edit or failure.given
    folds.append(
        Details(
            "",
            nodes.literal_block(change, change, language="diff"),
            nodes.paragraph("", "The test of the claim then fails, and says:"),
            nodes.literal_block(failure.said, failure.said, language="none"),
            summary="Answer",
        )
    )
    return folds


def setup_exercise(app: Sphinx) -> None:
    """Add the directive."""
    app.add_node(_Answer)
    app.add_directive("exercise", _ExerciseDirective)
    # Before Sphinx highlights code, and before panels are added.
    app.connect("doctree-resolved", _put_answers)
