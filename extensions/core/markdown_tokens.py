"""Tokens that no page holds: what an export puts in the place of others."""

from __future__ import annotations

from markdown_it.token import Token


def words(text: str) -> Token:
    """Return plain words."""
    return Token("text", "", 0, content=text)


def linked(said: list[Token], address: str) -> list[Token]:
    """Return words as a link, if there is an address."""
    if not address or not said:
        return said
    opening = Token("link_open", "a", 1, attrs={"href": address})
    return [opening, *said, Token("link_close", "a", -1)]


def bold(said: list[Token]) -> list[Token]:
    """Return words in bold."""
    opening = Token("strong_open", "strong", 1, markup="**")
    return [opening, *said, Token("strong_close", "strong", -1, markup="**")]


def paragraph(said: list[Token]) -> list[Token]:
    """Return words as a paragraph of its own."""
    return [
        Token("paragraph_open", "p", 1),
        Token("inline", "", 0, children=said),
        Token("paragraph_close", "p", -1),
    ]
