"""What a failure shows, without what is of one run or one machine alone.

Addresses in memory and folders differ each time. They are left out, or named
in the order in which they come, where a result is read, or recorded for others
to read. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import re
from string import ascii_uppercase

_OBJECT = re.compile(r" at 0x[0-9a-f]+")
_FUNCTION = re.compile(
    r"<(?:built-in )?(?:function|method) (?:\w+\.<locals>\.)*(<lambda>|\w+)"
    r"(?: of type object)?>"
)
_TEMPORARY = re.compile(
    r"/[\w./-]*(?:/pytest-of-\w+/pytest-\d+(?:/popen-\w+)?/\w+|/tmp\w{8}\b)"
)
_CHECKOUT = re.compile(r"/(?:[\w.+-]+/)+(?=(?:snippets|tests|gallery)/)")
# A whole number, which no other digits or letters touch.
_NUMBER = re.compile(r"(?<![\w.])\d{14,15}(?![\w.])")
# Such numbers, of which pytest has cut out the middle.
_CUT = re.compile(r"(?<![\w.])\d{6,}\.\.\.\d{6,}(?![\w.])")
# Where Linux keeps what a process allocates.
_FIRST, _LAST = 0x5500_0000_0000, 0x7FFF_FFFF_FFFF


def readable(text: str) -> str:
    """Return a text without addresses and without the folders of a run."""
    text = _FUNCTION.sub(r"\1", _OBJECT.sub("", text))
    text = _CHECKOUT.sub("", _TEMPORARY.sub("…", text))
    text = _CUT.sub("addresses", text)
    names: dict[str, str] = {}

    def named(number: re.Match[str]) -> str:
        """Return a name for a number that is an address."""
        is_address = _FIRST <= int(number[0]) <= _LAST
        if not is_address or len(names) == len(ascii_uppercase):
            return number[0]
        letter = ascii_uppercase[len(names)]
        return names.setdefault(number[0], f"address {letter}")

    return _NUMBER.sub(named, text)
