"""The claims of docs/autograd/detach.md."""

import inspect
import warnings
import weakref

import numpy
import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F

FLATS = torch.linspace(0, 1, 16).reshape(8, 2)
STEADY = ["SGD", "Rprop", "RMSprop", "Adagrad", "Adadelta", "Adafactor"]
FOLLOWS = ["SGD, momentum", "Adam", "AdamW", "Adamax", "NAdam", "RAdam"]
OPTIONS = {
    "weight_decay": 0.1,
    "momentum": 0.9,
    "amsgrad": True,
    "centered": True,
    "maximize": True,
    "foreach": True,
    "fused": True,
}

# Every optimizer of torch.optim but LBFGS, with each of the options it takes.
NAMES = [
    name
    for name, each in vars(optim).items()
    if inspect.isclass(each) and issubclass(each, optim.Optimizer)
    if name not in {"Optimizer", "LBFGS"}
]
CHOICES = [
    (name, dict([option] if option else []))
    for name in NAMES
    for option in (None, *OPTIONS.items())
    if not option
    or option[0] in inspect.signature(getattr(optim, name)).parameters
]


def seed():
    """Make what is random repeat; ``torch.manual_seed`` is slow."""
    torch.default_generator.manual_seed(0)


def network(name):
    """Return two layers that an optimizer takes, and their loss."""
    seed()
    if name == "SparseAdam":
        first, second = (nn.Embedding(8, 4, sparse=True) for _ in range(2))
        rows = torch.arange(8)
        return first, second, lambda: (first(rows) * second(rows)).mean()
    plain = name == "Muon"  # which takes matrices alone
    first = nn.Sequential(nn.Linear(2, 6, bias=not plain), nn.Tanh())
    second = nn.Linear(6, 1, bias=not plain)
    return first, second, lambda: (second(first(FLATS)) - 1).square().mean()


def stepper(optimizer, loss):
    """Return a function that takes one step, as LBFGS needs it too."""

    def closure():
        value = loss()
        value.backward()
        return value

    return lambda: optimizer.step(closure)


def held(*layers):
    return [each for layer in layers for each in layer.parameters()]


def copies(tensors):
    """Return the numbers of tensors, which later writes do not change."""
    return [each.detach().clone() for each in tensors]


def same(tensors, others):
    pairs = zip(tensors, others, strict=True)
    return all(torch.equal(each, other) for each, other in pairs)


def raise_as(snippet, cell):
    """Run the file to the end of a cell whose error nothing catches."""
    source = snippet.cell(cell).source
    bare = source.replace("except RuntimeError", "except ZeroDivisionError")
    snippet.edit(source, bare).after(cell)


# ---------------------------------------------------------------- do this


def test_a_detached_loss_frees_its_graph(snippet):
    saved = []

    class Box:
        def __init__(self, tensor):
            self.tensor = tensor

    def pack(tensor):
        box = Box(tensor.detach())  # no way back to what saves it
        saved.append(weakref.ref(box))
        return box

    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(pack, lambda box: box.tensor):
        run = snippet.after("keep")
    assert saved
    assert all(box() is not None for box in saved)

    value = run.loss.item()
    del run.loss

    assert run.kept.item() == value
    assert all(box() is None for box in saved)


def test_a_detached_loss_frees_its_graph__but_not_the_loss_itself(
    snippet, fails
):
    edited = snippet.edit("kept = loss.detach()", "kept = loss")
    fails(test_a_detached_loss_frees_its_graph, edited)


def test_a_detached_loss_frees_its_graph__but_not_if_hidden_is_kept(
    snippet, fails
):
    edited = snippet.edit(
        "kept = loss.detach()", "kept = loss.detach()\nhidden = encoder(flats)"
    )
    fails(test_a_detached_loss_frees_its_graph, edited)


def one_of_each():
    """Return a layer of which each kind can be frozen, and its inputs."""
    layer = nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)),
        nn.Conv2d(1, 2, 3, padding=1),
        nn.BatchNorm2d(2),
        nn.Flatten(),
        nn.Linear(32, 6),
        nn.BatchNorm1d(6),
    )
    return layer, torch.rand(8, 16)


NAMED = {"SGD", "Adam", "AdamW"}
WITH_MOMENTUM = [("SGD", {"momentum": 0.9, "weight_decay": 0.1})]


@pytest.mark.parametrize(
    "choices",
    [WITH_MOMENTUM + [each for each in CHOICES if each[0] in NAMED]],
    ids=["each"],
)
def test_a_frozen_layer_stays(snippet, choices):
    run = snippet.after("freeze")
    assert all(each.grad is None for each in held(run.encoder))
    assert all(each.grad is not None for each in held(run.head))
    for name, options in choices:
        seed()
        (first, inputs), second = one_of_each(), nn.Linear(6, 1)
        optimizer = getattr(optim, name)(held(first, second), **options)
        step = stepper(
            optimizer,
            lambda: (second(first(inputs)) - 1).square().mean(),  # noqa: B023
        )
        step()
        step()
        moving = copies(held(second))

        run.freeze(first)
        before = copies(first.state_dict().values())
        step()
        step()

        assert same(before, first.state_dict().values()), (name, options)
        assert not same(moving, held(second))


def test_a_frozen_layer_stays__also_under_all_others(snippet):
    run = snippet.after("freeze")
    for name in sorted({*NAMES} - NAMED):
        first, second, loss = network(name)
        step = stepper(getattr(optim, name)(held(first, second)), loss)
        step()

        run.freeze(first)
        before = copies(held(first))
        step()

        assert same(before, held(first)), name


def test_a_frozen_layer_stays__also_as_six_other_layers(snippet):
    run = snippet.after("freeze")
    for layer in (
        nn.Conv1d(1, 2, 3),
        nn.Conv3d(1, 2, 3),
        nn.ConvTranspose1d(1, 2, 3),
        nn.BatchNorm3d(1, affine=False),
        nn.BatchNorm1d(1, momentum=None),
        nn.Linear(5, 2, dtype=torch.float64),
    ):
        volume = "3d" in type(layer).__name__
        inputs = torch.rand(4, 1, 5, 5, 5) if volume else torch.rand(4, 1, 5)
        inputs = inputs.double() if isinstance(layer, nn.Linear) else inputs
        scale = nn.Parameter(torch.ones(1))
        optimizer = optim.AdamW([*layer.parameters(), scale])
        step = stepper(
            optimizer,
            lambda: (scale * layer(inputs)).square().mean(),  # noqa: B023
        )
        step()

        run.freeze(layer)
        before = copies(layer.state_dict().values())
        step()

        assert same(before, layer.state_dict().values()), layer


