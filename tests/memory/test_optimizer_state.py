"""The claims of docs/memory/optimizer_state.md."""

import copy
import gc
import weakref
from functools import partial

import pytest
import torch
from torch import nn, optim

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since
from extensions.programs.snippet import after, compiled, printed
from tests.helpers import worlds

muon = api_since("2.9", "torch.optim.Muon")

# What counts steps, in one number; all else is about single weights.
COUNTERS = {"step", "mu_product", "eta", "mu"}
KINDS = [
    (optim.SGD, {}),
    (optim.SGD, {"momentum": 0.9, "nesterov": True}),
    (optim.RMSprop, {}),
    (optim.RMSprop, {"momentum": 0.9, "centered": True}),
    (optim.Adagrad, {"initial_accumulator_value": 0.1}),
    (optim.Adam, {"amsgrad": True}),
    (optim.Adam, {"foreach": True, "maximize": True}),
    (optim.AdamW, {}),
    (optim.AdamW, {"fused": True}),
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
# These read numbers, which tensors on "meta" do not have.
READ_NUMBERS = (optim.Adafactor, optim.ASGD)


def named(value):
    """Return how a case is called: an optimizer, options, or None."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items()) or "-"
    return getattr(value, "__name__", None)


def tensors(value):
    """Find all tensors in a state, whatever they are kept in."""
    if torch.is_tensor(value):
        return [value]
    if isinstance(value, dict):
        return [each for one in value.values() for each in tensors(one)]
    if isinstance(value, (list, tuple)):
        return [each for one in value for each in tensors(one)]
    return []


def size(some):
    """Count the bytes of some tensors, without the program."""
    return sum(each.numel() * each.element_size() for each in some)


def held(optimizer):
    """Count the bytes of all that an optimizer keeps."""
    return size(tensors(dict(optimizer.state)))


def averages(optimizer):
    """Return what an optimizer keeps apart from counters."""
    return [
        value
        for state in optimizer.state.values()
        for name, value in state.items()
        if name not in COUNTERS and torch.is_tensor(value)
    ]


def matrices(kind, parameters):
    """Leave to Muon what it takes."""
    return [p for p in parameters if p.ndim == 2 or kind.__name__ != "Muon"]


def start(run, kind, options, dtype=torch.float32):
    """Return a reader, its optimizer and what that is given."""
    model = run.reader().to(dtype)
    given = matrices(kind, model.parameters())
    return model, kind(given, **options), given


def two_layers():
    """Return a model for inputs of three numbers."""
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))


def forecast(snippet, make, kind, options):
    """Run the cell `forecast` on another model, with another optimizer."""
    edited = snippet.edit("torch.optim.AdamW(weights)", "make(weights)")
    cell, shown = edited.cells()["forecast"], []

    def total(sizes):
        shown.append(sum(sizes))
        return shown[-1]

    variables = {
        "torch": torch,
        "sum": total,
        "reader": lambda width: make(),
        "make": lambda weights: kind(matrices(kind, weights), **options),
    }
    with no_error():
        exec(compiled(cell, snippet.path), variables)
    gradients = [w.grad for w in variables["weights"]]
    parts = variables["model"].parameters(), gradients, variables["state"]
    assert shown == [*map(size, parts)]
    weights = matrices(kind, variables["weights"])
    found = variables["model"].parameters(), [w.grad for w in weights]
    return [*map(size, found), size(tensors(variables["state"]))]


def spend(make, kind, options, idle=()):
    """Train two steps, and count weights, gradients and state."""
    torch.manual_seed(0)
    model = make()
    for index in idle:
        list(model.parameters())[index].requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    given = matrices(kind, trained)
    optimizer = kind(given, **options)
    for batch in (2, 50):
        inputs = torch.randn(batch, 3, dtype=given[0].dtype)
        optimizer.zero_grad()
        output = model(inputs)
        output = output[0] if isinstance(output, tuple) else output
        output.pow(2).sum().backward()
        optimizer.step()
    gradients = [p.grad for p in given if p.grad is not None]
    return [size(model.parameters()), size(gradients), held(optimizer)]


def test_the_forecast_is_exact(
    snippet, kind=optim.AdamW, options=None, make=two_layers, idle=()
):
    options = options or {}
    snippet.only("digits", "forecast").after("forecast")
    lines = printed[-1]["forecast"].split("\n")[:3]
    width = 32_000
    numbers = 64 * width + width + width * width + width + width * 10 + 10
    sizes = 4 * numbers, 4 * numbers, 8 * numbers + 6 * 4
    assert lines == [f"{each / 1e9:.2f} GB" for each in sizes]

    found = forecast(snippet, make, kind, options)
    assert found == spend(make, kind, options, idle)


ON_META = [
    (kind, options)
    for kind, options in KINDS
    if kind not in READ_NUMBERS and "fused" not in options
]


@pytest.mark.parametrize(("kind", "options"), ON_META, ids=named)
def test_the_forecast_is_exact__also_for(snippet, kind, options):
    test_the_forecast_is_exact(snippet, kind, options)


@worlds.each(
    "make",
    worlds.MODELS,
    *("with BatchNorm", "tied", "frozen in part", "with a tuple of outputs"),
    *("float64", "bfloat16"),
)
def test_the_forecast_is_exact__also_of_a_model(snippet, make):
    test_the_forecast_is_exact(snippet, make=make)


def test_the_forecast_is_exact__also_of_a_fused_training(snippet):
    found = forecast(snippet, two_layers, optim.AdamW, {})

    assert found == spend(two_layers, optim.AdamW, {"fused": True})


@pytest.mark.parametrize("kind", READ_NUMBERS)
def test_the_forecast_is_exact__also_on_the_cpu(snippet, kind):
    edited = snippet.edit('torch.device("meta"):', 'torch.device("cpu"):')
    found = forecast(edited, two_layers, kind, {})

    assert found == spend(two_layers, kind, {})
    snippet.only("digits", "kinds", "needs-numbers").after("needs-numbers")
    assert printed[-1]["needs-numbers"].splitlines() == [
        f"on the cpu: {4 * (32 + 64 + 1)} bytes",
        "RuntimeError: Tensor.item() cannot be called on meta tensors",
    ]


@pytest.mark.cuda
@pytest.mark.parametrize("way", ["foreach", "fused"])
def test_the_forecast_is_exact__also_for_cuda(snippet, way):
    model = two_layers().cuda()
    optimizer = optim.AdamW(model.parameters(), **{way: True})
    model(torch.ones(2, 3, device="cuda")).sum().backward()
    optimizer.step()

    assert forecast(snippet, two_layers, optim.AdamW, {})[2] == held(optimizer)


@edits(
    ("without a step", "optimizer.step()  # makes the state\nstate", "state"),
    ("without counters", "kept.values()]", "kept.values() if t.dim()]"),
    (
        "of some",
        "weights = [p for p in model.",
        "weights = [p for p in model[0].",
    ),
    (
        "in another type",
        "torch.zeros_like(weight)\noptimizer",
        "torch.zeros_like(weight)\nmodel.double()\noptimizer",
    ),
)
def test_the_forecast_is_exact__but_not(snippet, old, new, fails):
    """Without a step there is no state; the other edits leave out weights or
    counters, or convert the model in between.
    """
    fails(test_the_forecast_is_exact, snippet.edit(old, new))


def half_frozen():
    """Return a model whose first layer is frozen."""
    model = two_layers()
    model[0].requires_grad_(False)
    return model


def test_the_forecast_is_exact__also_half_frozen(snippet):
    test_the_forecast_is_exact(snippet, make=half_frozen)


def test_the_forecast_is_exact__but_not_without_what_is_frozen(snippet, fails):
    """Summed over `weights`, the first number leaves out frozen layers."""
    edited = snippet.edit(
        "held in (model.parameters(), [", "held in (weights, ["
    )
    fails(test_the_forecast_is_exact, edited, optim.AdamW, {}, half_frozen)


@pytest.mark.parametrize("kind", READ_NUMBERS)
def test_the_forecast_is_exact__ends_if_numbers_are_read(snippet, kind, fails):
    """`Adafactor` and `ASGD` raise *Tensor.item() cannot be called on meta
    tensors*; the same lines on the CPU are exact.
    """
    fails(test_the_forecast_is_exact, snippet, kind)


class Reads(nn.Linear):
    """A layer that reads numbers when it is made."""

    def __init__(self):
        super().__init__(3, 3)
        self.rates = [each.item() for each in torch.linspace(0, 0.1, 3)]


def test_the_forecast_is_exact__ends_for_a_constructor(snippet, fails):
    """A constructor that calls `.item()` raises the same error; on the CPU,
    the forecast is exact.
    """
    fails(test_the_forecast_is_exact, snippet, optim.AdamW, {}, Reads)
    edited = snippet.edit('torch.device("meta"):', 'torch.device("cpu"):')
    found = forecast(edited, Reads, optim.AdamW, {})
    assert found == spend(Reads, optim.AdamW, {})


def test_the_forecast_is_exact__ends_if_fused(snippet, fails):
    """`fused=True` and `capturable=True` raise an error on `"meta"`."""
    for option in ("fused", "capturable"):
        fails(test_the_forecast_is_exact, snippet, optim.AdamW, {option: True})


class Unused(nn.Module):
    """A model with a layer that nothing uses."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, inputs):
        """Return what one of the layers computes."""
        return self.used(inputs)


def test_the_forecast_is_exact__ends_for_an_unused_layer(snippet, fails):
    """A layer that never gets a gradient is counted in the forecast, and has
    no state in the training.
    """
    fails(test_the_forecast_is_exact, snippet, optim.AdamW, {}, Unused)


def test_the_forecast_is_exact__ends_if_frozen_later(snippet, fails):
    """A layer has to be frozen in the forecast as it is in the training."""
    options = optim.AdamW, {}, two_layers, (0, 1)
    fails(test_the_forecast_is_exact, snippet, *options)


def test_the_forecast_is_exact__ends_for_sparse_adam(snippet, fails):
    """`SparseAdam` takes sparse gradients only."""
    fails(test_the_forecast_is_exact, snippet, optim.SparseAdam)


def test_the_forecast_is_exact__ends_for_lbfgs(snippet, fails):
    """`LBFGS` needs a closure, and keeps lists: once they are full, 2 ·
    `history_size` + 2 copies of the model, 202 by default.
    """
    fails(test_the_forecast_is_exact, snippet, optim.LBFGS)
    weights = nn.Parameter(torch.ones(50))
    exact = {"tolerance_grad": 0, "tolerance_change": 0, "max_iter": 110}
    optimizer = optim.LBFGS([weights], lr=1e-3, **exact)

    def closure():
        optimizer.zero_grad()
        loss = (torch.arange(1, 51) * (weights - 1.5) ** 4).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    large = [t for t in tensors(dict(optimizer.state)) if t.dim()]
    assert size(large) == 202 * weights.nbytes


def test_meta_takes_no_room(snippet):
    highest = after(snippet, "highest").highest
    cell = snippet.cells()["forecast"]
    run = snippet.only("digits").after("digits")
    variables = {"torch": torch, "reader": run.reader}
    run.reader(3)  # fills caches

    taken = highest(lambda: exec(compiled(cell, snippet.path), variables))
    assert taken < 2000
    large = [each for each in variables["state"] if each.dim()]
    assert len(large) == 2 * len(variables["weights"]) == 12
    devices = {each.device.type for each in [*variables["weights"], *large]}
    assert devices == {"meta"}


@edits(
    ("on the CPU", 'torch.device("meta"):  # s', 'torch.device("cpu"):  # s'),
    (
        "stand-ins",
        "weights = [p for p",
        "weights = [torch.ones(p.shape) for p",
    ),
)
def test_meta_takes_no_room__but_not(snippet, old, new, fails):
    """On the CPU, the weights take memory; with stand-ins that have numbers,
    their averages do.
    """
    smaller = snippet.edit(old, new).edit("reader(32_000)", "reader(320)")
    fails(test_meta_takes_no_room, smaller)


SHAPES = [(), (1,), (7,), (3, 5), (2, 0), (1, 4), (2, 3, 3, 3)]


def side_by_side(cell, dtype, options, wrap, again):
    """Return our Adam and PyTorch's, each with its parameters."""
    pairs = []
    for kind in (cell.Adam, optim.Adam):
        torch.manual_seed(0)
        some = [nn.Parameter(torch.randn(s, dtype=dtype)) for s in SHAPES]
        given = {} if kind is cell.Adam else options
        with no_error():
            optimizer = kind(wrap(some), lr=0.01, **given)
            if again:
                optimizer.load_state_dict(optimizer.state_dict())
        pairs.append((optimizer, some))
    return pairs


def test_seventeen_lines_are_adam(
    snippet,
    dtype=torch.float32,
    options=None,
    steps=30,
    wrap=list,
    again=False,
):
    run = after(snippet, "digits", "by-hand", "compare")
    (ours, mine), (theirs, yours) = side_by_side(
        run, dtype, options or {}, wrap, again
    )
    torch.manual_seed(1)
    for step in range(steps):
        for index, (p, q) in enumerate(zip(mine, yours, strict=True)):
            # The last ones start later, and each misses a step at times.
            idle = step < index or (step + index) % 5 == 4
            p.grad = None if idle else torch.randn_like(p)
            q.grad = None if idle else p.grad.clone()
        with no_error():
            ours.step()
        theirs.step()
        assert [p in ours.state for p in mine] == [
            q in theirs.state for q in yours
        ]
        for p, q in zip(mine, yours, strict=True):
            assert_same([p], [q])
            kept = tensors(theirs.state.get(q, {}))
            assert_same(tensors(ours.state.get(p, ())), kept)

    lines = run.model.parameters(), run.twin.parameters()
    for p, q in zip(*lines, strict=True):
        assert_same([p], [q])
        assert_same(run.ours.state[p], [*run.theirs.state[q].values()])
    names = ["step", "exp_avg", "exp_avg_sq"]
    assert list(run.theirs.state[q]) == names


def assert_same(some, others):
    """Assert that tensors are equal to the last bit, and of one type."""
    assert [one.dtype for one in some] == [other.dtype for other in others]
    for one, other in zip(some, others, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (torch.float64, {}),
        (torch.bfloat16, {}),
        (torch.float32, {"foreach": True}),
        (torch.float32, {"weight_decay": 0}),
    ],
    ids=["float64", "bfloat16", "foreach", "no decay"],
)
def test_seventeen_lines_are_adam__also_with(snippet, dtype, options):
    test_seventeen_lines_are_adam(snippet, dtype, options)


