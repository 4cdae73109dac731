"""A new topic is written whole, and needs nothing but a line in its index."""

import os
import shutil
import subprocess
import sys

import pytest

from extensions.core.problem import Problem
from extensions.core.topics import ROOT, Topic
from extensions.lint import RULES
from extensions.new_topic import __main__ as command
from extensions.new_topic.__main__ import EXAMPLE, new_topic
from tests.helpers.evidence import record

INDEX = "# Part\n\n```{toctree}\none\ntwo\n```\n"
COMMAND = [sys.executable, "-m", "extensions.new_topic"]


@pytest.fixture
def chapter(house):
    """A house whose chapter has an index, as all of the guide have."""
    (house / "docs/part/index.md").write_text(INDEX)
    contents = house / "docs/index.md"
    contents.write_text(contents.read_text().replace("part/*", "part/index"))
    return house


def files_of(root):
    """Return all files of the topics of a house, with what they hold."""
    folders = (root / name for name in ("docs", "snippets", "tests"))
    return {
        path: path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_new_topic_breaks_no_rule_but_that_its_index_lists_it(chapter):
    written = new_topic(chapter, "part/three_more")

    topic = Topic(chapter, "part/three_more")
    assert written == [topic.page, topic.snippet, topic.tests]
    assert [str(each) for rule in RULES for each in rule(chapter)] == [
        f"{chapter}/docs/part/index.md:3: add three_more to this toctree"
    ]


def test_a_new_topic_has_the_title_that_its_name_gives(chapter):
    page, snippet, tests = new_topic(chapter, "part/three_more")

    assert page.read_text().startswith("# Three more\n")
    assert snippet.read_text().startswith('"""\nThree more\n==========\n')
    assert tests.read_text().startswith(
        '"""The claims of docs/part/three_more.md."""\n'
    )


@pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app")
def test_a_new_topic_can_be_built(chapter, build):
    new_topic(chapter, "part/three_more")
    index = INDEX.replace("two\n", "two\nthree_more\n")
    (chapter / "docs/part/index.md").write_text(index)
    record(chapter)

    app = build(warningiserror=False)

    assert app.warning.getvalue() == ""
    page = (app.outdir / "part/three_more.html").read_text()
    assert "0.weight" in page
    assert "a-tied-weight-counts-once" in page


def run(chapter, *arguments):
    """Run a module of Python in a house that has all that tests need."""
    for each in ("extensions", "tests/helpers", "tools"):
        shutil.copytree(ROOT / each, chapter / each)
    for name in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / name, chapter / name)
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=chapter,
        env={k: v for k, v in os.environ.items() if "PYTEST" not in k},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_tests_of_a_new_topic_pass(chapter):
    *_, tests = new_topic(chapter, "part/three_more")

    done = run(chapter, "pytest", "-q", "-p", "no:cacheprovider", str(tests))

    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


def test_the_tests_of_a_new_topic_notice_each_mutant(chapter):
    new_topic(chapter, "part/three_more")

    done = run(chapter, "tools.mutants", "part/three_more")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 survive" in done.stdout


NAMES = {
    "part/one": "the topic part/one exists already",
    "nowhere/three": "no chapter 'nowhere'; there are: part",
    "gallery/three": "gallery/three is a recipe, one file: copy another",
    "three": "no name of a topic: 'three': write chapter/topic",
    "part/Three": "no name of a topic: 'part/Three'",
    "part/three more": "no name of a topic: 'part/three more'",
    "part/more/three": "no name of a topic: 'part/more/three'",
    "/part/three": "no name of a topic: '/part/three'",
    "../part/three": "no name of a topic: '../part/three'",
    "part/": "no name of a topic: 'part/'",
    "": "no name of a topic: ''",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_new_topic_can_have_writes_nothing(chapter, name):
    before = files_of(chapter)

    with pytest.raises(Problem) as caught:
        new_topic(chapter, name)

    assert NAMES[name] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert files_of(chapter) == before


@pytest.mark.parametrize("left", ["page", "snippet", "tests"])
def test_a_topic_that_is_there_in_part_is_left_as_it_is(chapter, left):
    path = getattr(Topic(chapter, "part/three"), left)
    path.write_text("mine")
    before = files_of(chapter)

    with pytest.raises(Problem, match="exists already"):
        new_topic(chapter, "part/three")

    assert files_of(chapter) == before


def test_the_command_needs_nothing_but_python():
    done = subprocess.run(
        [sys.executable, "-S", *COMMAND[1:], "nowhere/three"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.startswith(f"{ROOT}:1: no chapter 'nowhere'")
    assert done.stderr.count("\n") == 1


def test_the_command_says_what_is_left_to_do(chapter, monkeypatch, capsys):
    monkeypatch.setattr(command, "ROOT", chapter)
    monkeypatch.setattr(sys, "argv", ["new", "part/three_more"])

    command.main()

    said = capsys.readouterr().out
    assert said.startswith(
        "Wrote docs/part/three_more.md, snippets/part/three_more.py,"
        " tests/part/test_three_more.py.\n"
    )
    assert 'docs/part/index.md: add the line "three_more"' in said
    assert "[Three more](three_more.md)." in said


def test_the_example_names_its_own_page():
    assert EXAMPLE.name in EXAMPLE.tests.read_text()
    assert EXAMPLE.page.read_text().startswith("# Tied weights\n")
