"""The inventory of torch's API: which names it describes, and where.

Any site that Sphinx builds offers its own as ``objects.inv``. ``python -m
extensions.prose.sphinx_inventory`` fetches that of the version in
``docs/torch_names.toml``, keeps what it says of Python, and takes the names
that it has out of the list. A build asks nothing of a network: it reads the
file, and where there is none, the list alone.
"""

from __future__ import annotations

import re
import zlib
from collections import ChainMap
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

from sphinx.util.inventory import InventoryFile

from extensions.core.cache import cached_by_content
from extensions.core.command_line import in_one_line
from extensions.core.problem import Problem
from extensions.core.reading import bytes_of, text_of
from extensions.core.topics import ROOT
from extensions.core.writing import write
from extensions.prose.torch_names import LIST, TorchNames, read_names

INVENTORY = "docs/torch.inv"
_HEAD_LINES = 4  # before what is compressed
_ENTRY = re.compile(r'"(torch[\w.]*)" = ".*"\n')


def read_all_names(root: Path) -> TorchNames:
    """Return the names of the list and, behind them, of the inventory."""
    names = read_names(root)
    pages = ChainMap(dict(names.pages), read_inventory(root))
    for word, name in names.short.items():
        if name not in pages:
            message = f"{word}: neither [pages] nor the inventory has {name}"
            raise Problem(root / LIST, names.lines.get(name, 1), message)
    return replace(names, pages=pages)


def read_inventory(root: Path) -> dict[str, str]:
    """Return how the address of each name goes on behind the base."""
    path = root / INVENTORY
    return _addresses_in(path, bytes_of(path)) if path.exists() else {}


@cached_by_content
def _addresses_in(path: Path, content: bytes) -> dict[str, str]:
    """Return the addresses in the content of an inventory."""
    try:
        found = InventoryFile.loads(content, uri="").data
    except (ValueError, zlib.error) as error:
        raise Problem(path, 1, f"no inventory: {error}") from error
    return {
        name: item.uri
        for kind in sorted(found)
        if kind.startswith("py:")
        for name, item in found[kind].items()
        if name != "torch"  # which each page names, and explains itself
    }


def of_python(content: bytes) -> bytes:
    """Return an inventory with what it says of Python alone."""
    *head, packed = content.split(b"\n", _HEAD_LINES)
    lines = zlib.decompress(packed).splitlines(keepends=True)
    kept = b"".join(line for line in lines if b" py:" in line)
    return b"\n".join([*head, zlib.compress(kept, 9)])


def renew(root: Path, content: bytes) -> None:
    """Keep an inventory, and take out of the list what it has."""
    write(root / INVENTORY, of_python(content))
    has = read_inventory(root)

    def kept(entry: re.Match[str]) -> str:
        return "" if entry[1] in has else entry[0]

    write(root / LIST, _ENTRY.sub(kept, text_of(root / LIST)))


def main() -> None:
    """Fetch the inventory that lies at the base of the list."""
    address = f"{read_names(ROOT).base}objects.inv"
    try:
        with urlopen(address, timeout=30) as answer:
            content = answer.read()
    except OSError as error:
        message = f"{address} cannot be fetched: {error}"
        raise Problem(ROOT / LIST, 1, message) from error
    renew(ROOT, content)


if __name__ == "__main__":
    in_one_line(main)
