"""The claims of docs/autograd/transforms.md."""

import copy

import pytest
import torch
from torch import nn
from torch.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

# Forward mode loads code that uses torch.jit.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit")

DIGITS = ("digits", "per-sample")
NORMS = (*DIGITS, "shapes", "largest")
PULLS = (*NORMS, "largest-losses", "pulls")
JACOBIAN = (*DIGITS, "jacobian")
HAND = ("digits", "per-sample", "by-hand")
PRODUCTS = (*HAND, "jacobian", "hessian", "products")
ENSEMBLE = (*DIGITS, "ensemble")
NET = (*DIGITS, "error-of", "batch-norm", "evaluated")


def untrained(snippet):
    """Return the program whose model learns nothing, for other things."""
    return snippet.edit("for _ in range(60):", "for _ in range(1):")


def quick(snippet, *cells):
    """Run cells that need a model, but no trained one, once for all tests."""
    return after(untrained(snippet), *cells)


def close(found, expected, **options):
    """Compare up to rounding."""
    tolerance = {"atol": 1e-5, "rtol": 1e-3, **options}
    torch.testing.assert_close(found, expected, **tolerance)


class Largest(TorchDispatchMode):
    """Note the largest number of elements of a tensor that is made."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Run an operation, and look at what it returns."""
        result = function(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else [result]:
            if isinstance(each, torch.Tensor):
                self.numel = max(self.numel, each.numel())
        return result


def largest(function, *args):
    """Return the size of the largest tensor that a call makes."""
    with Largest() as watched:
        function(*args)
    return watched.numel


def alone(model, image, label):
    """Return the gradients of one sample, by autograd."""
    loss = F.cross_entropy(model(image[None]), label[None])
    parameters = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(parameters.values()))
    return dict(zip(parameters, found, strict=True))


def of_each(model, inputs, labels, **options):
    """Return the gradients of all samples, as the page does."""

    def loss_of(params, one, label):
        scores = functional_call(model, params, (one[None],))
        return F.cross_entropy(scores, label[None])

    params = {name: p.detach() for name, p in model.named_parameters()}
    each = vmap(grad(loss_of), in_dims=(None, 0, 0), **options)
    return each(params, inputs, labels)


def same_as_alone(model, gradients, inputs, labels, places):
    """Compare the gradients of some samples with those of each alone."""
    for place in places:
        expected = alone(model, inputs[place], labels[place])
        assert gradients.keys() == expected.keys()
        for name, gradient in expected.items():
            assert gradients[name].shape == (len(inputs), *gradient.shape)
            close(gradients[name][place], gradient)


# Do this


def test_each_sample_has_its_gradient(snippet, model=None):
    if model is not None:
        holds_for(model)
        return

    run = quick(snippet, *DIGITS)
    same_as_alone(
        run.model, run.gradients, run.images, run.labels, range(0, 1797, 97)
    )
    assert all(not each.requires_grad for each in run.gradients.values())
    assert all(p.grad_fn is None for p in run.params.values())


class Tied(nn.Module):
    """Two layers that share one weight."""

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(6, 6)
        self.two = nn.Linear(6, 6)
        self.two.weight = self.one.weight

    def forward(self, inputs):
        """Return the scores."""
        return self.two(self.one(inputs).tanh())


