"""What is said of claims where a library of their program is missing."""

import pytest

from extensions.claims.ledger import read_ledger
from extensions.core.topics import Topic
from extensions.evidence import test_claims
from extensions.evidence.junit import runs

LOAD = "from sklearn.datasets import load_digits\n"
IN_ITSELF = """
import pytest

def test_word_is_one(snippet):
    assert snippet.after("start").word == "one"

def test_word_is_one__also_elsewhere():
    pytest.importorskip("sklearn.datasets")

def test_word_is_one__but_not_of_another(snippet, fails):
    fails(test_word_is_one, snippet.edit('"one"', '"other"'))
"""


# Where a line is added to the program of a page, and that line.
ADDED = {
    "needed": ("# %% start\n", f"# %% start\n{LOAD}"),
    "needed_later": ("# %% count\n", f"# %% count\n{LOAD}"),
    "for_a_picture": (
        "# %% start\n",
        f"# %% picture\nimport pandas\n{LOAD}\n# %% start\n",
    ),
    "mistaken": ("# %% start\n", "# %% start\nimport sklaern\n"),
    "in_itself": ("", ""),
}


@pytest.fixture(scope="module")
def entries(new_house, make_whole):
    """Test the claims where scikit-learn is missing; return what is said.

    The page of each case is like the first one, but for a line.
    """
    house = new_house()
    make_whole(house)
    with (house / "sitecustomize.py").open("a") as file:
        file.write('\nsys.modules["sklearn"] = None\n')
    one = Topic(house, "part/one")
    program, page, tests = (
        path.read_text() for path in (one.snippet, one.page, one.tests)
    )
    for name, (old, new) in ADDED.items():
        topic = Topic(house, f"part/{name}")
        topic.snippet.write_text(program.replace(old, new, 1))
        topic.page.write_text(page)
        topic.tests.write_text(IN_ITSELF if name == "in_itself" else tests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(house))
        patch.setattr(test_claims, "_FEW", 2 * len(ADDED))
        test_claims.update(house, also=[], again=False)
    ledger = read_ledger(house, runs([house / "build/evidence"]))
    return {name: ledger.of(f"part/{name}")[0] for name in ADDED}


def test_a_claim_whose_program_imports_it_is_not_run(entries):
    found = entries["needed"]

    assert (found.verdict, found.needs) == ("not run", ("scikit-learn",))


def test_a_claim_that_ends_before_the_import_is_tested(entries):
    found = entries["needed_later"]

    assert (found.verdict, found.needs) == ("passed", ())


def test_what_a_program_imports_for_a_picture_alone_is_not_needed(entries):
    assert entries["for_a_picture"].verdict == "passed"


def test_a_name_that_nobody_installs_is_a_mistake(entries):
    assert entries["mistaken"].verdict == "failed"


def test_a_test_that_skips_itself_says_what_it_needs(entries):
    found = entries["in_itself"]

    assert (found.verdict, found.needs) == ("not run", ("scikit-learn",))
