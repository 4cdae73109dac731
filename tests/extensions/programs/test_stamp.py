"""What says whether a program has run with what is installed now."""

import sys

from extensions.programs import stamp


def test_another_version_of_a_library_is_another_surrounding(
    tmp_path, monkeypatch
):
    found = set()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for version in ("", "1.0", "1.1"):
        for old in tmp_path.iterdir():
            old.rmdir()
        if version:
            (tmp_path / f"shelf-{version}.dist-info").mkdir()
        found.add(stamp.surroundings.__wrapped__())

    assert len(found) == 3


def test_the_place_of_a_library_is_no_part_of_it(tmp_path, monkeypatch):
    found = set()
    for place in ("here", "there"):
        (tmp_path / place / "shelf-1.0.dist-info").mkdir(parents=True)
        monkeypatch.setattr(sys, "path", [str(tmp_path / place)])
        found.add(stamp.surroundings.__wrapped__())

    assert len(found) == 1