class Reader(nn.Module):
    """A model that reads a sequence of letters."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.head = nn.Linear(4, 6)

    def forward(self, letters):
        """Return the scores."""
        return self.head(self.embedding(letters).mean(dim=1))


class Listener(nn.Module):
    """A model that reads a series with a recurrent layer."""

    def __init__(self, layer):
        super().__init__()
        self.recurrent = layer(1, 4, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, series):
        """Return the scores."""
        return self.head(self.recurrent(series[:, :, None])[0][:, -1])


KINDS = {
    "a convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3), nn.Flatten()
    ),
    "LayerNorm": lambda: nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)),
    "GroupNorm": lambda: nn.Sequential(nn.Linear(6, 6), nn.GroupNorm(2, 6)),
    "tied layers": Tied,
    "no hidden layer": lambda: nn.Linear(6, 3),
}


def holds_for(model):
    """Compare the gradients of five samples with those of each alone."""
    inputs, labels = torch.randn(5, 6), torch.randint(0, 3, (5,))
    with no_error():
        gradients = of_each(model, inputs, labels)
    same_as_alone(model, gradients, inputs, labels, range(5))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_sample_has_its_gradient__also_with(kind):
    torch.manual_seed(1)
    holds_for(kind())


def test_each_sample_has_its_gradient__also_with_an_embedding():
    torch.manual_seed(1)
    letters, labels = torch.randint(0, 9, (5, 7)), torch.randint(0, 6, (5,))
    model = Reader()
    gradients = of_each(model, letters, labels)
    same_as_alone(model, gradients, letters, labels, range(5))


@pytest.mark.parametrize("layer", [nn.RNN, nn.GRU], ids=["RNN", "GRU"])
def test_each_sample_has_its_gradient__ends_with(snippet, layer, fails):
    """`vmap` raises an error for these layers."""
    fails(test_each_sample_has_its_gradient, snippet, Listener(layer))


class Checkpointed(nn.Linear):
    """A layer that computes its outputs again in the backward pass."""

    def forward(self, inputs):
        """Return the outputs."""
        again = super().forward
        return checkpoint(again, inputs, use_reentrant=False)


def test_each_sample_has_its_gradient__ends_with_checkpoint(snippet, fails):
    """`grad` raises an error if the model calls `torch.utils.checkpoint`."""
    fails(test_each_sample_has_its_gradient, snippet, Checkpointed(6, 3))


@pytest.mark.parametrize("size", [1, 2, 5, 9], ids="chunks of {}".format)
def test_each_sample_has_its_gradient__also_in(size):
    inputs, labels = torch.randn(5, 6), torch.randint(0, 3, (5,))
    model = nn.Linear(6, 3)
    gradients = of_each(model, inputs, labels, chunk_size=size)
    same_as_alone(model, gradients, inputs, labels, range(5))


def test_each_sample_has_its_gradient__also_in_float64():
    inputs, labels = torch.randn(5, 6).double(), torch.randint(0, 3, (5,))
    model = nn.Linear(6, 3).double()
    gradients = of_each(model, inputs, labels)
    same_as_alone(model, gradients, inputs, labels, range(5))


def test_each_sample_has_its_gradient__also_in_a_clipped_mean(snippet):
    run = after(snippet, *PULLS, "clip-each", "clip-each-checked")
    assert run.shares.max() == 1
    close(run.shares, (1 / run.norms).clamp(max=1))
    for name, clipped in run.clipped.items():
        factors = torch.tensor([min(1, 1 / n) for n in run.norms.tolist()])
        scaled = run.gradients[name].movedim(0, -1) * factors
        close(clipped, scaled.mean(dim=-1), atol=1e-4)


ALL = "gradients = vmap(grad(loss_of), in_dims=(None, 0, 0))"
ARGS = "(params, images, labels)"
ONE = "(image,))\n    return F.cross_entropy(scores, label)\n"


@edits(
    ("other labels", ALL + ARGS, ALL + "(params, images, labels.flip(0))"),
    ("other images", ALL + ARGS, ALL + "(params, 2 * images, labels)"),
    ("softmax first", ONE, ONE.replace("scores,", "scores.softmax(0),")),
)
def test_each_sample_has_its_gradient__but_not_with(snippet, old, new, fails):
    """Other images, labels or losses have other gradients."""
    fails(test_each_sample_has_its_gradient, snippet.edit(old, new))


def test_wrong_labels_have_large_gradients(snippet):
    run = after(snippet, *PULLS)

    given = torch.as_tensor(run.data.target)
    assert run.wrong.sum() == 90
    assert run.labels.shape == (1797,)
    assert torch.equal(run.labels != given, run.wrong)
    for i in (0, 7, 1796):
        squares = [each[i].square().sum() for each in run.gradients.values()]
        close(run.norms[i], sum(squares).sqrt())
    threshold = run.norms.sort().values[-90]
    assert torch.equal(
        run.suspects.sort().values,
        (run.norms >= threshold).nonzero().flatten(),
    )
    assert run.wrong[run.suspects].sum() > 70
    scores = run.model(run.images)
    losses = F.cross_entropy(scores, run.labels, reduction="none")
    assert run.wrong[losses.topk(90).indices].sum() > 70
    assert run.wrong[run.by_loss].sum() > 70


SEED = "torch.manual_seed(0)"


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_wrong_labels_have_large_gradients__also_from(snippet, seed):
    edited = snippet.edit(SEED, f"torch.manual_seed({seed})")
    test_wrong_labels_have_large_gradients(edited)


@edits(
    ("no training", "for _ in range(60):", "for _ in range(0):"),
    ("small norms", "norms.topk(90)", "norms.topk(90, largest=False)"),
)
def test_wrong_labels_have_large_gradients__but_not_with(
    snippet, old, new, fails
):
    """A model that knows nothing finds each label equally wrong."""
    fails(test_wrong_labels_have_large_gradients, snippet.edit(old, new))


def test_few_labels_pull_like_the_rest(snippet):
    run = after(snippet, *PULLS)

    pull = torch.cat(
        [each[run.wrong].sum(0).flatten() for each in run.gradients.values()]
    )
    others = torch.cat(
        [each[~run.wrong].sum(0).flatten() for each in run.gradients.values()]
    )
    close(run.pull, pull, atol=1e-3)
    close(run.others, others, atol=1e-3)
    assert (~run.wrong).sum() == 1707
    assert 0.75 < pull.norm() / others.norm() < 1.33
    assert F.cosine_similarity(pull, others, dim=0) < -0.8


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_few_labels_pull_like_the_rest__also_from(snippet, seed):
    edited = snippet.edit(SEED, f"torch.manual_seed({seed})")
    test_few_labels_pull_like_the_rest(edited)


@edits(
    ("no training", "for _ in range(60):", "for _ in range(0):"),
    ("after three steps", "for _ in range(60):", "for _ in range(3):"),
)
def test_few_labels_pull_like_the_rest__but_not(snippet, old, new, fails):
    """At first, all labels pull the same way."""
    fails(test_few_labels_pull_like_the_rest, snippet.edit(old, new))


# How it works


def test_the_samples_disagree(snippet):
    run = quick(snippet, *HAND)

    assert run.each_gradient.tolist() == [2 * (3 - 5) * 1, 2 * (6 - 4) * 2]
    assert run.each_gradient[0] < 0 < run.each_gradient[1]
    assert run.mean_gradient == 2
    w = torch.tensor(3.0, requires_grad=True)
    ((w * run.x - run.y) ** 2).mean().backward()
    assert w.grad == 2


@edits(
    ("samples that agree", "[5.0, 4.0]", "[5.0, 7.0]"),
    ("another model", "w = torch.tensor(3.0)", "w = torch.tensor(1.0)"),
    ("another loss", "(w * x - y) ** 2", "(w * x - y).abs()"),
)
def test_the_samples_disagree__but_not_with(snippet, old, new, fails):
    """Other numbers have other gradients."""
    fails(test_the_samples_disagree, snippet.edit(old, new))


def test_chunks_bound_the_memory(snippet, returned=None):
    run = quick(snippet, *NORMS, "norms-only")

    if returned is not None:
        chunks = vmap(grad(run.loss_of), (None, 0, 0), chunk_size=100)
        args = run.params, run.images, run.labels
        assert largest(chunks, *args) <= 100 * 2410
        return
    close(run.chunked_norms, run.norms)
    assert sum(each.numel() for each in run.gradients.values()) == 1797 * 2410
    args = run.params, run.images, run.labels
    assert largest(run.in_chunks, *args) <= 100 * 2410
    whole = vmap(run.norm_of_sample, in_dims=(None, 0, 0))
    assert largest(whole, *args) >= 1797 * 64 * 32


@pytest.mark.parametrize("size", [10, 30, 500], ids="chunk_size={}".format)
def test_chunks_bound_the_memory__also_with(snippet, size):
    run = quick(snippet, *NORMS, "norms-only")
    chunks = vmap(run.norm_of_sample, in_dims=(None, 0, 0), chunk_size=size)
    args = run.params, run.images[:510], run.labels[:510]
    close(chunks(*args), run.norms[:510])
    assert largest(chunks, *args) <= size * 2410


@edits(
    ("no chunks", ", chunk_size=100)", ")"),
    ("larger chunks", ", chunk_size=100)", ", chunk_size=200)"),
)
def test_chunks_bound_the_memory__but_not_with(snippet, old, new, fails):
    """The gradients of a whole chunk are made at once."""
    fails(test_chunks_bound_the_memory, snippet.edit(old, new))


def test_chunks_bound_the_memory__ends_with_the_gradients(snippet, fails):
    """If the function returns the gradients themselves, all are kept."""
    fails(test_chunks_bound_the_memory, snippet, "gradients")


COST = (*JACOBIAN, "multiplications", "cost")


def holds_the_cost(counts, inputs, outputs):
    """Compare counts with a pass for each output, and for each input."""
    forward, reverse_mode, forward_mode = counts
    assert forward > 0
    assert outputs * forward <= reverse_mode <= (outputs + 2) * forward
    assert inputs * forward <= forward_mode <= (inputs + 3) * forward


def rows_by_autograd(function, point):
    """Return the Jacobian of a vector by a vector, row by row."""
    point = point.detach().requires_grad_()
    outputs = function(point)
    rows = [
        torch.autograd.grad(each, point, retain_graph=True)[0]
        for each in outputs
    ]
    return torch.stack(rows)


def attention(numbers):
    """Return what four words of three features attend to, as a vector."""
    words = numbers.reshape(1, 1, 4, 3)
    return F.scaled_dot_product_attention(words, words, words).flatten()


def distances(numbers):
    """Return the distances of four points from those twice as far out."""
    points = numbers.reshape(4, 3)
    return torch.cdist(points, 2 * points).flatten()


def lstm_of(size):
    """Return an LSTM as a function from a vector to a vector."""
    lstm = nn.LSTM(size, size).requires_grad_(False)
    return lambda numbers: lstm(numbers.reshape(-1, size))[0].flatten()


WITHOUT_FORWARD_MODE = pytest.mark.parametrize(
    "function",
    [attention, lstm_of(3)],
    ids=["scaled_dot_product_attention", "an LSTM"],
)


def test_jacrev_per_output_jacfwd_per_input(snippet, function=None):
    if function is not None:
        point = torch.rand(12)
        expected = rows_by_autograd(function, point)
        close(jacrev(function)(point), expected)
        with no_error():
            found = jacfwd(function)(point)
        close(found, expected)
        return
    run = quick(snippet, *COST)

    expected = rows_by_autograd(run.scores_of, run.images[0])
    assert expected.shape == (10, 64)
    for found in (run.jacobian, run.forward, run.older):
        close(found, expected)
    for counts, sizes in (
        (run.many_inputs, (64, 10)),
        (run.many_outputs, (2, 64)),
    ):
        assert list(counts) == ["layer", "jacrev", "jacfwd"]
        assert counts["layer"] == sizes[0] * sizes[1]
        holds_the_cost(counts.values(), *sizes)
    assert run.many_inputs["jacrev"] == 640 + 10 * 640 == 7040


@pytest.mark.parametrize("seed", [1], ids="weights from seed {}".format)
def test_jacrev_per_output_jacfwd_per_input__also_agree_with(seed):
    torch.manual_seed(seed)
    for inputs, outputs in ((1, 1), (3, 7), (7, 3)):
        net = nn.Sequential(nn.Linear(inputs, 5), nn.GELU())
        net.append(nn.Linear(5, outputs)).double().requires_grad_(False)
        point = torch.randn(inputs).double()
        expected = rows_by_autograd(net, point)
        ways = jacrev, jacfwd
        for found in [way(net)(point) for way in ways]:
            close(found, expected)
        close(torch.autograd.functional.jacobian(net, point), expected)


@edits(
    (
        "another image",
        "jacfwd(scores_of)(images[0])",
        "jacfwd(scores_of)(images[1])",
    ),
    (
        "another function",
        "jacrev(scores_of)(images[0])",
        "jacrev(lambda i: scores_of(i).softmax(0))(images[0])",
    ),
    (
        "half an image",
        "jacobian(scores_of, images[0])",
        "jacobian(scores_of, images[0] / 2)",
    ),
)
def test_jacrev_per_output_jacfwd_per_input__but_not_of(
    snippet, old, new, fails
):
    """The Jacobian belongs to a function and a point."""
    fails(test_jacrev_per_output_jacfwd_per_input, snippet.edit(old, new))


@pytest.mark.parametrize(
    "sizes",
    [(8, 3), (3, 8), (5, 5)],
    ids="{0[0]} inputs, {0[1]} outputs".format,
)
def test_jacrev_per_output_jacfwd_per_input__also_with(snippet, sizes):
    run = quick(snippet, *COST)
    inputs, outputs = sizes
    one, two = torch.rand(inputs, 6), torch.rand(6, outputs)

    def net(x):
        return (x @ one).tanh() @ two

    point = torch.rand(1, inputs)
    counts = [
        run.multiplications(way, point)
        for way in (net, jacrev(net), jacfwd(net))
    ]
    holds_the_cost(counts, *sizes)


@edits(
    (
        "the ways swapped",
        '"jacrev": jacrev(layer), "jacfwd": jacfwd(layer)',
        '"jacrev": jacfwd(layer), "jacfwd": jacrev(layer)',
    ),
    ("more outputs", "costs_of(64, 10)", "costs_of(64, 20)"),
    ("no Jacobian", '"jacrev": jacrev(layer)', '"jacrev": layer'),
)
def test_jacrev_per_output_jacfwd_per_input__but_not_with(
    snippet, old, new, fails
):
    """Each way counts something else."""
    fails(test_jacrev_per_output_jacfwd_per_input, snippet.edit(old, new))


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@WITHOUT_FORWARD_MODE
def test_jacrev_per_output_jacfwd_per_input__ends_without_forward_mode(
    snippet, function, fails
):
    """`jacfwd` raises an error for attention and, on a CPU, for an LSTM;
    `jacrev` runs.
    """
    point = torch.rand(12)
    close(jacrev(function)(point), rows_by_autograd(function, point))
    fails(test_jacrev_per_output_jacfwd_per_input, snippet, function)


def test_jacrev_per_output_jacfwd_per_input__ends_at_cdist(snippet, fails):
    """`jacrev` of `torch.cdist` is wrong without an error; with
    `chunk_size=1`, it is right.
    """
    point = torch.rand(12)
    found = jacrev(distances, chunk_size=1)(point)
    close(found, rows_by_autograd(distances, point))
    fails(test_jacrev_per_output_jacfwd_per_input, snippet, distances)


def test_jacrev_per_output_jacfwd_per_input__ends_at_padding(snippet, fails):
    """For an embedding with `padding_idx`, `jacfwd` counts the row of the
    padding, and `jacrev` doesn't.
    """

    def embedded(numbers):
        weight, words = numbers.reshape(4, 3), torch.tensor([0, 2, 3])
        return F.embedding(words, weight, padding_idx=2).flatten()

    fails(test_jacrev_per_output_jacfwd_per_input, snippet, embedded)


def test_attention_needs_math(attended=attention, backend=SDPBackend.MATH):
    """No cell shows it."""
    point, vector = torch.rand(2, 12)

    def total(numbers):
        return attended(numbers).square().sum()

    ways = {
        "jacfwd": lambda: jacfwd(attended)(point),
        "jvp": lambda: jvp(attended, (point,), (vector,))[1],
        "hessian": lambda: hessian(total)(point),
    }
    for way in ways.values():
        with pytest.raises(NotImplementedError, match=r"forward AD with _sc"):
            way()
    with sdpa_kernel(backend), no_error():
        found = {name: way() for name, way in ways.items()}
        curved = torch.autograd.functional.hessian(total, point)
    matrix = rows_by_autograd(attended, point)
    close(found["jacfwd"], matrix)
    close(found["jvp"], matrix @ vector)
    close(found["hessian"], curved)


def test_attention_needs_math__but_not_flash(fails):
    """`FLASH_ATTENTION`, the choice on a CPU, raises it as well."""
    fails(test_attention_needs_math, attention, SDPBackend.FLASH_ATTENTION)


def test_attention_needs_math__ends_where_it_returns_its_weights(fails):
    """`nn.MultiheadAttention` returns its weights too, by default, and raises
    nothing then.
    """
    layer = nn.MultiheadAttention(3, 1, batch_first=True)

    def weighed(numbers):
        words = numbers.reshape(1, 4, 3)
        return layer(words, words, words)[0].flatten()

    fails(test_attention_needs_math, weighed)


def test_attention_needs_math__but_not_by_hand(fails):
    """Attention written with `@` and `softmax` raises nothing."""

    def by_hand(numbers):
        words = numbers.reshape(4, 3)
        return ((words @ words.T / 3**0.5).softmax(dim=1) @ words).flatten()

    close(by_hand(torch.arange(12.0)), attention(torch.arange(12.0)))
    fails(test_attention_needs_math, by_hand)


def has_blocks(function, batch, blocks, whole):
    """Check that outputs depend on their own sample alone."""
    size = len(batch)
    assert len(whole) == len(blocks) == size
    for i in range(size):
        for j in range(size):
            part = whole[i].movedim(-2, 0)[j]
            if i == j:
                close(part, blocks[i])
                close(part, rows_by_autograd(function, batch[i]))
                assert part.abs().max() > 0
            else:
                assert part.abs().max() == 0


def test_a_batch_jacobian_is_mostly_zeros(snippet, function=None):
    run = quick(snippet, *JACOBIAN, "batch")
    if function is not None:
        batch = run.images[:4]
        whole = jacrev(function)(batch)
        has_blocks(function, batch, vmap(jacrev(function))(batch), whole)
        return
    assert run.whole.shape == (5, 10, 5, 64)
    assert run.blocks.shape == (5, 10, 64)
    has_blocks(run.scores_of, run.images[:5], run.blocks, run.whole)
    assert (run.whole != 0).float().mean() <= 1 / 5


@pytest.mark.parametrize("count", [1, 2, 9], ids="a batch of {}".format)
def test_a_batch_jacobian_is_mostly_zeros__also_for(snippet, count):
    run = quick(snippet, *JACOBIAN)
    batch = run.images[:count]
    for way in (jacrev, jacfwd):
        function = run.scores_of
        blocks = vmap(way(function))(batch)
        has_blocks(function, batch, blocks, way(function)(batch))


@edits(
    (
        "other images",
        "vmap(jacrev(scores_of))(few)",
        "vmap(jacrev(scores_of))(few.flip(0))",
    ),
    (
        "scores of the batch's mean",
        "whole = jacrev(scores_of)(few)",
        "whole = jacrev(lambda x: scores_of(x) - scores_of(x).mean(0))(few)",
    ),
)
def test_a_batch_jacobian_is_mostly_zeros__but_not_with(
    snippet, old, new, fails
):
    """A block belongs to one image, and nothing may mix images."""
    fails(test_a_batch_jacobian_is_mostly_zeros, snippet.edit(old, new))


def test_a_batch_jacobian_is_mostly_zeros__ends_with_batch_norm(
    snippet, fails
):
    """In training mode, BatchNorm mixes the samples of a batch."""

    def normed(batch):
        if batch.dim() == 1:
            return batch
        return F.batch_norm(batch, None, None, training=True)

    fails(test_a_batch_jacobian_is_mostly_zeros, snippet, normed)


def test_products_build_no_matrix(snippet, function=None):
    if function is not None:
        point, vector = torch.rand(2, 12)
        matrix = rows_by_autograd(function, point)
        ones = torch.ones(len(matrix))
        close(vjp(function, point)[1](ones)[0], ones @ matrix)
        with no_error():
            _, change = jvp(function, (point,), (vector,))
        close(change, matrix @ vector)
        return
    run = quick(snippet, *PRODUCTS)

    assert run.curvature == (2 * 1 + 2 * 4) / 2 == 5
    weight = run.weight.clone().requires_grad_()
    gradient = torch.autograd.grad(
        run.loss_by(weight), weight, create_graph=True
    )[0]
    weighted = (gradient * run.direction).sum()
    close(run.curved, torch.autograd.grad(weighted, weight)[0])
    assert run.curved.abs().max() > 1e-3
    mean = F.cross_entropy(run.model(run.images), run.labels)
    close(run.loss_by(run.weight), mean)
    matrix = rows_by_autograd(run.scores_of, run.images[0])
    close(run.change, matrix.sum(dim=1))
    close(run.pulled, matrix.sum(dim=0))

    def waves(x):
        return x.sin() * x.sum()

    def energy(x):
        return waves(x).square().sum()

    n = 1000
    point, vector = torch.rand(2, n)
    for call in (
        lambda: jvp(waves, (point,), (vector,)),
        lambda: vjp(waves, point)[1](vector),
        lambda: jvp(grad(energy), (point,), (vector,)),
    ):
        assert largest(call) == n


@pytest.mark.parametrize("n", [1, 3, 20], ids="{} numbers".format)
def test_products_build_no_matrix__also_for(n):
    def energy(x):
        return (x.sin().sum() * x.square()).sum()

    def parts(x):
        return torch.stack([x.sin().sum(), x.prod()])

    point, vector = torch.rand(2, n, dtype=torch.float64)
    close(
        jvp(grad(energy), (point,), (vector,))[1],
        hessian(energy)(point) @ vector,
    )
    matrix = jacrev(parts)(point)
    close(jvp(parts, (point,), (vector,))[1], matrix @ vector)
    pair = torch.rand(2, dtype=torch.float64)
    close(vjp(parts, point)[1](pair)[0], pair @ matrix)


@edits(
    (
        "another direction",
        "jvp(grad(loss_by), (weight,), (direction,))",
        "jvp(grad(loss_by), (weight,), (2 * direction,))",
    ),
    (
        "another vector",
        "(images[0],), (torch.ones(64),)",
        "(images[0],), (torch.rand(64),)",
    ),
    (
        "another weighting",
        "pull_back(torch.ones(10))",
        "pull_back(torch.rand(10))",
    ),
)
def test_products_build_no_matrix__but_not_with(snippet, old, new, fails):
    """Each product belongs to its vector."""
    fails(test_products_build_no_matrix, snippet.edit(old, new))


@WITHOUT_FORWARD_MODE
def test_products_build_no_matrix__ends_without_forward_mode(
    snippet, function, fails
):
    """`jvp` and `hessian` raise an error for attention and, on a CPU, for an
    LSTM; `vjp` runs.
    """
    with pytest.raises(NotImplementedError, match="forward AD"):
        hessian(lambda numbers: function(numbers).sum())(torch.rand(12))
    fails(test_products_build_no_matrix, snippet, function)


def sgd(parameters):
    """Return SGD with momentum."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def train_both(make, optimizer_of=sgd, limit=None):
    """Train three models together, and each alone."""
    torch.manual_seed(1)
    inputs, labels = torch.randn(12, 6), torch.randint(0, 3, (12,))
    models = [make() for _ in range(3)]
    looped = copy.deepcopy(models)
    stacked, buffers = stack_module_state(models)

    def run(params, buffers):
        return functional_call(models[0], (params, buffers), (inputs,))

    optimizer = optimizer_of(stacked.values())
    for _ in range(5):
        scores = vmap(run, randomness="different")(stacked, buffers)
        optimizer.zero_grad()
        vmap(F.cross_entropy, in_dims=(0, None))(
            scores, labels
        ).sum().backward()
        if limit:
            nn.utils.clip_grad_norm_(stacked.values(), limit)
        optimizer.step()
    for i, model in enumerate(looped):
        optimizer = optimizer_of(model.parameters())
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            if limit:
                nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
        for name, p in model.named_parameters():
            close(stacked[name][i], p, atol=1e-4)
        for name, b in model.named_buffers():
            close(buffers[name][i], b, atol=1e-4)


