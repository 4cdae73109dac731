"""The pages of the site by name: what each is called, and its address."""

from __future__ import annotations

import ast
import posixpath
from itertools import pairwise
from pathlib import Path

from markdown_it.token import Token

from extensions.files.markdown import parse
from extensions.files.reading import python_of, text_of
from extensions.files.tokens import words


def name_of(target: str, beside: str) -> str:
    """Return the name of the page that a page means by a target."""
    if target.startswith("/"):
        return target[1:]
    folder = posixpath.dirname(beside)
    return posixpath.normpath(posixpath.join(folder, target))


def address_of(name: str, base: str) -> str:
    """Return where a page stands; "" if the site's address is not known."""
    return f"{base.rstrip('/')}/{name}.html" if base else ""


def title_of(root: Path, name: str) -> list[Token] | None:
    """Return the title of a page as inline tokens; none where no page is."""
    page = root / "docs" / f"{name}.md"
    header = root / f"{name.removesuffix('/index')}/GALLERY_HEADER.rst"
    recipe = root / f"{name}.py"
    if page.is_file():
        tokens = parse(text_of(page))
        for token, following in pairwise(tokens):
            if token.type == "heading_open":
                return following.children
    elif name == "gallery/index" and header.is_file():
        return [words(text_of(header).partition("\n")[0])]
    elif name.startswith("gallery/") and recipe.is_file():
        doc = ast.get_docstring(python_of(recipe)) or ""
        return [words(doc.partition("\n")[0])]
    return None


def first_lines(root: Path) -> str:
    """Return all lines that may be the title of a page."""
    pages = sorted(root.glob("docs/**/*.md"))
    recipes = sorted(root.glob("gallery/*"))
    found = [
        line
        for page in pages
        for line in text_of(page).splitlines()
        if line.startswith("# ")
    ]
    found += [
        "\n".join(text_of(path).splitlines()[:3])
        for path in recipes
        if path.is_file()
    ]
    return "\n".join(found)
