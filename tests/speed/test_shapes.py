"""The claims of docs/speed/shapes.md."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import after

MODEL = ("imports", "round-up", "next-letter")
LOSSES = (*MODEL, "text", "uncut", "masked", "smoothed", "cut")


def sizes(*cases):
    """Run a test with each of some numbers of letters and multiples."""
    ids = [f"{few} padded to {-(-few // of) * of}" for few, of in cases]
    return pytest.mark.parametrize(("letters", "multiple"), cases, ids=ids)


# Do this


def test_multiples_come_from_bytes(snippet):
    multiples = after(snippet, "imports", "multiples").multiples

    assert {
        name: (row["numbers in 16 bytes"], row["numbers in 128 bytes"])
        for name, row in multiples.items()
    } == {
        "torch.float16": (8, 64),
        "torch.bfloat16": (8, 64),
        "torch.float32": (4, 32),
        "torch.int8": (16, 128),
    }
    for name, row in multiples.items():
        dtype = getattr(torch, name.removeprefix("torch."))
        for size in (16, 128):
            numbers = torch.zeros(row[f"numbers in {size} bytes"], dtype=dtype)
            assert numbers.untyped_storage().nbytes() == size
        assert row["bytes of a number"] == torch.ones(1, dtype=dtype).nbytes


@edits(
    ("16 // dtype", "32 // dtype"),
    ("128 // dtype", "64 // dtype"),
    ("torch.float32, torch.int8)", "torch.float64, torch.int8)"),
    ("torch.float32, torch.int8)", "torch.float32, torch.int16)"),
    ("(torch.float16, torch.b", "(torch.float8_e5m2, torch.b"),
)
def test_multiples_come_from_bytes__but_not(snippet, fails, old, new):
    """In 32 bytes there is room for twice as many; the other edits count for
    another size, or another dtype.
    """
    fails(test_multiples_come_from_bytes, snippet.edit(old, new))


def pair(run, letters, multiple):
    """Return a model with padding and one without, with equal weights."""
    padded = run.NextLetter(letters, multiple=multiple)
    plain = run.NextLetter(letters, multiple=1)
    with torch.no_grad():
        for full, part in zip(
            padded.parameters(), plain.parameters(), strict=True
        ):
            part.copy_(full[:letters])
    return padded, plain


def same(padded, plain):
    """Check the gradients of a pair: equal, and 0 in the padding."""
    for full, part in zip(
        padded.parameters(), plain.parameters(), strict=True
    ):
        torch.testing.assert_close(full.grad[: len(part)], part.grad)
        assert not full.grad[len(part) :].any()


def test_cut_off_padding_changes_nothing(
    snippet, letters=27, multiple=8, seed=0, ignored=0, likely=False, **options
):
    run = after(snippet, *MODEL)
    torch.manual_seed(seed)
    padded, plain = pair(run, letters, multiple)
    x, y = torch.randint(letters, (2, 3, 20))
    y[:, :ignored] = -100
    target = torch.rand(60, letters).softmax(1) if likely else y.flatten()
    with no_error():
        losses = [
            F.cross_entropy(model(x).flatten(0, 1), target, **options)
            for model in (padded, plain)
        ]
    sum(losses).backward()

    assert len(padded.head.weight) == run.round_up(letters, multiple)
    torch.testing.assert_close(*losses)
    same(padded, plain)


@pytest.mark.parametrize("seed", range(3))
@sizes((27, 64), (10, 16), (32, 8), (1, 4), (200, 7))
def test_cut_off_padding_changes_nothing__also_for(
    snippet, letters, multiple, seed
):
    test_cut_off_padding_changes_nothing(snippet, letters, multiple, seed)


@pytest.mark.parametrize(
    "options",
    [
        {"label_smoothing": 0.1},
        {"reduction": "sum"},
        {"weight": torch.linspace(1, 2, 27)},
        {"ignore_index": 3},
        {"ignored": 7},
        {"likely": True},
    ],
    ids=[
        "label smoothing",
        "a sum",
        "weights",
        "an ignored class",
        "ignored labels",
        "probabilities as targets",
    ],
)
def test_cut_off_padding_changes_nothing__also_with(snippet, options):
    test_cut_off_padding_changes_nothing(snippet, **options)


@edits(
    ("left on", "[..., : self.letters]", ""),
    ("cut in front", "[..., : self.letters]", "[..., -self.letters :]"),
    ("one left on", "[..., : self.letters]", "[..., : self.letters + 1]"),
)
def test_cut_off_padding_changes_nothing__but_not(snippet, fails, old, new):
    """Left on, cut off at the wrong end, or cut one column too late, padding
    changes the loss.
    """
    fails(test_cut_off_padding_changes_nothing, snippet.edit(old, new))


def test_a_width_is_no_padding(snippet, make=nn.LayerNorm):
    """No cell shows it: the layers themselves differ."""
    for width, more in ((27, 5), (100, 28), (3, 5)):
        torch.manual_seed(width)
        x = torch.randn(6, width)
        outputs = make(width)(x)
        padded = make(width + more)(F.pad(x, (0, more)))
        assert not torch.allclose(padded[:, :width], outputs)


def test_a_width_is_no_padding__ends_for_a_batch_norm(snippet, fails):
    """For `BatchNorm1d`: it normalizes each column by itself, so appended
    zeros change nothing in the others.
    """
    fails(test_a_width_is_no_padding, snippet, nn.BatchNorm1d)


# How it works


def test_round_rows_begin_on_the_grid(
    snippet, dtype=torch.float16, times=4, more=0
):
    run = after(snippet, "imports", "rows")
    width = times * 16 // torch.ones(1, dtype=dtype).element_size() + more

    assert run.beyond(width, dtype) == 10 * [0]
    for make in (torch.zeros, torch.ones, torch.empty):
        found = [row.data_ptr() % 16 for row in make(10, width, dtype=dtype)]
        assert found == 10 * [0]


def test_round_rows_begin_on_the_grid__but_not_in_a_wider_matrix(
    snippet, fails
):
    """Rows that are cut from a wider matrix begin in between."""
    edited = snippet.edit(
        "matrix = torch.empty(count, width, dtype=dtype)",
        "matrix = torch.empty(count, width + 1, dtype=dtype)[:, :width]",
    )
    fails(test_round_rows_begin_on_the_grid, edited)


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.float64],
)
@pytest.mark.parametrize(
    "times", [1, 2, 33], ids=["16 bytes", "32 bytes", "528 bytes"]
)
def test_round_rows_begin_on_the_grid__also_for_rows_of(snippet, dtype, times):
    test_round_rows_begin_on_the_grid(snippet, dtype, times)


@pytest.mark.parametrize("more", [1, 4, -1])
def test_round_rows_begin_on_the_grid__ends_at_another_width(
    snippet, fails, more
):
    """With 33, 36 or 31 numbers of `float16`, which are no multiple of 16
    bytes: some rows begin in between.
    """
    fails(test_round_rows_begin_on_the_grid, snippet, torch.float16, 4, more)


# What goes wrong


def test_padded_classes_change_the_loss(snippet, seed=0):
    if seed:
        snippet = snippet.edit("seed(0)", f"seed({seed})")
    run = after(snippet, *LOSSES[:5])

    assert run.wrong_loss > 1.01 * run.loss
    head, embedding = run.model.head, run.model.embedding
    outputs = head(embedding(run.x))
    torch.testing.assert_close(run.wrong_loss, F.cross_entropy(outputs, run.y))
    torch.testing.assert_close(
        run.loss, F.cross_entropy(outputs[:, :27], run.y)
    )
    shares = outputs.softmax(1)  # what is taken makes the difference
    left = shares[:, :27].sum(1)
    assert (left < 1).all()
    torch.testing.assert_close(run.wrong_loss - run.loss, -left.log().mean())


@pytest.mark.parametrize("seed", range(1, 8))
def test_padded_classes_change_the_loss__also_from(snippet, seed):
    test_padded_classes_change_the_loss(snippet, seed)


def test_padded_classes_change_the_loss__but_not_with_a_round_alphabet(
    snippet, fails
):
    """With 32 letters, there is no padding, and both losses are equal."""
    edited = snippet.edit("letters=27", "letters=32")
    fails(test_padded_classes_change_the_loss, edited)


def test_padded_classes_change_the_loss__but_not_once_cut(snippet, fails):
    """Cut to the 27 letters by hand, the outputs give the same loss."""
    edited = snippet.edit(
        "(model.embedding(x))", "(model.embedding(x))[:, :27]"
    )
    fails(test_padded_classes_change_the_loss, edited)


def test_masked_padding_changes_nothing(snippet, **options):
    run = after(snippet, *LOSSES[:6])
    padded, plain = pair(run, 27, 8)
    filled = padded.head(padded.embedding(run.x)).clone()
    filled[:, 27:] = run.masked[0, -1].detach()
    losses = [
        F.cross_entropy(outputs, run.y, **options)
        for outputs in (filled, plain(run.x))
    ]
    sum(losses).backward()

    assert run.outputs.isfinite().all()
    torch.testing.assert_close(run.masked_loss, run.loss)
    weights = list(run.model.parameters())
    assert run.masked_loss.requires_grad
    torch.testing.assert_close(
        torch.autograd.grad(run.masked_loss, weights),
        torch.autograd.grad(run.loss, weights),
    )
    torch.testing.assert_close(*losses)
    same(padded, plain)


@pytest.mark.parametrize(
    "options", [{"reduction": "sum"}, {"ignore_index": 5}], ids=str
)
def test_masked_padding_changes_nothing__also_with(snippet, options):
    test_masked_padding_changes_nothing(snippet, **options)


@edits(
    ("= -torch.inf", "= 0"),
    ("= -torch.inf", "= -3"),
    ("masked[:, 27:]", "masked[:, 28:]"),
)
def test_masked_padding_changes_nothing__but_not(snippet, fails, old, new):
    """Filled with 0 or -3, or with one column left out, padding still changes
    the loss.
    """
    fails(test_masked_padding_changes_nothing, snippet.edit(old, new))


@pytest.mark.parametrize(
    "target", ["y, label_smoothing=0.1", "F.one_hot(y, 32).float()"]
)
def test_masked_padding_changes_nothing__ends_with(snippet, fails, target):
    """With label smoothing, the loss is `inf`, and with probabilities as
    targets, `nan`.
    """
    old = "masked_loss = F.cross_entropy(masked, y)"
    edited = snippet.edit(old, old.replace("y)", f"{target})"))
    fails(test_masked_padding_changes_nothing, edited)


def test_smoothing_makes_a_masked_loss_infinite(snippet, weight=None):
    run = after(snippet, *LOSSES[:7])

    assert run.wrong_smoothed == torch.inf
    assert run.wrong_likely.isnan()
    for smoothing in (0.001, 0.3, 1.0):
        options = {"label_smoothing": smoothing, "weight": weight}
        loss = F.cross_entropy(run.masked, run.y, **options)
        assert loss == torch.inf
    spread = torch.rand(64, 32) * (torch.arange(32) < 27)
    for likely in (run.likely, spread / spread.sum(1, keepdim=True)):
        assert F.cross_entropy(run.masked, likely).isnan()


def test_smoothing_makes_a_masked_loss_infinite__ends_with_weights_of_0(
    snippet, fails
):
    """With class weights of 0 for the padding: the loss is `nan` instead of
    `inf`.
    """
    weight = (torch.arange(32) < 27).float()
    fails(test_smoothing_makes_a_masked_loss_infinite, snippet, weight)


def test_smoothing_makes_a_masked_loss_infinite__but_not_with_a_large_number(
    snippet, fails
):
    """Filled with -10,000, the padding makes the loss large, but finite."""
    edited = snippet.edit("= -torch.inf", "= -10_000")
    fails(test_smoothing_makes_a_masked_loss_infinite, edited)


@edits(
    ("masked, y, label_smoothing=0.1", "masked, y"),
    ("cross_entropy(masked, likely)", "cross_entropy(masked, y)"),
    ("cross_entropy(masked, likely)", "cross_entropy(outputs, likely)"),
)
def test_smoothing_makes_a_masked_loss_infinite__but_not(
    snippet, fails, old, new
):
    """Without label smoothing, with class indices as targets, or without the
    mask, the loss is finite.
    """
    fails(test_smoothing_makes_a_masked_loss_infinite, snippet.edit(old, new))


STATES = (*MODEL, "text", "mismatch")


def test_rows_can_be_loaded(snippet, letters=27, multiple=8, more=0):
    with no_error():
        run = after(snippet, *STATES, "load-rows")
    torch.testing.assert_close(run.model(run.x), run.old(run.x))
    saved = run.NextLetter(letters + more, multiple=1)
    padded = run.NextLetter(letters, multiple=multiple)
    x = torch.arange(letters)
    assert not torch.allclose(padded(x), saved(x)[:, :letters])
    with no_error():
        run.load_rows(padded, saved.state_dict())

    torch.testing.assert_close(padded(x), saved(x))


@sizes((27, 64), (10, 16), (32, 8))
def test_rows_can_be_loaded__also_into(snippet, letters, multiple):
    test_rows_can_be_loaded(snippet, letters, multiple)


def test_rows_can_be_loaded__ends_with_more_letters(snippet, fails):
    """If the file has more letters than the model: no error tells you."""
    fails(test_rows_can_be_loaded, snippet, 27, 8, 1)


def deeper(run, multiple, wide=64):
    """Return a model with layers that have no padding."""

    class Deeper(run.NextLetter):
        def __init__(self):
            super().__init__(multiple=multiple)
            self.hidden = nn.Sequential(
                nn.Linear(16, wide), nn.Linear(wide, 16)
            )
            self.norm = nn.BatchNorm1d(16)  # whose count has no rows

        def forward(self, x):
            hidden = self.norm(self.hidden(self.embedding(x)))
            return self.head(hidden)[..., : self.letters]

    return Deeper().eval()


def test_rows_can_be_loaded__also_with_other_layers(snippet):
    run = after(snippet, *STATES, "load-rows")
    saved, padded = deeper(run, 1), deeper(run, 8)
    saved.norm.running_mean += 1
    with no_error():
        run.load_rows(padded, saved.state_dict())

    torch.testing.assert_close(padded(run.x), saved(run.x))
    padded.head.weight.sum().backward()  # still what an optimizer holds


@edits(
    ("torch.cat([rows, padding])", "torch.cat([padding, rows])"),
    ("torch.cat([rows, padding])", "fresh[name]"),
    ("{**state, name: torch", "{**fresh, name: torch"),
    ("load_rows(model, old.s", "load_rows(model, model.s"),
)
def test_rows_can_be_loaded__but_not(snippet, fails, old, new):
    """With the padding put above them, the saved rows are shifted; the other
    edits lose some or all of them.
    """
    fails(test_rows_can_be_loaded, snippet.edit(old, new))


def loaded(run, options):
    """Load a saved state, and return what lies behind its tensors: ones."""
    new = run.NextLetter()
    optimizers = []
    for model in (run.old, new):
        optimizers.append(torch.optim.AdamW(model.parameters(), **options))
        F.cross_entropy(model(run.x), run.y).backward()
    optimizers[0].step()
    behind = []
    for state in optimizers[0].state.values():
        for name in ("exp_avg", "exp_avg_sq"):
            memory = torch.cat([state[name], torch.ones_like(state[name])])
            state[name], rest = memory.split(len(state[name]))
            behind.append(rest)
    with no_error():
        optimizers[1].load_state_dict(optimizers[0].state_dict())
    return optimizers[1], behind


def test_the_old_optimizer_does_not_fit(snippet, options=None):
    run = after(snippet, *STATES, "load-rows")
    optimizer, _ = loaded(run, options or {})
    with pytest.raises(RuntimeError, match=r"a \(27\) must match"):
        optimizer.step()


def test_the_old_optimizer_does_not_fit__but_not_from_a_padded_model(
    snippet, fails
):
    """A state that comes from a model of the same 32 rows fits."""
    edited = snippet.edit(
        "old = NextLetter(multiple=1)",
        "old = NextLetter()",
    )
    fails(test_the_old_optimizer_does_not_fit, edited)


@pytest.mark.parametrize(
    "options",
    [{"amsgrad": True}, {"foreach": True}, {"weight_decay": 0}],
    ids=str,
)
def test_the_old_optimizer_does_not_fit__also_with(snippet, options):
    test_the_old_optimizer_does_not_fit(snippet, options)


def test_the_old_optimizer_does_not_fit__ends_if_fused(snippet, fails):
    """With `fused=True`: the step raises nothing, and writes past the end of
    the saved tensors.
    """
    fails(test_the_old_optimizer_does_not_fit, snippet, {"fused": True})
    run = after(snippet, *STATES, "load-rows")
    optimizer, behind = loaded(run, {"fused": True})
    optimizer.step()
    assert all((rest != 1).any() for rest in behind)


def head_width(attention):
    """Return how many numbers of a query one head compares."""
    widths = []
    compare = F.scaled_dot_product_attention

    def watched(query, *args, **options):
        widths.append(query.shape[-1])
        return compare(query, *args, **options)

    query = torch.randn(3, 1, attention.embed_dim)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", watched)
        attention(query, query, query, need_weights=False)
    return widths[0]


def test_heads_share_the_width(snippet):
    run = after(snippet, "imports", "heads")
    attention = run.attention

    assert attention.head_dim == head_width(attention) == 320 / 10
    for width, heads in ((300, 12), (64, 1), (8, 8)):
        other = nn.MultiheadAttention(width, heads)
        assert other.head_dim == head_width(other) == width / heads
    said = vars(run).get("undivided", "nothing")
    assert said == "embed_dim must be divisible by num_heads"
    for width, heads in ((300, 7), (4, 8)):
        with pytest.raises(AssertionError, match=said):
            nn.MultiheadAttention(width, heads)


@edits(
    ("MultiheadAttention(320, 10)", "MultiheadAttention(320, 5)"),
    ("MultiheadAttention(300, 8)", "MultiheadAttention(304, 8)"),
)
def test_heads_share_the_width__but_not_with(snippet, fails, old, new):
    """5 heads are each 64 wide; and a width of 304 is divisible by 8, so
    nothing raises an error.
    """
    fails(test_heads_share_the_width, snippet.edit(old, new))
