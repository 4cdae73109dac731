"""The claims of docs/fix/not_learning.md."""

import math
from functools import cache, partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits

BASE = ["digits", "draw", "program", "begin"]
CHECKS = ["show", "answer", "at-start", "look", "neighbors", "right-answers"]
CHECKS += [
    "note",
    "moved",
    "gradients",
    "judged",
    "judge",
    "train",
    "measure",
    "after",
]
PLANTED = ["faulty-losses", "faulty-steps", "more-faulty-steps"]
PLANTED += ["faulty-models", "dead", "faulty-data", "faulty-validation"]


@cache
def some(snippet, *cells):
    """Run the definitions up to the faults, and more cells.

    Nothing in them changes when it is used, so that each runs once.
    """
    kept = [*BASE, *CHECKS, "one-batch", "healthy"]
    kept += [*PLANTED, "examine", *cells]
    last = cells[-1] if cells else "examine"
    return snippet.only(*kept).after(last)


@cache
def checks_only(snippet):
    cells = *BASE, "answer", "at-start", "healthy"
    return snippet.only(*cells).after("healthy")


@pytest.mark.usefixtures("seeded")
def test_the_mean_costs_the_variance(snippet, loss=F.mse_loss):
    run = snippet.only(*BASE, "at-start").after("at-start")
    sets = [100 * torch.rand(n, dtype=torch.float64) - 40 for n in (2, 9, 500)]
    sets += [torch.randn(7, 3, dtype=torch.float64), run.places.double()]
    for targets in sets:
        best = targets.mean()
        least = loss(best.expand_as(targets), targets)
        assert least.item() == pytest.approx(run.chance(None, targets))
        assert least.item() == pytest.approx(targets.numpy().var())
        for away in (-30.0, -0.01, 0.01, 1.0):
            assert loss((best + away).expand_as(targets), targets) > least


@edits(
    (
        "the other variance",
        "rgets.var(correction=0)",
        "rgets.var(correction=1)",
    ),
    ("the deviation", "targets.var(", "targets.std("),
)
def test_the_mean_costs_the_variance__but_not_with(snippet, old, new, fails):
    """With `correction=1`, the variance is larger than the error of the mean;
    and the deviation is its root.
    """
    fails(test_the_mean_costs_the_variance, snippet.edit(old, new))


def test_the_mean_costs_the_variance__also_less_than_the_median(snippet):
    run = snippet.only(*BASE, "at-start").after("at-start")
    targets = torch.tensor([0.0, 1.0, 5.0])

    at_median = F.mse_loss(targets.median().expand(3), targets)
    assert run.chance(None, targets) < at_median.item()


def test_the_mean_costs_the_variance__ends_with_l1(snippet, fails):
    """With the mean absolute error: that of the mean is not the variance."""
    fails(test_the_mean_costs_the_variance, snippet, F.l1_loss)


def first(run, seed, *given, **changes):
    model, loss_function, _ = run.begin(seed=seed, **changes)
    return run.at_start(model, loss_function, *given)


def plain(row):
    """Whether a check returned numbers of Python, and a list of words."""
    return {type(each) for each in row.values()} <= {float, int, list}


def test_an_untrained_network_begins_at_chance(snippet, shift=0.0, seeds=10):
    run = checks_only(snippet)
    assert run.draw(400, seed=0)[0].equal(run.images)
    for k in (2, 3, 1000):
        labels = torch.zeros(4, dtype=torch.int64)
        assert run.chance(torch.zeros(4, k), labels) == pytest.approx(
            F.cross_entropy(torch.zeros(4, k), labels).item()
        )
    model, loss_function, step = run.begin(make=run.convolution)
    seen = run.at_start(model, loss_function, run.images[:9], run.digits[:9])
    assert plain(seen)
    assert seen["loss"] == step(run.images[:9], run.digits[:9])
    few = run.images[:32]
    numbers = run.places[:32]
    numbers = (numbers - numbers.mean()) / numbers.std(correction=0) + shift
    for seed in range(seeds):
        seen = first(run, seed, few, run.digits[:32])
        assert seen["chance"] == pytest.approx(math.log(10))
        assert abs(seen["loss"] / math.log(10) - 1) < 0.2
        assert seen["found"] == []
        seen = first(run, seed, few, numbers, **run.number)
        assert seen["chance"] == pytest.approx(1)
        assert abs(seen["loss"] - 1) < 0.2
        assert seen["found"] == []
        torch.manual_seed(seed)
        drawn = run.network().state_dict()
        begun = run.begin(seed=seed)[0].state_dict()  # untrained, that is
        assert all(begun[name].equal(drawn[name]) for name in drawn)


@edits(
    ("brighter pixels", "0.1 * torch.randn(count", "9 * torch.randn(count"),
    ("another base", "math.log(outputs", "math.log2(outputs"),
    ("another axis", "log(outputs.shape[1]", "log(outputs.shape[0]"),
)
def test_an_untrained_network_begins_at_chance__but_not_with(
    snippet, old, new, fails
):
    """With much noise in the images, the first loss is too high; another base
    or axis gives another chance.
    """
    fails(test_an_untrained_network_begins_at_chance, snippet.edit(old, new))


def test_an_untrained_network_begins_at_chance__ends_for_far_targets(
    snippet, fails
):
    """With 20 added to the numbers: it begins far from chance."""
    fails(test_an_untrained_network_begins_at_chance, snippet, 20.0, 2)


def test_far_targets_begin_far_away(snippet, shift=20.0):
    run = checks_only(snippet)
    numbers = run.places[:32]
    numbers = (numbers - numbers.mean()) / numbers.std(correction=0) + shift
    for seed in range(10):
        seen = first(run, seed, run.images[:32], numbers, **run.number)
        assert seen["loss"] > 100 * seen["chance"]
        assert seen["found"] == ["far from chance"]


def test_far_targets_begin_far_away__but_not_from_a_bias_of_20(snippet, fails):
    """If the last bias begins at 20, the first loss is close to the
    variance.
    """
    edited = snippet.edit(
        "    return nn.Sequential(nn.Flatten(), *layers)\n",
        "    nn.init.constant_(layers[-1].bias, 20.0)\n"
        "    return nn.Sequential(nn.Flatten(), *layers)\n",
    )
    fails(test_far_targets_begin_far_away, edited)


