"""Addresses within the site, as a page links to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sphinx.util.osutil import relative_uri

if TYPE_CHECKING:
    from sphinx.environment import BuildEnvironment

    from extensions.core.topics import Topic


def address(env: BuildEnvironment, topic: Topic, anchor: str) -> str:
    """Return how the page being read links to a place on a topic's page."""
    page = relative_uri(f"{env.docname}.html", f"{topic.name}.html")
    return f"{page}#{anchor}"


def cell_address(env: BuildEnvironment, topic: Topic, name: str) -> str:
    """Return how the page being read links to a cell on its topic's page."""
    return address(env, topic, f"cell-{name}")
