"""Outcomes: what one run says of one claim, in a word, and on what.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from extensions.files.basis import classname
from extensions.files.evidence import Result, Run
from extensions.files.topics import Topic, sha256

# From the worst to the least: a claim is judged by its worst evidence, but
# evidence that says nothing does not outweigh evidence that does.
VERDICTS = ("failed", "passed", "not run", "stale", "skipped", "missing")
# What only tests that ran can say.
RAN = {"failed", "passed", "stale"}


@dataclass(frozen=True)
class Outcome:
    """What one run says of a claim."""

    word: str
    """One of the verdicts."""
    devices: tuple[str, ...] = ()
    """Where the tests ran, if they did."""
    date: str = ""
    """The day of the newest result."""


def hashes_of(topic: Topic) -> dict[str, str]:
    """Return what a result of a topic says of its files if it still holds."""
    return {"snippet": sha256(topic.snippet), "test": sha256(topic.tests)}


def is_fresh(result: Result, now: dict[str, str]) -> bool:
    """Whether a result was made with the files of now."""
    return now.items() <= result.properties.items()


def results_of(run: Run, topic: Topic, test: str) -> list[Result]:
    """Return the results of a test of a topic, one for each of its cases."""
    return run.results.get((module_of(topic), test), [])


@cache  # asked for at each test
def module_of(topic: Topic) -> str:
    """Return the tests of a topic as a run names their module."""
    return classname(topic.root, topic.tests)


def outcome(
    run: Run, topic: Topic, tests: list[str], now: dict[str, str]
) -> Outcome:
    """Return what a run says of a claim, given its test and the others."""
    found = [results_of(run, topic, test) for test in tests]
    facts = [result.properties for each in found for result in each]
    said = word(found, now)
    devices = {each["device"] for each in facts if "device" in each}
    return Outcome(
        said,
        tuple(sorted(devices)) if said in RAN else (),
        max((each.get("date", "") for each in facts), default=""),
    )


def word(found: list[list[Result]], now: dict[str, str]) -> str:
    """Return in a word what the results of each test of a claim say."""
    results = [result for each in found for result in each]
    fresh = [each for each in results if is_fresh(each, now)]
    if any(result.outcome == "failed" for result in fresh):
        return "failed"
    if not found or not all(found):
        return "missing"
    if fresh != results:
        return "stale"
    skipped = [each for each in results if each.outcome == "skipped"]
    if any("needs" in result.properties for result in skipped):
        return "not run"
    return "skipped" if skipped else "passed"
