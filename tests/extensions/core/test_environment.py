"""What is installed, as outputs and pages depend on it."""

import sys

import pytest

from extensions.core.environment import installed


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder of packages, the only one that Python looks into."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "shelf-1.0.dist-info").mkdir()
    return tmp_path


def test_another_version_of_a_library_is_noticed(packages):
    before = installed.__wrapped__()
    (packages / "shelf-1.0.dist-info").rename(packages / "shelf-1.1.dist-info")

    assert installed.__wrapped__() != before


def test_what_setuptools_brings_for_itself_is_not_installed(packages):
    before = installed.__wrapped__()
    vendored = packages / "setuptools/_vendor"
    (vendored / "wheel-0.46.dist-info").mkdir(parents=True)
    sys.path.append(str(vendored))

    assert installed.__wrapped__() == before
