"""The claims of docs/tensors/operations.md, by NumPy and by hand."""

import math

import numpy as np
import pytest
import torch

X = np.array([[1.0, -2.0], [3.0, 4.0]])
Y = np.array([[2.0, 1.0], [1.0, 3.0]])
V = np.array([1.0, 10.0])
PRODUCT = [
    [sum(a * b for a, b in zip(r, c, strict=True)) for c in Y.T] for r in X
]

BETWEEN = {
    "x + y": [[3, -1], [4, 7]],
    "x - y": [[-1, -3], [2, 1]],
    "x * y": [[2, -2], [3, 12]],
    "x / y": [[1 / 2, -2], [3, 4 / 3]],
    "x @ y": PRODUCT,
    "x.pow(2)": [[1, 4], [9, 16]],
    "x.T": [[1, 3], [-2, 4]],
}
with np.errstate(invalid="ignore"):
    EACH = {
        "x.abs()": [[1, 2], [3, 4]],
        "x.exp()": np.exp(X),
        "x.log()": np.log(X),
        "x.sqrt()": np.sqrt(X),
        "x.sin()": np.sin(X),
        "x.cos()": np.cos(X),
        "x.tan()": np.sin(X) / np.cos(X),
    }
SUMMARY = {
    "x.sum()": 6,
    "x.mean()": 1.5,
    "x.std()": math.sqrt(((X - 1.5) ** 2).sum() / 3),
    "x.min()": -2,
    "x.max()": 4,
    "x.argmax()": 3,
    "x.argsort()": [[1, 0], [0, 1]],
    "x.unique()": [-2, 1, 3, 4],
    "torch.norm(x)": math.sqrt(1 + 4 + 9 + 16),
    "torch.trace(x)": 5,
}
BUILD = {
    "torch.cat([x, y], dim=0)": [[1, -2], [3, 4], [2, 1], [1, 3]],
    "torch.stack([x, y], dim=0)": [X, Y],
    "torch.split(x, 1, dim=0)": [[[1, -2]], [[3, 4]]],
    "torch.chunk(x, 2, dim=0)": [[[1, -2]], [[3, 4]]],
    "torch.where(x > 0, x, y)": [[1, 1], [3, 4]],
    "torch.masked_select(x, x > 0)": [1, 3, 4],
    "torch.nonzero(x > 0)": [[0, 0], [1, 0], [1, 1]],
    "torch.sort(x, dim=0)": [[[1, -2], [3, 4]], [[0, 0], [1, 1]]],
    "torch.topk(x, k=1, dim=0)": [[[3, 4]], [[1, 1]]],
    "torch.diag(x)": [1, 4],
    "torch.triu(x)": [[1, -2], [0, 4]],
    "torch.tril(x)": [[1, 0], [3, 4]],
}
PRODUCTS = {
    "torch.mm(x, y)": PRODUCT,
    "torch.mv(x, v)": [1 - 20, 3 + 40],
    "torch.dot(v, v)": 101,
    "torch.matmul(x, y)": PRODUCT,
    "torch.einsum('ij, jk -> ik', x, y)": PRODUCT,
    "torch.bmm(x[None], y[None])": [PRODUCT],
    "torch.baddbmm(x[None], x[None], y[None])": [X + PRODUCT],
}


def agree(snippet, cell, expected):
    """Assert that each operation of a table gives what is expected."""
    run = snippet.after(cell)
    names = {"torch": torch, "x": run.x, "y": run.y, "v": run.v}
    operations = getattr(run, cell)

    assert operations.keys() == expected.keys()
    for code, wanted in expected.items():
        found = eval(code, names)
        parts = [found] if isinstance(found, torch.Tensor) else found
        values = [part.tolist() for part in parts]
        wanted = [wanted] if isinstance(found, torch.Tensor) else wanted
        for value, want in zip(values, wanted, strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-5)


def test_operations_between_give_what_they_say(snippet):
    agree(snippet, "between", BETWEEN)


def test_functions_give_what_they_say(snippet):
    agree(snippet, "each", EACH)


def test_summaries_give_what_they_say(snippet):
    agree(snippet, "summary", SUMMARY)


def test_builders_give_what_they_say(snippet):
    agree(snippet, "build", BUILD)


def test_products_give_what_they_say(snippet):
    agree(snippet, "products", PRODUCTS)


OTHER_NUMBERS = ("[[1.0, -2.0], [3.0, 4.0]]", "[[1.0, 5.0], [4.0, 3.0]]")


def test_operations_between_give_what_they_say__but_of_these_numbers(
    snippet, fails
):
    fails(
        test_operations_between_give_what_they_say,
        snippet.edit(*OTHER_NUMBERS),
    )


def test_functions_give_what_they_say__but_of_these_numbers(snippet, fails):
    fails(test_functions_give_what_they_say, snippet.edit(*OTHER_NUMBERS))


def test_summaries_give_what_they_say__but_of_these_numbers(snippet, fails):
    fails(test_summaries_give_what_they_say, snippet.edit(*OTHER_NUMBERS))


def test_builders_give_what_they_say__but_of_these_numbers(snippet, fails):
    fails(test_builders_give_what_they_say, snippet.edit(*OTHER_NUMBERS))


def test_products_give_what_they_say__but_of_these_numbers(snippet, fails):
    fails(test_products_give_what_they_say, snippet.edit(*OTHER_NUMBERS))


def test_pow_needs_an_exponent(snippet, capsys):
    snippet.after("no-exponent")

    assert "pow() received an invalid" in capsys.readouterr().out


