"""All measurements for programs to read: ``measurements.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extensions.build.dependencies import root_of
from extensions.build.site_files import SITE_FILES
from extensions.core.topics import Topic, sha256
from extensions.measurements.recordings import read_recordings
from extensions.measurements.sphinx_measured import recording_files

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# To be raised by whatever change would break a program that reads the file.
_SCHEMA_VERSION = 1


def _as_json(root: Path, paths: list[Path]) -> dict[str, Any]:
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
    return {"schema": _SCHEMA_VERSION, "machines": machines}


def _measurements_json(app: Sphinx) -> str:
    """Return ``measurements.json`` as it stands beside the pages."""
    content = _as_json(root_of(app.env), recording_files(app.env))
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def setup_measurements_json(app: Sphinx) -> None:
    """Add the file."""
    SITE_FILES["measurements.json"] = _measurements_json