@pytest.mark.parametrize("steps", [1, 300])
def test_seventeen_lines_are_adam__also_after_steps(snippet, steps):
    test_seventeen_lines_are_adam(snippet, steps=steps)


@worlds.each(
    "make",
    worlds.MODELS,
    *("with BatchNorm", "tied", "frozen in part", "float64"),
)
def test_seventeen_lines_are_adam__also_for_a_model(snippet, make):
    run = after(snippet, "digits", "by-hand", "compare")
    results = []
    for kind in (run.Adam, optim.Adam):
        torch.manual_seed(0)
        model = make()
        optimizer = kind(model.parameters())
        inputs = torch.randn(20, 3, dtype=next(model.parameters()).dtype)
        for _ in range(20):
            model.zero_grad()
            model(inputs).pow(2).sum().backward()
            optimizer.step()
        kept = [optimizer.state.get(p, ()) for p in model.parameters()]
        results.append([*model.parameters(), *tensors(kept)])

    assert_same(*results)


def test_seventeen_lines_are_adam__also_adamw(snippet):
    """AdamW without its decay has the same state."""
    run = after(snippet, "digits", "by-hand", "compare")
    twin, theirs = run.trained(lambda p: optim.AdamW(p, weight_decay=0))
    for p, q in zip(run.model.parameters(), twin.parameters(), strict=True):
        assert_same(run.ours.state[p], tensors(theirs.state[q]))


