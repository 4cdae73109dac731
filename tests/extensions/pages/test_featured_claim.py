"""A claim on the front page to play with: a line to take out, and guesses."""

import re

import pytest

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


@pytest.fixture
def front(house):
    """The front page, which shows a claim of another page."""
    run = record(house)
    run.write_text(run.read_text().replace('"-old', '"-word = 1'))
    page = house / "docs/index.md"
    page.write_text(page.read_text() + WRITTEN)
    return page


def box(app):
    html = (app.outdir / "index.html").read_text()
    return html[html.index('class="surprise') :]


def test_it_shows_the_program_with_the_line_that_is_to_go(front, build):
    html = box(build())

    assert html.index("what is <code") < html.index("highlight-python")
    assert re.search(r'<span class="hll">.*word', html)


def test_each_guess_is_a_choice_and_one_is_right(front, build):
    html = box(build())

    assert re.findall(r'<label class="guess-(\w+)">', html) == [
        "wrong",
        "right",
    ]
    assert html.count('<input name="guess" type="radio">') == 2
    assert "</input>" not in html
    assert "<span>It is <em>one</em>.</span>" in html
    assert '<button type="reset">Put the line back</button></form>' in html


def test_what_comes_of_it_follows_and_is_announced(front, build):
    html = box(build())
    before, after = html.split('<div role="status">')

    assert "one counted" not in before
    assert "one counted" in after
    assert 'class="surprise-after' in after


def test_the_words_are_links_with_their_signs(front, build):
    html = box(build())

    link = 'href="part/one.html#word-is-one"'
    found = re.findall(f"<a class=.*{link}><code.*word.* is one</a>", html)
    assert len(found) == 2
    assert html.count('<span class="claim-sign claim-passed"') == 2


def test_it_shows_what_the_test_says_without_the_line(front, build):
    html = box(build())

    assert '<pre class="claim-said">assert old == new</pre>' in html
    assert 'href="evidence/tests/part/one.html#line-5">Its test' in html


def test_it_says_what_each_run_says(house, front, build):
    record(house, "evidence/other", {"torch": "2.6.0"})
    html = box(build())

    assert "<strong>✓ Passed</strong> on CPU: torch 2.13.0 (x86_64)" in html
    assert "<li>✓ torch 2.6.0</li>" in html


def test_only_the_front_page_has_its_style(front, build):
    app = build()

    assert "front.css" in (app.outdir / "index.html").read_text()
    assert "front.css" not in (app.outdir / "part/one.html").read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "#word-is-one",
            "#word-is-two",
            "part/one has no claim 'word-is-two'",
        ),
        (":then: word", ":then: words", "no claim 'words-is-one'"),
        (": count", ": tally", "no cell 'tally'"),
        (":cell: start\n", "", "say :cell: of word-is-one"),
        (": word =", ": words =", "no line of 'start' holds 'words ='"),
        (": word =", ": one", "recorded an edit of word-is-one with 'one'"),
        ("answer: 2", "answer: 3", "the answer is none of the guesses"),
        ("- It is *one*.\n- There is none.\n", "", "with a list of guesses"),
    ],
)
def test_what_is_not_there_is_named_at_its_line(front, build, old, new, said):
    front.write_text(front.read_text().replace(old, new))

    [warning] = [
        line
        for line in build().warning.getvalue().splitlines()
        if "index.md" in line
    ]
    assert re.search(r"index\.md:1[34]: ", warning)
    assert said in warning
