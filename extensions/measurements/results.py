"""What :mod:`extensions.measurements.measure` recorded, read and compared.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import ast
import statistics
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from extensions.core.files import Problem, json_of, python_of
from extensions.core.topics import Topic, sha256

_FACTS = ("device", "machine", "threads", "torch", "python", "date")
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

Quartiles = tuple[float, float, float]


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
class Case:
    """One way of doing the work."""

    name: str
    rounds: int
    time: Quartiles
    """Of the seconds of one repetition."""
    ratio: Quartiles
    """Of the ratio to the first case of its group, round by round."""
    peak_bytes: int

    @property
    def beside(self) -> str:
        """The ratio in words: its median, and its middle half."""
        low, middle, high = (
            f"{each:.2g}" if each < 10 else f"{each:.0f}"
            for each in self.ratio
        )
        spread = "" if low == high else f" ({low} to {high})"
        return f"{middle} times as long{spread}"


@dataclass(frozen=True)
class Recording:
    """What one machine measured of one topic."""

    facts: dict[str, str]
    groups: dict[str, list[Case]]
    sha256: str
    """Of the file as it was measured."""
    date: str
    """When: a topic may be measured later than the rest."""

    @property
    def machine(self) -> str:
        """What decides on its times, beside the device."""
        facts = self.facts
        said = [facts["machine"], f"{facts['threads']} threads"]
        if "cuda" in facts:
            said = [facts["processor"], *said]
            said += [f"CUDA {facts['cuda']}", f"driver {facts['driver']}"]
        return ", ".join(said)


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


def read_recordings(path: Path) -> dict[str, Recording]:
    """Return by topic what a ``measurements.json`` holds, if it is whole."""
    record, found, part = json_of(path), {}, "the record"
    try:
        facts = record["facts"]
        if lost := [each for each in _FACTS if type(facts[each]) is not str]:
            raise TypeError(f"no text as {', '.join(lost)}")
        for part, each in record["measurements"].items():
            groups = _cases_by_group(each["cases"])
            date = each.get("date", facts["date"])
            found[part] = Recording(facts, groups, each["sha256"], date)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"{part} is not whole ({error!r}): measure again"
        raise Problem(path, 1, message) from error
    return found


def is_stale(recording: Recording, topic: Topic) -> bool:
    """Whether the file has changed since it was measured."""
    return recording.sha256 != sha256(topic.measurement)


def _cases_by_group(cases: dict[str, dict[str, Any]]) -> dict[str, list[Case]]:
    """Return the cases by the group that their names open with."""
    groups: dict[str, list[Case]] = {}
    for group, names in groupby(cases, lambda name: name.rpartition(": ")[0]):
        groups[group] = []
        base: list[float] = []
        for name in names:
            seconds, peak = cases[name]["seconds"], cases[name]["peak_bytes"]
            if min(seconds) <= 0:
                raise ValueError(f"{name!r} took no time")
            base = base or seconds
            ratios = [a / b for a, b in zip(seconds, base, strict=True)]
            case = Case(
                name.rpartition(": ")[2],
                len(seconds),
                _quartiles(seconds),
                _quartiles(ratios),
                int(peak),
            )
            groups[group].append(case)
    return groups


def _quartiles(numbers: list[float]) -> Quartiles:
    """Return the first quartile, the median, and the third quartile."""
    first, middle, third = statistics.quantiles(numbers, method="inclusive")
    return first, middle, third


def with_unit(number: float, units: tuple[tuple[float, str], ...]) -> str:
    """Return a number in the largest unit that leaves it at least one."""
    size, unit = next(
        (each for each in units if abs(number) >= each[0]), units[-1]
    )
    return f"{number / size:.3g} {unit}"
