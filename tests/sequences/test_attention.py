"""The claims of docs/sequences/attention.md."""

import copy
import math
import platform
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.attention import changed, close
from tests.helpers.programs import after
from tests.helpers.worlds import DTYPES, each

TYPES = ("float64", "float32", "bfloat16", "float16")
START = ("words", "do-this", "by-hand")


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
    run = after(snippet, "words", "do-this")
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    layer, batch = nn.MultiheadAttention(4, 2, batch_first=True), run.batch
    layer.train(training)
    nn.init.eye_(layer.out_proj.weight)
    layer.in_proj_weight.data.copy_(torch.eye(4).repeat(3, 1))
    masks = {"attn_mask": ~causal, "key_padding_mask": ~run.keep}
    assert torch.ones(4, 4).triu(1).bool().equal(~causal)  # as on the page

    with torch.no_grad():
        options = {"need_weights": need_weights, **masks}
        found, _ = layer(batch, batch, batch, **options)
    heads = [batch.unflatten(2, (2, 2)).transpose(1, 2)] * 3
    both = run.keep[:, None, None] & causal
    expected = F.scaled_dot_product_attention(*heads, both)
    close(found, expected.transpose(1, 2).flatten(2))


def test_true_means_the_opposite__also_on_another_device(snippet):
    """The line for a GPU: `device` comes from the lengths."""
    lengths = "lengths = torch.tensor([4, 2])"
    moved = 'lengths, batch = lengths.to("meta"), batch.to("meta")'
    edited = snippet.edit(lengths, f"{lengths}\n{moved}")
    places = "torch.arange(batch.shape[1], device=lengths.device)"
    edited = edited.edit("torch.arange(4)", places)
    layer = "batch_first=True)\noutput"
    edited = edited.edit(layer, layer.replace(")", ').to("meta")'))
    with no_error():
        run = after(edited, "words", "do-this")
    for found in (run.mixed, run.output, run.keep):
        assert found.device.type == "meta"


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


def same(run, inputs, dtype=torch.float32, **options):
    """Compare the ten lines with the function: results and gradients."""
    found = []
    for call in (run.attention, F.scaled_dot_product_attention):
        leaves = [leaf.detach().to(dtype).requires_grad_() for leaf in inputs]
        with no_error():
            result = call(*leaves, **options)
        result = result[0] if call is run.attention else result
        torch.manual_seed(0)
        loss = (result * torch.randn(result.shape).to(dtype)).sum()
        needed = {"allow_unused": True, "materialize_grads": True}
        found.append([result, *torch.autograd.grad(loss, leaves, **needed)])
    for mine, theirs in zip(*found, strict=True):
        assert mine.dtype == theirs.dtype == dtype
        assert mine.shape == theirs.shape
        close(mine, theirs, dtype)


def test_these_lines_are_attention(
    snippet, shape=(2, 3, 5, 8), dtype=torch.float32, keys=None, options=None
):
    run = after(snippet, *START, "compare")
    torch.manual_seed(1)
    *outer, queries, size = shape
    keys = queries if keys is None else keys
    inputs = [torch.randn(*outer, n, size) for n in (queries, keys, keys)]
    some = torch.rand(queries, keys) < 0.5
    some[:, :1] = True  # no row is masked as a whole
    floats = torch.randn(queries, keys)
    floats[some.roll(1, 1) & ~some] = -math.inf
    masks = {"attn_mask": some}, {"attn_mask": floats.to(dtype)}
    for chosen in ({}, {"is_causal": True}, *masks):
        same(run, inputs, dtype, **{**chosen, **(options or {})})
    for chosen in ({"attn_mask": run.mask}, {"attn_mask": run.floats}):
        same(run, [run.query] * 3, **chosen)
    worst = [run.apart(**chosen) for chosen in ({}, {"is_causal": True})]
    assert max(worst) < 1e-5


@each("dtype", DTYPES, *TYPES)
def test_these_lines_are_attention__also_for(snippet, dtype):
    test_these_lines_are_attention(snippet, dtype=dtype)


