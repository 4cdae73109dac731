"""The claims of docs/training/losses.md."""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import true_since

ONE_SCORE = F.binary_cross_entropy_with_logits
DTYPES = [torch.float32, torch.float64]
SIX = {
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "float32": torch.float32,
    "float64": torch.float64,
}
OF_CLASSES = ["cross_entropy", "nll_loss"]
OF_SHAPES = ["mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy"]
OF_SHAPES += ["binary_cross_entropy_with_logits"]
LONG_OR_BYTE = "expected target dtype to be Long or Byte, but got {}"
MULTI = "0D or 1D target tensor expected, multi-target not supported"
ONE_HOT = (
    "Expected floating point type for target with class probabilities, got {}"
)
OUTSIDE = "all elements of input should be between 0 and 1"
TWO_BOOLS = (
    "Subtraction, the `-` operator, with two bool tensors is not supported."
    " Use the `^` or `logical_xor()` operator instead."
)


def near(one, other):
    """Tell whether two losses, or their gradients, agree up to rounding."""
    one, other = (torch.as_tensor(each) for each in (one, other))
    return torch.allclose(one.double(), other.double(), rtol=1e-5, atol=1e-6)


def batch(samples=7, classes=4, dtype=torch.float32, seed=0):
    """Return random scores that learn, and labels."""
    torch.manual_seed(seed)
    scores = 3 * torch.randn(samples, classes, dtype=dtype)
    labels = torch.randint(classes, (samples,))
    return scores.requires_grad_(), labels


def lowered(scores, labels, lowest):
    """Return scores of which one beside the label is as low as that."""
    classes = scores.shape[1]
    wrong = F.one_hot((labels + 1) % classes, classes).bool()
    return scores.masked_fill(wrong, lowest)


def gradient(loss, scores):
    return torch.autograd.grad(loss, scores, retain_graph=True)[0]


def error_of(loss, outputs, targets):
    """Return what a loss complains of: nothing, if it runs."""
    try:
        loss(outputs, targets)
    except (RuntimeError, ValueError, IndexError) as error:
        return str(error)
    return ""


# Do this


def test_modules_return_the_same(snippet, options=None):
    run = snippet.after("four-questions")
    days = run.days

    answers = {
        "how warm": (nn.MSELoss(), run.how_warm, run.degrees),
        "will it rain": (nn.BCEWithLogitsLoss(), run.will_it_rain, run.rained),
        "which sky": (nn.CrossEntropyLoss(), run.which_sky, run.skies),
        "which alarms": (
            *(nn.BCEWithLogitsLoss(), run.which_alarms, run.alarms),
        ),
    }
    assert run.losses.keys() == answers.keys()
    for name, (module, model, targets) in answers.items():
        outputs = model(days)
        outputs = outputs[:, 0] if outputs.shape[1] == 1 else outputs
        if name != "which sky":
            targets = targets.float()
        assert torch.equal(module(outputs, targets), run.losses[name])

    scores, labels = batch()
    rows = F.one_hot(labels, 4).float()
    for each in ({"reduction": "sum"}, {"reduction": "none"}):
        same = nn.MSELoss(**each)(scores, rows)
        assert torch.equal(same, F.mse_loss(scores, rows, **each))
        same = nn.BCEWithLogitsLoss(**each)(scores, rows)
        assert torch.equal(same, ONE_SCORE(scores, rows, **each))
        same = nn.CrossEntropyLoss(**each)(scores, labels)
        wanted = F.cross_entropy(scores, labels, **(options or each))
        assert torch.equal(same, wanted)


def test_modules_return_the_same__also_with_weights_and_label_smoothing(
    snippet,
):
    scores, labels = batch()
    rows, weight = F.one_hot(labels, 4).float(), torch.arange(1.0, 5.0)
    for options in ({"weight": weight}, {"label_smoothing": 0.2}):
        same = nn.CrossEntropyLoss(**options)(scores, labels)
        assert torch.equal(same, F.cross_entropy(scores, labels, **options))
    same = nn.BCEWithLogitsLoss(pos_weight=weight)(scores, rows)
    assert torch.equal(same, ONE_SCORE(scores, rows, pos_weight=weight))


def test_modules_return_the_same__ends_with_another_option(snippet, fails):
    """With `reduction="sum"` in the module and `"mean"` in the function: they
    no longer agree.
    """
    options = {"reduction": "mean"}
    fails(test_modules_return_the_same, snippet, options)


@edits(
    ("F.mse_loss(how_warm", "F.l1_loss(how_warm"),
    ('n": yes_or_no(', 'n": F.soft_margin_loss('),
    ("F.cross_entropy(which_sky(days), skies),", "torch.zeros(()),"),
    ("alarms.float()", "1.0 - alarms"),
)
def test_modules_return_the_same__but_not_of_other_functions(
    snippet, old, new, fails
):
    """`l1_loss` does not return what `nn.MSELoss()` does; the other edits
    change another function or its targets.
    """
    fails(test_modules_return_the_same, snippet.edit(old, new))


def test_the_order_is_that_of_the_scores(snippet, size=1.0):
    run = snippet.after("guesses")
    rain, sky = run.will_it_rain(run.days)[:, 0], run.which_sky(run.days)

    assert torch.equal(run.chance, rain.sigmoid())
    assert torch.equal(run.chances, sky.softmax(dim=1))
    cases = [(rain, run.chance, sky, run.chances, run.guesses)]
    for seed, classes in enumerate((2, 3, 10, 1000)):
        for dtype in DTYPES:
            scores = size * batch(20, classes, dtype, seed)[0]
            chances, best = scores.softmax(dim=1), scores.argmax(dim=1)
            column = scores[:, 0]
            cases.append((column, column.sigmoid(), scores, chances, best))
    for column, chance, scores, chances, best in cases:
        assert column.shape == chance.shape
        assert (column > 0).any()
        assert (chance[column > 0] >= 0.5).all()
        assert near(chances.sum(dim=1), torch.ones(len(chances)))
        rows = range(len(scores))
        assert torch.equal(scores[rows, best], scores.amax(dim=1))
        assert torch.equal(chances[rows, best], chances.amax(dim=1))


@edits(
    ("chance = will", "chance = -will"),
    ("chances = which_sky(days)", "chances = (-which_sky(days))"),
    ("guesses = which_sky(days)", "guesses = (-which_sky(days))"),
)
def test_the_order_is_that_of_the_scores__but_not_once_changed(
    snippet, old, new, fails
):
    """A minus sign in front makes every sigmoid negative, or turns the order
    of the classes around.
    """
    fails(test_the_order_is_that_of_the_scores, snippet.edit(old, new))


def test_the_order_is_that_of_the_scores__ends_for_infinite_scores(
    snippet, fails
):
    """For infinite scores: if all scores of a sample are infinite, their
    softmax is nan.
    """
    fails(test_the_order_is_that_of_the_scores, snippet, math.inf)


# A loss is surprise


def test_cross_entropy_is_minus_log_p(
    snippet, dtype=torch.float32, options=None
):
    run = snippet.after("from-scores")
    p = run.scores.softmax(dim=1)[0, 1].item()
    assert (round(p, 2), round(run.loss.item(), 2)) == (0.26, 1.35)
    assert run.loss.shape == ()
    assert near(run.loss, -math.log(p))

    for seed, shape in enumerate(((1, 2), (7, 4), (5, 100))):
        scores, labels = batch(*shape, dtype, seed)
        powers = scores.detach().double().exp()
        p = powers / powers.sum(dim=1, keepdim=True)
        each = [-math.log(row[i]) for row, i in zip(p, labels, strict=True)]
        loss = F.cross_entropy(scores, labels, **options or {})
        assert near(loss, sum(each) / len(each))


def test_cross_entropy_is_minus_log_p__also_in_float64(snippet):
    test_cross_entropy_is_minus_log_p(snippet, torch.float64)


@edits(
    ("torch.tensor([1]))  # it rained", "torch.tensor([0]))"),
    ("loss = F.cross_entropy(scores", "loss = F.multi_margin_loss(scores"),
)
def test_cross_entropy_is_minus_log_p__but_not_of_another(
    snippet, old, new, fails
):
    """With label 0 in place of 1, the loss is 0.35; and `multi_margin_loss`
    computes something else.
    """
    fails(test_cross_entropy_is_minus_log_p, snippet.edit(old, new))


