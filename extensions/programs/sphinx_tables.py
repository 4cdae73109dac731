"""A table of pandas, as HTML allows it and as the site draws it.

pandas writes a style of its own with each table, and an empty header above the
names of the rows: a header that names nothing is read aloud as one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_TABLE = '<table border="1" class="dataframe">'
_STYLE = re.compile(r"<style scoped>.*?</style>\n?", re.DOTALL)


def plain(html: str) -> str:
    """Return a table of pandas without what HTML does not allow."""
    for old, new in (
        (_TABLE, '<table class="dataframe">'),
        ('<tr style="text-align: right;">', "<tr>"),
        ("<th></th>", "<td></td>"),
    ):
        html = html.replace(old, new)
    return _STYLE.sub("", html)


class _PlainTables(SphinxTransform):
    """Make plain what pandas has written, on pages and in recipes."""

    default_priority = 400

    def apply(self) -> None:
        """Write each table anew."""
        for raw in self.document.findall(nodes.raw):
            if _TABLE in raw.astext():
                raw[:] = [nodes.Text(plain(raw.astext()))]


def setup_tables(app: Sphinx) -> None:
    """Add the transform."""
    app.add_transform(_PlainTables)