def test_an_ensemble_learns_like_the_loop(snippet, *other):
    if other:
        train_both(*other)
        return

    run = quick(snippet, *ENSEMBLE, "looped")

    assert len(run.looped) == 5
    for i, each in enumerate(run.looped):
        for name, p in each.named_parameters():
            close(run.stacked[name][i], p, atol=1e-4)
            start = dict(run.models[i].named_parameters())[name]
            assert not torch.allclose(p, start, atol=1e-2)
    assert run.scores.shape == (5, 1797, 10)
    assert torch.equal(run.trained, run.stacked["weight"][4])


TOGETHER = {
    "tied layers": Tied,
    "a hidden layer": lambda: nn.Sequential(
        nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)
    ),
    "BatchNorm in training mode": lambda: nn.Sequential(
        nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)
    ),
}


@pytest.mark.parametrize("make", TOGETHER.values(), ids=TOGETHER)
def test_an_ensemble_learns_like_the_loop__also_with(snippet, make):
    test_an_ensemble_learns_like_the_loop(snippet, make)


def test_an_ensemble_learns_like_the_loop__also_with_adam():
    make = TOGETHER["a hidden layer"]
    train_both(make, lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-3))


def test_an_ensemble_learns_like_the_loop__but_not_with_the_mean(
    snippet, fails
):
    """With the mean of five losses, each model gets a fifth of its
    gradient.
    """
    edited = snippet.edit("losses.sum()", "losses.mean()")
    fails(test_an_ensemble_learns_like_the_loop, edited)


