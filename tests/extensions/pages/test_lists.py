"""Lists of pages: chapters, the course, recipes."""

import re

import pytest

from tests.helpers.builds import built

LISTS = "\n```{chapters}\n```\n"
CHAPTER = """# A part

What of `word`?
More.

```{course}
```

```{toctree}
two
one
```
"""


def write_lists(house):
    """Let the front page of a house list two chapters, one a course."""
    (house / "docs/part/index.md").write_text(CHAPTER)
    page = house / "docs/index.md"
    text = page.read_text().replace(":glob:\n\npart/*\n", "\npart/index\n")
    page.write_text(text + LISTS)
    return page


@pytest.fixture
def front(house):
    """Such a front page."""
    return write_lists(house)


@pytest.fixture(scope="module")
def listed(new_house):
    """The site with that page, and with a chapter that lists them as well."""
    house = new_house()
    write_lists(house)
    page = house / "docs/part/index.md"
    page.write_text(f"{page.read_text()}\n```{{chapters}}\n```\n")
    page = house / "docs/part/one.md"
    page.write_text(page.read_text().replace("# One\n", "# One\n\nOne is.\n"))
    return built(house)


def items(app, kind, page="index"):
    """Return what stands in the lists of a kind, without its markup."""
    html = (app.outdir / f"{page}.html").read_text()
    [found] = re.findall(
        rf'<{kind} class="page-list">(.*?)</{kind}>', html, re.S
    )
    return re.findall(r"<li.*?>(.*?)</li>", found, re.S)


def test_chapters_stand_in_the_order_of_the_contents(listed):
    part, recipes = items(listed, "ul")

    assert part == (
        '<a href="part/index.html">A part</a> What of <code>word</code>?'
    )
    assert recipes.startswith('<a href="gallery/index.html">')


def test_another_order_of_the_contents_is_another_order(front, build):
    text = front.read_text()
    chapters = "part/index\ngallery/index\n"
    assert chapters in text
    front.write_text(text.replace(chapters, "gallery/index\npart/index\n"))

    assert "A part" in items(build(), "ul")[1]


def test_a_chapter_does_not_list_itself(listed):
    html = (listed.outdir / "part/index.html").read_text()

    [others] = re.findall(r'<ul class="page-list">.*?</ul>', html, re.S)
    assert re.findall('href="(.*?)"', others) == ["../gallery/index.html"]


def test_a_course_says_how_long_each_page_takes_and_all(listed):
    first, second = items(listed, "ol", "part/index")
    assert first.startswith('<a href="two.html">Two</a> ')
    assert second == '<a href="one.html">One</a> <small>1 min</small> One is.'
    html = (listed.outdir / "part/index.html").read_text()
    assert "Together they take 2 minutes to read." in html


def test_a_page_that_begins_anew_renews_the_list(house, front, build):
    build()
    page = house / "docs/part/one.md"
    long = "word " * 500
    page.write_text(page.read_text().replace("# One\n", f"# One\n\n{long}\n"))

    assert "<small>3 min</small>" in items(build(), "ol", "part/index")[1]


def head(app, name):
    """Return the line at the head of a page of the course."""
    html = (app.outdir / f"{name}.html").read_text()
    [line] = re.findall('<p class="page-head">(.*?)</p>', html, re.S)
    return re.sub("<.*?>", "", line)


def test_a_page_says_its_place_in_the_course(listed):
    assert head(listed, "part/two").startswith(
        "Page 1 of 2 of the course · 1 min to read · needs "
    )
    assert head(listed, "part/one").startswith("Page 2 of 2 of the course")
    assert "the course" not in head(listed, "gallery/three")


def test_another_order_of_the_course_is_another_place(house, front, build):
    build()
    page = house / "docs/part/index.md"
    page.write_text(CHAPTER.replace("two\none", "one\ntwo"))

    assert head(build(), "part/one").startswith("Page 1 of 2")


RECIPES = """
```{recipes}
gallery/three
```
"""


def cards(house, build, written=RECIPES):
    page = house / "docs/index.md"
    page.write_text(page.read_text() + written)
    app = build()
    html = (app.outdir / "index.html").read_text()
    return app, html.partition("recipe-cards")[2]


def test_a_recipe_shows_its_name_its_first_sentence_and_its_picture(
    house, build
):
    recipe = house / "gallery/three.py"
    recipe.write_text(
        recipe.read_text().replace(
            "=====\n", "=====\n\nSee how\nit goes. More.\n"
        )
    )
    _, html = cards(house, build)

    assert 'href="gallery/three.html">Three</a>' in html
    assert "<p>See how it goes.</p>" in html
    assert 'class="only-light"' in html
    assert 'class="only-dark"' in html
    assert "sphx_glr_three_001_dark.svg" in html


def test_what_is_no_recipe_is_named(house, build):
    app, _ = cards(house, build, RECIPES.replace("gallery/", "part/"))

    assert "no recipe: 'part/three'" in app.warning.getvalue()
