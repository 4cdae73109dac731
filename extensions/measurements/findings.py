"""What each measured variant gains, in words, and on which machines.

Every word and number comes from the middle half of the ratios of a recording.
Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from extensions.measurements.results import Case, Recording

# What a way does, from the best to the worst: in a sentence, and by itself.
_EFFECTS = {
    "helps": ("is {} times as fast", "{} times as fast"),
    "no effect": ("makes no difference", "no difference"),
    "unclear": (
        "takes {} times as long (too wide to tell)",
        "unclear: {} times as long",
    ),
    "hurts": ("takes {} times as long", "{} times as long"),
}


@dataclass(frozen=True)
class Finding:
    """What one way of a group does, on each machine that measured it."""

    group: str
    name: str
    base: str
    """The way that it is compared with."""
    said: tuple[tuple[str, tuple[str, ...]], ...]
    """What it does, in words, and on which devices; the best first."""


def _number(ratio: float) -> str:
    """Return a ratio with two digits, or as a whole number."""
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def _middle_half(case: Case) -> str:
    """Return the middle half of the ratios: how fast, or how slow a way is."""
    low, _, high = case.ratio
    if case.effect == "helps":
        low, high = 1 / high, 1 / low
    first, last = _number(low), _number(high)
    return first if first == last else f"{first} to {last}"


def _effect_in_words(case: Case) -> str:
    """Return what a way does on one machine, in a sentence without subject."""
    return _EFFECTS[case.effect][0].format(_middle_half(case))


def speed_of(case: Case) -> str:
    """Return how fast a way is beside the usual one, in a few words."""
    return _EFFECTS[case.effect][1].format(_middle_half(case))


def findings(recordings: Iterable[Recording]) -> list[Finding]:
    """Return what the ways of a topic do, in the order of their file.

    What was measured before its workload changed says nothing. A name that is
    a number is a point of a curve, which a picture shows.
    """
    fresh = [each for each in recordings if not each.is_stale]
    found: dict[tuple[str, str, str], list[tuple[str, Case]]] = {}
    for recording in fresh:
        device = recording.facts["device"]
        for group, cases in recording.groups.items():
            for case in cases[1:]:
                if not case.name.isdigit():
                    key = (group, case.name, cases[0].name)
                    found.setdefault(key, []).append((device, case))
    return [
        Finding(*key, _devices_by_effect(seen)) for key, seen in found.items()
    ]


def _devices_by_effect(
    seen: list[tuple[str, Case]],
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what a way does and where: those that say the same together."""
    order = list(_EFFECTS)
    said: dict[str, list[str]] = {}
    for device, case in sorted(
        seen, key=lambda each: (order.index(each[1].effect), each[1].ratio[1])
    ):
        said.setdefault(_effect_in_words(case), []).append(device)
    return tuple((words, tuple(devices)) for words, devices in said.items())
