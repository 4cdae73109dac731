"""The time and the memory of each way are measured alike, and recorded."""

import json

import pytest
import torch

from extensions.core.files import Problem
from extensions.measurements import measure
from extensions.measurements.measure import peak_bytes, seconds_by_case


def test_cases_are_timed_in_rounds_each_with_an_order_of_its_own(monkeypatch):
    calls = []
    monkeypatch.setattr(measure, "_SECONDS_PER_ROUND", 0)

    seconds = seconds_by_case(
        {name: lambda name=name: calls.append(name) for name in "abcd"}
    )

    assert [len(each) for each in seconds.values()] == [15] * 4
    assert all(each > 0 for each in seconds["a"])
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


def test_the_peak_counts_what_a_step_leaves_for_the_next():
    layer = torch.nn.Linear(1000, 1000, bias=False)
    optimizer = torch.optim.Adam(layer.parameters(), foreach=False)
    row = torch.ones(1, 1000)

    def step():
        layer(row).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    peak = peak_bytes(step, "cpu")

    # A gradient, two averages, and as much again while it computes.
    assert peak == pytest.approx(5 * 4_000_000, rel=0.01)


WORKLOAD = '''"""Adding

Two numbers.
"""
NEEDS = {needs!r}


def cases(device):
    """Return what is timed."""
    return {{"add": lambda: 1 + 1}}
'''


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Measure two topics, of which one needs CUDA, in this process."""
    for name, needs in (("one", "cpu"), ("two", "cuda")):
        path = tmp_path / f"measurements/part/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(WORKLOAD.format(needs=needs))
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    monkeypatch.setattr(measure, "_in_own_process", measure._measure)
    monkeypatch.setattr(measure, "_SECONDS_PER_ROUND", 0)

    def run(*arguments):
        command = ["measure", str(path_of(tmp_path).parent), *arguments]
        monkeypatch.setattr("sys.argv", [*command, "--device=cpu"])
        measure.main()
        return json.loads(path_of(tmp_path).read_text())

    return run


def path_of(root):
    return root / "evidence/here/measurements.json"


def recorded(root, **facts):
    """Let another topic be recorded by this machine, but for some facts."""
    path = path_of(root)
    path.parent.mkdir(parents=True)
    facts = measure.machine_facts("cpu") | facts
    topics = {"part/zero": {"cases": {}}}
    path.write_text(json.dumps({"facts": facts, "measurements": topics}))


def test_without_names_all_that_the_device_can_is_measured_anew(
    run, tmp_path, capsys
):
    recorded(tmp_path)

    found = run()

    assert list(found["measurements"]) == ["part/one"]
    assert (
        len(found["measurements"]["part/one"]["cases"]["add"]["seconds"]) > 9
    )
    assert "date" not in found["measurements"]["part/one"]
    assert found["facts"] == measure.machine_facts("cpu")
    assert found["facts"]["torch"] == torch.__version__
    assert "needs a CUDA device" in capsys.readouterr().out


def test_a_topic_is_measured_into_what_is_recorded(run, tmp_path):
    recorded(tmp_path, date="2026-01-31")

    found = run("part/one")

    assert list(found["measurements"]) == ["part/one", "part/zero"]
    assert found["facts"]["date"] == "2026-01-31"
    today = measure.machine_facts("cpu")["date"]
    assert found["measurements"]["part/one"]["date"] == today
    assert "date" not in found["measurements"]["part/zero"]


@pytest.mark.parametrize("fact", ["torch", "device"])
def test_no_topic_joins_the_record_of_another_machine_and_no_lost_one(
    run, tmp_path, capsys, fact
):
    recorded(tmp_path, **{fact: "another"})
    before = path_of(tmp_path).read_text()

    with pytest.raises(SystemExit):
        run("part/lost")
    assert "no measurement of part/lost" in capsys.readouterr().err
    with pytest.raises(Problem, match=f"recorded with another {fact}"):
        run("part/one")
    assert path_of(tmp_path).read_text() == before
