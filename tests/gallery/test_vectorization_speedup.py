"""The claims of gallery/vectorization_speedup.py."""

import torch


def test_all_ways_give_the_same_distances(snippet):
    results = snippet.after("equal").results

    for result in results.values():
        torch.testing.assert_close(
            result, results["pair by pair"], rtol=1e-3, atol=1e-2
        )


def test_all_ways_give_the_same_distances__but_not_another_norm(
    snippet, fails
):
    edited = snippet.edit(
        "torch.cdist(points, points)", "torch.cdist(points, points, p=1)"
    )
    fails(test_all_ways_give_the_same_distances, edited)


def test_all_at_once_makes_a_larger_tensor(snippet):
    run = snippet.after("equal")

    result = run.results["all at once"]
    assert run.differences.numel() == run.points.shape[1] * result.numel()


def test_all_at_once_makes_a_larger_tensor__but_not_when_summed(
    snippet, fails
):
    edited = snippet.edit(
        "differences = points[:, None] - points[None, :]\n\nprint",
        "differences = results['all at once']\n\nprint",
    )
    fails(test_all_at_once_makes_a_larger_tensor, edited)


def test_a_loop_calls_torch_for_every_pair(snippet):
    calls = snippet.after("count-calls").calls

    assert calls["pair by pair"] > 10_000
    assert calls["all at once"] < 10


def test_a_loop_calls_torch_for_every_pair__but_not_for_two_points(
    snippet, fails
):
    edited = snippet.edit(
        "torch.randn(64, 16, device=device)",
        "torch.randn(2, 16, device=device)",
    )
    fails(test_a_loop_calls_torch_for_every_pair, edited)
