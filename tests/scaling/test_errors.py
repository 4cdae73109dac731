"""The claims of docs/scaling/errors.md."""

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after as after_once
from tests.helpers.forks import (
    THREADS_MAY_BE_LEFT,
    skip_if_forks_cannot_train,
)

pytestmark = [
    THREADS_MAY_BE_LEFT,
    # In torch 2.6 and 2.9, dcp warns about a call of its own.
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
    pytest.mark.filterwarnings("ignore:torch.distributed is"),
]

GROUP = ("no-group",)
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
