"""What pytest says of a test that failed, as it writes it."""

import subprocess
import sys

import pytest

from extensions.core.reading import xml_of
from extensions.evidence.failed_tests import LONGEST, failed_of, said_by
from extensions.evidence.junit import key_of

TESTS = """
import os

import pytest


def helper(x):
    assert x == [
        1,
        2,
    ]


def test_plain():
    assert 1 == 2


def test_helped():
    helper([1, 3])


def test_chained():
    try:
        helper([])
    except AssertionError:
        raise ValueError("second") from None


def test_both():
    try:
        helper([])
    except AssertionError as error:
        raise ValueError("second") from error


def test_long():
    assert "a" * 999 == ""


@pytest.mark.xfail(reason="false before", strict=True)
def test_true():
    pass
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Run some tests that fail; return what is said of each by its name."""
    folder = tmp_path_factory.mktemp("failed")
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-pno:cacheprovider"]
    command += ["--junitxml=it.xml", "--rootdir=.", "test_it.py"]
    subprocess.run(command, cwd=folder, check=False)
    cases = [*xml_of(folder / "it.xml").iter("testcase")]
    assert failed_of(cases) == cases
    return {key_of(case)[1]: said_by(case) for case in cases}


def test_a_statement_is_followed_by_what_it_compares(said):
    assert said["test_plain"] == (
        ">       assert 1 == 2",
        "E       assert 1 == 2",
        "test_it.py:15: AssertionError",
    )


def test_the_line_of_the_test_comes_before_a_helper(said):
    assert said["test_helped"][:5] == (
        ">       helper([1, 3])",
        ">       assert x == [",
        "            1,",
        "            2,",
        "        ]",
    )
    assert said["test_helped"][5].startswith("E       assert [1, 3] ==")


@pytest.mark.parametrize("name", ["test_chained", "test_both"])
def test_of_several_errors_the_last_is_told(said, name):
    *_, words, where = said[name]

    assert words == "E           ValueError: second"
    assert where.endswith(": ValueError")
    assert not any("assert []" in line for line in said[name])


def test_a_long_line_is_cut(said):
    assert max(map(len, said["test_long"])) == LONGEST


def test_a_test_that_passes_and_should_not_says_so(said):
    assert said["test_true"] == ("[XPASS(strict)] false before",)
