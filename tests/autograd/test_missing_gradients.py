"""The claims of docs/autograd/missing_gradients.md."""

import warnings

import numpy
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older
from tests.helpers.programs import raised_by, raised_in
from tests.helpers.worlds import DTYPES, MODELS, each

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
SHAPES = pytest.mark.parametrize("shape", [(), (3,), (2, 2)])


# Do this


def test_unused_parameters_keep_none(snippet):
    run = snippet.after("do-this")

    names = [name for name, _ in run.used.named_parameters()]
    assert names == ["weight", "bias"]
    weight, bias = run.used.weight, run.used.bias
    assert (weight.grad is None, bias.grad is None) == (False, False)
    # The gradient of the page's loss, by hand.
    errors = weight.detach() * run.rooms + bias.detach() - run.prices
    torch.testing.assert_close(bias.grad, 2 * errors.mean(0))
    by_hand = (2 * errors * run.rooms).mean(0, keepdim=True)
    torch.testing.assert_close(weight.grad, by_hand)
    assert [each.grad for each in run.unused.parameters()] == [None, None]


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
    ids=["Linear", "Conv1d", "BatchNorm1d", "LayerNorm", "GRU", "PReLU"],
)
def test_unused_parameters_keep_none__also_in_layers(layer, shape):
    unused = nn.Linear(4, 4)
    frozen = nn.Linear(4, 4).requires_grad_(False)
    model = nn.ModuleList([layer, unused, frozen])
    result = model[0](model[2](torch.randn(shape)))
    result = result[0] if isinstance(result, tuple) else result
    result.square().mean().backward()

    for parameter in layer.parameters():
        assert parameter.grad.shape == parameter.shape
    for parameter in (*unused.parameters(), *frozen.parameters()):
        assert parameter.grad is None


@each(
    "model",
    MODELS,
    *("with BatchNorm", "with dropout", "tied", "lazy"),
    *("with a tuple of outputs", "float64", "bfloat16"),
)
def test_unused_parameters_keep_none__also_in_a_model(model):
    model, unused = model(), nn.Linear(3, 3)
    dtype = next(model.parameters()).dtype
    result = model(torch.randn(4, 3, dtype=dtype))
    result = result[0] if isinstance(result, tuple) else result
    result.square().mean().backward()

    for parameter in model.parameters():
        assert parameter.grad.shape == parameter.shape
    assert [each.grad for each in unused.parameters()] == [None, None]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
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
    """A detached parameter is used, but gets no gradient either."""
    edited = snippet.edit(
        'model["used"](rooms)', f"nn.functional.linear(rooms, {arguments})"
    )
    fails(test_unused_parameters_keep_none, edited)


def test_unused_parameters_keep_none__but_not_where_multiplied_by_0(
    snippet, fails
):
    """Multiplied by 0, the layer is used: its gradients are zeros."""
    edited = snippet.edit(
        'model["used"](rooms)', 'model["used"](rooms) + 0 * unused(rooms)'
    )
    fails(test_unused_parameters_keep_none, edited)


@pytest.mark.parametrize("part", ["unused.weight[0]", "unused.bias"])
def test_unused_parameters_keep_none__but_not_where_one_is_used(
    snippet, part, fails
):
    """One parameter of the layer is added to the predictions."""
    edited = snippet.edit(
        'model["used"](rooms)', f'model["used"](rooms) + {part}'
    )
    fails(test_unused_parameters_keep_none, edited)


def test_unused_parameters_keep_none__ends_at_a_frozen_one(snippet, fails):
    """A frozen weight is used and keeps `None` all the same."""
    old = 'predictions = model["used"](rooms)'
    edited = snippet.edit(old, f"used.weight.requires_grad_(False)\n{old}")
    fails(test_unused_parameters_keep_none, edited)


def test_unused_parameters_keep_none__ends_after_zero_grad(snippet, fails):
    """`zero_grad()` sets all to `None`, so look before you call it."""
    old = "for name, parameter in model.named_parameters():"
    edited = snippet.edit(old, f"model.zero_grad()\n{old}")
    fails(test_unused_parameters_keep_none, edited)


# How it works


