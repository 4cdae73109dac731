"""Failed tests: which they are, and what pytest says of them.

Reads the XML as pytest wrote it, since a packed run leaves out most of what a
failure says. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from extensions.evidence.junit import outcome_of

_MOST = 5  # lines of a statement, and of what pytest says of it
LONGEST = 160  # letters of such a line


@dataclass(frozen=True)
class Failed:
    """A test that failed, on one of its cases or on several."""

    name: str
    """With the first case that failed."""
    more: int
    """How many cases failed besides."""
    place: str
    """Its file and line, or its module where it is no test of a topic."""
    kind: str
    """What it is to the claim: its test, a counter-example, a variation."""
    said: tuple[str, ...]
    """The statement that failed and what pytest says of it, in lines."""


def failed_of(cases: list[Element]) -> list[Element]:
    """Return those of some cases that failed."""
    return [case for case in cases if outcome_of(case) == "failed"]


def failed(cases: list[Element], place: str, kind: str) -> Failed:
    """Return the failed cases of one test as one."""
    name = cases[0].get("name", "")
    return Failed(name, len(cases) - 1, place, kind, said_by(cases[0]))


def said_by(case: Element) -> tuple[str, ...]:
    """Return the statement on which a case failed, and what pytest says.

    Where that stands in a helper, the line of the test comes before it.
    """
    [first, *_] = [each for each in case if each.tag in {"failure", "error"}]
    lines = (first.text or "").rstrip().splitlines()
    marked = [n for n, line in enumerate(lines) if line[:1] == ">"]
    kept = [lines[n] for n in marked[:-1][:1]]
    if marked:
        *lines, where = lines[marked[-1] :]
        ends = [n for n, line in enumerate(lines) if line[:1] == "E"]
        kept += lines[: min([_MOST, *ends])]
    words = [line for line in lines if line[:2] == "E " and line[1:].strip()]
    if not words:  # a crash, or a test that passes and should not
        words = first.get("message", "").strip().splitlines()
    kept += [*words[:_MOST], *([where] if marked else [])]
    return tuple(line[:LONGEST] for line in kept)
