"""All measurements for programs: ``measurements.json`` beside the pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extensions.files.recordings import read_recordings
from extensions.files.topics import Topic, sha256
from extensions.files.writing import write
from extensions.site.builder import SiteBuilder
from extensions.site.page_basis import recordings_in, root_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

# Raised when a program that reads the file would have to change.
SCHEMA_VERSION = 1


def as_json(root: Path, paths: list[Path]) -> dict[str, Any]:
    """Return all in the shape of ``measurements.schema.json``."""
    machines = []
    for path in paths:
        record = read_recordings(path)
        topics = [
            {
                "topic": name,
                "date": measured.get("date", record["facts"]["date"]),
                "stale": measured["sha256"]
                != sha256(Topic(root, name).measurement),
                "cases": measured["cases"],
            }
            for name, measured in record["measurements"].items()
        ]
        machines.append(
            {
                "name": path.parent.name,
                "facts": record["facts"],
                "topics": topics,
            }
        )
    return {"schema": SCHEMA_VERSION, "machines": machines}


def write_json(app: Sphinx, error: Exception | None) -> None:
    """Write ``measurements.json`` beside the pages."""
    builder = app.builder
    if error or not isinstance(builder, SiteBuilder) or builder.is_current:
        return
    content = as_json(root_of(app.env), recordings_in(app.env))
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    write(Path(app.outdir, "measurements.json"), text)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write before the builder confirms that all is written."""
    app.connect("build-finished", write_json)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
