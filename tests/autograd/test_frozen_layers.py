"""The claims of docs/autograd/frozen_layers.md."""

import inspect

import pytest
import torch
from torch import nn, optim

from extensions.evidence.counterexamples import edits, no_error

APARTMENTS = torch.linspace(0, 1, 16).reshape(8, 2)


NO_MEMORY = ["SGD", "Rprop", "RMSprop", "Adagrad", "Adadelta", "Adafactor"]


FOLLOWS = ["SGD, momentum", "Adam", "AdamW", "Adamax", "NAdam", "RAdam"]


OPTIONS = {
    "weight_decay": 0.1,
    "momentum": 0.9,
    "amsgrad": True,
    "centered": True,
    "maximize": True,
    "foreach": True,
    "fused": True,
}


# Every optimizer of torch.optim but LBFGS, with each of the options it takes.
NAMES = [
    name
    for name, each in vars(optim).items()
    if inspect.isclass(each) and issubclass(each, optim.Optimizer)
    if name not in {"Optimizer", "LBFGS"}
]


CHOICES = [
    (name, dict([option] if option else []))
    for name in NAMES
    for option in (None, *OPTIONS.items())
    if not option
    or option[0] in inspect.signature(getattr(optim, name)).parameters
]


def seed():
    """Make what is random repeat; ``torch.manual_seed`` is slow."""
    torch.default_generator.manual_seed(0)


def network(name):
    """Return two layers that an optimizer takes, and their loss."""
    seed()
    if name == "SparseAdam":
        first, second = (nn.Embedding(8, 4, sparse=True) for _ in range(2))
        rows = torch.arange(8)
        return first, second, lambda: (first(rows) * second(rows)).mean()
    plain = name == "Muon"  # which takes matrices alone
    first = nn.Sequential(nn.Linear(2, 6, bias=not plain), nn.Tanh())
    second = nn.Linear(6, 1, bias=not plain)
    return (
        first,
        second,
        lambda: (second(first(APARTMENTS)) - 1).square().mean(),
    )


def stepper(optimizer, loss):
    """Return a function that takes one step, as LBFGS needs it too."""

    def closure():
        value = loss()
        value.backward()
        return value

    return lambda: optimizer.step(closure)


def held(*layers):
    return [each for layer in layers for each in layer.parameters()]


def copies(tensors):
    """Return the numbers of tensors, which later writes do not change."""
    return [each.detach().clone() for each in tensors]


def same(tensors, others):
    pairs = zip(tensors, others, strict=True)
    return all(torch.equal(each, other) for each, other in pairs)


def one_of_each():
    """Return a layer of which each kind can be frozen, and its inputs."""
    layer = nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)),
        nn.Conv2d(1, 2, 3, padding=1),
        nn.BatchNorm2d(2),
        nn.Flatten(),
        nn.Linear(32, 6),
        nn.BatchNorm1d(6),
    )
    return layer, torch.rand(8, 16)


NAMED = {"SGD", "Adam", "AdamW"}


WITH_MOMENTUM = [("SGD", {"momentum": 0.9, "weight_decay": 0.1})]


@pytest.mark.parametrize(
    "choices",
    [WITH_MOMENTUM + [each for each in CHOICES if each[0] in NAMED]],
    ids=["each"],
)
def test_a_frozen_layer_stays(snippet, choices):
    run = snippet.after("gradients")
    assert all(each.grad is None for each in held(run.encoder))
    assert all(each.grad is not None for each in held(run.head))
    for name, options in choices:
        seed()
        (first, inputs), second = one_of_each(), nn.Linear(6, 1)
        optimizer = getattr(optim, name)(held(first, second), **options)
        step = stepper(
            optimizer,
            lambda: (second(first(inputs)) - 1).square().mean(),  # noqa: B023
        )
        step()
        step()
        moving = copies(held(second))

        run.freeze(first)
        before = copies(first.state_dict().values())
        step()
        step()

        assert same(before, first.state_dict().values()), (name, options)
        assert not same(moving, held(second))


def test_a_frozen_layer_stays__also_under_all_others(snippet):
    run = snippet.after("freeze")
    for name in sorted({*NAMES} - NAMED):
        first, second, loss = network(name)
        step = stepper(getattr(optim, name)(held(first, second)), loss)
        step()

        run.freeze(first)
        before = copies(held(first))
        step()

        assert same(before, held(first)), name


