"""The claims of gallery/fast_training_loop.py."""

import math
import sys
from functools import cache
from itertools import chain
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.recipes import (
    BROKEN,
    LAZY,
    MODEL,
    NO_TENSORS,
    as_script,
    check_arguments,
    check_named,
    check_refused,
    given,
    no_line,
    written,
)

pytest.importorskip("tqdm", reason="tqdm is not installed")
pytestmark = pytest.mark.usefixtures("nothing_stays")

ARGUMENTS = {
    "MODEL": (["--model", "my_model.py"], "my_model.py"),
    "EPOCHS": (["--epochs", "9"], 9),
    "BATCH": (["--batch", "7"], 7),
    "PARTS": (["--parts", "3"], 3),
    "RATE": (["--rate", "0.5"], 0.5),
    "ROUNDS": (["--rounds", "5"], 5),
}


@cache
def ready(snippet):
    """Return the variables of a program before it trains."""
    return snippet.after("loop")


@cache
def trained(snippet):
    """Return the variables of a program that has trained."""
    return snippet.after("train")


@cache
def quick(snippet):
    """Return the variables of a program that has hardly trained or timed."""
    told = "seconds = {way: [1.0] for way in ways}\n"
    snippet = snippet.edit("seconds = timed()\n", told)
    snippet = snippet.edit("{way: train(way) for way in ways}", "{}")
    return snippet.after("conclude")


# -- Settings ----------------------------------------------------------------


def test_each_argument_sets_its_constant(snippet):
    check_arguments(snippet, ARGUMENTS)