@pytest.mark.parametrize(
    "options",
    [
        {"betas": (0.5, 0.999)},
        {"eps": 1e-3},
        {"weight_decay": 0.1},
        {"amsgrad": True},
    ],
    ids=named,
)
def test_seventeen_lines_are_adam__ends_with(snippet, options, fails):
    """The real one takes options that ours does not have."""
    fails(test_seventeen_lines_are_adam, snippet, torch.float32, options)


def test_seventeen_lines_are_adam__ends_for_groups(snippet, fails):
    """Ours takes a list of parameters, not of groups."""
    options = torch.float32, {}, 30, lambda some: [{"params": some}]
    fails(test_seventeen_lines_are_adam, snippet, *options)


def test_seventeen_lines_are_adam__ends_for_a_state_dict(snippet, fails):
    """Ours has no `state_dict()`."""
    options = torch.float32, {}, 30, list, True
    fails(test_seventeen_lines_are_adam, snippet, *options)


def test_seventeen_lines_are_adam__ends_for_complex_numbers(snippet, fails):
    """PyTorch treats a complex number as two real ones."""
    fails(test_seventeen_lines_are_adam, snippet, torch.complex64)


def test_seventeen_lines_are_adam__ends_if_fused(snippet, fails):
    """With `fused=True`, the weights differ by rounding."""
    options = torch.float32, {"fused": True}
    fails(test_seventeen_lines_are_adam, snippet, *options)


