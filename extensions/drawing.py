"""Draw the packages in DEVELOPING.md: ``python -m extensions.drawing``.

A package stands above those that it imports, so that all arrows lead down.
Packages that import each other share a floor, and are marked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from extensions.core.command_line import in_one_line
from extensions.core.problem import Problem
from extensions.core.reading import python_of, text_of
from extensions.core.topics import ROOT
from extensions.core.writing import write

PAGE = "DEVELOPING.md"
_DRAWING = re.compile(r"(?<=<!-- drawn -->\n\n```\n).*?(?=```)", re.DOTALL)
_BASE = "core"  # which all others import
_ABOVE = "─▶"
_EACH_OTHER = "◀─▶"

Arrows = dict[str, set[str]]


def packages(root: Path) -> Arrows:
    """Return which packages each one imports."""
    folders = sorted((root / "extensions").glob("*/__init__.py"))
    names = {path.parent.name for path in folders}
    return {
        path.parent.name: {
            name
            for module in sorted(path.parent.glob("*.py"))
            for name in _imported_by(module)
            if name in names
        }
        - {path.parent.name}
        for path in folders
    }


def _imported_by(module: Path) -> Iterator[str]:
    """Yield the packages of ours that a module imports, anywhere in it."""
    for node in ast.walk(python_of(module)):
        found: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            found = [each.name for each in node.names]
        for name in found:
            if name.startswith("extensions."):
                yield name.split(".")[1]


def below(arrows: Arrows, name: str) -> set[str]:
    """Return all packages that one needs, by way of others too."""
    found: set[str] = set()
    todo = set(arrows[name])
    while todo := todo - found:
        found |= todo
        todo = {each for name in todo for each in arrows[name]}
    return found


def floor(arrows: Arrows, name: str) -> int:
    """Return how high a package stands above what it imports."""
    needed = below(arrows, name)
    lower = {each for each in needed if name not in below(arrows, each)}
    return 1 + max((floor(arrows, each) for each in lower), default=-1)


def drawing(arrows: Arrows) -> str:
    """Return a line for each package, with an empty one between floors."""
    floors: dict[int, list[str]] = {}
    for name in arrows:
        floors.setdefault(floor(arrows, name), []).append(name)
    return "\n".join(
        "".join(_line(arrows, name) for name in floors[number])
        for number in sorted(floors, reverse=True)
    )


def _line(arrows: Arrows, name: str) -> str:
    """Return a package, with those that it imports."""
    both = {each for each in arrows[name] if name in below(arrows, each)}
    down = arrows[name] - both - {_BASE}
    line = f"{name:12}"
    if down:
        line += f" {_ABOVE} {', '.join(sorted(down))}"
    if both:
        line += f" {_EACH_OTHER} {', '.join(sorted(both))}"
    return f"{line.rstrip()}\n"


def main() -> None:
    """Put the drawing into its page."""
    page = ROOT / PAGE
    text = text_of(page)
    if not _DRAWING.search(text):
        raise Problem(page, 1, "no block behind <!-- drawn -->")
    write(page, _DRAWING.sub(drawing(packages(ROOT)), text))


if __name__ == "__main__":
    in_one_line(main)
