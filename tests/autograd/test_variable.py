"""The claims of docs/autograd/variable.md."""

import warnings

import pytest
import torch
from torch import nn
from torch.autograd import Variable


def raised_in(snippet, name):
    """Return the error that a cell catches, or nothing."""
    cell = snippet.cell(name)
    source = cell.source.replace("    print(error)", "    caught = error")
    run = snippet.edit(cell.source, source).after(name)
    return getattr(run, "caught", None)


def inputs():
    """Return tensors of many kinds, with and without gradients."""
    return [
        torch.ones(3),
        torch.ones(2, 2, dtype=torch.float64),
        torch.tensor(1.0),
        torch.tensor([1, 2]),
        torch.tensor([True]),
        torch.ones(2, dtype=torch.complex64),
        torch.ones(3, requires_grad=True),
        3 * torch.ones(3, requires_grad=True),
        nn.Linear(2, 3).weight,
    ]


kinds = pytest.mark.parametrize(
    "kind",
    range(9),
    ids=[
        "a vector",
        "a float64 matrix",
        "a single number",
        "integers",
        "a boolean",
        "complex numbers",
        "a leaf",
        "a non-leaf",
        "a weight",
    ],
)


def test_item_returns_a_number(snippet):
    run = snippet.after("do-this")

    assert type(run.value) is float
    assert run.value == 2 * (10 + 20 + 30)
    assert run.scale.grad == 10 + 20 + 30


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_item_returns_a_number__also_of(shape, dtype):
    loss = torch.full(shape, 1.5, dtype=getattr(torch, dtype))

    assert type(loss.item()) is float
    assert loss.item() == 1.5


def test_item_returns_a_number__but_data_returns_a_tensor(snippet, fails):
    edited = snippet.edit("value = loss.item()", "value = loss.data")
    fails(test_item_returns_a_number, edited)


def test_item_returns_a_number__but_rounded_by_int(snippet, fails):
    edited = snippet.edit("value = loss.item()", "value = int(loss.detach())")
    fails(test_item_returns_a_number, edited)


def test_variable_returns_a_tensor(snippet):
    run = snippet.after("wrap")

    for wrapped, x in ((run.wrapped, run.celsius), (run.rescaled, run.scale)):
        assert type(wrapped) is torch.Tensor
        assert wrapped is not x


@kinds
def test_variable_returns_a_tensor__also_of(kind):
    x = inputs()[kind]

    assert type(Variable(x)) is torch.Tensor
    assert Variable(x) is not x


def test_variable_returns_a_tensor__but_parameter_its_own_class(
    snippet, fails
):
    edited = snippet.edit(
        "Variable(celsius)\n", "torch.nn.Parameter(celsius, False)\n"
    )
    fails(test_variable_returns_a_tensor, edited)


def test_variable_returns_a_tensor__but_x_itself_is_no_other(snippet, fails):
    edited = snippet.edit("Variable(celsius)\n", "celsius\n")
    fails(test_variable_returns_a_tensor, edited)


def test_variable_returns_a_tensor__but_numpy_an_array(snippet, fails):
    edited = snippet.edit("Variable(celsius)\n", "celsius.numpy()\n")
    fails(test_variable_returns_a_tensor, edited)


def test_variable_shares_memory(snippet):
    run = snippet.after("wrap")

    assert run.celsius.tolist() == [15, 20, 30]
    assert run.wrapped.tolist() == [15, 20, 30]
    run.celsius[1] = 25.0
    assert run.wrapped.tolist() == [15, 25, 30]


@pytest.mark.parametrize(
    "asked", [False, True], ids=["requires_grad=False", "requires_grad=True"]
)
@kinds
def test_variable_shares_memory__also_of(kind, asked):
    each = inputs()[kind]
    if asked and not (each.is_floating_point() or each.is_complex()):
        with pytest.raises(RuntimeError, match="can require gradients"):
            Variable(each, requires_grad=True)
        return
    wrapped = Variable(each, requires_grad=asked)

    with torch.no_grad():
        wrapped.zero_()

    assert not each.any()
    with torch.no_grad():
        each.fill_(1)
    assert wrapped.all()


def test_variable_shares_memory__but_not_of_a_clone(snippet, fails):
    edited = snippet.edit(
        "wrapped = Variable(celsius)", "wrapped = Variable(celsius.clone())"
    )
    fails(test_variable_shares_memory, edited)


def test_variable_shares_memory__but_a_sum_written_to_does_not(snippet, fails):
    edited = snippet.edit(
        "wrapped[0] = 15.0", "wrapped = wrapped + torch.tensor([5.0, 0, 0])"
    )
    fails(test_variable_shares_memory, edited)


def test_variable_shares_memory__but_not_if_copied_back_and_forth(
    snippet, fails
):
    edited = snippet.edit(
        "wrapped[0] = 15.0",
        "wrapped[0] = 15.0\ncelsius = wrapped.clone()",
    )
    fails(test_variable_shares_memory, edited)


def test_variable_does_not_require_grad(snippet):
    run = snippet.after("wrap")

    assert not run.wrapped.requires_grad
    assert run.scale.requires_grad
    assert not run.rescaled.requires_grad
    assert run.Variable(run.scale, requires_grad=True).requires_grad


