"""In how many processes pages are read and written."""

import pytest
from sphinx import builders


@pytest.mark.parametrize(("few", "times"), [(0, 2), (100, 0)])
def test_few_pages_are_read_and_written_in_one_process(
    build, monkeypatch, few, times
):
    begun = []

    class Tasks(builders.ParallelTasks):
        def __init__(self, processes):
            super().__init__(processes)
            begun.append(processes)

    monkeypatch.setattr(builders, "ParallelTasks", Tasks)

    app = build(few=few, freshenv=True, parallel=2)

    assert len(begun) == times
    assert app.parallel == 2
