"""Weave the notebook of a page: its prose between the cells of its program.

sphinx-gallery writes a notebook of the program alone; this one takes its
place, and teaches without the site.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.build.warnings import report
from extensions.core.environment import our_code
from extensions.core.problem import Problem
from extensions.core.reading import bytes_of, text_of
from extensions.core.titles import address_of, first_lines
from extensions.core.topics import Topic, topics
from extensions.core.writing import write
from extensions.programs.requirements import libraries
from extensions.programs.snippet import Snippet

# What weaves, and what knows the form of a notebook, is imported where one is
# woven: a build with nothing changed needs neither.
if TYPE_CHECKING:
    from nbformat import NotebookNode
    from sphinx.application import Sphinx

    from extensions.notebooks.export import Woven

OLDEST = (2, 6)
CHECK = """# Needs torch {oldest} or newer{others}; to install what is missing:
# %pip install {names}
import torch

if tuple(map(int, torch.__version__.split(".")[:2])) < {version}:
    raise RuntimeError(
        f"torch {{torch.__version__}} is too old: install {oldest} or newer"
    )"""


def check_of(names: list[str]) -> list[NotebookNode]:
    """Return the cell that looks whether a program can run, if one needs to.

    A torch that is newer than any that the guide knows is let pass.
    """
    from nbformat.v4 import new_code_cell

    if "torch" not in names:
        return []
    others = f", with {', '.join(names[1:])}" if names[1:] else ""
    code = CHECK.format(
        oldest=".".join(map(str, OLDEST)),
        others=others,
        names=" ".join(names),
        version=OLDEST,
    )
    return [new_code_cell(code)]


def notebook_of(topic: Topic, woven: Woven, base: str) -> NotebookNode:
    """Return the notebook of a page; ``base`` is the site's address or ""."""
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    from extensions.notebooks.export import code_of

    snippet = Snippet.read(topic.snippet)
    url = address_of(topic.name, base)
    page = f"[this page]({url})" if url else f"the page `{topic.name}`"
    names = libraries(snippet.text)
    needs = ", ".join(f"`{each}`" for each in names)
    note = f"The notebook of {page} of Proven PyTorch. It needs {needs}."
    pieces = [*woven.pieces]
    title, opening = "", ""
    if pieces and isinstance(pieces[0], str):
        title, _, opening = str(pieces.pop(0)).partition("\n\n")
    cells = [new_markdown_cell(f"{title}\n\n{note}".strip())]
    cells += check_of(names)
    cells += [new_markdown_cell(opening)] if opening else []
    for piece in pieces:
        if isinstance(piece, str):
            cells.append(new_markdown_cell(piece))
        else:
            cells.append(new_code_cell(code_of(snippet.cell(piece.name))))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # not at random
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook: NotebookNode = new_notebook(
        cells=cells, metadata={"kernelspec": kernel}
    )
    return notebook


def stamp_of(topic: Topic, base: str, titles: str) -> str:
    """Return a hash of what a notebook is woven from."""
    parts = (our_code(), titles, base, text_of(topic.page))
    found = hashlib.sha256("\0".join(parts).encode())
    found.update(bytes_of(topic.snippet))
    return found.hexdigest() + "\n"


def put(app: Sphinx) -> None:
    """Put the woven notebooks in the place of sphinx-gallery's."""
    root, base = Path(app.srcdir).parent, app.config.html_baseurl
    titles = first_lines(root)
    for topic in topics(root):
        if not topic.page.exists():
            continue
        path = topic.output.with_suffix(".ipynb")
        stamp = topic.output.with_suffix(".woven")
        now = stamp_of(topic, base, titles)
        if path.exists() and stamp.exists() and text_of(stamp) == now:
            continue
        from extensions.notebooks.export import weave

        woven = weave(topic, base)
        for problem in woven.problems:
            report(problem)
        try:
            notebook = notebook_of(topic, woven, base)
        except Problem:
            continue  # a rule reports it, with its line
        from nbformat import writes

        write(path, writes(notebook))
        if not woven.problems:
            write(stamp, now)


def setup_notebooks(app: Sphinx) -> None:
    """Weave once sphinx-gallery has run, which it does at 500."""
    app.connect("builder-inited", put)
