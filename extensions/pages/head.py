"""What a page says of itself: at its head, and where others list it.

The line at its head says its place in the course, how long it takes, what to
read first, and what its program needs. The files of the page are in that line
from the beginning: Sphinx collects them before it knows the rest.

The first sentence and the reading time are found when a page is read, and kept
in its metadata, which Sphinx purges and merges. A page that lists others calls
:func:`show_summaries`, and is written again when one of them changes.
"""

from collections.abc import Iterable
from typing import NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from extensions.core.syntax import READ_FIRST
from extensions.core.topics import Topic
from extensions.programs.snippet import Snippet, libraries
from extensions.prose.sentences import END
from extensions.site.dependencies import root_of
from extensions.site.nodes import Details, head_of, is_within, put_head

_WORDS_PER_MINUTE = 200  # of prose in a minute
_LINES_PER_MINUTE = 30  # of code in a minute
_SUMMARY = "page_summary"
_SHOWN = "summaries_shown"
COURSE = "course"  # whether a page lists the pages below it as a course


class PageSummary(NamedTuple):
    """What lists say of a page."""

    text: str = ""
    """Its first sentence, as Markdown of words and code."""
    minutes: int = 1
    """How long it takes to read."""


def summary_of(env: BuildEnvironment, name: str) -> PageSummary:
    """Return the summary of a page, which is empty if it was never read."""
    return PageSummary(*env.metadata[name].get(_SUMMARY, ()))


def show_summaries(env: BuildEnvironment, names: Iterable[str]) -> None:
    """Note that the page being read shows the summaries of some pages."""
    env.metadata[env.docname].setdefault(_SHOWN, []).extend(names)


def summaries_by_page(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of the summaries that each page shows."""
    env = app.env
    return {
        name: f"{[summary_of(env, n) for n in env.metadata[name][_SHOWN]]}"
        for name in env.found_docs
        if _SHOWN in env.metadata[name]
    }


def keep_summary(app: Sphinx, doctree: nodes.document) -> None:
    """Keep the summary of a page once it is read."""
    first = next(doctree.findall(nodes.paragraph), None)
    text = "" if first is None else _first_sentence(first)
    facts = app.env.metadata[app.env.docname]
    facts[_SUMMARY] = (text, _minutes_to_read(doctree))


def _first_sentence(paragraph: nodes.paragraph) -> str:
    # As Markdown of words and code, whatever lines it spans.
    text = ""
    for node in paragraph.findall(nodes.Text):
        mark = "`" if isinstance(node.parent, nodes.literal) else ""
        text += f"{mark}{node}{mark}"
    text = " ".join(text.split())
    end = END.search(text)
    return text[: end.end()].strip() if end else text


def _minutes_to_read(doctree: nodes.document) -> int:
    # Outputs, and what is folded, are left out.
    words = lines = 0
    for node in doctree.findall(nodes.TextElement):
        if is_within(node, (Details,)):
            continue
        if isinstance(node, nodes.paragraph):
            words += len(node.astext().split())
        elif node.get("language") == "python":
            lines += len(node.astext().splitlines())
    return max(1, round(words / _WORDS_PER_MINUTE + lines / _LINES_PER_MINUTE))


def fill_head(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Say in the line at the head of a page what is known of it."""
    said: list[nodes.Node] = []
    for index, names in app.env.toctree_includes.items():
        if docname in names and COURSE in app.env.metadata[index]:
            place = f"Page {names.index(docname) + 1} of {len(names)} of "
            course = _link(app, docname, index, "the course")
            said += [nodes.Text(place), course]
    line = head_of(doctree)
    if line is None:  # no program, and no files
        if said:
            put_head(doctree, said)
        return
    minutes = summary_of(app.env, docname).minutes
    said.append(nodes.Text(f"{' · ' if said else ''}{minutes} min to read"))
    first = app.env.metadata[docname].get(READ_FIRST)
    if first in app.env.titles:
        link = _link(app, docname, first, app.env.titles[first].astext())
        said += [nodes.Text(" · read first: "), link]
    snippet = Snippet.read(Topic(root_of(app.env), docname).snippet)
    *most, last = libraries(snippet.text) or ["Python"]
    needs = f"{', '.join(most)} and {last}" if most else last
    if any(cell.is_cuda for cell in snippet.cells().values()):
        needs += ", for a part a CUDA device"
    said.append(nodes.Text(f" · needs {needs} · "))
    line[:0] = said


def _link(app: Sphinx, docname: str, name: str, words: str) -> nodes.reference:
    uri = app.builder.get_relative_uri(docname, name)
    return nodes.reference("", words, internal=True, refuri=uri)
