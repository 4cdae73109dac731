"""The claims of docs/training/your_loss.md."""

import math

import pytest
import torch
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import resumed
from tests.helpers.worlds import DTYPES, each

BASE = ("scenes", "dice", "fit")
SCORED = (*BASE, "learned")
TASKS = (*BASE, "two-tasks", "parts")
bce = F.binary_cross_entropy_with_logits


def after(snippet, first, *others):
    """Run these cells; the first, which makes the pictures, only once."""
    return resumed(snippet, first, others)


def untrained(snippet, *cells):
    """Run these cells with scores of both signs, but hardly any training."""
    old = "scores = scores_of(finder)"
    new = f"{old}\nscores = 4 * (scores - scores.mean())"
    edited = snippet.edit("steps=60", "steps=1").edit(old, new)
    return after(edited, *SCORED, *cells)


def hardly_trained(snippet, *cells):
    """Run these cells with a few steps of training."""
    edited = snippet.edit("steps=100", "steps=10")
    return after(edited, *BASE, *cells)


def small(snippet, *cells):
    """Run these cells, which need no pictures to learn from."""
    old = "torch.tensor(load_digits().images[:count]).float() / 16"
    slope = "torch.linspace(0, 1, 64).view(1, 8, 8).expand(count, 8, 8)"
    edited = snippet.edit("make_scenes(400)", "make_scenes(2)")
    return after(edited.edit(old, slope), *BASE, *cells)


def close(found, expected, **options):
    """Compare up to rounding."""
    expected = torch.as_tensor(expected, dtype=found.dtype)
    tolerance = {"atol": 1e-5, "rtol": 1e-4, **options}
    torch.testing.assert_close(found, expected, **tolerance)


# Do this


# How it works


def test_gradients_add_up(snippet):
    run = small(snippet, "by-hand", "gradients")

    assert [one.item() for one in run.apart] == [4, 1]
    weighted = run.apart[0] + 10 * run.apart[1]
    assert run.guess.grad.item() == weighted == 14


@pytest.mark.parametrize("seed", [0, 1], ids="seed {}".format)
def test_gradients_add_up__also_in_a_network(snippet, seed):
    run = small(snippet, "by-hand")
    torch.manual_seed(seed)
    model = run.Finder()
    scores, _ = model(run.pictures)
    losses = bce(scores, run.masks), run.dice_loss(scores, run.masks)
    weights = torch.rand(2).tolist()
    parameters = list(model.body.parameters())

    def gradients(loss):
        found = torch.autograd.grad(loss, parameters, retain_graph=True)
        return torch.cat([one.flatten() for one in found])

    total = sum(w * loss for w, loss in zip(weights, losses, strict=True))
    apart = [w * gradients(x) for w, x in zip(weights, losses, strict=True)]
    close(gradients(total), sum(apart))


@edits(
    ("a product", "** 2 + 10 * guess", "** 2 * 10 * guess"),
    ("a part that is detached", "10 * guess.abs", "10 * guess.detach().abs"),
    ("another weight", "+ 10 *", "+ 5 *"),
)
def test_gradients_add_up__but_not_of(snippet, old, new, fails):
    """That is no longer this weighted sum."""
    fails(test_gradients_add_up, snippet.edit(old, new))


# What goes wrong

SAID = "element 0 of tensors does not require grad and does not have a grad_fn"


def test_accuracy_has_no_gradient(snippet, loss=None):
    run = untrained(snippet, "error-of", "accuracy")

    assert run.said == SAID
    assert 0 < (run.scores > 0).float().mean() < 1
    right = ((run.scores > 0) == run.masks[300:].bool()).float().mean()
    close(run.agree, right)
    close(run.rounded.detach(), 1 - right)
    assert run.rounded.requires_grad
    assert run.raw.grad.unique().tolist() == [0]
    raw = run.scores.clone().requires_grad_()
    found = loss(raw) if loss else (raw > 0).float().mean()
    assert not found.requires_grad


def test_accuracy_has_no_gradient__ends_where_it_only_chooses(snippet, fails):
    """In `((x > 0) * x).mean()`, the other `x` still has its graph."""

    def chosen(scores):
        return ((scores > 0) * scores).mean()

    fails(test_accuracy_has_no_gradient, snippet, chosen)


