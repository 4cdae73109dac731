"""The claims of docs/autograd/detach.md."""

import warnings
import weakref

import numpy
import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F

from extensions.evidence.counterexamples import no_error

APARTMENTS = torch.linspace(0, 1, 16).reshape(8, 2)


def seed():
    """Make what is random repeat; ``torch.manual_seed`` is slow."""
    torch.default_generator.manual_seed(0)


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
    """Keep the loss without `detach()`, and its graph stays in memory."""
    edited = snippet.edit("kept = loss.detach()", "kept = loss")
    fails(test_a_detached_loss_frees_its_graph, edited)


def test_a_detached_loss_frees_its_graph__but_not_if_the_output_is_kept(
    snippet, fails
):
    """As long as a name holds the model's output, its part of the graph
    stays.
    """
    edited = snippet.edit(
        "loss = F.mse_loss(head(encoder(apartments)), prices)\nkept",
        "output = head(encoder(apartments))\n"
        "loss = F.mse_loss(output, prices)\nkept",
    )
    fails(test_a_detached_loss_frees_its_graph, edited)


def test_a_detached_loss_frees_its_graph__but_not_if_hidden_is_kept(
    snippet, fails
):
    """Another tensor that you keep, such as the encoder's output, holds its
    own graph.
    """
    edited = snippet.edit(
        "kept = loss.detach()",
        "kept = loss.detach()\nhidden = encoder(apartments)",
    )
    fails(test_a_detached_loss_frees_its_graph, edited)


# ----------------------------------------------------------- how it works


def test_the_gradients_by_hand(snippet):
    run = snippet.after("by-hand")

    assert run.hidden == 3
    assert run.loss == 16
    assert run.head_weight.grad == -8 * 3 == -24
    assert run.encoder_weight.grad == -8 * 2 == -16


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "encoder_weight = torch.tensor(3.0",
            "encoder_weight = torch.tensor(4.0",
        ),
        ("head_weight = torch.tensor(2.0", "head_weight = torch.tensor(1.0"),
        ("torch.tensor(10.0)", "torch.tensor(9.0)"),
        ("hidden - y) ** 2  #", "hidden - y).abs()  #"),
        (
            "hidden = encoder_weight * x  #",
            "encoder_weight.grad = torch.zeros(())\n"
            "hidden = encoder_weight.detach() * x  #",
        ),
    ],
    ids=[
        "another encoder",
        "another head",
        "another target",
        "another loss",
        "a cut",
    ],
)
def test_the_gradients_by_hand__but_not_with(snippet, old, new, fails):
    """Other weights, another target, another loss or a cut give other
    gradients.
    """
    fails(test_the_gradients_by_hand, snippet.edit(old, new))


def holds_numbers_alone(original, detached):
    assert original.requires_grad
    assert torch.equal(original, detached)
    assert detached.dtype == original.dtype
    assert detached.grad_fn is None
    assert not detached.requires_grad


def test_the_same_numbers_without_a_memory(snippet):
    run = snippet.after("cut")

    assert run.hidden.grad_fn is not None
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
    ["clone()", "detach() + 0.5", "detach().requires_grad_()"],
    ids=["a clone", "detached and changed", "detached and made to learn"],
)
def test_the_same_numbers_without_a_memory__but_not_by_another_call(
    snippet, instead, fails
):
    """`clone()` keeps the graph, a sum has other numbers, and
    `requires_grad_()` asks for gradients again.
    """
    edited = snippet.edit("cut = hidden.detach()", f"cut = hidden.{instead}")
    fails(test_the_same_numbers_without_a_memory, edited)


def reached(run, result):
    """Return the names of the parameters that the walk ends at."""
    (_, top, _), *steps = run.walk(result.grad_fn)
    # The picture can show them: one place each, below where it is met.
    assert len({top, *(place for _, place, _ in steps)}) == len(steps) + 1
    assert all(place[1] == origin[1] - 1 for _, place, origin in steps)
    assert all(-1 <= place[0] <= 0 for _, place, _ in steps)
    assert run.label(result.grad_fn, result) == result.grad_fn.name()
    leaves = [node for node, _, _ in steps if hasattr(node, "variable")]
    return sorted(run.label(each, result) for each in leaves)


def test_the_graph_ends_at_the_cut(snippet):
    run = snippet.after("walk")

    with no_error():
        whole = reached(run, run.whole_loss)
        cut = reached(run, run.cut_loss)
    assert whole == ["encoder_weight\ngets -16", "head_weight\ngets -24"]
    assert cut == ["head_weight\ngets -24"]


def leaves_of(run, result):
    """Return the parameters that a walk through a graph ends at."""
    nodes = [node for node, _, _ in run.walk(result.grad_fn)]
    return {node.variable for node in nodes if hasattr(node, "variable")}


