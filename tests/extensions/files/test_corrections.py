"""What the sources say, and what holds."""

import pytest

from extensions.rules.of_corrections import corrections_name_claims

ROW = """\
[[correction]]
source = "A text"
said = "Word is *three*."
holds = "`word` is one."
claim = "word-is-one"
"""


@pytest.fixture
def correct(house):
    """Write the corrections of a topic."""

    def correct(content):
        path = house / "docs/evidence/corrections/part/one.toml"
        path.parent.mkdir(parents=True)
        path.write_text(content)
        return path

    return correct


def test_a_correction_links_to_its_claim(house, build, correct):
    correct(ROW)
    page = house / "docs/evidence/claims.md"
    page.write_text("# Corrections\n\n```{corrections}\n```\n")

    app = build()

    html = (app.outdir / "evidence/claims.html").read_text()
    assert not app.warning.getvalue()
    assert "<code>word</code> is one.<br>" in html
    assert '<a href="../part/one.html#word-is-one">part/one</a>' in html


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ('claim = "lost"', 5),
        ("claim = 'lost'", 5),
        ('claim = """\nlost"""', 5),
        ('"claim" = "lost"', 1),
    ],
)
def test_a_correction_that_names_no_claim_is_a_problem_at_its_line(
    house, correct, written, line
):
    path = correct(ROW.replace('claim = "word-is-one"', written))

    [problem] = corrections_name_claims(house)

    assert str(problem) == f"{path}:{line}: part/one has no claim 'lost'"