OF_THE_LAYER = "for n, p in layer.named_parameters()"


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("layer.requires_grad_(False)", "layer.requires_grad_(True)"),
        (
            "layer.requires_grad_(False)",
            f"[p.requires_grad_('bias' in n) {OF_THE_LAYER}]",
        ),
        (
            "layer.requires_grad_(False)",
            f"[p.requires_grad_('weight' in n) {OF_THE_LAYER}]",
        ),
        (
            "layer.requires_grad_(False)",
            f"[p.requires_grad_(p.dim() == 2) {OF_THE_LAYER}]",
        ),
        (
            "layer.requires_grad_(False)",
            f"[p.requires_grad_(p.dim() == 4) {OF_THE_LAYER}]",
        ),
        ("layer.zero_grad()", "layer.zero_grad(set_to_none=False)"),
        ("layer.zero_grad()", "layer.parameters()"),
        ("layer.eval()", "layer.eval().train()"),
    ],
    ids=[
        "if it still learns",
        "with biases on",
        "with weights on",
        "with a linear layer on",
        "with a convolution on",
        "with zeros",
        "with old gradients",
        "after train",
    ],
)
def test_a_frozen_layer_stays__but_not(snippet, line, instead, fails):
    edited = snippet.edit(f"{line}  #", f"{instead}  #")
    fails(test_a_frozen_layer_stays, edited, [("AdamW", {})])


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(6, 1),
        lambda: nn.BatchNorm1d(6),
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2)
        ),
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2)
        ),
    ],
    ids=["linear", "BatchNorm", "Conv1d", "Conv2d"],
)
def test_a_frozen_layer_lets_gradients_through(snippet, make):
    run = snippet.after("freeze")
    encoder = run.encoder.requires_grad_(True)
    for dtype in (torch.float32, torch.float64):
        head = make().to(dtype)
        encoder.to(dtype).zero_grad()

        run.freeze(head)
        outputs = head(encoder(run.flats.to(dtype)))
        weights = torch.linspace(1, 2, outputs.numel(), dtype=dtype)
        (outputs.flatten() @ weights).backward()

        assert all(each.grad.abs().sum() > 0 for each in held(encoder))
        assert all(each.grad is None for each in held(head))


def test_a_frozen_layer_lets_gradients_through__but_not_a_cut(snippet, fails):
    edited = snippet.edit(
        "layer.requires_grad_(False)  #",
        "layer.register_forward_hook(lambda *all: 0 * all[2] + 1)  #",
    )
    fails(
        test_a_frozen_layer_lets_gradients_through,
        edited,
        lambda: nn.Linear(6, 1),
    )


# ----------------------------------------------------------- how it works


def holds_numbers_alone(original, detached):
    assert original.requires_grad
    assert torch.equal(original, detached)
    assert detached.dtype == original.dtype
    assert detached.grad_fn is None
    assert not detached.requires_grad


def test_the_same_numbers_without_a_memory(snippet):
    run = snippet.after("cut")

    holds_numbers_alone(run.hidden, run.cut)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64]
)
def test_the_same_numbers_without_a_memory__also_for_a_leaf_of(dtype):
    leaf = torch.ones(2, 3, dtype=dtype, requires_grad=True)

    holds_numbers_alone(leaf, leaf.detach())
    holds_numbers_alone(leaf.T[1:], leaf.T[1:].detach())


@pytest.mark.parametrize(
    "instead",
    ["clone()", "detach().round()", "detach().requires_grad_()"],
)
def test_the_same_numbers_without_a_memory__but_not_by_another_call(
    snippet, instead, fails
):
    edited = snippet.edit("cut = hidden.detach()", f"cut = hidden.{instead}")
    # A cut with requires_grad_ is a leaf again.
    fails(test_the_same_numbers_without_a_memory, edited)


def reached(run, result):
    """Return the names of the parameters that the walk ends at."""
    (_, top, _), *steps = run.walk(result.grad_fn)
    # The picture can show them: one place each, below where it is met.
    assert len({top, *(place for _, place, _ in steps)}) == len(steps) + 1
    assert all(place[1] == origin[1] - 1 for _, place, origin in steps)
    assert all(-1 <= place[0] <= 1 for _, place, _ in steps)
    layers = [x for node, (x, _), _ in steps if node.name()[:5] == "Addmm"]
    assert layers
    assert not any(layers)  # they stand below the loss
    assert run.name_of(result.grad_fn) == result.grad_fn.name()
    leaves = [node for node, _, _ in steps if hasattr(node, "variable")]
    return sorted(map(run.name_of, leaves))


def test_the_graph_ends_at_the_cut(snippet):
    run = snippet.after("name")

    of_head = ["head bias", "head weight"]
    of_encoder = ["encoder bias", "encoder weight"]
    without, with_cut = (
        reached(run, each) for each in (run.whole_loss, run.cut_loss)
    )
    assert without == of_encoder + of_head
    assert with_cut == of_head


def test_the_graph_ends_at_the_cut__also_where_paths_join(snippet):
    run = snippet.after("name")
    hidden, levels = run.head(run.hidden).sum(), 24
    nodes = {node for node, _, _ in run.walk(hidden.grad_fn)}
    leaves = sum(hasattr(node, "variable") for node in nodes)
    for _ in range(levels):
        hidden = hidden + hidden  # two paths to one node

    met = list(run.walk(hidden.grad_fn))
    assert len({node for node, _, _ in met}) == len(nodes) + levels
    assert len(met) == len(nodes) + 2 * levels
    where = {node: place for node, place, _ in met}
    assert all(place == where[node] for node, place, _ in met)
    assert sum(hasattr(node, "variable") for node in where) == leaves == 4


# Cuts that let one parameter of the encoder through.
LEAKS = [
    "F.linear(flats, encoder[0].weight.detach(), encoder[0].bias).tanh()",
    "F.linear(flats, encoder[0].weight, encoder[0].bias.detach()).tanh()",
]
# Heads that cut one of their own parameters off.
SHUT = [
    "F.linear(cut, head.weight.detach(), head.bias)",
    "F.linear(cut, head.weight, head.bias.detach())",
]


@pytest.mark.parametrize("leak", ["hidden", *LEAKS])
def test_the_graph_ends_at_the_cut__but_not_at_a_leaking_one(
    snippet, leak, fails
):
    edited = snippet.edit("cut = hidden.detach()", f"cut = {leak}")
    fails(test_the_graph_ends_at_the_cut, edited)


@pytest.mark.parametrize("shut", SHUT)
def test_the_graph_ends_at_the_cut__but_not_in_a_head_with_a_cut(
    snippet, shut, fails
):
    fails(test_the_graph_ends_at_the_cut, snippet.edit("head(cut)", shut))


def test_the_graph_ends_at_the_cut__but_not_if_both_have_one(snippet, fails):
    edited = snippet.edit(
        "whole_loss = F.mse_loss(head(hidden)",
        "whole_loss = F.mse_loss(head(hidden.detach())",
    )
    fails(test_the_graph_ends_at_the_cut, edited)


def test_no_gradient_behind_a_cut(snippet):
    run = snippet.after("cut")

    for left in (None, 0, 5):
        for each in held(run.encoder):
            each.grad = None if left is None else torch.full_like(each, left)
        run.cut_loss.backward(retain_graph=True)
        for each in held(run.encoder):
            as_left = None if left is None else torch.full_like(each, left)
            if left is None:
                assert each.grad is None
            else:
                assert each.grad is not None
                assert torch.equal(each.grad, as_left)

    run = snippet.after("gradients")
    assert all(each.grad is None for each in held(run.encoder))
    assert all(each.grad is not None for each in held(run.head))


