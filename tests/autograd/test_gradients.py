"""The claims of docs/autograd/gradients.md."""

import warnings

import numpy
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import no_error

DO_THIS = """\
fare = rate * km + fee
loss = (fare - paid).square()
loss.backward()
"""
WALK = """\
fare = rate * km + fee
loss = (fare - paid).square()

arrows"""
NEARBY = "((rate + step) * km + fee - paid).square()"
INTEGERS = [
    *("uint8", "uint16", "uint32", "uint64"),
    *("int8", "int16", "int32", "int64", "bool"),
]
CUTS = {
    "detach": "t.detach()",
    "numpy": "t.detach().numpy()",
    "item": "t.item()",
    "tolist": "t.tolist()",
    "copy": "torch.tensor(t)",
    "comparison": "t > 5",
    "argmax": "t.argmax()",
    "integer": "t.long()",
    "no_grad": "no_grad",
}


def raised_in(snippet, name):
    """Return the error that a cell catches, or nothing."""
    cell = snippet.cell(name)
    source = cell.source.replace("    print(error)", "    caught = error")
    run = snippet.edit(cell.source, source).after(name)
    return getattr(run, "caught", None)


def slope_of(function, x, nudge=0.5):
    """Return the slope between two points: for a parabola, that at x."""
    return (function(x + nudge) - function(x - nudge)) / (2 * nudge)


def taxi(rate, fee, km=3.0, paid=10.0):
    """Return the loss of the page, of plain numbers."""
    return (rate * km + fee - paid) ** 2


# Do this


def test_backward_stores_slopes(snippet):
    run = snippet.after("do-this")
    rate, fee, km, paid = (
        each.item() for each in (run.rate, run.fee, run.km, run.paid)
    )

    assert run.loss == taxi(rate, fee, km, paid)
    assert run.rate.grad == slope_of(lambda x: taxi(x, fee, km, paid), rate)
    assert run.fee.grad == slope_of(lambda x: taxi(rate, x, km, paid), fee)
    assert run.km.grad is None


@pytest.mark.parametrize("km", [4.0, 0.0, -2.0], ids=["4 km", "0 km", "-2 km"])
@pytest.mark.parametrize("rate", [1.0, -3.0])
def test_backward_stores_slopes__also_on_rides_of(snippet, km, rate):
    edited = snippet.edit("km, paid = torch.tensor(3.0)", f"km, paid = {km}")
    edited = edited.edit(f"km, paid = {km}", f"km, paid = torch.tensor({km})")
    test_backward_stores_slopes(
        edited.edit("rate = torch.tensor(2.0", f"rate = torch.tensor({rate}")
    )


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_backward_stores_slopes__also_in_other_types(snippet, dtype):
    edited = snippet.edit(
        "import torch\n",
        f"""\
import torch

torch.set_default_dtype(torch.{dtype})
""",
    )
    run = edited.after("do-this")

    assert (run.rate.grad, run.fee.grad) == (-18, -6)
    assert run.rate.grad.dtype == getattr(torch, dtype)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "fare = rate * km + fee",
            "fare = rate * km + fee.detach() + 0 * fee",
        ),
        (
            "fare = rate * km + fee",
            "fare = rate.detach() * km + fee + 0 * rate",
        ),
    ],
    ids=["fee", "rate"],
)
def test_backward_stores_slopes__but_not_past_a_detach(
    snippet, old, new, fails
):
    edited = snippet.edit(DO_THIS, DO_THIS.replace(old, new))
    fails(test_backward_stores_slopes, edited)


def test_backward_stores_slopes__but_also_of_km_when_it_asks(snippet, fails):
    edited = snippet.edit(
        "km, paid = torch.tensor(3.0)",
        "km, paid = torch.tensor(3.0, requires_grad=True)",
    )
    fails(test_backward_stores_slopes, edited)


@pytest.mark.filterwarnings("ignore:To copy construct:UserWarning")
def test_a_tensor_requires_nothing_by_default(snippet):
    run = snippet.after("do-this")

    assert not run.km.requires_grad
    assert not run.paid.requires_grad
    assert run.rate.requires_grad
    assert run.fee.requires_grad
    for data in (2, 2.0, True, 1j, [[1.0, 2.0]], [], run.rate, run.fare):
        assert not torch.tensor(data).requires_grad


def test_a_tensor_requires_nothing_by_default__but_does_when_told(
    snippet, fails
):
    edited = snippet.edit(
        "km, paid = torch.tensor(3.0)",
        "km, paid = torch.tensor(3.0, requires_grad=True)",
    )
    fails(test_a_tensor_requires_nothing_by_default, edited)


def test_a_slope_is_a_forecast(snippet):
    run = snippet.after("forecast")

    for step in (0.01, -0.01):
        forecast = step * run.rate.grad.item()
        assert run.forecasts[step] == forecast
        assert run.changes[step] == pytest.approx(forecast, rel=0.01)


def test_a_slope_is_a_forecast__also_for_the_fee(snippet):
    run = snippet.edit(
        NEARBY, "(rate * km + fee + step - paid).square()"
    ).after("forecast")

    for step in (0.01, -0.01):
        forecast = step * run.fee.grad.item()
        assert run.changes[step] == pytest.approx(forecast, rel=0.01)


@pytest.mark.parametrize("bound", ["max", "min"], ids=["upwards", "downwards"])
def test_a_slope_is_a_forecast__but_not_at_a_kink(snippet, bound, fails):
    kink = f".clamp({bound}=-3).square()"
    edited = snippet.edit(
        DO_THIS,
        DO_THIS.replace("(fare - paid).square()", f"(fare - paid){kink}"),
    ).edit(NEARBY, NEARBY.replace(".square()", kink))
    fails(test_a_slope_is_a_forecast, edited)


def test_a_slope_is_a_forecast__but_not_of_another_loss(snippet, fails):
    edited = snippet.edit(DO_THIS, DO_THIS.replace("loss.b", "(2 * loss).b"))
    fails(test_a_slope_is_a_forecast, edited)


def test_a_slope_is_a_forecast__but_not_to_one_percent_of_a_power_of_4(
    snippet, fails
):
    edited = snippet.edit(DO_THIS, DO_THIS.replace("square()", "pow(4)"))
    edited = edited.edit(NEARBY, NEARBY.replace("square()", "pow(4)"))
    fails(test_a_slope_is_a_forecast, edited)


def test_a_slope_is_a_forecast__but_not_of_a_change_of_the_fee(snippet, fails):
    edited = snippet.edit(NEARBY, "(rate * km + fee + step - paid).square()")
    fails(test_a_slope_is_a_forecast, edited)


def test_a_forecast_is_for_small_steps(snippet):
    run = snippet.after("forecast")

    assert run.forecasts[2.0] == 2 * run.rate.grad == -36
    assert run.changes[2.0] == 0


