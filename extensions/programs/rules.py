"""Rules of programs: where they stand, what they hold and what they show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, python_in, text_of
from extensions.core.markdown import HEADER
from extensions.core.topics import OURS, topics
from extensions.programs.outputs import VARYING, outputs_in

# What the path of a topic is made of.
_NAME = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*")

# Where sphinx-gallery put a picture: a path of the site, not an output.
_IMAGE = re.compile(r"^ *\.\. image::.*\n", re.MULTILINE)


def topics_have_plain_names(root: Path) -> Iterator[Problem]:
    """Yield programs whose path no address and no test could hold."""
    for topic in topics(root):
        if not _NAME.fullmatch(topic.name):
            message = (
                f"malformed name {topic.name!r}:"
                " write lower-case words joined by underscores"
            )
            yield Problem(topic.snippet, 1, message)


def folders_hold_programs_only(root: Path) -> Iterator[Problem]:
    """Yield files beside the programs that a program may have left."""
    for folder in ("snippets", "gallery"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix != ".py" and path.name != HEADER:
                if "__pycache__" in path.parts:
                    continue
                message = "not a program: did a snippet leave it behind?"
                yield Problem(path, 1, message)


def snippets_stand_alone(root: Path) -> Iterator[Problem]:
    """Yield asserts, exits and imports of ours in readers' programs."""
    for topic in topics(root):
        yield from _what_no_reader_has(topic.snippet, text_of(topic.snippet))


@cached_by_content
def _what_no_reader_has(path: Path, text: str) -> list[Problem]:
    """Return asserts, exits and imports of ours in a program."""
    return [
        Problem(path, node.lineno, message)
        for node in ast.walk(python_in(path, text))
        if isinstance(node, ast.stmt | ast.expr)
        for message in _faults_of(node)
    ]


def _faults_of(node: ast.stmt | ast.expr) -> Iterator[str]:
    """Yield what is wrong with a piece of a program."""
    if isinstance(node, ast.Assert):
        yield "an assert in a snippet: write a test instead"
    elif isinstance(node, ast.Call):
        # It would end the build as well, without a site or an error.
        if ast.unparse(node.func) in {"exit", "quit", "sys.exit"}:
            yield "a snippet may not end the program"
    elif isinstance(node, ast.Import | ast.ImportFrom):
        module = getattr(node, "module", None)
        for name in [module or each.name for each in node.names]:
            if name.partition(".")[0] in OURS:
                yield f"imports {name}, which no reader has"


def outputs_do_not_vary(root: Path) -> Iterator[Problem]:
    """Yield outputs of the last build that will differ in the next."""
    for topic in topics(root):
        if not topic.output.exists():
            continue
        for line, message in _varying(topic.output, text_of(topic.output)):
            yield Problem(topic.snippet, line, message)


@cached_by_content
def _varying(path: Path, text: str) -> list[tuple[int, str]]:
    """Return what will differ in the outputs of a program, with its line."""
    return [
        (line, f"an output shows {what}: {found[0]!r}")
        for line, output in outputs_in(text).items()
        for what, pattern in VARYING.items()
        if (found := pattern.search(_IMAGE.sub("", output)))
    ]
