"""Rules of the project, held by the tests and at every build.

Each rule is a function that yields a :class:`Problem` for each place where it
is broken. The packages bring their rules; here they are put in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.claims import rules as claim_rules
from extensions.core.problem import Problem
from extensions.evidence import rules as test_rules
from extensions.lint import file_rules
from extensions.programs import rules as program_rules
from extensions.prose import rules as prose_rules

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

_Rule = Callable[[Path], Iterator[Problem]]


def _of_whole_files(rule: _Rule) -> _Rule:
    # A file that cannot be read ends the rule: one of the first reports it.
    @wraps(rule)
    def held(root: Path) -> Iterator[Problem]:
        with suppress(Problem):
            yield from rule(root)

    return held


# Without these no program can run and no page can be built.
FIRST_RULES = (file_rules.files_are_whole, file_rules.folders_have_headers)
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
            claim_rules.failures_are_said,
            test_rules.tests_mirror_topics,
            test_rules.tests_import_what_is_everywhere,
            test_rules.counter_examples_are_honest,
            prose_rules.fronts_name_pages,
            prose_rules.phrases_add_words,
            file_rules.pages_are_listed,
            file_rules.indexes_answer,
            prose_rules.pages_have_their_sections,
            prose_rules.sentences_stand_alone,
            prose_rules.citations_are_primary,
            claim_rules.recaps_name_claims,
            claim_rules.exercises_name_counter_examples,
            program_rules.topics_have_plain_names,
            program_rules.folders_hold_programs_only,
            program_rules.snippets_stand_alone,
            program_rules.outputs_do_not_vary,
            claim_rules.corrections_name_claims,
            claim_rules.corrections_name_sections,
        ),
    ),
)
RULES = (*FIRST_RULES, *LATER_RULES)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Hold the rules at every build."""
    from extensions.build.metadata import METADATA
    from extensions.lint import sphinx_rules

    app.connect("config-inited", sphinx_rules.hold_first_rules)
    app.connect("builder-inited", sphinx_rules.hold_later_rules)
    return METADATA
