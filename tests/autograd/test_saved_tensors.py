"""The claims of docs/autograd/saved_tensors.md."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import error_of
from tests.helpers.worlds import DTYPES, TENSORS, each

MODIFIED = "modified by an inplace operation"


# ------------------------------------------------------ saved, but not copied


def test_saved_without_a_copy(snippet):
    run = snippet.after("no-copy")

    assert run.saved.data_ptr() == run.root.data_ptr()
    assert run.saved.item() == run.root.item() == 4 + 5


@pytest.mark.parametrize("shape", [(1,), (2, 3), (0, 3)])
@each("dtype", DTYPES)
def test_saved_without_a_copy__also_with(shape, dtype):
    hidden = torch.ones(shape, dtype=dtype, requires_grad=True) * 1
    saved = hidden.square().grad_fn._saved_self

    hidden += 5

    assert torch.equal(saved, hidden)
    assert saved.data_ptr() == hidden.data_ptr()


def test_saved_without_a_copy__but_not_of_a_clone(snippet, fails):
    """Behind `clone()`, the root that you change is not the one that was
    saved.
    """
    edited = snippet.edit(
        "saved = root.grad_fn._saved_result",
        "saved = root.grad_fn._saved_result\nroot = root.clone()",
    )
    fails(test_saved_without_a_copy, edited)


def test_saved_without_a_copy__but_not_with_a_new_tensor(snippet, fails):
    """`root = root + 5` makes a new tensor, and the saved 4 stays."""
    edited = snippet.edit("root += 5", "root = root + 5")
    fails(test_saved_without_a_copy, edited)


def test_saved_without_a_copy__ends_with_a_hook_that_clones(snippet, fails):
    """A hook can save a copy instead."""
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(torch.clone, lambda saved: saved):
        fails(test_saved_without_a_copy, snippet)


# ----------------------------------------------- which operations save what


def saved(run, name, dtype=torch.float32, shape=(3,), grads=(True, True)):
    """Return what one operation of the page saves."""
    x, y = (torch.rand(shape, dtype=dtype) + 0.5 for _ in "xy")
    x, y = x.requires_grad_(grads[0]) * 1, y.requires_grad_(grads[1]) * 1
    return run.saved_by(run.operations[name], x=x, y=y)


def check_saved(snippet, names, tensors, dtype=torch.float32, shape=(3,)):
    """Check that these operations are what they are called, and save this."""
    run = snippet.after("found")
    x, y = torch.rand(2, 4)
    for name in names:
        assert run.found[name] == tensors, name
        assert saved(run, name, dtype, shape) == tensors, name
        result = run.operations[name](x, y)
        assert torch.equal(result, eval(name, {"x": x, "y": y}))


WORLDS = pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        (torch.float64, (3,)),
        (torch.bfloat16, (2, 3)),
        (torch.float16, (1,)),
        (torch.float32, ()),
        (torch.float32, (2, 3, 4)),
    ],
    ids=[
        "float64",
        "bfloat16",
        "one element",
        "a single number",
        "three axes",
    ],
)
SUMS = ["x + y", "3 * x", "x.sum()"]


def test_sums_save_nothing(snippet, dtype=torch.float32, shape=(3,)):
    check_saved(snippet, SUMS, [], dtype, shape)


@WORLDS
def test_sums_save_nothing__also_with(snippet, dtype, shape):
    test_sums_save_nothing(snippet, dtype, shape)


@edits(
    ("logaddexp", "y: x + y", "y: torch.logaddexp(x, y)"),
    (
        "a factor that learns",
        "y: 3 * x",
        "y: torch.tensor(3.0, requires_grad=True) * x",
    ),
    ("prod", "y: x.sum()", "y: x.prod()"),
)
def test_sums_save_nothing__but_not(snippet, old, new, fails):
    """The derivatives of `logaddexp`, of a product of two weights and of
    `prod` depend on the numbers.
    """
    fails(test_sums_save_nothing, snippet.edit(old, new))


def test_a_product_saves_its_factors(snippet, dtype=torch.float32, shape=(3,)):
    check_saved(snippet, ["x * y"], ["x", "y"], dtype, shape)


@WORLDS
def test_a_product_saves_its_factors__also_with(snippet, dtype, shape):
    test_a_product_saves_its_factors(snippet, dtype, shape)


@edits(
    ("y detached", "y: x * y", "y: x * y.detach()"),
    ("x detached", "y: x * y", "y: x.detach() * y"),
    ("a copy of x", "y: x * y", "y: x * 1 * y"),
    ("a sum", "y: x * y", "y: x + y"),
)
def test_a_product_saves_its_factors__but_not(snippet, old, new, fails):
    """If one factor needs no gradient, the other is not saved for it; a sum
    saves neither.
    """
    fails(test_a_product_saves_its_factors, snippet.edit(old, new))


def test_one_factor_saves_the_other(snippet, dtype=torch.float32, shape=(3,)):
    run = snippet.after("found")

    grads = {(True, False): ["y"], (False, True): ["x"]}
    for which, expected in grads.items():
        assert saved(run, "x * y", dtype, shape, which) == expected


@WORLDS
def test_one_factor_saves_the_other__also_with(snippet, dtype, shape):
    test_one_factor_saves_the_other(snippet, dtype, shape)


@edits(
    ("both learn", "y: x * y", "y: x.requires_grad_() * y.requires_grad_()"),
    ("a sum", "y: x * y", "y: x + y"),
    ("a square", "y: x * y", "y: x * x"),
)
def test_one_factor_saves_the_other__but_not(snippet, old, new, fails):
    """If both require gradients, both are saved; a sum saves none, and a
    square its own input.
    """
    fails(test_one_factor_saves_the_other, snippet.edit(old, new))


def test_squares_save_their_input(snippet, dtype=torch.float32, shape=(3,)):
    check_saved(snippet, ["x.square()", "x.log()"], ["x"], dtype, shape)


def test_squares_save_their_input__also_by_the_hook(snippet):
    run = snippet.after("do-this")

    assert [tensor.tolist() for tensor in run.saved] == [[3, 4]]
    assert run.saved[0].data_ptr() == run.x.data_ptr()
    run.squares.sum().backward()
    assert run.x.grad.tolist() == [6, 8]


@WORLDS
def test_squares_save_their_input__also_with(snippet, dtype, shape):
    test_squares_save_their_input(snippet, dtype, shape)


@edits(
    ("sqrt", "y: x.square()", "y: x.sqrt()"),
    ("exp", "y: x.log()", "y: x.exp()"),
)
def test_squares_save_their_input__but_not(snippet, old, new, fails):
    """`sqrt` and `exp` save their result instead."""
    fails(test_squares_save_their_input, snippet.edit(old, new))


RESULTS = ["x.exp()", "x.tanh()", "x.sigmoid()", "x.softmax(0)", "x.relu()"]


def test_exp_saves_its_result(snippet, dtype=torch.float32, shape=(3,)):
    check_saved(snippet, RESULTS, ["result"], dtype, shape)


@WORLDS
def test_exp_saves_its_result__also_with(snippet, dtype, shape):
    test_exp_saves_its_result(snippet, dtype, shape)


@edits(
    ("sin", "y: x.exp()", "y: x.sin()"),
    ("a product", "y: x.tanh()", "y: x * y"),
    ("logsigmoid", "y: x.sigmoid()", "y: nn.functional.logsigmoid(x)"),
    ("a sum", "y: x.softmax(0)", "y: x + y"),
    ("gelu", "y: x.relu()", "y: nn.functional.gelu(x)"),
)
def test_exp_saves_its_result__but_not(snippet, old, new, fails):
    """`sin`, `logsigmoid` and `gelu` save their input instead."""
    fails(test_exp_saves_its_result, snippet.edit(old, new))


def kept_by(layer, inputs):
    """Return which of inputs and weight a layer saves."""
    memory = set()
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: memory.add(t.data_ptr()), lambda nothing: nothing):
        layer(inputs)
    places = {"inputs": inputs, "weight": layer.weight}
    return [name for name, t in places.items() if t.data_ptr() in memory]


def test_a_linear_layer_saves_its_inputs(snippet):
    run = snippet.after("linear")

    assert run.kept == {"data": ["inputs"], "hidden": ["inputs", "weight"]}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3,), (1, 3), (4, 3), (2, 5, 3)])
@each("dtype", DTYPES, "float64", "bfloat16")
def test_a_linear_layer_saves_its_inputs__also_with(bias, shape, dtype):
    layer = nn.Linear(3, 2, bias=bias, dtype=dtype)
    data = torch.ones(shape, dtype=dtype)
    assert kept_by(layer, data) == ["inputs"]

    hidden = data.clone().requires_grad_() * 1
    assert kept_by(layer, hidden) == ["inputs", "weight"]


@edits(
    (
        "data that learns",
        "torch.ones(4, 3)\n",
        "torch.ones(4, 3).requires_grad_()\n",
    ),
    (
        "hidden that does not",
        "requires_grad=True)\nkept",
        "requires_grad=False)\nkept",
    ),
    (
        "a frozen layer",
        "nn.Linear(3, 2)",
        "nn.Linear(3, 2).requires_grad_(False)",
    ),
)
def test_a_linear_layer_saves_its_inputs__but_not(snippet, old, new, fails):
    """What is saved depends on who needs a gradient: a frozen layer does not
    save its inputs.
    """
    edited = snippet.edit(old, new)
    fails(test_a_linear_layer_saves_its_inputs, edited)


def test_a_linear_layer_saves_its_inputs__ends_under_autocast(snippet, fails):
    """Under autocast, the layer saves copies with 16 bits."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fails(test_a_linear_layer_saves_its_inputs, snippet)


