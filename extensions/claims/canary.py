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
from itertools import groupby
from pathlib import Path
from xml.etree.ElementTree import Element

from extensions.claims.claim import Claim
from extensions.claims.failed_claims import (
    FailedClaim,
    FailedClaims,
    UnloadedModule,
    failed_claims_in,
)
from extensions.core.command_line import in_one_line
from extensions.core.problem import Problem
from extensions.core.topics import ROOT, Topic
from extensions.core.writing import remove, write
from extensions.evidence.failed_tests import Failed
from extensions.evidence.junit import outcome_of, properties_of
from extensions.evidence.record import run_of_claims

_FENCE = "~~~"  # for what is said in Markdown, too


def _counted(number: int, word: str) -> str:
    """Return a number of things in words."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _page_of(topic: Topic) -> str:
    """Return the path of a page in the project."""
    return topic.page.relative_to(topic.root).as_posix()


def _tested_and_counted(run: Element, found: FailedClaims) -> Iterator[str]:
    """Yield what was tested, on what, and how it went in numbers."""
    suite = run.find("testsuite")
    facts = {} if suite is None else properties_of(suite)
    torch, python, system, machine, date = (
        facts.get(name, "unknown")
        for name in ("torch", "python", "system", "machine", "date")
    )
    said = Counter(map(outcome_of, run.iter("testcase")))
    broken = _counted(len(found.claims), "sentence")
    yield f"# torch {torch} makes {broken} false"
    yield f"Python {python}, {system} {machine}, {date}."
    lost = sum(len(each.claims) for each in found.unloaded)
    yield (
        f"Claims: {len(found.claims)} false, {found.held} true,"
        f" {found.skipped} skipped,"
        f" {lost} in {_counted(len(found.unloaded), 'module')} that cannot be"
        " loaded.\n"
        f"Tests: {said['failed']} failed, {said['passed']} passed,"
        f" {said['skipped']} skipped."
    )


def _quoted_claim(topic: Topic, claim: Claim) -> str:
    """Return the sentence of a claim, and where it stands."""
    place = f"{_page_of(topic)}#{claim.name}"
    return f"> {claim.sentence}\n\n`{place}`, line {claim.line}"


def _verbatim(lines: tuple[str, ...]) -> str:
    """Return what pytest said as a block of text."""
    return "\n".join([_FENCE, *lines, _FENCE])


def _lines_of_test(failed: Failed) -> Iterator[str]:
    """Yield which test failed, and what it said."""
    more = f", and {_counted(failed.more, 'case')} more" if failed.more else ""
    kind = f"{failed.kind} ".lstrip().capitalize()
    yield f"{kind}`{failed.place}`, `{failed.name}`{more}:"
    yield _verbatim(failed.said)


def _lines_of_module(unloaded: UnloadedModule) -> Iterator[str]:
    """Yield why the tests of a page could not be loaded, and what they keep.

    Whether the sentences are true is open.
    """
    topic = unloaded.topic
    module = topic.tests.relative_to(topic.root).as_posix()
    yield f"`{module}` cannot be loaded, so that no sentence was tested:"
    yield _verbatim(unloaded.said)
    for claim in unloaded.claims:
        yield _quoted_claim(topic, claim)


def _report_in_markdown(run: Element, found: FailedClaims) -> str:
    """Return the report in Markdown, page by page."""

    def page(broken: FailedClaim) -> str:
        return _page_of(broken.topic)

    parts = [*_tested_and_counted(run, found)]
    for name, group in groupby(found.claims, key=page):
        parts.append(f"## {name}")
        for broken in group:
            parts.append(_quoted_claim(broken.topic, broken.claim))
            for failed in broken.failures:
                parts += _lines_of_test(failed)
    for unloaded in found.unloaded:
        parts += [
            f"## {_page_of(unloaded.topic)}",
            *_lines_of_module(unloaded),
        ]
    if found.others:
        parts.append("## Tests behind which no sentence stands")
        for failed in found.others:
            parts += _lines_of_test(failed)
    return "\n\n".join(parts) + "\n"


def canary(report: Path, options: list[str]) -> int:
    """Test all claims, write or remove the report, return the status."""
    status, run = run_of_claims(options, report)
    outcomes = {outcome_of(case) for case in run.iter("testcase")}
    if status == 0 and "passed" not in outcomes:
        raise Problem(report, 1, "every test was skipped: as before")
    if status and "failed" not in outcomes:
        raise Problem(report, 1, "pytest failed, but no test: as before")
    if status == 0:
        remove(report)
    else:
        write(report, _report_in_markdown(run, failed_claims_in(ROOT, run)))
        print(f"sentences are about to become false: {report}")
    return status


def main() -> None:
    """Report on the installed torch; further options go to pytest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="where the report goes")
    chosen, options = parser.parse_known_args()
    raise SystemExit(canary(chosen.report, options))


if __name__ == "__main__":
    in_one_line(main)
