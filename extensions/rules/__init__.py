"""The rules of the house: what stands where, under which name.

Each rule yields the places where it is broken. The tests hold the rules on
this repository, and the build reports what breaks one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path

from extensions.files.problem import Problem
from extensions.rules import (
    of_corrections,
    of_files,
    of_fronts,
    of_pages,
    of_programs,
    of_sentences,
    of_shown,
    of_tests,
)

Rule = Callable[[Path], Iterator[Problem]]


def of_whole_files(rule: Rule) -> Rule:
    """Return the rule, which then ends at a file that cannot be read.

    One of the first rules reports that file.
    """

    @wraps(rule)
    def held(root: Path) -> Iterator[Problem]:
        with suppress(Problem):
            yield from rule(root)

    return held


# Without these no program can run and no page can be built.
FIRST_RULES = (
    of_files.programs_are_whole,
    of_files.folders_have_headers,
    of_files.tests_are_python,
    of_files.pages_are_text,
    of_files.workloads_are_said,
    of_files.recordings_are_whole,
    of_files.corrections_are_whole,
    of_files.sources_are_whole,
    of_files.texts_are_whole,
)
# These hold of a house that can be read as a whole.
LATER_RULES = (
    of_whole_files(of_pages.pages_show_their_cells),
    of_whole_files(of_pages.pages_hold_no_code),
    of_whole_files(of_pages.pages_show_their_measurements),
    of_whole_files(of_pages.pages_mirror_snippets),
    of_whole_files(of_pages.claims_and_tests_pair_off),
    of_whole_files(of_tests.tests_mirror_topics),
    of_whole_files(of_tests.counter_examples_are_honest),
    of_whole_files(of_fronts.fronts_name_pages),
    of_whole_files(of_sentences.sentences_stand_alone),
    of_whole_files(of_sentences.citations_are_primary),
    of_whole_files(of_shown.recaps_name_claims),
    of_whole_files(of_shown.exercises_name_counter_examples),
    of_whole_files(of_programs.topics_have_plain_names),
    of_whole_files(of_programs.folders_hold_programs_only),
    of_whole_files(of_programs.snippets_stand_alone),
    of_whole_files(of_programs.outputs_do_not_vary),
    of_whole_files(of_corrections.corrections_name_claims),
    of_whole_files(of_corrections.corrections_name_sections),
)
RULES = (*FIRST_RULES, *LATER_RULES)
