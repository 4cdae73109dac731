"""End a build that meets a problem in one line, which names file and cause.

Sphinx shows an error of its own, too, with versions, extensions and a
traceback. A :class:`~extensions.core.files.Problem` needs none of them. What
a build can go on with is a warning.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import isgenerator
from typing import Any, NoReturn

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging

from extensions.core.files import Problem

_logger = logging.getLogger(__name__)

_FAILED = 2  # how Sphinx itself exits when it cannot go on


def report(problem: Problem) -> None:
    """Warn of a broken rule, at its place."""
    place = f"{problem.path}:{problem.line}"
    _logger.warning(problem.message, location=place, type="proven")


def stop(problems: Iterable[Problem]) -> NoReturn:
    """Say each problem in a line of its own, and end the build."""
    for problem in problems:
        place = f"{problem.path}:{problem.line}"
        _logger.error(problem.message, location=place, type="proven")
    raise SystemExit(_FAILED)


def watch(app: Sphinx, config: Config) -> None:
    """Watch over our handlers, all of which are known by now."""
    for listeners in app.events.listeners.values():
        for place, each in enumerate(listeners):
            module = getattr(each.handler, "__module__", None)
            if str(module).startswith("extensions."):
                handler = _stopping(each.handler)
                listeners[place] = each._replace(handler=handler)


def _stopping(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of an event, so that a problem in it ends all."""

    @wraps(handler)
    def handle(*args: Any) -> Any:
        try:
            given = handler(*args)
            # Generated pages: a problem in one is raised when it is made.
            return [*given] if isgenerator(given) else given
        except Problem as problem:
            stop([problem])

    return handle
