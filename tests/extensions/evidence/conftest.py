"""A house whose results are recorded."""

import shutil

import pytest

from extensions.evidence import test_claims
from extensions.evidence.record import renew

VARIED = """
import pytest

def test_word_is_one(snippet):
    assert snippet.after("start").word == "one"

@pytest.mark.parametrize("case", ["upper", "lower"])
def test_word_is_one__but_not_of_another(snippet, fails, case):
    new = getattr("Other", case)()
    fails(test_word_is_one, snippet.edit('word = "one"', f'word = "{new}"'))
"""


@pytest.fixture(scope="session")
def recorded(new_house, make_whole):
    """A house whose results are recorded, as somebody clones it."""
    with pytest.MonkeyPatch.context() as patch:
        house = new_house()
        make_whole(house)
        patch.setenv("PYTHONPATH", str(house))
        (house / "tests/part/test_one.py").write_text(VARIED)
        assert test_claims.update(house, [], again=False) == 0
        assert renew(house, check=False) == 0
    shutil.copytree(house / "build/evidence", house / "before")
    shutil.rmtree(house / "build/evidence")
    return house
