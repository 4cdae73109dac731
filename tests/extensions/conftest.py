"""A house in miniature, a fresh copy for each test that changes it."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from filelock import FileLock
from jinja2 import FileSystemBytecodeCache
from jinja2.sandbox import SandboxedEnvironment
from sphinx import jinja2glue

from extensions.core.topics import ROOT
from tests.helpers.builds import built
from tests.helpers.evidence import HOUSE, record

collect_ignore = ["house"]

FAKE_TORCH = Path(__file__).parent / "fake_torch"


class CompiledTemplates(FileSystemBytecodeCache):
    """Compiled templates, found by what they say: each house is elsewhere."""

    def get_bucket(self, environment, name, filename, source):
        """Return the place of a template, whatever the name of its file."""
        return super().get_bucket(environment, name + source, None, source)


@pytest.fixture(autouse=True)
def _environment():
    """Leave the variables as they were: programs run again when they change.

    Whatever loads the compiler of torch sets one.
    """
    with patch.dict(os.environ):
        yield


@pytest.fixture(autouse=True, scope="session")
def _templates(tmp_path_factory):
    """Compile each template once: it takes a quarter of the time of a build.

    Sphinx keeps no compiled templates from build to build.
    """
    cache = CompiledTemplates(str(tmp_path_factory.mktemp("templates")))
    kept = partial(SandboxedEnvironment, bytecode_cache=cache)
    with patch.object(jinja2glue, "SandboxedEnvironment", kept):
        yield


@pytest.fixture(scope="session")
def pattern(tmp_path_factory):
    """A house whose programs have run, which takes the longest, to copy.

    Processes that share the tests share it as well.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    pattern = base / "pattern"
    with FileLock(base / "pattern.lock"):
        if not pattern.exists():
            run_programs(base / "raw").rename(pattern)
    return pattern


def run_programs(house):
    """Copy the house to a place, run its programs there, and return it.

    The site that this has built stands beside it.
    """
    shutil.copytree(HOUSE, house)
    record(house)
    command = [sys.executable, "-m", "sphinx", "--quiet"]
    subprocess.run(
        [*command, house / "docs", house / "out"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    (house / "out").rename(house.with_name("first_site"))
    return house


@pytest.fixture(scope="session")
def first_site(pattern):
    """The site of a house in which no program had run."""
    return pattern.with_name("first_site")


@pytest.fixture(scope="session")
def new_house(pattern, tmp_path_factory):
    """Copy a house, at each call, for tests that share one."""

    def new_house():
        return Path(
            shutil.copytree(
                pattern, tmp_path_factory.mktemp("shared") / "house"
            )
        )

    return new_house


@pytest.fixture(scope="session")
def site(new_house):
    """The house built as it is: for tests that only read the site."""
    return built(new_house())


@pytest.fixture(scope="session")
def published(new_house):
    """The same, built with the addresses of a site that is published."""
    addresses = {
        "html_baseurl": "https://guide.example.org/",
        "notebooks_repository": "owner/name/blob/kept/",
        "repository": "https://example.org/us/guide/",
    }
    return built(new_house(), confoverrides=addresses)


@pytest.fixture(scope="session")
def kept(new_house):
    """A house that is built, and a copy from which to put it back."""
    house = new_house()
    built(house)
    return house, shutil.copytree(house, house.with_name("kept"))


@pytest.fixture
def house(request, pattern, tmp_path):
    """A whole house, with evidence that says that all is well.

    Where a test builds it, it has been built before, in the same place: what
    a test changes is then built within a fraction of the time, and
    ``site/test_rebuilding.py`` sees that the site is that of a fresh build.
    """
    if "build" not in request.fixturenames:
        return Path(shutil.copytree(pattern, tmp_path / "house"))
    house, kept = request.getfixturevalue("kept")
    shutil.rmtree(house)
    return Path(shutil.copytree(kept, house))


@pytest.fixture
def unbuilt(house):
    """The house as somebody would fetch it: no program has run."""
    for name in ("docs/code", "docs/gallery", "out"):
        shutil.rmtree(house / name, ignore_errors=True)
    return house


@pytest.fixture(scope="session")
def make_whole():
    """Let a house stand by itself, with nothing in it that is tested yet.

    It has the extensions and the plugin of pytest that this one has; torch is
    not the true one, and Sphinx is not installed: to import both takes longer
    than all else.
    """

    def make_whole(house):
        shutil.rmtree(house / "build/evidence")
        shutil.copytree(ROOT / "extensions", house / "extensions")
        shutil.copytree(FAKE_TORCH, house, dirs_exist_ok=True)
        for name in ("pyproject.toml", "tests/conftest.py"):
            shutil.copy(ROOT / name, house / name)

    return make_whole


@pytest.fixture
def whole(house, make_whole, monkeypatch):
    """A house that stands by itself, in whose folder programs run."""
    make_whole(house)
    monkeypatch.setenv("PYTHONPATH", str(house))
    return house


@pytest.fixture
def build(house, make_app):
    """Build the house; each call is a build of its own."""

    def build(builder="html", **options):
        app = make_app(
            builder, srcdir=house / "docs", builddir=house / "out", **options
        )
        app.build()
        return app

    return build


@pytest.fixture
def stopped(house):
    """Build a house that cannot be built, and return all that is said.

    In a process of its own, as a reader of the lines would.
    """

    def stopped(*options):
        command = [sys.executable, "-m", "sphinx", "--quiet", "--no-color"]
        done = subprocess.run(
            [*command, *options, house / "docs", house / "out"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(house)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        return done.stderr.splitlines()

    return stopped
