"""The machine that a measurement is made on, in words. Needs torch alone."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

import torch

from extensions.files.reading import text_of


def processor() -> str:
    """Return what the CPU calls itself."""
    path = Path("/proc/cpuinfo")
    lines = text_of(path).splitlines() if path.exists() else []
    names = [line for line in lines if line.startswith("model name")]
    return names[0].partition(": ")[2] if names else platform.machine()


def facts(device: str) -> dict[str, str]:
    """Return on what the measurements are made."""
    name = torch.cuda.get_device_name() if device == "cuda" else processor()
    return {
        "device": name,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
