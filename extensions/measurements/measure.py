"""Measure what each tip buys, into a folder such as ``evidence/here``.

A file in ``measurements/`` mirrors a topic. Its docstring is the workload, and
its ``cases(device)`` returns functions by name: one call is one repetition. A
name may open with a group, as in ``float32: 1024 columns``; the first case of
a group is what the others are compared with. Needs torch alone.

With names of topics, such as ``gallery/loader_workers``, only these are
measured, each with its date, and put among what the folder holds already.

A file that says ``NEEDS = "cuda"`` is measured on a CUDA device alone.
"""

import argparse
import datetime
import itertools
import json
import multiprocessing
import os
import platform
import random
import re
import runpy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer

from extensions.core.files import Problem, in_one_line, json_of, text_of, write
from extensions.core.topics import ROOT, Topic, measured_topics, sha256

_ROUNDS = 15
_SECONDS_PER_ROUND = 0.05  # for each case; one call where a call takes longer
_CALLS = 3  # of which the peak is taken: what the first leaves, the next find

_Repetition = Callable[[], object]


def seconds_by_case(cases: dict[str, _Repetition]) -> dict[str, list[float]]:
    """Return the seconds of a call, one number for each round.

    The cases take turns within a round, each round in another order, so that
    what else the machine does meets all of them alike.
    """
    timers, numbers = {}, {}
    for name, case in cases.items():
        threads = torch.get_num_threads()
        timer = Timer("case()", globals={"case": case}, num_threads=threads)
        timer.timeit(2)  # warm up
        seconds = timer.timeit(1).median
        numbers[name] = max(1, round(_SECONDS_PER_ROUND / seconds))
        timers[name] = timer
    order = random.Random(0)
    rounds = [
        {
            name: timers[name].timeit(numbers[name]).median
            for name in order.sample(list(timers), len(timers))
        }
        for _ in range(_ROUNDS)
    ]
    return {name: [each[name] for each in rounds] for name in timers}


def peak_bytes(case: _Repetition, device: str) -> int:
    """Return how many bytes of tensors the calls of a case hold at most.

    Counted is what comes on top of what stood before the first call, so the
    case has to be a new one: a training step then counts its gradients and
    the state of its optimizer, and not its parameters and its inputs.
    """
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        for _ in range(_CALLS):
            case()
        torch.cuda.synchronize()
        peak: int = torch.cuda.max_memory_allocated()
        return peak - int(before)
    activities = [ProfilerActivity.CPU]
    with profile(activities=activities, profile_memory=True) as run:
        for _ in range(_CALLS):
            case()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        run.export_chrome_trace(str(path))
        events = json_of(path)["traceEvents"]
    changes = sorted(
        (each["ts"], each["args"]["Bytes"])
        for each in events
        if each.get("name") == "[memory]"
    )
    held = itertools.accumulate(size for _, size in changes)
    return int(max([0, *held]))


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
        found["processor"] = found["device"]
        found["device"] = torch.cuda.get_device_name()
        found["cuda"] = str(torch.version.cuda)
    return found


def _cpu_in_words() -> str:
    """Return what the CPU calls itself, with its family and model.

    Names repeat: two of one name differ in what they can do in 16 bits.
    """
    path = Path("/proc/cpuinfo")
    text = text_of(path) if path.exists() else ""
    said = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", text, re.MULTILINE))
    if "model name" not in said:
        return platform.machine()
    family, model = said.get("cpu family", "?"), said.get("model", "?")
    return f"{said['model name']} (family {family}, model {model})"


def _measure(topic: Topic, device: str) -> dict[str, Any] | None:
    program = runpy.run_path(str(topic.measurement))
    if program.get("NEEDS", device) != device:
        return None
    cases = program["cases"]
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


def _in_own_process(topic: Topic, device: str) -> dict[str, Any] | None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (topic, device))


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
    chosen = parser.parse_args()
    device = chosen.device or ("cuda" if torch.cuda.is_available() else "cpu")
    topics = {topic.name: topic for topic in measured_topics(ROOT)}
    if lost := set(chosen.topics) - set(topics):
        parser.error(f"no measurement of {', '.join(sorted(lost))}")
    path, now = chosen.folder / "measurements.json", machine_facts(device)
    record: dict[str, Any] = {"facts": now, "measurements": {}}
    dated = {}
    if chosen.topics:
        record, dated = _record_to_add_to(path, now), {"date": now["date"]}
    found = record["measurements"]
    for name in chosen.topics or topics:
        print(name, flush=True)
        if measured := _in_own_process(topics[name], device):
            found[name] = dated | measured
        else:
            print("left out, since it needs a CUDA device")
    record["measurements"] = {name: found[name] for name in sorted(found)}
    write(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    in_one_line(main)
