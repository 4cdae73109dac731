"""What :mod:`extensions.measurements.measure` recorded, read and compared.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from extensions.core.problem import Problem
from extensions.core.reading import python_of
from extensions.core.topics import Topic, sha256
from extensions.measurements.recordings import read_recordings

# A smaller change counts as none: other work on the machine makes as much.
_MARGIN = 0.05


def _quartiles(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Return the first quartile, the median, and the third quartile."""
    first, middle, third = statistics.quantiles(numbers, method="inclusive")
    return first, middle, third


def effect_of_ratio(low: float, high: float) -> str:
    """Return a word for a ratio, given its first and its third quartile."""
    if high < 1 - _MARGIN:
        return "helps"
    if low > 1 + _MARGIN:
        return "hurts"
    if low >= 1 - _MARGIN and high <= 1 + _MARGIN:
        return "no effect"
    return "unclear"


@dataclass(frozen=True)
class Case:
    """One way of doing the work, with what it took in each round."""

    name: str
    seconds: tuple[float, ...]
    peak_bytes: int
    base: tuple[float, ...] | None
    """The seconds of the first case of its group; none for that case."""

    @property
    def time(self) -> tuple[float, float, float]:
        """Quartiles of the seconds of one repetition."""
        return _quartiles(self.seconds)

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Quartiles of the ratio to the base, round by round."""
        base = self.base or self.seconds
        pairs = zip(self.seconds, base, strict=True)
        return _quartiles([own / other for own, other in pairs])

    @property
    def effect(self) -> str:
        """What the case does to the time, in a word."""
        if self.base is None:
            return ""
        low, _, high = self.ratio
        return effect_of_ratio(low, high)


@dataclass(frozen=True)
class Workload:
    """What a file measures, in words."""

    title: str
    text: str
    needs_cuda: bool
    """Whether its ways differ on a CUDA device alone: ``NEEDS = "cuda"``."""

    def runs_on(self, device: str) -> bool:
        """Whether a device, ``"cpu"`` or ``"cuda"``, can measure it."""
        return device == "cuda" or not self.needs_cuda


@dataclass(frozen=True)
class Recording:
    """What one machine measured of one topic."""

    facts: dict[str, str]
    groups: dict[str, tuple[Case, ...]]
    is_stale: bool
    """Whether the file has changed since."""
    date: str
    """When: a topic may be measured later than the rest."""


def workload_of(topic: Topic) -> Workload:
    """Return what the docstring of a measurement says."""
    path = topic.measurement
    program = python_of(path)
    doc = ast.get_docstring(program)
    title, _, text = (doc or "").partition("\n\n")
    if not title or not text or "\n" in title:
        message = (
            "its docstring needs a title, an empty line, and the workload"
        )
        raise Problem(path, 1, message)
    return Workload(title, " ".join(text.split()), _needs_cuda(path, program))


def _needs_cuda(path: Path, program: ast.Module) -> bool:
    """Return whether a measurement says ``NEEDS = "cuda"``."""
    for node in program.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="NEEDS")], value=value):
                if isinstance(value, ast.Constant) and value.value == "cuda":
                    return True
                raise Problem(path, node.lineno, 'NEEDS is "cuda" or left out')
    return False


def recorded_machines(paths: Sequence[Path]) -> list[dict[str, str]]:
    """Return the facts of the machines that measured."""
    return [read_recordings(path)["facts"] for path in paths]


def recordings_of(topic: Topic, paths: Sequence[Path]) -> list[Recording]:
    """Return what each machine measured of a topic."""
    found = []
    for path in paths:
        record = read_recordings(path)
        if measured := record["measurements"].get(topic.name):
            stale = measured["sha256"] != sha256(topic.measurement)
            groups = cases_by_group(measured["cases"])
            date = measured.get("date", record["facts"]["date"])
            found.append(Recording(record["facts"], groups, stale, date))
    return found


def cases_by_group(
    cases: dict[str, dict[str, Any]],
) -> dict[str, tuple[Case, ...]]:
    """Return the cases by the group that their names open with."""
    groups = {}
    for group, names in groupby(cases, lambda name: name.rpartition(": ")[0]):
        base: tuple[float, ...] | None = None
        members = []
        for name in names:
            seconds = tuple(cases[name]["seconds"])
            peak = cases[name]["peak_bytes"]
            own = name.rpartition(": ")[2]
            members.append(Case(own, seconds, peak, base))
            base = base or seconds
        groups[group] = tuple(members)
    return groups
