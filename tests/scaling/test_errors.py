"""The claims of docs/scaling/errors.md."""

from datetime import timedelta
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after as after_once
from tests.helpers.forks import (
    THREADS_MAY_BE_LEFT,
    skip_if_forks_cannot_train,
)
from tests.helpers.programs import resumed

pytestmark = [
    THREADS_MAY_BE_LEFT,
    # In torch 2.6 and 2.9, dcp warns about a call of its own.
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
    pytest.mark.filterwarnings("ignore:torch.distributed is"),
]

GROUP = ("no-group",)
START = ("no-group", "start")
ATTRIBUTE = ("no-group", "start", "encoder", "attribute")
LOSSES = ("no-group", "start", "losses")
MISSING = ("no-group", "start", "missing-key")
NOT_YET = "Default process group has not been initialized, please make sure"


def test_both_spellings_are_taken(snippet):
    assert after_once(snippet, "local-rank").ranks == [1, 1]


@edits(
    ("underscores alone", '"--local-rank", "--local_rank"', '"--local_rank"'),
    ("hyphens alone", '"--local-rank", "--local_rank"', '"--local-rank"'),
)
def test_both_spellings_are_taken__but_not_with(snippet, old, new, fails):
    """With one name alone, the other spelling is an unrecognized argument."""
    edited = snippet.edit(old, new).edit(
        "parser.parse_args([argument]).local_rank",
        "parser.parse_known_args([argument])[0].local_rank",
    )
    fails(test_both_spellings_are_taken, edited)


def test_the_group_comes_first(snippet):
    errors = after_once(snippet, *GROUP).too_early
    assert [error.startswith(NOT_YET) for error in errors] == [True] * 3


SETUP = "# Wrong on purpose: before init_process_group.\n"


# A group without threads, as the tests behind it fork this process.
FAKE = """from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
"""


def test_the_group_comes_first__but_not_after_it(snippet, fails):
    """After `init_process_group`, none of them raises."""
    edited = snippet.edit(SETUP, FAKE)
    try:
        fails(test_the_group_comes_first, edited)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def test_the_group_comes_first__ends_with_a_given_rank(snippet, fails):
    """`DistributedSampler` needs no group if you pass it both numbers."""
    old = "DistributedSampler(range(8))"
    edited = snippet.edit(old, "DistributedSampler(range(8), 2, 0)")
    fails(test_the_group_comes_first, edited)


def test_a_method_alone_is_not_averaged(snippet):
    skip_if_forks_cannot_train()
    run = after_once(snippet, *ATTRIBUTE)
    text = "'DistributedDataParallel' object has no attribute 'encode'"
    assert run.attribute_error == text
    assert (run.first, run.second) == (1, 3)


@edits(
    (
        "in forward",
        "return self.decoder(self.encode(inputs))",
        "return self.encode(inputs)",
    ),
)
def test_a_method_alone_is_not_averaged__but_not(snippet, old, new, fails):
    """Computed in `forward`, the gradient is averaged."""
    edited = snippet.edit(old, new).edit(
        "model.module.encode(inputs).sum()", "model(inputs).sum()"
    )
    edited = edited.edit(
        "self.decoder = nn.Linear(1, 1, bias=False)", "self.decoder = None"
    )
    fails(test_a_method_alone_is_not_averaged, edited)


def test_a_method_alone_is_not_averaged__but_not_its_name(snippet, fails):
    """In `model.module`, there is an `encode`."""
    old = "error_of(lambda: model.encode(inputs))"
    edited = snippet.edit(old, "error_of(lambda: model.module.encode(inputs))")
    fails(test_a_method_alone_is_not_averaged, edited)


def test_a_method_alone_is_not_averaged__ends_beside_forward(snippet, fails):
    """In one loss with `model(...)`, it is averaged with the rest."""
    old = "model.module.encode(inputs).sum()"
    new = "(model.module.encode(inputs) + 0 * model(inputs)).sum()"
    fails(test_a_method_alone_is_not_averaged, snippet.edit(old, new))


