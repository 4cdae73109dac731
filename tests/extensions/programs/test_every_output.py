"""Whatever an output depends on, or is, holds or makes its program run again.

The files are found, not listed: one that nobody thought of is changed too.
"""

import shutil

import pytest

from extensions.core.topics import topics
from extensions.programs import stamp
from extensions.programs.sphinx_runner import Runner

# What is made from the outputs, each with a stamp of its own, and what
# sphinx-gallery leaves that nothing reads.
NO_OUTPUTS = (".ipynb", ".notebook.json", ".zip", ".cost.json", "/index.rst")
NO_OUTPUTS += ("sg_execution_times.rst", ".new")


@pytest.fixture
def runner(house):
    """What runs the programs of a house in which all have run."""
    runner = Runner(house, "settings")
    for topic in topics(house):
        stamp.note(topic, runner.settings)
    assert not runner.stale()
    return runner


def left_in(house):
    """Return all files that programs have left."""
    return [
        path
        for folder in ("docs/code", "docs/gallery")
        for path in sorted((house / folder).rglob("*"))
        if path.is_file() and not path.as_posix().endswith(NO_OUTPUTS)
    ]


def test_each_file_makes_its_program_stale_and_put_back_holds(house, runner):
    programs = [topic.snippet for topic in topics(house)]
    files = [*left_in(house), *programs]
    assert len(files) > 15

    for path in files:
        before = path.read_bytes()
        for change in (b"", before + b"\n# more", before[: len(before) // 2]):
            path.write_bytes(change)
            stale = [topic.snippet.stem for topic in runner.stale()]
            assert stale == [named(path)], path
        path.unlink()
        if path not in programs:
            assert [each.snippet.stem for each in runner.stale()] == stale
        path.write_bytes(before)
        assert not runner.stale(), path


@pytest.mark.parametrize("name", ["TZ", "OMP_NUM_THREADS", "PYTHONHASHSEED"])
def test_an_environment_variable_makes_all_programs_stale(
    house, runner, monkeypatch, name
):
    with monkeypatch.context() as patched:
        patched.setenv(name, "7")
        [first, *_] = stale = runner.stale()

        assert len(stale) == len(topics(house))
        assert stamp.why_stale(first, runner.settings) == [f"${name}"]
    assert not runner.stale()


def named(path):
    """Return the program to which a file belongs."""
    [name] = [each for each in ("one", "two", "three") if each in path.name]
    return name


def test_what_another_hand_has_changed_is_made_as_it_was(house, build):
    before = {path: path.read_bytes() for path in left_in(house)}
    for path in before:
        if path.suffix == ".svg":
            path.unlink()
        elif path.suffix not in {".ran", ".md5"}:
            path.write_bytes(before[path][:40])

    build()

    assert {path: path.read_bytes() for path in left_in(house)} == before


def test_an_output_as_it_stood_holds_without_a_run(house, build):
    kept = shutil.copytree(house / "docs/code", house / "kept")
    (house / "docs/code/part/one.rst").write_text("FORGED")
    shutil.rmtree(house / "docs/code")
    kept.rename(house / "docs/code")

    assert "run, because" not in build().status.getvalue()
