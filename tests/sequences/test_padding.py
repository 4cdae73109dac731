"""The claims of docs/sequences/padding.md."""

import math
from collections import Counter
from itertools import islice

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
)
from torch.utils._python_dispatch import TorchDispatchMode

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after as once
from tests.helpers.programs import after
from tests.helpers.worlds import each

LAYERS = {
    "a GRU": lambda: nn.GRU(16, 32, batch_first=True),
    "an RNN": lambda: nn.RNN(16, 32, batch_first=True),
    "two layers": lambda: nn.LSTM(16, 32, 2, batch_first=True),
    "float64": lambda: nn.LSTM(16, 32, batch_first=True).double(),
}
TWO_WAYS = {
    "an LSTM": lambda: nn.LSTM(16, 32, batch_first=True, bidirectional=True),
    "a GRU": lambda: nn.GRU(16, 32, batch_first=True, bidirectional=True),
    "an RNN": lambda: nn.RNN(16, 32, batch_first=True, bidirectional=True),
    "two layers": lambda: nn.LSTM(
        16, 32, 2, batch_first=True, bidirectional=True
    ),
}
BASICS = ("names", "three", "do-this")


def after_three(snippet, *cells):
    """Run the basic cells and these, without most of the names.

    Two modules have those that the tests need, and are read in no time.
    """
    modules = snippet.cell("names").source.split('"""')[1]
    return after(snippet.edit(modules, "math string"), *BASICS, *cells)


def caught_in(snippet, name):
    """Return the error that a cell catches and prints, or nothing.

    Nothing is trained for that.
    """
    cell = snippet.cell(name)
    source = cell.source.replace("    print(error)", "    caught = error")
    run = after_three(snippet.edit(cell.source, source), name)
    return getattr(run, "caught", None)


def close(found, expected):
    """Compare up to the rounding of float32."""
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def final(state):
    """Return h_n of what a layer returns second."""
    return state[0] if isinstance(state, tuple) else state


def embedded(run, layer, words):
    """Return the embeddings of words, in the dtype of a layer."""
    return run.embedding(words).to(next(layer.parameters()).dtype)


def read_alone(run, layer, words):
    """Return what a layer gives at the end of each word, read by itself."""
    rows = [layer(embedded(run, layer, word[None]))[0] for word in words]
    return torch.stack([row[0, -1] for row in rows])


def in_a_batch(run, layer, words, padding=0):
    """Return the padded embeddings of words, and their lengths."""
    batch = pad_sequence(words, batch_first=True, padding_value=padding)
    lengths = torch.tensor([len(word) for word in words])
    return embedded(run, layer, batch), lengths


# Do this


def test_the_last_letter_is_at_length_minus_one(
    snippet, build=None, words=None, padding=0
):
    run = after_three(snippet)
    layer = run.lstm if build is None else build()
    words = words or run.three
    last = run.last
    if build is not None or len(words) > 3 or padding:
        batch, lengths = in_a_batch(run, layer, words, padding)
        last = layer(batch)[0][torch.arange(len(words)), lengths - 1]
    close(last, read_alone(run, layer, words))


@each("build", LAYERS)
def test_the_last_letter_is_at_length_minus_one__also_with(snippet, build):
    test_the_last_letter_is_at_length_minus_one(snippet, build)


def test_the_last_letter_is_at_length_minus_one__also_for_many_names(snippet):
    words = after(snippet, *BASICS).words[::50]
    test_the_last_letter_is_at_length_minus_one(snippet, words=words)


def test_the_last_letter_is_at_length_minus_one__also_if_padded_with_63(
    snippet,
):
    test_the_last_letter_is_at_length_minus_one(snippet, padding=63)


@edits(
    ("output[torch.arange(len(batch)), lengths - 1]", "output[:, -1]"),
    (
        "(len(batch)), lengths - 1]\n\nprint",
        "(len(batch)), lengths - 2]\n\nprint",
    ),
    ("\nlstm = nn.LSTM(16, 32, batch_first=True)", "\nlstm = nn.LSTM(16, 32)"),
)
def test_the_last_letter_is_at_length_minus_one__but_not_with(
    snippet, old, new, fails
):
    """Another step was read, or the names were mixed."""
    fails(test_the_last_letter_is_at_length_minus_one, snippet.edit(old, new))


@each("build", TWO_WAYS, "an LSTM", "a GRU")
def test_the_last_letter_is_at_length_minus_one__ends_in_two_directions(
    snippet, build, fails
):
    """A bidirectional layer comes from the other end, through the padding.

    Packed, it does not.
    """
    fails(test_the_last_letter_is_at_length_minus_one, snippet, build)


