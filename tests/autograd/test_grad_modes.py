"""The claims of docs/autograd/grad_modes.md."""

import asyncio
import operator
import threading

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import error_of, raised_in

MODES = [torch.no_grad, torch.inference_mode]
modes = pytest.mark.parametrize(
    "mode", MODES, ids=["no_grad", "inference_mode"]
)
SAVED = "Inference tensors cannot be saved for backward"
WRITTEN = "Inplace update to inference tensor outside InferenceMode"
ASKED = "Setting requires_grad=True on inference tensor outside"


def numbers(values, requires_grad=True, **options):
    return torch.tensor(values, requires_grad=requires_grad, **options)


# Do this


def decorated(mode, function):
    return mode(function)


def undecorated(mode, function):
    return function


def switched(mode, function):
    """Put a function that switches the mode on, and not off, in its place."""

    def switching(*inputs):
        torch.set_grad_enabled(type(mode) is torch.enable_grad)
        return function(*inputs)

    return switching


def test_a_mode_stands_above_a_function(snippet, put=decorated):
    run = snippet.after("do-this")
    assert not run.predict(run.apartments).requires_grad
    assert not run.prices.requires_grad
    assert torch.equal(run.predict(run.apartments), run.prices)

    modes = {each(): False for each in MODES}
    modes |= {torch.set_grad_enabled(False): False, torch.enable_grad(): True}
    torch.set_grad_enabled(True)
    for mode, records in modes.items():
        function = put(mode, run.model)
        for outside in (torch.enable_grad, torch.no_grad):
            with outside():
                before = torch.is_grad_enabled()
                for _ in range(2):
                    assert function(run.apartments).requires_grad == records
                    assert torch.is_grad_enabled() == before
                    assert not torch.is_inference_mode_enabled()


def test_a_mode_stands_above_a_function__but_not_without_it(snippet, fails):
    """A function without a mode above it records as usual."""
    edited = snippet.edit("@torch.no_grad()  # or above a function\n", "")
    fails(test_a_mode_stands_above_a_function, edited)


@pytest.mark.parametrize(
    "put", [undecorated, switched], ids=["undecorated", "switched inside"]
)
def test_a_mode_stands_above_a_function__ends_if(snippet, fails, put):
    """If a function switches recording off inside, without a mode above it:
    recording stays off after the call.
    """
    with torch.enable_grad():
        fails(test_a_mode_stands_above_a_function, snippet, put)


# How it works


def a_number(value):
    return value


def test_results_require_no_gradients(snippet, change=torch.square):
    run = snippet.after("by-hand")
    assert run.recorded.grad_fn is not None
    for each in (run.unrecorded, run.inferred):
        assert each == 6
        assert each.grad_fn is None
        assert not each.requires_grad

    for mode in MODES:
        x = numbers([[1.0, 2.0]])
        with mode():
            result = change(x)
        assert result.grad_fn is None
        assert not result.requires_grad


LAYERS = {
    "a matrix product": lambda x: x @ x.T,
    "a linear layer": lambda x: nn.Linear(2, 3)(x),
    "a GRU": lambda x: nn.GRU(2, 3)(x)[0],
    "indexing with a list": lambda x: x[:, [0, 1]],
    "a copy": torch.clone,
    "a mean": torch.mean,
}


@pytest.mark.parametrize("change", LAYERS.values(), ids=LAYERS)
def test_results_require_no_gradients__also_of(snippet, change):
    test_results_require_no_gradients(snippet, change)


def test_results_require_no_gradients__also_as_a_factor(snippet):
    run = snippet.after("half-recorded")

    assert not run.hidden.requires_grad
    assert run.weight.grad == run.hidden == 6