@pytest.mark.parametrize(
    ("shape", "keys"),
    [((5, 8), 7), ((3, 5, 8), 2), ((2, 1, 1, 1), 9), ((2, 3, 70, 64), 70)],
    ids=["two axes", "three axes", "one query of one number", "70 words"],
)
def test_these_lines_are_attention__also_of(snippet, shape, keys):
    test_these_lines_are_attention(snippet, shape, keys=keys)


def test_these_lines_are_attention__also_after_cats(snippet):
    run = after(snippet, *START, "cats", "zero-query")
    powers = torch.tensor([math.e, math.e**2, math.e, 1])
    close(run.weights[1], powers / powers.sum())
    close(run.gathered[1], (powers / powers.sum()) @ run.vectors)
    close(run.gathered[1, 0], torch.tensor(1.4621))
    close(run.even, torch.full((1, 4), 0.25))


def test_these_lines_are_attention__also_for_a_mask_that_learns(snippet):
    run = after(snippet, *START)
    torch.manual_seed(0)
    words, found = torch.randn(2, 3, 5, 8), []
    for call in (run.attention, F.scaled_dot_product_attention):
        bias = torch.ones(5, 5).tril().requires_grad_()
        result = call(words, words, words, bias)
        result = result[0] if call is run.attention else result
        result.pow(3).sum().backward()
        found.append(bias.grad)
    close(*found)


def test_these_lines_are_attention__also_on_another_device(snippet):
    run = after(snippet, *START)
    words = torch.empty(2, 3, 5, 8, device="meta")
    mask = torch.empty(5, 5, dtype=torch.bool, device="meta")
    for options in ({}, {"attn_mask": mask}, {"is_causal": True}):
        with no_error():
            found, weights = run.attention(words, words, words, **options)
        assert (found.shape, found.device.type) == (words.shape, "meta")
        assert weights.shape == (2, 3, 5, 5)


@edits(
    ("line 1: no division", " / key.shape[-1] ** 0.5  # 1", "  # 1"),
    ("line 2: the other triangle", ".tril().bool()", ".triu().bool()"),
    ("line 3: the opposite", "_fill(~attn_mask", "_fill(attn_mask"),
    ("line 4: subtracted", "scores + attn_mask", "scores - attn_mask"),
    ("line 5: over the queries", "softmax(dim=-1)", "softmax(dim=-2)"),
    ("line 6: the keys", "return weights @ value", "return weights @ key"),
)  # fmt: skip
def test_these_lines_are_attention__but_not_with(snippet, old, new, fails):
    """Then these lines compute something else."""
    fails(test_these_lines_are_attention, snippet.edit(old, new))


def test_these_lines_are_attention__but_not_with_weights_cut_off(
    snippet, fails
):
    """If the weights are detached, queries and keys get no gradient."""
    old = "weights = scores.softmax(dim=-1)  # 5"
    edited = snippet.edit(old, "weights = scores.detach().softmax(dim=-1)")
    fails(test_these_lines_are_attention, edited)


@pytest.mark.parametrize(
    "options",
    [{"dropout_p": 0.5}, {"scale": 1.0}, {"enable_gqa": True}],
    ids=["dropout_p", "scale", "enable_gqa"],
)
def test_these_lines_are_attention__ends_with(snippet, options, fails):
    """These lines don't take `dropout_p`, `scale` or `enable_gqa`."""
    shape, dtype = (2, 3, 5, 8), torch.float32
    inputs = (snippet, shape, dtype, None, options)
    fails(test_these_lines_are_attention, *inputs)


