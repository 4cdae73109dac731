"""The claims of docs/scaling/sharding.md."""

import io
import math
import tempfile
from functools import cache, partial

import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since, true_since
from extensions.programs.snippet import after as after_once
from tests.helpers.forks import THREADS_MAY_BE_LEFT, import_once

pytestmark = [
    THREADS_MAY_BE_LEFT,
    # In torch 2.9, dcp warns about a call of its own.
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
    api_since("2.9", "a `fully_shard` that averages on the CPU"),
    pytest.mark.skipif(
        torch.accelerator.is_available(),
        reason="where there is a GPU, fully_shard uses it, and forks cannot",
    ),
]

FORKS = ("data", "start")
SHARDED = ("data", "do-this", "start")
WHOLE = ("data", "do-this", "work", "start")
SIZES = (*SHARDED, "shards", "measured")
MOVES = (*WHOLE, "moves")
VARIED = (*MOVES, "whole-now", "error-of")
LATE = (*MOVES, "too-early-or-late")
PREDICT = (*SHARDED, "error-of", "predict")
NORMS = (*SHARDED, "shards", "norms")
ELSEWHERE = (*WHOLE, "checkpoint", "elsewhere")
RESUMED = (*WHOLE, "checkpoint", "resume", "resumed")
ACCUMULATED = (*FORKS, "by-hand", "accumulate")
AVERAGED = (*WHOLE, "error-of", "averaged")


@pytest.fixture(autouse=True, scope="module")
def no_process_imports():
    """Import here what each process would import to save a checkpoint."""
    import_once("torch.distributed.checkpoint._fsspec_filesystem")


@pytest.fixture(autouse=True)
def no_file_is_left(tmp_path, monkeypatch):
    """Let a process that fails write its error into the test's folder."""
    named = partial(tempfile.NamedTemporaryFile, dir=tmp_path)
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", named)


# Do this


def test_two_processes_train_one_model(snippet):
    run = after_once(snippet, *WHOLE, "trained")

    assert run.second[0] == {}  # gathered in rank 0 alone
    torch.manual_seed(0)
    for name, begun in run.Net().state_dict().items():
        close = {"atol": 1e-4, "rtol": 0}
        torch.testing.assert_close(run.trained[name], run.alone[name], **close)
        assert (run.trained[name] - begun).abs().max() > 1e-3


LAYER = "[nn.Linear(64, 64, bias=False) for"


def trained(snippet):
    """Leave the other cells out, so that an edit occurs once."""
    return snippet.only(*WHOLE, "trained")


def blocks(norm):
    """Return layers that have a norm behind them."""
    block = f"nn.Sequential(nn.Linear(64, 64), nn.{norm}(64))"
    return f"[{block} for"


def sgd(weights):
    return optim.SGD(weights, lr=0.05, momentum=0.9)


def with_layers(run, *layers):
    model = run.Net()
    model.layers = nn.ModuleList(layers)
    return model


def train_pairs(run, rank):
    """Train models in this process alone and in both: where do they end?"""
    half = slice(rank, None, 2)
    kinds = {
        "with biases": (lambda: nn.Linear(64, 64), optim.AdamW, {}),
        "with LayerNorm": (lambda: nn.LayerNorm(64), optim.AdamW, {}),
        "with momentum": (lambda: nn.Linear(64, 64), sgd, {}),
        "if the layers stay whole until backward": (
            lambda: nn.Linear(64, 64),
            optim.AdamW,
            {"reshard_after_forward": False},
        ),
        "if only the model is sharded": (
            lambda: nn.Linear(64, 64, bias=False),
            optim.AdamW,
            None,
        ),
    }
    found = {}
    for kind, (make_layer, make_optimizer, options) in kinds.items():
        ends = []
        for part in slice(None), half:
            torch.manual_seed(5)
            model = with_layers(run, make_layer(), make_layer())
            if part == half:
                for layer in model.layers if options is not None else ():
                    run.fully_shard(layer, **options)
                run.fully_shard(model)
            run.fit(model, make_optimizer(model.parameters()), part)
            state = model.state_dict().items()
            ends.append(
                {n: getattr(w, "full_tensor", w.clone)() for n, w in state}
            )
        one, two = ends
        found[kind] = max((one[n] - two[n]).abs().max().item() for n in one)
    return found


def late_and_early(run, rank):
    """Train with optimizers that were made too early, or too late."""
    found = {}
    for kind in (optim.Adam, optim.AdamW):
        model = run.Net()
        optimizer = kind(model.parameters())
        for layer in model.layers:
            run.fully_shard(layer)
        run.fully_shard(model)
        found[kind.__name__] = run.moves(model, optimizer, rank)
    for when in "early", "late":
        model = run.Net()
        optimizer = sgd(model.parameters())
        run.fully_shard(model)
        if when == "late":
            model(run.images[:1])
            optimizer = optim.AdamW(model.parameters())
        found[f"{when}, one unit"] = run.moves(model, optimizer, rank)
    model = run.make_sharded()
    model(run.images[:1])  # with gradients
    optimizer = sgd(model.parameters())
    found["after a forward pass"] = run.moves(model, optimizer, rank)
    return found


def shard_layers(run, rank):
    """Shard layers of other kinds: does each process hold its rows?"""
    found = []
    for layer in (nn.Conv2d(3, 8, 5), nn.Embedding(6, 4), nn.LayerNorm(8)):
        run.fully_shard(layer)
        for weight in layer.parameters():
            begin, rows = rank * len(weight) // 2, len(weight) // 2
            part = weight.full_tensor()[begin : begin + rows]
            assert weight.shape == weight.full_tensor().shape
            found.append(torch.equal(weight.to_local(), part))
    return {"other layers": found}


