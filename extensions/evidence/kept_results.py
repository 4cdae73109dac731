"""Results that are kept, a file for each topic, and whether they count here.

``build/evidence/this-build/autograd/detach.xml`` holds what the tests of a
topic said in this build, ``evidence/locked/autograd/detach.xml`` what they
said when somebody recorded them with the torch that is locked, for clones to
bring along. Both are JUnit XML in which a person can read a change. Results
count where all that they were *made with*, such as libraries and the system,
is the same here, and what each test depends on has not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from extensions.core.environment import our_code
from extensions.core.files import Problem, remove, write, xml_of
from extensions.core.topics import topic_of_tests
from extensions.evidence.dependencies import (
    CASES,
    DEPENDS_ON,
    Dependencies,
    classname,
    evidence_modules,
)
from extensions.evidence.explanations import readable
from extensions.evidence.junit import (
    CPU,
    OWN,
    RECORDED,
    add_properties,
    key_of,
    outcome_of,
    properties_of,
)
from extensions.evidence.parsed_tests import tests_in
from extensions.evidence.sources import Code

LOCKED = Path("evidence/locked")
NOTHING = "nothing is recorded"
_MADE_WITH = "made with"
# What is kept once for all cases of a test, or follows from the file. A case
# that says itself what it depends on, as that of a CUDA cell, keeps that.
_OF_TEST = (CASES, "date")


class Modules:
    """The tests whose results the site shows, and what these depend on."""

    def __init__(self, root: Path) -> None:
        """Read the modules of tests and all behind them."""
        code = Code(root)
        self.root = root
        self.modules = {
            classname(root, each): each for each in evidence_modules(root)
        }
        self.depend = {
            name: Dependencies(topic_of_tests(root, module), code)
            for name, module in self.modules.items()
        }
        self._now: dict[str, dict[str, str]] = {}

    def now(self, name: str) -> dict[str, str]:
        """Return what each test of a module depends on now."""
        if name not in self._now:
            found, tests = self.depend[name], tests_in(self.modules[name])
            self._now[name] = {test: found.of(test) for test in tests}
        return self._now[name]


class KeptResults:
    """The results in one of the two folders, module by module."""

    def __init__(self, tests: Modules, folder: Path) -> None:
        """Read nothing yet."""
        self._tests = tests
        self._folder = tests.root / folder
        self._is_own = folder == OWN
        self._suites: dict[str, Element] = {}  # each file is parsed once

    def path(self, name: str) -> Path:
        """Return where the results of a module stand."""
        module = self._tests.modules[name]
        topic = topic_of_tests(self._tests.root, module)
        return self._folder / f"{topic.name}.xml"

    def of_no_module(self) -> list[Path]:
        """Return the files whose topics are gone."""
        known = {self.path(name) for name in self._tests.modules}
        return sorted({*self._folder.glob("**/*.xml")} - known)

    def why_not(self, name: str, recorded: bool = True) -> str:
        """Return why the results of a module do not count; '' if they do.

        Those that were taken from a record may be left out.
        """
        suite = self._suite(name)
        if not suite.get("name"):
            return NOTHING
        if not recorded and RECORDED in properties_of(suite):
            return "only recorded results"
        if other := {*self._before(name)} ^ {*self._made_with(name)}:
            return f"another {min(other).rpartition(' ')[0]}"
        now, then = self._tests.now(name), _by_test(suite)
        changed = [
            test
            for test in now
            if not now[test] or _depends(then.get(test)) != now[test]
        ]
        more = f" and {len(changed) - 1} more" if changed[1:] else ""
        if changed:
            return f"{changed[0]}{more} changed"
        return "" if self._tests.depend[name].is_readable else "it changed"

    def failed(self, name: str) -> list[str]:
        """Return the cases that failed of tests that have not changed."""
        now = self._tests.now(name)
        return [
            case.get("name", "")
            for test, suite in _by_test(self._suite(name)).items()
            if _depends(suite) == now.get(test)
            for case in suite.iterfind("testcase")
            if outcome_of(case) == "failed"
        ]

    def drop(self, name: str) -> None:
        """Remove the results of a module."""
        remove(self.path(name))
        self._suites.pop(name, None)

    def keep(
        self, name: str, facts: Mapping[str, str], cases: list[Element]
    ) -> None:
        """Write new results of a module.

        A test counts as a whole: where one of its cases was deselected, or
        has crashed its process, the others say nothing of the claim.
        """
        tests = {}
        for test in self._tests.now(name):
            those = [case for case in cases if key_of(case)[1] == test]
            if those and not _is_partial(those):
                tests[test] = self._packed(name, test, those)
        self._write(name, facts, tests)

    def take(self, other: KeptResults, name: str) -> None:
        """Take the results of a module from another folder, which has some.

        What is recorded and still counts stays, so that a change is small.
        """
        suite = other._suite(name)
        facts, tests = properties_of(suite), _by_test(suite)
        if self._is_own:
            said = f"torch {facts['torch']}, Python {facts['python']}"
            facts[RECORDED] = said
        elif self._before(name) == self._made_with(name):
            now = self._tests.now(name)
            tests |= {
                test: each
                for test, each in _by_test(self._suite(name)).items()
                if _depends(each) == now.get(test)
            }
        self._write(name, facts, tests)

    def _write(
        self, name: str, facts: Mapping[str, str], tests: dict[str, Element]
    ) -> None:
        root = Element("testsuites")
        suite = SubElement(root, "testsuite", name=name)
        made_with = "\n".join(self._made_with(name))
        add_properties(suite, {**facts, _MADE_WITH: made_with})
        now = self._tests.now(name)
        suite.extend(tests[test] for test in now if test in tests)
        indent(root, " ")
        text: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
        write(self.path(name), text + b"\n")
        self._suites[name] = suite

    def _packed(self, name: str, test: str, cases: list[Element]) -> Element:
        """Return the results of a test; what cases share is written once."""
        suite = Element("testsuite", name=test)
        depends = self._tests.now(name)[test]
        days = [properties_of(case)["date"] for case in cases]
        add_properties(suite, {DEPENDS_ON: depends, "date": max(days)})
        for case in cases:
            own = {
                each: readable(value)
                for each, value in properties_of(case).items()
                if each not in _OF_TEST and (each, value) not in CPU.items()
            }
            new = SubElement(suite, "testcase", name=case.get("name", ""))
            add_properties(new, own)
            for each in case:
                if each.tag in {"error", "failure", "skipped"}:
                    said = each.get("message", "").partition("\n")[0]
                    SubElement(new, each.tag, message=readable(said))
        return suite

    def _before(self, name: str) -> list[str]:
        """Return what the results of a module were made with."""
        suite = self._suite(name)
        return properties_of(suite).get(_MADE_WITH, "").splitlines()

    def _suite(self, name: str) -> Element:
        """Return the results of a module; an empty element without any."""
        if name not in self._suites:
            self._suites[name] = self._read(name)
        return self._suites[name]

    def _read(self, name: str) -> Element:
        path, none = self.path(name), Element("testsuite")
        if not path.exists():
            return none
        try:
            suite = xml_of(path).find("testsuite")
            if suite is None or suite.get("name") != name:
                raise Problem(path, 1, f"holds no results of {name}")
        except Problem:
            if self._is_own:  # they are made anew
                return none
            raise
        return suite

    def _made_with(self, name: str) -> list[str]:
        lines = self._tests.depend[name].made_with
        if self._is_own:  # and does not outlast the code that made it
            code = our_code("core", "evidence", "programs")
            lines = [*lines, f"our code {code[:16]}"]
        return sorted(lines)


def _by_test(suite: Element) -> dict[str, Element]:
    """Return the results of each test of a module."""
    return {each.get("name", ""): each for each in suite.iterfind("testsuite")}


def _depends(test: Element | None) -> str:
    """Return what the results of a test depended on, if it has any."""
    return "" if test is None else properties_of(test).get(DEPENDS_ON, "")


def _is_partial(cases: list[Element]) -> bool:
    """Whether pytest found more cases of a test than it has results of.

    pytest-xdist reports a case that crashed its process without a property.
    """
    counts = {properties_of(case).get(CASES) for case in cases}
    return counts != {str(len(cases))}
