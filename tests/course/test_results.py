"""The claims of docs/course/results.md."""

import pytest
import torch
from torch.nn import functional

from extensions.evidence.counterexamples import edits
from extensions.programs.snippet import after
from tests.helpers.programs import resumed

START = "torch.manual_seed(0)\nmodel = Net()"
SPLIT = "torch.Generator().manual_seed(0)"
EPOCHS = "range(10):\n    train_epoch(model"


def judged(snippet):
    """Train the network, and measure it in every way of the page."""
    cells = "so-far", "baseline", "confusion", "recall", "mistakes"
    return resumed(snippet, *cells, "test", "on-training")


def counted(snippet):
    """Count the answers of a network that has trained for one epoch."""
    text = snippet.text.replace(EPOCHS, EPOCHS.replace("10", "1"))
    quick = type(snippet)(snippet.path, text)
    return after(quick, "so-far", "baseline", "confusion")


def drawn(snippet):
    """Run the draws, which need no network."""
    text = snippet.text.replace(EPOCHS, EPOCHS.replace("10", "0"))
    untrained = type(snippet)(snippet.path, text)
    return after(untrained, "so-far", "standard-error", "draws")


def seeded(snippet, seed):
    """Return the program with a network from another seed."""
    return snippet.edit(START, START.replace("0", str(seed)))


def split(snippet, seed):
    """Return the program with other pictures in each part."""
    return snippet.edit(SPLIT, SPLIT.replace("0", str(seed)))


OTHERS = pytest.mark.parametrize(
    ("change", "seed"),
    [(seeded, 1), (split, 1)],
    ids=["for the network from seed 1", "for another split"],
)
SPLITS = pytest.mark.parametrize("seed", [1], ids="for split {}".format)


# Do this


def test_one_answer_is_rarely_right(snippet):
    run = counted(snippet)
    shares = [
        (run.labels[run.valid] == digit).double().mean().item()
        for digit in range(10)
    ]

    assert [share for share in shares if share >= 0.2] == []
    assert run.commonest == run.labels[run.train].mode().values
    assert run.always == shares[run.commonest]


@SPLITS
def test_one_answer_is_rarely_right__also(snippet, seed):
    test_one_answer_is_rarely_right(split(snippet, seed))


def test_one_answer_is_rarely_right__but_not_sorted(snippet, fails):
    """Sorted by digit, the validation part holds three digits at most."""
    old = f"torch.randperm(1797, generator={SPLIT})"
    edited = snippet.edit(old, "labels.argsort()")
    fails(test_one_answer_is_rarely_right, edited)


def test_one_answer_is_rarely_right__ends_for_yes_or_no(snippet, fails):
    """Of two answers, one is right for at least half of the pictures."""
    old = "labels = torch.tensor(digits.target)"
    fails(test_one_answer_is_rarely_right, snippet.edit(old, f"{old} // 5"))


# Which digits does it mix up?


def pairs(run):
    """Return what each picture was, and what the network said, as numbers."""
    x, model = run.images[run.valid], run.model
    for layer in (model.conv1, model.conv2):
        x = functional.max_pool2d(layer(x).clamp(min=0), 2)
    said = model.linear(x.reshape(-1, 128)).max(dim=1).indices.tolist()
    return list(zip(run.labels[run.valid].tolist(), said, strict=True))


def test_rows_are_the_truth(snippet):
    run = counted(snippet)
    found = pairs(run)

    table = [[found.count((i, j)) for j in range(10)] for i in range(10)]
    assert run.confusion.tolist() == table
    assert run.confusion.dtype == torch.int64


@SPLITS
def test_rows_are_the_truth__also(snippet, seed):
    test_rows_are_the_truth(split(snippet, seed))


@edits(
    ("confusion[label, answer]", "confusion[answer, label]"),
    ("images[valid])\nanswers", "images[train[:300]])\nanswers"),
)
def test_rows_are_the_truth__but_not(snippet, old, new, fails):
    """Swapped, the columns are the truth; other pictures, other answers."""
    fails(test_rows_are_the_truth, snippet.edit(old, new))


