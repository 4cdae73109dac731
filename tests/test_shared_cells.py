"""Programs that stand alone may share a cell, which is the same in each."""

import pytest

from extensions.core.topics import ROOT, Topic
from extensions.programs.snippet import Snippet


@pytest.mark.parametrize(
    ("cell", "topic", "other"),
    [
        ("start", "scaling/processes", "scaling/sharding"),
        ("start", "scaling/processes", "scaling/errors"),
        ("net", "deploy/export", "deploy/to_onnx"),
        ("fit", "deploy/export", "deploy/to_onnx"),
        ("reader", "deploy/export", "deploy/to_onnx"),
    ],
)
def test_a_shared_cell_is_the_same(cell, topic, other):
    first, second = (
        Snippet.read(Topic(ROOT, each).snippet).cell(cell).source
        for each in (topic, other)
    )
    assert first.strip() == second.strip()
