"""The claims of docs/speed/compile.md."""

import contextlib
import copy
import itertools
import multiprocessing
import os
import random
import re
import sys
import tempfile
from functools import cache
from unittest.mock import patch

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older
from extensions.programs.snippet import after
from tests.helpers.compiled import Normed, logged, unobserved
from tests.helpers.forks import (
    THREADS_MAY_BE_LEFT,
    skip_if_forks_cannot_train,
)
from tests.helpers.worlds import MODELS, each

# What the tracer loads when it is first asked uses torch.jit, and torch 2.6
# warns of its own settings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Skipping serialization of"),
]


@pytest.fixture(autouse=True, scope="module")
def compile_once():
    """Let Inductor try the compiler where what it finds out stays.

    The first compilation of a process finds out which vectors the CPU has,
    which takes 15 s in an empty folder, such as one that a test removes.
    Torch 2.6 writes a header there as well, which all later ones use, unless
    it finds this kernel in a cache.
    """
    with unobserved():
        torch.compile(torch.sin)(torch.ones(2))
        if older(torch.__version__, "2.7"):
            torch._inductor.codecache.cpp_prefix_path()
        yield


COUNTED = ("imports", "keep-graph", "counted")
MODEL = ("imports", "do-this", "keep-graph", "counted")


# Do this


