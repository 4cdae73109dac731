"""The claims of docs/autograd/gradients.md."""

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import raised_by, raised_in
from tests.helpers.worlds import DTYPES, TENSORS, each

FIRST_LOSS = """\
prediction = w * x + b
loss = (prediction - y) ** 2
loss.backward()
"""
NEARBY = "((w + step) * x + b - y) ** 2"
STEPS = """\
product = w * x
prediction = product + b
difference = prediction - y
loss = difference**2
"""
SHAPES = pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])


def loss_of(w, b, x=2.0, y=10.0):
    """Return the loss of the page, of plain numbers."""
    return (w * x + b - y) ** 2


def derivative(function, at, step=0.5):
    """Return how fast a function changes: for a parabola, exactly."""
    return (function(at + step) - function(at - step)) / (2 * step)


# Do this


def test_backward_stores_gradients(snippet):
    run = snippet.after("do-this")
    w, b, x, y = (each.item() for each in (run.w, run.b, run.x, run.y))

    assert run.loss == loss_of(w, b, x, y)
    assert run.w.grad == derivative(lambda w: loss_of(w, b, x, y), w)
    assert run.b.grad == derivative(lambda b: loss_of(w, b, x, y), b)
    assert run.x.grad is None


@pytest.mark.parametrize("x", [4.0, 0.0, -2.0])
@pytest.mark.parametrize("w", [1.0, -3.0])
def test_backward_stores_gradients__also_with(snippet, x, w):
    edited = snippet.edit(
        "x, y = torch.tensor(2.0)", f"x, y = torch.tensor({x})"
    )
    edited = edited.edit(
        "w = torch.tensor(3.0, requires_grad=True)\nb",
        f"w = torch.tensor({w}, requires_grad=True)\nb",
    )
    test_backward_stores_gradients(edited)


@each("dtype", DTYPES)
def test_backward_stores_gradients__also_in(snippet, dtype):
    edited = snippet.edit(
        "import torch\n", f"import torch\n\ntorch.set_default_dtype({dtype})\n"
    )
    run = edited.after("do-this")

    assert (run.w.grad, run.b.grad) == (-12, -6)
    assert run.w.grad.dtype == dtype


@edits(
    (
        "of w",
        "prediction = w * x + b",
        "prediction = w.detach() * x + b + 0 * w",
    ),
    (
        "of b",
        "prediction = w * x + b",
        "prediction = w * x + b.detach() + 0 * b",
    ),
)
def test_backward_stores_gradients__but_not_past_a_detach(
    snippet, old, new, fails
):
    """`detach()` hides a number from `backward()`, so its gradient is 0."""
    edited = snippet.edit(FIRST_LOSS, FIRST_LOSS.replace(old, new))
    fails(test_backward_stores_gradients, edited)


def test_backward_stores_gradients__but_also_of_x_when_it_asks(snippet, fails):
    """With `requires_grad=True`, `x` gets a gradient as well."""
    edited = snippet.edit(
        "x, y = torch.tensor(2.0)",
        "x, y = torch.tensor(2.0, requires_grad=True)",
    )
    fails(test_backward_stores_gradients, edited)


@pytest.mark.filterwarnings("ignore:To copy construct:UserWarning")
def test_a_tensor_requires_nothing_by_default(snippet):
    run = snippet.after("do-this")

    assert [each.requires_grad for each in (run.x, run.y)] == [False, False]
    assert [each.requires_grad for each in (run.w, run.b)] == [True, True]
    for data in (2, 2.0, True, 1j, [[1.0, 2.0]], [], run.w, run.prediction):
        assert not torch.tensor(data).requires_grad


def test_a_tensor_requires_nothing_by_default__but_does_when_told(
    snippet, fails
):
    """With `requires_grad=True`, `x` requires gradients from the start."""
    edited = snippet.edit(
        "x, y = torch.tensor(2.0)",
        "x, y = torch.tensor(2.0, requires_grad=True)",
    )
    fails(test_a_tensor_requires_nothing_by_default, edited)


def test_a_tensor_requires_nothing_by_default__ends_at_a_parameter(
    snippet, fails
):
    """A tensor wrapped in `nn.Parameter` requires gradients unasked."""
    edited = snippet.edit(
        "x, y = torch.tensor(2.0),",
        "x, y = torch.nn.Parameter(torch.tensor(2.0)),",
    )
    fails(test_a_tensor_requires_nothing_by_default, edited)


def test_a_gradient_is_a_forecast(snippet, leaf="w"):
    run = snippet.after("forecast")

    for step in (0.01, -0.01):
        forecast = step * getattr(run, leaf).grad.item()
        assert run.changes[step] == pytest.approx(forecast, rel=0.01)
        if leaf == "w":
            assert str(run.forecasts[step]) == str(forecast)


def test_a_gradient_is_a_forecast__also_for_b(snippet):
    edited = snippet.edit(NEARBY, "(w * x + b + step - y) ** 2")
    test_a_gradient_is_a_forecast(edited, "b")


@pytest.mark.parametrize(
    ("count", "price"), [(20, 10), (0, 7)], ids=["in 20 steps", "in none"]
)
def test_a_gradient_is_a_forecast__also_downhill(snippet, count, price):
    run = snippet.edit("range(20)", f"range({count})").after("check")

    assert run.w.is_leaf
    assert run.w.item() * 2 + 1 == pytest.approx(price)
    assert str(run.missed) == str(abs(run.w.item() * 2 + 1 - 10))


