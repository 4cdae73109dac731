"""What cells that need a device printed where they ran."""

import pytest
from docutils import nodes

from extensions.core.topics import Topic
from extensions.evidence.dependencies import DEPENDS_ON, cells_up_to
from extensions.evidence.sphinx_runs import NEVER_RAN
from extensions.programs import sphinx_run
from extensions.programs.snippet import CUDA_GUARD
from tests.helpers.builds import built
from tests.helpers.evidence import properties, record

# The torch of a machine without a device; to import the true one takes long.
NO_TORCH = """\
from types import SimpleNamespace

torch = SimpleNamespace(cuda=SimpleNamespace(is_available=bool))
"""
PROGRAM = f"\n# %% device\n{CUDA_GUARD}\n    print('on a device')\n"
PRINTED = "it ran\n\nRecorded on 2026-01-30 on GPU 9 with torch 2.13.0"


@pytest.fixture(scope="module")
def cuda_site(new_house):
    """A site without a device, with a cell for one on three pages."""
    house = new_house()
    one = Topic(house, "part/one")
    for name in ("new", "one", "two"):
        topic = Topic(house, f"part/{name}")
        if name == "new":
            topic.snippet.write_text(one.snippet.read_text())
            topic.page.write_text(one.page.read_text())
            topic.tests.write_text(one.tests.read_text())
        for path, more in (
            (topic.snippet, f"\n# %% import\n{NO_TORCH}{PROGRAM}"),
            (topic.page, "\n```{cell} import\n```\n\n```{cell} device\n```\n"),
        ):
            path.write_text(path.read_text() + more)
    record(house)
    path = record(house, "evidence/gpu")
    cases = ""
    for name, rests in (
        ("one", cells_up_to(one, "device")),
        ("two", "another hash"),
    ):
        values = {"cell": f"part/{name}:device", DEPENDS_ON: rests}
        values |= {"output": "it ran", "device": "GPU 9"}
        noted = properties(values | {"date": "2026-01-30"})
        cases += (
            '<testcase classname="tests.test_cuda_cells"'
            f' name="test_a_cuda_cell_runs[{name}]">{noted}</testcase>'
        )
    text = path.read_text()
    path.write_text(text.replace("</testsuite>", f"{cases}</testsuite>"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sphinx_run, "_SLOW", {"": "matplotlib.pyplot"})
        return built(house)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("one", f"{PRINTED} (x86_64)."),
        ("two", f"{PRINTED} (x86_64), before the snippet was changed."),
        ("new", NEVER_RAN),
    ],
)
def test_a_cuda_cell_shows_what_it_printed_elsewhere(cuda_site, name, shown):
    doctree = cuda_site.env.get_doctree(f"part/{name}")
    found = doctree.findall(nodes.container)
    *_, last = (each for each in found if "cell" in each["classes"])

    assert last.astext().endswith(shown)