def test_the_graph_ends_at_the_cut__also_between_two_layers(snippet):
    run = snippet.after("walk")
    hidden = run.encoder(run.apartments)

    whole, cut = (
        leaves_of(run, F.mse_loss(run.head(each), run.prices))
        for each in (hidden, hidden.detach())
    )
    assert whole == {*held(run.encoder, run.head)}
    assert cut == {*held(run.head)}


def test_the_graph_ends_at_the_cut__also_where_paths_join(snippet):
    run = snippet.after("walk")
    hidden, levels = run.head(run.encoder(run.apartments)).sum(), 24
    nodes = {node for node, _, _ in run.walk(hidden.grad_fn)}
    for _ in range(levels):
        hidden = hidden + hidden  # two paths to one node

    met = list(run.walk(hidden.grad_fn))
    assert len({node for node, _, _ in met}) == len(nodes) + levels
    assert len(met) == len(nodes) + 2 * levels
    where = {node: place for node, place, _ in met}
    assert all(place == where[node] for node, place, _ in met)
    assert leaves_of(run, hidden) == {*held(run.encoder, run.head)}


AGAIN = "# start again\nloss = "
LEAK = "hidden.detach() + 0 * encoder_weight"


@pytest.mark.parametrize(
    "leak", ["hidden", LEAK], ids=["no cut", "a way around it"]
)
def test_the_graph_ends_at_the_cut__but_not_at_a_leaking_one(
    snippet, leak, fails
):
    """If `hidden` is not detached, or the encoder is added again after the
    cut, the graph still reaches it.
    """
    edited = snippet.edit("cut = hidden.detach()", f"cut = {leak}")
    fails(test_the_graph_ends_at_the_cut, edited)


def test_the_graph_ends_at_the_cut__but_not_in_a_head_with_a_cut(
    snippet, fails
):
    """If the head's weight is detached too, the loss has no graph at all."""
    edited = snippet.edit(
        "cut_loss = (head_weight * cut",
        "cut_loss = (head_weight.detach() * cut",
    )
    fails(test_the_graph_ends_at_the_cut, edited)


def test_the_graph_ends_at_the_cut__but_not_if_both_have_one(snippet, fails):
    """With the cut in both losses, neither graph reaches the encoder."""
    edited = snippet.edit(
        "whole_loss = (head_weight * hidden", "whole_loss = (head_weight * cut"
    )
    fails(test_the_graph_ends_at_the_cut, edited)


def test_no_gradient_behind_a_cut(snippet):
    run = snippet.after("gradients")
    assert run.encoder_weight.grad is None
    assert run.head_weight.grad is not None

    for left in (0.0, 5.0):
        run.encoder_weight.grad = torch.tensor(left)
        (run.head_weight * run.cut - run.y).square().backward()
        assert run.encoder_weight.grad == left


