"""A cell of another page."""

import re

import pytest


@pytest.fixture
def page(house):
    """A page beside the pages of topics."""
    page = house / "docs/other.md"
    index = house / "docs/index.md"
    index.write_text(index.read_text().replace("part/*", "part/*\nother"))
    return page


def shown(app):
    """Return what a page shows of another one."""
    html = (app.outdir / "other.html").read_text()
    return html[
        html.index('<div class="cell again') : html.index('class="clearer"')
    ]


def test_the_code_of_a_cell_stands_below_the_title_of_its_page(page, build):
    page.write_text("# Other\n\n```{cell} count\n:from: part/one\n```\n")

    html = shown(build())

    assert 'href="part/one.html#cell-count">One</a>' in html
    assert 'print(word, "counted")' in re.sub("<.*?>", "", html).replace(
        "&quot;", '"'
    )
    assert "cell-output" not in html


def test_the_output_of_a_cell_stands_there_alone(page, build):
    page.write_text(
        "# Other\n\n```{cell} count\n:from: part/one\n:output:\n```\n"
    )

    text = re.sub("<.*?>", "", shown(build()))

    assert "one counted" in text
    assert "print" not in text


@pytest.mark.parametrize(
    ("cell", "said"),
    [("nothing", "no cell 'nothing'"), ("start", "'start' gave nothing")],
)
def test_what_is_not_there_is_reported(page, build, cell, said):
    page.write_text(
        f"# Other\n\n```{{cell}} {cell}\n:from: part/one\n:output:\n```\n"
    )

    warning = build().warning.getvalue()

    assert "other.md:3: " in warning
    assert said in warning


def test_a_cell_of_another_page_is_none_of_the_page_itself(house, build):
    page = house / "docs/part/one.md"
    page.write_text(
        page.read_text() + "\n```{cell} count\n:from: part/two\n```\n"
    )

    said = build().warning.getvalue()

    assert "a notebook cannot show {cell} with :from:" in said
    assert "shown twice" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (":from: part/one\n:folded:", "of another page is not folded"),
        (":output:", "only a cell :from: another page"),
    ],
)
def test_options_that_do_not_go_together_are_reported(
    page, build, options, said
):
    page.write_text(f"# Other\n\n```{{cell}} count\n{options}\n```\n")

    warning = build().warning.getvalue()

    assert "other.md:3: " in warning
    assert said in warning
