"""What a page shows in the place of a picture of timings.

A figure with ``num="timings"`` shows how long its run took, which differs at
every build. The page says so, and shows what was recorded in evidence/.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMINGS = "timings"
RECORDED = """
The program draws a picture here that differs at every run.
This page shows what was recorded instead; run the program for your picture.

.. measured::
"""
# In the label of an axis: what is drawn along it was timed.
_TIME = re.compile(r"\b(time|[mnµ]?s|(milli)?seconds?)\b")


def shows_a_time(figure: Figure) -> bool:
    """Whether a time is drawn along an axis of a figure."""
    labels = [
        label
        for ax in figure.axes
        for label in (ax.get_xlabel(), ax.get_ylabel())
    ]
    return any(_TIME.search(label) for label in labels)
