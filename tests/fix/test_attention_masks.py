"""The claims of docs/fix/attention_masks.md."""

import math
import platform
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.attention import changed, close
from tests.helpers.programs import after, error_of

MISMATCHED = "Support for mismatched key_padding_mask and attn_mask"


DTYPE = "Expected attn_mask dtype to be bool or float or to match query dtype"
IN_LAYER = "only bool and floating types of {} are supported"


def test_masks_of_integers_raise(snippet):
    run = after(snippet, "words", "mask-types")

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
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    words, mask = [heads[:, 0]] * 3, mask[0, 0].expand(4, 4)
    with pytest.raises(RuntimeError, match="Input dtypes must be the same"):
        layer(*words, attn_mask=mask)
    with no_error():
        layer(*words, attn_mask=mask.to(heads.dtype))


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


def test_bool_inverts_minus_infinity(snippet):
    with no_error():
        run = after(snippet, "words", "mask-types", "cast")

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


def test_each_head_needs_its_mask(snippet, sentences=5, heads=2, words=4):
    run = after(snippet, "words", "mask-for-each")
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


def test_each_head_needs_its_mask__also_of_padding_that_raises():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    words, padding = [torch.randn(2, 5, 4)] * 3, torch.zeros(2, 5).bool()
    said = r"2D attn_mask is torch.Size\(\[2, 5\]\), but should be \(5, 5\)"
    with pytest.raises(RuntimeError, match=said):
        layer(*words, attn_mask=padding)
    layer.eval()
    said = r"shape '\[1, 1, 5, 5\]' is invalid for input of size 10"
    with torch.no_grad(), pytest.raises(RuntimeError, match=said):
        layer(*words, attn_mask=padding, need_weights=False)


def test_each_head_needs_its_mask__also_for_other_keys():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    words, memory = torch.randn(3, 5, 8), torch.randn(3, 4, 8)
    out = torch.rand(3, 5, 4) < 0.5
    out[..., 0] = False
    options = {"attn_mask": out.repeat_interleave(2, dim=0)}
    found, _ = layer(words, memory, memory, **options)
    for one, other, mask, expected in zip(
        words, memory, out, found, strict=True
    ):
        close(layer(one, other, other, attn_mask=mask)[0], expected)


@pytest.mark.parametrize(
    ("sentences", "heads"), [(5, 1), (1, 2)], ids=["head", "sentence"]
)
def test_each_head_needs_its_mask__ends_with_one(
    snippet, sentences, heads, fails
):
    """With a single head, or a single sentence, both are the same."""
    fails(test_each_head_needs_its_mask, snippet, sentences, heads)


@edits(
    (
        "the other way",
        "out.repeat_interleave(2, dim=0)",
        "out.repeat(2, 1, 1)",
    ),
    ("once more", "=out.repeat(2, 1, 1))", "=out.repeat_interleave(2, 0))"),
    (
        "one sentence",
        "torch.tensor([4, 2])",
        "torch.tensor([2, 2])",
    ),
)
def test_each_head_needs_its_mask__but_not(snippet, old, new, fails):
    """The masks change places, or are all alike."""
    fails(test_each_head_needs_its_mask, snippet.edit(old, new))


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
    run = after(snippet, "words", "both")

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


@pytest.mark.parametrize("axes", [3, 4])
def test_both_masks_raise_or_combine__also_combined_as_floats(axes):
    torch.manual_seed(0)
    heads = torch.randn((2, 3, 5, 8)[4 - axes :])
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    keep = torch.arange(5) != 2
    floats = torch.zeros(5).masked_fill(~keep, -math.inf)[None]
    attend = F.scaled_dot_product_attention

    found = attend(*[heads] * 3, floats.masked_fill(~causal, -math.inf))
    close(found, attend(*[heads] * 3, keep & causal))


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
        run = after(snippet, "words", "hint")
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


def test_the_hint_needs_a_mask__also_in_an_encoder(snippet):
    run, said = after(snippet, "words", "hint"), "Need attn_mask if specifying"
    options = {"batch_first": True, "dropout": 0}
    layer = nn.TransformerEncoderLayer(4, 2, 8, **options)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    other = run.batch.clone()
    other[:, 3] = run.vectors[0]

    def moves(model, **masks):
        difference = model(run.batch, **masks) - model(other, **masks)
        return difference[:, :3].abs().max().item()

    hidden = {"src_key_padding_mask": ~run.keep}
    for model, name in ((encoder, "mask"), (layer, "src_mask")):
        assert said in run.error_of(model.train(), run.batch, is_causal=True)
        assert moves(model, **{name: ~run.causal}, **hidden) < 1e-5
        with torch.no_grad():
            assert moves(model.eval(), is_causal=True) > 0.01
            assert moves(model, **{name: ~run.causal}, **hidden) < 1e-5


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


def test_one_kernel_alone_raises(snippet, word="dropout"):
    run = after(snippet, "words", "one-kernel")

    assert "No available kernel" in run.no_kernel
    head, *why = run.reasons
    assert head == "Flash attention kernel not used because:"
    assert len(why) == 1
    assert word in why[0]
    assert "No viable backend" in run.not_here