def test_a_frozen_layer_stays__also_as_six_other_layers(snippet):
    run = snippet.after("freeze")
    for layer in (
        nn.Conv1d(1, 2, 3),
        nn.Conv3d(1, 2, 3),
        nn.ConvTranspose1d(1, 2, 3),
        nn.BatchNorm3d(1, affine=False),
        nn.BatchNorm1d(1, momentum=None),
        nn.Linear(5, 2, dtype=torch.float64),
    ):
        volume = "3d" in type(layer).__name__
        inputs = torch.rand(4, 1, 5, 5, 5) if volume else torch.rand(4, 1, 5)
        inputs = inputs.double() if isinstance(layer, nn.Linear) else inputs
        scale = nn.Parameter(torch.ones(1))
        optimizer = optim.AdamW([*layer.parameters(), scale])
        step = stepper(
            optimizer,
            lambda: (scale * layer(inputs)).square().mean(),  # noqa: B023
        )
        step()

        run.freeze(layer)
        before = copies(layer.state_dict().values())
        step()

        assert same(before, layer.state_dict().values()), layer


def test_a_frozen_layer_stays__ends_with_lbfgs(snippet, fails):
    """LBFGS takes `None` for zeros and goes on along its earlier steps."""
    fails(test_a_frozen_layer_stays, snippet, [("LBFGS", {})])


OF_THE_LAYER = "for n, p in layer.named_parameters()"


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("layer.requires_grad_(False)", "layer.requires_grad_(True)"),
        (
            "layer.requires_grad_(False)",
            f"[p.requires_grad_('bias' in n) {OF_THE_LAYER}]",
        ),
        (
            "layer.requires_grad_(False)",
            f"[p.requires_grad_('weight' in n) {OF_THE_LAYER}]",
        ),
        (
            "layer.requires_grad_(False)",
            f"[p.requires_grad_(p.dim() == 2) {OF_THE_LAYER}]",
        ),
        (
            "layer.requires_grad_(False)",
            f"[p.requires_grad_(p.dim() == 4) {OF_THE_LAYER}]",
        ),
        ("layer.zero_grad()", "layer.zero_grad(set_to_none=False)"),
        ("layer.zero_grad()", "layer.parameters()"),
        ("layer.eval()", "layer.eval().train()"),
    ],
    ids=[
        "if it still learns",
        "with biases on",
        "with weights on",
        "with a linear layer on",
        "with a convolution on",
        "with zeros",
        "with old gradients",
        "after train",
    ],
)
def test_a_frozen_layer_stays__but_not(snippet, line, instead, fails):
    """Each edit leaves out one part of `freeze`: parameters still learn, a
    gradient is left over, or BatchNorm keeps updating.
    """
    edited = snippet.edit(f"{line}  #", f"{instead}  #")
    fails(test_a_frozen_layer_stays, edited, [("AdamW", {})])


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(6, 1),
        lambda: nn.BatchNorm1d(6),
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2)
        ),
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2)
        ),
    ],
    ids=["linear", "BatchNorm", "Conv1d", "Conv2d"],
)
def test_a_frozen_layer_lets_gradients_through(snippet, make):
    run = snippet.after("freeze")
    encoder = run.encoder.requires_grad_(True)
    for dtype in (torch.float32, torch.float64):
        head = make().to(dtype)
        encoder.to(dtype).zero_grad()

        run.freeze(head)
        outputs = head(encoder(run.apartments.to(dtype)))
        weights = torch.linspace(1, 2, outputs.numel(), dtype=dtype)
        (outputs.flatten() @ weights).backward()

        assert all(each.grad.abs().sum() > 0 for each in held(encoder))
        assert all(each.grad is None for each in held(head))


def test_a_frozen_layer_lets_gradients_through__but_not_a_cut(snippet, fails):
    """A layer whose output is replaced by a constant passes no gradient
    back.
    """
    edited = snippet.edit(
        "layer.requires_grad_(False)  #",
        "layer.register_forward_hook(lambda *all: 0 * all[2] + 1)  #",
    )
    fails(
        test_a_frozen_layer_lets_gradients_through,
        edited,
        lambda: nn.Linear(6, 1),
    )


def statistics(norm):
    return copies([norm.running_mean, norm.running_var])


