"""A claim on the front page, with all that is behind it."""

import re

import pytest

from tests.helpers.evidence import record

WRITTEN = """
```{featured-claim} part/one#word-is-one
:cell: count
:edit: new

Which word?
```
"""


@pytest.fixture
def front(house):
    """The front page, which shows a claim of another page."""
    page = house / "docs/index.md"
    page.write_text(page.read_text() + WRITTEN)
    return page


def box(app):
    html = (app.outdir / "index.html").read_text()
    return html[html.index('class="surprise') :]


def test_it_shows_the_words_with_their_sign_as_a_link(front, build):
    html = box(build())

    assert html.index("<p>Which word?</p>") < html.index("word-is-one")
    link = 'href="part/one.html#word-is-one"'
    assert re.search(f"<a class=.*{link}><code.*word.* is one</a>", html)
    assert '<span class="claim-sign claim-passed"' in html


def test_it_shows_what_the_run_made(front, build):
    assert "one counted" in box(build())


def test_it_shows_an_edit_and_what_the_test_then_says(front, build):
    html = box(build())

    assert '<span class="claim-new">+new</span>' in html
    assert '<pre class="claim-said">assert old == new</pre>' in html
    assert 'href="evidence/tests/part/one.html#line-5">its test' in html


def test_it_says_what_each_run_says(house, front, build):
    record(house, "evidence/other", {"torch": "2.6.0"})
    html = box(build())

    assert "<strong>✓ Passed</strong> on CPU: torch 2.13.0 (x86_64)" in html
    assert "<li>✓ torch 2.6.0</li>" in html


def test_it_follows_the_run_of_the_tests(house, front, build):
    build()
    record(house, test_word_is_one="failed")

    assert "<strong>✗ Failed</strong> on CPU" in box(build())


def test_only_the_front_page_has_its_style(front, build):
    app = build()

    assert "front.css" in (app.outdir / "index.html").read_text()
    assert "front.css" not in (app.outdir / "part/one.html").read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("word-is-one", "word-is-two", "part/one has no claim 'word-is-two'"),
        (": count", ": tally", "no cell 'tally'"),
        (":cell: count\n", "", "say :cell: of word-is-one"),
        (": new", ": newer", "recorded an edit of word-is-one with 'newer'"),
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
