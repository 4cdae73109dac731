"""The claims of docs/autograd/functions.md."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older
from extensions.programs.snippet import after
from tests.helpers.worlds import DTYPES, TENSORS, each

# Some of what the compiler loads when it is first asked uses torch.jit.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
    # Nor does the compiler heed what torch says about instances of Function.
    pytest.mark.filterwarnings(
        "ignore:.*should not be instantiated:DeprecationWarning"
    ),
]

CHECKED = ("cube-root", "check", "error-of")
DIGITS = ("cube-root", "round", "digits")
OUTPUTS = ("cube-root", "error-of", "outputs")
ATTRIBUTE = ("cube-root", "error-of", "attribute")
SECOND = ("cube-root", "check", "error-of", "slope", "second")
ONCE = ("cube-root", "error-of", "penalty", "once")
SILENT = (*ONCE, "once-silent")
AUTOCAST = ("cube-root", "error-of", "autocast")
VMAP = ("cube-root", "error-of", "slope", "vmap-missing", "vmap")
MISMATCH = (
    "GradcheckError: Jacobian mismatch for output 0 with respect to input 0"
)
NOT_DOUBLE = "is not a double precision floating point or complex"
MISFITS = {
    "one for two": "an incorrect number of gradients (expected 2, got 1)",
    "another shape": "invalid gradient at index 0 - got [] but expected shape",
    "one for the number": "a gradient different than None at position 2",
}
INPLACE = "has been modified by an inplace operation"
TWICE = (
    "trying to differentiate twice a function that was marked with "
    "@once_differentiable"
)
BFLOAT = "Got unsupported ScalarType BFloat16"
GUARD = "CubeRoot has no second derivative"
DIVISOR = "grad_output / (3 * edge**2)"


def close(found, expected, **tolerances):
    """Compare numbers up to rounding."""
    if not isinstance(expected, torch.Tensor):
        expected = torch.tensor(expected, dtype=found.dtype)
    torch.testing.assert_close(found.detach(), expected, **tolerances)


def gradient(function, *numbers, dtype=torch.float32):
    """Return the gradient of a sum of results, and the results."""
    x = torch.tensor(numbers, dtype=dtype, requires_grad=True)
    results = function(x)
    results.sum().backward()
    return x.grad, results


# Do this


def test_the_edge_gets_its_gradient(snippet):
    with no_error():
        run = after(snippet, "cube-root", "edge")
    close(run.edge, 2.0)
    close(run.volume.grad, 1 / 12)


@each("dtype", DTYPES, "float64", "float16")
def test_the_edge_gets_its_gradient__also_in(snippet, dtype):
    run = after(snippet, "cube-root")
    found, edges = gradient(run.CubeRoot.apply, 8, 27, -1, dtype=dtype)
    close(edges, [2.0, 3.0, -1.0])
    close(found, [1 / 12, 1 / 27, 1 / 3], atol=1e-3, rtol=1e-3)
    assert found.dtype == dtype


@each("tensor", TENSORS, "empty", "transposed", "with gaps", "expanded")
def test_the_edge_gets_its_gradient__also_of_a_tensor(snippet, tensor):
    run = after(snippet, "cube-root")
    leaf = (tensor() + 1).requires_grad_()
    run.CubeRoot.apply(leaf).sum().backward()
    close(leaf.grad, leaf.detach().pow(-2 / 3) / 3)


@edits(
    ("without the square", DIVISOR, "grad_output / (3 * edge)"),
    ("without the 3", DIVISOR, "grad_output / edge**2"),
    (
        "without apply",
        "edge = CubeRoot.apply(volume)\nedge",
        "edge = CubeRoot.forward(volume)\nedge",
    ),
)
def test_the_edge_gets_its_gradient__but_not(snippet, old, new, fails):
    """The formula is wrong, or `forward` is called without `apply`."""
    fails(test_the_edge_gets_its_gradient, snippet.edit(old, new))


def test_the_edge_gets_its_gradient__ends_on_another_device(snippet, fails):
    """`.numpy()` raises an error for a tensor on a GPU or another device."""
    old = "edge = CubeRoot.apply(volume)\nedge.backward()"
    edited = snippet.edit(old, old.replace("volume", 'volume.to("meta")'))
    run = after(snippet, "cube-root")
    with pytest.raises(TypeError, match="can't convert meta device"):
        run.CubeRoot.apply(torch.tensor(8.0, device="meta"))
    fails(test_the_edge_gets_its_gradient, edited)


# How it works


def test_forward_is_not_recorded(snippet):
    run = after(snippet, "cube-root")
    seen = []

    class Watched(run.CubeRoot):
        @staticmethod
        def forward(volume):
            with no_error():
                seen.append((volume * 2).requires_grad)
                return run.CubeRoot.forward(volume)

    volume = torch.tensor(8.0, requires_grad=True)
    assert Watched.apply(volume).requires_grad
    assert seen == [False]
    assert "detach" not in snippet.cell("cube-root").source
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\)"):
        volume.numpy()


def test_forward_is_not_recorded__also_with_ctx_in_forward(snippet):
    run = after(snippet, "cube-root", "slope")
    edge = run.SlopeFromForward.apply(torch.ones(3, requires_grad=True))
    assert edge.requires_grad


def test_forward_is_not_recorded__but_not_with_enable_grad(snippet, fails):
    """`forward` can switch recording on again, and then needs `detach()`."""
    edited = snippet.edit(
        "        return torch.as_tensor(np.cbrt(volume.numpy()))",
        "        with torch.enable_grad():\n"
        "            return torch.as_tensor(np.cbrt(volume.numpy()))",
    )
    fails(test_forward_is_not_recorded, edited)


def test_backward_multiplies(snippet):
    run = after(snippet, "cube-root", "by-hand")
    close(run.loss, 9.0)
    close(run.volume.grad, -0.5)
    handed = []

    class Watched(run.CubeRoot):
        @staticmethod
        def backward(ctx, grad_output):
            handed.append(grad_output.item())
            return run.CubeRoot.backward(ctx, grad_output)

    gradient(lambda volume: (Watched.apply(volume) - 5) ** 2, 8)
    assert handed == [-6]


@edits(
    ("not multiplied", DIVISOR, "1 / (3 * edge**2)"),
    ("another target", "(volume) - 5)", "(volume) - 6)"),
)
def test_backward_multiplies__but_not(snippet, old, new, fails):
    """`backward` forgets what it was handed, or is handed something else."""
    fails(test_backward_multiplies, snippet.edit(old, new))


def test_none_for_a_number(snippet):
    with no_error():
        run = after(snippet, "cube-root", "round", "round-one")
    assert run.rounded.item() == 3
    assert run.weight.grad == 5
    assert run.Round.backward(None, 5.0) == (5.0, None)


@pytest.mark.parametrize("step", [0.1, 2, True], ids="step {}".format)
def test_none_for_a_number__also_for(snippet, step):
    run = after(snippet, "cube-root", "round")
    found, rounded = gradient(lambda x: run.Round.apply(x, step), 4.3, -1.2)
    assert found.tolist() == [1, 1]
    close(rounded, (torch.tensor([4.3, -1.2]) / step).round() * step)


TWO = "return grad_output, None  #"


@edits(
    ("without None", TWO, "return grad_output  #"),
    ("with a gradient for the number", TWO, "return grad_output, 1.0  #"),
    ("with None for the weight", TWO, "return None, None  #"),
)
def test_none_for_a_number__but_not(snippet, old, new, fails):
    """A missing or an additional gradient raises an error; `None` gives the
    weight no gradient.
    """
    fails(test_none_for_a_number, snippet.edit(old, new))


def test_none_for_a_number__ends_with_more_of_them(snippet, fails):
    """More results are ignored if each of these is `None`."""
    edited = snippet.edit(TWO, "return grad_output, None, None  #")
    run = after(edited, "cube-root", "round", "round-one")
    assert run.weight.grad == 5
    fails(test_none_for_a_number, edited)


def test_rounded_weights_learn(snippet, seed=0):
    run = after(snippet, *DIGITS, "rounded-weights")
    if seed == 0:
        right = [*run.right.values()]
    else:
        right = [
            run.right_answers(run.fit(x, seed)) for x in run.ways.values()
        ]
    assert right[2] > right[0] + 0.1
    assert right[1] < 0.3
    assert right[2] > 0.8

    rounded_later, plain, through = run.ways.values()
    torch.manual_seed(seed)
    begun = torch.randn(64, 10) / 10
    assert torch.equal(run.fit(plain, seed), begun)
    weights = torch.linspace(-7, 7, 640).reshape(64, 10)
    assert rounded_later(weights) is weights
    assert torch.equal(through(weights), plain(weights))
    assert set(through(weights).flatten().tolist()) == {-6, -3, 0, 3, 6}
    assert len(run.valid) == 500
    assert set(run.valid.tolist()).isdisjoint(run.train.tolist())
    scores = run.images[run.valid] @ plain(weights)
    found = (scores.argmax(dim=1) == run.labels[run.valid]).float().mean()
    assert run.right_answers(weights) == pytest.approx(found.item())


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_rounded_weights_learn__also_from(snippet, seed):
    test_rounded_weights_learn(snippet, seed)


@edits(
    ("a gradient of zero", TWO, "return 0 * grad_output, None  #"),
    ("steps that are small", "(weights / 3).round() * 3", "weights"),
)
def test_rounded_weights_learn__but_not(snippet, old, new, fails):
    """With a gradient of zero, nothing learns; without rounding, both do."""
    fails(test_rounded_weights_learn, snippet.edit(old, new))


def test_rounded_weights_learn__ends_with_finer_steps(snippet, fails):
    """With steps of 1 instead of 3, rounding after training does as well."""
    edited = (
        snippet.edit("@ Round.apply(weights, 3.0)", "@ weights.round()")
        .edit("(weights / 3).round() * 3", "weights.round()")
        .edit("Round.apply(weights, 3.0),\n}", "Round.apply(weights, 1.0),\n}")
    )
    later, plain, through = after(
        edited, *DIGITS, "rounded-weights"
    ).right.values()
    assert plain < 0.3
    assert min(later, through) > 0.8
    fails(test_rounded_weights_learn, edited)


# What goes wrong


def test_gradcheck_finds_a_wrong_power(snippet):
    run = after(snippet, *CHECKED, "wrong-power")
    assert gradcheck(run.CubeRoot.apply, run.some)
    assert run.wrong_power.startswith(MISMATCH)
    assert run.wrong_power == run.wrong_power.strip()
    assert "numerical:tensor([[0.0833" in run.wrong_power
    assert "analytical:tensor([[0.1667" in run.wrong_power
    found, _ = gradient(run.WrongPower.apply, 8)
    close(found, [1 / 6])


@pytest.mark.parametrize(
    "factor", [0.9, 1.01, -1.0, 0.0], ids="a gradient times {}".format
)
def test_gradcheck_finds_a_wrong_power__also_in(snippet, factor):
    run = after(snippet, *CHECKED)

    class Scaled(run.CubeRoot):
        @staticmethod
        def backward(ctx, grad_output):
            return factor * run.CubeRoot.backward(ctx, grad_output)

    assert run.error_of(gradcheck, Scaled.apply, run.some).startswith(MISMATCH)


def test_gradcheck_finds_a_wrong_power__also_in_a_straight_through_estimator(
    snippet,
):
    run = after(snippet, "cube-root", "check", "round", "error-of")
    said = run.error_of(gradcheck, lambda x: run.Round.apply(x, 3.0), run.some)
    assert said.startswith(MISMATCH)


def test_gradcheck_finds_a_wrong_power__but_not_with_the_square(
    snippet, fails
):
    """Then it is right."""
    edited = snippet.edit("(3 * edge)\n", "(3 * edge**2)\n")
    fails(test_gradcheck_finds_a_wrong_power, edited)


def test_gradcheck_finds_a_wrong_power__ends_below_its_tolerance(
    snippet, fails
):
    """A gradient that is wrong by less than a thousandth passes."""
    edited = snippet.edit("(3 * edge)\n", "(3.001 * edge**2)\n")
    fails(test_gradcheck_finds_a_wrong_power, edited)


def test_gradcheck_finds_a_wrong_power__ends_at_other_inputs(snippet, fails):
    """It looks at the inputs that it gets: a function that is wrong for
    negative volumes passes with positive ones.
    """
    edited = snippet.edit("(3 * edge)\n", "(3 * edge * edge.abs())\n")
    run = after(edited, *CHECKED, "wrong-power")
    negative = -run.some.detach()
    with pytest.raises(Exception, match="Jacobian mismatch"):
        gradcheck(run.WrongPower.apply, negative.requires_grad_())
    fails(test_gradcheck_finds_a_wrong_power, edited)


def test_gradcheck_finds_a_wrong_power__ends_without_mark_dirty(
    snippet, fails
):
    """A `forward` that changes its input in place without `ctx.mark_dirty`
    passes, though whatever else uses that input gets a wrong gradient.
    """
    edited = snippet.edit(
        "class WrongPower(CubeRoot):\n",
        "class WrongPower(CubeRoot):\n"
        "    @staticmethod\n"
        "    def forward(volume):\n"
        "        return volume.copy_(CubeRoot.forward(volume))\n\n"
        "    @staticmethod\n"
        "    def setup_context(ctx, inputs, output):\n"
        "        ctx.save_for_backward(output.clone())\n\n",
    )
    edited = edited.edit("(3 * edge)\n", "(3 * edge**2)\n").edit(
        "gradcheck, WrongPower.apply, some)",
        "gradcheck, lambda x: WrongPower.apply(x * 1), some)",
    )
    run = after(edited, *CHECKED, "wrong-power")
    assert run.wrong_power == "no error"

    class Marked(run.WrongPower):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(*inputs)
            run.WrongPower.setup_context(ctx, inputs, output)

    for function, expected in (run.WrongPower, 1.0), (Marked, 1 / 12):
        volume = torch.tensor([8.0], requires_grad=True)
        changed = volume * 1
        function.apply(changed)
        assert changed.item() == 2
        changed.sum().backward()
        close(volume.grad, [expected])
    fails(test_gradcheck_finds_a_wrong_power, edited)


def test_gradcheck_needs_float64(snippet):
    with no_error():
        run = after(snippet, *CHECKED, "float32")
    assert gradcheck(run.CubeRoot.apply, run.some)
    found, _ = gradient(run.CubeRoot.apply, 8, 27)
    close(found, [1 / 12, 1 / 27])
    assert run.right_but_float32.startswith(MISMATCH)
    assert [NOT_DOUBLE in str(each.message) for each in run.caught] == [True]
    moved = torch.tensor([8 + 1e-6, 8 - 1e-6], dtype=torch.float64)
    away = (run.CubeRoot.apply(moved) - 2).abs()
    close(away, [8e-8, 8e-8], atol=0.0, rtol=0.05)
    below = np.float32(2) - np.nextafter(np.float32(2), np.float32(0))
    assert away.max() < below < np.spacing(np.float32(2))


@pytest.mark.parametrize("volume", [0.5, 1.0, 100.0], ids="volume {}".format)
def test_gradcheck_needs_float64__also_for(snippet, volume):
    run = after(snippet, *CHECKED)
    inputs = torch.tensor([volume], requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision"):
        said = run.error_of(gradcheck, run.CubeRoot.apply, inputs)
    assert said.startswith(MISMATCH)


def test_gradcheck_needs_float64__but_not_in_float64(snippet, fails):
    """In `float64`, it passes the right gradient."""
    edited = snippet.edit(
        "in_float32 = torch.tensor([8.0, 27.0], requires_grad=True)",
        "in_float32 = some",
    )
    fails(test_gradcheck_needs_float64, edited)


def test_gradcheck_needs_float64__ends_with_a_larger_eps(snippet, fails):
    """A larger step and tolerance find a gross error in `float32` as well."""
    edited = snippet.edit(
        "error_of(gradcheck, CubeRoot.apply, in_float32)",
        "error_of(\n"
        "        lambda x: gradcheck(CubeRoot.apply, x, eps=0.1, rtol=0.01),\n"
        "        in_float32,\n"
        "    )",
    )
    fails(test_gradcheck_needs_float64, edited)


def test_gradcheck_needs_float64__ends_near_zero(snippet, fails):
    """Near 0, `float32` has numbers that are close enough."""
    edited = snippet.edit(
        "in_float32 = torch.tensor([8.0, 27.0]",
        "in_float32 = torch.tensor([0.001, 0.002]",
    )
    run = after(edited, *CHECKED, "float32")
    assert run.right_but_float32 == "no error"
    fails(test_gradcheck_needs_float64, edited)


def test_misfits_raise(snippet):
    run = after(snippet, "cube-root", "round", "error-of", "misfits")
    for name, text in MISFITS.items():
        assert text in run.said[name]
        assert run.said[name].startswith("RuntimeError")
    assert (
        run.error_of(run.train_with, lambda grad: (grad, None)) == "no error"
    )
    assert (
        run.error_of(run.train_with, lambda grad: (None, None)) == "no error"
    )
    leaf = torch.ones(2, requires_grad=True)

    class Nothing(run.Round):
        @staticmethod
        def backward(ctx, grad_output):
            return None, None

    Nothing.apply(leaf, 3.0).sum().backward()
    assert leaf.grad is None


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda grad: (grad, None, grad), "(expected 2, got 3)"),
        (lambda grad: (grad.repeat(2), None), "got [4] but expected"),
        (lambda grad: (grad[:1], None), "got [1] but expected"),
    ],
    ids=["three for two", "too long", "one that could be broadcast"],
)
def test_misfits_raise__also(snippet, answer, text):
    run = after(snippet, "cube-root", "round", "error-of", "misfits")
    assert text in run.error_of(run.train_with, answer)


@edits(
    (
        "two for two",
        '"one for two": lambda grad: grad',
        '"one for two": lambda grad: (grad, None)',
    ),
    ("the shape", "(grad.sum(), None)", "(grad, None)"),
    (
        "None for the number",
        "lambda grad: (grad, grad)",
        "lambda grad: (grad, None)",
    ),
)
def test_misfits_raise__but_not(snippet, old, new, fails):
    """Then they fit."""
    fails(test_misfits_raise, snippet.edit(old, new))


@pytest.mark.parametrize("rows", [1, 3], ids="{} rows".format)
def test_misfits_raise__ends_if_the_input_could_be_broadcast(
    snippet, fails, rows
):
    """A larger gradient is summed to the input's shape, if the input could
    be broadcast to it: here, (3, 2) to (2,).
    """
    larger = f"(grad.expand({rows}, 2), None)"
    fails(test_misfits_raise, snippet.edit("(grad.sum(), None)", larger))


def test_misfits_raise__ends_under_compile(snippet, fails):
    """`torch.compile` fills a missing gradient with `None`."""
    edited = snippet.edit(
        "    Misfit.apply(torch.ones(2, requires_grad=True), 3.0)",
        "    @torch.compile(backend='eager')\n"
        "    def compiled(x):\n"
        "        return Misfit.apply(x, 3.0)\n\n"
        "    compiled(torch.ones(2, requires_grad=True))",
    )
    run = after(edited, "cube-root", "round", "error-of", "misfits")
    assert run.said["one for two"] == "no error"
    fails(test_misfits_raise, edited)


def received(run, function, *used):
    """Return what `backward` gets if these outputs go into the loss."""
    seen = []

    class Watched(function):
        @staticmethod
        def backward(ctx, *grads):
            seen.extend(grads)
            return function.backward(ctx, *grads)

    volume = torch.tensor(10.0, requires_grad=True)
    outputs = Watched.apply(volume)
    with no_error():
        sum((3 + place) * outputs[place] for place in used).backward()
    return seen


def without_zeros(function):
    """Return this function, but with `None` in place of zeros."""

    class NoZeros(function):
        @staticmethod
        def setup_context(ctx, inputs, output):
            function.setup_context(ctx, inputs, output)
            ctx.set_materialize_grads(False)

    return NoZeros


def test_one_gradient_for_each_output(snippet):
    with no_error():
        run = after(snippet, *OUTPUTS)
    close(run.volume.grad, 1 / (3 * 10 ** (2 / 3)))
    for function in (run.EdgeAndCount, run.Unmarked):
        assert received(run, function, 0) == [3, 0]
        assert received(run, without_zeros(function), 0) == [3, None]
    assert received(run, run.Unmarked, 0, 1) == [3, 4]


def test_one_gradient_for_each_output__also_with_ctx_in_forward(snippet):
    run = after(snippet, *OUTPUTS)

    class Older(torch.autograd.Function):
        @staticmethod
        def forward(ctx, volume):
            outputs = run.EdgeAndCount.forward(volume)
            run.EdgeAndCount.setup_context(ctx, (volume,), outputs)
            return outputs

        @staticmethod
        def backward(ctx, grad_edge, grad_count):
            return run.CubeRoot.backward(ctx, grad_edge)

    assert received(run, Older, 0) == [3, 0]


@edits(
    (
        "one output",
        "return edge, edge.floor()",
        "return (edge,)",
    ),
    (
        "zeros",
        "        ctx.mark_non_differentiable(count)",
        "        ctx.mark_non_differentiable(count)\n"
        "        ctx.set_materialize_grads(False)",
    ),
)
def test_one_gradient_for_each_output__but_not(snippet, old, new, fails):
    """One output has one gradient, or `None` takes the place of zeros."""
    fails(test_one_gradient_for_each_output, snippet.edit(old, new))


def test_an_unmarked_output_teaches_nothing(snippet, dtype=torch.float32):
    with no_error():
        run = after(snippet, *OUTPUTS)
        volume = torch.tensor(10.0, dtype=dtype, requires_grad=True)
        _, unmarked = run.Unmarked.apply(volume)
        assert unmarked.dtype.is_floating_point
        assert unmarked.requires_grad
        ((unmarked - 5) ** 2).backward()
    assert volume.grad == run.slope_of_count == 0
    assert unmarked == run.count == 2
    assert not run.count.requires_grad
    assert "does not require grad" in run.said_of_count


@each("dtype", DTYPES, "float64", "float16")
def test_an_unmarked_output_teaches_nothing__also_in(snippet, dtype):
    test_an_unmarked_output_teaches_nothing(snippet, dtype)


@edits(
    (
        "both marked",
        "        ctx.save_for_backward(output[0])\n",
        "        ctx.save_for_backward(output[0])\n"
        "        ctx.mark_non_differentiable(output[1])\n",
    ),
    ("none marked", "        ctx.mark_non_differentiable(count)\n", ""),
)
def test_an_unmarked_output_teaches_nothing__but_not(snippet, old, new, fails):
    """Both raise an error, or none does."""
    fails(test_an_unmarked_output_teaches_nothing, snippet.edit(old, new))


def test_an_unmarked_output_teaches_nothing__ends_with_integers(
    snippet, fails
):
    """An output of integers never requires a gradient, marked or not."""
    edited = snippet.edit("edge, edge.floor()", "edge, edge.floor().int()")
    fails(test_an_unmarked_output_teaches_nothing, edited)


def test_attributes_hide_changes(snippet):
    run = after(snippet, *ATTRIBUTE, "overwritten")
    with no_error():
        found = run.in_millimeters(run.EdgeAsAttribute)
    close(found, 10 / (3 * 20**2))
    assert INPLACE in run.error_of(run.in_millimeters, run.CubeRoot)


def test_attributes_hide_changes__also_of_an_input(snippet):
    run = after(snippet, "cube-root")

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            (ctx.x,) = inputs

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * ctx.x * grad_output

    class Saved(Square):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * ctx.saved_tensors[0] * grad_output

    for function in (Square, Saved):
        leaf = torch.tensor([3.0], requires_grad=True)
        hidden = leaf * 1
        square = function.apply(hidden)
        hidden += 1
        if function is Square:
            square.backward()
            assert leaf.grad.item() == 8
        else:
            with pytest.raises(RuntimeError, match=INPLACE):
                square.backward()
    assert run.CubeRoot


@edits(
    ("a copy", "ctx.edge = output", "ctx.edge = output.clone()"),
    ("a new tensor", "edge *= 10  #", "edge = edge * 10  #"),
)
def test_attributes_hide_changes__but_not(snippet, old, new, fails):
    """Then nothing is overwritten that the gradient needs."""
    fails(test_attributes_hide_changes, snippet.edit(old, new))


@edits(
    ("data", "edge *= 10  #", "edge.data *= 10  #"),
    ("NumPy", "edge *= 10  #", "edge.detach().numpy()[...] *= 10  #"),
)
def test_attributes_hide_changes__ends_with(snippet, old, new, fails):
    """Changes through `.data` or NumPy escape `save_for_backward`, too."""
    fails(test_attributes_hide_changes, snippet.edit(old, new))


def test_an_output_as_attribute_leaks(snippet):
    run = after(snippet, *ATTRIBUTE, "leak")
    assert run.kept["EdgeAsAttribute"] == "still there"
    assert run.kept["CubeRoot"] == "freed"
    assert gc.isenabled()


def test_an_output_as_attribute_leaks__also_with_ctx_in_forward(snippet):
    run = after(snippet, *ATTRIBUTE)

    class Older(torch.autograd.Function):
        @staticmethod
        def forward(ctx, volume):
            ctx.edge = run.CubeRoot.forward(volume)
            return ctx.edge

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output / (3 * ctx.edge**2)

    for trained in (True, False):
        gc.disable()
        edge = Older.apply(torch.ones(9, requires_grad=True))
        if trained:
            edge.sum().backward()
        watched = weakref.ref(edge)
        del edge
        kept = watched() is not None
        gc.enable()
        assert kept


@edits(
    ("a copy", "ctx.edge = output", "ctx.edge = output.clone()"),
    ("data alone", "ctx.edge = output", "ctx.edge = output.detach()"),
    (
        "no graph",
        "(torch.ones(1000, requires_grad=True))\n    edge.sum().backward()",
        "(torch.ones(1000))",
    ),
)
def test_an_output_as_attribute_leaks__but_not(snippet, old, new, fails):
    """Another tensor doesn't lead back to the graph, and without gradients,
    there is no graph.
    """
    fails(test_an_output_as_attribute_leaks, snippet.edit(old, new))


def test_an_output_as_attribute_leaks__ends_with_an_input(snippet, fails):
    """An input kept as an attribute doesn't lead back to the function."""
    edited = snippet.edit("ctx.edge = output", "(ctx.edge,) = inputs")
    fails(test_an_output_as_attribute_leaks, edited)