@edits(
    ("without a list", "list(parameters), lr", "parameters, lr"),
    (
        "without line 2",
        "            if p.grad is None:  # 2\n                continue\n",
        "            if p.grad is None:  # 2\n"
        "                p.grad = torch.zeros_like(p)\n",
    ),
    ("with a new state each time", "if p not in self.state:", "if True:"),
    ("of another type", "zeros_like(p)  # 4", "zeros_like(p).double()  # 4"),
    ("with a slower mean", "p.grad, 1 - 0.9)", "p.grad, 1 - 0.8)"),
    ("without the root", "square.sqrt() /", "square /"),
)
def test_seventeen_lines_are_adam__but_not(snippet, old, new, fails):
    """With zeros for missing gradients, a frozen weight has a state, too; the
    other edits lose the parameters after a step, forget or convert the state,
    or compute something else.
    """
    fails(test_seventeen_lines_are_adam, snippet.edit(old, new))


# Copies of the parameters that each optimizer of the table keeps.
TIMES = {"SGD": 0, "SGD, momentum": 1, "Adagrad": 1, "RMSprop": 1}
TIMES |= {"RMSprop, momentum": 2, "RMSprop, centered": 2, "Adam": 2}
TIMES |= {"AdamW": 2, "AdamW, amsgrad": 3, "Adadelta": 2, "Adamax": 2}
TIMES |= {"NAdam": 2, "RAdam": 2, "Rprop": 2, "ASGD": 1}
TIMES |= {"Muon, matrices": 1}
TABLE = ("digits", "kinds")


def test_adamw_needs_sixteen_bytes(snippet, kinds=None, dtype=torch.float32):
    table = after(snippet, *TABLE).table
    bytes_each = {"AdamW": 16, "Adam": 16, "SGD, momentum": 12, "SGD": 8}
    parts = ("weights", "gradients", "state")
    for name, expected in bytes_each.items():
        together = sum(table[name][part] for part in parts)
        assert together == pytest.approx(expected, abs=0.01)
    assert table["AdamW"]["state"] == pytest.approx(8, abs=0.01)

    kinds = kinds or [(optim.AdamW, {}, 16), (optim.SGD, {}, 8)]
    for kind, options, expected in kinds:
        model = nn.Sequential(nn.Linear(3, 90), nn.Linear(90, 3)).to(dtype)
        optimizer = kind(model.parameters(), **options)
        model(torch.ones(2, 3, dtype=dtype)).sum().backward()
        optimizer.step()
        found = size(model.parameters()) + size(averages(optimizer))
        found += size(p.grad for p in model.parameters())
        numbers = sum(p.numel() for p in model.parameters())
        assert found / numbers == expected


OPTIONS = [{"foreach": True}, {"fused": True}, {"weight_decay": 0.1}]


@pytest.mark.parametrize("options", OPTIONS, ids=named)
def test_adamw_needs_sixteen_bytes__also_with(snippet, options):
    momentum = {"momentum": 0.9, **options}
    kinds = [(optim.AdamW, options, 16), (optim.Adam, options, 16)]
    kinds += [(optim.SGD, momentum, 12), (optim.SGD, options, 8)]
    test_adamw_needs_sixteen_bytes(snippet, kinds)


def test_adamw_needs_sixteen_bytes__also_the_first_weight(snippet):
    cells = ("digits", "by-hand", "compare", "first-weight")
    run = snippet.only(*cells).after(cells[-1])
    parts = [run.weight, run.weight.grad, run.mean, run.square]
    assert [each.nbytes for each in parts] == [4 * 32 * 64] * 4
    assert run.steps.nbytes == 4


