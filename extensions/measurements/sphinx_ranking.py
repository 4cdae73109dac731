"""``{ranking}``: on each machine, every way by what it buys, losers included.

The numbers and the words come from the recorded measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.core.topics import measured_topics
from extensions.measurements.results import (
    Case,
    recorded_machines,
    recordings_of,
    workload_of,
)
from extensions.measurements.sphinx_measured import MeasurementsDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


@dataclass(frozen=True)
class _Rank:
    """One way of a topic on one machine, beside the first of its group."""

    topic: str
    title: str
    group: str
    case: Case


def _ranking(root: Path, paths: list[Path]) -> list[list[_Rank]]:
    """Return, for each machine, what saves most time first.

    What was measured before its workload changed is left out.
    """
    found: list[list[_Rank]] = [[] for _ in paths]
    facts = recorded_machines(paths)
    for topic in measured_topics(root):
        title = workload_of(topic).title
        for recording in recordings_of(topic, paths):
            if recording.is_stale:
                continue
            found[facts.index(recording.facts)] += [
                _Rank(topic.name, title, group, case)
                for group, cases in recording.groups.items()
                for case in cases[1:]
            ]
    return [sorted(each, key=lambda rank: rank.case.ratio) for each in found]


class _RankingDirective(MeasurementsDirective):
    """Show all measured ways of each machine in the order of their times."""

    def more(self, root: Path, paths: list[Path]) -> dict[str, object]:
        """Return what the template shows besides."""
        return {"ranked": _ranking(root, paths)}


def setup_ranking(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("ranking", _RankingDirective)