def test_a_forecast_is_for_small_steps__but_not_where_the_loss_is_a_line(
    snippet, fails
):
    edited = snippet.edit(
        DO_THIS,
        DO_THIS.replace("(fare - paid).square()", "6 * (paid - fare)"),
    ).edit(NEARBY, "6 * (paid - (rate + step) * km - fee)")
    fails(test_a_forecast_is_for_small_steps, edited)


def test_a_forecast_is_for_small_steps__but_not_of_twice_the_loss(
    snippet, fails
):
    edited = snippet.edit(
        DO_THIS, DO_THIS.replace("(fare - paid)", "2 * (fare - paid)")
    ).edit(NEARBY, f"2 * {NEARBY}")
    fails(test_a_forecast_is_for_small_steps, edited)


# How it works


def named(run):
    """Return the arrows by the names of their ends, with a single slope."""
    found = {}
    for (start, end), slopes in run.arrows.items():
        name = run.label(start), run.label(end)
        assert name not in found
        [found[name]] = slopes
    return found


def test_the_graph_ends_at_rate_and_fee__also_where_paths_join(snippet):
    levels = 24
    joins = f"for _ in range({levels}):\n    fare = fare + fare\n"
    lines = WALK.splitlines(keepends=True)
    run = snippet.edit(WALK, lines[0] + joins + "".join(lines[1:])).after(
        "walk"
    )
    doubled = [each for each in run.arrows.values() if each == [1, 1]]
    assert len(doubled) == levels
    starts, ends = zip(*run.arrows, strict=True)
    last = {run.label(node) for node in {*ends} - {*starts}}
    assert last == {"rate", "fee"}


def test_the_graph_ends_at_rate_and_fee(snippet):
    arrows = named(snippet.after("walk"))

    starts = {start for start, _ in arrows}
    ends = {end for _, end in arrows}
    assert starts - ends == {"loss: Pow"}
    assert ends - starts == {"rate", "fee"}


@pytest.mark.parametrize("name", ["rate", "fee"])
def test_the_graph_ends_at_rate_and_fee__but_not_past_a_detach(
    snippet, name, fails
):
    edited = snippet.edit(WALK, WALK.replace(name, f"{name}.detach()"))
    fails(test_the_graph_ends_at_rate_and_fee, edited)


@pytest.mark.parametrize("number", ["3.0", "10.0"], ids=["km", "paid"])
def test_the_graph_ends_at_rate_and_fee__but_not_when_another_asks(
    snippet, number, fails
):
    edited = snippet.edit(
        f"torch.tensor({number})",
        f"torch.tensor({number}, requires_grad=True)",
    )
    fails(test_the_graph_ends_at_rate_and_fee, edited)


def nodes_of(result):
    """Return the nodes behind a result, and the pairs that arrows join."""
    nodes, pairs, waiting = [], [], [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node in nodes:
            continue
        nodes.append(node)
        for each, _ in node.next_functions:
            if each is not None:
                pairs.append((node, each))
                waiting.append(each)
    return nodes, pairs


def test_backward_follows_the_arrows(snippet):
    run = snippet.after("walk")
    visited = []
    for node in nodes_of(run.loss)[0]:
        name = run.label(node)
        node.register_hook(lambda *_, name=name: visited.append(name))

    run.loss.backward()

    arrows = named(run)
    assert set(visited) == {name for arrow in arrows for name in arrow}
    for start, end in arrows:
        assert visited.index(start) < visited.index(end)


@pytest.mark.parametrize("kind", ["diamond", "layers", "recurrent"])
def test_backward_follows_the_arrows__also_in_other_graphs(kind):
    x = torch.randn(3, 2, requires_grad=True)
    if kind == "diamond":
        loss = (x.exp() * x.sin() + x.exp().cos()).sum()
    elif kind == "layers":
        loss = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))(x)
        loss = loss.mean()
    else:
        loss = nn.LSTM(2, 3)(x)[0].square().sum()
    nodes, pairs = nodes_of(loss)
    visited = []
    for node in nodes:
        node.register_hook(lambda *_, node=node: visited.append(node))

    loss.backward()

    assert len(visited) == len(nodes)
    for start, end in pairs:
        assert visited.index(start) < visited.index(end)


def test_backward_follows_the_arrows__but_not_turned_around(snippet, fails):
    edited = snippet.edit(
        "setdefault((node, each), [])", "setdefault((each, node), [])"
    )
    fails(test_backward_follows_the_arrows, edited)


def test_each_step_has_its_own_slope(snippet):
    assert named(snippet.after("walk")) == {
        ("loss: Pow", "Sub"): 2 * (7 - 10),
        ("Sub", "fare: Add"): 1,
        ("fare: Add", "Mul"): 1,
        ("fare: Add", "fee"): 1,
        ("Mul", "rate"): 3,
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("square()", "pow(3)"),
        ("fare - paid", "paid - fare"),
        ("rate * km + fee", "torch.add(rate * km, fee, alpha=2)"),
        ("rate * km + fee", "torch.add(fee, rate * km, alpha=2)"),
        ("rate * km", "rate.detach() * km.requires_grad_()"),
    ],
    ids=[
        *("square", "subtraction", "addition of 2 fees"),
        *("addition of 2 products", "product"),
    ],
)
def test_each_step_has_its_own_slope__but_not_of_another(
    snippet, old, new, fails
):
    edited = snippet.edit(WALK, WALK.replace(old, new))
    fails(test_each_step_has_its_own_slope, edited)


def products(arrows, start, end):
    """Return the product of the slopes along each path."""
    if start == end:
        return [1.0]
    return [
        slope * rest
        for (one, other), slope in arrows.items()
        if one == start
        for rest in products(arrows, other, end)
    ]


def test_multiply_along_a_path(snippet):
    run = snippet.after("walk")
    arrows = named(run)

    assert products(arrows, "loss: Pow", "rate") == [-6 * 1 * 1 * 3]
    assert products(arrows, "loss: Pow", "fee") == [-6]
    assert run.rate.grad == -18
    assert run.fee.grad == -6


@pytest.mark.parametrize("rate", ["1.5", "-4.0", "0.0"])
def test_multiply_along_a_path__also_from_another_guess(snippet, rate):
    edited = snippet.edit(
        "rate = torch.tensor(2.0", f"rate = torch.tensor({rate}"
    )
    run = edited.after("walk")
    arrows = named(run)

    assert products(arrows, "loss: Pow", "rate") == [run.rate.grad]
    assert products(arrows, "loss: Pow", "fee") == [run.fee.grad]


@pytest.mark.parametrize("name", ["rate", "fee"])
def test_multiply_along_a_path__but_not_where_two_paths_lead(
    snippet, name, fails
):
    edited = snippet
    for old in (DO_THIS, WALK):
        edited = edited.edit(old, old.replace("+ fee", f"+ fee + {name}"))
    fails(test_multiply_along_a_path, edited)