@edits(
    ("default=BATCH", "default=9"),
    ("EPOCHS, BATCH = options", "BATCH, EPOCHS = options"),
    ("PARTS, RATE, ROUNDS = options", "PARTS, ROUNDS, RATE = options"),
    ('if "__file__" in globals():  # a script', "if True:  # a script"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With `default=9`, `BATCH` changes without its argument; the other edits
    swap values, or read arguments in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_a_number_out_of_bounds_is_refused(snippet):
    check_refused(
        snippet,
        [
            ["--epochs", "0"],
            ["--batch", "0"],
            ["--parts", "-1"],
            ["--rounds", "2"],
            *(["--rate", number] for number in ("0", "-1", "inf", "nan")),
        ],
    )


@edits(
    ("options.epochs, options.batch, options.parts", "9, options.batch, 9"),
    ("options.rounds // 3", "options.rounds // 2"),
    ('options.rate < float("inf")', "options.rate"),
    ('"--rate is above 0"', '"the rate is above 0"'),
)
def test_a_number_out_of_bounds_is_refused__but_not_with(
    snippet, old, new, fails
):
    """With `9` in their place, epochs and parts are not checked; other edits
    accept other numbers, or do not name the argument.
    """
    fails(test_a_number_out_of_bounds_is_refused, snippet.edit(old, new))


@pytest.mark.simulates("an accelerator")
def test_the_dtype_suits_the_device(snippet):
    def chosen(kind, native):
        def supported(including_emulation=True):
            return native or including_emulation

        with (
            patch("torch.accelerator.is_available", lambda: kind != "cpu"),
            patch(
                "torch.accelerator.current_accelerator",
                lambda: torch.device(kind),
            ),
            patch("torch.cuda.is_bf16_supported", supported),
        ):
            return (
                snippet.only("settings", "options", "setup")
                .after("setup")
                .half
            )

    for native in (True, False):
        for kind in ("cpu", "xpu"):
            assert chosen(kind, native) == torch.bfloat16
        assert chosen("mps", native) == torch.float16
    assert chosen("cuda", True) == torch.bfloat16
    assert chosen("cuda", False) == torch.float16


@edits(
    ("including_emulation=False", "including_emulation=True"),
    ('device.type == "cuda"\n    and', 'device.type != "mps"\n    and'),
    ('if device.type == "mps" or (', "if ("),
    ("half = torch.bfloat16", "half = torch.float16"),
)
def test_the_dtype_suits_the_device__but_not_with(snippet, old, new, fails):
    """With `including_emulation=True`, a GPU that only emulates `bfloat16`
    gets it; the other edits give other devices the wrong dtype.
    """
    fails(test_the_dtype_suits_the_device, snippet.edit(old, new))


def test_a_model_of_yours_is_trained(snippet, tmp_path, text=MODEL):
    path = written(tmp_path, text)
    settings = {"MODEL": path, "EPOCHS": 2, "BATCH": 8, "ROUNDS": 3}
    with no_line():
        run = given(snippet, **settings).after("conclude")

    calls = run.build.__globals__.get("calls", [])
    assert calls.count("build") == 1
    assert len(run.data) == 21
    assert (8, 2) in calls
    for way in run.ways:
        assert len(run.errors[way]) == 3
        assert run.errors[way][2] < run.errors[way][0]
        assert len(run.seconds[way]) == 3
    assert run.Training(**run.ways["plain"]).model[2].out_features == 2


def test_a_model_of_yours_is_trained__also_if_it_is_lazy(snippet, tmp_path):
    test_a_model_of_yours_is_trained(snippet, tmp_path, LAZY)


def test_a_model_of_yours_is_trained__also_with_batch_norm(snippet, tmp_path):
    text = MODEL.replace("nn.Tanh()", "nn.BatchNorm1d(5)")
    path = written(tmp_path, text)
    with no_line():
        run = given(snippet, MODEL=path, BATCH=7).after("build")
    state = run.fresh_model.state_dict()
    assert state["1.num_batches_tracked"] == state["1.running_mean"].sum() == 0


@edits(
    ("    if MODEL:\n        sys", "    if False:\n        sys"),
    (
        "    fresh_model, data, loss_of = build()",
        "    fresh_model, data, _ = build()\n    loss_of = F.cross_entropy",
    ),
)
def test_a_model_of_yours_is_trained__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """With `if False:`, your file is never read; the second edit ignores its
    loss.
    """
    edited = snippet.edit(old, new).edit("torch.randn(690", "torch.randn(21")
    fails(test_a_model_of_yours_is_trained, edited, tmp_path)


TWO = "def build(): return 1, 2"
CUT = MODEL.replace("entropy(outputs,", "entropy(outputs.detach(),")
WRONG = MODEL.replace("nn.Linear(5, 2)", "nn.Linear(4, 2)")


def test_a_file_that_fails_is_named(snippet, tmp_path):
    def start(path):
        given(snippet, MODEL=path, EPOCHS=1).after("train")

    files = BROKEN | {"my_two.py": TWO, "my_shape.py": WRONG}
    check_named(start, tmp_path, files | {"my_graph.py": CUT})
    for name, text in NO_TENSORS.items():
        path = written(tmp_path, text, name)
        with pytest.raises(ValueError, match=name) as caught:
            start(path)
        vars(sys).pop("tracebacklimit", None)
        assert "have to be tensors" in str(caught.value)


@edits(
    ('(f"{path}: {type', '(f"{type'),
    ('.rpartition("\\n")[2]', ""),
    ("sys.tracebacklimit = 0", "sys.tracebacklimit = 9"),
    ("with one_line(MODEL):\n    errors", "if 1:\n    errors"),
    ("its inputs and its targets have to be", "no"),
)
def test_a_file_that_fails_is_named__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without `{path}`, the line does not name the file; the other edits show
    more lines, or give another reason.
    """
    fails(test_a_file_that_fails_is_named, snippet.edit(old, new), tmp_path)


# -- The loop ----------------------------------------------------------------


def test_each_way_has_one_tip(snippet, on_cuda=False):
    told = f"if {on_cuda}:\n    tips"
    program = snippet.edit('if device.type == "cuda":\n    tips', told)
    run = program.after("ways")

    plain = run.ways["plain"]
    assert plain == {"pinned": False, "dtype": torch.float32, "parts": 1}
    tips = {
        "transfer": {"pinned": True},
        "mixed precision": {"dtype": run.half},
        "parts": {"parts": 2},
    }
    if not on_cuda:
        del tips["transfer"]
    expected = {"plain": plain}
    for name, tip in tips.items():
        expected[name] = plain | tip
    every = {"pinned": on_cuda, "dtype": run.half, "parts": 2}
    assert run.ways == expected | {"all tips": every}


def test_each_way_has_one_tip__also_on_cuda(snippet):
    test_each_way_has_one_tip(snippet, True)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_each_way_has_one_tip__also_in_what_is_computed_as(snippet, half):
    run = ready(snippet.edit("half = torch.bfloat16", f"half = {half}"))
    found = {way: [] for way in run.ways}
    for way, options in run.ways.items():
        training = run.Training(**options)
        layer = training.model[0]
        layer.register_forward_hook(
            lambda layer, given, out, way=way: found[way].append(out.dtype)
        )
        inputs, targets = (
            torch.randn(4, size, device=run.device) for size in (16, 1)
        )
        run.backward(
            *(training.model, inputs, targets, training.scaler),
            **training.options,
        )
    found.pop("transfer", None)  # on CUDA
    assert found == {
        "plain": [torch.float32],
        "mixed precision": [half],
        "parts": [torch.float32] * 2,
        "all tips": [half] * 2,
    }


@pytest.mark.cuda
def test_each_way_has_one_tip__also_in_a_loader_on_cuda(snippet):
    run = ready(snippet)
    pinned = {
        way: run.Training(**run.ways[way]).loader.pin_memory
        for way in run.ways
    }
    assert [way for way in pinned if pinned[way]] == ["transfer", "all tips"]


@edits(
    ('ways["all tips"] |= tip', 'ways["all tips"] = plain | tip'),
    ("plain | {}", "plain"),
    ("{name: plain | tips[name] for", "{name: plain for"),
    ('{"dtype": half}, "parts"', '{"dtype": torch.float64}, "parts"'),
)
def test_each_way_has_one_tip__but_not_with(snippet, old, new, fails):
    """With `=` instead of `|=`, *all tips* has only the last one; the other
    edits spread, drop or change a tip.
    """
    fails(test_each_way_has_one_tip, snippet.edit(old, new))


def network(kind):
    """Return a model of 16 numbers, drawn from a generator of its own."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        middle = {
            "relu": nn.ReLU(),
            "layer norm": nn.LayerNorm(9),
            "batch norm": nn.BatchNorm1d(9),
        }[kind]
        return nn.Sequential(nn.Linear(16, 9), middle, nn.Linear(9, 1))


def gradients(run, size, parts, kind, loss_of=F.mse_loss):
    """Return the gradient of a batch in parts, and of the whole."""
    generator = torch.Generator().manual_seed(size)
    inputs = torch.randn(size, 16, generator=generator)
    targets = torch.randn(size, 1, generator=generator)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    found = []
    for whole in (False, True):
        model = network(kind)
        if whole:
            loss_of(model(inputs), targets).backward()
        else:
            own = {"loss_of": loss_of, "device": torch.device("cpu")}
            with patch.dict(run.backward.__globals__, own):
                run.backward(model, inputs, targets, scaler, parts=parts)
        grads = [each.grad.flatten() for each in model.parameters()]
        found.append(torch.cat(grads))
    return found


def test_parts_count_by_their_share(snippet, kind="relu", loss_of=F.mse_loss):
    run = ready(snippet)
    for size in (2, 13, 50, 64):
        for parts in (1, 3, 4, 7, 100):
            found = gradients(run, size, parts, kind, loss_of)
            torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["relu", "layer norm"])
