"""What a ``measurements.json`` must hold, so that a page can show it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from extensions.core.problem import Problem
from extensions.core.reading import json_of

_FACTS = ("device", "machine", "threads", "torch", "python", "date")
_ROUNDS = 2  # quartiles need as many


def read_recordings(path: Path) -> dict[str, Any]:
    """Return what a ``measurements.json`` holds, if nothing is missing."""
    record = json_of(path)
    for missing in _what_record_lacks(record):
        raise Problem(path, 1, f"{missing}: measure again")
    whole: dict[str, Any] = record
    return whole


def machine_in_words(facts: dict[str, str]) -> str:
    """Return what decides on the times of a machine, beside its device."""
    said = [facts["machine"], f"{facts['threads']} threads"]
    if "cuda" in facts:
        said = [facts["processor"], *said]
        said += [f"CUDA {facts['cuda']}", f"driver {facts['driver']}"]
    return ", ".join(said)


def _what_record_lacks(record: Any) -> Iterator[str]:
    """Yield what a record lacks."""
    if not isinstance(record, dict):
        yield "no record of measurements"
        return
    facts, topics = record.get("facts"), record.get("measurements")
    if not isinstance(facts, dict):
        yield "no facts"
    elif lost := [
        name for name in _FACTS if not isinstance(facts.get(name), str)
    ]:
        yield f"no {', '.join(lost)} among the facts"
    if not isinstance(topics, dict):
        yield "no measurements"
        return
    for topic, measured in topics.items():
        if not isinstance(measured, dict) or "sha256" not in measured:
            yield f"{topic}: no sha256 of what was measured"
        elif not isinstance(cases := measured.get("cases"), dict):
            yield f"{topic}: no cases"
        else:
            yield from (f"{topic}: {each}" for each in _what_cases_lack(cases))


def _what_cases_lack(cases: dict[str, Any]) -> Iterator[str]:
    """Yield what the cases of a topic lack."""
    for name, case in cases.items():
        if not isinstance(case, dict) or not _has_rounds(case.get("seconds")):
            yield f"{name!r} needs the seconds of {_ROUNDS} rounds or more"
        elif not isinstance(case.get("peak_bytes"), int):
            yield f"{name!r} has no peak_bytes"
        elif len(case["seconds"]) != len(
            next(iter(cases.values()))["seconds"]
        ):
            yield f"{name!r} has more or fewer rounds than the others"


def _has_rounds(seconds: Any) -> bool:
    """Whether these are times, of enough rounds."""
    return (
        isinstance(seconds, list)
        and len(seconds) >= _ROUNDS
        and all(isinstance(each, float | int) and each > 0 for each in seconds)
    )
