"""The parts of a module of tests."""

from pathlib import Path

from extensions.claims.proof_parts import proof_parts

MODULE = '''"""Tests of a page."""

import pytest
import torch

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


def test_what_is_behind_the_same_claims_in_a_row_is_one_part():
    assert [code_of(each).splitlines()[0] for each in parts()] == [
        '"""Tests of a page."""',
        "LIMIT = 3",
        "def double(number):",
        "def test_it_holds(small):",
        "def test_it_holds__also_here():",
        "def test_it_stays():",
    ]


def test_a_part_is_behind_the_claims_whose_tests_lead_to_it():
    assert [sorted(each.behind) for each in parts()] == [
        [],
        ["test_it_holds", "test_it_stays"],
        ["test_it_holds"],
        ["test_it_holds"],
        ["test_it_holds"],
        ["test_it_stays"],
    ]


def test_a_part_says_which_test_it_is():
    assert [each.test.name if each.test else "" for each in parts()] == [
        *[""] * 3,
        "test_it_holds",
        "test_it_holds__also_here",
        "test_it_stays",
    ]


def test_a_part_begins_with_its_comment_and_decorators():
    [_, _, helpers, *_] = parts()

    assert "\n# It is small.\n@pytest.fixture\ndef small" in code_of(helpers)


def test_of_the_claims_that_a_test_is_behind_its_own_stands_first():
    text = "def test_b(): ...\n\n\ndef test_a():\n    test_b()\n"
    text += "\n\ndef test_c():\n    test_b()\n"
    [part, *_] = proof_parts(Path("test_page.py"), text)

    assert part.behind == ("test_b", "test_a", "test_c")
