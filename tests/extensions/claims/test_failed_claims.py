"""The claims that a run found false, and by which tests."""

from xml.etree import ElementTree

from extensions.claims.failed_claims import failed_claims_in
from extensions.core.reading import xml_of
from extensions.core.topics import Topic
from tests.helpers.evidence import record

LOST = """
<testcase classname="" name="tests.part.test_two">
<error message="collection failure">Traceback:
test_two.py:1: in the module
    import lost
E   ModuleNotFoundError: No module named 'lost'</error></testcase>
"""
STRANGE = """
<testcase classname="tests.test_cuda_cells" name="test_a_cell[a]">
<failure message="one" /></testcase>
"""


def breaks(house, more="", without="", **outcomes):
    """Return what a run of the house found, with some cases besides."""
    run = xml_of(record(house, **outcomes))
    suite = run.find("testsuite")
    for case in suite.findall("testcase"):
        if without and case.get("classname") == without:
            suite.remove(case)
    suite.extend(ElementTree.fromstring(f"<cases>{more}</cases>"))
    return failed_claims_in(house, run)


def test_a_run_in_which_all_passed_breaks_nothing(house):
    found = breaks(house)

    assert (found.claims, found.unloaded, found.others) == ((), (), ())
    assert (found.held, found.skipped) == (3, 0)


def test_each_kind_of_test_breaks_its_claim(house):
    topic = Topic(house, "part/one")
    with topic.tests.open("a") as file:
        file.write("\n\ndef test_word_is_one__also_so():\n    pass\n")

    found = breaks(
        house,
        test_word_is_one="failed",
        test_word_is_one__but_not_of_another="failed",
        test_word_is_one__also_so="failed",
    )

    [broken] = found.claims
    assert (broken.topic, broken.claim.name) == (topic, "word-is-one")
    assert [(each.kind, each.name) for each in broken.failures] == [
        ("test", "test_word_is_one"),
        ("counter-example", "test_word_is_one__but_not_of_another"),
        ("variation", "test_word_is_one__also_so"),
    ]
    assert broken.failures[0].place == "tests/part/test_one.py:1"
    assert found.held == 2


def test_the_cases_of_one_test_are_told_as_one(house):
    module = "tests.part.test_one"
    more = "".join(
        f'<testcase classname="{module}" name="test_word_is_one[{case}]">'
        f"{said}</testcase>"
        for case, said in (
            ("a", ""),
            ("b", '<failure message="second" />'),
            ("c", '<error message="third" />'),
        )
    )

    [broken] = breaks(house, more).claims

    [failed] = broken.failures
    assert (failed.name, failed.more) == ("test_word_is_one[b]", 1)
    assert failed.said == ("second",)


def test_a_module_that_cannot_be_loaded_brings_its_claims(house):
    found = breaks(house, LOST, without="tests.part.test_two")

    assert (found.claims, found.others, found.held) == ((), (), 2)
    [unloaded] = found.unloaded
    assert [claim.name for claim in unloaded.claims] == ["word-is-two"]
    assert unloaded.said == (
        "E   ModuleNotFoundError: No module named 'lost'",
    )


def test_a_failure_behind_which_no_claim_stands_is_not_lost(house):
    found = breaks(house, STRANGE)

    assert found.claims == ()
    [other] = found.others
    assert (other.place, other.kind) == ("tests/test_cuda_cells", "")
    assert (other.name, other.said) == ("test_a_cell[a]", ("one",))


def test_a_claim_whose_test_was_skipped_does_not_hold(house):
    found = breaks(house, test_word_is_one="skipped")

    assert (found.claims, found.held, found.skipped) == ((), 2, 1)


def test_a_page_whose_tests_did_not_run_does_not_count(house):
    found = breaks(house, without="tests.part.test_two")

    assert (found.held, found.skipped) == (2, 0)
