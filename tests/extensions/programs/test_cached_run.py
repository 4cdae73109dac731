"""Programs that several tests look at."""

from extensions.programs.snippet import Snippet, after

PROGRAM = """
# %% one
runs = []

# %% two
runs.append("two")

# %% three
runs.append("three")
"""


def test_cells_run_alone_and_once_for_all_tests(tmp_path):
    snippet = Snippet(tmp_path / "one.py", PROGRAM)

    run = after(snippet, "one", "three")

    assert run.runs == ["three"]
    assert after(snippet, "one", "three") is run
    assert after(snippet, "one", "two", "three") is not run
    assert after(snippet.edit('"three"', '"3"'), "one", "three").runs == ["3"]
