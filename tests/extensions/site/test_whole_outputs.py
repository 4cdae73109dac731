"""A build that was cut short, and the next one."""

import os

import pytest


def cut_short(path):
    """Leave a file as it was before the program ran last."""
    path.write_text("old")
    os.utime(path, (1, 1))


@pytest.mark.parametrize("name", ["part/one.rst", "part/one.ipynb"])
@pytest.mark.parametrize("lose", [cut_short, os.unlink])
def test_what_was_not_written_is_written_by_the_next_build(
    house, build, name, lose
):
    build()
    path = house / "docs/code" / name
    whole = path.read_text()

    lose(path)
    app = build()

    assert path.read_text() == whole
    assert "one counted" in (app.outdir / "part/one.html").read_text()


def test_a_program_with_all_its_outputs_is_not_run_again(house, build):
    build()
    noted = house / "docs/code/part/one.py.md5"
    before = noted.stat().st_mtime_ns

    build()

    assert noted.stat().st_mtime_ns == before
