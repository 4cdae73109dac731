"""Which tests a record is made of, where it is not to hold all claims.

A test that is named, such as ``tests/models/test_devices.py::test_a``, stands
for its whole claim: its counter-examples and its variations go with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from extensions.evidence.junit import key_of
from extensions.evidence.modules import evidence_modules
from extensions.evidence.parsed_tests import tests_in
from extensions.evidence.versions import older

_Claim = tuple[str, str]


def _tests_of(root: Path, module: Path, main: str) -> Iterator[str]:
    """Yield the tests of a claim, as pytest is given them."""
    for test in tests_in(module).values():
        if test.of == main:
            yield f"{module.relative_to(root).as_posix()}::{test.name}"


def with_their_claims(root: Path, options: list[str]) -> list[str]:
    """Return the options of pytest, with whole claims for single tests."""
    found: list[str] = []
    for option in options:
        path, _, name = option.partition("::")
        main = name.partition("[")[0].partition("__")[0]
        tests = _tests_of(root, root / path, main)
        found += list(tests) or [option]
    return found


def changed_by(root: Path, limit: str) -> list[str]:
    """Return the tests of the claims that became true with some torch.

    That torch is the given one, or an older one.
    """
    return [
        name
        for module in evidence_modules(root)
        for main, test in tests_in(module).items()
        if test.since and not older(limit, test.since[0])
        for name in _tests_of(root, module, main)
    ]


def on_cuda(root: Path) -> list[str]:
    """Return the tests of the claims of which one needs a CUDA device."""
    found: list[str] = []
    for module in evidence_modules(root):
        tests = tests_in(module).values()
        for main in dict.fromkeys(
            each.of for each in tests if each.needs_cuda
        ):
            found += _tests_of(root, module, main)
    return found


def names_tests(options: list[str]) -> bool:
    """Whether some options of pytest say which tests to run."""
    return any(each.startswith("tests/") for each in options)


def _claim_of(case: Element) -> _Claim:
    """Return the module and the main test of the claim of a result."""
    module, name = key_of(case)
    return module, name.partition("__")[0]


def not_renewed(
    kept: list[Element], new: list[Element], options: list[str]
) -> list[Element]:
    """Return those kept results whose place no new one takes.

    Of a module that was tested as a whole, no old result stays.
    """
    claims = {_claim_of(case) for case in new}
    single = {
        each.partition("::")[0].removesuffix(".py").replace("/", ".")
        for each in options
        if "::" in each
    }
    whole = {module for module, _ in claims} - single
    return [
        case
        for case in kept
        if _claim_of(case) not in claims and _claim_of(case)[0] not in whole
    ]
