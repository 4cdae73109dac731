"""How a command ends that meets a problem."""

from pathlib import Path

import pytest
from extensions.core.files import Problem, in_one_line


def test_a_problem_is_the_last_that_a_command_says(capsys):
    def main():
        raise Problem(Path("some/file"), 7, "cannot be read")

    with pytest.raises(SystemExit) as ended:
        in_one_line(main)

    assert ended.value.code == 2  # 1 is a result: something is false
    assert capsys.readouterr().err == "some/file:7: cannot be read\n"


def test_a_command_without_a_problem_ends_as_it_would():
    done = []

    in_one_line(lambda: done.append(1))

    assert done == [1]
