"""The index of the search: one script beside the pages, loaded when needed.

It holds the words of each page, and Sphinx's stemmer for what somebody types.
A second script holds the sentences, which results quote once they are there.
It replaces Sphinx's own search. Ours, because Pagefind and others fetch their
index, which no browser allows on pages opened from a folder; a script it
loads there, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.search import IndexBuilder

from extensions.build.site_files import SITE_FILES
from extensions.claims.signs import sign_of
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.writing import remove
from extensions.web.search_terms import Terms, field_of, stemmed
from extensions.web.search_texts import searched_pages
from extensions.web.stop_words import BEFORE_NAMES, STOP_WORDS

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder

    from extensions.claims.entry import Entry

_FILE_NAME = "search-index.js"
_TEXTS = "search-texts.js"
# The page that leads to other sites for what is not on this one.
_ELSEWHERE = "not_covered"
# The theme brings them whether or not they are used.
_OF_SPHINX = ("searchtools.js", "language_data.js")


def _index_of(builder: Builder) -> dict[str, object]:
    """Return the index; it uses lists, which are shorter than mappings."""
    terms, none = Terms(), field_of("")
    pages: list[list[object]] = []
    for name, (title, also, sections) in sorted(
        searched_pages(builder.env).items()
    ):
        sizes = terms.add(none, none, none, none, field_of(title))
        pages.append(
            [
                name,
                builder.get_target_uri(name),
                title,
                _chapter_of(builder, name),
                sizes,
                _names_in(also, terms),
                [
                    [
                        each.anchor,
                        each.heading,
                        terms.add(*each.fields, none),
                    ]
                    for each in sections
                ],
            ]
        )
    names = [page[0] for page in pages]
    return {
        "empty": sorted(STOP_WORDS),
        "before": sorted(BEFORE_NAMES),
        "elsewhere": names.index(_ELSEWHERE) if _ELSEWHERE in names else None,
        "pages": pages,
        "terms": terms.written(),
    }


def _names_in(also: str, terms: Terms) -> list[str]:
    """Return what people also call a page; each is a document of its own."""
    names = {stemmed(each): field_of(each) for each in also.split(", ")}
    names.pop("", None)
    for field in names.values():
        terms.add(field_of(""), field_of(""), field_of(""), field)
    return [*names]


def _chapter_of(builder: Builder, name: str) -> str:
    """Return the title of the chapter that a page is in; "" at the top."""
    index = f"{name.rpartition('/')[0]}/index"
    titles = builder.env.titles
    return titles[index].astext() if index in titles and name != index else ""


def _texts_script(app: Sphinx) -> str:
    """Return the script with the sentences of each section, page by page.

    Beside a section's text stand its claims by their line: the anchor of each,
    its sign, and how far it reaches.
    """
    found, texts = searched_pages(app.builder.env), []
    for name in sorted(found):
        claims = {each.claim.name: each for each in ledger_of(app).of(name)}
        texts.append(
            [
                [
                    each.text,
                    {
                        line: _claim(claims[label])
                        for line, label in each.labels
                        if label in claims
                    },
                ]
                for each in found[name].sections
            ]
        )
    written = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
    return f"window.searchTexts = {written};\n"


def _claim(entry: Entry) -> tuple[str, str, str]:
    """Return what a result shows of a claim."""
    scope = " · ".join(entry.reach).replace("`", "")
    return entry.claim.name, sign_of(entry.verdict).mark, scope


def _index_script(app: Sphinx) -> str:
    """Return the script with the index and Sphinx's stemmer."""
    builder = app.builder
    stemmer = IndexBuilder(builder.env, "en", {}, "").get_js_stemmer_code()
    index = json.dumps(
        _index_of(builder), ensure_ascii=False, separators=(",", ":")
    )
    return f"{stemmer}\nwindow.searchIndex = {index};\n"


def _remove_own_search_of_sphinx(app: Sphinx, error: Exception | None) -> None:
    """Remove what Sphinx's own search would need."""
    for name in _OF_SPHINX:
        remove(Path(app.outdir, "_static", name))


def setup_search_index(app: Sphinx) -> None:
    """Add the index."""
    SITE_FILES[_FILE_NAME] = _index_script
    SITE_FILES[_TEXTS] = _texts_script
    # After those of the whole site, which Sphinx adds with 800.
    app.add_css_file("search.css", priority=801)
    app.add_js_file("search.js", priority=801, defer="defer")
    app.connect("build-finished", _remove_own_search_of_sphinx)
