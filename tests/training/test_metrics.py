"""The claims of docs/training/metrics.md."""

import csv
import math
import sys
from itertools import product

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after


def measured(snippet, *more):
    """Run the cells that measure the model, and others after them."""
    cells = "load", "model", "collect", "accuracy", "confusion", "by-class"
    return after(snippet, *cells, *more)


def judged(snippet):
    """Run the cells that compare with scikit-learn."""
    cells = "load", "model", "collect", "accuracy", "confusion", "by-class"
    return after(snippet, *cells, "means", "judge")


def ordered(snippet, *more):
    """Run the cells that look for the eights, and others after them."""
    cells = "load", "model", "collect", "accuracy", "confusion", "by-class"
    return after(snippet, *cells, "judge", "always-no", "auc", *more)


def guessed(seed, classes, count, dtype=torch.int64):
    """Return labels and guesses at random, of which half agree."""
    random = torch.Generator().manual_seed(seed)
    labels, others = torch.randint(classes, (2, count), generator=random)
    agree = torch.rand(count, generator=random) < 0.5
    return labels.to(dtype), torch.where(agree, labels, others)


# Few samples for many classes leave classes without labels or guesses.
SIZES = [(1, 1), (2, 1), (2, 9), (3, 50), (10, 4), (10, 300), (17, 40)]
WORLDS = [guessed(seed, *size) + size[:1] for seed, size in enumerate(SIZES)]


# How it works: the matrix


def counted(labels, guesses, classes):
    """Count pairs one by one."""
    table = [[0] * classes for _ in range(classes)]
    for label, guess in zip(labels.tolist(), guesses.tolist(), strict=True):
        if guess < classes:
            table[label][guess] += 1
    return table


def test_rows_are_labels(snippet, others=()):
    cells = "load", "model", "collect", "accuracy", "confusion", "by-class"
    run = after(snippet, *cells, "cell-by-hand")
    own = run.labels, run.guesses, 10

    assert run.eights.bincount(minlength=10).equal(run.confusion[8])
    assert run.confusion.tolist() == counted(*own)
    assert run.guesses.tolist() == run.scores.max(dim=1).indices.tolist()
    for labels, guesses, classes in (*WORLDS, *others):
        with no_error():
            table = run.confusion_matrix(labels, guesses, classes)
        assert table.tolist() == counted(labels.long(), guesses, classes)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_rows_are_labels__also_for_labels_of(snippet, dtype):
    test_rows_are_labels(snippet, [(*guessed(3, 10, 99, dtype), 10)])


@pytest.mark.parametrize("table", [2, 3, 5], ids="{} columns".format)
def test_rows_are_labels__also_for_columns_of_a_table_with(snippet, table):
    labels, guesses = guessed(4, 6, 40)
    rows = torch.stack([labels, guesses] * table, dim=1)
    assert not rows[:, 0].is_contiguous()
    test_rows_are_labels(snippet, [(rows[:, 0], rows[:, 1], 6)])


@edits(
    (
        "turned around",
        "classes * labels + guesses",
        "classes * guesses + labels",
    ),
    ("one class too few", "classes * labels", "(classes - 1) * labels"),
    ("flipped", "counts.reshape(classes, classes)", None),
)
def test_rows_are_labels__but_not_otherwise(snippet, old, new, fails):
    """Other numbers for the pairs put the counts elsewhere."""
    edited = snippet.edit(
        old, new or "counts.reshape(classes, classes).flip(0)"
    )
    fails(test_rows_are_labels, edited)


def test_rows_are_labels__ends_with_ignored_labels(snippet, fails):
    """A label of -100 makes `bincount` raise an error: leave it out."""
    labels, guesses = guessed(5, 3, 9)
    labels[0] = -100
    fails(test_rows_are_labels, snippet, [(labels, guesses, 3)])


def test_rows_are_labels__ends_with_a_guess_beyond_the_classes(snippet, fails):
    """A guess of `classes` or more counts in the next row: give as many
    classes as the model has scores.
    """
    labels, guesses = guessed(5, 3, 9)
    labels[0], guesses[0] = 0, 3
    fails(test_rows_are_labels, snippet, [(labels, guesses, 3)])


