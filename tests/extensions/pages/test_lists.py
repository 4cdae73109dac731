"""Lists of pages: chapters and courses."""

import re

import pytest

from tests.helpers.builds import built

LISTS = """
```{chapters}
```

```{course}
part/two
part/one
```
"""
CHAPTER = "# A part\n\nWhat of `word`?\nMore.\n\n```{toctree}\none\ntwo\n```\n"


def write_lists(house):
    """Let the front page of a house list two chapters, and a course."""
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


def items(app, kind):
    """Return what stands in the lists of a kind, without its markup."""
    html = (app.outdir / "index.html").read_text()
    [found] = re.findall(
        rf'<{kind} class="page-list.*?">(.*?)</{kind}>', html, re.S
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
    first, second = items(listed, "ol")
    assert first.startswith('<a href="part/two.html">Two</a> ')
    assert second == (
        '<a href="part/one.html">One</a> <small>1 min</small> One is.'
    )
    html = (listed.outdir / "index.html").read_text()
    assert "Together they take 2 minutes to read." in html


def test_a_page_that_begins_anew_renews_the_list(house, front, build):
    build()
    page = house / "docs/part/one.md"
    long = "word " * 500
    page.write_text(page.read_text().replace("# One\n", f"# One\n\n{long}\n"))

    assert "<small>3 min</small>" in items(build(), "ol")[1]


def test_a_page_that_is_not_is_named_at_its_line(front, build):
    front.write_text(front.read_text().replace("part/two\n", "part/six\n"))

    warning = build().warning.getvalue()
    assert "a course of a page that is not: 'part/six'" in warning
    assert re.search(r"index\.md:1\d: ", warning)
