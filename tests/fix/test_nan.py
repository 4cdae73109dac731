"""The claims of docs/fix/nan.md."""

import copy
import io
import itertools
import math
import platform
import warnings
from contextlib import contextmanager, redirect_stdout

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import compiled
from tests.helpers.worlds import each

NAN, INF = math.nan, math.inf
TYPES = [torch.float16, torch.bfloat16, torch.float64]
KINDS = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam}


def run_cell(snippet, name, **variables):
    """Run a cell alone, with other variables."""
    known = {"torch": torch, "nn": nn, "F": F, **variables}
    cell = compiled(snippet.cells()[name], snippet.path)
    exec(cell, known)


def weights_of(model):
    """Return a copy of each weight."""
    return [p.detach().clone() for p in model.parameters()]


def moved(model, before):
    """Return the names of the weights that have changed."""
    named = zip(model.named_parameters(), before, strict=True)
    return [name for (name, p), old in named if not p.equal(old)]


def spoil(model, name, bad):
    """Let one number of the gradient of one parameter be bad."""

    def set_bad(gradient):
        gradient = gradient.clone()
        gradient.view(-1)[-1] = bad
        return gradient

    model.get_parameter(name).register_hook(set_bad)


def checked(snippet, model, optimizer, images, labels):
    """Return what the lines of `check` say of a batch, or nothing."""
    given = {"images": images, "labels": labels, "optimizer": optimizer}
    try:
        with no_error():
            run_cell(snippet, "check", model=model, **given)
    except pytest.fail.Exception as failure:
        if "FloatingPointError" not in str(failure):
            raise
        return str(failure).rpartition("look at: ")[2]
    return ""


def unscaled(run):
    """Return a model whose loss overflows, and not its outputs."""
    model = run.new_model()
    model[3].bias.data[:2] = torch.tensor([3e38, -3e38])
    return model


def test_the_check_stops_in_time(
    snippet, kind=torch.optim.AdamW, bad=NAN, model=None, batch=None
):
    run = snippet.after("faults")
    cases = [
        (run.new_model(), run.changed((-1, 20), bad), run.labels, "inputs"),
        (run.new_model(), run.blank, run.labels, "outputs"),
        (run.new_model(), run.images, run.none, "loss"),
        (unscaled(run), run.images, torch.ones_like(run.labels), "loss"),
    ]
    for name, _ in run.model.named_parameters():
        spoiled = run.new_model()
        spoil(spoiled, name, bad)
        cases.append((spoiled, run.images, run.labels, f"gradient of {name}"))
    for made, images, labels, name in cases:
        before = weights_of(made)
        optimizer = kind(made.parameters(), lr=0.1)
        assert checked(snippet, made, optimizer, images, labels) == name
        assert moved(made, before) == []

    model = model or run.new_model()
    images, labels = batch or (run.images, run.labels)
    plain = copy.deepcopy(model)
    optimizer = kind(model.parameters(), lr=0.1)
    other = kind(plain.parameters(), lr=0.1)
    for _ in range(3):
        assert checked(snippet, model, optimizer, images, labels) == ""
        other.zero_grad()
        F.cross_entropy(plain(images), labels).backward()
        other.step()
    assert moved(model, weights_of(plain)) == []


@pytest.mark.parametrize("bad", [INF, -INF])
@each("kind", KINDS)
def test_the_check_stops_in_time__also_with(snippet, kind, bad):
    test_the_check_stops_in_time(snippet, kind, bad)


def test_the_check_stops_in_time__also_with_a_frozen_layer(snippet):
    model = snippet.after("faults").new_model()
    model[0].requires_grad_(False)
    test_the_check_stops_in_time(snippet, model=model)


def test_the_check_stops_in_time__also_as_shown(snippet):
    run = snippet.after("faults")

    assert run.first_bad(run.images, run.labels) is None
    assert run.first_bad(run.missing, run.labels) == "inputs"
    assert run.first_bad(run.blank, run.labels) == "outputs"
    assert run.first_bad(run.images, run.none) == "loss"
    named = run.first_bad(run.twice, run.labels, run.mean_distance)
    assert named == "gradient of 0.weight"


@edits(
    ("inputs unseen", '\nseen = {"inputs": images, ', "\nseen = {"),
    ("nan alone", "not x.isfinite().all():", "x.isnan().any():"),
    (
        "gradients of matrices alone",
        "named_parameters()}\nfor",
        "named_parameters() if p.dim() > 1}\nfor",
    ),
)
def test_the_check_stops_in_time__but_not_with(snippet, old, new, fails):
    """Leave out a part of what it sees, and the fault is found under another
    name, or not at all.
    """
    fails(
        test_the_check_stops_in_time,
        snippet.edit(old, new),
        torch.optim.SGD,
        INF,
    )


def test_the_check_stops_in_time__but_not_after_the_step(snippet, fails):
    """With `optimizer.step()` before the check, the weights have moved when
    the error comes.
    """
    edited = snippet.edit(
        "loss.backward()\nseen = {",
        "loss.backward()\noptimizer.step()\nseen = {",
    )
    fails(test_the_check_stops_in_time, edited)


