"""Since which torch a claim is true, as marks of its test.

Both marks stand at the test of the claim, and hold for its counter-examples
and variations as well. What holds for a whole module stands in its
``pytestmark``. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import pytest
from packaging.version import Version


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