def test_adamw_needs_sixteen_bytes__also_the_other_rows(snippet):
    run = after(snippet, *TABLE)
    for name, (kind, options) in run.kinds.items():
        model, optimizer, given = start(run, kind, options)
        run.train(model, optimizer)
        row, weights = run.table[name], size(given)
        numbers = sum(each.numel() for each in given)
        assert row["weights"] == row["gradients"] == 4
        assert row["state"] == held(optimizer) / numbers
        kept = optimizer.state.get(given[0], {})
        assert row["keeps"] == ", ".join(kept)
        if name == "Adafactor":
            assert row["state"] < 0.5
            continue
        assert size(averages(optimizer)) / weights == TIMES[name]
    assert set(run.kinds) <= {*TIMES, "Adafactor"}


@pytest.mark.parametrize("name", ["amsgrad", "float64"])
def test_adamw_needs_sixteen_bytes__ends_with(snippet, name, fails):
    """With `amsgrad`, a third copy makes it 20; in `float64`, each number
    takes twice as many bytes.
    """
    dtype = torch.float64 if name == "float64" else torch.float32
    options = {"amsgrad": True} if name == "amsgrad" else {}
    kinds = [(optim.AdamW, options, 16)]
    fails(test_adamw_needs_sixteen_bytes, snippet, kinds, dtype)


@edits(
    ('"AdamW": (optim.AdamW, {})', '"AdamW": (optim.Adagrad, {})'),
    ('(optim.SGD, {"momentum": 0.9})', "(optim.SGD, {})"),
    ('"SGD": (optim.SGD, {})', '"SGD": (optim.RMSprop, {})'),
    ("dtype=torch.float32, auto", "dtype=torch.float64, auto"),
)
def test_adamw_needs_sixteen_bytes__but_not(snippet, old, new, fails):
    """In `float64`, each part takes twice as many bytes; the other edits put
    in an optimizer with another state.
    """
    fails(test_adamw_needs_sixteen_bytes, snippet.edit(old, new))


def noted(seen, autocast, layer, inputs, output):
    """Note the dtype of an output."""
    seen.append((autocast, output.dtype))


def autocast_runs(run):
    """Return the dtype of the scores, and of all that a training holds."""
    seen, found = [], []
    for autocast in (False, True):
        for kind, options in KINDS:
            model, optimizer, given = start(run, kind, options)
            hook = partial(noted, seen, autocast)
            model[-1].register_forward_hook(hook)
            run.train(model, optimizer, autocast)
            kept = tensors(dict(optimizer.state))
            some = [*given, *(each.grad for each in given), *kept]
            found.append([(each.shape, each.dtype) for each in some])
    return set(seen), found


def test_the_state_has_the_type_of_its_parameter(
    snippet, dtype=torch.bfloat16, kinds=tuple(KINDS), again=False
):
    run = after(snippet, *TABLE)
    parts = ("weights", "gradients", "state")
    row = run.table["AdamW, bfloat16"]
    assert sum(row[part] for part in parts) == pytest.approx(8, abs=0.01)
    assert run.table["AdamW, autocast"] == run.table["AdamW"]

    seen, found = autocast_runs(run)
    assert seen == {(False, torch.float32), (True, torch.bfloat16)}
    assert found[: len(KINDS)] == found[len(KINDS) :]

    for kind, options in kinds:
        model, optimizer, _ = start(run, kind, options, dtype)
        run.train(model, optimizer)
        if again:
            model.to(torch.float32)
        expected = {p.dtype for p in model.parameters()}
        assert {each.dtype for each in averages(optimizer)} <= expected


def test_the_state_has_the_type_of_its_parameter__also_float64(snippet):
    test_the_state_has_the_type_of_its_parameter(snippet, torch.float64)


def test_the_state_has_the_type_of_its_parameter__ends_if_converted(
    snippet, fails
):
    """A model that is converted later leaves its state in the old dtype."""
    options = torch.bfloat16, ((optim.AdamW, {}),), True
    fails(test_the_state_has_the_type_of_its_parameter, snippet, *options)


@edits(
    ('{"dtype": torch.bfloat16}', "{}"),
    ('{"dtype": torch.bfloat16}', '{"autocast": True}'),
    ('{"autocast": True}', '{"dtype": torch.bfloat16}'),
    (
        "a state that is cast",
        "    loss.backward()\n    optimizer.step()",
        "    loss.backward()\n    optimizer.step()\n"
        "    for state in optimizer.state.values():\n        state |= "
        "{name: each.double() for name, each in state.items()}",
    ),
)
def test_the_state_has_the_type_of_its_parameter__but_not(
    snippet, old, new, fails
):
    """Without a `dtype`, even under autocast, weights and state stay in
    `float32`; a state that is cast by hand has another dtype.
    """
    edited = snippet.edit(old, new)
    fails(test_the_state_has_the_type_of_its_parameter, edited)


def test_the_state_appears_at_the_first_step(snippet, added=None):
    run = after(snippet, "digits", "first-steps")
    zero, one, two, three = run.sizes
    assert zero == 0
    assert one == two == three == held(run.optimizer) > 0
    run = after(snippet, *TABLE)
    for name, row in run.table.items():
        assert (row["state before a step"] > 0) is (name == "Adagrad")
        assert (row["state"] > 0) is (name != "SGD")
    for kind, options in [*KINDS, *run.kinds.values()]:
        model, optimizer, _ = start(run, kind, options)
        run.train(model, optimizer)
        first = held(optimizer)
        if added:
            optimizer.add_param_group({"params": added(model)})
        for _ in range(2):
            run.train(model, optimizer)
            assert held(optimizer) == first


