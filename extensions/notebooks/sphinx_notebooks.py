"""Write the notebook of each page, if what it is made from has changed.

sphinx-gallery writes a notebook of the program alone; ours takes its place.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.build.dependencies import log_reasons
from extensions.build.errors import report
from extensions.claims.page import read_page
from extensions.claims.repairs import Repair, repairs_of
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.environment import installed, our_code
from extensions.core.fingerprint import Fingerprint, digest
from extensions.core.problem import Problem
from extensions.core.reading import bytes_of, json_of, text_of
from extensions.core.reading_order import first_lines
from extensions.core.topics import Topic, topics
from extensions.core.writing import write
from extensions.notebooks.cell_outputs import pictures_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from extensions.claims.entry import Entry

_WRITTEN = "the notebook"  # as it was written, which nobody else may change


def _paths(topic: Topic) -> tuple[Path, Path]:
    """Return where the notebook of a topic is, and its fingerprint."""
    path = topic.output.with_suffix(".ipynb")
    return path, path.with_suffix(".notebook.json")


def _given(topic: Topic) -> str:
    """Return all that the program of a topic gave."""
    if not topic.output.exists():
        return ""
    pictures = [digest(bytes_of(path)) for path in pictures_of(topic)]
    return "\n".join([text_of(topic.output), *pictures])


@dataclass(frozen=True)
class _Claims:
    """What a notebook shows of the claims of its page."""

    verdicts: dict[str, str]
    scopes: str
    repairs: dict[str, Repair]


def _shown_of(entries: tuple[Entry, ...]) -> _Claims:
    """Return the verdicts of some claims, and how far they reach."""
    lines = []
    for entry in entries:
        if scope := entry.scope:
            lines.append(f"- {entry.claim.sentence}")
            lines += [f"  - {each}" for each in scope]
    verdicts = {each.claim.name: each.verdict for each in entries}
    return _Claims(verdicts, "\n".join(lines), repairs_of(entries))


def _fingerprint(
    topic: Topic, base: str, titles: str, shown: _Claims
) -> Fingerprint:
    """Return what the notebook of a topic is made from."""
    path, _ = _paths(topic)
    claims = "\n".join(_claims_of_others(topic))
    return Fingerprint.of(
        {
            "our code": our_code(),
            "the libraries": installed(),
            "the site's address": base,
            "the titles of pages": titles,
            "its text": text_of(topic.page),
            "its program": bytes_of(topic.snippet),
            "claims of other pages": claims,
            "results of its claims": json.dumps(astuple(shown)),
            "what its program gave": digest(_given(topic)),
            _WRITTEN: bytes_of(path) if path.exists() else b"",
        }
    )


def _claims_of_others(topic: Topic) -> Iterator[str]:
    """Yield the claims of other pages that the page of a topic repeats."""
    for each in read_page(topic.page).recapped:
        page, _, name = each.name.rpartition("#")
        if page:
            claims = read_page(Topic(topic.root, page).page).claims
            yield from (each.sentence for each in claims if each.name == name)


def _changes(topic: Topic, now: Fingerprint) -> list[str]:
    """Return what has changed since the notebook of a topic was written."""
    path, record = _paths(topic)
    before: object = None
    with contextlib.suppress(Problem):  # none, or damaged
        before = json_of(record)
    if not path.exists() or not before:
        return ["new"]
    changes = now.changes_since(Fingerprint.read(before))
    # sphinx-gallery writes its own where the program has run.
    return [each for each in changes if each != _WRITTEN] or changes


def _write_notebook(
    topic: Topic, base: str, shown: _Claims, made_from: Fingerprint
) -> None:
    """Write a notebook, and what it was made from, if it shows all."""
    # A build with nothing changed needs neither of them.
    from nbformat import writes

    from extensions.notebooks.export import export_page
    from extensions.notebooks.notebook_file import notebook_of

    page = export_page(topic, base, shown.verdicts, shown.repairs)
    for problem in page.problems:
        report(problem)
    try:
        notebook = writes(
            notebook_of(topic, page, base, shown.verdicts, shown.scopes)
        )
    except Problem:
        return  # a rule reports it, with its line
    path, record = _paths(topic)
    write(path, notebook)
    if not page.problems:
        parts = {**made_from.parts, _WRITTEN: digest(notebook)}
        write(record, json.dumps(parts, indent=0) + "\n")


def _write_notebooks(app: Sphinx) -> None:
    """Write what has changed, in the place of sphinx-gallery's; say why."""
    root, base = Path(app.srcdir).parent, app.config.html_baseurl
    titles = first_lines(root)
    reasons = {}
    for topic in topics(root):
        if not topic.page.exists():
            continue
        shown = _shown_of(ledger_of(app).of(topic.name))
        now = _fingerprint(topic, base, titles, shown)
        if why := _changes(topic, now):
            reasons[topic.name] = why
            _write_notebook(topic, base, shown, now)
    log_reasons("notebook to be written", reasons)


def setup_notebooks(app: Sphinx) -> None:
    """Write once the programs have run."""
    app.connect("builder-inited", _write_notebooks)
