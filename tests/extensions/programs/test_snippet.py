"""Snippets, cut into cells and run."""

import sys
from pathlib import Path

import pytest
import torch

from extensions.core.files import Problem
from extensions.programs.snippet import (
    Snippet,
    after,
    fresh_start,
    reset_torch,
)

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


def test_a_cell_knows_its_line_and_its_code():
    cells = Snippet(PATH, TEXT).cells()

    assert (cells["first"].line, cells["first"].source) == (6, "a = 1")
    assert cells["second"].code == "b = a + 1"  # without its prose


def test_a_run_ends_with_the_named_cell_and_leaves_out_what_only_shows():
    snippet = Snippet(PATH, TEXT)

    assert snippet.after("second").b == 2
    assert not hasattr(snippet.after("second"), "d")
    assert not hasattr(snippet.after("last"), "c")
    assert snippet.after("table").c == 3


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


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("# %% Last_One", "malformed cell name 'Last_One': write lower-case"),
        ("# %%", "malformed cell name '': write lower-case"),
        ("# %% first", "cell 'first' stands at line 6 already"),
    ],
)
def test_a_bad_name_is_a_problem_at_its_line(mark, said):
    text = TEXT.replace("# %% last", mark)

    assert problem(text).startswith(f"{PATH}:20: {said}")


def test_an_unknown_name_is_a_problem_that_lists_the_known_ones():
    known = "no cell 'lost'; there are: first, second, table, last"

    assert problem(TEXT, "lost") == f"{PATH}:1: {known}"
    with pytest.raises(Problem, match=known):
        Snippet(PATH, TEXT).only("first", "lost")


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


def test_cells_run_alone_and_once_for_all_tests():
    text = (
        "# %% one\nruns = [1]\n# %% two\nruns += [2]\n# %% three\nruns += [3]"
    )
    snippet = Snippet(PATH, text)

    run = after(snippet, "one", "three")

    assert run.runs == [1, 3]
    assert after(snippet, "one", "three") is run
    assert after(snippet, "one", "two", "three") is not run
    assert after(snippet.edit("[3]", "[4]"), "one", "three").runs == [1, 4]


def folder_of(program):
    """Return the folder in which a program has run."""
    with fresh_start():
        place = Path.cwd()
        assert not list(place.iterdir())
        program(place)
    return place


def leave(place):
    (place / "left").mkdir()
    (place / "left/file").touch()


@pytest.mark.parametrize("program", [leave, Path.rmdir])
def test_a_program_runs_in_the_folder_of_the_one_before_if_that_is_empty(
    program,
):
    here = Path.cwd()
    first = folder_of(program)

    assert not first.exists()
    second = folder_of(lambda place: None)
    assert folder_of(lambda place: None) == second != first
    assert Path.cwd() == here != second


def test_a_program_finds_the_torch_of_a_fresh_prompt(monkeypatch):
    cudnn = torch.backends.cudnn
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_printoptions(precision=1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.fp32_precision = "ieee"
    cudnn.enabled, cudnn.benchmark = False, True
    cudnn.deterministic, cudnn.allow_tf32 = True, False
    monkeypatch.setattr(sys, "excepthook", print)

    reset_torch({}, "")

    assert torch.tensor(1.0).dtype == torch.float32
    assert torch.is_grad_enabled()
    assert repr(torch.tensor(0.1234)) == "tensor(0.1234)"
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.backends.fp32_precision == "none"
    assert (cudnn.enabled, cudnn.benchmark) == (True, False)
    assert (cudnn.deterministic, cudnn.allow_tf32) == (False, True)
    assert sys.excepthook is sys.__excepthook__
    first = torch.rand(10)
    reset_torch({}, "")
    assert not torch.equal(first, torch.rand(10))  # no seed


def test_a_program_finds_nothing_compiled(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: calls.append(1))
    monkeypatch.setitem(sys.modules, "torch._dynamo", torch)

    reset_torch({}, "")

    assert calls == [1]
