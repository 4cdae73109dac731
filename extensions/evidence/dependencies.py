"""What the result of a test depends on, so that an edit makes stale only that.

Of the code, that is the test and all that it names, wherever that is defined:
in its module, in what this imports of ours, in a conftest.py or in a plugin of
pytest; the fixtures that it asks for, and those that are there for all; and
what a module does while it is imported. Of the program it is the cells up to
the last one that the tests name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, python_in, text_of
from extensions.core.fingerprint import digest
from extensions.core.topics import Topic
from extensions.evidence.parts import Part, dumped
from extensions.evidence.walk import Code
from extensions.programs.snippet import Snippet

# Properties of a result: what it depends on, and how many cases its test has.
DEPENDS_ON = "depends on"
CASES = "cases"
# What pytest calls by these names, without being asked for.
_CALLED = {
    "pytestmark",
    "setup_function",
    "setup_module",
    "teardown_function",
    "teardown_module",
}


@cached_by_content
def _cells_of(path: Path, text: str) -> dict[str, str]:
    """Return a hash of each cell of a program, by name, in file order."""
    return {
        name: digest(dumped(python_in(path, cell.source)))
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
        self._module = topic.tests
        self._behind: dict[Part, set[Part]] = {}
        self._all_behind: dict[Part, set[Part]] = {}
        self._named: dict[Part, set[str]] = {}
        self._fixtures: dict[str, set[Part]] = {}
        self.cells: dict[str, str] = {}
        try:
            self.cells = _cells_of(topic.snippet, text_of(topic.snippet))
            self._scopes = self._code.scopes(topic.tests)
            self._find_fixtures()
            self._for_all = self._parts(self._roots())
        except Problem:  # a rule reports it, and no result counts
            self.cells = {}

    def of(self, test: str) -> str:
        """Return one hash of all that the result of a test depends on."""
        if not self.cells or not self._code.lookup(self._module, test):
            return ""
        parts = self._of(test)
        codes = sorted({part.code for part in parts})
        cells = [self.cells[name] for name in self._reached(parts)]
        return digest("\n".join([*codes, *cells]))

    def may_run(self, test: str) -> list[str]:
        """Return the cells that a test may run: all up to the last named."""
        return self._reached(self._of(test)) if self.cells else []

    def _of(self, test: str) -> set[Part]:
        """Return all parts that count for a test.

        Tests share most of what they lead to, which is found once for each.
        """
        tests = self._code.lookup(self._module, test)
        found = {*self._for_all, *tests}
        for part in tests:
            for each in self._next(part):
                if each not in self._all_behind:
                    self._all_behind[each] = self._parts([each])
                found |= self._all_behind[each]
        return found

    def _find_fixtures(self) -> None:
        for path in self._scopes:
            module = self._code.module(path)
            for name in {*module.parts, *module.imports}:
                found = self._code.lookup(path, name)
                fixtures = {each for each in found if each.is_fixture}
                if fixtures:
                    self._fixtures.setdefault(name, set()).update(fixtures)

    def _roots(self) -> set[Part]:
        """Return what counts for each test of the module."""
        code, conftests = (
            self._code,
            [path for path in self._scopes if path.name == "conftest.py"],
        )
        found = {
            place
            for places in self._fixtures.values()
            for place in places
            if place.is_autouse
        }
        for name in _CALLED:
            found |= code.lookup(self._module, name)
        for path in conftests:
            for name in code.module(path).parts:
                if name.startswith("pytest_"):  # a hook
                    found |= code.lookup(path, name)
        for path in code.all_imported(self._scopes, lazily=False):
            found.update(code.module(path).effects)
        return found

    def _parts(self, start: Iterable[Part]) -> set[Part]:
        """Return some parts, with all that they lead to."""
        found: set[Part] = set()
        todo = [*start]
        while todo:
            if (part := todo.pop()) not in found:
                found.add(part)
                todo += self._next(part)
        return found

    def _next(self, part: Part) -> set[Part]:
        """Return what a part names: definitions, and perhaps fixtures."""
        if part not in self._behind:
            found: set[Part] = set()
            for name in part.names:
                found |= self._code.lookup(part.path, name)
            for each in part.imports:
                found |= self._code.behind(part.path, each)
            for name in self._fixtures.keys() & (part.names | part.words):
                found |= self._fixtures[name]
            self._behind[part] = found
        return self._behind[part]

    def _reached(self, parts: set[Part]) -> list[str]:
        """Return the cells up to the last that tests and helpers name."""
        cells = list(self.cells)
        named = set().union(*map(self._cells_in, parts))
        last = max(map(cells.index, named), default=len(cells))
        return cells[: last + 1]

    def _cells_in(self, part: Part) -> set[str]:
        """Return the cells that a part names, if it is of the tests."""
        if part not in self._named:
            tests = f"{self._code.root / 'tests'}{os.sep}"
            is_ours = str(part.path).startswith(tests)
            words = self.cells if part.runs_any_cell else part.words
            self._named[part] = {*self.cells}.intersection(
                words if is_ours else ()
            )
        return self._named[part]
