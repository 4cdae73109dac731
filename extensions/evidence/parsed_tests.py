"""Proofs: what is behind a claim, as its module of tests and a run say it.

A claim has a test; counter-examples, which make its words false and on which
that test fails; variations, on which they hold; and limits, conditions under
which the rule ends, so that the test fails there as well. Imports no test.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, python_in, text_of
from extensions.evidence.explanations import readable
from extensions.evidence.junit import Result, Run
from extensions.evidence.outcomes import is_fresh, results_of

# How a name goes on behind that of its claim's test.
ALSO, BUT, ENDS = "also_", "but_", "ends_"
KINDS = {ALSO: "variation", BUT: "counter-example", ENDS: "limit"}
_CUDA = "pytest.mark.cuda"
EXPECTS_FAILURE = "fails"  # the fixture of counter-examples and limits


@dataclass(frozen=True)
class Test:
    """A test function, found without importing its module."""

    name: str
    line: int
    docstring: str
    falsifies: tuple[str, ...] = ()
    """The tests that it expects to fail, one for each time it says so."""
    since: tuple[str, ...] = ()
    """The torch since which the words are true, and what was so before."""
    api: tuple[str, ...] = ()
    """The torch since which there is what it calls, and what that is."""
    simulates: tuple[str, ...] = ()
    """The device that it only simulates."""
    needs_cuda: bool = False
    """Whether it, or a case of it, needs a CUDA device."""

    @property
    def of(self) -> str:
        """The name of the test of the claim."""
        return self.name.partition("__")[0]

    @property
    def words(self) -> str:
        """What the name says behind that of the claim's test."""
        return self.name.partition("__")[2].replace("_", " ")

    @property
    def kind(self) -> str:
        """What its name says that it is; empty if it says nothing known."""
        _, is_more, behind = self.name.partition("__")
        for start, kind in KINDS.items():
            if f"{behind}_".startswith(start):
                return kind
        return "" if is_more else "test"

    @property
    def is_variation(self) -> bool:
        """Whether it shows that the claim holds on something else."""
        return self.kind == KINDS[ALSO]

    @property
    def is_counter(self) -> bool:
        """Whether it shows that a change makes the claim false."""
        return self.kind == KINDS[BUT]

    @property
    def is_limit(self) -> bool:
        """Whether it shows where the rule ends."""
        return self.kind == KINDS[ENDS]


@dataclass(frozen=True)
class Failure:
    """On what a claim is false, and what its test then said."""

    test: str
    """The name of the counter-example."""
    edit: str
    """What was changed in the program, as lines with ``-`` and ``+``."""
    given: str
    """What the test was given besides, as Python writes it."""
    said: str
    before: str = ""
    """What a cell prints in the program as it stands."""
    after: str = ""
    """What that cell prints in the edited one."""
    parameters: str = ""
    """What its case is made of, a line for each parametrization."""

    @property
    def prints(self) -> bool:
        """Whether a cell prints something else after the edit."""
        return self.before != self.after


def tests_in(module: Path) -> dict[str, Test]:
    """Return the tests of a module by name, in file order."""
    try:
        return tests_of(module, text_of(module))
    except Problem:  # it is missing, or a rule reports it
        return {}


@cached_by_content
def tests_of(module: Path, text: str) -> dict[str, Test]:
    """Return the tests that the text of a module holds."""
    body = python_in(module, text).body
    marks = _marks_in(body)
    return {
        node.name: Test(
            node.name,
            node.lineno,
            ast.get_docstring(node) or "",
            tuple(_falsified(node)),
            _arguments(marks[node.name], "true_since"),
            _arguments(marks[node.name], "api_since"),
            _arguments(marks[node.name], "pytest.mark.simulates"),
            any(_CUDA in ast.unparse(each) for each in marks[node.name]),
        )
        for node in body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def _marks_in(body: list[ast.stmt]) -> dict[str, list[ast.expr]]:
    """Return the marks of each function of a module, with those of all.

    A mark may have a name in the module, and then stands for what it names.
    """
    named = {
        target.id: node.value
        for node in body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    shared = _elements(named.get("pytestmark"))
    return {
        node.name: [
            named.get(each.id, each) if isinstance(each, ast.Name) else each
            for each in [*node.decorator_list, *shared]
        ]
        for node in body
        if isinstance(node, ast.FunctionDef)
    }


def _elements(marks: ast.expr | None) -> list[ast.expr]:
    """Return the marks of a module: one, a list of them, or none."""
    if marks is None:
        return []
    return marks.elts if isinstance(marks, ast.List) else [marks]


def _arguments(marks: list[ast.expr], name: str) -> tuple[str, ...]:
    """Return what the first of some marks that has a name says."""
    for each in marks:
        if isinstance(each, ast.Call) and ast.unparse(each.func) == name:
            return tuple(ast.literal_eval(arg) for arg in each.args)
    return ()


def _falsified(test: ast.FunctionDef) -> list[str]:
    """Return which tests a test hands to the fixture that expects failure."""
    if EXPECTS_FAILURE not in {each.arg for each in test.args.args}:
        return []  # most: to walk through them takes a second
    calls = [
        node.value
        for node in ast.walk(test)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    return [
        ast.unparse(call.args[0]) if call.args else ""
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == EXPECTS_FAILURE
    ]


def test_of(claim: str) -> str:
    """Return the name of the test that keeps a claim true."""
    return f"test_{claim.replace('-', '_')}"


def parameters_of(result: Result) -> str:
    """Return what a case is made of; an old run has only its name."""
    name = f"={result.case}" if result.case else ""
    return result.properties.get("parameters", name)


def failures(
    run: Run, module: str, test: Test, now: str
) -> tuple[Failure, ...]:
    """Return how a counter-example failed in a run, if it still holds."""
    return tuple(
        Failure(
            test.name,
            readable(result.properties.get("edit", "")),
            readable(result.properties.get("input", "")),
            readable(result.properties["said"]),
            result.properties.get("output before", ""),
            result.properties.get("output after", ""),
            parameters_of(result),
        )
        for result in results_of(run, module, test.name)
        if "said" in result.properties and is_fresh(result, now)
    )
