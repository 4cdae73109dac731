"""The claims of gallery/train_a_character_transformer.py."""

import math
from collections import Counter
from itertools import pairwise
from unittest.mock import patch

import pytest
import torch
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after as once
from tests.helpers.recipes import check_arguments, given, same

MODEL = ("settings", "options", "setup", "encode", "block", "model", "write")
TEXT = (*MODEL, "sample", "text", "codes")
START = (*TEXT, "baselines", "loss", "evaluate", "step", "begin", "resume")
# What is trained once, for tests that change nothing.
FULL = (*START, "train", "report", "not-shifted", "overlap", "after-softmax")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Return the path of a little text."""
    path = tmp_path_factory.mktemp("text") / "cats.txt"
    lines = [f"{n} cats saw {n * n} dogs,\nor so." for n in range(150)]
    path.write_text("\n\n".join(lines), encoding="utf-8")
    return str(path)


def few(snippet, text, **constants):
    """Return the program with a little model and text."""
    little = {"WIDTH": 8, "LAYERS": 1, "BATCH_SIZE": 4, "CONTEXT": 8}
    little |= {"STEPS": 12, "EVERY": 5, "LETTERS": 20, "TEXT": text}
    return given(snippet.only(*FULL), **little | constants)


def refusal(program, cell):
    """Return the line with which a program stops before a cell is through."""
    with pytest.raises(SystemExit) as caught:
        program.after(cell)
    line = caught.value.code
    assert isinstance(line, str)
    assert "\n" not in line
    return line


def finished(program, cell="train"):
    """Return a program after a cell that it has to reach."""
    with no_error():
        try:
            return program.after(cell)
        except SystemExit as stop:
            message = f"stopped: {stop}"
    return pytest.fail(message)


ARGUMENTS = {
    "TEXT": (["--text", "my.txt"], "my.txt"),
    "STEPS": (["--steps", "30"], 30),
    "BATCH_SIZE": (["--batch-size", "7"], 7),
    "CONTEXT": (["--context", "100"], 100),
    "WIDTH": (["--width", "8"], 8),
    "LAYERS": (["--layers", "5"], 5),
    "DROPOUT": (["--dropout", "0.5"], 0.5),
    "RATE": (["--rate", "0.5"], 0.5),
    "EVERY": (["--every", "9"], 9),
    "CHECKPOINT": (["--checkpoint", "my.pt"], "my.pt"),
    "RESUME": (["--resume"], True),
    "SAMPLE": (["--sample", "If "], "If "),
    "LETTERS": (["--letters", "5"], 5),
    "TEMPERATURE": (["--temperature", "0.5"], 0.5),
    "TOP_K": (["--top-k", "5"], 5),
    "SEED": (["--seed", "7"], 7),
}


def test_each_argument_sets_its_constant(snippet):
    check_arguments(snippet, ARGUMENTS)


@edits(
    ("globals()[name.upper()] = value", "pass"),
    ('"--rate", type=float', '"--rate", type=str'),
    ("default=SEED", "default=1"),
    ('if "__file__" in globals():  # a', "if True:  # a"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With `pass`, no argument has an effect; the other edits change values,
    or read arguments in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_an_unknown_letter_is_named(
    snippet, words="naïve", letters="aenv", said=("'ï'", "2")
):
    run = once(snippet, *MODEL)
    try:
        told = str(run.encode(words, letters))
    except (KeyError, ValueError) as error:
        told = f"{type(error).__name__}: {error}"
    assert told.startswith("ValueError")
    for part in said:
        assert part in told

    known = "".join(each for each in words if each in letters)
    codes = run.encode(known, letters)
    assert "".join(letters[code] for code in codes) == known


@pytest.mark.parametrize(
    ("words", "letters", "said"),
    [
        ("a\nb", "ab", ("'\\n'", "1")),
        ("🙂", "ab", ("'🙂'", "0")),
        ("Ab", "ab", ("'A'", "0")),
    ],
    ids=["a line break", "an emoji", "a capital"],
)
def test_an_unknown_letter_is_named__also_for(snippet, words, letters, said):
    test_an_unknown_letter_is_named(snippet, words, letters, said)


@edits(
    ("no letter", "unknown letter {letter!r} at", "unknown letter at"),
    ("no place", "{letter!r} at {place}", "{letter!r}"),
    ("a KeyError", "        if letter not in code_of:", "        if False:"),
)
def test_an_unknown_letter_is_named__but_not_with(snippet, old, new, fails):
    """Without the check, Python raises a KeyError that names no place."""
    fails(test_an_unknown_letter_is_named, snippet.edit(old, new))


# -- Writing -----------------------------------------------------------------


def random_model(run, context=8, layers=2):
    """Return a little model with random weights, in training mode."""
    torch.manual_seed(3)
    return run.CharacterModel(20, context, 16, layers, 0.5).to(run.device)


def test_the_cache_gives_the_same_letters(
    snippet, context=8, layers=2, start=3
):
    run = once(snippet, *MODEL)
    model, codes = random_model(run, context, layers), torch.arange(start) % 20
    read = []
    hook = model.blocks[0].register_forward_pre_hook(
        lambda _, inputs: read.append(inputs[0].shape[1])
    )

    with no_error():
        written = run.write(model, codes, 40)
    cached = read[:]
    read.clear()
    expected = run.write(model, codes, 40, cached=False)
    hook.remove()

    assert written.tolist() == expected.tolist()
    assert len(written) == start + 40
    assert written[:start].tolist() == codes.tolist()
    assert len(set(written.tolist())) > 3
    sizes, size = [], min(start, context)
    for _ in range(40):
        sizes.append(size)
        size = size + 1 if size < context else max(1, context // 2)
    assert read == sizes
    steps = zip(pairwise(sizes), cached[1:], strict=True)
    for (before, after), new in steps:
        assert new == (1 if after > before else after)


@pytest.mark.parametrize("start", [1, 8, 30], ids="a start of {}".format)
@pytest.mark.parametrize("context", [2, 9], ids="a context of {}".format)
def test_the_cache_gives_the_same_letters__also_with(snippet, context, start):
    test_the_cache_gives_the_same_letters(snippet, context, 3, start)


def test_the_cache_gives_the_same_letters__also_after_training(snippet):
    run = once(snippet, *FULL)
    assert run.equal == run.LETTERS == 300
    assert torch.equal(run.written, run.again)


@edits(
    ("position 0", "model(new, first, cache if", "model(new, 0, cache if"),
    ("no mask", "is_causal=query.shape[2] > 1", "is_causal=False"),
    (
        "the mask also for one letter",
        "is_causal=query.shape[2] > 1",
        "is_causal=True",
    ),
    (
        "an old cache",
        "cache = len(codes) - context // 2, 0, {}",
        "_ = len(codes) - context // 2, 0, {}",
    ),
    ("dropout", "    model.eval()\n    context", "    context"),
    (
        "keys that are not kept",
        "            cache[self] = key, value\n",
        "            cache.setdefault(self, (key, value))\n",
    ),
)
def test_the_cache_gives_the_same_letters__but_not_with(
    snippet, old, new, fails
):
    """At position 0, each new letter gets a wrong vector; the other edits
    spoil the mask or the cache, or leave dropout on.
    """
    fails(test_the_cache_gives_the_same_letters, snippet.edit(old, new))


def test_one_seed_writes_one_text(snippet):
    run = once(snippet, *MODEL)
    model, codes = random_model(run), torch.arange(3)
    torch.manual_seed(1)
    expected = torch.rand(4)

    torch.manual_seed(1)
    written = run.write(model, codes, 40)
    assert torch.equal(torch.rand(4), expected)
    assert run.write(model, codes, 40).tolist() == written.tolist()
    assert run.write(model, codes, 40, seed=1).tolist() != written.tolist()
    assert model.training
    run.write(model.eval(), codes, 1)
    assert not model.training


@edits(
    ("the global generator", "1, generator=generator)]", "1)]"),
    ("one seed for all", ".manual_seed(seed)\n    start", "\n    start"),
    (
        "another mode",
        "    model.train(training)\n    return codes",
        "    return codes",
    ),
    ("dropout left on", "    model.eval()\n    context", "    context"),
)
def test_one_seed_writes_one_text__but_not_with(snippet, old, new, fails):
    """Dropout draws from the global generator, and changes the letters."""
    fails(test_one_seed_writes_one_text, snippet.edit(old, new))


def drawn(run, temperature, top_k):
    """Return the shares of four letters with scores that rise by 1."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.tensor([1.0, 3.0, 0.0, 2.0])
    inputs = scores, temperature, top_k, generator
    codes = torch.cat([run.draw(*inputs) for _ in range(2000)])
    return codes.bincount(minlength=4) / 2000


