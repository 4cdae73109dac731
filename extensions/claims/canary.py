"""Say which sentences the installed torch makes false.

``python -m extensions.claims.canary REPORT.md`` tests all claims, on the
nightly build of torch for example, and writes each that fails into a report in
Markdown: the sentence, its page, the test, and what that said. Further options
go to pytest; with ``tests/models`` only that chapter is tested. Ends with 0
and without a report if all is well, 1 with a report, 2 if nothing was tested.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from extensions.claims.page import read_page
from extensions.core.files import Problem, in_one_line, remove, write
from extensions.core.topics import ROOT, Topic, topics
from extensions.evidence.junit import key_of, outcome_of, properties_of
from extensions.evidence.outcomes import module_of
from extensions.evidence.parsed_tests import test_of, tests_in
from extensions.evidence.record import run_of_claims

_FENCE = "~~~"  # for what is said in Markdown, too
_MOST = 12  # lines of what pytest says of a failure

# By module and test: its failed cases.
_Failed = dict[tuple[str, str], list[Element]]


def _report_in_markdown(root: Path, run: Element) -> str:
    failed: _Failed = {}
    for case in run.iter("testcase"):
        if outcome_of(case) == "failed":
            failed.setdefault(key_of(case), []).append(case)
    pages = [part for topic in topics(root) for part in _page(topic, failed)]
    if failed:
        pages.append("## Tests behind which no sentence stands")
        for (module, _), cases in failed.items():
            pages.append(_failure(f"`{module}`", cases))
    [suite] = run.iter("testsuite")
    said = Counter(map(outcome_of, run.iter("testcase")))
    title = f"# torch {properties_of(suite)['torch']} makes sentences false"
    counts = (
        f"Tests: {said['failed']} failed, {said['passed']} passed,"
        f" {said['skipped']} skipped."
    )
    return "\n\n".join([title, counts, *pages]) + "\n"


def _page(topic: Topic, failed: _Failed) -> Iterator[str]:
    """Yield the sentences of a page that became false, and by which tests.

    What is told is taken out of what failed. Where the tests cannot be
    loaded, whether the sentences are true is open.
    """
    module, tests = module_of(topic), tests_in(topic.tests)
    page = topic.page.relative_to(topic.root).as_posix()
    place = topic.tests.relative_to(topic.root).as_posix()
    parts: list[str] = []
    # pytest reports a module that it cannot load as a test of that name.
    unloaded = failed.pop(("", module), [])
    if unloaded:
        parts.append(_failure(f"`{place}` cannot be loaded", unloaded))
    for claim in read_page(topic.page).claims:
        failures = [
            _failure(f"{test.kind.capitalize()} `{place}:{test.line}`", cases)
            for test in tests.values()
            if test.of == test_of(claim.name)
            if (cases := failed.pop((module, test.name), []))
        ]
        if failures or unloaded:
            parts.append(f"> {claim.sentence}")
            parts.append(f"`{page}#{claim.name}`, line {claim.line}")
        parts += failures
    if parts:
        yield from [f"## {page}", *parts]


def _failure(what: str, cases: list[Element]) -> str:
    """Return which test failed, and how pytest's words on it end."""
    first, *more = cases
    others = f", and {len(more)} more" if more else ""
    [said, *_] = [each for each in first if each.tag in {"failure", "error"}]
    text = (said.text or said.get("message") or "").strip()
    block = "\n".join([_FENCE, *text.splitlines()[-_MOST:], _FENCE])
    return f"{what}, `{first.get('name')}`{others}:\n\n{block}"


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
