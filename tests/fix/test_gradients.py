"""The claims of docs/fix/gradients.md."""

import copy
import warnings
from types import GeneratorType

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import true_since
from extensions.programs.snippet import printed
from tests.helpers.worlds import each

SIMULATED = pytest.mark.simulates("another device")


def steps_with(penalty_of, optimizer):
    """Take three steps with a penalty; return each, and what it should be."""
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = optimizer(model.parameters(), lr=0.1)
    found, right = [], []
    for _ in range(3):
        penalty = penalty_of(model.weight)
        found.append(penalty.item())
        right.append(penalty_of(model.weight.detach()).item())
        optimizer.zero_grad()
        (model(torch.ones(4, 2)).square().mean() + penalty).backward()
        optimizer.step()
    return found, right


def test_a_penalty_belongs_into_the_loop(snippet):
    with no_error():
        program = snippet.after("before-the-loop")

    weight = program.model.weight
    before = (weight + 0.1 * weight.grad).square().sum()
    torch.testing.assert_close(program.penalty, before)


PENALTIES = {
    "an L1 penalty": lambda weight: weight.abs().sum(),
    "a norm": lambda weight: weight.norm(),
    "a normalized weight": lambda weight: F.normalize(weight).sum(),
}
OPTIMIZERS = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam}


@each("optimizer", OPTIMIZERS)
@each("penalty", PENALTIES)
def test_a_penalty_belongs_into_the_loop__also_for(penalty, optimizer):
    with no_error():
        found, right = steps_with(penalty, optimizer)

    assert found == right
    assert len({*found}) == 3


def test_a_penalty_belongs_into_the_loop__but_not_before_it(snippet, fails):
    """Left out of the loop, the second step needs a graph that is freed."""
    line = "penalty = model.weight.square().sum()  # anew, in each step\n    "
    edited = snippet.edit(line, "")
    fails(test_a_penalty_belongs_into_the_loop, edited)


def test_an_early_step_overwrites(snippet):
    run = snippet.after("early-step")

    assert run.layers[0].weight.grad is not None
    optimizer = type(run.early)(run.layers.parameters(), **run.early.defaults)
    optimizer.zero_grad()
    said = ""
    with no_error():
        for _ in range(2):
            loss = F.mse_loss(run.layers(run.inputs), run.targets)
            optimizer.step()
            try:
                loss.backward()
            except RuntimeError as error:
                said = str(error)
    assert "modified by an inplace operation" in said
    text = printed[-1]["early-step"]
    assert text.startswith("one of the variables needed for gradient")


def test_an_early_step_overwrites__also_with_adam(snippet):
    optimizer = "torch.optim.SGD(layers.parameters(), lr=0.1)"
    edited = snippet.edit(optimizer, "torch.optim.Adam(layers.parameters())")
    test_an_early_step_overwrites(edited)


@edits(
    (
        "with a fused step",
        "SGD(layers.parameters(), lr=0.1)",
        "SGD(layers.parameters(), lr=0.1, fused=True)",
    ),
    (
        "for a single linear layer",
        "nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))",
        "nn.Sequential(nn.Linear(2, 1))",
    ),
)
def test_an_early_step_overwrites__ends(snippet, old, new, fails):
    """A fused step overwrites weights without an error, and a single linear
    layer needs none of its weights for `backward()`.
    """
    fails(test_an_early_step_overwrites, snippet.edit(old, new))


@edits(
    (
        "after backward",
        "        early.step()\n        loss.backward()\n",
        "        loss.backward()\n        early.step()\n",
    ),
    (
        "with a reset",
        "        early.step()\n",
        "        early.zero_grad()\n        early.step()\n",
    ),
)
def test_an_early_step_overwrites__but_not(snippet, old, new, fails):
    """After `backward()`, nothing needs the old weights any more; and after a
    reset, `step()` overwrites nothing.
    """
    fails(test_an_early_step_overwrites, snippet.edit(old, new))


def is_leaf_there(program):
    """Return whether `to` and `device=` gave a leaf, on another device."""
    return program.moved.is_leaf, program.made.is_leaf


@SIMULATED
def test_device_in_the_call_makes_a_leaf(snippet):
    program = snippet.after("moved-leaf")

    assert program.device != "cpu"
    assert is_leaf_there(program) == (False, True)


