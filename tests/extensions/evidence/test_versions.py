"""Since which torch a claim is true, tested in runs of their own."""

import pytest

from extensions.core.files import xml_of
from extensions.evidence import versions
from extensions.evidence.junit import outcome_of, properties_of
from extensions.evidence.outcomes import WHY_NOT
from extensions.evidence.versions import older

CONFTEST = """
import pytest
from extensions.evidence.versions import expect

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

    assert found["test_a"] == ("skipped", versions.SINCE)
    assert found["test_a__but_not_otherwise"] == ("skipped", versions.SINCE)
    assert found["test_b"] == found["test_c"] == PASSED


def test_a_claim_that_was_true_already_is_a_failure(results):
    assert results("2.8.0", True)["test_a"] == ("failed", versions.SINCE)


def test_an_error_is_no_proof_that_the_words_were_false(results):
    found = results("2.8.0", "None.lost")

    assert found["test_a"] == ("failed", versions.SINCE)


def test_what_was_not_there_is_not_called(results):
    found = results("2.6.0", False, body="raise AttributeError")

    assert found["test_b"] == ("skipped", versions.API)
    assert found["test_b__also_twice"] == ("skipped", versions.API)
    assert found["test_c"] == PASSED
