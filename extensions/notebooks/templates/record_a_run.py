"""The notebook that records a run: its prose and its cells."""

# %% [markdown]
# # Record a run on your GPU
#
# Proven PyTorch keeps a test behind each of its statements.
# Those about GPUs need one: this notebook runs their tests and measurements on
# yours, shows what passed, and leaves one small file to send.
#
# It works on Colab (*Runtime*, *Change runtime type*, a GPU) and in any other
# Jupyter on a machine with a CUDA device.
# The file names the GPU, its driver, the CPU, and the versions of torch,
# Python and CUDA; it holds no name of yours or of the machine.

# %%
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch

REPOSITORY = ""  # the address of the guide's repository
COMMIT = "main"
MACHINE = ""  # a name such as colab-t4; empty: that of the GPU
DEVICE = "cuda"
TESTS = ["--cuda"]  # only statements about GPUs; empty: all of them
TOPICS = []  # which measurements, such as "speed/timing"; empty: all of them

# %%
if not REPOSITORY:
    raise RuntimeError("set REPOSITORY, above, to the address of the guide")
if DEVICE == "cuda" and not torch.cuda.is_available():
    raise RuntimeError(
        "torch sees no CUDA device: on Colab, choose Runtime, then Change"
        " runtime type, and a GPU"
    )
name = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
machine = MACHINE or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
run = f"{machine}-torch-{torch.__version__.partition('+')[0]}"
print("run:", run)
print("device:", name)
print("torch:", torch.__version__, "Python:", platform.python_version())

# %% [markdown]
# The guide at the commit of the page that offered this notebook, and what its
# tests need besides torch:

# %%
guide = Path("proven-pytorch").resolve()


def command(*words, allowed=(0,)):
    """Run a command in the folder of the guide, and show what it says."""
    where = guide if guide.exists() else None
    process = subprocess.Popen(
        words,
        cwd=where,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for line in process.stdout:
        print(line, end="")
    if process.wait() not in allowed:
        raise RuntimeError(f"ended with {process.returncode}: {words}")


if not guide.exists():
    command("git", "clone", "--quiet", REPOSITORY, str(guide))
command("git", "checkout", "--quiet", COMMIT)
needs = {
    "pytest": "pytest>=9,<10",
    "filelock": "filelock",
    "numpy": "numpy",
    "sklearn": "scikit-learn",
}
if missing := [needs[each] for each in needs if find_spec(each) is None]:
    command(sys.executable, "-m", "pip", "install", "--quiet", *missing)

# %% [markdown]
# The tests. One that fails is part of what is recorded: please send it too.

# %%
python = [sys.executable, "-m"]
folder = f"evidence/{run}"
command(*python, "extensions.evidence.record", folder, *TESTS, allowed=(0, 3))

# %% [markdown]
# The measurements. Let the machine do nothing else meanwhile.

# %%
command(
    *python,
    "extensions.measurements.measure",
    folder,
    *TOPICS,
    f"--device={DEVICE}",
)

# %% [markdown]
# What the tests said:

# %%
sys.path.insert(0, str(guide))
junit = import_module("extensions.evidence.junit")
results = junit.read_run(guide / folder / "tests.xml.gz").results
said = Counter(each.outcome for cases in results.values() for each in cases)
print(", ".join(f"{number} {outcome}" for outcome, number in said.items()))
for (module, test), cases in results.items():
    if any(each.outcome == "failed" for each in cases):
        print("failed:", module, test)

# %% [markdown]
# The file to send. The guide's *CONTRIBUTING* says where to.

# %%
packed = shutil.make_archive(run, "zip", guide / "evidence", run)
print(packed)
if "google.colab" in sys.modules:
    import_module("google.colab.files").download(packed)
