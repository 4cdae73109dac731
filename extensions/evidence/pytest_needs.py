"""What a test needs, and is skipped without: a library, a device, a torch.

A claim whose test needs a library is *not run* where that is missing, if this
project installs it for its programs: any other name is a mistake, and the test
fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

from extensions.core.files import toml_of
from extensions.core.topics import ROOT
from extensions.evidence.counterexamples import FAILURES
from extensions.evidence.outcomes import API, NEEDS, SINCE
from extensions.evidence.versions import older
from extensions.programs.snippet import Snippet, distribution_of, imported

# The groups of pyproject.toml with what programs import besides torch.
_GROUPS = ("snippets", "data", "deploy", "pretrained")


@cache
def _installed_for_programs() -> set[str]:
    groups = toml_of(ROOT / "pyproject.toml")["dependency-groups"]
    return {
        Requirement(each).name for name in _GROUPS for each in groups[name]
    }


def _lacking(name: str) -> str:
    """Return what to install for the name of an import that is not there.

    Empty, if it is there, or if nobody is to have it.
    """
    library = distribution_of(name)
    known = library in _installed_for_programs()
    return library if known and find_spec(name) is None else ""


@cache
def lacking_by_cell(program: Path) -> dict[str, set[str]]:
    """Return the libraries that each cell of a program lacks.

    What only shows something is left out, as tests leave it out.
    """
    return {
        cell.name: {*map(_lacking, imported(cell.source))} - {""}
        for cell in Snippet.read(program).cells().values()
        if not cell.is_display
    }


def skip_without(item: pytest.Function, libraries: set[str]) -> None:
    """Skip a test whose program cannot run, and note what it needs."""
    if libraries:
        needs = ", ".join(sorted(libraries))
        item.user_properties.append((NEEDS, needs))
        item.add_marker(pytest.mark.skip(reason=f"needs {needs}"))


def note_what_lacks(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> None:
    """Note what a test needs that ``pytest.importorskip`` skipped."""
    if call.excinfo and call.excinfo.errisinstance(pytest.skip.Exception):
        frame = call.excinfo.traceback[-1].frame
        if frame.code.name == pytest.importorskip.__name__:
            name, *_ = str(frame.f_locals["modname"]).split(".")
            if library := _lacking(name):
                item.user_properties.append((NEEDS, library))


def skip_without_device(item: pytest.Function) -> None:
    """Skip a test that needs a CUDA device, where there is none."""
    if item.get_closest_marker("cuda"):
        item.user_properties.append((NEEDS, "cuda"))
        if not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _marks_of(item: pytest.Function, name: str) -> Iterator[pytest.Mark]:
    """Yield the marks of a test, or of the test of its claim."""
    yield from item.iter_markers(name)
    main = item.originalname.partition("__")[0]
    if item.originalname != main:
        test = getattr(item.module, main, None)
        for mark in getattr(test, "pytestmark", []):
            if mark.name == name:
                yield mark


def expect(item: pytest.Function, installed: str) -> None:
    """Skip a test, or expect it to fail, where torch is older than it says."""
    for mark in _marks_of(item, "api_since"):
        version, name = mark.args
        if older(installed, version):
            said = f"{name}, which torch has since {version}"
            item.user_properties.append((API, said))
            item.add_marker(pytest.mark.skip(reason=f"needs {said}"))
            return
    for mark in _marks_of(item, "true_since"):
        version, why = mark.args
        if older(installed, version):
            item.user_properties.append((SINCE, version))
            reason = f"false before torch {version}: {why}"
            if "__" in item.originalname:
                item.add_marker(pytest.mark.skip(reason=reason))
            else:
                item.add_marker(
                    pytest.mark.xfail(
                        reason=reason, raises=FAILURES, strict=True
                    )
                )
