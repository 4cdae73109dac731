"""The index of the search: one script beside the pages, loaded when asked for.

A script, since a page that was opened from a folder can load no other file.
It holds what is found of each page, and the stemmer of Sphinx, which cuts what
somebody types. Sphinx's own search is left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.search import IndexBuilder

from extensions.files.empty_words import EMPTY
from extensions.files.writing import remove, write
from extensions.site.builder import SiteBuilder
from extensions.site.search_terms import Terms, field_of, meaning
from extensions.site.search_texts import searched

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.util.typing import ExtensionMetadata

NAME = "search-index.js"
# The theme brings them whether or not they are used.
OF_SPHINX = ("searchtools.js", "language_data.js")


def index_of(builder: Builder) -> dict[str, object]:
    """Return what a search needs to know; lists are shorter than mappings."""
    terms, none = Terms(), field_of("")
    pages: list[list[object]] = []
    for name, (title, also, sections) in sorted(searched(builder.env).items()):
        names = [meaning(each) for each in (title, *also.split(", "))]
        pages.append(
            [
                name,
                builder.get_target_uri(name),
                title,
                sorted({*names} - {""}),
                terms.add(none, none, none, field_of(also), field_of(title)),
                [
                    [
                        each.anchor,
                        each.heading,
                        terms.add(*each.fields, none, none),
                    ]
                    for each in sections
                ],
            ]
        )
    return {"empty": sorted(EMPTY), "pages": pages, "terms": terms.written()}


def script(builder: Builder) -> str:
    """Return the script that brings the index, and the stemmer of Sphinx."""
    stemmer = IndexBuilder(builder.env, "en", {}, "").get_js_stemmer_code()
    index = json.dumps(
        index_of(builder), ensure_ascii=False, separators=(",", ":")
    )
    return f"{stemmer}\nwindow.searchIndex = {index};\n"


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
