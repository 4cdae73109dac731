"""What the result of a test rests on, so that an edit makes stale only that.

Of the module, the test and whatever it names there or in a conftest.py; of the
program, the cells up to the last one that these name. Comments and layout do
not count, nor does what runs all tests alike. Imports neither Sphinx nor
torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.problem import Problem
from extensions.core.reading import python_in, text_of
from extensions.core.topics import Topic
from extensions.evidence.module_dependencies import conftests, statements
from extensions.programs.snippet import Snippet

RESTS = "rests on"  # the property of a result that holds the hash
LENGTH = 16  # letters of a hash
ALL = "pytestmark"  # counts for each test of its module
RUNNERS = {"after", "cell", "only"}  # of a snippet: they take names of cells


@dataclass(frozen=True)
class Part:
    """A statement of a module: what it is and what it names."""

    code: str
    """A hash of it, without comments and layout."""
    names: frozenset[str]
    """What it may mean by a name, its arguments included."""
    words: frozenset[str]
    """The strings in it: those that name cells are among them."""
    counts_all: bool
    """Whether it may run cells that it does not name."""


def hashed(parts: Iterable[str]) -> str:
    """Return one hash for some texts."""
    return sha256("\n".join(parts).encode()).hexdigest()[:LENGTH]


@cached_by_content
def parts_of(path: Path, text: str) -> dict[str, tuple[Part, ...]]:
    """Return the statements of a module by what they define or change."""
    found: dict[str, tuple[Part, ...]] = {}
    for node in python_in(path, text).body:
        part = part_of(node)
        for name in defined_by(node):
            found[name] = (*found.get(name, ()), part)
    return found


def part_of(node: ast.stmt) -> Part:
    """Return what counts of a statement."""
    names, words, counts_all = set(), set(), False
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            names.add(each.id)
        elif isinstance(each, ast.arg):
            names.add(each.arg)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            words.add(each.value)
        elif isinstance(each, ast.Call):
            counts_all = counts_all or not says_its_cells(each)
    code = hashed([ast.dump(node)])
    return Part(code, frozenset(names), frozenset(words), counts_all)


def says_its_cells(call: ast.Call) -> bool:
    """Whether a call takes no cells, or takes them by names that are told."""
    what = call.func
    name = what.attr if isinstance(what, ast.Attribute) else ""
    if name == "cells":
        return False
    made = ast.JoinedStr | ast.BinOp | ast.Call
    return name not in RUNNERS or not any(
        isinstance(each, made) for each in call.args
    )


def defined_by(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module defines or changes."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((each.asname or each.name) for each in node.names)
    else:
        for each in (node, *statements(node)):
            if isinstance(each, ast.Assign | ast.AugAssign | ast.AnnAssign):
                yield from changed_by(each)


def changed_by(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> set[str]:
    """Return the names to which an assignment gives something."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {
        each.id
        for target in targets
        for each in ast.walk(target)
        if isinstance(each, ast.Name)
    }


@cached_by_content
def cells_of(path: Path, text: str) -> dict[str, str]:
    """Return a hash of each cell of a program, by name, in file order."""
    return {
        name: hashed([ast.dump(python_in(path, cell.source))])
        for name, cell in Snippet(path, text).cells().items()
    }


def cells_up_to(topic: Topic, last: str) -> str:
    """Return on what the output of a cell rests: all up to it."""
    cells = cells_of(topic.snippet, text_of(topic.snippet))
    names = list(cells)
    return hashed(cells[name] for name in names[: names.index(last) + 1])


class Rests:
    """What the tests of a topic rest on now."""

    def __init__(self, topic: Topic) -> None:
        """Read the tests, their conftest.py and the program."""
        self.cells: dict[str, str] = {}
        self.parts: dict[str, tuple[Part, ...]] = {}
        try:
            text = text_of(topic.snippet)
            self.cells = cells_of(topic.snippet, text)
            for path in reversed([*self.modules(topic)]):
                self.parts |= parts_of(path, text_of(path))
        except Problem:  # a rule reports it, and no result counts
            self.parts = {}

    def modules(self, topic: Topic) -> Iterator[Path]:
        """Yield where a name is looked for: the tests, then conftest.py."""
        yield topic.tests
        yield from conftests(topic.root, topic.tests)

    def named_by(self, test: str) -> list[Part]:
        """Return all that a test names, and what that names."""
        found: list[Part] = []
        todo, known = {test, ALL}, set()
        while todo := todo & self.parts.keys():
            known |= todo
            parts = [part for name in todo for part in self.parts[name]]
            found += parts
            todo = {name for part in parts for name in part.names} - known
        return found

    def may_run(self, test: str) -> list[str]:
        """Return the cells that a test may run: all up to the last named."""
        return self.reached(self.named_by(test))

    def reached(self, parts: list[Part]) -> list[str]:
        """Return the cells up to the last that some parts name."""
        cells = list(self.cells)
        words = {word for part in parts for word in part.words}
        named = [name for name in cells if name in words]
        if not named or any(part.counts_all for part in parts):
            return cells
        return cells[: cells.index(named[-1]) + 1]

    def of(self, test: str) -> str:
        """Return one hash of all that the result of a test rests on."""
        parts = self.named_by(test)
        if not self.cells or not parts:
            return ""
        codes = sorted({part.code for part in parts})
        return hashed([*codes, *(self.cells[c] for c in self.reached(parts))])
