"""What the sources say, and what holds, as files and rules of them."""

import pytest

from extensions.claims.corrections import corrections_stand
from tests.extensions.claims.conftest import CORRECTION, OF_MANUAL, add_pages

NO_SOURCE = "docs/evidence/sources.md has no source"
SECOND = 2 + CORRECTION.count("\n")  # where the second correction begins


@pytest.fixture
def correct(house):
    """Write the corrections of a topic of the house."""

    def correct(content):
        add_pages(house)
        path = house / "docs/evidence/corrections/part/one.toml"
        path.write_text(content)
        return path

    return correct


def test_a_correction_of_a_listed_section_is_no_problem(house, correct):
    correct(CORRECTION + OF_MANUAL)

    assert not [*corrections_stand(house)]


@pytest.mark.parametrize(
    ("row", "old", "new", "message"),
    [
        (CORRECTION, "word-is-one", "lost", "part/one has no claim 'lost'"),
        (CORRECTION, "A text", "B text", f"{NO_SOURCE} 'B text'"),
        (CORRECTION, "2 W", "3 W", "'A text' has no section '3 Words'"),
        (
            OF_MANUAL,
            "#part",
            "#three",
            "'The manual' has no section 'guide.html#three'",
        ),
    ],
)
def test_a_correction_that_does_not_stand_is_a_problem_at_its_line(
    house, correct, row, old, new, message
):
    path = correct(CORRECTION + row.replace(old, new))

    [problem] = corrections_stand(house)

    assert str(problem) == f"{path}:{SECOND}: {message}"