def test_train_undoes_a_freeze(snippet):
    run = snippet.after("gradients")
    [norm] = [each for each in run.encoder if isinstance(each, nn.BatchNorm1d)]
    frozen, weights = statistics(norm), copies(held(run.encoder))
    run.model(run.apartments)
    assert same(statistics(norm), frozen)

    run.model.train()
    run.model(run.apartments)
    moved = statistics(norm)
    assert not any(map(torch.equal, moved, frozen))
    assert same(held(run.encoder), weights)  # train() turns on no gradients
    assert not any(each.requires_grad for each in held(run.encoder))

    run.freeze(run.encoder)
    run.model(run.apartments)
    assert same(statistics(norm), moved)


def test_train_undoes_a_freeze__also_once_on_the_page(snippet):
    first, second = snippet.after("gradients"), snippet.after("train-again")
    before, after = (statistics(each.encoder[1]) for each in (first, second))

    assert not any(map(torch.equal, before, after))
    assert int(second.encoder[1].num_batches_tracked) == 1
    assert not second.encoder[1].training


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("layer.eval()  #", "layer.train()  #"),
        ("nn.BatchNorm1d(6)", "nn.BatchNorm1d(6, momentum=0.0)"),
        (
            "def freeze(layer):",
            "def freeze(layer):\n    layer.train = lambda mode=True: layer",
        ),
    ],
    ids=["without eval", "with a momentum of zero", "with train switched off"],
)
def test_train_undoes_a_freeze__but_not(snippet, old, new, fails):
    """A BatchNorm that never stopped, or that cannot move, is not turned on
    again by `train()`.
    """
    fails(test_train_undoes_a_freeze, snippet.edit(old, new))


@pytest.mark.parametrize("choices", [CHOICES], ids=["each"])
def test_none_is_skipped(snippet, choices):
    run = snippet.after("ways")
    for name, options in choices:
        first, second, loss = network(name)
        optimizer = getattr(optim, name)(held(first, second), **options)
        step = stepper(optimizer, loss)
        step()
        run.ways["None"](optimizer)
        before, moving = copies(held(first)), copies(held(second))

        # As behind a cut: only the second layer gets a gradient.
        first.requires_grad_(False)
        step()

        assert same(before, held(first)), (name, options)
        assert not same(moving, held(second))


def test_none_is_skipped__ends_for_lbfgs(snippet, fails):
    """For LBFGS: to it, `None` is a gradient of zero, and it moves the
    layer.
    """
    fails(test_none_is_skipped, snippet, [("LBFGS", {})])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9}),
        ("SGD", {"weight_decay": 0.1}),
        ("RMSprop", {"momentum": 0.9}),
        ("Adam", {}),
    ],
)
def test_none_is_skipped__but_zeros_are_not(snippet, name, options, fails):
    """Zeros instead of `None`, and momentum, Adam or weight decay move the
    layer.
    """
    edited = snippet.edit(
        '"None": lambda optimizer: optimizer.zero_grad()',
        '"None": lambda optimizer: optimizer.zero_grad(set_to_none=False)',
    )
    fails(test_none_is_skipped, edited, [(name, options)])


@pytest.mark.parametrize("name", ["SGD", "Adam", "LBFGS", "SparseAdam"])
def test_zero_grad_leaves_none(snippet, name, given=held):
    run = snippet.after("ways")
    for way, clears in (("None", True), ("zeros", False)):
        first, second, loss = network(name)
        optimizer = getattr(optim, name)(given(first, second))
        run.ways[way](optimizer)
        assert all(each.grad is None for each in held(first, second))
        loss().backward()
        assert all(each.grad is not None for each in held(first, second))

        run.ways[way](optimizer)

        for each in held(first, second):
            assert (each.grad is None) == clears
            assert clears or each.grad.to_dense().count_nonzero() == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("optimizer.zero_grad(),", "optimizer.zero_grad(False),"),
        ("optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad()"),
        ("optimizer.zero_grad(set_to_none=False)", "None"),
    ],
    ids=["told to leave zeros", "told nothing", "not called"],
)
def test_zero_grad_leaves_none__but_not_if(snippet, old, new, fails):
    """With `set_to_none` the other way around, or no call at all, something
    else is left.
    """
    fails(test_zero_grad_leaves_none, snippet.edit(old, new), "SGD")


