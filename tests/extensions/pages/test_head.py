"""What a page says of itself: at its head, and where others list it."""

import re

import pytest

from extensions.pages.head import summary_of
from tests.helpers.builds import built


def head(app, page="part/one"):
    """Return the line at the head of a page."""
    html = (app.outdir / f"{page}.html").read_text()
    [line] = re.findall('</p>\n<p class="page-head">(.*?)</p>', html, re.S)
    return line


def test_the_head_says_how_long_to_read_what_first_and_what_is_needed(
    house, build
):
    page = house / "docs/part/one.md"
    opened = page.read_text().replace("# One\n", "# One\n\nWhat.\n")
    page.write_text(f"---\nread_first: part/two\n---\n\n{opened}")
    snippet = house / "snippets/part/one.py"
    load = "# %% start\nfrom sklearn.datasets import load_digits\n"
    snippet.write_text(snippet.read_text().replace("# %% start\n", load))

    assert head(build()).startswith(
        '1 min to read · read first: <a class="reference internal"'
        ' href="two.html">Two</a> · needs scikit-learn · <a '
    )


def test_a_recipe_has_the_same_head(site):
    html = (site.outdir / "gallery/three.html").read_text()

    assert ">1 min to read · needs matplotlib · <a " in html


@pytest.mark.parametrize(("option", "minutes"), [("", 10), ("\n:folded:", 5)])
def test_code_and_words_take_time_and_what_is_folded_takes_none(
    house, build, option, minutes
):
    snippet = house / "snippets/part/one.py"
    lines = "\n".join(f"print({number})" for number in range(150))
    snippet.write_text(snippet.read_text() + lines + "\n")
    page = house / "docs/part/one.md"
    cell = f"{{cell}} count{option}"
    text = page.read_text().replace("{cell} count", cell)
    page.write_text(f"{text}\n{'word ' * 1000}\n")

    assert summary_of(build().env, "part/one").minutes == minutes


def test_a_summary_is_the_first_sentence_with_its_code(house, build):
    page = house / "docs/part/one.md"
    words = "You will write `x = 1`,\n*once*.\nA second sentence."
    page.write_text(page.read_text().replace("# One\n", f"# One\n\n{words}\n"))

    env = build().env

    said = "You will write `x = 1`, once."
    assert summary_of(env, "part/one").text == said
    assert summary_of(env, "part/none").text == ""


FURO = {
    "html_theme": "furo",
    "html_theme_options": {
        "top_of_page_buttons": ["edit"],
        "source_repository": "https://github.com/owner/name/",
        "source_branch": "main",
        "source_directory": "docs/",
    },
}


def test_a_page_leads_to_its_source_and_a_recipe_nowhere(new_house):
    app = built(new_house(), confoverrides=FURO)
    page, recipe = (
        (app.outdir / f"{name}.html").read_text()
        for name in ("part/one", "gallery/three")
    )

    source = "https://github.com/owner/name/edit/main/docs/part/one.md"
    assert f'href="{source}"' in page
    assert "edit-this-page" not in recipe
