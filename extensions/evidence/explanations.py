"""What pytest explains of a failed assertion, in one line that shows values.

Where an assertion compares, its first line does: ``assert 2 == 3``. Where it
calls or looks something up, that line is ``assert False``, and the values
stand in those below: ``where False = are_close(tensor(0.6), tensor(0.5))``.
Addresses in memory and folders differ each time: they are left out, or named
in the order in which they come.
Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from string import ascii_uppercase
from types import GeneratorType, TracebackType

from _pytest._io.saferepr import saferepr

_BREAK = re.compile(r"\\n\s*|\s*\n\s*")  # the first as pytest writes it
_LONGEST = 200  # letters of what a reader is shown
_VALUE = 100  # letters of one value
# An assertion whose first line shows no value, and one that compares two that
# are true or false.
_TRUTH = "(?:True|False)"
_BARE = re.compile(rf"assert (?:not )?(?P<said>{_TRUTH})")
_COMPARED = re.compile(rf"assert {_TRUTH} (?:==|!=|is|is not) {_TRUTH}")
# What torch says of two values that are not close, in a later line.
_FAR = re.compile(
    r"(?<=\n)(?:Expected .* but got .*|Greatest absolute[^()]*\(.*?\))"
)
_LINE = re.compile(r" \+(?P<depth>(?:  )+)(?:where|and  ) (?P<said>.*)")
_GENERATOR = re.compile(r"<generator object \S+(?: at 0x[0-9a-f]+)?>")
_CLASS = re.compile(r"<class '([\w.<>]+)'>")
# What a value begins with whose expression says more than it does.
_OPAQUE = re.compile(r"<(?!class )|namespace\(|\s")
_PROGRAM = re.compile(r"namespace\(.*\)\.")  # its variables, all of them


@dataclass
class _Where:
    """A line of an explanation: a value, and from where it comes."""

    said: str
    below: list[_Where] = field(default_factory=list)

    def split(self, inside: str) -> tuple[str, str]:
        """Return the value, which stands in the line above, and its source."""
        parts = self.said.split(" = ")
        for at in range(1, len(parts)):
            value = " = ".join(parts[:at])
            if value in inside:
                return value, " = ".join(parts[at:])
        return parts[0], " = ".join(parts[1:])


def explained(message: str, trace: TracebackType | None) -> str:
    """Return what a failed assertion says, in a line that shows values."""
    head, *lines = message.strip().split("\n")
    if far := _FAR.search(message):
        return f"{head.rstrip('!')}: {far[0].lower().rstrip('.')}"
    is_compared = _COMPARED.fullmatch(head)
    if bare := _BARE.fullmatch(head):
        if found := _explanation(lines, bare["said"], trace):
            return found
    elif is_compared and (found := _explanation(lines, _TRUTH, trace)):
        return f"{head}: {found}"
    return cut(in_one_line(head), _LONGEST)


def shows_nothing(said: str) -> bool:
    """Whether a failed assertion tells that something is false, not what."""
    return _BARE.fullmatch(said.rpartition("\n")[2]) is not None


def in_one_line(text: str) -> str:
    """Return a text in one line, without the addresses of objects."""
    return _BREAK.sub(" ", _OBJECT.sub("", text))


def cut(text: str, letters: int) -> str:
    """Return a text, or its beginning if it is longer than some letters."""
    return text if len(text) <= letters else f"{text[:letters]} …"


def _explanation(
    lines: list[str], value: str, trace: TracebackType | None
) -> str:
    """Return from where a truth value comes, with the values behind it."""
    found = [each for each in _tree(lines) if re.match(value, each.said)]
    if not found:
        return ""
    truth, source = found[0].split("True False")
    code = _CLASS.sub(r"\1", in_one_line(_shown(source, found[0].below)))
    if _GENERATOR.search(source):
        if not (values := _where_it_stopped(trace)):
            return ""
        return cut(f"{truth} for {values}", _LONGEST)
    code = _short(_PROGRAM.sub("", code))
    if not re.search(r"[(\[{'\"\d]", code):
        return ""  # a name, and nothing of what it is
    return f"{cut(code, _LONGEST)} is {truth}"


def _tree(lines: list[str]) -> list[_Where]:
    """Return the lines of an explanation, each with those that explain it."""
    top: list[_Where] = []
    open_at = [top]
    for line in lines:
        if match := _LINE.fullmatch(line):
            depth = len(match["depth"]) // 2
            each = _Where(match["said"])
            del open_at[depth:]
            open_at[-1].append(each)
            open_at.append(each.below)
    return top


def _shown(source: str, below: list[_Where]) -> str:
    """Return an expression, with the source of each value that says nothing.

    A function is then called by its name, not described by its type.
    """
    for each in below:
        value, behind = each.split(source)
        if _OPAQUE.match(value):
            source = source.replace(value, _shown(behind, each.below), 1)
    return source


def _where_it_stopped(trace: TracebackType | None) -> str:
    """Return on which values ``all`` or ``any`` has stopped.

    The generator of a failed assertion still stands at the value that
    decided; pytest keeps it in a variable of its own.
    """
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    values = trace.tb_frame.f_locals if trace is not None else {}
    stopped = [
        each.gi_frame
        for name, each in values.items()
        if name.startswith("@py_") and isinstance(each, GeneratorType)
        if each.gi_frame is not None
    ]
    shown = [
        f"{name} = {in_one_line(saferepr(frame.f_locals[name], _VALUE))}"
        for frame in stopped[-1:]
        for name in frame.f_code.co_varnames  # and not what is from outside
        if name in frame.f_locals and name.isidentifier()
    ]
    return ", ".join(shown)


def _short(code: str) -> str:
    if len(code) <= _LONGEST or not code.endswith(")"):
        return code
    name, _, inside = code[:-1].partition("(")
    parts = _parts(inside)
    room = max(_VALUE // 2, (_LONGEST - len(name)) // len(parts) - 4)
    return f"{name}({', '.join(cut(each, room) for each in parts)})"


def _parts(arguments: str) -> list[str]:
    found, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found]


# -- Without what is of one run, or one machine, alone ------------------------

_OBJECT = re.compile(r" at 0x[0-9a-f]+")
_FUNCTION = re.compile(
    r"<(?:built-in )?(?:function|method) (?:\w+\.<locals>\.)*(<lambda>|\w+)"
    r"(?: of type object)?>"
)
_TEMPORARY = re.compile(
    r"/[\w./-]*(?:/pytest-of-\w+/pytest-\d+(?:/popen-\w+)?/\w+|/tmp\w{8}\b)"
)
_CHECKOUT = re.compile(r"/(?:[\w.+-]+/)+(?=(?:snippets|tests|gallery)/)")
# A path of which pytest has cut out the end, and what follows.
_CUT_PATH = re.compile(r"(?<=File \")/(?:[\w.+-]+/)+[\w+-]*(?=\.\.\.)")
# A whole number, which no other digits or letters touch.
_NUMBER = re.compile(r"(?<![\w.])\d{14,15}(?![\w.])")
# Such numbers, of which pytest has cut out the middle.
_CUT = re.compile(r"(?<![\w.])\d{6,}\.\.\.\d{6,}(?![\w.])")
# Where Linux keeps what a process allocates.
_FIRST, _LAST = 0x5500_0000_0000, 0x7FFF_FFFF_FFFF


def readable(text: str) -> str:
    """Return a text without addresses and without the folders of a run."""
    text = _FUNCTION.sub(r"\1", _OBJECT.sub("", text))
    text = _CUT_PATH.sub("", _CHECKOUT.sub("", _TEMPORARY.sub("…", text)))
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
