"""Evidence: what runs of the tests said, as pytest wrote it in JUnit XML.

A recorded run is a folder with a ``tests.xml``, packed. Its facts (torch,
Python, machine, date) are properties of the suite; what a result depends on,
its device and its date are properties of the test. The run of this build is a
folder with a file for each topic. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from xml.etree import ElementTree

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, bytes_of, xml_in

FACTS = ("torch", "python", "machine", "date")
RECORDED = "recorded on"  # of a result: where, if it was not made here
PART = "claims"  # a fact that only a run of some claims has
_OLDEST_TORCH = (2, 6)  # that the guide is written for
_NAMES = ("tests.xml", "tests.xml.gz")
OWN = Path("build/evidence/this-build")
CPU = {"device": "CPU"}  # where most tests run, which no file says of each
_OUTCOMES = {"failure": "failed", "error": "failed", "skipped": "skipped"}


@dataclass(frozen=True)
class Result:
    """What one test said in one run."""

    outcome: str
    """``passed``, ``failed`` or ``skipped``."""
    properties: dict[str, str] = field(default_factory=dict)
    case: str = ""
    """Which case of the test it is, as pytest names it, if it has several."""


@dataclass(frozen=True)
class Run:
    """One run of the tests, on one machine with one torch."""

    path: Path
    facts: dict[str, str]
    results: dict[tuple[str, str], list[Result]]
    """By test module, as a dotted path, and test function."""
    is_own: bool = False
    """Whether this build's tests made it, and not a recorded machine's."""

    @property
    def version(self) -> tuple[int, ...]:
        """The numbers of the version of torch."""
        numbers = self.release.split(".")
        return tuple(int(each) for each in numbers if each.isdigit())

    @property
    def release(self) -> str:
        """The version of torch, without its build."""
        return self.facts["torch"].partition("+")[0]

    @property
    def decides(self) -> bool:
        """Whether the guide is written for its torch.

        What an older one says only informs, even where this build could not
        test a claim.
        """
        return self.version >= _OLDEST_TORCH

    @property
    def is_part(self) -> bool:
        """Whether only some claims were to be tested."""
        return PART in self.facts

    @property
    def title(self) -> str:
        """Torch and machine, in words."""
        return f"torch {self.facts['torch']} ({self.facts['machine']})"


def properties_of(element: ElementTree.Element) -> dict[str, str]:
    """Return the properties directly below an element.

    Most are the same in thousands of results, and are kept once for all.
    """
    return {
        intern(each.get("name", "")): intern(
            each.get("value", each.text or "")
        )
        for each in element.findall("properties/property")
    }


def add_properties(
    element: ElementTree.Element, values: Mapping[str, str]
) -> None:
    """Add properties as pytest writes them; several lines, as lines."""
    if values:
        inside = ElementTree.SubElement(element, "properties")
        for name, value in values.items():
            new = ElementTree.SubElement(inside, "property", name=name)
            if "\n" in value and "\r" not in value:  # which XML would lose
                new.text = value
            else:
                new.set("value", value)


def outcome_of(case: ElementTree.Element) -> str:
    """Return what a test case says in one word."""
    found = [_OUTCOMES[each.tag] for each in case if each.tag in _OUTCOMES]
    return found[0] if found else "passed"


def key_of(case: ElementTree.Element) -> tuple[str, str]:
    """Return the module and the function of a test case."""
    name = case.get("name", "").partition("[")[0]
    return intern(case.get("classname", "")), intern(name)


def read_run(path: Path) -> Run:
    """Return the run that a JUnit file holds, as pytest writes it.

    Raises
    ------
    Problem
        If it cannot be read, or does not say on what it was made.
    """
    facts, results = _run_in(path, bytes_of(path))
    return Run(path, facts, results)


_Results = dict[tuple[str, str], list[Result]]


@cached_by_content
def _run_in(path: Path, content: bytes) -> tuple[dict[str, str], _Results]:
    root = xml_in(path, content)
    results: _Results = {}
    for case in root.iter("testcase"):
        result = _result(case, properties_of(case))
        results.setdefault(key_of(case), []).append(result)
    return _facts(path, root.find("testsuite")), results


def _result(case: ElementTree.Element, properties: dict[str, str]) -> Result:
    name = case.get("name", "").partition("[")[2].removesuffix("]")
    return Result(outcome_of(case), properties, name)


def _facts(path: Path, suite: ElementTree.Element | None) -> dict[str, str]:
    """Return on what a run was made."""
    facts = {} if suite is None else properties_of(suite)
    if missing := [name for name in FACTS if name not in facts]:
        message = (
            f"the run does not say its {', '.join(missing)}:"
            " record it with the tests of this project"
        )
        raise Problem(path, 1, message)
    return facts


def _own_run(folder: Path, paths: list[Path]) -> Run:
    """Return the run of this build, of which each topic has a file."""
    facts: dict[str, str] = {}
    results: _Results = {}
    for path in paths:
        more, those = _topic_in(path, bytes_of(path))
        facts = more | {"date": max(more["date"], facts.get("date", ""))}
        results |= those
    return Run(folder, facts, results, is_own=True)


@cached_by_content
def _topic_in(path: Path, content: bytes) -> tuple[dict[str, str], _Results]:
    results: _Results = {}
    suite = xml_in(path, content).find("testsuite")
    if suite is None:
        raise Problem(path, 1, "holds no results")
    facts = {"date": ""} | properties_of(suite)
    for test in suite.iterfind("testsuite"):
        shared = properties_of(test)
        facts["date"] = max(shared["date"], facts["date"])
        if RECORDED in facts:
            shared[RECORDED] = facts[RECORDED]
        key = suite.get("name", ""), test.get("name", "")
        results[key] = [
            _result(case, _device(case) | shared | properties_of(case))
            for case in test.iterfind("testcase")
        ]
    return {name: facts[name] for name in FACTS}, results


def _device(case: ElementTree.Element) -> dict[str, str]:
    return {} if outcome_of(case) == "skipped" else CPU


def _read(path: Path, paths: list[Path]) -> Run | Problem:
    """Return a run, or what is wrong with it."""
    try:
        return _own_run(path, paths) if paths else read_run(path)
    except Problem as problem:
        return problem


def _all_of(folders: list[Path]) -> list[Run | Problem]:
    """Return the run of this build, which the first has, and all others."""
    own = [folder / OWN.name for folder in folders[:1]]
    topics = [(each, sorted(each.glob("**/*.xml"))) for each in own]
    packed: list[tuple[Path, list[Path]]] = [
        (path, [])
        for folder in folders
        for path in sorted(folder.glob("*/tests.xml*"))
        if path.name in _NAMES and path.parent not in own
    ]
    found = [each for each in topics if each[1]]
    return [_read(path, paths) for path, paths in [*found, *packed]]


def runs(folders: list[Path]) -> list[Run]:
    """Return every run below some folders that can be read.

    The build's own comes first, then the others from the oldest torch on.
    """
    found = [each for each in _all_of(folders) if isinstance(each, Run)]
    return sorted(found, key=lambda run: (not run.is_own, run.version))


def unreadable_runs(folders: list[Path]) -> list[Problem]:
    """Return what is wrong with the runs that cannot be read."""
    return [each for each in _all_of(folders) if isinstance(each, Problem)]
