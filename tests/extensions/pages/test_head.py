"""What a page says of itself: at its head, and where others list it."""

import re

from tests.helpers.builds import built


def head(app, page="part/one"):
    """Return the line at the head of a page."""
    html = (app.outdir / f"{page}.html").read_text()
    [line] = re.findall('</p>\n<p class="page-head">(.*?)</p>', html, re.S)
    return line


def test_the_head_says_how_long_to_read_what_first_and_what_is_needed(
    house, build
):
    """Words and code take time, and what is folded takes none."""
    page = house / "docs/part/one.md"
    opened = page.read_text().replace("# One\n", "# One\n\nWhat.\n")
    folded = opened.replace("{cell} count", "{cell} count\n:folded:")
    front = "---\nread_first: part/two\n---\n\n"
    page.write_text(f"{front}{folded}\n{'word ' * 1000}\n")
    snippet = house / "snippets/part/one.py"
    load = "# %% start\nfrom sklearn.datasets import load_digits\n"
    lines = "\n".join(f"print({number})" for number in range(150))
    program = snippet.read_text().replace("# %% start\n", load)
    snippet.write_text(f"{program}{lines}\n")

    assert head(build()).startswith(
        '5 min to read · read first: <a class="reference internal"'
        ' href="two.html">Two</a> · needs scikit-learn · <a '
    )

    page.write_text(page.read_text().replace(":folded:", ""))
    assert head(build()).startswith("10 min")


def test_a_recipe_has_the_same_head(site):
    html = (site.outdir / "gallery/three.html").read_text()

    assert ">1 min to read · needs matplotlib · <a " in html


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
