"""The line at the head of a page that counts its claims."""

import re

import pytest

from tests.helpers.builds import built
from tests.helpers.evidence import record


def tally_of(app, name="part/one"):
    """Return the line of a page."""
    html = (app.outdir / f"{name}.html").read_text()
    [line] = re.findall(r'<p class="page-tally">(.*?)</p>', html, re.S)
    return line


@pytest.fixture
def tally(house, build):
    """What builds the house, and returns the line of a page."""
    page = house / "docs/part/one.md"
    page.write_text(page.read_text().replace("# One\n", "# One\n\nWhat.\n"))
    return lambda: tally_of(build())


HINT = " · click a sign to see why"


def text_of(line):
    """Return what a line says, without its links."""
    return re.sub("<.*?>", "", line)


def test_it_says_on_what_the_claims_of_a_page_were_tested(tally):
    line = tally()

    assert text_of(line) == (
        "✓ 1 statement tested on torch 2.13.0, 2026-01-31" + HINT
    )
    assert 'href="../evidence/claims/part.html#part-one-word-is-one"' in line
    assert 'title="Show them in the ledger"' in line


def test_it_counts_the_other_versions_that_the_guide_is_for(house, tally):
    for version in ("1.13.1", "2.6.0", "2.9.1"):
        record(house, f"evidence/{version}", {"torch": version})

    assert text_of(tally()).endswith(f", and on 2 other versions{HINT}")


@pytest.fixture(scope="module")
def unproven(new_house):
    """Sites of two houses whose claims did not pass, each for a reason."""
    sites = []
    for one, two in (
        ("skipped for cuda", "skipped for scikit-learn"),
        ("skipped for h5py, lmdb", "failed"),
    ):
        house = new_house()
        for name in ("One", "Two"):
            page = house / f"docs/part/{name.lower()}.md"
            text = page.read_text()
            page.write_text(text.replace(f"# {name}\n", f"# {name}\n\nSo.\n"))
        record(house, test_word_is_one=one, test_word_is_two=two)
        sites.append(built(house))
    return sites


@pytest.mark.parametrize(
    ("site_number", "name", "said"),
    [
        (0, "part/one", "○ 1 needs a GPU"),
        (0, "part/two", "○ 1 needs scikit-learn"),
        (1, "part/one", "○ 1 needs h5py and lmdb"),
        (1, "part/two", "✗ 1 fails"),
    ],
)
def test_it_says_what_is_not_proven(unproven, site_number, name, said):
    assert text_of(tally_of(unproven[site_number], name)) == said + HINT


def test_it_counts_what_rests_on_a_source(house, tally):
    page = house / "docs/part/one.md"
    cited = (
        "[So it is](https://docs.pytorch.org/docs/2.13/torch.html){.cited}."
    )
    page.write_text(f"{page.read_text()}\n{cited}\n")

    line = tally()

    assert text_of(line).endswith(f" · § 1 cited{HINT}")
    assert 'href="../evidence/claims.html#cited"' in line
