"""Links inside of highlighted code."""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise

Link = tuple[int, int, str]
"""Where the words of a link begin and end in some code, and its address."""

# Pygments writes each token as a span, or bare. What else is a tag stands
# around tokens, such as that of a line which is emphasized.
_TOKEN = re.compile(
    r"(?P<open><span[^>]*>(?=[^<]+</span>))?(?P<text>[^<]+)"
    r"(?P<close>(?(open)</span>))|<[^>]*>"
)
_CHARACTER = re.compile(r"&[^;]+;|.", re.DOTALL)


def linked(html: str, links: list[Link]) -> str:
    """Return the HTML of some code with links; they follow one another."""
    addresses = {start: uri for start, _, uri in links}
    ends = {end for _, end, _ in links}
    found: list[str] = []
    place = 0
    for run in _TOKEN.finditer(html):
        if run["text"] is None:
            found.append(run[0])
            continue
        characters = _CHARACTER.findall(run["text"])
        until = place + len(characters)
        inside = {at for at in [*addresses, *ends] if place < at < until}
        for first, last in pairwise(sorted({place, until, *inside})):
            text = "".join(characters[first - place : last - place])
            if first in addresses:
                uri = escape(addresses[first])
                found.append(
                    f'<a class="api reference external" href="{uri}">'
                )
            found += [run["open"] or "", text, run["close"]]
            if last in ends:
                found.append("</a>")
        place = until
    return "".join(found)
