"""``{measured}`` and ``{measurements}``: what the tips buy, as measured.

The first shows what each machine measured of the topic of the page; the
second leads to all topics. The numbers come from the ``measurements.json`` of
the recorded runs: none is typed on a page.
"""

import ast
import statistics
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from extensions.core.files import Problem, json_of, python_of
from extensions.core.topics import Topic, measured_topics, sha256
from extensions.evidence.sphinx_runs import folders_of
from extensions.site.dependencies import ALL, depend_on, root_of
from extensions.site.nodes import HtmlNode

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
    sha256: str


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
            said = [facts["processor"], *said, f"CUDA {facts['cuda']}"]
        return ", ".join(said)


def workload_of(topic: Topic) -> Workload:
    """Return what the docstring of a measurement says."""
    program = python_of(topic.measurement)
    title, _, text = (ast.get_docstring(program) or "").partition("\n\n")
    if not title or not text or "\n" in title:
        message = (
            "its docstring needs a title, an empty line, and the workload"
        )
        raise Problem(topic.measurement, 1, message)
    needs_cuda = "NEEDS = 'cuda'" in map(ast.unparse, program.body)
    now = sha256(topic.measurement)
    return Workload(title, " ".join(text.split()), needs_cuda, now)


def read_recordings(path: Path) -> dict[str, Recording]:
    """Return by topic what a ``measurements.json`` holds, if it is whole."""
    record, found, part = json_of(path), {}, "the record"
    try:
        facts = record["facts"]
        for part, each in record["measurements"].items():
            groups = _cases_by_group(each["cases"])
            date = each.get("date", facts["date"])
            found[part] = Recording(facts, groups, each["sha256"], date)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"{part} is not whole ({error!r}): measure again"
        raise Problem(path, 1, message) from error
    return found


def _cases_by_group(cases: dict[str, dict[str, Any]]) -> dict[str, list[Case]]:
    groups: dict[str, list[Case]] = {}
    for group, names in groupby(cases, lambda name: name.rpartition(": ")[0]):
        groups[group] = []
        base: list[float] = []
        for name in names:
            seconds, peak = cases[name]["seconds"], cases[name]["peak_bytes"]
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
    first, middle, third = statistics.quantiles(numbers, method="inclusive")
    return first, middle, third


def with_unit(number: float, units: tuple[tuple[float, str], ...]) -> str:
    """Return a number in the largest unit that leaves it at least one."""
    fitting = [each for each in units if abs(number) >= each[0]]
    size, unit = [*fitting, units[-1]][0]
    return f"{number / size:.3g} {unit}"


class Measured(HtmlNode):
    """A placeholder for measurements."""


class MeasuredDirective(SphinxDirective):
    """Show what was measured of the topic of the page, or of which topics."""

    def run(self) -> list[nodes.Node]:
        """Read what there is; a template shows it when the page is written."""
        root = root_of(self.env)
        depend_on(self.env, "recordings")
        topics = [Topic(root, self.env.docname)]
        if self.name == "measurements":
            topics = measured_topics(root)
        elif not topics[0].measurement.exists():
            raise self.error(f"no measurements/{topics[0].name}.py to show")
        try:
            recorded = [*map(read_recordings, _recording_files(self.env))]
            shown = []
            for topic in topics:
                found = [of[topic.name] for of in recorded if topic.name in of]
                shown.append((topic, workload_of(topic), found))
                self.env.note_dependency(str(topic.measurement))
        except Problem as problem:
            raise self.error(str(problem)) from problem
        return [Measured(template=f"{self.name}.html", topics=shown)]


def _recording_files(env: BuildEnvironment) -> list[Path]:
    return [
        path
        for folder in folders_of(env)
        for path in sorted(folder.glob("*/measurements.json"))
    ]


def recordings_now(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of all recordings."""
    found = [f"{path} {sha256(path)}" for path in _recording_files(app.env)]
    return {ALL: "\n".join(found)}


def render(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the templates of a page."""
    for place in doctree.findall(Measured):
        values = {
            "topics": place["topics"],
            "time": partial(with_unit, units=TIMES),
            "size": partial(with_unit, units=SIZES),
            "page": partial(app.builder.get_relative_uri, docname),
        }
        place["html"] = app.builder.templates.render(place["template"], values)
