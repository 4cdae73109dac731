"""What is wrong, and where: the one error of this project."""

from __future__ import annotations

from pathlib import Path


class Problem(Exception):
    """A place where a rule is broken: yielded by rules, raised by readers."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        """Keep the place, with its line counted from 1, and what is wrong."""
        super().__init__(path, line, message)
        self.path = path
        self.line = line
        self.message = message

    def __str__(self) -> str:
        """Return the problem as one line that editors can follow."""
        return f"{self.path}:{self.line}: {self.message}"