def test_multiply_along_a_path__but_not_in_the_gradient_of_another_loss(
    snippet, fails
):
    edited = snippet.edit(DO_THIS, DO_THIS.replace("loss.b", "(2 * loss).b"))
    fails(test_multiply_along_a_path, edited)


@pytest.mark.parametrize("name", ["rate", "fee"])
def test_multiply_along_a_path__but_not_where_a_hook_changes(
    snippet, name, fails
):
    hook = f"{name}.register_hook(lambda slope: 2 * slope)\nloss.b"
    edited = snippet.edit(DO_THIS, DO_THIS.replace("loss.b", hook))
    fails(test_multiply_along_a_path, edited)


def test_add_over_paths(snippet):
    assert snippet.after("two-paths").price.grad == 3 + 4


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c: a * b * c,
        lambda a, b, c: (a + b) @ c.T,
        lambda a, b, c: torch.cat([a, 2 * b, c.square()]),
        lambda a, b, c: torch.where(a > 2, a * b, 3 * c),
    ],
    ids=["product", "matmul", "cat", "where"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_add_over_paths__also_through(function, dtype):
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype)
    shared = values.clone().requires_grad_()
    apart = [values.clone().requires_grad_() for _ in range(3)]

    function(shared, shared, shared).sum().backward()
    function(*apart).sum().backward()

    assert torch.equal(shared.grad, sum(each.grad for each in apart))


def test_add_over_paths__also_over_the_rows_of_a_batch():
    fee = torch.tensor(1.0, requires_grad=True)

    (torch.zeros(5, 2) + fee).sum().backward()

    assert fee.grad == 5 * 2


@pytest.mark.parametrize("part", ["there", "back"])
def test_add_over_paths__but_not_over_a_detached_one(snippet, part, fails):
    edited = snippet.edit(
        "(there + back).backward()",
        f"{part} = {part}.detach()\n(there + back).backward()",
    )
    fails(test_add_over_paths, edited)


def test_grad_fn_returns_the_slope(snippet):
    run = snippet.after("record")

    assert run.slope == slope_of(lambda x: x**2, (run.fare - run.paid).item())
    assert run.slope == -6


@pytest.mark.parametrize("name", ["sin", "exp", "sqrt", "tanh", "square"])
def test_grad_fn_returns_the_slope__also_of(name):
    x = torch.tensor(2.0, requires_grad=True)
    result = getattr(x, name)()

    slope = result.grad_fn(torch.tensor(1.0))

    (expected,) = torch.autograd.grad(result, x)
    assert slope == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("loss.grad_fn(torch.tensor(1.0))", "loss.grad_fn(torch.tensor(2.0))"),
        (WALK, WALK.replace("square()", "pow(3)")),
    ],
    ids=["when called with 2", "of a cube"],
)
def test_grad_fn_returns_the_slope__but_not(snippet, old, new, fails):
    fails(test_grad_fn_returns_the_slope, snippet.edit(old, new))


def test_a_leaf_has_no_grad_fn(snippet):
    run = snippet.after("record")

    assert run.rate.requires_grad
    assert not run.km.requires_grad
    for leaf in (run.rate, run.km):
        assert leaf.grad_fn is None
        assert leaf.is_leaf
    assert run.fare == run.rate * run.km + run.fee
    assert run.fare.grad_fn is not None
    assert not run.fare.is_leaf


def test_a_leaf_has_no_grad_fn__also_among_other_tensors():
    weight = nn.Linear(2, 2).weight
    with torch.no_grad():
        unrecorded = weight * 2
    for leaf in (weight, weight.detach(), unrecorded, torch.ones(2) * 3):
        assert leaf.is_leaf
        assert leaf.grad_fn is None
    for computed in (weight.T, weight[0], weight.clone(), weight + 1):
        assert not computed.is_leaf
        assert computed.grad_fn is not None


@pytest.mark.parametrize("name", ["rate", "km"])
def test_a_leaf_has_no_grad_fn__but_a_computed_tensor_has(
    snippet, name, fails
):
    edited = snippet.edit("print(fare)\n", f"{name} = rate * {name}\n")
    fails(test_a_leaf_has_no_grad_fn, edited)


def test_a_leaf_has_no_grad_fn__but_km_may_require_gradients(snippet, fails):
    edited = snippet.edit(
        "km, paid = torch.tensor(3.0)",
        "km, paid = torch.tensor(3.0, requires_grad=True)",
    )
    fails(test_a_leaf_has_no_grad_fn, edited)


def test_a_leaf_has_no_grad_fn__but_nor_has_a_detached_result(snippet, fails):
    edited = snippet.edit(
        'print(fare)\nprint("fare:", fare.grad_fn.name(),',
        'fare = fare.detach()\nprint("fare:", fare.grad_fn,',
    )
    fails(test_a_leaf_has_no_grad_fn, edited)


@pytest.mark.parametrize("before", [None, 100.0])
def test_autograd_grad_returns_the_slopes(snippet, before):
    names = "rate, fee, km, paid"
    kept = "None" if before is None else f"torch.tensor({before})"
    run = snippet.edit(
        "# %% grad\n",
        f"# %% grad\nfor leaf in ({names}):\n    leaf.grad = {kept}\n\n",
    ).after("grad")

    assert run.rate_slope == slope_of(lambda x: taxi(x, 1), 2)
    assert run.fee_slope == slope_of(lambda x: taxi(2, x), 1)
    for leaf in (run.rate, run.fee, run.km, run.paid):
        assert leaf.grad == before


def test_autograd_grad_returns_the_slopes__also_of_computed_tensors():
    layer = nn.Linear(3, 2)
    hidden = layer(torch.randn(4, 3))

    slopes = torch.autograd.grad(
        hidden.square().sum(), [hidden, layer.weight, layer.bias]
    )

    assert [each.shape for each in slopes] == [(4, 2), (2, 3), (2,)]
    assert torch.equal(slopes[0], 2 * hidden)
    for slope, each in zip(slopes[1:], layer.parameters(), strict=True):
        assert slope.shape == each.shape
    assert layer.weight.grad is None
    assert layer.bias.grad is None


@pytest.mark.parametrize(
    "new",
    ["grad(loss, [fee, rate])", "grad(2 * loss, [rate, fee])"],
    ids=["in another order", "of another loss"],
)
def test_autograd_grad_returns_the_slopes__but_not(snippet, new, fails):
    edited = snippet.edit("grad(loss, [rate, fee])", new)
    fails(test_autograd_grad_returns_the_slopes, edited, None)


GRAD = "loss = (rate * km + fee - paid).square()\nrate_slope,"


@pytest.mark.parametrize("name", ["rate", "fee", "km"])
def test_autograd_grad_returns_the_slopes__but_backward_stores_one(
    snippet, name, fails
):
    backward = (
        f"loss.backward(inputs=[{name}], retain_graph=True)\nrate_slope,"
    )
    edited = snippet.edit(
        GRAD,
        f"{name}.requires_grad_()\n{GRAD}".replace("rate_slope,", backward),
    )
    fails(test_autograd_grad_returns_the_slopes, edited, None)


