"""The claims of docs/sequences/recurrent.md."""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after
from tests.helpers.programs import error_of
from tests.helpers.worlds import DTYPES, each

LAYERS = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}
NAMES = ("names", "starts", "model", "fit")
FORGOTTEN = ("forgotten", "forgotten-learned", "in-company")
TRAINED = (*NAMES, "learned", *FORGOTTEN)


def without_names(snippet, *cells):
    """Run these cells, which do not read the names."""
    edited = snippet.edit("MODULES.split())", "MODULES.split()[:1])")
    return after(edited, "names", *cells)


def untrained(snippet, *cells):
    """Run these cells behind a model that has not been trained."""
    edited = snippet.edit("for _ in range(4):", "for _ in range(0):")
    return after(edited, *NAMES, "learned", *cells)


def h_n_of(returned):
    """Return the hidden state that a layer returns, of whatever kind."""
    _, state = returned
    return state[0] if isinstance(state, tuple) else state


def close(found, expected, **options):
    """Compare up to rounding, which may depend on the batch."""
    tolerance = {"atol": 1e-5, "rtol": 1e-4, **options}
    torch.testing.assert_close(found, expected, **tolerance)


# Do this


def test_the_reader_learns(snippet):
    run = after(snippet, *NAMES)
    assert len(run.valid) == 300
    kinds = [run.found[name] for name in ("SEEK_SET", "getattr", "datetime")]
    assert kinds == [0, 1, 2]
    seen = set(map(tuple, run.starts[run.train].tolist()))
    unseen = set(map(tuple, run.starts[run.valid].tolist()))
    assert len(seen | unseen) == len(run.long)
    assert seen & unseen == set()
    beginnings = {name[:8] for name in run.names if len(name) >= 8}
    assert run.starts.shape == (len(beginnings), 8)
    for place in run.valid[:50].tolist():
        number = run.long[place]
        name = run.names[number]
        spelled = [run.letters[one - 1] for one in run.starts[place]]
        assert "".join(spelled) == name[:8]
        assert run.kinds[place] == run.found[name]
    run = after(snippet, *TRAINED)
    scores = run.model(run.starts[run.valid])
    right = scores.argmax(dim=1) == run.kinds[run.valid]
    assert run.right_answers(run.model) == pytest.approx(right.sum() / 300)
    assert right.sum() / 300 > 0.75
    assert run.largest == constant(run)


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_the_reader_learns__also_from(snippet, seed):
    run = after(snippet, *NAMES)
    assert run.right_answers(run.fit(run.Reader, seed)) > 0.75
    torch.manual_seed(seed)
    again = snippet.only("names", "starts").after("starts")
    assert torch.equal(again.valid, run.valid)
    begun = untrained(snippet)
    one, two = (begun.fit(begun.Reader, seed) for _ in range(2))
    assert torch.equal(one.embedding.weight, two.embedding.weight)


def test_the_reader_learns__also_with_a_gru(snippet):
    run = after(snippet, *NAMES)

    class WithGRU(run.Reader):
        def __init__(self):
            super().__init__()
            self.lstm = nn.GRU(8, 32, batch_first=True)

        def forward(self, batch):
            _, h_n = self.lstm(self.embedding(batch))
            return self.head(h_n[-1])

    assert run.right_answers(run.fit(WithGRU)) > 0.75


@edits(
    ("labels that are shuffled", "labels[long]", "labels[long].flip(0)"),
    ("no training", "for _ in range(4):", "for _ in range(0):"),
    (
        "names that begin alike",
        "long = list(places.values())",
        "long = [i for i, name in enumerate(names) if len(name) >= 8]",
    ),
)
def test_the_reader_learns__but_not_with(snippet, old, new, fails):
    """There is nothing to be learned, or nobody to learn it, or the model has
    seen the same eight letters in another name.
    """
    fails(test_the_reader_learns, snippet.edit(old, new))


# How it works


def holds_each_step(layer, x):
    """Compare the output with what the last layer computes, step by step."""
    output, _ = layer(x)
    size, length = x.shape[:2]
    directions = 1 + layer.bidirectional
    assert output.shape == (size, length, directions * layer.hidden_size)

    x = x.detach()
    for depth in range(layer.num_layers):
        made = []
        for direction in ("", "_reverse")[:directions]:
            one = type(layer)(x.shape[2], layer.hidden_size, batch_first=True)
            one.to(x.dtype)
            one.load_state_dict(
                {
                    name: layer.state_dict()[f"{name[:-1]}{depth}{direction}"]
                    for name in one.state_dict()
                }
            )
            taken = x.flip(1) if direction else x
            steps, _ = one(taken)
            made.append(steps.flip(1) if direction else steps)
        x = torch.cat(made, dim=2)
    close(output, x)


def test_output_has_each_step(snippet, layer=None):
    if layer is not None:
        holds_each_step(layer, torch.rand(5, 7, 4))
        return

    run = without_names(snippet, "shapes")

    assert run.x.shape == (5, 7, 4)
    for (layers, bidirectional), (output, *_) in run.shapes.items():
        directions = 1 + bidirectional
        assert output == (5, 7, directions * 6)
        layer = nn.LSTM(
            4, 6, layers, batch_first=True, bidirectional=bidirectional
        )
        holds_each_step(layer, run.x)


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
def test_output_has_each_step__also_of(kind):
    torch.manual_seed(0)
    for layers in (1, 3):
        for bidirectional in (False, True):
            options = {"bidirectional": bidirectional, "batch_first": True}
            layer = kind(3, 5, layers, **options)
            for shape in ((1, 1, 3), (2, 1, 3), (1, 6, 3), (4, 9, 3)):
                holds_each_step(layer, torch.randn(shape))


@edits(
    (
        "time first",
        "lstm(x)\n    shapes",
        "nn.LSTM(4, 6, layers, bidirectional=bidirectional)(x.mT.mT[:4])\n"
        "    shapes",
    ),
    (
        "the sizes of h_n",
        "= output.shape, h_n.shape, c_n.shape",
        "= h_n.shape, output.shape, c_n.shape",
    ),
)
def test_output_has_each_step__but_not_with(snippet, old, new, fails):
    """Other tensors have other shapes."""
    fails(test_output_has_each_step, snippet.edit(old, new))


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_output_has_each_step__ends_with_proj_size(snippet, fails):
    """`proj_size` makes the outputs of an LSTM smaller, and its `h_n` too."""
    layer = nn.LSTM(4, 6, proj_size=2, batch_first=True)
    fails(test_output_has_each_step, snippet, layer)


