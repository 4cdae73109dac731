"""The notebook of a page, which teaches without the site.

It opens as the page does: each cell with what it gave, each claim with its
sign, and helpers folded, in Jupyter as in Colab.
"""

from __future__ import annotations

from collections.abc import Mapping

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from extensions.claims.signs import SIGNS
from extensions.core.reading_order import address_of
from extensions.core.topics import Topic
from extensions.notebooks.cell_outputs import outputs_by_line
from extensions.notebooks.export import ExportedPage, OwnCode, code_of
from extensions.notebooks.inline_renderer import NO_VERDICTS
from extensions.programs.requirements import libraries
from extensions.programs.snippet import Cell, Snippet

_OLDEST = (2, 6)
_OWN_CODE = "# Your code"
_NO_WINDOWS = "It forks, which Windows cannot: run it on Linux or macOS."
_SCOPES = (
    "## How far the claims reach\n\n<details><summary>What each was tried on,"
    " where it ends, and what breaks it</summary>"
)
_CHECK = """# {needs}; to install what is missing:
# %pip install {names}
import torch

if tuple(map(int, torch.__version__.split(".")[:2])) < {version}:
    raise RuntimeError(
        f"torch {{torch.__version__}} is too old: install {oldest} or newer"
    )"""


def notebook_of(
    topic: Topic,
    page: ExportedPage,
    base: str,
    verdicts: Mapping[str, str] = NO_VERDICTS,
    scopes: str = "",
) -> NotebookNode:
    """Return the notebook of a page; ``base`` is the site's address or "".

    ``verdicts`` are those whose signs the page shows, ``scopes`` says how far
    its claims reach.
    """
    snippet = Snippet.read(topic.snippet)
    names = libraries(snippet.text)
    outputs = outputs_by_line(topic)
    pieces = [*page.pieces]
    title, opening = "", ""
    if pieces and isinstance(pieces[0], str):
        title, _, opening = str(pieces.pop(0)).partition("\n\n")
    parts = [
        title,
        f"{_note(topic, names, base)} {_systems(snippet)}".strip(),
        _legend(verdicts),
    ]
    cells = [new_markdown_cell("\n\n".join(part for part in parts if part))]
    cells += check_of(names)
    cells += [new_markdown_cell(opening)] if opening else []
    for piece in pieces:
        if isinstance(piece, str):
            cells.append(new_markdown_cell(piece))
        elif isinstance(piece, OwnCode):
            cells.append(new_code_cell(_OWN_CODE))
        else:
            is_check = cells[-1]["source"] == _OWN_CODE
            cell = snippet.cell(piece.name)
            given = [] if piece.asks else _given(cell, outputs)
            cells.append(_code_cell(cell, piece.fold, given))
            if is_check:
                # It may name what the reader has not defined yet: Jupyter goes
                # on with the next cell.
                cells[-1]["metadata"]["tags"] = ["raises-exception"]
    if scopes:
        cells.append(new_markdown_cell(f"{_SCOPES}\n\n{scopes}\n\n</details>"))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # not at random
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook: NotebookNode = new_notebook(
        cells=cells, metadata={"kernelspec": kernel}
    )
    return notebook


def _given(
    cell: Cell, outputs: Mapping[int, list[NotebookNode]]
) -> list[NotebookNode]:
    """Return what a cell gave.

    In a recipe, sphinx-gallery counts the empty lines above the code as code.
    """
    lines = range(cell.line, cell.code_line + 1)
    return next((outputs[line] for line in lines if line in outputs), [])


def _code_cell(
    cell: Cell, fold: str, outputs: list[NotebookNode]
) -> NotebookNode:
    """Return a cell with its outputs, closed if it folds behind some words."""
    code, metadata = code_of(cell), {}
    if fold:
        # Jupyter reads the first, Colab the second, with the title in code.
        metadata = {"jupyter": {"source_hidden": True}, "cellView": "form"}
        code = f"# @title {fold}\n{code}"
    found: NotebookNode = new_code_cell(
        code, outputs=outputs, metadata=metadata
    )
    return found


def _systems(snippet: Snippet) -> str:
    """Return where a program cannot run, if it starts workers by forking.

    A notebook has no other way to give them what it defines.
    """
    return _NO_WINDOWS if '"fork"' in snippet.text else ""


def _legend(verdicts: Mapping[str, str]) -> str:
    """Return what the signs behind the claims of a notebook mean."""
    said = {*verdicts.values()}
    shown = [sign for verdict, sign in SIGNS.items() if verdict in said]
    return " ".join(f"{sign.mark} {sign.legend}." for sign in shown)


def _note(topic: Topic, names: list[str], base: str) -> str:
    """Return what a notebook says of itself, below its title."""
    url = address_of(topic.name, base)
    page = f"[this page]({url})" if url else f"the page `{topic.name}`"
    note = f"The notebook of {page} of Proven PyTorch."
    needs = ", ".join(f"`{each}`" for each in names)
    return f"{note} It needs {needs}." if needs else note


def check_of(names: list[str]) -> list[NotebookNode]:
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
    return [new_code_cell(code)]