def test_the_mean_needs_all_reduce(snippet, wanted=2):
    printed = after_once(snippet, *LOSSES).printed
    assert [loss for loss, _, _ in printed] == [1, 3]
    assert [mean for _, mean, _ in printed] == [wanted, wanted]


def test_the_mean_needs_all_reduce__ends_with_unequal_parts(snippet, fails):
    """With more samples in one process than in the other: it is not the mean
    over all samples, as each process counts the same.
    """
    samples = [1.0] * 3, [3.0]  # three samples in process 0, one in process 1
    edited = snippet.edit(
        "torch.tensor([1.0, 3.0][rank])",
        f"torch.tensor({samples}[rank]).mean()",
    )
    fails(test_the_mean_needs_all_reduce, edited, 6 / 4)


def test_the_mean_needs_all_reduce__but_not_without_it(snippet, fails):
    """Without `all_reduce`, each process knows its own loss alone."""
    edited = snippet.edit("dist.all_reduce(mean)", "pass")
    fails(test_the_mean_needs_all_reduce, edited)


def test_the_mean_needs_all_reduce__but_not_undivided(snippet, fails):
    """`all_reduce` alone gives the sum."""
    edited = snippet.edit(" / dist.get_world_size()", "")
    fails(test_the_mean_needs_all_reduce, edited)


def test_one_vote_stops_all(snippet):
    assert [stop for *_, stop in after_once(snippet, *LOSSES).printed] == [
        1,
        1,
    ]


def test_one_vote_stops_all__also_from_the_other(snippet):
    test_one_vote_stops_all(snippet.edit("int(loss < 2)", "int(loss > 2)"))


def test_one_vote_stops_all__but_not_the_smallest(snippet, fails):
    """With `MIN`, all have to want it."""
    edited = snippet.edit("ReduceOp.MAX", "ReduceOp.MIN")
    fails(test_one_vote_stops_all, edited)


def test_one_vote_stops_all__but_not_if_none_wants_to(snippet, fails):
    """If no process wants to stop, both go on."""
    edited = snippet.edit("int(loss < 2)", "int(loss < 0)")
    fails(test_one_vote_stops_all, edited)


def shared_out(run, count, epoch=0):
    """Return the parts, and the list that they should make."""
    parts = [run.draws(epoch, rank, count) for rank in range(count)]
    return parts, run.draws(epoch, 0, 1)


def test_one_list_is_shared_out(snippet):
    run = snippet.only("no-group", "weighted").after("weighted")
    first, second = run.parts
    assert len(first) == len(second) == 6
    whole = [each for pair in zip(first, second, strict=True) for each in pair]
    assert whole == run.draws(epoch=0, rank=0, count=1)