def test_a_compiled_model_stays_itself(
    snippet, make=None, early=True, features=4
):
    run = snippet.only(*MODEL).after("counted")
    assert run.model._compiled_call_impl is not None
    torch.compiler.reset()
    model = make() if make else run.model
    plain = make() if make else run.Forecast()
    names, kind = list(plain.state_dict()), type(plain)
    assert list(model.state_dict()) == names
    plain.load_state_dict(model.state_dict())
    before = [*model.parameters(), *model.buffers()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.compile(backend=run.keep_graph)
    if not early:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    assert type(model) is kind
    assert list(model.state_dict()) == names
    after = [*model.parameters(), *model.buffers()]
    assert all(a is b for a, b in zip(before, after, strict=True))
    model.eval(), plain.eval()  # dropout would draw
    other = torch.optim.SGD(plain.parameters(), lr=0.1)
    run.graphs.clear()
    for _ in range(2):
        x = torch.rand(8, features)
        for trained, steps in ((model, optimizer), (plain, other)):
            steps.zero_grad()
            trained(x).square().mean().backward()
            steps.step()
    assert len(run.graphs) == 1
    for mine, its in zip(
        model.state_dict().values(), plain.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, its)


def test_a_compiled_model_stays_itself__also_with_a_later_optimizer(
    snippet,
):
    test_a_compiled_model_stays_itself(snippet, Normed)
    test_a_compiled_model_stays_itself(snippet, Normed, early=False)
    test_a_compiled_model_stays_itself(snippet, early=False)


class Whole(nn.Module):
    """A model of one's own around another."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        """Return the outputs of the model."""
        return self.model(x)


@each("model", MODELS, "with BatchNorm", "tied", "frozen in part")
def test_a_compiled_model_stays_itself__also_of_a_model(snippet, model):
    def make():
        torch.manual_seed(0)
        return Whole(model())

    test_a_compiled_model_stays_itself(snippet, make, features=3)


def test_a_compiled_model_stays_itself__but_not_by_the_function(
    snippet, fails
):
    """`torch.compile(model)` returns a module of another class, with the model
    inside.
    """
    other = snippet.edit("model.compile()", "model = torch.compile(model)")

    fails(test_a_compiled_model_stays_itself, other)


# How it works


def test_the_first_call_compiles(
    snippet, function=None, make=torch.rand, between=contextlib.nullcontext
):
    cells = MODEL if function else (*MODEL, "first-call")
    run = snippet.only(*cells).after(cells[-1])
    if function is None:
        assert len(run.graphs) == 1  # of three calls of a model

    called = run.counted(function or run.Forecast())
    assert run.graphs == []
    with no_error():
        for _ in range(3):
            called(make(32, 4))
            assert len(run.graphs) == 1
            between()
    if function:
        return

    torch.compiler.reset()
    run.graphs.clear()
    model = run.Forecast()
    model.compile(backend=run.keep_graph)
    assert run.graphs == []
    for _ in range(3):
        model(torch.rand(32, 4))
        assert len(run.graphs) == 1


@pytest.mark.parametrize(
    ("function", "make"),
    [
        pytest.param(torch.sin, torch.rand, id="a function"),
        pytest.param(
            lambda x: x * 2 + 1,
            lambda *s: torch.ones(s).double(),
            id="float64 tensors",
        ),
        pytest.param(
            lambda x: x.sum(),
            lambda *s: torch.rand(s, requires_grad=True),
            id="tensors with gradients",
        ),
    ],
)
def test_the_first_call_compiles__also_of(snippet, function, make):
    test_the_first_call_compiles(snippet, function, make)


@edits(
    ("    graphs.clear()\n", "    graphs[:] = [None]\n"),
    (", backend=keep_graph", ', backend="eager"'),
    (
        "for _ in range(3):\n    forecast(torch.rand(32, 4))",
        "for _ in range(3):\n    forecast(torch.rand(32 + _, 4))",
    ),
)
def test_the_first_call_compiles__but_not(snippet, fails, old, new):
    """An uncleared list, or another backend, counts something else; and calls
    with other sizes are not alike.
    """
    fails(test_the_first_call_compiles, snippet.edit(old, new))


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(torch.compiler.reset, id="after reset()"),
        pytest.param(
            lambda: torch.set_default_dtype(torch.float64),
            id="with another default dtype",
        ),
    ],
)
def test_the_first_call_compiles__ends(snippet, fails, between):
    """After `torch.compiler.reset()`, or with another default dtype: the next
    call compiles again.
    """

    def double(x):
        return x * 2

    def make(*shape):
        return torch.ones(shape, dtype=torch.float32)

    try:
        fails(test_the_first_call_compiles, snippet, double, make, between)
    finally:
        torch.set_default_dtype(torch.float32)


OURS = ("linear", "relu", "dropout", "linear")


def operations(graph):
    """Return the calls of a graph by kind and name, in order."""
    return [
        (node.op, getattr(node.target, "__name__", node.target))
        for node in graph.graph.nodes
        if node.op not in ("placeholder", "output", "get_attr")
    ]


def test_a_graph_is_operations(snippet, model=None, names=OURS):
    cells = MODEL if model else (*MODEL, "first-call")
    run = snippet.only(*cells).after(cells[-1])
    if model is not None:
        run.counted(model)(torch.rand(32, 4))
    [graph] = run.graphs

    called = operations(graph)
    assert [name for _, name in called] == list(names)
    assert {kind for kind, _ in called} <= {"call_function", "call_method"}


def test_a_graph_is_operations__also_with_batch_norm(snippet):
    names = ["linear", "add_", "batch_norm", "linear"]
    test_a_graph_is_operations(snippet, Normed(), names)


def test_a_graph_is_operations__also_of_blocks_in_blocks(snippet):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

        def forward(self, x):
            return self.block(self.block(x))

    names = 2 * ["linear", "tanh"]
    test_a_graph_is_operations(snippet, Twice(), names)


def test_a_graph_is_operations__but_not_without_relu(snippet, fails):
    """Without `relu` in `forward`, the graph has none either."""
    other = snippet.edit("torch.relu(self.hidden(x))", "self.hidden(x)")

    fails(test_a_graph_is_operations, other)


def test_modes_have_graphs_of_their_own(snippet, model=None, met=None):
    cells = MODEL if model else (*MODEL, "modes")
    run = snippet.only(*cells).after(cells[-1])
    if model is None:
        assert len(run.graphs) == 3  # two of the modes, one without gradients
    model = model or run.Forecast()
    called, batch = run.counted(model), torch.rand(32, 4)
    met, kinds = (
        met or [*itertools.product((True, False), repeat=2)] * 2,
        set(),
    )

    for training, learning in met:
        called.train(training)
        kinds.add((training, bool(learning)))
        mode = (
            torch.inference_mode()
            if learning is None
            else torch.set_grad_enabled(learning)
        )
        with mode:
            called(batch)
        assert len(run.graphs) == len(kinds)


def test_modes_have_graphs_of_their_own__also_drawn(snippet):
    draw = random.Random(1)
    met = [(draw.random() < 0.5, draw.random() < 0.5) for _ in range(9)]

    test_modes_have_graphs_of_their_own(snippet, Normed(), met)


def test_modes_have_graphs_of_their_own__ends_in_inference_mode(
    snippet, fails
):
    """If you use `inference_mode` beside `no_grad`: each of them has a graph,
    though neither records gradients.
    """
    met = [(False, False), (False, None)]  # None stands for inference_mode
    fails(test_modes_have_graphs_of_their_own, snippet, None, met)


def test_modes_have_graphs_of_their_own__but_not_without_dropout(
    snippet, fails
):
    """Without dropout, training and evaluation share a graph."""
    fails(
        test_modes_have_graphs_of_their_own,
        snippet.edit("nn.Dropout()", "nn.Identity()"),
    )


def test_modes_have_graphs_of_their_own__but_not_if_it_forgets(snippet, fails):
    """After `torch.compiler.reset()`, going back compiles again."""
    fails(
        test_modes_have_graphs_of_their_own,
        snippet.edit(
            "    forecast.train(training)",
            "    torch.compiler.reset(), forecast.train(training)",
        ),
    )


# Choose a mode


def test_modes_set_cuda_graphs(snippet):
    options = snippet.only("imports", "compile-modes").after("compile-modes")
    sets = {
        mode: each.get("triton.cudagraphs", False)
        for mode, each in options.mode_options.items()
    }

    more, fewer = (
        options.mode_options[f"max-autotune{name}"]
        for name in ("", "-no-cudagraphs")
    )
    assert more == {**fewer, "triton.cudagraphs": True}
    assert fewer
    assert sets["reduce-overhead"] is sets["max-autotune"] is True
    assert sets["max-autotune-no-cudagraphs"] is sets["default"] is False


def test_modes_set_cuda_graphs__but_not_if_taken_out(snippet, fails):
    """With its options cleared, `"max-autotune"` sets none of them."""
    line = "mode_options = torch._inductor.list_mode_options()"
    edited = snippet.edit(
        line, f'{line}\nmode_options["max-autotune"].clear()'
    )
    fails(test_modes_set_cuda_graphs, edited)


def test_an_unknown_mode_raises(snippet, mode="fastest"):
    options = snippet.only("imports", "compile-modes").after("compile-modes")

    with pytest.raises(RuntimeError) as met:
        torch.compile(torch.sin, mode=mode)
    for known in options.mode_options:
        assert known in str(met.value)


def test_an_unknown_mode_raises__but_not_one_of_your_own(snippet, fails):
    """A mode that you add to this dictionary yourself is not in the error."""
    edited = snippet.edit(
        "mode_options = torch._inductor.list_mode_options()",
        "mode_options = torch._inductor.list_mode_options()\n"
        'mode_options |= {"quickest": {}}',
    )
    fails(test_an_unknown_mode_raises, edited)


@pytest.mark.parametrize("mode", ["max_autotune", "Default"])
def test_an_unknown_mode_raises__also_for(snippet, mode):
    test_an_unknown_mode_raises(snippet, mode)


def test_an_unknown_mode_raises__ends_for_a_known_one(snippet, fails):
    """For a mode that exists, such as `"max-autotune"`: nothing is raised."""
    fails(test_an_unknown_mode_raises, snippet, "max-autotune")


# What it buys

GELU = (*COUNTED, "gelu")
KERNELS = (*GELU, "kernels")
FUSED = (*KERNELS, "fused")
MODES = (
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
)
WITH_INDUCTOR = (
    "test_fusion_saves_passes",
    "test_a_product_stays_as_it_is",
    "test_modes_write_the_same_on_a_cpu",
    "test_a_second_process_finds_the_code",
    "test_another_size_misses_the_cache",
    "test_only_last_digits_differ",
    "test_bfloat16_is_rounded_once",
    "test_compiled_dropout_draws_other_numbers",
    "test_fallback_random_draws_the_same",
)


@cache
def has_compiler():
    """Whether Inductor finds a C++ compiler."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        return bool(get_cpp_compiler())
    except RuntimeError:
        return False


@pytest.fixture(autouse=True)
def _compiler(request):
    """Skip what Inductor cannot compile here, and note what it needs."""
    name = request.node.originalname
    if name.startswith(WITH_INDUCTOR) and not has_compiler():
        request.node.user_properties.append(("needs", "a C++ compiler"))
        pytest.skip("needs a C++ compiler")


def code_of(function, *inputs, **options):
    """Return what Inductor writes for a function, and its result."""
    from torch._inductor.utils import run_and_get_code

    torch.compiler.reset()
    with torch.no_grad():
        result, code = run_and_get_code(
            torch.compile(function, **options), *inputs
        )
    return "\n".join(code), result


def test_fusion_saves_passes(snippet, function=None, *inputs):
    run = after(snippet, *FUSED)
    assert len(run.passes) == 8
    assert sum(number for _, number in run.passes) == 18
    assert run.written["gelu"] == 1
    if function:
        assert run.kernels(function, *inputs) == 1
        return
    code, _ = code_of(run.gelu, run.square)
    pointers = re.findall(r"\b(?:in_out|in|out)_ptr\d+\b", code)
    assert sorted(set(pointers)) == ["in_ptr0", "out_ptr0"]


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        pytest.param(
            lambda x: (x * 1.01 + 0.1).relu().exp().sin(),
            [torch.ones(1000)],
            id="another chain",
        ),
        pytest.param(
            lambda x, y: (x * y + 1).relu() * x.exp(),
            [torch.ones(50, 30), torch.ones(30)],
            id="two tensors",
        ),
        pytest.param(
            lambda x: (x + x.T).tanh() * 2,
            [torch.ones(64, 64, dtype=torch.float64)],
            id="a transposed tensor of float64",
        ),
    ],
)
def test_fusion_saves_passes__also_for(snippet, function, inputs):
    test_fusion_saves_passes(snippet, function, *inputs)


