"""What a page shows of a cell: its output, the text of an error in it, a fold.

sphinx-gallery keeps the output of a block only in the page that it writes, so
this reads it back from there. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import dedent

from extensions.core.files import Problem, text_of
from extensions.core.topics import Topic
from extensions.programs.snippet import Cell

# How sphinx-gallery 0.22 marks the blocks of a page it writes: by comments.
LINES = r"GENERATED FROM PYTHON SOURCE LINES (\d+)-(\d+)"
_BLOCK = re.compile(rf"^\.\. {LINES}\n", re.M)
_CODE = re.compile(r"^\.\. code-block:: Python\n(?:\n|    .*\n)*", re.M)
_END = re.compile(
    r"^\.\. (rst-class:: sphx-glr-timing|_sphx_glr_download_)", re.M
)

# What an output may not show, because it differs from run to run.
VARYING = {
    "a memory address": re.compile(r"\b0x[0-9a-f]{6,}\b"),
    "an absolute path": re.compile(r"(?<![\w./:])/(?:[\w.-]+/)+[\w.-]+"),
    "a date": re.compile(r"\b20\d\d-\d\d-\d\d\b"),
    "a duration": re.compile(r"\b\d+(?:\.\d+)? ?(?:[mnuµ]s|s|seconds)\b"),
}


def outputs_in(page: str) -> dict[int, str]:
    """Return reStructuredText by the line at which its code begins."""
    _, *parts = _BLOCK.split(page)
    return {
        int(line): _CODE.sub("", _END.split(block, maxsplit=1)[0], count=1)
        for line, block in zip(parts[::3], parts[2::3], strict=True)
        if _CODE.search(block)
    }


_MARKUP = (".. ", ":")  # how lines begin that say how an output is shown


def printed(topic: Topic) -> dict[int, str]:
    """Return what the cells of a topic printed when its page was built.

    By the line at which the code of each begins.
    """
    return {
        line: _plain(output)
        for line, output in outputs_in(text_of(topic.output)).items()
    }


def _plain(output: str) -> str:
    """Return the text of an output without the markup around it."""
    lines = [
        line
        for line in output.splitlines()
        if not line.strip().startswith(_MARKUP)
    ]
    return dedent("\n".join(lines)).strip("\n")


def lines_that_say(topic: Topic, cell: Cell, words: str) -> str:
    """Return what a cell printed from the line with some words on.

    It ends before the next empty line.

    Raises
    ------
    Problem
        If no line has these words.
    """
    for block in printed(topic).get(cell.code_line, "").split("\n\n"):
        lines = block.splitlines()
        for place, line in enumerate(lines):
            if words in line:
                return "\n".join(lines[place:])
    message = f"cell {cell.name!r} prints no line with {words!r}"
    raise Problem(topic.snippet, cell.line, message)


_MADE = "How this was made"


def fold_title(cell: Cell, options: Mapping[str, str]) -> str:
    """Return the words of the line that a cell folds behind, or "".

    ``options`` are those of its directive on the page.
    """
    if "folded" in options:
        return options["folded"] or _MADE
    return _MADE if cell.is_display and "open" not in options else ""