def call_forward(run, rank):
    """Call forward() in place of the model, and then the model."""
    model = run.make_sharded()
    errors = [
        run.error_of(lambda: model.forward(run.images)),
        run.error_of(lambda: model(run.images)),
    ]
    return {"forward": errors}


def call_each(run, rank):
    """Call methods in place of the model, registered or not."""
    from torch.distributed.fsdp import register_fsdp_forward_method

    model, other = run.make_sharded(), run.make_sharded()
    register_fsdp_forward_method(other, "predict")
    errors = [
        run.error_of(lambda: model.predict(run.images)),
        run.error_of(lambda: model(run.images)),
        run.error_of(lambda: other.predict(run.images)),
        run.error_of(lambda: other(run.images)),
    ]
    return {"calls": errors}


def mix_dtypes(run, rank):
    """Compute in bfloat16: which types do other layers have?"""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    float32 = {"reduce_dtype": torch.float32}
    model = nn.Sequential(nn.Conv1d(1, 4, 3, bias=False), nn.GroupNorm(2, 4))
    policy = MixedPrecisionPolicy(torch.bfloat16, **float32)
    run.fully_shard(model, mp_policy=policy)
    inside = []
    model[1].register_forward_pre_hook(
        lambda layer, inputs: inside.append(layer.weight.dtype)
    )
    outputs = model(run.images[:, None])
    outputs.float().sum().backward()
    weights = [*model.parameters()]
    return {
        "computed": [*inside, outputs.dtype],
        "kept": [each.dtype for each in weights]
        + [each.grad.dtype for each in weights],
    }


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def forward(self, inputs):
        """Call both."""
        return self.second(self.first(inputs))


def tie_layers(run, rank):
    """Shard two layers with one weight, in two calls and in one."""
    apart, together = Tied(), Tied()
    run.fully_shard(apart.first)
    run.fully_shard([together.first, together.second])
    run.fully_shard(apart)
    run.fully_shard(together)
    inputs = torch.ones(2, 6)
    errors = [run.error_of(lambda: apart(inputs))]
    return {"tied": [*errors, run.error_of(lambda: together(inputs))]}


def step_first(run, rank):
    """Use models that have made a step."""
    models = [run.make_sharded() for _ in range(3)]
    for model in models:
        F.cross_entropy(model(run.images), run.labels).backward()
    first, second, clipped = models
    errors = [
        run.error_of(lambda: first.predict(run.images)),
        run.error_of(lambda: first(run.images)),
    ]
    nn.utils.clip_grad_norm_(clipped.parameters(), 1.0)
    grads = [each.grad.full_tensor() for each in clipped.parameters()]
    return {
        "predict": errors,
        "whole": run.whole_now(second),
        "clipped": torch.stack([each.norm() for each in grads]).norm().item(),
    }


def add_gradients(run, rank):
    """Call backward() twice, without zero_grad() between."""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(layer.weight)
    run.fully_shard(layer)
    target = torch.tensor([1.0, 3.0])[[rank]]
    for _ in range(2):
        (F.mse_loss(layer(torch.ones(1)), target) / 2).backward()
    on_top = layer.weight.grad.full_tensor().item()
    layer.set_requires_gradient_sync(False)
    (F.mse_loss(layer(torch.ones(1)), target) / 2).backward()
    waiting = layer.weight.grad.full_tensor().item()
    layer.zero_grad()  # the part that waits is not in .grad
    layer.set_requires_gradient_sync(True)
    (F.mse_loss(layer(torch.ones(1)), target) / 2).backward()
    zeroed = layer.weight.grad.full_tensor().item()
    return {"on top": on_top, "waiting": waiting, "zeroed": zeroed}


def accumulate_parts(run, rank):
    """Accumulate the gradient of one layer, averaged last or each time."""
    found = []
    for wait in False, True:
        torch.manual_seed(0)
        model = run.make_sharded()
        for part in range(3):
            model.set_requires_gradient_sync(part == 2 or not wait)
            mine = slice(100 * part + rank, 100 * part + 100, 2)
            outputs = model(run.images[mine])
            F.cross_entropy(outputs, run.labels[mine]).backward()
        found.append(model.layers[1].weight.grad.full_tensor())
    return {"accumulated": found}