@pytest.mark.usefixtures("frozen")
def test_an_output_as_attribute_leaks__ends_when_garbage_is_collected(
    snippet, fails
):
    """`gc.collect()` frees it."""
    edited = snippet.edit(
        "    del edge\n    kept", "    del edge\n    gc.collect()\n    kept"
    )
    fails(test_an_output_as_attribute_leaks, edited)


NOT_SAVED = "TypeError: save_for_backward can only save variables"


def saves(snippet, value):
    """Return what it says to saving a tensor and a value."""
    run = after(snippet, "cube-root", "round", "error-of")

    class Saves(run.Round):
        @staticmethod
        def forward(x, value):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

    return run.error_of(Saves.apply, torch.ones(2, requires_grad=True), value)


def test_only_tensors_are_saved(snippet, values=(3, "a", (1, 2), [1], {})):
    run = after(snippet, "cube-root", "round", "error-of", "numbers-saved")
    assert run.said_of_number == (
        f"{NOT_SAVED}, but argument 1 is of type float"
    )
    for value in values:
        said = saves(snippet, value)
        assert said.startswith(f"{NOT_SAVED}, but argument 1 is of type ")
        assert said.endswith(type(value).__name__)
    for value in (torch.ones(()), torch.ones(3).long(), None):
        assert saves(snippet, value) == "no error"


