"""The claims of docs/tensors/creation.md."""

import pytest
import torch


def dtypes(snippet):
    """Return the dtype that each example gets."""
    rows = snippet.after("infer").rows
    return {name: row["dtype"] for name, row in rows.items()}


def test_lists_give_rows(snippet):
    run = snippet.after("values")

    assert run.table.shape == (3, 2)
    assert run.table[2].tolist() == [5, 6]


def test_lists_give_rows__but_a_flat_list_gives_none(snippet, fails):
    edited = snippet.edit("[[1, 2], [3, 4], [5, 6]]", "[1, 2, 3, 4, 5, 6]")
    fails(test_lists_give_rows, edited)


def test_ragged_rows_raise(snippet):
    run = snippet.after("ragged")

    assert not hasattr(run, "ragged")


def test_ragged_rows_raise__but_not_equal_ones(snippet, fails):
    fails(test_ragged_rows_raise, snippet.edit("2], [3]]", "2], [3, 4]]"))


def test_whole_numbers_give_int64(snippet):
    found = dtypes(snippet)

    assert found["[1, 2]"] == torch.int64
    assert found["[1, True]"] == torch.int64


def test_whole_numbers_give_int64__but_not_once_multiplied(snippet, fails):
    edited = snippet.edit("torch.tensor(each)", "(1.0 * torch.tensor(each))")
    fails(test_whole_numbers_give_int64, edited)


def test_one_fraction_gives_float32(snippet):
    assert dtypes(snippet)["[1, 2.5]"] == torch.float32


def test_one_fraction_gives_float32__but_not_with_another_default(
    snippet, fails
):
    edited = snippet.edit(
        "examples =", "torch.set_default_dtype(torch.float64)\nexamples ="
    )
    fails(test_one_fraction_gives_float32, edited)


def test_an_empty_list_gives_float32(snippet):
    assert dtypes(snippet)["[]"] == torch.float32


def test_an_empty_list_gives_float32__but_not_with_another_default(
    snippet, fails
):
    edited = snippet.edit(
        "examples =", "torch.set_default_dtype(torch.float64)\nexamples ="
    )
    fails(test_an_empty_list_gives_float32, edited)


def test_dtype_decides(snippet):
    assert snippet.after("ask").halves.dtype == torch.float16


def test_dtype_decides__but_without_it_the_values_do(snippet, fails):
    fails(test_dtype_decides, snippet.edit(", dtype=torch.float16", ""))


def test_constants_are_float32(snippet):
    run = snippet.after("constants")

    assert run.zeros.dtype == run.ones.dtype == torch.float32


@pytest.mark.parametrize("old", ["zeros(2, 3", "ones(2"])
def test_constants_are_float32__but_not_when_told_otherwise(
    snippet, old, fails
):
    edited = snippet.edit(f"torch.{old}", f"torch.{old}, dtype=torch.int8")
    fails(test_constants_are_float32, edited)


def test_full_follows_its_value(snippet):
    run = snippet.after("constants")

    assert run.sevens.dtype == torch.int64


def test_full_follows_its_value__but_to_float32_for_a_fraction(snippet, fails):
    fails(test_full_follows_its_value, snippet.edit("(2,), 7)", "(2,), 7.5)"))


def test_like_takes_shape_and_type(snippet):
    run = snippet.after("like")

    assert run.like.shape == run.table.shape
    assert run.like.dtype == run.table.dtype == torch.int64


def test_like_takes_shape_and_type__but_zeros_does_not(snippet, fails):
    edited = snippet.edit("zeros_like(table)", "zeros(table.shape)")
    fails(test_like_takes_shape_and_type, edited)


def test_arange_is_half_open(snippet):
    run = snippet.after("ranges")

    assert run.to_five.tolist() == list(range(5))
    assert run.two_to_eight.tolist() == list(range(2, 8))
    assert run.by_twos.tolist() == list(range(2, 8, 2))


def test_arange_is_half_open__but_linspace_is_not(snippet, fails):
    edited = snippet.edit("torch.arange(2, 8)\n", "torch.linspace(2, 8, 7)\n")
    fails(test_arange_is_half_open, edited)


def test_linspace_includes_both_ends(snippet):
    run = snippet.after("spaces")

    assert len(run.points) == 6
    assert (run.points[0], run.points[-1]) == (0, 1)


def test_linspace_includes_both_ends__but_arange_does_not(snippet, fails):
    edited = snippet.edit("linspace(0, 1, 6)", "arange(6) / 6")
    fails(test_linspace_includes_both_ends, edited)


def test_a_fractional_step_may_reach_the_end(snippet):
    run = snippet.after("rounding")

    assert len(run.steps) == 4
    torch.testing.assert_close(run.steps[-1], torch.tensor(1.3))


