"""Read and write files, or say in one line what is wrong, and where.

Every file of the project is read and written through these. Each raises a
:class:`Problem`, whatever the file has become: gone, a folder, not readable,
not UTF-8, or not in the format that it should have.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import sys
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat


class Problem(Exception):
    """What is wrong, and where: yielded by rules, raised by readers."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        """Keep the place, with its line counted from 1, and what is wrong."""
        super().__init__(path, line, message)
        self.path = path
        self.line = line
        self.message = message

    def __str__(self) -> str:
        """Return the problem as one line that editors can follow."""
        return f"{self.path}:{self.line}: {self.message}"


def in_one_line(main: Callable[[], None]) -> None:
    """Run a command; a problem is what it prints last."""
    try:
        main()
    except Problem as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)  # as for wrong arguments: 1 is what a command finds out


def bytes_of(path: Path) -> bytes:
    """Return what stands in a file, unpacked if its name ends in ``.gz``."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        cause = getattr(error, "strerror", None) or error
        raise Problem(path, 1, f"cannot be read: {cause}") from error


def text_of(path: Path) -> str:
    """Return the text of a file that is UTF-8; its lines end in a newline."""
    content = bytes_of(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"not UTF-8 (byte 0x{content[error.start]:02x}): save it so"
        raise Problem(path, line, message) from error
    return text.replace("\r\n", "\n")


def toml_of(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds."""
    text = text_of(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # Python 3.11 tells the line in the message alone.
        cause, _, place = str(error).partition(" (at line ")
        line = place.partition(",")[0]
        number = int(line) if line.isdigit() else text.count("\n") + 1
        raise Problem(path, number, f"not TOML: {cause}") from error


def tables_of(path: Path, name: str) -> list[tuple[int, dict[str, Any]]]:
    """Return each table ``[[name]]`` of a TOML file, with its line."""
    tables = toml_of(path).get(name)
    if not isinstance(tables, list):
        raise Problem(path, 1, f"no list of tables: [[{name}]]")
    opening = re.compile(rf"^[ \t]*\[\[\s*{name}\s*\]\]", re.MULTILINE)
    text = text_of(path)
    starts = [each.start() for each in opening.finditer(text)]
    lines = [text.count("\n", 0, start) + 1 for start in starts]
    if len(lines) != len(tables):
        raise Problem(path, 1, f"write each table below a line [[{name}]]")
    return list(zip(lines, tables, strict=True))


def json_of(path: Path) -> Any:
    """Return what a JSON file holds."""
    text = text_of(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        message = f"not whole JSON: {error.msg}"
        raise Problem(path, error.lineno, message) from error


def xml_of(path: Path) -> ElementTree.Element:
    """Return the root of an XML file."""
    return xml_in(path, bytes_of(path))


def xml_in(path: Path, content: bytes) -> ElementTree.Element:
    """Return the root of some XML that stands in a file."""
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        line, cause = error.position[0], expat.ErrorString(error.code)
        raise Problem(path, line, f"not whole XML: {cause}") from error
    except LookupError as error:  # of an encoding that nobody knows
        raise Problem(path, 1, f"not XML: {error}") from error


def python_of(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return python_in(path, text_of(path))


def python_in(path: Path, text: str) -> ast.Module:
    """Return the syntax tree of some Python that stands in a file."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:  # the second at a null byte
        line = getattr(error, "lineno", None) or 1
        said = getattr(error, "msg", error)
        raise Problem(path, line, f"{said}") from error


def write(path: Path, content: str | bytes) -> bool:
    """Put the content at a path; return whether it was not there before.

    The content first goes into a file beside the path, so that whoever reads
    the path finds the old or the new one, never a part, and a disk that is
    full loses nothing. A file that says the same is left alone.
    """
    data = content.encode() if isinstance(content, str) else content
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.is_file() and path.read_bytes() == data:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(data)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}"
        raise Problem(path, 1, message) from error
    return True


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        message = f"cannot be removed: {error.strerror or error}"
        raise Problem(path, 1, message) from error
