"""Changes that no test notices are listed, each with its line."""

import shutil
import subprocess
import sys

import pytest

from extensions.core.files import Problem
from extensions.core.topics import ROOT, Topic
from tools.mutants.__main__ import chosen_topics

FOUR = '''"""
Four
====
"""

# %% start
numbers = [1, 2, 3]
total = sum(each for each in numbers if each > 1)

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


def test_order(snippet):
    assert snippet.after("order").numbers[:3] == [1, 2, 3]
"""


def add(house, name, program, tests):
    """Write a topic."""
    topic = Topic(house, name)
    topic.snippet.write_text(program)
    topic.tests.write_text(tests)


def test_what_survives_is_listed_and_what_cannot_be_tried_is_reported(whole):
    """Counter-examples notice nothing."""
    shutil.copytree(ROOT / "tools", whole / "tools")
    add(whole, "part/four", FOUR, TEST_FOUR)
    add(whole, "part/five", FOUR, TEST_FOUR.replace("== 5", "== 6"))
    names = ["four", "five", "one"]
    done = subprocess.run(
        [sys.executable, "-m", "tools.mutants", *(f"part/{n}" for n in names)],
        cwd=whole,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    left = {
        11: "delete statement: numbers.sort() -> pass",
        12: "delete statement: numbers.append(total) -> pass",
        15: "delete statement: numbers.clear() -> pass",
    }
    program = "snippets/part/four.py"
    # What no test notices is said at once, before the sum.
    assert sorted(done.stderr.splitlines()) == [
        f"{program}:{line}: unnoticed: {each}" for line, each in left.items()
    ]
    said = done.stdout.replace(f"{whole}/", "").splitlines()
    assert sorted(said) == sorted(
        [
            "part/four: 5 made, 2 noticed, 3 survive",
            *(f"{program}:{n}: survives: {each}" for n, each in left.items()),
            "tests/part/test_five.py:1: fails before anything is changed:"
            " test_total",
            "snippets/part/one.py:1: nothing to mutate",
        ]
    )


def git(house, *arguments):
    names = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run(["git", *names, *arguments], cwd=house, check=True)


def test_only_what_changed_since_a_revision_is_chosen(house):
    git(house, "init", "--quiet")
    git(house, "add", ".")
    git(house, "commit", "--quiet", "--message=first")

    assert chosen_topics(house, [], "HEAD") == []
    with (house / "snippets/part/two.py").open("a") as file:
        file.write("# more\n")
    (house / "tests/part/test_one.py").write_text("")
    assert chosen_topics(house, [], "HEAD") == [Topic(house, "part/two")]
    assert chosen_topics(house, ["part/one"], "HEAD") == []
    with pytest.raises(Problem, match=r"git cannot compare: .*lost"):
        chosen_topics(house, [], "lost")
    with pytest.raises(Problem, match="no such topic: part/none"):
        chosen_topics(house, ["part/one", "part/none"], "")
