"""Outputs: what sphinx-gallery wrote below each block of code.

sphinx-gallery keeps the output of a block only in the page that it writes, so
this reads it back from there. Imports no Sphinx.
"""

from __future__ import annotations

import re

# How sphinx-gallery 0.22 marks the blocks of a page it writes: by comments.
LINES = r"GENERATED FROM PYTHON SOURCE LINES (\d+)-(\d+)"
_BLOCK = re.compile(rf"^\.\. {LINES}\n", re.M)
_CODE = re.compile(r"^\.\. code-block:: Python\n(?:\n|    .*\n)*", re.M)
_END = re.compile(
    r"^\.\. (rst-class:: sphx-glr-timing|_sphx_glr_download_)", re.M
)


def outputs_in(page: str) -> dict[int, str]:
    """Return reStructuredText by the line at which its code begins."""
    _, *parts = _BLOCK.split(page)
    return {
        int(line): _CODE.sub("", _END.split(block, maxsplit=1)[0], count=1)
        for line, block in zip(parts[::3], parts[2::3], strict=True)
        if _CODE.search(block)
    }