def test_pow_needs_an_exponent__but_nothing_more(snippet, capsys, fails):
    fails(
        test_pow_needs_an_exponent,
        snippet.edit("x.pow()\n", "x.pow(3)\n"),
        capsys,
    )


def test_std_divides_by_n_less_one(snippet):
    run = snippet.after("numbers")
    squares = ((X - X.mean()) ** 2).sum()

    assert run.x.std().item() == pytest.approx(math.sqrt(squares / 3))
    assert run.x.std(correction=0).item() == pytest.approx(
        math.sqrt(squares / 4)
    )


def test_std_divides_by_n_less_one__but_of_these_numbers(snippet, fails):
    fails(test_std_divides_by_n_less_one, snippet.edit(*OTHER_NUMBERS))


def test_log_raises_nothing(snippet, capsys):
    snippet.after("beyond")

    assert "tensor([nan, -inf])" in capsys.readouterr().out


def test_log_raises_nothing__and_is_finite_above_zero(snippet, capsys, fails):
    fails(
        test_log_raises_nothing,
        snippet.edit("([-1.0, 0.0])", "([1.0, 2.0])"),
        capsys,
    )


def test_division_by_zero_raises_nothing(snippet, capsys):
    snippet.after("beyond")

    assert capsys.readouterr().out.endswith("tensor([inf, nan])\n")


def test_division_by_zero_raises_nothing__but_not_by_one(
    snippet, capsys, fails
):
    edited = snippet.edit("([1.0, 0.0]) / 0", "([1.0, 0.0]) / 1")
    fails(test_division_by_zero_raises_nothing, edited, capsys)


def test_t_reverses_all_axes(snippet):
    run = snippet.after("transpose")

    assert run.reversed_axes.shape == (4, 3, 2)
    assert run.batch.mT.shape == (2, 4, 3)
    assert any("deprecated" in str(each.message) for each in run.caught)


def test_t_reverses_all_axes__but_only_two_of_a_matrix(snippet, fails):
    edited = snippet.edit("torch.zeros(2, 3, 4)", "torch.zeros(3, 4)")
    fails(test_t_reverses_all_axes, edited)


def test_split_takes_a_size(snippet):
    run = snippet.after("parts")

    assert [len(part) for part in run.five.split(2)] == [2, 2, 1]


def test_split_takes_a_size__but_cuts_four_evenly(snippet, fails):
    fails(test_split_takes_a_size, snippet.edit("arange(5)", "arange(4)"))


def test_chunk_may_give_fewer(snippet):
    run = snippet.after("parts")

    assert [len(part) for part in run.five.chunk(2)] == [3, 2]
    assert [len(part) for part in run.five.chunk(4)] == [2, 2, 1]


def test_chunk_may_give_fewer__but_not_of_eight(snippet, fails):
    fails(test_chunk_may_give_fewer, snippet.edit("arange(5)", "arange(8)"))


def test_norm_is_the_root_of_squares(snippet):
    x = snippet.after("norms").x

    assert torch.norm(x) == torch.linalg.vector_norm(x)
    largest = np.linalg.svd(X, compute_uv=False)[0]
    spectral = torch.linalg.matrix_norm(x, ord=2).item()
    assert spectral == pytest.approx(largest)
    assert spectral < torch.norm(x) - 0.1


def test_norm_is_the_root_of_squares__but_both_agree_on_one_row(
    snippet, fails
):
    edited = snippet.edit("[[1.0, -2.0], [3.0, 4.0]]", "[[1.0, -2.0], [0, 0]]")
    fails(test_norm_is_the_root_of_squares, edited)


def test_norm_is_deprecated():
    """Nothing in a program changes what torch's documentation says."""
    assert "deprecated" in torch.norm.__doc__
    assert "deprecated" not in torch.linalg.vector_norm.__doc__


def test_diag_makes_a_matrix(snippet):
    run = snippet.after("diagonal")

    assert run.made.tolist() == [[1, 0], [0, 10]]


def test_diag_makes_a_matrix__but_not_of_a_matrix(snippet, fails):
    edited = snippet.edit("made = torch.diag(v)", "made = torch.diag(x)")
    fails(test_diag_makes_a_matrix, edited)


def test_products_want_their_shapes(snippet, capsys):
    snippet.after("shapes")

    said = capsys.readouterr().out.splitlines()[-3:]
    assert said[0].startswith("torch.mv(x, y): vector + matrix @ vector")
    assert said[1].startswith("torch.dot(x, y): 1D tensors expected")
    assert said[2].startswith("torch.bmm(x, y): batch1 must be a 3D tensor")


def test_products_want_their_shapes__but_mm_takes_two(snippet, capsys, fails):
    edited = snippet.edit('"torch.mv(x, y)", ', '"torch.mm(x, y)", ')
    fails(test_products_want_their_shapes, edited, capsys)


def test_bmm_does_not_broadcast(snippet):
    run = snippet.after("batches")

    assert torch.matmul(run.one, run.three).shape == (3, 2, 2)
    with pytest.raises(RuntimeError, match="Expected size for first two"):
        torch.bmm(run.one, run.three)


def test_bmm_does_not_broadcast__but_multiplies_equal_batches(snippet, fails):
    edited = snippet.edit("torch.ones(1, 2, 2)", "torch.ones(3, 2, 2)")
    fails(test_bmm_does_not_broadcast, edited)


def test_topk_needs_enough(snippet, capsys):
    snippet.after("too-many")

    assert "index k out of range" in capsys.readouterr().out


def test_topk_needs_enough__and_takes_all(snippet, capsys, fails):
    fails(test_topk_needs_enough, snippet.edit("k=3", "k=2"), capsys)
