"""Test the claims: ``python -m extensions.evidence.test_claims``.

Only those modules run again whose results are missing, or rest on something
else by now. pytest runs once, and what it says joins what is kept in
``build/evidence/this-build/tests.xml``. Ends with 0 if all tests passed, 1 if
some did not, 2 if pytest did not run. Does not import torch.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from extensions.core.problem import Problem
from extensions.core.reading import xml_of
from extensions.core.topics import ROOT
from extensions.core.writing import write
from extensions.evidence.merging import (
    cases_in,
    counting,
    failed,
    lacking,
    module_of,
    run_with,
)
from extensions.evidence.module_dependencies import (
    bases,
    classname,
    evidence_modules,
)

EVIDENCE = Path("build/evidence/this-build/tests.xml")
IN_PARALLEL = ["--numprocesses=auto", "--dist=worksteal"]
FEW = 4  # modules: one process is done before each of several has torch
# How pytest ends where it did not test what it should.
ENDS = {
    2: "was interrupted",
    3: "met an error of its own",
    4: "was called in a wrong way",
    5: "found no tests",
}


def run_pytest(root: Path, arguments: list[str], xml: Path) -> int:
    """Run pytest, which writes its results into a file; return its status."""
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
    return subprocess.run(command, cwd=root, check=False).returncode


def update(root: Path, also: list[str], again: bool) -> int:
    """Test what has to be tested, renew the evidence, return the status."""
    path = root / EVIDENCE
    modules = {classname(root, each): each for each in evidence_modules(root)}
    now = bases(root, modules.values())
    kept = counting(cases_in(path), now)
    chosen = set(lacking(modules, kept))
    if again:
        chosen |= {module_of(case) for case in failed(kept)}
    kept = [case for case in kept if module_of(case) not in chosen]
    for case in failed(kept):
        print(f"failed before: {module_of(case)}::{case.get('name')}")
    print(f"{len(chosen)} of {len(modules)} modules to test", flush=True)
    if not chosen and not also:
        return 1 if failed(kept) else 0

    paths = [str(modules[name].relative_to(root)) for name in sorted(chosen)]
    workers = IN_PARALLEL if also or len(chosen) > FEW else []
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder, "tests.xml")
        status = run_pytest(root, [*workers, *paths, *also], xml)
        if status < 0:
            if path.exists():
                write(path, run_with(xml_of(path), kept))
            name = signal.Signals(-status).name
            message = f"{name} ended pytest: what it was to test has no result"
            raise Problem(path, 1, message)
        if status > 1:
            how = ENDS.get(status, f"ended with {status}")
            raise Problem(path, 1, f"pytest {how}: the results are as before")
        run = xml_of(xml)
    cases = [
        case for case in run.iter("testcase") if module_of(case) in chosen
    ]
    kept += counting(cases, now)
    if chosen:
        write(path, run_with(run, kept))
    for name in (left := lacking(modules, kept)):
        print(f"tests without a result: {name}")
    return 1 if status or left or failed(kept) else 0


def main() -> int:
    """Test what has to be tested, one process at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--also", nargs="+", default=[], help="tests to run in any case"
    )
    parser.add_argument(
        "--again", action="store_true", help="run what failed before, too"
    )
    chosen = parser.parse_args()
    lock = ROOT / EVIDENCE.with_name(f".{EVIDENCE.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            return update(ROOT, chosen.also, chosen.again)
    except OSError as error:
        print(Problem(lock, 1, f"cannot be locked: {error.strerror}"))
    except Problem as problem:
        print(problem)
    except KeyboardInterrupt:
        print("interrupted: the results are as before")
    return 2


if __name__ == "__main__":
    sys.exit(main())
