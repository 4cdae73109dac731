"""The notebook with which a reader records a run on a GPU.

It is kept as a program, in cells of the form that Jupytext reads, so that it
is linted and read in a review as one. Every build writes it, so without the
library for notebooks, which takes long to import.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from extensions.core.reading import text_of

NAME = "record_a_run.ipynb"
_PROGRAM = Path(__file__).parent / "templates/record_a_run.py"
_CELL = re.compile(r"^# %%(?P<kind>.*)\n", re.MULTILINE)


def record_notebook(repository: str, commit: str) -> str:
    """Return the notebook, for a commit of the repository at an address."""
    program = text_of(_PROGRAM)
    for old, new in (
        ('REPOSITORY = ""', f'REPOSITORY = "{repository}"'),
        ('COMMIT = "main"', f'COMMIT = "{commit}"'),
    ):
        program = program.replace(old, new)
    _, *parts = _CELL.split(program)
    cells: list[dict[str, object]] = []
    for number, (kind, text) in enumerate(
        zip(parts[::2], parts[1::2], strict=True)
    ):
        is_prose = "markdown" in kind
        source = re.sub("^# ?", "", text, flags=re.MULTILINE)
        cell: dict[str, object] = {"id": f"cell-{number}", "metadata": {}}
        if is_prose:
            cell |= {"cell_type": "markdown", "source": source.strip()}
        else:
            cell |= {"cell_type": "code", "source": text.strip()}
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "accelerator": "GPU"},  # of Colab
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def commit_of(root: Path) -> str:
    """Return the commit that a folder holds; "main" if git knows of none."""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False
        )
    except OSError:  # no git
        return "main"
    return done.stdout.strip() or "main"
