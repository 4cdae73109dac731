"""The claims of docs/speed/threads.md."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from torch import multiprocessing as mp
from torch.nn import functional as F
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits
from extensions.programs.snippet import after
from tests.helpers.worlds import DTYPES, each

# From Python 3.12 on.
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
needs_mkl = pytest.mark.skipif(
    not torch.backends.mkl.is_available(), reason="needs MKL"
)

COUNT = ("do-this", "count-threads")
LARGE = (*COUNT, "large")

SPLIT = {
    "sum": torch.sum,
    "mean": torch.mean,
    "max": torch.max,
    "a sum with a number": lambda x: x + 1,
    "a difference": lambda x: x - x,
    "a multiple": lambda x: 2 * x,
    "a quotient": lambda x: x / 3,
    "relu": torch.relu,
    "clone": torch.clone,
    "exp": torch.exp,
}
DRAWN = {
    "rand": lambda: torch.rand(100_001),
    "randn": lambda: torch.randn(100_001),
    "randint": lambda: torch.randint(10, (100_001,)),
    "randperm": lambda: torch.randperm(100_001),
    "bernoulli": lambda: torch.full((100_001,), 0.3).bernoulli(),
    "dropout": lambda: F.dropout(torch.ones(100_001)),
    "normal_": lambda: torch.empty(100_001).normal_(1, 2),
    "exponential_": lambda: torch.empty(100_001).exponential_(),
    "multinomial": lambda: torch.multinomial(torch.ones(100), 10_000, True),
}


def counted(snippet):
    """Return the function that counts the threads of an operation."""
    return after(snippet, *COUNT).threads_for


# Do this


def test_large_operations_use_what_you_set(snippet, operations=None):
    run = after(snippet, *LARGE)

    assert run.numbers.shape == (1_000_000,)
    assert run.matrix.shape == (512, 512)
    assert run.used == {1: (1, 1), 4: (4, 4), 2: (2, 2)}
    for operation in operations or [run.numbers.sum]:
        torch.set_num_threads(3)
        assert run.threads_for(operation) == 3


@each("operation", SPLIT, *SPLIT)
def test_large_operations_use_what_you_set__also(snippet, operation):
    threads_for = counted(snippet)
    for n in (1, 3, 5):
        torch.set_num_threads(n)
        for shape in ((100_000,), (400, 500)):
            x = torch.rand(shape)
            assert threads_for(lambda x=x: operation(x)) == n


@each("dtype", DTYPES, "float64", "bfloat16", "float16")
def test_large_operations_use_what_you_set__also_of(snippet, dtype):
    threads_for, x = counted(snippet), torch.ones(100_000, dtype=dtype)
    torch.set_num_threads(3)
    assert threads_for(x.sum) == 3


def test_large_operations_use_what_you_set__also_backward(snippet):
    threads_for = counted(snippet)  # sets another number, if it is first
    x = torch.rand(100_000, requires_grad=True)
    torch.set_num_threads(3)
    backward = x.mul(2).sum().backward
    torch.ones(1, requires_grad=True).sum().backward()  # starts its threads
    assert threads_for(backward) == 3
    assert torch.equal(x.grad, torch.full_like(x, 2.0))


@edits(
    ("no call", "    torch.set_num_threads(n)\n    used", "    used"),
    ("a sum of few numbers", "for(numbers.sum)", "for(numbers[:9].sum)"),
    ("a product of few", "return matrix @ matrix", "return matrix[0, 0] * 2"),
)
def test_large_operations_use_what_you_set__but_not(snippet, old, new, fails):
    """Without the call the number stays, and what is small is not split."""
    fails(test_large_operations_use_what_you_set, snippet.edit(old, new))


def test_large_operations_use_what_you_set__ends_for(snippet, fails):
    """`rand`, and `softmax` and `cumsum` of one row, use one thread, whatever
    their size.
    """
    x = torch.rand(100_000)
    for operation in (
        lambda: torch.rand(100_000),
        lambda: x.softmax(0),
        lambda: x.cumsum(0),
    ):
        fails(test_large_operations_use_what_you_set, snippet, [operation])


def test_the_next_operation_follows(snippet):
    run = after(snippet, *LARGE)

    assert list(run.used) == [1, 4, 2]
    assert [n for n, _ in run.used.values()] == [1, 4, 2]


def test_the_next_operation_follows__also_in_one_thread(snippet):
    def follow():
        x, found = torch.rand(100_000), []
        for n in (2, 5, 1, 3):
            torch.set_num_threads(n)
            x.sum()
            found.append(torch.get_num_threads())
        return found

    with ThreadPoolExecutor(1) as fresh:
        assert fresh.submit(follow).result() == [2, 5, 1, 3]
    threads_for, x = counted(snippet), torch.rand(100_000)
    for n in (2, 5, 1, 3):
        torch.set_num_threads(n)
        x.exp()
        assert threads_for(x.sum) == n


@edits(
    (
        "a call before the loop",
        "    torch.set_num_threads(n)\n    used",
        "    used",
    )
)
def test_the_next_operation_follows__but_not_with(snippet, old, new, fails):
    """If the number is set once, all operations use that."""
    fails(test_the_next_operation_follows, snippet.edit(old, new))


# How it works


def test_small_operations_use_one_thread(snippet, operation=None):
    run = after(snippet, *COUNT, "large", "small")

    for size, count in zip(run.sizes, run.for_sum, strict=True):
        assert count == (4 if size > 32_768 else 1)
    assert {32, 512, 32_768, 32_769} < set(run.sizes)
    if operation:
        torch.set_num_threads(3)
        x = torch.rand(32_768)
        assert run.threads_for(lambda: operation(x)) == 1


SMALL = {name: SPLIT[name] for name in SPLIT if name != "exp"}


@each("operation", SMALL, *SMALL)
def test_small_operations_use_one_thread__also(snippet, operation):
    threads_for = counted(snippet)
    for n in (2, 5):
        torch.set_num_threads(n)
        for shape in ((32_768,), (128, 256), (1,)):
            x = torch.rand(shape)
            assert threads_for(lambda x=x: operation(x)) == 1
        x = torch.rand(32_769)
        assert threads_for(lambda x=x: operation(x)) == n


@edits(
    (
        "larger sums",
        "for_sum = [threads_for(numbers[:size].sum)",
        "for_sum = [threads_for(numbers[:size].repeat(9).sum)",
    ),
    (
        "one thread for all",
        "torch.set_num_threads(4)\nsizes",
        "torch.set_num_threads(1)\nsizes",
    ),
)
def test_small_operations_use_one_thread__but_not(snippet, old, new, fails):
    """Nine times the numbers are no longer few; with one thread, large sums
    use one as well.
    """
    fails(test_small_operations_use_one_thread, snippet.edit(old, new))


@needs_mkl
def test_small_operations_use_one_thread__ends_for_exp(snippet, fails):
    """`exp`, `log`, `sin` and `tanh` are split sooner."""
    for operation in (torch.exp, torch.log, torch.sin, torch.tanh):
        fails(test_small_operations_use_one_thread, snippet, operation)


def test_small_operations_use_one_thread__ends_for_others(snippet, fails):
    """`sqrt`, `softmax` and `layer_norm` are split sooner."""
    for operation in (
        torch.sqrt,
        lambda x: x.view(128, 256).softmax(1),
        lambda x: F.layer_norm(x.view(128, 256), (256,)),
    ):
        fails(test_small_operations_use_one_thread, snippet, operation)


def test_small_operations_use_one_thread__ends_with_dim(snippet, fails):
    """With `dim`, a sum of 32,768 numbers is split already."""
    for dim in (0, 1):
        fails(
            test_small_operations_use_one_thread,
            snippet,
            lambda x, dim=dim: x.view(128, 256).sum(dim),
        )


def test_two_shares_for_up_to_65536(snippet, size=65_536):
    run = after(snippet, *COUNT, "sums")

    for few in (32_769, 40_000, size):
        two = run.sums(few, 2)
        for n in (3, 4, 8):
            assert torch.equal(two, run.sums(few, n))
    assert not torch.equal(run.sums(size, 1), two)


@pytest.mark.parametrize("shape", [(256, 256), (16, 64, 64)])
def test_two_shares_for_up_to_65536__also_in(shape):
    generator = torch.Generator().manual_seed(1)
    tensors = torch.randn(20, *shape, generator=generator)
    found = []
    for n in (2, 3, 8):
        torch.set_num_threads(n)
        found.append([each.sum() for each in tensors])
    assert found[0] == found[1] == found[2]


def test_two_shares_for_up_to_65536__but_not_for_more(snippet, fails):
    """With 100,000 numbers, a third thread has a share of its own."""
    fails(test_two_shares_for_up_to_65536, snippet, 100_000)


@edits(("fewer numbers", "row[:size].sum()", "row[:32_768].sum()"))
def test_two_shares_for_up_to_65536__but(snippet, old, new, fails):
    """Up to 32,768 numbers are one share."""
    fails(test_two_shares_for_up_to_65536, snippet.edit(old, new))


@needs_mkl
def test_exp_is_split_sooner(snippet, functions=(torch.exp,)):
    run = after(snippet, *COUNT, "large", "small")

    found = dict(zip(run.sizes, run.for_exp, strict=True))
    few = [size for size in found if 4096 <= size <= 32_768]
    assert [found[size] for size in few] == [4] * 4
    torch.set_num_threads(3)
    for function in (*functions, torch.log, torch.sin, torch.tanh):
        x = torch.rand(4096)
        assert run.threads_for(lambda: function(x)) == 3  # noqa: B023


@edits(("a sum", "(numbers[:size].exp)", "(numbers[:size].sum)"))
def test_exp_is_split_sooner__but_not(snippet, old, new, fails):
    """A sum of so few numbers is not split."""
    fails(test_exp_is_split_sooner, snippet.edit(old, new))


def test_exp_is_split_sooner__ends_for_pow(snippet, fails):
    """`sigmoid` and `pow` are split from 32,769 numbers on, like sums."""
    for function in (torch.sigmoid, lambda x: x**2.5):
        fails(test_exp_is_split_sooner, snippet, [function])


def differing(run, size, n, other):
    """Return how many of the sums differ with another number of threads."""
    return (run.sums(size, n) != run.sums(size, other)).sum().item()


def test_large_sums_end_differently(snippet, dtype=torch.float32):
    run = after(snippet, *COUNT, "sums")

    assert run.rows.shape == (20, 100_000)
    one, two = run.sums(100_000, 1), run.sums(100_000, 2)
    assert run.differ == (one != two).sum() >= 2
    assert (one / two - 1).abs().max() < 1e-6
    rows = run.rows.to(dtype)
    found = []
    for n in (1, 2):
        torch.set_num_threads(n)
        found.append(torch.stack([row.sum() for row in rows]))
    assert not torch.equal(*found)


@pytest.mark.parametrize("n", [3, 4], ids="{} threads".format)
@each("dtype", DTYPES, "float32", "float64")
def test_large_sums_end_differently__also_with(n, dtype):
    generator = torch.Generator().manual_seed(n)
    rows = torch.rand(20, 100_000, dtype=dtype, generator=generator)
    found = []
    for count in (1, n, n):
        torch.set_num_threads(count)
        found.append(torch.stack([row.sum() for row in rows]))
    assert (found[0] != found[1]).sum() >= 2
    assert torch.equal(found[1], found[2])


@edits(
    ("one thread", "sums(size, 2)", "sums(size, 1)"),
    ("whole numbers", "manual_seed(0))", "manual_seed(0)).round()"),
)
def test_large_sums_end_differently__but_not_with(snippet, old, new, fails):
    """The same number of threads gives the same bits, and sums of whole
    numbers are exact.
    """
    fails(test_large_sums_end_differently, snippet.edit(old, new))


def test_large_sums_end_differently__ends_for_integers(snippet, fails):
    """Sums of integers are exact with any number of threads."""
    fails(test_large_sums_end_differently, snippet, torch.int64)


def test_large_sums_end_differently__ends_with_as_many_shares(snippet, fails):
    """From two threads to four, sums of up to 65,536 numbers keep their bits:
    they have two shares in both cases.
    """
    numbers = "return torch.stack([row[:size].sum() for row in rows])"
    fewer = "return torch.stack([row[:65_536].sum() for row in rows])"
    edited = snippet.edit(numbers, fewer).edit(
        "sums(size, 1)", "sums(size, 4)"
    )
    fails(test_large_sums_end_differently, edited)


def test_small_sums_keep_their_bits(snippet, size=32_768):
    run = after(snippet, *COUNT, "sums")

    for n in (2, 3, 4):
        for few in (1, 1000, size):
            assert differing(run, few, 1, n) == 0


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_small_sums_keep_their_bits__also_from(seed):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(20, 32_768, generator=generator)
    found = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        found.append([(row.sum(), row.mean(), row.std()) for row in rows])
    assert found[0] == found[1] == found[2]


def test_small_sums_keep_their_bits__but_not_larger(snippet, fails):
    """From 32,769 numbers on, a sum may be split."""
    fails(test_small_sums_keep_their_bits, snippet, 100_000)


@needs_mkl
def test_small_sums_keep_their_bits__ends_in_products(snippet, fails):
    """The product of two vectors may be split sooner, and then ends in other
    digits.
    """
    whole, product = "row[:size].sum()", "row[:size] @ row[:size]"
    fails(test_small_sums_keep_their_bits, snippet.edit(whole, product))


def test_random_numbers_stay(snippet):
    run = after(snippet, *COUNT, "random")

    one, four = run.draw(1), run.draw(4)
    assert len(one) == 3
    assert [len(drawn.unique()) > 1 for drawn in one] == [True] * 3
    for drawn, again in zip(one, four, strict=True):
        assert torch.equal(drawn, again)
    for drawn, again in run.drawn:
        assert torch.equal(drawn, again)
    assert torch.equal(run.drawn[0][0], one[0])


@each("draw", DRAWN, *DRAWN)
def test_random_numbers_stay__also_from(draw):
    found = []
    for n in (1, 2, 3, 8):
        torch.set_num_threads(n)
        torch.manual_seed(1)
        found.append(draw())
    for other in found[1:]:
        assert torch.equal(found[0], other)


@edits(
    (
        "a seed for each",
        "manual_seed(0)\n    dropped",
        "manual_seed(n)\n    dropped",
    ),
    ("no seed", "    torch.manual_seed(0)\n    dropped", "    dropped"),
)
def test_random_numbers_stay__but_not_with(snippet, old, new, fails):
    """With another seed, or none, the numbers are others."""
    fails(test_random_numbers_stay, snippet.edit(old, new))


# The variables


def variables(snippet):
    """Run the program that is started with the variables."""
    return after(snippet, "do-this", "variables")


MANY = 500


@cache
def number_in(method):
    """Return the number of threads of a process that is started so.

    The main process has one more than many, and what it starts later finds
    the variables set to many.
    """
    torch.set_num_threads(MANY + 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OMP_NUM_THREADS", str(MANY))
        patched.setenv("MKL_NUM_THREADS", str(MANY))
        patched.setenv("MKL_DYNAMIC", "TRUE")  # the default
        with mp.get_context(method).Pool(1) as pool:
            return pool.apply(torch.get_num_threads)


def test_the_variable_is_read_at_import(snippet, method="fork", found=None):
    run = variables(snippet)
    first, second, _ = run.counts.split()

    later = run.program.partition("import torch\n")[2]
    assert 'os.environ["OMP_NUM_THREADS"] = "4"' in later
    assert (first, second) == ("1", "1")
    assert number_in(method) == MANY + 1  # it has torch from its parent
    assert found in (None, MANY)


# One edit, and so one run of the program, for the three claims about it.
IN_TIME_WITHOUT_CALLS = (
    """import os
