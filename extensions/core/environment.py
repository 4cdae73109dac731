"""What every part of a build depends on: libraries, devices, our code."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from extensions.core.files import bytes_of, text_of
from extensions.core.fingerprint import digest
from extensions.core.topics import ROOT

# How the environment variables begin that torch, its libraries and Python
# read; which others a program reads stands in its code.
_VARIABLES = re.compile(
    "(CUBLAS|CUDA|CUDNN|KMP|LC|MKL|NCCL|OMP|OPENBLAS|PYTORCH)_|LANG|TORCH|TZ"
    "|PYTHON(HASHSEED|OPTIMIZE|UTF8|WARNINGS)"
)
_GPUS = Path("/proc/driver/nvidia/gpus")


@cache
def installed() -> str:
    """Return a hash of Python's version and of all that is installed."""
    # A name and a version each, as pip writes them; to read them out of the
    # files below takes forty times as long. setuptools, once something imports
    # it, adds a folder with copies of its own to the path.
    folders = [Path(at) for at in sys.path if Path(at).name != "_vendor"]
    parts = {path.name for at in folders for path in at.glob("*-info")}
    return digest(platform.python_version(), *sorted(parts))


@cache
def our_code(*packages: str) -> str:
    """Return a hash of our packages, of those named or of all."""
    folders = [ROOT / "extensions" / each for each in packages or ("",)]
    paths = [path for at in folders for path in sorted(at.rglob("*.py"))]
    return digest(*map(bytes_of, paths))


@cache
def device() -> str:
    """Return which NVIDIA devices there are, as the driver says.

    To ask torch would take the two seconds of its import, even where nothing
    is to be tested.
    """
    found = [
        line
        for path in sorted(_GPUS.glob("*/information"))
        for line in text_of(path).splitlines()
        if line.startswith("Model:")
    ]
    if not found and (command := shutil.which("nvidia-smi")):
        done = subprocess.run(
            [command, "-L"], capture_output=True, text=True, check=False
        )
        found = done.stdout.splitlines()
    return "\n".join(found)


def environment_variables(others: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment variables that torch and its libraries read.

    Others are named; one that is not set counts as such.
    """
    common = filter(_VARIABLES.match, os.environ)
    return {
        f"${name}": repr(os.environ.get(name))
        for name in sorted({*common, *others})
    }
