"""Snippets: Python files cut into named cells by ``# %% name`` lines.

sphinx-gallery, VS Code, Spyder and Jupytext read the same marker; this house
adds that the name is required and unique. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import TextIO

from extensions.core.files import Problem, text_of
from extensions.programs.empty_folder import empty_folder

MARKER = re.compile(r"^# ?%%(?P<name>.*)$", re.MULTILINE)
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
CUDA_GUARD = "if torch.cuda.is_available():"
PROSE = re.compile(r"\A(#.*\n|\n)+")
# How a cell begins that nobody is to copy.
WRONG = "# Wrong on purpose: do not copy.\n"
DISPLAY = re.compile(r"(import|from) (matplotlib|pandas)\b")


@dataclass(frozen=True)
class Cell:
    """One named step of a snippet."""

    name: str
    source: str
    line: int
    """Line of the marker, counted from 1."""

    @property
    def code(self) -> str:
        """The source without the prose before it, which a recipe has."""
        return self.source[len(self.prose) :]

    @property
    def prose(self) -> str:
        """The lines of comments with which the source begins."""
        found = PROSE.match(self.source)
        return found[0] if found else ""

    @property
    def code_line(self) -> int:
        """Line of the first code, counted from 1."""
        return self.line + 1 + self.prose.count("\n")

    @property
    def is_wrong(self) -> bool:
        """Whether the cell shows what nobody should write."""
        return self.prose == WRONG

    @property
    def is_display(self) -> bool:
        """Whether the cell only shows, as a table or a picture.

        Such a cell begins with the import of pandas or Matplotlib, and no
        other cell needs it: the tests leave it out and need neither library.
        """
        return DISPLAY.match(self.code) is not None

    @property
    def is_cuda(self) -> bool:
        """Whether the whole cell needs a CUDA device."""
        return self.code.startswith(CUDA_GUARD)


# The cells that ran since somebody cleared this.
ran: set[str] = set()
# What they printed, run by run, by cell.
printed: list[dict[str, str]] = []


class _Copy(io.StringIO):
    """A copy of what is written to another stream."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str) -> int:
        """Write to both."""
        self._stream.write(text)
        return super().write(text)


@contextmanager
def _noted(name: str) -> Iterator[None]:
    """Note what a cell prints that ends without an error."""
    run = printed[-1]
    with redirect_stdout(_Copy(sys.stdout)) as copy:
        yield
    run[name] = copy.getvalue()


@lru_cache(maxsize=1000)
def compiled(cell: Cell, path: Path) -> CodeType:
    """Return the code of a cell, once for all tests that run it.

    The blank lines make a traceback name the line of the file. The program
    has none of this module's ``__future__``: its annotations are objects.
    """
    text = "\n" * cell.line + cell.source
    return compile(text, path, "exec", dont_inherit=True)


class Variables(SimpleNamespace):
    """The variables of a program, of which pytest prints none.

    To print a model and all tensors takes longer than most programs, and
    whoever reads of a failed assertion sees none of it.
    """

    def __repr__(self) -> str:
        """Return what stands for all of them where an assertion fails."""
        return "namespace(...)"


@dataclass(frozen=True)
class Snippet:
    """A program of the guide: its file, and its text, perhaps edited."""

    path: Path
    text: str

    def __repr__(self) -> str:
        """Return what stands for a whole program in a traceback."""
        return f"<{type(self).__name__} {self.path.name}>"

    @classmethod
    def read(cls, path: Path) -> Snippet:
        """Return the snippet that a file holds."""
        return cls(path, text_of(path))

    def cells(self) -> dict[str, Cell]:
        """Return the cells by name, in file order."""
        marks = list(MARKER.finditer(self.text))
        if not marks:
            message = "no cell: each opens with a line '# %% name'"
            raise Problem(self.path, 1, message)
        ends = [*(mark.start() for mark in marks[1:]), len(self.text)]
        cells: dict[str, Cell] = {}
        for mark, end in zip(marks, ends, strict=True):
            name = mark["name"].strip()
            line = self.text.count("\n", 0, mark.start()) + 1
            if not NAME.fullmatch(name):
                message = (
                    f"malformed cell name {name!r}:"
                    " write lower-case words joined by hyphens"
                )
                raise Problem(self.path, line, message)
            if name in cells:
                first = cells[name].line
                message = f"cell {name!r} stands at line {first} already"
                raise Problem(self.path, line, message)
            source = self.text[mark.end() : end].strip("\n")
            cells[name] = Cell(name, source, line)
        return cells

    def cell(self, name: str) -> Cell:
        """Return one cell."""
        cells = self.cells()
        if name not in cells:
            message = f"no cell {name!r}; there are: {', '.join(cells)}"
            raise Problem(self.path, 1, message)
        return cells[name]

    def after(self, name: str) -> SimpleNamespace:
        """Run the file to the end of a cell, and return its variables.

        It runs in an empty folder, without the display cells before that one.
        """
        last = self.cell(name)
        namespace: dict[str, object] = {"__name__": "__main__"}
        printed.append({})
        with empty_folder():
            for cell in self.cells().values():
                if cell.line < last.line and cell.is_display:
                    continue
                if cell.code:
                    ran.add(cell.name)
                with _noted(cell.name):
                    exec(compiled(cell, self.path), namespace)
                if left := sorted(path.name for path in Path().iterdir()):
                    message = (
                        f"cell {cell.name!r} leaves behind in the"
                        f" working folder: {', '.join(left)}"
                    )
                    raise Problem(self.path, cell.line, message)
                if cell == last:
                    break
        return Variables(**namespace)

    def only(self, *names: str) -> Snippet:
        """Return the snippet with all other cells empty.

        Each line stays in its place, so that an error names the right one.
        """
        known = self.cells()
        kept = [known.get(name) or self.cell(name) for name in names]
        lines = self.text.splitlines()
        cells = list(known.values())
        ends = [*(cell.line - 1 for cell in cells[1:]), len(lines)]
        for cell, end in zip(cells, ends, strict=True):
            if cell not in kept:
                lines[cell.line : end] = [""] * (end - cell.line)
        return Snippet(self.path, "\n".join(lines) + "\n")

    def edit(self, old: str, new: str) -> Snippet:
        """Return the snippet with one passage changed: a counter-example."""
        if (count := self.text.count(old)) != 1:
            message = f"{old!r} occurs {count} times, not once"
            raise Problem(self.path, 1, message)
        return Snippet(self.path, self.text.replace(old, new))
