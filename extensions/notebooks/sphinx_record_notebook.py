"""Write the notebook that records a run, where a page can offer it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.core.writing import write

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _write(app: Sphinx) -> None:
    """Write it for the commit that is built."""
    from extensions.notebooks.record_notebook import (
        NAME,
        commit_of,
        record_notebook,
    )

    root = Path(app.srcdir).parent
    text = record_notebook(app.config.repository, commit_of(root))
    write(Path(app.srcdir, "code", NAME), text)


def setup_record_notebook(app: Sphinx) -> None:
    """Write beside the programs."""
    app.connect("builder-inited", _write)
