"""An exercise, made from a counter-example."""

import re

import pytest

from extensions.claims.sphinx_exercise import NO_ANSWER
from tests.helpers.evidence import record

EXERCISE = (
    "\n```{exercise} word-is-one__but-not-of-another\n"
    "Change one line so that it is another.\n```\n"
)


@pytest.fixture
def page(house):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + EXERCISE)
    return page


def box(app):
    """Return the words of the exercise, and the page."""
    html = (app.outdir / "part/one.html").read_text()
    start = html.index('<div class="exercise')
    inside = html[start : html.index('<p class="program', start)]
    return re.sub("<.*?>", " ", inside).split(), html


def test_the_answer_is_the_edit_and_what_the_test_then_says(page, build):
    app = build()

    words, html = box(app)
    assert " ".join(words) == (
        "Change one line so that it is another."
        " Answer -old +new"
        " The test of the claim then fails, and says: assert old == new"
    )
    assert html.count("<summary>Answer</summary>") == 1
    assert not app.warning.getvalue()


def test_a_hint_names_the_cell_to_change(house, page, build):
    path = record(house)
    hint = '<property name="cell edited" value="start" /><property name="edit"'
    path.write_text(path.read_text().replace('<property name="edit"', hint))

    words, html = box(build())

    assert "Hint Change the cell start . Answer" in " ".join(words)
    assert 'href="#cell-start"' in html


def test_an_answer_that_no_run_has_recorded_says_so(house, page, build):
    (house / "build/evidence/this-build/tests.xml").unlink()

    words, _ = box(build())

    assert " ".join(words).endswith(NO_ANSWER)


def test_the_notebook_asks_and_says_where_the_answer_is(page, house, build):
    build(confoverrides={"html_baseurl": "https://example.org/"})

    notebook = (house / "docs/code/part/one.ipynb").read_text()
    assert "Change one line so that it is another." in notebook
    assert (
        "[The page](https://example.org/part/one.html) has a hint"
        " and an answer."
    ) in notebook
