"""The title of another page, as a part of the page that is being read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.build.dependencies import ALL, KINDS, depend_on, root_of
from extensions.core.reading_order import words_of_title

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def _titles(app: Sphinx) -> dict[str, str]:
    """Return the title of each page, and all of them."""
    root = root_of(app.env)
    found = {
        name: words_of_title(root, name) for name in sorted(app.env.found_docs)
    }
    return found | {ALL: f"{found}"}


def title_shown(env: BuildEnvironment, name: str) -> str:
    """Return the title of a page; the page being read then depends on it."""
    depend_on(env, "titles", name)
    return words_of_title(root_of(env), name)


def setup_title_dependency(app: Sphinx) -> None:
    """Let pages depend on titles."""
    KINDS["titles"] = _titles
