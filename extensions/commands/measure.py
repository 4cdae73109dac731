"""Measure what each tip buys, into a folder such as ``evidence/here``.

A file in ``measurements/`` mirrors a topic. Its docstring is the workload, and
its ``cases(device)`` returns functions by name: one call is one repetition. A
name may open with a group, as in ``float32: 1024 columns``; the first case of
a group is what the others are compared with. Needs torch alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.benchmark import Timer

from extensions.commands.machine_facts import facts
from extensions.commands.one_line import in_one_line
from extensions.files.topics import ROOT, Topic, measured_topics, sha256

ROUNDS = 15
SECONDS_PER_ROUND = 0.05  # for each case; one call where a call takes longer

Case = Callable[[], object]


def timed(cases: dict[str, Case]) -> dict[str, list[float]]:
    """Return the seconds of a call, one number for each round.

    The cases take turns within a round, so that what else the machine does
    meets all of them alike.
    """
    timers = {
        name: Timer(
            "case()",
            globals={"case": case},
            num_threads=torch.get_num_threads(),
        )
        for name, case in cases.items()
    }
    numbers = {}
    for name, timer in timers.items():
        timer.timeit(2)  # warm up
        seconds = timer.timeit(1).median
        numbers[name] = max(1, round(SECONDS_PER_ROUND / seconds))
    rounds = [
        {name: timers[name].timeit(numbers[name]).median for name in timers}
        for _ in range(ROUNDS)
    ]
    return {name: [each[name] for each in rounds] for name in timers}


def peak_bytes(case: Case, device: str) -> int:
    """Return how many bytes of tensors a call holds at most, beyond before."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        case()
        torch.cuda.synchronize()
        peak: int = torch.cuda.max_memory_allocated()
        return peak - int(before)
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True
    ) as run:
        case()  # the profiler sees no end of what began before it
        with record_function("the measured call"):
            case()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        run.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    [call] = [
        each for each in events if each.get("name") == "the measured call"
    ]
    changes = sorted(
        (each["ts"], each["args"]["Bytes"])
        for each in events
        if each.get("name") == "[memory]" and each["ts"] >= call["ts"]
    )
    held = itertools.accumulate(size for _, size in changes)
    return int(max([0, *held]))


def measure(topic: Topic, device: str) -> dict[str, Any]:
    """Return what one file measures on a device."""
    torch.manual_seed(0)
    cases = runpy.run_path(str(topic.measurement))["cases"](device)
    seconds = timed(cases)
    return {
        "sha256": sha256(topic.measurement),
        "cases": {
            name: {
                "seconds": [float(f"{each:.4g}") for each in seconds[name]],
                "peak_bytes": peak_bytes(case, device),
            }
            for name, case in cases.items()
        },
    }


def main() -> None:
    """Measure one topic, or each of them in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the record goes")
    parser.add_argument("--device", default=None, choices=["cpu", "cuda"])
    parser.add_argument("--topic", help="this one only, to standard output")
    chosen = parser.parse_args()
    device = chosen.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if chosen.topic:
        print(json.dumps(measure(Topic(ROOT, chosen.topic), device)))
        return
    record: dict[str, Any] = {"facts": facts(device), "measurements": {}}
    command = [
        sys.executable,
        "-m",
        "extensions.commands.measure",
        str(chosen.folder),
    ]
    for topic in measured_topics(ROOT):
        print(topic.name, flush=True)
        options = ["--device", device, "--topic", topic.name]
        done = subprocess.run(
            [*command, *options], check=True, stdout=subprocess.PIPE, text=True
        )
        record["measurements"][topic.name] = json.loads(done.stdout)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (chosen.folder / "measurements.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    in_one_line(main)
