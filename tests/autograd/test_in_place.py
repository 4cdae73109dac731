"""The claims of docs/autograd/in_place.md."""

import re

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older
from tests.helpers.programs import error_of
from tests.helpers.worlds import DTYPES, TENSORS, each

MODIFIED = "modified by an inplace operation"
OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"]


def edit_cell(snippet, cell, old, new):
    """Change one passage of a cell, which other cells may hold as well."""
    source = snippet.cell(cell).source
    assert source.count(old) == 1
    return snippet.edit(source, source.replace(old, new))


def first_error(snippet):
    """Return the text of the first error on the page."""
    caught = "except RuntimeError as error:\n    print(error)"
    bare = caught.replace("RuntimeError", "ZeroDivisionError")
    edited = edit_cell(snippet, "overwritten", caught, bare)
    return error_of(lambda: edited.after("overwritten"))


def leaf():
    """Return a leaf of three numbers."""
    return torch.tensor([0.5, 1.0, 2.0], requires_grad=True)


# --------------------------------------------------------------- do this


def test_a_new_tensor_overwrites_nothing(snippet):
    with no_error():
        run = snippet.after("do-this")

    assert run.hidden == 3 + 1
    assert run.loss == 16 + 4
    assert run.head_weight.grad == -8 * 3 == -24


def test_a_new_tensor_overwrites_nothing__also_in_the_picture(snippet):
    (saved, hidden), (both, changed) = snippet.after("two-ways").ways.values()

    assert [saved, saved._version] == [3, 0]
    assert [hidden, hidden._version] == [4, 0]
    assert saved.data_ptr() != hidden.data_ptr()
    assert [both, both._version] == [4, 1]
    assert both.data_ptr() == changed.data_ptr()


@each("dtype", DTYPES)
def test_a_new_tensor_overwrites_nothing__also_with(dtype):
    rate = torch.tensor([0.5, 1, 2], dtype=dtype, requires_grad=True)
    before = growth = rate.exp()
    growth = growth + 1
    growth.sum().backward()

    assert before._version == 0
    assert torch.equal(rate.grad, before)


@edits(
    ("in place", "hidden = hidden + 1  #", "hidden += 1  #"),
    ("through data", "hidden = hidden + 1  #", "hidden.data += 1  #"),
)
def test_a_new_tensor_overwrites_nothing__but_not(snippet, old, new, fails):
    """`+=` overwrites the saved 3: `backward()` raises, or through `.data`
    uses the 4.
    """
    edited = snippet.edit(old, new)
    fails(test_a_new_tensor_overwrites_nothing, edited)


def test_a_new_tensor_overwrites_nothing__but_not_if_the_head_uses_it(
    snippet, fails
):
    """If the head multiplies by the new tensor, its gradient is another."""
    edited = edit_cell(
        snippet,
        "do-this",
        "prediction = head_weight * hidden  # 2 * 3 = 6\n"
        "hidden = hidden + 1  # instead of hidden += 1\n",
        "hidden = hidden + 1\nprediction = head_weight * hidden\n",
    )
    fails(test_a_new_tensor_overwrites_nothing, edited)


def test_weights_change_under_no_grad(snippet):
    with no_error():
        run = snippet.after("do-this")

    assert run.head_weight.item() == pytest.approx(2 + 0.01 * 24)
    assert run.head_weight._version == 1  # the same tensor, changed once
    assert run.head_weight.is_leaf
    assert run.head_weight.requires_grad


@pytest.mark.parametrize("kind", [nn.Linear, nn.LayerNorm, nn.PReLU])
def test_weights_change_under_no_grad__also_of(kind):
    layer = kind(3, 3) if kind is nn.Linear else kind(3)
    weight, place = layer.weight, layer.weight.data_ptr()
    with torch.no_grad():
        weight -= 5

    assert layer.weight is weight
    assert weight.data_ptr() == place
    assert weight.requires_grad


@edits(
    (
        "with gradients recorded",
        "no_grad():\n    head",
        "enable_grad():\n    head",
    ),
    (
        "a new tensor",
        "    head_weight -= 0",
        "    head_weight = 1 * head_weight - 0",
    ),
    (
        "under another name",
        "    head_weight -= 0",
        "    changed = head_weight - 0",
    ),
    (
        "a new leaf",
        "    head_weight -= 0.01 * head_weight.grad",
        "    head_weight = (head_weight - 0.01 * head_weight.grad)"
        ".requires_grad_()",
    ),
    (
        "frozen first",
        "    head_weight -= 0",
        "    head_weight.requires_grad_(False)\n    head_weight -= 0",
    ),
)
def test_weights_change_under_no_grad__but_not(snippet, old, new, fails):
    """While gradients are recorded, the line raises; the other edits make a
    new tensor or a frozen one.
    """
    fails(test_weights_change_under_no_grad, snippet.edit(old, new))


# ---------------------------------------------------------- how it works

WRITES = {
    "+=": "{} += 1",
    "an element": "{}[0] = 1",
    "a slice": "{}[1:] = 2",
    "a mask": "{}[{} > 0] = 0",
    "zero_": "{}.zero_()",
    "copy_": "{}.copy_(torch.ones(3))",
    "clamp_": "{}.clamp_(0, 1)",
    "in-place ReLU": "torch.relu_({})",
    "a view": "{}.view(-1).add_(1)",
    "detach()": "{}.detach().mul_(3)",
    "out=": "torch.add(torch.ones(3), 1, out={}.detach())",
    "no_grad()": "torch.no_grad()({}.add_)(1)",
}


