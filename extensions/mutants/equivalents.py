"""Equivalent mutants: those that mean the same as the program, and why.

They stand beside the tests of a topic, in ``<topic>_equivalents.toml``. Each
table ``[[equivalent]]`` answers for one mutant that survives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from extensions.core.problem import Problem
from extensions.core.reading import tables_of
from extensions.mutants.mutations import Mutation

_LEAVING_OUT = {"delete statement", "return None"}


@dataclass(frozen=True)
class Equivalent:
    """A mutant that no test can notice."""

    line: int
    cell: str
    old: str
    new: str
    why: str


def read_equivalents(path: Path) -> list[Equivalent]:
    """Return what is listed for a topic, which may be nothing."""
    found = []
    for line, table in tables_of(path, "equivalent") if path.exists() else ():
        if table.keys() != {"cell", "old", "new", "why"}:
            message = "an equivalent has the keys cell, new, old, why"
            raise Problem(path, line, message)
        for key, value in table.items():
            if not isinstance(value, str):
                raise Problem(path, line, f"{key} is no string: {value!r}")
        if not table["why"].strip():
            raise Problem(path, line, "why does it mean the same?")
        found.append(Equivalent(line, **table))
    return found


def match_equivalents(
    survivors: Sequence[Mutation], equivalents: Sequence[Equivalent]
) -> tuple[list[tuple[Mutation, str]], list[Mutation], list[Equivalent]]:
    """Return the equivalent mutants with reasons, the others, unused entries.

    Two mutants of a cell that look the same need an equivalent each.
    """
    left, same, stale = outermost(survivors), [], []
    for each in equivalents:
        mine = each.cell, each.old, each.new
        for one in left:
            if mine == (one.cell, one.old, one.new):
                left.remove(one)
                same.append((one, each.why))
                break
        else:
            stale.append(each)
    return same, left, stale


def outermost(survivors: Sequence[Mutation]) -> list[Mutation]:
    """Return the mutants but those within one that leaves more out.

    What is within a survivor cannot be noticed, and says no more.
    """
    out = [each for each in survivors if each.kind in _LEAVING_OUT]
    places = {(each.line, each.old) for each in out}
    return [
        each
        for each in survivors
        if each in out or (each.line, each.old) not in places
    ]