def test_a_linear_layer_saves_its_inputs__ends_for_transposed_sequences(
    snippet, fails
):
    """Of sequences whose first two dimensions are swapped, the layer makes
    one long batch, and saves this copy.
    """
    edited = snippet.edit(
        "torch.ones(4, 3)\n", "torch.ones(4, 2, 3).transpose(0, 1)\n"
    )
    fails(test_a_linear_layer_saves_its_inputs, edited)


# -------------------------------------------------- what you may overwrite

CHANGES = {
    "mul_": "t.mul_(2)",
    "zero_": "t.zero_()",
    "through detach()": "t.detach().add_(1)",
    "through a view": "t.view(-1)[0].fill_(1)",
    "under no_grad()": "torch.no_grad()(t.copy_)(torch.ones(()))",
}
MUL = "tensors[overwritten].mul_(2)"


def test_only_saved_tensors_matter(snippet, change="t.mul_(2)"):
    if change != "t.mul_(2)":
        new = change.replace("t.", "tensors[overwritten].")
        snippet = snippet.edit(MUL, new)
    run = snippet.after("overwrite-each")

    assert len(run.operations) == 11
    assert run.differ == []
    assert run.raising == run.found
    assert any(run.raising.values())


@pytest.mark.parametrize("name", CHANGES)
def test_only_saved_tensors_matter__also_for_a_change_by(snippet, name):
    change = CHANGES[name]
    new = change.replace("t.", "tensors[overwritten].", 1)
    if name == "under no_grad()":
        new = "torch.no_grad()(tensors[overwritten].copy_)(torch.ones(()))"
    run = (snippet if name == "mul_" else snippet.edit(MUL, new)).after(
        "overwrite-each"
    )

    assert run.raising == run.found


