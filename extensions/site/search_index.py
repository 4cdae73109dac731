"""The index of the search: one script beside the pages, loaded when asked for.

A script, since a page that was opened from a folder can load no other file.
It holds what is found of each page, and the stemmer of Sphinx, which knows
that *freezing* and *freeze* are one word. Sphinx's own search is left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.search import IndexBuilder

from extensions.files.empty_words import EMPTY
from extensions.files.writing import remove, write
from extensions.site.builder import SiteBuilder
from extensions.site.search_texts import searched

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.util.typing import ExtensionMetadata

NAME = "search-index.js"
# The theme brings them whether or not they are used.
OF_SPHINX = ("searchtools.js", "language_data.js")


def pages(builder: Builder) -> list[list[object]]:
    """Return each page as a list, which is shorter than a mapping."""
    found = searched(builder.env)
    return [
        [name, builder.get_target_uri(name), *found[name]]
        for name in sorted(found)
    ]


def stemmer(builder: Builder) -> str:
    """Return a script that sets ``window.Stemmer``."""
    return IndexBuilder(builder.env, "en", {}, "").get_js_stemmer_code()


def as_json(value: object) -> str:
    """Return a value as short as can be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def script(builder: Builder) -> str:
    """Return the script that brings all that a search needs to know."""
    values = {"emptyWords": sorted(EMPTY), "searchedPages": pages(builder)}
    lines = [
        f"window.{name} = {as_json(value)};" for name, value in values.items()
    ]
    return "\n".join([stemmer(builder), *lines, ""])


def write_index(app: Sphinx, error: Exception | None) -> None:
    """Write the index, and remove what Sphinx's own search would need."""
    builder = app.builder
    if error or not isinstance(builder, SiteBuilder) or builder.is_current:
        return
    write(Path(app.outdir, NAME), script(builder))
    for name in OF_SPHINX:
        remove(Path(app.outdir, "_static", name))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write before the builder confirms that all is written."""
    SiteBuilder.search = False
    app.connect("build-finished", write_index)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