def test_zero_grad_leaves_none__ends_with_what_is_left_out(snippet, fails):
    """The gradient of a layer that the optimizer does not hold stays, and adds
    up: call `model.zero_grad()`.
    """

    def given(first, second):
        return held(second)

    fails(test_zero_grad_leaves_none, snippet, "SGD", given)


def test_zero_grad_leaves_none__also_of_a_module():
    for options in ({}, {"set_to_none": False}):
        layer = nn.Linear(2, 1)
        layer(APARTMENTS).sum().backward()
        layer.zero_grad(**options)
        for each in held(layer):
            assert (each.grad is None) == (not options)
            assert not options or each.grad.count_nonzero() == 0


def make(name, **options):
    """Return what makes an optimizer of parameters."""
    return lambda parameters: getattr(optim, name)(parameters, **options)


def with_maker(snippet, name, text):
    """Return the snippet with another optimizer under a name."""
    line = f'makers["{name}"] = lambda p: optim.{text}'
    return snippet.edit("# %% ways", f"{line}\n\n# %% ways")


def only_zeros_stay(maker):
    """Tell whether just the numbers with a gradient of zero stay."""
    seed()
    weight = nn.Parameter(torch.rand(4, 3))
    optimizer = maker([weight])
    for _ in range(3):
        weight.grad = torch.rand(4, 3)
        optimizer.step()
    before = weight.detach().clone()
    weight.grad = torch.tensor([[0.0], [1], [0], [2]]).expand(4, 3).clone()
    optimizer.step()
    stays = torch.tensor([[True], [False], [True], [False]]).expand(4, 3)
    return torch.equal(weight == before, stays)


def left_by(run, way):
    """Return a gradient, and what a way to clear leaves of it."""
    layer = nn.Linear(2, 1)
    layer(APARTMENTS).sum().backward()
    gradient = layer.weight.grad.clone()
    run.ways[way](optim.SGD(layer.parameters()))
    return gradient, layer.weight.grad


def no_gradient_arrives(run):
    """Check that in the trial no new gradient arrives behind the cut."""
    given = []

    def maker(parameters):
        given.extend(parameters)
        return optim.Adam(parameters)

    moved = run.moved(maker, run.ways["None"])
    assert moved == "stays"
    missing = [each.grad is None for each in given]
    assert missing == [True, True, False, False]


def test_zeros_stay_without_a_memory(snippet):
    run = snippet.after("ways")

    assert set(NO_MEMORY) <= set(run.makers)
    for name in NO_MEMORY:
        maker = run.makers[name]
        moved = run.moved(maker, run.ways["zeros"])
        assert moved == "stays", name
        assert only_zeros_stay(maker), name


def test_zeros_stay_without_a_memory__also_with_options_that_keep_no_memory(
    snippet,
):
    run = snippet.after("ways")
    for name, options in CHOICES:
        if name in NO_MEMORY and not {"weight_decay", "momentum"} & set(
            options
        ):
            moved = run.moved(make(name, **options), run.ways["zeros"])
            assert moved == "stays", (name, options)
            assert only_zeros_stay(make(name, **options)), (name, options)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("SGD", "momentum=0.9"),
        ("RMSprop", "momentum=0.9"),
        ("SGD", "weight_decay=0.1"),
        ("RMSprop", "weight_decay=0.1"),
        ("Adagrad", "weight_decay=0.1"),
        ("Adadelta", "weight_decay=0.1"),
        ("Adafactor", "weight_decay=0.1"),
    ],
    ids=[
        "SGD with momentum",
        "RMSprop with momentum",
        "SGD with decay",
        "RMSprop with decay",
        "Adagrad with decay",
        "Adadelta with decay",
        "Adafactor with decay",
    ],
)
def test_zeros_stay_without_a_memory__but_not(snippet, name, option, fails):
    """With momentum or weight decay switched on, zeros do not hold the
    layer.
    """
    edited = with_maker(snippet, name, f"{name}(p, {option})")
    fails(test_zeros_stay_without_a_memory, edited)


def test_zeros_stay_without_a_memory__but_not_old_gradients(snippet, fails):
    """If nothing clears the old gradients, they are applied again."""
    edited = snippet.edit(
        "lambda optimizer: optimizer.zero_grad(set_to_none=False)",
        "lambda optimizer: None",
    )
    fails(test_zeros_stay_without_a_memory, edited)