def test_rows_are_labels__ends_for_uint8_of_many_classes(snippet, fails):
    """Above 255, `uint8` starts again at 0: convert with `long()`."""
    labels, guesses = guessed(6, 20, 99, torch.uint8)
    fails(test_rows_are_labels, snippet, [(labels, guesses, 20)])


# How it works: precision, recall, F1


def share(hits):
    """Return the share of what is true, and 0 of nothing."""
    return sum(hits) / max(len(hits), 1)


def test_columns_and_rows(snippet):
    run = measured(snippet)

    for labels, guesses, k in ((run.labels, run.guesses, 10), *WORLDS):
        table = run.confusion_matrix(labels, guesses, k)
        precision, recall, _ = run.by_class(table)
        for c in range(k):
            taken, wanted = (guesses == c).tolist(), (labels == c).tolist()
            both = list(zip(taken, wanted, strict=True))
            hits = share([w for t, w in both if t])
            assert precision[c].item() == pytest.approx(hits)
            hits = share([t for t, w in both if w])
            assert recall[c].item() == pytest.approx(hits)
    assert run.precision[8].item() == pytest.approx(26 / 33)
    assert run.recall[8].item() == pytest.approx(26 / 32)
    assert run.f1[8].item() == pytest.approx(2 * 26 / (32 + 33))


@edits(
    ("precision by rows", "right / guessed.clamp", "right / labeled.clamp"),
    ("recall by columns", "right / labeled.clamp", "right / guessed.clamp"),
    ("the opposite diagonal", "confusion.diagonal()\n    labeled", None),
)
def test_columns_and_rows__but_not_otherwise(snippet, old, new, fails):
    """Other sums, or other cells, give other shares."""
    flipped = "confusion.flip(0).diagonal()\n    labeled"
    fails(test_columns_and_rows, snippet.edit(old, new or flipped))


def test_columns_and_rows__but_not_turned_around(snippet, fails):
    """With a row for each guess, the two change places."""
    edited = snippet.edit(
        "classes * labels + guesses", "classes * guesses + labels"
    )
    fails(test_columns_and_rows, edited)


def test_micro_f1_is_the_accuracy(snippet, left_out=()):
    run = judged(snippet)
    top_k = after(snippet, "load", "solution").top_k

    assert top_k(run.scores, run.labels, 1) == run.accuracy
    assert top_k(run.scores, run.labels, 2) > run.accuracy
    assert top_k(run.scores, run.labels, 10) == 1
    for labels, guesses, k in ((run.labels, run.guesses, 10), *WORLDS):
        accuracy = (labels == guesses).double().mean().item()
        assert {*map(type, (*run.three, run.accuracy))} == {float}
        micro = run.means_of_f1(run.confusion_matrix(labels, guesses, k))[2]
        assert micro == pytest.approx(accuracy)
        kept = [c for c in range(k) if c not in left_out]
        options = {"labels": kept, "average": "micro", "zero_division": 0}
        judge = run.precision_recall_fscore_support
        if kept:
            *_, by_others, _ = judge(labels, guesses, **options)
            assert by_others == pytest.approx(accuracy)


def test_micro_f1_is_the_accuracy__also_in_the_exercise(snippet):
    cells = "load", "model", "collect", "accuracy", "solution"
    run = after(snippet, *cells, "solution-checked")

    assert (run.k, run.expected, run.answer) == (10, 1, 1)
    assert type(run.expected) is type(run.answer) is float
    order = run.scores.argsort(dim=1, descending=True)
    places = (order == run.labels[:, None]).double().argmax(dim=1)
    assert run.ranks.tolist() == places.tolist()
    for wrong in ("topk(k, largest=False, ", "topk(k + 1, "):
        stopped = after(
            snippet.edit("topk(k, ", wrong), *cells, "solution-checked"
        )
        assert stopped.k == 1
        assert stopped.expected == pytest.approx(267 / 300)
        assert stopped.answer != stopped.expected


