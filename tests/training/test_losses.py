"""The claims of docs/training/losses.md."""

import copy
import math
import warnings
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import printed

BCE = F.binary_cross_entropy_with_logits
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


def near(one, other):
    """Tell whether two losses, or their gradients, agree up to rounding."""
    one, other = (torch.as_tensor(each).detach() for each in (one, other))
    return torch.allclose(one.double(), other.double(), rtol=1e-5, atol=1e-6)


def batch(samples=7, classes=4, dtype=torch.float32, seed=0):
    """Return random scores that learn, and labels."""
    torch.manual_seed(seed)
    scores = 3 * torch.randn(samples, classes, dtype=dtype)
    labels = torch.randint(classes, (samples,))
    return scores.requires_grad_(), labels


def gradient(loss, scores):
    """Return the gradient of a loss at the scores."""
    return torch.autograd.grad(loss, scores, retain_graph=True)[0]


def error_of(loss, outputs, targets):
    """Return what a loss complains of: nothing, if it runs."""
    try:
        loss(outputs, targets)
    except (RuntimeError, ValueError, IndexError) as error:
        return str(error)
    return ""


def said(snippet, name):
    """Return the lines that a cell prints."""
    snippet.after(name)
    return printed[-1][name].splitlines()


# Do this


def test_modules_return_the_same(snippet, options=None):
    run = snippet.after("four-questions")
    answers = {
        run.ink_loss: (nn.MSELoss(), run.ink_model, run.ink),
        run.even_loss: (nn.BCEWithLogitsLoss(), run.even_model, run.even),
        run.digit_loss: (nn.CrossEntropyLoss(), run.digit_model, run.labels),
        run.traits_loss: (
            nn.BCEWithLogitsLoss(),
            run.traits_model,
            run.traits,
        ),
    }
    for loss, (module, model, targets) in answers.items():
        outputs = model(run.images)
        outputs = outputs[:, 0] if outputs.shape[1] == 1 else outputs
        if model is not run.digit_model:
            targets = targets.float()
        assert loss.item() == module(outputs, targets).item()

    scores, labels = batch()
    rows = F.one_hot(labels, 4).float()
    for each in ({"reduction": "sum"}, {"reduction": "none"}):
        same = nn.MSELoss(**each)(scores, rows)
        assert same.tolist() == F.mse_loss(scores, rows, **each).tolist()
        same = nn.BCEWithLogitsLoss(**each)(scores, rows)
        assert same.tolist() == BCE(scores, rows, **each).tolist()
        same = nn.CrossEntropyLoss(**each)(scores, labels)
        wanted = F.cross_entropy(scores, labels, **(options or each))
        assert same.tolist() == wanted.tolist()


def test_modules_return_the_same__also_with_weights_and_label_smoothing():
    scores, labels = batch()
    rows, weight = F.one_hot(labels, 4).float(), torch.arange(1.0, 5.0)
    for options in ({"weight": weight}, {"label_smoothing": 0.2}):
        same = nn.CrossEntropyLoss(**options)(scores, labels)
        assert same.equal(F.cross_entropy(scores, labels, **options))
    same = nn.BCEWithLogitsLoss(pos_weight=weight)(scores, rows)
    assert same.equal(BCE(scores, rows, pos_weight=weight))


def test_modules_return_the_same__ends_with_another_option(snippet, fails):
    """With `reduction="sum"` in the module and `"mean"` in the function: they
    no longer agree.
    """
    options = {"reduction": "mean"}
    fails(test_modules_return_the_same, snippet, options)


