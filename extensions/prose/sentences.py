"""Sentences: what each line of prose rests on, a test, a source, or nothing.

A claim is proven; a link of the class ``cited`` leads to a primary source. A
sentence of a page has a line of its own. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from markdown_it.token import Token

from extensions.core.directives import Body, body_of
from extensions.core.markdown import (
    directive_of,
    has_class,
    line_of,
    parse,
)
from extensions.prose.glossary import definitions_in

KINDS = ("proven", "cited", "neither")
# Between two sentences; what ends in a stop and is none stands before it.
END = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<=[\w)\]`'\"”%*])"
    r"[.!?][)\]'\"”]*\s+(?=[\"'“(`]*[A-Z])"
)
CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Part:
    """Some words, and what they rest on."""

    text: str
    """The words as Markdown."""
    kind: str = "neither"
    address: str = ""
    """The primary source, if the words cite one."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of a page."""

    line: int = field(repr=False)  # no page shows it
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All its words."""
        return "".join(part.text for part in self.parts).strip()

    @property
    def kind(self) -> str:
        """What the sentence rests on: a test first, then a source."""
        found = {part.kind for part in self.parts}
        return next(kind for kind in KINDS if kind in found)

    @property
    def holds_two(self) -> bool:
        """Whether there is a second one behind it."""
        return END.search(CODE.sub("`C`", self.text)) is not None


def in_page(text: str) -> tuple[Sentence, ...]:
    """Return the sentences of some Markdown."""
    return tuple(in_markdown(text, 1))


def in_markdown(text: str, first: int) -> Iterator[Sentence]:
    """Yield the sentences of Markdown whose first line has a number."""
    tokens = parse(text)
    for before, token in pairwise([Token("", "", 0), *tokens]):
        line = line_of(token, first)
        if directive := directive_of(token, line):
            body = body_of(directive.name)
            if body is Body.PROSE:
                yield from in_markdown(directive.body, directive.first)
            elif body is Body.TERMS:
                definitions = definitions_in(directive.body)
                yield from in_markdown(definitions, directive.first)
        elif token.type == "inline" and before.type != "heading_open":
            for number, parts in enumerate(lines_of(token)):
                sentence = Sentence(line + number, tuple(parts))
                if re.search(r"\w", sentence.text):
                    yield sentence


def lines_of(inline: Token) -> list[list[Part]]:
    """Return the parts of each line of a paragraph."""
    lines: list[list[Part]] = [[]]
    kind, address = "neither", ""
    for token in inline.children or []:
        if token.type == "span_open" and has_class(token, "claim"):
            kind = "proven"
        elif token.type == "link_open" and has_class(token, "cited"):
            kind, address = "cited", str(token.attrs["href"])
        elif token.type == "span_close" and kind == "proven":
            kind = "neither"
        elif token.type == "link_close" and kind == "cited":
            kind, address = "neither", ""
        elif token.type in {"softbreak", "hardbreak"}:
            lines.append([])
        elif token.content:
            mark = "`" if token.type == "code_inline" else ""
            said = Part(f"{mark}{token.content}{mark}", kind, address)
            lines[-1] = joined([*lines[-1], said])
    return lines


def joined(parts: list[Part]) -> list[Part]:
    """Return some parts, the last two as one if they rest on the same."""
    if len(parts) < 2:
        return parts
    *most, one, other = parts
    if (one.kind, one.address) != (other.kind, other.address):
        return parts
    return [*most, Part(one.text + other.text, one.kind, one.address)]
