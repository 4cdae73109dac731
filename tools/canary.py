"""Say which sentences the installed torch makes false.

``python -m tools.canary REPORT.md`` tests all claims, on the
nightly build of torch for example, and writes each that fails into a report in
Markdown: the sentence, its page, the test, and what that said. Further options
go to pytest; with ``tests/models`` only that chapter is tested. Ends with 0
and without a report if all is well, 1 with a report, 2 if nothing was tested.
"""

import argparse
from collections import Counter
from itertools import groupby
from pathlib import Path
from xml.etree.ElementTree import Element

from extensions.claims.page import read_page
from extensions.core.files import Problem, in_one_line, remove, write
from extensions.core.topics import ROOT, topics
from extensions.evidence.junit import key_of, outcome_of, properties_of
from extensions.evidence.outcomes import module_of
from extensions.evidence.parsed_tests import test_of
from extensions.evidence.record import claim_of, run_of_claims

_FENCE = "~~~"  # for what is said in Markdown, too
_MOST = 12  # lines of what pytest says of a failure


def _report_in_markdown(root: Path, run: Element) -> str:
    claims = {
        (module_of(topic), test_of(claim.name)): (topic, claim)
        for topic in topics(root)
        for claim in read_page(topic.page).claims
    }
    cases = [*run.iter("testcase")]
    [suite] = run.iter("testsuite")
    said = Counter(map(outcome_of, cases))
    parts = [
        f"# torch {properties_of(suite)['torch']} makes sentences false",
        f"Tests: {said['failed']} failed, {said['passed']} passed,"
        f" {said['skipped']} skipped.",
    ]
    failed = [each for each in cases if outcome_of(each) == "failed"]
    for key, those in groupby(sorted(failed, key=key_of), claim_of):
        if key in claims:
            topic, claim = claims[key]
            page = topic.page.relative_to(root).as_posix()
            parts.append(f"> {claim.sentence}")
            parts.append(f"`{page}#{claim.name}`, line {claim.line}")
        parts += [_failure(*alike) for _, alike in groupby(those, key_of)]
    return "\n\n".join(parts) + "\n"


def _failure(first: Element, *more: Element) -> str:
    others = f", and {len(more)} more" if more else ""
    [said, *_] = [each for each in first if each.tag in {"failure", "error"}]
    text = (said.text or said.get("message") or "").strip()
    block = "\n".join([_FENCE, *text.splitlines()[-_MOST:], _FENCE])
    # A module that cannot be loaded is a test of that name, of no module.
    test = "::".join(filter(None, map(first.get, ("classname", "name"))))
    return f"`{test}`{others}:\n\n{block}"


def canary(report: Path, options: list[str]) -> int:
    """Test all claims, write or remove the report, return the status."""
    passed, run = run_of_claims(options)
    outcomes = {outcome_of(case) for case in run.iter("testcase")}
    if passed and "passed" not in outcomes:
        raise Problem(report, 1, "every test was skipped: as before")
    if not passed and "failed" not in outcomes:
        raise Problem(report, 1, "pytest failed, but no test: as before")
    if passed:
        remove(report)
        return 0
    write(report, _report_in_markdown(ROOT, run))
    print(f"sentences are about to become false: {report}")
    return 1


def main() -> None:
    """Report on the installed torch; further options go to pytest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="where the report goes")
    chosen, options = parser.parse_known_args()
    raise SystemExit(canary(chosen.report, options))


if __name__ == "__main__":
    in_one_line(main)
