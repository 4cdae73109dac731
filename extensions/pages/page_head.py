"""The head of a page: how long it takes, what to read first, what it needs.

The time is counted and the needs are read from the program; what to read first
stands in the page's front matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

from extensions.build.dependencies import root_of
from extensions.core.front_matter import READ_FIRST
from extensions.core.topics import Topic
from extensions.pages.page_summary import summary_of
from extensions.programs.requirements import libraries
from extensions.programs.snippet import Snippet

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _add_head(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Add a line below the first paragraph of a page with a program."""
    topic = Topic(root_of(app.env), docname)
    opening = next(doctree.findall(nodes.paragraph), None)
    if topic.is_recipe or not topic.snippet.exists() or opening is None:
        return
    line = nodes.paragraph(classes=["page-head"])
    line += nodes.Text(f"{summary_of(app.env, docname).minutes} min to read")
    first = app.env.metadata[docname].get(READ_FIRST)
    if first in app.env.titles:
        line += nodes.Text(" · read first: ")
        line += nodes.reference(
            "",
            app.env.titles[first].astext(),
            internal=True,
            refuri=app.builder.get_relative_uri(docname, first),
        )
    line += nodes.Text(
        f" · needs {_needs_in_words(Snippet.read(topic.snippet))}"
    )
    opening.parent.insert(opening.parent.index(opening) + 1, line)


def _needs_in_words(snippet: Snippet) -> str:
    """Return in words what a program needs."""
    *most, last = libraries(snippet.text) or ["Python"]
    said = f"{', '.join(most)} and {last}" if most else last
    if any(cell.is_cuda for cell in snippet.cells().values()):
        said += ", for a part a CUDA device"
    return said


def setup_page_head(app: Sphinx) -> None:
    """Add the line before panels are added, which hold paragraphs, too."""
    app.connect("doctree-resolved", _add_head)
