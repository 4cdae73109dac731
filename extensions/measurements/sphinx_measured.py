"""``{measured}`` and ``{measurements}``: what the tips buy, as measured.

The first shows what each machine measured of the topic of the page; the
second leads to all topics. The numbers come from the ``measurements.json`` of
the recorded runs: none is typed on a page.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.build.dependencies import ALL, KINDS, depend_on, root_of
from extensions.build.nodes import HtmlNode, add_html_node
from extensions.build.site import add_templates
from extensions.core.files import Problem
from extensions.core.topics import Topic, measured_topics, sha256
from extensions.evidence.sphinx_runs import folders_of
from extensions.measurements.results import (
    SIZES,
    TIMES,
    is_stale,
    read_recordings,
    with_unit,
    workload_of,
)

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import OptionSpec


class _Measured(HtmlNode):
    """A placeholder for measurements."""


class _MeasuredDirective(SphinxDirective):
    """Show what was measured of the topic of the page, or of which topics."""

    option_spec: ClassVar[OptionSpec] = {}

    def run(self) -> list[nodes.Node]:
        """Read what there is; a template shows it when the page is written."""
        root = root_of(self.env)
        depend_on(self.env, "recordings")
        try:
            topics = (
                measured_topics(root)
                if self.name == "measurements"
                else [self._topic_of_page(root)]
            )
            recorded = [
                read_recordings(path) for path in _recording_files(self.env)
            ]
            shown = [
                (
                    each,
                    workload_of(each),
                    [of[each.name] for of in recorded if each.name in of],
                )
                for each in topics
            ]
        except Problem as problem:
            raise self.error(str(problem)) from problem
        for topic in topics:
            self.env.note_dependency(str(topic.measurement))
        return [_Measured(template=f"{self.name}.html", topics=shown)]

    def _topic_of_page(self, root: Path) -> Topic:
        """Return the topic of the page, if there is something to show."""
        topic = Topic(root, self.env.docname)
        if not topic.measurement.exists():
            name = topic.measurement.relative_to(root)
            raise Problem(topic.page, self.lineno, f"no {name} to show")
        return topic


def _recording_files(env: BuildEnvironment) -> list[Path]:
    """Return the files of measurements, in the order of their folders."""
    return [
        path
        for folder in folders_of(env)
        for path in sorted(folder.glob("*/measurements.json"))
    ]


def _recordings_now(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of all recordings."""
    found = [f"{path} {sha256(path)}" for path in _recording_files(app.env)]
    return {ALL: "\n".join(found)}


def _render_measurements(
    app: Sphinx, doctree: nodes.document, docname: str
) -> None:
    """Render the templates of a page."""

    def page(topic: Topic) -> str:
        return app.builder.get_relative_uri(docname, topic.name)

    for place in doctree.findall(_Measured):
        context = {
            "topics": place["topics"],
            "is_stale": is_stale,
            "time": lambda seconds: with_unit(seconds, TIMES),
            "size": lambda number: with_unit(number, SIZES),
            "page": page,
        }
        place["html"] = app.builder.templates.render(
            place["template"], context
        )


def setup_measured(app: Sphinx) -> None:
    """Add the directives."""
    KINDS["recordings"] = _recordings_now
    add_templates(app, __file__)
    add_html_node(app, _Measured)
    app.connect("doctree-resolved", _render_measurements)
    app.add_directive("measured", _MeasuredDirective)
    app.add_directive("measurements", _MeasuredDirective)
