"""``{measured}`` and ``{measurements}``: what the tips buy, as measured.

With ``:curve:``, what the numbers are that name the cases, and ``:step:``, the
distance of the grid's lines, ``{measured}`` draws a curve and folds the table.

The numbers come from the ``measurements.json`` of the recorded runs, the words
are computed from them: nothing of either is typed on a page.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from extensions.build.dependencies import ALL, KINDS, depend_on, root_of
from extensions.build.html_node import HtmlNode, add_html_node
from extensions.core.problem import Problem
from extensions.core.topics import Topic, measured_topics, sha256
from extensions.evidence.sphinx_runs import folders_of
from extensions.measurements.curves import curves
from extensions.measurements.findings import findings, speed_of
from extensions.measurements.recordings import machine_in_words
from extensions.measurements.results import (
    recorded_machines,
    recordings_of,
    workload_of,
)
from extensions.measurements.units import SIZES, TIMES, with_unit
from extensions.programs.figures import save_twice, title_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import OptionSpec


def recording_files(env: BuildEnvironment) -> list[Path]:
    """Return the files of measurements, in the order of their folders."""
    return [
        path
        for folder in folders_of(env)
        for path in sorted(folder.glob("*/measurements.json"))
    ]


def _recordings_now(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of all recordings."""
    found = [f"{path} {sha256(path)}" for path in recording_files(app.env)]
    return {ALL: "\n".join(found)}


class _Measured(HtmlNode):
    """A placeholder for measurements."""


class _MeasuredDirective(SphinxDirective):
    """Show what was measured of the topic of the page."""

    option_spec: ClassVar[OptionSpec] = {
        "curve": directives.unchanged_required,
        "step": directives.positive_int,
    }

    def run(self) -> list[nodes.Node]:
        """Read what there is; a template shows it when the page is written."""
        root = root_of(self.env)
        paths = self.recorded()
        try:
            topics = self.topics(root)
            shown = [
                (each.name, workload_of(each), recordings_of(each, paths))
                for each in topics
            ]
            facts = recorded_machines(paths)
            images = self.curves(root, topics, paths)
            more = self.more(root, paths)
        except Problem as problem:
            raise self.error(str(problem)) from problem
        for topic in topics:
            self.env.note_dependency(str(topic.measurement))
        table = _Measured(
            template=f"{self.name}.html",
            topics=shown,
            facts=facts,
            is_folded=bool(images),
            more=more,
        )
        return [*images, table]

    def curves(
        self, root: Path, topics: list[Topic], paths: list[Path]
    ) -> list[nodes.Node]:
        """Draw what each machine measured of the topic, if it is asked for."""
        if "curve" not in self.options:
            return []
        [topic] = topics
        folder = topic.output.parent / "images"
        images: list[nodes.Node] = []
        label, step = self.options["curve"], self.options.get("step", 1)
        for number, figure in enumerate(curves(topic, paths, label, step)):
            path = folder / f"measured_{topic.page.stem}_{number}.svg"
            for theme, written in save_twice(figure, path).items():
                self.env.note_dependency(str(written))
                images.append(
                    nodes.image(
                        uri=f"/{written.relative_to(root / 'docs')}",
                        alt=title_of(figure),
                        classes=[f"only-{theme}"],
                        loading="lazy",
                    )
                )
        return images

    def more(self, root: Path, paths: list[Path]) -> dict[str, object]:
        """Return what the template shows besides."""
        return {}

    def topics(self, root: Path) -> list[Topic]:
        """Return the topics to show."""
        topic = Topic(root, self.env.docname)
        if not topic.measurement.exists():
            name = topic.measurement.relative_to(root)
            raise Problem(topic.page, self.lineno, f"no {name} to show")
        return [topic]

    def recorded(self) -> list[Path]:
        """Return the recordings; note that the page depends on them."""
        depend_on(self.env, "recordings")
        return recording_files(self.env)


class MeasurementsDirective(_MeasuredDirective):
    """Show in a line each what was measured of all topics."""

    option_spec: ClassVar[OptionSpec] = {}

    def topics(self, root: Path) -> list[Topic]:
        """Return all topics that have a measurement."""
        return measured_topics(root)


def _render_measurements(
    app: Sphinx, doctree: nodes.document, docname: str
) -> None:
    """Render the templates of a page."""

    def page(name: str) -> str:
        return app.builder.get_relative_uri(docname, name)

    for place in doctree.findall(_Measured):
        context = {
            "topics": place["topics"],
            "machines": place["facts"],
            "is_folded": place["is_folded"],
            "time": lambda seconds: with_unit(seconds, TIMES),
            "size": lambda number: with_unit(number, SIZES),
            "machine": machine_in_words,
            "findings": findings,
            "speed_of": speed_of,
            "page": page,
            **place["more"],
        }
        place["html"] = app.builder.templates.render(
            place["template"], context
        )


def setup_measured(app: Sphinx) -> None:
    """Add the directives."""
    KINDS["recordings"] = _recordings_now
    add_html_node(app, _Measured)
    app.connect("doctree-resolved", _render_measurements)
    app.add_directive("measured", _MeasuredDirective)
    app.add_directive("measurements", MeasurementsDirective)
