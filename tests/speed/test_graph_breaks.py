"""The claims of docs/speed/graph_breaks.md."""

import copy
import random
import warnings

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older, true_since
from extensions.programs.snippet import after
from tests.helpers.compiled import Normed, logged, unobserved

# Some of what the tracer loads when it is first asked uses torch.jit.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


@pytest.fixture(autouse=True, scope="module")
def _unobserved():
    with unobserved():
        yield


COUNTED = ("imports", "keep-graph", "counted")
TENSOR = "counting-in-a-tensor"
SO_FAR = "graphs-so-far"
MODEL = ("imports", "model", "keep-graph", "counted")


def never_recompiled(snippet):
    """Return the program, which runs uncompiled what it would recompile."""
    return snippet.edit(
        "    return torch.compile(function, backend=keep_graph, **options)\n",
        "    compiled = torch.compile(function, backend=keep_graph, "
        "**options)\n"
        "    return "
        'torch.compiler.set_stance("eager_on_recompile")(compiled)\n',
    )


# When it compiles again

ALIKE = {
    "fresh": lambda: torch.rand(32, 4),
    "part of a larger one": lambda: torch.rand(40, 4)[8:],
    "contiguous": lambda: torch.rand(4, 32).T.contiguous(),
    "detached": lambda: torch.rand(32, 4, requires_grad=True).detach(),
    "with nan": lambda: torch.full((32, 4), float("nan")),
}
GUARDED = {
    "shape": lambda: torch.rand(4, 32),
    "number of axes": lambda: torch.rand(32, 4, 1),
    "strides, by T": lambda: torch.rand(4, 32).T,
    "strides, by a slice": lambda: torch.rand(32, 8)[:, ::2],
    "strides, by expand()": lambda: torch.rand(1, 4).expand(32, 4),
    "dtype": lambda: torch.rand(32, 4).half(),
    "device": lambda: torch.rand(32, 4, device="meta"),
    "requires_grad": lambda: torch.rand(32, 4, requires_grad=True),
}


def test_guards_check_the_tensor(
    snippet, function=None, others=GUARDED, alike=ALIKE
):
    run = after(snippet, *COUNTED, "guards")
    assert list(run.graphs_after.values()) == [1, 1, 2, 3, 3, 4, 5]
    assert list(run.inputs)[:3] == ["first", "another", "transposed"]
    assert {tuple(each.shape) for each in run.inputs.values()} == {(32, 4)}
    strides = [each.stride() for each in run.inputs.values()]
    assert strides == [(4, 1)] * 2 + [(1, 32), (8, 1)] + [(4, 1)] * 3
    dtypes = [each.dtype for each in run.inputs.values()]
    assert dtypes.count(torch.float32) == 6

    called = run.counted(function or (lambda x: 2 * x))
    for make in alike.values():
        called(make())
        assert len(run.graphs) == 1
    with graphs_at_most(1 + len(others)):
        for met, other in enumerate(others.values(), 2):
            called(other())
            assert len(run.graphs) == met
            called(torch.rand(32, 4))  # the first graph is kept
            assert len(run.graphs) == met


def test_guards_check_the_tensor__also_of_a_sum(snippet):
    names = "strides, by T", "strides, by a slice", "dtype"
    others = {name: GUARDED[name] for name in names}
    test_guards_check_the_tensor(snippet, lambda x: x.flatten().sum(), others)


def test_guards_check_the_tensor__also_under_compile_of_a_model(snippet):
    run = snippet.only(*MODEL).after("counted")
    run.counted(torch.sin)
    model = run.Forecast()
    model.compile(backend=run.keep_graph)
    for x, graphs in (
        (torch.rand(32, 4), 1),
        (torch.rand(32, 4), 1),
        (torch.rand(4, 32).T, 2),
        (torch.rand(32, 8)[:, ::2], 3),
    ):
        model(x)
        assert len(run.graphs) == graphs


@edits(
    ("torch.rand(4, 32).T,", "torch.rand(32, 4),"),
    ("torch.rand(32, 4).double()", "torch.rand(32, 4)"),
    ("torch.rand(32, 4).requires_grad_()", "torch.rand(32, 4)"),
)
def test_guards_check_the_tensor__but_not(snippet, fails, old, new):
    """An input like the first one passes the guards, so there is one graph
    fewer.
    """
    fails(test_guards_check_the_tensor, snippet.edit(old, new))


