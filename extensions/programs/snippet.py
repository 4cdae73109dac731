"""Snippets: Python files cut into named cells by ``# %% name`` lines.

sphinx-gallery, VS Code, Spyder and Jupytext read the same marker; this house
adds that the name is required and unique. Tests run a snippet up to a cell;
what it finds then is what it finds when its page is made. Imports neither
Sphinx nor, unless a program runs, torch.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

from extensions.core.files import Problem, text_of

_MARKER = re.compile(r"^# ?%%(?P<name>.*)$", re.MULTILINE)
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DISPLAY = re.compile(r"(import|from) (matplotlib|pandas)\b")
CUDA_GUARD = "if torch.cuda.is_available():"
# How a cell begins that nobody is to copy.
WRONG = "# Wrong on purpose: do not copy.\n"


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
        found = re.match(r"(#.*\n|\n)+", self.source)
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
        return _DISPLAY.match(self.code) is not None

    @property
    def is_cuda(self) -> bool:
        """Whether the whole cell needs a CUDA device."""
        return self.code.startswith(CUDA_GUARD)


# The cells that ran since somebody cleared this.
ran: set[str] = set()
# What they printed, run by run, by cell.
printed: list[dict[str, str]] = []


@contextlib.contextmanager
def _noted(name: str) -> Iterator[None]:
    """Note what a cell prints that ends without an error."""
    run, stdout = printed[-1], sys.stdout
    with contextlib.redirect_stdout(io.StringIO()) as copy:
        try:
            yield
        finally:
            stdout.write(copy.getvalue())
    run[name] = copy.getvalue()


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@contextlib.contextmanager
def no_network() -> Iterator[None]:
    """Refuse to look up a host: no program needs one."""

    def refuse(host: object, *_: object, **__: object) -> Any:
        raise OSError(f"a program asked for the network: {host}")

    known, socket.getaddrinfo = socket.getaddrinfo, refuse
    try:
        yield
    finally:
        socket.getaddrinfo = known


@contextlib.contextmanager
def fresh_start() -> Iterator[None]:
    """Work in an empty folder and without a network.

    The folder is the same for one program after another, as long as they leave
    it empty: to make one for each takes a tenth of the time of tests.
    """
    folder = _folder()
    try:
        with contextlib.chdir(folder.name), no_network():
            yield
    finally:
        place = Path(folder.name)
        if not place.is_dir() or any(place.iterdir()):
            _folder.cache_clear()
            folder.cleanup()


def reset_torch(gallery_conf: dict[str, Any], fname: str) -> None:
    """Give every program the torch and the tables of a fresh prompt.

    conf.py names this function by a string, which keeps its values picklable.
    """
    import torch

    if hasattr(torch, "set_default_device"):  # since torch 2.0
        torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_printoptions(profile="default")
    torch.seed()  # at random, so that a forgotten seed shows
    torch.set_num_threads(1)  # no output depends on the machine's cores
    torch.set_warn_always(True)  # not once in a process that runs them all
    # Asked first, since the call imports the whole compiler: two seconds.
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(False)
    torch.autograd.set_detect_anomaly(False)
    if hasattr(torch.backends, "fp32_precision"):  # since torch 2.9
        torch.backends.fp32_precision = "none"
    # Not asked first: asking fails while the two names for it differ.
    torch.set_float32_matmul_precision("highest")
    if "torch._dynamo" in sys.modules:  # else there is nothing to forget
        torch.compiler.reset()
    torch.backends.cudnn.enabled = True
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = False
    torch.backends.cudnn.allow_tf32 = True
    sys.excepthook = sys.__excepthook__  # torch.distributed sets another
    if pandas := sys.modules.get("pandas"):
        pandas.reset_option("^display.")


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
        marks = list(_MARKER.finditer(self.text))
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
        with fresh_start():
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
        lines = self.text.split("\n")
        cells = list(known.values())
        ends = [*(cell.line - 1 for cell in cells[1:]), len(lines)]
        for cell, end in zip(cells, ends, strict=True):
            if cell not in kept:
                lines[cell.line : end] = [""] * (end - cell.line)
        return Snippet(self.path, "\n".join(lines))

    def edit(self, old: str, new: str) -> Snippet:
        """Return the snippet with one passage changed: a counter-example."""
        if (count := self.text.count(old)) != 1:
            message = f"{old!r} occurs {count} times, not once"
            raise Problem(self.path, 1, message)
        return Snippet(self.path, self.text.replace(old, new))


def after(snippet: Snippet, *names: str) -> SimpleNamespace:
    """Run some cells of a snippet without the others, once for all tests.

    That is for tests that change nothing in what they get. Programs that
    differ only in their other cells share one run.
    """
    return _after(snippet.only(*names), names[-1])


@cache
def _after(program: Snippet, last: str) -> SimpleNamespace:
    """Run a program to the end of a cell, once."""
    return program.after(last)


# Where the name to install is not the name to import.
_DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn"}


def distribution_of(name: str) -> str:
    """Return what to install for the name of an import."""
    return _DISTRIBUTIONS.get(name, name)


def libraries(text: str) -> list[str]:
    """Return the libraries that a program imports, torch first."""
    found = {distribution_of(name) for name in imported(text)}
    return sorted(found, key=lambda name: (name != "torch", name))


def imported(text: str) -> set[str]:
    """Return the names by which a program imports libraries."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names