def test_cross_entropy_is_minus_log_p__ends_as_a_sum(snippet, fails):
    """With `reduction="sum"`: the losses are added up, and not divided by
    their number.
    """
    inputs = snippet, torch.float32, {"reduction": "sum"}
    fails(test_cross_entropy_is_minus_log_p, *inputs)


def test_binary_cross_entropy_is_minus_log_p(
    snippet, dtype=torch.float32, options=None
):
    run = snippet.after("four-questions")

    scores = run.will_it_rain(run.days)[:, 0], run.which_alarms(run.days)
    targets = run.rained, run.alarms
    said = run.losses["will it rain"], run.losses["which alarms"]
    cases = list(zip(scores, targets, said, strict=True))
    for seed, shape in enumerate(((1,), (7,), (5, 4), (2, 3, 4))):
        torch.manual_seed(seed)
        score = 3 * torch.randn(shape, dtype=dtype)
        target = torch.randint(2, shape).to(dtype)
        loss = ONE_SCORE(score, target, **options or {})
        cases.append((score, target, loss))
    for score, target, loss in cases:
        p = 1 / (1 + (-score.double()).exp())
        each = torch.where(target > 0, -p.log(), -(1 - p).log())
        assert near(loss, each.sum() / each.numel())


def test_binary_cross_entropy_is_minus_log_p__also_in_float64(snippet):
    test_binary_cross_entropy_is_minus_log_p(snippet, torch.float64)


@edits(
    ("F.binary_cross_entropy_with_logits\n", "F.soft_margin_loss\n"),
    ("rained.float()),\n", "1.0 - rained.float()),\n"),
    ("alarms.float()", "alarms.float() / 2"),
)
def test_binary_cross_entropy_is_minus_log_p__but_not_of_another(
    snippet, old, new, fails
):
    """`soft_margin_loss` costs something else, and so do targets that are
    swapped or halved.
    """
    fails(test_binary_cross_entropy_is_minus_log_p, snippet.edit(old, new))


def test_binary_cross_entropy_is_minus_log_p__ends_as_a_sum(snippet, fails):
    """With `reduction="sum"`: the losses are added up, and not divided by
    their number.
    """
    inputs = snippet, torch.float32, {"reduction": "sum"}
    fails(test_binary_cross_entropy_is_minus_log_p, *inputs)


def shares(scores):
    return scores.softmax(dim=1)


def test_scores_are_log_odds(snippet, scores=None, shares=shares):
    run = snippet.after("from-scores")
    if scores is None:
        scores = run.scores.detach()
        odds = shares(scores)[0, 0] / shares(scores)[0, 1]
        assert scores[0, 0] - scores[0, 1] == 1
        assert odds.item() == pytest.approx(2.72, abs=0.005)

    logs = shares(scores).log()
    for i in range(scores.shape[1]):
        for j in range(i):
            gap = scores[:, i] - scores[:, j]
            assert near(logs[:, i] - logs[:, j], gap)


@pytest.mark.parametrize("classes", [2, 10], ids="{} classes".format)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_are_log_odds__also_with(snippet, classes, dtype):
    scores, _ = batch(classes=classes, dtype=dtype)
    test_scores_are_log_odds(snippet, scores.detach())


def test_scores_are_log_odds__but_not_of_a_sigmoid(snippet, fails):
    """`sigmoid` looks at each score alone."""
    fails(test_scores_are_log_odds, snippet, None, torch.sigmoid)


@edits(("[[2.0, 1.0, -1.0]]", "[[2.0, 0.0, -1.0]]"))
def test_scores_are_log_odds__but_not_further_apart(snippet, old, new, fails):
    """Two apart, sun is e² = 7.39 times as likely."""
    fails(test_scores_are_log_odds, snippet.edit(old, new))


def test_scores_are_log_odds__ends_with_scores_far_apart(snippet, fails):
    """Where scores are 200 apart, the smaller probability rounds to 0."""
    fails(test_scores_are_log_odds, snippet, torch.tensor([[200.0, 0.0]]))


def test_the_slope_is_p_minus_target(snippet, samples=1, answers=1):
    run = snippet.after("from-scores")
    p, target = run.scores.softmax(dim=1), torch.tensor([[0.0, 1.0, 0.0]])
    assert near(run.scores.grad, p - target)
    assert round(p[0, 1].item(), 2) == 0.26
    assert round(run.scores.grad[0, 1].item(), 2) == -0.74

    for seed, classes in enumerate((2, 3, 50)):
        for dtype in DTYPES:
            scores, labels = batch(samples, classes, dtype, seed)
            found = gradient(F.cross_entropy(scores, labels), scores)
            assert near(found, scores.softmax(1) - F.one_hot(labels, classes))
            score = scores[:1, 0].expand(answers).detach().requires_grad_()
            for yes in (0.0, 1.0):
                target = torch.full_like(score, yes)
                found = gradient(ONE_SCORE(score, target), score)
                assert near(found, score.sigmoid() - target)


def test_the_slope_is_p_minus_target__ends_for_two_samples(snippet, fails):
    """For two samples: the mean halves each gradient."""
    fails(test_the_slope_is_p_minus_target, snippet, 2)


def test_the_slope_is_p_minus_target__ends_for_two_answers(snippet, fails):
    """For two yes-or-no scores: the mean halves each gradient."""
    fails(test_the_slope_is_p_minus_target, snippet, 1, 2)


@edits(
    ("torch.tensor([1]))  # it rained", "torch.tensor([2]))"),
    ("loss.backward()", "(2 * loss).backward()"),
    ("loss.backward()", "(loss - scores[0, 0]).backward()"),
)
def test_the_slope_is_p_minus_target__but_not_of_another_loss(
    snippet, old, new, fails
):
    """If it snowed, rain's gradient is 0.26; the other edits change the loss
    itself, and its gradients with it.
    """
    fails(test_the_slope_is_p_minus_target, snippet.edit(old, new))


def test_squared_error_gives_up(snippet):
    run = snippet.after("gradients")
    score, sigmoid = run.score, run.score.sigmoid()

    assert score[0] == -8
    assert abs(run.gradients["cross-entropy"][0] + 1) < 0.001
    assert abs(run.gradients["squared error"][0]) < 0.001
    squared = 2 * (sigmoid - 1) * sigmoid * (1 - sigmoid)
    assert near(run.gradients["squared error"], squared)
    assert near(run.gradients["cross-entropy"], sigmoid - 1)
    yes = torch.ones_like(score)
    assert near(run.curves["squared error"], (sigmoid - yes) ** 2)
    assert near(run.curves["cross-entropy"], -sigmoid.log())


@edits(
    ("yes = torch.ones(161)", "yes = torch.zeros(161)"),
    ("(score.sigmoid() - yes) ** 2", "(score - yes) ** 2"),
    ("torch.linspace(-8, 8", "torch.linspace(-2, 8"),
)
def test_squared_error_gives_up__but_not_so(snippet, old, new, fails):
    """On a dry day, both gradients are 0.00; without the sigmoid, that of the
    squared error is `-18`.
    """
    fails(test_squared_error_gives_up, snippet.edit(old, new))


# Why from scores


def test_two_steps_lose_the_slope(
    snippet, value=20.0, dtype=torch.float32, target=0.0
):
    run = snippet.after("two-steps")
    assert run.score.item() >= 20
    assert run.lost[0] == (100, torch.zeros(1))

    score = torch.tensor([value], dtype=dtype, requires_grad=True)
    sigmoid = score.sigmoid()
    assert sigmoid == 1
    loss = F.binary_cross_entropy(sigmoid, torch.full_like(sigmoid, target))
    assert run.with_gradient(loss, score) == (100, torch.zeros(1))


@pytest.mark.parametrize("value", [20.5, 35.0, 100.0, 10_000.0])
def test_two_steps_lose_the_slope__also_beyond_20(snippet, value):
    test_two_steps_lose_the_slope(snippet, value)


def test_two_steps_lose_the_slope__ends_at_10(snippet, fails):
    """At a score of 10: the sigmoid is still below 1."""
    fails(test_two_steps_lose_the_slope, snippet, 10.0)


def test_two_steps_lose_the_slope__ends_in_float64(snippet, fails):
    """In `float64`: the sigmoid of 20 is still below 1."""
    fails(test_two_steps_lose_the_slope, snippet, 20.0, torch.float64)


def test_two_steps_lose_the_slope__ends_with_a_target_of_1(snippet, fails):
    """With a target of 1: the answer is right, and the loss 0."""
    fails(test_two_steps_lose_the_slope, snippet, 20.0, torch.float32, 1.0)


