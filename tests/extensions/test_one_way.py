"""Files are read in one way, and written in one way."""

import ast

import pytest

from extensions.core.reading import python_of
from extensions.core.topics import ROOT

# What opens a file by itself, and what stands before the dot there.
METHODS = {"open", "read_bytes", "read_text", "write_bytes", "write_text"}
FUNCTIONS = {
    "ElementTree.parse",
    "json.dump",
    "json.load",
    "open",
    "tomllib.load",
    "tomllib.loads",
}
ALLOWED = {"core/reading.py", "core/writing.py"}
MODULES = sorted((ROOT / "extensions").rglob("*.py"))


def name_of(path):
    return path.relative_to(ROOT / "extensions").as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_opens_no_file_by_itself(path):
    calls = [
        node.func
        for node in ast.walk(python_of(path))
        if isinstance(node, ast.Call)
    ]

    opened = [
        f"{path}:{call.lineno}: {ast.unparse(call)}"
        for call in calls
        if ast.unparse(call) in FUNCTIONS
        or (isinstance(call, ast.Attribute) and call.attr in METHODS)
    ]
    assert not opened or name_of(path) in ALLOWED
