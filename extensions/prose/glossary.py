"""The terms of the glossary, and where they stand in some words."""

from __future__ import annotations

import re
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.markdown import directive_of, line_of, parse
from extensions.core.reading import text_of

_GLOSSARY = "docs/glossary.md"
_TERM = re.compile(r"^\S.*$", re.MULTILINE)


def terms_of(root: Path) -> tuple[str, ...]:
    """Return the terms that the glossary defines."""
    path = root / _GLOSSARY
    return _terms_in(path, text_of(path)) if path.exists() else ()


@cached_by_content
def _terms_in(path: Path, text: str) -> tuple[str, ...]:
    """Return the terms in the text of a glossary."""
    found = (directive_of(token, line_of(token, 1)) for token in parse(text))
    return tuple(
        term
        for directive in found
        if directive and directive.name == "glossary"
        for term in _TERM.findall(directive.body)
    )


def definitions_in(body: str) -> str:
    """Return the body of a glossary without its terms, line by line."""
    return _TERM.sub("", body)


def _plural(term: str) -> str:
    """Return what several are called."""
    for ending, many in (("is", "es"), ("ch", "ches")):
        if term.endswith(ending):
            return term.removesuffix(ending) + many
    return f"{term}s"


def pattern_of(terms: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds the terms, one or several, the longest first."""
    forms = sorted(
        {form for term in terms for form in (term, _plural(term))},
        key=lambda form: (-len(form), form),
    )
    words = "|".join(map(re.escape, forms)) or "(?!)"
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE)


def term_of(words: str, terms: tuple[str, ...]) -> str:
    """Return the term that some words are, one or several."""
    said = words.lower()
    forms = {term: (term, _plural(term)) for term in terms}
    [found] = [
        term
        for term, both in forms.items()
        if said in (each.lower() for each in both)
    ]
    return found