@SIMULATED
@pytest.mark.parametrize("make", [torch.zeros, torch.randn, torch.empty])
def test_device_in_the_call_makes_a_leaf__also_for(make):
    assert not make(3, requires_grad=True).to("meta").is_leaf
    assert make(3, requires_grad=True, device="meta").is_leaf


@SIMULATED
def test_device_in_the_call_makes_a_leaf__but_not_before_to(snippet, fails):
    """Asked to require gradients after `to`, the tensor is a leaf as well."""
    edited = snippet.edit(
        "moved = torch.zeros(3, requires_grad=True).to(device)",
        "moved = torch.zeros(3).to(device).requires_grad_()",
    )
    fails(test_device_in_the_call_makes_a_leaf, edited)


@SIMULATED
def test_device_in_the_call_makes_a_leaf__ends_where_it_is(snippet, fails):
    """Where the tensor is already there, `to` returns the leaf itself."""
    edited = snippet.edit('("cpu", "meta")', '("meta", "cpu")')
    fails(test_device_in_the_call_makes_a_leaf, edited)


def test_apply_runs_a_function(snippet):
    with no_error():
        program = snippet.after("legacy")
    program.doubled.sum().backward()

    assert program.doubled.tolist() == [2, 2]
    assert program.x.grad.tolist() == [2, 2]


def test_apply_runs_a_function__also_if_it_is_wrong(snippet):
    edited = snippet.edit("return 2 * gradient", "return 3 * gradient")
    program = edited.after("legacy")
    program.doubled.sum().backward()

    assert program.doubled.tolist() == [2, 2]
    assert program.x.grad.tolist() == [3, 3]


def test_apply_runs_a_function__but_not_another_backward(snippet, fails):
    """`backward` without the factor 2 gives half the gradient."""
    edited = snippet.edit("return 2 * gradient", "return gradient")
    fails(test_apply_runs_a_function, edited)


def test_apply_runs_a_function__but_not_a_call(snippet, fails):
    """Called as an object, it raises the error, static methods or not."""
    edited = snippet.edit("doubled = Double.apply(x)", "doubled = Double()(x)")
    fails(test_apply_runs_a_function, edited)


def both_losses(scores, labels):
    """Return the loss of scores, and that of their sigmoid."""
    with_scores = F.binary_cross_entropy_with_logits(scores, labels)
    return with_scores, F.binary_cross_entropy(scores.sigmoid(), labels)


def test_with_logits_takes_scores(snippet):
    program = snippet.after("scores")

    torch.testing.assert_close(program.with_scores, program.with_sigmoid)


@pytest.mark.parametrize("size", [1, 3], ids="scores about {}".format)
@pytest.mark.parametrize("shape", [(64,), (8, 5), (2, 1, 6, 6)], ids=str)
def test_with_logits_takes_scores__also_for(size, shape):
    torch.manual_seed(0)
    scores, labels = size * torch.randn(shape), torch.rand(shape).round()

    torch.testing.assert_close(*both_losses(scores, labels))


def test_with_logits_takes_scores__but_not_after_a_sigmoid(snippet, fails):
    """A sigmoid before it is one too many: the loss is another one."""
    edited = snippet.edit("logits(scores, ", "logits(scores.sigmoid(), ")
    fails(test_with_logits_takes_scores, edited)


def test_with_logits_takes_scores__ends_from_17_on(snippet, fails):
    """From 17 on, a sigmoid is exactly 1 in `float32`, and costs 100 where it
    is wrong; with logits, it costs the score.
    """
    edited = snippet.edit("scores = model(inputs)", "scores = 17 - 0 * inputs")
    edited = edited.edit("(targets > 0).float()", "torch.zeros(8, 2)")
    fails(test_with_logits_takes_scores, edited)


def sums_of(function, shape, *dim):
    """Return the sums along each axis of what a function gives."""
    torch.manual_seed(0)
    guessed = function(torch.randn(shape), *dim)
    return [guessed.sum(axis) for axis in range(len(shape))]


def assert_first_axis_adds_up(sums):
    first, *others = sums
    torch.testing.assert_close(first, torch.ones_like(first))
    assert [each for each in others if each.allclose(torch.ones(()))] == []


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
def test_without_dim_three_axes_take_the_first(snippet):
    guessed = snippet.after("no-dim").guessed

    assert_first_axis_adds_up(
        [guessed.sum(axis) for axis in range(guessed.dim())]
    )


