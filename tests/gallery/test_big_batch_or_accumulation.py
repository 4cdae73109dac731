"""The claims of gallery/big_batch_or_accumulation.py."""

import pytest

WEIGHTED, UNDIVIDED, BATCH = "weighted by size", "not divided", "BatchNorm"


def test_weighted_parts_give_the_gradient_of_the_whole(snippet):
    assert max(snippet.after("ways").errors[WEIGHTED]) < 1e-12


def test_weighted_parts_give_the_gradient_of_the_whole__but_not_else(
    snippet, fails
):
    edited = snippet.edit(
        "(nn.LayerNorm, lambda x, parts: len(x) / 240)",
        "(nn.LayerNorm, lambda x, parts: 1 / 2)",
    )
    fails(test_weighted_parts_give_the_gradient_of_the_whole, edited)


def test_undivided_parts_are_off_by_their_number(snippet):
    errors = snippet.after("ways").errors[UNDIVIDED]

    assert errors == pytest.approx([0, 1, 3, 7, 15], rel=1e-9, abs=1e-12)


def test_undivided_parts_are_off_by_their_number__but_not_divided(
    snippet, fails
):
    edited = snippet.edit(
        "(nn.LayerNorm, lambda x, parts: 1.0)",
        "(nn.LayerNorm, lambda x, parts: 1.0 / parts)",
    )
    fails(test_undivided_parts_are_off_by_their_number, edited)


def test_batch_norm_parts_are_off(snippet):
    errors = snippet.after("ways").errors[BATCH]

    assert errors[1] > 1e-3
    assert errors[-1] > errors[1]


def test_batch_norm_parts_are_off__but_not_layer_norm(snippet, fails):
    edited = snippet.edit("nn.BatchNorm1d, lambda", "nn.LayerNorm, lambda")
    fails(test_batch_norm_parts_are_off, edited)


def test_the_activations_shrink_with_the_parts(snippet):
    shares = snippet.after("ways").memory[WEIGHTED]

    assert shares[0] == 1
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 1 / 5


def test_the_activations_shrink_with_the_parts__but_not_in_two(snippet, fails):
    edited = snippet.edit("(1, 2, 4, 8, 16)", "(1, 2)")
    fails(test_the_activations_shrink_with_the_parts, edited)
