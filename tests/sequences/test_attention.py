"""The claims of docs/sequences/attention.md."""

import math
import platform
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import after, error_of
from tests.helpers.worlds import DTYPES, each

TYPES = ("float64", "float32", "bfloat16", "float16")
START = ("words", "do-this", "by-hand", "one-call", "weights-of", "causal")
MISMATCHED = "Support for mismatched key_padding_mask and attn_mask"


def close(found, expected, dtype=torch.float32):
    """Check that two tensors are equal, up to the rounding of a type."""
    size = {torch.bfloat16: 4e-2, torch.float16: 5e-3}.get(dtype, 1e-5)
    torch.testing.assert_close(
        found.double(), expected.double(), atol=size, rtol=size
    )


def changed(call, inputs, place):
    """Return whether each output moves when the input at a place does."""
    other = inputs.clone()
    other[place] += 1
    moved = (call(inputs) - call(other)).abs().sum(dim=-1) > 1e-6
    return moved.tolist()


# Do this


def test_true_means_the_opposite(snippet):
    run = after(snippet, "words", "do-this")

    def mixed(batch):
        inputs = batch[:, None]
        mask = run.keep[:, None, None]
        found = F.scaled_dot_product_attention(inputs, inputs, inputs, mask)
        return found[:, 0]

    def layer(batch):
        mask = ~run.keep
        return run.layer(batch, batch, batch, key_padding_mask=mask)[0]

    for call in (mixed, layer):
        cats, padding = (1, 0), (1, 2)
        assert changed(call, run.batch, cats)[1] == [True] * 4
        # The padding moves its own row alone, where it is the query.
        assert changed(call, run.batch, padding)[1] == [False, False, True, 0]
    close(run.mixed[:, 0], mixed(run.batch))
    close(run.output, layer(run.batch))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_true_means_the_opposite__also_in_attn_mask(seed, need_weights):
    torch.manual_seed(seed)
    words, out = torch.randn(1, 5, 8), torch.zeros(5, 5, dtype=torch.bool)
    out[:, 2:4] = True
    layer = nn.MultiheadAttention(8, 4, batch_first=True)
    options = {"attn_mask": out, "need_weights": need_weights}

    found, _ = layer(words, words, words, **options)
    rest = words[:, [0, 1, 4]]
    close(found, layer(words, rest, rest)[0])
    heads = words[:, None]
    found = F.scaled_dot_product_attention(heads, heads, heads, ~out)
    rest = heads[:, :, [0, 1, 4]]
    close(found, F.scaled_dot_product_attention(heads, rest, rest))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_true_means_the_opposite__also_in_a_mask_for_each(
    snippet, training, need_weights
):
    run = after(snippet, *START)
    layer, batch = nn.MultiheadAttention(4, 2, batch_first=True), run.batch
    layer.train(training)
    nn.init.eye_(layer.out_proj.weight)
    layer.in_proj_weight.data.copy_(torch.eye(4).repeat(3, 1))
    masks = {"attn_mask": ~run.causal, "key_padding_mask": ~run.keep}

    with torch.no_grad():
        options = {"need_weights": need_weights, **masks}
        found, _ = layer(batch, batch, batch, **options)
    heads = [batch.unflatten(2, (2, 2)).transpose(1, 2)] * 3
    both = run.keep[:, None, None] & run.causal
    expected = F.scaled_dot_product_attention(*heads, both)
    close(found, expected.transpose(1, 2).flatten(2))


@edits(
    (
        "one mask for both",
        "key_padding_mask=~keep)  #",
        "key_padding_mask=keep)  #",
    ),
    (
        "an inverted mask",
        "mask = keep[:, None, None]",
        "mask = ~keep[:, None, None]",
    ),
    ("no mask", ", key_padding_mask=~keep)  #", ")  #"),
)
def test_true_means_the_opposite__but_not_with(snippet, old, new, fails):
    """The output is another one, and no error is raised."""
    fails(test_true_means_the_opposite, snippet.edit(old, new))


# How it works


