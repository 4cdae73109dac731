"""The runs of the tests that a site shows, and what cells printed in them.

Those that need a device show what they printed where they ran.
"""

from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from extensions.core.topics import Topic
from extensions.evidence.dependencies import DEPENDS_ON, cells_up_to
from extensions.evidence.junit import Run, runs
from extensions.programs.sphinx_cell import RecordedOutput
from extensions.site.dependencies import ALL, KINDS, depend_on, root_of

# The test that runs each CUDA cell where there is a device.
_RECORDER = ("tests.test_cuda_cells", "test_a_cuda_cell_runs")
NEVER_RAN = (
    "This cell needs a CUDA device."
    " It has not run: this build has none, and no run on one is recorded."
)


def folders_of(env: BuildEnvironment) -> list[Path]:
    """Return the folders of runs, that of the build's own run first."""
    return [root_of(env) / name for name in env.config.evidence_folders]


def runs_of(env: BuildEnvironment) -> list[Run]:
    """Return the runs that the site shows, this build's run first."""
    return runs(folders_of(env))


def _device_outputs(app: Sphinx) -> dict[str, str]:
    runs = runs_of(app.env)
    found = [(run.title, run.results.get(_RECORDER)) for run in runs]
    return {ALL: f"{found}"}


def _fill_in(app: Sphinx, doctree: nodes.document) -> None:
    for place in [*doctree.findall(RecordedOutput)]:
        depend_on(app.env, "device outputs")
        topic = Topic(root_of(app.env), place["topic"])
        shown = nodes.container("", classes=place["classes"])
        shown += [*_recorded(app.env, topic, place["cell"])]
        if not shown.children:
            shown += nodes.paragraph("", NEVER_RAN)
        place.replace_self(shown)


def _recorded(
    env: BuildEnvironment, topic: Topic, cell: str
) -> Iterator[nodes.Element]:
    for run in runs_of(env):
        for result in run.results.get(_RECORDER, []):
            facts = result.properties
            is_whole = {"output", "device", "date"} <= facts.keys()
            if not is_whole or facts.get("cell") != f"{topic.name}:{cell}":
                continue
            fresh = facts.get(DEPENDS_ON) == cells_up_to(topic, cell)
            where = f"on {facts['date']} on {facts['device']}"
            said = f"Recorded {where} with {run.title}"
            said += "." if fresh else ", before the snippet was changed."
            output = facts["output"]
            yield nodes.literal_block(output, output, language="none")
            yield nodes.paragraph("", said)


def setup_runs(app: Sphinx) -> None:
    """Fill the places in as soon as a page is read."""
    app.add_config_value("evidence_folders", [], "env", list)
    KINDS["device outputs"] = _device_outputs
    app.connect("doctree-read", _fill_in)
