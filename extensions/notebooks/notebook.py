"""The notebook of a page, which teaches without the site.

It opens as the page does: each cell with what it gave, each claim with its
sign, and helpers folded, in Jupyter as in Colab.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Any

from extensions.claims.words import SIGNS
from extensions.core.files import text_of
from extensions.core.topics import Topic
from extensions.notebooks.export import ExportedPage, code_of
from extensions.programs.outputs import outputs_in
from extensions.programs.snippet import Cell, Snippet, libraries

_Json = dict[str, Any]
_OLDEST = (2, 6)
_OWN_CODE = "# Your code"
_NO_WINDOWS = "It forks, which Windows cannot: run it on Linux or macOS."
_SCOPES = (
    "## How far the claims reach\n\n<details><summary>What each was tried on,"
    " where it ends, and what breaks it</summary>"
)
# A directive, and what is indented below it.
_DIRECTIVE = re.compile(
    r"^ *\.\. (?P<name>code-block|raw|image):: (?P<argument>.*)\n"
    r"(?P<body>(?:(?: {3,}.*)?\n)*)",
    re.MULTILINE,
)
_CHECK = """# {needs}; to install what is missing:
# %pip install {names}
import torch

if tuple(map(int, torch.__version__.split(".")[:2])) < {version}:
    raise RuntimeError(
        f"torch {{torch.__version__}} is too old: install {oldest} or newer"
    )"""


def notebook_of(page: ExportedPage, scopes: str = "") -> _Json:
    """Return the notebook of a page; ``scopes``: how far its claims reach."""
    topic = page.words.topic
    snippet = Snippet.read(topic.snippet)
    names = libraries(snippet.text)
    outputs = outputs_by_cell(topic)
    pieces = [*page.pieces]
    title, opening = "", ""
    if pieces and isinstance(pieces[0], str):
        title, _, opening = str(pieces.pop(0)).partition("\n\n")
    parts = [
        title,
        _note(page, snippet, names),
        _legend(page.words.verdicts),
    ]
    cells = [_words("\n\n".join(part for part in parts if part))]
    cells += check_of(names)
    cells += [_words(opening)] if opening else []
    for piece in pieces:
        if isinstance(piece, str):
            cells.append(_words(piece))
        elif piece.cell is None:
            cells.append(_code(_OWN_CODE))
        else:
            is_check = cells[-1]["source"] == _OWN_CODE
            given = [] if piece.asks else outputs.get(piece.cell.name, [])
            cells.append(_cell(piece.cell, piece.fold, given))
            if is_check:
                # It may name what the reader has not defined yet: Jupyter goes
                # on with the next cell.
                cells[-1]["metadata"]["tags"] = ["raises-exception"]
    if scopes:
        cells.append(_words(f"{_SCOPES}\n\n{scopes}\n\n</details>"))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # not at random
    kernel = {"name": "python3", "display_name": "Python 3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _words(text: str) -> _Json:
    """Return a cell of Markdown."""
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(source: str, outputs: Sequence[_Json] = ()) -> _Json:
    """Return a cell of code."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [*outputs],
        "source": source,
    }


def _display(kind: str, data: str, words: str) -> _Json:
    """Return an output of a kind, with words for who cannot see it."""
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {kind: data, "text/plain": words},
    }


def outputs_by_cell(topic: Topic) -> dict[str, list[_Json]]:
    """Return what each cell of a program gave, by its name.

    It is read back from the page that sphinx-gallery has written. In a recipe,
    that counts the empty lines above the code as code.
    """
    if not topic.output.exists():
        return {}
    found = outputs_in(text_of(topic.output))
    return {
        name: [*_outputs(topic, found[line])]
        for name, cell in Snippet.read(topic.snippet).cells().items()
        for line in range(cell.line, cell.code_line + 1)
        if line in found
    }


def _outputs(topic: Topic, rst: str) -> Iterator[_Json]:
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


def _table_in(html: str) -> str:
    """Return the table of some HTML as Markdown; "" if there is none."""
    rows = [
        [
            unescape(re.sub("<[^>]*>", "", cell)).strip().replace("|", "\\|")
            for cell in re.findall(r"(?s)<t[hd]\b[^>]*>(.*?)</t[hd]>", row)
        ]
        for row in re.findall(r"(?s)<tr\b[^>]*>(.*?)</tr>", html)
    ]
    width = max(map(len, rows), default=0)
    rows[1:1] = [["---"] * width] if rows else []
    lines = (row + [""] * (width - len(row)) for row in rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: Cell, fold: str, outputs: Sequence[_Json]) -> _Json:
    """Return a cell with its outputs, closed if it folds behind some words."""
    if not fold:
        return _code(code_of(cell), outputs)
    # Jupyter reads the first, Colab the second, with the title in code.
    found = _code(f"# @title {fold}\n{code_of(cell)}", outputs)
    found["metadata"] = {
        "jupyter": {"source_hidden": True},
        "cellView": "form",
    }
    return found


def _legend(verdicts: Mapping[str, str]) -> str:
    """Return what the signs behind the claims of a notebook mean."""
    said = {*verdicts.values()}
    shown = [sign for verdict, sign in SIGNS.items() if verdict in said]
    return " ".join(f"{sign.mark} {sign.legend}." for sign in shown)


def _note(page: ExportedPage, snippet: Snippet, names: list[str]) -> str:
    """Return what a notebook says of itself, below its title."""
    name = f"the page `{page.words.topic.name}`"
    link = page.words.link("this page") if page.words.base else name
    said = [f"The notebook of {link} of Proven PyTorch."]
    if names:
        said.append(f"It needs {', '.join(f'`{each}`' for each in names)}.")
    if '"fork"' in snippet.text:
        # A notebook has no other way to give workers what it defines.
        said.append(_NO_WINDOWS)
    return " ".join(said)


def check_of(names: list[str]) -> list[_Json]:
    """Return the cell that looks whether a program can run, if one needs to.

    A torch that is newer than any that the guide knows is let pass.
    """
    if "torch" not in names:
        return []
    oldest = ".".join(map(str, _OLDEST))
    others = f", with {', '.join(names[1:])}" if names[1:] else ""
    code = _CHECK.format(
        needs=f"Needs torch {oldest} or newer{others}",
        oldest=oldest,
        names=" ".join(names),
        version=_OLDEST,
    )
    return [_code(code)]
