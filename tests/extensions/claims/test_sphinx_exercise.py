"""Exercises: what a reader is asked, and what the page then shows."""

import re

import nbformat
import pytest

from extensions.claims.repairs import NO_ANSWER
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


@pytest.fixture
def shown(house, build):
    """Build a page with an exercise; return its words, and its HTML."""

    def shown(text, program="", *, warns=False):
        page = house / "docs/part/one.md"
        page.write_text(text)
        snippet = house / "snippets/part/one.py"
        snippet.write_text(snippet.read_text() + program)
        app = build(confoverrides={"html_baseurl": "https://example.org/"})
        assert bool(app.warning.getvalue()) == warns
        html = (app.outdir / "part/one.html").read_text()
        start = html.index('<div class="exercise')
        html = html[start : html.index("</section>", start)]
        words = " ".join(re.sub("<.*?>", " ", html).split())
        return words, html

    return shown


@pytest.fixture
def cells(house):
    """Return the cells of the notebook, once the page is built."""

    def cells():
        path = house / "docs/code/part/one.ipynb"
        return nbformat.read(path, 4)["cells"]

    return cells


@pytest.fixture
def page(house):
    """The text of a page of two cells, without the second."""
    text = (house / "docs/part/one.md").read_text()
    return text.replace("```{cell} count\n```\n", "")


COUNT = "\n```{exercise} predict count\n:hint: One.\n\nWhat is it?\n```\n"


def test_what_a_cell_prints_is_the_answer_of_who_predicts(page, shown):
    words, html = shown(page + COUNT)

    assert words == (
        'Predict What is it? print(word, "counted")'
        " Hint One. Answer one counted"
    )
    answer = html.index("<summary>Answer</summary>")
    assert html.index('id="cell-count"') < answer < html.index("one counted")


def test_a_notebook_lets_who_predicts_run_the_cell(page, shown, cells):
    shown(page + COUNT)

    question, code, answer, _ = cells()[-4:]
    assert question["source"].endswith(
        "\n\n**Predict**\n\nWhat is it?\n\n"
        "<details><summary>Hint</summary>\n\nOne.\n\n</details>"
    )
    assert code["source"] == 'print(word, "counted")'
    assert code["outputs"] == []
    assert answer["source"] == "Run the cell: it gives the answer."


def test_the_edit_is_the_answer_of_who_repairs(page, shown):
    words, html = shown(page + "\n```{cell} count\n```\n" + REPAIR)

    assert words == (
        "Repair Change one line so that it is another."
        " Hint Look at word . Answer -old +new"
        " With this change, this is no longer true: word is one."
    )
    assert html.count("<summary>Answer</summary>") == 1


def test_a_repair_shows_what_the_program_then_prints(house, page, shown):
    outputs = {"output before": "one", "output after": "other"}
    record(house, failures={"edit": "+new", "said": "assert"} | outputs)

    words, _ = shown(page + "\n```{cell} count\n```\n" + REPAIR)

    assert " Answer +new Now the program prints: other With this" in words


def test_a_notebook_has_the_hint_and_the_answer_of_a_repair(
    house, page, shown, cells
):
    outputs = {"output before": "one", "output after": "other"}
    record(house, failures={"edit": "+new", "said": "assert"} | outputs)

    shown(page + "\n```{cell} count\n```\n" + REPAIR)

    assert cells()[-2]["source"] == (
        "**Repair**\n\nChange one line so that it is another.\n\n"
        "<details><summary>Hint</summary>\n\nLook at `word`.\n\n</details>"
        "\n\n<details><summary>Answer</summary>\n\n```diff\n+new\n```\n\n"
        "Now the program prints:\n\n```text\nother\n```\n\n"
        "With this change, this is no longer true:\n\n> `word` is one.\n\n"
        "</details>"
    )
    text = (house / "out/html/part/one.md").read_text()
    assert "```diff\n+new\n```" in text.partition("## The claims")[0]


def test_a_repair_that_no_run_has_recorded_says_so(house, page, shown):
    (house / "build/evidence/this-build/tests.xml").unlink()

    words, _ = shown(page + "\n```{cell} count\n```\n" + REPAIR, warns=True)

    assert words.endswith(NO_ANSWER)


def test_who_builds_gets_a_check_and_an_answer(page, shown):
    text = page + "\n```{cell} count\n```\n" + BUILD

    words, _ = shown(text, BUILT)

    assert words.startswith("Build Write an even number. Check it print(")
    assert words.endswith(
        "Run this below your own code. A right answer gives:"
        " Right: even Answer number = 4"
    )


def test_a_notebook_has_room_for_what_a_reader_builds(page, shown, cells):
    shown(page + "\n```{cell} count\n```\n" + BUILD, BUILT)

    code = [each for each in cells() if each["cell_type"] == "code"]
    assert code[-2]["source"] == "# Your code"
    assert code[-1]["source"].startswith('print("Right: even"')
    assert code[-1]["outputs"] == []
    assert not any("number = 4" in each["source"] for each in code)
    answer = cells()[-2]["source"]
    assert "Answer</summary>\n\n```python\nnumber = 4\n```" in answer


@pytest.mark.parametrize(
    "argument", ["word-is-one__but-not-x", "guess count", "build number"]
)
def test_an_unclear_exercise_is_an_error_at_its_line(house, build, argument):
    page = house / "docs/part/one.md"
    page.write_text(f"# One\n\n```{{exercise}} {argument}\nTry.\n```\n")

    said = build().warning.getvalue()

    assert (
        "one.md:3: ERROR: expected predict CELL, repair COUNTER-EXAMPLE,"
        f" or build SOLUTION CHECK: '{argument}'"
    ) in said