@kinds
def test_variable_does_not_require_grad__also_of(kind):
    assert not Variable(inputs()[kind]).requires_grad


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Variable(scale)", "Variable(scale, requires_grad=True)"),
        ("Variable(scale)", "scale.view(())"),
        ("Variable(scale)", "torch.nn.Parameter(scale)"),
        (
            "rescaled = Variable(scale)",
            "wrapped = Variable(celsius, requires_grad=True)\n"
            "rescaled = Variable(scale)",
        ),
    ],
    ids=["told", "a view is taken", "a parameter is made", "told of another"],
)
def test_variable_does_not_require_grad__but_does_where(
    snippet, old, new, fails
):
    fails(test_variable_does_not_require_grad, snippet.edit(old, new))


def test_variable_cuts_the_graph(snippet):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = snippet.after("cut")

    for cut in (run.plain, run.asked):
        assert torch.equal(cut, run.scale * run.celsius)
    assert run.plain.grad_fn is None
    assert not run.plain.requires_grad
    assert run.asked.grad_fn is None
    assert run.asked.requires_grad
    assert (run.scale * run.celsius).grad_fn is not None
    assert caught == []


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("layer", [nn.Linear(3, 2), nn.GRU(3, 2)])
def test_variable_cuts_the_graph__also_behind_layers(layer, asked):
    hidden = layer(torch.ones(4, 3))
    hidden = hidden[0] if isinstance(hidden, tuple) else hidden
    wrapped = Variable(hidden, requires_grad=asked)

    nn.Linear(2, 1)(wrapped).sum().backward()

    assert all(each.grad is None for each in layer.parameters())


PLAIN = "plain = Variable(scale * celsius)"
ASKED = "asked = Variable(scale * celsius, requires_grad=True)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PLAIN, "plain = (scale * celsius).view(-1)"),
        (ASKED, "asked = (scale * celsius).requires_grad_()"),
    ],
    ids=["view", "requires_grad_"],
)
def test_variable_cuts_the_graph__but_not_the_method(snippet, old, new, fails):
    fails(test_variable_cuts_the_graph, snippet.edit(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PLAIN, "plain = torch.tensor(scale * celsius)"),
        (ASKED, "asked = torch.tensor(scale * celsius, requires_grad=True)"),
    ],
    ids=["unasked", "asked"],
)
def test_variable_cuts_the_graph__but_a_copy_warns(snippet, old, new, fails):
    fails(test_variable_cuts_the_graph, snippet.edit(old, new))


def test_nothing_flows_through_variable(snippet):
    run = snippet.after("cut")

    assert run.scale.grad is None
    assert torch.equal(run.asked, run.scale * run.celsius)
    assert run.asked.grad.tolist() == [1, 1, 1]


def test_nothing_flows_through_variable__but_does_without_it(snippet, fails):
    edited = snippet.edit(ASKED, "asked = scale * celsius")
    fails(test_nothing_flows_through_variable, edited)


def test_volatile_warns(snippet):
    said = [str(each.message) for each in snippet.after("volatile").caught]

    assert len(said) == 1
    assert "volatile was removed and now has no effect" in said[0]


@kinds
def test_volatile_warns__also_for(kind):
    with pytest.warns(UserWarning, match="now has no effect"):
        Variable(inputs()[kind], volatile=True)


def test_volatile_warns__but_not_where_it_is_not_said(snippet, fails):
    edited = snippet.edit("Variable(celsius, volatile=True)", "celsius")
    fails(test_volatile_warns, edited)


def test_volatile_records_a_graph(snippet):
    run = snippet.after("volatile")

    assert torch.equal(run.outputs, run.scale * run.celsius)
    assert run.outputs.requires_grad
    assert run.outputs.grad_fn is not None
    run.outputs.sum().backward()
    assert run.scale.grad == run.celsius.sum()
    with torch.no_grad():
        assert not (run.scale * run.batch).requires_grad


@pytest.mark.filterwarnings("ignore:volatile was removed:UserWarning")
@pytest.mark.parametrize("layer", [nn.Linear(3, 2), nn.LayerNorm(3)])
def test_volatile_records_a_graph__also_in_layers(layer):
    layer(Variable(torch.randn(4, 3), volatile=True)).sum().backward()

    assert all(each.grad is not None for each in layer.parameters())


def test_volatile_records_a_graph__but_not_where_it_is_cut(snippet, fails):
    edited = snippet.edit(
        "outputs = scale * batch", "outputs = (scale * batch).detach() + scale"
    )
    fails(test_volatile_records_a_graph, edited)


def test_volatile_records_a_graph__but_no_grad_does_not(snippet, fails):
    edited = snippet.edit(
        "outputs = scale * batch",
        "with torch.no_grad():\n    outputs = scale * batch",
    )
    fails(test_volatile_records_a_graph, edited)


def test_data_0_raises(snippet):
    error = raised_in(snippet, "data-0")

    assert isinstance(error, IndexError)
    assert "invalid index of a 0-dim tensor" in str(error)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("criterion", [nn.MSELoss, nn.L1Loss, nn.BCELoss])
def test_data_0_raises__also_for(criterion, reduction):
    loss = criterion(reduction=reduction)(torch.ones(3), torch.ones(3))

    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        loss.data[0]


def test_data_0_raises__but_not_on_one_dimension(snippet, fails):
    edited = snippet.edit("    loss.data[0]", "    loss.view(1).data[0]")
    fails(test_data_0_raises, edited)
