"""The claims of docs/fix/several_processes.md."""

import pytest
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.testing._internal.distributed.fake_pg import FakeStore

from extensions.evidence.counterexamples import edits
from extensions.evidence.versions import api_since

# Of torch 2.9, when FSDP1 has raised its error.
pytestmark = pytest.mark.filterwarnings("ignore:Deallocating Tensor")

NO_RANK = "no-nccl", "no-rank"
WAITED = "no-nccl", "one-of-two"
LEFT_OUT = "no-nccl", "left-out"
ON_THE_CPU = "no-nccl", "left-out", "on-the-cpu"
WRAPPED = "no-nccl", "left-out", "wrapped"
DTYPES = "no-nccl", "left-out", "two-dtypes"
UNFINISHED = "Expected to have finished reduction in the prior iteration"


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Run no test as a process that torchrun has started."""
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_gloo_needs_no_nccl(snippet):
    assert "gloo" in snippet.after("no-nccl").started


def test_gloo_needs_no_nccl__but_not_nccl(snippet, fails):
    """Where NCCL is missing, `"nccl"` alone starts nothing."""
    edited = snippet.edit('("nccl", "gloo")', '("nccl",)')
    fails(test_gloo_needs_no_nccl, edited)


def test_torchrun_sets_the_rank(snippet, name="RANK"):
    raised = snippet.only(*NO_RANK).after("no-rank").raised
    assert f"environment variable {name} expected" in raised


@pytest.mark.parametrize("count", [1, 2, 3])
def test_torchrun_sets_the_rank__also_with(snippet, monkeypatch, count):
    names = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
    for name in names[:count]:
        monkeypatch.setenv(name, "1")
    test_torchrun_sets_the_rank(snippet, names[count])


def test_torchrun_sets_the_rank__but_not_if_you_pass_it(snippet, fails):
    """With a store, a rank and a count of your own, none is missing."""
    edited = snippet.edit(
        'dist.init_process_group("gloo")  # without torchrun',
        'dist.init_process_group("gloo", **alone)\n'
        "    dist.destroy_process_group()",
    )
    fails(test_torchrun_sets_the_rank, edited)


def test_torchrun_sets_the_rank__but_not_under_torchrun(
    snippet, monkeypatch, fails
):
    """With the four variables that `torchrun` sets, none is missing."""
    set_there = {"RANK": 0, "WORLD_SIZE": 1, "MASTER_PORT": 0}
    for name, value in set_there.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    old = 'dist.init_process_group("gloo")  # without torchrun'
    new = f"{old}\n    dist.destroy_process_group()"
    fails(test_torchrun_sets_the_rank, snippet.edit(old, new))


def test_torchrun_sets_the_rank__ends_with_an_address(snippet, fails):
    """With `init_method="tcp://…"`, it says `rank parameter missing`."""
    edited = snippet.edit(
        'dist.init_process_group("gloo")  # without torchrun',
        'dist.init_process_group("gloo", init_method="tcp://localhost:1234")',
    )
    fails(test_torchrun_sets_the_rank, edited)


def test_rank_0_waits_for_all(snippet, count=2):
    waited = snippet.only(*WAITED).after("one-of-two").waited
    assert waited.endswith(f"waiting for clients. 1/{count} clients joined.")


def test_rank_0_waits_for_all__also_for_three(snippet):
    edited = snippet.edit("    world_size=2,", "    world_size=3,")
    test_rank_0_waits_for_all(edited, count=3)


def test_rank_0_waits_for_all__but_not_alone(snippet, fails):
    """With a `world_size` of 1, there is nobody to wait for."""
    edited = snippet.edit("    world_size=2,", "    world_size=1,")
    fails(test_rank_0_waits_for_all, edited)


def test_left_out_or_frozen_late_raises(snippet):
    ends = snippet.only(*LEFT_OUT).after("left-out").ends
    assert ends["one_output"].startswith(UNFINISHED)
    assert ends["frozen_late"].startswith(UNFINISHED)
    assert ends["both_outputs"] == "no error"


@edits(
    ("with 0 of it", "return first.sum()", "return (first + 0 * _).sum()"),
    (
        "frozen before",
        "model = DDP(TwoHeads(), **options)",
        "heads = TwoHeads()\n"
        "        if loss_of is frozen_late:\n"
        "            heads.second.requires_grad_(False)\n"
        "        model = DDP(heads, **options)",
    ),
)
def test_left_out_or_frozen_late_raises__but_not(snippet, old, new, fails):
    """With 0 times the other output in the loss, or a layer that was frozen
    before DDP wrapped the model, nothing is raised.
    """
    fails(test_left_out_or_frozen_late_raises, snippet.edit(old, new))


def test_left_out_or_frozen_late_raises__ends_when_asked(snippet, fails):
    """With `find_unused_parameters=True`, DDP goes on without them."""
    old, new = "**options):", "find_unused_parameters=True):"
    edited = snippet.edit(old, new).edit(
        "DDP(TwoHeads(), **options)",
        "DDP(TwoHeads(), find_unused_parameters=find_unused_parameters)",
    )
    fails(test_left_out_or_frozen_late_raises, edited)


def test_left_out_or_frozen_late_raises__ends_if_static(snippet, fails):
    """With `static_graph=True`, a layer that is frozen late raises nothing."""
    old = "DDP(TwoHeads(), **options)"
    edited = snippet.edit(old, "DDP(TwoHeads(), static_graph=True)")
    fails(test_left_out_or_frozen_late_raises, edited)


def test_a_backend_serves_its_devices(snippet):
    outcomes = snippet.only(*ON_THE_CPU).after("on-the-cpu").outcomes
    refused, taken = outcomes.values()
    assert "No backend type associated with device type cpu" in refused
    assert taken == ""


CALLS = {
    "a broadcast": "dist.broadcast(torch.ones(1), 0)",
    "all_gather": "dist.all_gather([torch.ones(1)], torch.ones(1))",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_backend_serves_its_devices__also_for(snippet, call):
    edited = snippet.edit("dist.all_reduce(torch.ones(1))", call)
    test_a_backend_serves_its_devices(edited)


def test_a_backend_serves_its_devices__but_not_without_a_cpu(snippet, fails):
    """A backend for another device alone serves no tensor on the CPU."""
    edited = snippet.edit('"cuda:gloo", "cpu:gloo"', '"cuda:gloo", "xpu:gloo"')
    fails(test_a_backend_serves_its_devices, edited)


def test_a_backend_serves_its_devices__but_not_for_all(snippet, fails):
    """`"gloo"` alone serves the CPU, too."""
    edited = snippet.edit('"cuda:gloo", "cpu:gloo"', '"gloo", "cpu:gloo"')
    edited = edited.edit('outcomes["cuda:gloo"])', 'outcomes["gloo"])')
    fails(test_a_backend_serves_its_devices, edited)


def test_the_wrapper_holds_your_model(snippet):
    program = snippet.only(*WRAPPED).after("wrapped")
    message = "'DataParallel' object has no attribute 'encode'"
    assert program.missing == message
    assert program.codes.shape == (1, 2)
    assert [*program.model.module.state_dict()] == ["weight", "bias"]
    keys = ["module.weight", "module.bias"]
    assert [*program.model.state_dict()] == keys


def test_the_wrapper_holds_your_model__also_for_ddp():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    try:
        model = DDP(nn.Linear(2, 2))
        with pytest.raises(AttributeError, match="'DistributedDataParallel'"):
            model.reset_parameters()
        model.module.reset_parameters()
        keys = ["module.weight", "module.bias"]
        assert [*model.state_dict()] == keys
    finally:
        dist.destroy_process_group()


def test_the_wrapper_holds_your_model__but_not_without_one(snippet, fails):
    """Without a wrapper, the model has its method, and no `module`."""
    edited = snippet.edit(
        "nn.DataParallel(Encoder(2, 2))", "Encoder(2, 2)"
    ).edit("model.module.encode(inputs)", "model.encode(inputs)")
    edited = edited.edit("[*model.module.state_dict()]", "")
    fails(test_the_wrapper_holds_your_model, edited)


@api_since("2.9", "a `fully_shard` that averages on the CPU")
def test_one_call_takes_one_dtype(snippet, kinds="torch.bfloat16"):
    program = snippet.only(*DTYPES).after("two-dtypes")
    first, second = program.mixed
    assert first.startswith("Must flatten tensors with uniform dtype but got")
    assert second.startswith("FSDP expects uniform original parameter dtype")
    assert kinds in first
    assert kinds in second
    assert program.equal == ["no error"] * 2


def test_one_call_takes_one_dtype__also_with_float16(snippet):
    edited = snippet.edit("dtype=torch.bfloat16", "dtype=torch.float16")
    test_one_call_takes_one_dtype(edited, kinds="torch.float16")


def test_one_call_takes_one_dtype__but_not_if_they_agree(snippet, fails):
    """An adapter in `bfloat16` fits a base in `bfloat16`."""
    edited = snippet.edit("dtype=torch.float32", "dtype=torch.bfloat16")
    fails(test_one_call_takes_one_dtype, edited)


def test_one_call_takes_one_dtype__ends_with_a_frozen_base(snippet, fails):
    """`fully_shard` counts only what is trained: a frozen base may differ."""
    old = "        self.adapter = nn.Linear"
    new = f"        self.base.requires_grad_(False)\n{old}"
    fails(test_one_call_takes_one_dtype, snippet.edit(old, new))


def test_one_call_takes_one_dtype__ends_layer_by_layer(snippet, fails):
    """Sharded in calls of their own, the two layers may differ."""
    old = 'return fully_shard(model, mesh=init_device_mesh("cpu", (1,)))'
    new = (
        'mesh = init_device_mesh("cpu", (1,))\n'
        "    for layer in (model.base, model.adapter):\n"
        "        fully_shard(layer, mesh=mesh)\n"
        "    return fully_shard(model, mesh=mesh)"
    )
    fails(test_one_call_takes_one_dtype, snippet.edit(old, new))
