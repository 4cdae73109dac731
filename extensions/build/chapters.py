"""The chapters of the site in the order in which they are read, and titles.

That order is the one of the table of contents on the front page, and stands
nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.build.dependencies import ALL, KINDS, depend_on, root_of
from extensions.core.reading_order import words_of_title

if TYPE_CHECKING:
    from sphinx.application import Sphinx
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


def title_shown(env: BuildEnvironment, name: str) -> str:
    """Return the title of a page; the page being read then depends on it."""
    depend_on(env, "titles", name)
    return words_of_title(root_of(env), name)


def _titles(app: Sphinx) -> dict[str, str]:
    """Return the title of each page, and all of them."""
    root = root_of(app.env)
    found = {
        name: words_of_title(root, name) for name in sorted(app.env.found_docs)
    }
    return found | {ALL: f"{found}"}


def setup_titles(app: Sphinx) -> None:
    """Let pages depend on titles."""
    KINDS["titles"] = _titles