def test_a_slope_has_a_slope(snippet):
    run = snippet.after("second")

    assert run.slope.grad_fn is not None
    assert run.slope == -18
    assert run.bend == 2 * 3**2


@pytest.mark.parametrize("power", [2, 3, 4])
def test_a_slope_has_a_slope__also_for_a_power_of(power):
    x = torch.tensor([1.0, 2.0, -3.0], requires_grad=True)
    (slope,) = torch.autograd.grad(x.pow(power).sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x)

    assert torch.equal(bend, power * (power - 1) * x.detach() ** (power - 2))


def test_a_slope_has_a_slope__but_not_without_create_graph(snippet, fails):
    edited = snippet.edit("rate, create_graph=True)", "rate)").edit(
        "(bend,) = torch.autograd.grad(slope, rate)", "bend = slope"
    )
    fails(test_a_slope_has_a_slope, edited)


def test_a_slope_has_a_slope__but_not_along_the_fee(snippet, fails):
    edited = snippet.edit("grad(slope, rate)", "grad(slope, fee)")
    fails(test_a_slope_has_a_slope, edited)


# What goes wrong


def raised_by(call):
    """Return the text of the error that a call raises."""
    with pytest.raises(RuntimeError) as met:
        call()
    return str(met.value)


def test_gradients_add_up(snippet):
    run = snippet.after("add-up")

    assert run.rate.grad == -18 - 18
    assert run.fee.grad == -6 - 6
    # It was backward that added: the graph of this loss is used up.
    assert "a second time" in raised_by(run.loss.backward)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.cfloat])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
def test_gradients_add_up__also_in_other_shapes(shape, dtype, create_graph):
    leaf = torch.ones(shape, dtype=dtype, requires_grad=True)
    leaf.grad = torch.full(shape, 100.0, dtype=dtype)

    (5 * leaf).sum().abs().backward(create_graph=create_graph)

    assert torch.equal(leaf.grad, torch.full(shape, 105.0, dtype=dtype))


ADD_UP = "# %% add-up\n# Wrong on purpose: do not copy.\n"


def test_gradients_add_up__but_not_when_cleared_first(snippet, fails):
    edited = snippet.edit(ADD_UP, f"{ADD_UP}rate.grad = None\n")
    fails(test_gradients_add_up, edited)


def test_gradients_add_up__but_not_at_a_fee_filled_with_zeros(snippet, fails):
    edited = snippet.edit(ADD_UP, f"{ADD_UP}fee.grad.zero_()\n")
    fails(test_gradients_add_up, edited)


def test_none_starts_afresh(snippet):
    run = snippet.after("clear")

    assert run.rate.grad == -18
    assert run.fee.grad == -6


CLEAR = "rate.grad = None\nfee.grad = None\nloss = ("


@pytest.mark.parametrize("name", ["rate", "fee"])
def test_none_starts_afresh__but_not_without_it(snippet, name, fails):
    edited = snippet.edit(CLEAR, CLEAR.replace(f"{name}.grad = None\n", ""))
    fails(test_none_starts_afresh, edited)


def test_a_graph_saves_what_slopes_need(snippet):
    run = snippet.after("walk")
    saved = getattr(run.loss.grad_fn, "_saved_self", None)

    assert saved is not None
    assert saved == run.fare - run.paid == -3
    assert run.loss.grad_fn(torch.tensor(1.0)) == 2 * saved


@pytest.mark.parametrize(
    "new",
    ["(fare - paid).neg()", "(fare - paid).abs()", "(paid - fare).square()"],
    ids=["a negation", "an absolute value", "a difference turned around"],
)
def test_a_graph_saves_what_slopes_need__but_not_of(snippet, new, fails):
    edited = snippet.edit(WALK, WALK.replace("(fare - paid).square()", new))
    fails(test_a_graph_saves_what_slopes_need, edited)


ONCE = 'loss.backward()\n\nprint("rate:", rate.grad)\n\n# %% again'


def test_a_second_pass_raises(snippet):
    error = raised_in(snippet, "again")

    assert isinstance(error, RuntimeError)
    assert "backward through the graph a second time" in str(error)
    run = snippet.after("again")
    assert run.rate.grad == -18
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = run.loss.grad_fn._saved_self


@pytest.mark.parametrize("name", ["exp", "square", "tanh", "sqrt", "relu"])
def test_a_second_pass_raises__also_through(name):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    result = getattr(x, name)().sum()
    result.backward()

    with pytest.raises(RuntimeError, match="a second time"):
        result.backward()


def test_a_second_pass_raises__also_through_a_shared_part():
    layer = nn.Linear(2, 2)
    hidden = layer(torch.randn(3, 2))
    hidden.sum().backward()

    with pytest.raises(RuntimeError, match="a second time"):
        hidden.mean().backward()


def test_a_second_pass_raises__also_through_a_constant_factor():
    x = torch.tensor(2.0, requires_grad=True)
    result = 5 * x
    result.backward()

    with pytest.raises(RuntimeError, match="a second time"):
        result.backward()


def test_a_second_pass_raises__but_not_through_a_retained_graph(
    snippet, fails
):
    edited = snippet.edit(
        ONCE, ONCE.replace("backward()", "backward(retain_graph=True)")
    )
    fails(test_a_second_pass_raises, edited)


def test_a_second_pass_raises__but_not_through_a_new_loss(snippet, fails):
    again = "# %% again\n# Wrong on purpose: do not copy.\n"
    edited = snippet.edit(
        again, f"{again}loss = (rate * km + fee - paid).square()\n"
    )
    fails(test_a_second_pass_raises, edited)


def test_a_retained_graph_serves_again(snippet):
    before = snippet.after("again").fee.grad
    passed, backward = [], torch.Tensor.backward

    def passes(loss, **options):
        passed.append((loss, options))
        backward(loss, **options)

    with no_error(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "backward", passes)
        run = snippet.after("retain")

    (first, kept), (second, _) = passed[-2:]
    assert first is second is run.loss  # one graph served twice
    assert kept == {"retain_graph": True}
    assert run.rate.grad == -18 - 18
    assert run.fee.grad - before == -6 - 6


def test_a_retained_graph_serves_again__also_in_a_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4))
    loss = model(torch.randn(5, 3)).square().sum()
    loss.backward(retain_graph=True)
    first = [each.grad.clone() for each in model.parameters()]
    loss.backward()

    for each, grad in zip(model.parameters(), first, strict=True):
        torch.testing.assert_close(each.grad, 2 * grad)


def test_a_retained_graph_serves_again__but_not_if_not_kept(snippet, fails):
    edited = snippet.edit(
        "loss.backward(retain_graph=True)", "loss.backward()"
    )
    fails(test_a_retained_graph_serves_again, edited)


