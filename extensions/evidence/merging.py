"""Merge new results into kept ones, so that only what is stale runs again.

A result counts as long as its fingerprint is that of its module. pytest's own
elements are kept as they are, with all their properties: the libraries for
JUnit XML add up suites, and an old result would stand beside its successor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

from extensions.core.files import Problem, python_of, xml_of
from extensions.core.fingerprint import Fingerprint
from extensions.evidence.dependencies import CASES
from extensions.evidence.fingerprints import FINGERPRINT
from extensions.evidence.junit import key_of, outcome_of, properties_of
from extensions.evidence.parsed_tests import tests_in


def cases_in(path: Path) -> list[Element]:
    """Return the results that a file holds: none where it is not whole."""
    try:
        return list(xml_of(path).iter("testcase"))
    except Problem:
        return []


def module_of(case: Element) -> str:
    """Return the module of a result, as a dotted path."""
    return key_of(case)[0]


def current(
    cases: list[Element], now: Mapping[str, Fingerprint]
) -> list[Element]:
    """Return the results that were made from what there is now.

    A test counts as a whole: where one of its cases was deselected, or has
    crashed its process, the others say nothing of the claim.
    """
    lost = deselected(cases) | _crashed(cases)
    for case in cases:
        made_from = properties_of(case).get(FINGERPRINT)
        found = now.get(module_of(case))
        if found is None or made_from != found.digest:
            lost.add(key_of(case))
    return [case for case in cases if key_of(case) not in lost]


def deselected(cases: list[Element]) -> set[tuple[str, str]]:
    """Return the tests of which pytest found more cases than it ran."""
    found: dict[tuple[str, str], set[str]] = {}
    for case in cases:
        found.setdefault(key_of(case), set()).add(case.get("name", ""))
    return {
        key_of(case)
        for case in cases
        for count in [properties_of(case).get(CASES)]
        if count and count != str(len(found[key_of(case)]))
    }


def _crashed(cases: list[Element]) -> set[tuple[str, str]]:
    """Return the tests of which a case has crashed its process.

    pytest-xdist reports that without any property.
    """
    return {key_of(case) for case in cases if CASES not in properties_of(case)}


def note_fingerprints(
    cases: list[Element], now: Mapping[str, Fingerprint]
) -> None:
    """Note in each result from what it was made."""
    for case in cases:
        value = now[module_of(case)].digest
        for properties in case.findall("properties"):
            SubElement(properties, "property", name=FINGERPRINT, value=value)


def lacking(modules: Mapping[str, Path], cases: list[Element]) -> list[str]:
    """Return the modules that have tests of which there is no result."""
    known = {key_of(case) for case in cases}
    found = []
    for name, module in modules.items():
        tests = tests_in(module)
        missing = any((name, test) not in known for test in tests)
        if missing or (not tests and _is_broken(module)):
            found.append(name)
    return found


def _is_broken(module: Path) -> bool:
    """Whether nobody can tell which tests a module has."""
    try:
        python_of(module)
    except Problem:
        return True
    return False


def failed(cases: list[Element]) -> list[Element]:
    """Return the results of tests that failed."""
    return [case for case in cases if outcome_of(case) == "failed"]


def run_with(root: Element, cases: list[Element]) -> bytes:
    """Return a run as JUnit XML, with these results in place of its own."""
    for suite in root.findall("testsuite"):
        for case in suite.findall("testcase"):
            suite.remove(case)
        suite.extend(sorted(cases, key=module_of))
        tags = Counter(each.tag for case in cases for each in case)
        seconds = sum(float(case.get("time", 0)) for case in cases)
        suite.set("tests", str(len(cases)))
        suite.set("failures", str(tags["failure"]))
        suite.set("errors", str(tags["error"]))
        suite.set("skipped", str(tags["skipped"]))
        suite.set("time", f"{seconds:.3f}")
    content: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return content
