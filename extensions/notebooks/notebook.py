"""The notebook of a page, which teaches without the site.

It opens as the page does: each cell with what it gave, each claim with its
sign, and helpers folded, in Jupyter as in Colab. As Markdown, it is for
whoever reads with a program that knows no HTML.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from html import unescape
from typing import Any

from extensions.claims.words import SIGNS
from extensions.core.files import text_of
from extensions.core.topics import Topic
from extensions.notebooks.export import Export, code_of, fenced
from extensions.programs.outputs import outputs_file, outputs_of
from extensions.programs.snippet import Snippet, libraries

Json = dict[str, Any]
_OWN_CODE = "# Your code"
_REQUIREMENTS = {"torch": '"torch>=2.6"'}
# A directive, and what is indented below it.
_DIRECTIVE = re.compile(
    r"^ *\.\. (?P<name>code-block|raw|image):: (?P<argument>.*)\n"
    r"(?P<body>(?:(?: {3,}.*)?\n)*)",
    re.MULTILINE,
)


def notebook_of(page: Export) -> Json:
    """Return the notebook of a page."""
    outputs = outputs_by_cell(page.topic)
    pieces = [*page.pieces]
    title, opening = "", ""
    if pieces and isinstance(pieces[0], str):
        title, _, opening = str(pieces.pop(0)).partition("\n\n")
    parts = [title, _note(page), _legend(page), opening]
    cells = [_words("\n\n".join(part for part in parts if part))]
    for piece in pieces:
        if isinstance(piece, str):
            cells.append(_words(piece))
        elif piece.cell is None:
            cells.append(_code(_OWN_CODE))
        else:
            is_check = cells[-1]["source"] == _OWN_CODE
            given = [] if piece.asks else outputs.get(piece.cell.name, [])
            cells.append(_code(code_of(piece.cell), given, piece.fold))
            if is_check:
                # It may name what the reader has not defined yet: Jupyter goes
                # on with the next cell.
                cells[-1]["metadata"]["tags"] = ["raises-exception"]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # not at random
    kernel = {"name": "python3", "display_name": "Python 3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def markdown_of(notebook: Json) -> str:
    """Return a notebook as Markdown, with what its cells gave."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(cell["source"])
        else:
            parts.append(fenced(cell["source"], "python"))
            parts += map(_shown, cell["outputs"])
    return "\n\n".join(parts) + "\n"


def _shown(output: Json) -> str:
    if "text" in output:
        return fenced(output["text"], "text")
    words = str(output["data"]["text/plain"])
    return words if "text/html" in output["data"] else f"(A picture: {words}.)"


def _words(text: str) -> Json:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(source: str, outputs: Sequence[Json] = (), fold: str = "") -> Json:
    metadata: Json = {}
    if fold:
        # Jupyter reads the first, Colab the second, with the title in code.
        metadata = {"jupyter": {"source_hidden": True}, "cellView": "form"}
        source = f"# @title {fold}\n{source}"
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": metadata,
        "outputs": [*outputs],
        "source": source,
    }


def _note(page: Export) -> str:
    link = page.link(f"the page `{page.topic.name}`")
    said = f"From {link} of Proven PyTorch."
    if names := libraries(Snippet.read(page.topic.snippet).text):
        listed = " ".join(_REQUIREMENTS.get(each, each) for each in names)
        said += f" To install what it needs: `pip install {listed}`."
    return said


def _legend(page: Export) -> str:
    verdicts = {*page.verdicts.values()}
    shown = [sign for verdict, sign in SIGNS.items() if verdict in verdicts]
    return " ".join(f"{sign.mark} {sign.legend}." for sign in shown)


def outputs_by_cell(topic: Topic) -> dict[str, list[Json]]:
    """Return what each cell of a program gave, by its name.

    In a recipe, sphinx-gallery counts the empty lines above the code as code.
    """
    if not outputs_file(topic).exists():
        return {}
    found = outputs_of(topic)
    return {
        name: [*_outputs(topic, found[line])]
        for name, cell in Snippet.read(topic.snippet).cells().items()
        for line in range(cell.line, cell.code_line + 1)
        if line in found
    }


def _outputs(topic: Topic, rst: str) -> Iterator[Json]:
    """Yield the outputs in some reStructuredText of sphinx-gallery.

    Of a picture for light pages and one for dark ones, a notebook has the
    first.
    """
    for found in _DIRECTIVE.finditer(f"{rst}\n"):
        body = textwrap.dedent(found["body"]).strip("\n") + "\n"
        match found["name"]:
            case "code-block":
                yield {"output_type": "stream", "name": "stdout", "text": body}
            case "raw":
                yield _display("text/html", body, _table_in(body))
            case "image" if "only-dark" not in body:
                path = topic.root / "docs" / found["argument"].lstrip("/")
                alt = re.search(r"^:alt: (.*)$", body, re.MULTILINE)
                words = alt[1] if alt else ""
                yield _display("image/svg+xml", text_of(path), words)


def _display(kind: str, data: str, words: str) -> Json:
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {kind: data, "text/plain": words},
    }


def _table_in(html: str) -> str:
    rows = [
        [
            unescape(re.sub("<[^>]*>", "", cell)).strip().replace("|", "\\|")
            for cell in re.findall(r"(?s)<t[hd]\b[^>]*>(.*?)</t[hd]>", row)
        ]
        for row in re.findall(r"(?s)<tr\b[^>]*>(.*?)</tr>", html)
    ]
    rows[1:1] = [["---"] * len(row) for row in rows[:1]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