def test_packing_gives_the_same_state(snippet, build=None, words=None):
    run = after_three(snippet, "pack")
    layer = run.lstm if build is None else build()
    words, state = words or run.three, run.state[-1]
    if build is not None or len(words) > 3:
        batch, lengths = in_a_batch(run, layer, words)
        packed = pack_padded_sequence(batch, lengths, True, False)
        state = final(layer(packed)[1])[-1]
    expected = read_alone(run, layer, words)
    assert state.shape == expected.shape
    close(state, expected)


@each("build", LAYERS)
def test_packing_gives_the_same_state__also_with(snippet, build):
    test_packing_gives_the_same_state(snippet, build)


def test_packing_gives_the_same_state__also_for_many_names(snippet):
    words = after(snippet, *BASICS).words[::50]
    test_packing_gives_the_same_state(snippet, words=words)


@edits(
    ("= lstm(packed)\n\nprint", "= lstm(embedding(batch))\n\nprint"),
    ("embedding(batch), lengths, batch", "embedding(batch), [3, 3, 3], batch"),
)
def test_packing_gives_the_same_state__but_not_with_padding(
    snippet, old, new, fails
):
    """If the padding is read as well, it is the state behind that."""
    fails(test_packing_gives_the_same_state, snippet.edit(old, new))


def test_packing_gives_the_same_state__ends_in_two_directions(snippet, fails):
    """Then `state[-1]` is that of the backward direction, `state[-2]` not."""
    fails(test_packing_gives_the_same_state, snippet, TWO_WAYS["an LSTM"])


# How it works


def test_a_mask_compares_with_the_lengths(snippet):
    with no_error():
        run = after_three(snippet, "mask")
    longest = max(map(len, run.three))
    expected = [
        [True] * len(word) + [False] * (longest - len(word))
        for word in run.three
    ]
    assert run.mask.tolist() == expected


@pytest.mark.parametrize(
    "names",
    ['("e", "ascii_letters", "pi", "tau")', '("e",)'],
    ids=["four names", "one name"],
)
def test_a_mask_compares_with_the_lengths__also_for(snippet, names):
    edited = snippet.edit('("pi", "tau", "e")', names)
    test_a_mask_compares_with_the_lengths(edited)


def test_a_mask_compares_with_the_lengths__ends_on_another_device(
    snippet, fails
):
    """If the lengths are on a GPU, the comparison raises an error: pass
    `device=lengths.device` to `torch.arange`.
    """
    old = "mask = torch.arange(batch.shape[1]) < lengths[:, None]"
    edited = snippet.edit(old, old.replace("lengths", 'lengths.to("meta")'))
    fails(test_a_mask_compares_with_the_lengths, edited)
    there = 'torch.arange(batch.shape[1], device="meta")'
    edited = edited.edit("torch.arange(batch.shape[1])", there)
    assert after_three(edited, "mask").mask.is_meta


def test_a_mask_compares_with_the_lengths__but_not_along_the_letters(
    snippet, fails
):
    """Three lengths fit three letters as well as three names."""
    old = "mask = torch.arange(batch.shape[1]) < lengths[:, None]"
    edited = snippet.edit(old, old.replace("[:, None]", ""))
    fails(test_a_mask_compares_with_the_lengths, edited)


def test_a_mask_compares_with_the_lengths__but_not_up_to_the_length(
    snippet, fails
):
    """`<=` counts one step of padding."""
    old = "mask = torch.arange(batch.shape[1]) < lengths[:, None]"
    edited = snippet.edit(old, old.replace("<", "<="))
    fails(test_a_mask_compares_with_the_lengths, edited)


def rows_by_step(words):
    """Return the rows of a packed batch, the longest first, and their counts.

    Words of one length may stand in any order, so each step is sorted.
    """
    longest = max(map(len, words))
    steps = [
        sorted(int(word[step]) for word in words if len(word) > step)
        for step in range(longest)
    ]
    return steps, [len(step) for step in steps]


def test_packed_rows_go_step_by_step(snippet):
    run = after_three(snippet, "by-hand")
    packed = "".join(run.letters[number - 1] for number in run.rows.data)
    assert packed == "tpeaiu"
    assert run.rows.batch_sizes.tolist() == [3, 2, 1]
    assert run.rows.unsorted_indices.tolist() == [1, 0, 2]


def test_packed_rows_go_step_by_step__also_for_many_names(snippet):
    words = after(snippet, *BASICS).words[::50]
    packed = pack_sequence(words, enforce_sorted=False)
    steps, counts = rows_by_step(words)
    assert packed.batch_sizes.tolist() == counts
    found = packed.data.split(counts)
    assert [sorted(step.tolist()) for step in found] == steps
    order = packed.sorted_indices
    fall = [len(words[place]) for place in order]
    assert fall == sorted(fall, reverse=True)