def test_a_fractional_step_may_reach_the_end__but_not_a_half(snippet, fails):
    edited = snippet.edit("arange(1, 1.3, 0.1)", "arange(1, 2.5, 0.5)")
    fails(test_a_fractional_step_may_reach_the_end, edited)


def test_counting_first_gives_three(snippet):
    run = snippet.after("rounding")

    torch.testing.assert_close(run.counted, torch.tensor([1.0, 1.1, 1.2]))


def test_counting_first_gives_three__but_not_a_fractional_step(snippet, fails):
    edited = snippet.edit(
        "1 + 0.1 * torch.arange(3)", "torch.arange(1, 1.3, 0.1)"
    )
    fails(test_counting_first_gives_three, edited)


def test_rand_is_below_one(snippet):
    run = snippet.after("chance")

    assert 0 <= run.uniform.min() < 0.01
    assert 0.99 < run.uniform.max() < 1


def test_rand_is_below_one__but_randn_is_not(snippet, fails):
    fails(
        test_rand_is_below_one,
        snippet.edit("torch.rand(10_000)", "torch.randn(10_000)"),
    )


def test_randn_is_standard(snippet):
    run = snippet.after("chance")

    assert run.normal.mean() == pytest.approx(0, abs=0.05)
    assert run.normal.std() == pytest.approx(1, abs=0.05)


def test_randn_is_standard__but_rand_is_not(snippet, fails):
    fails(
        test_randn_is_standard,
        snippet.edit("torch.randn(10_000)", "torch.rand(10_000)"),
    )


def test_randint_excludes_its_upper_bound(snippet):
    run = snippet.after("chance")

    assert run.dice.unique().tolist() == [1, 2, 3, 4, 5]


def test_randint_excludes_its_upper_bound__but_includes_six_of_seven(
    snippet, fails
):
    fails(
        test_randint_excludes_its_upper_bound,
        snippet.edit("randint(1, 6,", "randint(1, 7,"),
    )


def test_a_seed_repeats(snippet):
    run = snippet.after("seed")

    assert torch.equal(run.first, run.again)
    assert not torch.equal(run.first, run.after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.manual_seed(1)\nagain", "again"),
        ("after = torch", "torch.manual_seed(1)\nafter = torch"),
    ],
)
def test_a_seed_repeats__but_only_where_it_is_set(snippet, old, new, fails):
    fails(test_a_seed_repeats, snippet.edit(old, new))


def test_a_generator_is_independent(snippet):
    run = snippet.after("generator")

    assert torch.equal(run.first, run.mine)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", generator=own", ""),
        (
            "torch.Generator().manual_seed(1)",
            "torch.Generator().manual_seed(2)",
        ),
    ],
)
def test_a_generator_is_independent__but_not_the_common_one(
    snippet, old, new, fails
):
    fails(test_a_generator_is_independent, snippet.edit(old, new))


def test_from_numpy_keeps_float64(snippet):
    run = snippet.after("from-numpy")

    assert run.from_array.dtype == torch.float64


def test_from_numpy_keeps_float64__but_keeps_float32_as_well(snippet, fails):
    edited = snippet.edit("[3.0, 4.0]])", "[3.0, 4.0]], dtype=np.float32)")
    fails(test_from_numpy_keeps_float64, edited)


def test_a_list_gives_float32(snippet):
    run = snippet.after("from-numpy")

    assert run.from_list.dtype == torch.float32


def test_a_list_gives_float32__but_the_array_does_not(snippet, fails):
    edited = snippet.edit(
        "torch.tensor(array.tolist())", "torch.tensor(array)"
    )
    fails(test_a_list_gives_float32, edited)


def test_capital_tensor_loses_digits(snippet):
    run = snippet.after("capital")

    assert run.small.item() == 16777217
    assert run.capital.dtype == torch.float32
    assert run.capital.item() == 16777216


def test_capital_tensor_loses_digits__but_not_below_the_limit(snippet, fails):
    edited = snippet.edit(
        "torch.Tensor([16777217])", "torch.Tensor([16777215])"
    )
    fails(test_capital_tensor_loses_digits, edited)


def test_capital_tensor_takes_a_size(snippet):
    run = snippet.after("capital-size")

    assert run.unchosen.shape == (3,)
    assert run.number.shape == ()


def test_capital_tensor_takes_a_size__but_a_list_is_its_values(snippet, fails):
    edited = snippet.edit("torch.Tensor(3)", "torch.Tensor([3])")
    fails(test_capital_tensor_takes_a_size, edited)


def test_capital_tensor_takes_no_dtype(snippet):
    run = snippet.after("capital-dtype")

    assert not hasattr(run, "typed")


def test_capital_tensor_takes_no_dtype__but_the_function_does(snippet, fails):
    edited = snippet.edit("torch.Tensor([1, 2]", "torch.tensor([1, 2]")
    fails(test_capital_tensor_takes_no_dtype, edited)