def mix_seeds(run, rank):
    """Make a model from another seed in each process: whose rows are they?"""
    torch.manual_seed(rank)
    whole = run.get_model_state_dict(run.make_sharded(), options=run.whole)
    torch.manual_seed(1)
    other = run.Net().state_dict()
    rows = {name: len(weight) // 2 for name, weight in whole.items()}
    found = [
        torch.equal(whole[name][count:], other[name][count:])
        and not torch.equal(whole[name][:count], other[name][:count])
        for name, count in rows.items()
    ]
    return {"seeds": found}


def predict_alike(run, rank):
    """Predict with a sharded model and with a whole one."""
    from torch.distributed.fsdp import register_fsdp_forward_method

    torch.manual_seed(0)
    expected = run.Net().predict(run.images)
    torch.manual_seed(0)
    model = run.make_sharded()
    register_fsdp_forward_method(model, "predict")
    found = [torch.equal(model.predict(run.images), expected)] * 2
    return {"predict alike": found}


def make_room(run, rank):
    """Make a model on `meta`, and then room for what this process holds."""
    with torch.device("meta"):
        model = run.make_sharded()
    metas = [weight.to_local().is_meta for weight in model.parameters()]
    model.to_empty(device="cpu")
    room = [weight.to_local().nbytes for weight in model.parameters()]
    return {"metas": metas, "room": sum(room)}


def save_each(run, rank):
    """Save the state dict in each process."""
    file = io.BytesIO()
    torch.save(run.make_sharded().state_dict(), file)
    return {"saved": file.getvalue()}


def load_shards(run, rank):
    """Load what rank 0 has saved: are its rows in every process?"""
    file = io.BytesIO()
    if rank == 0:
        torch.save(run.make_sharded().state_dict(), file)
    files = [file.getvalue()]
    torch.distributed.broadcast_object_list(files, src=0)
    model = run.make_sharded()
    model.load_state_dict(torch.load(io.BytesIO(files[0])))
    return {"loaded": [each.full_tensor() for each in model.parameters()]}


VARIATIONS = [
    train_pairs,
    late_and_early,
    shard_layers,
    call_forward,
    call_each,
    step_first,
    mix_dtypes,
    tie_layers,
    add_gradients,
    accumulate_parts,
    mix_seeds,
    predict_alike,
    make_room,
    save_each,
    load_shards,
]


@cache
def varied(program):
    """Run what several tests look at in two processes, once.

    A start takes longer than most of what they look at.
    """
    run = program.after("error-of")

    def work(rank):
        found = {}
        for each in VARIATIONS:
            found |= each(run, rank)
        return found

    with no_error():
        return run.start(work)


@pytest.mark.parametrize(
    "kind",
    [
        "with biases",
        "with LayerNorm",
        "with momentum",
        "if the layers stay whole until backward",
        "if only the model is sharded",
    ],
)
def test_two_processes_train_one_model__also(snippet, kind):
    found, _ = varied(snippet.only(*VARIED))
    assert found[kind] < 1e-4


@edits(
    ("with another half of the batch", "slice(rank, None, 2)", "slice(50)"),
    ("without fully_shard(model)", "fully_shard(model)", "pass"),
    ("with other weights", "manual_seed(0)  # the", "manual_seed(1)  # the"),
)
def test_two_processes_train_one_model__but_not(snippet, old, new, fails):
    """Each process needs its own half of the batch, and the same weights."""
    edited = trained(snippet).edit(old, new)
    fails(test_two_processes_train_one_model, edited)


def test_two_processes_train_one_model__ends_with_batch_norm(snippet, fails):
    """`BatchNorm` normalizes with the samples of its own process."""
    edited = trained(snippet).edit(LAYER, blocks("BatchNorm1d"))
    fails(test_two_processes_train_one_model, edited)


def test_two_processes_train_one_model__ends_with_dropout(snippet, fails):
    """`Dropout` draws other numbers for two halves than for the whole."""
    edited = trained(snippet).edit(
        LAYER, "[nn.Sequential(nn.Linear(64, 64), nn.Dropout()) for"
    )
    fails(test_two_processes_train_one_model, edited)


def test_two_processes_train_one_model__ends_with_unequal_parts(
    snippet, fails
):
    """Each process counts the same, however many samples it has."""
    edited = trained(snippet).edit(
        "slice(rank, None, 2)", "slice(150) if rank == 0 else slice(150, None)"
    )
    fails(test_two_processes_train_one_model, edited)


# How it works


def test_a_parameter_becomes_a_dtensor(snippet):
    with no_error():
        run = after_once(snippet, *SIZES)

    shapes = [each[:3] for each in run.measured]
    assert shapes == [("DTensor", (10, 64), (5, 64))] * 2


def test_a_parameter_becomes_a_dtensor__also_with_an_odd_number(snippet):
    run = after_once(snippet, *FORKS, "odd")
    assert run.odd_shapes == [(2, 4), (1, 4)]


def test_a_parameter_becomes_a_dtensor__also_in_other_layers(snippet):
    for found in varied(snippet.only(*VARIED)):
        assert found["other layers"] == [True] * 5


@edits(
    ("without fully_shard", "fully_shard(model)  # then", "pass  # then"),
    (
        "in the forward pass",
        "    weight = model.head.weight\n    shapes",
        "    model(images[:1])\n    weight = model.head.weight\n    shapes",
    ),
)
def test_a_parameter_becomes_a_dtensor__but_not(snippet, old, new, fails):
    """Between the forward and the backward pass, the head is whole."""
    edited = snippet.only(*SIZES).edit(old, new)
    fails(test_a_parameter_becomes_a_dtensor, edited)


def test_a_parameter_becomes_a_dtensor__ends_without_dimensions(
    snippet, fails
):
    """A parameter of shape () raises an error: give it the shape (1,)."""
    edited = snippet.only(*SIZES).edit(
        "        self.head = ",
        "        self.scale = nn.Parameter(torch.tensor(1.0))\n"
        "        self.head = ",
    )
    fails(test_a_parameter_becomes_a_dtensor, edited)


def test_each_process_holds_its_share(snippet):
    run = after_once(snippet, *SIZES)

    numbers = 4 * 64 * 64 + 64 * 10
    assert 16 * numbers == 272_384
    for *_, found in run.measured:
        assert list(found.values()) == [2 * numbers, 2 * numbers, 4 * numbers]


def test_each_process_holds_its_share__also_of_four(snippet):
    run = after_once(snippet, *SIZES)
    found = [each[-1] for each in run.start(run.measure, 4)]

    for kind, half in run.measured[0][-1].items():
        # ten rows of the head: 3, 3, 3 and 1
        assert sum(each[kind] for each in found) == 2 * half
        assert max(each[kind] for each in found) < 0.52 * half


def test_each_process_holds_its_share__also_from_meta(snippet):
    for found in varied(snippet.only(*VARIED)):
        assert found["metas"] == [True] * 5
        assert found["room"] == 4 * (4 * 64 * 64 + 64 * 10) / 2


@edits(
    ("without fully_shard(model)", "fully_shard(model)  # then", "pass  #"),
    (
        "with one layer left out",
        "fully_shard(model)",
        "fully_shard(model, ignored_params={model.head.weight})",
    ),
)
def test_each_process_holds_its_share__but_not(snippet, old, new, fails):
    """What belongs to no call of `fully_shard` is whole in each process."""
    edited = snippet.only(*SIZES).edit(old, new)
    fails(test_each_process_holds_its_share, edited)


def test_each_process_holds_its_share__ends_with_few_rows(snippet, fails):
    """A weight is cut along its first axis: one row lies in one process."""
    edited = snippet.only(*SIZES).edit("nn.Linear(64, 10", "nn.Linear(64, 11")
    fails(test_each_process_holds_its_share, edited)


COMPARED = (*SHARDED, "whole-now", "compared")


def test_layer_by_layer_few_weights_are_whole(snippet):
    run = after_once(snippet, *COMPARED)

    assert len(run.by_layer) == len(run.root_alone) == 10
    assert max(map(sum, run.by_layer)) == 2
    assert min(map(sum, run.root_alone)) == 5


def test_layer_by_layer_few_weights_are_whole__also_in_a_second_step(snippet):
    found, _ = varied(snippet.only(*VARIED))
    assert max(map(sum, found["whole"])) == 2


@edits(
    (
        "if layers stay whole until backward",
        "fully_shard(layer)",
        "fully_shard(layer, reshard_after_forward=False)",
    ),
    ("without the layers", "fully_shard(layer)", "pass"),
    (
        "with the layers",
        "    fully_shard(root_alone)",
        "    for layer in root_alone.layers:\n        fully_shard(layer)\n"
        "    fully_shard(root_alone)",
    ),
)
def test_layer_by_layer_few_weights_are_whole__but_not(
    snippet, old, new, fails
):
    """With `reshard_after_forward=False`, a layer stays whole for longer."""
    edited = snippet.only(*COMPARED).edit(old, new)
    fails(test_layer_by_layer_few_weights_are_whole, edited)


def test_gradients_are_averaged(snippet):
    run = after_once(snippet, *FORKS, "by-hand")

    # 2 * (0 - 1) and 2 * (0 - 3) in each process, and their mean
    assert run.gradients == [([[-4.0]], -4.0), ([], -4.0)]


def test_gradients_are_averaged__also_in_three(snippet):
    run = after_once(snippet, *FORKS)

    def work(rank):
        layer = nn.Linear(2, 3, bias=False)
        nn.init.zeros_(layer.weight)
        run.fully_shard(layer)
        layer(torch.ones(1, 2)).sum().mul(rank).backward()
        return layer.weight.grad.full_tensor()

    for found in run.start(work, 3):
        assert torch.equal(found, torch.ones(3, 2))


def test_gradients_are_averaged__also_on_top_of_another(snippet):
    found = varied(snippet.only(*VARIED))
    assert [each["on top"] for each in found] == [-4, -4]


@edits(
    (
        "without its gradient synchronized",
        "    loss = F.mse",
        "    layer.set_requires_gradient_sync(False)\n    loss = F.mse",
    ),
    (
        "of sums",
        "loss.backward()\n    grad",
        "(2 * loss).backward()\n    grad",
    ),
)
def test_gradients_are_averaged__but_not(snippet, old, new, fails):
    """Without synchronization, there is none; twice the loss doubles it."""
    edited = snippet.only(*FORKS, "by-hand").edit(old, new)
    if "sync" in new:
        edited = edited.edit(
            "return grad.to_local().tolist(), grad.full_tensor().item()",
            "return None if grad is None else grad.to_local().tolist()",
        )
    fails(test_gradients_are_averaged, edited)


def test_fully_shard_copies_no_weights(snippet):
    run = after_once(snippet, *FORKS, "seeds")
    first, second = [True] * 5, [False] * 5
    assert run.own_rows == [first + second, second + first]


def test_fully_shard_copies_no_weights__also_in_a_model(snippet):
    found = varied(snippet.only(*VARIED))
    assert [each["seeds"] for each in found] == [[True] * 5, []]


@edits(
    ("with one seed", "torch.manual_seed(rank)", "torch.manual_seed(0)"),
    (
        "copied before",
        "    own = layer.weight.detach().clone()\n    fully",
        "    dist.broadcast(layer.weight.detach(), src=0)\n"
        "    own = layer.weight.detach().clone()\n    fully",
    ),
)
def test_fully_shard_copies_no_weights__but_not(snippet, old, new, fails):
    """Give all processes one seed, or the weights of rank 0."""
    edited = snippet.only(*FORKS, "seeds").edit(old, new)
    fails(test_fully_shard_copies_no_weights, edited)


# What goes wrong: the optimizer


def test_an_early_optimizer_moves_nothing(snippet):
    with no_error():
        run = after_once(snippet, *LATE)
    assert run.early_moves == {"layers.0.weight": 0, "head.weight": 0}


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "early, one unit"])
def test_an_early_optimizer_moves_nothing__also_with(snippet, kind):
    first, _ = varied(snippet.only(*VARIED))
    assert first[kind] == {"layers.0.weight": 0, "head.weight": 0}


