"""The head of a page: how long it takes, what to read first, what it needs.

The time is counted and the needs are read from the program; what to read first
stands in the page's front matter. The files of the page are in the line from
the beginning: Sphinx collects them before it knows the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

from extensions.build.dependencies import root_of
from extensions.build.head_line import head_of
from extensions.core.front_matter import READ_FIRST
from extensions.core.topics import Topic
from extensions.pages.page_summary import summary_of
from extensions.programs.requirements import libraries
from extensions.programs.snippet import Snippet

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _fill_head(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Say in the line of a page with a program what is known of it."""
    topic = Topic(root_of(app.env), docname)
    line = head_of(doctree)
    if line is None:
        return
    minutes = summary_of(app.env, docname).minutes
    said: list[nodes.Node] = [nodes.Text(f"{minutes} min to read")]
    first = app.env.metadata[docname].get(READ_FIRST)
    if first in app.env.titles:
        said.append(nodes.Text(" · read first: "))
        said.append(
            nodes.reference(
                "",
                app.env.titles[first].astext(),
                internal=True,
                refuri=app.builder.get_relative_uri(docname, first),
            )
        )
    needs = _needs_in_words(Snippet.read(topic.snippet))
    said.append(nodes.Text(f" · needs {needs}"))
    for place, node in enumerate([*said, nodes.Text(" · ")]):
        line.insert(place, node)


def _needs_in_words(snippet: Snippet) -> str:
    """Return in words what a program needs."""
    *most, last = libraries(snippet.text) or ["Python"]
    said = f"{', '.join(most)} and {last}" if most else last
    if any(cell.is_cuda for cell in snippet.cells().values()):
        said += ", for a part a CUDA device"
    return said


def setup_page_head(app: Sphinx) -> None:
    """Fill in the line once all pages are read."""
    app.connect("doctree-resolved", _fill_head)
