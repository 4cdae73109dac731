"""What the tips buy: measured, recorded, compared, shown."""

import itertools
import json

import jsonschema
import pytest
import torch

from extensions.claims.rules import pages_show_their_measurements
from extensions.core.problem import Problem
from extensions.core.topics import ROOT, Topic, sha256
from extensions.lint.file_rules import workloads_are_said
from extensions.measurements import machine_facts, measure, meters
from extensions.measurements.findings import findings
from extensions.measurements.meters import peak_bytes, seconds_by_case
from extensions.measurements.recordings import machine_in_words
from extensions.measurements.results import (
    Case,
    Recording,
    cases_by_group,
    effect_of_ratio,
    recordings_of,
)
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


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.5, 0.94, "helps"),
        (0.96, 1.04, "no effect"),
        (1.06, 2.0, "hurts"),
        (0.9, 1.1, "unclear"),
        (0.9, 0.97, "unclear"),
    ],
)
def test_the_interval_decides_on_the_word(low, high, word):
    assert effect_of_ratio(low, high) == word


def test_the_first_of_each_group_is_its_base():
    case = {"seconds": [1.0, 2.0], "peak_bytes": 0}
    half = {"seconds": [0.5, 1.0], "peak_bytes": 0}

    groups = cases_by_group(
        {"a: x": case, "a: y": half, "b: x": half, "b: y": half}
    )

    assert [each.effect for each in groups["a"]] == ["", "helps"]
    assert [each.effect for each in groups["b"]] == ["", "no effect"]


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
    assert (
        '<td><span class="bar bar-helps" style="--share: 25%"></span>'
        ' <span class="speed">2 times as fast</span></td>'
    ) in html
    assert "stale" not in html


def case_of(*ratios, base=1.0):
    """Return a case with these ratios to its base."""
    seconds = tuple(ratio * base for ratio in ratios)
    return Case("new", seconds, 0, (base,) * len(ratios))


def recorded_on(device, case, is_stale=False):
    """Return what a machine measured of a group with two ways."""
    groups = {"large": (Case("old", (1.0, 1.0), 0, None), case)}
    return Recording({"device": device}, groups, is_stale, "2026-01-31")


def test_words_say_where_a_way_helps_and_where_not():
    [found] = findings(
        [
            recorded_on("A", case_of(1.3, 1.4)),
            recorded_on("B", case_of(0.5, 0.5)),
            recorded_on("C", case_of(1.0, 1.02)),
            recorded_on("D", case_of(0.8, 1.4)),
            recorded_on("E", case_of(1.0, 1.0)),
            recorded_on("F", case_of(0.1, 0.1), is_stale=True),
        ]
    )

    assert (found.group, found.name, found.base) == ("large", "new", "old")
    assert found.said == (
        ("is 2 times as fast", ("B",)),
        ("makes no difference", ("E", "C")),
        ("takes 0.95 to 1.2 times as long (too wide to tell)", ("D",)),
        ("takes 1.3 to 1.4 times as long", ("A",)),
    )


def test_the_middle_half_of_what_helps_says_how_fast_it_is():
    [found] = findings([recorded_on("A", case_of(0.01, 0.04))])

    assert found.said == (("is 31 to 57 times as fast", ("A",)),)


def test_the_points_of_a_curve_are_left_to_its_picture():
    groups = {
        "": (
            Case("8", (1.0, 1.0), 0, None),
            Case("9", (1.0, 1.0), 0, (1.0, 1.0)),
        )
    }

    assert findings([Recording({"device": "A"}, groups, False, "")]) == []


def test_a_page_says_what_a_way_buys_and_where(shown):
    html = (shown.outdir / "part/one.html").read_text()

    assert (
        "<li>small: <strong>multiply</strong>, beside <em>add</em>,"
        " is 2 times as fast on A processor.</li>"
    ) in html
    assert "No CUDA device has measured it yet, so" in html


def test_all_measurements_stand_on_one_page(shown):
    html = (shown.outdir / "evidence/claims.html").read_text()
    assert '<a href="../part/one.html#measured">Adding' in html
    legend = html.index("A full bar takes twice as long or more")
    assert legend < html.index('class="bar bar-helps"')
    assert '<td data-machine="A processor"><span class="bar bar-helps"' in html
    assert '<span class="speed">2 times as fast</span>' in html


@pytest.fixture
def curved(measured, house):
    """The same, with numbers as names, and a page that draws a curve."""
    path = house / "evidence/here/measurements.json"
    text = path.read_text().replace("small: add", "small: 8")
    path.write_text(text.replace("small: multiply", "small: 9"))
    text = measured.page.read_text()
    options = "```{measured}\n:curve: columns\n:step: 8\n```"
    measured.page.write_text(text.replace("```{measured}\n```", options))
    return measured