def test_a_gradient_is_a_forecast__but_not_of_another_loss(snippet, fails):
    """The gradient of twice the loss forecasts twice the change."""
    edited = snippet.edit(
        FIRST_LOSS, FIRST_LOSS.replace("loss.backward", "(2 * loss).backward")
    )
    fails(test_a_gradient_is_a_forecast, edited)


def test_a_gradient_is_a_forecast__but_not_of_another_number(snippet, fails):
    """Here `b` changes by the step, so the gradient of `w` is no forecast."""
    edited = snippet.edit(NEARBY, "(w * x + b + step - y) ** 2")
    fails(test_a_gradient_is_a_forecast, edited)


@pytest.mark.parametrize("bound", ["max", "min"], ids=["upward", "downward"])
def test_a_gradient_is_a_forecast__ends_at_a_kink(snippet, bound, fails):
    """A loss with a kink at this spot changes in one direction only."""
    kink = f".clamp({bound}=-3) ** 2"
    edited = snippet.edit(
        FIRST_LOSS,
        FIRST_LOSS.replace("(prediction - y) ** 2", f"(prediction - y){kink}"),
    ).edit(NEARBY, NEARBY.replace(" ** 2", kink))
    fails(test_a_gradient_is_a_forecast, edited)


def test_a_gradient_is_a_forecast__ends_where_the_loss_bends_more(
    snippet, fails
):
    """A fourth power bends more: the forecast misses by over 1 percent."""
    edited = snippet.edit(FIRST_LOSS, FIRST_LOSS.replace("** 2", "** 4"))
    edited = edited.edit(NEARBY, NEARBY.replace("** 2", "** 4"))
    fails(test_a_gradient_is_a_forecast, edited)


def test_a_gradient_is_a_forecast__ends_at_the_bottom(snippet, fails):
    """At `w = 4.5` the gradient is 0, but the loss rises a little."""
    old = "w = torch.tensor(3.0, requires_grad=True)\nb"
    edited = snippet.edit(old, old.replace("3.0", "4.5"))
    fails(test_a_gradient_is_a_forecast, edited)


def test_a_gradient_is_a_forecast__ends_in_bfloat16(snippet, fails):
    """In bfloat16, a step of 0.01 is lost in rounding."""
    edited = snippet.edit(
        "import torch\n\nw",
        "import torch\n\ntorch.set_default_dtype(torch.bfloat16)\nw",
    )
    fails(test_a_gradient_is_a_forecast, edited)


def test_a_forecast_is_for_small_steps(snippet):
    run = snippet.after("forecast")

    assert run.forecasts[3.0] == 3 * run.w.grad == -36
    assert run.changes[3.0] == 0


def test_a_forecast_is_for_small_steps__but_not_where_the_loss_is_a_line(
    snippet, fails
):
    """A loss that is a straight line falls by 36, as the forecast says."""
    edited = snippet.edit(
        FIRST_LOSS,
        FIRST_LOSS.replace("(prediction - y) ** 2", "6 * (y - prediction)"),
    ).edit(NEARBY, "6 * (y - (w + step) * x - b)")
    fails(test_a_forecast_is_for_small_steps, edited)


def test_a_forecast_is_for_small_steps__but_not_of_twice_the_loss(
    snippet, fails
):
    """For twice the loss, the forecast is minus 72."""
    edited = snippet.edit(
        FIRST_LOSS,
        FIRST_LOSS.replace(
            "= (prediction - y) ** 2", "= 2 * (prediction - y) ** 2"
        ),
    ).edit(NEARBY, f"2 * {NEARBY}")
    fails(test_a_forecast_is_for_small_steps, edited)


# How it works


def flow_of(run):
    """Return what arrived at the start of each arrow, and what is passed on.

    An arrow is named by its two ends.
    """
    shown = ("loss", "difference", "prediction", "product", "w", "b")
    edge = torch.autograd.graph.get_gradient_edge
    named = {name: getattr(run, name) for name in shown}
    names = {
        edge(tensor).node: name
        for name, tensor in named.items()
        if tensor.requires_grad
    }
    found = {}
    for node, ends in run.arrows.items():
        passed, [arrived] = run.flow.get(node, ([None] * len(ends), [None]))
        for end, number in zip(ends, passed, strict=True):
            if end is not None:
                arrow = names.get(node, node), names.get(end, end)
                assert arrow not in found
                found[arrow] = arrived, number
    return found


def test_the_graph_ends_at_w_and_b(snippet):
    arrows = flow_of(snippet.after("flow"))

    starts = {start for start, _ in arrows}
    ends = {end for _, end in arrows}
    assert starts - ends == {"loss"}
    assert ends - starts == {"w", "b"}


def test_the_graph_ends_at_w_and_b__also_where_paths_join_24_times(snippet):
    joins = "for _ in range(24):\n    product = product + product\n"
    edited = STEPS.replace("prediction =", f"{joins}prediction =")
    run = snippet.edit(STEPS, edited).after("flow")

    pairs = [ends for ends in run.arrows.values() if len(ends) == 2]
    joined = [one for one, other in pairs if one is other]
    assert len(joined) == 24
    ends = {node for node, arrows in run.arrows.items() if not arrows}
    assert {node.variable for node in ends} == {run.w, run.b}