@edits(
    (
        "other images",
        "(stacked, buffers, images)",
        "(stacked, buffers, -images)",
    ),
    (
        "one start",
        "= stack_module_state(models)",
        "= stack_module_state(models[:1] * 5)",
    ),
)
def test_an_ensemble_learns_like_the_loop__but_not_with(
    snippet, old, new, fails
):
    """Other starts or other images end elsewhere."""
    fails(test_an_ensemble_learns_like_the_loop, snippet.edit(old, new))


def test_an_ensemble_learns_like_the_loop__ends_with_clipping(snippet, fails):
    """`clip_grad_norm_` scales all models by one norm."""
    make = TOGETHER["a hidden layer"]
    fails(test_an_ensemble_learns_like_the_loop, snippet, make, sgd, 0.1)


def test_an_ensemble_learns_like_the_loop__ends_with_adafactor(snippet, fails):
    """Adafactor scales its steps by the norm of a whole tensor, here of all
    models.
    """
    make = TOGETHER["a hidden layer"]
    optimizer = torch.optim.Adafactor
    fails(test_an_ensemble_learns_like_the_loop, snippet, make, optimizer)


def test_an_ensemble_learns_like_the_loop__ends_with_dropout(snippet, fails):
    """Dropout drops other numbers than in the loop."""

    def make():
        return nn.Sequential(nn.Linear(6, 40), nn.Dropout(), nn.Linear(40, 3))

    fails(test_an_ensemble_learns_like_the_loop, snippet, make)