@pytest.mark.parametrize("name", ["rate", "fee"])
def test_a_retained_graph_serves_again__but_adds_nothing_to_a_cleared(
    snippet, name, fails
):
    edited = snippet.edit(
        "(retain_graph=True)\n", f"(retain_graph=True)\n{name}.grad = None\n"
    )
    fails(test_a_retained_graph_serves_again, edited)


def test_nothing_to_differentiate_raises(snippet):
    error = raised_in(snippet, "cut")

    assert isinstance(error, RuntimeError)
    assert "does not require grad" in str(error)
    run = snippet.after("cut")
    assert run.loss == taxi(2, 1)
    assert not run.loss.requires_grad


@pytest.mark.parametrize(
    "loss",
    [
        torch.tensor(1.0),
        torch.ones(1),
        torch.tensor(3),
        torch.ones(2, requires_grad=True).detach().sum(),
        (torch.ones(2, requires_grad=True) > 0).all(),
        torch.no_grad()(torch.sum)(torch.ones(2, requires_grad=True)),
    ],
    ids=["float", "shape_1", "integer", "detached", "boolean", "no_grad"],
)
def test_nothing_to_differentiate_raises__also_on(loss):
    assert not loss.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        loss.backward()


@pytest.mark.parametrize(
    ("old", "new"),
    [("rate.item() * km", "rate * km"), ("fee.item()", "fee")],
    ids=["rate", "fee"],
)
def test_nothing_to_differentiate_raises__but_not_with_a_graph(
    snippet, old, new, fails
):
    fails(test_nothing_to_differentiate_raises, snippet.edit(old, new))


def test_nothing_to_differentiate_raises__but_not_once_the_loss_requires_them(
    snippet, fails
):
    edited = snippet.edit(
        "fee.item()\nloss = (fare - paid).square()",
        "fee.item()\nloss = (fare - paid).square().requires_grad_()",
    )
    fails(test_nothing_to_differentiate_raises, edited)


@pytest.mark.filterwarnings("ignore:To copy construct:UserWarning")
def test_a_cut_part_gets_none(snippet):
    with no_error():
        run = snippet.after("one-path-cut")
    product = (run.rate * run.km).detach()

    assert list(run.grads) == list(run.ways) == [*CUTS.values(), "t.round()"]
    for way, grads in run.grads.items():
        assert (grads["rate.grad"] is None) == (way != "t.round()"), way
    # The ways are what the table calls them.
    rows = [product, torch.tensor(4.5), torch.tensor([4.5, 7.0, 5.5])]
    for way, cut in run.ways.items():
        plain = "1 * t" if way == "no_grad" else way
        for row in rows[:2] if way == "t.item()" else rows:
            named = eval(plain, {"torch": torch, "t": row})
            assert type(cut(row)) is type(named)
            assert numpy.array_equal(cut(row), named)
        left = float(cut(product)) + run.fee - run.paid
        assert run.grads[way]["fee.grad"] == 2 * left


@pytest.mark.parametrize("way", CUTS.values(), ids=CUTS)
@pytest.mark.filterwarnings("ignore:To copy construct:UserWarning")
def test_a_cut_part_gets_none__also_of_many_numbers(snippet, way):
    cut = snippet.after("ways").ways[way]
    for dtype in (torch.float16, torch.float32, torch.float64):
        for shape in ((3,), (2, 2), (1, 1)):
            weight = torch.full(shape, 6.0, dtype=dtype, requires_grad=True)
            other = torch.ones(shape, dtype=dtype, requires_grad=True)
            part = (weight * 2).sum() if way == "t.item()" else weight * 2

            (torch.as_tensor(cut(part)) * other).sum().backward()

            assert weight.grad is None
            assert other.grad is not None


@pytest.mark.parametrize("way", CUTS.values(), ids=CUTS)
def test_a_cut_part_gets_none__but_not_in_the_graph(snippet, way, fails):
    line = next(
        each for each in snippet.text.splitlines() if f'    "{way}": ' in each
    )
    edited = snippet.edit(line, f'    "{way}": lambda t: 1 * t,')
    fails(test_a_cut_part_gets_none, edited)


def test_a_cut_part_gets_none__but_so_does_round_past_a_cut(snippet, fails):
    edited = snippet.edit("lambda t: t.round()", "lambda t: t.tolist()")
    fails(test_a_cut_part_gets_none, edited)


def test_a_cut_part_gets_none__but_backward_raises_if_the_fee_is_cut_too(
    snippet, fails
):
    edited = snippet.edit("(part + fee - paid)", "(part + fee.item() - paid)")
    fails(test_a_cut_part_gets_none, edited)


def test_a_cut_part_gets_none__but_does_over_another_path(snippet, fails):
    edited = snippet.edit(
        "(part + fee - paid).square()", "(part + fee + rate - paid).square()"
    )
    fails(test_a_cut_part_gets_none, edited)


def test_only_a_copy_warns(snippet):
    run = snippet.after("one-path-cut")

    assert list(run.warned) == list(run.ways)
    assert [way for way in run.warned if run.warned[way]] == [
        "torch.tensor(t)"
    ]


def test_only_a_copy_warns__but_not_one_made_by_clone(snippet, fails):
    edited = snippet.edit("torch.tensor(t),", "t.detach().clone(),")
    fails(test_only_a_copy_warns, edited)


def test_only_a_copy_warns__but_not_where_another_way_copies(snippet, fails):
    edited = snippet.edit("lambda t: t.item()", "lambda t: torch.tensor(t)")
    fails(test_only_a_copy_warns, edited)


def test_rounding_gives_zeros(snippet):
    run = snippet.after("one-path-cut")

    assert run.grads["t.round()"]["rate.grad"] is not None
    assert run.grads["t.round()"]["rate.grad"] == 0


@pytest.mark.parametrize("options", [{}, {"decimals": 1}, {"decimals": -1}])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.double])
@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_rounding_gives_zeros__also_for(options, dtype, shape):
    leaf = torch.randn(shape).to(dtype).requires_grad_()

    leaf.round(**options).sum().backward()

    assert torch.equal(leaf.grad, torch.zeros(shape, dtype=dtype))


@pytest.mark.parametrize(
    "new",
    ["t.detach().round()", "t + (t.round() - t).detach()"],
    ids=["None past a detach", "a slope of 1 straight through"],
)
def test_rounding_gives_zeros__but(snippet, new, fails):
    edited = snippet.edit("lambda t: t.round()", f"lambda t: {new}")
    fails(test_rounding_gives_zeros, edited)


def test_backward_starts_from_one_number(snippet):
    error = raised_in(snippet, "many")

    assert isinstance(error, RuntimeError)
    assert "only for scalar outputs" in str(error)