def joined(model):
    """Return the parameters of a layer that joins a model later."""
    model.append(nn.Linear(10, 10))
    return [model[-1].weight]


def test_the_state_appears_at_the_first_step__ends_for_a_new_layer(
    snippet, fails
):
    """A layer that joins later gets its state in its own first step."""
    fails(test_the_state_appears_at_the_first_step, snippet, joined)


@edits(
    ('"RMSprop": (optim.RMSprop, {})', '"RMSprop": (optim.Adagrad, {})'),
    ('"Adagrad": (optim.Adagrad, {})', '"Adagrad": (optim.RMSprop, {})'),
    (
        "frozen in the first step",
        "    train(model, optimizer)\n    sizes",
        "    model[0].requires_grad_(len(sizes) > 1)\n"
        "    train(model, optimizer)\n    sizes",
    ),
)
def test_the_state_appears_at_the_first_step__but_not(
    snippet, old, new, fails
):
    """Adagrad in place of RMSprop starts with a state; a layer that is frozen
    in the first step gets its own in the second.
    """
    fails(test_the_state_appears_at_the_first_step, snippet.edit(old, new))


PEAKS = ("digits", "highest", "while-it-runs")


def test_foreach_takes_a_copy(snippet):
    run = after(snippet, *PEAKS)
    each = [p.nbytes for p in run.deep.parameters()]

    few = run.extra["one by one"]
    assert 2 * max(each) - 1000 < few < 3 * max(each) + 1000
    assert run.extra["foreach"] == pytest.approx(sum(each), abs=1000)
    assert run.extra["fused"] < 1000
    assert sum(each) == run.whole > 5 * max(each)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.Linear(64, 64) for", "nn.Linear(64, 64, bias=False) for"),
        ("range(20)])", "range(20)]).double()"),
    ],
    ids=["no biases", "float64"],
)
def test_foreach_takes_a_copy__also_with(snippet, old, new):
    edited = snippet.edit(old, new)
    if "double" in new:
        edited = edited.edit(
            "deep(torch.ones(1, 64))", "deep(torch.ones(1, 64).double())"
        )
    test_foreach_takes_a_copy(edited)


@edits(
    ('{"foreach": False}', '{"foreach": True}'),
    ('"foreach": {"foreach": True}', '"foreach": {"foreach": False}'),
    ('{"fused": True}', '{"foreach": False}'),
    ("deep(torch.ones(1, 64)).sum().backward()", "deep(torch.ones(1, 64))"),
)
def test_foreach_takes_a_copy__but_not(snippet, old, new, fails):
    """Swap the ways of stepping, and the numbers change with them; without
    gradients, a step takes nothing.
    """
    fails(test_foreach_takes_a_copy, snippet.edit(old, new))


LATER = ("digits", "frozen-later")


def test_freezing_later_frees_nothing(snippet):
    run = after(snippet, *LATER)
    assert run.before == held(run.optimizer)
    assert len(run.optimizer.state) == 6
    steps = [each["step"].item() for each in run.optimizer.state.values()]
    assert steps == [1, 1, 2, 2, 2, 2]
    assert not run.model[0].weight.requires_grad
    for kind, options in KINDS:
        model, optimizer, _ = start(run, kind, options)
        run.train(model, optimizer)
        before = held(optimizer)
        model[0].requires_grad_(False)
        for _ in range(2):
            run.train(model, optimizer)
        assert held(optimizer) == before


def test_freezing_later_frees_nothing__also_if_never_trained(snippet):
    """Of all optimizers, only Adagrad has a state for a frozen layer that was
    never trained.
    """
    run = after(snippet, *LATER)
    for kind, options in KINDS:
        model = run.reader()
        model[0].requires_grad_(False)
        given = matrices(kind, model.parameters())
        optimizer = kind(given, **options)
        run.train(model, optimizer)
        frozen = model[0].weight in optimizer.state
        assert frozen is (kind is optim.Adagrad)


TRAIN = "train(model, optimizer)\nbefore = state_bytes(optimizer)\nmodel[0]"


@edits(("frozen-first", TRAIN, "model[0].requires_grad_(False)\n" + TRAIN))
def test_freezing_later_frees_nothing__but_not_frozen_first(
    snippet, old, new, fails
):
    """Frozen before its first step, the layer has no state: 11,104 bytes, not
    27,752.
    """
    fails(test_freezing_later_frees_nothing, snippet.edit(old, new))


def test_a_frozen_state_can_be_forgotten(snippet):
    frozen = snippet.only(*LATER).after(LATER[-1])
    gone = [
        weakref.ref(each)
        for p in frozen.model[0].parameters()
        for each in frozen.optimizer.state[p].values()
    ]
    assert len(gone) == 6
    cell = snippet.cells()["forget-the-frozen"]
    before = copy.deepcopy(tensors(dict(frozen.optimizer.state)))
    exec(compiled(cell, snippet.path), vars(frozen))
    model, optimizer = frozen.model, frozen.optimizer

    assert [each() for each in gone] == [None] * 6
    others = [p for layer in (2, 4) for p in model[layer].parameters()]
    assert set(optimizer.state) == set(others)
    after_it = tensors(dict(optimizer.state))
    assert_same(after_it, before[6:])
    for _ in range(3):
        fixed = [p.clone() for p in model[0].parameters()]
        moving = [p.clone() for p in others]
        with no_error():
            frozen.train(model, optimizer)
        assert set(optimizer.state) == set(others)
        assert_same([*model[0].parameters()], fixed)
        pairs = zip(others, moving, strict=True)
        assert [p.shape for p, was in pairs if p.equal(was)] == []


