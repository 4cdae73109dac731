"""The claims of docs/training/mixed_precision.md."""

import pytest
import torch

LOW, FULL = "torch.bfloat16", "torch.float32"


def dtypes(snippet):
    rows = snippet.after("forward").rows
    return {name: row["dtype"] for name, row in rows.items()}


def test_weights_stay_in_32_bits(snippet):
    found = dtypes(snippet)

    assert found["a parameter"] == FULL
    assert found["what Linear gives"] == LOW


def test_weights_stay_in_32_bits__but_not_if_converted(snippet, fails):
    edited = snippet.edit(
        "nn.Linear(16, 3))\n", "nn.Linear(16, 3)).to(torch.bfloat16)\n"
    )
    fails(test_weights_stay_in_32_bits, edited)


def test_the_loss_is_in_32_bits(snippet):
    assert dtypes(snippet)["the loss"] == FULL


def test_the_loss_is_in_32_bits__but_not_outside(snippet, fails):
    edited = snippet.edit(
        "    loss = F.cross_entropy(outputs, targets)\n",
        "    with torch.autocast('cpu', enabled=False):\n"
        "        loss = F.cross_entropy(outputs, targets)\n",
    )
    fails(test_the_loss_is_in_32_bits, edited)


def test_softmax_stays_on_the_cpu(snippet):
    assert dtypes(snippet)["what softmax gives"] == LOW


def test_softmax_stays_on_the_cpu__but_not_if_asked(snippet, fails):
    edited = snippet.edit(
        "softmax(dim=1)\n    sums", "float().softmax(dim=1)\n    sums"
    )
    fails(test_softmax_stays_on_the_cpu, edited)


def test_backward_uses_the_forward_types(snippet):
    assert snippet.after("watch").seen == [torch.bfloat16]


def test_backward_uses_the_forward_types__but_not_without(snippet, fails):
    edited = snippet.edit(
        "dtype=torch.bfloat16):\n    hidden = Watch",
        "enabled=False):\n    hidden = Watch",
    )
    fails(test_backward_uses_the_forward_types, edited)


def test_gradients_of_weights_are_in_32_bits(snippet):
    model = snippet.after("watch").model

    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}


def test_gradients_of_weights_are_in_32_bits__but_not_if_they_are(
    snippet, fails
):
    edited = snippet.edit(
        "nn.Linear(16, 3))\n", "nn.Linear(16, 3)).to(torch.bfloat16)\n"
    )
    fails(test_gradients_of_weights_are_in_32_bits, edited)


def test_small_updates_vanish(snippet):
    kept = snippet.after("precision").kept

    assert kept[torch.bfloat16] == 1
    assert kept[torch.float32] == pytest.approx(1.1, abs=1e-4)


def test_small_updates_vanish__but_not_large_ones(snippet, fails):
    fails(
        test_small_updates_vanish,
        snippet.edit("weight + 0.001", "weight + 0.01"),
    )


def test_small_gradients_underflow(snippet):
    assert snippet.after("underflow").lost == 0


def test_small_gradients_underflow__but_not_ten_times_larger(snippet, fails):
    fails(
        test_small_gradients_underflow,
        snippet.edit("tensor(1e-8)", "tensor(1e-7)"),
    )


def test_scaling_saves_them(snippet):
    assert snippet.after("underflow").scaled == pytest.approx(1e-8, rel=1e-2)


def test_scaling_saves_them__but_not_by_two(snippet, fails):
    edited = snippet.edit("(small * 65536)", "(small * 2)").edit(
        ".item() / 65536", ".item() / 2"
    )
    fails(test_scaling_saves_them, edited)


def test_bfloat16_needs_no_scaling(snippet):
    assert snippet.after("underflow").in_bfloat16 == pytest.approx(
        1e-8, rel=1e-2
    )


