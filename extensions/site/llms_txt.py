"""Write ``llms.txt``: what there is to read, for programs that read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.reading_order import (
    chapters,
    listed_in,
    words_of_title,
)
from extensions.files.topics import Topic
from extensions.files.writing import write
from extensions.site.builder import SiteBuilder
from extensions.site.page_basis import root_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def listed(builder: SiteBuilder, name: str) -> str:
    """Return a line that leads to a page and says what it opens with."""
    root, base = root_of(builder.env), builder.config.html_baseurl
    topic = Topic(root, name)
    ending = "md" if topic.snippet.exists() else "html"
    place = f"{base.rstrip('/')}/" if base else ""
    opening = builder.ledger.prose.get(name, ())[:1]
    said = "".join(f": {sentence.text}" for sentence in opening)
    return f"- [{words_of_title(root, name)}]({place}{name}.{ending}){said}"


def text_of_all(builder: SiteBuilder) -> str:
    """Return the title of the site, what it is, and its pages by chapter."""
    root = root_of(builder.env)
    title = words_of_title(root, "index")
    about = builder.ledger.prose.get("index", ())[:1]
    parts = [f"# {title}", *(f"> {sentence.text}" for sentence in about)]
    for chapter in chapters(root):
        pages = (page for page in chapter.pages if is_page(builder, page))
        parts.append(f"## {chapter.title}")
        parts.append("\n".join(listed(builder, page) for page in pages))
    others = [
        name
        for name in listed_in(root, "index")
        if not name.endswith("/index") and is_page(builder, name)
    ]
    parts.append("## To look up")
    parts.append("\n".join(listed(builder, name) for name in others))
    return "\n\n".join(part for part in parts if part) + "\n"


def is_page(builder: SiteBuilder, name: str) -> bool:
    """Whether a name of the contents is one page."""
    return name in builder.env.found_docs


def put(app: Sphinx, error: Exception | None) -> None:
    """Write the list beside the pages."""
    builder = app.builder
    if error or not isinstance(builder, SiteBuilder):
        return
    write(Path(app.outdir, "llms.txt"), text_of_all(builder))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write once all pages are known."""
    app.connect("build-finished", put)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
