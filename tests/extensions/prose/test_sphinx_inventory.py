"""The inventory of torch's API stands beside the list of names."""

import zlib

import pytest

from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.prose.sphinx_inventory import (
    INVENTORY,
    read_all_names,
    read_inventory,
    renew,
)

LIST = """base = "https://example.org/"

[pages]
"torch.float32" = "types.html#float"
"torch.stack" = "old.html"

[short]
stack = "torch.stack"
item = "torch.Tensor.item"
"""
HEAD = b"""# Sphinx inventory version 2
# Project: PyTorch
# Version: 2.13
# The remainder of this file is compressed using zlib.
"""
ENTRIES = b"""torch.stack py:function 1 generated/$.html#$ -
torch.Tensor.item py:method 1 tensors.html#$ -
torch py:module 0 torch.html#module-$ -
torch.nn py:module 0 nn.html#module-$ -
a-label std:label -1 notes.html#$ Of pyramids
"""


@pytest.fixture
def root(tmp_path):
    """A folder with a list and an inventory that is as it was fetched."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/torch_names.toml").write_text(LIST)
    renew(tmp_path, HEAD + zlib.compress(ENTRIES))
    return tmp_path


def test_names_come_from_the_inventory_and_from_the_list(root):
    names = read_all_names(root)

    assert (
        names.address("torch.float32")
        == "https://example.org/types.html#float"
    )
    assert names.address("torch.Tensor.item") == (
        "https://example.org/tensors.html#torch.Tensor.item"
    )
    assert names.member("loss.item") == "torch.Tensor.item"
    assert names.known("torch.nn.nothing") is None


def test_what_it_says_of_python_is_kept_and_leaves_the_list(root):
    assert sorted(read_inventory(root)) == [
        "torch.Tensor.item",
        "torch.nn",
        "torch.stack",
    ]
    left = LIST.replace('"torch.stack" = "old.html"\n', "")
    assert text_of(root / "docs/torch_names.toml") == left


def test_without_an_inventory_the_list_counts(root):
    (root / INVENTORY).unlink()
    (root / "docs/torch_names.toml").write_text(LIST.partition("item =")[0])

    assert read_inventory(root) == {}
    assert read_all_names(root).address("torch.stack").endswith("old.html")


def test_a_short_name_of_nothing_says_where(root):
    listed = root / "docs/torch_names.toml"
    listed.write_text(LIST.replace("Tensor.item", "Tensor.items"))

    with pytest.raises(Problem, match="nor the inventory has") as caught:
        read_all_names(root)
    assert caught.value.line == 9


@pytest.mark.parametrize("content", [b"<html>", HEAD + b"torn"])
def test_what_is_no_inventory_says_so(root, content):
    (root / INVENTORY).write_bytes(content)

    with pytest.raises(Problem, match="no inventory"):
        read_inventory(root)