@pytest.mark.parametrize("loss_of", [F.l1_loss, F.huber_loss])
def test_parts_count_by_their_share__also_with(snippet, kind, loss_of):
    test_parts_count_by_their_share(snippet, kind, loss_of)


@edits(
    ("share = len(part) / len(inputs)", "share = 1 / parts"),
    (
        "share = len(part) / len(inputs)",
        "share = 1 / len(inputs.chunk(parts))",
    ),
    ("share = len(part) / len(inputs)", "share = 1"),
)
def test_parts_count_by_their_share__but_not_with(snippet, old, new, fails):
    """With `1 / parts`, a smaller last part counts too much; with `1`, each
    part counts like a whole batch.
    """
    fails(test_parts_count_by_their_share, snippet.edit(old, new))


def test_parts_count_by_their_share__ends_for_a_loss_that_is_a_sum(
    snippet, fails
):
    """For a loss that is a sum: its parts need no weights."""

    def sum_of(outputs, targets):
        return F.mse_loss(outputs, targets, reduction="sum")

    fails(test_parts_count_by_their_share, snippet, "relu", sum_of)


def test_parts_count_by_their_share__ends_with_ignored_targets(snippet, fails):
    """For a loss that ignores some targets: the share of a part is not that of
    its samples.
    """

    def mean_of_some(outputs, targets):
        counted = targets > 0
        errors = (outputs - targets).square()[counted]
        return errors.sum() / counted.sum().clamp(min=1)

    fails(test_parts_count_by_their_share, snippet, "relu", mean_of_some)


