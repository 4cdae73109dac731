"""The claims of docs/training/optimizers.md."""

import pytest
import torch
from torch import nn, optim

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after, compiled, printed
from tests.helpers import worlds


def split(snippet, model):
    """Run the cell `groups` on another model, and return its optimizer."""
    variables = {"torch": torch, "model": model}
    exec(compiled(snippet.cells()["groups"], snippet.path), variables)
    return variables["optimizer"]


def is_bias_or_norm(model):
    """Return the ids of the parameters that are said not to decay."""
    norms = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)
    spared = set()
    for layer in model.modules():
        for name, p in layer.named_parameters(recurse=False):
            if "bias" in name or isinstance(layer, norms):
                spared.add(id(p))
    return spared


def test_groups_split_by_axes(snippet, model=None):
    run = after(snippet, "digits", "groups")
    pairs = [(run.model, run.optimizer)]
    if model:
        pairs.append((model, split(snippet, model)))

    for each, optimizer in pairs:
        assert type(optimizer) is optim.AdamW
        decays = {
            id(p): group["weight_decay"]
            for group in optimizer.param_groups
            for p in group["params"]
        }
        spared = is_bias_or_norm(each)
        for name, p in each.named_parameters():
            found = p.dim() > 1, decays.get(id(p))
            expected = (False, 0.0) if id(p) in spared else (True, 0.01)
            assert found == expected, name
        assert len(decays) == len(list(each.parameters()))


LAYERS = {
    "Embedding": lambda: nn.Embedding(4, 3),
    "LSTM": lambda: nn.LSTM(3, 2, 2),
    "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2),
    "BatchNorm3d": lambda: nn.BatchNorm3d(3),
    "GroupNorm": lambda: nn.GroupNorm(2, 4),
    "a transformer": lambda: nn.TransformerEncoderLayer(8, 2, 16),
    "convolutions": lambda: nn.Sequential(
        nn.Conv1d(2, 3, 2), nn.Conv2d(2, 3, 2), nn.ConvTranspose3d(2, 3, 2)
    ),
}


@worlds.each("make", LAYERS)
def test_groups_split_by_axes__also_for(snippet, make):
    test_groups_split_by_axes(snippet, make())


@worlds.each("make", worlds.MODELS, "tied", "frozen in part", "with BatchNorm")
def test_groups_split_by_axes__also_for_a_model(snippet, make):
    test_groups_split_by_axes(snippet, make())


@edits(
    ("a bias left out", "p.dim() <= 1]", "p.dim() < 1]"),
    ("a bias that decays", 'others, "weight_decay": 0.0', 'others, "lr": 0.0'),
    ("a weight left out", "p.dim() > 1]", "p.dim() > 2]"),
    ("no decay", "1, weight_decay=0.01)", "1, weight_decay=0.0)"),
)
def test_groups_split_by_axes__but_not_with(snippet, old, new, fails):
    """Each edit leaves parameters out, or gives a group the decay of the
    other.
    """
    fails(test_groups_split_by_axes, snippet.edit(old, new))


SEVERAL_AXES = {
    "a norm over two axes": lambda: nn.LayerNorm((2, 3)),
    "add_bias_kv": lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True),
}


@worlds.each("make", SEVERAL_AXES)
def test_groups_split_by_axes__ends_for(snippet, make, fails):
    """The weight of a `LayerNorm` over two axes has two axes, and the biases
    of `add_bias_kv=True` have three: they decay.
    """
    fails(test_groups_split_by_axes, snippet, make())


def test_rates_that_work(snippet, seed=0):
    start = "torch.manual_seed({})\n    norm".format
    edited = snippet.edit(start(0), start(seed))
    run = after(edited, "digits", "sweep")

    best = {
        name: run.rates[losses.index(min(losses))]
        for name, losses in run.losses.items()
    }
    expected = {"SGD": 0.1, "SGD with momentum": 0.03, "AdamW": 0.01}
    assert best == expected
    at_first = [losses[0] for losses in run.losses.values()]
    assert at_first[0] > 2.2
    assert at_first[2] < 1.3
    guess = nn.functional.cross_entropy(torch.zeros(1, 10), torch.tensor([3]))
    assert guess.item() == pytest.approx(2.3, abs=0.01)


def test_rates_that_work__also_from_another_start(snippet):
    test_rates_that_work(snippet, 2)


def test_rates_that_work__ends_from_some_starts(snippet, fails):
    """From some starting weights, another rate does best: with seed 3, SGD
    with momentum at 0.3, and AdamW at 0.1.
    """
    fails(test_rates_that_work, snippet, 3)


@edits(
    ("a tenth of the steps", "[*range(0, 1500, 50)] * 3", "range(0, 450, 50)"),
    (
        "sums",
        "labels[batch]).backward()\n        optimizer.step()\n    with",
        "labels[batch], reduction='sum').backward()\n"
        "        optimizer.step()\n    with",
    ),
    ("Adagrad", '"kind": torch.optim.AdamW}', '"kind": torch.optim.Adagrad}'),
)
def test_rates_that_work__but_not_with(snippet, old, new, fails):
    """The best rate depends on the number of steps, on the scale of the loss
    and on the optimizer.
    """
    fails(test_rates_that_work, snippet.edit(old, new))


