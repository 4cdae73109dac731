"""``{recap}`` and ``{exercise}``: what a reader remembers, and tries.

A recap lists claims, of the page by their ids, of another one with the name of
that page in front: ``autograd/detach#a-cut-does-not-stop-the-optimizer``.

An exercise is a question with its hint, and an answer that was run. To
predict, the answer is the output of a cell; to repair, the edit of a
counter-example, as the run of the tests has recorded it; to build, a cell of
the program, with what checks it.
"""

from collections.abc import Iterator
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import OptionSpec

from extensions.claims.ledger import Repair, repairs_of
from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.sphinx_panels import claim_link
from extensions.claims.words import NO_ANSWER, NO_LONGER_TRUE, PRINTS
from extensions.core.files import Problem
from extensions.core.syntax import Kind, exercise_of
from extensions.core.topics import Topic
from extensions.evidence.parsed_tests import test_of
from extensions.programs.sphinx_cell import cell_and_output, output_shown
from extensions.site.dependencies import root_of
from extensions.site.errors import report
from extensions.site.nodes import Details


class RecapDirective(SphinxDirective):
    """Repeat the named claims as a list; each leads to its place."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        items = nodes.bullet_list(classes=["recap"])
        for each in self.arguments[0].split():
            page, _, name = each.rpartition("#")
            topic = Topic(root_of(self.env), page or self.env.docname)
            link = claim_link(self, topic, name)
            if link is None:
                of = page or "this page"
                raise self.error(f"a recap of no claim of {of}: {name!r}")
            said = nodes.paragraph("", "", link)
            if page:
                title = nodes.paragraph()
                lines = StringList([f"{{doc}}`/{page}`"], self.env.docname)
                self.state.nested_parse(lines, 0, title)
                said += [nodes.Text(" "), *title[0].children]
            items += nodes.list_item("", said)
        return [items]


class RepairPlace(nodes.General, nodes.Element):
    """A placeholder for the edit that mends a program."""


class ExerciseDirective(SphinxDirective):
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
            raise self.error(
                "expected predict CELL, repair COUNTER-EXAMPLE, or build"
                f" SOLUTION CHECK: {self.arguments[0]!r}"
            )
        title = nodes.strong("", exercise.kind.value.capitalize())
        box = nodes.container(classes=["exercise"])
        box += nodes.paragraph("", "", title, classes=["exercise-kind"])
        self.state.nested_parse(self.content, self.content_offset, box)
        answer: list[nodes.Node]
        name, *checks = exercise.names
        if exercise.kind is Kind.REPAIR:
            answer = [RepairPlace(test=test_of(name))]
            self.set_source_info(answer[0])
        else:
            code, output = self._cell(name)
            if exercise.kind is Kind.PREDICT:
                box += code
                answer = [output]
            else:
                answer = [code, output]
                check, right = self._cell(*checks)
                told = "Run this below your own code. A right answer gives:"
                parts = [check, nodes.paragraph("", told), right]
                box += Details("", *parts, summary="Check it")
        if "hint" in self.options:
            said, _ = self.parse_inline(self.options["hint"])
            hint = nodes.paragraph("", "", *said)
            box += Details("", hint, summary="Hint")
        box += Details("", *answer, summary="Answer")
        return [box]

    def _cell(self, name: str) -> tuple[nodes.Element, nodes.Element]:
        topic = Topic(root_of(self.env), self.env.docname)
        cell, output = cell_and_output(self, topic, name)
        code = nodes.literal_block(cell.code, cell.code, language="python")
        self.set_source_info(code)
        block = nodes.container(
            "", code, classes=["cell"], ids=[f"cell-{name}"]
        )
        return block, output_shown(self, topic, output)


def put_repairs(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace each placeholder on a page by the edit that was recorded."""
    entries = ledger_of(app).of(docname)
    known = {test.name for e in entries for test in e.counter_examples}
    repairs = repairs_of(entries)
    for place in list(doctree.findall(RepairPlace)):
        test = place["test"]
        if test not in known:
            message = f"an exercise of no counter-example: {test!r}"
            page = Topic(root_of(app.env), docname).page
            report(Problem(page, place.line or 1, message))
        place.replace_self([*_repair(repairs.get(test))])


def _repair(repair: Repair | None) -> Iterator[nodes.Element]:
    if repair is None:
        yield nodes.paragraph("", NO_ANSWER)
        return
    yield nodes.literal_block(repair.change, repair.change, language="diff")
    if repair.after:
        yield nodes.paragraph("", PRINTS)
        yield nodes.literal_block(repair.after, repair.after, language="none")
    yield nodes.paragraph("", NO_LONGER_TRUE)
    words = repair.sentence.replace("`", "")
    yield nodes.block_quote("", nodes.paragraph("", words))
