"""The claims of docs/memory/optimizer_state.md."""

import copy
import gc
import random
import weakref
from collections import OrderedDict
from contextlib import contextmanager
from functools import cache
from operator import attrgetter

import numpy as np
import pytest
import torch
from torch import nn, optim

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since, true_since
from extensions.programs.snippet import after

muon = api_since("2.9", "torch.optim.Muon")

COUNT = ("imports", "held", "state-bytes")
TRAIN = (*COUNT, "digit-reader", "train")
BILLS = (*TRAIN, "kinds", "more-kinds", "make", "bill")

# What counts steps, in one number; all else is about single weights.
COUNTERS = {"step", "mu_product", "eta", "mu"}
READ_NUMBERS = (optim.Adafactor, optim.ASGD)
KINDS = [
    (optim.SGD, {}),
    (optim.SGD, {"momentum": 0.9, "nesterov": True}),
    (optim.SGD, {"momentum": 0.5, "fused": True}),
    (optim.RMSprop, {}),
    (optim.RMSprop, {"momentum": 0.9, "centered": True}),
    (optim.Adagrad, {"initial_accumulator_value": 0.1}),
    (optim.Adam, {"amsgrad": True, "fused": True}),
    (optim.Adam, {"foreach": True, "maximize": True}),
    (optim.AdamW, {}),
    (optim.AdamW, {"amsgrad": True}),
    (optim.Adafactor, {"weight_decay": 0.1}),
    (optim.Adadelta, {}),
    (optim.Adamax, {}),
    (optim.NAdam, {"decoupled_weight_decay": True}),
    (optim.RAdam, {}),
    (optim.Rprop, {}),
    (optim.ASGD, {}),
]
if hasattr(optim, "Muon"):
    KINDS.append((optim.Muon, {"momentum": 0.5}))


def tensors(value):
    """Find all tensors in a state, whatever they are kept in."""
    if torch.is_tensor(value):
        return [value]
    if isinstance(value, dict):
        return [each for one in value.values() for each in tensors(one)]
    if isinstance(value, (list, tuple)):
        return [each for one in value for each in tensors(one)]
    return []


def count(optimizer):
    """Count the bytes of all that an optimizer keeps, without the snippet."""
    return size(tensors(dict(optimizer.state)))


def size(some):
    return sum(each.numel() * each.element_size() for each in some)


class Hoarder(optim.Optimizer):
    """An optimizer of somebody else, which keeps more than tensors."""

    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.table = torch.ones(2, 3)
        self.weight = nn.Parameter(torch.ones(19))

    def step(self):
        """Keep something for each parameter, and something for all."""
        for each in self.param_groups[0]["params"]:
            state = self.state[each]
            state["steps"], state["name"], state["none"] = 1, "hoarder", None
            state["pair"] = torch.ones(5), (torch.ones(7), [torch.ones(0)])
            state["past"] = [{"half": torch.ones(11).half()}, 3, []]
            state["table"] = self.table
            whole = torch.ones(17, dtype=torch.int64)
            state["own"] = OrderedDict(whole=whole, weight=self.weight)
        self.state["all"] = torch.ones(13)


def test_held_counts_every_tensor(snippet):
    run = after(snippet, *COUNT)
    hoarder = Hoarder([nn.Parameter(torch.ones(1)) for _ in range(2)])
    assert run.held(hoarder) == 0
    for _ in range(2):
        hoarder.step()
        own = 4 * 5 + 4 * 7 + 2 * 11 + 8 * 17
        shared = 4 * 6 + 4 * 19
        assert run.held(hoarder) == 2 * own + shared + 4 * 13
        assert len(hoarder.state) == 3
    for kind, options in KINDS:
        some = matrices(kind, mixed(torch.float32))
        for each in some:
            each.grad = torch.ones_like(each)
        optimizer = kind(some, **options)
        optimizer.step()
        assert run.held(optimizer) == count(optimizer)


@edits(
    ("lists", "isinstance(one, (list, tuple))", "isinstance(one, tuple)"),
    ("tuples", "isinstance(one, (list, tuple))", "isinstance(one, list)"),
    (
        "dictionaries in lists",
        "waiting += one\n",
        "waiting += [each for each in one if not isinstance(each, dict)]\n",
    ),
    ("the last of them", "found[id(one)] =", "found[0] ="),
    ("shared ones twice", "found[id(one)] =", "found[object()] ="),
    ("numbers, not bytes", "one.nbytes", "one.numel()"),
)
def test_held_counts_every_tensor__but_not(snippet, fails, old, new):
    """Without lists, `held` misses the tensors in them; the other edits miss
    some, count some twice, or do not count bytes.
    """
    fails(test_held_counts_every_tensor, snippet.edit(old, new))


def split(optimizer):
    """Return the averages and the counters."""
    averages, counters = [], []
    for state in optimizer.state.values():
        for name, value in state.items():
            (counters if name in COUNTERS else averages).append(value)
    return averages, counters


def matrices(kind, parameters):
    """Leave to Muon what it takes."""
    return [p for p in parameters if p.ndim == 2 or kind.__name__ != "Muon"]


def start(run, kind, options, dtype=torch.float32, froze=False):
    """Return a digit reader, its optimizer and what that is given."""
    model = run.digit_reader(dtype)
    model[0].requires_grad_(not froze)
    trained = matrices(kind, model.parameters())
    return model, kind(trained, **options), trained


# Do this


def mixed(dtype):
    """Return parameters of many shapes, one of them frozen."""
    shapes = (), (1,), (7,), (3, 5), (1, 4), (4, 1), (2, 3, 3, 3), (5, 6)
    some = [nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in shapes]
    some[-1].requires_grad_(False)
    return some


def test_the_forecast_is_exact(
    snippet, dtypes=(torch.float32, torch.bfloat16), unused=0
):
    run = after(snippet, *COUNT)
    dense = {kind for kind, _ in KINDS}
    every = {kind for kind in vars(optim).values() if isinstance(kind, type)}
    assert every - dense == {optim.Optimizer, optim.LBFGS, optim.SparseAdam}

    for dtype in dtypes:
        for kind, options in KINDS:
            some = matrices(kind, mixed(dtype))
            devices = ["meta", "cpu"]
            if "fused" in options or kind in (*READ_NUMBERS, optim.Rprop):
                devices = ["cpu"]
            with no_error():
                forecasts = {
                    run.state_bytes(some, kind, device=device, **options)
                    for device in devices
                }
            optimizer = kind(some, **options)
            for _ in range(2):
                for each in some[unused:]:
                    if each.requires_grad:
                        each.grad = torch.randn_like(each)
                optimizer.step()
            assert forecasts == {count(optimizer)} == {run.held(optimizer)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_the_forecast_is_exact__also_in(snippet, dtype):
    test_the_forecast_is_exact(snippet, (dtype,))


def test_the_forecast_is_exact__also_of_the_training(snippet):
    run = after(snippet, *TRAIN, "count")

    assert run.state_bytes(run.model.parameters(), optim.AdamW) == count(
        run.optimizer
    )


def test_the_forecast_is_exact__also_group_by_group(snippet):
    run = after(snippet, *COUNT)
    first, second = mixed(torch.float32)[:3], mixed(torch.float32)[3:]
    groups = [{"params": first}, {"params": second, "amsgrad": True}]
    optimizer = optim.AdamW(groups)
    for each in first + second:
        each.grad = torch.ones_like(each) if each.requires_grad else None
    optimizer.step()

    assert count(optimizer) == run.state_bytes(
        first, optim.AdamW
    ) + run.state_bytes(second, optim.AdamW, amsgrad=True)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((3, 4), torch.complex64), ((0,), torch.float32), ((2, 0), torch.half)],
    ids=["complex numbers", "an empty vector", "an empty matrix"],
)
def test_the_forecast_is_exact__also_of(snippet, shape, dtype):
    run = after(snippet, *COUNT)
    weight = nn.Parameter(torch.ones(shape, dtype=dtype))
    for kind, options in KINDS:
        if kind.__name__ in ("Adafactor", "Muon") or "fused" in options:
            continue
        ways = [{}, {"differentiable": True}]
        for way in ways[: 1 if "foreach" in options else 2]:
            given = weight.clone() if way else weight  # or torch refuses it
            optimizer = kind([given], **options, **way)
            for _ in range(1 if way else 2):
                given.grad = torch.randn_like(weight)
                optimizer.step()
            assert count(optimizer) == run.state_bytes(
                [weight], kind, "cpu", **options, **way
            )


