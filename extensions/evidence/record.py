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

import argparse
import gzip
import tempfile
from collections import ChainMap
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

from extensions.core.files import Problem, in_one_line, remove, write, xml_of
from extensions.core.topics import ROOT
from extensions.evidence.dependencies import (
    CASES,
    DEPENDS_ON,
    evidence_modules,
)
from extensions.evidence.junit import (
    OWN,
    PART,
    add_properties,
    key_of,
    outcome_of,
    properties_of,
)
from extensions.evidence.kept_results import LOCKED, KeptResults, Modules
from extensions.evidence.parsed_tests import Test, tests_in
from extensions.evidence.test_claims import (
    IN_PARALLEL,
    SOME_FAILED,
    run_pytest,
)
from extensions.evidence.versions import older

_QUIET = ["--quiet", "--override-ini=filterwarnings=default"]
PACKED = "tests.xml.gz"
# What the pages show of a result that is recorded.
_SHOWN = (
    DEPENDS_ON,
    "device",
    "date",
    "needs",
    "api since",
    "true since",
    "cell",
    "output",
)


def run_of_claims(options: list[str]) -> tuple[bool, Element]:
    """Test all claims; return if all passed, and the run as pytest wrote it.

    Options that begin with ``tests/`` are tested instead of all.
    """
    tests = Modules(ROOT)
    modules = [] if _names_tests(options) else tests.modules.values()
    paths = [each.relative_to(ROOT).as_posix() for each in modules]
    workers = IN_PARALLEL if find_spec("xdist") else []
    before = {name: each.stamp() for name, each in tests.depend.items()}
    with tempfile.TemporaryDirectory() as place:
        xml = Path(place, "tests.xml")
        chosen = with_their_claims(ROOT, options)
        arguments = [*workers, *_QUIET, *chosen, *paths]
        passed = run_pytest(ROOT, arguments, xml)
        run = xml_of(xml)
    after = {name: each.stamp() for name, each in tests.depend.items()}
    for suite in run.iter("testsuite"):
        for case in suite.findall("testcase"):
            module, test = key_of(case)
            if module not in tests.modules:
                continue
            if after[module] != before[module]:
                suite.remove(case)
                print(f"changed while it was tested: {module}::{test}")
            elif DEPENDS_ON not in properties_of(case):
                add_properties(case, {DEPENDS_ON: tests.now(module)[test]})
    return passed, run


def record(folder: Path, options: list[str]) -> int:
    """Test all claims, write the packed run, return the status.

    If some tests are chosen, their results take the place of those that the
    folder holds; a run that never held all says so.
    """
    path = folder / PACKED
    passed, run = run_of_claims(options)
    cases = list(run.iter("testcase"))
    for (_, test), group in groupby(sorted(cases, key=_order), key_of):
        those = list(group)
        counts = {properties_of(case).get(CASES) for case in those}
        if not counts <= {None, str(len(those))}:  # None of what crashed
            message = f"some cases of {test} were deselected: as before"
            raise Problem(path, 1, message)
    if _names_tests(options):
        kept, is_part = _kept_of(path, run)
        if is_part:
            for facts in run.iterfind("testsuite/properties"):
                SubElement(facts, "property", name=PART, value="some")
        cases += not_renewed(kept, cases, options)
    folder.mkdir(parents=True, exist_ok=True)
    write(path, packed(run, cases))
    for case in run.iter("testcase"):
        if outcome_of(case) == "failed":
            print(f"failed: {key_of(case)[0]}::{case.get('name')}")
    return 0 if passed else SOME_FAILED


def packed(run: Element, cases: list[Element]) -> bytes:
    """Return some results, with the facts of a run, as packed JUnit XML.

    Tests that passed in all their cases become one; how a counter-example
    failed, how long each took and the name of the host are left out.
    """
    suites = Element("testsuites")
    for suite in run.findall("testsuite"):
        kept = SubElement(suites, "testsuite", name=suite.get("name", ""))
        add_properties(kept, properties_of(suite))
        for (module, _), group in groupby(sorted(cases, key=_order), key_of):
            for case in _merged(list(group)):
                name = case.get("name", "")
                new = SubElement(kept, "testcase", classname=module, name=name)
                add_properties(new, _shown_of(case))
                for each in case:
                    if each.tag in {"failure", "error", "skipped"}:
                        said = each.get("message", "").partition("\n")[0]
                        SubElement(new, each.tag, message=said)
    content: bytes = tostring(suites, encoding="utf-8", xml_declaration=True)
    return gzip.compress(content, mtime=0)


