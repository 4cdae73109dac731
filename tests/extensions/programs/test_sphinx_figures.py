"""Figures, drawn for light pages and for dark ones; recipes and tables."""

import re

import matplotlib
import pytest

from extensions.programs.sphinx_figures import scrape, swapped
from tests.helpers.builds import built

matplotlib.use("agg")
WORDS = "See <a> & more."
DOT = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'


@pytest.fixture
def plot(tmp_path):
    """Draw a figure, scrape it, return the reST and the two pictures."""
    from matplotlib import pyplot as plt

    plt.close("all")  # what another test of this process has left open

    def plot(title="A title", label="", **options):
        figure, axes = plt.subplots(**options)
        axes.plot([1, 2], color="#0072B2", label="line")
        axes.text(1, 1, "words", bbox={"facecolor": "white"})
        axes.set_ylabel(label)
        axes.legend()
        figure.suptitle(title)
        paths = iter([str(tmp_path / "one.png")])
        variables = {"image_path_iterator": paths, "src_file": "one.py"}
        rst = scrape(("code", "", 7), variables, {"src_dir": tmp_path})
        return rst, *(each.read_text() for each in sorted(tmp_path.iterdir()))

    yield plot
    plt.close("all")


def test_a_figure_is_shown_once_for_light_and_once_for_dark(plot):
    rst, light, dark = drawn = plot()

    assert re.findall(r"image:: (\S+)", rst) == [
        "/one.svg",
        "/one_dark.svg",
    ]
    assert re.findall(r":class: (\S+)", rst) == ["only-light", "only-dark"]
    assert rst.count(":alt: A title") == 2
    assert "stroke: #000000" in light
    assert "#000000" not in dark
    assert "#ffffff" not in dark
    assert light.count("#0072b2") == dark.count("#3390cf") > 0
    assert plot() == drawn  # at every build


def test_an_untitled_figure_is_an_error_at_its_line(plot):
    with pytest.raises(ValueError, match=r"^one\.py:7: an untitled figure"):
        plot("")


def test_neutral_colours_are_swapped_and_the_dark_blue_is_lightened():
    assert swapped("#D55E00") == (213 / 255, 94 / 255, 0, 1)
    assert swapped((0, 114 / 255, 178 / 255, 0.5)) > (0.1, 0.5, 0.7, 0.5)
    assert swapped("black")[0] > 0.9 > 0.1 > swapped("white")[0]
    assert swapped((0, 0, 0, 0.5))[3] == 0.5


def test_timings_are_not_drawn_but_shown_as_recorded(plot):
    [rst] = plot(label="time, ms", num="timings")

    assert "differs at every run" in rst
    assert "\n.. measured::\n" in rst
    assert "image::" not in rst


@pytest.mark.parametrize("label", ["time, ms", "epochs per second"])
def test_a_time_outside_the_timings_is_an_error_at_its_line(plot, label):
    with pytest.raises(ValueError, match=r"^one\.py:7: a figure of times"):
        plot(label=label)


def test_a_label_that_names_no_unit_of_time_is_none(plot):
    assert "image::" in plot(label="timesteps")[0]


@pytest.fixture(scope="module")
def recipes(new_house):
    """A site with a recipe that says what it is for, and one that is bare."""
    house = new_house()
    recipe = house / "gallery/three.py"
    text = recipe.read_text().replace("=====\n", f"=====\n\n{WORDS}\n", 1)
    recipe.write_text(text)
    four = text.partition("import")[0].replace("Three", "Four") + "lines = 1\n"
    (house / "gallery/four.py").write_text(four)
    return built(house)


def test_the_list_of_recipes_shows_each_with_its_picture(recipes):
    html = (recipes.outdir / "gallery/index.html").read_text()

    four, three = re.findall(r'<div class="recipe-card .*?</div>', html, re.S)
    assert ">Three</a>" in three
    assert "See &lt;a&gt; &amp; more." in three
    assert re.findall(r'class="only-(\w+)"', three) == ["light", "dark"]
    assert "sphx_glr_three_001.svg" in three
    assert "sphx_glr_three_001_dark.svg" in three
    assert "<img" not in four
    assert "tooltip=" not in html


def test_a_recipe_shows_its_picture_at_its_head_as_well(recipes):
    html = (recipes.outdir / "gallery/three.html").read_text()

    _, head, body = re.split(r"<p>See &lt;a&gt;.*?</p>|import</span>", html)
    assert "What comes of it:" in head
    for part in (head, body):
        assert re.findall(r'class="only-(\w+)"', part) == ["light", "dark"]
    four = (recipes.outdir / "gallery/four.html").read_text()
    assert "What comes of it" not in four


def test_a_picture_says_its_size_and_leads_nowhere(site):
    html = (site.outdir / "gallery/three.html").read_text()

    images = re.findall(r"<img [^>]*sphx_glr_three[^>]*>", html)

    assert len(images) == 4  # in light and in dark, at the head and below
    for image in images:
        assert re.search(r' width="\d{3}"', image)
        assert re.search(r' height="\d{3}"', image)
    assert "image-reference" not in html


def test_the_table_of_a_page_is_plain_and_keeps_its_words(house, build):
    snippet, page = house / "snippets/part/one.py", house / "docs/index.md"
    rows = '{"float32": {"bytes": 4}, "float16": {"bytes": 2}}'
    snippet.write_text(
        snippet.read_text().replace(
            'print(word, "counted")',
            "import pandas as pd\n\n"
            f'pd.DataFrame.from_dict({rows}, orient="index")',
        )
    )
    (house / "docs/dot.svg").write_text(DOT)
    page.write_text(
        page.read_text() + "\n```{image} dot.svg\n:width: 50%\n```"
    )

    app = build()

    html = (app.outdir / "part/one.html").read_text()
    table = html[html.index("<table") : html.index("</table>")]
    assert table.startswith('<table class="dataframe">')
    assert "style" not in table
    assert table.count("<th>") == 3
    for word in ("bytes", "float32", "float16", "4", "2"):
        assert f">{word}<" in table
    assert "<style scoped>" not in html
    # Beside it: a picture whose size the page gives keeps that.
    [image] = re.findall(
        r"<img [^>]*dot[^>]*>", (app.outdir / "index.html").read_text()
    )
    assert "width: 50%" in image
    assert "height" not in image