def test_only_the_k_likeliest_are_drawn(snippet, top_k=2, temperature=1.0):
    shares = drawn(once(snippet, *MODEL), temperature, top_k)

    ranks = torch.tensor([1.0, 3.0, 0.0, 2.0])
    weights = (ranks / temperature).exp()
    expected = weights.masked_fill(ranks < 4 - (top_k or 4), 0)
    expected = expected / expected.sum()
    assert ((shares > 0) == (expected > 0)).all()
    torch.testing.assert_close(shares, expected, atol=0.05, rtol=0)


@pytest.mark.parametrize("top_k", [1, 3, 9, None], ids="{} letters".format)
@pytest.mark.parametrize("temperature", [0.7, 3.0])
def test_only_the_k_likeliest_are_drawn__also_of(snippet, top_k, temperature):
    test_only_the_k_likeliest_are_drawn(snippet, top_k, temperature)


@edits(
    ("min(top_k or len(scores), len(scores))", "len(scores)"),
    ("topk(min(top_k or len(scores), len(scores)))", "topk(2, largest=False)"),
    ("    return codes[torch.multi", "    return torch.arange(4)[torch.multi"),
)
def test_only_the_k_likeliest_are_drawn__but_not_with(
    snippet, old, new, fails
):
    """With `len(scores)`, all letters can be drawn; the other edits draw from
    the least likely, or return another number.
    """
    fails(test_only_the_k_likeliest_are_drawn, snippet.edit(old, new))