LAYERS = {
    "Linear": (nn.Linear(4, 3), torch.ones(2, 4)),
    "Conv1d": (nn.Conv1d(4, 3, 2), torch.ones(2, 4, 5)),
    "BatchNorm1d": (nn.BatchNorm1d(4), APARTMENTS.reshape(4, 4)),
    "LayerNorm": (nn.LayerNorm(4), torch.ones(2, 4)),
    "Embedding": (nn.Embedding(5, 3), torch.tensor([1, 2])),
    "LSTM": (nn.LSTM(4, 3), torch.ones(2, 4)),
    "float64": (nn.Linear(4, 3).double(), torch.ones(2, 4).double()),
    "bfloat16": (nn.Linear(4, 3).bfloat16(), torch.ones(2, 4).bfloat16()),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_no_gradient_behind_a_cut__also_for(layer):
    layer, inputs = LAYERS[layer]
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


def test_no_gradient_behind_a_cut__also_through_one_of_two_factors(snippet):
    run = snippet.after("half-a-cut")

    assert run.hidden == 2 * 3
    assert run.weight.grad == 6 * 2  # and not twice that


@pytest.mark.parametrize(
    "leak", ["hidden", LEAK], ids=["no cut", "a way around it"]
)
def test_no_gradient_behind_a_cut__but_some_behind_a_leaking_one(
    snippet, leak, fails
):
    """If `hidden` is not detached, or the encoder is added again after the
    cut, `backward()` writes into its `.grad`.
    """
    edited = snippet.edit("cut = hidden.detach()", f"cut = {leak}")
    fails(test_no_gradient_behind_a_cut, edited)


def test_no_gradient_behind_a_cut__but_some_from_the_whole_loss(
    snippet, fails
):
    """The loss that uses `hidden` itself reaches the encoder."""
    edited = snippet.edit(
        f"{AGAIN}(head_weight * cut - y) ** 2",
        f"{AGAIN}(head_weight * hidden - y) ** 2",
    )
    fails(test_no_gradient_behind_a_cut, edited)


def test_no_gradient_behind_a_cut__but_some_on_a_way_around_it(snippet, fails):
    """If the loss also uses `hidden` itself, the gradient takes that way."""
    edited = snippet.edit(
        f"{AGAIN}(head_weight * cut - y) ** 2",
        f"{AGAIN}(head_weight * cut - y) ** 2 + hidden",
    )
    fails(test_no_gradient_behind_a_cut, edited)


def clipped(*gradients):
    """Return the first gradient once all are clipped to a joint norm of 1."""
    parameters = [nn.Parameter(torch.zeros_like(each)) for each in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    return parameters[0].grad


def first(*gradients):
    return gradients[0]


def test_the_same_gradient_before_a_cut(snippet, read=first):
    run = snippet.after("gradients")
    prediction = run.head_weight * run.hidden

    both = [run.head_weight, run.encoder_weight]
    whole, behind = torch.autograd.grad((prediction - run.y) ** 2, both)

    assert torch.equal(read(run.head_weight.grad), read(whole, behind))
    assert torch.equal(whole, torch.tensor(-24.0))


@pytest.mark.parametrize(
    "head",
    [
        nn.Linear(6, 1),
        nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1)),
        nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 1)),
        nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 1)),
        nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3)),
        nn.LSTM(6, 2),
        nn.GRU(6, 2),
        nn.MultiheadAttention(6, 2),
    ],
    ids=[
        "Linear",
        "two layers",
        "BatchNorm",
        "LayerNorm",
        "Conv1d",
        "LSTM",
        "GRU",
        "attention",
    ],
)
def test_the_same_gradient_before_a_cut__also_in(head):
    def gradients(hidden):
        is_attention = isinstance(head, nn.MultiheadAttention)
        output = head(*[hidden] * (3 if is_attention else 1))
        output = output[0] if isinstance(output, tuple) else output
        return torch.autograd.grad(output.square().sum(), held(head))

    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        head.to(dtype)
        hidden = nn.Linear(2, 6, dtype=dtype)(APARTMENTS.to(dtype)).tanh()

        assert same(gradients(hidden.detach()), gradients(hidden)), dtype


@pytest.mark.parametrize(
    "instead",
    [
        "head_weight.detach() * cut + 0 * head_weight",
        "head_weight * (cut / 2)",
    ],
    ids=["the head detached too", "half of the numbers"],
)
def test_the_same_gradient_before_a_cut__but_not_with_another_one(
    snippet, instead, fails
):
    """If the head is detached too, or gets other numbers, its gradient is
    another.
    """
    edited = snippet.edit(
        f"{AGAIN}(head_weight * cut - y) ** 2", f"{AGAIN}({instead} - y) ** 2"
    )
    fails(test_the_same_gradient_before_a_cut, edited)


def test_the_same_gradient_before_a_cut__but_not_if_used_behind_it_too(
    snippet, fails
):
    """A weight that is also used before the cut loses the gradient of that
    use.
    """
    edited = snippet.edit(
        "hidden = encoder_weight * x\ncut",
        "hidden = encoder_weight * x * head_weight\ncut",
    )
    fails(test_the_same_gradient_before_a_cut, edited)


def test_the_same_gradient_before_a_cut__ends_with_clipping(snippet, fails):
    """`clip_grad_norm_` over the whole model scales by the joint norm, and
    that is smaller without the encoder's gradient.
    """
    fails(test_the_same_gradient_before_a_cut, snippet, clipped)


def test_a_detached_target_is_a_constant(snippet):
    run = snippet.after("target")
    constant = torch.tensor(run.target.tolist())
    next_year = run.head(run.encoder(run.next_year))
    assert torch.equal(run.target, 0.2 + 0.9 * next_year)

    parameters = held(run.encoder, run.head)
    gradients = torch.autograd.grad(run.loss, parameters, allow_unused=True)

    prediction = run.head(run.encoder(run.this_year))
    error = F.mse_loss(prediction, constant)
    typed_in = torch.autograd.grad(error, parameters)
    assert None not in gradients
    assert same(gradients, typed_in)

    prediction = run.head(run.encoder(run.this_year))
    target = 0.2 + 0.9 * run.head(run.encoder(run.next_year))
    flowing = F.mse_loss(prediction, target)
    [both] = torch.autograd.grad(flowing, run.head.bias)
    torch.testing.assert_close(both, 0.1 * gradients[-1])