def test_batch_norm_sees_the_parts(snippet, kind="batch norm"):
    run = ready(snippet)
    for size in (12, 50, 64):
        for parts in (3, 4):
            in_parts, whole = gradients(run, size, parts, kind)
            assert (in_parts - whole).norm() > 0.01 * whole.norm()


def test_batch_norm_sees_the_parts__but_not_in_one_part(snippet, fails):
    """If `backward` takes the whole batch at once, `BatchNorm1d` sees it
    whole.
    """
    edited = snippet.edit(
        "zip(inputs.chunk(parts), targets.chunk(parts), strict=True)",
        "zip(inputs.chunk(1), targets.chunk(1), strict=True)",
    )
    fails(test_batch_norm_sees_the_parts, edited)


def test_batch_norm_sees_the_parts__ends_for_layer_norm(snippet, fails):
    """With `LayerNorm`: it looks at each sample by itself, so the parts give
    the gradient of the whole.
    """
    fails(test_batch_norm_sees_the_parts, snippet, "layer norm")


def test_each_sample_counts_once(snippet, size=64):
    run = quick(snippet)
    backward = run.backward
    numbers = torch.arange(690.0).view(-1, 1)
    data = TensorDataset(numbers.expand(-1, 16), -numbers)
    orders, seen = [], []

    def noted(model, inputs, targets, *rest, **more):
        seen.append(inputs[:, 0].int().tolist())
        assert targets[:, 0].tolist() == [-each for each in seen[-1]]
        return backward(model, inputs, targets, *rest, **more)

    own = {"data": data, "backward": noted, "BATCH": size}
    for way in run.ways:
        seen.clear()
        with patch.dict(run.Training.epoch.__globals__, own), no_error():
            training = run.Training(**run.ways[way])
            training.epoch()
            training.epoch()
        assert len(seen) == 2 * math.ceil(690 / size)
        read = list(chain.from_iterable(seen))
        epochs = [read[:690], read[690:]]
        for epoch in epochs:
            assert sorted(epoch) == list(range(690))
        assert epochs[0] != epochs[1]
        assert epochs[0] != sorted(epochs[0])
        orders.append(epochs)
        if run.ways[way]["dtype"] is not torch.float16:  # which may skip
            states = training.optimizer.state.values()
            assert {each["step"].item() for each in states} == {len(seen)}
    assert all(each == orders[0] for each in orders)


@pytest.mark.parametrize("size", [100, 53], ids=["100", "53, the last of 1"])
def test_each_sample_counts_once__also_in_batches_of(snippet, size):
    test_each_sample_counts_once(snippet, size)