def test_only_the_k_likeliest_are_drawn__but_not_the_scores(snippet, fails):
    """Scaled without a softmax, the likeliest is drawn too rarely."""
    edited = snippet.edit("(best / temperature).softmax(dim=0)", "best + 1")
    fails(test_only_the_k_likeliest_are_drawn, edited)


def test_the_checkpoint_alone_writes(snippet, text, tmp_path, start="9 cat"):
    path = str(tmp_path / "cats.pt")
    run = finished(few(snippet, text, CHECKPOINT=path, STEPS=12))
    codes = [run.letters.index(each) for each in start or "\n"]
    expected = run.write(run.model, torch.tensor(codes), 20)
    expected = "".join(run.letters[code] for code in expected)

    settings = {"SAMPLE": start, "CHECKPOINT": path, "LETTERS": 20}
    other = {"TEXT": "gone.txt", "WIDTH": 12, "CONTEXT": 99}
    said = []
    with (
        patch("builtins.print", said.append),
        pytest.raises(SystemExit) as caught,
    ):
        given(snippet, **settings | other).after("text")
    assert caught.value.code == 0
    assert said[-1] == expected
    unknown = given(snippet, **settings | {"SAMPLE": "Zoë"})
    assert "'Z' at 0" in refusal(unknown, "sample")
    missing = settings | {"CHECKPOINT": str(tmp_path / "no.pt")}
    assert "no.pt is no" in refusal(given(snippet, **missing), "sample")
    del missing["CHECKPOINT"]
    assert "--checkpoint" in refusal(given(snippet, **missing), "setup")


@pytest.mark.parametrize("start", ["", "7"], ids=["no start", "one letter"])
def test_the_checkpoint_alone_writes__also_from(
    snippet, text, tmp_path, start
):
    test_the_checkpoint_alone_writes(snippet, text, tmp_path, start)


@edits(
    (
        '        model.load_state_dict(saved["model"])\n    except',
        "    except",
    ),
    ('saved["shape"]\n', "saved[\"shape\"] | {'context': 33}\n"),
    ('content |= {"letters": letters, "shape"', 'content |= {"shape"'),
    ("    raise SystemExit(0)\n\n# %% text", "\n# %% text"),
)
def test_the_checkpoint_alone_writes__but_not_with(
    snippet, text, tmp_path, old, new, fails
):
    """Without the weights, an untrained model writes; the other edits build
    another model, forget the vocabulary, or go on with the training.
    """
    fails(
        test_the_checkpoint_alone_writes,
        snippet.edit(old, new),
        text,
        tmp_path,
    )


# -- The text ----------------------------------------------------------------


