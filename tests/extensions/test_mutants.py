"""Changes that no test notices are listed, each with its line."""

import shutil
import subprocess
import sys

import pytest

from extensions.core.files import Problem
from extensions.core.topics import ROOT, Topic
from tests.helpers.evidence import HOUSE
from tools.mutants import __main__ as mutants

CONFTEST = """
import pytest

from extensions.evidence.counterexamples import failure_of
from extensions.programs.snippet import Snippet
from extensions.core.topics import ROOT, topic_of_tests


@pytest.fixture
def snippet(request):
    return Snippet.read(topic_of_tests(ROOT, request.path).snippet)


@pytest.fixture
def fails():
    return failure_of
"""
FOUR = '''"""
Four
====
"""

# %% start
numbers = [1, 2, 3]
total = sum(each for each in numbers if each > 1)

# %% wait
left = 3
while left > 0:
    print(__import__("time").sleep(0.01))
    left -= 1

# %% order
numbers.sort()
numbers.append(total)

# %% last
numbers.clear()
'''
TEST_FOUR = """
def test_total(snippet):
    assert snippet.after("start").total == 5


def test_total__but_not_of_more(snippet, fails):
    fails(test_total, snippet.edit("[1, 2, 3]", "[1, 2, 3, 4]"))
    assert snippet.after("last").numbers == []


def test_total__also_of_fewer(snippet):
    edited = snippet.edit("numbers if each > 1", "numbers[1:] if True")
    assert edited.after("start").total == 5


def test_left(snippet):
    assert snippet.after("wait").left == 0


def test_order(snippet):
    assert snippet.after("order").numbers[:3] == [1, 2, 3]
"""


def add(house, name, program, tests):
    """Write a topic."""
    topic = Topic(house, name)
    topic.snippet.write_text(program)
    topic.tests.write_text(tests)
    return topic


def all_survive(topic, made):
    """Return all, as if there were no tests."""
    return made


@pytest.fixture
def house(tmp_path):
    """A house in miniature, which nothing has built."""
    return shutil.copytree(HOUSE, tmp_path / "house")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Call the command once, on all kinds of topics; return what it says."""
    folder = tmp_path_factory.mktemp("mutants")
    house = shutil.copytree(HOUSE, folder / "house")
    for each in ("extensions", "tools"):
        shutil.copytree(ROOT / each, house / each)
    shutil.copy(ROOT / "pyproject.toml", house)
    (house / "tests/conftest.py").write_text(CONFTEST)
    add(house, "part/four", FOUR, TEST_FOUR)
    add(house, "part/five", FOUR, TEST_FOUR.replace("== 5", "== 6"))
    add(house, "part/six", FOUR, "import lost\n")
    add(house, "part/seven", FOUR, "")
    command = [sys.executable, "-m", "tools.mutants"]
    names = ["four", "five", "six", "seven", "one"]
    done = subprocess.run(
        [*command, *(f"part/{name}" for name in names)],
        cwd=house,
        capture_output=True,
        text=True,
        check=False,
    )
    # What is left by the tests is said at once, before the sum.
    assert sorted(done.stderr.splitlines()) == [
        f"snippets/part/four.py:{line}: unnoticed: delete statement: {each}"
        for line, each in (
            (17, "numbers.sort() -> pass"),
            (18, "numbers.append(total) -> pass"),
            (21, "numbers.clear() -> pass"),
        )
    ]
    assert done.returncode == 2
    return done.stdout.replace(f"{house}/", "").splitlines()


def test_a_topic_is_summed_up_in_one_line(said):
    """Two mutants loop without end, and counter-examples do not count."""
    assert "part/four: 9 made, 6 noticed, 3 survive" in said


def test_a_survivor_is_listed_with_its_line(said):
    assert [line for line in said if ": survives:" in line] == [
        "snippets/part/four.py:17: survives:"
        " delete statement: numbers.sort() -> pass",
        "snippets/part/four.py:18: survives:"
        " delete statement: numbers.append(total) -> pass",
        "snippets/part/four.py:21: survives:"
        " delete statement: numbers.clear() -> pass",
    ]


def test_tests_that_cannot_notice_anything_are_reported(said):
    assert [line for line in said if "tests/part/test_" in line] == [
        "tests/part/test_five.py:1:"
        " fails before anything is changed: test_total",
        "tests/part/test_seven.py:1: no test that could notice a mutant",
        "tests/part/test_six.py:1:"
        " cannot be collected: tests/part/test_six.py",
    ]


def test_a_program_without_a_meaning_to_change_is_reported(said):
    assert "snippets/part/one.py:1: nothing to mutate" in said


def test_a_topic_without_tests_is_reported(house):
    topic = add(house, "part/four", FOUR, "")
    topic.tests.unlink()

    with pytest.raises(Problem, match=r"four\.py:1: no tests that could"):
        mutants.report_on_topic(topic, all_survive)


def test_an_unknown_topic_is_reported(house):
    with pytest.raises(Problem, match="no such topic: part/none"):
        mutants.chosen_topics(house, ["part/one", "part/none"], "")


def git(house, *arguments):
    names = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run(["git", *names, *arguments], cwd=house, check=True)


def test_only_what_changed_since_a_revision_is_chosen(house):
    git(house, "init", "--quiet")
    git(house, "add", ".")
    git(house, "commit", "--quiet", "--message=first")

    assert mutants.chosen_topics(house, [], "HEAD") == []
    with (house / "snippets/part/two.py").open("a") as file:
        file.write("# more\n")
    (house / "tests/part/test_one.py").write_text("")
    assert mutants.chosen_topics(house, [], "HEAD") == [
        Topic(house, "part/two")
    ]
    assert mutants.chosen_topics(house, ["part/one"], "HEAD") == []


def test_a_revision_that_git_does_not_know_is_reported(house):
    git(house, "init", "--quiet")

    with pytest.raises(Problem, match=r"git cannot compare: .*lost"):
        mutants.chosen_topics(house, [], "lost")