FUNCTIONS = {
    "nn.Softmax()": nn.Softmax(),
    "F.log_softmax": lambda x: F.log_softmax(x).exp(),
    "F.softmin": F.softmin,
}


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@each("function", FUNCTIONS)
def test_without_dim_three_axes_take_the_first__also_for(function):
    assert_first_axis_adds_up(sums_of(function, (2, 5, 3)))


def test_without_dim_three_axes_take_the_first__but_not_with(snippet, fails):
    """With `dim=-1`, the classes of each word add up to 1."""
    edited = snippet.edit("F.softmax(steps)", "F.softmax(steps, dim=-1)")
    fails(test_without_dim_three_axes_take_the_first, edited)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 4)], ids=str)
def test_without_dim_three_axes_take_the_first__ends_for(
    snippet, fails, shape
):
    """For two axes or four, PyTorch guesses the second, the classes."""
    edited = snippet.edit("torch.randn(2, 5, 3)", f"torch.randn{shape}")
    fails(test_without_dim_three_axes_take_the_first, edited)


def refused(model, optimizer, loss_of=None):
    """Return what a scaler says to an optimizer without a gradient."""
    optimizer.zero_grad()
    scaler = torch.amp.GradScaler("cpu")
    scaled = scaler.scale((loss_of or model)(torch.ones(8, 2)).mean())
    if loss_of:
        scaled.backward()
    try:
        scaler.step(optimizer)
    except AssertionError as error:
        return str(error)
    return "nothing"


SAYS = "No inf checks were recorded for this optimizer."


def test_a_scaler_needs_one_gradient(snippet):
    with no_error():
        program = snippet.after("no-gradient")

    assert program.before != program.model.bias.item()
    assert program.output.grad_fn is None
    assert refused(program.model, program.optimizer) == SAYS


def frozen(model):
    factor = torch.ones(1, requires_grad=True)
    copied = copy.deepcopy(model).requires_grad_(False)
    return lambda x: copied(x) * factor


LOSSES = {
    "a detached output": lambda model: (
        lambda x: model(x).detach().requires_grad_()
    ),
    "a copy of the model": copy.deepcopy,
    "a frozen model": frozen,
}


@each("loss_of", LOSSES)
def test_a_scaler_needs_one_gradient__also_for(loss_of):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())

    assert refused(model, optimizer, loss_of(model)) == SAYS


def test_a_scaler_needs_one_gradient__but_not_with_the_cut(snippet, fails):
    """Detached, the output gives the optimizer no gradient again."""
    old = "scaler.scale(F.mse_loss(model(inputs), targets)).backward()"
    new = "scaler.scale(F.mse_loss(output, targets)).backward()"
    fails(test_a_scaler_needs_one_gradient, snippet.edit(old, new))


def test_a_scaler_needs_one_gradient__ends_with_old_gradients(snippet, fails):
    """A gradient of an older step, not reset, is one too: nothing is said."""
    new = 'GradScaler("cpu")\noptimizer.zero_grad = lambda: None\nscaler.scale'
    old = 'GradScaler("cpu")\nscaler.scale'
    fails(test_a_scaler_needs_one_gradient, snippet.edit(old, new))


def test_a_scaler_needs_one_gradient__ends_if_disabled(snippet, fails):
    """With `enabled=False`, the step is taken, and moves nothing."""
    new = 'GradScaler("cpu", enabled=False)\nscaler.scale(F.mse_loss(output'
    old = 'GradScaler("cpu")\nscaler.scale(F.mse_loss(model(inputs)'
    fails(test_a_scaler_needs_one_gradient, snippet.edit(old, new))


def test_a_small_diagonal_helps(snippet):
    with no_error():
        program = snippet.after("not-positive")

    torch.testing.assert_close(
        program.factor @ program.factor.T, program.mended
    )
    torch.testing.assert_close(
        program.mended, program.covariance, atol=2e-3, rtol=0
    )


@pytest.mark.parametrize("rows", [1, 3, 20], ids="{} rows".format)
@pytest.mark.parametrize("size", [0.1, 1, 100], ids="numbers about {}".format)
def test_a_small_diagonal_helps__also_for(rows, size):
    torch.manual_seed(0)
    values = size * torch.randn(rows, 32)
    covariance = values.T @ values / rows
    small = 1e-4 * covariance.diagonal().mean()

    _, failed = torch.linalg.cholesky_ex(covariance)
    _, fails = torch.linalg.cholesky_ex(covariance + small * torch.eye(32))
    assert failed.item() > 0
    assert fails.item() == 0