def test_zeros_stay_without_a_memory__ends_in_float16(snippet, fails):
    """In `float16`, RMSprop and Adagrad turn a layer that was never trained
    into `nan`: their `eps` rounds to 0, and 0 divided by 0 is no number.
    """
    edited = (
        snippet.edit(
            "def moved(",
            "apartments = apartments.half()\n"
            "prices = prices.half()\n\n\ndef moved(",
        )
        .edit(
            "nn.Linear(2, 6), nn.Linear(6, 1)\n    optimizer",
            "nn.Linear(2, 6).half(), nn.Linear(6, 1).half()\n    optimizer",
        )
        .edit("    optimizer.step()\n    clear", "    clear")
    )
    fails(test_zeros_stay_without_a_memory, edited)


def test_past_gradients_move_a_layer(snippet):
    run = snippet.after("ways")

    for name in FOLLOWS:
        moved = run.moved(run.makers[name], run.ways["zeros"])
        assert moved == "weight and bias", name
    gradient, left = left_by(run, "zeros")
    assert torch.equal(left, torch.zeros_like(gradient))
    no_gradient_arrives(run)


def test_past_gradients_move_a_layer__also_with_their_other_options(
    snippet,
):
    run = snippet.after("ways")
    choices = [each for each in CHOICES if each[0] in FOLLOWS]
    choices += [
        ("AdamW", {"weight_decay": 0}),
        ("SGD", {"momentum": 0.5, "nesterov": True}),
        ("RMSprop", {"momentum": 0.9}),
    ]
    for name, options in choices:
        moved = run.moved(make(name, **options), run.ways["zeros"])
        assert moved == "weight and bias", (name, options)


@pytest.mark.parametrize("steps", [2, 10])
@pytest.mark.parametrize("size", [1, 40])
def test_past_gradients_move_a_layer__also_after(snippet, steps, size):
    makers = snippet.after("ways").makers
    for name in FOLLOWS:
        layer = nn.Linear(size, 3)
        optimizer = makers[name](layer.parameters())
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=False)
            (layer(torch.rand(8, size)) - 1).square().sum().backward()
            optimizer.step()
        before = copies(held(layer))
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()

        for each, old in zip(held(layer), before, strict=True):
            assert (each != old).any(), name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SGD, momentum", "SGD(p, momentum=0.0)"),
        ("Adam", "Adam(p, betas=(0.0, 0.999))"),
        ("AdamW", "AdamW(p, betas=(0.0, 0.999), weight_decay=0)"),
        ("Adamax", "Adamax(p, betas=(0.0, 0.999))"),
        ("NAdam", "NAdam(p, betas=(0.0, 0.999))"),
        ("RAdam", "RAdam(p, betas=(0.0, 0.999))"),
    ],
)
def test_past_gradients_move_a_layer__but_not_with_a_memory_of_zero(
    snippet, name, text, fails
):
    """With a momentum or `beta1` of 0, there are no past gradients to
    follow.
    """
    edited = with_maker(snippet, name, text)
    fails(test_past_gradients_move_a_layer, edited)


def test_past_gradients_move_a_layer__but_not_once_set_to_none(snippet, fails):
    """`zero_grad()` leaves `None`, and the layer stays."""
    edited = snippet.edit("zero_grad(set_to_none=False)", "zero_grad()")
    fails(test_past_gradients_move_a_layer, edited)


def test_past_gradients_move_a_layer__but_old_ones_are_not_zeros(
    snippet, fails
):
    """If nothing is cleared, `.grad` holds the old gradient, not zeros."""
    edited = snippet.edit(
        "lambda optimizer: optimizer.zero_grad(set_to_none=False)",
        "lambda optimizer: None",
    )
    fails(test_past_gradients_move_a_layer, edited)


def test_past_gradients_move_a_layer__but_not_if_there_was_no_step(
    snippet, fails
):
    """If the layer was never trained, there is nothing to follow."""
    edited = snippet.edit("    optimizer.step()\n    clear", "    clear")
    fails(test_past_gradients_move_a_layer, edited)


