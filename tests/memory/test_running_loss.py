"""The claims of docs/memory/running_loss.md."""

import pytest
import torch

TEN, TWENTY = "nodes after 10 steps", "after 20"


def test_the_sum_keeps_nodes(snippet):
    row = snippet.after("count-nodes").rows["total += loss"]

    assert row[TWENTY] - row[TEN] == 10 * 7


def test_the_sum_keeps_nodes__but_not_detached(snippet, fails):
    edited = snippet.edit("total + loss,\n", "total + loss.detach(),\n")
    fails(test_the_sum_keeps_nodes, edited)


def test_detach_and_item_keep_none(snippet):
    rows = snippet.after("count-nodes").rows

    for name in ("total += loss.detach()", "total += loss.item()"):
        assert rows[name][TWENTY] == rows[name][TEN] == 0


@pytest.mark.parametrize("old", ["loss.detach(),\n", "loss.item(),\n"])
def test_detach_and_item_keep_none__but_not_left_out(snippet, old, fails):
    fails(
        test_detach_and_item_keep_none,
        snippet.edit(f"total + {old}", "total + loss,\n"),
    )


def test_item_gives_a_number(snippet):
    rows = snippet.after("count-nodes").rows

    assert rows["total += loss.item()"]["gives"] == "float"
    assert rows["total += loss.detach()"]["gives"] == "Tensor"


def test_item_gives_a_number__but_detach_does_not(snippet, fails):
    edited = snippet.edit("total + loss.item(),", "total + loss.detach(),")
    fails(test_item_gives_a_number, edited)


def test_backward_frees_the_activations(snippet):
    run = snippet.after("activations-alive")

    assert run.activations_alive(backward=True) == 0


def test_backward_frees_the_activations__but_not_left_out(snippet, fails):
    edited = snippet.edit("if backward:", "if False:")
    fails(test_backward_frees_the_activations, edited)


def test_without_backward_they_stay(snippet):
    run = snippet.after("activations-alive")

    assert run.activations_alive(backward=False) == 5 * 6


def test_without_backward_they_stay__but_not_detached(snippet, fails):
    edited = snippet.edit(
        "            total = total + loss\n    return len",
        "            total = total + loss.item()\n"
        "            del loss\n    return len",
    )
    fails(test_without_backward_they_stay, edited)


def test_retained_graphs_stay(snippet):
    run = snippet.after("activations-alive")

    assert run.activations_alive(backward=True, retain=True) == 5 * 6


def test_retained_graphs_stay__but_not_unretained(snippet, fails):
    edited = snippet.edit(
        "loss.backward(retain_graph=retain)", "loss.backward()"
    )
    fails(test_retained_graphs_stay, edited)


def test_a_list_keeps_them_too(snippet):
    run = snippet.after("list")

    for loss in run.losses:
        assert run.nodes_behind(loss) > 0


def test_a_list_keeps_them_too__but_not_of_numbers(snippet, fails):
    edited = snippet.edit(
        "losses.append(F.mse_loss(model(inputs), targets))",
        "losses.append(F.mse_loss(model(inputs), targets).detach())",
    ).edit("[loss.grad_fn.name() for loss in losses][:1], ", "")
    fails(test_a_list_keeps_them_too, edited)


def test_detach_shares_its_number(snippet):
    assert snippet.after("alias").loss.item() == 5


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total = loss.detach()\n", "total = loss.detach().clone()\n"),
        ("total += 3", "total = total + 3"),
    ],
)
def test_detach_shares_its_number__but_not(snippet, old, new, fails):
    fails(test_detach_shares_its_number, snippet.edit(old, new))


def test_float32_sums_drift(snippet):
    assert round(snippet.after("precision").single.item(), 2) == 1999.66


def test_float32_sums_drift__but_not_in_64_bits(snippet, fails):
    edited = snippet.edit(
        "single = torch.tensor(0.0)",
        "single = torch.tensor(0.0, dtype=torch.float64)",
    )
    fails(test_float32_sums_drift, edited)


def test_python_sums_hold(snippet):
    double = float(snippet.after("precision").double)

    assert double == pytest.approx(2000, rel=1e-9)


def test_python_sums_hold__but_not_of_tensors(snippet, fails):
    edited = snippet.edit("double = 0.0", "double = torch.tensor(0.0)").edit(
        "round(double, 2)", "double"
    )
    fails(test_python_sums_hold, edited)


def test_means_of_means_are_off(snippet):
    run = snippet.after("mean")

    assert [len(batch) for batch in run.batches] == [24, 24, 16]
    assert abs(run.mean_of_means - run.whole) > 1e-3


def test_means_of_means_are_off__but_not_of_equal_batches(snippet, fails):
    edited = snippet.edit(
        "mean_of_means = sum(losses) / 3", "mean_of_means = whole"
    )
    fails(test_means_of_means_are_off, edited)


def test_weighted_means_are_right(snippet):
    run = snippet.after("mean")

    assert run.weighted == pytest.approx(run.whole, abs=1e-6)


def test_weighted_means_are_right__but_not_with_equal_weights(snippet, fails):
    edited = snippet.edit("16 * losses[2]", "24 * losses[2]")
    fails(test_weighted_means_are_right, edited)


def test_no_batch_no_mean(snippet, capsys):
    run = snippet.after("empty")

    assert len(run.loader) == 0
    assert capsys.readouterr().out.endswith("division by zero\n0.0\n")


def test_no_batch_no_mean__but_with_one(snippet, capsys, fails):
    edited = snippet.edit(", drop_last=True", "")
    fails(test_no_batch_no_mean, edited, capsys)


def test_float32_sums_drift__also_in_the_type_that_torch_gives(snippet):
    assert snippet.after("precision").single.dtype == torch.float32


def mean_of_nothing(snippet):
    run = snippet.after("empty")
    return run.total / len(run.loader.dataset)


def test_no_batch_but_a_length(snippet):
    assert mean_of_nothing(snippet) == 0


def test_no_batch_but_a_length__but_not_of_a_whole_batch(snippet, fails):
    edited = snippet.edit("batch_size=8, drop_last=True", "batch_size=3")
    fails(test_no_batch_but_a_length, edited)