def parameters(dtype):
    """Return some parameters, the last of which never gets a gradient."""
    torch.manual_seed(0)
    shapes = [(4, 3), (5,), (), (0, 3), (2,)]
    return [torch.randn(s).to(dtype).requires_grad_() for s in shapes]


def moved(make, options, dtype, scale, given, change, late):
    """Take 60 steps with gradients that differ from step to step."""
    made = parameters(dtype)
    groups = [
        {"params": given(made[:1]), "weight_decay": 0.3, "lr": 0.02},
        {"params": given(made[1:])},
    ]
    optimizer = make(groups, **options)
    torch.manual_seed(1)
    for step in range(60):
        for index, p in enumerate(made[:-1]):
            grad = scale * (torch.randn(p.shape) + 0.5)
            skipped = (step + index) % 7 == 6 or step < late * index
            p.grad = None if skipped else grad.to(dtype)
        optimizer.step()
        if step == 30:
            optimizer = change(optimizer)
    return [p.detach() for p in made]


def as_it_is(optimizer):
    """Return an optimizer."""
    return optimizer


STEPS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.001, "weight_decay": 2.0}),
]


def test_fifteen_lines_are_torch_optim(
    snippet,
    steps=STEPS,
    real=None,
    dtype=torch.float64,
    scale=1.0,
    given=list,
    change=as_it_is,
    late=0,
):
    with no_error():
        run = after(snippet, "digits", "by-hand", "step")
    close = 1e-9 if dtype is torch.float64 else 1e-4

    for name, options in steps:

        def ours(groups, name=name, **options):
            return run.Optimizer(getattr(run, name.lower()), groups, **options)

        how = dtype, scale, given, change, late
        with no_error():
            mine = moved(ours, options, *how)
            kind = getattr(optim, name)
            theirs = moved(kind, {**options, **(real or {})}, *how)
        pairs = zip(mine, theirs, strict=True)
        for index, (our, their) in enumerate(pairs):
            torch.testing.assert_close(
                our,
                their,
                rtol=close,
                atol=close * scale,
                msg=lambda text, at=(name, index): f"{at}: {text}",
            )


def test_fifteen_lines_are_torch_optim__also_on_the_digits(snippet):
    snippet.only("digits", "by-hand", "step", "compare").after("compare")

    lines = printed[-1]["compare"].splitlines()
    assert [line.split()[0] for line in lines] == [
        "sgd",
        "sgd",
        "adam",
        "adamw",
    ]
    assert [line[-14:] for line in lines] == ["0.000000 apart"] * 4


WAYS = {
    "float32": {"dtype": torch.float32},
    "small gradients": {"scale": 1e-5},
    "large gradients": {"scale": 1e3},
    "a late gradient": {"late": 5},
    "foreach": {"real": {"foreach": True}},
    "one by one": {"real": {"foreach": False}},
    "fused": {"real": {"fused": True}},
    "fused, float32": {"real": {"fused": True}, "dtype": torch.float32},
}


@worlds.each("options", WAYS)
def test_fifteen_lines_are_torch_optim__also_for(snippet, options):
    test_fifteen_lines_are_torch_optim(snippet, **options)


OPTIONS = {
    "betas": (STEPS[2:3], {"betas": (0.5, 0.999)}),
    "eps": (STEPS[4:5], {"eps": 0.1}),
    "nesterov": (STEPS[1:2], {"nesterov": True}),
    "dampening": (STEPS[1:2], {"dampening": 0.5}),
    "amsgrad": (STEPS[4:5], {"amsgrad": True}),
    "maximize": (STEPS[:1], {"maximize": True}),
}


@worlds.each("options", OPTIONS)
def test_fifteen_lines_are_torch_optim__ends_with(snippet, options, fails):
    """With another value of `betas` or `eps`, or with `nesterov`,
    `dampening`, `amsgrad` or `maximize`, the real steps differ.
    """
    fails(test_fifteen_lines_are_torch_optim, snippet, *options)


def test_fifteen_lines_are_torch_optim__ends_with_a_generator(snippet, fails):
    """The real ones make a list of a generator; ours uses it up in the first
    step.
    """
    options = (STEPS, None, torch.float64, 1.0, iter)
    fails(test_fifteen_lines_are_torch_optim, snippet, *options)


def test_fifteen_lines_are_torch_optim__ends_after_loading(snippet, fails):
    """The real ones can be saved and loaded with a `state_dict`."""

    def loaded(optimizer):
        optimizer.load_state_dict(optimizer.state_dict())
        return optimizer

    options = (STEPS[2:], None, torch.float64, 1.0, list, loaded)
    fails(test_fifteen_lines_are_torch_optim, snippet, *options)