@pytest.mark.parametrize("count", [3, 4, 5], ids="{} processes".format)
def test_one_list_is_shared_out__also_with(snippet, count):
    run = snippet.only("no-group", "weighted").after("weighted")
    for epoch in range(3):
        parts, whole = shared_out(run, count, epoch)
        assert {len(part) for part in parts} == {12 // count}
        together = [each for row in zip(*parts, strict=True) for each in row]
        assert together == whole[: len(together)]
    assert run.draws(0, 0, 1) != run.draws(1, 0, 1)


@edits(
    (
        "another seed in each",
        "manual_seed(epoch)",
        "manual_seed(epoch + rank)",
    ),
    ("the whole list", "list(sampler)[rank::count]", "list(sampler)"),
    ("the same part", "list(sampler)[rank::count]", "list(sampler)[::count]"),
)
def test_one_list_is_shared_out__but_not_with(snippet, old, new, fails):
    """All processes draw from one seed, and each takes its own part."""
    fails(test_one_list_is_shared_out, snippet.edit(old, new))


def test_monitored_barrier_names_the_rank(snippet):
    run = resumed(snippet, *START, "missing")
    named, _ = run.who
    assert "Rank 1 failed to pass monitoredBarrier in 1000 ms" in named


SOON = "second = timedelta(seconds=0.2)"


def test_monitored_barrier_names_the_rank__also_of_three(snippet):
    edited = snippet.edit("start(missing)", "start(missing, 3)")
    edited = edited.edit("second = timedelta(seconds=1)", SOON)
    named, _, _ = resumed(edited, *START, "missing").who
    assert "Rank 1 failed to pass monitoredBarrier" in named


def test_monitored_barrier_names_the_rank__also_if_it_is_rank_0(snippet):
    run = resumed(snippet, *START)

    def work(rank):
        group = dist.new_group(timeout=timedelta(seconds=0.2))
        if rank != 0:
            return run.error_of(lambda: dist.monitored_barrier(group))

    _, named = run.start(work)
    assert "waiting for send/recv from rank 0" in named


def test_monitored_barrier_names_the_rank__also_of_two_that_miss(snippet):
    edited = snippet.edit("if rank != 1:", "if rank not in (1, 2):")
    edited = edited.edit("second = timedelta(seconds=1)", SOON)
    edited = edited.edit("start(missing)", "start(missing, 3)")
    edited = edited.edit("timeout=second)", "second, wait_all_ranks=True)")
    run = resumed(
        edited.edit(
            "monitored_barrier(second", "monitored_barrier(None, second"
        ),
        *START,
        "missing",
    )
    assert "Ranks 1, 2 failed to pass monitoredBarrier" in run.who[0]


def test_monitored_barrier_names_the_rank__but_not_if_all_come(snippet, fails):
    """If all processes come to the barrier, it raises nothing."""
    edited = snippet.edit("if rank != 1:", "if True:")
    patient = edited.edit("timedelta(seconds=1)", "timedelta(seconds=30)")
    fails(test_monitored_barrier_names_the_rank, patient)


def test_monitored_barrier_names_the_rank__but_not_a_barrier(snippet, fails):
    """A plain `barrier()` only says that it has waited too long."""
    group = "    few = dist.new_group(timeout=second)\n"
    old = "    if rank != 1:  # process 1 never comes"
    edited = snippet.edit(old, group + old)
    old = "dist.monitored_barrier(timeout=second)"
    edited = edited.edit(old, "dist.barrier(few)")
    fails(test_monitored_barrier_names_the_rank, edited)


MISMATCH = (*START, "mismatch")
MISMATCHED = "Detected mismatch between collectives on ranks"


def test_other_shapes_add_up(snippet):
    with no_error():
        run = resumed(snippet, *MISMATCH)

    # 1, 2, 3, 4, 5, 6 and 1, 4, 2, 5, 3, 6
    assert run.mixed.tolist() == [[2, 6, 5], [9, 8, 12]]


def test_other_shapes_add_up__but_not_alike(snippet, fails):
    """With the same rows in both, each number is twice as large."""
    edited = snippet.only(*MISMATCH).edit("table.T.contiguous()", "table")
    fails(test_other_shapes_add_up, edited)


def test_detail_names_the_mismatch(snippet):
    run = resumed(snippet, *MISMATCH)
    for error in run.error, run.other_error:
        assert error.startswith(MISMATCHED)
        assert "OpType=ALLREDUCE, TensorShape=[2, 3]" in error
        assert "OpType=ALLREDUCE, TensorShape=[3, 2]" in error


def test_detail_names_the_mismatch__also_from_the_environment(
    snippet, monkeypatch
):
    run = resumed(snippet, *MISMATCH)

    def work(rank):
        def call():
            if rank == 0:
                dist.all_reduce(torch.ones(1))
            else:
                dist.broadcast(torch.ones(1), src=0)

        errors = [run.error_of(call)]
        table = torch.ones(2 + rank)
        errors.append(run.error_of(lambda: dist.all_reduce(table)))
        table = table[:1].to([torch.float32, torch.float64][rank])
        errors.append(run.error_of(lambda: dist.all_reduce(table)))
        return errors

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    dist.set_debug_level_from_env()
    try:
        found = run.start(work)
    finally:
        monkeypatch.undo()
        dist.set_debug_level_from_env()
    for errors in found:
        assert all(error.startswith(MISMATCHED) for error in errors)
        calls, shapes, dtypes = errors
        assert "OpType=ALLREDUCE" in calls
        assert "OpType=BROADCAST" in calls
        assert "TensorShape=[2]" in shapes
        assert "TensorShape=[3]" in shapes
        assert "TensorDtypes=Float" in dtypes
        assert "TensorDtypes=Double" in dtypes


@edits(
    ("with INFO", '"DETAIL"', '"INFO"'),
    ("in a group that was there before", "group=group", "group=None"),
    ("alike", "table.T.contiguous()", "table"),
)
def test_detail_names_the_mismatch__but_not(snippet, old, new, fails):
    """A group is checked only if `DETAIL` was set before it was made."""
    fails(
        test_detail_names_the_mismatch,
        snippet.only(*MISMATCH).edit(old, new),
    )


RECOMPUTED = (*START, "recompute", "recomputed")
READY_TWICE = "Expected to mark a variable ready only once"


def first_words(errors):
    return [each.partition(".")[0] for each in errors]


def test_reentrant_checkpoints_fail(snippet):
    skip_if_forks_cannot_train()
    run = resumed(snippet, *RECOMPUTED)
    assert first_words(run.reentrant) == [READY_TWICE] * 2
    assert run.others == ["no error"] * 2


class Again(nn.Module):
    """Two checkpointed parts that share a layer."""

    def __init__(self, checkpoint, **options):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(3))
        self.checkpoint = partial(checkpoint, **options)

    def forward(self, inputs):
        """Call the first layer, and then the parts."""
        first, second, shared = self.layers
        hidden = first(inputs)
        hidden = self.checkpoint(nn.Sequential(second, shared), hidden)
        return self.checkpoint(nn.Sequential(shared, nn.Tanh()), hidden)