def test_guards_check_the_tensor__ends_for_its_values(snippet, fails):
    """For other values: such a tensor passes the guards."""
    others = {"values": lambda: torch.zeros(32, 4)}
    fails(test_guards_check_the_tensor, snippet, None, others)


def test_contiguous_fits_the_guards(
    snippet, make=lambda: torch.rand(4, 32).T, mend=torch.Tensor.contiguous
):
    run = after(snippet, *MODEL, "guards")
    assert run.graphs_after["contiguous()"] == run.graphs_after["a slice"]
    assert run.inputs["contiguous()"].is_contiguous()
    assert not run.inputs["transposed"].is_contiguous()
    for function in (torch.sin, run.Forecast()):
        called = run.counted(function)
        called(torch.rand(32, 4))
        called(mend(make()))
        assert len(run.graphs) == 1
        called(make())
        assert len(run.graphs) == 2


def test_contiguous_fits_the_guards__but_not_before_the_transpose(
    snippet, fails
):
    """Made contiguous before `.T`, it is transposed again, and recompiles."""
    edited = snippet.edit(
        '"contiguous()": torch.rand(4, 32).T.contiguous()',
        '"contiguous()": torch.rand(4, 32).contiguous().T',
    )
    fails(test_contiguous_fits_the_guards, edited)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            lambda: torch.rand(32, 8)[:, ::2], id="taking every other column"
        ),
        pytest.param(
            lambda: torch.rand(1, 4).expand(32, 4), id="expanding a row"
        ),
    ],
)
def test_contiguous_fits_the_guards__also_after(snippet, make):
    test_contiguous_fits_the_guards(snippet, make)


def test_contiguous_fits_the_guards__ends_with_clone(snippet, fails):
    """With `clone()` in its place: it keeps the strides, so the first graph
    does not accept it.
    """
    make = GUARDED["strides, by T"]
    fails(test_contiguous_fits_the_guards, snippet, make, torch.clone)


def test_contiguous_fits_the_guards__ends_if_the_first_was_transposed(
    snippet, fails
):
    """If the first tensor was transposed: its graph expects those strides, so
    a contiguous one recompiles.
    """
    program = snippet.edit(
        '"first": torch.rand(32, 4),', '"first": torch.rand(4, 32).T,'
    ).edit(
        '"transposed": torch.rand(4, 32).T,\n    "a slice"',
        '"a slice"',
    )
    program = program.edit('"another": torch.rand(32, 4),', "")
    fails(test_contiguous_fits_the_guards, program)


def frozen(model):
    """Freeze the first layer of a model."""
    next(model.children()).requires_grad_(False)


@true_since("2.12", "a layer that was frozen later kept its graph")
def test_guards_check_the_setting(snippet, make=None, change=frozen):
    run = snippet.only(*MODEL).after("counted")
    batch = torch.rand(32, 4)
    model = (make or run.Forecast)()
    called = run.counted(model)
    for _ in range(2):
        called(batch)
        assert len(run.graphs) == 1
    for _ in range(2):
        change(model)
        called(batch)
        assert len(run.graphs) == 2

    called = run.counted((make or run.Forecast)())
    for _ in range(2):
        called(batch)
        assert len(run.graphs) == 1
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            called(batch)
        assert len(run.graphs) == 2


def test_guards_check_the_setting__but_not_if_told_to_run_uncompiled(
    snippet, fails
):
    """With the stance `eager_on_recompile`, the model runs uncompiled
    instead.
    """
    fails(test_guards_check_the_setting, never_recompiled(snippet))


def test_guards_check_the_setting__also_with_batch_norm(snippet):
    test_guards_check_the_setting(snippet, Normed)


def test_guards_check_the_setting__ends_for_other_weights(snippet, fails):
    """For new values in the weights: they pass the guards."""

    def changed(model):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2)

    fails(test_guards_check_the_setting, snippet, None, changed)


def drawn_sizes(seed):
    """Return sizes of batches from 1 on, most of them twice."""
    draw = random.Random(seed)
    sizes = 2 * [1, *draw.sample(range(2, 99), 4)]
    draw.shuffle(sizes)
    return sizes