def test_fifteen_lines_are_torch_optim__ends_without_a_rate(snippet, fails):
    """The real ones have a default for `lr`; ours need one."""
    fails(test_fifteen_lines_are_torch_optim, snippet, [("AdamW", {})])


def cleared(optimizer):
    """Clear the gradients."""
    optimizer.zero_grad()
    return optimizer


def test_fifteen_lines_are_torch_optim__ends_with_zero_grad(snippet, fails):
    """Ours have no `zero_grad()`: call that of the model."""
    options = (STEPS, None, torch.float64, 1.0, list, cleared)
    fails(test_fifteen_lines_are_torch_optim, snippet, *options)


def scheduled(optimizer):
    """Halve the rates by a schedule."""
    optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.5)
    return optimizer


def test_fifteen_lines_are_torch_optim__ends_with_a_schedule(snippet, fails):
    """The schedulers of PyTorch raise a `TypeError` for ours."""
    options = (STEPS, None, torch.float64, 1.0, list, scheduled)
    fails(test_fifteen_lines_are_torch_optim, snippet, *options)


def hurried(optimizer):
    """Switch the momentum on."""
    for group in optimizer.param_groups:
        group["momentum"] = 0.9
    return optimizer


def test_fifteen_lines_are_torch_optim__ends_if_momentum_comes_later(
    snippet, fails
):
    """If you raise the momentum from 0 during the training, the real `SGD`
    begins with an empty memory, and ours with the last gradient.
    """
    options = (STEPS[:1], None, torch.float64, 1.0, list, hurried)
    fails(test_fifteen_lines_are_torch_optim, snippet, *options)


def test_fifteen_lines_are_torch_optim__ends_with_fused_momentum(
    snippet, fails
):
    """With `fused=True` and momentum, SGD raises a `TypeError` if a parameter
    gets its first gradient later than others.
    """
    how = torch.float64, 1.0, list, as_it_is, 5
    options = (STEPS[1:2], {"fused": True}, *how)
    fails(test_fifteen_lines_are_torch_optim, snippet, *options)


def test_fifteen_lines_are_torch_optim__ends_in_bfloat16(snippet, fails):
    """With weights in `bfloat16`, both round, and in different places."""
    options = (STEPS, None, torch.bfloat16)
    fails(test_fifteen_lines_are_torch_optim, snippet, *options)


@edits(
    ("1", "grad = w.grad + weight_decay * w  # 1", "grad = w.grad"),
    ("2", "w, 0.0) + grad  # 2", "w, 0.0) + (1 - momentum) * grad"),
    ("3", "w -= lr * memory[w]", "w -= lr * grad"),
    ("4", "grad = w.grad + weight_decay * w  # 4", "grad = w.grad"),
    ("5", "0.9 * mean + 0.1 * grad", "0.9 * mean + grad"),
    ("6", "0.999 * square", "0.99 * square"),
    ("7", "(square / (1 - 0.999**t))", "square"),
    ("8", "lr * mean / (1 - 0.9**t)", "lr * mean"),
    ("9", "w *= 1 - lr * weight_decay", "w *= 1 - weight_decay"),
    ("10", "adam(w, memory, lr)", "adam(w, memory, lr, weight_decay)"),
    ("11", "{**call, **group}", "{**group, **call}"),
    ("12", "options = {k: group[k]", "options = {k: self.param_groups[0][k]"),
    (
        "13",
        "                if w.grad is not None:  # 13\n",
        "                w.grad = 0 * w if w.grad is None else w.grad\n"
        "                if True:\n",
    ),
)
def test_fifteen_lines_are_torch_optim__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each of the numbered lines counts: without the corrections of lines 7
    and 8, for example, the first steps have another length.
    """
    fails(test_fifteen_lines_are_torch_optim, snippet.edit(old, new))


STEADY, LARGE, SWINGING = "2, 2, ...", "200, 200, ...", "2, -2, ..."


def moves(snippet):
    """Return the function of the page that measures steps."""
    return after(snippet, "digits", "how-far").moves


def measured(snippet, name, given):
    """Return how far the steps go in one row of the page's table."""
    run = after(snippet, "digits", "how-far")
    return run.moves(run.gradients[given], **run.strides[name])


def at(snippet, rate):
    """Return the snippet with another rate for its single weight."""
    return snippet.edit("lr=0.1, **options", f"lr={rate}, **options")


def test_sgd_follows_the_size(snippet, kind=optim.SGD, rate=0.1):
    for given, size in ((STEADY, 2), (LARGE, 200)):
        steps = measured(snippet, "SGD", given)
        assert steps == pytest.approx([rate * size] * 80)

    gradients = [0.0, 1e-6, -3.0, 2.0, 1e6]
    steps = moves(snippet)(gradients, kind)
    assert steps == pytest.approx([rate * each for each in gradients])


@pytest.mark.parametrize("rate", [0.001, 3.0])
def test_sgd_follows_the_size__also_at_rate(snippet, rate):
    test_sgd_follows_the_size(at(snippet, rate), rate=rate)


