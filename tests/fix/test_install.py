"""The claims of docs/fix/install.md."""

import os
import platform
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from extensions.evidence.counterexamples import edits
from extensions.evidence.versions import api_since, older
from extensions.programs.snippet import after

# The first release of each row, and the oldest Python that it takes.
OLDEST_PYTHON = {"2.15": "3.11", "2.9": "3.10", "2.5": "3.9"}


def test_a_release_names_its_pythons(snippet, capsys):
    run = snippet.after("look")

    since = next(
        each for each in OLDEST_PYTHON if not older(torch.__version__, each)
    )
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.split()[1] == platform.python_version()
    assert run.needed.removesuffix(".0") == f">={OLDEST_PYTHON[since]}"
    assert second == f"torch {torch.__version__} for Python {run.needed}"


@edits(
    ("of another package", 'metadata("torch")', 'metadata("jinja2")'),
    ("of torch", "platform.python_version()", "torch.__version__"),
)
def test_a_release_names_its_pythons__but_not(
    snippet, capsys, old, new, fails
):
    """Jinja2 takes older Pythons, and the release of torch is not that of
    Python.
    """
    fails(test_a_release_names_its_pythons, snippet.edit(old, new), capsys)


def test_pip_lists_what_fits(snippet):
    run = after(snippet, "run-python", "no-wheel")

    assert run.none_fits == "torch==2.15.0 (from versions: none)"
    assert run.one_fits == "torch==2.15.0 (from versions: 2.8.0)"


@pytest.mark.parametrize(
    "wheel",
    [
        "torch-2.15.0-cp27-none-any.whl",
        "torch-2.15.0-py3-none-musllinux_9_9_x86_64.whl",
        "torch-2.15.0-py3-none-linux_armv6l.whl",
    ],
    ids=["another Python", "another C library", "another processor"],
)
def test_pip_lists_what_fits__also_for(snippet, wheel):
    test_pip_lists_what_fits(
        snippet.edit("torch-2.15.0-cp27-none-win32.whl", wheel)
    )


@edits(
    ("a wheel that fits", "2.15.0-cp27-none-win32", "2.14.0-py3-none-any"),
    ("none that fits", "2.8.0-py3-none-any", "2.8.0-cp27-none-win32"),
)
def test_pip_lists_what_fits__but_not(snippet, old, new, fails):
    """A wheel for any system is listed, and one for Python 2.7 is not."""
    fails(test_pip_lists_what_fits, snippet.edit(old, new))


def test_a_new_environment_has_no_torch(snippet):
    run = after(snippet, "run-python", "elsewhere")

    assert run.elsewhere == "ModuleNotFoundError: No module named 'torch'"


def test_a_new_environment_has_no_torch__but_not_the_old_one(snippet, fails):
    """The Python that runs the program finds its own torch."""
    edited = snippet.edit("last_line(python,", "last_line(sys.executable,")
    fails(test_a_new_environment_has_no_torch, edited)