@edits(
    ("torch.compile(function)", 'torch.compile(function, backend="eager")'),
    ("(x + 0.044715 * x**3)", "(x + 0.044715 * x * x * x)"),
)
def test_fusion_saves_passes__but_not(snippet, fails, old, new):
    """Another backend writes no kernel; written in other words, a GELU has
    more operations.
    """
    edited = snippet.edit(old, new) if "x**3" in old else in_kernels(snippet)
    fails(test_fusion_saves_passes, edited)


def in_kernels(snippet):
    """Let the program count with a backend that writes no kernels."""
    return snippet.edit(
        "        torch.compile(function)(*inputs)\n    return torch._inductor",
        '        torch.compile(function, backend="eager")(*inputs)\n'
        "    return torch._inductor",
    )


def test_fusion_saves_passes__ends_around_a_product(snippet, fails):
    """With a matrix product in between: there is a kernel before it, and one
    after it.
    """

    def around(x):
        return ((x + 1).relu() @ x + 1).relu()

    fails(test_fusion_saves_passes, snippet, around, torch.ones(64, 64))


def test_a_product_stays_as_it_is(snippet, function=torch.mm, *inputs):
    run = after(snippet, *FUSED)
    assert run.written["a product"] == 0
    assert run.written["gelu, product, gelu"] == 2
    inputs = inputs or (run.square, run.square)
    assert run.kernels(function, *inputs) == 0
    _, result = code_of(function, *inputs)
    with torch.no_grad():
        assert torch.equal(result, function(*inputs))


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(
            [torch.rand(64, 64).T, torch.rand(64, 64)], id="transposed"
        ),
        pytest.param(
            [torch.rand(64, 64).double(), torch.rand(64, 64).double()],
            id="float64",
        ),
    ],
)
def test_a_product_stays_as_it_is__also_if(snippet, inputs):
    test_a_product_stays_as_it_is(snippet, torch.mm, *inputs)


