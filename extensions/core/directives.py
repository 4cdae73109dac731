"""What each directive means, for whoever reads without Sphinx.

Rules, ledger and notebooks read a page as text. A table tells them what the
body of a directive is and what a download shows in its place: whoever adds a
directive adds one line here. What its HTML and the search show is said by its
nodes, in its own module. Of cells, exercises and repeated claims,
:mod:`extensions.notebooks.export` itself knows what downloads show.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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
class Meaning:
    """What one directive means."""

    body: Body = Body.DATA
    export: str = ""
    """What downloads show in its place, as Markdown: ``{title}`` stands for
    its argument, ``{body}`` for its body, ``{page}`` for a link to the page.
    With nothing, a page that has downloads cannot use it."""


_BOX = "**{title}**\n\n{body}"  # with a title of its own
_CODE = Meaning(Body.CODE)
_DATA = Meaning()
_PROSE = Meaning(Body.PROSE)


def _called(title: str) -> Meaning:
    """Return a box that is called by its kind; its text may begin at once."""
    return Meaning(Body.PROSE, f"**{title}**\n\n{{body}}")


DIRECTIVES: dict[str, Meaning] = {
    # Of ours
    "broadcasting": Meaning(
        Body.DATA, f"{BROADCASTING}\n\n{{page}} lets you try others."
    ),
    "cell": _DATA,  # a cell of the program, or of that of another page
    "chapter-answers": _DATA,
    "chapters": _DATA,
    "cited": _DATA,
    "corrected": _DATA,
    "corrections": _DATA,
    "course": _DATA,
    "entries": _DATA,
    "error-text": _PROSE,
    "exercise": _PROSE,
    "featured-claim": _PROSE,
    "fold": Meaning(Body.PROSE, _BOX),
    "ledger": _DATA,
    "measured": Meaning(Body.DATA, "{page} shows what was measured."),
    "measurements": _DATA,
    "numbers": _DATA,
    "recap": _DATA,  # claims, as a list
    "recipes": _DATA,
    "rules": _DATA,
    "search-box": _DATA,
    "tally": _DATA,
    "unproven": _DATA,
    # Of docutils and Sphinx
    "admonition": Meaning(Body.PROSE, _BOX),
    "caution": _called("Caution"),
    "code": _CODE,
    "code-block": _CODE,
    "csv-table": _DATA,
    "danger": _called("Danger"),
    "figure": _PROSE,
    "glossary": Meaning(Body.TERMS),
    "hint": _called("Hint"),
    "image": _DATA,
    "important": _called("Important"),
    "literalinclude": _CODE,
    "note": _called("Note"),
    "parsed-literal": _CODE,
    "sourcecode": _CODE,
    "tip": _called("Tip"),
    "toctree": _DATA,
    "warning": _called("Warning"),
    # Of MyST and sphinx-design
    "card": _PROSE,
    "code-cell": _CODE,
    "eval-rst": _CODE,
    "grid": _PROSE,
    "grid-item-card": _PROSE,
}


def body_of(name: str) -> Body:
    """Return what the body of a directive is; prose if nothing says it.

    So nothing in the body of an unknown one escapes the rules.
    """
    return DIRECTIVES[name].body if name in DIRECTIVES else Body.PROSE
