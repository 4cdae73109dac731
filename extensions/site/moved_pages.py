"""Keep the addresses of pages that have moved: each leads to the new one."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util.osutil import relative_uri

from extensions.files.problem import Problem
from extensions.files.reading import text_of, toml_of
from extensions.files.writing import write
from extensions.site.builder import SiteBuilder
from extensions.site.page_basis import root_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

LIST = "docs/moved.toml"
# Works without a script, and says the new address to those who stay.
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="robots" content="noindex">
<meta http-equiv="refresh" content="0; url={uri}">
</head>
<body><p>This page has moved: <a href="{uri}">{title}</a>.</p></body>
</html>
"""


def moved(root: Path) -> dict[str, str]:
    """Return the new name of each page that has moved, by its old one."""
    path = root / LIST
    return dict(toml_of(path)) if path.exists() else {}


def write_pages(app: Sphinx, error: Exception | None) -> None:
    """Write a page at each old address."""
    builder, root = app.builder, root_of(app.env)
    if error or not isinstance(builder, SiteBuilder):
        return
    for old, new in moved(root).items():
        line = text_of(root / LIST).partition(f'"{old}"')[0].count("\n") + 1
        if new not in app.env.found_docs:
            raise Problem(root / LIST, line, f"no page {new!r}")
        if old in app.env.found_docs:
            raise Problem(root / LIST, line, f"there is a page {old!r}")
        page, uri = builder.get_target_uri(old), builder.get_target_uri(new)
        text = PAGE.format(
            title=escape(app.env.titles[new].astext()),
            uri=escape(relative_uri(page, uri)),
        )
        write(Path(app.outdir, page), text)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write once all pages are known."""
    app.connect("build-finished", write_pages)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
