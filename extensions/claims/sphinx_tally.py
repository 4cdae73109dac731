"""A line at the head of a page: how many of its statements are tested, and on
what. It shows each sign beside what it means, and so is their legend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

from extensions.claims.ledger import ledger_page
from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.words import SIGNS, sign_of
from extensions.site.dependencies import builder_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

    from extensions.claims.ledger import Entry, Ledger

_CITED = "evidence/claims"


def _add_tally(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Add the line below the first paragraph of a page with claims."""
    ledger = ledger_of(app)
    entries = ledger.of(docname)
    opening = next(doctree.findall(nodes.paragraph), None)
    if not entries or opening is None:
        return
    builder = builder_of(app)
    rows = builder.get_relative_uri(docname, ledger_page(entries[0]))
    parts = [*_parts(ledger, docname, entries, rows)]
    if number := ledger.kinds(docname)["cited"]:
        cited = builder.get_relative_uri(docname, _CITED)
        parts.append(_part("§", "cited", f"{number} cited", f"{cited}#cited"))
    line = nodes.paragraph(classes=["page-tally"])
    for part in parts:
        line += [nodes.Text(" · "), part] if line.children else part
    line += nodes.Text(" · click a sign to see why")
    opening.parent.insert(opening.parent.index(opening) + 1, line)


def _parts(
    ledger: Ledger, docname: str, entries: tuple[Entry, ...], rows: str
) -> Iterator[nodes.reference]:
    """Yield how many statements have each verdict, as a link to the first.

    Those that did not run are counted by what they need.
    """
    for verdict in SIGNS:
        alike: dict[tuple[str, ...], list[Entry]] = {}
        for entry in entries:
            if entry.verdict == verdict:
                alike.setdefault(entry.needs, []).append(entry)
        for needs, found in alike.items():
            sign, number = sign_of(verdict, needs), len(found)
            said = f"{number} {sign.one if number == 1 else sign.many}"
            if verdict == "passed":
                said += _on_what(ledger, entries)
            place = f"{rows}#{found[0].anchor}"
            yield _part(sign.mark, verdict.replace(" ", "-"), said, place)


def _on_what(ledger: Ledger, entries: tuple[Entry, ...]) -> str:
    """Say on which torch, on which day, and on how many other versions."""
    own = ledger.own_run
    if own is None:
        return ""
    days = [each.own.date for each in entries if each.own]
    others = {
        run.release
        for place, run in enumerate(ledger.runs)
        if run.decides and run.release != own.release
        if any(each.outcomes[place].word == "passed" for each in entries)
    }
    said = f" on torch {own.release}, {max(days)}"
    if others:
        versions = "version" if len(others) == 1 else "versions"
        said += f", and on {len(others)} other {versions}"
    return said


def _part(sign: str, kind: str, said: str, place: str) -> nodes.reference:
    """Return a part of the line: a sign and its words, as one link."""
    shown = nodes.inline("", sign, classes=["claim-sign", f"claim-{kind}"])
    part = nodes.reference(
        "", "", internal=True, refuri=place, reftitle="Show them in the ledger"
    )
    part += [shown, nodes.Text(f" {said}")]
    return part


def setup_tally(app: Sphinx) -> None:
    """Add the line before panels are added, which hold paragraphs, too."""
    app.connect("doctree-resolved", _add_tally)
