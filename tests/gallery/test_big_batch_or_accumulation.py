"""The claims of gallery/big_batch_or_accumulation.py."""

import math
import sys
from functools import cache

import pytest
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.recipes import (
    LAZY,
    MODEL,
    NO_TENSORS,
    check_arguments,
    check_named,
    check_refused,
    given,
    no_line,
    written,
)

pytest.importorskip("tqdm", reason="tqdm is not installed")
pytestmark = pytest.mark.usefixtures("nothing_stays")

WEIGHTED, UNDIVIDED, BATCH = "weighted by size", "not divided", "BatchNorm"
DIVIDED = "divided by the parts"
ARGUMENTS = {
    "MODEL": (["--model", "my_model.py"], "my_model.py"),
    "BATCH": (["--batch", "7"], 7),
    "PARTS": (["--parts", "3", "5"], [3, 5]),
}


@cache
def tried(snippet):
    """Return the variables of a program that has tried all ways."""
    return snippet.after("compare")


def layered(snippet, **constants):
    """Return the program with other constants, and without BatchNorm."""
    return given(snippet, **constants).edit("if not MODEL:", "if False:")


def seeded(snippet, seed):
    for place in ("\nwith", "\n    ways"):
        old = f"torch.manual_seed(0){place}"
        snippet = snippet.edit(old, f"torch.manual_seed({seed}){place}")
    return snippet


# -- Settings ----------------------------------------------------------------


def test_each_argument_sets_its_constant(snippet):
    check_arguments(snippet, ARGUMENTS)


@edits(
    ("default=BATCH", "default=9"),
    ("MODEL, BATCH, PARTS = options", "MODEL, PARTS, BATCH = options"),
    ('"--parts", type=int, nargs="+"', '"--parts", type=int'),
    ('if "__file__" in globals():', "if True:"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With `default=9`, `BATCH` changes without its argument; the other edits
    swap or refuse values, or read arguments in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_a_number_out_of_bounds_is_refused(snippet):
    check_refused(
        snippet,
        [
            ["--batch", "1"],
            ["--batch", "-9"],
            ["--parts", "-1"],
            ["--parts", "2", "0"],
        ],
    )


@edits(
    ("options.batch < 2", "options.batch < 1"),
    ("min(options.parts) < 1", "min(options.parts) < 0"),
    ("min(options.parts) < 1", "options.parts[0] < 1"),
    ('"--batch is at least 2, and', '"the batch is at least 2, and'),
)
def test_a_number_out_of_bounds_is_refused__but_not_with(
    snippet, old, new, fails
):
    """With `< 1`, a batch of one is accepted; other edits accept other bad
    numbers, or do not name the argument.
    """
    fails(test_a_number_out_of_bounds_is_refused, snippet.edit(old, new))


# -- A reader's model --------------------------------------------------------


def test_a_model_of_yours_is_cut(snippet, tmp_path, text=MODEL):
    path = written(tmp_path, text)
    with no_line():
        run = given(snippet, MODEL=path, BATCH=8, PARTS=[1, 3]).after(
            "conclude"
        )

    own = run.build.__globals__
    assert own.get("calls", [])[:1] == ["build"]
    assert isinstance(run.model[1], nn.Tanh)
    assert len(run.model) == 3
    assert set(own["calls"][1:]) == {(8, 2), (3, 2), (2, 2)}
    assert run.targets.tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    assert list(run.errors) == [WEIGHTED, DIVIDED, UNDIVIDED]
    assert run.errors[WEIGHTED][1] < 1e-12
    assert run.errors[DIVIDED][1] > 1e-3
    normed = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)).eval()
    whole, _ = run.in_parts(normed, 1, run.by_size)
    assert not whole.allclose(run.in_parts(normed, 3, run.by_size)[0])


def test_a_model_of_yours_is_cut__also_if_it_is_lazy(snippet, tmp_path):
    test_a_model_of_yours_is_cut(snippet, tmp_path, LAZY)


