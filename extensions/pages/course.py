"""The course: *next* follows it, and each of its pages says its place in it.

The pages are those of ``{course}``. What a reader has read is kept in the
browser alone, by ``course.js``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from extensions.build.dependencies import PAGE_PARTS
from extensions.build.page_context import PageContext, on_page_context

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_COURSE = "course"


class Course(NamedTuple):
    """Some pages, to be read one after the other."""

    page: str
    """The page that lists them."""
    names: list[str]


def keep_course(env: BuildEnvironment, names: list[str]) -> None:
    """Keep the course that the page being read lists."""
    env.metadata[env.docname][_COURSE] = names


def course_of(env: BuildEnvironment) -> Course | None:
    """Return the course of the site, if a page lists one."""
    for page in sorted(env.found_docs):
        if names := env.metadata[page].get(_COURSE):
            return Course(page, names)
    return None


def _follow(page: PageContext) -> None:
    """Let a page of the course lead to those beside it there."""
    course = course_of(page.app.env)
    if course is None or page.name not in [course.page, *course.names]:
        return
    page.app.add_css_file("course.css")
    page.app.add_js_file("course.js", loading_method="defer")
    if page.name in course.names:
        page.values.update(_place(page, course))


def _place(page: PageContext, course: Course) -> dict[str, Any]:
    """Return what a page of the course says of its place there."""
    place = course.names.index(page.name)

    def link(at: int) -> dict[str, str]:
        is_inside = 0 <= at < len(course.names)
        name = course.names[at] if is_inside else course.page
        return {
            "link": page.values["pathto"](name),
            "title": page.app.env.titles[name].astext(),
        }

    return {
        "prev": link(place - 1),
        "next": link(place + 1),
        "course": {
            "page": page.name,
            "place": place + 1,
            "count": len(course.names),
            "link": page.values["pathto"](course.page),
        },
    }


def _courses_by_page(app: Sphinx) -> dict[str, str]:
    """Return what each page of the course shows of it."""
    course = course_of(app.env)
    if course is None:
        return {}
    return dict.fromkeys(course.names, f"{course}")


def setup_course(app: Sphinx) -> None:
    """Add the place of each page, and what lies beside it."""
    PAGE_PARTS["the course"] = _courses_by_page
    on_page_context(app, _follow)
