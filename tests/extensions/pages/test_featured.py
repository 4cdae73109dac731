"""A claim on the front page to play with: a line to take out, and guesses."""

import re

import pytest

from tests.helpers.builds import built
from tests.helpers.evidence import record

WRITTEN = """
```{featured-claim} part/one#word-is-one
:cell: start
:edit: word =
:before: start
:after: count
:then: word-is-one
:answer: 2

Without this line, what is `word`?

- It is *one*.
- There is none.
```
"""


WRONG = {
    "other claim": (
        "#word-is-one",
        "#word-is-two",
        "part/one has no claim 'word-is-two'",
    ),
    "other end": (":then: word", ":then: words", "no claim 'words-is-one'"),
    "no cell": (": count", ": tally", "no cell 'tally'"),
    "no start": (":cell: start\n", "", "say :cell: of word-is-one"),
    "no line": (
        ": word =",
        ": words =",
        "no line of 'start' holds 'words ='",
    ),
    "no edit": (
        ": word =",
        ": one",
        "recorded an edit of word-is-one with 'one'",
    ),
    "no answer": (
        "answer: 2",
        "answer: 3",
        "the answer is none of the guesses",
    ),
    "no guess": (
        "- It is *one*.\n- There is none.\n",
        "",
        "with a list of guesses",
    ),
}


@pytest.fixture(scope="module")
def featured(new_house):
    """A front page that shows a claim of another, and pages that do wrong."""
    house = new_house()
    run = record(house)
    run.write_text(run.read_text().replace('"-old', '"-word = 1'))
    record(house, "evidence/other", {"torch": "2.6.0"})
    page = house / "docs/index.md"
    text = page.read_text().replace("part/*", "part/*\nwrong/*")
    page.write_text(text + WRITTEN)
    (house / "docs/wrong").mkdir()
    for name, (old, new, _) in WRONG.items():
        page = house / f"docs/wrong/{name}.md"
        page.write_text(f"# Wrong\n{WRITTEN.replace(old, new)}")
    return built(house)


def box(app):
    html = (app.outdir / "index.html").read_text()
    return html[html.index('class="surprise') :]


def test_it_shows_the_program_with_the_line_that_is_to_go(featured):
    html = box(featured)

    assert html.index("what is <code") < html.index("highlight-python")
    assert re.search(r'<span class="hll">.*word', html)


def test_each_guess_is_a_choice_and_one_is_right(featured):
    html = box(featured)

    assert re.findall(r'<label class="guess-(\w+)">', html) == [
        "wrong",
        "right",
    ]
    assert html.count('<input name="guess" type="radio">') == 2
    assert "</input>" not in html
    assert "<span>It is <em>one</em>.</span>" in html
    assert '<button type="reset">Put the line back</button></form>' in html


def test_what_comes_of_it_follows_and_is_announced(featured):
    html = box(featured)
    before, after = html.split('<div role="status">')

    assert "one counted" not in before
    assert "one counted" in after
    assert 'class="surprise-after' in after


def test_the_words_are_links_with_their_signs(featured):
    html = box(featured)

    link = 'href="part/one.html#word-is-one"'
    found = re.findall(f"<a class=.*{link}><code.*word.* is one</a>", html)
    assert len(found) == 2
    assert html.count('<span class="claim-sign claim-passed"') == 2


def test_it_shows_what_the_test_says_without_the_line(featured):
    html = box(featured)

    assert '<pre class="claim-said">assert old == new</pre>' in html
    assert 'href="evidence/tests/part/one.html#line-5">Its test' in html


def test_it_says_what_each_run_says(featured):
    html = box(featured)

    assert "<strong>✓ Passed</strong> on CPU: torch 2.13.0 (x86_64)" in html
    assert "<li>✓ torch 2.6.0</li>" in html


def test_only_the_front_page_has_its_style(featured):
    assert "front.css" in (featured.outdir / "index.html").read_text()
    assert "front.css" not in (featured.outdir / "part/one.html").read_text()


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_there_is_named_at_its_line(featured, name):
    [warning] = [
        line
        for line in featured.warning.getvalue().splitlines()
        if f"/wrong/{name}.md:" in line
    ]
    assert re.search(r"\.md:[34]: ", warning)
    assert WRONG[name][2] in warning