def test_only_saved_tensors_matter__also_by_the_text(snippet):
    run = snippet.after("found")
    for name, operation in run.operations.items():
        for overwritten in ("x", "y", "result"):
            leaf = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
            tensors = {"x": leaf * 2, "y": leaf * 3}
            tensors["result"] = operation(**tensors)
            total = tensors["result"].sum() * 2
            tensors[overwritten].mul_(2)
            raised = MODIFIED in error_of(total.backward)
            assert raised == (overwritten in run.found[name])


def test_only_saved_tensors_matter__also_in_the_exercise(snippet):
    run = snippet.after("which-raise")

    assert run.said == ["hidden**2 raises"]
    assert [run.tries[name](7) for name in run.tries] == [17, 70, 49]


@edits(
    ("through data", MUL, "tensors[overwritten].data.mul_(2)"),
    ("a new tensor", MUL, "tensors[overwritten] * 2"),
    (
        "another tensor",
        MUL,
        "tensors['x'].mul_(2)",
    ),
)
def test_only_saved_tensors_matter__but_not(snippet, old, new, fails):
    """Through `.data`, the change is not noticed, and a new tensor overwrites
    nothing.
    """
    fails(test_only_saved_tensors_matter, snippet.edit(old, new))


def test_only_saved_tensors_matter__but_not_if_the_operation_raises_alone(
    snippet, fails
):
    """An operation that overwrites what `exp` has saved raises whatever you
    do.
    """
    edited = snippet.edit("y: x + y", "y: x.exp().mul_(y)")
    fails(test_only_saved_tensors_matter, edited)