def test_reentrant_checkpoints_fail__also_with_a_shared_layer(snippet):
    skip_if_forks_cannot_train()
    run = resumed(snippet, *RECOMPUTED)

    def work(rank):
        errors, gradients = [], []
        for reentrant, wrap in (True, DDP), (False, DDP), (False, nn.Identity):
            torch.manual_seed(0)
            model = Again(run.checkpoint, use_reentrant=reentrant)
            wrapped = DDP(model) if wrap is DDP else model
            errors.append(
                run.error_of(
                    lambda w=wrapped: w(torch.ones(1, 1)).sum().backward()
                )
            )
            gradients.append([each.grad for each in model.parameters()])
        return errors, gradients

    [(errors, (_, averaged, alone))] = run.start(work, 1)
    assert first_words(errors) == [READY_TWICE, "no error", "no error"]
    for found, expected in zip(averaged, alone, strict=True):
        torch.testing.assert_close(found, expected)


@edits(
    ("that search for none", ", find_unused_parameters=True)", ")"),
    ("called once", "Recomputed(2,", "Recomputed(1,"),
    ("with True in both", "reentrant=False)\n\n", "reentrant=True)\n\n"),
)
def test_reentrant_checkpoints_fail__but_not(snippet, old, new, fails):
    """Without the search, or called once, it works; with `True`, it fails."""
    edited = snippet.only(*RECOMPUTED).edit(old, new)
    fails(test_reentrant_checkpoints_fail, edited)