def test_a_small_diagonal_helps__but_not_if_too_small(snippet, fails):
    """A millionth of a millionth is lost in the digits of `float32`."""
    fails(test_a_small_diagonal_helps, snippet.edit("1e-3", "1e-12"))


def test_a_small_diagonal_helps__but_not_float64_alone(snippet, fails):
    """In `float64`, a covariance of too few rows has no factor either."""
    edited = snippet.edit(
        "covariance + 1e-3 * torch.eye(8)", "covariance.double()"
    )
    fails(test_a_small_diagonal_helps, edited)


def test_a_small_diagonal_helps__ends_for_large_numbers(snippet, fails):
    """For numbers around 1,000, 0.001 is too little: add a 10,000th of the
    diagonal.
    """
    edited = snippet.edit("torch.randn(3, 8)", "1000 * torch.randn(3, 8)")
    fails(test_a_small_diagonal_helps, edited)


def test_a_small_diagonal_helps__ends_if_clearly_negative(snippet, fails):
    """An eigenvalue of -1 stays negative: this is no covariance."""
    edited = snippet.edit("rows / 3", "rows / 3 - torch.eye(8)")
    fails(test_a_small_diagonal_helps, edited)


def test_a_floor_keeps_the_scale_positive(snippet):
    with no_error():
        program = snippet.after("scale")
        torch.distributions.Normal(torch.zeros(3), program.scale)

    assert F.softplus(program.raw).min() == 0
    assert program.scale.min() > 0


@pytest.mark.parametrize("raw", [-3e38, -1000.0, -20.0, 0.0, 3e38], ids=str)
def test_a_floor_keeps_the_scale_positive__also_for(raw):
    scale = F.softplus(torch.tensor([raw])) + 1e-6

    with no_error():
        torch.distributions.Normal(torch.zeros(1), scale)


def test_a_floor_keeps_the_scale_positive__but_not_without(snippet, fails):
    """`softplus` alone is 0 at -200, which is no scale."""
    edited = snippet.edit("F.softplus(raw) + 1e-6", "F.softplus(raw)")
    fails(test_a_floor_keeps_the_scale_positive, edited)


def test_a_floor_keeps_the_scale_positive__ends_for_nan(snippet, fails):
    """Where the network gives nan, the scale is nan."""
    nan = snippet.edit("+ 1e-6", "+ 1e-6 + float('nan')")
    fails(test_a_floor_keeps_the_scale_positive, nan)


SEEN = [(2, 2), (2,), (1, 2), (1,)]


def test_a_module_list_is_seen(snippet):
    assert snippet.after("empty").seen == SEEN


def named(layers):
    return nn.ModuleDict({str(at): one for at, one in enumerate(layers)})


def assigned(layers):
    model = nn.Module()
    model.first, model.second = layers
    return model


HOLDERS = {
    "nn.Sequential": lambda layers: nn.Sequential(*layers),
    "nn.ModuleDict": named,
    "attributes": assigned,
}


@each("holder", HOLDERS)
def test_a_module_list_is_seen__also_for(holder):
    model = holder([nn.Linear(2, 2), nn.Linear(2, 1)])

    assert [tuple(each.shape) for each in model.parameters()] == SEEN


def test_a_module_list_is_seen__but_not_in_a_list(snippet, fails):
    """A plain list of layers gives the model no parameters."""
    edited = snippet.edit(
        "nn.ModuleList([nn.Linear(2, 2)", "([nn.Linear(2, 2)"
    )
    fails(test_a_module_list_is_seen, edited)


def test_a_module_list_is_seen__ends_beside_a_list(snippet, fails):
    """What stands in a plain list beside it is still not seen."""
    old = "nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 1)])"
    new = "nn.ModuleList([nn.Linear(2, 2)])"
    edited = snippet.edit(old, f"{new}\n        self.rest = [nn.Linear(2, 1)]")
    fails(test_a_module_list_is_seen, edited)