@pytest.mark.filterwarnings("ignore")
def test_one_kernel_alone_raises__also_for_two_axes(snippet):
    run = after(snippet, "words", "both")
    with (
        run.sdpa_kernel(run.SDPBackend.FLASH_ATTENTION),
        pytest.raises(RuntimeError, match="No available kernel"),
    ):
        F.scaled_dot_product_attention(*[run.vectors] * 3)
    both = [run.SDPBackend.FLASH_ATTENTION, run.SDPBackend.MATH]
    with run.sdpa_kernel(both):
        F.scaled_dot_product_attention(*[run.vectors] * 3)


def test_one_kernel_alone_raises__also_for_values_of_another_size(snippet):
    old = "query, key, value, dropout_p=0.1"
    edited = snippet.edit(old, "query, key, value[..., :3]")
    test_one_kernel_alone_raises(edited, "to have the same last dimension")


@pytest.mark.filterwarnings("ignore")
@edits(
    ("the math kernel as well", "sdpa_kernel(SDPBackend.FLASH_ATTENTION)",
     "sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])"),
    ("no dropout", "value, dropout_p=0.1)\nreasons", "value)\nreasons"),
)  # fmt: skip
def test_one_kernel_alone_raises__but_not_with(snippet, old, new, fails):
    """There is a kernel that takes the inputs, so no error is raised."""
    fails(test_one_kernel_alone_raises, snippet.edit(old, new))


def test_one_kernel_alone_raises__ends_with_a_mask_that_learns(snippet, fails):
    """On a CPU, no warning says that the kernel takes no mask which needs a
    gradient.
    """
    mask = "attn_mask=torch.zeros(4, 4, requires_grad=True)"
    edited = snippet.edit("value, dropout_p=0.1)\nreasons",
                          f"value, {mask})\nreasons")  # fmt: skip
    run = after(edited, "words", "one-kernel")
    assert "No available kernel" in run.no_kernel
    assert run.reasons == ["Flash attention kernel not used because:"]
    fails(test_one_kernel_alone_raises, edited, "")


def test_one_kernel_alone_raises__ends_with_weights(snippet, fails):
    """`MultiheadAttention` with its weights calls none of these kernels, so
    it raises nothing.
    """
    old = "no_kernel = error_of(attend, query, key, value, dropout_p=0.1)"
    new = "no_kernel = error_of(layer, batch, batch, batch)"
    fails(test_one_kernel_alone_raises, snippet.edit(old, new))


def test_mismatched_masks_warn(snippet, floats=None, keys=None):
    run = after(snippet, "words", "mismatched")
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


def test_mismatched_masks_warn__also_in_an_encoder(snippet):
    run = after(snippet, "words", "mismatched")
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    said = "Support for mismatched src_key_padding_mask and mask is deprecated"
    hidden = {"src_key_padding_mask": ~run.keep}
    with pytest.warns(UserWarning, match=said):
        encoder(run.batch, run.floats, **hidden)
    with no_error():
        encoder(run.batch, ~run.causal, **hidden)


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


def test_other_lengths_raise(snippet):
    run = after(snippet, "words", "other-lengths")
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


def test_a_padding_mask_needs_its_axes(snippet):
    run = after(snippet, "words", "no-axes")

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
    """The mask of a sentence then holds for each of its words, or the mask of
    the first sentence for all.
    """
    fails(test_a_padding_mask_needs_its_axes, snippet.edit(old, new))


def test_other_numbers_of_sentences_raise(snippet):
    run = after(snippet, "words", "no-axes")

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
    run = after(snippet, "words", "left-padding")

    assert run.first.isnan().any(dim=2)[0].tolist() == [True, True, False, 0]
    assert run.second.isnan().all()
    assert not run.allowed[2:, :2].any()


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

    run = after(snippet, "words", "left-padding")
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    masks = {
        "mask": ~run.causal,
        "src_key_padding_mask": ~run.keep[1:].flip(1),
    }
    for training in (True, False):
        for gradients in (True, False):
            with torch.set_grad_enabled(gradients):
                found = encoder.train(training)(run.left, **masks)
            bad = not training and not gradients  # the fast path
            assert found.isnan().all() if bad else found.isfinite().all()


def test_the_diagonal_keeps_rows_finite(snippet):
    run = after(snippet, "words", "left-padding", "diagonal")

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


def apart(ids):
    """Return a causal mask for documents, whose numbers may be a batch."""
    causal = torch.ones(ids.shape[-1:] * 2, dtype=torch.bool).tril()
    return (ids[..., None] == ids[..., None, :]) & causal


def test_documents_stay_apart(snippet, positions=None):
    run = after(snippet, "words", "documents")

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


def test_multihead_dropout_stops_in_eval(snippet):
    run = after(snippet, "words", "dropout")

    assert torch.equal(*run.tries)
    close(run.tries[0], run.dropping(*[run.batch] * 3)[0])
    assert not torch.allclose(*run.still)
    run.dropping.train()
    found = [run.dropping(*[run.batch] * 3)[0] for _ in range(2)]
    assert not torch.allclose(*found)
    assert run.dropping.dropout == 0.5


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
    drops none, nor does a layer without `dropout`.
    """
    fails(test_multihead_dropout_stops_in_eval, snippet.edit(old, new))
