"""What a program needs to be installed."""

from __future__ import annotations

import ast
import sys

# Where the name to install is not the name to import.
_DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn"}


def distribution_of(name: str) -> str:
    """Return what to install for the name of an import."""
    return _DISTRIBUTIONS.get(name, name)


def libraries(text: str) -> list[str]:
    """Return the libraries that a program imports, torch first."""
    found = {distribution_of(name) for name in imported(text)}
    return sorted(found, key=lambda name: (name != "torch", name))


def imported(text: str) -> set[str]:
    """Return the names by which a program imports libraries."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names
