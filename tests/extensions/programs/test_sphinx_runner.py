"""Programs that do not run well: each is named, and no site says otherwise."""

import os
import shutil
import subprocess
import sys

import pytest

from extensions.core.topics import ROOT
from extensions.programs import stamp

REMOVES = "import os, shutil\nprint(os.listdir())\nshutil.rmtree(os.getcwd())"
THREAD = "import threading as t, time\nt.Thread(target=time.sleep, args=[99])"
BAD = {
    "exits": ("import sys\nsys.exit(0)", "13: ERROR: SystemExit: 0"),
    "raises_exit": ("raise SystemExit(0)", "12: ERROR: SystemExit: 0"),
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
    "writes_past_python": (
        "import os\n_ = os.write(1, b'unseen')",
        "1: ERROR: writes past sys.stdout, where no page shows it: 'unseen'",
    ),
    "prints_on_and_on": (
        "print('x' * 300_000)",
        "1: ERROR: prints 301,",
    ),
    "leaves_a_file": (
        "open('left.txt', 'w').close()",
        "1: ERROR: leaves behind in the working folder: left.txt",
    ),
    "fails": (
        "word[9]",
        "12: ERROR: IndexError: string index out of range",
    ),
}


ENDLESS = {
    "hangs": (
        "import time\nwhile True: time.sleep(1)",
        "1: ERROR: was ended after 2 s: the program went on",
    ),
    # What went on, it or the thread, depends on how busy the machine is.
    "leaves_a_thread": (f"{THREAD}.start()", "1: ERROR: was ended after 2 s"),
}


@pytest.fixture
def add(house):
    """Return a way to add lines to a program of the house."""

    def add(lines, name="snippets/part/one.py"):
        path = house / name
        path.write_text(f"{path.read_text()}\n{lines}\n")
        return path

    return add


@pytest.mark.parametrize(
    ("programs", "seconds"),
    [
        pytest.param(BAD, 60, id="by itself"),
        pytest.param(ENDLESS, 2, id="after some seconds"),
    ],
)
def test_each_program_that_does_not_end_well_is_named(
    house, stopped, programs, seconds
):
    text = (house / "snippets/part/one.py").read_text()
    for name, (lines, _) in programs.items():
        path = house / f"snippets/part/{name}.py"
        path.write_text(f"{text}\n{lines}\n")

    said = stopped("-j", "4", "-D", f"program_seconds={seconds}")

    assert len(said) == len(programs)
    for name, (_, cause) in programs.items():
        [line] = [line for line in said if f"/{name}.py:" in line]
        assert f"/{name}.py:{cause}" in line


def test_a_program_that_failed_runs_again(add, build, stopped):
    path = add("word[9]")
    assert len(stopped()) == 1

    assert len(stopped()) == 1

    path.write_text(path.read_text().replace("word[9]", ""))
    build()


def test_a_program_leaves_nothing_to_the_next(add, build):
    add("import os\nos.environ['LEFT'] = 'behind'")
    path = add("import os\nprint(os.environ.get('LEFT'))", "gallery/three.py")

    build()

    shown = path.parents[1] / "docs/gallery/three.rst"
    assert "None" in shown.read_text()


def test_a_program_works_in_an_empty_folder_and_may_remove_it(add, build):
    path = add(REMOVES)

    build()

    shown = path.parents[2] / "docs/code/part/one.rst"
    assert "[]" in shown.read_text()
    assert path.exists()


def test_each_program_that_runs_says_why(house, build):
    assert "run, because" not in build().status.getvalue()
    edit(house / "snippets/part/one.py", '"one"', '"once"')
    edit(house / "docs/code/part/two.rst", "two", "FORGED")

    said = build().status.getvalue().splitlines()

    assert [line for line in said if "run, because" in line] == [
        "part/one: run, because the program changed",
        "part/two: run, because two.rst changed",
    ]
    assert "FORGED" not in (house / "docs/code/part/two.rst").read_text()


def edit(path, old, new):
    path.write_text(path.read_text().replace(old, new))


def test_what_a_program_that_is_gone_has_left_goes_too(house, build):
    (house / "gallery/three.py").unlink()
    (house / "tests/gallery/test_three.py").unlink()

    app = build()

    assert "gallery/three" not in app.env.found_docs
    assert not list((house / "docs/gallery").rglob("*three*"))


def test_what_another_program_has_left_stays(house):
    images = house / "docs/gallery/images"
    others = [
        images / "sphx_glr_draw_three_001.svg",
        images / "sphx_glr_three_more_001.svg",
        images / "thumb/sphx_glr_draw_three_thumb.png",
    ]
    for path in others:
        path.touch()
    (house / "gallery/three.py").unlink()

    stamp.sweep(house)

    assert all(path.exists() for path in others)
    assert not list(images.rglob("sphx_glr_three_[0t]*"))


def run_all(house, *options, **variables):
    """Build a house in which no program has run, in a process of its own."""
    for name in ("code", "gallery"):
        shutil.rmtree(house / "docs" / name)
    command = [sys.executable, "-m", "sphinx", "-q", "-d", "trees"]
    return subprocess.run(
        [*command, *options, "docs", "out"],
        cwd=house,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def homeless(new_house):
    """A house built where the home cannot be written, and how that ended."""
    house = new_house()
    return house, run_all(house, HOME=os.devnull, PYTHONHASHSEED="1")


def test_a_home_that_cannot_be_written_is_no_matter(homeless):
    _, done = homeless

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["numpy", "filelock", "myst-parser"])
def test_what_is_not_installed_is_one_line(house, stopped, name):
    (house / "sitecustomize.py").write_text(
        "import sys\n"
        "from importlib import metadata\n"
        "known = metadata.version\n"
        "def version(name):\n"
        f"    if name == {name!r}:\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return known(name)\n"
        "metadata.version = version\n"
        f"sys.modules[{name.replace('-', '_')!r}] = None\n"
    )

    [line] = stopped()

    assert "pyproject.toml:" in line
    assert f"{name} is not installed: nox -s docs brings it along" in line


def site_of(house):
    """Return what a build has written that has to be the same each time."""
    kept = ("*.html", "*.inv", "*.js", "*.json", "_images/*", "*.ipynb")
    return {
        path.relative_to(house / "out"): path.read_bytes()
        for pattern in kept
        for path in (house / "out").rglob(pattern)
    }


def test_two_builds_are_the_same(homeless, house):
    one, _ = homeless
    other = house.with_name("another ü")
    house.rename(other)
    done = run_all(other, "--jobs=2", PYTHONHASHSEED="77")
    assert (done.returncode, done.stderr) == (0, "")

    first, second = site_of(one), site_of(other)
    assert first.keys() == second.keys()
    assert not [name for name in first if first[name] != second[name]]


def test_a_build_that_runs_nothing_imports_no_matplotlib(build, monkeypatch):
    for name in [*sys.modules]:
        if name.partition(".")[0] == "matplotlib":
            monkeypatch.delitem(sys.modules, name)

    build()

    assert "matplotlib" not in sys.modules
