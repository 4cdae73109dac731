"""What was found in files, kept from build to build."""

from pathlib import Path

import pytest

from extensions.core import cache
from extensions.core.cache import load, save
from extensions.core.files import Problem

PATH = Path("some.txt")
looked = []


@cache.cached_by_content
def words_in(path, content):
    looked.append(content)
    if not content:
        raise Problem(path, 1, "empty")
    return content.split()


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """Nothing is kept yet, and nothing will be."""
    monkeypatch.setattr(cache, "_entries", {})
    monkeypatch.setattr(cache, "_used", set())
    monkeypatch.setattr(cache, "_loaded", set())
    looked.clear()


def forget():
    """Stand in for the end of a build, and of its process."""
    cache._entries.clear()
    looked.clear()


def test_what_stands_in_a_file_is_looked_at_once():
    for path, content in ((PATH, "a b"), (PATH, b"a c"), (Path("b"), "a b")):
        for _ in range(2):
            assert words_in(path, content) == content.split()

    assert looked == ["a b", b"a c", "a b"]


def test_a_problem_is_raised_again(tmp_path):
    for _ in range(2):
        with pytest.raises(Problem, match=r"some\.txt:1: empty"):
            words_in(PATH, "")
    save(tmp_path, "code")
    forget()
    load(tmp_path, "code")
    with pytest.raises(Problem, match=r"some\.txt:1: empty"):
        words_in(PATH, "")
    assert looked == []


def test_the_next_build_looks_only_at_what_is_new_and_keeps_no_more(tmp_path):
    words_in(PATH, "a b")
    save(tmp_path, "code")
    forget()
    load(tmp_path, "code")

    assert words_in(PATH, "a b") == ["a", "b"]
    assert looked == []

    load(tmp_path, "code")
    assert words_in(PATH, "new") == ["new"]
    save(tmp_path, "code")
    forget()
    load(tmp_path, "code")
    words_in(PATH, "new")
    words_in(PATH, "a b")
    assert looked == ["a b"]


def test_a_damaged_file_gives_nothing(tmp_path):
    words_in(PATH, "a b")
    save(tmp_path, "code")
    [path] = tmp_path.iterdir()
    path.write_bytes(b"\x80\x04K")  # cut
    forget()

    load(tmp_path, "code")

    words_in(PATH, "a b")
    assert looked == ["a b"]


def test_what_other_code_has_saved_is_never_opened_and_then_removed(tmp_path):
    words_in(PATH, "a b")
    save(tmp_path, "other code")
    forget()
    load(tmp_path, "code")
    words_in(PATH, "a b")

    save(tmp_path, "code")

    assert looked == ["a b"]
    assert len([*tmp_path.iterdir()]) == 1
