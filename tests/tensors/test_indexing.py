"""The claims of docs/tensors/indexing.md."""

import numpy
import pytest
import torch

VIEWS = ["grid[0]", "grid[:, 1:]", "grid[..., 0]", "grid[None]"]
COPIES = ["grid[grid > 2]", "grid[:, [0, 2]]"]


def shares(snippet, name):
    """Return whether a selection shares the memory of the grid."""
    return snippet.after("views").rows[name]["shares memory"]


def test_positions_pick(snippet):
    run = snippet.after("positions")

    assert run.one == 4
    assert run.line.tolist() == [4, 16]
    assert run.last.tolist() == [3, 7, 11]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[0, 1, 0]", "[1, 1, 0]"),
        ("[:, 1, 0]", "[1, :, 0]"),
        ("[0, :, -1]", "[0, :, 0]"),
    ],
)
def test_positions_pick__but_others_pick_others(snippet, old, new, fails):
    fails(test_positions_pick, snippet.edit(old, new))


def test_ellipsis_fills_up(snippet, capsys):
    run = snippet.after("ellipsis")

    assert capsys.readouterr().out.endswith("True\n")
    assert torch.equal(run.cube[0, ...], run.cube[0])


def test_ellipsis_fills_up__but_not_from_the_other_side(
    snippet, capsys, fails
):
    edited = snippet.edit("cube[..., -1],", "cube[-1, ...],")
    fails(test_ellipsis_fills_up, edited, capsys)


def test_slices_step(snippet, capsys):
    run = snippet.after("slices")

    assert "tensor([[ 4,  6],\n        [ 8, 10]])" in capsys.readouterr().out
    assert torch.equal(run.cube[0, 1:], torch.stack([*run.cube[0]][1:]))


def test_slices_step__but_in_ones_by_default(snippet, capsys, fails):
    fails(test_slices_step, snippet.edit("1:, ::2", "1:, ::1"), capsys)


def test_slices_stop_at_the_end(snippet, capsys):
    snippet.after("slices")

    assert capsys.readouterr().out.endswith("torch.Size([2, 4])\n")


def test_slices_stop_at_the_end__but_before_it_when_told(
    snippet, capsys, fails
):
    fails(test_slices_stop_at_the_end, snippet.edit("1:100", "1:2"), capsys)


def test_positions_must_exist(snippet, capsys):
    snippet.after("range-error")

    said = "index 2 is out of bounds for dimension 0 with size 2\n"
    assert capsys.readouterr().out.endswith(said)


def test_positions_must_exist__and_do_up_to_the_size(snippet, capsys, fails):
    fails(
        test_positions_must_exist, snippet.edit("cube[2]", "cube[1]"), capsys
    )


def test_a_mask_gives_a_flat_tensor(snippet):
    run = snippet.after("mask")

    assert run.grid.shape == (2, 3)
    assert run.large.tolist() == [3, 4, 5]


def test_a_mask_gives_a_flat_tensor__but_where_does_not(snippet, fails):
    edited = snippet.edit("grid[grid > 2]\n\n", "grid.where(grid > 2, 0)\n\n")
    fails(test_a_mask_gives_a_flat_tensor, edited)


def test_a_mask_of_rows_picks_rows(snippet):
    run = snippet.after("mask")

    assert run.rows.tolist() == [[0, 1, 2]]


def test_a_mask_of_rows_picks_rows__but_a_mask_of_all_does_not(snippet, fails):
    edited = snippet.edit("torch.tensor([True, False])]", "grid < 3]")
    fails(test_a_mask_of_rows_picks_rows, edited)


def test_a_mask_must_fit(snippet, capsys):
    snippet.after("mask-shape")

    said = capsys.readouterr().out
    assert "The shape of the mask [3] at index 0 does not match" in said


def test_a_mask_must_fit__and_does_with_two_entries(snippet, capsys, fails):
    edited = snippet.edit("[True, False, True]", "[True, False]")
    fails(test_a_mask_must_fit, edited, capsys)


def test_a_list_picks_in_order(snippet):
    run = snippet.after("lists")

    assert run.columns.tolist() == [[0, 2], [3, 5]]
    assert run.grid[:, [2, 0]].tolist() == [[2, 0], [5, 3]]


def test_a_list_picks_in_order__but_not_along_another_axis(snippet, fails):
    edited = snippet.edit(
        "columns = grid[:, [0, 2]]", "columns = grid[[0, 1]]"
    )
    fails(test_a_list_picks_in_order, edited)


def test_arange_picks_per_row(snippet):
    run = snippet.after("per-row")

    assert run.per_row.shape == (4, 2)
    for row, position, vector in zip(
        run.features, run.chosen, run.per_row, strict=True
    ):
        assert torch.equal(vector, row[position])


def test_arange_picks_per_row__but_a_colon_does_not(snippet, fails):
    edited = snippet.edit(
        "per_row = features[torch.arange(4), ", "per_row = features[:, "
    )
    fails(test_arange_picks_per_row, edited)


