"""Write each page a second time, as Markdown, beside its HTML.

With its code, what that gave, and its claims: for whoever reads with a program
that knows no HTML.
"""

from __future__ import annotations

import re
import textwrap
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes

from extensions.build.dependencies import root_of
from extensions.build.site import PageContext, on_page_context
from extensions.claims.entry import Entry
from extensions.claims.ledger import Ledger
from extensions.claims.repairs import repairs_of
from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.words import caption
from extensions.core.topics import Topic
from extensions.core.writing import write
from extensions.notebooks.html_tables import table_in
from extensions.programs.outputs import LINES
from extensions.programs.snippet import Cell, Snippet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sphinx.application import Sphinx

    from extensions.evidence.parsed_tests import Failure

_ALTERNATE = '\n<link rel="alternate" type="text/markdown" href="{}.md">'


def _fenced(text: str, language: str = "") -> str:
    """Return some lines as a block of code."""
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _outputs_of(
    doctree: nodes.document, cells: dict[str, Cell]
) -> Iterator[tuple[str, Iterable[nodes.Node]]]:
    """Yield the names of the cells of a page, each with what shows its output.

    On the page of a recipe, sphinx-gallery puts comments with their lines
    above the prose of a cell, and above its code with what that gave.
    """
    for block in doctree.findall(nodes.container):
        if "cell-output" in block["classes"]:
            yield "".join(block.parent["ids"]).removeprefix("cell-"), [block]
    for comment in doctree.findall(nodes.comment):
        if found := re.match(LINES, comment.astext()):
            first, last = map(int, found.groups())
            behind = comment.parent[comment.parent.index(comment) + 2 :]
            for cell in cells.values():
                if first <= cell.code_line <= last:
                    yield cell.name, takewhile(_is_output, behind)


def _is_output(node: nodes.Node) -> bool:
    """Whether a node behind the code of a recipe shows what that gave."""
    return not isinstance(node, nodes.comment)


def _shown_in(blocks: Iterable[nodes.Node]) -> Iterator[str]:
    """Yield what some blocks show; of a picture for both themes, one."""
    for node in (node for block in blocks for node in block.findall()):
        if isinstance(node, nodes.literal_block):
            yield _fenced(node.astext(), "text")
        elif isinstance(node, nodes.raw):
            yield table_in(node.astext())
        elif isinstance(node, nodes.image) and not _is_dark(node):
            yield f"(A picture: {node.get('alt', '')}.)"


def _is_dark(image: nodes.image) -> bool:
    """Whether a picture is the one for dark pages, of two that are alike."""
    return "only-dark" in image["classes"]


def _claim_with_results(entry: Entry, ledger: Ledger) -> str:
    """Return a claim with its results, counter-examples and limits."""
    runs: dict[str, list[str]] = {}
    for run, outcome in zip(ledger.runs, entry.outcomes, strict=True):
        on = f" on {' and '.join(outcome.devices)}" if outcome.devices else ""
        runs.setdefault(f"{outcome.word}{on}", []).append(run.title)
    lines = [f"- {entry.claim.text}"]
    lines += [f"  - {said}: {', '.join(runs[said])}" for said in runs]
    lines += [f"  - tried {line}" for line in entry.tried_on]
    for test in (*entry.counter_examples, *entry.limits):
        lines.append(f"  - {test.kind}: {caption(test)}")
        lines += [*_failure(entry.failures_of(test.name))]
    return "\n".join(lines)


def _failure(failures: list[Failure]) -> Iterator[str]:
    """Yield what makes a claim false, in the first case of its test."""
    if not failures:
        return
    failure = failures[0]
    if failure.edit:
        yield textwrap.indent(_fenced(failure.edit, "diff"), "    ")
    elif failure.given:
        yield f"    (given `{failure.given}`)"
    if failure.prints:
        for what, text in (
            ("before", failure.before),
            ("after", failure.after),
        ):
            shown = _fenced(text or "(nothing)", "text")
            yield textwrap.indent(
                f"It prints {what} the change:\n{shown}", " " * 4
            )


def _markdown_of(
    topic: Topic, base: str, doctree: nodes.document, ledger: Ledger
) -> str:
    """Return a page with all that its program and its tests gave."""
    # Only a build that writes a page exports one.
    from extensions.notebooks.export import (
        ExportedCell,
        code_of,
        export_page,
    )

    cells = Snippet.read(topic.snippet).cells()
    outputs = {
        name: [*_shown_in(blocks)]
        for name, blocks in _outputs_of(doctree, cells)
    }
    parts: list[str] = []
    repairs = repairs_of(ledger.of(topic.name))
    for piece in export_page(topic, base, repairs=repairs).pieces:
        if isinstance(piece, str):
            parts.append(piece)
        elif isinstance(piece, ExportedCell) and piece.name in cells:
            parts.append(_fenced(code_of(cells[piece.name]), "python"))
            parts += [] if piece.asks else outputs.get(piece.name, [])
    if entries := ledger.of(topic.name):
        parts.append("## The claims of this page")
        parts.append(
            "\n".join(_claim_with_results(each, ledger) for each in entries)
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _write_markdown(page: PageContext) -> None:
    """Write the Markdown of a page that is being written."""
    app = page.app
    topic = Topic(root_of(app.env), page.name)
    if not topic.snippet.exists() or page.doctree is None:
        return
    base = app.config.html_baseurl
    text = _markdown_of(topic, base, page.doctree, ledger_of(app))
    write(Path(app.outdir, f"{page.name}.md"), text)
    page.add_to_head(_ALTERNATE.format(topic.page.stem))


def setup_markdown(app: Sphinx) -> None:
    """Write it whenever its page is written."""
    on_page_context(app, _write_markdown)