def test_three_graphs_for_all_sizes(snippet, sizes=None):
    cells = () if sizes else ("sizes",)
    run = after(snippet, *MODEL, SO_FAR, *cells)
    if sizes is None:
        sizes, numbers = run.sizes, run.by_option["as it is"]
        assert numbers == [1, 1, 2, 2, 2, 2, 3, 3]
    else:
        numbers = run.graphs_so_far(sizes)

    assert len(set(sizes)) > 4
    assert numbers == sorted(numbers)
    assert numbers[0] == 1
    assert numbers[-1] <= 3
    # a size that was met, and one for which all others stand, need none
    for last, (size, number) in enumerate(
        zip(sizes[1:], numbers, strict=False), 1
    ):
        if size in sizes[:last]:
            assert numbers[last] == number


def test_three_graphs_for_all_sizes__also_drawn(snippet):
    test_three_graphs_for_all_sizes(snippet, drawn_sizes(0))


def test_three_graphs_for_all_sizes__also_in_other_orders_of_sizes(snippet):
    run = after(snippet, *MODEL, SO_FAR)

    assert run.graphs_so_far([20, 1, 7, 9, 30, 20, 1]) == [1, 2, 3, 3, 3, 3, 3]
    assert run.graphs_so_far([1, 20, 7, 9, 1]) == [1, 2, 2, 2, 2]


def test_three_graphs_for_all_sizes__also_with_batch_norm(snippet):
    run = snippet.only(*MODEL).after("counted")
    called = run.counted(Normed().eval())
    for size in (20, 1, 7, 9, 30, 2, 1000):
        called(torch.rand(size, 4))
    assert len(run.graphs) == 3


def test_three_graphs_for_all_sizes__ends_with_an_empty_batch(snippet, fails):
    """With an empty batch: it needs a fourth."""
    fails(test_three_graphs_for_all_sizes, snippet, [20, 1, 7, 9, 30, 0])


def test_three_graphs_for_all_sizes__but_not_if_static(snippet, fails):
    """With `dynamic=False`, each new size needs a graph of its own."""
    other = snippet.edit(
        "graphs_so_far(sizes),", "graphs_so_far(sizes, dynamic=False),"
    )

    fails(test_three_graphs_for_all_sizes, other)


def convolved():
    return nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 2, 2))


def test_dynamic_needs_two(snippet, sizes=None, make=None):
    cells = () if sizes else ("sizes",)
    run = after(snippet, *MODEL, SO_FAR, *cells)
    if sizes is None:
        sizes, numbers = run.sizes, run.by_option["dynamic=True"]
    else:
        called = run.counted((make or run.Forecast)(), dynamic=True)
        numbers = []
        for size in sizes:
            called(torch.rand(size, 4))
            numbers.append(len(run.graphs))

    for last, number in enumerate(numbers, 1):
        met = sizes[:last]
        assert number == (1 in met) + any(size > 1 for size in met)


def test_dynamic_needs_two__also_drawn(snippet):
    test_dynamic_needs_two(snippet, drawn_sizes(1))


def test_dynamic_needs_two__ends_with_four_samples_of_four(snippet, fails):
    """If the first batch has as many samples as features: the two get one
    symbol, and the next size needs one more graph.
    """
    fails(test_dynamic_needs_two, snippet, [4, 7, 9, 1])


def test_dynamic_needs_two__ends_with_a_convolution(snippet, fails):
    """With a convolution on a CPU: the second size needs one more graph."""
    fails(test_dynamic_needs_two, snippet, [32, 7, 9, 1], convolved)


def test_dynamic_needs_two__but_not_by_default(snippet, fails):
    """By default, the first size has a graph of its own."""
    other = snippet.edit(
        "graphs_so_far(sizes, dynamic=True)", "graphs_so_far(sizes)"
    )

    fails(test_dynamic_needs_two, other)


def test_static_needs_one_for_each(snippet, sizes=None):
    cells = () if sizes else ("sizes",)
    run = after(snippet, *MODEL, SO_FAR, *cells)
    if sizes is None:
        sizes, numbers = run.sizes, run.by_option["dynamic=False"]
    else:
        numbers = run.graphs_so_far(sizes, dynamic=False)

    for last, number in enumerate(numbers, 1):
        assert number == len(set(sizes[:last]))


def test_static_needs_one_for_each__also_in_another_order(snippet):
    test_static_needs_one_for_each(snippet, [1, 9, 8, 9, 1, 30])


