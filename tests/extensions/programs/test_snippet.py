"""Snippets, cut into cells and run."""

from pathlib import Path

import pytest

from extensions.core.files import Problem
from extensions.programs.snippet import Snippet

PATH = Path("folder/name.py")
TEXT = '''"""
Title
=====
"""

# %% first
a = 1

# %% second
#
# Prose of a recipe.

b = a + 1

# %% table
import pandas as pd

c = b + 1

# %% last
d = b + 2
'''


def problem(text, run="last"):
    """Return what is wrong with a snippet, in one line."""
    with pytest.raises(Problem) as caught:
        Snippet(PATH, text).after(run)
    return str(caught.value)


def test_a_cell_knows_its_line_and_its_source():
    cell = Snippet(PATH, TEXT).cells()["first"]

    assert (cell.line, cell.source) == (6, "a = 1")


def test_the_code_of_a_cell_leaves_out_its_prose():
    assert Snippet(PATH, TEXT).cells()["second"].code == "b = a + 1"


def test_a_run_ends_with_the_named_cell():
    run = Snippet(PATH, TEXT).after("second")

    assert run.b == 2
    assert not hasattr(run, "d")


def test_of_some_cells_the_others_are_empty_and_lines_stay_in_place():
    some = Snippet(PATH, TEXT).only("last", "first")
    cells, whole = some.cells(), Snippet(PATH, TEXT).cells()

    assert [cell.source for cell in cells.values()] == [
        "a = 1",
        "",
        "",
        "d = b + 2",
    ]
    assert [cell.line for cell in cells.values()] == [
        cell.line for cell in whole.values()
    ]
    with pytest.raises(NameError) as caught:
        some.after("last")
    assert caught.traceback[-1].lineno + 1 == whole["last"].line + 1


def test_a_cell_to_keep_that_is_not_there_is_a_problem():
    with pytest.raises(Problem, match="no cell 'third'; there are: first"):
        Snippet(PATH, TEXT).only("first", "third")


def test_a_display_cell_is_left_out_unless_it_is_asked_for():
    snippet = Snippet(PATH, TEXT)

    assert not hasattr(snippet.after("last"), "c")
    assert snippet.after("table").c == 3


def test_a_cell_with_a_guard_needs_cuda():
    text = "# %% one\nif torch.cuda.is_available():\n    pass\n"

    assert Snippet(PATH, text).cells()["one"].is_cuda
    assert not Snippet(PATH, TEXT).cells()["first"].is_cuda


def test_a_malformed_name_is_a_problem_at_its_line():
    text = TEXT.replace("# %% last", "# %% Last_One")

    assert problem(text).startswith(f"{PATH}:20: malformed cell name")


def test_a_nameless_cell_is_a_problem_at_its_line():
    text = TEXT.replace("# %% last", "# %%")

    assert problem(text).startswith(f"{PATH}:20: malformed cell name ''")


def test_a_repeated_name_is_a_problem_that_names_both_lines():
    text = TEXT.replace("# %% last", "# %% first")

    assert problem(text) == f"{PATH}:20: cell 'first' stands at line 6 already"


def test_an_unknown_name_is_a_problem_that_lists_the_known_ones():
    message = (
        f"{PATH}:1: no cell 'lost'; there are: first, second, table, last"
    )

    assert problem(TEXT, "lost") == message


def test_a_file_left_behind_is_a_problem_at_its_cell():
    text = TEXT.replace("b = a + 1", 'open("left.txt", "w").close()')

    assert problem(text, "second") == (
        f"{PATH}:9: cell 'second' leaves behind"
        " in the working folder: left.txt"
    )


def test_an_error_in_a_cell_names_the_line_of_the_file():
    text = TEXT.replace("b = a + 1", "b = a + missing")

    with pytest.raises(NameError) as caught:
        Snippet(PATH, text).after("second")

    place = caught.traceback[-1]
    assert (str(place.path), place.lineno + 1) == (str(PATH), 13)


@pytest.mark.parametrize(("old", "count"), [("= ", 4), ("lost", 0)])
def test_an_edit_that_does_not_fit_once_is_a_problem(old, count):
    with pytest.raises(Problem, match=f"occurs {count} times, not once"):
        Snippet(PATH, TEXT).edit(old, "")


def test_a_snippet_that_asks_for_the_network_fails():
    text = "# %% ask\nimport socket\n\nsocket.getaddrinfo('host', 80)\n"

    with pytest.raises(OSError, match="asked for the network: host"):
        Snippet(PATH, text).after("ask")
