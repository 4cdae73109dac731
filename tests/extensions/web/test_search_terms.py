"""In which sections each word stands."""

import pytest

from extensions.web.search_terms import (
    Terms,
    base_36,
    field_of,
    stemmed,
    steps,
    words_and_parts,
)


def test_a_term_says_in_which_fields_of_which_documents_it_stands():
    terms = Terms()
    terms.add(field_of("Train a layer"))
    terms.add(field_of(""), field_of("layers"))
    terms.add(field_of("Training, and train again"))

    assert terms.written() == "again:2 layer:0;1 train:0,2,0"


def test_a_document_says_how_many_words_each_field_has():
    fields = map(field_of, ("one two two", "", "CrossEntropyLoss"))

    assert Terms().add(*fields) == [2, 0, 4]


def test_a_name_is_found_by_its_parts_and_as_it_is_written():
    assert words_and_parts("nn.CrossEntropyLoss cross_entropy GPU x") == [
        *["nn", "CrossEntropyLoss", "Cross", "Entropy", "Loss"],
        *["cross_entropy", "cross", "entropy", "GPU", "x"],
    ]
    assert words_and_parts("naïve") == ["naïve"]


def test_empty_words_numbers_and_letters_are_not_looked_up():
    found = stemmed("How do I train 100 x in 2d with float16s?")

    assert found == "train 2d float16s"


def test_what_stands_before_any_name_counts_only_alone():
    assert stemmed("torch.nn.Linear") == "linear"
    assert stemmed("use PyTorch") == "pytorch"


@pytest.mark.parametrize(
    ("number", "written"), [(0, "0"), (35, "z"), (36, "10"), (1295, "zz")]
)
def test_numbers_are_written_in_digits_and_letters(number, written):
    assert base_36(number) == written
    assert int(written, 36) == number


def test_growing_numbers_are_written_by_their_steps():
    assert steps([]) == ""
    assert steps([3, 3, 40]) == "3,0,11"