LAYERS = {
    "Linear": (nn.Linear(4, 3), torch.ones(2, 4)),
    "Conv1d": (nn.Conv1d(4, 3, 2), torch.ones(2, 4, 5)),
    "BatchNorm1d": (nn.BatchNorm1d(4), FLATS.reshape(4, 4)),
    "LayerNorm": (nn.LayerNorm(4), torch.ones(2, 4)),
    "Embedding": (nn.Embedding(5, 3), torch.tensor([1, 2])),
    "LSTM": (nn.LSTM(4, 3), torch.ones(2, 4)),
    "float64": (nn.Linear(4, 3).double(), torch.ones(2, 4).double()),
    "bfloat16": (nn.Linear(4, 3).bfloat16(), torch.ones(2, 4).bfloat16()),
}


@pytest.mark.parametrize("name", LAYERS)
def test_no_gradient_behind_a_cut__also_for(name):
    layer, inputs = LAYERS[name]
    scale = torch.ones((), requires_grad=True)
    for left in (None, 0, 5):
        for each in held(layer):
            each.grad = None if left is None else torch.full_like(each, left)

        output = layer(inputs)
        output = output[0] if isinstance(output, tuple) else output
        (output.detach() * scale).sum().backward()

        for each in held(layer):
            if left is None:
                assert each.grad is None
            else:
                assert torch.equal(each.grad, torch.full_like(each, left))
    assert scale.grad is not None


@pytest.mark.parametrize("leak", ["hidden", *LEAKS])
def test_no_gradient_behind_a_cut__but_some_behind_a_leaking_one(
    snippet, leak, fails
):
    edited = snippet.edit("cut = hidden.detach()", f"cut = {leak}")
    fails(test_no_gradient_behind_a_cut, edited)


def test_no_gradient_behind_a_cut__but_some_from_the_whole_loss(
    snippet, fails
):
    edited = snippet.edit("cut_loss.backward()", "whole_loss.backward()")
    fails(test_no_gradient_behind_a_cut, edited)


def test_no_gradient_behind_a_cut__but_some_on_a_way_around_it(snippet, fails):
    edited = snippet.edit("head(cut)", "head(cut) + hidden[:, :1]")
    fails(test_no_gradient_behind_a_cut, edited)


def test_the_same_gradient_before_a_cut(snippet):
    run = snippet.after("gradients")

    whole = torch.autograd.grad(run.whole_loss, held(run.head))

    for each, gradient in zip(held(run.head), whole, strict=True):
        assert each.grad is not None
        assert torch.equal(each.grad, gradient)


@pytest.mark.parametrize(
    "head",
    [
        nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1)),
        nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 1)),
        nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 1)),
        nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3)),
        nn.LSTM(6, 2),
        nn.GRU(6, 2),
        nn.MultiheadAttention(6, 2),
    ],
    ids=lambda head: "".join(filter(str.isalpha, str(head)))[:40],
)
def test_the_same_gradient_before_a_cut__also_in(head):
    def gradients(hidden):
        is_attention = isinstance(head, nn.MultiheadAttention)
        output = head(*[hidden] * (3 if is_attention else 1))
        output = output[0] if isinstance(output, tuple) else output
        return torch.autograd.grad(output.square().sum(), held(head))

    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        head.to(dtype)
        hidden = nn.Linear(2, 6, dtype=dtype)(FLATS.to(dtype)).tanh()

        assert same(gradients(hidden.detach()), gradients(hidden)), dtype


@pytest.mark.parametrize("shut", [*SHUT, "head(cut / 2)"])
def test_the_same_gradient_before_a_cut__but_not_with_another_one(
    snippet, shut, fails
):
    edited = snippet.edit("head(cut)", shut)
    fails(test_the_same_gradient_before_a_cut, edited)


def test_the_same_gradient_before_a_cut__but_not_if_used_behind_it_too(
    snippet, fails
):
    edited = snippet.edit(
        "hidden = encoder(flats)\ncut",
        "hidden = head.bias * encoder(flats)\ncut",
    )
    fails(test_the_same_gradient_before_a_cut, edited)


# ------------------------------------------------------ where a cut belongs


def test_a_detached_target_is_a_constant(snippet):
    run = snippet.after("target")
    parameters = held(run.encoder, run.head)
    constant = torch.tensor(run.goal.tolist())
    next_year = run.head(run.encoder(run.next_year))
    assert torch.equal(run.goal, 0.2 + 0.9 * next_year)

    slopes = torch.autograd.grad(run.loss, parameters, allow_unused=True)

    guess = run.head(run.encoder(run.this_year))
    error = F.mse_loss(guess, constant)
    for slope, each in zip(
        slopes, torch.autograd.grad(error, parameters), strict=True
    ):
        assert slope is not None
        assert torch.equal(slope, each)


@pytest.mark.parametrize("loss", ["l1_loss", "huber_loss", "smooth_l1_loss"])
def test_a_detached_target_is_a_constant__also_for(snippet, loss):
    run = snippet.after("target")
    constant = torch.tensor(run.goal.tolist())

    def gradients(target):
        guess = run.head(run.encoder(run.this_year))
        error = getattr(F, loss)(guess, target)
        return torch.autograd.grad(error, held(run.encoder, run.head))

    assert same(gradients(run.goal.detach()), gradients(constant))


@pytest.mark.parametrize(
    "instead", ["goal", "goal.detach() + 0.1", "(goal + goal.detach()) / 2"]
)
def test_a_detached_target_is_a_constant__but_not(snippet, instead, fails):
    edited = snippet.edit("(goal, goal.detach())", f"(goal, {instead})")
    fails(test_a_detached_target_is_a_constant, edited)


def test_a_detached_target_is_a_constant__but_the_guess_is_not(snippet, fails):
    edited = snippet.edit(
        "F.mse_loss(guess, target)",
        "F.mse_loss(guess.detach() + 0 * head.bias, target)",
    )
    fails(test_a_detached_target_is_a_constant, edited)


READER = "reader, teller = nn.RNN(1, 4), nn.Linear(4, 1)"
READERS = {
    "GRU": "reader, teller = nn.GRU(1, 4), nn.Linear(4, 1)",
    "two layers": """
class Reader(nn.RNN):
    def forward(self, prices, state):
        layers = torch.cat([state, state])
        output, layers = super().forward(prices, layers)
        return output, layers[1:]
reader, teller = Reader(1, 4, num_layers=2), nn.Linear(4, 1)""",
    "LSTM": """
class Reader(nn.LSTM):
    def forward(self, prices, state):
        output, (h, c) = super().forward(prices, state.split(2, dim=1))
        return output, torch.cat([h, c], dim=1)
reader, teller = Reader(1, 2), nn.Linear(2, 1)""",
    "cell": """
class Reader(nn.RNNCell):
    bias_hh_l0 = property(lambda self: self.bias_hh)
    def forward(self, prices, state):
        for price in prices:
            state = super().forward(price[None], state)
        return state, state
reader, teller = Reader(1, 4), nn.Linear(4, 1)""",
}


def test_a_carried_state_raises(snippet):
    with pytest.raises(RuntimeError, match="backward through the graph a sec"):
        raise_as(snippet, "carried")


@pytest.mark.parametrize("reader", READERS)
def test_a_carried_state_raises__also_for(snippet, reader):
    test_a_carried_state_raises(snippet.edit(READER, READERS[reader]))


