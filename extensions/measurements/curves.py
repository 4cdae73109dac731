"""A curve of what was measured: the time against the number of each case."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.core.problem import Problem
from extensions.core.topics import Topic
from extensions.measurements.results import (
    Recording,
    recordings_of,
    workload_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Apart for every reader, also without the colours.
_STYLES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"))


def _draw_curve(
    recording: Recording, title: str, label: str, step: int
) -> Figure:
    """Return one line for each group: medians, with the middle half of rounds.

    The names of the cases are the numbers that ``label`` describes; a line
    of the grid stands at each multiple of ``step``. A name that is no number
    raises a ValueError.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MultipleLocator

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axis = figure.subplots()
    styles = cycle(_STYLES)
    for name, cases in recording.groups.items():
        color, marker = next(styles)
        numbers = [int(case.name) for case in cases]
        low, middle, high = (
            [1000 * case.time[part] for case in cases] for part in range(3)
        )
        axis.plot(numbers, middle, color=color, marker=marker, label=name)
        axis.fill_between(numbers, low, high, color=color, alpha=0.25)
    facts = recording.facts
    axis.set_title(f"{title}\n{facts['device']}, torch {facts['torch']}")
    axis.set_xlabel(f"{label} (a line at each multiple of {step})")
    axis.set_ylabel("time (ms)")
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MultipleLocator(step))
    axis.grid(axis="x")
    axis.legend()
    return figure


def curves(
    topic: Topic, paths: list[Path], label: str, step: int
) -> Iterator[Figure]:
    """Yield what each machine measured of a topic."""
    title = workload_of(topic).title
    for recording in recordings_of(topic, paths):
        try:
            yield _draw_curve(recording, title, label, step)
        except ValueError as error:
            message = f"no curve without numbers as names: {error}"
            raise Problem(topic.measurement, 1, message) from error
