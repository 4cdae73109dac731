"""The pages of the site by name: what each is called, and its address."""

from __future__ import annotations

import ast
import posixpath
from itertools import pairwise
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.markdown import parse
from extensions.core.reading import python_in, text_of

# What sphinx-gallery calls the text above a list of programs.
HEADER = "GALLERY_HEADER.rst"


def name_of(target: str, beside: str) -> str:
    """Return the name of the page that a page means by a target."""
    if target.startswith("/"):
        return target[1:]
    folder = posixpath.dirname(beside)
    return posixpath.normpath(posixpath.join(folder, target))


def address_of(name: str, base: str) -> str:
    """Return where a page stands; "" if the site's address is not known."""
    return f"{base.rstrip('/')}/{name}.html" if base else ""


def title_of(root: Path, name: str) -> str | None:
    """Return the title of a page as Markdown; none where no page is."""
    page = root / "docs" / f"{name}.md"
    if name == "gallery/index":
        page = root / "gallery" / HEADER
    elif name.startswith("gallery/"):
        page = root / f"{name}.py"
    return _title_in(page, text_of(page)) if page.is_file() else None


@cached_by_content
def _title_in(path: Path, text: str) -> str | None:
    """Return the title that the text of a page, header or recipe has."""
    if path.suffix == ".md":
        for token, following in pairwise(parse(text)):
            if token.type == "heading_open":
                return following.content
        return None
    if path.suffix == ".py":
        text = ast.get_docstring(python_in(path, text)) or ""
    return text.partition("\n")[0]