def test_past_gradients_move_a_layer__ends_after_hundreds_of_zeros(
    snippet, fails
):
    """Each step with zeros shrinks what the optimizer remembers: after 500 of
    them, only weight decay still moves the layer.
    """
    edited = snippet.edit(
        '"zeros": lambda optimizer: optimizer.zero_grad(set_to_none=False)',
        '"zeros": lambda optimizer: [(optimizer.zero_grad(set_to_none=False),'
        " optimizer.step()) for _ in range(500)]",
    )
    fails(test_past_gradients_move_a_layer, edited)


@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_past_gradients_move_a_layer__but_not_what_is_left_out(
    snippet, kind, fails
):
    """A parameter that the optimizer does not hold stays."""
    edited = snippet.edit(
        "make([*encoder.parameters(),", f"make([encoder.{kind},"
    )
    fails(test_past_gradients_move_a_layer, edited)


DECAYING = [
    (name, {**options, "weight_decay": 0.1})
    for name, options in CHOICES
    if "weight_decay" in inspect.signature(getattr(optim, name)).parameters
]


# What has it on by default; Muon is new in torch 2.9.
ON_BY_DEFAULT = {"AdamW": "weight_decay", "ASGD": "lambd"}
if "Muon" in NAMES:
    ON_BY_DEFAULT["Muon"] = "weight_decay"


DECAYING += [(name, {}) for name in ON_BY_DEFAULT]


@pytest.mark.parametrize("choices", [DECAYING], ids=["each"])
def test_weight_decay_needs_no_gradient(snippet, choices, dtype=torch.float32):
    run = snippet.after("ways")
    moved = run.moved(run.makers["SGD, weight decay"], run.ways["zeros"])
    assert moved == "weight and bias"
    no_gradient_arrives(run)
    for name, options in choices:
        seed()
        layer = nn.Linear(2, 6, bias=name != "Muon", dtype=dtype)
        optimizer = getattr(optim, name)(layer.parameters(), **options)
        for each in layer.parameters():
            each.grad = torch.zeros_like(each)
        before = copies(layer.parameters())

        optimizer.step()

        # A large step may go past zero, but its direction is that of zero.
        for each, old in zip(layer.parameters(), before, strict=True):
            assert ((each - old).sign() == -old.sign()).all(), name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *[(name, {option: 0}) for name, option in ON_BY_DEFAULT.items()],
        ("SGD", {"weight_decay": 0}),
        ("Adam", {}),
    ],
)
def test_weight_decay_needs_no_gradient__ends_without_decay(
    snippet, name, options, fails
):
    """With a weight decay of 0, as it is in Adam by default: the layer
    stays.
    """
    fails(test_weight_decay_needs_no_gradient, snippet, [(name, options)])


def test_weight_decay_needs_no_gradient__ends_at_a_tiny_learning_rate(
    snippet, fails
):
    """AdamW multiplies by 1 - lr * 0.01: at a learning rate of 1e-6, that
    rounds to 1 in `float32`, and the layer stays.
    """
    choices = [("AdamW", {"lr": 1e-6})]
    fails(test_weight_decay_needs_no_gradient, snippet, choices)