@edits(
    ("macro", "micro.item()", "macro.item()"),
    ("weighted", "micro.item()", "weighted.item()"),
    ("one class left out", "confusion.diagonal().sum()", None),
)
def test_micro_f1_is_the_accuracy__but_not(snippet, old, new, fails):
    """The other means differ, and so does micro F1 without a class."""
    edited = snippet.edit(old, new or "confusion.diagonal()[1:].sum()")
    fails(test_micro_f1_is_the_accuracy, edited)


def test_micro_f1_is_the_accuracy__ends_if_a_class_is_left_out(snippet, fails):
    """Without the class 0, as for a background, micro F1 is no accuracy."""
    fails(test_micro_f1_is_the_accuracy, snippet, [0])


def test_scikit_learn_agrees(snippet, named=True):
    run = judged(snippet)
    judge = run.precision_recall_fscore_support

    for labels, guesses, k in ((run.labels, run.guesses, 10), *WORLDS):
        table = run.confusion_matrix(labels, guesses, k)
        classes = list(range(k)) if named else None
        options = {"labels": classes, "zero_division": 0}
        *expected, _ = judge(labels, guesses, **options)
        for own, other in zip(run.by_class(table), expected, strict=True):
            assert own.tolist() == pytest.approx(other.tolist())
        kinds = "macro", "weighted", "micro"
        for own, kind in zip(run.means_of_f1(table), kinds, strict=True):
            *_, f1, _ = judge(labels, guesses, average=kind, **options)
            assert own == pytest.approx(f1)
    for own, other in zip(
        run.by_class(run.confusion), run.judged, strict=False
    ):
        assert own.tolist() == pytest.approx(other.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_scikit_learn_agrees__also_on_random_labels_of(snippet, seed):
    run = judged(snippet)

    for k, count in product((2, 5, 30), (1, 20, 500)):
        labels, guesses = guessed(seed, k, count)
        table = run.confusion_matrix(labels, guesses, k)
        options = {"labels": range(k), "zero_division": 0}
        judge = run.precision_recall_fscore_support
        expected = judge(labels, guesses, **options)[:3]
        for own, other in zip(run.by_class(table), expected, strict=True):
            assert own.tolist() == pytest.approx(other.tolist())


@edits(
    ("precision by rows", "right / guessed.clamp", "right / labeled.clamp"),
    ("half of F1", "f1 = 2 * right", "f1 = right"),
    ("nan for 0 / 0", "guessed.clamp(min=1)", "guessed"),
    ("a mean of both", "2 * right / (labeled + guessed).clamp(min=1)", None),
    ("macro for weighted", "weighted.item(),", "macro.item(),"),
    ("weighted for macro", "return macro.item()", "return weighted.item()"),
)
def test_scikit_learn_agrees__but_not_with(snippet, old, new, fails):
    """Each edit computes another measure, or leaves nan where it has 0."""
    edited = snippet.edit(old, new or "(precision + recall) / 2")
    fails(test_scikit_learn_agrees, edited)


def test_scikit_learn_agrees__ends_without_its_option_labels(snippet, fails):
    """Without `labels`, it leaves out a class that nobody has or guesses."""
    fails(test_scikit_learn_agrees, snippet, False)


# How it works: a rare class


def test_always_no_looks_good(snippet, answers=None):
    run = ordered(snippet)
    answers = run.never if answers is None else answers

    accuracy = (answers == run.is_eight).double().mean().item()
    assert round(accuracy, 2) == 0.89
    assert (answers & run.is_eight).sum() == 0
    assert run.is_eight.equal(run.digits[run.valid.indices][1] == 8)


@edits(
    ("a common yes", "is_eight = labels == 8", "is_eight = labels < 8"),
    ("always yes", "torch.zeros_like(is_eight)", "torch.ones_like(is_eight)"),
    ("the model", "torch.zeros_like(is_eight)", "guesses == 8"),
)
def test_always_no_looks_good__but_not_for(snippet, old, new, fails):
    """A common yes is often missed, and the two others find eights."""
    fails(test_always_no_looks_good, snippet.edit(old, new))


def pairwise(scores, is_positive):
    """Return the share of pairs that the positive one wins."""
    ours = [s for s, y in zip(scores, is_positive, strict=True) if y]
    others = [s for s, y in zip(scores, is_positive, strict=True) if not y]
    points = [(a > b) + (a == b) / 2 for a, b in product(ours, others)]
    return sum(points) / len(points) if points else math.nan


def test_auc_is_the_share_of_pairs(snippet, others=()):
    run = ordered(snippet, "pairs")
    found = run.auc(run.chance, run.is_eight).item()
    softmax = run.scores.double().softmax(dim=1)[:, 8]

    torch.testing.assert_close(run.chance.double(), softmax)
    assert found == pytest.approx(run.wins.mean().item())
    assert run.wins.numel() == 32 * 268
    for seed, count in enumerate((2, 3, 10, 60)):
        random = torch.Generator().manual_seed(seed)
        yes = torch.rand(count, generator=random) < 0.4
        yes[0], yes[1] = True, False
        plain = torch.randn(count, generator=random)
        others = (*others, (plain, yes), ((2 * plain).round(), yes))
    for scores, yes in (*others, (run.chance, run.is_eight)):
        expected = pairwise(scores.tolist(), yes.tolist())
        assert run.auc(scores, yes).item() == pytest.approx(expected)
        by_others = run.roc_auc_score(yes, scores.double())
        assert by_others == pytest.approx(expected)


@edits(
    ("ties lose", "(below + not_above)", "(below + below)"),
    ("ties win", "(below + not_above)", "(not_above + not_above)"),
    ("not sorted", "scores[~is_positive].sort().values", None),
    ("all ranks", "scores[~is_positive].sort()", "scores.sort()"),
    ("another digit", "softmax(dim=1)[:, 8]", "softmax(dim=1)[:, 3]"),
)
def test_auc_is_the_share_of_pairs__but_not_if(snippet, old, new, fails):
    """Each edit counts ties otherwise, or compares with others."""
    edited = snippet.edit(old, new or "scores[~is_positive]")
    fails(test_auc_is_the_share_of_pairs, edited)


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float16, torch.bfloat16, torch.int64],
    ids=str,
)
def test_auc_is_the_share_of_pairs__also_for_scores_of(snippet, dtype):
    scores = torch.tensor([9, 4, 7, 4, 1, 4]).to(dtype)
    yes = torch.tensor([True, True, False, False, False, True])
    test_auc_is_the_share_of_pairs(snippet, [(scores, yes)])