def test_the_stack_is_a_copy(snippet):
    run = quick(snippet, *ENSEMBLE)
    start = after(
        untrained(snippet).edit(
            "for _ in range(10):\n    scores", "for _ in range(1):\n    scores"
        ),
        *ENSEMBLE,
    )
    for i, (model, begun) in enumerate(
        zip(run.models, start.models, strict=True)
    ):
        for name, p in model.named_parameters():
            assert torch.equal(p, dict(begun.named_parameters())[name])
            assert not torch.allclose(run.stacked[name][i], p, atol=1e-2)
    for i, model in enumerate(start.models):
        stacked, _ = stack_module_state(start.models)
        for name, p in model.named_parameters():
            assert torch.equal(stacked[name][i], p)
            assert stacked[name].is_leaf
            assert stacked[name].requires_grad


def test_the_stack_is_a_copy__also_once_it_is_taken_back(snippet):
    edited = untrained(snippet)
    run = edited.only(*ENSEMBLE, "looped", "take-back").after("take-back")
    for i, model in enumerate(run.models):
        for name, p in model.named_parameters():
            assert torch.equal(run.stacked[name][i], p)
            assert p.data_ptr() != run.stacked[name][i].data_ptr()


def test_the_stack_is_a_copy__but_not_once_it_is_loaded(snippet, fails):
    """`load_state_dict` moves the models."""
    edited = snippet.edit(
        'print("losses:", losses.detach())\n',
        "for i, each in enumerate(models):\n"
        "    each.load_state_dict({k: p[i] for k, p in stacked.items()})\n",
    )
    fails(test_the_stack_is_a_copy, edited)