def test_weight_decay_needs_no_gradient__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`, the decay of AdamW is lost in rounding at its default
    learning rate already.
    """
    choices, dtype = [("AdamW", {})], torch.bfloat16
    fails(test_weight_decay_needs_no_gradient, snippet, choices, dtype)


def test_weight_decay_needs_no_gradient__but_not_at_zero(snippet, fails):
    """With `weight_decay=0.0`, SGD leaves the layer as it is."""
    edited = snippet.edit("weight_decay=0.1", "weight_decay=0.0")
    fails(test_weight_decay_needs_no_gradient, edited, [("AdamW", {})])


def test_an_old_gradient_is_applied_again(snippet):
    run = snippet.after("ways")

    assert set(run.makers) == {
        *NO_MEMORY,
        *FOLLOWS,
        "SGD, weight decay",
        "ASGD",
    }
    for name, maker in run.makers.items():
        moved = run.moved(maker, run.ways["old gradient"])
        assert moved == "weight and bias", name
    gradient, left = left_by(run, "old gradient")
    assert torch.equal(left, gradient)
    no_gradient_arrives(run)


def test_an_old_gradient_is_applied_again__also_by_all_others():
    for name, options in [*CHOICES, ("LBFGS", {})]:
        first, second, loss = network(name)
        optimizer = getattr(optim, name)(held(first, second), **options)
        step = stepper(optimizer, loss)
        step()
        before = copies(held(first))

        # As behind a cut: only the second layer gets a gradient.
        first.requires_grad_(False)
        step()

        for each, old in zip(held(first), before, strict=True):
            assert not torch.equal(each, old), (name, options)


def test_an_old_gradient_is_applied_again__also_at_five_steps(snippet):
    for name, maker in snippet.after("ways").makers.items():
        layer = nn.Linear(2, 6)
        optimizer = maker(layer.parameters())
        (layer(APARTMENTS) - 1).square().sum().backward()
        for _ in range(5):
            before = copies(held(layer))
            optimizer.step()
            assert not any(map(torch.equal, before, held(layer))), name


def test_an_old_gradient_is_applied_again__but_not_through_a_leak(
    snippet, fails
):
    """Without the cut, a new gradient arrives and is added."""
    edited = snippet.edit(
        "head(encoder(apartments).detach())", "head(encoder(apartments))"
    )
    fails(test_an_old_gradient_is_applied_again, edited)


@pytest.mark.parametrize(
    "instead", ["optimizer.zero_grad()", "optimizer.zero_grad(False)"]
)
def test_an_old_gradient_is_applied_again__but_not_once_cleared(
    snippet, instead, fails
):
    """`zero_grad()` removes the old gradient."""
    edited = snippet.edit(
        '"old gradient": lambda optimizer: None',
        f'"old gradient": lambda optimizer: {instead}',
    )
    fails(test_an_old_gradient_is_applied_again, edited)


@pytest.mark.parametrize("name", NO_MEMORY)
def test_an_old_gradient_is_applied_again__but_not_at_a_rate_of_zero(
    snippet, name, fails
):
    """At a learning rate of 0 nothing moves, whatever `.grad` holds."""
    options = {"Rprop": "lr=0, step_sizes=(0, 0)"}.get(name, "lr=0")
    edited = with_maker(snippet, name, f"{name}(p, {options})")
    fails(test_an_old_gradient_is_applied_again, edited)


@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_an_old_gradient_is_applied_again__but_not_if_left_out(
    snippet, kind, fails
):
    """A parameter that the optimizer does not hold stays."""
    edited = snippet.edit(
        "make([*encoder.parameters(),", f"make([encoder.{kind},"
    )
    fails(test_an_old_gradient_is_applied_again, edited)


def test_what_is_left_out_stays(snippet):
    start, end = snippet.after("train-again"), snippet.after("leave-out")
    assert all(each.grad is not None for each in held(end.encoder))
    before, after = (
        [each.tolist() for each in held(part.encoder)] for part in (start, end)
    )
    assert after == before
    assert not same(held(start.head), held(end.head))


def test_what_is_left_out_stays__also_of_each_optimizer():
    for name in (*NAMES, "LBFGS"):
        first, second, loss = network(name)
        step = stepper(getattr(optim, name)(held(second)), loss)
        before, moving = copies(held(first)), copies(held(second))

        for _ in range(3):
            step()

        assert all(each.grad is not None for each in held(first))
        assert same(before, held(first)), name
        assert not same(moving, held(second))


def test_what_is_left_out_stays__ends_with_shared_memory(snippet, fails):
    """A new `Parameter` of the same memory is another parameter: the step that
    moves it moves the one that was left out.
    """
    edited = snippet.edit(
        "optimizer = optim.AdamW(head.parameters())",
        "shared = encoder[0].weight.view(-1)[:6].view(1, 6)\n"
        "head.weight = nn.Parameter(shared)\n"
        "optimizer = optim.AdamW(head.parameters())",
    )
    fails(test_what_is_left_out_stays, edited)


@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_what_is_left_out_stays__but_not_if_held_after_all(
    snippet, kind, fails
):
    """Give the optimizer one parameter of the encoder, and it moves."""
    edited = snippet.edit(
        "optim.AdamW(head.parameters())",
        f"optim.AdamW([*head.parameters(), encoder[0].{kind}])",
    )
    fails(test_what_is_left_out_stays, edited)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.BatchNorm1d, (8, 2)),
        (nn.BatchNorm2d, (8, 2, 3, 3)),
        (nn.BatchNorm3d, (8, 2, 3, 3, 3)),
    ],
)
@pytest.mark.parametrize("grad", [True, False])
def test_batch_norm_moves_until_eval(snippet, layer, shape, grad):
    run = snippet.after("batch-norm")
    # One pass in training mode, and none after it.
    assert not any(each.requires_grad for each in held(run.norm))
    mean, var = run.apartments.mean(dim=0), run.apartments.var(dim=0)
    torch.testing.assert_close(run.norm.running_mean, 0.1 * mean)
    torch.testing.assert_close(run.norm.running_var, 0.9 + 0.1 * var)

    torch.manual_seed(0)
    norm = layer(2).requires_grad_(False)
    with torch.set_grad_enabled(grad):
        begin = copies([norm.running_mean, norm.running_var])
        norm(torch.rand(shape))
        middle = copies([norm.running_mean, norm.running_var])
        norm.eval()
        norm(torch.rand(shape))

    assert not any(map(torch.equal, begin, middle))
    assert same(middle, [norm.running_mean, norm.running_var])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("norm = nn.BatchNorm1d(2)", "norm = nn.BatchNorm1d(2, momentum=0.0)"),
        ("norm.eval()", "norm.running_mean.zero_()\nnorm.eval()"),
        ("norm.eval()", "norm.running_var.fill_(1)\nnorm.eval()"),
        ("norm.eval()\n", ""),
        (
            "requires_grad_(False)\nnorm(apartments)",
            "eval()\nnorm(apartments)",
        ),
    ],
)
def test_batch_norm_moves_until_eval__but_not_if_kept_from_it(
    snippet, old, new, fails
):
    """Each edit writes the statistics by hand, stops them with `momentum=0.0`,
    or moves `eval()`.
    """
    edited = snippet.edit(old, new)
    fails(
        test_batch_norm_moves_until_eval, edited, nn.BatchNorm1d, (8, 2), True
    )


def test_batch_norm_moves_until_eval__also_if_its_weight_stays(snippet):
    run = snippet.after("norm-in-training")

    assert run.layer.weight.tolist() == [1, 1]
    assert not run.layer.weight.requires_grad
    assert run.layer.running_mean.count_nonzero() == 2


def test_an_lstm_in_training_mode(snippet, off_by=1e-6):
    with no_error():
        run = snippet.after("freeze-lstm")

    assert run.lstm.training
    assert all(each.grad is None for each in held(run.lstm))
    assert (run.trained - run.evaluated).abs().max() <= off_by
    assert run.inputs.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "kind", ["RNN", "GRU", "LSTM"], ids="a bidirectional {}".format
)
def test_an_lstm_in_training_mode__also_as(snippet, kind):
    made = "nn.LSTM(2, 6, num_layers=2, dropout=0.5"
    other = made.replace("LSTM", kind) + ", bidirectional=True"
    test_an_lstm_in_training_mode(snippet.edit(made, other))


@edits(
    ("with its dropout", "lstm.dropout = 0.0", "lstm.dropout"),
    ("if it still learns", "freeze(lstm)", "lstm.eval()"),
    ("in evaluation mode", "lstm.train()", "lstm.eval()"),
    (
        "under no_grad()",
        "trained, _ = lstm",
        "trained, _ = torch.no_grad()(lstm)",
    ),
)
def test_an_lstm_in_training_mode__but_not(snippet, old, new, fails):
    """With dropout the outputs differ, without `freeze` the weights get
    gradients, and under `no_grad()` nothing gets any.
    """
    fails(test_an_lstm_in_training_mode, snippet.edit(old, new))


def on_cuda(snippet):
    made = "lstm = nn.LSTM(2, 6, num_layers=2, dropout=0.5)"
    moved = 'apartments = apartments.to("cuda")\n' + made + '.to("cuda")'
    return snippet.edit(made, moved)


@pytest.mark.cuda
def test_an_lstm_in_training_mode__also_on_cuda(snippet):
    test_an_lstm_in_training_mode(on_cuda(snippet), 1e-3)  # with TF32


@pytest.mark.cuda
def test_an_lstm_in_training_mode__but_not_in_evaluation_mode_on_cuda(
    snippet, fails
):
    """In evaluation mode, cuDNN raises an error in `backward()`."""
    edited = on_cuda(snippet).edit("lstm.train()  #", "lstm.eval()  #")
    with pytest.raises(RuntimeError, match="cudnn RNN backward can only be"):
        edited.after("freeze-lstm")
    fails(test_an_lstm_in_training_mode, edited)