@pytest.mark.parametrize("loss", ["l1_loss", "huber_loss", "smooth_l1_loss"])
def test_a_detached_target_is_a_constant__also_for(snippet, loss):
    run = snippet.after("target")
    constant = torch.tensor(run.target.tolist())

    def gradients(target):
        prediction = run.head(run.encoder(run.this_year))
        error = getattr(F, loss)(prediction, target)
        return torch.autograd.grad(error, held(run.encoder, run.head))

    assert same(gradients(run.target.detach()), gradients(constant))


@pytest.mark.parametrize(
    "instead",
    ["target", "target.detach() + 0.1", "(target + target.detach()) / 2"],
    ids=["not detached", "other numbers", "half of it detached"],
)
def test_a_detached_target_is_a_constant__but_not(snippet, instead, fails):
    """Without the cut, or with half of it, the gradient also flows through
    the target; with other numbers it is another.
    """
    edited = snippet.edit("(target, target.detach())", f"(target, {instead})")
    fails(test_a_detached_target_is_a_constant, edited)


def test_a_detached_target_is_a_constant__but_the_prediction_is_not(
    snippet, fails
):
    """If the prediction is detached as well, the layers get nothing."""
    edited = snippet.edit(
        "F.mse_loss(prediction, goal)",
        "F.mse_loss(prediction.detach() + 0 * head.bias, goal)",
    )
    fails(test_a_detached_target_is_a_constant, edited)


PLAIN = "rnn, readout = nn.RNN(1, 4), nn.Linear(4, 1)"


RECURRENT = {
    "GRU": "rnn, readout = nn.GRU(1, 4), nn.Linear(4, 1)",
    "two layers": """
class Recurrent(nn.RNN):
    def forward(self, prices, state):
        layers = torch.cat([state, state])
        output, layers = super().forward(prices, layers)
        return output, layers[1:]
rnn, readout = Recurrent(1, 4, num_layers=2), nn.Linear(4, 1)""",
    "LSTM": """
class Recurrent(nn.LSTM):
    def forward(self, prices, state):
        output, (h, c) = super().forward(prices, state.split(2, dim=1))
        return output, torch.cat([h, c], dim=1)
rnn, readout = Recurrent(1, 2), nn.Linear(2, 1)""",
    "cell": """
class Recurrent(nn.RNNCell):
    bias_hh_l0 = property(lambda self: self.bias_hh)
    def forward(self, prices, state):
        for price in prices:
            state = super().forward(price[None], state)
        return state, state
rnn, readout = Recurrent(1, 4), nn.Linear(4, 1)""",
}


def test_a_carried_state_raises(snippet):
    with pytest.raises(RuntimeError, match="backward through the graph a sec"):
        raise_as(snippet, "carried")
    run = snippet.after("carried")
    assert torch.equal(run.chunk, run.months[4:])  # not at the first chunk


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_carried_state_raises__also_for(snippet, kind):
    test_a_carried_state_raises(snippet.edit(PLAIN, RECURRENT[kind]))


def test_a_carried_state_raises__also_with_a_step_between(snippet):
    step = "optim.SGD(rnn.parameters()).step()"
    edited = snippet.edit(
        "chunk[-1]).backward()\nexcept",
        f"chunk[-1]).backward()\n        {step}\nexcept",
    )
    test_a_carried_state_raises(edited)


@pytest.mark.parametrize("detached", [[0], [1]], ids=["h", "c"])
def test_a_carried_state_raises__also_if_half_of_an_lstm_is_detached(detached):
    lstm = nn.LSTM(1, 2)
    output, state = lstm(torch.rand(3, 1))
    output.sum().backward()
    halves = enumerate(state)
    state = tuple(p.detach() if n in detached else p for n, p in halves)
    output, _ = lstm(torch.rand(3, 1), state)

    with pytest.raises(RuntimeError, match="backward through the graph a sec"):
        output.sum().backward()


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_carried_state_raises__also_because_its_graph_goes_on(
    snippet, goes_on
):
    run = snippet.after("chunks")
    first, second = run.months.split(4)
    first.requires_grad_()
    _, state = run.rnn(first, torch.zeros(1, 4))
    _, state = run.rnn(second, state if goes_on else state.detach())

    [back] = torch.autograd.grad(state.sum(), first, allow_unused=True)

    assert (back is not None) == goes_on


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rnn(chunk[:-1], state)\n", "rnn(chunk[:-1], state.detach())\n"),
        (
            "chunk[-1]).backward()\nexcept",
            "chunk[-1]).backward(retain_graph=True)\nexcept",
        ),
        (PLAIN, PLAIN.replace("4),", "4).requires_grad_(False),", 1)),
    ],
    ids=["detached", "retained", "of a network that learns nothing"],
)
def test_a_carried_state_raises__but_not_if(snippet, old, new, fails):
    """A detached state, a retained graph, or a frozen network raises no
    error.
    """
    fails(test_a_carried_state_raises, snippet.edit(old, new))