@pytest.mark.parametrize("shape", [(2,), (1, 2), (3, 4)])
@pytest.mark.parametrize("dtype", [torch.half, torch.double, torch.cfloat])
def test_backward_starts_from_one_number__also_in_shapes(shape, dtype):
    leaf = torch.ones(shape, dtype=dtype, requires_grad=True)

    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (2 * leaf).backward()


@pytest.mark.parametrize("shape", ["()", "(1,)", "(1, 1)"])
def test_backward_starts_from_one_number__but_not_where_there_is_one(
    snippet, shape, fails
):
    edited = snippet.edit(
        "losses = (rate * rides + fee - bills).square()",
        "losses = (rate * rides + fee - bills).square().sum()"
        f".reshape({shape})",
    )
    fails(test_backward_starts_from_one_number, edited)


def test_backward_starts_from_one_number__but_not_with_weights(snippet, fails):
    edited = snippet.edit(
        "    losses.backward()", "    losses.backward(bills)"
    )
    fails(test_backward_starts_from_one_number, edited)


def test_a_mean_averages_the_slopes(snippet):
    run = snippet.edit(
        "# %% mean\n", "# %% mean\nrate.grad = torch.tensor(100.0)\n"
    ).after("mean")

    slopes = [
        slope_of(lambda x, km=km, paid=paid: taxi(x, 1, km, paid), 2)
        for km, paid in zip(
            run.rides.tolist(), run.bills.tolist(), strict=True
        )
    ]
    assert slopes[0] != slopes[1]
    assert run.rate.grad == pytest.approx(sum(slopes) / len(slopes))


@pytest.mark.parametrize("seed", range(3))
def test_a_mean_averages_the_slopes__also_in_a_layer(seed):
    torch.manual_seed(seed)
    layer = nn.Linear(3, 2)
    losses = layer(torch.randn(7, 3)).exp().sum(1)
    slopes = [
        torch.autograd.grad(each, layer.weight, retain_graph=True)[0]
        for each in losses
    ]

    losses.mean().backward()

    mean = torch.stack(slopes).mean(0)
    torch.testing.assert_close(layer.weight.grad, mean)


@pytest.mark.parametrize("name", ["sum", "max", "min", "median", "prod"])
def test_a_mean_averages_the_slopes__but_not_the(snippet, name, fails):
    edited = snippet.edit("losses.mean()", f"losses.{name}()")
    fails(test_a_mean_averages_the_slopes, edited)


@pytest.mark.parametrize("number", ["2", "-7", "[1, 0]", "True", "[False]"])
def test_integers_cannot_require_gradients(snippet, number):
    if number != "2":
        snippet = snippet.edit("tensor(2, req", f"tensor({number}, req")
    error = raised_in(snippet, "integers")

    assert isinstance(error, RuntimeError)
    assert "floating point and complex dtype" in str(error)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_cannot_require_gradients__also_of(dtype):
    dtype = getattr(torch, dtype)
    plain = torch.tensor([1, 0], dtype=dtype)
    calls = [
        lambda: torch.tensor([1, 0], dtype=dtype, requires_grad=True),
        lambda: torch.zeros(2, dtype=dtype, requires_grad=True),
        plain.requires_grad_,
        lambda: setattr(plain, "requires_grad", True),
        lambda: nn.Parameter(plain),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="can require gradients"):
            call()


@pytest.mark.parametrize(
    "number",
    ["2.0", "2j", "[1, 0.5]"],
    ids=["a fraction", "a complex number", "a list with a fraction"],
)
def test_integers_cannot_require_gradients__but_not(snippet, number, fails):
    fails(test_integers_cannot_require_gradients, snippet, number)


@pytest.mark.parametrize(
    "dtype",
    ["float16", "bfloat16", "float64", "cdouble"],
    ids=["float16", "bfloat16", "float64", "complex128"],
)
@pytest.mark.parametrize(
    "number", ["2", "True"], ids=["an integer", "a truth value"]
)
def test_integers_cannot_require_gradients__but_not_of_a_suitable_dtype(
    snippet, number, dtype, fails
):
    edited = snippet.edit(
        "requires_grad=True)\nexcept",
        f"requires_grad=True, dtype=torch.{dtype})\nexcept",
    )
    fails(test_integers_cannot_require_gradients, edited, number)


START = "start = torch.tensor(2.0, requires_grad=True).double()"


def test_a_moved_leaf_is_computed(snippet):
    run = snippet.after("not-kept")

    assert run.start.dtype == torch.double
    assert run.start.grad_fn is not None
    assert not run.start.is_leaf


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("float32", "float64"),
        ("float32", "float16"),
        ("float16", "bfloat16"),
        ("float64", "float32"),
    ],
)
def test_a_moved_leaf_is_computed__also_to(before, after, shape):
    for leaf in (
        torch.ones(shape, dtype=getattr(torch, before), requires_grad=True),
        nn.Parameter(torch.ones(shape, dtype=getattr(torch, before))),
    ):
        for moved in (leaf.to(getattr(torch, after)), leaf.to("meta")):
            assert moved.grad_fn is not None
            assert leaf.grad_fn is None


@pytest.mark.cuda
def test_a_moved_leaf_is_computed__also_on_a_gpu():
    leaf = torch.ones(3, requires_grad=True)

    for moved in (leaf.to("cuda"), leaf.cuda()):
        assert moved.grad_fn is not None


@pytest.mark.parametrize(
    "new",
    [
        "start = torch.tensor(2.0).double().requires_grad_()",
        START.replace("2.0, ", "2.0, dtype=torch.double, "),
        "start = torch.tensor(2.0).double()",
        f"with torch.no_grad():\n    {START}\nstart.requires_grad_()",
    ],
    ids=[
        *("if asked last", "if double before", "if nothing is asked"),
        "where recording is off",
    ],
)
def test_a_moved_leaf_is_computed__but_not(snippet, new, fails):
    fails(test_a_moved_leaf_is_computed, snippet.edit(START, new))


def test_a_computed_tensor_keeps_no_gradient(snippet):
    run = snippet.after("not-kept")

    assert run.missing is None
    assert [each.category for each in run.caught] == [UserWarning]
    assert "not a leaf Tensor" in str(run.caught[0].message)
    # The backward pass did come by.
    before = snippet.after("integers").fee.grad
    assert run.fee.grad - before == slope_of(lambda x: taxi(2, x), 1)


@pytest.mark.parametrize("seed", range(3))
def test_a_computed_tensor_keeps_no_gradient__also_in_a_layer(seed):
    torch.manual_seed(seed)
    hidden = nn.Linear(3, 2)(torch.randn(4, 3))
    hidden.exp().mean().backward()

    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert hidden.grad is None


@pytest.mark.parametrize(
    "new",
    [
        f"{START}\nstart.retain_grad()",
        "start = torch.tensor(2.0).double().requires_grad_()",
    ],
    ids=["is told to retain it", "is a leaf"],
)
def test_a_computed_tensor_keeps_no_gradient__but_does_if_it(
    snippet, new, fails
):
    fails(test_a_computed_tensor_keeps_no_gradient, snippet.edit(START, new))