def test_auc_is_the_share_of_pairs__also_in_the_last_digit(snippet):
    scores = 1 + 1e-12 * torch.tensor([1, 2, 3, 4], dtype=torch.float64)
    yes = torch.tensor([False, True, False, True])
    test_auc_is_the_share_of_pairs(snippet, [(scores, yes)])


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.uint8, torch.float32], ids=str
)
def test_auc_is_the_share_of_pairs__also_for_labels_of(snippet, dtype):
    scores = torch.tensor([0.1, 0.9, 0.8, 0.2, 0.9])
    yes = torch.tensor([0, 1, 1, 0, 0]).to(dtype)
    test_auc_is_the_share_of_pairs(snippet, [(scores, yes)])


@pytest.mark.parametrize(
    "change",
    [torch.exp, torch.atan, lambda x: 3 * x - 5],
    ids=["exp", "atan", "3x - 5"],
)
def test_auc_is_the_share_of_pairs__also_after_a_rising_function(
    snippet, change
):
    run = ordered(snippet)
    scores = run.chance.double()

    own = run.auc(change(scores), run.is_eight).item()
    assert own == pytest.approx(run.auc(scores, run.is_eight).item())
    test_auc_is_the_share_of_pairs(snippet, [(change(scores), run.is_eight)])


def test_auc_is_the_share_of_pairs__ends_with_nan(snippet, fails):
    """A score of nan counts as the highest, and nothing warns you."""
    scores = torch.tensor([math.nan, 0.2, 0.4])
    yes = torch.tensor([True, False, False])
    fails(test_auc_is_the_share_of_pairs, snippet, [(scores, yes)])


# What goes wrong: batches