def test_a_product_stays_as_it_is__also_in_a_linear_layer(snippet):
    layer = nn.Linear(64, 32)
    test_a_product_stays_as_it_is(snippet, layer, torch.rand(16, 64))


def test_a_product_stays_as_it_is__but_not_with_relu(snippet, fails):
    """A ReLU after the product gets a kernel."""
    edited = snippet.edit(
        "kernels(torch.mm, square, square)",
        "kernels(lambda a, b: torch.mm(a, b).relu(), square, square)",
    )
    fails(test_a_product_stays_as_it_is, edited)


def test_a_product_stays_as_it_is__ends_with_a_vector(snippet, fails):
    """With a vector: Inductor multiplies and adds up in its own kernel."""
    inputs = torch.rand(64, 64), torch.rand(64)
    fails(test_a_product_stays_as_it_is, snippet, torch.mv, *inputs)


def test_a_product_stays_as_it_is__ends_for_a_batch_of_rows(snippet, fails):
    """For a batch of products whose first factor has a single row: Inductor
    multiplies and adds up in a kernel of its own.
    """
    rows = torch.rand(8, 1, 16), torch.rand(8, 16, 4)
    fails(test_a_product_stays_as_it_is, snippet, torch.bmm, *rows)


def test_modes_write_the_same_on_a_cpu(snippet, options=None):
    """No cell decides it: the modes themselves are tried."""
    run = after(snippet, *FUSED)
    tried = [{"mode": mode} for mode in MODES]
    if options:
        tried = [{"mode": "default"}, {"options": options}]
    found = set()
    for each_time in tried:
        code, _ = code_of(run.gelu, run.square, **each_time)
        found |= set(re.findall(r"'''(.*?)'''", code, re.DOTALL))
    assert len(found) == 1