def holds_each_layer(layer, x):
    """Check the final states of a layer, in their order."""
    output, _ = layer(x)
    h_n = h_n_of(layer(x))
    directions = 1 + layer.bidirectional
    size = layer.hidden_size
    batch = x.shape[0] if layer.batch_first else x.shape[1]
    assert h_n.shape == (layer.num_layers * directions, batch, size)

    if not layer.batch_first:
        output = output.transpose(0, 1)
    close(h_n[-directions], output[:, -1, :size])
    if layer.bidirectional:
        close(h_n[-1], output[:, 0, size:])
    if layer.num_layers > 1:  # the layers below are those of a lower stack
        fewer = type(layer)(
            layer.input_size,
            size,
            layer.num_layers - 1,
            batch_first=layer.batch_first,
            bidirectional=layer.bidirectional,
        )
        state = layer.state_dict()
        fewer.load_state_dict(
            {name: state[name] for name in fewer.state_dict()}
        )
        close(h_n[:-directions], h_n_of(fewer(x)))


def test_h_n_has_each_layer(snippet, x=None):
    if x is not None:
        holds_each_layer(nn.LSTM(4, 6, 2), x)
        return

    run = without_names(snippet, "shapes")

    assert [*run.shapes] == [(1, False), (2, False), (1, True), (2, True)]
    for (layers, bidirectional), (_, h_n, c_n) in run.shapes.items():
        assert h_n == c_n == (layers * (1 + bidirectional), 5, 6)
        layer = nn.LSTM(
            4, 6, layers, batch_first=True, bidirectional=bidirectional
        )
        holds_each_layer(layer, run.x)


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize(
    "batch_first", [True, False], ids=["batch first", "time first"]
)
def test_h_n_has_each_layer__also_of(kind, batch_first):
    torch.manual_seed(0)
    for layers in (1, 2, 3):
        for bidirectional in (False, True):
            options = {
                "bidirectional": bidirectional,
                "batch_first": batch_first,
            }
            layer = kind(3, 5, layers, **options)
            holds_each_layer(layer, torch.randn(4, 7, 3))


@edits(
    ("other sizes", "h_n.shape, c_n.shape", "h_n.mT.shape, c_n.mT.shape"),
    (
        "the batch in front",
        "h_n.shape, c_n.shape",
        "h_n.transpose(0, 1).shape, c_n.transpose(0, 1).shape",
    ),
)
def test_h_n_has_each_layer__but_not_with(snippet, old, new, fails):
    """Transposed, the states have their axes in another order."""
    fails(test_h_n_has_each_layer, snippet.edit(old, new))


def test_h_n_has_each_layer__ends_without_a_batch(snippet, fails):
    """A sequence of two axes has a state without an axis for the batch."""
    fails(test_h_n_has_each_layer, snippet, torch.rand(7, 4))


def test_only_an_lstm_returns_a_pair(snippet, gru=None):
    run = without_names(snippet, "shapes", "returns")

    assert isinstance(run.lstm, nn.LSTM)
    assert run.c_n.shape == (1, 5, 6)
    assert isinstance(run.gru, nn.GRU)
    assert isinstance(run.h_n, torch.Tensor)
    assert run.h_n.shape == (1, 5, 6)
    assert isinstance(run.lstm(run.x)[1], tuple)
    gru = gru or run.gru
    with pytest.raises(ValueError, match="not enough values to unpack"):
        _, (_, _) = gru(run.x)


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
def test_only_an_lstm_returns_a_pair__also_tried_on(kind):
    for options in ({}, {"num_layers": 2}, {"bidirectional": True}):
        for shape in ((5, 7, 4), (7, 4)):
            _, state = kind(4, 6, **options)(torch.rand(shape))
            assert isinstance(state, tuple) == (kind is nn.LSTM)


@edits(
    ("nn.GRU(4, 6, batch_first=True)\n", "nn.LSTM(4, 6, batch_first=True)\n")
)
def test_only_an_lstm_returns_a_pair__but_not(snippet, old, new, fails):
    """An LSTM in place of the GRU returns a pair as well."""
    fails(test_only_an_lstm_returns_a_pair, snippet.edit(old, new))


def test_only_an_lstm_returns_a_pair__ends_with_two_directions(snippet, fails):
    """The two states of a bidirectional GRU unpack as if they were a pair, and
    raise nothing.
    """
    gru = nn.GRU(4, 6, batch_first=True, bidirectional=True)
    fails(test_only_an_lstm_returns_a_pair, snippet, gru)


def stepped(layer, x, state):
    """Return the states of an RNN, computed one step at a time."""
    weights = layer.weight_ih_l0, layer.weight_hh_l0
    biases = (layer.bias_ih_l0, layer.bias_hh_l0) if layer.bias else (0, 0)
    states = []
    for number in x:
        state = torch.tanh(
            number @ weights[0].T
            + biases[0]
            + state @ weights[1].T
            + biases[1]
        )
        states.append(state)
    return torch.stack(states)


def test_an_rnn_mixes_input_and_state(snippet):
    run = without_names(snippet, "by-hand")

    assert run.rnn.weight_ih_l0.item() == 1
    assert run.rnn.weight_hh_l0.item() == 0.5
    first = math.tanh(1 * 1)
    second = math.tanh(0.5 * first)
    third = math.tanh(0.5 * second)
    assert run.by_hand.flatten().tolist() == pytest.approx(
        [first, second, third]
    )
    rounded = [round(each, 2) for each in (first, second, third)]
    assert rounded == [0.76, 0.36, 0.18]


@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
def test_an_rnn_mixes_input_and_state__also_with(bias):
    torch.manual_seed(0)
    for size in (1, 4):
        rnn, x = nn.RNN(3, size, bias=bias), torch.randn(6, 3)
        output, _ = rnn(x)
        close(output, stepped(rnn, x, torch.zeros(size)))
        state = torch.randn(size)
        output, _ = rnn(x, state[None])
        close(output, stepped(rnn, x, state))


@edits(
    ("constant_(rnn.weight_hh_l0, 0.5)", "constant_(rnn.weight_hh_l0, 0.0)"),
    ("[[1.0], [0.0], [0.0]]", "[[1.0], [0.0], [1.0]]"),
    ("a ReLU", "bias=False", "bias=False, nonlinearity='relu'"),
)
def test_an_rnn_mixes_input_and_state__but_not(snippet, old, new, fails):
    """Without the old state, or with another number, the states differ."""
    fails(test_an_rnn_mixes_input_and_state, snippet.edit(old, new))