def test_packed_rows_go_step_by_step__but_not_with_one_length(snippet, fails):
    """If all lengths are 3, the padding is packed as well."""
    old = (
        "    batch, lengths, batch_first=True, enforce_sorted=False\n)\n\npri"
    )
    new = old.replace("lengths", "[3, 3, 3]")
    fails(test_packed_rows_go_step_by_step, snippet.edit(old, new))


class MatrixProducts(TorchDispatchMode):
    """Counts the matrix products."""

    def __init__(self):
        super().__init__()
        self.counted = Counter()

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        """Count one call."""
        self.counted["mm" in str(call)] += 1
        return call(*args, **(kwargs or {}))


def steps_of(layer, inputs):
    """Count the steps of a layer by their matrix products."""
    with MatrixProducts() as products:
        layer(inputs)
    return products.counted[True] - 1  # one is for all inputs


def test_packing_saves_products(snippet, kind=nn.LSTM, words=None, wider=0):
    run = after_three(snippet, "pack", "products")
    packed = run.packed.to(torch.float64)
    assert steps_of(run.in_float64, packed) == max(map(len, run.three))
    per_row = 4 * 32 * (16 + 32)
    padded, packed = run.padded_products, run.packed_products
    assert (padded, packed) == (9 * per_row, 6 * per_row)

    words = words or run.three
    layer = kind(16, 32, batch_first=True).double()
    batch, lengths = in_a_batch(run, layer, words)
    batch = F.pad(batch, (0, 0, 0, wider))
    shorter = pack_padded_sequence(batch, lengths, True, False)
    letters, places = lengths.sum().item(), math.prod(batch.shape[:2])
    products = run.products
    assert (
        products(layer, batch) * letters == products(layer, shorter) * places
    )
    assert steps_of(layer, batch) == lengths.max() + wider
    assert steps_of(layer, shorter) == lengths.max()


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_packing_saves_products__also_with(snippet, kind):
    test_packing_saves_products(snippet, kind)


def test_packing_saves_products__also_for_many_names(snippet):
    words = after(snippet, *BASICS).words[::50]
    test_packing_saves_products(snippet, words=words)


def test_packing_saves_products__also_in_a_wider_batch(snippet):
    test_packing_saves_products(snippet, wider=45)


@edits(
    (
        "in_float64, packed.to(torch.float64)",
        "in_float64, embedding(batch).double()",
    ),
    ("embedding(batch), lengths, batch", "embedding(batch), [3, 3, 3], batch"),
)
def test_packing_saves_products__but_not_with_padding(
    snippet, old, new, fails
):
    """If the padding is read as well, nothing is saved."""
    fails(test_packing_saves_products, snippet.edit(old, new))


def test_packing_saves_products__but_not_of_names_that_are_cut(snippet, fails):
    """The longest name is cut to two letters, and takes two steps."""
    old = "embedding(batch), lengths, batch"
    edited = snippet.edit(old, old.replace("lengths", "lengths.clamp(max=2)"))
    fails(test_packing_saves_products, edited)


def test_unpacking_restores_the_order(snippet):
    run = after_three(snippet, "pack", "mask", "unpack")
    assert run.their_lengths.tolist() == [2, 3, 1]
    assert run.unpacked.shape == (3, 3, 32)
    close(run.unpacked, run.output * run.mask[..., None])


@pytest.mark.parametrize("value", [7.0, -math.inf], ids="{}".format)
def test_unpacking_restores_the_order__also_with_padding_value(snippet, value):
    run = after_three(snippet, "pack", "mask")
    output = run.lstm(run.packed)[0]
    found, _ = pad_packed_sequence(output, True, padding_value=value)
    close(found[run.mask], run.output[run.mask])
    assert (found[~run.mask] == value).all()


def test_unpacking_restores_the_order__also_with_total_length(snippet):
    run = after_three(snippet, "pack", "mask")
    output = run.lstm(run.packed)[0]
    found, _ = pad_packed_sequence(output, True, total_length=5)
    expected = F.pad(run.output * run.mask[..., None], (0, 0, 0, 2))
    close(found, expected)


@edits(
    (
        "pad_packed_sequence(packed_output, batch_first=True)",
        "pad_packed_sequence(packed_output)",
    ),
    (
        "in the order of the lengths",
        "packed_output, _ = lstm(packed)\n",
        "longest = pack_padded_sequence(embedding(batch[[1, 0, 2]]), "
        "[3, 2, 1], True)\npacked_output, _ = lstm(longest)\n",
    ),
)
def test_unpacking_restores_the_order__but_not(snippet, old, new, fails):
    """Then names are columns, or the longest stays in front."""
    fails(test_unpacking_restores_the_order, snippet.edit(old, new))


