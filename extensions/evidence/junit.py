"""Evidence: what runs of the tests said, as pytest wrote it in JUnit XML.

A run is a folder with a ``tests.xml``, packed where it is recorded. Its facts
(torch, Python, machine, date) are properties of the suite; what a result
depends on, its device and its date are properties of the test. Imports neither
Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
EVIDENCE = Path("build/evidence/this-build/tests.xml")  # of this build
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
    """Return the run that a JUnit file holds."""
    return _run_in(path, bytes_of(path))


@cached_by_content
def _run_in(path: Path, content: bytes) -> Run:
    """Return the run that the content of a JUnit file is."""
    root = xml_in(path, content)
    suite = root.find("testsuite")
    facts = {} if suite is None else properties_of(suite)
    if missing := [name for name in FACTS if name not in facts]:
        message = (
            f"the run does not say its {', '.join(missing)}:"
            " record it with the tests of this project"
        )
        raise Problem(path, 1, message)
    results: dict[tuple[str, str], list[Result]] = {}
    for case in root.iter("testcase"):
        name = case.get("name", "").partition("[")[2].removesuffix("]")
        result = Result(outcome_of(case), properties_of(case), name)
        results.setdefault(key_of(case), []).append(result)
    return Run(path, facts, results)


def _run_or_problem(path: Path, is_own: bool) -> Run | Problem:
    """Return a run, or what is wrong with it."""
    try:
        return replace(read_run(path), is_own=is_own)
    except Problem as problem:
        return problem


def _all_of(folders: list[Path]) -> list[Run | Problem]:
    """Return what stands below some folders, in their order.

    The run of this build has a place of its own in the first; all others are
    recorded.
    """
    own = folders[0].joinpath(*EVIDENCE.parts[2:]) if folders else None
    return [
        _run_or_problem(path, path == own)
        for folder in folders
        for path in sorted(folder.glob("*/tests.xml*"))
        if path.name in _NAMES
    ]


def runs(folders: list[Path]) -> list[Run]:
    """Return every run below some folders that can be read.

    The build's own comes first, then the others from the oldest torch on.
    """
    found = [each for each in _all_of(folders) if isinstance(each, Run)]
    return sorted(found, key=lambda run: (not run.is_own, run.version))


def unreadable_runs(folders: list[Path]) -> list[Problem]:
    """Return what is wrong with the runs that cannot be read."""
    return [each for each in _all_of(folders) if isinstance(each, Problem)]