def test_two_steps_lose_the_slope__but_not_in_one_step(snippet, fails):
    """`binary_cross_entropy_with_logits` takes the score itself: the loss is
    20, its gradient 1.
    """
    old = "F.binary_cross_entropy(score.sigmoid(), torch.zeros(1))"
    edited = snippet.edit(old, "yes_or_no(score, torch.zeros(1))")
    fails(test_two_steps_lose_the_slope, edited)


def test_log_of_softmax_is_inf(snippet, gap=120.0, dtype=torch.float32):
    run = snippet.after("two-steps")
    assert run.far[0, 1] - run.far[0, 0] >= 120
    assert run.lost[1][0] == math.inf
    assert run.lost[1][1].isnan().all()

    for label in (0, 1):
        for shift in (-500.0, 0.0, 30.0):
            rows = torch.full((1, 2), shift, dtype=dtype)
            rows[0, label] -= gap
            rows.requires_grad_()
            loss = -rows.softmax(dim=1)[0, label].log()
            value, gradients = run.with_gradient(loss, rows)
            assert value == math.inf
            assert gradients.isnan().all()


@pytest.mark.parametrize("gap", [121.0, 200.0, 10_000.0])
def test_log_of_softmax_is_inf__also_for_gaps_of(snippet, gap):
    test_log_of_softmax_is_inf(snippet, gap)


def test_log_of_softmax_is_inf__ends_80_lower(snippet, fails):
    """At 80 below the other: the softmax is not yet 0, and the loss is 80."""
    fails(test_log_of_softmax_is_inf, snippet, 80.0)


def test_log_of_softmax_is_inf__ends_in_float64(snippet, fails):
    """In `float64`: at 120 below the other, the softmax is not yet 0, and the
    loss is 120.
    """
    fails(test_log_of_softmax_is_inf, snippet, 120.0, torch.float64)


@edits(
    ("far.softmax(dim=1)[0, 0].log()", "far.log_softmax(dim=1)[0, 0]"),
    ("far.softmax(dim=1)[0, 0].log()", "far.softmax(dim=1)[0, 1].log()"),
)
def test_log_of_softmax_is_inf__but_not_so(snippet, old, new, fails):
    """`log_softmax` gives the right loss, 120; and the softmax of the other
    class is 1, which costs 0.
    """
    fails(test_log_of_softmax_is_inf, snippet.edit(old, new))


def test_one_step_is_right(snippet, most=10_000.0):
    run = snippet.after("one-step")
    (dry, dry_gradient), (first, first_gradient) = run.kept
    assert (dry, first) == (20, 120)
    assert near(dry_gradient, [1.0])
    assert near(first_gradient, [[-1.0, 1.0]])

    for value in (20.0, 35.0, 100.0, 10_000.0):
        for yes in (0.0, 1.0):
            wrong = [-value if yes else value]
            score = torch.tensor(wrong, requires_grad=True)
            loss = ONE_SCORE(score, torch.tensor([yes]))
            loss, gradients = run.with_gradient(loss, score)
            assert near(loss, value + math.log1p(math.exp(-value)))
            p = 1 / (1 + math.exp(-value))
            assert near(gradients, [-p if yes else p])
    for gap in (20.0, 35.0, 120.0, most):
        rows = torch.tensor([[0.0, gap]], requires_grad=True)
        first = F.cross_entropy(rows, torch.tensor([0]))
        loss, gradients = run.with_gradient(first, rows)
        p = math.exp(-gap)
        assert near(loss, gap + math.log1p(p))
        assert near(gradients, [[p - 1, 1 - p]])


@edits(
    (
        "dry = yes_or_no(score, torch",
        "dry = F.binary_cross_entropy(score.sigmoid(), torch",
    ),
    (
        "first = F.cross_entropy(far, torch.tensor([0]))",
        "first = -far.softmax(dim=1)[0, 0].log()",
    ),
)
def test_one_step_is_right__but_not_in_two_steps(snippet, old, new, fails):
    """With the sigmoid or the softmax first, the loss is 100 or inf, and the
    gradient 0 or nan.
    """
    fails(test_one_step_is_right, snippet.edit(old, new))


def test_one_step_is_right__ends_with_an_infinite_lead(snippet, fails):
    """If the other score is infinite: the loss is nan."""
    fails(test_one_step_is_right, snippet, math.inf)


@edits(
    (
        "kept = with_gradient(dry, score)",
        "kept = with_gradient(dry + score - score.detach(), score)",
    ),
    (
        "with_gradient(first, far)\n\nprint(*k",
        "with_gradient(first + (far - far.detach()).sum(), far)\n\nprint(*k",
    ),
)
def test_one_step_is_right__but_not_its_slopes(snippet, old, new, fails):
    """The added term is 0, so the loss is right, but it brings a gradient of
    its own.
    """
    fails(test_one_step_is_right, snippet.edit(old, new))


# Which loss takes what


def goes_through(name, shapes, dtypes):
    """Tell whether a loss takes outputs and targets, up to backward."""
    torch.manual_seed(0)
    outputs = torch.rand(shapes[0], dtype=dtypes[0], requires_grad=True)
    targets = torch.randint(2, shapes[1]).to(dtypes[1])
    with warnings.catch_warnings(action="error"):
        try:
            getattr(F, name)(outputs, targets).backward()
        except (RuntimeError, ValueError, UserWarning):
            return False
    return True


def row(run, name, shape):
    """Return the dtypes that the table names."""
    words = run.targets[name][f"targets {shape}"]
    return set() if words == "none" else set(words.split(", "))


def test_rows_name_what_is_taken(snippet, outputs=torch.float32):
    with warnings.catch_warnings(action="ignore"):
        run = snippet.after("targets")

    assert [*run.targets] == [*OF_SHAPES, *OF_CLASSES]
    for name, columns in run.targets.items():
        assert len(columns) == 3
        for shape in ((6, 3), (6,), (6, 1)):
            for word, dtype in SIX.items():
                taken = goes_through(name, ((6, 3), shape), (outputs, dtype))
                assert taken == (word in row(run, name, shape))


def test_rows_name_what_is_taken__ends_with_float64(snippet, fails):
    """With `float64` outputs: targets of other dtypes are accepted than the
    table names.
    """
    fails(test_rows_name_what_is_taken, snippet, torch.float64)


@edits(
    # up to backward
    ("outputs, targets).backward()", "outputs, targets)"),
    # nor a warning
    ('action="error"', 'action="ignore"'),
    # nor an error
    ("            continue\n", "            pass\n"),
    # these targets
    ("torch.ones(shape,", "torch.ones(shape[:1],"),
)
def test_rows_name_what_is_taken__but_not_asked_so(snippet, old, new, fails):
    """Without `backward()`, or with warnings or errors ignored, the table
    names dtypes that it should not.
    """
    fails(test_rows_name_what_is_taken, snippet.edit(old, new))


def test_class_numbers_or_equal_shapes(
    snippet, label="int64", column=False, outputs="float32", target="float32"
):
    run = snippet.after("targets")
    dtype = SIX[outputs]

    for name in OF_CLASSES:
        assert {"int64", "uint8"} == row(run, name, (6,))
        for n, classes in ((1, 2), (6, 3), (5, 10)):
            shapes = (n, classes), (n, 1) if column else (n,)
            assert goes_through(name, shapes, (dtype, SIX[label]))
    for name in OF_SHAPES:
        assert "float32" in row(run, name, (6, 3))
        assert not row(run, name, (6,))
        for shape in ((6,), (6, 1), (6, 3), (2, 3, 4)):
            assert goes_through(name, (shape, shape), (dtype, SIX[target]))


@pytest.mark.parametrize("label", ["int64", "uint8"])
@pytest.mark.parametrize("outputs", ["float32", "float64"])
def test_class_numbers_or_equal_shapes__also_of(snippet, label, outputs):
    test_class_numbers_or_equal_shapes(snippet, label, False, outputs, outputs)


def test_class_numbers_or_equal_shapes__ends_for_int32(snippet, fails):
    """For class numbers in `int32`: `cross_entropy` does not take them."""
    fails(test_class_numbers_or_equal_shapes, snippet, "int32")


def test_class_numbers_or_equal_shapes__ends_for_a_column(snippet, fails):
    """For class numbers as a column, of shape (N, 1): `cross_entropy` does not
    take them.
    """
    fails(test_class_numbers_or_equal_shapes, snippet, "int64", True)