DETACHED = [
    ("w", "w * x", "w.detach() * x"),
    ("b", "product + b", "product + b.detach()"),
]


@pytest.mark.parametrize(("name", "old", "new"), DETACHED, ids=["w", "b"])
def test_the_graph_ends_at_w_and_b__but_not_past_a_detach(
    snippet, name, old, new, fails
):
    """No arrow leads to a number that is detached."""
    edited = snippet.edit(STEPS, STEPS.replace(old, new)).edit(
        "grad(loss, [w, b], retain_graph=True)\n\n# %% draw",
        "grad(loss, [w, b], allow_unused=True)\n\n# %% draw",
    )
    fails(test_the_graph_ends_at_w_and_b, edited)


@pytest.mark.parametrize("number", ["2.0", "10.0"], ids=["x", "y"])
def test_the_graph_ends_at_w_and_b__but_also_at(snippet, number, fails):
    """A tensor that requires gradients becomes an end of the graph, too."""
    line = "x, y = torch.tensor(2.0), torch.tensor(10.0)"
    edited = snippet.edit(
        line, line.replace(f"({number})", f"({number}, requires_grad=True)")
    )
    fails(test_the_graph_ends_at_w_and_b, edited)


def nodes_of(result):
    """Return the nodes behind a result, and the pairs that arrows join."""
    nodes, pairs, waiting = [], [], [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node in nodes:
            continue
        nodes.append(node)
        for earlier, _ in node.next_functions:
            if earlier is not None:
                pairs.append((node, earlier))
                waiting.append(earlier)
    return nodes, pairs


def visits(loss):
    """Return the nodes in the order in which `backward` visits them."""
    visited = []
    for node in nodes_of(loss)[0]:
        node.register_hook(lambda *_, node=node: visited.append(node))
    loss.backward()
    return visited


def test_backward_follows_the_arrows(snippet):
    run = snippet.after("flow")
    visited = visits(run.loss)

    assert set(visited) == set(run.arrows)
    for start, ends in run.arrows.items():
        for end in filter(None, ends):
            assert visited.index(start) < visited.index(end)


@pytest.mark.parametrize(
    "kind", ["paths that join", "layers", "a recurrent layer"]
)
def test_backward_follows_the_arrows__also_through(kind):
    x = torch.randn(3, 2, requires_grad=True)
    if kind == "paths that join":
        loss = (x.exp() * x.sin() + x.exp().cos()).sum()
    elif kind == "layers":
        loss = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))(x)
        loss = loss.mean()
    else:
        loss = nn.LSTM(2, 3)(x)[0].square().sum()
    nodes, pairs = nodes_of(loss)
    visited = visits(loss)

    assert len(visited) == len(nodes)
    for start, end in pairs:
        assert visited.index(start) < visited.index(end)


def test_backward_follows_the_arrows__but_not_if_they_are_reversed(
    snippet, fails
):
    """Reversed arrows lead from `w` and `b` up to the loss."""
    passed = "gradients = torch.autograd.grad(loss, [w, b], "
    edited = snippet.edit(
        passed,
        "reversed_arrows = {node: [] for node in arrows}\n"
        "for node, ends in arrows.items():\n"
        "    for end in filter(None, ends):\n"
        "        reversed_arrows[end].append(node)\n"
        f"arrows = reversed_arrows\n{passed}",
    )
    fails(test_backward_follows_the_arrows, edited)


FACTORS = {
    ("loss", "difference"): 2 * (7 - 10),
    ("difference", "prediction"): 1,
    ("prediction", "product"): 1,
    ("prediction", "b"): 1,
    ("product", "w"): 2,
}


def test_each_step_has_its_own_derivative(snippet):
    flow = flow_of(snippet.after("flow"))
    found = {
        arrow: passed / before for arrow, (before, passed) in flow.items()
    }

    assert found == FACTORS


@pytest.mark.parametrize("name", ["sin", "exp", "sqrt", "tanh", "square"])
def test_each_step_has_its_own_derivative__also_of(name):
    x = torch.tensor(2.0, requires_grad=True)
    result = getattr(x, name)()

    passed = result.grad_fn(torch.tensor(1.0))

    (expected,) = torch.autograd.grad(result, x)
    assert passed == expected


@edits(
    ("a cube for the square", "difference**2", "difference**3"),
    ("the other difference", "prediction - y", "y - prediction"),
    ("b counted twice", "product + b", "torch.add(product, b, alpha=2)"),
    (
        "the product counted twice",
        "product + b",
        "torch.add(b, product, alpha=2)",
    ),
    ("a product with 3", "w * x", "w * (x + 1)"),
)
def test_each_step_has_its_own_derivative__but_not(snippet, old, new, fails):
    """Another step multiplies by another number."""
    edited = snippet.edit(STEPS, STEPS.replace(old, new))
    fails(test_each_step_has_its_own_derivative, edited)


def paths(flow, start, end):
    """Return the product of the factors along each path."""
    if start == end:
        return [1.0]
    return [
        passed / arrived * rest
        for (one, other), (arrived, passed) in flow.items()
        if one == start
        for rest in paths(flow, other, end)
    ]


