"""The claims of docs/speed/shapes.md."""

import torch


def test_every_number_is_such_a_multiple(snippet):
    run = snippet.after("every-number")

    assert all(size % 2**0 == 0 for size in run.sizes)


def test_every_number_is_such_a_multiple__but_not_a_fraction(snippet, fails):
    edited = snippet.edit("[1, 7, 8, 50257]", "[1, 7, 8.5, 50257]")
    fails(test_every_number_is_such_a_multiple, edited)


def test_rounding_up_is_a_formula(snippet):
    pad_to = snippet.after("pad-to").pad_to

    assert pad_to(50257, 64) == 50304
    for size in range(1, 200):
        padded = pad_to(size, 8)
        assert padded % 8 == 0
        assert 0 <= padded - size < 8


def test_rounding_up_is_a_formula__but_not_down(snippet, fails):
    edited = snippet.edit(
        "-(-size // multiple) * multiple", "size // multiple * multiple"
    )
    fails(test_rounding_up_is_a_formula, edited)


def test_padding_costs_bytes(snippet, capsys):
    snippet.after("cost")

    assert "64 rows: 47 bytes: 144384\n" in capsys.readouterr().out


def test_padding_costs_bytes__but_half_in_half_the_width(
    snippet, capsys, fails
):
    edited = snippet.edit("50257, 768", "50257, 384")
    fails(test_padding_costs_bytes, edited, capsys)


def test_padded_classes_change_the_loss(snippet):
    run = snippet.after("wrong-loss")

    assert not torch.isclose(run.right_loss, run.wrong_loss, rtol=0.01)


def test_padded_classes_change_the_loss__but_not_without_padding(
    snippet, fails
):
    edited = snippet.edit("pad_to(10, 8))\nwith", "pad_to(10, 1))\nwith")
    fails(test_padded_classes_change_the_loss, edited)


def test_cut_off_padding_changes_nothing(snippet):
    run = snippet.after("cut-off")

    torch.testing.assert_close(run.cut_loss, run.right_loss)
    torch.testing.assert_close(
        run.padded.weight.grad[:10], run.head.weight.grad
    )
    assert run.rest == 0


def test_cut_off_padding_changes_nothing__but_left_on_it_does(snippet, fails):
    edited = snippet.edit(
        "padded(inputs)[:, :10], targets)\nright",
        "padded(inputs), targets)\nright",
    )
    fails(test_cut_off_padding_changes_nothing, edited)


def test_masked_padding_changes_nothing(snippet):
    run = snippet.after("masked")

    torch.testing.assert_close(run.masked_loss, run.right_loss)


def test_masked_padding_changes_nothing__but_zeros_do(snippet, fails):
    fails(
        test_masked_padding_changes_nothing,
        snippet.edit('float("-inf")', "0.0"),
    )


def test_masked_padding_changes_nothing__but_with_smoothed_labels(
    snippet, fails
):
    edited = snippet.edit(
        "masked_loss = F.cross_entropy(logits, targets)",
        "masked_loss = F.cross_entropy(logits, targets, label_smoothing=0.1)",
    )
    fails(test_masked_padding_changes_nothing, edited)


def test_float32_products_are_exact_by_default(snippet, capsys):
    snippet.after("precision")

    assert capsys.readouterr().out.splitlines()[-2] == "highest"


def test_float32_products_are_exact_by_default__but_not_if_told(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "print(torch.get_float32",
        'torch.set_float32_matmul_precision("high")\nprint(torch.get_float32',
    )
    fails(test_float32_products_are_exact_by_default, edited, capsys)
    torch.set_float32_matmul_precision("highest")


def test_convolutions_may_use_tf32(snippet, capsys):
    snippet.after("precision")

    assert capsys.readouterr().out.splitlines()[-1] == "True"


def test_convolutions_may_use_tf32__but_not_if_told(snippet, capsys, fails):
    edited = snippet.edit(
        "print(torch.backends.cudnn.allow_tf32)",
        "with torch.backends.cudnn.flags(allow_tf32=False):\n"
        "    print(torch.backends.cudnn.allow_tf32)",
    )
    fails(test_convolutions_may_use_tf32, edited, capsys)