def write(tensor, way):
    """Change a tensor in place in one of the ways above."""
    exec(WRITES[way].replace("{}", "t"), {"t": tensor, "torch": torch})


def test_a_change_raises_the_version(snippet, tensor=None, way="+="):
    run = snippet.after("overwritten")
    assert run.hidden._version == 1
    tensor = torch.ones(3) if tensor is None else tensor
    for version in (1, 2, 3):
        write(tensor, way)
        assert tensor._version == version


@pytest.mark.parametrize("way", WRITES)
def test_a_change_raises_the_version__also_by(snippet, way):
    test_a_change_raises_the_version(snippet, leaf() * 1, way)


@each(
    "tensor",
    TENSORS,
    "a single number",
    "of one element",
    "transposed",
    "with gaps",
    "empty",
    "bfloat16",
    "at the ends of uint8",
)
def test_a_change_raises_the_version__also_of_a_tensor(snippet, tensor):
    test_a_change_raises_the_version(snippet, tensor())


@edits(
    ("a new tensor", "hidden += 1", "hidden = hidden + 1"),
    ("through data", "hidden += 1", "hidden.data += 1"),
    ("a copy", "hidden += 1", "hidden.clone().add_(1)"),
    ("two changes", "hidden += 1", "hidden += 1\nhidden += 1"),
)
def test_a_change_raises_the_version__but_not(snippet, old, new, fails):
    """A new tensor or a copy leaves the old version alone, and so does a
    write through `.data`; two changes raise it by two.
    """
    edited = edit_cell(snippet, "overwritten", old, new)
    fails(test_a_change_raises_the_version, edited)


def test_a_change_raises_the_version__ends_for_one_element_plus_one(
    snippet, fails, monkeypatch
):
    """`x[0] += 1` is two writes, into a view and back, and counts twice."""
    monkeypatch.setitem(WRITES, "+=", "{}[0] += 1")
    fails(test_a_change_raises_the_version, snippet)


def test_an_overwritten_result_raises(snippet):
    run = snippet.after("overwritten")

    assert run.hidden == 4  # what was 3 when the head used it
    assert run.prediction == 2 * 3
    assert run.loss == (6 - 10) ** 2
    assert MODIFIED in first_error(snippet)


@pytest.mark.parametrize("way", WRITES)
def test_an_overwritten_result_raises__also_by(way):
    growth = leaf().exp()
    total = growth.sum()
    write(growth, way)

    assert MODIFIED in error_of(total.backward)


@pytest.mark.parametrize(
    "operation",
    [torch.exp, torch.sqrt, torch.tanh, torch.sigmoid, torch.softmax],
    ids=lambda operation: operation.__name__,
)
def test_an_overwritten_result_raises__also_through_detach_for(operation):
    rate = torch.tensor([0.0, 1.0], requires_grad=True)
    arguments = (0,) if operation is torch.softmax else ()
    growth = operation(rate + 1, *arguments)
    growth.detach().zero_()

    assert growth.tolist() == [0, 0]
    assert "Zero" not in str(growth.grad_fn)  # the write is not recorded
    assert MODIFIED in error_of(growth.sum().backward)
    assert rate.grad is None


@pytest.mark.parametrize("change", ["+= 0", "+= 1; hidden -= 1"])
def test_an_overwritten_result_raises__also_if_the_number_is_the_same(change):
    weight = torch.tensor(2.0, requires_grad=True)
    hidden = torch.tensor(3.0, requires_grad=True) * 1
    names = {"hidden": hidden, "prediction": weight * hidden}
    exec(f"hidden {change}", names)

    assert names["hidden"] == 3
    assert MODIFIED in error_of(names["prediction"].backward)


def test_an_overwritten_result_raises__also_for_a_batch_of_data():
    layer, batch = nn.Linear(3, 2), torch.ones(4, 3)
    loss = layer(batch).sum()
    batch += 1

    assert MODIFIED in error_of(loss.backward)


@edits(
    ("a new tensor", "hidden += 1", "hidden = hidden + 1"),
    ("a clone", "hidden += 1", "hidden = hidden.clone().add_(1)"),
    ("through data", "hidden += 1", "hidden.data += 1"),
    (
        "a sum, which saves nothing",
        "prediction = head_weight * hidden",
        "prediction = head_weight + hidden",
    ),
)
def test_an_overwritten_result_raises__but_not(snippet, old, new, fails):
    """A new tensor or a clone leaves the 3 alone, `.data` is not noticed, and
    a sum needs no 3.
    """
    edited = edit_cell(snippet, "overwritten", old, new)
    fails(test_an_overwritten_result_raises, edited)


def test_an_overwritten_result_raises__ends_under_allow_mutation(
    snippet, fails
):
    """`allow_mutation_on_saved_tensors()` keeps a copy of the old numbers."""
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        fails(test_an_overwritten_result_raises, snippet)


def test_an_overwritten_result_raises__ends_under_save_on_cpu(snippet, fails):
    """Under `save_on_cpu()`, no version is compared, so nothing is raised."""
    with torch.autograd.graph.save_on_cpu():
        fails(test_an_overwritten_result_raises, snippet)


def test_a_change_before_saving_is_fine(snippet, way="+="):
    with no_error():
        run = snippet.after("before-saving")

    assert run.prediction == 2 * 4
    assert run.gradient == -4 * 4 == -16
    start = leaf()
    hidden = start * 1
    write(hidden, way)
    growth = hidden.exp()
    with no_error():
        growth.sum().backward()


@pytest.mark.parametrize("way", WRITES)
def test_a_change_before_saving_is_fine__also_by(snippet, way):
    test_a_change_before_saving_is_fine(snippet, way)


