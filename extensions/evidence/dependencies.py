"""What the result of a test depends on, so that a change makes it stale.

Of its own module, that is the test, the test of its claim, and all that these
name there; of what the module, its conftest.py and their plugins import, all
of each file of ours; of the program, the cells up to the last that the tests
name. Besides, there is what a module was *made with*: libraries and the like.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, text_of
from extensions.core.fingerprint import digest
from extensions.core.topics import Topic, topic_of_tests, topics
from extensions.evidence.sources import Code, Statement, source_of
from extensions.evidence.surroundings import surroundings
from extensions.programs.snippet import Snippet

# Properties of a result: what it depends on, and how many cases its test has.
DEPENDS_ON = "depends on"
CASES = "cases"
# It notes what results are, and decides none.
_REPORTS = "extensions.evidence.pytest_plugin"
# What stands beside the topics: a test of all cells that need a device.
_CUDA_CELLS = "tests/test_cuda_cells.py"


def classname(root: Path, module: Path) -> str:
    """Return a module of tests as JUnit XML names it: a dotted path."""
    return ".".join(module.relative_to(root).with_suffix("").parts)


def evidence_modules(root: Path) -> list[Path]:
    """Return each module whose results the site shows."""
    modules = [*(topic.tests for topic in topics(root)), root / _CUDA_CELLS]
    return [module for module in modules if module.is_file()]


def _conftests(root: Path, module: Path) -> Iterator[Path]:
    """Yield each conftest.py that pytest reads for a module, nearest first."""
    for folder in module.relative_to(root).parents:
        if (path := root / folder / "conftest.py").is_file():
            yield path


def _programs(root: Path, module: Path) -> list[Path]:
    """Return the program behind a module, or all with cells for a device."""
    snippet = topic_of_tests(root, module).snippet
    return [snippet] if snippet.is_file() else [*_with_device(root)]


def _with_device(root: Path) -> Iterator[Path]:
    for topic in topics(root):
        try:
            cells = Snippet(topic.snippet, text_of(topic.snippet)).cells()
        except Problem:  # a rule reports it
            continue
        if any(cell.is_cuda for cell in cells.values()):
            yield topic.snippet


@cached_by_content
def _cells_of(path: Path, text: str) -> dict[str, str]:
    """Return a hash of each cell of a program, by name, in file order."""
    return {
        name: source_of(path, cell.source).code
        for name, cell in Snippet(path, text).cells().items()
    }


def cells_up_to(topic: Topic, last: str) -> str:
    """Return on what the output of a cell depends: all up to it."""
    cells = _cells_of(topic.snippet, text_of(topic.snippet))
    names = list(cells)
    return digest(*(cells[name] for name in names[: names.index(last) + 1]))


class Dependencies:
    """What the results of the tests of a topic depend on now."""

    def __init__(self, topic: Topic, code: Code | None = None) -> None:
        """Read the tests, what they use, and the program."""
        self._code = code or Code(topic.root)
        self._root, self._module = topic.root, topic.tests
        self.cells: dict[str, str] = {}
        self._tests = _Linked([])
        try:
            source = self._code.source(topic.tests)
            self._tests = _Linked(source.statements)
            if topic.snippet.is_file():
                self.cells = _cells_of(topic.snippet, text_of(topic.snippet))
            self._shared = [
                self._code.source(path).code
                for path in sorted(self.files - {topic.tests})
            ]
            self.is_readable = True
        except Problem:  # a rule reports it, and no result counts
            self.is_readable = False

    @cached_property
    def files(self) -> set[Path]:
        """The files behind the tests, without what is only a program."""
        found: set[Path] = set()
        for path in (self._module, *_conftests(self._root, self._module)):
            found |= self._code.behind(path, but=_REPORTS)
        return found

    @cached_property
    def programs(self) -> list[Path]:
        """The program, or all programs with cells for a device."""
        return _programs(self._root, self._module)

    def of(self, test: str) -> str:
        """Return one hash of all that the result of a test depends on.

        It is empty for a test that is not there, or that cannot be read.
        """
        statements = self._of(test)
        if not self.is_readable or not statements:
            return ""
        cells = [self.cells[name] for name in self._reached(statements)]
        if not self.cells:
            cells = [digest(text_of(path)) for path in self.programs]
        codes = [each.code for each in statements]
        return digest("\n".join([*self._shared, *codes, "", *cells]))

    def may_run(self, test: str) -> list[str]:
        """Return the cells that a test may run: all up to the last named."""
        return self._reached(self._of(test)) if self.is_readable else []

    @cached_property
    def made_with(self) -> list[str]:
        """What results are made with besides code, a line for each."""
        libraries, variables = {"pytest"}, set[str]()
        for path in {*self.files, *self.programs}:
            try:
                source = self._code.source(path)
            except Problem:  # a rule reports it, or pytest
                continue
            libraries |= source.libraries
            variables |= source.variables
        found = surroundings(self._root, libraries, variables)
        return [f"{name} {found[name]}" for name in sorted(found)]

    def stamp(self) -> str:
        """Return when each of the files was last written to.

        A file that was changed and put back while pytest ran has its old
        content, and yet another time of change.
        """
        stats = [
            (path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
            for path in sorted({*self.files, *self.programs})
            if path.exists()
            for stat in [path.stat()]
        ]
        return repr(stats)

    def _of(self, test: str) -> list[Statement]:
        """Return the statements of the module that count for a test."""
        if test not in self._tests.by_name:
            return []
        return self._tests.reached_from({test, test.partition("__")[0]})

    def _reached(self, statements: list[Statement]) -> list[str]:
        """Return the cells up to the last that tests and helpers name."""
        cells = list(self.cells)
        names = set().union(*(each.mentions for each in statements))
        those = [*statements, *self._helpers.reached_from(names)]
        named = {name for each in those for name in each.strings}
        if any(each.runs_any_cell for each in those):
            return cells
        last = [place for place, name in enumerate(cells) if name in named]
        return cells[: last[-1] + 1] if last else cells

    @cached_property
    def _helpers(self) -> _Linked:
        """The statements of helpers of tests, which may name cells."""
        return _Linked(
            [
                each
                for path in sorted(self.files - {self._module})
                if path.relative_to(self._root).parts[0] == "tests"
                for each in self._code.source(path).statements
            ]
        )


class _Linked:
    """Statements that lead from one to the next by the names in them."""

    def __init__(self, statements: list[Statement]) -> None:
        """Find out which of them defines a name."""
        self._statements = statements
        self._for_all: list[int] = []
        self.by_name: dict[str, list[int]] = {}
        for place, each in enumerate(statements):
            for name in each.defines:
                self.by_name.setdefault(name, []).append(place)
            if each.is_for_all:
                self._for_all.append(place)

    def reached_from(self, names: set[str]) -> list[Statement]:
        """Return those for all, and what names lead to, in their order."""
        todo, found = [*self._for_all], set[int]()
        for name in names & self.by_name.keys():
            todo += self.by_name[name]
        while todo:
            if (place := todo.pop()) not in found:
                found.add(place)
                mentions = self._statements[place].mentions
                for name in mentions & self.by_name.keys():
                    todo += self.by_name[name]
        return [self._statements[place] for place in sorted(found)]
