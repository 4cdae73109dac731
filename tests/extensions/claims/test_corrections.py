"""What the sources say, and what holds."""

from functools import partial

import pytest

from extensions.claims.corrections import Correction
from extensions.claims.rules import (
    corrections_name_claims,
    corrections_name_sections,
)
from tests.helpers.builds import built
from tests.helpers.evidence import record

ROW = """\
[[correction]]
source = "A text"
section = "2 Words"
said = "Word is *three*."
holds = "`word` is one."
claim = "word-is-one"
"""
OF_DOCUMENTATION = ROW.replace("A text", "The manual").replace(
    "2 Words", "words/word.html#two.words"
)
PRIMARY = """\
[[source]]
name = "The manual"
prefix = "https://example.org/manual/"
pages = ["words/word.html#two.words"]
"""
TEXTS = """\
# Sources

## A text

```{csv-table}
"2 Words", "{doc}`/part/one`"
```
"""
NO_SOURCE = "docs/evidence/sources.md has no source"


def correct_in(house, content):
    """Write the corrections of a topic."""
    (house / "docs/evidence/sources.md").write_text(TEXTS)
    index = house / "docs/index.md"
    listed = "evidence/claims\nevidence/sources\n```"
    index.write_text(index.read_text().replace("evidence/claims\n```", listed))
    path = house / "docs/evidence/corrections/part/one.toml"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    return path


@pytest.fixture
def correct(house):
    """Write the corrections of a topic of the house."""
    return partial(correct_in, house)


def site_of(house):
    """Build a house with two corrections: all on a page, one on the first."""
    correct_in(house, ROW + ROW.replace("*three*", "four"))
    page = house / "docs/evidence/claims.md"
    page.write_text("# Corrections\n\n```{corrections}\n```\n")
    page = house / "docs/index.md"
    chosen = "\n```{corrected} part/one#word-is-one\n```\n"
    page.write_text(page.read_text() + chosen)
    return built(house)


@pytest.fixture(scope="module")
def corrected(new_house):
    """The site of a house whose corrections rest on claims that passed."""
    return site_of(new_house())


@pytest.fixture(scope="module")
def corrected_for_cuda(new_house):
    """The site of a house whose corrections wait for a GPU."""
    house = new_house()
    record(house, test_word_is_one="skipped for cuda")
    return site_of(house)


def test_a_correction_links_to_its_claim(corrected):
    html = (corrected.outdir / "evidence/claims.html").read_text()
    assert not corrected.warning.getvalue()
    assert "<code>word</code> is one.<br>" in html
    assert "<small>A text, <i>2 Words</i></small>" in html
    assert '<a href="../part/one.html#word-is-one">One</a>' in html


def test_a_correction_is_written_again_with_the_title_of_its_page(
    house, build, correct
):
    correct(ROW)
    page = house / "docs/evidence/claims.md"
    page.write_text("# Corrections\n\n```{corrections}\n```\n")
    build()
    one = house / "docs/part/one.md"
    one.write_text(one.read_text().replace("# One", "# The first"))

    html = (build().outdir / "evidence/claims.html").read_text()

    assert 'one.html#word-is-one">The first</a>' in html


def test_a_page_of_a_primary_source_is_linked(house, build, correct):
    (house / "docs/evidence/primary_sources.toml").write_text(PRIMARY)
    correct(OF_DOCUMENTATION)
    page = house / "docs/evidence/claims.md"
    page.write_text("# Corrections\n\n```{corrections}\n```\n")

    html = (build().outdir / "evidence/claims.html").read_text()

    address = "https://example.org/manual/words/word.html#two.words"
    assert f'The manual, <a href="{address}">two.words</a>' in html


def test_some_corrections_are_chosen_by_their_claims(corrected):
    html = (corrected.outdir / "index.html").read_text()

    assert '<p class="said">Word is four. <small>A text</small></p>' in html
    assert '<p><b class="passed">✓</b> <code>word</code> is one. ' in html
    assert '<a href="part/one.html#word-is-one">One</a>' in html


def test_a_choice_of_no_correction_is_named_at_its_line(house, build, correct):
    correct(ROW)
    page = house / "docs/index.md"
    chosen = "\n```{corrected} part/two#word-is-two\n```\n"
    page.write_text(page.read_text() + chosen)

    warning = build().warning.getvalue()
    assert (
        "index.md:15: ERROR: no correction rests on part/two#word" in warning
    )


