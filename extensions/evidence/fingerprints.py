"""What the results of this build were made from, module by module.

These fingerprints stand beside the results, and decide what has to be tested
again. They leave nothing out: each file that a module of tests, its helpers
and its program consist of, the libraries that these import, and what pytest
runs in. What a *recorded* result depends on is finer, and in
``dependencies``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from extensions.core.files import Problem, bytes_of
from extensions.core.fingerprint import Fingerprint
from extensions.evidence.modules import classname, conftests, programs
from extensions.evidence.surroundings import portable, surroundings
from extensions.evidence.walk import Code

FINGERPRINT = "fingerprint"  # the property of a result that has its digest


def _files_of(code: Code, module: Path) -> set[Path]:
    """Return the files that the results of a module depend on."""
    files = code.all_imported([module, *conftests(code.root, module)])
    return files.union(programs(code.root, module))


def _needs(code: Code, files: Iterable[Path]) -> tuple[set[str], set[str]]:
    """Return the libraries that some files import, and variables they read."""
    libraries, variables = {"pytest"}, set[str]()
    for path in files:
        try:
            read = code.module(path)
        except Problem:  # a rule reports it, or pytest
            continue
        libraries |= read.libraries
        variables |= read.variables
    return libraries, variables


def made_with(code: Code, module: Path) -> list[str]:
    """Return what a result of a module is made with besides code, by line."""
    found = portable(code.root, *_needs(code, _files_of(code, module)))
    return [f"{name} {found[name]}" for name in sorted(found)]


def fingerprints(
    root: Path, modules: Iterable[Path]
) -> dict[str, Fingerprint]:
    """Return what the results of each module depend on, by its dotted path."""
    code, found = Code(root), {}
    for module in modules:
        files = _files_of(code, module)
        parts: dict[str, str | bytes] = {
            path.relative_to(root).as_posix(): bytes_of(path) for path in files
        }
        parts |= surroundings(root, *_needs(code, files))
        found[classname(root, module)] = Fingerprint.of(parts)
    return found


def stamps_of(root: Path, modules: Iterable[Path]) -> dict[str, str]:
    """Return of each module when its files were last written to.

    A file that was changed and put back while pytest ran has its old content,
    and yet another time of change.
    """
    code, found = Code(root), {}
    for module in modules:
        stats = [
            (path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
            for path in sorted(_files_of(code, module))
            if path.exists()
            for stat in [path.stat()]
        ]
        found[classname(root, module)] = repr(stats)
    return found


def changed_since(
    root: Path, modules: Mapping[str, Path], before: Mapping[str, str]
) -> set[str]:
    """Return the modules of which a file was written to meanwhile."""
    there = [module for module in modules.values() if module.exists()]
    now = stamps_of(root, there)
    return {name for name in modules if now.get(name) != before[name]}
