"""The archives that a site offers: whole, and the same at every build."""

import zipfile

import pytest

from extensions.notebooks import sphinx_archives


def archives_in(docs):
    """Return the archives of a house."""
    return [docs / "code/scripts.zip", docs / "code/notebooks.zip"]


@pytest.fixture
def archives(house):
    """The archives of the house."""
    return archives_in(house / "docs")


def test_the_archives_hold_every_program_in_order(site):
    assert not site.warning.getvalue()
    found = archives_in(site.srcdir)
    names = [zipfile.ZipFile(each).namelist() for each in found]
    assert names == [
        ["gallery/three.py", "part/one.py", "part/two.py"],
        ["gallery/three.ipynb", "part/one.ipynb", "part/two.ipynb"],
    ]


def test_an_archive_tells_no_time(site):
    found = archives_in(site.srcdir)

    entries = [e for each in found for e in zipfile.ZipFile(each).filelist]
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}


def test_an_archive_is_left_alone_if_nothing_changed(archives, build):
    before = [path.stat().st_mtime_ns for path in archives]

    build()

    assert [path.stat().st_mtime_ns for path in archives] == before


def test_a_recipe_that_is_run_again_gives_the_same_archive(
    house, archives, build
):
    before = [path.read_bytes() for path in archives]
    recipe = house / "gallery/three.py"
    text = recipe.read_text()
    recipe.write_text(text + "# more\n")
    build()
    changed = [path.read_bytes() for path in archives]
    recipe.write_text(text)

    build()

    assert [path.read_bytes() for path in archives] == before
    assert all(a != b for a, b in zip(before, changed, strict=True))


def test_an_archive_that_would_not_be_whole_is_reported(
    house, archives, build, monkeypatch
):
    app = build()
    before = archives[0].read_bytes()
    (house / "docs/code/part/one.py").unlink()
    reported = []
    monkeypatch.setattr(sphinx_archives, "report", reported.append)

    sphinx_archives.write_archives(app)

    [problem] = reported
    assert problem.path == house / "docs/code/part/one.py"
    assert archives[0].read_bytes() == before
