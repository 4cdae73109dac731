"""Run each CUDA cell where there is a device, and record what it prints."""

import pytest

from extensions.core.topics import ROOT, topics
from extensions.evidence.dependencies import DEPENDS_ON, cells_up_to
from extensions.programs.snippet import Snippet

CELLS = [
    (topic, cell.name)
    for topic in topics(ROOT)
    for cell in Snippet.read(topic.snippet).cells().values()
    if cell.is_cuda
]


@pytest.mark.cuda
@pytest.mark.parametrize(("topic", "cell"), CELLS)
def test_a_cuda_cell_runs(topic, cell, capsys, request):
    noted = request.node.user_properties  # pytest warns of `record_property`
    noted.append(("cell", f"{topic.name}:{cell}"))
    noted.append((DEPENDS_ON, cells_up_to(topic, cell)))

    snippet = Snippet.read(topic.snippet)
    before = len(capsys.readouterr().out)
    snippet.after(cell)

    noted.append(("output", capsys.readouterr().out[before:]))
