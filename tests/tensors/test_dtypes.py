"""The claims of docs/tensors/dtypes.md."""

import math

import pytest
import torch


def test_bfloat16_reaches_as_far_as_float32(snippet):
    rows = snippet.after("describe-floats").float_rows
    largest = {name: float(row["largest"]) for name, row in rows.items()}

    assert (
        rows["torch.float16"]["bits"] == rows["torch.bfloat16"]["bits"] == 16
    )
    assert largest["torch.bfloat16"] > 0.99 * largest["torch.float32"]
    assert largest["torch.float16"] < 70_000


def test_bfloat16_reaches_as_far_as_float32__but_float16_does_not(
    snippet, fails
):
    edited = snippet.edit("finfo(dtype)", "finfo(torch.bfloat16)")
    fails(test_bfloat16_reaches_as_far_as_float32, edited)


def test_bfloat16_is_coarser(snippet):
    rows = snippet.after("describe-floats").float_rows
    step = {name: float(row["step above 1"]) for name, row in rows.items()}

    ratio = step["torch.bfloat16"] / step["torch.float16"]
    assert ratio == pytest.approx(8, rel=0.05)
    one = torch.tensor(1, dtype=torch.bfloat16)
    assert one + 2**-7 > 1
    assert one + 2**-9 == 1


def test_bfloat16_is_coarser__but_not_its_reach(snippet, fails):
    fails(test_bfloat16_is_coarser, snippet.edit("{info.eps:", "{info.max:"))


def test_float16_overflows_and_underflows(snippet):
    rows = snippet.after("halves").half_rows

    assert rows["70000"]["float16"] == math.inf
    assert rows["1e-08"]["float16"] == 0


def test_float16_overflows_and_underflows__but_float32_does_not(
    snippet, fails
):
    edited = snippet.edit(".to(torch.float16)", ".to(torch.float32)")
    fails(test_float16_overflows_and_underflows, edited)


def test_bfloat16_rounds_more(snippet):
    rows = snippet.after("halves").half_rows

    assert rows["70000"]["bfloat16"] == pytest.approx(70_000, rel=0.01)
    assert rows["1e-08"]["bfloat16"] == pytest.approx(1e-8, rel=0.01)
    assert rows["257"] == {"float16": 257, "bfloat16": 256}


def test_bfloat16_rounds_more__but_float16_does_not(snippet, fails):
    edited = snippet.edit(".to(torch.bfloat16)", ".to(torch.float16)")
    fails(test_bfloat16_rounds_more, edited)


def test_integers_have_aliases(snippet):
    rows = snippet.after("describe-integers").integer_rows

    assert rows["torch.int64"]["alias"] == "long"
    assert rows["torch.int32"]["alias"] == "int"
    assert rows["torch.int16"]["alias"] == "short"


def test_integers_have_aliases__but_are_not_aliases_of_themselves(
    snippet, fails
):
    edited = snippet.edit(" if name != str(dtype)[6:]", "")
    fails(test_integers_have_aliases, edited)


def test_bytes_have_no_alias(snippet):
    rows = snippet.after("describe-integers").integer_rows

    assert rows["torch.int8"]["alias"] == ""
    assert rows["torch.uint8"]["alias"] == ""


def test_bytes_have_no_alias__but_a_second_name_would_show(snippet, fails):
    edited = snippet.edit(" if name != str(dtype)[6:]", "")
    fails(test_bytes_have_no_alias, edited)


def test_bool_takes_eight_bits(snippet):
    row = snippet.after("describe-integers").integer_rows["torch.bool"]

    assert row["bits"] == 8
    assert torch.ones(100, dtype=torch.bool).nbytes == 100


def test_bool_takes_eight_bits__but_int16_takes_more(snippet, fails):
    edited = snippet.edit("torch.bool.itemsize", "torch.int16.itemsize")
    fails(test_bool_takes_eight_bits, edited)


def test_uint8_wraps_around(snippet):
    run = snippet.after("wrap")

    assert run.bright.item() == 200
    assert run.dark.tolist() == [144]


def test_uint8_wraps_around__but_int16_does_not(snippet, fails):
    edited = snippet.edit(
        "torch.tensor([200], dtype=torch.uint8)",
        "torch.tensor([200], dtype=torch.int16)",
    )
    fails(test_uint8_wraps_around, edited)


def test_converted_bytes_add_up(snippet):
    run = snippet.after("wrap")

    assert run.right.tolist() == [400]


def test_converted_bytes_add_up__but_not_once_it_is_too_late(snippet, fails):
    edited = snippet.edit(
        "bright.to(torch.int64) + bright", "(bright + bright).to(torch.int64)"
    )
    fails(test_converted_bytes_add_up, edited)


def test_to_changes_nothing_in_place(snippet):
    run = snippet.after("convert")

    assert run.single.dtype == torch.float32
    assert run.double.dtype == torch.float64


def test_to_changes_nothing_in_place__but_an_assignment_does(snippet, fails):
    edited = snippet.edit("double = single.to", "double = single = single.to")
    fails(test_to_changes_nothing_in_place, edited)


