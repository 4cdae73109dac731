"""What a program needs to be installed."""

from __future__ import annotations

import ast
import sys

# Where the name to install is not the name to import.
_DISTRIBUTIONS = {"PIL": "pillow"}


def libraries(text: str) -> list[str]:
    """Return the libraries that a program imports, torch first."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    foreign = names - sys.stdlib_module_names
    found = {_DISTRIBUTIONS.get(name, name) for name in foreign}
    return sorted(found, key=lambda name: (name != "torch", name))
