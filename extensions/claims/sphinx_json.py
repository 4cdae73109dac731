"""The ledger for programs to read, and the sentences that nothing proves.

``claims.json`` and ``unproven.txt`` stand beside the pages.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from extensions.claims.sphinx_ledger import ledger_of
from extensions.prose.sentences import KINDS
from extensions.site.layout import SITE_FILES

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder

    from extensions.claims.ledger import Ledger

# To be raised by whatever change would break a program that reads the file.
_SCHEMA_VERSION = 7


def _as_json(ledger: Ledger, builder: Builder) -> dict[str, Any]:
    """Return the ledger in the shape that ``claims.schema.json`` describes."""
    return {
        "schema": _SCHEMA_VERSION,
        "runs": [run.facts for run in ledger.runs],
        "claims": [
            {
                "id": entry.claim.name,
                "topic": entry.topic.name,
                "sentence": entry.claim.text,
                "url": builder.get_target_uri(entry.topic.name)
                + f"#{entry.claim.name}",
                "test": entry.test.name if entry.test else None,
                "true_since": _version_of(
                    entry.test.since if entry.test else ()
                ),
                "api_since": _version_of(entry.test.api if entry.test else ()),
                "counter_examples": [
                    each.name for each in entry.counter_examples
                ],
                "variations": [each.name for each in entry.variations],
                "limits": [each.name for each in entry.limits],
                "cases": entry.cases,
                "tried_on": entry.tried_on,
                "breaks": entry.breaks,
                "ends": entry.ends,
                "verdict": entry.verdict,
                "outcomes": [
                    {
                        "word": each.word,
                        "devices": each.devices,
                        "date": each.date,
                    }
                    for each in entry.outcomes
                ],
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


def _version_of(said: tuple[str, ...]) -> str | None:
    """Return the version that a mark names, if there is one."""
    return said[0] if said else None


def _claims_json(app: Sphinx) -> str:
    """Return ``claims.json`` as it stands beside the pages."""
    content = _as_json(ledger_of(app), app.builder)
    # On one line: with an indent, the slow encoder in Python would write it.
    return json.dumps(content, ensure_ascii=False) + "\n"


def _unproven_txt(app: Sphinx) -> str:
    """Return a line for each sentence that is neither proven nor cited."""
    return "".join(
        f"{page}: {sentence.text}\n"
        for page, sentences in ledger_of(app).prose.items()
        for sentence in sentences
        if sentence.kind == "neither"
    )


def setup_claims_json(app: Sphinx) -> None:
    """Add the files."""
    SITE_FILES["claims.json"] = _claims_json
    SITE_FILES["unproven.txt"] = _unproven_txt