def test_multiply_along_a_path(snippet):
    run = snippet.after("flow")
    flow = flow_of(run)

    assert flow["loss", "difference"] == (1, -6)
    assert paths(flow, "loss", "w") == [-6 * 1 * 1 * 2]
    assert paths(flow, "loss", "b") == [-6 * 1 * 1]
    assert run.w.grad == -12
    assert run.b.grad == -6


@pytest.mark.parametrize("w", [1.5, -4.0, 0.0])
def test_multiply_along_a_path__also_from(snippet, w):
    old = "w = torch.tensor(3.0, requires_grad=True)\nb"
    run = snippet.edit(old, old.replace("3.0", f"{w}")).after("flow")
    flow = flow_of(run)

    assert paths(flow, "loss", "w") == [run.w.grad]
    assert paths(flow, "loss", "b") == [run.b.grad]


@pytest.mark.parametrize("name", ["w", "b"])
def test_multiply_along_a_path__but_not_where_two_paths_lead(
    snippet, name, fails
):
    """Over a second path, more arrives: one product is not all of it."""
    old = "prediction = w * x + b\nloss"
    edited = snippet.edit(old, old.replace("+ b", f"+ b + {name}"))
    edited = edited.edit(
        STEPS, STEPS.replace("= prediction - y", f"= prediction + {name} - y")
    )
    fails(test_multiply_along_a_path, edited)


def test_multiply_along_a_path__but_not_in_the_gradient_of_another_loss(
    snippet, fails
):
    """`w.grad` holds the gradient of twice the loss."""
    edited = snippet.edit(
        FIRST_LOSS, FIRST_LOSS.replace("loss.backward", "(2 * loss).backward")
    )
    fails(test_multiply_along_a_path, edited)


@pytest.mark.parametrize("name", ["w", "b"])
def test_multiply_along_a_path__but_not_where_a_hook_changes(
    snippet, name, fails
):
    """A hook doubles the gradient on its way."""
    hook = (
        f"{name}.register_hook(lambda gradient: 2 * gradient)\nloss.backward"
    )
    edited = snippet.edit(
        FIRST_LOSS, FIRST_LOSS.replace("loss.backward", hook)
    )
    fails(test_multiply_along_a_path, edited)


def test_add_over_paths(snippet, dtype=torch.float32):
    assert snippet.after("two-paths").rent.grad == 3 + 4
    rent = torch.ones((), dtype=dtype, requires_grad=True)
    sum(rent * 1 for _ in range(300)).backward()
    assert rent.grad == 300