@pytest.mark.parametrize(
    "options",
    [{"attn_mask": torch.ones(5, 5).long()}, {"is_causal": True}],
    ids=["integers", "is_causal beside a mask"],
)
def test_these_lines_are_attention__ends_for_masks_of(snippet, options, fails):
    """A mask of integers raises an error in PyTorch, and these lines add it;
    beside a mask, `is_causal` raises or counts as well, where line 2 replaces
    the mask.
    """
    inputs = (snippet, (2, 3, 5, 8), torch.float32, None, options)
    fails(test_these_lines_are_attention, *inputs)
    run = after(snippet, *START)
    words, ones = [run.vectors] * 3, torch.ones(4, 4).tril()
    close(run.attention(*words, ones.long())[1],
          run.attention(*words, ones)[1])  # fmt: skip
    close(run.attention(*words, ones.bool().flip(1), is_causal=True)[1],
          run.attention(*words, is_causal=True)[1])  # fmt: skip


def test_these_lines_are_attention__ends_for_a_wider_mask(snippet, fails):
    """PyTorch takes a `float32` mask for 16-bit queries; these lines raise an
    error.
    """
    options = {"attn_mask": torch.zeros(5, 5)}
    inputs = (snippet, (2, 3, 5, 8), torch.float16, None, options)
    fails(test_these_lines_are_attention, *inputs)


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="no x86 CPU"
)
def test_these_lines_are_attention__ends_for_a_row_without_keys(
    snippet, fails
):
    """For a query that may see nothing, these lines give `nan`;
    `scaled_dot_product_attention` gives 0 on an x86 CPU.
    """
    run, mask = after(snippet, *START), torch.ones(5, 5, dtype=torch.bool)
    mask[2] = False
    words = torch.ones(5, 5, 8)
    assert run.attention(words, words, words, mask)[0][:, 2].isnan().all()
    found = F.scaled_dot_product_attention(words, words, words, mask)
    assert not found[:, 2].any()
    options = (snippet, (2, 3, 5, 8), torch.float32, None, {"attn_mask": mask})
    fails(test_these_lines_are_attention, *options)


def test_dot_products_spread_by_the_root(snippet):
    run = after(snippet, "words", "spread")

    assert run.size == 1024
    close(run.products.std() / 32, torch.ones(()), torch.bfloat16)
    close(run.scores.std(), torch.ones(()), torch.bfloat16)
    assert run.products.softmax(dim=1).amax(dim=1).mean() > 0.5
    assert run.scores.softmax(dim=1).amax(dim=1).mean() < 0.05


@pytest.mark.parametrize("size", [1, 4, 64, 768])
@pytest.mark.parametrize("kind", ["normal", "uniform", "plus or minus one"])
def test_dot_products_spread_by_the_root__also_for(kind, size):
    torch.manual_seed(0)
    shape = (2, 1500, size)
    numbers = {
        "normal": torch.randn(shape),
        "uniform": (torch.rand(shape) - 0.5) * 12**0.5,
        "plus or minus one": torch.randint(2, shape) * 2.0 - 1,
    }[kind]
    products = numbers[0] @ numbers[1].T
    spread = products.std() / size**0.5
    assert spread.item() == pytest.approx(1, abs=0.06)


@edits(
    ("divided by d", "products / size**0.5", "products / size"),
    ("not divided", "products / size**0.5", "products"),
    ("a larger variance", "torch.randn(2,", "2 * torch.randn(2,"),
)
def test_dot_products_spread_by_the_root__but_not(snippet, old, new, fails):
    """Another divisor, or another variance, gives another spread."""
    fails(test_dot_products_spread_by_the_root, snippet.edit(old, new))


def test_dot_products_spread_by_the_root__ends_if_they_depend(snippet, fails):
    """If the queries are the keys, a word's product with itself is near d."""
    old = "queries, keys = torch.randn(2, 1000, size)"
    new = "queries = keys = torch.randn(1000, size)"
    fails(test_dot_products_spread_by_the_root, snippet.edit(old, new))