@pytest.mark.parametrize(
    "value",
    [True, [torch.ones(2)], (torch.ones(2),), np.ones(2), torch.float32],
    ids=["a bool", "a list of tensors", "a tuple", "an array", "a dtype"],
)
def test_only_tensors_are_saved__also_for(snippet, value):
    test_only_tensors_are_saved(snippet, [value])


@edits(
    ("the tensor alone", "backward(*inputs)", "backward(inputs[0])"),
    ("an attribute", "ctx.save_for_backward(*inputs)", "ctx.kept = inputs"),
)
def test_only_tensors_are_saved__but_not(snippet, old, new, fails):
    """Numbers go into an attribute of `ctx`."""
    fails(test_only_tensors_are_saved, snippet.edit(old, new))


def test_only_tensors_are_saved__ends_without_gradients(snippet, fails):
    """Where no gradient is needed, nothing is saved, and nothing raised."""
    old = "weights = torch.ones(2, requires_grad=True)"
    edited = snippet.edit(old, "weights = torch.ones(2)")
    fails(test_only_tensors_are_saved, edited)


VIEWED = ("cube-root", "round", "error-of", "numbers-saved", "as-it-is")
NOT_IN_PLACE = "is a view and is being modified inplace. This view was created"


def test_a_returned_input_bars_in_place(snippet, change=None, weight=None):
    run = after(snippet, *VIEWED)
    assert NOT_IN_PLACE in run.said_of_view
    assert "You can fix this by cloning the output" in run.said_of_view
    weight = torch.ones(2, requires_grad=True) if weight is None else weight
    change = change or torch.relu_
    for x in (weight, weight * 1):  # a leaf, and a result
        said = run.error_of(change, run.Passes.apply(x))
        assert said.startswith("RuntimeError: Output 0 of ")
        assert NOT_IN_PLACE in said


