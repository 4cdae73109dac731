"""The parts of a module of tests."""

from pathlib import Path

from extensions.claims.proof_parts import proof_parts

MODULE = '''"""Tests of a page."""

import pytest

LIMIT = 3


def double(number):
    return 2 * number


# It is small.
@pytest.fixture
def small():
    return double(LIMIT)


def test_it_holds(small):
    assert small


def test_it_holds__also_here():
    assert True


def test_it_stays():
    assert LIMIT
'''


def parts():
    return proof_parts(Path("test_page.py"), MODULE)


def code_of(part):
    lines = MODULE.splitlines()[part.first - 1 : part.last]
    return "\n".join(lines)


def test_a_part_begins_with_its_comment_and_decorators():
    assert [code_of(each).splitlines()[0] for each in parts()] == [
        '"""Tests of a page."""',
        "import pytest",
        "LIMIT = 3",
        "def double(number):",
        "# It is small.",
        "def test_it_holds(small):",
        "def test_it_holds__also_here():",
        "def test_it_stays():",
    ]


def test_a_part_is_behind_the_claims_whose_tests_lead_to_it():
    assert [sorted(each.behind) for each in parts()] == [
        [],
        [],
        ["test_it_holds", "test_it_stays"],
        ["test_it_holds"],
        ["test_it_holds"],
        ["test_it_holds"],
        ["test_it_holds"],
        ["test_it_stays"],
    ]


def test_a_part_says_which_test_it_is():
    assert [each.test for each in parts()] == [
        *[""] * 5,
        "test_it_holds",
        "test_it_holds__also_here",
        "test_it_stays",
    ]
