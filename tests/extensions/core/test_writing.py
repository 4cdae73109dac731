"""Files that are written whole, or not at all."""

import errno
import os
from pathlib import Path

import pytest
from extensions.core.files import Problem, remove, write


@pytest.fixture
def full_disk(monkeypatch):
    """A disk that is full once some bytes are written."""

    def write_some(path, data):
        with path.open("wb") as file:
            file.write(data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", write_some)


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """A folder into which nothing can be put."""

    def refuse(path, *args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)


@pytest.mark.parametrize("content", ["wörds\n", b"w\xff"])
def test_a_file_is_written_with_its_folders(tmp_path, content):
    path = tmp_path / "folder" / "file"

    assert write(path, content)

    data = content.encode() if isinstance(content, str) else content
    assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]


def test_what_has_not_changed_is_left_alone(tmp_path):
    path = tmp_path / "file"
    write(path, "words")
    os.utime(path, (1, 1))

    assert not write(path, "words")

    assert path.stat().st_mtime == 1


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path, request):
    path = tmp_path / "file"
    path.write_text("old")
    request.getfixturevalue("full_disk")

    with pytest.raises(Problem) as caught:
        write(path, "new and long")

    message = "cannot be written: No space left on device"
    assert str(caught.value) == f"{path}:1: {message}"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_removed_if_it_is_there(tmp_path):
    path = tmp_path / "file"
    path.touch()

    remove(path)
    remove(path)

    assert not path.exists()


@pytest.mark.usefixtures("read_only")
def test_a_file_that_may_not_be_removed_is_a_problem(tmp_path):
    with pytest.raises(Problem, match="cannot be removed: Read-only file"):
        remove(tmp_path / "file")


@pytest.mark.usefixtures("read_only")
def test_a_folder_that_may_not_be_written_is_a_problem(tmp_path):
    path = tmp_path / "folder" / "file"

    with pytest.raises(Problem) as caught:
        write(path, "words")

    message = "cannot be written: Read-only file system"
    assert str(caught.value) == f"{path}:1: {message}"


def test_a_folder_in_the_place_of_the_file_is_a_problem(tmp_path):
    with pytest.raises(Problem, match="cannot be written: Is a directory"):
        write(tmp_path, "words")
