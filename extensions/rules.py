"""The rules of the house: what stands where, under which name.

Each rule yields the places where it is broken. The tests hold the rules on
this repository, and the build reports what breaks one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from extensions.ledger import Ledger, test_of, tests_in, tree_of
from extensions.outputs import outputs_in
from extensions.pages import read_page
from extensions.problem import Problem
from extensions.snippets import NAME, Snippet
from extensions.topics import topic_of_tests, topics

HEADER = "GALLERY_HEADER.rst"

# Where sphinx-gallery put a picture: a path of the site, not an output.
IMAGE = re.compile(r"^ *\.\. image::.*\n", re.MULTILINE)

# What an output may not show, because it differs from run to run.
VARYING = {
    "a memory address": re.compile(r"\b0x[0-9a-f]{6,}\b"),
    "an absolute path": re.compile(r"(?<![\w./:])/(?:[\w.-]+/)+[\w.-]+"),
    "a date": re.compile(r"\b20\d\d-\d\d-\d\d\b"),
    "a duration": re.compile(r"\b\d+(?:\.\d+)? ?(?:[mnuµ]s|s|seconds)\b"),
}


def pages_show_their_cells(root: Path) -> Iterator[Problem]:
    """Yield where a page does not show each cell once, in file order."""
    for topic in topics(root):
        try:
            cells = Snippet.read(topic.snippet).cells()
        except Problem as problem:
            yield problem
            continue
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


def claims_and_tests_pair_off(root: Path) -> Iterator[Problem]:
    """Yield claims without name, test or counter-example, and the reverse."""
    for topic in topics(root):
        tests = tests_in(topic.tests)
        module = topic.tests.relative_to(root)
        lines: dict[str, int] = {}
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
            elif not tests[test].docstring and not any(
                each.startswith(f"{test}__") for each in tests
            ):
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
            if each.name.partition("__")[0] not in known:
                message = f"{each.name} has no claim on {topic.name}"
                yield Problem(topic.tests, each.line, message)


def tests_mirror_topics(root: Path) -> Iterator[Problem]:
    """Yield test modules in a chapter's folder that mirror no topic."""
    chapters = {topic.chapter for topic in topics(root)}
    for path in sorted(root.glob("tests/*/**/test_*.py")):
        topic = topic_of_tests(root, path)
        if topic.chapter in chapters and not topic.snippet.exists():
            snippet = topic.snippet.relative_to(root)
            yield Problem(path, 1, f"mirrors no snippet {snippet}")


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


def folders_have_headers(root: Path) -> Iterator[Problem]:
    """Yield folders of programs that sphinx-gallery would pass over."""
    folders = {path.parent for path in root.glob("snippets/**/*.py")}
    folders |= {path.parent for path in root.glob("gallery/*.py")}
    folders |= {root / "snippets"} if folders else set()
    for folder in sorted(folders):
        if not (folder / HEADER).exists():
            message = f"missing gallery header: {HEADER} gives the title"
            yield Problem(folder / HEADER, 1, message)


def folders_hold_programs_only(root: Path) -> Iterator[Problem]:
    """Yield files beside the programs that a program may have left."""
    for folder in ("snippets", "gallery"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix != ".py" and path.name != HEADER:
                if "__pycache__" in path.parts:
                    continue
                message = "not a program: did a snippet leave it behind?"
                yield Problem(path, 1, message)


def programs_are_python(root: Path) -> Iterator[Problem]:
    """Yield programs and tests that do not parse."""
    for topic in topics(root):
        for path in (topic.snippet, topic.tests):
            try:
                ast.parse(path.read_bytes() if path.exists() else b"")
            except SyntaxError as error:
                yield Problem(path, error.lineno or 1, f"{error.msg}")


def snippets_stand_alone(root: Path) -> Iterator[Problem]:
    """Yield asserts, exits and imports of ours in readers' programs."""
    for topic in topics(root):
        for node in ast.walk(tree_of(topic.snippet)):
            if isinstance(node, ast.Assert):
                message = "an assert in a snippet: write a test instead"
                yield Problem(topic.snippet, node.lineno, message)
            elif isinstance(node, ast.Call):
                # It would end the build as well, without a site or an error.
                if ast.unparse(node.func) in {"exit", "quit", "sys.exit"}:
                    message = "a snippet may not end the program"
                    yield Problem(topic.snippet, node.lineno, message)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                module = getattr(node, "module", None)
                names = [module or each.name for each in node.names]
                for name in names:
                    if name.partition(".")[0] in {"extensions", "tests"}:
                        message = f"imports {name}, which no reader has"
                        yield Problem(topic.snippet, node.lineno, message)


def outputs_do_not_vary(root: Path) -> Iterator[Problem]:
    """Yield outputs of the last build that will differ in the next."""
    for topic in topics(root):
        if not topic.output.exists():
            continue
        text = topic.output.read_text(encoding="utf-8")
        for line, output in outputs_in(text).items():
            output = IMAGE.sub("", output)
            for what, pattern in VARYING.items():
                if found := pattern.search(output):
                    message = f"an output shows {what}: {found[0]!r}"
                    yield Problem(topic.snippet, line, message)


def evidence_stands(ledger: Ledger) -> Iterator[Problem]:
    """Yield claims that failed, or that no run decides."""
    reasons = {
        "failed": "its test failed",
        "missing": "it is not in the evidence",
        "skipped": "its test was skipped everywhere",
        "stale": "its evidence is stale",
    }
    for entry in ledger.entries:
        if reason := reasons.get(entry.verdict):
            test = entry.test.name if entry.test else test_of(entry.claim.name)
            message = f"claim {entry.claim.name!r}: {reason} ({test})"
            yield Problem(entry.topic.page, entry.claim.line, message)


RULES = (
    pages_show_their_cells,
    pages_hold_no_code,
    pages_mirror_snippets,
    claims_and_tests_pair_off,
    tests_mirror_topics,
    folders_have_headers,
    folders_hold_programs_only,
    programs_are_python,
    snippets_stand_alone,
    outputs_do_not_vary,
)