def gated(gru, x, state):
    """Return the states of a GRU, computed one step at a time."""
    states = []
    for number in x:
        taken = F.linear(number, gru.weight_ih_l0, gru.bias_ih_l0).chunk(3)
        kept = F.linear(state, gru.weight_hh_l0, gru.bias_hh_l0).chunk(3)
        reset = torch.sigmoid(taken[0] + kept[0])
        z = torch.sigmoid(taken[1] + kept[1])
        candidate = torch.tanh(taken[2] + reset * kept[2])
        state = z * state + (1 - z) * candidate
        states.append(state)
    return torch.stack(states)


def test_a_gru_keeps_a_share(snippet):
    run = without_names(snippet, "gate")

    with torch.no_grad():
        z = run.gru.bias_ih_l0[1].sigmoid().item()
        assert z == pytest.approx(0.9)
        assert run.gru.weight_ih_l0.count_nonzero() == 0
    faded = run.faded.flatten().tolist()
    assert faded == pytest.approx([0.9, 0.81, 0.729], rel=1e-4)
    close(run.faded, gated(run.gru, torch.zeros(3, 1), torch.ones(1)))


def test_a_gru_keeps_a_share__also_with_random_weights():
    torch.manual_seed(0)
    for size in (1, 4):
        gru, x, state = nn.GRU(3, size), torch.randn(6, 3), torch.randn(size)
        output, _ = gru(x, state[None])
        close(output, gated(gru, x, state))


@edits(
    ("gru.bias_ih_l0[1] =", "gru.bias_ih_l0[0] ="),
    ("another candidate", "bias_ih_l0[1] =", "bias_ih_l0[1:] ="),
    ("another state", "torch.ones(1, 1)", "torch.zeros(1, 1)"),
)
def test_a_gru_keeps_a_share__but_not(snippet, old, new, fails):
    """Another gate, candidate or old state makes another new state."""
    fails(test_a_gru_keeps_a_share, snippet.edit(old, new))


def test_the_last_output_is_h_n(snippet, lengths=None):
    if lengths is not None:
        torch.manual_seed(0)
        lstm, x = nn.LSTM(3, 5), torch.randn(7, 2, 3)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        output, (h_n, _) = lstm(packed)
        output, _ = nn.utils.rnn.pad_packed_sequence(output)
        close(output[-1], h_n[-1])
        return

    run = untrained(snippet, "one-direction")

    assert run.output.shape[1] == 8
    close(run.output[:, -1], run.h_n[-1])


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
def test_the_last_output_is_h_n__also_of(kind):
    torch.manual_seed(0)
    for layers in (1, 2, 3):
        layer, x = kind(3, 5, layers, batch_first=True), torch.randn(4, 7, 3)
        close(layer(x)[0][:, -1], h_n_of(layer(x))[-1])


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_the_last_output_is_h_n__also_with_proj_size():
    output, (h_n, _) = nn.LSTM(3, 5, proj_size=2)(torch.randn(7, 4, 3))
    close(output[-1], h_n[-1])


def test_the_last_output_is_h_n__also_with_dropout():
    lstm = nn.LSTM(3, 5, 2, dropout=0.5, batch_first=True)
    output, (h_n, _) = lstm(torch.randn(4, 7, 3))
    close(output[:, -1], h_n[-1])


BOTH = "nn.LSTM(8, 16, batch_first=True, bidirectional=True)"


@edits(
    (
        "in two directions",
        "output, (h_n, c_n) = model.lstm(model.embedding(starts))",
        f"output, (h_n, c_n) = {BOTH}(model.embedding(starts))\n"
        "output = output[:, :, 16:]",
    ),
    (
        "with the cell",
        "output, (h_n, c_n) = model.lstm(model.embedding(starts))",
        "output, (c_n, h_n) = model.lstm(model.embedding(starts))",
    ),
)
def test_the_last_output_is_h_n__but_not(snippet, old, new, fails):
    """A backward direction ends at the first step, and the cell has other
    numbers.
    """
    fails(test_the_last_output_is_h_n, snippet.edit(old, new))


def test_the_last_output_is_h_n__also_in_a_packed_batch_of_one_length(snippet):
    test_the_last_output_is_h_n(snippet, [7, 7])


def test_the_last_output_is_h_n__ends_with_padding(snippet, fails):
    """In a packed batch, a shorter sequence ends before the last step."""
    fails(test_the_last_output_is_h_n, snippet, [7, 4])


def test_backward_ends_at_the_first_letter(snippet):
    run = untrained(
        snippet, "one-direction", "two-directions", "count-letters"
    )

    close(run.h_n[-2], run.output[:, -1, :32])
    close(run.h_n[-1], run.output[:, 0, 32:])
    close(run.summary, torch.cat([run.h_n[-2], run.h_n[-1]], dim=1))
    assert run.summary.shape == (len(run.starts), 64)
    # The picture shows how many letters a state has read.
    assert run.read_forward == [1, 2, 3, 4, 5, 6, 7, 8]
    assert run.read_backward == [8, 7, 6, 5, 4, 3, 2, 1]
    # The same, without gradients: the first seven letters change.
    changed = run.starts.clone()
    changed[:, :7] = 1
    again, (h_again, _) = run.both(run.model.embedding(changed))
    close(again[:, -1, 32:], run.output[:, -1, 32:])
    assert not torch.allclose(h_again[-1], run.h_n[-1], atol=1e-3)


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
def test_backward_ends_at_the_first_letter__also_of(kind):
    torch.manual_seed(0)
    layer = kind(3, 5, batch_first=True, bidirectional=True)
    for length in (2, 7):
        x = torch.randn(4, length, 3)
        changed = torch.cat([torch.randn(4, length - 1, 3), x[:, -1:]], dim=1)
        output, _ = layer(x)
        close(output[:, 0, 5:], h_n_of(layer(x))[-1])
        close(layer(changed)[0][:, -1, 5:], output[:, -1, 5:])


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
def test_backward_ends_at_the_first_letter__also_at_step_0_of_a_deep(kind):
    torch.manual_seed(0)
    for layers in (2, 3):
        options = {"batch_first": True, "bidirectional": True}
        layer, x = kind(3, 5, layers, **options), torch.randn(4, 7, 3)
        close(layer(x)[0][:, 0, 5:], h_n_of(layer(x))[-1])


def test_backward_ends_at_the_first_letter__but_not_in_the_last_step(
    snippet, fails
):
    """There, the backward half has read a single letter."""
    edited = snippet.edit(
        "summary = torch.cat([h_n[-2], h_n[-1]], dim=1)",
        "summary = output[:, -1]",
    )
    fails(test_backward_ends_at_the_first_letter, edited)