def test_a_colon_picks_for_all_rows(snippet):
    run = snippet.after("per-row")

    assert run.for_all_rows.shape == (4, 4, 2)
    for row, vectors in zip(run.features, run.for_all_rows, strict=True):
        assert torch.equal(vectors, torch.stack([row[i] for i in run.chosen]))


def test_a_colon_picks_for_all_rows__but_arange_does_not(snippet, fails):
    edited = snippet.edit(
        "features[:, chosen]", "features[torch.arange(4), chosen]"
    )
    fails(test_a_colon_picks_for_all_rows, edited)


def test_they_agree_on_one_position(snippet, capsys):
    snippet.after("same-only")

    assert capsys.readouterr().out.endswith("True\n")


def test_they_agree_on_one_position__but_not_on_another(
    snippet, capsys, fails
):
    edited = snippet.edit("features[:, 2]", "features[:, 3]")
    fails(test_they_agree_on_one_position, edited, capsys)


def test_plain_indexing_gives_views(snippet):
    for name in VIEWS:
        assert shares(snippet, name)


@pytest.mark.parametrize("name", VIEWS)
def test_plain_indexing_gives_views__but_clones_share_nothing(
    snippet, name, fails
):
    edited = snippet.edit(f": {name},", f": {name}.clone(),")
    fails(test_plain_indexing_gives_views, edited)


def test_masks_and_lists_copy(snippet):
    for name in COPIES:
        assert not shares(snippet, name)


@pytest.mark.parametrize("name", COPIES)
def test_masks_and_lists_copy__but_slices_do_not(snippet, name, fails):
    edited = snippet.edit(f": {name},", ": grid[:, ::2],")
    fails(test_masks_and_lists_copy, edited)


def test_reshape_copies_if_it_must(snippet):
    assert shares(snippet, "grid.reshape(3, 2)")
    assert not shares(snippet, "grid.mT.reshape(6)")


def test_reshape_copies_if_it_must__but_not_otherwise(snippet, fails):
    edited = snippet.edit(": grid.mT.reshape(6)", ": grid.reshape(6)")
    fails(test_reshape_copies_if_it_must, edited)


def test_writing_to_a_view_writes_through(snippet):
    run = snippet.after("write")

    assert run.grid[0, 0] == 1000 + 100
    assert run.picked[0, 1] == 200
    assert run.grid[0, 2] == 1000 + 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first_row = grid[0]", "first_row = grid[[0]][0]"),
        ("picked = grid[:, [0, 2]]", "picked = grid[:, ::2]"),
    ],
)
def test_writing_to_a_view_writes_through__but_not_to_a_copy(
    snippet, old, new, fails
):
    fails(test_writing_to_a_view_writes_through, snippet.edit(old, new))


def test_assignment_writes_through_lists(snippet):
    run = snippet.after("write")

    assert run.grid[1].tolist() == [1003, 4, 1005]


def test_assignment_writes_through_lists__but_not_to_a_name(snippet, fails):
    edited = snippet.edit(
        "grid[:, [0, 2]] += 1000", "named = grid[:, [0, 2]]\nnamed += 1000"
    )
    fails(test_assignment_writes_through_lists, edited)


def test_repeated_positions_count_once(snippet, capsys):
    run = snippet.after("repeated")

    assert run.counts.tolist() == [1, 1, 0]
    assert capsys.readouterr().out.endswith("tensor([2., 1., 0.])\n")


def test_repeated_positions_count_once__but_not_with_accumulate(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "counts[torch.tensor([0, 0, 1])] += 1",
        "counts.index_put_((torch.tensor([0, 0, 1]),), torch.ones(3), True)",
    )
    fails(test_repeated_positions_count_once, edited, capsys)


def test_no_negative_steps(snippet, capsys):
    snippet.after("numpy")

    said = "a negative step: step must be greater than zero"
    assert said in capsys.readouterr().out


def test_no_negative_steps__but_positive_ones(snippet, capsys, fails):
    fails(
        test_no_negative_steps, snippet.edit("cube[::-1]", "cube[::1]"), capsys
    )


def test_separated_lists_differ_from_numpy(snippet):
    run = snippet.after("numpy")

    assert run.cube[0, :, [0, 1]].shape == (3, 2)
    assert run.array[0, :, [0, 1]].shape == (2, 3)


def test_separated_lists_differ_from_numpy__but_not_from_torch(snippet, fails):
    edited = snippet.edit("array = cube.numpy()", "array = cube")
    fails(test_separated_lists_differ_from_numpy, edited)


def test_one_element_is_a_tensor(snippet):
    run = snippet.after("numpy")

    assert type(run.cube[0, 0, 0]) is torch.Tensor
    assert type(run.array[0, 0, 0]) is numpy.int64


def test_one_element_is_a_tensor__but_not_of_a_list(snippet, fails):
    edited = snippet.edit("array = cube.numpy()", "array = cube")
    fails(test_one_element_is_a_tensor, edited)
