"""Render the words of a page without what MyST adds inside a paragraph.

Of a claim the words stay, and its sign follows; a role becomes the words or
the link that the site shows; a link stays where the site's address is known,
else its words do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from markdown_it.token import Token
from mdformat.renderer import DEFAULT_RENDERERS

from extensions.claims.repairs import Repair
from extensions.claims.signs import SIGNS
from extensions.core.directives import ROLES, TABLE, RoleExport
from extensions.core.markdown import kind_of, linked, words
from extensions.core.problem import Problem
from extensions.core.reading_order import address_of, name_of, title_of
from extensions.core.topics import Topic

_EXPLICIT = re.compile(r"(?P<words>.+?)\s*<(?P<target>[^<>]+)>", re.DOTALL)
_SCHEME = re.compile(r"(?P<name>[a-z]+):")
_KNOWN_SCHEMES = {"http", "https", "mailto"}


NO_VERDICTS: Mapping[str, str] = MappingProxyType({})
NO_REPAIRS: Mapping[str, Repair] = MappingProxyType({})


@dataclass
class InlineRenderer:
    """The words of one page, and what no notebook can show of them."""

    topic: Topic
    base: str
    """The address of the site, or ""."""
    verdicts: Mapping[str, str] = field(default_factory=lambda: NO_VERDICTS)
    """What the tests say of each claim, by its name."""
    repairs: Mapping[str, Repair] = field(default_factory=lambda: NO_REPAIRS)
    """The answers of exercises, by the names of tests."""
    claim: str = ""
    """The name of the claim that the next block is as a whole."""
    problems: list[Problem] = field(default_factory=list)

    def report(self, line: int, what: str) -> list[Token]:
        """Keep a problem, and show nothing in the place of what has it."""
        message = f"a notebook cannot show {what}"
        self.problems.append(Problem(self.topic.page, line, message))
        return []

    def plain(self, tokens: list[Token], line: int) -> list[Token]:
        """Return the tokens of a paragraph at a line without MyST's own."""
        found: list[Token] = []
        keeps: list[bool] = []  # for each link that is open
        spans: list[str] = []  # the name of each that is open
        for number, token in enumerate(tokens):
            if token.type == "link_open":
                link = self._link(token, line)
                keeps.append(link is not None)
                found += [link] if link else []
                if tokens[number + 1].type == "link_close":
                    found += self._title(str(token.attrs["href"]), line)
            elif token.type == "link_close":
                found += [token] if keeps.pop() else []
            elif token.type == "myst_role":
                found += self._role(token, line)
            elif token.type == "image" and not _scheme(
                str(token.attrs["src"])
            ):
                found += self.report(line, "a picture of the page")
            elif token.type == "span_open":
                spans.append(str(token.attrs.get("id", "")))
            elif token.type == "span_close":
                found += self._sign(spans.pop())
            elif kind_of(token) in DEFAULT_RENDERERS:
                found.append(token)
            else:
                found += self.report(line, kind_of(token).replace("_", " "))
            line += token.type in {"softbreak", "hardbreak"}
        return found

    def sign_of_block(self) -> list[Token]:
        """Return the sign of a claim that is a whole block, as in a recipe."""
        name, self.claim = self.claim, ""
        return self._sign(name)

    def _sign(self, name: str) -> list[Token]:
        """Return what follows the words of a claim: a link to its proof."""
        sign = SIGNS.get(self.verdicts.get(name, ""))
        if sign is None:
            return []
        address = address_of(self.topic.name, self.base)
        link = linked([words(sign.mark)], address and f"{address}#{name}")
        if address:
            link[0].attrs["title"] = sign.tip
        return [words(" "), *link]

    def _link(self, token: Token, line: int) -> Token | None:
        """Return the opening of a link with its whole address, if known."""
        target = str(token.attrs["href"])
        known = _scheme(target)
        if known in _KNOWN_SCHEMES:
            return token
        if known:
            self.report(line, f"a link of {known}:")
            return None
        address = self._address(target)
        return token.copy(attrs={"href": address}) if address else None

    def _address(self, target: str) -> str:
        """Return the address of what a link of the page leads to."""
        if not self.base:
            return ""
        page, mark, place = target.partition("#")
        name = name_of(page.removesuffix(".md"), self.topic.name)
        if not page:
            name = self.topic.name
        elif title_of(self.topic.root, name) is None:
            return ""  # a label, which only Sphinx can find
        return f"{address_of(name, self.base)}{mark}{place}"

    def _title(self, target: str, line: int) -> list[Token]:
        """Return the words of a link that has none: the title of its page."""
        name = target.partition("#")[0].removesuffix(".md")
        name = name_of(name, self.topic.name)
        title = title_of(self.topic.root, name)
        if title is None:
            return self.report(line, f"the title of {target}: no such page")
        return self.plain(title, line)

    def _role(self, token: Token, line: int) -> list[Token]:
        """Return what a role says."""
        content = token.content.strip()
        explicit = _EXPLICIT.fullmatch(content)
        target = explicit["target"] if explicit else content
        said = [words(explicit["words"])] if explicit else []
        match ROLES.get(token.meta["name"]):
            case RoleExport.PAGE:
                said = said or self._title(target, line)
                return linked(said, self._address(target))
            case RoleExport.FILE:
                said = said or [words(Path(target).name)]
                # The address of the file holds a hash that Sphinx chooses.
                return linked(said, address_of(self.topic.name, self.base))
        return self.report(line, f"{{{token.meta['name']}}}: see {TABLE}")


def _scheme(target: str) -> str:
    """Return the scheme of an address, or ""."""
    found = _SCHEME.match(target)
    return found["name"] if found else ""