def test_far_targets_begin_far_away__ends_for_near_ones(snippet, fails):
    """With only 2 added: the first loss is about five times their variance."""
    fails(test_far_targets_begin_far_away, snippet, 2.0)


DATA = {"pixels up to 255", "one image", "labels shuffled", "30 images"}
DATA |= {"BatchNorm lags", "old images as new"}


def test_one_batch_divides_the_faults(snippet, only=None, seed=0):
    run = some(snippet)
    assert len(run.faults) == 15
    assert set(run.faults) > DATA
    for name in [only] if only else run.faults:
        _, changes = run.faults[name]
        found = run.examine("one_batch", seed=seed, **changes)
        expected = name not in DATA or name == "one image"
        assert {name: bool(found)} == {name: expected}


@pytest.mark.parametrize(
    ("losses", "learned"),
    [
        ([2.0, *[0.01] * 95, *[math.nan] * 4], False),
        ([2.0, *[0.01] * 89, 1.0, *[0.01] * 9], False),
        ([2.0, *[0.01] * 88, 1.0, *[0.01] * 10], True),
        ([-2.0, *[-0.01] * 99], True),
        ([2.0, *[-1.0] * 99], False),
    ],
    ids=["nan", "a leap", "an earlier leap", "negative", "below zero"],
)
def test_one_batch_divides_the_faults__also_of(snippet, losses, learned):
    run = some(snippet)
    given = iter(losses)
    seen = run.one_batch(lambda *_: next(given), None, None)
    assert plain(seen)
    assert seen["found"] == ([] if learned else ["not by heart"])


def test_one_batch_divides_the_faults__also_from_another_start(snippet):
    test_one_batch_divides_the_faults(snippet, seed=1)


@pytest.mark.parametrize(
    ("only", "old", "new"),
    [
        ("rate too large", '"rate": 1.0}', '"rate": 0.01}'),
        ("dead ReLU", "bias, -20.0", "bias, 0.0"),
        ("softmax first", "outputs.softmax(1), targets", "outputs, targets"),
        ("one image", "images[:1].expand_as(images)", "images.clone()"),
        ("labels shuffled", "(images, mixed)", "(0 * images, mixed)"),
    ],
    ids=[
        "a smaller rate",
        "a bias of 0",
        "outputs before the softmax",
        "all images",
        "black images",
    ],
)
def test_one_batch_divides_the_faults__but_not_with(
    snippet, only, old, new, fails
):
    """Take a fault away, here a rate too large, and `one_batch` passes; with
    black images, it finds the shuffled labels, too.
    """
    fails(test_one_batch_divides_the_faults, snippet.edit(old, new), only)


@pytest.mark.usefixtures("seeded")
def test_look_finds_four_signs(snippet):
    run = snippet.only("digits", "look").after("look")
    normal = torch.randn(100, 3)
    normal = (normal - normal.mean()) / normal.std()
    many, one = torch.arange(100) % 4, (torch.arange(100) > 90).long()
    for scale, mean, found in (
        (1, 0, []),
        (9.99, 0, []),
        (10.01, 0, ["scale"]),
        (0.01001, 0, []),
        (0.00999, 0, ["scale"]),
        (0.5, 4.99, []),
        (0.5, 5.01, ["scale"]),
        (0.5, -5.01, ["scale"]),
    ):
        seen = run.look(scale * normal + mean, many)
        assert plain(seen)
        assert seen["found"] == found
        assert seen["mean"] == pytest.approx(mean, abs=1e-4)
        assert seen["std"] == pytest.approx(scale, rel=1e-3)
        assert seen["most"] == 25
    assert run.look(normal[many * 0], many)["found"][-1] == "copies"
    for count, found in ((49, ["copies"]), (50, []), (51, [])):
        some_copies = normal[torch.arange(100).clamp(max=count - 1)]
        assert run.look(some_copies, many)["found"] == found
    assert run.look(normal, one)["found"] == ["one label"]
    assert run.look(normal, one.flip(0))["found"] == ["one label"]
    wide = normal[:1].repeat(100, 20).unflatten(1, (1, 6, 10))
    assert run.look(wide, many)["found"] == ["copies"]
    wide[:, 0, 5, 9] += torch.arange(100) / 1000  # each has another last pixel
    assert run.look(wide, many)["found"] == []
    bytes_ = (torch.arange(800) % 256).byte().view(100, 8) + many.byte()[
        :, None
    ]
    assert "scale" in run.look(bytes_, many)["found"]
    halves = many[:, None].expand(-1, 50)  # a label for each pixel
    assert run.look(normal, halves)["found"] == []
    assert run.look(normal, (torch.arange(100) > 89).long())["found"] == []


@edits(
    ("no upper bound", "not 0.01 < std < 10", "not 0.01 < std"),
    ("no lower bound", "not 0.01 < std < 10", "not std < 10"),
    ("no sign of the mean", "abs(mean) > 10", "mean > 10"),
    ("copies never", "< len(inputs) / 2", "< len(inputs) / 20"),
    ("one label alone", "> 0.9 * targets", "> 0.99 * targets"),
)
def test_look_finds_four_signs__but_not_with(snippet, old, new, fails):
    """Each edit loosens one of the bounds, or looks at positive means
    alone.
    """
    fails(test_look_finds_four_signs, snippet.edit(old, new))


def last_first(model, optimizer, loss_function, inputs, targets):
    loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def by_the_model(model, optimizer, loss_function, inputs, targets):
    loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    model.zero_grad(set_to_none=False)
    return loss.item()


def test_the_place_of_the_reset_does_not_matter(snippet, take=last_first):
    run = some(snippet)
    given = run.images[:32], run.digits[:32]
    for make in (run.network, run.convolution):
        tables = []
        for way in (run.take_step, take):
            model, _, step = run.begin(make=make, take=way)
            tables.append(run.gradients(model, step, *given))
        assert tables[0] == tables[1]
        assert all(row["gradient"] is not None for row in tables[0].values())


def test_the_place_of_the_reset_does_not_matter__also_with_zeros(snippet):
    test_the_place_of_the_reset_does_not_matter(snippet, by_the_model)


