"""The claims of docs/models/devices.md."""

from contextlib import suppress
from itertools import product

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since, older
from tests.helpers import worlds

CHOICE = """\
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
"""
SAME_DEVICE = (
    "Unhandled FakeTensor Device Propagation"  # as fake tensors said it
    if older(torch.__version__, "2.13")
    else "Expected all tensors to be on the same device"
)
CUDA = "works on cuda:0"
PLAIN_MEAN = "self.mean = torch.full((3,), 0.5)  # a plain tensor"
PLAIN_LIST = "self.layers = [nn.Linear(3, 1)]  # a plain list"
BUFFER = 'self.register_buffer("mean", torch.full((3,), 0.5))'
LISTED = "self.layers = nn.ModuleList([nn.Linear(3, 1)])"
pretended = api_since("2.10", "a move to a fake device that is not there")
# Fake tensors of older versions move no lazy parameter.
READY = sorted(worlds.MODELS.keys() - {"lazy"})
FAKES = () if older(torch.__version__, "2.10") else ("cuda:0",)


def pretending():
    """Return what lets tensors be on a GPU that is not there."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def nest():
    """Return a model with parts of many kinds, some of them deep."""
    inner = nn.Module()
    inner.register_buffer("mask", torch.ones(2), persistent=False)
    inner.weights = nn.ParameterList([torch.ones(2)])
    inner.named = nn.ParameterDict({"a": torch.ones(2)})
    outer = nn.Sequential(nn.BatchNorm1d(3), nn.Embedding(3, 2))
    outer.deep = nn.ModuleDict({"a": nn.Sequential(inner)})
    outer.frozen = nn.Linear(2, 2).requires_grad_(requires_grad=False)
    return outer


def moved(model, device):
    """Move a model, perhaps to a GPU that is not there."""
    with pretending(), torch.no_grad():
        return model.to(device)


def held(*models):
    """Return the parameters and buffers of models."""
    return [
        each
        for model in models
        for each in (*model.parameters(), *model.buffers())
    ]


# Do this


@pytest.mark.simulates("an accelerator")
def test_an_accelerator_or_the_cpu(snippet, monkeypatch):
    accelerator = torch.accelerator
    there = accelerator.is_available()
    named = accelerator.current_accelerator() if there else "cpu"
    with no_error():
        assert snippet.after("choose").device == torch.device(named)
    for name in ("cuda", "mps", "xpu"):
        device = torch.device(name)
        monkeypatch.setattr(
            accelerator, "current_accelerator", lambda each=device: each
        )
        monkeypatch.setattr(accelerator, "is_available", lambda: True)
        assert snippet.after("choose").device == device
        monkeypatch.setattr(accelerator, "is_available", lambda: False)
        assert snippet.after("choose").device == torch.device("cpu")


@edits(
    (
        "unchecked",
        CHOICE,
        '    torch.accelerator.current_accelerator() or "cpu"',
    ),
    ("always the CPU", CHOICE, '    torch.device("cpu")'),
    ('else torch.device("cpu")', 'else torch.device("meta")'),
    ("always CUDA", "accelerator.current_accelerator()", 'device("cuda")'),
)
def test_an_accelerator_or_the_cpu__but_not(
    snippet, monkeypatch, old, new, fails
):
    """Each of these is wrong on some machine; the first gives only the string
    `"cpu"` if there is no accelerator.
    """
    fails(test_an_accelerator_or_the_cpu, snippet.edit(old, new), monkeypatch)


@pytest.mark.simulates("a GPU")
def test_all_is_on_the_device(snippet):
    start = snippet.after("apartments")
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    batches = zip(
        start.apartments.split(16), start.prices.split(16), strict=True
    )
    for batch, targets in batches:
        loss = (model(batch) - targets).square().mean()
        model.zero_grad()
        loss.backward()
        optimizer.step()

    printing = 'print(f"last loss {loss.item():.2f}, on {loss.device}")\n'
    on_meta = snippet.edit(CHOICE, '    torch.device("meta")\n')
    on_meta = on_meta.edit(printing, "")  # there is no number to print
    for program in (snippet, on_meta):
        with no_error():
            run = program.after("train")
        found = [run.batch, run.target, run.loss]
        for each in run.model.parameters():
            state = run.optimizer.state[each]
            assert "exp_avg" in state
            found += [each, each.grad, state["exp_avg"], state["exp_avg_sq"]]
        assert len(found) == 11
        assert {each.device.type for each in found} == {run.device.type}
        if program is snippet:
            for each, mine in zip(
                run.model.parameters(), model.parameters(), strict=True
            ):
                torch.testing.assert_close(each.detach().cpu(), mine.detach())
            torch.testing.assert_close(run.loss.cpu(), loss)


BEHIND = '    optimizer.step()\nprint(f"last'


@edits(
    ("the model", "nn.Linear(3, 1).to(device)  #", "nn.Linear(3, 1)  #"),
    ("the batch", "target = batch.to(device),", "target = batch,"),
    ("the target", "target.to(device)\n", "target\n"),
    ("a step", BEHIND, BEHIND.replace("optimizer.step()", "pass")),
    ("zero_grad", "    optimizer.zero_grad()\n", ""),
)
def test_all_is_on_the_device__but_not_without(snippet, old, new, fails):
    """Without `to(device)`, the model or the batch stays on the CPU; the other
    edits leave out a part of the loop.
    """
    fails(test_all_is_on_the_device, snippet.edit(old, new))


# A tensor is copied


@pytest.mark.simulates("a GPU")
def test_to_leaves_the_tensor(snippet, place="meta", dtype=torch.float32):
    x = torch.ones(3)
    assert x.to(place, dtype) is not x
    run = snippet.after("copies")

    assert run.apartment.device.type == "cpu"
    assert run.there.is_meta
    assert run.there.shape == run.apartment.shape
    assert run.there.dtype == run.apartment.dtype
    assert run.apartment.tolist() == [71, 3, 20]
    assert run.same is run.apartment
    for dtype in (torch.float32, torch.int64, torch.bool):
        check_copied(torch.ones(2, 3, dtype=dtype))


def check_copied(x):
    """Check that a tensor stays as it is while a copy of it moves."""
    before = x.detach().clone()
    for device in ("meta", *FAKES):
        with no_error():
            copied = moved(x, device)
        assert copied is not x
        assert str(copied.device) == device
        assert (copied.dtype, copied.shape) == (x.dtype, x.shape)
        assert x.device.type == "cpu"
        torch.testing.assert_close(
            x.detach(), before, rtol=0, atol=0, equal_nan=True
        )


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@worlds.each("tensor", worlds.TENSORS)
def test_to_leaves_the_tensor__also_for_a_tensor(tensor):
    check_copied(tensor())


@edits(
    (
        "if replaced",
        'there = apartment.to("meta")',
        'there = apartment = apartment.to("meta")',
    ),
    ('apartment.to("meta")', 'apartment.to("cpu")'),
)
def test_to_leaves_the_tensor__but_not(snippet, old, new, fails):
    """Assign the result to `apartment`, and it is on `meta` itself; with
    `"cpu"`, nothing goes to another device.
    """
    edited = snippet.edit(old, new).edit("same[0] = 71\n", "")
    fails(test_to_leaves_the_tensor, edited)


def test_to_leaves_the_tensor__ends_on_its_own_device(snippet, fails):
    """If the tensor is on that device already, you get the tensor itself,
    unless you name another dtype, or write `cpu:0` for `cpu`.
    """
    for x in (torch.ones(3, device="meta"), torch.ones(3)):
        assert x.to(x.device) is x
        assert x.to(x.device.type) is x
        assert x.to(x.device, torch.float64) is not x
    assert x.to("cpu:0") is not x
    fails(test_to_leaves_the_tensor, snippet, "cpu")


# A module is moved


def without_integers():
    """Return a model with parts of many kinds, all of floats."""
    model = nest()
    model[0].num_batches_tracked = None
    return model


def after_a_move(model, move, place):
    """Return what a move has made of a model and of what it holds."""
    learning = [each for each in model.parameters() if each.requires_grad]
    for each in learning:
        each.grad = torch.ones_like(each)
    weights, grads = [*model.parameters()], [each.grad for each in learning]
    returned = move(model, place)
    now = [*model.parameters()]
    pairs = zip(now, weights, strict=True)
    parts = [*held(model), *(each.grad for each in learning)]
    return {
        "returned": returned is model,
        "the same parameters": [each is old for each, old in pairs],
        "the same gradients": [
            each.grad is old for each, old in zip(learning, grads, strict=True)
        ],
        "names": [*model.state_dict()],
        "places": [(str(each.device), each.dtype) for each in parts],
        "numbers": [each.tolist() for each in parts],
    }


@pytest.mark.simulates("a GPU")
def test_these_lines_move_a_model(
    snippet, make=without_integers, place=torch.float64
):
    with no_error():
        run = snippet.after("compare")
    for mine, real in zip(held(run.by_hand), held(run.by_torch), strict=True):
        assert mine.dtype == real.dtype == torch.float64
    found = []
    for move in (run.move, nn.Module.to):
        torch.manual_seed(0)
        with no_error():
            found.append(after_a_move(make(), move, place))
    assert found[0] == found[1]


@worlds.each("make", worlds.MODELS, *sorted({*READY} - {"with BatchNorm"}))
def test_these_lines_move_a_model__also_for_a_model(snippet, make):
    test_these_lines_move_a_model(snippet, make)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_these_lines_move_a_model__also_to(snippet, dtype):
    test_these_lines_move_a_model(snippet, place=dtype)


@pytest.mark.cuda
@pytest.mark.parametrize("make", [nest, worlds.MODELS["with BatchNorm"]])
def test_these_lines_move_a_model__also_to_a_gpu(snippet, make):
    test_these_lines_move_a_model(snippet, make, "cuda")


def test_these_lines_move_a_model__ends_for_integers(snippet, fails):
    """With a dtype, the real one leaves integers alone, such as the number of
    batches of a `BatchNorm`; ours converts them.
    """
    fails(test_these_lines_move_a_model, snippet, nest)


def test_these_lines_move_a_model__ends_on_meta(snippet, fails):
    """On `meta`, the real one makes new parameters, where ours raises."""
    model = nn.Linear(3, 1)
    weight = model.weight
    assert model.to("meta").weight is not weight
    fails(test_these_lines_move_a_model, snippet, nest, "meta")


BUFFERS = "    for module in model.modules():  # 3\n"


@edits(
    ("        weight.data = weight.data.to(place)  # 2\n", ""),
    (
        "the first only",
        "in model.parameters():",
        "in [*model.parameters()][:1]:",
    ),
    ("weight.grad.data = weight.grad.data.to(place)", "pass"),
    ("no gradients", "weight.grad.data = weight.", "weight.grad = weight."),
    ("setattr(module, name, buffer.to(place))", "pass"),
    (BUFFERS, BUFFERS.replace("model.modules()", "[model]")),
    ("return model  # 5", "return None  # 5"),
)
def test_these_lines_move_a_model__but_not(snippet, old, new, fails):
    """Leave out a line, or reach only some modules, and a tensor stays behind;
    a new gradient is not the same object.
    """
    fails(test_these_lines_move_a_model, snippet.edit(old, new))


@pytest.mark.simulates("a GPU")
def test_registered_parts_move(snippet, start=None, move=moved):
    run = snippet.after("find")
    moving, stays = held(run.pair[0]), held(run.pair[1])

    assert [each.device.type for each in moving] == ["meta"] * 3
    assert stays == []
    assert {each.grad.device.type for each in run.pair.parameters()} == {
        "meta"
    }
    for device in ("meta", *FAKES) if start is None else ("cpu",):
        model = nest().to(start)
        inside = list(model.modules())
        learning = [each for each in model.parameters() if each.requires_grad]
        for each in learning:
            each.grad = torch.ones_like(each)
        with no_error():
            assert move(model, device) is model
        assert list(model.modules()) == inside
        parts = held(model)
        parts += [each.grad for each in parts if each.requires_grad]
        assert len(parts) == 7 + 4 + len(learning)
        assert {str(each.device) for each in parts} == {device}


@worlds.each("make", worlds.MODELS, *READY)
def test_registered_parts_move__also_of_a_model(make):
    for device in ("meta", *FAKES):
        parts = held(moved(make(), device))
        assert len(parts) > 0
        assert {str(each.device) for each in parts} == {device}


LATER = 'pair = new_pair().to("meta")\n'


@edits(
    (
        "a plain tensor",
        f"{BUFFER}\n        {LISTED}",
        f"{PLAIN_MEAN}\n        {LISTED}",
    ),
    (
        "a weight that came later",
        LATER,
        f"{LATER}pair[0].layers[0].weight = nn.Parameter(torch.ones(1, 3))\n",
    ),
    (
        "a copy of the module",
        LATER,
        'import copy\n\npair = new_pair()\ncopy.deepcopy(pair).to("meta")\n',
    ),
)
def test_registered_parts_move__but_not(snippet, old, new, fails):
    """A plain tensor is not registered, what you add after the move was not
    there to be moved, and a copy leaves the module behind.
    """
    fails(test_registered_parts_move, snippet.edit(old, new))


def test_registered_parts_move__ends_for_a_module_without_data(snippet, fails):
    """A module on `meta` has no data to copy: moving it to a real device
    raises an error that names `to_empty()`.
    """
    fails(test_registered_parts_move, snippet, "meta", nn.Module.to)


@pytest.mark.simulates("a GPU")
def test_plain_parts_stay(snippet):
    run = snippet.after("find")
    careful, careless = run.pair

    assert careful.mean.is_meta
    stayed = [careless.mean, *held(*careless.layers)]
    assert [each.device.type for each in stayed] == ["cpu"] * 3
    for device in ("meta", *FAKES):
        model = nn.Sequential(nn.Sequential(nn.Linear(3, 1)))
        parts = []
        for module in model.modules():
            module.plain, module.number = torch.ones(3), torch.tensor(3)
            module.listed = [nn.Linear(3, 1), nn.BatchNorm1d(3)]
        for module in moved(model, device).modules():
            parts += [module.plain, module.number, *held(*module.listed)]
        assert {each.device.type for each in parts} == {"cpu"}


@edits(
    (
        "a parameter",
        PLAIN_MEAN,
        "self.mean = nn.Parameter(torch.full((3,), 0.5))",
    ),
    ("a module list", PLAIN_LIST, LISTED),
    (
        "a layer registered too",
        PLAIN_LIST,
        f"{PLAIN_LIST}\n        self.layer = self.layers[0]",
    ),
)
def test_plain_parts_stay__but_not(snippet, old, new, fails):
    """Registered as a parameter, or as a layer of the module, it moves with
    the model.
    """
    fails(test_plain_parts_stay, snippet.edit(old, new))


def test_plain_parts_stay__but_not_a_buffer(snippet, fails):
    """A buffer is registered, so it moves with the model."""
    fails(test_plain_parts_stay, snippet.edit(PLAIN_MEAN, BUFFER))


@pytest.mark.cuda
def test_moving_to_cuda_keeps_parameters(snippet):
    run = snippet.after("on-cuda")
    assert run.layer.weight is run.weight

    model = nest()
    optimizer = torch.optim.Adam(model.parameters())
    before = list(model.parameters())
    model.to("cuda")
    after = optimizer.param_groups[0]["params"]
    for each, old, kept in zip(model.parameters(), before, after, strict=True):
        assert each is old
        assert each is kept
        assert each.is_cuda


@pytest.mark.cuda
def test_moving_to_cuda_keeps_parameters__but_not_of_a_copy(snippet, fails):
    """`deepcopy` makes new parameters, which an optimizer made before does not
    hold.
    """
    edited = snippet.edit(
        '        layer.to("cuda")\n',
        "        import copy\n\n"
        '        layer = copy.deepcopy(layer).to("cuda")\n',
    )
    fails(test_moving_to_cuda_keeps_parameters, edited)


# What goes wrong


@pytest.mark.simulates("a GPU")
@pretended
def test_a_batch_left_behind_raises(snippet, sizes=(3, 1)):
    run = snippet.after("batch-moved")

    def forgotten(device, model):
        return model.to(device)(run.apartments)

    for attempt in (run.batch_left, forgotten):
        refused = run.pretend(attempt, nn.Linear(*sizes))
        assert refused.startswith(SAME_DEVICE)
        assert "cuda:0" in refused
        assert "cpu" in refused
    assert run.pretend(run.batch_moved, nn.Linear(*sizes)) == CUDA


@pytest.mark.parametrize("sizes", [(3, 5), (3, 1, False)])
def test_a_batch_left_behind_raises__also_for(snippet, sizes):
    test_a_batch_left_behind_raises(snippet, sizes)


@pytest.mark.cuda
@pytest.mark.parametrize("make", [nn.Linear, nn.Conv1d])
def test_a_batch_left_behind_raises__also_on_a_gpu(make):
    layer = make(3, 1) if make is nn.Linear else make(3, 1, 1)
    batch = torch.ones(3, 3)
    with pytest.raises(RuntimeError, match=r"same device|be the same"):
        layer.to("cuda")(batch)
    assert layer(batch.to("cuda")).is_cuda


def test_a_batch_left_behind_raises__but_not_if_kept(snippet, fails):
    """Hand `apartments.to(device)` itself to the model, and both are on one
    device.
    """
    edited = snippet.edit(
        "return model(apartments)", "return model(apartments.to(device))"
    )
    fails(test_a_batch_left_behind_raises, edited)


@edits(
    ("    model.to(device)\n    apartments", "    apartments"),
    (
        "    batch = apartments.to(device)\n    return model",
        "    batch = apartments\n    return model",
    ),
    ("'cuda:0'", "'cpu'"),
)
def test_a_batch_left_behind_raises__but_not(snippet, old, new, fails):
    """What counts is where model and batch are: on one device it works, on two
    it raises.
    """
    fails(test_a_batch_left_behind_raises, snippet.edit(old, new))


MADE = "batch - torch.full((3,), 0.5)"
BESIDE = "batch - torch.full((3,), 0.5, device"
SUM = "    total = torch.zeros(1)\n"
SUM_BESIDE = "    total = torch.zeros(1, device"


@pytest.mark.simulates("a GPU")
@pretended
def test_left_tensors_raise(snippet):
    run = snippet.after("brought")
    mean_left, layers_left = run.Careless(), run.Careless()
    mean_left.layers = nn.ModuleList(mean_left.layers)
    mean = layers_left.__dict__.pop("mean", torch.ones(3))
    layers_left.register_buffer("mean", mean)

    for careless in (run.Careless(), mean_left, layers_left):
        said = run.pretend(run.batch_moved, careless)
        assert said.startswith(SAME_DEVICE)
    assert run.pretend(run.batch_moved, run.Careful()) == CUDA
    assert [*run.left] == [*run.brought]
    for name in [*run.left][1:]:
        (wrong,), (right,) = run.left[name], run.brought[name]
        assert run.pretend(wrong).startswith(SAME_DEVICE)
        assert run.pretend(right) == CUDA
        torch.testing.assert_close(wrong("cpu"), right("cpu"))


@pytest.mark.parametrize(
    "maker", ["zeros(3", "arange(3.0", "zeros(64, 3"], ids="torch.{})".format
)
def test_left_tensors_raise__also_made_by(snippet, maker):
    new = f"batch - torch.{maker}"
    edited = snippet.edit(MADE, f"{new})").edit(BESIDE, f"{new}, device")
    test_left_tensors_raise(edited)


@pytest.mark.parametrize("shape", ["3", "1, 1"])
def test_left_tensors_raise__also_sums_of_shape(snippet, shape):
    edited = snippet.edit(SUM, SUM.replace("1", shape))
    edited = edited.edit(SUM_BESIDE, SUM_BESIDE.replace("1", shape))
    test_left_tensors_raise(edited)


@pretended
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (nn.NLLLoss, "weight"),
        (nn.BCEWithLogitsLoss, "weight"),
        (nn.BCEWithLogitsLoss, "pos_weight"),
    ],
    ids=["NLLLoss", "BCEWithLogitsLoss", "its pos_weight"],
)
def test_left_tensors_raise__also_in(snippet, kind, name):
    run, criterion = snippet.after("pretend"), kind(**{name: torch.ones(3)})

    def attempt(device):
        scores = run.apartments.to(device)
        if kind is nn.NLLLoss:
            return criterion(scores, scores.argmax(dim=1))
        return criterion(scores, scores)

    assert run.pretend(attempt).startswith(SAME_DEVICE)
    with pretending():
        criterion.to("cuda:0")
    assert run.pretend(attempt) == CUDA


@edits(
    ("made beside the batch", MADE, "batch - batch.new_full((3,), 0.5)"),
    ("no class weights", "weight=torch.ones(3))\n    r", ")\n    r"),
    ("a sum on the device", SUM, f"{SUM_BESIDE}=device)\n"),
    ("a sum from the number 0", SUM, "    total = 0.0\n"),
    ("made without a device", f"{BESIDE}=batch.device)", MADE),
    ("a loss that stays", "ones(3)).to(device)", "ones(3))"),
    ("a sum without a device", f"{SUM_BESIDE}=device)\n", SUM),
    (
        "a plain tensor",
        f"{BUFFER}\n        {LISTED}",
        f"{PLAIN_MEAN}\n        {LISTED}",
    ),
    ("a plain list", LISTED, "self.layers = [nn.Linear(3, 1)]"),
)
def test_left_tensors_raise__but_not(snippet, old, new, fails):
    """A tensor made on the device of the batch raises nothing, nor does a sum
    that starts at `0.0`; made without a device, or not registered, it raises.
    """
    fails(test_left_tensors_raise, snippet.edit(old, new))


def test_left_tensors_raise__ends_without_axes(snippet, fails):
    """A tensor without axes may stay on the CPU, in arithmetic and in
    comparisons.
    """
    fails(
        test_left_tensors_raise,
        snippet.edit(MADE, "batch - torch.tensor(0.5)"),
    )


def stepped(optimizer):
    """Take a step with gradients of ones."""
    for each in optimizer.param_groups[0]["params"]:
        each.grad = torch.ones_like(each)
    optimizer.step()
    return optimizer


def averages(optimizer):
    """Return the averages of an Adam by the parameter."""
    return {
        each: [state["exp_avg"], state["exp_avg_sq"]]
        for each, state in optimizer.state.items()
    }


def check_left(optimizer, model, name, new, old):
    """Check that an optimizer holds what moved, and what it averages not."""
    found = averages(optimizer)
    pairs = zip(found, model.parameters(), strict=True)
    assert all(each is mine for each, mine in pairs)
    assert {getattr(each, name) for each in found} == {new}
    stayed = {
        getattr(each, name) for those in found.values() for each in those
    }
    assert stayed == {old}


@pytest.mark.simulates("a GPU")
def test_late_moves_leave_state(snippet, kind=torch.optim.Adam, options=()):
    run = snippet.after("moved-late")
    late = [run.late.weight, run.late.bias]
    assert {each.dtype for each in late} == {torch.float64}
    assert len(run.resumed.state) == len(late)
    for those in averages(run.resumed).values():
        assert {each.dtype for each in those} == {torch.float32}
    with pytest.raises(RuntimeError, match="expected dtype float"):
        run.resumed.step()
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        model = nn.Linear(3, 1)
        saved = stepped(kind(model.parameters(), **dict(options)))
        optimizer = kind(model.parameters(), **dict(options))
        optimizer.load_state_dict(saved.state_dict())
        model.to(dtype)
        for each in (saved, optimizer):
            check_left(each, model, "dtype", dtype, torch.float32)
            with pytest.raises(RuntimeError, match="expected"):
                stepped(each)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.AdamW, {}),
        (torch.optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
        (torch.optim.Adam, {"foreach": True}),
        (torch.optim.AdamW, {"fused": True}),
    ],
)
def test_late_moves_leave_state__also_for(snippet, kind, options):
    test_late_moves_leave_state(snippet, kind, options)


@pretended
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_late_moves_leave_state__also_to_cuda(kind):
    # Fake parameters stay the same objects as those on a GPU do, unless the
    # mode refers to them, as it does when it makes some for the first time.
    cpu, gpu = torch.device("cpu"), torch.device("cuda:0")
    for loaded in (False, True):
        for _ in range(4):
            with FakeTensorMode(), torch.no_grad(), suppress(RuntimeError):
                model = nn.Linear(3, 1)
                optimizer = stepped(kind(model.parameters()))
                if loaded:
                    state = optimizer.state_dict()
                    optimizer = kind(model.parameters())
                    optimizer.load_state_dict(state)
                model.to(gpu)
                break
        check_left(optimizer, model, "device", gpu, cpu)
        with torch.no_grad(), pytest.raises(RuntimeError, match=SAME_DEVICE):
            stepped(optimizer)


@edits(
    (
        "if moved first",
        "late = nn.Linear(3, 1)",
        "late = nn.Linear(3, 1).double()",
    ),
    (
        "if not moved",
        "late.to(torch.float64)\nlate(apartments.double())",
        "late(apartments)",
    ),
    (
        "without gradients",
        "late(apartments.double()).mean().backward()\n",
        "",
    ),
    (
        "without a state",
        "resumed.load_state_dict(optimizer.state_dict())\nlate.to",
        "late.to",
    ),
)
def test_late_moves_leave_state__but_not(snippet, old, new, fails):
    """The averages must be there before the move, and a step with gradients
    must come after it.
    """
    fails(test_late_moves_leave_state, snippet.edit(old, new))


@pytest.mark.simulates("a GPU")
def test_loading_follows_the_parameters(snippet, kind=torch.optim.Adam):
    with no_error():
        run = snippet.after("moved-first")
    for those in averages(run.resumed).values():
        assert [each.dtype for each in those] == [torch.float64] * 2
    saved = stepped(kind(nn.Linear(3, 1).parameters())).state_dict()
    places = [("cpu", torch.bfloat16), ("meta", torch.float32)]
    places += product(FAKES, (torch.float32, torch.float64))
    for device, dtype in places:
        model = moved(nn.Linear(3, 1).to(dtype), device)
        with pretending(), torch.no_grad():
            optimizer = kind(model.parameters())
            optimizer.load_state_dict(saved)
        for those in averages(optimizer).values():
            for average in those:
                assert str(average.device) == device
                assert average.dtype == dtype


def test_loading_follows_the_parameters__also_with_amsgrad(snippet):
    def adam(parameters):
        return torch.optim.Adam(parameters, amsgrad=True, weight_decay=0.1)

    test_loading_follows_the_parameters(snippet, adam)


@edits(
    (
        "given by hand",
        "resumed.load_state_dict(optimizer.state_dict())\nprint",
        "resumed.state[early.weight] = optimizer.state[model.weight]\nprint",
    ),
    (
        "moved later",
        "early = nn.Linear(3, 1).to(torch.float64)",
        "early = nn.Linear(3, 1)",
    ),
)
def test_loading_follows_the_parameters__but_not(snippet, old, new, fails):
    """Averages put in by hand, or loaded before the move, are not
    converted.
    """
    fails(test_loading_follows_the_parameters, snippet.edit(old, new))