def test_the_check_stops_in_time__ends_for_sparse_gradients(snippet, fails):
    """`isfinite()` itself raises an error for a sparse gradient: check its
    `coalesce().values()`.
    """
    model = nn.EmbeddingBag(9, 3, sparse=True)
    batch = torch.arange(8).reshape(2, 4), torch.tensor([0, 2])
    options = (torch.optim.SGD, NAN, model, batch)
    fails(test_the_check_stops_in_time, snippet, *options)


class Applied(nn.Module):
    """A layer that applies one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, values):
        """Give what it makes of the values."""
        return self.function(values)


def divided(values):
    """Divide one column of four by 0."""
    return values / torch.tensor([1, 0, 1, 1])


class Between(nn.Module):
    """Two layers, and a fault in the code between them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, values):
        """Go wrong between the layers."""
        return self.second(divided(self.first(values)))


class Inner(nn.Module):
    """A layer in which nothing is wrong, and a fault behind it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, values):
        """Go wrong outside of the layer."""
        return divided(self.layer(values))


def planted():
    """Return models with a fault, and the layer that is to be named."""
    bad, shared = Applied(divided), nn.Linear(4, 4)
    ruined = nn.Sequential(nn.Tanh(), nn.Linear(4, 4), nn.Sigmoid())
    ruined[1].weight.data[0, 0] = NAN
    nested = nn.Sequential(nn.Tanh(), nn.Sequential(nn.Tanh(), bad))
    return [
        (nn.Sequential(nn.Linear(4, 4), bad, nn.Linear(4, 2)), "1"),
        (nn.Sequential(bad, nn.Sigmoid()), "0"),
        (nested, "1.1"),
        (nn.Sequential(nn.Tanh(), Inner(), nn.Tanh()), "1"),
        (nn.Sequential(shared, bad, shared), "1"),
        (ruined, "1"),
        (nn.Linear(4, 4), None),
        (bad, "model"),
    ]


def first_listed(snippet, model, inputs, recording=torch.enable_grad):
    """Return the first layer in the list that has nan or inf."""
    with redirect_stdout(io.StringIO()) as shown, no_error(), recording():
        run_cell(snippet, "look", model=model, blank=inputs)
    lines = [line.split(": at most ") for line in shown.getvalue().split("\n")]
    bad = [name for name, *most in lines if most and most[0] in ("nan", "inf")]
    return bad[0] if bad else None


def test_watch_names_the_layer(
    snippet, models=None, dtype=torch.float32, recording=torch.enable_grad
):
    run = snippet.after("faults")
    torch.manual_seed(0)

    assert first_listed(snippet, run.new_model(), run.blank) == "2"
    assert first_listed(snippet, run.new_model(), run.images) is None
    for model, layer in models or planted():
        inputs = torch.rand(4, 4, dtype=dtype)
        given = model.to(dtype), inputs, recording
        assert first_listed(snippet, *given) == layer
    # The layer after a fault in other code is listed first; its inputs tell.
    between, given = Between().to(dtype), []
    for layer in (between.first, between.second):
        layer.register_forward_hook(lambda _, inputs, __: given.extend(inputs))
    inputs = torch.rand(4, 4, dtype=dtype)
    assert first_listed(snippet, between, inputs, recording) == "second"
    assert [bool(each.isfinite().all()) for each in given] == [True, False]
    assert not nn.modules.module._global_forward_hooks


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_watch_names_the_layer__also_without_a_graph_in(snippet, dtype):
    test_watch_names_the_layer(snippet, None, dtype, torch.no_grad)


@edits(
    ("the inputs", "output.abs()", "inputs[0].abs()"),
    (
        "containers alone",
        "if torch.is_tensor(output):",
        "if list(layer.children()):",
    ),
    ("the smallest number", "abs().max()", "abs().min()"),
)
def test_watch_names_the_layer__but_not_through(snippet, old, new, fails):
    """If it looks at inputs, at containers or at the smallest number, it
    finds a later layer, or none.
    """
    edited = snippet.edit("max():.3g", "max().item():.3g")
    fails(test_watch_names_the_layer, edited.edit(old, new))


def test_watch_names_the_layer__ends_for_a_tuple(snippet, fails):
    """A layer that returns a tuple is left out of the list, so that a later
    one is named.
    """

    def divided_or_opened(values):
        if isinstance(values, tuple):
            return values[0]
        return (divided(values),)

    layers = [Applied(divided_or_opened) for _ in range(2)]
    model = nn.Sequential(nn.Tanh(), *layers)
    fails(test_watch_names_the_layer, snippet, [(model, "1")])


def test_watch_names_the_layer__ends_for_a_mask(snippet, fails):
    """A layer that returns a mask with -inf on purpose is named as well."""

    def mask(values):
        return values.masked_fill(torch.eye(len(values)).bool(), -INF)

    model = nn.Sequential(Applied(mask), nn.Softmax(dim=1))
    fails(test_watch_names_the_layer, snippet, [(model, None)])


EDGES = [0.0, -0.0, 1.0, -1.0, 3.0, 0.5, 20.0, 88.0, 89.0, 100.0, -100.0]
EDGES += [-120.0, 1e-45, 1e-30, -1e-30, 1e30, 3e38, INF, -INF, NAN]


def by_autograd(functions, x):
    """Return each value of a chain, and its gradient."""
    values = [x.clone().requires_grad_()]
    for function in functions:
        values.append(function(values[-1]))
        values[-1].retain_grad()
    values[-1].backward(torch.ones_like(x))
    return [each.detach() for each in values], [each.grad for each in values]


def test_a_chain_has_pytorchs_gradients(
    snippet,
    real=by_autograd,
    dtype=torch.float32,
    numbers=EDGES,
    longest=3,
    others=(),
):
    run = snippet.after("by-hand")
    x = torch.tensor(numbers, dtype=dtype)

    assert len(run.rules) == 5
    for length in range(longest + 1):
        known = [*run.rules, *others]
        for functions in itertools.product(known, repeat=length):
            with no_error():
                mine = run.chain(list(functions), x)
            for ours, theirs in zip(mine, real(functions, x), strict=True):
                assert len(ours) == length + 1
                for one, other in zip(ours, theirs, strict=True):
                    torch.testing.assert_close(
                        one, other, rtol=0, atol=0, equal_nan=True
                    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_a_chain_has_pytorchs_gradients__also_in(snippet, dtype):
    test_a_chain_has_pytorchs_gradients(snippet, dtype=dtype)


@pytest.mark.parametrize("size", ["no numbers", "one number", "a matrix"])
def test_a_chain_has_pytorchs_gradients__also_for(snippet, size):
    sizes = {"no numbers": [], "one number": -120.0}
    numbers = sizes.get(size, [[0.0, INF, 2.0], [NAN, -3.0, 100.0]])
    test_a_chain_has_pytorchs_gradients(snippet, numbers=numbers, longest=2)


@edits(
    ("1", "grad * (2 * x)", "2 * grad"),
    ("2", "grad / (2 * y)", "grad / (2 * x)"),
    ("3", "grad * y,  # 3", "grad,  # 3"),
    ("4", "grad / x,", "grad / y,"),
    ("5", "grad * (1 - y) * y", "grad * (1 - y)"),
    ("6", "function(values[-1])", "function(x)"),
    ("7", "values[i + 1], grads[0]", "values[i + 1], grads[-1]"),
    ("7 with 0 · inf = 0", "grads[0]))", "grads[0]).nan_to_num(0.0))"),
)
def test_a_chain_has_pytorchs_gradients__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each of the numbered lines counts, and so does 0 · inf."""
    edited = snippet.edit(old, new)
    fails(test_a_chain_has_pytorchs_gradients, edited)


