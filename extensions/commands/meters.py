"""How a case is measured: its time, in turns with others, and its memory."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.benchmark import Timer

from extensions.files.reading import json_of

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
        events = json_of(path)["traceEvents"]
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
