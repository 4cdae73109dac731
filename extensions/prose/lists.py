"""The lists beside the pages: primary sources, terms of the glossary, names of
torch, and what people type.

Each source stands in one file of the project, so that a new address is
reviewed, and no build asks the network for it. What people type stays short,
so that the search gets better by what pages say. Imports neither Sphinx nor
torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, tables_of, text_of, toml_of
from extensions.core.markdown import directive_of, line_of, parse
from extensions.core.syntax import SEARCH, front_matter_of

SOURCES = Path("docs/evidence/primary_sources.toml")
_FIELDS = {"name": str, "prefix": str, "pages": list}
# An address as it is written into a page: whole, and without a query.
_ADDRESS = re.compile(r"https://[a-z0-9.-]+(/[\w.~%+-]*)+(#[\w.~%:+-]+)?")


@dataclass(frozen=True)
class Source:
    """A documentation, or a tree of code at a tag."""

    name: str
    prefix: str
    """How all its addresses begin."""
    pages: tuple[str, ...]
    """How those go on that may be cited."""
    line: int


def read_sources(root: Path) -> list[Source]:
    """Return the primary sources of the project at a folder."""
    path = root / SOURCES
    if not path.exists():
        return []
    found = []
    for line, table in tables_of(path, "source"):
        for name, kind in _FIELDS.items():
            if not isinstance(table.get(name), kind):
                message = f"a source has no {name}, or not as {kind.__name__}"
                raise Problem(path, line, message)
        if not table["prefix"].endswith("/"):
            raise Problem(path, line, "a prefix ends with a slash")
        for page in table["pages"]:
            if not _ADDRESS.fullmatch(f"{table['prefix']}{page}"):
                message = f"no whole address: {table['prefix']}{page}"
                raise Problem(path, line, message)
        pages = tuple(table["pages"])
        found.append(Source(table["name"], table["prefix"], pages, line))
    return found


def source_of(address: str, sources: list[Source]) -> Source | None:
    """Return the source that an address belongs to."""
    for source in sources:
        if address.startswith(source.prefix):
            return source
    return None


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


TORCH_NAMES = "docs/torch_names.toml"


@dataclass(frozen=True)
class TorchNames:
    """What the list holds."""

    base: str
    """How all addresses begin."""
    pages: Mapping[str, str]
    """By whole name: how the address of its place in the API goes on."""
    short: dict[str, str]
    """By word: the whole name that it stands for."""
    unlinked: tuple[str, ...]
    """Names that lead nowhere."""

    def address(self, name: str) -> str:
        """Return where the API describes a name."""
        return f"{self.base}{self.pages[name]}"

    def known(self, name: str) -> str | None:
        """Return the listed name that a chain of parts begins with.

        ``torch.float32.itemsize`` begins with ``torch.float32``; but of
        ``torch.cuda.nothing`` the list only knows the module.
        """
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            found = ".".join(parts[:end])
            if found in self.pages or found in self.unlinked:
                is_module = self.pages.get(found, "").endswith(
                    f"#module-{found}"
                )
                return None if is_module and end < len(parts) else found
        return None

    def member(self, name: str) -> str | None:
        """Return what ``owner.member`` stands for, whatever the owner is.

        Unless the list names the owner too, it must be the member of a class:
        ``rows.stack`` may be anything.
        """
        if name in self.short:
            return self.short[name]
        found = self.short.get(name.rpartition(".")[2], "")
        of_class = found.split(".")[-2:-1]
        return found if "".join(of_class)[:1].isupper() else None


_NO_NAMES = TorchNames("", {}, {}, ())


def read_names(root: Path) -> TorchNames:
    """Return the list; without the file, it is empty."""
    path = root / TORCH_NAMES
    return _names_in(path, text_of(path)) if path.exists() else _NO_NAMES


@cached_by_content
def _names_in(path: Path, text: str) -> TorchNames:
    """Return what the text of a list holds."""
    content = toml_of(path)
    base, pages = content.get("base"), content.get("pages")
    if not isinstance(base, str) or not isinstance(pages, dict):
        raise Problem(path, 1, "write base, an address, and a table [pages]")
    short = content.get("short", {})
    for word, name in short.items():
        if name not in pages:
            line = text.count("\n", 0, text.index(f'"{name}"')) + 1
            raise Problem(path, line, f"{word}: [pages] has no {name}")
    unlinked = tuple(content.get("unlinked", []))
    return TorchNames(base, pages, short, unlinked)


_SYNONYMS = "docs/synonyms.toml"
_PHRASES = 8  # of a page
_WORDS = 2500  # of all pages
_WORD = re.compile(r"\w+")


def read_synonyms(root: Path) -> dict[str, str]:
    """Return the words of pages by what people type; none without a list."""
    path = root / _SYNONYMS
    found = toml_of(path) if path.exists() else {}
    for typed, meant in found.items():
        if not isinstance(meant, str) or not _WORD.search(typed + meant):
            raise Problem(path, 1, f"no words for {typed!r}: {meant!r}")
    return found


def phrases_add_words(root: Path) -> Iterator[Problem]:
    """Yield lists that are too long, or that say what the page says."""
    words = 0
    for path in sorted(root.glob("docs/**/*.md")):
        value, line = front_matter_of(path).get(SEARCH, ("", 0))
        if not value:
            continue
        words += len(value.split())
        for said in _faults_of(value, text_of(path).replace(value, "", 1)):
            yield Problem(path, line, f"{SEARCH} {said}")
        if words > _WORDS:
            said = f"has word {words} of all pages, which have {_WORDS}"
            yield Problem(path, line, f"{SEARCH} {said}: remove some")


def _faults_of(value: str, page: str) -> Iterator[str]:
    """Yield what is wrong with the phrases of a page."""
    phrases = [phrase.strip() for phrase in value.split(",")]
    if not all(phrases):
        yield f"has a comma too many: {value!r}"
    if len(phrases) > _PHRASES:
        yield f"has {len(phrases)} phrases: {_PHRASES} are enough"
    has = {word.lower() for word in _WORD.findall(page)}
    for phrase in filter(None, phrases):
        if has.issuperset(map(str.lower, _WORD.findall(phrase))):
            yield f"says {phrase!r}, whose words stand there already"
        has.update(map(str.lower, _WORD.findall(phrase)))
