"""The room that a build needs."""

import os
import shutil
from types import SimpleNamespace

import pytest

from extensions.files.problem import Problem
from extensions.site.check_room import check


@pytest.fixture
def app(tmp_path):
    """What is known of a build that has not begun."""
    (tmp_path / "docs").mkdir()
    config = SimpleNamespace(sphinx_gallery_conf={"gallery_dirs": ["code"]})
    return SimpleNamespace(
        config=config,
        srcdir=tmp_path / "docs",
        outdir=tmp_path / "out" / "html",
        doctreedir=tmp_path / "out" / "doctrees",
    )


def test_a_build_with_room_may_begin(app):
    assert check(app) is None


def test_a_read_only_folder_is_a_problem(app, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != app.srcdir)

    with pytest.raises(Problem) as caught:
        check(app)

    message = "cannot be written: it is read-only"
    assert str(caught.value) == f"{app.srcdir}:1: {message}"


def test_a_full_disk_is_a_problem(app, monkeypatch):
    free = SimpleNamespace(free=2_100_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)

    with pytest.raises(Problem) as caught:
        check(app)

    message = "no room: 2 MB are free, and a build may need 64"
    assert str(caught.value) == f"{app.srcdir}:1: {message}"


def test_a_file_in_the_place_of_a_folder_is_a_problem(app):
    app.outdir.parent.touch()

    with pytest.raises(Problem, match="out:1: not a folder"):
        check(app)


def test_a_house_without_room_is_not_built(unbuilt, stopped):
    (unbuilt / "docs/code").touch()

    [line] = stopped()

    assert line.startswith(f"{unbuilt}/docs/code:1: ERROR: not a folder")
