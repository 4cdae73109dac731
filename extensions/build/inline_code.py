"""Words that stand outside of a page's own text, with their code, as HTML."""

from __future__ import annotations

import re
from html import escape


def words(text: str) -> str:
    """Return some words as HTML."""
    return re.sub(r"`(.+?)`", r"<code>\1</code>", escape(text))