def test_a_carried_state_raises__also_with_a_step_between(snippet):
    step = "optim.SGD(reader.parameters()).step()"
    edited = snippet.edit(
        ".backward()\n        state",
        f".backward()\n        {step}\n        state",
    )
    test_a_carried_state_raises(edited)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_carried_state_raises__also_because_its_graph_goes_on(
    snippet, goes_on
):
    run = snippet.after("chunks")
    first, second = run.months.split(4)
    first.requires_grad_()
    _, state = run.reader(first, torch.zeros(1, 4))
    _, state = run.reader(second, state if goes_on else state.detach())

    [back] = torch.autograd.grad(state.sum(), first, allow_unused=True)

    assert (back is not None) == goes_on


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("state = between(state)", "state = between(state).detach()"),
        (
            ".backward()\n        state",
            ".backward(retain_graph=True)\n        state",
        ),
        (READER, READER.replace("4),", "4).requires_grad_(False),", 1)),
    ],
    ids=["cut", "retained", "of a reader that learns nothing"],
)
def test_a_carried_state_raises__but_not_if(snippet, old, new, fails):
    fails(test_a_carried_state_raises, snippet.edit(old, new))


def test_a_detached_state_trains(snippet):
    run = snippet.after("detached")
    trained = [each.grad for each in held(run.reader)]

    # The same by hand: each chunk starts from the last one's numbers.
    sums = [torch.zeros_like(each) for each in held(run.reader)]
    start = torch.zeros(1, 4)
    for chunk in run.months.split(4):
        state = torch.tensor(start.tolist())
        output, state = run.reader(chunk[:-1], state)
        error = F.mse_loss(run.teller(output[-1]), chunk[-1])
        for total, each in zip(
            sums, torch.autograd.grad(error, held(run.reader)), strict=True
        ):
            total += each
        start = state

    assert start.abs().sum() > 0
    assert all(each.abs().sum() > 0 for each in sums)
    for each, total in zip(trained, sums, strict=True):
        assert each is not None
        assert torch.equal(each, total)


@pytest.mark.parametrize("reader", READERS)
def test_a_detached_state_trains__also_for(snippet, reader):
    test_a_detached_state_trains(snippet.edit(READER, READERS[reader]))


@pytest.mark.parametrize(
    "instead", ["torch.zeros_like(state)", "state.detach() + 1"]
)
def test_a_detached_state_trains__but_not_from_other_numbers(
    snippet, instead, fails
):
    edited = snippet.edit(
        "between=lambda state: state.detach()",
        f"between=lambda state: {instead}",
    )
    fails(test_a_detached_state_trains, edited)


def test_a_detached_state_trains__but_not_each_chunk(snippet, fails):
    edited = snippet.edit(
        ".backward()\n        state",
        ".backward()\n        reader.zero_grad()\n        state",
    )
    fails(test_a_detached_state_trains, edited)


def test_straight_through_goes_around(snippet):
    run = snippet.after("straight-through")
    weights = torch.arange(1.0, 1 + run.price.numel()).to(run.price)

    back, around = (
        torch.autograd.grad((each * weights).sum(), run.price)[0]
        for each in (run.rounded, run.through)
    )

    price, rounded, through = run.price.detach(), run.rounded, run.through
    assert torch.equal(rounded, price.round())
    assert torch.equal(back, torch.zeros_like(price))
    assert torch.equal(through, price.round())
    assert torch.equal(around, weights)
    assert torch.equal(run.slope, torch.ones_like(price))


@pytest.mark.parametrize(
    "prices",
    [
        "[0.5, 1.5, 2.0, 0.0, -0.3, -0.5, 1e-8]",
        "[123.456, 4095.9, -77.5]",
        "[1.2, 2.7], dtype=torch.float64",
        "[16777217.5, 1e30, -1e9]",
    ],
)
def test_straight_through_goes_around__also_for(snippet, prices):
    test_straight_through_goes_around(snippet.edit("[1.2, 2.7]", prices))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_straight_through_goes_around__also_for_each_number_of(dtype):
    price = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    price = price[price.isfinite()].requires_grad_()
    assert len(price) > 60_000

    through = price + (price.round() - price).detach()
    [back] = torch.autograd.grad(through.sum(), price)

    assert torch.equal(through, price.round())
    assert torch.equal(back, torch.ones_like(price))


def test_straight_through_goes_around__but_rounding_does_not(snippet, fails):
    edited = snippet.edit(
        "rounded = price.round()",
        "rounded = price + (price.round() - price).detach()",
    )
    fails(test_straight_through_goes_around, edited)


@pytest.mark.parametrize(
    "instead",
    [
        "price + (price.round() - price)",
        "price + (price.floor() - price).detach()",
        "price + (0.9 * (price.round() - price)).detach()",
        "price + price + (price.round() - price - price).detach()",
    ],
)
def test_straight_through_goes_around__but_not_as(snippet, instead, fails):
    edited = snippet.edit("price + (price.round() - price).detach()", instead)
    fails(test_straight_through_goes_around, edited)


def test_straight_through_goes_around__but_not_infinity(snippet, fails):
    edited = snippet.edit("[1.2, 2.7]", '[1.2, float("inf")]')
    fails(test_straight_through_goes_around, edited)


def test_the_generator_gets_no_gradient(snippet):
    run = snippet.after("discriminator")

    generator, judge = run.generator, run.judge
    assert generator.weight.grad is None
    assert generator.bias.grad is None
    assert judge.weight.grad.abs().sum() > 0
    assert judge.bias.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "instead",
    [
        "invented",
        "invented.detach() + generator.bias",
        "invented.detach() + generator.weight.sum()",
    ],
)
def test_the_generator_gets_no_gradient__but_some_past_a_leak(
    snippet, instead, fails
):
    edited = snippet.edit("invented.detach()", instead)
    fails(test_the_generator_gets_no_gradient, edited)


@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_the_generator_gets_no_gradient__but_nor_does_a_frozen_judge(
    snippet, kind, fails
):
    edited = snippet.edit(
        "scores = judge(",
        f"judge.{kind}.grad = torch.zeros_like(judge.{kind})\n"
        f"judge.{kind}.requires_grad_(False)\nscores = judge(",
    )
    fails(test_the_generator_gets_no_gradient, edited)


# --------------------------------------------------------- what goes wrong


def test_the_cut_costs(snippet):
    run = snippet.after("train")

    ends = set()
    for seed in range(8):
        cut, whole = (
            run.train(each, seed) for each in (run.CutModel, run.WholeModel)
        )
        assert isinstance(whole, float)
        assert cut > 4 * whole
        assert whole not in ends  # another seed is another start
        ends.add(whole)
    assert run.train(run.WholeModel, seed) == whole


def test_the_cut_costs__but_nothing_if_both_models_have_it(snippet, fails):
    edited = snippet.edit(
        "self.head(self.encoder(flats))\n",
        "self.head(self.encoder(flats).detach())\n",
    )
    fails(test_the_cut_costs, edited)


def test_the_cut_costs__but_nothing_if_neither_has_it(snippet, fails):
    edited = snippet.edit(
        "self.encoder(flats).detach()", "self.encoder(flats)"
    )
    fails(test_the_cut_costs, edited)


def test_the_cut_costs__but_not_after_ten_steps(snippet, fails):
    fails(test_the_cut_costs, snippet.edit("range(80)", "range(10)"))


def test_the_cut_costs__but_not_from_one_start_for_all(snippet, fails):
    edited = snippet.edit("torch.manual_seed(seed)", "torch.manual_seed(0)")
    fails(test_the_cut_costs, edited)


