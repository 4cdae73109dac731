"""The claims of docs/autograd/variable.md."""

import warnings

import pytest
import torch
from torch import nn
from torch.autograd import Variable

from extensions.evidence.counterexamples import edits
from tests.helpers.programs import raised_in

KINDS = {
    "a vector": lambda: torch.ones(3),
    "a float64 matrix": lambda: torch.ones(2, 2, dtype=torch.float64),
    "a single number": lambda: torch.tensor(1.0),
    "integers": lambda: torch.tensor([1, 2]),
    "a boolean": lambda: torch.tensor([True]),
    "complex numbers": lambda: torch.ones(2, dtype=torch.complex64),
    "a leaf": lambda: torch.ones(3, requires_grad=True),
    "a non-leaf": lambda: 3 * torch.ones(3, requires_grad=True),
    "a weight": lambda: nn.Linear(2, 3).weight,
}
kinds = pytest.mark.parametrize("make_tensor", KINDS.values(), ids=KINDS)


def test_item_returns_a_number(snippet, number=1.5):
    run = snippet.after("do-this")

    for value in (run.value, torch.tensor(number).item()):
        assert type(value) is float
    assert run.value == 2 * (1 + 2 + 3)
    assert run.weight.grad == 1 + 2 + 3
    assert run.prices.tolist() == [2, 4, 6]
    assert not run.prices.requires_grad