# --------------------------------------------------------------- views


def test_changes_flow_through_views(snippet):
    run = snippet.after("slice")

    assert run.hidden.tolist() == [6, 6, 2]
    assert run.weight.grad == 3 + 3 + 1


@edits(
    ("a clone", "hidden[:2]", "hidden[:2].clone()"),
    ("detached", "hidden[:2]", "hidden.detach()[:2]"),
    ("all three", "hidden[:2]", "hidden[:3]"),
    ("a new tensor", "first_two *= 3", "first_two = first_two * 3"),
    (
        "under no_grad()",
        "first_two *= 3",
        "torch.no_grad()(first_two.mul_)(3)",
    ),
)
def test_changes_flow_through_views__but_not(snippet, old, new, fails):
    """A clone does not reach `hidden`; detached or under `no_grad()`, the
    factor is missing in the gradient.
    """
    fails(test_changes_flow_through_views, snippet.edit(old, new))


@pytest.mark.parametrize(
    "take",
    [lambda x: x[:2], lambda x: x[:2].view(-1), lambda x: x.T[0:2].T],
    ids=["a slice", "a view of a slice", "a transpose"],
)
def test_changes_flow_through_views__also_with(take):
    weight = torch.tensor(2.0, requires_grad=True)
    hidden = weight * (torch.ones(3, 3) if take(torch.ones(3, 3)).shape == (
        3, 2) else torch.ones(3))  # fmt: skip
    part = take(hidden)
    part *= 3
    hidden.sum().backward()

    assert weight.grad == hidden.numel() + 2 * part.numel()


SEVERAL = "output of a function that returns multiple views"
PARTS = {
    "a loop": lambda x: next(iter(x)),
    "unbind": lambda x: x.unbind()[0],
    "split": lambda x: x.split(2)[1],
    "chunk": lambda x: x.chunk(2)[0],
}


def test_several_views_refuse(snippet):
    bare = snippet.edit("except RuntimeError as e", "except KeyError as e")
    assert SEVERAL in error_of(lambda: bare.after("several-views"))
    run = snippet.after("several-views")
    hidden = run.weight * torch.ones(3)

    assert SEVERAL in error_of(lambda: run.add_to_each(hidden))
    assert hidden.tolist() == [2, 2, 2]
    plain = torch.ones(3)
    run.add_to_each(plain)
    assert plain.tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", PARTS)
def test_several_views_refuse__also_for(name):
    for leaf in (torch.ones(3), torch.ones(4, 2), torch.ones(3).double()):
        for tensor in (leaf.requires_grad_(), leaf.requires_grad_() * 2):
            part = PARTS[name](tensor)
            assert SEVERAL in error_of(part.zero_)
    with torch.no_grad(), no_error():
        PARTS[name](leaf * 2).zero_()


@edits(
    ("detached", "in rows:", "in rows.detach():"),
    (
        "an index",
        "in rows:\n        row += 1",
        "in range(3):\n        rows[row] += 1",
    ),
    ("new rows", "row += 1", "row = row + 1"),
    ("clones", "in rows:", "in rows.clone().detach():"),
)
def test_several_views_refuse__but_not(snippet, old, new, fails):
    """Detached or through an index, the change runs, and new rows change
    nothing.
    """
    fails(test_several_views_refuse, snippet.edit(old, new))


def test_several_views_refuse__ends_under_no_grad(snippet, fails):
    """Under `no_grad()`, the parts can be changed in place."""
    old = "def add_to_each"
    edited = snippet.edit(old, f"@torch.no_grad()\n{old}")
    fails(test_several_views_refuse, edited)


# ------------------------------------------------------------ in-place ReLU

torch.manual_seed(0)
FINE = {
    "Linear": (nn.Linear(3, 4), (2, 3)),
    "Conv1d": (nn.Conv1d(3, 2, 2), (2, 3, 4)),
    "BatchNorm1d": (nn.BatchNorm1d(3), (5, 3)),
    "LayerNorm": (nn.LayerNorm(3), (2, 3)),
    "Dropout": (nn.Dropout(0.5), (4, 4)),
    "Linear, float64": (nn.Linear(3, 4).double(), (2, 3)),
    "Linear, one sample": (nn.Linear(3, 4), (3,)),
}


