"""The primary sources: their list, and to which an address belongs."""

import pytest

from extensions.core.files import Problem
from extensions.prose.lists import SOURCES, read_sources, source_of

LISTED = """
[[source]]
name = "PyTorch"
prefix = "https://example.org/docs/"
pages = ["notes/autograd.html", "tensors.html#torch.Tensor"]

[[source]]
name = "NumPy"
prefix = "https://example.org/numpy/"
pages = []
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / SOURCES
    path.parent.mkdir(parents=True)
    path.write_text(LISTED)
    return path


def test_an_address_belongs_to_the_source_that_it_begins_with(path, tmp_path):
    sources = read_sources(tmp_path)

    assert [each.line for each in sources] == [2, 7]
    assert source_of("https://example.org/numpy/a.html", sources).name == (
        "NumPy"
    )
    assert source_of("https://example.org/other/", sources) is None


def test_without_a_list_there_are_no_sources(tmp_path):
    assert read_sources(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("pages = []", "", 7, "has no pages, or not as list"),
        ('"NumPy"', "3", 7, "has no name, or not as str"),
        ("docs/", "docs", 2, "a prefix ends with a slash"),
        ("tensors.html", "tensors.html?new=1", 2, "no whole address"),
        ("https://example.org/docs", "http://example.org/docs", 2, "no whole"),
    ],
)
def test_a_broken_list_says_where(path, tmp_path, old, new, line, said):
    path.write_text(LISTED.replace(old, new))

    with pytest.raises(Problem, match=said) as caught:
        read_sources(tmp_path)
    assert caught.value.line == line