def test_modes_write_the_same_on_a_cpu__ends_with_an_option(snippet, fails):
    """With an option for C++, here one that lets a profiler see the kernel:
    the code is another.
    """
    options = {"cpp.enable_kernel_profile": True}
    fails(test_modes_write_the_same_on_a_cpu, snippet, options)


# The caches

CACHE = (*GELU, "cache")


def found_in(counts):
    """Return how often the cache had the code, and how often not."""
    return [counts.get(f"fxgraph_cache_{what}", 0) for what in ("hit", "miss")]


def test_a_second_process_finds_the_code(snippet):
    run = after(snippet, *CACHE)
    assert found_in(run.first_time) == [0, 1]
    assert found_in(run.second_time) == [1, 0]


def compile_and_exit():
    """Exit with how often the cache had the code of a function."""
    counters = torch._dynamo.utils.counters
    counters.clear()
    # The threads that would compile are not in a forked process.
    with torch._inductor.config.patch(compile_threads=1):
        torch.compile(lambda x: 2 * x + 1)(torch.ones(7, 5))
    sys.exit(counters["inductor"]["fxgraph_cache_hit"])


@THREADS_MAY_BE_LEFT
def test_a_second_process_finds_the_code__also_with_processes(
    tmp_path, monkeypatch, no_process_is_left
):
    skip_if_forks_cannot_train()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    found = []
    for _ in range(2):
        context = multiprocessing.get_context("fork")
        process = context.Process(target=compile_and_exit)
        process.start()
        process.join(300)
        found.append(process.exitcode)
    assert found == [0, 1]


def test_a_second_process_finds_the_code__but_not_of_another_function(
    snippet, fails
):
    """Another function is other code, which it has to write."""
    edited = snippet.edit(
        "second_time = looked_up(gelu, numbers)",
        "second_time = looked_up(torch.mm, numbers, numbers)",
    )
    fails(test_a_second_process_finds_the_code, edited)


def test_a_second_process_finds_the_code__but_not_in_another_folder(
    snippet, fails
):
    """If `TORCHINDUCTOR_CACHE_DIR` names another folder, nothing is there."""
    edited = snippet.edit(
        "    second_time =",
        "    os.environ['TORCHINDUCTOR_CACHE_DIR'] = folder + '/other'\n"
        "    second_time =",
    )
    fails(test_a_second_process_finds_the_code, edited)


def test_another_size_misses_the_cache(snippet, make=None, dynamic=None):
    run = after(snippet, *CACHE)
    assert found_in(run.other_size) == [0, 1]
    if make:
        with (
            tempfile.TemporaryDirectory() as folder,
            patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder),
        ):
            found = []
            for x in (torch.ones(50, 40), make()):
                torch.compiler.reset()
                counters = torch._dynamo.utils.counters
                counters.clear()
                torch.compile(lambda x: x @ x.T, dynamic=dynamic)(x)
                found.append(found_in(counters["inductor"]))
        assert found == [[0, 1], [0, 1]]


def test_another_size_misses_the_cache__also_for_other_strides(snippet):
    test_another_size_misses_the_cache(snippet, lambda: torch.ones(40, 50).T)


def test_another_size_misses_the_cache__but_not_for_the_same(snippet, fails):
    """The size that it had before is in the cache."""
    edited = snippet.edit(
        "looked_up(gelu, numbers[:200])", "looked_up(gelu, numbers)"
    )
    fails(test_another_size_misses_the_cache, edited)


def test_another_size_misses_the_cache__ends_with_dynamic(snippet, fails):
    """With `dynamic=True`: the code is for all sizes."""

    def make():
        return torch.ones(51, 40)

    fails(test_another_size_misses_the_cache, snippet, make, True)


