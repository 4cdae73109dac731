"""What a test is skipped without: a torch that is new enough, a library."""

import pytest

from extensions.claims.ledger import read_ledger
from extensions.core.files import xml_of
from extensions.core.topics import Topic
from extensions.evidence import test_claims
from extensions.evidence.junit import outcome_of, properties_of, runs
from extensions.evidence.outcomes import API, SINCE, WHY_NOT
from extensions.evidence.versions import older

CONFTEST = """
import pytest
from extensions.evidence.pytest_needs import expect

INSTALLED = "{installed}"

def pytest_collection_modifyitems(items):
    for item in items:
        expect(item, INSTALLED)
"""
MODULE = """
from extensions.evidence.versions import api_since, true_since

@true_since("2.9", "it warned")
def test_a():
    assert {is_true}

def test_a__but_not_otherwise():
    pass

@api_since("2.7", "torch.new")
def test_b():
    {body}

def test_b__also_twice():
    {body}

def test_c():
    pass
"""
PASSED = ("passed", "")


@pytest.fixture
def results(pytester, tmp_path):
    """Run the tests with a torch of some version."""

    def results(installed, is_true, body="pass"):
        pytester.makeconftest(CONFTEST.format(installed=installed))
        pytester.makepyfile(MODULE.format(is_true=is_true, body=body))
        path = tmp_path / "tests.xml"
        pytester.runpytest_inprocess(f"--junitxml={path}")
        return {
            case.get("name"): (
                outcome_of(case),
                next((w for w in WHY_NOT if w in properties_of(case)), ""),
            )
            for case in xml_of(path).iter("testcase")
        }

    return results


@pytest.mark.parametrize(
    ("installed", "version", "expected"),
    [
        ("2.6.0+cu124", "2.7", True),
        ("2.7.0", "2.7", False),
        ("2.7.1+cpu", "2.7", False),
        ("2.10.0", "2.9", False),
        ("2.16.0.dev20261101+cpu", "2.15", False),
        ("2.16.0.dev20261101+cpu", "2.16", False),
    ],
)
def test_versions_are_compared_by_their_numbers(installed, version, expected):
    assert older(installed, version) == expected


def test_a_torch_of_that_version_runs_all(results):
    assert set(results("2.9.0", True).values()) == {PASSED}


def test_before_it_the_test_of_a_claim_has_to_fail(results):
    found = results("2.8.0", False)

    assert found["test_a"] == ("skipped", SINCE)
    assert found["test_a__but_not_otherwise"] == ("skipped", SINCE)
    assert found["test_b"] == found["test_c"] == PASSED


@pytest.mark.parametrize("is_true", [True, "None.lost"])
def test_truth_before_it_or_an_error_is_a_failure(results, is_true):
    assert results("2.8.0", is_true)["test_a"] == ("failed", SINCE)


def test_what_was_not_there_is_not_called(results):
    found = results("2.6.0", False, body="raise AttributeError")

    assert found["test_b"] == ("skipped", API)
    assert found["test_b__also_twice"] == ("skipped", API)
    assert found["test_c"] == PASSED


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
    "for_another_torch": ("# %% start\n", "# %% start\nimport torchvision\n"),
    "mistaken": ("# %% start\n", "# %% start\nimport sklaern\n"),
    "in_itself": ("", ""),
}


@pytest.fixture(scope="module")
def entries(new_house, make_whole):
    """Test the claims where two libraries are missing; return what is said.

    The page of each case is like the first one, but for a line.
    """
    house = new_house()
    make_whole(house)
    with (house / "sitecustomize.py").open("a") as file:
        for name in ("sklearn", "torchvision"):
            file.write(f'\nsys.modules["{name}"] = None\n')
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


NEEDED = ("not run", ("scikit-learn",))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("needed", NEEDED),
        ("needed_later", ("passed", ())),  # the claim ends before the import
        ("for_a_picture", ("passed", ())),
        ("for_another_torch", ("not run", ("torchvision",))),
        ("mistaken", ("failed", ())),  # nobody installs a library of that name
        ("in_itself", NEEDED),
    ],
)
def test_a_claim_says_which_library_it_needs(entries, name, found):
    assert (entries[name].verdict, entries[name].needs) == found
