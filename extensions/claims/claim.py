"""Claims: words of a page that a test keeps true."""

from __future__ import annotations

from dataclasses import dataclass, field

from markdown_it.token import Token

from extensions.core.markdown import has_class


@dataclass(frozen=True)
class Claim:
    """Words that a test keeps true."""

    name: str
    text: str
    """The words as Markdown."""
    line: int = field(repr=False)  # no page shows it

    @property
    def sentence(self) -> str:
        """The words as they begin a sentence; no code gets a capital."""
        return self.text[:1].upper() + self.text[1:]


def claims_in(inline: Token, line: int) -> list[Claim]:
    """Return the claims of a paragraph that begins at a line."""
    claims: list[Claim] = []
    words: list[str] = []
    open_at: tuple[str, int] | None = None
    for token in inline.children or []:
        if token.type == "span_open" and has_class(token, "claim"):
            open_at = str(token.attrs.get("id", "")), line
            words = []
        elif token.type == "span_close" and open_at:
            claims.append(Claim(open_at[0], "".join(words), open_at[1]))
            open_at = None
        elif token.type in {"softbreak", "hardbreak"}:
            words.append(" ")
            line += 1
        elif token.type == "code_inline":
            words.append(f"`{token.content}`")
        else:
            words.append(token.content)
    return claims