# Not the same digits

DIGITS = (*COUNTED, "last-digits")


def test_only_last_digits_differ(snippet, function=None, make=None):
    with no_error():
        run = after(snippet, *DIGITS)
    assert not torch.equal(run.compiled, run.as_written)
    assert (run.compiled - run.as_written).abs().max() < 1e-5
    torch.testing.assert_close(run.compiled, run.as_written)

    compiled = torch.compile(function or run.standardized)
    for seed in range(3):
        torch.manual_seed(seed)
        x = make() if make else torch.randn(500, 20)
        with torch.no_grad():
            here, there = compiled(x), (function or run.standardized)(x)
        torch.testing.assert_close(here, there)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x.softmax(dim=1), id="softmax"),
        pytest.param(
            nn.Sequential(nn.Linear(20, 30), nn.GELU(), nn.LayerNorm(30)),
            id="layers",
        ),
    ],
)
def test_only_last_digits_differ__also_of(snippet, function):
    test_only_last_digits_differ(snippet, function)


def test_only_last_digits_differ__but_not_with_a_tracing_backend(
    snippet, fails
):
    """A backend that only records gives the very same numbers."""
    edited = snippet.edit(
        "torch.compile(standardized)(x)",
        'torch.compile(standardized, backend="eager")(x)',
    )
    fails(test_only_last_digits_differ, edited)


def test_only_last_digits_differ__ends_far_from_zero(snippet, fails):
    """For numbers of about 200 with a spread of 1: `assert_close` refuses some
    of the results.
    """
    fails(
        test_only_last_digits_differ,
        snippet,
        None,
        lambda: torch.randn(500, 20) + 200,
    )


def test_only_last_digits_differ__but_not_of_other_inputs(snippet, fails):
    """An input that is 0.01% larger in one place gives more than that."""
    edited = snippet.edit(
        "torch.compile(standardized)(x)",
        "torch.compile(standardized)(x + torch.eye(256) / 1000)",
    )
    fails(test_only_last_digits_differ, edited)


def test_only_last_digits_differ__ends_for_bfloat16(snippet, fails):
    """For `bfloat16`: here `assert_close` finds more than it accepts."""

    def make():
        return torch.randn(500, 20).bfloat16()

    fails(test_only_last_digits_differ, snippet, None, make)


def test_only_last_digits_differ__ends_where_a_sum_is_nearly_0(snippet, fails):
    """For a large sum that is nearly 0: `assert_close` refuses what is left
    of the rounding.
    """

    def left(x):
        return (x - x.mean()).sum()

    def make():
        return torch.randn(2**20)

    fails(test_only_last_digits_differ, snippet, left, make)


SHORT = (*GELU, "last-digits", "bfloat16")


def test_bfloat16_is_rounded_once(snippet, function=None, dtype=None):
    run = after(snippet, *SHORT)
    assert run.errors["compiled"] < 0.8 * run.errors["as written"]

    function, dtype = function or run.gelu, dtype or torch.bfloat16
    share = 0.99 if older(torch.__version__, "2.14") else 0.95
    compiled = torch.compile(function)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(200, 100).to(dtype)
        once = function(x.float()).to(dtype)
        exact = function(x.double())
        assert (compiled(x) == once).float().mean() > share
        assert (function(x) == once).float().mean() < 0.95
        here, there = (
            (each - exact).abs().mean() for each in (once, function(x))
        )
        assert here < there


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        pytest.param(
            lambda x: ((x * 1.01 + 0.1).relu() * 1.01 + 0.1).relu(),
            torch.bfloat16,
            id="another chain",
        ),
        pytest.param(None, torch.float16, id="float16"),
    ],
)
def test_bfloat16_is_rounded_once__also_for(snippet, function, dtype):
    test_bfloat16_is_rounded_once(snippet, function, dtype)


def test_bfloat16_is_rounded_once__but_not_as_written(snippet, fails):
    """A backend that only records rounds after each operation."""
    edited = snippet.edit(
        "(torch.compile(gelu)(short)",
        '(torch.compile(gelu, backend="eager")(short)',
    )
    fails(test_bfloat16_is_rounded_once, edited)


def test_bfloat16_is_rounded_once__ends_for_a_single_operation(snippet, fails):
    """For a single operation: it is rounded once in either case."""
    fails(test_bfloat16_is_rounded_once, snippet, lambda x: x * 1.01)


