"""A page as Markdown: with its code, what that gave, and its claims.

For whoever reads with a program that knows no HTML.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from extensions.claims.words import caption
from extensions.notebooks.export import Export, code_of, fenced
from extensions.notebooks.notebook import Json, outputs_by_cell

if TYPE_CHECKING:
    from extensions.claims.entry import Entry
    from extensions.claims.ledger import Ledger
    from extensions.evidence.parsed_tests import Failure


def markdown_of(page: Export, ledger: Ledger) -> str:
    """Return a page with all that its program and its tests gave."""
    topic = page.topic
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
        claims = [_claim_with_results(each, ledger) for each in entries]
        parts += ["## The claims of this page", "\n".join(claims)]
    return "\n\n".join(parts) + "\n"


def _shown(output: Json) -> str:
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
        for failure in entry.failures_of(test.name)[:1]:
            lines += _failure_lines(failure)
    return "\n".join(lines)


def _failure_lines(failure: Failure) -> Iterator[str]:
    """Yield what makes a claim false."""
    if failure.edit:
        yield textwrap.indent(fenced(failure.edit, "diff"), "    ")
    elif failure.given:
        yield f"    (given `{failure.given}`)"
    if failure.prints:
        printed = {"before": failure.before, "after": failure.after}
        for when, text in printed.items():
            shown = fenced(text or "(nothing)", "text")
            said = f"It prints {when} the change:\n{shown}"
            yield textwrap.indent(said, "    ")