def test_static_needs_one_for_each__but_not_by_default(snippet, fails):
    """By default, the third size needs no graph of its own."""
    other = snippet.edit(
        "graphs_so_far(sizes, dynamic=False)", "graphs_so_far(sizes)"
    )

    fails(test_static_needs_one_for_each, other)


def marked(batch):
    """Let the number of samples vary."""
    torch._dynamo.mark_dynamic(batch, 0)


def test_a_marked_size_needs_one(
    snippet, make=None, sizes=(32, 2, 7, 100, 3, 1000), mark=marked
):
    run = snippet.only(*MODEL).after("counted")
    called = run.counted((make or run.Forecast)())
    first, *others = sizes
    batch = torch.rand(first, 4)
    mark(batch)
    called(batch)
    for size in others:
        called(torch.rand(size, 4))
        assert len(run.graphs) == 1


def test_a_marked_size_needs_one__but_not_by_a_copy(snippet, fails):
    """A copy of the batch does not carry the mark, so the first size has a
    graph of its own.
    """
    edited = snippet.edit(
        "    return torch.compile(function, backend=keep_graph, **options)\n",
        "    compiled = torch.compile(function, backend=keep_graph, "
        "**options)\n"
        "    return lambda x: compiled(x.clone())\n",
    )
    fails(test_a_marked_size_needs_one, edited)


def test_a_marked_size_needs_one__also_with_batch_norm(snippet):
    test_a_marked_size_needs_one(snippet, Normed, (2, 3, 99))


def test_a_marked_size_needs_one__ends_if_unmarked(snippet, fails):
    """Without the mark: the first size has a graph of its own."""
    sizes = (32, 2, 7)
    fails(test_a_marked_size_needs_one, snippet, None, sizes, id)


def test_a_marked_size_needs_one__ends_with_a_convolution(snippet, fails):
    """With a convolution on a CPU: the second size needs one more graph."""
    fails(test_a_marked_size_needs_one, snippet, convolved, (32, 7))


def test_a_marked_size_needs_one__ends_for_a_single_sample(snippet, fails):
    """For a single sample: it needs a second graph."""
    fails(test_a_marked_size_needs_one, snippet, None, (32, 7, 1))


def test_a_stance_finds_recompiles(snippet, function=None):
    run = after(snippet, *MODEL, "do-this", "again")
    assert "Detected recompile" in run.stopped
    assert torch.equal(run.checked(run.batch), run.model(run.batch))

    called = run.counted(function or run.Forecast())
    stance = torch.compiler.set_stance("fail_on_recompile")
    with stance, pytest.raises(RuntimeError, match="Detected recompile"):
        called(run.batch)  # the first call of all
    assert len(run.graphs) == 0
    called(run.batch)
    with torch.compiler.set_stance("fail_on_recompile"):
        for _ in range(2):
            called(torch.rand(run.batch.shape))
            with pytest.raises(RuntimeError, match="Detected recompile"):
                called(torch.rand(5, 4))
            with pytest.raises(RuntimeError, match="Detected recompile"):
                called(run.batch.double())
    assert len(run.graphs) == 1
    called(torch.rand(5, 4))
    assert len(run.graphs) == 2


def test_a_stance_finds_recompiles__also_of_a_function(snippet):
    test_a_stance_finds_recompiles(snippet, lambda x: x.relu() + 1)


def test_a_stance_finds_recompiles__but_not_by_default(snippet, fails):
    """With the stance `"default"`, the call recompiles and raises nothing."""
    other = snippet.edit(
        'set_stance("fail_on_recompile"):\n    try:',
        'set_stance("default"):\n    try:',
    ).edit(
        "        stopped = str(error)\n",
        '        stopped = str(error)\n    else:\n        stopped = ""\n',
    )

    fails(test_a_stance_finds_recompiles, other)


# torch._dynamo hit config.recompile_limit


def graphs_at_most(number):
    """Set the limit for a block; before torch 2.7 it had another name."""
    config = torch._dynamo.config
    new = hasattr(config, "recompile_limit")
    return config.patch(
        {"recompile_limit" if new else "cache_size_limit": number}
    )


FORWARD = "        return self.layer(x)\n\n\ntried = counted(Counting())"
COUNTS = f"self.calls += 1\n{FORWARD}"