@true_since("2.4", "they gave no warning")
def test_old_names_warn(snippet):
    old = snippet.after("old-names").old

    assert len(old) == 2
    for text, name in zip(old, ("GradScaler", "autocast"), strict=True):
        assert f"`torch.cuda.amp.{name}(args...)` is deprecated" in text
        assert f"`torch.amp.{name}('cuda', args...)` instead" in text


@edits(
    (
        "a new scaler",
        "torch.cuda.amp.GradScaler()",
        'torch.amp.GradScaler("cuda", enabled=False)',
    ),
    (
        "a new autocast",
        "torch.cuda.amp.autocast()",
        'torch.autocast("cuda")',
    ),
)
def test_old_names_warn__but_not_of(snippet, old, new, fails):
    """`torch.amp.GradScaler`, the new name, gives no warning; nor does
    `torch.autocast`.
    """
    fails(test_old_names_warn, snippet.edit(old, new))


def test_an_empty_state_is_refused(snippet):
    run = snippet.after("empty-state")
    (line,) = printed[-1]["empty-state"].splitlines()

    assert line.startswith("The source state dict is empty")
    assert run.scaler.is_enabled()
    assert run.scaler.get_scale() == 65_536


def test_an_empty_state_is_refused__also_after_a_step(snippet):
    run = snippet.after("empty-state")
    optimizer = torch.optim.SGD([weight := nn.Parameter(torch.ones(2))])
    run.scaler.scale(weight.sum()).backward()
    run.scaler.step(optimizer)

    assert run.saved == {}
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        run.scaler.load_state_dict(run.saved)


@edits(
    (
        "a state of an enabled one",
        'GradScaler("cpu", enabled=False).state_dict()',
        'GradScaler("cpu").state_dict()\nprint()',
    ),
    (
        "into a disabled one",
        'scaler = torch.amp.GradScaler("cpu")\ntry:\n    scaler.load',
        'scaler = torch.amp.GradScaler("cpu", enabled=False)\n'
        "print()\ntry:\n    scaler.load",
    ),
)
def test_an_empty_state_is_refused__but_not(snippet, old, new, fails):
    """The state of an enabled scaler is not empty; and a disabled one loads an
    empty state.
    """
    fails(test_an_empty_state_is_refused, snippet.edit(old, new))


KINDS = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW]
EMPTY = "ValueError: optimizer got an empty parameter list"


def test_a_generator_is_used_up(snippet):
    run = snippet.after("handed-over")
    assert run.texts[0] == EMPTY
    assert isinstance(run.parameters, GeneratorType | filter)


PARAMETERS = "parameters = model.parameters()\n"


@edits(
    (
        "a filter",
        PARAMETERS,
        "parameters = filter(torch.is_tensor, model.parameters())\n",
    ),
    ("AdamW", "optim.SGD(given)", "optim.AdamW(given)"),
    ("an empty list", "(parameters, model[0]", "([], model[0]"),
)
def test_a_generator_is_used_up__also_with(snippet, old, new):
    test_a_generator_is_used_up(snippet.edit(old, new))


@edits(
    ("a list", PARAMETERS, "parameters = [*model.parameters()]\n"),
    ("its first use", "optim.SGD(parameters)", "optim.SGD"),
    ("another call", "(parameters, model[0]", "(model.parameters(), model[0]"),
    ("a full list", "(parameters, model[0]", "([model[0].bias], model[0]"),
)
def test_a_generator_is_used_up__but_not(snippet, old, new, fails):
    """A list, a generator not yet used or another call of `parameters()` still
    holds parameters, and raises no error.
    """
    fails(test_a_generator_is_used_up, snippet.edit(old, new))


def test_a_used_up_group_is_empty(snippet, kind=torch.optim.SGD, added=False):
    run = snippet.after("handed-over")
    group = {"params": run.parameters}

    with no_error(), warnings.catch_warnings(action="error"):
        if added:
            optimizer = kind(nn.Linear(2, 1).parameters())
            optimizer.add_param_group(group)
        else:
            optimizer = kind([group])
    assert len(optimizer.param_groups) == 1 + added
    assert optimizer.param_groups[-1]["params"] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "added", [False, True], ids=["a new optimizer", "an added group"]
)
def test_a_used_up_group_is_empty__also_with(snippet, kind, added):
    test_a_used_up_group_is_empty(snippet, kind, added)


