"""The course: the pages beside a page of it, and its place."""

import re

import pytest

COURSE = """# Index

```{course}
part/two
part/one
```
"""


@pytest.fixture
def course(house):
    """A house with a course that is not in the order of its pages."""
    (house / "docs/course.md").write_text(COURSE)
    index = house / "docs/index.md"
    index.write_text(index.read_text().replace("part/*", "part/*\ncourse"))
    return house


def page(app, name):
    return (app.outdir / f"{name}.html").read_text()


def test_a_page_says_its_place_and_leads_on(course, build):
    app = build()
    first, last = page(app, "part/two"), page(app, "part/one")

    assert not app.warning.getvalue()
    assert 'Page 1 of 2 of <a href="../course.html">the course' in first
    assert "Page 2 of 2" in last
    assert re.search('rel="next" title="One" href="one.html"', first)
    assert re.search('rel="prev" title="Two" href="two.html"', last)
    assert re.search('rel="next" title="Index" href="../course.html"', last)


def test_other_pages_have_no_place_in_it(course, build):
    app = build()

    assert "course-place" not in page(app, "gallery/three")
    assert "course.js" not in page(app, "gallery/three")
    assert "course.js" in page(app, "part/one")
    assert "course.js" in page(app, "course")


def test_a_changed_course_is_followed_by_the_next_build(course, build):
    build()
    path = course / "docs/course.md"
    path.write_text(COURSE.replace("part/two\npart/one", "part/one\npart/two"))

    assert "Page 1 of 2" in page(build(), "part/one")


def test_a_course_without_scripts_offers_nothing_that_needs_them(
    course, build
):
    app = build()

    assert "<button" not in page(app, "course").partition("<article")[2]
    assert '<p class="course-progress" role="status" hidden>' in page(
        app, "course"
    )