def test_a_carried_state_raises__but_not_from_a_second_backward(
    snippet, fails
):
    """If `backward()` runs twice for one chunk, the error comes from the first
    chunk already.
    """
    backward = "F.mse_loss(readout(output[-1]), chunk[-1]).backward()"
    edited = snippet.edit(
        f"{backward}\nexcept",
        "loss = F.mse_loss(readout(output[-1]), chunk[-1])\n"
        "        loss.backward()\n        loss.backward()\nexcept",
    )
    fails(test_a_carried_state_raises, edited)


def test_a_carried_state_raises__ends_with_one_backward_for_all(
    snippet, fails
):
    """If you add up the losses and call `backward()` once, after the last
    chunk, nothing was freed before.
    """
    error = "F.mse_loss(readout(output[-1]), chunk[-1])"
    edited = snippet.edit(
        "state = torch.zeros(1, 4)\ntry",
        "state, total = torch.zeros(1, 4), 0\ntry",
    ).edit(
        f"{error}.backward()\nexcept",
        f"total = total + {error}\n    total.backward()\nexcept",
    )
    fails(test_a_carried_state_raises, edited)


def test_retain_graph_is_no_fix(
    snippet, step="optim.SGD(rnn.parameters()).step()"
):
    edited = snippet.edit(
        "chunk[-1]).backward()\nexcept",
        f"chunk[-1]).backward(retain_graph=True)\n        {step}\nexcept",
    )

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        raise_as(edited, "carried")


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "RMSprop", "Adagrad"])
def test_retain_graph_is_no_fix__also_with(snippet, kind):
    step = f"optim.{kind}(rnn.parameters()).step()"
    test_retain_graph_is_no_fix(snippet, step)


@pytest.mark.parametrize("kind", RECURRENT)
def test_retain_graph_is_no_fix__also_for(snippet, kind):
    test_retain_graph_is_no_fix(snippet.edit(PLAIN, RECURRENT[kind]))


def test_retain_graph_is_no_fix__but_not_with_a_detached_state(snippet, fails):
    """With the state detached, there is nothing to walk into."""
    edited = snippet.edit(
        "rnn(chunk[:-1], state)\n", "rnn(chunk[:-1], state.detach())\n"
    )
    fails(test_retain_graph_is_no_fix, edited)


def test_retain_graph_is_no_fix__ends_without_a_step(snippet, fails):
    """If no optimizer steps between the chunks, the gradient flows back
    through all of them, and nothing fails.
    """
    fails(test_retain_graph_is_no_fix, snippet, "pass")


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_retain_graph_is_no_fix__ends_with_a_fused(snippet, kind, fails):
    """With `fused=True`, autograd does not notice the step: nothing fails, and
    the gradient is computed with weights that have changed.
    """
    step = f"optim.{kind}(rnn.parameters(), fused=True).step()"
    fails(test_retain_graph_is_no_fix, snippet, step)


def test_retain_graph_is_no_fix__ends_with_a_step_of_the_readout(
    snippet, fails
):
    """If the optimizer holds the readout alone, the weights of the network
    stay, and nothing fails.
    """
    step = "optim.SGD(readout.parameters()).step()"
    fails(test_retain_graph_is_no_fix, snippet, step)


def test_a_detached_state_trains(snippet):
    run = snippet.after("chunks")
    trained = [each.grad for each in held(run.rnn)]

    # The same by hand: each chunk starts from the last one's numbers.
    sums = [torch.zeros_like(each) for each in held(run.rnn)]
    start = torch.zeros(1, 4)
    for chunk in run.months.split(4):
        state = torch.tensor(start.tolist())
        output, start = run.rnn(chunk[:-1], state)
        error = F.mse_loss(run.readout(output[-1]), chunk[-1])
        gradients = torch.autograd.grad(error, held(run.rnn))
        sums = [
            total + each for total, each in zip(sums, gradients, strict=True)
        ]

    assert len(run.months.split(4)) > 1
    assert start.abs().sum() > 0
    assert all(each.abs().sum() > 0 for each in sums)
    assert None not in trained
    assert same(trained, sums)


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_detached_state_trains__also_for(snippet, kind):
    test_a_detached_state_trains(snippet.edit(PLAIN, RECURRENT[kind]))


@pytest.mark.parametrize(
    "instead",
    ["torch.zeros_like(state)", "state.detach() + 1"],
    ids=["zeros", "one more"],
)
def test_a_detached_state_trains__but_not_from_other_numbers(
    snippet, instead, fails
):
    """Zeros, or numbers that were changed, make other gradients than the
    state itself.
    """
    edited = snippet.edit("state.detach())", f"{instead})")
    fails(test_a_detached_state_trains, edited)


