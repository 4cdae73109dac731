"""Recaps and exercises: what a reader is asked, and what the page shows."""

import re

import nbformat
import pytest

from extensions.claims.words import NO_ANSWER
from tests.helpers.builds import built
from tests.helpers.evidence import record

EXERCISES = """
```{exercise} predict count
:hint: One.

What is it?
```

```{exercise} repair word-is-one__but-not-of-another
:hint: Look at `word`.

Change one line so that it is another.
```

```{exercise} build number check
Write an even number.
```
"""
PROGRAM = """
# %% number
number = 4

# %% check
print("Right: even" if number % 2 == 0 else "Not yet: odd")
"""
UNRECORDED = "repair word-is-two__but-not-of-another"
UNANSWERED = "repair word-is-two__but-never"
LOST = ["word-is-six", "part/one#word-is-six"]
UNCLEAR = ["word-is-one__but-not-x", "guess count", "build number"]


@pytest.fixture(scope="module")
def asking(new_house):
    """A site with exercises on a page, and unclear ones on another."""
    house = new_house()
    page = house / "docs/part/one.md"
    page.write_text(
        page.read_text().replace("```{cell} count\n```\n", EXERCISES)
    )
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + PROGRAM)
    arguments = [*UNCLEAR, UNRECORDED, UNANSWERED]
    others = [f"\n```{{exercise}} {each}\nTry.\n```\n" for each in arguments]
    others += [f"\n```{{recap}} {each}\n```\n" for each in LOST]
    (house / "docs/part/two.md").write_text("# Two\n" + "".join(others))
    printed = {"output before": "one", "output after": "other"}
    record(
        house,
        failures={"edit": "-old\n+new", "said": "assert"} | printed,
        failures_of={"test_word_is_two__but_not_of_another": {}},
    )
    return built(house, confoverrides={"html_baseurl": "https://a.org/"})


def exercises_of(app, page):
    """Return the words of each exercise of a page, and its HTML."""
    html = (app.outdir / f"{page}.html").read_text()
    html = re.split('<p class="page-tally">|</section>', html)[0]
    code = re.sub("</?span.*?>", "", html)  # marks within the words of code
    boxes = code.split('<div class="exercise')[1:]
    texts = [re.sub("<.*?>", " ", each.partition(">")[2]) for each in boxes]
    return [" ".join(each.split()) for each in texts], boxes


@pytest.fixture
def cells(asking):
    """The cells of the notebook, from the first exercise on."""
    path = asking.srcdir / "code/part/one.ipynb"
    found = nbformat.read(path, 4)["cells"]
    [first] = [n for n, e in enumerate(found) if "**Predict**" in e["source"]]
    return found[first:]


def test_each_exercise_asks_and_folds_its_answer(asking):
    words, boxes = exercises_of(asking, "part/one")

    assert "one.md" not in asking.warning.getvalue()
    assert words == [
        'Predict What is it? print(word, "counted")'
        " Hint One. Answer one counted",
        "Repair Change one line so that it is another."
        " Hint Look at word . Answer -old +new Now the program prints: other"
        " With this change, the program no longer shows: word is one.",
        "Build Write an even number. Check it"
        ' print("Right: even" if number % 2 == 0 else "Not yet: odd")'
        " Run this below your own code. A right answer gives: Right: even"
        " Answer number = 4",
    ]
    answer = boxes[0].index("<summary>Answer</summary>")
    assert boxes[0].index('id="cell-count"') < answer
    assert answer < boxes[0].index("one counted")


def test_a_notebook_lets_who_predicts_run_the_cell(cells):
    question, code, answer = cells[:3]

    assert question["source"].endswith("What is it?\n\n" + HINT.format("One."))
    assert (code["source"], code["outputs"]) == ('print(word, "counted")', [])
    assert answer["source"].startswith("Run the cell: it gives the answer.")


HINT = "<details><summary>Hint</summary>\n\n{}\n\n</details>"
REPAIR = (
    """\
**Repair**

Change one line so that it is another.

"""
    + HINT.format("Look at `word`.")
    + """

<details><summary>Answer</summary>

```diff
-old
+new
```

Now the program prints:

```text
other
```

With this change, the program no longer shows:

> `word` is one.

</details>"""
)


def test_downloads_have_the_hint_and_the_answer_of_a_repair(asking, cells):
    assert REPAIR in "\n\n".join(each["source"] for each in cells)
    text = (asking.outdir / "part/one.md").read_text()
    assert REPAIR.partition("Answer")[2] in text


def test_a_notebook_has_room_for_what_a_reader_builds(cells):
    code = [each for each in cells if each["cell_type"] == "code"]

    assert code[-2]["source"] == "# Your code"
    assert code[-1]["source"].startswith('print("Right: even"')
    assert code[-1]["outputs"] == []
    assert not any("number = 4" in each["source"] for each in code)
    answer = cells[-1]["source"]
    assert "Answer</summary>\n\n```python\nnumber = 4\n```" in answer


def test_a_repair_that_no_run_has_recorded_says_so(asking):
    words, _ = exercises_of(asking, "part/two")

    assert [each.endswith(NO_ANSWER) for each in words] == [True, True]


@pytest.mark.parametrize(
    "said",
    [
        "19: WARNING: an exercise of no counter-example: 'test_word_is_two__",
        "23: ERROR: a recap of no claim of this page: 'word-is-six'",
        "26: ERROR: a recap of no claim of part/one: 'word-is-six'",
    ],
)
def test_what_names_no_counter_example_or_claim_is_reported(asking, said):
    assert f"two.md:{said}" in asking.warning.getvalue()


@pytest.mark.parametrize("argument", UNCLEAR)
def test_an_unclear_exercise_is_an_error_at_its_line(asking, argument):
    line = 3 + 4 * UNCLEAR.index(argument)

    assert (
        f"two.md:{line}: ERROR: expected predict CELL, repair COUNTER-EXAMPLE,"
        f" or build SOLUTION CHECK: '{argument}'"
    ) in asking.warning.getvalue()


# -- Recaps ------------------------------------------------------------------


def test_a_recap_repeats_claims_and_results_and_where_they_end(varied):
    html = varied.html("part/one")
    own, other = re.findall(
        "<li>(.*?)</li>",
        re.findall('<ul class="recap.*?</ul>', html, re.S)[0],
        re.S,
    )

    assert 'href="#word-is-one"' in own
    assert 'href="two.html#word-is-two"' in other
    assert html.count('id="word-is-one"') == 1
    ends = "Where it ends: At night, it is two."
    assert f'<small class="claim-ends">{ends}</small>' in own
    said = [re.sub("<.*?>", "", each).split() for each in (own, other)]
    assert said == [
        ["word", "is", "one✓", *ends.split()],
        ["word", "is", "two◐", "Two"],
    ]
    assert not varied.warnings
    notebook = varied.app.srcdir / "code/part/one.ipynb"
    assert "- `word` is one" in notebook.read_text()
    assert "- `word` is two" in notebook.read_text()