@pytest.mark.cuda
def test_the_forecast_is_exact__also_for_cuda(snippet):
    run = after(snippet, *COUNT)
    for options in ({}, {"fused": True}, {"foreach": True}):
        device = "cpu" if "fused" in options else "meta"
        some = [each.cuda() for each in mixed(torch.float32)[:-1]]
        some = [each.detach().requires_grad_() for each in some]
        optimizer = optim.AdamW(some, **options)
        for each in some:
            each.grad = torch.ones_like(each)
        optimizer.step()
        assert count(optimizer) == run.state_bytes(
            some, optim.AdamW, device, **options
        )


@edits(
    ("of frozen ones too", "if parameter.requires_grad:", "if True:"),
    ("in another type", "zeros_like(parameter,", "zeros(parameter.shape,"),
    ("without options", "kind([twin], **options)", "kind([twin])"),
    (
        "before a step",
        "        optimizer.step()\n        total",
        "        total",
    ),
    ("of the last", "total += held", "total = held"),
    ("numbers, not bytes", "one.nbytes", "one.numel()"),
)
def test_the_forecast_is_exact__but_not(snippet, fails, old, new):
    """With a gradient for frozen parameters too, the forecast is too high; the
    other edits change types, options or the count.
    """
    fails(test_the_forecast_is_exact, snippet.edit(old, new))


def test_the_forecast_is_exact__ends_for_an_unused_parameter(snippet, fails):
    """For a parameter that never gets a gradient: only Adagrad keeps the state
    that is forecast for it.
    """
    fails(test_the_forecast_is_exact, snippet, (torch.float32,), 1)


def test_the_forecast_changes_nothing(snippet):
    run = after(snippet, *COUNT)
    for kind, options in KINDS:
        some = matrices(kind, mixed(torch.float32))
        some.append(nn.Parameter(torch.ones(5, 3).T))
        strides = [each.stride() for each in some]
        some[0].grad = torch.ones_like(some[0])
        values = [each.detach().clone() for each in some]
        versions = [each._version for each in some]
        types = [each.dtype for each in some]
        grad, asked = some[0].grad, [each.requires_grad for each in some]
        numbers = torch.get_rng_state()
        others = random.getstate(), str(np.random.get_state())
        run.state_bytes(some, kind, device="cpu", **options)
        if "fused" not in options and kind not in READ_NUMBERS:
            run.state_bytes(some[1:], kind, **options)

        assert torch.get_rng_state().equal(numbers)
        assert (random.getstate(), str(np.random.get_state())) == others
        assert torch.is_grad_enabled()
        assert [each._version for each in some] == versions
        assert [each.stride() for each in some] == strides
        assert [each.dtype for each in some] == types
        assert [each.requires_grad for each in some] == asked
        assert not any(each._backward_hooks for each in some)
        assert some[0].grad is grad
        assert all(a.equal(b) for a, b in zip(some, values, strict=True))
        assert some[0].grad.equal(torch.ones_like(some[0]))
        assert all(each.grad is None for each in some[1:])


@edits(
    (
        "the parameters themselves",
        "torch.zeros_like(parameter, device=device)",
        "parameter.detach().to(device)",
    ),
    ("a gradient", "twin.grad =", "parameter.grad = twin.grad ="),
    ("random", "torch.zeros_like(twin)", "torch.randn_like(twin)"),
)
def test_the_forecast_changes_nothing__but_not(snippet, fails, old, new):
    """Here the step runs on your parameters themselves, or the forecast
    overwrites a gradient or draws random numbers.
    """
    if "parameter.grad" in new:
        snippet = snippet.edit("device=device)", "device='cpu')")
    fails(test_the_forecast_changes_nothing, snippet.edit(old, new))


def test_meta_takes_no_room(snippet):
    run = after(snippet, *COUNT, "before-it-exists", "highest")
    parameters = list(run.large.parameters())
    assert all(each.is_meta for each in parameters)
    numbers = sum(each.numel() for each in parameters)
    assert run.gigabytes == pytest.approx(
        {name: 4 * n * numbers / 1e9 for name, n in TIMES.items()}, rel=1e-3
    )
    cells = (*COUNT, "before-it-exists")
    program = snippet.only(*cells)
    assert run.highest(lambda: program.after(cells[-1])) < 10_000
    some, kind = parameters[:2], optim.AdamW
    assert run.highest(lambda: run.state_bytes(some, kind)) < 1000


TIMES = {"parameters": 1, "AdamW": 2, "SGD": 1}


@edits(
    ("a model with numbers", 'torch.device("meta")', 'torch.device("cpu")'),
    ("twins with numbers", 'device="meta", **', 'device="cpu", **'),
)
def test_meta_takes_no_room__but_not(snippet, fails, old, new):
    """With the CPU in place of `meta`, the weights, or the copies in
    `state_bytes`, do take memory.
    """
    smaller = snippet.edit("8192, 8192", "64, 64")
    fails(test_meta_takes_no_room, smaller.edit(old, new))


FUSED = (optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad)


def test_some_need_the_numbers(snippet):
    run = after(snippet, *TRAIN, "count", "needs-numbers")
    assert "cannot be called on meta tensors" in getattr(run, "refused", "")
    trained = optim.Adafactor(run.model.parameters())
    run.train(run.model, trained)
    assert run.adafactor == count(trained)
    some = [nn.Parameter(torch.ones(3, 4))]
    single = [nn.Parameter(torch.ones(()))]
    pairs = [(kind, some) for kind in READ_NUMBERS] + [(optim.Rprop, single)]
    for kind, some in pairs:
        message = "cannot be called on meta tensors"
        with pytest.raises(RuntimeError, match=message):
            run.state_bytes(some, kind)
        with no_error():
            run.state_bytes(some, kind, device="cpu")
    for kind in FUSED:
        with pytest.raises(RuntimeError, match="fused=True"):
            run.state_bytes(some, kind, fused=True)
        with no_error():
            run.state_bytes(some, kind, device="cpu", fused=True)


@edits(
    ("on the CPU", 'device="meta", **', 'device="cpu", **'),
    ("never fused", "kind([twin], **options)", "kind([twin])"),
)
def test_some_need_the_numbers__but_not(snippet, fails, old, new):
    """On the CPU, nothing is raised; and without the options, `fused=True`
    never reaches the optimizer.
    """
    fails(test_some_need_the_numbers, snippet.edit(old, new))