def no_reset(model, optimizer, loss_function, inputs, targets):
    loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


def test_the_place_of_the_reset_does_not_matter__ends_without_a_reset(
    snippet, fails
):
    """Without `zero_grad()`: the gradients of the first step are still there
    in the second.
    """
    fails(test_the_place_of_the_reset_does_not_matter, snippet, no_reset)


def test_the_place_of_the_reset_does_not_matter__but_not_read_at_the_end(
    snippet, fails
):
    """If `gradients` looked at `.grad` after the steps, it would find `None`
    where `zero_grad` comes last.
    """
    old = 'rows[name]["moved"] = moved('
    new = (
        'rows[name]["gradient"] = None if p.grad is None else 1.0\n'
        f"        {old}"
    )
    fails(test_the_place_of_the_reset_does_not_matter, snippet.edit(old, new))


def with_dropout(run):
    return nn.Sequential(run.convolution(), nn.Dropout(0.1))


def test_the_other_checks_leave_the_model_alone(snippet, more=None):
    run = some(snippet)
    few, more_few = (part[:64].split(32) for part in run.training)
    old, new = zip(few, more_few, strict=True)
    make = partial(with_dropout, run)
    model, loss_function, step = run.begin(make=make)
    step(*old)
    uses = [
        lambda: run.at_start(model, loss_function, *old),
        lambda: run.right_answers(model, loss_function, *old),
        lambda: run.after(model, loss_function, old, new),
    ]
    uses += [lambda: run.look(*old), lambda: run.neighbors(*old)]
    uses += [lambda: more(run, model, step, old)] if more else []
    for mode in (True, False):
        model.train(mode)
        for use in uses:
            state = state_of(model)
            use()
            for before, now in zip(state, state_of(model), strict=True):
                assert torch.equal(before, now)


def state_of(model):
    """Return copies of all that a check could change."""
    found = [each.clone() for each in model.state_dict().values()]
    none = torch.tensor([NAN_FOR_NONE])
    grads = [none if p.grad is None else p.grad for p in model.parameters()]
    found += [each.clone() for each in grads]
    modes = torch.tensor([each.training for each in model.modules()])
    learns = torch.tensor([p.requires_grad for p in model.parameters()])
    return [*found, modes, learns, torch.get_rng_state()]


NAN_FOR_NONE = -12345.0  # a gradient that is not there


def test_the_other_checks_leave_the_model_alone__also_if_in_part(snippet):
    """A frozen layer in evaluation mode, and no gradients yet."""
    run = some(snippet)
    few, more_few = (part[:64].split(32) for part in run.training)
    old, new = zip(few, more_few, strict=True)
    model, loss_function, _ = run.begin(make=run.convolution)
    model[0].requires_grad_(False)
    model[1].eval()

    state = state_of(model)
    run.at_start(model, loss_function, *old)
    run.right_answers(model, loss_function, *old)
    run.after(model, loss_function, old, new)
    for before, now in zip(state, state_of(model), strict=True):
        assert torch.equal(before, now)


@edits(
    ("no copy", "twin = copy.deepcopy(model).train(mode)", "twin = model"),
    (
        "the mode",
        "twin = copy.deepcopy(model).train(mode)",
        "twin = copy.deepcopy(model.train(mode))",
    ),
    ("the numbers", ", torch.random.fork_rng():", ":"),
)
def test_the_other_checks_leave_the_model_alone__but_not_with(
    snippet, old, new, fails
):
    """Without the copy, they update the running statistics; the other edits
    change the mode, or draw random numbers.
    """
    fails(test_the_other_checks_leave_the_model_alone, snippet.edit(old, new))


def trained_by(name, run, model, step, batch):
    given = {"one_batch": (step, *batch, 1)}
    given |= {"gradients": (model, step, *batch)}
    getattr(run, name)(*given[name])


@pytest.mark.parametrize("name", ["one_batch", "gradients"])
def test_the_other_checks_leave_the_model_alone__ends_for(
    snippet, name, fails
):
    """For `one_batch` and `gradients`: they train the model."""
    use = partial(trained_by, name)
    fails(test_the_other_checks_leave_the_model_alone, snippet, use)


def interrupted(inputs, targets):
    message = "a step that fails"
    raise ValueError(message)


def test_gradients_takes_its_hooks_back(snippet):
    run = some(snippet)
    few = [part[:32] for part in run.training]
    for make in (run.network, run.convolution):
        model, _, step = run.begin(make=make)
        run.gradients(model, step, *few)
        assert not any(p._backward_hooks for p in model.parameters())
        assert not any(layer._forward_hooks for layer in model.modules())
        with pytest.raises(ValueError, match="a step that fails"):
            run.gradients(model, interrupted, *few)
        assert not any(p._backward_hooks for p in model.parameters())


def test_gradients_takes_its_hooks_back__also_beside_others(snippet):
    run, seen = some(snippet), []
    few = [part[:32] for part in run.training]
    model, _, step = run.begin()
    model[1].weight.register_hook(seen.append)

    run.gradients(model, step, *few)
    step(*few)
    assert len(seen) == 3


def test_gradients_takes_its_hooks_back__but_not_kept(snippet, fails):
    """A hook that is not handed to `hooks` stays."""
    edited = snippet.edit(
        "hooks.enter_context(p.register_hook(partial(note, rows[name], p)))",
        "p.register_hook(partial(note, rows[name], p))",
    )
    fails(test_gradients_takes_its_hooks_back, edited)