import torch

counts = [torch.get_num_threads()]
os.environ["OMP_NUM_THREADS"] = "4"  # too late
counts.append(torch.get_num_threads())
torch.set_num_threads(3)
counts.append(torch.get_num_threads())
print(*counts)

torch.set_num_interop_threads(2)
try:
    torch.set_num_interop_threads(2)""",
    """import os
os.environ |= {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}
os.environ["MKL_DYNAMIC"] = "FALSE"
import torch

counts = [torch.get_num_threads()]
counts.append(torch.get_num_threads())
counts.append(torch.get_num_threads())
print(*counts)

try:
    raise RuntimeError(torch.get_num_interop_threads())""",
)


def test_the_variable_is_read_at_import__but_not_in_time(snippet, fails):
    """Set before the import, the variable counts."""
    edited = snippet.edit(*IN_TIME_WITHOUT_CALLS)
    fails(test_the_variable_is_read_at_import, edited)


@needs_mkl
def test_the_variable_is_read_at_import__ends_above_the_cores(snippet, fails):
    """A variable above the number of physical cores is cut to that number."""
    found = number_in("spawn")
    fails(test_the_variable_is_read_at_import, snippet, "fork", found)


def test_the_variable_is_read_at_import__ends_in_a_child(snippet, fails):
    """A process that is spawned later imports torch anew, with what is set
    then.
    """
    fails(test_the_variable_is_read_at_import, snippet, "spawn")


def test_set_num_threads_wins(snippet):
    assert variables(snippet).counts.split()[2] == "3"


def test_set_num_threads_wins__also_above_the_cores():
    torch.set_num_threads(500)
    assert torch.get_num_threads() == 500


def test_set_num_threads_wins__but_not_without_the_call(snippet, fails):
    """Without the call, the variable decides."""
    fails(test_set_num_threads_wins, snippet.edit(*IN_TIME_WITHOUT_CALLS))


def test_interop_is_set_once(snippet):
    text = variables(snippet).interop_error

    assert "cannot set number of interop threads" in text
    assert "set_num_interop_threads called" in text


def test_interop_is_set_once__but_not_if_it_is_only_read(snippet, fails):
    """Without the calls, there is no such error."""
    fails(test_interop_is_set_once, snippet.edit(*IN_TIME_WITHOUT_CALLS))


# Processes and threads


def test_workers_use_one_thread(snippet, options=None):
    run = after(snippet, *COUNT, "workers")

    assert list(run.loader) == [1, 1, 1]
    assert run.loader.num_workers == 1
    torch.set_num_threads(3)
    common = {"num_workers": 1, "multiprocessing_context": "fork"}
    number = DataLoader(
        range(3),
        collate_fn=lambda _: torch.get_num_threads(),
        **common | (options or {}),
    )
    assert list(number) == [1, 1, 1]


@edits(
    (
        "no workers",
        'num_workers=1,\n    multiprocessing_context="fork",',
        "num_workers=0,",
    )
)
def test_workers_use_one_thread__but_not_with(snippet, old, new, fails):
    """Without workers, the main process loads, with its own number."""
    fails(test_workers_use_one_thread, snippet.edit(old, new))


def two_threads(_):
    """Let a worker use two threads."""
    torch.set_num_threads(2)


def test_workers_use_one_thread__ends_with_worker_init_fn(snippet, fails):
    """A `worker_init_fn` that calls `set_num_threads` has the last word."""
    options = {"worker_init_fn": two_threads}
    fails(test_workers_use_one_thread, snippet, options)


def test_forked_processes_inherit(snippet, spawn="spawn"):
    run = after(snippet, *COUNT, "workers", "forked")

    assert run.inherited == 4
    assert number_in("fork") == MANY + 1
    assert number_in(spawn) <= MANY  # its own number, from the variables


@edits(
    (
        "a call in the process",
        "Pool(1) as pool",
        "Pool(1, torch.set_num_threads, (1,)) as pool",
    )
)
def test_forked_processes_inherit__but_not_with(snippet, old, new, fails):
    """A process that calls `set_num_threads` uses its own number."""
    fails(test_forked_processes_inherit, snippet.edit(old, new))


def test_forked_processes_inherit__but_not_spawned(snippet, fails):
    """Forked instead of spawned, a process does not begin anew."""
    fails(test_forked_processes_inherit, snippet, "fork")


def test_each_python_thread_has_helpers(snippet):
    run = after(snippet, *LARGE, "workers", "three-threads")
    assert run.together.parties == 3
    assert run.at_work == 12 == 3 * 4


@pytest.mark.parametrize("count", [2, 4], ids="{} Python threads".format)
def test_each_python_thread_has_helpers__also_with(snippet, count):
    edited = snippet.edit("Barrier(3)", f"Barrier({count})")
    edited = edited.edit(
        "ThreadPoolExecutor(3)", f"ThreadPoolExecutor({count})"
    )
    edited = edited.edit(
        "sum_together, range(3)", f"sum_together, range({count})"
    )
    run = after(edited, *LARGE, "workers", "three-threads")
    assert run.at_work == count * 4


@edits(
    (
        "one thread",
        "torch.set_num_threads(4)\nloader",
        "torch.set_num_threads(1)\nloader",
    ),
    (
        "small sums",
        "return numbers.sum()\n\n\nbefore",
        "return numbers[:99].sum()\n\n\nbefore",
    ),
)
def test_each_python_thread_has_helpers__but(snippet, old, new, fails):
    """What uses one thread starts no helpers."""
    fails(test_each_python_thread_has_helpers, snippet.edit(old, new))


RUNNING = (*LARGE, "workers", "running")


def test_running_threads_keep_their_number(snippet):
    run = after(snippet, *RUNNING)

    assert run.kept == 4
    assert run.begun_later == 2
    assert run.in_main == 2


def test_running_threads_keep_their_number__also_in_sums(snippet):
    threads_for, x = counted(snippet), torch.rand(100_000)
    torch.set_num_threads(3)
    with ThreadPoolExecutor(1) as running:
        running.submit(x.sum).result()
        torch.set_num_threads(1)
        assert running.submit(torch.get_num_threads).result() == 3
        assert threads_for(x.sum) == 1
        running.submit(torch.set_num_threads, 2).result()
        assert torch.get_num_threads() == 1
        assert threads_for(x.sum) == 2  # a later thread takes the last number


@edits(
    (
        "a call in the thread",
        "torch.set_num_threads(2)\nkept",
        "running.submit(torch.set_num_threads, 2).result()\nkept",
    ),
    ("a small sum", "submit(numbers.sum)", "submit(numbers[:9].sum)"),
    (
        "a call in the main thread",
        "running.submit(torch.set_num_threads, 3).result()",
        "torch.set_num_threads(3)",
    ),
)
def test_running_threads_keep_their_number__but(snippet, old, new, fails):
    """A thread follows a call of its own; after small operations alone, it
    still takes the number that another thread sets.
    """
    fails(test_running_threads_keep_their_number, snippet.edit(old, new))


FIRST = (*LARGE, "first-product")


@needs_mkl
def test_a_first_product_ignores_the_call(snippet):
    run = after(snippet, *FIRST)

    assert run.at_once[2] == run.at_once[3]
    assert run.after_get == {2: 2, 3: 3}


@needs_mkl
@pytest.mark.parametrize("layer", ["Linear", "product of batches"])
def test_a_first_product_ignores_the_call__also_in(snippet, layer):
    run = after(snippet, *COUNT)
    if layer == "Linear":
        model, x = torch.nn.Linear(512, 512), torch.rand(32, 512)
    else:
        model, x = torch.bmm, torch.rand(8, 128, 128)

    def forward():
        with torch.no_grad():
            model(x) if layer == "Linear" else model(x, x)

    found = []
    for n in (2, 3):
        torch.set_num_threads(n)
        with ThreadPoolExecutor(1) as fresh:
            found.append(fresh.submit(run.started_by, forward).result())
        assert run.threads_for(forward) == n
    assert found[0] == found[1]


@needs_mkl
@pytest.mark.parametrize("first", ["product()", "numbers[:9].sum()"])
def test_a_first_product_ignores_the_call__also_after(snippet, first):
    run = after(snippet, *LARGE)
    code = compile(first, "first", "eval")
    found = []
    for n in (2, 3):
        torch.set_num_threads(n)
        with ThreadPoolExecutor(1) as fresh:
            before = fresh.submit(run.os_threads).result()
            fresh.submit(eval, code, vars(run)).result()
            fresh.submit(run.product).result()
            found.append(len(run.os_threads() - before))
    assert found[0] == found[1]


@needs_mkl
@edits(
    (
        "get_num_threads as initializer",
        "    with ThreadPoolExecutor(1) as fresh:\n        at_once",
        "    with ThreadPoolExecutor(1, initializer=torch.get_num_threads)"
        " as fresh:\n        at_once",
    ),
    (
        "no initializer at all",
        "ThreadPoolExecutor(1, initializer=torch.get_num_threads)",
        "ThreadPoolExecutor(1)",
    ),
    (
        "a large sum first",
        "submit(started_by, product).result()",
        "submit(started_by, lambda: numbers.sum() + product()).result()",
    ),
)
def test_a_first_product_ignores_the_call__but(snippet, old, new, fails):
    """Once the thread has called `get_num_threads`, or has split a sum, its
    products use what is set; else they do not.
    """
    fails(test_a_first_product_ignores_the_call, snippet.edit(old, new))


# Fork


FORKED = (*LARGE, "forked", "fork-after")


def after_fork(snippet):
    """Run the cell that forks, without the pool of the cell before."""
    return after(
        snippet.edit(
            'with mp.get_context("fork").Pool(1) as pool:\n'
            "    inherited = pool.apply(torch.get_num_threads)\n"
            'print("in a forked process:", inherited)',
            "",
        ),
        *FORKED,
    )


def test_a_forked_child_hangs(snippet):
    assert after_fork(snippet).hung[2] is True


@pytest.mark.parametrize("operation", ["product()", "numbers.exp()"])
def test_a_forked_child_hangs__also_in(snippet, operation):
    old = "    numbers.sum()\n\n\nhung"
    edited = snippet.edit(old, f"    {operation}\n\n\nhung")
    assert after_fork(edited.edit("((1, 60), (2, 1))", "((2, 0.5),)")).hung[2]


def test_a_forked_child_hangs__also_while_a_later_one_runs(snippet):
    run = after_fork(snippet)
    torch.set_num_threads(2)
    run.numbers.sum()
    fork = mp.get_context("fork")
    first, later = (fork.Process(target=run.child, args=(n,)) for n in (2, 1))
    first.start()
    later.start()
    later.join(60)
    found = first.is_alive(), later.is_alive()
    for process in (first, later):
        process.kill()
        process.join()
    assert found == (True, False)


IN_NEW_THREAD = (
    "    process.start()\n",
    "    with ThreadPoolExecutor(1) as fresh:\n"
    "        fresh.submit(process.start).result()\n",
)


def test_a_forked_child_hangs__but_not_from_a_new_thread(snippet, fails):
    """Forked from a Python thread that has split no operation yet, the child
    runs.
    """
    edited = snippet.edit(*IN_NEW_THREAD).edit("(2, 1))", "(2, 60))")
    fails(test_a_forked_child_hangs, edited)


def test_a_forked_child_hangs__ends_if_the_parent_goes_back_to_one(
    snippet, fails
):
    """If the parent calls `set_num_threads(1)` before it forks, the child
    inherits that, and runs.
    """
    edited = snippet.edit(
        "numbers.sum()  # starts a second thread\n",
        "numbers.sum()\ntorch.set_num_threads(1)\n",
    ).edit(
        "    torch.set_num_threads(n)\n    numbers.sum()\n\n\nhung",
        "    numbers.sum()\n\n\nhung",
    )
    fails(test_a_forked_child_hangs, edited.edit("(2, 1))", "(2, 60))"))


@edits(
    (
        "a small sum",
        "    numbers.sum()\n\n\nhung",
        "    numbers[:99].sum()\n\n\nhung",
    )
)
def test_a_forked_child_hangs__but_not_in(snippet, old, new, fails):
    """What is too small to be split does not hang."""
    edited = snippet.edit(old, new).edit("(2, 1))", "(2, 60))")
    fails(test_a_forked_child_hangs, edited)


def test_one_thread_in_the_child_works(snippet):
    assert after_fork(snippet).hung[1] is False


def test_one_thread_in_the_child_works__but_not_two(snippet, fails):
    """With two threads in the child, it hangs as well."""
    edited = snippet.edit("((1, 60), (2, 1))", "((1, 1),)")
    edited = edited.edit("args=(n,)", "args=(2,)")
    fails(test_one_thread_in_the_child_works, edited)


# Other libraries


def test_numpy_has_its_own_threads(snippet):
    run = after(snippet, *COUNT, "numpy")

    assert len(run.blas_before) >= 1
    assert run.blas_after == run.blas_before
    torch.set_num_threads(7)
    assert run.pools("blas") == run.blas_before
    assert 7 in run.pools("openmp")


def test_numpy_has_its_own_threads__also_limited(snippet):
    """threadpoolctl changes NumPy's threads, and leaves PyTorch's."""
    run = after(snippet, *COUNT, "numpy")
    torch.set_num_threads(3)
    with run.threadpool_limits(1, user_api="blas"):
        assert set(run.pools("blas")) == {1}
        assert torch.get_num_threads() == 3


@edits(
    (
        "PyTorch's pools",
        'blas_after = pools("blas")',
        'blas_after = pools("openmp")',
    ),
)
def test_numpy_has_its_own_threads__but_not(snippet, old, new, fails):
    """PyTorch's own pool follows."""
    fails(test_numpy_has_its_own_threads, snippet.edit(old, new))


# Try it


def test_small_operations_use_one_thread__also_in_a_table(snippet):
    run = after(snippet, *COUNT, "predict-sizes")
    assert run.in_table == 1
    assert torch.get_num_threads() == 8


def test_large_operations_use_what_you_set__also_from_a_limit(snippet):
    run = after(snippet, *COUNT, "cores-of", "cores-of-checked")
    assert run.wrong == []
    assert len(run.wanted) == 4
    x = torch.rand(100_000)
    for text in ("300000 100000", "390000 100000", "150000 50000"):
        torch.set_num_threads(run.cores_of(text))
        assert run.threads_for(x.sum) == 3
    assert run.cores_of("1000 100000") == 1
    assert run.cores_of("max 50000") is None
