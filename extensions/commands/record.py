"""Record what the tests of the claims say here, for the ledger of the site.

``python -m extensions.commands.record evidence/<machine>-torch-<version>``
writes ``tests.xml.gz`` there, and names each test that failed. Needs torch,
pytest and NumPy alone; a warning is no error, since other versions have
others. Ends with 0 if all passed, 1 if some did not, 2 if nothing was tested.
"""

from __future__ import annotations

import argparse
import tempfile
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from extensions.commands.one_line import in_one_line
from extensions.commands.test_claims import ENDS, IN_PARALLEL, run_pytest
from extensions.files.basis import evidence_modules
from extensions.files.evidence import key_of, outcome_of, properties_of
from extensions.files.merging import run_with
from extensions.files.packing import packed
from extensions.files.problem import Problem
from extensions.files.reading import xml_of
from extensions.files.topics import ROOT
from extensions.files.writing import write

QUIET = ["--quiet", "--override-ini=filterwarnings=default"]
PACKED = "tests.xml.gz"


def run_of_claims(options: list[str], path: Path) -> tuple[int, Element]:
    """Test all claims; return the status and the run as pytest wrote it.

    Options that begin with ``tests/`` are tested instead of all. The path is
    that of what the caller is about to write.
    """
    chosen = any(each.startswith("tests/") for each in options)
    modules = [] if chosen else evidence_modules(ROOT)
    paths = [str(each.relative_to(ROOT)) for each in modules]
    workers = IN_PARALLEL if find_spec("xdist") else []
    with tempfile.TemporaryDirectory() as place:
        xml = Path(place, "tests.xml")
        status = run_pytest(ROOT, [*workers, *QUIET, *options, *paths], xml)
        if status not in {0, 1}:
            how = ENDS.get(status, f"ended with {status}")
            raise Problem(path, 1, f"pytest {how}: as before")
        return status, xml_of(xml)


def record(folder: Path, options: list[str]) -> int:
    """Test all claims, write the packed run, return the status.

    If some modules are chosen, their results take the place of those that
    the folder holds.
    """
    path = folder / PACKED
    status, run = run_of_claims(options, path)
    cases = list(run.iter("testcase"))
    failed = [case for case in cases if outcome_of(case) == "failed"]
    if path.exists() and any(each.startswith("tests/") for each in options):
        renewed = {key_of(case)[0] for case in cases}
        cases += [
            case
            for case in kept_of(path, run)
            if key_of(case)[0] not in renewed
        ]
    folder.mkdir(parents=True, exist_ok=True)
    write(path, packed(ElementTree.fromstring(run_with(run, cases))))
    for case in failed:
        module, _ = key_of(case)
        print(f"failed: {module}::{case.get('name')}")
    return status


def kept_of(path: Path, run: Element) -> list[Element]:
    """Return the results of a recorded run, if it had the same torch."""
    root = xml_of(path)
    for fact in ("torch", "python"):
        then, now = (
            properties_of(suite).get(fact)
            for each in (root, run)
            for suite in each.iter("testsuite")
        )
        if then != now:
            message = f"recorded with {fact} {then}, and not {now}: record all"
            raise Problem(path, 1, message)
    return list(root.iter("testcase"))


def main() -> None:
    """Record into a folder; further options, and modules, go to pytest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the run goes")
    chosen, options = parser.parse_known_args()
    raise SystemExit(record(chosen.folder, options))


if __name__ == "__main__":
    in_one_line(main)
