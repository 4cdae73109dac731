"""Evidence for the house in miniature, as if its tests had run."""

from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from extensions.evidence.dependencies import CASES, DEPENDS_ON
from extensions.evidence.junit import OWN
from extensions.evidence.kept_results import KeptResults, Modules

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
    folder=OWN,
    suite=None,
    device="CPU",
    date=FACTS["date"],
    failures=None,
    failures_of=None,
    **outcomes,
):
    """Write the results of a run in which some tests did not pass.

    What counter-examples and limits note of their failures may be given, for
    all of them or by name. The run of this build goes where it stands; any
    other is one file, as pytest writes it.
    """
    failures_of = failures_of or {}
    failures = failures or {"edit": "-old\n+new", "said": "assert old == new"}
    tests, cases = Modules(house), {}
    for module in tests.modules:
        cases[module] = []
        for name, depends in tests.now(module).items():
            outcome, _, need = outcomes.get(name, "passed").partition(" for ")
            facts = {
                "date": date,
                "device": device,
                CASES: "1",
                DEPENDS_ON: depends,
            }
            if outcome == "skipped":
                del facts["device"]
            if need:
                facts["needs"] = need
            if "__" in name:
                facts |= failures_of.get(name, failures)
            cases[module].append(
                f'<testcase classname="{module}" name="{name}">'
                f"{properties(facts)}{ELEMENTS[outcome]}</testcase>"
            )
    facts = FACTS | (suite or {})
    if folder == OWN:
        kept = KeptResults(tests, OWN)
        for module, those in cases.items():
            run = ElementTree.fromstring(f"<run>{''.join(those)}</run>")
            kept.keep(module, facts | {"date": date}, list(run))
        return house / OWN
    path = house / folder / "tests.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(each for those in cases.values() for each in those)
    path.write_text(
        f'<testsuites>\n<testsuite name="pytest">\n{properties(facts)}'
        f"{lines}\n</testsuite>\n</testsuites>\n"
    )
    return path
