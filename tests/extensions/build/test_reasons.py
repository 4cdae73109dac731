"""What a build says of why something is written again."""

from unittest.mock import patch

import pytest

from extensions.build import reasons as module
from extensions.build.reasons import log_reasons


def said(reasons):
    """Log some reasons; return the lines that the build shows."""
    with patch.object(module, "_logger") as logger:
        log_reasons("to be written", reasons)
    return [call.args[0] % call.args[1:] for call in logger.info.mock_calls]


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ({}, []),
        ({"a": ["b", "c"]}, ["a: to be written (b, c)"]),
        (
            {"b": ["z"], "c": ["y"], "a": ["z"]},
            ["a, b: to be written (z)", "c: to be written (y)"],
        ),
        (
            {name: ["z"] for name in "abcde"},
            ["5 pages: to be written (z)"],
        ),
    ],
)
def test_pages_of_one_reason_share_a_line(reasons, expected):
    assert said(reasons) == expected