def test_a_chain_has_pytorchs_gradients__ends_for_another_function(
    snippet, fails
):
    """For `torch.abs`, ours has no rule."""
    options = (by_autograd, torch.float32, EDGES, 1, [torch.abs])
    fails(test_a_chain_has_pytorchs_gradients, snippet, *options)


def test_a_chain_has_pytorchs_gradients__ends_if_a_value_is_used_twice(
    snippet, fails
):
    """Autograd adds up the gradients of both uses."""

    def twice(functions, x):
        values = [x.clone().requires_grad_()]
        for function in functions:
            values.append(function(values[-1]))
            values[-1].retain_grad()
        result = values[-1] + values[0]
        result.backward(torch.ones_like(x))
        return [each.detach() for each in values], [v.grad for v in values]

    fails(test_a_chain_has_pytorchs_gradients, snippet, twice)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64])
def test_a_chain_has_pytorchs_gradients__ends_in(snippet, dtype, fails):
    """In `bfloat16`, PyTorch computes the gradient of the sigmoid in
    `float32` and rounds once; for complex numbers, it takes conjugates.
    """
    fails(test_a_chain_has_pytorchs_gradients, snippet, by_autograd, dtype)


def born(snippet):
    """Return what the cell of that name makes."""
    return snippet.only("digits", "born").after("born")


def in_type(snippet, dtype):
    """Return the program with numbers of another dtype."""
    old = "torch.tensor([torch.inf, torch.nan, 0.0])"
    return snippet.edit(old, f"{old[:-1]}, dtype={dtype})")


def test_nan_stays_nan(snippet):
    run = born(snippet)

    assert [run.inf.item(), run.zero.item()] == [INF, 0]
    assert [each.isnan().item() for each in run.born] == [True] * 4
    assert [each.isnan().item() for each in run.kept] == [True] * 4


@pytest.mark.parametrize("dtype", TYPES)
def test_nan_stays_nan__also_as(snippet, dtype):
    test_nan_stays_nan(in_type(snippet, dtype))


@pytest.mark.parametrize("other", [0.0, -3.0, INF, NAN])
def test_nan_stays_nan__also_with(other):
    nan = torch.tensor(NAN)
    for result in (
        *(nan + other, nan - other, nan * other, nan / other),
        *(other - nan, other / nan),
    ):
        assert result.isnan()


