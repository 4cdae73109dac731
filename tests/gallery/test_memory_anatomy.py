"""The claims of gallery/memory_anatomy.py."""

import pytest


def test_each_kind_is_as_predicted(snippet):
    run = snippet.after("compare")

    assert run.largest == run.predicted
    assert all(run.predicted.values())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "optim.Adam(model.parameters())",
            "optim.Adam(model.parameters(), amsgrad=True)",
        ),
        ("nn.ReLU()]", "nn.GELU()]"),
        ("nn.Linear(WIDTH, WIDTH),", "nn.Linear(WIDTH, WIDTH, bias=False),"),
    ],
)
def test_each_kind_is_as_predicted__but_not_of_another(
    snippet, old, new, fails
):
    fails(test_each_kind_is_as_predicted, snippet.edit(old, new))


def test_the_state_stays_after_the_step(snippet):
    held = snippet.after("compare").stages["zero_grad"]

    assert held["gradients"] == held["activations"] == 0
    counters = 4 * 8
    together = held["parameters"] + held["optimizer state"]
    assert together == 3 * held["parameters"] + counters


def test_the_state_stays_after_the_step__but_sgd_has_none(snippet, fails):
    edited = snippet.edit(
        "optim.Adam(model.parameters())", "optim.SGD(model.parameters())"
    )
    fails(test_the_state_stays_after_the_step, edited)


def test_activations_are_the_most_here(snippet):
    held = snippet.after("compare").largest

    assert held["activations"] > held["parameters"] + held["gradients"]


def test_activations_are_the_most_here__but_not_of_a_small_batch(
    snippet, fails
):
    edited = snippet.edit("256, 4, 512", "256, 4, 32")
    fails(test_activations_are_the_most_here, edited)