def test_f1_of_batches_is_too_low(snippet, size=32):
    run = ordered(snippet, "batches")
    accuracy, whole, area = run.averages[300]

    assert accuracy == pytest.approx(267 / 300)
    assert area == pytest.approx(run.auc(run.chance, run.is_eight).item())
    assert round(run.averages[128][0], 3) == 0.904
    assert round(whole, 2) == 0.80
    assert whole == pytest.approx(run.f1[8].item())
    pairs = zip(run.labels.split(size), run.guesses.split(size), strict=True)
    each = [run.by_class(run.confusion_matrix(*p, 10))[2][8] for p in pairs]
    mean = sum(each).item() / len(each)
    assert round(mean, 2) == 0.69
    assert (len(each), each.count(0)) == (10, 2)
    assert run.averages[32][1] == pytest.approx(mean)


@pytest.mark.parametrize("size", [10, 30, 50, 60])
def test_f1_of_batches_is_too_low__also_in_equal_batches(snippet, size):
    run = ordered(snippet, "batches")
    parts = zip(run.labels.split(size), run.guesses.split(size), strict=True)

    each = [run.by_class(run.confusion_matrix(*p, 10))[2][8] for p in parts]
    assert len(each) * size == 300
    assert sum(each).item() / len(each) < run.averages[300][1] - 0.01


@pytest.mark.parametrize("size", [300, 128])
def test_f1_of_batches_is_too_low__but_not_in_larger_batches(
    snippet, size, fails
):
    """All in one batch is right; in batches of 128 it is 0.82, too high."""
    fails(test_f1_of_batches_is_too_low, snippet, size)


def test_f1_of_batches_is_too_low__but_not_with_the_last_mean(snippet, fails):
    """If the mean is taken of one batch only, it is another number."""
    edited = snippet.edit(
        "torch.stack(parts).mean", "torch.stack(parts[:1]).mean"
    )
    fails(test_f1_of_batches_is_too_low, edited)


def test_no_pairs_no_auc(snippet, eights=0):
    run = ordered(snippet, "batches")

    assert any(not (part == 8).any() for part in run.labels.split(16))
    assert math.isnan(run.averages[16][2])
    for n in (1, 5, 100):
        yes = torch.arange(n) < eights
        assert math.isnan(run.auc(torch.rand(n), yes).item())


def test_no_pairs_no_auc__also_of_eights_alone(snippet):
    run = ordered(snippet, "batches")

    assert run.auc(torch.rand(5), torch.ones(5, dtype=torch.bool)).isnan()


def test_no_pairs_no_auc__but_not_with_an_eight(snippet, fails):
    """With one 8 among others there are pairs to compare."""
    fails(test_no_pairs_no_auc, snippet, 1)


def test_no_pairs_no_auc__but_not_if_nan_is_replaced(snippet, fails):
    """`nan_to_num()` makes 0 of it, as if the order were all wrong."""
    edited = snippet.edit(
        ".mean()\n\n\nchance", ".mean().nan_to_num()\n\n\nchance"
    )
    fails(test_no_pairs_no_auc, edited)


def test_matrices_add_up(snippet, sizes=(1, 7, 32, 300, 500)):
    run = ordered(snippet, "add-up")

    assert run.total.equal(run.confusion)
    assert run.total is not run.confusion
    for labels, guesses, k in ((run.labels, run.guesses, 10), *WORLDS):
        whole = run.confusion_matrix(labels, guesses, k)
        for size in sizes:
            parts = zip(labels.split(size), guesses.split(size), strict=True)
            added = sum(run.confusion_matrix(*part, k) for part in parts)
            assert added.equal(whole)


@edits(
    ("whole percents", "counts.reshape(classes, classes)", None),
    ("the last batch alone", "total += confusion", "total = confusion"),
    ("guesses of other images", "guesses.split(32), strict", None),
)
def test_matrices_add_up__but_not_otherwise(snippet, old, new, fails):
    """Percents don't add up, nor do batches that are overwritten or mixed."""
    percents = "(100 * counts // len(cells)).reshape(classes, classes)"
    mixed = "guesses.flip(0).split(32), strict"
    new = new or (mixed if "split" in old else percents)
    fails(test_matrices_add_up, snippet.edit(old, new))


# What goes wrong: the order


