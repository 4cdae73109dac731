"""Code without the marks that no style colours: half of a page of tests."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import IO, TYPE_CHECKING, Any

from pygments.formatters import HtmlFormatter
from pygments.token import Text
from sphinx.highlighting import PygmentsBridge

from extensions.build.dependencies import builder_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx


@cache
def _is_plain(kind: Any, styles: tuple[Any, ...]) -> bool:
    """Whether some kind of code looks like text in each style."""
    return all(
        style.style_for_token(kind) == style.style_for_token(Text)
        for style in styles
    )


class PlainCodeFormatter(HtmlFormatter[str]):  # type: ignore[misc]
    """Marks only what the light or the dark style colours."""

    def format(
        self, tokensource: Iterable[tuple[Any, str]], outfile: IO[str]
    ) -> None:
        """Write code as HTML."""
        styles = self.options["styles"]
        shown = (
            (Text if _is_plain(kind, styles) else kind, words)
            for kind, words in tokensource
        )
        super().format(shown, outfile)


def _use_formatter(app: Sphinx) -> None:
    """Use the formatter for all code of the site."""
    bridge = builder_of(app).highlighter
    styles = [bridge.formatter_args["style"]]
    if name := getattr(app.config, "pygments_dark_style", ""):  # of Furo
        styles.append(PygmentsBridge("html", name).formatter_args["style"])
    bridge.formatter = PlainCodeFormatter
    bridge.formatter_args["styles"] = tuple(styles)


def setup_plain_code(app: Sphinx) -> None:
    """Add the handler."""
    app.connect("builder-inited", _use_formatter)