# How it works


def after_steps(kind, gradients, **options):
    """Return what an optimizer keeps of a weight after these gradients."""
    weight = nn.Parameter(torch.zeros_like(gradients[0]))
    optimizer = kind([weight], **options)
    for each in gradients:
        weight.grad = each
        optimizer.step()
    return optimizer.state[weight]


def faded(numbers, rate):
    """Add up numbers, each times the rate for each number that follows."""
    ages = range(len(numbers) - 1, -1, -1)
    return sum(n * rate**age for n, age in zip(numbers, ages, strict=True))


def test_the_state_is_past_gradients(
    of_sgd=None, of_adam=None, shape=(3, 4), steps=5
):
    """No cell shows it: the optimizers themselves add them up."""
    of_sgd, of_adam = of_sgd or {}, of_adam or {}
    torch.manual_seed(0)
    gradients = [*torch.randn(steps, *shape, dtype=torch.float64)]
    squares = [each.square() for each in gradients]
    for rate in (0.5, 0.9):
        kept = after_steps(optim.SGD, gradients, momentum=rate, **of_sgd)
        [momentum] = kept.values()
        assert momentum.allclose(faded(gradients, rate))
    for kind in (optim.Adam, optim.AdamW):
        for slow, slower in ((0.9, 0.999), (0.5, 0.8)):
            betas = {"betas": (slow, slower)}
            kept = after_steps(kind, gradients, **betas, **of_adam)
            counter, mean, of_squares = kept.values()
            assert counter == steps
            assert mean.allclose(faded(gradients, slow) * (1 - slow))
            assert of_squares.allclose(faded(squares, slower) * (1 - slower))
            assert mean.shape == of_squares.shape == shape


@pytest.mark.parametrize(
    "options", [{"foreach": True}, {"fused": True}, {"lr": 0.5}], ids=str
)
def test_the_state_is_past_gradients__also_with(options):
    test_the_state_is_past_gradients(options, options)


@pytest.mark.parametrize(
    ("shape", "steps"),
    [((), 1), ((2, 3, 4), 9)],
    ids=["one number in one step", "three dimensions in nine"],
)
def test_the_state_is_past_gradients__also_for(shape, steps):
    test_the_state_is_past_gradients({}, {}, shape, steps)


@pytest.mark.parametrize(
    ("of_sgd", "of_adam"),
    [
        ({"dampening": 0.5}, {}),
        ({}, {"maximize": True}),
        ({}, {"weight_decay": 0.1}),
    ],
    ids=["dampening", "maximize", "weight decay"],
)
def test_the_state_is_past_gradients__ends_with(fails, of_sgd, of_adam):
    """With `dampening`, `maximize` or `weight_decay`: they shrink later
    gradients, flip their signs, or add to them.
    """
    fails(test_the_state_is_past_gradients, of_sgd, of_adam)


@cache
def sizes(snippet, name, dtype=torch.float32, **more):
    """Train a step; return averages, counters and others for each weight."""
    run = after(snippet, *BILLS)
    kind, options = run.kinds[name]
    options = {**options, **more}
    model, optimizer, trained = start(run, kind, options, dtype)
    before = count(optimizer)
    run.train(model, optimizer)
    averages, counters = split(optimizer)
    weights = size(trained)
    if not more:
        bill = run.bill(kind, options, dtype)
        numbers = sum(each.numel() for each in trained)
        assert bill["weights"] == weights / numbers
        assert bill["gradients"] == size(p.grad for p in trained) / numbers
        assert bill["state"] == count(optimizer) / numbers
        assert bill["state at first"] == before / numbers
        kept = optimizer.state.get(trained[0], {})
        assert bill["keeps"] == list(kept)
    return {
        "averages": size(averages) / weights,
        "counters": size(counters) / len(trained),
        "before": before / weights,
        "gradients": size(p.grad for p in trained) / weights,
    }


def times(snippet, *names, **options):
    return [sizes(snippet, name, **options)["averages"] for name in names]


def test_adamw_needs_sixteen_bytes(snippet):
    bytes_each = {"AdamW": 16, "SGD, momentum": 12, "SGD": 8}
    for name, number in bytes_each.items():
        found = sizes(snippet, name)
        assert 4 * (1 + found["gradients"] + found["averages"]) == number
    bills = after(snippet, *BILLS, "multiples").bills
    assert set(bills) == set(after(snippet, *BILLS).kinds)
    for name, number in bytes_each.items():
        parts = ("weights", "gradients", "state")
        together = sum(bills[name][part] for part in parts)
        assert together == pytest.approx(number, abs=1e-3)


def test_adamw_needs_sixteen_bytes__also_for_another_model(snippet):
    edited = snippet.edit("nn.Linear(784, 128)", "nn.Linear(784, 33)")
    edited = edited.edit("nn.Linear(128, 10)", "nn.Linear(33, 10, bias=False)")
    test_adamw_needs_sixteen_bytes(edited)


@edits(
    ('"AdamW": (optim.AdamW, {})', '"AdamW": (optim.Adagrad, {})'),
    ('(optim.SGD, {"momentum": 0.9})', "(optim.SGD, {})"),
    ('"SGD": (optim.SGD, {})', '"SGD": (optim.RMSprop, {})'),
    ("(dtype=torch.float32):", "(dtype=torch.float64):"),
)
def test_adamw_needs_sixteen_bytes__but_not(snippet, fails, old, new):
    """In `float64`, each part takes twice as many bytes; the other edits put
    in an optimizer with another state.
    """
    if "float64" in new:
        snippet = snippet.edit(".to(dtype)\n", ".double()\n")
    fails(test_adamw_needs_sixteen_bytes, snippet.edit(old, new))


def test_sgd_keeps_one_with_momentum(snippet, **options):
    assert times(snippet, "SGD", "SGD, momentum", **options) == [0, 1]


WAYS = [{"foreach": True}, {"weight_decay": 0.1}, {"dtype": torch.bfloat16}]


def named(options):
    """Return in words what a single option changes."""
    [(name, value)] = options.items()
    return str(value) if name == "dtype" else name.replace("_", " ")


@pytest.mark.parametrize(
    "options", [*WAYS, {"fused": True}, {"maximize": True}], ids=named
)
def test_sgd_keeps_one_with_momentum__also_with(snippet, options):
    test_sgd_keeps_one_with_momentum(snippet, **options)


@edits(
    ('"SGD": (optim.SGD, {})', '"SGD": (optim.SGD, {"momentum": 0.1})'),
    ('(optim.SGD, {"momentum": 0.9})', '(optim.SGD, {"momentum": 0})'),
)
def test_sgd_keeps_one_with_momentum__but_not(snippet, fails, old, new):
    """A momentum of 0.1 already keeps as many bytes as the model has; a
    momentum of 0 keeps none.
    """
    fails(test_sgd_keeps_one_with_momentum, snippet.edit(old, new))


def test_adam_keeps_two_or_three(snippet, **options):
    assert times(snippet, "Adam", "AdamW", **options) == [2, 2]
    names = "Adam, amsgrad", "AdamW, amsgrad"
    assert times(snippet, *names, **options) == [3, 3]


@pytest.mark.parametrize(
    "options", [*WAYS, {"fused": True}, {"betas": (0.0, 0.9)}], ids=named
)
def test_adam_keeps_two_or_three__also_with(snippet, options):
    test_adam_keeps_two_or_three(snippet, **options)


