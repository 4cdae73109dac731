"""The claims of docs/sequences/generation.md."""

import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after as shared

# Some of what the tracer loads when it is first asked uses torch.jit.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

# The model, with random weights or trained, and how it writes.
BUILD = ("names", "block", "model")
FIT = (*BUILD, "fit")
GREEDY = ("left-padded", "greedy")
WRITE = ("write", *GREEDY, "together")

BY_SEED = pytest.mark.parametrize("seed", [1], ids="seed {}".format)


def of_seed(snippet, seed):
    """Return the program with a model that starts at another seed."""
    old = "torch.manual_seed(0)\nmodel = LanguageModel()"
    return snippet.edit(old, old.replace("0", str(seed), 1))


@pytest.fixture(autouse=True, scope="module")
def folder():
    """Return where the weights are, which one training leaves."""
    with tempfile.TemporaryDirectory() as name:
        weights.folder = Path(name)
        yield
    weights.cache_clear()


@cache
def weights(program):
    path = weights.folder / f"{len([*weights.folder.iterdir()])}.pt"
    torch.save(program.after("fit").model.state_dict(), path)
    return str(path)


def fitted(snippet, *cells):
    """Run cells behind a training, once for all programs that share it."""
    path = weights(snippet.only(*FIT))
    new = (
        f"model = LanguageModel()\nmodel.load_state_dict(torch.load({path!r}))"
    )
    return shared(snippet.edit(snippet.cell("fit").source, new), *FIT, *cells)


class Speller:
    """A model that is sure of each letter of a text, whatever it reads."""

    def __init__(self, run, text):
        self.codes, self.count = run.encode(text), len(run.letters)

    def __call__(self, inputs, real=None, cache=None):
        """Return scores for the letter behind the last one."""
        scores = torch.zeros(*inputs.shape, self.count)
        scores[:, -1, self.codes[inputs.shape[1]]] = 100.0
        return scores


# Do this


def test_writing_stops_at_the_end(
    snippet, text="May\nMay", most=12, start="M"
):
    run = shared(snippet, *BUILD, "write")
    with no_error():
        found = run.write(Speller(run, text), start, most)
    assert found == text.partition("\n")[0][: 1 + most]


@pytest.mark.parametrize("most", [0, 1, 5], ids="{} letters".format)
def test_writing_stops_at_the_end__also_after(snippet, most):
    test_writing_stops_at_the_end(snippet, "May" * 5, most)


def test_writing_stops_at_the_end__also_after_training(snippet):
    run = fitted(snippet, "write", "do-this")
    assert len(run.drawn) == 8
    assert set(run.drawn) <= {"January", "June", "July"}


@edits(
    ("without the end", "if new == end:", "if False:"),
    ("at another letter", 'end = code_of["\\n"]', 'end = code_of["a"]'),
)
def test_writing_stops_at_the_end__but_not(snippet, old, new, fails):
    """If the end is not looked for, or another letter, it stops elsewhere."""
    fails(test_writing_stops_at_the_end, snippet.edit(old, new))


def test_writing_stops_at_the_end__ends_without_a_start(snippet, fails):
    """An empty start raises an error, since there is no letter to read: begin
    each text with one that stands for its start.
    """
    fails(test_writing_stops_at_the_end, snippet, "May\nMay", 12, "")


# Temperature, top-k and top-p


def test_a_temperature_is_a_power(snippet):
    run = shared(snippet, "names", "hot-and-cold")
    for temperature, found in run.hot_and_cold.items():
        powers = run.chances ** (1 / temperature)
        torch.testing.assert_close(found, powers / powers.sum())
    assert set(run.hot_and_cold) == {0.5, 1, 2}
    assert run.hot_and_cold[0.5][0] == pytest.approx(0.64 / 0.68)


@pytest.mark.parametrize("size", [2, 96], ids="{} letters".format)
def test_a_temperature_is_a_power__also_for_scores_of(size):
    torch.manual_seed(0)
    scores = torch.randn(size)
    for temperature in (0.3, 0.5, 1, 2, 5):
        powers = scores.softmax(dim=0) ** (1 / temperature)
        found = (scores / temperature).softmax(dim=0)
        torch.testing.assert_close(found, powers / powers.sum())


def test_a_temperature_is_a_power__also_after_top_k(snippet):
    run = shared(snippet, "names", "top-k", "top-k-checked")
    assert run.best.nonzero().flatten().tolist() == [1, 2]
    torch.manual_seed(0)
    scores = torch.randn(96)
    left = run.top_k(scores, 5)
    assert left.isfinite().sum() == 5
    assert torch.equal(left.topk(5).values, scores.topk(5).values)
    powers = left.softmax(dim=0) ** 2
    found = (left / 0.5).softmax(dim=0)
    torch.testing.assert_close(found, powers / powers.sum())


