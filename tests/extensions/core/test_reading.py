"""Files that are read, whatever has become of them."""

import errno
from pathlib import Path

import pytest
from extensions.core.files import Problem

from extensions.core import reading

READERS = [
    reading.bytes_of,
    reading.text_of,
    reading.toml_of,
    reading.json_of,
    reading.xml_of,
    reading.python_of,
]


@pytest.fixture
def problem(tmp_path):
    """Put some content into a file, and return what a reader says of it."""

    def problem(read, content):
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(Problem) as caught:
            read(path)
        return str(caught.value).removeprefix(f"{path}:")

    return problem


@pytest.mark.parametrize("read", READERS)
def test_a_file_that_is_lost_is_a_problem(read, tmp_path):
    path = tmp_path / "lost"

    with pytest.raises(Problem) as caught:
        read(path)

    message = "cannot be read: No such file or directory"
    assert str(caught.value) == f"{path}:1: {message}"


@pytest.mark.parametrize("read", READERS)
def test_a_folder_is_a_problem(read, tmp_path):
    with pytest.raises(Problem, match="cannot be read: Is a directory"):
        read(tmp_path)


def test_a_file_that_may_not_be_read_is_a_problem(problem, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)

    said = problem(reading.text_of, b"")
    assert said == "1: cannot be read: Permission denied"


@pytest.mark.parametrize(
    ("read", "content", "expected"),
    [
        (reading.text_of, b"a\nb\xff", "2: not UTF-8 (byte 0xff): save it so"),
        (
            reading.text_of,
            b"a\r\n\xe9",
            "2: not UTF-8 (byte 0xe9): save it so",
        ),
        (reading.toml_of, b"a = 1\nb = [", "2: not TOML: Invalid value"),
        (reading.toml_of, b"a = 1\n[[b", "2: not TOML: Expected ']]' at the"),
        (reading.toml_of, b"a = 1\na = 2", "2: not TOML: Cannot overwrite"),
        (reading.json_of, b"{\n", "2: not whole JSON: Expecting property"),
        (reading.json_of, b"", "1: not whole JSON: Expecting value"),
        (reading.xml_of, b"<a>\n", "2: not whole XML: no element found"),
        (reading.xml_of, b"<a>\n</b>", "2: not whole XML: mismatched tag"),
        (
            reading.xml_of,
            b'<?xml version="1.0" encoding="lost"?><a/>',
            "1: not readable XML: unknown encoding",
        ),
        (reading.python_of, b"a\nb = (", "2: '(' was never closed"),
        (reading.python_of, b"a\n\0", "2: not Python: a null byte"),
    ],
)
def test_what_is_wrong_is_named_at_its_line(problem, read, content, expected):
    assert problem(read, content).startswith(expected)


def test_text_loses_its_byte_order_mark_and_its_carriage_returns(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\n")

    assert reading.text_of(path) == "a\nb\n"


def test_each_table_of_a_list_knows_its_line(tmp_path):
    path = tmp_path / "file"
    path.write_text("# words\n\n[[a]]\nb = 1\n\n  [[ a ]]\n[a.c]\n")

    found = reading.tables_of(path, "a")

    assert found == [(3, {"b": 1}), (6, {"c": {}})]


def test_tables_that_are_written_in_one_line_stand_at_the_first(tmp_path):
    path = tmp_path / "file"
    path.write_text("\na = [{b = 1}]\n")

    assert reading.tables_of(path, "a") == [(1, {"b": 1})]


@pytest.mark.parametrize("content", [b"", b"a = 1", b"[a]\nb = 1"])
def test_a_file_without_the_list_is_a_problem(problem, content):
    def read(path):
        return reading.tables_of(path, "a")

    assert problem(read, content) == "1: no list of tables: [[a]]"
