"""Record what the tests of the claims say here, for the ledger of the site.

``python -m extensions.evidence.record evidence/<machine>-torch-<version>``
writes ``tests.xml.gz`` there, and names each test that failed. Needs torch,
pytest and NumPy; what programs import besides may be missing, and their claims
are then *not run*. A warning is no error, since other versions have others.
Ends with 0 if all passed, 1 if some did not, 2 if nothing was tested.

What is named behind the folder is recorded alone: a folder of tests, a module,
or a test with its whole claim. ``--changed-by 2.6`` names the claims that say
that they are true since that torch or an older one; a torch that the guide is
not written for has to make them false, or not. ``--cuda`` names the claims
that need a CUDA device.
"""

from __future__ import annotations

import argparse
import tempfile
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from extensions.core.command_line import in_one_line
from extensions.core.problem import Problem
from extensions.core.reading import xml_of
from extensions.core.topics import ROOT
from extensions.core.writing import write
from extensions.evidence.fingerprints import changed_since, stamps_of
from extensions.evidence.junit import (
    PART,
    key_of,
    outcome_of,
    properties_of,
)
from extensions.evidence.merging import deselected, module_of, run_with
from extensions.evidence.modules import classname, evidence_modules
from extensions.evidence.packing import packed
from extensions.evidence.selection import (
    changed_by,
    names_tests,
    not_renewed,
    on_cuda,
    with_their_claims,
)
from extensions.evidence.test_claims import IN_PARALLEL, end, run_pytest

_QUIET = ["--quiet", "--override-ini=filterwarnings=default"]
PACKED = "tests.xml.gz"


def run_of_claims(options: list[str], path: Path) -> tuple[int, Element]:
    """Test all claims; return the status and the run as pytest wrote it.

    Options that begin with ``tests/`` are tested instead of all. The path is
    that of what the caller is about to write.
    """
    modules = [] if names_tests(options) else evidence_modules(ROOT)
    paths = [str(each.relative_to(ROOT)) for each in modules]
    workers = IN_PARALLEL if find_spec("xdist") else []
    known = {classname(ROOT, each): each for each in evidence_modules(ROOT)}
    stamps = stamps_of(ROOT, known.values())
    with tempfile.TemporaryDirectory() as place:
        xml = Path(place, "tests.xml")
        chosen = with_their_claims(ROOT, options)
        status = run_pytest(ROOT, [*workers, *_QUIET, *chosen, *paths], xml)
        if status not in {0, 1}:
            raise Problem(path, 1, f"pytest {end(status)}: as before")
        run = xml_of(xml)
    drop(run, changed_since(ROOT, known, stamps))
    return status, run


def drop(run: Element, changed: set[str]) -> None:
    """Drop the results of modules that changed while they were tested."""
    for suite in run.iter("testsuite"):
        for case in suite.findall("testcase"):
            if module_of(case) in changed:
                suite.remove(case)
    for name in sorted(changed):
        print(f"changed while it was tested, and has no result: {name}")


def record(folder: Path, options: list[str]) -> int:
    """Test all claims, write the packed run, return the status.

    If some tests are chosen, their results take the place of those that the
    folder holds; a run that never held all says so.
    """
    path = folder / PACKED
    status, run = run_of_claims(options, path)
    cases = list(run.iter("testcase"))
    if partly := deselected(cases):
        message = f"some cases of {min(partly)} were deselected: as before"
        raise Problem(path, 1, message)
    failed = [case for case in cases if outcome_of(case) == "failed"]
    if names_tests(options):
        kept, is_part = _kept_of(path, run)
        if is_part:
            _note_part(run)
        cases += not_renewed(kept, cases, options)
    folder.mkdir(parents=True, exist_ok=True)
    write(path, packed(ElementTree.fromstring(run_with(run, cases))))
    for case in failed:
        module, _ = key_of(case)
        print(f"failed: {module}::{case.get('name')}")
    return status


def _kept_of(path: Path, run: Element) -> tuple[list[Element], bool]:
    """Return the results of a recorded run, if it had the same torch.

    And whether it holds some claims alone, as one does that is only begun.
    """
    if not path.exists():
        return [], True
    root = xml_of(path)
    then, now = (
        {
            name: value
            for suite in each.iter("testsuite")
            for name, value in properties_of(suite).items()
        }
        for each in (root, run)
    )
    for fact in ("torch", "python"):
        if then.get(fact) != now.get(fact):
            message = (
                f"recorded with {fact} {then.get(fact)}, and not"
                f" {now.get(fact)}: record all"
            )
            raise Problem(path, 1, message)
    return list(root.iter("testcase")), PART in then


def _note_part(run: Element) -> None:
    """Note in a run that it holds some claims alone."""
    for facts in run.iterfind("testsuite/properties"):
        SubElement(facts, "property", name=PART, value="some")


def main() -> None:
    """Record into a folder; further options, and tests, go to pytest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the run goes")
    parser.add_argument(
        "--changed-by",
        metavar="TORCH",
        help="only the claims that are true since it, or since an older one",
    )
    parser.add_argument(
        "--cuda",
        action="store_true",
        help="only the claims that need a CUDA device",
    )
    chosen, options = parser.parse_known_args()
    if chosen.cuda:
        options += on_cuda(ROOT)
    if chosen.changed_by:
        options += changed_by(ROOT, chosen.changed_by)
    raise SystemExit(record(chosen.folder, options))


if __name__ == "__main__":
    in_one_line(main)
