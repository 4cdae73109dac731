"""Sentences: what each of them rests on, a test, a source, or nothing.

A claim is proven; a link of the class ``cited`` leads to a primary source. A
sentence of a page has a line of its own; the prose of a recipe is wrapped, and
is split behind each full stop. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from markdown_it.token import Token

from extensions.core.cache import cached_by_content
from extensions.core.files import python_in, text_of
from extensions.core.markdown import (
    Body,
    body_of,
    directive_of,
    has_class,
    line_of,
    parse,
)
from extensions.prose.lists import definitions_in

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


# A paragraph of a recipe: lines of comments without an empty one between.
_PROSE = re.compile(r"^# ?%%.*\n(?P<text>(?:#.*\n)+)", re.MULTILINE)
_PARAGRAPH = re.compile(r"(?:^# .*\n)+", re.MULTILINE)
# What is no sentence: a target, a directive, or a title with its line.
_MARKUP = re.compile(r"# \.\. |.*\n# ([=~^-])\1+\n")


def prose_of(root: Path) -> dict[str, tuple[Sentence, ...]]:
    """Return the sentences of each page and recipe, by the page's name."""
    pages = [
        *((path, root / "docs") for path in root.glob("docs/**/*.md")),
        *((path, root) for path in root.glob("gallery/*.py")),
    ]
    found = {
        path.relative_to(folder).with_suffix("").as_posix(): sentences_of(path)
        for path, folder in pages
    }
    return {name: found[name] for name in sorted(found) if found[name]}


def sentences_of(path: Path) -> tuple[Sentence, ...]:
    """Return the sentences of a page, or of a recipe, in their order."""
    return split_up(path, text_of(path))


@cached_by_content
def split_up(path: Path, text: str) -> tuple[Sentence, ...]:
    """Return the sentences of the text of a file."""
    return in_page(text) if path.suffix == ".md" else _in_recipe(path, text)


def _in_recipe(path: Path, text: str) -> tuple[Sentence, ...]:
    """Return the sentences between the cells of a recipe."""
    doc = ast.get_docstring(python_in(path, text), clean=False) or ""
    title, _, opening = doc.partition("\n\n")
    found = list(_sentences_in(opening, title.count("\n") + 3, "neither"))
    for block in _PROSE.finditer(text):
        is_claim = False
        for each in _PARAGRAPH.finditer(text, *block.span("text")):
            if not _MARKUP.match(each[0]):
                words = each[0].replace("\n# ", "\n").removeprefix("# ")
                line = text.count("\n", 0, each.start()) + 1
                kind = "proven" if is_claim else "neither"
                found += _sentences_in(words, line, kind)
            is_claim = each[0].startswith("# .. _")
    return tuple(found)


def _sentences_in(text: str, first: int, kind: str) -> Iterator[Sentence]:
    """Yield the sentences of a paragraph that begins at a line."""
    words = text.rstrip().replace("``", "`")
    start = 0
    for end in [*(each.end() for each in END.finditer(words)), len(words)]:
        said = " ".join(words[start:end].split())
        line = first + words.count("\n", 0, start)
        if re.search(r"\w", said):
            yield Sentence(line, (Part(said, kind),))
        start = end