def test_a_detached_state_trains__but_not_with_one_chunk(snippet, fails):
    """With one chunk, there is no state to hand on."""
    edited = snippet.edit("torch.rand(8, 1)", "torch.rand(4, 1)")
    fails(test_a_detached_state_trains, edited)


def test_a_detached_state_trains__but_not_each_chunk(snippet, fails):
    """If the gradients are cleared before each chunk, only the last one
    counts.
    """
    edited = snippet.edit(
        "    output, state = rnn(chunk[:-1], state.detach())",
        "    rnn.zero_grad()\n"
        "    output, state = rnn(chunk[:-1], state.detach())",
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
    assert torch.equal(run.gradient, torch.ones_like(price))


@pytest.mark.parametrize(
    "prices",
    [
        "[0.5, 1.5, 2.0, 0.0, -0.3, -0.5, 1e-8]",
        "[123.456, 4095.9, -77.5]",
        "[1.2, 2.7], dtype=torch.float64",
        "[16777217.5, 1e30, -1e9]",
    ],
    ids=["halves and zeros", "large and negative", "float64", "very large"],
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
    """If both ways are straight-through, neither sends back zeros."""
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
    ids=["no cut", "floor", "nine tenths of the way", "twice the price"],
)
def test_straight_through_goes_around__but_not_with(snippet, instead, fails):
    """Each edit has another value than the rounded price, or another gradient
    than 1.
    """
    edited = snippet.edit("price + (price.round() - price).detach()", instead)
    fails(test_straight_through_goes_around, edited)


def test_straight_through_goes_around__ends_at_infinity(snippet, fails):
    """An infinite price comes out as `nan`, because infinity minus infinity is
    no number.
    """
    edited = snippet.edit("[1.2, 2.7]", '[1.2, float("inf")]')
    fails(test_straight_through_goes_around, edited)


def test_the_generator_gets_no_gradient(snippet):
    run = snippet.after("discriminator")

    generator, discriminator = run.generator, run.discriminator
    assert generator.weight.grad is None
    assert generator.bias.grad is None
    assert discriminator.weight.grad.abs().sum() > 0
    assert discriminator.bias.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "instead",
    [
        "fake",
        "fake.detach() + generator.bias",
        "fake.detach() + generator.weight.sum()",
    ],
)
def test_the_generator_gets_no_gradient__but_some_past_a_leak(
    snippet, instead, fails
):
    """If the batch is not detached, or uses the generator again, the generator
    gets a gradient.
    """
    edited = snippet.edit("fake.detach()", instead)
    fails(test_the_generator_gets_no_gradient, edited)


@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_the_generator_gets_no_gradient__but_nor_does_a_frozen_discriminator(
    snippet, kind, fails
):
    """A frozen discriminator gets no gradient either."""
    edited = snippet.edit(
        "scores = discriminator(",
        f"discriminator.{kind}.grad = torch.zeros_like(discriminator.{kind})\n"
        f"discriminator.{kind}.requires_grad_(False)\nscores = discriminator(",
    )
    fails(test_the_generator_gets_no_gradient, edited)


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
    """Cut both models, and both end at the same loss."""
    edited = snippet.edit(
        "self.head(self.encoder(apartments))\n",
        "self.head(self.encoder(apartments).detach())\n",
    )
    fails(test_the_cut_costs, edited)


def test_the_cut_costs__but_nothing_if_neither_has_it(snippet, fails):
    """Without the cut, both models end at the same loss."""
    edited = snippet.edit(
        "self.encoder(apartments).detach()", "self.encoder(apartments)"
    )
    fails(test_the_cut_costs, edited)


def test_the_cut_costs__but_not_after_ten_steps(snippet, fails):
    """After ten steps instead of 80, the two losses are still close."""
    fails(test_the_cut_costs, snippet.edit("range(80)", "range(10)"))


def test_the_cut_costs__but_not_from_one_start_for_all(snippet, fails):
    """With one seed for all, every row of the table is the same run."""
    edited = snippet.edit("torch.manual_seed(seed)", "torch.manual_seed(0)")
    fails(test_the_cut_costs, edited)


