"""Programs run when they have to, and no site shows one that did not end well.

What an output depends on, or is, is found, not listed: a file that nobody
thought of is changed too.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from extensions.core.topics import ROOT, Topic, topics
from extensions.programs import sphinx_run
from extensions.programs.sphinx_run import NO_RUN, note, stale, why_stale

SETTINGS = "as conf.py has them"
# What is made from the outputs, each with a stamp of its own, and what
# sphinx-gallery leaves that nothing reads.
NO_OUTPUTS = (".ipynb", ".notebook.json", ".zip", ".cost.json", "/index.rst")
NO_OUTPUTS += ("sg_execution_times.rst", ".new")
PARTS = {
    "our_code": "our code",
    "installed": "the libraries",
    "device": "the device",
}
REMOVES = "import os, shutil\nprint(os.listdir())\nshutil.rmtree(os.getcwd())"
SETS = "import os\nprint(os.environ.get('LEFT'))\nos.environ['LEFT'] = 'x'"
BAD = {
    "exits": ("import sys\nsys.exit(0)", "13: ERROR: SystemExit: 0"),
    "exits_at_once": (
        "import os\nos._exit(0)",
        "1: ERROR: ends its own process, without a word",
    ),
    "crashes": (
        "import os\nos.kill(os.getpid(), 11)",
        "1: ERROR: was ended by SIGSEGV",
    ),
    "forks": (
        "import os\nos.fork()",
        "1: ERROR: goes on in a fork of it: end that by os._exit",
    ),
    "prints_on_and_on": ("print('x' * 300_000)", "1: ERROR: prints 301,"),
    "leaves_a_file": (
        "open('left.txt', 'w').close()",
        "1: ERROR: leaves behind in the working folder: left.txt",
    ),
    "asks_for_the_network": (
        "import socket\nsocket.getaddrinfo('localhost', 80)",
        "13: ERROR: OSError: a program asked for the network: localhost",
    ),
    # As the build does, after ``program_seconds``.
    "hangs": (
        "import signal, time\nsignal.alarm(1)\ntime.sleep(60)",
        "1: ERROR: was ended after 60 s: the program went on",
    ),
    "fails": ("word[9]", "12: ERROR: IndexError: string index out of range"),
}


def add(house, lines, name="snippets/part/one.py"):
    """Add lines to a program of the house."""
    path = house / name
    path.write_text(f"{path.read_text()}\n{lines}\n")


def test_each_program_that_does_not_end_well_is_named_and_runs_again(
    house, stopped
):
    text = (house / "snippets/part/one.py").read_text()
    for name, (lines, _) in BAD.items():
        path = house / f"snippets/part/{name}.py"
        path.write_text(f"{text}\n{lines}\n")

    said = stopped("-j", "4")

    assert len(said) == len(BAD)
    for name, (_, cause) in BAD.items():
        [line] = [line for line in said if f"/{name}.py:" in line]
        assert f"/{name}.py:{cause}" in line
        assert why_stale(Topic(house, f"part/{name}"), SETTINGS) == [NO_RUN]


def test_a_program_works_alone_in_an_empty_folder_and_may_remove_it(
    house, build
):
    add(house, SETS)
    add(house, f"{SETS}\n{REMOVES}", "gallery/three.py")

    build()

    for name in ("code/part/one.rst", "gallery/three.rst"):
        assert "    None\n" in (house / "docs" / name).read_text()
    assert "    []\n" in (house / "docs/gallery/three.rst").read_text()
    assert (house / "gallery/three.py").exists()


def edit(path, old, new):
    path.write_text(path.read_text().replace(old, new))


def test_each_program_that_runs_says_why(house, build):
    assert "run, because" not in build().status.getvalue()
    edit(house / "snippets/part/one.py", '"one"', '"once"')
    edit(house / "docs/code/part/two.outputs.json", "two", "FORGED")

    said = build().status.getvalue().splitlines()

    assert [line for line in said if "run, because" in line] == [
        "part/one: run, because the program changed",
        "part/two: run, because two.outputs.json changed",
    ]
    forged = house / "docs/code/part/two.outputs.json"
    assert "FORGED" not in forged.read_text()


def test_what_a_program_that_is_gone_has_left_goes_too(house, build):
    images = house / "docs/gallery/images"
    others = [
        images / "sphx_glr_draw_three_001.svg",
        images / "sphx_glr_three_more_001.svg",
    ]
    for path in others:
        path.touch()
    (house / "gallery/three.py").unlink()
    (house / "tests/gallery/test_three.py").unlink()

    app = build()

    assert "gallery/three" not in app.env.found_docs
    assert not list((house / "docs/gallery").glob("three*"))
    assert not list(images.rglob("sphx_glr_three_[0t]*"))
    assert all(path.exists() for path in others)


@pytest.fixture
def noted(house):
    """A house in which all programs have run."""
    for topic in topics(house):
        note(topic, SETTINGS)
    assert not stale(house, SETTINGS)
    return house


def left_in(house):
    """Return all files that programs have left."""
    return [
        path
        for folder in ("docs/code", "docs/gallery")
        for path in sorted((house / folder).rglob("*"))
        if path.is_file() and not path.as_posix().endswith(NO_OUTPUTS)
    ]


def test_each_file_makes_its_program_stale_and_put_back_holds(noted):
    programs = [topic.snippet for topic in topics(noted)]
    files = [*left_in(noted), *programs]
    assert len(files) > 15

    for path in files:
        [name] = [
            each for each in ("one", "two", "three") if each in path.stem
        ]
        before = path.read_bytes()
        for change in (b"", before + b"\n# more", before[: len(before) // 2]):
            path.write_bytes(change)
            found = [topic.snippet.stem for topic in stale(noted, SETTINGS)]
            assert found == [name], path
        if path not in programs:
            path.unlink()
            [topic] = stale(noted, SETTINGS)
            assert topic.snippet.stem == name
        path.write_bytes(before)
        assert not stale(noted, SETTINGS), path


def test_what_a_program_runs_with_makes_it_stale(noted, monkeypatch):
    topic, asked = Topic(noted, "part/one"), []
    for name, why in PARTS.items():
        with monkeypatch.context() as patched:
            new = lambda *of: asked.append(of) or "another"  # noqa: E731
            patched.setattr(sphinx_run, name, new)
            assert why_stale(topic, SETTINGS) == [why]
    for name in ("TZ", "OMP_NUM_THREADS", "PYTHONHASHSEED"):
        with monkeypatch.context() as patched:
            patched.setenv(name, "7")
            assert why_stale(topic, SETTINGS) == [f"${name}"]

    assert why_stale(topic, "others") == ["sphinx_gallery_conf"]
    assert asked == [("programs", "core"), (), ()]


def test_a_program_edited_while_it_runs_and_put_back_runs_again(noted):
    topic = Topic(noted, "part/one")
    topic.output.with_suffix(".py").write_text("print(2)\n")  # what ran
    note(topic, SETTINGS)

    assert why_stale(topic, SETTINGS) == ["the program"]
    for damaged in ("", "{", "[1]", "{}"):
        sphinx_run.stamp_of(topic).write_text(damaged)
        assert why_stale(topic, SETTINGS) == [NO_RUN]


def test_what_another_hand_has_changed_is_made_as_it_was(house, build):
    before = {path: path.read_bytes() for path in left_in(house)}
    for path in before:
        if path.suffix == ".svg":
            path.unlink()
        elif path.suffix not in {".ran", ".md5"}:
            path.write_bytes(before[path][:40])

    build()

    assert {path: path.read_bytes() for path in left_in(house)} == before


def site_of(folder):
    """Return what a build has written that has to be the same each time."""
    kept = ("*.html", "*.inv", "*.js", "*.json", "_images/*", "*.ipynb")
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for pattern in kept
        for path in Path(folder).rglob(pattern)
    }


def test_two_builds_are_the_same(first_site, house):
    other = house.rename(first_site.with_name("another ü"))
    for name in ("code", "gallery"):
        shutil.rmtree(other / "docs" / name)
    command = [sys.executable, "-m", "sphinx", "-q", "-d", "trees", "-j", "2"]
    done = subprocess.run(
        [*command, "docs", "out"],
        cwd=other,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

    first, second = site_of(first_site), site_of(other / "out")
    assert first.keys() == second.keys()
    assert not [name for name in first if first[name] != second[name]]
