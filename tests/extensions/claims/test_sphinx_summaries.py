"""The ledger in numbers and tables, and what it corrects."""

import re

import pytest

from extensions.claims.sphinx_summaries import corrections_stand
from tests.extensions.claims.conftest import CORRECTION, OF_MANUAL, add_pages

SECOND = 2 + CORRECTION.count("\n")  # where the second correction begins


def test_the_chapters_and_the_runs_are_listed(varied):
    html = varied.html("evidence/claims")

    assert '<a href="claims/part.html">Part</a></td><td>2</td>' in html
    assert "<td>gpu</td><td>2.13.0</td>" in html
    assert "x86_64<br>GPU &lt;9&gt;</td><td><time" in html
    assert "<td>2 passed, 1 not run</td>" in html
    assert (
        "All claims were tested on torch 1.13.1 to 2.13.0; those that became"
        " true with an older one, also on torch 2.5.1."
    ) in html


def test_the_tally_counts_claims_and_names_each_run(varied, waiting):
    html = varied.html("index")

    assert (
        "<strong>3 claims</strong>, 3 counter-examples: 2 passed, 1 simulated."
        in html
    )
    assert (
        "This build: torch 2.13.0 (x86_64), Python 3.11.7, on GPU 9," in html
    )
    assert "sentences, 3 hold a claim, 1 rest on a primary source" in html
    assert "Not run anywhere yet" not in html
    assert (
        "<li>Not run anywhere yet: 1 claim that needs lmdb and scikit-learn;"
        " 1 claim that needs a GPU.</li>"
    ) in waiting.html("index")


def test_the_guide_in_numbers_leads_to_what_it_counts(varied):
    found = re.findall(
        r'href="([\w/.]+)"><strong>(\d+)</strong>', varied.html("index")
    )

    assert found == [
        ("evidence/claims.html", "2"),
        ("evidence/claims.html", "3"),
        ("evidence/changed.html", "3"),
        ("evidence/corrections.html", "2"),
    ]


def test_an_edit_renews_what_other_pages_say_of_it(house, build):
    add_pages(house)
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\nDo this.\n")
    build()
    text = page.read_text().replace("Do this.", "Do that.\nDo it.")
    text = text.replace("is one]", "is just one]")
    page.write_text(text.replace("# One", "# The first"))

    folder = build().outdir / "evidence"

    html = (folder / "unproven.html").read_text()
    assert "The first</a></th><td>1</td><td>0</td><td>2</td>" in html
    html = (folder / "corrections.html").read_text()
    assert 'one.html#word-is-one">The first</a>' in html
    html = (folder / "tests/part/one.html").read_text()
    assert "<code>word</code> is just one</a>" in html


# -- Corrections -------------------------------------------------------------


def test_a_correction_links_to_its_claim_and_to_its_source(varied):
    html = varied.html("evidence/corrections")

    assert "<code>word</code> is one.<br>" in html
    assert '<a href="../part/one.html#word-is-one">One</a>' in html
    assert "<small>A text, <i>2 Words</i></small>" in html
    address = "https://docs.example.org/1.0/guide.html#part"
    assert f'The manual, <a href="{address}">part</a>' in html
    assert "<em>" not in html


def test_corrections_can_be_filtered(varied):
    html = varied.html("evidence/corrections")

    for name, first in (
        ("source", "A text"),
        ("chapter", "part"),
        ("verdict", "passed"),
    ):
        options = f'<option value="">any</option><option>{first}<'
        assert f'<select name="{name}">{options}' in html
    assert "2 of 2 corrections</output>" in html


def test_some_corrections_are_chosen_by_their_claims(varied):
    html = varied.html("index")

    said = '<p class="said">Word is *three*. <small>A text</small></p>'
    assert said in html
    link = 'href="part/one.html#word-is-one"'
    assert f'<a class="passed" {link} aria-label="The test that ' in html
    assert "✓</a> <code>word</code> is one. " in html
    assert f"<a {link}>One</a>" in html
    assert "<em>" not in html


def test_a_correction_shows_the_result_of_its_claim(waiting):
    assert "is one. <em>(not run)</em>" in waiting.html("index")
    html = waiting.html("evidence/corrections")
    row = 'data-source="A text" data-chapter="part" data-verdict="not run"'
    assert row in html
    assert "<td>○&nbsp;not run</td>" in html


def test_a_choice_of_no_correction_is_named_at_its_line(house, build):
    add_pages(house)
    page = house / "docs/index.md"
    text = page.read_text()
    page.write_text(text.replace("part/one#word-is-one", "part/two#lost"))

    said = "index.md:17: ERROR: no correction rests on part/two#lost"
    assert said in build().warning.getvalue()


@pytest.mark.parametrize(
    ("row", "old", "new", "message"),
    [
        (OF_MANUAL, "", "", None),
        (CORRECTION, "word-is-one", "lost", "part/one has no claim 'lost'"),
        (
            OF_MANUAL,
            "#part",
            "#three",
            "'The manual' has no section 'guide.html#three'",
        ),
    ],
)
def test_a_correction_that_does_not_stand_is_a_problem_at_its_line(
    house, row, old, new, message
):
    add_pages(house)
    path = house / "docs/evidence/corrections/part/one.toml"
    path.write_text(CORRECTION + row.replace(old, new))

    said = [str(problem) for problem in corrections_stand(house)]
    assert said == ([f"{path}:{SECOND}: {message}"] if message else [])