def test_sgd_follows_the_size__ends_for_adam(snippet, fails):
    """For Adam: it divides by the size of the gradients, so its steps do not
    grow with them.
    """
    fails(test_sgd_follows_the_size, snippet, optim.Adam)


@pytest.mark.parametrize("option", ["momentum", "weight_decay"])
def test_sgd_follows_the_size__but_not_with(snippet, option, fails):
    """`momentum` adds past gradients to the step, and `weight_decay` part of
    the weight.
    """
    old = '"SGD": {"kind": torch.optim.SGD},\n    "momentum 0.9"'
    edited = snippet.edit(old, old.replace("},", f', "{option}": 0.5}},'))
    fails(test_sgd_follows_the_size, edited)


def test_momentum_adds_up_and_cancels(snippet):
    plain = measured(snippet, "SGD", STEADY)
    steady = measured(snippet, "momentum 0.9", STEADY)
    ratios = [a / b for a, b in zip(steady, plain, strict=True)]
    assert ratios[:3] == pytest.approx([1, 1.9, 2.71])
    assert ratios == sorted(ratios)
    assert ratios[-1] == pytest.approx(10, rel=1e-3)

    plain = measured(snippet, "SGD", SWINGING)
    swinging = measured(snippet, "momentum 0.9", SWINGING)
    ratios = [a / b for a, b in zip(swinging, plain, strict=True)]
    far = [abs(ratio - 1 / 1.9) for ratio in ratios]
    assert far == sorted(far, reverse=True)
    assert far[-1] < 1e-3


@pytest.mark.parametrize("size", ["-0.001", "5000.0"])
def test_momentum_adds_up_and_cancels__also_for_size(snippet, size):
    edited = snippet.edit("[2.0] * 80", f"[{size}] * 80")
    edited = edited.edit("[2.0, -2.0] * 40", f"[{size}, -({size})] * 40")
    test_momentum_adds_up_and_cancels(edited)


def with_momentum(snippet, options):
    """Return the program with different options for its momentum."""
    old = '"momentum 0.9": {"kind": torch.optim.SGD'
    return snippet.edit(f'{old}, "momentum": 0.9', f"{old}{options}")


@pytest.mark.parametrize("options", ["", ', "momentum": 0.8'])
def test_momentum_adds_up_and_cancels__but_not(snippet, options, fails):
    """Without momentum, steps neither grow nor shrink; with 0.8, they grow to
    5 times the first.
    """
    edited = with_momentum(snippet, options)
    fails(test_momentum_adds_up_and_cancels, edited)


@pytest.mark.parametrize("option", ['"nesterov": True', '"dampening": 0.5'])
def test_momentum_adds_up_and_cancels__ends_with(snippet, option, fails):
    """With `nesterov=True`: the first steps differ; with `dampening=0.5`:
    steps grow to 5 times only.
    """
    edited = with_momentum(snippet, f', "momentum": 0.9, {option}')
    fails(test_momentum_adds_up_and_cancels, edited)


def test_adam_moves_by_the_rate(snippet, size=2.0, rate=0.1, zeros=0):
    steady = [measured(snippet, "Adam", given) for given in (STEADY, LARGE)]
    gradients = [0.0] * zeros + [size] * 30
    steady.append(moves(snippet)(gradients, optim.Adam)[zeros:])
    for steps in steady:
        found = [abs(step) for step in steps]
        assert found == pytest.approx([rate] * len(steps), rel=1e-3)

    swings = moves(snippet)([size, -size] * 15, optim.Adam)
    for first, *others in (swings, measured(snippet, "Adam", SWINGING)):
        assert abs(first) == pytest.approx(rate, rel=1e-3)
        assert 0 < max(abs(step) for step in others) < rate / 2


@pytest.mark.parametrize("size", [1e-5, -0.7, 1e6])
def test_adam_moves_by_the_rate__also_for_size(snippet, size):
    test_adam_moves_by_the_rate(snippet, size)


@pytest.mark.parametrize("rate", [0.001, 3.0])
def test_adam_moves_by_the_rate__also_at_rate(snippet, rate):
    test_adam_moves_by_the_rate(at(snippet, rate), 2.0, rate)


def test_adam_moves_by_the_rate__also_in_float32(snippet):
    edited = snippet.edit("dtype=torch.float64", "dtype=torch.float32")
    test_adam_moves_by_the_rate(edited, 0.001)


@pytest.mark.parametrize("options", ["SGD", 'Adam, "eps": 1.0'])
def test_adam_moves_by_the_rate__but_not_with(snippet, options, fails):
    """A step of SGD is the rate times the gradient: here 0.2 and not 0.1; a
    large `eps` is added to the size, and makes steps shorter.
    """
    old = '"Adam": {"kind": torch.optim.Adam},\n}\ng'
    edited = snippet.edit(old, old.replace("optim.Adam", f"optim.{options}"))
    fails(test_adam_moves_by_the_rate, edited)


