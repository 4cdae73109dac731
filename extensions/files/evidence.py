"""Evidence: what runs of the tests said, as pytest wrote it in JUnit XML.

A run is a folder with a ``tests.xml``. Its facts (torch, Python, device, date)
are properties of the suite; what a result rests on (the hashes of snippet and
test) are properties of the test. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from extensions.files.problem import Problem

FACTS = ("torch", "python", "device", "machine", "date")
OUTCOMES = {"failure": "failed", "error": "failed", "skipped": "skipped"}


@dataclass(frozen=True)
class Result:
    """What one test said in one run."""

    outcome: str
    """``passed``, ``failed`` or ``skipped``."""
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One run of the tests, on one machine with one torch."""

    path: Path
    facts: dict[str, str]
    results: dict[tuple[str, str], list[Result]]
    """By test module, as a dotted path, and test function."""

    @property
    def title(self) -> str:
        """Device and torch, in words."""
        device, machine = self.facts["device"], self.facts["machine"]
        return f"torch {self.facts['torch']}, {device} ({machine})"


def properties_of(element: ElementTree.Element) -> dict[str, str]:
    """Return the properties directly below an element."""
    return {
        each.get("name", ""): each.get("value", "")
        for each in element.findall("properties/property")
    }


def outcome_of(case: ElementTree.Element) -> str:
    """Return what a test case says in one word."""
    found = [OUTCOMES[each.tag] for each in case if each.tag in OUTCOMES]
    return found[0] if found else "passed"


def read_run(path: Path) -> Run:
    """Return the run that a JUnit file holds."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        message = f"not a whole JUnit file ({error}): run the tests again"
        raise Problem(path, error.position[0], message) from error
    suite = root.find("testsuite")
    facts = {} if suite is None else properties_of(suite)
    if missing := [name for name in FACTS if name not in facts]:
        message = (
            f"the run does not say its {', '.join(missing)}:"
            " record it with the tests of this house"
        )
        raise Problem(path, 1, message)
    results: dict[tuple[str, str], list[Result]] = {}
    for case in root.iter("testcase"):
        function = case.get("name", "").partition("[")[0]
        result = Result(outcome_of(case), properties_of(case))
        key = case.get("classname", ""), function
        results.setdefault(key, []).append(result)
    return Run(path, facts, results)


@cache
def cached_run(path: Path, changed: int) -> Run:
    """Return a run, read once for each time that its file changed."""
    return read_run(path)


def runs(folders: list[Path]) -> list[Run]:
    """Return every run below some folders, in the order of the folders."""
    return [
        cached_run(path, path.stat().st_mtime_ns)
        for folder in folders
        for path in sorted(folder.glob("*/tests.xml"))
    ]
