"""The rules of the house: what stands where, under which name.

Each rule yields the places where it is broken. The tests hold the rules on
this repository, and the build reports what breaks one.
"""

from __future__ import annotations

from extensions.rules import (
    of_corrections,
    of_notebooks,
    of_pages,
    of_programs,
)

RULES = (
    of_pages.pages_show_their_cells,
    of_pages.pages_hold_no_code,
    of_pages.pages_show_their_measurements,
    of_pages.pages_mirror_snippets,
    of_pages.claims_and_tests_pair_off,
    of_pages.tests_mirror_topics,
    of_programs.folders_have_headers,
    of_programs.folders_hold_programs_only,
    of_programs.programs_are_python,
    of_programs.snippets_stand_alone,
    of_programs.outputs_do_not_vary,
    of_corrections.corrections_name_claims,
    of_notebooks.notebooks_show_their_pages,
)
