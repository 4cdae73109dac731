"""The event of Sphinx in which a feature changes a page before it is written.

Its handlers have five arguments, of which each uses few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx


@dataclass(frozen=True)
class PageContext:
    """A page that is about to be written."""

    app: Sphinx
    name: str
    values: dict[str, Any]
    """What the template of the page uses; to be changed in place."""
    doctree: nodes.document | None
    """The text of the page, if it is no generated one."""

    def add_to_head(self, html: str) -> None:
        """Add some HTML to the head of the page, behind the rest."""
        self.values["metatags"] = self.values.get("metatags", "") + html


def on_page_context(
    app: Sphinx, change: Callable[[PageContext], None]
) -> None:
    """Let a function change each page before it is written."""

    def handle(
        app: Sphinx,
        name: str,
        template: str,
        values: dict[str, Any],
        doctree: nodes.document | None,
    ) -> None:
        change(PageContext(app, name, values, doctree))

    app.connect("html-page-context", handle)