def test_unpacking_restores_the_order__ends_at_the_longest(snippet, fails):
    """A batch padded further comes back shorter, without `total_length`."""
    old = "batch = pad_sequence(three, batch_first=True)"
    edited = snippet.edit(old, f"batch = F.pad({old[8:]}, (0, 2))")
    fails(test_unpacking_restores_the_order, edited)


def test_unpacked_it_ends_at_the_longest(snippet, more=2, kind=nn.LSTM):
    run = after_three(snippet, "pack", "unpack", "total-length")
    assert run.wide.shape == (3, 5, 16)
    assert run.short.shape == (3, 3, 16)
    assert run.full.shape == (3, 5, 16)
    close(run.full[:, :3], run.short)
    assert not run.full[:, 3:].any()

    width = 3 + more
    layer = kind(16, 8, batch_first=True, bidirectional=True)
    embedded = F.pad(run.embedding(run.batch), (0, 0, 0, more))
    packed = pack_padded_sequence(embedded, run.lengths, True, False)
    output = layer(packed)[0]
    assert pad_packed_sequence(output, True)[0].shape == (3, 3, 16)
    found, _ = pad_packed_sequence(output, True, total_length=width)
    assert found.shape == (3, width, 16)
    with pytest.raises(ValueError, match="total_length to be at least"):
        pad_packed_sequence(output, True, total_length=2)
    by_time, _ = pad_packed_sequence(output, total_length=width)
    assert torch.equal(by_time, found.transpose(0, 1))


@pytest.mark.parametrize("more", [1, 20], ids="{} more steps".format)
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU], ids=["RNN", "GRU"])
def test_unpacked_it_ends_at_the_longest__also_with(snippet, more, kind):
    test_unpacked_it_ends_at_the_longest(snippet, more, kind)


@edits(
    (
        "with total_length",
        "(packed_wide, batch_first=True)",
        "(packed_wide, True, total_length=5)",
    ),
    ("without it", ", total_length=5)", ")"),
    ("no wider batch", "(0, 0, 0, 2))  # 5", "(0, 0, 0, 0))  # 5"),
)
def test_unpacked_it_ends_at_the_longest__but_not(snippet, old, new, fails):
    """Both get the width, or neither does."""
    fails(test_unpacked_it_ends_at_the_longest, snippet.edit(old, new))


# What goes wrong

TRAINED = (*BASICS, "readings", "train")
RIGHT_WAYS = ("at_the_last_letter", "mean_of_letters")
FIRST = frozenset({0})  # not plain, so nothing is trained for its output


def share_right(answers, labels):
    """Return the share of right answers."""
    return (answers == labels).float().mean().item()


def compared(snippet):
    """Return what the program itself has trained, once for all tests."""
    return once(snippet, *TRAINED, "compare").results


def test_the_last_step_is_padding(snippet, seeds=()):
    results = [] if seeds else compared(snippet)[:1]
    for seed in seeds:
        run = after(snippet, *TRAINED)
        width = max(map(len, run.words))
        results.append(run.train(run.at_the_last_step, width, seed))
    for answers, labels in results:
        given = answers.unique().tolist()
        assert given == [labels.mode().values]


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_the_last_step_is_padding__also_from(snippet, seed):
    test_the_last_step_is_padding(snippet, {seed})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "(16, 32, batch_first=True)\n        self.linear",
            "(16, 32, 2, batch_first=True)\n        self.linear",
        ),
        (
            "Linear(32, 3)",
            "Linear(32, 3)\n        self.lstm.bias_ih_l0.data[32:64] = 1",
        ),
    ],
    ids=["two layers", "a forget bias of 1"],
)
def test_the_last_step_is_padding__also_with(snippet, old, new):
    test_the_last_step_is_padding(snippet.edit(old, new), FIRST)


def test_the_last_step_is_padding__ends_with_a_gru(snippet, fails):
    """A GRU still learns something here."""
    old = "        self.lstm = nn.LSTM("
    edited = snippet.edit(old, f"{old[:-5]}GRU(")
    fails(test_the_last_step_is_padding, edited, FIRST)


@edits(
    (
        "at the last letter",
        "return output[:, -1]",
        "return at_the_last_letter(output, lengths)",
    ),
    (
        "padded batch by batch",
        "all_names[part, :width], all",
        "all_names[part, : all_lengths[part].max()], all",
    ),
)
def test_the_last_step_is_padding__but_not(snippet, old, new, fails):
    """A step with fewer steps of padding before it, or none, was read."""
    fails(test_the_last_step_is_padding, snippet.edit(old, new), FIRST)