# What goes wrong


def in_part(x):
    """Multiply by a number that was made under no_grad."""
    with torch.no_grad():
        factor = x * 1
    return factor * x


def test_constants_inside_grad(snippet, way=None):
    if way is not None:
        assert way(in_part)(torch.tensor(3.0)) == 3
        return

    run = quick(snippet, *NORMS, "by-hand", "no-grad", "item")

    assert run.silenced.keys() == run.around.keys() == run.params.keys()
    for name, found in run.silenced.items():
        assert found.abs().max() == 0
        close(run.around[name], run.gradients[name][0])
        assert run.around[name].abs().max() > 0
    assert run.w == 3
    assert run.half == 3
    with torch.no_grad():
        assert grad(lambda w: w * w)(run.w) == 6
    assert grad(lambda w: w * w)(run.w) == 6


@pytest.mark.parametrize(
    "context",
    [torch.no_grad, torch.inference_mode],
    ids=["no_grad", "inference_mode"],
)
def test_constants_inside_grad__also_of(context):
    def inside(x):
        with context():
            return x.square().sum()

    x = torch.rand(3)
    assert grad(inside)(x).tolist() == [0, 0, 0]
    assert vmap(grad(inside))(x[:, None]).tolist() == [[0]] * 3
    with torch.no_grad():
        close(grad(lambda x: x.square().sum())(x), 2 * x)
        close(jacrev(torch.sin)(x), x.cos().diag())
        close(hessian(lambda x: x.sin().sum())(x), -x.sin().diag())


@edits(
    (
        "enable_grad",
        "    with torch.no_grad():\n        return",
        "    with torch.enable_grad():\n        return",
    ),
    (
        "no gradient at all",
        "around = grad(loss_of)",
        "around = grad(silent_loss)",
    ),
    ("no item()", "w * w.item()", "w * w"),
)
def test_constants_inside_grad__but_not_with(snippet, old, new, fails):
    """Under `enable_grad`, and with the tensor itself, all of it counts."""
    fails(test_constants_inside_grad, snippet.edit(old, new))


PARTS = {
    "a part under no_grad": in_part,
    "detach()": lambda x: x.detach() * x,
    "detach().item()": lambda x: x.detach().item() * x,
}


@pytest.mark.parametrize("function", PARTS.values(), ids=PARTS)
def test_constants_inside_grad__also_with(function):
    assert grad(function)(torch.tensor(3.0)) == 3
    assert vjp(function, torch.tensor(3.0))[1](torch.tensor(1.0)) == (3,)


@pytest.mark.parametrize("way", [grad, jacrev], ids=["grad", "jacrev"])
def test_constants_inside_grad__also_by(snippet, way):
    test_constants_inside_grad(snippet, way)


def test_constants_inside_grad__ends_in_forward_mode(snippet, fails):
    """`jacfwd` and `jvp` differentiate what runs under `no_grad`, too."""
    _, change = jvp(in_part, (torch.tensor(3.0),), (torch.tensor(1.0),))
    assert change == 6
    fails(test_constants_inside_grad, snippet, jacfwd)


def test_unknown_names_are_ignored(snippet, prefix=""):
    run = quick(snippet, *NORMS, "error-of", "misnamed")

    renamed = {prefix + name: p for name, p in run.renamed.items()}
    assert not renamed.keys() & run.params.keys()
    with no_error():
        found = functional_call(run.model, renamed, (run.images[0],))
    close(found, run.model(run.images[0]))
    for each in run.unseen.values():
        assert each.abs().max() == 0
    assert run.strictly.startswith("Error(s) in reparametrizing")
    strict = {"strict": True}
    for names in (renamed, {"2.bias": run.params["2.bias"]}):
        with pytest.raises(RuntimeError, match=r"Error\(s\) in reparam"):
            functional_call(run.model, names, (run.images[0],), **strict)