def test_nothing_to_differentiate_raises(snippet):
    error = raised_in(snippet, "cut")

    assert type(error) is RuntimeError
    assert "does not require grad" in str(error)
    loss = snippet.after("cut").loss
    assert loss == (3 * 2 + 1 - 10) ** 2
    assert not loss.requires_grad


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
    ids=[
        *("a fraction", "a vector of one number", "an integer"),
        *("a detached sum", "a truth value", "a sum under `no_grad()`"),
    ],
)
def test_nothing_to_differentiate_raises__also_on(loss):
    assert not loss.requires_grad
    assert "does not require grad" in raised_by(loss.backward)


@edits(("w", "w.item()", "w"), ("b", "b.item()", "b"))
def test_nothing_to_differentiate_raises__but_not_with_a_graph_to(
    snippet, old, new, fails
):
    """Without `item()`, the loss has a graph, and `backward()` runs."""
    fails(test_nothing_to_differentiate_raises, snippet.edit(old, new))


def test_nothing_to_differentiate_raises__but_not_once_the_loss_requires_them(
    snippet, fails
):
    """`requires_grad_()` on the loss only hides the mistake."""
    edited = snippet.edit(
        "b.item() - y) ** 2\n", "b.item() - y) ** 2\nloss.requires_grad_()\n"
    )
    fails(test_nothing_to_differentiate_raises, edited)


def test_silencing_the_error_helps_nobody(snippet):
    with no_error():
        run = snippet.after("silenced")

    assert run.loss.requires_grad
    assert [run.w.grad, run.b.grad] == [None, None]


@edits(("w", "w.item()", "w"), ("b", "b.item()", "b"))
def test_silencing_the_error_helps_nobody__but_not_with_a_graph_to(
    snippet, old, new, fails
):
    """Without `item()`, the loss has a graph, and the gradient arrives."""
    fails(test_silencing_the_error_helps_nobody, snippet.edit(old, new))


def test_silencing_the_error_helps_nobody__but_not_unasked(snippet, fails):
    """Without `requires_grad_()`, `backward()` raises the error again."""
    edited = snippet.edit(
        "loss.requires_grad_().backward()", "loss.backward()"
    )
    fails(test_silencing_the_error_helps_nobody, edited)


@pytest.mark.filterwarnings("ignore:To copy construct:UserWarning")
def test_a_cut_part_gets_none(snippet):
    with no_error():
        run = snippet.after("one-path-cut")
    product = (run.w * run.x).detach()

    assert list(run.grads) == list(run.ways) == [*CUTS.values(), "t.round()"]
    cut = [way for way in run.grads if run.grads[way]["w.grad"] is None]
    assert cut == [*CUTS.values()]
    # The ways are what the table calls them.
    rows = [product, torch.tensor(4.5), torch.tensor([4.5, 7.0, 5.5])]
    for way, made in run.ways.items():
        plain = "1 * t" if way == "no_grad" else way
        for row in rows[:2] if way == "t.item()" else rows:
            named = eval(plain, {"torch": torch, "t": row})
            assert type(made(row)) is type(named)
            assert numpy.array_equal(made(row), named)
        left = float(made(product)) + run.b - run.y
        assert run.grads[way]["b.grad"] == 2 * left


@pytest.mark.parametrize("call", CUTS.values(), ids=CUTS)
@pytest.mark.filterwarnings("ignore:To copy construct:UserWarning")
def test_a_cut_part_gets_none__also_by(snippet, call):
    cut = snippet.after("ways").ways[call]
    for dtype in (torch.float16, torch.float32, torch.float64):
        for shape in ((3,), (2, 2), (1, 1)):
            weight = torch.full(shape, 6.0, dtype=dtype, requires_grad=True)
            other = torch.ones(shape, dtype=dtype, requires_grad=True)
            part = (weight * 2).sum() if call == "t.item()" else weight * 2

            (torch.as_tensor(cut(part)) * other).sum().backward()

            assert weight.grad is None
            assert other.grad is not None


@pytest.mark.parametrize("way", CUTS.values(), ids=CUTS)
def test_a_cut_part_gets_none__but_not_in_the_graph(snippet, way, fails):
    """`1 * t` stays in the graph, so `w` gets a gradient."""
    lines = snippet.text.splitlines()
    [line] = [each for each in lines if f'    "{way}": ' in each]
    edited = snippet.edit(line, f'    "{way}": lambda t: 1 * t,')
    fails(test_a_cut_part_gets_none, edited)