@pytest.mark.parametrize("name", FINE)
def test_relu_in_place_is_fine(snippet, name):
    run = snippet.after("relu-behind-all")
    layer, shape = FINE[name]
    dtype = next((p.dtype for p in layer.parameters()), torch.float32)
    torch.manual_seed(4)
    inputs = torch.randn(shape, dtype=dtype, requires_grad=True)

    learning, made = [inputs, *layer.parameters()], []
    layer.zero_grad()
    hook = layer.register_forward_hook(lambda *those: made.append(those[2]))
    torch.manual_seed(3)
    assert run.relu_behind(layer, inputs) == "trains"
    hook.remove()
    in_place = [each.grad for each in learning]
    inputs.grad = None
    layer.zero_grad()
    torch.manual_seed(3)
    F.relu(layer(inputs)).sum().backward()

    assert (made[0] >= 0).all()
    for grad, parameter in zip(in_place, learning, strict=True):
        assert grad is not None
        assert torch.equal(grad, parameter.grad)
    named = name.partition(",")[0]
    assert named == "Conv1d" or run.outcomes[named] == "trains"


@pytest.mark.parametrize("name", FINE)
@edits(
    (
        "an ordinary ReLU",
        "(layer(inputs), inplace=True)",
        "(layer(inputs))",
    ),
    ("another loss", "inplace=True).sum()", "inplace=True).square().sum()"),
)
def test_relu_in_place_is_fine__but_not(snippet, name, old, new, fails):
    """An ordinary ReLU leaves the output of the layer alone, and another loss
    has other gradients.
    """
    fails(test_relu_in_place_is_fine, snippet.edit(old, new), name)


@pytest.mark.parametrize("name", [n for n in FINE if n != "Dropout"])
def test_relu_in_place_is_fine__but_not_with_detached_weights(
    snippet, name, fails
):
    """Called with detached weights, the layer gets no gradients."""
    edited = snippet.edit(
        "    try:\n        nn.functional.relu(layer(inputs)",
        "    weights = {n: w.detach() for n, w in layer.named_parameters()}\n"
        "    call = torch.func.functional_call\n"
        "    try:\n        nn.functional.relu(call(layer, weights, inputs)",
    )
    fails(test_relu_in_place_is_fine, edited, name)


@pytest.mark.parametrize("name", FINE)
@pytest.mark.parametrize("other", ["layer(inputs).exp()", "2 * layer(inputs)"])
def test_relu_in_place_is_fine__but_not_further_behind(
    snippet, name, other, fails
):
    """Behind `exp`, which saves its result, the ReLU raises; behind `2 *`, it
    overwrites another tensor than the output of the layer.
    """
    edited = snippet.edit("relu(layer(inputs)", f"relu({other}")
    fails(test_relu_in_place_is_fine, edited, name)


def test_relu_in_place_is_fine__ends_after_dropout_in_evaluation_mode(
    snippet, fails, monkeypatch
):
    """`Dropout` in evaluation mode returns its input, and the ReLU writes into
    that.
    """
    monkeypatch.setitem(FINE, "Dropout", (nn.Dropout().eval(), (4, 4)))
    fails(test_relu_in_place_is_fine, snippet, "Dropout")


RAISING = {
    "Sigmoid": nn.Sigmoid(),
    "Tanh": nn.Tanh(),
    "Softmax": nn.Softmax(dim=-1),
    "ReLU": nn.ReLU(),
}


@pytest.mark.parametrize("name", RAISING)
def test_relu_in_place_raises(snippet, name):
    run = snippet.after("relu-behind-all")
    assert run.outcomes[name] == "raises"

    for shape in ((3,), (2, 3), (2, 3, 4)):
        for dtype in DTYPES.values():
            inputs = torch.rand(shape, dtype=dtype, requires_grad=True)
            assert run.relu_behind(RAISING[name], inputs) == "raises"


@pytest.mark.parametrize("name", RAISING)
@pytest.mark.parametrize(
    "other", ["layer(inputs) * 1", "layer(inputs).clone()"]
)
def test_relu_in_place_raises__but_not_behind_a_copy(
    snippet, name, other, fails
):
    """With a copy in between, the ReLU overwrites the copy."""
    edited = snippet.edit("relu(layer(inputs)", f"relu({other}")
    fails(test_relu_in_place_raises, edited, name)


