"""
It does not install, import or see the GPU
==========================================

Print what decides whether torch fits, and run into the errors.
"""

# %% look
import platform
import sysconfig
from importlib.metadata import metadata

import torch

needed = metadata("torch")["Requires-Python"]
print("Python", platform.python_version(), "on", sysconfig.get_platform())
print("torch", torch.__version__, "for Python", needed)
print("built for CUDA", torch.version.cuda)
print("GPUs that it sees:", torch.cuda.device_count())

# %% run-python
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory


def last_line(*command, **options):
    """Run a command, and return the last line that it printed."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    return (done.stderr + done.stdout).strip().rpartition("\n")[2]


def in_folder(files, *command):
    """Run Python in a folder that holds these files and nothing else."""
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return last_line(sys.executable, *command, cwd=folder)


def found_by_pip(*wheels):
    """Let pip, offline, look for torch 2.15.0 among these wheels."""
    with TemporaryDirectory() as folder:
        for wheel in wheels:
            Path(folder, wheel).touch()
        pip = [sys.executable, "-m", "pip", "--isolated"]
        look = ["download", "--no-index", "--find-links", folder]
        done = subprocess.run(
            [*pip, *look, "torch==2.15.0"],
            capture_output=True,
            text=True,
            env={**os.environ, "PIP_CONFIG_FILE": os.devnull},
        )
    told = done.stderr.partition("satisfies the requirement ")[2]
    return told.partition("\n")[0]


# %% no-wheel
for_another_system = "torch-2.15.0-cp27-none-win32.whl"
for_any_system = "torch-2.8.0-py3-none-any.whl"

none_fits = found_by_pip(for_another_system)
one_fits = found_by_pip(for_another_system, for_any_system)
print(none_fits, one_fits, sep="\n")

# %% elsewhere
import venv

with TemporaryDirectory() as folder:
    venv.create(folder, symlinks=os.name != "nt")
    scripts = "Scripts" if os.name == "nt" else "bin"
    python = str(Path(folder, scripts, "python"))
    elsewhere = last_line(python, "-c", "import torch")

print(elsewhere)

# %% own-file
program = "import torch; print(torch.tensor([1, 2]))"

beside = {
    name: in_folder({"train.py": program, name: ""}, "train.py")
    for name in ("torch.py", "torch/__init__.py", "torch/notes.txt")
}
for name, said in beside.items():
    print(f"{name:18}", said.partition(" (consider")[0])

# %% own-name
named_torch = in_folder({"torch.py": program}, "torch.py")
print(named_torch.partition(" (consider")[0])

# %% no-numpy
without = """
import sys
sys.modules["numpy"] = None  # as if it were not installed
import torch
try:
    print(torch.ones(1).numpy())
except RuntimeError as error:
    print(error)
"""
no_numpy = last_line(sys.executable, "-c", without)
print(no_numpy)

# %% requires
from importlib.metadata import requires

needs = requires("torch")
print(*needs, sep="\n")

# %% no-six
from importlib import import_module

no_six = ""
try:
    import_module("torch._six")
except ModuleNotFoundError as error:
    no_six = str(error)
print(no_six)

# %% no-gpu
no_gpu = ""
try:
    torch.ones(1, device="cuda")
except (AssertionError, RuntimeError) as error:
    no_gpu = str(error)
print(no_gpu.partition(".")[0])

# %% no-mps
no_mps = ""
try:
    torch.ones(1).to("mps")
except RuntimeError as error:
    no_mps = str(error)
print(no_mps)

# %% listed
listed = list(torch.cuda.PYTORCH_RELEASES_CODE_CC)
print(listed)

# %% doubles
import numpy as np

prices = np.array([2.5, 3.0])
dtypes = {
    "NumPy": torch.tensor(prices).dtype,
    "from_numpy": torch.from_numpy(prices).dtype,
    "Python": torch.tensor([2.5, 3.0]).dtype,
    "float()": torch.from_numpy(prices).float().dtype,
}
print(dtypes)

# %% too-late
one = "os.environ['OMP_NUM_THREADS'] = '1'; "
count = "print(min(torch.get_num_threads(), 2))"

first = f"import os; {one}import torch; {count}"
late = f"import os, torch; {one}{count}"
unset = {**os.environ}
unset.pop("OMP_NUM_THREADS", None)
set_before = last_line(sys.executable, "-c", first, env=unset)
set_after = last_line(sys.executable, "-c", late, env=unset)
print("set before the import:", set_before)
print("set after the import:", set_after)

# %% no-operator
no_operator = ""
try:

    @torch.library.register_fake("torchvision::nms")
    def shape_of_result(boxes, scores, threshold):
        return boxes

except RuntimeError as error:
    no_operator = str(error)
print(no_operator)

# %% size
from importlib.metadata import distributions

of_cuda = ("nvidia", "cuda", "triton")
sizes = {
    each.name: sum(file.size or 0 for file in each.files or ()) / 1e9
    for each in distributions()
    if each.name == "torch" or each.name.startswith(of_cuda)
}
print(f"{sum(sizes.values()):.1f} GB, of which torch {sizes['torch']:.1f} GB")
