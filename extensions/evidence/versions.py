"""Since which torch a claim is true, as marks of its test.

Both marks stand at the test of the claim, and hold for its counter-examples
and variations as well. What holds for a whole module stands in its
``pytestmark``. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from packaging.version import Version

from extensions.evidence.counterexamples import FAILURES
from extensions.evidence.outcomes import API, SINCE


def true_since(version: str, why: str) -> pytest.MarkDecorator:
    """Say that the words were false before a version, in which respect.

    There, the test has to fail: the boundary is tested, too.
    """
    return pytest.mark.true_since(version, why)


def api_since(version: str, name: str) -> pytest.MarkDecorator:
    """Say that what the test calls was not there before a version."""
    return pytest.mark.api_since(version, name)


def older(installed: str, version: str) -> bool:
    """Whether an installed torch comes before a version such as ``2.9``."""
    wanted = Version(version).release
    return Version(installed).release[: len(wanted)] < wanted


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
