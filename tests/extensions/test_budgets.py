"""What the house may weigh, in lines.

A number falls with what is deleted. It rises only in a commit of its own that
says why.
"""

import pytest

from extensions.core.reading import text_of
from extensions.core.topics import ROOT

# Lines of what is written here, by folder: code, styles, templates, lists.
BUDGETS = {
    "extensions/build": 1203,
    "extensions/claims": 4869,
    "extensions/core": 1297,
    "extensions/evidence": 3873,
    "extensions/lint": 432,
    "extensions/measurements": 1114,
    "extensions/mutants": 764,
    "extensions/new_topic": 180,
    "extensions/notebooks": 1641,
    "extensions/pages": 2837,
    "extensions/programs": 1783,
    "extensions/prose": 1343,
    "extensions/web": 2116,
    "docs/_static": 864,
    "tests/extensions": 16805,
    "tests/helpers": 1261,
    "browser": 3851,
    "tools": 173,
}
FILES = 233  # of Python in extensions/
WRITTEN = {".css", ".html", ".js", ".py", ".toml"}


def files_of(folder):
    """Return the files that somebody maintains in a folder."""
    return [
        path
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in WRITTEN and ".min." not in path.name
    ]


def lines_of(folder):
    """Return how many lines they have."""
    return sum(text_of(path).count("\n") for path in files_of(folder))


@pytest.mark.parametrize("folder", BUDGETS)
def test_a_part_of_the_house_keeps_to_its_budget(folder):
    lines = lines_of(folder)

    assert lines <= BUDGETS[folder], "take something away, or say why not"
    assert lines > BUDGETS[folder] - 100, "lower the budget"


def test_each_part_of_the_house_has_a_budget():
    folders = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "extensions").iterdir()
        if path.is_dir() and files_of(path)
    }

    assert folders <= BUDGETS.keys()


def test_there_are_not_too_many_files():
    paths = [*(ROOT / "extensions").rglob("*.py")]

    assert FILES - 5 < len(paths) <= FILES