def test_adam_moves_by_the_rate__ends_near_eps(snippet, fails):
    """For gradients as small as `eps`, 1e-8: steps are half as long as the
    rate.
    """
    fails(test_adam_moves_by_the_rate, snippet, 1e-8)


@pytest.mark.parametrize("zeros", [100, 1000])
def test_adam_moves_by_the_rate__ends_after_gradients_of_0(
    snippet, zeros, fails
):
    """After many gradients of 0, as the row of a rare word gets: after 1,000
    of them, the next steps are 2.5 to 5 times as long as the rate.
    """
    fails(test_adam_moves_by_the_rate, snippet, 2.0, 0.1, zeros)


def test_groups_override_the_call(snippet, change=as_it_is):
    run = snippet.only("digits", "two-rates").after("two-rates")
    body, head = change(run.optimizer).param_groups

    assert (len(body.pop("params")), len(head.pop("params"))) == (4, 2)
    assert (body.pop("lr"), head.pop("lr")) == (0.0001, 0.001)
    defaults = dict(run.optimizer.defaults)
    del defaults["lr"]
    assert {name: body[name] for name in defaults} == defaults
    assert {name: head[name] for name in defaults} == defaults


TWO_RATES = "optimizer = torch.optim.AdamW(\n"


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
def test_groups_override_the_call__also_for(snippet, kind):
    edited = snippet.edit(TWO_RATES, TWO_RATES.replace("AdamW", kind))
    test_groups_override_the_call(edited)


def test_groups_override_the_call__also_for_every_option():
    """The first group names all options of AdamW, the second a few."""
    names = {"lr": 0.3, "betas": (0.5, 0.6), "eps": 1e-3, "weight_decay": 0.0}
    names |= {"amsgrad": True, "maximize": True, "foreach": False}
    few = {"weight_decay": 0.0, "betas": (0.7, 0.8)}
    call = {"lr": 0.2, "weight_decay": 0.7, "eps": 1e-4}

    one, other = torch.ones(1), torch.ones(1)
    groups = [{"params": [one], **names}, {"params": [other], **few}]
    optimizer = optim.AdamW(groups, **call)
    first, second = optimizer.param_groups
    assert {name: first[name] for name in names} == names
    expected = {**optimizer.defaults, **call, **few}
    assert {name: second[name] for name in expected} == expected


@pytest.mark.parametrize("change", ["0]['lr'] = 1.0", "1]['lr'] = 0.0001"])
def test_groups_override_the_call__but_not_after_a_change(
    snippet, change, fails
):
    """Change an option in `param_groups` later, and the group has the new
    value.
    """
    old = '{"params": head}], lr=0.001\n)\n'
    edited = snippet.edit(old, f"{old}optimizer.param_groups[{change}\n")
    fails(test_groups_override_the_call, edited)


def test_groups_override_the_call__ends_after_loading(snippet, fails):
    """After `load_state_dict`, each group has the options that were saved,
    also a rate.
    """

    def loaded(optimizer):
        params = [{"params": g["params"]} for g in optimizer.param_groups]
        before = type(optimizer)(params, lr=0.5)
        optimizer.load_state_dict(before.state_dict())
        return optimizer

    fails(test_groups_override_the_call, snippet, loaded)


def off(forecasts, rents):
    """Return by how many dollars forecasts are off, on average."""
    return (forecasts - rents).abs().mean().item()


def fitted(kind, inputs, targets, lr):
    """Fit a line with a loop that is not the page's."""
    torch.manual_seed(0)
    line = nn.Linear(1, 1)
    optimizer = kind(line.parameters(), lr=lr)
    for _ in range(300):
        loss = (line(inputs) - targets).square().mean()
        line.zero_grad()
        loss.backward()
        optimizer.step()
    return line(inputs).detach()


def standard(numbers):
    """Return numbers with mean 0 and standard deviation 1."""
    return (numbers - numbers.mean()) / numbers.std()


def test_sgd_ends_in_nan(snippet, momentum=0.0):
    run = after(snippet, "digits", "rents", "unscaled")
    sizes, rents = run.sizes, run.rents

    def sgd(given, **options):
        return optim.SGD(given, momentum=momentum, **options)

    default = optim.SGD([torch.ones(1)]).defaults["lr"]
    assert default == 0.001
    for fit in (run.fit, fitted):
        assert fit(sgd, sizes, rents, default).isnan().all()
        assert off(fit(sgd, standard(sizes), rents, 0.1), rents) < 50
    assert off(run.by_sgd, rents) < 50
    assert sizes.mean().item() == pytest.approx(70, abs=5)
    assert rents.mean().item() == pytest.approx(1350, abs=50)


def test_sgd_ends_in_nan__also_with_momentum(snippet):
    test_sgd_ends_in_nan(snippet, 0.9)


