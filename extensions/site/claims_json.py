"""The ledger a second time, for programs: ``claims.json`` beside the pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extensions.files.sentences import KINDS
from extensions.files.writing import write
from extensions.site.builder import SiteBuilder

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.util.typing import ExtensionMetadata

    from extensions.files.ledger import Ledger

# Raised when a program that reads the file would have to change.
SCHEMA_VERSION = 5


def as_json(ledger: Ledger, builder: Builder) -> dict[str, Any]:
    """Return the ledger in the shape that ``claims.schema.json`` describes."""
    return {
        "schema": SCHEMA_VERSION,
        "runs": [run.facts for run in ledger.runs],
        "claims": [
            {
                "id": entry.claim.name,
                "topic": entry.topic.name,
                "sentence": entry.claim.text,
                "url": builder.get_target_uri(entry.topic.name)
                + f"#{entry.claim.name}",
                "test": entry.test.name if entry.test else None,
                "true_since": first(entry.test.since if entry.test else ()),
                "api_since": first(entry.test.api if entry.test else ()),
                "counter_examples": [each.name for each in entry.counters],
                "failures": [vars(each) for each in entry.failures],
                "variations": [each.name for each in entry.variations],
                "cases": entry.cases,
                "verdict": entry.verdict,
                "outcomes": [vars(each) for each in entry.outcomes],
            }
            for entry in ledger.entries
        ],
        "cited": [
            {"page": page, "sentence": sentence.text, "source": address}
            for page, sentence, address in ledger.cited()
        ],
        "sentences": {
            page: {kind: counted[kind] for kind in KINDS}
            for page in ledger.prose
            for counted in [ledger.kinds(page)]
        },
    }


def first(said: tuple[str, ...]) -> str | None:
    """Return the version that a mark names, if there is one."""
    return said[0] if said else None


def write_json(app: Sphinx, error: Exception | None) -> None:
    """Write ``claims.json`` beside the pages."""
    builder = app.builder
    if error or not isinstance(builder, SiteBuilder) or builder.is_current:
        return
    content = as_json(builder.ledger, builder)
    # On one line: what indents is written in Python, and takes far longer.
    text = json.dumps(content, ensure_ascii=False) + "\n"
    write(Path(app.outdir, "claims.json"), text)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write before the builder confirms that all is written."""
    app.connect("build-finished", write_json)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