@pytest.mark.parametrize(
    "cut",
    [
        lambda scores: scores.argmax(dim=1).float().mean(),
        lambda scores: (scores.max(dim=1).indices == 0).float().mean(),
        lambda scores: (scores >= 0).float().sum(),
        lambda scores: torch.tensor(scores.detach().numpy()).mean(),
        lambda scores: torch.tensor(scores.mean().item()),
    ],
    ids=["argmax", "max().indices", "a comparison", "NumPy", "item()"],
)
def test_accuracy_has_no_gradient__also_behind(cut):
    scores = torch.randn(5, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match=SAID):
        cut(scores).backward()


@pytest.mark.parametrize(
    "step",
    [torch.floor, torch.ceil, torch.sign, torch.trunc],
    ids=["floor", "ceil", "sign", "trunc"],
)
def test_accuracy_has_no_gradient__also_with_zeros_behind(step):
    scores = torch.randn(5, 3, requires_grad=True)
    step(scores).sum().backward()
    assert scores.grad.unique().tolist() == [0]


@edits(
    (
        "with probabilities",
        "((raw > 0) == masks[300:]).float()",
        "(1 - (raw.sigmoid() - masks[300:]).abs())",
    ),
    ("without rounding", "raw.sigmoid().round()", "raw.sigmoid()"),
)
def test_accuracy_has_no_gradient__but_not(snippet, old, new, fails):
    """These still lead back to the scores."""
    fails(test_accuracy_has_no_gradient, snippet.edit(old, new))


def test_a_number_adds_no_gradient(snippet):
    run = untrained(snippet, "item")

    raw = run.scores.clone().requires_grad_()
    masks = run.masks[300:]
    both = bce(raw, masks) + run.dice_loss(raw, masks)
    (alone,) = torch.autograd.grad(bce(raw, masks), raw)
    close(run.with_number.detach(), both.detach())
    assert run.with_number.item() > bce(raw, masks).item() + 0.1
    close(run.number_grad, alone, atol=1e-9)
    (whole,) = torch.autograd.grad(both, raw)
    close(run.both_grad, whole, atol=1e-9)
    assert run.both_grad.norm() > 1.1 * run.number_grad.norm()


@pytest.mark.parametrize(
    "as_number",
    [torch.Tensor.detach, lambda x: torch.tensor(x.tolist())],
    ids=["detach", "torch.tensor"],
)
def test_a_number_adds_no_gradient__also_behind(as_number):
    x = torch.tensor(3.0, requires_grad=True)
    loss = x**2 + as_number(x**3)
    with pytest.raises(RuntimeError, match=SAID):
        as_number(x**3).backward()
    loss.backward()
    assert loss.item() == 36
    assert x.grad.item() == 6


def test_a_number_adds_no_gradient__but_not_without_item(snippet, fails):
    """Then the Dice loss pulls as well."""
    old = "dice_loss(raw, masks[300:]).item()"
    fails(
        test_a_number_adds_no_gradient,
        snippet.edit(old, "dice_loss(raw, masks[300:])"),
    )


def test_a_number_adds_no_gradient__ends_for_a_factor(snippet, fails):
    """As a factor, the number scales the gradient."""
    edited = snippet.edit(
        "+ dice_loss(raw, masks[300:]).item()",
        "* (1 + dice_loss(raw, masks[300:]).item())",
    )
    fails(test_a_number_adds_no_gradient, edited)


def test_a_number_adds_no_gradient__also_in_the_exercise(snippet):
    run = small(snippet, "small-sum")
    assert run.loss.item() == 16
    assert run.w.grad.item() == 4


def test_pictures_meet_every_mask(snippet, loss=None, count=100):
    run = untrained(snippet, "pairs")

    masks = run.masks[300:]
    scores, flat = run.scores[:count], run.flat[:count]
    assert run.scores.shape == (100, 1, 20, 20)
    assert run.flat.shape == (100, 20, 20)
    assert run.each.shape == (100, 100, 20, 20)
    for i, j in ((0, 0), (3, 41), (99, 7)):
        expected = bce(run.scores[i, 0], masks[j, 0], reduction="none")
        close(run.each[i, j], expected)
    with no_error():
        found = (loss or by_hand)(scores, flat)
    assert found.shape == (count, count, 20, 20)
    assert found.numel() > flat.numel()


def by_hand(scores, masks):
    """Return the loss of a program, without its mean."""
    rest = (1 - masks) * F.logsigmoid(-scores)
    return -masks * F.logsigmoid(scores) - rest


