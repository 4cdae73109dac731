"""What a page says of itself: at its head, and where others list it."""

import re

import pytest

from extensions.pages.head import summary_of

PROSE = """# One

You will write `x = 1`, *once*.
A second sentence.

"""


def head(app, page="part/one"):
    html = (app.outdir / f"{page}.html").read_text()
    return re.findall('<p class="page-head">(.*?)</p>', html, re.S)


def test_the_head_says_how_long_the_page_takes_and_what_it_needs(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text().replace("# One\n", "# One\n\nWhat.\n"))
    app = build()

    [said] = head(app)
    assert said.startswith("1 min to read · needs Python · <a ")
    html = (app.outdir / "part/one.html").read_text()
    assert '</p>\n<p class="page-head">' in html


def test_a_recipe_has_the_same_head(site):
    [said] = head(site, "gallery/three")

    assert said.startswith("1 min to read · needs matplotlib · <a ")


def test_the_head_names_a_library_as_it_is_installed(house, build):
    snippet = house / "snippets/part/one.py"
    load = "# %% start\nfrom sklearn.datasets import load_digits\n"
    text = snippet.read_text().replace("# %% start\n", load)
    snippet.write_text(text)

    [said] = head(build())

    assert said.startswith("1 min to read · needs scikit-learn · <a ")


def test_the_head_links_to_what_is_to_be_read_first(house, build):
    page = house / "docs/part/one.md"
    front = "---\nread_first: part/two\n---\n\n"
    page.write_text(front + page.read_text())

    [said] = head(build())

    assert (
        'read first: <a class="reference internal" href="two.html">Two</a>'
        in said
    )


@pytest.mark.parametrize("option", ["", "\n:folded:"])
def test_what_is_folded_takes_no_time(house, build, option):
    snippet = house / "snippets/part/one.py"
    lines = "\n".join(f"print({number})" for number in range(150))
    snippet.write_text(snippet.read_text() + lines + "\n")
    page = house / "docs/part/one.md"
    cell = f"{{cell}} count{option}"
    page.write_text(page.read_text().replace("{cell} count", cell))

    [said] = head(build())

    minutes = int(said.partition(" ")[0])
    assert minutes == (1 if option else 5)


def test_a_summary_is_the_first_sentence_with_its_code(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text().replace("# One\n", PROSE, 1))

    summary = summary_of(build().env, "part/one")
    assert summary.text == "You will write `x = 1`, once."
    assert summary.minutes == 1


def test_what_nobody_has_read_says_nothing(site):
    assert summary_of(site.env, "part/none").text == ""


def test_code_and_words_take_time_and_what_is_folded_takes_none(house, build):
    page = house / "docs/part/one.md"
    page.write_text(f"{page.read_text()}\n{'word ' * 1000}\n")

    assert summary_of(build().env, "part/one").minutes == 5
