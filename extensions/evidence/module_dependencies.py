"""The basis of a result: everything that it rests on, as one hash.

That is the module of the test, the programs behind it, what both conftest.py
and module import of the house, and the versions of Python, torch and NumPy.
A result whose basis is another by now has to be made again. Imports neither
Sphinx nor torch, and runs nothing: imports are read, not followed.
"""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from extensions.core.problem import Problem
from extensions.core.reading import bytes_of, python_of, text_of
from extensions.core.topics import topic_of_tests, topics
from extensions.programs.snippet import Snippet

# What stands beside the topics: a test of all cells that need a device.
CUDA_CELLS = "tests/test_cuda_cells.py"
OURS = {"extensions", "tests"}
PACKAGES = ("torch", "numpy")


def classname(root: Path, module: Path) -> str:
    """Return a module of tests as JUnit XML names it: a dotted path."""
    return ".".join(module.relative_to(root).with_suffix("").parts)


def evidence_modules(root: Path) -> list[Path]:
    """Return each module whose results the site shows."""
    modules = [*(topic.tests for topic in topics(root)), root / CUDA_CELLS]
    return [module for module in modules if module.is_file()]


def bases(root: Path, modules: Iterable[Path]) -> dict[str, str]:
    """Return the basis of what each module says now, by its dotted path."""

    @cache  # of this call alone: most modules import the same
    def imports(path: Path) -> tuple[Path, ...]:
        return tuple(imported(root, path))

    @cache
    def with_device() -> tuple[Path, ...]:
        return tuple(programs_with_device(root))

    found, libraries = {}, versions()
    for module in modules:
        snippet = topic_of_tests(root, module).snippet
        programs = (snippet,) if snippet.is_file() else with_device()
        files = {*programs}
        todo = [module, *conftests(root, module)]
        while todo:
            if (path := todo.pop()) not in files:
                files.add(path)
                todo += imports(path)
        found[classname(root, module)] = digest(root, files, libraries)
    return found


def digest(root: Path, files: set[Path], libraries: str) -> str:
    """Return the hash over some files and over the versions of libraries."""
    whole = hashlib.sha256(libraries.encode())
    for path in sorted(files):
        content = hashlib.sha256(bytes_of(path)).hexdigest()
        whole.update(f"{path.relative_to(root)} {content}\n".encode())
    return whole.hexdigest()


def versions() -> str:
    """Return the versions that a result depends on, without an import."""
    found = [f"python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def conftests(root: Path, module: Path) -> Iterator[Path]:
    """Yield each conftest.py that pytest reads for a module."""
    for folder in module.parents:
        if folder == root:
            return
        if (path := folder / "conftest.py").is_file():
            yield path


def programs_with_device(root: Path) -> Iterator[Path]:
    """Yield the programs that have cells for a CUDA device."""
    for topic in topics(root):
        try:
            cells = Snippet(topic.snippet, text_of(topic.snippet)).cells()
        except Problem:  # a rule reports it
            continue
        if any(cell.is_cuda for cell in cells.values()):
            yield topic.snippet


def imported(root: Path, path: Path) -> Iterator[Path]:
    """Yield the files of the house that a file imports, wherever it does."""
    try:
        tree = python_of(path)
    except Problem:  # a rule reports it, or pytest
        return
    folder = path.relative_to(root).parts[:-1]
    for node in statements(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            level = len(folder) + 1 - node.level if node.level else 0
            start = [*folder[:level], *(node.module or "").split(".")]
            names = [[*start, alias.name] for alias in node.names]
        for parts in names:
            if parts[0] in OURS:
                yield from files_of(root, [each for each in parts if each])


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield each statement below a node; no expression holds an import."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, name, ()):
            yield each
            yield from statements(each)


def files_of(root: Path, parts: list[str]) -> Iterator[Path]:
    """Yield the files that stand behind a dotted name, packages included."""
    for end in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:end])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                yield path
