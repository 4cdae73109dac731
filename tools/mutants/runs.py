"""Run the tests of topics on mutants of their programs.

pytest collects once, with all that the tests import. Each mutant then gets a
copy of that process, in which the program reads as the mutant, and which ends
at the first test that fails.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from inspect import getsource
from itertools import zip_longest
from pathlib import Path
from unittest.mock import patch

import pytest

from extensions.core.files import Problem, json_of, write
from extensions.core.topics import Topic
from extensions.evidence.parsed_tests import EXPECTS_FAILURE
from extensions.programs.snippet import Snippet
from tools.mutants.forks import silent_calls
from tools.mutants.mutations import Mutation

_LONGEST = 3600  # seconds for the tests of an unchanged program


class MutantRuns:
    """A plugin for pytest that hands what it collects to a function."""

    def __init__(self, use: Callable[[MutantRuns], None]) -> None:
        self.use = use
        self.items: list[pytest.Item] = []
        self.failed: dict[str, str] = {}  # the first of each module

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what failed, or could not be collected."""
        module, _, name = report.nodeid.partition("::")
        if report.failed:
            self.failed.setdefault(module, name or module)

    pytest_collectreport = pytest_runtest_logreport

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Leave out the counter-examples: they show that a test can fail."""
        self.items = [
            item
            for item in session.items
            if EXPECTS_FAILURE not in item.fixturenames
        ]
        self.use(self)
        return True

    def survivors(self, topic: Topic, made: list[Mutation]) -> list[Mutation]:
        """Return the mutants that no test of a topic notices."""
        start = time.monotonic()
        items = [item for item in self.items if item.path == topic.tests]
        module = topic.tests.relative_to(topic.root).as_posix()
        if module in self.failed:
            problem = f"cannot be collected: {self.failed[module]}"
        elif not items:
            problem = "no test that could notice a mutant"
        elif failed := self.unchanged(items):
            problem = f"fails before anything is changed: {failed}"
        else:
            # A mutant may take longer, and other work slows both down.
            limit = 5 * (time.monotonic() - start) + 5
            calls = [partial(self.tried, topic, each, items) for each in made]
            path = topic.snippet.relative_to(topic.root)

            def tell(place: int) -> None:
                """Say at once what a run that is stopped would not say."""
                line = f"{path}:{made[place].line}: unnoticed: {made[place]}"
                print(line, file=sys.__stderr__, flush=True)

            silent = silent_calls(calls, limit, tell)
            return [
                each
                for each, is_left in zip(made, silent, strict=True)
                if is_left
            ]
        raise Problem(topic.tests, 1, problem)

    def unchanged(self, items: list[pytest.Item]) -> str:
        """Run tests on the program, and import what they do; say who fails."""
        said = Path(tempfile.gettempdir(), "said.json")

        def tell() -> None:
            write(said, json.dumps([self.run(items), [*sys.modules]]))

        if not all(silent_calls([tell], _LONGEST)):
            return "pytest crashes"
        failed, modules = json_of(said)
        for name in modules:
            # What cannot be imported alone is imported in each copy.
            with suppress(Exception):
                import_module(name)
        return str(failed)

    def tried(
        self, topic: Topic, mutant: Mutation, items: list[pytest.Item]
    ) -> str:
        """Run tests on a mutant; return which of them fails."""

        def may_wait(item: pytest.Item) -> bool:
            return f'"{mutant.cell}"' not in getsource(item.function)

        _replace_program(topic.snippet, mutant.text)
        return self.run(sorted(items, key=may_wait))

    def run(self, items: list[pytest.Item]) -> str:
        """Run tests until one fails, and return its name."""
        self.failed.clear()
        for item, after in zip_longest(items, items[1:]):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.failed:
                break
        return "".join(self.failed.values())


def _replace_program(program: Path, text: str) -> None:
    """Replace the text of a program for all that reads it from now on."""
    read, edit = Snippet.read, Snippet.edit

    def other(path: Path) -> Snippet:
        return Snippet(path, text) if path == program else read(path)

    def edited(snippet: Snippet, old: str, new: str) -> Snippet:
        try:
            return edit(snippet, old, new)
        except Problem as problem:
            # The mutant is in the passage: no test noticed what it means.
            raise pytest.skip.Exception(str(problem)) from problem

    patch.multiple(Snippet, read=other, edit=edited).start()
