"""A cell of another page, its code or what it gave: ``{cell}`` ``:from:``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

from extensions.build.dependencies import root_of
from extensions.build.site import cell_address, title_shown
from extensions.core.topics import Topic
from extensions.programs.sphinx_output import cell_and_output, output_shown

if TYPE_CHECKING:
    from sphinx.util.docutils import SphinxDirective


def cell_of_another_page(
    directive: SphinxDirective, name: str
) -> nodes.container:
    """Return a cell below the title of its page, which is a link to it.

    The code is shown, or with ``:output:`` the output.
    """
    options = directive.options
    if options.keys() & {"folded", "open"}:
        raise directive.error("a cell of another page is not folded")
    topic = Topic(root_of(directive.env), options["from"])
    cell, output = cell_and_output(directive, topic, name)
    title = title_shown(directive.env, topic.name)
    uri = cell_address(directive.env, topic, cell.name)
    link = nodes.reference("", title, internal=True, refuri=uri)
    block = nodes.container("", classes=["cell", "again"])
    block += nodes.paragraph("", "", link)
    if "output" not in options:
        block += nodes.literal_block(
            cell.code, cell.code, language="python", topic=topic.name
        )
    elif output:
        block += output_shown(directive, topic, output)
    else:
        raise directive.error(f"{topic.name}: {cell.name!r} gave nothing")
    return block