def test_a_temperature_is_a_power__but_not_on_chances(snippet, fails):
    """Divide the scores: softmax takes no chances."""
    old = "(chances.log() / temperature)"
    edited = snippet.edit(old, "(chances / temperature)")
    fails(test_a_temperature_is_a_power, edited)


def test_temperature_0_raises(snippet, temperature=0):
    run = fitted(snippet, "write")
    message = "probability tensor contains either `inf`, `nan`"
    with pytest.raises(RuntimeError, match=message):
        run.write(run.model, "J", temperature=temperature)


def test_temperature_0_raises__also_for_one_letter(snippet):
    run = fitted(snippet, "write")
    with pytest.raises(RuntimeError, match="`inf`, `nan`"):
        run.write(run.model, "J", 1, temperature=0.0)


def test_temperature_0_raises__but_not_close_to_it(snippet, fails):
    """At 0.001, the best letter has all of the probability."""
    fails(test_temperature_0_raises, snippet, 0.001)


def test_heat_misspells(snippet):
    run = fitted(snippet, "chance-of")
    cold, usual, hot = run.no_name
    assert 0 <= cold < usual < hot < 1
    assert hot > 2 * usual
    for name, chances in run.heat.items():
        assert name in run.names
        assert all(0 < chance < 1 for chance in chances)


@BY_SEED
def test_heat_misspells__also_from(snippet, seed):
    test_heat_misspells(of_seed(snippet, seed))


def test_heat_misspells__also_if_drawn(snippet):
    run = fitted(snippet, "write")
    torch.manual_seed(0)
    missed = [
        sum(run.write(run.model, "J", 12, heat) not in run.names for _ in each)
        for heat in (0.5, 2)
        for each in [range(60)]
    ]
    assert missed[0] < missed[1]


def test_heat_misspells__but_not_by_a_product(snippet, fails):
    """Multiplied by the temperature, the scores are farther apart."""
    old = "model(text[None, :-1])[0] / temperature"
    edited = snippet.edit(old, old.replace("/", "*"))
    fails(test_heat_misspells, edited)


def test_top_p_keeps_the_fewest(
    snippet, size=96, ps=(0.05, 0.3, 0.6, 0.9, 0.99)
):
    run = shared(snippet, "names", "top-p")
    expected = torch.tensor([0, 0.5 / 0.8, 0, 0.3 / 0.8])
    torch.testing.assert_close(run.kept, expected)

    torch.manual_seed(0)
    scores = 2 * torch.randn(size)
    chances = scores.softmax(dim=0)
    for p in ps:
        left = run.top_p(scores, p)
        is_left = left.isfinite()
        assert is_left.any()
        assert torch.equal(left[is_left], scores[is_left])
        assert chances[is_left].sum() >= p - 1e-5
        assert chances[is_left].sum() - chances[is_left].min() < p
        assert chances[is_left].min() >= chances[~is_left].max()


@pytest.mark.parametrize("size", [10, 5000], ids="{} letters".format)
def test_top_p_keeps_the_fewest__also_of(snippet, size):
    test_top_p_keeps_the_fewest(snippet, size)


def test_top_p_keeps_the_fewest__also_in_a_batch(snippet):
    run = shared(snippet, "names", "top-p", "top-k")
    torch.manual_seed(0)
    batch = 2 * torch.randn(3, 5, 96)
    for call, limit in ((run.top_p, 0.7), (run.top_k, 4)):
        found = call(batch, limit)
        for row, scores in zip(found, batch, strict=True):
            for one, alone in zip(row, scores, strict=True):
                assert torch.equal(one, call(alone, limit))


def test_top_p_keeps_the_fewest__also_with_p_of_1(snippet):
    run = shared(snippet, "names", "top-p")
    torch.manual_seed(0)
    scores = torch.randn(50_000)
    dropped = run.top_p(scores, 1.0).isinf()
    assert scores.softmax(dim=0)[dropped].sum() < 1e-5


@edits(
    (
        "without the letter that reaches it",
        "cut = likelier >= p",
        "cut = chances.cumsum(dim=-1) >= p",
    ),
    ("the unlikely ones first", ".sort(descending=True)", ".sort()"),
    (
        "places instead of letters",
        "cut.scatter(-1, order, cut)",
        "cut",
    ),
)
def test_top_p_keeps_the_fewest__but_not(snippet, old, new, fails):
    """It cuts the letter that reaches `p`, sorts the wrong way, or cuts by
    place.
    """
    fails(test_top_p_keeps_the_fewest, snippet.edit(old, new))