@edits(
    ("a view", "return x  #", "return x.view_as(x)  #"),
    ("a part", "return x  #", "return x[:1]  #"),
    ("reshaped", "return x  #", "return x.reshape(2, 1)  #"),
)
def test_a_returned_input_bars_in_place__also_for(snippet, old, new):
    test_a_returned_input_bars_in_place(snippet.edit(old, new))


CHANGES = {
    "ReLU": torch.nn.ReLU(inplace=True),
    "dropout": torch.nn.Dropout(inplace=True),
    "an index": lambda x: x.__setitem__(0, 5.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_returned_input_bars_in_place__also_by(snippet, change):
    test_a_returned_input_bars_in_place(snippet, change)


@edits(
    ("a copy", "return x  #", "return x.clone()  #"),
    ("a new tensor", "return x  #", "return x * 1  #"),
    ("no change", "passed.add_, 1", "passed.add, 1"),
)
def test_a_returned_input_bars_in_place__but_not_with(
    snippet, old, new, fails
):
    """The output is no view, or stays as it is."""
    fails(test_a_returned_input_bars_in_place, snippet.edit(old, new))


def test_a_returned_input_bars_in_place__ends_without_gradients(
    snippet, fails
):
    """If the input requires no gradient, nothing is raised."""
    fails(test_a_returned_input_bars_in_place, snippet, None, torch.ones(2))


def test_a_slope_from_forward_is_a_constant(snippet):
    with no_error():
        run = after(snippet, *SECOND)
    volume = run.volume
    for function in (run.CubeRoot, run.SlopeFromForward):
        found, edges = gradient(function.apply, 8)
        close(edges, [2.0])
        close(found, [1 / 12])
    close(run.second_derivative(run.CubeRoot, volume), -1 / 72)
    with no_error():
        found = run.second_derivative(run.SlopeFromForward, volume)
    close(found, 1 / 72)
    volumes = torch.tensor([1.0, 8.0, 27.0], requires_grad=True)
    right = -2 / 9 * volumes.detach() ** (-4 / 3)
    close(run.second_derivative(run.CubeRoot, volumes), right)
    close(run.second_derivative(run.SlopeFromForward, volumes), -right)


def test_a_slope_from_forward_is_a_constant__also_in_the_picture(snippet):
    run = after(snippet, *SECOND, "curves")
    right, wrong = run.curves.values()
    assert len(right) == 50
    assert run.volumes[0] == 2
    assert run.volumes[-1] == 20
    close(right, -2 / 9 * run.volumes.detach() ** (-4 / 3))
    close(wrong, -right)


def slopes(run):
    """Return functions whose `backward` uses something that isn't recorded."""

    class Attribute(run.CubeRoot):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.slope = 1 / (3 * output**2)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.slope

    class InSetup(run.CubeRoot):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(1 / (3 * output**2))

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.saved_tensors[0]

    class WithNumPy(run.CubeRoot):
        @staticmethod
        def backward(ctx, grad_output):
            edge = ctx.saved_tensors[0].detach().numpy()
            return grad_output * torch.as_tensor(1 / (3 * np.square(edge)))

    class WithData(run.CubeRoot):
        @staticmethod
        def backward(ctx, grad_output):
            return grad_output / (3 * ctx.saved_tensors[0].data ** 2)

    return [Attribute, InSetup, WithNumPy, WithData]


@pytest.mark.parametrize(
    "which",
    range(4),
    ids=["as an attribute", "saved in setup_context", "NumPy", "data"],
)
def test_a_slope_from_forward_is_a_constant__also(snippet, which):
    run = after(snippet, *SECOND)
    function = slopes(run)[which]
    close(run.second_derivative(function, run.volume), 1 / 72)
    assert gradcheck(function.apply, run.some)
    said = run.error_of(gradgradcheck, function.apply, run.some)
    assert said.startswith("GradcheckError")


def test_a_slope_from_forward_is_a_constant__but_not_if_the_edge_is_saved(
    snippet, fails
):
    """With the edge saved, `backward` makes the slope: no term is lost."""
    edited = snippet.edit(
        "ctx.save_for_backward(1 / (3 * edge**2))",
        "ctx.save_for_backward(edge)",
    ).edit("return grad_output * slope", "return grad_output / (3 * slope**2)")
    fails(test_a_slope_from_forward_is_a_constant, edited)


def test_a_slope_from_forward_is_a_constant__ends_with_the_edge_alone(
    snippet, fails
):
    """If nothing follows the function, the first gradient has no graph, and
    the second derivative raises an error.
    """
    old = "volume) ** 2\n    (first,) = torch.autograd.grad(face.sum()"
    edited = snippet.edit(old, old.replace(" ** 2", ""))
    fails(test_a_slope_from_forward_is_a_constant, edited)


def test_gradgradcheck_finds_it(snippet):
    run = after(snippet, *SECOND, "check-twice")
    assert run.first == "no error"
    assert run.second.startswith(MISMATCH)
    assert run.error_of(gradcheck, run.CubeRoot.apply, run.some) == "no error"
    said = run.error_of(gradgradcheck, run.CubeRoot.apply, run.some)
    assert said == "no error"
    found, _ = gradient(run.SlopeFromForward.apply, 8)
    close(found, [1 / 12])


def test_gradgradcheck_finds_it__but_not_with_a_wrong_slope(snippet, fails):
    """`gradcheck` then finds it as well."""
    edited = snippet.edit("1 / (3 * edge**2))", "1 / (2 * edge**2))")
    fails(test_gradgradcheck_finds_it, edited)


def test_gradgradcheck_finds_it__but_not_if_the_edge_is_saved(snippet, fails):
    """With the edge saved, `gradgradcheck` passes the function, too."""
    edited = snippet.edit(
        "ctx.save_for_backward(1 / (3 * edge**2))",
        "ctx.save_for_backward(edge)",
    ).edit("return grad_output * slope", "return grad_output / (3 * slope**2)")
    fails(test_gradgradcheck_finds_it, edited)


def test_once_differentiable_raises(snippet):
    run = after(snippet, *ONCE)
    assert run.raised == f"RuntimeError: {TWICE}"
    found, _ = gradient(run.Once.apply, 8)
    close(found, [1 / 12])
    right = run.penalized(run.CubeRoot, torch.tensor(8.0, requires_grad=True))
    close(right, 4 + (1 / 3) ** 2)


def test_once_differentiable_raises__also_with_a_slope_from_forward(snippet):
    run = after(snippet, "cube-root", "error-of", "slope", "penalty", "once")

    class Slope(run.SlopeFromForward):
        @staticmethod
        @run.once_differentiable
        def backward(ctx, grad_output):
            return run.SlopeFromForward.backward(ctx, grad_output)

    volume = torch.tensor(8.0, requires_grad=True)
    assert TWICE in run.error_of(run.penalized(Slope, volume).backward)


@edits(
    ("without the decorator", "    @once_differentiable\n", ""),
    ("without a penalty", "return face + first**2", "return face"),
)
def test_once_differentiable_raises__but_not(snippet, old, new, fails):
    """Nothing is differentiated twice, or nothing forbids it."""
    fails(test_once_differentiable_raises, snippet.edit(old, new))


def test_once_differentiable_raises__ends_if_nothing_follows(snippet, fails):
    """If the loss is the function's own output, `backward()` leaves the
    penalty out, without an error.
    """
    old = "volume) ** 2\n    (first,) = torch.autograd.grad(face, volume"
    edited = snippet.edit(old, old.replace(" ** 2\n", "\n"))
    fails(test_once_differentiable_raises, edited)


def test_once_differentiable_can_be_silent(snippet):
    with no_error():
        run = after(snippet, *SILENT)
        assert run.curvature(run.Once) == 0
        close(run.penalized_gradient(run.Once), 1 / 3)
    close(run.curvature(run.CubeRoot), -1 / 72)
    right = 1 / 3 + 2 * (1 / 3) * (-1 / 72)
    close(run.penalized_gradient(run.CubeRoot), right)


def test_once_differentiable_can_be_silent__also_in_torch_func(snippet):
    run = after(snippet, *SILENT)
    twice = torch.func.grad(
        torch.func.grad(lambda volume: run.Once.apply(volume) ** 2)
    )
    assert twice(torch.tensor(8.0)) == 0


def test_once_differentiable_can_be_silent__also_with_inputs(snippet):
    run = after(snippet, *SILENT)
    volume = torch.tensor(8.0, requires_grad=True)
    run.penalized(run.Once, volume).backward(inputs=[volume])
    close(volume.grad, 1 / 3)


@edits(
    ("without the decorator", "    @once_differentiable\n", ""),
)
def test_once_differentiable_can_be_silent__but_not(snippet, old, new, fails):
    """Then both are right."""
    fails(test_once_differentiable_can_be_silent, snippet.edit(old, new))


def test_once_differentiable_can_be_silent__ends_if_strict(snippet, fails):
    """`hessian` with `strict=True` raises an error."""
    edited = snippet.edit(
        "** 2, torch.tensor(8.0)\n", "** 2, torch.tensor(8.0), strict=True\n"
    )
    fails(test_once_differentiable_can_be_silent, edited)


def test_once_differentiable_can_be_silent__ends_if_only_the_penalty_counts(
    snippet, fails
):
    """If no other path leads to the input, `autograd.grad` raises an error
    of its own: "appears to not have been used in the graph".
    """
    edited = snippet.edit("return face + first**2", "return first**2")
    edited = edited.edit(
        "raised = error_of(penalized(", "raised = (penalized("
    )
    edited = edited.edit("volume).backward)\nprint", "volume))\nprint")
    fails(test_once_differentiable_can_be_silent, edited)


def test_a_guard_raises(snippet, slope=None):
    run = after(snippet, *SILENT, "guard")
    assert run.guarded == [f"RuntimeError: {GUARD}"] * 2
    for call in (run.curvature, run.penalized_gradient):
        assert GUARD in run.error_of(call, run.NeverTwice)
    with no_error():
        if slope:
            found = slope(run.NeverTwice.apply)(torch.tensor([8.0]))
        else:
            found, _ = gradient(run.NeverTwice.apply, 8)
    close(found, [1 / 12])


def test_a_guard_raises__also_if_nothing_follows(snippet):
    run = after(snippet, *SILENT, "guard")
    volume = torch.tensor(8.0, requires_grad=True)
    edge = run.NeverTwice.apply(volume)
    with pytest.raises(RuntimeError, match=GUARD):
        torch.autograd.grad(edge, volume, create_graph=True)


@edits(
    ("for no gradient", "torch.is_grad_enabled():", "not ctx:"),
    ("for each gradient", "torch.is_grad_enabled():", "ctx:"),
)
def test_a_guard_raises__but_not_only(snippet, old, new, fails):
    """Then the second derivative passes, or the first one raises, too."""
    fails(test_a_guard_raises, snippet.edit(old, new))


def test_a_guard_raises__ends_in_torch_func(snippet, fails):
    """`torch.func.grad` records each derivative: even the first one raises."""

    def slope(function):
        return torch.func.grad(lambda volume: function(volume).sum())

    fails(test_a_guard_raises, snippet, slope)


def test_a_guard_raises__ends_in_a_directional_derivative(snippet, fails):
    """`torch.autograd.functional.jvp` computes a first derivative by way of
    a second one, and raises, too.
    """

    def slope(function):
        def along(volume):
            ones = torch.ones_like(volume)
            return torch.autograd.functional.jvp(function, volume, ones)[1]

        return along

    fails(test_a_guard_raises, snippet, slope)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_a_guard_raises__ends_under_compile(snippet, fails):
    """Compiled by `torch.compile`, the guard doesn't raise."""
    watched = snippet.edit(
        '            raise RuntimeError("CubeRoot has no second derivative")\n'
        "        return CubeRoot.backward(ctx, grad_output)",
        '            raise RuntimeError("CubeRoot has no second derivative")\n'
        "        (edge,) = ctx.saved_tensors\n"
        "        return grad_output / (3 * edge**2)",
    )
    run = after(watched, *SILENT, "guard")
    assert GUARD in run.error_of(run.curvature, run.NeverTwice)
    edited = watched.edit(
        "calls = (curvature",
        "class Compiled:\n"
        "    apply = torch.compile(\n"
        '        lambda volume: Inner.apply(volume), backend="eager"\n'
        "    )\n\n\n"
        "Inner, NeverTwice = NeverTwice, Compiled\n"
        "calls = (curvature",
    )
    run = after(edited, *SILENT, "guard")
    assert GUARD not in run.guarded[0]
    fails(test_a_guard_raises, edited)


def test_custom_fwd_casts(snippet):
    with no_error():
        run = after(snippet, *AUTOCAST)
    assert run.hidden.dtype == torch.bfloat16
    assert run.without_cast == f"TypeError: {BFLOAT}"
    assert run.edges.dtype == torch.float32
    close(run.edges, run.CubeRoot.apply(run.hidden.float()).detach())
    doubles = torch.tensor([8.0], dtype=torch.float64)
    assert run.MixedCubeRoot.apply(doubles).dtype == torch.float64
    halves = torch.tensor([8.0], dtype=torch.bfloat16)
    assert BFLOAT in run.error_of(run.MixedCubeRoot.apply, halves)


def test_custom_fwd_casts__also_for_training(snippet):
    run = after(snippet, *AUTOCAST)
    layer = torch.nn.Linear(3, 1)
    torch.nn.init.constant_(layer.weight, 2.0)
    torch.nn.init.constant_(layer.bias, 2.0)
    with torch.autocast("cpu"):
        edges = run.MixedCubeRoot.apply(layer(torch.ones(1, 3)))
    edges.sum().backward()
    close(layer.weight.grad, [[1 / 12] * 3], atol=1e-3, rtol=1e-2)


@edits(
    ("without autocast", 'torch.autocast("cpu")', "torch.no_grad()"),
    ("without cast_inputs", ", cast_inputs=torch.float32", ""),
    (
        "on a GPU",
        'custom_fwd(device_type="cpu"',
        'custom_fwd(device_type="cuda"',
    ),
    (
        "always",
        "return CubeRoot.forward(volume)",
        "return CubeRoot.forward(volume.float())",
    ),
)
def test_custom_fwd_casts__but_not(snippet, old, new, fails):
    """Nothing is cast, or everything is."""
    fails(test_custom_fwd_casts, snippet.edit(old, new))


def test_custom_bwd_needs_ctx_in_forward(snippet):
    run = after(snippet, *AUTOCAST, "custom-bwd")
    assert run.custom_bwd == (
        "AttributeError: 'MixedBackwardBackward' object has no attribute "
        "'_fwd_used_autocast'"
    )
    edge, volume = older_form(run), torch.tensor(8.0, requires_grad=True)
    edge.apply(volume).backward()
    close(volume.grad, 1 / 12)


def older_form(run):
    """Return a function whose `forward` takes `ctx`, with both decorators."""

    class Older(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, volume):
            edge = run.CubeRoot.forward(volume)
            ctx.save_for_backward(edge)
            return edge

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad_output):
            return run.CubeRoot.backward(ctx, grad_output)

    return Older


def test_custom_bwd_needs_ctx_in_forward__also_under_autocast(snippet):
    run = after(snippet, *AUTOCAST, "custom-bwd")
    for function in (run.MixedBackward, older_form(run)):
        volume = torch.tensor(8.0, requires_grad=True)
        with torch.autocast("cpu"):
            edge = function.apply(volume.bfloat16())
        said = run.error_of(edge.backward)
        assert ("_fwd_used_autocast" in said) == (
            function is run.MixedBackward
        )


def test_custom_bwd_needs_ctx_in_forward__but_not_without_it(snippet, fails):
    """`backward` works without the decorator."""
    edited = snippet.edit('    @torch.amp.custom_bwd(device_type="cpu")\n', "")
    fails(test_custom_bwd_needs_ctx_in_forward, edited)


def test_vmap_needs_a_rule(snippet, function=None):
    with no_error():
        run = after(snippet, *VMAP)
    assert "but it does not have vmap support" in run.no_rule
    called = torch.vmap((function or run.CubeRoot).apply)
    assert "but it does not have vmap" in run.error_of(called, run.rows)
    assert "must override the setup_context staticmethod" in run.no_setup
    right = torch.tensor([[2.0, 3.0], [1.0, 4.0]])
    close(torch.vmap(run.CubeRootOfRows.apply)(run.rows), right)
    close(torch.func.grad(run.CubeRoot.apply)(torch.tensor(8.0)), 1 / 12)


@pytest.mark.parametrize("axis", [0, 1, -1], ids="along axis {}".format)
def test_vmap_needs_a_rule__also(snippet, axis):
    run = after(snippet, *VMAP)
    function = torch.vmap(
        run.CubeRootOfRows.apply, in_dims=axis, out_dims=axis
    )
    close(function(run.rows), torch.tensor([[2.0, 3.0], [1.0, 4.0]]))


def test_vmap_needs_a_rule__also_for_gradients_of_rows(snippet):
    run = after(snippet, *VMAP)
    slope = torch.func.grad(lambda row: run.CubeRootOfRows.apply(row).sum())
    found = torch.vmap(slope)(run.rows)
    close(found, [[1 / 12, 1 / 27], [1 / 3, 1 / 48]])


@edits(
    (
        "with a rule",
        "torch.vmap(CubeRoot.apply), rows",
        "torch.vmap(lambda row: row), rows",
    ),
    (
        "with setup_context",
        "torch.func.grad(SlopeFromForward.apply)",
        "torch.func.grad(CubeRoot.apply)",
    ),
    ("another axis", "in_dims[0]\n", "1\n"),
)
def test_vmap_needs_a_rule__but_not(snippet, old, new, fails):
    """These need none, or the rule names another axis."""
    fails(test_vmap_needs_a_rule, snippet.edit(old, new))


def test_vmap_needs_a_rule__ends_with_generate_vmap_rule(snippet, fails):
    """With `generate_vmap_rule = True`, PyTorch makes the rule itself, unless
    a part of the function is NumPy.
    """

    class Ceil(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.ceil()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    assert torch.vmap(Ceil.apply)(torch.tensor([1.2])).tolist() == [2]
    fails(test_vmap_needs_a_rule, snippet, Ceil)


# Where it ends


def test_compiled_gradients_agree(snippet, backend=None):
    with no_error():
        run = after(snippet, "cube-root", "round", "compile")
    assert run.weight.grad == 5
    plain, compiled = (lambda x: 5 * run.Round.apply(x, 3.0)), run.compiled
    if backend:
        torch.compiler.reset()
        compiled = torch.compile(plain, backend=backend)
    assert isinstance(compiled, type(torch.compile(plain, backend="eager")))
    for function in (plain, compiled):
        found, results = gradient(function, 4, 8)
        assert results.tolist() == [15, 45]
        assert found.tolist() == [5, 5]


def test_compiled_gradients_agree__also_ahead_of_time(snippet):
    test_compiled_gradients_agree(snippet, "aot_eager")


def test_compiled_gradients_agree__also_with_numpy(snippet):
    edited = snippet.edit("lambda x: 5 * Round.apply(x, 3.0)", "CubeRootOf")
    edited = edited.edit(
        "compiled = torch.",
        "def CubeRootOf(x):\n    return CubeRoot.apply(x)\n\n\n"
        "compiled = torch.",
    )
    run = after(edited, "cube-root", "round", "compile")
    found, edges = gradient(run.compiled, 8, 27)
    close(edges, [2.0, 3.0])
    close(found, [1 / 12, 1 / 27])


@edits(
    ("without apply", "5 * Round.apply(", "5 * Round.forward("),
    ("without the function", "5 * Round.apply(x, 3.0)", "2 * x"),
)
def test_compiled_gradients_agree__but_not(snippet, old, new, fails):
    """Then `backward` is never called."""
    fails(test_compiled_gradients_agree, snippet.edit(old, new))


@pytest.mark.skipif(
    not older(torch.__version__, "2.14"), reason="compiled in torch 2.15"
)
def test_compiled_gradients_agree__ends_with_a_nested_backward(snippet, fails):
    """A `backward` that calls the one of another Function can't be compiled,
    and raises an AssertionError; torch 2.15 compiles it.
    """
    edited = snippet.edit(
        "compiled = torch.compile(lambda x: 5 * Round.",
        "class Nested(Round):\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad_output):\n"
        "        return Round.backward(ctx, grad_output)\n\n\n"
        "compiled = torch.compile(lambda x: 5 * Nested.",
    )
    fails(test_compiled_gradients_agree, edited)


def test_compiled_changes_go_unnoticed(snippet):
    with no_error():
        run = after(snippet, "cube-root", "compile-overwritten")
        assert run.edge_in_millimeters(torch.tensor(8.0)) == 20
        close(run.volume.grad, 10 / (3 * 20**2))

    def plain(volume):
        edge = run.CubeRoot.apply(volume)
        edge *= 10
        return edge

    with pytest.raises(RuntimeError, match=INPLACE):
        gradient(plain, 8)


def test_compiled_changes_go_unnoticed__also_ahead_of_time(snippet):
    edited = snippet.edit(
        '@torch.compile(backend="eager")',
        '@torch.compile(backend="aot_eager")',
    )
    test_compiled_changes_go_unnoticed(edited)


@edits(
    (
        "a new tensor",
        "    edge *= 10\n    return",
        "    edge = edge * 10\n    return",
    ),
    ("not compiled", '@torch.compile(backend="eager")\n', ""),
)
def test_compiled_changes_go_unnoticed__but_not(snippet, old, new, fails):
    """Nothing is overwritten, or `save_for_backward` notices it."""
    fails(test_compiled_changes_go_unnoticed, snippet.edit(old, new))


# Try it


def test_none_for_a_number__also_predicted(snippet):
    run = after(snippet, "cube-root", "round", "predict")
    assert run.weight.grad == 4


def test_none_for_a_number__also_reversed(snippet):
    run = after(snippet, "cube-root", "reverse", "reverse-checked")
    assert run.reversed_x.tolist() == [1, 2]
    assert run.x.grad.tolist() == [-1.5, -2]