def test_an_early_optimizer_moves_nothing__but_not_after(snippet, fails):
    """Made after `fully_shard`, the optimizer holds the new parameters."""
    old = """    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
"""
    made, shard = old.split("\n", 1)
    edited = snippet.edit(old, f"{shard}{made}\n")
    fails(test_an_early_optimizer_moves_nothing, edited)


def test_a_late_optimizer_misses_the_head(snippet):
    with no_error():
        run = after_once(snippet, *LATE)
    assert run.late_moves["layers.0.weight"] > 0.05
    assert run.late_moves["head.weight"] == 0


def test_a_late_optimizer_misses_the_head__also_with_gradients(snippet):
    first, _ = varied(snippet.only(*VARIED))
    found = first["after a forward pass"]
    assert found["layers.0.weight"] > 0.01
    assert found["head.weight"] == 0


def test_a_late_optimizer_misses_the_head__also_if_there_is_one_unit(snippet):
    first, _ = varied(snippet.only(*VARIED))
    assert first["late, one unit"] == {"layers.0.weight": 0, "head.weight": 0}


@edits(
    (
        "after reshard()",
        "        model(images[:1])  # only",
        "        model(images[:1])\n    model.reshard()  # only",
    ),
    ("before it", "        model(images[:1])  # only", "        pass  # only"),
)
def test_a_late_optimizer_misses_the_head__but_not(snippet, old, new, fails):
    """`model.reshard()` makes shards of the parameters again."""
    fails(test_a_late_optimizer_misses_the_head, snippet.edit(old, new))