def test_unknown_names_are_ignored__also_of_some_parameters(snippet):
    run = quick(snippet, *NORMS, "error-of", "misnamed")
    part = {"2.bias": torch.ones(10)}
    expected = run.model(run.images) - run.model[2].bias + 1
    close(functional_call(run.model, part, (run.images,)), expected)


def test_unknown_names_are_ignored__but_not_as_they_are(snippet, fails):
    """These are the names that the model knows."""
    edited = snippet.edit('replace(".", "_")', 'replace(".", ".")')
    fails(test_unknown_names_are_ignored, edited)


def test_unknown_names_are_ignored__ends_with_a_prefix(snippet, fails):
    """A name inside a layer that the model lacks, such as `module.0.weight`,
    raises an error.
    """
    fails(test_unknown_names_are_ignored, snippet, "module.")


def test_grad_sees_only_its_argument(snippet):
    run = quick(snippet, *DIGITS, "closed-over")

    images = run.images.clone().requires_grad_()
    loss = F.cross_entropy(run.model(images), run.labels, reduction="sum")
    close(run.by_image, torch.autograd.grad(loss, images)[0])
    assert [p.grad for p in run.model.parameters()] == [None] * 4


def test_grad_sees_only_its_argument__also_of_a_tensor_that_requires_grad():
    w = torch.tensor(3.0, requires_grad=True)
    x = torch.tensor(2.0, requires_grad=True)
    assert grad(lambda x: w * x)(x) == 3
    assert grad(lambda x: w * w)(x) == 0
    assert grad(lambda x, w: w * x, argnums=1)(x, w) == 2
    assert grad(lambda x, w: w * x, argnums=(0, 1))(x, w) == (3, 2)
    assert x.grad is w.grad is None


WITHIN = "    return F.cross_entropy(model(image), label)\n"


@edits(
    ("backward()", "model.zero_grad()\n", "model(images).sum().backward()\n"),
    ("a detached image", WITHIN, WITHIN.replace("image)", "image.detach())")),
)
def test_grad_sees_only_its_argument__but_not_with(snippet, old, new, fails):
    """`backward()` fills `.grad`, and another argument has another
    gradient.
    """
    fails(test_grad_sees_only_its_argument, snippet.edit(old, new))


WEIGHTS = (*NORMS, "class-weights")


def test_class_weights_cancel(snippet, count=1, smoothing=0):
    run = quick(snippet, *WEIGHTS)
    close(run.times["mean"], torch.tensor(1.0))
    close(run.times["sum"], torch.tensor(100.0))

    def of(weight):
        def loss(params):
            scores = functional_call(run.model, params, (run.images[:count],))
            options = {"weight": weight, "label_smoothing": smoothing}
            return F.cross_entropy(scores, run.labels[:count], **options)

        return grad(loss)(run.params)

    sample = run.images[0], run.labels[0]
    weighted = {
        reduction: grad(run.weighted)(run.params, *sample, reduction)
        for reduction in ("mean", "sum")
    }
    for name, plain in of_each(run.model, *[e[None] for e in sample]).items():
        close(weighted["sum"][name], 100 * plain[0], atol=1e-3)
        close(weighted["mean"][name], plain[0])
    found, expected = of(run.weights), of(None)
    for name in run.params:
        close(found[name], expected[name])


@edits(
    ("no weights", "weights[labels[0]] = 100", "weights[labels[0]] = 1"),
    (
        "the weight in front",
        "return F.cross_entropy(scores, label, weights, reduction=reduction)",
        "return weights[label] * F.cross_entropy(scores, label)",
    ),
)
def test_class_weights_cancel__but_not_with(snippet, old, new, fails):
    """A factor in front of the loss does not cancel."""
    fails(test_class_weights_cancel, snippet.edit(old, new))


def test_class_weights_cancel__ends_with_a_batch(snippet, fails):
    """If a sample has several labels, as in segmentation, a weight counts."""
    fails(test_class_weights_cancel, snippet, 2)


def test_class_weights_cancel__ends_with_label_smoothing(snippet, fails):
    """With `label_smoothing`, the weights of the other classes count, too."""
    fails(test_class_weights_cancel, snippet, 1, 0.1)


def test_batchnorm_needs_eval(snippet, model=None):
    with no_error():
        run = quick(snippet, *NET)

    if model is not None:
        each = vmap(lambda row: model(row[None]))
        assert "were not batched" in run.error_of(each, torch.rand(5, 6))
        return
    assert run.no_batch == "expected 4D input (got 3D input)"
    assert "Batch norm got a batched tensor as input" in run.loss_error
    assert "running_mean or running_var" in run.loss_error
    assert "were not batched" in run.loss_error
    assert "mutate a captured Tensor" in run.grad_error
    assert not run.net.training
    same_as_alone(
        run.net, run.net_gradients, run.pixels, run.labels[:5], range(5)
    )


def test_batchnorm_needs_eval__also_in_one_dimension():
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Unflatten(1, (2, 3)), nn.BatchNorm1d(2), nn.Flatten()
    )
    inputs, labels = torch.randn(5, 6), torch.randint(0, 3, (5,))
    with pytest.raises(RuntimeError, match="mutate a captured Tensor"):
        of_each(model, inputs, labels)
    model.eval()
    gradients = of_each(model, inputs, labels)
    same_as_alone(model, gradients, inputs, labels, range(5))


def test_batchnorm_needs_eval__ends_behind_a_linear_layer(snippet, fails):
    """Without `grad`, the error is "Expected more than 1 value per channel
    when training" instead.
    """
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
    fails(test_batchnorm_needs_eval, snippet, model)


@edits(
    ("GroupNorm", "nn.BatchNorm2d(4)", "nn.GroupNorm(2, 4)"),
    (
        "no statistics",
        "nn.BatchNorm2d(4)",
        "nn.BatchNorm2d(4, track_running_stats=False)",
    ),
    ("no eval", "net.eval()\n", "\n"),
)
def test_batchnorm_needs_eval__but_not_with(snippet, old, new, fails):
    """Without running statistics, there is nothing to write; with them, it
    has to be in evaluation mode.
    """
    fails(test_batchnorm_needs_eval, snippet.edit(old, new))


