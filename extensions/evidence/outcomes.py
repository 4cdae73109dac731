"""Outcomes: what one run says of one claim, in a word, and on what.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from extensions.core.topics import Topic
from extensions.evidence.dependencies import DEPENDS_ON, classname
from extensions.evidence.junit import RECORDED, Result, Run

DECIDED = {"failed", "passed"}
# Why a test was skipped, as a property of its result, and what that means.
API, SINCE, NEEDS = "api since", "true since", "needs"
WHY_NOT = {API: "not there yet", SINCE: "false then", NEEDS: "not run"}
# What a test needs, in words, where it is no library.
_DEVICES = {"cuda": "a GPU"}
NOT_ASKED = "not asked"
# What only tests that ran can say.
_RAN = {"failed", "passed", "stale", "false then"}


@dataclass(frozen=True)
class Outcome:
    """What one run says of a claim."""

    word: str
    """``passed``, ``failed``, ``not run`` where a device or a library lacked,
    ``not there yet`` where torch lacked something, ``false then`` where the
    words were false, ``not asked`` where only some claims were to be tested,
    ``stale``, ``skipped``, or ``missing``."""
    devices: tuple[str, ...] = ()
    """Where the tests ran, if they did."""
    date: str = ""
    """The day of the newest result."""
    failed: tuple[str, ...] = ()
    """The tests that failed."""
    empty: tuple[str, ...] = ()
    """The counter-examples that passed, and yet saw no test fail."""
    recorded: str = ""
    """Where it was recorded, if this build took it from there."""
    needs: tuple[str, ...] = ()
    """What lacked where it did not run: a device, libraries."""


def is_fresh(result: Result, now: str) -> bool:
    """Whether a result was made with what its test depends on now."""
    return bool(now) and result.properties.get(DEPENDS_ON) == now


def results_of(run: Run, module: str, test: str) -> list[Result]:
    """Return the results of a test of a module, one for each of its cases."""
    return run.results.get((module, test), [])


def module_of(topic: Topic) -> str:
    """Return the tests of a topic as a run names their module."""
    return classname(topic.root, topic.tests)


def outcome(
    run: Run,
    module: str,
    now: dict[str, str],
    expecting: Collection[str] = (),
) -> Outcome:
    """Return what a run says of a claim, given what its tests depend on now.

    Those of them that expect a failure are told apart.
    """
    found = {test: results_of(run, module, test) for test in now}
    if not any(found.values()):
        return Outcome(NOT_ASKED if run.is_part else "missing")
    facts = [each.properties for results in found.values() for each in results]
    fresh = {
        test: [each for each in results if is_fresh(each, now[test])]
        for test, results in found.items()
    }
    failed = [
        test
        for test, results in fresh.items()
        if any(each.outcome == "failed" for each in results)
    ]
    empty = [
        test
        for test, results in fresh.items()
        if run.is_own and test in expecting and any(map(_is_empty, results))
    ]
    said = "failed" if failed or empty else _word(found, now)
    devices = {each["device"] for each in facts if "device" in each}
    return Outcome(
        said,
        tuple(sorted(devices)) if said in _RAN else (),
        max((each.get("date", "") for each in facts), default=""),
        tuple(failed),
        tuple(empty),
        max((each.get(RECORDED, "") for each in facts), default=""),
        _needs(found) if said == WHY_NOT[NEEDS] else (),
    )


def _needs(found: dict[str, list[Result]]) -> tuple[str, ...]:
    """Return in words for the lack of what some tests did not run."""
    said = {
        each
        for results in found.values()
        for result in results
        if result.outcome == "skipped" and NEEDS in result.properties
        for each in result.properties[NEEDS].split(", ")
    }
    return tuple(sorted(_DEVICES.get(each, each) for each in said))


def _is_empty(result: Result) -> bool:
    """Whether a counter-example passed without a failure that it expects."""
    return result.outcome == "passed" and "said" not in result.properties


def _word(found: dict[str, list[Result]], now: dict[str, str]) -> str:
    """Return in a word what the results of the tests of a claim say.

    None of them has failed.
    """
    results = [result for each in found.values() for result in each]
    if not found or not all(found.values()):
        return "missing"
    if not all(
        is_fresh(result, now[test])
        for test, each in found.items()
        for result in each
    ):
        return "stale"
    skipped = [each for each in results if each.outcome == "skipped"]
    for why, said in WHY_NOT.items():
        if any(why in result.properties for result in skipped):
            return said
    return "skipped" if skipped else "passed"