def by_hand(query, key, value, scale=None):
    """Return the weighted means of the values, by softmax of the scores."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return (query @ key.mT * scale).softmax(dim=-1) @ value


def test_attention_is_three_lines(snippet):
    run = after(snippet, *START[:4])

    powers = torch.tensor([math.e, math.e**2, math.e, 1])
    close(run.scores[1], torch.tensor([1.0, 2, 1, 0]))
    close(run.weights[1], powers / powers.sum())
    close(run.by_hand[1], (powers / powers.sum()) @ run.vectors)
    close(run.by_hand[1, 0], torch.tensor(1.4621))
    close(run.one_call, run.by_hand)
    close(run.sharper, by_hand(*[run.vectors] * 3, scale=1.0))


@each("dtype", DTYPES, *TYPES)
@pytest.mark.parametrize(
    "shape", [(5, 8), (3, 5, 8), (2, 3, 5, 8), (2, 1, 1, 1)], ids=str
)
def test_attention_is_three_lines__also_for(shape, dtype):
    torch.manual_seed(0)
    query, key, value = (torch.randn(shape).to(dtype) for _ in range(3))

    found = F.scaled_dot_product_attention(query, key, value)
    doubled = (each.double() for each in (query, key, value))
    close(found, by_hand(*doubled), dtype)


def test_attention_is_three_lines__also_for_a_query_of_zeros(snippet):
    run = after(snippet, *START, "zero-query")
    close(run.even, torch.full((1, 4), 0.25))


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_attention_is_three_lines__also_with(scale):
    torch.manual_seed(0)
    inputs = [torch.randn(2, 3, 5, 8) for _ in range(3)]

    found = F.scaled_dot_product_attention(*inputs, scale=scale)
    close(found, by_hand(*inputs, scale=scale))


@each("dtype", DTYPES, "float64", "float32")
def test_attention_is_three_lines__also_for_keys_of_another_text(
    snippet, dtype
):
    run = after(snippet, "words", "weights-of")
    torch.manual_seed(1)
    query, key = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 7, 8)
    query, key = query.to(dtype), key.to(dtype)
    value = torch.randn(2, 3, 7, 5).to(dtype)

    found = F.scaled_dot_product_attention(query, key, value)
    close(found, by_hand(query, key, value))
    close(run.weights_of(query, key) @ value, found)


@edits(
    ("scores that are not divided", " / 4**0.5", ""),
    ("softmax over the queries", "softmax(dim=1)", "softmax(dim=0)"),
    ("no softmax", "scores.softmax(dim=1)", "scores"),
    (
        "another scale",
        "vectors, vectors, vectors)",
        "vectors, vectors, vectors, scale=1.0)",
    ),
    ("no scale", ", scale=1.0)", ")"),
    ("a mask", "(vectors, vectors, vectors)", "(*[vectors] * 3, causal)"),
)
def test_attention_is_three_lines__but_not_with(snippet, old, new, fails):
    """Then the three lines and the call compute something else."""
    new = new.replace("causal", "torch.eye(4).bool()")
    fails(test_attention_is_three_lines, snippet.edit(old, new))


def test_causal_hides_the_future(snippet):
    run = after(snippet, *START)

    assert not run.past.triu(diagonal=1).any()
    assert (run.past.tril() == run.past).all()
    assert (run.past.diagonal() > 0).all()
    close(run.past.sum(dim=1), torch.ones(4))
    assert torch.equal(
        run.past,
        run.weights_of(run.vectors, run.vectors, attn_mask=run.causal),
    )


@pytest.mark.parametrize("length", [1, 2, 70])
@pytest.mark.parametrize("axes", [2, 3, 4])
def test_causal_hides_the_future__also_with(length, axes):
    torch.manual_seed(0)
    words = torch.randn(*[1] * (axes - 2), length, 8)

    def call(inputs):
        options = {"is_causal": True}
        return F.scaled_dot_product_attention(*[inputs] * 3, **options)

    for place in {0, length // 2, length - 1}:
        found = changed(call, words, (..., place, slice(None)))
        while axes > 2:
            (found,), axes = found, axes - 1
        axes = words.dim()
        assert not any(found[:place])
        assert all(found[place:])


def test_causal_hides_the_future__also_in_a_mask_of_both(snippet):
    run = after(snippet, *START, "mask-for", "mask-for-checked")
    assert not run.later
    assert not run.padding
    assert not run.missed
    close(run.table[0], run.past)
    elsewhere = run.mask_for(run.lengths.to("meta"), 4)
    assert elsewhere.device.type == "meta"
    assert elsewhere.dtype == torch.bool

    both = "keep[:, None, None] & causal"
    for mask, later, padding in (
        ("causal[None, None].expand(2, 1, 4, 4)", False, True),
        ("keep[:, None, None].expand(2, 1, 4, 4)", True, False),
    ):
        edited = snippet.edit(f"return {both}", f"return {mask}")
        run = after(edited, *START, "mask-for", "mask-for-checked")
        assert (run.later.item(), run.padding.item()) == (later, padding)
    for place in ("0, 0, 3, 0", "1, 0, 3, 1"):  # one pair is hidden
        edited = snippet.edit(
            f"return {both}",
            f"found = {both}\n    found[{place}] = False\n    return found",
        )
        run = after(edited, *START, "mask-for", "mask-for-checked")
        assert not run.later
        assert not run.padding
        assert run.missed


@edits(
    ("no mask", "past = weights_of(vectors, vectors, is_causal=True)",
     "past = weights_of(vectors, vectors)"),
    ("a mask of the future",
     "past = weights_of(vectors, vectors, is_causal=True)",
     "past = weights_of(vectors, vectors, attn_mask=~causal)"),
)  # fmt: skip
def test_causal_hides_the_future__but_not_with(snippet, old, new, fails):
    """Then a word takes from the words that follow it."""
    fails(test_causal_hides_the_future, snippet.edit(old, new))


def test_causal_hides_the_future__ends_in_multihead_attention(snippet, fails):
    """In `MultiheadAttention`, in evaluation under `no_grad`: alone, it is a
    hint that hides nothing.
    """
    old = "past = weights_of(vectors, vectors, is_causal=True)"
    new = (
        "with torch.no_grad():\n"
        "    past = layer.eval()(*[vectors[None]] * 3, is_causal=True)[1][0]"
    )
    fails(test_causal_hides_the_future, snippet.edit(old, new))


def test_multihead_is_attention_between_layers(snippet):
    run = after(snippet, "words", "do-this", "by-parts")
    close(run.by_parts, run.output)
    assert run.layer.num_heads == 2


@pytest.mark.parametrize("heads", [1, 4, 8])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_multihead_is_attention_between_layers__also_with(
    heads, training, bias
):
    torch.manual_seed(0)
    options = {"bias": bias, "batch_first": True}
    layer = nn.MultiheadAttention(8, heads, **options).train(training)
    query, memory = torch.randn(3, 5, 8), torch.randn(3, 6, 8)
    weights = layer.in_proj_weight.chunk(3)
    biases = [None] * 3 if not bias else layer.in_proj_bias.chunk(3)
    parts = [
        F.linear(each, w, b).unflatten(2, (heads, -1)).transpose(1, 2)
        for each, w, b in zip(
            (query, memory, memory), weights, biases, strict=True
        )
    ]

    found = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
    close(layer(query, memory, memory)[0], layer.out_proj(found))


@edits(
    ("other heads", "(2, 2)", "(4, 1)"),
    ("no last layer", "layer.out_proj(mixed_heads.transpose(1, 2).flatten(2))",
     "mixed_heads.transpose(1, 2).flatten(2)"),
    ("no mask", "(*parts, mask)", "(*parts)"),
    ("other weights", "F.linear(batch, layer.in_proj_weight,",
     "F.linear(batch, layer.in_proj_weight.flip(0),"),
)  # fmt: skip
def test_multihead_is_attention_between_layers__but_not_with(
    snippet, old, new, fails
):
    """Then the parts add up to another output."""
    fails(test_multihead_is_attention_between_layers, snippet.edit(old, new))


@edits(
    ("dropout", "2, batch_first=True)", "2, batch_first=True, dropout=0.5)"),
    ("add_bias_kv", "2, batch_first=True)",
     "2, batch_first=True, add_bias_kv=True)"),
    ("add_zero_attn", "2, batch_first=True)",
     "2, batch_first=True, add_zero_attn=True)"),
)  # fmt: skip
def test_multihead_is_attention_between_layers__ends_with(
    snippet, old, new, fails
):
    """In training mode, `dropout` drops weights; `add_bias_kv` and
    `add_zero_attn` add one more key.
    """
    old, new = (f"layer = nn.MultiheadAttention(4, num_heads={each}"
                for each in (old, new))  # fmt: skip
    fails(test_multihead_is_attention_between_layers, snippet.edit(old, new))


def test_hooks_get_the_weights(snippet):
    with no_error():
        run = after(snippet, "words", "do-this", "maps")
    attention = run.block.self_attn
    inputs, masks = [run.batch] * 3, {"key_padding_mask": ~run.keep}
    plain = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    passed = []
    plain.self_attn.register_forward_pre_hook(
        lambda _, inputs, options: passed.append(options), with_kwargs=True
    )
    plain(run.batch)

    assert passed[0]["need_weights"] is False
    assert [found is not None for found in run.maps] == [True]
    close(run.maps[0], attention(*inputs, **masks)[1])
    assert not run.maps[0][1, :, 2:].any()
    plain.load_state_dict(run.block.state_dict())
    found = run.block(run.batch, src_key_padding_mask=~run.keep)
    close(found, plain(run.batch, src_key_padding_mask=~run.keep))


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_hooks_get_the_weights__also_with(
    snippet, norm_first, training, gradients
):
    run = after(snippet, "words", "do-this", "maps")
    run.block.norm_first = norm_first
    run.block.train(training)
    run.maps.clear()
    with torch.set_grad_enabled(gradients):
        run.block(run.batch)
    assert [found.shape for found in run.maps] == [(2, 4, 4)]


@pytest.mark.parametrize("gradients", [True, False])
def test_hooks_get_the_weights__also_in_a_whole_encoder(snippet, gradients):
    run = after(snippet, "words", "do-this", "maps")
    encoder = nn.TransformerEncoder(run.block, 2, enable_nested_tensor=False)
    run.maps.clear()  # the copies of the layer store here too
    future = torch.ones(4, 4, dtype=torch.bool).triu(diagonal=1)
    with torch.set_grad_enabled(gradients):
        encoder(run.batch, mask=future, is_causal=True)
    assert [found.shape for found in run.maps] == [(2, 4, 4)] * 2
    assert not any(found[:, future].any() for found in run.maps)


def test_hooks_get_the_weights__also_in_a_decoder(snippet):
    run = after(snippet, "words", "do-this", "maps")
    layer = nn.TransformerDecoderLayer(4, 2, 8, batch_first=True)
    run.maps.clear()
    for part in (layer.self_attn, layer.multihead_attn):
        part.register_forward_pre_hook(run.ask_for_weights, with_kwargs=True)
        part.register_forward_hook(run.store_weights)
    layer(run.batch, run.batch[:, :3])
    assert [found.shape for found in run.maps] == [(2, 4, 4), (2, 4, 3)]


@edits(
    ("False", '"need_weights": True', '"need_weights": False'),
    (
        "no hook before the call",
        "block.self_attn.register_forward_pre_hook"
        "(ask_for_weights, with_kwargs=True)\n",
        "",
    ),
    (
        "no hook after the call",
        "block.self_attn.register_forward_hook(store_weights)\n",
        "",
    ),
)
def test_hooks_get_the_weights__but_not_with(snippet, old, new, fails):
    """Without both hooks, there are no weights to store, or nothing stores
    them.
    """
    edited = snippet.edit('print("sentence 1:", maps[0][1], sep="\\n")', "")
    fails(test_hooks_get_the_weights, edited.edit(old, new))


# What goes wrong


def test_an_inverted_mask_is_silent(snippet):
    with no_error(), warnings.catch_warnings():
        warnings.simplefilter("error")
        run = after(snippet, *START, "masked", "inverted")

    assert not run.padded[1, 0, :, 2:].any()
    half = torch.tensor([0.0, 0, 0.5, 0.5])
    close(run.inverted[1, 0], half.expand(4, 4))
    assert run.wrong_output[0].isnan().all()
    # In the layer, the words of sentence 1 make no difference either.
    expected = run.layer(*[run.batch[1:, 2:]] * 3)[0][0, 0]
    close(run.wrong_output[1, 2:], expected.expand(2, 4))
    _, weights = run.layer(*[run.batch] * 3, key_padding_mask=run.keep)
    assert not weights[1, :, :2].any()
    close(weights[1, :, 2:].sum(dim=1), torch.ones(4))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_an_inverted_mask_is_silent__also_from(seed, need_weights):
    torch.manual_seed(seed)
    batch, keep = torch.randn(3, 6, 8), torch.arange(6) < 4
    keep = keep.expand(3, 6)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    options = {"key_padding_mask": keep, "need_weights": need_weights}

    found, _ = layer(batch, batch, batch, **options)
    padding = batch[:, 4:]
    close(found, layer(batch, padding, padding)[0])
    found = F.scaled_dot_product_attention(
        *[batch[:, None]] * 3, ~keep[:, None, None]
    )
    heads = batch[:, None]
    padding = heads[:, :, 4:]
    close(found, F.scaled_dot_product_attention(heads, padding, padding))


@edits(
    ("the right mask", "attn_mask=~mask)\n\n# %% draw",
     "attn_mask=mask)\n\n# %% draw"),
    ("the right mask in the layer", "batch, key_padding_mask=keep)",
     "batch, key_padding_mask=~keep)"),
    ("no padding", "torch.tensor([4, 2])", "torch.tensor([4, 4])"),
)  # fmt: skip
def test_an_inverted_mask_is_silent__but_not_with(snippet, old, new, fails):
    """The words attend to words."""
    fails(test_an_inverted_mask_is_silent, snippet.edit(old, new))


def test_an_inverted_causal_mask_shows_the_future(snippet):
    run = after(snippet, *START, "inverted-causal")

    assert not run.cheating.tril().any()
    assert (run.cheating.triu(diagonal=1)[:3].sum(dim=1) > 0.99).all()
    # The layer, too, shows the future when it is given the other's mask.
    assert not run.spoiled[:, :3].tril().any()
    assert run.spoiled[:, 3].isnan().all()


@pytest.mark.parametrize("length", [2, 5, 40])
def test_an_inverted_causal_mask_shows_the_future__also_with_words(length):
    torch.manual_seed(0)
    words = torch.randn(1, 1, length, 8)
    mask = ~torch.ones(length, length, dtype=torch.bool).tril()
    moved = changed(
        lambda x: F.scaled_dot_product_attention(x, x, x, mask),
        words,
        (0, 0, -1),
    )
    assert moved[0][0][:-1] == [True] * (length - 1)


@edits(
    ("the lower triangle", ".triu(diagonal=1)", ".tril()"),
    ("the whole square", ".triu(diagonal=1)", ""),
)
def test_an_inverted_causal_mask_shows_the_future__but_not_with(
    snippet, old, new, fails
):
    """The lower triangle shows each word itself and what came before."""
    old, new = (
        f"hidden_future = torch.ones(4, 4, dtype=torch.bool){part}"
        for part in (old, new)
    )
    fails(
        test_an_inverted_causal_mask_shows_the_future, snippet.edit(old, new)
    )


def test_an_inverted_causal_mask_shows_the_future__but_not_with_the_lower_triangle(  # noqa: E501
    snippet, fails
):
    """In this call, `True` takes part: the lower triangle hides the future."""
    edited = snippet.edit("torch.bool).triu(diagonal=1)", "torch.bool).tril()")
    fails(test_an_inverted_causal_mask_shows_the_future, edited)


def test_float_masks_are_added(snippet):
    with no_error():
        run = after(snippet, *START, "float-mask")

    scores = run.query @ run.key.mT / 2 + run.keep[:, None, None].float()
    close(run.added, scores.softmax(dim=-1))
    powers = torch.tensor([3.0, 2, 0, 0]).exp()
    close(run.added[1, 0, 0], powers / powers.sum())
    assert run.added[1, 0, :, 2:].min() > 0.02
    hidden = torch.zeros(2, 1, 1, 4).masked_fill(
        ~run.keep[:, None, None], -math.inf
    )
    by_bool = run.weights_of(
        run.query, run.key, attn_mask=run.keep[:, None, None]
    )
    close(run.weights_of(run.query, run.key, attn_mask=hidden), by_bool)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", ["attn_mask", "key_padding_mask"])
def test_float_masks_are_added__also_in_multihead_attention(
    name, need_weights
):
    torch.manual_seed(0)
    words = torch.randn(2, 4, 8)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    out = torch.tensor([0.0, 0, 1, 1])
    out = out.expand(4, 4) if name == "attn_mask" else out.expand(2, 4)
    options = {"need_weights": need_weights}

    def call(inputs):
        return layer(words, inputs, inputs, **{name: out}, **options)[0]

    assert changed(call, words, (slice(None), 2)) == [[True] * 4] * 2
    out = out * -math.inf
    out = torch.where(out.isnan(), 0.0, out)
    assert changed(call, words, (slice(None), 2)) == [[False] * 4] * 2


@edits(
    ("a mask of booleans", "mask.float()", "mask"),
    ("minus infinity", "mask.float()", "mask.float().log()"),
)  # fmt: skip
def test_float_masks_are_added__but_not(snippet, old, new, fails):
    """These hide the padding."""
    fails(test_float_masks_are_added, snippet.edit(old, new))


def test_float_masks_are_added__ends_with_integers(snippet, fails):
    """A mask of integers, such as a tokenizer's `attention_mask`, raises an
    error.
    """
    edited = snippet.edit("attn_mask=mask.float()", "attn_mask=mask.long()")
    fails(test_float_masks_are_added, edited)


DTYPE = "Expected attn_mask dtype to be bool or float or to match query dtype"
IN_LAYER = "only bool and floating types of {} are supported"


def test_masks_of_integers_raise(snippet):
    run = after(snippet, *START, "error-of", "mask-types")

    assert run.integers.startswith(f"{DTYPE}, but got attn_mask.dtype: long")
    assert DTYPE in run.short_floats
    assert "BFloat16" in run.short_floats
    assert run.short.dtype == torch.bfloat16
    assert run.short[1].flatten().tolist() == [0, 0, -math.inf, -math.inf]
    assert run.in_layer == IN_LAYER.format("key_padding_mask")


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int32, torch.int64], ids=str
)
@pytest.mark.parametrize("need_weights", [True, False])
def test_masks_of_integers_raise__also_for(dtype, need_weights):
    torch.manual_seed(0)
    words, ones = torch.randn(2, 4, 8), torch.ones(2, 4, dtype=dtype)
    attend, heads = F.scaled_dot_product_attention, words[:, None]
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    for queries in (heads, heads.bfloat16()):
        with pytest.raises(RuntimeError, match=DTYPE):
            attend(queries, queries, queries, ones[:, None, None])
    for name, mask in (
        ("key_padding_mask", ones),
        ("attn_mask", ones[:1].repeat(4, 1)),
    ):
        options = {"need_weights": need_weights, name: mask}
        with pytest.raises(AssertionError, match=IN_LAYER.format(name)):
            layer(words, words, words, **options)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str
)
def test_masks_of_integers_raise__also_floats_of_another_type(dtype):
    heads, mask = torch.randn(2, 1, 4, 8), torch.zeros(2, 1, 1, 4, dtype=dtype)
    with pytest.raises(RuntimeError, match=DTYPE):
        F.scaled_dot_product_attention(heads, heads, heads, mask)


@edits(
    ("booleans", "attn_mask=mask.long()", "attn_mask=mask.long().bool()"),
    ("floats", "attn_mask=short)", "attn_mask=short.float())"),
    ("booleans in the layer", "=keep.long()", "=keep.long().bool()"),
)
def test_masks_of_integers_raise__but_not(snippet, old, new, fails):
    """Masks of booleans, and of floats like the queries, raise no error."""
    fails(test_masks_of_integers_raise, snippet.edit(old, new))


def test_masks_of_integers_raise__ends_with_float32(snippet, fails):
    """A `float32` mask fits queries of any type."""
    queries = "query.bfloat16(), key.bfloat16()"
    edited = snippet.edit(
        "error_of(weights_of, query, key, attn_mask=short)",
        f"error_of(weights_of, {queries}, attn_mask=short.float())",
    )
    fails(test_masks_of_integers_raise, edited)


CAST = (*START, "error-of", "mask-types", "cast")


def test_bool_inverts_minus_infinity(snippet):
    with no_error():
        run = after(snippet, *CAST)

    right = run.weights_of(run.query, run.key, attn_mask=run.mask)
    close(run.cast, right)
    assert not run.upside_down[1, 0, :, :2].any()
    half = torch.tensor([0.0, 0, 0.5, 0.5])
    close(run.upside_down[1, 0], half.expand(4, 4))


@pytest.mark.parametrize("fill", [-math.inf, -1e4])
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str
)
def test_bool_inverts_minus_infinity__also_of(dtype, fill):
    torch.manual_seed(0)
    attend, heads = F.scaled_dot_product_attention, torch.randn(2, 3, 4, 8)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    mask = torch.zeros(4, 4, dtype=dtype).masked_fill(~causal, fill)

    found = attend(heads, heads, heads, mask.to(heads.dtype))
    close(found, attend(heads, heads, heads, is_causal=True))
    assert torch.equal(mask.bool(), ~causal)
    found = attend(heads, heads, heads, mask.bool())[:, :, :3]
    close(found, attend(heads, heads, heads, ~causal)[:, :, :3])


@edits(
    ("an inverted one", "short.bool())", "~short.bool())"),
    ("its type", "short.bool())", "short.to(query.dtype))"),
    ("zeros and ones", "short.bool())", "mask.long().bool())"),
    ("an inverted cast", "short.to(query.dtype)", "-short.to(query.dtype)"),
)
def test_bool_inverts_minus_infinity__but_not(snippet, old, new, fails):
    """These hide the padding; and `+inf` gives `nan`."""
    fails(test_bool_inverts_minus_infinity, snippet.edit(old, new))


def test_bool_inverts_minus_infinity__ends_in_multihead_attention(
    snippet, fails
):
    """In `MultiheadAttention`, `True` is left out, so `bool()` hides the
    padding.
    """
    old = "weights_of(query, key, attn_mask=short.bool())"
    options = "key_padding_mask=short.bool()[:, 0, 0]"
    new = f"layer(batch, batch, batch, {options})[1][:, None]"
    fails(test_bool_inverts_minus_infinity, snippet.edit(old, new))


def test_a_padding_mask_needs_its_axes(snippet):
    run = after(snippet, *START, "error-of", "no-axes")

    assert run.four_masks.shape == (4, 4)
    for table in run.without_axes[:, 0]:
        assert ((table > 0) == run.four_masks).all()
    # What it should have been: two sentences of two words hide their padding.
    right = run.weights_of(
        run.four, run.four, attn_mask=run.four_masks[:, None, None]
    )
    assert ((right > 0) == run.four_masks[:, None, None]).all()


def test_a_padding_mask_needs_its_axes__also_without_heads():
    torch.manual_seed(0)
    batch, keep = torch.randn(3, 3, 8), torch.ones(3, 3, dtype=torch.bool)
    keep[1:, 2] = False
    identity = torch.eye(3).expand(3, 3, 3)

    found = F.scaled_dot_product_attention(batch, batch, identity, keep)
    assert ((found > 0) == keep).all()


@edits(
    ("both axes", "=four_masks)", "=four_masks[:, None, None])"),
    ("one row for all", "=four_masks)", "=four_masks[:1])"),
)
def test_a_padding_mask_needs_its_axes__but_not_with(snippet, old, new, fails):
    """The mask of a sentence then holds for each of its words."""
    fails(test_a_padding_mask_needs_its_axes, snippet.edit(old, new))


def test_other_numbers_of_sentences_raise(snippet):
    run = after(snippet, *START, "error-of", "no-axes")

    assert run.keep.shape == (2, 4)
    assert "must match the size of tensor" in run.other_sizes
    one, options = run.query[1:], {"attn_mask": run.keep[1:]}
    found = run.weights_of(one, one, **options)
    assert ((found > 0) == run.keep[1:]).all()


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("sentences", [2, 3, 5, 8])
def test_other_numbers_of_sentences_raise__also_for(sentences, heads):
    inputs = torch.randn(sentences, heads, 4, 8)
    mask = torch.ones(sentences, 4, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        F.scaled_dot_product_attention(inputs, inputs, inputs, mask)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("words", [1, 2, 9])
def test_other_numbers_of_sentences_raise__also_but_for_one(words, heads):
    torch.manual_seed(0)
    inputs = torch.randn(1, heads, words, 8)
    mask = torch.arange(words)[None] < max(words - 1, 1)
    attend = F.scaled_dot_product_attention
    found = attend(inputs, inputs, inputs, mask)
    close(found, attend(inputs, inputs, inputs, mask[:, None, None]))


@edits(
    ("a fitting mask", "key, attn_mask=keep)", "key, attn_mask=mask)"),
    ("one sentence", "query, key, attn_mask=keep)",
     "query[1:], key[1:], attn_mask=keep[1:])"),
    ("four sentences", "query, key, attn_mask=keep)",
     "four, four, attn_mask=four_masks)"),
)  # fmt: skip
def test_other_numbers_of_sentences_raise__but_not_with(
    snippet, old, new, fails
):
    """These raise nothing."""
    fails(test_other_numbers_of_sentences_raise, snippet.edit(old, new))


def test_other_numbers_of_sentences_raise__ends_with_fewer_queries(
    snippet, fails
):
    """Two queries to four words count instead: two sentences raise nothing."""
    old = "error_of(weights_of, query, key, attn_mask=keep)"
    edited = snippet.edit(old, old.replace("query", "query[:, :, :2]"))
    fails(test_other_numbers_of_sentences_raise, edited)


def test_other_numbers_of_sentences_raise__ends_with_one_axis_more(
    snippet, fails
):
    """With `[:, None]` alone, and as many heads as sentences, no error is
    raised: row *i* then counts for head *i*.
    """
    old = "error_of(weights_of, query, key, attn_mask=keep)"
    heads = "*[query.repeat(1, 2, 1, 1)] * 2"
    new = f"error_of(weights_of, {heads}, attn_mask=keep[:, None])"
    fails(test_other_numbers_of_sentences_raise, snippet.edit(old, new))


def test_nan_spreads_in_the_next_layer(snippet):
    run = after(snippet, *START, "left-padding")

    assert not run.allowed[2:, :2].any()
    assert run.first.isnan().any(dim=2)[0].tolist() == [True, True, False, 0]
    assert run.second.isnan().all()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("padding", [1, 3])
def test_nan_spreads_in_the_next_layer__also_with(seed, padding):
    torch.manual_seed(seed)
    allowed = torch.ones(6, 6, dtype=torch.bool).tril()
    allowed[:, :padding] = False
    words = torch.randn(1, 6, 8)
    layers = [nn.MultiheadAttention(8, 2, batch_first=True) for _ in "12"]

    first, _ = layers[0](words, words, words, attn_mask=~allowed)
    second, _ = layers[1](first, first, first, attn_mask=~allowed)
    assert first[:, padding:].isfinite().all()
    assert second.isnan().all()


@edits(
    ("padding on the right", "[False, False, True, True]",
     "[True, True, False, False]"),
    ("no causal mask", "causal & torch.tensor([False, False, True, True])",
     "torch.tensor([False, False, True, True]).expand(4, 4)"),
)  # fmt: skip
def test_nan_spreads_in_the_next_layer__but_not_with(snippet, old, new, fails):
    """Each place then sees a word."""
    fails(test_nan_spreads_in_the_next_layer, snippet.edit(old, new))


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="no x86 CPU"
)
def test_nan_spreads_in_the_next_layer__ends_without_weights(snippet, fails):
    """On an x86 CPU, `need_weights=False` gives no `nan` in training."""
    old = "left, left, left, attn_mask=~allowed)"
    edited = snippet.edit(old, old[:-1] + ", need_weights=False)")
    fails(test_nan_spreads_in_the_next_layer, edited)


def test_the_diagonal_keeps_rows_finite(snippet):
    run = after(snippet, *START, "left-padding", "diagonal")

    assert run.first_safe.isnan().any(dim=2).tolist() == [[False] * 4]
    assert run.second_safe.isfinite().all()
    close(run.first_safe[:, 2:], run.first[:, 2:])
    alone = run.batch[1:, :2]
    causal = ~run.causal[:2, :2]
    once, _ = run.layer(alone, alone, alone, attn_mask=causal)
    twice, _ = run.layer(once, once, once, attn_mask=causal)
    close(run.first_safe[:, 2:], once)
    close(run.second_safe[:, 2:], twice)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("padding", [1, 3])
def test_the_diagonal_keeps_rows_finite__also_with(padding, need_weights):
    torch.manual_seed(0)
    allowed = torch.ones(6, 6, dtype=torch.bool).tril()
    allowed[:, :padding] = False
    safe = allowed | torch.eye(6, dtype=torch.bool)
    words = torch.randn(1, 6, 8, requires_grad=True)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    options = {"attn_mask": ~safe, "need_weights": need_weights}

    first, _ = layer(words, words, words, **options)
    second, _ = layer(first, first, first, **options)
    alone = words[:, padding:]
    causal = ~torch.ones(6, 6, dtype=torch.bool).tril()[padding:, padding:]
    once, _ = layer(alone, alone, alone, attn_mask=causal)
    close(second[:, padding:], layer(once, once, once, attn_mask=causal)[0])
    second.sum().backward()
    assert words.grad.isfinite().all()


def test_the_diagonal_keeps_rows_finite__ends_with_a_key_padding_mask(
    snippet, fails
):
    """With a `key_padding_mask` beside it: it hides the padding from itself as
    well, and `nan` is back.
    """
    old = "first_safe, _ = layer(left, left, left, attn_mask=~safe"
    new = old + ", key_padding_mask=~keep[1:].flip(1)"
    fails(test_the_diagonal_keeps_rows_finite, snippet.edit(old, new))


@edits(
    ("the mask alone", "allowed | torch.eye(4, dtype=torch.bool)", "allowed"),
    ("all places", "| torch.eye(4, dtype=torch.bool)", "| causal"),
)
def test_the_diagonal_keeps_rows_finite__but_not_with(
    snippet, old, new, fails
):
    """The mask alone gives `nan`; with all places, words see the padding."""
    fails(test_the_diagonal_keeps_rows_finite, snippet.edit(old, new))


def test_causal_starts_at_the_first_key(snippet):
    run = after(snippet, *START, "cache")
    assert run.newest.shape == (1, 4)
    assert run.from_first.tolist() == [[1, 0, 0, 0]]


@each("dtype", DTYPES, *TYPES)
@pytest.mark.parametrize("heads", [1, 8])
def test_causal_starts_at_the_first_key__also_for(dtype, heads):
    torch.manual_seed(0)
    query = torch.randn(2, heads, 1, 8).to(dtype)
    key, value = (torch.randn(2, heads, 9, 8).to(dtype) for _ in range(2))

    found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert torch.equal(found, value[:, :, :1])


@pytest.mark.parametrize(
    ("queries", "keys"), [(2, 9), (5, 9), (9, 5)], ids=str
)
@pytest.mark.parametrize("axes", [3, 4])
def test_causal_starts_at_the_first_key__also_with_more(queries, keys, axes):
    torch.manual_seed(0)
    shape = (2, 3)[: axes - 2]
    query, key = torch.randn(*shape, queries, 8), torch.randn(*shape, keys, 8)
    mask = torch.ones(queries, keys, dtype=torch.bool).tril()

    attend = F.scaled_dot_product_attention
    found = attend(query, key, key, is_causal=True)
    close(found, attend(query, key, key, mask))


def test_causal_starts_at_the_first_key__but_not_without_the_mask(
    snippet, fails
):
    """The word then takes from all keys."""
    old = "weights_of(newest, vectors, is_causal=True)"
    edited = snippet.edit(old, "weights_of(newest, vectors)")
    fails(test_causal_starts_at_the_first_key, edited)


def test_causal_starts_at_the_first_key__but_not_with_all_queries(
    snippet, fails
):
    """The last of four words sees all four."""
    old = "weights_of(newest, vectors, is_causal=True)"
    edited = snippet.edit(old, old.replace("newest", "vectors") + "[3:]")
    fails(test_causal_starts_at_the_first_key, edited)


def test_a_shifted_triangle_fits_a_cache(snippet):
    run = after(snippet, *START, "cache", "shifted")

    close(run.alone, run.past[3:])
    close(run.last_two, run.past[2:])


@pytest.mark.parametrize("new", [1, 2, 5])
def test_a_shifted_triangle_fits_a_cache__also_for_words(new):
    torch.manual_seed(0)
    words = torch.randn(2, 3, 9, 8)
    whole = F.scaled_dot_product_attention(*[words] * 3, is_causal=True)
    mask = torch.ones(new, 9, dtype=torch.bool).tril(diagonal=9 - new)

    newest = words[:, :, -new:]
    found = F.scaled_dot_product_attention(newest, words, words, mask)
    close(found, whole[:, :, -new:])


@edits(
    ("is_causal", "attn_mask=shifted)", "is_causal=True)"),
    ("no mask", "weights_of(vectors[2:], vectors, attn_mask=shifted)",
     "weights_of(vectors[2:], vectors)"),
    ("another diagonal", "diagonal=4 - 2", "diagonal=1"),
    ("a mask for one", "alone = weights_of(newest, vectors)",
     "alone = weights_of(newest, vectors, is_causal=True)"),
)  # fmt: skip
def test_a_shifted_triangle_fits_a_cache__but_not_with(
    snippet, old, new, fails
):
    """The new words then miss a word, or see a later one."""
    fails(test_a_shifted_triangle_fits_a_cache, snippet.edit(old, new))


def apart(ids):
    """Return a causal mask for documents, whose numbers may be a batch."""
    causal = torch.ones(ids.shape[-1:] * 2, dtype=torch.bool).tril()
    return (ids[..., None] == ids[..., None, :]) & causal


def test_documents_stay_apart(snippet, positions=None):
    run = after(snippet, *START, "documents")

    assert run.ids.tolist() == [0, 0, 1, 1]
    for part in (slice(0, 2), slice(2, 4)):
        alone = run.weights_of(*[run.vectors[part]] * 2, is_causal=True)
        close(run.separate[part, part], alone)
    assert not run.separate[:2, 2:].any()
    assert not run.separate[2:, :2].any()
    if positions is not None:
        torch.manual_seed(0)
        table = torch.randn(4, 4)
        words = run.vectors + table[positions]
        document = run.vectors[2:] + table[:2]
        attend = F.scaled_dot_product_attention
        found = attend(*[words] * 3, run.apart)
        close(found[2:], attend(*[document] * 3, is_causal=True))


@pytest.mark.parametrize("seed", [1, 2])
def test_documents_stay_apart__also_in_a_batch_of_rows(seed):
    torch.manual_seed(seed)
    rows = torch.randn(2, 3, 9, 8)
    ids = torch.tensor(
        [[4, 4, 4, 1, 1, 1, 1, 7, 7], [0, 1, 1, 1, 1, 1, 1, 2, 2]]
    )
    causal = torch.ones(9, 9, dtype=torch.bool).tril()
    mask = (ids[:, None, :, None] == ids[:, None, None]) & causal
    assert torch.equal(mask[:, 0], apart(ids))

    attend = F.scaled_dot_product_attention
    found = attend(rows, rows, rows, mask)
    for row, numbers in enumerate(ids):
        for number in numbers.unique():
            part = rows[row, :, numbers == number]
            alone = attend(part, part, part, is_causal=True)
            close(found[row, :, numbers == number], alone)


@pytest.mark.parametrize("need_weights", [True, False])
def test_documents_stay_apart__also_in_multihead_attention(need_weights):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    words, ids = torch.randn(1, 5, 8), torch.tensor([0, 0, 1, 1, 1])
    options = {"need_weights": need_weights}

    once = layer(words, words, words, attn_mask=~apart(ids), **options)[0]
    twice = layer(once, once, once, attn_mask=~apart(ids), **options)[0]
    document, mask = words[:, 2:], ~apart(ids[2:])
    once = layer(document, document, document, attn_mask=mask)[0]
    close(twice[:, 2:], layer(once, once, once, attn_mask=mask)[0])


def test_documents_stay_apart__also_with_positions_of_their_own(snippet):
    test_documents_stay_apart(snippet, [0, 1, 0, 1])


@edits(
    ("a causal mask alone", "(ids[:, None] == ids) & causal", "causal"),
    (
        "no causal mask",
        "(ids[:, None] == ids) & causal",
        "ids[:, None] == ids",
    ),
    ("other documents", "(ids[:, None] == ids)", "(ids[:, None] != ids)"),
)
def test_documents_stay_apart__but_not_with(snippet, old, new, fails):
    """Then a word reads another document, or a later word."""
    fails(test_documents_stay_apart, snippet.edit(old, new))


def test_documents_stay_apart__ends_with_positions_that_run_on(snippet, fails):
    """If positions run through the row, the second document has others than
    it has alone.
    """
    fails(test_documents_stay_apart, snippet, [0, 1, 2, 3])


SAID = "Explicit attn_mask should not be set when is_causal=True"
FIXED = torch.__version__ >= (2, 14)  # all kernels raise it since then


def combines(heads, both):
    """Check that the fused kernel applies both masks, or raises the error."""
    causal = torch.ones(heads.shape[-2:-1] * 2, dtype=torch.bool).tril()
    attend = F.scaled_dot_product_attention
    found = error_of(lambda: attend(heads, heads, heads, **both))
    assert not found or (FIXED and SAID in found)
    if not found:
        mask = both["attn_mask"] & causal
        close(attend(*[heads] * 3, **both), attend(*[heads] * 3, mask))


def test_both_masks_raise_or_combine(snippet):
    run = after(snippet, *START, "error-of", "both")

    assert run.both["is_causal"]
    assert SAID in run.math_error
    assert FIXED or run.default_error == "no error"
    combines(run.query, run.both)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("gradients", [True, False])
def test_both_masks_raise_or_combine__also_from(seed, gradients):
    torch.manual_seed(seed)
    heads = torch.randn(2, 3, 40, 8, requires_grad=gradients)
    keep = torch.rand(2, 1, 1, 40) < 0.5
    keep[..., 0] = True
    both = {"attn_mask": keep, "is_causal": True}

    combines(heads, both)
    with pytest.raises(RuntimeError, match=SAID):  # takes the math kernel
        F.scaled_dot_product_attention(*[heads] * 3, **both, dropout_p=0.1)
    with pytest.raises(RuntimeError, match=SAID):
        F.scaled_dot_product_attention(*[heads[:, 0]] * 3, **both)


@edits(
    ("the mask alone", '"is_causal": True}', '"is_causal": False}'),
    ("the fused kernel", "SDPBackend.MATH", "SDPBackend.FLASH_ATTENTION"),
    ("an axis less", "error_of(attend, query, key, value, **both)\nwith",
     "error_of(attend, batch, batch, batch, **both)\nwith"),
)  # fmt: skip
def test_both_masks_raise_or_combine__but_not_with(snippet, old, new, fails):
    """With one mask, or in the fused kernel, nothing is raised; without the
    axis of the heads, the math kernel runs by default.
    """
    if FIXED and "is_causal" not in old:
        pytest.skip("All kernels raise the error.")
    fails(test_both_masks_raise_or_combine, snippet.edit(old, new))


def test_the_hint_needs_a_mask(snippet):
    with no_error():
        run = after(snippet, *START, "error-of", "hint")
    said = "Need attn_mask if specifying the is_causal hint"
    assert said in run.hint_error
    assert run.unmasked.all()
    with torch.no_grad():
        expected = run.evaluated(*[run.batch] * 3)[1]
    close(run.unmasked, expected)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_the_hint_needs_a_mask__also(padded, need_weights):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    words = torch.randn(2, 4, 8)
    mask = torch.zeros(2, 4, dtype=torch.bool) if padded else None
    options = {"key_padding_mask": mask, "need_weights": need_weights}

    def call(inputs):
        return layer(inputs, inputs, inputs, is_causal=True, **options)[0]

    for training, gradients in ((True, True), (False, True), (True, False)):
        layer.train(training)
        with (
            torch.set_grad_enabled(gradients),
            pytest.raises(RuntimeError, match="Need attn_mask if specifying"),
        ):
            call(words)
    layer.eval()
    with torch.no_grad():
        assert changed(call, words, (0, 3))[0] == [True] * 4


@edits(
    ("a mask", "hint_error = error_of(layer, batch, batch, batch,",
     "hint_error = error_of(layer, batch, batch, batch, attn_mask=~causal,"),
    ("no hint", "batch, is_causal=True)\nprint(hint",
     "batch, attn_mask=~causal)\nprint(hint"),
    ("a mask in evaluation", "unmasked = evaluated(batch, batch, batch,",
     "unmasked = evaluated(batch, batch, batch, attn_mask=~causal,"),
    ("gradients", "with torch.no_grad():\n    _, unmasked",
     "with torch.enable_grad():\n    _, unmasked"),
)  # fmt: skip
def test_the_hint_needs_a_mask__but_not_with(snippet, old, new, fails):
    """With a mask, no error is raised, and the future is hidden; with
    gradients, evaluation raises the error, too.
    """
    fails(test_the_hint_needs_a_mask, snippet.edit(old, new))


@edits(
    ("batch_first=False", "batch_first=True).eval()\nwith torch",
     "batch_first=False).eval()\nwith torch"),
    ("one head", "evaluated = nn.MultiheadAttention(4, num_heads=2",
     "evaluated = nn.MultiheadAttention(4, num_heads=1"),
)  # fmt: skip
def test_the_hint_needs_a_mask__ends_with(snippet, old, new, fails):
    """Without the fast path, evaluation raises the error, too."""
    fails(test_the_hint_needs_a_mask, snippet.edit(old, new))


def test_each_head_needs_its_mask(snippet, sentences=5, heads=2, words=4):
    run = after(snippet, *START, "error-of", "mask-for-each")
    assert run.too_few == (
        "The shape of the 3D attn_mask is torch.Size([2, 4, 4]), but should be"
        " (4, 4, 4)."
    )
    torch.testing.assert_close(run.right, run.output)
    assert (run.swapped - run.output).abs().max() > 1e-3

    torch.manual_seed(1)
    layer = nn.MultiheadAttention(4 * heads, heads, batch_first=True)
    x = torch.randn(sentences, words, 4 * heads)
    out = torch.rand(sentences, words, words) < 0.5
    out &= ~torch.eye(words, dtype=torch.bool)
    alone = torch.cat(
        [layer(*[x[[i]]] * 3, attn_mask=out[i])[0] for i in range(sentences)]
    )
    right, _ = layer(*[x] * 3, attn_mask=out.repeat_interleave(heads, dim=0))
    torch.testing.assert_close(right, alone)
    swapped, _ = layer(*[x] * 3, attn_mask=out.repeat(heads, 1, 1))
    assert swapped.shape == alone.shape
    assert (swapped - alone).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("sentences", "heads"),
    [(2, 4), (3, 2), (8, 8)],
    ids=["2 sentences, 4 heads", "3 and 2", "8 and 8"],
)
def test_each_head_needs_its_mask__also_of(snippet, sentences, heads):
    test_each_head_needs_its_mask(snippet, sentences, heads)


def test_each_head_needs_its_mask__ends_with_one_head(snippet, fails):
    """With a single head, or a single sentence, both are the same."""
    fails(test_each_head_needs_its_mask, snippet, 5, 1)


@edits(
    (
        "the other way",
        "out.repeat_interleave(2, dim=0)",
        "out.repeat(2, 1, 1)",
    ),
    ("once more", "=out.repeat(2, 1, 1))", "=out.repeat_interleave(2, 0))"),
    (
        "one sentence",
        "lengths = torch.tensor([4, 2])",
        "lengths = torch.tensor([2, 2])",
    ),
)
def test_each_head_needs_its_mask__but_not(snippet, old, new, fails):
    """The masks change places, or are all alike."""
    fails(test_each_head_needs_its_mask, snippet.edit(old, new))


def test_mismatched_masks_warn(snippet, floats=None, keys=None):
    run = after(snippet, *START, "mismatched")
    said = [str(each.message) for each in run.caught]
    assert len(said) == 1
    assert said[0].startswith(MISMATCHED)
    assert run.floats.dtype == torch.float32

    floats = run.floats if floats is None else floats
    keys = ~run.keep if keys is None else keys
    with pytest.warns(UserWarning, match=MISMATCHED):
        run.layer(*[run.batch] * 3, attn_mask=floats, key_padding_mask=keys)
    with no_error():
        mask = ~run.causal
        run.layer(*[run.batch] * 3, attn_mask=mask, key_padding_mask=~run.keep)


def test_mismatched_masks_warn__also_the_other_way_round(snippet):
    causal = torch.ones(4, 4, dtype=torch.bool).triu(1)
    test_mismatched_masks_warn(snippet, causal, torch.zeros(2, 4))


@edits(
    ("both bool", "attn_mask=floats,", "attn_mask=~causal,"),
    (
        "the floats alone",
        "attn_mask=floats, key_padding_mask=~keep",
        "attn_mask=floats",
    ),
)
def test_mismatched_masks_warn__but_not(snippet, old, new, fails):
    """Masks of one type give no warning."""
    fails(test_mismatched_masks_warn, snippet.edit(old, new))


def test_multihead_dropout_stops_in_eval(snippet):
    run = after(snippet, *START, "error-of", "both", "dropout")

    assert run.dropping.dropout == 0.5
    assert torch.equal(*run.tries)
    close(run.tries[0], run.dropping(*[run.batch] * 3)[0])
    assert not torch.allclose(*run.still)
    run.dropping.train()
    found = [run.dropping(*[run.batch] * 3)[0] for _ in range(2)]
    assert not torch.allclose(*found)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_multihead_dropout_stops_in_eval__also_with(need_weights, rate):
    torch.manual_seed(0)
    words = torch.randn(2, 9, 8)
    layer = nn.MultiheadAttention(8, 2, dropout=rate, batch_first=True)
    net = nn.ModuleList([layer]).eval()
    options = {"need_weights": need_weights}
    found = [net[0](words, words, words, **options)[0] for _ in range(2)]
    assert torch.equal(*found)
    plain = nn.MultiheadAttention(8, 2, batch_first=True)
    plain.load_state_dict(layer.state_dict())
    close(plain(words, words, words)[0], found[0])


@edits(
    ("in training mode", "dropout=0.5, batch_first=True).eval()",
     "dropout=0.5, batch_first=True)"),
    ("with dropout_p=0", "dropout_p=0.5", "dropout_p=0.0"),
    ("without dropout", "dropout=0.5, ", ""),
)  # fmt: skip
def test_multihead_dropout_stops_in_eval__but_not(snippet, old, new, fails):
    """In training mode the layer drops weights; a function with a rate of 0
    drops none.
    """
    fails(test_multihead_dropout_stops_in_eval, snippet.edit(old, new))


def test_without_batch_first_sentences_mix(snippet):
    with no_error():
        run = after(snippet, "words", "do-this", "error-of", "batch-first")

    assert run.across.shape == (4, 2, 2)
    assert torch.equal(run.other[0], run.batch[0])
    assert not torch.allclose(run.after[0], run.before[0])
    straight, _ = run.mixing(*[run.batch.transpose(0, 1)] * 3)
    assert not torch.allclose(straight.transpose(0, 1), run.before)
    # Each word attends to the words at its place in the other sentences.
    run.mixing.batch_first = True
    expected, _ = run.mixing(*[run.batch.transpose(0, 1)] * 3)
    close(run.before, expected.transpose(0, 1))
    assert "Expected key_padded_mask.shape[0] to be 4" in run.swapped


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_without_batch_first_sentences_mix__also_with(size, need_weights):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2)
    batch = torch.randn(2, size, 8)

    def call(inputs):
        options = {"need_weights": need_weights}
        return layer(inputs, inputs, inputs, **options)[0]

    moved = changed(call, batch, (1, 0))
    assert moved == [[True, *[False] * (size - 1)]] * 2


def test_without_batch_first_sentences_mix__also_alone_words_see_themselves():
    torch.manual_seed(0)
    words = torch.randn(1, 5, 8)
    _, weights = nn.MultiheadAttention(8, 2)(words, words, words)
    assert torch.equal(weights, torch.ones(5, 1, 1))


@edits(
    ("batch_first", "(4, num_heads=2)", "(4, num_heads=2, batch_first=True)"),
    ("the same sentence", "other[1] += 1", "other[1] += 0"),
)
def test_without_batch_first_sentences_mix__but_not_with(
    snippet, old, new, fails
):
    """With `batch_first=True`, no sentence sees another."""
    fails(test_without_batch_first_sentences_mix, snippet.edit(old, new))


LENGTHS = ("words", "do-this", "error-of", "batch-first", "other-lengths")


def test_other_lengths_raise(snippet):
    run = after(snippet, *LENGTHS)
    assert run.batch.shape == (2, 4, 4)
    assert run.longer.shape == (2, 6, 4)
    assert run.crossed == "shape '[2, 8, 2]' is invalid for input of size 48"
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    layer.load_state_dict(run.mixing.state_dict())
    with no_error():
        found, _ = layer(run.batch, run.longer, run.longer)
    for one, memory, alone in zip(run.batch, run.longer, found, strict=True):
        close(layer(one, memory, memory)[0], alone)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    ("sentences", "queries", "keys"),
    [(1, 1, 23), (2, 4, 3), (3, 5, 10), (4, 4, 2)],
    ids=["1 and 23 words", "4 and 3", "5 and 10", "4 and 2"],
)
def test_other_lengths_raise__also_for(sentences, queries, keys, need_weights):
    said = "is invalid for input of size"
    for options in ({}, {"kdim": 8, "vdim": 8}, {"add_zero_attn": True}):
        layer = nn.MultiheadAttention(8, 2, **options)
        query = torch.rand(sentences, queries, 8)
        key = torch.rand(sentences, keys, 8)
        for training in (True, False):
            layer.train(training)
            asked = {"need_weights": need_weights}
            with (
                torch.set_grad_enabled(training),
                pytest.raises(RuntimeError, match=said),
            ):
                layer(query, key, key, **asked)
    decoder = nn.TransformerDecoderLayer(8, 2, 16)
    assert said in error_of(decoder, query, key)
    with warnings.catch_warnings(action="ignore"):  # no nested tensors
        both = nn.Transformer(8, 2, 1, 1, 16)
    said = "the batch number of src and tgt must be equal"
    assert error_of(both, key, query) == said


@edits(
    (
        "batch_first in the layer",
        "mixing = nn.MultiheadAttention(4, num_heads=2)",
        "mixing = nn.MultiheadAttention(4, num_heads=2, batch_first=True)",
    ),
    ("sentences of one length", "torch.rand(2, 6, 4)", "torch.rand(2, 4, 4)"),
)
def test_other_lengths_raise__but_not_with(snippet, old, new, fails):
    """With `batch_first=True`, lengths may differ; equal ones raise nothing,
    and the sentences mix.
    """
    fails(test_other_lengths_raise, snippet.edit(old, new))


def test_other_lengths_raise__ends_without_a_batch(snippet, fails):
    """For a single sentence without an axis for the batch, lengths may
    differ.
    """
    old = "error_of(mixing, batch, longer, longer)"
    new = "error_of(mixing, batch[0], longer[0], longer[0])"
    fails(test_other_lengths_raise, snippet.edit(old, new))


# Memory and kernels

FUSED = "aten::_scaled_dot_product_flash_attention_for_cpu"
MATH = "aten::_scaled_dot_product_attention_math"


def test_three_axes_take_the_math_kernel(snippet):
    run = after(snippet, *START, "error-of", "both", "kernel")

    assert run.taken["four axes"] == [FUSED]
    assert run.taken["three axes"] == [FUSED if FIXED else MATH]
    assert run.taken["dropout"] == [MATH]


@each("dtype", DTYPES, *TYPES)
def test_three_axes_take_the_math_kernel__also_for(snippet, dtype):
    run = after(snippet, *START, "error-of", "both", "kernel")
    attend = F.scaled_dot_product_attention
    for shape in ((5, 8), (3, 5, 8), (2, 3, 4, 5, 8)):
        words = torch.randn(shape).to(dtype)
        kernel = FUSED if FIXED and len(shape) == 3 else MATH
        assert run.kernels(attend, words, words, words) == [kernel]
    words = torch.randn(2, 3, 5, 8).to(dtype)
    for options in ({}, {"is_causal": True}):
        assert run.kernels(attend, words, words, words, **options) == [FUSED]


@edits(
    ("an axis more", '"three axes": kernels(attend, *words_only)',
     '"three axes": kernels(attend, *heads)'),
    ("no dropout", "kernels(attend, *heads, dropout_p=0.1)",
     "kernels(attend, *heads)"),
    ("an axis less", '"four axes": kernels(attend, *heads)',
     '"four axes": kernels(attend, *words_only)'),
)  # fmt: skip
def test_three_axes_take_the_math_kernel__but_not_with(
    snippet, old, new, fails
):
    """These inputs take the other kernel."""
    if FIXED and "axes" in old:
        pytest.skip("Three axes take the fused kernel, too.")
    fails(test_three_axes_take_the_math_kernel, snippet.edit(old, new))


@pytest.mark.parametrize(
    "inputs",
    [
        "*heads, torch.zeros(4, 4, requires_grad=True)",
        "*heads, torch.ones(1, 4, 4, dtype=torch.bool)",
        "query, key, value[..., :2]",
        "query, key[:1], value[:1]",
    ],
    ids=[
        "a mask that requires gradients",
        "a mask of three axes",
        "values of fewer numbers",
        "keys for all sentences",
    ],
)
def test_three_axes_take_the_math_kernel__ends_with(snippet, inputs, fails):
    """The math kernel also runs for a mask that requires gradients or has
    three axes, and for keys and values of another shape than the queries.
    """
    old = '"four axes": kernels(attend, *heads)'
    edited = snippet.edit(old, old.replace("*heads", inputs))
    fails(test_three_axes_take_the_math_kernel, edited)


def test_weights_cost_the_fused_kernel(snippet):
    run = after(snippet, *START, "error-of", "both", "kernel")

    assert run.taken["layer"] == []
    assert run.taken["need_weights=False"] == [FUSED]
    batch = [run.batch] * 3
    close(run.layer(*batch, need_weights=False)[0], run.layer(*batch)[0])
    # Where no kernel was called, the layer has made the table itself.
    words = [torch.randn(1, 300, 4)] * 3
    table = 2 * 300 * 300 * 4  # bytes
    assert run.layer.num_heads == 2
    assert memory_of(run, run.layer, *words) >= table
    assert memory_of(run, run.layer, *words, need_weights=False) < table


def test_the_fast_path_computes_the_table(snippet):
    run = after(snippet, *START, "error-of", "both", "kernel")

    assert run.taken["in evaluation"] == []
    words, table = [torch.randn(1, 300, 4)] * 3, 2 * 300 * 300 * 4  # bytes
    assert not run.layer.training
    with torch.no_grad():
        found = memory_of(run, run.layer, *words, need_weights=False)
    assert found >= table


def memory_of(run, call, *inputs, **options):
    """Return the largest sum of bytes that one function of torch takes."""
    with run.profile(profile_memory=True) as seen:
        call(*inputs, **options)
    return max(row.cpu_memory_usage for row in seen.key_averages())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_weights_cost_the_fused_kernel__also(snippet, training, padded):
    run = after(snippet, *START, "error-of", "both", "kernel")
    layer = nn.MultiheadAttention(8, 2, batch_first=True).train(training)
    words, mask = torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)
    options = {"key_padding_mask": mask if padded else None}
    inputs = (layer, words, words, words)

    assert run.kernels(*inputs, **options) == []
    without = {"need_weights": False, **options}
    assert run.kernels(*inputs, **without) == [FUSED]


@pytest.mark.parametrize("name", ["no mask", "key_padding_mask", "attn_mask"])
@pytest.mark.parametrize("heads", [2, 4])
def test_the_fast_path_computes_the_table__also(snippet, name, heads):
    run = after(snippet, *START, "error-of", "both", "kernel")
    layer = nn.MultiheadAttention(8, heads, batch_first=True).eval()
    words = torch.randn(5, 5, 8)
    masks = {name: torch.zeros(5, 5, dtype=torch.bool)}
    masks = {} if name == "no mask" else masks
    inputs, without = (layer, words, words, words), {"need_weights": False}

    with torch.no_grad():
        assert run.kernels(*inputs, **without, **masks) == []
        layer.train()
        assert run.kernels(*inputs, **without, **masks) == [FUSED]


@edits(
    ("weights all the same", "*words_only, need_weights=False),",
     "*words_only),"),
    ("without weights", '"layer": kernels(layer, *words_only)',
     '"layer": kernels(layer, *words_only, need_weights=False)'),
)  # fmt: skip
def test_weights_cost_the_fused_kernel__but_not(snippet, old, new, fails):
    """With `need_weights=False`, a fused kernel runs."""
    fails(test_weights_cost_the_fused_kernel, snippet.edit(old, new))


@edits(
    ("in training mode", "layer.eval()\nwith", "layer.train()\nwith"),
    ("with other keys", "found = kernels(layer, *words_only, need",
     "found = kernels(layer, batch, batch[:, :2], batch[:, :2], need"),
    ("with gradients", "with torch.no_grad():\n    found",
     "with torch.enable_grad():\n    found"),
)  # fmt: skip
def test_the_fast_path_computes_the_table__but_not(snippet, old, new, fails):
    """In training mode, with gradients, and for the keys of another text, the
    fused kernel runs.
    """
    fails(test_the_fast_path_computes_the_table, snippet.edit(old, new))


@edits(
    ("the words on the first axis", "layer.eval()\nwith",
     "layer.eval().batch_first = False\nwith"),
    ("one head", "layer = nn.MultiheadAttention(4, num_heads=2",
     "layer = nn.MultiheadAttention(4, num_heads=1"),
    ("no bias", "2, batch_first=True)\noutput",
     "2, batch_first=True, bias=False)\noutput"),
    ("a mask of floats", "found = kernels(layer, *words_only, ",
     "found = kernels(layer, *words_only, attn_mask=torch.zeros(4, 4), "),
)  # fmt: skip
def test_the_fast_path_computes_the_table__ends_with(snippet, old, new, fails):
    """The fast path needs `batch_first=True`, an even number of heads, a bias,
    and masks of `bool`; else the fused kernel runs in evaluation too.
    """
    fails(test_the_fast_path_computes_the_table, snippet.edit(old, new))


def test_the_fast_path_computes_the_table__ends_when_it_is_off(snippet, fails):
    """After `torch.backends.mha.set_fastpath_enabled(False)`, evaluation takes
    the fused kernel as well.
    """
    switched = "torch.backends.mha.set_fastpath_enabled(False)"
    edited = snippet.edit(
        "layer.eval()\nwith", f"layer.eval()\n{switched}\nwith"
    )
    try:
        fails(test_the_fast_path_computes_the_table, edited)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_one_kernel_alone_raises(snippet):
    run = after(snippet, *START, "error-of", "both", "kernel", "one-kernel")

    assert "No available kernel" in run.no_kernel
    assert any("dropout" in reason for reason in run.reasons)
    assert "No viable backend" in run.not_here


@pytest.mark.filterwarnings("ignore")
def test_one_kernel_alone_raises__also_for_two_axes(snippet):
    run = after(snippet, *START, "error-of", "both")
    with (
        run.sdpa_kernel(run.SDPBackend.FLASH_ATTENTION),
        pytest.raises(RuntimeError, match="No available kernel"),
    ):
        F.scaled_dot_product_attention(*[run.vectors] * 3)
    both = [run.SDPBackend.FLASH_ATTENTION, run.SDPBackend.MATH]
    with run.sdpa_kernel(both):
        F.scaled_dot_product_attention(*[run.vectors] * 3)


@pytest.mark.filterwarnings("ignore")
@edits(
    ("the math kernel as well", "sdpa_kernel(SDPBackend.FLASH_ATTENTION)",
     "sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])"),
    ("no dropout", "value, dropout_p=0.1)\nreasons", "value)\nreasons"),
)  # fmt: skip
def test_one_kernel_alone_raises__but_not_with(snippet, old, new, fails):
    """There is a kernel that takes the inputs, so no error is raised."""
    fails(test_one_kernel_alone_raises, snippet.edit(old, new))


def test_one_kernel_alone_raises__ends_with_weights(snippet, fails):
    """`MultiheadAttention` with its weights calls none of these kernels, so
    it raises nothing.
    """
    old = "no_kernel = error_of(attend, query, key, value, dropout_p=0.1)"
    new = "no_kernel = error_of(layer, batch, batch, batch)"
    fails(test_one_kernel_alone_raises, snippet.edit(old, new))
