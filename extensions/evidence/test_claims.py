"""Test the claims: ``python -m extensions.evidence.test_claims``.

Only those modules run again whose results are missing, or do not count any
more, and whose recorded results do not count here either; with ``--all``, none
of these does. pytest runs once for all of them. Ends with 0 if all tests
passed, 3 if some did not, 2 if pytest did not run. Imports no torch.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from xml.etree.ElementTree import Element

from extensions.core.cache import load, save
from extensions.core.environment import our_code
from extensions.core.files import Problem, remove, xml_of
from extensions.core.topics import ROOT
from extensions.evidence.junit import OWN, key_of, properties_of
from extensions.evidence.kept_results import LOCKED, KeptResults, Modules

IN_PARALLEL = ["--numprocesses=auto", "--dist=worksteal"]
_FEW = 4  # modules: one process is done before each of several has torch
# How a command ends if all was tested; a crash ends it with 1.
SOME_FAILED = 3
# How pytest ends where it did not test what it should.
ENDS = {
    2: "was interrupted",
    3: "met an error of its own",
    4: "was called in a wrong way",
    5: "found no tests",
}


def run_pytest(root: Path, arguments: list[str], xml: Path) -> bool:
    """Run pytest, which writes its results to a file; return if all passed.

    Raises
    ------
    Problem
        If it did not test what it should.
    """
    if find_spec("pytest") is None:
        raise Problem(root, 1, "pytest is not installed: nothing was tested")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--continue-on-collection-errors",
        f"--junitxml={xml}",
        *arguments,
    ]
    # Whoever calls this may have options of pytest in the environment, which
    # could leave tests out.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
    }
    done = subprocess.run(command, cwd=root, env=environment, check=False)
    status = done.returncode
    if status not in {0, 1}:
        end = ENDS.get(status, f"ended with {status}")
        if status < 0:
            end = f"was ended by {signal.Signals(-status).name}"
        message = f"pytest {end}: what it was to test has no result"
        raise Problem(root, 1, message)
    return status == 0


def update(
    root: Path, also: list[str], again: bool, anew: bool = False
) -> int:
    """Test what has to be tested, renew the evidence, return the status."""
    tests = Modules(root)
    own, locked = KeptResults(tests, OWN), KeptResults(tests, LOCKED)
    for path in own.of_no_module():
        remove(path)
    reasons: dict[str, str] = {}
    taken = 0
    for name in tests.modules:
        failed = own.failed(name)
        why = own.why_not(name, recorded=not anew)
        if not why and not (failed and again):
            for case in failed:
                print(f"failed before: {name}::{case}")
            continue
        # What fails here is not made good by what passed elsewhere.
        if anew or failed:
            reasons[name] = why or "it failed before"
        elif not (other := locked.why_not(name)):
            own.take(locked, name)
            taken += 1
            continue
        else:
            reasons[name] = f"{why}; {other}" if other != why else why
        # Whatever ends this run, what is stale does not stand.
        own.drop(name)
    if taken:
        print(f"{taken} modules with recorded results that count here")
    print(f"{len(reasons)} of {len(tests.modules)} modules to test")
    _tell(reasons)
    passed = True
    if reasons or also:
        passed = _test(tests, own, [*reasons], also)
    left = [name for name in tests.modules if own.why_not(name)]
    for name in left:
        print(f"tests without a result: {name}")
    some_failed = any(own.failed(name) for name in tests.modules)
    return SOME_FAILED if left or some_failed or not passed else 0


def _tell(reasons: Mapping[str, str]) -> None:
    """Say why modules are tested, all of one reason at once."""
    for why in dict.fromkeys(reasons.values()):
        first, *others = [name for name in reasons if reasons[name] == why]
        more = f" and {len(others)} more" if others else ""
        print(f"{first}{more}: tested, because {why}", flush=True)


def _test(
    tests: Modules, own: KeptResults, names: list[str], also: list[str]
) -> bool:
    """Test some modules, keep their results, return if all passed."""
    paths = [
        tests.modules[name].relative_to(tests.root).as_posix()
        for name in sorted(names)
    ]
    workers = IN_PARALLEL if also or len(names) > _FEW else []
    before = {name: tests.depend[name].stamp() for name in names}
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder, "tests.xml")
        passed = run_pytest(tests.root, [*workers, *paths, *also], xml)
        run = xml_of(xml)
    facts = _facts_of(run)
    cases = list(run.iter("testcase"))
    for name in names:
        if tests.depend[name].stamp() == before[name]:
            those = [case for case in cases if key_of(case)[0] == name]
            own.keep(name, facts, those)
    return passed


def _facts_of(run: Element) -> dict[str, str]:
    """Return the facts of a run, but for its day, which each result has."""
    [facts] = [properties_of(suite) for suite in run.iter("testsuite")]
    return {name: facts[name] for name in facts if name != "date"}


def main() -> int:
    """Test what has to be tested."""
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
    # To parse all tests again takes ten times as long.
    cache, code = ROOT / OWN.parent, our_code("core", "evidence", "programs")
    try:
        load(cache, code)
        status = update(ROOT, chosen.also, chosen.again, chosen.all)
        save(cache, code)
        return status
    except Problem as problem:
        print(problem)
    except KeyboardInterrupt:
        print("interrupted: what was to be tested has no result")
    return 2


if __name__ == "__main__":
    sys.exit(main())
