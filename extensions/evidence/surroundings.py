"""What results depend on besides files: libraries, settings, the device."""

import json
import platform
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import (
    PackageNotFoundError,
    distribution,
    entry_points,
    packages_distributions,
    version,
)
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from extensions.core.environment import device, environment_variables
from extensions.core.files import bytes_of, toml_of
from extensions.core.fingerprint import digest

_MISSING = "not there"
# Files in which pytest finds settings, before those of pyproject.toml.
_SETTINGS = "pytest.toml .pytest.toml pytest.ini .pytest.ini tox.ini setup.cfg"
# Where one of them is set, pytest takes the machine for one of CI; the plugin
# does away with them.
OF_CI = ("CI", "BUILD_NUMBER")
# The environment variables with which machines differ, and no claim does.
_LOCAL = (
    "$LANG",
    "$LC_",
    "$OPENBLAS_",
    "$TZ",
    *(f"${each}" for each in OF_CI),
)


def surroundings(
    root: Path, libraries: Iterable[str], variables: Iterable[str]
) -> dict[str, str]:
    """Return what two machines must share for a result to count on both.

    That is less than what one machine has to leave as it is: not the build of
    torch with all that this brings along, nor the release of Python within a
    version, nor language, time zone and the kernels of a processor.
    """
    found = {
        "Python": platform.python_version().rpartition(".")[0],
        "system": f"{platform.system()} {platform.machine()}",
        "device": device() or "none",
        "plugins": digest(_plugins()),
        "settings": digest(*_settings(root)),
        "torch": version("torch").partition("+")[0],
    }
    for name, each in _versions(libraries, without="torch").items():
        if each != _MISSING:
            found[name] = each
    for name, each in environment_variables(variables).items():
        if each != repr(None) and not name.startswith(_LOCAL):
            found[name] = digest(each)
    return found


def _versions(libraries: Iterable[str], without: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    todo, known = [*libraries], {*sys.stdlib_module_names, without}
    while todo:
        if (name := todo.pop()) in known:
            continue
        known.add(name)
        for each in _distributions().get(name, [name]):
            found[each], needs = _version(each)
            todo += needs
    return found


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


@cache
def _version(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the version of a distribution, and what it needs.

    A module that belongs to none is known by its content.
    """
    try:
        found = distribution(name)
    except PackageNotFoundError:
        spec = find_spec(name) if name.isidentifier() else None
        if spec is None or not spec.has_location or not spec.origin:
            return _MISSING, ()
        return digest(bytes_of(Path(spec.origin))), ()
    needs = [Requirement(each) for each in found.requires or ()]
    return found.version, tuple(
        each.name
        for each in needs
        if each.marker is None or each.marker.evaluate({"extra": ""})
    )


@cache
def _plugins() -> str:
    found = entry_points(group="pytest11")
    dists = [each.dist for each in found if each.dist]
    return repr(sorted({f"{each.name} {each.version}" for each in dists}))


def _settings(root: Path) -> list[str | bytes]:
    paths = [root / name for name in _SETTINGS.split()]
    found: list[str | bytes] = [bytes_of(e) for e in paths if e.is_file()]
    path = root / "pyproject.toml"
    tool = toml_of(path).get("tool", {}) if path.is_file() else {}
    return [*found, json.dumps(tool.get("pytest"))]