def test_repeats_leak_into_the_end(snippet):
    run = once(snippet, "settings", "options", "setup", "text", "leak")

    assert run.leaked("abcdefgh", "xxabcxx" + "y" * 20, 4) == 0
    assert run.leaked("abcdefgh", "xxabcdxx", 4) == 1 / 5
    assert run.leaked("abcdefgh", "abcd", 4) == 1
    assert run.leaked("abcdefgh", "abcdexxdefg", 4) == 3 / 8
    assert run.as_it_is > 0.05
    assert run.without_repeats < 0.03
    end = run.leaked(run.valid_text, run.valid_text[-200:])
    assert end == 1
    assert run.train_text + run.valid_text == run.text
    assert len(run.valid_text) == pytest.approx(len(run.text) / 10, abs=1)
    training = {*run.train_text.split("\n\n")}
    both = training.intersection(run.valid_text.split("\n\n"))
    assert sorted(both) == []
    parts = {part.strip("\n") for part in run.raw.split("\n\n")}
    assert parts == {*run.text.split("\n\n")}


@edits(
    ("repeats", ".join(dict.fromkeys(paragraphs))", ".join(paragraphs)"),
    ("an end that is trained, too", "return text[:cut],", "return text,"),
    ("no repeats in the help", "topics[name] for name", "name for name"),
)
def test_repeats_leak_into_the_end__but_not_with(snippet, old, new, fails):
    """Repeats leak, and so does an end that is trained; a help without repeats
    does not.
    """
    fails(test_repeats_leak_into_the_end, snippet.edit(old, new))


# -- Training ----------------------------------------------------------------