@edits(
    ('{"shuffle": True, ', "{"),
    ('{"shuffle": True, ', '{"shuffle": True, "drop_last": True, '),
    ("order = torch.Generator().manual_seed(0)", "order = None"),
    ("            self.scaler.step(self.optimizer)\n", ""),
    (
        "            self.scaler.step(self.optimizer)\n",
        "            self.scaler.step(self.optimizer)\n"
        "            self.optimizer.step()\n",
    ),
)
def test_each_sample_counts_once__but_not_with(snippet, old, new, fails):
    """Without `shuffle=True`, the order never changes; the other edits drop
    samples, mix up the order, or take too few or many steps.
    """
    fails(test_each_sample_counts_once, snippet.edit(old, new))


def test_only_float16_is_scaled(snippet):
    run = ready(snippet)
    inputs, targets = run.data[:61]
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        norms = []
        off = torch.amp.GradScaler("cpu", enabled=False)
        for scaler in (None, off):
            own = {"device": torch.device("cpu"), "half": dtype}
            with patch.dict(run.backward.__globals__, own):
                training = run.Training(pinned=False, dtype=dtype, parts=4)
                run.backward(
                    training.model,
                    inputs,
                    targets,
                    scaler or training.scaler,
                    **training.options,
                )
            norms.append(training.model[4].bias.grad.norm().item())
        factor = 65536 if dtype is torch.float16 else 1
        assert norms[0] == pytest.approx(norms[1] * factor, rel=0.05)


@edits(
    ("scaled = dtype is torch.float16", "scaled = True"),
    ("scaled = dtype is torch.float16", "scaled = dtype is torch.bfloat16"),
    ("scaler.scale(loss * share).backward()", "(loss * share).backward()"),
)
def test_only_float16_is_scaled__but_not_with(snippet, old, new, fails):
    """With `scaled = True`, every dtype is scaled; the other edits scale
    `bfloat16` instead, or nothing.
    """
    fails(test_only_float16_is_scaled, snippet.edit(old, new))


