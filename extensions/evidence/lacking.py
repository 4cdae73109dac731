"""Libraries that tests need and that are not installed.

A claim whose test needs one is *not run* there. That goes only for what this
project installs for its programs: any other name is a mistake, and the test
fails.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from extensions.core.files import toml_of
from extensions.core.topics import ROOT
from extensions.evidence.outcomes import NEEDS
from extensions.programs.snippet import Snippet, distribution_of, imported

# The groups of pyproject.toml with what programs import besides torch.
_GROUPS = ("snippets", "data", "deploy")


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