ZEROS = (
    "    model.zero_grad()\n    with",
    "    model.zero_grad(False)\n    with",
)


def test_a_frozen_state_can_be_forgotten__also_with_zeros(snippet):
    test_a_frozen_state_can_be_forgotten(snippet.edit(*ZEROS))


@edits(
    ("    optimizer.state.pop(parameter, None)\n", ""),
    ("pop(parameter, None)", "clear()"),
    ("for parameter in model[0].p", "for parameter in model[2].p"),
    ("with zeros left", "    parameter.grad = None\n", ""),
)
def test_a_frozen_state_can_be_forgotten__but_not(snippet, old, new, fails):
    """Without `pop`, the state stays; the other edits drop all of it or the
    wrong layer's, or leave zeros as gradients.
    """
    edited = snippet.edit(*ZEROS).edit(old, new)
    fails(test_a_frozen_state_can_be_forgotten, edited)


REFUSE = {optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax}
REFUSE |= {optim.Adafactor}
if hasattr(optim, "Muon"):
    REFUSE.add(optim.Muon)
GO_ON = [(optim.SGD, {"momentum": 0.9}), (optim.RMSprop, {})]
GO_ON += [(optim.SGD, {"momentum": 0.9, "foreach": True})]
GO_ON += [(optim.Adagrad, {})]
STEPS = [(kind, {}) for kind in REFUSE]
STEPS += [
    (kind, {"foreach": True}) for kind in REFUSE if kind.__name__ != "Muon"
]
STEPS += GO_ON
SAID = "expected dtype float for `end` but got dtype c10::BFloat16"
FUSED = "expected scalar type BFloat16 but found Float"
CONVERTED = ("digits", "converted")


def said_by(train, *parts):
    """Return the text of the error that a step raises."""
    with pytest.raises(RuntimeError) as caught:
        train(*parts)
    return str(caught.value)


@muon
def test_a_converted_model_keeps_its_state(snippet, steps=tuple(STEPS)):
    run = snippet.only(*CONVERTED).after("converted")
    assert SAID in printed[-1]["converted"]
    assert run.as_before == held(run.optimizer)
    assert {each.dtype for each in run.model.parameters()} == {torch.bfloat16}
    for kind, options in steps:
        model, optimizer, _ = start(run, kind, options)
        run.train(model, optimizer)
        before = held(optimizer)
        model.to(torch.bfloat16)
        if kind in REFUSE:
            assert SAID in said_by(run.train, model, optimizer)
        else:
            with no_error():
                run.train(model, optimizer)
        assert {each.dtype for each in averages(optimizer)} == {torch.float32}
        assert held(optimizer) == before


def test_a_converted_model_keeps_its_state__also_by_hand(snippet):
    cells = ("digits", "by-hand")
    run = snippet.only(*cells).after("by-hand")
    model = run.reader()
    optimizer = run.Adam(model.parameters())
    run.train(model, optimizer)
    model.to(torch.bfloat16)
    assert SAID in said_by(run.train, model, optimizer)


@muon
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (optim.AdamW, {}),
        (optim.SGD, {"momentum": 0.9}),
        (optim.Adagrad, {}),
    ],
    ids=named,
)
def test_a_converted_model_keeps_its_state__ends_if_fused(
    snippet, kind, options, fails
):
    """If fused, AdamW, momentum and Adagrad raise *expected scalar
    type BFloat16 but found Float*.
    """
    options = {"fused": True, **options}
    steps = [(kind, options)]
    fails(test_a_converted_model_keeps_its_state, snippet, steps)

    run = snippet.only(*CONVERTED).after("converted")
    model, optimizer, _ = start(run, kind, options)
    run.train(model, optimizer)
    model.to(torch.bfloat16)
    assert FUSED in said_by(run.train, model, optimizer)


@muon
def test_a_converted_model_keeps_its_state__ends_if_centered(snippet, fails):
    """RMSprop with `centered=True` keeps a mean as Adam does, and raises the
    same error.
    """
    centered = [(optim.RMSprop, {"centered": True})]
    fails(test_a_converted_model_keeps_its_state, snippet, centered)


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
def test_a_converted_model_keeps_its_state__but_not(snippet, old, new, fails):
    """Converted before its first step, or with its state loaded anew, AdamW
    goes on without an error.
    """
    fails(test_a_converted_model_keeps_its_state, snippet.edit(old, new))


LOADED = (*CONVERTED, "convert-the-state")


