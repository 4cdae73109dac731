"""Look for what no test notices: ``python -m tools.mutants``.

A mutant is the program of a topic with one change of meaning. The tests of the
topic, without its counter-examples, have to notice it: one that survives shows
what is tested nowhere, unless it means the same as the program.

Ends with 0, whatever survives, and with 2 if a topic could not be tried.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from extensions.core.files import Problem
from extensions.core.topics import ROOT, Topic, topics
from extensions.programs.snippet import Snippet
from tools.mutants.mutations import Mutation, mutations
from tools.mutants.runs import MutantRuns

# A process with threads of its own cannot be copied safely.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# That a test fails is enough: to explain two long lists can take minutes.
_OPTIONS = ["--assert=plain", "--tb=native", "-p", "no:cacheprovider"]
_LEAVING_OUT = {"delete statement", "return None"}


def chosen_topics(root: Path, names: list[str], since: str) -> list[Topic]:
    """Return the topics of some names, or all, or of them what changed."""
    found = topics(root)
    if lost := sorted(set(names) - {topic.name for topic in found}):
        message = f"no such topic: {', '.join(lost)}"
        raise Problem(root, 1, message)
    if names:
        found = [topic for topic in found if topic.name in names]
    if since:
        changed = _changed_since(root, since)
        found = [topic for topic in found if topic.snippet in changed]
    return found


def _changed_since(root: Path, revision: str) -> set[Path]:
    """Return the files that git knows and that differ from a revision."""
    command = ["git", "diff", "--name-only", "--relative", "-z", revision]
    done = subprocess.run(
        [*command, "--"], cwd=root, capture_output=True, text=True
    )
    if done.returncode:
        said = done.stderr.strip().partition("\n")[0]
        raise Problem(root, 1, f"git cannot compare: {said}")
    return {root / name for name in done.stdout.split("\0") if name}


def report_on_topic(
    topic: Topic, survivors: Callable[[Topic, list[Mutation]], list[Mutation]]
) -> None:
    """Print which mutants of a topic survive."""
    made = mutations(Snippet.read(topic.snippet))
    if not made:
        raise Problem(topic.snippet, 1, "nothing to mutate")
    if not topic.tests.exists():
        raise Problem(topic.snippet, 1, "no tests that could notice a mutant")
    left = survivors(topic, made)
    noticed = len(made) - len(left)
    survive = outermost(left)
    print(
        f"{topic.name}: {noticed + len(survive)} made, {noticed} noticed,"
        f" {len(survive)} survive"
    )
    path = topic.snippet.relative_to(topic.root)
    for mutation in survive:
        print(f"{path}:{mutation.line}: survives: {mutation}")


def outermost(survivors: Sequence[Mutation]) -> list[Mutation]:
    """Return the mutants but those within one that leaves more out.

    What is within a survivor cannot be noticed, and says no more.
    """
    out = [each for each in survivors if each.kind in _LEAVING_OUT]
    places = {(each.line, each.old) for each in out}
    return [
        each
        for each in survivors
        if each in out or (each.line, each.old) not in places
    ]


def _report_on_all(found: list[Topic]) -> int:
    """Try topics in one run of pytest; return the status."""
    statuses = []
    out = sys.stdout

    def use(runs: MutantRuns) -> None:
        for topic in found:
            with redirect_stdout(out):
                try:
                    report_on_topic(topic, runs.survivors)
                    statuses.append(0)
                except Problem as problem:
                    print(problem)
                    statuses.append(2)
                out.flush()

    # What a mutant that is ended leaves behind goes with the folder.
    with (
        tempfile.TemporaryDirectory() as folder,
        redirect_stdout(StringIO()),
        redirect_stderr(StringIO()),
    ):
        os.environ.update(_ONE_THREAD, TMPDIR=folder)
        tempfile.tempdir = folder
        modules = [str(topic.tests) for topic in found if topic.tests.exists()]
        status = pytest.main([*_OPTIONS, *modules], [MutantRuns(use)])
    if len(statuses) < len(found):
        said = pytest.ExitCode(status).name.lower()  # such as interrupted
        raise Problem(ROOT, 1, f"{said}: the topics above were tried")
    return max(statuses)


def main() -> int:
    """Try the topics that are chosen, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topics", nargs="*", help="only these")
    parser.add_argument(
        "--since",
        default="",
        metavar="REVISION",
        help="only those whose program differs from a revision of git",
    )
    chosen = parser.parse_args()
    try:
        found = chosen_topics(ROOT, chosen.topics, chosen.since)
        if found:
            return _report_on_all(found)
        print(f"no program has changed since {chosen.since}")
    except Problem as problem:
        print(problem)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