def test_the_cut_is_silent(snippet):
    run = snippet.after("train")
    said = []
    for seed in range(5):
        torch.manual_seed(seed)
        begin = F.mse_loss(run.WholeModel()(run.apartments), run.prices).item()
        model = run.CutModel()

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model(run.apartments).sum().backward()
                end = run.train(run.CutModel, seed)
            except RuntimeError as error:
                said.append(error)

        assert not said
        assert not caught
        assert all(each.grad is None for each in held(model.encoder))
        hidden = model.encoder(run.apartments)
        assert torch.equal(model(run.apartments), model.head(hidden))
        assert end < begin


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "self.head(self.encoder(apartments).detach())",
            "self.head(self.encoder(apartments)).detach()",
        ),
        (
            "return self.head(self.encoder(apartments).detach())",
            "__import__('warnings').warn('a cut')\n"
            "        return self.head(self.encoder(apartments).detach())",
        ),
        ("        optimizer.step()\n    return loss", "    return loss"),
        ("self.encoder(apartments).detach()", "self.encoder(apartments)"),
        ("self.encoder(apartments).detach()", "torch.ones(64, 6)"),
    ],
    ids=[
        "at the end",
        "with a warning",
        "without a step",
        "without a cut",
        "without the encoder",
    ],
)
def test_the_cut_is_silent__but_not(snippet, old, new, fails):
    """A cut at the very end raises an error; the other edits warn, never step,
    cut nothing, or leave the encoder out.
    """
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
        ("self.encoder(apartments).detach()", "self.encoder(apartments)"),
        (
            "self.encoder(apartments).detach()",
            "F.linear(apartments, self.encoder[0].weight.detach(),"
            " self.encoder[0].bias)",
        ),
        (
            "self.encoder(apartments).detach()",
            "F.linear(apartments, self.encoder[0].weight,"
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
    """Without the cut, or with another one, `None` stands elsewhere or
    nowhere.
    """
    fails(test_none_names_the_layer, snippet.edit(old, new))


def test_none_names_the_layer__but_not_after_an_earlier_backward(
    snippet, fails
):
    """A gradient from an earlier `backward()` is still there, so `None` is
    not.
    """
    edited = snippet.edit(
        "model = CutModel()",
        "model = CutModel()\nmodel.encoder(apartments).sum().backward()",
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
        getattr(F, loss)(run.prediction, run.prices).backward()


def test_a_cut_at_the_end_raises__ends_with_requires_grad(snippet, fails):
    """`requires_grad_()` silences the error, and no parameter gets a
    gradient.
    """
    edited = snippet.edit(
        "prediction = head(encoder(apartments)).detach()",
        "prediction = head(encoder(apartments)).detach().requires_grad_()",
    )
    fails(test_a_cut_at_the_end_raises, edited)


@pytest.mark.parametrize(
    "instead",
    ["head(encoder(apartments))", "head(encoder(apartments).detach())"],
)
def test_a_cut_at_the_end_raises__but_not_if_a_path_is_left(
    snippet, instead, fails
):
    """As long as one path leads to a parameter, `backward()` runs."""
    edited = snippet.edit(
        "prediction = head(encoder(apartments)).detach()",
        f"prediction = {instead}",
    )
    fails(test_a_cut_at_the_end_raises, edited)


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
    """`clone()` copies the number, so the loss keeps its own."""
    edited = snippet.edit("number = loss.detach(),", "number = loss.clone(),")
    fails(test_the_cut_shares_memory, edited)


def test_the_cut_shares_memory__but_not_after_adding_elsewhere(snippet, fails):
    """`total = total + 100` makes a new tensor and leaves the loss alone."""
    edited = snippet.edit("total += 100", "total = total + 100")
    fails(test_the_cut_shares_memory, edited)


def test_clone_and_item_stay(snippet):
    run = snippet.after("share")

    begin = F.mse_loss(
        run.head(run.encoder(run.apartments)), run.prices
    ).item()
    assert run.loss.item() != begin
    assert run.copy.item() == begin
    assert not run.copy.requires_grad
    assert float(run.number) == begin


@pytest.mark.parametrize("call", ["detach().clone(), ", "item()\ntotal"])
def test_clone_and_item_stay__but_a_detached_tensor_does_not(
    snippet, call, fails
):
    """With `detach()` alone, the kept value changes along with `total`."""
    instead = call.replace("detach().clone()", "detach()")
    instead = instead.replace("item()", "detach()")
    edited = snippet.edit(f"loss.{call}", f"loss.{instead}")
    fails(test_clone_and_item_stay, edited)


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
    refuse([run.prediction, run.head.weight])


def test_numpy_refuses_gradients__also_of_other_dtypes():
    for dtype in ("float16", "bfloat16", "float64", "complex64"):
        dtype = getattr(torch, dtype)
        leaf = torch.ones(2, dtype=dtype, requires_grad=True)
        refuse([leaf, leaf * 2, leaf[0]])


def test_numpy_refuses_gradients__but_not_once_detached(snippet, fails):
    """A detached tensor requires no gradients, so it has an array."""
    edited = snippet.edit(
        "prediction = head(encoder(apartments))[0]",
        "prediction = head(encoder(apartments))[0].detach()",
    )
    fails(test_numpy_refuses_gradients, edited)


def test_numpy_refuses_gradients__ends_under_no_grad(snippet, fails):
    """Under `no_grad()`, `numpy()` returns an array all the same."""
    edited = snippet.edit(
        "    prediction.numpy()",
        "    with torch.no_grad():\n        prediction.numpy()",
    )
    fails(test_numpy_refuses_gradients, edited)


def test_numpy_refuses_gradients__ends_with_force(snippet, fails):
    """`numpy(force=True)` detaches by itself."""
    edited = snippet.edit(
        "    prediction.numpy()", "    prediction.numpy(force=True)"
    )
    fails(test_numpy_refuses_gradients, edited)


def test_a_cut_does_not_stop_the_optimizer(snippet):
    run = snippet.after("moves-anyway")

    # 3 + 0.01 * 16, twice: the second backward pass left the first gradient.
    assert run.hidden.grad_fn is None
    assert run.encoder_weight.grad == -16
    assert run.encoder_weight.item() == pytest.approx(3.32)


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "RMSprop", "Adagrad"])
def test_a_cut_does_not_stop_the_optimizer__also_with(kind):
    encoder, head = nn.Linear(2, 6), nn.Linear(6, 1)
    optimizer = getattr(optim, kind)(held(encoder, head))
    for cuts in (False, True):
        before = copies(held(encoder))
        hidden = encoder(APARTMENTS)
        hidden = hidden.detach() if cuts else hidden
        head(hidden).square().mean().backward()
        optimizer.step()

    assert not any(map(torch.equal, before, held(encoder)))