def test_a_computed_tensor_keeps_no_gradient__but_a_leaf_has_none_unwarned(
    snippet, fails
):
    edited = snippet.edit(
        "    missing = start.grad",
        "    start = start.detach().requires_grad_()\n"
        "    missing = start.grad",
    )
    fails(test_a_computed_tensor_keeps_no_gradient, edited)


LAST = "start = torch.tensor(2.0).double().requires_grad_()\nfare"


def test_asked_last_it_is_a_leaf(snippet):
    run = snippet.after("kept")

    assert run.start.dtype == torch.double
    assert run.start.is_leaf
    assert run.start.grad == slope_of(lambda x: taxi(x, 1), 2)


@pytest.mark.parametrize("change", ["half()", "bfloat16()", "mul(3)", "exp()"])
def test_asked_last_it_is_a_leaf__also_after(change):
    plain = torch.ones(3)
    start = eval(f"plain.{change}", {"plain": plain}).requires_grad_()
    (5 * start).sum().backward()

    assert start.is_leaf
    assert start.grad.tolist() == [5, 5, 5]


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize(
    "new",
    [
        "start = torch.tensor(2.0, requires_grad=True).double()",
        "start = torch.tensor(2.0).double()",
        f"{LAST.removesuffix('fare')}start = start * 1",
    ],
    ids=["if asked first", "if never asked", "if multiplied afterwards"],
)
def test_asked_last_it_is_a_leaf__but_not(snippet, new, fails):
    edited = snippet.edit(LAST, f"{new}\nfare")
    fails(test_asked_last_it_is_a_leaf, edited)


def test_asked_last_it_is_a_leaf__but_gets_no_gradient_past_a_detach(
    snippet, fails
):
    edited = snippet.edit(
        "fare = start * km + fee", "fare = start.detach() * km + fee"
    )
    fails(test_asked_last_it_is_a_leaf, edited)


def test_retain_grad_keeps_the_gradient(snippet):
    run = snippet.after("kept")

    assert run.fare.grad_fn is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run.fare.grad is not None
    assert run.fare.grad == slope_of(lambda x: (x - 10) ** 2, 7)


@pytest.mark.parametrize("seed", range(3))
def test_retain_grad_keeps_the_gradient__also_in_a_model(seed):
    torch.manual_seed(seed)
    hidden = nn.Linear(3, 2)(torch.randn(4, 3))
    hidden.retain_grad()
    hidden.square().sum().backward()

    assert torch.equal(hidden.grad, 2 * hidden)


KEPT = "fare.retain_grad()\n(fare - paid).square().backward()\n"


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize(
    "new",
    [
        "(fare - paid).square().backward()\n",
        "(fare - paid).square().backward()\nfare.retain_grad()\n",
        KEPT.replace("(fare", "(start * km + fee"),
        f"fare.register_hook(lambda slope: 2 * slope)\n{KEPT}",
    ],
    ids=[
        *("unasked", "asked afterwards", "where backward passes by"),
        "where a hook changes it",
    ],
)
def test_retain_grad_keeps_the_gradient__but_not(snippet, new, fails):
    edited = snippet.edit(KEPT, new)
    fails(test_retain_grad_keeps_the_gradient, edited)


# Where it ends


def test_unused_parameters_keep_none(snippet):
    run = snippet.after("model")

    parameters = dict(run.model.named_parameters())
    assert {name.partition(".")[2] for name in parameters} == {
        "weight",
        "bias",
    }
    weight, bias = run.used.weight, run.used.bias
    for each in (weight, bias):
        assert each.grad is not None
        assert each.grad.shape == each.shape
    # The slope of the page's loss, by hand.
    slopes = 2 * (weight.detach() * run.rides + bias.detach() - run.bills)
    torch.testing.assert_close(bias.grad, slopes.mean(1))
    torch.testing.assert_close(
        weight.grad, (slopes * run.rides).mean(1, keepdim=True)
    )
    for each in run.unused.parameters():
        assert each.grad is None


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(4, 4), (2, 4)),
        (nn.Conv1d(4, 4, 3, padding=1), (2, 4, 4)),
        (nn.BatchNorm1d(4), (3, 4)),
        (nn.LayerNorm(4), (3, 4)),
        (nn.GRU(4, 4), (3, 2, 4)),
        (nn.PReLU(), (3, 4)),
    ],
    ids=["linear", "conv", "batch_norm", "layer_norm", "gru", "prelu"],
)
def test_unused_parameters_keep_none__also_in_layers(layer, shape):
    unused = nn.Linear(4, 4)
    frozen = nn.Linear(4, 4).requires_grad_(False)
    model = nn.ModuleList([layer, unused, frozen])
    result = model[0](model[2](torch.randn(shape)))
    result = result[0] if isinstance(result, tuple) else result
    result.square().mean().backward()

    for each in layer.parameters():
        assert each.grad.shape == each.shape
    for each in (*unused.parameters(), *frozen.parameters()):
        assert each.grad is None


@pytest.mark.parametrize("sparse", [False, True])
def test_unused_parameters_keep_none__also_in_an_embedding(sparse):
    used, unused = (nn.Embedding(5, 2, sparse=sparse) for _ in range(2))
    used(torch.tensor([1, 3])).sum().backward()

    assert used.weight.grad.shape == used.weight.shape
    assert unused.weight.grad is None


@pytest.mark.parametrize(
    "arguments",
    ["used.weight.detach(), used.bias", "used.weight, used.bias.detach()"],
    ids=["weight", "bias"],
)
def test_unused_parameters_keep_none__but_so_does_a_detached(
    snippet, arguments, fails
):
    edited = snippet.edit(
        'model["used"](rides.unsqueeze(1))',
        f"torch.nn.functional.linear(rides.unsqueeze(1), {arguments})",
    )
    fails(test_unused_parameters_keep_none, edited)


def test_unused_parameters_keep_none__but_not_where_multiplied_by_0(
    snippet, fails
):
    edited = snippet.edit(
        "(outputs - bills)",
        '(outputs + 0 * model["unused"](bills[:1]) - bills)',
    )
    fails(test_unused_parameters_keep_none, edited)


@pytest.mark.parametrize("part", ["unused.weight[0]", "unused.bias"])
def test_unused_parameters_keep_none__but_not_where_one_is_used(
    snippet, part, fails
):
    edited = snippet.edit("(outputs - bills)", f"(outputs + {part} - bills)")
    fails(test_unused_parameters_keep_none, edited)


def test_grad_of_the_unused_raises(snippet):
    error = raised_in(snippet, "tip")

    assert isinstance(error, RuntimeError)
    assert "used in the graph" in str(error)
    assert "allow_unused=True" in str(error)
    run = snippet.after("tip")
    assert run.fare == run.rate * run.km + run.fee
    assert run.tip.requires_grad