def test_the_cut_is_silent(snippet):
    run = snippet.after("train")
    said = []
    for seed in range(5):
        torch.manual_seed(seed)
        begin = F.mse_loss(run.WholeModel()(run.flats), run.prices).item()
        model = run.CutModel()

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model(run.flats).sum().backward()
                end = run.train(run.CutModel, seed)
            except RuntimeError as error:
                said.append(error)

        assert not said
        assert not caught
        assert all(each.grad is None for each in held(model.encoder))
        assert end < begin


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "self.head(self.encoder(flats).detach())",
            "self.head(self.encoder(flats)).detach()",
        ),
        (
            "return self.head(self.encoder(flats).detach())",
            "__import__('warnings').warn('a cut')\n"
            "        return self.head(self.encoder(flats).detach())",
        ),
        ("        optimizer.step()\n    return loss", "    return loss"),
        ("self.encoder(flats).detach()", "self.encoder(flats)"),
    ],
    ids=["at the end", "with a warning", "without a step", "without a cut"],
)
def test_the_cut_is_silent__but_not(snippet, old, new, fails):
    fails(test_the_cut_is_silent, snippet.edit(old, new))


def test_none_names_the_layer(snippet):
    run = snippet.after("find")

    without = {
        name
        for name, parameter in run.model.named_parameters()
        if parameter.grad is None
    }
    assert without == {"encoder.0.weight", "encoder.0.bias"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.encoder(flats).detach()", "self.encoder(flats)"),
        (
            "self.encoder(flats).detach()",
            "F.linear(flats, self.encoder[0].weight.detach(),"
            " self.encoder[0].bias)",
        ),
        (
            "self.encoder(flats).detach()",
            "F.linear(flats, self.encoder[0].weight,"
            " self.encoder[0].bias.detach())",
        ),
        (
            "model = CutModel()",
            "model = CutModel()\nmodel.head.bias.requires_grad_(False)",
        ),
        (
            "model = CutModel()",
            "model = CutModel()\nmodel.head.weight.requires_grad_(False)",
        ),
    ],
)
def test_none_names_the_layer__but_not_in_another_model(
    snippet, old, new, fails
):
    fails(test_none_names_the_layer, snippet.edit(old, new))


def test_none_names_the_layer__but_not_after_an_earlier_backward(
    snippet, fails
):
    edited = snippet.edit(
        "model = CutModel()",
        "model = CutModel()\nmodel.encoder(flats).sum().backward()",
    )
    fails(test_none_names_the_layer, edited)


NO_GRAPH = "does not require grad and does not have a grad_fn"


def test_a_cut_at_the_end_raises(snippet):
    with pytest.raises(RuntimeError, match=NO_GRAPH):
        raise_as(snippet, "nothing-left")


@pytest.mark.parametrize("loss", ["l1_loss", "huber_loss"])
def test_a_cut_at_the_end_raises__also_for(snippet, loss):
    run = snippet.after("nothing-left")

    with pytest.raises(RuntimeError, match=NO_GRAPH):
        getattr(F, loss)(run.guess, run.prices).backward()


@pytest.mark.parametrize(
    "instead", ["head(encoder(flats))", "head(encoder(flats).detach())"]
)
def test_a_cut_at_the_end_raises__but_not_if_a_path_is_left(
    snippet, instead, fails
):
    edited = snippet.edit(
        "guess = head(encoder(flats)).detach()", f"guess = {instead}"
    )
    fails(test_a_cut_at_the_end_raises, edited)


@pytest.mark.parametrize("choices", [CHOICES], ids=["each"])
def test_none_is_skipped(snippet, choices):
    run = snippet.after("ways")
    for name, options in choices:
        first, second, loss = network(name)
        optimizer = getattr(optim, name)(held(first, second), **options)
        step = stepper(optimizer, loss)
        step()
        run.ways["None"](optimizer)
        before, moving = copies(held(first)), copies(held(second))

        # As behind a cut: only the second layer gets a gradient.
        first.requires_grad_(False)
        step()

        assert same(before, held(first)), (name, options)
        assert not same(moving, held(second))


def test_none_is_skipped__but_not_by_lbfgs(snippet, fails):
    fails(test_none_is_skipped, snippet, [("LBFGS", {})])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9}),
        ("SGD", {"weight_decay": 0.1}),
        ("RMSprop", {"momentum": 0.9}),
        ("Adam", {}),
    ],
)
def test_none_is_skipped__but_zeros_are_not(snippet, name, options, fails):
    edited = snippet.edit(
        '"None": lambda optimizer: optimizer.zero_grad()',
        '"None": lambda optimizer: optimizer.zero_grad(set_to_none=False)',
    )
    fails(test_none_is_skipped, edited, [(name, options)])


@pytest.mark.parametrize("name", ["SGD", "Adam", "LBFGS", "SparseAdam"])
def test_zero_grad_leaves_none(snippet, name):
    run = snippet.after("ways")
    for way, clears in (("None", True), ("zeros", False)):
        first, second, loss = network(name)
        optimizer = getattr(optim, name)(held(first, second))
        run.ways[way](optimizer)
        assert all(each.grad is None for each in held(first, second))
        loss().backward()
        assert all(each.grad is not None for each in held(first, second))

        run.ways[way](optimizer)

        for each in held(first, second):
            assert (each.grad is None) == clears
            assert clears or each.grad.to_dense().count_nonzero() == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("optimizer.zero_grad(),", "optimizer.zero_grad(False),"),
        ("optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad()"),
        ("optimizer.zero_grad(set_to_none=False)", "None"),
    ],
    ids=["told to leave zeros", "told nothing", "not called"],
)
def test_zero_grad_leaves_none__but_not_if(snippet, old, new, fails):
    fails(test_zero_grad_leaves_none, snippet.edit(old, new), "SGD")


def test_zero_grad_leaves_none__also_of_a_module():
    for options in ({}, {"set_to_none": False}):
        layer = nn.Linear(2, 1)
        layer(FLATS).sum().backward()
        layer.zero_grad(**options)
        for each in held(layer):
            assert (each.grad is None) == (not options)
            assert not options or each.grad.count_nonzero() == 0


def test_a_cut_does_not_stop_the_optimizer(snippet):
    run = snippet.after("ways")

    for left in ("zeros", "old gradient"):
        moved = run.moved(optim.Adam, run.ways[left])
        assert moved == "weight and bias", left
    no_gradient_arrives(run)
    for name in ("SGD, weight decay", "ASGD"):
        moved = run.moved(run.makers[name], run.ways["zeros"])
        assert moved == "weight and bias", name


@pytest.mark.parametrize("way", ["zero_grad(set_to_none=False)", "None"])
def test_a_cut_does_not_stop_the_optimizer__but_none_in_grad_does(
    snippet, way, fails
):
    old = "lambda optimizer: " + way.replace(
        "zero_grad(", "optimizer.zero_grad("
    )
    edited = snippet.edit(old, "lambda optimizer: optimizer.zero_grad()")
    fails(test_a_cut_does_not_stop_the_optimizer, edited)


@pytest.mark.parametrize(
    "instead", ["first(flats)", "first(flats).detach() + first.bias.sum()"]
)
def test_a_cut_does_not_stop_the_optimizer__but_a_leak_lets_new_ones_in(
    snippet, instead, fails
):
    edited = snippet.edit(
        "second(first(flats).detach())", f"second({instead})"
    )
    fails(test_a_cut_does_not_stop_the_optimizer, edited)


