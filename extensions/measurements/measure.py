"""Measure what each tip buys, into a folder such as ``evidence/here``.

A file in ``measurements/`` mirrors a topic. Its docstring is the workload, and
its ``cases(device)`` returns functions by name: one call is one repetition. A
name may open with a group, as in ``float32: 1024 columns``; the first case of
a group is what the others are compared with. Needs torch alone.

With names of topics, such as ``gallery/loader_workers``, only these are
measured, each with its date, and put among what the folder holds already.

A file that says ``NEEDS = "cuda"`` is measured on a CUDA device alone.
"""

from __future__ import annotations

import argparse
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from extensions.core.command_line import in_one_line
from extensions.core.problem import Problem
from extensions.core.reading import json_of
from extensions.core.topics import ROOT, Topic, measured_topics, sha256
from extensions.core.writing import write
from extensions.measurements.machine_facts import machine_facts
from extensions.measurements.meters import peak_bytes, seconds_by_case
from extensions.measurements.results import workload_of


def _measure_here(topic: Topic, device: str) -> dict[str, Any]:
    """Return what one file measures on a device."""
    cases = runpy.run_path(str(topic.measurement))["cases"]
    torch.manual_seed(0)
    seconds = seconds_by_case(cases(device))
    return {
        "sha256": sha256(topic.measurement),
        "cases": {
            name: {
                "seconds": [float(f"{each:.4g}") for each in rounds],
                "peak_bytes": peak_bytes(cases(device)[name], device),
            }
            for name, rounds in seconds.items()
        },
    }


def _measure_in_own_process(
    name: str, folder: Path, device: str
) -> dict[str, Any]:
    """Return what one file measures in a process that runs nothing else."""
    print(name, flush=True)
    command = [sys.executable, "-m", "extensions.measurements.measure"]
    options = [str(folder), name, "--print", "--device", device]
    done = subprocess.run(
        [*command, *options], check=True, stdout=subprocess.PIPE, text=True
    )
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def _record_to_add_to(path: Path, now: dict[str, str]) -> dict[str, Any]:
    """Return the record of a folder, which this machine must have made."""
    if not path.exists():
        return {"facts": now, "measurements": {}}
    record: dict[str, Any] = json_of(path)
    then = record["facts"] | {"date": now["date"]}
    if other := [name for name in now if then.get(name) != now[name]]:
        message = f"recorded with another {', '.join(other)}: measure all"
        raise Problem(path, 1, message)
    return record


def main() -> None:
    """Measure all topics, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the record goes")
    parser.add_argument("topics", nargs="*", help="only these")
    parser.add_argument("--device", default=None, choices=["cpu", "cuda"])
    parser.add_argument("--print", action="store_true", help="do not record")
    chosen = parser.parse_args()
    device = chosen.device or ("cuda" if torch.cuda.is_available() else "cpu")
    topics = {topic.name: topic for topic in measured_topics(ROOT)}
    if lost := set(chosen.topics) - set(topics):
        parser.error(f"no measurement of {', '.join(sorted(lost))}")
    able = [
        name for name in topics if workload_of(topics[name]).runs_on(device)
    ]
    unable = ", ".join(sorted(set(topics) - set(able)))
    if refused := set(chosen.topics) - set(able):
        parser.error(f"{', '.join(sorted(refused))}: needs a CUDA device")
    if chosen.print:
        for name in chosen.topics:
            print(json.dumps(_measure_here(Topic(ROOT, name), device)))
        return
    path, now = chosen.folder / "measurements.json", machine_facts(device)
    record: dict[str, Any] = {"facts": now, "measurements": {}}
    dated = {}
    if chosen.topics:
        record, dated = _record_to_add_to(path, now), {"date": now["date"]}
    found = record["measurements"]
    if unable and not chosen.topics:
        print(f"left out, since a CUDA device is needed: {unable}")
    for name in chosen.topics or able:
        found[name] = dated | _measure_in_own_process(
            name, chosen.folder, device
        )
    record["measurements"] = {name: found[name] for name in sorted(found)}
    write(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    in_one_line(main)
