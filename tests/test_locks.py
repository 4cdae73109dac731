"""What is installed is locked."""

import ast
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from extensions.core.files import python_of, text_of, toml_of
from extensions.core.topics import ROOT

GROUPS = toml_of(ROOT / "pyproject.toml")["dependency-groups"]
[LOCKED] = [
    ast.literal_eval(node.value)
    for node in python_of(ROOT / "noxfile.py").body
    if isinstance(node, ast.Assign)
    and ast.unparse(node.targets[0]) == "LOCKED"
]


def lock(name):
    """Return the requirements of a lock, without their hashes."""
    text = text_of(ROOT / f"requirements/{name}.txt")
    lines = text.replace("\\\n", "").splitlines()
    return [
        Requirement(line.partition("--hash=")[0])
        for line in lines
        if line and not line.lstrip().startswith("#")
    ]


def versions(name):
    """Return the versions in a lock, by the name of the library."""
    found = {}
    for each in lock(name):
        found.setdefault(each.name, set()).add(str(each.specifier))
    return found


def wanted(group):
    """Return the requirements of a group, with those that it includes."""
    for each in GROUPS[group]:
        if isinstance(each, str):
            yield Requirement(each)
        else:
            yield from wanted(each["include-group"])


@pytest.mark.parametrize("group", [*LOCKED, "pretrained"])
def test_what_a_group_asks_for_is_in_its_lock(group):
    locked = lock(group)

    for each in wanted(group):
        name = canonicalize_name(each.name)
        pins = [pin for pin in locked if pin.name == name]
        assert pins, f"run nox -s lock: {each} is not in {group}.txt"
        for pin in pins:
            [version] = pin.specifier
            assert version.operator == "=="
            assert version.version in each.specifier


@pytest.mark.parametrize("group", LOCKED)
def test_each_library_in_a_lock_has_a_hash(group):
    text = text_of(ROOT / f"requirements/{group}.txt")

    for each in text.replace("\\\n", "").splitlines():
        assert "--hash=sha256:" in each or each.lstrip().startswith("#")


def test_every_group_that_a_session_installs_is_locked():
    included = {
        each["include-group"]
        for group in GROUPS.values()
        for each in group
        if not isinstance(each, str)
    }

    # No lock with hashes can hold torch: its builds differ by machine.
    with_torch = {"torch", "pretrained"}
    assert set(LOCKED) >= GROUPS.keys() - included - with_torch


def test_what_every_build_of_torch_needs_is_locked():
    needs = [Requirement(each) for each in requires("torch")]
    always = {
        canonicalize_name(each.name) for each in needs if not each.marker
    }

    assert always
    assert always <= versions("torch-needs").keys()


def test_the_constraints_of_torch_hold_what_cuda_needs_too():
    held = versions("torch")

    assert held.items() >= versions("torch-needs").items()
    assert {"triton", "nvidia-cublas"} <= held.keys()


def test_a_torch_on_its_own_comes_with_what_the_tests_are_locked_to():
    tests, torch = versions("tests"), versions("torch-needs")

    both = tests.keys() & torch.keys()
    assert both
    assert all(tests[name] == torch[name] for name in both)


def test_no_lock_names_a_place_to_install_from():
    for path in (ROOT / "requirements").glob("*.txt"):
        text = text_of(path)
        assert "://" not in text
        assert "--index-url" not in text
        assert "--find-links" not in text
