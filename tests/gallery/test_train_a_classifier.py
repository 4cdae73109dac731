"""The claims of gallery/train_a_classifier.py."""

import pytest

for library in ("PIL", "tqdm"):
    pytest.importorskip(library, reason=f"{library} is not installed")


def test_the_classifier_reads_nine_of_ten(snippet):
    run = snippet.after("results")

    assert run.accuracy > 0.95
    assert len(run.truth) == 500
    seeds = [
        range(d.first, d.first + d.number) for d in (run.training, run.test)
    ]
    assert not set(seeds[0]) & set(seeds[1])


def test_the_classifier_reads_nine_of_ten__but_not_at_once(snippet, fails):
    fails(
        test_the_classifier_reads_nine_of_ten,
        snippet.edit("EPOCHS = 8", "EPOCHS = 1"),
    )


def test_resuming_changes_nothing(snippet):
    run = snippet.edit("EPOCHS = 8", "EPOCHS = 2").after("results")

    assert run.same or run.device != "cpu"
    assert len(run.history) == 2


@pytest.mark.parametrize(
    "left_out",
    [
        "    torch.set_rng_state(dropout)\n",
        "    order.set_state(shuffling)\n",
        "restore(checkpoint, resumed)\n",
    ],
)
def test_resuming_changes_nothing__but_not_without(snippet, left_out, fails):
    fails(test_resuming_changes_nothing, snippet.edit(left_out, ""))


def test_the_loss_falls_on_both(snippet):
    history = snippet.edit("EPOCHS = 8", "EPOCHS = 4").after("train").history

    assert history[-1][0] < history[0][0]
    assert history[-1][1] < history[0][1]


def test_the_loss_falls_on_both__but_not_if_maximized(snippet, fails):
    edited = snippet.edit("lr=0.003)", "lr=0.003, maximize=True)")
    fails(test_the_loss_falls_on_both, edited)
