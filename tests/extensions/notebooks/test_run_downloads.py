"""The archives that are run."""

import nbformat
import pytest

from extensions.core.problem import Problem
from extensions.notebooks.run_downloads import run, unpack


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("print(1)", ""),
        ("1 / 0", "ZeroDivisionError"),
        ("open('left.txt', 'w').close()", "leaves behind: left.txt"),
    ],
)
def test_a_program_runs_alone_and_leaves_nothing(tmp_path, text, expected):
    program = tmp_path / "program.py"
    program.write_text(text)

    wrong = run(program)

    assert expected in wrong
    assert bool(expected) == bool(wrong)


def test_a_notebook_runs_like_a_script(tmp_path):
    cells = [nbformat.v4.new_code_cell("1 / 0")]
    program = tmp_path / "program.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), program)

    assert "ZeroDivisionError" in run(program)


def test_a_program_that_does_not_end_is_named_like_any_that_fails(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import time; time.sleep(99)")

    assert run(program, limit=1) == "had not ended after 1 seconds"
