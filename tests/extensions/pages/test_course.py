"""The course: the pages beside a page of it, and its place."""

import re

import pytest

from tests.helpers.builds import built

COURSE = """# Index

```{course}
part/two
part/one
```
"""


def add_course(house):
    """Add a course that is not in the order of the pages of a house."""
    (house / "docs/course.md").write_text(COURSE)
    index = house / "docs/index.md"
    index.write_text(index.read_text().replace("part/*", "part/*\ncourse"))


@pytest.fixture(scope="module")
def course(new_house):
    """The site of a house with such a course."""
    house = new_house()
    add_course(house)
    return built(house)


def page(app, name):
    return (app.outdir / f"{name}.html").read_text()


def test_a_page_says_its_place_and_leads_on(course):
    first, last = page(course, "part/two"), page(course, "part/one")

    assert not course.warning.getvalue()
    assert 'Page 1 of 2 of <a href="../course.html">the course' in first
    assert "Page 2 of 2" in last
    assert re.search('rel="next" title="One" href="one.html"', first)
    assert re.search('rel="prev" title="Two" href="two.html"', last)
    assert re.search('rel="next" title="Index" href="../course.html"', last)


def test_other_pages_have_no_place_in_it(course):
    assert "course-place" not in page(course, "gallery/three")
    assert "course.js" not in page(course, "gallery/three")
    assert "course.js" in page(course, "part/one")
    assert "course.js" in page(course, "course")


def test_a_changed_course_is_followed_by_the_next_build(house, build):
    add_course(house)
    build()
    path = house / "docs/course.md"
    path.write_text(COURSE.replace("part/two\npart/one", "part/one\npart/two"))

    assert "Page 1 of 2" in page(build(), "part/one")


def test_a_course_without_scripts_offers_nothing_that_needs_them(course):
    html = page(course, "course")

    assert "<button" not in html.partition("<article")[2]
    assert '<p class="course-progress" role="status" hidden>' in html