def test_a_change_before_saving_is_fine__also_in_the_exercise(snippet):
    run = snippet.after("twice-overwritten")

    assert run.hidden == 3 * 2 + 1
    assert run.weight.grad == 2 * 7 * 2 == 28


def test_a_change_before_saving_is_fine__but_not_after_the_head(
    snippet, fails
):
    """The same `+=` one line later, after the head has used `hidden`,
    raises.
    """
    edited = edit_cell(
        snippet,
        "before-saving",
        "hidden += 1  # before the head uses it\n"
        "prediction = head_weight * hidden  # 2 * 4 = 8\n",
        "prediction = head_weight * hidden\nhidden += 1\n",
    )
    fails(test_a_change_before_saving_is_fine, edited)


def test_a_change_before_saving_is_fine__but_not_behind_exp(snippet, fails):
    """`exp` has saved its result already, so changing it raises."""
    edited = edit_cell(
        snippet,
        "before-saving",
        "hidden = encoder_weight * x",
        "hidden = (encoder_weight * x).exp()",
    )
    fails(test_a_change_before_saving_is_fine, edited)


VIEWS = {
    "a row": lambda x: x[0],
    "a slice": lambda x: x[1:],
    "every second row": lambda x: x[::2],
    "T": lambda x: x.T,
    "view": lambda x: x.view(-1),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "detach": lambda x: x.detach(),
    "a slice of detach": lambda x: x.detach()[1:],
}


def test_views_share_a_version(snippet):
    run = snippet.after("view")

    assert run.hidden.tolist() == [4, 6]
    assert run.first._version == run.hidden._version == 1


@pytest.mark.parametrize("taken", VIEWS)
def test_views_share_a_version__also_for(taken):
    whole = torch.ones(3, 2)
    view = VIEWS[taken](whole)
    whole.add_(1)
    assert view._version == whole._version == 1

    VIEWS[taken](whole).zero_()
    assert view._version == whole._version == 2


@edits(
    ("a clone", "hidden[:1]", "hidden[:1].clone()"),
    ("a list of places", "hidden[:1]", "hidden[[0]]"),
    ("data", "hidden[:1]", "hidden.data[:1]"),
)
def test_views_share_a_version__but_not(snippet, old, new, fails):
    """A clone and a list of places make copies; `.data` shares the numbers,
    but has a version of its own.
    """
    fails(test_views_share_a_version, snippet.edit(old, new))


# -------------------------------------------------------- read the error


def message_of(operation, tensor, change, of_result=False):
    """Return the text if a tensor, or what is made of it, is overwritten."""
    result = operation(tensor)
    total = result.sum()
    change(result if of_result else tensor)
    return error_of(total.backward)


def shape_in(text):
    found = re.search(r"operation: \[[\w.]+ (\[[\d, ]*\])\]", str(text))
    return found and eval(found[1])


def add_one(tensor):
    tensor += 1


def non_leaf(*shape):
    return torch.ones(shape, requires_grad=True) * 1


def test_the_text_gives_the_shape(snippet, layer=None):
    run = snippet.after("exp")
    assert run.growth.allclose(2 * (run.rate.exp() + 1))
    assert shape_in(run.said) == [3]
    layer = layer or nn.Linear(3, 4)
    assert shape_in(message_of(layer, non_leaf(10, 3), add_one)) == [10, 3]


@pytest.mark.parametrize("shape", [(), (3,), (3, 4), (2, 3, 4), (0, 3)])
def test_the_text_gives_the_shape__also_for(shape):
    for operation in (torch.exp, torch.sigmoid, torch.tanh, torch.relu):
        text = message_of(operation, non_leaf(*shape), add_one, True)
        assert shape_in(text) == [*shape]
    text = message_of(torch.square, non_leaf(*shape), add_one)
    assert shape_in(text) == [*shape]


@pytest.mark.parametrize(
    ("shape", "operation"),
    [
        ([2, 4], lambda x: x[:2].log()),
        ([4, 3], lambda x: x.T.log()),
        ([12], lambda x: x.view(-1).log()),
    ],
    ids=["a slice", "a transpose", "a view"],
)
def test_the_text_gives_the_shape__also_of(shape, operation):
    text = message_of(operation, non_leaf(3, 4), add_one)
    assert shape_in(text) == shape


def test_the_text_gives_the_shape__also_of_inputs_as_one_long_batch():
    text = message_of(nn.Linear(3, 4), non_leaf(2, 5, 3), add_one)
    assert shape_in(text) == [2 * 5, 3]


def test_the_text_gives_the_shape__but_not_without_an_error(snippet, fails):
    """A new tensor overwrites nothing, so there is no text."""
    edited = edit_cell(snippet, "exp", "growth += 1", "growth = growth + 1")
    edited = edit_cell(edited, "exp", "growth *= 2", "growth = growth * 2")
    fails(test_the_text_gives_the_shape, edited)


def test_the_text_gives_the_shape__but_not_of_another_tensor(snippet, fails):
    """Save a longer tensor, and the text gives the longer shape."""
    old = "[0.0, 1.0, 2.0]"
    edited = snippet.edit(old, "[0.0, 1.0, 2.0, 3.0]")
    fails(test_the_text_gives_the_shape, edited)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "relu"])
def test_the_text_names_the_operation(snippet, name):
    if name != "exp":
        snippet = snippet.edit("rate.exp()", f"rate.{name}()")
    named = f"output 0 of {name.capitalize()}"
    assert named in snippet.after("exp").said


