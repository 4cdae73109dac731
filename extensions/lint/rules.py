"""The rules of the project: what stands where, under which name.

Each rule yields the places where it is broken. The tests hold the rules on
this repository, and the build reports what breaks one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path

from extensions.claims import corrections
from extensions.claims import rules as claim_rules
from extensions.core.files import Problem
from extensions.evidence import rules as test_rules
from extensions.lint import file_rules
from extensions.programs import outputs as program_rules
from extensions.prose import lists
from extensions.prose import rules as prose_rules

_Rule = Callable[[Path], Iterator[Problem]]


def _of_whole_files(rule: _Rule) -> _Rule:
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
    file_rules.programs_are_whole,
    file_rules.folders_have_headers,
    file_rules.tests_are_python,
    file_rules.pages_are_text,
    file_rules.workloads_are_said,
    file_rules.recordings_are_whole,
    file_rules.corrections_are_whole,
    file_rules.sources_are_whole,
    file_rules.synonyms_are_whole,
)
# These hold once every file can be read.
LATER_RULES = tuple(
    map(
        _of_whole_files,
        (
            claim_rules.pages_show_their_cells,
            claim_rules.pages_hold_no_code,
            claim_rules.pages_show_their_measurements,
            claim_rules.pages_mirror_snippets,
            claim_rules.claims_and_tests_pair_off,
            test_rules.tests_mirror_topics,
            test_rules.tests_import_what_is_everywhere,
            test_rules.counter_examples_are_honest,
            prose_rules.fronts_name_pages,
            lists.phrases_add_words,
            file_rules.pages_are_listed,
            file_rules.indexes_answer,
            prose_rules.pages_have_their_sections,
            prose_rules.sentences_stand_alone,
            prose_rules.citations_are_primary,
            claim_rules.recaps_name_claims,
            claim_rules.exercises_name_counter_examples,
            program_rules.topics_have_plain_names,
            program_rules.snippets_stand_alone,
            program_rules.outputs_do_not_vary,
            corrections.corrections_name_claims,
            corrections.corrections_name_sections,
        ),
    ),
)
RULES = (*FIRST_RULES, *LATER_RULES)