@edits(
    ("output, (h_n, c_n) = both(", "output, (c_n, h_n) = both("),
    (
        "step[32:]) for step in steps]",
        "step[32:]) for step in steps.flip(0)]",
    ),
)
def test_backward_ends_at_the_first_letter__but_not_with(
    snippet, old, new, fails
):
    """The cell has other numbers, and reversed, the steps come in another
    order.
    """
    fails(test_backward_ends_at_the_first_letter, snippet.edit(old, new))


def test_backward_ends_at_the_first_letter__ends_with_two_layers(
    snippet, fails
):
    """The second layer reads both directions of the first, so that all of its
    states depend on all letters.
    """
    old = "both = nn.LSTM(8, 32, batch_first"
    edited = snippet.edit(old, "both = nn.LSTM(8, 32, 2, batch_first")
    fails(test_backward_ends_at_the_first_letter, edited)


def continues(layer, x, places):
    """Compare a sequence read in chunks with one read whole."""
    whole, _ = layer(x)
    state, parts = None, []
    for chunk in x.tensor_split(places, dim=1):
        output, state = layer(chunk, state)
        parts.append(output)
    close(torch.cat(parts, dim=1), whole)

    *_, last = x.tensor_split(places, dim=1)
    zeros = torch.zeros_like(h_n_of(layer(last)))
    given = (zeros, zeros) if isinstance(layer, nn.LSTM) else zeros
    close(layer(last)[0], layer(last, given)[0])


def test_the_state_continues(snippet, layer=None):
    if layer is not None:
        torch.manual_seed(0)
        for places in ([1], [4], [2, 3, 6]):
            continues(layer, torch.randn(4, 7, 3), places)
        return

    run = after(snippet, "names", "stream", "carry", "in-chunks")

    spelled = [
        run.letters[each - 1] if each else " "
        for each in run.torch.cat([run.stream[0], run.stream[1]]).tolist()
    ]
    assert "".join(spelled) == " ".join(run.names)[:1202]
    assert torch.equal(run.inputs[:, 1:], run.targets[:, :-1])
    close(torch.cat([run.first, run.second], dim=1), run.whole)
    zeros = torch.zeros(1, 4, 32)
    with torch.no_grad():
        close(run.afresh, run.lstm(run.text[:, 300:], (zeros, zeros))[0])
    assert not torch.allclose(run.afresh, run.whole[:, 300:], atol=1e-3)
    # The loop that trains has read all letters, and holds no graph.
    assert run.output.shape == (4, 50, 32)
    assert not run.state[0].requires_grad
    assert run.state[0].abs().sum() > 0


def test_the_state_continues__also_in_the_loop_that_trains(snippet):
    edited = snippet.edit("lr=0.01)\n\nstate", "lr=0.0)\n\nstate")
    run = after(edited, "names", "stream", "carry")
    with torch.no_grad():
        _, expected = run.lstm(run.embedding(run.inputs))
    close(run.state[0], expected[0])
    close(run.state[1], expected[1])

    assert len(run.optimizer.state) == len([*run.layers.parameters()])
    with torch.no_grad():
        _, state = run.lstm(run.embedding(run.inputs[:, :-50]))
    output, _ = run.lstm(run.embedding(run.inputs[:, -50:]), state)
    scores = run.head(output).flatten(0, 1)
    loss = F.cross_entropy(scores, run.targets[:, -50:].flatten())
    close(run.loss, loss)
    [gradient] = torch.autograd.grad(loss, run.head.bias)
    close(run.head.bias.grad, gradient)


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
def test_the_state_continues__also_of(snippet, kind):
    for layers in (1, 2):
        layer = kind(3, 5, layers, batch_first=True)
        test_the_state_continues(snippet, layer)


@edits(
    ("the first state", "text[:, 300:], state)", "text[:, 300:], None)"),
    (
        "the state of other rows",
        "second, _ = lstm(text[:, 300:], state)",
        "rows = [1, 2, 3, 0]\n"
        "    second, _ = lstm(text[:, 300:], [s[:, rows] for s in state])",
    ),
    (
        "a letter left out",
        "second, _ = lstm(text[:, 300:], state)",
        "second, _ = lstm(text[:, 301:].repeat(1, 2, 1)[:, :300], state)",
    ),
    ("afresh, _ = lstm(text[:, 300:])", "afresh = second"),
)
def test_the_state_continues__but_not_with(snippet, old, new, fails):
    """Zeros, the state of another row or a gap make other outputs."""
    fails(test_the_state_continues, snippet.edit(old, new))


def test_the_state_continues__ends_with_dropout(snippet, fails):
    """Between layers that train, `dropout=` draws anew in each call."""
    layer = nn.LSTM(3, 5, 2, dropout=0.5, batch_first=True)
    test_the_state_continues(snippet, layer.eval())
    fails(test_the_state_continues, snippet, layer.train())


def test_the_state_continues__ends_in_two_directions(snippet, fails):
    """The backward direction starts at the end of the text, which a chunk has
    not seen.
    """
    layer = nn.LSTM(3, 5, batch_first=True, bidirectional=True)
    fails(test_the_state_continues, snippet, layer)


# What goes wrong


def test_forgetting_batch_first_is_silent(snippet):
    with no_error(), warnings.catch_warnings():
        warnings.simplefilter("error")
        run = after(snippet, *TRAINED)

    assert not run.wrong.lstm.batch_first
    right = run.right_answers(run.model)
    assert run.right_answers(run.wrong) < right - 0.1


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_forgetting_batch_first_is_silent__also_from(snippet, seed):
    run = after(snippet, *TRAINED)
    right, wrong = (
        run.right_answers(run.fit(make_model, seed))
        for make_model in (run.Reader, run.WithoutBatchFirst)
    )
    assert wrong < right - 0.1


def test_forgetting_batch_first_is_silent__but_not_with_batch_first(
    snippet, fails
):
    """Then the model reads the letters of one name."""
    edited = snippet.edit("nn.LSTM(8, 32)\n\n    def", f"{ONE}\n\n    def")
    fails(test_forgetting_batch_first_is_silent, edited)


ONE = "nn.LSTM(8, 32, batch_first=True)"