def test_a_late_optimizer_misses_the_head__ends_if_the_root_reshards(
    snippet, fails
):
    """With `reshard_after_forward=True`, the root's weights are cut again."""
    edited = snippet.only(*LATE).edit(
        "fully_shard(model)  # then",
        "fully_shard(model, reshard_after_forward=True)  # then",
    )
    fails(test_a_late_optimizer_misses_the_head, edited)


def test_a_late_optimizer_misses_the_head__ends_in_inference_mode(
    snippet, fails
):
    """If the first forward pass is under `inference_mode`, the training
    raises an error: use `no_grad` to validate before it."""
    edited = snippet.only(*LATE).edit(
        "    with torch.no_grad():\n        model(images[:1])",
        "    with torch.inference_mode():\n        model(images[:1])",
    )
    fails(test_a_late_optimizer_misses_the_head, edited)


def test_without_the_root_the_heads_differ(snippet):
    with no_error():
        run = after_once(snippet, *FORKS, "no-root")
    assert (run.head - run.other_head).norm() > 0.01


def test_without_the_root_the_heads_differ__but_not_with_it(snippet, fails):
    """With the call for the model, both processes hold one head."""
    edited = snippet.only(*FORKS, "no-root")
    edited = edited.edit(
        "        fully_shard(layer)  # fully_shard(model) is missing\n",
        "        fully_shard(layer)\n    fully_shard(model)\n",
    )
    edited = edited.edit("weight.detach()", "weight.detach().full_tensor()")
    fails(test_without_the_root_the_heads_differ, edited)


def test_without_the_root_the_heads_differ__but_not_on_one_half(
    snippet, fails
):
    """Both heads learn the same from the same batches."""
    edited = snippet.only(*FORKS, "no-root")
    edited = edited.edit("slice(rank, None, 2)", "slice(0, None, 2)")
    fails(test_without_the_root_the_heads_differ, edited)


# What goes wrong: methods, norms, files


def test_another_method_skips_the_hooks(snippet):
    run = after_once(snippet, *PREDICT)
    first, then, *_ = run.errors
    assert "got mixed torch.Tensor and DTensor" in first
    assert "FSDP state has already been lazily initialized" in then


def test_another_method_skips_the_hooks__also_forward(snippet):
    found, _ = varied(snippet.only(*VARIED))
    first, then = found["forward"]
    assert "got mixed torch.Tensor and DTensor" in first
    assert "FSDP state has already been lazily initialized" in then


def test_another_method_skips_the_hooks__also_in_two_processes(snippet):
    for found in varied(snippet.only(*VARIED)):
        first, then, *_ = found["calls"]
        assert "got mixed torch.Tensor and DTensor" in first
        assert "FSDP state has already been lazily initialized" in then


def test_another_method_skips_the_hooks__also_after_a_step(snippet):
    found, _ = varied(snippet.only(*VARIED))
    first, then = found["predict"]
    assert "got mixed torch.Tensor and DTensor" in first
    assert then == "no error"


def test_another_method_skips_the_hooks__ends_after_a_forward_pass_alone(
    snippet, fails
):
    """Until `backward()`, the head is whole, so `predict` works."""
    old = "    return [\n        error_of(lambda: model.predict"
    edited = snippet.only(*PREDICT).edit(old, "    model(images)\n" + old)
    fails(test_another_method_skips_the_hooks, edited)


def test_another_method_skips_the_hooks__ends_if_the_head_has_its_own_call(
    snippet, fails
):
    """If each weight belongs to a layer that has been sharded by itself, the
    layers gather all of them, and `predict` works."""
    edited = snippet.only(*PREDICT).edit(
        "fully_shard(model)  # then",
        "fully_shard(model.head)\n    fully_shard(model)  # then",
    )
    fails(test_another_method_skips_the_hooks, edited)


def test_another_method_skips_the_hooks__ends_if_no_layer_is_sharded_by_itself(
    snippet, fails
):
    """With `fully_shard(model)` and nothing else, `predict` raises, but
    `model(...)` then works.
    """
    old = "fully_shard(layer)  # first each layer"
    edited = snippet.only(*PREDICT).edit(old, "pass")
    fails(test_another_method_skips_the_hooks, edited)


def test_another_method_skips_the_hooks__but_not_after_unshard(snippet, fails):
    """`model.unshard()` makes the weights of the model's own call whole."""
    old = "    return [\n        error_of(lambda: model.predict"
    edited = snippet.only(*PREDICT).edit(old, "    model.unshard()\n" + old)
    fails(test_another_method_skips_the_hooks, edited)


def test_a_registered_method_works(snippet):
    run = after_once(snippet, *PREDICT)
    assert run.errors[2:] == ["no error", "no error"]


def test_a_registered_method_works__also_in_two_processes(snippet):
    for found in varied(snippet.only(*VARIED)):
        assert found["calls"][2:] == ["no error", "no error"]


def test_a_registered_method_works__also_as_in_one_process(snippet):
    for found in varied(snippet.only(*VARIED)):
        assert found["predict alike"] == [True, True]


def test_a_registered_method_works__but_not_unregistered(snippet, fails):
    """Register each method that you call in place of the model."""
    old = 'register_fsdp_forward_method(other, "predict")'
    edited = snippet.only(*PREDICT).edit(old, "pass")
    fails(test_a_registered_method_works, edited)