def _order(case: Element) -> tuple[str, str, str]:
    return *key_of(case), case.get("name", "")


def _merged(cases: list[Element]) -> list[Element]:
    """Return the cases of one function, as one if they say the same."""
    said = {
        (outcome_of(case), tuple(_shown_of(case).items())) for case in cases
    }
    if len(said) > 1 or outcome_of(cases[0]) == "failed":
        return cases
    return cases[:1]


def _shown_of(case: Element) -> dict[str, str]:
    found = properties_of(case)
    return {key: found[key] for key in _SHOWN if key in found}


def renew(root: Path, check: bool) -> int:
    """Renew the recorded run of the torch that is locked; return the status.

    Of what has not changed since it was recorded, nothing is written.
    """
    tests = Modules(root)
    own, locked = KeptResults(tests, OWN), KeptResults(tests, LOCKED)
    reasons = {name: locked.why_not(name) for name in tests.modules}
    reasons = {name: why for name, why in reasons.items() if why}
    for name, why in reasons.items():
        print(f"{locked.path(name).relative_to(root).as_posix()}: {why}")
    gone = locked.of_no_module()
    for path in gone:
        print(f"{path.relative_to(root).as_posix()}: its topic is gone")
    if check or not (reasons or gone):
        return 1 if reasons or gone else 0
    for path in gone:
        remove(path)
    left = [
        name
        for name in reasons
        if own.why_not(name, recorded=False) or own.failed(name)
    ]
    for name in left:
        print(f"not recorded, since this build has no result: {name}")
    for name in reasons:
        if name not in left:
            locked.take(own, name)
    return 1 if left else 0


def _kept_of(path: Path, run: Element) -> tuple[list[Element], bool]:
    """Return the results of a recorded run, if it had the same torch.

    And whether it holds some claims alone, as one does that is only begun.
    """
    if not path.exists():
        return [], True
    root = xml_of(path)
    then, now = (
        ChainMap(*map(properties_of, each.iter("testsuite")))
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


# -- Which tests, where not all are recorded ----------------------------------


def _tests_of(root: Path, module: Path, main: str) -> Iterator[str]:
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


def _claims_where(
    root: Path, is_chosen: Callable[[Test], object]
) -> list[str]:
    """Return the tests of the claims of which some test is chosen."""
    return [
        name
        for module in evidence_modules(root)
        for main in dict.fromkeys(
            each.of for each in tests_in(module).values() if is_chosen(each)
        )
        for name in _tests_of(root, module, main)
    ]


def changed_by(root: Path, limit: str) -> list[str]:
    """Return the tests of the claims that are true since some torch."""
    return _claims_where(
        root, lambda test: test.since and not older(limit, test.since[0])
    )


def _names_tests(options: list[str]) -> bool:
    return any(each.startswith("tests/") for each in options)


def claim_of(case: Element) -> tuple[str, str]:
    """Return the module and the main test of the claim of a result."""
    module, name = key_of(case)
    return module, name.partition("__")[0]


def not_renewed(
    kept: list[Element], new: list[Element], options: list[str]
) -> list[Element]:
    """Return those kept results whose place no new one takes.

    Of a module that was tested as a whole, no old result stays.
    """
    claims = {claim_of(case) for case in new}
    single = {
        each.partition("::")[0].removesuffix(".py").replace("/", ".")
        for each in options
        if "::" in each
    }
    whole = {module for module, _ in claims} - single
    return [
        case
        for case in kept
        if claim_of(case) not in claims and claim_of(case)[0] not in whole
    ]


def main() -> None:
    """Record into a folder; further options, and tests, go to pytest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--changed-by", metavar="TORCH")
    parser.add_argument("--cuda", action="store_true")
    chosen, options = parser.parse_known_args()
    if chosen.folder is None:
        raise SystemExit(renew(ROOT, chosen.check))
    if chosen.cuda:
        options += _claims_where(ROOT, lambda test: test.needs_cuda)
    if chosen.changed_by:
        options += changed_by(ROOT, chosen.changed_by)
    raise SystemExit(record(chosen.folder, options))


if __name__ == "__main__":
    in_one_line(main)
