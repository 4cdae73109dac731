"""A page as Markdown: with its code, what that gave, and its claims.

For whoever reads with a program that knows no HTML.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from extensions.claims.words import caption
from extensions.notebooks.export import ExportedPage, code_of, fenced
from extensions.notebooks.notebook import outputs_by_cell

if TYPE_CHECKING:
    from extensions.claims.ledger import Entry, Ledger
    from extensions.evidence.parsed_tests import Failure


def markdown_of(page: ExportedPage, ledger: Ledger) -> str:
    """Return a page with all that its program and its tests gave."""
    topic = page.words.topic
    outputs = outputs_by_cell(topic)
    parts: list[str] = []
    for piece in page.pieces:
        if isinstance(piece, str):
            parts.append(piece)
        elif piece.cell:
            parts.append(fenced(code_of(piece.cell), "python"))
            if not piece.asks:
                parts += map(_shown, outputs.get(piece.cell.name, []))
    if entries := ledger.of(topic.name):
        parts.append("## The claims of this page")
        parts.append(
            "\n".join(_claim_with_results(each, ledger) for each in entries)
        )
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    """Return one output of a cell."""
    if "text" in output:
        return fenced(output["text"], "text")
    words = str(output["data"]["text/plain"])
    is_table = "text/html" in output["data"]
    return words if is_table else f"(A picture: {words}.)"


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
        yield textwrap.indent(fenced(failure.edit, "diff"), "    ")
    elif failure.given:
        yield f"    (given `{failure.given}`)"
    if failure.prints:
        for what, text in (
            ("before", failure.before),
            ("after", failure.after),
        ):
            shown = fenced(text or "(nothing)", "text")
            yield textwrap.indent(
                f"It prints {what} the change:\n{shown}", " " * 4
            )