def test_one_half_finds_nothing(snippet, threshold=0.5):
    run = ordered(snippet, "thresholds", "half")

    taken = run.found[0.2]
    assert (taken.sum(), (taken & run.is_eight).sum()) == (44, 29)
    assert run.hits == 0
    assert type(run.hits) is int
    assert round(run.auc(run.chance, run.is_eight).item(), 2) == 0.98
    assert ((run.chance >= threshold) & run.is_eight).sum() == 0
    assert run.found_at_half.sum() == 0
    assert run.is_eight.sum() == 32
    assert round(run.chance.max().item(), 2) == 0.38


def test_one_half_finds_nothing__but_not_at_one_fifth(snippet, fails):
    """At a threshold of 0.2, the model finds 29 of the 32 eights."""
    fails(test_one_half_finds_nothing, snippet, 0.2)


def test_one_half_finds_nothing__but_not_with_larger_scores(snippet, fails):
    """Scores that are ten times as large keep the order of most images, but
    make the model surer.
    """
    edited = snippet.edit(
        "scores.softmax(dim=1)[:, 8]", "(10 * scores).softmax(1)[:, 8]"
    )
    fails(test_one_half_finds_nothing, edited)


def test_auc_of_guesses_is_two_recalls(snippet):
    run = ordered(snippet, "of-guesses")
    cases = [(run.guesses == 8, run.is_eight, run.of_guesses)]
    for seed, count in enumerate((2, 5, 50)):
        labels, guesses = guessed(seed, 2, count)
        labels[0], labels[1] = 0, 1
        area = run.auc(guesses.float(), labels == 1)
        cases.append((guesses == 1, labels == 1, area))

    for taken, yes, area in cases:
        recalls = taken[yes].double().mean(), (~taken[~yes]).double().mean()
        assert area.item() == pytest.approx(sum(recalls).item() / 2)
    assert run.of_guesses.item() == pytest.approx((26 / 32 + 261 / 268) / 2)


def test_auc_of_guesses_is_two_recalls__but_not_of_probabilities(
    snippet, fails
):
    """Probabilities order all images, and give the AUC of the model, 0.98."""
    edited = snippet.edit(
        "auc((guesses == 8).float(), is_eight)", "auc(chance, is_eight)"
    )
    fails(test_auc_of_guesses_is_two_recalls, edited)


def test_auc_of_guesses_is_two_recalls__but_not_for_another_digit(
    snippet, fails
):
    """The guesses for a 1 don't answer the question for an 8."""
    edited = snippet.edit("auc((guesses == 8)", "auc((guesses == 1)")
    fails(test_auc_of_guesses_is_two_recalls, edited)


# What goes wrong: errors and nan


def test_minlength_fills_up(snippet, without=", minlength=classes**2"):
    whole = measured(snippet)
    run = measured(snippet.edit(without, ""))
    own = (whole.labels, whole.guesses, 10)
    two_rows = torch.tensor([1]), torch.tensor([2]), 3

    for labels, guesses, k in (own, two_rows, *WORLDS):
        last = ((labels == k - 1) & (guesses == k - 1)).any()
        with no_error():
            whole.confusion_matrix(labels, guesses, k)
        if last:
            with no_error():
                run.confusion_matrix(labels, guesses, k)
        else:
            with pytest.raises(RuntimeError, match="is invalid for input of"):
                run.confusion_matrix(labels, guesses, k)
    first = own[0][:4], own[1][:4], 10
    with pytest.raises(RuntimeError, match="is invalid for input of size 56"):
        run.confusion_matrix(*first)
    raised = snippet.edit(
        "except RuntimeError as error:\n    print(error)",
        "except RuntimeError as error:\n    raise",
    )
    with pytest.raises(RuntimeError, match="is invalid for input of size 56"):
        measured(raised, "no-minlength")


@edits(
    ("one number less", "minlength=classes**2)", "minlength=classes**2 - 1)"),
    (
        "any number of rows",
        "reshape(classes, classes)",
        "reshape(-1, classes)",
    ),
)
def test_minlength_fills_up__but_not_with(snippet, old, new, fails):
    """99 numbers make no 10 by 10 table; and rows may be missing instead."""
    edited = snippet.edit(old, new)
    without = (
        ", " + new[:-1] if "minlength" in old else ", minlength=classes**2"
    )
    fails(test_minlength_fills_up, edited, without)


