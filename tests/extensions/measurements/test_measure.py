"""The time and the memory of each way are measured alike."""

import itertools

import pytest
import torch

from extensions.measurements import measure
from extensions.measurements.measure import peak_bytes, seconds_by_case


def test_cases_are_timed_in_turn(monkeypatch):
    calls = []
    monkeypatch.setattr(measure, "_SECONDS_PER_ROUND", 0.001)

    seconds = seconds_by_case(
        {name: lambda name=name: calls.append(name) for name in "ab"}
    )

    assert len(seconds["a"]) == len(seconds["b"]) == 15
    assert all(each > 0 for each in seconds["a"])
    turns = [case for case, _ in itertools.groupby(calls)]
    assert turns.count("a") > 5
    assert turns.count("b") > 5


def test_each_round_has_an_order_of_its_own(monkeypatch):
    calls = []
    monkeypatch.setattr(measure, "_SECONDS_PER_ROUND", 0)

    seconds_by_case(
        {name: lambda name=name: calls.append(name) for name in "abcd"}
    )

    turns = calls[::3][-4 * 15 :]  # a turn is two calls to warm up, and one
    rounds = [tuple(turns[i : i + 4]) for i in range(0, 4 * 15, 4)]
    assert all(set(each) == set("abcd") for each in rounds)
    assert len(set(rounds)) > 5


def test_the_peak_counts_what_is_held_at_once():
    def work():
        first = torch.zeros(1_000_000)
        second = first + 1
        del first
        return second * 2

    assert peak_bytes(work, "cpu") == pytest.approx(8_000_000, abs=100)


@pytest.mark.parametrize(
    ("way", "bytes_of_a_number"),
    [("None", 4), ("zeros", 8), ("Adam", 20)],
)
def test_the_peak_counts_what_a_step_leaves_for_the_next(
    way, bytes_of_a_number
):
    layer = torch.nn.Linear(1000, 1000, bias=False)
    optimizer = torch.optim.SGD(layer.parameters())
    if way == "Adam":  # two averages, and as much again while it computes
        optimizer = torch.optim.Adam(layer.parameters(), foreach=False)
    row = torch.ones(1, 1000)

    def step():
        layer(row).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=way != "zeros")

    peak = peak_bytes(step, "cpu")

    assert peak == pytest.approx(bytes_of_a_number * 1_000_000, rel=0.01)
