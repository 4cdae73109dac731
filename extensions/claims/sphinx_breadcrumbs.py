"""Breadcrumbs: the way to a page that stands in no list of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extensions.build.builder import SiteBuilder

LEDGER = ("evidence/index", "evidence/claims")


def crumbs(
    builder: SiteBuilder, page: str, above: tuple[str, ...]
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
