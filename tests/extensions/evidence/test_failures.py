"""What is told of a failure: the edit, the assertion, changed outputs."""

import itertools

import pytest

from extensions.evidence.counterexamples import Failure, failure_of
from extensions.evidence.failures import keep_printed, properties_of_failure
from extensions.programs.snippet import Snippet, printed

PROGRAM = """\
# %% start
word = "one"
print("begins with", word)

# %% count
print("counts", len(word))
print("done")

# %% lists
for number in range(10):
    print(number * len(word))
"""


@pytest.fixture
def snippet(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return Snippet.read(path)


def word_is_one(snippet):
    run = snippet.after("lists")
    assert run.word == "one"


def told(test, *inputs):
    """Return what is recorded once a test has failed."""
    printed.clear()
    error = failure_of(test, *inputs)
    return properties_of_failure(Failure(test, inputs, error, [*printed]))


def outputs(test, *inputs):
    """Return what is recorded of outputs."""
    found = dict(told(test, *inputs))
    return {name: found[name] for name in found if "output" in name}


def fails(*_):
    raise AssertionError


def inputs_told(*inputs):
    """Return what is recorded of the inputs of a test."""
    return [each for each in told(fails, *inputs) if each[0] != "said"]


PRINTS = "    print(number * len(word))"
MORE = '    word = "three" if number > 6 else "one"\n'


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            '"one"',
            '"three"',
            ("start", "begins with one", "begins with three"),
        ),
        # A cell that prints nothing more, and one that differs at its end.
        (PRINTS, "    word = number", ("lists", "0\n3\n6\n9\n12\n15\n…", "")),
        (PRINTS, MORE + PRINTS, ("lists", "…\n21\n24\n27", "…\n35\n40\n45")),
    ],
)
def test_the_first_output_that_differs_is_recorded(snippet, old, new, told):
    found = outputs(word_is_one, snippet.edit(old, new))

    assert tuple(found.values()) == told


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_program_as_it_stands_runs_once(snippet, is_kept):
    runs = []

    def word_is_one(snippet):
        runs.append(snippet.text)
        assert snippet.after("start").word == "one"

    if is_kept:
        printed.clear()
        word_is_one(snippet)
        keep_printed(word_is_one, snippet)
    for word in ("two", "three"):
        found = outputs(word_is_one, snippet.edit('"one"', f'"{word}"'))
        assert found["output before"] == "begins with one"

    assert runs.count(PROGRAM) == 1


def test_a_long_line_is_shown_around_the_difference(snippet):
    snippet.path.write_text(
        '# %% lists\nword = "one"\nprint("a" * 200, len(word))\n'
    )
    edited = Snippet.read(snippet.path).edit('"one"', '"three"')

    assert outputs(word_is_one, edited) == {
        "output cell": "lists",
        "output before": f"… {'a' * 49} 3",
        "output after": f"… {'a' * 49} 5",
    }


def test_what_differs_before_the_edit_does_not_come_from_it(snippet):
    numbers = itertools.count()

    def varies(snippet):
        other = snippet.edit("begins with", f"begins {next(numbers)}")
        assert other.after("lists").word == "one"

    edited = snippet.edit("print(number * len(word))", "word = number")

    assert outputs(varies, edited) == {}


def test_another_input_is_handed_over_as_well(snippet):
    def counts(snippet, cell):
        assert snippet.after(cell).word == "one"

    found = outputs(counts, snippet.edit('"one"', '"two"'), "start")

    assert found["output after"] == "begins with two"


def raises(snippet, *_):
    try:
        snippet.after("count")
    except ZeroDivisionError:
        raise AssertionError from None


def leaves(snippet, folder):
    run = snippet.after("start")
    (folder / run.word).mkdir()
    assert run.word == "one"


def is_empty(snippet, *_):
    assert not snippet.after("count").word


@pytest.mark.parametrize(
    ("test", "old", "new"),
    [
        (raises, 'print("done")', "1 / 0"),
        (leaves, '"one"', '"two"'),  # of a folder that is used already
        (is_empty, "# %% count", "# %% count"),  # as the program stands
        (is_empty, '"one"', '"one at 0x7f0123456789"'),  # which varies
    ],
)
def test_outputs_that_say_nothing_of_an_edit_are_not_recorded(
    snippet, tmp_path, test, old, new
):
    assert outputs(test, snippet.edit(old, new), tmp_path) == {}


def test_the_failing_statement_is_said_and_what_python_says_of_it(snippet):
    def word_is_one(snippet):
        word = snippet.after("start").word
        assert word == "one", (
            "the word is not what the claim says that it should be"
        )

    said = dict(told(word_is_one, snippet.edit('"one"', '"two"')))["said"]

    assert said.splitlines()[:3] == [
        'assert word == "one", (',
        '    "the word is not what the claim says that it should be"',
        ")",
    ]
    assert said.splitlines()[3].startswith("the word is not what")


def test_an_edit_is_recorded_with_its_cell(snippet):
    edited = snippet.edit('"done"', '"told",\n    "twice"')
    lines = '-print("done")\n+print("told",\n+    "twice")'

    assert inputs_told(edited) == [("edit", lines), ("cell edited", "count")]


def test_cells_that_a_test_leaves_out_are_no_part_of_the_edit(snippet):
    [edit, *_] = inputs_told(snippet.only("count").edit('"done"', '"told"'))

    assert edit == ("edit", '-print("done")\n+print("told")')


def test_another_input_is_recorded_if_it_says_something(snippet, capsys):
    inputs = (snippet, (1, 3), capsys, "fork", snippet.path)

    assert inputs_told(*inputs) == [("input", "(1, 3)"), ("input", "'fork'")]
