"""The names of torch that the site uses, and where its API describes each.

The list is a TOML file beside the pages. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.problem import Problem
from extensions.core.reading import text_of, toml_of

LIST = "docs/torch_names.toml"


@dataclass(frozen=True)
class TorchNames:
    """What the list holds."""

    base: str
    """How all addresses begin."""
    pages: Mapping[str, str]
    """By whole name: how the address of its place in the API goes on."""
    short: dict[str, str]
    """By word: the whole name that it stands for."""
    unlinked: tuple[str, ...]
    """Names that lead nowhere."""

    def address(self, name: str) -> str:
        """Return where the API describes a name."""
        return f"{self.base}{self.pages[name]}"

    def known(self, name: str) -> str | None:
        """Return the listed name that a chain of parts begins with.

        ``torch.float32.itemsize`` begins with ``torch.float32``; but of
        ``torch.cuda.nothing`` the list only knows the module.
        """
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            found = ".".join(parts[:end])
            if found in self.pages or found in self.unlinked:
                is_module = self.pages.get(found, "").endswith(
                    f"#module-{found}"
                )
                return None if is_module and end < len(parts) else found
        return None

    def member(self, name: str) -> str | None:
        """Return what ``owner.member`` stands for, whatever the owner is.

        Unless the list names the owner too, it must be the member of a class:
        ``rows.stack`` may be anything.
        """
        if name in self.short:
            return self.short[name]
        found = self.short.get(name.rpartition(".")[2], "")
        of_class = found.split(".")[-2:-1]
        return found if "".join(of_class)[:1].isupper() else None


_NO_NAMES = TorchNames("", {}, {}, ())


def read_names(root: Path) -> TorchNames:
    """Return the list; without the file, it is empty."""
    path = root / LIST
    return _names_in(path, text_of(path)) if path.exists() else _NO_NAMES


@cached_by_content
def _names_in(path: Path, text: str) -> TorchNames:
    """Return what the text of a list holds."""
    content = toml_of(path)
    base, pages = content.get("base"), content.get("pages")
    if not isinstance(base, str) or not isinstance(pages, dict):
        raise Problem(path, 1, "write base, an address, and a table [pages]")
    short = content.get("short", {})
    for word, name in short.items():
        if name not in pages:
            line = text.count("\n", 0, text.index(f'"{name}"')) + 1
            raise Problem(path, line, f"{word}: [pages] has no {name}")
    unlinked = tuple(content.get("unlinked", []))
    return TorchNames(base, pages, short, unlinked)