def norm_alone(run):
    """Return the norm of the gradient of one process with all samples."""
    torch.manual_seed(0)
    model = run.Net()
    F.cross_entropy(model(run.images[:100]), run.labels[:100]).backward()
    grads = [weight.grad for weight in model.parameters()]
    return nn.utils.get_total_norm(grads).item()


def test_clipping_takes_the_whole_norm(snippet):
    run = after_once(snippet, *NORMS)
    alone = norm_alone(run)
    expected = pytest.approx(alone, rel=1e-4)
    assert [each["clip"] for each in run.found_norms] == [expected] * 2
    found = [each["local"] for each in run.found_norms]
    assert max(found) < 0.95 * alone
    assert found[0] != pytest.approx(found[1], rel=0.05)
    assert math.hypot(*found) == expected


def test_clipping_takes_the_whole_norm__also_in_what_it_leaves(snippet):
    for found in varied(snippet.only(*VARIED)):
        assert found["clipped"] == pytest.approx(1, abs=1e-4)


@edits(
    (
        "by hand",
        "norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)",
        "norm = torch.stack(parts).norm()",
    ),
    (
        "over shards",
        "nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)",
        "nn.utils.get_total_norm([local(weight.grad) for weight"
        " in model.parameters()])",
    ),
)
def test_clipping_takes_the_whole_norm__but_not(snippet, old, new, fails):
    """A norm over the shards of one process is too small."""
    edited = snippet.only(*NORMS).edit(old, new)
    edited = edited.edit("norm.full_tensor().item()", "norm.item()")
    fails(test_clipping_takes_the_whole_norm, edited)


def test_clipping_takes_the_whole_norm__also_by_all_reduce(snippet):
    run = after_once(snippet, *SHARDED, "global-norm", "global-norm-checked")
    for mine, right in run.answers:
        assert mine == pytest.approx(right, rel=1e-3)


def test_clipping_takes_the_whole_norm__but_not_of_the_whole(snippet, fails):
    """Over `full_tensor()`, each process finds the norm of the whole."""
    old = "parts = [local(weight.grad).norm() for"
    new = "parts = [weight.grad.full_tensor().norm() for"
    edited = snippet.only(*NORMS).edit(old, new)
    fails(test_clipping_takes_the_whole_norm, edited)


SAVED = (*WHOLE, "shards", "error-of", "saved-shard")


def test_a_state_dict_holds_shards(snippet):
    run = after_once(snippet, *SAVED)
    assert run.saved_bytes == 4 * (4 * 64 * 64 + 64 * 10) / 2
    assert "got mixed torch.Tensor and DTensor" in run.load_error


def test_a_state_dict_holds_shards__also_without_processes(snippet):
    for found in varied(snippet.only(*VARIED)):
        saved = torch.load(io.BytesIO(found["saved"]))
        weight = saved["head.weight"]
        assert weight.shape == (10, 64)
        assert weight.to_local().shape == (5, 64)


SAVE = "        torch.save(model.state_dict(),"
SAVE_WHOLE = """    state = get_model_state_dict(model, options=whole)
    if rank == 0:
        torch.save(state,"""
LOAD = "    other.load_state_dict(saved)  # no error\n"


def test_a_state_dict_holds_shards__but_not_a_full_one(snippet, fails):
    """`get_model_state_dict` gathers the whole weights in rank 0."""
    old = f"    if rank == 0:\n{SAVE}"
    edited = snippet.only(*SAVED).edit(old, SAVE_WHOLE).edit(LOAD, "")
    fails(test_a_state_dict_holds_shards, edited)


def test_each_process_loads_the_rows_of_rank_0(snippet):
    with no_error():
        run = after_once(snippet, *SAVED)
    first, second = run.loaded.split(5)
    assert torch.equal(first, second)
    assert len(first.unique()) > 1


def test_each_process_loads_the_rows_of_rank_0__also_in_layers(snippet):
    for found in varied(snippet.only(*VARIED)):
        for weight in found["loaded"]:
            first, second = weight.chunk(2)
            assert torch.equal(first, second)


@edits(
    (
        "if each process saves its own",
        f'    if rank == 0:\n{SAVE} "model.pt")\n    dist.barrier()\n'
        '    saved = torch.load("model.pt")',
        "    saved = model.state_dict()",
    ),
    (
        "the whole weights",
        LOAD,
        "    state = get_model_state_dict(model, options=whole)\n"
        "    spread = StateDictOptions(\n"
        "        full_state_dict=True, broadcast_from_rank0=True\n"
        "    )\n"
        "    from torch.distributed.checkpoint import state_dict\n"
        "    state_dict.set_model_state_dict(other, state, options=spread)\n",
    ),
)
def test_each_process_loads_the_rows_of_rank_0__but_not(
    snippet, old, new, fails
):
    """Gather the whole weights, or let each process load its own shards."""
    edited = snippet.only(*SAVED).edit(old, new)
    fails(test_each_process_loads_the_rows_of_rank_0, edited)


def test_each_process_loads_the_rows_of_rank_0__ends_with_odd_rows(
    snippet, fails
):
    """With 11 rows, 6 don't fit into 5, and process 1 raises an error."""
    edited = snippet.only(*SAVED).edit("nn.Linear(64, 10", "nn.Linear(64, 11")
    fails(test_each_process_loads_the_rows_of_rank_0, edited)


def test_each_process_loads_the_rows_of_rank_0__ends_with_another_number(
    snippet, fails
):
    """If the model is sharded over another number of processes, loading
    raises an error that names different meshes."""
    edited = snippet.only(*SAVED).edit(
        LOAD,
        "    other, names = Net(), ('all', 'one')\n"
        "    from torch.distributed.device_mesh import init_device_mesh\n"
        "    mesh = init_device_mesh('cpu', (2, 1), mesh_dim_names=names)\n"
        f"    fully_shard(other, mesh=mesh['one'])\n{LOAD}",
    )
    fails(test_each_process_loads_the_rows_of_rank_0, edited)