def test_to_the_same_type_copies_nothing(snippet):
    run = snippet.after("same")

    assert run.same is run.single
    assert run.double is not run.single


def test_to_the_same_type_copies_nothing__but_does_when_told_to(
    snippet, fails
):
    edited = snippet.edit(
        "to(torch.float32)\n\n", "to(torch.float32, copy=True)\n\n"
    )
    fails(test_to_the_same_type_copies_nothing, edited)


def test_fractions_are_cut_off(snippet):
    run = snippet.after("to-integers")

    assert run.cut_off.tolist() == [-1, 1]


def test_fractions_are_cut_off__but_not_once_rounded(snippet, fails):
    edited = snippet.edit("[-1.7, 1.7])", "[-1.7, 1.7]).round()")
    fails(test_fractions_are_cut_off, edited)


def test_all_but_zero_is_true(snippet):
    run = snippet.after("to-integers")

    assert run.truth.tolist() == [False, True, True]


def test_all_but_zero_is_true__but_not_once_cut_off(snippet, fails):
    edited = snippet.edit(".to(torch.bool)", ".long().to(torch.bool)")
    fails(test_all_but_zero_is_true, edited)


def test_conversion_wraps_around(snippet):
    run = snippet.after("to-integers")

    assert run.wrapped.tolist() == [44]


def test_conversion_wraps_around__but_not_below_256(snippet, fails):
    fails(test_conversion_wraps_around, snippet.edit("([300])", "([255])"))


def test_a_fraction_promotes_integers(snippet):
    run = snippet.after("promote")

    assert run.whole.dtype == torch.int64
    assert run.with_number.dtype == torch.float32


def test_a_fraction_promotes_integers__but_a_whole_number_does_not(
    snippet, fails
):
    fails(
        test_a_fraction_promotes_integers,
        snippet.edit("with_number = whole + 1.5", "with_number = whole + 1"),
    )


def test_the_wider_float_wins(snippet):
    run = snippet.after("promote")

    assert run.with_doubles.dtype == torch.float64


def test_the_wider_float_wins__but_not_where_there_is_none(snippet, fails):
    edited = snippet.edit("ones(3, dtype=torch.float64)", "ones(3)")
    fails(test_the_wider_float_wins, edited)


def test_a_single_number_does_not_widen(snippet):
    run = snippet.after("promote")

    assert run.doubles.sum().dtype == torch.float64
    assert run.with_one_double.dtype == torch.float32


def test_a_single_number_does_not_widen__but_one_dimension_does(
    snippet, fails
):
    edited = snippet.edit("doubles.sum()\n", "doubles.sum(0, keepdim=True)\n")
    fails(test_a_single_number_does_not_widen, edited)


def test_a_single_number_does_not_widen__but_another_kind_does(snippet, fails):
    edited = snippet.edit(
        "torch.ones(3) + doubles.sum()", "whole + doubles.sum()"
    )
    fails(test_a_single_number_does_not_widen, edited)


def test_division_gives_fractions(snippet):
    run = snippet.after("divide")

    assert run.quotient.tolist() == [0.5, 1, 1.5]
    assert run.rounded_down.tolist() == [0, 1, 1]
    assert run.rounded_down.dtype == torch.int64


@pytest.mark.parametrize(
    ("old", "new"),
    [("whole / 2", "whole // 2"), (", whole // 2", ", whole / 2")],
)
def test_division_gives_fractions__but_not_the_other_one(
    snippet, old, new, fails
):
    fails(test_division_gives_fractions, snippet.edit(old, new))


def test_in_place_cannot_promote(snippet):
    run = snippet.after("in-place")

    assert run.whole.tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="can't be cast to the desired"):
        run.whole += 1.5


def test_in_place_cannot_promote__but_takes_a_whole_number(snippet, fails):
    fails(
        test_in_place_cannot_promote,
        snippet.edit("whole += 1.5", "whole += 1"),
    )


def test_integers_have_no_mean(snippet, dtype=None):
    run = snippet.after("no-mean")

    with pytest.raises(RuntimeError, match="floating point or complex"):
        run.whole.mean(dtype=dtype)
    with pytest.raises(RuntimeError, match="floating point and complex"):
        run.whole.std()


def test_integers_have_no_mean__but_fractions_have(snippet, fails):
    edited = snippet.edit(
        "torch.tensor([1, 2, 3])", "torch.tensor([1.0, 2, 3])"
    )
    fails(test_integers_have_no_mean, edited)


def test_integers_have_no_mean__but_with_a_dtype(snippet, fails):
    fails(test_integers_have_no_mean, snippet, torch.float32)


def test_linear_refuses_integers(snippet):
    run = snippet.after("no-layer")

    with pytest.raises(RuntimeError, match="must have the same dtype"):
        run.layer(run.whole)
    assert run.layer(run.whole.to(torch.float32)).shape == (1,)


def test_linear_refuses_integers__but_not_fractions(snippet, fails):
    edited = snippet.edit(
        "torch.tensor([1, 2, 3])", "torch.tensor([1.0, 2, 3])"
    )
    fails(test_linear_refuses_integers, edited)