def test_top_p_keeps_the_fewest__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`, the sums are rounded, and may stop short of `p`: pass
    `scores.float()`.
    """
    old = "chances, order = scores.softmax(dim=-1)"
    edited = snippet.edit(old, old.replace("scores", "scores.bfloat16()"))
    fails(test_top_p_keeps_the_fewest, edited, 1000)


def test_top_p_keeps_the_fewest__ends_with_p_of_0(snippet, fails):
    """With `p=0`, no letter is left, so drawing one raises an error."""
    fails(test_top_p_keeps_the_fewest, snippet, 96, (0.0,))


# Several texts at once


LONG = ["May", "SeptemberOctoberNovember", "FridaySaturday", "SundayMonday"]


def test_a_batch_writes_the_same(snippet, dtype=None):
    if dtype is not None:
        for seed in range(5):
            run = shared(snippet, *BUILD, *GREEDY)
            scores_alike(run, LONG, seed, dtype)
        return

    run = fitted(snippet, *WRITE)
    names = ["October", "Wednesday", "April", "September"]
    assert run.together == run.alone == names

    inputs, real = run.left_padded(run.starts)
    with torch.no_grad():
        found = run.model(inputs, real)[:, -1]
        for start, scores in zip(run.starts, found, strict=True):
            alone = run.model(run.encode(start)[None])[0, -1]
            torch.testing.assert_close(scores, alone, atol=1e-3, rtol=0)


@BY_SEED
def test_a_batch_writes_the_same__also_from(snippet, seed):
    test_a_batch_writes_the_same(of_seed(snippet, seed))


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_a_batch_writes_the_same__also_untrained(snippet, seed):
    run = shared(snippet, *BUILD, *GREEDY)
    scores_alike(run, ["Fri", "M", "Decembe", "Au", "May"], seed)


def scores_alike(run, starts, seed, dtype=None):
    """Compare the scores of starts in a batch with those of each alone."""
    torch.manual_seed(seed)
    model = run.LanguageModel().eval().to(dtype)
    inputs, real = run.left_padded(starts)
    with torch.no_grad(), no_error():
        found = model(inputs, real)[:, -1]
        for start, scores in zip(starts, found, strict=True):
            alone = model(run.encode(start)[None])[0, -1]
            torch.testing.assert_close(scores, alone, atol=1e-4, rtol=0)


DROPPED = (
    "self.join(mixed.transpose(1, 2).flatten(2))",
    "F.dropout(self.join(mixed.transpose(1, 2).flatten(2)), 0.5, "
    "self.training)",
)


def test_a_batch_writes_the_same__ends_with_dropout(snippet, fails):
    """In training mode, dropout changes the scores; call `eval()` first."""
    edited = snippet.edit(*DROPPED)
    fails(test_a_batch_writes_the_same, edited)
    run = shared(edited, *BUILD, *GREEDY)
    scores_alike(run, ["Fri", "Decembe"], 0)


def test_a_batch_writes_the_same__also_in_float64(snippet):
    test_a_batch_writes_the_same(snippet, torch.float64)


PLACES = "(real.cumsum(dim=1) - 1).clamp(min=0)[:, -new:]"


@edits(
    (
        "without the mask",
        "mask = real[:, None] & causal | itself",
        "mask = causal[None]",
    ),
    (
        "with positions that count the padding",
        PLACES,
        "torch.arange(seen)[None, -new:]",
    ),
)
def test_a_batch_writes_the_same__but_not(snippet, old, new, fails):
    """Without the mask, or if positions count the padding, scores differ."""
    edited = snippet.edit(old, new)
    fails(test_a_batch_writes_the_same, edited, torch.float64)


def test_a_batch_writes_the_same__but_not_with_padding_on_the_right(
    snippet, fails
):
    """Padded on the right, the last position of a short text is padding."""
    edited = snippet.edit('_side": "left"', '_side": "right"')
    fails(test_a_batch_writes_the_same, edited)


def test_only_the_unpadded_name_is_right(snippet):
    with no_error():
        run = fitted(snippet, *WRITE, "careless")
    *padded, longest = run.greedy(run.careless, run.starts)
    assert longest == "September"
    assert not set(padded) & set(run.names)


@BY_SEED
def test_only_the_unpadded_name_is_right__also_from(snippet, seed):
    test_only_the_unpadded_name_is_right(of_seed(snippet, seed))


def test_only_the_unpadded_name_is_right__but_not_told(snippet, fails):
    """Told which letters are real, the model completes all four."""
    edited = snippet.edit(
        "return model(inputs)  #", "return model(inputs, real)  #"
    )
    fails(test_only_the_unpadded_name_is_right, edited)


def test_ended_texts_stay_ended(snippet, starts=("Ma", "We", "Octob")):
    run = fitted(snippet, *WRITE)
    calls = []
    hook = run.model.register_forward_hook(lambda *_: calls.append(1))
    texts = run.greedy(run.model, [*starts])
    hook.remove()
    assert all(text in run.names for text in texts)
    needed = [
        len(text) - len(start) + 1
        for text, start in zip(texts, starts, strict=True)
    ]
    assert len(calls) == max(needed)


def test_ended_texts_stay_ended__also_alone(snippet):
    test_ended_texts_stay_ended(snippet, ("We",))


@edits(
    ("without the fill", "new[ended] = end", "pass"),
    ("without the break", "if ended.all():", "if False:"),
)
def test_ended_texts_stay_ended__but_not(snippet, old, new, fails):
    """Without the fill, texts go on; without the break, the loop does."""
    fails(test_ended_texts_stay_ended, snippet.edit(old, new))


# The cache


def test_the_cache_gives_the_same_letters(
    snippet, seed=0, dtype=None, most=24
):
    run = shared(snippet, *BUILD, *GREEDY)
    torch.manual_seed(seed)
    model = run.LanguageModel().to(dtype)

    starts = ["May", "Satur", "J"]
    with no_error():
        expected = run.greedy(model, starts, most)
        found = run.greedy(model, starts, most, cached=True)
    assert len(set("".join(expected))) > 2
    assert found == expected

    cache = {}  # random weights may choose alike from unlike scores
    inputs, real = run.left_padded(["September", "May"])
    with torch.no_grad():
        whole = model(inputs, real)[:, -1]
        model(inputs[:, :-1], real[:, :-1], cache)
        last = model(inputs[:, -1:], real, cache)[:, -1]
    torch.testing.assert_close(last, whole, atol=1e-4, rtol=0)


@BY_SEED
def test_the_cache_gives_the_same_letters__also_from(snippet, seed):
    test_the_cache_gives_the_same_letters(snippet, seed)


def test_the_cache_gives_the_same_letters__also_in_float64(snippet):
    test_the_cache_gives_the_same_letters(snippet, dtype=torch.float64)


def test_the_cache_gives_the_same_letters__also_after_training(snippet):
    run = fitted(snippet, *WRITE)
    found = run.greedy(run.model, run.starts, cached=True)
    assert found == run.together


def test_the_cache_gives_the_same_letters__also_in_parts(snippet):
    run = shared(snippet, *BUILD)
    torch.manual_seed(0)
    model, cache = run.LanguageModel(), {}
    inputs = torch.randint(len(run.letters), (2, 20))
    real = torch.ones_like(inputs, dtype=torch.bool)
    with torch.no_grad():
        first = model(inputs[:, :12], real[:, :12], cache)
        second = model(inputs[:, 12:], real, cache)
        whole = model(inputs)
    found = torch.cat([first, second], dim=1)
    torch.testing.assert_close(found, whole, atol=1e-4, rtol=0)


@edits(
    (
        "`is_causal=True`, which lets the new letter see the first one alone",
        "attention(query, key, value, mask)",
        "attention(query, key, value, is_causal=True)",
    ),
    (
        "a mask that forgets the cache",
        "tril(seen - new)",
        "tril()",
    ),
)
def test_the_cache_gives_the_same_letters__but_not_with(
    snippet, old, new, fails
):
    """With `is_causal=True`, or a mask without the cache, it sees too few."""
    fails(test_the_cache_gives_the_same_letters, snippet.edit(old, new))


def test_the_cache_gives_the_same_letters__but_not_at_position_0(
    snippet, fails
):
    """With `[:, :new]`, each new letter is put at the first position."""
    edited = snippet.edit("[:, -new:]", "[:, :new]")
    fails(test_the_cache_gives_the_same_letters, edited)


def test_the_cache_gives_the_same_letters__ends_after_32_letters(
    snippet, fails
):
    """After 32 letters, both raise, because no position is left."""
    endless = snippet.edit('end = code_of["\\n"]', "end = -1")
    fails(test_the_cache_gives_the_same_letters, endless, 0, None, 40)
    run = shared(endless, *BUILD, *GREEDY)
    torch.manual_seed(0)
    model = run.LanguageModel()
    for cached in (False, True):
        with pytest.raises(IndexError, match="index out of range in self"):
            run.greedy(model, ["May"], 40, cached)


def test_the_cache_computes_each_position_once(snippet):
    run = fitted(snippet, *GREEDY, "count")

    assert run.plain == run.cached == ["Wednesday"]
    assert run.plain_count == sum(range(2, 10)) == 44
    assert run.cached_count == 2 + 7


@pytest.mark.parametrize("most", [1, 5], ids="{} new letters".format)
def test_the_cache_computes_each_position_once__also_for(snippet, most):
    run = fitted(snippet, *GREEDY, "count")
    for cached, expected in (
        (False, sum(range(2, 2 + most))),
        (True, 1 + most),
    ):
        _, found = run.positions_computed("We", most=most, cached=cached)
        assert found == expected


def test_the_cache_computes_each_position_once__but_not_without(
    snippet, fails
):
    """Given the whole text each time, a model computes it again."""
    edited = snippet.edit("new if cached else written", "written")
    edited = edited.edit("{} if cached else None", "None")
    fails(test_the_cache_computes_each_position_once, edited)


# A compiled loop


def test_a_fixed_cache_needs_one_graph(snippet, size=32):
    run = shared(snippet, "names", "fixed-cache", "graphs")
    with no_error():
        found, count = run.read_compiled(run.with_fixed, size)
    torch.testing.assert_close(found, run.from_fixed)
    assert count == run.fixed_count

    assert run.growing_count > 1
    assert run.fixed_count == 1
    torch.testing.assert_close(run.from_fixed, run.from_growing)
    queries, keys, values = run.parts.unbind(1)
    whole = (torch.cat([*each], dim=2) for each in (queries, keys, values))
    attend = torch.nn.functional.scaled_dot_product_attention
    expected = attend(*whole, is_causal=True)
    found = torch.cat([*run.from_fixed[:, None]], dim=2)
    torch.testing.assert_close(found, expected)


@edits(
    ("for 32 letters", "torch.rand(20, 3, 1, 4", "torch.rand(32, 3, 1, 4"),
    ("for 5 texts", "3, 1, 4, 1, 8)", "3, 5, 4, 1, 8)"),
)
def test_a_fixed_cache_needs_one_graph__also(snippet, old, new):
    edited = snippet.edit(old, new)
    if "5" in new:
        edited = edited.edit("zeros(2, 1, 4", "zeros(2, 5, 4")
    run = shared(edited, "names", "fixed-cache", "graphs")
    assert run.growing_count > run.fixed_count == 1
    torch.testing.assert_close(run.from_fixed, run.from_growing)


def test_a_fixed_cache_needs_one_graph__also_in_the_model(snippet):
    endless = snippet.edit('end = code_of["\\n"]', "end = -1")
    run = shared(endless, *BUILD, *GREEDY, "fixed-cache", "graphs")
    torch.manual_seed(0)
    model = run.LanguageModel(layers=1)
    run.graphs.clear()
    torch.compiler.reset()
    compiled = torch.compile(model, backend=run.keep_graph)
    found = run.greedy(compiled, ["We"], 4, cached=True)
    assert found == run.greedy(model, ["We"], 4)
    assert len(run.graphs) > 1


@edits(
    (
        "with a Python number as the place",
        "cache, torch.tensor([place]))",
        "cache, place)",
    ),
    (
        "without the mask",
        "filled = torch.arange(keys.shape[2]) <= place",
        "filled = torch.arange(keys.shape[2]) < 32",
    ),
    (
        "with both of fixed size",
        "read_compiled(with_growing, 0)",
        "read_compiled(with_fixed, 32)",
    ),
)
def test_a_fixed_cache_needs_one_graph__but_not(snippet, old, new, fails):
    """A Python number compiles again; without the mask, the zeros of the
    empty places are read.
    """
    edited = snippet.edit(old, new)
    if new == "cache, place)":
        edited = edited.edit(
            "keys.index_copy_(2, place, key)",
            "keys[:, :, place] = key[:, :, 0]",
        )
        edited = edited.edit(
            "values.index_copy_(2, place, value)",
            "values[:, :, place] = value[:, :, 0]",
        )
    fails(test_a_fixed_cache_needs_one_graph, edited)


def test_a_fixed_cache_needs_one_graph__ends_when_it_is_full(snippet, fails):
    """A text that outgrows the cache raises an error."""
    fails(test_a_fixed_cache_needs_one_graph, snippet, 16)
