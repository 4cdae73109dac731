"""``{again}``: a cell of another page once more, its code or what it gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from extensions.build.dependencies import root_of
from extensions.claims.sphinx_recap import address
from extensions.core.topics import Topic
from extensions.pages.title_dependency import title_shown
from extensions.programs.sphinx_cell import cell_and_output, output_shown

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import OptionSpec


class AgainDirective(SphinxDirective):
    """Show a cell of a topic below the title of its page, a link to it."""

    required_arguments = 2
    option_spec: ClassVar[OptionSpec] = {"output": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the title, and the code or with ``:output:`` the output."""
        topic = Topic(root_of(self.env), self.arguments[0])
        cell, output = cell_and_output(self, topic, self.arguments[1])
        title = title_shown(self.env, topic.name)
        uri = address(self.env, topic, f"cell-{cell.name}")
        link = nodes.reference("", title, internal=True, refuri=uri)
        block = nodes.container("", classes=["cell", "again"])
        block += nodes.paragraph("", "", link)
        if "output" not in self.options:
            block += nodes.literal_block(
                cell.code, cell.code, language="python", topic=topic.name
            )
        elif output:
            block += output_shown(self, topic, output)
        else:
            raise self.error(f"{topic.name}: {cell.name!r} gave nothing")
        return [block]


def setup_cell_reference(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("again", AgainDirective)
