"""The way to pages that stand in no list: their navigation and breadcrumbs.

A page of the ledger or of tests shows the chapters, and of its own one the
entry that leads to it as if that were open: the whole navigation would be most
of its size and of the time to write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sphinx.environment.adapters.toctree import global_toctree_for_doc

from extensions.site.dependencies import builder_of
from extensions.site.layout import PageContext, on_page_context

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.builders.html import StandaloneHTMLBuilder

_LEDGER = "evidence/claims"
ABOVE = ("evidence/index", _LEDGER)
# How the names of the pages begin that it leads to.
_BELOW = ("evidence/changed", "evidence/claims/", "evidence/tests/")


@dataclass(frozen=True)
class _SeenFrom:
    """A builder as the navigation asks it, whose addresses fit one page."""

    builder: StandaloneHTMLBuilder
    page: str

    def get_relative_uri(self, _: str, to: str) -> str:
        """Return the address of another page."""
        return self.builder.get_relative_uri(self.page, to)


def crumbs(
    builder: StandaloneHTMLBuilder, page: str, above: tuple[str, ...]
) -> list[tuple[str, str]]:
    """Return the titles and addresses of pages, as seen from another."""
    return [
        (
            builder.env.titles[name].astext(),
            builder.get_relative_uri(page, name),
        )
        for name in above
        if name in builder.env.titles
    ]


def _navigate(page: PageContext) -> None:
    """Mark the entry that leads to a page, and open its chapter alone."""
    if not page.name.startswith(_BELOW):
        return
    builder = builder_of(page.app)
    seen = cast("Builder", _SeenFrom(builder, page.name))

    def toctree(**how: Any) -> str:
        tree = global_toctree_for_doc(
            builder.env,
            _LEDGER,
            seen,
            tags=builder.tags,
            **how | {"collapse": True},
        )
        return builder.render_partial(tree)["fragment"]

    page.values["toctree"] = toctree


def setup_navigation(app: Sphinx) -> None:
    """Take the place of Sphinx's own, before Furo asks for it."""
    on_page_context(app, _navigate)