@edits(
    ("with small sizes", "sizes = 70 + 20 *", "sizes = 7 + 2 *"),
    ("for few steps", "range(300)", "range(3)"),
    (
        "with Adam",
        "fit(torch.optim.SGD, scaled(sizes)",
        "fit(torch.optim.Adam, scaled(sizes)",
    ),
)
def test_sgd_ends_in_nan__but_not(snippet, old, new, fails):
    """Sizes ten times as small have gradients a hundred times as small; three
    steps are too few for `nan`; and at a rate of 0.1, Adam does not get to
    the rents.
    """
    fails(test_sgd_ends_in_nan, snippet.edit(old, new))


def test_sgd_ends_in_nan__ends_if_gradients_are_clipped(snippet, fails):
    """If you clip the gradients, no `nan` comes, and the forecasts stay far
    off.
    """
    old = "F.mse_loss(model(inputs), targets).backward()\n"
    clip = "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    edited = snippet.edit(old, old + clip)
    run = after(edited, "digits", "rents")
    clipped = run.fit(optim.SGD, run.sizes, run.rents, 0.001)
    assert off(clipped, run.rents) > 1000
    fails(test_sgd_ends_in_nan, edited)


def test_few_steps_need_a_large_rate(snippet, factor=1):
    run = after(snippet, "digits", "rents", "too-far")
    sizes, rents = standard(run.sizes), factor * run.rents

    raw = run.fit(optim.Adam, sizes, rents, 0.01)
    assert raw.abs().max() < 15
    assert off(raw, rents) > 1_300 * factor
    forecasts = run.fit(optim.Adam, sizes, standard(rents), 0.01)
    forecasts = forecasts * rents.std() + rents.mean()
    by_sgd = fitted(optim.SGD, sizes, rents, 0.1)
    assert off(forecasts, rents) < 1.1 * off(by_sgd, rents)
    assert off(run.by_adam, run.rents) < 50


def test_few_steps_need_a_large_rate__also_for_larger_rents(snippet):
    test_few_steps_need_a_large_rate(snippet, 1000)


FITTED = "    optimizer = kind(model.parameters(), lr=lr)\n"


@edits(
    ("with SGD", FITTED, FITTED.replace("kind", "torch.optim.SGD")),
    ("at a rate of 10", FITTED, FITTED.replace("lr=lr", "lr=1000 * lr")),
)
def test_few_steps_need_a_large_rate__but_not(snippet, old, new, fails):
    """SGD's steps grow with the rents, and a rate of 10 is a longer step."""
    fails(test_few_steps_need_a_large_rate, snippet.edit(old, new))


def shares(snippet, name):
    """Return what a decay leaves of both weights, as a share."""
    run = after(snippet, "digits", "two-decays")
    pairs = zip(run.left[name], run.left["without decay"], strict=True)
    return [end / without for end, without in pairs]


def decayed_anew(kind, size):
    """Return a weight after 100 steps with a gradient that swings."""
    weight = torch.ones(1)
    optimizer = kind([weight], lr=0.02, weight_decay=0.1)
    for step in range(100):
        weight.grad = torch.full((1,), size if step % 2 == 0 else -size)
        optimizer.step()
    return weight.item()


def test_adam_divides_the_decay(snippet):
    small, large = shares(snippet, "Adam")

    assert abs(small) < 0.1
    assert 0.99 < large < 1
    anew = [decayed_anew(optim.Adam, size) for size in (0.01, 100.0)]
    left = after(snippet, "digits", "two-decays").left["Adam"]
    assert left == pytest.approx(anew, rel=1e-3, abs=1e-4)


@edits(
    ("two small gradients", "[0.01, 100.0]", "[0.01, 0.01]"),
    ("two large gradients", "[0.01, 100.0]", "[100.0, 100.0]"),
    (
        "AdamW",
        'torch.optim.Adam, "weight_decay": 0.1',
        'torch.optim.AdamW, "weight_decay": 0.1',
    ),
)
def test_adam_divides_the_decay__but_not_with(snippet, old, new, fails):
    """With two small gradients, it takes over nine tenths of both; with two
    large ones, hardly any; AdamW takes 18 % of each.
    """
    fails(test_adam_divides_the_decay, snippet.edit(old, new))


def test_adam_divides_the_decay__ends_if_it_is_decoupled(snippet, fails):
    """With `decoupled_weight_decay=True`, Adam decays as AdamW does."""
    old = '"Adam": {"kind": torch.optim.Adam, "weight_decay": 0.1}'
    new = old.replace(
        "torch.optim.Adam",
        "lambda w, **options: torch.optim.Adam("
        "w, decoupled_weight_decay=True, **options)",
    )
    fails(test_adam_divides_the_decay, snippet.edit(old, new))


def test_adamw_takes_the_same_share(snippet, decay=0.1):
    small, large = shares(snippet, "AdamW")

    assert small == pytest.approx(large, abs=1e-3)
    assert small == pytest.approx((1 - 0.02 * decay) ** 100, abs=1e-3)


ADAMW = 'torch.optim.AdamW, "weight_decay": 0.1'


