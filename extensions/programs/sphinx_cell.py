"""``{cell}``: one cell of the page's snippet, with the output it gave.

With ``:from:`` it is a cell of another page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from extensions.build.dependencies import root_of
from extensions.build.nodes import Details
from extensions.core.topics import Topic
from extensions.programs.folding import fold_title
from extensions.programs.snippet import WRONG
from extensions.programs.sphinx_cell_reference import cell_of_another_page
from extensions.programs.sphinx_output import cell_and_output, output_shown

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import OptionSpec


class RecordedOutput(nodes.container):
    """The place for what a CUDA cell gave where it ran.

    This build has no device. What is recorded of others is evidence, which
    fills the place in once the page is read.
    """


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
            block += RecordedOutput(
                topic=topic.name,
                cell=name,
                classes=["cell-output", "cell-recorded"],
            )
        if cell.is_wrong:
            block["classes"].append("cell-wrong")
            label = nodes.paragraph("", WRONG.strip("#. \n"))
            block.insert(0, nodes.container("", label, classes=["cell-label"]))
        if "folded" in self.options and "open" in self.options:
            raise self.error("a cell is folded or open, not both")
        if summary := fold_title(cell, self.options):
            details = Details("", code, summary=summary)
            block.remove(code)
            block["classes"].append("cell-folded")
            block += details
        return [block]


def setup_cell(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("cell", CellDirective)