def test_bfloat16_needs_no_scaling__but_float16_does(snippet, fails):
    edited = snippet.edit(
        "small.to(torch.bfloat16)", "small.to(torch.float16)"
    )
    fails(test_bfloat16_needs_no_scaling, edited)


def test_an_infinite_gradient_skips_the_step(snippet):
    first, skipped, *_ = snippet.after("life").life

    assert skipped[0] == float("inf")
    assert skipped[1] == first[1]
    assert skipped[2] == first[2] / 2


def test_an_infinite_gradient_skips_the_step__but_no_other(snippet, fails):
    fails(
        test_an_infinite_gradient_skips_the_step,
        snippet.edit('step(float("inf"))', "step(2.0)"),
    )


def test_good_steps_double_the_factor(snippet):
    *_, third, fourth = snippet.after("life").life

    assert fourth[2] == 2 * third[2]


def test_good_steps_double_the_factor__but_not_before(snippet, fails):
    edited = snippet.edit("growth_interval=2", "growth_interval=3")
    fails(test_good_steps_double_the_factor, edited)


def test_the_factor_does_not_change_the_step(snippet):
    life = snippet.after("life").life

    assert [value for _, value, _ in life] == [0.9, 0.9, 0.8, 0.7]


def test_the_factor_does_not_change_the_step__but_unused_it_does(
    snippet, fails
):
    edited = snippet.edit(
        "    scaler.step(optimizer)\n    scaler.update()\n    return gradient",
        "    optimizer.step()\n    return gradient",
    )
    fails(test_the_factor_does_not_change_the_step, edited)


def test_unscale_before_clipping(snippet):
    assert snippet.after("clip").clipped_step(unscale=True) == 0.5


def test_unscale_before_clipping__but_above_the_limit_it_clips(snippet, fails):
    edited = snippet.edit("max_norm=1.0", "max_norm=0.1")
    fails(test_unscale_before_clipping, edited)


def test_clipping_scaled_gradients_shrinks_the_step(snippet):
    assert snippet.after("clip").clipped_step(unscale=False) < 0.5 / 10_000


def test_clipping_scaled_gradients_shrinks_the_step__but_not_at_one(
    snippet, fails
):
    edited = snippet.edit("init_scale=65536.0", "init_scale=1.0")
    fails(test_clipping_scaled_gradients_shrinks_the_step, edited)


def test_a_new_scaler_forgets(snippet):
    assert snippet.after("each-call").scales == [32768.0] * 3


def test_a_new_scaler_forgets__but_one_remembers(snippet, fails):
    loop = "for _ in range(3):\n"
    make = 'scaler = torch.amp.GradScaler("cpu")'
    edited = snippet.edit(
        f"{loop}    {make}  # anew at every step\n", f"{make}\n{loop}"
    )
    fails(test_a_new_scaler_forgets, edited)


def test_old_names_warn(snippet, capsys):
    snippet.after("old-names")

    assert capsys.readouterr().out.splitlines()[-2:] == [
        "`torch.cuda.amp.GradScaler(args...)` is deprecated",
        "`torch.cuda.amp.autocast(args...)` is deprecated",
    ]


def test_old_names_warn__but_not_the_new(snippet, capsys, fails):
    edited = snippet.edit(
        "torch.cuda.amp.GradScaler(enabled", "torch.amp.GradScaler(enabled"
    )
    fails(test_old_names_warn, edited, capsys)


@pytest.mark.cuda
def test_cuda_softmax_is_in_32_bits(snippet):
    run = snippet.after("on-cuda")

    assert run.on_cuda.dtype == torch.float16
    assert run.softmax_on_cuda.dtype == torch.float32
    assert run.layer.weight.grad.dtype == torch.float32


@pytest.mark.cuda
def test_cuda_softmax_is_in_32_bits__but_not_linear(snippet, fails):
    edited = snippet.edit("on_cuda.softmax(dim=1)", "on_cuda.relu()")
    fails(test_cuda_softmax_is_in_32_bits, edited)
