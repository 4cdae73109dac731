"""Exercises: what a reader is asked, and what the page then shows."""

import re

import nbformat
import pytest

from extensions.claims.ledger import NO_ANSWER
from tests.helpers.builds import built
from tests.helpers.evidence import record

REPAIR = (
    "\n```{exercise} repair word-is-one__but-not-of-another\n"
    ":hint: Look at `word`.\n\n"
    "Change one line so that it is another.\n```\n"
)
BUILT = """
# %% number
number = 4

# %% check
print("Right: even" if number % 2 == 0 else "Not yet: odd")
"""
BUILD = "\n```{exercise} build number check\nWrite an even number.\n```\n"


CELL = "```{cell} count\n```\n"
COUNT = "\n```{exercise} predict count\n:hint: One.\n\nWhat is it?\n```\n"


def built_with(house, exercise, program=""):
    """Build a house with an exercise on a page, and more of its program."""
    page = house / "docs/part/one.md"
    page.write_text(page.read_text().replace(CELL, exercise))
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + program)
    home = {"html_baseurl": "https://example.org/"}
    return built(house, confoverrides=home)


def shown(app):
    """Return the words of the exercise, and its HTML."""
    html = (app.outdir / "part/one.html").read_text()
    start = html.index('<div class="exercise')
    html = html[start : html.index("</section>", start)]
    code = re.sub("</?span.*?>", "", html)  # marks within the words of code
    words = " ".join(re.sub("<.*?>", " ", code).split())
    return words, html


def cells(app):
    """Return the cells of the notebook."""
    return nbformat.read(app.srcdir / "code/part/one.ipynb", 4)["cells"]


@pytest.fixture(scope="module")
def predict(new_house):
    """A site that asks what a cell prints."""
    return built_with(new_house(), COUNT)


@pytest.fixture(scope="module")
def repair(new_house):
    """A site that asks for a change, and knows what that makes it print."""
    house = new_house()
    outputs = {"output before": "one", "output after": "other"}
    record(house, failures={"edit": "+new", "said": "assert"} | outputs)
    return built_with(house, CELL + REPAIR)


@pytest.fixture(scope="module")
def write(new_house):
    """A site that asks for code, which a cell checks."""
    return built_with(new_house(), CELL + BUILD, BUILT)


def test_what_a_cell_prints_is_the_answer_of_who_predicts(predict):
    words, html = shown(predict)

    assert not predict.warning.getvalue()

    assert words == (
        'Predict What is it? print(word, "counted")'
        " Hint One. Answer one counted"
    )
    answer = html.index("<summary>Answer</summary>")
    assert html.index('id="cell-count"') < answer < html.index("one counted")


def test_a_notebook_lets_who_predicts_run_the_cell(predict):
    question, code, answer, _ = cells(predict)[-4:]
    assert question["source"].endswith(
        "\n\n**Predict**\n\nWhat is it?\n\n"
        "<details><summary>Hint</summary>\n\nOne.\n\n</details>"
    )
    assert code["source"] == 'print(word, "counted")'
    assert code["outputs"] == []
    assert answer["source"] == "Run the cell: it gives the answer."


def test_the_edit_is_the_answer_of_who_repairs(house):
    app = built_with(house, CELL + REPAIR)

    words, html = shown(app)
    assert not app.warning.getvalue()

    assert words == (
        "Repair Change one line so that it is another."
        " Hint Look at word . Answer -old +new"
        " With this change, this is no longer true: word is one."
    )
    assert html.count("<summary>Answer</summary>") == 1


def test_a_repair_shows_what_the_program_then_prints(repair):
    words, _ = shown(repair)

    assert not repair.warning.getvalue()
    assert " Answer +new Now the program prints: other With this" in words


def test_a_notebook_has_the_hint_and_the_answer_of_a_repair(repair):
    assert cells(repair)[-2]["source"] == (
        "**Repair**\n\nChange one line so that it is another.\n\n"
        "<details><summary>Hint</summary>\n\nLook at `word`.\n\n</details>"
        "\n\n<details><summary>Answer</summary>\n\n```diff\n+new\n```\n\n"
        "Now the program prints:\n\n```text\nother\n```\n\n"
        "With this change, this is no longer true:\n\n> `word` is one.\n\n"
        "</details>"
    )
    text = (repair.outdir / "part/one.md").read_text()
    assert "```diff\n+new\n```" in text.partition("## The claims")[0]


def test_a_repair_that_no_run_has_recorded_says_so(house):
    (house / "build/evidence/this-build/tests.xml").unlink()

    app = built_with(house, CELL + REPAIR)

    words, _ = shown(app)
    assert app.warning.getvalue()
    assert words.endswith(NO_ANSWER)


def test_who_builds_gets_a_check_and_an_answer(write):
    words, _ = shown(write)

    assert not write.warning.getvalue()
    assert words.startswith("Build Write an even number. Check it print(")
    assert words.endswith(
        "Run this below your own code. A right answer gives:"
        " Right: even Answer number = 4"
    )


def test_a_notebook_has_room_for_what_a_reader_builds(write):
    found = cells(write)

    code = [each for each in found if each["cell_type"] == "code"]
    assert code[-2]["source"] == "# Your code"
    assert code[-1]["source"].startswith('print("Right: even"')
    assert code[-1]["outputs"] == []
    assert not any("number = 4" in each["source"] for each in code)
    answer = found[-2]["source"]
    assert "Answer</summary>\n\n```python\nnumber = 4\n```" in answer


UNCLEAR = ["word-is-one__but-not-x", "guess count", "build number"]


@pytest.fixture(scope="module")
def unclear(new_house):
    """What a build says of a page whose exercises are unclear."""
    house = new_house()
    exercises = [f"\n```{{exercise}} {each}\nTry.\n```\n" for each in UNCLEAR]
    (house / "docs/part/one.md").write_text("# One\n" + "".join(exercises))
    return built(house).warning.getvalue()


@pytest.mark.parametrize("argument", UNCLEAR)
def test_an_unclear_exercise_is_an_error_at_its_line(unclear, argument):
    line = 3 + 4 * UNCLEAR.index(argument)

    assert (
        f"one.md:{line}: ERROR: expected predict CELL, repair COUNTER-EXAMPLE,"
        f" or build SOLUTION CHECK: '{argument}'"
    ) in unclear