def test_class_numbers_or_equal_shapes__ends_for_two_dtypes(snippet, fails):
    """For `float32` outputs and `float64` targets: `huber_loss` does not take
    them.
    """
    inputs = "int64", False, "float32", "float64"
    fails(test_class_numbers_or_equal_shapes, snippet, *inputs)


def test_class_numbers_or_equal_shapes__but_not_of_one_number_a_row(
    snippet, fails
):
    """If the outputs have shape (6,) as well, `cross_entropy` reads such
    targets as probabilities.
    """
    edited = snippet.edit("torch.full((6, 3), 0.5", "torch.full((6,), 0.5")
    fails(test_class_numbers_or_equal_shapes, edited)


def test_probabilities_are_targets_too(
    snippet, target=torch.float32, shift=0, lowest=-9.0, weighted=False
):
    run = snippet.after("targets")
    assert row(run, "cross_entropy", (6, 3)) == {"float32", "float64"}

    for seed, shape in enumerate(((1, 2), (7, 4), (5, 50))):
        scores, labels = batch(*shape, seed=seed)
        torch.manual_seed(seed)
        rows = torch.rand(shape).softmax(dim=1)
        wanted = -(rows * scores.log_softmax(dim=1)).sum(dim=1).mean()
        with no_error():
            found = F.cross_entropy(scores, rows)
        assert near(found, wanted)
        rows = F.one_hot(labels, shape[1]).roll(shift, 1).to(target)
        scores = lowered(scores, labels, lowest)
        weight = torch.arange(1.0, 1 + shape[1]) if weighted else None
        wanted = F.cross_entropy(scores, labels, weight)
        with no_error():
            found = F.cross_entropy(scores, rows, weight)
        assert near(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_probabilities_are_targets_too__also_in(snippet, dtype):
    test_probabilities_are_targets_too(snippet, dtype)


def test_probabilities_are_targets_too__ends_for_integers(snippet, fails):
    """For one-hot rows of integers: they raise an error."""
    fails(test_probabilities_are_targets_too, snippet, torch.int64)


def test_probabilities_are_targets_too__but_not_of_other_labels(
    snippet, fails
):
    """Shift each 1 to the next class, and the rows cost what other labels
    do.
    """
    fails(test_probabilities_are_targets_too, snippet, torch.float32, 1)


def test_probabilities_are_targets_too__ends_for_infinite_scores(
    snippet, fails
):
    """If a class has a score of `-inf`: one-hot rows cost nan, because the row
    multiplies it by 0.
    """
    inputs = snippet, torch.float32, 0, -math.inf
    fails(test_probabilities_are_targets_too, *inputs)


def test_probabilities_are_targets_too__ends_with_class_weights(
    snippet, fails
):
    """With class weights: rows are divided by the number of samples, class
    numbers by the sum of their weights.
    """
    inputs = snippet, torch.float32, 0, -9.0, True
    fails(test_probabilities_are_targets_too, *inputs)


def test_probabilities_are_targets_too__but_not_in_nll_loss(snippet, fails):
    """`nll_loss` in its place takes no rows of probabilities."""
    old = "getattr(F, name)(outputs, targets)"
    new = 'getattr(F, name.removeprefix("cross_entropy") or "nll_loss")'
    edited = snippet.edit(old, f"{new}(outputs, targets)")
    fails(test_probabilities_are_targets_too, edited)


FREE = {
    "cross_entropy": {"scores", "log-probabilities"},
    "binary_cross_entropy_with_logits": {"scores"},
    "nll_loss": {"log-probabilities"},
    "mse_loss": {"probabilities"},
    "l1_loss": {"probabilities"},
    "huber_loss": {"probabilities"},
    "binary_cross_entropy": {"probabilities"},
}


def test_each_loss_wants_its_form(snippet):
    run = snippet.after("sure-and-right")
    forms = {"scores", "probabilities", "log-probabilities"}

    assert run.sure[0].tolist() == [9, -9, -9]
    assert near(run.forms["probabilities"], run.sure.softmax(dim=1))
    assert near(run.forms["log-probabilities"].exp(), run.sure.softmax(dim=1))
    assert run.costs.keys() == FREE.keys()
    for name, costs in run.costs.items():
        assert costs.keys() == forms
        free = {form for form, cost in costs.items() if cost == "0.00"}
        assert free == FREE[name]


@edits(
    # another answer
    (
        "sun = torch.tensor([[9.0, -9.0, -9.0]]), torch.tensor([0])",
        "sun = torch.tensor([[9.0, -9.0, -9.0]]), torch.tensor([1])",
    ),
    # other forms
    ('"scores": sure,', '"scores": sure.softmax(dim=1),'),
    ('"probabilities": sure.softmax(dim=1)', '"probabilities": sure'),
    (": sure.log_softmax(dim=1)", ": sure.softmax(dim=1).softmax(dim=1)"),
)
def test_each_loss_wants_its_form__but_not_so(snippet, old, new, fails):
    """With another sky as the label, the answer is wrong, and costs something;
    the other edits fill a column with another form.
    """
    fails(test_each_loss_wants_its_form, snippet.edit(old, new))


def test_nll_of_scores_has_no_floor(snippet):
    run = snippet.after("sure-and-right")
    assert run.costs["nll_loss"]["scores"] == "-9.00"

    for seed, dtype in enumerate(DTYPES):
        scores, labels = batch(dtype=dtype, seed=seed)
        right = [line[i] for line, i in zip(scores, labels, strict=True)]
        with no_error():
            loss = F.nll_loss(scores, labels)
        assert near(loss, -sum(right) / len(right))
        for size in (1e3, 1e6, 1e9):
            sure = size * F.one_hot(labels, 4).to(dtype)
            assert near(F.nll_loss(sure, labels) / size, -1.0)


@edits(
    ('"scores": sure,', '"scores": sure.log_softmax(dim=1),'),
    ("loss(outputs, targets).item()", "abs(loss(outputs, targets).item())"),
)
def test_nll_of_scores_has_no_floor__but_not_so(snippet, old, new, fails):
    """With `log_softmax` first, the loss is 0.00 and not `-9.00`; and `abs`
    drops the minus sign.
    """
    fails(test_nll_of_scores_has_no_floor, snippet.edit(old, new))


def test_bce_refuses_scores(snippet, inside=1.0):
    run = snippet.after("sure-and-right")
    assert run.costs["binary_cross_entropy"]["scores"] == OUTSIDE

    for outside in (-9.0, -0.001, 1.001, 9.0, math.nan):
        for place in range(3):
            outputs, targets = torch.full((3,), 0.5), torch.zeros(3)
            outputs[place] = inside
            assert not error_of(F.binary_cross_entropy, outputs, targets)
            outputs[place] = outside
            said = error_of(F.binary_cross_entropy, outputs, targets)
            assert said == OUTSIDE


def test_bce_refuses_scores__also_but_for_0(snippet):
    test_bce_refuses_scores(snippet, 0.0)


def test_bce_refuses_scores__but_not_from_0_to_1(snippet, fails):
    """The sigmoid of the scores lies between 0 and 1, and raises no error."""
    edited = snippet.edit('"scores": sure,', '"scores": sure.sigmoid(),')
    fails(test_bce_refuses_scores, edited)


def test_equal_scores_cost_ln_k(snippet, height=0.0, highest=30.0):
    run = snippet.after("first-loss")
    assert near(run.cost, math.log(run.classes))

    for seed, classes in enumerate((2, 3, 10, 1000)):
        for dtype in DTYPES:
            _, labels = batch(9, classes, seed=seed)
            for each in (0.0, -7.0, highest):
                scores = torch.full((9, classes), each, dtype=dtype)
                loss = F.cross_entropy(scores, labels)
                assert near(loss, math.log(classes))
            target = labels.clamp(max=1).to(dtype)
            score = torch.full((9,), height, dtype=dtype)
            assert near(ONE_SCORE(score, target), math.log(2))


def test_equal_scores_cost_ln_k__ends_for_a_score_of_1(snippet, fails):
    """For a score of 1 in place of 0: a no costs more, and a yes less."""
    fails(test_equal_scores_cost_ln_k, snippet, 1.0)


def test_equal_scores_cost_ln_k__ends_for_infinite_scores(snippet, fails):
    """For infinite scores: equal ones cost nan in `cross_entropy`."""
    fails(test_equal_scores_cost_ln_k, snippet, 0.0, math.inf)


def test_equal_scores_cost_ln_k__but_not_of_other_scores(snippet, fails):
    """The scores of `torch.eye` are not equal, and cost something else."""
    old = "torch.zeros(5, classes)"
    edited = snippet.edit(old, "torch.eye(5, classes)")
    fails(test_equal_scores_cost_ln_k, edited)


# What goes wrong


@true_since("2.12", "it said `expected scalar type Long but found Float`")
def test_labels_are_long_or_byte(snippet):
    run = snippet.after("wrong-targets")
    assert run.texts[0] == LONG_OR_BYTE.format("Float")

    names = {torch.float16: "Half", torch.bfloat16: "BFloat16"}
    names |= {torch.float32: "Float", torch.float64: "Double"}
    names |= {torch.int32: "Int", torch.int16: "Short", torch.int8: "Char"}
    names |= {torch.bool: "Bool"}
    for seed, shape in enumerate(((1, 2), (7, 4), (5, 50))):
        scores, labels = batch(*shape, seed=seed)
        for dtype, name in names.items():
            said = error_of(F.cross_entropy, scores, labels.to(dtype))
            assert said == LONG_OR_BYTE.format(name)
        for dtype in (torch.int64, torch.uint8):
            assert not error_of(F.cross_entropy, scores, labels.to(dtype))


@edits(
    ("wrong = skies.float(),", "wrong = skies.long(),"),
    ("wrong = skies.float(),", "wrong = skies.byte(),"),
)
def test_labels_are_long_or_byte__but_not_of(snippet, old, new, fails):
    """Labels in `int64` or `uint8` raise no error."""
    fails(test_labels_are_long_or_byte, snippet.edit(old, new))


def test_a_column_of_labels_is_refused(snippet, fewest=2):
    run = snippet.after("wrong-targets")
    assert run.texts[1] == MULTI
    assert run.column.shape == (6, 1)

    for classes in (fewest, 3, 50):
        for n in (1, 7):
            scores, labels = batch(n, classes)
            for dtype in SIX.values():
                column = labels.to(dtype)[:, None]
                assert error_of(F.cross_entropy, scores, column) == MULTI


def test_a_column_of_labels_is_refused__ends_for_one_class(snippet, fails):
    """For one class: (N, 1) is then the shape of the scores, and
    `cross_entropy` raises another error.
    """
    fails(test_a_column_of_labels_is_refused, snippet, 1)


def test_a_column_of_labels_is_refused__but_not_flat(snippet, fails):
    """Without `unsqueeze(1)`, the labels have shape (N,), and raise no
    error.
    """
    edited = snippet.edit("skies.unsqueeze(1)", "skies")
    fails(test_a_column_of_labels_is_refused, edited)


def test_one_hot_integers_are_refused(snippet):
    run = snippet.after("wrong-targets")
    assert run.texts[2] == ONE_HOT.format("Long")

    names = {torch.int64: "Long", torch.int32: "Int", torch.uint8: "Byte"}
    for seed, shape in enumerate(((1, 1), (1, 2), (7, 4), (5, 50))):
        scores, labels = batch(*shape, seed=seed)
        for dtype, name in names.items():
            rows = F.one_hot(labels, shape[1]).to(dtype)
            for each in (rows, rows + 1):
                said = error_of(F.cross_entropy, scores, each)
                assert said == ONE_HOT.format(name)


@edits(
    ("F.one_hot(skies)\n", "F.one_hot(skies).float()\n"),
    ("F.one_hot(skies)\n", "F.one_hot(skies, 4)\n"),
)
def test_one_hot_integers_are_refused__but_not(snippet, old, new, fails):
    """`float()` makes probabilities of the rows; rows with a class too many
    raise another error.
    """
    fails(test_one_hot_integers_are_refused, snippet.edit(old, new))


SIZES = "Expected input batch_size ({}) to match target batch_size ({})."


def test_batch_sizes_are_named(snippet, swapped=False):
    run = snippet.after("wrong-targets")
    assert run.texts[3] == SIZES.format(6, 5)
    assert run.wrong[3].shape == (5,)

    for n, m in ((6, 5), (5, 6), (1, 3), (32, 20)):
        scores, _ = batch(n)
        said = error_of(F.cross_entropy, scores, batch(m)[1])
        assert said == SIZES.format(*((m, n) if swapped else (n, m)))


def test_batch_sizes_are_named__but_not_the_labels_first(snippet, fails):
    """The error names the scores' size first, then the labels'."""
    fails(test_batch_sizes_are_named, snippet, True)


def test_batch_sizes_are_named__but_not_of_as_many(snippet, fails):
    """Six labels for six rows of scores raise no error."""
    fails(test_batch_sizes_are_named, snippet.edit("skies[:5]", "skies[:6]"))


def test_labels_run_from_zero(snippet, ignored=-100):
    run = snippet.after("wrong-targets")
    assert run.texts[4] == "Target 3 is out of bounds."

    def loss(scores, labels):
        return F.cross_entropy(scores, labels, ignore_index=ignored)

    for classes in (2, 3, 50):
        scores, labels = batch(7, classes)
        for wrong in (-101, -99, -1, classes, classes + 5):
            labels[3] = wrong
            said = f"Target {wrong} is out of bounds."
            assert error_of(loss, scores, labels) == said
        for right in (0, classes - 1, -100):
            labels[3] = right
            assert not error_of(loss, scores, labels)


def test_labels_run_from_zero__ends_for_what_is_ignored(snippet, fails):
    """With `ignore_index=-1`: `-1` is then the label to ignore, and raises
    nothing.
    """
    fails(test_labels_run_from_zero, snippet, -1)


@edits(
    ("skies + 1\n", "2 - skies\n"),
    ("skies + 1\n", "skies - 100 * (skies > 1)\n"),
)
def test_labels_run_from_zero__but_not_within_the_classes(
    snippet, old, new, fails
):
    """Labels from 0 to 2 are all classes, and `-100` is ignored."""
    if "100" in new:
        new = new.replace("skies - 100", "skies - 102")
    fails(test_labels_run_from_zero, snippet.edit(old, new))


def test_three_fixes_give_the_loss(snippet, lowest=-9.0, weighted=False):
    run = snippet.after("right-targets")
    wanted = F.cross_entropy(run.which_sky(run.days), run.skies)
    for found in (run.numbers, run.squeezed, run.rows):
        assert near(found, wanted)

    for seed, shape in enumerate(((1, 2), (7, 4), (5, 50))):
        for dtype in DTYPES:
            scores, labels = batch(*shape, dtype, seed)
            scores = lowered(scores, labels, lowest)
            weight = torch.arange(1, 1 + shape[1]).to(dtype)
            weight = weight if weighted else None
            wanted = F.cross_entropy(scores, labels, weight)
            fixes = labels.to(dtype).long(), labels[:, None].squeeze(1)
            for fixed in (*fixes, F.one_hot(labels, shape[1]).float()):
                assert near(F.cross_entropy(scores, fixed, weight), wanted)


def test_three_fixes_give_the_loss__ends_for_infinite_scores(snippet, fails):
    """If a class has a score of `-inf`: one-hot rows cost nan."""
    fails(test_three_fixes_give_the_loss, snippet, -math.inf)


def test_three_fixes_give_the_loss__ends_with_class_weights(snippet, fails):
    """With class weights: one-hot rows are divided by the number of samples,
    and labels by the sum of their weights.
    """
    fails(test_three_fixes_give_the_loss, snippet, -9.0, True)


@edits(
    ("skies.float().long())", "(skies.float() / 2).long())"),
    ("column.squeeze(1))", "column.squeeze(1).flip(0))"),
    ("one_hot.float())", "one_hot.float() / 2)"),
)
def test_three_fixes_give_the_loss__but_not_of_other_labels(
    snippet, old, new, fails
):
    """Halve the labels first, or reverse their order, and the loss is not the
    same; nor is it with halved rows.
    """
    fails(test_three_fixes_give_the_loss, snippet.edit(old, new))


def weeks(n, length, classes, dtype=torch.float32):
    """Return scores of sequences, and labels."""
    scores, labels = batch(n * length, classes, dtype)
    return scores.reshape(n, length, classes), labels.reshape(n, length)


def over_axis_one(scores, labels):
    """Return the cross-entropy by hand, its classes in axis 1."""
    chances = scores.softmax(dim=1).gather(1, labels[:, None])
    return -chances.log().mean()


AXIS = "Expected target size [{0}, {2}], got [{0}, {1}]"


def test_axis_one_holds_the_classes(snippet, shape=(2, 7, 3)):
    run = snippet.after("wrong-axis")
    assert run.week_scores.shape == (2, 7, 3)
    assert run.text == AXIS.format(2, 7, 3)

    for sizes in (shape, (1, 2, 3), (4, 3, 7), (2, 1, 3), (2, 7, 1)):
        scores, labels = weeks(*sizes)
        assert error_of(F.cross_entropy, scores, labels) == AXIS.format(*sizes)
        turned = scores.transpose(1, 2)
        wanted = over_axis_one(turned, labels)
        assert near(F.cross_entropy(turned, labels), wanted)


def test_axis_one_holds_the_classes__ends_for_as_many_days_as_classes(
    snippet, fails
):
    """If K and L are equal: the shapes fit, and it raises nothing."""
    fails(test_axis_one_holds_the_classes, snippet, (2, 3, 3))


def test_axis_one_holds_the_classes__but_not_turned(snippet, fails):
    """Transposed, axis 1 holds the three classes, and it raises nothing."""
    old = "tried(F.cross_entropy, week_scores,"
    new = "tried(F.cross_entropy, week_scores.transpose(1, 2),"
    fails(test_axis_one_holds_the_classes, snippet.edit(old, new))


def test_as_many_classes_as_days_raise_nothing(
    snippet, length=3, classes=3, turned=False
):
    """No cell shows it: `cross_entropy` itself decides."""
    run = snippet.after("wrong-axis")
    assert run.text.startswith("Expected target size")

    for n in (2, 3, 5):
        for dtype in DTYPES:
            scores, labels = weeks(n, length, classes, dtype)
            scores = scores.transpose(1, 2) if turned else scores
            with no_error():
                loss = F.cross_entropy(scores, labels)
            assert near(loss, over_axis_one(scores, labels))
            right = F.cross_entropy(weeks(n, length, classes)[0].mT, labels)
            assert not near(loss, right)


@pytest.mark.parametrize("size", [2, 7])
def test_as_many_classes_as_days_raise_nothing__also_of(snippet, size):
    test_as_many_classes_as_days_raise_nothing(snippet, size, size)


def test_as_many_classes_as_days_raise_nothing__ends_with_more_days(
    snippet, fails
):
    """With four days and three classes: `Expected target size` is raised."""
    fails(test_as_many_classes_as_days_raise_nothing, snippet, 4, 3)


def test_as_many_classes_as_days_raise_nothing__ends_once_transposed(
    snippet, fails
):
    """If the scores are transposed first: axis 1 holds the classes, and the
    loss is the right one.
    """
    fails(test_as_many_classes_as_days_raise_nothing, snippet, 3, 3, True)


def test_two_fixes_for_sequences(snippet, padded=0.0):
    run = snippet.after("right-axis")

    cases = [(run.week_scores, run.week_skies, run.transposed, run.flat)]
    for sizes in ((1, 2, 3), (4, 3, 7), (3, 3, 3), (5, 8, 2)):
        for dtype in DTYPES:
            scores, labels = weeks(*sizes, dtype)
            labels[torch.rand(labels.shape) < padded] = -100
            transposed = F.cross_entropy(scores.transpose(1, 2), labels)
            flat = scores.flatten(0, 1), labels.flatten()
            cases.append((scores, labels, transposed, F.cross_entropy(*flat)))
    for scores, labels, *fixed in cases:
        n, length, _ = scores.shape
        each = [
            F.cross_entropy(scores[i, j], labels[i, j])
            for i in range(n)
            for j in range(length)
            if labels[i, j] != -100
        ]
        for loss in fixed:
            assert near(loss, sum(each) / len(each) if each else 0.0)


def test_two_fixes_for_sequences__also_with_padding(snippet):
    test_two_fixes_for_sequences(snippet, 0.4)


def test_two_fixes_for_sequences__ends_if_every_label_is_padding(
    snippet, fails
):
    """If every label is `-100`: the mean is over none, and the loss is nan."""
    fails(test_two_fixes_for_sequences, snippet, 1.0)


@edits(
    ("week_scores.transpose(1, 2)", "week_scores.transpose(1, 2).flip(2)"),
    ("week_skies.flatten())", "week_skies.T.flatten())"),
    ("week_skies.flatten())", 'week_skies.flatten(), reduction="sum") / 13'),
)
def test_two_fixes_for_sequences__but_not_in_another_order(
    snippet, old, new, fails
):
    """Put labels and scores in different orders, or divide by 13 and not by
    14, and the loss differs.
    """
    fails(test_two_fixes_for_sequences, snippet.edit(old, new))


def test_a_yes_is_a_float(snippet, integer=torch.int64):
    run = snippet.after("wrong-answers")
    text = "result type Float can't be cast to the desired output type {}"
    shapes = "Target size ({}) must be the same as input size ({})"
    wanted = text.format("Long"), TWO_BOOLS
    wanted += (shapes.format(torch.Size([6]), torch.Size([6, 1])),)
    assert tuple(run.refusals) == wanted

    for shape in ((6,), (6, 1), (5, 4)):
        scores, targets = torch.zeros(shape), torch.ones(shape)
        said = error_of(ONE_SCORE, scores, targets.to(integer))
        assert said == text.format("Long")
        assert error_of(ONE_SCORE, scores, targets.bool()) == TWO_BOOLS
        assert not error_of(ONE_SCORE, scores, targets)
        for other in ((3,), (*shape, 1), (1, *shape)):
            said = error_of(ONE_SCORE, scores, torch.ones(other))
            sizes = torch.Size(other), scores.shape
            assert said == shapes.format(*sizes)


@edits(
    ("wrong = rained.long()[:, None],", "wrong = rained.double()[:, None],"),
    (", rained[:, None],", ", rained.float()[:, None],"),
    ("rained.float()\nrefusals", "rained.float()[:, None]\nrefusals"),
)
def test_a_yes_is_a_float__but_not_a_right_one(snippet, old, new, fails):
    """In its place, floats in the shape of the scores raise no error."""
    fails(test_a_yes_is_a_float, snippet.edit(old, new))


def test_a_yes_is_a_float__ends_for_uint64(snippet, fails):
    """For `uint64` in place of `int64`: the error has another text."""
    fails(test_a_yes_is_a_float, snippet, torch.uint64)


def test_one_column_learns_nothing(snippet, columns=1, highest=5.0):
    run = snippet.after("one-column")
    loss, weight_gradient = run.learned
    assert loss == 0
    assert torch.equal(weight_gradient, torch.zeros(1, 5))

    for seed, n in enumerate((1, 2, 100)):
        for dtype in DTYPES:
            scores, _ = batch(n, columns, dtype, seed)
            scores = (scores * highest).detach().requires_grad_()
            targets = 10 * torch.rand(n, columns, dtype=dtype) - 5
            for each in (targets, targets.round(), torch.ones_like(targets)):
                with no_error():
                    loss = F.cross_entropy(scores, each)
                assert loss == 0
                assert torch.equal(gradient(loss, scores), 0 * targets)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_one_column_learns_nothing__also_with_labels_of_0_and_smoothing_of(
    smoothing,
):
    scores, _ = batch(7, 1)
    labels = torch.zeros(7, dtype=torch.long)
    options = {"label_smoothing": smoothing}
    loss = F.cross_entropy(scores, labels, **options)

    assert loss == 0
    assert not gradient(loss, scores).any()


def test_one_column_learns_nothing__ends_with_two_columns(snippet, fails):
    """With two columns: there are two classes, and the loss is not 0."""
    fails(test_one_column_learns_nothing, snippet, 2)


def test_one_column_learns_nothing__ends_for_infinite_scores(snippet, fails):
    """For infinite scores: the loss is nan."""
    fails(test_one_column_learns_nothing, snippet, 1, math.inf)


@edits(
    ("rained.float()[:, None]", "0 * rained.long(), weight=torch.zeros(1)"),
    ("rained.float()[:, None]", "0 * rained.long(), ignore_index=0"),
)
def test_one_column_learns_nothing__ends_where_nothing_counts(
    snippet, old, new, fails
):
    """If the only class is ignored or has the weight 0, the loss is nan."""
    call = "nothing = F.cross_entropy(rain_score, {}"
    edited = snippet.edit(call.format(old), call.format(new))
    fails(test_one_column_learns_nothing, edited)


@pytest.mark.parametrize("n", [1, 2, 64])
def test_one_column_learns_nothing__also_without_a_second_class(n):
    labels = torch.zeros(n, dtype=torch.long)
    scores = 1000 * torch.randn(n, 1)

    assert F.cross_entropy(scores, labels) == 0
    with pytest.raises(IndexError):
        F.cross_entropy(scores, labels + 1)


def test_one_column_learns_nothing__but_not_with_the_right_loss(
    snippet, fails
):
    """`binary_cross_entropy_with_logits` reads the column as yes or no, and
    the model learns.
    """
    old = "nothing = F.cross_entropy("
    edited = snippet.edit(old, "nothing = yes_or_no(")
    fails(test_one_column_learns_nothing, edited)


def test_one_column_learns_nothing__but_not_with_a_slope(snippet, fails):
    """A loss whose value is 0 can still have gradients."""
    old = "nothing = F.cross_entropy(rain_score, rained.float()[:, None])"
    new = "nothing = rain_score.sum() - rain_score.sum().detach()"
    fails(test_one_column_learns_nothing, snippet.edit(old, new))


def test_softmax_twice_has_a_floor(snippet):
    run = snippet.after("twice")
    found = {classes: round(each, 3) for classes, each in run.floors.items()}
    assert found == {2: 0.313, 3: 0.551, 4: 0.744}

    for seed, classes in enumerate((2, 3, 4, 10, 1000)):
        floor = math.log(1 + (classes - 1) / math.e)
        if classes in run.floors:
            assert near(run.floors[classes], floor)
        for dtype in DTYPES:
            scores, labels = batch(50, classes, dtype, seed)
            rows = F.one_hot(labels, classes).to(dtype)
            for each in (scores, 0.1 * scores, 100 * scores, 9 * rows, rows):
                loss = F.cross_entropy(each.softmax(dim=1), labels)
                assert loss > floor - 1e-5
            assert near(F.cross_entropy(rows, labels), floor)


def test_softmax_twice_has_a_floor__but_not_with_a_logarithm(snippet, fails):
    """With `log_softmax` in place of `softmax`, the loss is that of the
    scores, and falls to 0.
    """
    edited = snippet.edit("certain.softmax", "certain.log_softmax")
    fails(test_softmax_twice_has_a_floor, edited)


@edits(
    # not probabilities
    ("certain.softmax(dim=1)", "certain"),
    # not sure
    ("100 * torch.eye(classes)[:1]", "1 * torch.eye(classes)[:1]"),
    # not right
    ("100 * torch.eye(classes)[:1]", "100 * torch.eye(classes)[1:2]"),
)
def test_softmax_twice_has_a_floor__but_not_so(snippet, old, new, fails):
    """Without the softmax, the loss falls to 0; with an unsure or wrong
    answer, it is above the floor.
    """
    fails(test_softmax_twice_has_a_floor, snippet.edit(old, new))


def test_sigmoid_twice_has_a_floor(snippet):
    run = snippet.after("twice")
    assert run.both[0] > 0.313
    assert run.both[1] > 0.693
    assert near(run.both, [math.log(1 + 1 / math.e), math.log(2)])

    for dtype in DTYPES:
        p = torch.linspace(0, 1, 1001, dtype=dtype)
        yes = ONE_SCORE(p, torch.ones_like(p), reduction="none")
        no = ONE_SCORE(p, torch.zeros_like(p), reduction="none")
        assert (yes.min() > 0.313, no.min() > 0.693) == (True, True)


@edits(
    ("surely.sigmoid()", "surely"),
    ("surely.sigmoid()", "surely.tanh()"),
    ("surely.sigmoid()", "2 * surely.sigmoid()"),
)
def test_sigmoid_twice_has_a_floor__but_not_beyond_probabilities(
    snippet, old, new, fails
):
    """Scores, a `tanh` or twice the sigmoid reach below 0 or above 1, where
    the loss is lower.
    """
    fails(test_sigmoid_twice_has_a_floor, snippet.edit(old, new))


# Where it ends


def test_the_mean_divides_by_the_weights(
    snippet, as_rows=False, smoothing=0.0
):
    run = snippet.after("class-weights")
    assert near(run.weighted, run.divided)
    assert run.weight[run.skies].unique().numel() > 1
    assert not near(run.weighted, run.each.mean())
    for size in (0.1, 10.0):
        weight = size * run.weight
        same = F.cross_entropy(
            run.which_sky(run.days), run.skies, weight=weight
        )
        assert near(same, run.weighted)

    for seed, classes in enumerate((2, 4, 20)):
        for dtype in DTYPES:
            scores, labels = batch(30, classes, dtype, seed)
            weight = torch.rand(classes, dtype=dtype) + 0.1
            each = -scores.log_softmax(dim=1)[range(30), labels]
            wanted = (weight[labels] * each).sum() / weight[labels].sum()
            rows = F.one_hot(labels, classes).to(dtype)
            targets = rows if as_rows else labels
            for size in (1.0, 10.0):
                options = {"weight": size * weight}
                options["label_smoothing"] = smoothing
                loss = F.cross_entropy(scores, targets, **options)
                assert near(loss, wanted)


def test_the_mean_divides_by_the_weights__ends_with_label_smoothing(
    snippet, fails
):
    """With `label_smoothing`: every class enters the loss, with its weight."""
    fails(test_the_mean_divides_by_the_weights, snippet, False, 0.1)


def test_the_mean_divides_by_the_weights__ends_for_probabilities(
    snippet, fails
):
    """For probabilities as targets: the sum is divided by the number of
    samples.
    """
    fails(test_the_mean_divides_by_the_weights, snippet, True)


@edits(
    ("/ weight[skies].sum()", "/ len(skies)"),
    ("skies, weight=weight)", "skies)"),
    ("weighted = F.cross", "weighted = 10 * F.cross"),
)
def test_the_mean_divides_by_the_weights__but_not_so(snippet, old, new, fails):
    """Divided by the number of days, without the weights, or multiplied by 10,
    the two losses differ.
    """
    fails(test_the_mean_divides_by_the_weights, snippet.edit(old, new))


def test_pos_weight_multiplies_each_yes(snippet):
    run = snippet.after("pos-weight")
    assert near(run.heavy, run.tripled.sum() / run.tripled.numel())
    yes = run.rained[:, None]
    assert near(run.tripled[yes], 3 * run.plain[yes])
    assert near(run.tripled[~yes], run.plain[~yes])

    for seed, shape in enumerate(((7,), (5, 4))):
        torch.manual_seed(seed)
        scores, targets = torch.randn(shape), torch.randint(2, shape).float()
        for weight in (torch.tensor(0.5), torch.rand(shape[-1:]) + 1):
            plain = ONE_SCORE(scores, targets, reduction="none")
            wanted = torch.where(targets == 1, weight * plain, plain)
            loss = ONE_SCORE(scores, targets, pos_weight=weight)
            assert near(loss, wanted.sum() / wanted.numel())


@edits(
    ("pos_weight=three)", "weight=three)"),
    ("pos_weight=three)", "pos_weight=three) * 6 / 12"),
    ("3 * plain, plain)", "plain, 3 * plain)"),
)
def test_pos_weight_multiplies_each_yes__but_not_so(snippet, old, new, fails):
    """`weight` multiplies each no as well; the other edits halve the mean, or
    weigh each no in place of each yes.
    """
    fails(test_pos_weight_multiplies_each_yes, snippet.edit(old, new))


def test_smoothing_mixes_in_all_classes(snippet, weight=None, ignored=0):
    run = snippet.after("smoothing")
    mixed = 0.9 * run.losses["which sky"] + 0.1 * run.spread
    assert near(run.smooth, mixed)

    for seed, classes in enumerate((2, 4, 20)):
        for dtype in DTYPES:
            scores, labels = batch(9, classes, dtype, seed)
            labels[:ignored] = -100
            options = {"weight": torch.arange(1.0, classes + 1).to(dtype)}
            options = options if weight else {}
            loss = F.cross_entropy(scores, labels, **options)
            every = [
                F.cross_entropy(scores, torch.full((9,), i))
                for i in range(classes)
            ]
            for s in (0.0, 0.05, 0.3, 1.0):
                options["label_smoothing"] = s
                smooth = F.cross_entropy(scores, labels, **options)
                m = sum(every) / classes
                assert near(smooth, (1 - s) * loss + s * m)


def test_smoothing_mixes_in_all_classes__ends_with_ignored_labels(
    snippet, fails
):
    """With ignored labels: m is the mean over the samples that count."""
    fails(test_smoothing_mixes_in_all_classes, snippet, None, 4)


def test_smoothing_mixes_in_all_classes__ends_with_class_weights(
    snippet, fails
):
    """With class weights: they count in m as well."""
    fails(test_smoothing_mixes_in_all_classes, snippet, True)


@edits(
    ("skies, label_smoothing", "skies.flip(0), label_smoothing"),
    ("skies, label_smoothing=0.1", "skies"),
    (".log_softmax(dim=1).mean()", ".log_softmax(dim=1)[:, 0].mean()"),
    (".log_softmax(dim=1).mean()", ".log_softmax(dim=1).sum()"),
)
def test_smoothing_mixes_in_all_classes__but_not_so(snippet, old, new, fails):
    """Other labels, no smoothing or another m, and the two losses differ."""
    fails(test_smoothing_mixes_in_all_classes, snippet.edit(old, new))


def test_ignored_labels_do_not_count(snippet, size=1.0):
    run = snippet.after("ignored")
    assert near(run.ignoring, run.without)
    assert run.known.tolist() == (run.partly >= 0).tolist()
    assert set(run.partly[~run.known].tolist()) == {-100}

    for seed, number in enumerate((-100, -1, 0, 255)):
        for dtype in DTYPES:
            scores, labels = batch(20, 4, dtype, seed)
            labels[::3] = number
            known = labels != number
            scores = torch.where(known[:, None], scores, size * scores)
            options = {} if number == -100 else {"ignore_index": number}
            loss = F.cross_entropy(scores, labels, **options)
            wanted = F.cross_entropy(scores[known], labels[known])
            assert near(loss, wanted)
            assert near(gradient(loss, scores), gradient(wanted, scores))


@edits(
    (
        "ignoring = F.cross_entropy(which_sky(days), partly)",
        'ignoring = F.cross_entropy(which_sky(days), partly, reduction="sum")'
        " / 6",
    ),
    (
        "ignoring = F.cross_entropy(which_sky(days), partly)",
        "ignoring = F.cross_entropy(which_sky(days), partly.clamp(min=0))",
    ),
    ("torch.tensor([0, 1, -100,", "torch.tensor([0, 1, 2,"),
)
def test_ignored_labels_do_not_count__but_not_so(snippet, old, new, fails):
    """Divided by all six days, or with unknown days counted as sun or as snow,
    the two losses differ.
    """
    if "2," in new:
        edited = snippet.edit(old, new).edit("!= -100\nig", "!= 2\nig")
    else:
        edited = snippet.edit(old, new)
    fails(test_ignored_labels_do_not_count, edited)


def test_ignored_labels_do_not_count__ends_for_infinite_scores(snippet, fails):
    """If an ignored sample has infinite scores: its gradients are nan."""
    fails(test_ignored_labels_do_not_count, snippet, math.inf)


def test_all_ignored_is_nan(snippet, weightless=False, size=1.0):
    run = snippet.after("all-ignored")
    loss, gradients = run.empty
    assert math.isnan(loss)
    assert torch.equal(gradients, torch.zeros(6, 3))
    assert run.total == 0

    for seed, shape in enumerate(((1, 2), (6, 3), (5, 50))):
        for dtype in DTYPES:
            for number in (-100, 0):
                scores = size * batch(*shape, dtype, seed)[0]
                labels = torch.full(shape[:1], number)
                options = {"ignore_index": number}
                if weightless:
                    labels = labels.clamp(min=0)
                    options = {"weight": torch.zeros(shape[1], dtype=dtype)}
                loss = F.cross_entropy(scores, labels, **options)
                assert loss.isnan()
                found = run.with_gradient(loss, scores)[1]
                assert found.tolist() == torch.zeros(shape).tolist()
                options["reduction"] = "sum"
                total = F.cross_entropy(scores, labels, **options)
                assert (total, gradient(total, scores).any()) == (0, False)


def test_all_ignored_is_nan__ends_with_weights_of_0(snippet, fails):
    """If class weights of 0 take every sample out of the mean: the gradients
    are nan as well.
    """
    fails(test_all_ignored_is_nan, snippet, True)


def test_all_ignored_is_nan__ends_for_infinite_scores(snippet, fails):
    """For infinite scores: the gradients are nan."""
    fails(test_all_ignored_is_nan, snippet, False, math.inf)


@edits(
    ("torch.full((6,), -100)", "torch.tensor([-100] * 5 + [0])"),
    ('unknown, reduction="sum")', "unknown)"),
    (
        "with_gradient(F.cross_entropy(sky_scores, unknown),",
        "with_gradient(F.cross_entropy(sky_scores, unknown + 100),",
    ),
)
def test_all_ignored_is_nan__but_not_so(snippet, old, new, fails):
    """One label that counts is enough for a finite loss, and the mean of none
    is nan, not 0.
    """
    fails(test_all_ignored_is_nan, snippet.edit(old, new))


SPATIAL = (
    "only batches of spatial targets supported (3D tensors) but got targets of"
    " dimension: 4"
)


def pixels(samples, classes, height, width, seed=0):
    """Return random scores for each pixel, and masks without a channel."""
    torch.manual_seed(seed)
    scores = torch.randn(samples, classes, height, width)
    return scores, torch.randint(classes, (samples, height, width))


def test_a_mask_has_no_channel(snippet, classes=3):
    run = snippet.after("wrong-masks")
    assert run.text == SPATIAL
    assert run.masks.shape == (2, 1, 8, 8)

    for shape in ((2, classes, 8, 8), (1, classes, 4, 6), (3, classes, 1, 1)):
        scores, labels = pixels(*shape)
        for dtype in (torch.int64, torch.uint8, torch.float32):
            mask = labels[:, None].to(dtype)
            assert error_of(F.cross_entropy, scores, mask) == SPATIAL
        loss = F.cross_entropy(
            scores, labels[:, None].byte().squeeze(1).long()
        )
        flat = scores.permute(0, 2, 3, 1).flatten(0, 2)
        assert near(loss, F.cross_entropy(flat, labels.flatten()))


@pytest.mark.parametrize("classes", [2, 21])
def test_a_mask_has_no_channel__also_of(snippet, classes):
    test_a_mask_has_no_channel(snippet, classes)


def test_a_mask_has_no_channel__ends_with_one_class(snippet, fails):
    """With a single class, the mask has the shape of the scores: integers get
    another error, and floats none.
    """
    fails(test_a_mask_has_no_channel, snippet, 1)


def test_a_mask_has_no_channel__but_not_squeezed(snippet, fails):
    """`squeeze(1)` takes the channel axis out, and it raises nothing."""
    edited = snippet.edit("pixel_scores, masks)", "pixel_scores, masks[:, 0])")
    fails(test_a_mask_has_no_channel, edited)


def test_colors_become_numbers(snippet):
    run = snippet.after("colors")
    assert run.numbers.dtype == torch.int64
    assert run.numbers.tolist() == run.masks.squeeze(1).tolist()

    row = {tuple(color): k for k, color in enumerate(run.palette.tolist())}
    for picture, mask in zip(run.colored, run.numbers, strict=True):
        for color, number in zip(
            picture.reshape(-1, 3).tolist(), mask.flatten(), strict=True
        ):
            assert row[tuple(color)] == number


@edits(
    ("all(dim=-1)", "any(dim=-1)"),
    ("argmax(dim=-1)", "argmin(dim=-1)"),
    ("palette[masks.squeeze(1)]", "palette.flip(0)[masks.squeeze(1)]"),
)
def test_colors_become_numbers__but_not_so(snippet, old, new, fails):
    """All three numbers of a color have to agree, the row that agrees has the
    largest value, and another order of colors gives other numbers.
    """
    fails(test_colors_become_numbers, snippet.edit(old, new))


def test_colors_pass_for_probabilities(
    snippet, classes=3, dtype=torch.float32
):
    run = snippet.after("colors")

    rgb = run.colored.movedim(-1, 1).to(dtype)
    assert rgb.shape == (2, 3, 8, 8)
    scores = torch.randn(2, classes, 8, 8)
    with no_error():
        loss = F.cross_entropy(scores, rgb)
    by_hand = -(rgb * scores.log_softmax(dim=1)).sum(dim=1).mean()
    assert near(loss, by_hand)
    assert not near(loss, F.cross_entropy(scores, run.numbers))


def test_colors_pass_for_probabilities__but_not_with_more_classes(
    snippet, fails
):
    """With four classes, the shapes differ, and it raises an error."""
    fails(test_colors_pass_for_probabilities, snippet, 4)


def test_colors_pass_for_probabilities__but_not_as_integers(snippet, fails):
    """As integers, the colors raise `Expected floating point type`."""
    fails(test_colors_pass_for_probabilities, snippet, 3, torch.uint8)
