"""Where names lead in the code of a project, from one file to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from extensions.core.files import Problem, text_of
from extensions.core.topics import OURS
from extensions.evidence.definitions import Module, definitions
from extensions.evidence.imports import Import
from extensions.evidence.modules import conftests
from extensions.evidence.parts import Part


class Code:
    """The modules of a project, each read once."""

    def __init__(self, root: Path) -> None:
        """Read nothing yet."""
        self.root = root
        self._modules: dict[Path, Module] = {}
        self._meanings: dict[tuple[Path, str], frozenset[Part]] = {}
        self._files: dict[tuple[str, ...], Path | None] = {}

    def module(self, path: Path) -> Module:
        """Return what a file defines."""
        if path not in self._modules:
            self._modules[path] = definitions(path, text_of(path))
        return self._modules[path]

    def file(self, module: tuple[str, ...]) -> Path | None:
        """Return the file of a module, or of a package."""
        if module not in self._files:
            place = self.root.joinpath(*module)
            places = (place.with_suffix(".py"), place / "__init__.py")
            found = [each for each in places if each.is_file()]
            self._files[module] = found[0] if module and found else None
        return self._files[module]

    def named(self, path: Path, each: Import) -> tuple[str, ...]:
        """Return the dotted name of the module that a file imports from."""
        if not each.level:
            return each.module
        folders = path.relative_to(self.root).parts[: -each.level]
        return (*folders, *each.module)

    def imported(self, path: Path, found: Iterable[Import]) -> Iterator[Path]:
        """Yield the files that some imports of a file run."""
        for each in found:
            module = *self.named(path, each), each.name
            for end in range(1, len(module) + 1):
                if file := self.file(module[:end]):
                    yield file

    def all_imported(
        self, paths: Iterable[Path], lazily: bool = True
    ) -> set[Path]:
        """Return some files with all that they import, perhaps in functions.

        A file that cannot be read imports nothing: a rule reports it.
        """
        found: set[Path] = set()
        todo = [*paths]
        while todo:
            if (path := todo.pop()) in found:
                continue
            found.add(path)
            try:
                module = self.module(path)
            except Problem:
                continue
            now = [each for some in module.imports.values() for each in some]
            imports = module.everywhere if lazily else now
            todo += [*self.imported(path, imports), *self.plugins(path)]
        return found

    def plugins(self, path: Path) -> Iterator[Path]:
        """Yield the plugins of pytest that a file asks for."""
        for part in self.module(path).parts.get("pytest_plugins", ()):
            for word in sorted(part.words):
                module = tuple(word.split("."))
                if module[0] in OURS and (file := self.file(module)):
                    yield file

    def scopes(self, module: Path) -> list[Path]:
        """Return where pytest looks for fixtures of a module of tests."""
        found = [module, *conftests(self.root, module)]
        for path in found:  # and in what is added meanwhile
            found += [each for each in self.plugins(path) if each not in found]
        return found

    def lookup(self, path: Path, name: str) -> frozenset[Part]:
        """Return what a name means in a file."""
        if (path, name) not in self._meanings:
            found = self._lookup(path, name, set())
            self._meanings[path, name] = frozenset(found)
        return self._meanings[path, name]

    def _lookup(
        self, path: Path, name: str, known: set[tuple[Path, str]]
    ) -> set[Part]:
        if (path, name) in known:
            return set()
        known.add((path, name))
        module = self.module(path)
        found = {*module.parts.get(name, ())}
        for each in module.imports.get(name, ()):
            found |= self.behind(path, each, known)
        if not found and name != "*":
            for each in module.imports.get("*", ()):
                if file := self.file(self.named(path, each)):
                    found |= self._lookup(file, name, known)
        return found

    def behind(
        self,
        path: Path,
        each: Import,
        known: set[tuple[Path, str]] | None = None,
    ) -> set[Part]:
        """Return what an import of a file leads to, be it a whole module."""
        module = self.named(path, each)
        file = self.file(module)
        if each.name and file:
            known = set() if known is None else known
            if found := self._lookup(file, each.name, known):
                return found
        if each.name:
            file = self.file((*module, each.name))
        return self._whole(file) if file else set()

    def _whole(self, path: Path) -> set[Part]:
        parts = self.module(path).parts.values()
        return {part for some in parts for part in some}