def test_a_new_environment_has_no_torch__ends_with_a_path(
    snippet, monkeypatch, fails
):
    """With `PYTHONPATH`, a Python looks for packages in that folder too."""
    packages = Path(torch.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", str(packages))
    same = snippet.edit('"import torch")', '"import  torch")')
    fails(test_a_new_environment_has_no_torch, same)


def test_your_own_torch_comes_first(
    snippet, names=("torch.py", "torch/__init__.py")
):
    run = after(snippet, "run-python", "own-file")

    missing = "AttributeError: module 'torch' has no attribute 'tensor'"
    for name in names:
        assert run.beside[name].partition(" (consider")[0] == missing


ALL_THREE = '"torch.py", "torch/__init__.py", "torch/notes.txt"'


def test_your_own_torch_comes_first__but_not_under_another_name(
    snippet, fails
):
    """A file that has another name leaves `import torch` alone."""
    edited = snippet.edit('name: ""}', 'f"mine{name[5:]}": ""}')
    fails(
        test_your_own_torch_comes_first,
        edited.edit(ALL_THREE, '"torch.py",'),
        ["torch.py"],
    )


def test_your_own_torch_comes_first__ends_without_an_init(snippet, fails):
    """A folder `torch` without an `__init__.py` gives way to the package."""
    fails(test_your_own_torch_comes_first, snippet, ["torch/notes.txt"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")
def test_your_own_torch_comes_first__ends_with_p(snippet, fails):
    """`python -P`, since Python 3.11, does not look beside the program."""
    edited = snippet.edit('""}, "train.py")', '""}, "-P", "train.py")')
    fails(
        test_your_own_torch_comes_first,
        edited.edit(ALL_THREE, '"torch.py",'),
        ["torch.py"],
    )


def test_a_program_called_torch_imports_itself(snippet):
    run = after(snippet, "run-python", "own-file", "own-name")

    said = run.named_torch.partition(" (")[0]
    assert said.endswith("module 'torch' has no attribute 'tensor'")


def test_a_program_called_torch_imports_itself__but_not_train(snippet, fails):
    """Under another name, it imports PyTorch."""
    old = 'in_folder({"torch.py": program}, "torch.py")'
    new = 'in_folder({"train.py": program}, "train.py")'
    fails(test_a_program_called_torch_imports_itself, snippet.edit(old, new))


def test_torch_imports_without_numpy(snippet):
    run = after(snippet, "run-python", "no-numpy")

    assert run.no_numpy == "Numpy is not available"


def test_torch_imports_without_numpy__but_not_with_it(snippet, fails):
    """With NumPy, the tensor becomes an array."""
    edited = snippet.edit('sys.modules["numpy"] = None', "sys.modules")
    fails(test_torch_imports_without_numpy, edited)


def test_torch_does_not_bring_numpy(snippet):
    needs = after(snippet, "requires").needs

    assert len(needs) > 5
    assert [each for each in needs if each.startswith("numpy")] == []


def test_torch_does_not_bring_numpy__but_not_matplotlib(snippet, fails):
    """Other packages, such as Matplotlib, do bring it."""
    edited = snippet.edit('requires("torch")', 'requires("matplotlib")')
    fails(test_torch_does_not_bring_numpy, edited)


def test_torch_has_no_six(snippet):
    run = after(snippet, "look", "no-six")

    assert run.no_six == "No module named 'torch._six'"


def test_torch_has_no_six__but_not_nn(snippet, fails):
    """A module that is there, such as `torch.nn`, is imported."""
    fails(test_torch_has_no_six, snippet.edit("torch._six", "torch.nn"))


def test_no_operator_without_the_compiled_part(snippet):
    run = after(snippet, "look", "no-operator")

    assert run.no_operator == "operator torchvision::nms does not exist"


def test_no_operator_without_the_compiled_part__but_not_if_it_is_there(
    snippet, fails
):
    """An operator that is there can be described."""
    there = (
        'library = torch.library.Library("guide", "DEF")\n'
        'library.define("nms(Tensor boxes, Tensor scores) -> Tensor")\n'
    )
    edited = snippet.edit('no_operator = ""\n', f'{there}no_operator = ""\n')
    old, new = '("torchvision::nms")', '("guide::nms", lib=library)'
    fails(test_no_operator_without_the_compiled_part, edited.edit(old, new))


def test_the_error_names_what_is_missing(snippet):
    run = after(snippet, "look", "no-gpu")

    if torch.version.cuda is None:
        assert run.no_gpu == "Torch not compiled with CUDA enabled"
    elif not shutil.which("nvidia-smi"):
        assert run.no_gpu.startswith("Found no NVIDIA driver on your system.")


def test_the_error_names_what_is_missing__but_not_on_the_cpu(snippet, fails):
    """On the CPU, nothing is missing."""
    edited = snippet.edit('device="cuda"', 'device="cpu"')
    fails(test_the_error_names_what_is_missing, edited)


def test_the_error_names_what_is_missing__but_not_of_another_build(
    snippet, monkeypatch, fails
):
    """A build for CUDA that finds no driver says something else than one for
    the CPU.
    """
    other = "13.0" if torch.version.cuda is None else None
    monkeypatch.setattr(torch.version, "cuda", other)
    fails(test_the_error_names_what_is_missing, snippet)


def test_only_a_mac_has_mps(snippet):
    run = after(snippet, "look", "no-mps")

    told = "PyTorch is not linked with support for mps devices"
    assert run.no_mps == ("" if sys.platform == "darwin" else told)


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has it")
def test_only_a_mac_has_mps__also_for_a_model(snippet):
    model = "torch.nn.Linear(1, 1)"
    test_only_a_mac_has_mps(
        snippet.edit('torch.ones(1).to("mps")', f'{model}.to("mps")')
    )


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has it")
def test_only_a_mac_has_mps__ends_with_device(snippet, fails):
    """A tensor made there says `Could not run 'aten::empty…'` instead."""
    old, new = '1).to("mps")', '1, device="mps")'
    fails(test_only_a_mac_has_mps, snippet.edit(old, new))


def test_only_a_mac_has_mps__but_not_the_cpu(snippet, monkeypatch, fails):
    """Each build has the CPU, also on a system that is not a Mac."""
    monkeypatch.setattr(sys, "platform", "linux")
    fails(test_only_a_mac_has_mps, snippet.edit('"mps"', '"cpu"'))


def test_numpy_makes_doubles(snippet):
    dtypes = after(snippet, "look", "doubles").dtypes

    single, double = torch.float32, torch.float64
    assert (dtypes["NumPy"], dtypes["from_numpy"]) == (double, double)
    assert (dtypes["Python"], dtypes["float()"]) == (single, single)


@pytest.mark.parametrize(
    "made",
    [np.linspace(0, 1, 3), np.ones((2, 2)), np.mean([1, 2]), np.float64(1)],
    ids=["linspace", "ones", "a mean", "one number"],
)
def test_numpy_makes_doubles__also_from(made):
    assert torch.tensor(made).dtype == torch.float64
    assert torch.as_tensor(made).float().dtype == torch.float32


@edits(
    ("single floats", "array([2.5, 3.0])", "array([2.5, 3.0], 'float32')"),
    ("left as they are", ".float()", ""),
)
def test_numpy_makes_doubles__but_not(snippet, old, new, fails):
    """An array of `float32` makes a tensor of `float32`, and only `float()`
    changes one of doubles.
    """
    fails(test_numpy_makes_doubles, snippet.edit(old, new))


def test_numpy_makes_doubles__ends_with_another_default(snippet, fails):
    """After `torch.set_default_dtype(torch.float64)`, Python's floats become
    doubles as well.
    """
    line = "torch.set_default_dtype(torch.float64)"
    edited = snippet.edit("prices = ", f"{line}; prices = ")
    try:
        fails(test_numpy_makes_doubles, edited)
    finally:
        torch.set_default_dtype(torch.float32)


SEVERAL_CORES = pytest.mark.skipif(
    os.cpu_count() == 1, reason="needs several cores"
)


@SEVERAL_CORES
def test_a_variable_can_be_set_too_late(snippet):
    run = after(snippet, "run-python", "too-late")

    assert (run.set_before, run.set_after) == ("1", "2")


@SEVERAL_CORES
def test_a_variable_can_be_set_too_late__but_not_before(snippet, fails):
    """Set before the import, it counts each time."""
    old, new = "import os, torch; {one}", "import os; {one}import torch; "
    fails(test_a_variable_can_be_set_too_late, snippet.edit(old, new))


LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="only on Linux are they packages"
)


@LINUX
def test_a_build_for_cuda_is_big(snippet):
    gigabytes = sum(after(snippet, "size").sizes.values())

    if torch.version.cuda is None:
        assert gigabytes < 1
    else:
        assert gigabytes > 4


@LINUX
def test_a_build_for_cuda_is_big__but_not_the_other(
    snippet, monkeypatch, fails
):
    """A build for the CPU does not take 4 GB, and one for CUDA takes more than
    1 GB.
    """
    other = "13.0" if torch.version.cuda is None else None
    monkeypatch.setattr(torch.version, "cuda", other)
    fails(test_a_build_for_cuda_is_big, snippet)


@api_since("2.13", "the kernels of its builds by machine")
def test_the_list_still_has_cuda_12_6(snippet):
    assert "12.6" in after(snippet, "look", "listed").listed


@api_since("2.13", "the kernels of its builds by machine")
def test_the_list_still_has_cuda_12_6__but_not_of_13(snippet, fails):
    """Without the builds for CUDA 12, it is not in the list."""
    old = "list(torch.cuda.PYTORCH_RELEASES_CODE_CC)"
    edited = snippet.edit(old, f"[{old}[-1]]")
    fails(test_the_list_still_has_cuda_12_6, edited)
