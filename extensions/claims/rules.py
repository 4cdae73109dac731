"""Rules of claims: pages show their cells, and each claim has its tests."""

from collections.abc import Iterator
from pathlib import Path

from extensions.claims.ledger import Entry, Ledger
from extensions.claims.page import read_page
from extensions.core.files import Problem
from extensions.core.topics import topics
from extensions.evidence.explanations import shows_nothing
from extensions.evidence.parsed_tests import test_of, tests_in
from extensions.programs.snippet import NAME, Snippet

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
        shown: list[str] = []
        for each in read_page(topic.page).cells:
            if each.name not in cells:
                continue  # the directive reports it
            message = ""
            if each.name in shown:
                message = f"cell {each.name!r} is shown a second time"
            elif {*order[order.index(each.name) :]} & {*shown}:
                message = f"cell {each.name!r} is shown out of file order"
            if message:
                yield Problem(topic.page, each.line, message)
            shown.append(each.name)
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


def claims_and_tests_pair_off(root: Path) -> Iterator[Problem]:
    """Yield claims without name, test or counter-example, and the reverse.

    A panel shows the docstring of a counter-example, or of a limit.
    """
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
            elif (each.is_counter or each.is_limit) and not each.docstring:
                message = (
                    f"{each.name} has no docstring: say in a sentence when"
                    " the claim is false"
                )
            else:
                continue
            yield Problem(topic.tests, each.line, message)


def evidence_stands(ledger: Ledger) -> Iterator[Problem]:
    """Yield claims that failed, or that no run decides.

    What this build cannot test may have been recorded: a claim is lost if a
    recorded run decides others of its topic that need the same.
    """
    decided = {
        (entry.topic, entry.own.needs)
        for entry in ledger.entries
        if entry.own and entry.verdict != "not run"
    }
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
        elif entry.needs and (entry.topic, entry.needs) in decided:
            reason = f"{test} was not recorded where others of its topic were"
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
    place = entry.topic.tests.relative_to(entry.topic.root).as_posix()
    deciding = entry.elsewhere
    if entry.own and entry.own.word != "not run":
        deciding = (entry.own,)
    failed = {name for each in deciding for name in each.failed}
    empty = {name for each in deciding for name in each.empty}
    own = (entry.test,) if entry.test else ()
    more = (*entry.counter_examples, *entry.variations, *entry.limits)
    for test in (*own, *more):
        where = f"{place}:{test.line} ({test.name})"
        if test.name in failed:
            yield f"its {test.kind} failed: {where}"
        elif test.name in empty:
            yield f"its {test.kind} saw no test fail: {where}"
