"""The machine that a measurement is made on, in words. Needs torch alone."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path

import torch

from extensions.core.reading import text_of


def _cpu_in_words() -> str:
    """Return what the CPU calls itself, with its family and model.

    Names repeat: two of one name differ in what they can do in 16 bits.
    """
    path = Path("/proc/cpuinfo")
    said: dict[str, str] = {}
    for line in text_of(path).splitlines() if path.exists() else []:
        name, _, value = line.partition(":")
        said.setdefault(name.strip(), value.strip())
    if "model name" not in said:
        return platform.machine()
    family, model = said.get("cpu family", "?"), said.get("model", "?")
    return f"{said['model name']} (family {family}, model {model})"


def _driver_version() -> str:
    """Return the version of the driver of the CUDA device."""
    command = ["nvidia-smi", "--query-gpu=driver_version"]
    done = subprocess.run(
        [*command, "--format=csv,noheader"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.splitlines()[0].strip()


def machine_facts(device: str) -> dict[str, str]:
    """Return on what the measurements are made."""
    found = {
        "device": _cpu_in_words(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "threads": str(torch.get_num_threads()),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    if device == "cuda":
        found |= {
            "device": torch.cuda.get_device_name(),
            "processor": _cpu_in_words(),
            "cuda": str(torch.version.cuda),
            "driver": _driver_version(),
        }
    return found