@edits(
    ("zero * inf", "2 * inf"),
    ("inf - inf", "inf + inf"),
    ("nan * 0", "nan.nan_to_num() * 0"),
)
def test_nan_stays_nan__but_not(snippet, old, new, fails):
    """`2 * inf` and `inf + inf` are inf; `nan_to_num()` puts 0 in the place
    of `nan`.
    """
    fails(test_nan_stays_nan, snippet.edit(old, new))


def test_nan_stays_nan__ends_for_a_power_of_0(snippet, fails):
    """`nan**0` is 1, which is no sum, difference, product or quotient."""
    fails(test_nan_stays_nan, snippet.edit("nan / inf", "nan**0"))


def test_no_comparison_sees_nan(snippet):
    run = born(snippet)

    assert run.nan.isnan()
    assert [each.item() for each in run.compared] == [False] * 3


@pytest.mark.parametrize("dtype", TYPES)
def test_no_comparison_sees_nan__also_as(snippet, dtype):
    test_no_comparison_sees_nan(in_type(snippet, dtype))


@edits(
    ("nan < 1000", "~(nan >= 1000)"),
    ("nan == nan", "nan != nan"),
)
def test_no_comparison_sees_nan__but_not(snippet, old, new, fails):
    """`nan != nan` is true, and so is the opposite of a comparison that is
    false.
    """
    fails(test_no_comparison_sees_nan, snippet.edit(old, new))


SPREAD = ("digits", "distance", "faults", "spread")


def test_one_nan_reaches_every_weight(snippet, place=(3, 20)):
    run = snippet.only(*SPREAD).after("spread")
    batch = run.changed(place, NAN)

    assert (batch.isnan().sum(), len(batch)) == (1, 50)
    (loss, share), _ = run.two_steps(batch, F.cross_entropy)
    assert math.isnan(loss)
    assert share == 1


@pytest.mark.parametrize("place", [(0, 0), (49, 63)], ids=str)
def test_one_nan_reaches_every_weight__also_at(snippet, place):
    test_one_nan_reaches_every_weight(snippet, place)


ADAMW = "AdamW(model.parameters(), lr=0.01)\n    for"


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_one_nan_reaches_every_weight__also_by(snippet, kind):
    edited = snippet.edit(ADAMW, ADAMW.replace("AdamW", kind))
    test_one_nan_reaches_every_weight(edited)


@edits(
    (
        "no step",
        "        optimizer.step()\n        weights",
        "        weights",
    ),
    (
        "the row left out",
        "loss_of(model(batch), labels)",
        "loss_of(model(batch.nan_to_num()), labels)",
    ),
)
def test_one_nan_reaches_every_weight__but_not_with(snippet, old, new, fails):
    """Without a step, or with 0 in the place of the `nan`, no weight is
    `nan`.
    """
    fails(test_one_nan_reaches_every_weight, snippet.edit(old, new))


def test_one_nan_reaches_every_weight__ends_for_a_frozen_layer(snippet, fails):
    """A frozen layer has no gradient, and stays as it is."""
    old = "model, seen = new_model(), []"
    new = f"{old}\n    model[0].requires_grad_(False)"
    frozen = snippet.edit(old, new)
    fails(test_one_nan_reaches_every_weight, frozen)


def test_the_second_step_is_lost(snippet):
    run = snippet.only(*SPREAD).after("spread")

    assert run.twice[0].equal(run.twice[1])
    first, second = run.two_steps(run.twice, run.mean_distance)
    assert math.isfinite(first[0]), first
    assert first[1] > 0.3
    assert math.isnan(second[0]), second


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_the_second_step_is_lost__also_by(snippet, kind):
    edited = snippet.edit(ADAMW, ADAMW.replace("AdamW", kind))
    test_the_second_step_is_lost(edited)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_second_step_is_lost__also_from(snippet, seed):
    old, new = "torch.manual_seed(0)\n    enc", f"torch.manual_seed({seed})\n"
    test_the_second_step_is_lost(snippet.edit(old, f"{new}    enc"))


@edits(
    (
        "a norm",
        "return squares.sum(dim=1).sqrt()",
        "return (first - second).norm(dim=1)",
    ),
    (
        "a small number in the root",
        "squares.sum(dim=1).sqrt()",
        "(squares.sum(dim=1) + 1e-9).sqrt()",
    ),
    ("no square root", "squares.sum(dim=1).sqrt()", "squares.sum(dim=1)"),
)
def test_the_second_step_is_lost__but_not_with(snippet, old, new, fails):
    """A norm, a small number in the root, or no root: all gradients are
    finite.
    """
    fails(test_the_second_step_is_lost, snippet.edit(old, new))


