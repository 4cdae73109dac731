"""Sentences: what each of them rests on, a test, a source, or nothing.

A claim is proven; a link of the class ``cited`` leads to a primary source. A
sentence of a page has a line of its own; the prose of a recipe is wrapped, and
is split behind each full stop. Imports neither Sphinx nor torch.
"""

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
from extensions.prose.names import definitions_in

KINDS = ("proven", "cited", "neither")
# Between two sentences; what ends in a stop and is none stands before it.
END = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<=[\w)\]`'\"”%*])"
    r"[.!?][)\]'\"”]*\s+(?=[\"'“(`]*[A-Z])"
)
_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Sentence:
    """One sentence of a page."""

    line: int = field(repr=False)  # no page shows it
    text: str
    """Its words as Markdown."""
    kind: str
    """What it rests on: a test first, then a source."""
    cited: tuple[str, ...] = ()
    """The addresses of its primary sources."""

    @property
    def holds_two(self) -> bool:
        """Whether there is a second one behind it."""
        return END.search(_CODE.sub("`C`", self.text)) is not None


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
    return _sentences_in(path, text_of(path))


@cached_by_content
def _sentences_in(path: Path, text: str) -> tuple[Sentence, ...]:
    if path.suffix == ".md":
        return tuple(in_markdown(text, 1))
    return tuple(_in_recipe(path, text))


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
            yield from _in_paragraph(token, line)


def _in_paragraph(paragraph: Token, line: int) -> Iterator[Sentence]:
    text, kinds, cited = "", set[str](), []
    now = "neither"  # what the words rest on: a claim may go over lines
    closing = {"span_close": "proven", "link_close": "cited"}
    for token in [*(paragraph.children or []), Token("softbreak", "", 0)]:
        if token.type == "span_open" and has_class(token, "claim"):
            now = "proven"
        elif token.type == "link_open" and has_class(token, "cited"):
            now = "cited"
            cited.append(str(token.attrs["href"]))
        elif closing.get(token.type) == now:
            now = "neither"
        elif token.type in {"softbreak", "hardbreak"}:
            if re.search(r"\w", text):
                kind = next(each for each in KINDS if each in kinds)
                yield Sentence(line, text.strip(), kind, tuple(cited))
            text, kinds, cited, line = "", set(), [], line + 1
        elif token.content:
            mark = "`" if token.type == "code_inline" else ""
            text += f"{mark}{token.content}{mark}"
            kinds.add(now)


# A paragraph of a recipe: lines of comments without an empty one between.
_PROSE = re.compile(r"^# ?%%.*\n(?P<text>(?:#.*\n)+)", re.MULTILINE)
_PARAGRAPH = re.compile(r"(?:^# .*\n)+", re.MULTILINE)
# What is no sentence: a target, a directive, or a title with its line.
_MARKUP = re.compile(r"# \.\. |.*\n# ([=~^-])\1+\n")


def _in_recipe(path: Path, text: str) -> Iterator[Sentence]:
    doc = ast.get_docstring(python_in(path, text), clean=False) or ""
    title, _, opening = doc.partition("\n\n")
    yield from _split(opening, title.count("\n") + 3, "neither")
    for block in _PROSE.finditer(text):
        kind = "neither"
        for each in _PARAGRAPH.finditer(text, *block.span("text")):
            if not _MARKUP.match(each[0]):
                words = each[0].replace("\n# ", "\n").removeprefix("# ")
                line = text.count("\n", 0, each.start()) + 1
                yield from _split(words, line, kind)
            # A claim is the paragraph behind a target.
            kind = "proven" if each[0].startswith("# .. _") else "neither"


def _split(text: str, first: int, kind: str) -> Iterator[Sentence]:
    words = text.rstrip().replace("``", "`")
    start = 0
    for end in [*(each.end() for each in END.finditer(words)), len(words)]:
        said = " ".join(words[start:end].split())
        line = first + words.count("\n", 0, start)
        if re.search(r"\w", said):
            yield Sentence(line, said, kind)
        start = end