@pytest.mark.parametrize("name", RAISING)
def test_relu_in_place_raises__but_not_an_ordinary_one(snippet, name, fails):
    """An ordinary ReLU overwrites nothing."""
    edited = snippet.edit(
        "relu(layer(inputs), inplace=True)", "relu(layer(inputs))"
    )
    fails(test_relu_in_place_raises, edited, name)


def test_a_skip_connection_is_silent(snippet):
    with no_error():
        run = snippet.after("skip-connection")

    assert run.hidden.tolist() == [2, 0]
    for layer in (nn.Linear(3, 4), nn.Linear(3, 4, bias=False)):
        start = torch.randn(2, 3)
        with no_error():
            output = run.skip(layer(start))
            output.sum().backward()
        assert torch.equal(output, 2 * layer(start).relu())
        assert layer.weight.grad is not None


@each("tensor", TENSORS, "transposed", "float64", "bfloat16", "non-leaf")
def test_a_skip_connection_is_silent__also_for_a_tensor(snippet, tensor):
    hidden = tensor() - 2
    expected = 2 * hidden.relu()

    assert torch.equal(snippet.after("skip-connection").skip(hidden), expected)


@pytest.mark.parametrize(
    "before",
    ["hidden = hidden.tanh()", "hidden = hidden.detach().requires_grad_()"],
    ids=["tanh", "a leaf"],
)
def test_a_skip_connection_is_silent__ends_behind(snippet, before, fails):
    """`tanh` has saved its result, so `backward()` raises; a leaf that
    requires gradients refuses at once.
    """
    edited = snippet.edit(
        "    return hidden + nn", f"    {before}\n    return hidden + nn"
    )
    fails(test_a_skip_connection_is_silent, edited)


def test_a_skip_connection_is_silent__ends_if_hidden_was_saved(snippet, fails):
    """If another operation has saved `hidden`, `backward()` raises."""
    edited = snippet.edit(
        "return hidden + nn", "return 0 * hidden.square() + hidden + nn"
    )
    fails(test_a_skip_connection_is_silent, edited)


def test_a_skip_connection_is_silent__but_not_out_of_place(snippet, fails):
    """An ordinary `relu` leaves `hidden` alone, and the sum is right."""
    edited = snippet.edit("(hidden, inplace=True)", "(hidden)")
    fails(test_a_skip_connection_is_silent, edited)


def test_a_skip_connection_is_silent__but_not_behind_a_copy(snippet, fails):
    """In a clone, the ReLU overwrites the clone only."""
    edited = snippet.edit(
        "relu(hidden, inplace=True)", "relu(hidden.clone(), inplace=True)"
    )
    fails(test_a_skip_connection_is_silent, edited)


# --------------------------------------------------------- where it ends


def test_hooks_do_not_check(snippet):
    with no_error():
        run = snippet.after("hooks")

    assert run.zero.exp() == 1
    assert run.one == 1 + 5
    assert run.zero.grad == 6


@pytest.mark.parametrize("change", ["one[1:] += 1", "one.zero_()"])
def test_hooks_do_not_check__also_with(change):
    rate = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        one = rate.exp()
    exec(change, {"one": one})
    one.sum().backward()

    result = torch.autograd.grad(rate.exp().sum(), rate)[0]
    assert not torch.equal(rate.grad, result)


@edits(
    ("no hook", "with torch.autograd.graph.save_on_cpu():", "if True:"),
    ("a new tensor", "one += 5", "one = one + 5"),
)
def test_hooks_do_not_check__but_not(snippet, old, new, fails):
    """Without the hook, `backward()` raises; a new tensor overwrites
    nothing.
    """
    fails(test_hooks_do_not_check, snippet.edit(old, new))


@pytest.mark.skipif(
    torch.accelerator.is_available(), reason="pinning needs an accelerator"
)
def test_hooks_do_not_check__ends_where_pinning_raises(snippet, fails):
    """`pin_memory=True` raises an error of its own where there is no
    accelerator.
    """
    edited = snippet.edit("save_on_cpu()", "save_on_cpu(pin_memory=True)")
    fails(test_hooks_do_not_check, edited)
