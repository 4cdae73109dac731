"""What each directive and each role means, for whoever reads without Sphinx.

Rules, ledger and notebooks read a page as text. Two tables tell them what the
body of a directive is and what a download shows in its place: whoever adds a
directive or a role adds one line here. What its HTML and the search show is
said by its nodes, in its own module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from extensions.core.markdown import directive_of, line_of, parse

TABLE = "extensions/core/directives.py"
# What there is instead of two shapes to try, where no script runs.
BROADCASTING = (
    "For example, `(8, 8)` and `(1797, 1, 8)` give `(1797, 8, 8)`: the first"
    " is stretched along a new dimension of 1797, and the second along its"
    " dimension of 1."
)


class Body(Enum):
    """What stands between the fences of a directive."""

    PROSE = "prose"
    """Markdown: its sentences and its claims are those of the page."""
    TERMS = "terms"
    """Terms, each with its definition, which is prose."""
    CODE = "code"
    """Code that nobody has run, which no page may hold."""
    DATA = "data"
    """Names, addresses, or the source of a drawing."""


@dataclass(frozen=True)
class CellExport:
    """The cell of the program that the argument names."""


@dataclass(frozen=True)
class ClaimsExport:
    """The claims that the argument names, as a list."""


@dataclass(frozen=True)
class BoxExport:
    """A title in bold above the body."""

    title: str
    has_own_title: bool = False
    """Whether the argument is a title; else the body begins with it."""


@dataclass(frozen=True)
class RemarkExport:
    """The body, if it is prose, and then what the page itself has."""

    says: str
    """What follows the words *The page*."""
    before: str = ""
    """What stands before them where the body is no prose."""


@dataclass(frozen=True)
class ListingExport:
    """The body as it stands, as a block of a language."""

    language: str


@dataclass(frozen=True)
class ExerciseExport:
    """A question, its cells as :mod:`extensions.core.syntax` says, and its
    hint."""


Export = (
    CellExport
    | ClaimsExport
    | BoxExport
    | RemarkExport
    | ListingExport
    | ExerciseExport
    | None
)


@dataclass(frozen=True)
class Meaning:
    """What one directive means."""

    body: Body = Body.DATA
    export: Export = None
    """What downloads show of it; with none, a page that has downloads cannot
    use it."""


class RoleExport(Enum):
    """What downloads show of a role."""

    PAGE = "the title of the page that it names, as a link to it"
    FILE = "the name of the file, as a link to the page that offers it"


_CODE = Meaning(Body.CODE)
_DATA = Meaning()
_PROSE = Meaning(Body.PROSE)


def _box(title: str, *, has_own_title: bool = False) -> Meaning:
    return Meaning(Body.PROSE, BoxExport(title, has_own_title))


DIRECTIVES: dict[str, Meaning] = {
    # Of ours
    "broadcasting": Meaning(
        Body.DATA, RemarkExport("lets you try others.", BROADCASTING)
    ),
    "cell": Meaning(Body.DATA, CellExport()),
    "chapter-answers": _DATA,
    "chapters": _DATA,
    "cited": _DATA,
    "corrected": _DATA,
    "corrections": _DATA,
    "course": _DATA,
    "entries": _DATA,
    "error-text": _PROSE,
    "exercise": Meaning(Body.PROSE, ExerciseExport()),
    "featured-claim": _PROSE,
    "fold": _box("More", has_own_title=True),
    "ledger": _DATA,
    "measured": Meaning(Body.DATA, RemarkExport("shows what was measured.")),
    "measurements": _DATA,
    "numbers": _DATA,
    "recap": Meaning(Body.DATA, ClaimsExport()),
    "recipes": _DATA,
    "rules": _DATA,
    "search-box": _DATA,
    "tally": _DATA,
    "unproven": _DATA,
    # Of docutils and Sphinx
    "admonition": _box("Note", has_own_title=True),
    "caution": _box("Caution"),
    "code": _CODE,
    "code-block": _CODE,
    "csv-table": _DATA,
    "danger": _box("Danger"),
    "figure": _PROSE,
    "glossary": Meaning(Body.TERMS),
    "hint": _box("Hint"),
    "image": _DATA,
    "important": _box("Important"),
    "literalinclude": _CODE,
    "note": _box("Note"),
    "parsed-literal": _CODE,
    "sourcecode": _CODE,
    "tip": _box("Tip"),
    "toctree": _DATA,
    "warning": _box("Warning"),
    # Of MyST and sphinx-design
    "card": _PROSE,
    "code-cell": _CODE,
    "eval-rst": _CODE,
    "grid": _PROSE,
    "grid-item-card": _PROSE,
}

# With none, a page that has downloads cannot use the role.
ROLES: dict[str, RoleExport | None] = {
    "doc": RoleExport.PAGE,
    "download": RoleExport.FILE,
    "kbd": None,
    "math": None,
    "ref": None,
    "term": None,
}


def body_of(name: str) -> Body:
    """Return what the body of a directive is; prose if nothing says it.

    So nothing in the body of an unknown one escapes the rules.
    """
    return DIRECTIVES[name].body if name in DIRECTIVES else Body.PROSE


def unknown_in(text: str, first: int) -> Iterator[tuple[int, str]]:
    """Yield each directive and role that no table names, with its line.

    The first line of the text has a number.
    """
    for token in parse(text):
        line = line_of(token, first)
        if directive := directive_of(token, line):
            if directive.name not in DIRECTIVES:
                yield line, f"{{{directive.name}}}"
            if body_of(directive.name) in {Body.PROSE, Body.TERMS}:
                yield from unknown_in(directive.body, directive.first)
        for child in token.children or []:
            line += child.type in {"softbreak", "hardbreak"}
            if child.type == "myst_role" and child.meta["name"] not in ROLES:
                yield line, f"{{{child.meta['name']}}}"