def test_causal_hides_the_future(snippet):
    run = after(snippet, *START, "cats")
    words = run.vectors.clone()
    _, past = run.attention(words, words, words, is_causal=True)

    assert not past.triu(diagonal=1).any()
    assert (past.diagonal() > 0).all()
    close(past.sum(dim=1), torch.ones(4))
    found = F.scaled_dot_product_attention(*[words] * 3, is_causal=True)
    close(found, past @ words)


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
    _, past = run.attention(*[run.vectors] * 3, is_causal=True)
    close(run.table[0], past)
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
    ("no mask", "    if is_causal:", "    if False:"),
    ("the future", "torch.ones_like(scores).tril()",
     "torch.ones_like(scores).triu()"),
    ("one word more", ".tril().bool()", ".tril(1).bool()"),
)  # fmt: skip
def test_causal_hides_the_future__but_not_with(snippet, old, new, fails):
    """Then a word takes from the words that follow it."""
    fails(test_causal_hides_the_future, snippet.edit(old, new))


def test_causal_hides_the_future__ends_in_multihead_attention(snippet, fails):
    """In `MultiheadAttention`, in evaluation under `no_grad`: alone, it is a
    hint that hides nothing.
    """
    old = "return weights @ value, weights  # 6"
    layers = "layer.eval()(*[vectors[None]] * 3, is_causal=True)"
    new = f"return {layers}[0][0], {layers}[1][0]"
    edited = snippet.edit(old, new)
    with torch.no_grad():
        fails(test_causal_hides_the_future, edited)


def test_multihead_is_attention_between_layers(snippet):
    run = after(snippet, *START, "by-parts")
    close(run.by_parts, run.output)
    assert run.layer.num_heads == 2
    weights, found = [*run.layer.parameters()], []
    for output in (run.by_parts, run.output):
        found.append(torch.autograd.grad(output.pow(3).sum(), weights))
    for mine, theirs in zip(*found, strict=True):
        close(mine, theirs)


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
    ("other heads", "(2, (2, 2))", "(2, (4, 1))"),
    ("no last layer", "layer.out_proj(by_head.transpose(1, 2).flatten(2))",
     "by_head.transpose(1, 2).flatten(2)"),
    ("no mask", "(*heads, mask)", "(*heads)"),
    ("other weights", "F.linear(batch, weight,",
     "F.linear(batch, weight.flip(0),"),
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
    assert not run.maps[0].requires_grad  # or the maps keep each graph


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


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("gradients", [True, False])
def test_hooks_get_the_weights__also_with_nested_tensors(snippet, gradients):
    run = after(snippet, "words", "do-this", "maps")
    encoder = nn.TransformerEncoder(run.block, 2).eval()
    run.maps.clear()
    with torch.set_grad_enabled(gradients):
        encoder(run.batch, src_key_padding_mask=~run.keep)
    assert [found.shape for found in run.maps] == [(2, 4, 4)] * 2
    assert not any(found[1, :2, 2:].any() for found in run.maps)


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


def test_an_inverted_mask_is_silent(snippet):
    with no_error(), warnings.catch_warnings():
        warnings.simplefilter("error")
        run = after(snippet, *START, "inverted")

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
    ("the right mask", "value, ~mask)", "value, mask)"),
    ("the right mask in the layer", "batch, key_padding_mask=keep)",
     "batch, key_padding_mask=~keep)"),
    ("no padding", "torch.tensor([4, 2])", "torch.tensor([4, 4])"),
)  # fmt: skip
def test_an_inverted_mask_is_silent__but_not_with(snippet, old, new, fails):
    """The words attend to words; without padding, nothing is left."""
    fails(test_an_inverted_mask_is_silent, snippet.edit(old, new))


def test_an_inverted_causal_mask_shows_the_future(snippet):
    run = after(snippet, *START, "inverted-causal")

    assert not run.cheating[:3].tril().any()
    assert run.cheating[3].isnan().all()
    assert (run.cheating.triu(diagonal=1)[:3].sum(dim=1) > 0.99).all()
    hidden = run.hidden_future
    found = F.scaled_dot_product_attention(*[run.vectors] * 3, hidden)
    close(found[:3], (run.cheating @ run.vectors)[:3])
    # The test of the page tells the wrong mask from the right one.
    assert not run.shift[:3].any()
    assert run.triangle.equal(~hidden)
    # The layer, too, shows the future when it is given the other's mask.
    _, spoiled = run.layer(*[run.batch] * 3, attn_mask=~hidden)
    assert not spoiled[:, :3].tril().any()
    assert spoiled[:, 3].isnan().all()


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


