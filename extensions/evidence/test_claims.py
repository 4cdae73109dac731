"""Test the claims: ``python -m extensions.evidence.test_claims``.

Only those modules run again whose results are missing, or were made from
something else, and whose recorded results do not count here either; with
``--all``, none of these does. pytest runs once, and its results join those
that are kept in ``build/evidence/this-build/tests.xml``. Ends with 0 if all
tests passed, 3 if some did not, 2 if pytest did not run. Imports no torch.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree.ElementTree import Element

from filelock import FileLock

from extensions.core.cache import load, save
from extensions.core.environment import our_code
from extensions.core.files import Problem, json_of, remove, write, xml_of
from extensions.core.fingerprint import Fingerprint
from extensions.core.topics import ROOT
from extensions.evidence.fingerprints import (
    changed_since,
    fingerprints,
    stamps_of,
)
from extensions.evidence.junit import EVIDENCE, RECORDED, properties_of
from extensions.evidence.locked_run import NOTHING, LockedRun
from extensions.evidence.merging import (
    cases_in,
    current,
    failed,
    lacking,
    module_of,
    note_fingerprints,
    run_with,
)
from extensions.evidence.modules import classname, evidence_modules
from extensions.evidence.parsed_tests import tests_in
from extensions.evidence.pytest_process import (
    IN_PARALLEL,
    SOME_FAILED,
    end,
    run_pytest,
)

# From what these results were made, to say why some are made again.
_FINGERPRINTS = EVIDENCE.with_name("fingerprints.json")
_FEW = 4  # modules: one process is done before each of several has torch


def _read_fingerprints(root: Path) -> dict[str, Fingerprint]:
    """Return from what the last results were made, by module."""
    try:
        found = json_of(root / _FINGERPRINTS)
    except Problem:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: Fingerprint.read(each) for name, each in found.items()}


def _write_fingerprints(root: Path, now: Mapping[str, Fingerprint]) -> None:
    """Keep from what the results were made."""
    parts = {name: dict(each.parts) for name, each in now.items()}
    text = json.dumps(parts, indent=1, sort_keys=True)
    write(root / _FINGERPRINTS, f"{text}\n")


def reasons(
    chosen: Mapping[str, Fingerprint], before: Mapping[str, Fingerprint]
) -> Iterator[str]:
    """Yield why some modules are tested again, all of one reason at once."""
    modules: dict[str, list[str]] = {}
    for name in sorted(chosen):
        path = f"{name.replace('.', '/')}.py"
        if name not in before:
            why = "tested, because it has no results"
        elif changes := chosen[name].changes_since(before[name]):
            more = f" and {len(changes) - 1} more" if changes[1:] else ""
            first = path if path in changes else changes[0]
            why = f"tested again, because {first}{more} changed"
        else:
            why = "tested again, because results failed or are missing"
        modules.setdefault(why, []).append(path)
    for why, paths in modules.items():
        more = f" and {len(paths) - 1} more" if paths[1:] else ""
        yield f"{paths[0]}{more}: {why}"


def _keep(path: Path, kept: list[Element], locked: LockedRun) -> None:
    """Write the results that count, in the run that they are from."""
    if not kept:
        remove(path)
        return
    recorded = {
        module_of(case) for case in kept if RECORDED in properties_of(case)
    }
    if all(module_of(case) in recorded for case in kept):
        run = locked.run_of(recorded)
    else:
        run = xml_of(path)
    write(path, run_with(run, kept))


def update(
    root: Path, also: list[str], again: bool, anew: bool = False
) -> int:
    """Test what has to be tested, renew the evidence, return the status."""
    path = root / EVIDENCE
    modules = {classname(root, each): each for each in evidence_modules(root)}
    locked = LockedRun(root, modules.values())
    now = fingerprints(root, modules.values())
    kept = current(cases_in(path), now)
    if anew:
        kept = [case for case in kept if RECORDED not in properties_of(case)]
    chosen = set(lacking(modules, kept))
    # What fails here is not made good by what passed elsewhere.
    asked = chosen - {module_of(case) for case in failed(kept)}
    why = {} if anew else {name: locked.why_not(name) for name in asked}
    taken = {name for name in why if not why[name]}
    chosen -= taken
    if again:
        chosen |= {module_of(case) for case in failed(kept)}
    kept = [case for case in kept if module_of(case) not in chosen | taken]
    recorded = [
        case for name in sorted(taken) for case in locked.results(name)
    ]
    note_fingerprints(recorded, now)
    kept += recorded
    for case in failed(kept):
        print(f"failed before: {module_of(case)}::{case.get('name')}")
    if taken:
        print(f"{len(taken)} modules with recorded results that count here")
    print(f"{len(chosen)} of {len(modules)} modules to test", flush=True)
    before = _read_fingerprints(root)
    for line in reasons({name: now[name] for name in chosen}, before):
        print(line, flush=True)
    for line in sorted({*why.values()} - {"", NOTHING}):
        print(f"what is recorded does not count: {line}", flush=True)
    # Whatever ends this run, what is stale does not stand.
    if chosen or taken:
        _keep(path, kept, locked)
    if not chosen and not also:
        _write_fingerprints(root, now)
        return SOME_FAILED if failed(kept) else 0

    paths = [str(modules[name].relative_to(root)) for name in sorted(chosen)]
    workers = IN_PARALLEL if also or len(chosen) > _FEW else []
    stamps = stamps_of(root, modules.values())
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder, "tests.xml")
        status = run_pytest(root, [*workers, *paths, *also], xml)
        if status not in {0, 1}:
            message = (
                f"pytest {end(status)}: what it was to test has no result"
            )
            raise Problem(path, 1, message)
        run = xml_of(xml)
    untouched = chosen - changed_since(root, modules, stamps)
    cases = [
        case for case in run.iter("testcase") if module_of(case) in untouched
    ]
    note_fingerprints(cases, now)
    kept += current(cases, fingerprints(root, modules.values()))
    if chosen:
        write(path, run_with(run, kept))
        _write_fingerprints(root, now)
    for name in (left := lacking(modules, kept)):
        print(f"tests without a result: {name}")
    return SOME_FAILED if status or left or failed(kept) else 0


def main() -> int:
    """Test what has to be tested, one process at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--also", nargs="+", default=[], help="tests to run in any case"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="test whatever this build has not tested itself",
    )
    parser.add_argument(
        "--again", action="store_true", help="run what failed before, too"
    )
    chosen = parser.parse_args()
    lock = ROOT / EVIDENCE.with_name(f".{EVIDENCE.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            # To parse all tests again takes ten times as long, here and in
            # each process of pytest.
            code = our_code("core", "evidence", "programs")
            load(lock.parent, code)
            modules = evidence_modules(ROOT)
            fingerprints(ROOT, modules)
            for module in modules:
                tests_in(module)
            save(lock.parent, code)
            return update(ROOT, chosen.also, chosen.again, chosen.all)
    except OSError as error:
        print(Problem(lock, 1, f"cannot be locked: {error.strerror}"))
    except Problem as problem:
        print(problem)
    except KeyboardInterrupt:
        print("interrupted: what was to be tested has no result")
    return 2


if __name__ == "__main__":
    sys.exit(main())