@pytest.mark.parametrize("way", WRITES)
def test_the_text_names_the_operation__also_by(way):
    for name in ("exp", "sigmoid", "tanh", "relu"):
        text = message_of(
            getattr(torch, name), leaf(), lambda t: write(t, way), True
        )
        assert f"output 0 of {name.capitalize()}" in text


def test_the_text_names_the_operation__but_not_if_the_input_was_saved(
    snippet, fails
):
    """A square saves its input, and the text names the change, `Add`."""
    edited = edit_cell(
        snippet,
        "exp",
        "growth = rate.exp()\ngrowth += 1\ngrowth *= 2\n",
        "hidden = rate * 1\ngrowth = hidden.square()\nhidden += 1\n",
    )
    fails(test_the_text_names_the_operation, edited, "exp")


NAMED = {
    "+=": "Add",
    "*=": "Mul",
    "/=": "Div",
    "zero_": "Zero",
    "exp_": "Exp",
    "relu_": "Relu",
    "clamp_": "Clamp",
    "masked_fill_": "MaskedFill",
    "an element": "CopySlices",
    "a mask": (
        "IndexPut" if older(torch.__version__, "2.14") else "MaskedFill"
    ),
}
CHANGES = {
    "+=": "t += 1",
    "*=": "t *= 2",
    "/=": "t /= 2",
    "zero_": "t.zero_()",
    "exp_": "t.exp_()",
    "relu_": "t.relu_()",
    "clamp_": "t.clamp_(0, 1)",
    "masked_fill_": "t.masked_fill_(t > 1, 0)",
    "an element": "t[0] = 1",
    "a mask": "t[t > 1] = 0",
}
NAME = re.compile(r"output 0 of [\w:]*?([A-Z]\w*?)(Backward)?\d*,")


def test_the_text_names_the_change(snippet):
    named = NAME.search(first_error(snippet))
    assert named
    assert named[1] == "Add"
    text = message_of(
        torch.square, leaf() * 1, lambda t: write(t, "an element")
    )
    assert NAME.search(text)[1] == "CopySlices"


@pytest.mark.parametrize("way", CHANGES)
@pytest.mark.parametrize("operation", [torch.square, torch.log, torch.sin])
def test_the_text_names_the_change__also_by(way, operation):
    text = message_of(
        operation, leaf() * 1, lambda t: exec(CHANGES[way], {"t": t})
    )
    assert NAME.search(text)[1].startswith(NAMED[way])


def test_the_text_names_the_change__but_not_if_the_result_was_saved(
    snippet, fails
):
    """`exp` saves its result, and the text names `Exp` instead."""
    edited = edit_cell(
        snippet,
        "overwritten",
        "prediction = head_weight * hidden",
        "hidden = hidden.exp()\nprediction = 2 * hidden",
    )
    fails(test_the_text_names_the_change, edited)


def test_the_text_names_the_change__but_not_another(snippet, fails):
    """Multiply in place instead of adding, and the text says `Mul`."""
    edited = edit_cell(snippet, "overwritten", "hidden += 1", "hidden *= 2")
    fails(test_the_text_names_the_change, edited)


def test_the_text_names_the_change__ends_if_a_view_was_saved(snippet, fails):
    """If a view of the tensor was saved, the text says `AsStrided`."""
    edited = edit_cell(
        snippet,
        "overwritten",
        "prediction = head_weight * hidden",
        "prediction = head_weight * hidden.view(1)",
    )
    fails(test_the_text_names_the_change, edited)


def test_the_text_names_the_change__ends_under_no_grad(snippet, fails):
    """A change under `no_grad()` is not recorded: the text names what made the
    tensor, here `Mul`.
    """
    edited = edit_cell(
        snippet,
        "overwritten",
        "hidden += 1",
        "torch.no_grad()(hidden.add_)(1)",
    )
    fails(test_the_text_names_the_change, edited)


def same(tensor):
    return tensor


def test_no_name_means_a_leaf(snippet, tensor=None, use=same):
    assert "output 0 of" in first_error(snippet)  # of a non-leaf
    run = snippet.after("overwritten")
    tensors = [run.encoder_weight, run.x] if tensor is None else [tensor]
    for overwritten in tensors:
        factor = torch.tensor(2.0, requires_grad=True)
        loss = (factor * use(overwritten)).sum()
        with torch.no_grad():
            overwritten += 1
        text = error_of(loss.backward)
        assert MODIFIED in text
        assert "output 0 of" not in text


def test_no_name_means_a_leaf__but_not_of_a_result(snippet, fails):
    """An input that was computed from a weight is no leaf, and the text names
    an operation.
    """
    edited = snippet.edit(
        "x, y = torch.tensor(1.0), torch.tensor(10.0)",
        "x = 2 * torch.tensor(0.5, requires_grad=True)\n"
        "y = torch.tensor(10.0)",
    )
    fails(test_no_name_means_a_leaf, edited)


@pytest.mark.parametrize("operation", [nn.Linear(3, 2), nn.Conv1d(4, 2, 1)])
def test_no_name_means_a_leaf__also_for_a_batch_in(operation):
    text = message_of(operation, torch.ones(4, 3), add_one)
    assert MODIFIED in text
    assert "output 0 of" not in text


def test_no_name_means_a_leaf__ends_for_a_non_leaf(snippet, fails):
    """For a tensor that was computed from a weight: the text names an
    operation.
    """
    made = torch.ones((), requires_grad=True) * 3
    fails(test_no_name_means_a_leaf, snippet, made)


