"""The claims of docs/tensors/broadcasting.md."""

from itertools import product, zip_longest

import pytest
import torch


def by_the_rules(first, second):
    """Return the shape that the page's rules give, or an error."""
    sizes = []
    for a, b in zip_longest(reversed(first), reversed(second), fillvalue=1):
        if a != b and 1 not in (a, b):
            return "error"
        sizes.append(b if a == 1 else a)
    return tuple(reversed(sizes))


def test_a_column_and_a_row_make_a_table(snippet):
    run = snippet.after("meet")

    assert (run.column.shape, run.row.shape) == ((3, 1), (1, 4))
    assert run.total.shape == (3, 4)
    assert run.total[2].tolist() == [21, 22, 23, 24]


def test_a_column_and_a_row_make_a_table__but_two_columns_do_not(
    snippet, fails
):
    edited = snippet.edit("[[1, 2, 3, 4]]", "[[1], [2], [3]]")
    fails(test_a_column_and_a_row_make_a_table, edited)


def test_results_follow_the_rules(snippet):
    rows = snippet.after("try").rows

    assert len(rows) == 7
    for row in rows:
        assert row["result"] == by_the_rules(row["first"], row["second"])


def test_results_follow_the_rules__also_for_all_small_shapes(snippet):
    meeting = snippet.after("rule").meeting
    shapes = [s for n in range(4) for s in product((0, 1, 2), repeat=n)]

    for first, second in product(shapes, shapes):
        assert meeting(first, second) == by_the_rules(first, second)


@pytest.mark.parametrize("new", ["torch.zeros(second).sum()", "0"])
def test_results_follow_the_rules__but_not_of_another_operation(
    snippet, new, fails
):
    edited = snippet.edit("torch.zeros(second))", f"{new})")
    fails(test_results_follow_the_rules, edited)


def test_no_dimension_fits_all(snippet):
    rows = snippet.after("try").rows

    [row] = [row for row in rows if row["second"] == ()]
    assert row["result"] == row["first"] == (3, 4)


def test_no_dimension_fits_all__but_two_numbers_do_not(snippet, fails):
    edited = snippet.edit("torch.zeros(second))", "torch.zeros(second or 2))")
    fails(test_no_dimension_fits_all, edited)


def test_zero_fits_zero_and_one(snippet):
    run = snippet.after("rule")

    assert run.meeting((0,), (0,)) == run.meeting((0,), (1,)) == (0,)
    assert run.meeting((3, 0), (3, 1)) == (3, 0)
    for size in range(2, 6):
        assert run.meeting((0,), (size,)) == "error"


def test_zero_fits_zero_and_one__but_is_no_error_alone(snippet, fails):
    edited = snippet.edit("torch.zeros(second))", "0)")
    fails(test_zero_fits_zero_and_one, edited)


def test_shapes_are_compared_from_the_right(snippet):
    run = snippet.after("rule")

    assert run.meeting((3, 4), (3,)) == "error"
    assert run.meeting((3, 4), (4,)) == (3, 4)
    assert run.meeting((3, 4), (3, 1)) == (3, 4)


def test_shapes_are_compared_from_the_right__but_not_once_turned(
    snippet, fails
):
    edited = snippet.edit(
        "(torch.zeros(first) +", "(torch.zeros(first[::-1]).mT.mT +"
    )
    fails(test_shapes_are_compared_from_the_right, edited)


def test_expand_copies_nothing(snippet):
    run = snippet.after("no-copy")

    assert run.repeated.stride() == (0, 1)
    assert run.repeated.data_ptr() == run.numbers.data_ptr()


def test_expand_copies_nothing__but_repeat_does(snippet, fails):
    edited = snippet.edit("numbers.expand(3, 4)", "numbers.repeat(3, 1)")
    fails(test_expand_copies_nothing, edited)


def test_in_place_does_not_stretch(snippet):
    run = snippet.after("in-place")

    assert run.target.shape == (3, 1)
    assert run.target.sum() == 0
    with pytest.raises(RuntimeError, match="doesn't match the broadcast"):
        run.target += torch.ones(1, 4)


def test_in_place_does_not_stretch__but_stretches_the_other(snippet, fails):
    edited = snippet.edit("torch.ones(1, 4)", "torch.ones(1, 1)")
    fails(test_in_place_does_not_stretch, edited)


def test_the_difference_is_square(snippet):
    run = snippet.after("silent")

    difference = run.predictions - run.answers
    assert difference.shape == (3, 3)
    assert difference[2].tolist() == [2, 1, 0]


def test_the_difference_is_square__but_not_of_equal_shapes(snippet, fails):
    edited = snippet.edit(
        "answers = torch.tensor([1.0, 2.0, 3.0])",
        "answers = torch.tensor([[1.0], [2.0], [3.0]])",
    )
    fails(test_the_difference_is_square, edited)


def test_a_column_of_targets_mends_it(snippet, capsys):
    snippet.after("silent")

    assert capsys.readouterr().out.endswith("torch.Size([3, 1])\n")


def test_a_column_of_targets_mends_it__but_a_row_does_not(
    snippet, capsys, fails
):
    edited = snippet.edit("answers.unsqueeze(1)", "answers.unsqueeze(0)")
    fails(test_a_column_of_targets_mends_it, edited, capsys)


def test_matching_shapes_find_the_weights(snippet):
    run = snippet.after("fit-both")

    assert run.of_column == pytest.approx([1, -2, 0.5], abs=0.01)


def test_matching_shapes_find_the_weights__but_not_others(snippet, fails):
    edited = snippet.edit("fit(outputs.unsqueeze(1))", "fit(outputs)")
    fails(test_matching_shapes_find_the_weights, edited)


def test_flat_targets_learn_nothing(snippet):
    run = snippet.after("fit-both")

    assert run.of_flat == pytest.approx([0, 0, 0], abs=0.01)


def test_flat_targets_learn_nothing__but_a_column_does(snippet, fails):
    edited = snippet.edit("fit(outputs)\n", "fit(outputs.unsqueeze(1))\n")
    fails(test_flat_targets_learn_nothing, edited)


def test_mse_loss_warns(snippet):
    run = snippet.after("warning")

    said = [str(each.message) for each in run.caught]
    assert any("different to the input size" in each for each in said)


def test_mse_loss_warns__but_not_of_equal_shapes(snippet, fails):
    edited = snippet.edit(
        "mse_loss(predictions, answers)",
        "mse_loss(predictions, answers.unsqueeze(1))",
    ).edit('print(str(caught[0].message).partition(". ")[0])', "")
    fails(test_mse_loss_warns, edited)