@edits(
    ('"Adam": (optim.Adam, {})', '"Adam": (optim.Adam, {"amsgrad": True})'),
    ('"AdamW": (optim.AdamW, {})', '"AdamW": (optim.Adagrad, {})'),
    ('(optim.Adam, {"amsgrad": True})', "(optim.Adam, {})"),
    ('(optim.AdamW, {"amsgrad": True})', "(optim.AdamW, {})"),
)
def test_adam_keeps_two_or_three__but_not(snippet, fails, old, new):
    """With `amsgrad` it is three, without it two; and Adagrad in place of
    AdamW keeps one.
    """
    fails(test_adam_keeps_two_or_three, snippet.edit(old, new))


def test_rmsprop_keeps_up_to_three(snippet, **options):
    names = "RMSprop", "RMSprop, momentum", "RMSprop, centered"
    names += ("RMSprop, both",)
    assert times(snippet, *names, **options) == [1, 2, 2, 3]


@pytest.mark.parametrize("options", [*WAYS, {"alpha": 0.5}], ids=named)
def test_rmsprop_keeps_up_to_three__also_with(snippet, options):
    test_rmsprop_keeps_up_to_three(snippet, **options)


@edits(
    ('"RMSprop": (optim.RMSprop, {})', '"RMSprop": (optim.Adam, {})'),
    ('(optim.RMSprop, {"momentum": 0.9})', "(optim.RMSprop, {})"),
    ('(optim.RMSprop, {"centered": True})', "(optim.RMSprop, {})"),
    ('{"momentum": 0.9, "centered": True}', '{"momentum": 0.9}'),
)
def test_rmsprop_keeps_up_to_three__but_not(snippet, fails, old, new):
    """Adam in place of RMSprop keeps two; and without momentum or `centered`,
    it is one less.
    """
    fails(test_rmsprop_keeps_up_to_three, snippet.edit(old, new))


ONE = ("Adagrad", "ASGD", "Muon, matrices")


@muon
def test_adagrad_keeps_one(snippet, **options):
    assert times(snippet, *ONE, **options) == [1, 1, 1]


@pytest.mark.parametrize("options", WAYS[1:], ids=named)
def test_adagrad_keeps_one__also_with(snippet, options):
    test_adagrad_keeps_one(snippet, **options)


@edits(
    ("(optim.Adagrad, {})", "(optim.Adam, {})"),
    ("(optim.ASGD, {})", "(optim.SGD, {})"),
    (
        'kinds["Muon, matrices"] = (optim.Muon, {})',
        'kinds["Muon, matrices"] = (optim.Adam, {})',
    ),
)
def test_adagrad_keeps_one__but_not(snippet, fails, old, new):
    """Adam in place of Adagrad or Muon keeps two, and plain SGD in place of
    ASGD none.
    """
    fails(test_adagrad_keeps_one, snippet.edit(old, new))


TWO = ("Adadelta", "Adamax", "NAdam", "RAdam", "Rprop")


def test_the_others_keep_two(snippet, **options):
    assert times(snippet, *TWO, **options) == [2] * 5


@pytest.mark.parametrize("options", [WAYS[0], WAYS[2]], ids=named)
def test_the_others_keep_two__also_with(snippet, options):
    test_the_others_keep_two(snippet, **options)


@edits(
    ("(optim.Adadelta, {})", "(optim.ASGD, {})"),
    ("(optim.Adamax, {})", "(optim.ASGD, {})"),
    ("(optim.NAdam, {})", "(optim.ASGD, {})"),
    ("(optim.RAdam, {})", "(optim.ASGD, {})"),
    ("(optim.Rprop, {})", "(optim.ASGD, {})"),
)
def test_the_others_keep_two__but_not(snippet, fails, old, new):
    """ASGD, in place of one of these, keeps one time the model."""
    fails(test_the_others_keep_two, snippet.edit(old, new))


def test_adafactor_keeps_rows_and_columns(snippet, kind="Adafactor"):
    run = after(snippet, *COUNT)
    for shape in ((128, 784), (3, 5), (1, 7), (7, 1), (1, 1)):
        weight = nn.Parameter(torch.ones(shape))
        found = run.state_bytes([weight], getattr(optim, kind), device="cpu")
        assert found == 4 * (sum(shape) + 1)  # and a counter


def test_adafactor_keeps_rows_and_columns__but_not_of_a_vector(snippet, fails):
    """Flattened to a vector, it has a number for each of its numbers."""
    edited = snippet.edit(
        "twin = torch.zeros_like(parameter, device=device)",
        "twin = torch.zeros_like(parameter, device=device).flatten()",
    )
    fails(test_adafactor_keeps_rows_and_columns, edited)


def test_adafactor_keeps_rows_and_columns__also_in_the_table(snippet):
    rows = 128 + 784 + 128 + 10
    share = (rows + 128 + 10) / (784 * 128 + 128 + 1280 + 10)
    assert times(snippet, "Adafactor") == [pytest.approx(share)]


def test_adafactor_keeps_rows_and_columns__ends_for_adam(snippet, fails):
    """For Adam: it keeps two numbers for each number of the matrix."""
    fails(test_adafactor_keeps_rows_and_columns, snippet, "Adam")