def test_no_name_means_a_leaf__ends_at_the_weight_of_a_linear_layer(
    snippet, fails
):
    """A linear layer saves its weight transposed, and the text says
    `AsStrided`, although the weight is a leaf.
    """
    weight, inputs = nn.Linear(3, 3).weight, non_leaf(3, 3)
    fails(
        test_no_name_means_a_leaf,
        snippet,
        weight,
        lambda weight: F.linear(inputs, weight),
    )


def test_the_weight_is_transposed(snippet, wide=4, out=1):
    run = snippet.after("linear-weight")

    assert run.layer.weight.shape == (out, wide)
    assert shape_in(run.said) == [wide, out]
    assert "output 0 of AsStrided" in run.said


@pytest.mark.parametrize("shape", ["(4,)", "(2, 5, 4)", "(1, 4)"])
def test_the_weight_is_transposed__also_for_inputs_of(snippet, shape):
    edited = snippet.edit("torch.ones(2, 4, ", f"torch.ones({shape}, ")
    test_the_weight_is_transposed(edited)


@pytest.mark.parametrize(
    "view",
    [lambda x: x[0], lambda x: x[:2], lambda x: x.T, lambda x: x.view(-1)],
    ids=["a row", "a slice", "a transpose", "a view"],
)
def test_the_weight_is_transposed__also_for(view):
    text = message_of(lambda x: view(x).log(), non_leaf(3, 4), add_one)

    assert "output 0 of AsStrided" in text


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_weight_is_transposed__also_after_a_step_of(name):
    said = error_of(lambda: losses_of(small_model(), torch.ones(2, 3), name))

    assert shape_in(said) == [4, 1]


@edits(
    ("another layer", "nn.Linear(4, 1)", "nn.Linear(4, 2)"),
    (
        "no linear layer",
        "output = layer(inputs)",
        "output = layer.weight * inputs",
    ),
)
def test_the_weight_is_transposed__but_not_with(snippet, old, new, fails):
    """`nn.Linear(4, 2)` shows as `[4, 2]`; multiplied by hand, the weight
    shows as it is.
    """
    edited = edit_cell(snippet, "linear-weight", old, new)
    fails(test_the_weight_is_transposed, edited)


VERSIONS = re.compile(r"at version (\d+); expected version (\d+)")


def test_the_text_counts_changes(snippet):
    found = VERSIONS.search(snippet.after("exp").said)

    assert found.groups() == ("2", "0")


@pytest.mark.parametrize(("earlier", "later"), [(0, 1), (0, 3), (2, 1)])
def test_the_text_counts_changes__also_with(earlier, later):
    hidden = non_leaf(3)
    for _ in range(earlier):
        hidden += 1
    total = hidden.square().sum()
    for _ in range(later):
        hidden += 1

    found = VERSIONS.search(error_of(total.backward))
    assert found.groups() == (str(earlier + later), str(earlier))


@pytest.mark.parametrize("kind", [nn.Linear, nn.Bilinear, nn.Embedding])
def test_the_text_counts_changes__also_of_the_weight_of_a_new(snippet, kind):
    layer = kind(4, *[4] * (kind is nn.Bilinear), 1)
    found = VERSIONS.search(snippet.after("linear-weight").said)

    assert layer.weight._version == 1
    assert found.groups() == ("2", "1")


@edits(
    ("one change", "growth *= 2\n", ""),
    ("a change before", "rate.exp()", "(rate + 1).add_(1).exp_()"),
)
def test_the_text_counts_changes__but_not(snippet, old, new, fails):
    """With one change, the text says version 1; changes before the saving
    raise both numbers.
    """
    fails(test_the_text_counts_changes, edit_cell(snippet, "exp", old, new))


# --------------------------------------------------------- find the line


def line_of(snippet, passage):
    """Return the number of the line with a passage in this cell."""
    text = snippet.text
    place = text.index(passage, text.index("# %% find-the-line"))
    return text.count("\n", 0, place) + 1


def test_anomaly_shows_the_forward_line(snippet):
    run = snippet.after("find-the-line")
    said = [str(each.message) for each in run.caught]
    found = [each for each in said if "Error detected in" in each]
    used = line_of(snippet, "prediction = head_weight * hidden")
    written = line_of(snippet, "hidden += 1")

    assert len(found) == 1
    assert f'"{snippet.path}", line {used},' in found[0]
    assert f'"{snippet.path}", line {written},' not in found[0]
    assert run.hidden == 4


def test_anomaly_shows_the_forward_line__also_of_exp(snippet):
    edited = edit_cell(
        snippet,
        "find-the-line",
        "    prediction = head_weight * hidden\n",
        "    hidden = (head_weight * hidden).exp()\n"
        "    prediction = 3 * hidden\n",
    )
    run = edited.after("find-the-line")
    used = line_of(edited, ".exp()\n")

    found = [str(each.message) for each in run.caught]
    assert f'"{edited.path}", line {used},' in found[-1]


def test_anomaly_shows_the_forward_line__but_not_around_backward_alone(
    snippet, fails
):
    """Around `backward()` alone, the warning knows no forward line."""
    edited = (
        snippet.edit("    torch.autograd.detect_anomaly(),\n", "")
        .edit(
            "    error_of(prediction.backward)\n",
            "    with torch.autograd.detect_anomaly():\n"
            "        error_of(prediction.backward)\n",
        )
        .edit("splitlines()[-2]", "splitlines()[-1]")
    )
    fails(test_anomaly_shows_the_forward_line, edited)


def test_anomaly_shows_the_forward_line__but_not_without_it(snippet, fails):
    """Without anomaly detection, nothing warns."""
    edited = snippet.edit("    torch.autograd.detect_anomaly(),\n", "").edit(
        "print(str(caught[-1]", "caught and print(str(caught[-1]"
    )
    fails(test_anomaly_shows_the_forward_line, edited)