def test_reentrant_checkpoints_fail__ends_with_a_static_graph(snippet, fails):
    """`DDP(model, static_graph=True)` allows both, if each step of the
    training uses the same layers."""
    old = "DDP(once, find_unused_parameters=True), DDP(twice)"
    new = "DDP(once, static_graph=True), DDP(twice, static_graph=True)"
    edited = snippet.only(*RECOMPUTED).edit(old, new)
    fails(test_reentrant_checkpoints_fail, edited)


TAKEN = (*START, "taken")


@pytest.fixture
def no_group_is_left():
    """End the group of a call that went through."""
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.usefixtures("no_group_is_left")
def test_a_taken_port_raises(snippet):
    run = resumed(snippet, *TAKEN)
    assert f"port: {run.port}" in run.taken
    assert "EADDRINUSE, message: address already in use" in run.taken
    assert not dist.is_initialized()


@pytest.mark.usefixtures("no_group_is_left")
@edits(
    ("localhost", "tcp://127.0.0.1", "tcp://localhost"),
    ("two processes", '"world_size": 1', '"world_size": 2'),
    ("the environment", '"gloo", **at', '"gloo", rank=0, world_size=1'),
)
def test_a_taken_port_raises__also_with(snippet, old, new, monkeypatch):
    edited = snippet.edit(old, new)
    if "**at" in old:
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", "")  # put back at the end
        name = 'os.environ["MASTER_PORT"]'
        edited = edited.edit(
            "    at = {", f"    {name} = str(port)\n    at = {{"
        )
    test_a_taken_port_raises(edited)


@pytest.mark.usefixtures("no_group_is_left")
def test_a_taken_port_raises__but_not_a_free_one(snippet, fails):
    """If the other program has closed it, nobody listens."""
    edited = snippet.edit("    at = {", "    other.close()\n    at = {")
    fails(test_a_taken_port_raises, edited)


def test_a_missing_key_raises(snippet):
    run = after_once(snippet, *MISSING)
    key = "model.bias."
    expected = f"RuntimeError: Missing key in checkpoint state_dict: {key}"
    assert run.error == expected
    assert not run.loaded_then


def test_a_missing_key_raises__but_not_if_it_is_there(snippet, fails):
    """A checkpoint that has the bias loads."""
    old = "saved, larger = nn.Linear(2, 2, bias=False)"
    edited = snippet.edit(old, "saved, larger = nn.Linear(2, 2)")
    fails(test_a_missing_key_raises, edited)


def test_a_missing_key_raises__also_past_except_exception(snippet):
    """`except Exception` lets it pass, as it is a `BaseException`."""
    edited = snippet.only(*MISSING)
    edited = edited.edit(
        "caught_by(\n        BaseException", "caught_by(\n        Exception"
    )
    with pytest.raises(torch.distributed.checkpoint.CheckpointException):
        edited.after("missing-key")


def test_a_partial_load_leaves_the_rest(snippet):
    with no_error():
        run = after_once(snippet, *MISSING)
    assert torch.equal(run.larger.weight, run.saved.weight)
    assert torch.equal(run.larger.bias, run.old_bias)


def test_a_partial_load_leaves_the_rest__but_not_with_another(snippet, fails):
    """From a dict of another model, nothing reaches this one."""
    old = "dcp.load(state, checkpoint_id=folder, planner=planner)"
    new = old.replace("state", '{"model": nn.Linear(2, 2).state_dict()}')
    fails(test_a_partial_load_leaves_the_rest, snippet.edit(old, new))


def test_an_empty_dict_loads_nothing(snippet):
    with no_error():
        run = after_once(snippet, *MISSING)
    assert run.empty == {}


def test_an_empty_dict_loads_nothing__but_not_a_full_one(snippet, fails):
    """A dict that has a key gets what the checkpoint holds for it."""
    old = "dcp.load(empty, checkpoint_id=folder)"
    new = f'empty["model"] = saved.state_dict()\n    {old}'
    fails(test_an_empty_dict_loads_nothing, snippet.edit(old, new))