def test_a_checkpoint_fits_any_number_of_processes(snippet):
    run = after_once(snippet, *ELSEWHERE)

    assert run.files == [".metadata", "__0_0.distcp", "__1_0.distcp"]
    for name, weight in run.written.items():
        assert torch.equal(weight, run.read[name])
        assert torch.equal(weight, run.plain[name])


def test_a_checkpoint_fits_any_number_of_processes__also_three(
    snippet, tmp_path
):
    run = after_once(snippet, *ELSEWHERE)
    [written] = run.start(lambda rank: run.save(tmp_path), 1)
    read, *_ = run.start(lambda rank: run.load(tmp_path), 3)
    for name, weight in written.items():
        assert torch.equal(weight, read[name])


def test_a_checkpoint_fits_any_number_of_processes__but_not_unloaded(
    snippet, fails
):
    """Without `dcp.load`, the model keeps the weights that it began with."""
    old = "    dcp.load(state, checkpoint_id=folder)  # into the shards\n"
    edited = snippet.edit(old, "")
    fails(test_a_checkpoint_fits_any_number_of_processes, edited)


def test_a_checkpoint_fits_any_number_of_processes__but_not_other_weights(
    snippet, fails
):
    """The checkpoint holds what the model held when it was saved."""
    old = "    dcp.save({"
    edited = snippet.edit(
        old, "    before = model.state_dict()\n    dcp.save({"
    )
    edited = edited.edit(
        "checkpoint_id=folder)\n    return",
        "checkpoint_id=folder)\n    for each in before.values():\n"
        "        each.zero_()\n    return",
    )
    fails(test_a_checkpoint_fits_any_number_of_processes, edited)


def test_a_resumed_training_goes_on(snippet):
    run = after_once(snippet, *RESUMED)
    (weights, rates), (resumed, resumed_rates) = run.went_on, run.resumed
    assert rates == resumed_rates == pytest.approx([0.01])
    assert len(weights) == 5
    for name, weight in weights.items():
        assert torch.equal(weight, resumed[name])


def test_a_resumed_training_goes_on__also_in_one_process(snippet, tmp_path):
    run = after_once(snippet, *RESUMED)

    def states(*training):
        state = run.state_of(*training)["optimizer"]["state"]
        found = {
            name: each["exp_avg_sq"].full_tensor()
            for name, each in state.items()
        }
        *_, scheduler = training
        return found | {"epoch": torch.tensor(scheduler.last_epoch)}

    def save(rank):
        training = run.begin()
        run.epoch(rank, *training)
        run.dcp.save(run.state_of(*training), checkpoint_id=tmp_path)
        return states(*training)

    def load(rank):
        return states(*run.resume(tmp_path))

    saved, _ = run.start(save)
    [loaded] = run.start(load, 1)
    assert len(saved) == 6
    assert saved["epoch"] == 1
    for name, state in saved.items():
        assert torch.equal(state, loaded[name])


@edits(
    (
        "without the weights",
        "    return model, optimizer, scheduler\n",
        "    model.load_state_dict(make_sharded().state_dict())\n"
        "    return model, optimizer, scheduler\n",
    ),
    (
        "without the optimizer states",
        "    return model, optimizer, scheduler\n",
        "    optimizer.state.clear()\n"
        "    return model, optimizer, scheduler\n",
    ),
    (
        "without the scheduler",
        '"optimizer": states, "scheduler": scheduler}',
        '"optimizer": states}',
    ),
)
def test_a_resumed_training_goes_on__but_not(snippet, old, new, fails):
    """Without weights, optimizer states or scheduler, the two differ."""
    edited = snippet.only(*RESUMED).edit(old, new)
    fails(test_a_resumed_training_goes_on, edited)


def test_rank_0_hands_out_its_weights(snippet):
    run = after_once(snippet, *WHOLE, "from-rank-0")
    assert len(run.sent) == 5
    for name, weight in run.sent.items():
        assert torch.equal(weight, run.spread[name])


def test_rank_0_hands_out_its_weights__but_not_unspread(snippet, fails):
    """Without `set_model_state_dict`, the memory of the weights is unused."""
    edited = snippet.only(*WHOLE, "from-rank-0").edit(
        "    set_model_state_dict(model, weights, options=spread)\n",
        "    for weight in model.parameters():\n"
        "        nn.init.zeros_(weight)\n",
    )
    fails(test_rank_0_hands_out_its_weights, edited)


# Where it ends


def test_only_the_computation_is_bfloat16(snippet):
    with no_error():
        run = after_once(snippet, *FORKS, "precision")
    inside, output, weight, gradient = run.dtypes
    assert (inside, output) == (torch.bfloat16, torch.bfloat16)
    assert (weight, gradient) == (torch.float32, torch.float32)


def test_only_the_computation_is_bfloat16__also_in_two_processes(snippet):
    for found in varied(snippet.only(*VARIED)):
        assert found["computed"] == [torch.bfloat16] * 2
        assert found["kept"] == [torch.float32] * 6


def test_only_the_computation_is_bfloat16__but_not_without(snippet, fails):
    """Without the policy, layers compute in `float32`."""
    edited = snippet.only(*FORKS, "precision")
    edited = edited.edit(
        "fully_shard(model, mp_policy=policy)", "fully_shard(model)"
    )
    fails(test_only_the_computation_is_bfloat16, edited)


def test_only_the_computation_is_bfloat16__but_not_converted(snippet, fails):
    """`model.bfloat16()` converts the weights themselves."""
    edited = snippet.only(*FORKS, "precision")
    old = "fully_shard(model, mp_policy=policy)"
    edited = edited.edit(old, f"model.bfloat16()\n    {old}")
    fails(test_only_the_computation_is_bfloat16, edited)