def test_adamw_takes_the_same_share__also_for_other_gradients(snippet):
    edited = snippet.edit("[0.01, 100.0]", "[0.001, 1000.0]")
    test_adamw_takes_the_same_share(edited)


def test_adamw_takes_the_same_share__also_for_more_decay(snippet):
    edited = snippet.edit(ADAMW, ADAMW.replace("0.1", "0.5"))
    test_adamw_takes_the_same_share(edited, 0.5)


@edits(
    ("adam", ADAMW, ADAMW.replace("AdamW", "Adam")),
    ("no decay", "weight_decay=weight_decay)", "weight_decay=0.0)"),
)
def test_adamw_takes_the_same_share__but_not_with(snippet, old, new, fails):
    """Adam takes nearly all of one weight, and 0.2 % of the other; with a
    decay of 0, there is no share to take.
    """
    fails(test_adamw_takes_the_same_share, snippet.edit(old, new))


ONES = "w = torch.ones(2)\n    optimizer = kind([w], lr=0.02"
GRADS = "w.grad = torch.tensor(sizes) * (-1) ** step"


def test_adamw_takes_the_same_share__ends_at_another_rate(snippet, fails):
    """If one of the weights is in a group with a tenth of the rate, it decays
    by a tenth as much.
    """
    one, other = '{"params": [w[:1]]}', '{"params": [w[1:]], "lr": 0.002}'
    edited = snippet.edit(
        ONES,
        "w = torch.ones(2)\n"
        f"    groups = [{one}, {other}]\n"
        "    parts = [group['params'][0] for group in groups]\n"
        "    optimizer = kind(groups, lr=0.02",
    ).edit(
        GRADS,
        "for part, size in zip(parts, sizes):\n"
        "            part.grad = torch.tensor([size]) * (-1) ** step",
    )
    fails(test_adamw_takes_the_same_share, edited)


def test_adamw_takes_the_same_share__ends_in_bfloat16(snippet, fails):
    """With weights in `bfloat16`, nearly all of a factor such as 0.998 is
    rounded away.
    """
    edited = snippet.edit(ONES, ONES.replace("(2)", "(2).bfloat16()")).edit(
        GRADS, GRADS.replace("tensor(sizes)", "tensor(sizes).to(w)")
    )
    fails(test_adamw_takes_the_same_share, edited)


LATE = ("digits", "learn", "replaced")
NEW_HEAD = "model[3] = nn.Linear(32, 10)  # a new head\n"
MAKE = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"


def test_a_late_layer_is_not_trained(snippet, late="3"):
    with no_error():
        lost = dict(after(snippet, *LATE).lost)

    assert lost.pop(f"{late}.weight") == 0
    assert lost.pop(f"{late}.bias") == 0
    assert min(lost.values()) > 0


@edits(
    ("appended", NEW_HEAD, "model.append(nn.Linear(10, 10))\n"),
    ("in the middle", NEW_HEAD, "model[1] = nn.BatchNorm1d(32)\n"),
)
def test_a_late_layer_is_not_trained__also_if(snippet, old, new):
    late = "4" if "append" in new else "1"
    test_a_late_layer_is_not_trained(snippet.edit(old, new), late)


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "RMSprop"])
def test_a_late_layer_is_not_trained__also_by(snippet, kind):
    edited = snippet.edit(MAKE, MAKE.replace("SGD", kind))
    test_a_late_layer_is_not_trained(edited)


def test_a_late_layer_is_not_trained__but_not_before_the_optimizer(
    snippet, fails
):
    """If the head joins before the optimizer is made, it is trained."""
    edited = snippet.edit(MAKE + NEW_HEAD, NEW_HEAD + MAKE)
    fails(test_a_late_layer_is_not_trained, edited)


def test_a_late_layer_is_not_trained__ends_if_it_shares_a_weight(
    snippet, fails
):
    """A weight that the new layer shares with an old one is trained."""
    shared = (
        "head = nn.Linear(32, 10)\n"
        "head.weight = model[3].weight\n"
        "model[3] = head\n"
    )
    fails(test_a_late_layer_is_not_trained, snippet.edit(NEW_HEAD, shared))


@pytest.mark.parametrize("part", ["weight", "bias"])
def test_a_late_layer_is_not_trained__but_not_once_added(snippet, part, fails):
    """Handed to `add_param_group`, its weight or its bias is trained."""
    add = f'optimizer.add_param_group({{"params": model[3].{part}}})\n'
    edited = snippet.edit(NEW_HEAD, NEW_HEAD + add)
    fails(test_a_late_layer_is_not_trained, edited)


def test_an_added_layer_is_trained(snippet, options=None):
    run = after(snippet, *LATE, "added")
    first, second = run.optimizer.param_groups
    if schedule := getattr(run, "schedule", None):
        with no_error():
            schedule.step()

    assert min(run.found.values()) > 0
    expected = {**run.optimizer.defaults, **(options or {})}
    assert {name: second[name] for name in expected} == expected
    assert first["lr"] == 0.1


