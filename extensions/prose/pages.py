"""The prose of the guide: the sentences of its pages and of its recipes.

The prose of a recipe is wrapped, and is split behind each full stop. Imports
neither Sphinx nor torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.reading import python_in, text_of
from extensions.prose.sentences import END, Part, Sentence, in_page

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
