"""Rules of the project, held by the tests and at every build.

Each rule is a function that yields a :class:`Problem` for each place where it
is broken. The packages bring their rules; here they are put in order.

A file that cannot be read ends a build before any program runs, in a line that
names it, and the site of the last build stays as it is. What breaks another
rule is reported, at its file and line.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.typing import ExtensionMetadata

from extensions.claims import rules as claim_rules
from extensions.claims import sphinx_summaries
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.files import Problem
from extensions.evidence import rules as test_rules
from extensions.evidence.junit import unreadable_runs
from extensions.evidence.sphinx_runs import folders_of
from extensions.lint import file_rules
from extensions.programs import outputs as program_rules
from extensions.prose import rules as prose_rules
from extensions.site.dependencies import root_of
from extensions.site.errors import report, stop
from extensions.site.metadata import METADATA

# Without these no program can run and no page can be built.
FIRST_RULES = (file_rules.files_are_whole, file_rules.folders_have_headers)
# These hold once every file can be read.
LATER_RULES = (
    claim_rules.pages_show_their_cells,
    claim_rules.pages_hold_no_code,
    claim_rules.pages_mirror_snippets,
    claim_rules.claims_and_tests_pair_off,
    test_rules.tests_mirror_topics,
    test_rules.tests_import_what_is_everywhere,
    test_rules.counter_examples_are_honest,
    prose_rules.fronts_name_pages,
    prose_rules.phrases_add_words,
    file_rules.indexes_answer,
    prose_rules.pages_have_their_sections,
    prose_rules.sentences_stand_alone,
    prose_rules.citations_are_primary,
    program_rules.topics_have_plain_names,
    program_rules.snippets_stand_alone,
    program_rules.outputs_do_not_vary,
    sphinx_summaries.corrections_stand,
)
RULES = FIRST_RULES + LATER_RULES


def problems_of(
    root: Path, rules: Iterable[Callable[[Path], Iterator[Problem]]]
) -> Iterator[Problem]:
    """Yield what breaks some rules in the project at a folder."""
    for rule in rules:
        # At a file that cannot be read: one of the first rules reports it.
        with suppress(Problem):
            yield from rule(root)


def _hold_first_rules(app: Sphinx, config: Config) -> None:
    if broken := [*problems_of(Path(app.srcdir).parent, FIRST_RULES)]:
        stop(broken)


def _hold_later_rules(app: Sphinx) -> None:
    root, folders = root_of(app.env), folders_of(app.env)
    ledger, unreadable = ledger_of(app), unreadable_runs(folders)
    broken = [*unreadable, *problems_of(root, LATER_RULES)]
    if ledger.own_run:
        broken += claim_rules.evidence_stands(ledger)
        broken += claim_rules.failures_show_values(ledger)
    elif not unreadable:
        message = "no run of the tests: run them first"
        broken.append(Problem(folders[0], 1, message))
    for problem in broken:
        report(problem)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Hold the rules at every build: the later ones once pages are known."""
    app.connect("config-inited", _hold_first_rules)
    app.connect("builder-inited", _hold_later_rules)
    return METADATA