@pytest.mark.usefixtures("seeded")
def test_neighbors_takes_the_first_2000(snippet):
    run = snippet.only("digits", "neighbors").after("neighbors")
    points = torch.rand(2100, 1)
    labels = (points[:, 0] > 0.5).long()
    mixed = torch.cat([labels[:2000], 1 - labels[2000:]])
    ratios = [run.neighbors(points, each)["ratio"] for each in (labels, mixed)]
    assert ratios[0] == ratios[1] < 0.1
    early = torch.cat([1 - labels[:100], labels[100:]])
    assert run.neighbors(points, early)["ratio"] > 1.2 * ratios[0]
    pairs = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
    for apart in (torch.tensor([0.0, 1.0, 0.0, 1.0]), torch.arange(4) % 2):
        seen = run.neighbors(pairs, apart)
        assert plain(seen)
        assert seen["ratio"] == pytest.approx(2)
    chaos = torch.randint(2, (2100,))
    cloud = torch.randn(2100, 16)
    few = cloud[:2000].double()
    apart = torch.cdist(few, few).fill_diagonal_(math.inf)
    same = chaos[:2000] == chaos[apart.argmin(1)]
    share = chaos[:2000].float().mean()
    ratio = (~same).float().mean() / (2 * share * (1 - share))
    found = run.neighbors(cloud, chaos)["ratio"]
    assert found == pytest.approx(ratio.item(), rel=1e-3)
    late = torch.cat([labels[:1900], 1 - labels[1900:]])
    assert run.neighbors(points, late)["ratio"] > 1.2 * ratios[0]


def test_neighbors_takes_the_first_2000__but_not_more(snippet, fails):
    """With `most=3000`, it compares the samples after those as well."""
    edited = snippet.edit("most=2000", "most=3000")
    fails(test_neighbors_takes_the_first_2000, edited)


def test_two_of_five_rates_learn(snippet):
    run = snippet.only(*BASE, "train", "show", "rates").after("rates")

    assert list(run.ends) == [0.0001, 0.001, 0.01, 0.1, 1.0]
    assert len(run.train(lambda *_: 1.0, run.images, run.digits)) == 12
    learned = [rate for rate, loss in run.ends.items() if loss < 0.3]
    failed = [rate for rate, loss in run.ends.items() if loss > 1.5]
    assert learned == [0.01, 0.1]
    assert failed == [0.0001, 0.001, 1.0]


@pytest.mark.parametrize("seed", [1])
def test_two_of_five_rates_learn__also_from(snippet, seed):
    test_two_of_five_rates_learn(
        snippet.edit('"seed": 0}', f'"seed": {seed}}}')
    )


@edits(
    ("SGD", "torch.optim.AdamW", "torch.optim.SGD"),
    ("fewer epochs", "epochs=12", "epochs=4"),
)
def test_two_of_five_rates_learn__but_not_with(snippet, old, new, fails):
    """With SGD, 0.01 and 0.1 do not learn in 12 epochs; in four epochs, 0.01
    ends above 1.5.
    """
    fails(test_two_of_five_rates_learn, snippet.edit(old, new))


class _Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.LSTM(8, 32, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        return self.head(self.rows(images[:, 0])[0][:, -1])


class _Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.places = nn.Parameter(0.1 * torch.randn(8, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, 0, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        rows = self.embed(images[:, 0]) + self.places
        return self.head(self.layer(rows).mean(1))


def dropping():
    layers = nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.2)
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10))


def test_healthy_programs_pass(snippet, only=None, seed=0, **more):
    run = some(snippet)
    assert len(run.healthy) == 3
    assert len(run.checks) == 7
    for name in ("at_start", "one_batch", "look", "neighbors", "after"):
        assert run.checks[name] is getattr(run, name)
    layers = run.healthy["convolution"]["make"]().children()
    assert {nn.Conv2d, nn.BatchNorm2d} < {type(each) for each in layers}
    for name in [only] if only else run.healthy:
        changes = run.healthy[name] | more
        for check in run.checks:
            found = run.examine(check, seed=seed, **changes)
            assert found == [], (name, check)


def test_healthy_programs_pass__also_from_seed_1(snippet):
    test_healthy_programs_pass(snippet, seed=1)