def test_an_inverted_causal_mask_shows_the_future__also_after_a_norm(snippet):
    run = after(snippet, *START, "inverted-causal")
    torch.manual_seed(0)
    options = {"dropout": 0, "norm_first": True, "batch_first": True}
    layer = nn.TransformerEncoderLayer(4, 2, 8, **options)
    none = torch.zeros(4, 4, dtype=torch.bool)  # shows all words to each
    added = run.vectors.clone()
    added[3] += 1

    def moves(other, mask):
        with torch.no_grad():
            words = torch.stack([run.vectors, other])
            before, moved = layer(words, mask)[:, :3]
        return (before - moved).abs().max().item()

    assert moves(run.changed, none) > 0.01
    assert moves(run.changed, run.hidden_future) < 1e-5
    assert moves(added, none) < 1e-5  # LayerNorm takes it back


@edits(
    ("the whole square", ".triu(diagonal=1)", ""),
    ("the word itself", ".triu(diagonal=1)", ".triu()"),
)
def test_an_inverted_causal_mask_shows_the_future__but_not_with(
    snippet, old, new, fails
):
    """Then a word sees itself, or what came before."""
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
    _, by_bool = run.attention(*[run.query] * 3, run.keep[:, None, None])
    close(run.attention(*[run.query] * 3, hidden)[1], by_bool)
    found = F.scaled_dot_product_attention(*[run.query] * 3, run.mask.float())
    close(found, run.added @ run.value)


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
    asked = "attention(query, key, value, mask.float())"
    real = "F.scaled_dot_product_attention(query, key, value, mask.long())"
    edited = snippet.edit(asked, f"{real}, None")
    fails(test_float_masks_are_added, edited)


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
    old = "attention(newest, vectors, vectors, is_causal=True)"
    edited = snippet.edit(old, "attention(newest, vectors, vectors)")
    fails(test_causal_starts_at_the_first_key, edited)


def test_causal_starts_at_the_first_key__but_not_with_all_queries(
    snippet, fails
):
    """The last of four words sees all four."""
    old = "attention(newest, vectors, vectors, is_causal=True)"
    new = "attention(*[vectors] * 3, is_causal=True)"
    edited = snippet.edit(old, f"(each[3:] for each in {new})")
    fails(test_causal_starts_at_the_first_key, edited)


def test_a_shifted_triangle_fits_a_cache(snippet):
    run = after(snippet, *START, "cache", "shifted")

    _, past = run.attention(*[run.vectors] * 3, is_causal=True)
    close(run.alone, past[3:])
    close(run.last_two, past[2:])


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
    ("is_causal", "vectors, shifted)", "vectors, is_causal=True)"),
    ("no mask", "attention(vectors[2:], vectors, vectors, shifted)",
     "attention(vectors[2:], vectors, vectors)"),
    ("another diagonal", "diagonal=4 - 2", "diagonal=1"),
    ("a mask for one", "_, alone = attention(newest, vectors, vectors)",
     "_, alone = attention(newest, vectors, vectors, is_causal=True)"),
)  # fmt: skip
def test_a_shifted_triangle_fits_a_cache__but_not_with(
    snippet, old, new, fails
):
    """The new words then miss a word, or see a later one."""
    fails(test_a_shifted_triangle_fits_a_cache, snippet.edit(old, new))


def test_without_batch_first_sentences_mix(snippet):
    with no_error():
        run = after(snippet, "words", "do-this", "batch-first")

    assert run.across.shape == (4, 2, 2)
    assert torch.equal(run.other[0], run.batch[0])
    assert not torch.allclose(run.after[0], run.before[0])
    straight, _ = run.mixing(*[run.batch.transpose(0, 1)] * 3)
    assert not torch.allclose(straight.transpose(0, 1), run.before)
    # Each word attends to the words at its place in the other sentences.
    said = "Expected key_padded_mask.shape.* to be 4"
    with pytest.raises(AssertionError, match=said):
        run.mixing(*[run.batch] * 3, key_padding_mask=torch.zeros(2, 4))
    run.mixing.batch_first = True
    expected, _ = run.mixing(*[run.batch.transpose(0, 1)] * 3)
    close(run.before, expected.transpose(0, 1))


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
    """With `batch_first=True`, no sentence sees another; if none changes, none
    moves.
    """
    fails(test_without_batch_first_sentences_mix, snippet.edit(old, new))