def test_the_diagonal_is_right(snippet):
    run = counted(snippet)
    right = sum(label == answer for label, answer in pairs(run))

    assert run.confusion.diagonal().sum() == right
    assert right / 300 == run.accuracy


@SPLITS
def test_the_diagonal_is_right__also(snippet, seed):
    test_the_diagonal_is_right(split(snippet, seed))


def test_the_diagonal_is_right__but_not_without_counting(snippet, fails):
    """A cell that is set to 1 doesn't count."""
    old = "confusion[label, answer] += 1"
    edited = snippet.edit(old, "confusion[label, answer] = 1")
    fails(test_the_diagonal_is_right, edited)


def test_most_mistakes_are_eights(snippet):
    run = judged(snippet)

    mistakes = 300 - run.confusion.diagonal().sum()
    assert run.confusion[8, 1] > mistakes / 2


def test_most_mistakes_are_eights__but_not_at_first(snippet, fails):
    """After a single epoch, the mistakes are many, and of many kinds."""
    edited = snippet.edit(EPOCHS, EPOCHS.replace("10", "1"))
    fails(test_most_mistakes_are_eights, edited)


def test_most_mistakes_are_eights__ends_from_another_seed(snippet, fails):
    """A network that starts from other weights makes other mistakes."""
    fails(test_most_mistakes_are_eights, seeded(snippet, 1))


def test_accuracy_hides_the_eights(snippet):
    run = judged(snippet)
    eights = run.labels[run.valid] == 8
    found = run.right[eights].double().mean().item()

    assert run.recall[8].item() == pytest.approx(found)
    assert run.recall[8] < 0.9
    assert run.accuracy > 0.95


def test_accuracy_hides_the_eights__also_by_hand(snippet):
    """The page works out 26 / (26 + 6) = 81 %."""
    run = judged(snippet)

    assert run.confusion[8].tolist() == [0, 6, 0, 0, 0, 0, 0, 0, 26, 0]
    assert f"{run.recall[8]:.0%}" == "81%"


def test_accuracy_hides_the_eights__also_says_the_solution(snippet):
    weakest = after(snippet, "solution").weakest
    three = torch.tensor([[50, 1, 9], [4, 12, 1], [0, 1, 9]])

    assert weakest(judged(snippet).confusion) == 8
    assert weakest(three) == 1
    assert isinstance(weakest(three), int)
    assert weakest(three.flip(0, 1)) == 1
    assert weakest(torch.eye(10)) == 0


@edits(
    ("the columns", "() / confusion.sum(dim=1)\n\nfor", None),
    ("one epoch", EPOCHS, EPOCHS.replace("10", "1")),
)
def test_accuracy_hides_the_eights__but_not(snippet, old, new, fails):
    """All that it called an eight is one; after one epoch, 95 % is far."""
    new = new or old.replace("dim=1", "dim=0")
    fails(test_accuracy_hides_the_eights, snippet.edit(old, new))


def test_accuracy_hides_the_eights__ends_from_another_seed(snippet, fails):
    """Another network may find the eights and miss another digit."""
    fails(test_accuracy_hides_the_eights, seeded(snippet, 1))


# Look at the mistakes


def test_wrong_answers_are_less_sure(snippet):
    run = judged(snippet)
    right, wrong = run.sure[run.right], run.sure[~run.right]

    assert len(right) + len(wrong) == 300
    shares = run.scores.exp() / run.scores.exp().sum(dim=1, keepdim=True)
    torch.testing.assert_close(run.sure, shares.amax(dim=1))
    assert wrong.mean() < right.mean()
    assert wrong.max() > 0.7


@OTHERS
def test_wrong_answers_are_less_sure__also(snippet, change, seed):
    test_wrong_answers_are_less_sure(change(snippet, seed))


