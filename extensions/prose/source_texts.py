"""The texts that the guide reorganizes, and where their sections went.

The list is a TOML file. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from extensions.core.problem import Problem
from extensions.core.reading import tables_of

LIST = Path("docs/evidence/sources.toml")


@dataclass(frozen=True)
class SourceText:
    """A text, with the topics that each of its sections went to."""

    title: str
    author: str
    date: str
    sections: dict[str, list[str]]


def read_texts(path: Path) -> list[SourceText]:
    """Return the texts that a file lists."""
    found = []
    for line, each in tables_of(path, "source"):
        for key in ("title", "author", "date"):
            if not isinstance(each.get(key), str):
                raise Problem(path, line, f"a source needs text as its {key}")
        if not isinstance(each.get("sections"), dict):
            raise Problem(path, line, "a source needs a table of its sections")
        for name, topics in each["sections"].items():
            if not _is_list_of_text(topics):
                message = f"section {name!r} needs a list of topics"
                raise Problem(path, line, message)
        found.append(
            SourceText(
                each["title"], each["author"], each["date"], each["sections"]
            )
        )
    return found


def _is_list_of_text(value: object) -> bool:
    """Whether a value is a list of texts, with one at least."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, str) for each in value)
    )
