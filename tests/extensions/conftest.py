"""A house in miniature, a fresh copy for each test."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from unittest.mock import patch
from xml.sax.saxutils import quoteattr

import pytest
from jinja2 import FileSystemBytecodeCache
from jinja2.sandbox import SandboxedEnvironment
from sphinx import jinja2glue

from extensions.core.topics import ROOT, topics
from extensions.evidence.module_dependencies import (
    bases,
    classname,
    evidence_modules,
)
from extensions.evidence.parsed_tests import tests_in
from extensions.evidence.result_dependencies import RESTS, Rests

collect_ignore = ["house"]

HOUSE = Path(__file__).parent / "house"
FACTS = {
    "torch": "2.13.0",
    "python": "3.11.7",
    "machine": "x86_64",
    "date": "2026-01-31",
}
ELEMENTS = {
    "passed": "",
    "failed": '<failure message="assert" />',
    "skipped": '<skipped message="why" />',
}


def properties(values):
    items = [
        f"<property name={quoteattr(name)} value={quoteattr(value)} />"
        for name, value in values.items()
    ]
    return f"<properties>{''.join(items)}</properties>"


class CompiledTemplates(FileSystemBytecodeCache):
    """Compiled templates, found by what they say: each house is elsewhere."""

    def get_bucket(self, environment, name, filename, source):
        """Return the place of a template, whatever the name of its file."""
        return super().get_bucket(environment, name + source, None, source)


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
    """A house whose programs have run, which takes the longest, to copy."""
    pattern = tmp_path_factory.mktemp("pattern") / "house"
    shutil.copytree(HOUSE, pattern)
    record(pattern)
    command = [sys.executable, "-m", "sphinx", "--quiet"]
    subprocess.run(
        [*command, pattern / "docs", pattern / "out"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    shutil.rmtree(pattern / "out")
    (pattern / "build/site.lock").unlink()
    return pattern


@pytest.fixture
def house(pattern, tmp_path):
    """A whole house, with evidence that says that all is well."""
    return Path(shutil.copytree(pattern, tmp_path / "house"))


@pytest.fixture
def unbuilt(house):
    """The house as somebody would fetch it: no program has run."""
    for name in ("code", "gallery"):
        shutil.rmtree(house / "docs" / name)
    return house


def record(
    house,
    folder="build/evidence/this-build",
    suite=None,
    device="CPU",
    date=FACTS["date"],
    **outcomes,
):
    """Write the JUnit file of a run in which some tests did not pass."""
    cases = []
    found = bases(house, evidence_modules(house))
    for topic in topics(house):
        if not topic.tests.exists():
            continue
        module = classname(house, topic.tests)
        rests_on = {
            "basis": found[module],
        }
        rests = Rests(topic)
        for name in tests_in(topic.tests):
            outcome, _, need = outcomes.get(name, "passed").partition(" for ")
            facts = {"date": date, "device": device, RESTS: rests.of(name)}
            if outcome == "skipped":
                del facts["device"]
            if need:
                facts["needs"] = need
            if "__" in name:
                facts |= {"edit": "-old\n+new", "said": "assert old == new"}
            cases.append(
                f'<testcase classname="{module}" name="{name}">'
                f"{properties(rests_on | facts)}{ELEMENTS[outcome]}</testcase>"
            )
    path = house / folder / "tests.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    suite = properties(FACTS | (suite or {})) + "\n".join(cases)
    path.write_text(
        f'<testsuites>\n<testsuite name="pytest">\n{suite}\n'
        "</testsuite>\n</testsuites>\n"
    )
    return path


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