@edits(
    (
        "with recording on",
        "torch.no_grad():\n    unrecorded",
        "torch.enable_grad():\n    unrecorded",
    ),
    (
        "with recording on twice",
        "torch.inference_mode():\n    inferred",
        "torch.enable_grad():\n    inferred",
    ),
    (
        "under no mode at all",
        "recorded = weight * 3",
        "recorded = weight.detach() * 3",
    ),
)
def test_results_require_no_gradients__but_not(snippet, old, new, fails):
    """Under `enable_grad()`, the result has a `grad_fn`."""
    old = f"\n{old}" if old.startswith("recorded") else old
    new = f"\n{new}" if new.startswith("recorded") else new
    fails(test_results_require_no_gradients, snippet.edit(old, new))


def test_results_require_no_gradients__ends_for_a_view(snippet, fails):
    """A view taken under a mode still says `requires_grad=True`."""
    fails(test_results_require_no_gradients, snippet, lambda x: x[0])


def test_results_require_no_gradients__ends_for_a_change_in_place(
    snippet, fails
):
    """Changed in place, a tensor that requires gradients still does."""
    fails(test_results_require_no_gradients, snippet, torch.Tensor.zero_)


def test_results_require_no_gradients__ends_for_an_input_handed_through(
    snippet, fails
):
    """In evaluation mode, dropout returns its input with its graph."""
    fails(test_results_require_no_gradients, snippet, nn.Dropout().eval())


def test_only_inference_mode_marks_its_results(snippet, change=torch.square):
    run = snippet.after("by-hand")
    marks = [
        each.is_inference()
        for each in (run.recorded, run.unrecorded, run.inferred)
    ]
    assert marks == [False, False, True]

    normal = torch.ones(2)
    for make in (
        lambda: torch.ones(2),
        lambda: numbers([1, 2], False),
        lambda: nn.Linear(2, 1).weight,
    ):
        with torch.no_grad():
            assert not make().is_inference()
        with torch.inference_mode():
            assert make().is_inference()
            assert change(normal).is_inference()


def test_only_inference_mode_marks_its_results__ends_for_a_view(
    snippet, fails
):
    """A view of an ordinary tensor is an ordinary tensor, too."""
    first = operator.itemgetter(0)
    fails(test_only_inference_mode_marks_its_results, snippet, first)


@edits(
    (
        "under no_grad",
        "torch.inference_mode():\n    inferred",
        "torch.no_grad():\n    inferred",
    ),
    (
        "under inference_mode",
        "torch.no_grad():\n    unrecorded",
        "torch.inference_mode():\n    unrecorded",
    ),
)
def test_only_inference_mode_marks_its_results__but_not(
    snippet, old, new, fails
):
    """Under `no_grad()`, the result carries no mark."""
    fails(test_only_inference_mode_marks_its_results, snippet.edit(old, new))


def models():
    """Yield models and their inputs."""
    torch.manual_seed(1)
    yield (
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)),
        torch.randn(5, 3),
    )
    yield (
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.BatchNorm2d(2)),
        torch.randn(2, 1, 5, 5),
    )
    yield nn.TransformerEncoderLayer(4, 2, 8, dropout=0), torch.randn(2, 5, 4)
    yield nn.Linear(3, 2).double(), torch.randn(5, 3).double()


def test_backward_runs_under_no_grad(snippet):
    with no_error():
        run = snippet.after("backward")
    assert run.weight.grad == 3

    for model, inputs in models():
        parameters = [*model.parameters()]
        loss = model(inputs).square().mean()
        usual = torch.autograd.grad(loss, parameters, retain_graph=True)
        with torch.no_grad():
            loss.backward()
        assert all(
            torch.equal(p.grad, g)
            for p, g in zip(parameters, usual, strict=True)
        )


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_backward_runs_under_no_grad__but_not_after_an_unrecorded_pass(
    snippet, mode, fails
):
    """A result computed under a mode has no graph to go through."""
    edited = snippet.edit(
        "\nrecorded = weight * 3",
        f"\nwith torch.{mode}():\n    recorded = weight * 3",
    )
    fails(test_backward_runs_under_no_grad, edited)


