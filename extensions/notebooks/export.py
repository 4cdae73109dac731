"""Export a page: its prose as plain Markdown, and the cells between it.

The text of the page stays as it was written, but for what only this site
knows: of a claim the words stay, and its sign follows; a role becomes the
words or the link that the site shows; a link stays where the site's address is
known, else its words do; what stands for a directive is said in
:mod:`extensions.core.markdown`. A recipe is taken from reStructuredText to
what a page would say before.

It is read as text, and not from Sphinx's doctree, which also holds what the
site adds for its readers: links to the API, signs, panels, curly quotation
marks. What the text holds and no notebook can show is reported at its line and
left out.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from extensions.claims.ledger import Repair
from extensions.claims.page import read_page
from extensions.claims.words import NO_ANSWER, NO_LONGER_TRUE, PRINTS, SIGNS
from extensions.core.files import Problem, python_of, text_of
from extensions.core.markdown import (
    DIRECTIVES,
    TABLE,
    Body,
    Directive,
    Meaning,
    address_of,
    directive_of,
    name_of,
    parse,
    title_of,
)
from extensions.core.syntax import Exercise, Kind, exercise_of
from extensions.core.topics import Topic
from extensions.evidence.parsed_tests import test_of
from extensions.programs.outputs import fold_title
from extensions.programs.snippet import Cell, Snippet

# What a page says to Sphinx alone.
_UNSEEN = {"front_matter", "myst_line_comment", "myst_target"}
_CODE = r"(?:``(?:[^`]|`(?!`))+``|`[^`]+`)"
# All that may be other than in plain Markdown; code stays as it is.
_INLINE = re.compile(
    rf"""
    \{{(?P<role>[\w:-]+)\}}`(?P<said>[^`]+)`
    | {_CODE}
    | (?P<picture>!?)(?<!\\)
      \[(?P<words>(?:{_CODE}|\[(?:{_CODE}|[^]`])*\]|[^][`])*)\]
      (?:\((?P<target>(?P<scheme>[a-z]+:)?(?:[^()\s]|\([^()\s]*\))*)\))?
      (?P<attributes>\{{[^{{}}`]+\}})?
    """,
    re.VERBOSE,
)
_EXPLICIT = re.compile(r"(.+?)\s*<([^<>]+)>", re.DOTALL)

# From the reStructuredText of recipes to MyST.
_FROM_RST = (
    (r"^\.\. _(.*):\n\n(\S.*(?:\n\S.*)*)", r"\n\n[\2]{#\1 .claim}"),
    (r"^\.\. ([\w:-]+)::.*$", r"{\1}`directive`"),  # which is reported
    (r"^(\S.*)\n=+$", r"# \1\n"),
    (r"^(\S.*)\n-+$", r"## \1\n"),
    (r":([\w:-]+):`", r"{\1}`"),
    (r"^::$|(?<=\S:):$", ""),
    (r"``", "`"),
)


@dataclass(frozen=True)
class ExportedCell:
    """Where a page shows a cell of its program."""

    cell: Cell | None
    """None where the reader writes code."""
    fold: str = ""
    """The words that it folds behind, or ""."""
    asks: bool = False
    """Whether the reader is to say what it gives."""


def code_of(cell: Cell) -> str:
    """Return the code of a cell without what stands on the page as prose."""
    return cell.source if cell.is_wrong else cell.code


def fenced(text: str, language: str = "") -> str:
    """Return some lines as a block of code."""
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


@dataclass
class Export:
    """A page as its notebook and its Markdown show it."""

    topic: Topic
    base: str
    """The address of the site, or ""."""
    verdicts: Mapping[str, str]
    """What the tests say of each claim, by its name."""
    repairs: Mapping[str, Repair]
    cells: Mapping[str, Cell]
    pieces: list[str | ExportedCell] = field(default_factory=list)
    """Markdown, and the cells between it."""
    problems: list[Problem] = field(default_factory=list)

    def link(self, words: str) -> str:
        """Return words as a link to the page itself."""
        return _linked(words, address_of(self.topic.name, self.base))

    def add_recipe(self) -> None:
        """Add a recipe as the page that it would be: all of its cells."""
        opening = ast.get_docstring(python_of(self.topic.page)) or ""
        self.add_blocks(_from_rst(opening))
        for cell in self.cells.values():
            prose = re.sub("^# ?", "", cell.prose, flags=re.MULTILINE)
            self.add_blocks(_from_rst(prose))
            if cell.code:
                self._add(ExportedCell(cell))
            if 'num="timings"' in cell.code:  # as the site shows it
                self.add_blocks("```{measured}\n```")

    def add_blocks(self, text: str) -> None:
        """Add some Markdown."""
        lines = text.splitlines()
        at = 0
        for token in parse(text):
            directive = directive_of(token, 1)
            if token.map and (directive or token.type in _UNSEEN):
                start, end = token.map
                self._add_prose(lines[at:start])
                at = end
                if directive:
                    self._add_directive(directive)
        self._add_prose(lines[at:])

    def _add(self, piece: str | ExportedCell) -> None:
        last = self.pieces[-1] if self.pieces else None
        if isinstance(piece, str) and isinstance(last, str):
            self.pieces[-1] = f"{last}\n\n{piece}" if piece else last
        elif piece:
            self.pieces.append(piece)

    def _add_prose(self, lines: Iterable[str]) -> None:
        text = self._plain("\n".join(lines)).strip("\n")
        self._add(re.sub("\n{3,}", "\n\n", text))

    def _add_directive(self, directive: Directive) -> None:
        match directive.name:
            case "cell" if "from" not in directive.options:
                # A rule reports a name that no cell has.
                if cell := self.cells.get(directive.argument):
                    fold = fold_title(cell, directive.options)
                    self._add(ExportedCell(cell, fold))
            case "error-text":
                self.add_blocks(directive.body)  # its cell shows the text
            case "exercise":
                self._add_exercise(directive)
            case "recap":
                self._add_recap(directive)
            case _:
                self._add_meaning(directive)

    def _add_meaning(self, directive: Directive) -> None:
        meaning = DIRECTIVES.get(directive.name, Meaning())
        if not meaning.export:
            self._report(f"{{{directive.name}}}", f": see {TABLE}")
            return
        title, page = self._plain(directive.argument), self.link("The page")
        shown = meaning.export.format(title=title, page=page, body="\0")
        before, _, after = shown.partition("\0")
        body = directive.body.rstrip()
        if meaning.body is Body.DATA:
            self._add(f"{before}{body}{after}")
            return
        if directive.argument and "{title}" not in meaning.export:
            body = f"{directive.argument}\n{body}"
        self._add(before.strip())
        self.add_blocks(body)
        self._add(after.strip())

    def _add_recap(self, directive: Directive) -> None:
        lines = []
        for each in directive.argument.split():
            page, _, name = each.rpartition("#")
            topic = Topic(self.topic.root, page or self.topic.name)
            claims = read_page(topic.page).claims
            lines += [f"- {c.sentence}" for c in claims if c.name == name]
        self._add_prose(lines)

    def _add_exercise(self, directive: Directive) -> None:
        exercise = exercise_of(directive.argument)
        if exercise is None:
            return  # the directive reports it
        self._add(f"**{exercise.kind.value.capitalize()}**")
        self.add_blocks(directive.body)
        if hint := directive.options.get("hint"):
            self._add(_folded("Hint", self._plain(hint)))
        match exercise:
            case Exercise(Kind.PREDICT, (name,)):
                self._add(ExportedCell(self.cells.get(name), asks=True))
                self._add("Run the cell: it gives the answer.")
            case Exercise(Kind.BUILD, (name, check)):
                self._add(ExportedCell(None))
                self._add(ExportedCell(self.cells.get(check), asks=True))
                if solution := self.cells.get(name):
                    answer = fenced(solution.code, "python")
                    self._add(_folded("Answer", answer))
            case Exercise(Kind.REPAIR, (name,)):
                self._add(_folded("Answer", self._repair(test_of(name))))

    def _repair(self, test: str) -> str:
        repair = self.repairs.get(test)
        if repair is None:
            return NO_ANSWER
        parts = [fenced(repair.change, "diff")]
        if repair.after:
            parts += [PRINTS, fenced(repair.after, "text")]
        parts += [NO_LONGER_TRUE, f"> {self._plain(repair.sentence)}"]
        return "\n\n".join(parts)

    def _plain(self, text: str) -> str:
        return _INLINE.sub(self._without_myst, text)

    def _without_myst(self, found: re.Match[str]) -> str:
        if role := found["role"]:
            explicit = _EXPLICIT.fullmatch(found["said"])
            said = ("", found["said"])
            words, target = explicit.groups() if explicit else said
            if role == "doc":
                return self._page(words, target)
            if role == "download":
                # The address of the file holds a hash that Sphinx chooses.
                return self.link(words or Path(target).name)
            return self._report(f"{{{role}}}", f": see {TABLE}")
        if found["words"] is None:  # code
            return found[0]
        if found["picture"]:
            return self._report(found[0])
        words = self._plain(found["words"])
        if found["scheme"]:
            words = f"[{words}]({found['target']})"
        elif found["target"]:
            words = self._page(words, found["target"])
        elif not found["attributes"]:
            words = f"[{words}]"
        name = re.search(r"#([\w-]+)", found["attributes"] or "")
        return words + (self._sign(name[1]) if name else "")

    def _page(self, words: str, target: str) -> str:
        """Return a link to a page; its title stands in for no words."""
        page, mark, place = target.partition("#")
        name = self.topic.name
        if page:
            name = name_of(page.removesuffix(".md"), name)
        title = title_of(self.topic.root, name)
        if page and title is None:  # a label, which only Sphinx can find
            return words
        words = words or self._plain(title or "")
        address = address_of(name, self.base)
        return _linked(words, address and f"{address}{mark}{place}")

    def _sign(self, name: str) -> str:
        sign = SIGNS.get(self.verdicts.get(name, ""))
        if sign is None:
            return ""
        page = address_of(self.topic.name, self.base)
        address = page and f'{page}#{name} "{sign.tip}"'
        return f" {_linked(sign.mark, address)}"

    def _report(self, what: str, why: str = "") -> str:
        """Keep a problem, and show nothing in the place of what has it."""
        text = text_of(self.topic.page)
        line = text.count("\n", 0, max(0, text.find(what))) + 1
        message = f"a notebook cannot show {what}{why}"
        self.problems.append(Problem(self.topic.page, line, message))
        return ""


def export_page(
    topic: Topic,
    base: str,
    verdicts: Mapping[str, str] | None = None,
    repairs: Mapping[str, Repair] | None = None,
) -> Export:
    """Return the page of a topic; ``base`` is the site's address or "".

    Claims are followed by the signs of their verdicts, given by their names,
    and exercises by repairs, given by the names of their tests.
    """
    cells = Snippet.read(topic.snippet).cells()
    export = Export(topic, base, verdicts or {}, repairs or {}, cells)
    if topic.is_recipe:
        export.add_recipe()
    else:
        export.add_blocks(text_of(topic.page))
    return export


def _linked(words: str, address: str) -> str:
    return f"[{words}]({address})" if words and address else words


def _folded(title: str, said: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{said}\n\n</details>"


def _from_rst(text: str) -> str:
    for pattern, instead in _FROM_RST:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text
