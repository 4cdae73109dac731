"""Numbers with their units."""

import pytest

from extensions.measurements.units import SIZES, TIMES, with_unit


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (2, "2 s"),
        (0.0125, "12.5 ms"),
        (0.001, "1 ms"),
        (0.000999, "999 µs"),
        (3e-9, "3 ns"),
        (3e-11, "0.03 ns"),
    ],
)
def test_a_time_has_the_largest_unit_that_leaves_it_at_least_one(
    seconds, said
):
    assert with_unit(seconds, TIMES) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 B"), (4000, "4 kB"), (-8_000_000, "-8 MB"), (2.5e9, "2.5 GB")],
)
def test_a_size_may_be_nothing_or_less(number, said):
    assert with_unit(number, SIZES) == said