def test_loading_converts_the_state(
    snippet, kinds=tuple(KINDS), dtype=torch.bfloat16, counters=("step",)
):
    with no_error():
        run = snippet.only(*LOADED).after(LOADED[-1])
    counting = 6 * 4
    assert run.as_before - counting == 2 * (run.converted - counting)
    assert run.converted == held(run.optimizer)
    states = run.optimizer.state.values()
    # The step that failed has counted the first weight.
    assert [each["step"] for each in states] == [3, 2, 2, 2, 2, 2]
    for kind, options in kinds:
        model, optimizer, _ = start(run, kind, options)
        run.train(model, optimizer)
        model.to(dtype)
        before = [each.to(dtype) for each in averages(optimizer)]
        optimizer.load_state_dict(optimizer.state_dict())
        assert_same(averages(optimizer), before)
        for state in optimizer.state.values():
            some = [state[name].dtype for name in counters if name in state]
            assert set(some) <= {torch.float32}
        if kind is optim.AdamW:
            with no_error():
                run.train(model, optimizer)


def test_loading_converts_the_state__also_to_float64(snippet):
    test_loading_converts_the_state(snippet, dtype=torch.float64)


def test_loading_converts_the_state__ends_for_other_counters(snippet, fails):
    """NAdam's `mu_product` and ASGD's `eta` and `mu` are rounded, too."""
    for kind in (optim.NAdam, optim.ASGD):
        options = [(kind, {})], torch.bfloat16, ("step", *COUNTERS)
        fails(test_loading_converts_the_state, snippet, *options)


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
def test_loading_converts_the_state__but_not(snippet, old, new, fails):
    """Cast by hand, `step` is cast too; without loading, the error stays; in
    `float32`, there is nothing to cast.
    """
    fails(test_loading_converts_the_state, snippet.edit(old, new))


ROWS = [(3, 4), (5, 3, 4), (2, 64, 7, 3), (1, 7), (1, 1), (1, 3, 1, 1)]


def test_adafactor_looks_at_the_last_two(snippet, shapes=ROWS):
    run = snippet.only("digits", "kinds", "adafactor-shapes")
    run.after("adafactor-shapes")
    shares = dict(
        line.rsplit(" ", 1)
        for line in printed[-1]["adafactor-shapes"].splitlines()
    )
    assert shares == {
        "(128, 784)": "0.01",
        "(64, 64, 7, 7)": "0.29",
        "(64, 64, 3, 3)": "0.67",
        "(64, 64, 1, 1)": "2.0",
    }
    for shape in shapes:
        weight = nn.Parameter(torch.ones(shape))
        weight.grad = torch.ones(shape)
        adafactor, adam = optim.Adafactor([weight]), optim.Adam([weight])
        adafactor.step()
        adam.step()
        share = (held(adafactor) - 4) / weight.nbytes
        high, wide = (1, *shape)[-2:]
        assert share == pytest.approx(1 / high + 1 / wide)
        if high == wide == 1:
            assert held(adafactor) == held(adam)


def test_adafactor_looks_at_the_last_two__ends_for_a_bias(snippet, fails):
    """For a bias, it keeps a number for each of its numbers."""
    fails(test_adafactor_looks_at_the_last_two, snippet, [(8,)])


@edits(
    ("optim.Adafactor([weight])\n    adaf", "optim.Adam([weight])\n    adaf"),
    ("(64, 64, 3, 3), (64", "(64, 64, 5, 5), (64"),
)
def test_adafactor_looks_at_the_last_two__but_not(snippet, old, new, fails):
    """Adam keeps two times the weight for every shape, and a kernel of 5 by 5
    has another share.
    """
    fails(test_adafactor_looks_at_the_last_two, snippet.edit(old, new))


DELETED = ("digits", "deleted")


def test_an_optimizer_holds_the_parameters(snippet):
    snippet.only(*DELETED).after("deleted")
    lines = printed[-1]["deleted"].splitlines()
    assert [line.split(":")[1].strip() for line in lines] == [
        "[True, True]",
        "[True, True]",
        "[False, False]",
    ]
    run = after(snippet, "digits")
    for kind, options in KINDS:
        model, optimizer, given = start(run, kind, options)
        run.train(model, optimizer)
        before = copy.deepcopy(tensors(dict(optimizer.state)))
        for to_none in (True, False):
            optimizer.zero_grad(to_none)
            model.zero_grad(to_none)
            assert_same(tensors(dict(optimizer.state)), before)
        kept = [*given, *tensors(dict(optimizer.state))]
        refs = [weakref.ref(each) for each in kept]
        del model, given, kept
        gc.collect(0)
        assert [ref for ref in refs if ref() is None] == []
        del optimizer
        gc.collect(0)
        assert [ref for ref in refs if ref() is not None] == []


STEP_LR = "StepLR(optimizer, step_size=10)"


@pytest.mark.parametrize(
    "other",
    ["LambdaLR(optimizer, lambda epoch: 1)", "ReduceLROnPlateau(optimizer)"],
    ids=["LambdaLR", "ReduceLROnPlateau"],
)
def test_an_optimizer_holds_the_parameters__also_with(snippet, other):
    test_an_optimizer_holds_the_parameters(snippet.edit(STEP_LR, other))


@edits(
    ("emptied", "del model\n", "del model\noptimizer.state.clear()\n"),
    ("without one", f"torch.optim.lr_scheduler.{STEP_LR}", "None"),
)
def test_an_optimizer_holds_the_parameters__but_not(snippet, old, new, fails):
    """Without a scheduler, all is freed with the optimizer; once its state is
    emptied, the mean is gone.
    """
    fails(test_an_optimizer_holds_the_parameters, snippet.edit(old, new))
