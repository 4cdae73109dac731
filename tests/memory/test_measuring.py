"""The claims of docs/memory/measuring.md."""

import pytest
import torch

without_cuda = pytest.mark.skipif(
    torch.cuda.is_available(), reason="a CUDA device is here"
)


@without_cuda
def test_without_cuda_the_gauge_shows_zero(snippet, capsys):
    run = snippet.after("silent-zero")

    assert run.kept.nbytes == 4_000_000
    assert capsys.readouterr().out == "0 0\n"


@without_cuda
def test_without_cuda_the_gauge_shows_zero__but_storages_do_not(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "print(torch.cuda.memory_allocated(),", "print(kept.nbytes,"
    )
    fails(test_without_cuda_the_gauge_shows_zero, edited, capsys)


@without_cuda
def test_without_cuda_the_summary_fails(snippet, capsys):
    snippet.after("summary")

    assert "KeyError" in capsys.readouterr().out.splitlines()[-1]


@without_cuda
def test_without_cuda_the_summary_fails__but_not_its_parts(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "torch.cuda.memory_summary()", "torch.cuda.memory_reserved()"
    )
    fails(test_without_cuda_the_summary_fails, edited, capsys)


def test_a_row_holds_the_table(snippet):
    run = snippet.after("storages")

    assert run.row.nbytes == 4_000
    assert run.bytes_of([run.row]) == 4_000_000
    assert run.bytes_of([run.table, run.row]) == 4_000_000


def test_a_row_holds_the_table__but_a_clone_does_not(snippet, fails):
    edited = snippet.edit("row = table[0]", "row = table[0].clone()")
    fails(test_a_row_holds_the_table, edited)


def test_expand_takes_no_room(snippet):
    run = snippet.after("storages")

    assert run.wide.nbytes == 4_000_000
    assert run.bytes_of([run.wide]) == 4


def test_expand_takes_no_room__but_its_copy_does(snippet, fails):
    edited = snippet.edit(
        "expand(1000, 1000)", "expand(1000, 1000).contiguous()"
    )
    fails(test_expand_takes_no_room, edited)


def test_the_ledger_balances(snippet):
    run = snippet.after("count")

    for name in ("parameters", "gradients", "optimizer state"):
        assert run.counted[name] == run.predicted[name] > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "nn.Linear(inside, hidden), nn.ReLU()",
            "nn.Linear(inside, hidden, bias=False), nn.ReLU()",
        ),
        (
            "optim.Adam(model.parameters())",
            "optim.Adam(model.parameters(), amsgrad=True)",
        ),
        (
            "optim.Adam(model.parameters())",
            "optim.Adam(model[0].parameters())",
        ),
    ],
)
def test_the_ledger_balances__but_not_of_another_step(
    snippet, old, new, fails
):
    fails(test_the_ledger_balances, snippet.edit(old, new))


def test_activations_grow_with_the_batch(snippet):
    small = snippet.after("count")
    large = snippet.edit("= 32, 100", "= 64, 100").after("count")

    assert small.counted == small.predicted
    assert large.counted == large.predicted
    grown = {n for n in small.counted if small.counted[n] != large.counted[n]}
    assert grown == {"activations"}
    assert large.counted["activations"] == 2 * small.counted["activations"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.ReLU()", "nn.GELU()"),
        ("model(inputs).square().mean()", "model(inputs).mean()"),
    ],
)
def test_activations_grow_with_the_batch__but_others_keep(
    snippet, old, new, fails
):
    fails(test_activations_grow_with_the_batch, snippet.edit(old, new))


def test_a_difference_misses_the_peak(snippet):
    run = snippet.after("misses-the-peak")

    assert run.after - run.before == 4
    assert run.between - run.before == 4_000_000


def test_a_difference_misses_the_peak__but_not_what_stays(snippet, fails):
    edited = snippet.edit("del doubled\n", "")
    fails(test_a_difference_misses_the_peak, edited)


@pytest.mark.cuda
def test_cuda_blocks_are_512_bytes(snippet):
    run = snippet.after("cuda-blocks")

    assert run.after_one == 512
    assert run.after_both == 512 + 1024


@pytest.mark.cuda
def test_cuda_blocks_are_512_bytes__but_one_holds_128(snippet, fails):
    edited = snippet.edit("torch.ones(129,", "torch.ones(128,")
    fails(test_cuda_blocks_are_512_bytes, edited)


@pytest.mark.cuda
def test_the_ledger_balances_on_cuda(snippet):
    run = snippet.after("cuda-ledger")

    assert run.rounded(run.held) == run.cuda_counted


@pytest.mark.cuda
def test_the_ledger_balances_on_cuda__but_not_unrounded(snippet, fails):
    edited = snippet.edit("-(-tensor.nbytes // 512) * 512", "tensor.nbytes")
    fails(test_the_ledger_balances_on_cuda, edited)


@pytest.mark.cuda
def test_cuda_knows_its_peak(snippet):
    run = snippet.after("cuda-peak")

    assert run.difference == 0
    assert run.peak == 4 * 2**20


@pytest.mark.cuda
def test_cuda_knows_its_peak__but_not_after_a_reset(snippet, fails):
    edited = snippet.edit(
        "    del temporary\n",
        "    del temporary\n    torch.cuda.reset_peak_memory_stats()\n",
    )
    fails(test_cuda_knows_its_peak, edited)


@pytest.mark.cuda
def test_the_driver_sees_more(snippet):
    run = snippet.after("cuda-peak")

    assert run.driver > run.reserved >= run.low


@pytest.mark.cuda
def test_the_driver_sees_more__but_not_of_what_is_free(snippet, fails):
    edited = snippet.edit("driver = total_there - free", "driver = 0")
    fails(test_the_driver_sees_more, edited)


def test_snapshots_can_be_recorded():
    """Names are there or not: nothing in the snippet can take them away."""
    assert callable(torch.cuda.memory._record_memory_history)
    assert callable(torch.cuda.memory._dump_snapshot)
