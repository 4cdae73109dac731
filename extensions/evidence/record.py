"""Record what the tests of the claims say here, for the ledger of the site.

``python -m extensions.evidence.record evidence/<machine>-torch-<version>``
writes ``tests.xml.gz`` there, and names each test that failed. Needs torch,
pytest and NumPy; what programs import besides may be missing, and their claims
are then *not run*. A warning is no error, since other versions have others.
Ends with 0 if all passed, 3 if some did not, 2 if nothing was tested.

Without a folder, the results of this build take the place of those in
``evidence/locked`` that count no more, which a clone brings along; with
``--check``, those are named, and the end is 1 if there are any.

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

from extensions.core.files import Problem, in_one_line, remove, write, xml_of
from extensions.core.topics import ROOT
from extensions.evidence.fingerprints import (
    changed_since,
    fingerprints,
    stamps_of,
)
from extensions.evidence.junit import (
    EVIDENCE,
    PART,
    RECORDED,
    key_of,
    properties_of,
)
from extensions.evidence.locked_run import FOLDER, LockedRun
from extensions.evidence.merging import (
    current,
    deselected,
    failed,
    lacking,
    module_of,
    run_with,
)
from extensions.evidence.modules import classname, evidence_modules
from extensions.evidence.packing import packed
from extensions.evidence.pytest_process import (
    IN_PARALLEL,
    SOME_FAILED,
    end,
    run_pytest,
)
from extensions.evidence.selection import (
    changed_by,
    names_tests,
    not_renewed,
    on_cuda,
    with_their_claims,
)

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
    wrong = failed(cases)
    if names_tests(options):
        kept, is_part = _kept_of(path, run)
        if is_part:
            _note_part(run)
        cases += not_renewed(kept, cases, options)
    folder.mkdir(parents=True, exist_ok=True)
    write(path, packed(ElementTree.fromstring(run_with(run, cases))))
    for case in wrong:
        module, _ = key_of(case)
        print(f"failed: {module}::{case.get('name')}")
    return SOME_FAILED if status else 0


def renew(root: Path, check: bool) -> int:
    """Renew the recorded run of the torch that is locked; return the status.

    Of what has not changed since it was recorded, nothing is written.
    """
    modules = {classname(root, each): each for each in evidence_modules(root)}
    locked = LockedRun(root, modules.values())
    reasons = {name: why for name in modules if (why := locked.why_not(name))}
    for name, why in reasons.items():
        print(f"{locked.path(name).relative_to(root).as_posix()}: {why}")
    known = {locked.path(name) for name in modules}
    gone = sorted({*(root / FOLDER).glob("**/*.xml")} - known)
    for path in gone:
        print(f"{path.relative_to(root).as_posix()}: its topic is gone")
    if check or not (reasons or gone):
        return 1 if reasons or gone else 0
    for path in gone:
        remove(path)
    run = xml_of(root / EVIDENCE)
    now = fingerprints(root, modules.values())
    cases = [
        case
        for case in current([*run.iter("testcase")], now)
        if RECORDED not in properties_of(case)
    ]
    left = {*lacking(modules, cases), *map(module_of, failed(cases))}
    for name in reasons:
        if name in left:
            print(f"not recorded, since this build has no result: {name}")
        else:
            those = [case for case in cases if module_of(case) == name]
            locked.keep(name, _facts_of(run), those)
    return 1 if left & reasons.keys() else 0


def _facts_of(run: Element) -> dict[str, str]:
    """Return the facts of a run, but for its day, which each result has."""
    [facts] = [properties_of(suite) for suite in run.iter("testsuite")]
    return {name: facts[name] for name in facts if name != "date"}


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
    parser.add_argument(
        "folder", type=Path, nargs="?", help="where the run goes"
    )
    parser.add_argument(
        "--check", action="store_true", help="only name what is to be renewed"
    )
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
    if chosen.folder is None:
        raise SystemExit(renew(ROOT, chosen.check))
    if chosen.cuda:
        options += on_cuda(ROOT)
    if chosen.changed_by:
        options += changed_by(ROOT, chosen.changed_by)
    raise SystemExit(record(chosen.folder, options))


if __name__ == "__main__":
    in_one_line(main)
