"""The claims of gallery/big_batch_or_accumulation.py."""

import math
from functools import cache

import pytest

from extensions.files.failures import edits

WEIGHTED, UNDIVIDED, BATCH = "weighted by size", "not divided", "BatchNorm"
DIVIDED = "divided by the parts"
ALL = "PARTS = (1, 2, 4, 8, 16)"


@cache
def tried(snippet):
    """Return the variables of a program that has tried all ways."""
    return snippet.after("ways")


def layered(snippet, parts):
    """Return the program with other parts, and without BatchNorm."""
    edited = snippet.edit('    "BatchNorm": (nn.BatchNorm1d, by_size),\n', "")
    return edited.edit(ALL, f"PARTS = {parts}")


def seeded(snippet, data, model):
    edited = snippet.edit("torch.manual_seed(0)", f"torch.manual_seed({data})")
    return edited.edit("torch.manual_seed(1)", f"torch.manual_seed({model})")


def test_weighted_parts_give_the_gradient_of_the_whole(snippet):
    run = tried(snippet)

    assert len(run.errors[WEIGHTED]) == len(run.PARTS)
    assert max(run.errors[WEIGHTED]) < 1e-12


@pytest.mark.parametrize("parts", [(3, 7, 23), (230,)])
@pytest.mark.parametrize("seeds", [(2, 3), (4, 5)])
def test_weighted_parts_give_the_gradient_of_the_whole__also_for(
    snippet, parts, seeds
):
    edited = layered(seeded(snippet, *seeds), parts)
    test_weighted_parts_give_the_gradient_of_the_whole(edited)


@edits(
    ("return len(x) / len(inputs)", "return 1 / parts"),
    ("return len(x) / len(inputs)", "return len(x) / 240"),
    ("(nn.LayerNorm, by_size)", "(nn.BatchNorm1d, by_size)"),
    (
        "    for x, y in batches:\n",
        "    for x, y in batches:\n        model.zero_grad()\n",
    ),
)
def test_weighted_parts_give_the_gradient_of_the_whole__but_not_with(
    snippet, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_weighted_parts_give_the_gradient_of_the_whole, edited)


def test_a_short_part_counts_too_much(snippet):
    run = tried(snippet)
    errors = dict(zip(run.PARTS, run.errors[DIVIDED], strict=True))

    sizes = [len(part) for part in run.inputs.chunk(16)]
    assert sizes == [15] * 15 + [5]
    assert errors[16] > 1 / 20
    assert errors[2] < 1e-12


@pytest.mark.parametrize("seeds", [(2, 3), (4, 5)])
def test_a_short_part_counts_too_much__also_from(snippet, seeds):
    test_a_short_part_counts_too_much(seeded(snippet, *seeds))


@edits(
    ("lambda x, parts: 1 / parts", "by_size"),
    ("lambda x, parts: 1 / parts", "lambda x, parts: 1.0"),
    (
        "torch.randn(230, 32), torch.randn(230, 1)",
        "torch.randn(240, 32), torch.randn(240, 1)",
    ),
)
def test_a_short_part_counts_too_much__but_not_with(snippet, old, new, fails):
    fails(test_a_short_part_counts_too_much, snippet.edit(old, new))


def test_undivided_parts_are_off_by_their_number(
    snippet, parts=(1, 2, 5, 10, 23, 46, 115, 230)
):
    run = tried(layered(snippet, parts))

    expected = [number - 1 for number in parts]
    found = run.errors[UNDIVIDED]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_undivided_parts_are_off_by_their_number__also_elsewhere(snippet):
    edited = seeded(snippet, 2, 3)
    test_undivided_parts_are_off_by_their_number(edited, (2, 10))


def test_undivided_parts_are_off_by_their_number__but_not_divided(
    snippet, fails
):
    edited = snippet.edit(
        "lambda x, parts: 1.0),", "lambda x, parts: 1 / parts),"
    )
    fails(test_undivided_parts_are_off_by_their_number, edited)


def test_undivided_parts_are_off_by_their_number__but_not_uneven(
    snippet, fails
):
    fails(test_undivided_parts_are_off_by_their_number, snippet, (2, 16))


def test_batch_norm_parts_are_off(snippet):
    run = snippet.after("ways")  # which sets the dtype
    errors = dict(zip(run.PARTS, run.errors[BATCH], strict=True))

    assert errors[2] > 1e-3
    assert errors[16] > errors[2]
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        run.in_parts(run.ways[BATCH][0], 230, run.by_size)


@pytest.mark.parametrize("seeds", [(2, 3), (4, 5)])
def test_batch_norm_parts_are_off__also_from(snippet, seeds):
    test_batch_norm_parts_are_off(seeded(snippet, *seeds))


@edits(
    ("nn.BatchNorm1d, by_size", "nn.LayerNorm, by_size"),
    ('"BatchNorm": (nn.BatchNorm1d, by', '"BatchNorm": (nn.Identity, by'),
    ("norm(64), nn.Linear(64, 1))", "norm(64).eval(), nn.Linear(64, 1))"),
)
def test_batch_norm_parts_are_off__but_not_with(snippet, old, new, fails):
    fails(test_batch_norm_parts_are_off, snippet.edit(old, new))


def test_the_conclusion_names_what_is_the_same(snippet):
    say = snippet.only("setup", "step", "ways", "conclusion").after(
        "conclusion"
    )
    errors = {"a": [0.0, 1e-15], "b": [1e-15, 0.25, 0.0], "c": [15.0]}

    assert list(say.conclusion(errors)) == [
        "a: the gradient of the whole, in all numbers of parts",
        "b: up to 25% of its length off",
        "c: up to 1500% of its length off",
    ]


@edits(
    ("worst = max(differences)", "worst = differences[-1]"),
    ("if worst < 1e-9:", "if worst < 0.5:"),
)
def test_the_conclusion_names_what_is_the_same__but_not_with(
    snippet, old, new, fails
):
    fails(test_the_conclusion_names_what_is_the_same, snippet.edit(old, new))


def test_the_activations_shrink_with_the_parts(snippet):
    run = tried(snippet)

    largest = [math.ceil(230 / parts) / 230 for parts in run.PARTS]
    assert run.memory[WEIGHTED] == pytest.approx(largest, rel=1e-9)
    if 16 in run.PARTS:
        assert largest[run.PARTS.index(16)] == 15 / 230


def test_the_activations_shrink_with_the_parts__also_in_others(snippet):
    edited = layered(snippet, (1, 3, 7, 23, 230))
    test_the_activations_shrink_with_the_parts(edited)


@edits(
    ("        kept = 0\n", ""),
    ("not in weights:", "is not None:"),
    (
        "            kept += tensor.nbytes",
        "            kept = tensor.nbytes + 9",
    ),
)
def test_the_activations_shrink_with_the_parts__but_not_with(
    snippet, old, new, fails
):
    fails(test_the_activations_shrink_with_the_parts, snippet.edit(old, new))
