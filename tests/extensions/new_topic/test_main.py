"""A new topic is written whole, and needs nothing but a line in its index."""

import os
import shutil
import subprocess
import sys

import pytest

from extensions.core.files import Problem
from extensions.core.topics import ROOT
from extensions.lint import RULES, problems_of
from extensions.new_topic.__main__ import new_topic
from tests.helpers.evidence import record

INDEX = "# Part\n\n```{toctree}\none\ntwo\n```\n"


@pytest.fixture
def chapter(house):
    """A house whose chapter has an index, as all of the guide have."""
    (house / "docs/part/index.md").write_text(INDEX)
    contents = house / "docs/index.md"
    contents.write_text(contents.read_text().replace("part/*", "part/index"))
    return house


@pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app")
def test_a_new_topic_breaks_no_rule_and_can_be_built(chapter, build):
    page, snippet, tests = new_topic(chapter, "part/three_more")

    assert page.read_text().startswith("# Three more\n")
    assert snippet.read_text().startswith('"""\nThree more\n==========\n')
    said = '"""The claims of docs/part/three_more.md."""\n'
    assert tests.read_text().startswith(said)
    index = INDEX.replace("two\n", "two\nthree_more\n")
    (chapter / "docs/part/index.md").write_text(index)
    assert [*problems_of(chapter, RULES)] == []

    record(chapter)
    app = build(warningiserror=False)

    assert app.warning.getvalue() == ""
    html = (app.outdir / "part/three_more.html").read_text()
    assert "0.weight" in html
    assert "a-tied-weight-counts-once" in html


def test_the_tests_of_a_new_topic_pass(chapter):
    *_, tests = new_topic(chapter, "part/three_more")
    for each in ("extensions", "tests/helpers"):
        shutil.copytree(ROOT / each, chapter / each)
    for name in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / name, chapter / name)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", tests],
        cwd=chapter,
        env={k: v for k, v in os.environ.items() if "PYTEST" not in k},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("part/four", "the topic part/four exists already"),
        ("nowhere/three", "no chapter 'nowhere'"),
        ("three", "no name of a topic: 'three': write chapter/topic"),
        ("part/three more", "no name of a topic: 'part/three more'"),
    ],
)
def test_a_name_that_no_new_topic_can_have_is_refused(chapter, name, said):
    (chapter / "tests/part/test_four.py").write_text("mine")

    with pytest.raises(Problem, match=said):
        new_topic(chapter, name)

    assert not (chapter / "docs/part/four.md").exists()


def test_the_command_needs_nothing_but_python_and_says_what_is_left(chapter):
    shutil.copytree(ROOT / "extensions", chapter / "extensions")
    shutil.copy(ROOT / "CONTRIBUTING.md", chapter)
    command = [sys.executable, "-S", "-m", "extensions.new_topic"]
    missing, written = (
        subprocess.run(
            [*command, name], cwd=chapter, capture_output=True, text=True
        )
        for name in ("nowhere/three", "part/three_more")
    )

    assert missing.returncode == 2
    assert missing.stderr.startswith(f"{chapter}:1: no chapter 'nowhere'")
    assert missing.stderr.count("\n") == 1
    assert written.stdout.startswith(
        "Wrote docs/part/three_more.md, snippets/part/three_more.py,"
        " tests/part/test_three_more.py.\n"
    )
    assert 'docs/part/index.md: the line "three_more"' in written.stdout
    assert "[Three more](three_more.md)." in written.stdout