@pytest.mark.parametrize("count", [2, 20], ids="{} pictures".format)
def test_pictures_meet_every_mask__also_with(count):
    scores, masks = torch.randn(count, 1, 20, 20), torch.rand(count, 20, 20)
    for loss in (
        (scores - masks) ** 2,
        scores.sigmoid() * masks,
        -masks * F.logsigmoid(scores),
    ):
        assert loss.shape == (count, count, 20, 20)


def test_pictures_meet_every_mask__ends_in_pytorch_s_own(snippet, fails):
    """`binary_cross_entropy_with_logits` raises an error instead."""
    fails(test_pictures_meet_every_mask, snippet, bce)


def test_pictures_meet_every_mask__ends_behind_flatten(snippet, fails):
    """`flatten(1)` gives scores and masks one shape, as in `dice_loss`."""
    run = untrained(snippet, "pairs")
    found = run.dice_loss(run.scores, run.flat)
    close(found, run.dice_loss(run.scores, run.masks[300:]))
    fails(test_pictures_meet_every_mask, snippet, run.dice_loss)


@edits(
    ("with the axis", "masks[300:].squeeze(1)", "masks[300:]"),
    (
        "squeezed both",
        "flat * F.logsigmoid(scores)",
        "flat * F.logsigmoid(scores.squeeze(1))",
    ),
)
def test_pictures_meet_every_mask__but_not(snippet, old, new, fails):
    """With the same shapes, each picture meets its own mask."""
    edited = snippet.edit(old, new)
    if "squeeze(1))" in new:
        edited = edited.edit(
            "F.logsigmoid(-scores)", "F.logsigmoid(-scores.squeeze(1))"
        )
    fails(test_pictures_meet_every_mask, edited)


def test_pictures_meet_every_mask__ends_with_one_picture(snippet, fails):
    """With one picture, there is only one mask to meet."""
    fails(test_pictures_meet_every_mask, snippet, None, 1)


BYTES = ("bytes", "bytes-mended")


def test_masks_of_255_go_negative(snippet, loss=bce):
    run = untrained(snippet, *BYTES)

    assert run.as_read.dtype == torch.uint8
    assert run.as_read.unique().tolist() == [0, 255]
    share = run.masks[300:].mean().item()
    expected = math.log(1 + math.e) - 255 * share
    assert run.negative.item() == pytest.approx(expected, rel=1e-4)
    assert run.negative < 0
    with no_error():
        high = [
            loss(x * run.masks[300:], run.as_read.float()).item()
            for x in (1, 10, 100, 1e4, 1e6)
        ]
    assert high == sorted(high, reverse=True)
    assert high[-1] < -1e6
    assert torch.equal(run.mended.float(), run.masks[300:])
    close(run.positive, bce(torch.ones_like(run.scores), run.masks[300:]))
    assert run.positive > 0