@pytest.mark.parametrize("also", ["fee", "rate"])
def test_grad_of_the_unused_raises__also_beside_a_used_one(snippet, also):
    run = snippet.after("tip")
    with pytest.raises(RuntimeError, match="used in the graph"):
        torch.autograd.grad(
            run.rate * run.km + run.fee, [getattr(run, also), run.tip]
        )


def test_grad_of_the_unused_raises__but_not_once_used(snippet, fails):
    edited = snippet.edit("grad(fare, tip)", "grad(fare * tip, tip)")
    fails(test_grad_of_the_unused_raises, edited)


@pytest.mark.parametrize("option", ["allow_unused", "materialize_grads"])
def test_grad_of_the_unused_raises__but_not_if_told(snippet, option, fails):
    edited = snippet.edit("grad(fare, tip)", f"grad(fare, tip, {option}=True)")
    fails(test_grad_of_the_unused_raises, edited)


def test_allow_unused_returns_none(snippet):
    run = snippet.after("allow-unused")

    assert run.gaps[0] == 3
    assert run.tip.requires_grad
    assert run.gaps[1] is None


def test_allow_unused_returns_none__but_not_materialized(snippet, fails):
    edited = snippet.edit(
        "allow_unused=True)", "allow_unused=True, materialize_grads=True)"
    )
    fails(test_allow_unused_returns_none, edited)


def test_allow_unused_returns_none__but_not_for_a_used_one(snippet, fails):
    edited = snippet.edit(
        "gaps = torch.autograd.grad(fare",
        "gaps = torch.autograd.grad(fare * tip",
    )
    fails(test_allow_unused_returns_none, edited)


@pytest.mark.parametrize("shape", [(3,), (2, 0), (2, 4)])
@pytest.mark.parametrize("dtype", [torch.half, torch.double, torch.cfloat])
def test_allow_unused_returns_none__also_in_shapes(shape, dtype):
    used = torch.ones(2, requires_grad=True)
    unused = torch.ones(shape, dtype=dtype, requires_grad=True)

    for tensor in (unused, 2 * unused, used * 1):
        (gap,) = torch.autograd.grad(used.sum(), tensor, allow_unused=True)
        assert gap is None
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(used.sum(), unused.detach(), allow_unused=True)


# What the sources say


def test_a_seed_repeats_the_gradients(snippet):
    first, second = snippet.after("model"), snippet.after("model")

    for one, other in zip(
        first.used.parameters(), second.used.parameters(), strict=True
    ):
        assert torch.equal(one.grad, other.grad)


def test_a_seed_repeats_the_gradients__but_not_if_called_too_late(
    snippet, fails
):
    layers = "used, unused = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)\n"
    edited = snippet.edit(
        f"torch.manual_seed(0)\n{layers}", f"{layers}torch.manual_seed(0)\n"
    )
    fails(test_a_seed_repeats_the_gradients, edited)


def test_a_seed_repeats_the_gradients__but_not_without_one(snippet, fails):
    edited = snippet.edit("torch.manual_seed(0)\n", "")
    fails(test_a_seed_repeats_the_gradients, edited)


def test_a_hook_reads_the_gradient(snippet):
    run = snippet.after("hook")

    assert run.before == [-6]
    assert run.fare == run.rate * run.km + run.fee == 7


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("is_leaf", [True, False])
def test_a_hook_reads_the_gradient__also_in_other_graphs(shape, is_leaf):
    tensor = torch.ones(shape, requires_grad=True)
    tensor = tensor if is_leaf else tensor * 1
    arrived = []
    tensor.register_hook(arrived.append)

    assert arrived == []
    (5 * tensor + 2 * tensor).sum().backward()
    (5 * torch.ones(shape, requires_grad=True)).sum().backward()

    assert [each.tolist() for each in arrived] == [
        torch.full(shape, 7.0).tolist()
    ]


FIRST_HOOK = "fare.register_hook(before.append)\n"
PASS = "(rate_slope,) = torch.autograd.grad((paid - fare).square(), rate)\n"


@pytest.mark.parametrize(
    ("hook", "made"),
    [
        (
            "gap = paid - fare\ngap.register_hook(before.append)\n",
            PASS.replace("(paid - fare)", "gap"),
        ),
        (f"fare.register_hook(lambda slope: slope / 2)\n{FIRST_HOOK}", PASS),
        (f"(1 * {FIRST_HOOK}".replace("fare", "fare)"), PASS),
        (f"handle = {FIRST_HOOK}handle.remove()\n", PASS),
        ("", f"{PASS}{FIRST_HOOK}"),
        (FIRST_HOOK, PASS.replace("square", "abs")),
    ],
    ids=[
        "on another tensor",
        "behind another hook",
        "off the way",
        "once removed",
        "after the pass",
        "of another loss",
    ],
)
def test_a_hook_reads_the_gradient__but_not_minus_6(
    snippet, hook, made, fails
):
    edited = snippet.edit(PASS, made).edit(
        f"before, after = [], []\n{FIRST_HOOK}",
        f"before, after = [], []\n{hook}",
    )
    fails(test_a_hook_reads_the_gradient, edited)


def test_a_hook_changes_the_gradient(snippet):
    run = snippet.after("hook")

    assert run.before == [-6]
    assert run.after == [-1]
    assert run.rate_slope == -1 * 3
    assert run.km == 3


@pytest.mark.parametrize("factor", [0, -2, 10])
def test_a_hook_changes_the_gradient__also_of_leaves(factor):
    leaf = torch.ones(3, requires_grad=True)
    leaf.register_hook(lambda slope: factor * slope)

    (5 * leaf).sum().backward()

    assert leaf.grad.tolist() == [5 * factor] * 3


CLAMP = "fare.register_hook(lambda slope: slope.clamp(-1, 1))\n"


@pytest.mark.parametrize(
    ("hook", "made"),
    [
        (CLAMP.replace("slope.clamp(-1, 1)", "None"), PASS),
        (CLAMP.replace("(-1, 1)", "(-2, 2)"), PASS),
        ("rate.register_hook(lambda slope: slope.clamp(-3, 3))\n", PASS),
        ("", f"{PASS}rate_slope = rate_slope / 6\n"),
        (CLAMP, PASS.replace("square()", "square() + 5 * rate")),
        (CLAMP, f"fare.register_hook(lambda slope: 2 * slope)\n{PASS}"),
    ],
    ids=[
        "if nothing is returned",
        "if clamped to 2",
        "at rate alone",
        "by hand",
        "with a second path",
        "with a hook behind it",
    ],
)
def test_a_hook_changes_the_gradient__but_not(snippet, hook, made, fails):
    edited = snippet.edit(PASS, made).edit(CLAMP, hook)
    fails(test_a_hook_changes_the_gradient, edited)
