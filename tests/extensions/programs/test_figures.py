"""Figures, drawn for light pages and for dark ones."""

import re

import matplotlib
import pytest
from extensions.programs.sphinx_figures import scrape, swapped

matplotlib.use("agg")


@pytest.fixture
def plot(tmp_path):
    """Draw a figure, scrape it, return the reST and the two pictures."""
    from matplotlib import pyplot as plt

    plt.close("all")  # what another test of this process has left open

    def plot(title="A title"):
        figure, axes = plt.subplots()
        axes.plot([1, 2], color="#0072B2", label="line")
        axes.text(1, 1, "words", bbox={"facecolor": "white"})
        axes.legend()
        figure.suptitle(title)
        paths = iter([str(tmp_path / "images" / "one.png")])
        variables = {"image_path_iterator": paths, "src_file": "one.py"}
        (tmp_path / "images").mkdir(exist_ok=True)
        rst = scrape(("code", "", 7), variables, {"src_dir": tmp_path})
        names = "one.svg", "one_dark.svg"
        return rst, *((tmp_path / "images" / n).read_text() for n in names)

    yield plot
    plt.close("all")


def test_a_figure_is_shown_once_for_light_and_once_for_dark(plot):
    rst, _, _ = plot()

    assert re.findall(r"image:: (\S+)", rst) == [
        "/images/one.svg",
        "/images/one_dark.svg",
    ]
    assert re.findall(r":class: (\S+)", rst) == ["only-light", "only-dark"]
    assert rst.count(":alt: A title") == 2


def test_the_dark_figure_has_no_black_and_keeps_its_hues(plot):
    _, light, dark = plot()

    assert "stroke: #000000" in light
    assert "#000000" not in dark
    assert "#ffffff" not in dark
    assert light.count("#0072b2") == dark.count("#0072b2") > 0


def test_a_figure_is_the_same_at_every_build(plot):
    assert plot() == plot()


def test_an_untitled_figure_is_an_error_at_its_line(plot):
    with pytest.raises(ValueError, match=r"^one\.py:7: an untitled figure"):
        plot("")


def test_only_neutral_colours_are_swapped():
    assert swapped("#0072B2") == "#0072B2"
    assert swapped("black")[0] > 0.9
    assert swapped("white")[0] < 0.1
    assert swapped((0, 0, 0, 0.5))[3] == 0.5


@pytest.fixture
def scraped(tmp_path):
    """Draw a figure of times, scrape it, return the reST."""
    from matplotlib import pyplot as plt

    def scraped(label, **options):
        _, axes = plt.subplots(**options)
        axes.set_title("A title")
        axes.set_ylabel(label)
        paths = iter([str(tmp_path / "one.png")])
        variables = {"image_path_iterator": paths, "src_file": "one.py"}
        return scrape(("code", "", 7), variables, {"src_dir": tmp_path})

    yield scraped
    plt.close("all")


def test_timings_are_not_drawn_but_shown_as_recorded(scraped, tmp_path):
    rst = scraped("time, ms", num="timings")

    assert "differs at every run" in rst
    assert "\n.. measured::\n" in rst
    assert "image::" not in rst
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "label", ["time, ms", "milliseconds", "epochs per second", "µs", "s"]
)
def test_a_time_outside_the_timings_is_an_error_at_its_line(scraped, label):
    with pytest.raises(ValueError, match=r"^one\.py:7: a figure of times"):
        scraped(label)


@pytest.mark.parametrize("label", ["timesteps", "losses", "calls"])
def test_a_label_that_names_no_unit_of_time_is_none(scraped, label):
    assert "image::" in scraped(label)
