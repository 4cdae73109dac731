"""Files, whatever has become of them."""

import errno
import os
from pathlib import Path

import pytest

from extensions.core import files
from extensions.core.files import Problem, in_one_line, remove, write


@pytest.fixture
def path(tmp_path):
    """A file in a folder of its own."""
    return tmp_path / "file"


def said(path, call, *inputs):
    """Return what is said of a path, without the path."""
    with pytest.raises(Problem) as caught:
        call(path, *inputs)
    return str(caught.value).removeprefix(f"{path}:")


def refuse(*_, **__):
    raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def a_list(path):
    return files.tables_of(path, "a")


@pytest.mark.parametrize(
    "read",
    [
        files.bytes_of,
        files.text_of,
        files.toml_of,
        files.json_of,
        files.xml_of,
        files.python_of,
    ],
)
def test_what_cannot_be_read_is_named(read, path, monkeypatch):
    assert said(path, read) == "1: cannot be read: No such file or directory"
    path.mkdir()
    assert said(path, read) == "1: cannot be read: Is a directory"
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert said(path, read) == "1: cannot be read: Permission denied"


NO_ENCODING = b'<?xml version="1.0" encoding="no-such"?><a />'


@pytest.mark.parametrize(
    ("read", "content", "expected"),
    [
        (files.text_of, b"a\nb\xff", "2: not UTF-8 (byte 0xff): save it so"),
        (files.toml_of, b"a = 1\nb = [", "2: not TOML: Invalid value"),
        (files.toml_of, b"a = 1\na = 2", "2: not TOML: Cannot overwrite"),
        (files.json_of, b"{\n", "2: not whole JSON: Expecting property"),
        (files.json_of, b"", "1: not whole JSON: Expecting value"),
        (files.xml_of, b"<a>\n", "2: not whole XML: no element found"),
        (files.xml_of, b"<a>\n</b>", "2: not whole XML: mismatched tag"),
        (files.xml_of, NO_ENCODING, "1: not XML: unknown encoding: no-such"),
        (files.python_of, b"a\nb = (", "2: '(' was never closed"),
        (files.python_of, b"a\n\0", "1: source code string cannot"),
        (a_list, b"", "1: no list of tables: [[a]]"),
        (a_list, b"[a]\nb = 1", "1: no list of tables: [[a]]"),
        (a_list, b"a = [1]", "1: write each table below a line [[a]]"),
    ],
)
def test_what_is_wrong_is_named_at_its_line(path, read, content, expected):
    path.write_bytes(content)

    assert said(path, read).startswith(expected)


def test_text_loses_its_byte_order_mark_and_its_carriage_returns(path):
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\n")

    assert files.text_of(path) == "a\nb\n"


def test_each_table_of_a_list_knows_its_line(path):
    path.write_text("# words\n\n[[a]]\nb = 1\n\n  [[ a ]]\n[a.c]\n")

    assert files.tables_of(path, "a") == [(3, {"b": 1}), (6, {"c": {}})]


@pytest.mark.parametrize("content", ["wörds\n", b"w\xff"])
def test_a_file_is_written_with_its_folders_and_only_once(tmp_path, content):
    path = tmp_path / "folder" / "file"
    assert write(path, content)
    os.utime(path, (1, 1))

    assert not write(path, content)

    assert path.stat().st_mtime == 1
    data = content.encode() if isinstance(content, str) else content
    assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_and_no_other(path, monkeypatch):
    def write_some(path, data):
        with path.open("wb") as file:
            file.write(data[:3])
        refuse()

    path.write_text("old")
    monkeypatch.setattr(Path, "write_bytes", write_some)

    message = "1: cannot be written: Permission denied"
    assert said(path, write, "new and long") == message
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_or_removed_is_named(path, monkeypatch):
    remove(path)  # it is not there
    path.mkdir()

    assert said(path, write, "") == "1: cannot be written: Is a directory"
    assert said(path, remove) == "1: cannot be removed: Is a directory"
    monkeypatch.setattr(Path, "mkdir", refuse)
    message = "1: cannot be written: Permission denied"
    assert said(path / "folder/file", write, "") == message


def test_a_problem_is_the_last_that_a_command_says(capsys):
    def main():
        raise Problem(Path("some/file"), 7, "cannot be read")

    with pytest.raises(SystemExit) as ended:
        in_one_line(main)

    assert ended.value.code == 2  # 1 is a result: something is false
    assert capsys.readouterr().err == "some/file:7: cannot be read\n"
