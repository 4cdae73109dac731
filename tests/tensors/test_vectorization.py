"""The claims of docs/tensors/vectorization.md."""

import torch
from torch.testing import assert_close


def test_amax_equals_the_loop(snippet):
    run = snippet.after("call")
    torch.manual_seed(1)

    for table in (run.table, -run.table, torch.randn(2, 100)):
        assert torch.equal(run.largest_by_loop(table), table.amax(dim=1))


def test_amax_equals_the_loop__but_not_a_loop_for_the_smallest(snippet, fails):
    fails(
        test_amax_equals_the_loop,
        snippet.edit("value > largest", "value < largest"),
    )


def test_dim_disappears(snippet, capsys):
    snippet.after("dim")

    assert capsys.readouterr().out.splitlines()[-3:] == [
        "tensor([7., 6., 5., 4.])",
        "tensor([3., 7.])",
        "tensor(7.)",
    ]


def test_dim_disappears__but_another_for_another(snippet, capsys, fails):
    edited = snippet.edit("amax(dim=0))\n", "amax(dim=-1))\n")
    fails(test_dim_disappears, edited, capsys)


def test_the_loop_loses_digits(snippet):
    run = snippet.after("loop-breaks")

    assert run.largest_by_loop(run.whole)[0] == 16777216
    assert run.whole.amax(dim=1)[0] == 16777217


def test_the_loop_loses_digits__but_not_in_int64(snippet, fails):
    edited = snippet.edit(
        "torch.empty(2)", "torch.empty(2, dtype=table.dtype)"
    )
    fails(test_the_loop_loses_digits, edited)


def test_the_loop_knows_two_rows(snippet):
    run = snippet.after("loop")

    assert run.largest_by_loop(torch.zeros(5, 3)).shape == (2,)
    assert torch.zeros(5, 3).amax(dim=1).shape == (5,)


def test_the_loop_knows_two_rows__but_could_know_all(snippet, fails):
    edited = snippet.edit("torch.empty(2)", "torch.empty(len(table))")
    fails(test_the_loop_knows_two_rows, edited)


def test_max_gives_positions(snippet):
    run = snippet.after("where")

    assert run.values.tolist() == [3, 7]
    assert run.positions.tolist() == [3, 0]


def test_max_gives_positions__but_others_for_the_smallest(snippet, fails):
    fails(test_max_gives_positions, snippet.edit("table.max(", "table.min("))


def test_amax_shares_the_gradient(snippet):
    rows = snippet.after("tied-gradients").rows

    assert rows["tied.amax(dim=0)"] == [0, 0.5, 0.5]
    assert rows["tied.max()"] == [0, 0.5, 0.5]


def test_amax_shares_the_gradient__but_not_without_a_tie(snippet, fails):
    fails(
        test_amax_shares_the_gradient, snippet.edit("5.0, 5.0]", "5.0, 4.0]")
    )


def test_max_with_dim_picks_one(snippet):
    rows = snippet.after("tied-gradients").rows

    assert sorted(rows["tied.max(dim=0).values"]) == [0, 0, 1]
    assert rows["tied[tied.argmax()]"] == rows["tied.max(dim=0).values"]


def test_max_with_dim_picks_one__but_amax_does_not(snippet, fails):
    edited = snippet.edit(
        "slope(tied.max(dim=0).values)", "slope(tied.amax(0))"
    )
    fails(test_max_with_dim_picks_one, edited)


def test_the_call_equals_the_loop(snippet):
    run = snippet.after("vectors")

    assert run.looped.shape == (5,)
    assert_close(run.called, run.looped)


def test_the_call_equals_the_loop__but_not_over_another_axis(snippet, fails):
    edited = snippet.edit(
        "called = F.cosine_similarity(first, second, dim=1)",
        "called = F.cosine_similarity(first, second, dim=0)",
    )
    fails(test_the_call_equals_the_loop, edited)


def test_the_composition_equals_the_call(snippet):
    run = snippet.after("composed")

    assert_close(run.composed, run.called)


def test_the_composition_equals_the_call__but_not_with_one_length(
    snippet, fails
):
    edited = snippet.edit(
        "lengths = lengths * torch.linalg.vector_norm(second, dim=1)\n", ""
    )
    fails(test_the_composition_equals_the_call, edited)


def test_the_wrong_dim_compares_columns(snippet):
    run = snippet.after("wrong-dim")

    assert run.wrong.shape == (3,)
    columns = torch.nn.functional.cosine_similarity(
        run.first.T, run.second.T, dim=1
    )
    assert_close(run.wrong, columns)


def test_the_wrong_dim_compares_columns__but_the_right_one_rows(
    snippet, fails
):
    edited = snippet.edit("second, dim=0)", "second, dim=1)")
    fails(test_the_wrong_dim_compares_columns, edited)


def test_the_call_is_safe_at_zero(snippet, capsys):
    snippet.after("zero")

    assert capsys.readouterr().out.endswith("tensor(0.)\ntensor(nan)\n")


def test_the_call_is_safe_at_zero__but_only_there(snippet, capsys, fails):
    edited = snippet.edit("torch.zeros(3), torch", "torch.ones(3), torch")
    fails(test_the_call_is_safe_at_zero, edited, capsys)


def test_one_product_compares_all(snippet):
    run = snippet.after("all-pairs")

    assert run.pairs.shape == (5, 5)
    for i in range(5):
        row = run.first[i].expand(5, 3)
        one_by_one = torch.nn.functional.cosine_similarity(row, run.second)
        assert_close(run.pairs[i], one_by_one)


def test_one_product_compares_all__but_not_unnormalized(snippet, fails):
    fails(
        test_one_product_compares_all,
        snippet.edit("F.normalize(first, dim=1) @", "first @"),
    )


def test_broadcasting_compares_all(snippet):
    run = snippet.after("all-pairs")

    assert_close(run.by_shape, run.pairs)


def test_broadcasting_compares_all__but_not_with_one_axis(snippet, fails):
    edited = snippet.edit("(first[:, None], second", "(first[None, :], second")
    fails(test_broadcasting_compares_all, edited)


def test_vmap_makes_a_batch(snippet):
    run = snippet.after("vmap")

    assert run.mapped.shape == (5,)
    assert_close(run.mapped, run.called)


def test_vmap_makes_a_batch__but_not_of_columns(snippet, fails):
    edited = snippet.edit(
        "torch.vmap(similarity)", "torch.vmap(similarity, in_dims=1)"
    )
    fails(test_vmap_makes_a_batch, edited)
