"""What is told of a failure that a counter-example, or a limit, expects.

Its edit, what pytest explains of the failed assertion, and what the edited
program prints otherwise than the one that stands. The test of the claim,
handed the program as it stands, runs the same cells under the same conditions,
so whatever these print differently comes from the edit.
"""

import contextlib
from difflib import SequenceMatcher
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from traceback import extract_tb
from types import FunctionType, TracebackType

import pytest

from extensions.core.files import text_of
from extensions.evidence.counterexamples import Failure
from extensions.evidence.explanations import cut, explained
from extensions.programs.outputs import VARYING
from extensions.programs.snippet import Snippet, printed, reset_torch

# What says something to a reader who sees it as an input.
_PLAIN = (bool, bytes, float, int, list, str, tuple, type(None))
_Runs = list[dict[str, str]]  # what each cell printed, run by run
_before: dict[str, _Runs] = {}  # in a test, with programs as they stand

_LINES = 6  # of an output that is shown
_LETTERS = 100  # of such a line
_LEFT_OUT = "…"
_ENDS = (
    Exception,
    SystemExit,
    pytest.fail.Exception,
    pytest.skip.Exception,
)


def properties_of_failure(failure: Failure) -> list[tuple[str, str]]:
    """Return what is to be recorded of a failure."""
    test, inputs, error, after = failure
    trace = error.__traceback__
    where = _statement(trace, test.__code__.co_filename)
    return [
        *_properties_of_inputs(inputs),
        ("said", f"{where}\n{explained(str(error), trace)}"),
        *_properties_of_outputs(test, inputs, after),
    ]


def _statement(trace: TracebackType | None, module: str) -> str:
    frames = [each for each in extract_tb(trace) if each.filename == module]
    last = frames[-1]
    lines = text_of(Path(module)).splitlines()
    first = last.lineno or 1
    return dedent("\n".join(lines[first - 1 : last.end_lineno or first]))


def _changes(snippet: Snippet) -> tuple[list[str], int]:
    """Return an edit as lines with ``-`` and ``+``, and where it begins.

    Cells that the test leaves out, with ``only``, are no part of the edit.
    """
    whole = Snippet.read(snippet.path)
    kept = _sizes(whole).keys() - _left_out(whole, snippet)
    old, new = whole.only(*kept).text.splitlines(), snippet.text.splitlines()
    lines, first = [], 0
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            lines += [f"-{line}" for line in old[a:b] if line.strip()]
            lines += [f"+{line}" for line in new[c:d] if line.strip()]
            first = first or a + 1
    return lines, first


def _sizes(snippet: Snippet) -> dict[str, int]:
    cells = [*snippet.cells().values()]
    ends = [cell.line for cell in cells[1:]]
    ends.append(len(snippet.text.splitlines()) + 1)
    return {
        cell.name: end - cell.line
        for cell, end in zip(cells, ends, strict=True)
    }


def _left_out(whole: Snippet, snippet: Snippet) -> set[str]:
    """Return the cells that are empty, but have the lines that they had."""
    sizes, cells = _sizes(snippet), snippet.cells()
    return {
        name
        for name, size in _sizes(whole).items()
        if sizes.get(name) == size and not cells[name].source.strip()
    }


def _properties_of_inputs(inputs: tuple[object, ...]) -> list[tuple[str, str]]:
    found = []
    for each in inputs:
        if isinstance(each, Snippet):
            lines, first = _changes(each)
            if not lines:
                continue
            cells = Snippet.read(each.path).cells().values()
            before = [cell.name for cell in cells if cell.line <= first]
            found.append(("edit", "\n".join(lines)))
            found += [("cell edited", name) for name in before[-1:]]
        elif isinstance(each, _PLAIN) or type(each).__module__ == "torch":
            found.append(("input", f"{each!r}"))
    return found


