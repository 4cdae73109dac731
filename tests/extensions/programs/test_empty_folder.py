"""The folder in which programs run."""

from pathlib import Path

import pytest

from extensions.programs.snippet import empty_folder


def folder_of(program):
    """Return the folder in which a program has run."""
    with empty_folder():
        place = Path.cwd()
        assert not list(place.iterdir())
        program(place)
    return place


def leave(place):
    (place / "left").mkdir()
    (place / "left/file").touch()


def leave_and_raise(place):
    leave(place)
    raise ValueError("left")


def test_a_program_runs_in_the_folder_of_the_one_before():
    here = Path.cwd()
    first = folder_of(lambda place: None)

    assert folder_of(lambda place: None) == first
    assert Path.cwd() == here != first


@pytest.mark.parametrize("program", [leave, Path.rmdir])
def test_a_folder_that_is_not_left_empty_is_given_up(program):
    first = folder_of(program)

    assert not first.exists()
    assert folder_of(lambda place: None) != first


def test_what_an_error_leaves_goes_as_well():
    here = Path.cwd()
    with pytest.raises(ValueError, match="left"):
        folder_of(leave_and_raise)

    folder_of(lambda place: None)
    assert Path.cwd() == here
