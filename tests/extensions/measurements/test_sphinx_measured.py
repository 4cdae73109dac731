"""What the tips buy: recorded, and shown on pages."""

import json

import pytest
import torch

from extensions.claims.rules import pages_show_their_measurements
from extensions.core.problem import Problem
from extensions.core.topics import Topic, sha256
from extensions.lint.file_rules import files_are_whole
from extensions.measurements import measure
from tests.helpers.builds import built
from tests.helpers.evidence import record

WORKLOAD = '''"""Adding and multiplying

Two numbers.
"""


def cases(device):
    """Return what is timed."""
    return {"small: add": lambda: 1 + 1, "small: multiply": lambda: 2 * 2}
'''
PAGE = "# One\n\n```{measured}\n```\n\n"


def measure_one(house):
    """Let one topic of a house be measured, and add its recording."""
    topic = Topic(house, "part/one")
    topic.measurement.parent.mkdir(parents=True)
    topic.measurement.write_text(WORKLOAD)
    text = topic.page.read_text()
    topic.page.write_text(text.replace("# One\n\n", PAGE, 1))
    record = {
        "facts": {
            "device": "A processor",
            "torch": "2.13.0",
            "python": "3.11.7",
            "machine": "x86_64, 2 cores",
            "threads": "2",
            "date": "2026-01-31",
        },
        "measurements": {
            "part/one": {
                "sha256": sha256(topic.measurement),
                "cases": {
                    "small: add": {
                        "seconds": [0.010, 0.010, 0.012],
                        "peak_bytes": 4000,
                    },
                    "small: multiply": {
                        "seconds": [0.005, 0.005, 0.006],
                        "peak_bytes": 8_000_000,
                    },
                },
            }
        },
    }
    path = house / "evidence/here/measurements.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))
    return topic


@pytest.fixture
def measured(house):
    """The topic of the house that is measured."""
    return measure_one(house)


@pytest.fixture(scope="module")
def shown(new_house):
    """A site that shows what was measured, on its page and on one of all."""
    house = new_house()
    measure_one(house)
    page = house / "docs/evidence/claims.md"
    page.write_text("# Measurements\n\n```{measurements}\n```\n")
    return built(house)


def needing_cuda(topic, value='"cuda"'):
    """Let the measurement of a topic need a CUDA device."""
    text = topic.measurement.read_text()
    needing = text.replace(
        "\n\ndef cases", f"\nNEEDS = {value}\n\n\ndef cases"
    )
    topic.measurement.write_text(needing)


def test_a_page_shows_what_was_measured(shown):
    html = (shown.outdir / "part/one.html").read_text()
    assert not shown.warning.getvalue()
    assert "Adding and multiplying" in html
    assert (
        "A processor (x86_64, 2 cores, 2 threads), torch 2.13.0, 2026-01-31"
        in html
    )
    assert "10 ms" in html
    assert "8 MB" in html
    assert "<td>0.5 times as long</td>" in html
    assert "No CUDA device has measured it yet, so" in html
    assert "stale" not in html


def test_one_page_leads_to_all_measurements(shown):
    html = (shown.outdir / "evidence/claims.html").read_text()
    assert (
        '<li><a href="../part/one.html#measured">Adding and multiplying</a>:'
        " A processor</li>"
    ) in html


def test_a_changed_workload_makes_a_recording_stale(measured, house, build):
    page = house / "docs/evidence/claims.md"
    page.write_text("# Measurements\n\n```{measurements}\n```\n")
    build()
    measured.measurement.write_text(WORKLOAD + "# changed\n")

    app = build()

    assert "stale: the" in (app.outdir / "part/one.html").read_text()
    assert "(stale)" in (app.outdir / "evidence/claims.html").read_text()


def test_a_new_recording_is_shown_by_the_next_build(measured, house, build):
    build()
    old = house / "evidence/here/measurements.json"
    new = house / "evidence/there/measurements.json"
    new.parent.mkdir()
    new.write_text(old.read_text().replace("A processor", "Another"))

    app = build()

    assert "Another (x86_64" in (app.outdir / "part/one.html").read_text()


def test_without_a_recording_a_page_says_so(measured, house, build):
    (house / "evidence/here/measurements.json").unlink()

    app = build()

    assert "Not measured" in (app.outdir / "part/one.html").read_text()


def test_a_page_says_what_a_measurement_needs(measured, house, build):
    needing_cuda(measured)
    path = house / "evidence/here/measurements.json"
    facts = json.loads(path.read_text())["facts"]
    path.write_text(json.dumps({"facts": facts, "measurements": {}}))
    page = house / "docs/evidence/claims.md"
    page.write_text("# Measurements\n\n```{measurements}\n```\n")

    app = build()

    assert not app.warning.getvalue()
    html = (app.outdir / "part/one.html").read_text()
    assert "Does not apply without a CUDA device" in html
    assert "Not measured on any machine with one yet" in html
    html = (app.outdir / "evidence/claims.html").read_text()
    assert "not measured yet, since it needs a CUDA device" in html


def test_a_need_that_is_not_known_is_a_problem(measured):
    needing_cuda(measured, '"a GPU"')

    [problem] = files_are_whole(measured.root)

    assert str(problem) == (
        f'{measured.measurement}:6: NEEDS is "cuda" or left out'
    )


def test_a_page_without_a_measurement_to_show_is_reported(measured, build):
    measured.measurement.unlink()

    assert "no measurements/part/one.py to show" in build().warning.getvalue()


def test_a_measurement_that_no_page_shows_is_a_problem(measured):
    text = measured.page.read_text()
    measured.page.write_text(text.replace(PAGE, "# One\n\n"))

    [problem] = pages_show_their_measurements(measured.root)

    assert problem.path == measured.measurement