def test_padded_by_batch_it_learns_slowly(snippet, seeds=(), names=RIGHT_WAYS):
    if seeds:
        run = after(snippet, *TRAINED)
        (seed,) = seeds
        results = (
            run.train(vars(run)[name], None, seed)
            for name in (*names, "at_the_last_step")
        )
    else:
        _, *results = compared(snippet)
        results = reversed(results)
    least = 1
    for answers, labels in islice(results, len(names)):
        share = share_right(answers, labels)
        assert share > 0.8
        least = min(least, share)
    (answers, labels) = next(results)
    largest = share_right(labels.mode().values, labels)
    share = share_right(answers, labels)
    assert largest + 0.05 < share < least - 0.02


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_padded_by_batch_it_learns_slowly__also_from(snippet, seed):
    test_padded_by_batch_it_learns_slowly(snippet, {seed}, RIGHT_WAYS[:1])


@edits(
    (
        "at the last letter",
        "return output[:, -1]",
        "return at_the_last_letter(output, lengths)",
    ),
    (
        "at the last step twice",
        "return output[torch.arange(len(output)), lengths - 1]",
        "return output[:, -1]",
    ),
)
def test_padded_by_batch_it_learns_slowly__but_not(snippet, old, new, fails):
    """Then two ways read the same step."""
    edited = snippet.edit(old, new)
    fails(test_padded_by_batch_it_learns_slowly, edited, FIRST, RIGHT_WAYS[:1])


def test_padded_by_batch_it_learns_slowly__but_not_in_the_mean(snippet, fails):
    """Then the mean is over nothing but padding, for most names."""
    old = "return (output * mask[..., None]).sum(dim=1)"
    edited = snippet.edit(old, "return output[:, -9:].sum(dim=1)")
    fails(test_padded_by_batch_it_learns_slowly, edited, FIRST, RIGHT_WAYS[1:])


def test_padding_wears_names_off(snippet, build=None, seed=0):
    if build is None:
        closer = after(snippet, *TRAINED, "wear").closer
    else:
        run = after(snippet, *TRAINED)
        torch.manual_seed(seed)
        embedding, layer = nn.Embedding(64, 16), build()
        words = [F.pad(word, (0, 10)) for word in run.words[::10]]
        lengths = run.all_lengths[::10]
        with torch.no_grad():
            batch = pad_sequence(words, batch_first=True)
            states, _ = layer(embedding(batch))
        each = torch.arange(len(words))
        ends = states[each, lengths - 1], states[each, lengths + 9]
        first, last = (end.std(dim=0).mean() for end in ends)
        closer = {10: first / last}
    assert closer[10] > 10


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
@pytest.mark.parametrize("size", [8, 128], ids="{} features".format)
def test_padding_wears_names_off__also_from(snippet, seed, size):
    test_padding_wears_names_off(
        snippet, lambda: nn.LSTM(16, size, batch_first=True), seed
    )


@each("build", LAYERS, "a GRU", "an RNN", "two layers")
def test_padding_wears_names_off__also_for(snippet, build):
    test_padding_wears_names_off(snippet, build)


def test_padding_wears_names_off__but_not_with_an_open_forget_gate(
    snippet, fails
):
    """With a bias of 5, the forget gate keeps nearly all of the state."""
    old = "\nlstm = nn.LSTM(16, 32, batch_first=True)\n"
    new = f"{old}lstm.bias_ih_l0.data[32:64] = 5\n"
    fails(test_padding_wears_names_off, snippet.edit(old, new))


MOVED = ("readings", "neighbors", "left")


def test_neighbors_change_the_last_step(snippet):
    run = after_three(snippet, *MOVED)
    moved = run.moved
    first = run.three[0].tolist()
    assert run.at_the_front[0].tolist() == [*[0] * (3 - len(first)), *first]
    assert moved["at_the_last_step"] > 0.01
    assert moved["left"] > 0.01
    assert moved["at_the_last_letter"] < 1e-6
    assert moved["mean_of_letters"] < 1e-6


def test_neighbors_change_the_last_step__ends_for_the_longest_name(
    snippet, fails
):
    """For the longest name of a batch, which has no padding: its vector is the
    same, so compare a short one.
    """
    edited = snippet.edit('"pi", "tau", "e"', '"tau", "pi", "e"')
    fails(test_neighbors_change_the_last_step, edited)


def test_neighbors_change_the_last_step__also_on_another_device(snippet):
    run = after_three(snippet, "readings")
    elsewhere = torch.rand(2, 5, 3, device="meta")
    lengths = torch.tensor([2, 5])  # where packing wants them
    for reading in (run.at_the_last_letter, run.mean_of_letters):
        found = reading(elsewhere, lengths)
        assert (found.device.type, found.shape) == ("meta", (2, 3))


