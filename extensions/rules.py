"""The rules of the house: what stands where, under which name.

Each rule yields the places where it is broken. The tests hold the rules on
this repository, and the build reports what breaks one.
"""

from __future__ import annotations

from extensions import corrections, page_rules, program_rules

RULES = (
    page_rules.pages_show_their_cells,
    page_rules.pages_hold_no_code,
    page_rules.pages_show_their_measurements,
    page_rules.pages_mirror_snippets,
    page_rules.claims_and_tests_pair_off,
    page_rules.tests_mirror_topics,
    program_rules.folders_have_headers,
    program_rules.folders_hold_programs_only,
    program_rules.programs_are_python,
    program_rules.snippets_stand_alone,
    program_rules.outputs_do_not_vary,
    corrections.corrections_name_claims,
)
