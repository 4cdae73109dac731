"""Report what is wrong, at its file and line, as a warning of the build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sphinx.util import logging

if TYPE_CHECKING:
    from extensions.core.problem import Problem

_logger = logging.getLogger(__name__)


def report(problem: Problem) -> None:
    """Warn of a broken rule, at its place."""
    place = f"{problem.path}:{problem.line}"
    _logger.warning(problem.message, location=place, type="proven")
