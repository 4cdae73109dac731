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

# What an output may not show, because it differs from run to run.
VARYING = {
    "a memory address": re.compile(r"\b0x[0-9a-f]{6,}\b"),
    "an absolute path": re.compile(r"(?<![\w./:])/(?:[\w.-]+/)+[\w.-]+"),
    "a date": re.compile(r"\b20\d\d-\d\d-\d\d\b"),
    "a duration": re.compile(r"\b\d+(?:\.\d+)? ?(?:[mnuµ]s|s|seconds)\b"),
}


def outputs_in(page: str) -> dict[int, str]:
    """Return reStructuredText by the line at which its code begins."""
    _, *parts = _BLOCK.split(page)
    return {
        int(line): _CODE.sub("", _END.split(block, maxsplit=1)[0], count=1)
        for line, block in zip(parts[::3], parts[2::3], strict=True)
        if _CODE.search(block)
    }
