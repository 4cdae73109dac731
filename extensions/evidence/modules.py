"""Modules of tests: which there are, and what pytest loads for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from extensions.core.files import Problem, text_of
from extensions.core.topics import topic_of_tests, topics
from extensions.programs.snippet import Snippet

# What stands beside the topics: a test of all cells that need a device.
_CUDA_CELLS = "tests/test_cuda_cells.py"


def classname(root: Path, module: Path) -> str:
    """Return a module of tests as JUnit XML names it: a dotted path."""
    return ".".join(module.relative_to(root).with_suffix("").parts)


def evidence_modules(root: Path) -> list[Path]:
    """Return each module whose results the site shows."""
    modules = [*(topic.tests for topic in topics(root)), root / _CUDA_CELLS]
    return [module for module in modules if module.is_file()]


def conftests(root: Path, module: Path) -> Iterator[Path]:
    """Yield each conftest.py that pytest reads for a module, nearest first."""
    for folder in module.relative_to(root).parents:
        if (path := root / folder / "conftest.py").is_file():
            yield path


def programs(root: Path, module: Path) -> list[Path]:
    """Return the program behind a module, or all with cells for a device."""
    snippet = topic_of_tests(root, module).snippet
    return [snippet] if snippet.is_file() else [*_with_device(root)]


def _with_device(root: Path) -> Iterator[Path]:
    for topic in topics(root):
        try:
            cells = Snippet(topic.snippet, text_of(topic.snippet)).cells()
        except Problem:  # a rule reports it
            continue
        if any(cell.is_cuda for cell in cells.values()):
            yield topic.snippet