def test_new_leaves_still_ask(snippet):
    run = snippet.after("leaves")
    assert run.total.grad_fn is None
    assert run.offset.requires_grad
    assert run.factor.requires_grad

    with torch.no_grad():
        layer = nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2))
        made = [
            torch.zeros(2, requires_grad=True),
            torch.randn(2, requires_grad=True),
            torch.tensor([1.0], requires_grad=True),
            torch.full((2,), 1.0, requires_grad=True),
            torch.arange(3.0, requires_grad=True),
            torch.zeros_like(run.apartments, requires_grad=True),
            run.apartments.new_ones(2, requires_grad=True),
            nn.Parameter(run.apartments),
            nn.Parameter(run.apartments * run.factor),
        ]
    for each in [*layer.parameters(), *made]:
        assert each.requires_grad
        each.sum().backward()


@edits(
    (
        "a result",
        "nn.Parameter(torch.zeros(1))",
        "nn.Parameter(torch.zeros(1)) * 1",
    ),
    (
        "if told otherwise",
        "nn.Parameter(torch.zeros(1))",
        "nn.Parameter(torch.zeros(1), requires_grad=False)",
    ),
    ("if nobody asks", "torch.ones(1, requires_grad=True)", "torch.ones(1)"),
)
def test_new_leaves_still_ask__but_not(snippet, old, new, fails):
    """A result computed from the parameter requires no gradients."""
    fails(test_new_leaves_still_ask, snippet.edit(old, new))


def test_enable_grad_records_again(snippet):
    run = snippet.after("nested")
    run.weight.grad = None

    assert run.paused.grad_fn is None
    assert run.again.grad_fn is not None
    run.again.backward()
    assert run.weight.grad == 3


@pytest.mark.parametrize("mode", ["no_grad()", "set_grad_enabled(False)"])
def test_enable_grad_records_again__but_not_another_mode(snippet, mode, fails):
    """A second `no_grad()` switches nothing on."""
    old = "with torch.enable_grad():\n        again"
    edited = snippet.edit(old, f"with torch.{mode}:\n        again")
    fails(test_enable_grad_records_again, edited)


