"""``{cell}``: one cell of the page's snippet, with the output it gave.

With ``:from:`` it is a cell of another page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from extensions.build.dependencies import ALL, KINDS, depend_on, root_of
from extensions.build.details import Details
from extensions.core.topics import Topic
from extensions.evidence.dependencies import DEPENDS_ON, cells_up_to
from extensions.evidence.sphinx_runs import runs_of
from extensions.programs.snippet import WRONG, Cell
from extensions.programs.sphinx_cell_reference import cell_of_another_page
from extensions.programs.sphinx_output import cell_and_output, output_shown

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import OptionSpec

# The test that runs each CUDA cell where there is a device.
_RECORDER = ("tests.test_cuda_cells", "test_a_cuda_cell_runs")
_MADE = "How this was made"
NEVER_RAN = (
    "This cell needs a CUDA device."
    " It has not run: this build has none, and no run on one is recorded."
)


def _device_outputs(app: Sphinx) -> dict[str, str]:
    """Return what all runs have recorded of cells that need a device."""
    runs = runs_of(app.env)
    found = [(run.title, run.results.get(_RECORDER)) for run in runs]
    return {ALL: f"{found}"}


class CellDirective(SphinxDirective):
    """Show the named cell of the snippet that mirrors this page."""

    required_arguments = 1
    option_spec: ClassVar[OptionSpec] = {
        "folded": directives.unchanged,
        "open": directives.flag,
        "from": directives.unchanged_required,
        "output": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Return the code and its output, which stands first if it folds."""
        name = self.arguments[0]
        if "from" in self.options:
            return [cell_of_another_page(self, name)]
        if "output" in self.options:
            raise self.error("only a cell :from: another page is shown so")
        topic = Topic(root_of(self.env), self.env.docname)
        cell, output = cell_and_output(self, topic, name)
        if cell.prose and not cell.is_wrong:
            message = f"cell {name!r} begins with a comment: {topic.snippet}"
            raise self.error(message)

        code = nodes.literal_block(cell.code, cell.code, language="python")
        self.set_source_info(code)
        block = nodes.container(
            "", code, classes=["cell"], ids=[f"cell-{name}"]
        )
        if output:
            block += output_shown(self, topic, output)
        elif cell.is_cuda:
            block += self.recorded(topic, name)
        if cell.is_wrong:
            block["classes"].append("cell-wrong")
            label = nodes.paragraph("", WRONG.strip("#. \n"))
            block.insert(0, nodes.container("", label, classes=["cell-label"]))
        if self.folds(cell):
            summary = self.options.get("folded") or _MADE
            details = Details("", code, summary=summary)
            block.remove(code)
            block["classes"].append("cell-folded")
            block += details
        return [block]

    def folds(self, cell: Cell) -> bool:
        """Whether the code stands behind a line, under what it gave."""
        if "folded" in self.options:
            if "open" in self.options:
                raise self.error("a cell is folded or open, not both")
            return True
        return cell.is_display and "open" not in self.options

    def recorded(self, topic: Topic, cell: str) -> nodes.container:
        """Return what a CUDA cell printed where it ran, or say it never did.

        The test of all CUDA cells records their outputs among its properties.
        """
        shown = nodes.container("", classes=["cell-output", "cell-recorded"])
        depend_on(self.env, "device outputs")
        for run in runs_of(self.env):
            for result in run.results.get(_RECORDER, []):
                facts = result.properties
                if facts.get("cell") != f"{topic.name}:{cell}":
                    continue
                if not {"output", "device", "date"} <= facts.keys():
                    continue
                fresh = facts.get(DEPENDS_ON) == cells_up_to(topic, cell)
                said = (
                    f"Recorded on {facts['date']}"
                    f" on {facts['device']} with {run.title}"
                )
                said += "." if fresh else ", before the snippet was changed."
                output = facts["output"]
                shown += nodes.literal_block(output, output, language="none")
                shown += nodes.paragraph("", said)
        if not shown.children:
            shown += nodes.paragraph("", NEVER_RAN)
        return shown


def setup_cell(app: Sphinx) -> None:
    """Add the directive."""
    KINDS["device outputs"] = _device_outputs
    app.add_directive("cell", CellDirective)