def test_forgetting_batch_first_is_silent__but_not_of_h_n(snippet, fails):
    """The loss raises an error, as `h_n[-1]` has a row for each letter."""
    run = untrained(snippet, "forgotten")
    lstm = run.WithoutBatchFirst().lstm
    h_n = h_n_of(lstm(run.model.embedding(run.starts[:32])))
    assert h_n.shape == (1, 8, 32)
    with pytest.raises(ValueError, match="Expected input batch_size"):
        F.cross_entropy(run.model.head(h_n[-1]), run.kinds[:32])

    edited = snippet.edit(
        "output, _ = self.lstm(self.embedding(batch))\n"
        "        return self.head(output[:, -1])",
        "_, (h_n, _) = self.lstm(self.embedding(batch))\n"
        "        return self.head(h_n[-1])",
    )
    fails(test_forgetting_batch_first_is_silent, edited)


def depends_on(model, batch, row):
    """Return the (row, letter) that the scores of one name depend on."""
    model.zero_grad()
    held = []
    hook = model.embedding.register_forward_hook(
        lambda *passed: held.append(passed[2]) or passed[2].retain_grad()
    )
    model(batch)[row].sum().backward()
    hook.remove()
    return held[0].grad.any(dim=2).nonzero().tolist()


def test_it_reads_across_the_batch(snippet, lstm=None):
    run = untrained(snippet, "forgotten", "forgotten-learned", "in-company")

    model = run.WithoutBatchFirst()
    model.lstm = lstm or model.lstm
    for row in (0, 1, 20):
        found = depends_on(model, run.starts[:32], row)
        assert found == [[above, 7] for above in range(row + 1)]
    assert torch.equal(run.batch, run.starts[run.valid])
    assert (run.seven_lost[:, :7] == 1).all()
    assert torch.equal(run.seven_lost[:, 7], run.batch[:, 7])
    assert not torch.equal(run.seven_lost, run.batch)
    assert_it_needs_company(run, 1e-3)


def change_alone(run, model):
    """Return how much the probabilities of names change if each is alone."""
    changes = []
    for count in (2, 20, 100, 300):
        batch = run.batch[:count]
        together = model(batch)[-1].softmax(dim=0)
        close(run.last_name(model, batch), together)
        alone = run.last_name(model, batch[-1:])
        changes.append((together - alone).abs().max().item())
    return max(changes)


def assert_it_needs_company(run, least):
    """Compare the names in a batch with the same names, alone."""
    assert change_alone(run, run.wrong) > least
    assert change_alone(run, run.model) < 1e-5
    lost = run.last_name(run.wrong, run.seven_lost)
    close(lost, run.last_name(run.wrong, run.batch))


def test_it_reads_across_the_batch__also_after_training(snippet):
    assert_it_needs_company(after(snippet, *TRAINED), 0.01)


@edits(
    ("with batch_first", "nn.LSTM(8, 32)\n\n    def", f"{ONE}\n\n    def"),
    ("return self.head(output[:, -1])", "return self.head(output[:, 0])"),
    ("seven_lost[:, :7] = 1", "seven_lost[:, 1:] = 1"),
)
def test_it_reads_across_the_batch__but_not(snippet, old, new, fails):
    """It then reads other letters, or the letter that it reads has changed."""
    fails(test_it_reads_across_the_batch, snippet.edit(old, new))


def test_it_reads_across_the_batch__also_with_two_layers(snippet):
    test_it_reads_across_the_batch(snippet, nn.LSTM(8, 32, 2))


def test_it_reads_across_the_batch__ends_in_two_directions(snippet, fails):
    """The backward direction reads the names below as well."""
    lstm = nn.LSTM(8, 16, bidirectional=True)
    fails(test_it_reads_across_the_batch, snippet, lstm)


def one_sequence(layer, samples):
    """Check that each sample is read behind those before it."""
    output, _ = layer(samples)
    with_batch = samples[None] if layer.batch_first else samples[:, None]
    expected, _ = layer(with_batch)
    close(output, expected.flatten(0, 1))
    if len(samples) > 1:
        changed = torch.cat([samples[:1] + 1, samples[1:]])
        last = layer(changed)[0][1]
        assert not torch.allclose(last, output[1], atol=1e-3)


def test_two_axes_are_one_sequence(snippet):
    run = without_names(snippet, "two-axes")

    assert run.samples.shape == (32, 8)
    assert run.chained.shape == (32, 32)
    assert run.chained_h_n.shape == (1, 32)
    one_sequence(run.lstm, run.samples)
    assert run.single.shape == (32, 1, 32)
    zeros = torch.zeros(1, 32, 32)
    close(run.single, run.lstm(run.samples[:, None], (zeros, zeros))[0])
    assert not torch.allclose(run.single[1:, 0], run.chained[1:], atol=1e-3)


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize(
    "batch_first", [True, False], ids=["batch first", "time first"]
)
def test_two_axes_are_one_sequence__also_of(kind, batch_first):
    torch.manual_seed(0)
    for layers in (1, 2):
        layer = kind(3, 5, layers, batch_first=batch_first)
        for length in (1, 2, 7):
            one_sequence(layer, torch.randn(length, 3))


@edits(
    ("with a batch", "= lstm(samples)", "= lstm(samples.unsqueeze(1))"),
    ("unsqueeze(0)", "lstm(samples.unsqueeze(1))", "lstm(samples[None])"),
)
def test_two_axes_are_one_sequence__but_not(snippet, old, new, fails):
    """With three axes, the first one is the batch."""
    fails(test_two_axes_are_one_sequence, snippet.edit(old, new))


def test_a_forecast_must_beat_the_last_value(snippet):
    run = without_names(snippet, "series", "forecasts")

    assert len(run.prices) == 600
    close(run.prices.diff(), run.moves[1:], atol=1e-4)
    noise = run.moves[1:] - 0.7 * run.moves[:-1]
    assert 0.8 < noise.std() < 1.2
    again = without_names(snippet, "series")
    assert torch.equal(again.prices, run.prices)
    assert torch.equal(run.last_prices, run.prices[399:599])
    assert torch.equal(run.next_prices, run.prices[400:])
    last, of_prices, of_changes = (
        F.mse_loss(each, run.next_prices).sqrt().item()
        for each in run.forecasts.values()
    )
    assert [*run.misses.values()] == pytest.approx(
        [last, of_prices, of_changes]
    )
    lag, right = (
        torch.corrcoef(torch.stack([run.from_prices, each]))[0, 1].item()
        for each in (run.last_prices, run.next_prices)
    )
    assert (run.with_last, run.with_next) == pytest.approx((lag, right))
    assert lag > right
    assert of_prices > last
    assert of_changes < 0.9 * last


