"""A claim, and the sentence that it is."""

import pytest

from extensions.claims.page import Claim


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a layer stays frozen", "A layer stays frozen"),
        ("`backward` adds up", "`backward` adds up"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_with_code(text, sentence):
    assert Claim("its-name", text, 1).sentence == sentence


def test_a_claim_that_moves_to_another_line_shows_the_same():
    assert repr(Claim("its-name", "words", 1)) == repr(
        Claim("its-name", "words", 2)
    )