def test_masks_of_255_go_negative__also_while_training(snippet):
    run = small(snippet, "by-hand")
    torch.manual_seed(0)
    model = run.Finder()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        loss = bce(model(run.pictures)[0], 255 * run.masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > losses[10] > losses[20] > losses[-1]
    assert losses[-1] < -10


@edits(
    ("divided by 255", "as_read.float())", "as_read.float() / 255)"),
    ("of 0 and 1", "(masks[300:] * 255)", "masks[300:]"),
)
def test_masks_of_255_go_negative__but_not(snippet, old, new, fails):
    """With targets of 0 and 1, no loss is negative."""
    fails(test_masks_of_255_go_negative, snippet.edit(old, new))


def test_masks_of_255_go_negative__ends_behind_a_sigmoid(snippet, fails):
    """`binary_cross_entropy` of probabilities raises an error or has an end.

    Its logarithms are at least -100, and newer versions check the targets.
    """

    def of_probabilities(scores, targets):
        return F.binary_cross_entropy(scores.sigmoid(), targets)

    fails(test_masks_of_255_go_negative, snippet, of_probabilities)


TRIED = ("error-of", "classes", "classes-tried")


def test_one_hot_raises_for_255(snippet, ignored=255, count=3):
    run = small(snippet, *TRIED)
    assert run.said == "Class values must be smaller than num_classes."
    labels = torch.tensor([0, 1, ignored])
    with pytest.raises(RuntimeError, match=r"smaller than num_classes\."):
        F.one_hot(labels, count)
    with no_error():
        F.one_hot(labels[:2], 2)


@pytest.mark.parametrize("count", [2, 21, 255], ids="{} classes".format)
def test_one_hot_raises_for_255__also_with(snippet, count):
    test_one_hot_raises_for_255(snippet, 255, count)


def test_one_hot_raises_for_255__but_not_if_all_are_labeled(snippet, fails):
    """With classes from 0 to 2 alone, nothing is raised."""
    edited = snippet.edit("classes[:, 2:] = 255", "classes[:, 2:] = 0")
    fails(test_one_hot_raises_for_255, edited)


def test_one_hot_raises_for_255__ends_for_minus_100(snippet, fails):
    """For -100, it raises `Class values must be non-negative.`"""
    fails(test_one_hot_raises_for_255, snippet, -100)


def test_one_hot_raises_for_255__ends_without_num_classes(snippet, fails):
    """Without `num_classes`, it counts up to the largest label, and makes 256
    classes.
    """
    fails(test_one_hot_raises_for_255, snippet, 255, -1)


KNOWN = "over_known = (each * known).sum() /"


def scores_from(seed, rows=6, classes=10, scale=1.0):
    """Return scores of a student and of a teacher."""
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(2, rows, classes, generator=generator)


def test_without_the_log_kl_is_negative(snippet, scale=1.0, classes=10):
    run = small(snippet, "distill")
    close(run.agreeing, 0)
    assert run.no_log_sure < run.no_log < 0
    edited = snippet.edit(".log_softmax(", ".softmax(")
    student, teacher = scores_from(0, classes=classes, scale=scale)
    sure = 1e4 * F.one_hot(teacher.argmax(dim=1), classes)
    with no_error():
        wrong = small(edited, "distill").distill
        assert wrong(student, teacher) < 0
        assert wrong(sure, teacher) < wrong(teacher, teacher) < 0
    right = small(snippet, "distill").distill
    assert right(student, teacher) > 0
    assert right(sure, teacher) > right(teacher, teacher)
    close(right(teacher, teacher), 0)


@pytest.mark.parametrize("scale", [0.1, 8.0], ids="scores around {}".format)
def test_without_the_log_kl_is_negative__also_with(snippet, scale):
    test_without_the_log_kl_is_negative(snippet, scale)


@pytest.mark.parametrize("classes", [2, 100], ids="{} classes".format)
def test_without_the_log_kl_is_negative__also_for(snippet, classes):
    test_without_the_log_kl_is_negative(snippet, classes=classes)


def test_without_the_log_kl_is_negative__but_not_with_log(snippet, fails):
    """With log-probabilities, it is 0 if both agree, and positive if not."""
    edited = snippet.edit("kl_div(chances,", "kl_div(chances.log(),")
    fails(test_without_the_log_kl_is_negative, edited)


def test_without_the_log_kl_is_negative__but_not_of_scores(snippet, fails):
    """Plain scores give a positive number as well as a negative one."""
    edited = snippet.edit("kl_div(chances,", "kl_div(teacher - 9,")
    fails(test_without_the_log_kl_is_negative, edited)


WARNS_OF_MEAN = pytest.mark.filterwarnings("ignore:reduction:UserWarning")


@WARNS_OF_MEAN
def test_mean_divides_by_the_classes(snippet, reduction="", classes=10):
    edited = snippet.edit(', reduction="batchmean") * T', f"{reduction}) * T")
    student, teacher = scores_from(0, classes=classes)
    right = small(snippet, "distill").distill(student, teacher)
    close(small(edited, "distill").distill(student, teacher), right / classes)
    soft, other = ((s / 4).softmax(dim=1) for s in (teacher, student))
    by_hand = (soft * (soft / other).log()).sum(dim=1).mean()
    close(right, 16 * by_hand)


@pytest.mark.parametrize("classes", [2, 100], ids="{} classes".format)
@WARNS_OF_MEAN
def test_mean_divides_by_the_classes__also_for(snippet, classes):
    test_mean_divides_by_the_classes(snippet, classes=classes)


@WARNS_OF_MEAN
def test_mean_divides_by_the_classes__also_in_a_module(snippet):
    run = small(snippet, "distill")
    student, teacher = scores_from(0)
    pair = (student / 4).log_softmax(dim=1), (teacher / 4).softmax(dim=1)
    expected = run.distill(student, teacher) / 16
    close(torch.nn.KLDivLoss()(*pair), expected / 10)
    close(torch.nn.KLDivLoss(reduction="batchmean")(*pair), expected)


@pytest.mark.parametrize("reduction", ["batchmean", "sum"])
def test_mean_divides_by_the_classes__but_not_with(snippet, reduction, fails):
    """Divided by the number of rows alone, or by nothing."""
    chosen = f', reduction="{reduction}"'
    fails(test_mean_divides_by_the_classes, snippet, chosen)


def steepness(distill, T, scale=1.0):
    """Return the norm of the gradient at the scores of a student."""
    student, teacher = scores_from(0, scale=scale)
    student.requires_grad_()
    distill(student, teacher, T=T).backward()
    return student.grad.norm().item()


def test_t_squared_keeps_the_gradient(snippet, factor=" * T * T", T=8.0):
    plain = snippet.edit('"batchmean") * T * T', '"batchmean")')
    shown = snippet.edit('"batchmean") * T * T', f'"batchmean"){factor}')
    for program, ratio in ((plain, 1 / 4), (shown, 1)):
        distill = small(program, "distill").distill
        steep, flat = (steepness(distill, each) for each in (T, 2 * T))
        assert flat / steep == pytest.approx(ratio, rel=0.15)


@pytest.mark.parametrize("T", [16.0, 50.0], ids="a temperature of {}".format)
def test_t_squared_keeps_the_gradient__also_with(snippet, T):
    test_t_squared_keeps_the_gradient(snippet, T=T)


@pytest.mark.parametrize("factor", [" * T", ""], ids=["T alone", "nothing"])
def test_t_squared_keeps_the_gradient__but_not_with(snippet, factor, fails):
    """Then the gradient still shrinks as the temperature rises."""
    fails(test_t_squared_keeps_the_gradient, snippet, factor)


def test_t_squared_keeps_the_gradient__ends_at_low_temperatures(
    snippet, fails
):
    """Below a temperature of about the spread of the scores, the gradient
    shrinks less than that.
    """
    fails(test_t_squared_keeps_the_gradient, snippet, " * T * T", 0.5)


def test_divide_by_the_known(snippet, known=None, unknown=0.0):
    run = untrained(snippet, "known")

    known = run.known if known is None else known
    targets = run.masks[300:].where(known.bool(), unknown)
    each = bce(run.scores, targets, reduction="none")
    alone = each[known.bool()]
    mean = (each * known).sum() / known.sum()
    assert mean.isfinite()
    close(mean, alone.mean())
    close((each * known).mean(), alone.mean() * known.mean())
    chosen = run.known.bool()
    alone = bce(run.scores[chosen], run.masks[300:][chosen])
    close(run.over_known, alone)
    close(run.too_small, alone * run.known.mean())
    assert run.known.mean() == 0.25
    assert run.too_small.item() == pytest.approx(run.over_known.item() / 4)


@pytest.mark.parametrize("share", [0.02, 0.5, 1], ids="{:.0%}".format)
def test_divide_by_the_known__also_at_a_share_of(share):
    torch.manual_seed(0)
    scores, targets = torch.randn(2, 1000)
    known = (torch.arange(1000) < share * 1000).float()
    each = (scores - targets) ** 2
    alone = F.mse_loss(scores[known == 1], targets[known == 1])
    close((each * known).sum() / known.sum(), alone)
    close((each * known).mean(), alone * share)


@edits(
    ("by the batch", f"{KNOWN} known.sum()", f"{KNOWN} len(known)"),
    ("by all pixels", f"{KNOWN} known.sum()", f"{KNOWN} known.numel()"),
)
def test_divide_by_the_known__but_not(snippet, old, new, fails):
    """Another number is no mean of the known pixels."""
    fails(test_divide_by_the_known, snippet.edit(old, new))


def test_divide_by_the_known__ends_without_a_known_pixel(snippet, fails):
    """Without any known pixel, 0 / 0 is nan: leave such a batch out."""
    none = torch.zeros(100, 1, 20, 20)
    fails(test_divide_by_the_known, snippet, none)


def test_divide_by_the_known__ends_where_unknown_is_nan(snippet, fails):
    """0 · nan is nan: fill such targets first, with `nan_to_num()`."""
    fails(test_divide_by_the_known, snippet, None, math.nan)


def test_divide_by_the_known__also_in_the_exercise(snippet):
    cells = ("error-of", "masked-mae", "masked-mae-checked")
    run = small(snippet, *cells)
    assert run.missing == []
    assert run.masked_mae(run.guess, run.ages, run.known).item() == 2


TWO = """(scores, masks, amount, amounts):
    return ink_loss(scores, masks) + """


def drowns(run, plain, weighted):
    """Compare the ink that two models find."""
    assert run.dice(run.scores_of(plain) > 0) < 0.1
    assert run.dice(run.scores_of(weighted) > 0) > 0.5


def test_the_larger_loss_drowns(snippet, steps=40):
    run = after(snippet, *TASKS)
    assert run.pulls["amount"] > 10 * run.pulls["ink"]
    assert run.parts["amount"] > 100 * run.parts["ink"]
    close(run.amounts, run.masks.flatten(1).sum(dim=1))
    run = after(snippet, *TASKS, "drowned")
    drowns(run, run.drowned, run.balanced)
    if steps != 40:
        drowns(run, run.fit(run.plain_sum, steps=steps), run.balanced)
    given = run.score, run.masks[:32], run.amount, run.amounts[:32]
    ink, amount = run.parts.values()
    close(run.plain_sum(*given).detach(), (ink + amount).detach())
    close(run.weighted_sum(*given).detach(), (ink + amount / 500).detach())


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_the_larger_loss_drowns__also_from(snippet, seed):
    run = after(snippet, *TASKS)
    plain, weighted = (
        run.fit(loss, steps=40, seed=seed)
        for loss in (run.plain_sum, run.weighted_sum)
    )
    drowns(run, plain, weighted)


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_the_larger_loss_drowns__also_at_the_start_from(snippet, seed):
    run = after(snippet, *TASKS)
    torch.manual_seed(seed)
    model = run.Finder()
    scores, amount = model(run.pictures[:32])
    losses = (
        run.ink_loss(scores, run.masks[:32]),
        F.mse_loss(amount, run.amounts[:32]),
    )
    ink, large = (
        torch.autograd.grad(x, model.body[0].weight, retain_graph=True)[0]
        for x in losses
    )
    assert large.norm() > 10 * ink.norm()


@edits(
    (
        "the same weight",
        f"plain_sum{TWO}",
        f"plain_sum{TWO}0.002 * ",
    ),
    ("no weight", "+ 0.002 * F.mse", "+ F.mse"),
    (
        "an amount between 0 and 1",
        "masks.sum(dim=(1, 2, 3))",
        "masks.mean(dim=(1, 2, 3))",
    ),
)
def test_the_larger_loss_drowns__but_not_with(snippet, old, new, fails):
    """Both are alike then, or the amount is small by itself."""
    fails(test_the_larger_loss_drowns, snippet.edit(old, new))


def test_adam_cancels_a_common_factor(snippet, optimizer=None):
    run = after(snippet, *TASKS, "factor")

    once, whole, part = map(run.scores_of, (run.once, run.whole, run.part))
    assert 0 < (once - whole).abs().max() < 0.02  # rounded otherwise
    assert (once - part).abs().max() > 0.5
    torch.manual_seed(0)
    moved = (once - run.scores_of(run.Finder())).abs().max()
    assert moved > 0.5
    if optimizer:
        whole, part = factors(run, optimizer)
        assert whole < 0.02
        assert part > 0.3


def factors(run, optimizer, rate=0.03):
    """Return how far factors of 100 move the scores after five steps."""
    options = {"steps": 5, "optimizer": optimizer, "rate": rate}
    once, whole, part = (
        run.scores_of(run.fit(loss, **options))
        for loss in (
            run.weighted_sum,
            lambda *given: 100 * run.weighted_sum(*given),
            run.plain_sum,
        )
    )
    return (once - whole).abs().max(), (once - part).abs().max()


@pytest.mark.parametrize("factor", [0.01, 1e4], ids="{}".format)
def test_adam_cancels_a_common_factor__also_of(snippet, factor):
    run = after(snippet, *TASKS, "factor")
    model = run.fit(lambda *given: factor * run.weighted_sum(*given), 5)
    apart = run.scores_of(model) - run.scores_of(run.once)
    assert apart.abs().max() < 0.02


@pytest.mark.parametrize(
    "kind",
    [torch.optim.AdamW, torch.optim.NAdam],
    ids=lambda kind: kind.__name__,
)
def test_adam_cancels_a_common_factor__also_with(snippet, kind):
    test_adam_cancels_a_common_factor(snippet, kind)


@edits(
    ("SGD", "optimizer=torch.optim.Adam, ", "optimizer=torch.optim.SGD, "),
    (
        "a penalty outside of the factor",
        "100 * weighted_sum(*given)",
        "100 * weighted_sum(*given) + 1e4 * given[0].square().mean()",
    ),
    ("one loss", "return ink_loss(scores, masks) + ", "return "),
)
def test_adam_cancels_a_common_factor__but_not_with(snippet, old, new, fails):
    """SGD multiplies its step, and a single loss has nothing to share."""
    if new == "return ":
        old = snippet.cell("two-tasks").source
        new = old.replace("return ink_loss(scores, masks) + ", "return ")
    edited = snippet.edit(old, new)
    if "SGD" in new:
        edited = edited.edit("rate=0.03", "rate=1e-5")
    fails(test_adam_cancels_a_common_factor, edited)


def test_adam_cancels_a_common_factor__ends_with_its_weight_decay(
    snippet, fails
):
    """Adam adds `weight_decay` to the gradient, where no factor reaches it."""

    def decaying(parameters, lr):
        return torch.optim.Adam(parameters, lr=lr, weight_decay=1.0)

    fails(test_adam_cancels_a_common_factor, snippet, decaying)


def test_adam_cancels_a_common_factor__ends_with_a_large_eps(snippet, fails):
    """`eps=0.1` slows down small gradients more than those times 100."""

    def slowed(parameters, lr):
        return torch.optim.Adam(parameters, lr=lr, eps=0.1)

    fails(test_adam_cancels_a_common_factor, snippet, slowed)


def test_the_larger_loss_drowns__ends_after_100_steps(snippet, fails):
    """By then, the larger loss has fallen, and the ink is found as well."""
    fails(test_the_larger_loss_drowns, snippet, 100)


def lowest(share, weight):
    """Return the probability at which the weighted loss is lowest."""
    score = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([1.0, 0.0], dtype=torch.float64)
    weights = torch.tensor([share, 1 - share], dtype=torch.float64)
    optimizer = torch.optim.LBFGS(
        [score], line_search_fn="strong_wolfe", tolerance_grad=1e-12
    )

    def closure():
        optimizer.zero_grad()
        loss = bce(
            score.expand(2),
            labels,
            weight=weights,
            pos_weight=torch.tensor(weight, dtype=torch.float64),
        )
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    return score.detach().sigmoid().item()


def test_pos_weight_multiplies_the_odds(snippet):
    run = small(snippet, "odds")

    assert run.labels.mean().item() == pytest.approx(0.05)
    assert run.weight.item() == 19
    assert run.score.grad.abs().item() < 1e-6
    score = run.score.detach()
    for other in (score - 0.1, score + 0.1):
        higher, least = (
            bce(one.expand(100), run.labels, pos_weight=run.weight)
            for one in (other, score)
        )
        assert higher > least
    chance = score.sigmoid()
    close(chance / (1 - chance), [19 * 5 / 95])
    close(run.shifted.sigmoid(), [0.05])


@pytest.mark.parametrize("weight", [0.5, 3, 50], ids="pos_weight {}".format)
def test_pos_weight_multiplies_the_odds__also_with(weight):
    for share in (0.01, 0.3, 0.9):
        found = lowest(share, float(weight))
        odds = weight * share / (1 - share)
        assert found / (1 - found) == pytest.approx(odds, rel=1e-3)


@edits(
    ("other labels", "labels[:5] = 1.0", "labels[:50] = 1.0"),
    ("no pos_weight", ", pos_weight=weight).backward", ").backward"),
    ("another weight", "weight = (labels == 0)", "weight = 2 * (labels == 0)"),
)
def test_pos_weight_multiplies_the_odds__but_not_with(
    snippet, old, new, fails
):
    """The loss is then lowest elsewhere, or the odds are others."""
    fails(test_pos_weight_multiplies_the_odds, snippet.edit(old, new))


def frequencies(run, scores, weight):
    """Compare mean probabilities with the share of ink."""
    share = run.masks[300:].mean()
    assert scores.sigmoid().mean() > 1.4 * share
    corrected = (scores - math.log(weight)).sigmoid().mean()
    assert 0.7 * share < corrected < 1.4 * share


def test_subtract_the_log(snippet):
    run = hardly_trained(snippet, "weighted")
    close(run.corrected, run.eager_scores - run.pos_weight.log())
    run = after(snippet, *BASE, "weighted")

    negatives = (run.masks[:300] == 0).sum() / (run.masks[:300] == 1).sum()
    close(run.pos_weight, negatives)
    frequencies(run, run.eager_scores, run.pos_weight.item())


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_subtract_the_log__also_from(snippet, seed):
    run = hardly_trained(snippet, "weighted")
    model = run.fit(
        lambda s, m, *_: bce(s, m, pos_weight=run.pos_weight), 100, seed
    )
    frequencies(run, run.scores_of(model), run.pos_weight.item())


@edits(
    ("no pos_weight", "masks, pos_weight=pos_weight)", "masks)"),
    ("another sign", "scores - pos_weight.log()", "scores + pos_weight.log()"),
)
def test_subtract_the_log__but_not_with(snippet, old, new, fails):
    """There is nothing to correct, or this is no correction."""
    fails(test_subtract_the_log, snippet.edit(old, new))


def test_weights_per_label_need_axes(snippet):
    run = small(snippet, "error-of", "many-labels")

    assert "size of tensor a (3) must match" in run.flat_weights
    plain = math.log(2)
    assert len(run.weights.unique()) == 3
    close(run.right, plain * run.weights[:, None, None].expand(2, 3, 3, 3))
    close(run.wrong, plain * run.weights.expand(2, 3, 3, 3))


@pytest.mark.parametrize("labels", [1, 3, 80], ids="{} labels".format)
def test_weights_per_label_need_axes__also_of(labels):
    weights = torch.rand(labels) + 1
    scores = torch.zeros(2, labels, 4, 5)
    found = bce(
        scores,
        scores + 1,
        pos_weight=weights[:, None, None],
        reduction="none",
    )
    close(found, math.log(2) * weights[:, None, None].expand_as(scores))
    flat = torch.zeros(6, labels)
    found = bce(flat, flat + 1, pos_weight=weights, reduction="none")
    close(found, math.log(2) * weights.expand_as(flat))


@edits(
    (
        "axes for both",
        "pos_weight=weights, reduction",
        "pos_weight=weights[:, None, None], reduction",
    ),
    (
        "axes for neither",
        "pos_weight=weights[:, None, None]",
        "pos_weight=weights",
    ),
)
def test_weights_per_label_need_axes__but_not(snippet, old, new, fails):
    """Both results are then the same."""
    fails(test_weights_per_label_need_axes, snippet.edit(old, new))


def stepped(rate):
    """Return where SGD with an L1 penalty takes a weight from 0.25."""
    weight = torch.tensor([0.25], requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=rate)
    path = []
    for _ in range(5):
        optimizer.zero_grad()
        weight.abs().sum().backward()
        optimizer.step()
        path.append(weight.item())
    return path


def test_softshrink_stops_at_zero(snippet, rate=0.1):
    run = small(snippet, "shrink")

    by_sgd, by_shrinking = zip(*run.path, strict=True)
    assert by_sgd == (0.15, 0.05, -0.05, 0.05, -0.05)
    assert by_shrinking == (0.15, 0.05, 0, 0, 0)
    assert run.shrunk.item() == 0
    assert run.penalized.item() != 0
    assert 0 not in stepped(rate)


@pytest.mark.parametrize("strength", [0.01, 0.3], ids="{}".format)
def test_softshrink_stops_at_zero__also_in_a_regression_at(strength):
    torch.manual_seed(0)
    inputs = torch.randn(200, 20)
    targets = inputs[:, :2].sum(dim=1)
    weights = {}
    for name in ("penalty", "softshrink"):
        weight = torch.zeros(20, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.05)
        for _ in range(200):
            loss = F.mse_loss(inputs @ weight, targets)
            if name == "penalty":
                loss = loss + strength * weight.abs().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if name == "softshrink":
                with torch.no_grad():
                    weight.copy_(F.softshrink(weight, 0.05 * strength))
        weights[name] = weight.detach()
    assert (weights["penalty"] == 0).sum() == 0
    assert (weights["softshrink"][2:] == 0).sum() >= 9
    assert (weights["softshrink"][:2] > 0.5).all()


@each("dtype", DTYPES, "float64", "float32", "bfloat16")
def test_softshrink_stops_at_zero__also_in(dtype):
    weight = torch.tensor([0.25, -0.25, 0.07], dtype=dtype)
    for _ in range(4):
        weight = F.softshrink(weight, 0.1)
    assert weight.tolist() == [0, 0, 0]


@edits(
    ("a square", "penalized.abs().sum()", "penalized.square().sum()"),
    ("hardshrink", "F.softshrink(shrunk, 0.1)", "F.hardshrink(shrunk, 0.1)"),
)
def test_softshrink_stops_at_zero__but_not_with(snippet, old, new, fails):
    """A square pulls less and less, and `hardshrink` does not pull."""
    fails(test_softshrink_stops_at_zero, snippet.edit(old, new))


def test_softshrink_stops_at_zero__ends_where_a_step_meets_zero(
    snippet, fails
):
    """A weight that lands on 0 stays there, as the gradient of `abs` is 0."""
    fails(test_softshrink_stops_at_zero, snippet, 0.125)
