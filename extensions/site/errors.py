"""End a build that meets a problem in one line, which names file and cause.

Sphinx shows an error of its own, too, with versions, extensions and a
traceback. A :class:`~extensions.core.files.Problem` needs none of them. What
a build can go on with is a warning.
"""

from __future__ import annotations

from functools import wraps
from inspect import isgeneratorfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util import logging

from extensions.core.files import Problem
from extensions.site.dependencies import builder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import NoReturn

    from sphinx.application import Sphinx
    from sphinx.config import Config

_logger = logging.getLogger(__name__)

_FAILED = 2  # how Sphinx itself exits when it cannot go on


def stop(problems: Iterable[Problem]) -> NoReturn:
    """Say each problem in a line of its own, and end the build."""
    for problem in problems:
        place = f"{problem.path}:{problem.line}"
        _logger.error(problem.message, location=place, type="proven")
    raise SystemExit(_FAILED)


def _stopping(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of an event, so that a problem in it ends all."""

    @wraps(handler)
    def handle(*args: Any) -> Any:
        try:
            return handler(*args)
        except Problem as problem:
            stop([problem])

    @wraps(handler)
    def generate(*args: Any) -> Iterator[Any]:
        try:
            yield from handler(*args)
        except Problem as problem:
            stop([problem])

    return generate if isgeneratorfunction(handler) else handle


def watch(app: Sphinx, config: Config) -> None:
    """Watch over our handlers, all of which are known by now."""
    for listeners in app.events.listeners.values():
        for place, each in enumerate(listeners):
            module = getattr(each.handler, "__module__", None)
            if str(module).startswith("extensions."):
                handler = _stopping(each.handler)
                listeners[place] = each._replace(handler=handler)


def only_html(app: Sphinx) -> None:
    """Refuse another builder before any program is run.

    Panels, tables and notebooks are HTML, or stand beside it.
    """
    if app.builder.name != "html":
        message = (
            f"the site cannot be built as {app.builder.name}:"
            " build html, with -b html or without -b"
        )
        stop([Problem(Path(app.confdir, "conf.py"), 1, message)])
    builder_of(app).search = False  # the site brings its own


def report(problem: Problem) -> None:
    """Warn of a broken rule, at its place."""
    place = f"{problem.path}:{problem.line}"
    _logger.warning(problem.message, location=place, type="proven")
