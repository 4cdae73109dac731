"""Say of each problem, in one line, its file and its cause.

A build that cannot go on ends with them; else, each is a warning.
"""

from collections.abc import Iterable
from typing import NoReturn

from sphinx.util import logging

from extensions.core.files import Problem

_logger = logging.getLogger(__name__)


def report(problem: Problem) -> None:
    """Warn of a broken rule, at its place."""
    place = f"{problem.path}:{problem.line}"
    _logger.warning(problem.message, location=place, type="proven")


def stop(problems: Iterable[Problem]) -> NoReturn:
    """Say each problem in a line of its own, and end the build."""
    for problem in problems:
        place = f"{problem.path}:{problem.line}"
        _logger.error(problem.message, location=place, type="proven")
    raise SystemExit(2)  # as Sphinx itself, when it cannot go on