ADD = 'optimizer.add_param_group({"params": model[3].parameters()})\n'


def test_an_added_layer_is_trained__also_at_its_own_rate(snippet):
    edited = snippet.edit(ADD, ADD.replace("()})", '(), "lr": 0.5})'))
    test_an_added_layer_is_trained(edited, {"lr": 0.5})


def test_an_added_layer_is_trained__also_by_adamw(snippet):
    edited = snippet.edit(MAKE, MAKE.replace("SGD", "AdamW"))
    test_an_added_layer_is_trained(edited)


@pytest.mark.parametrize(
    "options",
    ["LambdaLR(optimizer, lambda n: 1.0", "OneCycleLR(optimizer, 0.1, 9"],
    ids=["LambdaLR", "OneCycleLR"],
)
def test_an_added_layer_is_trained__ends_after_a_schedule(
    snippet, options, fails
):
    """If a `LambdaLR` or `OneCycleLR` was made before: its next `step()`
    raises an error, because it knows nothing of the new group.
    """
    schedule = f"schedule = torch.optim.lr_scheduler.{options})\n"
    edited = snippet.edit(ADD, schedule + ADD)
    fails(test_an_added_layer_is_trained, edited)


@edits(
    ("the weight only", ADD, ADD.replace("parameters()", "weight")),
    ("the bias only", ADD, ADD.replace("parameters()", "bias")),
    ("a changed rate", ADD, f"{ADD}optimizer.param_groups[1]['lr'] = 0.5\n"),
)
def test_an_added_layer_is_trained__but_not_with(snippet, old, new, fails):
    """Only what you add learns, here the weight or the bias; and a rate set
    later replaces that of the call.
    """
    fails(test_an_added_layer_is_trained, snippet.edit(old, new))


def test_the_attribute_changes_nothing(snippet):
    with no_error():
        run = after(snippet, *LATE, "added", "attribute")

    assert run.optimizer.lr == 0
    for name, p in run.model.named_parameters():
        step = 0.1 * p.grad.abs().max().item()
        assert run.moving[name] == pytest.approx(step, rel=1e-3, abs=1e-7)
    assert min(run.moving.values()) > 0


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW])
@pytest.mark.parametrize("rate", [0.0, 5.0])
def test_the_attribute_changes_nothing__also_for(snippet, kind, rate):
    twins = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    for twin in twins:
        optimizer = kind([twin], lr=0.1)
        if twin is twins[0]:
            optimizer.lr = rate
        twin.grad = torch.ones(2)
        optimizer.step()

    assert twins[0].tolist() == twins[1].tolist() != [1, 1]


def test_the_attribute_changes_nothing__also_after_the_groups(snippet):
    """A rate of 0 in every group stops the model, which the attribute does
    not.
    """
    names = (*LATE, "added", "attribute", "every-group")
    run = after(snippet, *names)

    assert set(run.resting.values()) == {0}
    assert all(p.grad.any() for p in run.model.parameters())


@pytest.mark.parametrize("index", [0, 1])
def test_the_attribute_changes_nothing__but_not_in_a_group(
    snippet, index, fails
):
    """Set to 0 in one of the `param_groups`, the rate keeps the parameters of
    that group where they are.
    """
    edited = snippet.edit(
        "optimizer.lr = 0.0",
        f'optimizer.lr = optimizer.param_groups[{index}]["lr"] = 0.0',
    )
    fails(test_the_attribute_changes_nothing, edited)


DEFAULT_RATES = {"SGD": 0.001, "Adam": 0.001, "AdamW": 0.001}
DEFAULT_RATES |= {"Adagrad": 0.01, "RMSprop": 0.01, "Adadelta": 1, "LBFGS": 1}


def test_every_optimizer_has_a_default_rate(snippet):
    every = vars(after(snippet, "digits").torch.optim)
    rates = {
        name: kind([torch.zeros(2, 2)]).defaults.get("lr")
        for name, kind in every.items()
        if name[0].isupper() and name != "Optimizer"
    }

    assert {name: rates[name] for name in DEFAULT_RATES} == DEFAULT_RATES
    assert None not in rates.values()


@pytest.mark.parametrize(
    "change",
    [
        "SGD=torch.optim.Adagrad",
        "LBFGS=torch.optim.SGD",
        "Own=lambda p: torch.optim.Optimizer(p, {})",
    ],
)
def test_every_optimizer_has_a_default_rate__but_not_one_for_all(
    snippet, change, fails
):
    """Each edit puts an optimizer with another default, or with none, in place
    of one of these or beside them.
    """
    line = "import torch\nfrom sklearn"
    edited = snippet.edit(
        line,
        "import torch\n"
        "from types import SimpleNamespace\n"
        f"optim = {{**vars(torch.optim), **dict({change})}}\n"
        "torch = SimpleNamespace(**vars(torch))\n"
        "torch.optim = SimpleNamespace(**optim)\n"
        "from sklearn",
    )
    fails(test_every_optimizer_has_a_default_rate, edited)
