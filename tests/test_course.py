"""The course is one program that grows from page to page.

The cell ``so-far`` of a page holds what the pages before it have introduced,
in the same words, so that whoever types along never meets a second version.
"""

import ast

import pytest

from extensions.core.topics import ROOT, Topic
from extensions.programs.snippet import Snippet

PAGES = [
    "data",
    "classifier",
    "loop",
    "network",
    "results",
    "overfitting",
    "rate",
    "predict",
    "project",
]
SO_FAR = "so-far"


def cells(page):
    """Return the text of each cell of a page's program, by its name."""
    path = Topic(ROOT, f"course/{page}").snippet
    return {
        name: cell.source for name, cell in Snippet.read(path).cells().items()
    }


def statements(text):
    """Return the statements of a cell as they stand there, without imports."""
    return [
        ast.get_source_segment(text, each)
        for each in ast.parse(text).body
        if not isinstance(each, ast.Import | ast.ImportFrom)
    ]


def introduced(pages):
    """Return each statement that these pages add to the program."""
    return {
        statement
        for page in pages
        for name, text in cells(page).items()
        if name != SO_FAR
        for statement in statements(text)
    }


@pytest.mark.parametrize("page", PAGES[2:])
def test_a_page_starts_from_what_the_pages_before_left(page):
    earlier = introduced(PAGES[: PAGES.index(page)])
    so_far = statements(cells(page)[SO_FAR])

    assert [each for each in so_far if each not in earlier] == []
