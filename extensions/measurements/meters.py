"""How a case is measured: its time, in turns with others, and its memory."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer

from extensions.core.reading import json_of

_ROUNDS = 15
_SECONDS_PER_ROUND = 0.05  # for each case; one call where a call takes longer
_CALLS = 3  # of which the peak is taken: what the first leaves, the next find

_Repetition = Callable[[], object]


def seconds_by_case(cases: dict[str, _Repetition]) -> dict[str, list[float]]:
    """Return the seconds of a call, one number for each round.

    The cases take turns within a round, each round in another order, so that
    what else the machine does meets all of them alike.
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
        numbers[name] = max(1, round(_SECONDS_PER_ROUND / seconds))
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
        _call_as_training_does(case)
        torch.cuda.synchronize()
        peak: int = torch.cuda.max_memory_allocated()
        return peak - int(before)
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True
    ) as run:
        _call_as_training_does(case)
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


def _call_as_training_does(case: _Repetition) -> None:
    """Call a case a few times, as a training does."""
    for _ in range(_CALLS):
        case()
