"""Rules of claims: pages show their cells, and each claim has its tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from extensions.claims.corrections import correction_files, corrections_in
from extensions.claims.entry import Entry
from extensions.claims.ledger import Ledger
from extensions.claims.page import read_page
from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.core.topics import Topic, measured_topics, topics
from extensions.evidence.explanations import shows_nothing
from extensions.evidence.parsed_tests import test_of, tests_in
from extensions.programs.snippet import NAME, Snippet
from extensions.prose.rules import read_sources

# A heading for each text that the guide reorganizes, a row for each section.
_TEXTS = "docs/evidence/sources.md"
_ROW = re.compile(r'^"(.+?)", "\{doc\}', re.MULTILINE)
_TEST = "nox -s docs"  # what makes results that are missing or stale


def pages_show_their_cells(root: Path) -> Iterator[Problem]:
    """Yield where a page does not show each cell once, in file order."""
    for topic in topics(root):
        cells = Snippet.read(topic.snippet).cells()
        if topic.is_recipe:
            continue  # it shows itself
        if not topic.page.exists():
            yield Problem(topic.snippet, 1, f"no page {topic.name} shows it")
            continue
        order = list(cells)
        last = -1
        shown = set()
        for each in read_page(topic.page).cells:
            if each.name not in cells:
                continue  # the directive reports it
            if each.name in shown:
                message = f"cell {each.name!r} is shown a second time"
                yield Problem(topic.page, each.line, message)
            elif order.index(each.name) < last:
                message = f"cell {each.name!r} is shown out of file order"
                yield Problem(topic.page, each.line, message)
            last = max(last, order.index(each.name))
            shown.add(each.name)
        for cell in cells.values():
            if cell.name not in shown:
                message = f"no page shows cell {cell.name!r}"
                yield Problem(topic.snippet, cell.line, message)


def pages_hold_no_code(root: Path) -> Iterator[Problem]:
    """Yield where code stands on a page, where nothing runs it."""
    for path in sorted(root.glob("docs/**/*.md")):
        for line in read_page(path).code:
            message = "code on a page: move it into a snippet, show its cell"
            yield Problem(path, line, message)


def pages_mirror_snippets(root: Path) -> Iterator[Problem]:
    """Yield claims and cells on a page that no snippet stands behind."""
    known = {topic.page for topic in topics(root)}
    for path in sorted(root.glob("docs/**/*.md")):
        page = read_page(path)
        lines = [claim.line for claim in page.claims]
        lines += [cell.line for cell in page.cells]
        if path not in known and lines:
            name = path.relative_to(root / "docs").with_suffix("")
            message = f"claims or cells, and no snippets/{name}.py"
            yield Problem(path, min(lines), message)


def pages_show_their_measurements(root: Path) -> Iterator[Problem]:
    """Yield measurements that their page does not show."""
    for topic in measured_topics(root):
        if not read_page(topic.page).measured:
            shows = 'num="timings" in' if topic.is_recipe else "{measured} on"
            message = f"no {shows} {topic.name} shows it"
            yield Problem(topic.measurement, 1, message)


def claims_and_tests_pair_off(root: Path) -> Iterator[Problem]:
    """Yield claims without name, test or counter-example, and the reverse."""
    for topic in topics(root):
        tests = tests_in(topic.tests)
        module = topic.tests.relative_to(root)
        lines: dict[str, int] = {}
        countered = {each.of for each in tests.values() if each.is_counter}
        for claim in read_page(topic.page).claims:
            name, line = claim.name, claim.line
            test = test_of(name)
            if not NAME.fullmatch(name):
                message = (
                    f"malformed claim id {name!r}:"
                    " write lower-case words joined by hyphens"
                )
            elif name in lines:
                first = lines[name]
                message = f"claim {name!r} stands at line {first} already"
            elif test not in tests:
                message = f"claim {name!r} has no test {module}::{test}"
            elif not tests[test].docstring and test not in countered:
                message = (
                    f"claim {name!r} has no counter-example"
                    f" {module}::{test}__..., and the docstring of its test"
                    " does not say why there can be none"
                )
            else:
                message = ""
            lines.setdefault(name, line)
            if message:
                yield Problem(topic.page, line, message)
        known = {test_of(name) for name in lines}
        for each in tests.values():
            if each.of not in known:
                message = f"{each.name} has no claim on {topic.name}"
                yield Problem(topic.tests, each.line, message)


def failures_are_said(root: Path) -> Iterator[Problem]:
    """Yield counter-examples and limits without a docstring for the panel."""
    for topic in topics(root):
        for each in tests_in(topic.tests).values():
            if (each.is_counter or each.is_limit) and not each.docstring:
                message = (
                    f"{each.name} has no docstring: say in a sentence when"
                    " the claim is false"
                )
                yield Problem(topic.tests, each.line, message)


def evidence_stands(ledger: Ledger) -> Iterator[Problem]:
    """Yield claims that failed, or that no run decides."""
    reasons = {
        "missing": f"no result of {{test}}: run: {_TEST}",
        "skipped": "its test was skipped everywhere ({test})",
        "stale": f"what {{test}} depends on has changed: run: {_TEST}",
    }
    for entry in ledger.entries:
        test = entry.test.name if entry.test else test_of(entry.claim.name)
        reason = reasons.get(entry.verdict, "").format(test=test)
        if entry.verdict == "failed":
            reason = "; ".join(_failures(entry))
        if reason:
            message = f"claim {entry.claim.name!r}: {reason}"
            yield Problem(entry.topic.page, entry.claim.line, message)


def failures_show_values(ledger: Ledger) -> Iterator[Problem]:
    """Yield counter-examples and limits that show a reader only ``False``."""
    for entry in ledger.entries:
        for test in (*entry.counter_examples, *entry.limits):
            seen = entry.failures_of(test.name)
            if any(not e.prints and shows_nothing(e.said) for e in seen):
                message = (
                    f"{test.name}: {entry.claim.name!r} fails with no more"
                    " than True or False: compare values in its test"
                )
                yield Problem(entry.topic.tests, test.line, message)


def _failures(entry: Entry) -> Iterator[str]:
    """Yield which tests of a claim failed, and where each stands."""
    place = entry.topic.tests.relative_to(entry.topic.root).as_posix()
    failed = {name for each in entry.deciding for name in each.failed}
    empty = {name for each in entry.deciding for name in each.empty}
    if entry.test and entry.test.name in failed:
        yield f"its test failed: {place}:{entry.test.line}"
    for test in (*entry.counter_examples, *entry.variations, *entry.limits):
        where = f"{place}:{test.line} ({test.name})"
        if test.name in failed:
            yield f"its {test.kind} failed: {where}"
        elif test.name in empty:
            yield f"its {test.kind} saw no test fail: {where}"


def recaps_name_claims(root: Path) -> Iterator[Problem]:
    """Yield recaps of claims that neither the page nor the named one makes."""
    for path in sorted(root.glob("docs/**/*.md")):
        for each in read_page(path).recapped:
            page, _, name = each.name.rpartition("#")
            behind = read_page(Topic(root, page).page if page else path)
            if name not in {claim.name for claim in behind.claims}:
                of = page or "this page"
                message = f"a recap of no claim of {of}: {name!r}"
                yield Problem(path, each.line, message)


def exercises_name_counter_examples(root: Path) -> Iterator[Problem]:
    """Yield exercises that no counter-example of the page answers."""
    behind = {topic.page: topic.tests for topic in topics(root)}
    for path in sorted(root.glob("docs/**/*.md")):
        exercises = read_page(path).exercises
        tests = tests_in(behind[path]) if path in behind else {}
        known = {each.name for each in tests.values() if each.is_counter}
        for each in exercises:
            if test_of(each.name) not in known:
                message = f"an exercise of no counter-example: {each.name!r}"
                yield Problem(path, each.line, message)


def corrections_name_claims(root: Path) -> Iterator[Problem]:
    """Yield corrections that name no claim of their topic."""
    for path in correction_files(root):
        for row in corrections_in(root, path):
            claims = {each.name for each in read_page(row.topic.page).claims}
            if row.claim not in claims:
                message = f"{row.topic.name} has no claim {row.claim!r}"
                yield Problem(path, row.lines["claim"], message)


def corrections_name_sections(root: Path) -> Iterator[Problem]:
    """Yield corrections that name no source, or no section of it.

    A source is one of the texts, or a primary one, whose sections are pages.
    """
    sections = _sections_of_texts(root / _TEXTS)
    sections |= {each.name: {*each.pages} for each in read_sources(root)}
    for path in correction_files(root):
        for row in corrections_in(root, path):
            if row.source not in sections:
                message = f"{_TEXTS} has no source {row.source!r}"
                yield Problem(path, row.lines["source"], message)
            elif row.section not in sections[row.source]:
                message = f"{row.source!r} has no section {row.section!r}"
                yield Problem(path, row.lines["section"], message)


def _sections_of_texts(path: Path) -> dict[str, set[str]]:
    """Return the sections of each text on the page of the texts."""
    _, *texts = text_of(path).split("\n## ") if path.exists() else [""]
    return {each.partition("\n")[0]: {*_ROW.findall(each)} for each in texts}