# ---------------------------------------------------------------- fix it


def test_fixes_give_the_gradient(snippet):
    with no_error():
        run = snippet.after("fixes")

    assert run.hidden.tolist() == [3, 6]
    assert run.plus_one.tolist() == [4, 7]
    assert run.only_small.tolist() == [3, 0]
    assert run.capped.tolist() == [3, 5]
    assert run.changed.tolist() == [7, 6]
    assert run.gradient == 3 + 6


FIXES = {
    "a new tensor": lambda t: t + 1,
    "a clone": lambda t: t.clone().add_(1),
    "where": lambda t: torch.where(t > 5, 5, t),
    "masked_fill": lambda t: t.masked_fill(t > 5, 0),
}


@pytest.mark.parametrize("name", FIXES)
@each("dtype", DTYPES)
def test_fixes_give_the_gradient__also_behind_exp(name, dtype):
    rate = torch.tensor([1, 2, 2.5], dtype=dtype, requires_grad=True)
    growth = rate.exp()
    FIXES[name](growth).sum().backward()

    replaced = (growth > 5) & (name in ("where", "masked_fill"))
    assert torch.equal(rate.grad, growth * ~replaced)


def test_fixes_give_the_gradient__also_for_shares(snippet):
    run = snippet.after("shares")
    softmax = run.scores.softmax(0)
    assert run.shares.allclose(softmax)
    gradients = [
        torch.autograd.grad(shares[0], run.scores, retain_graph=True)[0]
        for shares in (run.shares, softmax)
    ]
    assert torch.allclose(*gradients)


@pytest.mark.parametrize(
    ("solution", "right"),
    [
        ("shares = powers / powers.sum()", True),
        ("powers /= powers.sum()\nshares = powers", False),
        ("shares = powers", False),
        ("shares = scores / scores.sum()", False),
        ("shares = powers.detach() / powers.detach().sum()", False),
    ],
    ids=["right", "in place", "not divided", "without exp", "detached"],
)
def test_fixes_give_the_gradient__also_checks(snippet, solution, right):
    edited = snippet.edit("shares = powers / powers.sum()", solution)
    run = edited.after("shares-checked")

    assert run.verdict.startswith("right" if right else "not yet")
    assert (MODIFIED in run.verdict) == ("/=" in solution)
    assert ("grad_fn" in run.verdict) == ("detach" in solution)


@edits(
    ("+=", "plus_one = hidden + 1", "plus_one = hidden.add_(1)"),
    ("no clone", "hidden.clone()", "hidden"),
    (
        "a write into the mask",
        "capped = torch.where(hidden > 5, 5, hidden)",
        "capped = hidden\nhidden[hidden > 5] = 5",
    ),
    ("masked_fill_", "hidden.masked_fill(", "hidden.masked_fill_("),
)
def test_fixes_give_the_gradient__but_not_in_place(snippet, old, new, fails):
    """In place, each of them overwrites the 3 or the 6, and `backward()`
    raises.
    """
    edited = edit_cell(snippet, "fixes", old, new)
    fails(test_fixes_give_the_gradient, edited)


@edits(
    ("+=", "= hidden + 1", "= hidden.data.add_(1)"),
    ("no clone", "hidden.clone()", "hidden.data"),
    (
        "a write into the mask",
        "torch.where(hidden > 5, 5, hidden)",
        "hidden.data.clamp_(max=5)",
    ),
    ("masked_fill_", "hidden.masked_fill(", "hidden.data.masked_fill_("),
)
def test_fixes_give_the_gradient__but_not_through_data(
    snippet, old, new, fails
):
    """Through `.data`, nothing is raised, but the 3 and the 6 are
    overwritten all the same.
    """
    edited = edit_cell(snippet, "fixes", old, new)
    fails(test_fixes_give_the_gradient, edited)


# --------------------------------------- a step between two backward passes

STEP = "    if step_between:\n        optimizer.step()\n"
LAST = "    (prediction**2).backward()  # the second loss\n"


def small_model():
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))


def losses_of(model, inputs, name, step=True, **options):
    """Go back twice through one forward pass, with a step in between."""
    kind = getattr(torch.optim, name)
    optimizer = kind(model.parameters(), lr=1.0, **options)
    output = model(inputs)
    output.sum().backward(retain_graph=True)
    if step:
        optimizer.step()
    optimizer.zero_grad()
    output.square().sum().backward()
    return model


def test_a_step_between_raises(snippet):
    run = snippet.after("step-between")

    assert MODIFIED in str(run.said)
    assert run.train_on_two_losses(step_between=False) == 12 * 2


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    "options", [{}, {"foreach": True}, {"foreach": False}], ids=str
)
def test_a_step_between_raises__also_with(name, options):
    inputs = torch.ones(2, 3)

    assert MODIFIED in error_of(
        lambda: losses_of(small_model(), inputs, name, **options)
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 5, 3)])
@pytest.mark.parametrize(
    "model",
    [
        lambda: nn.Sequential(nn.Linear(3, 9), nn.Linear(9, 5)),
        lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)),
    ],
    ids=["wider layers", "a ReLU between"],
)
def test_a_step_between_raises__also_for_inputs(model, shape, name):
    torch.manual_seed(1)
    inputs = torch.ones(shape)

    assert MODIFIED in error_of(lambda: losses_of(model(), inputs, name))


