"""The archives that are run."""

import pytest

from extensions.core.problem import Problem
from extensions.notebooks.run_downloads import unpack


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot be read: No such file"),
        (b"words", "not a whole archive"),
    ],
)
def test_an_archive_that_cannot_be_read_is_a_problem(
    tmp_path, content, expected
):
    path = tmp_path / "scripts.zip"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(Problem) as caught:
        unpack(path, tmp_path)

    assert str(caught.value).startswith(f"{path}:1: {expected}")