def test_a_curve_is_drawn_for_light_and_for_dark(curved, build):
    app = build()

    html = (app.outdir / "part/one.html").read_text()
    light = (app.outdir / "_images/measured_one_0.svg").read_text()
    assert not app.warning.getvalue()
    assert 'class="only-light"' in html
    assert 'src="../_images/measured_one_0_dark.svg"' in html
    assert 'alt="Adding and multiplying A processor, torch 2.13.0"' in html
    assert "<!-- columns (a line at each multiple of 8) -->" in light
    assert "<details><summary>The numbers</summary>" in html


def test_a_curve_is_drawn_anew_if_its_picture_is_gone(curved, build):
    app = build()
    for picture in app.srcdir.glob("code/**/measured_*"):
        picture.unlink()

    app = build()

    assert "image file not readable" not in app.warning.getvalue()
    assert len(list(app.srcdir.glob("code/**/measured_*.svg"))) == 2


def test_a_curve_needs_numbers_as_names(curved, house, build):
    path = house / "evidence/here/measurements.json"
    path.write_text(path.read_text().replace("small: 9", "small: nine"))

    warning = build().warning.getvalue()

    assert "measurements/part/one.py:1: no curve without numbers" in warning


def test_a_changed_workload_makes_a_recording_stale(measured, build):
    build()
    measured.measurement.write_text(WORKLOAD + "# changed\n")

    app = build()

    assert "stale" in (app.outdir / "part/one.html").read_text()


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
    assert "Does not apply to these machines: it needs a CUDA device." in html


def test_a_need_that_is_not_known_is_a_problem(measured):
    needing_cuda(measured, '"a GPU"')

    [problem] = workloads_are_said(measured.root)

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


def test_a_topic_without_a_recording_has_none(measured, house):
    path = house / "evidence/here/measurements.json"

    assert recordings_of(Topic(house, "part/two"), [path]) == []


def test_cases_are_timed_in_turn(monkeypatch):
    calls = []
    monkeypatch.setattr(meters, "_SECONDS_PER_ROUND", 0.001)

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
    monkeypatch.setattr(meters, "_SECONDS_PER_ROUND", 0)

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


def test_the_words_for_a_machine_name_what_a_device_needs():
    facts = {"machine": "x86_64, 16 cores", "threads": "8"}
    device = {"processor": "A CPU", "cuda": "13.0", "driver": "580.1"}

    assert machine_in_words(facts) == "x86_64, 16 cores, 8 threads"
    assert machine_in_words(facts | device) == (
        "A CPU, x86_64, 16 cores, 8 threads, CUDA 13.0, driver 580.1"
    )


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
    record["facts"] = machine_facts.machine_facts("cpu") | facts
    path.write_text(json.dumps(record))


def test_a_topic_is_measured_into_what_is_recorded(
    measured, timed_recipe, run_measure
):
    recorded_by(measured.root, date="2026-01-31")

    found = run_measure("gallery/three", "--device=cpu")

    assert list(found["measurements"]) == ["gallery/three", "part/one"]
    assert found["facts"]["date"] == "2026-01-31"
    today = machine_facts.machine_facts("cpu")["date"]
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
    assert found["facts"] == machine_facts.machine_facts("cpu")
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


def test_all_ways_are_ranked_losers_included(house, measured, build):
    path = house / "evidence/here/measurements.json"
    content = json.loads(path.read_text())
    cases = content["measurements"]["part/one"]["cases"]
    slow = {"seconds": [0.02, 0.02, 0.03], "peak_bytes": 1}
    content["measurements"]["part/one"]["cases"] = {
        "small: add": cases["small: add"],
        "small: guess": slow,
        "small: multiply": cases["small: multiply"],
    }
    path.write_text(json.dumps(content))
    page = house / "docs/evidence/claims.md"
    page.write_text(page.read_text() + "\n```{ranking}\n```\n")

    html = (build().outdir / "evidence/claims.html").read_text()

    table = html[html.index('class="ranking"') :]
    assert table.index("small: multiply") < table.index("small: guess")
    assert '"speed">2 times as fast</span>' in table
    assert '<span class="bar bar-hurts" style="--share: 100%">' in table
    assert "times as long</span>" in table


def test_a_program_reads_what_was_measured(house, measured, build):
    measured.measurement.write_text(WORKLOAD.replace("2 * 2", "3 * 3"))
    app = build()
    found = json.loads((app.outdir / "measurements.json").read_text())
    schema = (ROOT / "docs/_extra/measurements.schema.json").read_text()

    jsonschema.validate(found, json.loads(schema))
    [machine] = found["machines"]
    [topic] = machine["topics"]
    assert (machine["name"], topic["topic"]) == ("here", "part/one")
    assert topic["stale"]
    assert topic["cases"]["small: add"]["peak_bytes"] == 4000