def make(name, **options):
    """Return what makes an optimizer of parameters."""
    return lambda parameters: getattr(optim, name)(parameters, **options)


def with_maker(snippet, name, text):
    """Return the snippet with another optimizer under a name."""
    line = f'makers["{name}"] = lambda p: optim.{text}'
    return snippet.edit("# %% ways", f"{line}\n\n# %% ways")


def only_zeros_stay(maker):
    """Tell whether just the numbers with a gradient of zero stay."""
    seed()
    weight = nn.Parameter(torch.rand(4, 3))
    optimizer = maker([weight])
    for _ in range(3):
        weight.grad = torch.rand(4, 3)
        optimizer.step()
    before = weight.detach().clone()
    weight.grad = torch.tensor([[0.0], [1], [0], [2]]).expand(4, 3).clone()
    optimizer.step()
    stays = torch.tensor([[True], [False], [True], [False]]).expand(4, 3)
    return torch.equal(weight == before, stays)


def left_by(run, way):
    """Return a gradient, and what a way to clear leaves of it."""
    layer = nn.Linear(2, 1)
    layer(FLATS).sum().backward()
    gradient = layer.weight.grad.clone()
    run.ways[way](optim.SGD(layer.parameters()))
    return gradient, layer.weight.grad


def no_gradient_arrives(run):
    """Check that in the trial no new gradient arrives behind the cut."""
    given = []

    def maker(parameters):
        given.extend(parameters)
        return optim.Adam(parameters)

    moved = run.moved(maker, run.ways["None"])
    assert moved == "stays"
    missing = [each.grad is None for each in given]
    assert missing == [True, True, False, False]


def test_zeros_stay_without_a_memory(snippet):
    run = snippet.after("ways")

    assert set(STEADY) <= set(run.makers)
    for name in STEADY:
        maker = run.makers[name]
        moved = run.moved(maker, run.ways["zeros"])
        assert moved == "stays", name
        assert only_zeros_stay(maker), name


def test_zeros_stay_without_a_memory__also_with_options_that_keep_no_memory(
    snippet,
):
    run = snippet.after("ways")
    for name, options in CHOICES:
        if name in STEADY and not {"weight_decay", "momentum"} & set(options):
            moved = run.moved(make(name, **options), run.ways["zeros"])
            assert moved == "stays", (name, options)
            assert only_zeros_stay(make(name, **options)), (name, options)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("SGD", "momentum=0.9"),
        ("RMSprop", "momentum=0.9"),
        ("SGD", "weight_decay=0.1"),
        ("RMSprop", "weight_decay=0.1"),
        ("Adagrad", "weight_decay=0.1"),
        ("Adadelta", "weight_decay=0.1"),
        ("Adafactor", "weight_decay=0.1"),
    ],
    ids=[
        "SGD with momentum",
        "RMSprop with momentum",
        "SGD with decay",
        "RMSprop with decay",
        "Adagrad with decay",
        "Adadelta with decay",
        "Adafactor with decay",
    ],
)
def test_zeros_stay_without_a_memory__but_not(snippet, name, option, fails):
    edited = with_maker(snippet, name, f"{name}(p, {option})")
    fails(test_zeros_stay_without_a_memory, edited)


def test_zeros_stay_without_a_memory__but_not_old_gradients(snippet, fails):
    edited = snippet.edit(
        "lambda optimizer: optimizer.zero_grad(set_to_none=False)",
        "lambda optimizer: None",
    )
    fails(test_zeros_stay_without_a_memory, edited)


def test_past_gradients_move_a_layer(snippet):
    run = snippet.after("ways")

    for name in FOLLOWS:
        moved = run.moved(run.makers[name], run.ways["zeros"])
        assert moved == "weight and bias", name
    gradient, left = left_by(run, "zeros")
    assert torch.equal(left, torch.zeros_like(gradient))
    no_gradient_arrives(run)


def test_past_gradients_move_a_layer__also_with_their_other_options(
    snippet,
):
    run = snippet.after("ways")
    choices = [each for each in CHOICES if each[0] in FOLLOWS]
    choices += [
        ("AdamW", {"weight_decay": 0}),
        ("SGD", {"momentum": 0.5, "nesterov": True}),
        ("RMSprop", {"momentum": 0.9}),
    ]
    for name, options in choices:
        moved = run.moved(make(name, **options), run.ways["zeros"])
        assert moved == "weight and bias", (name, options)


@pytest.mark.parametrize("steps", [2, 10])
@pytest.mark.parametrize("size", [1, 40])
def test_past_gradients_move_a_layer__also_after(snippet, steps, size):
    makers = snippet.after("ways").makers
    for name in FOLLOWS:
        layer = nn.Linear(size, 3)
        optimizer = makers[name](layer.parameters())
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=False)
            (layer(torch.rand(8, size)) - 1).square().sum().backward()
            optimizer.step()
        before = copies(held(layer))
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()

        for each, old in zip(held(layer), before, strict=True):
            assert (each != old).any(), name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SGD, momentum", "SGD(p, momentum=0.0)"),
        ("Adam", "Adam(p, betas=(0.0, 0.999))"),
        ("AdamW", "AdamW(p, betas=(0.0, 0.999), weight_decay=0)"),
        ("Adamax", "Adamax(p, betas=(0.0, 0.999))"),
        ("NAdam", "NAdam(p, betas=(0.0, 0.999))"),
        ("RAdam", "RAdam(p, betas=(0.0, 0.999))"),
    ],
)
def test_past_gradients_move_a_layer__but_not_with_a_memory_of_zero(
    snippet, name, text, fails
):
    edited = with_maker(snippet, name, text)
    fails(test_past_gradients_move_a_layer, edited)


def test_past_gradients_move_a_layer__but_not_once_set_to_none(snippet, fails):
    edited = snippet.edit("zero_grad(set_to_none=False)", "zero_grad()")
    fails(test_past_gradients_move_a_layer, edited)


def test_past_gradients_move_a_layer__but_old_ones_are_not_zeros(
    snippet, fails
):
    edited = snippet.edit(
        "lambda optimizer: optimizer.zero_grad(set_to_none=False)",
        "lambda optimizer: None",
    )
    fails(test_past_gradients_move_a_layer, edited)


def test_past_gradients_move_a_layer__but_not_if_there_was_no_step(
    snippet, fails
):
    edited = snippet.edit("    optimizer.step()\n    clear", "    clear")
    fails(test_past_gradients_move_a_layer, edited)


@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_past_gradients_move_a_layer__but_not_what_is_left_out(
    snippet, kind, fails
):
    edited = snippet.edit("make([*first.parameters(),", f"make([first.{kind},")
    fails(test_past_gradients_move_a_layer, edited)


DECAYING = [
    (name, {**options, "weight_decay": 0.1})
    for name, options in CHOICES
    if "weight_decay" in inspect.signature(getattr(optim, name)).parameters
]
DECAYING += [("AdamW", {}), ("ASGD", {})]