def test_a_used_up_group_is_empty__but_not_a_list(snippet, fails):
    """A list is not used up, so the group holds all parameters."""
    edited = snippet.edit(PARAMETERS, "parameters = [*model.parameters()]\n")
    fails(test_a_used_up_group_is_empty, edited)


ALONE = "TypeError: params argument given to the optimizer should be"


def test_a_tensor_alone_is_refused(snippet):
    expected = f"{ALONE} an iterable of Tensors or dicts, but got"
    starts = [
        text[: len(expected)] for text in snippet.after("handed-over").texts
    ]
    assert expected in starts


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_a_tensor_alone_is_refused__also_by(snippet, kind):
    edited = snippet.edit("optim.SGD(given)", f"optim.{kind}(given)")
    test_a_tensor_alone_is_refused(edited)


def test_a_tensor_alone_is_refused__also_a_weight(snippet):
    old = "(parameters, model[0].bias"
    test_a_tensor_alone_is_refused(
        snippet.edit(old, "(parameters, model[0].weight")
    )


def test_a_tensor_alone_is_refused__but_not_in_a_list(snippet, fails):
    """In a list, a single parameter raises no error."""
    edited = snippet.edit("s, model[0].bias", "s, [model[0].bias]")
    fails(test_a_tensor_alone_is_refused, edited)


LEAF = "ValueError: can't optimize a non-leaf Tensor"


def test_a_computed_tensor_is_refused(snippet):
    assert LEAF in snippet.after("handed-over").texts


@edits(
    ("a view", "model[0].weight * 2", "model[0].weight[0]"),
    ("another type", "model[0].weight * 2", "model[0].weight.double()"),
    ("AdamW", "optim.SGD(given)", "optim.AdamW(given)"),
    ("a group", "[result]", '[{"params": result}]'),
)
def test_a_computed_tensor_is_refused__also_with(snippet, old, new):
    test_a_computed_tensor_is_refused(snippet.edit(old, new))


RESULT = "result = model[0].weight * 2\n"


@edits(
    ("a parameter", RESULT, "result = model[0].weight\n"),
    ("a detached one", RESULT, "result = (model[0].weight * 2).detach()\n"),
)
def test_a_computed_tensor_is_refused__but_not(snippet, old, new, fails):
    """A parameter, or a detached result, is a leaf, and raises no error."""
    fails(test_a_computed_tensor_is_refused, snippet.edit(old, new))


def test_a_computed_tensor_is_refused__ends_after_retain_grad(snippet, fails):
    """After `retain_grad()`: it raises no error."""
    edited = snippet.edit(RESULT, f"{RESULT}result.retain_grad()\n")
    fails(test_a_computed_tensor_is_refused, edited)


def test_a_computed_tensor_is_refused__ends_with_differentiable(
    snippet, fails
):
    """With `differentiable=True`: it raises no error."""
    old = "optim.SGD(given)"
    edited = snippet.edit(old, "optim.SGD(given, differentiable=True)")
    fails(test_a_computed_tensor_is_refused, edited)


TWICE = "ValueError: some parameters appear in more than one parameter group"


def test_a_parameter_in_two_groups_is_refused(snippet):
    assert TWICE in snippet.after("handed-over").texts


@edits(
    ("by AdamW", "optim.SGD(given)", "optim.AdamW(given)"),
    (
        "a single weight",
        '{"params": model[0].parameters()}',
        '{"params": model[1].weight}',
    ),
)
def test_a_parameter_in_two_groups_is_refused__also_with(snippet, old, new):
    test_a_parameter_in_two_groups_is_refused(snippet.edit(old, new))


def test_a_parameter_in_two_groups_is_refused__but_not_a_copy(snippet, fails):
    """Here the first group holds parameters of another layer, so none is in
    two groups.
    """
    edited = snippet.edit(
        '{"params": model[0].parameters()}',
        '{"params": nn.Linear(3, 16).parameters()}',
    )
    fails(test_a_parameter_in_two_groups_is_refused, edited)