def test_a_step_between_raises__also_for_a_gan():
    generator, judge = nn.Linear(2, 3), nn.Linear(3, 1)
    optimizer = torch.optim.Adam(judge.parameters())
    scores = judge(generator(torch.ones(4, 2)))
    scores.mean().backward(retain_graph=True)
    optimizer.step()

    assert MODIFIED in error_of(scores.mean().neg().backward)


def test_a_step_between_raises__but_not_after_both(snippet, fails):
    """Once both backward passes are done, the step does no harm."""
    edited = snippet.edit(STEP, "").edit(LAST, f"{LAST}    optimizer.step()\n")
    fails(test_a_step_between_raises, edited)


def test_a_step_between_raises__but_not_with_a_new_forward_pass(
    snippet, fails
):
    """Compute the prediction again for the second loss, and it uses the new
    weights.
    """
    edited = snippet.edit(
        "    (prediction**2)", "    ((head_weight * encoder_weight * x) ** 2)"
    )
    fails(test_a_step_between_raises, edited)


def test_a_step_between_raises__but_not_if_only_the_encoder_steps(
    snippet, fails
):
    """A step of the encoder alone leaves the head's weight as it was
    saved.
    """
    edited = snippet.edit(
        "= [encoder_weight, head_weight]", "= [encoder_weight]"
    )
    fails(test_a_step_between_raises, edited)


@pytest.mark.parametrize(
    "frozen",
    ["x.exp()", "encoder_weight.detach() * x"],
    ids=["no encoder", "a frozen encoder"],
)
def test_a_step_between_raises__ends_for_one_layer(snippet, frozen, fails):
    """If nothing before the head learns, no gradient needs the head's old
    weight.
    """
    edited = snippet.edit(
        "(encoder_weight * x)  # 2 * 3 = 6", f"({frozen})"
    ).edit("    return encoder_weight.grad", "    return torch.tensor(24)")
    fails(test_a_step_between_raises, edited)


def test_a_step_between_raises__ends_with_a_fused_step(snippet, fails):
    """A fused step on a CPU overwrites the weights without raising their
    versions.
    """
    edited = snippet.edit(
        "train_on_two_losses(step_between=True))",
        "train_on_two_losses(step_between=True, fused=True))",
    )
    fails(test_a_step_between_raises, edited)


# ------------------------------------------------- a loop that fills a tensor


@pytest.mark.parametrize("years", [2, 3, 4, 9])
def test_writing_steps_raises(snippet, years):
    run = snippet.after("steps")
    assert run.total == 1 + 2 + 4 + 8
    assert run.total.requires_grad
    factor = torch.tensor(2.0, requires_grad=True)

    total = run.written(factor, years)

    assert total == sum(2**year for year in range(years))
    assert MODIFIED in error_of(total.backward)


@pytest.mark.parametrize(
    "step",
    [
        "factor + balances[year - 1]",
        "factor * balances[year - 1].clone()",
        "factor.detach() * balances[year - 1]",
        "factor.item() * balances[year - 1]",
    ],
    ids=["a sum", "a clone", "a detached factor", "a plain number"],
)
def test_writing_steps_raises__but_not_with(snippet, step, fails):
    """A sum saves nothing, a clone is not overwritten, and a constant factor
    gets no gradient.
    """
    edited = edit_cell(
        snippet, "steps", "factor * balances[year - 1]", step
    ).edit(
        "    return balances.sum()", "    return balances.sum() + 0 * factor"
    )
    fails(test_writing_steps_raises, edited, 4)


def test_writing_steps_raises__but_not_into_new_tensors(snippet, fails):
    """If each step makes a new tensor with `cat`, no earlier one changes."""
    edited = snippet.edit(
        "balances[year] = factor * balances[year - 1]",
        "balances = torch.cat([balances[:year], (factor * balances"
        "[year - 1]).view(1), balances[year + 1 :]])",
    )
    fails(test_writing_steps_raises, edited, 4)


@pytest.mark.parametrize("years", [2, 3, 4, 9])
def test_a_list_of_steps_trains(snippet, years):
    with no_error():
        run = snippet.after("steps-in-a-list")
    assert run.factor.grad == 1 + 2 * 2 + 3 * 2**2 == 17

    for value in (0.5, 2.0):
        factor = torch.tensor(value, requires_grad=True)
        run.collected(factor, years).backward()
        terms = [year * value ** (year - 1) for year in range(1, years)]
        assert factor.grad == sum(terms)


@edits(
    (
        "detached",
        "(factor * balances[year - 1])",
        "(factor * balances[year - 1].detach())",
    ),
    ("no growth", "(factor * balances[year - 1])", "(factor * balances[0])"),
    ("the last left out", "stack(balances)", "stack(balances[:-1])"),
)
def test_a_list_of_steps_trains__but_not(snippet, old, new, fails):
    """If a step is detached or left out, its part of the gradient is
    missing.
    """
    fails(test_a_list_of_steps_trains, snippet.edit(old, new), 4)


# ----------------------------------------------------------------- a leaf

LEAF = "leaf Variable that requires grad is being used in an in-place"


def test_leaves_refuse(snippet):
    run = snippet.after("leaves")
    said = [error_of(attempt) for attempt in run.attempts.values()]

    assert len(said) == 2
    assert said[0].startswith(f"a {LEAF}")
    assert said[1].startswith(f"a view of a {LEAF}")
    assert run.weights.tolist() == [2, 3]


@pytest.mark.parametrize("way", [w for w in WRITES if w not in (
    "detach()", "out=", "no_grad()")])  # fmt: skip
def test_leaves_refuse__also_by(way):
    weight = nn.Parameter(torch.ones(3))
    before = weight.tolist()

    assert LEAF in error_of(lambda: write(weight, way))
    assert weight.tolist() == before