@pytest.fixture
def timed_recipe(house):
    """A recipe that draws its own timings, and the measurement beside it."""
    recipe = Topic(house, "gallery/three")
    with recipe.snippet.open("a") as file:
        file.write(
            "\n# %% times\nfigure, axes = plt.subplots(num='timings')\n"
            "axes.set_ylabel('time, ms')\n".replace("'", '"')
        )
    recipe.measurement.parent.mkdir(parents=True)
    recipe.measurement.write_text(WORKLOAD)
    record(house)
    return recipe


def test_a_recipe_shows_what_was_measured_instead_of_timings(
    timed_recipe, build
):
    app = build()

    html = (app.outdir / "gallery/three.html").read_text()
    assert not app.warning.getvalue()
    assert "draws a picture here that differs at every run" in html
    assert "Adding and multiplying" in html
    # Of the other figure, at the head and in its place, in light and in dark.
    assert html.count("<img") == 4
    for suffix in (".py", ".ipynb"):
        program = timed_recipe.output.with_suffix(suffix).read_text()
        assert ".. measured::" not in program


def test_timings_need_a_measurement(timed_recipe, build):
    timed_recipe.measurement.unlink()

    warning = build().warning.getvalue()

    assert "no measurements/gallery/three.py to show" in warning


def test_the_timings_of_a_recipe_show_its_measurement(timed_recipe):
    assert list(pages_show_their_measurements(timed_recipe.root)) == []
    text = timed_recipe.snippet.read_text()
    timed_recipe.snippet.write_text(text.replace('num="timings"', ""))

    [problem] = pages_show_their_measurements(timed_recipe.root)

    assert problem.message == 'no num="timings" in gallery/three shows it'


@pytest.fixture
def run_measure(house, monkeypatch):
    """Measure in the house, whose cases all take one second."""

    def run(*arguments):
        monkeypatch.setattr(measure, "ROOT", house)
        monkeypatch.setattr(
            measure,
            "_measure_in_own_process",
            lambda name, *_: {"cases": name},
        )
        folder = str(house / "evidence/here")
        monkeypatch.setattr("sys.argv", ["measure", folder, *arguments])
        measure.main()
        path = house / "evidence/here/measurements.json"
        return json.loads(path.read_text())

    return run


def recorded_by(house, **facts):
    """Let the recording of a house be made by this machine, but for facts."""
    path = house / "evidence/here/measurements.json"
    record = json.loads(path.read_text())
    record["facts"] = measure.machine_facts("cpu") | facts
    path.write_text(json.dumps(record))


def test_a_topic_is_measured_into_what_is_recorded(
    measured, timed_recipe, run_measure
):
    recorded_by(measured.root, date="2026-01-31")

    found = run_measure("gallery/three", "--device=cpu")

    assert list(found["measurements"]) == ["gallery/three", "part/one"]
    assert found["facts"]["date"] == "2026-01-31"
    today = measure.machine_facts("cpu")["date"]
    assert found["measurements"]["gallery/three"]["date"] == today
    assert "date" not in found["measurements"]["part/one"]


def test_a_page_shows_the_day_of_its_own_measurement(measured, build):
    path = measured.root / "evidence/here/measurements.json"
    record = json.loads(path.read_text())
    record["measurements"]["part/one"]["date"] = "2026-02-28"
    path.write_text(json.dumps(record))

    app = build()

    html = (app.outdir / "part/one.html").read_text()
    assert "torch 2.13.0, 2026-02-28" in html


@pytest.mark.parametrize("fact", ["torch", "device", "machine", "python"])
def test_no_topic_joins_the_record_of_another_machine(
    measured, timed_recipe, run_measure, fact
):
    recorded_by(measured.root, **{fact: "another"})
    path = measured.root / "evidence/here/measurements.json"
    before = path.read_text()

    with pytest.raises(Problem, match=f"recorded with another {fact}"):
        run_measure("gallery/three", "--device=cpu")

    assert path.read_text() == before


def test_without_names_all_topics_are_measured_anew(
    measured, timed_recipe, run_measure
):
    found = run_measure("--device=cpu")

    assert list(found["measurements"]) == ["gallery/three", "part/one"]
    assert found["facts"] == measure.machine_facts("cpu")
    assert "date" not in found["measurements"]["gallery/three"]


def test_a_topic_that_is_not_measured_is_refused(run_measure, capsys):
    with pytest.raises(SystemExit):
        run_measure("part/lost")

    assert "no measurement of part/lost" in capsys.readouterr().err


def test_what_needs_cuda_is_measured_on_cuda_alone(
    measured, timed_recipe, run_measure, capsys, monkeypatch
):
    needing_cuda(measured)

    assert list(run_measure("--device=cpu")["measurements"]) == [
        "gallery/three"
    ]
    assert "a CUDA device is needed: part/one" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run_measure("part/one", "--device=cpu")
    assert "part/one: needs a CUDA device" in capsys.readouterr().err

    monkeypatch.setattr(
        measure, "machine_facts", lambda _: {"date": "2026-01-31"}
    )
    assert "part/one" in run_measure("--device=cuda")["measurements"]


def test_a_recording_is_written_where_it_is_asked_for(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    monkeypatch.setattr(measure, "measured_topics", lambda root: [])
    monkeypatch.setattr("sys.argv", ["measure", str(folder)])

    measure.main()

    record = json.loads((folder / "measurements.json").read_text())
    assert record["measurements"] == {}
    assert record["facts"]["torch"] == torch.__version__
