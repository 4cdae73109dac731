"""Programs that do not run well: each is named, and no site says otherwise."""

import io

import pytest

from extensions.files import stamps
from extensions.files.topics import Topic

THREAD = "import threading as t, time\nt.Thread(target=time.sleep, args=[9])"


@pytest.fixture
def add(house):
    """Return a way to add lines to a program of the house."""

    def add(lines, name="snippets/part/one.py"):
        path = house / name
        path.write_text(f"{path.read_text()}\n{lines}\n")
        return path

    return add


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ("import sys\nsys.exit(0)", "13: SystemExit: 0"),
        ("raise SystemExit(0)", "12: SystemExit: 0"),
        ("import os\nos._exit(0)", "1: ends its process, with status 0"),
        ("import os\nos.kill(os.getpid(), 11)", "1: was ended by SIGSEGV"),
        ("while True: 1", "1: was ended after 2 s: the program went on"),
        (f"{THREAD}.start()", "after 2 s: a thread that it left went on"),
        ("print('x' * 300_000)", "characters, 200,000 at most"),
        ("word[9]", "12: IndexError: string index out of range"),
    ],
)
def test_a_program_that_does_not_end_well_is_named(add, build, lines, cause):
    path = add(lines)
    warning = io.StringIO()

    with pytest.raises(SystemExit, match="2"):
        build(confoverrides={"house_program_seconds": 2}, warning=warning)

    [line] = warning.getvalue().splitlines()
    assert f"{path}:" in line
    assert cause in line


def test_a_program_that_failed_runs_again(house, add, build):
    path = add("word[9]")
    with pytest.raises(SystemExit):
        build()

    with pytest.raises(SystemExit):
        build()

    path.write_text(path.read_text().replace("word[9]", ""))
    build()


def test_a_program_leaves_nothing_to_the_next(add, build):
    add("import os\nos.environ['LEFT'] = 'behind'")
    path = add("import os\nprint(os.environ.get('LEFT'))", "gallery/three.py")

    build()

    shown = path.parents[1] / "docs/gallery/three.rst"
    assert "None" in shown.read_text()


def test_another_library_runs_the_programs_again(house, build, monkeypatch):
    build()
    topic = Topic(house, "part/one")
    assert stamps.has_run(topic)

    monkeypatch.setattr(stamps, "surroundings", lambda: "torch 9.9")

    assert not stamps.has_run(topic)


def test_what_a_program_that_is_gone_has_left_goes_too(house, build):
    build()
    (house / "gallery/three.py").unlink()
    (house / "tests/gallery/test_three.py").unlink()

    app = build()

    assert "gallery/three" not in app.env.found_docs
    assert not list((house / "docs/gallery").rglob("*three*"))