class Square(torch.autograd.Function):
    """An operation with a gradient of its own."""

    @staticmethod
    def forward(ctx, x):
        """Return the square."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        """Return the gradient."""
        [x] = ctx.saved_tensors
        return 2 * x * grad


def test_inference_mode_is_stronger(snippet, compute=torch.square):
    run = snippet.after("nested")
    assert run.enabled is True
    assert run.forgotten == 6
    assert run.forgotten.is_inference()
    assert run.forgotten.grad_fn is None
    assert not run.forgotten.requires_grad

    for again in (torch.enable_grad, lambda: torch.set_grad_enabled(True)):
        with torch.inference_mode(), again():
            made = [run.model(run.apartments), compute(run.weight)]
        assert [each.grad_fn for each in made] == [None, None]


COMPUTE = {
    "a product": lambda x: x * x,
    "a view": lambda x: x.unsqueeze(0),
    "an LSTM": lambda x: nn.LSTM(1, 2)(x.view(1, 1, 1))[0],
}


@pytest.mark.parametrize("compute", COMPUTE.values(), ids=COMPUTE)
def test_inference_mode_is_stronger__also_for(snippet, compute):
    test_inference_mode_is_stronger(snippet, compute)


def test_inference_mode_is_stronger__ends_for_a_custom_function(
    snippet, fails
):
    """An `autograd.Function` of your own is recorded under `enable_grad()`."""
    fails(test_inference_mode_is_stronger, snippet, Square.apply)


@edits(
    (
        "under no_grad",
        "with torch.inference_mode():\n    with torch.enable",
        "with torch.no_grad():\n    with torch.enable",
    ),
    (
        "with no_grad inside",
        "    with torch.enable_grad():\n        forgotten",
        "    with torch.no_grad():\n        forgotten",
    ),
    (
        "for a copy made outside",
        '\nprint("no_grad:"',
        '\nforgotten = forgotten.clone()\nprint("no_grad:"',
    ),
)
def test_inference_mode_is_stronger__but_not(snippet, old, new, fails):
    """Inside `no_grad()`, `enable_grad()` records."""
    fails(test_inference_mode_is_stronger, snippet.edit(old, new))


def test_inference_mode_can_be_left(snippet):
    run = snippet.after("nested")
    run.weight.grad = None

    assert run.forgotten.is_inference()
    assert not run.normal.is_inference()
    run.normal.backward()
    assert run.weight.grad == 3


@pytest.mark.parametrize("mode", ["inference_mode(True)", "enable_grad()"])
def test_inference_mode_can_be_left__but_not_by_another_mode(
    snippet, mode, fails
):
    """`inference_mode(True)` leaves the mode on."""
    edited = snippet.edit("torch.inference_mode(False)", f"torch.{mode}")
    fails(test_inference_mode_can_be_left, edited)


# What goes wrong


def test_inference_tensors_stay_out(snippet, combine=torch.mul):
    assert SAVED in str(snippet.after("train-on-it").training_error)

    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for shape in ((), (0,), (2, 3)):
            weight = torch.ones(shape, dtype=dtype, requires_grad=True)
            with torch.inference_mode():
                made = torch.ones(shape, dtype=dtype)
            assert SAVED in error_of(lambda: combine(made, weight))  # noqa: B023
            with torch.no_grad():
                assert torch.equal(weight * made, made)


@edits(
    (
        "of a tensor made under no_grad",
        "torch.inference_mode():\n    inferred",
        "torch.no_grad():\n    inferred",
    ),
    (
        "under no_grad",
        "lambda: weight * inferred",
        "torch.no_grad()(lambda: weight * inferred)",
    ),
    (
        "of a clone",
        "lambda: weight * inferred",
        "lambda: weight * inferred.clone()",
    ),
    (
        "if nothing requires gradients",
        "lambda: weight * inferred",
        "lambda: weight.detach() * inferred",
    ),
)
def test_inference_tensors_stay_out__but_not(snippet, old, new, fails):
    """A tensor computed under `no_grad()` can be multiplied by a weight."""
    fails(test_inference_tensors_stay_out, snippet.edit(old, new))


def test_inference_tensors_stay_out__ends_for_a_sum(snippet, fails):
    """A sum saves no tensor, so it can be computed and trained with."""
    fails(test_inference_tensors_stay_out, snippet, torch.add)


def test_a_clone_may_return(snippet, dtype=torch.float32):
    with no_error():
        run = snippet.after("clone")
    assert run.weight.grad == run.inferred == 6

    with torch.inference_mode():
        made = torch.ones(2, 3, dtype=dtype)
    for copy in (run.copy, made.clone()):
        assert not copy.is_inference()
        with no_error():
            (run.weight * copy).sum().backward()
            doubled = 2 * copy
            assert torch.equal(copy.mul_(2), doubled)
            assert copy.requires_grad_().requires_grad


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16], ids=["float64", "bfloat16"]
)
def test_a_clone_may_return__also_of(snippet, dtype):
    test_a_clone_may_return(snippet, dtype)


def test_a_clone_may_return__ends_for_integers(snippet, fails):
    """Integers require no gradients, cloned or not."""
    fails(test_a_clone_may_return, snippet, torch.int64)


CLONE = "copy = inferred.clone()"


@edits(
    ("the tensor itself", CLONE, "copy = inferred"),
    ("a view", CLONE, "copy = inferred.view(1)"),
    ("a detached tensor", CLONE, "copy = inferred.detach()"),
    (
        "a clone made inside",
        CLONE,
        "with torch.inference_mode():\n    copy = inferred.clone()",
    ),
)
def test_a_clone_may_return__but_not(snippet, old, new, fails):
    """Without the clone, the product raises the error."""
    fails(test_a_clone_may_return, snippet.edit(old, new))


def test_build_models_outside(snippet, layers=None):
    run = snippet.after("built-inside")
    assert SAVED in str(run.building_error)

    for dtype in (torch.float32, torch.float64):
        with torch.inference_mode():
            model = nn.Sequential(*(layers or make_layers)()).to(dtype)
        inputs = torch.ones(1, 2, dtype=dtype)
        assert SAVED in error_of(lambda: model(inputs))  # noqa: B023


def make_layers():
    return [nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1)]


def test_build_models_outside__ends_with_one_linear_layer(snippet, fails):
    """A single linear layer saves its input, an ordinary tensor, alone."""
    fails(test_build_models_outside, snippet, lambda: [nn.Linear(2, 1)])


@edits(
    (
        "outside the block",
        "with torch.inference_mode():\n    built",
        "if True:\n    built",
    ),
    (
        "under no_grad",
        "torch.inference_mode():\n    built",
        "torch.no_grad():\n    built",
    ),
    (
        "if it is frozen",
        "built_inside = build()",
        "built_inside = build().requires_grad_(False)",
    ),
    (
        "if nothing is recorded",
        "lambda: built_inside(apartments)",
        "torch.no_grad()(lambda: built_inside(apartments))",
    ),
    (
        "in inference_mode(False)",
        "def build",
        "@torch.inference_mode(False)\ndef build",
    ),
)
def test_build_models_outside__but_not(snippet, old, new, fails):
    """A model that was built outside runs."""
    fails(test_build_models_outside, snippet.edit(old, new))


def test_a_cache_is_an_inference_tensor(snippet):
    run = snippet.after("validated-first")

    assert SAVED in str(run.cached_error)
    assert run.scaled.scale.is_inference()
    fresh = run.Scaled()
    with no_error():
        fresh(run.apartments).sum().backward()
    assert fresh.weights.grad is not None


def test_a_cache_is_an_inference_tensor__but_not_under_no_grad(snippet, fails):
    """After validating under `no_grad()`, the scale is an ordinary tensor."""
    edited = snippet.edit(
        "torch.inference_mode():\n    scaled", "torch.no_grad():\n    scaled"
    )
    fails(test_a_cache_is_an_inference_tensor, edited)


@edits(
    (
        "after a training pass",
        "scaled = Scaled()",
        "scaled = Scaled()\nscaled(apartments)",
    ),
    (
        "if the scale is added",
        "self.weights * self.scale",
        "self.weights + self.scale",
    ),
    (
        "if it keeps a number",
        "1 / apartments.std(0)  # kept for later passes",
        "(1 / apartments.std()).item()",
    ),
    (
        "if each pass computes the scale",
        "if self.scale is None:",
        "if True:",
    ),
)
def test_a_cache_is_an_inference_tensor__but_not(snippet, old, new, fails):
    """After a first pass in training, the scale is an ordinary tensor."""
    fails(test_a_cache_is_an_inference_tensor, snippet.edit(old, new))


def test_a_cache_is_an_inference_tensor__ends_if_filled_in_place(
    snippet, fails
):
    """A tensor made outside and filled in place, as the statistics of
    BatchNorm are, is an ordinary one.
    """
    edited = snippet.edit(
        "self.scale, self.weights = None,",
        "self.scale, self.weights = torch.ones(2),",
    ).edit(
        "is None:\n            self.scale = 1 / apartments.std(0)",
        "is not None:\n            self.scale.copy_(1 / apartments.std(0))",
    )
    fails(test_a_cache_is_an_inference_tensor, edited)


def test_no_writing_outside(snippet, write=torch.Tensor.add_):
    assert WRITTEN in str(raised_in(snippet, "in-place"))
    divided = snippet.after("divided").total_loss
    assert divided.is_inference()
    assert divided / 2 == 6 / 2

    for mode in (torch.enable_grad, torch.no_grad):
        for dtype in (torch.float32, torch.float64, torch.int64):
            with torch.inference_mode():
                made = torch.ones(2, 3, dtype=dtype)
            with mode():
                assert WRITTEN in error_of(lambda: write(made, 1))  # noqa: B023


WRITES = {
    "mul_": torch.Tensor.mul_,
    "fill_": torch.Tensor.fill_,
    "assignment": lambda x, value: x.__setitem__(0, value),
    "copy_": lambda x, value: x.copy_(torch.full_like(x, value)),
    "zero_": lambda x, value: x.zero_(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_no_writing_outside__also_with(snippet, write):
    test_no_writing_outside(snippet, write)


def test_no_writing_outside__ends_through_data(snippet, fails):
    """Through `.data`, a write raises nothing."""
    fails(
        test_no_writing_outside, snippet, lambda x, value: x.data.add_(value)
    )


@edits(
    (
        "if it was made under no_grad",
        "torch.inference_mode():\n    total_loss = weight * 3\n\ntry",
        "torch.no_grad():\n    total_loss = weight * 3\n\ntry",
    ),
    ("with a new tensor", "total_loss /= 2", "total_loss = total_loss / 2"),
    (
        "of a clone",
        "    total_loss /= 2",
        "    total_loss = total_loss.clone()\n    total_loss /= 2",
    ),
)
def test_no_writing_outside__but_not(snippet, old, new, fails):
    """A result of `no_grad()` can be changed in place."""
    fails(test_no_writing_outside, snippet.edit(old, new))


def test_the_error_comes_too_late(snippet, write=torch.Tensor.add_):
    run = snippet.after("in-place")
    assert run.total_loss == 6 / 2
    assert WRITTEN in error_of(lambda: run.total_loss.div_(2))
    assert run.total_loss == 6 / 2 / 2

    with torch.inference_mode():
        made, expected = torch.ones(2), write(torch.ones(2), 5)
    assert WRITTEN in error_of(lambda: write(made, 5))
    assert torch.equal(made, expected)
    assert not torch.equal(made, torch.ones(2))


def fill(x, value):
    return x.fill_(value)


@pytest.mark.parametrize(
    "write",
    [torch.Tensor.mul_, torch.Tensor.div_, fill],
    ids=["mul_", "div_", "fill_"],
)
def test_the_error_comes_too_late__also_with(snippet, write):
    test_the_error_comes_too_late(snippet, write)


@edits(
    (
        "if the division makes a new tensor",
        "    total_loss /= 2",
        "    total_loss / 2",
    ),
    (
        "if the error comes first",
        "    total_loss /= 2",
        "    total_loss.requires_grad_()",
    ),
)
def test_the_error_comes_too_late__but_not(snippet, old, new, fails):
    """A division that makes a new tensor leaves the old one alone."""
    fails(test_the_error_comes_too_late, snippet.edit(old, new))


def test_no_asking_outside(snippet):
    assert ASKED in str(snippet.after("ask").asking_error)

    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for shape in ((), (0,), (2, 3)):
            with torch.inference_mode():
                made = torch.ones(shape, dtype=dtype)
            assert ASKED in error_of(made.requires_grad_)
            assert not made.requires_grad


@edits(
    (
        "if it was made under no_grad",
        "torch.inference_mode():\n    inferred",
        "torch.no_grad():\n    inferred",
    ),
    (
        "of a clone",
        "inferred.requires_grad_()",
        "inferred.clone().requires_grad_()",
    ),
    (
        "inside the mode",
        "lambda: inferred.requires_grad_()",
        "torch.inference_mode()(lambda: inferred.requires_grad_())",
    ),
)
def test_no_asking_outside__but_not(snippet, old, new, fails):
    """A result of `no_grad()` can be made to require gradients."""
    fails(test_no_asking_outside, snippet.edit(old, new))


def test_a_block_leaks_through_yield(snippet):
    run = snippet.after("leaking")

    assert run.loss == (3 * 4 - 10) ** 2
    assert run.loss.grad_fn is None
    assert torch.is_grad_enabled()


@edits(
    (
        "if it yields behind the block",
        "            yield weight * size\n\n\nfor feature in f",
        "            x = weight * size\n    yield x\n\n\nfor feature in f",
    ),
    (
        "if the loop switches recording on",
        "for feature in features():\n",
        "for feature in features():\n    torch.set_grad_enabled(True)\n",
    ),
    (
        "over a list",
        "for feature in features():",
        "for feature in list(features()):",
    ),
)
def test_a_block_leaks_through_yield__but_not(snippet, old, new, fails):
    """A generator that yields behind its block lets the loop record."""
    fails(test_a_block_leaks_through_yield, snippet.edit(old, new))


def test_a_block_leaks_through_yield__also_through_await():
    weight = numbers([2.0])

    async def wait(mode):
        with mode():
            await asyncio.sleep(0)

    async def records_beside(mode):
        waiting = asyncio.create_task(wait(mode))
        await asyncio.sleep(0)  # until the other task waits
        recorded = (weight * 3).requires_grad
        await waiting
        return recorded

    assert asyncio.run(records_beside(torch.enable_grad))
    for mode in MODES:
        assert not asyncio.run(records_beside(mode))


def test_a_decorated_generator_is_tight(snippet):
    run = snippet.after("tight")

    assert run.feature == 2 * 2
    assert run.feature.grad_fn is None
    assert run.loss.grad_fn is not None
    run.loss.backward()
    assert run.head.grad == 2 * (3 * 4 - 10) * 4
    for each in run.tight_features():
        assert each.grad_fn is None
        assert torch.is_grad_enabled()


DECORATED = "@torch.no_grad()\ndef tight_features():\n"


@edits(
    ("without the mode", DECORATED, "def tight_features():\n"),
    (
        "under enable_grad",
        DECORATED,
        "@torch.enable_grad()\ndef tight_features():\n",
    ),
    (
        "with the mode switched inside",
        DECORATED,
        "def tight_features():\n    torch.set_grad_enabled(False)\n",
    ),
)
def test_a_decorated_generator_is_tight__but_not(snippet, old, new, fails):
    """Without the mode, what the generator yields has a graph."""
    with torch.enable_grad():
        fails(test_a_decorated_generator_is_tight, snippet.edit(old, new))


def test_an_async_function_records(snippet):
    run = snippet.after("async-def")
    assert run.tripled == 2 * 3
    assert run.tripled.grad_fn is not None


@modes
def test_an_async_function_records__also_in_an_event_loop_under(mode):
    @mode()
    async def squared(x):
        await asyncio.sleep(0)
        return x.square()

    result = asyncio.run(squared(numbers([3.0])))
    assert result.requires_grad
    assert not result.is_inference()


@edits(
    (
        "with a block inside",
        "    return weight * 3\n\n\ncoroutine",
        "    with torch.no_grad():\n        return weight * 3\n\n\ncoroutine",
    ),
    (
        "run in a block",
        "    coroutine.send(None)",
        "    torch.no_grad()(coroutine.send)(None)",
    ),
)
def test_an_async_function_records__but_not(snippet, old, new, fails):
    """A block inside the function covers what runs in it."""
    fails(test_an_async_function_records, snippet.edit(old, new))


def test_a_new_thread_records(snippet):
    run = snippet.after("threads")
    assert run.here.grad_fn is None
    assert run.there.grad_fn is not None
    assert run.here == run.there == 6

    for mode in MODES:
        made = []
        with mode():
            thread = threading.Thread(
                target=lambda: made.append(run.weight * 2)  # noqa: B023
            )
            thread.start()
            thread.join()
        assert made[0].grad_fn is not None
        assert not made[0].is_inference()


def test_a_new_thread_records__also_if_another_thread_does_not(snippet):
    run = snippet.after("threads")
    thread = threading.Thread(target=lambda: torch.set_grad_enabled(False))
    thread.start()
    thread.join()

    assert (run.weight * 2).grad_fn is not None


SUBMIT = "pool.submit(lambda: weight * 3).result()"


@edits(
    ("without a thread", SUBMIT, "weight * 3"),
    (
        "with the mode in the thread",
        SUBMIT,
        "pool.submit(torch.no_grad()(lambda: weight * 3)).result()",
    ),
    ("without a mode outside", "with torch.no_grad(), Thread", "with Thread"),
)
def test_a_new_thread_records__but_not(snippet, old, new, fails):
    """Without a thread of its own, the product is not recorded."""
    fails(test_a_new_thread_records, snippet.edit(old, new))


# Where it ends


def test_a_view_still_says_true(snippet, take=lambda x: x[0], make=numbers):
    run = snippet.after("view")
    assert run.view.requires_grad
    assert run.view == 2
    assert run.weights.grad is None

    for mode in MODES:
        leaf = make([[1.0, 2.0], [3.0, 4.0]])
        with mode():
            view = take(leaf)
        assert view.requires_grad
        with no_error():
            (view * 5).sum().backward()
        assert leaf.grad is None


VIEWS = {
    "a column": lambda x: x[:, 0],
    "view": lambda x: x.view(-1),
    "transposed": lambda x: x.T,
    "flatten": lambda x: x.flatten(),
    "unsqueeze": lambda x: x.unsqueeze(0),
}


@pytest.mark.parametrize("take", VIEWS.values(), ids=VIEWS)
def test_a_view_still_says_true__also_of(snippet, take):
    test_a_view_still_says_true(snippet, take)


@edits(
    (
        "with recording on",
        "torch.no_grad():\n    view",
        "torch.enable_grad():\n    view",
    ),
    (
        "if it is detached",
        "view = weights[0]\n\n(view * 5).backward()",
        "view = weights.detach()[0]\n",
    ),
    (
        "for a copy",
        "    view = weights[0]\n\n(view * 5).backward()",
        "    view = weights[[0]]\n\n",
    ),
)
def test_a_view_still_says_true__but_not(snippet, old, new, fails):
    """While recording is on, a gradient flows back through the view."""
    fails(test_a_view_still_says_true, snippet.edit(old, new))


PADDED = {
    "modes": MODES,
    "options": {},
    "batch_first": True,
    "layer": {"nhead": 2},
    "training": False,
    "given": True,
    "padding": [[False, False, True], [False, True, True]],
}


@pytest.mark.filterwarnings("ignore:.*nested.tensor:UserWarning")
def test_a_mode_zeroes_padding(other=()):
    """No cell shows it."""
    world = PADDED | dict(other)
    first = world["batch_first"]
    layer = nn.TransformerEncoderLayer(
        4,
        dim_feedforward=8,
        dropout=0.0,
        batch_first=first,
        **world["layer"],
    )
    encoder = nn.TransformerEncoder(layer, 2, **world["options"])
    encoder.train(world["training"])
    words = torch.randn(2, 3, 4)
    padding = torch.tensor(world["padding"])
    mask = padding if world["given"] else None

    def encoded():
        x = words if first else words.transpose(0, 1)
        y = encoder(x, src_key_padding_mask=mask).detach()
        return y if first else y.transpose(0, 1)

    recorded = encoded()
    assert recorded[padding].abs().amax(dim=-1).min() > 0
    for mode in world["modes"]:
        with mode():
            found = encoded()
        assert found[padding].tolist() == 3 * [4 * [0.0]]
        torch.testing.assert_close(found[~padding], recorded[~padding])


@pytest.mark.filterwarnings("ignore:.*nested.tensor:UserWarning")
@pytest.mark.parametrize(
    "other",
    [
        {"modes": [torch.enable_grad]},
        {"options": {"enable_nested_tensor": False}},
        {"batch_first": False},
        {"training": True},
        {"given": False},
    ],
    ids=[
        "with recording on",
        "with enable_nested_tensor=False",
        "with batch_first=False",
        "in training mode",
        "without a mask",
    ],
)
def test_a_mode_zeroes_padding__but_not(other, fails):
    """If one of the conditions is missing, padding keeps its numbers."""
    fails(test_a_mode_zeroes_padding, other)


@pytest.mark.filterwarnings("ignore:.*nested.tensor:UserWarning")
@pytest.mark.parametrize(
    "other",
    [
        {"layer": {"nhead": 1}},
        {"layer": {"nhead": 2, "norm_first": True}},
        {"padding": [[True, False, False], [True, True, False]]},
    ],
    ids=["one head", "norm_first=True", "padding on the left"],
)
def test_a_mode_zeroes_padding__ends_with(other, fails):
    """With an odd number of heads, with `norm_first=True`, or with padding on
    the left, padding keeps its numbers.
    """
    fails(test_a_mode_zeroes_padding, other)