def test_the_model_beats_letter_pairs(snippet, run=None):
    run = run or once(snippet, *FULL)

    counts = Counter(zip(run.train_text, run.train_text[1:], strict=False))
    firsts, letters = Counter(run.train_text[:-1]), len(run.letters)
    bits = [
        math.log2(firsts[one] + 0.1 * letters)
        - math.log2(counts[one, two] + 0.1)
        for one, two in zip(run.valid_text, run.valid_text[1:], strict=False)
    ]
    assert run.counted == pytest.approx(sum(bits) / len(bits), abs=1e-3)
    assert 2**run.uniform == pytest.approx(len(set(run.text)))
    assert run.counted < run.uniform - 2

    assert run.history[-1][0] == 300
    assert run.history[-1][2] < run.counted - 0.2
    size = run.CONTEXT
    places = range(0, len(run.valid) - size, size)
    chosen = places[:: -(-len(places) // 200)]
    pieces = torch.stack([run.valid[p : p + size + 1] for p in chosen])
    run.model.eval()
    with torch.no_grad():
        scores = run.model(pieces[:, :-1].to(run.device)).cpu()
    loss = F.cross_entropy(scores.transpose(1, 2), pieces[:, 1:]).item()
    assert run.history[-1][2] == pytest.approx(loss / math.log(2), abs=1e-3)


def test_the_model_beats_letter_pairs__but_not_in_three_steps(
    snippet, text, fails
):
    """Three steps are too few to learn from."""
    edited = given(snippet.only(*START, "train"), STEPS=3, TEXT=text)
    run = edited.after("train")
    run.history[-1] = (300, *run.history[-1][1:])
    fails(test_the_model_beats_letter_pairs, edited, run)


@edits(
    ("+ 0.1  # so that", "+ 1e9  # so that"),
    ("math.log2(len(letters))", "math.log2(16)"),
)
def test_the_model_beats_letter_pairs__but_not_with(
    snippet, text, old, new, fails
):
    """Too much added to each count makes all letters equally likely; with
    fewer letters, a blind guess is better.
    """
    edited = given(snippet.edit(old, new), TEXT=text)
    run = once(edited, *TEXT, "baselines")
    fails(test_the_model_beats_letter_pairs, edited, run)


def test_the_rate_rises_and_falls(snippet, text, steps=300):
    run = finished(few(snippet, text, STEPS=steps, RATE=0.5), "resume")
    rates = [run.rate_at(step) for step in range(steps)]
    warm = steps // 10

    assert rates[0] == pytest.approx(0.5 / warm)
    top = rates.index(max(rates))
    assert max(1, warm - 3) <= top <= warm
    assert max(rates) == pytest.approx(0.5, rel=0.05)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] == pytest.approx(0.05, rel=0.1)
    for step in (0, warm, steps // 2):
        cosine = math.cos(math.pi * step / steps)
        expected = 0.05 + 0.225 * (1 + cosine) if step else 0.5 / warm
        run.train_step(run.model, run.optimizer, step)
        assert run.optimizer.param_groups[0]["lr"] == rates[step]
        assert rates[step] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("steps", [100, 1000], ids="{} steps".format)
def test_the_rate_rises_and_falls__also_in(snippet, text, steps):
    test_the_rate_rises_and_falls(snippet, text, steps)


def test_the_rate_rises_and_falls__ends_below_20_steps(snippet, text, fails):
    """In fewer than 20 steps: it only falls."""
    for steps in (1, 19):
        run = finished(few(snippet, text, STEPS=steps), "resume")
        rates = [run.rate_at(step) for step in range(steps)]
        assert rates == sorted(rates, reverse=True)
    fails(test_the_rate_rises_and_falls, snippet, text, 19)


@edits(
    ("RATE * min(warm, falling)", "RATE * falling"),
    ("RATE * min(warm, falling)", "RATE * min(warm, 1)"),
    ("0.55 + 0.45 *", "0.5 + 0.5 *"),
    ("max(1, STEPS // 10)", "max(1, STEPS // 2)"),
    ('    optimizer.param_groups[0]["lr"] = rate_at(step)\n', ""),
)
def test_the_rate_rises_and_falls__but_not_with(
    snippet, text, old, new, fails
):
    """Without `warm`, it starts at its height; the other edits fall to
    another rate, rise for longer, or never tell the optimizer.
    """
    fails(test_the_rate_rises_and_falls, snippet.edit(old, new), text)


STEP = "    losses.append(train_step(model, optimizer, step))\n"


PLACE = '    Path(f"{CHECKPOINT}.partial").replace(CHECKPOINT)\n'


def test_resuming_changes_nothing(
    snippet, text, tmp_path, stop=7, seed=0, before=STEP
):
    path = str(tmp_path / "cats.pt")
    settings = {"SEED": seed, "STEPS": stop + 5}
    program = few(snippet, text, **settings)
    whole = finished(program)

    stopped = f"    if step == {stop}:\n        raise SystemExit('stop')\n"
    settings["CHECKPOINT"] = path
    first = few(snippet.edit(before, stopped + before), text, **settings)
    assert refusal(first, "train") == "stop"
    run = finished(few(snippet, text, RESUME=True, **settings))

    assert run.history == whole.history
    assert same(dict(run.model.state_dict()), dict(whole.model.state_dict()))
    assert same(run.optimizer.state_dict(), whole.optimizer.state_dict())
    assert [*tmp_path.iterdir()] == [tmp_path / "cats.pt"]


def test_resuming_changes_nothing__also_after_a_stop_while_writing(
    snippet, text, tmp_path
):
    test_resuming_changes_nothing(snippet, text, tmp_path, 9, 0, PLACE)


def test_resuming_changes_nothing__ends_with_another_every(
    snippet, text, tmp_path, fails
):
    """With another `EVERY`: each loss is a mean over other steps."""
    old = "\nhistory = []  # of"
    edited = snippet.edit(old, f"\nEVERY = 4 if RESUME else 5{old}")
    fails(test_resuming_changes_nothing, edited, text, tmp_path)


def test_resuming_changes_nothing__also_after_step_10_from_seed_1(
    snippet, text, tmp_path
):
    test_resuming_changes_nothing(snippet, text, tmp_path, 10, 1)


@edits(
    ("    torch.manual_seed(1_000_000 * SEED + step)\n", ""),
    ('    model.load_state_dict(saved["model"])\n    opt', "    opt"),
    ('    optimizer.load_state_dict(saved["optimizer"])\n', ""),
    ('    history = saved["history"]\n', ""),
    ("range(history[-1][0] if history else 0, STEPS)", "range(STEPS)"),
    ('"optimizer": optimizer.state_dict(), "', '"'),
)
def test_resuming_changes_nothing__but_not_with(
    snippet, text, tmp_path, old, new, fails
):
    """Without its seed, a step draws other pieces; the other edits lose a
    part of the state, or the number of the step.
    """
    edited = snippet.edit(old, new)
    fails(test_resuming_changes_nothing, edited, text, tmp_path)


def test_another_training_is_refused(snippet, text, tmp_path):
    path = tmp_path / "cats.pt"
    finished(few(snippet, text, CHECKPOINT=str(path), STEPS=1))
    kept = path.read_bytes()
    again = {"CHECKPOINT": str(path), "STEPS": 1}
    other = tmp_path / "dogs.txt"
    other.write_text("Dogs are no cats.\n\n" * 3 + "a" * 200)

    said = refusal(few(snippet, text, **again), "train")
    assert "cats.pt exists" in said
    again["RESUME"] = True
    for words, (name, value) in {
        "steps": ("STEPS", 2),
        "batch size": ("BATCH_SIZE", 5),
        "rate": ("RATE", 0.5),
        "seed": ("SEED", 1),
        "shape": ("WIDTH", 12),
    }.items():
        settings = again | {name: value}
        said = refusal(few(snippet, text, **settings), "train")
        assert said.endswith(f"cats.pt has other {words}")
    said = refusal(few(snippet, str(other), **again), "train")
    assert said.endswith("text")
    finished(few(snippet, text, **again))
    assert path.read_bytes() == kept

    for content in (b"", b"a week of work"):
        path.write_bytes(content)
        said = refusal(few(snippet, text, **again), "train")
        assert "cats.pt is no checkpoint" in said
        assert path.read_bytes() == content


@edits(
    ('settings = {"steps": STEPS, "batch', 'settings = {"steps": 1, "batch'),
    ('"seed": SEED, "shape": shape}', '"seed": 0, "shape": shape}'),
    ("sha256(text.encode())", "sha256(b'')"),
    (
        "elif CHECKPOINT and Path(CHECKPOINT).exists():\n    raise SystemExit",
        "elif False:\n    raise SystemExit",
    ),
    ("    if other:\n", "    if False:\n"),
)
def test_another_training_is_refused__but_not_with(
    snippet, text, tmp_path, old, new, fails
):
    """With a fixed number of steps, another goes unnoticed; the other edits
    overlook the seed or the text, or overwrite the file.
    """
    edited = snippet.edit(old, new)
    fails(test_another_training_is_refused, edited, text, tmp_path)


# -- What goes wrong ---------------------------------------------------------


def test_unshifted_targets_look_perfect(snippet, run=None):
    run = run or once(snippet, *FULL)
    assert run.copied < 0.5
    assert run.missed > run.uniform


def test_unshifted_targets_look_perfect__but_not_shifted(snippet, fails):
    """With shifted targets, the model learns to guess the next letter."""
    old, new = "pieces[:, :-1].flatten())", "pieces[:, 1:].flatten())"
    edited = snippet.edit(old, new)
    run = once(edited, *START, "not-shifted")
    fails(test_unshifted_targets_look_perfect, edited, run)


def test_overlapping_pieces_hide_memorizing(snippet, run=None):
    run = run or once(snippet, *FULL)
    assert run.overlapping < run.honest / 2
    assert run.honest > run.counted + 1


def test_overlapping_pieces_hide_memorizing__but_not_in_two_steps(
    snippet, text, fails
):
    """After two steps, the model knows neither text."""
    edited = snippet.edit(
        "60):\n    train_step(learner", "2):\n    train_step(learner"
    )
    edited = given(edited, TEXT=text)
    run = once(edited, *START, "overlap")
    fails(test_overlapping_pieces_hide_memorizing, edited, run)


def test_a_temperature_after_softmax_does_nothing(snippet, run=None):
    run = run or once(snippet, *FULL)
    first, second, third = (each.tolist() for each in run.after)
    assert first == second == third
    assert run.before[1].tolist() == second
    kinds = [len(each.unique()) for each in run.before]
    assert kinds == sorted(set(kinds))


@pytest.mark.parametrize("temperature", [0.3, 0.7, 3.0])
def test_a_temperature_after_softmax_does_nothing__also_for_one_letter_at(
    snippet, temperature
):
    chances = once(snippet, *FULL).scores.softmax(dim=0)
    drawn = []
    for each in (chances, chances / temperature):
        generator = torch.Generator().manual_seed(0)
        letters = [
            torch.multinomial(each, 1, generator=generator).item()
            for _ in range(200)
        ]
        drawn.append(letters)
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 3


def test_a_temperature_after_softmax_does_nothing__but_not_before(
    snippet, text, fails
):
    """Divided first, the scores make likely letters likelier, or less so."""
    edited = snippet.edit(
        "scores.softmax(dim=0) / t)", "(scores / t).softmax(0))"
    )
    edited = given(edited, TEXT=text)
    run = once(edited, *START, "after-softmax")
    fails(test_a_temperature_after_softmax_does_nothing, edited, run)
