"""A cell of another page."""

import re

import pytest

from tests.helpers.builds import built

# Pages beside those of topics: what each writes.
CELLS = {
    "code": "count\n:from: part/one",
    "output": "count\n:from: part/one\n:output:",
    "no cell": "nothing\n:from: part/one\n:output:",
    "no output": "start\n:from: part/one\n:output:",
    "folded": "count\n:from: part/one\n:folded:",
    "own output": "count\n:output:",
}


@pytest.fixture(scope="module")
def others(new_house):
    """The site with these pages."""
    house = new_house()
    index = house / "docs/index.md"
    index.write_text(index.read_text().replace("part/*", "part/*\nother *"))
    for name, cell in CELLS.items():
        page = house / f"docs/other {name}.md"
        page.write_text(f"# Other\n\n```{{cell}} {cell}\n```\n")
    return built(house)


def shown(app, name):
    """Return what a page shows of another one."""
    html = (app.outdir / f"other {name}.html").read_text()
    return html[
        html.index('<div class="cell again') : html.index('class="clearer"')
    ]


def test_the_code_of_a_cell_stands_below_the_title_of_its_page(others):
    html = shown(others, "code")

    assert 'href="part/one.html#cell-count">One</a>' in html
    assert 'print(word, "counted")' in re.sub("<.*?>", "", html).replace(
        "&quot;", '"'
    )
    assert "cell-output" not in html


def test_the_output_of_a_cell_stands_there_alone(others):
    text = re.sub("<.*?>", "", shown(others, "output"))

    assert "one counted" in text
    assert "print" not in text


def warning(app, name):
    """Return what a build said of a page."""
    lines = app.warning.getvalue().splitlines()
    return "\n".join(line for line in lines if f"/other {name}.md:3: " in line)


@pytest.mark.parametrize(
    ("name", "said"),
    [("no cell", "no cell 'nothing'"), ("no output", "'start' gave nothing")],
)
def test_what_is_not_there_is_reported(others, name, said):
    assert said in warning(others, name)


def test_a_cell_of_another_page_is_none_of_the_page_itself(house, build):
    page = house / "docs/part/one.md"
    page.write_text(
        page.read_text() + "\n```{cell} count\n:from: part/two\n```\n"
    )

    said = build().warning.getvalue()

    assert "a notebook cannot show {cell}" in said
    assert "shown twice" not in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("folded", "of another page is not folded"),
        ("own output", "only a cell :from: another page"),
    ],
)
def test_options_that_do_not_go_together_are_reported(others, name, said):
    assert said in warning(others, name)