class Watched(nn.Module):
    """Passes on one number for each sample, and notes how it was called."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.seen = []

    def forward(self, inputs):
        """Return the first number of each sample, weighted."""
        self.seen.append((self.training, torch.is_grad_enabled()))
        return inputs[:, :1] * self.weight


def test_each_mode_is_set(snippet, size=64):
    run = ready(snippet)
    inputs = torch.arange(150.0).view(-1, 1)
    data = TensorDataset(inputs, torch.zeros(150, 1))
    own = {"data": data, "fresh_model": Watched(), "BATCH": size}
    with patch.dict(run.Training.epoch.__globals__, own), no_error():
        training = run.Training(**run.ways["plain"])
        error = training.error()
        asked = set(training.model.seen)
        training.model.seen.clear()
        training.epoch()

    assert error == pytest.approx(inputs.square().mean().item(), rel=1e-5)
    assert asked == {(False, False)}
    assert set(training.model.seen) == {(True, True)}


@pytest.mark.parametrize("size", [7, 150])
def test_each_mode_is_set__also_in_batches_of(snippet, size):
    test_each_mode_is_set(snippet, size)


@edits(
    ("        self.model.train()\n", ""),
    ("        self.model.eval()\n", ""),
    (
        "0.0\n        with torch.no_grad():",
        "0.0\n        with torch.enable_grad():",
    ),
    ("loss * len(inputs)", "loss * BATCH"),
)
def test_each_mode_is_set__but_not_with(snippet, old, new, fails):
    """Without `train()`, an epoch trains in evaluation mode; the other edits
    evaluate in training mode, with gradients, or wrongly weighted.
    """
    fails(test_each_mode_is_set, snippet.edit(old, new))


# -- The same result ---------------------------------------------------------


def test_all_loops_learn_the_same(snippet):
    run = trained(snippet)
    errors = run.errors

    plain = errors["plain"]
    inputs, targets = run.data.tensors
    with torch.no_grad():
        start = run.loss_of(run.fresh_model.eval()(inputs), targets)
    assert plain[0] == pytest.approx(start.item(), rel=1e-3)
    assert list(errors)[-3:] == ["mixed precision", "parts", "all tips"]
    for found in errors.values():
        assert len(found) == 7
        assert found[0] == plain[0]
        assert found[-1] == pytest.approx(plain[-1], rel=0.25)
        assert found[-1] < plain[0] / 10


@pytest.mark.parametrize("settings", [{"BATCH": 128}, {"PARTS": 3}])
def test_all_loops_learn_the_same__also_with(snippet, settings):
    test_all_loops_learn_the_same(given(snippet, **settings))


def test_all_loops_learn_the_same__also_in_float16(snippet):
    program = snippet.edit("half = torch.bfloat16", "half = torch.float16")
    test_all_loops_learn_the_same(program)


@edits(
    ("            self.scaler.step(self.optimizer)\n", ""),
    ("share = len(part) / len(inputs)", "share = 1 - 0.9 * mixed"),
    ("            self.optimizer.zero_grad()\n", ""),
)
def test_all_loops_learn_the_same__but_not_with(snippet, old, new, fails):
    """Without the step, no loop learns; the other edits weaken some gradients,
    or never clear them.
    """
    if "share" in old:  # AdamW hides a factor
        snippet = snippet.edit("torch.optim.AdamW(", "torch.optim.SGD(")
    fails(test_all_loops_learn_the_same, snippet.edit(old, new))


# -- The time ----------------------------------------------------------------


def test_each_loop_warms_up(snippet, rounds=4, kind="xpu"):
    run = quick(snippet)
    assert run.ROUNDS == 4
    clock, log = [0], []

    class Noted:
        def __init__(self, **way):
            self.calls = 0

        def epoch(self):
            self.calls += 1
            log.append(self)
            clock[0] += 10**self.calls

    own = {
        "Training": Noted,
        "ROUNDS": rounds,
        "device": SimpleNamespace(type=kind),
        "time": SimpleNamespace(
            perf_counter=lambda: log.append(0) or clock[0]
        ),
    }
    waits = []
    with (
        patch.dict(run.timed.__globals__, own),
        patch("torch.accelerator.synchronize", lambda: log.append(1)),
    ):
        found = run.timed()

    expected = [10 ** (2 + each) for each in range(rounds)]
    assert found == dict.fromkeys(run.ways, expected)
    loops = [each for each in log if each not in (0, 1)]
    assert len(set(loops)) == len(run.ways)
    assert loops == loops[: len(run.ways)] * (1 + rounds)
    reads = [place for place, each in enumerate(log) if each == 0]
    waits = [log[place - 1] == 1 for place in reads]
    assert waits == [kind != "cpu"] * len(reads)


@pytest.mark.parametrize("rounds", [3, 5], ids="{} rounds".format)
@pytest.mark.parametrize("kind", ["cpu", "cuda"], ids=["a CPU", "a GPU"])
def test_each_loop_warms_up__also_on(snippet, rounds, kind):
    test_each_loop_warms_up(snippet, rounds, kind)


@edits(
    ("[now() - start] if each else []", "[now() - start]"),
    ("range(1 + ROUNDS)", "range(ROUNDS)"),
    ("ROUNDS = 4", "ROUNDS = 3"),
    ("        torch.accelerator.synchronize()\n", "        pass\n"),
    (
        "start = now()\n            training.epoch()",
        "start = now()\n            training.epoch()\n"
        "            training.epoch()",
    ),
)
def test_each_loop_warms_up__but_not_with(snippet, old, new, fails):
    """`[now() - start]` alone counts the first epoch, too; the other edits
    time too few or too many, or do not wait.
    """
    fails(test_each_loop_warms_up, snippet.edit(old, new))


EFFECTS = [
    ([5.0, 6.0, 7.0], [10.0, 11.0, 12.0], "is faster"),
    ([10.0], [10.6], "is faster"),
    ([10.0], [10.4], "makes no difference"),
    ([10.0, 11.0, 12.0], [5.0, 6.0, 7.0], "is slower"),
    ([10.0], [10.52], "is faster"),
    ([10.52], [10.0], "is slower"),
    ([10.4], [10.0], "makes no difference"),
    ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], "makes no difference"),
    ([9.0], [8.5, 10.0], "makes no difference"),
    ([8.5, 10.0], [9.0], "makes no difference"),
    ([10.0, 12.4], [11.0, 12.0], "makes no difference"),
    ([10.0, 12.6], [11.0, 12.0], "is too noisy to tell: try more rounds"),
    ([11.0, 12.0], [10.0, 12.6], "is too noisy to tell: try more rounds"),
    ([2.0, 30.0], [10.0, 11.0], "is too noisy to tell: try more rounds"),
    ([10.0, 30.0], [2.0, 10.1], "is too noisy to tell: try more rounds"),
]


def test_an_effect_is_one_of_four(snippet):
    effect = quick(snippet).effect

    found = [effect(seconds, base) for seconds, base, _ in EFFECTS]
    assert found == [words for _, _, words in EFFECTS]
    for seconds, base, words in EFFECTS:
        shorter = [each / 64 for each in seconds[::-1]]
        assert effect(shorter, [each / 64 for each in base[::-1]]) == words


def test_an_effect_is_one_of_four__also_as_a_script_prints_it(snippet, capsys):
    with patch("sys.argv", ["recipe.py"]):
        run = quick(as_script(snippet))
    printed = capsys.readouterr().out.splitlines()

    plain, *others = run.ways
    calls = {way: len(names) for way, names in run.called.items()}
    lines = [
        f"{way} makes no difference,"
        f" with {calls[way] / calls[plain]:.1f} times the calls"
        for way in others
    ]
    assert printed[-1 - len(lines) :] == [
        f"on {run.device.type}:",
        *lines,
    ]


@edits(
    ("1.05 * max(seconds) < min(base)", "1.05 * min(seconds) < min(base)"),
    ("1.05 * max(seconds) < min(base)", "1.05 * max(seconds) < max(base)"),
    ("1.05 * max(seconds) <", "1.0 * max(seconds) <"),
    ("1.05 * max(base) < min(seconds)", "1.05 * min(base) < min(seconds)"),
    ("1.05 * max(base) < min(seconds)", "1.05 * max(base) < max(seconds)"),
    ("1.05 * max(base) <", "1.0 * max(base) <"),
    ("max(*seconds, *base) <", "max(base) <"),
    ("< 1.25 * min(*seconds, *base)", "< 1.25 * min(base)"),
)
def test_an_effect_is_one_of_four__but_not_with(snippet, old, new, fails):
    """With `min(seconds)`, a loop wins by its fastest epoch; the other edits
    also move a limit, or compare other epochs.
    """
    fails(test_an_effect_is_one_of_four, snippet.edit(old, new))


def test_each_tip_calls_more(snippet):
    untrained = snippet.edit("{way: train(way) for way in ways}", "{}")
    called = untrained.after("calls").called
    plain, mixed = called["plain"], called["mixed precision"]
    assert len(plain) < len(called["parts"])
    assert len(plain) < len(mixed)
    for name in ("aten.addmm", "aten.threshold_backward"):
        assert called["parts"].count(name) == 2 * plain.count(name)
    assert plain.count("aten._to_copy") < mixed.count("aten._to_copy")
    assert len(called["all tips"]) > max(len(called["parts"]), len(mixed))


@edits(
    ("one part", "PARTS = 2", "PARTS = 1"),
    ("full precision", '{"dtype": half}', '{"dtype": torch.float32}'),
)
def test_each_tip_calls_more__but_not_with(snippet, old, new, fails):
    """With a single part, or with `float32`, a loop calls no more operations
    than the plain one.
    """
    fails(test_each_tip_calls_more, snippet.edit(old, new))
