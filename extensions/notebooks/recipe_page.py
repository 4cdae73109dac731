"""The prose of a recipe, as the Markdown page that it would be.

A recipe is written in reStructuredText, of which titles, lists, emphasis, code
and what is indented are Markdown as well: the rest becomes what MyST has for
it. Each line stays in its place, so that whatever is reported names the right
one.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from extensions.claims.page import RECIPE_TIMINGS
from extensions.core.reading import python_in
from extensions.programs.snippet import Snippet

_TARGET = re.compile(r"^\.\. _(?P<name>.*):$")
# No role has its name: the page of a recipe that has one cannot be exported.
_DIRECTIVE = re.compile(r"^\.\. (?P<name>[\w:-]+)::.*$")
_ROLE = re.compile(r":(?P<name>[\w:-]+):`")
# What ends a line before an indented block; one alone is not shown.
_LITERAL = re.compile(r"^::$|(?<=.:):$")


def _as_markdown(line: str) -> str:
    """Return one line of a recipe's prose as MyST."""
    if line.startswith(" " * 4):  # shown as it is
        return line
    line = _TARGET.sub(r"(\g<name>)=", line)
    line = _DIRECTIVE.sub(r"{\g<name>}`directive`", line)
    line = _ROLE.sub(r"{\g<name>}`", line)
    return _LITERAL.sub("", line)


def as_page(path: Path, text: str) -> str:
    """Return a recipe as a page: its prose, and its cells by their names."""
    lines = [""] * (text.count("\n") + 1)
    module = python_in(path, text)
    opening = ast.get_docstring(module, clean=False) or ""
    for place, line in enumerate(opening.splitlines()):
        lines[place] = _as_markdown(line)
    for cell in Snippet(path, text).cells().values():
        for place, line in enumerate(cell.prose.splitlines(), cell.line):
            lines[place] = _as_markdown(line.removeprefix("#")[1:])
        if not cell.code:
            continue
        # Never longer than the cell is with the line that opens the next.
        block = [f"```{{cell}} {cell.name}", "```"]
        if RECIPE_TIMINGS.search(cell.code):
            block += ["```{measured}", "```"]
        start = cell.code_line - 1
        lines[start : start + len(block)] = block
    return "\n".join(lines)
