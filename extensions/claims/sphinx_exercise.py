"""``{exercise}``: a question with its hint, and an answer that was run.

To predict, the answer is the output of a cell; to repair, the edit of a
counter-example, as the run of the tests has recorded it; to build, a cell of
the program, with what checks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from extensions.claims.ledger import (
    NO_ANSWER,
    NO_LONGER_TRUE,
    PRINTS,
    Repair,
    repairs_of,
)
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.syntax import Exercise, Kind, exercise_of
from extensions.core.topics import Topic
from extensions.evidence.parsed_tests import test_of
from extensions.programs.sphinx_cell import cell_and_output, output_shown
from extensions.site.dependencies import root_of
from extensions.site.nodes import Details

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.util.typing import OptionSpec


_EXPECTED = (
    "expected predict CELL, repair COUNTER-EXAMPLE, or build SOLUTION CHECK"
)
_TITLES = {
    Kind.PREDICT: "Predict",
    Kind.REPAIR: "Repair",
    Kind.BUILD: "Build",
}


class _Repair(nodes.General, nodes.Element):
    """A placeholder for the edit that mends a program."""


class _ExerciseDirective(SphinxDirective):
    """Ask a question, and fold its hint and its answer."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[OptionSpec] = {"hint": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the box of the exercise."""
        self.assert_has_content()
        exercise = exercise_of(self.arguments[0])
        if exercise is None:
            raise self.error(f"{_EXPECTED}: {self.arguments[0]!r}")
        title = nodes.strong("", _TITLES[exercise.kind])
        box = nodes.container(classes=["exercise"])
        box += nodes.paragraph("", "", title, classes=["exercise-kind"])
        self.state.nested_parse(self.content, self.content_offset, box)
        match exercise:
            case Exercise(Kind.PREDICT, (cell,)):
                code, answer = self._cell(cell)
                box += code
                answers = [answer]
            case Exercise(Kind.BUILD, (solution, check)):
                box += self._check(check)
                code, given = self._cell(solution)
                answers = [code, given]
            case _:
                answers = [_Repair(test=test_of(exercise.names[0]))]
        box += self._hint()
        box += Details("", *answers, summary="Answer")
        return [box]

    def _cell(self, name: str) -> tuple[nodes.container, nodes.Element]:
        """Return the code of a cell, and what it gave."""
        topic = Topic(root_of(self.env), self.env.docname)
        cell, output = cell_and_output(self, topic, name)
        code = nodes.literal_block(cell.code, cell.code, language="python")
        self.set_source_info(code)
        block = nodes.container(
            "", code, classes=["cell"], ids=[f"cell-{name}"]
        )
        return block, output_shown(self, topic, output)

    def _check(self, name: str) -> Iterator[nodes.Element]:
        """Yield what tells a reader whether the own answer is right."""
        code, given = self._cell(name)
        said = "Run this below your own code. A right answer gives:"
        yield Details(
            "", code, nodes.paragraph("", said), given, summary="Check it"
        )

    def _hint(self) -> Iterator[nodes.Element]:
        """Yield the hint, if the exercise has one."""
        if "hint" in self.options:
            said, _ = self.parse_inline(self.options["hint"])
            hint = nodes.paragraph("", "", *said)
            yield Details("", hint, summary="Hint")


def _put_repairs(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace each placeholder on a page by the edit that was recorded."""
    repairs = repairs_of(ledger_of(app).of(docname))
    for place in list(doctree.findall(_Repair)):
        place.replace_self([*_repair(repairs.get(place["test"]))])


def _repair(found: Repair | None) -> Iterator[nodes.Element]:
    """Yield an edit, and what is no longer true with it."""
    if found is None:
        yield nodes.paragraph("", NO_ANSWER)
        return
    yield nodes.literal_block(found.change, found.change, language="diff")
    if found.after:
        yield nodes.paragraph("", PRINTS)
        yield nodes.literal_block(found.after, found.after, language="none")
    yield nodes.paragraph("", NO_LONGER_TRUE)
    words = found.sentence.replace("`", "")
    yield nodes.block_quote("", nodes.paragraph("", words))


def setup_exercise(app: Sphinx) -> None:
    """Add the directive."""
    app.add_node(_Repair)
    app.add_directive("exercise", _ExerciseDirective)
    # Before Sphinx highlights code, and before panels are added.
    app.connect("doctree-resolved", _put_repairs)