@pytest.mark.parametrize("choices", [DECAYING], ids=["each"])
def test_weight_decay_needs_no_gradient(snippet, choices):
    run = snippet.after("ways")
    moved = run.moved(run.makers["SGD, weight decay"], run.ways["zeros"])
    assert moved == "weight and bias"
    no_gradient_arrives(run)
    for name, options in choices:
        seed()
        layer = nn.Linear(2, 6, bias=name != "Muon")
        optimizer = getattr(optim, name)(layer.parameters(), **options)
        for each in layer.parameters():
            each.grad = torch.zeros_like(each)
        before = copies(layer.parameters())

        optimizer.step()

        # A large step may go past zero, but its direction is that of zero.
        for each, old in zip(layer.parameters(), before, strict=True):
            assert ((each - old).sign() == -old.sign()).all(), name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AdamW", {"weight_decay": 0}),
        ("ASGD", {"lambd": 0}),
        ("SGD", {"weight_decay": 0}),
        ("Adam", {}),
    ],
)
def test_weight_decay_needs_no_gradient__but_there_must_be_some(
    snippet, name, options, fails
):
    fails(test_weight_decay_needs_no_gradient, snippet, [(name, options)])


def test_weight_decay_needs_no_gradient__but_not_at_zero(snippet, fails):
    edited = snippet.edit("weight_decay=0.1", "weight_decay=0.0")
    fails(test_weight_decay_needs_no_gradient, edited, [("AdamW", {})])


def test_an_old_gradient_is_applied_again(snippet):
    run = snippet.after("ways")

    assert set(run.makers) == {*STEADY, *FOLLOWS, "SGD, weight decay", "ASGD"}
    for name, maker in run.makers.items():
        moved = run.moved(maker, run.ways["old gradient"])
        assert moved == "weight and bias", name
    gradient, left = left_by(run, "old gradient")
    assert torch.equal(left, gradient)
    no_gradient_arrives(run)


def test_an_old_gradient_is_applied_again__also_by_all_others():
    for name, options in [*CHOICES, ("LBFGS", {})]:
        first, second, loss = network(name)
        optimizer = getattr(optim, name)(held(first, second), **options)
        step = stepper(optimizer, loss)
        step()
        before = copies(held(first))

        # As behind a cut: only the second layer gets a gradient.
        first.requires_grad_(False)
        step()

        for each, old in zip(held(first), before, strict=True):
            assert not torch.equal(each, old), (name, options)


def test_an_old_gradient_is_applied_again__but_not_through_a_leak(
    snippet, fails
):
    edited = snippet.edit(
        "second(first(flats).detach())", "second(first(flats))"
    )
    fails(test_an_old_gradient_is_applied_again, edited)


@pytest.mark.parametrize(
    "instead", ["optimizer.zero_grad()", "optimizer.zero_grad(False)"]
)
def test_an_old_gradient_is_applied_again__but_not_once_cleared(
    snippet, instead, fails
):
    edited = snippet.edit(
        '"old gradient": lambda optimizer: None',
        f'"old gradient": lambda optimizer: {instead}',
    )
    fails(test_an_old_gradient_is_applied_again, edited)


@pytest.mark.parametrize("name", STEADY)
def test_an_old_gradient_is_applied_again__but_not_at_a_rate_of_zero(
    snippet, name, fails
):
    options = {"Rprop": "lr=0, step_sizes=(0, 0)"}.get(name, "lr=0")
    edited = with_maker(snippet, name, f"{name}(p, {options})")
    fails(test_an_old_gradient_is_applied_again, edited)


@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_an_old_gradient_is_applied_again__but_not_if_left_out(
    snippet, kind, fails
):
    edited = snippet.edit("make([*first.parameters(),", f"make([first.{kind},")
    fails(test_an_old_gradient_is_applied_again, edited)


def test_what_is_left_out_stays(snippet):
    start, end = snippet.after("ways"), snippet.after("leave-out")
    assert all(each.grad is not None for each in held(end.encoder))
    before, after = (
        [each.tolist() for each in held(part.encoder)] for part in (start, end)
    )
    assert after == before
    assert not same(held(start.head), held(end.head))


def test_what_is_left_out_stays__also_of_each_optimizer():
    for name in (*NAMES, "LBFGS"):
        first, second, loss = network(name)
        step = stepper(getattr(optim, name)(held(second)), loss)
        before, moving = copies(held(first)), copies(held(second))

        for _ in range(3):
            step()

        assert all(each.grad is not None for each in held(first))
        assert same(before, held(first)), name
        assert not same(moving, held(second))


@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_what_is_left_out_stays__but_not_if_held_after_all(
    snippet, kind, fails
):
    edited = snippet.edit(
        "optim.AdamW(head.parameters())",
        f"optim.AdamW([*head.parameters(), encoder[0].{kind}])",
    )
    fails(test_what_is_left_out_stays, edited)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.BatchNorm1d, (8, 2)),
        (nn.BatchNorm2d, (8, 2, 3, 3)),
        (nn.BatchNorm3d, (8, 2, 3, 3, 3)),
    ],
)
@pytest.mark.parametrize("grad", [True, False])
def test_batch_norm_moves_until_eval(snippet, layer, shape, grad):
    run = snippet.after("batch-norm")
    # One pass in training mode, and none after it.
    assert not any(each.requires_grad for each in held(run.norm))
    mean, var = run.flats.mean(dim=0), run.flats.var(dim=0)
    torch.testing.assert_close(run.norm.running_mean, 0.1 * mean)
    torch.testing.assert_close(run.norm.running_var, 0.9 + 0.1 * var)

    torch.manual_seed(0)
    norm = layer(2).requires_grad_(False)
    with torch.set_grad_enabled(grad):
        begin = copies([norm.running_mean, norm.running_var])
        norm(torch.rand(shape))
        middle = copies([norm.running_mean, norm.running_var])
        norm.eval()
        norm(torch.rand(shape))

    assert not any(map(torch.equal, begin, middle))
    assert same(middle, [norm.running_mean, norm.running_var])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.BatchNorm1d(2)", "nn.BatchNorm1d(2, momentum=0.0)"),
        ("norm.eval()", "norm.running_mean.zero_()\nnorm.eval()"),
        ("norm.eval()", "norm.running_var.fill_(1)\nnorm.eval()"),
        ("norm.eval()\n", ""),
        ("requires_grad_(False)\nnorm(flats)", "eval()\nnorm(flats)"),
    ],
)
def test_batch_norm_moves_until_eval__but_not_if_kept_from_it(
    snippet, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(
        test_batch_norm_moves_until_eval, edited, nn.BatchNorm1d, (8, 2), True
    )


# ----------------------------------------------------------- where it ends


def test_the_cut_shares_memory(snippet):
    run = snippet.after("share")

    assert run.total.item() > 100
    assert run.loss.item() == run.total.item()
    assert not run.total.requires_grad


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float64, torch.int64, torch.complex64]
)
def test_the_cut_shares_memory__also_for(dtype):
    original = torch.zeros(2, 3, dtype=dtype)
    original.T.detach()[0] = 7
    assert original[:, 0].tolist() == [7, 7]

    detached = original.detach()
    original += 1
    assert torch.equal(detached, original)


def test_the_cut_shares_memory__but_a_clone_does_not(snippet, fails):
    edited = snippet.edit("number = loss.detach(),", "number = loss.clone(),")
    fails(test_the_cut_shares_memory, edited)


