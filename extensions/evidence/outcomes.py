"""Outcomes: what one run says of one claim, in a word, and on what.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from extensions.core.topics import Topic
from extensions.evidence.dependencies import DEPENDS_ON
from extensions.evidence.junit import Result, Run
from extensions.evidence.modules import classname

DECIDED = {"failed", "passed"}
# Why a test was skipped, as a property of its result, and what that means.
API, SINCE = "api since", "true since"
WHY_NOT = {API: "not there yet", SINCE: "false then", "needs": "not run"}
NOT_ASKED = "not asked"
# What only tests that ran can say.
RAN = {"failed", "passed", "stale", "false then"}


@dataclass(frozen=True)
class Outcome:
    """What one run says of a claim."""

    word: str
    """``passed``, ``failed``, ``not run`` where a device was needed, ``not
    there yet`` where torch lacked something, ``false then`` where the words
    were false, ``not asked`` where only some claims were to be tested,
    ``stale``, ``skipped``, or ``missing``."""
    devices: tuple[str, ...] = ()
    """Where the tests ran, if they did."""
    date: str = ""
    """The day of the newest result."""


def is_fresh(result: Result, now: str) -> bool:
    """Whether a result was made with what its test depends on now."""
    return bool(now) and result.properties.get(DEPENDS_ON) == now


def results_of(run: Run, module: str, test: str) -> list[Result]:
    """Return the results of a test of a module, one for each of its cases."""
    return run.results.get((module, test), [])


def module_of(topic: Topic) -> str:
    """Return the tests of a topic as a run names their module."""
    return classname(topic.root, topic.tests)


def outcome(run: Run, module: str, now: dict[str, str]) -> Outcome:
    """Return what a run says of a claim, given what its tests rest on now."""
    found = {test: results_of(run, module, test) for test in now}
    if not any(found.values()):
        return Outcome(NOT_ASKED if run.is_part else "missing")
    facts = [each.properties for results in found.values() for each in results]
    said = word(found, now)
    devices = {each["device"] for each in facts if "device" in each}
    return Outcome(
        said,
        tuple(sorted(devices)) if said in RAN else (),
        max((each.get("date", "") for each in facts), default=""),
    )


def word(found: dict[str, list[Result]], now: dict[str, str]) -> str:
    """Return in a word what the results of each test of a claim say."""
    results = [result for each in found.values() for result in each]
    fresh = [
        result
        for test, each in found.items()
        for result in each
        if is_fresh(result, now[test])
    ]
    if any(result.outcome == "failed" for result in fresh):
        return "failed"
    if not found or not all(found.values()):
        return "missing"
    if fresh != results:
        return "stale"
    skipped = [each for each in results if each.outcome == "skipped"]
    for why, said in WHY_NOT.items():
        if any(why in result.properties for result in skipped):
            return said
    return "skipped" if skipped else "passed"