def said(snippet, name):
    """Return the lines that a cell prints."""
    with no_error(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        snippet.after(name)
    return printed[-1][name].splitlines()


def test_one_cycle_ends_with_an_error(snippet, total=30, options=None):
    run = snippet.after("one-cycle-end")
    assert run.calls == 30

    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    given = {"total_steps": total} if options is None else options
    schedule = run.OneCycleLR(sgd, max_lr=1.0, **given)
    for _ in range(total):
        sgd.step()
        with no_error():
            schedule.step()
    text = f"Tried to step {total + 1} times"
    with pytest.raises(ValueError, match=text):
        schedule.step()


@pytest.mark.parametrize("total", [2, 17])
def test_one_cycle_ends_with_an_error__also_with_total_steps(snippet, total):
    test_one_cycle_ends_with_an_error(snippet, total)


def test_one_cycle_ends_with_an_error__also_with_epochs(snippet):
    options = {"epochs": 3, "steps_per_epoch": 5}
    test_one_cycle_ends_with_an_error(snippet, 15, options)


@edits(
    ("30 calls", "while calls < 40:", "while calls < 20:"),
    (
        "a StepLR",
        "OneCycleLR(sgd, max_lr=1.0, total_steps=30), 0",
        "StepLR(sgd, 30), 0",
    ),
)
def test_one_cycle_ends_with_an_error__but_not(snippet, old, new, fails):
    """20 calls raise nothing, and `StepLR` takes any number of calls."""
    fails(test_one_cycle_ends_with_an_error, snippet.edit(old, new))


SCHEDULES = {
    "StepLR": {"step_size": 3},
    "MultiStepLR": {"milestones": [3]},
    "ExponentialLR": {"gamma": 0.5},
    "CosineAnnealingLR": {"T_max": 30},
    "LinearLR": {},
    "OneCycleLR": {"max_lr": 1.0, "total_steps": 30},
    "LambdaLR": {"lr_lambda": lambda n: 0.5**n},
}


def test_last_epoch_needs_an_initial_rate(snippet, kind="StepLR", last=19):
    texts = said(snippet, "last-epoch")
    assert "'initial_lr' is not specified in param_groups[0]" in texts[0]
    assert texts[-1].startswith("with an initial_lr: 20 calls")

    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    make, options = getattr(lr_scheduler, kind), SCHEDULES[kind]
    with pytest.raises(KeyError, match="'initial_lr' is not"):
        make(sgd, last_epoch=last, **options)
    # OneCycleLR keeps two more rates, and a momentum.
    needed = ("initial_lr", "max_lr", "min_lr", "max_momentum")
    sgd.param_groups[0].update(dict.fromkeys([*needed, "base_momentum"], 0.1))
    with no_error():
        assert make(sgd, last_epoch=last, **options).last_epoch == last + 1


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize("last", [0, 11], ids="last_epoch={}".format)
def test_last_epoch_needs_an_initial_rate__also_for(snippet, kind, last):
    test_last_epoch_needs_an_initial_rate(snippet, kind, last)


def test_last_epoch_needs_an_initial_rate__but_not_by_default(snippet, fails):
    """With `last_epoch=-1`, the default, there is no error."""
    old = "StepLR(sgd, step_size=10, last_epoch=19)\nexcept"
    edited = snippet.edit(old, old.replace("19", "-1"))
    fails(test_last_epoch_needs_an_initial_rate, edited)


def test_last_epoch_needs_an_initial_rate__but_not_if_loaded(snippet, fails):
    """An optimizer that loads the state of one with a schedule gets its
    `initial_lr`.
    """
    old = "# %% last-epoch\nsgd = torch.optim.SGD"
    new = (
        "# %% last-epoch\nstate = sgd.state_dict()\nsgd = torch.optim.SGD"
        "([torch.zeros(1, requires_grad=True)])\nsgd.load_state_dict(state)\n"
        "_ = torch.optim.SGD"
    )
    fails(test_last_epoch_needs_an_initial_rate, snippet.edit(old, new))


def test_plateau_needs_its_metric(snippet):
    texts = said(snippet, "no-metric")
    assert "missing 1 required positional argument: 'metrics'" in texts[0]
    assert texts[-1] == "with a loss: the best so far is 0.5"


@edits(
    ("with a metric", "on_plateau.step()\n", "on_plateau.step(1.0)\n"),
    (
        "of StepLR",
        "on_plateau.step()\n",
        "StepLR(sgd, step_size=10).step()\n",
    ),
)
def test_plateau_needs_its_metric__but_not(snippet, old, new, fails):
    """With a metric there is no error, and `StepLR` needs none."""
    fails(test_plateau_needs_its_metric, snippet.edit(old, new))