@each("build", LAYERS)
def test_neighbors_change_the_last_step__also_with(snippet, build):
    run = after_three(snippet, *MOVED)
    torch.manual_seed(1)
    layer = build()
    inputs = run.three[0][None], run.batch, run.at_the_front
    alone, beside, left = (
        layer(embedded(run, layer, words))[0] for words in inputs
    )
    for reading in (run.at_the_last_letter, run.mean_of_letters):
        close(
            reading(beside, run.lengths)[0], reading(alone, run.lengths[:1])[0]
        )
    for output in (beside, left):
        assert (output[0, -1] - alone[0, -1]).abs().max() > 1e-3


@edits(
    (
        "at the last letter",
        "return output[:, -1]",
        "return at_the_last_letter(output, lengths)",
    ),
    (
        "the padding cut off",
        "embedding(at_the_front))[0]",
        "embedding(at_the_front[:, 1:]))[0]",
    ),
    (
        "all steps in the mean",
        "return (output * mask[..., None]).sum(dim=1)",
        "return output.sum(dim=1)",
    ),
    (
        "one step too late",
        "return output[torch.arange(len(output)), lengths - 1]",
        "return output[:, -1]",
    ),
)
def test_neighbors_change_the_last_step__but_not_with(
    snippet, old, new, fails
):
    """Without padding, it does not; with it, other readings do as well."""
    fails(test_neighbors_change_the_last_step, snippet.edit(old, new))


def test_the_backward_direction_reads_padding_first(snippet):
    run = after_three(snippet, "pack", "readings", "neighbors", "backward")
    padded, alone = (
        run.both(words)[0][0, 0, 32:] for words in (run.beside, run.alone)
    )
    assert run.moved["padded"] == pytest.approx(
        (padded - alone).abs().max().item(), abs=1e-5
    )
    assert run.moved["padded"] > 0.01
    assert run.moved["packed"] < 1e-6


@each("build", TWO_WAYS)
def test_the_backward_direction_reads_padding_first__also_for(snippet, build):
    run = after_three(snippet, "pack")
    torch.manual_seed(1)
    layer = build()
    alone = final(layer(run.embedding(run.three[0][None]))[1])[-1, 0]
    padded = final(layer(run.embedding(run.batch))[1])[-1, 0]
    packed = final(layer(run.packed)[1])[-1, 0]
    close(packed, alone)
    assert (padded - alone).abs().max() > 0.01


@edits(
    ("no padding", '{"padded": beside,', '{"padded": beside[:, :2],'),
    ("padded twice", '"packed": packed}', '"packed": beside}'),
)
def test_the_backward_direction_reads_padding_first__but_not(
    snippet, old, new, fails
):
    """Without padding, there is none to read; unpacked, there is."""
    edited = snippet.edit(old, new)
    fails(test_the_backward_direction_reads_padding_first, edited)


