"""The claims of docs/models/devices.md."""

from collections import deque, namedtuple
from contextlib import suppress
from functools import partial
from itertools import product
from unittest.mock import MagicMock, patch

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from extensions.evidence.counterexamples import no_error
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
NO_CUDA = not torch.backends.cuda.is_built()
pretended = api_since("2.10", "a move to a fake device that is not there")
# Fake tensors of older versions move no lazy parameter.
READY = sorted(worlds.MODELS.keys() - {"lazy"})
FAKES = () if older(torch.__version__, "2.10") else ("cuda:0",)


def edits(**each):
    """Run a counter-example with each edit, named by its keyword."""
    names = [name.replace("_", " ") for name in each]
    return pytest.mark.parametrize(("old", "new"), each.values(), ids=names)


def pretending():
    """Return what lets tensors be on a GPU that is not there."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def device_of(act, *inputs):
    """Return the device of a result, or what is said instead."""
    with pretending(), torch.no_grad():
        try:
            return str(act(*inputs).device)
        except RuntimeError as error:
            return str(error)


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
    unchecked=(CHOICE, '    torch.accelerator.current_accelerator() or "cpu"'),
    always_the_cpu=(CHOICE, '    torch.device("cpu")'),
    elsewhere=('else torch.device("cpu")', 'else torch.device("meta")'),
    always_cuda=("accelerator.current_accelerator()", 'device("cuda")'),
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
    model, total = nn.Linear(3, 1), 0.0
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    batches = zip(
        start.apartments.split(16), start.prices.split(16), strict=True
    )
    for batch, targets in batches:
        loss = (model(batch) - targets).square().mean()
        model.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()

    on_meta = snippet.edit(CHOICE, '    torch.device("meta")\n')
    for program in (snippet, on_meta):
        with no_error():
            run = program.after("train")
        found = [run.batch, run.target, run.loss, run.total]
        for each in run.model.parameters():
            state = run.optimizer.state[each]
            assert "exp_avg" in state
            found += [each, each.grad, state["exp_avg"], state["exp_avg_sq"]]
        assert len(found) == 12
        assert {each.device.type for each in found} == {run.device.type}
        assert not run.total.requires_grad
        if program is snippet:
            for each, mine in zip(
                run.model.parameters(), model.parameters(), strict=True
            ):
                torch.testing.assert_close(each.detach().cpu(), mine.detach())
            assert run.total.item() == pytest.approx(total, rel=1e-5)


@edits(
    without_the_model=("nn.Linear(3, 1).to(device)  #", "nn.Linear(3, 1)  #"),
    without_the_batch=("target = batch.to(device),", "target = batch,"),
    without_the_targets=("target.to(device)\n", "target\n"),
    without_the_total=("zeros(1, device=device)", "zeros(1)"),
    with_the_last_loss=("total += loss", "total = loss"),
    with_the_graphs=("total += loss.detach()", "total += loss"),
    without_a_step=("    optimizer.step()\n    total", "    total"),
    with_old_gradients=("    optimizer.zero_grad()\n", ""),
    with_another_loss=(
        "    total += loss.detach()\n",
        "    total += loss.detach()\n    loss = torch.empty(0)\n",
    ),
    with_other_averages=(
        "    total += loss.detach()\n",
        "    total += loss.detach()\n"
        "    for state in optimizer.state.values():\n"
        "        state['exp_avg'] = torch.empty(0)\n"
        "    break\n",
    ),
)
def test_all_is_on_the_device__but_not(snippet, old, new, fails):
    """A `total` made without `device` stays on the CPU; the other edits leave
    out or replace another part of the loop.
    """
    fails(test_all_is_on_the_device, snippet.edit(old, new))


def test_an_argument_forces_a_device(snippet):
    run = snippet.after("argument")

    assert run.forced.device == torch.device("cuda:1")
    assert run.parser.parse_args([]).device is run.device
    for name in ("cpu", "meta", "cuda", "cuda:1", "mps"):
        parsed = run.parser.parse_args(["--device", name]).device
        assert isinstance(parsed, torch.device)
        assert parsed == torch.device(name)


@edits(
    without_a_default=(", default=device", ""),
    with_another_default=("default=device", 'default=torch.device("meta")'),
    as_text=("type=torch.device, ", ""),
)
def test_an_argument_forces_a_device__but_not(snippet, old, new, fails):
    """You need both: `default=device`, for when the argument is missing, and
    `type`, or it stays text.
    """
    fails(test_an_argument_forces_a_device, snippet.edit(old, new))


# A tensor is copied


@pytest.mark.simulates("a GPU")
def test_to_leaves_the_tensor(snippet):
    run = snippet.after("copies")

    assert run.apartment.device.type == "cpu"
    assert run.there.is_meta
    assert run.there.shape == run.apartment.shape
    assert run.there.dtype == run.apartment.dtype
    assert run.apartment.tolist() == [71, 3, 20]
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
    if_replaced=(
        'there = apartment.to("meta")',
        'there = apartment = apartment.to("meta")',
    ),
    to_its_own_device=('apartment.to("meta")', 'apartment.to("cpu")'),
)
def test_to_leaves_the_tensor__but_not(snippet, old, new, fails):
    """Assign the result to `apartment`, and it is on `meta` itself; with
    `"cpu"`, nothing goes to another device.
    """
    edited = snippet.edit(old, new).edit("same[0] = 71\n", "")
    fails(test_to_leaves_the_tensor, edited)


def test_to_its_device_is_itself(snippet, index=None, dtype=None):
    x = torch.ones(3)
    place = x.device if index is None else torch.device("cpu", index)
    assert x.to(place, dtype) is x
    run = snippet.after("copies")

    assert run.same is run.apartment
    assert run.apartment[0] == 71
    for dtype in (torch.float32, torch.int64, torch.bool):
        for device in ("cpu", "meta"):
            x = torch.ones(3, dtype=dtype, device=device)
            assert x.to(x.device) is x
            assert x.to(x.device.type) is x
    with pretending():
        x = torch.ones(3, device="cuda:0")
        assert x.to(x.device) is x


@worlds.each("tensor", worlds.TENSORS)
def test_to_its_device_is_itself__also_for_a_tensor(tensor):
    x = tensor()
    assert x.to(x.device) is x
    assert x.to("cpu", non_blocking=True) is x


def test_to_its_device_is_itself__ends_for_the_cpu_with_an_index(
    snippet, fails
):
    """For `torch.device("cpu", 0)`: the index makes it another device than
    `cpu`, so you get a copy.
    """
    fails(test_to_its_device_is_itself, snippet, 0)


def test_to_its_device_is_itself__ends_with_another_dtype(snippet, fails):
    """With another dtype as well: the result is a copy."""
    fails(test_to_its_device_is_itself, snippet, None, torch.float64)


@edits(
    told_to_copy=("to(apartment.device)", "to(apartment.device, copy=True)"),
    in_another_dtype=(
        "to(apartment.device)",
        "to(apartment.device, torch.float64)",
    ),
)
def test_to_its_device_is_itself__but_not(snippet, old, new, fails):
    """`copy=True`, or another dtype, makes a copy: what you write into it does
    not reach `apartment`.
    """
    fails(test_to_its_device_is_itself, snippet.edit(old, new))


# A module is moved


@pytest.mark.simulates("a GPU")
def test_a_module_moves_itself(snippet, start=None, move=moved):
    run = snippet.after("moved")

    assert run.returned is run.both
    assert len(held(run.both)) == 3
    assert all(each.is_meta for each in held(run.both))
    for device in ("meta", *FAKES):
        model = nest().to(start)
        inside = list(model.modules())
        with no_error():
            assert move(model, device) is model
        assert list(model.modules()) == inside
        assert {str(each.device) for each in held(*inside)} == {device}


def test_a_module_moves_itself__ends_for_a_module_without_data(snippet, fails):
    """A module on `meta` has no data to copy: moving it to a real device
    raises an error that names `to_empty()`.
    """

    def back(model, device):
        return model.to("cpu")

    fails(test_a_module_moves_itself, snippet, "meta", back)


@edits(
    a_copy_of_it=(
        'returned = both.to("meta")',
        'import copy\n\nreturned = copy.deepcopy(both).to("meta")',
    ),
    with_another_result=('= both.to("meta")', '= both.to("meta")[0]'),
    the_modules_below=(
        '= both.to("meta")',
        '= both._apply(lambda x: x.to("meta"), recurse=False)',
    ),
)
def test_a_module_moves_itself__but_not(snippet, old, new, fails):
    """Move a deep copy, and the module stays; other edits return only a part,
    or leave the modules below behind.
    """
    fails(test_a_module_moves_itself, snippet.edit(old, new))


@pytest.mark.simulates("a GPU")
def test_registered_parts_move(snippet):
    run = snippet.after("places")
    places, moving = run.places, held(run.careful)

    assert len(moving) == 3
    assert all(each.is_meta for each in moving)
    assert all(each.grad.is_meta for each in run.careful.parameters())
    for name in ("a registered weight", "its gradient", "a buffer"):
        assert places[name].is_meta
    for device in ("meta", *FAKES):
        model = nest()
        learning = [each for each in model.parameters() if each.requires_grad]
        for each in learning:
            each.grad = torch.ones_like(each)
        parts = held(moved(model, device))
        parts += [each.grad for each in parts if each.requires_grad]
        assert len(parts) == 7 + 4 + len(learning)
        assert {str(each.device) for each in parts} == {device}


@worlds.each("make", worlds.MODELS, *READY)
def test_registered_parts_move__also_of_a_model(make):
    for device in ("meta", *FAKES):
        model = make()
        parts = held(moved(model, device))
        assert parts
        assert {str(each.device) for each in parts} == {device}


@edits(
    a_plain_tensor=(
        f"{BUFFER}\n        {LISTED}",
        f"{PLAIN_MEAN}\n        {LISTED}",
    ),
    a_weight_that_came_later=(
        'returned = both.to("meta")\n',
        'returned = both.to("meta")\n'
        "careful.layers[0].weight = nn.Parameter(torch.ones(1, 3))\n",
    ),
    a_gradient_that_came_later=(
        '"its gradient": careful.layers[0].weight.grad',
        '"its gradient": torch.ones(1, 3)',
    ),
)
def test_registered_parts_move__but_not(snippet, old, new, fails):
    """A plain tensor is not registered, and what you add after the move was
    not there to be moved.
    """
    fails(test_registered_parts_move, snippet.edit(old, new))


@pytest.mark.simulates("a GPU")
def test_plain_parts_stay(snippet):
    run = snippet.after("places")

    assert run.careful.mean.is_meta
    for name in ("a plain tensor", "a weight in a plain list"):
        assert run.places[name].device.type == "cpu"
    stayed = held(*run.careless.layers)
    assert len(stayed) == 2
    assert {each.device.type for each in stayed} == {"cpu"}
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
    a_parameter=(
        PLAIN_MEAN,
        "self.mean = nn.Parameter(torch.full((3,), 0.5))",
    ),
    a_module_list=(PLAIN_LIST, LISTED),
    a_layer_registered_too=(
        PLAIN_LIST,
        f"{PLAIN_LIST}\n        self.layer = self.layers[0]",
    ),
    a_tensor_registered_too=(
        PLAIN_MEAN,
        "self.mean = self.same = nn.Parameter(torch.full((3,), 0.5))",
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


# The causes


@pytest.mark.simulates("a GPU")
@pretended
def test_a_batch_left_behind_raises(snippet, sizes=(3, 1)):
    run = snippet.after("batch-moved")

    def forgotten(model, device):
        return model.to(device)(run.apartments)

    def unkept(model, device):
        model.to(device)
        run.apartments.to(device)
        return model(run.apartments)

    for attempt in (run.batch_left, forgotten, unkept):
        refused = run.pretend(attempt, nn.Linear(*sizes))
        assert refused.startswith(SAME_DEVICE)
        assert "cuda:0" in refused
        assert "cpu" in refused
    assert run.pretend(run.batch_moved, nn.Linear(*sizes)) == CUDA


@pytest.mark.parametrize("sizes", [(3, 5), (3, 1, False)])
def test_a_batch_left_behind_raises__also_for(snippet, sizes):
    test_a_batch_left_behind_raises(snippet, sizes)


def test_a_batch_left_behind_raises__but_not_if_kept(snippet, fails):
    """Hand `apartments.to(device)` itself to the model, and both are on one
    device.
    """
    edited = snippet.edit(
        "return model(apartments)", "return model(apartments.to(device))"
    )
    fails(test_a_batch_left_behind_raises, edited)


@edits(
    on_the_cpu=("    model.to(device)\n    apartments", "    apartments"),
    if_nothing_moved=(
        "    batch = apartments.to(device)",
        "    batch = apartments",
    ),
    off_cuda=("'cuda:0'", "'cpu'"),
)
def test_a_batch_left_behind_raises__but_not(snippet, old, new, fails):
    """What counts is where model and batch are: on one device it works, on two
    it raises.
    """
    fails(test_a_batch_left_behind_raises, snippet.edit(old, new))


@pytest.mark.simulates("a GPU")
@pretended
def test_made_in_forward_raises(snippet, maker="torch.full((3,), 0.5"):
    here = "mean = torch.full((3,), 0.5"
    if maker not in here:
        snippet = snippet.edit(f"{here})\n", f"mean = {maker})\n")
        snippet = snippet.edit(f"{here}, device", f"mean = {maker}, device")
    run = snippet.after("made-beside")

    refused = run.pretend(run.batch_moved, run.MadeHere(3, 1))
    assert refused.startswith(SAME_DEVICE)
    assert "cpu" in refused
    assert run.pretend(run.batch_moved, run.MadeBeside(3, 1)) == CUDA
    for model in (run.MadeHere(3, 1), run.MadeBeside(3, 1)):
        mean = eval(f"{maker})", {"torch": torch})
        expected = nn.Linear.forward(model, run.apartments - mean)
        assert model(run.apartments).equal(expected)


@pytest.mark.parametrize(
    "maker", ["torch.zeros(3", "torch.arange(3.0", "torch.zeros(64, 3"]
)
def test_made_in_forward_raises__also_with(snippet, maker):
    test_made_in_forward_raises(snippet, maker)


@edits(
    beside_the_batch=(
        "= torch.full((3,), 0.5)\n",
        "= apartments.new_full((3,), 0)\n",
    ),
    without_an_axis=("= torch.full((3,), 0.5)\n", "= torch.full((), 0.5)\n"),
    with_a_default_device=(
        "        mean = torch.full((3,), 0.5)\n",
        "        with apartments.device:\n"
        "            mean = torch.full((3,), 0.5)\n",
    ),
    without_a_device=(", device=apartments.device", ""),
    on_the_cpu=("device=apartments.device", 'device="cpu"'),
)
def test_made_in_forward_raises__but_not(snippet, old, new, fails):
    """A tensor made on the device of `apartments`, or without axes, may meet
    the batch; one on the CPU may not.
    """
    fails(test_made_in_forward_raises, snippet.edit(old, new))


@pytest.mark.simulates("a GPU")
@pretended
def test_unregistered_parts_raise(snippet):
    run = snippet.after("not-registered")
    plain_mean, plain_list, careless = (run.Careless() for _ in range(3))
    plain_mean.layers = nn.ModuleList(plain_mean.layers)
    mean = plain_list.__dict__.pop("mean", torch.ones(3))
    plain_list.register_buffer("mean", mean)

    for model in (plain_mean, plain_list, careless):
        refused = run.pretend(run.batch_moved, model)
        assert refused.startswith(SAME_DEVICE)
    assert run.pretend(run.batch_moved, run.Careful()) == CUDA


@edits(
    a_list_without_layers=(
        "return self.layers[0](apartments - self.mean)\n\n\n# %% careful",
        "return apartments - self.mean\n\n\n# %% careful",
    ),
    a_mean_that_is_not_used=(
        "return self.layers[0](apartments - self.mean)\n\n\n# %% careful",
        "return self.layers[0](apartments)\n\n\n# %% careful",
    ),
    careful_with_a_plain_mean=(
        f"{BUFFER}\n        {LISTED}",
        f"{PLAIN_MEAN}\n        {LISTED}",
    ),
    careful_with_a_plain_list=(LISTED, "self.layers = [nn.Linear(3, 1)]"),
)
def test_unregistered_parts_raise__but_not(snippet, old, new, fails):
    """A plain tensor or list stays on the CPU in every class, and raises only
    if `forward` uses it.
    """
    fails(test_unregistered_parts_raise, snippet.edit(old, new))


@pytest.mark.simulates("a GPU")
@pretended
def test_a_loss_left_behind_raises(snippet, kind=nn.CrossEntropyLoss):
    run, made = snippet.after("loss-moved"), nn.CrossEntropyLoss
    refused = run.pretend(run.loss_left, nn.Linear(3, 3))
    assert refused.startswith(SAME_DEVICE)
    assert run.pretend(run.loss_moved, nn.Linear(3, 3)) == CUDA

    def on_cuda(weight):
        return made(weight=weight).to("cuda:0")

    # With a loss that has moved, nothing else in the program raises.
    with patch.object(nn, "CrossEntropyLoss", on_cuda):
        for attempt in (run.loss_left, run.loss_moved):
            assert run.pretend(attempt, nn.Linear(3, 3)) == CUDA

    one_hot = kind is nn.BCEWithLogitsLoss
    labels = nn.functional.one_hot(run.kinds).float() if one_hot else run.kinds
    for move in (False, True):
        for name in ("pos_weight", "weight") if one_hot else ("weight",):
            criterion = kind(**{name: torch.ones(3)})

            def attempt(model, device, criterion=criterion):
                scores = run.batch_moved(model, device)
                return criterion(scores, labels.to(device))

            with pretending():
                criterion.to("cuda:0" if move else "cpu")
            said = run.pretend(attempt, nn.Linear(3, 3))
            assert said == CUDA if move else said.startswith(SAME_DEVICE)


@pytest.mark.parametrize(
    "kind", [nn.NLLLoss, nn.BCEWithLogitsLoss], ids=lambda kind: kind.__name__
)
def test_a_loss_left_behind_raises__also_for(snippet, kind):
    test_a_loss_left_behind_raises(snippet, kind)


@edits(
    without_a_weight=(
        "weight=torch.ones(3))\n",
        ")\n",
    ),
    on_the_device=(
        "weight=torch.ones(3))\n",
        "weight=torch.ones(3, device=device))\n",
    ),
    if_it_is_not_moved=("ones(3)).to(device)", "ones(3))"),
)
def test_a_loss_left_behind_raises__but_not(snippet, old, new, fails):
    """With no weight, or with one made on the device, nothing is left to move;
    a weight on the CPU raises.
    """
    fails(test_a_loss_left_behind_raises, snippet.edit(old, new))


@pytest.mark.simulates("a GPU")
@pretended
def test_a_sum_left_behind_raises(snippet, shape="1"):
    if shape != "1":
        old = "    total = torch.zeros(1)\n    total +="
        snippet = snippet.edit(old, old.replace("(1)", f"({shape})"))
    run = snippet.after("sum-left")

    model = nn.Linear(3, 1)
    total = run.sum_left(model, "cpu")
    torch.testing.assert_close(total - model(run.apartments).mean(), 0 * total)
    refused = run.pretend(run.sum_left, model)
    assert refused.startswith(SAME_DEVICE)
    # With a sum on the device, nothing else in the program raises.
    on_cuda = partial(torch.zeros, device="cuda:0")
    with patch.object(torch, "zeros", on_cuda):
        assert run.pretend(run.sum_left, nn.Linear(3, 1)) == CUDA


@pytest.mark.parametrize("shape", ["3", "1, 1"])
def test_a_sum_left_behind_raises__also_of_shape(snippet, shape):
    test_a_sum_left_behind_raises(snippet, shape)


@edits(
    on_the_device=(
        "zeros(1)\n    total",
        "zeros(1, device=device)\n    total",
    ),
    out_of_place_from_a_number=(
        "    total = torch.zeros(1)\n    total += ",
        "    total = torch.zeros(())\n    total = total + ",
    ),
    for_a_loss_on_the_cpu=(
        "batch_moved(model, device).mean()",
        "apartments.mean()",
    ),
)
def test_a_sum_left_behind_raises__but_not(snippet, old, new, fails):
    """On one device it works, and so does `total = total + loss` if `total`
    has no axes.
    """
    fails(test_a_sum_left_behind_raises, snippet.edit(old, new))


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
    run = snippet.after("resume")
    with pytest.raises(RuntimeError, match="expected dtype float"):
        run.resume(move_first=False)
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
    if_moved_first=(
        "    if move_first:\n        model",
        "    if True:\n        model",
    ),
    if_not_moved=(
        "    model.double()\n    model(apartments.double())",
        "    model(apartments)",
    ),
    if_loaded_last=(
        "    resumed.load_state_dict(",
        "    model.double()\n    resumed.load_state_dict(",
    ),
    without_gradients=(
        "    model(apartments.double()).mean().backward()\n",
        "",
    ),
    without_a_state=(
        "    resumed.load_state_dict(optimizer.state_dict())\n",
        "",
    ),
)
def test_late_moves_leave_state__but_not(snippet, old, new, fails):
    """The averages must be there before the move, and a step with gradients
    must come after it.
    """
    fails(test_late_moves_leave_state, snippet.edit(old, new))


def test_late_moves_leave_state__ends_for_copies(snippet, fails):
    """If Adam holds copies of the parameters: it knows nothing of the model
    that moves, and nothing raises.
    """

    def adam(parameters):
        return torch.optim.Adam([each.detach().clone() for each in parameters])

    fails(test_late_moves_leave_state, snippet, adam)


@pytest.mark.simulates("a GPU")
def test_loading_follows_the_parameters(snippet, kind=torch.optim.Adam):
    run = snippet.after("resume")
    adam = run.optimizer.__class__
    load = adam.load_state_dict
    with (
        no_error(),
        patch.object(adam, "load_state_dict", autospec=True) as it,
    ):
        it.side_effect = load
        assert run.resume(move_first=True) == torch.float64
    it.assert_called_once()
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
    if_given_by_hand=(
        "    resumed.load_state_dict(optimizer.state_dict())\n",
        "    resumed.state[model.weight] = optimizer.state[globals()['model']"
        ".weight]\n",
    ),
    if_moved_later=("    if move_first:\n        model.double()\n", ""),
)
def test_loading_follows_the_parameters__but_not(snippet, old, new, fails):
    """Averages put in by hand, or loaded before the move, are not
    converted.
    """
    fails(test_loading_follows_the_parameters, snippet.edit(old, new))


# Find the tensor


def test_tensors_of_finds_all(snippet, kept=list):
    run = snippet.after("find")
    holder, lost = nn.Module(), torch.ones(1)
    holder.parts = kept([lost])
    names = [name for name, each in run.tensors_of(holder) if each is lost]
    assert len(names) == 1
    model, listed = nest(), nn.BatchNorm1d(3)
    listed.own = [nn.Linear(3, 1), nn.BatchNorm1d(3, affine=False)]
    model.deep.plain, model.plain = torch.ones(2)
    model.deep.listed = [listed, torch.ones(1)]
    parts = (nn.Parameter(torch.ones(1)), torch.empty(0), torch.tensor(3))
    model.deep.parts = parts
    model.deep.up, listed.up = [model.deep, model], [model]
    model.rest = "text", 3, None, [4, "text"]
    model._hidden = torch.zeros(2, dtype=torch.int64)

    expected = [*held(model, listed, *listed.own), model._hidden]
    expected += [model.plain, model.deep.plain, model.deep.listed[1], *parts]
    found = [id(each) for _, each in run.tensors_of(model)]
    assert sorted(found) == sorted(id(each) for each in expected)
    rows = {name: str(each.device) for name, each in run.tensors_of(run.both)}
    assert rows == {
        "model.0.layers.0.weight": "meta",
        "model.0.layers.0.bias": "meta",
        "model.0.mean": "meta",
        "model.1.mean (plain)": "cpu",
        "model.1.layers (plain).weight": "cpu",
        "model.1.layers (plain).bias": "cpu",
    }


def test_tensors_of_finds_all__also_in_a_loss_function(snippet):
    run = snippet.after("find")
    criterion = nn.CrossEntropyLoss(weight=torch.ones(3))

    names = [name for name, _ in run.tensors_of(criterion, "criterion")]
    assert names == ["criterion.weight"]


@worlds.each("make", worlds.MODELS)
def test_tensors_of_finds_all__also_of_a_model(snippet, make):
    run, model = snippet.after("find"), make()
    model.kept = (torch.ones(2),)
    found = [id(each) for _, each in run.tensors_of(model)]
    expected = [*held(model), model.kept[0]]
    assert sorted(found) == sorted(id(each) for each in expected)


def of_keys(parts):
    """Return a dict of tensors."""
    return dict(enumerate(parts))


Pair = namedtuple("Pair", "tensor")


@pytest.mark.parametrize(
    "kept",
    [of_keys, deque, lambda parts: [parts], lambda parts: Pair(*parts)],
    ids=["a dict", "a deque", "a list in a list", "a named tuple"],
)
def test_tensors_of_finds_all__ends_in(snippet, kept, fails):
    """In a dict, a `deque`, a named tuple or a list in a list: `tensors_of`
    looks only into plain lists and tuples.
    """
    fails(test_tensors_of_finds_all, snippet, kept)


LIST = "value if type(value) in (list, tuple) else [value]"


@edits(
    the_parameters=("    yield from model.named_parameters(path)\n", ""),
    the_buffers=("    yield from model.named_buffers(path)\n", ""),
    what_is_in_a_list=(LIST, "[value]"),
    a_plain_attribute=(LIST, "value if type(value) in (list, tuple) else []"),
    the_layers_of_a_list=(
        "isinstance(part, nn.Module) and part not in seen",
        "False",
    ),
    what_is_plain_below=(
        "model.named_modules(prefix=path)",
        "[(path, model)]",
    ),
)
def test_tensors_of_finds_all__but_not(snippet, old, new, fails):
    """Each part of the search finds one kind of tensor: leave one out, and
    that kind is missing.
    """
    fails(test_tensors_of_finds_all, snippet.edit(old, new))


# Other errors


def test_the_cpu_names_the_index(snippet, **options):
    run = snippet.after("read-on-the-cpu")
    assert run.looked_up == "index out of range in self"

    for rows in (1, 3):
        look = nn.Embedding(rows, 2, **options)
        for index in (-1, rows, rows + 90):
            for dtype in (torch.int64, torch.int32):
                numbers = torch.tensor([0, index], dtype=dtype)
                with pytest.raises(IndexError) as raised:
                    look(numbers)
                assert str(raised.value) == run.looked_up
        with no_error():
            look(torch.tensor([0, rows - 1]))


@edits(
    with_a_row_more=("nn.Embedding(3, 2)", "nn.Embedding(4, 2)"),
    of_the_last_row=("2)(torch.tensor([3])", "2)(torch.tensor([2])"),
)
def test_the_cpu_names_the_index__but_not(snippet, old, new, fails):
    """Four rows have an index 3, and three rows have an index 2, so neither
    look-up raises.
    """
    fails(test_the_cpu_names_the_index, snippet.edit(old, new))


def test_the_cpu_names_the_index__ends_with_max_norm(snippet, fails):
    """With `max_norm`: the error is another one, from `select()`."""
    edited = snippet.edit("nn.Embedding(3, 2)", "nn.Embedding(3, 2, 0, 1.0)")
    fails(test_the_cpu_names_the_index, edited)


def test_the_cpu_names_the_class(snippet):
    run = snippet.after("read-on-the-cpu")
    assert run.scored == "Target 3 is out of bounds."

    for rows in (1, 3):
        loss = nn.CrossEntropyLoss(ignore_index=-7)
        other = nn.CrossEntropyLoss(torch.ones(rows), label_smoothing=0.1)
        scores, kept = torch.zeros(2, rows), torch.tensor([0, rows - 1])
        for index in (-1, rows, rows + 90):
            numbers = torch.tensor([0, index])
            for criterion in (loss, other):
                with pytest.raises(IndexError, match=f"^Target {index} is "):
                    criterion(scores, numbers)
            with pytest.raises(IndexError, match=f"^Target {index} is out"):
                loss(torch.zeros(2, rows, 4), numbers[:, None].expand(2, 4))
        with no_error():
            loss(scores, kept)
            loss(scores, torch.tensor([0, -7]))


@edits(
    with_a_class_more=("torch.zeros(1, 3), t", "torch.zeros(1, 4), t"),
    if_ignored=("CrossEntropyLoss()", "CrossEntropyLoss(ignore_index=3)"),
)
def test_the_cpu_names_the_class__but_not(snippet, old, new, fails):
    """Four scores have a class 3, and an ignored class is never looked up, so
    neither raises.
    """
    fails(test_the_cpu_names_the_class, snippet.edit(old, new))


def test_the_cpu_names_the_class__ends_for_classes_of_int32(snippet, fails):
    """For classes of `int32`: the error is about their dtype instead."""
    old = "torch.tensor([3])\nscored"
    edited = snippet.edit(old, "torch.tensor([3]).int()\nscored")
    fails(test_the_cpu_names_the_class, edited)


@pytest.mark.skipif(not NO_CUDA, reason="this build is for CUDA")
def test_not_compiled_with_cuda(snippet):
    run = snippet.after("without-cuda")

    said = "Torch not compiled with CUDA enabled"
    assert torch.version.cuda is None
    assert run.answer == said
    for call in (
        lambda: torch.ones(2, device="cuda:0"),
        lambda: torch.tensor([1], device=torch.device("cuda")),
        lambda: torch.ones(2).to("cuda"),
        lambda: torch.ones(2).cuda(),
        lambda: torch.arange(3, device="cuda"),
        lambda: torch.ones(2, device="meta").to("cuda"),
        lambda: nn.Linear(3, 1).to("cuda"),
        lambda: nn.Linear(3, 1).cuda(),
    ):
        with pytest.raises(AssertionError, match=f"^{said}$"):
            call()


@pytest.mark.skipif(not NO_CUDA, reason="this build is for CUDA")
@pytest.mark.parametrize("device", ["cpu", "xpu"])
def test_not_compiled_with_cuda__but_not_for(snippet, device, fails):
    """A tensor on the CPU raises nothing, and on `xpu` the error names XPU."""
    edited = snippet.edit(
        'zeros(1, device="cuda")', f'zeros(1, device="{device}")'
    )
    fails(test_not_compiled_with_cuda, edited)


@pytest.mark.skipif(not NO_CUDA, reason="this build is for CUDA")
@edits(
    for_a_layer_without_tensors=(
        "lambda: torch.zeros(1, device",
        "lambda: nn.ReLU().to(device",
    ),
    for_a_generator=(
        "lambda: torch.zeros(1, device",
        "lambda: torch.Generator(device",
    ),
)
def test_not_compiled_with_cuda__but_not(snippet, old, new, fails):
    """`ReLU` has no tensors to move, so nothing raises; a generator raises
    another error.
    """
    fails(test_not_compiled_with_cuda, snippet.edit(old, new))


def test_numpy_wants_the_cpu(snippet):
    run = snippet.after("to-numpy")

    assert "convert meta device" in run.as_numpy
    assert "Tensor.cpu()" in run.as_numpy
    for dtype in (torch.float32, torch.int64):
        numbers = torch.ones((2, 3), dtype=dtype)
        with pytest.raises(TypeError, match=r"meta .* Tensor\.cpu\(\)"):
            numbers.to("meta").numpy()
        with pytest.raises(TypeError, match=r"meta .* Tensor\.cpu\(\)"):
            torch.ones(2, device="meta", requires_grad=True).numpy()
        with no_error():
            numbers.numpy()


@edits(
    on_the_cpu=("refusal(there.numpy)", "str(refusal(apartment.numpy))"),
    of_a_sparse_tensor=("there.numpy", "lambda: there.to_sparse().numpy()"),
)
def test_numpy_wants_the_cpu__but_not(snippet, old, new, fails):
    """On the CPU, `numpy()` just works; with the other edit, `to_sparse()`
    raises before `numpy()` is reached.
    """
    fails(test_numpy_wants_the_cpu, snippet.edit(old, new))


def test_integers_are_a_second_fault(snippet, bias=True):
    run = snippet.after("integers")

    assert "same dtype" in run.counted
    assert "Long" in run.counted
    layer = nn.Linear(3, 1, bias=bias)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        for shape in ((3,), (2, 3), (2, 2, 3)):
            numbers = torch.ones(shape, dtype=dtype)
            with pytest.raises(RuntimeError, match="dtype"):
                layer(numbers)
            with no_error():
                layer(numbers.float())


def test_integers_are_a_second_fault__also_without_a_bias(snippet):
    test_integers_are_a_second_fault(snippet, bias=False)


def test_integers_are_a_second_fault__but_not_as_floats(snippet, fails):
    """Written as floats, the batch has the dtype of the weights."""
    edited = snippet.edit("([70, 3, 20])))", "([70.0, 3, 20]))) or ''")
    fails(test_integers_are_a_second_fault, edited)


CHARACTERS = {
    torch.float64: "double",
    torch.float16: "c10::Half",
    torch.int64: "long int",
    torch.uint8: "unsigned char",
}
CONVOLUTIONS = {
    "Conv1d": lambda **options: nn.Conv1d(3, 2, 1, **options),
    "Conv2d": lambda **options: nn.Conv2d(3, 2, 1, **options),
    "Conv3d": lambda **options: nn.Conv3d(3, 2, 1, **options),
}


def test_a_convolution_wants_one_dtype(snippet, kind="Conv1d", bias=True):
    run = snippet.after("doubles")
    wanted = "Input type ({}) and bias type (float) should be the same"
    assert run.refused == wanted.format("double")

    layer = CONVOLUTIONS[kind](bias=bias)
    shape = (2, 3, 4, 5, 6)[: layer.weight.ndim]
    for dtype, name in CHARACTERS.items():
        batch = torch.ones(shape, dtype=dtype)
        assert run.refusal(lambda x=batch: layer(x)) == wanted.format(name)


@pytest.mark.parametrize("kind", ["Conv2d", "Conv3d"])
def test_a_convolution_wants_one_dtype__also_of(snippet, kind):
    test_a_convolution_wants_one_dtype(snippet, kind)


def test_a_convolution_wants_one_dtype__ends_without_a_bias(snippet, fails):
    """Without a bias, the error is `expected scalar type Double but found
    Float`.
    """
    layer = nn.Conv1d(3, 2, 1, bias=False)
    with pytest.raises(RuntimeError, match="type Double but found Float"):
        layer(torch.ones(2, 3, 4).double())
    fails(test_a_convolution_wants_one_dtype, snippet, "Conv1d", False)


def test_a_convolution_wants_one_dtype__ends_for_a_transposed_one(
    snippet, fails, monkeypatch
):
    """`ConvTranspose1d` refuses it with another text, bias or not."""
    monkeypatch.setitem(
        CONVOLUTIONS, "transposed", lambda bias: nn.ConvTranspose1d(3, 2, 1)
    )
    fails(test_a_convolution_wants_one_dtype, snippet, "transposed")


def test_a_convolution_wants_one_dtype__but_not_as_floats(snippet, fails):
    """A `float32` batch has the dtype of the weights, and is taken."""
    edited = snippet.edit(
        "convolution(apartments.double()))", "convolution(apartments))"
    )
    fails(test_a_convolution_wants_one_dtype, edited)


def test_a_convolution_takes_floats(snippet, dtypes=tuple(CHARACTERS)):
    with no_error():
        run = snippet.after("floats")
    expected = run.convolution(run.apartments)
    assert run.convolution(run.apartments.double().float()).equal(expected)

    for make in CONVOLUTIONS.values():
        for bias in (True, False):
            layer = make(bias=bias)
            for dtype in dtypes:
                shape = (2, 3, 4, 5, 6)[: layer.weight.ndim]
                with no_error():
                    found = layer(torch.ones(shape, dtype=dtype).float())
                assert found.dtype == torch.float32


def test_a_convolution_takes_floats__but_not_left_as_they_are(snippet, fails):
    """Without `float()`, the batch is still `float64`, and is refused."""
    fails(
        test_a_convolution_takes_floats,
        snippet.edit("double().float()).dtype", "double()).dtype"),
    )


def test_a_convolution_takes_floats__ends_with_weights_in_16_bits(
    snippet, fails
):
    """With weights in 16 bits, convert the batch to `layer.weight.dtype`."""
    edited = snippet.edit(
        "nn.Conv1d(64, 1, 1)\nrefused", "nn.Conv1d(64, 1, 1).half()\nrefused"
    )
    fails(test_a_convolution_takes_floats, edited)


# Where it ends


@pytest.mark.simulates("a GPU")
@pretended
def test_one_number_may_stay(snippet, others=()):
    run = snippet.after("one-number")
    model = nn.Linear(3, 1)
    assert run.discounted(model, "cpu").equal(model(run.apartments) * 0.9)
    assert run.pretend(run.discounted, model) == CUDA
    factor = MagicMock()
    factor.__mul__.side_effect = lambda other: other
    with patch.dict(run.discounted.__globals__, batch_moved=lambda *_: factor):
        number = run.discounted(model, "meta")
    assert (number.device.type, number.shape) == ("cpu", ())

    plain = (torch.add, torch.sub, torch.mul, torch.div)
    ordered = (torch.gt, torch.ge, torch.lt, torch.le)
    for act in (*plain, *ordered, torch.eq, torch.ne, *others):
        for number, shape in product((0.9, [0.9]), ((2, 3), (1,), ())):
            stays = torch.tensor(number)
            with pretending():
                there = torch.ones(shape, device="cuda:0")
            said = [device_of(act, there, stays), device_of(act, stays, there)]
            expected = "cuda:0" if stays.ndim == 0 else SAME_DEVICE
            assert all(each.startswith(expected) for each in said)


@pretended
def test_one_number_may_stay__ends_in_kron(snippet, fails):
    """In `torch.kron`: it raises for two devices even if one tensor has no
    axes.
    """
    fails(test_one_number_may_stay, snippet, (torch.kron,))


@edits(
    with_an_axis=("torch.tensor(0.9)", "torch.tensor([0.9])"),
    of_many_numbers=("torch.tensor(0.9)", "torch.full((64, 1), 0.9)"),
)
def test_one_number_may_stay__but_not(snippet, old, new, fails):
    """Shapes such as `(1,)` and `(64, 1)` have axes, so these tensors must be
    on the same device.
    """
    fails(test_one_number_may_stay, snippet.edit(old, new))


LAYERS = {
    "Conv1d": (nn.Conv1d, (64, 3)),
    "Conv1d, a batch": (nn.Conv1d, (2, 64, 3)),
    "Conv2d": (nn.Conv2d, (2, 64, 3, 3)),
}


@pretended
def test_stand_ins_overlook_some(snippet, name="Conv1d", bias=True):
    run = snippet.after("overlooked")
    overlook = older(torch.__version__, "2.14")
    left = run.pretend(run.batch_left, nn.Conv1d(64, 1, 1))
    assert left.startswith("works" if overlook else SAME_DEVICE)
    assert run.faked == left
    assert run.weight.is_meta
    assert run.apartments.device.type == "cpu"
    assert run.product.shape == (64, 1)
    assert run.product.device == (run.apartments @ run.weight).device

    kind, shape = LAYERS[name]
    layer = moved(kind(64, 1, 1, bias=bias), "cuda:0")
    said = device_of(lambda: layer(torch.ones(shape, device="cpu")))
    if overlook:
        assert said in ("cpu", "cuda:0")
    else:
        assert said.startswith(SAME_DEVICE)
    assert str(layer.weight.device) == "cuda:0"
    left, right = torch.ones(2, 3), torch.ones(3, 4)
    with no_error():
        assert (left @ right.to("meta")).shape == (2, 4)
        assert (left.to("meta") @ right).shape == (2, 4)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("bias", [True, False])
def test_stand_ins_overlook_some__also_for(snippet, name, bias):
    test_stand_ins_overlook_some(snippet, name, bias)


@edits(
    of_a_batch_that_moved=(
        "pretend(batch_left, nn.Conv",
        "pretend(batch_moved, nn.Conv",
    ),
    of_a_matrix_that_moved=(
        "= apartments @ weight",
        '= apartments.to("meta") @ weight',
    ),
    a_linear_layer=("nn.Conv1d(64, 1, 1))\nw", "nn.Linear(3, 1))\nw"),
    a_sum=(
        "product = apartments @ weight",
        "product = torch.tensor(len(refusal(lambda: apartments + weight.T)))",
    ),
)
def test_stand_ins_overlook_some__but_not(snippet, old, new, fails):
    """With both tensors on one device there is nothing to overlook; `Linear`
    and a sum are checked.
    """
    fails(test_stand_ins_overlook_some, snippet.edit(old, new))


# On a device


@pytest.mark.cuda
def test_cuda_refuses_the_cpu(snippet):
    run = snippet.after("on-cuda")

    for layer in (run.layer, nn.Linear(3, 1).to("cuda")):
        assert layer.weight.is_cuda
        with pytest.raises(RuntimeError, match=r"same device|be the same"):
            layer(run.apartments)
        with no_error():
            assert layer(run.apartments.to("cuda")).is_cuda


@pytest.mark.cuda
def test_cuda_refuses_the_cpu__but_not_off_cuda(snippet, fails):
    """With the layer and the batch on the CPU, there is only one device, and
    nothing raises.
    """
    edited = snippet.edit('layer.to("cuda")\n', 'layer.to("cpu")\n')
    edited = edited.edit('layer(apartments.to("cuda"))', "layer(apartments)")
    fails(test_cuda_refuses_the_cpu, edited)


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
