"""The claims of gallery/memory_anatomy.py."""

from functools import cache

import pytest

from extensions.evidence.counterexamples import edits
from tests.helpers.recipes import check_arguments, check_refused

ARGUMENTS = {
    "BATCH": (["--batch", "3"], 3),
    "WIDTH": (["--width", "5"], 5),
    "LAYERS": (["--layers", "2"], 2),
    "OPTIMIZER": (["--optimizer", "SGD"], "SGD"),
}


@cache
def after(snippet, cell="conclude"):
    return snippet.after(cell)


def test_each_argument_sets_its_constant(snippet):
    check_arguments(snippet, ARGUMENTS)


@edits(
    ("default=BATCH", "default=1"),
    (
        "BATCH, WIDTH, LAYERS = options.batch",
        "_, WIDTH, LAYERS = options.batch",
    ),
    ("options.width, options.layers\n", "options.layers, options.width\n"),
    ("    OPTIMIZER = options.optimizer\n", ""),
    ('if "__file__" in globals():', "if True:"),
)
def test_each_argument_sets_its_constant__but_not(snippet, fails, old, new):
    """With `default=1`, `BATCH` changes without its argument; the other edits
    swap or lose values, or read arguments in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_a_number_out_of_bounds_is_refused(snippet):
    names = ("--batch", "--width", "--layers")
    check_refused(snippet, [[name, "0"] for name in names])
    check_refused(snippet, [["--layers", "-1"]])
    check_refused(snippet, [["--optimizer", "Nadam"]])


@edits(
    ("min(options.batch, options.width, options.", "min(9, options.width, o."),
    ("options.layers) < 1:", "options.layers) < 0:"),
    ('"--batch, --width and --layers', '"batch, --width and --layers'),
    ("choices=names, ", ""),
)
def test_a_number_out_of_bounds_is_refused__but_not_with(
    snippet, old, new, fails
):
    """With `9` in its place, the batch is not checked; other edits accept
    other settings, or do not name the argument.
    """
    edited = snippet.edit(old, new.replace(" o.", " options."))
    fails(test_a_number_out_of_bounds_is_refused, edited)


def test_each_kind_is_as_predicted(snippet):
    run = after(snippet)

    for kind, number in run.predicted.items():
        assert run.largest[kind] == max(now[kind] for now in run.curve)
        assert run.largest[kind] == number
    assert set(run.predicted) == {
        "parameters",
        "gradients",
        "state",
        "activations",
    }
    assert min(min(now.values()) for now in run.curve) == 0


@edits(
    ("BATCH = 512", "BATCH = 1"),
    ("WIDTH = 256", "WIDTH = 31"),
    ("LAYERS = 4", "LAYERS = 1"),
    ('OPTIMIZER = "AdamW"', 'OPTIMIZER = "SGD"'),
    ('OPTIMIZER = "AdamW"', 'OPTIMIZER = "Adagrad"'),
)
def test_each_kind_is_as_predicted__also_for(snippet, old, new):
    test_each_kind_is_as_predicted(snippet.edit(old, new))


@edits(
    (
        "amsgrad",
        "OPTIMIZER)(model.parameters())",
        "OPTIMIZER)(model.parameters(), amsgrad=True)",
    ),
    ("GELU keeps its input", "nn.ReLU()]", "nn.GELU()]"),
    ("nn.Linear(WIDTH, WIDTH),", "nn.Linear(WIDTH, WIDTH, bias=False),"),
    (
        "a second graph",
        "loss = model(inputs).square().mean()",
        "loss = model(inputs).square().mean() + model(inputs).mean()",
    ),
)
def test_each_kind_is_as_predicted__but_not(snippet, fails, old, new):
    """`amsgrad=True` keeps another tensor of state; `GELU`, layers without
    bias and a second graph change other sizes.
    """
    fails(test_each_kind_is_as_predicted, snippet.edit(old, new))


def test_gradients_of_activations_are_other(snippet):
    passed = (
        "nn.Linear(WIDTH, WIDTH), nn.ReLU()]\n"
        "    def note(module, inputs, output):\n"
        "        output.register_hook(lambda g: mark('passed', g))\n"
        "    for layer in layers:\n"
        "        layer.register_forward_hook(note)"
    )
    edited = snippet.edit(
        '"activations": 4 * BATCH', '"passed": 1, "activations": 4 * BATCH'
    ).edit("nn.Linear(WIDTH, WIDTH), nn.ReLU()]", passed)
    run, told = after(snippet), after(edited)

    assert len(run.curve) == len(told.curve)
    for now, split in zip(run.curve, told.curve, strict=True):
        assert now["other"] == split["other"] + split["passed"]
    size = 4 * run.BATCH * run.WIDTH
    assert told.largest["passed"] >= size


@edits(
    ("BATCH = 512", "BATCH = 64"),
    ("LAYERS = 4", "LAYERS = 2"),
    ('OPTIMIZER = "AdamW"', 'OPTIMIZER = "SGD"'),
)
def test_gradients_of_activations_are_other__also_for(snippet, old, new):
    test_gradients_of_activations_are_other(snippet.edit(old, new))


@edits(
    ("no backward", "    loss.backward()\n", ""),
)
def test_gradients_of_activations_are_other__but_not(snippet, fails, old, new):
    """Without `backward`, there are no gradients of activations."""
    fails(test_gradients_of_activations_are_other, snippet.edit(old, new))


def test_activations_follow_the_batch(snippet, small=64):
    few = snippet.edit("BATCH = 512", f"BATCH = {small}")
    more, less = after(snippet).largest, after(few).largest
    assert more["activations"] * small == less["activations"] * 512
    for kind in ("parameters", "gradients", "state"):
        assert more[kind] == less[kind] > 0


@pytest.mark.parametrize("small", [1, 511], ids="a batch of {}".format)
def test_activations_follow_the_batch__also_from(snippet, small):
    test_activations_follow_the_batch(snippet, small)


@edits(
    ("WIDTH = 256", "WIDTH = BATCH"),
    ("torch.randn(BATCH, WIDTH)", "torch.randn(9, WIDTH)"),
)
def test_activations_follow_the_batch__but_not(snippet, fails, old, new):
    """With `WIDTH = BATCH`, the parameters follow the batch as well; with 9
    samples each time, nothing does.
    """
    fails(test_activations_follow_the_batch, snippet.edit(old, new))


def test_the_state_stays_after_the_step(snippet):
    run = after(snippet)
    for number in (1, 2):
        now = run.stages[f"zero_grad {number}"]
        kept = {kind: size for kind, size in now.items() if size}
        assert kept == {
            kind: run.predicted[kind]
            for kind in ("parameters", "state")
            if run.predicted[kind]
        }


@pytest.mark.parametrize("kind", ["SGD", "Adagrad"])
def test_the_state_stays_after_the_step__also_of(snippet, kind):
    edited = snippet.edit('OPTIMIZER = "AdamW"', f'OPTIMIZER = "{kind}"')
    test_the_state_stays_after_the_step(edited)


@edits(
    ("gradients too", "    optimizer.zero_grad()\n", ""),
    ("zeros", "optimizer.zero_grad()", "optimizer.zero_grad(False)"),
    (
        "no state",
        "    optimizer.zero_grad()\n",
        "    optimizer.zero_grad()\n    optimizer.state.clear()\n",
    ),
    (
        "the batch too",
        "    optimizer.zero_grad()\n",
        "    optimizer.zero_grad()\n    model.kept = inputs\n",
    ),
)
def test_the_state_stays_after_the_step__but_not(snippet, fails, old, new):
    """Without `zero_grad()`, the gradients are left, too; the other edits keep
    zeros or the batch, or clear the state.
    """
    fails(test_the_state_stays_after_the_step, snippet.edit(old, new))


def test_the_largest_never_meet(snippet):
    run = after(snippet)
    found = [
        [now[kind] == run.largest[kind] for kind in run.predicted]
        for now in run.curve
    ]
    assert not any(all(each) for each in found)
    assert run.meet is False
    zeros = snippet.edit("optimizer.zero_grad()", "optimizer.zero_grad(False)")
    assert after(zeros).meet is True
    for place in range(4):  # each is at its largest some time
        assert any(each[place] for each in found)
    assert all(run.largest[kind] > 0 for kind in ("gradients", "activations"))


@edits(
    ("BATCH = 512", "BATCH = 32"),
    ("LAYERS = 4", "LAYERS = 1"),
    ("LAYERS = 4", "LAYERS = 9"),
    ('OPTIMIZER = "AdamW"', 'OPTIMIZER = "SGD"'),
)
def test_the_largest_never_meet__also_for(snippet, old, new):
    test_the_largest_never_meet(snippet.edit(old, new))


def test_the_largest_never_meet__ends_with_accumulated_gradients(
    snippet, fails
):
    """With gradients that are not cleared after the first step: they are still
    there when the activations come again.
    """
    twice = "    if number == 2:\n        optimizer.zero_grad()\n"
    edited = snippet.edit("    optimizer.zero_grad()\n", twice)
    fails(test_the_largest_never_meet, edited)


@edits(
    ("zeros", "optimizer.zero_grad()", "optimizer.zero_grad(False)"),
)
def test_the_largest_never_meet__but_not(snippet, fails, old, new):
    """With `zero_grad(False)`, the gradients stay in memory as zeros while the
    activations come.
    """
    fails(test_the_largest_never_meet, snippet.edit(old, new))


def test_backward_makes_the_peak(snippet):
    run = after(snippet)
    heights = [sum(now.values()) for now in run.curve]
    place = heights.index(max(heights))

    parts = ("forward", "backward", "step", "zero_grad")
    steps = [f"{part} {number}" for number in (1, 2) for part in parts]
    assert [*run.stages] == [*run.ends] == ["model made", *steps]
    for stage, now in run.stages.items():
        assert now == run.curve[run.ends[stage]]
    assert run.ends["forward 2"] < place <= run.ends["backward 2"]
    assert (run.stage, run.peak) == ("backward 2", run.curve[place])
    assert max(heights) > sum(run.predicted.values())
    assert run.peak["other"] > run.peak["activations"] / 2


@edits(
    ("BATCH = 512", "BATCH = 32"),
    ("no state", "    optimizer.step()\n", ""),
    ("no backward", "    loss.backward()\n", ""),
)
def test_backward_makes_the_peak__but_not(snippet, fails, old, new):
    """With a batch of 32, without the optimizer's step, or without `backward`,
    the peak comes earlier.
    """
    fails(test_backward_makes_the_peak, snippet.edit(old, new))


def test_the_remedy_follows_the_peak(snippet, small=32):
    for batch, kind in ((512, "activations"), (small, "state")):
        run = after(snippet.edit("BATCH = 512", f"BATCH = {batch}"))
        heights = [sum(now.values()) for now in run.curve]
        peak = run.curve[heights.index(max(heights))]
        assert peak[kind] == max(peak.values())
        assert sorted(peak.values())[-2] < peak[kind]
        assert run.most == kind


def test_the_remedy_follows_the_peak__also_of_one_layer_in_the_step(snippet):
    one = snippet.edit("BATCH = 512", "BATCH = 1")
    one = one.edit("LAYERS = 4", "LAYERS = 1")
    fused = {}
    for more in ("", ", fused=True"):
        kind = f"OPTIMIZER)(model.parameters(){more})"
        edited = one.edit('OPTIMIZER = "AdamW"', 'OPTIMIZER = "Adagrad"')
        run = after(edited.edit("OPTIMIZER)(model.parameters())", kind))
        fused[more] = max(sum(now.values()) for now in run.curve)
        if not more:
            assert run.stage.startswith("step")
            assert run.most == "other"
            assert "fused=True" in run.REMEDIES["other"]
    assert fused[", fused=True"] < fused[""]
    assert "smaller batch" in after(snippet).REMEDIES["other"]


def test_the_remedy_follows_the_peak__ends_for_500(snippet, fails):
    """With a batch of 500: the activations are still larger than the state."""
    fails(test_the_remedy_follows_the_peak, snippet, 500)


@edits(
    ('OPTIMIZER = "AdamW"', 'OPTIMIZER = "SGD"'),
    ("WIDTH = 256", "WIDTH = 512"),
    ("most = max(peak", "most = min(peak"),
)
def test_the_remedy_follows_the_peak__but_not(snippet, fails, old, new):
    """SGD has no state here; with `WIDTH = 512`, the state is larger in both
    cases; `min()` names the smallest kind.
    """
    fails(test_the_remedy_follows_the_peak, snippet.edit(old, new))