def test_nobody_guessed_is_nan(snippet):
    run = after(
        snippet,
        "load",
        "model",
        "collect",
        "accuracy",
        "confusion",
        "by-class",
        "nobody-guessed",
    )
    nobody = [0, 2, 3, 4, 5, 6, 7, 8, 9]

    assert run.only_ones.sum(dim=0)[nobody].tolist() == [0] * 9
    assert run.divided[nobody].isnan().all()
    assert run.by_class(run.only_ones)[0][nobody].tolist() == [0] * 9
    assert run.divided[1].item() == pytest.approx(27 / 300)


@edits(
    ("a class that is guessed", "torch.ones_like(labels), classes", None),
    ("clamped", "only_ones.sum(dim=0)", "only_ones.sum(dim=0).clamp(min=1)"),
    ("not clamped", "right / guessed.clamp(min=1)", "right / guessed"),
)
def test_nobody_guessed_is_nan__but_not_if(snippet, old, new, fails):
    """Guessed classes have a precision; the clamp decides about the others."""
    edited = snippet.edit(old, new or "labels, classes")
    fails(test_nobody_guessed_is_nan, edited)


# What goes wrong: the training part


# The log

LATER = "kept.append(open(path, 'a')); csv.DictWriter(kept[-1], row)"


def test_rows_are_in_the_file(snippet, tmp_path, last=None):
    run = after(snippet, "append-row")
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
    rows = [{"epoch": n, "loss": 1 / n, "word": 'a,"b"'} for n in range(1, 9)]
    rows += [last] if last else []

    for n, row in enumerate(rows, 1):
        run.append_row(path, row)
        with path.open(newline="") as file:
            header, *found = csv.reader(file)
        assert header == ["epoch", "loss", "word"]
        assert len(found) == n
        assert found[-1] == [str(row.get(name)) for name in header]
        assert float(found[-1][1]) == row["loss"]


@edits(
    ("written anew", 'path.open("a"', 'path.open("w"'),
    ("names each time", "if is_new:", "if True:"),
    ("no names", "if is_new:", "if False:"),
    ("never closed", "writer.writerow(row)", None),
)
def test_rows_are_in_the_file__but_not(snippet, tmp_path, old, new, fails):
    """Rows are lost, names repeated or missing, or rows wait in memory."""
    edited = snippet.edit(old, new or f"{LATER}.writerow(row)")
    if new is None:
        edited = edited.edit("import csv\n", "import csv\n\nkept = []\n")
    fails(test_rows_are_in_the_file, edited, tmp_path)


def test_rows_are_in_the_file__ends_with_an_empty_file(
    snippet, tmp_path, fails
):
    """If the file exists already, even empty, the names are not written."""
    (tmp_path / "1.csv").touch()  # that of the test
    fails(test_rows_are_in_the_file, snippet, tmp_path)


def test_rows_are_in_the_file__ends_with_other_names(snippet, tmp_path, fails):
    """A row with other names is written under the first ones, silently."""
    last = {"loss": 0.5, "epoch": 9, "word": "late"}
    fails(test_rows_are_in_the_file, snippet, tmp_path, last)


LOG = "load", "model", "collect", "accuracy", "confusion", "by-class"


def logged(snippet, *more):
    """Run the cells that write the log, and others after them."""
    cells = "append-row", "log-folder", "log", "read"
    return after(snippet, *LOG, *cells, *more)


def macro(run):
    """Return the macro F1 of the last epoch."""
    guesses = run.outputs.max(dim=1).indices
    table = run.confusion_matrix(run.targets, guesses, 10)
    return run.by_class(table)[2].mean().item()


def test_csv_reads_strings(snippet):
    run = logged(snippet, "strings")

    assert len(run.rows) == 12
    assert run.last == "9"
    assert max("9", "12") == "9"
    for row in run.rows:
        assert {*map(type, row.values())} == {str}
    assert run.epochs == list(range(1, 13))
    assert run.losses == [float(row["loss"]) for row in run.rows]
    last = torch.nn.functional.cross_entropy(run.outputs, run.targets).item()
    assert run.losses[-1] == last
    assert last < run.losses[0] / 2
    assert float(run.rows[-1]["F1"]) == pytest.approx(macro(run))
    assert macro(run) > 0.8