@pytest.mark.parametrize(
    "shape",
    [(), (1,), (1, 1)],
    ids=["no dimension", "one dimension", "two dimensions"],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_item_returns_a_number__also_of(shape, dtype):
    loss = torch.full(shape, 1.5, dtype=getattr(torch, dtype))

    assert type(loss.item()) is float
    assert loss.item() == 1.5


@edits(
    ("data", "value = loss.item()", "value = loss.data"),
    ("int", "value = loss.item()", "value = int(loss.detach())"),
)
def test_item_returns_a_number__but_not(snippet, old, new, fails):
    """`loss.data` is still a tensor."""
    fails(test_item_returns_a_number, snippet.edit(old, new))


def test_item_returns_a_number__ends_for_integers(snippet, fails):
    """Of an integer tensor, such as a count, `item()` returns an `int`."""
    fails(test_item_returns_a_number, snippet, 3)


def test_variable_returns_a_tensor(snippet):
    run = snippet.after("wrap")

    for wrapped, x in (
        (run.wrapped, run.rooms),
        (run.rewrapped, run.weight),
    ):
        assert type(wrapped) is torch.Tensor
        assert wrapped is not x


@kinds
def test_variable_returns_a_tensor__also_of(make_tensor):
    x = make_tensor()

    assert type(Variable(x)) is torch.Tensor
    assert Variable(x) is not x


WRAPPED = "wrapped = Variable(rooms)"


@edits(
    ("a parameter", WRAPPED, "wrapped = torch.nn.Parameter(rooms, False)"),
    ("the tensor itself", WRAPPED, "wrapped = rooms"),
    ("an array", WRAPPED, "wrapped = rooms.numpy()"),
)
def test_variable_returns_a_tensor__but_not(snippet, old, new, fails):
    """`nn.Parameter` returns an object of its own class."""
    fails(test_variable_returns_a_tensor, snippet.edit(old, new))


def test_variable_shares_memory(snippet, make_tensor=KINDS["a vector"]):
    run, x = snippet.after("wrap"), make_tensor()
    Variable(x).mul_(3)
    assert x.to_dense().sum() == 9

    assert run.rooms.tolist() == [5, 2, 3]
    assert run.wrapped.tolist() == [5, 2, 3]
    run.rooms[1] = 7.0
    assert run.wrapped.tolist() == [5, 7, 3]


@pytest.mark.parametrize(
    "asked", [False, True], ids=["requires_grad=False", "requires_grad=True"]
)
@kinds
def test_variable_shares_memory__also_of(make_tensor, asked):
    x = make_tensor()
    if asked and not (x.is_floating_point() or x.is_complex()):
        with pytest.raises(RuntimeError, match="can require gradients"):
            Variable(x, requires_grad=True)
        return
    wrapped = Variable(x, requires_grad=asked)

    with torch.no_grad():
        wrapped.zero_()
        assert not x.any()
        x.fill_(1)
    assert wrapped.all()


def test_variable_shares_memory__also_in_place(snippet):
    assert snippet.after("written").rooms.tolist() == [2, 3, 4]


@edits(
    ("of a clone", WRAPPED, "wrapped = Variable(rooms.clone())"),
    (
        "if a sum is taken",
        "wrapped[0] = 5.0",
        "wrapped = wrapped + torch.tensor([4.0, 0, 0])",
    ),
    (
        "if it is copied back",
        "wrapped[0] = 5.0",
        "wrapped[0] = 5.0\nrooms = wrapped.clone()",
    ),
)
def test_variable_shares_memory__but_not(snippet, old, new, fails):
    """A clone has memory of its own."""
    fails(test_variable_shares_memory, snippet.edit(old, new))


def test_variable_shares_memory__ends_for_a_sparse_tensor(snippet, fails):
    """A sparse tensor does not see what is written to the other."""
    sparse = torch.ones(3).to_sparse
    fails(test_variable_shares_memory, snippet, sparse)


def test_variable_does_not_require_grad(snippet):
    run = snippet.after("wrap")

    assert not run.wrapped.requires_grad
    assert run.weight.requires_grad
    assert not run.rewrapped.requires_grad
    assert run.Variable(run.weight, requires_grad=True).requires_grad


@kinds
def test_variable_does_not_require_grad__also_of(make_tensor):
    assert not Variable(make_tensor()).requires_grad


@edits(
    ("if asked", "Variable(weight)", "Variable(weight, requires_grad=True)"),
    ("of a view", "Variable(weight)", "weight.view(())"),
    ("of a parameter", "Variable(weight)", "torch.nn.Parameter(weight)"),
    ("of rooms", WRAPPED, "wrapped = Variable(rooms, requires_grad=True)"),
)
def test_variable_does_not_require_grad__but_not(snippet, old, new, fails):
    """With `requires_grad=True`, it requires gradients."""
    edited = snippet.edit(old, new)
    if old == WRAPPED:
        edited = edited.edit("wrapped[0] = 5.0\n", "")
    fails(test_variable_does_not_require_grad, edited)


def test_variable_cuts_the_graph(snippet):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = snippet.after("cut")

    plain = run.Variable(run.weight * run.rooms)
    for cut in (run.prices, plain):
        assert torch.equal(cut, run.weight * run.rooms)
        assert cut.grad_fn is None
    assert run.prices.requires_grad
    assert not plain.requires_grad
    assert (run.weight * run.rooms).grad_fn is not None
    assert caught == []


@pytest.mark.parametrize(
    "asked", [False, True], ids=["requires_grad=False", "requires_grad=True"]
)
@pytest.mark.parametrize(
    "layer", [nn.Linear(3, 2), nn.GRU(3, 2)], ids=["a linear layer", "a GRU"]
)
def test_variable_cuts_the_graph__also_after(layer, asked):
    hidden = layer(torch.ones(4, 3))
    hidden = hidden[0] if isinstance(hidden, tuple) else hidden
    wrapped = Variable(hidden, requires_grad=asked)

    nn.Linear(2, 1)(wrapped).sum().backward()

    assert {each.grad for each in layer.parameters()} == {None}


CUT = "prices = Variable(weight * rooms, requires_grad=True)"
COPY = "prices = torch.tensor(weight * rooms, requires_grad=True)"


@edits(
    ("by requires_grad_", CUT, "prices = (weight * rooms).requires_grad_()"),
    ("without a warning by a copy", CUT, COPY),
)
def test_variable_cuts_the_graph__but_not(snippet, old, new, fails):
    """The method `requires_grad_()` leaves the graph as it is."""
    fails(test_variable_cuts_the_graph, snippet.edit(old, new))


def test_nothing_flows_through_variable(snippet):
    run = snippet.after("cut")

    assert run.weight.grad is None
    assert torch.equal(run.prices, run.weight * run.rooms)
    assert run.prices.grad.tolist() == [1, 1, 1]


def test_nothing_flows_through_variable__but_does_without_it(snippet, fails):
    """Without `Variable`, the gradient reaches the weight."""
    edited = snippet.edit(CUT, "prices = weight * rooms")
    fails(test_nothing_flows_through_variable, edited)


def test_volatile_warns(snippet):
    said = [str(each.message) for each in snippet.after("volatile").caught]

    assert len(said) == 1
    assert "volatile was removed and now has no effect" in said[0]


@kinds
def test_volatile_warns__also_for(make_tensor):
    with pytest.warns(UserWarning, match="now has no effect"):
        Variable(make_tensor(), volatile=True)


def test_volatile_warns__but_not_where_it_is_not_said(snippet, fails):
    """Without `volatile`, nothing warns."""
    edited = snippet.edit("Variable(rooms, volatile=True)", "rooms")
    fails(test_volatile_warns, edited)


def test_volatile_records_a_graph(snippet):
    run = snippet.after("volatile")

    assert torch.equal(run.prices, run.weight * run.rooms)
    assert run.prices.grad_fn is not None
    run.prices.sum().backward()
    assert run.weight.grad == run.rooms.sum()
    with torch.no_grad():
        assert not (run.weight * run.batch).requires_grad


@pytest.mark.filterwarnings("ignore:volatile was removed:UserWarning")
@pytest.mark.parametrize("layer", [nn.Linear(3, 2), nn.LayerNorm(3)])
def test_volatile_records_a_graph__also_in_layers(layer):
    layer(Variable(torch.randn(4, 3), volatile=True)).sum().backward()

    assert all(each.grad is not None for each in layer.parameters())


PRICES = "prices = weight * batch"


@edits(
    (
        "under no_grad",
        PRICES,
        "with torch.no_grad():\n    prices = weight * batch",
    ),
    ("if detached", PRICES, "prices = (weight * batch).detach() + weight"),
)
def test_volatile_records_a_graph__but_not(snippet, old, new, fails):
    """`no_grad()` does what `volatile` once did."""
    fails(test_volatile_records_a_graph, snippet.edit(old, new))


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
    """A tensor with one dimension has an element 0."""
    edited = snippet.edit("    loss.data[0]", "    loss.view(1).data[0]")
    fails(test_data_0_raises, edited)


def test_every_tensor_is_a_variable(snippet):
    run = snippet.after("isinstance")

    assert run.is_variable is True
    for make_tensor in KINDS.values():
        assert isinstance(make_tensor(), Variable)
    assert not isinstance([1.0, 2.0], Variable)


def test_every_tensor_is_a_variable__but_not_an_array(snippet, fails):
    """A NumPy array is no `Variable`."""
    old = "isinstance(rooms, Variable)"
    edited = snippet.edit(old, "isinstance(rooms.numpy(), Variable)")
    fails(test_every_tensor_is_a_variable, edited)
