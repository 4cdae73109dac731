"""Evidence for the house in miniature, as if its tests had run."""

from pathlib import Path
from xml.sax.saxutils import quoteattr

from extensions.core.topics import topics
from extensions.evidence.dependencies import CASES, DEPENDS_ON, Dependencies
from extensions.evidence.fingerprints import FINGERPRINT, fingerprints
from extensions.evidence.modules import classname, evidence_modules
from extensions.evidence.parsed_tests import tests_in

HOUSE = Path(__file__).parents[1] / "extensions/house"
FACTS = {
    "torch": "2.13.0",
    "python": "3.11.7",
    "machine": "x86_64",
    "date": "2026-01-31",
}
ELEMENTS = {
    "passed": "",
    "failed": '<failure message="assert" />',
    "skipped": '<skipped message="why" />',
}


def properties(values):
    """Return properties as pytest writes them."""
    items = [
        f"<property name={quoteattr(name)} value={quoteattr(value)} />"
        for name, value in values.items()
    ]
    return f"<properties>{''.join(items)}</properties>"


def record(
    house,
    folder="build/evidence/this-build",
    suite=None,
    device="CPU",
    date=FACTS["date"],
    failures=None,
    failures_of=None,
    **outcomes,
):
    """Write the JUnit file of a run in which some tests did not pass.

    What counter-examples and limits note of their failures may be given, for
    all of them or by name.
    """
    failures_of = failures_of or {}
    failures = failures or {"edit": "-old\n+new", "said": "assert old == new"}
    cases = []
    found = fingerprints(house, evidence_modules(house))
    for topic in topics(house):
        if not topic.tests.exists():
            continue
        module = classname(house, topic.tests)
        fingerprint = {FINGERPRINT: found[module].digest}
        depends = Dependencies(topic)
        for name in tests_in(topic.tests):
            outcome, _, need = outcomes.get(name, "passed").partition(" for ")
            facts = {
                "date": date,
                "device": device,
                CASES: "1",
                DEPENDS_ON: depends.of(name),
            }
            if outcome == "skipped":
                del facts["device"]
            if need:
                facts["needs"] = need
            if "__" in name:
                facts |= failures_of.get(name, failures)
            cases.append(
                f'<testcase classname="{module}" name="{name}">'
                f"{properties(fingerprint | facts)}"
                f"{ELEMENTS[outcome]}</testcase>"
            )
    path = house / folder / "tests.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    suite = properties(FACTS | (suite or {})) + "\n".join(cases)
    path.write_text(
        f'<testsuites>\n<testsuite name="pytest">\n{suite}\n'
        "</testsuite>\n</testsuites>\n"
    )
    return path