@pytest.mark.parametrize("seed", [0, 2], ids="seed {}".format)
def test_a_forecast_must_beat_the_last_value__also_from(snippet, seed):
    edited = snippet.edit("seed(1)\nmoves", f"seed({seed})\nmoves")
    edited = edited.edit("forecast(prices)\n", f"forecast(prices, {seed})\n")
    test_a_forecast_must_beat_the_last_value(edited)


def test_a_forecast_must_beat_the_last_value__also_blind_to_the_future(
    snippet,
):
    run = without_names(snippet, "series")
    changed = run.prices.clone()
    changed[500:] += 100
    found, again = run.forecast(run.prices), run.forecast(changed)
    close(again[:101], found[:101], atol=1e-3)  # up to the 500th price
    assert (again[101] - found[101]).abs() > 1


def forecaster(run, pieces):
    """Return a model that has learned the number after the first ten."""
    torch.manual_seed(0)
    model = run.Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(60):
        x, y = pieces[:-200, :10], pieces[:-200, 10]
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def forecast_steps(model, pieces, count, append):
    """Forecast the last 200 numbers, some steps ahead of the ten given.

    `append(forecasts)` is what the model reads after these forecasts.
    """
    read, made = pieces[-200:, :10], []
    with torch.no_grad():
        for _ in range(count):
            made.append(model(read[:, -10:]))
            read = torch.cat([read, append(made)[:, None]], dim=1)
    return torch.stack(made, dim=1)


def test_a_forecast_must_beat_the_last_value__also_in_three_steps(snippet):
    run = without_names(snippet, "series", "forecasts")
    last_prices, next_prices = run.prices[-203:-3], run.prices[-200:]
    changes = run.prices.diff()
    mean, std = changes[:-200].mean(), changes[:-200].std()
    pieces = ((changes - mean) / std).unfold(0, 13, 1)
    model = forecaster(run, pieces)

    def miss_of(append):
        made = forecast_steps(model, pieces, 3, append) * std + mean
        return F.mse_loss(last_prices + made.sum(dim=1), next_prices)

    def append_prices(made):
        price = last_prices + sum(made) * std + mean * len(made)
        return (price - mean) / std

    last = F.mse_loss(last_prices, next_prices)
    assert miss_of(lambda made: made[-1]) < 0.9 * last
    assert miss_of(append_prices) > last


@edits(
    ("no training", "for _ in range(60):", "for _ in range(0):"),
    ("prices alone", "last_prices + forecast(prices.diff())", "from_prices"),
    (
        "changes alone",
        "from_prices = forecast(prices)",
        "from_prices = last_prices + forecast(prices.diff())",
    ),
)
def test_a_forecast_must_beat_the_last_value__but_not_with(
    snippet, old, new, fails
):
    """Prices alone are worse, changes alone better, and nothing is better
    without training.
    """
    fails(test_a_forecast_must_beat_the_last_value, snippet.edit(old, new))


def test_a_forecast_must_beat_the_last_value__ends_in_a_random_walk(
    snippet, fails
):
    """If no change depends on those before, nothing beats the last price."""
    edited = snippet.edit("0.7 * moves[day - 1]", "0.0 * moves[day - 1]")
    fails(test_a_forecast_must_beat_the_last_value, edited)


def test_a_forecast_must_beat_the_last_value__ends_if_prices_come_back(
    snippet, fails
):
    """If prices keep coming back to their mean, those of the last 200 days
    are like those before, and the LSTM fed with prices is better.
    """
    edited = snippet.edit("moves.cumsum(dim=0)", "moves")
    fails(test_a_forecast_must_beat_the_last_value, edited)


def test_both_directions_read_the_target(snippet):
    run = without_names(snippet, "reads-ahead")
    assert run.both_ways.shape == (5,)
    assert run.both_ways[:-1].max() < 0.1
    assert 0.7 < run.both_ways[-1] < 1.4
    assert 0.7 < run.one_way.min() < run.one_way.max() < 1.4


FEWER_STEPS = ("range(120)", "range(60)")


def test_both_directions_read_the_target__also_from_seed_1(snippet):
    old = "bidirectional, seed=0)"
    edited = snippet.edit(*FEWER_STEPS).edit(old, old.replace("0", "1"))
    test_both_directions_read_the_target(edited)


@pytest.mark.parametrize("kind", ["GRU", "RNN"])
def test_both_directions_read_the_target__also_with(snippet, kind):
    old = "nn.LSTM(1, 16, batch_first=True, bi"
    edited = snippet.edit(*FEWER_STEPS).edit(old, old.replace("LSTM", kind))
    test_both_directions_read_the_target(edited)


def test_both_directions_read_the_target__also_behind_another(snippet):
    old = "16, batch_first=True, bidirectional=bidirectional"
    edited = snippet.edit(*FEWER_STEPS).edit(old, old.replace("16", "16, 2"))
    test_both_directions_read_the_target(edited)


@edits(
    ("one direction", "= miss_noise(True), ", "= miss_noise(False), "),
    ("two directions", "miss_noise(False)\n", "miss_noise(True)\n"),
)
def test_both_directions_read_the_target__but_not(snippet, old, new, fails):
    """One direction misses by 1 everywhere, and two do so at the end alone."""
    fails(test_both_directions_read_the_target, snippet.edit(old, new))


def test_both_directions_read_the_target__ends_with_one_answer(snippet, fails):
    """If the loss asks for the last step alone, there is nothing to copy."""
    edited = snippet.edit(
        "head(lstm(noise[:, :-1])[0]), noise[:, 1:]",
        "head(lstm(noise[:, :-1])[0])[:, -1], noise[:, -1]",
    )
    fails(test_both_directions_read_the_target, edited)


def numbers_in(windows):
    """Return the numbers that stand in some windows."""
    return set(windows.flatten().tolist())


def test_cut_before_the_windows(snippet):
    run = without_names(snippet, "windows")
    assert torch.equal(run.windows[7], run.days[7:18])
    for train, valid in (run.drawn, run.cut):
        assert train.shape[1] == valid.shape[1] == 11
        assert len(train) > 3 * len(valid) > 300
        assert numbers_in(train) | numbers_in(valid) == set(range(600))
        known = numbers_in(train)
        seen = [each in known for each in valid.flatten().tolist()]
        share = sum(seen) / len(seen)
        assert run.share_seen(train, valid) == pytest.approx(share)
    assert run.share_seen(*run.drawn) > 0.99
    assert run.share_seen(*run.cut) == 0