@edits(
    ("converted", 'max(row["epoch"] for', 'max(int(row["epoch"]) for'),
    ("in nine epochs", "range(1, 13)", "range(1, 10)"),
)
def test_csv_reads_strings__but_not(snippet, old, new, fails):
    """Numbers compare as numbers, and up to 9 their order is the same."""
    fails(test_csv_reads_strings, snippet.edit(old, new))


def test_csv_reads_strings__ends_with_quote_nonnumeric(snippet, fails):
    """With `csv.QUOTE_NONNUMERIC` on both sides, numbers become floats."""
    option = "quoting=csv.QUOTE_NONNUMERIC)"
    edited = snippet.edit(
        "DictWriter(file, row)", f"DictWriter(file, row, {option}"
    )
    edited = edited.edit(
        "csv.DictReader(file))\ne", f"csv.DictReader(file, {option})\ne"
    )
    fails(test_csv_reads_strings, edited)


def test_tensors_are_written_as_text(snippet):
    run = after(
        snippet, "load", "append-row", "log-folder", "tensor-in-the-log"
    )

    raised = snippet.edit(
        "except ValueError as error:\n    print(error)",
        "except ValueError as error:\n    raise",
    )
    with pytest.raises(ValueError, match=r"float: 'tensor\(0.2500\)'"):
        after(raised, "load", "append-row", "log-folder", "tensor-in-the-log")
    assert run.written == "tensor(0.2500)"
    with pytest.raises(ValueError, match="could not convert string to float"):
        float(run.written)


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor(0.25, requires_grad=True),
        torch.tensor(0.25, dtype=torch.float64),
        torch.tensor(3),
        torch.tensor([0.25]),
    ],
    ids=["a loss", "float64", "an integer", "one element"],
)
def test_tensors_are_written_as_text__also_from(snippet, tmp_path, value):
    run = after(snippet, "append-row")
    run.append_row(tmp_path / "log.csv", {"loss": value})

    written = (tmp_path / "log.csv").read_text().split("\n", 1)[1]
    assert written.strip().strip('"').startswith("tensor(")
    with pytest.raises(ValueError, match="could not convert"):
        float(written)


@edits(
    ("item", "torch.tensor(0.25)}", "torch.tensor(0.25).item()}"),
    ("float", "torch.tensor(0.25)}", "float(torch.tensor(0.25))}"),
)
def test_tensors_are_written_as_text__but_not_after(snippet, old, new, fails):
    """A Python number is written as one."""
    fails(test_tensors_are_written_as_text, snippet.edit(old, new))


class Without:
    """A finder of modules that does not find some of them."""

    def __init__(self, finder, missing):
        self.finder, self.missing = finder, missing

    def find_spec(self, name, path=None, target=None):
        """Find a module as usual, unless it is one of the missing."""
        if name.split(".")[0] in self.missing:
            return None
        return self.finder.find_spec(name, path, target)


def test_tensorboard_is_extra(snippet, missing=("tensorboard",)):
    with pytest.MonkeyPatch.context() as patch:
        for name in [*sys.modules]:
            if name.startswith(("tensorboard", "torch.utils.tensorboard")):
                patch.delitem(sys.modules, name)
        finders = [Without(finder, missing) for finder in sys.meta_path]
        patch.setattr(sys, "meta_path", finders)
        with pytest.raises(ModuleNotFoundError) as raised:
            snippet.edit("    print(error)\nelse", "    raise\nelse").only(
                "tensorboard"
            ).after("tensorboard")
    assert str(raised.value) == "No module named 'tensorboard'"
    assert torch.utils.__path__


def test_tensorboard_is_extra__but_not_another_module(snippet, fails):
    """A module of torch that needs no other package is imported."""
    edited = snippet.edit(
        "from torch.utils.tensorboard import SummaryWriter",
        "from torch.utils.data import DataLoader as SummaryWriter",
    )
    fails(test_tensorboard_is_extra, edited)