def test_a_cut_part_gets_none__but_so_does_round_past_a_cut(snippet, fails):
    """With `tolist()` for `round()`, that row has `None` as well."""
    edited = snippet.edit("lambda t: t.round()", "lambda t: t.tolist()")
    fails(test_a_cut_part_gets_none, edited)


def test_a_cut_part_gets_none__but_backward_raises_if_b_is_cut_too(
    snippet, fails
):
    """With `b` cut as well, no part of the loss requires gradients."""
    edited = snippet.edit("(part + b - y)", "(part + b.item() - y)")
    fails(test_a_cut_part_gets_none, edited)


def test_a_cut_part_gets_none__but_does_over_another_path(snippet, fails):
    """`w` reaches the loss over a second path that is not cut."""
    edited = snippet.edit("(part + b - y)", "(part + b + w - y)")
    fails(test_a_cut_part_gets_none, edited)


def test_only_a_copy_warns(snippet):
    run = snippet.after("one-path-cut")

    assert list(run.warned) == list(run.ways)
    warned = [way for way in run.warned if run.warned[way]]
    assert warned == ["torch.tensor(t)"]


def test_only_a_copy_warns__but_not_one_made_by_clone(snippet, fails):
    """`t.detach().clone()` copies as well, and nothing warns."""
    edited = snippet.edit("torch.tensor(t),", "t.detach().clone(),")
    fails(test_only_a_copy_warns, edited)


def test_only_a_copy_warns__but_not_where_another_way_copies(snippet, fails):
    """With `torch.tensor` in two rows, both warn."""
    edited = snippet.edit("lambda t: t.item()", "lambda t: torch.tensor(t)")
    fails(test_only_a_copy_warns, edited)


