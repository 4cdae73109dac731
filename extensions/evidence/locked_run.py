"""The run of the torch that is locked: results that a clone brings along.

``evidence/locked/autograd/detach.xml`` holds what the tests of a topic said:
JUnit XML in which a person can read a change, with what it was *made with*,
such as libraries and the system. Where all of that is the same here, and what
the tests depend on has not changed, the results count as if they had been made
here, and the site says where they were made. ``record`` renews them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from extensions.core.files import Problem, text_of, write, xml_of
from extensions.core.fingerprint import digest
from extensions.core.topics import topic_of_tests
from extensions.evidence.dependencies import CASES, DEPENDS_ON, Dependencies
from extensions.evidence.fingerprints import FINGERPRINT, made_with
from extensions.evidence.junit import (
    RECORDED,
    add_properties,
    key_of,
    properties_of,
)
from extensions.evidence.modules import classname, programs
from extensions.evidence.parsed_tests import tests_in
from extensions.evidence.readable import readable
from extensions.evidence.walk import Code

FOLDER = Path("evidence/locked")
NOTHING = "nothing is recorded"
_MADE_WITH = "made with"
# What is kept once for all cases of a test, or follows from the file.
_NOT_OF_A_CASE = (CASES, DEPENDS_ON, FINGERPRINT, RECORDED, "date")
_CPU = {"device": "CPU"}  # not said


class LockedRun:
    """The recorded results of the torch that is locked, module by module."""

    def __init__(self, root: Path, modules: Iterable[Path]) -> None:
        """Read nothing yet."""
        self._root = root
        self._code = Code(root)
        self._modules = {classname(root, each): each for each in modules}

    def path(self, name: str) -> Path:
        """Return where the results of a module stand."""
        topic = topic_of_tests(self._root, self._modules[name])
        return self._root / FOLDER / f"{topic.name}.xml"

    def why_not(self, name: str) -> str:
        """Return why the results of a module do not count; '' if they do."""
        if not self.path(name).exists():
            return NOTHING
        suite = self._suite(name)
        before = properties_of(suite).get(_MADE_WITH, "").splitlines()
        if other := {*before} ^ {*self._made_with(name)}:
            return f"another {min(other).rpartition(' ')[0]}"
        now = self._depends(name)
        then = {
            each.get("name"): properties_of(each).get(DEPENDS_ON)
            for each in suite.iterfind("testsuite")
        }
        changed = [test for test in now if now[test] != then.get(test)]
        if changed or not now or "" in now.values():
            more = f" and {len(changed) - 1} more" if changed[1:] else ""
            return f"{changed[0] if changed else 'it'}{more} changed"
        return ""

    def results(self, name: str) -> list[Element]:
        """Return the results of a module, as pytest writes them."""
        suite = self._suite(name)
        facts = properties_of(suite)
        said = f"torch {facts['torch']}, Python {facts['python']}"
        return [
            case
            for test in suite.iterfind("testsuite")
            for case in _unpacked(name, test, {RECORDED: said})
        ]

    def run_of(self, names: Iterable[str]) -> Element:
        """Return a run that has the facts of some modules, and no results."""
        found: dict[str, str] = {}
        days = []
        for name in names:
            suite = self._suite(name)
            found |= properties_of(suite)
            tests = suite.iterfind("testsuite")
            days += [properties_of(each).get("date", "") for each in tests]
        found.pop(_MADE_WITH)
        root = Element("testsuites")
        suite = SubElement(root, "testsuite", name="pytest")
        add_properties(suite, {**found, "date": max(days)})
        return root

    def keep(
        self, name: str, facts: Mapping[str, str], new: list[Element]
    ) -> None:
        """Write the results of a module; those that still count stay."""
        now, with_these = self._depends(name), "\n".join(self._made_with(name))
        kept: dict[str | None, Element] = {}
        if self.path(name).exists():
            suite = self._suite(name)
            if properties_of(suite).get(_MADE_WITH) == with_these:
                tests = suite.iterfind("testsuite")
                kept = {each.get("name"): each for each in tests}
        root = Element("testsuites")
        suite = SubElement(root, "testsuite", name=name)
        add_properties(suite, {**facts, _MADE_WITH: with_these})
        for test, made_from in now.items():
            old = kept.get(test)
            if old is None or properties_of(old).get(DEPENDS_ON) != made_from:
                cases = [case for case in new if key_of(case)[1] == test]
                old = _packed(test, made_from, cases)
            suite.append(old)
        indent(root, " ")
        text: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
        write(self.path(name), text + b"\n")

    def _suite(self, name: str) -> Element:
        path = self.path(name)
        suite = xml_of(path).find("testsuite")
        if suite is None or suite.get("name") != name:
            raise Problem(path, 1, f"holds no results of {name}")
        return suite

    def _made_with(self, name: str) -> list[str]:
        return made_with(self._code, self._modules[name])

    def _depends(self, name: str) -> dict[str, str]:
        """Return what each test of a module depends on now."""
        module = self._modules[name]
        topic, tests = topic_of_tests(self._root, module), tests_in(module)
        if not topic.snippet.is_file():  # of the cells that need a device
            files = [module, *programs(self._root, module)]
            return dict.fromkeys(tests, digest(*map(text_of, files)))
        found = Dependencies(topic, self._code)
        return {test: found.of(test) for test in tests}


def _packed(test: str, made_from: str, cases: list[Element]) -> Element:
    """Return the results of a test; what its cases share is written once."""
    suite = Element("testsuite", name=test)
    days = [properties_of(case)["date"] for case in cases]
    add_properties(suite, {DEPENDS_ON: made_from, "date": max(days)})
    for case in cases:
        new = SubElement(suite, "testcase", name=case.get("name", ""))
        own = {
            each: readable(value)
            for each, value in properties_of(case).items()
            if each not in _NOT_OF_A_CASE and (each, value) not in _CPU.items()
        }
        add_properties(new, own)
        for skipped in case.iterfind("skipped"):
            SubElement(new, "skipped", message=skipped.get("message", ""))
    return suite


def _unpacked(
    module: str, test: Element, more: Mapping[str, str]
) -> Iterator[Element]:
    """Yield the cases of a test as pytest writes them."""
    cases = test.findall("testcase")
    shared = {**properties_of(test), CASES: str(len(cases)), **more}
    for case in cases:
        skipped = case.findall("skipped")
        device = {} if skipped else _CPU
        name = case.get("name", "")
        new = Element("testcase", classname=module, name=name)
        add_properties(new, {**device, **shared, **properties_of(case)})
        new.extend(skipped)
        yield new