@pytest.mark.parametrize("kind", [nn.Linear, nn.Conv1d, nn.Embedding])
def test_leaves_refuse__also_for_the_weight_of(kind):
    weight = kind(2, 3, 1).weight if kind is nn.Conv1d else kind(2, 3).weight

    for part in (weight, weight[0], weight[:1], weight.view(-1)):
        assert LEAF in error_of(lambda: part.zero_())  # noqa: B023


@edits(
    ("a non-leaf", "weights.add_(1)", "(weights * 1).add_(1)"),
    ("a slice of a non-leaf", "weights[:1]", "(weights * 1)[:1]"),
    ("a clone of a slice", "weights[:1]", "weights[:1].clone()"),
    ("detached", "weights.add_(1)", "weights.detach().add_(1)"),
    ("under no_grad()", "weights.add_(1)", "torch.no_grad()(weights.add_)(1)"),
)
def test_leaves_refuse__but_not(snippet, old, new, fails):
    """What was computed is no leaf, and under `no_grad()` or through
    `detach()` nothing is recorded.
    """
    fails(test_leaves_refuse, snippet.edit(old, new))


# ---------------------------------------------------------- without an error


def test_data_is_silent(snippet):
    with no_error():
        run = snippet.after("data")

    assert run.hidden == 4
    assert run.hidden._version == 0
    assert run.head_weight.grad == -8 * 4 == -32


@pytest.mark.parametrize(
    "way",
    ["data", "detach().numpy()", "numpy.asarray"],
    ids="through {}".format,
)
def test_data_is_silent__also(way):
    rate = leaf()
    growth = rate.exp()
    if way == "numpy.asarray":
        numpy.asarray(growth.detach())[...] = 9
    else:
        exec(f"growth.{way}[...] = 9", {"growth": growth})
    growth.sum().backward()

    assert rate.grad.tolist() == [9, 9, 9]


@edits(
    ("counted", "hidden.data += 1", "hidden.detach().add_(1)"),
    (
        "under no_grad()",
        "hidden.data += 1",
        "with torch.no_grad():\n    hidden += 1",
    ),
)
def test_data_is_silent__but_not_where_it_is_counted(snippet, old, new, fails):
    """Through `detach()` or under `no_grad()`, the change is counted, and
    `backward()` raises.
    """
    fails(test_data_is_silent, snippet.edit(old, new))


@edits(
    ("data", "hidden.data += 1", "hidden = hidden.data.clone().add_(1)"),
    (
        "an array",
        "hidden.data += 1",
        "array = hidden.detach().numpy().copy()\narray += 1",
    ),
)
def test_data_is_silent__but_not_in_a_copy(snippet, old, new, fails):
    """A copy has numbers of its own, so the gradient stays right."""
    fails(test_data_is_silent, snippet.edit(old, new))


def test_data_is_silent__but_not_for_what_is_not_saved(snippet, fails):
    """A sum saves nothing, so the write does not reach its gradient."""
    edited = edit_cell(
        snippet,
        "data",
        "prediction = head_weight * hidden",
        "prediction = head_weight + hidden",
    )
    fails(test_data_is_silent, edited)


FUSED = {
    "SGD": {},
    "SGD with momentum": {"momentum": 0.9},
    "SGD, maximizing": {"maximize": True},
    "SGD with weight decay": {"weight_decay": 0.1},
    "Adam": {},
    "Adam with amsgrad": {"amsgrad": True},
    "AdamW": {},
    "AdamW with amsgrad": {"amsgrad": True},
    "Adagrad": {},
    "Adagrad with decay": {"lr_decay": 0.1},
}


def test_a_fused_step_is_silent(snippet):
    with no_error():
        run = snippet.after("step-fused")

    assert run.right == 12 * 2 == 24
    assert run.wrong == 12 * (2 - 3) == -12


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("name", FUSED)
def test_a_fused_step_is_silent__also_with(name, seed):
    inputs, kind = torch.ones(2, 3), re.match(r"\w+", name)[0]
    torch.manual_seed(seed)
    right = losses_of(small_model(), inputs, kind, step=False)
    torch.manual_seed(seed)
    options = FUSED[name] | {"fused": True}
    wrong = losses_of(small_model(), inputs, kind, **options)

    pairs = [*zip(right.parameters(), wrong.parameters(), strict=True)]
    for unmoved, moved in pairs:
        assert not torch.equal(moved, unmoved)
        assert moved._version == unmoved._version
    for unmoved, moved in pairs[:2]:
        assert not torch.allclose(moved.grad, unmoved.grad)


@edits(
    (
        "counted by hand",
        "        optimizer.step()\n",
        "        optimizer.step()\n"
        "        torch.no_grad()(head_weight.mul_)(1)\n",
    ),
    ("not fused", "fused=fused)", "fused=False)"),
    (
        "a step of the encoder alone",
        "= [encoder_weight, head_weight]",
        "= [encoder_weight]",
    ),
    ("a step of size 0", "lr=1.0", "lr=0.0"),
)
def test_a_fused_step_is_silent__but_not(snippet, old, new, fails):
    """If the change is counted, `backward()` raises; if the head does not
    move, the gradient stays right.
    """
    fails(test_a_fused_step_is_silent, snippet.edit(old, new))


def test_a_fused_step_is_silent__but_not_after_both(snippet, fails):
    """After both backward passes, the step spoils no gradient."""
    edited = snippet.edit(STEP, "").edit(LAST, f"{LAST}    optimizer.step()\n")
    fails(test_a_fused_step_is_silent, edited)
