"""The head of a printed page: its address, and what it was tested on.

Paper outlives a version of torch, and has no links to follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.build.dependencies import PAGE_PARTS
from extensions.build.page_context import PageContext, on_page_context
from extensions.claims.sphinx_ledger import ledger_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _tested(app: Sphinx) -> str:
    """Return when and on which versions of torch the claims were tested."""
    ledger = ledger_of(app)
    own = ledger.own_run
    if own is None:
        return ""
    said = f"tested on {own.facts['date']} with torch {own.release}"
    others = {run.version: run.release for run in ledger.runs if run.decides}
    others.pop(own.version, None)
    if others:
        names = [name for _, name in sorted(others.items())]
        said += f", also with {', '.join(names)}"
    return said


def _add_line(page: PageContext) -> None:
    """Add the line to a page; generated ones say by themselves what ran."""
    if page.doctree is not None:
        page.values["tested"] = _tested(page.app)


def _tested_by_page(app: Sphinx) -> dict[str, str]:
    """Return what each page says at its head on paper."""
    return dict.fromkeys(app.env.found_docs, _tested(app))


def setup_paper(app: Sphinx) -> None:
    """Add the line, which the style shows on paper alone."""
    PAGE_PARTS["what it says on paper"] = _tested_by_page
    on_page_context(app, _add_line)