@contextmanager
def anomaly():
    """Look for nan in the backward pass, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            yield


ANOMALY = ("digits", "distance", "faults")


def test_anomaly_names_the_square(snippet):
    run = snippet.only(*ANOMALY).after("faults")

    with anomaly(), pytest.raises(RuntimeError) as failure:
        run.mean_distance(run.new_model()(run.twice)).backward()
    said = "Function 'PowBackward0' returned nan values in its 0th output."
    assert str(failure.value) == said
    run = snippet.only(*ANOMALY, "anomaly", "trace").after("trace")
    assert run.trace.startswith("Error detected in PowBackward0.")
    assert run.place.startswith("distance")
    line = int(run.trace.rpartition(", line ")[2].partition(",")[0])
    named = snippet.text.splitlines()[line - 1].strip()
    assert named == "squares = (first - second).square()"
    assert not torch.is_anomaly_enabled()


@edits(
    ("a power", "(first - second).square()", "(first - second) ** 2"),
    (
        "another line",
        "squares = (first - second).square()",
        "squares = first - second\n    squares = squares.square()",
    ),
    (
        "a product",
        "(first - second).square()",
        "(first - second) * (first - second)",
    ),
    ("two images", "twice = changed(1, images[0])", "twice = images"),
)
def test_anomaly_names_the_square__but_not_with(snippet, old, new, fails):
    """The error names the function and the line that are there: another line,
    or `MulBackward0` of a product.
    """
    fails(test_anomaly_names_the_square, snippet.edit(old, new))


def under_anomaly(function):
    """Return what a function returns while anomalies are looked for."""
    with anomaly(), no_error():
        return function()


def cube_root(values):
    """Return the third root."""
    return values ** (1 / 3)


ROOTS = (torch.sqrt, cube_root, torch.log, torch.log10)


def test_anomaly_looks_for_nan_in_backward(
    snippet, functions=ROOTS, then=torch.sum
):
    run = snippet.only(*ANOMALY).after("faults")
    model = run.new_model()

    assert model(run.missing).isnan().any()
    under_anomaly(lambda: then(model(run.missing)))
    for function in functions:
        at = torch.zeros(3, requires_grad=True)
        under_anomaly(lambda f=function, x=at: f(x).sum().backward())
        assert at.grad.tolist() == [INF] * 3


def test_anomaly_looks_for_nan_in_backward__but_not_without_nan(
    snippet, fails
):
    """If 0 fills the missing pixel, there is no `nan` that it could
    overlook.
    """
    old = "changed((3, 20), torch.nan)"
    edited = snippet.edit(old, "changed((3, 20), 0.0)")
    fails(test_anomaly_looks_for_nan_in_backward, edited)


def test_anomaly_looks_for_nan_in_backward__ends_for_inf_times_zero(
    snippet, fails
):
    """If the inf is multiplied by 0 on its way back: that is `nan`, and it
    raises an error.
    """

    def length(values):
        return values.square().sqrt()

    fails(test_anomaly_looks_for_nan_in_backward, snippet, [length])


def test_anomaly_looks_for_nan_in_backward__ends_in_the_backward_of_it(
    snippet, fails
):
    """If you call `backward()` on the `nan` of the forward pass: it raises an
    error.
    """

    def then(outputs):
        outputs.sum().backward()

    fails(test_anomaly_looks_for_nan_in_backward, snippet, ROOTS, then)


BATCHNORM = ("digits", "distance", "faults", "batchnorm")


def test_batchnorm_keeps_the_nan(snippet):
    run = snippet.only(*BATCHNORM).after("batchnorm")

    assert run.batchnorm.num_batches_tracked == 2
    for _ in range(3):
        for running in (run.batchnorm.running_mean, run.batchnorm.running_var):
            assert running.isnan().nonzero().tolist() == [[20]]
        run.batchnorm(run.images)


def test_batchnorm_keeps_the_nan__also_until_it_is_reset(snippet):
    run = snippet.only(*BATCHNORM, "reset").after("reset")

    assert run.batchnorm.running_mean.isfinite().all()
    assert run.batchnorm.running_var.isfinite().all()
    assert run.batchnorm.eval()(run.images).isfinite().all()


@pytest.mark.parametrize("shape", [(2, 3), (5, 3, 7), (4, 3, 2, 2)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batchnorm_keeps_the_nan__also_in_batches_of(shape, dtype):
    torch.manual_seed(0)
    layers = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}
    norm = layers[len(shape)](3, dtype=dtype)
    good = torch.randn(shape, dtype=dtype)
    bad = good.clone()
    bad[-1, 1] = NAN

    for batch in (bad, good, good):
        norm(batch)
    for running in (norm.running_mean, norm.running_var):
        assert running.isnan().tolist() == [False, True, False]


@edits(
    ("in evaluation", "nn.BatchNorm1d(64)", "nn.BatchNorm1d(64).eval()"),
    ("good data", "batchnorm(missing)", "batchnorm(images)"),
)
def test_batchnorm_keeps_the_nan__but_not_with(snippet, old, new, fails):
    """In evaluation mode, nothing is updated; and without the `nan`, nothing
    is spoiled.
    """
    fails(test_batchnorm_keeps_the_nan, snippet.edit(old, new))


LINES = ("digits", "lines")
HARMLESS = [[3, 4], [3, 4], [0.5], [2, 3], [2, 3], [1, 2, 4], [2], [4]]


def parts(run, line, at, dtype):
    """Return value and gradient of a line in one list."""
    return torch.cat([part.flatten() for part in run.tried(line, at, dtype)])


def test_the_second_line_stays_finite(snippet, dtype=torch.float32):
    run = snippet.only(*LINES).after("lines")

    assert len(run.lines) == 8
    finite, bad, different = [], [], []
    for (at, wrong, right), fine in zip(run.lines, HARMLESS, strict=True):
        if not parts(run, wrong, at, dtype).isnan().any():
            finite.append(wrong)
        if not parts(run, right, at, dtype).isfinite().all():
            bad.append(right)
        (one, _), (other, _) = (
            run.tried(line, fine, dtype) for line in (wrong, right)
        )
        if not torch.allclose(one, other, rtol=2e-2, atol=1e-2):
            different.append(right)
    assert (finite, bad, different) == ([], [], [])


def test_the_second_line_stays_finite__also_in_bfloat16(snippet):
    test_the_second_line_stays_finite(snippet, torch.bfloat16)


def test_the_second_line_stays_finite__also_with_their_values(snippet):
    run = snippet.only(*LINES).after("lines")
    values = [run.tried(right, at)[0].tolist() for at, _, right in run.lines]

    expected = [0, [0, 0], [120], 100, [0, -200], [0, 0], [0], [1e-3]]
    for value, hoped in zip(values, expected, strict=True):
        assert value == pytest.approx(hoped)
    one = run.tried("F.logsigmoid(x)", [-120, 3.0])[0]
    loss = F.binary_cross_entropy_with_logits
    x = torch.tensor([-120, 3.0])
    torch.testing.assert_close(
        -one, loss(x, torch.ones(2), reduction="none"), rtol=1e-5, atol=0
    )


@edits(
    ("no zeros", '([0, 0], "x.sq', '([0, 1], "x.sq'),
    ("a lower score", "([-120],", "([-20],"),
    ("a column that varies", "([7, 7],", "([7, 8],"),
    ("the root by hand", '"x.norm()"', '"x.square().sum() ** 0.5"'),
    ("exp by hand", '"x.logsumexp(dim=0)"', '"x.exp().sum().log()"'),
    (
        "where after the division",
        '"(1 / x.where(x > 0, 1)) * (x > 0)"',
        '"(1 / x).where(x > 0, 0)"',
    ),
    ("another value", '"x.logsumexp(dim=0)"', '"x.max()"'),
)
def test_the_second_line_stays_finite__but_not_with(snippet, old, new, fails):
    """Away from its edge, a first line is finite; and what looks alike,
    such as a root by hand, is not.
    """
    fails(test_the_second_line_stays_finite, snippet.edit(old, new))


def test_the_second_line_stays_finite__ends_in_float64(snippet, fails):
    """In `float64`, some edges lie farther out: `exp(100)` is finite there."""
    fails(test_the_second_line_stays_finite, snippet, torch.float64)


def test_the_second_line_stays_finite__ends_in_float16(snippet, fails):
    """In `float16`, the 1e-12 of `F.normalize` is 0, and it divides by 0."""
    fails(test_the_second_line_stays_finite, snippet, torch.float16)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_the_second_line_stays_finite__ends_for_a_single_number(
    snippet, fails
):
    """The standard deviation of a single number is `nan`, so adding 1e-6 does
    not help.
    """
    fails(test_the_second_line_stays_finite, snippet.edit("[7, 7]", "[7]"))


RATES = ("digits", "rates")


def test_a_large_rate_grows_to_nan(snippet):
    run = snippet.only(*RATES).after("rates")

    large = run.losses(run.pixels, 0.1)
    finite = [loss for loss in large if math.isfinite(loss)]
    infinite = large.count(INF)
    assert len(finite) >= 4
    grown = [b / a for a, b in itertools.pairwise(finite)]
    assert min(grown) > 100
    assert infinite >= 1
    rest = large[len(finite) + infinite :]
    assert large == [*finite, *[INF] * infinite, *rest]
    assert [math.isnan(loss) for loss in rest] == [True] * len(rest)
    assert rest
    for inputs, rate in ((run.pixels, 0.0001), (run.images, 0.01)):
        small = run.losses(inputs, rate)
        assert small == sorted(small, reverse=True)
        assert small[-1] < 0.7 * small[0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_large_rate_grows_to_nan__also_from(snippet, seed):
    old = "torch.manual_seed(0)\n    model, found"
    new = f"torch.manual_seed({seed})\n    model, found"
    test_a_large_rate_grows_to_nan(snippet.edit(old, new))


def test_a_large_rate_grows_to_nan__but_not_with_clipped_gradients(
    snippet, fails
):
    """Clipped gradients bound each step, so no loss is `nan`."""
    old = "        loss.backward()\n        optimizer.step()\n        found"
    clip = "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    clipped = old.replace("        optimizer", f"{clip}        optimizer")
    fails(test_a_large_rate_grows_to_nan, snippet.edit(old, clipped))


@edits(
    (
        "scaled pixels",
        "dtype=torch.float32)  #",
        "dtype=torch.float32) / 16  #",
    ),
    ("fewer steps", "range(20)", "range(9)"),
    ("Adam", "optim.SGD(model.p", "optim.Adam(model.p"),
)
def test_a_large_rate_grows_to_nan__but_not(snippet, old, new, fails):
    """On scaled pixels, in nine steps or with Adam, no loss is `nan`."""
    fails(test_a_large_rate_grows_to_nan, snippet.edit(old, new))


MASKED = ("digits", "masked")
x86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="no x86 CPU"
)


@x86
def test_a_masked_text_is_nan(snippet, dtype=torch.float32, training=True):
    run = snippet.only(*MASKED).after("masked")

    assert run.mask.tolist() == [[False] * 3, [True] * 3]
    assert run.outputs.isnan().flatten(1).all(dim=1).tolist() == [False, True]
    assert run.layer.in_proj_weight.grad.isnan().all()
    assert run.alone[1].tolist() == torch.zeros(3, 4).tolist()
    assert run.alone[0].all()
    layer = run.layer.to(dtype).train(training)
    texts = run.texts.to(dtype)
    outputs, _ = layer(texts, texts, texts, key_padding_mask=run.mask)
    assert outputs[1].isnan().all()
    keep = ~run.mask[:, None]
    alone = F.scaled_dot_product_attention(texts, texts, texts, keep)
    assert alone[1].tolist() == torch.zeros(3, 4).tolist()


@x86
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_masked_text_is_nan__also_in_evaluation_of(snippet, dtype):
    test_a_masked_text_is_nan(snippet, dtype, training=False)


@x86
def test_a_masked_text_is_nan__also_on_the_fast_path(snippet):
    run = snippet.only(*MASKED).after("masked")
    options = {"key_padding_mask": run.mask, "need_weights": False}

    with torch.no_grad():
        fast, _ = run.layer.eval()(*[run.texts] * 3, **options)
    assert fast[1].isnan().all()


@x86
def test_a_masked_text_is_nan__also_until_it_is_left_out(snippet):
    run = snippet.only(*MASKED, "left-out").after("left-out")

    assert run.rest.tolist() == [True, False]
    assert run.outputs.isfinite().all()
    assert all(p.grad.isfinite().all() for p in run.layer.parameters())


@x86
@edits(
    ("one word left", "[True] * 3])", "[True, True, False]])"),
    (
        "the function by hand",
        "F.scaled_dot_product_attention(texts, texts, texts, ~mask[:, None])",
        "F.softmax(0 / ~mask[:, None].expand(2, 3, 3), -1) @ texts",
    ),
)
def test_a_masked_text_is_nan__but_not_with(snippet, old, new, fails):
    """With one word left, nothing is `nan`; a softmax by hand returns `nan`,
    not zeros.
    """
    fails(test_a_masked_text_is_nan, snippet.edit(old, new))


@x86
@edits(
    (
        "without weights",
        "texts, key_padding_mask=mask)",
        "texts, key_padding_mask=mask, need_weights=False)",
    ),
    ("a zero to attend to", "first=True)", "first=True, add_zero_attn=True)"),
    (
        "a finite mask",
        "texts, key_padding_mask=mask)",
        "texts, key_padding_mask=-1e9 * mask)",
    ),
)
def test_a_masked_text_is_nan__ends_with(snippet, old, new, fails):
    """With gradients and `need_weights=False`, as in a
    `TransformerEncoderLayer`, the layer returns the bias of `out_proj`; with
    `add_zero_attn=True` or a mask of large negative numbers, nothing is `nan`
    either.
    """
    fails(test_a_masked_text_is_nan, snippet.edit(old, new))


def encoder(layer):
    """Return two such layers, as an encoder that takes the mask."""
    return nn.TransformerEncoder(layer, 2)


@x86
def test_an_encoder_layer_is_nan_in_evaluation(
    masked=(False, True), gradients=False, norm_first=False, around=None
):
    torch.manual_seed(0)
    texts = torch.randn(2, 3, 4)
    mask = torch.tensor(masked)[:, None].expand(2, 3)
    options = {"batch_first": True, "norm_first": norm_first}
    layer = nn.TransformerEncoderLayer(4, 2, 8, **options)
    model = around(layer) if around else layer
    outputs = model(texts, src_key_padding_mask=mask)
    outputs[0].sum().backward()

    assert outputs.isfinite().all()
    grads = [p.grad for p in model.parameters()]
    assert all(grad.isfinite().all() for grad in grads)
    model.eval()
    with torch.set_grad_enabled(gradients):
        outputs = model(texts, src_key_padding_mask=mask)
    bad = outputs.isnan().flatten(1).all(dim=1).tolist()
    assert bad == [False, True]


@x86
def test_an_encoder_layer_is_nan_in_evaluation__also_with_norm_first():
    test_an_encoder_layer_is_nan_in_evaluation(norm_first=True)


@x86
def test_an_encoder_layer_is_nan_in_evaluation__but_not_if_none_is(fails):
    """Of texts that are not all masked, none is `nan`."""
    given = (False, False)
    fails(test_an_encoder_layer_is_nan_in_evaluation, given)


@x86
def test_an_encoder_layer_is_nan_in_evaluation__but_not_without_no_grad(fails):
    """While gradients are on, it stays finite in evaluation, too."""
    fails(test_an_encoder_layer_is_nan_in_evaluation, (False, True), True)


@x86
@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_an_encoder_layer_is_nan_in_evaluation__ends_in_an_encoder(fails):
    """A `TransformerEncoder` leaves the padding out in evaluation by itself,
    and returns zeros for it.
    """
    inputs = (False, True), False, False, encoder
    fails(test_an_encoder_layer_is_nan_in_evaluation, *inputs)


def test_eps_is_zero_in_float16(snippet):
    run = snippet.only("digits", "half", "adam").after("adam")

    assert run.half[2] == 0
    for gradient in (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3):
        for sign in (1, -1):
            end = run.stepped(torch.float16, sign * gradient)
            assert not math.isfinite(end), end
            assert math.isfinite(run.stepped(torch.float32, sign * gradient))
            with_eps = run.stepped(torch.float16, sign * gradient, eps=1e-4)
            assert math.isfinite(with_eps)


def test_eps_is_zero_in_float16__also_with_adam(snippet):
    old = "AdamW([weight], **options)"
    test_eps_is_zero_in_float16(snippet.edit(old, old.replace("W", "", 1)))


def test_eps_is_zero_in_float16__also_while_numbers_overflow(snippet):
    run = snippet.only("digits", "half").after("half")

    assert run.half[1] == 256
    assert run.half.square().isinf().tolist() == [False, True, False]
    ends = torch.tensor([65504.0, 65520.0]).half()
    assert ends.tolist() == [65504, INF]
    with pytest.raises(RuntimeError, match="::Half without overflow"):
        run.half.masked_fill(run.half > 255, -1e9)
    least = torch.finfo(run.half.dtype).min
    assert run.half.masked_fill(run.half > 255, least).isfinite().all()


@edits(
    (
        "an eps that float16 holds",
        "AdamW([weight], **options)",
        "AdamW([weight], eps=1e-4)",
    ),
    (
        "float32",
        "torch.ones(1, dtype=dtype)",
        "torch.ones(1)",
    ),
)
def test_eps_is_zero_in_float16__but_not(snippet, old, new, fails):
    """With an `eps` of 1e-4, or in `float32`, the weight stays finite."""
    fails(test_eps_is_zero_in_float16, snippet.edit(old, new))


def test_eps_is_zero_in_float16__ends_with_the_fused_kernel(snippet, fails):
    """With `fused=True`, AdamW computes in `float32`, and the weight stays
    finite.
    """
    fused = snippet.edit(
        "AdamW([weight], **options)", "AdamW([weight], fused=True)"
    )
    fails(test_eps_is_zero_in_float16, fused)


CLIP = ("digits", "clip")


def test_clipping_makes_inf_nan(snippet):
    run = snippet.only(*CLIP).after("clip")

    for gradients in ([3.0, INF], [-INF, 0.5, 2.0], [INF, 1e-9, -INF], [INF]):
        found = run.clipped(gradients)
        expected = [NAN if math.isinf(each) else 0.0 for each in gradients]
        assert found == pytest.approx(expected, nan_ok=True)
    for gradients in ([3.0, NAN], [NAN, 0.0, 2.0], [INF, NAN, 1e-9]):
        found = run.clipped(gradients)
        assert found == pytest.approx([NAN] * len(found), nan_ok=True)
    assert run.clipped([3.0, 4.0]) == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize(
    "options",
    [{"norm_type": INF}, {"foreach": False}, {"max_norm": 1e30}],
    ids=str,
)
def test_clipping_makes_inf_nan__also_with(options):
    for bad, rest in ((INF, 0.0), (NAN, NAN)):
        weights = [torch.ones(1), torch.ones(1)]
        weights[0].grad, weights[1].grad = torch.ones(1), torch.tensor([bad])
        given = {"max_norm": 1.0, **options}
        nn.utils.clip_grad_norm_(weights, **given)
        found = [weight.grad.item() for weight in weights]
        assert found == pytest.approx([rest, NAN], nan_ok=True)


@pytest.mark.parametrize("bad", [INF, -INF, NAN])
def test_clipping_makes_inf_nan__also_unless_it_is_strict(bad):
    weights = [torch.ones(1), torch.ones(1)]
    weights[0].grad, weights[1].grad = torch.ones(1), torch.tensor([bad])

    with pytest.raises(RuntimeError, match="The total norm of order"):
        nn.utils.clip_grad_norm_(weights, 1.0, error_if_nonfinite=True)
    found = [weight.grad.item() for weight in weights]
    assert found == pytest.approx([1.0, bad], nan_ok=True)


@edits(
    (
        "clipped by value",
        "nn.utils.clip_grad_norm_(weights, max_norm=1.0, **options)",
        "nn.utils.clip_grad_value_(weights, 1.0)",
    ),
    (
        "not clipped",
        "    nn.utils.clip_grad_norm_(weights",
        "    dict(w=weights",
    ),
    ("no end", "max_norm=1.0, **options", "max_norm=torch.inf, **options"),
)
def test_clipping_makes_inf_nan__but_not(snippet, old, new, fails):
    """Clipped by value, or not at all, the others are not 0; with
    `max_norm=torch.inf`, they are `nan`.
    """
    fails(test_clipping_makes_inf_nan, snippet.edit(old, new))