@edits(
    ("F.mse_loss(amount, ink)", "F.l1_loss(amount, ink)"),
    ("even_loss = bce(", "even_loss = F.soft_margin_loss("),
    ("F.cross_entropy(digit_scores, labels)\nt", "digit_scores.mean()\nt"),
    ("traits.float())", "1.0 - traits.float())"),
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
    assert run.digit_chances.equal(run.digit_scores.softmax(dim=1))
    assert run.even_chance.equal(run.even_score.sigmoid())
    assert run.even_guess.tolist() == (run.even_score > 0).tolist()

    digits = (run.digit_scores, run.digit_chances, run.digit_guess)
    cases = [(run.even_score, run.even_chance, *digits)]
    for seed, classes in enumerate((2, 3, 10, 1000)):
        for dtype in DTYPES:
            scores = size * batch(20, classes, dtype, seed)[0]
            column, chances = scores[:, 0], scores.softmax(dim=1)
            best = scores.argmax(dim=1)
            cases.append((column, column.sigmoid(), scores, chances, best))
    for column, chance, scores, chances, best in cases:
        assert chance[column > 0].tolist()
        assert min(chance[column > 0].tolist()) >= 0.5
        assert near(chances.sum(dim=1), torch.ones(len(chances)))
        rows = range(len(scores))
        assert scores[rows, best].equal(scores.amax(dim=1))
        assert chances[rows, best].equal(chances.amax(dim=1))


@edits(
    ("even_chance = even", "even_chance = -even"),
    ("digit_chances = digit_scores", "digit_chances = (-digit_scores)"),
    ("digit_guess = digit_scores", "digit_guess = (-digit_scores)"),
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
    """If all scores of a sample are infinite, their softmax is nan."""
    fails(test_the_order_is_that_of_the_scores, snippet, math.inf)


# Which loss takes what


def goes_through(name, shapes, dtypes):
    """Tell whether a loss takes outputs and targets, up to backward."""
    torch.manual_seed(0)
    outputs = torch.rand(shapes[0], dtype=dtypes[0], requires_grad=True)
    targets = torch.randint(2, shapes[1]).to(dtypes[1])
    try:
        with warnings.catch_warnings(action="error"):
            getattr(F, name)(outputs, targets).backward()
    except (RuntimeError, ValueError, UserWarning):
        return False
    return True


def taken(run, name, shape):
    """Return the dtypes that the table names."""
    return run.table[name][f"targets {shape}"].split(", ")


def test_class_numbers_or_equal_shapes(
    snippet, label="int64", column=False, outputs="float32", target="float32"
):
    run = snippet.after("targets")
    dtype = SIX[outputs]

    assert [*run.table] == [*OF_SHAPES, *OF_CLASSES]
    for name in run.table:
        for shape in ((6,), (6, 3)):
            found = [
                word
                for word, each in SIX.items()
                if goes_through(name, ((6, 3), shape), (torch.float32, each))
            ]
            assert taken(run, name, shape) == (found or [""])
    for name in OF_CLASSES:
        assert taken(run, name, (6,)) == ["int64", "uint8"]
        for n, classes in ((1, 2), (6, 3), (5, 10)):
            shapes = (n, classes), (n, 1) if column else (n,)
            assert goes_through(name, shapes, (dtype, SIX[label]))
    for name in OF_SHAPES:
        assert "float32" in taken(run, name, (6, 3))
        assert taken(run, name, (6,)) == [""]
        for shape in ((6,), (6, 1), (6, 3), (2, 3, 4)):
            assert goes_through(name, (shape, shape), (dtype, SIX[target]))


@pytest.mark.parametrize("label", ["int64", "uint8"])
@pytest.mark.parametrize("outputs", ["float32", "float64"])
def test_class_numbers_or_equal_shapes__also_of(snippet, label, outputs):
    test_class_numbers_or_equal_shapes(snippet, label, False, outputs, outputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_class_numbers_or_equal_shapes__also_as_probabilities(dtype):
    for seed, shape in enumerate(((1, 2), (7, 4), (5, 50))):
        scores, labels = batch(*shape, seed=seed)
        rows = torch.rand(shape).softmax(dim=1).to(dtype)
        wanted = -(rows * scores.log_softmax(dim=1)).sum(dim=1).mean()
        assert near(F.cross_entropy(scores, rows), wanted)
        one_hot = F.one_hot(labels, shape[1]).to(dtype)
        wanted = F.cross_entropy(scores, labels)
        assert near(F.cross_entropy(scores, one_hot), wanted)
        assert not goes_through("nll_loss", (shape, shape), (dtype, dtype))


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


@edits(
    ("of one axis", "torch.full((6, 3), 0.5", "torch.full((6,), 0.5"),
    ("without backward", "        cost.backward()\n    except", "    except"),
)
def test_class_numbers_or_equal_shapes__but_not(snippet, old, new, fails):
    """Outputs of shape (6,) take such targets as probabilities; without
    `backward()`, the table names too much.
    """
    fails(test_class_numbers_or_equal_shapes, snippet.edit(old, new))


FREE = {
    "cross_entropy": ["scores", "log-probabilities"],
    "binary_cross_entropy_with_logits": ["scores"],
    "nll_loss": ["log-probabilities"],
    "mse_loss": ["probabilities"],
    "l1_loss": ["probabilities"],
    "huber_loss": ["probabilities"],
    "binary_cross_entropy": ["probabilities"],
}


def test_each_loss_wants_its_form(snippet):
    run = snippet.after("targets")
    chances = run.answer.softmax(dim=1)
    assert near(run.forms["probabilities"], chances)
    assert near(run.forms["log-probabilities"].exp(), chances)

    free = {
        name: [
            form
            for form in run.forms
            if row[f"right answer as {form}"] == "0.00"
        ]
        for name, row in run.table.items()
    }
    assert free == FREE
    errors = [
        (name, form)
        for name, row in run.table.items()
        for form in run.forms
        if row[f"right answer as {form}"] == "error"
    ]
    forms = "scores", "log-probabilities"
    assert errors == [("binary_cross_entropy", form) for form in forms]


def test_each_loss_wants_its_form__also_in_nll_loss(snippet):
    assert snippet.after("targets").table["nll_loss"][
        "right answer as scores"
    ] == ("-9.00")
    for seed, dtype in enumerate(DTYPES):
        scores, labels = batch(dtype=dtype, seed=seed)
        right = [line[i] for line, i in zip(scores, labels, strict=True)]
        assert near(F.nll_loss(scores, labels), -sum(right) / len(right))
        for size in (1e3, 1e9):
            sure = size * F.one_hot(labels, 4).to(dtype)
            assert near(F.nll_loss(sure, labels) / size, -1.0)


@pytest.mark.parametrize("outside", [-9.0, -0.001, 1.001, 9.0, math.nan])
def test_each_loss_wants_its_form__also_outside_of_0_and_1(outside):
    outputs = torch.tensor([0.0, 0.5, 1.0])
    assert not error_of(F.binary_cross_entropy, outputs, torch.zeros(3))
    outputs[1] = outside
    text = error_of(F.binary_cross_entropy, outputs, torch.zeros(3))
    assert text == "all elements of input should be between 0 and 1"


@edits(
    ("another answer", "torch.tensor([0]) if by", "torch.tensor([1]) if by"),
    ("other scores", '{"scores": answer,', '{"scores": answer.sigmoid(),'),
    ("other logarithms", "answer.log_softmax(dim=1)", "answer.log()"),
)
def test_each_loss_wants_its_form__but_not(snippet, old, new, fails):
    """With another class as the label, the answer is wrong, and costs
    something; the other edits fill a column with another form.
    """
    fails(test_each_loss_wants_its_form, snippet.edit(old, new))


def test_each_loss_wants_its_form__ends_less_sure(snippet, fails):
    """An answer that is less sure costs more than 0.00 in its form, too."""
    edited = snippet.edit("[[9.0, -9.0, -9.0]]", "[[2.0, -2.0, -2.0]]")
    fails(test_each_loss_wants_its_form, edited)


# How it works


def cost_and_gradient(loss, scores, targets):
    """Return a loss and its gradient at the scores."""
    scores = scores.detach().clone().requires_grad_()
    with no_error():
        cost = loss(scores, targets)
    cost.backward()
    return cost.detach(), scores.grad


SHAPES = [(1, 2), (7, 10), (200, 3), (5, 1000), (3, 1), (4, 5, 7)]
SHAPES += [(2, 3, 8, 8)]


def trials(scale, dtype):
    """Return scores, labels of classes, and answers of yes or no."""
    torch.manual_seed(0)
    for shape in SHAPES:
        scores = scale * torch.randn(shape, dtype=dtype)
        labels = torch.randint(shape[1], (shape[0], *shape[2:]))
        yield scores, labels, torch.randint(2, shape).to(dtype)


def as_they_are(scores, labels, answers):
    """Return scores, labels and answers."""
    return scores, labels, answers


def test_nine_lines_are_both_losses(
    snippet,
    scale=1.0,
    dtype=torch.float32,
    change=as_they_are,
    real=F.cross_entropy,
    real_bce=BCE,
):
    run = snippet.after("by-hand")
    cases = [(run.digit_scores, run.labels, run.even[:, None].float())]
    cases += [(1000 * run.digit_scores, run.labels, cases[0][2])]
    cases += trials(scale, dtype)
    for case in cases:
        scores, labels, answers = change(*case)
        column = change(case[0][:, : case[2].shape[1]], *case[1:])[0]
        mine = cost_and_gradient(run.cross_entropy_by_hand, scores, labels)
        mine += cost_and_gradient(run.bce_by_hand, column, answers)
        other = cost_and_gradient(real, scores, labels)
        other += cost_and_gradient(real_bce, column, answers)
        for one, wanted in zip(mine, other, strict=True):
            assert one.shape == wanted.shape
            assert one.dtype == wanted.dtype
            apart = (one - wanted).abs().max().item()
            assert apart <= 1e-5 * max(1e-3, wanted.abs().max().item())


@pytest.mark.parametrize("scale", [0.01, 10.0, 1000.0, 1e6])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nine_lines_are_both_losses__also_for_scores_of_about(
    snippet, scale, dtype
):
    test_nine_lines_are_both_losses(snippet, scale, dtype)


def test_nine_lines_are_both_losses__also_for_fractions_of_yes(snippet):
    def change(scores, labels, answers):
        return scores, labels, torch.rand_like(answers)

    test_nine_lines_are_both_losses(snippet, 3.0, torch.float32, change)


def test_nine_lines_are_both_losses__also_over_fifty_steps(snippet):
    run = snippet.after("by-hand")
    losses = {
        run.digit_model: (
            run.cross_entropy_by_hand,
            F.cross_entropy,
            run.labels,
        ),
        run.traits_model: (
            run.bce_by_hand,
            BCE,
            run.traits.float(),
        ),
    }
    for model, (mine, other, targets) in losses.items():
        trained = [copy.deepcopy(model) for _ in range(2)]
        for net, loss in zip(trained, (mine, other), strict=True):
            for step in range(50):
                part = slice(step % 10 * 180, step % 10 * 180 + 180)
                net.zero_grad()
                loss(net(run.images[part]), targets[part]).backward()
                with torch.no_grad():
                    for weights in net.parameters():
                        weights -= 0.5 * weights.grad
        assert near(trained[0].weight, trained[1].weight)
        assert not near(trained[0].weight, model.weight)


@edits(
    ("1", "scores - scores.amax(dim=1, keepdim=True)", "scores"),
    ("2", "sum(dim=1, keepdim=True).log()", "sum(dim=1, keepdim=True)"),
    ("2 without its gradient", "lowered.exp()", "lowered.detach().exp()"),
    ("3", "labels[:, None])", "labels[:, None].flip(0))"),
    ("3 as a sum", "None]).mean()  # 3", "None]).sum()  # 3"),
    ("4", "torch.zeros_like(scores), s", "torch.ones_like(scores), s"),
    ("5", "(targets * yes + (1 - targets) * no)", "(targets * yes)"),
)
def test_nine_lines_are_both_losses__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each of the numbered lines counts; without line 1, large scores
    overflow.
    """
    fails(test_nine_lines_are_both_losses, snippet.edit(old, new))


def weighted(scores, labels):
    """Return a loss whose classes have weights."""
    weight = torch.arange(1, 1 + scores.shape[1]).to(scores.dtype)
    return F.cross_entropy(scores, labels, weight)


def smoothed(scores, labels):
    """Return a loss with smoothed labels."""
    return F.cross_entropy(scores, labels, label_smoothing=0.1)


def yes_counts_twice(scores, targets):
    """Return a loss in which each yes has a weight."""
    return BCE(scores, targets, pos_weight=torch.tensor(2.0))


@pytest.mark.parametrize(
    ("real", "real_bce"),
    [(weighted, BCE), (smoothed, BCE), (F.cross_entropy, yes_counts_twice)],
    ids=["weight", "label_smoothing", "pos_weight"],
)
def test_nine_lines_are_both_losses__ends_with(snippet, real, real_bce, fails):
    """The real ones have options, such as `weight`, `label_smoothing` and
    `pos_weight`.
    """
    inputs = snippet, 1.0, torch.float32, as_they_are, real, real_bce
    fails(test_nine_lines_are_both_losses, *inputs)


def some_ignored(scores, labels, answers):
    """Ignore the first label."""
    labels = labels.clone()
    labels[0] = -100
    return scores, labels, answers


def probabilities(scores, labels, answers):
    """Give the probability of each class in place of a label."""
    return scores, scores.detach().softmax(dim=1), answers


def in_uint8(scores, labels, answers):
    """Give the labels in `uint8`."""
    return scores, labels.to(torch.uint8), answers


def too_few(scores, labels, answers):
    """Leave out the last label."""
    return scores, labels[:-1], answers


def too_flat(scores, labels, answers):
    """Give a row of answers for a column of scores."""
    return scores, labels, answers[:, 0]


LABELS = [some_ignored, probabilities, in_uint8, too_few, too_flat]


@pytest.mark.parametrize("change", LABELS)
def test_nine_lines_are_both_losses__ends_for_labels(snippet, change, fails):
    """Labels of -100 or in `uint8`, and probabilities, raise an error in the
    nine lines; targets of another shape only in the real losses.
    """
    inputs = snippet, 1.0, torch.float32, change
    fails(test_nine_lines_are_both_losses, *inputs)


def alone(scores, labels, answers):
    """Give a single sample, without a batch."""
    return scores[0], labels[0], answers[0]


def test_nine_lines_are_both_losses__ends_without_a_batch(snippet, fails):
    """A single sample without a batch raises an error in the nine lines."""
    inputs = snippet, 1.0, torch.float32, alone
    fails(test_nine_lines_are_both_losses, *inputs)


def test_nine_lines_are_both_losses__ends_in_16_bits(snippet, fails):
    """With 16-bit scores, the nine lines round after each operation, and the
    real `cross_entropy` less often.
    """

    def change(scores, labels, answers):
        return scores.bfloat16(), labels, answers.bfloat16()

    inputs = snippet, 1.0, torch.bfloat16, change
    fails(test_nine_lines_are_both_losses, *inputs)


def test_nine_lines_are_both_losses__ends_under_autocast(snippet, fails):
    """Under autocast, the real losses compute in `float32`, and the nine lines
    in 16 bits.
    """
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fails(test_nine_lines_are_both_losses, snippet)


def test_nine_lines_are_both_losses__ends_for_infinite_scores(snippet, fails):
    """Infinite scores give `nan` in both, but in BCE not always in the same
    places.
    """

    def change(scores, labels, answers):
        return torch.full_like(scores, math.inf), labels, answers

    inputs = snippet, 1.0, torch.float32, change
    fails(test_nine_lines_are_both_losses, *inputs)


def test_cross_entropy_is_minus_log_p(
    snippet, dtype=torch.float32, options=None
):
    run = snippet.after("from-scores")
    p = run.three.softmax(dim=1)[0, 1].item()
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


@pytest.mark.parametrize("shape", [(1,), (7,), (5, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cross_entropy_is_minus_log_p__also_for_yes_or_no(shape, dtype):
    torch.manual_seed(0)
    score = 3 * torch.randn(shape, dtype=dtype)
    target = torch.randint(2, shape).to(dtype)
    p = 1 / (1 + (-score.double()).exp())
    each = torch.where(target > 0, -p.log(), -(1 - p).log())

    assert near(BCE(score, target), each.sum() / each.numel())


@edits(
    ("torch.tensor([1]))\nl", "torch.tensor([0]))\nl"),
    ("loss = F.cross_entropy(three", "loss = F.multi_margin_loss(three"),
)
def test_cross_entropy_is_minus_log_p__but_not_of_another(
    snippet, old, new, fails
):
    """With label 0 in place of 1, the loss is 0.35; and `multi_margin_loss`
    computes something else.
    """
    fails(test_cross_entropy_is_minus_log_p, snippet.edit(old, new))


def test_cross_entropy_is_minus_log_p__ends_as_a_sum(snippet, fails):
    """With `reduction="sum"`, the losses are added up, and not divided by
    their number.
    """
    inputs = snippet, torch.float32, {"reduction": "sum"}
    fails(test_cross_entropy_is_minus_log_p, *inputs)


def test_the_slope_is_p_minus_target(snippet, samples=1, answers=1, loss=BCE):
    run = snippet.after("from-scores")
    p, target = run.three.softmax(dim=1), torch.tensor([[0.0, 1.0, 0.0]])
    assert near(run.three.grad, p - target)
    rounded = [round(slope, 2) for slope in run.three.grad[0].tolist()]
    assert rounded[:2] == [0.71, -0.74]

    for seed, classes in enumerate((2, 3, 50)):
        for dtype in DTYPES:
            scores, labels = batch(samples, classes, dtype, seed)
            found = gradient(F.cross_entropy(scores, labels), scores)
            assert near(found, scores.softmax(1) - F.one_hot(labels, classes))
            score = scores[:1, 0].expand(answers).detach().requires_grad_()
            for yes in (0.0, 1.0):
                target = torch.full_like(score, yes)
                found = gradient(loss(score, target), score)
                assert near(found, score.sigmoid() - target)


def test_the_slope_is_p_minus_target__ends_for_two_samples(snippet, fails):
    """For two samples, the mean halves each gradient."""
    fails(test_the_slope_is_p_minus_target, snippet, 2)


def test_the_slope_is_p_minus_target__ends_for_two_answers(snippet, fails):
    """For two yes-or-no scores, the mean halves each gradient."""
    fails(test_the_slope_is_p_minus_target, snippet, 1, 2)


def test_the_slope_is_p_minus_target__ends_with_pos_weight(snippet, fails):
    """With `pos_weight`, the gradient of a yes is multiplied by it."""
    inputs = snippet, 1, 1, yes_counts_twice
    fails(test_the_slope_is_p_minus_target, *inputs)


def test_the_slope_is_p_minus_target__ends_for_a_squared_error(snippet, fails):
    """In the squared error of a sigmoid, it is p minus the target, times
    2 p (1 - p): at a score of -8, almost 0.
    """
    run = snippet.after("gradients")
    p = run.score.sigmoid()
    assert near(run.gradients["cross-entropy"], p - 1)
    assert near(run.gradients["squared error"], 2 * (p - 1) * p * (1 - p))
    ends = [slopes[0].item() for slopes in run.gradients.values()]
    assert ends == pytest.approx([-1, -0.0007], abs=0.0005)

    def loss(score, target):
        return ((score.sigmoid() - target) ** 2).mean()

    fails(test_the_slope_is_p_minus_target, snippet, 1, 1, loss)


@edits(
    ("torch.tensor([1]))\nl", "torch.tensor([2]))\nl"),
    ("loss.backward()\nprint(f", "(2 * loss).backward()\nprint(f"),
    (
        "loss.backward()\nprint(f",
        "(loss - three[0, 0]).backward()\nprint(f",
    ),
)
def test_the_slope_is_p_minus_target__but_not_of_another_loss(
    snippet, old, new, fails
):
    """For another label, that of the second score is 0.26; the other edits
    change the loss itself, and its gradients with it.
    """
    fails(test_the_slope_is_p_minus_target, snippet.edit(old, new))


def test_equal_scores_cost_ln_k(snippet, height=0.0, highest=30.0):
    lines = said(snippet, "first-loss")
    assert [line.split()[-1] for line in lines[:3]] == ["0.69", "1.10", "2.30"]

    for seed, classes in enumerate((2, 3, 10, 1000)):
        for dtype in DTYPES:
            _, labels = batch(9, classes, seed=seed)
            for each in (0.0, -7.0, highest):
                scores = torch.full((9, classes), each, dtype=dtype)
                loss = F.cross_entropy(scores, labels)
                assert near(loss, math.log(classes))
            target = labels.clamp(max=1).to(dtype)
            score = torch.full((9,), height, dtype=dtype)
            assert near(BCE(score, target), math.log(2))


@pytest.mark.parametrize("seed", range(5), ids="seed {}".format)
def test_equal_scores_cost_ln_k__also_nearly_of_a_new_model(snippet, seed):
    run = snippet.after("four-questions")
    torch.manual_seed(seed)
    digits = F.cross_entropy(nn.Linear(64, 10)(run.images), run.labels)
    even = BCE(nn.Linear(64, 1)(run.images)[:, 0], run.even.float())
    assert digits.item() == pytest.approx(math.log(10), abs=0.2)
    assert even.item() == pytest.approx(math.log(2), abs=0.2)


def test_equal_scores_cost_ln_k__ends_for_a_score_of_1(snippet, fails):
    """For a score of 1 in place of 0, a no costs more, and a yes less."""
    fails(test_equal_scores_cost_ln_k, snippet, 1.0)


def test_equal_scores_cost_ln_k__ends_for_infinite_scores(snippet, fails):
    """Equal scores that are infinite cost nan in `cross_entropy`."""
    fails(test_equal_scores_cost_ln_k, snippet, 0.0, math.inf)


def test_equal_scores_cost_ln_k__but_not_of_other_scores(snippet, fails):
    """The scores of `torch.eye` are not equal, and cost something else."""
    old = "torch.zeros(1, classes)"
    edited = snippet.edit(old, "torch.eye(1, classes)")
    fails(test_equal_scores_cost_ln_k, edited)


def test_the_mean_divides_by_the_weights(
    snippet, as_rows=False, smoothing=0.0
):
    run = snippet.after("options")
    real, by_hand = run.pairs["weight"]
    assert near(real, by_hand)
    assert run.weight[run.labels].unique().tolist() == [1, 4]
    assert abs(real - run.each.mean()) > 1e-4

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


@pytest.mark.parametrize("shape", [(7,), (5, 4)])
def test_the_mean_divides_by_the_weights__ends_in_bce(snippet, shape, fails):
    """With `pos_weight`, BCE divides by the number of scores."""
    pairs = snippet.after("options").pairs
    assert near(*pairs["pos_weight"])
    torch.manual_seed(0)
    scores, targets = torch.randn(shape), torch.randint(2, shape).float()
    for weight in (torch.tensor(0.5), torch.rand(shape[-1:]) + 1):
        plain = BCE(scores, targets, reduction="none")
        wanted = torch.where(targets == 1, weight * plain, plain).mean()
        assert near(BCE(scores, targets, pos_weight=weight), wanted)

    edited = snippet.edit(
        "F.cross_entropy(digit_scores, labels, weight=weight)",
        "bce(even_score, even.float(), pos_weight=three_times)",
    )
    edited = edited.edit(
        "(weights * each).sum() / weights.sum()",
        "torch.where(even, 3 * plain, plain).sum() / (1 + 2 * even).sum()",
    )
    fails(test_the_mean_divides_by_the_weights, edited)


def test_the_mean_divides_by_the_weights__ends_with_label_smoothing(
    snippet, fails
):
    """With `label_smoothing`, every class enters the loss, with its weight."""
    fails(test_the_mean_divides_by_the_weights, snippet, False, 0.1)


def test_the_mean_divides_by_the_weights__ends_for_probabilities(
    snippet, fails
):
    """For probabilities as targets, the sum is divided by the number of
    samples.
    """
    fails(test_the_mean_divides_by_the_weights, snippet, True)


@edits(
    ("/ weights.sum()", "/ len(labels)"),
    ("labels, weight=weight)", "labels)"),
    ("(weights * each).sum()", "each.sum()"),
)
def test_the_mean_divides_by_the_weights__but_not_so(snippet, old, new, fails):
    """Divided by the number of digits, or without the weights on one side,
    the two losses differ.
    """
    fails(test_the_mean_divides_by_the_weights, snippet.edit(old, new))


def test_ignored_labels_do_not_count(snippet, size=1.0, share=3):
    run = snippet.after("options")
    assert near(*run.pairs["ignore_index"])
    eights = run.partly == -100
    assert eights.tolist() == (run.labels == 8).tolist()
    assert set(run.nothing_left.tolist()) == {-100}
    assert F.cross_entropy(run.digit_scores, run.nothing_left).isnan()

    for seed, number in enumerate((-100, -1, 0, 255)):
        for dtype in DTYPES:
            scores, labels = batch(20, 4, dtype, seed)
            labels[::share] = number
            known = labels != number
            scores = torch.where(known[:, None], scores, size * scores)
            options = {} if number == -100 else {"ignore_index": number}
            loss = F.cross_entropy(scores, labels, **options)
            wanted = F.cross_entropy(scores[known], labels[known])
            assert near(loss, wanted)
            assert near(gradient(loss, scores), gradient(wanted, scores))


def test_ignored_labels_do_not_count__ends_if_all_are_ignored(snippet, fails):
    """If every label is ignored, the mean is over none: nan, with gradients
    of 0 on a CPU; the sum is 0.
    """
    scores, labels = batch(6, 3)[0], torch.full((6,), -100)
    for reduction, value in (("mean", "nan"), ("sum", "0.0")):
        loss = F.cross_entropy(scores, labels, reduction=reduction)
        assert str(abs(loss.item())) == value
        assert gradient(loss, scores).tolist() == [[0, 0, 0]] * 6
    fails(test_ignored_labels_do_not_count, snippet, 1.0, 1)


def test_ignored_labels_do_not_count__ends_for_infinite_scores(snippet, fails):
    """If an ignored sample has infinite scores, its gradients are nan."""
    fails(test_ignored_labels_do_not_count, snippet, math.inf)


@edits(
    ("divided by all", "each[partly != -100].mean()", "each.sum() / 1797"),
    ("counted", "torch.where(labels == 8, -100, labels)", "labels"),
    ("of another class", "each[partly != -100]", "each[partly != 3]"),
)
def test_ignored_labels_do_not_count__but_not(snippet, old, new, fails):
    """Divided by all digits, with the 8s counted, or with another digit left
    out, the two losses differ.
    """
    fails(test_ignored_labels_do_not_count, snippet.edit(old, new))


@pytest.mark.parametrize("smoothing", [0.0, 0.05, 0.3, 1.0])
def test_class_numbers_or_equal_shapes__also_smoothed(snippet, smoothing):
    pairs = snippet.after("options").pairs
    assert near(*pairs["label_smoothing"])

    for classes in (2, 4, 20):
        scores, labels = batch(9, classes)
        rows = (1 - smoothing) * F.one_hot(labels, classes)
        rows = rows + smoothing / classes
        smooth = F.cross_entropy(scores, labels, label_smoothing=smoothing)
        assert near(smooth, F.cross_entropy(scores, rows))


# What goes wrong


def test_one_column_learns_nothing(
    snippet, columns=1, highest=5.0, of_labels=F.cross_entropy
):
    run = snippet.after("one-column")
    assert run.constant == 0
    assert run.no_slope.tolist() == [[0] * 64]

    for seed, n in enumerate((1, 2, 100)):
        for dtype in DTYPES:
            scores, _ = batch(n, columns, dtype, seed)
            scores = (scores * highest).detach().requires_grad_()
            targets = 10 * torch.rand(n, columns, dtype=dtype) - 5
            for each in (targets, targets.round(), torch.ones_like(targets)):
                with no_error():
                    loss = F.cross_entropy(scores, each)
                assert loss == 0
                assert gradient(loss, scores).tolist() == (0 * each).tolist()
            labels = torch.zeros(n, dtype=torch.long)
            with no_error():
                loss = of_labels(scores.float(), labels)
            assert loss.item() == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_one_column_learns_nothing__also_with_labels_of_0_and_smoothing_of(
    smoothing,
):
    scores, labels = batch(7, 1)[0], torch.zeros(7, dtype=torch.long)
    loss = F.cross_entropy(scores, labels, label_smoothing=smoothing)
    assert loss == 0
    assert gradient(loss, scores).tolist() == [[0]] * 7
    with pytest.raises(IndexError):
        F.cross_entropy(scores, labels + 1)


def test_one_column_learns_nothing__ends_with_two_columns(snippet, fails):
    """With two columns, there are two classes; if the other score is 0, the
    loss is BCE.
    """
    run = snippet.after("two-columns")
    two = F.cross_entropy(run.two_columns, run.even.long())
    assert near(two, run.even_loss)
    scores, _ = batch(50, 1)
    labels = torch.randint(2, (50,))
    two = torch.cat([torch.zeros_like(scores), scores], dim=1)
    two = F.cross_entropy(two, labels)
    one = BCE(scores[:, 0], labels.float())
    assert near(two, one)
    assert near(gradient(two, scores), gradient(one, scores))
    fails(test_one_column_learns_nothing, snippet, 2)


@pytest.mark.parametrize(
    "options", [{"ignore_index": 0}, {"weight": torch.zeros(1)}]
)
def test_one_column_learns_nothing__ends_where_nothing_counts(
    snippet, options, fails
):
    """If the only class is ignored or has the weight 0, the loss is nan."""
    loss = partial(F.cross_entropy, **options)
    fails(test_one_column_learns_nothing, snippet, 1, 5.0, loss)


def test_one_column_learns_nothing__ends_for_labels_of_1(snippet, fails):
    """Among class numbers, a label of 1 raises `Target 1 is out of bounds`."""

    def loss(scores, labels):
        return F.cross_entropy(scores, labels + 1)

    fails(test_one_column_learns_nothing, snippet, 1, 5.0, loss)


def test_one_column_learns_nothing__ends_for_infinite_scores(snippet, fails):
    """For infinite scores, the loss is nan."""
    fails(test_one_column_learns_nothing, snippet, 1, math.inf)


@edits(
    ("with BCE", "constant = F.cross_entropy(", "constant = bce("),
    (
        "with a gradient",
        "F.cross_entropy(column, even.float()[:, None])\n(",
        "column.sum() - column.sum().detach()\n(",
    ),
    (
        "in two columns",
        "F.cross_entropy(column, even.float()[:, None])\n(",
        "F.cross_entropy(torch.cat([0 * column, column], 1), even.long())\n(",
    ),
)
def test_one_column_learns_nothing__but_not(snippet, old, new, fails):
    """BCE reads the column as yes or no, and a second column is a second
    class; a loss whose value is 0 can still have gradients.
    """
    fails(test_one_column_learns_nothing, snippet.edit(old, new))


def test_softmax_twice_has_a_floor(snippet):
    run = snippet.after("twice")
    found = {classes: round(each, 3) for classes, each in run.floors.items()}
    assert found == {2: 0.313, 3: 0.551, 10: 1.461}

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


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_twice_has_a_floor__also_with_a_sigmoid(snippet, dtype):
    run = snippet.after("twice")
    wanted = torch.tensor([math.log(1 + 1 / math.e), math.log(2)])
    assert near(run.both, wanted)

    p = torch.linspace(0, 1, 1001, dtype=dtype)
    yes = BCE(p, torch.ones_like(p), reduction="none")
    no = BCE(p, torch.zeros_like(p), reduction="none")
    assert near(torch.stack([yes.min(), no.min()]), wanted)


def test_softmax_twice_has_a_floor__but_not_with_a_logarithm(snippet, fails):
    """With `log_softmax` in place of `softmax`, the loss is that of the
    scores, and falls to 0.
    """
    edited = snippet.edit("certain.softmax", "certain.log_softmax")
    fails(test_softmax_twice_has_a_floor, edited)


@edits(
    ("with scores", "certain.softmax(dim=1)", "certain"),
    ("not sure", "100 * torch.eye(classes)[:1]  #", "torch.eye(classes)[:1]#"),
    (
        "wrong",
        "100 * torch.eye(classes)[:1]  #",
        "9 * torch.eye(classes)[1:2]#",
    ),
)
def test_softmax_twice_has_a_floor__but_not(snippet, old, new, fails):
    """Without the softmax, the loss falls to 0; with an unsure or wrong
    answer, it is above the floor.
    """
    fails(test_softmax_twice_has_a_floor, snippet.edit(old, new))


def test_one_step_is_right(snippet, most=10_000.0):
    run = snippet.after("one-step")
    (first, first_gradient), (no, no_gradient) = run.kept
    assert (first.item(), no.item()) == (120, 20)
    assert near(first_gradient, [[-1.0, 1.0]])
    assert near(no_gradient, [1.0])

    for value in (20.0, 35.0, 100.0, 10_000.0):
        for yes in (0.0, 1.0):
            score = torch.tensor([-value if yes else value])
            found = cost_and_gradient(BCE, score, torch.tensor([yes]))
            p = 1 / (1 + math.exp(-value))
            assert near(found[0], value + math.log1p(math.exp(-value)))
            assert near(found[1], [-p if yes else p])
    for gap in (20.0, 35.0, 120.0, most):
        rows, label = torch.tensor([[0.0, gap]]), torch.tensor([0])
        found = cost_and_gradient(F.cross_entropy, rows, label)
        p = math.exp(-gap)
        assert near(found[0], gap + math.log1p(p))
        assert near(found[1], [[p - 1, 1 - p]])


@pytest.mark.parametrize("more", [1.0, 10.0, 100.0], ids="{} times".format)
def test_one_step_is_right__also_where_two_steps_are_not(snippet, more):
    run = snippet.after("two-steps")
    far, high = more * run.far, more * run.high
    loss, slopes = run.with_gradient(run.log_of_softmax, far, run.first)
    assert (loss, slopes.isnan().tolist()) == (math.inf, [[True, True]])
    loss, slopes = run.with_gradient(run.bce_of_sigmoid, high, run.no)
    assert (loss, slopes.tolist()) == (100, [0])

    loss, slopes = run.with_gradient(F.cross_entropy, far, run.first)
    assert (loss, slopes.tolist()) == (120 * more, [[-1, 1]])
    loss, slopes = run.with_gradient(BCE, high, run.no)
    assert (loss, slopes.tolist()) == (20 * more, [1])


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(0.5, torch.float32), (1.0, torch.float64)],
    ids=["half as far", "in float64"],
)
def test_one_step_is_right__also_where_two_steps_are(snippet, scale, dtype):
    run = snippet.after("two-steps")
    pairs = [(run.log_of_softmax, F.cross_entropy, run.far, run.first)]
    pairs += [(run.bce_of_sigmoid, BCE, run.high, run.no.to(dtype))]
    for two, one, scores, targets in pairs:
        scores = scale * scores.to(dtype)
        found = run.with_gradient(two, scores, targets)
        wanted = run.with_gradient(one, scores, targets)
        assert torch.allclose(found[0], wanted[0], rtol=1e-3)
        assert torch.allclose(found[1], wanted[1], rtol=1e-3)


@edits(
    ("a softmax first", "t(F.cross_entropy, far", "t(log_of_softmax, far"),
    (
        "a sigmoid first",
        "with_gradient(bce, h",
        "with_gradient(bce_of_sigmoid, h",
    ),
)
def test_one_step_is_right__but_not_with(snippet, old, new, fails):
    """With the softmax or the sigmoid first, the loss is inf or 100."""
    fails(test_one_step_is_right, snippet.edit(old, new))


def test_one_step_is_right__ends_with_an_infinite_lead(snippet, fails):
    """If the other score is infinite, the loss is nan."""
    fails(test_one_step_is_right, snippet, math.inf)


def sequences(n, length, classes, dtype=torch.float32):
    """Return scores of sequences, and labels."""
    scores, labels = batch(n * length, classes, dtype)
    scores = scores.detach().reshape(n, length, classes)
    return scores, labels.reshape(n, length)


def over_axis_one(scores, labels):
    """Return the cross-entropy by hand, its classes in axis 1."""
    chances = scores.softmax(dim=1).gather(1, labels[:, None])
    return -chances.log().mean()


AXIS = "Expected target size [{0}, {2}], got [{0}, {1}]"


def test_axis_one_holds_the_classes(snippet, shape=(2, 7, 3)):
    assert said(snippet, "wrong-axis") == [AXIS.format(2, 7, 10)]
    run = snippet.after("right-axis")
    assert run.phone_scores.shape == (2, 7, 10)
    assert near(run.mixed_up, over_axis_one(run.long_scores, run.long_labels))
    assert abs(run.mixed_up - run.long_right) > 0.001

    for sizes in (shape, (1, 2, 3), (4, 3, 7), (2, 1, 3), (2, 7, 1)):
        scores, labels = sequences(*sizes)
        assert error_of(F.cross_entropy, scores, labels) == AXIS.format(*sizes)
        turned = scores.transpose(1, 2)
        wanted = over_axis_one(turned, labels)
        assert near(F.cross_entropy(turned, labels), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("padded", [0.0, 0.4])
def test_axis_one_holds_the_classes__also_in_both_fixes(
    snippet, padded, dtype
):
    run = snippet.after("right-axis")
    cases = [(run.phone_scores, run.phone_labels, run.right, run.flat)]
    for sizes in ((1, 2, 3), (4, 3, 7), (3, 3, 3), (5, 8, 2)):
        scores, labels = sequences(*sizes, dtype)
        labels[torch.rand(labels.shape) < padded] = -100
        transposed = F.cross_entropy(scores.transpose(1, 2), labels)
        flat = scores.flatten(0, 1), labels.flatten()
        cases.append((scores, labels, transposed, F.cross_entropy(*flat)))
    for scores, labels, *fixed in cases:
        known = labels != -100
        each = -scores.log_softmax(dim=2)[known]
        picked = each[range(len(each)), labels[known]]
        assert near(torch.stack(fixed), picked.mean().expand(2))


def test_axis_one_holds_the_classes__ends_for_as_many_places_as_classes(
    snippet, fails
):
    """If K and L are equal, the shapes fit, and it raises nothing."""
    fails(test_axis_one_holds_the_classes, snippet, (2, 3, 3))


@edits(
    (
        "transposed",
        "F.cross_entropy(phone_scores, phone_labels)",
        "F.cross_entropy(phone_scores.transpose(1, 2), phone_labels)",
    ),
    (
        "without an axis",
        "(phone_scores, phone_labels)",
        "(digit_scores, labels)",
    ),
    ("read rightly", "entropy(long_scores, l", "entropy(long_scores.mT, l"),
)
def test_axis_one_holds_the_classes__but_not(snippet, old, new, fails):
    """Transposed, axis 1 holds the ten classes, and it raises nothing, nor
    does it for another length.
    """
    fails(test_axis_one_holds_the_classes, snippet.edit(old, new))