def test_the_cut_shares_memory__but_not_after_adding_elsewhere(snippet, fails):
    edited = snippet.edit("total += 100", "total = total + 100")
    fails(test_the_cut_shares_memory, edited)


def test_clone_and_item_stay(snippet):
    run = snippet.after("share")

    begin = F.mse_loss(run.head(run.encoder(run.flats)), run.prices).item()
    assert run.loss.item() != begin
    assert run.copy.item() == begin
    assert not run.copy.requires_grad
    assert float(run.number) == begin


@pytest.mark.parametrize("call", ["detach().clone(), ", "item()\ntotal"])
def test_clone_and_item_stay__but_a_detached_tensor_does_not(
    snippet, call, fails
):
    instead = call.replace("detach().clone()", "detach()")
    instead = instead.replace("item()", "detach()")
    edited = snippet.edit(f"loss.{call}", f"loss.{instead}")
    fails(test_clone_and_item_stay, edited)


IN_PLACE = "modified by an inplace operation"


def test_overwriting_is_noticed(snippet):
    run = snippet.after("overwrite")

    assert run.growth.tolist() == [0, 0]
    assert "Zero" not in str(run.growth.grad_fn)  # what was not recorded
    assert run.rate.grad is None
    with pytest.raises(RuntimeError, match=IN_PLACE):
        raise_as(snippet, "overwrite")


@pytest.mark.parametrize(
    "needs",
    ["rate.tanh()", "rate.sigmoid()", "rate.softmax(0)", "(rate + 1).sqrt()"],
)
def test_overwriting_is_noticed__also_for(snippet, needs):
    edited = snippet.edit("growth = rate.exp()", f"growth = {needs}")
    test_overwriting_is_noticed(edited)


@pytest.mark.parametrize(
    "write",
    ["mul_(2)", "fill_(7)", "copy_(torch.ones(2))", "__setitem__(0, 5)"],
)
def test_overwriting_is_noticed__also_by(write):
    rate = torch.tensor([0.0, 1.0], requires_grad=True)
    growth = rate.exp()
    eval(f"growth.detach().{write}", {"growth": growth, "torch": torch})

    with pytest.raises(RuntimeError, match=IN_PLACE):
        growth.sum().backward()


def test_overwriting_is_noticed__but_not_in_a_clone(snippet, fails):
    edited = snippet.edit("growth.detach().zero_()", "growth.clone().zero_()")
    fails(test_overwriting_is_noticed, edited)


def test_overwriting_is_noticed__but_not_if_no_number_is_needed(
    snippet, fails
):
    edited = snippet.edit("growth = rate.exp()", "growth = rate + 2")
    fails(test_overwriting_is_noticed, edited)


def test_overwriting_is_noticed__but_not_through_data(snippet, fails):
    edited = snippet.edit("growth.detach().zero_()", "growth.data.zero_()")
    fails(test_overwriting_is_noticed, edited)


REFUSED = r"Can't call numpy\(\) on Tensor that requires grad"


def refuse(tensors):
    """Check that neither torch nor NumPy makes arrays of tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions of NumPy warn first
        for each in tensors:
            for to_numpy in (torch.Tensor.numpy, numpy.asarray):
                with pytest.raises(RuntimeError, match=REFUSED):
                    to_numpy(each)


def test_numpy_refuses_gradients(snippet):
    run = snippet.after("to-numpy")

    with pytest.raises(RuntimeError, match=REFUSED):
        raise_as(snippet, "to-numpy")
    refuse([run.guess, run.head.weight])


def test_numpy_refuses_gradients__also_of_other_dtypes():
    for dtype in ("float16", "bfloat16", "float64", "complex64"):
        dtype = getattr(torch, dtype)
        leaf = torch.ones(2, dtype=dtype, requires_grad=True)
        refuse([leaf, leaf * 2, leaf[0]])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "guess = head(encoder(flats))[0]\ntry:",
            "guess = head(encoder(flats))[0].detach()\ntry:",
        ),
        (
            "    guess.numpy()",
            "    with torch.no_grad():\n        guess.numpy()",
        ),
    ],
    ids=["none are required", "none are recorded"],
)
def test_numpy_refuses_gradients__but_not_if(snippet, old, new, fails):
    fails(test_numpy_refuses_gradients, snippet.edit(old, new))


def test_the_array_shares_memory(snippet):
    run = snippet.after("to-numpy")

    assert isinstance(run.array, numpy.ndarray)
    assert run.array[0] == 99
    assert run.guess[0].item() == 99


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.bool])
def test_the_array_shares_memory__also_for(dtype):
    original = torch.zeros(3, dtype=dtype)
    original.detach().numpy()[1] = 1

    assert original.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "instead",
    ["guess.detach().clone().numpy()", "guess.detach().numpy().copy()"],
)
def test_the_array_shares_memory__but_not_as(snippet, instead, fails):
    edited = snippet.edit("guess.detach().numpy()", instead)
    fails(test_the_array_shares_memory, edited)


# ---------------------------------------------------- what the sources say


def test_labels_broadcast_silently(snippet):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = snippet.after("not-an-error")

    assert not caught
    shapes = [each.shape for each in (run.output, run.labels, run.differences)]
    assert shapes == [(3, 16), (1, 16), (3, 16)]
    for row, difference in zip(run.output, run.differences, strict=True):
        assert torch.equal(difference, row - run.labels[0])


@pytest.mark.parametrize("shape", [(2, 16), (5, 4), (1, 1)])
def test_labels_broadcast_silently__also_with_an_output_of(shape):
    output, labels = torch.rand(shape), torch.rand(1, shape[1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        differences = output - labels

    assert not caught
    assert torch.equal(differences, torch.stack([*output]) - labels[0])


def test_labels_broadcast_silently__but_not_with_one_row_compared(
    snippet, fails
):
    edited = snippet.edit(
        "differences = output - labels",
        "differences = torch.cat([output[:1] - labels, output[1:]])",
    )
    fails(test_labels_broadcast_silently, edited)


def test_labels_broadcast_silently__but_mse_loss_warns(snippet, fails):
    edited = snippet.edit(
        "differences = output - labels",
        "differences = output - labels\nF.mse_loss(output, labels)",
    )
    fails(test_labels_broadcast_silently, edited)


def test_the_sum_ignores_its_labels(snippet):
    run = snippet.after("not-an-error")

    assert torch.equal(run.slope, torch.ones_like(run.output))


@pytest.mark.parametrize(
    "labels", ["1e6 * torch.rand(1, 16)", "torch.zeros(3, 16)"]
)
def test_the_sum_ignores_its_labels__also_for(snippet, labels):
    edited = snippet.edit("torch.rand(1, 16)", labels)
    test_the_sum_ignores_its_labels(edited)


def test_the_sum_ignores_its_labels__but_not_with_more_rows_of_them(
    snippet, fails
):
    edited = snippet.edit("torch.rand(1, 16)", "torch.rand(3, 16)").edit(
        "torch.randn(3, 16", "torch.randn(1, 16"
    )
    fails(test_the_sum_ignores_its_labels, edited)


@pytest.mark.parametrize("instead", ["square().sum()", "abs().sum()"])
def test_the_sum_ignores_its_labels__but_not_as(snippet, instead, fails):
    edited = snippet.edit("differences.sum()", f"differences.{instead}")
    fails(test_the_sum_ignores_its_labels, edited)