def _properties_of_outputs(
    test: FunctionType, inputs: tuple[object, ...], after: _Runs
) -> list[tuple[str, str]]:
    """Return what is to be recorded of the outputs that an edit changes.

    Nothing, if the test of the claim runs no cell that prints something else.
    """
    programs = [each for each in inputs if isinstance(each, Snippet)]
    edited = [each for each in programs if each.text != text_of(each.path)]
    plain = all(isinstance(each, (Snippet, *_PLAIN)) for each in inputs)
    if not edited or not plain or not any(after):
        return []  # a folder, say, is no longer as it was
    whole = [
        Snippet.read(each.path) if isinstance(each, Snippet) else each
        for each in inputs
    ]
    before = _printed_by(test, *whole)
    same = _cells_before_the_edit(edited[0])
    found = _first_difference(before, after, same)
    return [
        (f"output {name}", text)
        for name, text in zip(("cell", "before", "after"), found, strict=False)
    ]


def keep_printed(test: FunctionType, program: Snippet) -> None:
    """Keep what a program has printed in the test of a claim.

    Each of its counter-examples is compared with that.
    """
    _before[_key(test, program)] = [*printed]


def _printed_by(test: FunctionType, *inputs: object) -> _Runs:
    """Return what programs print, as they stand, in the test of a claim.

    It runs for that only where it has not run with these inputs.
    """
    key = _key(test, *inputs)
    if key not in _before:
        _before[key] = _printed_while(test, *inputs)
    return _before[key]


def _key(test: FunctionType, *inputs: object) -> str:
    said = [
        each.path if isinstance(each, Snippet) else each for each in inputs
    ]
    return f"{test.__code__.co_filename} {test.__qualname__} {said!r}"


def _printed_while(test: FunctionType, *inputs: object) -> _Runs:
    reset_torch({}, "")
    printed.clear()
    with contextlib.suppress(*_ENDS):
        test(*inputs)
    return [*printed]


def _cells_before_the_edit(edited: Snippet) -> set[str]:
    """Return the cells that an edit leaves as they are, up to the first."""
    cells = Snippet.read(edited.path).cells()
    changed = edited.cells()
    same = takewhile(
        lambda name: (
            name in changed and changed[name].source == cells[name].source
        ),
        cells,
    )
    return set(same)


def _first_difference(
    before: _Runs, after: _Runs, unedited: set[str]
) -> tuple[str, ...]:
    """Return the first cell that prints something else, and both outputs.

    Nothing, if that cell runs before the edit, or shows what differs from run
    to run: then not the edit makes the difference.
    """
    for old, new in zip(before, after, strict=False):
        for name in old:
            if name in new and old[name].rstrip() != new[name].rstrip():
                shown = _shown(old[name], new[name])
                varies = any(
                    pattern.search(text)
                    for pattern in VARYING.values()
                    for text in shown
                )
                return () if varies or name in unedited else (name, *shown)
    return ()


def _shown(before: str, after: str) -> tuple[str, str]:
    """Return two outputs: whole, or from the first line on that differs."""
    old, new = before.rstrip().splitlines(), after.rstrip().splitlines()
    same = len(_common(old, new))
    first = same if max(len(old), len(new)) > _LINES else 0
    shown = _part(old, first), _part(new, first)
    if shown[0] != shown[1]:
        return shown
    return _around(old[same], new[same])  # they differ further to the right


def _common(old: list[str], new: list[str]) -> list[str]:
    pairs = zip(old, new, strict=False)
    return [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]


def _part(lines: list[str], first: int) -> str:
    last = first + _LINES
    kept = [cut(line, _LETTERS) for line in lines[first:last]]
    above = [_LEFT_OUT] if first else []
    return "\n".join([*above, *kept, *([_LEFT_OUT] if lines[last:] else [])])


def _around(old: str, new: str) -> tuple[str, str]:
    """Return the part of two long lines in which they differ."""
    start = max(0, len(_common([*old], [*new])) - _LETTERS // 2)
    cuts = [cut(each[start:], _LETTERS) for each in (old, new)]
    return f"{_LEFT_OUT} {cuts[0]}", f"{_LEFT_OUT} {cuts[1]}"