@pytest.fixture
def always_warned():
    """Let torch warn each time, and not once in a process."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.skipif(
    older(torch.__version__, "2.9"), reason="torch 2.6 does not warn"
)
@pytest.mark.usefixtures("always_warned")
def test_only_a_copy_warns__ends_with_float(snippet, fails):
    """`float(t)` warns as well, once in a program."""
    edited = snippet.edit("lambda t: t.item()", "lambda t: float(t)")
    fails(test_only_a_copy_warns, edited)


def test_rounding_gives_zeros(snippet):
    run = snippet.after("one-path-cut")

    assert run.grads["t.round()"]["w.grad"] == torch.tensor(0.0)


@pytest.mark.parametrize(
    "options",
    [{}, {"decimals": 1}, {"decimals": -1}],
    ids=["whole numbers", "tenths", "tens"],
)
@each("dtype", DTYPES)
@SHAPES
def test_rounding_gives_zeros__also_for(options, dtype, shape):
    leaf = torch.randn(shape).to(dtype).requires_grad_()

    leaf.round(**options).sum().backward()

    assert torch.equal(leaf.grad, torch.zeros(shape, dtype=dtype))


def test_rounding_gives_zeros__also_beside_a_cut(snippet):
    run = snippet.after("predict")

    assert run.hidden.grad.tolist() == [0, 0]
    assert run.gate.grad.tolist() == [1 * 1, 2 * 2]


@edits(
    (
        "None past a detach",
        "lambda t: t.round()",
        "lambda t: t.detach().round()",
    ),
    (
        "a gradient of 1 straight through",
        "lambda t: t.round()",
        "lambda t: t + (t.round() - t).detach()",
    ),
)
def test_rounding_gives_zeros__but(snippet, old, new, fails):
    """`detach()` before it gives `None`, and around it a gradient of 1."""
    fails(test_rounding_gives_zeros, snippet.edit(old, new))


def test_a_hook_reads_the_gradient(snippet):
    run = snippet.after("hook")

    assert run.before == [-6]
    assert run.prediction == run.w * run.x + run.b == 7


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize(
    "is_leaf", [True, False], ids=["leaves", "non-leaves"]
)
def test_a_hook_reads_the_gradient__also_at(shape, is_leaf):
    tensor = torch.ones(shape, requires_grad=True)
    tensor = tensor if is_leaf else tensor * 1
    arrived = []
    tensor.register_hook(arrived.append)

    (5 * tensor + 2 * tensor).sum().backward()
    (5 * torch.ones(shape, requires_grad=True)).sum().backward()

    [found] = arrived
    assert torch.equal(found, torch.full(shape, 7.0))


FIRST_HOOK = "prediction.register_hook(before.append)\n"
PASS = "(w_gradient,) = torch.autograd.grad((prediction - y) ** 2, w)\n"


@edits(
    (
        "a loss written the other way around",
        "(prediction - y) ** 2, w)",
        "(y - 1 * prediction) ** 2, w)",
    ),
)
def test_a_hook_reads_the_gradient__also_of(snippet, old, new):
    test_a_hook_reads_the_gradient(snippet.edit(old, new))


@pytest.mark.parametrize(
    ("hook", "made"),
    [
        (
            "gap = y - prediction\ngap.register_hook(before.append)\n",
            PASS.replace("(prediction - y)", "gap"),
        ),
        (
            f"prediction.register_hook(lambda grad: grad / 2)\n{FIRST_HOOK}",
            PASS,
        ),
        ("(1 * prediction).register_hook(before.append)\n", PASS),
        (f"handle = {FIRST_HOOK}handle.remove()\n", PASS),
        ("", f"{PASS}{FIRST_HOOK}"),
        (FIRST_HOOK, PASS.replace("** 2", "** 4")),
    ],
    ids=[
        *("on another tensor", "behind another hook", "beside the path"),
        *("once removed", "after the pass", "of another loss"),
    ],
)
def test_a_hook_reads_the_gradient__but_not_minus_6(
    snippet, hook, made, fails
):
    """On another tensor, or too late, the hook sees another number or none."""
    start = "before, after = [], []\n"
    edited = snippet.edit(PASS, made).edit(
        f"{start}{FIRST_HOOK}", f"{start}{hook}"
    )
    fails(test_a_hook_reads_the_gradient, edited)


def test_a_hook_changes_the_gradient(snippet):
    run = snippet.after("hook")

    assert run.before == [-6]
    assert run.after == [-1]
    assert run.w_gradient == -1 * 2


@pytest.mark.parametrize("factor", [0, -2, 10])
def test_a_hook_changes_the_gradient__also_of_leaves(factor):
    leaf = torch.ones(3, requires_grad=True)
    leaf.register_hook(lambda gradient: factor * gradient)

    (5 * leaf).sum().backward()

    assert leaf.grad.tolist() == [5 * factor] * 3


CLAMP = "prediction.register_hook(lambda gradient: gradient.clamp(-1, 1))\n"


@pytest.mark.parametrize(
    ("hook", "made"),
    [
        (CLAMP.replace("gradient.clamp(-1, 1)", "None"), PASS),
        (CLAMP.replace("(-1, 1)", "(-2, 2)"), PASS),
        ("w.register_hook(lambda grad: grad.clamp(-2, 2))\n", PASS),
        ("", f"{PASS}w_gradient = w_gradient / 6\n"),
        (CLAMP, PASS.replace("** 2", "** 2 + 5 * w")),
        (CLAMP, f"prediction.register_hook(lambda grad: 2 * grad)\n{PASS}"),
    ],
    ids=[
        *("if it returns nothing", "if it clamps to 2", "if it sits on `w`"),
        *("without the hook", "over a second path", "before a later hook"),
    ],
)
def test_a_hook_changes_the_gradient__but_not(snippet, hook, made, fails):
    """Another hook, or another path to `w`, and another number arrives."""
    fails(
        test_a_hook_changes_the_gradient,
        snippet.edit(PASS, made).edit(CLAMP, hook),
    )


# What goes wrong


START = "start = torch.tensor(3.0, requires_grad=True).double()"


def test_a_converted_leaf_is_no_leaf(snippet):
    start = snippet.after("not-kept").start

    assert start.dtype == torch.double
    assert start.grad_fn is not None
    assert not start.is_leaf


@SHAPES
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("float32", "float64"),
        ("float32", "float16"),
        ("float16", "bfloat16"),
        ("float64", "float32"),
    ],
    ids=[
        *("float32 to float64", "float32 to float16"),
        *("float16 to bfloat16", "float64 to float32"),
    ],
)
def test_a_converted_leaf_is_no_leaf__also_from(before, after, shape):
    plain = torch.ones(shape, dtype=getattr(torch, before))
    for leaf in (plain.clone().requires_grad_(), nn.Parameter(plain)):
        for moved in (leaf.to(getattr(torch, after)), leaf.to("meta")):
            assert moved.grad_fn is not None
            assert leaf.grad_fn is None


@pytest.mark.cuda
def test_a_converted_leaf_is_no_leaf__also_on_a_gpu():
    leaf = torch.ones(3, requires_grad=True)

    for moved in (leaf.to("cuda"), leaf.cuda()):
        assert moved.grad_fn is not None


@edits(
    (
        "if asked last",
        START,
        "start = torch.tensor(3.0).double().requires_grad_()",
    ),
    ("if nothing is asked", START, "start = torch.tensor(3.0).double()"),
)
def test_a_converted_leaf_is_no_leaf__but_not(snippet, old, new, fails):
    """If it never required gradients before the conversion, it is a leaf."""
    fails(test_a_converted_leaf_is_no_leaf, snippet.edit(old, new))


def test_a_converted_leaf_is_no_leaf__ends_at_an_integer(snippet, fails):
    """`long()` leaves the graph, so what comes after it is a leaf."""
    edited = snippet.edit(START, START.replace("double()", "long().double()"))
    fails(test_a_converted_leaf_is_no_leaf, edited)


def test_a_converted_leaf_is_no_leaf__ends_under_no_grad(snippet, fails):
    """Under `no_grad()`, nothing is recorded, so the result is a leaf."""
    new = f"with torch.no_grad():\n    {START}\nstart.requires_grad_()"
    fails(test_a_converted_leaf_is_no_leaf, snippet.edit(START, new))


def test_a_converted_leaf_is_no_leaf__ends_where_nothing_changes(
    snippet, fails
):
    """`double()` on a tensor of that dtype returns the leaf itself."""
    new = START.replace("3.0,", "3.0, dtype=torch.double,")
    fails(test_a_converted_leaf_is_no_leaf, snippet.edit(START, new))


def test_a_non_leaf_keeps_no_gradient(snippet):
    run = snippet.after("not-kept")

    assert run.missing is None
    assert [each.category for each in run.caught] == [UserWarning]
    assert "not a leaf Tensor" in str(run.caught[0].message)
    # The backward pass did come by.
    before = snippet.after("hook").b.grad
    assert run.b.grad - before == 2 * (3 * 2 + 1 - 10)


@pytest.mark.parametrize("seed", range(3))
def test_a_non_leaf_keeps_no_gradient__also_in_a_layer(seed):
    torch.manual_seed(seed)
    hidden = nn.Linear(3, 2)(torch.randn(4, 3))
    hidden.exp().mean().backward()

    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert hidden.grad is None


@edits(
    ("is told to retain it", START, f"{START}\nstart.retain_grad()"),
    (
        "is a leaf",
        START,
        "start = torch.tensor(3.0).double().requires_grad_()",
    ),
)
def test_a_non_leaf_keeps_no_gradient__but_does_if_it(
    snippet, old, new, fails
):
    """Told to retain it, or made a leaf, the tensor has a gradient."""
    fails(test_a_non_leaf_keeps_no_gradient, snippet.edit(old, new))


def test_a_non_leaf_keeps_no_gradient__but_a_leaf_has_none_unwarned(
    snippet, fails
):
    """The `.grad` of a new leaf is `None` too, but nothing warns."""
    old = "    missing = start.grad"
    edited = snippet.edit(old, f"    start = start.detach()\n{old}")
    fails(test_a_non_leaf_keeps_no_gradient, edited)


LAST = "start = torch.tensor(3.0).double().requires_grad_()\nprediction"


def test_asked_last_it_is_a_leaf(snippet):
    start = snippet.after("kept").start

    assert start.dtype == torch.double
    assert start.is_leaf
    assert start.grad == 2 * (3 * 2 + 1 - 10) * 2


@pytest.mark.parametrize("change", ["half()", "bfloat16()", "mul(3)", "exp()"])
def test_asked_last_it_is_a_leaf__also_after(change):
    plain = torch.ones(3)
    start = eval(f"plain.{change}", {"plain": plain}).requires_grad_()
    (5 * start).sum().backward()

    assert start.is_leaf
    assert start.grad.tolist() == [5, 5, 5]


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@edits(
    ("if asked first", LAST, f"{START}\nprediction"),
    ("if never asked", LAST, LAST.replace(".requires_grad_()", "")),
    ("if multiplied afterward", LAST, LAST.replace("\n", " * 1\n")),
)
def test_asked_last_it_is_a_leaf__but_not(snippet, old, new, fails):
    """Asked before the conversion, or never, it gets no gradient."""
    fails(test_asked_last_it_is_a_leaf, snippet.edit(old, new))


def test_asked_last_it_is_a_leaf__but_gets_no_gradient_past_a_detach(
    snippet, fails
):
    """A leaf gets no gradient either if `detach()` cuts it off."""
    edited = snippet.edit(
        "prediction = start * x + b", "prediction = start.detach() * x + b"
    )
    fails(test_asked_last_it_is_a_leaf, edited)


def test_retain_grad_keeps_the_gradient(snippet):
    run = snippet.after("kept")

    assert run.prediction.grad_fn is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run.prediction.grad == torch.tensor(-6.0)


@pytest.mark.parametrize("seed", range(3))
def test_retain_grad_keeps_the_gradient__also_in_a_model(seed):
    torch.manual_seed(seed)
    hidden = nn.Linear(3, 2)(torch.randn(4, 3))
    hidden.retain_grad()
    hidden.square().sum().backward()

    assert torch.equal(hidden.grad, 2 * hidden)


KEPT = "prediction.retain_grad()\n((prediction - y) ** 2).backward()\n"
UNKEPT = "((prediction - y) ** 2).backward()\n"


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@edits(
    ("unasked", KEPT, UNKEPT),
    ("asked afterward", KEPT, f"{UNKEPT}prediction.retain_grad()\n"),
    ("off the path", KEPT, KEPT.replace("((prediction", "((start * x + b")),
    (
        "behind a hook that doubles it",
        KEPT,
        f"prediction.register_hook(lambda grad: 2 * grad)\n{KEPT}",
    ),
)
def test_retain_grad_keeps_the_gradient__but_not(snippet, old, new, fails):
    """It has to be asked for before `backward()` passes through the tensor."""
    fails(test_retain_grad_keeps_the_gradient, snippet.edit(old, new))


def test_retain_grad_keeps_the_gradient__ends_after_a_change_in_place(
    snippet, fails
):
    """Changed in place afterward, as by `ReLU(inplace=True)`, it keeps the
    gradient of its new numbers.
    """
    doubled = KEPT.replace("prediction - y", "prediction / 2 - y")
    edited = snippet.edit(
        KEPT, doubled.replace("grad()\n", "grad()\nprediction *= 2\n")
    )
    fails(test_retain_grad_keeps_the_gradient, edited)


def test_a_converted_model_keeps_its_leaves(snippet):
    weight = snippet.after("convert").weight

    assert weight.dtype == torch.double
    assert weight.is_leaf
    assert weight.requires_grad


@each(
    "model",
    MODELS,
    *("with BatchNorm", "with dropout", "tied", "float64", "bfloat16"),
)
@pytest.mark.parametrize(
    "target",
    [torch.half, torch.double, "meta"],
    ids=["to float16", "to float64", "to the device `meta`"],
)
def test_a_converted_model_keeps_its_leaves__also_if_a_model_moves(
    model, target
):
    after = [*model().to(target).parameters()]

    assert {each.is_leaf for each in after} == {True}
    assert {each.requires_grad for each in after} == {True}


def test_a_converted_model_keeps_its_leaves__but_not_a_weight_alone(
    snippet, fails
):
    """Converted alone, the weight is a new tensor: a non-leaf."""
    edited = snippet.edit(
        'model = model.double()\nweight = model["used"].weight',
        'weight = model["used"].weight.double()',
    )
    fails(test_a_converted_model_keeps_its_leaves, edited)


@pytest.mark.parametrize("number", ["2", "-7", "[1, 0]", "True", "[False]"])
def test_integers_cannot_require_gradients(snippet, number):
    if number != "2":
        snippet = snippet.edit("tensor(2, req", f"tensor({number}, req")
    error = raised_in(snippet, "integers")

    assert type(error) is RuntimeError
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
        assert "can require gradients" in raised_by(call)


@pytest.mark.parametrize(
    "number",
    ["2.0", "2j", "[1, 0.5]"],
    ids=["a fraction", "a complex number", "a list with a fraction"],
)
def test_integers_cannot_require_gradients__ends_for(snippet, number, fails):
    """For a fraction or a complex number: it can require gradients."""
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
    """With a floating-point dtype, `torch.tensor(2)` is no integer."""
    edited = snippet.edit(
        "requires_grad=True)\nexcept",
        f"requires_grad=True, dtype=torch.{dtype})\nexcept",
    )
    fails(test_integers_cannot_require_gradients, edited, number)


# Where it ends


def test_grad_of_the_unused_raises(snippet):
    error = raised_in(snippet, "garden")

    assert type(error) is RuntimeError
    assert "used in the graph" in str(error)
    assert "allow_unused=True" in str(error)
    run = snippet.after("garden")
    assert run.prediction == run.w * run.x + run.b
    assert run.garden.requires_grad


@pytest.mark.parametrize("also", ["w", "b"])
def test_grad_of_the_unused_raises__also_beside(snippet, also):
    run = snippet.after("garden")
    wanted = [getattr(run, also), run.garden]

    said = raised_by(lambda: torch.autograd.grad(run.prediction, wanted))
    assert "used in the graph" in said


GRAD = "grad(prediction, garden)"


@edits(
    ("once it is used", GRAD, "grad(prediction * garden, garden)"),
    ("if told", GRAD, "grad(prediction, garden, allow_unused=True)"),
    (
        "if told to materialize",
        GRAD,
        "grad(prediction, garden, materialize_grads=True)",
    ),
)
def test_grad_of_the_unused_raises__but_not(snippet, old, new, fails):
    """Used, or excused by an option, the tensor raises nothing."""
    fails(test_grad_of_the_unused_raises, snippet.edit(old, new))


def test_allow_unused_returns_none(snippet):
    with no_error():
        run = snippet.after("allow-unused")

    assert run.gaps == (2, None)
    assert run.garden.requires_grad


@edits(
    (
        "materialized",
        "allow_unused=True)",
        "allow_unused=True, materialize_grads=True)",
    ),
    (
        "for a used one",
        "gaps = torch.autograd.grad(prediction",
        "gaps = torch.autograd.grad(prediction * garden",
    ),
)
def test_allow_unused_returns_none__but_not(snippet, old, new, fails):
    """With `materialize_grads=True`, the gap is filled with zeros."""
    fails(test_allow_unused_returns_none, snippet.edit(old, new))


@pytest.mark.parametrize("shape", [(3,), (2, 0), (2, 4)])
@pytest.mark.parametrize("dtype", ["float16", "float64", "complex64"])
def test_allow_unused_returns_none__also_for(shape, dtype):
    used = torch.ones(2, requires_grad=True)
    dtype = getattr(torch, dtype)
    unused = torch.ones(shape, dtype=dtype, requires_grad=True)

    for tensor in (unused, 2 * unused, used * 1):
        (gap,) = torch.autograd.grad(used.sum(), tensor, allow_unused=True)
        assert gap is None


def test_allow_unused_returns_none__ends_without_requires_grad(snippet, fails):
    """A tensor that requires no gradients raises an error all the same."""
    edited = snippet.edit("[w, garden]", "[w, garden.detach()]")
    fails(test_allow_unused_returns_none, edited)


# What the sources say


def test_a_seed_repeats_the_gradients(snippet):
    first, second = (
        [
            each.grad.tolist()
            for each in snippet.after("do-this").used.parameters()
        ]
        for _ in range(2)
    )

    assert first == second


SEED = "torch.manual_seed(0)\n"
LAYERS = "used, unused = nn.Linear(1, 1), nn.Linear(1, 1)\n"


@edits(
    ("if called too late", SEED + LAYERS, LAYERS + SEED),
    ("without one", SEED, ""),
)
def test_a_seed_repeats_the_gradients__but_not(snippet, old, new, fails):
    """Without the seed, or with it after the layers, the weights differ."""
    fails(test_a_seed_repeats_the_gradients, snippet.edit(old, new))