def test_add_over_paths__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`, the 257th path adds nothing, because 257 is rounded to
    256.
    """
    fails(test_add_over_paths, snippet, torch.bfloat16)


def test_add_over_paths__also_over_three_paths(snippet):
    assert snippet.after("predict").a.grad == 3 * 2**2


THREE_USES = {
    "product": lambda a, b, c: a * b * c,
    "matmul": lambda a, b, c: (a + b) @ c.T,
    "cat": lambda a, b, c: torch.cat([a, 2 * b, c.square()]),
    "where": lambda a, b, c: torch.where(a > 2, a * b, 3 * c),
}


@each("function", THREE_USES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_add_over_paths__also_through(function, dtype):
    values = torch.tensor(
        [[1.0, 2.0], [3.0, 4.0]], dtype=getattr(torch, dtype)
    )
    shared = values.clone().requires_grad_()
    apart = [values.clone().requires_grad_() for _ in range(3)]

    function(shared, shared, shared).sum().backward()
    function(*apart).sum().backward()

    assert torch.equal(shared.grad, sum(each.grad for each in apart))


def test_add_over_paths__also_over_the_rows_of_a_batch():
    bias = torch.tensor(1.0, requires_grad=True)

    (torch.zeros(5, 2) + bias).sum().backward()

    assert bias.grad == 5 * 2


@pytest.mark.parametrize("part", ["kitchen", "bedroom"])
def test_add_over_paths__but_not_over_a_detached_one(snippet, part, fails):
    """Nothing comes back over a path that is detached."""
    edited = snippet.edit(
        "(kitchen + bedroom).backward()",
        f"{part} = {part}.detach()\n(kitchen + bedroom).backward()",
    )
    fails(test_add_over_paths, edited)


def test_a_gradient_has_the_shape_of_its_tensor(snippet):
    v = snippet.after("vector").v

    assert v.grad.shape == v.shape == (3,)
    assert v.grad.tolist() == (2 * v).tolist() == [2, 4, 6]


@SHAPES
@each("dtype", DTYPES)
def test_a_gradient_has_the_shape_of_its_tensor__also_for(shape, dtype):
    v = torch.full(shape, 3.0, dtype=dtype, requires_grad=True)
    (v**2).sum().backward()

    assert v.grad.shape == shape
    assert torch.equal(v.grad, 2 * v)


@each(
    "tensor",
    TENSORS,
    *("empty", "transposed", "with gaps", "expanded", "with nan", "with inf"),
)
def test_a_gradient_has_the_shape_of_its_tensor__also_for_one(tensor):
    v = tensor().requires_grad_()
    (v**2).sum().backward()

    torch.testing.assert_close(v.grad, 2 * v.detach(), equal_nan=True)


@edits(
    ("a cube", "(v**2)", "(v**3)"),
    ("a mean", "(v**2).sum()", "(v**2).mean()"),
    ("the first two numbers", "(v**2)", "(v[:2] ** 2)"),
)
def test_a_gradient_has_the_shape_of_its_tensor__but_is_another_for(
    snippet, old, new, fails
):
    """Another function of `v` has another gradient, of the same shape."""
    fails(test_a_gradient_has_the_shape_of_its_tensor, snippet.edit(old, new))


def test_a_leaf_has_no_grad_fn(snippet):
    run = snippet.after("record")

    assert [each.requires_grad for each in (run.w, run.x)] == [True, False]
    for leaf in (run.w, run.x):
        assert leaf.grad_fn is None
        assert leaf.is_leaf
    assert run.prediction == run.w * run.x + run.b
    assert run.prediction.grad_fn is not None
    assert not run.prediction.is_leaf


def test_a_leaf_has_no_grad_fn__also_among_other_tensors():
    weight = nn.Linear(2, 2).weight
    with torch.no_grad():
        unrecorded = weight * 2
    for leaf in (weight, weight.detach(), unrecorded, torch.ones(2) * 3):
        assert leaf.is_leaf
        assert leaf.grad_fn is None
    for non_leaf in (weight.T, weight[0], weight.clone(), weight + 1):
        assert not non_leaf.is_leaf
        assert non_leaf.grad_fn is not None


@pytest.mark.parametrize("name", ["w", "x"])
def test_a_leaf_has_no_grad_fn__but_the_result_of_a_product_has(
    snippet, name, fails
):
    """Multiplied by `w`, it is the result of an operation: no leaf."""
    edited = snippet.edit(
        "# %% record\n", f"# %% record\n{name} = w * {name}\n"
    )
    fails(test_a_leaf_has_no_grad_fn, edited)


def test_a_leaf_has_no_grad_fn__but_x_may_require_gradients(snippet, fails):
    """A leaf may require gradients, as `w` does, or none."""
    old = "# %% record\n"
    edited = snippet.edit(old, f"{old}x.requires_grad_()\n")
    fails(test_a_leaf_has_no_grad_fn, edited)


def test_a_leaf_has_no_grad_fn__but_nor_has_a_detached_result(snippet, fails):
    """`detach()` returns a leaf, although the numbers were computed."""
    edited = snippet.edit(
        'print("prediction:", prediction.grad_fn.name(),',
        "prediction = prediction.detach()\n"
        'print("prediction:", prediction.grad_fn,',
    )
    fails(test_a_leaf_has_no_grad_fn, edited)


@pytest.mark.parametrize(
    "before", [None, 100.0], ids=["an empty `.grad`", "a filled one"]
)
def test_autograd_grad_returns_the_gradients(snippet, before):
    leaves = "for leaf in (w, b, x, y):\n    leaf.grad = "
    kept = "None" if before is None else f"torch.tensor({before})"
    run = snippet.edit("# %% grad\n", f"# %% grad\n{leaves}{kept}\n\n").after(
        "grad"
    )

    assert run.w_gradient == derivative(lambda w: loss_of(w, 1), 3)
    assert run.b_gradient == derivative(lambda b: loss_of(3, b), 1)
    assert [leaf.grad for leaf in (run.w, run.b, run.x, run.y)] == [before] * 4


def test_autograd_grad_returns_the_gradients__also_of_hidden_layers():
    layer = nn.Linear(3, 2)
    hidden = layer(torch.randn(4, 3))

    gradients = torch.autograd.grad(
        hidden.square().sum(), [hidden, layer.weight, layer.bias]
    )

    assert [each.shape for each in gradients] == [(4, 2), (2, 3), (2,)]
    assert torch.equal(gradients[0], 2 * hidden)
    assert layer.weight.grad is None
    assert layer.bias.grad is None


@edits(
    (
        "in another order",
        "grad(loss, [w, b])\n\nprint",
        "grad(loss, [b, w])\n\nprint",
    ),
    (
        "of another loss",
        "grad(loss, [w, b])\n\nprint",
        "grad(2 * loss, [w, b])\n\nprint",
    ),
)
def test_autograd_grad_returns_the_gradients__but_not(
    snippet, old, new, fails
):
    """The gradients are those of the loss that you name, in your order."""
    edited = snippet.edit(old, new)
    fails(test_autograd_grad_returns_the_gradients, edited, None)


@pytest.mark.parametrize("name", ["w", "b", "x"])
def test_autograd_grad_returns_the_gradients__but_backward_stores_one(
    snippet, name, fails
):
    """`backward()` fills `.grad`; `torch.autograd.grad` does not."""
    edited = snippet.edit(
        "w_gradient, b_gradient = ",
        f"{name}.requires_grad_()\nloss = (w * x + b - y) ** 2\n"
        f"loss.backward(inputs=[{name}], retain_graph=True)\n"
        "w_gradient, b_gradient = ",
    )
    fails(test_autograd_grad_returns_the_gradients, edited, None)


def test_autograd_grad_returns_the_gradients__ends_at_a_retained_non_leaf(
    snippet, fails
):
    """A non-leaf with `retain_grad()` gets its `.grad` filled all the same."""
    old = "loss = (w * x + b - y) ** 2\nw_gradient"
    new = f"b = b.clone()\nb.retain_grad()\n{old}"
    edited = snippet.edit(old, new)
    fails(test_autograd_grad_returns_the_gradients, edited, None)


def test_a_gradient_has_a_gradient(snippet):
    with no_error():
        run = snippet.after("second")

    assert run.gradient.grad_fn is not None
    assert run.gradient == -12
    assert run.curvature == 2 * 2**2


@pytest.mark.parametrize("power", [2, 3, 4])
def test_a_gradient_has_a_gradient__also_for_a_power_of(power):
    x = torch.tensor([1.0, 2.0, -3.0], requires_grad=True)
    (first,) = torch.autograd.grad(x.pow(power).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)

    assert torch.equal(second, power * (power - 1) * x.detach() ** (power - 2))


def test_a_gradient_has_a_gradient__but_not_without_create_graph(
    snippet, fails
):
    """Without `create_graph=True`, the gradient is a plain number."""
    edited = snippet.edit("w, create_graph=True)", "w)").edit(
        "(curvature,) = torch.autograd.grad(gradient, w)",
        "curvature = gradient",
    )
    fails(test_a_gradient_has_a_gradient, edited)


def test_a_gradient_has_a_gradient__but_not_the_same_for_b(snippet, fails):
    """As `b` grows by 1, the gradient of `w` grows by 4 instead."""
    edited = snippet.edit("grad(gradient, w)", "grad(gradient, b)")
    fails(test_a_gradient_has_a_gradient, edited)


SECOND = "loss = (w * x + b - y) ** 2\n(gradient,)"


def test_a_gradient_has_a_gradient__ends_where_the_loss_is_a_line(
    snippet, fails
):
    """The gradient of a line is a constant, and has no graph."""
    edited = snippet.edit(SECOND, SECOND.replace("** 2", "* 2"))
    fails(test_a_gradient_has_a_gradient, edited)


def test_a_gradient_has_a_gradient__ends_at_attention(snippet, fails):
    """`scaled_dot_product_attention` raises an error, unless
    `sdpa_kernel(SDPBackend.MATH)` computes it.
    """
    math = "torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)"
    attended = f"""words = w * torch.ones(1, 1, 4, 2)  # all alike
with {math}:
    seen = torch.nn.functional.scaled_dot_product_attention(*3 * [words])
"""
    through = attended + SECOND.replace("w * x", "seen[0, 0, 0, 0] * x")
    with_math = snippet.edit(SECOND, through)
    test_a_gradient_has_a_gradient(with_math)

    by_default = with_math.edit(math, "torch.enable_grad()")
    fails(test_a_gradient_has_a_gradient, by_default)


# What goes wrong


def test_gradients_add_up(snippet, dtype=torch.float32):
    leaf = torch.ones((), dtype=dtype, requires_grad=True)
    for _ in range(300):
        (leaf * 1).backward()
    assert leaf.grad == 300
    run = snippet.after("add-up")

    assert run.w.grad == -12 - 12
    assert run.b.grad == -6 - 6
    # It was backward that added: the graph of this loss is used up.
    assert "a second time" in raised_by(run.loss.backward)


@SHAPES
@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
@pytest.mark.parametrize(
    "create_graph", [False, True], ids=["plain", "with `create_graph=True`"]
)
@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
def test_gradients_add_up__also_for(shape, dtype, create_graph):
    options = {"dtype": getattr(torch, dtype)}
    leaf = torch.ones(shape, **options, requires_grad=True)
    leaf.grad = torch.full(shape, 100.0, **options)

    (5 * leaf).sum().abs().backward(create_graph=create_graph)

    assert torch.equal(leaf.grad, torch.full(shape, 105.0, **options))


def test_gradients_add_up__also_to_none_as_if_it_were_zero(snippet):
    run = snippet.after("clear")

    assert run.w.grad == -12
    assert run.b.grad == -6


CLEAR = "w.grad = None\nb.grad = None\nloss = ("


@pytest.mark.parametrize("name", ["w", "b"])
def test_gradients_add_up__also_if_one_is_not_cleared(snippet, name):
    edited = snippet.edit(CLEAR, CLEAR.replace(f"{name}.grad = None\n", ""))
    run = edited.after("clear")

    assert getattr(run, name).grad == 3 * {"w": -12, "b": -6}[name]


def test_gradients_add_up__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`, small gradients get lost: 256 + 1 is rounded to 256."""
    fails(test_gradients_add_up, snippet, torch.bfloat16)


ADD_UP = "# %% add-up\n# Wrong on purpose: do not copy.\n"


def test_gradients_add_up__but_not_when_cleared_first(snippet, fails):
    """Cleared in between, `w.grad` holds the second gradient alone."""
    edited = snippet.edit(ADD_UP, f"{ADD_UP}w.grad = None\n")
    fails(test_gradients_add_up, edited)


def test_gradients_add_up__but_not_when_filled_with_zeros(snippet, fails):
    """Filled with zeros in between, `b.grad` holds the second alone."""
    edited = snippet.edit(ADD_UP, f"{ADD_UP}b.grad.zero_()\n")
    fails(test_gradients_add_up, edited)


def test_gradients_add_up__but_not_through_autograd_grad(snippet, fails):
    """`torch.autograd.grad` returns gradients and adds them nowhere."""
    old = 'loss.backward()\n\nprint("w.grad:", w.grad)\n\n# %% clear'
    edited = snippet.edit(
        old,
        old.replace("loss.backward()", "torch.autograd.grad(loss, [w, b])"),
    )
    fails(test_gradients_add_up, edited)


def test_a_graph_saves_what_it_needs(snippet):
    run = snippet.after("flow")
    saved = getattr(run.loss.grad_fn, "_saved_self", None)

    assert saved is not None
    assert saved == run.difference == -3
    assert run.loss.grad_fn(torch.tensor(1.0)) == 2 * saved


@edits(
    ("a negation", "difference**2", "-difference"),
    ("an absolute value", "difference**2", "difference.abs()"),
    ("the other difference", "difference**2", "(y - prediction) ** 2"),
)
def test_a_graph_saves_what_it_needs__but_not_of(snippet, old, new, fails):
    """Another step saves something else; a negation needs nothing."""
    edited = snippet.edit(STEPS, STEPS.replace(old, new))
    fails(test_a_graph_saves_what_it_needs, edited)


AGAIN = "# %% again\n# Wrong on purpose: do not copy.\n"
ONCE = f'loss.backward()\n\nprint("w.grad:", w.grad)\n\n{AGAIN}'


def test_a_second_pass_raises(snippet):
    error = raised_in(snippet, "again")

    assert type(error) is RuntimeError
    assert "backward through the graph a second time" in str(error)
    run = snippet.after("again")
    assert run.w.grad == -12
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = run.loss.grad_fn._saved_self


@pytest.mark.parametrize("name", ["exp", "square", "tanh", "sqrt", "relu"])
def test_a_second_pass_raises__also_through(name):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    result = getattr(x, name)().sum()
    result.backward()

    assert "a second time" in raised_by(result.backward)


def test_a_second_pass_raises__also_through_a_shared_part():
    hidden = nn.Linear(2, 2)(torch.randn(3, 2))
    hidden.sum().backward()

    assert "a second time" in raised_by(hidden.mean().backward)


def test_a_second_pass_raises__also_through_a_constant_factor():
    result = 5 * torch.tensor(2.0, requires_grad=True)
    result.backward()

    assert "a second time" in raised_by(result.backward)


def test_a_second_pass_raises__but_not_through_a_retained_graph(
    snippet, fails
):
    """With `retain_graph=True`, the first `backward()` frees nothing."""
    edited = snippet.edit(
        ONCE, ONCE.replace("backward()", "backward(retain_graph=True)")
    )
    fails(test_a_second_pass_raises, edited)


def test_a_second_pass_raises__but_not_through_a_new_loss(snippet, fails):
    """Computed again, the loss has a graph of its own."""
    edited = snippet.edit(AGAIN, f"{AGAIN}loss = (w * x + b - y) ** 2\n")
    fails(test_a_second_pass_raises, edited)


def test_a_second_pass_raises__ends_where_nothing_was_saved(snippet, fails):
    """Sums and differences save nothing: a second pass runs."""
    old = f"loss = (w * x + b - y) ** 2\n{ONCE}"
    edited = snippet.edit(
        old, old.replace("(w * x + b - y) ** 2", "w + b - y")
    )
    fails(test_a_second_pass_raises, edited)


def test_a_retained_graph_serves_again(snippet):
    before = snippet.after("again").b.grad
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
    assert run.w.grad == -12 - 12
    assert run.b.grad - before == -6 - 6


def test_a_retained_graph_serves_again__also_in_a_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4))
    loss = model(torch.randn(5, 3)).square().sum()
    loss.backward(retain_graph=True)
    first = [each.grad.clone() for each in model.parameters()]
    loss.backward()

    for parameter, gradient in zip(model.parameters(), first, strict=True):
        torch.testing.assert_close(parameter.grad, 2 * gradient)


def test_a_retained_graph_serves_again__but_not_if_not_kept(snippet, fails):
    """Without `retain_graph=True`, the first `backward()` frees the graph."""
    edited = snippet.edit(
        "loss.backward(retain_graph=True)", "loss.backward()"
    )
    fails(test_a_retained_graph_serves_again, edited)


@pytest.mark.parametrize("name", ["w", "b"])
def test_a_retained_graph_serves_again__but_adds_nothing_to_a_cleared(
    snippet, name, fails
):
    """Cleared in between, `.grad` holds the second gradient alone."""
    edited = snippet.edit(
        "(retain_graph=True)\n", f"(retain_graph=True)\n{name}.grad = None\n"
    )
    fails(test_a_retained_graph_serves_again, edited)


def test_a_retained_graph_serves_again__ends_after_a_step(snippet, fails):
    """If a step has overwritten a weight that the graph saved, the second
    `backward()` raises an error.
    """
    old = "loss = (w * x + b - y) ** 2\nloss.backward(retain_graph=True)\n"
    saved = snippet.edit(old, old.replace("w * x", "w * (x + 0 * b)"))
    test_a_retained_graph_serves_again(saved)

    kept = "loss.backward(retain_graph=True)\n"
    step = f"{kept}torch.optim.SGD([w, b], lr=0.01).step()\n"
    fails(test_a_retained_graph_serves_again, saved.edit(kept, step))


def test_backward_starts_from_one_number(snippet):
    error = raised_in(snippet, "many")

    assert type(error) is RuntimeError
    assert "only for scalar outputs" in str(error)


@pytest.mark.parametrize("shape", [(2,), (1, 2), (3, 4)])
@pytest.mark.parametrize("dtype", ["float16", "float64", "complex64"])
def test_backward_starts_from_one_number__also_for(shape, dtype):
    leaf = torch.ones(shape, dtype=getattr(torch, dtype), requires_grad=True)

    assert "only for scalar outputs" in raised_by((2 * leaf).backward)


LOSSES = "losses = (w * rooms + b - prices) ** 2\n"


@pytest.mark.parametrize("shape", ["()", "(1,)", "(1, 1)"])
def test_backward_starts_from_one_number__but_not_where_there_is_one(
    snippet, shape, fails
):
    """A sum is one number, whatever its shape."""
    edited = snippet.edit(
        LOSSES, f"{LOSSES}losses = losses.sum().reshape({shape})\n"
    )
    fails(test_backward_starts_from_one_number, edited)


def test_backward_starts_from_one_number__but_not_with_weights(snippet, fails):
    """With a weight for each number, `backward()` runs."""
    edited = snippet.edit(
        "    losses.backward()", "    losses.backward(prices)"
    )
    fails(test_backward_starts_from_one_number, edited)


def test_a_mean_averages_the_gradients(snippet):
    run = snippet.edit(
        "# %% mean\n", "# %% mean\nw.grad = torch.tensor(100.0)\n"
    ).after("mean")

    apartments = zip(run.rooms.tolist(), run.prices.tolist(), strict=True)
    gradients = [
        derivative(lambda w, x=x, y=y: loss_of(w, 1, x, y), 3)
        for x, y in apartments
    ]
    assert gradients == [-12, -24]
    assert run.w.grad == sum(gradients) / 2


@pytest.mark.parametrize("seed", range(3))
def test_a_mean_averages_the_gradients__also_in_a_layer(seed):
    torch.manual_seed(seed)
    layer = nn.Linear(3, 2)
    losses = layer(torch.randn(7, 3)).exp().sum(1)
    gradients = [
        torch.autograd.grad(loss, layer.weight, retain_graph=True)[0]
        for loss in losses
    ]

    losses.mean().backward()

    mean = torch.stack(gradients).mean(0)
    torch.testing.assert_close(layer.weight.grad, mean)


@pytest.mark.parametrize("name", ["sum", "max", "min", "median", "prod"])
def test_a_mean_averages_the_gradients__but_not_the(snippet, name, fails):
    """Another reduction has another gradient: a sum adds them up."""
    edited = snippet.edit("losses.mean()", f"losses.{name}()")
    fails(test_a_mean_averages_the_gradients, edited)


def test_weights_make_a_weighted_sum(snippet):
    with no_error():
        run = snippet.after("weights")
    rows = run.matrix.tolist()

    assert run.outputs.tolist() == [1 * 5 + 2 * 6, 3 * 5 + 4 * 6]
    assert rows == [[1, 2], [3, 4]]
    jacobian = torch.autograd.functional.jacobian(run.matrix.matmul, run.v)
    assert torch.equal(jacobian, run.matrix)
    weighted = [1 * one + 10 * other for one, other in zip(*rows, strict=True)]
    assert run.v.grad.tolist() == weighted == [31, 42]


FUNCTIONS = {
    "a square": lambda v: v**2,
    "a softmax": lambda v: v.softmax(0),
    "a running sum": lambda v: v.cumsum(0),
    "an outer product": lambda v: v.outer(v),
    "two numbers of three": lambda v: v[:2],
}


@each("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_make_a_weighted_sum__also_of(function, dtype):
    torch.manual_seed(0)
    v = torch.randn(3, dtype=getattr(torch, dtype), requires_grad=True)
    outputs = function(v)
    weights = torch.randn_like(outputs)
    (expected,) = torch.autograd.grad(
        (weights * outputs).sum(), v, retain_graph=True
    )

    outputs.backward(gradient=weights)

    torch.testing.assert_close(v.grad, expected)
    jacobian = torch.autograd.functional.jacobian(function, v.detach())
    by_hand = weights.flatten() @ jacobian.reshape(-1, 3)
    torch.testing.assert_close(v.grad, by_hand)


@edits(
    ("of other weights", "[1.0, 10.0]", "[1.0, 1.0]"),
    ("of the columns", "matrix @ v", "matrix.T @ v"),
    ("of other outputs", "matrix @ v", "(matrix @ v) ** 2"),
)
def test_weights_make_a_weighted_sum__but_another_one(
    snippet, old, new, fails
):
    """The weights and the outputs decide what is summed."""
    fails(test_weights_make_a_weighted_sum, snippet.edit(old, new))


def test_weights_make_a_weighted_sum__but_not_in_a_plain_sum(snippet, fails):
    """A plain sum counts each output once: the gradient is [4, 6]."""
    edited = snippet.edit(
        "outputs.backward(gradient=torch.tensor([1.0, 10.0]))",
        "outputs.sum().backward()",
    )
    fails(test_weights_make_a_weighted_sum, edited)


@pytest.mark.parametrize(
    "weights",
    ["1.0", "[1.0]", "[[1.0], [10.0]]"],
    ids=["one number", "a vector of one", "a column"],
)
def test_weights_make_a_weighted_sum__ends_where_the_shape_is(
    snippet, weights, fails
):
    """Weights don't broadcast: another shape raises an error."""
    edited = snippet.edit(
        "gradient=torch.tensor([1.0, 10.0])",
        f"gradient=torch.tensor({weights})",
    )
    fails(test_weights_make_a_weighted_sum, edited)