@true_since("2.9", "a counter of a model made two graphs")
def test_a_counter_recompiles(snippet):
    run = snippet.only(*COUNTED, "counting").after("counting")
    assert len(run.graphs) == 8
    model = run.Counting()
    called = run.counted(model)

    for call in range(1, 12):
        called(torch.rand(32, 4))
        assert len(run.graphs) == min(call, 8)


def test_a_counter_recompiles__ends_for_a_float(snippet, fails):
    """For a float: the second call recompiles, and later ones do not."""
    old = "self.layer, self.calls = nn.Linear(4, 1), 0\n"
    edited = snippet.edit(old, old.replace("0\n", "0.0\n"))
    fails(test_a_counter_recompiles, edited)


def test_a_counter_recompiles__ends_with_another_limit(snippet, fails):
    """With another `torch._dynamo.config.recompile_limit`, here 3: there are
    fewer than eight.
    """
    with graphs_at_most(3):
        fails(test_a_counter_recompiles, snippet)


@true_since("2.9", "a counter of a model made two graphs")
def test_the_limit_ends_compiling(snippet):
    with logged() as said:
        run = snippet.only(*COUNTED, "counting").after("counting")
        assert len(run.graphs) == 8
        assert said == []
        model = run.tried._orig_mod
        plain = copy.deepcopy(model)
        with no_error():
            for _ in range(3):
                batch = torch.rand(32, 4)
                assert torch.equal(run.tried(batch), plain(batch))
                assert len(run.graphs) == 8
                assert len(said) == 1
    assert said[0].startswith("torch._dynamo hit config.recompile_limit (8)")
    assert model.calls == plain.calls == 11


def test_the_limit_ends_compiling__but_not_without_a_counter(snippet, fails):
    """Without the counter, one graph is enough, so the limit is not
    reached.
    """
    edited = snippet.edit(COUNTS, f"pass\n{FORWARD}")
    fails(test_the_limit_ends_compiling, edited)


def test_the_limit_ends_compiling__ends_with_fullgraph(snippet, fails):
    """With `fullgraph=True`: the call beyond the limit raises an error."""
    edited = snippet.edit(
        "backend=keep_graph,", "backend=keep_graph, fullgraph=True,"
    )
    fails(test_the_limit_ends_compiling, edited)


def test_a_counter_recompiles__also_if_it_counts_down_and_is_used(snippet):
    new = f"self.calls -= 3; x = x + self.calls\n{FORWARD}"
    test_a_counter_recompiles(snippet.edit(COUNTS, new))


@edits(
    (COUNTS, f"pass\n{FORWARD}"),
    (COUNTS, f"x = x + self.calls\n{FORWARD}"),
)
def test_a_counter_recompiles__but_not(snippet, fails, old, new):
    """Without the counter, or if `forward` only reads it, one graph is
    enough.
    """
    fails(test_a_counter_recompiles, snippet.edit(old, new))


def test_a_buffer_can_count(snippet):
    run = snippet.only(*COUNTED, TENSOR).after(TENSOR)
    assert len(run.graphs) == 1
    assert run.tried.calls == 8

    model = run.Buffered()
    called = run.counted(model)
    for call in range(1, 12):
        batch = torch.rand(32, 4)
        assert torch.equal(called(batch), model.layer(batch))
        assert model.calls == call
        assert dict(model.named_buffers())["calls"] == call
    for many in (2**8, 2**24):  # where small integers and floats stop
        model.calls.fill_(many)
        called(torch.rand(32, 4))
        assert model.calls.item() == many + 1
    assert len(run.graphs) == 1


def test_a_buffer_can_count__but_not_a_number(snippet, fails):
    """With a Python number in its place, each of the eight calls makes a
    graph.
    """
    other = snippet.edit(
        'self.register_buffer("calls", torch.tensor(0))', "self.calls = 0"
    ).edit("tried.calls.item()", "tried.calls")

    fails(test_a_buffer_can_count, other)


