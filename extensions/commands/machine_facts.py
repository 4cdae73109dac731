"""The machine that a measurement is made on, in words. Needs torch alone."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path

import torch

from extensions.files.reading import text_of


def processor() -> str:
    """Return what the CPU calls itself."""
    path = Path("/proc/cpuinfo")
    lines = text_of(path).splitlines() if path.exists() else []
    names = [line for line in lines if line.startswith("model name")]
    return names[0].partition(": ")[2] if names else platform.machine()


def driver() -> str:
    """Return the version of the driver of the CUDA device."""
    command = ["nvidia-smi", "--query-gpu=driver_version"]
    done = subprocess.run(
        [*command, "--format=csv,noheader"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.splitlines()[0].strip()


def facts(device: str) -> dict[str, str]:
    """Return on what the measurements are made."""
    found = {
        "device": processor(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "threads": str(torch.get_num_threads()),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    if device == "cuda":
        found |= {
            "device": torch.cuda.get_device_name(),
            "processor": processor(),
            "cuda": str(torch.version.cuda),
            "driver": driver(),
        }
    return found
