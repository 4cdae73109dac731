"""What programs give: on a page, in a notebook, and by which rules.

``sphinx_run.py`` keeps what sphinx-gallery returns for each block of code.
Imports neither Sphinx nor torch.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, json_of, python_in, text_of
from extensions.core.topics import OURS, Topic, topics
from extensions.programs.snippet import Cell

# How lines begin that say how an output is shown.
_MARKUP = (".. ", ":")
# Where sphinx-gallery put a picture: a path of the site, not an output.
_IMAGE = re.compile(r"^ *\.\. image::.*\n", re.MULTILINE)

# What an output may not show, because it differs from run to run.
VARYING = {
    "a memory address": re.compile(r"\b0x[0-9a-f]{6,}\b"),
    "an absolute path": re.compile(r"(?<![\w./:])/(?:[\w.-]+/)+[\w.-]+"),
    "a date": re.compile(r"\b20\d\d-\d\d-\d\d\b"),
    "a duration": re.compile(r"\b\d+(?:\.\d+)? ?(?:[mnuµ]s|s|seconds)\b"),
}


def outputs_file(topic: Topic) -> Path:
    """Return where that stands which each block of a program gave."""
    return topic.output.with_suffix(".outputs.json")


def outputs_of(topic: Topic) -> dict[int, str]:
    """Return reStructuredText by the line at which its code begins.

    Raises
    ------
    Problem
        If the program has not run.
    """
    outputs = json_of(outputs_file(topic))
    return {int(line): output for line, output in outputs.items()}


def lines_that_say(topic: Topic, cell: Cell, words: str) -> str:
    """Return what a cell printed from the line with some words on.

    It ends before the next empty line.

    Raises
    ------
    Problem
        If no line has these words.
    """
    output = outputs_of(topic).get(cell.code_line, "")
    shown = output.splitlines()
    plain = [each for each in shown if not each.strip().startswith(_MARKUP)]
    for block in dedent("\n".join(plain)).split("\n\n"):
        lines = block.strip("\n").splitlines()
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


def snippets_stand_alone(root: Path) -> Iterator[Problem]:
    """Yield asserts and imports of ours in readers' programs."""
    for topic in topics(root):
        yield from _what_no_reader_has(topic.snippet, text_of(topic.snippet))


@cached_by_content
def _what_no_reader_has(path: Path, text: str) -> list[Problem]:
    return [
        Problem(path, node.lineno, message)
        for node in ast.walk(python_in(path, text))
        if isinstance(node, ast.stmt | ast.expr)
        for message in _faults_of(node)
    ]


def _faults_of(node: ast.stmt | ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Assert):
        yield "an assert in a snippet: write a test instead"
    elif isinstance(node, ast.Import | ast.ImportFrom):
        module = getattr(node, "module", None)
        if module == "__future__":
            yield "on its page this holds for all cells, in a test for one"
        for name in [module or each.name for each in node.names]:
            if name.partition(".")[0] in OURS:
                yield f"imports {name}, which no reader has"


def outputs_do_not_vary(root: Path) -> Iterator[Problem]:
    """Yield outputs of the last build that will differ in the next."""
    for topic in topics(root):
        if not (path := outputs_file(topic)).exists():
            continue
        for line, message in _varying(path, text_of(path)):
            yield Problem(topic.snippet, line, message)


@cached_by_content
def _varying(path: Path, text: str) -> list[tuple[int, str]]:
    return [
        (int(line), f"an output shows {what}: {found[0]!r}")
        for line, output in json.loads(text).items()
        for what, pattern in VARYING.items()
        if (found := pattern.search(_IMAGE.sub("", output)))
    ]
