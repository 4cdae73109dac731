"""The chapters of the site, in the order in which they are read.

That is the order of the table of contents on the front page, and stands
nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.environment import BuildEnvironment

INDEX = "/index"


def chapters_of(env: BuildEnvironment) -> list[str]:
    """Return the names of the chapters as the site orders them."""
    pages = env.toctree_includes.get(env.config.root_doc, [])
    return [name.removesuffix(INDEX) for name in pages if name.endswith(INDEX)]


def reading_place(env: BuildEnvironment, chapter: str) -> int:
    """Return where a chapter stands on the site; elsewhere, at the end."""
    chapters = chapters_of(env)
    return chapters.index(chapter) if chapter in chapters else len(chapters)


def chapter_name(env: BuildEnvironment, chapter: str) -> str:
    """Return what the site calls a chapter."""
    title = env.titles.get(f"{chapter}{INDEX}")
    return title.astext() if title else chapter.capitalize()