def test_a_correction_shows_the_result_of_its_claim(house, build, correct):
    correct(ROW + ROW.replace("word-is-one", "lost"))
    page = house / "docs/evidence/claims.md"
    page.write_text("# Corrections\n\n```{corrections}\n```\n")
    record(house, test_word_is_one="failed")

    html = (build().outdir / "evidence/claims.html").read_text()

    row = 'data-source="A text" data-chapter="part" data-verdict="{}"'
    assert html.count(row.format("failed")) == 1
    assert html.count(row.format("missing")) == 1
    assert '<td class="failed">✗&nbsp;failed</td>' in html


BY_DIRECTIVE = pytest.mark.parametrize(
    "page",
    [
        pytest.param("evidence/claims.html", id="corrections"),
        pytest.param("index.html", id="corrected"),
    ],
)


@BY_DIRECTIVE
def test_a_correction_that_no_run_has_shown_says_so(corrected_for_cuda, page):
    html = (corrected_for_cuda.outdir / page).read_text()

    said = "No run has tested this yet."
    assert f'is one. <em class="unsure">{said}</em>' in html


@BY_DIRECTIVE
def test_a_correction_that_a_run_has_shown_says_nothing_more(corrected, page):
    html = (corrected.outdir / page).read_text()

    assert "is one." in html
    assert 'class="unsure"' not in html


def test_corrections_can_be_filtered(corrected):
    html = (corrected.outdir / "evidence/claims.html").read_text()

    any_of = '<select name="{}"><option value="">any</option><option>{}<'
    for name, only in (("source", "A text"), ("chapter", "part")):
        assert any_of.format(name, only) + "/option></select>" in html
    assert any_of.format("verdict", "passed") in html
    assert "2 of 2 corrections</output>" in html


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ('claim = "lost"', 6),
        ("claim = 'lost'", 6),
        ('claim = """\nlost"""', 6),
        ('"claim" = "lost"', 1),
    ],
)
def test_a_correction_that_names_no_claim_is_a_problem_at_its_line(
    house, correct, written, line
):
    path = correct(ROW.replace('claim = "word-is-one"', written))

    [problem] = corrections_name_claims(house)

    assert str(problem) == f"{path}:{line}: part/one has no claim 'lost'"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "A text",
            "B text",
            f"2: {NO_SOURCE} 'B text'",
        ),
        ("2 Words", "3 More", "3: 'A text' has no section '3 More'"),
    ],
)
def test_a_correction_of_no_listed_section_is_a_problem_at_its_line(
    house, correct, old, new, expected
):
    path = correct(ROW + ROW.replace(old, new))

    [problem] = corrections_name_sections(house)

    line, _, message = expected.partition(":")
    line = int(line) + ROW.count("\n")
    assert str(problem) == f"{path}:{line}:{message}"


def test_a_page_of_a_primary_source_can_be_corrected(house, correct):
    (house / "docs/evidence/primary_sources.toml").write_text(PRIMARY)
    wrong = OF_DOCUMENTATION.replace("two.words", "three")
    path = correct(OF_DOCUMENTATION + wrong)

    [problem] = corrections_name_sections(house)

    line = 3 + ROW.count("\n")
    said = "'The manual' has no section 'words/word.html#three'"
    assert str(problem) == f"{path}:{line}: {said}"


@pytest.mark.parametrize(
    ("section", "part"),
    [
        ("words/word.html#two.words", "two.words"),
        ("words/two.words.html", "two.words"),
        ("3.1 Trains/tests", "3.1 Trains/tests"),
    ],
)
def test_a_page_is_named_by_what_it_is_about(section, part):
    row = Correction(None, {}, "", section, "", "", "")

    assert row.part == part


def test_a_correction_of_a_listed_section_is_none(house, correct):
    correct(ROW)

    assert not [*corrections_name_sections(house)]


def test_without_a_page_of_sources_each_correction_is_a_problem(
    house, correct
):
    path = correct(ROW)
    (house / "docs/evidence/sources.md").unlink()

    [problem] = corrections_name_sections(house)

    assert str(problem) == f"{path}:2: {NO_SOURCE} 'A text'"