@edits(
    ("scores 1,000 times as large", "images[valid])\na", "* 1000"),
    ("scores a tenth as large", "images[valid])\na", "/ 10"),
)
def test_wrong_answers_are_less_sure__but_not(snippet, old, new, fails):
    """Large scores look sure of everything, small ones of nothing."""
    edited = snippet.edit(old, old.replace(")", f") {new}"))
    fails(test_wrong_answers_are_less_sure, edited)


# How exact is an accuracy?


def spread(run, share, pictures, seed):
    """Return the standard deviation of many accuracies."""
    random = torch.Generator().manual_seed(seed)
    draws = torch.rand(2000, pictures, generator=random) < share
    return draws.double().mean(dim=1).std().item()


def test_off_by_one_point(snippet):
    run = drawn(snippet)

    assert run.draws.shape == (1000, 300)
    assert run.shown.double().mean().item() == pytest.approx(0.97, abs=2e-3)
    off = (run.shown - 0.97).square().mean().sqrt().item()
    assert off == pytest.approx(0.01, abs=1e-3)
    assert run.standard_error(0.97, 300) == pytest.approx(off, rel=0.1)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.97, 0.99])
@pytest.mark.parametrize("pictures", [30, 300, 1200])
def test_off_by_one_point__also_for_other(snippet, share, pictures):
    """The formula gives the spread of other accuracies, too."""
    run = drawn(snippet)
    found = spread(run, share, pictures, seed=pictures)
    expected = run.standard_error(share, pictures)
    assert found == pytest.approx(expected, rel=0.1)


@edits(
    ("of 30 pictures", "rand(1000, 300)", "rand(1000, 30)"),
    ("of a coin", "300) < 0.97", "300) < 0.5"),
    ("without the root", ") ** 0.5", ")"),
    ("without the share of mistakes", "accuracy * (1 - accuracy)", "accuracy"),
)
def test_off_by_one_point__but_not(snippet, old, new, fails):
    """Fewer pictures or a coin spread more; the formula needs each part."""
    fails(test_off_by_one_point, snippet.edit(old, new))


def test_a_97_can_look_like_a_98(snippet):
    run = drawn(snippet)

    assert (run.draws.sum(dim=1) >= 0.98 * run.draws.shape[1]).sum() > 100
    assert run.shown.tolist() == run.draws.double().mean(dim=1).tolist()


@pytest.mark.parametrize("seed", [1])
def test_a_97_can_look_like_a_98__also(snippet, seed):
    old = "torch.manual_seed(0)\ndraws"
    edited = snippet.edit(old, old.replace("0", str(seed)))
    test_a_97_can_look_like_a_98(edited)


def test_a_97_can_look_like_a_98__but_not_on_3000(snippet, fails):
    """On 3,000 pictures, 97 % hardly ever looks like 98 %."""
    edited = snippet.edit("rand(1000, 300)", "rand(1000, 3000)")
    fails(test_a_97_can_look_like_a_98, edited)


# The test set, once


def test_the_test_agrees(snippet):
    run = judged(snippet)

    run.model.eval()
    said = run.model(run.images[run.test]).max(dim=1).indices
    own = (said == run.labels[run.test]).double().mean()
    assert run.at_the_end == own
    assert abs(run.at_the_end - run.accuracy) < 0.04


@OTHERS
def test_the_test_agrees__also(snippet, change, seed):
    test_the_test_agrees(change(snippet, seed))


def test_the_test_agrees__but_not_in_negative(snippet, fails):
    """White on black, the test pictures are of another kind."""
    edited = snippet.edit("model, images[test]", "model, 1 - images[test]")
    fails(test_the_test_agrees, edited)


# What goes wrong


def test_training_looks_better(snippet):
    run = judged(snippet)

    assert run.too_good > run.accuracy


@OTHERS
def test_training_looks_better__also(snippet, change, seed):
    test_training_looks_better(change(snippet, seed))


def test_training_looks_better__but_not_on_validation(snippet, fails):
    """These pictures are new to the network."""
    old = 'images[train], labels[train])\n\nprint(f"the network: {too'
    edited = snippet.edit(old, old.replace("train", "valid"))
    fails(test_training_looks_better, edited)
