"""Write ``llms.txt``: the pages of the site, for language models.

Ours, because sphinx-llms-txt collects pages while they are written: a build
that writes one page would list only that one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.build.dependencies import root_of
from extensions.build.site_files import SITE_FILES
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.reading_order import (
    chapters,
    listed_in,
    words_of_title,
)
from extensions.core.topics import Topic

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _line_of_page(app: Sphinx, name: str) -> str:
    """Return a line with the link to a page and its first sentence."""
    root, base = root_of(app.env), app.config.html_baseurl
    topic = Topic(root, name)
    ending = "md" if topic.snippet.exists() else "html"
    place = f"{base.rstrip('/')}/" if base else ""
    opening = ledger_of(app).prose.get(name, ())[:1]
    said = "".join(f": {sentence.text}" for sentence in opening)
    return f"- [{words_of_title(root, name)}]({place}{name}.{ending}){said}"


def _llms_txt(app: Sphinx) -> str:
    """Return the title of the site, what it is, and its pages by chapter."""
    root = root_of(app.env)
    title = words_of_title(root, "index")
    about = ledger_of(app).prose.get("index", ())[:1]
    parts = [f"# {title}", *(f"> {sentence.text}" for sentence in about)]
    for chapter in chapters(root):
        pages = (page for page in chapter.pages if _is_page(app, page))
        parts.append(f"## {chapter.title}")
        parts.append("\n".join(_line_of_page(app, page) for page in pages))
    others = [
        name
        for name in listed_in(root, "index")
        if not name.endswith("/index") and _is_page(app, name)
    ]
    parts.append("## To look up")
    parts.append("\n".join(_line_of_page(app, name) for name in others))
    return "\n\n".join(part for part in parts if part) + "\n"


def _is_page(app: Sphinx, name: str) -> bool:
    """Whether a name in the contents is a page of the site."""
    return name in app.env.found_docs


def setup_llms_txt(app: Sphinx) -> None:
    """Add the file."""
    SITE_FILES["llms.txt"] = _llms_txt
