"""What the house may weigh, in lines.

A number falls with what is deleted. It rises only in a commit of its own that
says why.
"""

import pytest

from extensions.core.files import text_of
from extensions.core.topics import ROOT

# Lines of what is written here, by folder: code, styles, templates, lists.
BUDGETS = {
    "extensions/claims": 2297,
    "extensions/core": 829,
    "extensions/evidence": 3218,
    "extensions/lint": 167,
    "extensions/measurements": 458,
    "extensions/new_topic": 97,
    "extensions/notebooks": 611,
    "extensions/pages": 934,
    "extensions/programs": 1231,
    "extensions/prose": 836,
    "extensions/site": 569,
    "extensions/web": 803,
    "docs/_static": 449,
    "tests/extensions": 8845,
    "tests/helpers": 1147,
    "tests/browser": 1998,
    "tools": 1031,
}
FILES = 72  # of Python in extensions/
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


def test_no_module_is_long():
    paths = (ROOT / "extensions").rglob("*.py")

    assert [path for path in paths if text_of(path).count("\n") > 350] == []
