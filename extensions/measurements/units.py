"""Numbers with the unit that a reader expects."""

from __future__ import annotations

TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def with_unit(number: float, units: tuple[tuple[float, str], ...]) -> str:
    """Return a number in the largest unit that leaves it at least one."""
    size, unit = next(
        (each for each in units if abs(number) >= each[0]), units[-1]
    )
    return f"{number / size:.3g} {unit}"
