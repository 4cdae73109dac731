"""What the tips buy: read, compared, and shown on pages."""

import json

import pytest

from extensions.core.topics import Topic, sha256
from extensions.measurements.sphinx_measured import (
    read_recordings,
)
from tests.helpers.builds import built
from tests.helpers.evidence import record

WORKLOAD = '''"""Adding and multiplying

Two numbers.
"""
{needs}

def cases(device):
    """Return what is timed."""
    return {{"small: add": lambda: 1 + 1, "small: multiply": lambda: 2 * 2}}
'''
PAGE = "# One\n\n```{measured}\n```\n\n"
FACTS = {
    "device": "A processor",
    "torch": "2.13.0",
    "python": "3.11.7",
    "machine": "x86_64, 2 cores",
    "threads": "2",
    "date": "2026-01-31",
}
CASES = {
    "small: add": {"seconds": [0.010, 0.010, 0.012], "peak_bytes": 4000},
    "small: multiply": {
        "seconds": [0.005, 0.005, 0.006],
        "peak_bytes": 8_000_000,
    },
}


def recorded(path, topics, **facts):
    """Write what a machine measured of some topics."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"facts": FACTS | facts, "measurements": topics}
    path.write_text(json.dumps(found))


def measure_one(house, needs=""):
    """Let one topic of a house be measured, and add its recording."""
    topic = Topic(house, "part/one")
    topic.measurement.parent.mkdir(parents=True)
    topic.measurement.write_text(WORKLOAD.format(needs=needs))
    text = topic.page.read_text()
    topic.page.write_text(text.replace("# One\n\n", PAGE, 1))
    page = house / "docs/evidence/claims.md"
    page.write_text("# Measurements\n\n```{measurements}\n```\n")
    found = {"sha256": sha256(topic.measurement), "cases": CASES}
    path = house / "evidence/here/measurements.json"
    recorded(path, {"part/one": found | {"date": "2026-02-28"}})
    return topic


@pytest.fixture
def measured(house):
    """The topic of the house that is measured."""
    return measure_one(house)


def pages(app):
    """Return the page of the topic, and the one that leads to all."""
    names = "part/one.html", "evidence/claims.html"
    return [(app.outdir / name).read_text() for name in names]


def test_a_page_shows_what_was_measured_and_one_leads_to_all(new_house):
    house = new_house()
    measure_one(house)

    app = built(house)

    assert not app.warning.getvalue()
    page, every = pages(app)
    assert "Adding and multiplying" in page
    said = "A processor (x86_64, 2 cores, 2 threads), torch 2.13.0, 2026-02-28"
    assert said in page
    assert "10 ms" in page
    assert "8 MB" in page
    assert "<td>0.5 times as long</td>" in page
    assert "No CUDA device has measured it yet, so" in page
    assert "stale" not in page
    assert (
        '<li><a href="../part/one.html#measured">Adding and multiplying</a>:'
        " A processor</li>"
    ) in every


def test_what_has_changed_since_is_shown_by_the_next_build(
    measured, house, build
):
    build()
    with measured.measurement.open("a") as file:
        file.write("# changed\n")
    old = house / "evidence/here/measurements.json"
    new = house / "evidence/there/measurements.json"
    new.parent.mkdir()
    recording = json.loads(old.read_text())
    on_cuda = {"device": "A GPU", "processor": "A CPU", "cuda": "13.0"}
    recording["facts"] |= on_cuda
    new.write_text(json.dumps(recording))

    page, every = pages(build())

    assert "stale: the" in page
    assert "(stale)" in every
    assert "A GPU (A CPU, x86_64, 2 cores, 2 threads, CUDA 13.0)" in page
    assert "No CUDA device has measured it" not in page


@pytest.mark.parametrize(
    ("needs", "on_its_page", "among_all"),
    [
        ("", "Not measured on any machine yet", "not measured yet</li>"),
        (
            'NEEDS = "cuda"',
            "Not measured on any machine with one yet",
            "not measured yet, since it needs a CUDA device",
        ),
    ],
)
def test_without_a_recording_a_page_says_so(
    house, build, needs, on_its_page, among_all
):
    measure_one(house, needs)
    recorded(house / "evidence/here/measurements.json", {})

    app = build()

    assert not app.warning.getvalue()
    page, every = pages(app)
    assert on_its_page in page
    assert ("Does not apply without a CUDA device" in page) == bool(needs)
    assert among_all in every


def test_a_page_that_shows_no_measurement_that_is_there_is_reported(
    measured, build
):
    measured.measurement.unlink()

    assert "no measurements/part/one.py to show" in build().warning.getvalue()


@pytest.fixture
def timed_recipe(house):
    """A recipe that draws its own timings, and the measurement beside it."""
    recipe = Topic(house, "gallery/three")
    with recipe.snippet.open("a") as file:
        file.write(
            '\n# %% times\nfigure, axes = plt.subplots(num="timings")\n'
            'axes.set_ylabel("time, ms")\n'
        )
    recipe.measurement.parent.mkdir(parents=True)
    recipe.measurement.write_text(WORKLOAD.format(needs=""))
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


def test_the_first_of_each_group_is_its_base_round_by_round(tmp_path):
    cases = {
        "a: x": [1.0, 2.0, 4.0, 1.0, 1.0],
        "a: y": [0.9, 2.0, 4.4, 1.2, 0.5],
        "b: x": [0.5, 1.0],
        "b: y": [0.25, 0.5],
    }
    path = tmp_path / "measurements.json"
    given = {n: {"seconds": s, "peak_bytes": 0} for n, s in cases.items()}
    recorded(path, {"part/one": {"sha256": "x", "cases": given}})

    groups = read_recordings(path)["part/one"].groups

    assert [each.name for each in groups["a"]] == ["x", "y"]
    assert groups["a"][1].beside == "1 times as long (0.9 to 1.1)"
    assert (groups["a"][1].time, groups["a"][1].rounds) == ((0.9, 1.2, 2.0), 5)
    assert groups["b"][1].beside == "0.5 times as long"