@contextmanager
def default(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


NUMBERS = {"SGD": 0, "SGD, momentum": 0, "Muon, matrices": 0}
NUMBERS |= {"NAdam": 2, "ASGD": 3}


def counters(snippet, dtype, fused=False):
    """Return the bytes of counters for each tensor, under a default type."""
    run, found = after(snippet, *BILLS), {}
    for name, (kind, options) in run.kinds.items():
        if fused and kind not in FUSED:
            continue
        with default(dtype):
            weight = nn.Parameter(torch.ones(3, 4, dtype=torch.float32))
            weight.grad = torch.ones_like(weight)
            optimizer = kind(
                [weight], **options, **({"fused": True} if fused else {})
            )
            optimizer.step()
        found[name] = size(split(optimizer)[1])
    return found


@muon
def test_counters_take_four_bytes(snippet, dtype=torch.float32):
    for name, found in counters(snippet, dtype).items():
        assert found == 4 * NUMBERS.get(name, 1)
    for name in ("AdamW", "NAdam", "ASGD", "SGD, momentum", "Muon, matrices"):
        assert sizes(snippet, name)["counters"] == 4 * NUMBERS.get(name, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_counters_take_four_bytes__also_under(snippet, dtype):
    test_counters_take_four_bytes(snippet, dtype)


@edits(
    ("(optim.NAdam, {})", "(optim.RAdam, {})"),
    ("(optim.ASGD, {})", "(optim.Adam, {})"),
    ("(optim.Adadelta, {})", "(optim.SGD, {})"),
    ('"SGD": (optim.SGD, {})', '"SGD": (optim.Adam, {})'),
)
def test_counters_take_four_bytes__but_not(snippet, fails, old, new):
    """RAdam keeps one such number where NAdam keeps two, Adam one where ASGD
    keeps three, and SGD none.
    """
    fails(test_counters_take_four_bytes, snippet.edit(old, new))


def test_counters_can_take_eight(snippet, dtype=torch.float64):
    """No cell decides it: the optimizers themselves make the counters."""
    for name, found in counters(snippet, dtype).items():
        assert found == 8 * NUMBERS.get(name, 1)
    for name, found in counters(snippet, dtype, fused=True).items():
        assert found == 4 * NUMBERS.get(name, 1)


def test_counters_can_take_eight__ends_under_float32(snippet, fails):
    """With `float32` as the default type: a counter takes four bytes."""
    fails(test_counters_can_take_eight, snippet, torch.float32)


def test_the_state_appears_at_the_first_step(snippet):
    for name in after(snippet, *BILLS).kinds:
        found = sizes(snippet, name)
        assert (found["before"] > 0) is (name == "Adagrad")
        assert (found["averages"] > 0) is (name != "SGD")
        if name == "Adagrad":
            assert found["before"] >= 1


@edits(
    ("(optim.Adagrad, {})", "(optim.RMSprop, {})"),
    ("(optim.Rprop, {})", "(optim.Adagrad, {})"),
    ('(optim.SGD, {"momentum": 0.9})', "(optim.SGD, {})"),
)
def test_the_state_appears_at_the_first_step__but_not(
    snippet, fails, old, new
):
    """RMSprop in place of Adagrad starts with no state, Adagrad in place of
    Rprop with one; plain SGD never gets any.
    """
    fails(test_the_state_appears_at_the_first_step, snippet.edit(old, new))


def test_the_second_step_adds_nothing(snippet):
    run = after(snippet, *TRAIN, "first-steps")
    zero, one, two, three = run.sizes
    assert zero == 0
    assert one == two == three == count(run.optimizer) > 0
    for kind, options in KINDS:
        model, optimizer, _ = start(run, kind, options)
        run.train(model, optimizer)
        first = count(optimizer)
        for _ in range(2):
            run.train(model, optimizer)
            assert count(optimizer) == first


def test_the_second_step_adds_nothing__but_not_for_new_ones(snippet, fails):
    """Here the first layer is frozen in the first step only, so its state
    comes with the second.
    """
    edited = snippet.edit(
        "    train(model, optimizer)\n    sizes",
        "    model[0].requires_grad_(len(sizes) > 1)\n"
        "    train(model, optimizer)\n    sizes",
    )
    fails(test_the_second_step_adds_nothing, edited)


def test_the_state_has_the_type_of_its_parameter(
    snippet, dtype=torch.bfloat16
):
    run = after(snippet, *BILLS)
    bill = run.bill(*run.kinds["SGD, momentum"], dtype)
    assert bill["state"] == dtype.itemsize
    for kind, options in KINDS:
        model, optimizer, _ = start(run, kind, options, dtype)
        run.train(model, optimizer)
        assert {each.dtype for each in split(optimizer)[0]} <= {dtype}

        model, optimizer, _ = start(run, kind, options)
        made = torch.float32 if kind is optim.Adagrad else dtype
        model.to(dtype)
        run.train(model, optimizer)
        assert {each.dtype for each in split(optimizer)[0]} <= {made}


def test_the_state_has_the_type_of_its_parameter__also_float64(snippet):
    test_the_state_has_the_type_of_its_parameter(snippet, torch.float64)


def test_the_state_has_the_type_of_its_parameter__but_not_if_cast(
    snippet, fails
):
    """Cast to `float32` after each step, the state takes 4 bytes per
    parameter, not 2.
    """
    edited = snippet.edit(
        "    optimizer.step()\n    return loss",
        "    optimizer.step()\n    for state in optimizer.state.values():\n"
        "        state |= {name: each.float() for name, each in state.items()}"
        "\n    return loss",
    )
    fails(test_the_state_has_the_type_of_its_parameter, edited)


def together(bill):
    return sum(bill[part] for part in ("weights", "gradients", "state"))


def test_bfloat16_weights_halve_all(snippet):
    run = after(snippet, *BILLS, "sixteen-bits")
    assert run.ways["bfloat16"].get("dtype") is torch.bfloat16
    small = run.small
    assert together(small["AdamW in bfloat16"]) == pytest.approx(8, abs=1e-3)
    found = sizes(snippet, "AdamW", torch.bfloat16)
    assert 2 * (1 + found["gradients"] + found["averages"]) == 8


@edits(
    ('"bfloat16": {"dtype": torch.bfloat16}', '"bfloat16": {}'),
    (
        '"bfloat16": {"dtype": torch.bfloat16}',
        '"bfloat16": {"autocast": True}',
    ),
    ('"AdamW": (optim.AdamW, {})', '"AdamW": (optim.Adagrad, {})'),
)
def test_bfloat16_weights_halve_all__but_not(snippet, fails, old, new):
    """Without `dtype`, even under autocast, the weights stay in `float32`; and
    with Adagrad, it is 6 bytes.
    """
    fails(test_bfloat16_weights_halve_all, snippet.edit(old, new))


def autocasts(run):
    """Return what `bill` hands on to `train`."""
    asked, train = [], run.train
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            run.bill.__globals__,
            "train",
            lambda *given: asked.append(given[2]) or train(*given),
        )
        for autocast in (False, True):
            run.bill(optim.SGD, {}, autocast=autocast)
    return asked


def test_autocast_changes_none(snippet):
    run = after(snippet, *BILLS, "sixteen-bits")
    for name in ("AdamW", "SGD, momentum", "Adafactor"):
        plain = run.small[f"{name} in float32"]
        assert run.small[f"{name} in float32, autocast"] == plain
    assert autocasts(run) == [False, True]
    for kind, options in KINDS:
        found, seen = [], []
        for autocast in (False, True):
            model, optimizer, trained = start(run, kind, options)
            model[2].register_forward_hook(
                lambda *call, seen=seen: seen.append(call[2].dtype)
            )
            run.train(model, optimizer, autocast)
            kept = tensors(dict(optimizer.state))
            some = [*trained, *(each.grad for each in trained), *kept]
            found.append([(each.shape, each.dtype) for each in some])
        assert found[0] == found[1]
        assert seen == [torch.float32, torch.bfloat16]


@edits(
    ("other weights", '{"autocast": True}', '{"dtype": torch.bfloat16}'),
    (
        "a model that is cast",
        "    with torch.autocast(",
        "    if autocast:\n        model.to(torch.bfloat16)\n"
        "    with torch.autocast(",
    ),
)
def test_autocast_changes_none__but_not(snippet, fails, old, new):
    """Here the model itself is cast to `bfloat16`, which autocast does
    not do.
    """
    fails(test_autocast_changes_none, snippet.edit(old, new))


def test_no_gradient_no_state(snippet):
    run = after(snippet, *TRAIN)
    for kind, options in KINDS:
        model, _, trained = start(run, kind, options, froze=True)
        unused = nn.Parameter(torch.ones(2, 3))
        optimizer = kind([*trained, unused], **options)
        run.train(model, optimizer)
        frozen = {*model[0].parameters(), unused} & {*trained, unused}
        if kind is optim.Adagrad:
            assert frozen <= set(optimizer.state)
        else:
            assert not frozen & set(optimizer.state)
        assert (model[2].weight in optimizer.state) is (count(optimizer) > 0)


def test_no_gradient_no_state__but_with_zeros(snippet, fails):
    """With zeros in place of a missing gradient, the others keep a state as
    well.
    """
    edited = snippet.edit(
        "    loss.backward()\n    optimizer.step()",
        "    loss.backward()\n    for p in model.parameters():\n"
        "        p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n"
        "    optimizer.step()",
    )
    fails(test_no_gradient_no_state, edited)


def test_adagrad_keeps_a_state_for_all(snippet):
    run = after(snippet, *TRAIN, "frozen-first")
    numbers = [each.numel() for each in run.model.parameters()]
    other, adagrad = run.frozen.values()
    assert adagrad["all"] == 4 * (sum(numbers) + 4)
    assert adagrad["trained"] == 4 * (sum(numbers[2:]) + 2)
    assert other["all"] == other["trained"]


@edits(("of-adam", "optim.Adagrad)", "optim.Adam)"))
def test_adagrad_keeps_a_state_for_all__but_not_of_adam(
    snippet, fails, old, new
):
    """Adam keeps nothing for the frozen layer: 10,328 bytes, not 407,096."""
    fails(test_adagrad_keeps_a_state_for_all, snippet.edit(old, new))


# What goes wrong


def test_freezing_later_frees_nothing(snippet):
    run = after(snippet, *TRAIN, "frozen-later")
    assert run.before == run.held(run.optimizer) == count(run.optimizer)
    assert not run.model[0].weight.requires_grad
    steps_of = [each["step"] for each in run.optimizer.state.values()]
    assert steps_of == [1, 1, 2, 2]
    assert run.optimizer.state[run.model[2].weight]["step"] == 2
    for kind, options in KINDS:
        model, optimizer, _ = start(run, kind, options)
        run.train(model, optimizer)
        before = count(optimizer)
        model[0].requires_grad_(False)
        for _ in range(2):
            run.train(model, optimizer)
        assert count(optimizer) == before


@edits(
    (
        "if forgotten",
        "model[0].requires_grad_(False)\ntrain(model, optimizer)\n\nprint(",
        "optimizer.state.pop(model[0].weight)\n"
        "model[0].requires_grad_(False)\ntrain(model, optimizer)\n\nprint(",
    ),
)
def test_freezing_later_frees_nothing__but_not(snippet, fails, old, new):
    """Taken out of `optimizer.state` by hand, the state of the weight is
    freed: 11,356 bytes are left.
    """
    fails(test_freezing_later_frees_nothing, snippet.edit(old, new))


def values(optimizer, parameters):
    return [tensors(optimizer.state.get(each, {})) for each in parameters]


def test_a_frozen_state_can_be_forgotten(snippet):
    frozen = snippet.only(*TRAIN, "frozen-later").after("frozen-later")
    names = (*TRAIN, "frozen-later", "forget-the-frozen")
    run = snippet.only(*names).after(names[-1])
    first, last = run.model[0], run.model[2]
    before = values(frozen.optimizer, frozen.model[2].parameters())
    behind = values(run.optimizer, last.parameters())
    for some, others in zip(before, behind, strict=True):
        assert len(some) == len(others) == 3
        assert all(a.equal(b) for a, b in zip(some, others, strict=True))
    for _ in range(3):
        fixed = [each.clone() for each in first.parameters()]
        moving = [each.clone() for each in last.parameters()]
        assert set(run.optimizer.state) == set(last.parameters())
        run.train(run.model, run.optimizer)
        pairs = zip(first.parameters(), fixed, strict=True)
        assert all(each.equal(was) for each, was in pairs)
        pairs = zip(last.parameters(), moving, strict=True)
        assert not any(each.equal(was) for each, was in pairs)


def test_a_frozen_state_can_be_forgotten__also_its_memory(snippet):
    edited = snippet.edit(
        "before = held(optimizer)\nmodel",
        "before = held(optimizer)\n"
        "averages = [weakref.ref(each) for some in model[0].parameters()"
        " for each in optimizer.state[some].values()]\nmodel",
    )
    names = (*TRAIN, "frozen-later", "forget-the-frozen")
    run = edited.only(*names).after(names[-1])

    assert len(run.averages) == 2 * 3
    assert all(each() is None for each in run.averages)


ZEROS = ("optimizer.zero_grad()\n    in", "optimizer.zero_grad(False)\n    in")


def test_a_frozen_state_can_be_forgotten__also_with_zeros(snippet):
    test_a_frozen_state_can_be_forgotten(snippet.edit(*ZEROS))


@edits(
    ("    optimizer.state.pop(parameter, None)\n", ""),
    ("pop(parameter, None)", "clear()"),
    ("for parameter in model[0].p", "for parameter in model[2].p"),
    ("with zeros left", "    parameter.grad = None\n", ""),
)
def test_a_frozen_state_can_be_forgotten__but_not(snippet, fails, old, new):
    """Without `pop`, the state stays; the other edits drop all of it or the
    wrong layer's, or leave zeros as gradients.
    """
    fails(
        test_a_frozen_state_can_be_forgotten,
        snippet.edit(*ZEROS).edit(old, new),
    )


REFUSE = {optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax}
REFUSE |= {optim.Adafactor}
if hasattr(optim, "Muon"):
    REFUSE.add(optim.Muon)
GO_ON = [(optim.SGD, {"momentum": 0.9}), (optim.RMSprop, {})]
GO_ON += [(optim.Adagrad, {})]
SAID = r"expected dtype float for `end` but got dtype c10::BFloat16"


def steps(run):
    return run.optimizer.state[run.model[0].weight]["step"]


@muon
def test_a_converted_model_keeps_its_state(snippet):
    run = after(snippet, *TRAIN, "converted")
    assert steps(run) == 2  # the second one ends in the error
    assert run.as_before == count(run.optimizer)
    assert {each.dtype for each in run.model.parameters()} == {torch.bfloat16}
    with pytest.raises(RuntimeError, match=SAID):
        run.train(run.model, run.optimizer)
    kinds = [(kind, {}) for kind in REFUSE] + GO_ON
    for kind, options in kinds:
        model, optimizer, _ = start(run, kind, options)
        run.train(model, optimizer)
        before = count(optimizer)
        model.to(torch.bfloat16)
        if kind in REFUSE:
            with pytest.raises(RuntimeError, match=SAID):
                run.train(model, optimizer)
        else:
            with no_error():
                run.train(model, optimizer)
        assert {each.dtype for each in split(optimizer)[0]} == {torch.float32}
        assert count(optimizer) == before


@edits(
    (
        "converted first",
        "train(model, optimizer)\nmodel.to(torch.bfloat16)\n",
        "model.to(torch.bfloat16)\ntrain(model, optimizer)\n",
    ),
    (
        "loaded",
        "model.to(torch.bfloat16)\nas",
        "model.to(torch.bfloat16)\n"
        "optimizer.load_state_dict(optimizer.state_dict())\nas",
    ),
)
def test_a_converted_model_keeps_its_state__but_not(snippet, fails, old, new):
    """Converted before its first step, or with its state loaded anew, AdamW
    goes on without an error.
    """
    fails(test_a_converted_model_keeps_its_state, snippet.edit(old, new))


def test_loading_converts_the_state(snippet):
    names = (*TRAIN, "converted", "convert-the-state")
    with no_error():
        run = snippet.only(*names).after(names[-1])
    assert steps(run) == 3
    old = snippet.only(*names[:-1]).after(names[-2])
    pairs = zip(old.model.parameters(), run.model.parameters(), strict=True)
    for before, behind in pairs:
        kept = old.optimizer.state[before]["exp_avg"]
        expected = 0.9 * kept + 0.1 * behind.grad.float()
        found = run.optimizer.state[behind]["exp_avg"].float()
        assert found.allclose(expected, rtol=0.05, atol=1e-4)
        assert kept.abs().max() > 1e-3
    counting = 4 * 4
    for state in run.optimizer.state.values():
        assert state["step"].dtype == torch.float32
    assert run.as_before - counting == 2 * (run.converted - counting)
    assert run.converted == count(run.optimizer)
    for dtype in (torch.bfloat16, torch.float64):
        for kind, options in KINDS:
            model, optimizer, _ = start(run, kind, options)
            run.train(model, optimizer)
            model.to(dtype)
            optimizer.load_state_dict(optimizer.state_dict())
            assert {each.dtype for each in split(optimizer)[0]} <= {dtype}
            states = optimizer.state.values()
            steps_of = [each["step"] for each in states if "step" in each]
            if kind is not optim.SGD and kind.__name__ != "Muon":
                assert {each.dtype for each in steps_of} == {torch.float32}


@edits(
    (
        "the counter too",
        "optimizer.load_state_dict(optimizer.state_dict())\n",
        "for state in optimizer.state.values():\n    state |= {name: "
        "each.to(torch.bfloat16) for name, each in state.items()}\n",
    ),
    ("optimizer.load_state_dict(optimizer.state_dict())\n", "pass\n"),
    (
        "before it is converted",
        "model.to(torch.bfloat16)\nas",
        "model.to(torch.float32)\nas",
    ),
)
def test_loading_converts_the_state__but_not(snippet, fails, old, new):
    """Cast by hand, `step` is cast too; without loading, the error stays; in
    `float32`, there is nothing to cast.
    """
    fails(test_loading_converts_the_state, snippet.edit(old, new))


OTHER_COUNTERS = {optim.NAdam: {"mu_product"}, optim.ASGD: {"eta", "mu"}}


def test_loading_rounds_other_counters(
    snippet, kinds=(optim.NAdam, optim.ASGD), dtype=torch.bfloat16
):
    """No program keeps them: what is loaded is decided by PyTorch."""
    run = after(snippet, *TRAIN)
    for kind in kinds:
        model, optimizer, (weight, *_) = start(run, kind, {})
        run.train(model, optimizer)
        before = dict(optimizer.state[weight])
        model.to(dtype)
        optimizer.load_state_dict(optimizer.state_dict())
        found = optimizer.state[weight]
        rounded = {
            name
            for name in found
            if name in COUNTERS and found[name].dtype == dtype
        }
        assert rounded == OTHER_COUNTERS.get(kind, {"step"})
        assert all(found[name] == before[name].to(dtype) for name in rounded)


def test_loading_rounds_other_counters__ends_for_adam(snippet, fails):
    """For Adam: it has only the counter `step`, which is not rounded."""
    fails(test_loading_rounds_other_counters, snippet, (optim.Adam,))


SHAPES = [(3, 4), (5, 3, 4), (2, 64, 7, 3), (2, 2, 2, 3, 5), (1, 3, 1, 1)]


def test_adafactor_looks_at_the_last_two(snippet):
    run = after(snippet, *COUNT, "convolutions")
    assert run.shares == {
        shape: pytest.approx(1 / shape[-2] + 1 / shape[-1], abs=0.006)
        for shape in ((128, 784), *((64, 64, n, n) for n in (7, 3, 1)))
    }
    for shape in SHAPES:
        weight = nn.Parameter(torch.ones(shape))
        state = run.state_bytes([weight], optim.Adafactor, device="cpu") - 4
        high, wide = shape[-2:]
        assert state / weight.nbytes == pytest.approx(1 / high + 1 / wide)
    two, three, one = run.shares[64, 64, 7, 7], 2 / 3, 2
    assert two < run.shares[64, 64, 3, 3] == pytest.approx(three, abs=0.006)
    adam = run.state_bytes(
        [torch.nn.Parameter(torch.ones(64, 64, 1, 1))], optim.Adam
    )
    assert run.shares[64, 64, 1, 1] == one == round(adam / 4 / 64**2, 2)


@edits(
    ('optim.Adafactor, device="cpu")\n    shares', "optim.Adam)\n    shares"),
    ("weight = torch.zeros(shape,", "weight = torch.zeros(shape[0], 9,"),
)
def test_adafactor_looks_at_the_last_two__but_not(snippet, fails, old, new):
    """Adam keeps two times the weight for every shape; and a weight with 9
    columns has another share.
    """
    fails(test_adafactor_looks_at_the_last_two, snippet.edit(old, new))


@muon
def test_muon_takes_matrices(snippet):
    run = after(snippet, *TRAIN, "biases")
    said = getattr(run, "two_dimensions", "nothing was refused")
    assert said.startswith("Muon only supports 2D parameters")
    for shape in ((), (3,), (2, 3, 4), (2, 3, 3, 3)):
        with pytest.raises(ValueError, match="Muon only supports 2D"):
            optim.Muon([nn.Parameter(torch.ones(shape))])
    with no_error():
        optim.Muon([nn.Parameter(torch.ones(2, 3))])


def test_muon_takes_matrices__but_not_without_biases(snippet, fails):
    """Without biases, all parameters of this model are matrices, so Muon takes
    them.
    """
    edited = snippet.edit("nn.Linear(784, 128)", "nn.Linear(784, 128, False)")
    edited = edited.edit("nn.Linear(128, 10)", "nn.Linear(128, 10, False)")
    fails(test_muon_takes_matrices, edited)


DELETED = (*TRAIN, "still-held", "deleted")


def test_zero_grad_keeps_the_state(snippet):
    run = snippet.only(*TRAIN, "still-held").after("still-held")
    assert run.after_zero_grad == count(run.optimizer) > 0
    assert all(each.grad is None for each in run.model.parameters())
    for kind, options in KINDS:
        model, optimizer, _ = start(run, kind, options)
        run.train(model, optimizer)
        before = copy.deepcopy(tensors(dict(optimizer.state)))
        for to_none in (True, False):
            optimizer.zero_grad(to_none)
            model.zero_grad(to_none)
            behind = tensors(dict(optimizer.state))
            assert all(a.equal(b) for a, b in zip(before, behind, strict=True))


@edits(
    (
        "but clear",
        "optimizer.zero_grad()\nafter_zero_grad = held(optimizer)\nweight",
        "optimizer.state.clear()\nafter_zero_grad = held(optimizer)\n"
        "train(model, optimizer)\nweight",
    ),
)
def test_zero_grad_keeps_the_state__but_not(snippet, fails, old, new):
    """In its place, `optimizer.state.clear()` leaves 0 bytes."""
    fails(test_zero_grad_keeps_the_state, snippet.edit(old, new))


def test_an_optimizer_holds_the_parameters(snippet):
    run = after(snippet, *DELETED)
    assert run.alive["model deleted"] == (True, True)
    assert not hasattr(run, "model")
    for kind, options in KINDS:
        model, optimizer, trained = start(run, kind, options)
        refs = [weakref.ref(each) for each in trained]
        del model, trained
        gc.collect(0)
        assert all(ref() is not None for ref in refs)
        del optimizer
        gc.collect(0)
        assert all(ref() is None for ref in refs)


def test_an_optimizer_holds_the_parameters__also_the_last(snippet):
    edited = snippet.edit("ref(model[0].weight)", "ref(model[2].bias)")
    test_an_optimizer_holds_the_parameters(edited)


@edits(
    (
        "if emptied",
        "del model\n",
        "del model\noptimizer.param_groups.clear()\noptimizer.state.clear()\n",
    ),
)
def test_an_optimizer_holds_the_parameters__but_not(snippet, fails, old, new):
    """Once its groups and its state are emptied, the optimizer no longer holds
    them.
    """
    fails(test_an_optimizer_holds_the_parameters, snippet.edit(old, new))


def test_a_scheduler_holds_the_optimizer(snippet):
    alive = after(snippet, *DELETED).alive
    assert alive["and optimizer"] == (True, True)
    assert alive["and scheduler"] == (False, False)


STEP_LR = "StepLR(optimizer, step_size=10)"


@pytest.mark.parametrize(
    "other",
    [
        "LambdaLR(optimizer, lambda epoch: 1)",
        "CosineAnnealingLR(optimizer, 10)",
        "ReduceLROnPlateau(optimizer)",
    ],
    ids=["LambdaLR", "CosineAnnealingLR", "ReduceLROnPlateau"],
)
def test_a_scheduler_holds_the_optimizer__also_with(snippet, other):
    test_a_scheduler_holds_the_optimizer(snippet.edit(STEP_LR, other))


@edits(
    ("without one", f"optim.lr_scheduler.{STEP_LR}", "None"),
    (
        "without its state",
        "del optimizer\n",
        "optimizer.state.clear()\ndel optimizer\n",
    ),
)
def test_a_scheduler_holds_the_optimizer__but_not(snippet, fails, old, new):
    """Without a scheduler, all is freed with the optimizer; with `state`
    cleared, the averages are gone.
    """
    fails(test_a_scheduler_holds_the_optimizer, snippet.edit(old, new))


@true_since("2.12", "Adagrad raised KeyError: 'sum'")
def test_a_cleared_optimizer_starts_again(snippet, clear="state.clear"):
    run = after(snippet, *TRAIN)
    for kind, options in KINDS:
        if "initial_accumulator_value" not in options:
            options = {**options, "lr": 0.003}
        model, optimizer, _ = start(run, kind, options)
        for _ in range(3):
            run.train(model, optimizer)
        twin = copy.deepcopy(model)
        attrgetter(clear)(optimizer)()
        new = kind(matrices(kind, twin.parameters()), **options)
        with no_error():
            run.train(model, optimizer)
        run.train(twin, new)
        pairs = zip(model.parameters(), twin.parameters(), strict=True)
        assert all(one.equal(other) for one, other in pairs)


def test_a_cleared_optimizer_starts_again__but_not_after_zero_grad(
    snippet, fails
):
    """`zero_grad` leaves the state as it is, so the next step goes on
    with it.
    """
    fails(test_a_cleared_optimizer_starts_again, snippet, "zero_grad")


def test_clearing_can_undo_the_training(snippet):
    run = after(snippet, *TRAIN, "cleared")
    jumps = run.jumps
    (before, behind), (adam_before, adam_behind) = jumps

    assert behind > 1000 * before
    assert adam_behind <= adam_before < 0.1
    for kind, known in ((optim.RMSprop, jumps[0]), (optim.Adam, jumps[1])):
        model = run.digit_reader()
        optimizer = kind(model.parameters())
        losses = [run.train(model, optimizer) for _ in range(50)]
        optimizer.state.clear()
        after_it = [run.train(model, optimizer) for _ in range(3)]
        assert (losses[-1], max(after_it)) == pytest.approx(known, rel=0.01)


@pytest.mark.parametrize("seed", [1])
def test_clearing_can_undo_the_training__also_from(snippet, seed):
    edited = snippet.edit("torch.manual_seed(0)", f"torch.manual_seed({seed})")
    test_clearing_can_undo_the_training(edited)


@edits(
    ("    optimizer.state.clear()\n    return", "    return"),
    ("optim.RMSprop, optim.Adam)", "optim.Adam, optim.Adam)"),
    ("optim.RMSprop, optim.Adam)", "optim.RMSprop, optim.RMSprop)"),
)
def test_clearing_can_undo_the_training__but_not(snippet, fails, old, new):
    """Without `clear`, the loss stays low; Adam in place of RMSprop does not
    jump, and RMSprop in place of Adam does.
    """
    fails(test_clearing_can_undo_the_training, snippet.edit(old, new))


# What it buys

EXTRAS = (*TRAIN, "highest", "while-it-runs")


def test_foreach_takes_a_copy(snippet):
    run = after(snippet, *EXTRAS)
    each = [p.nbytes for p in run.digit_reader().parameters()]

    one_by_one = run.extras["one by one"]
    assert 2 * max(each) - 1000 < one_by_one < 3 * max(each) + 1000
    assert run.extras["foreach"] == pytest.approx(sum(each), abs=1000)
    assert run.extras["fused"] < 1000


def test_foreach_takes_a_copy__also_for_another_model(snippet):
    edited = snippet.edit("784, 128)", "784, 300, False)")
    test_foreach_takes_a_copy(edited.edit("(128, 10)", "(300, 10)"))


def test_foreach_takes_a_copy__also_for_equal_layers(snippet):
    layers = "*many, nn.Linear(784, 10)"
    edited = snippet.edit(
        "nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)", layers
    )
    edited = edited.edit(
        "    layers =",
        "    many = [nn.Linear(784, 784, False) for _ in range(3)]\n"
        "    layers =",
    )
    test_foreach_takes_a_copy(edited)


@pytest.mark.parametrize("dtype", ["torch.float64", "torch.bfloat16"])
def test_foreach_takes_a_copy__also_in(snippet, dtype):
    edited = snippet.edit("(dtype=torch.float32):", f"(dtype={dtype}):")
    test_foreach_takes_a_copy(edited)


@edits(
    ("foreach=False", "foreach=True"),
    ("extra(foreach=True)", "extra(foreach=False)"),
    ("fused=True)", "foreach=False)"),
    ("    train(model, optimizer)\n    return high", "    return high"),
)
def test_foreach_takes_a_copy__but_not(snippet, fails, old, new):
    """Swap the ways of stepping, and the numbers change with them; without
    gradients, a step takes nothing.
    """
    fails(test_foreach_takes_a_copy, snippet.edit(old, new))


# Where it ends


def lbfgs(**options):
    """Return LBFGS and its weights, after more steps than it remembers."""
    weights = nn.Parameter(torch.ones(50))
    exact = {"tolerance_grad": 0, "tolerance_change": 0}
    kind = optim.LBFGS
    optimizer = kind([weights], max_iter=110, lr=1e-3, **exact, **options)
    scale = torch.arange(1, 51)

    def closure():
        optimizer.zero_grad()
        loss = (scale * (weights - 1.5) ** 4).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return optimizer, weights


def test_lbfgs_keeps_its_history(snippet):
    run = after(snippet, *COUNT, "history")
    assert run.times == pytest.approx(2 * 5 + 2, abs=0.1)
    pairs = [(run.optimizer, run.weights, 12)]
    pairs.append((*lbfgs(history_size=3), 8))
    pairs.append((*lbfgs(history_size=2, line_search_fn="strong_wolfe"), 6))
    pairs.append((*lbfgs(), 202))
    for optimizer, weights, vectors in pairs:
        large = [t for t in tensors(dict(optimizer.state)) if t.dim()]
        assert size(large) == vectors * weights.nbytes
        assert run.held(optimizer) == count(optimizer)


@edits(
    ("not yet full", "max_iter=40", "max_iter=3"),
    ("more of it", "history_size=5", "history_size=6"),
    ("without the lists", "(list, tuple)", "tuple"),
)
def test_lbfgs_keeps_its_history__but_not(snippet, fails, old, new):
    """After 3 iterations, it is only 4 times the model; the others keep a
    longer history, or do not count its lists.
    """
    fails(test_lbfgs_keeps_its_history, snippet.edit(old, new))