@pytest.mark.parametrize(
    "share", [0.1, 0.2, 0.5], ids="{:.0%} held out".format
)
def test_cut_before_the_windows__also_with(snippet, share):
    share_seen = without_names(snippet, "windows").share_seen
    for length in (5, 11, 30):
        for seed in (0, 1):
            torch.manual_seed(seed)
            days = torch.arange(1000)
            windows = days.unfold(0, length, 1)
            order = torch.randperm(len(windows))
            late = order[: int(share * len(windows))]
            early = order[len(late) :]
            assert share_seen(windows[early], windows[late]) > 0.9
            parts = days.split([1000 - int(share * 1000), int(share * 1000)])
            parts = [part.unfold(0, length, 1) for part in parts]
            assert share_seen(*parts) == 0


@edits(
    (
        "a series that is cut first",
        "part[:] for part in random_split(windows, [0.8, 0.2], generator)",
        "each.unfold(0, 11, 1) for each in days.split([480, 120])",
    ),
    (
        "windows that are split in their order",
        "part.unfold(0, 11, 1) for part in days.split([480, 120])",
        "part for part in windows.split([472, 118])",
    ),
)
def test_cut_before_the_windows__but_not_with(snippet, old, new, fails):
    """A cut series shares nothing; windows that were made before the cut share
    the numbers around it.
    """
    fails(test_cut_before_the_windows, snippet.edit(old, new))


def test_cut_before_the_windows__ends_without_overlap(snippet, fails):
    """Windows that begin where the last one ended share nothing."""
    edited = snippet.edit("days.unfold(0, 11, 1)", "days.unfold(0, 11, 11)")
    fails(test_cut_before_the_windows, edited)


def test_cut_before_the_windows__ends_with_short_windows(snippet, fails):
    """Of windows of two numbers, a fifth held out, only five in six numbers
    are in training as well.
    """
    edited = snippet.edit("days.unfold(0, 11, 1)", "days.unfold(0, 2, 1)")
    share = without_names(edited, "windows")
    assert 0.75 < share.share_seen(*share.drawn) < 0.9
    fails(test_cut_before_the_windows, edited)


VIEW = (*NAMES, "cat", "view")


def mixes(h_n):
    """Check which names a row of the view holds."""
    _, batch, size = h_n.shape
    rows = h_n.reshape(batch, 2, size)
    where = torch.arange(batch).expand(2, batch).reshape(batch, 2)
    for row in range(batch):
        first, second = where[row].tolist()
        assert first != second
        for half, name in enumerate((first, second)):
            same = (h_n[:, name] == rows[row, half]).all(dim=1)
            assert same.any()


def constant(run):
    """Return the share of right answers of the best constant answer."""
    return run.kinds[run.valid].bincount().max().item() / len(run.valid)


def test_view_mixes_names(snippet, count=32):
    run = after(snippet, *VIEW)
    for make_model in (run.WithCat, run.WithView):
        model = make_model()
        _, (h_n, _) = model.lstm(model.embedding(run.starts[:count]))
        mixes(h_n)
        joined = torch.cat([h_n[0], h_n[1]], dim=1)
        if make_model is run.WithView:
            joined = h_n.reshape(count, 64)
        close(model(run.starts[:count]), model.head(joined))

    run = after(snippet, *VIEW, "view-learned")
    assert run.right_answers(run.with_cat) > 0.75
    assert run.right_answers(run.with_view) < constant(run) + 0.05


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_view_mixes_names__also_from(snippet, seed):
    run = after(snippet, *VIEW)
    found = run.right_answers(run.fit(run.WithView, seed))
    assert found < constant(run) + 0.05


@pytest.mark.parametrize("batch", [2, 3, 5, 31], ids="{} names".format)
def test_view_mixes_names__also_in_a_batch_of(batch):
    lstm = nn.LSTM(3, 5, batch_first=True, bidirectional=True)
    mixes(lstm(torch.randn(batch, 7, 3))[1][0])


@edits(
    ("h_n.view(len(batch), 64)", "h_n.transpose(0, 1).flatten(1)"),
    ("h_n.view(len(batch), 64)", "torch.cat([*h_n], dim=1)"),
)
def test_view_mixes_names__but_not(snippet, old, new, fails):
    """Here both halves of a row are of one name."""
    fails(test_view_mixes_names, snippet.edit(old, new))


def test_view_mixes_names__but_not_without_training(snippet, fails):
    """Without training, no model knows the kinds."""
    old = "for _ in range(4):"
    fails(test_view_mixes_names, snippet.edit(old, "for _ in range(0):"))


def test_view_mixes_names__ends_with_a_batch_of_one(snippet, fails):
    """With one name in the batch, there is nothing to mix."""
    fails(test_view_mixes_names, snippet, 1)


def changed_places(conv, x, axes):
    """Return where a convolution notices a change of the first letter."""
    moved = x.clone()
    moved[:, 0] += 1
    change = conv(moved.permute(axes)) - conv(x.permute(axes))
    return (change.abs() > 1e-6).any(dim=1).int().tolist()


def test_conv1d_takes_letters_for_channels(snippet):
    run = untrained(snippet, "error-of", "convolution")

    x = run.embedded.detach()
    assert x.shape == (5, 8, 8)
    close(x, run.model.embedding(run.starts[:5]))
    close(run.over_letters, run.conv(x.mT))
    close(run.over_numbers, run.conv(x))
    assert run.over_letters.shape == run.over_numbers.shape == (5, 32, 6)
    assert changed_places(run.conv, x, (0, 2, 1)) == [[1, 0, 0, 0, 0, 0]] * 5
    assert changed_places(run.conv, x, (0, 1, 2)) == [[1] * 6] * 5
    assert "Given groups=1" in run.other_length
    assert "to have 8 channels, but got 7 channels instead" in run.other_length


@pytest.mark.parametrize("kernel_size", [1, 3, 5], ids="a kernel of {}".format)
def test_conv1d_takes_letters_for_channels__also_with(kernel_size):
    torch.manual_seed(0)
    for size in (6, 16):
        conv = nn.Conv1d(size, 4, kernel_size, padding="same")
        x, moved = torch.randn(2, 2, size, size)
        moved = x.clone()
        moved[:, 0] += 1
        wrong = (conv(moved) - conv(x)).abs().amax(dim=1)
        right = (conv(moved.mT) - conv(x.mT)).abs().amax(dim=1)
        assert (wrong > 1e-6).all()
        assert (right[:, kernel_size:] < 1e-6).all()
        assert "Given groups=1" in error_of(conv, x[:, 1:])


@edits(
    ("transposed", "conv(embedded)  # wrong", "conv(embedded.mT)"),
    ("embedded[:, :7]", "embedded[:3]"),
)
def test_conv1d_takes_letters_for_channels__but_not(snippet, old, new, fails):
    """The axes are in their order, or the letters as many as the channels."""
    fails(test_conv1d_takes_letters_for_channels, snippet.edit(old, new))


