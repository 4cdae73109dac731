"""Say why something is written again."""

from __future__ import annotations

from collections.abc import Mapping

from sphinx.util import logging

_logger = logging.getLogger(__name__)

_MOST = 4  # pages to name where many are written for one reason


def log_reasons(what: str, reasons: Mapping[str, list[str]]) -> None:
    """Log what happens to some pages, in one line for each reason."""
    because: dict[str, list[str]] = {}
    for name, why in sorted(reasons.items()):
        because.setdefault(", ".join(why), []).append(name)
    for reason, names in because.items():
        _logger.info("%s: %s (%s)", _several(names), what, reason)
        _logger.verbose("that is %s", ", ".join(names))


def _several(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= _MOST else f"{len(names)} pages"
