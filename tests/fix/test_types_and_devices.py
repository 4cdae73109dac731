"""The claims of docs/fix/types_and_devices.md."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import printed


def run_of(snippet, cell):
    """Run a cell of the page, behind the one with the imports."""
    with no_error():
        return snippet.only("doubles", cell).after(cell)


def error_of(call, *inputs):
    """Return the text of an error; empty if there is none."""
    try:
        call(*inputs)
    except (RuntimeError, TypeError, AttributeError) as error:
        return str(error)
    return ""


CHARACTERS = {
    torch.float64: "double",
    torch.float16: "c10::Half",
    torch.int64: "long int",
    torch.uint8: "unsigned char",
}


def test_a_convolution_wants_one_dtype(snippet, kind=nn.Conv1d, bias=True):
    run = run_of(snippet, "doubles")
    wanted = "Input type ({}) and bias type (float) should be the same"
    assert printed[-1]["doubles"].strip() == wanted.format("double")
    assert run.output.equal(run.convolution(run.batch))

    layer = kind(3, 2, 1, bias=bias)
    shape = (2, 3, 4, 5, 6)[: layer.weight.ndim]
    for dtype, name in CHARACTERS.items():
        said = error_of(layer, torch.ones(shape, dtype=dtype))
        assert said == wanted.format(name)
        assert error_of(layer, torch.ones(shape, dtype=dtype).float()) == ""


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.Conv3d])
def test_a_convolution_wants_one_dtype__also_of(snippet, kind):
    test_a_convolution_wants_one_dtype(snippet, kind)


def test_a_convolution_wants_one_dtype__ends_without_a_bias(snippet, fails):
    """Without a bias, the error is `expected scalar type Double but found
    Float`.
    """
    layer = nn.Conv1d(3, 2, 1, bias=False)
    said = error_of(layer, torch.ones(2, 3, 4).double())
    assert said == "expected scalar type Double but found Float"
    fails(test_a_convolution_wants_one_dtype, snippet, nn.Conv1d, False)


def test_a_convolution_wants_one_dtype__ends_for_a_transposed_one(
    snippet, fails
):
    """`ConvTranspose1d` refuses it with another text, bias or not."""
    fails(test_a_convolution_wants_one_dtype, snippet, nn.ConvTranspose1d)


@edits(
    ("    convolution(batch.double())", "    convolution(batch)"),
    ("as they are", "double().float())", "double())"),
    ("nn.Conv1d(64, 1, 1),", "nn.Conv1d(64, 1, 1).half(),"),
)
def test_a_convolution_wants_one_dtype__but_not(snippet, old, new, fails):
    """A `float32` batch is taken; with weights in 16 bits, `float()` does not
    help either.
    """
    fails(test_a_convolution_wants_one_dtype, snippet.edit(old, new))


def test_integers_are_a_second_fault(snippet, bias=True):
    run_of(snippet, "integers")
    assert "same dtype, but got Long and Float" in printed[-1]["integers"]

    layer = nn.Linear(3, 1, bias=bias)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        for shape in ((3,), (2, 3), (2, 2, 3)):
            numbers = torch.ones(shape, dtype=dtype)
            assert "dtype" in error_of(layer, numbers)
            assert error_of(layer, numbers.float()) == ""


def test_integers_are_a_second_fault__also_without_a_bias(snippet):
    test_integers_are_a_second_fault(snippet, bias=False)


def test_integers_are_a_second_fault__but_not_as_floats(snippet, fails):
    """Written as floats, the batch has the dtype of the weights."""
    edited = snippet.edit("[70, 3, 20]", "[70.0, 3, 20]")
    fails(test_integers_are_a_second_fault, edited)


def test_autocast_joins_halves(snippet, dtype=torch.float32, call=torch.bmm):
    run = run_of(snippet, "halves")

    said = error_of(torch.matmul, run.half, run.full)
    assert said == "expected scalar type Half but found Float"
    torch.testing.assert_close(
        run.mixed.float(), run.product, rtol=0.02, atol=0
    )
    with torch.autocast("cpu", dtype=torch.bfloat16), no_error():
        assert call(run.half, run.full.to(dtype)).shape == (2, 3, 5)


LAYERS = {
    "Linear": (nn.Linear(4, 2), (3, 4)),
    "Conv2d": (nn.Conv2d(4, 2, 1), (3, 4, 5, 5)),
    "Conv2d without bias": (nn.Conv2d(4, 2, 1, bias=False), (3, 4, 5, 5)),
    "MultiheadAttention": (nn.MultiheadAttention(4, 2), (3, 1, 4)),
}


@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("layer", "shape"), LAYERS.values(), ids=LAYERS)
def test_autocast_joins_halves__also_in(layer, shape, autocast):
    x = torch.rand(shape).half()
    inputs = [x] * (3 if isinstance(layer, nn.MultiheadAttention) else 1)

    assert error_of(layer, *inputs) != ""
    with torch.autocast("cpu", dtype=autocast):
        assert error_of(layer, *inputs) == ""


@edits(
    (
        "switched off",
        'torch.autocast("cpu", ',
        'torch.autocast("cpu", enabled=False, ',
    ),
    ("the other one", "half.float() @ full", "half @ full.half()"),
)
def test_autocast_joins_halves__but_not(snippet, old, new, fails):
    """Switched off, autocast converts nothing; and 16 bits are a coarser
    product.
    """
    fails(test_autocast_joins_halves, snippet.edit(old, new))


def test_autocast_joins_halves__ends_with_float64(snippet, fails):
    """Autocast leaves `float64` alone: write `.float()` there."""
    fails(test_autocast_joins_halves, snippet, torch.float64)


def normed(half, full):
    """Normalize by weights of 16 bits."""
    return F.layer_norm(full[:, :3], (5,), half.new_ones(5))


def test_autocast_joins_halves__ends_with_norms(snippet, fails):
    """On a CPU, autocast leaves norms alone: one in 16 bits does not take
    `float32`.
    """
    fails(test_autocast_joins_halves, snippet, torch.float32, normed)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_joins_halves__also_if_norms_are_converted(dtype):
    body = nn.TransformerEncoderLayer(8, 2, 16).half()
    body.norm1.float()
    body.norm2.float()
    head, x = nn.Linear(8, 2), torch.rand(3, 5, 8)

    with torch.autocast("cpu", dtype=dtype):
        assert error_of(lambda: head(body(x)).sum().backward()) == ""


def written(half, full):
    """Write 32 bits to some places of 16 bits, as of an image in a text."""
    kept = half.new_zeros(2, 3, 5)
    kept[torch.ones(2, 3, dtype=torch.bool)] = full[:, :3].flatten(0, 1)
    return kept


def test_autocast_joins_halves__ends_with_assignments(snippet, fails):
    """Into `x[mask]`, autocast converts nothing: write `.to(x.dtype)`."""
    fails(test_autocast_joins_halves, snippet, torch.float32, written)


def test_weights_have_the_dtype_of_the_scores(snippet, loss=F.cross_entropy):
    run = run_of(snippet, "class-weights")

    assert run.weight.dtype == torch.float64
    weighted = [run.scores, run.labels, run.weight]
    said = error_of(loss, *weighted)
    assert said == "expected scalar type Float but found Double"
    assert run.loss.item() == loss(*weighted[:2], run.weight.float()).item()
    assert run.loss.dtype == torch.float32


@pytest.mark.parametrize("loss", [F.nll_loss, F.multi_margin_loss])
def test_weights_have_the_dtype_of_the_scores__also_in(loss):
    scores, labels = torch.rand(6, 3), torch.tensor([0, 2, 1, 1, 0, 2])
    weight = torch.ones(3, dtype=torch.float64)

    def weighted(weight):
        return loss(scores, labels, weight=weight)

    assert "Float but found Double" in error_of(weighted, weight)
    assert error_of(weighted, weight.float()) == ""


def test_weights_have_the_dtype_of_the_scores__also_in_huber_loss():
    x = torch.rand(3, requires_grad=True)
    target = torch.rand(3, dtype=torch.float64)

    said = error_of(lambda: F.huber_loss(x, target).backward())
    assert said == "Found dtype Double but expected Float"
    assert error_of(lambda: F.huber_loss(x, target.float()).backward()) == ""


@edits(
    (
        "float32 in NumPy",
        "(1 / np.bincount(labels))",
        "(np.ones(3, dtype=np.float32))",
    ),
    ("not converted", "weight=weight.float()", "weight=weight"),
)
def test_weights_have_the_dtype_of_the_scores__but_not(
    snippet, old, new, fails
):
    """A NumPy array of `float32` makes `float32` weights; without `.float()`,
    the last line raises the error again.
    """
    edited = snippet.edit(old, new)
    fails(test_weights_have_the_dtype_of_the_scores, edited)


def two_classes(scores, labels, weight):
    """Weight the classes of a loss that takes yes or no."""
    targets = F.one_hot(labels, 3).float()
    return F.binary_cross_entropy_with_logits(
        scores, targets, pos_weight=weight
    )


def test_weights_have_the_dtype_of_the_scores__ends_with_pos_weight(
    snippet, fails
):
    """The `pos_weight` of `binary_cross_entropy_with_logits` may be `float64`:
    then the loss is, too.
    """
    fails(test_weights_have_the_dtype_of_the_scores, snippet, two_classes)


def of_probabilities(scores, labels, weight):
    """Weight the classes where the targets are probabilities."""
    return F.cross_entropy(scores, F.one_hot(labels, 3).float(), weight)


def test_weights_have_the_dtype_of_the_scores__ends_with_probabilities(
    snippet, fails
):
    """Where the targets are probabilities, the weight may be `float64`: then
    the loss is, too.
    """
    fails(test_weights_have_the_dtype_of_the_scores, snippet, of_probabilities)


HALVES = {
    "product": lambda x: x @ x.mT,
    "Linear": lambda x: F.linear(x, torch.ones(2, 5).half()),
    "conv2d": lambda x: F.conv2d(x[None], torch.ones(1, 3, 2, 2).half()),
    "layer_norm": lambda x: F.layer_norm(x, (5,)),
    "softmax": lambda x: x.softmax(-1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "LSTM": lambda x: nn.LSTM(5, 2).half()(x)[0],
}


def test_float16_runs_on_the_cpu(snippet, call=HALVES["product"]):
    run = run_of(snippet, "half-on-the-cpu")

    assert run.squared.dtype == torch.float16
    said = error_of(torch.linalg.svd, run.matrix)
    assert said == "\"linalg_svd_cpu\" not implemented for 'Half'"
    torch.manual_seed(0)
    x = torch.rand(3, 4, 5).half()
    with no_error():
        found = call(x)
    assert found.dtype == torch.float16


@pytest.mark.parametrize("call", HALVES.values(), ids=HALVES)
def test_float16_runs_on_the_cpu__also(snippet, call):
    test_float16_runs_on_the_cpu(snippet, call)


@edits(
    ("converted", "torch.rand(3, 3).half()", "torch.rand(3, 3)"),
    ("not converted", "svd(matrix.float())", "svd(matrix)"),
)
def test_float16_runs_on_the_cpu__but_not(snippet, old, new, fails):
    """In `float32`, there is no error and no 16-bit number; without
    `.float()`, the last line raises the error again.
    """
    fails(test_float16_runs_on_the_cpu, snippet.edit(old, new))


DECOMPOSED = {
    "qr": torch.linalg.qr,
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.mT),
    "det": lambda x: torch.linalg.det(x @ x.mT),
    "inv": lambda x: torch.linalg.inv(x @ x.mT),
    "cdist": lambda x: torch.cdist(x, x),
    "quantile": lambda x: x.quantile(0.5),
}


@pytest.mark.parametrize("call", DECOMPOSED.values(), ids=DECOMPOSED)
def test_float16_runs_on_the_cpu__ends_with(snippet, call, fails):
    """Decompositions, inverses, determinants, `cdist` and `quantile`: write
    `x.float()` there.
    """
    fails(test_float16_runs_on_the_cpu, snippet, call)


def test_counters_are_integers(snippet):
    run = run_of(snippet, "averaged")

    integers = [
        name
        for name, value in run.average.items()
        if not value.is_floating_point()
    ]
    assert integers == ["num_batches_tracked"]
    counter = run.state["num_batches_tracked"]
    said = error_of(counter.mul_, 0.9)
    assert said.endswith("can't be cast to the desired output type Long")


MODULES = {
    "BatchNorm2d": nn.BatchNorm2d(3),
    "a model": nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU()),
    "SyncBatchNorm": nn.SyncBatchNorm(3),
}


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_counters_are_integers__also_in(module):
    integers = {
        name.rpartition(".")[2]
        for name, value in module.state_dict().items()
        if error_of(value.clone().mul_, 0.9)
    }
    assert integers == {"num_batches_tracked"}


@edits(
    (
        "without statistics",
        "state, average = norm",
        "norm = nn.BatchNorm1d(3, "
        "track_running_stats=False)\nstate, average = norm",
    ),
)
def test_counters_are_integers__but_not(snippet, old, new, fails):
    """Without running statistics, there is no counter."""
    edited = snippet.edit(old, new)
    edited = edited.edit("nn.BatchNorm1d(3).state_dict()", "norm.state_dict()")
    fails(test_counters_are_integers, edited)


def test_tilde_inverts_a_mask(snippet, mask=None):
    run = run_of(snippet, "masks")
    mask = run.mask if mask is None else mask

    said = error_of(lambda: 1 - run.mask)
    assert said.startswith("Subtraction, the `-` operator, with a bool tensor")
    assert run.inverted.tolist() == [not each for each in run.mask.tolist()]
    assert (~mask).tolist() == [not each for each in mask.tolist()]


def test_tilde_inverts_a_mask__also_instead_of_minus():
    mask = torch.tensor([True, False])

    assert "Negation, the `-` operator" in error_of(lambda: -mask)
    assert "with two bool tensors" in error_of(lambda: mask - mask)
    assert (mask ^ ~mask).tolist() == [True, True]
    assert (mask.float() - 1).tolist() == [0.0, -1.0]


@edits(
    ("numbers", "[True, False, True]", "[1.0, 0.0, 1.0]"),
    ("not inverted", "inverted = ~mask", "inverted = mask.clone()"),
)
def test_tilde_inverts_a_mask__but_not(snippet, old, new, fails):
    """Of floats, `~` makes nothing, and `1 - mask` is right; a copy of a mask
    is not inverted.
    """
    fails(test_tilde_inverts_a_mask, snippet.edit(old, new))


def test_tilde_inverts_a_mask__ends_with_integers(snippet, fails):
    """For a mask of integers, `~` flips bits, so that 0 and 1 become -1 and
    -2: write `mask == 0`.
    """
    fails(test_tilde_inverts_a_mask, snippet, torch.tensor([1, 0, 1]))


def test_stft_as_before(snippet, **options):
    found = run_of(snippet, "stft")

    given = {"input": found.sound, "n_fft": 64, "window": found.window}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        before = torch.stft(**given, return_complex=False, **options)
    after = torch.stft(**given, return_complex=True, **options)
    assert torch.view_as_real(after).equal(before)
    if not options:
        assert found.as_before.equal(before)


@pytest.mark.parametrize("name", ["normalized", "onesided", "center"])
def test_stft_as_before__also_with(snippet, name):
    test_stft_as_before(snippet, **{name: name == "normalized"})


def test_stft_as_before__but_not_the_magnitudes(snippet, fails):
    """`abs()` gives the magnitudes, without the last axis of 2."""
    edited = snippet.edit("torch.view_as_real(spectrum)", "spectrum.abs()")
    fails(test_stft_as_before, edited)


def test_the_default_collate_makes_tensors(snippet, rows=None):
    run = run_of(snippet, "arrays")

    assert isinstance(run.batch, np.ndarray)
    said = error_of(lambda: run.batch.to("cpu"))
    assert said == "'numpy.ndarray' object has no attribute 'to'"
    (batch,) = DataLoader(run.rows if rows is None else rows, batch_size=4)
    assert type(batch) is torch.Tensor
    assert batch.tolist() == run.moved.tolist() == [[1.0] * 3] * 4


@pytest.mark.parametrize("kind", ["float64", "int64", "uint8", "bool"])
def test_the_default_collate_makes_tensors__also_of(kind):
    rows = [np.ones(3, dtype=kind) for _ in range(4)]

    (batch,) = DataLoader(rows, batch_size=4)
    assert str(batch.dtype) == f"torch.{kind}"
    (batch,) = DataLoader([{"x": row} for row in rows], batch_size=4)
    assert type(batch["x"]) is torch.Tensor


@edits(
    (", collate_fn=np.stack", ""),
    ("DataLoader(rows, batch_size=4)]", "DataLoader(rows, batch_size=2)][:1]"),
)
def test_the_default_collate_makes_tensors__but_not(snippet, old, new, fails):
    """Without `np.stack`, the first batch is a tensor as well; and a batch of
    two is smaller.
    """
    fails(test_the_default_collate_makes_tensors, snippet.edit(old, new))


def test_the_default_collate_makes_tensors__ends_with_lists(snippet, fails):
    """Of lists of numbers, it makes a list of tensors: one for each place."""
    rows = [[1.0] * 3 for _ in range(4)]
    fails(test_the_default_collate_makes_tensors, snippet, rows)


def test_sequential_passes_one_argument(snippet):
    run = run_of(snippet, "one-argument")

    model = nn.Sequential(nn.Linear(3, 3), run.Add())
    said = error_of(model, run.x)
    assert said.endswith("missing 1 required positional argument: 'skip'")
    said = error_of(model, run.x, run.x)
    assert said.endswith("takes 2 positional arguments but 3 were given")
    assert run.added.shape == run.x.shape
    model = run.Block()
    added = model.linear(run.x) + run.x
    torch.testing.assert_close(model(run.x), added)


def test_sequential_passes_one_argument__also_to_a_loss(snippet):
    said = error_of(nn.Sequential(nn.MSELoss()), torch.rand(3))
    assert said.endswith("missing 1 required positional argument: 'target'")


@edits(
    (
        "a default",
        "def forward(self, x, skip):",
        "def forward(self, x, skip=1):",
    ),
    (
        "not handed on",
        "self.add(self.linear(x), x)",
        "self.add(self.linear(x))",
    ),
)
def test_sequential_passes_one_argument__but_not(snippet, old, new, fails):
    """With a default, the second argument may be missing; and a `forward` of
    your own has to hand it on, too.
    """
    fails(test_sequential_passes_one_argument, snippet.edit(old, new))


def test_class_numbers_come_second(snippet, shape=(3, 2), dtype=torch.long):
    run = run_of(snippet, "swapped-classes")
    numbers = (shape[0], *shape[2:])
    scores, classes = torch.randn(shape), torch.zeros(numbers, dtype=dtype)

    said = printed[-1]["swapped-classes"]
    assert "not implemented for 'Long'" in said
    right = F.nll_loss(run.scores.log_softmax(1), run.classes)
    torch.testing.assert_close(run.in_order, right)
    F.cross_entropy(scores, classes)
    with pytest.raises((RuntimeError, IndexError)):
        F.cross_entropy(classes, scores)
    with pytest.raises(IndexError):
        F.cross_entropy(classes.view(-1)[0], scores.view(-1))


@pytest.mark.parametrize("shape", [(3, 3), (1, 1), (4, 2, 5), (2, 2, 2, 2)])
def test_class_numbers_come_second__also_for(snippet, shape):
    test_class_numbers_come_second(snippet, shape)


def test_class_numbers_come_second__also_of_bytes(snippet):
    test_class_numbers_come_second(snippet, dtype=torch.uint8)


def test_class_numbers_come_second__but_not_in_their_place(snippet, fails):
    """With the class numbers second, there is no error."""
    edited = snippet.edit(
        "    F.cross_entropy(classes, scores)",
        "    F.cross_entropy(scores, classes)",
    )
    fails(test_class_numbers_come_second, edited)


def test_a_pillow_picture_is_refused(snippet, mode="RGB", size=(6, 4)):
    run = run_of(snippet, "pillow")
    lines = printed[-1]["pillow"].splitlines()
    assert lines[:3] == [
        "new(): data must be a sequence (got Image)",
        "Could not infer dtype of Image",
        "expected np.ndarray (got Image)",
    ]
    assert lines[3] == "torch.Size([4, 6, 3]) torch.uint8"

    image = run.Image.new(mode, size)
    for call in (torch.Tensor, torch.tensor, torch.from_numpy):
        with pytest.raises((TypeError, RuntimeError), match="Image"):
            call(image)
    with pytest.raises(TypeError, match=r"found <class 'PIL.Image.Image'>"):
        next(iter(DataLoader([image])))
    assert torch.from_numpy(np.array(image)).shape[:2] == size[::-1]


@pytest.mark.parametrize("mode", ["L", "RGBA", "P"])
def test_a_pillow_picture_is_refused__also_for(snippet, mode):
    test_a_pillow_picture_is_refused(snippet, mode, (1, 1))


def test_a_pillow_picture_is_refused__but_not_as_an_array(snippet, fails):
    """As an array, the picture is taken."""
    edited = snippet.edit(
        "        call(image)", "        call(np.array(image))"
    )
    fails(test_a_pillow_picture_is_refused, edited)