@edits(
    ("    if MODEL:\n", "    if False:\n"),
    ("loss = loss_of(model(x), y)", "loss = model(x).square().mean()"),
    ("DataLoader(data, BATCH)", "DataLoader(data, BATCH, shuffle=True)"),
    (".double().train()", ".double()"),
)
def test_a_model_of_yours_is_cut__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """With `if False:`, your file is never read; the other edits take another
    loss, other samples or another mode.
    """
    fails(test_a_model_of_yours_is_cut, snippet.edit(old, new), tmp_path)


def test_a_file_that_fails_is_named(snippet, tmp_path):
    def start(path):
        given(snippet, MODEL=path).after("yours")

    wrong = MODEL.replace("nn.Linear(5, 2)", "nn.Linear(4, 2)")
    check_named(start, tmp_path)
    check_named(start, tmp_path, {"my_shape.py": wrong})
    for name, text in NO_TENSORS.items():
        path = written(tmp_path, text, name)
        with pytest.raises(ValueError, match=name) as caught:
            start(path)
        vars(sys).pop("tracebacklimit", None)
        assert "have to be tensors" in str(caught.value)


@edits(
    ('(f"{path}: {type', '(f"{type'),
    ('.rpartition("\\n")[2]', ""),
    ("sys.tracebacklimit = 0", "sys.tracebacklimit = 9"),
    ("its inputs and its targets have to be", "no"),
)
def test_a_file_that_fails_is_named__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without `{path}`, the line does not name the file; the other edits show
    more lines, or give another reason.
    """
    fails(test_a_file_that_fails_is_named, snippet.edit(old, new), tmp_path)


# -- The gradient ------------------------------------------------------------


def test_there_may_be_fewer_parts(snippet, size=230, parts=(1, 2, 16, 100)):
    run = tried(layered(snippet, BATCH=size, PARTS=list(parts)))

    for asked, count in zip(parts, run.counts, strict=True):
        each = math.ceil(size / asked)
        sizes = [len(part) for part in run.inputs.chunk(asked)]
        assert len(sizes) == count <= asked
        assert set(sizes[:-1]) <= {each}
        assert 0 < sizes[-1] <= each
        if (size, asked) == (230, 100):
            assert count == 77
        made = []

        def noted(x, number, made=made):
            made.append(number)
            return 1 / number

        run.in_parts(run.model, asked, noted)
        assert made == [count] * count


@pytest.mark.parametrize("size", [5, 60])
def test_there_may_be_fewer_parts__also_of(snippet, size):
    test_there_may_be_fewer_parts(snippet, size, (1, 3, 4, 7, 59, 400))


def test_there_may_be_fewer_parts__but_not_counted_as_asked(snippet, fails):
    """It counts 100 parts, as asked for, though there are only 77."""
    edited = snippet.edit("[len(inputs.chunk(parts)) for parts", "[p for p")
    fails(test_there_may_be_fewer_parts, edited)


def test_weighted_parts_give_the_gradient_of_the_whole(snippet):
    run = tried(snippet)

    assert len(run.errors[WEIGHTED]) == len(run.PARTS) == len(run.counts)
    assert max(run.errors[WEIGHTED]) < 1e-12


@pytest.mark.parametrize("size", [2, 64, 230, 331])
@pytest.mark.parametrize("seed", [2])
def test_weighted_parts_give_the_gradient_of_the_whole__also_for(
    snippet, size, seed
):
    parts = [1, 3, 7, 23, 100, 230]
    edited = layered(seeded(snippet, seed), BATCH=size, PARTS=parts)
    test_weighted_parts_give_the_gradient_of_the_whole(edited)


# A file whose numbers are of 32 bits, but those that its loss makes anew.
OF_32_BITS = """
import torch
from torch import nn
from torch.nn import functional as F

FLOAT = {"dtype": torch.float32}


def build():
    data = [(torch.rand(3, **FLOAT), torch.rand(2, **FLOAT)) for _ in range(9)]
    return nn.Linear(3, 2, **FLOAT), data, loss_of


def loss_of(outputs, targets):
    assert outputs.dtype == targets.dtype == torch.ones(1).dtype
    return F.mse_loss(outputs, targets)