CARRIED = ("names", "stream", "carry", "error-of", "two-axes", "carried")
AGAIN = "Trying to backward through the graph a second time"


def test_both_parts_need_detach(snippet, layer=None):
    run = after(snippet, *CARRIED)
    layer = layer or run.lstm

    assert run.error_of(run.carry, run.detach, layer) == "no error"
    for kept in (0, 1):

        def detach_one(state, kept=kept):
            parts = [part.detach() for part in state]
            parts[kept] = state[kept]
            return tuple(parts)

        assert AGAIN in run.error_of(run.carry, detach_one, layer)
    assert AGAIN in run.error_of(run.carry, lambda state: state, layer)
    said = run.error_of(run.carry, lambda state: state.detach(), layer)
    assert "'tuple' object has no attribute 'detach'" in said


def test_both_parts_need_detach__also_with_two_layers(snippet):
    layer = nn.LSTM(8, 32, 2, batch_first=True)
    test_both_parts_need_detach(snippet, layer)


@edits(
    ("a state of the loop's own", "state = detach(state)", "state = None"),
    ("no backward", "output.sum().backward()", "output.sum()"),
)
def test_both_parts_need_detach__but_not_with(snippet, old, new, fails):
    """If no chunk leads back to another, there is nothing to detach."""
    fails(test_both_parts_need_detach, snippet.edit(old, new))


def test_both_parts_need_detach__ends_with_a_gru(snippet, fails):
    """The state of a GRU or RNN is one tensor: `state.detach()` is enough."""
    run = after(snippet, *CARRIED)
    for kind in (nn.GRU, nn.RNN):
        layer = kind(8, 32, batch_first=True)
        detached = run.error_of(run.carry, lambda state: state.detach(), layer)
        assert detached == "no error"
    fails(test_both_parts_need_detach, snippet, layer)


MISFIT = ("error-of", "two-axes", "misfits")
MISFITS = {
    "9 features": "input_size. Expected 8, got 9",
    "four axes": "Expected input to be 2D or 3D, got 4D",
    "a state of 32 names": "(1, 4, 32), got [1, 32, 32]",
    "letters, not embedded": "torch.int64",
}


def test_misfits_raise(snippet):
    run = without_names(snippet, *MISFIT)

    assert run.x.shape == (4, 7, 8)
    for what, said in MISFITS.items():
        assert said in run.error_of(run.lstm, *run.misfits[what])
    assert run.error_of(run.lstm, run.x) == "no error"


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
def test_misfits_raise__also_of(snippet, kind):
    run = without_names(snippet, *MISFIT)
    layer = kind(8, 32, batch_first=True)
    for what, said in MISFITS.items():
        x, *state = run.misfits[what]
        if state and kind is not nn.LSTM:
            state = [state[0][0]]
        assert said in run.error_of(layer, x, *state)


def test_misfits_raise__also_after_the_advice_to_convert_the_model():
    with pytest.raises(TypeError, match="only accepts floating point"):
        nn.LSTM(8, 32).to(torch.int64)


@edits(
    ("torch.rand(4, 7, 9)", "torch.rand(4, 7, 8)"),
    ("(x[None],)", "(x[0],)"),
    ("(x, state)", "(torch.rand(32, 7, 8), state)"),
    ("5]]),)", "5]]).repeat(8, 1).T.float(),)"),
)
def test_misfits_raise__but_not(snippet, old, new, fails):
    """These fit."""
    fails(test_misfits_raise, snippet.edit(old, new))


def test_sequential_passes_the_tuple(snippet):
    run = without_names(snippet, *MISFIT, "sequential")

    assert "must be Tensor, not tuple" in run.in_sequence
    assert run.in_sequence.startswith("TypeError: linear()")
    handed = []
    run.stack[1].register_forward_pre_hook(
        lambda _, inputs: handed.append(type(inputs[0]))
    )
    run.error_of(run.stack, run.x)
    assert handed == [tuple]


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
def test_sequential_passes_the_tuple__also_of(kind):
    stack = nn.Sequential(kind(8, 32), nn.Linear(32, 3))
    with pytest.raises(TypeError, match="must be Tensor, not tuple"):
        stack(torch.rand(4, 7, 8))


def test_sequential_passes_the_tuple__but_not_of_a_linear_layer(
    snippet, fails
):
    """It returns a tensor."""
    edited = snippet.edit(
        "nn.Sequential(lstm, nn.Linear(32, 3))",
        "nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 3))",
    )
    fails(test_sequential_passes_the_tuple, edited)


def test_dropout_needs_two_layers(snippet):
    run = without_names(snippet, *MISFIT, "dropout")

    said = "dropout option adds dropout after all but last recurrent layer"
    assert [said in str(each.message) for each in run.caught] == [True]
    assert run.dropped.training
    with torch.no_grad():
        plain = nn.LSTM(8, 32, batch_first=True)
        plain.load_state_dict(run.dropped.state_dict())
        close(run.dropped(run.x)[0], plain(run.x)[0])


@pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
def test_dropout_needs_two_layers__also_of(kind):
    for options in ({}, {"bidirectional": True}):
        with pytest.warns(UserWarning, match="dropout option adds dropout"):
            layer = kind(8, 32, dropout=0.9, **options)
        x = torch.rand(4, 7, 8)
        close(layer(x)[0], layer(x)[0])


def test_dropout_needs_two_layers__but_not_more(snippet, fails):
    """With two layers, the outputs of the first are dropped at random."""
    old = "nn.LSTM(8, 32, batch_first=True, dropout=0.5)"
    edited = snippet.edit(old, old.replace("32,", "32, 2,"))
    fails(test_dropout_needs_two_layers, edited)


# Try it


def test_h_n_has_each_layer__also_in_three_layers(snippet):
    run = without_names(snippet, *MISFIT, "three-layers")
    assert run.h_n.shape == (6, 4, 20)
    holds_each_layer(run.gru, run.x)


def test_the_state_continues__also_in_nine_chunks(snippet):
    cells = ("two-axes", "read-in-chunks", "read-in-chunks-checked")
    run = without_names(snippet, *cells)
    assert len(run.chunks) == 9
    close(run.read_parts, run.read_whole)


@each("dtype", DTYPES, "float64")
def test_output_has_each_step__also_in(dtype):
    layer = nn.LSTM(3, 5, 2, batch_first=True).to(dtype)
    holds_each_step(layer, torch.randn(4, 7, 3, dtype=dtype))
