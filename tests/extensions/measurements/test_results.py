"""What was recorded is read, compared and put into words."""

import json

import pytest

from extensions.measurements.sphinx_measured import (
    SIZES,
    TIMES,
    Recording,
    read_recordings,
    with_unit,
)

FACTS = dict.fromkeys(
    ["device", "machine", "threads", "torch", "python", "date"], "x"
)


def groups_of(path, cases):
    """Return some recorded cases, as they are read."""
    topic = {"sha256": "x", "cases": cases}
    record = {"facts": FACTS, "measurements": {"part/one": topic}}
    path.write_text(json.dumps(record))
    return read_recordings(path)["part/one"].groups


def test_the_first_of_each_group_is_its_base(tmp_path):
    slow = {"seconds": [1.0, 2.0], "peak_bytes": 0}
    fast = {"seconds": [0.5, 1.0], "peak_bytes": 0}
    cases = {"a: x": slow, "a: y": fast, "b: x": fast, "b: y": fast}

    groups = groups_of(tmp_path / "measurements.json", cases)

    assert [each.name for each in groups["a"]] == ["x", "y"]
    assert groups["a"][1].beside == "0.5 times as long"
    assert groups["b"][1].beside == "1 times as long"


def test_a_ratio_is_taken_round_by_round_and_shows_its_middle_half(tmp_path):
    base = {"seconds": [1.0, 2.0, 4.0, 1.0, 1.0], "peak_bytes": 0}
    other = {"seconds": [0.9, 2.0, 4.4, 1.2, 0.5], "peak_bytes": 0}

    groups = groups_of(
        tmp_path / "measurements.json", {"old": base, "new": other}
    )

    assert groups[""][1].beside == "1 times as long (0.9 to 1.1)"
    assert groups[""][1].time == (0.9, 1.2, 2.0)
    assert groups[""][1].rounds == 5


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


def test_the_words_for_a_machine_name_what_a_device_needs():
    facts = {"machine": "x86_64, 16 cores", "threads": "8"}
    device = {"processor": "A CPU", "cuda": "13.0", "driver": "580.1"}

    without, with_device = (
        Recording(each, {}, "", "") for each in (facts, facts | device)
    )
    assert without.machine == "x86_64, 16 cores, 8 threads"
    assert with_device.machine == (
        "A CPU, x86_64, 16 cores, 8 threads, CUDA 13.0, driver 580.1"
    )
