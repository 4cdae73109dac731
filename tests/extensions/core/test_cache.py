"""What was found in files, kept from build to build."""

import gc
from pathlib import Path

import pytest

from extensions.core import cache
from extensions.core.cache import keep, recall
from extensions.core.problem import Problem

PATH = Path("some.txt")
looked = []


@cache.remembered
def words_in(path, content):
    looked.append(content)
    if not content:
        raise Problem(path, 1, "empty")
    return content.split()


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """Nothing is kept yet, and nothing will be."""
    monkeypatch.setattr(cache, "kept", {})
    monkeypatch.setattr(cache, "asked", set())
    monkeypatch.setattr(cache, "recalled", set())
    looked.clear()


def forget():
    """Stand in for the end of a build, and of its process."""
    cache.kept.clear()
    looked.clear()


@pytest.mark.parametrize("content", ["a b", b"a b"], ids=["text", "bytes"])
def test_what_stands_in_a_file_is_looked_at_once(content):
    assert words_in(PATH, content) == content.split()
    assert words_in(PATH, content) == content.split()
    assert looked == [content]


def test_another_text_and_another_path_are_looked_at():
    words_in(PATH, "a b")
    words_in(PATH, "a c")
    words_in(Path("other.txt"), "a b")

    assert len(looked) == 3


def test_a_problem_is_raised_again(tmp_path):
    for _ in range(2):
        with pytest.raises(Problem, match=r"some\.txt:1: empty"):
            words_in(PATH, "")
    keep(tmp_path / "kept", "code")
    forget()
    recall(tmp_path / "kept", "code")
    with pytest.raises(Problem, match=r"some\.txt:1: empty"):
        words_in(PATH, "")
    assert looked == []


def test_the_next_build_looks_only_at_what_is_new(tmp_path):
    words_in(PATH, "a b")
    keep(tmp_path / "kept", "code")
    forget()
    recall(tmp_path / "kept", "code")

    assert words_in(PATH, "a b") == ["a", "b"]
    assert words_in(PATH, "new") == ["new"]
    assert looked == ["new"]


def test_what_a_build_did_not_ask_for_is_dropped(tmp_path):
    words_in(PATH, "a b")
    keep(tmp_path / "kept", "code")
    recall(tmp_path / "kept", "code")
    words_in(PATH, "new")
    keep(tmp_path / "kept", "code")
    forget()
    recall(tmp_path / "kept", "code")
    words_in(PATH, "a b")

    assert looked == ["a b"]


@pytest.mark.parametrize(
    "damage", [b"", b"\x80\x04K", None], ids=["empty", "cut", "none"]
)
def test_other_code_and_a_damaged_file_give_nothing(tmp_path, damage):
    path = tmp_path / "kept"
    words_in(PATH, "a b")
    keep(path, "code")
    if damage is not None:
        path.write_bytes(damage)
    forget()
    recall(path, "code" if damage is not None else "other code")
    words_in(PATH, "a b")

    assert looked == ["a b"]


def test_garbage_is_collected_again_afterwards(tmp_path):
    frozen = gc.get_freeze_count()
    keep(tmp_path / "kept", "code")
    recall(tmp_path / "kept", "code")

    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen
