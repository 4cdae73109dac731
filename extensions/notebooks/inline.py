"""Take from the words of a page what only MyST knows.

Of a claim the words stay, and its sign follows; a role becomes the words or
the link that the site shows; a link stays where the site's address is known,
else its words do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from extensions.claims.words import SIGNS
from extensions.core.files import Problem
from extensions.core.markdown import TABLE, address_of, name_of, title_of
from extensions.core.topics import Topic

_CODE = r"(?:``(?:[^`]|`(?!`))+``|`[^`]+`)"
# All that may be other than in plain Markdown; code stays as it is.
_INLINE = re.compile(
    rf"""
    \{{(?P<role>[\w:-]+)\}}`(?P<said>[^`]+)`
    | {_CODE}
    | (?P<picture>!?)(?<!\\)
      \[(?P<words>(?:{_CODE}|\[(?:{_CODE}|[^]`])*\]|[^][`])*)\]
      (?:\((?P<target>(?P<scheme>[a-z]+:)?(?:[^()\s]|\([^()\s]*\))*)(?P<title>\s"[^"]*")?\))?
      (?P<attributes>\{{[^{{}}`]+\}})?
    """,
    re.VERBOSE,
)
_EXPLICIT = re.compile(r"(?P<words>.+?)\s*<(?P<target>[^<>]+)>", re.DOTALL)
_SCHEMES = {"http:", "https:", "mailto:"}

# From the reStructuredText of recipes to MyST, each on as many lines.
_FROM_RST = (
    (r"^\.\. _(.*):\n\n(\S.*(?:\n\S.*)*)", r"\n\n[\2]{#\1 .claim}"),
    (r"^\.\. ([\w:-]+)::.*$", r"{\1}`directive`"),  # which is reported
    (r"^(\S.*)\n=+$", r"# \1\n"),
    (r"^(\S.*)\n-+$", r"## \1\n"),
    (r":([\w:-]+):`", r"{\1}`"),
    (r"^::$|(?<=\S:):$", ""),
    (r"``", "`"),
)


@dataclass
class Inline:
    """The words of one page, and what no notebook can show of it."""

    topic: Topic
    base: str
    """The address of the site, or ""."""
    verdicts: Mapping[str, str]
    """What the tests say of each claim, by its name."""
    problems: list[Problem] = field(default_factory=list, kw_only=True)

    def report(self, line: int, what: str) -> str:
        """Keep a problem, and show nothing in the place of what has it."""
        message = f"a notebook cannot show {what}"
        self.problems.append(Problem(self.topic.page, line, message))
        return ""

    def prose(self, lines: Iterable[str], line: int) -> str:
        """Return some lines, of which the first has a number."""
        text = self.plain("\n".join(lines), line).strip("\n")
        return re.sub("\n{3,}", "\n\n", text)

    def plain(self, text: str, line: int) -> str:
        """Return words, at a line, without what only MyST knows."""

        def replaced(found: re.Match[str]) -> str:
            here = line + text.count("\n", 0, found.start())
            if found["role"]:
                return self._role(found["role"], found["said"], here)
            if found["words"] is None:
                return found[0]
            return self._bracket(found, here)

        return _INLINE.sub(replaced, text)

    def link(self, words: str) -> str:
        """Return words as a link to the page itself."""
        return _linked(words, address_of(self.topic.name, self.base))

    def _bracket(self, found: re.Match[str], line: int) -> str:
        """Return what stands in brackets: a claim, a link, or just words."""
        target, scheme = found["target"], found["scheme"]
        if found["picture"] and not scheme:
            return self.report(line, "a picture of the page")
        if found["words"].startswith("^"):
            return self.report(line, "a footnote")
        words = self.plain(found["words"], line)
        if scheme:
            if scheme not in _SCHEMES:
                self.report(line, f"a link of {scheme}")
            title = found["title"] or ""
            words = f"{found['picture']}[{words}]({target}{title})"
        elif target:
            words = self._page(words, target, line)
        elif not found["attributes"]:
            words = f"[{words}]"
        name = re.search(r"#([\w-]+)", found["attributes"] or "")
        return words + (self._sign(name[1]) if name else "")

    def _sign(self, name: str) -> str:
        """Return what follows the words of a claim: a link to its proof."""
        sign = SIGNS.get(self.verdicts.get(name, ""))
        if sign is None:
            return ""
        page = address_of(self.topic.name, self.base)
        address = page and f'{page}#{name} "{sign.tip}"'
        return f" {_linked(sign.mark, address)}"

    def _page(self, words: str, target: str, line: int) -> str:
        """Return a link to a page; its title stands in for no words."""
        page, mark, place = target.partition("#")
        name = name_of(page.removesuffix(".md"), self.topic.name)
        name = name if page else self.topic.name
        title = title_of(self.topic.root, name)
        if page and title is None:  # a label, which only Sphinx can find
            what = f"the title of {page}: no such page"
            return words or self.report(line, what)
        words = words or self.plain(title or "", line)
        address = address_of(name, self.base)
        return _linked(words, address and f"{address}{mark}{place}")

    def _role(self, role: str, said: str, line: int) -> str:
        """Return what a role says: of a page its title, of a file its name."""
        explicit = _EXPLICIT.fullmatch(said.strip())
        target = explicit["target"] if explicit else said.strip()
        words = explicit["words"] if explicit else ""
        if role == "doc":
            return self._page(words, target, line)
        if role == "download":
            # The address of the file holds a hash that Sphinx chooses.
            return self.link(words or Path(target).name)
        return self.report(line, f"{{{role}}}: see {TABLE}")


def _linked(words: str, address: str) -> str:
    """Return words as a link, if there is an address."""
    return f"[{words}]({address})" if words and address else words


def from_rst(text: str) -> str:
    """Return the reStructuredText of a recipe as MyST."""
    for pattern, instead in _FROM_RST:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text