class Block(nn.Module):
    """A block of a model, with a width of its own."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        """Return the outputs of the layer."""
        return self.layer(x).relu()


class Other(Block):
    """A block with another forward pass."""

    def forward(self, x):
        """Return the outputs of the layer."""
        return self.layer(x).tanh()


def test_blocks_share_the_limit(snippet, second=Block):
    run = snippet.only(*COUNTED).after("counted")
    run.counted(torch.sin)
    with no_error():
        for number in range(12):
            width = 4 + number
            block = (second if number % 2 else Block)(width)
            block.compile(backend=run.keep_graph)
            block(torch.rand(3, width))
            assert len(run.graphs) == min(number + 1, 8)


def test_blocks_share_the_limit__but_not_if_all_is_forgotten(snippet, fails):
    """If each new graph makes it forget the earlier ones, the limit is never
    reached.
    """
    edited = snippet.edit(
        "    graphs.append(graph)\n",
        "    graphs[:] = [graph]\n",
    )
    fails(test_blocks_share_the_limit, edited)


def test_blocks_share_the_limit__also_by_the_function(snippet):
    run = snippet.only(*COUNTED).after("counted")
    run.counted(torch.sin)
    with graphs_at_most(3):
        for width in range(4, 9):
            torch.compile(Block(width), backend=run.keep_graph)(
                torch.rand(3, width)
            )
    assert len(run.graphs) == 3


def test_blocks_share_the_limit__ends_for_two_classes(snippet, fails):
    """For blocks of two classes: they do not share it, and together have more
    than eight.
    """
    fails(test_blocks_share_the_limit, snippet, Other)


def test_blocks_share_the_limit__ends_with_another_limit(snippet, fails):
    """With another `torch._dynamo.config.recompile_limit`, here 3: they share
    fewer than eight.
    """
    with graphs_at_most(3):
        fails(test_blocks_share_the_limit, snippet)


NUMBERS = {
    "numbers in a row": range(1, 12),
    "both signs": [7, 1, 0, -3, 8, 9],
    "floats": [1.5, -2.5, 0.25, 7.0, 1e9],
}


def test_numbers_make_two_graphs(snippet, numbers=range(2, 14)):
    run = snippet.only(*COUNTED).after("counted")
    batch = torch.rand(32, 4)

    called = run.counted(lambda x, factor: x * factor + factor)
    for met, number in enumerate(numbers, 1):
        assert torch.equal(called(batch, number), batch * number + number)
        assert len(run.graphs) == min(met, 2)


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_make_two_graphs__also_of(snippet, kind):
    test_numbers_make_two_graphs(snippet, NUMBERS[kind])


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param([1, 2.0, 3, 4.0], id="for integers and floats"),
        pytest.param([True, False, 2, 3], id="for booleans"),
    ],
)
def test_numbers_make_two_graphs__ends(snippet, fails, numbers):
    """For integers and floats in turn, or for booleans: there is a third
    graph.
    """
    fails(test_numbers_make_two_graphs, snippet, numbers)


def test_each_string_recompiles(snippet, texts=("sum", "mean", "amax", "std")):
    run = snippet.only(*COUNTED).after("counted")
    batch = torch.rand(32, 4)

    called = run.counted(lambda x, name: x * len(name))
    for met, text in enumerate(texts, 1):
        for _ in range(2):
            assert torch.equal(called(batch, text), batch * len(text))
            assert len(run.graphs) == met


def test_each_string_recompiles__but_not_if_told_to_run_uncompiled(
    snippet, fails
):
    """With the stance `eager_on_recompile`, a new string runs uncompiled
    instead.
    """
    fails(test_each_string_recompiles, never_recompiled(snippet))


@pytest.mark.parametrize(
    "texts",
    [("", "x"), ("one", "two")],
    ids=["other lengths", "one length"],
)
def test_each_string_recompiles__also_for(snippet, texts):
    test_each_string_recompiles(snippet, texts)


def test_each_string_recompiles__ends_for_one_met_before(snippet, fails):
    """For a string that it has met before: nothing recompiles."""
    fails(test_each_string_recompiles, snippet, ("sum", "mean", "sum"))


def test_numbers_make_two_graphs__but_not_if_static(snippet, fails):
    """With `dynamic=False`, the third number recompiles as well."""
    other = snippet.edit(
        "backend=keep_graph,", "backend=keep_graph, dynamic=False,"
    )

    fails(test_numbers_make_two_graphs, other)


# Data-dependent branching


def test_a_question_splits_the_graph(snippet, function=None):
    cells = COUNTED if function else (*COUNTED, "asks")
    run = snippet.only(*cells).after(cells[-1])
    if function is None:
        function = run.shares
        assert len(run.graphs) == 2

    for x in (torch.rand(32, 4), torch.ones(3, 2)):
        called = run.counted(function)
        assert torch.equal(called(x), function(x))
        assert len(run.graphs) == 2


def test_a_question_splits_the_graph__also_for_a_print_and_another_if(snippet):
    def prints(x):
        x = x * 2
        print("half of the way")
        return x + 1

    def asks_elsewhere(x):
        x = x.exp()
        if x[0, 0] > x[-1, -1] + 1e6:
            return x - 1
        return x * 3

    for function in (prints, asks_elsewhere):
        test_a_question_splits_the_graph(snippet, function)


def test_a_question_splits_the_graph__ends_with_capture_scalar_outputs(
    snippet, fails
):
    """With `torch._dynamo.config.capture_scalar_outputs = True`: `item()` no
    longer breaks the graph.
    """

    def scaled(x):
        return x * x.sum().item() + 1

    test_a_question_splits_the_graph(snippet, scaled)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        fails(test_a_question_splits_the_graph, snippet, scaled)


def test_a_question_splits_the_graph__but_not_of_a_shape(snippet, fails):
    """An `if` on the number of dimensions is decided while compiling, so there
    is one graph.
    """
    other = snippet.edit("    if total > 0:", "    if x.ndim > 0:")

    fails(test_a_question_splits_the_graph, other)


def test_fullgraph_names_the_line(snippet):
    run = snippet.only(*COUNTED, "asks", "whole").after("whole")
    assert "if total > 0:" in str(run.refused)
    assert run.graphs == []

    def prints(x):
        x = x * 2
        print("half of the way")
        if x.sum() > 0:
            x = x + 1
        return x

    with pytest.raises(RuntimeError) as met:
        run.counted(prints, fullgraph=True)(torch.rand(3))
    assert 'print("half of the way")' in str(met.value)
    assert "x.sum()" not in str(met.value)


def test_fullgraph_names_the_line__but_not_by_default(snippet, fails):
    """Without `fullgraph=True`, it raises nothing: the error here is raised by
    hand.
    """
    other = snippet.edit(
        "counted(shares, fullgraph=True)(batch)",
        "counted(shares)(batch); raise RuntimeError",
    )

    fails(test_fullgraph_names_the_line, other)


DIVIDED = (*COUNTED, "heard", "item", "item-kept")


def test_item_breaks_the_graph(snippet, function=None):
    cells = COUNTED if function else DIVIDED
    run = snippet.only(*cells).after(cells[-1])
    assert len(run.graphs) == (function is None)

    for x in (torch.rand(32, 4), torch.ones(3, 2)):
        called = run.counted(function or run.divided)
        assert torch.equal(called(x), (function or run.divided)(x))
        assert len(run.graphs) == 2
    if function:
        return
    called = run.counted(run.divided_by_tensor, fullgraph=True)
    for x in (torch.rand(32, 4), -torch.rand(32, 4), torch.rand(32, 4) * 1e4):
        assert torch.allclose(called(x), run.divided(x))
        assert len(run.graphs) == 1


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x * float(x.mean()), id="float()"),
        pytest.param(lambda x: x - x[0].tolist()[0], id="tolist()"),
    ],
)
def test_item_breaks_the_graph__also_with(snippet, function):
    test_item_breaks_the_graph(snippet, function)


def test_item_breaks_the_graph__but_not_without_it(snippet, fails):
    """Without `item()`, the sum stays a tensor, and there is one graph."""
    other = snippet.edit("x.sum().item()", "x.sum()")
    fails(test_item_breaks_the_graph, other)


def test_item_breaks_the_graph__ends_with_capture_scalar_outputs(
    snippet, fails
):
    """With `torch._dynamo.config.capture_scalar_outputs = True`: the number
    stays in the graph.
    """
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        fails(test_item_breaks_the_graph, snippet)


@pytest.mark.skipif(
    older(torch.__version__, "2.12"), reason="an error before torch 2.12"
)
def test_item_breaks_the_graph__ends_with_fullgraph(snippet, fails):
    """With `fullgraph=True`: the number stays in the graph, and no error
    names the line.
    """
    other = snippet.edit(
        "backend=keep_graph, **options",
        "backend=keep_graph, **options | {'fullgraph': True}",
    )
    fails(test_item_breaks_the_graph, other)


@edits(
    ("return x / x.sum()", "return x / x.sum().item()"),
    ("return x / x.sum()", "return x / x.mean()"),
)
def test_item_breaks_the_graph__but_not(snippet, fails, old, new):
    """With `item()` in its place, the sum breaks the graph as well; the mean
    gives other numbers.
    """
    fails(test_item_breaks_the_graph, snippet.edit(old, new))


def test_where_keeps_one_graph(snippet, scale=1, more=()):
    run = snippet.only(*COUNTED, "asks", "chosen").after("chosen")
    assert len(run.graphs) == 1
    called = run.counted(run.chosen_shares, fullgraph=True)

    for x in (scale * torch.rand(32, 4), -scale * torch.rand(32, 4), *more):
        for y in (x, x.clone().requires_grad_()):
            assert torch.equal(called(y), run.shares(y))
        [here] = torch.autograd.grad(called(y).square().sum(), y)
        [there] = torch.autograd.grad(run.shares(y).square().sum(), y)
        assert torch.allclose(here, there)
    for x in (torch.rand(32, 4) - 0.3, torch.zeros(32, 4)):
        assert torch.equal(called(x), run.shares(x))
    assert len(run.graphs) == 2  # one for each kind of tensor


def test_where_keeps_one_graph__also_for_large_and_small_inputs(snippet):
    small = torch.rand(32, 4) / 100
    test_where_keeps_one_graph(snippet, 300, [small, -small])


def test_where_keeps_one_graph__ends_for_the_gradient_at_a_sum_of_0(
    snippet, fails
):
    """For the gradient where the sum is 0: it is `nan` with `torch.where`."""
    fails(test_where_keeps_one_graph, snippet, 1, [torch.zeros(32, 4)])


@edits(
    ("torch.where(total > 0, x / total, x)", "x / total"),
    ("torch.where(total > 0,", "torch.where(total < 0,"),
)
def test_where_keeps_one_graph__but_not(snippet, fails, old, new):
    """With `total < 0`, or without `torch.where`, it computes something
    else.
    """
    fails(test_where_keeps_one_graph, snippet.edit(old, new))


PYTHON_BOOLEAN = (
    "Converting a tensor to a Python boolean might cause the trace"
)
TRACED = (*COUNTED, "asks", "chosen", "traced")


def test_a_trace_keeps_one_branch(snippet, scale=-1):
    run = after(snippet, *TRACED)
    assert PYTHON_BOOLEAN in "".join(run.said)
    assert torch.equal(run.traced(run.batch), run.shares(run.batch))

    for x in (scale * run.batch, scale * torch.rand(3, 2)):
        divided = x / x.sum() + 1
        assert torch.allclose(run.traced(x), divided)
        assert not torch.allclose(run.shares(x), divided)
        with warnings.catch_warnings(action="ignore"):
            below = torch.jit.trace(run.shares, x)
        assert torch.equal(below(-x), -x + 1)
        assert not torch.allclose(run.shares(-x), -x + 1)


def test_a_trace_keeps_one_branch__but_not_of_a_where(snippet, fails):
    """`torch.where` is one operation, which chooses anew for each input."""
    other = snippet.edit(
        "torch.jit.trace(shares,", "torch.jit.trace(chosen_shares,"
    )

    other = other.edit("print(said[0])", "print(said)")
    fails(test_a_trace_keeps_one_branch, other)


def test_a_trace_keeps_one_branch__ends_where_the_answer_is_the_same(
    snippet, fails
):
    """If the next input takes the same branch: the trace is right."""
    fails(test_a_trace_keeps_one_branch, snippet, 1)


def test_where_is_traced_right(snippet):
    run = after(snippet, *TRACED, "traced-right")

    for x in (run.batch, -run.batch, torch.rand(3, 2), -torch.rand(3, 2)):
        assert torch.allclose(run.traced_chosen(x), run.shares(x))


def test_where_is_traced_right__but_not_with_an_if(snippet, fails):
    """The trace of the `if` divides, whatever the sign."""
    other = snippet.edit(
        "torch.jit.trace(chosen_shares,", "torch.jit.trace(shares,"
    )

    fails(test_where_is_traced_right, other)