def test_only_the_computation_is_bfloat16__ends_with_batch_norm(
    snippet, fails
):
    """On CPUs, `BatchNorm` then raises an error, as its running statistics
    stay in `float32`: shard it first, in a call without the policy."""
    edited = snippet.only(*FORKS, "precision")
    edited = edited.edit("nn.LayerNorm(64)", "nn.BatchNorm1d(64)")
    fails(test_only_the_computation_is_bfloat16, edited)


def test_the_last_part_is_averaged(snippet):
    run = after_once(snippet, *ACCUMULATED)

    # a third of the sums 3 * -2 and 3 * -6, and their mean
    found = [None, None, pytest.approx(-4, abs=1e-5)]
    assert run.accumulated == [found] * 2


def test_the_last_part_is_averaged__also_in_layers(snippet):
    for whole, parts in (
        each["accumulated"] for each in varied(snippet.only(*VARIED))
    ):
        torch.testing.assert_close(whole, parts, atol=1e-5, rtol=0)
        assert whole.abs().max() > 1e-3


def test_the_last_part_is_averaged__also_if_grad_is_not_none(snippet):
    found = varied(snippet.only(*VARIED))
    assert [each["waiting"] for each in found] == [-4, -4]


def test_the_last_part_is_averaged__also_past_zero_grad(snippet):
    found = varied(snippet.only(*VARIED))
    assert [each["zeroed"] for each in found] == [-4, -4]


@edits(
    ("with True in all", "gradient_sync(last)", "gradient_sync(True)"),
    ("with False in all", "gradient_sync(last)", "gradient_sync(False)"),
    ("without the first parts", "(loss / 3)", "(loss / 3 * last)"),
)
def test_the_last_part_is_averaged__but_not(snippet, old, new, fails):
    """With `True` for all parts, `.grad` adds up from the first on."""
    edited = snippet.only(*ACCUMULATED).edit(old, new)
    fails(test_the_last_part_is_averaged, edited)


def average_alone(run):
    """Return the average that `AveragedModel` makes in one process."""
    torch.manual_seed(0)
    model = run.Net()
    ema = get_ema_multi_avg_fn(0.9)
    averaged = AveragedModel(model, multi_avg_fn=ema)
    averaged.update_parameters(model)  # the first time, it copies
    optimizer = optim.AdamW(model.parameters())
    optimizer.register_step_post_hook(
        lambda *_: averaged.update_parameters(model)
    )
    run.fit(model, optimizer)
    return averaged.module.state_dict(), model.state_dict()


def test_a_second_model_keeps_the_average(snippet):
    run = after_once(snippet, *AVERAGED)

    assert "FSDP does not support deepcopy" in run.copy_error
    expected, trained = average_alone(run)
    for name, weight in run.average.items():
        torch.testing.assert_close(weight, expected[name], atol=1e-4, rtol=0)
        assert (weight - trained[name]).abs().max() > 1e-3


@edits(
    (
        "of a model that is whole",
        "AveragedModel(model))",
        "AveragedModel(Net()))",
    ),
    (
        "with other weights at first",
        "    average.load_state_dict(model.state_dict())\n",
        "",
    ),
    ("with another decay", "decay=0.9", "decay=0.1"),
)
def test_a_second_model_keeps_the_average__but_not(snippet, old, new, fails):
    """A whole model is copied; other weights at first, or another decay, give
    another average.
    """
    edited = snippet.only(*AVERAGED).edit(old, new)
    fails(test_a_second_model_keeps_the_average, edited)


def test_a_second_model_keeps_the_average__also_after_a_validation(snippet):
    run = after_once(snippet, *AVERAGED)

    def work(rank):
        pair = [
            nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)) for _ in range(2)
        ]
        begun = [
            [each.detach().clone() for each in model.parameters()]
            for model in pair
        ]
        for model in pair:
            run.fully_shard(model)
            model(torch.rand(8, 2))  # whole, until there is a backward pass
        run.update(*pair, decay=0.25)
        found = [each.full_tensor() for each in pair[0].parameters()]
        return begun, found, [[*model.buffers()] for model in pair]

    [((begun, weights), found, (copied, buffers))] = run.start(work, 1)
    for before, weight, mean in zip(begun, weights, found, strict=True):
        torch.testing.assert_close(mean, 0.25 * before + 0.75 * weight)
    for buffer, copy in zip(buffers, copied, strict=True):
        assert torch.equal(buffer, copy)
    assert not torch.equal(buffers[0], torch.zeros(2))


TIED = (*FORKS, "error-of", "tied")


@true_since("2.12", "there was no error, and the two came apart")
def test_tied_weights_go_into_one_call(snippet):
    run = after_once(snippet, *TIED)
    apart, together = run.tied_errors
    assert "is shared with a parameter already managed by another" in apart
    assert together == "no error"


def test_tied_weights_go_into_one_call__also_in_two_processes(snippet):
    for found in varied(snippet.only(*VARIED)):
        apart, together = found["tied"]
        assert "is shared with a parameter already managed by" in apart
        assert together == "no error"


def test_tied_weights_go_into_one_call__also_as_a_whole(snippet):
    old = "fully_shard([together.embedding, together.head])"
    edited = snippet.only(*TIED).edit(f"    {old}\n", "")
    test_tied_weights_go_into_one_call(edited)


@edits(
    (
        "untied",
        "self.head.weight = self.embedding.weight",
        "pass",
    ),
    (
        "in two",
        "fully_shard([together.embedding, together.head])",
        "fully_shard(together.embedding)",
    ),
)
def test_tied_weights_go_into_one_call__but_not(snippet, old, new, fails):
    """Untied, two calls work; tied, a call without the head does not."""
    edited = snippet.only(*TIED).edit(old, new)
    fails(test_tied_weights_go_into_one_call, edited)