"""


def test_weighted_parts_give_the_gradient_of_the_whole__also_of_32_bits(
    snippet, tmp_path
):
    path = written(tmp_path, OF_32_BITS)
    with no_line():
        run = given(snippet, MODEL=path, BATCH=7, PARTS=[2, 3, 7]).after(
            "compare"
        )
    assert len(run.errors[WEIGHTED]) == len(run.PARTS)
    assert max(run.errors[WEIGHTED]) < 1e-12


def test_weighted_parts_give_the_gradient_of_the_whole__ends_with_batch_norm(
    snippet, fails
):
    """With `BatchNorm`: it normalizes each part by itself."""
    edited = snippet.edit("norm=nn.LayerNorm):", "norm=nn.BatchNorm1d):")
    fails(test_weighted_parts_give_the_gradient_of_the_whole, edited)


@pytest.mark.parametrize(
    "loss",
    [
        "F.mse_loss(outputs, targets, reduction='sum')",
        "(outputs - targets)[targets > 0].square().mean()",
    ],
    ids=["a loss that is a sum", "a mean of some targets"],
)
def test_weighted_parts_give_the_gradient_of_the_whole__ends_for(
    snippet, fails, loss
):
    """For a loss that is a sum, or a mean over only some targets: weighting by
    size is then wrong.
    """
    lines = f"def other(outputs, targets):\n    return {loss}\n\n\n"
    edited = snippet.edit("def build(norm", f"{lines}def build(norm")
    edited = edited.edit(
        "TensorDataset(inputs, targets), F.mse_loss",
        "TensorDataset(inputs, targets), other",
    )
    fails(test_weighted_parts_give_the_gradient_of_the_whole, edited)


def test_weighted_parts_give_the_gradient_of_the_whole__also_with_dropout(
    snippet,
):
    run = tried(snippet)
    model = nn.Sequential(nn.Linear(32, 1), nn.Dropout())
    first, _ = run.in_parts(model, 1, run.by_size)
    second, _ = run.in_parts(model, 1, run.by_size)
    assert first.equal(second)


@edits(
    ("return len(x) / len(inputs)", "return 1 / count"),
    ("return len(x) / len(inputs)", "return len(x) / 240"),
    (
        "        kept.clear()\n",
        "        kept.clear()\n        model.zero_grad()\n",
    ),
)
def test_weighted_parts_give_the_gradient_of_the_whole__but_not_with(
    snippet, old, new, fails
):
    """With `1 / count`, the shorter last part counts too much; the other edits
    shrink the gradient, or clear it between parts.
    """
    edited = snippet.edit(old, new)
    fails(test_weighted_parts_give_the_gradient_of_the_whole, edited)


def test_a_short_part_counts_too_much(snippet):
    run = tried(snippet)
    errors = dict(zip(run.PARTS, run.errors[DIVIDED], strict=True))

    sizes = [len(part) for part in run.inputs.chunk(16)]
    assert sizes == [15] * 15 + [5]
    assert errors[16] > 1 / 20
    assert errors[2] < 1e-12


@pytest.mark.parametrize("seed", [1])
def test_a_short_part_counts_too_much__also_from(snippet, seed):
    test_a_short_part_counts_too_much(seeded(snippet, seed))


@edits(
    ("lambda x, count: 1 / count", "by_size"),
    ("lambda x, count: 1 / count", "lambda x, count: 1.0"),
    ("BATCH = 230", "BATCH = 240"),
)
def test_a_short_part_counts_too_much__but_not_with(snippet, old, new, fails):
    """Weighted by size, the short part counts as it should; undivided, two
    parts are off as well; 240 samples divide evenly.
    """
    fails(test_a_short_part_counts_too_much, snippet.edit(old, new))


def test_undivided_parts_are_off_by_their_number(
    snippet, parts=(1, 2, 5, 10, 23, 46, 115, 230), size=230
):
    run = tried(layered(snippet, PARTS=list(parts), BATCH=size))

    expected = [number - 1 for number in parts]
    found = list(run.errors[UNDIVIDED])
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_undivided_parts_are_off_by_their_number__also_with_a_batch_of_64(
    snippet,
):
    edited = seeded(snippet, 2)
    test_undivided_parts_are_off_by_their_number(edited, (2, 10))
    test_undivided_parts_are_off_by_their_number(edited, (1, 4, 16, 64), 64)


def test_undivided_parts_are_off_by_their_number__but_not_divided(
    snippet, fails
):
    """Divided by their number, equal parts give the gradient of the whole."""
    edited = snippet.edit(
        '"not divided": (model, lambda x, count: 1.0)',
        '"not divided": (model, lambda x, count: 1 / count)',
    )
    fails(test_undivided_parts_are_off_by_their_number, edited)


def test_undivided_parts_are_off_by_their_number__ends_for_uneven_parts(
    snippet, fails
):
    """With 16 uneven parts: the gradient is not exactly 16 times that of the
    whole.
    """
    fails(test_undivided_parts_are_off_by_their_number, snippet, (2, 16))


def test_batch_norm_parts_are_off(snippet):
    run = given(snippet, PARTS=[1, 2, 16, 230]).after("compare")
    errors = dict(zip(run.PARTS, run.errors[BATCH], strict=True))

    assert errors[1] < 1e-12
    assert errors[2] > 1e-3
    assert errors[16] > errors[2]
    assert math.isnan(errors[230])
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        run.in_parts(run.ways[BATCH][0], 230, run.by_size)


@pytest.mark.parametrize("seed", [1])
def test_batch_norm_parts_are_off__also_from(snippet, seed):
    test_batch_norm_parts_are_off(seeded(snippet, seed))


@edits(
    ("build(nn.BatchNorm1d)", "build(nn.LayerNorm)"),
    ("build(nn.BatchNorm1d)", "build(nn.Identity)"),
    (".double().train()", ".double().eval()"),
)
def test_batch_norm_parts_are_off__but_not_with(snippet, old, new, fails):
    """`LayerNorm`, no norm, or `BatchNorm` in `eval()` mode does not look at
    the batch, so parts change nothing.
    """
    fails(test_batch_norm_parts_are_off, snippet.edit(old, new))


# -- The conclusion ----------------------------------------------------------

TAKE = "So take parts, weighted by their size."
NOT_HERE = "Not here: look for BatchNorm, dropout, or a loss that is a sum."


def said(snippet, **errors):
    """Return what is said of differences, by way."""
    edited = snippet.edit("print(*conclusion(errors), ", "print(")
    run = edited.only("setup", "conclude").after("conclude")
    found = {name.replace("_", " "): errors[name] for name in errors}
    return list(run.conclusion(found))


def test_the_conclusion_names_what_is_the_same(snippet):
    lines = said(
        snippet,
        weighted_by_size=[0.0, 1e-15],
        b=[1e-15, 0.25, 0.0],
        c=[15.0],
        d=[math.nan, 0.0, 0.0],
        e=[0.0, 2.0, math.nan],
    )

    assert lines[:-1] == [
        "weighted by size: the gradient of the whole, in all numbers of parts",
        "b: up to 25% of its length off",
        "c: up to 1500% of its length off",
        "d: an error in some number of parts",
        "e: an error in some number of parts",
    ]


@edits(
    ("{max(found):.0%}", "{found[-1]:.0%}"),
    ("elif max(found) < 1e-9:", "elif max(found) < 0.5:"),
    ("if any(map(math.isnan, found)):", "if math.isnan(found[0]):"),
)
def test_the_conclusion_names_what_is_the_same__but_not_with(
    snippet, old, new, fails
):
    """`found[-1]` is the last difference, not the largest; the other edits
    overlook a difference or an error.
    """
    fails(test_the_conclusion_names_what_is_the_same, snippet.edit(old, new))


def test_the_conclusion_may_be_not_here(snippet):
    for good in ([0.0], [0.0, 1e-15, 1e-10]):
        lines = said(snippet, weighted_by_size=good, b=[9.0])
        assert lines[-1] == TAKE
    for bad in ([0.0, 0.01], [0.01, 0.0], [0.0, math.nan], [math.nan, 0.0]):
        lines = said(snippet, weighted_by_size=bad, b=[0.0])
        assert lines[-1] == NOT_HERE


@edits(
    ("BatchNorm", "nn.Tanh()", "nn.BatchNorm1d(5)"),
    (
        "a loss that is a sum",
        "entropy(outputs, labels)",
        "entropy(outputs, labels, reduction='sum')",
    ),
)
def test_the_conclusion_may_be_not_here__also_of_yours(
    snippet, tmp_path, capsys, old, new
):
    test_the_conclusion_may_be_not_here(snippet)
    path = written(tmp_path, MODEL.replace(old, new))
    with no_error():
        given(snippet, MODEL=path).after("conclude")
    assert capsys.readouterr().out.endswith(f"{NOT_HERE}\n")


@edits(
    ("if all(error < 1e-9", "if any(error < 1e-9"),
    ("if all(error < 1e-9", "if all(error < 0.1"),
    ('in errors["weighted by size"])', 'in errors["b"])'),
)
def test_the_conclusion_may_be_not_here__but_not_with(
    snippet, old, new, fails
):
    """With `any()`, one number of parts that works is enough; the other edits
    allow too much, or look at another way.
    """
    fails(test_the_conclusion_may_be_not_here, snippet.edit(old, new))


# -- The memory --------------------------------------------------------------


def test_the_activations_shrink_with_the_parts(snippet):
    run = tried(snippet)

    size = len(run.inputs)
    largest = [math.ceil(size / parts) / size for parts in run.PARTS]
    assert list(run.memory[WEIGHTED]) == pytest.approx(largest, rel=1e-9)
    if 16 in run.PARTS:
        assert largest[run.PARTS.index(16)] == 15 / 230
    # Of each sample: the input, what the first layer and the norm give out,
    # a mean and a deviation, the output and the target.
    _, most = run.in_parts(run.model, 1, run.by_size)
    assert most == 8 * size * (32 + 64 + 64 + 1 + 1 + 1 + 1)


@pytest.mark.parametrize("size", [5, 230, 331])
def test_the_activations_shrink_with_the_parts__also_for_batches_of(
    snippet, size
):
    edited = layered(snippet, PARTS=[1, 3, 7, 23, 230], BATCH=size)
    test_the_activations_shrink_with_the_parts(edited)


@edits(
    ("        kept.clear()\n", ""),
    ("not in own:", "is not None:"),
    ("= tensor.nbytes\n", "= tensor.nbytes + 9\n"),
    ("kept[tensor.data_ptr()]", "kept[0]"),
)
def test_the_activations_shrink_with_the_parts__but_not_with(
    snippet, old, new, fails
):
    """Without `kept.clear()`, the bytes of all parts add up; the other edits
    count the weights as well, or miscount.
    """
    fails(test_the_activations_shrink_with_the_parts, snippet.edit(old, new))


def test_the_activations_shrink_with_the_parts__also_of_one_tensor_twice(
    snippet,
):
    run = tried(snippet)
    test_the_activations_shrink_with_the_parts(snippet)
    plain = [nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 1)]
    seen = [*plain[:2], nn.Unflatten(1, (2, 4)), nn.Flatten(), plain[2]]
    for layers in (plain, seen):
        _, most = run.in_parts(nn.Sequential(*layers), 1, run.by_size)
        # The result of the ReLU is kept by it and by the next layer.
        assert most == 8 * len(run.inputs) * (32 + 8 + 1 + 1)


def test_the_activations_shrink_with_the_parts__also_with_part_of_a_weight(
    snippet,
):
    run = tried(snippet)

    class Sliced(nn.Linear):
        def forward(self, x):
            return x @ self.weight[1:].T

    model = nn.Sequential(nn.Linear(32, 4), Sliced(4, 2, bias=False))
    _, most = run.in_parts(model, 1, run.by_size)
    assert most == 8 * len(run.inputs) * (32 + 4 + 1 + 1)
