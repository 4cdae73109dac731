"""Weave the notebook of a page: its prose between the cells of its program.

sphinx-gallery writes a notebook of the program alone; this one takes its
place, and teaches without the site.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from extensions.files.problem import Problem
from extensions.files.snippets import Snippet
from extensions.files.topics import Topic, topics

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

CELL = re.compile(r"^```\{cell\} (?P<name>\S+)\n```\n", re.MULTILINE)
MEASURED = re.compile(r"^```\{measured\}\n```\n", re.MULTILINE)
CLAIM = re.compile(r"\{#[a-z0-9-]+ \.claim\}")
ROLE = re.compile(r"\{doc\}`(?P<words>[^<`]+?) *<[^>`]+>`")
LINK = re.compile(r"(?<!!)\[(?P<words>[^\]]+)\]\((?P<target>[^)\s]+)\)")
# Where the name to install is not the name to import.
DISTRIBUTIONS = {"PIL": "pillow"}


def libraries(text: str) -> list[str]:
    """Return what a program needs to be installed, torch first."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    foreign = names - sys.stdlib_module_names
    found = {DISTRIBUTIONS.get(name, name) for name in foreign}
    return sorted(found, key=lambda name: (name != "torch", name))


def plain(prose: str, address: str) -> str:
    """Return the prose as Markdown that every notebook can show.

    Links lead to the site if its address is known, else their words stay.
    """
    prose = MEASURED.sub("The page shows what was measured.\n", prose)
    prose = ROLE.sub(r"\g<words>", CLAIM.sub("", prose))

    def link(match: re.Match[str]) -> str:
        target = match["target"]
        if target.startswith("http"):
            return match[0]
        if not address:
            return match["words"]
        return (
            f"[{match['words']}]({address}/{target.replace('.md', '.html')})"
        )

    prose = LINK.sub(link, prose)
    # The brackets of a claim, which nothing follows any more.
    return re.sub(r"\[((?:`[^`]*`|[^\[\]`])+)\](?!\()", r"\1", prose).strip()


def weave(topic: Topic, base: str) -> nbformat.NotebookNode:
    """Return the notebook of a page; ``base`` is the site's address or ""."""
    text = topic.page.read_text(encoding="utf-8")
    snippet = Snippet.read(topic.snippet)
    url = f"{base.rstrip('/')}/{topic.name}.html" if base else ""
    page = f"[this page]({url})" if url else f"the page `{topic.name}`"
    needs = ", ".join(f"`{each}`" for each in libraries(snippet.text))
    note = f"The notebook of {page} of Proven PyTorch. It needs {needs}."
    pieces = CELL.split(text)
    title, _, opening = pieces[0].partition("\n")
    folder = url.rpartition("/")[0]
    cells = [
        new_markdown_cell(f"{title}\n\n{note}"),
        new_markdown_cell(plain(opening, folder)),
    ]
    for name, prose in zip(pieces[1::2], pieces[2::2], strict=True):
        cells.append(new_code_cell(snippet.cell(name).source.strip("\n")))
        if words := plain(prose, folder):
            cells.append(new_markdown_cell(words))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # not at random
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook: nbformat.NotebookNode = new_notebook(
        cells=cells, metadata={"kernelspec": kernel}
    )
    return notebook


def write(app: Sphinx) -> None:
    """Put the woven notebooks in the place of sphinx-gallery's."""
    for topic in topics(Path(app.srcdir).parent):
        if topic.is_recipe or not topic.page.exists():
            continue
        try:
            content = nbformat.writes(weave(topic, app.config.html_baseurl))
        except (Problem, SyntaxError):
            continue  # a rule of the house reports it, with its line
        path = topic.output.with_suffix(".ipynb")
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Weave once sphinx-gallery has run, which it does at 500."""
    app.connect("builder-inited", write, priority=600)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