def test_padding_idx_skips_no_step(snippet, change=None):
    run = after_three(snippet, "padding-idx")
    weight = run.with_padding.weight
    if change is not None:
        weight = change(run).weight
    assert weight[0].abs().sum() == 0
    assert weight.grad[0].abs().sum() == 0
    assert weight.grad[run.three[0]].abs().sum(dim=1).min() > 0
    assert (run.state[-1, 0] - run.read[0, 1]).abs().max() > 0.01


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_padding_idx_skips_no_step__also_after_steps_of(snippet, kind):
    run = after_three(snippet)
    embedding = nn.Embedding(64, 16, padding_idx=0)
    optimizer = kind(embedding.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        run.lstm(embedding(run.batch))[0].sum().backward()
        optimizer.step()
    assert embedding.weight[0].abs().sum() == 0


def used_as_head(run):
    """Return an embedding that is also the weight of the last layer."""
    embedding = nn.Embedding(64, 16, padding_idx=0)
    scores = embedding(run.batch) @ embedding.weight.T
    F.cross_entropy(scores.flatten(0, 1), run.batch.flatten()).backward()
    return embedding


def initialized_again(run):
    """Return an embedding whose weights were drawn anew."""
    embedding = nn.Embedding(64, 16, padding_idx=0)
    nn.init.normal_(embedding.weight)
    embedding(run.batch).sum().backward()
    return embedding


def from_vectors(run):
    """Return an embedding of given vectors."""
    embedding = nn.Embedding.from_pretrained(
        torch.ones(64, 16), freeze=False, padding_idx=0
    )
    embedding(run.batch).sum().backward()
    return embedding


@pytest.mark.parametrize(
    "change",
    [used_as_head, initialized_again, from_vectors],
    ids=["a tied head", "nn.init", "from_pretrained"],
)
def test_padding_idx_skips_no_step__ends_with(snippet, change, fails):
    """A tied head gives the row a gradient; the others fill it."""
    fails(test_padding_idx_skips_no_step, snippet, change)


PACKED = """packed = pack_padded_sequence(
    with_padding(batch), lengths, batch_first=True, enforce_sorted=False
)
read, (state, _) = lstm(packed)
read, _ = nn.utils.rnn.pad_packed_sequence(read, batch_first=True)
"""


@edits(
    ("nn.Embedding(64, 16, padding_idx=0)", "nn.Embedding(64, 16)"),
    ("packed", "read, (state, _) = lstm(with_padding(batch))\n", PACKED),
)
def test_padding_idx_skips_no_step__but_not(snippet, old, new, fails):
    """Without it, the row gets a gradient; packing does skip the steps."""
    fails(test_padding_idx_skips_no_step, snippet.edit(old, new))


def share_of_padding(words, size):
    """Return the share of the padding among the labels of whole batches."""
    torch.manual_seed(0)
    right = count = 0
    for part in torch.randperm(len(words)).split(size):
        targets = pad_sequence([words[place] for place in part])[1:]
        right += (targets == 0).sum().item()
        count += targets.numel()
    return right / count


def test_a_guess_of_padding_looks_right(snippet, size=None):
    if size is not None:
        words = after(snippet, *BASICS).words
        share = share_of_padding(words, size)
        assert share > 0.5
        return
    run = after(snippet, *TRAINED, "guess")
    targets, scores = run.targets, run.scores
    counted, ignored, share = run.counted, run.ignored, run.share_right
    letters = targets > 0
    places = sum(len(word) - 1 for word in run.words)
    assert share > 0.5
    assert counted < math.log(64) < ignored
    assert letters.sum() == places
    assert (scores.argmax(dim=1)[letters] != targets[letters]).all()
    expected = F.cross_entropy(scores[letters], targets[letters])
    close(torch.tensor(ignored), expected)
    right = run.share_of_letters
    assert right == 0


@pytest.mark.parametrize("size", [32, 64])
def test_a_guess_of_padding_looks_right__also_in_batches_of(snippet, size):
    test_a_guess_of_padding_looks_right(snippet, size)


def test_a_guess_of_padding_looks_right__ends_in_batches_of_4(snippet, fails):
    """Small batches hold less padding, and less than half in all."""
    fails(test_a_guess_of_padding_looks_right, snippet, 4)


@edits(
    ("scores[:, 0] = 5", "scores[:, 1] = 5"),
    ("scores, targets, ignore_index=0)", "scores, targets)"),
    ("all_names[:, 1:].flatten()", "torch.cat(words)"),
)
def test_a_guess_of_padding_looks_right__but_not(snippet, old, new, fails):
    """Another letter is the answer, or no padding is counted, or all is."""
    fails(test_a_guess_of_padding_looks_right, snippet.edit(old, new))


def test_divided_by_all_places(snippet):
    run = after_three(snippet, "three-means")
    share = run.real.float().mean()
    assert run.over_letters == 1.5
    assert run.over_all == 1 == run.over_letters * share
    own = run.kept.sum(dim=1) / run.real.sum(dim=1)
    assert own.tolist() == [1, 3]
    assert run.over_names == 2


@pytest.mark.parametrize("count", [2, 32], ids="{} names".format)
def test_divided_by_all_places__also_for_gradients(snippet, count):
    run = after(snippet, *BASICS)
    targets = pad_sequence(run.words[::50][:count], batch_first=True).flatten()
    torch.manual_seed(0)
    scores = torch.randn(len(targets), 64, requires_grad=True)
    options = {"ignore_index": 0, "reduction": "none"}
    F.cross_entropy(scores, targets, **options).mean().backward()
    wrong, scores.grad = scores.grad, None
    F.cross_entropy(scores, targets, ignore_index=0).backward()
    close(wrong, scores.grad * (targets > 0).float().mean())


@edits(
    ("by the letters", "kept.mean()", "kept.sum() / real.sum()"),
    (
        "by all places twice",
        "over_letters = kept.sum() / real.sum()",
        "over_letters = kept.mean()",
    ),
    (
        "by the letters of all names",
        "over_names = (kept.sum(dim=1) / real.sum(dim=1)).mean()",
        "over_names = kept.sum() / real.sum()",
    ),
)
def test_divided_by_all_places__but_not(snippet, old, new, fails):
    """Then two of the three means are the same."""
    fails(test_divided_by_all_places, snippet.edit(old, new))


# Errors


def test_unsorted_lengths_raise(snippet, pack=None):
    run = after_three(snippet)
    if pack is None:
        error = caught_in(snippet, "unsorted")
    else:
        with pytest.raises(RuntimeError) as error:
            pack(run)
        error = error.value
    assert isinstance(error, RuntimeError)
    assert "must be sorted in decreasing order" in str(error)
    packed = pack_padded_sequence(
        run.batch, run.lengths, batch_first=True, enforce_sorted=False
    )
    assert packed.data.numel() == 6


def test_unsorted_lengths_raise__also_in_pack_sequence(snippet):
    test_unsorted_lengths_raise(snippet, lambda run: pack_sequence(run.three))


@edits(
    (
        "    pack_padded_sequence(batch, lengths, batch_first=True)",
        "    pack_padded_sequence(batch, lengths, True, False)",
    ),
    (
        "sorted before",
        "    pack_padded_sequence(batch, lengths, batch_first=True)",
        "    pack_padded_sequence(batch[[1, 0, 2]], [3, 2, 1], True)",
    ),
)
def test_unsorted_lengths_raise__but_not(snippet, old, new, fails):
    """With `enforce_sorted=False`, or with lengths that fall."""
    fails(test_unsorted_lengths_raise, snippet.edit(old, new))


@pytest.mark.simulates("a device")
def test_lengths_stay_on_the_cpu(snippet):
    error = caught_in(snippet, "on-a-device")
    assert isinstance(error, RuntimeError)
    assert "'lengths' argument should be a 1D CPU int64 tensor" in str(error)


@pytest.mark.simulates("a device")
def test_lengths_stay_on_the_cpu__but_not_if_they_are_there(snippet, fails):
    """Only the batch is on the device."""
    edited = snippet.edit('lengths.to("meta")', "lengths")
    fails(test_lengths_stay_on_the_cpu, edited)


def test_lengths_stay_on_the_cpu__ends_with_a_list(snippet, fails):
    """A list of numbers has no device."""
    edited = snippet.edit('lengths.to("meta")', "lengths.tolist()")
    fails(test_lengths_stay_on_the_cpu, edited)


def test_an_empty_sequence_has_no_end(snippet, pack=None):
    run = after_three(snippet, "readings", "empty", "empty-silent")
    assert torch.equal(run.wrong, run.output[2, -1])
    assert run.means.isnan().all()

    error = caught_in(snippet, "empty")
    if pack is not None:
        with pytest.raises(RuntimeError) as error:
            pack(run)
        error = error.value
    assert isinstance(error, RuntimeError)
    assert "Length of all samples has to be greater than 0" in str(error)


def test_an_empty_sequence_has_no_end__also_in_pack_sequence(snippet):
    def pack(run):
        words = [*run.three, torch.empty(0, dtype=torch.int64)]
        pack_sequence(words, enforce_sorted=False)

    test_an_empty_sequence_has_no_end(snippet, pack)


def test_an_empty_sequence_has_no_end__but_not_of_one_letter(snippet, fails):
    """The last name has a letter again."""
    old = "torch.tensor([2, 3, 0])"
    edited = snippet.edit(old, "torch.tensor([2, 3, 1])")
    fails(test_an_empty_sequence_has_no_end, edited)


def without_batch_first(run, count):
    """Pack names with `batch_first=True` missing."""
    return pack_padded_sequence(
        run.embedding(run.batch[:count]),
        run.lengths[:count],
        enforce_sorted=False,
    )


def test_lengths_beyond_the_batch(snippet, build=None, count=0):
    run = after_three(snippet)
    if build is None and not count:
        error = caught_in(snippet, "cut")
    else:
        layer = build() if build else run.lstm
        cut = run.embedding(run.batch[:, :2])
        packed = (
            without_batch_first(run, count)
            if count
            else pack_padded_sequence(cut, run.lengths, True, False)
        )
        with pytest.raises(RuntimeError) as error:
            layer(packed)
        error = error.value
    assert isinstance(error, RuntimeError)
    assert f"exceeds dimension size ({4 if count else 5})" in str(error)


@each("build", LAYERS, "a GRU", "an RNN", "two layers")
def test_lengths_beyond_the_batch__also_with(snippet, build):
    test_lengths_beyond_the_batch(snippet, build)


def test_lengths_beyond_the_batch__also_without_batch_first(snippet):
    test_lengths_beyond_the_batch(snippet, count=2)


def test_lengths_beyond_the_batch__ends_with_as_many_names_as_letters(
    snippet, fails
):
    """Then nothing is raised if `batch_first=True` is missing in packing.

    The rows are those of other names.
    """
    fails(test_lengths_beyond_the_batch, snippet, None, 3)


def test_lengths_beyond_the_batch__but_not_if_cut_as_well(snippet, fails):
    """If the lengths are cut as well, nothing is raised."""
    old = "embedding(batch[:, :2]), lengths, batch"
    edited = snippet.edit(old, old.replace("lengths", "lengths.clamp(max=2)"))
    fails(test_lengths_beyond_the_batch, edited)
