"""What readers open, try and guess."""

import json
import re

import pytest

from extensions.core.files import text_of
from extensions.core.markdown import BROADCASTING
from tests.helpers.broadcasting import PRINTED, as_text
from tests.helpers.builds import built
from tests.helpers.evidence import record

FEATURED = """
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
# What is wrong on a page of its own, and what is said of it.
WRONG = {
    "other claim": ("#word-is-one", "#word-two", "no claim 'word-two'"),
    "other end": (":then: word", ":then: words", "no claim 'words-is-one'"),
    "no cell": (": count", ": tally", "no cell 'tally'"),
    "no edit": (": word =", ": lost", "no line of it has 'lost'"),
}
FOLD = """
:::{fold} What `word` is
Look: [`word` is one]{#word-is-one .claim}.
:::
"""


@pytest.fixture(scope="module")
def site(new_house):
    """A front page that features a claim, a page with a fold and with shapes
    to try, and pages that do wrong.
    """
    house = new_house()
    record(house)
    record(house, "evidence/other", {"torch": "2.6.0"})
    index = house / "docs/index.md"
    text = index.read_text().replace("part/*", "part/*\nwrong/*")
    index.write_text(text + FEATURED)
    page = house / "docs/part/one.md"
    claim = "[`word` is one]{#word-is-one .claim}."
    text = page.read_text()
    assert claim in text
    shapes = "\n```{broadcasting}\n```\n"
    page.write_text(text.replace(claim, "Words.") + FOLD + shapes)
    (house / "docs/wrong").mkdir()
    for name, (old, new, _) in WRONG.items():
        page = house / f"docs/wrong/{name}.md"
        page.write_text(f"# Wrong\n{FEATURED.replace(old, new)}")
    page = house / "docs/wrong/fold.md"
    page.write_text("# Wrong\n\n:::{fold} Nothing\n:::\n")
    return built(house, confoverrides={"html_baseurl": "https://a.org/"})


@pytest.fixture(scope="module")
def box(site):
    """The featured claim on the front page."""
    html = (site.outdir / "index.html").read_text()
    return html[html.index('class="surprise') :]


def test_a_fold_opens_with_its_title_and_keeps_its_claims(site):
    html = (site.outdir / "part/one.html").read_text()
    [said] = re.findall(r'<details class="fold">.*?</p>', html, re.S)

    assert "<summary>What <code>word</code> is</summary>" in said
    assert 'id="word-is-one"' in said


def test_downloads_give_an_example_in_place_of_the_form_for_two_shapes(site):
    html = (site.outdir / "part/one.html").read_text()
    assert '<div class="broadcasting">' in html
    end = (
        f"{BROADCASTING}\n\n"
        "[The page](https://a.org/part/one.html) lets you try others."
    )

    assert end in (site.outdir / "part/one.md").read_text()
    notebook = (site.srcdir / "code/part/one.ipynb").read_text()
    cells = json.loads(notebook)["cells"]
    assert any(end in "".join(cell["source"]) for cell in cells)


def test_the_browser_compares_with_what_this_torch_prints():
    # If not: python -m tests.helpers.broadcasting
    assert as_text() == text_of(PRINTED)


def test_only_a_page_with_a_box_loads_its_files(site):
    for name, page in (("front.css", "index"), ("broadcasting", "part/one")):
        assert name in (site.outdir / f"{page}.html").read_text()
        assert name not in (site.outdir / "part/two.html").read_text()


def test_a_featured_claim_shows_the_program_with_the_line_that_is_to_go(box):
    assert box.index("what is <code") < box.index("highlight-python")
    assert re.search(r'<span class="hll">.*word', box)


def test_each_guess_is_a_choice_and_one_is_right(box):
    guesses = re.findall(r'<label class="guess-(\w+)">', box)
    assert guesses == ["wrong", "right"]
    assert box.count('<input name="guess" type="radio">') == 2
    assert "</input>" not in box
    assert "<span>It is <em>one</em>.</span>" in box
    assert '<button type="reset">Put the line back</button></form>' in box


def test_what_comes_of_it_is_announced_with_its_claim_and_a_panel(box):
    before, after = box.split('<div role="status">')

    assert "one counted" not in before
    assert "one counted" in after
    assert before.count('<span class="claim claim-passed" id="word-is-o') == 1
    assert before.count('<div class="claim-panel claim-passed" id="proo') == 1
    assert "the test</a> fails" in before
    assert "<li>✓ torch 2.6.0 on CPU</li>" in before


def test_what_is_wrong_with_a_box_is_named_at_its_line(site):
    said = site.warning.getvalue().splitlines()
    by_page = {
        re.search(r"/([\w ]+)\.md:[34]: ", each)[1]: each for each in said
    }

    assert len(said) == len(by_page)
    assert by_page.pop("fold")
    assert by_page.keys() == WRONG.keys()
    assert all(WRONG[name][2] in by_page[name] for name in WRONG)