class _Gated(nn.Module):
    """A second layer behind a gate that starts at 0, tied to the first."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.gate, self.head = nn.Parameter(torch.zeros(1)), nn.Linear(64, 10)

    def forward(self, images):
        hidden = F.relu(self.first(images.flatten(1)))
        return self.head(hidden + self.gate * self.second(hidden))


def frozen():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    model[0].requires_grad_(False)
    model = nn.Sequential(nn.Flatten(), *model)
    return model.append(nn.ReLU()).append(nn.Linear(64, 10))


@pytest.mark.parametrize(
    "make",
    [_Recurrent, _Attending, _Gated, dropping, frozen],
    ids=["an LSTM", "attention", "a gate", "dropout", "a frozen layer"],
)
def test_healthy_programs_pass__also_of(snippet, make):
    given = {"make": make, "rate": 0.003} if make is _Attending else {}
    longer = snippet.edit("*few, 60)", "*few)")
    test_healthy_programs_pass(longer, "network", **{"make": make} | given)


def test_healthy_programs_pass__also_with_labels_of_bytes(snippet):
    run = snippet.only(*BASE).after("draw")
    training = run.images, run.digits.byte()
    validation = run.new_images, run.new_digits.byte()
    given = {"training": training, "validation": validation}
    test_healthy_programs_pass(snippet, "network", **given)


def pixels():
    layers = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1)
    return nn.Sequential(*layers)


def test_healthy_programs_pass__also_with_a_class_for_each_pixel(snippet):
    run = snippet.only(*BASE).after("draw")
    given = {"make": pixels, "rate": 0.1}
    images = run.images, run.new_images
    sets = [(each, (each[:, 0] > 0.5).long()) for each in images]
    given |= {"training": sets[0], "validation": sets[1]}
    test_healthy_programs_pass(snippet, "network", **given)
    for labels in (sets[0][1], sets[1][1]):
        labels[:, 0] = -100  # a row that nobody labeled
    test_healthy_programs_pass(snippet, "network", **given)
    mixed = sets[0][0], sets[0][1].roll(1, 0)
    assert some(snippet).neighbors(*mixed)["found"] == ["neighbors differ"]


def test_healthy_programs_pass__also_with_l1(snippet):
    test_healthy_programs_pass(snippet, "a number", loss=F.l1_loss)


@pytest.mark.parametrize(
    ("only", "old", "new"),
    [
        ("network", '"rate": 0.01, "seed"', '"rate": 0.0001, "seed"'),
        ("network", "< 0.1 * abs(first)", "< 1e-9 * abs(first)"),
        ("convolution", "(288, 10))", "(288, 10), nn.Sigmoid())"),
        ("convolution", "(momentum=0.1)", "(momentum=0.001)"),
        ("a number", "(images, places)}\n", "(images, places[:, 0])}\n"),
    ],
    ids=[
        "a tiny rate",
        "a stricter bound",
        "a sigmoid at the end",
        "a slower average in BatchNorm",
        "targets of another shape",
    ],
)
def test_healthy_programs_pass__but_not_with(snippet, only, old, new, fails):
    """Each edit plants a fault in one of them, here a tiny rate, or tightens a
    bound, and a check finds something.
    """
    fails(test_healthy_programs_pass, snippet.edit(old, new), only)


FOUND = {
    "softmax first": "right answers cost",
    "(N, 1) and (N,)": "right answers cost",
    "zero_grad before step": "does not move",
    "no zero_grad": "old gradient",
    "optimizer of the head": "does not move",
    "rate too large": "step size",
    "rate too small": "step size",
    "graph cut": "no gradient",
    "dead ReLU": "zero gradient",
    "pixels up to 255": "scale",
    "one image": "copies",
    "labels shuffled": "neighbors differ",
    "30 images": "worse on new data",
    "BatchNorm lags": "worse in evaluation",
    "old images as new": "shared",
}


def test_each_fault_is_found(snippet, only=None, seed=0):
    run = some(snippet)
    assert sorted(run.faults) == sorted(FOUND)
    model, _, _ = run.begin()
    few = run.images[:3], torch.tensor([9, 8, 7])  # fewer than classes
    seen = run.right_answers(model, lambda *_: torch.tensor(-5.0), *few)
    assert plain(seen)
    assert seen == {"loss": -5.0, "found": ["right answers cost"]}
    for name in [only] if only else run.faults:
        check, changes = run.faults[name]
        found = run.examine(check, seed=seed, **changes)
        assert {name: found} == {name: [FOUND[name]]}


def test_each_fault_is_found__also_from_seed_1(snippet):
    test_each_fault_is_found(snippet, seed=1)


WITHOUT = {
    "softmax first": ("outputs.softmax(1), targets", "outputs, targets"),
    "(N, 1) and (N,)": ("(images, places[:, 0])", "(images, places)"),
    "zero_grad before step": ('if reset == "late"', 'if reset == "early"'),
    "no zero_grad": ('if reset == "late"', 'if reset == "never"'),
    "optimizer of the head": ("model[3].parameters()", "model.parameters()"),
    "rate too large": ('"rate": 1.0}', '"rate": 0.02}'),
    "rate too small": ('"rate": 1e-6}', '"rate": 1e-3}'),
    "graph cut": ("function=torch.detach", "function=torch.abs"),
    "dead ReLU": ("bias, -20.0", "bias, 0.0"),
    "pixels up to 255": ("255 * images", "2 * images"),
    "one image": ("images[:1].expand_as(images)", "images.clone()"),
    "labels shuffled": ("torch.randperm(400)", "torch.arange(400)"),
    "30 images": ("images[:30], digits[:30]", "images, digits"),
    "BatchNorm lags": ("momentum=0.001", "momentum=0.1"),
    "old images as new": ("(images[200:], digits[200:])", "validation"),
}


@pytest.mark.parametrize("only", WITHOUT)
def test_each_fault_is_found__but_not_without_the_fault(snippet, only, fails):
    """Take a fault away, here the softmax, and its check no longer reports
    it.
    """
    edited = snippet.edit(*WITHOUT[only])
    fails(test_each_fault_is_found, edited, only)


def test_only_the_healthy_curve_falls(snippet, only=None):
    run = some(snippet, "curve", "curves")

    for name in [only] if only else run.seen:
        old, new, blind = run.curve(**run.shapes[name])
        assert len(old) == len(new) == 12
        assert (old[-1] < blind / 2) is (name == "healthy"), name
        assert (new[-1] < blind / 2) is (name == "healthy"), name
    pixels = run.faults["pixels up to 255"][1]["training"][0]
    assert pixels.equal(255 * run.images)
    assert run.curve(make=run.lagging)[1][-1] > 0.4  # running statistics
    unlike = run.new_images, run.new_digits.roll(1)
    old, new, blind = run.curve(validation=unlike)
    assert old[-1] < blind / 2 < new[-1]
    called = some(snippet, "at-start-called", "after-called")
    assert [len(part) for part in called.batch] == [32, 32]
    model, loss_function = called.model, called.loss_function
    given = model, loss_function, called.training
    assert called.measure(*given, mode=False)[0] < 0.3
    sure = 9.0 * F.one_hot(run.digits[:32], 10)
    two = run.softmax_first(sure, run.digits[:32])
    assert two == F.cross_entropy(sure.softmax(1), run.digits[:32])
    assert len(run.seen) == len({*run.seen}) == 8


@pytest.mark.parametrize(
    ("only", "old", "new"),
    [
        ("rate 0.001", '{"rate": 0.001}', '{"rate": 0.02}'),
        ("healthy", '{"healthy": {},', '{"healthy": {"rate": 0.0},'),
        ("labels shuffled", "torch.randperm(400)", "torch.arange(400)"),
    ],
    ids=["a larger rate", "a rate of zero", "labels that stay in order"],
)
def test_only_the_healthy_curve_falls__but_not_with(
    snippet, only, old, new, fails
):
    """With a larger rate or with labels in order, another one falls as well;
    at a rate of 0, the healthy one does not.
    """
    fails(test_only_the_healthy_curve_falls, snippet.edit(old, new), only)


def rows(run, name, seed=0):
    _, changes = run.faults[name]
    return run.first_weight(seed=seed, **changes)


def weights(snippet):
    return some(snippet, "first-weight")


def test_none_is_not_zero(snippet):
    run = weights(snippet)

    for seed in range(3):
        cut = rows(run, "graph cut", seed)
        assert cut["gradient"] is None
        assert cut["old"] is False
        assert rows(run, "dead ReLU", seed)["gradient"] == 0
        flatten, linear, relu, _ = run.dead()
        assert type(relu) is nn.ReLU
        assert (linear(flatten(run.images)) < 0).all()


@edits(
    ("no cut", "function=torch.detach", "function=torch.abs"),
)
def test_none_is_not_zero__but_not_with(snippet, old, new, fails):
    """Without the cut, it gets a gradient."""
    fails(test_none_is_not_zero, snippet.edit(old, new))


def test_none_is_not_zero__but_not_with_a_live_relu(snippet, fails):
    """With a bias of 0, the ReLU is not dead, and the gradient is not 0."""
    fails(test_none_is_not_zero, snippet.edit("bias, -20.0", "bias, 0.0"))


def test_a_gradient_without_a_move(snippet):
    run = weights(snippet)

    for name in ("zero_grad before step", "optimizer of the head"):
        for seed in range(3):
            row = rows(run, name, seed)
            assert row["gradient"] > 0.01
            assert row["moved"] == 0
    model, loss_function, _ = run.begin()
    learns = run.faults["optimizer of the head"][1]["learns"]
    given = [*learns(model)]
    assert [*map(id, given)] == [*map(id, model[3].parameters())]

    calls = []

    def note(name):
        calls.append((name, model[1].weight.grad is not None))

    optimizer = SimpleNamespace(
        zero_grad=partial(note, "zero_grad"), step=partial(note, "step")
    )
    take = run.faults["zero_grad before step"][1]["take"]
    take(model, optimizer, loss_function, run.images[:8], run.digits[:8])
    assert calls == [("zero_grad", True), ("step", True)]


@edits(
    (
        "a reset to zeros",
        "        optimizer.zero_grad()\n",
        "        optimizer.zero_grad(set_to_none=False)\n",
    ),
    ("no late reset", 'if reset == "late":', 'if reset == "early":'),
    ("the whole model", "model[3].parameters()", "model.parameters()"),
)
def test_a_gradient_without_a_move__but_not_with(snippet, old, new, fails):
    """With a reset to zeros, weight decay moves it; with no late reset, or in
    an optimizer of the whole model, it learns.
    """
    fails(test_a_gradient_without_a_move, snippet.edit(old, new))


MOVES = [
    ((1e-5, 0.01, 0.02), []),
    ((0.01, 0.02, 5.0), []),
    ((1e-5, 1e-5, 0.01), ["step size"]),
    ((0.01, 5.0, 5.0), ["step size"]),
    ((2e-4,), []),
    ((0.5e-4,), ["step size"]),
    ((0.9,), []),
    ((1.1,), ["step size"]),
    ((1e-5, 0.0, 0.01), ["does not move"]),
    ((1e-5,) * 5 + (0.01,) * 6, []),
    ((0.01,) * 6 + (5.0,) * 5, []),
]
WEIGHTS = "{}.weight", "bias_{}.weight", "bias.{}", "{}.alpha"


def test_judge_looks_at_the_median(snippet, cases=MOVES):
    judge = some(snippet).judge
    for moves, found in cases:
        for name in WEIGHTS:
            # Biases that move too far, more of them than weights.
            rows = {f"{i}.bias": {"moved": 50.0} for i in range(9)}
            rows |= {"rnn.bias_ih_l0": {"moved": 50.0}}
            rows |= {
                name.format(i): {"moved": each} for i, each in enumerate(moves)
            }
            for row in rows.values():
                row |= {"gradient": 1.0, "old": False}
            assert judge(rows)["found"] == found


@edits(
    ("the largest", "moves.quantile(0.5)", "moves.quantile(1.0)"),
    ("the mean", "moves.quantile(0.5)", "moves.mean()"),
    (
        "biases too",
        'in rows if "bias" not in name.split(".")[-1]]',
        "in rows]",
    ),
    ("no lower bound", "1e-4 < moves", "0 < moves"),
    ("no upper bound", "quantile(0.5) < 1:", "quantile(0.5) < 100:"),
    ("found all the same", "if not found and not 1e-4", "if not 1e-4"),
)
def test_judge_looks_at_the_median__but_not(snippet, old, new, fails):
    """The largest move and the mean are not the median; the other edits count
    biases, drop a bound, or add to other findings.
    """
    fails(test_judge_looks_at_the_median, snippet.edit(old, new))


def test_an_old_gradient_is_seen(snippet):
    run = weights(snippet)

    for seed in range(3):
        assert rows(run, "no zero_grad", seed)["old"] is True
        assert run.first_weight(seed=seed)["old"] is False
        with_zeros = run.first_weight(seed=seed, take=by_the_model)
        assert with_zeros["old"] is False
    small = SimpleNamespace(grad=torch.tensor([0.0, 1e-6]))
    run.note(row := {}, small, torch.ones(2))
    assert row["old"] is True


@edits(
    ("a reset", 'if reset == "late":', 'if reset == "never":'),
    ("no reset", "    optimizer.zero_grad()\n    loss =", "    loss ="),
)
def test_an_old_gradient_is_seen__but_not_with(snippet, old, new, fails):
    """If the faulty step resets, no old gradient is there; if the right one
    does not, one is.
    """
    fails(test_an_old_gradient_is_seen, snippet.edit(old, new))


def test_moves_show_the_rate(snippet):
    run = weights(snippet)

    for seed in range(5):
        assert rows(run, "rate too large", seed)["moved"] > 1
        assert 0 < rows(run, "rate too small", seed)["moved"] < 1e-4
    model, _, step = run.begin()
    first = next(name for name, _ in model.named_parameters())
    few = [part[:32] for part in run.training]
    row = run.gradients(model, step, *few)[first]
    assert run.first_weight()["moved"] == row["moved"]
    _, optimizer, _ = run.begin()[2].args
    assert type(optimizer) is torch.optim.AdamW
    steps, model = [], run.begin()[0]
    run.gradients(model, lambda *given: steps.append(given), None, None)
    assert len(steps) == 2
    large = torch.full((100,), 6e4, dtype=torch.float16)
    assert run.moved(large, large / 2) == pytest.approx(0.5, rel=1e-3)
    assert run.moved(torch.zeros(4), torch.ones(4)) == 2  # from 0, the way
    good = {"gradient": 1.0, "old": False, "moved": 0.1}
    usual = {"a": good, "b": good, "c": good | {"moved": 5.0}}
    assert run.judge(usual)["found"] == []
    assert run.judge(usual | {"d.bias": {"gradient": None}})["found"] == []
    none = run.judge(usual | {"bias.d": good | {"gradient": None}})
    assert none["found"] == ["no gradient"]
    row = {}
    assert type(run.moved(large, large / 2)) is float
    run.note(row, SimpleNamespace(grad=None), large)
    assert type(row["gradient"]) is float
    assert row == {"old": False, "gradient": pytest.approx(6e5, rel=1e-2)}


@edits(
    ("a rate of 0.01", '"rate": 1.0}', '"rate": 0.01}'),
    ("a rate of 0.0001", '"rate": 1e-6}', '"rate": 1e-4}'),
    ("SGD", "torch.optim.AdamW", "torch.optim.SGD"),
)
def test_moves_show_the_rate__but_not_with(snippet, old, new, fails):
    """At 0.01, it moves by less than its size, and at 0.0001 by more than a
    10,000th; SGD moves it less even at 1.
    """
    fails(test_moves_show_the_rate, snippet.edit(old, new))


def behind(snippet, functions):
    run = weights(snippet)
    return [
        run.first_weight(make=partial(run.with_cut, function))
        for function in functions
    ]


CUT = {"x.detach()", "torch.tensor(x.tolist())", "(x > 0).float()"}
CUT |= {"one_hot(x.argmax(1))"}


def test_cuts_leave_none(snippet, more=()):
    run = some(snippet, "first-weight", "cuts")

    assert set(run.behind) == CUT | {"x.round()", "x.sign()"}
    assert all(run.behind[name] is None for name in CUT)
    functions = [run.cuts[name] for name in CUT]
    for row in behind(snippet, [*functions, *more]):
        assert row["gradient"] is None
    x = torch.randn(3, 64)
    given = {name: run.cuts[name](x) for name in CUT}
    assert given["x.detach()"].equal(x)
    assert given["torch.tensor(x.tolist())"].equal(x)
    assert given["(x > 0).float()"].equal(torch.heaviside(x, x * 0))
    largest = x == x.amax(dim=1, keepdim=True)
    assert given["one_hot(x.argmax(1))"].equal(largest.float())


def without_graph(x):
    with torch.no_grad():
        return x * 1.0


ALSO = {
    "no_grad": without_graph,
    "data": lambda x: x.data,
    "numpy": lambda x: torch.from_numpy(x.detach().numpy()),
    "an equation": lambda x: (x == x.max()).float(),
    "argmax": lambda x: x.argmax(1, keepdim=True).expand(-1, 64).float(),
}


@pytest.mark.parametrize("function", ALSO.values(), ids=ALSO)
def test_cuts_leave_none__also_with(snippet, function):
    test_cuts_leave_none(snippet, [function])


@edits(
    ("a clone", '()": torch.detach', '()": torch.clone'),
    ("no new tensor", "lambda x: torch.tensor(x.tolist())", "torch.clone"),
    ("softmax", "F.one_hot(x.argmax(1), 64).float()", "x.softmax(1)"),
    ("a soft comparison", "lambda x: (x > 0).float()", "torch.sigmoid"),
)
def test_cuts_leave_none__but_not_with(snippet, old, new, fails):
    """`clone`, `softmax` and `sigmoid` in their place let the gradient
    through.
    """
    fails(test_cuts_leave_none, snippet.edit(old, new))


def test_steps_leave_zeros(snippet, more=()):
    run = some(snippet, "first-weight", "cuts")

    numbers = torch.tensor([-1.7, 0.7, 1.2])
    assert run.cuts["x.round()"](numbers).tolist() == [-2, 1, 1]
    assert run.cuts["x.sign()"](numbers).tolist() == [-1, 1, 1]
    assert run.behind["x.round()"] == run.behind["x.sign()"] == 0
    for row in behind(snippet, [torch.round, torch.sign, *more]):
        assert row["gradient"] == 0


@edits(
    ("no rounding", "torch.round", "torch.relu"),
    ("no sign", "torch.sign,", "torch.tanh,"),
)
def test_steps_leave_zeros__but_not_with(snippet, old, new, fails):
    """`relu` and `tanh` in their place return other numbers, and have
    gradients that are not 0.
    """
    fails(test_steps_leave_zeros, snippet.edit(old, new))


@pytest.mark.usefixtures("seeded")
def test_crossed_shapes_have_a_floor(snippet, loss=None, shape=(-1,)):
    run = some(snippet, "broadcast", "column")
    assert run.of_places["validation"][1].equal(run.new_places[:, 0])
    loss = loss or run.squared
    for count in (2, 5, 32, 300):
        targets = 3 * torch.randn(count) + 7
        variance = targets.var(correction=0).item()
        best = targets.mean().expand(count, 1)
        right = targets[:, None]
        for outputs in (best, right, *(7 + 3 * torch.randn(20, count, 1))):
            value = loss(outputs, targets.reshape(shape)).item()
            assert value > variance * (1 - 1e-4)


@pytest.mark.usefixtures("seeded")
def test_crossed_right_answers_cost_twice(snippet, shape=(-1,)):
    run = some(snippet, "broadcast", "column")
    variance = run.row.var(correction=0).item()
    assert len(run.row) == 32
    assert run.crossed["loss"] == pytest.approx(2 * variance)
    assert run.fixed["loss"] == 0
    for count in (2, 5, 32, 300):
        targets = 3 * torch.randn(count) + 7
        variance = targets.var(correction=0).item()
        right = run.squared(targets[:, None], targets.reshape(shape)).item()
        assert right == pytest.approx(2 * variance, rel=1e-4)


def test_crossed_right_answers_cost_twice__ends_for_a_column(snippet, fails):
    """With targets (N, 1): the right answers cost 0."""
    fails(test_crossed_right_answers_cost_twice, snippet, (-1, 1))


@edits(
    (
        "pairs alone",
        "return (outputs - targets)",
        "return (outputs[:, 0] - targets)",
    ),
    ("a sum", "targets).square().mean()", "targets).square().sum()"),
)
def test_crossed_right_answers_cost_twice__but_not_with(
    snippet, old, new, fails
):
    """Compared with their own targets alone, the right answers cost 0; and a
    sum is not a mean.
    """
    fails(test_crossed_right_answers_cost_twice, snippet.edit(old, new))


def test_crossed_shapes_have_a_floor__ends_for_a_column(snippet, fails):
    """With targets (N, 1): the right answers cost 0."""
    fails(test_crossed_shapes_have_a_floor, snippet, None, (-1, 1))


@edits(
    (
        "pairs alone",
        "return (outputs - targets)",
        "return (outputs[:, 0] - targets)",
    ),
)
def test_crossed_shapes_have_a_floor__but_not_with(snippet, old, new, fails):
    """With `outputs[:, 0]`, each output is compared with its own target
    alone.
    """
    fails(test_crossed_shapes_have_a_floor, snippet.edit(old, new))


@cache
def ends(snippet, name, seeds):
    run = some(snippet, "trained")
    changes = run.faults[name][1] if name else {}
    return [run.trained(seed=seed, **changes) for seed in seeds]


def assert_all_are_measured(run):
    """Whether the losses are those of all images, in evaluation mode."""
    model, loss_function, _ = run.begin()
    seen = run.after(model, loss_function, run.training, run.validation)
    for name, (images, digits) in (
        ("old", run.training),
        ("new", run.validation),
    ):
        expected = F.cross_entropy(model(images), digits).item()
        assert seen[name] == pytest.approx(expected)


def test_learned_by_heart(snippet, seeds=(0, 1, 2)):
    run = some(snippet, "trained")
    assert_all_are_measured(run)
    assert len(run.faults["30 images"][1]["training"][0]) == 30
    seen = run.trained(validation=run.training)
    assert seen["old"] == seen["new"]
    for name in ("labels shuffled", "30 images"):
        for seen in ends(snippet, name, seeds):
            assert 0.5 < seen["old"] < 2
            assert seen["new"] > math.log(10)


@edits(
    ("labels in order", "torch.randperm(400)", "torch.arange(400)"),
    ("all images", "images[:30], digits[:30]", "images, digits"),
    ("no training", "epochs=12", "epochs=0"),
)
def test_learned_by_heart__but_not_with(snippet, old, new, fails):
    """With labels in order, or with all images, the loss falls on new images,
    too; without training, it falls on none.
    """
    fails(test_learned_by_heart, snippet.edit(old, new), (0,))


def test_a_lag_shows_on_the_old_images(snippet, seeds=(0, 1, 2)):
    run = some(snippet, "trained")
    (norm,) = (e for e in run.lagging() if isinstance(e, nn.BatchNorm2d))
    assert norm.momentum == 0.001
    model, loss_function, step = run.begin(make=run.lagging)
    run.train(step, *run.training, epochs=1)
    evaluated = [
        run.measure(model, loss_function, part, mode=False)[0]
        for part in (run.training, run.validation)
    ]
    seen = run.after(model, loss_function, run.training, run.validation)
    assert evaluated == [seen["old"], seen["new"]]
    by_batch = run.measure(model, loss_function, run.training, mode=True)
    assert seen["old, by batch"] == by_batch[0]
    for seen in ends(snippet, "BatchNorm lags", seeds):
        assert seen["old, by batch"] < 0.1
        assert seen["old"] > 0.4


def test_a_lag_shows_on_the_old_images__but_not_with_the_usual_momentum(
    snippet, fails
):
    """With the usual `momentum` of 0.1, they do not lag."""
    edited = snippet.edit("momentum=0.001", "momentum=0.1")
    fails(test_a_lag_shows_on_the_old_images, edited, (0,))


def test_a_lag_shows_on_the_old_images__but_not_untrained(snippet, fails):
    """Without training, the loss is above 2 in training mode, too."""
    edited = snippet.edit("epochs=12", "epochs=0")
    fails(test_a_lag_shows_on_the_old_images, edited, (0,))


def test_a_leak_looks_good(snippet, seeds=(0, 1, 2)):
    leaks = ends(snippet, "old images as new", seeds)
    others = ends(snippet, None, seeds)
    for seen, other in zip(leaks, others, strict=True):
        gap = abs(seen["new"] - seen["old"])
        assert 4 * gap < other["new"] - other["old"]
        assert seen["found"] == ["shared"]


def test_a_leak_looks_good__also_not_with_copies_in_one_set(snippet):
    run = some(snippet, "trained")
    twice = [torch.cat([part, part]) for part in run.training]

    assert run.trained(training=twice)["found"] == []


@edits(
    ("new images", "(images[200:], digits[200:])", "(new_images, new_digits)"),
    (
        "wrong digits",
        "(images[200:], digits[200:])",
        "(images[200:], digits[:200])",
    ),
)
def test_a_leak_looks_good__but_not_with(snippet, old, new, fails):
    """With new images, the gap stays as it is; with wrong digits, it grows."""
    fails(test_a_leak_looks_good, snippet.edit(old, new), (0,))


def test_a_few_wrong_labels_pass(snippet):
    run = some(snippet, "limits")

    assert (run.few_wrong != run.digits).sum() == 40
    assert run.unnoticed == {name: [] for name in run.checks}
    assert len(run.unnoticed) == 7


def test_a_few_wrong_labels_pass__but_not_of_other_images(snippet, fails):
    """With the labels of other images in their place, three are right by
    chance, and not a tenth is wrong.
    """
    edited = snippet.edit("(few_wrong[:40] + 1) % 10", "digits[40:80]")
    fails(test_a_few_wrong_labels_pass, edited)


def test_smoothing_raises_an_alarm(snippet):
    run = some(snippet, "limits")

    assert run.alarm == ["right answers cost"]
    assert run.smoothed.keywords == {"label_smoothing": 0.1}
    assert run.examine("right_answers") == []
    sure = 100.0 * F.one_hot(run.digits[:32], 10)
    less = run.smoothed(sure / 10, run.digits[:32])
    assert run.smoothed(sure, run.digits[:32]) > less > 0


def test_smoothing_raises_an_alarm__but_not_without(snippet, fails):
    """With `label_smoothing=0.0`, the right answers cost nothing, and there is
    no alarm.
    """
    edited = snippet.edit("label_smoothing=0.1", "label_smoothing=0.0")
    fails(test_smoothing_raises_an_alarm, edited)