def test_replacing_changes_the_answers(snippet):
    run = quick(snippet, *NET, "replaced")

    assert not run.net.training
    assert run.net[1].running_mean is run.net[1].running_var is None
    assert (run.after - run.before).abs().max() > 0.1
    normed = run.net[0](run.pixels)
    alone = vmap(lambda image: run.net[1](image[None])[0])(normed)
    close(alone, F.group_norm(normed, 4), atol=1e-4)


def test_replacing_changes_the_answers__also_of_a_model_that_has_trained():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
    inputs = torch.randn(300, 6)
    for _ in range(100):
        model(inputs)
    few = inputs[:5]
    before = model.eval()(few)
    after_it = torch.func.replace_all_batch_norm_modules_(model)(few)
    assert (after_it - before).abs().max() > 0.1


def test_replacing_changes_the_answers__but_not_unless_called(snippet, fails):
    """Without the call, the answers stay."""
    call = "torch.func.replace_all_batch_norm_modules_(net)\n"
    fails(test_replacing_changes_the_answers, snippet.edit(call, ""))


RANDOM = (*DIGITS, "error-of", "dropout")


def test_dropout_needs_randomness(snippet):
    run = quick(snippet, *RANDOM)

    said = "called random operation while in randomness error mode"
    assert said in run.dropout_error
    assert run.same.shape == run.different.shape == (3, 6)
    assert set(run.same.flatten().tolist()) <= {0.0, 2.0}
    assert (run.same == run.same[0]).all()
    assert (run.different != run.different[0]).any()


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_dropout_needs_randomness__also_from(seed):
    torch.manual_seed(seed)
    ones = torch.ones(4, 50)
    for layer in (nn.Dropout(0.3), nn.AlphaDropout(), torch.rand_like):
        with pytest.raises(RuntimeError, match="randomness error mode"):
            vmap(layer)(ones)
        same = vmap(layer, randomness="same")(ones)
        assert (same == same[0]).all()
        different = vmap(layer, randomness="different")(ones)
        for i in range(3):
            assert not torch.equal(different[i], different[i + 1])


@edits(
    ("the two swapped", '"different")(ones)\nsame', '"same")(ones)\nsame'),
    (
        "different masks",
        'vmap(F.dropout, randomness="same")',
        'vmap(F.dropout, randomness="different")',
    ),
    (
        "training=False",
        "error_of(vmap(F.dropout), ones)",
        "error_of(vmap(lambda x: F.dropout(x, training=False)), ones)",
    ),
)
def test_dropout_needs_randomness__but_not_with(snippet, old, new, fails):
    """Each setting does its own, and in evaluation mode nothing is random."""
    fails(test_dropout_needs_randomness, snippet.edit(old, new))


FOUR = (*DIGITS, "error-of", "cannot", "can")
SAID = {
    "item": "vmap: It looks like you're calling .item() on a Tensor",
    "branch": "in some data-dependent control flow",
    "write": "vmap: inplace arithmetic(self, *extra_args) is not possible",
    "backward": "backward() called inside a functorch transform",
}


def test_four_things_vmap_cannot_do(snippet):
    with no_error():
        run = quick(snippet, *FOUR)

    rows = run.images[:4]
    for name, said in SAID.items():
        function = getattr(run, name)
        assert said in run.error_of(vmap(function), rows)
        assert run.error_of(function, rows[0]) == "no error"
    close(
        vmap(run.write_new)(rows),
        torch.stack([run.write(row) for row in rows]),
    )


def add_in_place(row):
    """Add to a tensor that all samples share."""
    result = torch.zeros(3)
    result += row
    return result


OTHERS = {
    "float()": lambda row: row * float(row.sum()),
    "a while": lambda row: row if not row.sum() else -row,
    "and": lambda row: (row.sum() > 0 and row.sum() < 1) * row,
    "copy_": lambda row: torch.zeros(3).copy_(row),
    "+=": add_in_place,
}


@pytest.mark.parametrize("function", OTHERS.values(), ids=OTHERS)
def test_four_things_vmap_cannot_do__also_with(function):
    rows = torch.rand(4, 3)
    function(rows[0])
    with pytest.raises(RuntimeError):
        vmap(function)(rows)


@edits(
    ("no item()", "row.sum().item()", "row.sum()"),
    (
        "torch.where",
        "return row if row.sum() > 0 else -row",
        "return torch.where(row.sum() > 0, row, -row)",
    ),
    (
        "zeros_like",
        "    result = torch.zeros(64)\n",
        "    result = torch.zeros_like(row)\n",
    ),
    ("no backward", "    loss.backward()\n    return loss", "    return loss"),
    ("one tensor for all", "row.new_zeros(64)", "torch.zeros(64)"),
)
def test_four_things_vmap_cannot_do__but_not_with(snippet, old, new, fails):
    """What replaces each of them runs; one tensor for all samples doesn't."""
    fails(test_four_things_vmap_cannot_do, snippet.edit(old, new))


def test_a_batch_jacobian_is_mostly_zeros__also_of_second_derivatives(
    snippet,
):
    cells = (*HAND, "hessian", "closed-over", "second-derivatives")
    run = quick(snippet, *cells)
    assert run.curvatures.shape == (3, 64, 64)
    one = hessian(run.loss_of_image)(run.images[1], run.labels[1])
    close(run.curvatures[1], one)


# What the sources say


def test_the_second_argument_is_eps(snippet):
    run = quick(snippet, *DIGITS, "as-documented")

    x = torch.randn(3, 4, 5, 5)
    assert (run.channels, run.groups) == (4, 2)
    assert type(run.documented) is nn.BatchNorm2d
    assert run.documented.eps == 2
    assert not run.documented.track_running_stats
    close(
        run.documented(x),
        F.batch_norm(x, None, None, None, None, True, 0.1, 2.0),
    )
    groups = nn.GroupNorm(run.groups, run.channels)(x)
    assert (run.documented(x) - groups).abs().max() > 0.1


def test_the_second_argument_is_eps__but_not_with_group_norm(snippet, fails):
    """This is what the page means."""
    old = "nn.BatchNorm2d(channels, groups, track_running_stats=False)"
    edited = snippet.edit(old, "nn.GroupNorm(groups, channels)")
    fails(test_the_second_argument_is_eps, edited)