def test_a_cut_does_not_stop_the_optimizer__but_not_once_cleared(
    snippet, fails
):
    """`zero_grad()` leaves `None`, and the optimizer skips the encoder."""
    edited = snippet.edit(
        "    (head_weight * hidden - y).square()",
        "    optimizer.zero_grad()\n    (head_weight * hidden - y).square()",
    )
    fails(test_a_cut_does_not_stop_the_optimizer, edited)


def test_a_cut_does_not_stop_the_optimizer__but_not_if_left_out(
    snippet, fails
):
    """An optimizer that does not hold the encoder cannot move it."""
    edited = snippet.edit("optim.SGD([encoder_weight, ", "optim.SGD([")
    fails(test_a_cut_does_not_stop_the_optimizer, edited)


def test_a_cut_does_not_stop_the_optimizer__but_not_without_a_cut(
    snippet, fails
):
    """If `hidden` is never detached, the second step brings a gradient of its
    own.
    """
    edited = snippet.edit("hidden.detach() if detached", "hidden if detached")
    fails(test_a_cut_does_not_stop_the_optimizer, edited)


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
    """This edit compares the labels with the first row only."""
    edited = snippet.edit(
        "differences = output - labels",
        "differences = torch.cat([output[:1] - labels, output[1:]])",
    )
    fails(test_labels_broadcast_silently, edited)


def test_labels_broadcast_silently__but_mse_loss_warns(snippet, fails):
    """`mse_loss` of the same two shapes does warn."""
    edited = snippet.edit(
        "differences = output - labels",
        "differences = output - labels\nF.mse_loss(output, labels)",
    )
    fails(test_labels_broadcast_silently, edited)


def test_the_sum_ignores_its_labels(snippet):
    run = snippet.after("not-an-error")

    assert torch.equal(run.gradient, torch.ones_like(run.output))


@pytest.mark.parametrize(
    "labels", ["1e6 * torch.rand(1, 16)", "torch.zeros(3, 16)"]
)
def test_the_sum_ignores_its_labels__also_for(snippet, labels):
    edited = snippet.edit("torch.rand(1, 16)", labels)
    test_the_sum_ignores_its_labels(edited)


def test_the_sum_ignores_its_labels__but_not_with_more_rows_of_them(
    snippet, fails
):
    """If the labels have three rows and the output one, each output counts
    three times.
    """
    edited = snippet.edit("torch.rand(1, 16)", "torch.rand(3, 16)").edit(
        "torch.randn(3, 16", "torch.randn(1, 16"
    )
    fails(test_the_sum_ignores_its_labels, edited)


@pytest.mark.parametrize("instead", ["square().sum()", "abs().sum()"])
def test_the_sum_ignores_its_labels__but_not_as(snippet, instead, fails):
    """The gradient of squared or absolute differences does depend on the
    labels.
    """
    edited = snippet.edit("differences.sum()", f"differences.{instead}")
    fails(test_the_sum_ignores_its_labels, edited)
