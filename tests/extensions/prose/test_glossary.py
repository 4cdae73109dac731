"""The terms of the glossary, and where they stand in some words."""

import pytest

from extensions.prose.lists import (
    pattern_of,
    term_of,
    terms_of,
)
from extensions.prose.sentences import in_page

TEXT = """# Glossary

You look words up.

```{glossary}
leaf
  A tensor that nothing made.
  See [the page](page.md).

in-place
  Said of what writes over its input.
```
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/glossary.md").write_text(TEXT)
    return tmp_path


def test_the_terms_are_what_the_glossary_defines(root, tmp_path):
    assert terms_of(root) == ("leaf", "in-place")
    assert terms_of(tmp_path / "elsewhere") == ()


def test_a_term_is_no_sentence_and_its_definition_is():
    assert [(each.line, each.text) for each in in_page(TEXT)] == [
        (3, "You look words up."),
        (7, "A tensor that nothing made."),
        (8, "See the page."),
        (11, "Said of what writes over its input."),
    ]


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("batch", "batches"),
        ("axis", "axes"),
        ("step", "steps"),
        ("Jacobian", "Jacobians"),
    ],
)
def test_several_are_called_after_one(one, many):
    assert pattern_of((one,)).findall(many) == [many]
    assert term_of(many, (one,)) == one


def test_terms_are_found_whole_one_or_several_the_longest_first():
    terms = ("step", "step size", "leaf")
    found = pattern_of(terms).findall(
        "Leafs, a step size, step-wise, a stepping step."
    )

    assert found == ["Leafs", "step size", "step"]
    assert [term_of(each, terms) for each in found] == [
        "leaf",
        "step size",
        "step",
    ]


def test_without_terms_nothing_is_found():
    assert not pattern_of(()).search("leaf")
