"""What a cell gave, as a notebook keeps it: text, tables and pictures.

It is read back from the page that sphinx-gallery has written. Pictures are
those for light pages.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_output

from extensions.core.reading import text_of
from extensions.core.topics import Topic
from extensions.notebooks.html_tables import table_in
from extensions.programs.outputs import outputs_in

# A directive, and what is indented below it.
_DIRECTIVE = re.compile(
    r"^ *\.\. (?P<name>code-block|raw|image):: (?P<argument>.*)\n"
    r"(?P<body>(?:(?: {3,}.*)?\n)*)",
    re.MULTILINE,
)


def outputs_by_line(topic: Topic) -> dict[int, list[NotebookNode]]:
    """Return the outputs of a program by the line at which its code begins."""
    root = topic.root / "docs"
    if not topic.output.exists():
        return {}
    found = outputs_in(text_of(topic.output))
    return {line: [*_outputs(root, text)] for line, text in found.items()}


def pictures_of(topic: Topic) -> Iterator[Path]:
    """Yield the files of the pictures that a notebook of a topic holds."""
    if topic.output.exists():
        for found in _DIRECTIVE.finditer(text_of(topic.output)):
            if found["name"] == "image" and not _is_dark(found):
                yield _picture(topic.root / "docs", found)


def _outputs(root: Path, rst: str) -> Iterator[NotebookNode]:
    """Yield the outputs in some reStructuredText of sphinx-gallery."""
    for found in _DIRECTIVE.finditer(f"{rst}\n"):
        body = textwrap.dedent(found["body"]).strip("\n") + "\n"
        match found["name"]:
            case "code-block":
                yield new_output("stream", name="stdout", text=body)
            case "raw":
                data = {"text/html": body, "text/plain": table_in(body)}
                yield new_output("display_data", data=data)
            case "image" if not _is_dark(found):
                yield _shown(_picture(root, found), _option("alt", found))


def _shown(path: Path, words: str) -> NotebookNode:
    """Return a picture as an output, with words for who cannot see it."""
    data = {"image/svg+xml": text_of(path), "text/plain": words}
    output: NotebookNode = new_output("display_data", data=data)
    return output


def _picture(root: Path, image: re.Match[str]) -> Path:
    return root / image["argument"].strip().lstrip("/")


def _option(name: str, directive: re.Match[str]) -> str:
    """Return the value of an option of a directive."""
    found = re.search(rf"^ *:{name}: (.*)$", directive["body"], re.MULTILINE)
    return found[1] if found else ""


def _is_dark(image: re.Match[str]) -> bool:
    return "only-dark" in _option("class", image)