FUSED = "aten::_scaled_dot_product_flash_attention_for_cpu"
MATH = "aten::_scaled_dot_product_attention_math"


def memory_of(run, call, *inputs, **options):
    """Return the largest sum of bytes that one function of torch takes."""
    with run.profile(profile_memory=True) as seen:
        call(*inputs, **options)
    return max(row.cpu_memory_usage for row in seen.key_averages())


def test_weights_cost_the_fused_kernel(snippet):
    run = after(snippet, *START, "inverted-causal", "kernel")

    assert run.taken["layer"] == []
    assert run.taken["layer, need_weights=False"] == [FUSED]
    batch = [run.batch] * 3
    close(run.layer(*batch, need_weights=False)[0], run.layer(*batch)[0])
    # Where no kernel was called, the layer has made the table itself.
    words = [torch.randn(1, 300, 4)] * 3
    table = 2 * 300 * 300 * 4  # bytes
    assert run.layer.num_heads == 2
    assert memory_of(run, run.layer, *words) >= table
    assert memory_of(run, run.layer, *words, need_weights=False) < table


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_weights_cost_the_fused_kernel__also(snippet, training, padded):
    run = after(snippet, *START, "inverted-causal", "kernel")
    layer = nn.MultiheadAttention(8, 2, batch_first=True).train(training)
    words, mask = torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)
    options = {"key_padding_mask": mask if padded else None}
    inputs = (layer, words, words, words)

    assert run.kernels(*inputs, **options) == []
    without = {"need_weights": False, **options}
    assert run.kernels(*inputs, **without) == [FUSED]


@edits(
    ("weights all the same", "layer, *three_axes, need_weights=False\n",
     "layer, *three_axes\n"),
    ("without weights", '"layer": kernels(layer, *three_axes)',
     '"layer": kernels(layer, *three_axes, need_weights=False)'),
)  # fmt: skip
def test_weights_cost_the_fused_kernel__but_not(snippet, old, new, fails):
    """With `need_weights=False`, a fused kernel runs."""
    fails(test_weights_cost_the_fused_kernel, snippet.edit(old, new))


def test_weights_cost_the_fused_kernel__ends_with_dropout(snippet, fails):
    """In training with `dropout`, the math kernel runs, which computes the
    table as well.
    """
    old = "num_heads=2, batch_first=True)\noutput"
    edited = snippet.edit(old, old.replace("2,", "2, dropout=0.1,"))
    fails(test_weights_cost_the_fused_kernel, edited)


def test_the_fast_path_computes_the_table(snippet):
    run = after(snippet, *START, "inverted-causal", "kernel")

    assert run.taken["the same in evaluation, no_grad"] == []
    words, table = [torch.randn(1, 300, 4)] * 3, 2 * 300 * 300 * 4  # bytes
    layer = copy.deepcopy(run.layer).eval()
    with torch.no_grad():
        found = memory_of(run, layer, *words, need_weights=False)
    assert found >= table


@pytest.mark.parametrize("name", ["no mask", "key_padding_mask", "attn_mask"])
@pytest.mark.parametrize("heads", [2, 4])
def test_the_fast_path_computes_the_table__also(snippet, name, heads):
    run = after(snippet, *START, "inverted-causal", "kernel")
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
    ("in training mode", "layer.eval()\nwith", "layer.train()\nwith"),
    ("with other keys", "found = kernels(layer, *three_axes, need",
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
    ("a mask of floats", "found = kernels(layer, *three_axes, ",
     "found = kernels(layer, *three_axes, attn_mask=torch.zeros(4, 4), "),
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