def test_bfloat16_is_rounded_once__ends_around_a_product(snippet, fails):
    """With a matrix product in between: its factors and its result are
    rounded, too.
    """

    def around(x):
        return ((x * 1.01 + 0.1).relu() @ x.T * 1.01 + 0.1).relu()

    fails(test_bfloat16_is_rounded_once, snippet, around)


DROPPED = (*KERNELS, "dropout")


def test_compiled_dropout_draws_other_numbers(snippet, layer=None, seeds=3):
    run = after(snippet, *DROPPED)
    assert not torch.equal(run.drawn, run.drawn_compiled)
    layer = layer or run.drop
    compiled = torch.compile(layer)
    for seed in range(seeds):
        drawn = []
        for draw in (layer, compiled, compiled):
            torch.manual_seed(seed)
            drawn.append(draw(torch.ones(100)))
        assert not torch.equal(drawn[0], drawn[1])
        assert torch.equal(drawn[1], drawn[2])


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(lambda x: torch.rand_like(x) * 2, id="rand_like"),
        pytest.param(lambda x: x + torch.randn(100), id="randn"),
    ],
)
def test_compiled_dropout_draws_other_numbers__also_of(snippet, layer):
    test_compiled_dropout_draws_other_numbers(snippet, layer)


@edits(
    (
        "drawn_compiled = dropped(torch.compile(drop))",
        "drawn_compiled = drawn",
    ),
    (
        "drop = nn.Dropout(0.5)",
        "torch._inductor.config.fallback_random = True\n"
        "drop = nn.Dropout(0.5)",
    ),
)
def test_compiled_dropout_draws_other_numbers__but_not(
    snippet, fails, old, new
):
    """As written, or with `fallback_random`, it draws the usual numbers."""
    try:
        fails(
            test_compiled_dropout_draws_other_numbers, snippet.edit(old, new)
        )
    finally:
        torch._inductor.config.fallback_random = False


FALLBACK = (*DROPPED, "fallback")


def test_fallback_random_draws_the_same(snippet, layer=None):
    run = after(snippet, *FALLBACK)
    assert torch.equal(run.drawn, run.drawn_alike)
    layer = layer or run.drop
    torch.compiler.reset()
    with torch._inductor.config.patch(fallback_random=True):
        compiled = torch.compile(layer)
        for seed in range(3):
            drawn = []
            for draw in (layer, compiled):
                torch.manual_seed(seed)
                drawn.append(draw(torch.ones(100)))
            assert torch.equal(*drawn)


def test_fallback_random_draws_the_same__also_of_randn(snippet):
    test_fallback_random_draws_the_same(
        snippet, lambda x: x + torch.randn(100)
    )


def test_fallback_random_draws_the_same__but_not_if_off(snippet, fails):
    """Set to `False`, as it is by default, it draws other numbers."""
    edited = snippet.edit("fallback_random=True", "fallback_random=False")
    fails(test_fallback_random_draws_the_same, edited)


# No working C++ compiler found

LACKING = (*GELU, "kernels", "no-compiler")


def test_without_a_compiler_the_first_call_raises(snippet):
    with no_error():
        run = snippet.only(*LACKING).after("no-compiler")
    assert callable(run.lacking)
    assert "No working C++ compiler found" in run.not_found


def test_without_a_compiler_the_first_call_raises__but_not_in_eager(
    snippet, fails
):
    """A backend that writes no C++ needs no compiler."""
    edited = snippet.edit(
        "lacking = torch.compile(gelu)",
        'lacking = torch.compile(gelu, backend="eager")',
    )
    fails(test_without_a_compiler_the_first_call_raises, edited)


# compile() does nothing


LAYERS = {
    "linear": (lambda: nn.Linear(4, 2), torch.rand(3, 4)),
    "image": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten()),
        torch.rand(3, 1, 5, 5),
    ),
    "text": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        torch.rand(2, 3, 8),
    ),
}


class Own(nn.Sequential):
    """A container of one's own, without a forward pass of its own."""


LAYERS["container of one's own, without a `forward`"] = (
    lambda: Own(nn.Linear(4, 2), nn.ReLU()),
    torch.rand(3, 4),
)


