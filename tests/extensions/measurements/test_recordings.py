"""A record of measurements that lacks something is refused."""

import json
from copy import deepcopy

import pytest

from extensions.core.problem import Problem
from extensions.measurements.recordings import read_recordings

WHOLE = {
    "facts": {
        "device": "A processor",
        "machine": "x86_64, 2 cores",
        "threads": "2",
        "torch": "2.13.0",
        "python": "3.11.7",
        "date": "2026-01-31",
    },
    "measurements": {
        "part/one": {
            "sha256": "0" * 64,
            "cases": {
                "add": {"seconds": [0.1, 0.2], "peak_bytes": 0},
                "multiply": {"seconds": [0.1, 0.2], "peak_bytes": 0},
            },
        }
    },
}


@pytest.fixture
def read(tmp_path):
    """Read a record of measurements."""

    def read(record):
        path = tmp_path / "measurements.json"
        path.write_text(json.dumps(record))
        return read_recordings(path)

    return read


def test_a_whole_record_is_read_as_it_is(read):
    assert read(WHOLE) == WHOLE


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["facts"], None, "no facts"),
        (["facts", "threads"], 2, "no threads among the facts"),
        (["measurements"], [], "no measurements"),
        (
            ["measurements", "part/one"],
            {},
            "part/one: no sha256 of what was measured",
        ),
        (["measurements", "part/one", "cases"], 1, "part/one: no cases"),
        (
            ["measurements", "part/one", "cases", "add", "seconds"],
            [0.1],
            "part/one: 'add' needs the seconds of 2 rounds or more",
        ),
        (
            ["measurements", "part/one", "cases", "add", "seconds"],
            [0.1, 0],
            "part/one: 'add' needs the seconds of 2 rounds or more",
        ),
        (
            ["measurements", "part/one", "cases", "add", "peak_bytes"],
            None,
            "part/one: 'add' has no peak_bytes",
        ),
        (
            ["measurements", "part/one", "cases", "multiply", "seconds"],
            [0.1, 0.2, 0.3],
            "part/one: 'multiply' has more or fewer rounds than the others",
        ),
    ],
)
def test_what_a_record_lacks_is_named(read, place, value, said):
    record = part = deepcopy(WHOLE)
    *path, last = place
    for name in path:
        part = part[name]
    part[last] = value

    with pytest.raises(Problem) as caught:
        read(record)

    assert caught.value.message == f"{said}: measure again"


def test_a_file_that_is_no_record_is_refused(read):
    with pytest.raises(Problem, match="no record of measurements"):
        read([])
