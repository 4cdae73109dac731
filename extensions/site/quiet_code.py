"""Code without the marks that no style colours: half of a page of tests."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pygments import format as write
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from pygments.token import Text
from sphinx.highlighting import PygmentsBridge

if TYPE_CHECKING:
    from sphinx.config import Config


@cache
def is_plain(kind: Any, styles: tuple[Any, ...]) -> bool:
    """Whether some kind of code looks like text in each style."""
    return all(
        style.style_for_token(kind) == style.style_for_token(Text)
        for style in styles
    )


def quiet_code(code: str, config: Config) -> str:
    """Return a program as HTML, marked where light or dark pages colour it.

    Each line has an address.
    """
    light: Any = config.pygments_style
    dark = getattr(config, "pygments_dark_style", light)  # of Furo
    styles = tuple(
        PygmentsBridge("html", name).formatter_args["style"]
        for name in (light, dark)
    )
    shown = (
        (Text if is_plain(kind, styles) else kind, words)
        for kind, words in PythonLexer(stripnl=False).get_tokens(code)
    )
    return str(write(shown, HtmlFormatter(linespans="line")))
