"""``{cell}``: one cell of the page's snippet, with the output it gave."""

from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import OptionSpec

from extensions.core.files import Problem
from extensions.core.topics import Topic
from extensions.programs.outputs import fold_title, outputs_file, outputs_of
from extensions.programs.snippet import WRONG, Cell, Snippet
from extensions.site.dependencies import root_of
from extensions.site.layout import address, title_shown
from extensions.site.nodes import Details


def cell_and_output(
    directive: SphinxDirective, topic: Topic, name: str
) -> tuple[Cell, str]:
    """Return a cell of a topic's program, and what it gave, as reST."""
    directive.env.note_dependency(str(topic.snippet))
    directive.env.note_dependency(str(outputs_file(topic)))
    try:
        cell = Snippet.read(topic.snippet).cell(name)
        return cell, outputs_of(topic)[cell.code_line].strip()
    except Problem as error:
        raise directive.error(str(error)) from error
    except KeyError as error:
        message = f"cell {name!r} begins with no code: {topic.snippet}"
        raise directive.error(message) from error


def output_shown(
    directive: SphinxDirective, topic: Topic, output: str
) -> nodes.container:
    """Return what a cell gave, as a part of the page being read."""
    shown = nodes.container("", classes=["cell-output"])
    rst = ["```````{eval-rst}", *output.splitlines(), "```````"]
    lines = StringList(rst, str(topic.output))
    directive.state.nested_parse(lines, 0, shown)
    # What MyST parses as reST stays bound to a document of its own, which
    # would take the whole environment along into the doctree of the page.
    for node in shown.findall():
        node.document = directive.state.document
    return shown


class RecordedOutput(nodes.container):
    """The place for what a CUDA cell gave where it ran.

    This build has no device. What is recorded of others is evidence, which
    fills the place in once the page is read.
    """


class CellDirective(SphinxDirective):
    """Show the named cell of the snippet that mirrors this page.

    With ``:from:`` it is a cell of another page, below the title of that page:
    its code, or with ``:output:`` what it gave.
    """

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
            return [self.cell_of_another_page(name)]
        topic = Topic(root_of(self.env), self.env.docname)
        cell, output = cell_and_output(self, topic, name)
        if cell.prose and not cell.is_wrong:
            message = f"cell {name!r} begins with a comment: {topic.snippet}"
            raise self.error(message)

        code = nodes.literal_block(cell.code, cell.code, language="python")
        self.set_source_info(code)
        block = nodes.container("", classes=["cell"], ids=[f"cell-{name}"])
        # So that an exercise may lead to it: `[x](#cell-x)`.
        self.state.document.note_implicit_target(block)
        if cell.is_wrong:
            block["classes"].append("cell-wrong")
            label = nodes.paragraph("", WRONG.strip("#. \n"))
            block += nodes.container("", label, classes=["cell-label"])
        summary = fold_title(cell, self.options)
        if not summary:
            block += code
        if output:
            block += output_shown(self, topic, output)
        elif cell.is_cuda:
            block += RecordedOutput(
                topic=topic.name,
                cell=name,
                classes=["cell-output", "cell-recorded"],
            )
        if summary:
            block["classes"].append("cell-folded")
            block += Details("", code, summary=summary)
        return [block]

    def cell_of_another_page(self, name: str) -> nodes.container:
        """Return a cell below the title of its page, which is a link to it."""
        topic = Topic(root_of(self.env), self.options["from"])
        cell, output = cell_and_output(self, topic, name)
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
        return block
