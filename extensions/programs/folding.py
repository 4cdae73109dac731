"""Which cells of a page are folded: helpers, and what only draws."""

from __future__ import annotations

from collections.abc import Mapping

from extensions.programs.snippet import Cell

_MADE = "How this was made"


def fold_title(cell: Cell, options: Mapping[str, str]) -> str:
    """Return the words of the line that a cell folds behind, or "".

    ``options`` are those of its directive on the page.
    """
    if "folded" in options:
        return options["folded"] or _MADE
    return _MADE if cell.is_display and "open" not in options else ""
