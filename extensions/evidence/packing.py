"""Pack a run, so that the repository can keep it: what pages show of it.

Tests that passed in all their cases become one; how a counter-example failed,
how long each took and the name of the host are left out.
"""

from __future__ import annotations

import gzip
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, tostring

from extensions.evidence.dependencies import DEPENDS_ON
from extensions.evidence.junit import (
    add_properties,
    key_of,
    outcome_of,
    properties_of,
)

# What the pages show of a recorded result.
_SHOWN = (
    DEPENDS_ON,
    "device",
    "date",
    "needs",
    "api since",
    "true since",
    "cell",
    "output",
)


def packed(run: Element) -> bytes:
    """Return a run as packed JUnit XML, the same for the same results."""
    suites = Element("testsuites")
    for suite in run.findall("testsuite"):
        kept = SubElement(suites, "testsuite", name=suite.get("name", ""))
        add_properties(kept, properties_of(suite))
        cases = sorted(suite.findall("testcase"), key=_order)
        for (module, _), group in groupby(cases, key=key_of):
            for case in _merged(list(group)):
                name = case.get("name", "")
                new = SubElement(kept, "testcase", classname=module, name=name)
                add_properties(new, _shown_of(case))
                _add_outcome(new, case)
    content: bytes = tostring(suites, encoding="utf-8", xml_declaration=True)
    return gzip.compress(content, mtime=0)


def _order(case: Element) -> tuple[str, str, str]:
    """Return what a case is sorted by."""
    return *key_of(case), case.get("name", "")


def _merged(cases: list[Element]) -> list[Element]:
    """Return the cases of one function, as one if they say the same."""
    said = {
        (outcome_of(case), tuple(_shown_of(case).items())) for case in cases
    }
    if len(said) > 1 or outcome_of(cases[0]) == "failed":
        return cases
    return cases[:1]


def _shown_of(case: Element) -> dict[str, str]:
    """Return the properties of a case that its page shows."""
    found = properties_of(case)
    return {key: found[key] for key in _SHOWN if key in found}


def _add_outcome(new: Element, case: Element) -> None:
    """Add why a test failed, in a line, or that it was skipped."""
    for each in case:
        if each.tag in {"failure", "error", "skipped"}:
            said = each.get("message", "").partition("\n")[0]
            SubElement(new, each.tag, message=said)