def test_a_container_is_not_compiled(snippet, make=None, inputs=None):
    run = snippet.only(*COUNTED, "nothing").after("nothing")
    assert run.layers._compiled_call_impl is not None
    found = int(not older(torch.__version__, "2.14"))
    assert len(run.graphs) == found
    inputs = run.batch if inputs is None else inputs
    layers = make() if make else run.layers

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = copy.deepcopy(layers)

        def forward(self, x):
            return self.layers(x)

    for model, graphs in ((layers, found), (Around(), 1)):
        torch.compiler.reset()
        run.graphs.clear()
        with no_error(), logged() as said:
            model.compile(backend=run.keep_graph)
            model(inputs)
        assert not said
        assert len(run.graphs) == graphs


@pytest.mark.parametrize("kind", LAYERS)
def test_a_container_is_not_compiled__also_a_layer(snippet, kind):
    test_a_container_is_not_compiled(snippet, *LAYERS[kind])


def test_a_container_is_not_compiled__also_where_one_of_your_own_is(snippet):
    own = snippet.edit(
        "layers = nn.Sequential("
        "nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))",
        "class Own(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x + 1\n"
        "\n\n"
        "layers = Own()",
    )
    run = own.only(*COUNTED, "nothing").after("nothing")
    assert len(run.graphs) == 1


def test_a_container_is_not_compiled__but_not_by_the_function(snippet, fails):
    """`torch.compile` does compile it."""
    other = snippet.edit(
        "layers.compile(backend=keep_graph)\nlayers(batch)",
        "torch.compile(layers, backend=keep_graph)(batch)",
    )
    if older(torch.__version__, "2.14"):
        fails(test_a_container_is_not_compiled, other)


def test_the_function_compiles_it(snippet, make=None, inputs=None):
    cells = COUNTED if make else (*COUNTED, "nothing", "something")
    run = snippet.only(*cells).after(cells[-1])
    if make:
        run.counted(make())(inputs)
    assert len(run.graphs) == 1


@pytest.mark.parametrize("kind", LAYERS)
def test_the_function_compiles_it__also_around_a_layer(snippet, kind):
    test_the_function_compiles_it(snippet, *LAYERS[kind])


def test_the_function_compiles_it__ends_for_an_lstm(snippet, fails):
    """For an LSTM: it stays uncompiled."""
    layer, inputs = nn.LSTM(8, 4), torch.rand(2, 3, 8)
    fails(test_the_function_compiles_it, snippet, lambda: layer, inputs)


def test_the_function_compiles_it__but_not_if_left_out(snippet, fails):
    """Here a function that is not compiled is called in its place."""
    other = snippet.edit(
        "counted(layers)", "counted(layers) and (lambda x: x)"
    )

    fails(test_the_function_compiles_it, other)


class Around(nn.Module):
    """A model with a layer in the middle."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.layer = nn.Linear(4, 4), layer
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        """Return what the three layers make of an input."""
        outputs = self.layer(self.first(x))
        if isinstance(outputs, tuple):
            outputs = outputs[0]
        return self.last(outputs)


RECURRENT = {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}


def test_recurrent_layers_stay_uncompiled(snippet, kind=nn.LSTM):
    """No cell decides it: the layers themselves are tried."""
    run = snippet.only(*COUNTED).after("counted")
    called = run.counted(kind(4, 4))
    with logged() as said:
        called(torch.rand(5, 3, 4))
    assert run.graphs == []
    assert not said


@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_layers_stay_uncompiled__also(snippet, kind):
    test_recurrent_layers_stay_uncompiled(snippet, RECURRENT[kind])


@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_layers_stay_uncompiled__also_in_a_model(snippet, kind):
    run = snippet.only(*COUNTED).after("counted")
    run.counted(Around(RECURRENT[kind](4, 4)))(torch.rand(5, 3, 4))
    found = [name for graph in run.graphs for _, name in operations(graph)]
    assert [name for name in found if name != "linear"] == []


def test_recurrent_layers_stay_uncompiled__ends_for_linear_ones(
    snippet, fails
):
    """For a linear layer: it is compiled."""
    fails(test_recurrent_layers_stay_uncompiled, snippet, nn.Linear)


def test_recurrent_layers_stay_uncompiled__ends_with_allow_rnn(snippet, fails):
    """With `torch._dynamo.config.allow_rnn = True`: they are compiled, here a
    GRU.
    """
    with torch._dynamo.config.patch(allow_rnn=True):
        fails(test_recurrent_layers_stay_uncompiled, snippet, nn.GRU)
