"""The claims that a run of the tests found false, and the tests that failed.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from extensions.claims.claim import Claim
from extensions.claims.page import read_page
from extensions.core.topics import Topic, topics
from extensions.evidence.failed_tests import Failed, failed, failed_of, said_by
from extensions.evidence.junit import key_of, outcome_of
from extensions.evidence.outcomes import module_of
from extensions.evidence.parsed_tests import Test, test_of, tests_in

_Cases = dict[tuple[str, str], list[Element]]


@dataclass(frozen=True)
class FailedClaim:
    """A claim with at least one failed test."""

    topic: Topic
    claim: Claim
    failures: tuple[Failed, ...]


@dataclass(frozen=True)
class UnloadedModule:
    """A topic whose tests cannot be loaded, so that no claim was tested."""

    topic: Topic
    claims: tuple[Claim, ...]
    said: tuple[str, ...]


@dataclass(frozen=True)
class FailedClaims:
    """The claims that a run found false, and those that it could not test."""

    claims: tuple[FailedClaim, ...]
    unloaded: tuple[UnloadedModule, ...]
    others: tuple[Failed, ...]
    """The failed tests behind which no claim stands."""
    held: int
    """How many claims were tested and hold."""
    skipped: int
    """How many claims of the tested modules the run left out."""


def failed_claims_in(root: Path, run: Element) -> FailedClaims:
    """Return the claims of a project that a run of its tests found false."""
    cases: _Cases = {}
    for case in run.iter("testcase"):
        cases.setdefault(key_of(case), []).append(case)
    left = {key: bad for key in cases if (bad := failed_of(cases[key]))}
    modules = {module for module, _ in cases}
    claims, unloaded = [], []
    held = skipped = 0
    for topic in topics(root):
        module = module_of(topic)
        found = tuple(read_page(topic.page).claims)
        # pytest reports a module that it cannot load as a test of that name.
        if lost := left.pop(("", module), []):
            unloaded.append(UnloadedModule(topic, found, said_by(lost[0])))
        elif module in modules:
            tests = tests_in(topic.tests)
            for claim in found:
                name = test_of(claim.name)
                behind = [each for each in tests.values() if each.of == name]
                failures = tuple(_failed_among(topic, behind, left))
                if failures:
                    claims.append(FailedClaim(topic, claim, failures))
                elif _was_run(cases.get((module, name), [])):
                    held += 1
                else:
                    skipped += 1
    others = tuple(
        failed(each, module.replace(".", "/"), "")
        for (module, _), each in left.items()
    )
    return FailedClaims(tuple(claims), tuple(unloaded), others, held, skipped)


def _was_run(cases: list[Element]) -> bool:
    """Whether one of some cases was not skipped."""
    return any(outcome_of(case) != "skipped" for case in cases)


def _failed_among(
    topic: Topic, tests: list[Test], left: _Cases
) -> Iterator[Failed]:
    """Yield the failed ones of some tests, and take them out of those left."""
    module = topic.tests.relative_to(topic.root).as_posix()
    for test in tests:
        if cases := left.pop((module_of(topic), test.name), []):
            yield failed(cases, f"{module}:{test.line}", test.kind)
