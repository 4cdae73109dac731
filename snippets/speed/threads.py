"""
Set the number of CPU threads
=============================

An operation on the CPU is split among threads: how many, and who decides.
"""

# %% do-this
import torch

torch.set_num_threads(4)  # the cores that this program may use
print(torch.get_num_threads())

# %% count-threads
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def os_threads():
    tasks, found = Path("/proc/self/task"), None  # of this process (Linux)
    # A list is cut short if a thread ends meanwhile: read on until two agree.
    while found != (found := set(tasks.iterdir())):
        pass
    return found


def started_by(operation):
    before = os_threads()
    operation()
    return len(os_threads() - before)


def threads_for(operation):
    with ThreadPoolExecutor(1, initializer=torch.get_num_threads) as fresh:
        return 1 + fresh.submit(started_by, operation).result()


# %% large
numbers, matrix = torch.rand(1_000_000), torch.rand(512, 512)


def product():
    return matrix @ matrix


used = {}
for n in (1, 4, 2):
    torch.set_num_threads(n)
    used[n] = threads_for(numbers.sum), threads_for(product)
    print(f"set {n}: sum on {used[n][0]}, product on {used[n][1]}")

# %% small
torch.set_num_threads(4)
sizes = [*(2**k for k in range(5, 16)), 32_769, 2**16, 2**17]
for_sum = [threads_for(numbers[:size].sum) for size in sizes]
for_exp = [threads_for(numbers[:size].exp) for size in sizes]

for size, count in zip(sizes[-4:-2], for_sum[-4:-2], strict=True):
    print(f"a sum of {size:,} numbers: {count} thread{'s' * (count > 1)}")

# %% small-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
ax.plot(sizes, for_exp, "s--", color="#D55E00", label="exp")
ax.plot(sizes, for_sum, "o-", color="#0072B2", label="sum")
ax.axvline(32_768, color="gray", linewidth=0.8)
ax.annotate("32,768", (32_768, 2.4), (5, 0), textcoords="offset points")
ax.set(title="Threads of a sum and of exp, with set_num_threads(4)")
ax.set(xlabel="numbers in the tensor", ylabel="threads")
ax.set_xscale("log", base=2)
ax.set_yticks(range(1, 5))
ax.legend()
plt.show()

# %% sums
rows = torch.rand(20, 100_000, generator=torch.Generator().manual_seed(0))


def sums(size, n):
    torch.set_num_threads(n)
    return torch.stack([row[:size].sum() for row in rows])


for size in (32_768, 100_000):
    differ = (sums(size, 1) != sums(size, 2)).sum().item()
    print(f"of {size:,} numbers: {differ} of 20 sums differ")


# %% random
def draw(n):
    torch.set_num_threads(n)
    torch.manual_seed(0)
    dropped = torch.nn.functional.dropout(torch.ones(100_000))
    return torch.rand(100_000), torch.randn(100_000), dropped


drawn = list(zip(draw(1), draw(4), strict=True))
print([torch.equal(one, four) for one, four in drawn])

# %% variables
import os
import subprocess
import sys

program = """
import os
import torch

counts = [torch.get_num_threads()]
os.environ["OMP_NUM_THREADS"] = "4"  # too late
counts.append(torch.get_num_threads())
torch.set_num_threads(3)
counts.append(torch.get_num_threads())
print(*counts)

torch.set_num_interop_threads(2)
try:
    torch.set_num_interop_threads(2)
except RuntimeError as error:
    print(error)
"""
done = subprocess.run(
    [sys.executable, "-c", program],
    env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    capture_output=True,
    text=True,
    check=True,
)
counts, interop_error = done.stdout.splitlines()
print(counts)

# %% info
info = torch.__config__.parallel_info()
print(*info.splitlines()[:2], sep="\n")

# %% workers
from torch.utils.data import DataLoader

torch.set_num_threads(4)
loader = DataLoader(
    range(3),
    num_workers=1,
    multiprocessing_context="fork",
    collate_fn=lambda samples: torch.get_num_threads(),
)
print("in a worker:", list(loader))

# %% forked
from torch import multiprocessing as mp

with mp.get_context("fork").Pool(1) as pool:
    inherited = pool.apply(torch.get_num_threads)
print("in a forked process:", inherited)

# %% three-threads
from threading import Barrier

together = Barrier(3)


def sum_together(_):
    together.wait()  # until all three are here
    return numbers.sum()


before = os_threads()
with ThreadPoolExecutor(3) as pool:
    list(pool.map(sum_together, range(3)))
    at_work = len(os_threads() - before)
print("threads:", at_work)

# %% running
running = ThreadPoolExecutor(1)
running.submit(numbers.sum).result()
torch.set_num_threads(2)
kept = running.submit(torch.get_num_threads).result()

with ThreadPoolExecutor(1) as fresh:
    begun_later = fresh.submit(torch.get_num_threads).result()
running.submit(torch.set_num_threads, 3).result()
running.shutdown()
in_main = torch.get_num_threads()
print("running:", kept, "later:", begun_later, "main:", in_main)

# %% first-product
at_once, after_get = {}, {}
for n in (2, 3):
    torch.set_num_threads(n)
    with ThreadPoolExecutor(1) as fresh:
        at_once[n] = 1 + fresh.submit(started_by, product).result()
    after_get[n] = threads_for(product)
print("at once, 2 and 3 make no difference:", at_once[2] == at_once[3])
print("after get_num_threads:", after_get)

# %% fork-after
torch.set_num_threads(2)
numbers.sum()  # starts a second thread


def child(n):
    torch.set_num_threads(n)
    numbers.sum()


hung = {}
for n, patience in ((1, 60), (2, 1)):
    process = mp.get_context("fork").Process(target=child, args=(n,))
    process.start()
    process.join(patience)
    hung[n] = process.is_alive()
    process.kill()
    process.join()
    print(f"with {n}, it hangs:", hung[n])

# %% interop
print(interop_error)

# %% numpy
from threadpoolctl import threadpool_info, threadpool_limits


def pools(kind):
    info = threadpool_info()
    return [each["num_threads"] for each in info if each["user_api"] == kind]


torch.set_num_threads(2)
blas_before = pools("blas")
torch.set_num_threads(5)
blas_after = pools("blas")
print("NumPy's pool is the same:", blas_before == blas_after)

with threadpool_limits(1, user_api="blas"):
    print("limited to 1:", set(pools("blas")))

# %% predict-sizes
torch.set_num_threads(8)
table = torch.rand(100, 100)
in_table = threads_for(table.sum)
print(in_table)


# %% cores-of
def cores_of(text):
    quota, period = text.split()
    if quota == "max":
        return None
    return max(1, int(quota) // int(period))


# %% cores-of-checked
wanted = {
    "400000 100000": 4,
    "250000 100000": 2,
    "50000 100000": 1,
    "max 100000": None,
}
wrong = [text for text, cores in wanted.items() if cores_of(text) != cores]
print("Not yet:" if wrong else "Right: all four", *wrong)
